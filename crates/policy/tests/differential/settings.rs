//! The settings of a run, from the environment.

use std::hash::{BuildHasher, RandomState};

/// Scripts of one run of the test command; a longer run is asked for by `POLICY_FUZZ_SCRIPTS`.
const SCRIPTS: u64 = 5_000;

/// The seed and length of a run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Settings {
    pub(crate) seed: u64,
    pub(crate) scripts: u64,
}

impl Settings {
    /// Reads `POLICY_FUZZ_SEED` (decimal, or hexadecimal with `0x`) and `POLICY_FUZZ_SCRIPTS`.
    /// Without a seed each run has a new one.
    pub(crate) fn read() -> Self {
        let new_seed = || RandomState::new().hash_one("seed") >> 16;
        Self {
            seed: number("POLICY_FUZZ_SEED").unwrap_or_else(new_seed),
            scripts: number("POLICY_FUZZ_SCRIPTS").unwrap_or(SCRIPTS),
        }
    }
}

fn number(name: &str) -> Option<u64> {
    let text = variable(name)?;
    let parsed = match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => text.parse(),
    };
    Some(parsed.unwrap_or_else(|error| panic!("{name}={text} is not a number: {error}")))
}

/// The value of an environment variable.
#[expect(clippy::disallowed_methods, reason = "a test's own settings are not the product's")]
pub(crate) fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}
