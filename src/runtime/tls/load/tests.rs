use std::path::PathBuf;

use rcgen::date_time_ymd;

use super::super::testing::{Authority, block, file, load};
use super::{Certificate, Chain, Files};
use crate::config::ServerTls;

/// A block of two files of `tests/data/tls`.
fn files(certificate: &str, key: &str) -> ServerTls {
    ServerTls { cert_path: file(certificate), key_path: file(key), ..block(&PathBuf::new()) }
}

fn texts(names: &[&str]) -> Option<Vec<String>> {
    Some(names.iter().map(|name| (*name).to_owned()).collect())
}

fn refused(block: ServerTls, expected: &[&str]) {
    let troubles = load(block).map(|(_, warnings)| warnings).expect_err("must be refused");
    assert_eq!(troubles.len(), expected.len(), "{troubles:#?}");
    for (trouble, expected) in troubles.iter().zip(expected) {
        for part in expected.split(" … ") {
            assert!(trouble.contains(part), "no {part:?} in {trouble}");
        }
    }
}

fn warned(block: ServerTls, expected: &[&str]) {
    let (_, warnings) = load(block).expect("must be accepted");
    assert_eq!(warnings.len(), expected.len(), "{warnings:#?}");
    for (warning, expected) in warnings.iter().zip(expected) {
        assert!(warning.contains(expected), "no {expected:?} in {warning}");
    }
}

#[test]
fn every_kind_and_form_of_key_that_is_of_use_is_accepted() {
    for (certificate, key) in [
        ("rsa.pem", "rsa.key"),
        ("rsa.pem", "rsa.pkcs1.key"),
        ("ec.pem", "ec.key"),
        ("ec.pem", "ec.sec1.key"),
        ("ec.pem", "ec.no-public.key"),
        ("ec.pem", "ec.no-public.pkcs8.key"),
        ("ca.pem", "ca.key"),
        ("ed25519.pem", "ed25519.key"),
    ] {
        let minded: &[&str] = if certificate == "ca.pem" { &["has no name but its CN"] } else { &[] };
        warned(files(certificate, key), minded);
    }
}

#[test]
fn what_cannot_be_used_is_refused_with_key_file_reason_and_remedy() {
    for (certificate, key, expected) in [
        ("rsa.pem", "ec.key", "keyPath: … ec.key: the key does not belong to the certificate … openssl pkey -in "),
        ("rsa.pem", "rsa.encrypted.key", "keyPath: … the key is encrypted; write it in plain"),
        ("rsa.pem.der", "rsa.key", "certPath: … this is not PEM, but DER"),
        ("short.pem", "short.key", "certPath: … the key of the certificate is RSA of 1024 bits; make a new key"),
        ("p521.pem", "p521.key", "certPath: … the key of the certificate is ECDSA on P-521; make a new key"),
        ("dsa.pem", "dsa.key", "certPath: … the key of the certificate is DSA; make a new key"),
        ("rsa.pem", "short.key", "keyPath: … short.key: the key cannot be used with the certificate; of use are RSA"),
        ("ca.pem", "ec.no-public.key", "keyPath: … the key cannot be used … write it anew: openssl pkey -in "),
        ("nope.pem", "rsa.key", "certPath: … nope.pem: cannot be read (No such file"),
    ] {
        refused(files(certificate, key), &[expected]);
    }
}

#[test]
fn all_files_that_are_wrong_are_named_at_once() {
    let missing = ServerTls { intermediate_certs_path: Some("/nope".into()), ..files("nope.pem", "nope.key") };
    refused(missing, &["certPath: ", "keyPath: ", "intermediateCertsPath: /nope: cannot be read"]);
    let wrong = ServerTls { intermediate_certs_path: Some(file("rsa.key")), ..files("rsa.key", "rsa.pem") };
    refused(
        wrong,
        &[
            "certPath: … are certPath and keyPath mixed up?",
            "keyPath: … mixed up?",
            "intermediateCertsPath: … no certificate",
        ],
    );
}

