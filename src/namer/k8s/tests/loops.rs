//! What the loop does with everything that goes wrong.

use super::*;

const WEB: &str = "/srv/http/web";

fn web(last: u8) -> Value {
    endpoints(&[&format!("10.0.0.{last}")], &[("http", 80)])
}

/// A name that is watched and has its first address.
async fn watched() -> (World<EndpointsNamer>, Told<Addr>) {
    let world = World::plain();
    world.api.put(ENDPOINTS, "web", web(1));
    let mut addrs = world.addrs(WEB);
    addrs.hears("[10.0.0.1:80]").await;
    sleep(1).await;
    (world, addrs)
}

#[tokio::test(start_paused = true)]
async fn a_list_is_followed_by_a_watch_from_its_version() {
    let (world, _addrs) = watched().await;
    let asked = world.api.asked();
    assert_eq!(asked[0], "/api/v1/namespaces/srv/endpoints?fieldSelector=metadata.name%3Dweb&limit=500");
    let watch = "/api/v1/namespaces/srv/endpoints?fieldSelector=metadata.name%3Dweb&watch=true&resourceVersion=1\
                 &allowWatchBookmarks=true&timeoutSeconds=";
    assert!(asked[1].starts_with(watch), "{asked:?}");
    assert_eq!((asked.len(), world.api.open()), (2, 1));
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_ends_or_breaks_goes_on_from_where_it_was_without_a_list() {
    let (world, mut addrs) = watched().await;
    for (round, properly) in (2..).zip([true, false, true, false]) {
        world.api.put(ENDPOINTS, "web", web(round));
        addrs.hears(&format!("[10.0.0.{round}:80]")).await;
        world.api.end_streams(properly);
        sleep(10).await;
    }
    assert_eq!((world.api.count("limit="), world.api.open()), (1, 1));
    world.api.end_streams(false);
    world.api.put(ENDPOINTS, "web", web(9));
    addrs.hears("[10.0.0.9:80]").await;
    assert_eq!(world.api.count("limit="), 1);
}

#[tokio::test(start_paused = true)]
async fn a_version_that_is_too_old_makes_a_list_and_readers_see_no_gap() {
    let (world, mut addrs) = watched().await;
    world.api.set_down(true);
    world.api.put(ENDPOINTS, "web", web(2));
    world.api.compact();
    sleep(3).await;
    world.api.set_down(false);
    addrs.hears("[10.0.0.2:80]").await;
    assert_eq!(addrs.log, ["[10.0.0.1:80]", "[10.0.0.2:80]"]);
    // As a status, too.
    world.api.script("watch=true", 410, "{}");
    world.api.end_streams(true);
    sleep(5).await;
    assert_eq!(world.api.count("limit="), 3);
}

#[tokio::test(start_paused = true)]
async fn what_was_deleted_while_nobody_watched_is_gone() {
    let (world, mut addrs) = watched().await;
    world.api.set_down(true);
    world.api.delete(ENDPOINTS, "web");
    world.api.compact();
    sleep(30).await;
    assert_eq!(addrs.log.len(), 1, "an outage takes nothing away");
    world.api.set_down(false);
    addrs.hears("neg").await;
}

#[tokio::test(start_paused = true)]
async fn other_errors_in_a_stream_make_a_list_and_unknown_events_nothing() {
    let (world, mut addrs) = watched().await;
    let error = r#"{"type":"ERROR","object":{"code":504,"message":"Too large resource version"}}"#;
    world.api.script("watch=true", 200, error);
    world.api.end_streams(true);
    sleep(5).await;
    assert_eq!((world.api.count("limit="), world.api.open()), (2, 1));
    let odd = r#"{"type":"NEWS","object":{}}{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"1"}}}"#;
    world.api.script("watch=true", 200, odd);
    world.api.end_streams(true);
    sleep(5).await;
    world.api.script("watch=true", 200, "{\"type\":\"ADDED\",\"object\":{\"metadata\":{}}} nonsense }");
    world.api.end_streams(true);
    sleep(10).await;
    world.api.put(ENDPOINTS, "web", web(2));
    addrs.hears("[10.0.0.2:80]").await;
    assert_eq!(addrs.log.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn an_object_that_cannot_be_read_leaves_what_is_known() {
    let (world, mut addrs) = watched().await;
    world.api.put(ENDPOINTS, "web", json!({ "subsets": [{ "ports": "none" }] }));
    sleep(700).await;
    assert!(world.api.count("limit=") >= 2, "it was also listed");
    addrs.hears_nothing_for(Duration::from_secs(1)).await;
    world.api.put(ENDPOINTS, "web", web(2));
    addrs.hears("[10.0.0.2:80]").await;
}

#[tokio::test(start_paused = true)]
async fn a_silent_stream_ends_in_our_own_time_and_everything_is_listed_anew_now_and_then() {
    let (world, mut addrs) = watched().await;
    world.api.set_silent(true);
    world.api.put(ENDPOINTS, "web", web(2));
    addrs.hears_nothing_for(Duration::from_secs(200)).await;
    // Even what no stream ever tells.
    assert!(addrs.until(Some("[10.0.0.2:80]"), Duration::from_secs(500)).await, "{:?}", addrs.log);
    assert!((2..=4).contains(&world.api.count("watch=true")), "{:?}", world.api.asked());
    assert_eq!(world.api.count("limit="), 2);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_has_too_much_to_do_is_left_alone_for_as_long_as_it_says() {
    let (world, _addrs) = watched().await;
    let before = world.api.asked().len();
    world.api.script("watch=true", 429, "{}");
    world.api.end_streams(true);
    sleep(6).await;
    assert_eq!(world.api.asked().len(), before + 1);
    sleep(3).await;
    assert_eq!((world.api.asked().len(), world.api.count("limit=")), (before + 2, 1));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_down_is_asked_seldom_and_one_that_ends_streams_at_once_too() {
    let (world, mut addrs) = watched().await;
    world.api.set_down(true);
    sleep(60).await;
    assert!(world.api.asked().len() < 60, "{}", world.api.asked().len());
    world.api.set_down(false);
    world.api.put(ENDPOINTS, "web", web(2));
    assert!(addrs.hears("[10.0.0.2:80]").await < Duration::from_secs(6));
    let before = world.api.asked().len();
    for _ in 0..1_000 {
        world.api.script("watch=true", 200, "");
    }
    world.api.end_streams(true);
    sleep(60).await;
    assert!(world.api.asked().len() - before < 60, "{}", world.api.asked().len() - before);
}

#[tokio::test(start_paused = true)]
async fn where_streams_do_not_come_through_there_are_lists_and_it_is_said() {
    let (world, mut addrs) = watched().await;
    for _ in 0..1_000 {
        world.api.script("watch=true", 200, "");
    }
    world.api.end_streams(true);
    sleep(60).await;
    world.api.put(ENDPOINTS, "web", web(2));
    assert!(addrs.hears("[10.0.0.2:80]").await < Duration::from_secs(15));
    let mut stale = 0;
    for _ in 0..60 {
        sleep(1).await;
        stale += world.namer.staleness().count;
    }
    assert!(stale > 10, "for most of the time nobody watches, and that shows: {stale}");
}

#[tokio::test(start_paused = true)]
async fn a_server_for_which_each_version_is_too_old_is_not_asked_for_lists_without_end() {
    let (world, mut addrs) = watched().await;
    let before = world.api.count("limit=");
    world.api.refuse("watch=true", 410);
    world.api.end_streams(true);
    sleep(600).await;
    let lists = world.api.count("limit=") - before;
    assert!((50..140).contains(&lists), "{lists}");
    world.api.refuse_nothing();
    world.api.put(ENDPOINTS, "web", web(2));
    addrs.hears("[10.0.0.2:80]").await;
}

#[tokio::test(start_paused = true)]
async fn a_list_that_is_due_and_fails_takes_no_watch_away() {
    for status in [500, 403] {
        let (world, mut addrs) = watched().await;
        world.api.refuse("limit=", status);
        sleep(700).await;
        let failed = world.api.count("limit=");
        assert!(failed >= 2, "it was due");
        world.api.put(ENDPOINTS, "web", web(2));
        assert!(addrs.hears("[10.0.0.2:80]").await < Duration::from_secs(3), "{status}");
        world.api.refuse_nothing();
        sleep(700).await;
        assert!(world.api.count("limit=") > failed, "{status}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_says_not_found_without_naming_the_object_says_nothing_of_it() {
    let world = World::plain();
    world.api.refuse("limit=", 403);
    world.api.put(ENDPOINTS, "web", web(1));
    let mut addrs = world.addrs(WEB);
    addrs.hears("[10.0.0.1:80]").await;
    // As a proxy with another prefix does, or a server that is coming up.
    world.api.refuse("endpoints/web", 404);
    world.api.compact();
    world.api.end_streams(true);
    sleep(60).await;
    addrs.hears_nothing_for(Duration::from_secs(1)).await;
    assert_eq!(world.namer.staleness().count, 1);
    world.api.refuse_nothing();
    world.api.refuse("limit=", 403);
    world.api.delete(ENDPOINTS, "web");
    addrs.hears("neg").await;
}

#[tokio::test(start_paused = true)]
async fn a_server_that_has_too_much_to_do_and_does_not_say_for_how_long_is_not_asked_for_lists() {
    let (world, mut addrs) = watched().await;
    for _ in 0..10 {
        world.api.script("watch=true", 429, "");
    }
    world.api.end_streams(true);
    world.api.put(ENDPOINTS, "web", web(2));
    assert!(addrs.until(Some("[10.0.0.2:80]"), Duration::from_secs(60)).await, "{:?}", addrs.log);
    assert_eq!((world.api.count("watch=true"), world.api.count("limit=")), (12, 1));
}

#[tokio::test(start_paused = true)]
async fn watches_that_have_ended_delay_nobody() {
    let world = World::plain();
    let mut all = many(&world, 600);
    sleep(10).await;
    all.truncate(30);
    assert_eq!(world.api.open(), 1);
    // Of the one that is left no failure costs more than a single watch's.
    for round in 0..10 {
        world.api.set_down(true);
        sleep(60).await;
        world.api.set_down(false);
        world.api.put(ENDPOINTS, "web-7", web(100 + round));
        assert!(all[7].hears(&format!("[10.0.0.{}:80]", 100 + round)).await <= Duration::from_secs(6));
    }
}

#[tokio::test(start_paused = true)]
async fn rights_that_are_taken_leave_what_is_known_and_are_noticed_when_they_are_back() {
    let (world, mut addrs) = watched().await;
    world.api.refuse("endpoints", 403);
    world.api.end_streams(false);
    sleep(30).await;
    addrs.hears_nothing_for(Duration::from_secs(1)).await;
    assert_eq!(world.namer.staleness().count, 1);
    world.api.put(ENDPOINTS, "web", web(2));
    world.api.refuse_nothing();
    addrs.hears("[10.0.0.2:80]").await;
    assert_eq!(world.namer.staleness().count, 0);
}

#[tokio::test(start_paused = true)]
async fn a_long_list_comes_in_pages_and_in_one_where_the_rest_is_no_longer_known() {
    let world = World::of_source(Source::Slices);
    for part in 0..1_200_u32 {
        let ip = format!("10.1.{}.{}", part / 250, part % 250);
        world.api.put(SLICES, &format!("web-{part}"), slice("web", &[(&ip, ready())], &[("http", 80)]));
    }
    assert_eq!(world.set(WEB).await.len(), 1_200);
    assert_eq!(world.api.count("continue="), 2);
    world.api.script("continue=", 410, "{}");
    world.api.compact();
    world.api.end_streams(false);
    sleep(10).await;
    let asked = world.api.asked();
    let whole = asked.iter().filter(|target| !target.contains("limit=") && !target.contains("watch=")).count();
    assert_eq!((whole, world.api.open()), (1, 1), "{asked:?}");
}

#[tokio::test(start_paused = true)]
async fn a_watch_ends_when_nobody_asks_any_more() {
    let (world, addrs) = watched().await;
    drop(addrs);
    sleep(700).await;
    assert_eq!(world.api.open(), 0);
    let before = world.api.asked().len();
    sleep(1_000).await;
    assert_eq!(world.api.asked().len(), before);
}

// === many names of a namespace ===

fn many(world: &World<EndpointsNamer>, count: usize) -> Vec<Told<Addr>> {
    for n in 0..count {
        world.api.put(ENDPOINTS, &format!("web-{n}"), web(n as u8));
    }
    (0..count).map(|n| world.addrs(&format!("/srv/http/web-{n}"))).collect()
}

#[tokio::test(start_paused = true)]
async fn many_names_of_a_namespace_share_one_watch_of_it() {
    let world = World::plain();
    let mut all = many(&world, 30);
    sleep(10).await;
    assert_eq!(world.api.open(), 1);
    for (n, addrs) in all.iter_mut().enumerate() {
        addrs.hears(&format!("[10.0.0.{n}:80]")).await;
        world.api.put(ENDPOINTS, &format!("web-{n}"), web(200));
        addrs.hears("[10.0.0.200:80]").await;
    }
    world.addrs("/srv/http/none").hears("neg").await;
    world.api.delete(ENDPOINTS, "web-3");
    all[3].hears("neg").await;
    world.api.end_streams(false);
    world.api.compact();
    world.api.delete(ENDPOINTS, "web-4");
    all[4].hears("neg").await;
    sleep(1).await;
    assert_eq!(world.api.open(), 1);
}

#[tokio::test(start_paused = true)]
async fn where_the_namespace_may_not_be_watched_each_name_keeps_its_own() {
    let world = World::plain();
    world.api.refuse("endpoints?limit=", 403);
    let mut all = many(&world, 30);
    sleep(10).await;
    assert_eq!((world.api.open(), world.api.count("endpoints?limit=")), (30, 1));
    for (n, addrs) in all.iter_mut().enumerate() {
        addrs.hears(&format!("[10.0.0.{n}:80]")).await;
        assert_eq!(addrs.log.len(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn rights_on_the_whole_namespace_that_are_taken_give_each_name_its_own_watch_again() {
    let world = World::plain();
    let mut all = many(&world, 30);
    for (n, addrs) in all.iter_mut().enumerate() {
        addrs.hears(&format!("[10.0.0.{n}:80]")).await;
    }
    sleep(10).await;
    world.api.refuse("endpoints?limit=", 403);
    world.api.compact();
    world.api.end_streams(false);
    sleep(60).await;
    assert_eq!(world.api.open(), 30);
    world.api.put(ENDPOINTS, "web-7", web(77));
    all[7].hears("[10.0.0.77:80]").await;
    for (n, addrs) in all.iter_mut().enumerate() {
        addrs.hears_nothing_for(Duration::from_millis(1)).await;
        assert_eq!(addrs.log.len(), if n == 7 { 2 } else { 1 });
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_refuses_before_and_after_it_was_down_does_not_refuse_for_long() {
    let world = World::plain();
    let mut all = many(&world, 30);
    sleep(10).await;
    all[7].hears("[10.0.0.7:80]").await;
    world.api.script("endpoints?", 403, "{}");
    world.api.end_streams(true);
    tokio::time::sleep(Duration::from_millis(20)).await;
    world.api.set_down(true);
    sleep(40).await;
    for _ in 0..2 {
        world.api.script("endpoints?", 403, "{}");
    }
    world.api.set_down(false);
    sleep(30).await;
    assert_eq!(world.api.open(), 1, "the whole is still watched");
    world.api.put(ENDPOINTS, "web-7", web(77));
    all[7].hears("[10.0.0.77:80]").await;
}

#[tokio::test(start_paused = true)]
async fn more_watches_than_a_proxy_carries_take_turns() {
    let api = FakeApi::default();
    let namer = Arc::new(EndpointsNamer::new(&api.server_with(5), rules()));
    let world = World { api, namer, evaluators: Evaluators::start(1) };
    world.api.refuse("endpoints?limit=", 403);
    let mut all = many(&world, 15);
    sleep(10).await;
    assert_eq!(world.api.open(), 5);
    for (n, addrs) in all.iter_mut().enumerate() {
        world.api.put(ENDPOINTS, &format!("web-{n}"), web(100));
        addrs.hears("[10.0.0.100:80]").await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_refusal_that_does_not_last_leaves_the_watch_of_the_namespace_in_charge() {
    let world = World::plain();
    let mut all = many(&world, 30);
    sleep(10).await;
    assert_eq!(world.api.open(), 1);
    let alone = world.api.count("endpoints?fieldSelector=");
    world.api.refuse("endpoints?limit=", 403);
    world.api.compact();
    world.api.end_streams(false);
    sleep(12).await;
    world.api.refuse_nothing();
    sleep(20).await;
    assert_eq!((world.api.open(), world.api.count("endpoints?fieldSelector=")), (1, alone));
    world.api.put(ENDPOINTS, "web-7", web(77));
    all[7].hears("[10.0.0.77:80]").await;
}

#[tokio::test(start_paused = true)]
async fn rights_on_the_whole_namespace_that_are_given_are_noticed_without_a_new_name() {
    let world = World::plain();
    world.api.refuse("endpoints?limit=", 403);
    let _all = many(&world, 30);
    sleep(10).await;
    assert_eq!(world.api.open(), 30);
    world.api.refuse_nothing();
    sleep(1_400).await;
    assert_eq!(world.api.open(), 1);
}
