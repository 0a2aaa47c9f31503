//! The policy: the verbs that explain it, and the server that enforces it.

mod approvals;
mod certainty;
mod changes;
mod directories;
mod exec_gate;
mod gate;
pub(crate) mod mistakes;
mod verbs;
