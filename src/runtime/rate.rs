//! `limits.requestsPerSecondPerClient`.

use std::collections::HashMap;
use std::net::IpAddr;

use parking_lot::Mutex;
use tokio::time::Instant;

/// Fewer clients than this are never looked through for those that can be forgotten.
const FEW: usize = 1_024;

/// Lets each client make so many requests a second; one that was silent may make them all at once.
#[derive(Debug)]
pub struct RateLimit {
    per_second: f64,
    clients: Mutex<Clients>,
}

#[derive(Debug)]
struct Clients {
    left: HashMap<IpAddr, Left>,
    /// With so many clients those that have all their requests again are forgotten: they are as good as new.
    look_through: usize,
}

/// What a client had left, and when.
#[derive(Debug)]
struct Left {
    requests: f64,
    at: Instant,
}

// === impl RateLimit ===

impl RateLimit {
    /// At most `per_second` requests of each client.
    pub fn new(per_second: u32) -> Self {
        let clients = Clients { left: HashMap::new(), look_through: FEW };
        Self { per_second: per_second.into(), clients: Mutex::new(clients) }
    }

    /// Whether `client` may make a request now, which counts then.
    pub fn admits(&self, client: IpAddr) -> bool {
        let now = Instant::now();
        let mut clients = self.clients.lock();
        if clients.left.len() >= clients.look_through {
            clients.left.retain(|_, left| self.refilled(left, now) < self.per_second);
            clients.look_through = FEW.max(clients.left.len() * 2);
        }
        let left = clients.left.entry(client).or_insert(Left { requests: self.per_second, at: now });
        *left = Left { requests: self.refilled(left, now), at: now };
        let admitted = left.requests >= 1.0;
        if admitted {
            left.requests -= 1.0;
        }
        admitted
    }

    fn refilled(&self, left: &Left, now: Instant) -> f64 {
        let since = now.saturating_duration_since(left.at).as_secs_f64();
        (left.requests + since * self.per_second).min(self.per_second)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn client(n: u32) -> IpAddr {
        IpAddr::V4(n.into())
    }

    fn admitted(limit: &RateLimit, client: IpAddr) -> usize {
        (0..100).take_while(|_| limit.admits(client)).count()
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_gets_so_many_a_second_and_takes_nothing_from_others() {
        let limit = RateLimit::new(10);
        assert_eq!(admitted(&limit, client(1)), 10);
        assert_eq!(admitted(&limit, client(2)), 10);
        tokio::time::advance(Duration::from_millis(500)).await;
        assert_eq!(admitted(&limit, client(1)), 5);
        tokio::time::advance(Duration::from_secs(3_600)).await;
        assert_eq!(admitted(&limit, client(1)), 10, "silence is not saved up for longer than a second");
    }

    #[tokio::test(start_paused = true)]
    async fn clients_that_come_once_are_forgotten() {
        let limit = RateLimit::new(10);
        for n in 0..100_000 {
            assert!(limit.admits(client(n)));
            if n % 100 == 0 {
                tokio::time::advance(Duration::from_millis(100)).await;
            }
        }
        assert!(limit.clients.lock().left.len() <= 2 * FEW);
    }
}
