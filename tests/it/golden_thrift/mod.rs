//! The recorded conversations with namerd's thrift interface (`tests/data/golden/thrift`), held again with rosterd: what
//! `differences` does not list must come as recorded.

mod compare;
mod differences;
mod linkerd;
mod recorded;
mod recording;
mod replay;
mod upstream;
mod world;

use std::collections::BTreeSet;

use crate::support::not_built;
use compare::{Protocol, Stamps};
use differences::DIFFERENCES;
use recorded::Recorded;
use recording::{Events, Recording, Step};
use world::Running;

/// The recordings, by what their names begin with. Each group has a server, or each of its conversations one.
const GROUPS: &[&str] = &["addr", "bind", "delegate", "dtab", "mux", "plain", "sigkill", "sigterm", "ttwitter"];

/// Recordings that need a kind, and are left out as long as it is not built.
const NEEDS: &[(&str, &[&str])] = &[("io.l5d.consul", &["addr-consul-meta", "addr-consul-pending", "bind-consul"])];

#[test]
fn addresses_are_polled_as_recorded() {
    replay("addr");
}

#[test]
fn bindings_are_polled_as_recorded() {
    replay("bind");
}

#[test]
fn delegations_are_answered_as_recorded() {
    replay("delegate");
}

#[test]
fn dtabs_are_polled_as_recorded() {
    replay("dtab");
}

#[test]
fn mux_sessions_go_as_recorded() {
    replay("mux");
}

#[test]
fn plain_thrift_is_served_as_recorded() {
    replay("plain");
}

#[test]
fn clients_that_ask_for_headers_get_them_as_recorded() {
    replay("ttwitter");
}

#[test]
fn a_server_that_is_killed_and_comes_back_answers_old_stamps_as_recorded() {
    replay("sigkill");
}

#[test]
fn a_server_that_ends_takes_leave_of_everyone() {
    replay("sigterm");
}

/// Holds all conversations whose names begin so, with one server.
#[expect(clippy::print_stdout, reason = "what is left out is said")]
fn replay(group: &str) {
    let lacking = not_built();
    let left_out: BTreeSet<&str> =
        NEEDS.iter().filter(|(kind, _)| lacking.contains(*kind)).flat_map(|(_, names)| *names).copied().collect();
    let events = Events::load();
    let recordings = Recording::all("thrift", group);
    let mut running = Running::start(&recordings[0], "");
    println!("left out of the configuration: {:?}; conversations left out: {left_out:?}", running.dropped);
    let mut failures = Vec::new();
    for recording in recordings.iter().filter(|recording| !left_out.contains(recording.name.as_str())) {
        running.prepare(recording, &events);
        if let Err(why) = replay::converse(&mut running, &differences::steps(recording, &events)) {
            failures.push(format!("{}, {why}", recording.name));
        }
    }
    assert!(failures.is_empty(), "{} conversations differ:\n{}\n", failures.len(), failures.join("\n"));
}

#[test]
fn every_recording_is_replayed_or_waits_for_a_kind_that_is_not_built() {
    let all = Recording::all("thrift", "");
    assert_eq!(all.len(), 103);
    for recording in &all {
        let groups = GROUPS.iter().filter(|group| recording.name.starts_with(*group)).count();
        assert_eq!(groups, 1, "{} belongs to one group", recording.name);
    }
    for (kind, names) in NEEDS {
        for name in *names {
            let recording = Recording::load("thrift", name);
            assert!(recording.namerd_config.is_some_and(|config| config.contains(kind)), "{name} has no {kind}");
        }
    }
    for recording in all.iter().filter(|recording| recording.name.contains("consul")) {
        assert!(NEEDS.iter().any(|(_, names)| names.contains(&recording.name.as_str())), "{}", recording.name);
    }
}

// -- the replay itself: it must take the recorded server for itself, however its answers are ordered, and nothing else --

