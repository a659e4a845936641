use tokio::time::Instant;

use super::*;
use crate::consul::testing::{FakeConsul, Step};
use crate::name::Path;
use crate::store::Unanswered;

mod doubt;
mod reads;

const LIST: &str = "/v1/kv/namerd/dtabs/";
const KEY: &str = "/v1/kv/namerd/dtabs/default";

fn dtab(text: &str) -> Dtab {
    Dtab::parse(text).expect("a dtab")
}

/// A storage whose list is watched and at rest, so that what is scripted next is for what the test does.
async fn storage(consul: &FakeConsul) -> ConsulStorage {
    configured(consul, "{}").await
}

async fn configured(consul: &FakeConsul, keys: &str) -> ConsulStorage {
    consul.set(LIST, "[\"namerd/dtabs/here\"]", 1);
    let (config, _) = crate::config::read_text("f", keys, "the test", ConsulConfig::read).expect("keys");
    let layout = Layout::new(&Path::parse("/namerd/dtabs").expect("a path"), None);
    let storage = ConsulStorage::new(consul.agent(), layout, &config, Limits::DEFAULT);
    storage.answered().await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    storage
}

fn missing(index: u64) -> Step {
    Step::Reply(404, vec![("x-consul-index", index.to_string())], String::new())
}

/// What was asked for from the third request on: the first two are those of the list.
fn asked(consul: &FakeConsul) -> Vec<String> {
    consul.log().into_iter().skip(2).map(|(target, _)| target).collect()
}

fn read() -> String {
    format!("{KEY}?consistent=true&raw=true")
}

fn cas(index: u64) -> String {
    format!("{KEY}?cas={index}")
}

#[tokio::test(start_paused = true)]
async fn a_write_reads_replaces_that_alone_and_reads_back() {
    let consul = FakeConsul::default();
    let storage = storage(&consul).await;
    for step in [Step::indexed(7, "/a=>/b"), Step::Reply(200, vec![], "true\n".into()), Step::indexed(9, "/a=>/c")] {
        consul.script(step);
    }
    assert_eq!(storage.put("default", dtab("/a => /c")).await.expect("written"), "9");
    assert_eq!(asked(&consul), [read(), cas(7), read()]);
}

#[tokio::test(start_paused = true)]
async fn who_puts_beside_others_tries_again_and_who_names_a_version_does_not() {
    let consul = FakeConsul::default();
    let storage = storage(&consul).await;
    consul.script(missing(3));
    consul.say(200, "false");
    consul.script(Step::indexed(8, "/theirs=>/x"));
    consul.say(200, "true");
    consul.script(Step::indexed(9, "/a=>/c"));
    assert_eq!(storage.put("default", dtab("/a=>/c")).await.expect("written"), "9");
    assert_eq!(asked(&consul), [read(), cas(0), read(), cas(8), read()]);
    consul.script(Step::indexed(9, "/a=>/c"));
    consul.say(200, "false");
    consul.script(Step::indexed(10, "/theirs=>/y"));
    let refused = storage.update("default", dtab("/a=>/d"), b"9").await.expect_err("theirs came first");
    assert!(matches!(refused, StorageError::VersionMismatch { current: Some(current) } if current == "10"));
}

#[tokio::test(start_paused = true)]
async fn what_does_not_fit_is_refused_before_anything_is_sent() {
    let consul = FakeConsul::default();
    let storage = storage(&consul).await;
    consul.script(Step::indexed(7, "/a=>/b"));
    let refused = storage.create("default", dtab("/a=>/c")).await.expect_err("it exists");
    assert_eq!(refused.to_string(), "The dtab namespace default already exists");
    for version in [&b"6"[..], b"07", b"+7", b"", b"x", b"0"] {
        consul.script(Step::indexed(7, "/a=>/b"));
        let refused = storage.update("default", dtab("/a=>/c"), version).await.expect_err("another version");
        assert!(matches!(refused, StorageError::VersionMismatch { current: Some(current) } if current == "7"));
    }
    // To Consul, 0 would mean a key that is not there yet.
    consul.script(missing(7));
    let refused = storage.update("default", dtab("/a=>/c"), b"0").await.expect_err("missing");
    assert!(matches!(refused, StorageError::VersionMismatch { current: None }), "{refused}");
    consul.script(missing(7));
    let refused = storage.delete("default", None).await.expect_err("missing");
    assert_eq!(refused.to_string(), "The dtab namespace default does not exist");
    assert!(asked(&consul).iter().all(|target| *target == read()), "{:?}", asked(&consul));
}

