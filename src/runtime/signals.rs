//! Signals.

use std::io;
use std::process;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::task::AbortOnDropHandle;

use super::Drain;
use super::drain::Request;

/// Exit status when the second signal ends the process: 128 and the number of the signal.
const INTERRUPTED: i32 = 130;
const QUIT: i32 = 131;

/// Signals that have to be waited for, since each of them would end a process that does not.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
    quit: Signal,
    hang_up: Signal,
    user1: Signal,
    user2: Signal,
}

/// SIGTERM and SIGINT begin the drain that ends the process. Once it is on its way, whoever began it, SIGTERM changes
/// nothing (an orchestrator may send several), and SIGINT or SIGQUIT, which people send, end the process at once. SIGHUP,
/// SIGUSR1 and SIGUSR2 are sent to all kinds of servers for all kinds of reasons, and change nothing.
///
/// # Errors
/// The handlers cannot be installed.
pub fn handle_signals(drain: Drain) -> io::Result<AbortOnDropHandle<()>> {
    let signals = Signals {
        terminate: signal(SignalKind::terminate())?,
        interrupt: signal(SignalKind::interrupt())?,
        quit: signal(SignalKind::quit())?,
        hang_up: signal(SignalKind::hangup())?,
        user1: signal(SignalKind::user_defined1())?,
        user2: signal(SignalKind::user_defined2())?,
    };
    Ok(AbortOnDropHandle::new(tokio::spawn(handle(drain, signals))))
}

async fn handle(drain: Drain, mut on: Signals) {
    loop {
        let (name, status) = tokio::select! {
            Some(()) = on.terminate.recv() => ("SIGTERM", None),
            Some(()) = on.interrupt.recv() => ("SIGINT", Some(INTERRUPTED)),
            Some(()) = on.quit.recv() => ("SIGQUIT", Some(QUIT)),
            Some(()) = on.hang_up.recv() => {
                tracing::info!("SIGHUP ignored: files are read again as they change, except the configuration; a new one \
                                takes another process (--take-over)");
                continue;
            }
            Some(()) = on.user1.recv() => {
                tracing::info!("SIGUSR1 ignored: it means nothing here");
                continue;
            }
            Some(()) = on.user2.recv() => {
                tracing::info!("SIGUSR2 ignored: it means nothing here");
                continue;
            }
            else => return, // the runtime is ending
        };
        match status {
            // The JVM prints its threads on SIGQUIT and goes on, so this must not be the end of the process.
            Some(QUIT) if !drain.is_ending() => tracing::info!("SIGQUIT ignored: no drain has begun"),
            Some(status) if drain.is_ending() => {
                tracing::warn!("{name} during the drain: exit at once");
                process::exit(status);
            }
            _ if drain.request(Request::end(name)) => {}
            _ => tracing::info!("{name} ignored: the drain is on its way"),
        }
    }
}
