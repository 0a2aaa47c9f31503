//! What an operator asks for: who it is, and what stands in the body.

use axum::body::Bytes;
use axum::extract::{FromRequest, Request};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::error::ApiError;
use super::query::Params;
use crate::yard::{Identity, Role};

/// Whoever may change what concerns all tenants.
pub(super) fn operator(caller: Identity) -> Result<(), ApiError> {
    match caller.role {
        Role::Admin => Ok(()),
        Role::Read | Role::Run => Err(ApiError::NotAdmin),
    }
}

/// An operator's request. Nobody else's becomes one.
#[derive(Debug)]
pub(super) struct Order<T = Nothing> {
    /// The operator.
    pub(super) by: Identity,
    /// What stands in the body.
    pub(super) wish: T,
}

/// A body in which there is nothing to say.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Nothing {}

impl<S: Send + Sync, T: DeserializeOwned + Default> FromRequest<S> for Order<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<Self, ApiError> {
        // The gate names the caller of every request that comes so far.
        let by = *request.extensions().get::<Identity>().ok_or(ApiError::NotAdmin)?;
        operator(by)?;
        // What is meant stands in the body: a wish in the address would be overlooked.
        Params::read(request.uri().query(), &[])?;
        let body = Bytes::from_request(request, state).await;
        let body = body.map_err(|error| ApiError::BadBody { why: error.to_string() })?;
        Ok(Self { by, wish: read(&body)? })
    }
}

/// The JSON of a body; an empty one says nothing.
fn read<T: DeserializeOwned + Default>(body: &[u8]) -> Result<T, ApiError> {
    if body.is_empty() {
        return Ok(T::default());
    }
    // A list would be read as the fields of the type, in order.
    let fields: Map<String, Value> = serde_json::from_slice(body)
        .map_err(|error| ApiError::BadBody { why: error.to_string() })?;
    serde_json::from_value(fields.into())
        .map_err(|error| ApiError::BadBody { why: error.to_string() })
}
