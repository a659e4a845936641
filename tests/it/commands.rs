//! The command line against the running process.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use crate::support::{PATIENCE, Rosterd, folder, get, in_project, request};

/// A command with this server.
fn command(rosterd: &Rosterd, line: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rosterd"));
    command
        .args(line)
        .env("ROSTERD_SERVER", format!("http://127.0.0.1:{}", rosterd.http()))
        .env("ROSTERD_ADMIN", format!("http://127.0.0.1:{}", rosterd.admin()))
        .stdin(Stdio::null());
    command
}

/// Its standard output, after a success.
fn done(mut command: Command) -> String {
    let Output { status, stdout, stderr } = command.output().expect("the binary under test exists");
    assert!(status.success(), "{command:?}: {}", String::from_utf8_lossy(&stderr));
    String::from_utf8(stdout).expect("text")
}

/// The quickstart with files of its own, on ports of its own.
fn quickstart() -> (Rosterd, std::path::PathBuf) {
    let folder = folder();
    let disco = folder.path().join("config/quickstart");
    fs::create_dir_all(&disco).expect("the folder is empty");
    for name in ["web", "users"] {
        fs::copy(in_project("config/quickstart").join(name), disco.join(name)).expect("the quickstart has both");
    }
    let config = fs::read_to_string(in_project("config/quickstart.yaml")).expect("the quickstart is there");
    let (elsewhere, interfaces) = config.split_once("interfaces:\n").expect("it has interfaces");
    let interfaces = interfaces.replace("- kind:", "- port: 0\n  kind:");
    (Rosterd::start_in(folder, &format!("{elsewhere}interfaces:\n{interfaces}")), disco)
}

/// The command of the README, without its prompt.
const WEB_GOES_TO_USERS: &str = "/host => /#/io.l5d.fs ; /svc => /host ; /svc/web => /host/users";

#[test]
fn what_the_readme_shows_is_what_comes_out() {
    let (rosterd, disco) = quickstart();
    let readme = fs::read_to_string(in_project("README.md")).expect("there is one");
    let shown = |what: &str| assert!(readme.contains(what), "not in the README:\n{what}");

    shown(get(rosterd.http(), "/api/1/resolve/default?path=/svc/web").text());

    let web = fs::read_to_string(disco.join("web")).expect("copied");
    fs::write(disco.join("web"), web + "127.0.0.1 9003\n").expect("writable");
    let deadline = Instant::now() + PATIENCE;
    while !done(command(&rosterd, &["resolve", "default", "/svc/web"])).contains("9003") {
        assert!(Instant::now() < deadline, "the new address never came");
    }

    shown(WEB_GOES_TO_USERS);
    let put = format!(
        "PUT /api/1/dtabs/default HTTP/1.1\r\nContent-Type: application/dtab\r\nContent-Length: {}\r\n\r\n{}",
        WEB_GOES_TO_USERS.len(),
        WEB_GOES_TO_USERS
    );
    assert_eq!(request(rosterd.http(), &put).head.status(), 204);
    shown(&done(command(&rosterd, &["delegate", "default", "/svc/web"])));
}

#[test]
fn an_edit_reaches_those_who_watch() {
    let (rosterd, _disco) = quickstart();
    let mut watch = command(&rosterd, &["watch", "default", "/svc/web"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("the binary under test exists");
    let mut lines = BufReader::new(watch.stdout.take().expect("piped")).lines();
    let mut next = || {
        let line = lines.next().expect("the watch goes on").expect("text");
        line.split_once("Z ").expect("a time stands first").1.to_owned()
    };
    assert_eq!(next(), "bind /#/io.l5d.fs/web");
    assert_eq!(next(), "addr /#/io.l5d.fs/web: 2 addresses +127.0.0.1:9001 +127.0.0.1:9002");

    let mut edit = command(&rosterd, &["dtab", "edit", "default"]);
    edit.env_remove("VISUAL").env("EDITOR", "sed -i 's,^/svc .*,/svc => /host ; /svc/web => /host/users,'");
    done(edit);
    assert_eq!(next(), "bind /#/io.l5d.fs/users");
    let dtab = done(command(&rosterd, &["dtab", "get", "default"]));
    assert_eq!(
        dtab,
        "# version AAAAAAAAAAI=\n/host    => /#/io.l5d.fs ;\n/svc     => /host ;\n/svc/web => /host/users ;\n"
    );

    // The reader leaves, and the watch with it, although nothing happens any more.
    assert!(next().starts_with("addr /#/io.l5d.fs/users: 2 addresses"));
    drop(lines);
    let deadline = Instant::now() + PATIENCE;
    let status = loop {
        if let Some(status) = watch.try_wait().expect("the child is ours") {
            break status;
        }
        if Instant::now() > deadline {
            watch.kill().expect("the child is ours");
            panic!("the watch goes on without a reader");
        }
        std::thread::sleep(Duration::from_millis(10));
    };
    assert!(status.success(), "{status}");
}

#[test]
fn a_health_check_follows_the_process() {
    let (rosterd, _disco) = quickstart();
    assert_eq!(done(command(&rosterd, &["healthcheck"])), "ready\n");
    let mut after = command(&rosterd, &["healthcheck"]);
    drop(rosterd);
    assert_eq!(after.output().expect("the binary under test exists").status.code(), Some(1));
}
