//! A store that is lost, denied, silent, or put back to what it was.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::{Kept, to_port};
use crate::support::{Agent, Consul, PATIENCE, get, unique};

#[test]
fn rosterd_starts_while_consul_is_down_and_needs_no_restart_when_it_comes() {
    let consul = Consul::start_with(&[]);
    let kept = Kept::start(&consul, "dtabs");
    std::thread::scope(|scope| {
        let asked = [scope.spawn(|| kept.ask("default")), scope.spawn(|| kept.send("POST", "mine", "", "/a=>/b"))];
        std::thread::sleep(Duration::from_secs(1));
        consul.restart(Agent::Server);
        let status = asked.map(|asked| asked.join().expect("answered").head.status());
        assert_eq!(status, [404, 204]);
    });
    assert_eq!(kept.list(), "[\"mine\"]");
    kept.wait_bound("default", None, PATIENCE);
}

#[test]
fn while_consul_is_gone_routes_stay_and_reads_and_writes_say_so_in_time() {
    let consul = Consul::start_with(&[Agent::Server]);
    let kept = Kept::start(&consul, "dtabs");
    assert_eq!(kept.put("default", &to_port(8001)), 204);
    kept.wait_bound("default", Some("8001"), PATIENCE);
    consul.kill(Agent::Server);
    std::thread::scope(|scope| {
        let asked = [
            scope.spawn(|| timed(|| kept.ask("default"))),
            scope.spawn(|| timed(|| kept.send("GET", "", "", ""))),
            scope.spawn(|| timed(|| kept.send("PUT", "default", "", "/a=>/b"))),
            scope.spawn(|| timed(|| kept.send("DELETE", "default", "", ""))),
        ];
        for asked in asked {
            let (answer, took) = asked.join().expect("answered");
            assert_eq!(answer.head.status(), 503, "{answer:?}");
            assert!(answer.text().contains("no connection to Consul at 127.0.0.1:"), "{answer:?}");
            assert!(took < Duration::from_secs(16), "{took:?}: {answer:?}");
        }
    });
    assert_eq!(kept.bound("default").as_deref(), Some("8001"));
    let ready = get(kept.rosterd.admin(), "/ready");
    assert!(ready.head.status() == 200 && ready.text().contains("degraded: storage: stale since"), "{ready:?}");
    consul.restart(Agent::Server);
    assert_eq!(kept.text("default"), Some(to_port(8001)), "nothing is done later that was refused");
    assert_eq!(kept.put("default", &to_port(8002)), 204);
    kept.wait_bound("default", Some("8002"), PATIENCE);
}

#[test]
fn what_a_silent_consul_did_not_take_is_not_done_when_it_wakes() {
    let consul = Consul::start_with(&[Agent::Server]);
    let kept = Kept::start(&consul, "dtabs");
    assert_eq!(kept.put("default", &to_port(8001)), 204);
    kept.wait_bound("default", Some("8001"), PATIENCE);
    consul.pause(Agent::Server);
    std::thread::scope(|scope| {
        let put = scope.spawn(|| timed(|| kept.send("PUT", "default", "", "/a=>/b")));
        let read = scope.spawn(|| timed(|| kept.ask("default")));
        assert_eq!(kept.bound("default").as_deref(), Some("8001"));
        let (put, took) = put.join().expect("answered");
        assert_eq!(put.head.status(), 503, "{put:?}");
        assert!(put.text().contains("nothing was written") && took < Duration::from_secs(16), "{took:?}: {put:?}");
        let (read, took) = read.join().expect("answered");
        assert!(read.head.status() == 503 && took < Duration::from_secs(12), "{took:?}: {read:?}");
    });
    consul.resume(Agent::Server);
    assert_eq!(kept.put("other", "/a=>/b"), 204);
    assert_eq!(kept.text("default"), Some(to_port(8001)));
    assert_eq!(kept.bound("default").as_deref(), Some("8001"));
}

