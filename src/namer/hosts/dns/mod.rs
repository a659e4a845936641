//! The name servers and the hosts file of this machine.
//!
//! Both files are read again when they change. Names are looked for as the C library does it, and so as namerd did:
//! the hosts file first, then each candidate of the search list, each at the name servers in the order of the file.
//! Servers are never asked side by side: an internal one listed before a public one must win.

#[cfg(test)]
mod tests;

use std::fs::Metadata;
use std::net::{IpAddr, Ipv4Addr};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use hickory_resolver::config::{NameServerConfig, ResolveHosts, ResolverConfig, ResolverOpts};
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::net::{DnsError, NetError};
use hickory_resolver::proto::op::{Query, ResponseCode};
use hickory_resolver::proto::rr::{Name, RecordType};
use hickory_resolver::system_conf::parse_resolv_conf;
use hickory_resolver::{Hosts as HostsFile, TokioResolver};
use parking_lot::Mutex;
use tokio::time::Instant;

use super::{Answer, Resolve, Unresolved};
use crate::config::IpFamilies;

/// How often the files are looked at, and how long what they say holds.
const CHECK_FILES: Duration = Duration::from_secs(5);

/// How long one server may take: several must have their turn within the deadline of a look-up.
const SERVER_TIMEOUT: Duration = Duration::from_secs(3);

/// Looks hosts up as this machine is set up to.
#[derive(Debug)]
pub(super) struct SystemDns {
    families: IpFamilies,
    files: Files,
    state: Mutex<State>,
}

/// Where the set-up of the machine is written.
#[derive(Clone, Debug)]
struct Files {
    resolv_conf: PathBuf,
    hosts: PathBuf,
}

#[derive(Debug)]
struct State {
    setup: Arc<Setup>,
    stamps: [Option<Stamp>; 2],
    checked: Instant,
}

/// What tells one version of a file from another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp(SystemTime, u64, u64);

/// What the two files say.
#[derive(Debug)]
struct Setup {
    servers: Vec<TokioResolver>,
    search: Vec<Name>,
    /// A name with at least this many dots is tried as it stands before the search list.
    ndots: usize,
    file: HostsFile,
}

/// What came of asking for one name.
enum Asked {
    Found(Answer),
    /// No such name, or no such records.
    Nothing,
    /// A server that cannot say, such as SERVFAIL: another candidate may still be answered.
    Unsure(String),
    /// No server answered.
    Silent(String),
}

// === impl SystemDns ===

impl SystemDns {
    pub(super) fn new(families: IpFamilies) -> Self {
        Self::with_files(families, Files { resolv_conf: "/etc/resolv.conf".into(), hosts: "/etc/hosts".into() })
    }

    fn with_files(families: IpFamilies, files: Files) -> Self {
        let stamps = files.stamps();
        let setup = files.read().unwrap_or_else(|error| {
            tracing::warn!(%error, "no usable list of name servers; asking one at 127.0.0.1");
            Setup::new(vec![NameServerConfig::udp_and_tcp(Ipv4Addr::LOCALHOST.into())], &ResolverOpts::default())
        });
        let state = State { setup: Arc::new(setup), stamps, checked: Instant::now() };
        Self { families, files, state: Mutex::new(state) }
    }

    /// What the files say, as of a few seconds ago.
    async fn setup(&self) -> Arc<Setup> {
        let known = {
            let mut state = self.state.lock();
            if state.checked.elapsed() < CHECK_FILES {
                return state.setup.clone();
            }
            // Whoever asks meanwhile goes on with what there is.
            state.checked = Instant::now();
            state.stamps
        };
        let files = self.files.clone();
        let read = tokio::task::spawn_blocking(move || {
            let stamps = files.stamps();
            (stamps != known).then(|| (stamps, files.read()))
        });
        let read = read.await;
        let mut state = self.state.lock();
        if let Ok(Some((stamps, setup))) = read {
            state.stamps = stamps;
            match setup {
                Ok(setup) => {
                    tracing::info!("the list of name servers or the hosts file changed and was read again");
                    state.setup = Arc::new(setup);
                }
                Err(error) => tracing::warn!(%error, "the list of name servers changed; its last usable state stays"),
            }
        }
        state.setup.clone()
    }
}

#[async_trait]
impl Resolve for SystemDns {
    async fn resolve(&self, host: &str) -> Result<Answer, Unresolved> {
        self.setup().await.resolve(host, self.families).await
    }
}

// === impl Setup ===

impl Setup {
    /// Reads the text of both files.
    fn parse(resolv_conf: &[u8], hosts: &[u8]) -> Result<Self, String> {
        let (config, options) = parse_resolv_conf(resolv_conf).map_err(|error| error.to_string())?;
        let mut setup = Self::new(config.name_servers, &options);
        setup.search = if config.search.is_empty() { config.domain.into_iter().collect() } else { config.search };
        setup.file.read_hosts_conf(hosts).map_err(|error| error.to_string())?;
        Ok(setup)
    }

