//! `tls` objects, of servers and of clients. Whether the files exist and are usable shows when they are loaded.

use std::path::PathBuf;

use super::tree::Node;
use super::{Fields, FromNode, Report};

/// `tls` of an interface or of the admin server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerTls {
    /// PEM file of the certificate.
    pub cert_path: PathBuf,
    /// PEM file of its private key.
    pub key_path: PathBuf,
    /// PEM file of the certificates between it and the root.
    pub intermediate_certs_path: Option<PathBuf>,
    /// PEM file of the roots that clients' certificates are checked against.
    pub ca_cert_path: Option<PathBuf>,
    /// Cipher suites, in the words of the JVM or of OpenSSL.
    pub ciphers: Option<Vec<String>>,
    /// Whether a client must show a certificate.
    pub require_client_auth: bool,
    /// Versions such as `TLSv1.2`.
    pub protocols: Option<Vec<String>>,
}

impl ServerTls {
    /// Reads the keys of a `tls` block.
    pub fn read(fields: &mut Fields<'_>) -> Option<Self> {
        let (cert_path, key_path) = (fields.req("certPath"), fields.req("keyPath"));
        let intermediate_certs_path = fields.opt("intermediateCertsPath");
        let ca_cert_path = fields.opt("caCertPath");
        let ciphers = fields.opt("ciphers");
        let require_client_auth = fields.or("requireClientAuth", false);
        let protocols = fields.opt("protocols");
        match (require_client_auth, &ca_cert_path) {
            (false, Some(_)) => fields.without_effect(&["caCertPath"], " without `requireClientAuth: true`"),
            (true, None) => {
                // namerd goes by the JVM's own list then: any certificate of any public CA.
                let message = "requireClientAuth needs `caCertPath`: a PEM file of the CAs that issue the clients' \
                               certificates (out of a keystore: keytool -exportcert -rfc -keystore STORE -alias NAME)";
                fields.report().problem(fields.span_of("requireClientAuth"), message);
            }
            (false, None) | (true, Some(_)) => {}
        }
        Some(Self {
            cert_path: cert_path?,
            key_path: key_path?,
            intermediate_certs_path,
            ca_cert_path,
            ciphers,
            require_client_auth,
            protocols,
        })
    }
}

/// `tls` of a client of a backend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientTls {
    /// False: plain text, as if there were no `tls`.
    pub enabled: bool,
    /// How the server's certificate is checked.
    pub validation: Validation,
    /// PEM files of the roots to trust; empty = those of the system.
    pub trust_certs: Vec<PathBuf>,
    /// What the client shows to the server.
    pub client_auth: Option<ClientAuth>,
    /// Versions such as `TLSv1.2`.
    pub protocols: Option<Vec<String>>,
}

/// How a server's certificate is checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Validation {
    /// Not at all.
    Off {
        /// Name to ask for (SNI).
        server_name: Option<String>,
    },
    /// It must be valid for this name, which is also the one asked for (SNI).
    CommonName(String),
}

/// A client's certificate and key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientAuth {
    /// PEM file of the certificate.
    pub cert_path: PathBuf,
    /// PEM file of its private key, PKCS#8.
    pub key_path: PathBuf,
    /// PEM file of the certificates between it and the root.
    pub intermediate_certs_path: Option<PathBuf>,
}

impl FromNode for ClientTls {
    fn from_node(node: &Node, report: &Report) -> Option<Self> {
        Fields::read(node, "tls", report, |fields| Self::read(fields, None))
    }
}

impl ClientTls {
    /// Reads the keys of a `tls` block, in which `also` is one more word for `trustCertsBundle`.
    pub fn read(fields: &mut Fields<'_>, also: Option<&'static str>) -> Option<Self> {
        let enabled = fields.or("enabled", true);
        let unchecked = fields.or("disableValidation", false);
        let common_name: Option<String> = fields.opt("commonName");
        let trust_certs: Option<Vec<PathBuf>> = fields.opt("trustCerts");
        let other: Option<PathBuf> = also.and_then(|key| fields.opt(key));
        let bundle: Option<PathBuf> = fields.opt("trustCertsBundle").or(other);
        let client_auth = fields.opt("clientAuth");
        let protocols = fields.opt("protocols");
        if enabled && common_name.is_some() && trust_certs.is_some() && bundle.is_some() {
            let message = "Both trustCerts and trustCertsBundle have been set. Please use only trustCertsBundle.";
            fields.report().problem(fields.span_of("trustCerts"), message);
            return None;
        }
        let validation = match common_name {
            server_name if unchecked || !enabled => Validation::Off { server_name },
            Some(name) => Validation::CommonName(name),
            None => {
                let message = "tls is configured with validation but `commonName` is not set: give the name in \
                                   the server's certificate, or `disableValidation: true`";
                fields.report().problem(fields.span(), message);
                return None;
            }
        };
        let trust_certs = bundle.map_or(trust_certs.unwrap_or_default(), |bundle| vec![bundle]);
        Some(Self { enabled, validation, trust_certs, client_auth, protocols })
    }
}

