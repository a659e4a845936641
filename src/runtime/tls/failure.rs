//! Why a handshake failed, and whose mistake it probably is.

use std::borrow::Cow;
use std::io;

use rustls::{AlertDescription, CertificateError, Error, OtherError};

use super::clients::Refused;

/// Why a handshake failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The client does not speak TLS.
    NotTls,
    /// The client does not accept the server's certificate.
    Untrusted,
    /// Client and server have no version, cipher suite or the like in common.
    NothingInCommon,
    /// The client shows no certificate, or one that is not accepted.
    ClientCertificate,
    /// The client took too long.
    Slow,
    /// The client went away in the middle of it.
    Gone,
    /// Anything else.
    Other,
}

/// A handshake that failed.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Failure {
    pub(super) reason: Reason,
    /// What happened.
    pub(super) what: Cow<'static, str>,
    /// What can be done about it.
    pub(super) remedy: &'static str,
}

// === impl Reason ===

impl Reason {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; 7] = [
        Self::NotTls,
        Self::Untrusted,
        Self::NothingInCommon,
        Self::ClientCertificate,
        Self::Slow,
        Self::Gone,
        Self::Other,
    ];

    /// Its name in metrics.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::NotTls => "not_tls",
            Self::Untrusted => "untrusted",
            Self::NothingInCommon => "nothing_in_common",
            Self::ClientCertificate => "client_certificate",
            Self::Slow => "slow",
            Self::Gone => "gone",
            Self::Other => "other",
        }
    }
}

// === impl Failure ===

impl Failure {
    pub(super) fn not_tls(speaks: &str) -> Self {
        Self {
            reason: Reason::NotTls,
            what: format!("the client does not speak TLS, but {speaks}").into(),
            remedy: "give it a `tls` block, or the right port",
        }
    }

    pub(super) fn slow() -> Self {
        Self {
            reason: Reason::Slow,
            what: "the client took too long".into(),
            remedy: "it hangs, or a proxy or the network between holds it up",
        }
    }

    /// What an error of the handshake means.
    pub(super) fn of(error: &io::Error) -> Self {
        match error.get_ref().and_then(|inner| inner.downcast_ref::<Error>()) {
            Some(error) => Self::of_tls(error),
            None => Self {
                reason: Reason::Gone,
                what: format!("the client went away in the middle of it ({error})").into(),
                remedy: "it may refuse the server's certificate without saying so: see the client's log",
            },
        }
    }

    fn of_tls(error: &Error) -> Self {
        use AlertDescription as Alert;
        let (reason, what, remedy): (_, Cow<'static, str>, _) = match error {
            Error::AlertReceived(
                alert @ (Alert::UnknownCA
                | Alert::BadCertificate
                | Alert::CertificateUnknown
                | Alert::UnsupportedCertificate
                | Alert::CertificateExpired
                | Alert::CertificateRevoked
                | Alert::DecryptError // an issuer of the same name with another key
                | Alert::BadCertificateStatusResponse),
            ) => (
                Reason::Untrusted,
                format!("the client does not accept the server's certificate (alert {alert:?})").into(),
                "the client must trust the issuer of certPath (`caCert`, `trustCerts`) and expect a name that is in \
                 it (`commonName`); see that it has not expired and that intermediateCertsPath is complete",
            ),
            Error::PeerIncompatible(why) => (
                Reason::NothingInCommon,
                format!("client and server have nothing in common ({why:?})").into(),
                COMMON_GROUND,
            ),
            Error::AlertReceived(alert @ (Alert::ProtocolVersion | Alert::HandshakeFailure | Alert::InsufficientSecurity)) => (
                Reason::NothingInCommon,
                format!("client and server have nothing in common (alert {alert:?})").into(),
                COMMON_GROUND,
            ),
            Error::NoCertificatesPresented => (
                Reason::ClientCertificate,
                "the client shows no certificate, and `requireClientAuth` asks for one".into(),
                "give the client a certificate (`clientAuth`) issued by one of caCertPath; a JVM shows no other",
            ),
            Error::InvalidCertificate(error) => {
                let (what, remedy) = refused_certificate(error);
                (Reason::ClientCertificate, what, remedy)
            }
            error => (Reason::Other, error.to_string().into(), "see the client's log"),
        };
        Self { reason, what, remedy }
    }
}

const COMMON_GROUND: &str = "TLS 1.2 with ECDHE and AES-GCM or ChaCha20, and TLS 1.3, are spoken here; see `protocols` \
                             and `ciphers`, whether they fit the kind of key (RSA, ECDSA), and the client's own settings";

/// Why a client's certificate is refused, and the remedy.
fn refused_certificate(error: &CertificateError) -> (Cow<'static, str>, &'static str) {
    match error {
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => (
            "the client's certificate, or one above it, has expired".into(),
            "renew it; see that both clocks are right",
        ),
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => (
            "the client's certificate, or one above it, is not valid yet".into(),
            "see that the clocks of client and server are right",
        ),
        CertificateError::UnknownIssuer => (
            "the client's certificate is not issued by any of caCertPath".into(),
            "add its issuer to caCertPath; the client must send intermediate certificates itself \
             (`intermediateCertsPath` of its `clientAuth`)",
        ),
        CertificateError::Other(OtherError(other)) if let Some(refused) = other.downcast_ref::<Refused>() => {
            (refused.what.clone().into(), refused.remedy)
        }
        error => (format!("the client's certificate is refused: {error}").into(), "issue a new one"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_numbered_in_their_order() {
        for (number, reason) in Reason::ALL.into_iter().enumerate() {
            assert_eq!(reason as usize, number);
        }
    }

    #[test]
    fn alerts_about_certificates_are_the_clients_distrust() {
        for alert in [AlertDescription::UnknownCA, AlertDescription::CertificateUnknown] {
            let failure = Failure::of(&io::Error::other(Error::AlertReceived(alert)));
            assert_eq!(failure.reason, Reason::Untrusted);
            assert!(failure.what.contains(&format!("{alert:?}")), "{failure:?}");
        }
    }

    #[test]
    fn what_is_no_error_of_tls_is_a_client_that_went_away() {
        assert_eq!(Failure::of(&io::ErrorKind::UnexpectedEof.into()).reason, Reason::Gone);
    }
}
