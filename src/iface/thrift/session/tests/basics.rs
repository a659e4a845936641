use super::*;

#[tokio::test(start_paused = true)]
async fn a_poll_is_answered_with_what_there_is_and_the_next_one_when_that_changes() {
    let world = World::new();
    world.fixture.serve("/web", &["127.0.0.1:80"]);
    let mut router = world.router().await;
    router.dispatch(TWO, bind(b"", "/svc/web/x")).await;
    let first = router.answer(TWO).await;
    assert!(first.has(b"\x00\x00\x00\x01#\x00\x00\x00\x01t\x00\x00\x00\x03web"), "{first:?}");
    router.dispatch(TWO, bind(&first.stamp(), "/svc/web/x")).await;
    router.hears_nothing_for(Duration::from_secs(30)).await;
    world.put("default", "/svc=>/#/t/web").await;
    let second = router.answer(TWO).await;
    assert_ne!(first.stamp(), second.stamp());
    assert!(second.has(b"\x00\x00\x00\x03web\x00\x00\x00\x01x"), "the residual alone has changed: {second:?}");
}

#[tokio::test(start_paused = true)]
async fn addresses_are_polled_by_id() {
    let world = World::new();
    world.fixture.serve("/web", &["127.0.0.1:80"]);
    let mut router = world.router().await;
    router.dispatch(TWO, addr(b"", "/#/t/web")).await;
    let first = router.answer(TWO).await;
    assert!(first.has(b"\x7f\0\0\x01\x08\0\x02\0\0\0\x50"), "{first:?}");
    router.dispatch(TWO, addr(&first.stamp(), "/#/t/web")).await;
    router.hears_nothing_for(Duration::from_secs(30)).await;
    world.fixture.remove("/web");
    let gone = router.answer(TWO).await;
    assert!(gone.after_head().ends_with(&[12, 0, 2, 12, 0, 2, 0, 0, 0, 0]), "neg: {gone:?}");
}

#[tokio::test(start_paused = true)]
async fn an_address_of_ipv6_has_sixteen_bytes() {
    let world = World::new();
    world.fixture.serve("/web", &["[2001:db8::1]:80"]);
    let mut router = world.router().await;
    router.dispatch(TWO, addr(b"", "/#/t/web")).await;
    let ip = [&[11, 0, 1, 0, 0, 0, 16, 0x20, 1, 0x0d, 0xb8][..], &[0; 11], &[1]].concat();
    let port = [8, 0, 2, 0, 0, 0, 80];
    let answer = router.answer(TWO).await;
    assert!(answer.has([&ip[..], &port].concat()), "{answer:?}");
}

#[tokio::test(start_paused = true)]
async fn a_dtab_is_polled_by_namespace_and_a_missing_one_is_empty() {
    let world = World::new();
    let mut router = world.router().await;
    router.dispatch(TWO, dtab(b"", "new")).await;
    let first = router.answer(TWO).await;
    assert!(first.after_head().ends_with(&[11, 0, 2, 0, 0, 0, 0, 0, 0]), "{first:?}");
    router.dispatch(TWO, dtab(&first.stamp(), "new")).await;
    world.put("new", "/a=>/b;/c=>/d").await;
    assert!(router.answer(TWO).await.has("/a=>/b;/c=>/d"));
}

#[tokio::test(start_paused = true)]
async fn a_delegation_is_answered_once_and_never_if_it_carries_a_stamp() {
    let world = World::new();
    world.fixture.serve("/web", &[]);
    let mut router = world.router().await;
    router.dispatch(TWO, delegate(b"", "/svc/web")).await;
    let answer = router.answer(TWO).await;
    assert!(answer.has("/svc=>/#/t"), "{answer:?}");
    router.dispatch(TWO, delegate(b"12345678", "/svc/web")).await;
    router.hears_nothing_for(Duration::from_secs(200)).await;
}

#[tokio::test(start_paused = true)]
async fn pings_are_answered_while_polls_wait() {
    let world = World::new();
    let mut router = world.router().await;
    router.dispatch(TWO, bind(b"", "/svc/web")).await;
    router.say(&Message::Tping(Tag::new(77))).await;
    assert_eq!(router.hears().await, Message::Rping(Tag::new(77)));
}
