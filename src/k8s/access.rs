//! How an API server is reached, and as whom.

use std::path::{Path, PathBuf};

use super::kubeconfig;
use super::token::Token;
use crate::backend::Address;
use crate::config::{ClientTls, Fields, Port, Validation};

/// Where kubelet puts what a pod needs to talk to the API server.
const ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// The keys of everything that asks an API server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiConfig {
    access: Access,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Access {
    /// `host` and `port`: plain text to whoever adds the credentials, a kubectl proxy; namerd knows nothing else.
    Proxy(Address),
    /// `inCluster`: as the account of the pod.
    InCluster,
    /// `kubeconfig`: the current context of a file.
    Kubeconfig(PathBuf),
}

/// Everything that a client needs.
#[derive(Debug)]
pub(super) struct Endpoint {
    pub(super) address: Address,
    pub(super) tls: Option<ClientTls>,
    pub(super) token: Token,
}

// === impl ApiConfig ===

impl ApiConfig {
    /// A proxy that needs no credentials.
    #[must_use]
    pub fn proxy(host: &str, port: u16) -> Self {
        Self { access: Access::Proxy(Address::new(host, port)) }
    }

    /// Reads `host`, `port`, `inCluster` and `kubeconfig`. None only if a problem was reported.
    #[must_use]
    pub fn read(fields: &mut Fields<'_>) -> Option<Self> {
        let host: Option<String> = fields.parsed("host", Address::read_host);
        let port: Option<Port> = fields.opt("port");
        let in_cluster = fields.or("inCluster", false);
        let kubeconfig: Option<PathBuf> = fields.opt("kubeconfig");
        let access = match (in_cluster, kubeconfig) {
            (true, Some(_)) => {
                let message = "`inCluster` and `kubeconfig` are two ways to the API server: give one of them";
                fields.report().problem(fields.span_of("kubeconfig"), message);
                return None;
            }
            (true, None) => Access::InCluster,
            (false, Some(path)) => Access::Kubeconfig(path),
            (false, None) => {
                let Port(port) = port.unwrap_or(Port(8001));
                return Some(Self::proxy(host.as_deref().unwrap_or("localhost"), port));
            }
        };
        fields.without_effect(&["host", "port"], ": rosterd talks to the API server itself, and knows where it is");
        Some(Self { access })
    }

    /// Does rosterd talk to the API server itself, not to a proxy?
    #[must_use]
    pub fn is_direct(&self) -> bool {
        !matches!(self.access, Access::Proxy(_))
    }

    /// What a client needs. Reads files of the machine, and blocks while it does.
    pub(super) fn endpoint(&self) -> Result<Endpoint, String> {
        match &self.access {
            Access::Proxy(address) => Ok(Endpoint { address: address.clone(), tls: None, token: Token::None }),
            Access::InCluster => {
                let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
                in_cluster(Path::new(ACCOUNT), variable("KUBERNETES_SERVICE_HOST"), variable("KUBERNETES_SERVICE_PORT"))
            }
            Access::Kubeconfig(path) => kubeconfig::endpoint(path),
        }
    }
}

/// What the variables and files of a pod say. A file that is missing or wrong shows when requests are made.
fn in_cluster(account: &Path, host: Option<String>, port: Option<String>) -> Result<Endpoint, String> {
    let (Some(host), Some(port)) = (host, port) else {
        return Err(
            "inCluster: KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set, so this is no pod; use \
                    `kubeconfig`, or `host` and `port` of a kubectl proxy"
                .to_owned(),
        );
    };
    let port = port.parse().map_err(|_| format!("inCluster: KUBERNETES_SERVICE_PORT is no port: {port}"))?;
    let address = Address::new(&host, port);
    let tls = ClientTls {
        enabled: true,
        validation: Validation::CommonName(address.host.clone()),
        trust_certs: vec![account.join("ca.crt")],
        client_auth: None,
        protocols: None,
    };
    Ok(Endpoint { address, tls: Some(tls), token: Token::file(account.join("token")) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::read_text;

    fn read(text: &str) -> Result<(ApiConfig, usize), String> {
        read_text("f", text, "the test", ApiConfig::read)
            .map(|(config, warnings)| (config, warnings.len()))
            .map_err(|problems| problems.to_string())
    }

    #[test]
    fn without_keys_there_is_a_proxy_at_namerds_default() {
        assert_eq!(read("{}"), Ok((ApiConfig::proxy("localhost", 8001), 0)));
        assert_eq!(read("host: '[::1]'\nport: 80"), Ok((ApiConfig::proxy("::1", 80), 0)));
    }

    #[test]
    fn there_is_one_way_to_the_server() {
        assert!(read("inCluster: true\nkubeconfig: a").expect_err("refused").contains("give one of them"));
        let (config, warnings) = read("inCluster: true\nhost: a").expect("valid");
        assert!(config.is_direct() && warnings == 1);
    }

    #[test]
    fn a_pod_finds_the_server_by_its_variables() {
        let account = Path::new("/account");
        let endpoint = in_cluster(account, Some("10.96.0.1".into()), Some("443".into())).expect("a pod");
        assert_eq!(endpoint.address, Address::new("10.96.0.1", 443));
        let tls = endpoint.tls.expect("TLS");
        assert_eq!(tls.trust_certs, [account.join("ca.crt")]);
        assert_eq!(tls.validation, Validation::CommonName("10.96.0.1".to_owned()));
        assert_eq!(format!("{:?}", endpoint.token), "File(\"/account/token\")");
        let refused = in_cluster(account, None, Some("443".into())).expect_err("no pod");
        assert!(refused.contains("this is no pod; use `kubeconfig`"), "{refused}");
    }
}
