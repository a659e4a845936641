//! Whom a change in a watched directory concerns.

use std::collections::HashMap;

use smallvec::SmallVec;

use super::walk::Place;
use crate::name::Path as Name;

/// Ids in ascending order.
type Ids = SmallVec<[u64; 2]>;

/// Which ids depend on which entries of which watched directories.
#[derive(Debug, Default)]
pub(super) struct Interest {
    directories: HashMap<i32, Directory>,
}

#[derive(Debug, Default)]
struct Directory {
    entries: HashMap<Box<[u8]>, Ids>,
    whole: Ids,
    /// The name under which the state page shows it.
    shown: Option<Name>,
}

impl Interest {
    /// Replaces what `id` depends on. Returns the directories that nobody depends on any more.
    pub(super) fn replace(&mut self, id: u64, old: &[Place], new: &[Place]) -> Vec<i32> {
        for place in new.iter().filter(|place| !old.contains(place)) {
            let directory = self.directories.entry(place.wd).or_default();
            let ids = match &place.name {
                Some(name) => directory.entries.entry(name.clone()).or_default(),
                None => &mut directory.whole,
            };
            if let Err(at) = ids.binary_search(&id) {
                ids.insert(at, id);
            }
        }
        old.iter().filter(|place| !new.contains(place)).filter_map(|place| self.remove(id, place)).collect()
    }

    fn remove(&mut self, id: u64, place: &Place) -> Option<i32> {
        let directory = self.directories.get_mut(&place.wd)?;
        match &place.name {
            None => drop_id(&mut directory.whole, id),
            Some(name) => {
                if let Some(ids) = directory.entries.get_mut(name) {
                    drop_id(ids, id);
                    if ids.is_empty() {
                        directory.entries.remove(name);
                    }
                }
            }
        }
        let unused = directory.whole.is_empty() && directory.entries.is_empty();
        unused.then(|| self.directories.remove(&place.wd)).map(|_| place.wd)
    }

    /// Does anybody depend on a directory?
    pub(super) fn knows(&self, wd: i32) -> bool {
        self.directories.contains_key(&wd)
    }

    /// Under which name the state page shows a directory.
    pub(super) fn show(&mut self, wd: i32, name: Name) {
        if let Some(directory) = self.directories.get_mut(&wd) {
            directory.shown = Some(name);
        }
    }

    /// The name under which the state page shows a directory.
    pub(super) fn shown(&self, wd: i32) -> Option<&Name> {
        self.directories.get(&wd)?.shown.as_ref()
    }

    /// Who depends on an entry.
    pub(super) fn of(&self, wd: i32, entry: &[u8]) -> Vec<u64> {
        self.directories
            .get(&wd)
            .and_then(|directory| directory.entries.get(entry))
            .map_or_else(Vec::new, |ids| ids.to_vec())
    }

    /// Who depends on which entries there are.
    pub(super) fn of_list(&self, wd: i32) -> Vec<u64> {
        self.directories.get(&wd).map_or_else(Vec::new, |directory| directory.whole.to_vec())
    }

    /// Who depends on anything in a directory.
    pub(super) fn of_all(&self, wd: i32) -> Vec<u64> {
        let Some(directory) = self.directories.get(&wd) else { return Vec::new() };
        directory.whole.iter().chain(directory.entries.values().flatten()).copied().collect()
    }

    /// Forgets everything: its watches are gone.
    pub(super) fn clear(&mut self) {
        self.directories.clear();
    }
}

fn drop_id(ids: &mut Ids, id: u64) {
    if let Ok(at) = ids.binary_search(&id) {
        ids.remove(at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(wd: i32, name: &str) -> Place {
        Place { wd, name: Some(name.as_bytes().into()) }
    }

    #[test]
    fn a_change_concerns_those_who_passed_the_entry() {
        let mut interest = Interest::default();
        let whole = Place { wd: 1, name: None };
        interest.replace(7, &[], &[place(1, "a"), place(2, "x")]);
        interest.replace(3, &[], &[place(1, "a"), place(2, "y")]);
        interest.replace(5, &[], std::slice::from_ref(&whole));
        assert_eq!(interest.of(1, b"a"), [3, 7]);
        assert_eq!(interest.of(2, b"y"), [3]);
        assert_eq!(interest.of(1, b"b"), [0; 0]);
        assert_eq!(interest.of_list(1), [5]);
        assert_eq!(interest.of_all(1), [5, 3, 7]);
    }

    #[test]
    fn a_directory_is_let_go_when_nobody_depends_on_it() {
        let mut interest = Interest::default();
        interest.replace(1, &[], &[place(1, "a"), place(2, "x")]);
        interest.replace(2, &[], &[place(1, "a")]);
        assert_eq!(interest.replace(1, &[place(1, "a"), place(2, "x")], &[place(1, "a"), place(3, "x")]), [2]);
        assert_eq!(interest.replace(1, &[place(1, "a"), place(3, "x")], &[]), [3]);
        assert_eq!(interest.replace(2, &[place(1, "a")], &[]), [1]);
        assert!(interest.directories.is_empty());
    }
}
