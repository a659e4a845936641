//! One session a server.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;

use parking_lot::Mutex;

use super::session::{Making, Session};
use crate::client::{ClientMetrics, Connect, Server, Timings};

/// The sessions of one upstream. They close themselves once nobody has used them for a while.
pub(super) struct Sessions {
    making: Arc<Making>,
    open: Mutex<HashMap<SocketAddr, Arc<Session>>>,
}

impl Sessions {
    pub(super) fn new(upstream: Arc<str>, connect: Arc<dyn Connect>, timings: Timings, metrics: ClientMetrics) -> Self {
        let making = Arc::new(Making { upstream, connect, timings, metrics });
        Self { making, open: Mutex::default() }
    }

    /// The session with a server; a new one if there is none that takes calls. Those who are with an old one keep it
    /// until they let go of it.
    pub(super) fn open(&self, server: &Arc<Server>) -> Arc<Session> {
        let mut open = self.open.lock();
        if let Some(session) =
            open.get(&server.address()).filter(|session| session.is_usable() && session.is_with(server))
        {
            return session.clone();
        }
        open.retain(|_, session| !session.has_ended());
        let session = Arc::new(Session::open(&self.making, server));
        open.insert(server.address(), session.clone());
        session
    }
}
