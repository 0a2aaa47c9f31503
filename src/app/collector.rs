//! The way to a collector of spans: our own client, on the server's runtime.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use hyper::{Request, Response};
use opentelemetry_http::{HttpClient, HttpError};
use tokio::runtime::Handle;
use tokio::time::timeout;

use super::error::AppError;
use crate::cli::talk;
use crate::client::{Client, Target};
use crate::telemetry::{events, otlp};

/// What a collector gets to take one batch.
const BATCH_TIMEOUT: Duration = Duration::from_secs(10);

/// Carries batches to a collector, and tells once that it does not take them.
#[derive(Debug)]
struct Courier {
    client: Client,
    runtime: Handle,
    is_failing: AtomicBool,
}

/// From now on every sampled span that ends is handed to the collector there.
pub(super) fn export_to(endpoint: &str, runtime: &Handle) -> Result<otlp::Export, AppError> {
    let target = Target::parse(&otlp::traces_url(endpoint), "/")?;
    let client = Client::new(target, None)?;
    let courier = Courier { client, runtime: runtime.clone(), is_failing: AtomicBool::new(false) };
    Ok(otlp::start(endpoint, courier)?)
}

impl HttpClient for Courier {
    // As the trait's macro spells an asynchronous function.
    fn send_bytes<'life0, 'async_trait>(
        &'life0 self,
        request: Request<Bytes>,
    ) -> BoxFuture<'async_trait, Result<Response<Bytes>, HttpError>>
    where
        'life0: 'async_trait,
        Self: 'async_trait,
    {
        Box::pin(async {
            // The exporter's thread has no runtime, and sockets need one.
            let sending = self.runtime.spawn(send(self.client.clone(), request));
            let answer = sending.await.unwrap_or_else(|stopped| Err(stopped.into()));
            self.tell(&answer);
            answer
        })
    }
}

impl Courier {
    fn tell(&self, answer: &Result<Response<Bytes>, HttpError>) {
        let failure = match answer {
            Ok(answer) if answer.status().is_success() => None,
            Ok(answer) => Some(format!("it answered {}", answer.status())),
            Err(error) => Some(talk::root_cause(error.as_ref())),
        };
        let was_failing = self.is_failing.swap(failure.is_some(), Ordering::Relaxed);
        match failure {
            Some(why) if !was_failing => events::spans_not_exported(&why),
            None if was_failing => events::spans_exported_again(),
            Some(_) | None => {}
        }
    }
}

async fn send(client: Client, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
    let (head, body) = request.into_parts();
    let exchange = client.request(head.method, head.uri.path(), head.headers, body);
    let answer = timeout(BATCH_TIMEOUT, exchange).await??;
    let mut response = Response::new(answer.body);
    *response.status_mut() = answer.status;
    *response.headers_mut() = answer.headers;
    Ok(response)
}

#[cfg(test)]
#[path = "collector_tests.rs"]
mod tests;
