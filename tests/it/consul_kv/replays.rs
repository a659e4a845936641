//! What a real Consul was recorded to answer about keys, played to rosterd.

use serde_json::Value;

use super::Kept;
use crate::support::{Reply, StandIn, consul_recording};

/// A recorded exchange about keys of a folder.
struct Exchange {
    note: String,
    /// The namespace; none for the list.
    namespace: Option<String>,
    status: u64,
    body: String,
    reply: Reply,
}

fn exchange(recorded: &Value, folder: &str) -> Option<Exchange> {
    let line = recorded["request"]["line"].as_str()?;
    let target = line.strip_prefix("GET ")?.strip_prefix(&format!("/v1/kv/{folder}/"))?;
    let (namespace, query) = target.trim_end_matches(" HTTP/1.1").split_once('?')?;
    // Other forms of the same questions are nobody's.
    let list = namespace.is_empty() && query.starts_with("keys=true&separator=%2F");
    let key =
        !namespace.is_empty() && !namespace.contains('/') && query.contains("raw=true") && !query.contains("token=");
    if !list && !key {
        return None;
    }
    Some(Exchange {
        note: recorded["note"].as_str().unwrap_or(line).to_owned(),
        namespace: key.then(|| namespace.to_owned()),
        status: recorded["response"]["status"].as_u64()?,
        body: recorded["response"]["body"].as_str()?.to_owned(),
        reply: Reply::recorded(recorded)?,
    })
}

/// Plays a file: after each answer of the recording, what a GET at rosterd shows.
fn play(file: &str, folder: &str) -> usize {
    let agent = StandIn::start();
    let kept = Kept::start_on(agent.port(), folder, "");
    let mut played = 0;
    for Exchange { note, namespace, status, body, reply } in
        consul_recording(file).iter().filter_map(|recorded| exchange(recorded, folder))
    {
        agent.set(&format!("/v1/kv/{folder}/{}", namespace.as_deref().unwrap_or_default()), reply);
        played += 1;
        let Some(namespace) = namespace else {
            let mut names: Vec<String> = serde_json::from_str(&body).unwrap_or_default();
            names.retain_mut(|key| {
                *key = key.trim_start_matches(folder).trim_start_matches('/').to_owned();
                !key.is_empty() && !key.ends_with('/')
            });
            assert_eq!(kept.list(), serde_json::to_string(&names).expect("texts"), "{file}: {note}");
            continue;
        };
        let answer = kept.ask(&namespace);
        match status {
            200 if body.is_empty() || body.contains("=>") => {
                assert_eq!(answer.head.status(), 200, "{file}: {note}: {answer:?}");
                let canonical = body.replace(" => ", "=>").replace(" ;", ";");
                assert_eq!(answer.text().trim_end(), canonical, "{file}: {note}");
            }
            404 => assert_eq!(answer.head.status(), 404, "{file}: {note}: {answer:?}"),
            // Nobody can be asked.
            500 => {
                assert_eq!(answer.head.status(), 503, "{file}: {note}: {answer:?}");
                assert!(answer.text().contains("has no path to datacenter"), "{file}: {note}: {answer:?}");
            }
            // Text that is no dtab, and refusals.
            _ => {
                assert_eq!(answer.head.status(), 500, "{file}: {note}: {answer:?}");
                let why = match status {
                    200 => "cannot be read, 1:1: ",
                    403 if body.contains("ACL not found") => "does not know the token",
                    403 => "needs key:read",
                    _ => panic!("{file}: {note}: {status}"),
                };
                assert!(answer.text().contains(why), "{file}: {note}: {answer:?}");
            }
        }
    }
    played
}

#[test]
fn every_recorded_answer_about_keys_is_understood() {
    let played = [
        ("kv", "namerd/dtabs"),
        ("kv-blocking", "namerd/dtabs"),
        ("acl", "namerd/dtabs"),
        ("snapshot-restore", "fill"),
    ]
    .map(|(file, folder)| play(file, folder));
    assert!(played.iter().all(|played| *played > 1) && played.iter().sum::<usize>() > 25, "{played:?}");
}
