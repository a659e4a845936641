//! Polls in great number: what one costs that waits, and what happens when all come or go at once.

use std::time::{Duration, Instant};

use crate::fan_out::{Names, park, plans};
use crate::load::{Clients, Pings, Plan, Request};
use crate::server::{Server, own_cpu};
use crate::{LIMIT, Scale};

/// Bytes of memory for a poll that waits.
pub fn memory(scale: &Scale) {
    let (connections, each) = (scale.of(1_000, 20), 40);
    for names in [Names::Shared, Names::Distinct] {
        let resident = |connections: usize, each: usize| {
            let server = Server::start();
            let clients = park(&server, plans("touched", names, connections, each));
            let resident = server.resident();
            clients.cut();
            resident as f64
        };
        let idle = resident(0, 0);
        let connected = (resident(connections, 0) - idle) / connections as f64;
        let (some, twice) = (resident(connections, each), resident(connections, 2 * each));
        let further = (twice - some) / (connections * each) as f64;
        let all = (some - idle) / (connections * each) as f64;
        println!(
            "{connections} connections, {names:?} names: {connected:.0} bytes for a connection, {further:.0} for each \
             further poll that waits, {all:.0} for one of {each} with its share of the connection",
        );
        if matches!(names, Names::Shared) {
            scale.limit("bytes for a poll that waits", further, 300.0);
            scale.limit("bytes for a poll that waits, with its share of the connection", all, 300.0);
        }
    }
}

/// A fleet that starts anew: connections and polls at once.
pub fn herd(scale: &Scale) {
    let (connections, names) = (scale.of(300, 20), scale.of(400, 40));
    let mut server = Server::start();
    for name in 0..names {
        server.write(&format!("name-{name}"), "127.0.0.1 7000\n");
    }
    server.put("touched", "/svc => /#/io.l5d.fs");
    server.stored();
    let plan: Plan = (0..names).map(|name| Request::bind("touched", &format!("/svc/name-{name}"))).collect();
    let pings = Pings::start(server.port());
    let (before, own_before) = (server.cpu(), own_cpu());
    let began = Instant::now();
    let mut clients = Clients::connect(server.port(), vec![plan; connections]);
    let connected = began.elapsed();
    let answered = clients.ask(began).last();
    let (telling, hearing) = (server.cpu() - before, own_cpu() - own_before);
    server.wait_until_parked(clients.watches());
    let (_, slowest_ping) = pings.stop();
    let watched = server.watched_names();
    println!(
        "{connections} connections x {names} polls at once: all answered after {answered:.0?}, of which {connected:.0?} \
         to connect; until then the server computed {telling:.0?} and the clients {hearing:.0?}; {watched} names watched \
         at the source; slowest ping {slowest_ping:.1?}"
    );
    assert_eq!(watched, names, "one watch at the source for each name");
    scale.limit("until all is answered", answered, Duration::from_secs(1));
    scale.limit("until a ping is answered", slowest_ping, Duration::from_millis(100));
    clients.cut();
}

/// All clients gone at once, and the same again.
pub fn cut(scale: &Scale) {
    let connections = scale.of(1_000, 20);
    // How an allocator's pages fall differs from one run to the next, by more than the limit.
    let mut growth: Vec<f64> = (0..scale.of(5, 1)).map(|_| growth_of_second_cut(scale, connections)).collect();
    growth.sort_by(f64::total_cmp);
    let shown: Vec<String> = growth.iter().map(|growth| format!("{:.1} %", 100.0 * growth)).collect();
    println!("the second time takes more memory, in {} servers: {}", growth.len(), shown.join(", "));
    scale.limit("growth of memory, median", growth[growth.len() / 2], 0.05);
}

fn growth_of_second_cut(scale: &Scale, connections: usize) -> f64 {
    let server = Server::start();
    let resident = [(); 2].map(|()| {
        let clients = park(&server, plans("touched", Names::Shared, connections, 10));
        clients.cut();
        let began = Instant::now();
        server.wait_until_parked(0);
        while server.metric("rosterd_thrift_sessions") > 0.0 {
            assert!(began.elapsed() < LIMIT, "sessions are left");
        }
        let gone = began.elapsed();
        println!("{} polls cut: neither they nor their sessions are left after {gone:.0?}", connections * 10);
        scale.limit("until the polls are forgotten", gone, Duration::from_secs(1));
        server.resident() as f64
    });
    resident[1] / resident[0] - 1.0
}
