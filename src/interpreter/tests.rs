//! Stories about the local interpreter, with a namer whose answers the test sets.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use parking_lot::Mutex;

use super::*;
use crate::config::IpFamilies;
use crate::name::{AddrSet, Address, Dentry, Dtab, Meta};
use crate::namer::hosts::Hosts;
use crate::namer::{Found, Namer};
use crate::storage::Storage;
use crate::storage::memory::MemoryStorage;
use crate::store::{Cell, Evaluators, Key, Mailbox, Reading, Run, Standing};

const FALL_THROUGH: Duration = Duration::from_secs(2);

/// A namer with one presence cell and one address cell a name.
struct Fixture {
    fall_through: Duration,
    presence: Mutex<BTreeMap<Path, Arc<Cell<bool>>>>,
    addresses: Mutex<BTreeMap<Path, Arc<Cell<Addr>>>>,
    lookups: Mutex<BTreeMap<Path, usize>>,
}

impl Fixture {
    fn presence(&self, name: &Path) -> Arc<Cell<bool>> {
        self.presence.lock().entry(name.clone()).or_default().clone()
    }

    fn address(&self, name: &Path) -> Arc<Cell<Addr>> {
        self.addresses.lock().entry(name.clone()).or_default().clone()
    }

    fn serve(&self, name: &str, ports: &[u16]) {
        let name = path(name);
        self.address(&name).publish(bound(ports));
        self.presence(&name).publish(true);
    }

    fn lookups(&self, name: &str) -> usize {
        self.lookups.lock().get(&path(name)).copied().unwrap_or(0)
    }
}

impl Namer for Fixture {
    fn lookup(&self, run: &mut Run<'_>, path: &Path) -> Reading<NameTree<Found>> {
        let (id, residual) = (path.take(1), path.drop(1));
        *self.lookups.lock().entry(id.clone()).or_default() += 1;
        run.read(&self.presence(&id), ()).reading(self.fall_through).map(|present| match *present {
            true => NameTree::Leaf(Found::Bound { id, residual }),
            false => NameTree::Neg,
        })
    }

    fn addresses(&self, run: &mut Run<'_>, id: &Path) -> Reading<Addr> {
        run.read(&self.address(id), ()).reading(self.fall_through).map(|addr| Addr::clone(&addr))
    }
}

struct World {
    fixture: Arc<Fixture>,
    storage: Arc<MemoryStorage>,
    local: Local,
}

impl World {
    /// The fixture namer at `/#/t`, under `dtab`.
    fn new(dtab: &str) -> Self {
        Self::falling_through_after(FALL_THROUGH, dtab)
    }

    fn falling_through_after(fall_through: Duration, dtab: &str) -> Self {
        let fixture = Arc::new(Fixture {
            fall_through,
            presence: Mutex::default(),
            addresses: Mutex::default(),
            lookups: Mutex::default(),
        });
        let namer = ConfiguredNamer { prefix: path("/#/t"), namer: fixture.clone(), transformers: Vec::new() };
        let namers = Namers::new(vec![namer], Hosts::new(IpFamilies::default())).expect("one namer");
        let storage = Arc::new(MemoryStorage::new([("default".to_owned(), Dtab::parse(dtab).expect("dtab"))]));
        let local = Local::new(storage.clone(), namers, Evaluators::start(1), Settings::default());
        Self { fixture, storage, local }
    }

    fn put(&self, dtab: &str) {
        let put = self.storage.put("default", Dtab::parse(dtab).expect("dtab"));
        put.now_or_never().expect("memory does not wait").expect("stored");
    }

    fn bind(&self, name: &str) -> Watch<BoundTree> {
        self.bind_with("", name)
    }

    fn bind_with(&self, local: &str, name: &str) -> Watch<BoundTree> {
        let local = self.local.local_dtab(Client::INTERNAL, Dtab::parse(local).expect("dtab")).expect("room");
        self.local.bind(Client::INTERNAL, "default", &local, &path(name), Hold::Watch).expect("room")
    }

