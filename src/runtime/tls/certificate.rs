//! What a certificate says.

use std::fmt;
use std::time::SystemTime;

use rustls::pki_types::CertificateDer;
use x509_parser::certificate::X509Certificate;
use x509_parser::public_key::PublicKey;
use x509_parser::x509::SubjectPublicKeyInfo;

use super::pem::{Pem, Unusable};

/// A certificate that was looked into.
#[derive(Clone, Debug)]
pub(super) struct Certificate {
    pub(super) der: CertificateDer<'static>,
    /// Whom it is about, for people.
    pub(super) subject: String,
    /// Version of X.509: 1 to 3.
    pub(super) version: u32,
    pub(super) validity: Validity,
    /// Does it have names that clients look for (subjectAltName)?
    pub(super) has_names: bool,
    /// May it be a server's (extendedKeyUsage)?
    pub(super) for_servers: bool,
    /// May it be a client's (extendedKeyUsage)?
    pub(super) for_clients: bool,
    /// May it issue others (basicConstraints)?
    pub(super) is_ca: bool,
    /// Is it signed with SHA-1 or MD5?
    pub(super) weakly_signed: bool,
    pub(super) key: KeyKind,
    /// The public key as it stands in it (subjectPublicKeyInfo).
    pub(super) public_key: Vec<u8>,
    /// The same without the algorithm: with ECDSA a point.
    pub(super) public_point: Vec<u8>,
    subject_der: Vec<u8>,
    issuer_der: Vec<u8>,
}

/// From when until when something is valid, in seconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Validity {
    pub(super) not_before: i64,
    pub(super) not_after: i64,
}

/// Where a moment lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Now {
    TooEarly,
    Valid,
    Expired,
}

/// A kind of public key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum KeyKind {
    /// With the number of bits.
    Rsa(usize),
    P256,
    P384,
    Ed25519,
    Other(String),
}

// === impl Certificate ===

impl Certificate {
    /// All certificates of a file, looked into: at least one.
    pub(super) fn all(pem: &Pem) -> Result<Vec<Self>, Unusable> {
        let ders = pem.certificates()?.into_iter().enumerate();
        ders.map(|(place, der)| {
            Self::read(&der).map_err(|why| {
                let what = format!("certificate {} of the file cannot be read ({why})", place + 1);
                pem.unusable(what, "issue it anew".to_owned())
            })
        })
        .collect()
    }

    /// Looks into one certificate.
    pub(super) fn read(der: &CertificateDer<'_>) -> Result<Self, String> {
        let (_, parsed) = x509_parser::parse_x509_certificate(der).map_err(|error| error.to_string())?;
        let usage = parsed.extended_key_usage().ok().flatten().map(|usage| usage.value);
        Ok(Self {
            der: der.clone().into_owned(),
            subject: parsed.subject().to_string(),
            version: parsed.version().0 + 1,
            validity: Validity {
                not_before: parsed.validity().not_before.timestamp(),
                not_after: parsed.validity().not_after.timestamp(),
            },
            has_names: has_names(&parsed),
            for_servers: usage.is_none_or(|usage| usage.server_auth || usage.any),
            for_clients: usage.is_none_or(|usage| usage.client_auth || usage.any),
            is_ca: parsed.is_ca(),
            weakly_signed: is_weak(&parsed.signature_algorithm.algorithm.to_id_string()),
            key: KeyKind::of(parsed.public_key()),
            public_key: parsed.public_key().raw.to_vec(),
            public_point: parsed.public_key().subject_public_key.data.to_vec(),
            subject_der: parsed.subject().as_raw().to_vec(),
            issuer_der: parsed.issuer().as_raw().to_vec(),
        })
    }

    /// Whether it says that it was issued by `other`.
    pub(super) fn names_as_issuer(&self, other: &Self) -> bool {
        self.issuer_der == other.subject_der
    }
}

fn has_names(certificate: &X509Certificate<'_>) -> bool {
    use x509_parser::extensions::GeneralName::{DNSName, IPAddress};
    let names = certificate.subject_alternative_name().ok().flatten();
    names.is_some_and(|names| names.value.general_names.iter().any(|name| matches!(name, DNSName(_) | IPAddress(_))))
}

/// Algorithms of signatures that rest on MD5 or SHA-1.
fn is_weak(oid: &str) -> bool {
    const MD5_RSA: &str = "1.2.840.113549.1.1.4";
    const SHA1_RSA: &str = "1.2.840.113549.1.1.5";
    const SHA1_RSA_OIW: &str = "1.3.14.3.2.29";
    const SHA1_DSA: &str = "1.2.840.10040.4.3";
    const SHA1_ECDSA: &str = "1.2.840.10045.4.1";
    [MD5_RSA, SHA1_RSA, SHA1_RSA_OIW, SHA1_DSA, SHA1_ECDSA].contains(&oid)
}

