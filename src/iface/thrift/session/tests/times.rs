//! What happens when nothing happens.

use super::*;
use tokio::time::Instant;

const MAX_AGE: Duration = Duration::from_secs(90);

/// How long something took.
async fn timed<T>(future: impl Future<Output = T>) -> (Duration, T) {
    let began = Instant::now();
    let done = future.await;
    (began.elapsed(), done)
}

fn is_about_max_age(time: Duration) -> bool {
    (MAX_AGE.mul_f64(0.79)..MAX_AGE.mul_f64(1.21)).contains(&time)
}

#[tokio::test(start_paused = true)]
async fn a_poll_that_has_become_old_is_answered_with_what_its_client_has() {
    let world = World::new();
    world.fixture.serve("/web", &[]);
    let mut router = world.router().await;
    router.dispatch(TWO, bind(b"", "/svc/web")).await;
    let first = router.answer(TWO).await;
    let mut times = Vec::new();
    for _ in 0..20 {
        router.dispatch(TWO, bind(&first.stamp(), "/svc/web")).await;
        let (time, answer) = timed(router.answer(TWO)).await;
        assert_eq!(answer, first);
        assert!(is_about_max_age(time), "{time:?}");
        times.push(time.as_secs());
    }
    times.dedup();
    assert!(times.len() > 5, "polls that began together are not answered together: {times:?}");
}

