//! Any bytes as what a client sends: the server answers or refuses, and how the bytes are cut on their way is no matter.

use std::net::SocketAddr;
use std::sync::{Arc, LazyLock};

use rosterd::http1::{Request, Response, Server, Service, serve};
use rosterd::runtime::{Drain, Phase};
use rosterd::telemetry::{Legacy, ServerStats};
use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex, join};
use tokio::runtime::{Builder, Runtime};

const MOST_BODY: usize = 1 << 10;

/// One for all inputs: making its metrics takes longer than serving.
static SERVER: LazyLock<Arc<Server>> = LazyLock::new(|| {
    let stats = ServerStats::new(Legacy::default().scope("s"));
    Arc::new(Server::new(MOST_BODY, stats, Drain::new(), Phase::Close))
});

/// Says what it was asked.
struct Echo;

impl Service for Echo {
    async fn call(&self, request: Request) -> Response {
        assert!(request.body.len() <= MOST_BODY);
        assert!(request.path().is_ascii() && !request.path().contains(['?', ' ']));
        let target = String::from_utf8_lossy(request.target());
        let headers = request.header_values("accept").count();
        let answer = format!("{} {target} {headers} {:?}", request.method(), request.body);
        Response::with_body(200, answer).header("Content-Type", "text/plain")
    }
}

pub fn run(data: &[u8]) {
    let whole = answers(data, data.len().max(1));
    assert!(whole.is_empty() || whole.starts_with(b"HTTP/1."), "{:?}", String::from_utf8_lossy(&whole));
    // Now a byte at a time, now some; more would only take longer.
    let piece = data.len() / 64 + 1 + data.len() % 13;
    let pieces = answers(data, piece);
    assert!(whole == pieces, "{:?}\n{:?}", String::from_utf8_lossy(&whole), String::from_utf8_lossy(&pieces));
}

/// What the server says to a client that sends `data` in pieces and then nothing more.
fn answers(data: &[u8], piece: usize) -> Vec<u8> {
    thread_local! {
        static RUNTIME: Runtime = Builder::new_current_thread().enable_time().build().expect("a runtime");
    }
    RUNTIME.with(|runtime| runtime.block_on(conversation(data, piece)))
}

async fn conversation(data: &[u8], piece: usize) -> Vec<u8> {
    // A window of one piece hands over each before the next.
    let (requests, mut sender) = duplex(piece);
    let (mut receiver, replies) = duplex(1 << 16);
    let serving = serve(join(requests, replies), SocketAddr::from(([192, 0, 2, 1], 1)), Arc::new(Echo), SERVER.clone());
    let sending = async {
        // The server may have closed already, which is its answer.
        let _ = sender.write_all(data).await;
        let _ = sender.shutdown().await;
    };
    let mut answers = Vec::new();
    let (_, _, read) = tokio::join!(serving, sending, receiver.read_to_end(&mut answers));
    read.expect("memory does not fail");
    answers
}