#[test]
fn what_clients_may_mind_is_served_with_a_warning() {
    for (certificate, minded) in [
        ("cn-only.pem", "cn-only.pem: the certificate CN=cn-only.rosterd.test has no name but its CN"),
        ("v1.pem", "is of X.509 version 1: only JVM clients accept that"),
        ("sha1.pem", "is signed with SHA-1 or MD5"),
        ("client-only.pem", "is not for servers (extendedKeyUsage)"),
    ] {
        warned(files(certificate, "rsa.key"), &[minded]);
    }
    let folder = tempfile::tempdir().expect("a folder");
    for (from, until, minded) in [(1990, 2000, "HAS EXPIRED"), (4000, 4001, "IS NOT VALID YET")] {
        let issued = Authority::new().issue(|params| {
            (params.not_before, params.not_after) = (date_time_ymd(from, 1, 1), date_time_ymd(until, 1, 1));
        });
        issued.write_to(folder.path());
        warned(block(folder.path()), &[minded]);
    }
}

/// Whom the certificates are about that a server shows.
fn chain(block: &ServerTls) -> Vec<String> {
    let files = Files::read(block).expect("files");
    let chain = Chain::load(&files).expect("must be accepted");
    let shown = chain.key.cert.iter();
    shown.map(|der| Certificate::read(der).expect("a certificate").subject).collect()
}

#[test]
fn the_chain_is_shown_in_its_order_whatever_the_files_order() {
    let read =
        |names: &[&str]| names.iter().map(|name| std::fs::read_to_string(file(name)).expect(name)).collect::<String>();
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("key.pem"), read(&["ec.key"])).expect("the folder is writable");
    let with = |certificates: &[&str], above: &[&str]| {
        std::fs::write(folder.path().join("cert.pem"), read(certificates)).expect("the folder is writable");
        std::fs::write(folder.path().join("above.pem"), read(above)).expect("the folder is writable");
        let above = (!above.is_empty()).then(|| folder.path().join("above.pem"));
        ServerTls { intermediate_certs_path: above, ..block(folder.path()) }
    };
    let expected = ["CN=ec.rosterd.test", "CN=intermediate.rosterd.test", "CN=rosterd test CA"];
    assert_eq!(chain(&with(&["ec.pem", "intermediate.pem", "ca.pem"], &[])), expected);
    assert_eq!(chain(&with(&["ec.pem"], &["intermediate.pem", "ca.pem"])), expected);
    assert_eq!(chain(&with(&["ec.pem"], &["ca.pem", "intermediate.pem"])), expected);
    assert_eq!(chain(&with(&["ec.pem", "intermediate.pem"], &["ec.pem", "intermediate.pem", "ca.pem"])), expected);
    refused(
        with(&["ca.pem", "intermediate.pem", "ec.pem"], &[]),
        &["keyPath: … belongs to certificate 3 of the file; put the server's own certificate first"],
    );
}

#[test]
fn suites_and_versions_that_are_not_spoken_are_left_out_with_a_warning() {
    let ciphers = texts(&["TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "TLS_RSA_WITH_AES_128_CBC_SHA"]);
    let protocols = texts(&["TLSv1.1", "TLSv1.2"]);
    warned(
        ServerTls { ciphers, protocols, ..files("rsa.pem", "rsa.key") },
        &["ciphers: not spoken here and left out: TLS_RSA_WITH", "protocols: not spoken here and left out: TLSv1.1"],
    );
    let (ciphers, protocols) = (texts(&["foo", "bar"]), texts(&["SSLv3"]));
    refused(
        ServerTls { ciphers, protocols, ..files("rsa.pem", "rsa.key") },
        &[
            "ciphers: none of these is spoken here: foo, bar; possible are",
            "protocols: none of these is spoken here: SSLv3",
        ],
    );
}

#[test]
fn suites_must_fit_the_key() {
    let ciphers = texts(&["TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"]);
    refused(
        ServerTls { ciphers, ..files("ec.pem", "ec.key") },
        &["ciphers: none of these suites can be used with a key of ECDSA"],
    );
    let (ciphers, protocols) = (texts(&["TLS_AES_128_GCM_SHA256"]), texts(&["TLSv1.2"]));
    refused(ServerTls { ciphers, protocols, ..files("rsa.pem", "rsa.key") }, &["ciphers: "]);
}

#[test]
fn the_cas_of_clients_are_loaded_only_where_they_are_asked_for() {
    let with = |require_client_auth, ca: &str| ServerTls {
        ca_cert_path: Some(file(ca)),
        require_client_auth,
        ..files("rsa.pem", "rsa.key")
    };
    warned(with(true, "ca.pem"), &[]);
    warned(with(false, "nope"), &[]);
    refused(with(true, "nope"), &["caCertPath: … nope: cannot be read"]);
    refused(with(true, "short-ca.pem"), &["caCertPath: … no certificate of it can be trusted"]);
}
