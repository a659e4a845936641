//! Files of certificates and keys.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use rustls::pki_types::pem::{Error, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// The largest file that is read: some hundred certificates.
const MAX_LEN: u64 = 4 << 20;

/// A file that cannot be used: which, why, and what can be done about it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}: {what}; {remedy}", file.display())]
pub struct Unusable {
    /// The file.
    pub file: PathBuf,
    /// Why.
    pub what: String,
    /// What can be done.
    pub remedy: String,
}

/// The content of a PEM file. It may be a key, so that `Debug` does not show it.
#[derive(Clone, PartialEq, Eq)]
pub struct Pem {
    file: PathBuf,
    bytes: Vec<u8>,
}

// === impl Pem ===

impl Pem {
    /// Reads a file.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn read(file: &Path) -> Result<Self, Unusable> {
        let unusable = |what: String, remedy: &str| Unusable { file: file.to_owned(), what, remedy: remedy.to_owned() };
        let read = || -> io::Result<Option<Vec<u8>>> {
            // Before it is opened, since that can take for ever with a pipe.
            if !file.metadata()?.is_file() {
                return Ok(None);
            }
            let mut bytes = Vec::new();
            File::open(file)?.take(MAX_LEN + 1).read_to_end(&mut bytes)?;
            Ok(Some(bytes))
        };
        match read() {
            Ok(Some(bytes)) if bytes.len() as u64 > MAX_LEN => {
                Err(unusable(format!("the file has more than {MAX_LEN} bytes"), "is it the right one?"))
            }
            Ok(Some(bytes)) => Ok(Self { file: file.to_owned(), bytes }),
            Ok(None) => Err(unusable("this is no file".to_owned(), "give the path of a PEM file")),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                Err(unusable(format!("cannot be read ({error})"), "let the user that rosterd runs as read it"))
            }
            Err(error) => Err(unusable(format!("cannot be read ({error})"), "give the path of a PEM file")),
        }
    }

    /// The file that was read.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// All certificates in it: at least one.
    ///
    /// # Errors
    /// There is none, or one is damaged.
    pub fn certificates(&self) -> Result<Vec<CertificateDer<'static>>, Unusable> {
        let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&self.bytes).collect();
        match certificates {
            Ok(certificates) if certificates.is_empty() => Err(self.no_certificate()),
            Ok(certificates) => Ok(certificates),
            Err(error) => Err(self.damaged(&error)),
        }
    }

    /// The first private key in it: PKCS#8, PKCS#1 or SEC1.
    ///
    /// # Errors
    /// There is none, or it is encrypted or damaged.
    pub fn private_key(&self) -> Result<PrivateKeyDer<'static>, Unusable> {
        // Such a key is no base64, and would be called damaged.
        let encrypted = contains(&self.bytes, b"Proc-Type: 4,ENCRYPTED");
        match PrivateKeyDer::pem_slice_iter(&self.bytes).next() {
            Some(Ok(key)) if !encrypted => Ok(key),
            Some(Err(error)) if !encrypted => Err(self.damaged(&error)),
            _ => Err(self.no_key(encrypted)),
        }
    }

    fn no_certificate(&self) -> Unusable {
        let file = self.file.display();
        let (what, remedy) = match &*self.labels() {
            [] => return self.no_pem("x509"),
            labels if has(labels, "TRUSTED CERTIFICATE") => (
                "the certificate is in OpenSSL's own form".to_owned(),
                format!("write it anew: openssl x509 -in {file} -out NEW"),
            ),
            labels if has(labels, "PKCS7") || has(labels, "CMS") => (
                "the certificates are packed in PKCS#7".to_owned(),
                format!("unpack them: openssl pkcs7 -in {file} -print_certs -out NEW"),
            ),
            labels if has(labels, "CERTIFICATE REQUEST") || has(labels, "NEW CERTIFICATE REQUEST") => (
                "this is a request for a certificate".to_owned(),
                "have a CA issue the certificate, and name its file".to_owned(),
            ),
            labels if labels.iter().any(|label| label.ends_with("PRIVATE KEY")) => (
                "there is a private key, and no certificate".to_owned(),
                "are certPath and keyPath mixed up?".to_owned(),
            ),
            labels => (
                format!("there is no certificate, but {}", labels.join(", ")),
                "give a file with -----BEGIN CERTIFICATE-----".to_owned(),
            ),
        };
        self.unusable(what, remedy)
    }

    fn no_key(&self, encrypted: bool) -> Unusable {
        let file = self.file.display();
        let (what, remedy) = match &*self.labels() {
            [] => return self.no_pem("pkey"),
            labels if encrypted || has(labels, "ENCRYPTED PRIVATE KEY") => (
                "the key is encrypted".to_owned(),
                format!("write it in plain, readable by rosterd alone: openssl pkey -in {file} -out NEW"),
            ),
            labels if has(labels, "OPENSSH PRIVATE KEY") => (
                "the key is in OpenSSH's own form".to_owned(),
                format!("write it anew, in place: ssh-keygen -p -N '' -m PKCS8 -f {file}"),
            ),
            labels if has(labels, "CERTIFICATE") => (
                "there is a certificate, and no private key".to_owned(),
                "are certPath and keyPath mixed up?".to_owned(),
            ),
            labels => (
                format!("there is no private key that is of use here, but {}", labels.join(", ")),
                "give a file with -----BEGIN PRIVATE KEY-----, of RSA, ECDSA (P-256, P-384) or Ed25519".to_owned(),
            ),
        };
        self.unusable(what, remedy)
    }

    /// `openssl` is its command for what should be there.
    fn no_pem(&self, openssl: &str) -> Unusable {
        let file = self.file.display();
        let (what, remedy) = match *self.bytes {
            [] => ("the file is empty", "is it the right one?".to_owned()),
            [0xfe, 0xed, 0xfe, 0xed, ..] => (
                "this is a Java keystore, not PEM",
                format!(
                    "unpack it: keytool -importkeystore -srckeystore {file} -destkeystore NEW.p12 -deststoretype pkcs12, \
                     then openssl pkcs12 -in NEW.p12 -nodes -out NEW.pem"
                ),
            ),
            [0x30, ..] => (
                "this is not PEM, but DER or PKCS#12",
                format!(
                    "write it anew: openssl {openssl} -inform der -in {file} -out NEW, \
                     or for PKCS#12 openssl pkcs12 -in {file} -nodes -out NEW"
                ),
            ),
            _ => ("this is not PEM: there is no line -----BEGIN …-----", "is it the right file?".to_owned()),
        };
        self.unusable(what.to_owned(), remedy)
    }

    fn damaged(&self, error: &Error) -> Unusable {
        self.unusable(
            format!("the PEM is damaged ({error})"),
            "copy the file again; was a line lost or broken?".to_owned(),
        )
    }

    pub(super) fn unusable(&self, what: String, remedy: String) -> Unusable {
        Unusable { file: self.file.clone(), what, remedy }
    }

    /// What the blocks of the file call themselves.
    fn labels(&self) -> Vec<String> {
        let text = String::from_utf8_lossy(&self.bytes);
        let labels = text.lines().filter_map(|line| line.trim().strip_prefix("-----BEGIN ")?.strip_suffix("-----"));
        labels.take(8).map(|label| label.chars().take(40).collect()).collect()
    }
}

