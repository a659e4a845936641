//! Look-ups at name servers on the loopback address.

use std::collections::HashMap;
use std::net::{Ipv6Addr, SocketAddr};
use std::str::FromStr;

use hickory_resolver::config::ConnectionConfig;
use hickory_resolver::proto::op::Message;
use hickory_resolver::proto::rr::rdata::{A, AAAA, CNAME};
use hickory_resolver::proto::rr::{RData, Record};
use tokio::net::UdpSocket;
use tokio_util::task::AbortOnDropHandle;

use super::*;

const V4: IpFamilies = IpFamilies { v4: true, v6: false };
const BOTH: IpFamilies = IpFamilies { v4: true, v6: true };

/// A name server: records by name and type, and names that it answers with an error.
#[derive(Clone, Default)]
struct Zone {
    records: HashMap<(String, RecordType), Vec<(u32, RData)>>,
    errors: HashMap<String, ResponseCode>,
}

struct Server {
    addr: SocketAddr,
    asked: Arc<Mutex<Vec<String>>>,
    _task: AbortOnDropHandle<()>,
}

impl Zone {
    fn a(self, name: &str, ttl: u32, addr: [u8; 4]) -> Self {
        self.with(name, ttl, RData::A(A(addr.into())))
    }

    fn with(mut self, name: &str, ttl: u32, data: RData) -> Self {
        self.records.entry((name.to_owned(), data.record_type())).or_default().push((ttl, data));
        self
    }

    fn error(mut self, name: &str, code: ResponseCode) -> Self {
        self.errors.insert(name.to_owned(), code);
        self
    }

    async fn serve(self) -> Server {
        let socket = UdpSocket::bind("127.0.0.1:0").await.expect("a port");
        let addr = socket.local_addr().expect("bound");
        let asked = Arc::new(Mutex::new(Vec::new()));
        let log = asked.clone();
        let task = tokio::spawn(async move {
            let mut buffer = [0; 512];
            while let Ok((len, from)) = socket.recv_from(&mut buffer).await {
                let Ok(question) = Message::from_vec(&buffer[..len]) else { continue };
                let query = &question.queries[0];
                log.lock().push(format!("{} {}", query.name(), query.query_type()));
                let _ = socket.send_to(&self.answer(&question).to_vec().expect("encodes"), from).await;
            }
        });
        Server { addr, asked, _task: AbortOnDropHandle::new(task) }
    }

    fn answer(&self, question: &Message) -> Message {
        let query = question.queries[0].clone();
        let mut answer = Message::response(question.metadata.id, question.metadata.op_code);
        let mut name = query.name().clone();
        answer.metadata.response_code = ResponseCode::NXDomain;
        if let Some(code) = self.errors.get(&name.to_string()) {
            answer.metadata.response_code = *code;
        }
        loop {
            let records = |kind| self.records.get(&(name.to_string(), kind));
            let alias = records(RecordType::CNAME).cloned();
            let found = records(query.query_type()).or(alias.as_ref()).cloned();
            if found.is_some() || self.records.keys().any(|(known, _)| *known == name.to_string()) {
                answer.metadata.response_code = ResponseCode::NoError;
            }
            for (ttl, data) in found.unwrap_or_default() {
                answer.add_answer(Record::from_rdata(name.clone(), ttl, data));
            }
            match alias.as_deref() {
                Some([(_, RData::CNAME(CNAME(target)))]) => name = target.clone(),
                _ => break,
            }
        }
        answer.add_query(query);
        answer
    }
}

impl Server {
    fn asked(&self) -> Vec<String> {
        std::mem::take(&mut *self.asked.lock())
    }
}

/// A machine with these name servers and this text in its hosts file.
fn setup(servers: &[SocketAddr], search: &[&str], hosts: &str) -> Setup {
    let server = |addr: &SocketAddr| {
        let mut udp = ConnectionConfig::udp();
        udp.port = addr.port();
        NameServerConfig::new(addr.ip(), true, vec![udp])
    };
    let mut options = ResolverOpts::default();
    options.timeout = Duration::from_millis(300);
    let mut setup = Setup::new(servers.iter().map(server).collect(), &options);
    setup.search = search.iter().map(|domain| Name::from_str(domain).expect("a name")).collect();
    setup.file.read_hosts_conf(hosts.as_bytes()).expect("reads");
    setup
}

fn answer(addrs: &[&str], ttl: u64) -> Result<Answer, Unresolved> {
    let addrs = addrs.iter().map(|addr| addr.parse().expect("an address")).collect();
    Ok(Answer { addrs, ttl: Duration::from_secs(ttl) })
}

