use bytes::{Bytes, BytesMut};
use proptest::prelude::*;

use super::*;
use crate::wire::Output;

const MOST: usize = 16 << 20;

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.bytes().filter(|digit| !digit.is_ascii_whitespace()).collect();
    digits.chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

fn written(message: &Message) -> Vec<u8> {
    let mut out = Output::default();
    message.write(&mut out);
    out.take()
}

/// The messages in some bytes, which must all be whole.
fn read(bytes: &[u8]) -> Result<Vec<Message>, BadMessage> {
    let (mut input, mut reassembly, mut messages) = (BytesMut::from(bytes), Reassembly::new(MOST), Vec::new());
    while let Some(frame) = take_frame(&mut input, MOST).expect("frames") {
        messages.extend(reassembly.take(Frame::read(frame)?)?.map(Message::read).transpose()?);
    }
    assert!(input.is_empty() && reassembly.bytes() == 0, "something is left");
    Ok(messages)
}

fn text(text: &'static str) -> Bytes {
    Bytes::from_static(text.as_bytes())
}

#[test]
fn messages_have_the_bytes_that_finagle_gives_them() {
    let two = Tag::new(2);
    let discarded = text("Failure(Released, flags=0x02)");
    let cases = [
        (Message::Tping(Tag::CONTROL), "00000004 41000001"),
        (Message::Rping(Tag::CONTROL), "00000004 bf000001"),
        (Message::Tdrain(Tag::CONTROL), "00000004 40000001"),
        (Message::Rdrain(Tag::CONTROL), "00000004 c0000001"),
        (Message::Rdiscarded(two), "00000004 be000002"),
        (Message::Rerr { tag: Tag::CONTROL, reason: PROBE.into() }, "0000000f 7f000001 74696e697420636865636b"),
        (
            Message::Tdiscarded { tag: Tag::MARKER, which: two, reason: discarded },
            "00000024 c2000000 000002 4661696c7572652852656c65617365642c20666c6167733d3078303229",
        ),
        (Message::Rdispatch { tag: two, status: Status::Nack, payload: Bytes::new() }, "00000007 fe000002 02 0000"),
        (Message::Rdispatch { tag: two, status: Status::Ok, payload: text("ab") }, "00000009 fe000002 00 0000 6162"),
        (Message::Rreq { tag: two, status: Status::Ok, payload: text("ab") }, "00000007 ff000002 00 6162"),
        (
            Message::Tinit { tag: Tag::CONTROL, init: Init::plain() },
            "0000002a 44000001 0001 0000000a 6d75782d6672616d6572 00000004 7fffffff 00000003 746c73 00000003 6f6666",
        ),
        (
            Message::Rinit { tag: Tag::CONTROL, init: Init::plain() },
            "0000002a bc000001 0001 0000000a 6d75782d6672616d6572 00000004 7fffffff 00000003 746c73 00000003 6f6666",
        ),
    ];
    for (message, hex) in cases {
        assert_eq!(written(&message), bytes(hex), "{message:?}");
        assert_eq!(read(&bytes(hex)), Ok(vec![message]));
    }
}

#[test]
fn both_ids_of_the_two_kinds_that_have_two_are_read() {
    let rerr = Message::Rerr { tag: Tag::new(3), reason: text("oops") };
    for hex in ["00000008 7f000003 6f6f7073", "00000008 80000003 6f6f7073"] {
        assert_eq!(read(&bytes(hex)), Ok(vec![rerr.clone()]));
    }
    let discarded = Message::Tdiscarded { tag: Tag::MARKER, which: Tag::new(9), reason: Bytes::new() };
    for hex in ["00000007 c2000000 000009", "00000007 42000000 000009"] {
        assert_eq!(read(&bytes(hex)), Ok(vec![discarded.clone()]));
    }
}

#[test]
fn contexts_destination_and_dtab_are_skipped_whatever_they_say() {
    // A context, a destination that is no path, a dtab that does not parse.
    let hex = "00000026 02000002 0001 0003 6b6579 0002 ffff 0004 66726f67 0001 0003 737663 0002 2828 800100 01 abcd";
    let dispatch = Message::Tdispatch { tag: Tag::new(2), payload: Bytes::from(bytes("80010001abcd")) };
    assert_eq!(read(&bytes(hex)), Ok(vec![dispatch]));
    let treq = "00000013 01000002 02 01 04 00000000 02 01 07 800100 01 ab";
    let payload = Bytes::from(bytes("80010001ab"));
    assert_eq!(read(&bytes(treq)), Ok(vec![Message::Treq { tag: Tag::new(2), payload }]));
}

