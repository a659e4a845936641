//! The areas in which namers or the storage change while a binding is watched: the local interpreter, with a namer and
//! a storage whose answers the case sets. No clock runs, so the rule that passes silent branches over does not apply.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use parking_lot::Mutex;
use rosterd::config::IpFamilies;
use rosterd::interpreter::{
    Bound, BoundTree, ConfiguredNamer, Hold, Interpreter, Local, LocalDtab, Namers, Settings, strip_transformers,
};
use rosterd::name::{Addr, Dtab, NameTree, Path, Weighted};
use rosterd::namer::hosts::Hosts;
use rosterd::namer::{Found, Namer};
use rosterd::storage::{Storage, StorageError, VersionedDtab};
use rosterd::store::{Cell, Client, Evaluators, Live, OverBudget, Reading, Run, Standing, State, Wait, Watch};
use serde_json::{Value, json};

use super::{Answer, Area, Case, check};

pub(super) const AREAS: &[Area] = &[
    Area { name: "bind.transition", run: transition },
    Area { name: "bind.union_sequence", run: sequence },
    Area { name: "bind.failover_sequence", run: sequence },
    Area { name: "bind.weights", run: weights },
    Area { name: "bind.dtab_change", run: dtab_change },
    Area { name: "strip_transformer_prefix", run: strip },
];

/// With the clock paused: a real one would let silent branches be passed over on a busy machine.
#[tokio::test(start_paused = true)]
async fn bindings_follow_their_namers_and_dtabs_as_in_namerd() {
    check(AREAS);
}

/// What a name of the settable namer stands for.
#[derive(Clone, Debug, PartialEq)]
enum Answers {
    Pending,
    Tree(NameTree<Found>),
    Failed(String),
}

#[derive(Default)]
struct Settable(Mutex<BTreeMap<Path, Arc<Cell<Answers>>>>);

impl Settable {
    fn cell(&self, name: &Path) -> Arc<Cell<Answers>> {
        self.0.lock().entry(name.clone()).or_insert_with(|| Cell::ready(Answers::Pending)).clone()
    }

    /// Reads one assignment's right side.
    fn set(&self, name: &str, to: &str) {
        let name = path(name);
        let answers = match to {
            "pending" => Answers::Pending,
            "leaf" => Answers::Tree(NameTree::Leaf(Found::Bound { id: name.clone(), residual: Path::empty() })),
            "neg" => Answers::Tree(NameTree::Neg),
            "fail" => Answers::Tree(NameTree::Fail),
            "empty" => Answers::Tree(NameTree::Empty),
            "failed" => Answers::Failed("TestException".into()),
            _ if to.starts_with("failed(") => {
                Answers::Failed(to.trim_start_matches("failed(").trim_end_matches(')').into())
            }
            _ => Answers::Tree(NameTree::Leaf(Found::Path(path(to)))),
        };
        self.cell(&name).publish(answers);
    }
}

impl Namer for Settable {
    fn lookup(&self, run: &mut Run<'_>, path: &Path) -> Reading<NameTree<Found>> {
        let snapshot = run.read(&self.cell(&path.take(1)), ());
        match snapshot.value().map(|answers| Answers::clone(answers)) {
            None | Some(Answers::Pending) => Reading::Pending(Wait::default()),
            Some(Answers::Tree(tree)) => Reading::Ready(tree),
            Some(Answers::Failed(reason)) => Reading::Failed(reason.into()),
        }
    }

    fn addresses(&self, _: &mut Run<'_>, _: &Path) -> Reading<Addr> {
        Reading::Ready(Addr::Neg)
    }
}

