//! Sockets that a supervisor has opened, as systemd passes them: `LISTEN_FDS`, `LISTEN_PID` and `LISTEN_FDNAMES`.

use listenfd::ListenFd;

use super::Inherited;

/// Takes what was passed to this process, and forgets that it was, so that no child believes that it is meant. Call it
/// before there are other threads: it changes the environment.
///
/// # Errors
/// One line: what is no listening TCP socket.
pub fn activated() -> Result<Inherited, String> {
    let names = std::env::var("LISTEN_FDNAMES").unwrap_or_default();
    let mut names = names.split(':');
    let mut passed = ListenFd::from_env();
    let mut inherited = Inherited::default();
    for place in 0..passed.len() {
        let name = match names.next() {
            None | Some("" | "unknown") => format!("socket {place} of the supervisor"),
            Some(name) => format!("socket {name} of the supervisor"),
        };
        let listener = passed.take_tcp_listener(place).map_err(|error| format!("{name}: {error}"))?;
        if let Some(listener) = listener {
            inherited.add(listener, None, name)?;
        }
    }
    Ok(inherited)
}
