//! `namers:` of the configuration: the kinds there are, and the keys that all of them have.

use std::time::Duration;

use super::NamerConfig;
use super::consul::ConsulConfig;
use super::fs::FsConfig;
use super::k8s::{K8sConfig, K8sExternalConfig, K8sNsConfig};
use super::namerd::NamerdConfig;
use super::rewrite::RewriteConfig;
use crate::config::tree::Node;
use crate::config::{Fields, Kind, Report, Span};
use crate::name::Path;
use crate::transformer::TransformerBlock;

/// All kinds of namers. A new one is a new folder and a line here.
pub const KINDS: &[Kind<Box<dyn NamerConfig>>] = &[
    Kind::built("io.l5d.fs", |fields| Some(Box::new(FsConfig::read(fields)?))),
    Kind::built("io.l5d.rewrite", |fields| Some(Box::new(RewriteConfig::read(fields)?))),
    Kind::built("io.l5d.consul", |fields| Some(Box::new(ConsulConfig::read(fields)?))),
    Kind::built("io.l5d.k8s", |fields| Some(Box::new(K8sConfig::read(fields)?))),
    Kind::built("io.l5d.k8s.external", |fields| {
        Some(Box::new(K8sExternalConfig::read(fields)?) as Box<dyn NamerConfig>)
    })
    .experimental(),
    Kind::built("io.l5d.k8s.ns", |fields| Some(Box::new(K8sNsConfig::read(fields)?))),
    Kind::not_yet("io.l5d.marathon"),
    Kind::not_yet("io.l5d.serversets"),
    Kind::not_yet("io.l5d.zkLeader"),
    Kind::not_yet("io.l5d.dnssrv").experimental(),
    Kind::not_yet("io.l5d.rancher").experimental(),
    Kind::built("io.rosterd.namerd", |fields| Some(Box::new(NamerdConfig::read(fields)?))),
    Kind::refused("io.l5d.curator", "namerd has it only with a plugin of one's own"),
    Kind::refused("io.l5d.k8s.istio", "no release of namerd can load it either"),
];

/// Keys of a namer's block that only rosterd has. They may also stand in the file given by `--with`.
pub const OWN_KEYS: &[&str] = &["fallThroughAfterMs", "maxPolls", "inCluster", "kubeconfig", "source"];

/// One element of `namers:`.
#[derive(Debug)]
pub struct NamerBlock {
    /// The kind.
    pub kind: &'static str,
    /// The full prefix, `/#/…`.
    pub prefix: Path,
    /// Where the prefix stands, or the kind that it comes from.
    pub prefix_span: Span,
    /// The transformers of its answers, in the order in which they are applied.
    pub transformers: Vec<TransformerBlock>,
    /// `fallThroughAfterMs`: after this time without any answer an alt may pass the namer over.
    pub fall_through_after: Duration,
    /// The keys of the kind.
    pub config: Box<dyn NamerConfig>,
}

impl NamerBlock {
    /// Reads one element. None only if a problem was reported.
    #[must_use]
    pub fn read(node: &Node, report: &Report) -> Option<Self> {
        Fields::read(node, "the namer", report, |fields| {
            let kind = Kind::choose(fields, "namer", KINDS)?;
            let config = kind.reader(fields)?(fields);
            // namerd checks `experimental` for storages and telemeters, not for namers.
            let _: bool = fields.or("experimental", false);
            let named_by = if fields.node("prefix").is_some() { "prefix" } else { "kind" };
            let prefix_span = fields.span_of(named_by);
            let prefix = match fields.node("prefix") {
                Some(_) => fields.opt("prefix"),
                None => Some(own_prefix(kind.name)),
            };
            let transformers = fields.each("transformers", TransformerBlock::read).unwrap_or_default();
            let fall_through_after = fields.millis_or("fallThroughAfterMs", Duration::from_secs(2));
            Some(Self {
                kind: kind.name,
                prefix: Path::from_elems(["#"]).ok()?.concat(&prefix?),
                prefix_span,
                transformers,
                fall_through_after,
                config: config?,
            })
        })
    }
}

/// The prefix, without `/#`, of a namer whose block gives none: `/` and its kind.
#[must_use]
pub fn own_prefix(kind: &str) -> Path {
    Path::from_elems([kind]).unwrap_or_else(|_| Path::empty())
}

