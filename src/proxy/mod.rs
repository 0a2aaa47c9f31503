//! A thin proxy between one client's standard input and output and a running server, so that many
//! clients share one yard.
//!
//! ```text
//! stdin  → reader → ┐                     ┌ → writer → ┐
//!                   ├ Session (what is due)            ├ upgraded connection → server
//! stdout ← ──────── ┘                     └ ← reader ← ┘
//! ```
//!
//! What follows from what is `session`'s pure function; the tasks only carry lines. A connection
//! that breaks costs the calls that were in flight, each of which is answered; everything else
//! goes on by itself once the server is back, and where wanted it is started.
//!
//! **Invariant:** the proxy runs no job and ends only with its client's input or by a signal.
//! **Invariant:** what it holds is bounded: one line per direction, and while there is no server
//! as much as one line may have.

mod run;
mod session;
mod upstream;

pub use run::serve;
pub use upstream::{ServerLaunch, ServerStartError, Upstream};
