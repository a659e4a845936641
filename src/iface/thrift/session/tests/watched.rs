//! What the watch ledger learns from sessions.

use super::*;
use crate::ledger::{Counts, Standing};

const SECOND: Duration = Duration::from_secs(1);

impl World {
    fn watches(&self) -> Counts {
        self.core.ledger.turn();
        self.core.ledger.counts()
    }

    fn live(&self, live: usize) {
        assert_eq!(self.watches(), Counts { live, ..Counts::default() });
    }

    fn stopped(&self, live: usize, stopped: usize) {
        assert_eq!(self.watches(), Counts { live, stopped, ..Counts::default() });
    }
}

impl Peer {
    /// Asks and is answered; the stamp.
    async fn asks(&mut self, tag: Tag, name: &str, stamp: &[u8]) -> [u8; 8] {
        self.dispatch(tag, bind(stamp, name)).await;
        self.answer(tag).await.stamp()
    }

    /// Goes on with its poll of `/svc/web` for so many seconds.
    async fn stays(&mut self, world: &World, seconds: u64) {
        let end = tokio::time::Instant::now() + Duration::from_secs(seconds);
        while let Ok(heard) = tokio::time::timeout_at(end, self.answer(TWO)).await {
            self.dispatch(TWO, bind(&heard.stamp(), "/svc/web")).await;
        }
        assert_eq!(world.watches().stopped, 0);
    }

    /// Closes, as the end of a process does.
    async fn leaves(&mut self) {
        self.io.shutdown().await.expect("open");
        self.is_closed().await;
    }
}

/// A router that watches `/svc/web`.
async fn watching(world: &World) -> (Peer, [u8; 8]) {
    world.fixture.serve("/web", &[]);
    let mut router = world.router().await;
    let stamp = router.asks(TWO, "/svc/web", b"").await;
    router.dispatch(TWO, bind(&stamp, "/svc/web")).await;
    router.hears_nothing_for(SECOND).await;
    (router, stamp)
}

#[tokio::test(start_paused = true)]
async fn a_loop_that_never_asks_again_has_stopped_after_thirty_seconds() {
    let world = World::new();
    let (mut router, _) = watching(&world).await;
    world.live(1);
    world.fixture.remove("/web");
    let stamp = router.answer(TWO).await.stamp();
    router.hears_nothing_for(29 * SECOND).await;
    world.live(1);
    router.hears_nothing_for(3 * SECOND).await;
    world.stopped(0, 1);
    let report = world.core.ledger.report(10);
    assert_eq!((report.suspects[0].standing, &*report.suspects[0].key.path), (Standing::Stopped, "/svc/web"));
    router.dispatch(TWO, bind(&stamp, "/svc/web")).await;
    router.hears_nothing_for(SECOND).await;
    world.live(1);
}

#[tokio::test(start_paused = true)]
async fn a_loop_that_goes_on_is_live_however_often_and_seldom_it_is_answered() {
    let world = World::new();
    let (mut router, _) = watching(&world).await;
    for n in 0..100 {
        match n % 2 {
            0 => world.fixture.remove("/web"),
            _ => world.fixture.serve("/web", &[]),
        }
        let stamp = router.answer(TWO).await.stamp();
        router.dispatch(TWO, bind(&stamp, "/svc/web")).await;
        router.hears_nothing_for(SECOND).await;
        world.live(1);
    }
    for _ in 0..40 {
        // Answered because it is old, with the same stamp.
        let stamp = router.answer(TWO).await.stamp();
        router.dispatch(TWO, bind(&stamp, "/svc/web")).await;
        router.hears_nothing_for(SECOND).await;
        world.live(1);
    }
}

