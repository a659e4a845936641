//! What is refused, and how.

use super::*;

#[tokio::test(start_paused = true)]
async fn an_empty_path_is_the_declared_failure_and_echoes_the_name() {
    let world = World::new();
    let mut router = world.router().await;
    for call in [bind(b"12345678", "/"), addr(b"12345678", "/")] {
        router.dispatch(TWO, call).await;
        let answer = router.answer(TWO).await;
        assert!(answer.is_failure() && answer.has("empty path") && answer.has("12345678"), "{answer:?}");
        assert!(answer.has("default"), "{answer:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_bad_dtab_and_an_empty_element_are_exceptions() {
    let world = World::new();
    let mut router = world.router().await;
    router.dispatch(TWO, bind_in("default", "/a=>(", b"", "/svc/web")).await;
    let answer = router.answer(TWO).await;
    assert!(answer.is_exception() && answer.has("Internal error processing bind: '"), "{answer:?}");
    router.dispatch(TWO, bind(b"", "/svc//web")).await;
    let answer = router.answer(TWO).await;
    assert!(answer.is_exception() && answer.has("requirement failed"), "{answer:?}");
}

#[tokio::test(start_paused = true)]
async fn a_duplicate_tag_ends_the_session_with_an_error_for_all_that_wait() {
    let world = World::new();
    let mut router = world.router().await;
    router.dispatch(TWO, bind(b"", "/svc/web")).await;
    router.dispatch(THREE, bind(b"", "/svc/web")).await;
    router.dispatch(TWO, dtab(b"", "default")).await;
    let mut tags = Vec::new();
    for _ in 0..2 {
        match router.hears().await {
            Message::Rerr { tag, reason } => {
                assert_eq!(reason, "Received duplicate tag 2 from client.");
                tags.push(tag);
            }
            other => panic!("heard {other:?}"),
        }
    }
    tags.sort();
    assert_eq!(tags, [TWO, THREE]);
    router.is_closed().await;
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_answered_counts_as_a_failed_request() {
    let world = World::new();
    let mut router = world.router().await;
    router.dispatch(TWO, call("unknown", &[])).await;
    assert!(router.answer(TWO).await.is_exception());
    router.dispatch(TWO, b"nothing".to_vec()).await;
    assert!(matches!(router.hears().await, Message::Rdispatch { status: Status::Error, .. }));
    assert_eq!((world.counter("requests"), world.counter("failures")), (2, 2));
}
