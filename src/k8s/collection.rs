//! Objects by name and by group.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use super::Object;

/// What is known of some objects of a namespace.
#[derive(Debug)]
pub(super) struct Collection<T> {
    objects: HashMap<Box<str>, Kept<T>>,
    groups: HashMap<Box<str>, BTreeSet<Box<str>>>,
}

#[derive(Debug)]
struct Kept<T> {
    group: Option<Box<str>>,
    value: Arc<T>,
}

// === impl Collection ===

impl<T> Default for Collection<T> {
    fn default() -> Self {
        Self { objects: HashMap::new(), groups: HashMap::new() }
    }
}

impl<T> Collection<T> {
    /// These and no others; of those in `unread` what is known stays.
    pub(super) fn replace(&mut self, objects: Vec<Object<T>>, unread: &HashSet<Box<str>>) {
        let before = std::mem::take(self);
        for object in objects {
            self.apply(object);
        }
        for (name, kept) in before.objects {
            if unread.contains(&name) {
                self.insert(name, kept);
            }
        }
    }

    /// One object is like this now. Returns the groups that are concerned: the one it was in, and the one it is in.
    pub(super) fn apply(&mut self, object: Object<T>) -> [Option<Box<str>>; 2] {
        let Object { name, version: _, group, value } = object;
        let before = self.remove(&name);
        self.insert(name, Kept { group: group.clone(), value: Arc::new(value) });
        [before.filter(|before| Some(before) != group.as_ref()), group]
    }

    /// One object is gone. Returns the group that it was in.
    pub(super) fn remove(&mut self, name: &str) -> Option<Box<str>> {
        let group = self.objects.remove(name)?.group?;
        if let Some(names) = self.groups.get_mut(&group) {
            names.remove(name);
            if names.is_empty() {
                self.groups.remove(&group);
            }
        }
        Some(group)
    }

    /// All of a group, in order of the names.
    pub(super) fn members(&self, group: &str) -> Vec<Arc<T>> {
        let names = self.groups.get(group).into_iter().flatten();
        names.filter_map(|name| Some(self.objects.get(name)?.value.clone())).collect()
    }

    fn insert(&mut self, name: Box<str>, kept: Kept<T>) {
        if let Some(group) = &kept.group {
            self.groups.entry(group.clone()).or_default().insert(name.clone());
        }
        self.objects.insert(name, kept);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(name: &str, group: &str, value: u32) -> Object<u32> {
        let group = (!group.is_empty()).then(|| group.into());
        Object { name: name.into(), version: None, group, value }
    }

    fn members(collection: &Collection<u32>, group: &str) -> Vec<u32> {
        collection.members(group).iter().map(|value| **value).collect()
    }

    #[test]
    fn an_object_that_moves_leaves_its_old_group() {
        let mut collection = Collection::default();
        collection.replace(vec![object("b", "web", 2), object("a", "web", 1), object("x", "", 9)], &HashSet::new());
        assert_eq!(members(&collection, "web"), [1, 2]);
        assert_eq!(collection.apply(object("a", "shop", 1)), [Some("web".into()), Some("shop".into())]);
        assert_eq!((members(&collection, "web"), members(&collection, "shop")), (vec![2], vec![1]));
        assert_eq!(collection.apply(object("a", "shop", 3)), [None, Some("shop".into())]);
        assert_eq!(collection.remove("a"), Some("shop".into()));
        assert_eq!(collection.remove("a"), None);
        assert!(members(&collection, "shop").is_empty() && collection.groups.len() == 1);
    }

    #[test]
    fn a_new_state_takes_everything_else_away_but_what_could_not_be_read() {
        let mut collection = Collection::default();
        collection.replace(vec![object("a", "web", 1), object("b", "web", 2), object("c", "web", 3)], &HashSet::new());
        collection.replace(vec![object("a", "web", 7)], &HashSet::from(["c".into(), "d".into()]));
        assert_eq!(members(&collection, "web"), [7, 3]);
    }
}
