# Sourced by build and backend: where the programs of the backends are. Not a program itself.
#
# A program is taken from the first of these places that has it in the version that the recordings and tests are about:
#   $ROSTERD_BACKENDS                                    a folder of programs
#   ${ROSTERD_CACHE:-$HOME/.cache/rosterd}/backends      where ./build puts them
#   $PATH

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache=${ROSTERD_CACHE:-$HOME/.cache/rosterd}
built=$cache/backends

die() {
    echo "tests/backends: $*" >&2
    exit 1
}

# The version that ./build makes.
version_of() {
    case $1 in
        consul) sed -n 's/^require github.com\/hashicorp\/consul v//p' "$here/consul/go.mod" ;;
        etcd) sed -n 's/^require go.etcd.io\/etcd\/server\/v3 v//p' "$here/etcd/go.mod" ;;
        kube-apiserver) sed -n 's/^require k8s.io\/kubernetes v//p' "$here/kube-apiserver/go.mod" ;;
        *) die "$1 is not built here; consul, etcd and kube-apiserver are" ;;
    esac
}

# says PROGRAM FILE: the version that a file prints.
says() {
    case $1 in
        consul) "$2" version | sed -n '1s/^Consul v//p' ;;
        etcd) "$2" --version | sed -n '1s/^etcd Version: //p' ;;
        kube-apiserver) "$2" --version | sed -n '1s/^Kubernetes v//p' ;;
    esac
}

# find_program PROGRAM: its path; fails if there is none of the same minor version.
find_program() {
    local wanted place said
    wanted=$(version_of "$1") || exit 1
    for place in ${ROSTERD_BACKENDS:+"$ROSTERD_BACKENDS/$1"} "$built/$1" "$(type -P "$1")"; do
        [ -n "$place" ] && [ -x "$place" ] || continue
        said=$(says "$1" "$place" 2>/dev/null)
        if [ "${said%.*}" = "${wanted%.*}" ]; then
            echo "$place"
            return
        fi
        echo "tests/backends: passed over $place: version ${said:-unknown}, wanted ${wanted%.*}" >&2
    done
    return 1
}
