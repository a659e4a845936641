//! What readers and watchers are told.

use super::*;

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
