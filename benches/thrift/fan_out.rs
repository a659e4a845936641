//! One change, told to everybody who waits for it.

use std::time::{Duration, Instant};

use crate::load::{Clients, Pings, Plan, Request};
use crate::server::Server;
use crate::{LIMIT, Scale};

/// Whose names the clients ask for.
#[derive(Clone, Copy, Debug)]
pub enum Names {
    /// All ask for the same ones.
    Shared,
    /// No two ask for the same one.
    Distinct,
}

/// What several changes did, one after the other.
struct Changes {
    /// From sending a change until the last watch was told.
    last: Vec<Duration>,
    /// Processor time of the server for all of them, polls that follow included.
    cpu: Duration,
    deliveries: usize,
    slowest_ping: Duration,
}

/// A dtab change to names that all clients share.
pub fn shared(scale: &Scale) {
    dtab(scale, Names::Shared);
}

/// A dtab change to as many names as there are watches.
pub fn distinct(scale: &Scale) {
    dtab(scale, Names::Distinct);
}

fn dtab(scale: &Scale, names: Names) {
    for (connections, each, limit) in [(1_000, 20, 50), (9_000, 10, 150)] {
        let connections = scale.of(connections, connections / 50);
        let mut server = Server::start();
        let mut clients = park(&server, plans("touched", names, connections, each));
        let changes = Changes::of_dtab(&mut server, &mut clients, connections * each, scale.of(20, 2));
        changes.report(&format!("one dtab change, {connections} connections x {each} binds, {names:?} names"));
        scale.limit("the last watch", changes.median(), Duration::from_millis(limit));
        scale.limit("the slowest ping", changes.slowest_ping, Duration::from_millis(100));
        clients.cut();
    }
}

/// A change to one address set that everybody watches.
pub fn address(scale: &Scale) {
    let connections = scale.of(10_000, 100);
    let mut server = Server::start();
    server.write("web", "127.0.0.1 7000\n");
    let poll = Request::addr("/#/io.l5d.fs/web");
    let mut clients = park(&server, vec![vec![poll]; connections]);
    let changes = Changes::new(&mut server, &mut clients, connections, scale.of(20, 2), |server, round| {
        let port = 7_001 + round;
        let began = server.write("web", &format!("127.0.0.1 {port}\n"));
        // The field of the port.
        (began, [&[8, 0, 2][..], &(port as u32).to_be_bytes()].concat())
    });
    changes.report(&format!("one address set, {connections} connections"));
    scale.limit("the last watch", changes.median(), Duration::from_millis(150));
    scale.limit("the slowest ping", changes.slowest_ping, Duration::from_millis(100));
    clients.cut();
}

/// What a change costs when there is twice as much of something. Only the watches that it touches may count.
pub fn growth(scale: &Scale) {
    let connections = scale.of(500, 10);
    let cost = |touched: usize, other: usize, names: Names| {
        let mut server = Server::start();
        let mut all = plans("touched", Names::Shared, touched, 20);
        all.extend(plans("other", names, other, 20));
        let mut clients = park(&server, all);
        let changes = Changes::of_dtab(&mut server, &mut clients, touched * 20, scale.of(40, 2));
        clients.cut();
        changes
    };
    let base = cost(connections, connections, Names::Shared);
    base.report(&format!("{} watches touched, as many not touched", connections * 20));
    let more = [
        ("twice the watches touched", cost(2 * connections, connections, Names::Shared), 1.5..3.0),
        ("twice the watches held", cost(connections, 3 * connections, Names::Shared), 0.0..1.3),
        ("a name of its own for each watch held", cost(connections, connections, Names::Distinct), 0.0..1.3),
    ];
    for (what, changes, expected) in more {
        changes.report(what);
        let ratio = changes.cpu.as_secs_f64() / base.cpu.as_secs_f64();
        println!("{what}: {ratio:.2} times the processor time");
        assert!(!scale.full || expected.contains(&ratio), "{what}: {ratio:.2} is not in {expected:?}");
    }
}

/// Polls of so many clients, each for so many names in a namespace.
pub fn plans(namespace: &str, names: Names, connections: usize, each: usize) -> Vec<Plan> {
    let shared: Plan = (0..each).map(|name| Request::bind(namespace, &format!("/svc/name-{name}"))).collect();
    let plan = |connection: usize| match names {
        Names::Shared => shared.clone(),
        Names::Distinct => {
            (0..each).map(|name| Request::bind(namespace, &format!("/svc/name-{connection}-{name}"))).collect()
        }
    };
    (0..connections).map(plan).collect()
}

/// Clients whose polls all wait.
pub fn park(server: &Server, plans: Vec<Plan>) -> Clients {
    let mut clients = Clients::connect(server.port(), plans);
    clients.ask(Instant::now(), LIMIT);
    server.wait_until_parked(clients.watches());
    clients
}

// === impl Changes ===

impl Changes {
    fn of_dtab(server: &mut Server, clients: &mut Clients, touched: usize, rounds: usize) -> Self {
        Self::new(server, clients, touched, rounds, |server, round| {
            let port = 7_001 + round;
            let began = server.put("touched", &format!("/svc => /$/inet/127.0.0.1/{port}"));
            // An element of the bound id.
            (began, [&[0, 0, 0, 4][..], port.to_string().as_bytes()].concat())
        })
    }

    /// `change` says when it was made, and by what its answers are known.
    fn new(
        server: &mut Server,
        clients: &mut Clients,
        touched: usize,
        rounds: usize,
        change: impl Fn(&mut Server, usize) -> (Instant, Vec<u8>),
    ) -> Self {
        let pings = Pings::start(server.port());
        let mut last = Vec::new();
        let mut cpu = Duration::ZERO;
        // The first one warms up.
        for round in 0..=rounds {
            let before = server.cpu();
            let (began, marker) = change(server, round);
            let deliveries = clients.deliveries(touched, &marker, began, LIMIT);
            server.stored();
            server.wait_until_parked(clients.watches());
            if round > 0 {
                last.push(deliveries.last());
                cpu += server.cpu() - before;
            }
        }
        let (_, slowest_ping) = pings.stop();
        last.sort();
        Self { last, cpu, deliveries: touched * rounds, slowest_ping }
    }

    fn median(&self) -> Duration {
        self.last[self.last.len() / 2]
    }

    fn report(&self, what: &str) {
        let worst = self.last[self.last.len() - 1];
        let per_core = self.deliveries as f64 / self.cpu.as_secs_f64().max(0.01);
        println!(
            "{what}: last watch told after {:.1?} in the median of {} changes, {worst:.1?} at worst; {per_core:.0} \
             deliveries a second and core; slowest ping {:.1?}",
            self.median(),
            self.last.len(),
            self.slowest_ping,
        );
    }
}
