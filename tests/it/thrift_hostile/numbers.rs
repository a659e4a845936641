//! Many polls: what one client may have, and what happens when all are answered, or go away, at once.

use std::path::Path;
use std::time::{Duration, Instant};

use super::bystander::bears;
use super::{ONE, port, server_with};
use crate::support::thrift::{REPLY, Value};
use crate::support::{Action, Frames, Rosterd, framed, get, metric, mux, wait_until};

const CONNECTIONS: usize = 1_000;
const NAMES: usize = 10;
const PARKED: &str = "rosterd_thrift_parked_polls";

/// Parks a poll for each name on each of many connections.
fn park(rosterd: &Rosterd) -> Vec<Frames> {
    let names: Vec<_> = (0..NAMES).map(|name| format!("n{name}")).collect();
    let tags = 2..2 + u32::try_from(NAMES).expect("a small number");
    let ask = |tag: u32, stamp: &[u8]| {
        let name = names[usize::try_from(tag - 2).expect("a small number")].as_str();
        mux::tdispatch(tag, &mux::bind("", stamp, &["svc", name], "default").write())
    };
    let mut sessions: Vec<_> = (0..CONNECTIONS).map(|_| mux::session(port(rosterd))).collect();
    for session in &mut sessions {
        tags.clone().for_each(|tag| session.send(&ask(tag, b"")));
        for _ in tags.clone() {
            let answer = session.frame();
            session.send(&ask(mux::tag(&answer), &mux::stamp(&mux::reply(&answer))));
        }
    }
    sessions
}

/// How many bindings sessions care for.
fn watched(rosterd: &Rosterd) -> u64 {
    let metrics: serde_json::Value =
        serde_json::from_slice(&get(rosterd.admin(), "/admin/metrics.json").body).expect("JSON");
    let mut all = metrics.as_object().expect("an object").iter();
    let (_, active) = all.find(|(name, _)| name.ends_with("/bindingcache/active")).expect("namerd's gauge");
    active.as_f64().expect("a number") as u64
}

#[test]
fn polls_without_number_are_refused_also_if_all_ask_for_the_same_name() {
    const MOST: u32 = 500;
    let keys = format!("limits: {{watchesPerConnection: {MOST}}}\n");
    let rosterd = server_with(&keys, [("web".to_owned(), ONE.to_owned())]);
    bears(&rosterd, || {
        let mut session = mux::session(port(&rosterd));
        let ask = |tag, stamp: &[u8]| mux::tdispatch(tag, &mux::bind("", stamp, &["svc", "web"], "default").write());
        session.send(&ask(2, b""));
        let stamp = mux::stamp(&mux::reply(&session.frame()));
        for tag in 2..2 + 2 * MOST {
            session.send(&ask(tag, &stamp));
        }
        // The first are parked, and stay so; the others hear why not.
        for tag in 2 + MOST..2 + 2 * MOST {
            let answer = session.frame();
            let reply = mux::reply(&answer);
            let reason = reply.body.field(1).and_then(|failure| failure.field(1));
            let expected = format!("this connection has {MOST} watches already (limits.watchesPerConnection)");
            assert_eq!((mux::tag(&answer), reason), (tag, Some(&Value::text(&expected))));
        }
        assert_eq!(metric(&rosterd, PARKED), u64::from(MOST));
    });
}

#[test]
fn a_change_for_ten_thousand_polls_answers_each_once_and_holds_no_ping_up() {
    let names = (0..NAMES).map(|name| format!("n{name}")).chain(["web".to_owned()]);
    let rosterd = server_with("", names.map(|name| (name, ONE.to_owned())));
    bears(&rosterd, || {
        let mut sessions = park(&rosterd);
        wait_until("all polls are parked", || metric(&rosterd, PARKED) == (CONNECTIONS * NAMES) as u64);
        let change = Action::Put { put: "default".to_owned(), dtab: "/svc => /#/io.l5d.fs/web".to_owned() };
        change.act(&rosterd, Path::new(""));
        for session in &mut sessions {
            let mut answered: Vec<_> = (0..NAMES)
                .map(|_| {
                    let answer = session.frame();
                    assert_eq!(mux::reply(&answer).kind, REPLY);
                    mux::tag(&answer)
                })
                .collect();
            answered.sort_unstable();
            assert!(answered.into_iter().eq(2..12));
        }
        assert_eq!(metric(&rosterd, PARKED), 0);
    });
}

#[test]
fn fleets_that_come_with_all_their_polls_at_once_hold_no_ping_up() {
    const FLEET: usize = 100;
    const EACH: u32 = 100;
    let names = (0..EACH).map(|name| (format!("n{name}"), ONE.to_owned()));
    let rosterd = server_with("", names.chain([("web".to_owned(), ONE.to_owned())]));
    let polls: Vec<u8> = (0..EACH)
        .flat_map(|name| {
            let bind = mux::bind("", b"", &["svc", &format!("n{name}")], "default");
            framed(&mux::tdispatch(2 + name, &bind.write()))
        })
        .collect();
    bears(&rosterd, || {
        for _ in 0..5 {
            let mut fleet: Vec<_> = (0..FLEET).map(|_| mux::session(port(&rosterd))).collect();
            fleet.iter_mut().for_each(|router| router.send_raw(&polls));
            for router in &mut fleet {
                (0..EACH).for_each(|_| assert_eq!(mux::reply(&router.frame()).kind, REPLY));
            }
        }
    });
}

#[test]
fn ten_thousand_parked_polls_that_are_cut_at_once_leave_nothing_behind() {
    let rosterd = server_with("", (0..NAMES).map(|name| (format!("n{name}"), ONE.to_owned())));
    let before = metric(&rosterd, PARKED);
    let cycle = || {
        let sessions = park(&rosterd);
        wait_until("all polls are parked", || metric(&rosterd, PARKED) == before + (CONNECTIONS * NAMES) as u64);
        assert_eq!(watched(&rosterd), NAMES as u64);
        drop(sessions);
        let cut = Instant::now();
        wait_until("all are given up", || metric(&rosterd, PARKED) == before);
        assert!(cut.elapsed() < Duration::from_secs(1), "given up after {:?}", cut.elapsed());
        wait_until("connections are released", || {
            metric(&rosterd, "rosterd_connections_open{server=\"interfaces\"}") == 0
        });
        assert_eq!(watched(&rosterd), 0);
        rosterd.resident()
    };
    // An allocator settles within a few rounds; what leaks grows in each.
    let mut after = vec![cycle()];
    while after.len() < 5 {
        after.push(cycle());
        if let [.., before, last] = after[..]
            && last < before + before / 20
        {
            return;
        }
    }
    panic!("each cycle adds more than 5 %: {after:?} bytes");
}
