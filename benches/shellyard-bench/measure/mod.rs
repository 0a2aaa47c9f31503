//! One file for each measurement.

pub(crate) mod backlog;
pub(crate) mod big;
pub(crate) mod capture;
pub(crate) mod confined;
pub(crate) mod held;
pub(crate) mod latency;
pub(crate) mod pages;
mod polled;
pub(crate) mod pollers;
pub(crate) mod rate;
pub(crate) mod search;
pub(crate) mod sources;
pub(crate) mod start;
pub(crate) mod tenants;