#[tokio::test(start_paused = true)]
async fn an_old_poll_without_any_value_is_the_declared_failure_with_the_reason() {
    let world = World::new();
    let mut router = world.router().await;
    for call in [bind(b"", "/svc/web"), addr(b"", "/#/t/web")] {
        router.dispatch(TWO, call).await;
        let (time, answer) = timed(router.answer(TWO)).await;
        assert!(is_about_max_age(time), "{time:?}");
        assert!(answer.is_failure() && answer.has("no answer within 90 s"), "{answer:?}");
        assert!(answer.has("\x03web"), "the name is echoed: {answer:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_topic_for_which_nobody_asks_again_is_let_go() {
    let world = World::new();
    world.fixture.serve("/web", &[]);
    let mut router = world.router().await;
    router.dispatch(TWO, bind(b"", "/svc/web")).await;
    router.answer(TWO).await;
    assert_eq!(world.server.topics.in_use(), 1);
    router.hears_nothing_for(MAX_AGE).await;
    assert_eq!(world.server.topics.in_use(), 1, "its client is late");
    router.hears_nothing_for(MAX_AGE * 2).await;
    assert_eq!(world.server.topics.in_use(), 0);
    router.dispatch(TWO, bind(b"", "/svc/web")).await;
    router.answer(TWO).await;
}

#[tokio::test(start_paused = true)]
async fn a_handshake_that_does_not_go_on_is_ended_and_a_silent_connection_is_not() {
    let world = World::new();
    let mut silent = world.connect();
    for begin in [&b"\0\0\0\x0f\x7f\0\0\x01tinit check"[..], b"\0\0\0\x0f\x7f\0", b"\0"] {
        let mut peer = world.connect();
        peer.io.write_all(begin).await.expect("open");
        let (time, ()) = timed(async {
            let mut all = Vec::new();
            peer.io.read_to_end(&mut all).await.expect("memory does not fail");
        })
        .await;
        assert!((10..12).contains(&time.as_secs()), "{time:?}");
    }
    silent.hears_nothing_for(Duration::from_secs(3_000)).await;
    silent.negotiate().await;
}

#[tokio::test(start_paused = true)]
async fn half_a_frame_does_not_stay_for_ever() {
    let world = World::new();
    let mut router = world.router().await;
    router.io.write_all(b"\0\0\0\x10\x02").await.expect("open");
    let (time, ()) = timed(router.is_closed()).await;
    assert!((60..62).contains(&time.as_secs()), "{time:?}");
}

#[tokio::test(start_paused = true)]
async fn a_router_that_has_vanished_is_noticed_and_one_that_answers_is_not() {
    let world = World::with(&OwnLimits::default(), ThriftConfig::default(), |core| {
        core.sessions.max_poll_age = Duration::from_secs(1_000);
    });
    world.fixture.serve("/web", &[]);
    let mut router = world.router().await;
    router.answers_pings = false;
    router.dispatch(TWO, bind(b"", "/svc/web")).await;
    let stamp = router.answer(TWO).await.stamp();
    router.dispatch(TWO, bind(&stamp, "/svc/web")).await;
    let (time, ping) = timed(router.hears()).await;
    assert_eq!((time.as_secs(), ping), (30, Message::Tping(Tag::CONTROL)));
    router.say(&Message::Rping(Tag::CONTROL)).await;
    let (time, ping) = timed(router.hears()).await;
    assert_eq!((time.as_secs(), ping), (30, Message::Tping(Tag::CONTROL)));
    // Whatever the client says shows that it is there.
    router.dispatch(THREE, dtab(b"", "default")).await;
    router.answer(THREE).await;
    router.hears().await;
    router.hears_nothing_for(Duration::from_secs(20)).await;
    let mut ended = Box::pin(async { while router.hears_or_ends().await.is_some() {} });
    let (time, ()) = timed(ended.as_mut()).await;
    assert!((39..42).contains(&time.as_secs()), "{time:?}");
    drop(ended);
    assert_eq!(world.server.topics.in_use(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_client_without_a_handshake_is_not_asked_whether_it_is_there() {
    let world = World::new();
    let mut peer = world.connect();
    peer.answers_pings = false;
    peer.dispatch(TWO, bind(b"", "/svc/web")).await;
    assert!(peer.answer(TWO).await.is_failure(), "the first thing it hears, after a long time");
}

#[tokio::test(start_paused = true)]
async fn a_client_that_does_not_read_is_ended() {
    let world = World::new();
    let long = format!("/{}", "x".repeat(20_000));
    world.put("default", &format!("/svc=>{long}")).await;
    let mut router = world.router().await;
    for n in 0..100 {
        router.dispatch(Tag::new(2 + n), dtab(b"", "default")).await;
    }
    tokio::time::sleep(Duration::from_secs(70)).await;
    let mut all = Vec::new();
    router.io.read_to_end(&mut all).await.expect("memory does not fail");
    assert!(all.len() < 100 * 20_000, "{} bytes", all.len());
}

#[tokio::test(start_paused = true)]
async fn polls_that_became_old_are_answered_as_their_client_reads() {
    let world = World::new();
    world.put("default", &format!("/svc=>/{}", "x".repeat(6_000))).await;
    let mut router = world.router().await;
    router.dispatch(TWO, dtab(b"", "default")).await;
    let stamp = router.answer(TWO).await.stamp();
    for n in 0..1_000 {
        router.dispatch(Tag::new(2 + n), dtab(&stamp, "default")).await;
    }
    // The first to become old takes the others along.
    let first = router.answer(TWO).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let which = Tag::new(1_001);
    router.say(&Message::Tdiscarded { tag: Tag::MARKER, which, reason: Bytes::new() }).await;
    let (mut answers, mut given_up) = (1, false);
    while answers < 999 || !given_up {
        match router.hears().await {
            Message::Rdiscarded(tag) => given_up = tag == which,
            Message::Rdispatch { payload, .. } => {
                assert_eq!(Answer(payload), first);
                answers += 1;
            }
            other => panic!("heard {other:?}"),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn failures_echo_names_as_long_as_there_are_not_too_many_bytes_of_them() {
    let world = World::new();
    let mut router = world.router().await;
    let long = |n: usize| format!("/svc/{}{n}", "x".repeat(300_000));
    for n in 0..4 {
        router.dispatch(Tag::new(2 + n), bind(b"", &long(n as usize))).await;
    }
    for _ in 0..4 {
        let Message::Rdispatch { tag, payload, .. } = router.hears().await else { panic!("no answer") };
        let answer = Answer(payload);
        assert!(answer.is_failure() && answer.has("no answer within 90 s"));
        assert_eq!(answer.has("xxx"), tag < Tag::new(5), "{tag}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_slow_client_gets_all_of_a_large_answer() {
    let world = World::new();
    let large = format!("/svc=>/{}", "x".repeat(1_500_000));
    world.put("default", &large).await;
    let mut router = world.router().await;
    router.answers_pings = false;
    router.dispatch(TWO, dtab(b"", "default")).await;
    let mut got = Vec::new();
    while got.len() < large.len() {
        tokio::time::sleep(Duration::from_secs(20)).await;
        let mut some = vec![0; 64 << 10];
        let count = router.io.read(&mut some).await.expect("memory does not fail");
        assert!(count > 0, "cut after {} bytes", got.len());
        got.extend_from_slice(&some[..count]);
    }
}

#[tokio::test(start_paused = true)]
async fn the_read_timeout_ends_quiet_clients_and_not_those_whose_polls_wait() {
    let mut world = World::new();
    Arc::get_mut(&mut world.server).expect("no session yet").read_timeout = Some(Duration::from_secs(20));
    let mut waiting = world.connect();
    waiting.dispatch(TWO, bind(b"", "/svc/web")).await;
    let mut quiet = world.connect();
    quiet.dispatch(TWO, dtab(b"", "default")).await;
    quiet.answer(TWO).await;
    let (time, ()) = timed(quiet.is_closed()).await;
    assert!((20..22).contains(&time.as_secs()), "{time:?}");
    waiting.hears_nothing_for(Duration::from_secs(40)).await;
}

#[tokio::test(start_paused = true)]
async fn the_age_of_polls_is_that_of_the_configuration() {
    let world = World::with(&OwnLimits::default(), ThriftConfig::default(), |core| {
        core.sessions.max_poll_age = Duration::from_secs(5);
    });
    let mut router = world.router().await;
    router.dispatch(TWO, bind(b"", "/svc/web")).await;
    let (time, answer) = timed(router.answer(TWO)).await;
    assert!((4..6).contains(&time.as_secs()) && answer.has("no answer within 5 s"), "{time:?} {answer:?}");
}
