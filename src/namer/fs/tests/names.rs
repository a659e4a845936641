//! Which names there are, and what files say.

use super::*;

#[tokio::test]
async fn a_name_is_the_way_to_a_file_and_the_rest_is_residual() {
    let disco = Disco::new();
    disco.write("web", "192.0.2.1 80\n");
    fs::create_dir_all(disco.at("a/b")).expect("made");
    disco.write("a/b/api", "192.0.2.2 80\n");
    let router = Router::new(&disco.root());
    assert_eq!(router.finds("/web").await, leaf("/web", "/"));
    assert_eq!(router.finds("/web/x/y").await, leaf("/web", "/x/y"));
    assert_eq!(router.finds("/a/b/api/x").await, leaf("/a/b/api", "/x"));
    for missing in ["/", "/nope", "/Web", "/a", "/a/b", "/a/b/nope", "/nope/web"] {
        assert_eq!(router.finds(missing).await, NameTree::Neg, "{missing}");
    }
    assert_eq!(router.says("/a/b/api").await, "[192.0.2.2:80]");
    for missing in ["/", "/nope", "/a"] {
        assert_eq!(router.says(missing).await, "neg", "{missing}");
    }
}

#[tokio::test]
async fn no_name_leads_out_of_the_root_directory() {
    let disco = Disco::new();
    fs::write(disco.beside("secret"), "192.0.2.66 80\n").expect("written");
    fs::create_dir(disco.at("sub")).expect("made");
    disco.write("web", "192.0.2.1 80\n");
    let router = Router::new(&disco.root());
    let tricks: [&[&[u8]]; 7] = [
        &[b"..", b"secret"],
        &[b"sub", b"..", b"web"],
        &[b".", b"web"],
        &[b"../secret"],
        &[b"sub/../web"],
        &[b"web\0"],
        &[&[b'x'; 300]],
    ];
    for trick in tricks {
        let trick = Path::from_elems(trick).expect("a path");
        let tree = router.watch(Lookup(router.namer.clone(), trick.clone()));
        let (tree, _) = tree.answer(Duration::from_secs(5)).await.expect("an answer");
        assert_eq!(*tree, NameTree::Neg, "{trick}");
        let addr = router.watch(Addresses(router.namer.clone(), trick.clone()));
        let (addr, _) = addr.answer(Duration::from_secs(5)).await.expect("an answer");
        assert_eq!(*addr, Addr::Neg, "{trick}");
    }
}

#[tokio::test]
async fn what_a_file_says_becomes_addresses() {
    let disco = Disco::new();
    disco.write("weighted", "127.0.0.1 8080\n127.0.0.1 8081 * 0.23\n");
    disco.write("v6", "::1 9000\n");
    disco.write("empty", "");
    disco.write("comments", "# nothing yet\r\n");
    disco.write("bad", "this is not an address\n");
    disco.write("large", &"192.0.2.1 80\n".repeat(40_000));
    let router = Router::new(&disco.root());
    assert_eq!(router.says("/weighted").await, "[127.0.0.1:8080 127.0.0.1:8081*0.23]");
    assert_eq!(router.says("/v6").await, "[::1:9000]");
    assert_eq!(router.says("/empty").await, "[]");
    assert_eq!(router.says("/comments").await, "[]");
    assert_eq!(router.says("/bad").await, "failed: malformed address: this is not an address");
    let large = format!("failed: file {} is 520000.bytes", disco.at("large").display());
    assert_eq!(router.says("/large").await, large);
    for name in ["/empty", "/bad", "/large"] {
        assert_eq!(router.finds(name).await, leaf(name, "/"), "a leaf all the same");
    }
}

#[tokio::test]
async fn host_names_in_files_are_looked_up_and_unknown_ones_left_out() {
    let disco = Disco::new();
    disco.write("web", "web.example 80 * 2\n192.0.2.1 81\nlocalhost 82\nnowhere.example 83\n");
    disco.write("nowhere", "nowhere.example 80\n");
    let router = Router::new(&disco.root());
    assert_eq!(router.says("/web").await, "[127.0.0.1:82 192.0.2.1:81 192.0.2.7:80*2.0 192.0.2.8:80*2.0]");
    assert_eq!(router.says("/nowhere").await, "neg");
    assert_eq!(router.finds("/nowhere").await, leaf("/nowhere", "/"));
}

#[tokio::test]
async fn the_names_are_the_entries_of_the_root_directory() {
    let disco = Disco::new();
    disco.write("web", "192.0.2.1 80\n");
    fs::create_dir(disco.at("sub")).expect("made");
    disco.write("sub/deep", "");
    symlink("nowhere", disco.at("dangling")).expect("linked");
    let router = Router::new(&disco.root());
    assert!(router.namer.enumerates());
    let shown = |names: &BTreeSet<Path>| names.iter().map(Path::to_string).collect::<Vec<_>>().join(" ");
    let mut names = Told::by(router.names(), shown);
    names.hears("/sub /web").await;
    disco.write("a b", "");
    assert!(names.hears("/\\x61\\x20\\x62 /sub /web").await < Duration::from_secs(1));
    disco.write("web", "192.0.2.2 80\n");
    fs::remove_file(disco.at("a b")).expect("removed");
    names.hears("/sub /web").await;
    assert_eq!(names.log.len(), 3, "{:?}", names.log);
}
