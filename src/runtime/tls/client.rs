//! TLS to backends: what a client's `tls` block names, renewed while the process runs.
//!
//! A file that cannot be used does not hold up the start: no session comes to be for as long as it cannot, and the
//! reason is in every error. It is read again all the same.

use std::path::Path;
use std::sync::Arc;

use parking_lot::RwLock;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{ResolvesClientCert, Resumption, WebPkiServerVerifier};
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::sign::CertifiedKey;
use rustls::{ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::task::AbortOnDropHandle;

use super::load::{Chain, Files, Trouble, Troubles};
use super::pem::Pem;
use super::reload::{Look, PERIOD, Seen};
use super::suites;
use crate::config::{ClientAuth, ClientTls, Fields, Validation};
use crate::runtime::heavy;

/// The TLS side of one backend's client. New sessions are made with what its files hold at that moment; those that are
/// open go on.
#[derive(Debug)]
pub struct Client {
    block: ClientTls,
    current: RwLock<Result<Arc<LoadedClient>, Arc<str>>>,
    algorithms: WebPkiSupportedAlgorithms,
}

/// A `tls` block with its files.
#[derive(Debug)]
struct LoadedClient {
    files: ClientFiles,
    /// None: whatever the server shows is accepted.
    verifier: Option<Arc<WebPkiServerVerifier>>,
    own: Option<Arc<CertifiedKey>>,
}

/// The content of the files that a block names.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ClientFiles {
    trusted: Vec<Pem>,
    own: Option<Files>,
}

// === impl Client ===

impl Client {
    /// Reads the files of a block; blocks while it does.
    pub fn new(block: ClientTls) -> Arc<Self> {
        let loaded = ClientFiles::read(&block).and_then(|files| LoadedClient::load(&block, files));
        let current = RwLock::new(loaded.map(Arc::new).map_err(|troubles| told(&troubles)));
        let algorithms = ring::default_provider().signature_verification_algorithms;
        Arc::new(Self { block, current, algorithms })
    }

    /// Warns of what is wrong with the files of the key `tls`. It may be right when it matters.
    pub fn check(block: &ClientTls, fields: &Fields<'_>) {
        let loaded = ClientFiles::read(block).and_then(|files| LoadedClient::load(block, files).map(drop));
        for Trouble { key, message } in loaded.err().unwrap_or_default() {
            fields.report().warn(fields.span_of("tls"), format!("{key}: {message}"));
        }
    }

    /// What sessions are made with. The name of the server is checked against `commonName`, whatever the library thinks
    /// the server is called.
    ///
    /// # Errors
    /// The block allows no version that is spoken here.
    pub fn config(self: &Arc<Self>) -> Result<ClientConfig, String> {
        let versions = suites::versions(self.block.protocols.as_deref())?;
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_protocol_versions(&versions.chosen)
            .map_err(|error| error.to_string())?
            .dangerous()
            .with_custom_certificate_verifier(self.clone());
        let mut config = builder.with_client_cert_resolver(self.clone());
        // A resumed session would go by certificates that were checked a while ago.
        config.resumption = Resumption::disabled();
        config.enable_sni = self.asked_name().is_some();
        Ok(config)
    }

    /// The name that the server is asked for (SNI), if it can be: a name, not an address.
    pub fn asked_name(&self) -> Option<&str> {
        let name = match &self.block.validation {
            Validation::CommonName(name) => Some(name),
            Validation::Off { server_name } => server_name.as_ref(),
        };
        name.filter(|name| matches!(ServerName::try_from(name.as_str()), Ok(ServerName::DnsName(_))))
            .map(String::as_str)
    }

    /// Looks after the files for as long as the handle lives. Must be called within a runtime.
    pub fn keep_current(self: &Arc<Self>) -> AbortOnDropHandle<()> {
        let client = self.clone();
        AbortOnDropHandle::new(tokio::spawn(async move {
            let mut seen = Seen::default();
            let mut ticks = interval(PERIOD);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            loop {
                ticks.tick().await;
                let looking = client.clone();
                let looked = heavy(move || {
                    looking.look(&mut seen);
                    seen
                });
                // After a panic, which has been logged.
                seen = looked.await.unwrap_or_default();
            }
        }))
    }

