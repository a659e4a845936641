//! Relays: processes that ask another name server, and go on answering while it is away.

use std::net::TcpListener;
use std::path::PathBuf;
use std::process::Command;

use crate::support::{Answer, Authority, Chunk, PATIENCE, Rosterd, Wire, folder, get, request, wait_until};

const KINDS: [&str; 2] = ["io.l5d.namerd", "io.l5d.namerd.http"];

/// A name server with files, which can be ended and started again where it was.
struct Server {
    process: Option<Rosterd>,
    disco: tempfile::TempDir,
    thrift: u16,
    http: u16,
}

impl Server {
    fn start() -> Self {
        let disco = folder();
        std::fs::write(disco.path().join("web"), "10.0.0.1 8080\n10.0.0.2 8080\n").expect("written");
        std::fs::write(disco.path().join("new"), "10.0.1.1 8080 * 0.5\n").expect("written");
        let mut server = Self { process: None, disco, thrift: free_port(), http: free_port() };
        server.restart();
        server
    }

    fn restart(&mut self) {
        self.process = None;
        let Self { disco, thrift, http, .. } = self;
        let disco = disco.path().display();
        let dtab = "/host => /#/io.l5d.fs ; /svc => /host ; /svc/both => 0.7 * /host/web & 0.3 * /host/new";
        self.process = Some(Rosterd::start(&format!(
            "storage: {{kind: io.l5d.inMemory, namespaces: {{default: {dtab}}}}}\n\
             namers: [{{kind: io.l5d.fs, rootDir: {disco}}}]\n\
             interfaces:\n\
             - {{kind: io.l5d.thriftNameInterpreter, port: {thrift}}}\n\
             - {{kind: io.l5d.httpController, port: {http}}}\n\
             drain: {{spreadMs: 50}}\n",
        )));
    }

    fn stop(&mut self) {
        self.process = None;
    }

    fn file(&self, name: &str) -> PathBuf {
        self.disco.path().join(name)
    }

    fn relay(&self, kind: &str, controller: bool) -> Rosterd {
        let port = if kind == "io.l5d.namerd" { self.thrift } else { self.http };
        let controller =
            if controller { format!(", controller: 'http://127.0.0.1:{}'", self.http) } else { String::new() };
        Rosterd::start(&format!(
            "interpreter: {{kind: {kind}, dst: /$/inet/127.0.0.1/{port}, retry: {{baseSeconds: 1, maxSeconds: 1}}{controller}}}\n\
             interfaces:\n\
             - {{kind: io.l5d.thriftNameInterpreter, port: 0}}\n\
             - {{kind: io.l5d.httpController, port: 0}}\n",
        ))
    }
}

fn free_port() -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
    listener.local_addr().expect("bound").port()
}

fn write(port: u16, method: &str, ns: &str, headers: &str, dtab: &str) -> Answer {
    let length = dtab.len();
    request(
        port,
        &format!(
            "{method} /api/1/dtabs/{ns} HTTP/1.1\r\nHost: x\r\nContent-Type: application/dtab\r\n{headers}Content-Length: {length}\r\n\r\n{dtab}"
        ),
    )
}

