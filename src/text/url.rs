//! Parts of URLs.

use std::fmt;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// Everything but what never needs escaping, neither in a segment of a path nor in a parameter. (`;` would end a value.)
const COMPONENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// One segment of a path, or the value of one parameter, escaped.
pub fn component(text: &str) -> impl fmt::Display {
    utf8_percent_encode(text, COMPONENT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_never_special_stays_as_it_is() {
        assert_eq!(component("My Service/x").to_string(), "My%20Service%2Fx");
        assert_eq!(component("dot.ted_1-~").to_string(), "dot.ted_1-~");
        assert_eq!(component("ünï;&=%").to_string(), "%C3%BCn%C3%AF%3B%26%3D%25");
    }
}
