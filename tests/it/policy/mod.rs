//! What may run, and where: the verbs that explain it, and the server that holds it.

mod approvals;
mod certainty;
mod changes;
mod directories;
mod gate;
pub(crate) mod mistakes;
mod verbs;