#[test]
fn a_relay_asks_over_tls_and_checks_the_name_in_the_certificate() {
    let (files, authority) = (folder(), Authority::new());
    let at = |name: &str| files.path().join(name).display().to_string();
    std::fs::write(at("ca.pem"), &authority.pem).expect("written");
    authority.issue().write_to(files.path());
    let tls = format!("{{certPath: {}, keyPath: {}}}", at("cert.pem"), at("key.pem"));
    let server = Rosterd::start(&format!(
        "storage: {{kind: io.l5d.inMemory, namespaces: {{default: /svc => /$/inet/127.1/8080, bridged: '/#/plugin => /$/inet/127.1/9090'}}}}\n\
         interfaces:\n\
         - {{kind: io.l5d.thriftNameInterpreter, port: 0, tls: {tls}}}\n\
         - {{kind: io.l5d.httpController, port: 0, tls: {tls}}}\n",
    ));
    let ports = [server.port("io.l5d.thriftNameInterpreter"), server.http()];
    for (kind, port) in KINDS.into_iter().zip(ports) {
        let relay = |name: &str| {
            let tls = format!("{{commonName: {name}, trustCertsBundle: {}}}", at("ca.pem"));
            Rosterd::start(&format!(
                "interpreter: {{kind: {kind}, dst: /$/inet/127.0.0.1/{port}, tls: {tls}}}\n\
                 interfaces: [{{kind: io.l5d.httpController, port: 0}}]\n",
            ))
        };
        let good = relay("localhost");
        assert!(get(good.http(), "/api/1/resolve/default?path=/svc").text().contains("127.0.0.1"), "{kind}");
        let bad = relay("other.example");
        let mut asked = Wire::open(bad.http());
        asked.send(b"GET /api/1/resolve/default?path=/svc&watch=true HTTP/1.1\r\n\r\n");
        bad.wait_for_output("TLS: invalid peer certificate");
        assert!(get(bad.admin(), "/metrics").text().contains("outcome=\"tls\""), "{kind}");
        // The same for one namer, whose names are looked up in a namespace of their own.
        let bridge = Rosterd::start(&format!(
            "storage: {{kind: io.l5d.inMemory, namespaces: {{default: /svc => /#/plugin}}}}\n\
             namers:\n\
             - kind: io.rosterd.namerd\n\
             \x20 prefix: /plugin\n\
             \x20 protocol: {kind}\n\
             \x20 dst: /$/inet/127.0.0.1/{port}\n\
             \x20 namespace: bridged\n\
             \x20 retry: {{baseSeconds: 1, maxSeconds: 5}}\n\
             \x20 failureThreshold: {{minPeriodMs: 1000, closeTimeoutMs: 2000}}\n\
             \x20 tls: {{commonName: localhost, caCert: {}}}\n\
             interfaces: [{{kind: io.l5d.httpController, port: 0}}]\n",
            at("ca.pem"),
        ));
        assert!(get(bridge.http(), "/api/1/resolve/default?path=/svc").text().contains("9090"), "{kind}");
    }
}

#[test]
fn a_relay_answers_as_the_server_behind_it() {
    let server = Server::start();
    let relays = KINDS.map(|kind| server.relay(kind, true));
    for target in [
        "/api/1/resolve/default?path=/svc/web",
        "/api/1/bind/default?path=/svc/web/rest",
        "/api/1/bind/default?path=/svc/both",
        "/api/1/bind/default?path=/svc/gone",
        "/api/1/bind/other?path=/svc/web",
        "/api/1/bind/default?path=/svc/web&dtab=/svc=>/$/inet/127.1/80",
        "/api/1/addr/default?path=/%23/io.l5d.fs/new",
        "/api/1/addr/default?path=/%23/io.l5d.fs/gone",
        "/api/1/addr/default?path=/$/inet/127.1/8080",
        "/api/1/delegate/default?path=/svc/both",
        "/api/1/delegate?path=/svc/web&dtab=/svc=>/$/inet/127.1/80",
        "/api/1/dtabs",
        "/api/1/dtabs/default",
        "/api/1/dtabs/gone",
        "/api/1/bound-names",
    ] {
        let asked = get(server.http, target);
        for (kind, relay) in KINDS.iter().zip(&relays) {
            let relayed = get(relay.http(), target);
            // The thrift interface does not tell weights that neither have a node name nor an authority.
            let plain = |answer: &Answer| answer.text().replace("\"endpoint_addr_weight\":0.5", "");
            assert_eq!(plain(&relayed), plain(&asked), "{kind}: {target}");
            assert_eq!(relayed.head.status(), asked.head.status(), "{kind}: {target}");
            assert_eq!(relayed.head.header("etag"), asked.head.header("etag"), "{kind}: {target}");
        }
    }
}

