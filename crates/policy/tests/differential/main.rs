//! A differential test of the reader of shell text against real shells.
//!
//! Generated scripts run under a tracer that records every `execve`, in a jail with marker programs
//! and real tools. The reader must have found each program that runs, so that a deny rule can match
//! it, or say that it is uncertain.
//!
//! Each run has a new seed, which it prints. `POLICY_FUZZ_SEED` repeats a run, and
//! `POLICY_FUZZ_SCRIPTS` sets its length.

#![cfg(target_os = "linux")]

#[cfg(test)]
mod jail;
#[cfg(test)]
mod promises;
#[cfg(test)]
mod script;
#[cfg(test)]
mod trace;
