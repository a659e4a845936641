//! One owner for each service. A service directory of another product looked first whether it knew an owner, asked the
//! backend if not, and wrote what it learnt; what happened in between made it ask too often, overwrite and lose. Each of
//! its faults is a test here.

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio::time::Instant;

use super::*;

const WEB: &str = "/srv/http/web";

fn web(ips: &[&str]) -> Value {
    endpoints(ips, &[("http", 80)])
}

#[tokio::test(start_paused = true)]
async fn redundant_collect() {
    let world = World::plain();
    world.api.put(ENDPOINTS, "web", web(&["10.0.0.1"]));
    let mut all: Vec<_> = (0..50).map(|n| world.addrs(if n % 2 == 0 { WEB } else { "/srv/http/web" })).collect();
    for addrs in &mut all {
        addrs.hears("[10.0.0.1:80]").await;
    }
    sleep(5).await;
    assert_eq!((world.api.count("limit="), world.api.count("watch=true")), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn init_blocking() {
    let world = World::plain();
    world.api.hang("%3Dstuck");
    let mut stuck: Vec<_> = (0..20).map(|n| world.addrs(&format!("/srv/p{n}/stuck"))).collect();
    for n in 0..10 {
        world.api.put(ENDPOINTS, &format!("web-{n}"), web(&["10.0.0.1"]));
        let took = world.addrs(&format!("/srv/http/web-{n}")).hears("[10.0.0.1:80]").await;
        assert!(took < Duration::from_millis(100), "{took:?}");
    }
    sleep(60).await;
    assert!(stuck.iter_mut().all(|addrs| addrs.log.is_empty()), "it is pending, and nothing else");
}

#[tokio::test(start_paused = true)]
async fn collect_failure_amplification() {
    let world = World::plain();
    world.api.refuse("%3Dweb", 503);
    let all: Vec<_> = (0..50).map(|_| world.addrs(WEB)).collect();
    sleep(60).await;
    assert!(world.api.asked().len() < 60, "one loop, however many wait: {}", world.api.asked().len());
    drop(all);
}

#[tokio::test(start_paused = true)]
async fn subscriber_notification() {
    let world = World::plain();
    world.api.put(ENDPOINTS, "web", web(&["10.0.0.1"]));
    let mut all: Vec<_> = (0..50).map(|_| world.addrs(WEB)).collect();
    sleep(1).await;
    for n in 0..100 {
        world.api.put(ENDPOINTS, "web", web(&[&format!("10.0.1.{n}")]));
        tokio::task::yield_now().await;
    }
    for addrs in &mut all {
        addrs.hears("[10.0.1.99:80]").await;
    }
}

/// The last address goes and its replacement comes, in every order and with anything in between.
#[tokio::test(start_paused = true)]
async fn add_remove() {
    let steps: [fn(&World<EndpointsNamer>); 5] = [
        |world| world.api.put(ENDPOINTS, "web", json!({ "subsets": [] })),
        |world| world.api.delete(ENDPOINTS, "web"),
        |world| world.api.end_streams(false),
        |world| world.api.compact(),
        |world| world.api.end_streams(true),
    ];
    for order in 0..steps.len().pow(3) {
        for pause in [0, 1, 300] {
            let world = World::plain();
            world.api.put(ENDPOINTS, "web", web(&["10.0.0.1"]));
            let mut addrs = world.addrs(WEB);
            addrs.hears("[10.0.0.1:80]").await;
            for place in 0..3 {
                steps[order / steps.len().pow(place) % steps.len()](&world);
                tokio::time::sleep(Duration::from_millis(pause)).await;
            }
            world.api.put(ENDPOINTS, "web", web(&["10.0.0.2"]));
            addrs.hears("[10.0.0.2:80]").await;
            addrs.hears_nothing_for(Duration::from_secs(20)).await;
        }
    }
}

/// Random changes, relists and failures: what is shown in the end is what there is, and everything that was shown had
/// been there, each later than the one before.
#[tokio::test(start_paused = true)]
async fn race_detector() {
    for seed in 0..1_000 {
        let mut random = StdRng::seed_from_u64(seed);
        let whole = random.random_bool(0.2);
        let world = World::plain();
        let _others =
            if whole { (0..25).map(|n| world.addrs(&format!("/srv/http/o{n}"))).collect() } else { Vec::new() };
        let mut history = vec!["neg".to_owned()];
        let mut addrs = world.addrs(WEB);
        for _ in 0..random.random_range(5..30) {
            match random.random_range(0..10) {
                0..4 => {
                    let n = history.len();
                    let ip = format!("10.1.{}.{}", n / 250, n % 250);
                    world.api.put(ENDPOINTS, "web", web(&[&ip]));
                    history.push(format!("[{ip}:80]"));
                }
                4 => {
                    world.api.delete(ENDPOINTS, "web");
                    history.push("neg".to_owned());
                }
                5 => world.api.end_streams(random.random_bool(0.5)),
                6 => world.api.compact(),
                7 => world.api.script("endpoints", [403, 429, 500, 410][random.random_range(0..4)], "{}"),
                8 => world.api.set_down(random.random_bool(0.5)),
                _ => tokio::time::sleep(Duration::from_millis(random.random_range(0..3_000))).await,
            }
            if random.random_bool(0.5) {
                addrs.until(None, Duration::from_millis(random.random_range(0..50))).await;
            }
        }
        world.api.set_down(false);
        let last = history.last().expect("one").clone();
        let began = Instant::now();
        assert!(addrs.until(Some(&last), Duration::from_secs(120)).await, "{seed}: {:?} of {history:?}", addrs.log);
        assert!(began.elapsed() < Duration::from_secs(60), "{seed}: {:?}", began.elapsed());
        let mut at = 0;
        for shown in &addrs.log {
            let found = history[at..].iter().position(|there| there == shown);
            at += found.unwrap_or_else(|| panic!("{seed}: {shown} in {:?} of {history:?}", addrs.log));
        }
    }
}

/// Slices and the service change together: the end is right whatever comes first.
#[tokio::test(start_paused = true)]
async fn with_pod_watcher() {
    for seed in 0..50 {
        let mut random = StdRng::seed_from_u64(seed);
        let world = World::of_source(Source::Slices);
        let mut addrs = world.addrs("/srv/80/web");
        for round in 0..10_u8 {
            let (ip, port) = (format!("10.0.{round}.1"), 8_000 + u16::from(round));
            let change_slice = || world.api.put(SLICES, "web-1", slice("web", &[(&ip, ready())], &[("http", port)]));
            let change_service = || {
                let target = if round % 2 == 0 { json!("http") } else { json!(port) };
                world.api.put(SERVICES, "web", service(json!([{ "port": 80, "targetPort": target }])));
            };
            if random.random_bool(0.5) {
                change_slice();
                tokio::time::sleep(Duration::from_millis(random.random_range(0..20))).await;
                change_service();
            } else {
                change_service();
                world.api.end_streams(random.random_bool(0.5));
                change_slice();
            }
        }
        addrs.hears("[10.0.9.1:8009]").await;
        addrs.hears_nothing_for(Duration::from_secs(10)).await;
    }
}