#[tokio::test]
async fn the_least_ttl_of_a_chain_of_aliases_counts() {
    let alias = CNAME(Name::from_str("real.test.").expect("a name"));
    let zone = Zone::default().with("web.test.", 7, RData::CNAME(alias)).a("real.test.", 300, [192, 0, 2, 1]).a(
        "real.test.",
        300,
        [192, 0, 2, 2],
    );
    let server = zone.serve().await;
    let setup = setup(&[server.addr], &[], "");
    assert_eq!(setup.resolve("web.test", V4).await, answer(&["192.0.2.1", "192.0.2.2"], 7));
    assert_eq!(setup.resolve("real.test.", V4).await, answer(&["192.0.2.1", "192.0.2.2"], 300));
}

#[tokio::test]
async fn no_such_name_and_no_such_record_are_both_no_such_host() {
    let v6 = RData::AAAA(AAAA(Ipv6Addr::LOCALHOST));
    let server = Zone::default().with("six.test.", 60, v6).serve().await;
    let setup = setup(&[server.addr], &[], "");
    assert_eq!(setup.resolve("nowhere.test", V4).await, Err(Unresolved::NoSuchHost));
    assert_eq!(setup.resolve("six.test", V4).await, Err(Unresolved::NoSuchHost));
    assert_eq!(server.asked(), ["nowhere.test. A", "six.test. A"], "nothing but A records is asked for");
    assert_eq!(setup.resolve("six.test", BOTH).await, answer(&["::1"], 60));
}

#[tokio::test]
async fn what_is_no_name_is_no_such_host_without_asking() {
    let server = Zone::default().serve().await;
    let setup = setup(&[server.addr], &[], "");
    assert_eq!(setup.resolve("a..b", V4).await, Err(Unresolved::NoSuchHost));
    assert_eq!(setup.resolve(&"a".repeat(64), V4).await, Err(Unresolved::NoSuchHost));
    assert!(server.asked().is_empty());
}

#[tokio::test]
async fn a_server_that_cannot_say_is_not_believed() {
    let server = Zone::default().error("web.test.", ResponseCode::ServFail).serve().await;
    let refused = setup(&[server.addr], &[], "").resolve("web.test", V4).await.expect_err("SERVFAIL");
    assert!(matches!(&refused, Unresolved::Unavailable(reason) if reason.contains("web.test")), "{refused}");
}

#[tokio::test]
async fn servers_are_asked_in_order_until_one_can_say() {
    let broken = Zone::default().error("web.test.", ResponseCode::ServFail).serve().await;
    let silent = UdpSocket::bind("127.0.0.1:0").await.expect("a port");
    let good = Zone::default().a("web.test.", 60, [192, 0, 2, 1]).serve().await;
    let last = Zone::default().a("web.test.", 60, [192, 0, 2, 9]).serve().await;
    let servers = [broken.addr, silent.local_addr().expect("bound"), good.addr, last.addr];
    assert_eq!(setup(&servers, &[], "").resolve("web.test", V4).await, answer(&["192.0.2.1"], 60));
    assert!(last.asked().is_empty(), "the servers behind the one that answers are left alone");
    let first_says_no = setup(&[last.addr, good.addr], &[], "").resolve("other.test", V4).await;
    assert_eq!(first_says_no, Err(Unresolved::NoSuchHost));
    assert!(good.asked().iter().all(|asked| asked.starts_with("web.test.")), "a no is an answer");
}

#[tokio::test]
async fn silence_of_all_servers_is_no_answer_and_later_candidates_are_not_tried() {
    let silent = UdpSocket::bind("127.0.0.1:0").await.expect("a port");
    let setup = setup(&[silent.local_addr().expect("bound")], &["a.test.", "b.test."], "");
    assert!(matches!(setup.resolve("web", V4).await, Err(Unresolved::Unavailable(_))));
    let mut buffer = [0; 512];
    let mut asked = Vec::new();
    while let Ok(len) = silent.try_recv(&mut buffer) {
        let question = Message::from_vec(&buffer[..len]).expect("a question");
        asked.push(question.queries[0].name().to_string());
    }
    asked.dedup();
    assert_eq!(asked, ["web.a.test."]);
}

