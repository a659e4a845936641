use std::time::Duration;

use super::*;
use crate::store::{Key, Mailbox, Snapshot};

fn dtab(text: &str) -> Dtab {
    Dtab::parse(text).expect("a dtab")
}

fn storage(namespaces: &[(&str, &str)]) -> MemoryStorage {
    MemoryStorage::new(namespaces.iter().map(|(namespace, text)| ((*namespace).to_owned(), dtab(text))))
}

fn watch(storage: &MemoryStorage, namespace: &str) -> Watch<Option<VersionedDtab>> {
    storage.dtab(Client::INTERNAL, namespace).expect("room")
}

/// The text and the counter that a watcher sees.
fn seen(snapshot: &Snapshot<Option<VersionedDtab>>) -> Option<(String, u64)> {
    let dtab = Option::as_ref(snapshot.value().expect("memory always answers"))?;
    let counter = u64::from_be_bytes(dtab.version()[..].try_into().expect("eight bytes"));
    Some((dtab.dtab().to_string(), counter))
}

fn shows(storage: &MemoryStorage, namespace: &str) -> Option<(String, u64)> {
    seen(&watch(storage, namespace).current())
}

fn shown(text: &str, counter: u64) -> Option<(String, u64)> {
    Some((text.to_owned(), counter))
}

fn names(storage: &MemoryStorage) -> Vec<String> {
    storage.namespaces().current().value().expect("memory always answers").iter().cloned().collect()
}

#[tokio::test]
async fn presets_are_there_from_the_start_at_version_one() {
    let storage = storage(&[("test", "/foo => /bar;"), ("a", "")]);
    assert_eq!(shows(&storage, "test"), shown("/foo=>/bar", 1));
    assert_eq!(shows(&storage, "a"), shown("", 1));
    assert_eq!(names(&storage), ["a", "test"]);
}

#[tokio::test]
async fn a_version_is_eight_bytes_and_counts_writes() {
    let storage = storage(&[]);
    assert_eq!(storage.create("w", dtab("/a=>/b")).await.expect("new")[..], [0, 0, 0, 0, 0, 0, 0, 1]);
    assert_eq!(storage.put("w", dtab("/a=>/b")).await.expect("same text")[..], [0, 0, 0, 0, 0, 0, 0, 2]);
    let third = storage.update("w", dtab("/a=>/c"), &[0, 0, 0, 0, 0, 0, 0, 2]).await.expect("right version");
    assert_eq!(third[..], [0, 0, 0, 0, 0, 0, 0, 3]);
    storage.delete("w", None).await.expect("exists");
    assert_eq!(storage.put("w", dtab("/z=>/y")).await.expect("new again")[..], [0, 0, 0, 0, 0, 0, 0, 1]);
}

#[tokio::test]
async fn a_watcher_of_a_missing_namespace_sees_it_come_change_and_go() {
    let storage = storage(&[]);
    let hello = watch(&storage, "hello");
    assert_eq!(seen(&hello.current()), None);
    let mailbox = Mailbox::new();
    let (_, _subscription) = hello.subscribe(&mailbox, Key(3));
    let created = storage.create("hello", dtab("/hello=>/world")).await.expect("new");
    mailbox.marked().await;
    assert_eq!(seen(&hello.current()), shown("/hello=>/world", 1));
    storage.update("hello", dtab("/goodbye=>/world"), &created).await.expect("right version");
    assert_eq!(seen(&hello.current()), shown("/goodbye=>/world", 2));
    storage.delete("hello", None).await.expect("exists");
    assert_eq!(seen(&hello.current()), None);
    storage.put("hello", dtab("/again=>/here")).await.expect("new again");
    assert_eq!(seen(&hello.current()), shown("/again=>/here", 1));
}

#[tokio::test]
async fn writes_that_do_not_fit_are_refused_in_the_words_clients_know() {
    let storage = storage(&[("test", "/foo=>/bar")]);
    let refused = storage.create("test", dtab("/x=>/y")).await.expect_err("exists");
    assert_eq!(refused.to_string(), "The dtab namespace test already exists");
    let refused = storage.update("test", dtab("/x=>/y"), &0_u64.to_be_bytes()).await.expect_err("other version");
    assert_eq!(refused.to_string(), "Could not update dtab: current version does not match provided version");
    assert!(matches!(refused, StorageError::VersionMismatch { current: Some(v) } if v[..] == 1_u64.to_be_bytes()));
    let refused = storage.update("test", dtab("/x=>/y"), b"").await.expect_err("`*` decodes to nothing");
    assert!(matches!(refused, StorageError::VersionMismatch { .. }));
    let refused = storage.update("nope", dtab("/x=>/y"), &1_u64.to_be_bytes()).await.expect_err("missing");
    assert_eq!(refused.to_string(), "The dtab namespace nope does not exist");
    assert!(matches!(storage.delete("nope", None).await, Err(StorageError::DoesNotExist(ns)) if ns == "nope"));
    assert_eq!(shows(&storage, "test"), shown("/foo=>/bar", 1));
    assert_eq!(names(&storage), ["test"]);
}

