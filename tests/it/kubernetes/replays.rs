//! What a real API server was recorded to answer, played to rosterd byte for byte as it was cut: it shows what follows from
//! the list and all events, whatever else is in a stream.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::Value;

use super::{proxied, rosterd};
use crate::support::{Follow, in_project, is_neg, shown};

/// One recorded exchange.
#[derive(Clone, Debug)]
struct Recorded {
    line: String,
    status: u64,
    body: Option<String>,
    chunks: Vec<String>,
}

/// Plays a list to whoever lists the namespace, and a stream to the first who watches it then. Nothing else is allowed, so
/// that the whole namespace has to be watched; later streams are silent.
struct Player {
    list: String,
    stream: Recorded,
    played: Mutex<bool>,
    asked: Mutex<Vec<String>>,
}

fn recording(file: &str) -> Vec<Recorded> {
    let path = in_project(&format!("tests/data/golden/backends/k8s/{file}.json"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let recording: Value = serde_json::from_str(&text).expect("JSON");
    let exchanges = recording["exchanges"].as_array().expect("a list");
    let read = |exchange: &Value| {
        let response = &exchange["response"];
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let chunks = response["chunks"].as_array().map(Vec::as_slice).unwrap_or_default();
        Some(Recorded {
            line: text(&exchange["request"]["line"])?,
            status: response["status"].as_u64()?,
            body: text(&response["body"]),
            chunks: chunks.iter().filter_map(|chunk| text(&chunk["data"])).collect(),
        })
    };
    exchanges.iter().filter_map(read).collect()
}

impl Player {
    fn serve(self: &Arc<Self>) -> u16 {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
        let port = listener.local_addr().expect("bound").port();
        let player = self.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let player = player.clone();
                std::thread::spawn(move || player.answer(stream));
            }
        });
        port
    }

    fn answer(&self, mut stream: TcpStream) -> Option<()> {
        let mut lines = BufReader::new(stream.try_clone().ok()?);
        loop {
            let mut first = String::new();
            lines.read_line(&mut first).ok().filter(|read| *read > 0)?;
            let mut header = String::new();
            while lines.read_line(&mut header).ok().filter(|read| *read > 0)? > 2 {
                header.clear();
            }
            let target = first.split(' ').nth(1)?.to_owned();
            self.asked.lock().push(target.clone());
            let whole = target.starts_with("/api/v1/namespaces/srv/endpoints?") && !target.contains("fieldSelector");
            if !whole {
                stream.write_all(&plain(403, r#"{"kind":"Status","code":403,"message":"forbidden"}"#)).ok()?;
            } else if !target.contains("watch=true") {
                stream.write_all(&plain(200, &self.list)).ok()?;
            } else if std::mem::replace(&mut *self.played.lock(), true) {
                stream.write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n").ok()?;
                std::thread::sleep(Duration::from_secs(60)); // silent for longer than the test
                return None;
            } else if let Some(body) = &self.stream.body {
                stream.write_all(&plain(self.stream.status, body)).ok()?;
            } else {
                stream.write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n").ok()?;
                for chunk in &self.stream.chunks {
                    stream.write_all(format!("{:x}\r\n{chunk}\r\n", chunk.len()).as_bytes()).ok()?;
                    stream.flush().ok()?;
                }
                stream.write_all(b"0\r\n\r\n").ok()?;
            }
        }
    }
}

fn plain(status: u64, body: &str) -> Vec<u8> {
    format!("HTTP/1.1 {status} X\r\nContent-Length: {}\r\n\r\n{body}", body.len()).into_bytes()
}

/// What there is after the list and the stream, by name: the addresses of the port `http`.
fn outcome(list: &str, stream: &Recorded) -> BTreeMap<String, Vec<String>> {
    let list: Value = serde_json::from_str(list).expect("JSON");
    let name = |object: &Value| object["metadata"]["name"].as_str().expect("a name").to_owned();
    let items = list["items"].as_array().expect("a list");
    let at_first: BTreeMap<String, Vec<String>> = items.iter().map(|item| (name(item), addresses(item))).collect();
    let mut all = at_first.clone();
    let text = stream.chunks.concat();
    for event in serde_json::Deserializer::from_str(&text).into_iter::<Value>().map_while(Result::ok) {
        let object = &event["object"];
        match event["type"].as_str().expect("a type") {
            "ADDED" | "MODIFIED" => drop(all.insert(name(object), addresses(object))),
            "DELETED" => drop(all.insert(name(object), Vec::new())),
            "BOOKMARK" => {}
            // There is a new list, and it says what the first one said.
            "ERROR" => {
                let gone: Vec<String> = all.keys().cloned().collect();
                all = gone.into_iter().map(|name| (name.clone(), Vec::new())).collect();
                all.extend(at_first.clone());
            }
            other => panic!("{other}"),
        }
    }
    all
}

fn addresses(object: &Value) -> Vec<String> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let mut found = Vec::new();
    for subset in list(&object["subsets"]) {
        for port in list(&subset["ports"]).iter().filter(|port| port["name"] == "http") {
            let ips = list(&subset["addresses"]);
            found.extend(ips.iter().map(|ip| format!("{}:{}", ip["ip"].as_str().expect("an ip"), port["port"])));
        }
    }
    found.sort();
    found
}

#[test]
fn every_recorded_stream_of_a_namespace_leads_to_what_it_told() {
    let list = recording("endpoints-watch")[0].body.clone().expect("a list");
    let streams: Vec<Recorded> = ["endpoints-watch", "gone-410", "watch-old-etcd", "restart"]
        .into_iter()
        .flat_map(recording)
        .filter(|exchange| {
            let line = &exchange.line;
            line.starts_with("GET /api/v1/namespaces/")
                && line.contains("/endpoints?watch=true")
                && !line.contains("Selector")
        })
        .collect();
    assert!(streams.len() >= 10, "{}", streams.len());
    for stream in streams {
        let wanted = outcome(&list, &stream);
        let line = stream.line.clone();
        let player =
            Arc::new(Player { list: list.clone(), stream, played: Mutex::new(false), asked: Mutex::default() });
        let rosterd = rosterd("io.l5d.k8s", &proxied(player.serve()));
        let follow = |name: &str| Follow::addr(&rosterd, &format!("/#/io.l5d.k8s/srv/http/{name}"));
        let mut all: Vec<(&str, Follow)> = wanted.keys().map(|name| (name.as_str(), follow(name))).collect();
        // Enough names that the whole namespace is watched.
        let _others: Vec<Follow> = (0..20).map(|n| follow(&format!("other-{n}"))).collect();
        let streams = || player.asked.lock().iter().filter(|target| target.contains("watch=true")).count();
        crate::support::wait_until("the stream is followed by another one", || streams() >= 2);
        for (name, addrs) in &mut all {
            let wanted = &wanted[*name];
            let is_wanted = |value: &Value| match wanted.is_empty() {
                true => is_neg(value) || value["addrs"].as_array().is_some_and(Vec::is_empty),
                false => shown(value) == *wanted,
            };
            // What was told on the way may look like it, and more follow: what counts is what stays.
            loop {
                addrs.until(&format!("{name} of {line}: {wanted:?}"), is_wanted);
                let mut more = None;
                while let Some(value) = addrs.next(Duration::from_millis(150)) {
                    more = Some(value);
                }
                if more.is_none_or(|value| is_wanted(&value)) {
                    break;
                }
            }
        }
    }
}
