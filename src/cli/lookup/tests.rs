//! Drawings of answers as servers give them, and commands against a server that only writes down what it is asked.

use serde_json::{Value, json};

use super::answer::{Addr, Node};
use super::draw;
use crate::cli::testing::{Fake, Reply, run, run_into};

fn node(value: Value) -> Node {
    serde_json::from_value(value).unwrap()
}

fn addr(addresses: &[&str]) -> Value {
    let list: Vec<Value> = addresses
        .iter()
        .map(|address| {
            let (ip, port) = address.rsplit_once(':').unwrap();
            json!({ "ip": ip, "port": port.parse::<u16>().unwrap(), "meta": {} })
        })
        .collect();
    json!({ "type": "bound", "addrs": list, "meta": {} })
}

fn leaf(path: &str, dentry: Value, addr: Value) -> Value {
    json!({ "type": "leaf", "path": path, "dentry": dentry, "bound": { "addr": addr, "id": path, "path": "/" } })
}

fn drawn(value: Value) -> String {
    draw::delegation(&node(value)).join("\n")
}

#[test]
fn a_delegation_shows_the_entry_behind_each_step_and_the_way_that_a_router_goes() {
    let hosts = json!({ "prefix": "/host", "dst": "/srv" });
    let canary = json!({ "prefix": "/host/web", "dst": "/srv/canary" });
    let files = json!({ "prefix": "/srv", "dst": "/#/io.l5d.fs" });
    let tree = json!({
        "type": "delegate", "path": "/svc/web", "delegate": {
            "type": "alt", "path": "/host/web", "dentry": { "prefix": "/svc", "dst": "/host" }, "alt": [
                { "type": "delegate", "path": "/srv/canary", "dentry": canary, "delegate":
                    { "type": "neg", "path": "/#/io.l5d.fs/canary", "dentry": files } },
                { "type": "delegate", "path": "/srv/web", "dentry": hosts, "delegate":
                    leaf("/#/io.l5d.fs/web", files.clone(), addr(&["127.0.0.1:9001", "127.0.0.1:9002"])) },
            ]
        }
    });
    assert_eq!(
        drawn(tree),
        "\
> /svc/web
> └─ /host/web  alt                   /svc => /host
     ├─ /srv/canary                   /host/web => /srv/canary
     │  └─ /#/io.l5d.fs/canary  neg   /srv => /#/io.l5d.fs
>    └─ /srv/web                      /host => /srv
>       └─ /#/io.l5d.fs/web           /srv => /#/io.l5d.fs
>            127.0.0.1:9001
>            127.0.0.1:9002"
    );
}

#[test]
fn of_a_union_every_branch_that_leads_somewhere_is_taken() {
    let entry = json!({ "prefix": "/a", "dst": "0.7*/b & 0.2*/c & 0.1*!" });
    let tree = json!({ "type": "union", "path": "/a", "union": [
        { "weight": 0.7, "tree": leaf("/#/x/b", entry.clone(), addr(&[])) },
        { "weight": 0.2, "tree": { "type": "neg", "path": "/c", "dentry": entry } },
        { "weight": 0.1, "tree": { "type": "fail", "path": "!", "dentry": entry } },
    ] });
    assert_eq!(
        drawn(tree),
        "\
> /a  union
> ├─ 0.70 * /#/x/b    /a => 0.7*/b & 0.2*/c & 0.1*!
> │    no addresses
  ├─ 0.20 * /c  neg   /a => 0.7*/b & 0.2*/c & 0.1*!
  └─ 0.10 * !  fail   /a => 0.7*/b & 0.2*/c & 0.1*!"
    );
}

