//! Reading a request body, bounded in size and time.

use std::time::Duration;

use axum::body::{Body, BodyDataStream, Bytes};
use bytes::BytesMut;
use futures_util::StreamExt;
use hyper::body::Body as _;

/// How much of a body that is too large is still taken, and thrown away, while its answer is on
/// its way: a client that is cut off while it sends never gets to see why.
const DRAIN_BYTES: usize = 256 * 1024 * 1024;

/// Why a body was not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BodyError {
    TooLarge,
    TooSlow,
    Broken,
}

/// Whether a body says that it is larger than `limit`.
pub(super) fn says_too_large(body: &Body, limit: usize) -> bool {
    body.size_hint().lower() > limit as u64
}

/// Reads a whole body of at most `limit` bytes within `time`. One that is larger is given up as
/// soon as that is known.
pub(super) async fn read(body: Body, limit: usize, time: Duration) -> Result<Bytes, BodyError> {
    let too_large = says_too_large(&body, limit);
    let mut chunks = body.into_data_stream();
    let read = async {
        if too_large { Err(BodyError::TooLarge) } else { collect(&mut chunks, limit).await }
    };
    let read = tokio::time::timeout(time, read).await.unwrap_or(Err(BodyError::TooSlow));
    if read == Err(BodyError::TooLarge) {
        // Ends with its connection, too.
        tokio::spawn(tokio::time::timeout(time, throw_away(chunks)));
    }
    read
}

async fn throw_away(mut chunks: BodyDataStream) {
    let mut seen = 0;
    while let Some(Ok(chunk)) = chunks.next().await {
        seen += chunk.len();
        if seen > DRAIN_BYTES {
            return;
        }
    }
}

async fn collect(chunks: &mut BodyDataStream, limit: usize) -> Result<Bytes, BodyError> {
    let mut kept = BytesMut::new();
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk.map_err(|_| BodyError::Broken)?;
        if kept.len() + chunk.len() > limit {
            return Err(BodyError::TooLarge);
        }
        kept.extend_from_slice(&chunk);
    }
    Ok(kept.freeze())
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
    async fn a_body_of_unknown_size_is_given_up_at_its_limit() {
        let chunk = || Ok::<_, std::io::Error>(Bytes::from_static(b"12345678"));
        let endless = futures_util::stream::repeat_with(chunk);
        let read = read(Body::from_stream(endless), 20, Duration::from_secs(60)).await;
        assert_eq!(read, Err(BodyError::TooLarge));
    }

    #[tokio::test]
    async fn a_body_that_never_ends_is_given_up() {
        let never = futures_util::stream::pending::<Result<Bytes, std::io::Error>>();
        let read = read(Body::from_stream(never), 10, Duration::from_millis(10)).await;
        assert_eq!(read, Err(BodyError::TooSlow));
    }
}
