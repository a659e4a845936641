//! What becomes of a host when its name server says this or that, on a paused clock.

use std::future::pending;
use std::time::Duration;

use async_trait::async_trait;
use tokio::time::{Instant, sleep};

use super::*;
use crate::store::{Client, Derived, Evaluators, Formula, Snapshot, Standing, State, Watch};

const WEB: &str = "web.example.com";

/// A name server under the test's control.
#[derive(Clone, Debug, Default)]
struct FakeDns(Arc<Mutex<Zone>>);

#[derive(Debug, Default)]
struct Zone {
    replies: HashMap<String, Reply>,
    asked: Vec<(Instant, String)>,
    under_way: usize,
    most_under_way: usize,
}

#[derive(Clone, Debug)]
enum Reply {
    Found(&'static [&'static str], u64),
    NoSuchHost,
    ServFail,
    Silence,
    Panic,
}

use Reply::{Found, NoSuchHost, Panic, ServFail, Silence};

impl FakeDns {
    fn say(&self, host: &str, reply: Reply) {
        self.0.lock().replies.insert(host.to_owned(), reply);
    }

    /// When `host` was asked for, in seconds since `start`.
    fn asked(&self, host: &str, start: Instant) -> Vec<f64> {
        let asked = &self.0.lock().asked;
        let since = |at: Instant| at.saturating_duration_since(start).as_secs_f64();
        asked.iter().filter(|(_, name)| name == host).map(|(at, _)| since(*at)).collect()
    }

    /// Waits for the `count`th look-up of `host`.
    async fn asked_times(&self, host: &str, count: usize) {
        for _ in 0..1000 {
            if self.asked(host, Instant::now()).len() >= count {
                return;
            }
            seconds(0.1).await;
        }
        panic!("{host} was not asked for {count} times within 100 s");
    }

    fn hosts(&self) -> Hosts {
        Hosts::with_resolver(Arc::new(self.clone()))
    }
}

#[async_trait]
impl Resolve for FakeDns {
    async fn resolve(&self, host: &str) -> Result<Answer, Unresolved> {
        let reply = {
            let mut zone = self.0.lock();
            zone.asked.push((Instant::now(), host.to_owned()));
            zone.under_way += 1;
            zone.most_under_way = zone.most_under_way.max(zone.under_way);
            zone.replies.get(host).cloned().unwrap_or(NoSuchHost)
        };
        sleep(Duration::from_millis(10)).await;
        self.0.lock().under_way -= 1;
        match reply {
            Found(addrs, ttl) => {
                let addrs = addrs.iter().map(|addr| addr.parse().expect("an address")).collect();
                Ok(Answer { addrs, ttl: Duration::from_secs(ttl) })
            }
            NoSuchHost => Err(Unresolved::NoSuchHost),
            ServFail => Err(Unresolved::Unavailable("SERVFAIL".to_owned())),
            Silence => pending().await,
            Panic => panic!("the name server made me do it"),
        }
    }
}

type Read<T> = Box<dyn Fn(&Hosts, &mut Run<'_>) -> Reading<T> + Send + Sync>;

/// Reads something through `hosts` and stays current.
struct Ask<T>(Hosts, Read<T>);

impl<T: PartialEq + Send + Sync + 'static> Formula for Ask<T> {
    type Value = T;

    fn compute(&self, run: &mut Run<'_>) -> Reading<T> {
        self.1(&self.0, run)
    }
}

fn watch<T: PartialEq + Send + Sync + 'static>(
    hosts: &Hosts,
    read: impl Fn(&Hosts, &mut Run<'_>) -> Reading<T> + Send + Sync + 'static,
) -> Watch<T> {
    let evaluators = Evaluators::start(1);
    let derived = Derived::new(&evaluators, Client::INTERNAL, Ask(hosts.clone(), Box::new(read)));
    let cell = derived.cell().clone();
    Watch::new(cell, Arc::new(Kept(derived, evaluators)))
}

struct Kept<T: PartialEq + Send + Sync + 'static>(
    Derived<Ask<T>>,
    #[expect(dead_code, reason = "kept alive")] Evaluators,
);

impl<T: PartialEq + Send + Sync + 'static> crate::store::Live for Kept<T> {
    fn refresh(&self) {
        self.0.refresh();
    }
}

fn watch_host(hosts: &Hosts, host: &'static str) -> Watch<HostAddrs> {
    watch(hosts, move |hosts, run| hosts.lookup(run, host))
}

