//! What the loop of a watch does, on a clock of its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rosterd::client::{Answer, Ask, Feed, Named, Reason, Timings};
use rosterd::name::{Addr, AddrSet, Dtab, NameTree, Path, Weighted};
use rosterd::store::{Standing, State};
use tokio::runtime::Handle;
use tokio::time::{Instant, sleep};

use super::namerd::{Calls, Handshake, Namerd, Registry, set};
use super::net::{Link, Net};
use super::{Client, holds, is_current, value};

pub const A: &str = "192.0.2.1:4100";
pub const B: &str = "192.0.2.2:4100";
pub const C: &str = "192.0.2.3:4100";

/// The longest back-off of these stories, and a little.
pub const CAP: Duration = Duration::from_secs(10);
pub const MARGIN: Duration = Duration::from_secs(2);
/// A silent connection is noticed within this time.
pub const DETECTION: Duration = Duration::from_secs(9);

pub const SOON: Duration = Duration::from_millis(100);

/// One registry, a server at A and one at B.
pub struct World {
    pub registry: Registry,
    pub net: Net,
    pub a: Namerd,
    pub b: Namerd,
}

impl World {
    pub fn new() -> Self {
        let (registry, net) = (Registry::default(), Net::default());
        let (a, b) = (Namerd::new(&registry), Namerd::new(&registry));
        net.host(A, &a);
        net.host(B, &b);
        registry.addr("/#/fs/web", &["10.0.0.1:80"]);
        Self { registry, net, a, b }
    }

    pub fn client(&self, servers: &[&str]) -> Client {
        Client::new(self.net.clone(), Timings::default(), servers)
    }

    /// Changes the addresses; what they are now.
    pub fn change(&self, n: u8) -> AddrSet {
        let address = format!("10.0.0.{n}:80");
        self.registry.addr("/#/fs/web", &[&address]);
        set(&[&address])
    }
}

/// Waits until something holds, on the paused clock.
pub async fn until(what: &str, limit: Duration, holds: impl Fn() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < limit, "not within {limit:?}: {what}");
        sleep(Duration::from_millis(10)).await;
    }
}

pub async fn first(client: &Client) -> Feed<AddrSet> {
    let feed = client.addr("/#/fs/web");
    holds(&feed, &set(&["10.0.0.1:80"]), SOON).await;
    feed
}

