//! From a `tls` block to what handshakes are made with.

#[cfg(test)]
mod tests;

use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use rustls::ServerConfig;
use rustls::crypto::CryptoProvider;
use rustls::crypto::ring;
use rustls::pki_types::CertificateDer;
use rustls::server::NoServerSessionStorage;
use rustls::sign::{CertifiedKey, SingleCertAndKey};

use super::certificate::{Certificate, Now, Validity};
use super::clients::Clients;
use super::key::signing_key;
use super::pem::{Pem, Unusable};
use super::suites;
use crate::config::{Fields, ServerTls};

/// What is wrong at one key of a `tls` block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Trouble {
    /// The key.
    pub(super) key: &'static str,
    /// What is wrong, and what can be done about it.
    pub(super) message: String,
}

/// The content of the files that a `tls` block names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Files {
    pub(super) certificate: Pem,
    pub(super) key: Pem,
    pub(super) intermediates: Option<Pem>,
    pub(super) ca: Option<Pem>,
}

/// A `tls` block with its files.
#[derive(Clone, Debug)]
pub struct Loaded {
    pub(super) block: ServerTls,
    pub(super) files: Files,
    pub(super) config: Arc<ServerConfig>,
    /// What may be chosen in a handshake (ALPN).
    pub(super) alpn: &'static [&'static [u8]],
    /// When the server's certificate is valid.
    pub(super) validity: Validity,
    /// Whom it is about.
    pub(super) subject: String,
}

/// One trouble for each file that is unusable, or several.
pub(super) type Troubles = Vec<Trouble>;

// === impl Loaded ===

impl Loaded {
    /// Reads the key `tls` of a block, if it is there, and loads what it names; what is wrong is reported at the keys.
    pub fn read(fields: &mut Fields<'_>) -> Option<Self> {
        fields.section("tls", "tls", |fields| {
            let block = ServerTls::read(fields)?;
            let loaded = Files::read(&block).and_then(|files| Self::load(block, files));
            let (loaded, troubles) = match loaded {
                Ok((loaded, warnings)) => {
                    for Trouble { key, message } in warnings {
                        fields.report().warn(fields.span_of(key), message);
                    }
                    (Some(loaded), Vec::new())
                }
                Err(troubles) => (None, troubles),
            };
            for Trouble { key, message } in troubles {
                fields.report().problem(fields.span_of(key), message);
            }
            loaded
        })
    }

    /// The same for a server that speaks these protocols: a client that names others alone is refused, and one that
    /// names none is taken at its word.
    #[must_use]
    pub fn speaking(mut self, alpn: &'static [&'static [u8]]) -> Self {
        let mut config = (*self.config).clone();
        config.alpn_protocols = alpn.iter().map(|name| name.to_vec()).collect();
        (self.config, self.alpn) = (Arc::new(config), alpn);
        self
    }

    /// Makes of a block and its files what handshakes are made with; also gives warnings.
    pub(super) fn load(block: ServerTls, files: Files) -> Result<(Self, Troubles), Troubles> {
        let mut warnings = Vec::new();
        let chain = Chain::load(&files)?;
        warnings.extend(mind(&chain.leaf).into_iter().map(|what| {
            let (file, subject) = (files.certificate.file().display(), &chain.leaf.subject);
            Trouble::at("certPath", format!("{file}: the certificate {subject} {what}"))
        }));
        let (provider, versions) = terms(&block, &chain, &mut warnings)?;
        let builder = ServerConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(&versions)
            .map_err(|error| vec![Trouble::at("ciphers", error.to_string())])?;
        let builder = match &files.ca {
            None => builder.with_no_client_auth(),
            Some(ca) => {
                let (clients, told) =
                    Clients::trusting(ca, &provider).map_err(|error| vec![Trouble::of("caCertPath", &error)])?;
                warnings.extend(told.into_iter().map(|message| Trouble::at("caCertPath", message)));
                builder.with_client_cert_verifier(clients)
            }
        };
        let Chain { key, leaf: Certificate { validity, subject, .. } } = chain;
        let mut config = builder.with_cert_resolver(Arc::new(SingleCertAndKey::from(key)));
        if files.ca.is_some() {
            // A resumed session would go by a certificate that was checked a while ago.
            config.session_storage = Arc::new(NoServerSessionStorage {});
            config.send_tls13_tickets = 0;
        }
        Ok((Self { block, files, config: Arc::new(config), alpn: &[], validity, subject }, warnings))
    }
}