#[test]
fn servers_that_are_lost_behind_an_agent_leave_routes_as_they_are_and_writes_are_refused_in_time() {
    let consul = Consul::start_with(&[Agent::Server, Agent::Client]);
    let kept = Kept::start_at(&consul, Agent::Client, "dtabs", "");
    assert_eq!(kept.put("default", &to_port(8001)), 204);
    kept.wait_bound("default", Some("8001"), PATIENCE);
    consul.kill(Agent::Server);
    std::thread::scope(|scope| {
        let put = scope.spawn(|| timed(|| kept.send("PUT", "default", "", "/a=>/b")));
        let read = scope.spawn(|| timed(|| kept.ask("default")));
        let (put, took) = put.join().expect("answered");
        assert!(put.head.status() == 503 && put.text().contains("nothing was written"), "{put:?}");
        assert!(took < Duration::from_secs(16), "{took:?}: {put:?}");
        let (read, took) = read.join().expect("answered");
        assert!(read.head.status() == 503 && took < Duration::from_secs(12), "{took:?}: {read:?}");
    });
    assert_eq!(kept.bound("default").as_deref(), Some("8001"));
    consul.restart(Agent::Server);
    let deadline = Instant::now() + 6 * PATIENCE;
    while kept.ask("default").head.status() != 200 {
        assert!(Instant::now() < deadline, "the agent does not find its server");
    }
    assert_eq!(kept.text("default"), Some(to_port(8001)), "nothing is done later that was refused");
    assert_eq!(kept.put("default", &to_port(8002)), 204);
    kept.wait_bound("default", Some("8002"), PATIENCE);
}

/// Writers go on while the agent is killed, stopped and paused. What was acknowledged is there; of what was not, nobody
/// was told that it is.
#[test]
fn acknowledged_writes_survive_whatever_happens_to_the_agent() {
    let consul = Consul::start_with(&[Agent::Server]);
    let kept = Kept::start(&consul, "dtabs");
    assert_eq!(kept.put("counter", "/count=>/0"), 204);
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..3)
            .map(|_| {
                scope.spawn(|| {
                    let (mut acknowledged, mut unknown) = (0, 0);
                    while !over.load(Ordering::Relaxed) {
                        let answer = kept.ask("counter");
                        if answer.head.status() != 200 {
                            assert_eq!(answer.head.status(), 503, "{answer:?}");
                            continue;
                        }
                        let etag = answer.head.header("etag").expect("an Etag");
                        let next = format!("/count=>/{}", count(answer.text()) + 1);
                        match kept.send("PUT", "counter", &format!("If-Match: {etag}\r\n"), &next) {
                            answer if answer.head.status() == 204 => acknowledged += 1,
                            answer if answer.text().contains("not known") => unknown += 1,
                            answer if answer.text().contains("The write is done") => unknown += 1,
                            answer => assert!([412, 503].contains(&answer.head.status()), "{answer:?}"),
                        }
                    }
                    (acknowledged, unknown)
                })
            })
            .collect();
        let pause = || std::thread::sleep(Duration::from_millis(700));
        for breaks in [Consul::kill, Consul::stop] {
            pause();
            breaks(&consul, Agent::Server);
            pause();
            consul.restart(Agent::Server);
        }
        pause();
        consul.pause(Agent::Server);
        pause();
        consul.resume(Agent::Server);
        pause();
        over.store(true, Ordering::Relaxed);
        let (mut acknowledged, mut unknown) = (0, 0);
        for writer in writers {
            let (some, doubtful) = writer.join().expect("a writer goes on");
            (acknowledged, unknown) = (acknowledged + some, unknown + doubtful);
        }
        let count = count(&kept.text("counter").expect("kept"));
        assert!(acknowledged > 20, "{acknowledged} writes");
        assert!((acknowledged..=acknowledged + unknown).contains(&count), "{count}, {acknowledged} + {unknown}");
    });
}

#[test]
fn without_rights_everything_is_refused_by_name_and_rights_are_used_as_soon_as_they_are_given() {
    let consul = Consul::start_with(&[Agent::Acl]);
    let token = consul.token("dtabs", "key_prefix \"elsewhere/\" { policy = \"write\" }");
    let kept = Kept::start_at(&consul, Agent::Acl, "dtabs", &format!("token: {token}"));
    let read = kept.ask("default");
    assert!(read.head.status() == 500 && read.text().contains("key:read"), "{read:?}");
    let list = kept.send("GET", "", "", "");
    assert!(list.head.status() == 500 && list.text().contains("key:read"), "{list:?}");
    let put = kept.send("PUT", "default", "", "/a=>/b");
    assert!(put.head.status() == 403 && put.text().contains("key:read"), "{put:?}");
    consul.set_rules("dtabs", "key_prefix \"dtabs/\" { policy = \"read\" }");
    assert_eq!((kept.read("default"), kept.list().as_str()), (None, "[]"));
    let put = kept.send("PUT", "default", "", "/a=>/b");
    assert!(put.head.status() == 403 && put.text().contains("key:write"), "{put:?}");
    consul.set_rules("dtabs", "key_prefix \"dtabs/\" { policy = \"write\" }");
    assert_eq!(kept.put("default", &to_port(8001)), 204);
    kept.wait_bound("default", Some("8001"), PATIENCE);
    assert_eq!(kept.list(), "[\"default\"]");
    let shown = format!("{}{}", kept.rosterd.output(), get(kept.rosterd.admin(), "/config.json").text());
    assert!(!shown.contains(&token), "a token is a secret");
}

