//! The same work without us. Where CPU time is compared, it is done by a process of its own, so
//! that nothing of the client is counted with it.

pub(crate) mod drain;
pub(crate) mod spawn;
mod told;

pub(crate) use told::Told;