#[test]
fn changes_come_through_a_relay_and_outages_do_not() {
    for kind in KINDS {
        let mut server = Server::start();
        let relay = server.relay(kind, true);
        let mut watch = Wire::open(relay.http());
        watch.send(b"GET /api/1/resolve/default?path=/svc/web&watch=true HTTP/1.1\r\n\r\n");
        assert_eq!(watch.head().status(), 200);
        let mut line = || match watch.chunk(PATIENCE) {
            Chunk::Data(data) => String::from_utf8(data).expect("text"),
            other => panic!("{kind}: {other:?} instead of a line"),
        };
        assert!(line().contains("10.0.0.2"), "{kind}");
        std::fs::write(server.file("web"), "10.0.0.3 8080\n").expect("written");
        assert!(line().contains("10.0.0.3"), "{kind}");
        let known = get(relay.http(), "/api/1/resolve/default?path=/svc/web");

        server.stop();
        wait_until("both watches are told as stale", || {
            get(relay.admin(), "/metrics").text().contains("condition=\"stale\"} 2")
        });
        assert!(get(relay.admin(), "/ready").text().contains("stale since"), "{kind}");
        let again = get(relay.http(), "/api/1/resolve/default?path=/svc/web");
        assert_eq!((again.head.status(), again.text()), (200, known.text()), "{kind}");
        let page = get(relay.admin(), &format!("/interpreter_state/{kind}.json"));
        let page: serde_json::Value = serde_json::from_str(page.text()).expect("JSON");
        let addr = &page["addr"]["/#/io.l5d.fs/web"];
        assert_eq!(addr["condition"], "stale", "{kind}: {page}");
        assert!(addr["poll"]["error"].as_str().is_some_and(|error| !error.is_empty()), "{kind}: {page}");
        let unknown = get(relay.http(), "/api/1/dtabs/default");
        assert_eq!(unknown.head.status(), 503, "{kind}: what is edited must be what is there: {unknown:?}");

        std::fs::write(server.file("web"), "10.0.0.4 8080\n").expect("written");
        server.restart();
        assert!(line().contains("10.0.0.4"), "{kind}");
        wait_until("it is as good as new", || get(relay.admin(), "/ready").text() == "ready\n");
    }
}

#[test]
fn a_relay_that_has_never_reached_anybody_says_so_and_names_whom() {
    for kind in KINDS {
        let mut server = Server::start();
        let relay = server.relay(kind, true);
        assert_eq!(get(relay.admin(), "/ready").text(), "ready\n", "{kind}: nobody was asked yet");
        server.stop();
        let port = if kind == "io.l5d.namerd" { server.thrift } else { server.http };
        let asked = format!("/$/inet/127.0.0.1/{port}");
        let mut watch = Wire::open(relay.http());
        watch.send(b"GET /api/1/resolve/default?path=/svc/web&watch=true HTTP/1.1\r\n\r\n");
        let told = format!("{asked}: no server can be asked: 127.0.0.1:{port}: ");
        wait_until("it says that it reaches nobody", || get(relay.admin(), "/ready").text().contains(&told));
        assert!(get(relay.admin(), "/ready").text().starts_with("degraded: "), "{kind}");
        let explained = get(relay.http(), "/api/1/delegate/default?path=/svc/web");
        let at = format!("{asked} (127.0.0.1:{port}): ");
        assert_eq!(explained.head.status(), 503, "{kind}: {explained:?}");
        assert!(explained.text().starts_with(&format!("Request timed out. {at}")), "{kind}: {explained:?}");
        let list = get(relay.http(), "/api/1/dtabs");
        let at = format!("http://127.0.0.1:{http} (127.0.0.1:{http}): ", http = server.http);
        assert!(list.head.status() == 503 && list.text().contains(&at), "{kind}: {list:?}");
        server.restart();
        wait_until("it is as good as new", || get(relay.admin(), "/ready").text() == "ready\n");
    }
}

