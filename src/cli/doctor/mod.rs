//! `shellyard doctor`: what jobs get from this host, and what they do not.

mod confinement;
mod finding;
mod findings;
mod host;
mod run;

pub use run::{Patient, run};
