//! The watch ledger, for people and for peers.

use crate::config::Secret;
use crate::http1::{Params, Request, Response};
use crate::ledger::{Ledger, html};

/// So many suspects are shown where the request does not say how many.
const SHOWN: usize = 1_000;
const MOST_SHOWN: usize = 100_000;

/// Who may read what peers read: those who have the token. Without one anybody may, but only over TLS.
#[derive(Clone, Debug)]
pub struct LedgerAccess {
    /// `ledger.token`
    pub token: Option<Secret>,
    /// The admin server has TLS.
    pub over_tls: bool,
}

/// `/admin/watches`; `limit` says how many suspects are shown.
pub(super) fn page(ledger: &Ledger, request: &Request, as_html: bool) -> Response {
    let Ok(limit) = Params::of(request).get("limit").map_or(Ok(SHOWN), str::parse) else {
        return plain(400, "limit is a number of watches to be shown\n");
    };
    let report = ledger.report(limit.min(MOST_SHOWN));
    if as_html {
        return Response::with_body(200, html(&report)).header("Content-Type", "text/html;charset=UTF-8");
    }
    json(&report)
}

/// Does a person ask, with a browser?
pub(super) fn wants_html(request: &Request) -> bool {
    request.header("accept").is_some_and(|accept| String::from_utf8_lossy(accept).contains("text/html"))
}

/// `/admin/ledger`: what has changed since the number `since`; `gone` is that of the page before, if there was one.
pub(super) fn changes(ledger: &Ledger, access: &LedgerAccess, request: &Request) -> Response {
    if let Some(refusal) = refused(access, request) {
        return refusal;
    }
    let number = |name: &str| Params::of(request).get(name).map(str::parse).transpose();
    let (Ok(since), Ok(gone)) = (number("since"), number("gone")) else {
        return plain(400, "since and gone are numbers that an earlier answer gave\n");
    };
    json(&ledger.changes(since.unwrap_or(0), gone))
}

fn refused(access: &LedgerAccess, request: &Request) -> Option<Response> {
    let Some(token) = &access.token else {
        let message = "refused: set ledger.token, the same for all replicas, or give the admin server TLS\n";
        return (!access.over_tls).then(|| plain(403, message));
    };
    let shown = request.header("authorization").unwrap_or_default();
    let shown = shown.strip_prefix(b"Bearer ").unwrap_or_default();
    (!is_same(shown, token.expose().as_bytes())).then(|| plain(401, "refused: the token is not that of ledger.token\n"))
}

/// Compares in a time that does not tell how much is the same.
fn is_same(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |differs, (a, b)| differs | (a ^ b)) == 0
}

fn json(value: &impl serde::Serialize) -> Response {
    match serde_json::to_string(value) {
        Ok(body) => Response::with_body(200, body).header("Content-Type", "application/json"),
        Err(error) => Response::failure(error),
    }
}

fn plain(status: u16, text: &'static str) -> Response {
    Response::with_body(status, text).header("Content-Type", "text/plain")
}
