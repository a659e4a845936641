//! The end of a connection whose last bytes are to arrive.

use std::io;
use std::time::Duration;

use bytes::BytesMut;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;

/// How long, and how much, is read over after the last answer.
const LINGER: Duration = Duration::from_secs(1);
const LINGER_BYTES: usize = 256 << 10;

/// Closes our side, and reads on for a moment: a socket that is closed with something unread is reset, and the reset
/// overtakes the answer.
pub async fn linger(io: &mut (impl AsyncRead + AsyncWrite + Unpin)) {
    let lingering = async {
        io.shutdown().await?;
        let (mut over, mut read) = (BytesMut::with_capacity(4 << 10), 0);
        while read < LINGER_BYTES {
            over.clear();
            match io.read_buf(&mut over).await? {
                0 => break,
                more => read += more,
            }
        }
        io::Result::Ok(())
    };
    let _ = timeout(LINGER, lingering).await;
}