#[test]
fn what_is_cut_off_is_no_message() {
    for (hex, kind) in [
        ("0000000a 02000002 0001 0040 6162", Kind::Tdispatch),
        ("00000006 02000002 0001", Kind::Tdispatch),
        ("00000005 01000002 ff", Kind::Treq),
        ("00000006 c2000000 0000", Kind::OldTdiscarded),
        ("00000004 fe000002", Kind::Rdispatch),
        ("00000005 44000001 00", Kind::Tinit),
        ("0000000a 44000001 0001 7fffffff", Kind::Tinit),
        ("00000005 43000000 00", Kind::Tlease),
    ] {
        assert_eq!(read(&bytes(hex)), Err(BadMessage::Short(kind)), "{hex}");
    }
    assert_eq!(read(&bytes("00000005 32000002 78")), Err(BadMessage::UnknownKind(50)));
    assert_eq!(read(&bytes("00000005 fe000002 03")), Err(BadMessage::UnknownStatus(Kind::Rdispatch, 3)));
}

#[test]
fn a_length_is_judged_before_anything_is_reserved_for_it() {
    let taken = |hex| take_frame(&mut BytesMut::from(&bytes(hex)[..]), MOST);
    assert_eq!(taken("7fffffff"), Err(BadFrame::TooLong { length: 0x7fff_ffff, most: MOST }));
    assert_eq!(taken("ffffffff"), Err(BadFrame::TooLong { length: 0xffff_ffff, most: MOST }));
    assert_eq!(taken("01000001"), Err(BadFrame::TooLong { length: 0x0100_0001, most: MOST }));
    assert_eq!(taken("01000000"), Ok(None));
    assert_eq!(taken("00000000"), Err(BadFrame::TooShort(0)));
    assert_eq!(taken("00000003 000000"), Err(BadFrame::TooShort(3)));
    assert_eq!(taken("000000"), Ok(None));
    assert_eq!(taken("00000004 000000"), Ok(None));
}

#[test]
fn fragments_of_several_messages_may_alternate_and_whole_ones_come_between() {
    let hex = "0000000a 02800002 0000 0000 0000  0000000b 02800003 0000 0000 0000 61
               00000004 41000001  00000005 02800002 78  00000005 02000003 62  00000005 02000002 79";
    let dispatch = |tag, payload| Message::Tdispatch { tag: Tag::new(tag), payload: text(payload) };
    assert_eq!(read(&bytes(hex)), Ok(vec![Message::Tping(Tag::CONTROL), dispatch(3, "ab"), dispatch(2, "xy")]));
}

#[test]
fn a_discard_drops_the_pieces_of_its_message() {
    let hex = "0000000b 02800002 0000 0000 0000 61  00000007 c2000000 000002  0000000b 02000002 0000 0000 0000 62";
    let messages = read(&bytes(hex)).expect("messages");
    assert_eq!(messages[1], Message::Tdispatch { tag: Tag::new(2), payload: text("b") });
}

#[test]
fn pieces_are_bounded() {
    let piece = |tag, kind, bytes: usize| {
        let body = Bytes::from(vec![0; bytes]);
        Frame { kind, tag: Tag::new(tag), more: true, body }
    };
    let mut reassembly = Reassembly::new(1000);
    assert_eq!(reassembly.take(piece(2, Kind::Tdispatch, 600)), Ok(None));
    assert_eq!(reassembly.take(piece(3, Kind::Tdispatch, 401)), Err(BadMessage::FragmentBytes(1000)));
    assert_eq!(reassembly.take(piece(2, Kind::Rdispatch, 1)), Err(BadMessage::MixedFragments(Tag::new(2))));
    assert_eq!(reassembly.take(piece(2, Kind::Tping, 1)), Err(BadMessage::NotFragmentable(Kind::Tping)));
    let mut reassembly = Reassembly::new(1000);
    let tags = (2..1000).take_while(|tag| reassembly.take(piece(*tag, Kind::Tdispatch, 0)).is_ok()).count();
    assert_eq!(tags, 256);
}

