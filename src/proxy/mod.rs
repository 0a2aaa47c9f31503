//! A thin proxy between one client's standard input and output and a running server, so that many
//! clients share one server.
//!
//! ```text
//! stdin  → reader → ┐                     ┌ → writer → ┐
//!                   ├ ProxySession (decides)           ├ upgraded connection → server
//! stdout ← ──────── ┘                     └ ← reader ← ┘
//! ```
//!
//! The pure code in `session` makes every decision; the tasks only carry lines. A broken connection
//! fails the calls in flight, each of which gets an error. Everything else continues once the server
//! is back. If configured, the proxy starts the server itself.
//!
//! **Invariant:** the proxy runs no job and ends only with its client's input or by a signal.
//! **Invariant:** its memory is limited: one line per direction and, while there is no server, as
//! many bytes as one line may have.

mod run;
mod session;

pub use run::{ServerLaunch, Upstream, serve};
