//! The words of mux.

use super::*;

fn rerr(tag: Tag, reason: &'static str) -> Message {
    Message::Rerr { tag, reason: reason.into() }
}

fn init(headers: &[(&'static str, &'static [u8])]) -> Init {
    let headers = headers.iter().map(|(key, value)| ((*key).into(), Bytes::from_static(value))).collect();
    Init { version: 1, headers }
}

#[tokio::test(start_paused = true)]
async fn a_first_frame_that_is_no_probe_is_served_without_a_handshake() {
    let world = World::new();
    let mut pinger = world.connect();
    pinger.say(&Message::Tping(Tag::CONTROL)).await;
    assert_eq!(pinger.hears().await, Message::Rping(Tag::CONTROL));
    let mut asker = world.connect();
    asker.dispatch(TWO, dtab(b"", "default")).await;
    assert!(asker.answer(TWO).await.has("/svc=>/#/t"));
    let mut probing = world.connect();
    probing.say(&rerr(Tag::CONTROL, "tinit check")).await;
    probing.hears().await;
    probing.say(&Message::Tping(Tag::CONTROL)).await;
    assert_eq!(probing.hears().await, Message::Rping(Tag::CONTROL), "a probe and then no Tinit");
}

#[tokio::test(start_paused = true)]
async fn headers_of_a_handshake_may_be_missing_or_unknown() {
    let world = World::new();
    for headers in [&[][..], &[("x-foo", &b"bar"[..]), ("tls", b"desired")]] {
        let mut peer = world.connect();
        peer.say(&rerr(Tag::CONTROL, "tinit check")).await;
        peer.hears().await;
        peer.say(&Message::Tinit { tag: Tag::new(5), init: init(headers) }).await;
        assert_eq!(peer.hears().await, Message::Rinit { tag: Tag::new(5), init: Init::plain() });
        peer.say(&Message::Tping(Tag::CONTROL)).await;
        assert_eq!(peer.hears().await, Message::Rping(Tag::CONTROL));
    }
}

#[tokio::test(start_paused = true)]
async fn a_version_that_is_not_known_and_tls_within_the_session_are_refused_in_words() {
    let world = World::new();
    let mut peer = world.connect();
    peer.say(&rerr(Tag::CONTROL, "tinit check")).await;
    peer.hears().await;
    peer.say(&Message::Tinit { tag: Tag::CONTROL, init: Init { version: 2, headers: Vec::new() } }).await;
    assert_eq!(peer.hears().await, rerr(Tag::CONTROL, "Unsupported Mux version: 2"));
    peer.is_closed().await;
    let mut peer = world.connect();
    peer.say(&rerr(Tag::CONTROL, "tinit check")).await;
    peer.hears().await;
    peer.say(&Message::Tinit { tag: Tag::CONTROL, init: init(&[("tls", b"required")]) }).await;
    assert!(matches!(peer.hears().await, Message::Rinit { .. }));
    let refusal = "Could not negotiate whether to use TLS or not.. Remote Info: Not Available";
    assert_eq!(peer.hears().await, rerr(Tag::CONTROL, refusal));
    peer.is_closed().await;
}

#[tokio::test(start_paused = true)]
async fn messages_that_have_no_business_here_are_named_and_the_session_goes_on() {
    let world = World::new();
    let mut router = world.router().await;
    let tag = Tag::new(9);
    for (message, number) in [
        (Message::Tinit { tag, init: Init::plain() }, "68"),
        (Message::Rping(tag), "-65"),
        (Message::Rdrain(tag), "-64"),
        (Message::Tdrain(tag), "64"),
        (Message::Rdiscarded(tag), "-66"),
        (Message::Tlease { tag, unit: 0, howmuch: 1 }, "67"),
        (Message::Rerr { tag, reason: "oops".into() }, "127"),
    ] {
        router.say(&message).await;
        let reason = format!("Unexpected mux message type {number}").into();
        assert_eq!(router.hears().await, Message::Rerr { tag, reason });
    }
    router.dispatch(TWO, dtab(b"", "default")).await;
    router.answer(TWO).await;
}