#[test]
fn the_marked_way_ends_where_the_lookup_ends() {
    let way = |alternatives: Value| {
        let tree = json!({ "type": "alt", "path": "/a", "alt": alternatives });
        drawn(tree).lines().skip(1).map(|line| line.starts_with('>')).collect::<Vec<_>>()
    };
    let (neg, fail) = (json!({ "type": "neg", "path": "~" }), json!({ "type": "fail", "path": "!" }));
    let (empty, error) = (json!({ "type": "empty", "path": "/a" }), json!({ "type": "exception", "path": "/a" }));
    assert_eq!(way(json!([neg, fail, empty])), [false, true, false]);
    assert_eq!(way(json!([neg, empty, fail])), [false, true, false]);
    assert_eq!(way(json!([error, empty])), [true, false]);
    assert_eq!(way(json!([neg, neg])), [false, false]);
    let union = json!({ "type": "union", "path": "/a", "union": [{ "weight": 1.0, "tree": fail }] });
    assert_eq!(way(json!([union, empty])), [false, false, true]);
}

#[test]
fn an_address_is_shown_with_what_is_known_about_it() {
    let lines = |value: Value| draw::addresses(&serde_json::from_value::<Addr>(value).unwrap());
    assert_eq!(
        lines(json!({ "type": "bound", "meta": { "authority": "web" }, "addrs": [
            { "ip": "0:0:0:0:0:0:0:1", "port": 80, "meta": { "endpoint_addr_weight": 0.5, "nodeName": "n7" } },
        ] })),
        ["[0:0:0:0:0:0:0:1]:80 endpoint_addr_weight=0.5 nodeName=n7 authority=web"]
    );
    assert_eq!(lines(json!({ "type": "neg" })), ["neg"]);
    assert_eq!(lines(json!({ "type": "failed", "cause": "bad file" })), ["failed: bad file"]);
    assert_eq!(lines(json!({ "type": "failed" })), ["failed"]);
}

#[test]
fn a_bound_tree_fits_in_a_line() {
    let leaf = |id: &str, rest: &str| json!({ "type": "leaf", "bound": { "addr": { "type": "neg" }, "id": id, "path": rest } });
    let tree = json!({ "type": "union", "union": [
        { "weight": 0.5, "tree": leaf("/#/a", "/x") },
        { "weight": 0.5, "tree": { "type": "union", "union": [
            { "weight": 1.0, "tree": leaf("/#/b", "/") },
            { "weight": 1.0, "tree": { "type": "empty" } },
        ] } },
    ] });
    assert_eq!(draw::one_line(&node(tree)), "0.50*/#/a (residual /x) & 0.50*(1.00*/#/b & 1.00*$)");
    assert_eq!(draw::one_line(&node(json!({ "type": "neg" }))), "neg");
}

async fn bound() -> Fake {
    Fake::start(|_, _| {
        let bound = json!({ "addr": addr(&["127.0.0.1:9001"]), "id": "/#/io.l5d.fs/web", "path": "/rest" });
        Reply::ok(&format!("{}\n", json!({ "type": "leaf", "bound": bound })))
    })
    .await
}

#[tokio::test]
async fn bind_prints_the_name_and_its_addresses() {
    let fake = bound().await;
    let line = ["rosterd", "bind", "default", "/svc/web", "--dtab", "/svc=>/a;/a=>/b", "--server", "SERVER"];
    let ran = run(&fake, &line).await;
    assert_eq!((ran.status, ran.talk.as_str()), (0, ""));
    assert_eq!(ran.data, "/#/io.l5d.fs/web (residual /rest)\n  127.0.0.1:9001\n");
    assert_eq!(
        fake.asked(),
        ["GET /api/1/bind/default?path=%2Fsvc%2Fweb&dtab=%2Fsvc%3D%3E%2Fa%3B%2Fa%3D%3E%2Fb HTTP/1.1"]
    );
}

#[tokio::test]
async fn json_is_passed_on_as_it_came() {
    let fake = Fake::start(|_, _| Reply::ok("{\"type\":\"neg\",\"path\":\"~\"}")).await;
    let ran = run(&fake, &["rosterd", "delegate", "default", "/", "--json", "--server", "SERVER"]).await;
    assert_eq!((ran.status, ran.data.as_str()), (0, "{\"type\":\"neg\",\"path\":\"~\"}\n"));
    assert_eq!(fake.asked(), ["GET /api/1/delegate/default?path=%2F HTTP/1.1"]);
}

