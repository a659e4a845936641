//! `ciphers` and `protocols`: the JVM's names for what TLS may use.

use rustls::crypto::ring::cipher_suite as ring;
use rustls::version::{TLS12, TLS13};
use rustls::{SignatureAlgorithm, SupportedCipherSuite, SupportedProtocolVersion};

use crate::config::nearest;

/// A cipher suite: its name in the JVM and the standard, its name in OpenSSL.
type Named = (&'static str, &'static str, SupportedCipherSuite);

const SUITES: [Named; 9] = [
    ("TLS_AES_256_GCM_SHA384", "TLS_AES_256_GCM_SHA384", ring::TLS13_AES_256_GCM_SHA384),
    ("TLS_AES_128_GCM_SHA256", "TLS_AES_128_GCM_SHA256", ring::TLS13_AES_128_GCM_SHA256),
    ("TLS_CHACHA20_POLY1305_SHA256", "TLS_CHACHA20_POLY1305_SHA256", ring::TLS13_CHACHA20_POLY1305_SHA256),
    (
        "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
        "ECDHE-ECDSA-AES256-GCM-SHA384",
        ring::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
    ),
    (
        "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
        "ECDHE-ECDSA-AES128-GCM-SHA256",
        ring::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
    ),
    (
        "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
        "ECDHE-ECDSA-CHACHA20-POLY1305",
        ring::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
    ),
    (
        "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
        "ECDHE-RSA-AES256-GCM-SHA384",
        ring::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
    ),
    (
        "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
        "ECDHE-RSA-AES128-GCM-SHA256",
        ring::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
    ),
    (
        "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
        "ECDHE-RSA-CHACHA20-POLY1305",
        ring::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
    ),
];

const VERSIONS: [(&str, &SupportedProtocolVersion); 2] = [("TLSv1.3", &TLS13), ("TLSv1.2", &TLS12)];

/// What a list of names comes to.
#[derive(Debug)]
pub(super) struct Chosen<T> {
    /// What is spoken of it here: at least one.
    pub(super) chosen: Vec<T>,
    /// What is not, for a warning.
    pub(super) left_out: Option<String>,
}

/// The suites of `ciphers`; all if it is absent or empty.
///
/// # Errors
/// None of them is spoken here; names those that are.
pub(super) fn suites(ciphers: Option<&[String]>) -> Result<Chosen<SupportedCipherSuite>, String> {
    let Some(ciphers) = ciphers.filter(|ciphers| !ciphers.is_empty()) else {
        return Ok(Chosen { chosen: SUITES.iter().map(|(.., suite)| *suite).collect(), left_out: None });
    };
    let (mut chosen, mut others) = (Vec::new(), Vec::new());
    for name in ciphers {
        let found = SUITES.iter().find(|(jvm, openssl, _)| [*jvm, *openssl].contains(&name.as_str()));
        match found {
            Some((.., suite)) if !chosen.contains(suite) => chosen.push(*suite),
            Some(_) => {}
            None => others.push(explain(name)),
        }
    }
    let others = others.join(", ");
    if chosen.is_empty() {
        let known: Vec<&str> = SUITES.iter().map(|(jvm, ..)| *jvm).collect();
        return Err(format!("none of these is spoken here: {others}; possible are {}", known.join(", ")));
    }
    let left_out = (!others.is_empty()).then(|| format!("not spoken here and left out: {others}"));
    Ok(Chosen { chosen, left_out })
}

/// Why a suite is not spoken here.
fn explain(name: &str) -> String {
    let why = match name {
        // The longest name in the list of the standard has 45 characters.
        _ if name.len() > 64 => "no name of a suite",
        _ if name.contains("CBC") || name.contains("_SHA") && !name.contains("GCM") => "CBC",
        _ if name.contains("RC4") || name.contains("3DES") || name.contains("_DES") || name.contains("NULL") => {
            "broken"
        }
        _ if name.starts_with("TLS_RSA_") || name.starts_with("AES") => "no forward secrecy",
        _ if name.contains("DHE") && !name.contains("ECDHE") => "DHE",
        _ => {
            return match nearest(name, SUITES.iter().flat_map(|(jvm, openssl, _)| [*jvm, *openssl])) {
                Some(near) => format!("{name} (did you mean {near}?)"),
                None => name.to_owned(),
            };
        }
    };
    format!("{} ({why})", name.chars().take(64).collect::<String>())
}

