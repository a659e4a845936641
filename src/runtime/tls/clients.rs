//! Certificates of clients.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error, OtherError, RootCertStore, SignatureScheme,
};

use super::certificate::{Certificate, Now};
use super::pem::{Pem, Unusable};

/// Accepts certificates issued by those of `caCertPath`, and, as the JVM does, those themselves: a client's own
/// certificate may stand there.
#[derive(Debug)]
pub(super) struct Clients {
    issued: Arc<dyn ClientCertVerifier>,
    listed: Vec<Certificate>,
}

/// A certificate that is refused for what it is.
#[derive(Debug, thiserror::Error)]
#[error("{what}; {remedy}")]
pub(super) struct Refused {
    pub(super) what: String,
    pub(super) remedy: &'static str,
}

// === impl Clients ===

impl Clients {
    /// Trusts the certificates of `pem`, with what is wrong with some of them.
    ///
    /// # Errors
    /// None of them can be trusted.
    pub(super) fn trusting(pem: &Pem, provider: &Arc<CryptoProvider>) -> Result<(Arc<Self>, Vec<String>), Unusable> {
        let (mut roots, mut warnings) = (RootCertStore::empty(), Vec::new());
        let (file, mut listed) = (pem.file().display(), Vec::new());
        for (place, der) in pem.certificates()?.into_iter().enumerate() {
            let place = place + 1;
            let certificate = match Certificate::read(&der) {
                Ok(certificate) => certificate,
                Err(error) => {
                    warnings.push(format!("{file}: certificate {place} cannot be read ({error}); issue it anew"));
                    continue;
                }
            };
            let Certificate { subject, key, validity, .. } = &certificate;
            if !key.can_be_verified() {
                warnings.push(format!(
                    "{file}: what {subject} has signed cannot be verified: its key is {key}; make a new CA with RSA of \
                     2048 bits or more, or ECDSA on P-256 or P-384"
                ));
                continue;
            }
            if validity.at(SystemTime::now()) == Now::Expired {
                warnings.push(format!("{file}: {subject} has expired; renew it"));
            }
            if let Err(error) = roots.add(der) {
                warnings.push(format!("{file}: {subject} cannot be trusted ({error}); issue it anew"));
            }
            listed.push(certificate);
        }
        let issued = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone()).build();
        match issued {
            Ok(issued) => Ok((Arc::new(Self { issued, listed }), warnings)),
            Err(_) => {
                let what = format!("no certificate of it can be trusted ({})", warnings.join("; "));
                Err(pem.unusable(what, "give the CA that issues the clients' certificates".to_owned()))
            }
        }
    }
}

impl ClientCertVerifier for Clients {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.issued.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        match self.listed.iter().find(|listed| listed.der == *end_entity) {
            Some(listed) => match listed.validity.at(SystemTime::UNIX_EPOCH + Duration::from_secs(now.as_secs())) {
                Now::Valid => Ok(ClientCertVerified::assertion()),
                Now::TooEarly => Err(CertificateError::NotValidYet.into()),
                Now::Expired => Err(CertificateError::Expired.into()),
            },
            None => {
                let verified = self.issued.verify_client_cert(end_entity, intermediates, now);
                let Ok(shown) = Certificate::read(end_entity) else { return verified };
                match (verified, explain(&shown)) {
                    (Err(Error::InvalidCertificate(error)), _) if is_clear(&error) => Err(error.into()),
                    (Err(_), Some(refused)) => Err(refused.into()),
                    // Its signatures could not be verified in what follows.
                    (Ok(_), Some(refused)) if !shown.key.can_be_verified() => Err(refused.into()),
                    (verified, _) => verified,
                }
            }
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.issued.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.issued.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.issued.supported_verify_schemes()
    }
}

/// Whether an error says all there is to say.
fn is_clear(error: &CertificateError) -> bool {
    use CertificateError::{Expired, ExpiredContext, NotValidYet, NotValidYetContext, UnknownIssuer};
    matches!(error, Expired | ExpiredContext { .. } | NotValidYet | NotValidYetContext { .. } | UnknownIssuer)
}

