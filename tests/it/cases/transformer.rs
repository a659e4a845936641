//! The area of transformers on a namer: the fixture namer of the file's head behind the transformers of the case.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use rosterd::config::{IpFamilies, read_text};
use rosterd::interpreter::{ConfiguredNamer, DelegateRequest, DelegationLeaf, Interpreter, Local, Namers, Settings};
use rosterd::k8s::ApiServers;
use rosterd::name::{Addr, AddrSet, Address, DelegateTree, Dtab, Meta, NameTree, Path};
use rosterd::namer::hosts::Hosts;
use rosterd::namer::{Found, Namer};
use rosterd::storage::memory::MemoryStorage;
use rosterd::store::{Client, Evaluators, Reading, Run, Wait};
use rosterd::transformer::{TransformerBlock, TransformerParts, same_network};
use serde_json::{Value, json};

use super::notation::addr_value;
use super::{Answer, Area, Case, check};

pub(super) const AREAS: &[Area] =
    &[Area { name: "transformer.namer", run: transformed }, Area { name: "netmask.local", run: networks }];

#[tokio::test(start_paused = true)]
async fn transformers_change_the_answers_of_a_namer_as_in_namerd() {
    check(AREAS);
}

/// Looks the path up by delegation, which shows names that are not bound as they are.
fn transformed(case: &Case) -> Answer {
    let blocks = read_text("case", &format!("t: {}", case.input["transformers"]), "the case", |fields| {
        fields.each("t", TransformerBlock::read)
    });
    let (blocks, _) = blocks.map_err(|problems| problems.to_string())?;
    let parts = TransformerParts { servers: ApiServers::new(), ip_families: IpFamilies::default() };
    let build = |block: &TransformerBlock| block.config.build(block.prefix.as_ref(), &parts);
    let namer = ConfiguredNamer {
        prefix: path("/#/t"),
        namer: Arc::new(Fixture),
        transformers: blocks.iter().map(build).collect::<Result<_, _>>()?,
    };
    let namers = Namers::new(vec![namer], Hosts::new(IpFamilies::default()))?;
    let storage = Arc::new(MemoryStorage::new([]));
    let local = Local::new(storage, namers, Evaluators::start(1), Settings::default());
    let request = DelegateRequest {
        client: Client::INTERNAL,
        namespace: None,
        local: Dtab::default(),
        tree: NameTree::Leaf(path("/#/t").concat(&path(case.input["path"].as_str().ok_or("a path")?))),
        with_addresses: true,
        with_namers: true,
    };
    let answer = futures_util::FutureExt::now_or_never(local.delegate(request, Duration::from_secs(1)));
    let delegation = answer.ok_or("pending")?.map_err(|error| error.to_string())?;
    Ok(value(&delegation.tree))
}

/// Are two addresses in one network?
fn networks(case: &Case) -> Answer {
    let text = |key: &str| case.input[key].as_str().ok_or_else(|| format!("{key} is a text"));
    let ip = |key: &str| -> Result<IpAddr, String> { text(key)?.parse().map_err(|_| format!("{key} is an address")) };
    let mask: Ipv4Addr = text("mask")?.parse().map_err(|_| "the mask is one of IPv4".to_owned())?;
    Ok(json!(same_network(mask, ip("a")?, ip("b")?)))
}

fn value(tree: &DelegateTree<DelegationLeaf>) -> Value {
    match tree {
        DelegateTree::Leaf { value, .. } => json!({ "bound": {
            "id": value.id.to_string(),
            "residual": value.residual.to_string(),
            "addr": value.addr.as_ref().map(addr_value),
        } }),
        DelegateTree::Neg { .. } => json!("neg"),
        DelegateTree::Fail { .. } => json!("fail"),
        DelegateTree::Empty { .. } => json!("empty"),
        DelegateTree::Alt { trees, .. } => {
            json!({ "alt": trees.iter().map(|tree| json!({ "path": tree.path().to_string() })).collect::<Vec<_>>() })
        }
        other => json!(format!("{other:?}")),
    }
}

fn path(text: &str) -> Path {
    text.parse().expect("a path")
}

struct Fixture;

impl Namer for Fixture {
    fn lookup(&self, _: &mut Run<'_>, path: &Path) -> Reading<NameTree<Found>> {
        let unbound = |text: &str| NameTree::Leaf(Found::Path(self::path(text)));
        Reading::Ready(match path.first() {
            None | Some(b"neg") => NameTree::Neg,
            Some(b"empty") => NameTree::Empty,
            Some(b"failtree") => NameTree::Fail,
            Some(b"alt") => NameTree::Alt(vec![unbound("/x1"), unbound("/x2")]),
            Some(b"pending") => return Reading::Pending(Wait::default()),
            Some(b"boom") => return Reading::Failed("boom".into()),
            Some(_) => NameTree::Leaf(Found::Bound { id: path.take(1), residual: path.drop(1) }),
        })
    }

    fn addresses(&self, _: &mut Run<'_>, id: &Path) -> Reading<Addr> {
        Reading::Ready(match id.first() {
            None | Some(b"addrneg") => Addr::Neg,
            Some(name) => {
                let port = 9000 + u16::try_from(name.len()).expect("short names");
                Addr::Bound(AddrSet::new(vec![Address::new(Ipv4Addr::LOCALHOST.into(), port)], Meta::default()))
            }
        })
    }
}
