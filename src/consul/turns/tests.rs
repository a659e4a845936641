//! Stories of many watches at one agent, on a paused clock.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::consul::testing::{FakeConsul, Step};
use crate::consul::{Agent, Answer, Poll, PollCounters, Query, Rank, Request, Rhythm, Sink, Undecoded, WAIT};
use crate::store::{Cell, Reason};

/// The value of a watch, which is nothing while it is empty.
#[derive(Clone)]
struct Seen(Arc<Cell<String>>);

impl Sink<String> for Seen {
    fn publish(&self, value: String) -> bool {
        self.0.publish(value)
    }

    fn fail(&self, reason: Reason) {
        self.0.fail(reason);
    }

    fn is_nothing(&self, value: &String) -> bool {
        value.is_empty()
    }
}

struct Watched {
    cell: Arc<Cell<String>>,
    path: String,
    _poll: Poll<String>,
}

impl Watched {
    fn start(consul: &FakeConsul, agent: &Agent, path: &str, datacenter: &str, rank: Rank, value: &str) -> Self {
        consul.set(path, value, 7);
        Self::ask(agent, path, datacenter, rank)
    }

    fn ask(agent: &Agent, path: &str, datacenter: &str, rank: Rank) -> Self {
        let text = |_: &Answer, body: &[u8]| Ok::<_, Undecoded>(String::from_utf8_lossy(body).into_owned());
        let query = Query::new(Request::get(path).datacenter(datacenter), Rhythm::Blocking(WAIT), text);
        let cell = Cell::new();
        let poll = Poll::start(agent, Query { rank, ..query }, Seen(cell.clone()), PollCounters::default());
        Self { cell, path: path.to_owned(), _poll: poll }
    }

    fn shows(&self, wanted: &str) -> bool {
        self.cell.snapshot().value().is_some_and(|value| **value == wanted)
    }

    /// Waits until readers see `wanted`; says how long that took, to a few milliseconds.
    async fn until(&self, wanted: &str) -> Duration {
        let began = Instant::now();
        while !self.shows(wanted) {
            assert!(began.elapsed() < Duration::from_secs(1_000), "{} never showed {wanted:?}", self.path);
            sleep(Duration::from_millis(5)).await;
        }
        began.elapsed()
    }
}

fn names(consul: &FakeConsul, agent: &Agent, count: usize, datacenter: &str, value: &str) -> Vec<Watched> {
    let path = |n| format!("/v1/catalog/service/{datacenter}-{value}-{n}");
    (0..count).map(|n| Watched::start(consul, agent, &path(n), datacenter, Rank::Name, value)).collect()
}

const DTAB: &str = "/v1/kv/namerd/dtabs/default";

#[tokio::test(start_paused = true)]
async fn a_dtab_is_followed_at_once_however_many_names_take_turns() {
    let consul = FakeConsul::default();
    let agent = consul.agent();
    let _names = names(&consul, &agent, 1_000, "dc1", "x");
    let dtab = Watched::start(&consul, &agent, DTAB, "dc1", Rank::Dtab, "/a=>/b");
    sleep(Duration::from_secs(400)).await;
    for index in 8..28 {
        let text = format!("/a=>/n{index}");
        consul.set(DTAB, &text, index);
        let late = dtab.until(&text).await;
        assert!(late < Duration::from_millis(1_200), "{late:?}");
    }
    assert!(consul.log().iter().any(|(target, _)| target.contains(DTAB) && target.contains("wait=5m")));
}

