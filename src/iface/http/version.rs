//! Versions of dtabs: `Etag` and `If-Match`.

use base64::Engine;
use base64::alphabet;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig, STANDARD};

/// Trailing bits and missing padding are nobody's concern, as for Java's decoder.
const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

/// A version as `Etag` shows it: Base64 without quotes.
pub fn show(version: &[u8]) -> String {
    STANDARD.encode(version)
}

/// Reads `If-Match`. What is not of the alphabet is passed over, quotes among it, and padding may be missing; `*` and
/// an empty value are the empty version, which none has.
///
/// # Errors
/// It is a weak tag, a list, or no Base64.
pub(super) fn read(header: &[u8]) -> Result<Vec<u8>, &'static str> {
    const BAD: &str = "If-Match is not a single version as an Etag shows it";
    if header.contains(&b',') || header.trim_ascii().starts_with(b"W/") {
        return Err(BAD);
    }
    let of_alphabet = |byte: &u8| byte.is_ascii_alphanumeric() || b"+/=".contains(byte);
    let text: Vec<u8> = header.iter().copied().filter(of_alphabet).collect();
    LENIENT.decode(text).map_err(|_| BAD)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_read_back_in_every_form_that_clients_send() {
        let version = 2_u64.to_be_bytes();
        assert_eq!(show(&version), "AAAAAAAAAAI=");
        for header in ["AAAAAAAAAAI=", "\"AAAAAAAAAAI=\"", "AAAAAAAAAAI", "\"AAAAAAAAAAI\"", " AAAA AAAAAAI= "] {
            assert_eq!(read(header.as_bytes()).as_deref(), Ok(&version[..]), "{header}");
        }
        assert_eq!(read(b"Nw==").as_deref(), Ok(&b"7"[..]));
    }

    #[test]
    fn a_star_an_empty_value_and_any_word_are_versions_that_none_has() {
        assert_eq!(read(b"*"), Ok(Vec::new()));
        assert_eq!(read(b""), Ok(Vec::new()));
        assert_eq!(read(b"\"\""), Ok(Vec::new()));
        assert_eq!(read(b"yolo").map(|bytes| bytes.len()), Ok(3));
    }

    #[test]
    fn weak_tags_lists_and_fragments_are_refused() {
        for header in ["W/\"AAAAAAAAAAU=\"", "AAAAAAAAAAU=, AAAAAAAAAAE=", "A", "\"A\"", "AA=A"] {
            assert!(read(header.as_bytes()).is_err(), "{header}");
        }
    }
}
