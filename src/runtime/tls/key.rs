//! Private keys.

use std::sync::Arc;

use rustls::crypto::ring;
use rustls::pki_types::{PrivateKeyDer, PrivateSec1KeyDer};
use rustls::sign::SigningKey;

use super::certificate::{Certificate, KeyKind};
use super::pem::{Pem, Unusable};

/// What signs with `key`, which was read from `pem` and is to be that of `certificate`.
///
/// # Errors
/// It is of no use. Whether it belongs to the certificate is not told yet.
pub(super) fn signing_key(
    pem: &Pem,
    key: &PrivateKeyDer<'_>,
    certificate: &Certificate,
) -> Result<Arc<dyn SigningKey>, Unusable> {
    if let Ok(signing) = ring::sign::any_supported_type(key) {
        return Ok(signing);
    }
    let completed = with_public_key(key, certificate).and_then(|key| ring::sign::any_ecdsa_type(&key).ok());
    completed.ok_or_else(|| {
        let file = pem.file().display();
        let remedy = format!(
            "of use are RSA of 2048 to 4096 bits, ECDSA on P-256 or P-384, and Ed25519; if it is one of these, write it \
             anew: openssl pkey -in {file} -out NEW"
        );
        pem.unusable("the key cannot be used with the certificate".to_owned(), remedy)
    })
}

/// An ECDSA key with the public key, which that of a certificate completes: Java writes keys without it, ring wants it,
/// and compares both.
fn with_public_key(key: &PrivateKeyDer<'_>, certificate: &Certificate) -> Option<PrivateKeyDer<'static>> {
    let length = match certificate.key {
        KeyKind::P256 => 32,
        KeyKind::P384 => 48,
        KeyKind::Rsa(_) | KeyKind::Ed25519 | KeyKind::Other(_) => return None,
    };
    // The structure of RFC 5915, alone or within PKCS#8, begins with version 1 and the number as so many bytes.
    let start = [0x02, 0x01, 0x01, 0x04, length];
    let bytes = key.secret_der();
    let at = bytes.windows(start.len()).position(|window| window == start)? + start.len();
    let number = bytes.get(at..at + usize::from(length))?;
    let public = der(0xa1, &der(0x03, &[&[0], &*certificate.public_point].concat()));
    let key = der(0x30, &[&[0x02, 0x01, 0x01], &*der(0x04, number), &public].concat());
    Some(PrivateSec1KeyDer::from(key).into())
}

/// A value in DER; of at most 255 bytes, which is enough for these curves.
fn der(tag: u8, value: &[u8]) -> Vec<u8> {
    let length = u8::try_from(value.len()).unwrap_or(u8::MAX);
    let head = if length < 0x80 { vec![tag, length] } else { vec![tag, 0x81, length] };
    [&head, value].concat()
}

#[cfg(test)]
mod tests {
    use super::super::testing::file;
    use super::*;

    fn read(certificate: &str, key: &str) -> Result<Arc<dyn SigningKey>, Unusable> {
        let certificates = Certificate::all(&Pem::read(&file(certificate)).expect(certificate)).expect(certificate);
        let pem = Pem::read(&file(key)).expect(key);
        signing_key(&pem, &pem.private_key().expect(key), &certificates[0])
    }

    #[test]
    fn the_certificate_completes_a_key_without_its_public_half() {
        let whole = read("ec.pem", "ec.key").expect("P-384");
        for key in ["ec.no-public.key", "ec.no-public.pkcs8.key"] {
            let completed = read("ec.pem", key).expect(key);
            assert_eq!(completed.public_key(), whole.public_key(), "{key}");
        }
        assert!(read("ca.pem", "intermediate.no-public.key").is_err(), "of another certificate on P-256");
        assert!(read("intermediate.pem", "intermediate.no-public.key").is_ok());
    }
}