fn watch_inet(hosts: &Hosts, text: &'static str) -> Watch<Addr> {
    watch(hosts, move |hosts, run| hosts.inet(run, text))
}

fn shown<T>(snapshot: &Snapshot<T>, show: impl Fn(&T) -> String) -> String {
    match (&snapshot.state, &snapshot.standing) {
        (State::Ready(value), _) => show(value),
        (State::Pending, Standing::Suspended { reason: Some(reason), .. }) => format!("pending: {reason}"),
        (State::Pending, _) => "pending".to_owned(),
        (State::Failed(reason), _) => format!("failed: {reason}"),
    }
}

fn host(watch: &Watch<HostAddrs>) -> String {
    shown(&watch.current(), |addrs| match addrs {
        HostAddrs::Found(addrs) => addrs.iter().map(IpAddr::to_string).collect::<Vec<_>>().join(" "),
        HostAddrs::Unknown => "unknown".to_owned(),
    })
}

fn inet(watch: &Watch<Addr>) -> String {
    shown(&watch.current(), |addr| match addr {
        Addr::Bound(set) => {
            let shown = set.addrs().iter().map(|address| format!("{}:{}", address.ip, address.port));
            format!("bound {}", shown.collect::<Vec<_>>().join(" ")).trim_end().to_owned()
        }
        Addr::Neg => "neg".to_owned(),
        Addr::Failed(cause) => format!("failed {}", cause.as_deref().unwrap_or_default()),
    })
}

async fn seconds(count: f64) {
    sleep(Duration::from_secs_f64(count)).await;
}

/// The waiting times between the look-ups of `WEB` within some minutes, for records of this TTL.
async fn intervals(ttl: u64) -> Vec<f64> {
    let dns = FakeDns::default();
    dns.say(WEB, Found(&["192.0.2.1"], ttl));
    let start = Instant::now();
    let hosts = dns.hosts();
    let web = watch_host(&hosts, WEB);
    web.current();
    seconds(400.0).await;
    let asked = dns.asked(WEB, start);
    assert!(asked.len() > 5, "{asked:?}");
    // Each look-up takes 0.01 s.
    asked.windows(2).map(|pair| pair[1] - pair[0] - 0.01).collect()
}

fn assert_all_within(intervals: &[f64], least: f64, most: f64) {
    let slack = 0.005;
    assert!(intervals.iter().all(|time| (least - slack..=most + slack).contains(time)), "{intervals:?}");
}

#[tokio::test(start_paused = true)]
async fn a_host_is_looked_up_again_when_its_ttl_ends() {
    assert_all_within(&intervals(20).await, 20.0, 22.0);
}

#[tokio::test(start_paused = true)]
async fn a_host_is_looked_up_at_most_every_5_seconds() {
    assert_all_within(&intervals(0).await, 5.0, 5.5);
}

#[tokio::test(start_paused = true)]
async fn a_host_is_looked_up_at_least_every_60_seconds() {
    assert_all_within(&intervals(86_400).await, 54.0, 60.0);
}

#[tokio::test(start_paused = true)]
async fn new_addresses_take_the_place_of_the_old_ones() {
    let dns = FakeDns::default();
    dns.say(WEB, Found(&["192.0.2.2", "192.0.2.1", "192.0.2.2"], 5));
    let web = watch_host(&dns.hosts(), WEB);
    assert_eq!(host(&web), "pending");
    seconds(1.0).await;
    assert_eq!(host(&web), "192.0.2.1 192.0.2.2");
    dns.say(WEB, Found(&["192.0.2.3"], 5));
    seconds(6.0).await;
    assert_eq!(host(&web), "192.0.2.3");
}

#[tokio::test(start_paused = true)]
async fn no_such_host_is_believed_at_once_of_a_host_that_never_resolved() {
    let dns = FakeDns::default();
    let web = watch_host(&dns.hosts(), WEB);
    web.current();
    seconds(0.1).await;
    assert_eq!(host(&web), "unknown");
    dns.say(WEB, Found(&["192.0.2.1"], 60));
    seconds(10.1).await;
    assert_eq!(host(&web), "192.0.2.1", "and it is asked for again soon");
}

