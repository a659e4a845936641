//! Connections to one backend for many short exchanges, one after the other.
//!
//! A connection is driven by whoever has an exchange on it, in the same task, and is free again before the exchange is
//! over. So there are never more of them than there were exchanges at once, which a pool whose connections come back by
//! themselves cannot promise; and an answer wakes one task instead of three, which is most of what an exchange costs that
//! brings nothing new.

use std::error::Error;
use std::fmt;
use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use http::header::{HOST, HeaderValue};
use http::{Request, Uri, response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use rustls::pki_types::ServerName;
use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, lookup_host};
use tokio::time::{Instant, timeout};
use tokio_rustls::TlsConnector;
use tokio_util::task::AbortOnDropHandle;

use super::Address;
use super::pool::{CONNECT, Fault, KEEPALIVE, is_of_tls, is_unasked};
use crate::runtime::tls;
use crate::text::root_cause;

/// A connection that has been free for so long is not used again, and closed when the next one becomes free.
const KEPT: Duration = Duration::from_secs(90);

/// What the library is told where the server is asked for no name: what is checked is decided elsewhere.
const NO_NAME: &str = "backend.invalid";

/// All connections to one backend.
pub struct Links {
    address: Address,
    host: HeaderValue,
    tls: Option<Tls>,
    /// Those without an exchange, the last one that was used at the end.
    free: Mutex<Vec<(Link, Instant)>>,
}

/// An answer whose head is there. Read to its end, it leaves its connection to others; dropped before, it ends it.
pub struct Exchange<'a> {
    /// Status and headers.
    pub head: response::Parts,
    body: Incoming,
    link: Option<Link>,
    links: &'a Links,
}

/// Why there is no answer, or no more of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    /// What it is about.
    pub fault: Fault,
    /// The innermost cause.
    pub cause: String,
}

struct Tls {
    connector: TlsConnector,
    name: ServerName<'static>,
    /// Has the files of the configuration renewed.
    _renewal: AbortOnDropHandle<()>,
}

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

type Driver = http1::Connection<TokioIo<Box<dyn Stream>>, Full<Bytes>>;

/// One connection.
struct Link {
    sender: SendRequest<Full<Bytes>>,
    /// Moves its bytes; none once it is over. In a box, since connections go from one user to the next, and it is large.
    driver: Option<Box<Driver>>,
}

// === impl Links ===

impl Links {
    /// Connections to the backend at `address`. None is made yet. Must be called within a runtime.
    ///
    /// # Errors
    /// One line, for what only shows now.
    pub fn new(address: &Address, tls: Option<Arc<tls::Client>>) -> Result<Arc<Self>, String> {
        let no_host = |cause: String| format!("host: {:?} is no host name{cause}", address.host);
        let authority = address.authority();
        let parsed = Uri::try_from(format!("http://{address}/")).map_err(|error| no_host(format!(": {error}")))?;
        if parsed.host().is_none_or(str::is_empty) || parsed.path() != "/" || authority.contains(['@', '?', '#']) {
            return Err(no_host(String::new()));
        }
        let host = HeaderValue::from_str(&authority).map_err(|error| no_host(format!(": {error}")))?;
        let tls = tls.map(|client| Tls::new(&client)).transpose()?;
        Ok(Arc::new(Self { address: address.clone(), host, tls, free: Mutex::default() }))
    }

