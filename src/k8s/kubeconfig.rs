//! The current context of a kubeconfig file.

use std::path::{Path, PathBuf};

use super::access::Endpoint;
use super::token::Token;
use crate::backend::Address;
use crate::config::tree::Node;
use crate::config::{ClientAuth, ClientTls, Fields, Report, Secret, Validation, read_text};

/// What matters of the file.
struct Kubeconfig {
    current: String,
    contexts: Vec<(String, Context)>,
    clusters: Vec<(String, Cluster)>,
    users: Vec<(String, User)>,
}

struct Context {
    cluster: String,
    user: Option<String>,
}

struct Cluster {
    server: String,
    authority: Option<PathBuf>,
    unchecked: bool,
    name: Option<String>,
}

#[derive(Default)]
struct User {
    token: Option<Secret>,
    token_file: Option<PathBuf>,
    certificate: Option<PathBuf>,
    key: Option<PathBuf>,
}

/// What a client needs to ask the server of the current context.
pub(super) fn endpoint(path: &Path) -> Result<Endpoint, String> {
    let told = |what: String| format!("kubeconfig {}: {what}", path.display());
    let text = std::fs::read_to_string(path).map_err(|error| told(format!("cannot be read ({error})")))?;
    let read = read_text(&path.display().to_string(), &text, "the kubeconfig", Kubeconfig::read);
    let (config, _) = read.map_err(|problems| format!("kubeconfig: {problems}"))?;
    // Paths in it are relative to it.
    config.endpoint(path.parent().unwrap_or(Path::new(""))).map_err(told)
}

// === impl Kubeconfig ===

impl Kubeconfig {
    fn read(fields: &mut Fields<'_>) -> Option<Self> {
        fields.ignore_unknown();
        let current = fields.req("current-context");
        let contexts = named(fields, "contexts", "context", |fields| {
            Some(Context { cluster: fields.req("cluster")?, user: fields.opt("user") })
        });
        let clusters = named(fields, "clusters", "cluster", |fields| {
            unread(fields, &["certificate-authority-data"], "certificate-authority");
            unread(fields, &["proxy-url"], "a server that needs no proxy");
            Some(Cluster {
                server: fields.req("server")?,
                authority: fields.opt("certificate-authority"),
                unchecked: fields.or("insecure-skip-tls-verify", false),
                name: fields.opt("tls-server-name"),
            })
        });
        let users = named(fields, "users", "user", |fields| {
            unread(fields, &["client-certificate-data"], "client-certificate");
            unread(fields, &["client-key-data"], "client-key");
            unread(
                fields,
                &["exec", "auth-provider", "username", "password"],
                "token, tokenFile or client-certificate",
            );
            Some(User {
                token: fields.opt("token"),
                token_file: fields.opt("tokenFile"),
                certificate: fields.opt("client-certificate"),
                key: fields.opt("client-key"),
            })
        });
        Some(Self { current: current?, contexts, clusters, users })
    }

    fn endpoint(self, folder: &Path) -> Result<Endpoint, String> {
        let context = one_of(self.contexts, &self.current, "contexts")?;
        let Cluster { server, authority, unchecked, name } = one_of(self.clusters, &context.cluster, "clusters")?;
        let User { token, token_file, certificate, key } = match &context.user {
            Some(user) => one_of(self.users, user, "users")?,
            None => User::default(),
        };
        let (address, is_tls) = parse(&server)?;
        let token = match (token_file, token) {
            (Some(file), _) => Token::file(folder.join(file)),
            (None, Some(token)) => Token::fixed(&token)?,
            (None, None) => Token::None,
        };
        let client_auth = match (certificate, key) {
            (Some(certificate), Some(key)) => Some(ClientAuth {
                cert_path: folder.join(certificate),
                key_path: folder.join(key),
                intermediate_certs_path: None,
            }),
            (None, None) => None,
            _ => return Err("client-certificate and client-key belong together: give both".to_owned()),
        };
        let checked = Validation::CommonName(name.clone().unwrap_or_else(|| address.host.clone()));
        let tls = is_tls.then(|| ClientTls {
            enabled: true,
            validation: if unchecked { Validation::Off { server_name: name } } else { checked },
            trust_certs: authority.map(|file| folder.join(file)).into_iter().collect(),
            client_auth,
            protocols: None,
        });
        Ok(Endpoint { address, tls, token })
    }
}

