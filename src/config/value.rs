//! Values of keys: how each type reads its node.

use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use super::report::Report;
use super::tree::{Node, Scalar, Value};

/// A type that a value of the file can be read as.
pub trait FromNode: Sized {
    /// The value. None only if a problem was reported.
    fn from_node(node: &Node, report: &Report) -> Option<Self>;
}

/// The text of a scalar, whatever it looks like.
pub(super) fn text<'n>(node: &'n Node, report: &Report) -> Option<&'n str> {
    match &node.value {
        Value::Scalar(scalar) => Some(&scalar.text),
        Value::List(_) | Value::Map(_) => {
            report.problem(node.span, format!("expected text, found {}", node.describe()));
            None
        }
    }
}

/// Reads the text of a scalar with `parse`; if that gives nothing, the value "is not `wanted`".
fn scalar<T>(node: &Node, report: &Report, wanted: &str, parse: impl FnOnce(&Scalar) -> Option<T>) -> Option<T> {
    let value = match &node.value {
        Value::Scalar(scalar) => parse(scalar),
        Value::List(_) | Value::Map(_) => None,
    };
    if value.is_none() {
        report.problem(node.span, format!("{} is not {wanted}", node.describe()));
    }
    value
}

impl FromNode for String {
    fn from_node(node: &Node, report: &Report) -> Option<Self> {
        text(node, report).map(str::to_owned)
    }
}

/// `true` and `false`, quoted or not, and whole numbers, of which 0 is false, as in namerd. `yes` and `on` are text.
impl FromNode for bool {
    fn from_node(node: &Node, report: &Report) -> Option<Self> {
        scalar(node, report, "true or false", |scalar| match scalar.text.as_str() {
            "true" | "True" | "TRUE" => Some(true),
            "false" | "False" | "FALSE" => Some(false),
            text => whole(text).map(|number| number != 0),
        })
    }
}

/// A decimal whole number; YAML allows `_` between digits, and a fraction of zeros is none.
fn whole(text: &str) -> Option<i128> {
    let text = match text.split_once('.') {
        Some((whole, zeros)) if !zeros.is_empty() && zeros.bytes().all(|byte| byte == b'0') => whole,
        Some(_) => return None,
        None => text,
    };
    text.replace('_', "").parse().ok()
}

macro_rules! whole_numbers {
    ($($type:ty),+) => {$(
        impl FromNode for $type {
            fn from_node(node: &Node, report: &Report) -> Option<Self> {
                let number = scalar(node, report, "a whole number", |scalar| whole(&scalar.text))?;
                let fits = <$type>::try_from(number).ok();
                if fits.is_none() {
                    let (min, max) = (<$type>::MIN, <$type>::MAX);
                    report.problem(node.span, format!("{number} is not between {min} and {max}"));
                }
                fits
            }
        }
    )+};
}
whole_numbers!(u8, u16, u32, u64, usize, i32, i64, i128);

impl FromNode for f64 {
    fn from_node(node: &Node, report: &Report) -> Option<Self> {
        scalar(node, report, "a number", |scalar| scalar.text.parse().ok().filter(|number: &f64| number.is_finite()))
    }
}

/// A TCP or UDP port. A quoted number is refused, as namerd refuses it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Port(pub u16);

impl FromNode for Port {
    fn from_node(node: &Node, report: &Report) -> Option<Self> {
        let number = match &node.value {
            Value::Scalar(Scalar { text, quoted: false }) => text.replace('_', "").parse::<i64>().ok(),
            _ => None,
        };
        let Some(number) = number else {
            report.problem(node.span, format!("{} is not numeric: a port is a number without quotes", node.describe()));
            return None;
        };
        let port = u16::try_from(number).ok();
        if port.is_none() {
            report.problem(node.span, format!("{number} outside valid range for ports"));
        }
        port.map(Self)
    }
}

