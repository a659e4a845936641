//! What a supervisor such as systemd is told, over the socket that `NOTIFY_SOCKET` names (`Type=notify`): that the process
//! serves, what is wrong, that it ends, and after a hand-over which process is the one to look after.

use std::time::Duration;

use sd_notify::NotifyState;
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::task::AbortOnDropHandle;

use super::{Drain, Readiness, ReadyState, Seldom, Way};

/// How often it is looked whether something else is to be said.
const EVERY: Duration = Duration::from_secs(1);
/// Bytes of a status; a supervisor shows one line.
const MOST_BYTES: usize = 500;

/// Says how the process is until that is dropped: `READY=1` when it is ready, `STATUS=` with what is missing or degraded
/// when that changes, `STOPPING=1` when it is told to end. None where no supervisor listens. A process that was taken over
/// says nothing any more: the unit is the new one's. Must be called within a runtime.
pub fn tell_supervisor(readiness: Readiness, drain: Drain) -> Option<AbortOnDropHandle<()>> {
    std::env::var_os("NOTIFY_SOCKET").filter(|path| !path.is_empty())?;
    Some(AbortOnDropHandle::new(tokio::spawn(async move {
        tokio::select! {
            biased;
            () = drain.handed_over() => {}
            () = tell(readiness, &drain) => {}
        }
    })))
}

/// Says that this process is the main one of its service from now on, in place of the one that started it.
pub async fn tell_main_process() {
    say(Some(NotifyState::MainPid(std::process::id())), "took over").await;
}

async fn tell(readiness: Readiness, drain: &Drain) {
    let mut ticks = interval(EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (mut said, mut is_ready, mut is_stopping) = (String::new(), false, false);
    loop {
        tokio::select! {
            _ = ticks.tick() => {}
            _ = drain.told_to_end(), if !is_stopping => {}
            () = readiness.ready(), if !is_ready => {}
        }
        if drain.is_handed_over() {
            return; // told to end at the same moment, or a moment before
        }
        let state = readiness.state();
        let is_ending = drain.way() == Some(Way::End);
        // Told to end it drains, even if readiness has not been told yet.
        let status = if is_ending { "draining".to_owned() } else { status(&state) };
        let news = if is_ending && !std::mem::replace(&mut is_stopping, true) {
            Some(NotifyState::Stopping)
        } else if matches!(state, ReadyState::Ready(_)) && !std::mem::replace(&mut is_ready, true) {
            Some(NotifyState::Ready)
        } else if status != said {
            None
        } else {
            continue;
        };
        say(news, &status).await;
        said = status;
    }
}

fn status(state: &ReadyState) -> String {
    let text = match state {
        ReadyState::Starting(missing) => format!("starting: waiting for {}", missing.join(", ")),
        ReadyState::Ready(degraded) if degraded.is_empty() => "serving".to_owned(),
        ReadyState::Ready(degraded) => format!("serving, degraded: {}", degraded.join("; ")),
        ReadyState::Draining => "draining".to_owned(),
    };
    // A line ends what is said.
    let line = text.replace(char::is_control, " ");
    line[..line.floor_char_boundary(MOST_BYTES)].to_owned()
}

async fn say(news: Option<NotifyState<'static>>, status: &str) {
    static COMPLAINTS: std::sync::LazyLock<Seldom> = std::sync::LazyLock::new(|| Seldom::new(Duration::from_secs(60)));
    let status = status.to_owned();
    // A supervisor that does not read makes this wait.
    let said = tokio::task::spawn_blocking(move || {
        let status = NotifyState::Status(&status);
        sd_notify::notify(&news.into_iter().chain([status]).collect::<Vec<_>>())
    });
    if let Ok(Err(error)) = said.await
        && COMPLAINTS.due().is_some()
    {
        tracing::warn!(%error, "the supervisor cannot be told how it is with the process (NOTIFY_SOCKET)");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_one_line_of_bounded_length() {
        assert_eq!(
            status(&ReadyState::Starting(vec!["storage a".into(), "b".into()])),
            "starting: waiting for storage a, b"
        );
        let degraded = status(&ReadyState::Ready(vec!["x: a\nMAINPID=1".into(), "y".repeat(1_000)]));
        assert!(degraded.starts_with("serving, degraded: x: a MAINPID=1; yy") && degraded.len() == MOST_BYTES);
    }
}
