//! A new process that fails leaves the old one as it was.

use std::io::Write;
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::Signal;

use super::{Home, THRIFT};
use crate::support::{PATIENCE, Rosterd, Wire, folder, get, mux, request, wait_until};

/// The old process serves, is ready, and can still hand over.
fn serves_on(home: &Home, mut old: Rosterd) {
    assert_eq!(get(old.admin(), "/ready").text(), "ready\n");
    assert_eq!(get(old.http(), "/api/1/dtabs").text(), "[\"default\"]\n");
    let mut new = home.take_over("");
    assert_eq!((new.http(), new.admin()), (old.http(), old.admin()));
    assert_eq!(old.wait(PATIENCE).and_then(|status| status.code()), Some(0), "nobody was there to be waited for");
    new.wait_for_output("the files in stateDir are ours now");
    new.wait_until_ready();
}

#[test]
fn a_configuration_that_is_wrong_never_gets_to_the_running_process() {
    let home = Home::new();
    let old = home.start("");
    let wrong = home.config("limits: {depth: never}\n");
    let mut new = Rosterd::spawn_with(folder(), &wrong, &["--take-over"]);
    assert_eq!(new.wait(PATIENCE).and_then(|status| status.code()), Some(1));
    assert!(!old.output().contains("a new process asks"));
    serves_on(&home, old);
}

#[test]
fn a_new_process_whose_further_port_is_taken_ends_and_the_old_one_serves_on() {
    let home = Home::new();
    let old = home.start("");
    let taken = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
    let port = taken.local_addr().expect("bound").port();
    let config = home.config("").replace("stateDir", &format!("- {{kind: {THRIFT}, port: {port}}}\nstateDir"));
    let mut new = Rosterd::spawn_with(folder(), &config, &["--take-over"]);
    assert_eq!(new.wait(PATIENCE).and_then(|status| status.code()), Some(1));
    assert!(new.output().contains("address in use"), "{}", new.output());
    old.wait_for_output("serving on");
    serves_on(&home, old);
}

#[test]
fn a_new_process_that_is_killed_before_it_is_ready_changes_nothing() {
    let home = Home::new();
    let mut old = home.start("");
    // A name server that never answers holds it back.
    let (_silent, config) = with_silent_storage(&home);
    let mut new = Rosterd::spawn_with(folder(), &config, &["--take-over"]);
    new.wait_for_output("taking over from the running process");
    // Who connects meanwhile gets the old one's answer.
    assert_eq!(get(old.http(), "/api/1/dtabs").text(), "[\"default\"]\n");
    new.signal(Signal::KILL);
    new.wait(PATIENCE).expect("killed");
    old.wait_for_output("has failed; serving on");
    assert!(old.wait(Duration::ZERO).is_none());
    serves_on(&home, old);
}

/// A storage that takes connections and never answers.
fn with_silent_storage(home: &Home) -> (std::net::TcpListener, String) {
    let silent = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
    let port = silent.local_addr().expect("bound").port();
    let config = home.config("").replace(
        "storage: {kind: io.l5d.inMemory, namespaces: {default: '/svc => /#/io.l5d.fs'}}",
        &format!("storage: {{kind: io.l5d.consul, host: 127.0.0.1, port: {port}}}"),
    );
    (silent, config)
}

#[test]
fn a_new_process_whose_storage_does_not_answer_ends_and_the_old_one_serves_what_it_knows() {
    let home = Home::new();
    let old = home.start("");
    let (_silent, config) = with_silent_storage(&home);
    let mut new = Rosterd::spawn_with(folder(), &config, &["--take-over"]);
    assert_eq!(new.wait(Duration::from_secs(60)).and_then(|status| status.code()), Some(1));
    let why = format!("the storage has not answered for 20 s, and process {} knows what it last said", old.pid());
    assert!(new.output().contains(&why), "{}", new.output());
    serves_on(&home, old);
}

#[test]
fn a_new_process_whose_predecessor_dies_meanwhile_serves_at_once() {
    let home = Home::new();
    let mut old = home.start("");
    let (_silent, config) = with_silent_storage(&home);
    let mut new = Rosterd::spawn_with(folder(), &config, &["--take-over"]);
    new.wait_for_output("taking over from the running process");
    old.signal(Signal::KILL);
    old.wait(PATIENCE).expect("killed");
    new.wait_for_output("has ended; serving at once");
    new.learn_ports(&config);
    assert_eq!(new.http(), old.http());
    new.wait_for_output("the files in stateDir are ours now");
}