#[test]
fn the_recorded_server_passes_also_with_other_stamps_and_another_order() {
    let events = Events::load();
    let mut failures = Vec::new();
    std::thread::scope(|scope| {
        // Most of the time is spent with silences.
        let each = Recording::all("thrift", "").into_iter().map(|recording| {
            let events = &events;
            scope.spawn(move || {
                let mut steps = recording.steps(events);
                // Silence is what a played server is best at.
                steps.retain(|(_, step)| !matches!(step, Step::Silence { .. }));
                [|_, bytes: &[u8]| bytes.to_vec(), recorded::rearranged].into_iter().find_map(|change| {
                    let outcome = replay::converse(&mut Recorded::playing(change), &steps);
                    outcome.err().map(|why| format!("{}, {why}", recording.name))
                })
            })
        });
        for one in each.collect::<Vec<_>>() {
            failures.extend(one.join().expect("no panic"));
        }
    });
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn any_other_byte_in_an_answer_is_noticed() {
    let recordings = Recording::all("thrift", "");
    let mut unnoticed: Vec<_> = recordings.iter().flat_map(recorded::unnoticed).collect();
    // Names of Java classes, which rosterd has not.
    let classes = ["bind-bad-dtab", "bind-empty-segment", "delegate-bad-dtab", "mux-bad-thrift"];
    unnoticed.retain(|place| !classes.iter().any(|recording| place.starts_with(recording)));
    assert!(unnoticed.is_empty(), "{}", unnoticed.join("\n"));
}

#[test]
fn messages_are_read_as_the_recorder_read_them() {
    let mut read = 0;
    for recording in Recording::all("thrift", "").iter().chain(&Recording::all("linkerd-client", "thrift-")) {
        for (at, frame) in recording.frames.iter().enumerate() {
            let (Some(bytes), Some(meant)) = (frame.bytes(), &frame.thrift) else {
                continue;
            };
            let name = meant["name"].as_str().expect("a message has a name");
            let begins = [&[0x80, 0x01, 0x00][..], name.as_bytes()];
            let nonstrict = [&u32::try_from(name.len()).expect("it is short").to_be_bytes(), name.as_bytes()].concat();
            let at_name = bytes.windows(name.len()).position(|window| window == begins[1]).expect("the name is there");
            let start = if bytes.get(at_name.wrapping_sub(8)..at_name - 5) == Some(begins[0]) {
                at_name - 8
            } else {
                at_name - 4
            };
            assert!(bytes[start..].starts_with(begins[0]) || bytes[start..].starts_with(&nonstrict));
            let message = crate::support::thrift::Message::read(&bytes[start..]);
            let message = message.unwrap_or_else(|why| panic!("{}, frame {at}: {why}", recording.name));
            assert_eq!(&message.to_json(), meant, "{}, frame {at}", recording.name);
            read += 1;
        }
    }
    assert!(read > 400, "{read} messages");
}

#[test]
fn what_is_listed_as_a_difference_is_not_what_was_recorded() {
    for difference in DIFFERENCES {
        let recording = Recording::load("thrift", difference.recording);
        let replaced = &recording.frames[difference.frames.clone()];
        let recorded = |step: &Step| match step {
            Step::Expect { conn, want } => replaced.iter().filter(|frame| frame.connection() == *conn).any(|frame| {
                let protocol = Protocol::of(&recording.bytes(0));
                let same = |bytes: &[u8]| Stamps::default().compare(protocol, want, &bytes[4..]).is_ok();
                frame.bytes().is_some_and(|bytes| same(&bytes))
            }),
            Step::ServerCloses { .. } => replaced.iter().any(|frame| frame.note.contains("closed")),
            _ => true,
        };
        let all_recorded = difference.instead(&recording).iter().all(recorded);
        assert!(!all_recorded, "{}, frames {:?}: {}", recording.name, difference.frames, difference.decision);
    }
}
