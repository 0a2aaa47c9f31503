//! Isolation of tenants: no tenant sees, guesses, reads, stops or counts another's jobs.
//!
//! `alone` is the strongest check: the responses to bob on a server where alice is busy equal those
//! on a server that she never used. `attempts` lists what he tries, and `coverage` checks that the
//! list covers every tool, method and route.

mod alice;
mod alone;
mod attempts;
mod bob;
mod coverage;
mod directories;
mod fairness;
mod namesakes;
mod observation;
mod roles;
mod separated;
mod streams;
mod users;
mod world;
