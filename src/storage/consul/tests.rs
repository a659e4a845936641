use tokio::time::Instant;

use super::*;
use crate::consul::testing::{FakeConsul, Step};
use crate::name::Path;
use crate::store::Unanswered;

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

/// Consul does what it has received, even if nobody waits for it any more.
#[tokio::test(start_paused = true)]
async fn a_write_whose_answer_is_lost_is_sent_again_under_the_same_index_which_settles_it() {
    let consul = FakeConsul::default();
    let storage = storage(&consul).await;
    let lost = [Step::indexed(7, "/a=>/b"), Step::Hold, Step::indexed(7, "/a=>/b")];
    lost.into_iter().for_each(|step| consul.script(step));
    consul.say(200, "true");
    consul.script(Step::indexed(9, "/a=>/c"));
    assert_eq!(storage.update("default", dtab("/a=>/c"), b"7").await.expect("done"), "9");
    assert_eq!(asked(&consul), [read(), cas(7), read(), cas(7), read()]);

    let done_late = [Step::indexed(9, "/a=>/c"), Step::Hold, Step::indexed(9, "/a=>/c")];
    done_late.into_iter().for_each(|step| consul.script(step));
    consul.say(200, "false");
    consul.script(Step::indexed(11, "/a=>/d"));
    assert_eq!(storage.put("default", dtab("/a=>/d")).await.expect("it is there"), "11");

    let not_there_yet = [missing(11), Step::Hold, missing(11)];
    not_there_yet.into_iter().for_each(|step| consul.script(step));
    consul.say(200, "true");
    consul.script(Step::indexed(12, "/a=>/d"));
    assert_eq!(storage.create("default", dtab("/a=>/d")).await.expect("nothing has changed meanwhile"), "12");

    let done_at_once = [Step::indexed(11, "/a=>/d"), Step::Hold, missing(12)];
    done_at_once.into_iter().for_each(|step| consul.script(step));
    storage.delete("default", None).await.expect("it is gone");
}

