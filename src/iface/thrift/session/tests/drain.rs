//! The way out.

use super::*;
use crate::runtime::{Phase, Request};
use tokio::time::Instant;

const TDRAIN: Message = Message::Tdrain(Tag::CONTROL);
const RDRAIN: Message = Message::Rdrain(Tag::CONTROL);

/// A router with a poll that waits for a change, and one that waits for a first value.
async fn waiting(world: &World) -> (Peer, Answer) {
    world.fixture.serve("/web", &[]);
    let mut router = world.router().await;
    router.dispatch(TWO, bind(b"", "/svc/web")).await;
    let known = router.answer(TWO).await;
    router.dispatch(TWO, bind(&known.stamp(), "/svc/web")).await;
    router.dispatch(THREE, bind(b"", "/svc/unknown")).await;
    router.hears_nothing_for(Duration::from_millis(10)).await;
    (router, known)
}

#[tokio::test(start_paused = true)]
async fn a_lame_duck_serves_everybody_as_before() {
    let world = World::new();
    let (mut router, known) = waiting(&world).await;
    world.core.drain.enter(Phase::LameDuck);
    router.hears_nothing_for(Duration::from_secs(60)).await;
    let mut new = world.router().await;
    new.dispatch(TWO, bind(&known.stamp(), "/svc/web")).await;
    new.hears_nothing_for(Duration::from_secs(60)).await;
}

#[tokio::test(start_paused = true)]
async fn a_router_is_told_and_then_gets_all_its_answers_in_one_turn() {
    let world = World::new();
    let (mut router, known) = waiting(&world).await;
    let began = Instant::now();
    world.core.drain.enter(Phase::Leave);
    assert_eq!(router.hears().await, TDRAIN);
    assert!(began.elapsed() <= Duration::from_secs(2), "within the spread: {:?}", began.elapsed());
    router.hears_nothing_for(Duration::from_millis(500)).await;
    let held = || world.core.drain.held_until(Phase::Leave);
    assert_eq!(held(), 1);
    router.say(&RDRAIN).await;
    assert_eq!(router.answer(TWO).await, known, "with the stamp that it has");
    router.say(&Message::Tping(Tag::CONTROL)).await;
    assert_eq!(router.hears().await, Message::Rping(Tag::CONTROL));
    router.dispatch(TWO, bind(&known.stamp(), "/svc/web")).await;
    assert_eq!(router.answer(TWO).await, known, "at once, from now on");
    router.hears_nothing_for(Duration::from_secs(3)).await;
    assert_eq!(held(), 0, "nobody has to wait for a poll without a value");
    world.core.drain.enter(Phase::Close);
    let last = router.answer(THREE).await;
    assert!(last.is_failure() && last.has("shutting down"), "{last:?}");
    router.is_closed().await;
}

#[tokio::test(start_paused = true)]
async fn a_router_that_does_not_answer_tdrain_is_waited_for_one_second() {
    let world = World::new();
    let (mut router, known) = waiting(&world).await;
    world.core.drain.enter(Phase::Leave);
    assert_eq!(router.hears().await, TDRAIN);
    let told = Instant::now();
    assert_eq!(router.answer(TWO).await, known);
    assert_eq!(told.elapsed().as_millis() / 100, 10);
    // It may not have heard yet, and ask something: it is answered, not cut off.
    router.hears_nothing_for(Duration::from_secs(2)).await;
    router.dispatch(TWO, bind(&known.stamp(), "/svc/web")).await;
    assert_eq!(router.answer(TWO).await, known);
    world.core.drain.enter(Phase::Close);
    assert!(router.answer(THREE).await.is_failure());
    router.is_closed().await;
}

