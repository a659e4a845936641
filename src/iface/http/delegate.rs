//! `/api/1/delegate` and the admin server's `/dtab/delegator.json`: how a name is looked up, step by step.

use std::time::Duration;

use serde_json::{Map, Value};

use super::encoded::made;
use super::{HEAVY_FROM, json, question};
use crate::http1::{Params, Request, Response};
use crate::iface::NameReader;
use crate::interpreter::{DelegateRequest, Interpreter};
use crate::name::{Dtab, NameTree, Path};
use crate::runtime::heavy;
use crate::store::{Client, Unanswered};

/// How long a delegation may take.
const PATIENCE: Duration = Duration::from_secs(2);

/// What the handler without a namespace in its path uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Uses {
    /// The stored dtab of the namespace that is named; the configured namers always. (`/api/1/delegate`)
    StoredDtab,
    /// Never a stored dtab; the configured namers if any namespace is named. (`/dtab/delegator.json`)
    RequestsDtab,
}

/// What is to be explained.
struct Asked {
    namespace: Option<String>,
    dtab: Dtab,
    path: Path,
}

/// Explains `path` in a namespace. `exact`: the weights of the request's own dtab are not rounded.
pub(super) async fn in_namespace(
    interpreter: &dyn Interpreter,
    client: Client,
    namespace: &str,
    path: Path,
    params: &Params,
    names: &NameReader,
    exact: bool,
) -> Response {
    let dtab = match question::dtab(params, names) {
        Ok(dtab) if exact => dtab,
        // namerd prints the dtab and reads it again, which rounds weights to two decimals.
        Ok(dtab) => names.dtab(&dtab.to_string()).unwrap_or(dtab),
        Err(response) => return response,
    };
    explain(interpreter, client, Asked { namespace: Some(namespace.to_owned()), dtab, path }, true).await
}

/// Explains what the parameters (GET) or the body (POST) of a request say.
pub async fn by_request(interpreter: &dyn Interpreter, request: &Request, names: &NameReader, uses: Uses) -> Response {
    let asked = match request.method() {
        "GET" => by_params(&Params::of(request), names),
        // The admin server takes every HEAD for a GET.
        "HEAD" if uses == Uses::RequestsDtab => by_params(&Params::of(request), names),
        "POST" if request.header("content-type") == Some(b"application/json") => {
            if request.body.len() < HEAVY_FROM {
                by_body(&request.body, names)
            } else {
                let (body, names) = (request.body.clone(), names.clone());
                let read = heavy(move || by_body(&body, &names)).await;
                read.unwrap_or_else(|| Err("the request could not be read".to_owned()))
            }
        }
        "POST" => return Response::with_body(415, ""),
        _ => return Response::with_body(405, ""),
    };
    let asked = match asked {
        Ok(asked) => asked,
        Err(reason) => return Response::with_body(400, reason),
    };
    match uses {
        Uses::StoredDtab => explain(interpreter, request.client, asked, true).await,
        Uses::RequestsDtab => {
            let with_namers = asked.namespace.is_some();
            explain(interpreter, request.client, Asked { namespace: None, ..asked }, with_namers).await
        }
    }
}

async fn explain(interpreter: &dyn Interpreter, client: Client, asked: Asked, with_namers: bool) -> Response {
    let request = DelegateRequest {
        client,
        namespace: asked.namespace,
        local: asked.dtab,
        tree: NameTree::Leaf(asked.path),
        with_addresses: true,
        with_namers,
    };
    match interpreter.delegate(request, PATIENCE).await {
        // No newline behind it, as in namerd.
        Ok(delegation) => match made(move |most| json::delegation(&delegation.tree, most)).await {
            Ok(body) => Response::with_body(200, body).header("Content-Type", "application/json"),
            Err(too_large) => Response::failure(too_large),
        },
        // The reason is rosterd's own.
        Err(Unanswered::TimedOut { reason, .. }) => {
            let reason = reason.map(|reason| format!(" {reason}")).unwrap_or_default();
            Response::with_body(503, format!("Request timed out.{reason}"))
        }
        Err(Unanswered::Failed(reason)) => Response::failure(reason),
    }
}

fn by_params(params: &Params, names: &NameReader) -> Result<Asked, String> {
    let path = params.get("path").ok_or("Invalid path: missing")?;
    asked(params.get("namespace"), params.get("dtab").unwrap_or_default(), path, names)
}

/// `{"namespace":…?,"dtab":…,"path":…}`; other keys and what follows are passed over.
fn by_body(body: &[u8], names: &NameReader) -> Result<Asked, String> {
    let malformed = || format!("Malformed delegation request: {}", String::from_utf8_lossy(body));
    let mut values = serde_json::Deserializer::from_slice(body).into_iter::<Map<String, Value>>();
    let fields = values.next().and_then(Result::ok).ok_or_else(malformed)?;
    let text = |key: &str| fields.get(key).and_then(Value::as_str);
    let (Some(dtab), Some(path)) = (text("dtab"), text("path")) else { return Err(malformed()) };
    asked(text("namespace"), dtab, path, names)
}

fn asked(namespace: Option<&str>, dtab: &str, path: &str, names: &NameReader) -> Result<Asked, String> {
    Ok(Asked {
        namespace: namespace.map(str::to_owned),
        path: names.path(path).map_err(|error| format!("Invalid path: {error}"))?,
        dtab: names.dtab(dtab).map_err(|error| format!("Invalid dtab: {error}"))?,
    })
}
