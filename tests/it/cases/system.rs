//! The areas of names that need no dtab: `/$/`, host names, `io.l5d.rewrite`.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use rosterd::name::{Addr, NameTree, Path};
use rosterd::namer::hosts::{Answer as DnsAnswer, Hosts, Resolve, Unresolved};
use rosterd::namer::rewrite::{Pattern, rewrite};
use rosterd::namer::system::{self, SystemAddr, SystemName};
use rosterd::store::{Client, Derived, Evaluators, Formula, Policy, Reading, Run, Table, Watch};
use serde_json::{Value, json};

use super::notation::addr_value;
use super::{Answer, Area, Case, check};

pub(super) const AREAS: &[Area] = &[
    Area { name: "namer.system", run: namer_system },
    Area { name: "inet.resolve", run: |case| Ok(addr_value(&addresses(SystemAddr::Inet(case.text().into())))) },
    Area { name: "rewrite.lookup", run: rewrite_lookup },
    Area { name: "pathmatcher.extract", run: pathmatcher_extract },
    Area { name: "pathmatcher.substitute", run: pathmatcher_substitute },
];

#[test]
fn names_without_a_dtab_resolve_as_in_namerd() {
    check(AREAS);
}

fn namer_system(case: &Case) -> Answer {
    let tree = system::lookup(&case.text().parse().expect("a path")).map_err(|error| error.to_string())?;
    Ok(match tree {
        NameTree::Leaf(SystemName::Path(path)) => json!({ "path": path.to_string() }),
        NameTree::Leaf(SystemName::Bound { id, residual, addr }) => json!({ "bound": {
            "id": id.map(|id| id.to_string()),
            "residual": residual.to_string(),
            "addr": addr_value(&addresses(addr)),
        } }),
        NameTree::Neg => json!("neg"),
        NameTree::Fail => json!("fail"),
        NameTree::Empty => json!("empty"),
        NameTree::Alt(_) | NameTree::Union(_) => panic!("{}: no system namer gives several names", case.id),
    })
}

fn rewrite_lookup(case: &Case) -> Answer {
    let pattern = Pattern::parse(field(case, "pattern"))?;
    let path = rewrite(&pattern, field(case, "name"), &path(case))?;
    Ok(path.map_or(json!("neg"), |path| json!({ "path": path.to_string() })))
}

fn pathmatcher_extract(case: &Case) -> Answer {
    let pattern = Pattern::parse(field(case, "pattern"))?;
    let captures = pattern.captures(&path(case)).map_err(|error| error.to_string())?;
    Ok(captures.map_or(Value::Null, |captures| captures.iter().map(|(name, value)| (name, json!(value))).collect()))
}

fn pathmatcher_substitute(case: &Case) -> Answer {
    let pattern = Pattern::parse(field(case, "pattern"))?;
    let captures = pattern.captures(&path(case)).map_err(|error| error.to_string())?;
    Ok(captures.map_or(Value::Null, |captures| json!(captures.fill_in(field(case, "name")))))
}

fn field<'c>(case: &'c Case, name: &str) -> &'c str {
    case.input[name].as_str().unwrap_or_else(|| panic!("{}: the input has no {name}", case.id))
}

fn path(case: &Case) -> Path {
    field(case, "path").parse().expect("a path")
}

/// The addresses, on a clock of their own, when no name server knows any host.
fn addresses(source: SystemAddr) -> Addr {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.expect("a runtime").block_on(async {
        let evaluators = Evaluators::start(1);
        let hosts = Hosts::with_resolver(Arc::new(KnowsNobody));
        let table = Table::new("the test", Policy::default(), move |(), client| {
            Derived::new(&evaluators, client, Addresses { hosts: hosts.clone(), source: source.clone() })
        });
        let watch: Watch<_> = table.observe(Client::INTERNAL, &()).expect("room").into();
        let (addr, _) = watch.answer(Duration::from_secs(30)).await.expect("an answer");
        (*addr).clone()
    })
}

struct Addresses {
    hosts: Hosts,
    source: SystemAddr,
}

impl Formula for Addresses {
    type Value = Addr;

    fn compute(&self, run: &mut Run<'_>) -> Reading<Addr> {
        match &self.source {
            SystemAddr::Inet(hosts) => self.hosts.inet(run, hosts),
            SystemAddr::Fixed(hosts) => self.hosts.fixed_inet(run, hosts),
            SystemAddr::None => panic!("no case has addresses of this kind"),
        }
    }
}

#[derive(Debug)]
struct KnowsNobody;

#[async_trait]
impl Resolve for KnowsNobody {
    async fn resolve(&self, _: &str) -> Result<DnsAnswer, Unresolved> {
        Err(Unresolved::NoSuchHost)
    }
}
