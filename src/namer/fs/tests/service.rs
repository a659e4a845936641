//! What it costs, without notices, and what operators see.

use super::*;

#[tokio::test]
async fn addresses_that_change_do_not_touch_the_tree() {
    let disco = Disco::new();
    disco.write("web", "192.0.2.1 80\n");
    let router = Router::new(&disco.root());
    let tree = router.lookup("/web");
    tree.answer(Duration::from_secs(5)).await.expect("an answer");
    let (runs, _) = router.evaluators.counts();
    let names: Observer<Seat<What>> = router.namer.names.observe(Client::INTERNAL, &path("/web")).expect("room");
    let what = names.cell.snapshot();
    let What::File(content) = &**what.value().expect("read") else { panic!("a file") };
    let before = content.version();
    disco.replace("web", "192.0.2.2 80\n");
    while content.version() == before {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    tree.current();
    assert_eq!(router.evaluators.counts().0, runs, "a look-up depends on presence alone");
}

#[tokio::test]
async fn without_notices_the_poll_sees_every_change() {
    let disco = Disco::new();
    disco.write("web", "192.0.2.1 80\n");
    fs::create_dir(disco.at("sub")).expect("made");
    let router = Router::polling(&disco.root());
    let mut web = Told::by(router.addresses("/web"), show);
    let mut late = Told::by(router.addresses("/sub/late"), show);
    web.hears("[192.0.2.1:80]").await;
    late.hears("neg").await;
    disco.replace("web", "192.0.2.2 80\n");
    disco.write("sub/late", "192.0.2.3 80\n");
    web.hears("[192.0.2.2:80]").await;
    late.hears("[192.0.2.3:80]").await;
    // As long as before, and written within the same tick of the clock or not.
    for last in 4..9 {
        disco.write("web", &format!("192.0.2.{last} 80\n"));
        web.hears(&format!("[192.0.2.{last}:80]")).await;
    }
    fs::remove_file(disco.at("web")).expect("removed");
    web.hears("neg").await;
    assert!(!web.log.contains(&"[]".to_owned()), "{:?}", web.log);
}

#[tokio::test]
async fn the_state_page_shows_events_and_files_by_directory() {
    let disco = Disco::new();
    disco.write("web", "# comment\n192.0.2.1 80 * 2\n");
    fs::create_dir(disco.at("sub")).expect("made");
    disco.write("sub/bad", "no\n");
    let router = Router::new(&disco.root());
    assert_eq!(router.namer.state().expect("a page"), serde_json::json!({}), "nobody has asked yet");
    let mut web = Told::by(router.addresses("/web"), show);
    let bad = router.addresses("/sub/bad");
    bad.answer(Duration::from_secs(5)).await.expect("an answer");
    web.hears("[192.0.2.1:80*2.0]").await;
    disco.replace("web", "192.0.2.2 80\n");
    web.hears("[192.0.2.2:80]").await;
    let page = router.namer.state().expect("a page");
    assert_eq!(page["state"]["running"], true);
    assert_eq!(page["state"]["value"], serde_json::json!({"web": "192.0.2.2 80\n"}));
    for time in [&page["state"]["lastStartedAt"], &page["state"]["lastUpdatedAt"], &page["events"]["lastEventAt"]] {
        assert!(time.as_str().is_some_and(|time| time.ends_with(" +0000")), "{page}");
    }
    assert_eq!(page["events"]["lastEventKind"], "ENTRY_CREATE");
    assert_eq!(page["events"]["lastEventName"], "web");
    assert_eq!(page["sub"]["state"]["value"], serde_json::json!({"bad": "error: malformed address: no"}));
}

#[tokio::test]
async fn stale_since_is_told_of_a_file_whose_last_good_addresses_stay() {
    let disco = Disco::new();
    disco.write("web", "192.0.2.1 80\n");
    disco.write("never", "no\n");
    let router = Router::new(&disco.root());
    let (web, never) = (router.addresses("/web"), router.addresses("/never"));
    for watch in [&web, &never] {
        watch.answer(Duration::from_secs(5)).await.expect("an answer");
    }
    assert_eq!(router.namer.staleness(), Staleness::default(), "what never was good is not stale");
    disco.replace("web", "nonsense\n");
    let deadline = Instant::now() + Duration::from_secs(5);
    while router.namer.staleness().count == 0 {
        assert!(Instant::now() < deadline, "never noticed");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!(router.namer.staleness().since.is_some());
    let page = router.namer.state().expect("a page");
    let text = page["state"]["value"]["web"].as_str().expect("a text");
    let start = "error: malformed address: nonsense; the addresses known before stay, stale since 20";
    assert!(text.starts_with(start) && text.ends_with(" +0000"), "{text}");
    assert_eq!(show(&web.current().value().expect("the last good ones").clone()), "[192.0.2.1:80]");
    disco.replace("web", "192.0.2.1 80\n");
    while router.namer.staleness().count > 0 {
        assert!(Instant::now() < deadline, "never good again");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn a_watch_that_nobody_holds_is_given_back() {
    let disco = Disco::new();
    fs::create_dir(disco.at("sub")).expect("made");
    let router = Router::new(&disco.root());
    let seat = router.namer.desk.name(&path("/sub/x"));
    let cell = seat.cell.clone();
    while cell.snapshot().value().is_none() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(router.namer.desk.logs().len(), 1);
    drop(seat);
    while !router.namer.desk.logs().is_empty() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!(router.namer.desk.wanted(10).is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_files_of_a_hundred_addresses_are_read_and_followed() {
    let disco = Disco::new();
    let text = |file: usize, port: usize| -> String {
        (0..100).map(|n| format!("10.{}.{}.{n} {port} * 1.5\n", file / 256, file % 256)).collect()
    };
    for file in 0..1000 {
        disco.write(&format!("s{file}"), &text(file, 80));
    }
    let router = Router::new(&disco.root());
    let watches: Vec<_> = (0..1000).map(|file| router.addresses(&format!("/s{file}"))).collect();
    let count = |addr: &Addr, port: u16| match addr {
        Addr::Bound(set) => set.addrs().iter().filter(|address| address.port == port).count(),
        Addr::Neg | Addr::Failed(_) => 0,
    };
    for watch in &watches {
        let (addr, _) = watch.answer(Duration::from_secs(30)).await.expect("an answer");
        assert_eq!(count(&addr, 80), 100);
    }
    for file in 0..1000 {
        disco.replace(&format!("s{file}"), &text(file, 81));
    }
    let changed = Instant::now();
    for watch in &watches {
        while count(watch.current().value().expect("a value"), 81) != 100 {
            assert!(changed.elapsed() < Duration::from_secs(30), "not seen");
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }
    println!("1,000 files seen changed {:?} after the last write", changed.elapsed());
}