// === impl Files ===

impl Files {
    /// Reads them; blocks.
    pub(super) fn read(block: &ServerTls) -> Result<Self, Troubles> {
        let ServerTls { cert_path, key_path, intermediate_certs_path, ca_cert_path, require_client_auth, .. } = block;
        let mut troubles = Vec::new();
        let mut read = |key, path: &Path| match Pem::read(path) {
            Ok(pem) => Some(pem),
            Err(error) => {
                troubles.push(Trouble::of(key, &error));
                None
            }
        };
        let (certificate, key) = (read("certPath", cert_path), read("keyPath", key_path));
        let intermediates = intermediate_certs_path.as_ref().and_then(|path| read("intermediateCertsPath", path));
        let ca = ca_cert_path.as_ref().filter(|_| *require_client_auth).and_then(|path| read("caCertPath", path));
        match (certificate, key) {
            (Some(certificate), Some(key)) if troubles.is_empty() => Ok(Self { certificate, key, intermediates, ca }),
            _ => Err(troubles),
        }
    }
}

/// A certificate with those above it, and its key.
pub(super) struct Chain {
    pub(super) key: CertifiedKey,
    leaf: Certificate,
}

impl Chain {
    pub(super) fn load(files: &Files) -> Result<Self, Troubles> {
        let Files { certificate, key: key_file, intermediates, ca: _ } = files;
        let mut troubles = Vec::new();
        let mut note = |key, error: Unusable| troubles.push(Trouble::of(key, &error));
        let certificates = Certificate::all(certificate).map_err(|error| note("certPath", error)).ok();
        let key = key_file.private_key().map_err(|error| note("keyPath", error)).ok();
        let above = intermediates.as_ref().map_or_else(|| Ok(Vec::new()), Certificate::all);
        let above = above.map_err(|error| note("intermediateCertsPath", error)).ok();
        let (Some(certificates), Some(key), Some(above)) = (certificates, key, above) else { return Err(troubles) };

        let (leaf, rest) = certificates.split_first().ok_or_else(Vec::new)?;
        if !leaf.key.can_sign() {
            let what = format!("the key of the certificate is {}", leaf.key);
            let remedy = "make a new key with RSA of 2048 to 4096 bits, or ECDSA on P-256 or P-384, and have a \
                          certificate issued for it: openssl genpkey -algorithm RSA -pkeyopt rsa_keygen_bits:2048 -out NEW";
            return Err(vec![Trouble::of("certPath", &certificate.unusable(what, remedy.to_owned()))]);
        }
        let signing = signing_key(key_file, &key, leaf).map_err(|error| vec![Trouble::of("keyPath", &error)])?;
        let public = signing.public_key();
        let belongs = |certificate: &Certificate| public.as_ref().is_none_or(|key| **key == *certificate.public_key);
        if !belongs(leaf) {
            let (key, file) = (key_file.file().display(), certificate.file().display());
            let error = match certificates.iter().position(belongs) {
                Some(place) => certificate.unusable(
                    format!("the key {key} belongs to certificate {} of the file", place + 1),
                    "put the server's own certificate first, then those above it in their order".to_owned(),
                ),
                None => key_file.unusable(
                    format!("the key does not belong to the certificate {file}"),
                    format!(
                        "give the two that were made together; these must print the same: openssl pkey -in {key} -pubout, \
                         openssl x509 -in {file} -noout -pubkey"
                    ),
                ),
            };
            return Err(vec![Trouble::of("keyPath", &error)]);
        }
        let chain = in_order(leaf, rest.iter().chain(&above));
        Ok(Self { key: CertifiedKey::new(chain, signing), leaf: leaf.clone() })
    }
}

