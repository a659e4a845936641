//! What a certificate says.

use std::fmt;
use std::time::SystemTime;

use rustls::pki_types::CertificateDer;
use x509_cert::certificate::{CertificateInner, Raw, TbsCertificateInner};
use x509_cert::der::asn1::{ObjectIdentifier, UintRef};
use x509_cert::der::{Decode, Encode, Reader, SliceReader};
use x509_cert::ext::pkix::name::GeneralName;
use x509_cert::ext::pkix::{BasicConstraints, ExtendedKeyUsage, SubjectAltName};
use x509_cert::spki::SubjectPublicKeyInfoOwned;

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
    pub(super) fn read(der: &CertificateDer<'_>) -> Result<Self, x509_cert::der::Error> {
        // Raw: numbers may be longer and times written otherwise than the standard wants, as they may for the JVM.
        let parsed = CertificateInner::<Raw>::from_der(der)?;
        let about = parsed.tbs_certificate();
        let (key, usage) = (about.subject_public_key_info(), Usage::of(about));
        let constraints = about.get_extension::<BasicConstraints>().ok().flatten();
        let seconds =
            |time: x509_cert::time::Time| i64::try_from(time.to_unix_duration().as_secs()).unwrap_or(i64::MAX);
        Ok(Self {
            der: der.clone().into_owned(),
            subject: about.subject().to_string(),
            version: about.version() as u32 + 1,
            validity: Validity {
                not_before: seconds(about.validity().not_before),
                not_after: seconds(about.validity().not_after),
            },
            has_names: has_names(about),
            for_servers: usage.server,
            for_clients: usage.client,
            is_ca: constraints.is_some_and(|(_, constraints)| constraints.ca),
            weakly_signed: is_weak(parsed.signature_algorithm().oid),
            key: KeyKind::of(key),
            public_key: key.to_der()?,
            public_point: key.subject_public_key.raw_bytes().to_vec(),
            subject_der: about.subject().to_der()?,
            issuer_der: about.issuer().to_der()?,
        })
    }

    /// Whether it says that it was issued by `other`.
    pub(super) fn names_as_issuer(&self, other: &Self) -> bool {
        self.issuer_der == other.subject_der
    }
}

/// What a certificate may be used for (extendedKeyUsage); without that, for everything.
struct Usage {
    server: bool,
    client: bool,
}

impl Usage {
    fn of(certificate: &TbsCertificateInner<Raw>) -> Self {
        const ANY: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.29.37.0");
        const SERVER: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.6.1.5.5.7.3.1");
        const CLIENT: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.6.1.5.5.7.3.2");
        match certificate.get_extension::<ExtendedKeyUsage>() {
            Ok(Some((_, ExtendedKeyUsage(uses)))) => {
                let may = |usage| uses.contains(&usage) || uses.contains(&ANY);
                Self { server: may(SERVER), client: may(CLIENT) }
            }
            Ok(None) | Err(_) => Self { server: true, client: true },
        }
    }
}

fn has_names(certificate: &TbsCertificateInner<Raw>) -> bool {
    let names = certificate.get_extension::<SubjectAltName>().ok().flatten();
    let is_name = |name: &GeneralName| matches!(name, GeneralName::DnsName(_) | GeneralName::IpAddress(_));
    names.is_some_and(|(_, SubjectAltName(names))| names.iter().any(is_name))
}

/// Algorithms of signatures that rest on MD5 or SHA-1.
fn is_weak(algorithm: ObjectIdentifier) -> bool {
    const MD5_RSA: &str = "1.2.840.113549.1.1.4";
    const SHA1_RSA: &str = "1.2.840.113549.1.1.5";
    const SHA1_RSA_OIW: &str = "1.3.14.3.2.29";
    const SHA1_DSA: &str = "1.2.840.10040.4.3";
    const SHA1_ECDSA: &str = "1.2.840.10045.4.1";
    [MD5_RSA, SHA1_RSA, SHA1_RSA_OIW, SHA1_DSA, SHA1_ECDSA].contains(&algorithm.to_string().as_str())
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
    fn of(key: &SubjectPublicKeyInfoOwned) -> Self {
        let parameters = key.algorithm.parameters.as_ref();
        let curve = parameters.and_then(|curve| curve.decode_as::<ObjectIdentifier>().ok());
        match key.algorithm.oid.to_string().as_str() {
            "1.2.840.113549.1.1.1" => {
                let bits = modulus_bits(key.subject_public_key.raw_bytes());
                bits.map_or_else(|_| Self::Other("RSA of an unknown length".to_owned()), Self::Rsa)
            }
            "1.2.840.10045.2.1" => match curve.map(|curve| curve.to_string()).as_deref() {
                Some("1.2.840.10045.3.1.7") => Self::P256,
                Some("1.3.132.0.34") => Self::P384,
                Some("1.3.132.0.35") => Self::Other("ECDSA on P-521".to_owned()),
                Some(curve) => Self::Other(format!("ECDSA on the curve {curve}")),
                None => Self::Other("ECDSA on a curve without a name".to_owned()),
            },
            "1.3.101.112" => Self::Ed25519,
            "1.3.101.113" => Self::Other("Ed448".to_owned()),
            "1.2.840.10040.4.1" => Self::Other("DSA".to_owned()),
            "1.2.840.113549.1.1.10" => Self::Other("RSA for PSS alone".to_owned()),
            other => Self::Other(format!("the algorithm {other}")),
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

/// The length of an RSA key (RFC 8017: modulus, exponent).
fn modulus_bits(key: &[u8]) -> Result<usize, x509_cert::der::Error> {
    SliceReader::new(key)?.sequence(|numbers| {
        let (modulus, _exponent) = (UintRef::decode(numbers)?, UintRef::decode(numbers)?);
        let leading = modulus.as_bytes().first().map_or(0, |first| first.leading_zeros());
        Ok::<_, x509_cert::der::Error>(modulus.as_bytes().len() * 8 - leading as usize)
    })
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
