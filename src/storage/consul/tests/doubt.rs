//! Writes whose answer is lost, or that meet a store that does not answer.

use super::*;

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
async fn a_write_that_others_replaced_before_it_was_read_back_has_a_version_that_none_has() {
    let consul = FakeConsul::default();
    let storage = storage(&consul).await;
    consul.script(missing(7));
    consul.say(200, "true");
    consul.script(Step::indexed(9, "/theirs=>/x"));
    assert_eq!(storage.create("default", dtab("/a=>/c")).await.expect("written"), "");
}
