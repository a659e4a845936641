//! The kernel's notices of changes in directories.
//!
//! A watch descriptor stands for the directory itself and not for its path: watching a path again tells at once
//! whether another directory stands there now.

use std::path::Path;

/// One notice.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Notice {
    /// An entry of a watched directory changed.
    Entry {
        /// The directory.
        wd: i32,
        /// The entry's name.
        name: Box<[u8]>,
        /// What happened to it.
        change: Change,
    },
    /// The watched directory itself was moved, removed or unmounted.
    Moved(i32),
    /// The watch has ended.
    Ended(i32),
    /// Notices were lost.
    Lost,
}

/// What happened to an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// It was made; a file is empty then, and its writer at work.
    Made {
        /// Is it a directory?
        directory: bool,
    },
    /// Somebody writes to it.
    Writing,
    /// A writer has closed it.
    Written,
    /// It came by rename, complete.
    MovedIn,
    /// It was removed or renamed.
    Gone,
    /// Its permissions, times or the like changed.
    Attributes,
}

impl Change {
    /// The word of the state page, which is Java's.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Made { .. } | Self::MovedIn => "ENTRY_CREATE",
            Self::Writing | Self::Written | Self::Attributes => "ENTRY_MODIFY",
            Self::Gone => "ENTRY_DELETE",
        }
    }
}

#[cfg(not(target_os = "linux"))]
pub(super) use other::{Notices, Watches, is_watch_limit, open};

#[cfg(target_os = "linux")]
pub(super) use linux::{Notices, Watches, is_watch_limit, open};

#[cfg(target_os = "linux")]
mod linux {
    use std::collections::HashMap;
    use std::io;
    use std::os::unix::ffi::OsStrExt;
    use std::sync::Arc;

    use futures_util::{FutureExt, StreamExt};
    use inotify::{EventMask, EventOwned, EventStream, Inotify, WatchDescriptor, WatchMask};
    use parking_lot::Mutex;
    use rustix::io::Errno;

    use super::{Change, Notice, Path};

    /// How many notices are taken in one go.
    const BATCH: usize = 4096;

    /// Where notices come from. The watches go with it.
    pub(in super::super) struct Notices {
        stream: EventStream<Vec<u8>>,
        first: Option<io::Result<EventOwned>>,
    }

    /// The watches of one [`Notices`].
    #[derive(Clone)]
    pub(in super::super) struct Watches {
        watches: inotify::Watches,
        descriptors: Arc<Mutex<HashMap<i32, WatchDescriptor>>>,
    }

    /// Opens an instance. Must be called within a runtime.
    ///
    /// # Errors
    /// The kernel's, EMFILE at the limit `fs.inotify.max_user_instances`.
    pub(in super::super) fn open() -> io::Result<(Notices, Watches)> {
        let stream = Inotify::init()?.into_event_stream(vec![0; 8192])?;
        let watches = Watches { watches: stream.watches(), descriptors: Arc::default() };
        Ok((Notices { stream, first: None }, watches))
    }

    impl Watches {
        /// Watches a directory. The same directory always has the same descriptor.
        ///
        /// # Errors
        /// The kernel's, ENOSPC at the limit `fs.inotify.max_user_watches`.
        pub(in super::super) fn add(&mut self, directory: &Path) -> io::Result<i32> {
            // Reading and opening are left out: rosterd's own reads must not be news.
            let mask = WatchMask::CREATE
                | WatchMask::MODIFY
                | WatchMask::CLOSE_WRITE
                | WatchMask::ATTRIB
                | WatchMask::MOVED_FROM
                | WatchMask::MOVED_TO
                | WatchMask::DELETE
                | WatchMask::DELETE_SELF
                | WatchMask::MOVE_SELF
                | WatchMask::ONLYDIR;
            let descriptor = self.watches.add(directory, mask)?;
            let wd = descriptor.get_watch_descriptor_id();
            self.descriptors.lock().insert(wd, descriptor);
            Ok(wd)
        }

        /// Ends a watch.
        pub(in super::super) fn remove(&mut self, wd: i32) {
            if let Some(descriptor) = self.descriptors.lock().remove(&wd) {
                // It fails only for a watch that the kernel has ended already.
                let _ = self.watches.remove(descriptor);
            }
        }
    }

    impl Notices {
        /// Waits until there are notices. Cancel safe.
        pub(in super::super) async fn wait(&mut self) {
            if self.first.is_none() {
                self.first = self.stream.next().await;
            }
            if self.first.is_none() {
                // The stream has no end; if it had, nobody must be woken for ever.
                std::future::pending().await
            }
        }

        /// Takes the notices that are there, or some of them.
        ///
        /// # Errors
        /// The kernel's; no further notices come then.
        pub(in super::super) fn take(&mut self) -> io::Result<Vec<Notice>> {
            let mut notices = Vec::new();
            while notices.len() < BATCH {
                let next = self.first.take().or_else(|| self.stream.next().now_or_never().flatten());
                let Some(event) = next else { break };
                notices.extend(notice(event?));
            }
            Ok(notices)
        }
    }

    /// Is the error the limit on watches?
    pub(in super::super) fn is_watch_limit(error: &io::Error) -> bool {
        error.raw_os_error() == Some(Errno::NOSPC.raw_os_error())
    }

    fn notice(event: EventOwned) -> Option<Notice> {
        let (wd, mask) = (event.wd.get_watch_descriptor_id(), event.mask);
        if mask.contains(EventMask::Q_OVERFLOW) {
            return Some(Notice::Lost);
        }
        if mask.contains(EventMask::IGNORED) {
            return Some(Notice::Ended(wd));
        }
        // Without a name it is about the directory itself, of which the attributes decide whether it can be searched.
        let Some(name) = event.name else { return Some(Notice::Moved(wd)) };
        let change = if mask.contains(EventMask::CREATE) {
            Change::Made { directory: mask.contains(EventMask::ISDIR) }
        } else if mask.contains(EventMask::MOVED_TO) {
            Change::MovedIn
        } else if mask.contains(EventMask::CLOSE_WRITE) {
            Change::Written
        } else if mask.contains(EventMask::MODIFY) {
            Change::Writing
        } else if mask.intersects(EventMask::DELETE | EventMask::MOVED_FROM) {
            Change::Gone
        } else {
            Change::Attributes
        };
        Some(Notice::Entry { wd, name: name.as_bytes().into(), change })
    }
}

/// Other systems have no such notices; there the files are polled.
#[cfg(not(target_os = "linux"))]
mod other {
    use std::io;

    use super::{Notice, Path};

    pub(in super::super) struct Notices;

    #[derive(Clone)]
    pub(in super::super) struct Watches;

    pub(in super::super) fn open() -> io::Result<(Notices, Watches)> {
        Err(io::ErrorKind::Unsupported.into())
    }

    impl Watches {
        pub(in super::super) fn add(&mut self, _: &Path) -> io::Result<i32> {
            Err(io::ErrorKind::Unsupported.into())
        }

        pub(in super::super) fn remove(&mut self, _: i32) {}
    }

    impl Notices {
        pub(in super::super) async fn wait(&mut self) {
            std::future::pending().await
        }

        pub(in super::super) fn take(&mut self) -> io::Result<Vec<Notice>> {
            Ok(Vec::new())
        }
    }

    pub(in super::super) fn is_watch_limit(_: &io::Error) -> bool {
        false
    }
}
