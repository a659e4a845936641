use std::io::Write;
use std::sync::Arc;

use flate2::Compression;
use flate2::write::GzEncoder;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::*;
use crate::backend::Address;
use crate::config::Secret;
use crate::consul::{Agent, AgentConfig, Agents, Poll, PollCounters, Query, Rhythm, Undecoded};
use crate::store::{Cell, Key, Mailbox, Standing};

/// Answers one request after the other with what is given, a connection each; hands over what was asked.
async fn serve(ip: &str, answers: Vec<Vec<u8>>) -> (u16, tokio::task::JoinHandle<Vec<String>>) {
    let listener = TcpListener::bind((ip, 0)).await.expect("a free port");
    let port = listener.local_addr().expect("bound").port();
    let served = tokio::spawn(async move {
        let mut asked = Vec::new();
        for answer in answers {
            let (mut stream, _) = listener.accept().await.expect("a connection");
            let mut request = Vec::new();
            while !request.ends_with(b"\r\n\r\n") {
                request.push(stream.read_u8().await.expect("a request"));
            }
            asked.push(String::from_utf8(request).expect("text"));
            stream.write_all(&answer).await.expect("written");
        }
        asked
    });
    (port, served)
}

fn agent(host: &str, port: u16) -> Agent {
    let address = Address { host: host.to_owned(), port };
    let config = AgentConfig { address, token: Some(Secret::new("s3cr3t")), tls: None, max_polls: None };
    let agent = Agents::new().agent(&config).expect("built");
    assert!(!format!("{config:?} {agent:?}").contains("s3cr3t"));
    agent
}

async fn ask(agent: &Agent) -> Result<String, ConsulError> {
    let answer = agent.once(&Request::get("/v1/kv/a").with("raw", "true"), Duration::from_secs(5)).await?;
    let read = |_: &crate::consul::Answer, body: &[u8]| Ok::<_, Undecoded>(String::from_utf8_lossy(body).into_owned());
    Ok(answer.read(read).await?.expect("no content is bad"))
}

fn ok(headers: &str, body: &[u8]) -> Vec<u8> {
    let head = format!("HTTP/1.1 200 OK\r\n{headers}Content-Length: {}\r\nConnection: close\r\n\r\n", body.len());
    [head.as_bytes(), body].concat()
}

#[tokio::test]
async fn requests_are_namerds() {
    let (port, served) = serve("127.0.0.1", vec![ok("", b"x")]).await;
    assert_eq!(ask(&agent("127.0.0.1", port)).await.expect("answered"), "x");
    let asked = served.await.expect("served").remove(0);
    let mut lines: Vec<&str> = asked.trim_end().split("\r\n").collect();
    assert_eq!(lines.remove(0), "GET /v1/kv/a?raw=true HTTP/1.1");
    lines.sort_unstable();
    let host = format!("host: 127.0.0.1:{port}");
    assert_eq!(lines, ["accept: */*", &host, "x-consul-token: s3cr3t"]);
}

#[tokio::test]
async fn an_address_may_be_ipv6_and_some_ports_are_not_named() {
    let (port, served) = serve("::1", vec![ok("", b"x")]).await;
    let agent = agent("::1", port);
    assert_eq!(agent.name(), format!("[::1]:{port}"));
    assert_eq!(ask(&agent).await.expect("answered"), "x");
    assert!(served.await.expect("served")[0].contains(&format!("host: [::1]:{port}\r\n")));
    for (port, authority) in [(80, "consul"), (443, "consul"), (8500, "consul:8500")] {
        assert_eq!(Address { host: "consul".to_owned(), port }.authority(), authority);
    }
    for host in ["a b", "u@h", "h/x", "h?x", "h#x", ""] {
        let address = Address { host: host.to_owned(), port: 1 };
        let config = AgentConfig { address, token: None, tls: None, max_polls: None };
        assert!(Agents::new().agent(&config).expect_err(host).starts_with("host: "));
    }
}

