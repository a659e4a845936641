//! Certificates, and clients that trust them.

use std::path::Path;
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore, ServerConfig};

/// A CA.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    /// Its certificate.
    pub pem: String,
}

/// A certificate for `localhost` and 127.0.0.1 with its key, as PEM.
pub struct Issued {
    certificate: String,
    key: String,
}

impl Authority {
    /// A new one.
    pub fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key can be made");
        let pem = params.self_signed(&key).expect("a certificate can be made").pem();
        Self { issuer: Issuer::new(params, key), pem }
    }

    /// A certificate of it.
    pub fn issue(&self) -> Issued {
        let params = CertificateParams::new(["localhost".to_owned(), "127.0.0.1".to_owned()]).expect("names");
        let key = KeyPair::generate().expect("a key can be made");
        let certificate = params.signed_by(&key, &self.issuer).expect("a certificate can be made").pem();
        Issued { certificate, key: key.serialize_pem() }
    }

    /// What a client is made with that trusts it and shows `own`.
    pub fn client(&self, own: Option<&Issued>) -> Arc<ClientConfig> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(self.pem.as_bytes()).expect("PEM")).expect("a certificate");
        let builder = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
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
    /// What a server is made with that shows it.
    pub fn server(&self) -> Arc<ServerConfig> {
        let certificate = CertificateDer::from_pem_slice(self.certificate.as_bytes()).expect("PEM");
        let key = PrivateKeyDer::from_pem_slice(self.key.as_bytes()).expect("PEM");
        let builder = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("ring has suites for them")
            .with_no_client_auth();
        Arc::new(builder.with_single_cert(vec![certificate], key).expect("they belong together"))
    }

    /// Writes `cert.pem` and `key.pem`, each replaced by rename.
    pub fn write_to(&self, folder: &Path) {
        for (name, text) in [("cert.pem", &self.certificate), ("key.pem", &self.key)] {
            let (new, name) = (folder.join("new"), folder.join(name));
            std::fs::write(&new, text).and_then(|()| std::fs::rename(&new, &name)).expect("the folder is writable");
        }
    }
}