#[test]
fn check_asks_the_servers_of_a_relay_and_of_a_bridge() {
    let server = Server::start();
    let check = |config: &str| {
        let folder = folder();
        let file = folder.path().join("relay.yaml");
        std::fs::write(&file, format!("{config}\ninterfaces: [{{kind: io.l5d.httpController}}]\n")).expect("written");
        let mut command = Command::new(env!("CARGO_BIN_EXE_rosterd"));
        let done = command.arg("check").arg("--connect").arg(&file).output().expect("it can be run");
        (done.status.success(), String::from_utf8(done.stderr).expect("text"))
    };
    let relay = |kind: &str, port: u16, controller: u16| {
        let controller = format!("controller: 'http://127.0.0.1:{controller}'");
        format!("interpreter: {{kind: {kind}, dst: /$/inet/127.0.0.1/{port}, {controller}}}")
    };
    for (kind, port) in KINDS.into_iter().zip([server.thrift, server.http]) {
        let dst = format!("/$/inet/127.0.0.1/{port}");
        let (good, told) = check(&relay(kind, port, server.http));
        assert!(good && told.contains(&format!("ok: interpreter {kind}: {dst}: answers; addresses: 1")), "{told}");
        assert!(told.contains(": namespaces that can be read: 1"), "{told}");
        let nobody = free_port();
        let (good, told) = check(&relay(kind, nobody, nobody));
        let at = format!("failed: interpreter {kind}: /$/inet/127.0.0.1/{nobody}: ");
        assert!(!good && told.contains(&at) && told.contains("2 of 2 probes failed"), "{told}");
        // The thrift port instead of the HTTP one, and the other way round.
        let (good, told) =
            check(&relay(kind, if port == server.http { server.thrift } else { server.http }, server.http));
        assert!(!good && told.contains("is this the address of the ") && told.contains("1 of 2 probes"), "{told}");
        let bridge = |port: u16| {
            let namer = format!("{{kind: io.rosterd.namerd, protocol: {kind}, dst: /$/inet/127.0.0.1/{port}}}");
            check(&format!("storage: {{kind: io.l5d.inMemory}}\nnamers: [{namer}]"))
        };
        let (good, told) = bridge(port);
        assert!(good && told.contains("ok: namer /#/io.rosterd.namerd: "), "{told}");
        assert!(!bridge(nobody).0);
    }
}

#[test]
fn writes_go_to_the_controller_and_are_seen_at_once() {
    let server = Server::start();
    for kind in KINDS {
        let relay = server.relay(kind, true);
        let (port, here) = (relay.http(), server.http);
        assert_eq!(write(port, "POST", "new", "", "/svc => /$/nil").head.status(), 204);
        assert_eq!(write(port, "POST", "new", "", "/svc => /$/nil").head.status(), 409);
        assert_eq!(get(port, "/api/1/dtabs").text(), "[\"default\",\"new\"]\n");
        let stored = get(port, "/api/1/dtabs/new");
        assert_eq!(stored.text(), get(here, "/api/1/dtabs/new").text());
        let version = stored.head.header("etag").expect("a version").to_owned();
        let with = |version: &str| format!("If-Match: {version}\r\n");
        assert_eq!(write(port, "PUT", "new", &with(&version), "/svc => /$/inet/127.1/80").head.status(), 204);
        assert!(get(port, "/api/1/dtabs/new").text().contains("127.1"), "a read after a write sees it");
        let late = write(port, "PUT", "new", &with(&version), "/svc => /$/fail");
        let newest = get(here, "/api/1/dtabs/new").head.header("etag").map(str::to_owned);
        assert_eq!((late.head.status(), late.head.header("etag").map(str::to_owned)), (412, newest));
        assert_eq!(write(port, "PUT", "new", "", "/svc => (").head.status(), 400);
        wait_until("a binding under it follows", || {
            get(port, "/api/1/resolve/new?path=/svc").text().contains("127.0.0.1")
        });
        assert_eq!(write(port, "DELETE", "new", "", "").head.status(), 204);
        assert_eq!(write(port, "DELETE", "new", "", "").head.status(), 404);
        assert_eq!(get(port, "/api/1/dtabs/new").head.status(), 404);
        assert_eq!(get(port, "/api/1/dtabs").text(), "[\"default\"]\n");
    }
}

