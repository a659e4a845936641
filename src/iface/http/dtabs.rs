//! `/api/1/dtabs`: reading and writing dtabs.

use std::sync::Arc;

use bytes::Bytes;

use super::encoded::Form;
use super::json::TooLarge;
use super::media::{BadDtab, Media};
use super::once::{PATIENCE, unanswered};
use super::question::no_room;
use super::{Api, HEAVY_FROM, json, version};
use crate::http1::{Params, Request, Response};
use crate::name::Dtab;
use crate::runtime::heavy;
use crate::storage::{StorageError, VersionedDtab};
use crate::store::Watch;

/// A dtab with more nodes is not written on the runtime's own threads.
const LARGE: usize = 4_096;

/// What to tell a client whose text a comment ends early.
const HIDDEN_ENTRIES: &str = "the dtab is one line and has entries behind a '#', which makes them a comment; were \
                              newlines lost on the way (curl: use --data-binary)?";

impl Api {
    /// The names of all namespaces. Every method does.
    pub(super) async fn list(&self, params: &Params) -> Response {
        if let Err(elsewhere) = self.storage.lists() {
            return refused(elsewhere);
        }
        if params.watch() {
            return Response::stream(self.list_lines()).header("Content-Type", "application/json");
        }
        match self.stored(self.storage.namespaces()).await {
            Ok((names, version)) => {
                let body = self.encoded.get(Form::List, &[version], || json::strings(&*names));
                Response::with_body(200, body).header("Content-Type", "application/json")
            }
            Err(response) => response,
        }
    }

    /// The names that namers can list.
    pub(super) async fn bound_names(&self, params: &Params) -> Response {
        if let Err(elsewhere) = self.storage.lists() {
            return refused(elsewhere);
        }
        if params.watch() {
            return Response::stream(self.names_lines()).header("Content-Type", "application/json");
        }
        match self.names_once().await {
            Ok((body, _)) => Response::with_body(200, body).header("Content-Type", "application/json"),
            Err(response) => response,
        }
    }

    /// One namespace.
    pub(super) async fn dtab(&self, namespace: &str, request: &Request, params: &Params) -> Response {
        if let Err(error) = self.storage.accepts(namespace) {
            return refused(error);
        }
        let answer = match request.method() {
            "GET" if params.watch() => {
                let media = Media::accepted(request);
                let lines = self.dtab_lines(request.client, namespace, media);
                lines.map(|lines| Response::stream(lines).header("Content-Type", media.name()))
            }
            "GET" => self.read(namespace, request).await,
            "HEAD" => self.head(namespace, request).await,
            // Whoever can open a page must not be made to change routing.
            "POST" | "PUT" | "DELETE" if request.is_of_another_site() => {
                Err(Response::refusal(403, "this was sent by a page of another site"))
            }
            // What is written here may be lost: the storage is another process's now, where the next connection leads.
            "POST" | "PUT" | "DELETE" if self.drain.is_handed_over() => {
                let refusal = Response::refusal(503, "another process has taken over; connect anew");
                Err(refusal.header("Retry-After", "1"))
            }
            "POST" => self.create(namespace, request).await,
            "PUT" => self.put(namespace, request).await,
            "DELETE" => self.storage.delete(namespace, None).await.map(|()| Response::new(204)).map_err(refused),
            _ => Ok(Response::with_body(404, "")),
        };
        answer.unwrap_or_else(|response| response)
    }

    async fn read(&self, namespace: &str, request: &Request) -> Result<Response, Response> {
        let watch = self.storage.dtab(request.client, namespace).map_err(no_room)?;
        let (stored, cell_version) = self.stored(watch).await?;
        let Some(stored) = &*stored else { return Ok(Response::with_body(404, "")) };
        let media = Media::accepted(request);
        let body = self.dtab_text(media, stored, cell_version).await?;
        Ok(with_version(Response::with_body(200, body), stored).header("Content-Type", media.name()))
    }

    async fn head(&self, namespace: &str, request: &Request) -> Result<Response, Response> {
        let watch = self.storage.dtab(request.client, namespace).map_err(no_room)?;
        let (stored, _) = self.stored(watch).await?;
        Ok(match &*stored {
            Some(stored) => with_version(Response::new(200), stored),
            None => Response::new(404),
        })
    }

