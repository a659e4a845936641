//! Files that are written, replaced and removed.

use super::*;

#[tokio::test]
async fn a_file_replaced_by_rename_is_seen_at_once_and_whole() {
    let disco = Disco::new();
    disco.replace("web", "192.0.2.1 80\n");
    let router = Router::new(&disco.root());
    let mut web = Told::by(router.addresses("/web"), show);
    web.hears("[192.0.2.1:80]").await;
    for round in 2..20 {
        disco.replace("web", &format!("192.0.2.{round} 80\n"));
        let took = web.hears(&format!("[192.0.2.{round}:80]")).await;
        assert!(took < Duration::from_secs(1), "round {round} took {took:?}");
    }
    assert_eq!(web.log.len(), 19, "{:?}", web.log);
}

#[tokio::test]
async fn writing_in_place_shows_no_empty_set_and_no_half_of_a_file() {
    let disco = Disco::new();
    disco.write("web", "192.0.2.1 80\n");
    let router = Router::new(&disco.root());
    let mut web = Told::by(router.addresses("/web"), show);
    web.hears("[192.0.2.1:80]").await;
    for round in 2..12 {
        let mut file = fs::File::create(disco.at("web")).expect("truncated");
        tokio::time::sleep(Duration::from_millis(15)).await;
        for part in ["192.0.2.", &round.to_string(), " 80", "80\n"] {
            file.write_all(part.as_bytes()).expect("written");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        drop(file);
        let took = web.hears(&format!("[192.0.2.{round}:8080]")).await;
        assert!(took < Duration::from_secs(1), "round {round} took {took:?}");
    }
    assert_eq!(web.log.len(), 11, "{:?}", web.log);
}

#[tokio::test]
async fn a_file_that_a_script_empties_and_fills_line_by_line_is_never_empty() {
    let disco = Disco::new();
    disco.write("web", "192.0.2.1 80\n");
    let router = Router::new(&disco.root());
    let mut web = Told::by(router.addresses("/web"), show);
    web.hears("[192.0.2.1:80]").await;
    disco.write("web", "");
    tokio::time::sleep(Duration::from_millis(20)).await;
    fs::OpenOptions::new()
        .append(true)
        .open(disco.at("web"))
        .expect("open")
        .write_all(b"192.0.2.2 80\n")
        .expect("written");
    web.hears("[192.0.2.2:80]").await;
    assert!(!web.log.contains(&"[]".to_owned()), "{:?}", web.log);
}

#[tokio::test]
async fn an_emptied_file_is_an_empty_set_within_a_second() {
    let disco = Disco::new();
    disco.write("web", "192.0.2.1 80\n");
    let router = Router::new(&disco.root());
    let mut web = Told::by(router.addresses("/web"), show);
    web.hears("[192.0.2.1:80]").await;
    disco.write("web", "");
    assert!(web.hears("[]").await < Duration::from_secs(1));
    assert_eq!(router.finds("/web").await, leaf("/web", "/"));
}

#[tokio::test]
async fn a_file_comes_and_goes_under_one_watch() {
    let disco = Disco::new();
    let router = Router::new(&disco.root());
    let mut tree = Told::by(router.lookup("/new/x"), show_tree);
    let mut addr = Told::by(router.addresses("/new"), show);
    tree.hears("neg").await;
    addr.hears("neg").await;
    disco.write("new", "192.0.2.1 80\n");
    assert!(addr.hears("[192.0.2.1:80]").await < Duration::from_secs(1));
    tree.hears("/new and /x").await;
    fs::remove_file(disco.at("new")).expect("removed");
    assert!(addr.hears("neg").await < Duration::from_secs(1));
    tree.hears("neg").await;
    disco.write("new", "192.0.2.2 80\n");
    addr.hears("[192.0.2.2:80]").await;
    tree.hears("/new and /x").await;
    assert_eq!(addr.log, ["neg", "[192.0.2.1:80]", "neg", "[192.0.2.2:80]"]);
    assert_eq!(tree.log, ["neg", "/new and /x", "neg", "/new and /x"]);
}

#[tokio::test]
async fn the_same_text_written_again_is_no_news() {
    let disco = Disco::new();
    disco.write("web", "192.0.2.1 80\n");
    let router = Router::new(&disco.root());
    let mut web = Told::by(router.addresses("/web"), show);
    web.hears("[192.0.2.1:80]").await;
    let version = web.watch.current_version();
    disco.write("web", "192.0.2.1 80\n");
    disco.replace("web", "# the same\n192.0.2.1 80\n");
    web.hears_nothing_for(QUIET).await;
    assert_eq!(web.watch.current_version(), version);
}

#[tokio::test]
async fn bad_content_after_good_keeps_the_last_good_addresses() {
    let disco = Disco::new();
    disco.write("web", "192.0.2.1 80\n");
    let router = Router::new(&disco.root());
    let mut web = Told::by(router.addresses("/web"), show);
    web.hears("[192.0.2.1:80]").await;
    disco.write("web", "no\n");
    web.hears_nothing_for(QUIET).await;
    let page = router.namer.state().expect("a page");
    let shown = page["state"]["value"]["web"].as_str().expect("a text");
    assert!(shown.starts_with("error: malformed address: no; "), "{shown}");
    disco.write("web", "192.0.2.3 80\n");
    web.hears("[192.0.2.3:80]").await;
    assert_eq!(router.namer.state().expect("a page")["state"]["value"]["web"], "192.0.2.3 80\n");
    assert_eq!(web.log, ["[192.0.2.1:80]", "[192.0.2.3:80]"]);
}

#[tokio::test]
async fn a_file_that_was_gone_has_no_last_good_addresses() {
    let disco = Disco::new();
    disco.write("web", "192.0.2.1 80\n");
    let router = Router::new(&disco.root());
    let mut web = Told::by(router.addresses("/web"), show);
    web.hears("[192.0.2.1:80]").await;
    fs::remove_file(disco.at("web")).expect("removed");
    web.hears("neg").await;
    disco.write("web", "no\n");
    web.hears("failed: malformed address: no").await;
    disco.write("web", "192.0.2.2 80\n");
    web.hears("[192.0.2.2:80]").await;
}