#[test]
fn if_the_new_process_dies_while_the_old_one_leaves_the_next_one_serves_at_once() {
    let home = Home::new();
    home.set("web", 1);
    let mut old = home.start("drain: {spreadMs: 0}\n");
    // A poll that keeps the old process for ten seconds.
    let mut router = mux::session(old.port(THRIFT));
    router.send(&mux::tdispatch(2, &mux::addr(b"", &["#", "io.l5d.fs", "web"], "default").write()));
    let known = mux::stamp(&mux::reply(&router.frame()));
    router.send(&mux::tdispatch(2, &mux::addr(&known, &["#", "io.l5d.fs", "web"], "default").write()));
    let mut new = home.take_over("");
    old.wait_for_output("a hand-over to process");
    new.signal(Signal::KILL);
    new.wait(PATIENCE).expect("killed");
    let (http, admin) = (old.http(), old.admin());
    let config = home.config("").replace("httpController, port: 0", &format!("httpController, port: {http}"));
    for arguments in [&["--take-over"][..], &[]] {
        let mut next = Rosterd::spawn_with(folder(), &config, arguments);
        next.learn_ports(&config);
        assert_eq!(get(http, "/api/1/dtabs").text(), "[\"default\"]\n");
        assert!(old.wait(Duration::ZERO).is_none(), "the old one is still there, and has the files");
        assert_ne!(next.admin(), admin, "a port 0 is any port");
        next.signal(Signal::KILL);
        next.wait(PATIENCE).expect("killed");
    }
    let mut last = Rosterd::spawn_with(folder(), &config, &["--take-over"]);
    last.learn_ports(&config);
    drop(router);
    assert_eq!(old.wait(PATIENCE).and_then(|status| status.code()), Some(0));
    last.wait_for_output("the files in stateDir are ours now");
}

#[test]
fn the_files_of_a_relay_are_left_alone_by_a_new_process_that_fails() {
    let home = Home::new();
    let relay = |dst: u16, more: &str| {
        format!(
            "interpreter: {{kind: io.l5d.namerd, dst: /$/inet/127.0.0.1/{dst}}}\ninterfaces:\n- {{kind: {THRIFT}, port: 0}}\n\
             {more}stateDir: {}/state\n",
            home.folder.path().display()
        )
    };
    let mut old = Rosterd::start(&relay(1, ""));
    old.signal(Signal::TERM);
    assert_eq!(old.wait(PATIENCE).and_then(|status| status.code()), Some(0));
    let file = home.folder.path().join("state/relay.snapshot.gz");
    let unfinished = home.folder.path().join("state/relay.snapshot.gz.new");
    let before = std::fs::read(&file).expect("it writes what it knows when it ends");
    let old = Rosterd::start(&relay(1, ""));
    std::fs::write(&unfinished, "the old process is writing it").expect("written");
    let taken = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
    let port = taken.local_addr().expect("bound").port();
    let mut new =
        Rosterd::spawn_with(folder(), &relay(2, &format!("- {{kind: {THRIFT}, port: {port}}}\n")), &["--take-over"]);
    assert_eq!(new.wait(PATIENCE).and_then(|status| status.code()), Some(1));
    assert!(new.output().contains("address in use"), "{}", new.output());
    // One that gets further, and is told to end before its turn.
    let new = Rosterd::spawn_with(folder(), &relay(2, ""), &["--take-over"]);
    old.wait_for_output("a hand-over to process");
    assert_eq!(std::fs::read(&file).expect("it is there"), before, "it is the old one's");
    assert!(unfinished.exists());
    drop(old);
    new.wait_for_output("the files in stateDir are ours now");
    new.wait_for_output("the file is set aside");
}