#[tokio::test(start_paused = true)]
async fn no_such_host_must_be_confirmed_5_seconds_later_of_a_host_that_had_resolved() {
    let dns = FakeDns::default();
    dns.say(WEB, Found(&["192.0.2.1"], 10));
    let web = watch_host(&dns.hosts(), WEB);
    web.current();
    seconds(1.0).await;
    dns.say(WEB, NoSuchHost);
    dns.asked_times(WEB, 2).await;
    seconds(4.5).await;
    assert_eq!(host(&web), "192.0.2.1");
    seconds(0.6).await;
    assert_eq!(host(&web), "unknown");
}

#[tokio::test(start_paused = true)]
async fn no_such_host_that_is_not_confirmed_changes_nothing() {
    let dns = FakeDns::default();
    dns.say(WEB, Found(&["192.0.2.1"], 5));
    let web = watch_host(&dns.hosts(), WEB);
    web.current();
    for round in 1..5 {
        seconds(0.1).await;
        dns.say(WEB, NoSuchHost);
        dns.asked_times(WEB, 2 * round).await;
        seconds(0.1).await;
        assert_eq!(host(&web), "192.0.2.1");
        dns.say(WEB, Found(&["192.0.2.1"], 5));
        dns.asked_times(WEB, 2 * round + 1).await;
        assert_eq!(host(&web), "192.0.2.1");
    }
}

#[tokio::test(start_paused = true)]
async fn silence_and_servfail_keep_the_last_addresses() {
    let dns = FakeDns::default();
    dns.say(WEB, Found(&["192.0.2.1"], 5));
    let web = watch_host(&dns.hosts(), WEB);
    web.current();
    seconds(1.0).await;
    for reply in [Silence, ServFail, Panic] {
        dns.say(WEB, reply);
        for _ in 0..100 {
            seconds(10.0).await;
            assert_eq!(host(&web), "192.0.2.1");
        }
    }
    dns.say(WEB, Found(&["192.0.2.2"], 5));
    seconds(75.0).await;
    assert_eq!(host(&web), "192.0.2.2", "the loop is alive whatever happened");
}

#[tokio::test(start_paused = true)]
async fn silence_and_servfail_keep_an_unknown_host_unknown() {
    let dns = FakeDns::default();
    let web = watch_host(&dns.hosts(), WEB);
    web.current();
    seconds(1.0).await;
    dns.say(WEB, ServFail);
    seconds(100.0).await;
    assert_eq!(host(&web), "unknown");
}

#[tokio::test(start_paused = true)]
async fn a_host_without_any_answer_is_pending_with_the_reason() {
    let dns = FakeDns::default();
    dns.say(WEB, ServFail);
    let web = watch_host(&dns.hosts(), WEB);
    web.current();
    seconds(1.0).await;
    assert_eq!(host(&web), "pending: DNS look-up of web.example.com: SERVFAIL");
    dns.say(WEB, Silence);
    seconds(25.0).await;
    assert_eq!(host(&web), "pending: DNS look-up of web.example.com: no answer within 10 s");
    dns.say(WEB, Found(&["192.0.2.1"], 5));
    seconds(75.0).await;
    assert_eq!(host(&web), "192.0.2.1");
}

#[tokio::test(start_paused = true)]
async fn a_name_server_that_is_down_is_asked_less_and_less_often() {
    let dns = FakeDns::default();
    dns.say(WEB, ServFail);
    let start = Instant::now();
    let web = watch_host(&dns.hosts(), WEB);
    web.current();
    seconds(3600.0).await;
    let asked = dns.asked(WEB, start);
    assert!(asked.windows(2).all(|pair| (5.0..=60.1).contains(&(pair[1] - pair[0]))), "{asked:?}");
    // Uniform between 5 s and 60 s; 5 s apart it would be 720 times.
    assert!((60..200).contains(&asked.len()), "{} times", asked.len());
}

