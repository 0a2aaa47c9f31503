//! Idempotency keys: a repeated request with the same key gets the job of the first one.

use std::fmt;

use data_encoding::HEXLOWER;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest as _, Sha256};

use crate::spec::{JobProgram, JobSpec, Stdin};

/// The idempotency key of a request, with a digest of what was requested: a key names one request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobKey {
    text: String,
    command: KeyDigest,
    input: KeyDigest,
    directory: KeyDigest,
    environment: KeyDigest,
}

/// The first half of a SHA-256. The digest of a request is the same in every version of the server, since
/// the journal stores keys.
#[derive(Clone, Copy, PartialEq, Eq)]
struct KeyDigest([u8; 16]);

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
        let environment = environment.into_iter().flat_map(|(name, value)| [name, value]);
        Self {
            text,
            command: digest_program(&spec.program),
            input: digest_stdin(&spec.stdin),
            directory: KeyDigest::new([spec.cwd.as_os_str().as_encoded_bytes()]),
            environment: KeyDigest::new(environment.map(String::as_bytes)),
        }
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Returns the first difference to another request with the same key.
    pub(crate) fn difference(&self, other: &Self) -> Option<KeyDifference> {
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

impl KeyDigest {
    /// Hashes a list of texts. The length of each comes first, so that no two lists hash the same bytes.
    fn new<'a>(texts: impl IntoIterator<Item = &'a [u8]>) -> Self {
        let mut hash = Sha256::new();
        for text in texts {
            hash.update((text.len() as u64).to_be_bytes());
            hash.update(text);
        }
        let whole: [u8; 32] = hash.finalize().into();
        let mut half = [0; 16];
        half.copy_from_slice(&whole[..16]);
        Self(half)
    }
}

fn digest_program(program: &JobProgram) -> KeyDigest {
    match program {
        JobProgram::Shell(text) => KeyDigest::new([b"shell", text.as_bytes()]),
        JobProgram::Direct { program, args } => {
            let program = [b"direct", program.as_bytes()];
            KeyDigest::new(program.into_iter().chain(args.iter().map(String::as_bytes)))
        }
    }
}

fn digest_stdin(stdin: &Stdin) -> KeyDigest {
    match stdin {
        Stdin::Closed => KeyDigest::new([b"closed".as_slice()]),
        Stdin::Text(text) => KeyDigest::new([b"text", text.as_bytes()]),
        Stdin::Open => KeyDigest::new([b"open".as_slice()]),
        Stdin::Inherited => KeyDigest::new([b"inherited".as_slice()]),
        Stdin::Terminal => KeyDigest::new([b"terminal".as_slice()]),
    }
}

impl fmt::Debug for KeyDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&HEXLOWER.encode(&self.0))
    }
}

impl Serialize for KeyDigest {
    fn serialize<S: Serializer>(&self, output: S) -> Result<S::Ok, S::Error> {
        output.serialize_str(&HEXLOWER.encode(&self.0))
    }
}

impl<'de> Deserialize<'de> for KeyDigest {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        let text = <std::borrow::Cow<'de, str>>::deserialize(input)?;
        let bytes = HEXLOWER.decode(text.as_bytes()).map_err(D::Error::custom)?;
        bytes.try_into().map(Self).map_err(|_| D::Error::custom("not a digest of 16 bytes"))
    }
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
