//! TLS of interfaces and of the admin server.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::support::{Authority, Chunk, Connection, PATIENCE, Rosterd, Wire, folder, get, in_project, mux};

const TLS: &str = "tls: {certPath: cert.pem, keyPath: key.pem}";
const STORAGE: &str = "storage: {kind: io.l5d.inMemory, namespaces: {default: '/svc => /#/io.l5d.fs'}}";

/// A rosterd whose controller has this `tls`, in a folder with `cert.pem`, `key.pem` and `ca.pem` of a new CA.
fn rosterd(tls: &str, more: &str) -> (Authority, Rosterd) {
    let (authority, folder) = (Authority::new(), folder());
    authority.issue().write_to(folder.path());
    std::fs::write(folder.path().join("ca.pem"), &authority.pem).expect("the folder is writable");
    let config = format!("{STORAGE}\ninterfaces:\n- {{kind: io.l5d.httpController, port: 0, {tls}}}\n{more}");
    (authority, Rosterd::start_in(folder, &config))
}

fn open(port: u16, authority: &Authority) -> Wire {
    Wire::on(Connection::open_tls(port, authority.client(None)).expect("a handshake").0)
}

fn ask(wire: &mut Wire, target: &str) -> String {
    wire.send(format!("GET {target} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes());
    wire.answer(false).text().to_owned()
}

/// The value of one of rosterd's own metrics.
fn metric(rosterd: &Rosterd, name: &str) -> String {
    let metrics = get(rosterd.admin(), "/metrics");
    let line = metrics.text().lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("no {name}"));
    line.rsplit(' ').next().unwrap_or_default().to_owned()
}

fn wait_for_metric(rosterd: &Rosterd, name: &str, value: &str) {
    let deadline = Instant::now() + PATIENCE;
    while metric(rosterd, name) != value {
        assert!(Instant::now() < deadline, "{name} is {} instead of {value}", metric(rosterd, name));
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn the_controller_and_the_admin_server_answer_over_tls() {
    let (authority, folder) = (Authority::new(), folder());
    authority.issue().write_to(folder.path());
    let config = format!(
        "admin: {{port: 0, {TLS}}}\n{STORAGE}\ninterfaces:\n- {{kind: io.l5d.httpController, port: 0, {TLS}}}\n"
    );
    let rosterd = Rosterd::launch_in(folder, &config);
    assert!(rosterd.output().contains("serving https on /127.0.0.1:"), "{}", rosterd.output());
    let mut admin = open(rosterd.admin(), &authority);
    assert_eq!(ask(&mut admin, "/admin/ping"), "pong");
    assert_eq!(ask(&mut open(rosterd.http(), &authority), "/api/1/dtabs"), "[\"default\"]\n");
    let shown = ask(&mut admin, "/config.json");
    assert!(shown.contains("\"keyPath\":\"key.pem\"") && !shown.contains("PRIVATE"), "{shown}");
    let legacy = ask(&mut admin, "/admin/metrics.json?q=adminhttp/tls");
    assert_eq!(legacy, "{\"connections\":1.0}");
    let page = ask(&mut admin, "/metrics");
    assert!(page.contains("rosterd_tls_handshakes_total{server=\"interfaces[0]\"} 1\n"), "{page}");
}

#[test]
fn a_router_speaks_thriftmux_over_tls() {
    let (authority, folder) = (Authority::new(), folder());
    authority.issue().write_to(folder.path());
    let config = format!("{STORAGE}\ninterfaces:\n- {{kind: io.l5d.thriftNameInterpreter, port: 0, {TLS}}}\n");
    let rosterd = Rosterd::start_in(folder, &config);
    let port = rosterd.port("io.l5d.thriftNameInterpreter");
    let (connection, _) = Connection::open_tls(port, authority.client(None)).expect("a handshake");
    let mut session = mux::session_on(connection);
    session.send(mux::TPING);
    assert_eq!(session.frame(), mux::RPING);
    let call = mux::bind("/svc=>/$/inet/127.0.0.1/8080", b"", &["svc", "web"], "default");
    session.send(&mux::tdispatch(2, &call.write()));
    assert_eq!(mux::stamp(&mux::reply(&session.frame())).len(), 8);
    let legacy = get(rosterd.admin(), "/admin/metrics.json?q=interface/io.l5d.thriftNameInterpreter/thrift/tls");
    assert_eq!(legacy.text(), "{\"connections\":1.0}");
}

#[test]
fn an_answer_of_many_records_and_a_watch_arrive_whole() {
    let (authority, rosterd) = rosterd(TLS, "");
    let dtab: String = (0..40_000).map(|number| format!("/s{number}=>/#/io.l5d.fs/web{number};")).collect();
    let mut wire = open(rosterd.http(), &authority);
    wire.send(
        format!(
            "PUT /api/1/dtabs/default HTTP/1.1\r\nContent-Type: application/dtab\r\nContent-Length: {}\r\n\r\n{dtab}",
            dtab.len()
        )
        .as_bytes(),
    );
    assert_eq!(wire.answer(false).head.status(), 204);
    wire.send(b"GET /api/1/dtabs/default?watch=true HTTP/1.1\r\nAccept: application/dtab\r\n\r\n");
    assert_eq!(wire.head().status(), 200);
    let Chunk::Data(first) = wire.chunk(PATIENCE) else { panic!("no first value") };
    assert!(first.len() > 1_000_000, "{} bytes", first.len());
    let mut other = open(rosterd.http(), &authority);
    other.send(
        b"PUT /api/1/dtabs/default HTTP/1.1\r\nContent-Type: application/dtab\r\nContent-Length: 6\r\n\r\n/a=>/b",
    );
    assert_eq!(other.answer(false).head.status(), 204);
    assert_eq!(wire.chunk(PATIENCE), Chunk::Data(b"/a=>/b\n".to_vec()));
}

#[test]
fn where_clients_must_show_a_certificate_only_those_of_the_ca_are_let_in() {
    let (authority, rosterd) =
        rosterd("tls: {certPath: cert.pem, keyPath: key.pem, caCertPath: ca.pem, requireClientAuth: true}", "");
    let shown = authority.issue();
    let (connection, _) = Connection::open_tls(rosterd.http(), authority.client(Some(&shown))).expect("a handshake");
    assert_eq!(ask(&mut Wire::on(connection), "/api/1/dtabs"), "[\"default\"]\n");
    let stranger = Authority::new().issue();
    for own in [None, Some(&stranger)] {
        // In TLS 1.3 the client is done before the server has seen its certificate.
        if let Ok((connection, _)) = Connection::open_tls(rosterd.http(), authority.client(own)) {
            let mut wire = Wire::on(connection);
            assert_eq!(wire.rest(PATIENCE), b"");
            assert!(wire.cut());
        }
    }
    wait_for_metric(
        &rosterd,
        "rosterd_tls_handshake_failures_total{server=\"interfaces[0]\",reason=\"client_certificate\"}",
        "2",
    );
    rosterd.wait_for_output("the client shows no certificate, and `requireClientAuth` asks for one; give the client");
}

#[test]
fn a_renewed_certificate_is_used_at_once_and_open_connections_go_on() {
    let (authority, rosterd) = rosterd(TLS, "");
    let connect = || Connection::open_tls(rosterd.http(), authority.client(None)).expect("a handshake");
    let (old, before) = connect();
    let mut old = Wire::on(old);
    old.send(b"GET /api/1/dtabs?watch=true HTTP/1.1\r\n\r\n");
    assert_eq!(old.head().status(), 200);
    assert_eq!(old.chunk(PATIENCE), Chunk::Data(b"[\"default\"]\n".to_vec()));

    std::fs::write(rosterd.folder().join("cert.pem"), "nonsense").expect("the folder is writable");
    rosterd.wait_for_output("TLS: files have changed and are not used, the old ones go on: cert.pem: this is not PEM");
    let ready = get(rosterd.admin(), "/ready");
    assert_eq!(ready.head.status(), 200);
    assert!(ready.text().starts_with("degraded: TLS of interfaces[0]: renewed files are not used: "), "{ready:?}");
    assert_eq!(connect().1, before);

    authority.issue().write_to(rosterd.folder());
    rosterd.wait_for_output("TLS: files have changed, new handshakes use them");
    let (new, after) = connect();
    let mut new = Wire::on(new);
    assert_ne!(after, before);
    assert_eq!(get(rosterd.admin(), "/ready").text(), "ready\n");
    new.send(b"POST /api/1/dtabs/other HTTP/1.1\r\nContent-Type: application/dtab\r\nContent-Length: 0\r\n\r\n");
    assert_eq!(new.answer(false).head.status(), 204);
    assert_eq!(old.chunk(PATIENCE), Chunk::Data(b"[\"default\",\"other\"]\n".to_vec()));
}

#[test]
fn another_protocol_on_the_port_leaves_one_line_and_a_health_check_none() {
    let (_, rosterd) = rosterd(TLS, "");
    for _ in 0..20 {
        drop(TcpStream::connect(("127.0.0.1", rosterd.http())).expect("the port is served"));
    }
    for _ in 0..20 {
        let mut client = TcpStream::connect(("127.0.0.1", rosterd.http())).expect("the port is served");
        client.set_read_timeout(Some(PATIENCE)).expect("a fresh socket takes options");
        client.write_all(b"GET /api/1/dtabs HTTP/1.1\r\n\r\n").expect("written");
        let mut answer = Vec::new();
        let _ = client.read_to_end(&mut answer); // a reset, since nothing was read
        assert_eq!(answer, b"");
    }
    wait_for_metric(
        &rosterd,
        "rosterd_tls_handshake_failures_total{server=\"interfaces[0]\",reason=\"not_tls\"}",
        "20",
    );
    let output = rosterd.output();
    let lines: Vec<&str> = output.lines().filter(|line| line.contains("handshake failed")).collect();
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(lines[0].contains("the client does not speak TLS, but HTTP/1.1; give it a `tls` block"), "{}", lines[0]);
    assert_eq!(metric(&rosterd, "rosterd_tls_handshake_failures_total{server=\"interfaces[0]\",reason=\"gone\"}"), "0");
}

#[test]
fn handshakes_that_hang_delay_nobody_and_are_closed_after_ten_seconds() {
    let (authority, rosterd) = rosterd(TLS, "");
    let began = Instant::now();
    let mut hanging = Vec::new();
    for _ in 0..500 {
        let mut client = TcpStream::connect(("127.0.0.1", rosterd.http())).expect("the port is served");
        client.write_all(b"\x16\x03\x01\x02\x00\x01\x00").expect("written");
        hanging.push(client);
    }
    for _ in 0..20 {
        let asked = Instant::now();
        assert_eq!(ask(&mut open(rosterd.http(), &authority), "/api/1/dtabs"), "[\"default\"]\n");
        assert!(asked.elapsed() < Duration::from_secs(1), "{:?}", asked.elapsed());
    }
    for mut client in hanging {
        client.set_read_timeout(Some(Duration::from_secs(15))).expect("a socket takes options");
        let read = client.read(&mut [0; 64]);
        assert!(!matches!(&read, Err(error) if error.kind() == std::io::ErrorKind::WouldBlock), "still open");
    }
    let took = began.elapsed();
    assert!(took >= Duration::from_secs(10) && took < Duration::from_secs(15), "{took:?}");
    wait_for_metric(&rosterd, "rosterd_tls_handshake_failures_total{server=\"interfaces[0]\",reason=\"slow\"}", "500");
}

#[test]
fn a_drain_serves_handshakes_to_the_end_and_closes_in_order() {
    let (authority, mut rosterd) = rosterd(TLS, "drain: {lameDuckMs: 500, spreadMs: 0}\n");
    let mut idle = open(rosterd.http(), &authority);
    assert_eq!(ask(&mut idle, "/api/1/dtabs"), "[\"default\"]\n");
    let mut watch = open(rosterd.http(), &authority);
    watch.send(b"GET /api/1/dtabs?watch=true HTTP/1.1\r\n\r\n");
    assert_eq!(watch.head().status(), 200);
    assert_eq!(watch.chunk(PATIENCE), Chunk::Data(b"[\"default\"]\n".to_vec()));
    // It hangs in the handshake, and is not waited for.
    let mut hanging = TcpStream::connect(("127.0.0.1", rosterd.http())).expect("the port is served");
    hanging.write_all(b"\x16\x03\x01").expect("written");

    rosterd.signal(Signal::TERM);
    rosterd.wait_for_output("Shutting down");
    assert_eq!(ask(&mut open(rosterd.http(), &authority), "/api/1/dtabs"), "[\"default\"]\n");
    assert_eq!(watch.chunk(PATIENCE), Chunk::End);
    for wire in [&mut idle, &mut watch] {
        assert_eq!(wire.rest(PATIENCE), b"");
        assert!(wire.closed() && !wire.cut(), "close_notify comes before the end");
    }
    assert_eq!(rosterd.wait(PATIENCE).and_then(|status| status.code()), Some(0));
}

#[test]
fn files_that_cannot_be_used_are_refused_with_the_place_of_their_key() {
    let data = in_project("tests/data/tls");
    let data = data.display();
    let config = format!(
        "{STORAGE}\ninterfaces:\n- kind: io.l5d.httpController\n  port: 0\n  tls:\n    certPath: {data}/rsa.pem\n    \
         keyPath: {data}/rsa.encrypted.key\n"
    );
    let (status, output) = Rosterd::refused(&config);
    assert_eq!(status.code(), Some(1));
    let expected = format!("rosterd.yaml:8:14: {data}/rsa.encrypted.key: the key is encrypted; write it in plain");
    assert!(output.contains(&expected), "{output}");
}

#[test]
fn a_check_looks_into_certificates_and_opens_no_port() {
    let taken = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
    let port = taken.local_addr().expect("it is bound").port();
    let folder = folder();
    let data = in_project("tests/data/tls");
    let check = |certificate: &str, key: &str| {
        let config = format!(
            "{STORAGE}\ninterfaces:\n- {{kind: io.l5d.httpController, port: {port}, tls: {{certPath: {data}/{certificate}, \
             keyPath: {data}/{key}}}}}\n",
            data = data.display()
        );
        let file = folder.path().join("namerd.yaml");
        std::fs::write(&file, config).expect("the folder is writable");
        let checked = Command::new(env!("CARGO_BIN_EXE_rosterd")).arg("check").arg(&file).output().expect("it runs");
        (checked.status.code(), String::from_utf8(checked.stderr).expect("text"))
    };
    assert_eq!(check("rsa.pem", "rsa.key").0, Some(0));
    let (status, said) = check("cn-only.pem", "rsa.key");
    assert!(status == Some(0) && said.contains("has no name but its CN: only JVM clients accept that"), "{said}");
    let (status, said) = check("rsa.pem", "ec.key");
    assert!(status == Some(1) && said.contains("the key does not belong to the certificate"), "{said}");
}

#[test]
fn the_commands_trust_what_the_environment_names() {
    let (authority, rosterd) = rosterd(TLS, "");
    let list = |trusted: bool| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_rosterd"));
        command.args(["dtab", "list", "--server", &format!("https://localhost:{}", rosterd.http())]);
        if trusted {
            command.env("SSL_CERT_FILE", rosterd.folder().join("ca.pem"));
        }
        command.output().expect("it runs")
    };
    assert!(authority.pem.starts_with("-----BEGIN CERTIFICATE-----"));
    let listed = list(true);
    assert_eq!(String::from_utf8_lossy(&listed.stdout), "default\n", "{}", String::from_utf8_lossy(&listed.stderr));
    assert!(!list(false).status.success());
}