#[test]
fn a_supervisor_is_told_who_serves_and_how_it_is() {
    let home = Home::new();
    let path = home.folder.path().join("notify");
    let socket = std::os::unix::net::UnixDatagram::bind(&path).expect("a socket");
    socket.set_read_timeout(Some(PATIENCE)).expect("set");
    let hears = |wanted: &str| {
        let mut all = Vec::new();
        let mut bytes = [0; 4096];
        loop {
            let length = socket.recv(&mut bytes).unwrap_or_else(|error| panic!("no {wanted:?} in {all:?}: {error}"));
            let text = String::from_utf8(bytes[..length].to_vec()).expect("text");
            if text.contains(wanted) {
                return text;
            }
            assert!(!text.contains("STOPPING"), "{text}");
            all.push(text);
        }
    };
    let supervised = |arguments: &str| {
        let mut command = Command::new("sh");
        let script = format!("exec \"$0\" {arguments} \"$@\"");
        command.args(["-c", &script, env!("CARGO_BIN_EXE_rosterd")]).env("NOTIFY_SOCKET", &path);
        let mut rosterd = Rosterd::spawn_by(command, folder(), &home.config(""));
        rosterd.learn_ports(&home.config(""));
        rosterd
    };
    let mut old = supervised("");
    assert_eq!(hears("READY=1"), "READY=1\nSTATUS=serving\n");
    for (signal, name) in [(Signal::HUP, "SIGHUP"), (Signal::USR1, "SIGUSR1"), (Signal::USR2, "SIGUSR2")] {
        old.signal(signal);
        old.wait_for_output(&format!("{name} ignored"));
    }
    let new = supervised("--take-over");
    // Which of the two comes first is no matter.
    let told = [hears("STATUS="), hears("STATUS=")];
    let told = if told[0].contains("MAINPID") { told } else { [told[1].clone(), told[0].clone()] };
    assert_eq!(told, [format!("MAINPID={}\nSTATUS=took over\n", new.pid()), "READY=1\nSTATUS=serving\n".to_owned()]);
    assert_eq!(old.wait(PATIENCE).and_then(|status| status.code()), Some(0));
    new.signal(Signal::TERM);
    assert_eq!(hears("STOPPING=1"), "STOPPING=1\nSTATUS=draining\n", "the unit ends with this one");
}

#[test]
fn an_ordinary_start_with_the_files_of_another_process_is_refused() {
    let home = Home::new();
    let old = home.start("");
    let mut new = Rosterd::spawn_with(folder(), &home.config(""), &[]);
    assert_eq!(new.wait(PATIENCE).and_then(|status| status.code()), Some(1));
    let owner = format!("is in use by process {}; ", old.pid());
    assert!(new.output().contains(&owner) && new.output().contains("--take-over"), "{}", new.output());
    serves_on(&home, old);
}

#[test]
fn without_a_process_to_take_over_from_it_is_an_ordinary_start() {
    let home = Home::new();
    let mut first = home.take_over("");
    assert!(first.output().contains("no process to take over from: an ordinary start"), "{}", first.output());
    first.signal(Signal::KILL);
    first.wait(PATIENCE).expect("killed");
    let second = home.take_over("");
    assert!(
        second.output().contains("no process to take over from"),
        "what a killed process leaves is in nobody's way"
    );
}

#[test]
fn a_hand_over_needs_a_directory_for_it() {
    let config = "storage: {kind: io.l5d.inMemory}\ninterfaces: [{kind: io.l5d.httpController, port: 0}]\n";
    let mut new = Rosterd::spawn_with(folder(), config, &["--take-over"]);
    assert_eq!(new.wait(PATIENCE).and_then(|status| status.code()), Some(1));
    assert!(new.output().contains("--take-over needs `stateDir`"), "{}", new.output());
}

#[test]
fn a_supervisors_socket_is_served_and_one_that_nobody_would_serve_is_refused() {
    let home = Home::new();
    let socket = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
    let port = socket.local_addr().expect("bound").port();
    // As systemd does it: the socket is descriptor 3, and the variables name the process.
    let activated = |config: &str| {
        let mut command = Command::new("sh");
        let script = "exec 3<&0 </dev/null; LISTEN_FDS=1 LISTEN_FDNAMES=controller LISTEN_PID=$$ exec \"$0\" \"$@\"";
        command.args(["-c", script, env!("CARGO_BIN_EXE_rosterd")]);
        command.stdin(Stdio::from(std::os::fd::OwnedFd::from(socket.try_clone().expect("a descriptor is free"))));
        Rosterd::spawn_by(command, folder(), config)
    };
    let config = home.config("").replace("httpController, port: 0", &format!("httpController, port: {port}"));
    // This one came before the process.
    let mut early = TcpStream::connect(("127.0.0.1", port)).expect("the supervisor listens");
    early.write_all(b"GET /api/1/dtabs HTTP/1.1\r\nConnection: close\r\n\r\n").expect("written");
    let mut first = activated(&config);
    first.learn_ports(&config);
    assert_eq!(first.http(), port);
    let answer = std::io::read_to_string(&mut early).expect("an answer");
    assert!(answer.ends_with("[\"default\"]\n"), "{answer}");
    first.signal(Signal::TERM);
    assert_eq!(first.wait(PATIENCE).and_then(|status| status.code()), Some(0));
    // Who comes between two processes waits in the queue, for the next one.
    let mut between = TcpStream::connect(("127.0.0.1", port)).expect("the supervisor listens");
    between.write_all(b"GET /api/1/dtabs HTTP/1.1\r\nConnection: close\r\n\r\n").expect("written");
    let mut second = activated(&config);
    second.learn_ports(&config);
    assert!(std::io::read_to_string(&mut between).expect("an answer").ends_with("[\"default\"]\n"));

    let mut nobodys = activated(&home.config("").replace("/state", "/other"));
    assert_eq!(nobodys.wait(PATIENCE).and_then(|status| status.code()), Some(1));
    let output = nobodys.output();
    assert!(
        output.contains(&format!("the supervisor passes socket controller of the supervisor (127.0.0.1:{port})")),
        "{output}"
    );
}