#[test]
fn a_reply_fits_the_window_of_its_client() {
    let body = Bytes::from((0..=255).cycle().take(20_000).collect::<Vec<u8>>());
    let whole =
        Message::Rdispatch { tag: Tag::new(7), status: Status::Ok, payload: [b"head", &body[..]].concat().into() };
    for window in [1, 16, 17, 32, 8_192, 20_006, 20_007, usize::MAX] {
        let mut out = Output::default();
        write_reply(&mut out, Tag::new(7), window, b"head", body.clone());
        let sent = out.take();
        assert_eq!(read(&sent), Ok(vec![whole.clone()]), "{window}");
        let (mut input, mut frames) = (BytesMut::from(&sent[..]), Vec::new());
        while let Some(frame) = take_frame(&mut input, MOST).expect("frames") {
            frames.push(Frame::read(frame).expect("a header"));
        }
        assert!(frames.iter().all(|frame| frame.body.len() <= window.max(16)), "{window}");
        assert_eq!(frames.iter().filter(|frame| !frame.more).count(), 1);
        assert_eq!(frames.len(), 20_007_usize.div_ceil(window.max(16)));
    }
}

#[test]
fn the_window_is_that_of_the_header_if_it_makes_sense() {
    let with = |value: &'static [u8]| {
        Init { version: 1, headers: vec![(text("mux-framer"), Bytes::from_static(value))] }.window()
    };
    assert_eq!(with(&[0, 0, 0, 32]), 32);
    assert_eq!([with(&[0, 0, 0, 0]), with(&[255; 4]), with(&[1])], [usize::MAX; 3]);
    assert_eq!(Init { version: 1, headers: Vec::new() }.window(), usize::MAX);
    let tls = |value| Init { version: 1, headers: vec![(text("tls"), text(value))] }.tls();
    assert_eq!([tls("required"), tls("desired"), tls("maybe")], [Tls::Required, Tls::Desired, Tls::Off]);
}

fn any_bytes() -> impl Strategy<Value = Bytes> {
    proptest::collection::vec(any::<u8>(), 0..40).prop_map(Bytes::from)
}

fn any_message() -> impl Strategy<Value = Message> {
    let status = prop_oneof![Just(Status::Ok), Just(Status::Error), Just(Status::Nack)];
    let headers = proptest::collection::vec((any_bytes(), any_bytes()), 0..4);
    let parts = (0..16_u32, any::<u32>().prop_map(Tag::new), any::<u32>().prop_map(Tag::new), any_bytes(), status);
    (parts, any::<(u16, u8, u64)>(), headers).prop_map(|(parts, (version, unit, howmuch), headers)| {
        let (which_kind, tag, which, payload, status) = parts;
        match which_kind {
            0 => Message::Treq { tag, payload },
            1 => Message::Rreq { tag, status, payload },
            2 => Message::Tdispatch { tag, payload },
            3 => Message::Rdispatch { tag, status, payload },
            4 => Message::Tdrain(tag),
            5 => Message::Rdrain(tag),
            6 => Message::Tping(tag),
            7 => Message::Rping(tag),
            8 => Message::Tdiscarded { tag, which, reason: payload },
            9 => Message::Rdiscarded(tag),
            10 => Message::Tlease { tag, unit, howmuch },
            11 => Message::Tinit { tag, init: Init { version, headers } },
            12 => Message::Rinit { tag, init: Init { version, headers } },
            _ => Message::Rerr { tag, reason: payload },
        }
    })
}

proptest! {
    #[test]
    fn what_is_written_is_read(messages in proptest::collection::vec(any_message(), 0..10)) {
        let sent: Vec<u8> = messages.iter().flat_map(written).collect();
        prop_assert_eq!(read(&sent), Ok(messages));
    }

    #[test]
    fn any_bytes_are_a_message_or_an_error(body in proptest::collection::vec(any::<u8>(), 0..64)) {
        if let Ok(frame) = Frame::read(Bytes::from(body)) {
            let (kind, length) = (frame.kind, frame.body.len());
            if let Ok(Message::Tdispatch { payload, .. }) = Message::read(frame) {
                prop_assert!(kind == Kind::Tdispatch && payload.len() + 6 <= length);
            }
        }
    }
}
