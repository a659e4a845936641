//! Calls over HTTP/2, in the words of the recordings.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use h2::client::SendRequest;
use http::{HeaderMap, Method, Request};
use tokio::net::TcpStream;

/// A call takes this long at most; loaded machines are slow.
const PATIENCE: Duration = Duration::from_secs(20);

/// A connection.
pub struct Caller {
    send: SendRequest<Bytes>,
}

/// An open call.
pub struct Call {
    pub status: u16,
    body: h2::RecvStream,
    input: BytesMut,
}

/// What comes next on a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    Message(Bytes),
    /// `grpc-status` and `grpc-message`.
    End(u16, String),
    Reset,
}

impl Caller {
    pub async fn connect(port: u16) -> Self {
        let io = TcpStream::connect(SocketAddr::from(([127, 0, 0, 1], port))).await.expect("the port is served");
        // As Linkerd 1: more room for the connection than for a stream.
        let mut builder = h2::client::Builder::new();
        builder.initial_connection_window_size(20 << 20);
        let (send, connection) = builder.handshake(io).await.expect("HTTP/2 is spoken");
        tokio::spawn(connection);
        Self { send }
    }

    /// `body` is all of it, with the heads of messages.
    pub async fn call(&self, method: &str, path: &str, body: Bytes) -> Call {
        let request = Request::builder().method(Method::from_bytes(method.as_bytes()).expect("a method"));
        let request = request.uri(format!("http://mesh{path}")).header("content-type", "application/grpc+proto");
        let mut send = self.send.clone().ready().await.expect("there is room");
        let (response, mut stream) = send.send_request(request.body(()).expect("a request"), false).expect("sent");
        drop(stream.send_data(body, true)); // the answer may be there, and the rest be unwanted
        let response = within(response).await.expect("a head");
        assert_eq!(response.headers()["content-type"], "application/grpc+proto");
        Call { status: response.status().as_u16(), body: response.into_body(), input: BytesMut::new() }
    }
}

impl Call {
    pub async fn next(&mut self) -> Next {
        loop {
            if let Some(length) = self.input.get(1..5) {
                let length = u32::from_be_bytes(length.try_into().expect("four")) as usize;
                if self.input.len() >= 5 + length {
                    assert_eq!(self.input[0], 0, "not compressed");
                    self.input.advance(5);
                    return Next::Message(self.input.split_to(length).freeze());
                }
            }
            match within(self.body.data()).await {
                Some(Ok(data)) => {
                    self.body.flow_control().release_capacity(data.len()).expect("as much as came");
                    self.input.extend_from_slice(&data);
                }
                Some(Err(_)) => return Next::Reset,
                None => match within(self.body.trailers()).await {
                    Ok(Some(trailers)) => return end(&trailers),
                    _ => return Next::Reset,
                },
            }
        }
    }

    /// Reads to the end and gives no room back.
    pub async fn held_back(&mut self) -> Next {
        while let Some(data) = within(self.body.data()).await {
            if data.is_err() {
                return Next::Reset;
            }
        }
        within(self.body.trailers()).await.ok().flatten().as_ref().map_or(Next::Reset, end)
    }

    /// That nothing comes for a while.
    pub async fn silent(&mut self) -> bool {
        tokio::time::timeout(Duration::from_millis(50), self.body.data()).await.is_err()
    }
}

fn end(trailers: &HeaderMap) -> Next {
    let status = trailers["grpc-status"].to_str().expect("digits").parse().expect("a number");
    let message = trailers.get("grpc-message").map(|message| message.as_bytes()).unwrap_or_default();
    Next::End(status, percent_encoding::percent_decode(message).decode_utf8_lossy().into_owned())
}

pub async fn within<F: Future>(future: F) -> F::Output {
    tokio::time::timeout(PATIENCE, future).await.expect("in time")
}
