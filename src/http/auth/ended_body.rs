//! A response that ends with the credential that it was given for.

use std::io;

use axum::body::{Body, HttpBody as _};
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

fn cut(
    body: Body,
    caller: Credential,
) -> impl stream::Stream<Item = Result<axum::body::Bytes, axum::Error>> {
    let ended = Box::pin(async move { caller.ended().await });
    stream::unfold((body.into_data_stream(), ended), async |(mut chunks, mut ended)| {
        tokio::select! {
            biased;
            () = &mut ended => {
                let error = io::Error::other("the credential of this stream has ended");
                Some((Err(axum::Error::new(error)), (chunks, ended)))
            }
            chunk = chunks.next() => Some((chunk?, (chunks, ended))),
        }
    })
}
