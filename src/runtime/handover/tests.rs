//! Two processes in one.

use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio_util::task::AbortOnDropHandle;

use super::channel::{Broken, Channel};
use super::message::{MOST_BYTES, Message, VERSION};
use super::*;
use crate::config::SocketOptions;
use crate::runtime::{Connections, Drain, Endpoint, Listener, Phase, StateDir, Way, accept};

const PATIENCE: Duration = Duration::from_secs(10);

/// An old process that serves one port.
struct Old {
    folder: tempfile::TempDir,
    files: Files,
    drain: Drain,
    address: SocketAddr,
    _served: AbortOnDropHandle<()>,
    offered: Option<AbortOnDropHandle<()>>,
}

fn endpoint(address: SocketAddr) -> Endpoint {
    let options = SocketOptions::default();
    Endpoint { what: "test".to_owned(), key: "admin".to_owned(), address, options, tls: None }
}

fn of(path: &Path) -> Files {
    Files::of(StateDir::open(path))
}

/// Accepts and does nothing else.
fn served(listener: Listener, drain: &Drain) -> AbortOnDropHandle<()> {
    let drain = drain.clone();
    AbortOnDropHandle::new(tokio::spawn(async move {
        let stop = drain.accepts_until(Phase::Close);
        accept(listener, Connections::new(100), stop, |_, _| std::future::ready(())).await;
    }))
}

async fn old() -> Old {
    let folder = tempfile::tempdir().expect("a folder");
    let (files, drain) = (of(folder.path()), Drain::new());
    files.claim().await.expect("free");
    let listener = Listener::bind(endpoint("127.0.0.1:0".parse().expect("an address"))).expect("a free port");
    let (address, mut offer) = (listener.address(), Offer::default());
    offer.add(&listener);
    let offered = offer.keep(&files, drain.clone());
    assert!(offered.is_some());
    Old { _served: served(listener, &drain), folder, files, drain, address, offered }
}

impl Old {
    fn channel(&self) -> Channel {
        Channel::connect(&self.folder.path().join(SOCKET)).expect("it listens")
    }

    /// It has noticed that nothing came of a hand-over, and serves.
    async fn serves_on(&self) {
        let (_, inherited) = TakeOver::ask(&of(self.folder.path())).await.expect("asked").expect("it is there");
        assert!(!inherited.is_empty());
        assert_eq!(self.drain.way(), None);
        TcpStream::connect(self.address).await.expect("it accepts");
    }
}

#[tokio::test]
async fn a_new_process_gets_the_sockets_and_the_old_one_leaves_when_it_serves() {
    let old = old().await;
    let mode = std::fs::metadata(old.folder.path().join(SOCKET)).expect("it is there").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let files = of(old.folder.path());
    let (take_over, mut inherited) = TakeOver::ask(&files).await.expect("asked").expect("it is there");
    let listeners = crate::runtime::bind_all(vec![endpoint(old.address)], &mut inherited).expect("taken");
    assert_eq!(listeners[0].address(), old.address);
    inherited.finish().expect("nothing is left");
    take_over.ready().await.expect("go ahead");
    assert_eq!(old.drain.way(), None);
    let new_drain = Drain::new();
    let _new = served(listeners.into_iter().next().expect("one"), &new_drain);
    take_over.serving().await;
    assert_eq!(old.drain.way(), Some(Way::HandOver));
    TcpStream::connect(old.address).await.expect("the new one accepts");
    assert!(!files.are_ours(), "the old one ends its sessions");
    drop((old.files, old.offered));
    files.inherit().await;
}

#[tokio::test]
async fn a_new_process_that_vanishes_changes_nothing() {
    let old = old().await;
    drop(old.channel());
    old.serves_on().await;
    let hello = Message::Hello { version: VERSION };
    let channel = old.channel();
    channel.send(&hello, &[]).await.expect("sent");
    drop(channel);
    old.serves_on().await;
    let channel = old.channel();
    channel.send(&hello, &[]).await.expect("sent");
    let (listeners, sockets) = channel.receive(PATIENCE).await.expect("sockets");
    assert!(matches!(listeners, Message::Listeners { .. }) && sockets.len() == 1);
    channel.send(&Message::Ready, &[]).await.expect("sent");
    channel.expect(&Message::GoAhead, PATIENCE).await.expect("go ahead");
    drop((channel, sockets));
    old.serves_on().await;
}

#[tokio::test]
async fn who_speaks_another_version_or_nonsense_is_refused_and_changes_nothing() {
    let old = old().await;
    let channel = old.channel();
    channel.send(&Message::Hello { version: VERSION + 1 }, &[]).await.expect("sent");
    let refused = channel.receive(PATIENCE).await.expect_err("refused");
    assert!(matches!(&refused, Broken::Refused(reason) if reason.contains("version 1")), "{refused}");
    let channel = old.channel();
    channel.send(&Message::Serving, &[]).await.expect("sent");
    assert!(matches!(channel.receive(PATIENCE).await, Err(Broken::Gone)));
    let channel = old.channel();
    channel.send(&Message::Hello { version: VERSION }, &[]).await.expect("sent");
    channel.receive(PATIENCE).await.expect("sockets");
    channel.send(&Message::Serving, &[]).await.expect("sent, but it is too early");
    assert!(matches!(channel.receive(PATIENCE).await, Err(Broken::Gone)));
    old.serves_on().await;
}

#[tokio::test]
async fn messages_are_bounded() {
    let old = old().await;
    let channel = old.channel();
    let reason = "x".repeat(MOST_BYTES);
    let error = channel.send(&Message::Refused { reason }, &[]).await.expect_err("too long");
    assert!(matches!(error, Broken::Nonsense(_)), "{error}");
    let socket = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let many = vec![socket.as_fd(); 200];
    assert!(channel.send(&Message::Ready, &many).await.is_err());
}

#[tokio::test]
async fn where_nobody_is_there_is_nobody_to_take_over_from() {
    let folder = tempfile::tempdir().expect("a folder");
    let files = of(&folder.path().join("state"));
    assert!(TakeOver::ask(&files).await.expect("asked").is_none(), "no directory");
    let Old { folder, files, offered, drain, .. } = old().await;
    std::mem::forget(offered); // as a process that was killed leaves its socket
    drop(files);
    drop(drain);
    let socket = folder.path().join(SOCKET);
    assert!(socket.exists());
    std::fs::remove_file(&socket).expect("removed");
    std::os::unix::net::UnixListener::bind(&socket).expect("bound, and closed at once");
    assert!(TakeOver::ask(&of(folder.path())).await.expect("asked").is_none());
}

#[tokio::test]
async fn a_new_process_that_comes_too_late_does_not_serve_beside_the_old_one() {
    let old = old().await;
    let (take_over, _inherited) = TakeOver::ask(&of(old.folder.path())).await.expect("asked").expect("it is there");
    drop(old.offered); // it has given up waiting, and has its files
    let error = take_over.ready().await.expect_err("the old one serves");
    assert!(error.to_string().contains("serves on"), "{error}");
}

#[tokio::test]
async fn a_new_process_whose_predecessor_has_ended_serves() {
    let old = old().await;
    let (take_over, _inherited) = TakeOver::ask(&of(old.folder.path())).await.expect("asked").expect("it is there");
    drop((old.offered, old.files));
    take_over.ready().await.expect("nobody else serves");
}