/// What clients may mind about a server's certificate.
fn mind(leaf: &Certificate) -> Vec<String> {
    let mut minded = Vec::new();
    match leaf.validity.at(SystemTime::now()) {
        Now::Valid => {}
        Now::Expired => minded.push("HAS EXPIRED: no client accepts it; renew it".to_owned()),
        Now::TooEarly => minded.push("IS NOT VALID YET: no client accepts it; see that the clock is right".to_owned()),
    }
    if leaf.version < 3 {
        minded.push(format!(
            "is of X.509 version {}: only JVM clients accept that; issue one with extensions",
            leaf.version
        ));
    } else if !leaf.has_names {
        minded.push(
            "has no name but its CN: only JVM clients accept that; issue one with subjectAltName: \
             openssl x509 -req -extfile …"
                .to_owned(),
        );
    }
    if !leaf.for_servers {
        minded.push("is not for servers (extendedKeyUsage): clients refuse it; issue one with serverAuth".to_owned());
    }
    if leaf.weakly_signed {
        minded.push(
            "is signed with SHA-1 or MD5: many clients refuse it; issue it anew: openssl x509 -req -sha256 …"
                .to_owned(),
        );
    }
    minded
}

/// The leaf first, then each certificate before the one that issued it, as TLS 1.2 wants it; then what is left.
fn in_order<'c>(leaf: &'c Certificate, rest: impl Iterator<Item = &'c Certificate>) -> Vec<CertificateDer<'static>> {
    let mut all = vec![leaf];
    for other in rest {
        if all.iter().all(|known| known.der != other.der) {
            all.push(other);
        }
    }
    let mut chain = vec![all.remove(0)];
    while let Some(place) = all.iter().position(|other| chain[chain.len() - 1].names_as_issuer(other)) {
        chain.push(all.remove(place));
    }
    chain.extend(all);
    chain.into_iter().map(|certificate| certificate.der.clone()).collect()
}

/// Suites and versions.
fn terms(
    block: &ServerTls,
    chain: &Chain,
    warnings: &mut Troubles,
) -> Result<(Arc<CryptoProvider>, Vec<&'static rustls::SupportedProtocolVersion>), Troubles> {
    let suites = suites::suites(block.ciphers.as_deref()).map_err(|message| vec![Trouble::at("ciphers", message)]);
    let versions =
        suites::versions(block.protocols.as_deref()).map_err(|message| vec![Trouble::at("protocols", message)]);
    let (suites, versions) = match (suites, versions) {
        (Ok(suites), Ok(versions)) => (suites, versions),
        (suites, versions) => return Err([suites.err(), versions.err()].into_iter().flatten().flatten().collect()),
    };
    warnings.extend(suites.left_out.map(|message| Trouble::at("ciphers", message)));
    warnings.extend(versions.left_out.map(|message| Trouble::at("protocols", message)));
    let (suites, versions) = (suites.chosen, versions.chosen);
    if !suites::fit(chain.key.key.algorithm(), &suites, &versions) {
        let key = chain.key.key.algorithm();
        let message = format!(
            "none of these suites can be used with a key of {key:?} in the versions of `protocols`; name suites with \
             _{key:?}_ for TLSv1.2 and TLS_AES_… for TLSv1.3, or leave `ciphers` out"
        );
        return Err(vec![Trouble::at("ciphers", message)]);
    }
    Ok((Arc::new(CryptoProvider { cipher_suites: suites, ..ring::default_provider() }), versions))
}

// === impl Trouble ===

impl Trouble {
    pub(super) fn at(key: &'static str, message: String) -> Self {
        Self { key, message }
    }

    pub(super) fn of(key: &'static str, error: &Unusable) -> Self {
        Self::at(key, error.to_string())
    }
}