#[tokio::test(start_paused = true)]
async fn a_router_that_never_answers_tdrain_is_closed_in_the_end_and_soon_after_it_has() {
    let world = World::new();
    let (mut never, mut late) = (world.router().await, world.router().await);
    let began = Instant::now();
    world.core.drain.enter(Phase::Leave);
    assert_eq!((never.hears().await, late.hears().await), (TDRAIN, TDRAIN));
    let told = Instant::now();
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    late.say(&RDRAIN).await;
    late.is_closed().await;
    assert!(told.elapsed() < Duration::from_millis(2_100), "{:?}", told.elapsed());
    never.is_closed().await;
    // Within the spread it is told, a second later it has its answers, and three later it has had its time.
    assert!((4_000..6_500).contains(&began.elapsed().as_millis()), "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn an_answered_session_is_closed_after_a_moment() {
    let world = World::new();
    let mut router = world.router().await;
    world.core.drain.enter(Phase::Leave);
    assert_eq!(router.hears().await, TDRAIN);
    router.say(&RDRAIN).await;
    let began = Instant::now();
    router.is_closed().await;
    assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_poll_without_a_value_that_comes_as_the_last_thing_keeps_nobody_waiting() {
    let world = World::new();
    let mut router = world.router().await;
    world.core.drain.enter(Phase::Leave);
    assert_eq!(router.hears().await, TDRAIN);
    router.say(&RDRAIN).await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(world.core.drain.held_until(Phase::Leave), 1, "for a moment, in which it closes");
    router.dispatch(TWO, bind(b"", "/svc/unknown")).await;
    router.hears_nothing_for(Duration::from_secs(1)).await;
    assert_eq!(world.core.drain.held_until(Phase::Leave), 0);
    world.core.drain.enter(Phase::Close);
    assert!(router.answer(TWO).await.is_failure());
    router.is_closed().await;
}

#[tokio::test(start_paused = true)]
async fn behind_one_address_who_comes_while_we_go_waits_until_it_has_noticed() {
    let world = World::with(&OwnLimits::default(), ThriftConfig::default(), |core| core.sessions.ping_silence = true);
    world.fixture.serve("/web", &[]);
    let mut known = world.router().await;
    known.dispatch(TWO, bind(b"", "/svc/web")).await;
    let known = known.answer(TWO).await;
    world.core.drain.enter(Phase::Leave);
    tokio::time::sleep(Duration::from_secs(1)).await;
    let mut late = world.router().await;
    late.dispatch(TWO, bind(b"", "/svc/web")).await;
    assert_eq!(late.answer(TWO).await, known, "it has nothing yet");
    late.dispatch(TWO, bind(&known.stamp(), "/svc/web")).await;
    late.say(&Message::Tping(Tag::CONTROL)).await;
    late.hears_nothing_for(Duration::from_secs(9)).await;
    assert_eq!(late.answer(TWO).await, known);
    late.is_closed().await;
}

#[tokio::test(start_paused = true)]
async fn who_comes_while_we_go_is_told_right_after_the_handshake_and_answered_at_once() {
    let world = World::new();
    world.fixture.serve("/web", &[]);
    let mut known = world.router().await;
    known.dispatch(TWO, bind(b"", "/svc/web")).await;
    let known = known.answer(TWO).await;
    world.core.drain.enter(Phase::Leave);
    tokio::time::sleep(Duration::from_millis(10)).await;
    let mut late = world.connect();
    late.negotiate().await;
    assert_eq!(late.hears().await, TDRAIN);
    late.dispatch(TWO, bind(&known.stamp(), "/svc/web")).await;
    assert_eq!(late.answer(TWO).await, known);
    late.is_closed().await;
}

#[tokio::test(start_paused = true)]
async fn nothing_is_said_before_the_handshake_is_over() {
    let world = World::new();
    let mut probing = world.connect();
    probing.say(&Message::Rerr { tag: Tag::CONTROL, reason: PROBE.into() }).await;
    probing.hears().await;
    world.core.drain.enter(Phase::Leave);
    probing.hears_nothing_for(Duration::from_secs(5)).await;
    probing.say(&Message::Tinit { tag: Tag::CONTROL, init: Init::plain() }).await;
    assert!(matches!(probing.hears().await, Message::Rinit { .. }));
    assert_eq!(probing.hears().await, TDRAIN);
}

#[tokio::test(start_paused = true)]
async fn behind_one_address_pings_are_not_answered_until_the_router_has_noticed() {
    let world = World::with(&OwnLimits::default(), ThriftConfig::default(), |core| core.sessions.ping_silence = true);
    let (mut router, known) = waiting(&world).await;
    let began = Instant::now();
    world.core.drain.enter(Phase::Leave);
    tokio::time::sleep(Duration::from_millis(2_001)).await;
    router.say(&Message::Tping(Tag::CONTROL)).await;
    assert_eq!(router.answer(TWO).await, known, "and no Tdrain, and no Rping");
    assert!((10..13).contains(&began.elapsed().as_secs()), "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn plain_clients_get_their_answers_and_are_closed_and_silent_ones_are_closed() {
    let world = World::new();
    world.fixture.serve("/web", &[]);
    let (mut plain, mut silent) = (world.connect(), world.connect());
    plain.io.write_all(&framed(&bind(b"", "/svc/web"))).await.expect("open");
    let known = Answer(plain.frame().await.expect("an answer"));
    plain.io.write_all(&framed(&bind(&known.stamp(), "/svc/web"))).await.expect("open");
    plain.io.write_all(&framed(&bind(&known.stamp(), "/svc/web"))).await.expect("open");
    world.core.drain.enter(Phase::Leave);
    for _ in 0..2 {
        assert_eq!(Answer(plain.frame().await.expect("an answer")), known);
    }
    assert_eq!(plain.frame().await, None);
    silent.is_closed().await;
}

#[tokio::test(start_paused = true)]
async fn at_the_hard_deadline_nobody_is_waited_for() {
    let world = World::new();
    let (mut router, known) = waiting(&world).await;
    router.dispatch(Tag::new(4), delegate(b"1", "/svc/web")).await;
    router.dispatch(Tag::new(5), delegate(b"", "/svc/unknown")).await;
    router.hears_nothing_for(Duration::from_millis(10)).await;
    world.core.drain.enter(Phase::Close);
    let mut answers = Vec::new();
    while let Some(message) = router.hears_or_ends().await {
        let Message::Rdispatch { tag, payload, .. } = message else { panic!("heard {message:?}") };
        answers.push((tag.get(), Answer(payload)));
    }
    answers.sort_by_key(|(tag, _)| *tag);
    let tags: Vec<u32> = answers.iter().map(|(tag, _)| *tag).collect();
    assert_eq!(tags, [2, 3, 4, 5]);
    assert_eq!(answers[0].1, known);
    assert!(answers[1..].iter().all(|(_, answer)| answer.is_failure() && answer.has("shutting down")), "{answers:?}");
}

#[tokio::test(start_paused = true)]
async fn who_comes_when_the_others_have_been_moved_away_is_served_as_ever_and_told_at_the_end() {
    let world = World::new();
    world.fixture.serve("/web", &[]);
    for phase in [Phase::Leave, Phase::EndStreams, Phase::Away] {
        world.core.drain.enter(phase);
    }
    let mut late = world.router().await;
    late.dispatch(TWO, bind(b"", "/svc/web")).await;
    let known = late.answer(TWO).await;
    late.dispatch(TWO, bind(&known.stamp(), "/svc/web")).await;
    late.hears_nothing_for(Duration::from_secs(60)).await;
    assert_eq!(world.core.drain.held_until(Phase::LeaveAgain), 1);
    world.core.drain.enter(Phase::LeaveAgain);
    assert_eq!(late.hears().await, TDRAIN);
    late.say(&RDRAIN).await;
    assert_eq!(late.answer(TWO).await, known);
    late.is_closed().await;
    assert_eq!(world.core.drain.held_until(Phase::LeaveAgain), 0);
}

#[tokio::test(start_paused = true)]
async fn a_router_whose_address_another_process_serves_now_is_left_to_find_out_by_itself() {
    let world = World::new();
    let (mut router, known) = waiting(&world).await;
    let began = Instant::now();
    world.core.drain.request(Request::hand_over("process 2"));
    world.core.drain.enter(Phase::Leave);
    tokio::time::sleep(Duration::from_millis(2_001)).await;
    router.say(&Message::Tping(Tag::CONTROL)).await;
    assert_eq!(router.answer(TWO).await, known, "and no Tdrain, and no Rping");
    assert!((10..13).contains(&began.elapsed().as_secs()), "{:?}", began.elapsed());
}