    /// Blocks while it reads.
    fn look(&self, seen: &mut Seen<ClientFiles>) {
        let in_use = self.current.read().as_ref().ok().map(|loaded| loaded.files.clone());
        let Look::Settled(found) = seen.look(ClientFiles::read(&self.block), in_use.as_ref()) else { return };
        match found.and_then(|files| LoadedClient::load(&self.block, files)) {
            Ok(loaded) => {
                tracing::info!("TLS to a backend: files have changed, new sessions use them");
                *self.current.write() = Ok(Arc::new(loaded));
            }
            Err(troubles) if in_use.is_some() => {
                tracing::error!("TLS to a backend: files have changed and are not used: {}", told(&troubles));
            }
            Err(troubles) => *self.current.write() = Err(told(&troubles)),
        }
    }

    fn current(&self) -> Result<Arc<LoadedClient>, Arc<str>> {
        self.current.read().clone()
    }
}

fn told(troubles: &[Trouble]) -> Arc<str> {
    let told: Vec<String> = troubles.iter().map(|Trouble { key, message }| format!("{key}: {message}")).collect();
    told.join("; ").into()
}

impl ServerCertVerifier for Client {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let current = self.current().map_err(|why| Error::General(why.to_string()))?;
        let (Some(verifier), Validation::CommonName(name)) = (&current.verifier, &self.block.validation) else {
            return Ok(ServerCertVerified::assertion());
        };
        let name = ServerName::try_from(name.as_str())
            .map_err(|_| Error::General(format!("commonName: {name} is neither a host name nor an address")))?;
        verifier.verify_server_cert(end_entity, intermediates, &name, ocsp_response, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, cert, dss, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, cert, dss, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

impl ResolvesClientCert for Client {
    fn resolve(&self, _root_hints: &[&[u8]], _schemes: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        self.current().ok()?.own.clone()
    }

    fn has_certs(&self) -> bool {
        self.block.client_auth.is_some()
    }
}

// === impl ClientFiles ===

impl ClientFiles {
    fn read(block: &ClientTls) -> Result<Self, Troubles> {
        let mut troubles = Vec::new();
        let mut read = |key, path: &Path| Pem::read(path).map_err(|error| troubles.push(Trouble::of(key, &error))).ok();
        let checks = matches!(block.validation, Validation::CommonName(_));
        let trusted = block.trust_certs.iter().filter(|_| checks).map(|path| read("trustCertsBundle", path)).collect();
        let own = block.client_auth.as_ref().map(|auth| {
            let ClientAuth { cert_path, key_path, intermediate_certs_path } = auth;
            let (certificate, key) = (read("clientAuth.certPath", cert_path), read("clientAuth.keyPath", key_path));
            let above = intermediate_certs_path.as_ref().map(|path| read("clientAuth.intermediateCertsPath", path));
            Some(Files { certificate: certificate?, key: key?, intermediates: above.flatten(), ca: None })
        });
        let trusted: Option<Vec<Pem>> = trusted;
        match (trusted, own) {
            (Some(trusted), own) if troubles.is_empty() => Ok(Self { trusted, own: own.flatten() }),
            _ => Err(troubles),
        }
    }
}

// === impl LoadedClient ===

impl LoadedClient {
    fn load(block: &ClientTls, files: ClientFiles) -> Result<Self, Troubles> {
        let own = files.own.as_ref().map(Chain::load).transpose()?;
        let verifier = match block.validation {
            Validation::Off { .. } => None,
            Validation::CommonName(_) => Some(verifier(&files.trusted)?),
        };
        Ok(Self { files, verifier, own: own.map(|chain| Arc::new(chain.key)) })
    }
}

fn verifier(trusted: &[Pem]) -> Result<Arc<WebPkiServerVerifier>, Troubles> {
    let mut roots = RootCertStore::empty();
    let mut troubles = Vec::new();
    for pem in trusted {
        match pem.certificates() {
            Ok(certificates) => {
                let (added, _) = roots.add_parsable_certificates(certificates);
                if added == 0 {
                    let remedy = "give the CA that issued the server's certificate".to_owned();
                    let error = pem.unusable("no certificate in it can be trusted".to_owned(), remedy);
                    troubles.push(Trouble::of("trustCertsBundle", &error));
                }
            }
            Err(error) => troubles.push(Trouble::of("trustCertsBundle", &error)),
        }
    }
    if trusted.is_empty() {
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        if roots.is_empty() {
            let message = "the system has no certificates of CAs (in a container: install ca-certificates), so \
                           `trustCertsBundle` has to name a file with those to trust";
            troubles.push(Trouble::at("trustCertsBundle", message.to_owned()));
        }
    }
    if !troubles.is_empty() {
        return Err(troubles);
    }
    let provider: Arc<CryptoProvider> = Arc::new(ring::default_provider());
    WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider)
        .build()
        .map_err(|error| vec![Trouble::at("trustCertsBundle", error.to_string())])
}

#[cfg(test)]
mod tests;
