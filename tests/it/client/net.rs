//! A network without sockets, for stories with a clock of their own.

use std::collections::HashMap;
use std::future::pending;
use std::net::SocketAddr;
use std::sync::Arc;

use async_trait::async_trait;
use parking_lot::Mutex;
use rosterd::client::{Connect, Failure, Reason, Stream};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, ReadHalf, WriteHalf, duplex, split};
use tokio::sync::watch;
use tokio::task::AbortHandle;

use super::namerd::Namerd;

/// Hosts by address. Cloning shares it.
#[derive(Clone, Default)]
pub struct Net(Arc<Mutex<HashMap<SocketAddr, Host>>>);

struct Host {
    namerd: Namerd,
    link: Link,
    /// Whether bytes pass.
    open: watch::Sender<bool>,
    connections: Vec<AbortHandle>,
    dialled: usize,
}

/// What happens to those who connect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Link {
    Up,
    Refuses,
    /// Nobody answers.
    BlackHole,
}

impl Net {
    /// Puts a server at an address, which is up.
    pub fn host(&self, address: &str, namerd: &Namerd) {
        let host = Host {
            namerd: namerd.clone(),
            link: Link::Up,
            open: watch::Sender::new(true),
            connections: Vec::new(),
            dialled: 0,
        };
        self.0.lock().insert(address.parse().expect("an address"), host);
    }

    fn at<T>(&self, address: &str, act: impl FnOnce(&mut Host) -> T) -> T {
        act(self.0.lock().get_mut(&address.parse().expect("an address")).expect("a host"))
    }

    pub fn link(&self, address: &str, link: Link) {
        self.at(address, |host| host.link = link);
    }

    /// Closes the connections that are open.
    pub fn cut(&self, address: &str) {
        self.at(address, |host| host.connections.drain(..).for_each(|connection| connection.abort()));
    }

    /// Bytes pass, or wait.
    pub fn pass(&self, address: &str, open: bool) {
        self.at(address, |host| host.open.send_replace(open));
    }

    /// How often somebody connected, or tried to.
    pub fn dialled(&self, address: &str) -> usize {
        self.at(address, |host| host.dialled)
    }
}

#[async_trait]
impl Connect for Net {
    async fn connect(&self, address: SocketAddr) -> Result<Box<dyn Stream>, Failure> {
        let link = {
            let mut hosts = self.0.lock();
            let host = hosts.get_mut(&address).ok_or_else(|| Failure::new(Reason::Connect, "no route to host"))?;
            host.dialled += 1;
            host.link
        };
        match link {
            Link::Refuses => return Err(Failure::new(Reason::Connect, "connection refused")),
            Link::BlackHole => pending().await,
            Link::Up => {}
        }
        let (near, router) = duplex(64 << 10);
        let (behind, far) = duplex(64 << 10);
        let mut hosts = self.0.lock();
        let host = hosts.get_mut(&address).expect("it was there a moment ago");
        let (namerd, open) = (host.namerd.clone(), host.open.subscribe());
        let carried = tokio::spawn(async move {
            let (near_in, near_out) = split(router);
            let (far_in, far_out) = split(behind);
            tokio::select! {
                () = carry(near_in, far_out, open.clone()) => {}
                () = carry(far_in, near_out, open) => {}
                () = namerd.serve(far) => {}
            }
        });
        host.connections.push(carried.abort_handle());
        Ok(Box::new(near))
    }
}

async fn carry(mut from: ReadHalf<DuplexStream>, mut to: WriteHalf<DuplexStream>, mut open: watch::Receiver<bool>) {
    let mut buffer = [0; 4096];
    loop {
        let Ok(read @ 1..) = from.read(&mut buffer).await else { return };
        if open.wait_for(|open| *open).await.is_err() || to.write_all(&buffer[..read]).await.is_err() {
            return;
        }
    }
}
