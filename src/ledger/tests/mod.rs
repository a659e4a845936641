//! The ledger's rules, with a clock that the test moves.

mod day;
mod kept;
mod peers;
mod rules;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use super::*;

const RULES: Rules = Rules { retry_max: Duration::from_secs(600), most_entries: 1_000 };
const HERE: Duration = Duration::ZERO;

/// A ledger at a moment.
struct Replica {
    book: Book,
    now: Moment,
}

impl Replica {
    fn new(peers: usize) -> Self {
        Self { book: Book::new(RULES, peers), now: Moment::START }
    }

    fn tell(&mut self, client: &str, event: Event) {
        if sessions_of(&self.book, client) == 0 && matches!(event, Event::Claimed(_)) {
            self.tell(client, Event::Opened);
        }
        // A moment ago: what is told next has happened on that session.
        let ago = if event == Event::Opened { Duration::from_secs(15) } else { HERE };
        self.book.apply(self.now.before(ago), ip(client), event);
    }

    fn all(&mut self, client: &str, events: impl IntoIterator<Item = Event>) {
        events.into_iter().for_each(|event| self.tell(client, event));
    }

    /// Time passes, as much as the ledger notices of it.
    fn pass(&mut self, seconds: u64) {
        for _ in 0..seconds.div_ceil(5) {
            self.now = self.now.after(Duration::from_secs(5.min(seconds)));
            self.book.turn(self.now);
        }
    }

    /// How many are late, unknown and stopped.
    fn missing(&self) -> [usize; 3] {
        let counts = self.book.counts(self.now);
        [counts.late, counts.unknown, counts.stopped]
    }
}

fn sessions_of(book: &Book, client: &str) -> u32 {
    book.known_client(ip(client)).map_or(0, |client| book.clients[client as usize].sessions)
}

fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

fn bind(path: &str) -> Arc<WatchKey> {
    Arc::new(WatchKey { asks: Asks::Bind, ns: "default".into(), dtab: "".into(), path: path.into() })
}

fn addr(path: &str) -> Arc<WatchKey> {
    Arc::new(WatchKey { asks: Asks::Addr, ns: "".into(), dtab: "".into(), path: path.into() })
}

fn silent(key: &Arc<WatchKey>) -> Event {
    Event::Silent { key: key.clone(), ago: Duration::from_secs(10), failed: false }
}

fn cut(key: &Arc<WatchKey>) -> Event {
    Event::Cut { key: key.clone(), ago: HERE }
}

fn released(key: &Arc<WatchKey>) -> Event {
    Event::Released { key: key.clone(), silent: None }
}

const A: &str = "192.0.2.1";
const B: &str = "192.0.2.2";
