//! When two answers count as equal.

use std::io::{Read, Write};
use std::time::Duration;

use flate2::{read, write};
use serde_json::Value;

use super::differences::Expect;
use super::recording::{Bytes, Entry, Response};
use crate::support::{Chunk, Head, Wire};

/// Everything that came back for one request.
#[derive(Debug)]
pub struct Exchange {
    head: Head,
    body: Vec<u8>,
    /// What followed the answer on the connection.
    extra: Vec<u8>,
    closed: bool,
}

impl Exchange {
    pub fn read(wire: &mut Wire, head: Head, entry: &Entry) -> Self {
        let body = if entry.is_head() { Vec::new() } else { wire.body(&head) };
        let awaited = entry.response.extra_bytes.is_some() || entry.response.connection_closed_by_server;
        let extra = wire.rest(Duration::from_millis(if awaited { 1500 } else { 50 }));
        Self { head, body, extra, closed: wire.closed() }
    }
}

/// The answer against the recorded one, or against what the list has instead.
pub fn answer(entry: &Entry, exchange: &Exchange, expect: Option<&Expect>) -> Result<(), String> {
    let as_recorded = recorded(entry, exchange);
    match expect {
        None => as_recorded,
        Some(_) if as_recorded.is_ok() => Err("the listed difference is none: the answer is as recorded".to_owned()),
        Some(expect) => listed(expect, exchange),
    }
}

/// Status and headers: those recorded and no others. namerd sends neither `Date` nor `Server`.
pub fn head(recorded: &Response, head: &Head) -> Result<(), String> {
    let status = |line: &str| line.split(' ').nth(1).map(str::to_owned);
    same("status", &status(&recorded.status_line), &status(&head.status_line))?;
    for (name, value) in &recorded.headers {
        if !name.eq_ignore_ascii_case("content-length") {
            same(&format!("header {name}"), &Some(value.as_str()), &head.header(name))?;
        }
    }
    let known = |name: &str| recorded.headers.iter().any(|(known, _)| known.eq_ignore_ascii_case(name));
    // A 412 tells the version that would have matched.
    let allowed = |name: &str| head.status() == 412 && name.eq_ignore_ascii_case("etag");
    let odd: Vec<_> = head.headers.iter().map(|(name, _)| name).filter(|name| !known(name) && !allowed(name)).collect();
    same("further headers", &Vec::<&String>::new(), &odd)
}

/// Two events of a stream.
pub fn chunks(want: &Chunk, got: &Chunk) -> Result<(), String> {
    match (want, got) {
        (Chunk::Data(want), Chunk::Data(got)) => same("chunk", &comparable(want), &comparable(got)),
        _ if want == got => Ok(()),
        _ => Err(format!("expected {want:?} got {}", shown(got))),
    }
}

fn recorded(entry: &Entry, exchange: &Exchange) -> Result<(), String> {
    let response = &entry.response;
    head(response, &exchange.head)?;
    let body = response.body.as_ref().map(Bytes::to_vec).unwrap_or_default();
    let want = inflate(&response.headers, body);
    let got = inflate(&exchange.head.headers, exchange.body.clone());
    same("body", &comparable(&want), &comparable(&got))?;
    // Where a set was put in another order, or compressed by another library, lengths may differ.
    if want == got && !compressed(&response.headers) {
        let length = response.headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("content-length"));
        let length = length.map(|(_, value)| value.as_str());
        same("header Content-Length", &length, &exchange.head.header("content-length"))?;
    }
    let extra = response.extra_bytes.as_ref().map(Bytes::to_vec).unwrap_or_default();
    same("bytes after the answer", &String::from_utf8_lossy(&extra), &String::from_utf8_lossy(&exchange.extra))?;
    same("connection closed by the server", &response.connection_closed_by_server, &exchange.closed)
}

fn listed(expect: &Expect, exchange: &Exchange) -> Result<(), String> {
    same("status", &expect.status, &Some(exchange.head.status()))?;
    for (name, value) in &expect.headers {
        same(&format!("header {name}"), &value.as_deref(), &exchange.head.header(name))?;
    }
    for (what, expected, bytes) in
        [("body", &expect.body, &exchange.body), ("bytes after the answer", &expect.extra_bytes, &exchange.extra)]
    {
        let text = String::from_utf8_lossy(bytes);
        if let Some(expected) = expected
            && !expected.fits(&text)
        {
            return Err(format!("{what}: expected {expected:?} got {text:?}"));
        }
    }
    Ok(())
}

fn same<T: PartialEq + std::fmt::Debug>(what: &str, want: &T, got: &T) -> Result<(), String> {
    if want == got { Ok(()) } else { Err(format!("{what}: expected {want:?} got {got:?}")) }
}

fn shown(chunk: &Chunk) -> String {
    match chunk {
        Chunk::Data(data) => format!("Data({:?})", String::from_utf8_lossy(data)),
        other => format!("{other:?}"),
    }
}

/// JSON with its sets in one order and all else, also the order of keys, as it came; other bytes as text.
fn comparable(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let Ok(mut json) = serde_json::from_slice(bytes) else {
        return text.into_owned();
    };
    sort_sets(&mut json);
    // Lists of names are sets too.
    if let Value::Array(names) = &mut json
        && names.iter().all(Value::is_string)
    {
        names.sort_by_key(Value::to_string);
    }
    format!("{json}{}", if text.ends_with('\n') { "\n" } else { "" })
}

fn sort_sets(json: &mut Value) {
    match json {
        Value::Object(fields) => {
            fields.values_mut().for_each(sort_sets);
            if let Some(Value::Array(addresses)) = fields.get_mut("addrs") {
                addresses.sort_by_key(Value::to_string);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(sort_sets),
        _ => {}
    }
}

fn compressed(headers: &[(String, String)]) -> bool {
    headers.iter().any(|(name, value)| name.eq_ignore_ascii_case("content-encoding") && value == "gzip")
}

fn inflate(headers: &[(String, String)], body: Vec<u8>) -> Vec<u8> {
    if !compressed(headers) {
        return body;
    }
    let mut plain = Vec::new();
    read::GzDecoder::new(&body[..]).read_to_end(&mut plain).expect("the body is gzip");
    plain
}

/// The chunks of a stream, decompressed one by one where the stream is compressed.
pub struct Inflated(Option<write::GzDecoder<Vec<u8>>>);

impl Inflated {
    pub fn of(head: &Head) -> Self {
        Self::of_headers(&head.headers)
    }

    pub fn of_headers(headers: &[(String, String)]) -> Self {
        Self(compressed(headers).then(|| write::GzDecoder::new(Vec::new())))
    }

    pub fn chunk(&mut self, chunk: Chunk) -> Chunk {
        match chunk {
            Chunk::Data(data) => Chunk::Data(self.bytes(data)),
            other => other,
        }
    }

    pub fn bytes(&mut self, data: Vec<u8>) -> Vec<u8> {
        let Some(decoder) = &mut self.0 else {
            return data;
        };
        decoder.write_all(&data).and_then(|()| decoder.flush()).expect("the chunk is gzip");
        std::mem::take(decoder.get_mut())
    }
}