/// Binds so many elements, or always gives the same path.
struct Always(usize, Option<&'static str>);

impl Namer for Always {
    fn lookup(&self, _: &mut Run<'_>, found: &Path) -> Reading<NameTree<Found>> {
        Reading::Ready(NameTree::Leaf(match self.1 {
            Some(to) => Found::Path(path(to)),
            None => Found::Bound { id: found.take(self.0), residual: found.drop(self.0) },
        }))
    }

    fn addresses(&self, _: &mut Run<'_>, _: &Path) -> Reading<Addr> {
        Reading::Ready(Addr::Neg)
    }
}

/// One dtab for every namespace, set by the case.
struct SetDtab(Arc<Cell<Option<VersionedDtab>>>);

struct Kept;

impl Live for Kept {}

#[async_trait]
impl Storage for SetDtab {
    fn dtab(&self, _: Client, _: &str) -> Result<Watch<Option<VersionedDtab>>, OverBudget> {
        Ok(Watch::new(self.0.clone(), Arc::new(Kept)))
    }

    fn namespaces(&self) -> Watch<BTreeSet<String>> {
        Watch::constant(BTreeSet::new())
    }

    async fn create(&self, namespace: &str, _: Dtab) -> Result<Bytes, StorageError> {
        Err(StorageError::AlreadyExists(namespace.into()))
    }

    async fn update(&self, namespace: &str, _: Dtab, _: &[u8]) -> Result<Bytes, StorageError> {
        Err(StorageError::DoesNotExist(namespace.into()))
    }

    async fn put(&self, namespace: &str, _: Dtab) -> Result<Bytes, StorageError> {
        Err(StorageError::DoesNotExist(namespace.into()))
    }

    async fn delete(&self, namespace: &str, _: Option<&[u8]>) -> Result<(), StorageError> {
        Err(StorageError::DoesNotExist(namespace.into()))
    }

    async fn answered(&self) {}
}

struct World {
    settable: Arc<Settable>,
    dtab: Arc<Cell<Option<VersionedDtab>>>,
    local: Local,
}

impl World {
    fn new(dtab: &str) -> Self {
        let settable = Arc::new(Settable::default());
        let at = |prefix: &str, namer: Arc<dyn Namer>| ConfiguredNamer {
            prefix: path(prefix),
            namer,
            transformers: Vec::new(),
        };
        let namers = vec![
            at("/#/d", settable.clone()),
            at("/test", settable.clone()),
            at("/#/t", Arc::new(Always(1, None))),
            at("/#inet", Arc::new(Always(2, None))),
            at("/$/rw", Arc::new(Always(0, Some("/rewritten/by/test/namer")))),
        ];
        let cell = Cell::new();
        let namers = Namers::new(namers, Hosts::new(IpFamilies::default())).expect("few namers");
        let local = Local::new(Arc::new(SetDtab(cell.clone())), namers, Evaluators::start(1), Settings::default());
        let world = Self { settable, dtab: cell, local };
        world.put(dtab);
        world
    }

    fn put(&self, dtab: &str) {
        match dtab.strip_prefix("<store ").and_then(|state| state.strip_suffix('>')) {
            Some("pending") => self.dtab.suspend(None),
            Some(failed) => self.dtab.fail(failed.trim_start_matches("failed: ")),
            None => {
                let dtab = Dtab::parse(dtab).expect("dtab");
                let version = Bytes::from(dtab.to_string());
                self.dtab.publish(Some(VersionedDtab::new(Arc::new(dtab.into()), version)));
            }
        }
    }

    fn bind(&self, local: &str, name: &str) -> Watch<BoundTree> {
        let local = match local {
            "" => LocalDtab::empty(),
            text => self.local.local_dtab(Client::INTERNAL, Dtab::parse(text).expect("dtab")).expect("room"),
        };
        self.local.bind(Client::INTERNAL, "default", &local, &path(name), Hold::Watch).expect("room")
    }
}

fn path(text: &str) -> Path {
    Path::parse(text).expect("path")
}

fn field<'a>(case: &'a Case, name: &str) -> &'a str {
    case.input.get(name).and_then(Value::as_str).unwrap_or_default()
}

fn steps<'a>(case: &'a Case, name: &str) -> Vec<&'a str> {
    case.input.get(name).and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect()
}

/// The state of a binding, in the notation of the file.
fn state(watch: &Watch<BoundTree>) -> Value {
    let snapshot = watch.current();
    match (&snapshot.state, &snapshot.standing) {
        (State::Failed(reason), _) | (State::Ready(_), Standing::Stale { reason, .. }) => {
            json!({ "failed": &**reason })
        }
        (State::Ready(tree), Standing::Current) => bound_value(tree),
        (State::Pending, _) | (State::Ready(_), Standing::Suspended { .. }) => json!("pending"),
    }
}

