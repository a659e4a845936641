//! Certificates are renewed while the process runs: files are read again, and new handshakes are made with the new ones.
//!
//! The content is compared, not times or notices, since it is small, and this holds for files that are written in
//! place, replaced by rename or reached through links that are swapped (as Kubernetes does it), on any file system.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};

use tokio::time::{MissedTickBehavior, interval};
use tokio_util::task::AbortOnDropHandle;

use super::certificate::Now;
use super::load::{Files, Loaded, Trouble, Troubles};
use super::{Server, date};
use crate::runtime::heavy;

/// Between two looks at the files. What is new counts once two looks have seen the same: a certificate and its key are
/// not written at the same moment.
pub(super) const PERIOD: Duration = Duration::from_secs(2);

/// Looks after the files of these servers for as long as the handle lives.
pub fn keep_current(servers: Vec<Arc<Server>>) -> AbortOnDropHandle<()> {
    AbortOnDropHandle::new(tokio::spawn(async move {
        let mut lookouts: Vec<Lookout> = servers.iter().map(Lookout::at).collect();
        let mut ticks = interval(PERIOD);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        while !lookouts.is_empty() {
            ticks.tick().await;
            let looked = heavy(move || {
                lookouts.iter_mut().for_each(Lookout::look);
                lookouts
            });
            // After a panic, which has been logged.
            lookouts = looked.await.unwrap_or_else(|| servers.iter().map(Lookout::at).collect());
        }
    }))
}

/// Looks after the files of one server.
#[derive(Debug)]
pub(super) struct Lookout {
    server: Arc<Server>,
    seen: Seen<Files>,
    valid: Now,
}

/// What the last look saw, unless that is what is in use.
#[derive(Debug)]
pub(super) struct Seen<F> {
    last: Option<Result<F, Troubles>>,
    /// Has that been judged?
    judged: bool,
}

/// What a look comes to.
#[derive(Debug)]
pub(super) enum Look<F> {
    /// The files are those in use.
    InUse,
    /// Two looks have seen the same, for the first time.
    Settled(Result<F, Troubles>),
    /// Nothing that is new.
    Nothing,
}

// === impl Seen ===

impl<F> Default for Seen<F> {
    fn default() -> Self {
        Self { last: None, judged: false }
    }
}

impl<F: Clone + PartialEq> Seen<F> {
    /// Judges what a look has found.
    pub(super) fn look(&mut self, found: Result<F, Troubles>, in_use: Option<&F>) -> Look<F> {
        if in_use.is_some() && found.as_ref().ok() == in_use {
            self.last = None;
            return Look::InUse;
        }
        if self.last.as_ref() != Some(&found) {
            (self.last, self.judged) = (Some(found), false);
            return Look::Nothing;
        }
        if std::mem::replace(&mut self.judged, true) { Look::Nothing } else { Look::Settled(found) }
    }
}

// === impl Lookout ===

impl Lookout {
    pub(super) fn at(server: &Arc<Server>) -> Self {
        let valid = server.current().validity.at(SystemTime::now());
        Self { server: server.clone(), seen: Seen::default(), valid }
    }

    /// Blocks while it reads.
    pub(super) fn look(&mut self) {
        let current = self.server.current();
        match self.seen.look(Files::read(&current.block), Some(&current.files)) {
            Look::InUse => {
                if self.server.refused.lock().take().is_some() {
                    tracing::info!(server = self.server.key, "TLS: the files are again those that are in use");
                }
            }
            Look::Settled(found) => match found.and_then(|files| Loaded::load(current.block.clone(), files)) {
                Ok((loaded, warnings)) => self.use_it(loaded.speaking(current.alpn), &warnings),
                Err(troubles) => self.refuse(&troubles),
            },
            Look::Nothing => {}
        }
        self.mind_the_clock();
    }

    fn use_it(&mut self, loaded: Loaded, warnings: &[Trouble]) {
        let (server, subject) = (&self.server, loaded.subject.clone());
        let not_after = date(loaded.validity.not_after);
        *server.current.write() = Arc::new(loaded);
        *server.refused.lock() = None;
        server.renewals.fetch_add(1, Ordering::Relaxed);
        tracing::info!(server = server.key, subject, not_after, "TLS: files have changed, new handshakes use them");
        for Trouble { key, message } in warnings {
            tracing::warn!(server = server.key, key, "TLS: {message}");
        }
    }

