//! Idempotency keys: a repeated request with the same key gets the job of the first one.

use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};

use crate::spec::JobSpec;

/// The idempotency key of a request, with a digest of what was requested: a key names one request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobKey {
    text: String,
    command: u64,
    input: u64,
    directory: u64,
    environment: u64,
}

/// The part of a request that differs from the first request with the same key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyDifference {
    Command,
    Input,
    Directory,
    Environment,
}

impl JobKey {
    /// Creates the key of a request. `spec` is the job as requested, before admission completes it.
    #[must_use]
    pub fn new(text: String, spec: &JobSpec) -> Self {
        let mut environment: Vec<&(String, String)> = spec.env.iter().collect();
        environment.sort_unstable();
        Self {
            text,
            command: digest(&spec.program),
            input: digest(&spec.stdin),
            directory: digest(&spec.cwd),
            environment: digest(&environment),
        }
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// Returns the first difference to another request with the same key.
    pub(super) const fn difference(&self, other: &Self) -> Option<KeyDifference> {
        if self.command != other.command {
            Some(KeyDifference::Command)
        } else if self.input != other.input {
            Some(KeyDifference::Input)
        } else if self.directory != other.directory {
            Some(KeyDifference::Directory)
        } else if self.environment != other.environment {
            Some(KeyDifference::Environment)
        } else {
            None
        }
    }
}

fn digest(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

impl fmt::Display for KeyDifference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Command => "another command",
            Self::Input => "another standard input",
            Self::Directory => "another directory",
            Self::Environment => "other environment variables",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::tests::spec;
    use crate::spec::Stdin;

    #[test]
    fn a_key_tells_another_request_from_a_retry() {
        let key = |spec: &JobSpec| JobKey::new("deploy".to_owned(), spec);
        let pairs = |pairs: &[(&str, &str)]| {
            pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
        };
        let first = JobSpec { env: pairs(&[("A", "1"), ("B", "2")]), ..spec("make") };
        let retry = JobSpec { env: pairs(&[("B", "2"), ("A", "1")]), ..spec("make") };
        assert_eq!(key(&first).difference(&key(&retry)), None);
        for (other, expected) in [
            (
                JobSpec { program: spec("make all").program, ..first.clone() },
                KeyDifference::Command,
            ),
            (JobSpec { stdin: Stdin::Text("y".to_owned()), ..first.clone() }, KeyDifference::Input),
            (JobSpec { cwd: "/elsewhere".into(), ..first.clone() }, KeyDifference::Directory),
            (JobSpec { env: pairs(&[("A", "1")]), ..first.clone() }, KeyDifference::Environment),
        ] {
            assert_eq!(key(&first).difference(&key(&other)), Some(expected));
        }
    }
}