    async fn create(&self, namespace: &str, request: &Request) -> Result<Response, Response> {
        let dtab = self.dtab_in(request).await?;
        self.storage.create(namespace, dtab).await.map_err(refused)?;
        Ok(written(namespace, request))
    }

    async fn put(&self, namespace: &str, request: &Request) -> Result<Response, Response> {
        let expected = request.header("if-match").map(version::read).transpose();
        let expected = expected.map_err(|reason| Response::refusal(400, reason))?;
        let dtab = self.dtab_in(request).await?;
        match expected {
            Some(expected) => self.storage.update(namespace, dtab, &expected).await.map_err(refused)?,
            None => self.storage.put(namespace, dtab).await.map_err(refused)?,
        };
        Ok(written(namespace, request))
    }

    /// A stored dtab as it is sent.
    pub(super) async fn dtab_text(
        &self,
        media: Media,
        stored: &VersionedDtab,
        cell_version: u64,
    ) -> Result<Bytes, Response> {
        let dtab = stored.dtab().clone();
        // However large, it is shown whole.
        let make = move |most| {
            let elsewhere = most < json::MOST_BYTES && dtab.nodes(LARGE) > LARGE;
            if elsewhere { Err(TooLarge) } else { Ok(media.text(&dtab)) }
        };
        self.encoded.get_large(Form::Dtab(media), &[cell_version], make).await.map_err(Response::failure)
    }

    async fn dtab_in(&self, request: &Request) -> Result<Dtab, Response> {
        let names = &self.names;
        let read = if request.body.len() < HEAVY_FROM {
            Media::read(request, names)
        } else {
            let (request, names) = (request.clone(), names.clone());
            let read = heavy(move || Media::read(&request, &names)).await;
            read.unwrap_or_else(|| Err(BadDtab::Text("the dtab could not be read".to_owned())))
        };
        // The parser's words are kept as they are, newlines of the dtab and all.
        read.map_err(|bad| Response::with_body(400, bad.to_string()))
    }

    /// What a storage has now, as the storage itself says. A last good value is not shown: what is read here is edited
    /// and written back. It stays for binding and for watches.
    async fn stored<T: Send + Sync + 'static>(&self, watch: Watch<T>) -> Result<(Arc<T>, u64), Response> {
        let (value, version) = watch.answer(PATIENCE).await.map_err(unanswered)?;
        Ok((value, version.get()))
    }
}

fn written(namespace: &str, request: &Request) -> Response {
    let response = Response::new(204);
    if !std::str::from_utf8(&request.body).is_ok_and(Dtab::comment_hides_entries) {
        return response;
    }
    tracing::warn!(namespace, client = %request.client.0, "{HIDDEN_ENTRIES}");
    response.header("Warning", format!("299 rosterd \"{HIDDEN_ENTRIES}\""))
}

/// A relay may not know the version.
fn with_version(response: Response, stored: &VersionedDtab) -> Response {
    match stored.version() {
        version if version.is_empty() => response,
        version => response.header("Etag", version::show(version)),
    }
}

fn refused(error: StorageError) -> Response {
    match error {
        StorageError::AlreadyExists(_) => Response::with_body(409, ""),
        StorageError::DoesNotExist(_) => Response::with_body(404, ""),
        StorageError::VersionMismatch { current } => {
            let response = Response::with_body(412, "");
            match current {
                Some(current) => response.header("Etag", version::show(&current)),
                None => response,
            }
        }
        StorageError::InvalidNamespace { .. } => Response::refusal(400, error),
        StorageError::Forbidden(_) => Response::refusal(403, error),
        StorageError::TooLarge(_) => Response::refusal(413, error),
        StorageError::Unavailable(_) => Response::refusal(503, error).header("Retry-After", "1"),
        // Whoever repeats it without looking may do it twice.
        StorageError::Uncertain(_) => Response::refusal(503, error),
        StorageError::Elsewhere(_) => Response::refusal(501, error),
    }
}
