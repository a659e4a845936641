//! What happens on streams that are open.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use prost::Message;
use rosterd::mesh::proto;
use rustix::process::Signal;
use serde_json::Value;

use super::caller::{Caller, Next};
use super::{INTERFACE, framed, unhex};
use crate::support::{Action, Rosterd, folder, in_project};

fn started(keys: &str) -> (Rosterd, tempfile::TempDir) {
    let disco = folder();
    std::fs::write(disco.path().join("b14"), "127.0.0.1 18080\n").expect("writable");
    let root = disco.path().display();
    let config = format!(
        "storage: {{kind: io.l5d.inMemory, namespaces: {{default: /svc=>/#/io.l5d.fs}}}}\n\
         namers: [{{kind: io.l5d.fs, rootDir: {root}}}]\n\
         interfaces: [{{kind: io.l5d.mesh, port: 0{keys}}}, {{kind: io.l5d.httpController, port: 0}}]\n"
    );
    (Rosterd::start(&config), disco)
}

fn path(text: &str) -> Option<proto::Path> {
    Some(proto::Path { elems: text.split('/').skip(1).map(|elem| elem.to_owned().into()).collect() })
}

const BIND: &str = "/io.linkerd.mesh.Interpreter/StreamBoundTree";
const ADDR: &str = "/io.linkerd.mesh.Resolver/StreamReplicas";
const DTAB: &str = "/io.linkerd.mesh.Delegator/StreamDtab";

fn bind(name: &str) -> bytes::Bytes {
    framed(&proto::BindReq { root: path("/default"), name: path(name), dtab: None }.encode_to_vec())
}

#[test]
fn the_bytes_of_a_real_linkerd_with_its_empty_authority_are_answered() {
    let (rosterd, _disco) = started("");
    let text = std::fs::read_to_string(in_project("tests/data/golden/linkerd-client/mesh-basic.json")).expect("there");
    let recording: Value = serde_json::from_str(&text).expect("a recording");
    let frames = recording["frames"].as_array().expect("frames").iter();
    let client = frames.filter(|frame| frame["from"] == "client" && frame["conn"] == 1);
    let client: Vec<u8> = client.take(5).flat_map(|frame| unhex(frame["hex"].as_str().expect("hex"))).collect();
    assert!(client.contains(&0x81));
    let mut stream = TcpStream::connect(("127.0.0.1", rosterd.port(INTERFACE))).expect("served");
    stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a socket");
    stream.write_all(&client).expect("written");
    // The bound tree on stream 3 and the addresses on stream 5, as namerd answered.
    let tree = unhex("0a1932170a130a01230a09696f2e6c35642e66730a036231341200");
    let (mut got_tree, mut got_addr) = (false, false);
    while !(got_tree && got_addr) {
        let mut head = [0; 9];
        stream.read_exact(&mut head).expect("a frame");
        let mut payload = vec![0; usize::from(head[1]) << 8 | usize::from(head[2])];
        stream.read_exact(&mut payload).expect("a frame");
        assert!(!matches!(head[3], 3 | 7), "reset or going away: {head:?} {payload:?}");
        if head[3] == 0 {
            got_tree |= head[8] == 3 && payload[5..] == tree;
            got_addr |= head[8] == 5 && payload.ends_with(&unhex("0a0e080012047f00000118a08d012200"));
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_tells_what_changes_and_ends_with_its_status() {
    let (rosterd, disco) = started("");
    let caller = Caller::connect(rosterd.port(INTERFACE)).await;
    let put = |dtab: &str| Action::Put { put: "default".to_owned(), dtab: dtab.to_owned() }.act(&rosterd, disco.path());
    let mut tree = caller.call("POST", BIND, bind("/svc/b14")).await;
    let first = tree.next().await;
    let request = proto::DtabReq { root: path("/default") }.encode_to_vec();
    let mut dtab = caller.call("POST", DTAB, framed(&request)).await;
    assert!(matches!(dtab.next().await, Next::Message(_)));
    put("/svc=>/#/io.l5d.fs");
    // The same text is another version of the dtab, and the same tree.
    assert!(matches!(dtab.next().await, Next::Message(_)));
    assert!(tree.silent().await);
    put("/svc=>/#/io.l5d.fs/b14");
    assert!(matches!(dtab.next().await, Next::Message(_)));
    let Next::Message(residual) = tree.next().await else { panic!("another residual") };
    assert_ne!(first, Next::Message(residual));
    Action::Delete { delete: "default".to_owned() }.act(&rosterd, disco.path());
    assert_eq!(dtab.next().await, Next::End(5, "Root not found".to_owned()));
    let neg = proto::BoundNameTree { node: Some(proto::bound_name_tree::Node::Neg(proto::bound_name_tree::Neg {})) };
    assert_eq!(tree.next().await, Next::Message(proto::BoundTreeRsp { tree: Some(neg) }.encode_to_vec().into()));
    put("/svc=>/svc2;/svc2=>/svc");
    assert!(tree.silent().await, "a dtab that fails keeps what was known");
    let mut looping = caller.call("POST", BIND, bind("/svc/new")).await;
    assert!(matches!(looping.next().await, Next::End(13, _)));
}

#[tokio::test(flavor = "multi_thread")]
async fn who_goes_ends_its_streams_with_trailers_before_the_connection() {
    let (rosterd, _disco) = started("");
    let caller = Caller::connect(rosterd.port(INTERFACE)).await;
    let mut tree = caller.call("POST", BIND, bind("/svc/b14")).await;
    assert!(matches!(tree.next().await, Next::Message(_)));
    rosterd.signal(Signal::TERM);
    assert_eq!(tree.next().await, Next::End(14, "the server is going away".to_owned()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_has_no_room_loses_that_stream_and_nobody_else_is_delayed() {
    let (rosterd, disco) = started(", stallTimeoutMs: 300");
    let lines: String = (0..6_000).map(|n| format!("10.0.{}.{} 80\n", n / 200, n % 200)).collect();
    std::fs::write(disco.path().join("large"), &lines).expect("writable");
    let caller = Caller::connect(rosterd.port(INTERFACE)).await;
    let mut tree = caller.call("POST", BIND, bind("/svc/b14")).await;
    assert!(matches!(tree.next().await, Next::Message(_)));
    let request = proto::ReplicasReq { id: path("/#/io.l5d.fs/large") }.encode_to_vec();
    // More than one window, of which nothing is given back.
    let mut large = caller.call("POST", ADDR, framed(&request)).await;
    let put = Action::Put { put: "default".to_owned(), dtab: "/svc=>/#/io.l5d.fs/b14".to_owned() };
    put.act(&rosterd, disco.path());
    assert!(matches!(tree.next().await, Next::Message(_)), "another stream of the same connection");
    assert_eq!(large.held_back().await, Next::Reset);
}