/// A list of `{name: …, <key>: {…}}`.
fn named<T>(
    fields: &mut Fields<'_>,
    list: &'static str,
    key: &'static str,
    read: impl Fn(&mut Fields<'_>) -> Option<T>,
) -> Vec<(String, T)> {
    let element = |node: &Node, report: &Report| {
        Fields::read(node, format!("an element of {list}"), report, |fields| {
            fields.ignore_unknown();
            let name = fields.req("name");
            let value = Fields::read(fields.node(key)?, key, report, |fields| {
                fields.ignore_unknown();
                read(fields)
            });
            Some((name?, value?))
        })
    };
    let Some(node) = fields.node(list) else { return Vec::new() };
    match &node.value {
        crate::config::tree::Value::List(items) => {
            items.iter().filter_map(|item| element(item, fields.report())).collect()
        }
        _ => Vec::new(),
    }
}

/// Refuses what would silently mean something else if it were passed over.
fn unread(fields: &mut Fields<'_>, keys: &[&'static str], instead: &str) {
    for key in keys {
        if fields.node(key).is_some() {
            fields.report().problem(fields.span_of(key), format!("{key} is not supported: use {instead}"));
        }
    }
}

fn one_of<T>(all: Vec<(String, T)>, name: &str, list: &str) -> Result<T, String> {
    let found = all.into_iter().find(|(known, _)| known == name).map(|(_, value)| value);
    found.ok_or_else(|| format!("there is no {name:?} in {list}"))
}

/// The address in a URL, and whether it is one of TLS.
fn parse(server: &str) -> Result<(Address, bool), String> {
    let refused = || format!("server: {server} is not of the form https://HOST:PORT");
    let url: http::Uri = server.parse().map_err(|_| refused())?;
    let is_tls = match url.scheme_str() {
        Some("https") => true,
        Some("http") => false,
        _ => return Err(refused()),
    };
    if !matches!(url.path(), "" | "/") || url.query().is_some() {
        return Err(refused());
    }
    let host = url.host().filter(|host| !host.is_empty()).ok_or_else(refused)?;
    Ok((Address::new(host, url.port_u16().unwrap_or(if is_tls { 443 } else { 80 })), is_tls))
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONFIG: &str = r#"
apiVersion: v1
kind: Config
preferences: {}
current-context: here
contexts:
- {name: elsewhere, context: {cluster: other, user: nobody}}
- {name: here, context: {cluster: mine, user: me, namespace: srv}}
clusters:
- {name: mine, cluster: {server: "https://127.0.0.1:6443", certificate-authority: ca.crt}}
- {name: other, cluster: {server: "http://k8s.example"}}
users:
- {name: me, user: {tokenFile: /run/token, client-certificate: me.crt, client-key: me.key}}
- {name: nobody, user: {}}
"#;

    fn read(text: &str) -> Result<Endpoint, String> {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("config");
        std::fs::write(&path, text).expect("written");
        endpoint(&path)
    }

    #[test]
    fn the_current_context_says_where_the_server_is_and_who_asks() {
        let endpoint = read(CONFIG).expect("valid");
        assert_eq!(endpoint.address, Address::new("127.0.0.1", 6443));
        assert_eq!(format!("{:?}", endpoint.token), "File(\"/run/token\")");
        let tls = endpoint.tls.expect("TLS");
        assert_eq!(tls.validation, Validation::CommonName("127.0.0.1".to_owned()));
        assert!(tls.trust_certs[0].ends_with("ca.crt") && tls.trust_certs[0].is_absolute());
        assert!(tls.client_auth.expect("a certificate").key_path.ends_with("me.key"));
        let other = read(&CONFIG.replace("current-context: here", "current-context: elsewhere")).expect("valid");
        assert!(other.tls.is_none() && other.address == Address::new("k8s.example", 80));
    }

    #[test]
    fn what_cannot_be_used_is_refused_with_its_place_or_name() {
        for (from, to, message) in [
            ("current-context: here", "current-context: gone", "there is no \"gone\" in contexts"),
            ("cluster: mine", "cluster: gone", "there is no \"gone\" in clusters"),
            ("tokenFile: /run/token", "exec: {command: x}", "exec is not supported: use token, tokenFile"),
            ("certificate-authority: ca.crt", "certificate-authority-data: eA==", "use certificate-authority"),
            ("https://127.0.0.1:6443", "127.0.0.1", "is not of the form https://HOST:PORT"),
            (", client-key: me.key", "", "client-certificate and client-key belong together"),
        ] {
            let refused = read(&CONFIG.replacen(from, to, 1)).expect_err(message);
            assert!(refused.contains(message), "{refused}");
        }
    }
}
