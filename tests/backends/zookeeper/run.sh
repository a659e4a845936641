# Sourced by ../backend: ZooKeeper 3.8 as Debian packages it (zookeeper, and a Java runtime). Port 18 of the block.

env_zookeeper() { echo "ZOOKEEPER=127.0.0.1:$((port + 18))"; }

zookeeper_serves() {
    # `ruok` says yes while it does not serve requests yet.
    [[ $(timeout 2 bash -c 'exec 3<>"/dev/tcp/127.0.0.1/$1" && printf srvr >&3 && cat <&3' - $((port + 18)) 2>/dev/null) == *"Mode: "* ]]
}

start_zookeeper() {
    local jars=/usr/share/java here_data
    here_data=$(folder zookeeper)
    [ -e "$jars/zookeeper.jar" ] && type -P java >/dev/null || die "ZooKeeper is not there; install the packages zookeeper and default-jre-headless"
    mkdir -p "$here_data/data"
    cat >"$here_data/zoo.cfg" <<Z
tickTime=500
dataDir=$here_data/data
clientPort=$((port + 18))
clientPortAddress=127.0.0.1
maxClientCnxns=0
admin.enableServer=false
4lw.commands.whitelist=ruok,srvr,mntr,wchp,wchc,cons
Z
    # Without a binding of slf4j nothing is logged.
    spawn zookeeper java -Xmx192m -Dzookeeper.jmx.log4j.disable=true -Dorg.slf4j.simpleLogger.defaultLogLevel=warn \
        -cp "$jars/zookeeper.jar:$jars/slf4j-simple.jar" org.apache.zookeeper.server.quorum.QuorumPeerMain "$here_data/zoo.cfg"
    wait_for zookeeper 30 zookeeper_serves
}
