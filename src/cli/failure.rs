//! Why a command did not do what it was asked to.

use std::fmt::Display;
use std::io;

use super::client::ClientError;

/// Ends a command with exit status 1.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    /// The server could not be asked, or refused.
    #[error("rosterd: {0}")]
    Client(#[from] ClientError),
    /// Standard output takes no more. A closed pipe is no failure: its reader has seen what it wanted.
    #[error("rosterd: cannot write to standard output: {0}")]
    Output(#[from] io::Error),
    /// A text is wrong; the lines say where.
    #[error("{0}")]
    Text(String),
    /// Anything else.
    #[error("rosterd: {0}")]
    Other(String),
}

impl Failure {
    /// A failure in one sentence that names the thing, the place and the remedy.
    pub(super) fn other(sentence: impl Display) -> Self {
        Self::Other(sentence.to_string())
    }

    /// Whether only the reader of standard output has left.
    pub(super) fn is_closed_pipe(&self) -> bool {
        matches!(self, Self::Output(error) if error.kind() == io::ErrorKind::BrokenPipe)
    }
}
