//! Stories about streams.

use std::collections::BTreeSet;

use super::*;
use crate::name::{Addr, AddrSet};

#[tokio::test]
async fn a_bind_watch_waits_for_addresses_and_is_silent_about_later_ones() {
    let world = World::new();
    world.fixture.presence(&path("/web")).publish(true);
    let mut watching = world.watch("/api/1/bind/default?path=/svc/web&watch=true").await;
    assert_eq!(watching.head, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
    watching.silent().await;
    world.fixture.serve("/web", &["127.0.0.1:80"]);
    assert_eq!(watching.line().await, leaf("web", "/", 80));
    world.fixture.serve("/web", &["127.0.0.1:81"]);
    watching.silent().await;
    world.fixture.remove("/web");
    assert_eq!(watching.line().await, NEG);
    world.fixture.serve("/web", &["127.0.0.1:82"]);
    assert_eq!(watching.line().await, leaf("web", "/", 82));
}

#[tokio::test]
async fn an_addr_watch_sends_every_new_set_and_nothing_twice() {
    let world = World::new();
    let mut watching = world.watch("/api/1/addr/default?path=%2F%23%2Ft%2Fweb&watch=t").await;
    watching.silent().await;
    for port in [1, 2] {
        world.fixture.serve("/web", &[&format!("127.0.0.1:{port}")]);
        assert_eq!(watching.line().await, bound(port));
    }
    world.fixture.serve("/web", &["127.0.0.1:2"]);
    watching.silent().await;
    world.fixture.remove("/web");
    assert_eq!(watching.line().await, NEG);
}

#[tokio::test]
async fn a_resolve_watch_follows_both_the_tree_and_the_addresses() {
    let world = World::new();
    world.fixture.serve("/web", &["127.0.0.1:1"]);
    world.fixture.serve("/api", &["127.0.0.1:9"]);
    let mut watching = world.watch("/api/1/resolve/default?path=/svc/web&watch=1").await;
    assert!(watching.head.contains("\r\nContent-Type: application/json\r\n"));
    assert_eq!(watching.line().await, bound(1));
    world.fixture.serve("/web", &["127.0.0.1:2"]);
    assert_eq!(watching.line().await, bound(2));
    world.put("default", "/svc/web=>/#/t/api").await;
    assert_eq!(watching.line().await, bound(9));
    world.request("DELETE", "/api/1/dtabs/default", "", "").await;
    assert_eq!(watching.line().await, NEG);
}

#[tokio::test]
async fn a_dtab_watch_shows_every_write_and_no_deletion() {
    let world = World::new();
    let mut watching = world.watch("/api/1/dtabs/new?watch=1").await;
    assert!(!watching.head.contains("Etag"), "{}", watching.head);
    watching.silent().await;
    for dtab in ["/a=>/b", "/a=>/b", "/a=>/c"] {
        assert_eq!(world.put("new", dtab).await.status, 204);
        let dst = &dtab[4..];
        assert_eq!(watching.line().await, format!("[{{\"prefix\":\"/a\",\"dst\":\"{dst}\"}}]\n"));
    }
    world.request("DELETE", "/api/1/dtabs/new", "", "").await;
    watching.silent().await;
    world.put("new", "/z=>/y").await;
    assert_eq!(watching.line().await, "[{\"prefix\":\"/z\",\"dst\":\"/y\"}]\n");
}

#[tokio::test]
async fn list_and_bound_names_are_watched_too() {
    let world = World::new();
    let mut list = world.watch("/api/1/dtabs?watch=TRUE").await;
    let mut names = world.watch("/api/1/bound-names?watch=1").await;
    assert_eq!(list.line().await, "[\"default\"]\n");
    names.silent().await;
    world.fixture.names.publish(BTreeSet::new());
    assert_eq!(names.line().await, "[]\n");
    world.fixture.names.publish([path("/web"), path("/a")].into());
    assert_eq!(names.line().await, "[\"/#/t/a\",\"/#/t/web\"]\n");
    assert_eq!(world.get("/api/1/bound-names").await.body, "[\"/#/t/a\",\"/#/t/web\"]\n");
    world.put("a", "").await;
    assert_eq!(list.line().await, "[\"a\",\"default\"]\n");
}

#[tokio::test]
async fn a_slow_watcher_gets_the_newest_value_and_costs_no_memory() {
    let world = World::new();
    world.fixture.serve("/web", &[]);
    let mut watching = world.watch("/api/1/addr/default?path=/#/t/web&watch=1").await;
    let id = path("/web");
    let set = |generation: u16| {
        let addrs =
            (0..2000).map(|host| SocketAddr::from(([10, 0, (host / 250) as u8, (host % 250) as u8], generation)));
        Addr::Bound(AddrSet::new(addrs.map(Into::into).collect(), crate::name::Meta::default()))
    };
    // Far more than any socket buffer holds: the writer must have been skipping.
    for generation in 1..=500 {
        world.fixture.address(&id).publish(set(generation));
        tokio::task::yield_now().await;
    }
    let mut lines = 0;
    loop {
        lines += 1;
        if watching.line().await.contains("\"port\":500,") {
            break;
        }
    }
    assert!(lines < 400, "{lines} of 500 values were sent to a client that was not reading");
}

#[tokio::test]
async fn a_drain_ends_watches_with_their_last_chunk() {
    let world = World::new();
    world.fixture.serve("/web", &["127.0.0.1:80"]);
    let mut watching = world.watch("/api/1/bind/default?path=/svc/web&watch=1").await;
    watching.line().await;
    world.drain.enter(Phase::EndStreams);
    assert_eq!(within(watching.until("0\r\n\r\n")).await.as_deref(), Some("0\r\n\r\n"));
    within(world.drain.finished(Phase::EndStreams)).await;
    assert_eq!(world.get("/api/1/bind/default?path=/svc/web").await.status, 200, "still served");
    world.drain.enter(Phase::Close);
    within(async { while TcpStream::connect(world.address).await.is_ok() {} }).await;
}
