//! Carries requests.

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::stream::BoxStream;
use http::StatusCode;

use super::error::{ApiError, Asked};

/// Carries requests.
#[async_trait]
pub(super) trait Transport: fmt::Debug + Send + Sync {
    /// The head of the answer to a GET, which has to be there within `patience`, and the body as it comes.
    async fn get(&self, asked: Asked<'_>, target: &str, patience: Duration) -> Result<Response, ApiError>;
}

/// An answer, whatever its status.
pub(super) struct Response {
    pub(super) status: StatusCode,
    /// `Retry-After`.
    pub(super) after: Option<Duration>,
    pub(super) body: BoxStream<'static, Result<Bytes, ApiError>>,
}
