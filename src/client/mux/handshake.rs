//! The words with which a session begins (MuxClientNegotiatingSession.scala:91-158).

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncReadExt, ReadHalf, WriteHalf};

use crate::client::{Failure, Reason, Stream};
use crate::mux::{Frame, Init, Message, PROBE, Reassembly, Tag, Tls, take_frame};
use crate::runtime::guess;
use crate::wire::Output;

/// Bytes of one answer, or of all that are in pieces. Sets of addresses may be large.
pub(super) const MOST_BYTES: usize = 64 << 20;

/// Room for what is read at a time.
const READ: usize = 16 << 10;

/// A connection that carries messages.
pub(super) struct Wire {
    pub(super) reader: ReadHalf<Box<dyn Stream>>,
    pub(super) writer: WriteHalf<Box<dyn Stream>>,
    pub(super) input: BytesMut,
    pub(super) output: Output,
    pieces: Reassembly,
    /// The most bytes of a message that the server takes in one piece.
    pub(super) window: usize,
}

// === impl Wire ===

impl Wire {
    pub(super) fn new(stream: Box<dyn Stream>) -> Self {
        let (reader, writer) = tokio::io::split(stream);
        let (input, output) = (BytesMut::new(), Output::default());
        Self { reader, writer, input, output, pieces: Reassembly::new(MOST_BYTES), window: usize::MAX }
    }

    /// Makes room for what is to be read; to be called before each read.
    pub(super) fn reserve(&mut self) {
        self.input.reserve(READ);
    }

    /// The next message of what was read, if it is whole.
    pub(super) fn next_message(&mut self) -> Result<Option<Message>, Failure> {
        let unreadable = |why: String| Failure::new(Reason::Protocol, format!("not mux: {why}"));
        loop {
            let frame = match take_frame(&mut self.input, MOST_BYTES) {
                Ok(Some(frame)) => frame,
                Ok(None) => return Ok(None),
                Err(bad) => return Err(unreadable(format!("{bad}; {} is spoken there", guess(&self.input)))),
            };
            let frame = Frame::read(frame).and_then(|frame| self.pieces.take(frame));
            if let Some(frame) = frame.map_err(|bad| unreadable(bad.to_string()))? {
                return Message::read(frame).map(Some).map_err(|bad| unreadable(bad.to_string()));
            }
        }
    }

    async fn say(&mut self, message: &Message) -> Result<(), Failure> {
        message.write(&mut self.output);
        while !self.output.is_sent() {
            let written = self.output.write_some(&mut self.writer).await;
            written.map_err(|error| closed(Some(&error)))?;
        }
        Ok(())
    }

    async fn hear(&mut self) -> Result<Message, Failure> {
        loop {
            if let Some(message) = self.next_message()? {
                return Ok(message);
            }
            self.reserve();
            match self.reader.read_buf(&mut self.input).await {
                Ok(0) => return Err(closed(None)),
                Ok(_) => {}
                Err(error) => return Err(closed(Some(&error))),
            }
        }
    }
}

/// The connection has ended, or is broken.
pub(super) fn closed(error: Option<&std::io::Error>) -> Failure {
    let text = match error {
        None => "the server closed the connection".to_owned(),
        Some(error) => format!("the connection broke: {error}"),
    };
    Failure::new(Reason::Closed, text)
}

/// Asks whether the server negotiates, and does so if it does.
pub(super) async fn shake(wire: &mut Wire) -> Result<(), Failure> {
    let wrong = |failure: Failure| match failure.reason {
        Reason::Protocol => Failure::new(Reason::Handshake, failure.text),
        _ => failure,
    };
    let tag = Tag::CONTROL;
    wire.say(&Message::Rerr { tag, reason: Bytes::from_static(PROBE) }).await?;
    match wire.hear().await.map_err(wrong)? {
        Message::Rerr { reason, .. } if reason == PROBE => {}
        _ => return Ok(()), // a server that does not negotiate; it swallowed our question, and we its answer
    }
    wire.say(&Message::Tinit { tag, init: Init::plain() }).await?;
    let refused = |text: String| Failure::new(Reason::Handshake, text);
    match wire.hear().await.map_err(wrong)? {
        Message::Rinit { init, .. } if init.version == Init::VERSION && init.tls() != Tls::Required => {
            wire.window = init.window();
            Ok(())
        }
        Message::Rinit { init, .. } if init.version == Init::VERSION => {
            Err(refused("the server wants TLS within the session, which is not what `tls` gives".to_owned()))
        }
        Message::Rinit { init, .. } => Err(refused(format!("the server speaks version {} of mux", init.version))),
        Message::Rerr { reason, .. } => Err(refused(String::from_utf8_lossy(&reason).into_owned())),
        other => Err(refused(format!("a {:?} answers the handshake", other.kind()))),
    }
}
