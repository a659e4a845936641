//! Limits, each refused in words that name it.

use super::*;
use crate::iface::thrift::CacheLimits;
use crate::runtime::Limit;

#[tokio::test(start_paused = true)]
async fn keys_that_somebody_waits_for_are_counted_and_the_client_with_most_is_refused() {
    let few = CacheLimits { active: 8, ..CacheLimits::default() };
    let world = World::with(&OwnLimits::default(), ThriftConfig { bindings: few, addresses: few }, |_| ());
    world.fixture.serve("/a", &[]);
    let mut passer_by = world.router().await;
    for n in 0..8 {
        passer_by.dispatch(TWO, bind(b"", &format!("/old{n}"))).await;
        passer_by.answer(TWO).await;
    }
    drop(passer_by);
    let (mut greedy, mut modest) = (world.connect_from("192.0.2.1"), world.connect_from("192.0.2.2"));
    for n in 0..8 {
        greedy.dispatch(Tag::new(2 + n), bind(b"", &format!("/svc/{n}"))).await;
    }
    tokio::time::sleep(Duration::from_millis(10)).await;
    for call in [bind(b"", "/svc/9"), bind_in("other", "", b"", "/svc/0")] {
        greedy.dispatch(Tag::new(90), call).await;
        let answer = greedy.answer(Tag::new(90)).await;
        let reason = "The maximum number of concurrent observations has been reached (8)";
        assert!(answer.is_failure() && answer.has(reason), "{answer:?}");
    }
    modest.dispatch(TWO, bind(b"", "/svc/a")).await;
    assert!(modest.answer(TWO).await.has("\x01a"));
    greedy.dispatch(Tag::new(90), bind(b"", "/svc/a")).await;
    assert!(greedy.answer(Tag::new(90)).await.has("\x01a"), "what is watched already costs nothing");
    drop(modest);
    for n in 0..4 {
        greedy.say(&Message::Tdiscarded { tag: Tag::MARKER, which: Tag::new(2 + n), reason: Bytes::new() }).await;
        greedy.hears().await;
    }
    greedy.dispatch(Tag::new(90), bind(b"", "/new")).await;
    assert!(!greedy.answer(Tag::new(90)).await.is_failure(), "discards make room");
}

#[tokio::test(start_paused = true)]
async fn a_connection_has_so_many_watches() {
    let limits = OwnLimits { watches_per_connection: 3, ..OwnLimits::default() };
    let world = World::with(&limits, ThriftConfig::default(), |_| ());
    let mut router = world.router().await;
    // Answered, and not asked for again: these make room.
    for n in 0..5 {
        router.dispatch(TWO, bind(b"", &format!("/old{n}"))).await;
        router.answer(TWO).await;
    }
    for n in 0..3 {
        router.dispatch(Tag::new(2 + n), bind(b"", &format!("/svc/{n}"))).await;
    }
    // Another name, and one of those again.
    for name in ["/svc/9", "/svc/1"] {
        router.dispatch(Tag::new(9), bind(b"", name)).await;
        let answer = router.answer(Tag::new(9)).await;
        assert!(answer.is_failure() && answer.has("3 watches already (limits.watchesPerConnection)"), "{answer:?}");
    }
    router.hears_nothing_for(Duration::from_secs(5)).await;
}

#[tokio::test(start_paused = true)]
async fn a_client_that_asks_too_often_is_told_so() {
    let limits = OwnLimits { requests_per_second_per_client: Some(2), ..OwnLimits::default() };
    let world = World::with(&limits, ThriftConfig::default(), |_| ());
    let mut router = world.router().await;
    for _ in 0..2 {
        router.dispatch(TWO, dtab(b"", "default")).await;
        assert!(!router.answer(TWO).await.is_failure());
    }
    for call in [bind(b"", "/svc/a"), addr(b"", "/#/t/a"), dtab(b"", "default"), delegate(b"", "/a")] {
        router.dispatch(TWO, call).await;
        let answer = router.answer(TWO).await;
        assert!(answer.is_failure() && answer.has("limits.requestsPerSecondPerClient"), "{answer:?}");
    }
    assert_eq!(world.core.limits.count(Limit::RequestsPerSecondPerClient), 4);
    tokio::time::sleep(Duration::from_secs(1)).await;
    router.dispatch(TWO, dtab(b"", "default")).await;
    assert!(!router.answer(TWO).await.is_failure());
}

#[tokio::test(start_paused = true)]
async fn long_paths_and_deep_dtabs_are_refused_by_the_name_of_the_limit() {
    let world = World::new();
    let mut router = world.router().await;
    let long = "/a".repeat(1_001);
    for call in [bind(b"", &long), addr(b"", &long), delegate(b"", &long)] {
        router.dispatch(TWO, call).await;
        let answer = router.answer(TWO).await;
        assert!(answer.is_failure() && answer.has("limits.pathSegments"), "{answer:?}");
    }
    assert_eq!(world.core.limits.count(Limit::Name(crate::name::Limit::PathSegments)), 3);
    let deep = format!("/a=>{}/b{}", "(".repeat(100_000), ")".repeat(100_000));
    router.dispatch(TWO, bind_in("default", &deep, b"", "/svc/web")).await;
    let answer = router.answer(TWO).await;
    assert!(answer.is_exception() && answer.has("limits.depth"), "{answer:?}");
}

