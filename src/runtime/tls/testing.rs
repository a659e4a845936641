//! What tests of TLS share.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};
use tempfile::TempDir;

use super::load::Files;
use super::{Loaded, Server};
use crate::config::ServerTls;

/// A file of `tests/data/tls`.
pub(super) fn file(name: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "tests/data/tls", name].iter().collect()
}

/// A CA.
pub(super) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    /// Its certificate.
    pub(super) pem: String,
}

/// A certificate with its key, as PEM.
pub(super) struct Issued {
    pub(super) certificate: String,
    pub(super) key: String,
}

impl Authority {
    pub(super) fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key can be made");
        let pem = params.self_signed(&key).expect("a certificate can be made").pem();
        Self { issuer: Issuer::new(params, key), pem }
    }

    /// A certificate for `localhost`, with changes.
    pub(super) fn issue(&self, change: impl FnOnce(&mut CertificateParams)) -> Issued {
        let mut params = CertificateParams::new(["localhost".to_owned()]).expect("a name");
        change(&mut params);
        let key = KeyPair::generate().expect("a key can be made");
        let certificate = params.signed_by(&key, &self.issuer).expect("a certificate can be made").pem();
        Issued { certificate, key: key.serialize_pem() }
    }

    /// What a client is made with that trusts this CA and shows `own`.
    pub(super) fn client(&self, own: Option<&Issued>) -> Arc<ClientConfig> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(self.pem.as_bytes()).expect("PEM")).expect("a certificate");
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("ring has suites for them")
            .with_root_certificates(roots);
        Arc::new(match own {
            None => builder.with_no_client_auth(),
            Some(Issued { certificate, key }) => {
                let certificate = CertificateDer::from_pem_slice(certificate.as_bytes()).expect("PEM");
                let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).expect("PEM");
                builder.with_client_auth_cert(vec![certificate], key).expect("they belong together")
            }
        })
    }
}

impl Issued {
    /// Writes both, in place.
    pub(super) fn write_to(&self, folder: &Path) {
        std::fs::write(folder.join("cert.pem"), &self.certificate).expect("the folder is writable");
        std::fs::write(folder.join("key.pem"), &self.key).expect("the folder is writable");
    }
}

/// A block that names `cert.pem` and `key.pem` of a folder.
pub(super) fn block(folder: &Path) -> ServerTls {
    ServerTls {
        cert_path: folder.join("cert.pem"),
        key_path: folder.join("key.pem"),
        intermediate_certs_path: None,
        ca_cert_path: None,
        ciphers: None,
        require_client_auth: false,
        protocols: None,
    }
}

/// What a block comes to: what is loaded, with the warnings; or what is wrong.
pub(super) fn load(block: ServerTls) -> Result<(Loaded, Vec<String>), Vec<String>> {
    let texts = |troubles: Vec<super::load::Trouble>| {
        troubles.into_iter().map(|trouble| format!("{}: {}", trouble.key, trouble.message)).collect()
    };
    let loaded = Files::read(&block).and_then(|files| Loaded::load(block, files));
    loaded.map(|(loaded, warnings)| (loaded, texts(warnings))).map_err(texts)
}

/// A CA, a folder with a certificate of it, and the server of that, with changes.
pub(super) fn server(change: impl FnOnce(&mut ServerTls)) -> (Authority, TempDir, Arc<Server>) {
    let (authority, folder) = (Authority::new(), tempfile::tempdir().expect("a folder"));
    authority.issue(|_| ()).write_to(folder.path());
    std::fs::write(folder.path().join("ca.pem"), &authority.pem).expect("the folder is writable");
    let mut block = block(folder.path());
    change(&mut block);
    let (loaded, warnings) = load(block).expect("a good certificate");
    assert!(warnings.is_empty(), "{warnings:?}");
    (authority, folder, Server::new("interfaces[0]".to_owned(), loaded))
}
