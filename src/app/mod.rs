//! Wiring: the order in which the parts of the program start and end.
//!
//! Start: settings → log → host, with its keeper → listeners → service → transport. End: no new jobs → running jobs get
//! their time → every process tree is ended → the transport sends its last replies → exit.

mod connect;
mod durable;
mod error;
mod module_settings;
mod reload;
mod rules;
mod runtime;
mod serve;
mod server_lock;
#[cfg(feature = "otlp")]
mod span_sender;
mod start;
mod tenants;

pub use start::run;
