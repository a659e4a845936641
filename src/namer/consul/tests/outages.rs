//! What clients see while something is wrong with Consul.

use super::*;
use crate::store::Unanswered;

const ONE: &str = "[192.0.2.1:80*1.0]";

#[tokio::test(start_paused = true)]
async fn a_service_that_was_never_answered_for_is_pending_and_says_why() {
    for step in [
        Step::Refuse,
        Step::Reply(500, Vec::new(), "No cluster leader".to_owned()),
        Step::Reply(403, Vec::new(), "ACL not found".to_owned()),
        Step::Reply(200, Vec::new(), "[]".to_owned()),
        Step::Reply(200, vec![("x-consul-index", "5".to_owned())], "<html>".to_owned()),
    ] {
        let world = World::plain();
        for _ in 0..100 {
            world.consul.script(step.clone());
        }
        let watch = world.watch(Lookup(world.namer.clone(), path("/dc1/web")));
        let answer = watch.answer(Duration::from_secs(3)).await.expect_err("nothing is known");
        let Unanswered::TimedOut { reason: Some(reason), .. } = answer else { panic!("{step:?}: {answer:?}") };
        assert!(reason.contains("consul.test:8500"), "{reason}");
        let wait = world.watch(Lookup(world.namer.clone(), path("/dc1/web")));
        assert!(wait.current().value().is_none());
        assert!(world.counts()[4] >= 2, "it is tried again");
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_that_goes_wrong_takes_addresses_away() {
    let mut steps = vec![
        Step::Refuse,
        Step::Reply(500, Vec::new(), "rpc error: code = Unavailable".to_owned()),
        Step::Reply(500, vec![("x-consul-index", "1".to_owned())], "No path to datacenter".to_owned()),
        Step::Reply(403, Vec::new(), "Permission denied".to_owned()),
        Step::Reply(404, Vec::new(), "no such page".to_owned()),
        Step::Reply(429, Vec::new(), "Too Many Requests".to_owned()),
        Step::Reply(301, vec![("location", "/x".to_owned())], String::new()),
        Step::Reply(200, Vec::new(), "[]".to_owned()),
        Step::Hold,
    ];
    steps.push(Step::Reply(
        200,
        vec![("x-consul-index", "9".to_owned()), ("x-consul-results-filtered-by-acls", "true".to_owned())],
        "[]".to_owned(),
    ));
    for step in steps {
        let world = World::new(Rules { set_host: true, ..Rules::default() });
        world.consul.set(WEB, &list(&[node("192.0.2.1", 80)]), 1);
        let (mut tree, mut addrs) = (world.tree("/dc1/web"), world.addrs("/dc1/web"));
        tree.hears("/dc1/web and /").await;
        addrs.hears(ONE).await;
        for _ in 0..3 {
            world.consul.interrupt(step.clone());
            sleep(2).await;
        }
        assert_eq!((tree.log.len(), addrs.log.len()), (1, 1), "{step:?}: {:?}", addrs.log);
        world.consul.set(WEB, &list(&[node("192.0.2.2", 80)]), 1_000);
        let most = Duration::from_secs(if matches!(step, Step::Hold) { 330 } else { 10 });
        assert!(addrs.until(Some("[192.0.2.2:80*1.0]"), most).await, "{step:?}: {:?}", addrs.log);
    }
}

#[tokio::test(start_paused = true)]
async fn no_path_to_the_datacenter_is_neg_for_a_name_that_never_resolved_and_goes_on_being_tried() {
    let world = World::plain();
    for _ in 0..4 {
        world.consul.script(Step::Reply(
            500,
            vec![("x-consul-index", "1".to_owned())],
            "No path to datacenter".to_owned(),
        ));
    }
    let (mut tree, mut addrs) = (world.tree("/dc9/web"), world.addrs("/dc9/web"));
    assert!(tree.hears("neg").await < Duration::from_millis(100));
    addrs.hears("neg").await;
    assert_eq!(world.namer.staleness().count, 0, "it is an answer");
    world.consul.set(WEB, &list(&[node("192.0.2.1", 80), node("192.0.2.2", 80)]), 1);
    tree.hears("/dc9/web and /").await;
    addrs.hears("[192.0.2.1:80*1.0 192.0.2.2:80*1.0]").await;
    world.consul.interrupt(Step::Reply(500, Vec::new(), "No path to datacenter".to_owned()));
    sleep(60).await;
    assert_eq!(tree.log, ["neg", "/dc9/web and /"]);
}

#[tokio::test(start_paused = true)]
async fn an_outage_is_followed_by_a_real_empty_list() {
    let world = World::plain();
    world.consul.set(WEB, &list(&[node("192.0.2.1", 80)]), 1);
    let mut tree = world.tree("/dc1/web");
    tree.hears("/dc1/web and /").await;
    world.consul.interrupt(Step::Refuse);
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert_eq!(world.namer.staleness().count, 1);
    world.consul.set(WEB, "[]", 3);
    tree.hears("neg").await;
    assert_eq!(world.namer.staleness().count, 0);
}

#[tokio::test(start_paused = true)]
async fn an_empty_list_during_an_election_is_confirmed_first() {
    let world = World::plain();
    world.consul.set(WEB, &list(&[node("192.0.2.1", 80)]), 1);
    let mut tree = world.tree("/dc1/web");
    tree.hears("/dc1/web and /").await;
    sleep(1).await;
    let headers = vec![("x-consul-index", "2".to_owned()), ("x-consul-knownleader", "false".to_owned())];
    world.consul.interrupt(Step::Reply(200, headers, "[]".to_owned()));
    sleep(10).await;
    assert_eq!(tree.log, ["/dc1/web and /"]);
    assert!(world.asked().contains(&format!("{WEB}?consistent=true&dc=dc1")), "{:?}", world.asked());
}

/// As of a server that lags behind while there is no leader, or that was restarted: what has just been registered is missing.
#[tokio::test(start_paused = true)]
async fn a_name_that_is_empty_the_first_time_is_neg_only_when_a_majority_says_so() {
    let world = World::plain();
    world.consul.set(WEB, &list(&[node("192.0.2.1", 80)]), 2);
    let headers = vec![("x-consul-index", "1".to_owned()), ("x-consul-knownleader", "false".to_owned())];
    world.consul.script(Step::Reply(200, headers, "[]".to_owned()));
    let mut tree = world.tree("/dc1/web");
    tree.hears("/dc1/web and /").await;
    assert_eq!(tree.log, ["/dc1/web and /"], "it was never neg");
    assert_eq!(world.asked()[..2], [format!("{WEB}?dc=dc1"), format!("{WEB}?consistent=true&dc=dc1")]);
}

#[tokio::test(start_paused = true)]
async fn a_list_from_which_everything_was_filtered_is_a_denial_and_recovers_when_it_is_granted() {
    let world = World::plain();
    let filtered = vec![("x-consul-index", "9".to_owned()), ("x-consul-results-filtered-by-acls", "true".to_owned())];
    for _ in 0..20 {
        world.consul.script(Step::Reply(200, filtered.clone(), "[]".to_owned()));
    }
    world.consul.set(WEB, &list(&[node("192.0.2.1", 80)]), 9);
    let watch = world.watch(Lookup(world.namer.clone(), path("/dc1/web")));
    let waits = watch.answer(Duration::from_millis(100)).await.expect_err("nothing is known").to_string();
    assert!(waits.contains("service:read and node:read"), "{waits}");
    assert!(world.tree("/dc1/web").until(Some("/dc1/web and /"), Duration::from_secs(120)).await, "it is granted");
    let before = world.asked().len();
    sleep(1).await;
    assert!(world.asked().len() <= before + 1);
}

#[tokio::test(start_paused = true)]
async fn an_empty_list_of_the_streaming_backend_is_confirmed_since_that_does_not_say_what_it_left_out() {
    let world = World::plain();
    world.consul.set(WEB, &list(&[node("192.0.2.1", 80)]), 1);
    let mut tree = world.tree("/dc1/web");
    tree.hears("/dc1/web and /").await;
    sleep(1).await;
    let header = |name, value: &str| (name, value.to_owned());
    let streaming = || {
        let headers = vec![header("x-consul-index", "2"), header("x-consul-query-backend", "streaming")];
        Step::Reply(200, headers, "[]".to_owned())
    };
    let filtered = vec![header("x-consul-index", "2"), header("x-consul-results-filtered-by-acls", "true")];
    world.consul.script(Step::Reply(200, filtered, "[]".to_owned()));
    world.consul.interrupt(streaming());
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(world.namer.staleness().count, 1, "the token may not read it any more");
    sleep(10).await;
    assert_eq!(tree.log, ["/dc1/web and /"]);
    world.consul.set(WEB, "[]", 3);
    assert!(tree.hears("neg").await < Duration::from_millis(200));
}