#[test]
fn without_a_controller_lists_and_writes_are_refused_by_name() {
    let server = Server::start();
    for kind in KINDS {
        let relay = server.relay(kind, false);
        for refused in [
            get(relay.http(), "/api/1/dtabs"),
            get(relay.http(), "/api/1/dtabs?watch=true"),
            get(relay.http(), "/api/1/bound-names"),
            write(relay.http(), "POST", "new", "", "/svc => /$/nil"),
            write(relay.http(), "PUT", "new", "", "/svc => /$/nil"),
            write(relay.http(), "DELETE", "default", "", ""),
        ] {
            assert_eq!(refused.head.status(), 501, "{kind}: {refused:?}");
            assert!(refused.text().contains("/$/inet/127.0.0.1/"), "{kind}: {refused:?}");
            assert!(refused.text().contains("interpreter.controller"), "{kind}: {refused:?}");
        }
        let dtab = get(relay.http(), "/api/1/dtabs/default");
        assert_eq!(dtab.text(), get(server.http, "/api/1/dtabs/default").text(), "{kind}");
    }
}

#[test]
fn a_namer_of_another_server_is_bridged_under_its_own_ids() {
    let server = Server::start();
    for (kind, port) in KINDS.into_iter().zip([server.thrift, server.http]) {
        let bridge = Rosterd::start(&format!(
            "storage: {{kind: io.l5d.inMemory, namespaces: {{default: /svc => /#/io.l5d.fs}}}}\n\
             namers: [{{kind: io.rosterd.namerd, prefix: /io.l5d.fs, protocol: {kind}, dst: /$/inet/127.0.0.1/{port}}}]\n\
             interfaces: [{{kind: io.l5d.httpController, port: 0}}]\n",
        ));
        for path in ["web/rest", "gone"] {
            let bridged = get(bridge.http(), &format!("/api/1/bind/default?path=/svc/{path}"));
            assert_eq!(
                bridged.text(),
                get(server.http, &format!("/api/1/bind/default?path=/svc/{path}")).text(),
                "{kind}"
            );
        }
        let resolve = || get(bridge.http(), "/api/1/resolve/default?path=/svc/web").text().to_owned();
        let before = resolve();
        assert!(before.contains("10.0.0.1"), "{kind}: {before}");
        let file = server.file("web");
        std::fs::write(&file, "10.0.9.9 8080\n").expect("written");
        wait_until("a change comes through", || resolve().contains("10.0.9.9"));
        std::fs::write(&file, "10.0.0.1 8080\n10.0.0.2 8080\n").expect("written");
    }
}

#[test]
fn a_bridge_keeps_what_it_knew_while_the_other_server_is_away() {
    for kind in KINDS {
        let mut server = Server::start();
        let port = if kind == "io.l5d.namerd" { server.thrift } else { server.http };
        let bridge = Rosterd::start(&format!(
            "storage: {{kind: io.l5d.inMemory, namespaces: {{default: /svc => /#/io.l5d.fs}}}}\n\
             namers: [{{kind: io.rosterd.namerd, prefix: /io.l5d.fs, protocol: {kind}, dst: /$/inet/127.0.0.1/{port}}}]\n\
             interfaces: [{{kind: io.l5d.httpController, port: 0}}]\n",
        ));
        let resolve = || get(bridge.http(), "/api/1/resolve/default?path=/svc/web").text().to_owned();
        let before = resolve();
        assert!(before.contains("10.0.0.1"), "{kind}: {before}");
        server.stop();
        wait_until("it is told as stale", || {
            get(bridge.admin(), "/ready").text().contains("/#/io.l5d.fs: stale since")
        });
        assert_eq!(resolve(), before, "{kind}");
        std::fs::write(server.file("web"), "10.0.9.9 8080\n").expect("written");
        server.restart();
        wait_until("it is followed again", || resolve().contains("10.0.9.9"));
        wait_until("it is as good as new", || get(bridge.admin(), "/ready").text() == "ready\n");
    }
}

