//! Reading a request body, bounded in size and time.

use std::time::Duration;

use axum::body::{Body, Bytes};
use bytes::BytesMut;
use futures_util::StreamExt;

/// How much of a body that is too large is still taken, and thrown away: a client that is
/// cut off while it sends never gets to see why.
const DRAIN_BYTES: usize = 64 * 1024 * 1024;

/// Why a body was not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BodyError {
    TooLarge,
    TooSlow,
    Broken,
}

/// Reads a whole body of at most `limit` bytes within `time`.
pub(super) async fn read(body: Body, limit: usize, time: Duration) -> Result<Bytes, BodyError> {
    tokio::time::timeout(time, collect(body, limit)).await.unwrap_or(Err(BodyError::TooSlow))
}

async fn collect(body: Body, limit: usize) -> Result<Bytes, BodyError> {
    let mut chunks = body.into_data_stream();
    let mut kept = BytesMut::new();
    let mut seen = 0;
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk.map_err(|_| BodyError::Broken)?;
        seen += chunk.len();
        if seen <= limit {
            kept.extend_from_slice(&chunk);
        } else if seen > limit.saturating_add(DRAIN_BYTES) {
            break;
        }
    }
    if seen > limit { Err(BodyError::TooLarge) } else { Ok(kept.freeze()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn read_bytes(size: usize, limit: usize) -> Result<usize, BodyError> {
        let body = Body::from(vec![b'x'; size]);
        read(body, limit, Duration::from_secs(60)).await.map(|bytes| bytes.len())
    }

    #[tokio::test]
    async fn a_body_is_taken_up_to_its_limit_and_not_beyond() {
        assert_eq!(read_bytes(0, 10).await, Ok(0));
        assert_eq!(read_bytes(10, 10).await, Ok(10));
        assert_eq!(read_bytes(11, 10).await, Err(BodyError::TooLarge));
    }

    #[tokio::test]
    async fn a_body_that_never_ends_is_given_up() {
        let never = futures_util::stream::pending::<Result<Bytes, std::io::Error>>();
        let read = read(Body::from_stream(never), 10, Duration::from_millis(10)).await;
        assert_eq!(read, Err(BodyError::TooSlow));
    }
}
