//! Large requests need room, which all sessions of the interface share: nobody is to fill the memory by announcing
//! megabytes, or by sending them in pieces. No router sends such requests.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncWrite};

use super::{End, Session, times};
use crate::mux::peek_frame;
use crate::wire::{Room, Taken};

/// What is not larger than this needs no room: a router's requests have a few hundred bytes, and 10,000 connections may
/// each have begun with one.
const SMALL: usize = 2 << 10;

/// Room for what is being received.
#[derive(Default)]
pub(super) enum Receiving {
    /// It is small.
    #[default]
    Small,
    /// Nothing more is read until there is room for so many bytes.
    Waiting { bytes: usize, room: Pin<Box<dyn Future<Output = Option<Taken>> + Send>>, _had: Option<Arc<Taken>> },
    /// There is.
    Large { bytes: usize, room: Arc<Taken> },
}

// === impl Receiving ===

impl Receiving {
    pub(super) fn is_waiting(&self) -> bool {
        matches!(self, Self::Waiting { .. })
    }

    /// Is there room for something large?
    pub(super) fn is_large(&self) -> bool {
        matches!(self, Self::Large { .. })
    }

    /// For how much there is room, or is going to be.
    fn bytes(&self) -> usize {
        match self {
            Self::Small => 0,
            Self::Waiting { bytes, .. } | Self::Large { bytes, .. } => *bytes,
        }
    }

    /// The room that was taken; a request shares it until it was read.
    pub(super) fn share(&self) -> Option<Arc<Taken>> {
        match self {
            Self::Large { room, .. } => Some(room.clone()),
            Self::Small | Self::Waiting { .. } => None,
        }
    }

    /// Waits for room. Cancel safe.
    pub(super) async fn room(&mut self) -> Option<Taken> {
        match self {
            Self::Waiting { room, .. } => room.as_mut().await,
            Self::Small | Self::Large { .. } => std::future::pending().await,
        }
    }
}

impl fmt::Debug for Receiving {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Small => "Small",
            Self::Waiting { .. } => "Waiting",
            Self::Large { .. } => "Large",
        })
    }
}

// === impl Session ===

impl<IO: AsyncRead + AsyncWrite + Unpin + Send> Session<IO> {
    /// Asks for room if what has begun is large.
    pub(super) fn look_for_room(&mut self) {
        let bytes = self.needs_room();
        if bytes <= self.receiving.bytes() {
            return;
        }
        // Whoever holds all room for the large ones does not keep those from being served that are hardly large.
        let room = if bytes > Room::LARGE { &self.server.room } else { &self.server.small_room }.clone();
        let had = self.receiving.share();
        let room = Box::pin(async move { room.take(bytes).await });
        self.receiving = Receiving::Waiting { bytes, room, _had: had };
    }

    /// How much room what has begun needs: the frame that is next, and the messages of which there are pieces.
    fn needs_room(&self) -> usize {
        let (announced, is_piece) = self.announced();
        let pieces = self.reassembly.bytes() + if is_piece { announced } else { 0 };
        // What pieces come to shows only at their end.
        let pieces = if pieces <= SMALL {
            0
        } else if pieces <= Room::LARGE {
            Room::LARGE
        } else {
            self.server.most_bytes.max(announced)
        };
        pieces.max(if announced > SMALL { announced } else { 0 })
    }

    /// The bytes of a frame that is not whole, and whether it is a piece of a message.
    fn announced(&self) -> (usize, bool) {
        match peek_frame(&self.input) {
            Some((bytes, is_piece)) if bytes > self.input.len() => (bytes, is_piece && !self.dialect.is_plain()),
            Some(_) | None => (0, false), // or it is here already
        }
    }

    /// There is room, or none for too long.
    pub(super) fn has_received_room(&mut self, taken: Option<Taken>) -> Result<(), End> {
        let room = Arc::new(taken.ok_or(End::TimedOut(times::NO_ROOM))?);
        self.receiving = Receiving::Large { bytes: self.receiving.bytes(), room };
        Ok(())
    }

    /// A frame was dealt with, whatever it was. Its room is given back, unless there are pieces in it.
    pub(super) fn frame_is_over(&mut self) {
        if self.reassembly.bytes() <= SMALL {
            self.receiving = Receiving::Small;
        }
    }
}
