//! Wiring: what is started in which order, and how everything comes to an end.
//!
//! Start: settings → log → host → yard → transport, and beside them guardian and spawner. End: no new work → running jobs get
//! their time → every tree is ended → the transport says its last words → exit.

mod children;
mod confinement;
mod connect;
mod data_dir;
mod error;
mod rules;
mod runtime;
mod serve;
mod start;
mod traces;
mod values;

pub use start::run;
