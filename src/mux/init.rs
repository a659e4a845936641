//! What a handshake says: version and headers.

use bytes::Bytes;

/// `Tinit` and `Rinit`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Init {
    /// The version of the protocol.
    pub version: u16,
    /// Keys and values, in any order; those that are not known are ignored.
    pub headers: Vec<(Bytes, Bytes)>,
}

/// What a peer says about TLS that begins within the session. (That of the configuration begins with the first byte
/// and does not show here.)
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tls {
    /// It has none.
    Off,
    /// It could.
    Desired,
    /// It must.
    Required,
}

const FRAMER: &[u8] = b"mux-framer";
const TLS: &[u8] = b"tls";

// === impl Init ===

impl Init {
    /// The only version there is.
    pub const VERSION: u16 = 1;

    /// What a peer says that takes messages of any size in one piece and has no TLS of its own.
    pub fn plain() -> Self {
        let headers = [(FRAMER, &i32::MAX.to_be_bytes()[..]), (TLS, b"off")];
        let headers = headers.map(|(key, value)| (Bytes::from_static(key), Bytes::copy_from_slice(value)));
        Self { version: Self::VERSION, headers: headers.into() }
    }

    /// So many bytes of a message at most does the peer take in one piece. Without the header, or with a senseless
    /// value, any number.
    pub fn window(&self) -> usize {
        let window = self.header(FRAMER).and_then(|value| value.try_into().ok()).map(i32::from_be_bytes);
        window.filter(|window| *window > 0).and_then(|window| usize::try_from(window).ok()).unwrap_or(usize::MAX)
    }

    /// What it says about TLS; values that are not known count as off (OpportunisticTls.scala:42-57).
    pub fn tls(&self) -> Tls {
        match self.header(TLS) {
            Some(b"required") => Tls::Required,
            Some(b"desired") => Tls::Desired,
            _ => Tls::Off,
        }
    }

    fn header(&self, key: &[u8]) -> Option<&[u8]> {
        self.headers.iter().find(|(known, _)| known == key).map(|(_, value)| &value[..])
    }
}