    async fn delegate(&self, name: &str) -> Result<Arc<Delegation>, Unanswered> {
        let request = DelegateRequest {
            client: Client::INTERNAL,
            namespace: Some("default".into()),
            local: Dtab::empty(),
            tree: NameTree::Leaf(path(name)),
            with_addresses: true,
            with_namers: true,
        };
        self.local.delegate(request, Duration::from_secs(2)).await
    }
}

fn path(text: &str) -> Path {
    Path::parse(text).expect("path")
}

fn bound(ports: &[u16]) -> Addr {
    let localhost = IpAddr::V4(Ipv4Addr::LOCALHOST);
    Addr::Bound(AddrSet::new(ports.iter().map(|port| Address::new(localhost, *port)).collect(), Meta::default()))
}

/// `id+residual` of the leaves, or what there is instead.
fn shown(tree: &BoundTree) -> String {
    match tree {
        NameTree::Leaf(bound) if bound.residual.is_empty() => bound.id.to_string(),
        NameTree::Leaf(bound) => format!("{}+{}", bound.id, bound.residual),
        NameTree::Neg => "~".into(),
        NameTree::Fail => "!".into(),
        NameTree::Empty => "$".into(),
        NameTree::Alt(branches) => branches.iter().map(shown).collect::<Vec<_>>().join(" | "),
        NameTree::Union(branches) => {
            let branch = |branch: &crate::name::Weighted<Bound>| format!("{}*{}", branch.weight, shown(&branch.tree));
            branches.iter().map(branch).collect::<Vec<_>>().join(" & ")
        }
    }
}

fn now(watch: &Watch<BoundTree>) -> Option<String> {
    watch.current().value().map(|tree| shown(tree))
}

#[tokio::test]
async fn a_name_is_rewritten_until_a_namer_binds_it() {
    let world = World::new("/srv => /#/t; /svc => /srv");
    world.fixture.serve("/web", &[8080]);
    assert_eq!(now(&world.bind("/svc/web/a/b")).as_deref(), Some("/#/t/web+/a/b"));
}

#[tokio::test]
async fn a_missing_namespace_is_an_empty_dtab() {
    let world = World::new("/svc => /#/t");
    world.fixture.serve("/web", &[8080]);
    let bind = |name| {
        let local = LocalDtab::empty();
        world.local.bind(Client::INTERNAL, "nobody", &local, &path(name), Hold::Watch).expect("room")
    };
    assert_eq!(now(&bind("/svc/web")).as_deref(), Some("~"));
    assert_eq!(now(&bind("/#/t/web")).as_deref(), Some("/#/t/web"));
}

#[tokio::test]
async fn the_request_dtab_wins_and_falls_back_to_the_namespace() {
    let world = World::new("/svc => /#/t");
    world.fixture.serve("/web", &[1]);
    world.fixture.serve("/canary", &[2]);
    world.fixture.presence(&path("/gone")).publish(false);
    assert_eq!(now(&world.bind_with("/svc/web => /#/t/canary", "/svc/web")).as_deref(), Some("/#/t/canary"));
    assert_eq!(now(&world.bind_with("/svc/web => /#/t/gone", "/svc/web")).as_deref(), Some("/#/t/web"));
    assert_eq!(now(&world.bind_with("/svc/web => !", "/svc/web")).as_deref(), Some("!"));
}

#[tokio::test]
async fn an_edit_of_the_dtab_reaches_a_watcher_and_an_edit_that_changes_nothing_does_not() {
    let world = World::new("/svc => /#/t");
    world.fixture.serve("/web", &[1]);
    world.fixture.serve("/canary", &[2]);
    let watch = world.bind("/svc/web");
    let mailbox = Mailbox::new();
    let (first, _subscription) = watch.subscribe(&mailbox, Key(1));
    assert_eq!(first.value().map(|tree| shown(tree)).as_deref(), Some("/#/t/web"));
    world.put("/svc => /#/t; /other => /#/t");
    assert_eq!(watch.current_version(), first.version.get());
    world.put("/svc => /#/t; /svc/web => /#/t/canary");
    tokio::time::timeout(Duration::from_secs(5), mailbox.marked()).await.expect("the watcher is told");
    assert_eq!(now(&watch).as_deref(), Some("/#/t/canary"));
}