#[tokio::test]
async fn packed_answers_are_unpacked_and_split_ones_joined() {
    let text = "a long text ".repeat(50_000);
    let mut packer = GzEncoder::new(Vec::new(), Compression::default());
    packer.write_all(text.as_bytes()).expect("packed");
    let packed = ok("Content-Encoding: gzip\r\n", &packer.finish().expect("packed"));
    let chunks: String = "xyz".chars().map(|c| format!("1\r\n{c}\r\n")).collect();
    let chunked = format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{chunks}0\r\n\r\n");
    let torn = ok("Content-Encoding: gzip\r\n", b"no gzip");
    let (port, _served) = serve("127.0.0.1", vec![packed, chunked.into_bytes(), torn]).await;
    let agent = agent("127.0.0.1", port);
    assert_eq!(ask(&agent).await.expect("answered"), text);
    assert_eq!(ask(&agent).await.expect("answered"), "xyz");
    assert!(matches!(ask(&agent).await, Err(ConsulError::Unreadable { .. })));
}

#[tokio::test]
async fn an_answer_that_is_too_long_is_refused_and_what_is_known_stays() {
    let long = "x".repeat(1_000);
    let chunked =
        format!("HTTP/1.1 200 OK\r\nX-Consul-Index: 9\r\nTransfer-Encoding: chunked\r\n\r\n3e8\r\n{long}\r\n");
    let index = |n: u64| format!("X-Consul-Index: {n}\r\n");
    let answers = vec![
        ok(&index(7), b"fits"),
        ok(&index(8), long.as_bytes()),
        chunked.into_bytes(),
        ok(&index(10), b"fits again"),
    ];
    let (port, served) = serve("127.0.0.1", answers).await;
    let config = AgentConfig {
        address: Address { host: "127.0.0.1".to_owned(), port },
        token: None,
        tls: None,
        max_polls: None,
    };
    let links = Links::new(&config.address, None).expect("a host");
    let transport = Http { most: 999, ..Http::new(&config, links).expect("built") };
    let agent = Agents::new().with_transport(&config, Box::new(transport));
    let request = Request::get("/v1/catalog/service/web");
    let read = |_: &crate::consul::Answer, body: &[u8]| Ok(String::from_utf8_lossy(body).into_owned());
    let (cell, counters) = (Cell::new(), PollCounters::default());
    let query = Query::new(request, Rhythm::Blocking(Duration::from_secs(1)), read);
    let poll = Poll::start(&agent, query, cell.clone(), counters.clone());
    let mailbox = Mailbox::new();
    let (_, _subscription) = cell.subscribe_closely(&mailbox, Key(0));
    let (mut marked, mut seen, mut reasons) = (Vec::new(), Vec::new(), Vec::new());
    while seen.last().is_none_or(|value| value != "fits again") {
        tokio::time::timeout(Duration::from_secs(30), mailbox.marked()).await.expect("it goes on");
        mailbox.take_marked(&mut marked);
        let snapshot = cell.snapshot();
        seen.extend(snapshot.value().map(|value| value.to_string()));
        if let Standing::Stale { reason, .. } = &snapshot.standing {
            reasons.push(reason.to_string());
        }
    }
    seen.dedup();
    assert_eq!(seen, ["fits", "fits again"], "nothing in between");
    assert!(reasons.iter().all(|reason| reason.contains("999 bytes")) && !reasons.is_empty(), "{reasons:?}");
    assert_eq!(counters.errors.get(), 2, "by its length, and piece by piece");
    drop((poll, served.await));
}

#[tokio::test]
async fn what_goes_wrong_is_named() {
    let status = |line: &str, more: &str| format!("HTTP/1.1 {line}\r\nContent-Length: 0\r\n{more}\r\n").into_bytes();
    let answers = vec![
        status("302 Found", "Location: http://192.0.2.1/\r\n"),
        status("429 Too Many Requests", "Connection: close\r\n"),
        b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\ntoo short".to_vec(),
        b"SSH-2.0-OpenSSH_9.9\r\n".to_vec(),
        Vec::new(),
    ];
    let (port, served) = serve("127.0.0.1", answers).await;
    let agent = agent("127.0.0.1", port);
    let mut said = Vec::new();
    for _ in 0..5 {
        let error = ask(&agent).await.expect_err("none is good");
        assert!(error.to_string().contains(&format!("127.0.0.1:{port}")), "{error}");
        said.push(error.word());
    }
    assert_eq!(said, ["redirected", "busy", "broken", "broken", "broken"]);
    served.await.expect("served");
    assert_eq!(ask(&agent).await.expect_err("nobody listens").word(), "unreachable");
}

