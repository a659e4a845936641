//! The watch ledger, for people and for peers.

use std::time::Duration;

use super::AdminState;
use crate::config::Secret;
use crate::http1::{Params, Request, Response};
use crate::iface::http::version;
use crate::ledger::{Ledger, Reach, html};

/// So many suspects are shown where the request does not say how many.
const SHOWN: usize = 1_000;
const MOST_SHOWN: usize = 100_000;
/// How long the storage may take to say which version of a dtab it has.
const PATIENCE: Duration = Duration::from_secs(2);

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

/// `/admin/watches/dtab.json`: who has the newest dtab of a `namespace`, here and at all peers.
pub(super) async fn reach(state: &AdminState, request: &Request) -> Response {
    let Some(ns) = namespace(request) else { return no_namespace() };
    let peers = async {
        match &state.peers {
            Some(peers) => peers.reach(&ns).await,
            None => Vec::new(),
        }
    };
    let (own, peers) = tokio::join!(reach_here(state, request, &ns), peers);
    match own {
        Ok(own) => json(&std::iter::once(own).chain(peers).collect::<Vec<_>>()),
        Err(refusal) => refusal,
    }
}

/// `/admin/ledger/dtab`: the same, here, for peers.
pub(super) async fn own_reach(state: &AdminState, request: &Request) -> Response {
    if let Some(refusal) = refused(&state.ledger_access, request) {
        return refusal;
    }
    let Some(ns) = namespace(request) else { return no_namespace() };
    reach_here(state, request, &ns).await.map_or_else(|refusal| refusal, |reach| json(&reach))
}

async fn reach_here(state: &AdminState, request: &Request, ns: &str) -> Result<Reach, Response> {
    let watch = state.interpreter.dtab(request.client, ns).map_err(|over| Response::failure(over.to_string()))?;
    let (stored, _) = watch.answer(PATIENCE).await.map_err(|error| Response::failure(error.to_string()))?;
    let version = stored.as_ref().as_ref().map(|dtab| version::show(dtab.version()));
    Ok(state.ledger.reach(ns, version).await)
}

fn namespace(request: &Request) -> Option<String> {
    Params::of(request).get("namespace").filter(|ns| !ns.is_empty()).map(str::to_owned)
}

fn no_namespace() -> Response {
    plain(400, "which namespace? ?namespace=default\n")
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