#[tokio::test]
async fn a_delete_may_name_the_version_it_means() {
    let storage = storage(&[("test", "/foo=>/bar")]);
    let refused = storage.delete("test", Some(&2_u64.to_be_bytes())).await.expect_err("other version");
    assert!(matches!(refused, StorageError::VersionMismatch { .. }));
    assert_eq!(names(&storage), ["test"]);
    storage.delete("test", Some(&1_u64.to_be_bytes())).await.expect("right version");
    assert!(names(&storage).is_empty());
}

#[tokio::test]
async fn a_namespace_name_is_any_text() {
    let storage = storage(&[]);
    for name in ["x%20y", "d1/", "", "ä b", ".."] {
        storage.create(name, dtab("/a=>/b")).await.expect("verbatim");
    }
    assert_eq!(names(&storage), ["", "..", "d1/", "x%20y", "ä b"]);
}

#[tokio::test]
async fn the_list_changes_with_namespaces_and_not_with_dtabs() {
    let storage = storage(&[("b", ""), ("a", "")]);
    let list = storage.namespaces();
    let before = list.current_version();
    storage.put("a", dtab("/x=>/y")).await.expect("written");
    drop(watch(&storage, "only-read"));
    storage.create("a", Dtab::empty()).await.expect_err("exists");
    assert_eq!(list.current_version(), before);
    storage.put("aa", Dtab::empty()).await.expect("written");
    assert!(list.current_version() > before);
    assert_eq!(names(&storage), ["a", "aa", "b"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_concurrent_updates_of_one_version_exactly_one_wins() {
    let storage = Arc::new(storage(&[("ns", "/n=>/0")]));
    for round in 1..=200_u64 {
        let writers: Vec<_> = (0..4)
            .map(|writer| {
                let storage = storage.clone();
                let text = format!("/n=>/{round}/{writer}");
                tokio::spawn(async move { storage.update("ns", dtab(&text), &round.to_be_bytes()).await.is_ok() })
            })
            .collect();
        let mut won = Vec::new();
        for (writer, task) in writers.into_iter().enumerate() {
            if task.await.expect("writer") {
                won.push(writer);
            }
        }
        let [winner] = won[..] else { panic!("round {round}: {won:?} won") };
        assert_eq!(shows(&storage, "ns"), shown(&format!("/n=>/{round}/{winner}"), round + 1));
    }
}

/// Writers and one watcher at full speed: what the watcher sees never goes back to an older version.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_watcher_sees_the_writes_in_the_order_of_their_versions() {
    let storage = Arc::new(storage(&[("ns", "/n=>/0")]));
    let watched = watch(&storage, "ns");
    let writers: Vec<_> = (0..3)
        .map(|_| {
            let storage = storage.clone();
            tokio::spawn(async move {
                for n in 0..500 {
                    storage.put("ns", dtab(&format!("/n=>/{n}"))).await.expect("written");
                    tokio::task::yield_now().await;
                }
            })
        })
        .collect();
    let mailbox = Mailbox::new();
    let (mut snapshot, _subscription) = watched.subscribe(&mailbox, Key(0));
    let (mut last, mut marked) = (0, Vec::new());
    while last < 1501 {
        let (_, counter) = seen(&snapshot).expect("exists");
        assert!(counter >= last, "{counter} after {last}");
        last = counter;
        if last < 1501 {
            tokio::time::timeout(Duration::from_secs(10), mailbox.marked()).await.expect("told of every change");
            mailbox.take_marked(&mut marked);
            snapshot = watched.current();
        }
    }
    for writer in writers {
        writer.await.expect("writer");
    }
}

#[tokio::test(start_paused = true)]
async fn a_missing_namespace_that_nobody_watches_any_more_leaves_nothing_behind() {
    let storage = storage(&[("kept", "/a=>/b")]);
    for n in 0..1000 {
        drop(watch(&storage, &format!("probe-{n}")));
    }
    let held = watch(&storage, "held");
    storage.put("made", dtab("/a=>/b")).await.expect("written");
    drop(watch(&storage, "made"));
    assert_eq!(storage.shelf.spaces.lock().len(), 1003);
    tokio::time::sleep(Duration::from_secs(700)).await;
    assert_eq!(storage.shelf.spaces.lock().keys().collect::<Vec<_>>(), ["held", "kept", "made"]);
    storage.put("held", dtab("/still=>/told")).await.expect("written");
    assert_eq!(seen(&held.current()), shown("/still=>/told", 1));
}