/// A relay that keeps what it knows in a folder, and asks for it to be there when it is started anew.
fn keeping(server: &Server, kind: &str, state: &std::path::Path) -> Rosterd {
    let port = if kind == "io.l5d.namerd" { server.thrift } else { server.http };
    let relay = Rosterd::start(&format!(
        "stateDir: {}\n\
         interpreter: {{kind: {kind}, dst: /$/inet/127.0.0.1/{port}, retry: {{baseSeconds: 1, maxSeconds: 1}}}}\n\
         interfaces:\n\
         - {{kind: io.l5d.thriftNameInterpreter, port: 0}}\n\
         - {{kind: io.l5d.httpController, port: 0}}\n",
        state.display()
    ));
    assert!(!relay.output().contains("has no effect"), "{}", relay.output());
    relay
}

#[test]
fn what_a_relay_knew_it_knows_after_a_restart_while_its_servers_are_away() {
    for kind in KINDS {
        let (mut server, state) = (Server::start(), folder());
        let file = state.path().join("made/relay.snapshot.gz");
        let asked = ["/api/1/resolve/default?path=/svc/web", "/api/1/bind/default?path=/svc/both"];
        let relay = keeping(&server, kind, &state.path().join("made"));
        let known = asked.map(|target| get(relay.http(), target).text().to_owned());
        assert!(known[0].contains("10.0.0.2") && known[1].contains("/#/io.l5d.fs/new"), "{kind}: {known:?}");
        wait_until("it is written while the relay runs", || file.exists());
        std::fs::write(server.file("web"), "10.0.0.5 8080\n").expect("written");
        wait_until("it changes", || asked.iter().all(|target| get(relay.http(), target).text().contains("10.0.0.5")));
        let newest = asked.map(|target| get(relay.http(), target).text().to_owned());
        server.stop();
        drop(relay); // it ends in good order, and writes what it knows last

        let relay = keeping(&server, kind, &state.path().join("made"));
        assert_eq!(asked.map(|target| get(relay.http(), target).text().to_owned()), newest, "{kind}");
        let metrics = get(relay.admin(), "/metrics");
        let metrics = metrics.text();
        assert!(metrics.contains("condition=\"stale\"} 4"), "two bindings, two address sets: {metrics}");
        assert!(get(relay.admin(), "/ready").text().contains("stale since"), "{kind}");
        // Once more, with nobody there and nothing asked.
        drop(relay);
        let mut relay = keeping(&server, kind, &state.path().join("made"));
        relay.signal(rustix::process::Signal::KILL);
        relay.wait(PATIENCE).expect("it is gone");
        let relay = keeping(&server, kind, &state.path().join("made"));
        assert_eq!(get(relay.http(), asked[0]).text(), newest[0], "{kind}");

        std::fs::write(server.file("web"), "10.0.0.6 8080\n").expect("written");
        server.restart();
        wait_until("servers that are there again are believed", || {
            get(relay.http(), asked[0]).text().contains("10.0.0.6")
        });
        wait_until("it is as good as new", || get(relay.admin(), "/ready").text() == "ready\n");
    }
}

#[test]
fn a_file_of_last_values_that_is_spoilt_is_set_aside_and_told() {
    let (server, state) = (Server::start(), folder());
    let file = state.path().join("relay.snapshot.gz");
    std::fs::write(&file, "not what it should be").expect("written");
    let relay = keeping(&server, KINDS[0], state.path());
    let told = "the file of last good values of the earlier process cannot be read; the file is set aside";
    assert!(relay.output().contains(told), "{}", relay.output());
    assert!(get(relay.http(), "/api/1/resolve/default?path=/svc/web").text().contains("10.0.0.1"));
    assert!(!file.exists() && state.path().join("relay.snapshot.gz.unreadable").exists());
    wait_until("a new one is written", || file.exists());
}