#[tokio::test(start_paused = true)]
async fn old_routers_ask_by_treq() {
    let world = World::new();
    let mut router = world.router().await;
    router.say(&Message::Treq { tag: TWO, payload: dtab(b"", "default").into() }).await;
    match router.hears().await {
        Message::Rreq { tag: TWO, status: Status::Ok, payload } => assert!(Answer(payload).has("/svc=>/#/t")),
        other => panic!("heard {other:?}"),
    }
    router.say(&Message::Treq { tag: TWO, payload: bind(b"", "/svc/web").into() }).await;
    router.say(&Message::Tdiscarded { tag: Tag::MARKER, which: TWO, reason: Bytes::new() }).await;
    assert_eq!(router.hears().await, Message::Rdiscarded(TWO));
}

#[tokio::test(start_paused = true)]
async fn a_discard_is_confirmed_while_its_request_waits_and_never_otherwise() {
    let world = World::new();
    world.fixture.serve("/web", &[]);
    let mut router = world.router().await;
    let discard = |which| Message::Tdiscarded { tag: Tag::MARKER, which, reason: "Released".into() };
    router.say(&discard(TWO)).await;
    router.dispatch(TWO, bind(b"", "/svc/web")).await;
    let stamp = router.answer(TWO).await.stamp();
    router.say(&discard(TWO)).await;
    router.hears_nothing_for(Duration::from_secs(5)).await;
    router.dispatch(TWO, bind(&stamp, "/svc/web")).await;
    router.dispatch(THREE, delegate(b"1", "/svc/web")).await;
    for tag in [TWO, THREE] {
        router.say(&discard(tag)).await;
        assert_eq!(router.hears().await, Message::Rdiscarded(tag));
    }
    // The tag is free again, and the change goes to its new use only.
    router.dispatch(TWO, dtab(b"", "default")).await;
    assert!(router.answer(TWO).await.has("/svc=>/#/t"));
    world.fixture.remove("/web");
    router.hears_nothing_for(Duration::from_secs(5)).await;
}