#[tokio::test]
async fn a_name_without_addresses_is_an_answer_with_a_hint() {
    let fake = Fake::start(|_, _| Reply::ok("{\"type\":\"neg\"}\n")).await;
    let ran = run(&fake, &["rosterd", "resolve", "default", "/svc/web", "--server", "SERVER"]).await;
    assert_eq!((ran.status, ran.data.as_str()), (0, "neg\n"));
    assert_eq!(ran.talk, "/svc/web has no addresses; `rosterd delegate default /svc/web` shows why\n");
}

#[tokio::test]
async fn a_tree_too_deep_to_draw_is_not_drawn() {
    let tree =
        "{\"type\":\"delegate\",\"path\":\"/a\",\"delegate\":".repeat(200) + "{\"type\":\"neg\"}" + &"}".repeat(200);
    let fake = Fake::start(move |_, _| Reply::ok(&tree)).await;
    let ran = run(&fake, &["rosterd", "delegate", "default", "/a", "--server", "SERVER"]).await;
    assert_eq!(ran.status, 1);
    assert_eq!(ran.talk, "rosterd: the tree nests too deep to be drawn; --json prints it\n");
}

#[tokio::test]
async fn a_watch_tells_new_names_and_new_addresses() {
    const WEB: &str = r#"{"type":"leaf","bound":{"addr":{"type":"neg"},"id":"/#/io.l5d.fs/web","path":"/"}}"#;
    let fake = Fake::start(|request, _| {
        if request.contains("/bind/") {
            return Reply::Open(vec![WEB]);
        }
        Reply::Open(vec![
            r#"{"type":"bound","addrs":[{"ip":"127.0.0.1","port":1,"meta":{}}],"meta":{}}"#,
            r#"{"type":"bound","addrs":[{"ip":"127.0.0.1","port":2,"meta":{"endpoint_addr_weight":2.0}}],"meta":{}}"#,
            r#"{"type":"neg"}"#,
        ])
    })
    .await;
    let ran = run_into(&fake, &["rosterd", "watch", "default", "/svc/web", "--server", "SERVER"], 4).await;
    assert_eq!((ran.status, ran.talk.as_str()), (0, ""));
    let lines: Vec<&str> = ran.data.lines().map(|line| line.split_once("Z ").unwrap().1).collect();
    assert_eq!(
        lines,
        [
            "bind /#/io.l5d.fs/web",
            "addr /#/io.l5d.fs/web: 1 address +127.0.0.1:1",
            "addr /#/io.l5d.fs/web: 1 address +127.0.0.1:2[endpoint_addr_weight=2.0] -127.0.0.1:1",
            "addr /#/io.l5d.fs/web: neg",
        ]
    );
    assert_eq!(
        fake.asked(),
        [
            "GET /api/1/bind/default?path=%2Fsvc%2Fweb&watch=true HTTP/1.1",
            "GET /api/1/addr/default?path=%2F%23%2Fio.l5d.fs%2Fweb&watch=true HTTP/1.1",
        ]
    );
}