#[tokio::test(start_paused = true)]
async fn all_names_of_a_host_share_one_loop_whatever_their_case() {
    let dns = FakeDns::default();
    dns.say(WEB, Found(&["192.0.2.1"], 60));
    let (start, hosts) = (Instant::now(), dns.hosts());
    let watches = [
        watch_inet(&hosts, "web.example.com:80"),
        watch_inet(&hosts, "web.example.com:81"),
        watch_inet(&hosts, "WEB.example.COM:82"),
    ];
    watches.iter().for_each(|watch| drop(watch.current()));
    seconds(1.0).await;
    let shown: Vec<_> = watches.iter().map(inet).collect();
    assert_eq!(shown, ["bound 192.0.2.1:80", "bound 192.0.2.1:81", "bound 192.0.2.1:82"]);
    assert_eq!(dns.asked(WEB, start).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_hundred_look_ups_are_under_way_at_once_and_the_others_wait() {
    let dns = FakeDns::default();
    let hosts = dns.hosts();
    let many = watch(&hosts, |hosts, run| {
        let mut all = Vec::new();
        for n in 0..250 {
            all.push(hosts.lookup(run, &format!("host-{n}")));
        }
        let missing = all.iter().filter(|reading| !matches!(reading, Reading::Ready(_))).count();
        Reading::Ready(missing)
    });
    many.current();
    seconds(1.0).await;
    assert_eq!(many.current().value().map(|missing| **missing), Some(0));
    assert_eq!(dns.0.lock().most_under_way, AT_ONCE);
}

#[tokio::test(start_paused = true)]
async fn a_host_that_is_lost_does_not_count_beside_one_that_is_found() {
    let dns = FakeDns::default();
    dns.say("here", Found(&["192.0.2.1"], 60));
    dns.say("down", ServFail);
    let hosts = dns.hosts();
    let watches = ["nowhere:80,here:81", "down:80 here:81", "here:81,here:99999"].map(|text| watch_inet(&hosts, text));
    watches.iter().for_each(|watch| drop(watch.current()));
    seconds(1.0).await;
    for watch in &watches {
        assert_eq!(inet(watch), "bound 192.0.2.1:81");
    }
}

#[tokio::test(start_paused = true)]
async fn without_any_address_the_first_lost_host_decides_and_an_open_question_before_all() {
    let dns = FakeDns::default();
    dns.say("here", Found(&["192.0.2.1"], 60));
    dns.say("down", ServFail);
    let hosts = dns.hosts();
    for (text, addr) in [
        ("nowhere:80,here:99999", "neg"),
        ("here:99999,nowhere:80", "failed port out of range:99999"),
        ("nowhere:80,down:80", "pending: DNS look-up of down: SERVFAIL"),
        ("nowhere:80,here:x", "failed For input string: \"x\""),
        ("  ,", "bound"),
        ("here:80:,here:81", "bound 192.0.2.1:80 192.0.2.1:81"),
        ("here:", "failed requirement failed: You must specify host and port in hosts: here:"),
        (":", "failed requirement failed: You must specify host and port in hosts: :"),
        (":*", "bound 127.0.0.1:0"),
    ] {
        let watch = watch_inet(&hosts, text);
        watch.current();
        seconds(1.0).await;
        assert_eq!(inet(&watch), addr, "{text}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_list_of_hosts_waits_for_the_first_answer_of_each() {
    let dns = FakeDns::default();
    dns.say("here", Found(&["192.0.2.1"], 60));
    dns.say("slow", Silence);
    let watch = watch_inet(&dns.hosts(), "here:80,slow:80");
    watch.current();
    seconds(9.9).await;
    assert_eq!(inet(&watch), "pending");
    seconds(0.2).await;
    assert_eq!(inet(&watch), "bound 192.0.2.1:80");
    dns.say("slow", Found(&["192.0.2.2"], 60));
    seconds(11.0).await;
    assert_eq!(inet(&watch), "bound 192.0.2.1:80 192.0.2.2:80");
}

#[tokio::test(start_paused = true)]
async fn a_fixed_host_keeps_its_first_addresses_and_one_without_any_is_asked_for_again() {
    let dns = FakeDns::default();
    dns.say(WEB, ServFail);
    let (start, hosts) = (Instant::now(), dns.hosts());
    let fixed = |text: &'static str| watch(&hosts, move |hosts, run| hosts.fixed_inet(run, text));
    let first = fixed("web.example.com:80");
    first.current();
    seconds(1.0).await;
    assert_eq!(inet(&first), "pending: DNS look-up of web.example.com: SERVFAIL");
    dns.say(WEB, Found(&["192.0.2.1"], 5));
    seconds(11.0).await;
    assert_eq!(inet(&first), "bound 192.0.2.1:80");
    let asked = dns.asked(WEB, start).len();
    dns.say(WEB, Found(&["192.0.2.2"], 5));
    drop(first);
    seconds(3600.0).await; // long enough for an entry without observers to go
    assert_eq!(inet(&fixed("WEB.example.com:81")), "bound 192.0.2.1:81");
    assert_eq!(dns.asked(WEB, start).len(), asked);
}