// === impl Validity ===

impl Validity {
    pub(super) fn at(self, time: SystemTime) -> Now {
        let seconds = time.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs());
        match i64::try_from(seconds).unwrap_or(i64::MAX) {
            now if now < self.not_before => Now::TooEarly,
            now if now > self.not_after => Now::Expired,
            _ => Now::Valid,
        }
    }
}

// === impl KeyKind ===

impl KeyKind {
    fn of(key: &SubjectPublicKeyInfo<'_>) -> Self {
        let curve =
            || key.algorithm.parameters.as_ref().and_then(|any| any.as_oid().ok()).map(|oid| oid.to_id_string());
        match (key.algorithm.algorithm.to_id_string().as_str(), key.parsed()) {
            ("1.2.840.113549.1.1.1", Ok(PublicKey::RSA(rsa))) => Self::Rsa(rsa.key_size()),
            ("1.2.840.10045.2.1", _) => match curve().as_deref() {
                Some("1.2.840.10045.3.1.7") => Self::P256,
                Some("1.3.132.0.34") => Self::P384,
                Some("1.3.132.0.35") => Self::Other("ECDSA on P-521".to_owned()),
                Some(curve) => Self::Other(format!("ECDSA on the curve {curve}")),
                None => Self::Other("ECDSA on a curve without a name".to_owned()),
            },
            ("1.3.101.112", _) => Self::Ed25519,
            ("1.3.101.113", _) => Self::Other("Ed448".to_owned()),
            ("1.2.840.10040.4.1", _) => Self::Other("DSA".to_owned()),
            ("1.2.840.113549.1.1.10", _) => Self::Other("RSA for PSS alone".to_owned()),
            (other, _) => Self::Other(format!("the algorithm {other}")),
        }
    }

    /// Whether a server can have such a key.
    pub(super) fn can_sign(&self) -> bool {
        match self {
            Self::Rsa(bits) => (2048..=4096).contains(bits),
            Self::P256 | Self::P384 | Self::Ed25519 => true,
            Self::Other(_) => false,
        }
    }

    /// Whether what is signed by such a key can be verified.
    pub(super) fn can_be_verified(&self) -> bool {
        match self {
            Self::Rsa(bits) => (2048..=8192).contains(bits),
            other => other.can_sign(),
        }
    }
}

impl fmt::Display for KeyKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rsa(bits) => write!(f, "RSA of {bits} bits"),
            Self::P256 => f.write_str("ECDSA on P-256"),
            Self::P384 => f.write_str("ECDSA on P-384"),
            Self::Ed25519 => f.write_str("Ed25519"),
            Self::Other(name) => f.write_str(name),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::testing::file;
    use super::*;

    fn read(name: &str) -> Certificate {
        Certificate::all(&Pem::read(&file(name)).expect(name)).expect(name).remove(0)
    }

    #[test]
    fn keys_are_known_by_kind_and_length() {
        for (name, kind) in [
            ("rsa.pem", "RSA of 2048 bits"),
            ("short.pem", "RSA of 1024 bits"),
            ("ca.pem", "ECDSA on P-256"),
            ("ec.pem", "ECDSA on P-384"),
            ("p521.pem", "ECDSA on P-521"),
            ("ed25519.pem", "Ed25519"),
            ("dsa.pem", "DSA"),
        ] {
            assert_eq!(read(name).key.to_string(), kind);
        }
    }

    #[test]
    fn what_clients_may_mind_is_seen() {
        let says = |name| {
            let Certificate { version, has_names, for_servers, weakly_signed, .. } = read(name);
            (version, has_names, for_servers, weakly_signed)
        };
        assert_eq!(says("rsa.pem"), (3, true, true, false));
        assert_eq!(says("cn-only.pem"), (3, false, true, false));
        assert_eq!(says("client-only.pem"), (3, true, false, false));
        assert_eq!(says("sha1.pem"), (3, true, true, true));
        assert_eq!(says("v1.pem"), (1, false, true, false));
        assert_eq!(read("rsa.pem").subject, "CN=rsa.rosterd.test");
    }

    #[test]
    fn issuers_are_known_by_name() {
        let (ca, intermediate, leaf) = (read("ca.pem"), read("intermediate.pem"), read("ec.pem"));
        assert!(leaf.names_as_issuer(&intermediate) && intermediate.names_as_issuer(&ca) && ca.names_as_issuer(&ca));
        assert!(!leaf.names_as_issuer(&ca));
    }

    #[test]
    fn a_moment_is_before_within_or_after() {
        let validity = Validity { not_before: 10, not_after: 20 };
        let at = |seconds| validity.at(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds));
        assert_eq!([at(9), at(10), at(20), at(21)], [Now::TooEarly, Now::Valid, Now::Valid, Now::Expired]);
    }
}
