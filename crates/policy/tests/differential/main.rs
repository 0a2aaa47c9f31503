//! A differential test of the policy against real bash.
//!
//! Generated scripts run in bash under a tracer that records every `execve`, in a jail with marker
//! programs and real tools. Two promises are held to that record:
//!
//! - **Allow lists**: a script that is allowed starts no program that the decision did not name.
//! - **The wide reader** finds each program that runs, or says that it is uncertain.
//!
//! Each run has a new seed, which it prints. `POLICY_FUZZ_SEED` repeats a run, and
//! `POLICY_FUZZ_SCRIPTS` sets its length.

#![cfg(target_os = "linux")]

#[cfg(test)]
mod attacks;
#[cfg(test)]
mod everyday;
#[cfg(test)]
mod jail;
#[cfg(test)]
mod promises;
#[cfg(test)]
mod script;
#[cfg(test)]
mod trace;
