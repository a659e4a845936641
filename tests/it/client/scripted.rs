//! Sessions that go by a script, and what the client makes of them.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use rosterd::client::{Connect, Failure, Reason, Stream, Timings};
use rosterd::mux::{Frame, Init, Message, Tag, take_frame, write_reply};
use rosterd::thrift::{self, result};
use rosterd::wire::Output;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::time::{Instant, sleep};

use super::loops::{A, SOON, until};
use super::namerd::set;
use super::{Client, holds};

/// Every connection is a session of this script, which begins after the handshake.
struct Scripted<F>(Arc<F>);

/// The server's end of a session.
struct Server {
    stream: DuplexStream,
    input: BytesMut,
}

#[async_trait]
impl<F, S> Connect for Scripted<F>
where
    F: Fn(Server) -> S + Send + Sync + 'static,
    S: Future<Output = Option<()>> + Send + 'static,
{
    async fn connect(&self, _: SocketAddr) -> Result<Box<dyn Stream>, Failure> {
        let (near, far) = duplex(64 << 10);
        let script = self.0.clone();
        tokio::spawn(async move {
            let mut server = Server { stream: far, input: BytesMut::new() };
            server.shake().await?;
            script(server).await
        });
        Ok(Box::new(near))
    }
}

fn client<F, S>(script: F) -> Client
where
    F: Fn(Server) -> S + Send + Sync + 'static,
    S: Future<Output = Option<()>> + Send + 'static,
{
    Client::new(Scripted(Arc::new(script)), Timings::default(), &[A])
}

impl Server {
    /// None: the client has closed.
    async fn hear(&mut self) -> Option<Message> {
        loop {
            if let Some(frame) = take_frame(&mut self.input, 1 << 20).ok()? {
                return Message::read(Frame::read(frame).ok()?).ok();
            }
            if self.stream.read_buf(&mut self.input).await.ok()? == 0 {
                return None;
            }
        }
    }

    async fn send(&mut self, mut out: Output) -> Option<()> {
        while !out.is_sent() {
            out.write_some(&mut self.stream).await.ok()?;
        }
        Some(())
    }

    async fn say(&mut self, message: &Message) -> Option<()> {
        let mut out = Output::default();
        message.write(&mut out);
        self.send(out).await
    }

    async fn shake(&mut self) -> Option<()> {
        let Message::Rerr { tag, reason } = self.hear().await? else { panic!("no probe") };
        self.say(&Message::Rerr { tag, reason }).await?;
        let Message::Tinit { tag, .. } = self.hear().await? else { panic!("no Tinit") };
        self.say(&Message::Rinit { tag, init: Init::plain() }).await
    }

    /// Answers pings, and gives the first call.
    async fn call(&mut self) -> Option<(Tag, Bytes)> {
        loop {
            match self.hear().await? {
                Message::Tping(tag) => self.say(&Message::Rping(tag)).await?,
                Message::Tdispatch { tag, payload } => return Some((tag, payload)),
                other => panic!("{other:?}"),
            }
        }
    }
}

/// The reply to a call for these addresses.
fn reply(tag: Tag, call: &Bytes, addrs: &[&str]) -> Output {
    let (mut head, mut out) = (BytesMut::new(), Output::default());
    thrift::reply_head(&mut head, b"addr", thrift::read_call(call).expect("a call").seqid);
    write_reply(&mut out, tag, usize::MAX, &head, result::addr(1, Some(&set(addrs)), true));
    out
}

#[tokio::test(start_paused = true)]
async fn a_server_that_does_nothing_but_close_is_told_and_not_asked_in_a_hurry() {
    let client = client(|server| async move {
        drop(server);
        None
    });
    let feed = client.addr("/#/fs/web");
    sleep(Duration::from_secs(60)).await;
    let closed = client.ends(Reason::Closed);
    assert!((5..=60).contains(&closed), "{closed}");
    assert_eq!(client.ends(Reason::Idle), 0, "nobody had used them");
    let page = client.upstream.page();
    let error = page["addr"]["/#/fs/web"]["poll"]["error"].as_str().expect("an error");
    assert!(error.contains("the connection"), "{page}"); // closed, or broken while it was written to
    assert_eq!(page["servers"][0]["error"], error, "the server is put aside: {page}");
    drop(feed);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_answers_once_and_closes_in_good_order_each_time_is_told() {
    let client = client(|mut server| async move {
        let (tag, call) = server.call().await?;
        server.send(reply(tag, &call, &["10.0.0.1:80"])).await?;
        // It closes before the next question.
        sleep(Duration::from_millis(1)).await;
        Some(())
    });
    let feed = client.addr("/#/fs/web");
    holds(&feed, &set(&["10.0.0.1:80"]), SOON).await;
    sleep(Duration::from_secs(60)).await;
    let failures = client.failures();
    assert!((10..=62).contains(&failures), "{failures}");
}

/// What a slow line carries: the answer to the ping comes behind many others, a little at a time.
#[tokio::test(start_paused = true)]
async fn a_server_whose_bytes_arrive_is_there_although_its_answer_to_a_ping_is_behind_them() {
    let client = client(|mut server| async move {
        let (tag, call) = server.call().await?;
        let addrs: Vec<String> = (0..500).map(|n| format!("10.0.{}.{}:80", n / 250, n % 250)).collect();
        let addrs: Vec<&str> = addrs.iter().map(String::as_str).collect();
        let mut bytes = Vec::new();
        let mut out = reply(tag, &call, &addrs);
        while !out.is_sent() {
            out.write_some(&mut bytes).await.ok()?;
        }
        let step = bytes.len() / 30;
        for piece in bytes.chunks(step) {
            sleep(Duration::from_secs(1)).await;
            server.stream.write_all(piece).await.ok()?;
        }
        // Here is the ping of those 30 seconds.
        loop {
            server.call().await?;
        }
    });
    let feed = client.addr("/#/fs/web");
    let began = Instant::now();
    until("the answer is there", Duration::from_secs(40), || feed.cell().snapshot().value().is_some()).await;
    assert!(began.elapsed() > Duration::from_secs(25), "it was slow");
    assert_eq!(client.failures(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_sends_bytes_and_answers_no_ping_is_left_in_the_end() {
    let client = client(|mut server| async move {
        server.call().await?;
        loop {
            // A message that means nothing to a client.
            server.say(&Message::Rdrain(Tag::CONTROL)).await?;
            sleep(Duration::from_secs(1)).await;
        }
    });
    let _feed = client.addr("/#/fs/web");
    until("it is left", Duration::from_secs(70), || client.ends(Reason::PingTimeout) == 1).await;
}
