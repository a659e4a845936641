//! Many watches of one agent.

use super::*;

#[tokio::test(start_paused = true)]
async fn a_thousand_watches_share_few_connections_and_all_see_changes_in_bounded_time() {
    let consul = FakeConsul::default();
    let agent = consul.agent_with(20);
    let path = |n: usize| format!("/v1/catalog/service/s{n}");
    let watches: Vec<(Value, Poll<String>)> = (0..200)
        .map(|n| {
            consul.set(&path(n), "one", 7);
            let cell = Cell::new();
            let query = Query { request: Request::get(path(n)), ..query() };
            let poll = Poll::start(&agent, query, cell.clone(), PollCounters::default());
            (cell, poll)
        })
        .collect();
    for (cell, _) in &watches {
        assert!(until(cell, "one").await < Duration::from_secs(1), "first answers need no turn");
    }
    for round in ["two", "three", "four"] {
        sleep(60).await;
        (0..200).for_each(|n| consul.set(&path(n), round, 8 + round.len() as u64));
        let began = Instant::now();
        for (cell, _) in &watches {
            until(cell, round).await;
        }
        assert!(began.elapsed() < Duration::from_secs(25), "ten rounds of a second: {:?}", began.elapsed());
    }
    assert!(consul.most_open() <= 24, "{}", consul.most_open());
    let before = consul.log().len();
    sleep(60).await;
    assert!(consul.log().len() - before <= 60 * 24, "{}", consul.log().len() - before);
}

#[tokio::test(start_paused = true)]
async fn those_who_come_late_are_not_starved_by_long_polls() {
    let consul = FakeConsul::default();
    let agent = consul.agent_with(5);
    let watch = |n: usize| {
        let path = format!("/v1/catalog/service/s{n}");
        consul.set(&path, "one", 7);
        let cell = Cell::new();
        let query = Query { request: Request::get(path), ..query() };
        (cell.clone(), Poll::start(&agent, query, cell, PollCounters::default()))
    };
    let early: Vec<_> = (0..5).map(watch).collect();
    sleep(2).await;
    let (late, _poll) = watch(5);
    until(&late, "one").await;
    sleep(10).await;
    consul.set("/v1/catalog/service/s5", "two", 8);
    assert!(until(&late, "two").await < Duration::from_secs(6));
    drop(early);
}

#[tokio::test(start_paused = true)]
async fn one_success_tells_all_who_wait_that_the_agent_is_back() {
    let consul = FakeConsul::default();
    let agent = consul.agent();
    let watches: Vec<(Value, Poll<String>)> = (0..100)
        .map(|n| {
            let path = format!("/v1/catalog/service/s{n}");
            consul.set(&path, "one", 7);
            let cell = Cell::new();
            let query = Query { request: Request::get(path), ..query() };
            (cell.clone(), Poll::start(&agent, query, cell, PollCounters::default()))
        })
        .collect();
    for _ in 0..600 {
        consul.script(Step::Refuse);
    }
    let left = || watches.iter().filter(|(cell, _)| value(cell).is_empty()).count();
    while left() == watches.len() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    tokio::time::sleep(Duration::from_millis(1_000)).await;
    assert_eq!(left(), 0);
}
