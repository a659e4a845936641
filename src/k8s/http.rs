//! HTTP to one API server.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::{Stream, StreamExt};
use http::header::{ACCEPT, AUTHORIZATION, HeaderMap, RETRY_AFTER};
use http::{Method, StatusCode};
use tokio::time::timeout;

use super::error::{ApiError, Asked};
use super::token::Token;
use super::transport::{Response, Transport};
use crate::backend::{Address, Fault, Pool, fault};
use crate::runtime::tls;

/// How many connections without a request are kept.
const IDLE: usize = 8;

/// HTTP/1.1: each watch has a connection of its own, so that a slow one is in nobody's way.
pub(super) struct Http {
    pool: Pool,
    server: Arc<str>,
    token: Token,
}

// === impl Http ===

impl Http {
    /// Must be called within a runtime.
    pub(super) fn new(address: &Address, tls: Option<Arc<tls::Client>>, token: Token) -> Result<Self, String> {
        Ok(Self { pool: Pool::new(address, tls, IDLE)?, server: address.to_string().into(), token })
    }

    async fn send(
        &self,
        asked: Asked<'_>,
        target: &str,
        patience: Duration,
        anew: bool,
    ) -> Result<reqwest::Response, ApiError> {
        let token = self.token.current(anew).await;
        let token = token.map_err(|reason| ApiError::NoToken { server: self.server.to_string(), reason })?;
        let mut request = self.pool.request(Method::GET, target).header(ACCEPT, "application/json");
        if let Some(token) = token {
            request = request.header(AUTHORIZATION, token);
        }
        let path = || asked.resource.path(asked.namespace);
        match timeout(patience, request.send()).await {
            Ok(Ok(response)) => Ok(response),
            Ok(Err(error)) => Err(failed(&self.server, path(), &error)),
            Err(_) => {
                Err(ApiError::Silent { server: self.server.to_string(), path: path(), seconds: patience.as_secs() })
            }
        }
    }
}

fn failed(server: &str, path: String, error: &reqwest::Error) -> ApiError {
    let (fault, cause) = fault(error);
    let server = server.to_owned();
    match fault {
        Fault::NoSession => ApiError::NoSession { server, cause },
        Fault::Unreachable => ApiError::Unreachable { server, cause },
        Fault::Unasked | Fault::Broken => ApiError::Broken { server, path, cause },
    }
}

/// Seconds; a date, which no API server sends, does not count.
fn after(headers: &HeaderMap) -> Option<Duration> {
    let seconds = headers.get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds))
}

fn pieces(
    server: Arc<str>,
    path: String,
    response: reqwest::Response,
) -> impl Stream<Item = Result<Bytes, ApiError>> + Send + 'static {
    response.bytes_stream().map(move |piece| piece.map_err(|error| failed(&server, path.clone(), &error)))
}

#[async_trait]
impl Transport for Http {
    async fn get(&self, asked: Asked<'_>, target: &str, patience: Duration) -> Result<Response, ApiError> {
        let mut response = self.send(asked, target, patience, false).await?;
        if response.status() == StatusCode::UNAUTHORIZED && self.token.is_file() {
            // It may have been replaced since it was read.
            response = self.send(asked, target, patience, true).await?;
        }
        let (status, after) = (response.status(), after(response.headers()));
        let path = asked.resource.path(asked.namespace);
        Ok(Response { status, after, body: pieces(self.server.clone(), path, response).boxed() })
    }
}

impl fmt::Debug for Http {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Http").field("server", &self.server).finish_non_exhaustive()
    }
}