/// An IP address as digits; a host name is refused, as in namerd.
impl FromNode for IpAddr {
    fn from_node(node: &Node, report: &Report) -> Option<Self> {
        // IPv4 written as `::ffff:192.0.2.1` is IPv4 to the JVM.
        scalar(node, report, "an IP string literal.", |scalar| {
            scalar.text.parse().ok().map(|address: IpAddr| address.to_canonical())
        })
    }
}

/// Milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Millis(pub Duration);

impl FromNode for Millis {
    fn from_node(node: &Node, report: &Report) -> Option<Self> {
        u64::from_node(node, report).map(|millis| Self(Duration::from_millis(millis)))
    }
}

impl FromNode for PathBuf {
    fn from_node(node: &Node, report: &Report) -> Option<Self> {
        text(node, report).map(PathBuf::from)
    }
}

/// A directory that exists. A relative path starts at the working directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Directory(pub PathBuf);

impl FromNode for Directory {
    fn from_node(node: &Node, report: &Report) -> Option<Self> {
        let path = PathBuf::from_node(node, report)?;
        let why = match path.metadata() {
            Ok(about) if about.is_dir() => return Some(Self(path)),
            Ok(_) => None,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Some("there is no such thing".to_owned()),
            Err(error) => Some(error.to_string()),
        };
        // namerd's words come first.
        let mut message = format!("{} is not a directory", path.display());
        if let Some(why) = why {
            message.push_str(&format!(": {why}"));
        }
        if path.is_relative()
            && let Ok(from) = std::env::current_dir()
        {
            message.push_str(&format!(" (looked for from the working directory, {})", from.display()));
        }
        report.problem(node.span, message);
        None
    }
}

/// A list; all its wrong elements are reported.
impl<T: FromNode> FromNode for Vec<T> {
    fn from_node(node: &Node, report: &Report) -> Option<Self> {
        let Value::List(items) = &node.value else {
            report.problem(node.span, format!("expected a list, found {}", node.describe()));
            return None;
        };
        let values: Vec<T> = items.iter().filter_map(|item| T::from_node(item, report)).collect();
        (values.len() == items.len()).then_some(values)
    }
}

/// A mapping with keys of the user's choice; all its wrong values are reported.
impl<T: FromNode> FromNode for BTreeMap<String, T> {
    fn from_node(node: &Node, report: &Report) -> Option<Self> {
        let Value::Map(entries) = &node.value else {
            report.problem(node.span, format!("expected a mapping, found {}", node.describe()));
            return None;
        };
        let values: Self = entries
            .iter()
            .filter_map(|entry| T::from_node(&entry.value, report).map(|value| (entry.key.clone(), value)))
            .collect();
        (values.len() == entries.len()).then_some(values)
    }
}

#[cfg(test)]
mod tests {
    use super::super::read_text;
    use super::*;

    fn read<T: FromNode>(value: &str) -> Result<T, String> {
        read_text("f", &format!("key: {value}"), "the test", |fields| fields.req("key"))
            .map(|(value, _)| value)
            .map_err(|problems| problems.list()[0].message.clone())
    }

    fn refused<T: FromNode + std::fmt::Debug>(value: &str, message: &str) {
        assert_eq!(read::<T>(value).expect_err("must be refused"), message);
    }

    #[test]
    fn booleans_are_true_and_false_and_numbers() {
        for (text, value) in [("true", true), ("\"false\"", false), ("TRUE", true), ("0", false), ("1", true)] {
            assert_eq!(read::<bool>(text), Ok(value), "{text}");
        }
        refused::<bool>("yes", "'yes' is not true or false");
        refused::<bool>("[]", "a list is not true or false");
    }

    #[test]
    fn ports_are_numbers_without_quotes_up_to_65535() {
        assert_eq!(read("0"), Ok(Port(0)));
        assert_eq!(read("65535"), Ok(Port(65535)));
        refused::<Port>("70000", "70000 outside valid range for ports");
        refused::<Port>("-1", "-1 outside valid range for ports");
        refused::<Port>("\"4100\"", "'4100' is not numeric: a port is a number without quotes");
        refused::<Port>("0x10", "'0x10' is not numeric: a port is a number without quotes");
        refused::<Port>("{}", "a mapping is not numeric: a port is a number without quotes");
    }

