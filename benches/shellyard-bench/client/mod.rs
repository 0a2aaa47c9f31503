//! Clients that cost little: they share the cores with what is measured.

mod call;
mod callers;
mod http;
mod page;
mod stdio;

pub(crate) use call::{Call, check_echo};
pub(crate) use callers::{over_http, over_stdio};
pub(crate) use http::HttpClient;
pub(crate) use page::{Page, page_call};
pub(crate) use stdio::StdioClient;