    fn refuse(&mut self, troubles: &[Trouble]) {
        let why: Vec<&str> = troubles.iter().map(|trouble| trouble.message.as_str()).collect();
        let why = why.join("; ");
        self.server.refusals.fetch_add(1, Ordering::Relaxed);
        // First, so that whoever has read the line finds it so.
        *self.server.refused.lock() = Some(why.clone());
        tracing::error!(
            server = self.server.key,
            "TLS: files have changed and are not used, the old ones go on: {why}"
        );
    }

    /// Tells once that the certificate in use has expired.
    fn mind_the_clock(&mut self) {
        let validity = self.server.current().validity;
        let now = validity.at(SystemTime::now());
        if now == Now::Expired && self.valid != Now::Expired {
            let not_after = date(validity.not_after);
            tracing::error!(
                server = self.server.key,
                not_after,
                "TLS: the certificate has expired, no client accepts it any more; renew it, the files are read again"
            );
        }
        self.valid = now;
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use rcgen::date_time_ymd;

    use super::super::Renewals;
    use super::super::testing::{Authority, block, load, server};
    use super::*;

    #[test]
    fn what_cannot_be_used_leaves_the_old_certificate_and_is_told_until_it_is_mended() {
        let (authority, folder, server) = server(|_| ());
        let (mut lookout, old) = (Lookout::at(&server), server.current());
        fs::write(folder.path().join("cert.pem"), "nonsense").expect("the folder is writable");
        for _ in 0..5 {
            lookout.look();
        }
        assert!(Arc::ptr_eq(&server.current(), &old));
        assert_eq!(server.renewals(), Renewals { used: 0, refused: 1 });
        let told = server.degradation().expect("told");
        assert!(
            told.starts_with("renewed files are not used: ") && told.contains("cert.pem: this is not PEM"),
            "{told}"
        );
        authority.issue(|_| ()).write_to(folder.path());
        lookout.look();
        lookout.look();
        assert_eq!((server.renewals(), server.degradation()), (Renewals { used: 1, refused: 1 }, None));
        assert!(!Arc::ptr_eq(&server.current(), &old));
    }

    #[test]
    fn a_certificate_whose_key_is_not_written_yet_is_waited_for() {
        let (authority, folder, server) = server(|_| ());
        let mut lookout = Lookout::at(&server);
        let new = authority.issue(|_| ());
        fs::write(folder.path().join("cert.pem"), &new.certificate).expect("the folder is writable");
        lookout.look();
        fs::write(folder.path().join("key.pem"), &new.key).expect("the folder is writable");
        lookout.look();
        lookout.look();
        assert_eq!(server.renewals(), Renewals { used: 1, refused: 0 });
    }

    #[test]
    fn files_that_are_gone_for_a_while_are_told_and_forgotten_when_they_are_back() {
        let (_, folder, server) = server(|_| ());
        let mut lookout = Lookout::at(&server);
        let (here, away) = (folder.path().join("key.pem"), folder.path().join("away"));
        fs::rename(&here, &away).expect("it is there");
        lookout.look();
        lookout.look();
        assert!(server.degradation().expect("told").contains("key.pem: cannot be read"));
        fs::rename(&away, &here).expect("it is there");
        lookout.look();
        assert_eq!((server.degradation(), server.renewals()), (None, Renewals { used: 0, refused: 1 }));
    }

    #[test]
    fn folders_whose_link_is_swapped_are_followed() {
        let (authority, root) = (Authority::new(), tempfile::tempdir().expect("a folder"));
        for folder in ["one", "two"] {
            let folder = root.path().join(folder);
            fs::create_dir(&folder).expect("the folder is writable");
            authority.issue(|_| ()).write_to(&folder);
        }
        let (data, next) = (root.path().join("..data"), root.path().join("next"));
        symlink("one", &data).expect("the folder is writable");
        let (loaded, _) = load(block(&data)).expect("good");
        let server = Server::new("admin".to_owned(), loaded);
        let mut lookout = Lookout::at(&server);
        symlink("two", &next).and_then(|()| fs::rename(&next, &data)).expect("the folder is writable");
        lookout.look();
        lookout.look();
        assert_eq!(server.renewals(), Renewals { used: 1, refused: 0 });
    }

    #[test]
    fn a_certificate_that_has_expired_is_told() {
        let (authority, folder, server) = server(|_| ());
        let mut lookout = Lookout::at(&server);
        authority.issue(|params| params.not_after = date_time_ymd(2001, 2, 3)).write_to(folder.path());
        lookout.look();
        lookout.look();
        assert_eq!(server.degradation().as_deref(), Some("the certificate has expired (2001-02-03T00:00:00.000Z)"));
        assert_eq!(server.not_after(), 981_158_400);
    }
}