/// As agents refuse connections beyond their limit.
#[tokio::test]
async fn an_answer_before_the_request_is_a_refusal_of_the_connection() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let port = listener.local_addr().expect("bound").port();
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.expect("a connection");
            let refusal = b"HTTP/1.1 429 Too Many Requests\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
            stream.write_all(refusal).await.expect("written");
        }
    });
    let agent = agent("127.0.0.1", port);
    for _ in 0..20 {
        let said = ask(&agent).await.expect_err("refused").word();
        // The connection may also be gone before the refusal is read.
        assert!(["busy", "broken"].contains(&said), "{said}");
    }
    let mut busy = 0;
    for _ in 0..1_000 {
        busy += usize::from(ask(&agent).await.expect_err("refused").word() == "busy");
        if busy == 3 {
            return;
        }
    }
    panic!("it is hardly ever told: {busy}");
}

#[tokio::test]
async fn a_silent_agent_is_given_up_in_time() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let agent = agent("127.0.0.1", listener.local_addr().expect("bound").port());
    let began = std::time::Instant::now();
    let asked = agent.once(&Request::get("/v1/agent/self"), Duration::from_millis(200)).await;
    assert_eq!(asked.expect_err("it says nothing").word(), "silent");
    assert!(began.elapsed() < Duration::from_secs(3));
}

#[tokio::test]
async fn an_agent_that_stops_in_the_middle_of_an_answer_is_given_up_in_time() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let agent = agent("127.0.0.1", listener.local_addr().expect("bound").port());
    let held = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.expect("a connection");
        let mut request = Vec::new();
        while !request.ends_with(b"\r\n\r\n") {
            request.push(stream.read_u8().await.expect("a request"));
        }
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nsome").await.expect("written");
        stream
    });
    let began = std::time::Instant::now();
    let asked = agent.once(&Request::get("/v1/agent/self"), Duration::from_millis(300)).await;
    assert_eq!(asked.expect_err("it is not whole").word(), "silent");
    assert!(began.elapsed() < Duration::from_secs(5));
    drop(held.await);
}

#[tokio::test]
async fn an_agent_with_tls_is_asked_by_the_name_in_its_certificate() {
    use rcgen::{CertificateParams, KeyPair};
    use rustls::pki_types::PrivateKeyDer;

    let key = KeyPair::generate().expect("a key can be made");
    let params = CertificateParams::new(["server.dc1.consul".to_owned()]).expect("a name");
    let certificate = params.self_signed(&key).expect("a certificate can be made");
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("ca.pem");
    std::fs::write(&file, certificate.pem()).expect("the folder is writable");
    let server = rustls::ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("ring has suites for them")
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], PrivateKeyDer::try_from(key.serialize_der()).expect("a key"))
        .expect("they belong together");
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(server));
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let port = listener.local_addr().expect("bound").port();
    let served = tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.expect("a connection");
            let Ok(mut stream) = acceptor.accept(stream).await else { continue };
            let mut request = Vec::new();
            while !request.ends_with(b"\r\n\r\n") {
                request.push(stream.read_u8().await.expect("a request"));
            }
            stream.write_all(&ok("", b"x")).await.expect("written");
            stream.shutdown().await.expect("ended");
            let name = stream.get_ref().1.server_name().map(str::to_owned);
            return (name, String::from_utf8(request).expect("text"));
        }
    });
    let agent = |name: &str| {
        let validation = crate::config::Validation::CommonName(name.to_owned());
        let tls = crate::config::ClientTls {
            enabled: true,
            validation,
            trust_certs: vec![file.clone()],
            client_auth: None,
            protocols: None,
        };
        let address = Address { host: "127.0.0.1".to_owned(), port };
        Agents::new().agent(&AgentConfig { address, token: None, tls: Some(tls), max_polls: None }).expect("built")
    };
    let refused = ask(&agent("other.example")).await.expect_err("another name");
    assert_eq!(refused.word(), "no_tls_session", "{refused}");
    assert_eq!(ask(&agent("server.dc1.consul")).await.expect("answered"), "x");
    let (name, request) = served.await.expect("served");
    assert_eq!(name.as_deref(), Some("server.dc1.consul"));
    assert!(request.contains(&format!("host: 127.0.0.1:{port}\r\n")), "{request}");
}