#[tokio::test]
async fn an_address_change_runs_no_binding_again() {
    let world = World::new("/svc => /#/t");
    world.fixture.serve("/web", &[1]);
    let tree = world.bind("/svc/web");
    assert!(now(&tree).is_some());
    let addr = world.local.addr(Client::INTERNAL, &path("/#/t/web")).expect("room");
    assert_eq!(addr.current().value().map(|addr| Addr::clone(addr)), Some(bound(&[1])));
    let before = world.fixture.lookups("/web");
    let version = tree.current_version();
    world.fixture.serve("/web", &[1, 2]);
    assert_eq!(tree.current_version(), version);
    assert_eq!(world.fixture.lookups("/web"), before, "the binding was not evaluated");
    assert_eq!(addr.current().value().map(|addr| Addr::clone(addr)), Some(bound(&[1, 2])));
}

#[tokio::test(start_paused = true)]
async fn a_silent_first_branch_falls_through_after_two_seconds_and_returns_as_soon_as_it_answers() {
    let world = World::new("/svc => /#/t/silent | /#/t/spare");
    world.fixture.serve("/spare", &[1]);
    let began = tokio::time::Instant::now();
    let watch = world.bind("/svc");
    assert_eq!(now(&watch), None, "held at first");
    let (tree, _) = watch.answer(Duration::from_secs(30)).await.expect("falls through");
    assert_eq!(shown(&tree), "/#/t/spare");
    assert_eq!(began.elapsed(), FALL_THROUGH);
    world.fixture.serve("/silent", &[2]);
    assert_eq!(now(&watch).as_deref(), Some("/#/t/silent"));
}

#[tokio::test(start_paused = true)]
async fn a_failing_backend_counts_as_silent() {
    let world = World::new("/svc => /#/t/down | /#/t/spare");
    world.fixture.serve("/spare", &[1]);
    world.fixture.presence(&path("/down")).fail("connection refused");
    let (tree, _) = world.bind("/svc").answer(Duration::from_secs(30)).await.expect("falls through");
    assert_eq!(shown(&tree), "/#/t/spare");
}

