//! Why a request was not answered, as JSON.

use std::io;
use std::ops::Range;

use axum::http::header::{ALLOW, CONTENT_RANGE, CONTENT_TYPE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde_json::json;
use thiserror::Error;

use crate::filter::FilterError;
use crate::ids::{JobNumberError, TenantError};
use crate::yard::{FindError, UnknownLane};

/// Why a request was not answered.
#[derive(Debug, Error)]
pub(in crate::http) enum ApiError {
    /// What stands for a job is no number.
    #[error(transparent)]
    BadJob(#[from] JobNumberError),
    /// A parameter that cannot be meant.
    #[error("the parameter `{name}` does not fit: {why}")]
    BadQuery { name: String, why: String },
    /// There is no such job.
    #[error(transparent)]
    Job(#[from] FindError),
    /// There is nothing at this path.
    #[error(
        "there is nothing here; jobs are at /api/v1/jobs, what one wrote at /api/v1/jobs/12/output"
    )]
    NoSuchPath,
    /// A method that is not possible there.
    #[error("only {allowed} is possible here")]
    Method { allowed: &'static str },
    /// The caller may not see or change what concerns all tenants.
    #[error("this takes a token with the role admin")]
    NotAdmin,
    /// A body that cannot be meant.
    #[error("the body does not fit: {why}")]
    BadBody { why: String },
    /// There is no such lane.
    #[error(transparent)]
    Lane(#[from] UnknownLane),
    /// The new settings cannot be used.
    #[error("not reloaded, the old settings hold: {0}")]
    Reload(String),
    /// What was given for a log filter is none.
    #[error("{0}; the old filter holds")]
    LogFilter(#[from] FilterError),
    /// What was given for a tenant is none.
    #[error(transparent)]
    Tenant(#[from] TenantError),
    /// The range lies behind the end.
    #[error(
        "the range is outside of the {length} bytes that there are; ask for one that starts before them"
    )]
    Outside { length: u64 },
    /// Some of the bytes were not kept.
    #[error(
        "bytes {} to {} of the output were not kept; ask for `Range: bytes=` of those before or after them", .hole.start, .hole.end - 1
    )]
    NotKept { hole: Range<u64> },
    /// The stored bytes could not be read.
    #[error("the output could not be read ({0}); it is still there if the disk is: try again")]
    Read(#[from] io::Error),
}

impl ApiError {
    /// A parameter that cannot be meant, and what would work.
    pub(super) fn bad_query(name: &str, why: &str) -> Self {
        Self::BadQuery { name: name.chars().take(40).collect(), why: why.to_owned() }
    }

    /// The stable word that clients may match on.
    pub(super) const fn code(&self) -> &'static str {
        match self {
            Self::BadJob(_) => "bad_job",
            Self::BadQuery { .. } => "bad_query",
            Self::Job(error) => error.code(),
            Self::NoSuchPath => "no_such_path",
            Self::Method { .. } => "method_not_allowed",
            Self::NotAdmin => "forbidden",
            Self::BadBody { .. } => "bad_body",
            Self::Lane(_) => "unknown_lane",
            Self::Reload(_) => "not_reloaded",
            Self::LogFilter(error) => error.code(),
            Self::Tenant(_) => "bad_tenant",
            Self::Outside { .. } => "range_not_satisfiable",
            Self::NotKept { .. } => "not_kept",
            Self::Read(_) => "read_failed",
        }
    }

    const fn status(&self) -> StatusCode {
        match self {
            Self::BadJob(_)
            | Self::BadQuery { .. }
            | Self::BadBody { .. }
            | Self::Lane(_)
            | Self::LogFilter(_)
            | Self::Tenant(_) => StatusCode::BAD_REQUEST,
            Self::NotAdmin => StatusCode::FORBIDDEN,
            Self::Reload(_) => StatusCode::UNPROCESSABLE_ENTITY,
            Self::Job(FindError::Unknown { .. }) | Self::NoSuchPath => StatusCode::NOT_FOUND,
            Self::Method { .. } => StatusCode::METHOD_NOT_ALLOWED,
            Self::Outside { .. } => StatusCode::RANGE_NOT_SATISFIABLE,
            Self::Job(FindError::Freed { .. }) | Self::NotKept { .. } => StatusCode::GONE,
            Self::Job(FindError::Unavailable { .. }) => StatusCode::SERVICE_UNAVAILABLE,
            Self::Read(_) => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let body = json!({"error": {"code": self.code(), "message": self.to_string()}});
        let kind = [(CONTENT_TYPE, "application/json")];
        let mut response = (self.status(), kind, body.to_string()).into_response();
        let headers = response.headers_mut();
        match self {
            Self::Method { allowed } => {
                headers.insert(ALLOW, HeaderValue::from_static(allowed));
            }
            Self::Outside { length } => {
                let total = HeaderValue::try_from(format!("bytes */{length}"));
                headers.extend(total.ok().map(|total| (CONTENT_RANGE, total)));
            }
            Self::BadJob(_)
            | Self::BadQuery { .. }
            | Self::Job(_)
            | Self::NoSuchPath
            | Self::NotAdmin
            | Self::BadBody { .. }
            | Self::Lane(_)
            | Self::Reload(_)
            | Self::LogFilter(_)
            | Self::Tenant(_)
            | Self::NotKept { .. }
            | Self::Read(_) => {}
        }
        response
    }
}