fn bound_value(tree: &BoundTree) -> Value {
    match tree {
        NameTree::Leaf(bound) => {
            json!({ "leaf": { "id": bound.id.to_string(), "residual": bound.residual.to_string() } })
        }
        NameTree::Neg => json!("neg"),
        NameTree::Fail => json!("fail"),
        NameTree::Empty => json!("empty"),
        NameTree::Alt(trees) => json!({ "alt": trees.iter().map(bound_value).collect::<Vec<_>>() }),
        NameTree::Union(trees) => {
            let branch =
                |branch: &Weighted<Bound>| json!({ "weight": branch.weight, "tree": bound_value(&branch.tree) });
            json!({ "union": trees.iter().map(branch).collect::<Vec<_>>() })
        }
    }
}

fn transition(case: &Case) -> Answer {
    let world = World::new(field(case, "dtab"));
    let watch = world.bind("", field(case, "path"));
    let mut before = state(&watch);
    let mut emitted = json!([]);
    for step in steps(case, "after") {
        let (name, to) = step.split_once('=').ok_or("a step is name=state")?;
        world.settable.set(&format!("/{name}"), to);
        let after = state(&watch);
        emitted = if after == before { json!([]) } else { json!([after]) };
        before = after;
    }
    Ok(emitted)
}

fn sequence(case: &Case) -> Answer {
    let world = World::new(&format!("/svc => {}", field(case, "tree")));
    let watch = world.bind("", "/svc");
    state(&watch);
    for step in steps(case, "after") {
        for assignment in step.split(", ") {
            let Some((name, to)) = assignment.split_once(" := ") else { continue };
            world.settable.set(name.trim_start_matches("/test"), to.trim_end_matches(" (itself pending)"));
        }
        state(&watch);
    }
    let snapshot = watch.current();
    let (State::Ready(tree), Standing::Current) = (&snapshot.state, &snapshot.standing) else {
        return Ok(state(&watch));
    };
    let mut weight = None;
    let ports = tree.map(|bound| {
        weight = bound.weight;
        port(bound)
    });
    Ok(match ports.eval() {
        None => json!({ "eval_ports": null }),
        Some(ports) => {
            let ports: BTreeSet<u16> = ports.into_iter().copied().collect();
            json!({ "eval_ports": ports, "weight_meta": weight })
        }
    })
}

fn weights(case: &Case) -> Answer {
    let world = World::new(field(case, "dtab"));
    let (tree, _) = futures_util::FutureExt::now_or_never(
        world.bind("", field(case, "path")).answer(std::time::Duration::from_secs(1)),
    )
    .ok_or("pending")?
    .map_err(|error| error.to_string())?;
    let mut found = Vec::new();
    tree.map(|bound| found.push(json!({ "port": port(bound), "weight_meta": bound.weight })));
    Ok(Value::Array(found))
}

/// The port of a `/$/inet/PORT` id.
fn port(bound: &Bound) -> u16 {
    let id = bound.id.to_string();
    id.rsplit('/').next().and_then(|port| port.parse().ok()).unwrap_or_else(|| panic!("no port in {id}"))
}

fn dtab_change(case: &Case) -> Answer {
    let sequence = steps(case, "ns_dtab_sequence");
    let world = World::new(sequence[0]);
    let watch = world.bind(field(case, "local_dtab"), field(case, "path"));
    let mut history = vec![state(&watch)];
    for dtab in &sequence[1..] {
        world.put(dtab);
        history.push(state(&watch));
    }
    // The one case with a namer of its own lists every state, the others the last one.
    let from = if case.input.get("namers").is_some() { 0 } else { history.len() - 1 };
    Ok(Value::Array(history.split_off(from)))
}

fn strip(case: &Case) -> Answer {
    Ok(json!(strip_transformers(&path(case.input.as_str().ok_or("a path")?)).to_string()))
}
