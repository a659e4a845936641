//! Clients of the thrift interface that are broken, or wish to break it. Each story ends with everybody else being served
//! as before: answers within 100 ms, and memory within 50 MB of what it was.

mod bystander;
mod frames;
mod numbers;
mod slow;
mod values;

use crate::support::{Rosterd, folder};

/// A server with two names: `/svc/web` has one address, `/svc/many` a thousand.
fn server() -> Rosterd {
    let many = (0..1_000).map(|host| format!("10.0.{}.{} 8080\n", host / 250, host % 250)).collect();
    server_with("", [("web".to_owned(), ONE.to_owned()), ("many".to_owned(), many)])
}

const ONE: &str = "127.0.0.1 8080\n";

/// A server with further keys, and these names below `/svc` with what is in their files.
fn server_with(keys: &str, names: impl IntoIterator<Item = (String, String)>) -> Rosterd {
    let folder = folder();
    let disco = folder.path().join("disco");
    std::fs::create_dir(&disco).expect("the folder is writable");
    for (name, addresses) in names {
        std::fs::write(disco.join(name), addresses).expect("the folder is writable");
    }
    Rosterd::start_in(
        folder,
        &format!(
            "storage: {{kind: io.l5d.inMemory, namespaces: {{default: /svc => /#/io.l5d.fs}}}}\n\
             namers: [{{kind: io.l5d.fs, rootDir: disco}}]\n\
             interfaces: [{{kind: io.l5d.thriftNameInterpreter, port: 0}}, {{kind: io.l5d.httpController, port: 0}}]\n{keys}"
        ),
    )
}

fn port(rosterd: &Rosterd) -> u16 {
    rosterd.port("io.l5d.thriftNameInterpreter")
}