/// A held poll is woken with what was there before, under the index of before.
#[test]
fn a_restored_snapshot_is_what_everybody_sees() {
    let consul = Consul::start_with(&[Agent::Server]);
    let both = [Kept::start(&consul, "dtabs"), Kept::start(&consul, "dtabs")];
    assert_eq!(both[0].put("default", &to_port(8001)), 204);
    let (_, old) = both[0].read("default").expect("stored");
    let snapshot = consul.snapshot();
    assert_eq!((both[0].put("default", &to_port(8002)), both[0].put("later", &to_port(8003))), (204, 204));
    for kept in &both {
        kept.wait_bound("default", Some("8002"), PATIENCE);
        kept.wait_bound("later", Some("8003"), PATIENCE);
    }
    std::thread::sleep(Duration::from_secs(2)); // polls are held again
    consul.restore(&snapshot);
    for kept in &both {
        assert_eq!(kept.read("default"), Some((to_port(8001), old.clone())));
        assert_eq!((kept.read("later"), kept.list().as_str()), (None, "[\"default\"]"));
    }
    for kept in &both {
        kept.wait_bound("default", Some("8001"), Duration::from_secs(3));
        kept.wait_bound("later", None, Duration::from_secs(3));
    }
    assert_eq!(both[1].update("default", &to_port(8004), &old), 204);
    both[0].wait_bound("default", Some("8004"), PATIENCE);
}

#[test]
fn a_store_that_lost_its_state_is_seen_as_it_is_and_its_lower_index_is_followed() {
    let consul = Consul::start_with(&[Agent::Server]);
    let kept = Kept::start(&consul, "dtabs");
    for n in 0..20 {
        assert_eq!(kept.put("default", &to_port(8001 + n)), 204);
    }
    kept.wait_bound("default", Some("8020"), PATIENCE);
    consul.stop(Agent::Server);
    consul.wipe(Agent::Server);
    consul.restart(Agent::Server);
    kept.wait_bound("default", None, PATIENCE);
    assert_eq!((kept.read("default"), kept.list().as_str()), (None, "[]"));
    consul.kv_put("dtabs/default", &to_port(9001));
    kept.wait_bound("default", Some("9001"), Duration::from_secs(2));
}

/// Consul does not wake who waits for a list of keys when a folder above them goes.
#[test]
fn a_folder_that_is_deleted_with_all_dtabs_in_it_is_missed_by_nobody() {
    let (consul, above) = (Consul::shared(), unique("above"));
    let kept = Kept::start(consul, &format!("{above}/dtabs"));
    assert_eq!((kept.put("default", &to_port(8001)), kept.put("other", "/a=>/b")), (204, 204));
    consul.kv_put(&format!("{above}/beside"), "x");
    kept.wait_bound("default", Some("8001"), PATIENCE);
    assert_eq!(kept.list(), "[\"default\",\"other\"]");
    std::thread::sleep(Duration::from_secs(1));
    consul.kv_delete(&above, true);
    assert_eq!((kept.list().as_str(), kept.read("default"), kept.delete("other")), ("[]", None, 404));
    kept.wait_bound("default", None, PATIENCE);
    assert_eq!((kept.post("default", &to_port(8002)), kept.list().as_str()), (204, "[\"default\"]"));
    kept.wait_bound("default", Some("8002"), PATIENCE);
}

fn count(text: &str) -> usize {
    text.trim().trim_start_matches("/count=>/").parse().expect("a number")
}

fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let began = Instant::now();
    (work(), began.elapsed())
}