#[tokio::test]
async fn a_large_request_is_read_elsewhere_and_later_ones_wait_for_it() {
    let world = World::new();
    let mut router = world.router().await;
    let large = format!("/svc/web=>/#/t/web;{}", "/a=>/b;".repeat(100_000));
    world.fixture.serve("/web", &[]);
    let mut sending = Output::default();
    Message::Tdispatch { tag: TWO, payload: bind_in("default", &large, b"", "/svc/web").into() }.write(&mut sending);
    Message::Tping(Tag::CONTROL).write(&mut sending);
    let sending = sending.take();
    let (mut reader, mut writer) = tokio::io::split(router.io);
    let writing = tokio::spawn(async move {
        writer.write_all(&sending).await.expect("open");
        writer
    });
    let mut start = [0; 8];
    reader.read_exact(&mut start).await.expect("an answer");
    assert_eq!(start, *b"\0\0\0\x04\xbf\0\0\x01", "the ping is answered first");
    router.io = reader.unsplit(writing.await.expect("written"));
    assert!(router.answer(TWO).await.has("\x03web"));
}

#[tokio::test(start_paused = true)]
async fn who_announces_megabytes_waits_for_room_and_others_are_served() {
    let world = World::new();
    let mut greedy = Vec::new();
    for _ in 0..10 {
        let mut peer = world.router().await;
        peer.io.write_all(&(MOST as u32).to_be_bytes()).await.expect("open");
        peer.io.write_all(&[2, 0, 0, 2]).await.expect("open");
        greedy.push(peer);
    }
    let mut router = world.router().await;
    router.dispatch(TWO, dtab(b"", "default")).await;
    router.answer(TWO).await;
    for peer in &mut greedy {
        peer.answers_pings = false;
        while peer.hears_or_ends().await.is_some() {}
    }
    let mut router = world.router().await;
    router.dispatch(TWO, bind_in("default", &" ".repeat(70_000), b"", "/svc")).await;
    assert!(router.answer(TWO).await.has("default"), "there is room again");
}

#[tokio::test(start_paused = true)]
async fn what_is_large_and_no_request_keeps_no_room() {
    let world = World::new();
    let mut greedy = Vec::new();
    for _ in 0..3 {
        let mut peer = world.router().await;
        let reason = vec![b'x'; MOST - 100].into();
        peer.say(&Message::Tdiscarded { tag: Tag::MARKER, which: TWO, reason }).await;
        peer.say(&Message::Tping(Tag::CONTROL)).await;
        assert_eq!(peer.hears().await, Message::Rping(Tag::CONTROL));
        greedy.push(peer);
    }
    let mut router = world.router().await;
    router.dispatch(TWO, bind_in("default", &" ".repeat(70_000), b"", "/svc")).await;
    assert!(router.answer(TWO).await.has("default"), "it finds room");
}

#[tokio::test(start_paused = true)]
async fn what_is_begun_and_larger_than_usual_is_read_only_as_far_as_there_is_room() {
    let world = World::new();
    let mut peers = Vec::new();
    for _ in 0..1_000 {
        let mut peer = world.router().await;
        let begin = [&(60_u32 << 10).to_be_bytes()[..], &[2, 0, 0, 2], &[0; 59 << 10]].concat();
        // The session takes what it wants, and leaves the rest to the transport.
        peer.io.write_all(&begin).await.expect("there is room for it in the transport");
        peers.push(peer);
    }
    tokio::time::sleep(Duration::from_millis(10)).await;
    let read = world.counter("received_bytes");
    assert!(read < 20 << 20, "{read} bytes of what 1,000 clients have begun");
    // Neither those who send little nor those who send much wait for them.
    let mut router = world.router().await;
    for dtab in [String::new(), " ".repeat(70_000)] {
        router.dispatch(TWO, bind_in("default", &dtab, b"", "/svc")).await;
        router.answer(TWO).await;
    }
}

#[tokio::test(start_paused = true)]
async fn pieces_have_room_together_and_give_it_back() {
    let world = World::new();
    let mut router = world.router().await;
    let call = bind_in("default", &" ".repeat(200_000), b"", "/svc");
    let mut sending = Output::default();
    Message::Tdispatch { tag: TWO, payload: call.into() }.write(&mut sending);
    let whole = sending.take().split_off(8);
    for round in 0..5 {
        for (n, piece) in whole.chunks(50_000).enumerate() {
            let more = if (n + 1) * 50_000 < whole.len() { 0x80 } else { 0 };
            let length = u32::try_from(4 + piece.len()).expect("short").to_be_bytes();
            router.io.write_all(&[&length[..], &[2, more, 0, 2], piece].concat()).await.expect("open");
        }
        assert!(router.answer(TWO).await.has("default"), "{round}");
    }
}

#[tokio::test(start_paused = true)]
async fn delegations_that_are_never_answered_are_counted() {
    let world = World::new();
    let mut router = world.router().await;
    for n in 0..1_001 {
        router.dispatch(Tag::new(2 + n), delegate(b"1", "/svc/web")).await;
    }
    let answer = router.answer(Tag::new(1_002)).await;
    assert!(answer.is_failure() && answer.has("never answered"), "{answer:?}");
    drop(router);
    tokio::time::sleep(Duration::from_millis(10)).await;
    assert_eq!(Arc::strong_count(&world.server), 1, "they are forgotten with their client");
}