#[tokio::test(start_paused = true)]
async fn a_discard_may_have_the_old_number_or_that_of_the_specification() {
    let world = World::new();
    let mut router = world.router().await;
    for kind in [0xc2, 0x42] {
        router.dispatch(TWO, delegate(b"1", "/svc/web")).await;
        router.io.write_all(&[0, 0, 0, 9, kind, 0, 0, 0, 0, 0, 2, b'n', b'o']).await.expect("open");
        assert_eq!(router.hears().await, Message::Rdiscarded(TWO));
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_may_come_in_pieces_with_others_in_between() {
    let world = World::new();
    let mut router = world.router().await;
    let body = [&[0; 6][..], &dtab(b"", "default")].concat();
    let piece = |tag: Tag, more: bool, body: &[u8]| {
        let flag = if more { 0x0280_0000 } else { 0x0200_0000 };
        let length = u32::try_from(body.len() + 4).expect("short").to_be_bytes();
        [&length[..], &(flag | tag.get()).to_be_bytes(), body].concat()
    };
    let (first, second) = (piece(TWO, true, &body[..9]), piece(TWO, true, &body[9..20]));
    router.io.write_all(&first).await.expect("open");
    router.say(&Message::Tping(Tag::CONTROL)).await;
    router.io.write_all(&piece(THREE, false, &body)).await.expect("open");
    router.io.write_all(&second).await.expect("open");
    assert_eq!(router.hears().await, Message::Rping(Tag::CONTROL));
    router.answer(THREE).await;
    router.io.write_all(&piece(TWO, false, &body[20..])).await.expect("open");
    router.answer(TWO).await;
    // Pieces of what was given up are no part of what follows under the same tag.
    router.io.write_all(&first).await.expect("open");
    router.say(&Message::Tdiscarded { tag: Tag::MARKER, which: TWO, reason: Bytes::new() }).await;
    router.io.write_all(&piece(TWO, false, &body)).await.expect("open");
    router.answer(TWO).await;
}

#[tokio::test(start_paused = true)]
async fn a_router_with_a_small_window_gets_answers_in_pieces() {
    let world = World::new();
    let mut router = world.connect();
    router.say(&rerr(Tag::CONTROL, "tinit check")).await;
    router.hears().await;
    let window = init(&[("mux-framer", &[0, 0, 0, 20])]);
    router.say(&Message::Tinit { tag: Tag::CONTROL, init: window }).await;
    router.hears().await;
    router.dispatch(TWO, dtab(b"", "default")).await;
    let mut frames = Vec::new();
    while frames.last().is_none_or(|frame: &Frame| frame.more) {
        frames.push(Frame::read(router.frame().await.expect("open")).expect("a header"));
    }
    assert!(frames.len() > 2 && frames.iter().all(|frame| frame.body.len() <= 20), "{frames:?}");
    let all: Vec<u8> = frames.iter().flat_map(|frame| frame.body.to_vec()).collect();
    assert!(Answer(all.into()).has("/svc=>/#/t"));
}

#[tokio::test(start_paused = true)]
async fn what_is_no_message_ends_that_session_and_no_other() {
    let world = World::new();
    let mut other = world.router().await;
    for bytes in [
        &b"\xff\xff\xff\xff"[..],                // a negative length
        b"\x01\x00\x00\x01",                     // one over the most
        b"\0\0\0\0",                             // nothing
        b"\0\0\0\x02\x01\x02",                   // half a header
        b"\0\0\0\x05\x32\0\0\x02x",              // no such kind
        b"\0\0\0\x0a\x02\0\0\x02\0\x01\0\x40ab", // a context that is cut off
        b"\0\0\0\x05\xc1\x80\0\x02x",            // a fragment of what has none
    ] {
        let mut router = world.router().await;
        router.dispatch(TWO, bind(b"", "/svc/web")).await;
        router.io.write_all(bytes).await.expect("open");
        router.is_closed().await;
    }
    other.say(&Message::Tping(Tag::CONTROL)).await;
    assert_eq!(other.hears().await, Message::Rping(Tag::CONTROL));
}

#[tokio::test(start_paused = true)]
async fn a_dispatch_that_is_no_thrift_is_an_error_and_the_session_goes_on() {
    let world = World::new();
    let mut router = world.router().await;
    for payload in [&b"\xde\xad\xbe\xef"[..], b""] {
        router.dispatch(TWO, payload).await;
        let heard = router.hears().await;
        assert!(matches!(heard, Message::Rdispatch { tag: TWO, status: Status::Error, .. }), "{heard:?}");
    }
    router.dispatch(TWO, call("nope", &[])).await;
    let answer = router.answer(TWO).await;
    assert!(answer.is_exception() && answer.has("Invalid method name: 'nope'"), "{answer:?}");
}

#[tokio::test(start_paused = true)]
async fn other_protocols_are_closed_at_once() {
    let world = World::new();
    for bytes in [
        &b"GET / HTTP/1.1\r\n\r\n"[..],
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"\x16\x03\x01\x02\0\x01\0\x01\xfc",
        b"\x80\x01\0\x01\0\0\0\x04bind", // thrift without frames
        b"\0\0\0\x04\xde\xad\xbe\xef",
        b"\0\0\0\0",
        b"PROXY TCP4 10.0.0.1 10.0.0.2 1 2\r\n",
    ] {
        let mut peer = world.connect();
        peer.io.write_all(bytes).await.expect("open");
        peer.is_closed().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_that_leaves_takes_its_watches_with_it() {
    let world = World::new();
    world.fixture.serve("/web", &["127.0.0.1:80"]);
    let mut router = world.router().await;
    router.dispatch(TWO, bind(b"", "/svc/web")).await;
    let stamp = router.answer(TWO).await.stamp();
    router.dispatch(TWO, bind(&stamp, "/svc/web")).await;
    router.dispatch(THREE, dtab(b"", "default")).await;
    router.answer(THREE).await;
    let in_use = || world.server.topics.in_use();
    assert_eq!(in_use(), 2);
    drop(router);
    tokio::time::sleep(Duration::from_millis(10)).await;
    assert_eq!(in_use(), 0);
}
