//! What a request about a name asks.

use crate::http1::{Params, Response};
use crate::interpreter::{Interpreter, LocalDtab};
use crate::name::{Dtab, Limits, Path};
use crate::store::{Client, OverBudget};

/// A path in a namespace, under a dtab of the request's own.
#[derive(Clone, Debug)]
pub(super) struct Question {
    pub(super) client: Client,
    pub(super) namespace: String,
    pub(super) path: Path,
    pub(super) local: LocalDtab,
}

/// The path that every request about a name must have, or the answer to one without.
pub(super) fn path(params: &Params, limits: &Limits) -> Result<Path, Response> {
    let Some(text) = params.get("path") else { return Err(Response::refusal(400, "Invalid path: missing")) };
    // namerd's words, byte for byte.
    Path::parse_with(text, limits).map_err(|error| Response::with_body(400, format!("Invalid path: {text} / {error}")))
}

/// The request's own dtab; absent and empty are the same.
pub(super) fn dtab(params: &Params, limits: &Limits) -> Result<Dtab, Response> {
    let text = params.get("dtab").unwrap_or_default();
    Dtab::parse_with(text, limits).map_err(|error| Response::with_body(400, format!("Invalid dtab: {error}")))
}

/// There is no room for what this client asks.
pub(super) fn no_room(over: OverBudget) -> Response {
    Response::refusal(503, over).header("Retry-After", "10")
}

// === impl Question ===

impl Question {
    /// Reads the parameters of bind and resolve.
    pub(super) fn of(
        client: Client,
        namespace: &str,
        path: Path,
        params: &Params,
        limits: &Limits,
        interpreter: &dyn Interpreter,
    ) -> Result<Self, Response> {
        let local = interpreter.local_dtab(client, dtab(params, limits)?).map_err(no_room)?;
        Ok(Self { client, namespace: namespace.to_owned(), path, local })
    }
}