/// Reports namers one of whose prefixes is the start of the other: each but the first of such namers.
pub fn check_overlaps(namers: &[NamerBlock], report: &Report) {
    for (index, namer) in namers.iter().enumerate() {
        let overlaps = |earlier: &&NamerBlock| {
            namer.prefix.starts_with(&earlier.prefix) || earlier.prefix.starts_with(&namer.prefix)
        };
        if let Some(earlier) = namers[..index].iter().find(overlaps) {
            let message = format!(
                "Namers must not have overlapping prefixes: {} & {}; the other one is at {}, give each its own `prefix`",
                earlier.prefix,
                namer.prefix,
                report.place(earlier.prefix_span)
            );
            report.problem(namer.prefix_span, message);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::read_text;

    fn read(namers: &str) -> Result<Vec<NamerBlock>, Vec<String>> {
        read_text("f", &format!("namers: {namers}"), "the test", |fields| {
            let namers = fields.each("namers", NamerBlock::read).unwrap_or_default();
            check_overlaps(&namers, fields.report());
            Some(namers)
        })
        .map(|(namers, _)| namers)
        .map_err(|problems| problems.list().iter().map(|problem| problem.message.clone()).collect())
    }

    fn prefixes(namers: &str) -> Vec<String> {
        read(namers).expect("valid").iter().map(|namer| namer.prefix.to_string()).collect()
    }

    fn refused(namers: &str, start: &str) {
        let messages = read(namers).expect_err("must be refused");
        assert_eq!(messages.len(), 1, "{messages:?}");
        assert!(messages[0].starts_with(start), "{messages:?}");
    }

    #[test]
    fn the_prefix_is_that_of_the_block_or_the_kind() {
        assert_eq!(prefixes("[{kind: io.l5d.fs, rootDir: src}]"), ["/#/io.l5d.fs"]);
        assert_eq!(prefixes("[{kind: io.l5d.fs, rootDir: src, prefix: /a/b}]"), ["/#/a/b"]);
        refused("[{kind: io.l5d.fs, rootDir: src, prefix: a}]", "'/' expected but 'a' found at '[a]'");
        // A prefix that cannot be read is not taken for that of the kind, which overlaps.
        let two = "[{kind: io.l5d.fs, rootDir: src}, {kind: io.l5d.fs, rootDir: src, prefix: nox}]";
        refused(two, "'/' expected but 'n' found at '[n]ox'");
    }

    #[test]
    fn prefixes_overlap_if_one_is_the_start_of_the_other_by_whole_elements() {
        let two = |first: &str, second: &str| {
            format!(
                "[{{kind: io.l5d.fs, rootDir: src, prefix: {first}}}, {{kind: io.l5d.fs, rootDir: src, prefix: {second}}}]"
            )
        };
        assert_eq!(prefixes(&two("/a", "/ab")), ["/#/a", "/#/ab"]);
        refused(
            &two("/a", "/a/b"),
            "Namers must not have overlapping prefixes: /#/a & /#/a/b; the other one is at f:1:",
        );
        refused(&two("/a/b", "/a"), "Namers must not have overlapping prefixes: /#/a/b & /#/a");
        refused(&two("/a", "/a"), "Namers must not have overlapping prefixes: /#/a & /#/a");
        refused(&two("/", "/a"), "Namers must not have overlapping prefixes: /# & /#/a");
    }

    #[test]
    fn two_namers_of_one_kind_need_prefixes() {
        refused(
            "[{kind: io.l5d.fs, rootDir: src}, {kind: io.l5d.fs, rootDir: src}]",
            "Namers must not have overlapping prefixes: /#/io.l5d.fs & /#/io.l5d.fs",
        );
    }

    #[test]
    fn every_namer_takes_experimental_transformers_and_a_time_to_fall_through() {
        let namers = read(
            "[{kind: io.l5d.fs, rootDir: src, experimental: true, fallThroughAfterMs: 500,
               transformers: [{kind: io.l5d.port, port: 4140}, {kind: io.l5d.localhost}]}]",
        )
        .expect("valid");
        let kinds: Vec<&str> = namers[0].transformers.iter().map(|transformer| transformer.kind).collect();
        assert_eq!(kinds, ["io.l5d.port", "io.l5d.localhost"]);
        assert_eq!(namers[0].fall_through_after, Duration::from_millis(500));
    }

    #[test]
    fn a_namer_that_is_not_built_yet_is_refused_as_that_alone() {
        refused("[{kind: io.l5d.marathon, prefix: bad, port: x}]", "io.l5d.marathon: not built yet");
    }

    #[test]
    fn kinds_that_namerd_itself_cannot_load_are_refused_as_unknown() {
        for kind in ["io.l5d.curator", "io.l5d.k8s.istio", "io.l5d.nope"] {
            refused(&format!("[{{kind: {kind}}}]"), &format!("Could not resolve type id '{kind}' as a namer"));
        }
    }
}
