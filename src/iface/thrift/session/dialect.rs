//! What a client speaks, which its first frame decides.

use bytes::Bytes;

use super::{End, Fault, Session};
use crate::iface::thrift::metrics::Counted;
use crate::mux::{Frame, Init, Kind, Message, PROBE, Tag, Tls};
use tokio::io::{AsyncRead, AsyncWrite};

const THRIFT: &str = "thrift";
const MUX: &str = "mux";
const NEGOTIATING: &str = "mux_negotiating";
const NEGOTIATED: &str = "mux_negotiated";

/// What sessions speak, in metrics.
pub(in crate::iface::thrift) const DIALECTS: [&str; 4] = [THRIFT, MUX, NEGOTIATING, NEGOTIATED];

/// What finagle says to a client that insists on TLS within the session (MuxServerNegotiator.scala:90-115).
const NO_TLS: &str = "Could not negotiate whether to use TLS or not.. Remote Info: Not Available";

/// What a client speaks.
#[derive(Debug)]
pub(super) enum Dialect {
    /// It has not said a word.
    Unknown,
    /// Mux. It has asked whether we know `Tinit`, and is about to send it or not.
    Probed { _counted: Counted },
    /// Mux.
    Mux {
        /// After a handshake.
        negotiated: bool,
        /// Most bytes of a message in one piece.
        window: usize,
        _counted: Counted,
    },
    /// Thrift messages in frames.
    Plain {
        /// Has its first message been answered?
        begun: bool,
        /// With finagle's headers.
        upgraded: bool,
        _counted: Counted,
    },
}

// === impl Dialect ===

impl Dialect {
    /// May its client be sent a message of mux that is no answer?
    pub(super) fn is_mux(&self) -> bool {
        matches!(self, Self::Mux { .. })
    }

    pub(super) fn is_plain(&self) -> bool {
        matches!(self, Self::Plain { .. })
    }

    pub(super) fn is_negotiated(&self) -> bool {
        matches!(self, Self::Mux { negotiated: true, .. })
    }

    pub(super) fn is_upgraded(&self) -> bool {
        matches!(self, Self::Plain { upgraded: true, .. })
    }

    /// Most bytes of a message in one piece.
    pub(super) fn window(&self) -> usize {
        match self {
            Self::Mux { window, .. } => *window,
            Self::Unknown | Self::Probed { .. } | Self::Plain { .. } => usize::MAX,
        }
    }
}

// === impl Session ===

impl<IO: AsyncRead + AsyncWrite + Unpin + Send> Session<IO> {
    /// Deals with the first frame, which decides (MuxDowngradingNegotiator.scala:85-125).
    pub(super) fn first_frame(&mut self, bytes: Bytes) -> Result<(), End> {
        let is_call = matches!(bytes[..], [0x80, 1, 0, 1 | 4, ..]); // as mux this would be an Rerr with a large tag
        let is_mux = bytes.first().is_some_and(|first| Kind::of(first.cast_signed()).is_some());
        if is_call || !is_mux {
            self.server.plain_connects.inc();
            let counted = self.server.metrics.session(THRIFT);
            self.speaks(Dialect::Plain { begun: false, upgraded: false, _counted: counted });
            return self.plain_frame(bytes);
        }
        let frame = Frame::read(bytes).map_err(|_| End::Foreign("something else"))?;
        if let Kind::Rerr | Kind::OldRerr = frame.kind
            && frame.body == PROBE
        {
            Message::Rerr { tag: frame.tag, reason: frame.body }.write(&mut self.output);
            self.dialect = Dialect::Probed { _counted: self.server.metrics.session(NEGOTIATING) };
            self.times.expect_handshake();
            return Ok(());
        }
        self.without_handshake(frame)
    }

    /// Deals with the frame after the probe.
    pub(super) fn after_probe(&mut self, frame: Frame) -> Result<(), End> {
        if frame.kind != Kind::Tinit {
            return self.without_handshake(frame);
        }
        match Message::read(frame).map_err(Fault::Message)? {
            Message::Tinit { tag, init } => self.handshake(tag, &init),
            _ => Ok(()), // cannot be: a Tinit is read as one
        }
    }

    fn without_handshake(&mut self, frame: Frame) -> Result<(), End> {
        self.server.mux_connects.inc();
        let counted = self.server.metrics.session(MUX);
        self.speaks(Dialect::Mux { negotiated: false, window: usize::MAX, _counted: counted });
        self.mux_frame(frame)
    }

    fn handshake(&mut self, tag: Tag, init: &Init) -> Result<(), End> {
        if init.version != Init::VERSION {
            let reason = format!("Unsupported Mux version: {}", init.version);
            Message::Rerr { tag, reason: reason.into() }.write(&mut self.output);
            return Err(Fault::Handshake("a version of mux that is not known").into());
        }
        Message::Rinit { tag, init: Init::plain() }.write(&mut self.output);
        if init.tls() == Tls::Required {
            Message::Rerr { tag, reason: NO_TLS.into() }.write(&mut self.output);
            return Err(Fault::Handshake("TLS within the session is required").into());
        }
        self.server.mux_connects.inc();
        let counted = self.server.metrics.session(NEGOTIATED);
        self.speaks(Dialect::Mux { negotiated: true, window: init.window(), _counted: counted });
        Ok(())
    }

    fn speaks(&mut self, dialect: Dialect) {
        self.dialect = dialect;
        self.times.handshake_is_over();
        self.begin_watching();
        self.begin_leaving();
    }
}
