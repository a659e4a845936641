//! One thrift message: what it costs to read a request and to write an answer, here and with Apache's code on the same
//! bytes. `cargo bench --bench thrift_codec`

#![expect(clippy::print_stdout, reason = "a bench tells what it measured")]

#[path = "../idl/namer.rs"]
#[rustfmt::skip]
#[allow(clippy::all, clippy::unwrap_used, dead_code, missing_docs, unused, reason = "generated")]
mod generated;

use std::hint::black_box;
use std::io::Cursor;
use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use rosterd::interpreter::{AddrSource, Bound, BoundId};
use rosterd::name::{AddrSet, Address, Meta, NameTree, Path};
use rosterd::thrift::{read_call, result};
use thrift::protocol::{
    TBinaryInputProtocol, TBinaryOutputProtocol, TFieldIdentifier, TInputProtocol, TMessageIdentifier, TMessageType,
    TOutputProtocol, TSerializable, TStructIdentifier, TType,
};

const ROUNDS: usize = 7;
const TIMES: u32 = 200_000;

fn main() {
    let request = request();
    let apache = per_call(|| drop(black_box(read_by_apache(black_box(&request)))));
    let ours = per_call(|| drop(black_box(read_call(black_box(&request)).expect("a call"))));
    println!("request of bind, {} bytes: read in {ours:?}, by Apache's code in {apache:?}", request.len());

    let tree = NameTree::Leaf(Bound {
        id: BoundId::Path(Path::parse("/#/io.l5d.fs/web").expect("a path")),
        residual: Path::empty(),
        source: AddrSource::None,
        weight: None,
    });
    compare::<generated::Bound>("bound leaf", || result::bound(7, black_box(&tree), "default"));

    let addresses = (0..100).map(|last| Address::new(Ipv4Addr::new(10, 0, 0, last).into(), 8080)).collect();
    let set = AddrSet::new(addresses, Meta::default());
    compare::<generated::Addr>("100 addresses", || result::addr(7, Some(black_box(&set)), false));
}

/// Writes one answer here, and the same value by Apache's code.
fn compare<T: TSerializable>(what: &str, write: impl Fn() -> bytes::Bytes) {
    let body = write();
    // Without the field around it.
    let value = T::read_from_in_protocol(&mut TBinaryInputProtocol::new(Cursor::new(&body[3..]), true)).expect("ours");
    let apache = per_call(|| {
        let mut out = Vec::with_capacity(body.len());
        value.write_to_out_protocol(&mut TBinaryOutputProtocol::new(&mut out, true)).expect("memory");
        black_box(out);
    });
    let ours = per_call(|| drop(black_box(write())));
    println!("answer of {what}, {} bytes: written in {ours:?}, by Apache's code in {apache:?}", body.len());
}

/// The request that a Linkerd sends for `/svc/web`, with a stamp.
fn request() -> Vec<u8> {
    let request = generated::BindReq {
        dtab: Some(String::new()),
        name: Some(generated::NameRef {
            stamp: Some(vec![0, 0, 0, 0, 0, 0, 0, 1]),
            name: Some(vec![b"svc".to_vec(), b"web".to_vec()]),
            ns: Some("default".to_owned()),
        }),
        client_id: Some(Vec::new()),
    };
    let mut out = Vec::new();
    let mut to = TBinaryOutputProtocol::new(&mut out, true);
    to.write_message_begin(&TMessageIdentifier::new("bind", TMessageType::Call, 0)).expect("memory");
    to.write_struct_begin(&TStructIdentifier::new("args")).expect("memory");
    to.write_field_begin(&TFieldIdentifier::new("req", TType::Struct, 1)).expect("memory");
    request.write_to_out_protocol(&mut to).expect("memory");
    to.write_field_stop().expect("memory");
    out
}

fn read_by_apache(message: &[u8]) -> generated::BindReq {
    let mut from = TBinaryInputProtocol::new(Cursor::new(message), false);
    from.read_message_begin().expect("a message");
    from.read_field_begin().expect("the argument");
    generated::BindReq::read_from_in_protocol(&mut from).expect("a request")
}

/// The best of several rounds, since other load on the machine only adds.
fn per_call(work: impl Fn()) -> Duration {
    let round = |_| {
        let began = Instant::now();
        (0..TIMES).for_each(|_| work());
        began.elapsed() / TIMES
    };
    (0..ROUNDS).map(round).min().expect("a round")
}