#[tokio::test(start_paused = true)]
async fn as_many_polls_are_short_as_it_takes_for_the_others_to_have_turns() {
    let consul = FakeConsul::default();
    let agent = consul.agent_with(20);
    let watched = names(&consul, &agent, 22, "dc1", "one");
    sleep(Duration::from_secs(700)).await;
    let before = consul.log().len();
    sleep(Duration::from_secs(60)).await;
    let asked = consul.log().len() - before;
    assert!(asked <= 150, "two a second for two too many: {asked}");
    for name in &watched {
        consul.set(&name.path, "two", 9);
        let late = name.until("two").await;
        assert!(late < Duration::from_secs(4), "{late:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_does_not_exist_takes_no_turns_from_what_does() {
    let consul = FakeConsul::default();
    let agent = consul.agent_with(50);
    let watched = names(&consul, &agent, 40, "dc1", "one");
    let made_up = names(&consul, &agent, 1_000, "dc1", "");
    sleep(Duration::from_secs(700)).await;
    for (n, name) in watched.iter().enumerate() {
        consul.set(&name.path, "two", 9 + n as u64);
        let late = name.until("two").await;
        assert!(late < Duration::from_millis(100), "{late:?}");
    }
    let before = consul.log().len();
    sleep(Duration::from_secs(60)).await;
    let asked = (consul.log().len() - before) / 60;
    assert!(asked <= 50, "{asked} requests a second");
    consul.set(&made_up[500].path, "there", 900);
    let late = made_up[500].until("there").await;
    assert!(late < Duration::from_secs(60), "{late:?}");
}

#[tokio::test(start_paused = true)]
async fn a_datacenter_that_falls_silent_holds_up_nobody_else() {
    let consul = FakeConsul::default();
    let agent = consul.agent();
    let _here = names(&consul, &agent, 50, "dc1", "x");
    let mut far = Vec::new();
    for datacenter in ["dc2", "dc3", "dc4"] {
        far.extend(names(&consul, &agent, 100, datacenter, "one"));
    }
    sleep(Duration::from_secs(20)).await;
    for datacenter in ["dc2", "dc3", "dc4"] {
        consul.silence(&format!("dc={datacenter}"));
    }
    // Names that were never answered for, and then all the others, too.
    for datacenter in ["dc2", "dc3", "dc4"] {
        far.extend(names(&consul, &agent, 100, datacenter, "new"));
    }
    for n in 0..50 {
        sleep(Duration::from_secs(13)).await;
        let began = Instant::now();
        agent
            .once(&Request::get(DTAB).datacenter("dc1"), Duration::from_secs(8))
            .await
            .expect_err("no such path there");
        assert!(began.elapsed() < Duration::from_secs(1), "a dtab read once: {:?}", began.elapsed());
        let path = format!("/v1/catalog/service/late{n}");
        let late = Watched::start(&consul, &agent, &path, "dc1", Rank::Name, "x").until("x").await;
        assert!(late < Duration::from_secs(1), "a name that is asked for for the first time: {late:?}");
    }
    consul.speak();
    let began = Instant::now();
    for name in &far {
        let value = if name.path.contains("new") { "new" } else { "one" };
        name.until(value).await;
    }
    assert!(began.elapsed() < Duration::from_secs(60), "{:?}", began.elapsed());
}

/// A paused agent answers nothing at all, and then everything.
#[tokio::test(start_paused = true)]
async fn an_agent_that_is_paused_for_long_is_followed_again_at_once() {
    let consul = FakeConsul::default();
    let agent = consul.agent();
    let watched = names(&consul, &agent, 300, "dc1", "one");
    sleep(Duration::from_secs(20)).await;
    consul.silence("/v1/");
    sleep(Duration::from_secs(600)).await;
    assert!(watched.iter().all(|name| name.shows("one")), "nothing is taken away");
    consul.speak();
    watched.iter().for_each(|name| consul.set(&name.path, "two", 9));
    let began = Instant::now();
    for name in &watched {
        name.until("two").await;
    }
    assert!(began.elapsed() < Duration::from_secs(20), "a request that is held takes its time: {:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn who_shows_no_token_to_consul_that_denies_by_default_is_told_what_that_may_mean() {
    let consul = FakeConsul::default();
    let agent = consul.agent();
    let headers = vec![("x-consul-index", "7".to_owned()), ("x-consul-default-acl-policy", "deny".to_owned())];
    for body in ["", "", "", "there"] {
        consul.script(Step::Reply(200, headers.clone(), body.to_owned()));
    }
    let name = Watched::ask(&agent, "/v1/catalog/service/web", "dc1", Rank::Name);
    name.until("").await;
    let warning = || name._poll.journal().page("".into())["poll"]["warning"].clone();
    assert!(warning().as_str().is_some_and(|text| text.contains("`token`")), "{}", warning());
    name.until("there").await;
    sleep(Duration::from_millis(10)).await;
    assert!(warning().is_null(), "{}", warning());
}