#[tokio::test(start_paused = true)]
async fn who_asks_once_and_has_the_answer_is_no_loop() {
    let world = World::new();
    world.fixture.serve("/web", &[]);
    let mut script = world.router().await;
    for _ in 0..3 {
        script.asks(TWO, "/svc/web", b"").await;
        script.hears_nothing_for(60 * SECOND).await;
        world.live(0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_is_given_up_or_closed_is_not_missed() {
    let world = World::new();
    let (mut router, stamp) = watching(&world).await;
    router.say(&Message::Tdiscarded { tag: Tag::MARKER, which: TWO, reason: Bytes::new() }).await;
    assert_eq!(router.hears().await, Message::Rdiscarded(TWO));
    router.hears_nothing_for(SECOND).await;
    world.live(0);
    router.dispatch(TWO, bind(&stamp, "/svc/web")).await;
    router.hears_nothing_for(SECOND).await;
    world.live(1);
    router.leaves().await;
    tokio::time::sleep(700 * SECOND).await;
    world.live(0);
}

#[tokio::test(start_paused = true)]
async fn a_silent_watch_is_not_missed_once_its_session_is_closed() {
    let world = World::new();
    let (mut router, _) = watching(&world).await;
    world.fixture.remove("/web");
    router.answer(TWO).await;
    // Longer than its row stays.
    router.hears_nothing_for(300 * SECOND).await;
    world.stopped(0, 1);
    router.leaves().await;
    tokio::time::sleep(SECOND).await;
    world.live(0);
}

#[tokio::test(start_paused = true)]
async fn a_silent_watch_that_comes_again_after_its_row_has_gone_goes_on() {
    let world = World::new();
    let (mut router, _) = watching(&world).await;
    world.fixture.remove("/web");
    let stamp = router.answer(TWO).await.stamp();
    router.hears_nothing_for(300 * SECOND).await;
    world.stopped(0, 1);
    let stamp = router.asks(TWO, "/svc/web", &[stamp[0] ^ 1; 8]).await;
    router.dispatch(TWO, bind(&stamp, "/svc/web")).await;
    router.hears_nothing_for(SECOND).await;
    world.live(1);
}

#[tokio::test(start_paused = true)]
async fn one_of_two_routers_behind_an_address_is_missed_however_busy_the_other_one_is() {
    let world = World::new();
    let (mut one, _) = watching(&world).await;
    let (mut other, _) = watching(&world).await;
    world.live(2);
    world.fixture.remove("/web");
    other.answer(TWO).await;
    for n in 0..40 {
        let stamp = one.answer(TWO).await.stamp();
        one.dispatch(TWO, bind(&stamp, "/svc/web")).await;
        tokio::join!(one.hears_nothing_for(SECOND), other.hears_nothing_for(SECOND));
        match n % 2 {
            0 => world.fixture.serve("/web", &[]),
            _ => world.fixture.remove("/web"),
        }
    }
    world.stopped(1, 1);
}

#[tokio::test(start_paused = true)]
async fn a_router_that_was_told_a_failure_may_wait_as_long_as_routers_do() {
    let world = World::new();
    world.put("loop", "/a=>/b;/b=>/a").await;
    let mut router = world.router().await;
    router.dispatch(TWO, bind_in("loop", "", b"", "/ok")).await;
    let stamp = router.answer(TWO).await.stamp();
    router.dispatch(TWO, bind_in("loop", "", &stamp, "/ok")).await;
    router.hears_nothing_for(SECOND).await;
    router.dispatch(THREE, bind_in("loop", "", b"12345678", "/a")).await;
    assert!(router.answer(THREE).await.is_failure());
    router.hears_nothing_for(32 * SECOND).await;
    assert_eq!(world.watches(), Counts { live: 1, late: 1, ..Counts::default() });
}

#[tokio::test(start_paused = true)]
async fn what_a_session_had_when_it_died_or_we_ended_it_is_late() {
    let world = World::new();
    let (mut router, _) = watching(&world).await;
    // It vanishes: it answers no ping any more.
    router.answers_pings = false;
    tokio::time::timeout(300 * SECOND, async { while router.hears_or_ends().await.is_some() {} }).await.expect("ended");
    tokio::time::sleep(SECOND).await;
    assert_eq!(world.watches(), Counts { late: 1, ..Counts::default() });
    // It was only cut off, and is back.
    let (_router, _) = watching(&world).await;
    world.live(1);
}

#[tokio::test(start_paused = true)]
async fn a_drain_leaves_what_was_watched_to_be_missed_whoever_closes() {
    let world = World::new();
    let (mut router, _) = watching(&world).await;
    world.core.drain.enter(crate::runtime::Phase::Leave);
    assert_eq!(router.hears().await, Message::Tdrain(Tag::CONTROL));
    router.say(&Message::Rdrain(Tag::CONTROL)).await;
    router.answer(TWO).await;
    router.leaves().await;
    tokio::time::sleep(31 * SECOND).await;
    assert_eq!(world.watches(), Counts { late: 1, ..Counts::default() });
}

#[tokio::test(start_paused = true)]
async fn who_has_the_newest_dtab_is_known_when_somebody_asks() {
    let world = World::new();
    let (mut router, _) = watching(&world).await;
    let mut other = world.router().await;
    let stamp = other.asks(TWO, "/svc/web", b"").await;
    other.dispatch(TWO, bind(&stamp, "/svc/web")).await;
    let ask = async |version: &str| world.core.ledger.reach("default", Some(version.to_owned())).await;
    let all = |count| (count, count);
    while ask("one").await.having(Some("one")) != all(2) {
        router.hears_nothing_for(SECOND).await;
        other.hears_nothing_for(SECOND).await;
    }

    // A dtab that changes nothing for them is had by them at once.
    world.put("default", "/svc=>/#/t;/other=>/#/t").await;
    let reach = ask("two").await;
    assert_eq!((reach.having(Some("two")), reach.behind.len(), reach.silent), (all(2), 0, 0));
    // This one changes it. One of them comes for more, the other one does not.
    world.fixture.serve("/v2", &[]);
    world.put("default", "/svc=>/#/t/v2").await;
    let stamp = router.answer(TWO).await.stamp();
    router.dispatch(TWO, bind(&stamp, "/svc/web")).await;
    other.answer(TWO).await;
    let reach = loop {
        let reach = ask("three").await;
        if reach.having(Some("three")) == (2, 1) {
            break reach;
        }
        router.hears_nothing_for(SECOND).await;
    };
    assert_eq!(
        (&*reach.behind[0].key.path, reach.behind[0].versions_behind),
        ("/svc/web", Some(1)),
        "it was told, and has not shown yet that it heard"
    );
    assert_eq!(world.core.ledger.reach("elsewhere", None).await.having(None), (0, 0));
}

fn discards(which: Tag) -> Message {
    Message::Tdiscarded { tag: Tag::MARKER, which, reason: Bytes::new() }
}

#[tokio::test(start_paused = true)]
async fn a_watch_whose_discard_crosses_the_answer_is_not_missed() {
    let world = World::new();
    let (mut router, _) = watching(&world).await;
    world.fixture.remove("/web");
    router.answer(TWO).await;
    router.say(&discards(TWO)).await;
    router.hears_nothing_for(100 * SECOND).await;
    world.live(0);
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_is_given_up_before_its_poll_is_looked_at_is_not_missed() {
    let world = World::new();
    let (mut router, _) = watching(&world).await;
    world.fixture.remove("/web");
    let stamp = router.answer(TWO).await.stamp();
    router.dispatch(THREE, bind(&stamp, "/svc/web")).await;
    router.say(&discards(THREE)).await; // both are read at once
    assert_eq!(router.hears().await, Message::Rdiscarded(THREE));
    router.hears_nothing_for(100 * SECOND).await;
    world.live(0);
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_is_given_up_while_its_answer_waits_to_be_written_is_not_missed() {
    let world = World::new();
    let (mut router, _) = watching(&world).await;
    // So much is to be written that nothing more is answered.
    for n in 0..2_000 {
        world.fixture.serve(&format!("/other{n}"), &[]);
        router.dispatch(Tag::new(100 + n), bind(b"", &format!("/svc/other{n}"))).await;
    }
    world.fixture.remove("/web");
    router.say(&discards(TWO)).await;
    let mut last = None;
    while let Ok(Some(heard)) = tokio::time::timeout(SECOND, router.hears_or_ends()).await {
        last = Some(heard);
    }
    assert!(last.is_some());
    router.hears_nothing_for(100 * SECOND).await;
    world.live(0);
}

#[tokio::test(start_paused = true)]
async fn a_router_whose_next_poll_was_refused_may_wait_as_long_as_routers_do() {
    let limits = OwnLimits { requests_per_second_per_client: Some(2), ..OwnLimits::default() };
    let world = World::with(&limits, ThriftConfig::default(), |_| ());
    let (mut router, _) = watching(&world).await;
    world.fixture.remove("/web");
    let stamp = router.answer(TWO).await.stamp();
    // Others at its address ask too much.
    while !{
        router.dispatch(THREE, dtab(b"", "default")).await;
        router.answer(THREE).await.is_failure()
    } {}
    router.dispatch(TWO, bind(&stamp, "/svc/web")).await;
    assert!(router.answer(TWO).await.is_failure());
    router.hears_nothing_for(100 * SECOND).await;
    assert_eq!(world.watches(), Counts { late: 1, ..Counts::default() });
}

#[tokio::test(start_paused = true)]
async fn nothing_is_said_of_a_client_that_may_never_have_had_its_answer() {
    let world = World::new();
    let (mut router, _) = watching(&world).await;
    router.answers_pings = false; // it has vanished
    world.fixture.remove("/web");
    router.answer(TWO).await;
    for _ in 0..80 {
        assert_eq!(world.watches().stopped, 0);
        let _ = tokio::time::timeout(SECOND, router.hears_or_ends()).await;
    }
    tokio::time::sleep(60 * SECOND).await;
    assert_eq!(world.watches(), Counts { late: 1, ..Counts::default() }, "its session is dead by now");
}

#[tokio::test(start_paused = true)]
async fn a_loop_that_comes_back_late_may_have_been_elsewhere_whatever_its_stamp() {
    let world = World::new();
    let (mut router, _) = watching(&world).await;
    let arrived = || {
        let told = serde_json::to_value(world.core.ledger.changes(0, None)).expect("told");
        told["entries"][0][3][2].as_u64().expect("it has arrived")
    };
    router.hears_nothing_for(30 * SECOND).await;
    assert!(arrived() > 29_000);
    world.fixture.remove("/web");
    let stamp = router.answer(TWO).await.stamp();
    router.hears_nothing_for(3 * SECOND).await; // it was told a failure elsewhere, and has kept its stamp
    router.dispatch(TWO, bind(&stamp, "/svc/web")).await;
    router.hears_nothing_for(SECOND).await;
    assert!(arrived() < 2_000);
}

#[tokio::test(start_paused = true)]
async fn stamps_of_unknown_servers_are_told_as_long_as_they_come() {
    let world = World::new();
    let (mut router, _) = watching(&world).await;
    // Later than the last stamps of the process before this one.
    router.stays(&world, 700).await;
    for _ in 0..20 {
        router.answer(TWO).await;
        let stamp = router.asks(TWO, "/svc/web", b"\x7fstrange").await;
        router.dispatch(TWO, bind(&stamp, "/svc/web")).await;
        router.stays(&world, 310).await;
        assert!(world.core.ledger.report(0).unlisted_servers);
    }
    router.stays(&world, 3_700).await;
    assert!(!world.core.ledger.report(0).unlisted_servers);
}

#[tokio::test(start_paused = true)]
async fn of_names_without_end_no_more_is_remembered_than_a_connection_may_watch() {
    let limits = OwnLimits { watches_per_connection: 3, ..OwnLimits::default() };
    let world = World::with(&limits, ThriftConfig::default(), |_| ());
    let mut client = world.router().await;
    for n in 0..50 {
        client.asks(TWO, &format!("/old{n}"), b"12345678").await;
    }
    client.hears_nothing_for(15 * SECOND).await;
    let Counts { live, late, unknown, stopped } = world.watches();
    let remembered = live + late + unknown + stopped;
    assert!((3..=2 * 3).contains(&remembered), "{remembered}: its rows, and as many that have gone");
}