#[tokio::test(start_paused = true)]
async fn a_delete_takes_away_only_what_it_has_read() {
    let consul = FakeConsul::default();
    let storage = storage(&consul).await;
    consul.script(Step::indexed(7, "/a=>/b"));
    consul.say(200, "false");
    consul.script(Step::indexed(8, "/theirs=>/x"));
    consul.say(200, "true");
    consul.script(missing(9));
    storage.delete("default", None).await.expect("deleted");
    assert_eq!(asked(&consul), [read(), cas(7), read(), cas(8), read()]);
    consul.script(Step::indexed(12, "/a=>/b"));
    let refused = storage.delete("default", Some(b"11")).await.expect_err("another version");
    assert!(matches!(refused, StorageError::VersionMismatch { .. }));
}

#[tokio::test(start_paused = true)]
async fn writes_of_a_namespace_take_turns_and_none_waits_longer_than_a_write_may_take() {
    let consul = FakeConsul::default();
    let storage = Arc::new(storage(&consul).await);
    (0..20).for_each(|_| consul.script(Step::Hold));
    let began = Instant::now();
    let write = || {
        let storage = storage.clone();
        tokio::spawn(async move { storage.put("default", dtab("/a=>/c")).await })
    };
    let mut told = Vec::new();
    for write in [write(), write(), write()] {
        let outcome = write.await.expect("not cancelled").expect_err("silence");
        let StorageError::Unavailable(text) = outcome else { panic!("{outcome}") };
        assert!(text.ends_with("; nothing was written"), "{text}");
        told.push(text);
    }
    assert!(told[0].contains("has not answered"), "{told:?}");
    assert!(told[1..].iter().all(|text| text.starts_with("another write of default has been waiting")), "{told:?}");
    assert!(began.elapsed() <= write::LIMIT, "{:?}", began.elapsed());
    assert!(asked(&consul).len() <= 2, "one asks for all: {:?}", asked(&consul));
}

#[tokio::test(start_paused = true)]
async fn writes_of_one_namespace_hold_up_no_other() {
    let consul = FakeConsul::default();
    let storage = Arc::new(storage(&consul).await);
    (0..20).for_each(|_| consul.script(Step::Hold));
    let names: Vec<String> = (0..10).map(|n| format!("n{n}")).collect();
    let writes = names.iter().map(|name| storage.put(name, dtab("/a=>/c")));
    for outcome in futures_util::future::join_all(writes).await {
        let told = outcome.expect_err("silence").to_string();
        assert!(told.contains("has not answered"), "{told}");
    }
}

#[tokio::test(start_paused = true)]
async fn who_finds_that_others_keep_writing_is_told_so_in_time() {
    let consul = FakeConsul::default();
    let storage = storage(&consul).await;
    for index in 7..2_000 {
        consul.script(Step::indexed(index, "/theirs=>/x"));
        consul.script(Step::SlowReply(Duration::from_millis(200), 200, "false".to_owned()));
    }
    let began = Instant::now();
    let told = storage.put("default", dtab("/a=>/c")).await.expect_err("it never comes").to_string();
    let wanted = "others have kept writing default to Consul at consul.test:8500 for 15 s; nothing was written";
    assert_eq!(told, wanted);
    assert!(began.elapsed() <= write::LIMIT + Duration::from_secs(1), "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn refusals_of_the_store_are_told_in_its_words_and_with_the_remedy() {
    let consul = FakeConsul::default();
    let storage = storage(&consul).await;
    consul.script(missing(7));
    consul.say(413, "Request body(524289 bytes) too large, max size: 524288 bytes.");
    let refused = storage.put("default", dtab("/a=>/c")).await.expect_err("too large");
    let StorageError::TooLarge(text) = &refused else { panic!("{refused:?}") };
    for part in ["the dtab has 6 bytes", "Consul at consul.test:8500", "524288 bytes", "limits.kv_max_value_size"] {
        assert!(text.contains(part), "{text}");
    }
    consul.say(403, "Permission denied: token lacks permission 'key:read' on \"namerd/dtabs/default\"");
    let refused = storage.put("default", dtab("/a=>/c")).await.expect_err("denied");
    assert!(matches!(&refused, StorageError::Forbidden(text) if text.contains("key:read")), "{refused}");
}