#[tokio::test]
async fn a_short_name_is_looked_for_in_the_search_list_first_and_a_long_one_last() {
    let zone = Zone::default().a("web.b.test.", 60, [192, 0, 2, 1]).a("web.sub.b.test.", 60, [192, 0, 2, 2]);
    let server = zone.serve().await;
    let setup = setup(&[server.addr], &["a.test.", "b.test."], "");
    assert_eq!(setup.resolve("web", V4).await, answer(&["192.0.2.1"], 60));
    assert_eq!(server.asked(), ["web.a.test. A", "web.b.test. A"]);
    assert_eq!(setup.resolve("web.sub", V4).await, answer(&["192.0.2.2"], 60));
    assert_eq!(server.asked(), ["web.sub. A", "web.sub.a.test. A", "web.sub.b.test. A"]);
    assert_eq!(setup.resolve("web.", V4).await, Err(Unresolved::NoSuchHost));
    assert_eq!(server.asked(), ["web. A"]);
}

#[tokio::test]
async fn a_candidate_that_nobody_can_tell_about_leaves_the_host_open() {
    let zone = Zone::default().error("web.a.test.", ResponseCode::ServFail);
    let server = zone.serve().await;
    let setup = setup(&[server.addr], &["a.test."], "");
    assert!(matches!(setup.resolve("web", V4).await, Err(Unresolved::Unavailable(_))));
    assert_eq!(server.asked(), ["web.a.test. A", "web. A"]);
}

#[tokio::test]
async fn the_hosts_file_comes_before_all_servers() {
    let server = Zone::default().a("web.a.test.", 60, [192, 0, 2, 9]).serve().await;
    let hosts = "192.0.2.1 web.long web # comment\n192.0.2.2\tWEB\n2001:db8::1 web six\n";
    let setup = setup(&[server.addr], &["a.test."], hosts);
    assert_eq!(setup.resolve("web", V4).await, answer(&["192.0.2.1", "192.0.2.2"], 5));
    assert_eq!(setup.resolve("web", BOTH).await, answer(&["192.0.2.1", "192.0.2.2", "2001:db8::1"], 5));
    assert!(server.asked().is_empty());
    assert_eq!(setup.resolve("six", V4).await, Err(Unresolved::NoSuchHost), "an IPv6 line is no help for IPv4");
}

#[test]
fn the_files_of_the_machine_are_read() {
    let setup = Setup::parse(b"nameserver 192.0.2.53\nsearch a.test b.test\noptions ndots:5\n", b"192.0.2.1 web\n");
    let setup = setup.expect("reads");
    let shown = |host: &str| {
        let name = Name::from_str_relaxed(host).expect("a name");
        setup.candidates(&name, host).iter().map(Name::to_string).collect::<Vec<_>>()
    };
    assert_eq!(shown("x.y"), ["x.y.a.test.", "x.y.b.test.", "x.y."]);
    assert_eq!(shown("1.2.3.4.5.6"), ["1.2.3.4.5.6.", "1.2.3.4.5.6.a.test.", "1.2.3.4.5.6.b.test."]);
    assert_eq!(setup.servers.len(), 1);
    Setup::parse(b"search a.test\n", b"").expect_err("no name server");
}

#[tokio::test(start_paused = true)]
async fn changed_files_are_read_again_and_a_broken_one_is_not() {
    let directory = std::env::temp_dir().join(format!("rosterd-dns-{}", std::process::id()));
    std::fs::create_dir_all(&directory).expect("a directory");
    let files = Files { resolv_conf: directory.join("resolv.conf"), hosts: directory.join("hosts") };
    let write = |path: &std::path::Path, text: &str| {
        let new = path.with_extension("new");
        std::fs::write(&new, text).and_then(|()| std::fs::rename(&new, path)).expect("written");
    };
    write(&files.resolv_conf, "nameserver 127.0.0.1\n");
    write(&files.hosts, "192.0.2.1 web\n");
    let dns = SystemDns::with_files(V4, files.clone());
    assert_eq!(dns.resolve("web").await, answer(&["192.0.2.1"], 5));

    write(&files.hosts, "192.0.2.2 web\n");
    tokio::time::advance(CHECK_FILES).await;
    assert_eq!(dns.resolve("web").await, answer(&["192.0.2.2"], 5));

    write(&files.resolv_conf, "");
    write(&files.hosts, "192.0.2.3 web\n");
    tokio::time::advance(CHECK_FILES).await;
    assert_eq!(dns.resolve("web").await, answer(&["192.0.2.2"], 5), "no name server: the last state stays");

    write(&files.resolv_conf, "nameserver 127.0.0.1\n");
    tokio::time::advance(CHECK_FILES).await;
    assert_eq!(dns.resolve("web").await, answer(&["192.0.2.3"], 5));

    std::fs::remove_dir_all(&directory).expect("removed");
    assert!(SystemDns::with_files(V4, files).resolve("localhost").await.is_ok(), "without files there is a default");
}
