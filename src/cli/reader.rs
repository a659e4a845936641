//! Whether anybody still reads what a command that never ends by itself would write.

use std::os::fd::AsFd;
use std::thread;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tokio::sync::oneshot;

/// How soon the thread below notices that nobody waits for it any more.
const TURN: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };

/// Returns when the reading end of the pipe `output` is closed, so that `rosterd watch … | head -1` ends with its one
/// line. Never returns for what is no pipe.
pub(super) async fn gone(output: impl AsFd + Send + 'static) {
    let (gone, told) = oneshot::channel();
    // A thread, since a descriptor that is not ours alone cannot be handed to the runtime.
    let spawned = thread::Builder::new().name("reader".to_owned()).spawn(move || {
        while !gone.is_closed() {
            let mut events = [PollFd::new(&output, PollFlags::empty())];
            match poll(&mut events, Some(&TURN)) {
                Ok(0) | Err(rustix::io::Errno::INTR) => {}
                Ok(_) if events[0].revents().intersects(PollFlags::ERR | PollFlags::HUP) => {
                    // Nobody waits any more when this fails.
                    let _ = gone.send(());
                    return;
                }
                Ok(_) | Err(_) => return,
            }
        }
    });
    if spawned.is_ok() && told.await.is_ok() {
        return;
    }
    std::future::pending().await
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;

    #[tokio::test]
    async fn a_pipe_without_reader_is_noticed_without_writing() {
        let (reader, writer) = std::io::pipe().unwrap();
        let mut gone = std::pin::pin!(gone(writer));
        assert!(timeout(Duration::from_millis(50), &mut gone).await.is_err(), "the reader is there");
        drop(reader);
        timeout(Duration::from_secs(5), gone).await.expect("the reader is gone");
    }

    #[tokio::test]
    async fn a_file_always_has_a_reader() {
        let file = std::fs::File::open("Cargo.toml").unwrap();
        assert!(timeout(Duration::from_millis(50), gone(file)).await.is_err());
    }
}
