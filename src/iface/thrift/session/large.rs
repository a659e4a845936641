//! Large requests need room, which all sessions of the interface share: nobody is to fill the memory by announcing
//! megabytes, or by sending them in pieces. No router sends such requests.

use std::fmt;
use std::pin::Pin;

use tokio::io::{AsyncRead, AsyncWrite};

use super::{End, Session, times};
use crate::wire::{Room, Taken};

/// Room for what is being received.
#[derive(Default)]
pub(super) enum Receiving {
    /// It is small.
    #[default]
    Small,
    /// Nothing more is read until there is room.
    Waiting(Pin<Box<dyn Future<Output = Option<Taken>> + Send>>),
    /// There is.
    Large(Taken),
}

// === impl Receiving ===

impl Receiving {
    pub(super) fn is_waiting(&self) -> bool {
        matches!(self, Self::Waiting(_))
    }

    /// Waits for room. Cancel safe.
    pub(super) async fn room(&mut self) -> Option<Taken> {
        match self {
            Self::Waiting(room) => room.as_mut().await,
            Self::Small | Self::Large(_) => std::future::pending().await,
        }
    }
}

impl fmt::Debug for Receiving {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Small => "Small",
            Self::Waiting(_) => "Waiting",
            Self::Large(_) => "Large",
        })
    }
}

// === impl Session ===

impl<IO: AsyncRead + AsyncWrite + Unpin + Send> Session<IO> {
    /// Asks for room if what has begun is large.
    pub(super) fn look_for_room(&mut self) {
        let announced = self.input.first_chunk().map_or(0, |length| u32::from_be_bytes(*length) as usize);
        let bytes = match self.reassembly.bytes() {
            // What it comes to shows only at its end.
            pieces if pieces > Room::LARGE => self.server.most_bytes,
            _ => announced,
        };
        if bytes > Room::LARGE && matches!(self.receiving, Receiving::Small) {
            let room = self.server.room.clone();
            self.receiving = Receiving::Waiting(Box::pin(async move { room.take(bytes).await }));
        }
    }

    /// There is room, or none for too long.
    pub(super) fn has_received_room(&mut self, taken: Option<Taken>) -> Result<(), End> {
        self.receiving = Receiving::Large(taken.ok_or(End::TimedOut(times::NO_ROOM))?);
        Ok(())
    }

    /// The room of a request that is whole; it stays taken until the request was read.
    pub(super) fn take_room(&mut self) -> Option<Taken> {
        if self.reassembly.bytes() > 0 {
            return None; // it may be for another one, of which there are pieces
        }
        match std::mem::take(&mut self.receiving) {
            Receiving::Large(taken) => Some(taken),
            Receiving::Small | Receiving::Waiting(_) => None,
        }
    }
}