/// Two processes may write the same text, each in place of the same version. One of them is to be told so.
#[tokio::test(start_paused = true)]
async fn who_names_a_version_is_not_told_that_he_replaced_it_when_it_may_have_been_another() {
    let consul = FakeConsul::default();
    let storage = storage(&consul).await;
    for step in [Step::indexed(7, "/a=>/b"), Step::Hold, Step::indexed(9, "/a=>/c")] {
        consul.script(step);
    }
    let outcome = storage.update("default", dtab("/a=>/c"), b"7").await.expect_err("nobody knows");
    assert!(matches!(&outcome, StorageError::Uncertain(text) if text.contains("is there now")), "{outcome}");
    for step in [missing(9), Step::Hold, Step::indexed(11, "/a=>/c")] {
        consul.script(step);
    }
    let outcome = storage.create("default", dtab("/a=>/c")).await.expect_err("nobody knows");
    assert!(matches!(&outcome, StorageError::Uncertain(text) if text.contains("is there now")), "{outcome}");
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

/// Others have built on it since, or taken it away: to send it again would undo what they were told is done.
#[tokio::test(start_paused = true)]
async fn a_write_without_condition_whose_answer_is_lost_is_not_repeated_over_what_others_wrote() {
    let consul = FakeConsul::default();
    let storage = storage(&consul).await;
    let lost = |then: Step| [Step::indexed(7, "/a=>/b"), Step::Hold, then].into_iter();
    lost(Step::indexed(12, "/theirs=>/x")).for_each(|step| consul.script(step));
    let outcome = storage.delete("default", None).await.expect_err("nobody knows");
    assert!(matches!(&outcome, StorageError::Uncertain(text) if text.contains("others have written")), "{outcome}");
    lost(Step::indexed(10, "/a=>/c;/b=>/d")).for_each(|step| consul.script(step));
    let outcome = storage.put("default", dtab("/a=>/c")).await.expect_err("nobody knows");
    assert!(matches!(&outcome, StorageError::Uncertain(_)), "{outcome}");
    // Made by this write and deleted by others.
    [missing(7), Step::Hold, missing(10)].into_iter().for_each(|step| consul.script(step));
    let outcome = storage.put("default", dtab("/a=>/c")).await.expect_err("nobody knows");
    assert!(matches!(&outcome, StorageError::Uncertain(_)), "{outcome}");
    assert_eq!(asked(&consul), [read(), cas(7), read(), read(), cas(7), read(), read(), cas(0), read()]);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_lags_behind_leads_nobody_back_who_is_content_with_any_servers_state() {
    let consul = FakeConsul::default();
    let storage = configured(&consul, "readConsistencyMode: stale").await;
    consul.set(KEY, "/a=>/b", 7);
    let watch = storage.dtab(Client::INTERNAL, "default").expect("room");
    let read = async || {
        let (answer, _) = watch.answer(Duration::from_secs(30)).await.expect("an answer");
        answer.as_ref().as_ref().map(|stored| stored.dtab().to_string()).unwrap_or_default()
    };
    assert_eq!(read().await, "/a=>/b");
    tokio::time::sleep(Duration::from_secs(2)).await;
    for step in [Step::indexed(7, "/a=>/b"), Step::Reply(200, vec![], "true".into()), Step::indexed(9, "/a=>/c")] {
        consul.script(step);
    }
    storage.put("default", dtab("/a=>/c")).await.expect("written");
    let written = watch.current_version();
    // The follower, and then the majority.
    consul.script(Step::indexed(7, "/a=>/b"));
    consul.script(Step::indexed(9, "/a=>/c"));
    assert_eq!(read().await, "/a=>/c");
    assert_eq!(watch.current_version(), written, "no route has moved");
    let [.., stale, confirmed] = &asked(&consul)[..] else { panic!("two requests") };
    assert_eq!([stale.as_str(), confirmed], [&format!("{KEY}?stale=true&raw=true"), &super::tests::read()]);
    // Nor when the follower has not heard of the key at all.
    consul.script(missing(6));
    consul.script(Step::indexed(9, "/a=>/c"));
    assert_eq!(read().await, "/a=>/c");
    assert_eq!(watch.current_version(), written);
    // A store that was restored has a lower index, too.
    consul.script(Step::indexed(3, "/a=>/old"));
    consul.script(Step::indexed(3, "/a=>/old"));
    assert_eq!(read().await, "/a=>/old");
}

/// It may have been done before the others wrote: to call it refused would have it repeated.
#[tokio::test(start_paused = true)]
async fn a_write_whose_answer_is_lost_while_others_write_is_not_called_refused() {
    let consul = FakeConsul::default();
    let storage = storage(&consul).await;
    for step in [Step::indexed(7, "/a=>/b"), Step::Hold, Step::indexed(9, "/theirs=>/x")] {
        consul.script(step);
    }
    let outcome = storage.update("default", dtab("/a=>/c"), b"7").await.expect_err("nobody knows");
    assert!(matches!(&outcome, StorageError::Uncertain(text) if text.contains("others have written")), "{outcome}");
    for step in [missing(9), Step::Hold, Step::indexed(11, "/theirs=>/x")] {
        consul.script(step);
    }
    let outcome = storage.create("default", dtab("/a=>/c")).await.expect_err("nobody knows");
    assert!(matches!(&outcome, StorageError::Uncertain(_)), "{outcome}");
}

#[tokio::test(start_paused = true)]
async fn a_write_that_stays_without_an_answer_is_told_as_that_in_time() {
    let consul = FakeConsul::default();
    let storage = storage(&consul).await;
    let began = Instant::now();
    consul.script(Step::indexed(7, "/a=>/b"));
    consul.script(Step::Hold);
    (0..100).for_each(|_| consul.script(Step::Refuse));
    let outcome = storage.put("default", dtab("/a=>/c")).await.expect_err("no answer");
    assert!(matches!(&outcome, StorageError::Uncertain(text) if text.contains("is not known")), "{outcome}");
    assert!(began.elapsed() <= write::LIMIT, "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_write_that_is_done_and_cannot_be_read_back_is_told_as_that() {
    let consul = FakeConsul::default();
    let storage = storage(&consul).await;
    consul.script(Step::indexed(7, "/a=>/b"));
    consul.say(200, "true");
    (0..100).for_each(|_| consul.script(Step::Refuse));
    let outcome = storage.put("default", dtab("/a=>/c")).await.expect_err("no answer");
    assert!(matches!(&outcome, StorageError::Uncertain(text) if text.contains("The write is done")), "{outcome}");
}

#[tokio::test(start_paused = true)]
async fn nothing_is_sent_to_a_store_that_does_not_answer() {
    let consul = FakeConsul::default();
    let storage = storage(&consul).await;
    for step in [Step::Refuse, Step::Hold, Step::Reply(500, vec![], "No cluster leader".into())] {
        (0..200).for_each(|_| consul.script(step.clone()));
        let began = Instant::now();
        let outcome = storage.put("default", dtab("/a=>/c")).await.expect_err("no answer");
        assert!(
            matches!(&outcome, StorageError::Unavailable(text) if text.contains("nothing was written")),
            "{outcome}"
        );
        assert!(began.elapsed() <= write::LIMIT, "{:?}", began.elapsed());
    }
    assert!(asked(&consul).iter().all(|target| *target == read()));
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_is_elected_meanwhile_takes_the_write() {
    let consul = FakeConsul::default();
    let storage = storage(&consul).await;
    consul.say(500, "No cluster leader");
    consul.script(Step::indexed(7, "/a=>/b"));
    consul.say(500, "No cluster leader");
    consul.script(Step::indexed(7, "/a=>/b"));
    consul.say(200, "true");
    consul.script(Step::indexed(8, "/a=>/c"));
    assert_eq!(storage.put("default", dtab("/a=>/c")).await.expect("written"), "8");
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

#[tokio::test(start_paused = true)]
async fn a_write_that_others_replaced_before_it_was_read_back_has_a_version_that_none_has() {
    let consul = FakeConsul::default();
    let storage = storage(&consul).await;
    consul.script(missing(7));
    consul.say(200, "true");
    consul.script(Step::indexed(9, "/theirs=>/x"));
    assert_eq!(storage.create("default", dtab("/a=>/c")).await.expect("written"), "");
}

#[tokio::test(start_paused = true)]
async fn a_one_shot_reader_asks_the_store_and_watchers_see_what_it_says() {
    let consul = FakeConsul::default();
    let storage = storage(&consul).await;
    consul.set(KEY, "/a=>/b", 5);
    let watch = storage.dtab(Client::INTERNAL, "default").expect("room");
    let shown = |stored: &Option<VersionedDtab>| stored.as_ref().map(|stored| stored.dtab().to_string());
    let answer = watch.answer(Duration::from_secs(30)).await.expect("an answer").0;
    assert_eq!(shown(&answer).as_deref(), Some("/a=>/b"));
    tokio::time::sleep(Duration::from_secs(2)).await;
    consul.script(Step::indexed(6, "/a=>/c"));
    let answer = watch.answer(Duration::from_secs(30)).await.expect("an answer").0;
    assert_eq!(shown(&answer).as_deref(), Some("/a=>/c"));
    assert_eq!(shown(watch.current().value().expect("known")).as_deref(), Some("/a=>/c"));
}

#[tokio::test(start_paused = true)]
async fn a_one_shot_reader_of_a_silent_store_is_told_after_a_while_and_watchers_keep_what_they_have() {
    let consul = FakeConsul::default();
    let storage = storage(&consul).await;
    consul.set(KEY, "/a=>/b", 5);
    let watch = storage.dtab(Client::INTERNAL, "default").expect("room");
    watch.answer(Duration::from_secs(30)).await.expect("an answer");
    tokio::time::sleep(Duration::from_secs(2)).await;
    (0..100).for_each(|_| consul.script(Step::Hold));
    let began = Instant::now();
    let told = watch.answer(Duration::from_secs(30)).await.expect_err("silence");
    assert!(matches!(&told, Unanswered::TimedOut { reason: Some(_), .. }), "{told:?}");
    assert_eq!(began.elapsed(), Duration::from_secs(10));
    assert!(watch.current().value().is_some_and(|value| value.is_some()));
}

#[tokio::test(start_paused = true)]
async fn a_name_that_cannot_be_is_refused_and_watched_in_vain() {
    let consul = FakeConsul::default();
    let storage = storage(&consul).await;
    let refused = storage.put("b@dn@m35p@c3", dtab("/a=>/b")).await.expect_err("no name");
    assert!(matches!(refused, StorageError::InvalidNamespace { .. }));
    let watch = storage.dtab(Client::INTERNAL, "%2e%2e").expect("room");
    let told = watch.answer(Duration::from_secs(30)).await.expect_err("no name");
    assert!(matches!(told, Unanswered::Failed(reason) if reason.contains("invalid dtab namespace %2e%2e")));
    assert!(asked(&consul).is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_list_that_is_empty_for_want_of_a_right_is_not_told_as_empty() {
    let consul = FakeConsul::default();
    let storage = storage(&consul).await;
    consul.script(missing(24));
    consul.say(403, "Permission denied: token lacks permission 'key:read' on \"namerd/dtabs/\"");
    let told = storage.namespaces().answer(Duration::from_secs(30)).await.expect_err("denied");
    assert!(matches!(told, Unanswered::Failed(reason) if reason.contains("key:read")));
}

#[tokio::test(start_paused = true)]
async fn watchers_of_the_list_are_not_told_that_it_is_empty_for_want_of_a_right() {
    let consul = FakeConsul::default();
    let denied = "Permission denied: token lacks permission 'key:read' on \"namerd/dtabs/\"";
    // The list is empty, the probe is denied; and then, once more without any doubt, both again.
    for _ in 0..2 {
        consul.script(missing(24));
        consul.say(403, denied);
    }
    (0..20).for_each(|_| consul.say(403, denied));
    let (config, _) = crate::config::read_text("f", "{}", "the test", ConsulConfig::read).expect("keys");
    let layout = Layout::new(&Path::parse("/namerd/dtabs").expect("a path"), None);
    let storage = ConsulStorage::new(consul.agent(), layout, &config, Limits::DEFAULT);
    tokio::time::sleep(Duration::from_secs(10)).await;
    let known = storage.names.cell.snapshot();
    assert!(known.value().is_none(), "{:?}", known.state);
    let log: Vec<String> = consul.log().into_iter().map(|(target, _)| target).collect();
    assert_eq!(log[..2], [format!("{LIST}?keys=true&separator=%2F"), format!("{LIST}?raw=true")]);
}

/// Routes would be lost otherwise, if only for a moment: a leader that was restarted lacks what it has not caught up with.
#[tokio::test(start_paused = true)]
async fn that_there_is_no_such_namespace_is_believed_when_the_majority_says_it() {
    let consul = FakeConsul::default();
    let storage = storage(&consul).await;
    consul.script(missing(1));
    consul.script(Step::indexed(7, "/a=>/b"));
    let watch = storage.dtab(Client::INTERNAL, "default").expect("room");
    let (mailbox, mut marked) = (Mailbox::new(), Vec::new());
    let (first, _subscription) = watch.subscribe(&mailbox, Key(0));
    assert!(first.value().is_none());
    mailbox.marked().await;
    mailbox.take_marked(&mut marked);
    assert!(watch.current().value().is_some_and(|stored| stored.is_some()));
    assert_eq!(asked(&consul)[..2], [format!("{KEY}?raw=true"), read()]);
}

/// The loop may lose the agent in the moment in which a reader gets his answer.
#[tokio::test(start_paused = true)]
async fn an_answer_is_shown_whatever_the_loop_has_met_with_meanwhile() {
    let consul = FakeConsul::default();
    let storage = storage(&consul).await;
    consul.set(KEY, "/a=>/b", 5);
    let watch = storage.dtab(Client::INTERNAL, "default").expect("room");
    watch.answer(Duration::from_secs(30)).await.expect("an answer");
    tokio::time::sleep(Duration::from_secs(2)).await;
    consul.interrupt(Step::Refuse);
    (0..20).for_each(|_| consul.script(Step::indexed(5, "/a=>/b")));
    for _ in 0..20 {
        watch.answer(Duration::from_secs(30)).await.expect("an answer");
    }
    for step in [Step::indexed(7, "nonsense"), Step::indexed(7, "nonsense")] {
        consul.script(step);
        let told = watch.answer(Duration::from_secs(30)).await.expect_err("no dtab");
        assert!(matches!(&told, Unanswered::Failed(reason) if reason.contains("1:1")), "{told:?}");
    }
}
