//! The recorded namerd as the server behind a relay over HTTP: what it answered to others a relay answers to its own.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;

use percent_encoding::percent_decode_str;
use rosterd::name::Dtab;

use super::recording::{Entry, Recording};
use crate::support::{PATIENCE, Rosterd, Wire};

/// Endpoint with namespace, path and dtab.
type Asked = (String, String, String);

/// What is asked; none if it is none of the questions of a relay.
fn asked(request: &str) -> Option<Asked> {
    let target = request.strip_prefix("GET ")?.split(' ').next()?;
    let (endpoint, query) = target.split_once('?')?;
    let mut endpoint = endpoint.to_owned();
    if endpoint.starts_with("/api/1/addr/") {
        endpoint = "/api/1/addr/any".to_owned(); // namespaces of addresses are not looked at
    }
    let decoded = |text: &str| percent_decode_str(&text.replace('+', " ")).decode_utf8().ok().map(String::from);
    let (mut path, mut dtab) = (None, String::new());
    // A bare `;` ends a parameter, too.
    for parameter in query.split(['&', ';']) {
        match parameter.split_once('=')? {
            ("path", value) => path = Some(decoded(value)?),
            ("dtab", value) => dtab = Dtab::parse(&decoded(value)?).ok()?.to_string(),
            _ => {}
        }
    }
    Some((endpoint, path?, dtab))
}

/// Streams of one line, which stay open.
fn serve(mut stream: TcpStream, known: &BTreeMap<Asked, String>) {
    let mut reader = BufReader::new(stream.try_clone().expect("a socket can be shared"));
    let mut head = Vec::new();
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).unwrap_or(0) == 0 {
            return;
        }
        if line == "\r\n" {
            break;
        }
        head.push(line);
    }
    let line = asked(&head[0]).and_then(|asked| known.get(&asked));
    let said = match line {
        Some(line) => format!(
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n{:x}\r\n{line}\r\n",
            line.len()
        ),
        None => "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n".to_owned(),
    };
    if stream.write_all(said.as_bytes()).is_ok() {
        reader.read_line(&mut String::new()).ok(); // until the client leaves
    }
}

/// Addresses that stand in an answer of `bind`: what `addr` says of the same id.
fn addresses(tree: &serde_json::Value, known: &mut BTreeMap<Asked, String>) {
    match tree {
        serde_json::Value::Object(fields) => {
            if let (Some(addr), Some(id)) = (fields.get("addr"), fields.get("id").and_then(|id| id.as_str())) {
                let asked = ("/api/1/addr/any".to_owned(), id.to_owned(), String::new());
                known.entry(asked).or_insert(format!("{addr}\n"));
            }
            fields.values().for_each(|value| addresses(value, known));
        }
        serde_json::Value::Array(values) => values.iter().for_each(|value| addresses(value, known)),
        _ => {}
    }
}

#[test]
fn a_relay_of_the_recorded_server_answers_as_that_did() {
    let mut known = BTreeMap::new();
    let mut requests = Vec::new();
    for file in ["bind", "addr"] {
        for entry in Recording::load(file).entries {
            let Entry { response, .. } = &entry;
            let is_good = response.status_line.ends_with("200 OK") && response.extra_bytes.is_none();
            let body = response.body.as_ref().map(|body| String::from_utf8_lossy(&body.to_vec()).into_owned());
            if let (true, Some(asked), Some(body)) = (is_good, asked(&entry.whole_request()), body)
                && body.starts_with('{')
                && !known.contains_key(&asked)
            {
                known.insert(asked, body.clone());
                requests.push((format!("{file}/{}", entry.name), entry.whole_request(), body));
            }
        }
    }
    for (_, _, body) in &requests {
        addresses(&serde_json::from_str(body).expect("JSON"), &mut known);
    }
    let known = Arc::new(known);
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
    let port = listener.local_addr().expect("it is bound").port();
    std::thread::spawn(move || {
        while let Ok((stream, _)) = listener.accept() {
            let known = known.clone();
            std::thread::spawn(move || serve(stream, &known));
        }
    });
    let relay = Rosterd::start(&format!(
        "interpreter: {{kind: io.l5d.namerd.http, dst: /$/inet/127.0.0.1/{port}}}\n\
         interfaces: [{{kind: io.l5d.httpController, port: 0}}]\n"
    ));
    let mut differ = Vec::new();
    for (name, request, recorded) in &requests {
        let mut wire = Wire::open(relay.http());
        wire.send(request.as_bytes());
        let answer = wire.answer(false);
        let json = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap_or_default();
        let want = json(recorded);
        let is_same = match &want["cause"] {
            // Over this protocol addresses that have failed are a failure of the server (docs/differences.md).
            serde_json::Value::String(cause) => answer.head.status() == 500 && answer.text().contains(cause),
            _ => answer.head.status() == 200 && json(answer.text()) == want,
        };
        if !is_same {
            differ.push(format!("{name}: {} {:?} instead of {recorded}", answer.head.status(), answer.text()));
        }
    }
    assert!(differ.is_empty(), "{} of {} differ:\n{}", differ.len(), requests.len(), differ.join("\n"));
    println!("{} answers came through the relay as recorded (within {PATIENCE:?} each)", requests.len());
    assert!(requests.len() > 15, "{}", requests.len());
}
