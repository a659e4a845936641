//! A whole request, out of the connection's buffer.

use std::ops::Range;

use bytes::Bytes;
use smallvec::SmallVec;

use super::{Coding, Head};
use crate::store::Client;

/// A request with its body.
#[derive(Clone, Debug)]
pub struct Request {
    /// Who asks.
    pub client: Client,
    /// The body, decoded; empty if there is none.
    pub body: Bytes,
    method: Range<usize>,
    target: Range<usize>,
    headers: SmallVec<[(Range<usize>, Range<usize>); 6]>,
    text: Bytes,
}

// === impl Request ===

impl Request {
    /// Copies a head, so that the connection's buffer is free again.
    pub(super) fn new(head: &Head<'_>, client: Client) -> Self {
        let mut text = Vec::with_capacity(256);
        let mut keep = |bytes: &[u8]| {
            let start = text.len();
            text.extend_from_slice(bytes);
            start..text.len()
        };
        let (method, target) = (keep(head.method.as_bytes()), keep(head.target));
        let headers = head.headers().iter().map(|header| (keep(header.name.as_bytes()), keep(header.value))).collect();
        Self { client, body: Bytes::new(), method, target, headers, text: text.into() }
    }

    /// The method, as it came.
    pub fn method(&self) -> &str {
        self.ascii(&self.method)
    }

    /// What is asked for, as it came, query and all.
    pub fn target(&self) -> &[u8] {
        &self.text[self.target.clone()]
    }

    /// The target up to the query, as it came: nothing is decoded.
    pub fn path(&self) -> &str {
        let end = self.target().iter().position(|byte| *byte == b'?').unwrap_or(self.target.len());
        self.ascii(&(self.target.start..self.target.start + end))
    }

    /// What follows the first `?`.
    pub fn query(&self) -> Option<&[u8]> {
        let target = self.target();
        let question = target.iter().position(|byte| *byte == b'?')?;
        Some(&target[question + 1..])
    }

    /// The values of a header, in order.
    pub fn header_values(&self, name: &str) -> impl Iterator<Item = &[u8]> {
        self.headers
            .iter()
            .filter(move |(key, _)| self.text[key.clone()].eq_ignore_ascii_case(name.as_bytes()))
            .map(|(_, value)| &self.text[value.clone()])
    }

    /// The first value of a header.
    pub fn header(&self, name: &str) -> Option<&[u8]> {
        self.header_values(name).next()
    }

    /// Whether a browser sends this on behalf of a page of another site: its `Origin` is not the `Host`. Programs send no
    /// `Origin`.
    pub fn is_of_another_site(&self) -> bool {
        let Some(origin) = self.header("origin") else { return false };
        let authority = origin.windows(3).position(|window| window == b"://").map(|at| &origin[at + 3..]);
        authority.is_none() || authority != self.header("host")
    }

    /// The coding that the client accepts for textual answers.
    pub fn coding(&self) -> Coding {
        Coding::accepted(self.header("accept-encoding"))
    }

    fn ascii(&self, range: &Range<usize>) -> &str {
        std::str::from_utf8(&self.text[range.clone()]).expect("the head was checked to be ASCII here")
    }
}
