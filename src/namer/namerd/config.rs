//! Keys of `io.rosterd.namerd`.

use std::sync::Arc;
use std::time::Duration;

use super::NamerdNamer;
use crate::client::{ClientMetrics, NO_NAMESPACE, Speaks, Upstream, UpstreamConfig};
use crate::config::{Fields, IpFamilies};
use crate::consul::Agents;
use crate::k8s::ApiServers;
use crate::name::{Limits, NameTree};
use crate::namer::hosts::Hosts;
use crate::namer::system::{self, SystemAddr, SystemName};
use crate::namer::{Namer, NamerConfig, NamerParts};
use crate::runtime::Probe;
use crate::store::Evaluators;

/// How long a probe may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// The `io.rosterd.namerd` namer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamerdConfig {
    /// The name server.
    pub upstream: UpstreamConfig,
    /// Where it is, out of `dst`.
    pub hosts: Arc<str>,
    /// `namespace`: the one in which names are looked up there.
    pub namespace: Arc<str>,
}

impl NamerdConfig {
    /// Reads the keys. None only if a problem was reported.
    pub fn read(fields: &mut Fields<'_>) -> Option<Self> {
        let speaks = fields.parsed("protocol", |text| match text {
            "io.l5d.namerd" => Ok(Speaks::ThriftMux),
            "io.l5d.namerd.http" => Ok(Speaks::Http),
            other => Err(format!("'{other}' is neither io.l5d.namerd nor io.l5d.namerd.http")),
        });
        let upstream = UpstreamConfig::read(fields, speaks.unwrap_or(Speaks::ThriftMux))?;
        let namespace: String = fields.or("namespace", NO_NAMESPACE.to_owned());
        // Another namer could not be asked: it may be this one.
        let hosts = match system::lookup(&upstream.dst) {
            Ok(NameTree::Leaf(SystemName::Bound {
                addr: SystemAddr::Inet(hosts) | SystemAddr::Fixed(hosts), ..
            })) => hosts,
            _ => {
                let message = format!("{} is not of the form /$/inet/host/port", upstream.dst);
                fields.report().problem(fields.span_of("dst"), message);
                return None;
            }
        };
        Some(Self { upstream, hosts, namespace: namespace.into() })
    }
}

impl NamerConfig for NamerdConfig {
    fn build(&self, parts: &NamerParts) -> Result<Arc<dyn Namer>, String> {
        let name = format!("{} at {}", parts.prefix, self.upstream.dst);
        let protocol = self.upstream.protocol(&name, parts.names, &parts.client)?;
        let (addrs, timings) = (parts.hosts.watch(&parts.evaluators, self.hosts.clone()), self.upstream.timings());
        let upstream = Upstream::new(name, protocol, addrs, timings, parts.client.clone());
        parts.client.show(&upstream);
        Ok(Arc::new(NamerdNamer::new(upstream, self.namespace.clone(), parts)))
    }

    fn probes(&self, _: &Agents, _: &ApiServers) -> Result<Vec<Probe>, String> {
        let (name, metrics) = (self.upstream.dst.to_string(), ClientMetrics::default());
        let protocol = self.upstream.protocol(&name, Limits::default(), &metrics)?;
        let (evaluators, hosts) = (Evaluators::start(1), Hosts::new(IpFamilies::default()));
        let addrs = hosts.watch(&evaluators, self.hosts.clone());
        let upstream = Upstream::new(&*name, protocol, addrs, self.upstream.timings(), metrics);
        let ask = async move {
            let answer = upstream.probe(PATIENCE).await;
            drop((evaluators, hosts)); // which have found it
            answer
        };
        Ok(vec![Probe::new(name, ask)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::read_text;

    fn read(namer: &str) -> Result<NamerdConfig, Vec<String>> {
        read_text("f", namer, "the namer", NamerdConfig::read)
            .map(|(config, _)| config)
            .map_err(|problems| problems.list().iter().map(|problem| problem.message.clone()).collect())
    }

    #[test]
    fn it_is_told_where_the_other_name_server_is() {
        let config = read("dst: /$/inet/namerd.example/4100").expect("valid");
        assert_eq!((&*config.hosts, &*config.namespace), ("namerd.example:4100", NO_NAMESPACE));
        assert_eq!(config.upstream.speaks, Speaks::ThriftMux);
        let text = "dst: /$/inet/namerd.example/4180\nprotocol: io.l5d.namerd.http\nnamespace: bridged";
        let config = read(text).expect("valid");
        assert_eq!((config.upstream.speaks, &*config.namespace), (Speaks::Http, "bridged"));
    }

    #[test]
    fn no_other_namer_can_say_where_it_is() {
        let refused = |text: &str| read(text).expect_err("refused").remove(0);
        assert_eq!(refused("dst: /#/io.l5d.fs/namerd"), "/#/io.l5d.fs/namerd is not of the form /$/inet/host/port");
        assert!(refused("{}").starts_with("`dst` is a required field"));
        let text = "dst: /$/inet/a/1\nprotocol: io.l5d.mesh";
        assert_eq!(refused(text), "'io.l5d.mesh' is neither io.l5d.namerd nor io.l5d.namerd.http");
    }
}