#[tokio::test]
async fn a_watch_leaves_the_addresses_of_names_that_are_gone() {
    let fake = Fake::start(|request, _| {
        if request.contains("/bind/") {
            return Reply::Open(vec![
                r#"{"type":"leaf","bound":{"addr":{"type":"neg"},"id":"/#/a","path":"/"}}"#,
                r#"{"type":"neg"}"#,
            ]);
        }
        Reply::Open(vec![])
    })
    .await;
    let ran = run_into(&fake, &["rosterd", "watch", "default", "/svc/web", "--json", "--server", "SERVER"], 2).await;
    let lines: Vec<&str> = ran.data.lines().map(|line| line.split_once("Z\",").unwrap().1).collect();
    assert_eq!(lines[1], r#""bind":{"type":"neg"}}"#);
}

#[tokio::test]
async fn a_watch_that_the_server_refuses_ends() {
    let fake = Fake::start(|_, _| Reply::Whole("400 Bad Request", "", "Invalid path: no".to_owned())).await;
    let ran = run(&fake, &["rosterd", "watch", "default", "/svc/web", "--server", "SERVER"]).await;
    assert_eq!((ran.status, ran.data.as_str()), (1, ""));
    assert!(ran.talk.ends_with("was answered with 400 Bad Request: Invalid path: no\n"), "{}", ran.talk);
}

/// A server where nothing is bound, with one namespace.
async fn empty() -> Fake {
    Fake::start(|request, _| match request {
        request if request.contains("/api/1/dtabs/default") => Reply::ok("[]"),
        request if request.contains("/api/1/dtabs/") => Reply::status("404 Not Found"),
        _ => Reply::ok("{\"type\":\"neg\"}"),
    })
    .await
}

#[tokio::test]
async fn a_namespace_that_does_not_exist_is_named_as_the_reason() {
    let fake = empty().await;
    for command in ["bind", "resolve", "delegate"] {
        let ran = run(&fake, &["rosterd", command, "nons", "/svc/web", "--server", "SERVER"]).await;
        let hint = "there is no namespace nons; `rosterd dtab list` shows those that exist\n";
        assert!(ran.status == 0 && ran.talk.ends_with(hint), "{command}: {}", ran.talk);
        let ran = run(&fake, &["rosterd", command, "default", "/svc/web", "--server", "SERVER"]).await;
        assert!(ran.status == 0 && !ran.talk.contains("no namespace"), "{command}: {}", ran.talk);
        if command != "delegate" {
            assert!(ran.talk.contains("`rosterd delegate default /svc/web` shows why"), "{command}: {}", ran.talk);
        }
    }
}

#[tokio::test]
async fn addresses_that_cannot_be_told_are_a_failure() {
    let fake = Fake::start(|_, _| Reply::ok("{\"type\":\"failed\",\"cause\":\"malformed address: x\"}")).await;
    let ran = run(&fake, &["rosterd", "resolve", "default", "/svc/web", "--server", "SERVER"]).await;
    assert_eq!((ran.status, ran.data.as_str()), (1, "failed: malformed address: x\n"));
    assert_eq!(ran.talk, "rosterd: the addresses of /svc/web are not known\n");
}

#[tokio::test]
async fn a_password_in_the_address_of_a_server_is_sent_and_never_shown() {
    let fake = Fake::start(|_, _| Reply::status("401 Unauthorized")).await;
    let url = fake.url().replace("http://", "http://user:p4ssw0rd@");
    let away = "http://user:p4ssw0rd@127.0.0.1:1";
    for server in [&url, away] {
        for line in [
            &["rosterd", "bind", "default", "/a", "--server", server][..],
            &["rosterd", "dtab", "list", "--server", server],
            &["rosterd", "healthcheck", "--admin", server],
            &["rosterd", "watches", "--admin", server],
            &["rosterd", "routers", "check", server],
            &["rosterd", "routers", "check", "--json", server],
        ] {
            let ran = run(&fake, line).await;
            let said = format!("{}{}", ran.data, ran.talk);
            assert!(ran.status == 1 && said.contains("***@127.0.0.1:") && !said.contains("p4ss"), "{line:?}: {said}");
        }
    }
    assert_eq!(fake.asked().len(), 6, "{:?}", fake.asked());
    let wrong = run(&fake, &["rosterd", "bind", "default", "/a", "--server", "ftp://user:p4ssw0rd@x"]).await;
    assert!(wrong.status == 1 && !wrong.talk.contains("p4ss"), "{}", wrong.talk);
}