#[test]
fn who_is_connected_to_the_old_process_is_answered_and_sent_to_the_new_one() {
    let home = Home::new();
    home.set("web", 1);
    let mut old = home.start("drain: {spreadMs: 0}\n");
    // A poll that keeps the old process for ten seconds.
    let mut router = mux::session(old.port(THRIFT));
    router.send(&mux::tdispatch(2, &mux::addr(b"", &["#", "io.l5d.fs", "web"], "default").write()));
    let known = mux::stamp(&mux::reply(&router.frame()));
    router.send(&mux::tdispatch(2, &mux::addr(&known, &["#", "io.l5d.fs", "web"], "default").write()));
    let mut kept = Wire::open(old.http());
    kept.send(b"GET /api/1/dtabs HTTP/1.1\r\n\r\n");
    assert_eq!(kept.answer(false).head.status(), 200);
    let mut health = Wire::open(old.admin());
    let mut new = home.take_over("");
    old.wait_for_output("a hand-over to process");

    kept.send(b"PUT /api/1/dtabs/default HTTP/1.1\r\nContent-Type: text/plain\r\nContent-Length: 6\r\n\r\n/a=>/b");
    let refused = kept.answer(false);
    let header = |name: &str| refused.head.header(name).map(str::to_owned);
    assert_eq!((refused.head.status(), header("retry-after")), (503, Some("1".to_owned())), "{refused:?}");
    assert_eq!(header("connection").as_deref(), Some("close"), "the next connection leads to the new process");
    health.send(b"GET /ready HTTP/1.1\r\n\r\n");
    let ready = health.answer(false);
    assert_eq!((ready.head.status(), ready.text()), (200, "ready\n"), "the address is well");
    assert_eq!(ready.head.header("connection"), Some("close"));
    let put = "PUT /api/1/dtabs/default HTTP/1.1\r\nContent-Type: text/plain\r\nContent-Length: 6\r\n\r\n/a=>/b";
    assert_eq!(request(new.http(), put).head.status(), 204);
    assert!(!new.output().contains("are ours now"), "the old process still has the files");

    let answer = router.frame_within(Duration::from_secs(15));
    assert_eq!(mux::stamp(&mux::reply(&answer)), known, "answered, and not cut");
    drop(router);
    assert_eq!(old.wait(PATIENCE).and_then(|status| status.code()), Some(0));
    new.wait_for_output("the files in stateDir are ours now");
    wait_until("the next process finds it", || home.folder.path().join("state/handover.sock").exists());
    new.wait_until_ready();
}

#[test]
fn what_is_new_in_the_configuration_is_opened_and_what_is_gone_is_closed() {
    let home = Home::new();
    let mut old = home.start("");
    let config = home
        .config("")
        .replace(&format!("- {{kind: {THRIFT}, port: 0}}"), "- {kind: io.l5d.httpController, port: 0, ip: 127.0.0.1}");
    let gone = old.port(THRIFT);
    let mut new = Rosterd::spawn_with(folder(), &config, &["--take-over"]);
    new.learn_ports(&config);
    assert_eq!(old.wait(PATIENCE).and_then(|status| status.code()), Some(0));
    let ports = new.ports("io.l5d.httpController");
    assert_eq!(ports[0], old.http());
    assert_eq!(get(ports[1], "/api/1/dtabs").text(), "[\"default\"]\n");
    assert!(TcpStream::connect(("127.0.0.1", gone)).is_err(), "closed");
}
