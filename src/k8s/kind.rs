//! What somebody wants to know of objects, and where it goes.

use std::sync::Arc;

use super::{Resource, Select};
use crate::store::Reason;

/// Reads objects of one or several resources as values that are kept by group: a service and its slices, for example.
pub trait Kind: Send + Sync + 'static {
    /// What is kept of an object.
    type Value: Send + Sync + 'static;

    /// The resources that have the same to say, the preferred one first: the next is asked where one is forbidden or
    /// unknown.
    fn sources(&self) -> &[Resource];

    /// The objects of one group.
    fn select(&self, resource: Resource, group: &str) -> Select;

    /// Reads an object.
    ///
    /// # Errors
    /// It is not what objects of this resource look like.
    fn read(&self, resource: Resource, object: &[u8]) -> Result<Object<Self::Value>, Unread>;
}

/// What is kept of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Object<T> {
    /// Its name.
    pub name: Box<str>,
    /// Its version, which only the server understands.
    pub version: Option<Box<str>>,
    /// The group it belongs to; none if to no group.
    pub group: Option<Box<str>>,
    /// The rest.
    pub value: T,
}

/// Why an object gave no value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unread(pub String);

/// Who wants to know about a group. Called under the lock of its namespace: what is done must be short, must not block
/// and must not ask anything of the namespace.
pub trait Room<T>: Send + Sync + 'static {
    /// All there is of the group now, in order of the objects' names. Says whether readers see something new.
    fn publish(&self, members: &[Arc<T>]) -> bool;

    /// What is known cannot be kept current, and this is why.
    fn fail(&self, reason: Reason);
}
