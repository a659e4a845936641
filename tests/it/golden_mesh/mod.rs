//! The recorded calls of the mesh interface are replayed, and streams behave as Linkerd 1 needs.

mod caller;
mod differences;
mod stories;

use std::collections::{BTreeMap, BTreeSet};

use bytes::{BufMut, Bytes, BytesMut};
use prost::Message;
use rosterd::mesh::proto;
use serde::Deserialize;
use serde_json::Value;

use self::caller::{Caller, Next};
use self::differences::{NOT_REPLAYED, STATUSES};
use crate::support::{Action, Configuration, PlayedConsul, Rosterd, folder, in_project, not_built};

const INTERFACE: &str = "io.l5d.mesh";

#[derive(Deserialize)]
struct Recorded {
    namerd_config: String,
    fs_disco: BTreeMap<String, String>,
    dtabs: BTreeMap<String, String>,
    calls: Vec<RecordedCall>,
}

#[derive(Deserialize)]
struct RecordedCall {
    name: String,
    path: String,
    request_hex: String,
    http_method: Option<String>,
    /// The request is the whole body.
    note_request: Option<String>,
    response: Vec<Value>,
}

fn recorded(file: &str) -> Recorded {
    let path = in_project(&format!("tests/data/golden/mesh/{file}.json"));
    serde_json::from_str(&std::fs::read_to_string(path).expect("it is there")).expect("a recording")
}

fn unhex(text: &str) -> Vec<u8> {
    let digits = text.as_bytes().chunks(2);
    digits.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).expect("ASCII"), 16).expect("hex")).collect()
}

fn framed(message: &[u8]) -> Bytes {
    let mut out = BytesMut::new();
    out.put_u8(0);
    out.put_u32(u32::try_from(message.len()).expect("short"));
    out.put_slice(message);
    out.freeze()
}

/// Address sets in one order, as these are sets, with the length of the bytes: what is left out would show there.
/// None for "not known yet", which is said or not.
fn comparable(method: &str, bytes: &[u8]) -> Option<(usize, Vec<u8>)> {
    if !method.ends_with("Replicas") {
        return Some((bytes.len(), bytes.to_vec()));
    }
    let mut replicas = proto::Replicas::decode(bytes).expect("replicas");
    match &mut replicas.result {
        Some(proto::replicas::Result::Pending(_)) => return None,
        Some(proto::replicas::Result::Bound(bound)) => bound.endpoints.sort_by_key(Message::encode_to_vec),
        _ => {}
    }
    Some((bytes.len(), replicas.encode_to_vec()))
}

/// Replays one call; the complaint, if there is one.
async fn replay(caller: &Caller, call: &RecordedCall) -> Result<(), String> {
    let method = call.path.rsplit('/').next().expect("a path");
    let request = unhex(&call.request_hex);
    let body = if call.note_request.is_some() { request.into() } else { framed(&request) };
    let mut answer = caller.call(call.http_method.as_deref().unwrap_or("POST"), &call.path, body).await;
    if answer.status != 200 {
        return Err(format!("HTTP status {}", answer.status));
    }
    let hex = call.response.iter().filter_map(|part| part.get("message_hex"));
    let mut wanted: Vec<_> = hex.filter_map(|hex| comparable(method, &unhex(hex.as_str().expect("hex")))).collect();
    wanted.dedup();
    if method == "GetReplicas" && wanted.is_empty() {
        return Ok(()); // it was not known yet, and may be known now
    }
    for wanted in &wanted {
        let got = loop {
            match answer.next().await {
                Next::Message(bytes) => match comparable(method, &bytes) {
                    Some(got) => break got,
                    None => continue,
                },
                end => return Err(format!("{end:?} instead of a message")),
            }
        };
        if got != *wanted {
            return Err(format!("a message of {got:x?}\n  instead of {wanted:x?}"));
        }
    }
    let trailers = call.response.iter().find_map(|part| part.get("trailers"));
    let different = STATUSES.iter().find(|(name, ..)| *name == call.name);
    if trailers.is_none() && different.is_none() {
        if method.starts_with("Get") {
            return Ok(()); // the recorder did not wait for the end
        }
        return answer.silent().await.then_some(()).ok_or_else(|| "the stream did not stay open".to_owned());
    }
    let get = |name: &str| {
        let mut trailers = trailers.and_then(Value::as_array).into_iter().flatten();
        trailers.find(|trailer| trailer[0] == name).and_then(|trailer| trailer[1].as_str())
    };
    let status = different.map(|(_, status, _)| *status).or_else(|| get("grpc-status")?.parse().ok());
    match answer.next().await {
        Next::End(got, _) if Some(got) == status && different.is_some() => Ok(()),
        Next::End(got, message) if Some(got) == status && message == get("grpc-message").unwrap_or_default() => Ok(()),
        other => Err(format!("{other:?} instead of {status:?} {:?}", get("grpc-message"))),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_recorded_call_is_answered_as_namerd_did() {
    let first = recorded("interpreter");
    let (disco, consul) = (folder(), PlayedConsul::start());
    for (name, text) in &first.fs_disco {
        std::fs::write(disco.path().join(name), text).expect("the folder is writable");
    }
    let configuration = Configuration::of(&first.namerd_config, disco.path(), consul.port(), &not_built());
    assert_eq!(configuration.dropped, BTreeSet::new());
    let rosterd = Rosterd::start(&configuration.text);
    for (put, dtab) in &first.dtabs {
        Action::Put { put: put.clone(), dtab: dtab.clone() }.act(&rosterd, disco.path());
    }
    let caller = Caller::connect(rosterd.port(INTERFACE)).await;
    let (mut complaints, mut replayed) = (Vec::new(), 0);
    for file in ["interpreter", "resolver", "delegator", "codec", "protocol"] {
        let recorded = recorded(file);
        assert_eq!((&recorded.dtabs, &recorded.fs_disco), (&first.dtabs, &first.fs_disco));
        for call in &recorded.calls {
            if NOT_REPLAYED.iter().any(|(name, _)| *name == call.name) {
                continue;
            }
            replayed += 1;
            if let Err(complaint) = replay(&caller, call).await {
                complaints.push(format!("{file}/{}: {complaint}", call.name));
            }
        }
    }
    assert!(complaints.is_empty(), "{} of {replayed}:\n{}", complaints.len(), complaints.join("\n"));
    assert_eq!(replayed, 190);
}
