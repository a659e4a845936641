//! Any bytes as the message of a call: it is read or refused, what is refused can be answered, and what is read is no
//! larger than the message.

use bytes::BytesMut;
use rosterd::name::{Dtab, Limits};
use rosterd::thrift::{
    Ask, BadCall, Call, NameRef, Refusal, after_request_header, exception, failure, internal, kind, read_call,
    reply_head,
};

pub fn run(data: &[u8]) {
    if let Some(message) = after_request_header(data) {
        assert!(data.ends_with(message));
    }
    let mut out = BytesMut::new();
    match read_call(data) {
        Ok(call) => {
            let limits = Limits { depth: 16, path_segments: 100, dtab_bytes: 1 << 20 };
            let (size, checked) = match &call.ask {
                Ask::Bind { dtab: text, name } => {
                    let checked = dtab(text, &limits).map(drop).and(name.path(&limits).map(drop));
                    (name_size(&call.ask), checked)
                }
                Ask::Addr { name } => (name_size(&call.ask), name.path(&limits).map(drop)),
                Ask::Delegate(ask) => {
                    (ask.stamp.len(), dtab(&ask.dtab, &limits).map(drop).and(ask.tree(&limits).map(drop)))
                }
                Ask::Dtab { stamp, ns: _ } => (stamp.len(), Ok(())),
            };
            assert!(size <= data.len(), "{size} bytes of {}", data.len());
            if let Err(refusal) = checked {
                refuse(&mut out, &call, &refusal);
                let exception = matches!(refusal, Refusal::Internal(_));
                check_reply(&out, call.ask.method().name().as_bytes(), call.seqid, exception);
            }
        }
        Err(BadCall::Header(text)) => assert!(!text.is_empty()),
        Err(BadCall::Exception { name, seqid, kind, message }) => {
            exception(&mut out, &name, seqid, kind, &message);
            check_reply(&out, &name, seqid, true);
        }
        Err(BadCall::Failure { method, seqid, body }) => {
            reply_head(&mut out, method.name().as_bytes(), seqid);
            out.extend_from_slice(&body);
            check_reply(&out, method.name().as_bytes(), seqid, false);
        }
    }
}

fn dtab(text: &str, limits: &Limits) -> Result<Dtab, Refusal> {
    Dtab::parse_with(text, limits).map_err(|error| Refusal::Internal(error.to_string()))
}

fn refuse(out: &mut BytesMut, call: &Call, refusal: &Refusal) {
    let method = call.ask.method();
    match refusal {
        Refusal::Failure(reason) => {
            let nameless = NameRef::default();
            reply_head(out, method.name().as_bytes(), call.seqid);
            out.extend_from_slice(&failure(method, reason, call.ask.name().unwrap_or(&nameless)));
        }
        Refusal::Internal(text) => {
            let text = internal(method, text);
            exception(out, method.name().as_bytes(), call.seqid, kind::INTERNAL_ERROR, &text);
        }
    }
}

fn name_size(ask: &Ask) -> usize {
    ask.name().map_or(0, |name| name.stamp.len() + name.elems().map(<[u8]>::len).sum::<usize>())
}

/// A reply echoes name and number, and is one whole struct behind them.
fn check_reply(reply: &[u8], name: &[u8], seqid: i32, exception: bool) {
    let head = [
        &[0x80, 1, 0, if exception { 3 } else { 2 }][..],
        &u32::try_from(name.len()).expect("a name is part of the data").to_be_bytes(),
        name,
        &seqid.to_be_bytes(),
    ]
    .concat();
    let body = reply.strip_prefix(&head[..]).expect("the head echoes the call");
    assert_eq!(after_request_header(body), Some(&[][..]));
}