#[tokio::test(start_paused = true)]
async fn a_silent_branch_is_not_passed_over_for_a_later_one_with_nothing_to_serve() {
    for later in ["~", "!", "$", "/#/t/silent-too"] {
        let world = World::new(&format!("/svc => /#/t/silent | {later}"));
        let refused = world.bind("/svc").answer(Duration::from_secs(30)).await.expect_err(later);
        assert!(matches!(refused, Unanswered::TimedOut { .. }), "{later}: {refused}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_name_without_alternative_is_waited_for_and_the_reason_is_told() {
    let world = World::new("/svc => /#/t");
    world.fixture.presence(&path("/web")).fail("connection refused at 192.0.2.1:8500");
    let refused = world.bind("/svc/web").answer(Duration::from_secs(30)).await.expect_err("no answer");
    assert_eq!(refused.to_string(), "no answer within 30 s: connection refused at 192.0.2.1:8500");
}

#[tokio::test(start_paused = true)]
async fn a_union_is_published_early_and_grows() {
    let world = World::new("/svc => 3*/#/t/a & 2*/#/t/b & /#/t/c");
    let watch = world.bind("/svc");
    assert_eq!(now(&watch), None);
    world.fixture.serve("/b", &[1]);
    assert_eq!(now(&watch), None, "the others were asked only now");
    tokio::time::advance(Duration::from_millis(100)).await;
    assert_eq!(now(&watch).as_deref(), Some("/#/t/b"));
    world.fixture.serve("/a", &[1]);
    assert_eq!(now(&watch).as_deref(), Some("3*/#/t/a & 2*/#/t/b"));
    world.fixture.presence(&path("/c")).publish(false);
    assert_eq!(now(&watch).as_deref(), Some("3*/#/t/a & 2*/#/t/b"));
}

#[tokio::test(start_paused = true)]
async fn a_union_that_waits_for_a_branch_is_not_passed_over_however_soon_its_namer_falls_through() {
    let world = World::falling_through_after(Duration::ZERO, "/svc => /#/t/a & /#/t/silent | /#/t/spare");
    world.fixture.serve("/a", &[1]);
    world.fixture.serve("/spare", &[2]);
    let (tree, _) = world.bind("/svc").answer(Duration::from_secs(30)).await.expect("one branch is known");
    assert_eq!(shown(&tree), "/#/t/a");
}

#[tokio::test(start_paused = true)]
async fn branches_that_answer_promptly_appear_together() {
    let world = World::new("/svc => /#/t/a & /#/t/b");
    let watch = world.bind("/svc");
    assert_eq!(now(&watch), None);
    world.fixture.serve("/a", &[1]);
    tokio::time::advance(Duration::from_millis(20)).await;
    assert_eq!(now(&watch), None);
    world.fixture.serve("/b", &[2]);
    assert_eq!(now(&watch).as_deref(), Some("1*/#/t/a & 1*/#/t/b"));
}

#[tokio::test(start_paused = true)]
async fn after_a_good_tree_a_failing_evaluation_keeps_it_for_watchers_and_shows_to_one_shot_readers() {
    let world = World::new("/svc => /#/t");
    world.fixture.serve("/web", &[1]);
    let watch = world.bind("/svc/web");
    assert!(now(&watch).is_some());
    world.put("/svc => /loop; /loop => /loop");
    let snapshot = watch.current();
    assert_eq!(snapshot.value().map(|tree| shown(tree)).as_deref(), Some("/#/t/web"));
    assert!(matches!(snapshot.standing, Standing::Stale { .. }));
    let failed = watch.answer(Duration::from_secs(30)).await.expect_err("loops");
    assert_eq!(failed.to_string(), "Max recursion level: 100 reached in Namer lookup");
}

#[tokio::test(start_paused = true)]
async fn loops_of_every_shape_end_in_the_depth_error_and_do_not_cost_the_stack() {
    let nested = format!("/a => {}/a{}", "(/x | ".repeat(60), ")".repeat(60));
    for dtab in ["/a => /a", "/a => /b; /b => /a", "/a => /a & /a", "/a => /a/a & /a/b & /a", &nested] {
        let failed = World::new(dtab).bind("/a").answer(Duration::from_secs(30)).await.expect_err(dtab);
        assert_eq!(failed.to_string(), "Max recursion level: 100 reached in Namer lookup", "{dtab}");
    }
    let failed = World::new("/a => /a").delegate("/a").await.expect_err("loops");
    assert_eq!(failed.to_string(), "Max recursion level reached.");
    for dtab in ["/a => /a | /a", "/a => /a & /a | /a & /b"] {
        World::new(dtab).delegate("/a").await.expect("an alt shows what fails below it");
    }
}

#[tokio::test(start_paused = true)]
async fn a_rewrite_that_grows_the_path_ends_in_the_depth_error_before_it_takes_the_memory() {
    let world = World::new(&format!("/a => /a/{}", "x".repeat(1 << 20)));
    let failed = world.bind("/a").answer(Duration::from_secs(30)).await.expect_err("grows");
    assert_eq!(failed.to_string(), "Max recursion level: 100 reached in Namer lookup");
    world.delegate("/a").await.expect_err("grows");
}

#[tokio::test(start_paused = true)]
async fn an_entry_with_countless_branches_costs_what_is_visited_of_it() {
    let wide = |separator: &str, branch: &str| format!("/a => {}", vec![branch; 200_000].join(separator));
    let began = std::time::Instant::now();
    for dtab in [wide("&", "/a"), wide("|", "/a"), wide("&", "/b"), format!("/b => /a; {}", wide("&", "/b"))] {
        let world = World::new(&dtab);
        let failed = world.bind("/a").answer(Duration::from_secs(30)).await.expect_err("loops, or is too wide");
        assert_eq!(failed.to_string(), "Max recursion level: 100 reached in Namer lookup");
        let failed = world.delegate("/a").await.expect_err("too wide");
        assert_eq!(failed.to_string(), "Max recursion level reached.");
    }
    let world = World::new(&wide("|", "/#/t/web"));
    world.fixture.serve("/web", &[7]);
    assert_eq!(now(&world.bind("/a")).as_deref(), Some("/#/t/web"), "the first branch decides, whatever follows");
    assert!(began.elapsed() < Duration::from_secs(60), "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_delegation_of_a_long_path_through_a_wide_entry_ends_before_it_takes_the_memory() {
    let world = World::new(&format!("/a => {}", vec!["/b"; 5_000].join("|")));
    let failed = world.delegate(&format!("/a/{}", "x".repeat(60_000))).await.expect_err("300 MB of paths");
    assert_eq!(failed.to_string(), "Max recursion level reached.");
    world.delegate("/a/x").await.expect("5,000 branches are not too many");
}

#[tokio::test]
async fn a_delegation_names_the_dentry_of_each_step() {
    let world = World::new("/srv => /#/t; /host => /srv; /svc => /host");
    world.fixture.serve("/web", &[7]);
    let delegation = world.delegate("/svc/web").await.expect("answered");
    let mut node = &delegation.tree;
    let mut steps = Vec::new();
    loop {
        steps.push((node.path().to_string(), node.dentry().map(|dentry| Dentry::to_string(dentry))));
        match node {
            crate::name::DelegateTree::Delegate { tree, .. } => node = tree,
            crate::name::DelegateTree::Leaf { value, .. } => {
                assert_eq!((value.id.to_string(), value.addr.clone()), ("/#/t/web".into(), Some(bound(&[7]))));
                break;
            }
            other => panic!("unexpected {other:?}"),
        }
    }
    let nop = Dentry::nop().to_string();
    let expected = [
        ("/svc/web", nop.as_str()),
        ("/host/web", "/svc=>/host"),
        ("/srv/web", "/host=>/srv"),
        ("/#/t/web", "/srv=>/#/t"),
    ];
    assert_eq!(steps, expected.map(|(path, dentry)| (path.to_string(), Some(dentry.to_string()))));
}

#[tokio::test(start_paused = true)]
async fn a_delegation_waits_for_every_branch_and_no_longer_than_its_limit() {
    let world = World::new("/svc => /#/t/a | /#/t/silent");
    world.fixture.serve("/a", &[1]);
    let refused = world.delegate("/svc").await.expect_err("one branch is silent");
    assert!(matches!(refused, Unanswered::TimedOut { .. }));
}

#[tokio::test]
async fn an_unknown_id_has_no_addresses_and_is_watched_all_the_same() {
    let world = World::new("");
    world.fixture.presence(&path("/web")).publish(false);
    let addr = |id: &str| world.local.addr(Client::INTERNAL, &path(id)).expect("room");
    assert_eq!(addr("/svc/web").current().value().map(|addr| Addr::clone(addr)), Some(Addr::Neg));
    assert_eq!(addr("/").current().value().map(|addr| Addr::clone(addr)), Some(Addr::Neg));
    let web = addr("/%/some/prefix/#/t/web");
    assert_eq!(web.current().value().map(|addr| Addr::clone(addr)), Some(Addr::Neg));
    world.fixture.serve("/web", &[5]);
    assert_eq!(web.current().value().map(|addr| Addr::clone(addr)), Some(bound(&[5])));
}

#[tokio::test]
async fn http_resolve_does_not_see_behind_a_transformer_prefix() {
    let world = World::new("");
    world.fixture.serve("/web", &[5]);
    let id = path("/%/some/prefix/#/t/web");
    let verbatim = world.local.addr_verbatim(Client::INTERNAL, &id).expect("room");
    assert_eq!(verbatim.current().value().map(|addr| Addr::clone(addr)), Some(Addr::Neg));
}
