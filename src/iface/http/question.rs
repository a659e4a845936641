//! What a request about a name asks.

use crate::http1::{Params, Response};
use crate::iface::NameReader;
use crate::interpreter::{Interpreter, LocalDtab};
use crate::name::{Dtab, Path};
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
pub(super) fn path(params: &Params, names: &NameReader) -> Result<Path, Response> {
    let Some(text) = params.get("path") else { return Err(Response::refusal(400, "Invalid path: missing")) };
    // namerd's words, byte for byte.
    names.path(text).map_err(|error| Response::with_body(400, format!("Invalid path: {text} / {error}")))
}

/// The request's own dtab; absent and empty are the same.
pub(super) fn dtab(params: &Params, names: &NameReader) -> Result<Dtab, Response> {
    let text = params.get("dtab").unwrap_or_default();
    names.dtab(text).map_err(|error| Response::with_body(400, format!("Invalid dtab: {error}")))
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
        names: &NameReader,
        interpreter: &dyn Interpreter,
    ) -> Result<Self, Response> {
        let local = interpreter.local_dtab(client, dtab(params, names)?).map_err(no_room)?;
        Ok(Self { client, namespace: namespace.to_owned(), path, local })
    }
}
