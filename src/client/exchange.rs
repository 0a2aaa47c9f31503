//! One request and its answer, or one upgrade.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::header::{AUTHORIZATION, CONNECTION, HOST, HeaderMap, HeaderValue, UPGRADE};
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use super::connect::connect;
use super::error::ClientError;
use super::target::{Place, Target};
use super::tls;
use super::token::Token;

/// What a server gets to answer, to the end of its answer.
const ANSWER_TIME: Duration = Duration::from_secs(30);

/// The largest answer that is taken.
const MAX_ANSWER_BYTES: usize = 16 * 1024 * 1024;

/// So much of a refusal is repeated.
const MAX_QUOTED_CHARS: usize = 100;

/// The beginning of the refusal of a job.
const CALLER_IS_JOB: &[u8] = b"caller_is_job:";

/// Asks one server. A clone is as good.
#[derive(Clone)]
pub struct Client {
    target: Target,
    token: Option<Token>,
    tls: Option<TlsConnector>,
    /// Sent with each request.
    headers: HeaderMap,
}

/// A connection that has become two streams of bytes.
pub type Upgraded = TokioIo<hyper::upgrade::Upgraded>;

/// What a server answered.
#[derive(Debug)]
pub struct Answer {
    /// Its status, whatever it is.
    pub status: StatusCode,
    /// Its headers.
    pub headers: HeaderMap,
    /// All of its body.
    pub body: Bytes,
}

impl Client {
    /// A client of the server there, which shows this token.
    ///
    /// # Errors
    /// When TLS is wanted and no certificate is trusted on this machine.
    pub fn new(target: Target, token: Option<Token>) -> Result<Self, ClientError> {
        let tls = match target.place() {
            Place::Tls(_) => Some(
                tls::connector()
                    .map_err(|source| ClientError::Tls { target: target.to_string(), source })?,
            ),
            Place::Tcp(_) | Place::Socket(_) => None,
        };
        Ok(Self { target, token, tls, headers: HeaderMap::new() })
    }

    /// Sends this header with each request.
    #[must_use]
    pub fn with_header(mut self, name: &'static str, value: HeaderValue) -> Self {
        self.headers.insert(name, value);
        self
    }

    /// Whom it asks.
    #[must_use]
    pub const fn target(&self) -> &Target {
        &self.target
    }

    /// Sends one request and takes all of its answer; a status that tells of an error is an answer.
    ///
    /// # Errors
    /// When there is no answer, or none in time and size.
    pub async fn request(
        &self,
        method: Method,
        path: &str,
        headers: HeaderMap,
        body: Bytes,
    ) -> Result<Answer, ClientError> {
        let mut request = self.compose(method, path, body)?;
        request.headers_mut().extend(headers);
        self.in_time(async { self.take(self.send(request).await?).await }).await
    }

    /// Turns a connection into two streams of bytes that follow `protocol`. Shutting the writing
    /// side down leaves the other open.
    ///
    /// # Errors
    /// When the server is not there, or does not speak that.
    pub async fn upgrade(&self, protocol: &'static str) -> Result<Upgraded, ClientError> {
        let mut request = self.compose(Method::GET, self.target.path(), Bytes::new())?;
        let headers = request.headers_mut();
        headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
        headers.insert(UPGRADE, HeaderValue::from_static(protocol));
        self.in_time(async {
            let response = self.send(request).await?;
            if response.status() != StatusCode::SWITCHING_PROTOCOLS {
                return Err(self.refusal(self.take(response).await?));
            }
            hyper::upgrade::on(response).await.map(TokioIo::new).map_err(|error| self.broken(error))
        })
        .await
    }

    fn compose(
        &self,
        method: Method,
        path: &str,
        body: Bytes,
    ) -> Result<Request<Full<Bytes>>, ClientError> {
        let mut request =
            Request::builder().method(method).uri(path).header(HOST, self.target.host());
        if let Some(token) = &self.token {
            request = request.header(AUTHORIZATION, token.header());
        }
        let mut request = request.body(Full::new(body)).map_err(|error| self.broken(error))?;
        request.headers_mut().extend(self.headers.clone());
        Ok(request)
    }

    async fn send(&self, request: Request<Full<Bytes>>) -> Result<Response<Incoming>, ClientError> {
        let mut sender = connect(&self.target, self.tls.as_ref()).await?;
        sender.send_request(request).await.map_err(|error| self.broken(error))
    }

    async fn take(&self, response: Response<Incoming>) -> Result<Answer, ClientError> {
        let (head, body) = response.into_parts();
        let body = Limited::new(body, MAX_ANSWER_BYTES).collect().await;
        let body = body.map_err(|error| self.broken(error))?.to_bytes();
        Ok(Answer { status: head.status, headers: head.headers, body })
    }

    async fn in_time<T>(
        &self,
        exchange: impl Future<Output = Result<T, ClientError>>,
    ) -> Result<T, ClientError> {
        let after = ANSWER_TIME;
        let too_late = || ClientError::TimedOut { target: self.target.to_string(), after };
        timeout(after, exchange).await.unwrap_or_else(|_| Err(too_late()))
    }

    fn broken(&self, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> ClientError {
        ClientError::Broken { target: self.target.to_string(), source: source.into() }
    }

    fn refusal(&self, answer: Answer) -> ClientError {
        let target = self.target.to_string();
        if answer.status == StatusCode::FORBIDDEN && answer.body.starts_with(CALLER_IS_JOB) {
            return ClientError::CallerIsJob { target };
        }
        let text = first_words(&String::from_utf8_lossy(&answer.body));
        ClientError::Refused { target, status: answer.status, text }
    }
}

/// The first line that says something, as plain text: whoever answered may be anybody.
fn first_words(text: &str) -> String {
    let pieces =
        text.split('<').enumerate().map(|(index, piece)| match (index, piece.split_once('>')) {
            (0, _) | (_, None) => piece,
            (_, Some((_tag, after))) => after,
        });
    let plain: String = pieces.collect();
    let line = plain.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    line.chars().filter(|c| !c.is_control()).take(MAX_QUOTED_CHARS).collect()
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { target, token, tls: _, headers: _ } = self;
        f.debug_struct("Client").field("target", target).field("token", token).finish()
    }
}

#[cfg(test)]
#[path = "exchange_tests.rs"]
mod tests;