/// What is wrong with a certificate that was refused, if it shows.
fn explain(shown: &Certificate) -> Option<Refused> {
    let Certificate { subject, version, weakly_signed, for_clients, key, .. } = shown;
    let (why, remedy) = match () {
        () if *version < 3 => (
            format!("it is of X.509 version {version}"),
            "issue it in version 3, which it is once it has extensions: openssl x509 -req -extfile …",
        ),
        () if *weakly_signed => {
            ("it is signed with SHA-1 or MD5".to_owned(), "issue it anew: openssl x509 -req -sha256 …")
        }
        () if !key.can_be_verified() => {
            (format!("its key is {key}"), "make a new one with RSA of 2048 bits or more, or ECDSA on P-256 or P-384")
        }
        () if !for_clients => (
            "its extendedKeyUsage is not for clients".to_owned(),
            "issue it anew, with clientAuth or without extendedKeyUsage",
        ),
        () if shown.is_ca => {
            ("it is a CA's".to_owned(), "issue one for the client alone, or list this one itself in caCertPath")
        }
        () => return None,
    };
    Some(Refused { what: format!("the client's certificate {subject} is refused: {why}"), remedy })
}

// === impl Refused ===

impl From<Refused> for Error {
    fn from(refused: Refused) -> Self {
        CertificateError::Other(OtherError(Arc::new(refused))).into()
    }
}

#[cfg(test)]
mod tests {
    use rustls::crypto::ring;

    use super::super::failure::Failure;
    use super::super::testing::file;
    use super::*;

    fn pem(name: &str) -> Pem {
        Pem::read(&file(name)).expect(name)
    }

    /// What becomes of a client with this certificate, where these are trusted.
    fn verdict(trusted: &str, shown: &str) -> Result<(), String> {
        let (clients, _) = Clients::trusting(&pem(trusted), &Arc::new(ring::default_provider())).expect(trusted);
        let shown = pem(shown).certificates().expect(shown);
        let verdict = clients.verify_client_cert(&shown[0], &shown[1..], UnixTime::now());
        verdict.map(drop).map_err(|error| {
            let Failure { what, remedy, .. } = Failure::of(&std::io::Error::other(error));
            format!("{what}; {remedy}")
        })
    }

    #[test]
    fn what_the_ca_issued_is_accepted_and_so_is_what_is_listed_itself() {
        assert_eq!(verdict("ca.pem", "rsa.pem"), Ok(()));
        assert_eq!(verdict("ca.pem", "cn-only.pem"), Ok(()));
        assert_eq!(verdict("self-signed.pem", "self-signed.pem"), Ok(()), "though it says that it is a CA");
        assert_eq!(verdict("rsa.pem", "rsa.pem"), Ok(()), "though its issuer is unknown");
    }

    #[test]
    fn what_is_refused_is_refused_with_the_remedy() {
        for (trusted, shown, expected) in [
            ("self-signed.pem", "rsa.pem", "is not issued by any of caCertPath; add its issuer to caCertPath"),
            ("ca.pem", "ec.pem", "the client must send intermediate certificates itself"),
            ("ca.pem", "v1.pem", "it is of X.509 version 1; issue it in version 3"),
            ("ca.pem", "short.pem", "its key is RSA of 1024 bits; make a new one"),
            ("ca.pem", "p521.pem", "its key is ECDSA on P-521; make a new one"),
            ("ca.pem", "dsa.pem", "its key is DSA; make a new one"),
            ("ca.pem", "sha1.pem", "it is signed with SHA-1 or MD5; issue it anew"),
            ("ca.pem", "server-only.pem", "its extendedKeyUsage is not for clients; issue it anew, with clientAuth"),
            ("ca.pem", "intermediate.pem", "it is a CA's; issue one for the client alone"),
            ("ca.pem", "self-signed.pem", "or list this one itself in caCertPath"),
        ] {
            let refused = verdict(trusted, shown).expect_err(shown);
            assert!(refused.contains(expected), "{trusted}, {shown}: {refused}");
        }
    }

    #[test]
    fn a_ca_whose_signatures_cannot_be_verified_is_told() {
        let provider = Arc::new(ring::default_provider());
        let refused = Clients::trusting(&pem("short-ca.pem"), &provider).expect_err("no other is there").to_string();
        assert!(refused.contains("its key is RSA of 1024 bits"), "{refused}");
        let (_, warnings) = Clients::trusting(&pem("v1-ca.pem"), &provider).expect("version 1 is fine for a root");
        assert_eq!(warnings, Vec::<String>::new());
    }
}