    /// Sends a request, whose `Host` is set here, and waits for the head of the answer. A connection that ended while it
    /// was free is not blamed: the request, of which nothing was sent, goes to another one.
    ///
    /// # Errors
    /// [`Broken`].
    pub async fn send(&self, mut request: Request<Full<Bytes>>) -> Result<Exchange<'_>, Broken> {
        request.headers_mut().insert(HOST, self.host.clone());
        while let Some(mut link) = self.take() {
            let sent = link.sender.try_send_request(request);
            match link.drive(sent).await {
                Ok(answer) => return Ok(self.exchange(answer, link)),
                Err(mut unsent) => match unsent.take_message() {
                    Some(again) => request = again,
                    None => return Err(Broken::of(unsent.error())),
                },
            }
        }
        let mut link = self.connect().await?;
        let sent = link.sender.send_request(request);
        let answer = link.drive(sent).await.map_err(|error| Broken::of(&error))?;
        Ok(self.exchange(answer, link))
    }

    fn exchange(&self, answer: http::Response<Incoming>, link: Link) -> Exchange<'_> {
        let (head, body) = answer.into_parts();
        Exchange { head, body, link: Some(link), links: self }
    }

    fn take(&self) -> Option<Link> {
        let (link, since) = self.free.lock().pop()?;
        (since.elapsed() < KEPT).then_some(link)
    }

    fn put(&self, link: Link) {
        let now = Instant::now();
        let mut free = self.free.lock();
        free.push((link, now));
        let old = free.partition_point(|(_, since)| now.duration_since(*since) >= KEPT);
        let old: Vec<_> = free.drain(..old).collect();
        drop(free);
        drop(old); // closes them, which is not to be done under the lock
    }

    async fn connect(&self) -> Result<Link, Broken> {
        let stream =
            self.dial().await.map_err(|error| Broken { fault: Fault::Unreachable, cause: root_cause(&error) })?;
        let stream: Box<dyn Stream> = match &self.tls {
            None => Box::new(stream),
            Some(Tls { connector, name, .. }) => {
                let session = timeout(CONNECT, connector.connect(name.clone(), stream)).await;
                let session = session.unwrap_or_else(|late| Err(late.into()));
                Box::new(session.map_err(|error| Broken { fault: Fault::NoSession, cause: root_cause(&error) })?)
            }
        };
        let (sender, driver) = http1::handshake(TokioIo::new(stream)).await.map_err(|error| Broken::of(&error))?;
        Ok(Link { sender, driver: Some(Box::new(driver)) })
    }

    /// Tries all addresses of the host in turn; each has its share of the time.
    async fn dial(&self) -> io::Result<TcpStream> {
        let Address { host, port } = &self.address;
        let found: Vec<_> = timeout(CONNECT, lookup_host((host.as_str(), *port))).await??.collect();
        let share = CONNECT / u32::try_from(found.len().max(1)).unwrap_or(u32::MAX);
        let mut failed = io::Error::new(io::ErrorKind::NotFound, "the host has no address");
        for address in found {
            match timeout(share, TcpStream::connect(address)).await.unwrap_or_else(|late| Err(late.into())) {
                Ok(stream) => {
                    let keepalive = TcpKeepalive::new().with_time(KEEPALIVE).with_interval(KEEPALIVE);
                    stream.set_nodelay(true)?;
                    SockRef::from(&stream).set_tcp_keepalive(&keepalive)?;
                    return Ok(stream);
                }
                Err(error) => failed = error,
            }
        }
        Err(failed)
    }
}

impl fmt::Debug for Links {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Links").field("address", &self.address).field("free", &self.free.lock().len()).finish()
    }
}

// === impl Exchange ===

impl Exchange<'_> {
    /// Some bytes of the body; none at its end.
    ///
    /// # Errors
    /// [`Broken`].
    pub async fn some(&mut self) -> Result<Option<Bytes>, Broken> {
        loop {
            let Some(link) = &mut self.link else { return Ok(None) };
            match link.drive(self.body.frame()).await {
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        return Ok(Some(data));
                    }
                }
                Some(Err(error)) => return Err(Broken::of(&error)),
                None => {
                    if let Some(mut link) = self.link.take()
                        && link.is_free().await
                    {
                        self.links.put(link);
                    }
                }
            }
        }
    }
}

impl fmt::Debug for Exchange<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Exchange").field("status", &self.head.status).finish_non_exhaustive()
    }
}

// === impl Link ===

impl Link {
    /// Does a part of an exchange, and meanwhile moves what it needs.
    async fn drive<T>(&mut self, part: impl Future<Output = T>) -> T {
        let mut part = pin!(part);
        poll_fn(|cx| {
            if let Some(driver) = &mut self.driver
                && Pin::new(&mut **driver).poll(cx).is_ready()
            {
                // How it ended is told to whoever waits for its answer.
                self.driver = None;
            }
            part.as_mut().poll(cx)
        })
        .await
    }

    /// Whether it can be used again, after the end of an answer.
    async fn is_free(&mut self) -> bool {
        let Self { sender, driver } = self;
        poll_fn(|cx| {
            let goes_on = driver.as_mut().is_some_and(|driver| Pin::new(&mut **driver).poll(cx).is_pending());
            Poll::Ready(goes_on && matches!(sender.poll_ready(cx), Poll::Ready(Ok(()))))
        })
        .await
    }
}

// === impl Tls ===

impl Tls {
    fn new(client: &Arc<tls::Client>) -> Result<Self, String> {
        let name = client.asked_name().unwrap_or(NO_NAME).to_owned();
        let name = ServerName::try_from(name).map_err(|error| error.to_string())?;
        let connector = TlsConnector::from(Arc::new(client.config()?));
        Ok(Self { connector, name, _renewal: client.keep_current() })
    }
}

// === impl Broken ===

impl Broken {
    fn of(error: &(dyn Error + 'static)) -> Self {
        let cause = root_cause(error);
        let fault = if is_of_tls(error) {
            Fault::NoSession
        } else if is_unasked(&cause) {
            Fault::Unasked
        } else {
            Fault::Broken
        };
        Self { fault, cause }
    }
}

#[cfg(test)]
mod tests;
