//! An entry: the claims of one client on one key.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A point in time, in ticks of 100 ms. Only meaningful within one process: elsewhere times are told as ages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(u32);

/// How a watch stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Standing {
    /// Its poll waits, or was answered a moment ago.
    Live,
    /// It was cut, and is expected to come again: routers wait before they do.
    Late,
    /// It would have come again by now, if it were not for peers that cannot be asked.
    Unknown,
    /// It would have come again by now.
    Stopped,
}

/// How many watches there are, by how they stand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// [`Standing::Live`]
    pub live: usize,
    /// [`Standing::Late`]
    pub late: usize,
    /// [`Standing::Unknown`]
    pub unknown: usize,
    /// [`Standing::Stopped`]
    pub stopped: usize,
}

/// The claims of one client on one key.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    /// When it last changed, in the order of all changes.
    pub(super) seq: u64,
    pub(super) client: u32,
    pub(super) key: u32,
    /// When the newest of those fell silent; with several loops, since when one of them is missing.
    pub(super) silent_since: Moment,
    /// When the oldest and the newest of those were cut.
    pub(super) cut_since: Moment,
    pub(super) cut_newest: Moment,
    /// When a loop last came here that had been elsewhere, or nowhere.
    pub(super) arrived: Moment,
    /// When a claim last ended as it should: given up, or its session closed by the client.
    pub(super) ended: Moment,
    /// What peers saw until then has been used to explain suspects.
    pub(super) explained: Moment,
    /// Claims with a poll.
    pub(super) live: u16,
    /// Claims that were answered on a session that is still open, and not asked again.
    pub(super) silent: u16,
    /// Claims that were cut, or that were told a failure, after which a router waits.
    pub(super) cut: u16,
    /// So many loops are known to be different ones, since they waited at the same time: of several routers behind one
    /// address. Below two nothing follows from it.
    pub(super) loops: u8,
    pub(super) mark: Mark,
}

/// What is to be remembered of the suspects of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mark {
    /// Nothing.
    None,
    /// They were reported as stopped.
    Reported,
    /// Their client has closed its last session since: whether they will come again cannot be known.
    Parted,
}

const _: () = assert!(size_of::<Entry>() <= 48, "an entry takes 48 bytes at most");

// === impl Moment ===

impl Moment {
    /// When a process begins. There is room before it, for what happened in earlier ones.
    pub(super) const START: Self = Self(4 * 24 * 3_600 * Self::PER_SECOND);
    /// Before everything.
    pub(super) const NEVER: Self = Self(0);

    const PER_SECOND: u32 = 10;

    /// That much later.
    pub fn after(self, time: Duration) -> Self {
        Self(self.0.saturating_add(ticks(time)))
    }

    /// That much earlier.
    pub fn before(self, time: Duration) -> Self {
        Self(self.0.saturating_sub(ticks(time)))
    }

    /// How long ago that is, `self` being the present.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(u64::from(self.0.saturating_sub(earlier.0)) * 1_000 / u64::from(Self::PER_SECOND))
    }
}

fn ticks(time: Duration) -> u32 {
    u32::try_from(time.as_millis() * u128::from(Moment::PER_SECOND) / 1_000).unwrap_or(u32::MAX)
}

// === impl Standing ===

impl Standing {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Live, Self::Late, Self::Unknown, Self::Stopped];

    /// As pages and metrics call it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Live => "live",
            Self::Late => "late",
            Self::Unknown => "unknown",
            Self::Stopped => "stopped",
        }
    }
}

// === impl Counts ===

impl Counts {
    /// How many stand like this.
    pub fn of(self, standing: Standing) -> usize {
        match standing {
            Standing::Live => self.live,
            Standing::Late => self.late,
            Standing::Unknown => self.unknown,
            Standing::Stopped => self.stopped,
        }
    }

    pub(super) fn add(&mut self, standing: Standing, count: usize) {
        match standing {
            Standing::Live => self.live += count,
            Standing::Late => self.late += count,
            Standing::Unknown => self.unknown += count,
            Standing::Stopped => self.stopped += count,
        }
    }
}

// === impl Entry ===

impl Entry {
    pub(super) fn new(client: u32, key: u32) -> Self {
        Self {
            seq: 0,
            client,
            key,
            silent_since: Moment::NEVER,
            cut_since: Moment::NEVER,
            cut_newest: Moment::NEVER,
            arrived: Moment::NEVER,
            ended: Moment::NEVER,
            explained: Moment::NEVER,
            live: 0,
            silent: 0,
            cut: 0,
            loops: 0,
            mark: Mark::None,
        }
    }

    /// Has a loop come since then, and is it here or has it been given up?
    pub(super) fn came_after(&self, since: Moment) -> bool {
        self.live > 0 && self.arrived >= since || self.ended >= since
    }

    /// Is it known that several loops watch this key?
    pub(super) fn has_several(&self) -> bool {
        self.loops >= 2
    }

    /// So many loops waited at the same time.
    pub(super) fn are_different(&mut self, loops: u16) {
        self.loops = self.loops.max(u8::try_from(loops).unwrap_or(u8::MAX));
    }

    /// So many of them are known no longer. Where no two are left, of the claims that were judged by their number those
    /// remain that are missing for `certain`.
    pub(super) fn forget_loops(&mut self, count: u8, certain: u16) {
        if self.has_several() && self.loops.saturating_sub(count) < 2 {
            self.silent = self.silent.min(certain);
        }
        self.loops = self.loops.saturating_sub(count);
    }

    /// One more was cut, or told a failure, at `since`.
    pub(super) fn is_cut(&mut self, since: Moment) {
        let none = self.cut == 0;
        self.cut_since = if none { since } else { since.min(self.cut_since) };
        self.cut_newest = if none { since } else { since.max(self.cut_newest) };
        self.cut = self.cut.saturating_add(1);
    }

    /// One more was answered at `since` and not asked again.
    pub(super) fn is_silent(&mut self, since: Moment, failed: bool) {
        if failed {
            return self.is_cut(since);
        }
        if self.silent == 0 {
            self.silent_since = since;
        } else if !self.has_several() {
            self.silent_since = since.max(self.silent_since);
        }
        self.silent = self.silent.saturating_add(1);
    }

    /// So many of those that were cut have come again, or are known to have ended: perhaps the oldest ones.
    pub(super) fn has_come(&mut self, count: u16) {
        if count > 0 && self.cut > 0 {
            self.cut = self.cut.saturating_sub(count);
            self.cut_since = self.cut_newest;
        }
    }

    pub(super) fn is_suspect(&self) -> bool {
        self.silent > 0 || self.cut > 0
    }

    pub(super) fn is_empty(&self) -> bool {
        self.live == 0 && !self.is_suspect()
    }
}
