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

/// SIGTERM and SIGINT begin the drain that ends the process. Once it is on its way, whoever began it, SIGTERM changes nothing (an orchestrator
/// may send several), and SIGINT or SIGQUIT, which people send, end the process at once.
///
/// # Errors
/// The handlers cannot be installed.
pub fn handle_signals(drain: Drain) -> io::Result<AbortOnDropHandle<()>> {
    let (terminate, interrupt, quit) =
        (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?, signal(SignalKind::quit())?);
    Ok(AbortOnDropHandle::new(tokio::spawn(handle(drain, terminate, interrupt, quit))))
}

async fn handle(drain: Drain, mut terminate: Signal, mut interrupt: Signal, mut quit: Signal) {
    loop {
        let (name, status) = tokio::select! {
            Some(()) = terminate.recv() => ("SIGTERM", None),
            Some(()) = interrupt.recv() => ("SIGINT", Some(INTERRUPTED)),
            Some(()) = quit.recv() => ("SIGQUIT", Some(QUIT)),
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