    #[test]
    fn whole_numbers_are_decimal() {
        assert_eq!(read::<u32>("100_000"), Ok(100_000));
        assert_eq!(read::<i32>("-1"), Ok(-1));
        assert_eq!(read::<u32>("\"10\""), Ok(10), "namerd turns text into numbers");
        assert_eq!(read::<u32>("10.0"), Ok(10));
        refused::<u32>("1.5", "'1.5' is not a whole number");
        refused::<u32>("1e3", "'1e3' is not a whole number");
        refused::<u32>("0x10", "'0x10' is not a whole number");
        refused::<u8>("256", "256 is not between 0 and 255");
        assert_eq!(read::<Millis>("100000000"), Ok(Millis(Duration::from_secs(100_000))));
        refused::<Millis>("-1", "-1 is not between 0 and 18446744073709551615");
    }

    #[test]
    fn fractions_are_finite() {
        assert_eq!(read::<f64>("0.01"), Ok(0.01));
        assert_eq!(read::<f64>("1e-3"), Ok(0.001));
        refused::<f64>("NaN", "'NaN' is not a number");
        refused::<f64>("inf", "'inf' is not a number");
    }

    #[test]
    fn addresses_are_literals() {
        assert_eq!(read("0.0.0.0"), Ok(IpAddr::from([0, 0, 0, 0])));
        assert_eq!(read("\"::1\""), Ok(IpAddr::from([0, 0, 0, 0, 0, 0, 0, 1])));
        assert_eq!(read("\"::ffff:192.0.2.1\""), Ok(IpAddr::from([192, 0, 2, 1])));
        refused::<IpAddr>("localhost", "'localhost' is not an IP string literal.");
        refused::<IpAddr>("127.0.0.01", "'127.0.0.01' is not an IP string literal.");
    }

    #[test]
    fn directories_must_exist() {
        assert_eq!(read("src"), Ok(Directory(PathBuf::from("src"))));
        refused::<Directory>("/nope", "/nope is not a directory: there is no such thing");
        let here = std::env::current_dir().expect("there is one");
        let from = format!(" (looked for from the working directory, {})", here.display());
        refused::<Directory>("Cargo.toml", &format!("Cargo.toml is not a directory{from}"));
        refused::<Directory>("nope", &format!("nope is not a directory: there is no such thing{from}"));
    }

    #[test]
    fn text_may_look_like_anything() {
        for (value, text) in [("yes", "yes"), ("1e3", "1e3"), ("0x10", "0x10"), ("12", "12"), ("\"\"", "")] {
            assert_eq!(read::<String>(value), Ok(text.to_owned()));
        }
        refused::<String>("[a]", "expected text, found a list");
    }

    #[test]
    fn lists_and_mappings_report_every_wrong_element() {
        assert_eq!(read("[1, 2]"), Ok(vec![1u32, 2]));
        assert_eq!(read("{1: 2}"), Ok(BTreeMap::from([("1".to_owned(), 2u32)])));
        for value in ["[1, x, y]", "{a: 1, b: x, c: y}"] {
            let problems = read_text("f", &format!("key: {value}"), "the test", |fields| {
                if value.starts_with('[') {
                    fields.opt::<Vec<u32>>("key").map(|_| ())
                } else {
                    fields.opt::<BTreeMap<String, u32>>("key").map(|_| ())
                }
            })
            .expect_err("x and y are no numbers");
            assert_eq!(problems.list().len(), 2);
        }
        refused::<Vec<u32>>("1", "expected a list, found '1'");
        refused::<BTreeMap<String, u32>>("1", "expected a mapping, found '1'");
    }
}