impl FromNode for ClientAuth {
    fn from_node(node: &Node, report: &Report) -> Option<Self> {
        Fields::read(node, "clientAuth", report, |fields| {
            let (cert_path, key_path) = (fields.req("certPath"), fields.req("keyPath"));
            let intermediate_certs_path = fields.opt("intermediateCertsPath");
            Some(Self { cert_path: cert_path?, key_path: key_path?, intermediate_certs_path })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::read_text;
    use super::*;

    fn read<T: FromNode>(tls: &str) -> Result<T, String> {
        read_text("f", &format!("tls: {tls}"), "the test", |fields| fields.req("tls"))
            .map(|(tls, _)| tls)
            .map_err(|problems| problems.to_string())
    }

    fn server(tls: &str) -> Result<(ServerTls, Vec<String>), String> {
        read_text("f", &format!("tls: {tls}"), "the test", |fields| fields.section("tls", "tls", ServerTls::read))
            .map(|(tls, warnings)| (tls, warnings.iter().map(ToString::to_string).collect()))
            .map_err(|problems| problems.to_string())
    }

    #[test]
    fn a_server_needs_a_certificate_and_a_key() {
        let (tls, warnings) = server(
            "{certPath: c.pem, keyPath: k.pem, requireClientAuth: true, caCertPath: ca.pem, \
                                   protocols: [TLSv1.2], ciphers: [a, b], intermediateCertsPath: i.pem}",
        )
        .expect("valid");
        assert!(warnings.is_empty(), "{warnings:?}");
        assert_eq!(
            tls,
            ServerTls {
                cert_path: "c.pem".into(),
                key_path: "k.pem".into(),
                intermediate_certs_path: Some("i.pem".into()),
                ca_cert_path: Some("ca.pem".into()),
                ciphers: Some(vec!["a".to_owned(), "b".to_owned()]),
                require_client_auth: true,
                protocols: Some(vec!["TLSv1.2".to_owned()]),
            }
        );
        let problems = server("{}").expect_err("refused");
        assert!(problems.contains("'certPath' is required for tls"), "{problems}");
        assert!(problems.contains("'keyPath' is required for tls"), "{problems}");
    }

    #[test]
    fn certificates_of_clients_are_required_or_not_asked_for() {
        let problems = server("{certPath: c, keyPath: k, requireClientAuth: true}").expect_err("refused");
        assert!(problems.starts_with("f:1:51: requireClientAuth needs `caCertPath`: "), "{problems}");
        let (_, warnings) = server("{certPath: c, keyPath: k, caCertPath: ca.pem}").expect("valid");
        assert_eq!(warnings, ["f:1:44: caCertPath has no effect without `requireClientAuth: true`"]);
    }

    #[test]
    fn a_client_checks_the_name_in_the_certificate_unless_told_not_to() {
        let problems = read::<ClientTls>("{}").expect_err("refused");
        assert!(problems.contains("tls is configured with validation but `commonName` is not set"), "{problems}");
        let tls: ClientTls = read("{disableValidation: true}").expect("valid");
        assert_eq!(tls.validation, Validation::Off { server_name: None });
        let tls: ClientTls = read("{commonName: a.example, trustCertsBundle: ca.pem}").expect("valid");
        assert_eq!(tls.validation, Validation::CommonName("a.example".to_owned()));
        assert_eq!(tls.trust_certs, [PathBuf::from("ca.pem")]);
        let tls: ClientTls = read("{enabled: false}").expect("plain text needs no name");
        assert!(!tls.enabled);
    }

    #[test]
    fn the_two_ways_to_name_trusted_certificates_exclude_each_other() {
        let problems = read::<ClientTls>("{commonName: a, trustCerts: [a.pem, b.pem], trustCertsBundle: c.pem}");
        assert!(problems.expect_err("refused").contains("Both trustCerts and trustCertsBundle have been set"));
        let tls: ClientTls = read("{commonName: a, trustCerts: [a.pem, b.pem]}").expect("valid");
        assert_eq!(tls.trust_certs, [PathBuf::from("a.pem"), PathBuf::from("b.pem")]);
    }

    #[test]
    fn a_clients_own_certificate_needs_its_key() {
        let tls: ClientTls = read("{commonName: a, clientAuth: {certPath: c, keyPath: k}}").expect("valid");
        let auth = ClientAuth { cert_path: "c".into(), key_path: "k".into(), intermediate_certs_path: None };
        assert_eq!(tls.client_auth, Some(auth));
        let problems = read::<ClientTls>("{commonName: a, clientAuth: {certPath: c}}").expect_err("refused");
        assert!(problems.contains("'keyPath' is required for clientAuth"), "{problems}");
    }
}
