//! Many names, many clients, and the connections that an agent grants.

use std::time::{Duration, Instant};

use serde_json::json;

use super::{Follow, rosterd, shown};
use crate::support::{PATIENCE, Reply, StandIn, get};

fn entry(n: usize) -> serde_json::Value {
    json!({ "Node": "n", "ServiceID": "s", "Address": format!("10.0.{}.{}", n / 250, n % 250 + 1), "ServicePort": 80 })
}

#[test]
fn a_hundred_clients_with_fifty_names_each_are_fifty_polls() {
    let agent = StandIn::start();
    agent.set_default(Reply::ok(7, &json!([entry(1)]).to_string()));
    let rosterd = rosterd(agent.port(), "");
    // A hundred connections, fifty names on each, with a residual path of the client's own.
    std::thread::scope(|scope| {
        for client in 0..100 {
            let rosterd = &rosterd;
            scope.spawn(move || {
                let mut wire = crate::support::Wire::open(rosterd.http());
                for n in 0..50 {
                    let target = format!("/api/1/bind/default?path=/svc/s{n}/client/{client}");
                    wire.send(format!("GET {target} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes());
                    assert_eq!(wire.answer(false).head.status(), 200);
                }
            });
        }
    });
    let deadline = Instant::now() + PATIENCE;
    while agent.held() < 50 {
        assert!(Instant::now() < deadline, "{} polls are open", agent.held());
        std::thread::sleep(Duration::from_millis(20));
    }
    std::thread::sleep(Duration::from_secs(1));
    assert_eq!(agent.held(), 50);
    assert_eq!(agent.asked().len(), 100, "each name is asked for once, and then waited on");
    assert!(agent.most_connections() <= 66, "fifty, and few that were free: {}", agent.most_connections());
}

#[test]
fn a_thousand_names_need_no_more_connections_than_a_stock_agent_grants() {
    let agent = StandIn::start();
    agent.limit(200);
    let path = |n: usize| format!("/v1/catalog/service/s{n}");
    for n in 0..1_000 {
        agent.set(&path(n), Reply::ok(7, &json!([entry(n)]).to_string()));
    }
    let rosterd = rosterd(agent.port(), "");
    let names: Vec<usize> = (0..1_000).collect();
    let began = Instant::now();
    std::thread::scope(|scope| {
        for part in names.chunks(50) {
            let rosterd = &rosterd;
            scope.spawn(move || {
                for n in part {
                    let answer = get(rosterd.http(), &format!("/api/1/addr/default?path=/%23/io.l5d.consul/dc1/s{n}"));
                    assert_eq!(shown(&serde_json::from_str(answer.text()).expect("JSON")).len(), 1);
                }
            });
        }
    });
    println!("1,000 names are known after {:?}", began.elapsed());
    rosterd.wait_for_output("watches take turns now");
    // Every name is followed, in turns.
    std::thread::sleep(Duration::from_secs(3));
    let mut watched: Vec<Follow> =
        [3, 333, 666, 999].iter().map(|n| Follow::addr(&rosterd, &format!("/#/io.l5d.consul/dc1/s{n}"))).collect();
    for addrs in &mut watched {
        addrs.until("the first", |value| shown(value).len() == 1);
    }
    for n in 0..1_000 {
        agent.set(&path(n), Reply::ok(8, &json!([entry(n), entry(5_000)]).to_string()));
    }
    let began = Instant::now();
    for addrs in &mut watched {
        addrs.until("the second", |value| shown(value).len() == 2);
    }
    println!("a change of all is seen after {:?}", began.elapsed());
    assert!(began.elapsed() < Duration::from_secs(20), "1,000 names, 150 places, a second each: {:?}", began.elapsed());
    assert!(agent.most_connections() <= 200, "{}", agent.most_connections());
    // Whoever's poll is over leaves its connection to the next one.
    assert_eq!(agent.accepted(), agent.most_connections(), "none was made anew");
    assert!(!rosterd.output().contains("(429)"), "none was refused: {}", rosterd.output());
}

#[test]
fn a_refused_connection_is_back_pressure_and_takes_nothing_away() {
    let agent = StandIn::start();
    agent.set_default(Reply::ok(7, &json!([entry(1)]).to_string()));
    agent.limit(1);
    // Whoever comes first keeps the only connection.
    agent.silence(Some(""));
    let rosterd = rosterd(agent.port(), "");
    let mut watched: Vec<Follow> =
        (0..5).map(|n| Follow::addr(&rosterd, &format!("/#/io.l5d.consul/dc1/s{n}"))).collect();
    rosterd.wait_for_output("raise limits.http_max_conns_per_client");
    agent.limit(200);
    agent.silence(None);
    for addrs in &mut watched {
        addrs.until("an address", |value| shown(value).len() == 1);
    }
    let asked = agent.asked().len();
    assert!(asked < 60, "it was not asked in a loop: {asked}");
}
