//! Links, directories and the root directory.

use super::*;

#[tokio::test]
async fn a_config_map_volume_is_seen_to_be_swapped_without_a_gap() {
    let disco = Disco::new();
    let volume = |version: &str, last: u8| {
        fs::create_dir(disco.at(version)).expect("made");
        disco.write(&format!("{version}/web"), &format!("192.0.2.{last} 80\n"));
        symlink(version, disco.at("..data_tmp")).expect("linked");
        fs::rename(disco.at("..data_tmp"), disco.at("..data")).expect("swapped");
    };
    volume("..2026_1", 1);
    symlink("..data/web", disco.at("web")).expect("linked");
    let router = Router::new(&disco.root());
    let mut tree = Told::by(router.lookup("/web"), show_tree);
    let mut web = Told::by(router.addresses("/web"), show);
    web.hears("[192.0.2.1:80]").await;
    for round in 2..8 {
        volume(&format!("..2026_{round}"), round);
        fs::remove_dir_all(disco.at(&format!("..2026_{}", round - 1))).expect("removed");
        let took = web.hears(&format!("[192.0.2.{round}:80]")).await;
        assert!(took < Duration::from_secs(1), "round {round} took {took:?}");
    }
    tree.until(None, QUIET).await;
    assert_eq!(tree.log, ["/web and /"]);
    assert_eq!(web.log.len(), 7, "{:?}", web.log);
}

#[tokio::test]
async fn a_link_out_of_the_directory_is_followed_wherever_it_leads() {
    let disco = Disco::new();
    fs::create_dir_all(disco.beside("v1")).expect("made");
    fs::create_dir_all(disco.beside("v2")).expect("made");
    fs::write(disco.beside("v1/web"), "192.0.2.1 80\n").expect("written");
    fs::write(disco.beside("v2/web"), "192.0.2.2 80\n").expect("written");
    symlink(disco.beside("v1"), disco.beside("current")).expect("linked");
    symlink("../current/web", disco.at("web")).expect("linked");
    let router = Router::new(&disco.root());
    let mut web = Told::by(router.addresses("/web"), show);
    web.hears("[192.0.2.1:80]").await;
    fs::write(disco.beside("v1/web"), "192.0.2.11 80\n").expect("written");
    assert!(web.hears("[192.0.2.11:80]").await < Duration::from_secs(1), "written behind the link");
    symlink(disco.beside("v2"), disco.beside("next")).expect("linked");
    fs::rename(disco.beside("next"), disco.beside("current")).expect("swapped");
    assert!(web.hears("[192.0.2.2:80]").await < Duration::from_secs(1), "the link in between was swapped");
    symlink("web", disco.at("loop")).expect("linked");
    fs::rename(disco.at("loop"), disco.at("web")).expect("swapped");
    web.hears("neg").await;
}

#[tokio::test]
async fn a_directory_may_go_and_come_back_and_be_moved_into_place() {
    let disco = Disco::new();
    fs::create_dir(disco.at("a")).expect("made");
    disco.write("a/web", "192.0.2.1 80\n");
    let router = Router::new(&disco.root());
    let mut web = Told::by(router.addresses("/a/web"), show);
    let mut tree = Told::by(router.lookup("/a/web"), show_tree);
    web.hears("[192.0.2.1:80]").await;
    fs::remove_dir_all(disco.at("a")).expect("removed");
    web.hears("neg").await;
    tree.hears("neg").await;
    fs::create_dir(disco.at("a")).expect("made");
    disco.write("a/web", "192.0.2.2 80\n");
    assert!(web.hears("[192.0.2.2:80]").await < Duration::from_secs(1));
    tree.hears("/a/web and /").await;
    fs::create_dir(disco.beside("other")).expect("made");
    fs::write(disco.beside("other/web"), "192.0.2.3 80\n").expect("written");
    fs::rename(disco.at("a"), disco.beside("old")).expect("moved");
    fs::rename(disco.beside("other"), disco.at("a")).expect("moved");
    assert!(web.hears("[192.0.2.3:80]").await < Duration::from_secs(1));
    fs::write(disco.beside("old/web"), "192.0.2.66 80\n").expect("written");
    disco.write("a/web", "192.0.2.4 80\n");
    assert!(web.hears("[192.0.2.4:80]").await < Duration::from_secs(1));
    assert!(!web.log.contains(&"[192.0.2.66:80]".to_owned()), "{:?}", web.log);
}

#[tokio::test]
async fn the_root_directory_may_be_a_link_that_is_swapped() {
    let disco = Disco::new();
    for (version, last) in [("v1", 1), ("v2", 2)] {
        fs::create_dir(disco.beside(version)).expect("made");
        fs::write(disco.beside(version).join("web"), format!("192.0.2.{last} 80\n")).expect("written");
    }
    symlink("v1", disco.beside("root")).expect("linked");
    let router = Router::new(&disco.beside("root"));
    let mut web = Told::by(router.addresses("/web"), show);
    web.hears("[192.0.2.1:80]").await;
    symlink("v2", disco.beside("next")).expect("linked");
    fs::rename(disco.beside("next"), disco.beside("root")).expect("swapped");
    assert!(web.hears("[192.0.2.2:80]").await < Duration::from_secs(1));
    assert_eq!(web.log.len(), 2, "{:?}", web.log);
}

#[tokio::test]
async fn a_lost_root_directory_keeps_the_last_addresses_until_it_is_back() {
    let disco = Disco::new();
    disco.write("web", "192.0.2.1 80\n");
    let router = Router::new(&disco.root());
    let mut web = Told::by(router.addresses("/web"), show);
    web.hears("[192.0.2.1:80]").await;
    fs::rename(disco.root(), disco.beside("away")).expect("moved");
    web.hears_nothing_for(QUIET).await;
    let unknown = router.addresses("/never-seen").answer(QUIET).await.expect_err("nobody knows");
    assert!(unknown.to_string().contains("is not a directory"), "{unknown}");
    fs::create_dir(disco.root()).expect("made");
    disco.write("web", "192.0.2.2 80\n");
    assert!(web.hears("[192.0.2.2:80]").await < Duration::from_secs(1));
    assert_eq!(router.says("/never-seen").await, "neg");
}

#[tokio::test]
async fn a_file_that_may_not_be_read_any_more_keeps_its_last_addresses() {
    let disco = Disco::new();
    disco.write("web", "192.0.2.1 80\n");
    let router = Router::new(&disco.root());
    let mut web = Told::by(router.addresses("/web"), show);
    web.hears("[192.0.2.1:80]").await;
    fs::set_permissions(disco.at("web"), fs::Permissions::from_mode(0o000)).expect("changed");
    if fs::read(disco.at("web")).is_ok() {
        return; // not for root, who may read everything
    }
    web.hears_nothing_for(QUIET).await;
    let page = router.namer.state().expect("a page");
    assert!(
        page["state"]["value"]["web"].as_str().is_some_and(|text| text.starts_with("error: cannot read")),
        "{page}"
    );
    fs::set_permissions(disco.at("web"), fs::Permissions::from_mode(0o644)).expect("changed");
    disco.write("web", "192.0.2.2 80\n");
    web.hears("[192.0.2.2:80]").await;
}
