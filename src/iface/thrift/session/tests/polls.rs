//! When polls are answered.

use super::*;

#[tokio::test(start_paused = true)]
async fn a_stamp_that_is_not_that_of_the_value_is_answered_at_once() {
    let world = World::new();
    world.fixture.serve("/web", &[]);
    let mut router = world.router().await;
    router.dispatch(TWO, bind(b"", "/svc/web")).await;
    let answer = router.answer(TWO).await;
    for stamp in [&b""[..], b"abc", b"12345678", b"123456789", &[&answer.stamp()[..], b"x"].concat()] {
        router.dispatch(TWO, bind(stamp, "/svc/web")).await;
        assert_eq!(router.answer(TWO).await, answer, "{stamp:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_poll_without_a_value_is_answered_with_the_first_one() {
    let world = World::new();
    let mut router = world.router().await;
    router.dispatch(TWO, bind(b"", "/svc/web")).await;
    router.dispatch(THREE, bind(b"12345678", "/svc/web")).await;
    router.hears_nothing_for(Duration::from_secs(30)).await;
    world.fixture.serve("/web", &[]);
    let first = router.answer(TWO).await;
    assert_eq!(router.answer(THREE).await, first, "all who wait for it");
}

#[tokio::test(start_paused = true)]
async fn a_value_that_comes_back_has_a_new_stamp_and_an_equal_one_is_no_news() {
    let world = World::new();
    world.fixture.serve("/web", &["127.0.0.1:80"]);
    let mut router = world.router().await;
    router.dispatch(TWO, addr(b"", "/#/t/web")).await;
    let first = router.answer(TWO).await;
    world.fixture.remove("/web");
    tokio::time::sleep(Duration::from_millis(10)).await;
    world.fixture.serve("/web", &["127.0.0.1:80"]);
    tokio::time::sleep(Duration::from_millis(10)).await;
    router.dispatch(TWO, addr(&first.stamp(), "/#/t/web")).await;
    let second = router.answer(TWO).await;
    assert_ne!(first.stamp(), second.stamp());
    assert_eq!(first.0[first.0.len() - 20..], second.0[second.0.len() - 20..]);
    router.dispatch(TWO, addr(&second.stamp(), "/#/t/web")).await;
    world.fixture.serve("/web", &["127.0.0.1:80"]);
    router.hears_nothing_for(Duration::from_secs(30)).await;
}

#[tokio::test(start_paused = true)]
async fn a_binding_that_comes_back_before_its_client_asks_again_has_a_new_stamp_too() {
    let world = World::new();
    world.fixture.serve("/web", &[]);
    let mut router = world.router().await;
    router.dispatch(TWO, bind(b"", "/svc/web")).await;
    let first = router.answer(TWO).await;
    for presence in [Fixture::remove, |fixture: &Fixture, name: &str| fixture.serve(name, &[])] {
        presence(&world.fixture, "/web");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    router.dispatch(TWO, bind(&first.stamp(), "/svc/web")).await;
    let second = router.answer(TWO).await;
    assert_ne!(first.stamp(), second.stamp());
    assert_eq!(first.after_head()[18..], second.after_head()[18..], "the same tree");
    router.dispatch(TWO, bind(&second.stamp(), "/svc/web")).await;
    router.hears_nothing_for(Duration::from_secs(30)).await;
}

#[tokio::test(start_paused = true)]
async fn what_was_written_is_seen_by_the_next_poll() {
    let world = World::new();
    for name in ["/a", "/b"] {
        world.fixture.serve(name, &[]);
    }
    let mut router = world.router().await;
    for n in 0..50 {
        let (dtab, id) = if n % 2 == 0 { ("/svc=>/#/t/a", "\x01a") } else { ("/svc=>/#/t/b", "\x01b") };
        world.put("default", dtab).await;
        router.dispatch(TWO, bind(b"", "/svc")).await;
        assert!(router.answer(TWO).await.has(id), "{n}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_failed_evaluation_is_a_failure_at_once_unless_there_was_a_value() {
    let world = World::new();
    world.put("loop", "/a=>/b;/b=>/a").await;
    let mut router = world.router().await;
    router.dispatch(TWO, bind_in("loop", "", b"", "/a")).await;
    let answer = router.answer(TWO).await;
    assert!(answer.is_failure() && answer.has("Max recursion level: 100 reached in Namer lookup"), "{answer:?}");
    router.dispatch(TWO, bind_in("loop", "", b"", "/ok")).await;
    let good = router.answer(TWO).await;
    router.dispatch(TWO, bind_in("loop", "", &good.stamp(), "/ok")).await;
    world.put("loop", "/ok=>/ok/x").await;
    router.hears_nothing_for(Duration::from_secs(30)).await;
    world.put("loop", "/ok=>/$/fail").await;
    router.answer(TWO).await;
}

#[tokio::test(start_paused = true)]
async fn a_name_in_a_namespace_that_is_made_later_is_answered_then() {
    let world = World::new();
    world.fixture.serve("/web", &[]);
    let mut router = world.router().await;
    router.dispatch(TWO, bind_in("later", "", b"", "/svc/web")).await;
    let neg = router.answer(TWO).await;
    assert!(neg.has(b"\x0c\0\x01\x0c\0\x01\0\0"), "{neg:?}");
    router.dispatch(TWO, bind_in("later", "", &neg.stamp(), "/svc/web")).await;
    world.put("later", "/svc=>/#/t").await;
    assert!(router.answer(TWO).await.has("\x03web"));
}

#[tokio::test(start_paused = true)]
async fn the_dtab_of_the_request_counts_and_its_spelling_does_not() {
    let world = World::new();
    world.fixture.serve("/web", &[]);
    let mut router = world.router().await;
    router.dispatch(TWO, bind_in("default", "/svc/x=>/#/t/web", b"", "/svc/x")).await;
    let answer = router.answer(TWO).await;
    assert!(answer.has("\x03web"), "{answer:?}");
    router.dispatch(TWO, bind_in("default", " /svc/x  =>  /#/t/web ; ", b"", "/svc/x")).await;
    assert_eq!(router.answer(TWO).await, answer);
}

#[tokio::test(start_paused = true)]
async fn thousands_of_polls_are_parked_and_a_change_answers_exactly_those_that_it_touches() {
    let world = World::new();
    world.fixture.serve("/one", &[]);
    world.fixture.serve("/other", &[]);
    let mut router = world.router().await;
    let (mut stamps, names) = (Vec::new(), ["/svc/one", "/svc/other"]);
    for name in names {
        router.dispatch(TWO, bind(b"", name)).await;
        stamps.push(router.answer(TWO).await.stamp());
    }
    for n in 0..2_000_u32 {
        let which = (n % 2) as usize;
        router.dispatch(Tag::new(2 + n), bind(&stamps[which], names[which])).await;
    }
    router.say(&Message::Tping(Tag::CONTROL)).await;
    assert_eq!(router.hears().await, Message::Rping(Tag::CONTROL));
    world.fixture.remove("/one");
    let mut answered = Vec::new();
    for _ in 0..1_000 {
        let Message::Rdispatch { tag, .. } = router.hears().await else { panic!("no answer") };
        answered.push(tag.get());
    }
    answered.sort_unstable();
    assert_eq!(answered, (2..2_002).step_by(2).collect::<Vec<_>>());
    router.hears_nothing_for(Duration::from_secs(10)).await;
}

#[tokio::test(start_paused = true)]
async fn polls_of_a_new_connection_that_carry_the_present_stamp_wait() {
    let world = World::new();
    world.fixture.serve("/web", &[]);
    let mut router = world.router().await;
    router.dispatch(TWO, bind(b"", "/svc/web")).await;
    let stamp = router.answer(TWO).await.stamp();
    // The router comes again, or has been silent for so long that its topic was dropped.
    let mut router = world.router().await;
    for tag in [TWO, THREE] {
        router.dispatch(tag, bind(&stamp, "/svc/web")).await;
        router.hears_nothing_for(Duration::from_secs(10)).await;
    }
    world.fixture.remove("/web");
    let changed = router.answer(TWO).await;
    assert_ne!(changed.stamp(), stamp);
    assert_eq!(router.answer(THREE).await, changed);
}

/// Parks polls for one long value, in the order of their tags; the stamp that they carry.
async fn park_many(world: &World, router: &mut Peer, count: u32) -> [u8; 8] {
    world.put("default", &format!("/svc=>/{}", "x".repeat(6_000))).await;
    router.dispatch(TWO, dtab(b"", "default")).await;
    let stamp = router.answer(TWO).await.stamp();
    for n in 0..count {
        router.dispatch(Tag::new(2 + n), dtab(&stamp, "default")).await;
    }
    router.say(&Message::Tping(Tag::CONTROL)).await;
    assert_eq!(router.hears().await, Message::Rping(Tag::CONTROL));
    stamp
}

/// Gives up this poll, while nothing was read of the answers to others.
async fn discard_unread(router: &mut Peer, tag: Tag) {
    router.answers_pings = false;
    tokio::time::sleep(Duration::from_secs(1)).await;
    router.say(&Message::Tdiscarded { tag: Tag::MARKER, which: tag, reason: Bytes::new() }).await;
}

#[tokio::test(start_paused = true)]
async fn a_change_for_many_who_wait_is_told_as_they_read() {
    let (world, last) = (World::new(), Tag::new(1_001));
    let mut router = world.router().await;
    park_many(&world, &mut router, 1_000).await;
    world.put("default", &format!("/svc=>/{}", "y".repeat(6_000))).await;
    discard_unread(&mut router, last).await;
    let (mut next, mut given_up) = (TWO, false);
    while next < last || !given_up {
        match router.hears().await {
            Message::Rdiscarded(tag) => given_up = tag == last,
            Message::Rdispatch { tag, payload, .. } => {
                let answer = Answer(payload);
                assert!(answer.has("yyy"));
                assert_eq!(tag, next, "each is answered once, in order");
                next = Tag::new(tag.get() + 1);
                if tag == Tag::new(500) {
                    // Who comes again meanwhile is not meant: otherwise this would have no end.
                    router.dispatch(TWO, dtab(&answer.stamp(), "default")).await;
                }
            }
            other => panic!("heard {other:?}"),
        }
    }
    router.hears_nothing_for(Duration::from_secs(20)).await;
}

#[tokio::test(start_paused = true)]
async fn a_discarded_poll_costs_and_disturbs_no_other() {
    let world = World::new();
    let mut router = world.router().await;
    park_many(&world, &mut router, 100).await;
    // From the front, from the end, and from between, until a few are left.
    let mut tags: Vec<_> = (2..102).map(Tag::new).collect();
    for n in 0..95 {
        let which = tags.remove([0, tags.len() - 1, tags.len() / 2][n % 3]);
        router.say(&Message::Tdiscarded { tag: Tag::MARKER, which, reason: Bytes::new() }).await;
        assert_eq!(router.hears().await, Message::Rdiscarded(which));
    }
    world.put("default", "/svc=>/z").await;
    for tag in tags {
        assert!(!router.answer(tag).await.is_failure());
    }
    router.hears_nothing_for(Duration::from_secs(20)).await;
}

#[tokio::test(start_paused = true)]
async fn weights_alone_are_sent_only_where_that_is_wanted() {
    use crate::name::{Addr, AddrSet, Meta, meta_keys};
    for (lone_weights, sent) in [(false, false), (true, true)] {
        let world = World::with(&OwnLimits::default(), ThriftConfig::default(), |core| {
            core.fixes.lone_weights = lone_weights;
        });
        let mut address = crate::name::Address::from("127.0.0.1:80".parse::<std::net::SocketAddr>().expect("address"));
        address.meta = Meta::default().with(meta_keys::ENDPOINT_ADDR_WEIGHT, 2.5);
        world
            .fixture
            .address(&testing::path("/web"))
            .publish(Addr::Bound(AddrSet::new(vec![address], Meta::default())));
        world.fixture.presence(&testing::path("/web")).publish(true);
        let mut router = world.router().await;
        router.dispatch(TWO, addr(b"", "/#/t/web")).await;
        assert_eq!(router.answer(TWO).await.has(2.5_f64.to_be_bytes()), sent);
    }
}
