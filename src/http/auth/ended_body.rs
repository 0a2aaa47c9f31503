//! A response that ends with the credential that it was given for.

use std::io;

use axum::body::{Body, Bytes, HttpBody as _};
use axum::response::Response;
use futures_util::{StreamExt, stream};

use super::credential::Credential;

/// The response, whose body breaks off when `caller` may no longer have it. It breaks, instead of
/// coming to an end, so that half an output is not taken for the whole.
pub(in crate::http) fn until_it_ends(response: Response, caller: Credential) -> Response {
    // What is whole already is sent at once.
    if response.body().size_hint().exact().is_some() {
        return response;
    }
    response.map(|body| Body::from_stream(cut(body, caller)))
}

fn cut(body: Body, caller: Credential) -> impl stream::Stream<Item = Result<Bytes, axum::Error>> {
    let ending = caller.clone();
    let ended = Box::pin(async move { ending.ended().await });
    let parts = (body.into_data_stream(), ended, caller);
    stream::unfold(parts, async |(mut chunks, mut ended, caller)| {
        let next = tokio::select! {
            biased;
            () = &mut ended => Err(cut_off()),
            chunk = chunks.next() => still_allowed(chunk?, &caller),
        };
        Some((next, (chunks, ended, caller)))
    })
}

/// The chunk, unless its reader lost the right to it since the last one.
fn still_allowed(
    chunk: Result<Bytes, axum::Error>,
    caller: &Credential,
) -> Result<Bytes, axum::Error> {
    if caller.is_valid() { chunk } else { Err(cut_off()) }
}

fn cut_off() -> axum::Error {
    axum::Error::new(io::Error::other("the credential of this stream has ended"))
}
