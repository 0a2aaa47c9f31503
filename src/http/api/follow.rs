//! `/jobs/{id}/output?follow=1`: the bytes that a job writes, as it writes them.

use std::io;

use axum::body::{Body, Bytes};
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS,
};
use axum::response::Response;
use futures_util::stream;
use tokio_util::sync::CancellationToken;

use super::output::{DROPPED_BYTES, HOLES, START, format_holes, set_header};
use super::request::{ApiError, ApiState};
use crate::ids::JobId;
use crate::service::{JobHandle, JobOutputReader, OutputPiece, StartAt};
use crate::spec::Stream;
use crate::telemetry::events;

/// Sends the output of a job from `start` on, until it is complete. Its length is not known, so the
/// connection breaks if the output cannot be sent to its end: no client takes a part for the whole.
pub(super) async fn follow_response(
    api: &ApiState,
    job: &JobHandle,
    stream: Option<Stream>,
    start: StartAt,
) -> Result<Response, ApiError> {
    let reader = JobOutputReader::open(job, stream, start).await?;
    let position = reader.position();
    let holes = reader.find_holes().await?;
    let dropped = job.output().progress().dropped_bytes;
    let body = FollowBody { job: job.id(), reader, streams: api.streams.clone() };
    let mut response = Response::new(Body::from_stream(stream::try_unfold(body, FollowBody::next)));
    let headers = response.headers_mut();
    set_header(headers, START, &position.to_string())?;
    if !holes.is_empty() {
        set_header(headers, HOLES, &format_holes(&holes))?;
    }
    if dropped > 0 {
        set_header(headers, DROPPED_BYTES, &dropped.to_string())?;
    }
    // A program decides what it writes next, so the beginning does not tell the type.
    set_header(headers, CONTENT_TYPE, "application/octet-stream")?;
    set_header(headers, CACHE_CONTROL, "no-store")?;
    set_header(headers, X_CONTENT_TYPE_OPTIONS, "nosniff")?;
    set_header(headers, CONTENT_SECURITY_POLICY, "default-src 'none'; sandbox")?;
    headers.insert("x-accel-buffering", axum::http::HeaderValue::from_static("no"));
    Ok(response)
}

/// The body of a response that follows a job.
struct FollowBody {
    job: JobId,
    reader: JobOutputReader,
    /// Cancelled when the server ends.
    streams: CancellationToken,
}

impl FollowBody {
    async fn next(mut self) -> io::Result<Option<(Bytes, Self)>> {
        loop {
            let piece = tokio::select! {
                biased;
                piece = self.reader.peek() => piece,
                () = self.streams.cancelled() => Err(io::ErrorKind::ConnectionAborted.into()),
            };
            match piece.inspect_err(|error| self.report(error))? {
                OutputPiece::Bytes { bytes, .. } => {
                    self.reader.advance(bytes.len() as u64);
                    return Ok(Some((bytes.into(), self)));
                }
                OutputPiece::Missing(hole) => {
                    self.reader.advance(hole.range.end - hole.range.start);
                }
                OutputPiece::Lost(lost) => self.reader.mark_loss_known(lost.bytes),
                OutputPiece::End => return Ok(None),
            }
        }
    }

    fn report(&self, error: &io::Error) {
        if error.kind() != io::ErrorKind::ConnectionAborted {
            events::output_unreadable(self.job, error);
        }
    }
}