#[tokio::test(start_paused = true)]
async fn a_change_reaches_the_watch_at_once() {
    let world = World::new();
    let client = world.client(&[A]);
    let feed = first(&client).await;
    for n in 2..100 {
        let took = holds(&feed, &world.change(n), SOON).await;
        assert!(took < SOON, "{took:?}");
        sleep(SOON).await;
    }
    assert_eq!((client.failures(), world.net.dialled(A)), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn trees_and_dtabs_are_followed_like_addresses() {
    let world = World::new();
    let client = world.client(&[A]);
    world.registry.bind("/svc/web", "0.25 * /#/fs/web & 0.75 * /#/fs/new");
    world.registry.dtab("default", "/svc=>/#/fs");
    world.registry.no_addr("/#/fs/gone");
    let path = |text: &str| Path::parse(text).expect("a path");
    let follow = |ask| client.upstream.feed(&Handle::current(), ask, Ok::<Answer, String>).begun();
    let bound = follow(Ask::Bind { ns: "default".into(), dtab: "".into(), path: path("/svc/web") });
    let dtab = follow(Ask::Dtab { ns: "default".into() });
    let gone = follow(Ask::Addr { id: path("/#/fs/gone") });
    let named = |id: &str| NameTree::Leaf(Named { id: path(id), residual: Path::empty(), weight: None });
    let union = [(0.25, "/#/fs/web"), (0.75, "/#/fs/new")].map(|(weight, id)| Weighted::new(weight, named(id)));
    holds(&bound, &Answer::Tree(NameTree::Union(union.into())), SOON).await;
    let table = |text| Answer::Dtab(Some((Dtab::parse(text).expect("a dtab"), bytes::Bytes::new())));
    holds(&dtab, &table("/svc=>/#/fs"), SOON).await;
    holds(&gone, &Answer::Addr(Addr::Neg), SOON).await;
    world.registry.bind("/svc/web", "~");
    world.registry.dtab("default", "");
    holds(&bound, &Answer::Tree(NameTree::Neg), SOON).await;
    holds(&dtab, &table(""), SOON).await;
    let page = client.upstream.page();
    assert_eq!(page["bind"]["default"]["/svc/web"][""]["condition"], "current", "{page}");
    assert_eq!(page["dtab"]["default"]["poll"]["server"], A, "{page}");
    assert_eq!(page["servers"][0]["watches"], 3, "{page}");
}

#[tokio::test(start_paused = true)]
async fn all_watches_of_a_server_share_one_session() {
    let world = World::new();
    let client = world.client(&[A]);
    let ids: Vec<String> = (0..100).map(|n| format!("/#/fs/{n}")).collect();
    ids.iter().for_each(|id| world.registry.addr(id, &["10.0.0.9:80"]));
    let feeds: Vec<_> = ids.iter().map(|id| client.addr(id)).collect();
    for feed in &feeds {
        holds(feed, &set(&["10.0.0.9:80"]), SOON).await;
    }
    until("all are parked", SOON, || world.a.parked() == 100).await;
    assert_eq!(world.net.dialled(A), 1);
    drop(feeds);
    until("all are discarded", SOON, || world.a.parked() == 0).await;
    assert_eq!(world.a.seen().iter().filter(|seen| *seen == "discard").count(), 100);
    until("a session that nobody uses is closed", Duration::from_secs(31), || world.a.sessions() == 0).await;
}

#[tokio::test(start_paused = true)]
async fn whatever_a_server_answers_the_watch_goes_on() {
    let bad = [
        (Calls::Nack, Reason::Nack),
        (Calls::Error, Reason::Refused),
        (Calls::Rerr, Reason::Refused),
        (Calls::Exception, Reason::Exception),
        (Calls::Declared("no backend"), Reason::Declared),
        (Calls::Bytes(b""), Reason::BadAnswer),
        (Calls::Bytes(b"GET / HTTP/1.1"), Reason::BadAnswer),
        // An address set that is neither bound nor neg: what ends a loop of Linkerd's for good.
        (
            Calls::Bytes(
                b"\x80\x01\0\x02\0\0\0\x04addr\0\0\0\0\x0c\0\0\x0b\0\x01\0\0\0\x01x\x0c\0\x02\x0c\0\x09\0\0\0\0",
            ),
            Reason::BadAnswer,
        ),
        (Calls::Confused, Reason::BadAnswer),
    ];
    for (n, (calls, reason)) in (2..).zip(bad) {
        let world = World::new();
        let client = world.client(&[A]);
        let feed = first(&client).await;
        world.a.behave(|manners| manners.calls = calls.clone());
        world.net.cut(A);
        sleep(Duration::from_secs(60)).await;
        assert!(client.ends(reason) >= 4, "{calls:?}: {} of {}", client.ends(reason), client.failures());
        assert!(client.failures() <= 40, "{calls:?}: it backs off: {}", client.failures());
        assert_eq!(value(&feed.cell().snapshot()), Some(set(&["10.0.0.1:80"])), "{calls:?}: the last value stays");
        let wanted = world.change(n);
        world.a.behave(|manners| manners.calls = Calls::Served);
        holds(&feed, &wanted, CAP + MARGIN).await;
        assert!(is_current(&feed));
    }
}

#[tokio::test(start_paused = true)]
async fn a_declared_failure_shows_and_keeps_the_last_value() {
    let world = World::new();
    world.a.behave(|manners| manners.calls = Calls::Declared("too deep"));
    let client = world.client(&[A]);
    let feed = client.addr("/#/fs/web");
    until("the failure shows", SOON, || matches!(feed.cell().snapshot().state, State::Failed(_))).await;
    world.a.behave(|manners| manners.calls = Calls::Served);
    holds(&feed, &set(&["10.0.0.1:80"]), CAP).await;
    world.a.behave(|manners| manners.calls = Calls::Declared("too deep"));
    world.net.cut(A);
    world.change(2);
    until("it stands as stale", CAP, || matches!(feed.cell().snapshot().standing, Standing::Stale { .. })).await;
    assert_eq!(value(&feed.cell().snapshot()), Some(set(&["10.0.0.1:80"])));
    world.a.behave(|manners| manners.calls = Calls::Served);
    holds(&feed, &set(&["10.0.0.2:80"]), CAP + MARGIN).await;
    assert!(is_current(&feed));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_cannot_be_reached_is_told_and_nothing_is_taken_away() {
    let world = World::new();
    let client = world.client(&[A]);
    let feed = first(&client).await;
    world.net.link(A, Link::Refuses);
    world.net.cut(A);
    until("it is told as stale", SOON, || client.upstream.staleness().count == 1).await;
    sleep(Duration::from_secs(3_600)).await;
    let snapshot = feed.cell().snapshot();
    assert_eq!((value(&snapshot), snapshot.standing), (Some(set(&["10.0.0.1:80"])), Standing::Current));
    let dialled = world.net.dialled(A);
    assert!((300..=1_000).contains(&dialled), "about one attempt in 1 to 10 s, but {dialled}");
    let wanted = world.change(2);
    world.net.link(A, Link::Up);
    holds(&feed, &wanted, CAP + MARGIN).await;
    assert_eq!(client.upstream.staleness().count, 0);
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_never_had_a_value_says_what_it_waits_for() {
    let world = World::new();
    world.net.link(A, Link::Refuses);
    let client = world.client(&[A]);
    assert_eq!(client.upstream.degradation(), None, "nobody was asked yet");
    let feed = client.addr("/#/fs/web");
    for _ in 0..20 {
        // Right after an attempt, and while all wait for the next one.
        sleep(SOON).await;
        let snapshot = feed.cell().snapshot();
        assert!(matches!(snapshot.state, State::Pending), "{snapshot:?}");
        let Standing::Suspended { reason: Some(reason), .. } = snapshot.standing else { panic!("{snapshot:?}") };
        assert!(reason.starts_with(&format!("test ({A}): ")) && reason.contains("connection refused"), "{reason}");
    }
    let degraded = client.upstream.degradation().expect("degraded");
    assert!(degraded.starts_with(&format!("no server can be asked: {A}: ")), "{degraded}");
    world.net.link(A, Link::Up);
    holds(&feed, &set(&["10.0.0.1:80"]), CAP + MARGIN).await;
    assert_eq!(client.upstream.degradation(), None);
}

#[tokio::test(start_paused = true)]
async fn every_way_not_to_get_a_session_is_bounded_counted_and_tried_again() {
    type Break = fn(&World);
    let ways: [(Break, Reason); 6] = [
        (|world| world.net.link(A, Link::Refuses), Reason::Connect),
        (|world| world.net.link(A, Link::BlackHole), Reason::ConnectTimeout),
        (|world| world.net.pass(A, false), Reason::HandshakeTimeout),
        (|world| world.a.behave(|manners| manners.handshake = Handshake::Silent), Reason::HandshakeTimeout),
        (
            |world| world.a.behave(|manners| manners.handshake = Handshake::Bytes(b"HTTP/1.1 400 Bad Request\r\n")),
            Reason::Handshake,
        ),
        (
            |world| {
                world.a.behave(|manners| manners.handshake = Handshake::Bytes(b"\0\0\0\x05\x41\0\0\x01\0\0\0\0\x04"))
            },
            Reason::Protocol,
        ),
    ];
    for (break_it, reason) in ways {
        let world = World::new();
        break_it(&world);
        let client = world.client(&[A]);
        let feed = client.addr("/#/fs/web");
        sleep(Duration::from_secs(120)).await;
        assert!(client.ends(reason) >= 5, "{reason}: {}", client.ends(reason));
        assert!(client.failures() <= 120, "{reason}: {}", client.failures());
        world.net.link(A, Link::Up);
        world.net.pass(A, true);
        world.a.behave(|manners| manners.handshake = Handshake::Polite);
        let detection = Duration::from_secs(5); // of a handshake that hangs still
        holds(&feed, &set(&["10.0.0.1:80"]), CAP + detection + MARGIN).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_does_not_negotiate_is_spoken_to_all_the_same() {
    let world = World::new();
    world.a.behave(|manners| manners.handshake = Handshake::Old);
    let client = world.client(&[A]);
    let feed = first(&client).await;
    holds(&feed, &world.change(2), SOON).await;
    assert_eq!(client.failures(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_half_open_connection_is_noticed_and_left() {
    let world = World::new();
    let client = world.client(&[A, B]);
    let feed = first(&client).await;
    let (near, far) = if world.a.parked() == 1 { (A, B) } else { (B, A) };
    world.net.pass(near, false);
    let wanted = world.change(2);
    let took = holds(&feed, &wanted, DETECTION + MARGIN).await;
    assert!(took > Duration::from_secs(3), "the silence is what was noticed: {took:?}");
    assert_eq!((client.ends(Reason::PingTimeout), world.net.dialled(far)), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_answers_no_pings_is_left_too() {
    let world = World::new();
    world.a.behave(|manners| manners.no_pings = true);
    let client = world.client(&[A]);
    let _feed = first(&client).await;
    sleep(DETECTION / 2).await;
    assert_eq!(client.ends(Reason::PingTimeout), 1);
}

#[tokio::test(start_paused = true)]
async fn a_success_ends_the_streak_of_delays() {
    let world = World::new();
    let client = world.client(&[A]);
    let feed = first(&client).await;
    for n in 2..30 {
        world.net.cut(A);
        let took = holds(&feed, &world.change(n), CAP).await;
        assert!(took <= Duration::from_secs(3), "failure {n} took {took:?}");
        sleep(Duration::from_secs(5)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_poll_that_a_server_keeps_for_itself_is_asked_elsewhere() {
    let world = World::new();
    let client = world.client(&[A]);
    let feed = first(&client).await;
    world.a.behave(|manners| manners.calls = Calls::Parked);
    client.servers(&[A, B]);
    let wanted = world.change(2);
    holds(&feed, &wanted, Duration::from_secs(170)).await;
    until("the old poll is discarded", SOON, || world.a.parked() == 0).await;
    assert_eq!(client.failures(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_server_without_a_first_answer_is_not_the_only_one_that_is_asked() {
    let world = World::new();
    world.a.behave(|manners| manners.calls = Calls::Parked);
    let client = world.client(&[A]);
    let feed = client.addr("/#/fs/web");
    sleep(Duration::from_secs(60)).await;
    assert_eq!(world.a.seen().len(), 2, "a session and one poll: {:?}", world.a.seen());
    client.servers(&[A, B]);
    holds(&feed, &set(&["10.0.0.1:80"]), Duration::from_secs(30)).await;
}

#[tokio::test(start_paused = true)]
async fn a_lost_poll_at_the_only_server_is_asked_again() {
    let world = World::new();
    world.a.behave(|manners| manners.calls = Calls::Parked);
    let client = world.client(&[A]);
    let feed = client.addr("/#/fs/web");
    sleep(Duration::from_secs(60)).await;
    world.a.behave(|manners| manners.calls = Calls::Served); // and the poll of before stays lost
    holds(&feed, &set(&["10.0.0.1:80"]), Duration::from_secs(170)).await;
}

#[tokio::test(start_paused = true)]
async fn a_server_that_answers_everything_at_once_is_asked_at_a_pace() {
    let world = World::new();
    let client = world.client(&[A]);
    let _feed = first(&client).await;
    world.a.behave(|manners| manners.calls = Calls::Hurried);
    world.change(2);
    sleep(Duration::from_secs(60)).await;
    let polls = world.a.seen().len();
    assert!((1_000..=1_300).contains(&polls), "twenty a second: {polls}");
}

#[tokio::test(start_paused = true)]
async fn a_panic_is_one_more_failure() {
    let world = World::new();
    let client = world.client(&[A]);
    let ask = Ask::Addr { id: Path::parse("/#/fs/web").expect("an id") };
    let broken = Arc::new(AtomicBool::new(true));
    let is_broken = broken.clone();
    let feed: Feed<u8> = client.upstream.feed(&Handle::current(), ask, move |_| {
        assert!(!is_broken.load(Ordering::SeqCst), "this panic is on purpose");
        Ok(1)
    });
    let feed = feed.begun();
    sleep(Duration::from_secs(60)).await;
    assert!((5..=30).contains(&client.ends(Reason::Panic)), "{}", client.ends(Reason::Panic));
    broken.store(false, Ordering::SeqCst);
    holds(&feed, &1, CAP + MARGIN).await;
}

#[tokio::test(start_paused = true)]
async fn a_dead_server_is_not_dialled_by_every_watch() {
    let world = World::new();
    world.net.link(A, Link::Refuses);
    let client = world.client(&[A]);
    let _feeds: Vec<_> = (0..500).map(|n| client.addr(&format!("/#/fs/{n}"))).collect();
    sleep(Duration::from_secs(120)).await;
    let dialled = world.net.dialled(A);
    assert!((12..=90).contains(&dialled), "one attempt in 1 to 10 s for all together: {dialled}");
}

#[tokio::test(start_paused = true)]
async fn nothing_is_left_of_a_client_that_was_dropped() {
    let world = World::new();
    let before = Handle::current().metrics().num_alive_tasks();
    let client = world.client(&[A, B]);
    let feeds: Vec<_> = (0..50).map(|_| client.addr("/#/fs/web")).collect();
    for feed in &feeds {
        holds(feed, &set(&["10.0.0.1:80"]), SOON).await;
    }
    drop(feeds);
    drop(client);
    until("every task has ended", Duration::from_secs(1), || Handle::current().metrics().num_alive_tasks() == before)
        .await;
    assert_eq!(world.a.parked() + world.b.parked(), 0);
}
