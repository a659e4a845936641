//! Keys of `io.l5d.k8s`, `io.l5d.k8s.ns` and `io.l5d.k8s.external`.

use std::sync::Arc;

use super::Source;
use super::endpoints::{EndpointsNamer, EndpointsRules};
use super::external::ExternalNamer;
use crate::config::Fields;
use crate::consul::Agents;
use crate::k8s::{ApiConfig, ApiServers, Resource};
use crate::namer::{Namer, NamerConfig, NamerParts};
use crate::runtime::Probe;

/// The `io.l5d.k8s` namer: services of a Kubernetes cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct K8sConfig {
    common: Common,
    source: Source,
}

/// The `io.l5d.k8s.ns` namer: services of one namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct K8sNsConfig {
    common: Common,
    source: Source,
    /// Of the environment variable that `envVar` names.
    namespace: String,
}

/// The `io.l5d.k8s.external` namer: load balancers in front of services.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct K8sExternalConfig {
    common: Common,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Common {
    api: ApiConfig,
    /// `labelSelector`: the key of a label whose value ends each name.
    label: Option<String>,
}

impl Common {
    fn read(fields: &mut Fields<'_>) -> Option<Self> {
        let label = fields.opt("labelSelector");
        Some(Self { api: ApiConfig::read(fields)?, label })
    }

    fn label(&self) -> Option<Box<str>> {
        self.label.as_deref().map(Into::into)
    }

    fn endpoints(
        &self,
        source: Source,
        namespace: Option<Box<str>>,
        parts: &NamerParts,
    ) -> Result<Arc<dyn Namer>, String> {
        let rules = EndpointsRules {
            namespace,
            label: self.label(),
            source,
            families: parts.ip_families,
            fall_through_after: parts.fall_through_after,
        };
        Ok(EndpointsNamer::new(&parts.servers.server(&self.api)?, rules).into())
    }
}

// === impl Source ===

impl Source {
    /// `source`; where rosterd talks to the API server itself `auto`, else what namerd reads.
    fn read(fields: &mut Fields<'_>, api: &ApiConfig) -> Self {
        let default = if api.is_direct() { Self::Auto } else { Self::Endpoints };
        let parse = |text: &str| match text {
            "endpoints" => Ok(Self::Endpoints),
            "endpointSlices" => Ok(Self::Slices),
            "auto" => Ok(Self::Auto),
            _ => Err(format!("source is endpoints, endpointSlices or auto, not '{text}'")),
        };
        fields.parsed("source", parse).unwrap_or(default)
    }
}

// === impl K8sConfig ===

impl K8sConfig {
    /// Reads the keys. None only if a problem was reported.
    #[must_use]
    pub fn read(fields: &mut Fields<'_>) -> Option<Self> {
        let common = Common::read(fields)?;
        Some(Self { source: Source::read(fields, &common.api), common })
    }
}

impl NamerConfig for K8sConfig {
    fn build(&self, parts: &NamerParts) -> Result<Arc<dyn Namer>, String> {
        self.common.endpoints(self.source, None, parts)
    }
}

// === impl K8sNsConfig ===

impl K8sNsConfig {
    /// Reads the keys. None only if a problem was reported.
    #[must_use]
    pub fn read(fields: &mut Fields<'_>) -> Option<Self> {
        let common = Common::read(fields);
        let variable = fields.or("envVar", "POD_NAMESPACE".to_owned());
        let namespace = std::env::var(&variable).ok();
        if namespace.is_none() {
            // namerd's message, and the remedy.
            let message = format!(
                "assertion failed: could not find namespace for envVar: the environment variable {variable} must be set \
                 to the namespace of the services (in a pod: fieldRef metadata.namespace)"
            );
            fields.report().problem(fields.span_of("envVar"), message);
        }
        let common = common?;
        Some(Self { source: Source::read(fields, &common.api), common, namespace: namespace? })
    }
}

impl NamerConfig for K8sNsConfig {
    fn build(&self, parts: &NamerParts) -> Result<Arc<dyn Namer>, String> {
        self.common.endpoints(self.source, Some(self.namespace.as_str().into()), parts)
    }

    fn probes(&self, _: &Agents, servers: &ApiServers) -> Result<Vec<Probe>, String> {
        let (server, namespace) = (servers.server(&self.common.api)?, self.namespace.clone());
        let probe = |resource: Resource| {
            let (server, namespace) = (server.clone(), namespace.clone());
            let name = format!("{} of Kubernetes at {}", resource.plural, server.name());
            Probe::new(name, async move { server.probe(resource, &namespace).await })
        };
        let first = self.source.resources()[0];
        Ok(vec![probe(first), probe(Resource::SERVICES)])
    }
}

// === impl K8sExternalConfig ===

impl K8sExternalConfig {
    /// Reads the keys. None only if a problem was reported.
    #[must_use]
    pub fn read(fields: &mut Fields<'_>) -> Option<Self> {
        Some(Self { common: Common::read(fields)? })
    }
}

impl NamerConfig for K8sExternalConfig {
    fn build(&self, parts: &NamerParts) -> Result<Arc<dyn Namer>, String> {
        let server = parts.servers.server(&self.common.api)?;
        let (label, hosts) = (self.common.label(), parts.hosts.clone());
        Ok(Arc::new(ExternalNamer::new(&server, label, hosts, parts.fall_through_after)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::read_text;

    fn read<T>(text: &str, read: impl FnOnce(&mut Fields<'_>) -> Option<T>) -> Result<T, String> {
        read_text("f", text, "the namer", read).map(|(config, _)| config).map_err(|problems| problems.to_string())
    }

    #[test]
    fn nothing_need_be_set() {
        let config = read("{}", K8sConfig::read).expect("valid");
        let common = Common { api: ApiConfig::proxy("localhost", 8001), label: None };
        assert_eq!(config, K8sConfig { common, source: Source::Endpoints });
    }

    #[test]
    fn every_key_of_namerd_is_read() {
        let text = "host: k8s-master.site.biz\nport: 80\nlabelSelector: version";
        let common = Common { api: ApiConfig::proxy("k8s-master.site.biz", 80), label: Some("version".to_owned()) };
        assert_eq!(read(text, K8sExternalConfig::read), Ok(K8sExternalConfig { common }));
    }

    #[test]
    fn who_talks_to_the_server_itself_reads_slices_where_it_can() {
        assert_eq!(read("inCluster: true", K8sConfig::read).expect("valid").source, Source::Auto);
        let text = "inCluster: true\nsource: endpoints";
        assert_eq!(read(text, K8sConfig::read).expect("valid").source, Source::Endpoints);
        let refused = read("source: slices", K8sConfig::read).expect_err("refused");
        assert!(refused.contains("source is endpoints, endpointSlices or auto, not 'slices'"), "{refused}");
    }

    #[test]
    fn the_variable_with_the_namespace_must_be_set() {
        let refused = read("envVar: ROSTERD_TEST_UNSET", K8sNsConfig::read).expect_err("it is not set");
        assert!(refused.starts_with("f:1:9: assertion failed: could not find namespace for envVar"), "{refused}");
        // Set wherever cargo runs.
        let config = read("envVar: CARGO_MANIFEST_DIR", K8sNsConfig::read).expect("valid");
        assert_eq!(config.namespace, env!("CARGO_MANIFEST_DIR"));
    }
}
