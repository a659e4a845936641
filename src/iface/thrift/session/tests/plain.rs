//! Thrift without mux.

use super::*;

impl Peer {
    async fn call(&mut self, message: &[u8]) {
        self.io.write_all(&framed(message)).await.expect("open");
    }

    async fn reply(&mut self) -> Answer {
        let heard = timeout(Duration::from_secs(3_600), self.frame()).await.expect("in an hour");
        Answer(heard.expect("the session has ended"))
    }
}

#[tokio::test(start_paused = true)]
async fn replies_come_in_the_order_of_their_requests() {
    let world = World::new();
    let mut client = world.connect();
    client.call(&bind(b"", "/svc/web")).await;
    client.call(&dtab(b"", "default")).await;
    client.call(&dtab(b"", "other")).await;
    if let Ok(frame) = timeout(Duration::from_secs(10), client.frame()).await {
        panic!("heard {frame:?}");
    }
    world.fixture.serve("/web", &[]);
    assert!(client.reply().await.has("\x04bind"));
    assert!(client.reply().await.has("/svc=>/#/t"));
    assert!(client.reply().await.has("\x04dtab"));
}

#[tokio::test(start_paused = true)]
async fn a_client_of_the_old_form_is_understood_and_answered_in_the_new_one() {
    let world = World::new();
    let mut client = world.connect();
    let strict = dtab(b"", "default");
    let old = [&strict[4..12], &[1], &[0, 0, 0, 7], &strict[16..]].concat();
    client.call(&old).await;
    let answer = client.reply().await;
    assert_eq!(answer.0[..16], *b"\x80\x01\0\x02\0\0\0\x04dtab\0\0\0\x07");
}

#[tokio::test(start_paused = true)]
async fn finagles_headers_are_agreed_on_by_the_first_call_only() {
    let world = World::new();
    let upgrade = call("__can__finagle__trace__v3__", &[]);
    let mut client = world.connect();
    client.call(&upgrade).await;
    assert_eq!(client.reply().await.0[..], *b"\x80\x01\0\x02\0\0\0\x1b__can__finagle__trace__v3__\0\0\0\0\0");
    let header = [10, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0];
    client.call(&[&header[..], &dtab(b"", "default")].concat()).await;
    let answer = client.reply().await;
    assert_eq!(answer.0[..5], [0, 0x80, 1, 0, 2]);
    client.call(&[&[0][..], &upgrade].concat()).await;
    assert!(client.reply().await.has("Invalid method name"));
    client.call(b"\xff\xff").await;
    client.is_closed().await;
    let mut other = world.connect();
    other.call(&dtab(b"", "default")).await;
    other.reply().await;
    other.call(&upgrade).await;
    assert!(other.reply().await.is_exception());
}

#[tokio::test(start_paused = true)]
async fn what_has_no_answer_in_thrift_ends_the_connection() {
    let world = World::new();
    let mut client = world.connect();
    client.call(&dtab(b"", "default")).await;
    client.reply().await;
    client.io.write_all(b"\0\0\0\x0f\x7f\0\0\x01tinit check").await.expect("open");
    client.is_closed().await;
}

#[tokio::test(start_paused = true)]
async fn a_client_that_has_said_its_last_word_still_gets_its_answer() {
    let world = World::new();
    let mut client = world.connect();
    client.call(&dtab(b"", "default")).await;
    client.io.shutdown().await.expect("open");
    assert!(client.reply().await.has("/svc=>/#/t"));
    client.is_closed().await;
}

#[tokio::test(start_paused = true)]
async fn a_client_that_leaves_while_its_poll_waits_is_forgotten_whatever_it_sent_after_it() {
    let world = World::new();
    let mut client = world.connect();
    client.call(&bind(b"", "/svc/web")).await;
    for _ in 0..100 {
        client.call(&dtab(b"", "default")).await;
    }
    tokio::time::sleep(Duration::from_millis(10)).await;
    assert_eq!(world.server.topics.in_use(), 1);
    drop(client);
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(world.server.topics.in_use(), 0);
}
