//! `storage:` of the configuration: the kinds there are, and the keys that all of them have.

use super::StorageConfig;
use super::consul::ConsulConfig;
use super::memory::MemoryConfig;
use crate::config::tree::Node;
use crate::config::{Fields, Kind, Report};

/// All kinds of storages. A new one is a new folder and a line here.
pub const KINDS: &[Kind<Box<dyn StorageConfig>>] = &[
    Kind::built("io.l5d.inMemory", |fields| Some(Box::new(MemoryConfig::read(fields)?))),
    Kind::not_yet("io.l5d.zk"),
    Kind::not_yet("io.l5d.etcd").experimental(),
    Kind::built("io.l5d.consul", |fields| Some(Box::new(ConsulConfig::read(fields)?))),
    Kind::not_yet("io.l5d.k8s"),
];

/// Keys of a storage's block that only rosterd has. They may also stand in the file given by `--with`.
pub const OWN_KEYS: &[&str] = &["inCluster", "kubeconfig", "maxPolls"];

/// The value of `storage:`.
#[derive(Debug)]
pub struct StorageBlock {
    /// The kind.
    pub kind: &'static str,
    /// The keys of the kind.
    pub config: Box<dyn StorageConfig>,
}

impl StorageBlock {
    /// Reads the value. None only if a problem was reported.
    #[must_use]
    pub fn read(node: &Node, report: &Report) -> Option<Self> {
        Fields::read(node, "the storage", report, |fields| {
            let kind = Kind::choose(fields, "storage", KINDS)?;
            kind.check_experimental(fields, "storage")?;
            let config = kind.reader(fields)?(fields)?;
            Some(Self { kind: kind.name, config })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::read_text;

    fn refusal(storage: &str) -> Vec<String> {
        read_text("f", &format!("s: {storage}"), "the test", |fields| {
            let node = fields.node("s")?;
            StorageBlock::read(node, fields.report())
        })
        .expect_err("must be refused")
        .list()
        .iter()
        .map(|problem| problem.message.clone())
        .collect()
    }

    #[test]
    fn etcd_must_be_enabled_as_experimental() {
        let messages = refusal("{kind: io.l5d.etcd, host: [1]}");
        assert_eq!(messages.len(), 1, "{messages:?}");
        assert!(messages[0].contains("storage is experimental"), "{messages:?}");
        assert_eq!(refusal("{kind: io.l5d.etcd, experimental: true}"), ["io.l5d.etcd: not built yet"]);
    }

    #[test]
    fn storages_that_are_not_built_yet_are_named() {
        for kind in ["io.l5d.zk", "io.l5d.k8s"] {
            assert_eq!(
                refusal(&format!("{{kind: {kind}, experimental: true, x: 1}}")),
                [format!("{kind}: not built yet")]
            );
        }
    }
}
