//! gRPC over an HTTP/2 stream: reading a request, writing messages as the client's window allows, trailers.

use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use h2::server::SendResponse;
use h2::{Reason, RecvStream, SendStream};
use http::{HeaderMap, HeaderValue, Response};
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use prost::Message;

use super::method::{Code, Status};
use super::{Limit, Server};

/// As much as a client may send before it is given more room.
pub(super) const FIRST_WINDOW: u32 = 65_535;

/// The compression flag and the length before each message.
const HEAD: usize = 5;

/// A request must be there after this time.
const READ_WITHIN: Duration = Duration::from_secs(10);

/// What is not written as it is in `grpc-message`, besides all that is not ASCII.
const ESCAPED: &AsciiSet = &CONTROLS.add(b'%');

/// Why a stream is over before its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Gone {
    /// The client has reset it, or the connection is over.
    Client,
    /// The client had no room for a value for too long.
    Stalled,
}

/// The answering half of a call.
#[derive(Debug)]
pub(super) struct Answering {
    stream: SendStream<Bytes>,
}

/// A message with its head.
pub(super) fn framed(message: &impl Message) -> Bytes {
    let length = message.encoded_len();
    let mut out = BytesMut::with_capacity(HEAD + length);
    out.put_u8(0);
    // Nothing that is sent comes near to 4 GiB.
    out.put_u32(u32::try_from(length).unwrap_or(u32::MAX));
    out.put(message.encode_to_vec().as_slice());
    out.freeze()
}

/// Reads a request. What fits in the first window is given back to the client's window only when all is there, so that
/// the requests of a connection that are being read are bounded by its own window.
///
/// # Errors
/// It is not one message, is too large, or takes too long.
pub(super) async fn read(body: &mut RecvStream, server: &Server) -> Result<Bytes, Status> {
    let internal = |text| Status::new(Code::Internal, text);
    let all = tokio::time::timeout(READ_WITHIN, collect(body, server));
    let all = all.await.map_err(|_| Status::new(Code::Unavailable, "the request did not arrive in time"))??;
    let Some((head, rest)) = all.split_first_chunk::<HEAD>() else { return Err(internal("too short for header")) };
    if head[0] != 0 {
        return Err(internal("compressed"));
    }
    let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
    if rest.len() < length {
        return Err(internal("too short for frame"));
    }
    Ok(all.slice(HEAD..HEAD + length)) // what follows is ignored, as in namerd
}

async fn collect(body: &mut RecvStream, server: &Server) -> Result<Bytes, Status> {
    let gone = |_| Status::new(Code::Unavailable, "the request was broken off");
    let (mut all, mut kept, mut place) = (BytesMut::new(), 0, None);
    while let Some(data) = body.data().await {
        let data = data.map_err(gone)?;
        if all.len() + data.len() > server.most_bytes {
            server.limits.refused(Limit::BodyBytes);
            let text = format!("the request has more than {} bytes ({})", server.most_bytes, Limit::BodyBytes);
            return Err(Status::new(Code::ResourceExhausted, text));
        }
        all.extend_from_slice(&data);
        kept += data.len();
        if all.len() > FIRST_WINDOW as usize / 2 {
            if place.is_none() {
                place = server.large.acquire().await.ok();
            }
            drop(body.flow_control().release_capacity(std::mem::take(&mut kept)));
        }
    }
    drop(body.flow_control().release_capacity(kept));
    Ok(all.freeze())
}

// === impl Answering ===

impl Answering {
    /// Sends the head, at once and whatever follows: a Linkerd 1 does not read the status of a stream without one.
    pub(super) fn begin(mut respond: SendResponse<Bytes>) -> Result<Self, Gone> {
        let mut response = Response::new(());
        response.headers_mut().insert("content-type", HeaderValue::from_static("application/grpc+proto"));
        let stream = respond.send_response(response, false).map_err(|_| Gone::Client)?;
        Ok(Self { stream })
    }

    /// Ends when the client has reset the stream, or the connection is over. Cancel safe.
    pub(super) async fn reset(&mut self) {
        drop(std::future::poll_fn(|cx| self.stream.poll_reset(cx)).await);
    }

    /// Hands a message over for writing, as the client's window and the connection allow. If that takes longer than
    /// `stall`, with no progress in between, the stream is reset: its client opens another, with a fresh window.
    pub(super) async fn message(&mut self, mut bytes: Bytes, stall: Duration) -> Result<(), Gone> {
        while !bytes.is_empty() {
            self.stream.reserve_capacity(bytes.len());
            let room = tokio::time::timeout(stall, std::future::poll_fn(|cx| self.stream.poll_capacity(cx)));
            match room.await {
                Ok(Some(Ok(0))) => {}
                Ok(Some(Ok(room))) => {
                    let part = bytes.split_to(room.min(bytes.len()));
                    self.stream.send_data(part, false).map_err(|_| Gone::Client)?;
                }
                Ok(_) => return Err(Gone::Client),
                Err(_) => {
                    // Trailers would wait behind what is blocked.
                    self.stream.send_reset(Reason::CANCEL);
                    return Err(Gone::Stalled);
                }
            }
        }
        Ok(())
    }

    /// Ends the stream with a status.
    pub(super) fn end(mut self, status: &Status) {
        let mut trailers = HeaderMap::new();
        trailers.insert("grpc-status", HeaderValue::from(status.code as u16));
        if !status.message.is_empty() {
            let message = utf8_percent_encode(&status.message, ESCAPED).to_string();
            if let Ok(message) = HeaderValue::try_from(message) {
                trailers.insert("grpc-message", message);
            }
        }
        drop(self.stream.send_trailers(trailers));
    }
}