    fn new(servers: Vec<NameServerConfig>, options: &ResolverOpts) -> Self {
        // The search list, the hosts file, the order of servers and the time to ask again are handled here.
        let mut own = options.clone();
        own.timeout = options.timeout.min(SERVER_TIMEOUT);
        own.attempts = 0;
        own.cache_size = 0;
        own.use_hosts_file = ResolveHosts::Never;
        let servers = servers.into_iter().filter_map(|server| {
            let config = ResolverConfig::from_parts(None, Vec::new(), vec![server]);
            let provider = TokioRuntimeProvider::default();
            TokioResolver::builder_with_config(config, provider).with_options(own.clone()).build().ok()
        });
        let servers = servers.collect();
        Self { servers, search: Vec::new(), ndots: options.ndots, file: HostsFile::default() }
    }

    async fn resolve(&self, host: &str, families: IpFamilies) -> Result<Answer, Unresolved> {
        let Ok(name) = Name::from_str_relaxed(host) else {
            return Err(Unresolved::NoSuchHost);
        };
        let kinds: Vec<_> = [(families.v4, RecordType::A), (families.v6, RecordType::AAAA)]
            .into_iter()
            .filter_map(|(used, kind)| used.then_some(kind))
            .collect();
        let in_file: Vec<_> = kinds.iter().flat_map(|kind| self.in_file(&name, *kind)).collect();
        if !in_file.is_empty() {
            return Ok(Answer { addrs: in_file, ttl: CHECK_FILES });
        }
        let mut first_server = 0;
        let mut unsure = None;
        for candidate in self.candidates(&name, host) {
            let mut answer = Answer { addrs: Vec::new(), ttl: Duration::MAX };
            for kind in &kinds {
                match self.ask(&candidate, *kind, &mut first_server).await {
                    Asked::Found(more) => {
                        answer.addrs.extend(more.addrs);
                        answer.ttl = answer.ttl.min(more.ttl);
                    }
                    Asked::Nothing => {}
                    Asked::Unsure(reason) => unsure = Some(reason),
                    // A later candidate could be answered, and would be another host.
                    Asked::Silent(reason) => return Err(Unresolved::Unavailable(reason)),
                }
            }
            if !answer.addrs.is_empty() {
                return Ok(answer);
            }
        }
        Err(unsure.map_or(Unresolved::NoSuchHost, Unresolved::Unavailable))
    }

    fn in_file(&self, name: &Name, kind: RecordType) -> Vec<IpAddr> {
        let found = self.file.lookup_static_host(&Query::query(name.clone(), kind));
        found
            .map(|found| found.answers().iter().filter_map(|record| record.data.ip_addr()).collect())
            .unwrap_or_default()
    }

    /// The absolute names that a host may stand for, in order.
    fn candidates(&self, name: &Name, host: &str) -> Vec<Name> {
        let absolute = |mut name: Name| {
            name.set_fqdn(true);
            name
        };
        let as_it_stands = absolute(name.clone());
        if name.is_fqdn() {
            return vec![as_it_stands];
        }
        let mut names: Vec<_> =
            self.search.iter().filter_map(|domain| name.clone().append_domain(domain).ok()).map(absolute).collect();
        let dots = host.bytes().filter(|byte| *byte == b'.').count();
        let at = if dots >= self.ndots { 0 } else { names.len() };
        names.insert(at, as_it_stands);
        names
    }

    /// Asks the servers in order, from `first_server` on, until one answers; those that are silent are passed over for
    /// the rest of this look-up.
    async fn ask(&self, name: &Name, kind: RecordType, first_server: &mut usize) -> Asked {
        let mut outcome = Asked::Silent("no name server".to_owned());
        for (at, server) in self.servers.iter().enumerate().skip(*first_server) {
            outcome = match server.lookup(name.clone(), kind).await {
                Ok(lookup) => {
                    let addrs: Vec<_> = lookup.answers().iter().filter_map(|record| record.data.ip_addr()).collect();
                    if addrs.is_empty() {
                        return Asked::Nothing;
                    }
                    let ttl = lookup.answers().iter().map(|record| record.ttl).min().unwrap_or_default();
                    return Asked::Found(Answer { addrs, ttl: Duration::from_secs(ttl.into()) });
                }
                Err(NetError::Dns(DnsError::NoRecordsFound(none)))
                    if matches!(none.response_code, ResponseCode::NXDomain | ResponseCode::NoError) =>
                {
                    return Asked::Nothing;
                }
                Err(NetError::Dns(error)) => Asked::Unsure(format!("{name}: {error}")),
                Err(error) => {
                    if at == *first_server {
                        *first_server += 1;
                    }
                    Asked::Silent(format!("{name}: {error}"))
                }
            };
        }
        outcome
    }
}

// === impl Files, Stamp ===

impl Files {
    /// A hosts file that cannot be read is an empty one.
    fn read(&self) -> Result<Setup, String> {
        let broken = |error| format!("{}: {error}", self.resolv_conf.display());
        let resolv_conf = std::fs::read(&self.resolv_conf).map_err(|error| broken(error.to_string()))?;
        Setup::parse(&resolv_conf, &std::fs::read(&self.hosts).unwrap_or_default()).map_err(broken)
    }

    fn stamps(&self) -> [Option<Stamp>; 2] {
        [&self.resolv_conf, &self.hosts].map(|path| std::fs::metadata(path).ok().map(Stamp::from))
    }
}

impl From<Metadata> for Stamp {
    fn from(metadata: Metadata) -> Self {
        Self(metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH), metadata.len(), metadata.ino())
    }
}
