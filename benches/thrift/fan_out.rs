//! One change, told to everybody who waits for it.

use std::time::{Duration, Instant};

use crate::Scale;
use crate::load::{Again, Clients, Pings, Plan, Request};
use crate::server::{Server, own_cpu};

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
    /// Of that, until the last watch was told; and what the clients took meanwhile.
    telling: Duration,
    hearing: Duration,
    deliveries: usize,
    slowest_ping: Duration,
}

/// A dtab change to 20 names, for which 1,000 clients wait.
pub fn shared(scale: &Scale) {
    dtab(scale, Names::Shared, 1_000, 20, Duration::from_millis(50));
}

/// A dtab change to 10 names, for which 9,000 clients wait.
pub fn shared_by_many(scale: &Scale) {
    dtab(scale, Names::Shared, 9_000, 10, Duration::from_millis(150));
}

/// As [`shared`], and every client waits for names of its own.
pub fn distinct(scale: &Scale) {
    dtab(scale, Names::Distinct, 1_000, 20, Duration::from_millis(50));
}

/// As [`shared_by_many`], and every client waits for names of its own.
pub fn distinct_by_many(scale: &Scale) {
    dtab(scale, Names::Distinct, 9_000, 10, Duration::from_millis(150));
}

fn dtab(scale: &Scale, names: Names, connections: usize, each: usize, limit: Duration) {
    let connections = scale.of(connections, connections / 50);
    let mut server = Server::start();
    let mut clients = park(&server, plans("touched", names, connections, each));
    for again in [Again::AfterAll, Again::AtOnce] {
        let changes = Changes::of_dtab(&mut server, &mut clients, connections * each, scale.of(20, 2), again);
        changes.report(&format!(
            "one dtab change, {connections} connections x {each} binds, {names:?} names, polls again {again:?}"
        ));
        if again == Again::AfterAll {
            changes.hold(scale, limit);
        }
    }
    clients.cut();
}

/// A change to one address set that everybody watches.
pub fn address(scale: &Scale) {
    let connections = scale.of(10_000, 100);
    let mut server = Server::start();
    server.write("web", "127.0.0.1 7000\n");
    let poll = Request::addr("/#/io.l5d.fs/web");
    let mut clients = park(&server, vec![vec![poll]; connections]);
    let mut port = 7_000;
    let mut change = |server: &mut Server| {
        port += 1;
        let began = server.write("web", &format!("127.0.0.1 {port}\n"));
        // The field of the port.
        (began, [&[8, 0, 2][..], &u32::to_be_bytes(port)].concat())
    };
    for again in [Again::AfterAll, Again::AtOnce] {
        let changes = Changes::new(&mut server, &mut clients, connections, scale.of(20, 2), again, &mut change);
        changes.report(&format!("one address set, {connections} connections, polls again {again:?}"));
        if again == Again::AfterAll {
            changes.hold(scale, Duration::from_millis(150));
        }
    }
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
        let changes = Changes::of_dtab(&mut server, &mut clients, touched * 20, scale.of(40, 2), Again::AtOnce);
        clients.cut();
        changes
    };
    let base = cost(connections, connections, Names::Shared);
    base.report(&format!("{} watches touched, as many not touched", connections * 20));
    let more = [
        ("twice the watches touched", cost(2 * connections, connections, Names::Shared), 2.5),
        ("twice the watches held", cost(connections, 3 * connections, Names::Shared), 1.3),
        ("a name of its own for each watch held", cost(connections, connections, Names::Distinct), 1.3),
    ];
    for (what, changes, most) in more {
        changes.report(what);
        let ratio = changes.cpu.as_secs_f64() / base.cpu.as_secs_f64().max(0.01);
        println!("{what}: {ratio:.2} times the processor time");
        scale.limit(&format!("processor time with {what}"), ratio, most);
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
    clients.ask(Instant::now());
    server.wait_until_parked(clients.watches());
    clients
}

// === impl Changes ===

impl Changes {
    fn of_dtab(server: &mut Server, clients: &mut Clients, touched: usize, rounds: usize, again: Again) -> Self {
        // Other ports than those before, and as many digits in each.
        let mut port = if again == Again::AtOnce { 7_000 } else { 8_000 };
        Self::new(server, clients, touched, rounds, again, &mut |server| {
            port += 1;
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
        again: Again,
        change: &mut dyn FnMut(&mut Server) -> (Instant, Vec<u8>),
    ) -> Self {
        let pings = Pings::start(server.port());
        let mut last = Vec::new();
        let [mut cpu, mut telling, mut hearing] = [Duration::ZERO; 3];
        // The first one warms up.
        for round in 0..=rounds {
            let (before, own_before) = (server.cpu(), own_cpu());
            let (began, marker) = change(server);
            let deliveries = clients.deliveries(touched, &marker, began, again);
            let (told, heard) = (server.cpu() - before, own_cpu() - own_before);
            clients.poll_again();
            server.stored();
            server.wait_until_parked(clients.watches());
            if round > 0 {
                last.push(deliveries.last());
                cpu += server.cpu() - before;
                telling += told;
                hearing += heard;
            }
        }
        let (_, slowest_ping) = pings.stop();
        last.sort();
        Self { last, cpu, telling, hearing, deliveries: touched * rounds, slowest_ping }
    }

    fn median(&self) -> Duration {
        self.last[self.last.len() / 2]
    }

    fn hold(&self, scale: &Scale, limit: Duration) {
        scale.limit("until the last watch is told", self.median(), limit);
        scale.limit("until a ping is answered", self.slowest_ping, Duration::from_millis(100));
    }

    fn report(&self, what: &str) {
        let worst = self.last[self.last.len() - 1];
        let per_core = self.deliveries as f64 / self.cpu.as_secs_f64().max(0.01);
        let count = u32::try_from(self.last.len()).expect("few changes");
        println!(
            "{what}: last watch told after {:.1?} in the median of {count} changes, {worst:.1?} at worst; until then the \
             server computed {:.1?} and the clients {:.1?} on average; {per_core:.0} deliveries a second and core, polls \
             that follow included; slowest ping {:.1?}",
            self.median(),
            self.telling / count,
            self.hearing / count,
            self.slowest_ping,
        );
    }
}