impl fmt::Debug for Pem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Pem").field(&self.file).finish()
    }
}

fn contains(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

fn has(labels: &[String], label: &str) -> bool {
    labels.iter().any(|known| known == label)
}

#[cfg(test)]
mod tests {
    use super::super::testing::file;
    use super::*;

    fn of(bytes: &[u8]) -> Pem {
        Pem { file: "f.pem".into(), bytes: bytes.to_owned() }
    }

    #[test]
    fn keys_are_read_in_every_form_that_is_not_encrypted() {
        for (name, form) in [("rsa.key", "Pkcs8"), ("rsa.pkcs1.key", "Pkcs1"), ("ec.sec1.key", "Sec1")] {
            let key = Pem::read(&file(name)).and_then(|pem| pem.private_key()).expect(name);
            let found = match key {
                PrivateKeyDer::Pkcs8(_) => "Pkcs8",
                PrivateKeyDer::Pkcs1(_) => "Pkcs1",
                PrivateKeyDer::Sec1(_) => "Sec1",
                _ => "another",
            };
            assert_eq!(found, form, "{name}");
        }
    }

    #[test]
    fn a_certificate_with_text_around_it_and_line_ends_of_windows_is_read() {
        let pem = std::fs::read_to_string(file("rsa.pem")).expect("a file of the tests");
        let text = format!("Certificate:\r\n    Data:\r\n{}\r\ntrailing", pem.replace('\n', "\r\n"));
        assert_eq!(of(text.as_bytes()).certificates().expect("valid").len(), 1);
    }

    #[test]
    fn what_is_no_certificate_is_refused_with_the_remedy() {
        for (name, what, remedy) in [
            ("rsa.pem.der", "this is not PEM, but DER", "openssl x509 -inform der -in "),
            ("rsa.trusted.pem", "in OpenSSL's own form", "openssl x509 -in "),
            ("rsa.p7b", "packed in PKCS#7", "openssl pkcs7 -in "),
            ("rsa.key", "there is a private key, and no certificate", "are certPath and keyPath mixed up?"),
            ("make", "this is not PEM", "is it the right file?"),
        ] {
            let refused = Pem::read(&file(name)).and_then(|pem| pem.certificates()).expect_err(name).to_string();
            assert!(refused.starts_with(&file(name).display().to_string()), "{refused}");
            assert!(refused.contains(what) && refused.contains(remedy), "{name}: {refused}");
        }
    }

    #[test]
    fn what_is_no_key_is_refused_with_the_remedy() {
        for (name, what, remedy) in [
            ("rsa.encrypted.key", "the key is encrypted", "openssl pkey -in "),
            ("rsa.pkcs1-encrypted.key", "the key is encrypted", "openssl pkey -in "),
            ("rsa.key.der", "this is not PEM, but DER", "openssl pkey -inform der -in "),
            ("rsa.pem", "there is a certificate, and no private key", "are certPath and keyPath mixed up?"),
        ] {
            let refused = Pem::read(&file(name)).and_then(|pem| pem.private_key()).expect_err(name).to_string();
            assert!(refused.contains(what) && refused.contains(remedy), "{name}: {refused}");
        }
        for (bytes, what) in [
            (&b""[..], "the file is empty"),
            (b"\xfe\xed\xfe\xed\0\0\0\x02", "keytool -importkeystore"),
            (b"-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\n-----END OPENSSH PRIVATE KEY-----\n", "ssh-keygen -p"),
            (b"-----BEGIN DSA PRIVATE KEY-----\nAAAA\n-----END DSA PRIVATE KEY-----\n", "but DSA PRIVATE KEY"),
            (b"-----BEGIN PRIVATE KEY-----\n????\n-----END PRIVATE KEY-----\n", "the PEM is damaged"),
            (b"-----BEGIN PRIVATE KEY-----\nAAAA\n", "the PEM is damaged"),
        ] {
            let refused = of(bytes).private_key().expect_err("no key").to_string();
            assert!(refused.contains(what), "{bytes:?}: {refused}");
        }
    }

    #[test]
    fn a_path_that_leads_to_no_file_is_named() {
        let refused = Pem::read(Path::new("/does/not/exist")).expect_err("no file").to_string();
        assert!(refused.starts_with("/does/not/exist: cannot be read (No such file"), "{refused}");
        assert!(Pem::read(Path::new("/")).expect_err("a directory").to_string().contains("this is no file"));
    }

    #[test]
    fn keys_are_not_shown() {
        let pem = Pem::read(&file("rsa.key")).expect("a file of the tests");
        assert_eq!(format!("{pem:?}"), format!("Pem({:?})", file("rsa.key")));
    }
}