/// The versions of `protocols`; all if it is absent or empty.
///
/// # Errors
/// None of them is spoken here; names those that are.
pub(super) fn versions(protocols: Option<&[String]>) -> Result<Chosen<&'static SupportedProtocolVersion>, String> {
    let Some(protocols) = protocols.filter(|protocols| !protocols.is_empty()) else {
        return Ok(Chosen { chosen: VERSIONS.iter().map(|(_, version)| *version).collect(), left_out: None });
    };
    let named = |name: &str| VERSIONS.iter().find(|(known, _)| *known == name).map(|(_, version)| *version);
    let chosen: Vec<_> = protocols.iter().filter_map(|name| named(name)).collect();
    let others: Vec<&str> = protocols.iter().map(String::as_str).filter(|name| named(name).is_none()).collect();
    let others = others.join(", ");
    if chosen.is_empty() {
        return Err(format!("none of these is spoken here: {others}; possible are TLSv1.2 and TLSv1.3"));
    }
    let left_out = (!others.is_empty()).then(|| format!("not spoken here and left out: {others}"));
    Ok(Chosen { chosen, left_out })
}

/// Whether a key of this kind can be used with one of the suites in one of the versions.
pub(super) fn fit(
    key: SignatureAlgorithm,
    suites: &[SupportedCipherSuite],
    versions: &[&'static SupportedProtocolVersion],
) -> bool {
    suites.iter().any(|suite| versions.contains(&suite.version()) && suite.usable_for_signature_algorithm(key))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn suites_have_the_names_of_the_jvm_and_of_openssl() {
        for (jvm, openssl, suite) in SUITES {
            for name in [jvm, openssl] {
                let found = suites(Some(&texts(&[name]))).expect(name);
                assert_eq!((found.chosen, found.left_out), (vec![suite], None), "{name}");
            }
            let known = format!("{:?}", suite.suite()).replace("TLS13_", "TLS_");
            assert_eq!(known, jvm);
        }
        assert_eq!(suites(None).expect("all").chosen.len(), rustls::crypto::ring::ALL_CIPHER_SUITES.len());
        assert_eq!(suites(Some(&[])).expect("all").chosen.len(), 9);
    }

    #[test]
    fn suites_that_are_not_spoken_are_told_and_refused_if_none_is_left() {
        let mixed = ["TLS_RSA_WITH_AES_128_CBC_SHA", "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "TLS_AES_128_GCM_SHA25"];
        let found = suites(Some(&texts(&mixed))).expect("one is left");
        assert_eq!(found.chosen, [ring::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256]);
        assert_eq!(
            found.left_out.as_deref(),
            Some(
                "not spoken here and left out: TLS_RSA_WITH_AES_128_CBC_SHA (CBC), \
                 TLS_AES_128_GCM_SHA25 (did you mean TLS_AES_128_GCM_SHA256?)"
            )
        );
        let none =
            ["TLS_RSA_WITH_AES_128_GCM_SHA256", "SSL_RSA_WITH_3DES_EDE_CBC_SHA", "TLS_DHE_RSA_WITH_AES_128_GCM_SHA256"];
        let refused = suites(Some(&texts(&none))).expect_err("none is left");
        let start = "none of these is spoken here: TLS_RSA_WITH_AES_128_GCM_SHA256 (no forward secrecy), \
                     SSL_RSA_WITH_3DES_EDE_CBC_SHA (CBC), TLS_DHE_RSA_WITH_AES_128_GCM_SHA256 (DHE); \
                     possible are TLS_AES_256_GCM_SHA384, ";
        assert!(refused.starts_with(start), "{refused}");
    }

    #[test]
    fn old_versions_are_told_and_refused_if_none_is_left() {
        let found = versions(Some(&texts(&["TLSv1", "TLSv1.1", "TLSv1.2"]))).expect("one is left");
        assert_eq!(found.chosen, [&TLS12]);
        assert_eq!(found.left_out.as_deref(), Some("not spoken here and left out: TLSv1, TLSv1.1"));
        let refused = versions(Some(&texts(&["SSLv3", "TLSv1"]))).expect_err("none is left");
        assert_eq!(refused, "none of these is spoken here: SSLv3, TLSv1; possible are TLSv1.2 and TLSv1.3");
        assert_eq!(versions(None).expect("all").chosen, [&TLS13, &TLS12]);
    }

    #[test]
    fn a_key_needs_a_suite_for_its_kind_except_in_tls_1_3() {
        let rsa = [ring::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256];
        assert!(fit(SignatureAlgorithm::RSA, &rsa, &[&TLS12]));
        assert!(!fit(SignatureAlgorithm::ECDSA, &rsa, &[&TLS12]));
        assert!(!fit(SignatureAlgorithm::RSA, &rsa, &[&TLS13]));
        assert!(fit(SignatureAlgorithm::ECDSA, &[ring::TLS13_AES_128_GCM_SHA256], &[&TLS13]));
    }
}
