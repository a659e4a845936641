//! Two processes in one.

use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
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

/// Accepts, and says so.
fn served(listener: Listener, drain: &Drain) -> AbortOnDropHandle<()> {
    let drain = drain.clone();
    AbortOnDropHandle::new(tokio::spawn(async move {
        let greet = |mut conn: crate::runtime::Conn, _| async move {
            conn.write_all(b"x").await.ok();
        };
        accept(listener, Connections::new(100), &drain, Phase::Close, greet).await;
    }))
}

/// Somebody accepts there, and not only the kernel.
async fn is_served(address: SocketAddr) -> bool {
    let Ok(mut stream) = TcpStream::connect(address).await else { return false };
    matches!(tokio::time::timeout(PATIENCE, stream.read_u8()).await, Ok(Ok(b'x')))
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
        assert!(is_served(self.address).await);
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
    assert_eq!(inherited.finish(), Ok(Vec::new()), "nothing is left");
    take_over.ready().await.expect("go ahead");
    assert_eq!(old.drain.way(), None);
    let new_drain = Drain::new();
    let _new = served(listeners.into_iter().next().expect("one"), &new_drain);
    assert!(take_over.serving(Vec::new()).await.is_some());
    assert_eq!(old.drain.way(), Some(Way::HandOver));
    for _ in 0..20 {
        assert!(is_served(old.address).await, "the new one accepts");
    }
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
    let named = format!("version {VERSION}");
    assert!(matches!(&refused, Broken::Refused(reason) if reason.contains(&named)), "{refused}");
    let channel = old.channel();
    channel.send(&Message::Serving { left: Vec::new() }, &[]).await.expect("sent");
    assert!(matches!(channel.receive(PATIENCE).await, Err(Broken::Gone)));
    let channel = old.channel();
    channel.send(&Message::Hello { version: VERSION }, &[]).await.expect("sent");
    channel.receive(PATIENCE).await.expect("sockets");
    channel.send(&Message::Serving { left: Vec::new() }, &[]).await.expect("sent, but it is too early");
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
    drop((offered, files, drain));
    let socket = folder.path().join(SOCKET);
    assert!(socket.exists(), "as a process that was killed leaves it");
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

#[tokio::test]
async fn a_second_new_process_hears_at_once_who_was_first() {
    let old = old().await;
    let first = TakeOver::ask(&of(old.folder.path())).await.expect("asked").expect("it is there");
    let second = TakeOver::ask(&of(old.folder.path())).await.expect_err("refused").to_string();
    let expected = format!("it refuses: process {} is taking over since 0 s; it serves on", std::process::id());
    assert!(second.ends_with(&expected), "{second}");
    first.0.ready().await.expect("it was first");
    drop(first);
    old.serves_on().await;
}

#[tokio::test]
async fn who_has_closed_its_ports_is_in_nobodys_way() {
    let old = old().await;
    old.drain.enter(Phase::Close);
    while TcpStream::connect(old.address).await.is_ok() {
        tokio::task::yield_now().await;
    }
    let files = of(old.folder.path());
    assert!(TakeOver::ask(&files).await.expect("asked").is_none());
    files.claim().await.expect("it ends");
    assert!(files.are_to_be_ours());
    drop((old.offered, old.files));
    files.inherit().await;
}

#[tokio::test]
async fn if_the_new_process_dies_when_the_old_one_leaves_already_the_next_one_serves_at_once() {
    let old = old().await;
    let files = of(old.folder.path());
    let (take_over, mut inherited) = TakeOver::ask(&files).await.expect("asked").expect("it is there");
    let listeners = crate::runtime::bind_all(vec![endpoint(old.address)], &mut inherited).expect("taken");
    take_over.ready().await.expect("go ahead");
    let predecessor = take_over.serving(Vec::new()).await.expect("it leaves");
    let next = of(old.folder.path());
    assert!(next.claim().await.is_err(), "the new one serves");
    drop((predecessor, listeners, inherited, files)); // it has died
    assert!(TakeOver::ask(&next).await.expect("asked").is_none());
    next.claim().await.expect("nobody serves");
    while Listener::bind(endpoint(old.address)).is_err() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn what_a_new_process_has_not_taken_is_left_to_the_old_one() {
    let old = old().await;
    let files = of(old.folder.path());
    let (take_over, inherited) = TakeOver::ask(&files).await.expect("asked").expect("it is there");
    let left = inherited.finish().expect("the old one's");
    assert_eq!(left, ["admin"]);
    take_over.ready().await.expect("go ahead");
    // Nobody has the time to accept this one before the end.
    let mut waiting = TcpStream::connect(old.address).await.expect("the queue has room");
    take_over.serving(left).await.expect("it leaves");
    assert_eq!(waiting.read_u8().await.expect("answered"), b'x');
}

/// What the kernel says of a socket that listens: the length of its queue. None on a machine without `ss`.
fn queue(address: SocketAddr) -> Option<u32> {
    let table = std::process::Command::new("ss").args(["-Hltn"]).output().ok()?;
    let table = String::from_utf8(table.stdout).ok()?;
    let line = table.lines().find(|line| line.contains(&format!(":{} ", address.port())))?;
    line.split_whitespace().nth(2)?.parse().ok()
}

#[tokio::test]
async fn a_new_process_that_fails_leaves_the_queue_as_long_as_it_was() {
    let old = old().await;
    let Some(before) = queue(old.address) else { return };
    let (take_over, mut inherited) = TakeOver::ask(&of(old.folder.path())).await.expect("asked").expect("it is there");
    let mut wanted = endpoint(old.address);
    wanted.options.backlog = Some(1);
    let listener = crate::runtime::bind_all(vec![wanted], &mut inherited).expect("taken").pop().expect("one");
    assert_eq!(queue(old.address), Some(before));
    take_over.ready().await.expect("go ahead");
    listener.begin();
    assert_eq!(queue(old.address), Some(1));
}

#[tokio::test]
async fn files_go_from_one_process_to_the_next_in_order() {
    let old = old().await;
    let second = of(old.folder.path());
    let (take_over, _inherited) = TakeOver::ask(&second).await.expect("asked").expect("it is there");
    take_over.ready().await.expect("go ahead");
    let before_second = take_over.serving(Vec::new()).await.expect("it leaves");
    // The second one is taken over in turn before the first has ended.
    let mut offer = Offer::default();
    let listener = Listener::bind(endpoint("127.0.0.1:0".parse().expect("an address"))).expect("a free port");
    offer.add(&listener);
    let offered = offer.keep(&second, Drain::new());
    let third = of(old.folder.path());
    let (take_over, _inherited) = TakeOver::ask(&third).await.expect("asked").expect("it is there");
    take_over.ready().await.expect("go ahead");
    let before_third = take_over.serving(Vec::new()).await.expect("it leaves");
    let waiting = tokio::spawn({
        let third = third.clone();
        async move {
            before_third.ended().await;
            third.inherit().await;
        }
    });
    drop((old.offered, old.files));
    before_second.ended().await;
    second.inherit().await;
    assert!(!third.are_ours() && !waiting.is_finished());
    drop((offered, second));
    waiting.await.expect("no panic");
    assert!(third.are_ours());
}
