//! Where rosterd does otherwise than namerd on purpose: what happens in place of recorded frames, and why. What stands here
//! must happen exactly so, and is never what was recorded; a line that is no longer needed fails.

use std::ops::RangeInclusive;

use super::recording::{Deed, Events, Recording, Step, Want};
use crate::support::mux;
use crate::support::thrift::{Message, REPLY, STRUCT, Value};

/// Frames of a recording in whose place something else happens.
pub struct Difference {
    pub recording: &'static str,
    pub frames: RangeInclusive<usize>,
    pub decision: &'static str,
    instead: Instead,
}

enum Instead {
    /// The server closes this connection.
    Closes(&'static str),
    /// Under this tag, the bind of `/svc/web` in `default` is answered.
    Served(u32),
    /// Under this tag, the method's declared failure.
    Failure(u32),
    /// A frame as recorded but for its text.
    OtherText,
    Steps(fn(&Recording) -> Vec<Step>),
}

const FOREIGN: &str = "a connection that begins with something else, or goes on with it, is closed at once";
const SKIPPED: &str = "contexts, dst and dtab of a Tdispatch are skipped by their length, whatever is in them";
const MISSING: &str = "a missing string or list is an empty one, a missing struct the method's declared failure";
const RESIDUAL: &str = "a binding whose residual changes has changed";
const WRITTEN: &str = "what was acknowledged is visible: nobody reads the dtab that was there before";
const WORDING: &str = "texts of the JVM are worded otherwise; kinds and codes are the same";
const DRAIN: &str =
    "at the end every client is told, every poll is answered, and only then connections are closed; status 0";

pub const DIFFERENCES: &[Difference] = &[
    row("plain-garbage", 5..=6, FOREIGN, Instead::Closes("c2")),
    row("plain-garbage", 9..=10, FOREIGN, Instead::Closes("c3")),
    row("plain-garbage", 13..=14, FOREIGN, Instead::Closes("c4")),
    row("plain-garbage", 25..=26, FOREIGN, Instead::Closes("c7")),
    row("plain-framed", 15..=15, FOREIGN, Instead::Closes("")),
    row("mux-bad-mux-dtab", 5..=5, SKIPPED, Instead::Served(2)),
    row("mux-contexts", 7..=7, SKIPPED, Instead::Served(3)),
    row("mux-bad-thrift", 11..=11, MISSING, Instead::Failure(5)),
    row("mux-bad-thrift", 15..=15, MISSING, Instead::Failure(7)),
    row("mux-bad-thrift", 17..=17, MISSING, Instead::Served(8)),
    row("mux-bad-thrift", 19..=19, MISSING, Instead::Served(9)),
    row("mux-bad-thrift", 5..=5, WORDING, Instead::OtherText),
    row("mux-bad-thrift", 7..=7, WORDING, Instead::OtherText),
    row("mux-bad-thrift", 29..=29, WORDING, Instead::OtherText),
    row("bind-empty-segment", 5..=5, WORDING, Instead::OtherText),
    row("plain-framed", 13..=13, WRITTEN, Instead::Steps(written)),
    row("bind-longpoll-dtab-put", 14..=16, RESIDUAL, Instead::Steps(residual)),
    row("sigterm-pending", 31..=51, DRAIN, Instead::Steps(drain)),
];

const fn row(
    recording: &'static str,
    frames: RangeInclusive<usize>,
    decision: &'static str,
    instead: Instead,
) -> Difference {
    Difference { recording, frames, decision, instead }
}

/// The steps of a recording, with what rosterd does in place of namerd.
pub fn steps(recording: &Recording, events: &Events) -> Vec<(Option<usize>, Step)> {
    let mut steps = recording.steps(events);
    for difference in DIFFERENCES.iter().filter(|difference| difference.recording == recording.name) {
        let replaced = |step: &(Option<usize>, Step)| step.0.is_some_and(|frame| difference.frames.contains(&frame));
        let at = steps.iter().position(replaced).expect("the recording has these frames");
        steps.retain(|step| !replaced(step));
        let first = *difference.frames.start();
        let instead = difference.instead(recording).into_iter().map(|step| (Some(first), step));
        steps.splice(at..at, instead);
    }
    steps
}

impl Difference {
    /// What happens in place of the recorded frames.
    pub fn instead(&self, recording: &Recording) -> Vec<Step> {
        let frame = &recording.frames[*self.frames.start()];
        let step = match self.instead {
            Instead::Closes(conn) => Step::ServerCloses { conn: conn.to_owned() },
            Instead::Served(tag) => answer(tag, &bound(WEB, &["#", "io.l5d.fs", "web"], &[], "default")),
            Instead::Failure(tag) => expect(Want::DeclaredFailure { tag, method: "bind" }),
            Instead::OtherText => {
                let bytes = frame.bytes().expect("a frame of the server");
                Step::Expect { conn: frame.connection(), want: Want::OtherText(bytes) }
            }
            Instead::Steps(steps) => return steps(recording),
        };
        vec![step]
    }
}

/// The recorded stamp of the bind of `/svc/web` in `default`.
const WEB: &[u8] = b"\xaa\xb3\x43\xc2\x18\x58\xcb\xbe";

fn written(recording: &Recording) -> Vec<Step> {
    let mut bytes = recording.bytes(13);
    let mut message = Message::read(&bytes[4..]).expect("it was recorded so");
    let dtab = message.body.field_mut(0).and_then(|result| result.field_mut(2)).expect("the dtab");
    *dtab = Value::text("/svc=>/#/io.l5d.fs/web2");
    bytes = framed(&message.write());
    vec![expect(Want::Frame(bytes))]
}

fn residual(recording: &Recording) -> Vec<Step> {
    // No stamp of this answer was recorded.
    const STAMP: &[u8] = b"residual";
    let deletion = Events::load().at(&recording.name, &recording.frames[15].note);
    let mut steps = vec![
        answer(4, &bound(STAMP, &["#", "io.l5d.fs", "web2"], &["x", "web"], "lp")),
        send("", &mux::tdispatch(4, &mux::bind("", STAMP, &["svc", "web"], "lp").write())),
    ];
    steps.extend(deletion.into_iter().map(Step::Act));
    steps.push(expect(Want::Frame(recording.bytes(16))));
    steps
}

/// After Tdrain came to three sessions, one call was answered, and one client has sent Rdrain.
fn drain(recording: &Recording) -> Vec<Step> {
    let recorded = |frame: usize| recording.bytes(frame);
    let again = |frame: usize, tag: u8| {
        let mut bytes = recorded(frame);
        bytes[7] = tag;
        Want::Frame(bytes)
    };
    let on = |conn: &str, want: Want| Step::Expect { conn: conn.to_owned(), want };
    let sends = |conn: &str, frame: usize| Step::Send { conn: conn.to_owned(), bytes: recorded(frame) };
    let closes = |conn: &str| Step::ServerCloses { conn: conn.to_owned() };
    vec![
        // Who comes late is served, and told to go elsewhere.
        Step::Open { conn: "late".to_owned() },
        sends("late", 10),
        on("late", Want::Frame(recorded(11))),
        sends("late", 12),
        on("late", Want::Frame(recorded(13))),
        on("late", Want::Frame(recorded(25))),
        sends("late", 14),
        on("late", Want::Frame(recorded(15))),
        // Both polls are answered with what is known, with the stamps that the client has.
        on("rdrain", again(5, 3)),
        on("rdrain", again(8, 5)),
        on("no-rdrain", again(15, 3)),
        on("plain", again_plain(recorded(18))),
        closes("plain"),
        closes("idle-plain"),
        closes("rdrain"),
        closes("no-rdrain"),
        closes("idle-mux"),
        closes("late"),
        Step::Act(Deed::Ended { ended: 0 }),
    ]
}

/// The answer to the second call of the plain client.
fn again_plain(mut first: Vec<u8>) -> Want {
    let seqid = first.windows(8).position(|window| window == b"bind\0\0\0\x01").expect("the sequence number") + 7;
    first[seqid] = 2;
    Want::Frame(first)
}

fn expect(want: Want) -> Step {
    Step::Expect { conn: String::new(), want }
}

fn answer(tag: u32, message: &Message) -> Step {
    let [_, tag @ ..] = tag.to_be_bytes();
    expect(Want::Frame(framed(&[&[0xfe][..], &tag, &[0, 0, 0], &message.write()].concat())))
}

fn send(conn: &str, frame: &[u8]) -> Step {
    Step::Send { conn: conn.to_owned(), bytes: framed(frame) }
}

fn framed(frame: &[u8]) -> Vec<u8> {
    let length = u32::try_from(frame.len()).expect("a test's frame is small").to_be_bytes();
    [&length, frame].concat()
}

/// The answer to a bind that has one leaf.
fn bound(stamp: &[u8], id: &[&str], residual: &[&str], ns: &str) -> Message {
    let leaf = Value::Struct(vec![(1, Value::path(id)), (2, Value::path(residual))]);
    let root = Value::Struct(vec![(4, leaf)]);
    let tree = Value::Struct(vec![(1, root), (2, Value::Map(8, STRUCT, Vec::new()))]);
    let bound = Value::Struct(vec![(1, Value::Binary(stamp.to_vec())), (2, tree), (3, Value::text(ns))]);
    Message { kind: REPLY, name: "bind".to_owned(), seqid: 0, body: Value::Struct(vec![(0, bound)]) }
}
