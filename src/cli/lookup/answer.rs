//! What servers answer to bind, resolve and delegate.

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::cli::dtab::Entry;

/// A node of the tree that bind or delegate answer with; bind gives neither path nor dentry.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub(super) struct Node {
    /// What was looked up here.
    pub(super) path: Option<String>,
    /// The entry that led here.
    pub(super) dentry: Option<Entry>,
    /// What came of it.
    #[serde(flatten)]
    pub(super) kind: Kind,
}

/// The kinds of nodes.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub(super) enum Kind {
    Delegate { delegate: Box<Node> },
    Leaf { bound: Bound },
    Alt { alt: Vec<Node> },
    Union { union: Vec<Branch> },
    Neg,
    Fail,
    Empty,
    Exception { message: Option<String> },
    Transformation { name: String, tree: Box<Node> },
}

/// A branch of a union.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub(super) struct Branch {
    pub(super) weight: f64,
    pub(super) tree: Node,
}

/// A bound name.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub(super) struct Bound {
    pub(super) addr: Addr,
    /// Missing where the name has no path.
    pub(super) id: Option<String>,
    /// The residual path.
    pub(super) path: String,
}

/// An address set, or why there is none.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub(in crate::cli) enum Addr {
    Bound {
        addrs: Vec<Address>,
        #[serde(default)]
        meta: Map<String, Value>,
    },
    Neg,
    Pending,
    Failed {
        cause: Option<String>,
    },
}

/// One address.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub(in crate::cli) struct Address {
    pub(in crate::cli) ip: String,
    pub(in crate::cli) port: u16,
    #[serde(default)]
    pub(super) meta: Map<String, Value>,
}

/// What a router gets from a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// A name, or the certainty that there are no addresses: a leaf or an empty.
    Found,
    /// Nothing; an alternative goes on to its next branch.
    Neg,
    /// Nothing, and no other branch is tried.
    Fail,
    /// The lookup failed.
    Error,
}

impl Node {
    /// What a router gets, by the rules of binding.
    pub(super) fn outcome(&self) -> Outcome {
        match &self.kind {
            Kind::Leaf { .. } | Kind::Empty => Outcome::Found,
            Kind::Neg => Outcome::Neg,
            Kind::Fail => Outcome::Fail,
            Kind::Exception { .. } => Outcome::Error,
            Kind::Delegate { delegate: tree } | Kind::Transformation { tree, .. } => tree.outcome(),
            Kind::Alt { alt } => {
                alt.iter().map(Self::outcome).find(|outcome| *outcome != Outcome::Neg).unwrap_or(Outcome::Neg)
            }
            // A union of nothing but `!` and `~` comes to nothing.
            Kind::Union { union } => {
                union.iter().fold(Outcome::Neg, |sum, branch| match (sum, branch.tree.outcome()) {
                    (Outcome::Found, _) | (_, Outcome::Found) => Outcome::Found,
                    (Outcome::Error, _) | (_, Outcome::Error) => Outcome::Error,
                    (sum, Outcome::Neg | Outcome::Fail) => sum,
                })
            }
        }
    }

    /// The leaves, first to last.
    pub(super) fn leaves(&self) -> Vec<&Bound> {
        let mut leaves = Vec::new();
        self.collect(&mut leaves);
        leaves
    }

    fn collect<'a>(&'a self, leaves: &mut Vec<&'a Bound>) {
        match &self.kind {
            Kind::Leaf { bound } => leaves.push(bound),
            Kind::Delegate { delegate: tree } | Kind::Transformation { tree, .. } => tree.collect(leaves),
            Kind::Alt { alt } => alt.iter().for_each(|tree| tree.collect(leaves)),
            Kind::Union { union } => union.iter().for_each(|branch| branch.tree.collect(leaves)),
            Kind::Neg | Kind::Fail | Kind::Empty | Kind::Exception { .. } => {}
        }
    }
}
