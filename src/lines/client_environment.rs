//! The environment that a client sends with its request to upgrade a connection: entries that each
//! end in a NUL byte. `NAME=VALUE` is a variable, and `NAME` alone a variable that the client has but
//! does not send.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};

use thiserror::Error;

/// The names and values of variables.
pub type VariablePairs = Vec<(OsString, OsString)>;

/// The most bytes of an encoded environment: much more than a shell usually has.
pub const MAX_ENVIRONMENT_BYTES: usize = 256 * 1024;

/// The environment of a client.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ClientEnvironment {
    pub variables: VariablePairs,
    /// The names of variables that the client's own settings withhold from jobs.
    pub withheld: Vec<String>,
}

/// An encoded environment, and the variables that it has no room for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EncodedEnvironment {
    pub bytes: Vec<u8>,
    pub left_out: Vec<OsString>,
}

/// Encodes an environment. If it is too large, its largest variables are left out.
#[must_use]
pub fn encode_environment(environment: ClientEnvironment) -> EncodedEnvironment {
    let ClientEnvironment { mut variables, withheld } = environment;
    let names: usize = withheld.iter().map(|name| name.len() + b"\0".len()).sum();
    let mut left_out = Vec::new();
    while variables.iter().map(entry_size).sum::<usize>() + names > MAX_ENVIRONMENT_BYTES
        && let Some(largest) = (0..variables.len()).max_by_key(|at| entry_size(&variables[*at]))
    {
        left_out.push(variables.remove(largest).0);
    }
    let mut bytes = Vec::new();
    for (name, value) in &variables {
        for part in [name.as_bytes(), b"=", value.as_bytes(), b"\0"] {
            bytes.extend_from_slice(part);
        }
    }
    for name in &withheld {
        bytes.extend_from_slice(name.as_bytes());
        bytes.push(0);
    }
    EncodedEnvironment { bytes, left_out }
}

fn entry_size((name, value): &(OsString, OsString)) -> usize {
    name.len() + value.len() + b"=\0".len()
}

/// The error for bytes that are no environment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum EnvironmentError {
    #[error(
        "environment_too_large: a client may send at most {MAX_ENVIRONMENT_BYTES} bytes of environment variables; leave some out (environment.drop)"
    )]
    TooLarge,
    #[error(
        "bad_environment: an environment is sent as NAME=VALUE entries that each end in a NUL byte"
    )]
    Malformed,
}

/// Decodes an environment.
///
/// # Errors
/// When it is too large, or an entry has no name or no end.
pub fn decode_environment(bytes: &[u8]) -> Result<ClientEnvironment, EnvironmentError> {
    let mut environment = ClientEnvironment::default();
    if bytes.is_empty() {
        return Ok(environment);
    }
    if bytes.len() > MAX_ENVIRONMENT_BYTES {
        return Err(EnvironmentError::TooLarge);
    }
    let entries = bytes.strip_suffix(b"\0").ok_or(EnvironmentError::Malformed)?;
    for entry in entries.split(|byte| *byte == 0) {
        match entry.iter().position(|byte| *byte == b'=').unwrap_or(entry.len()) {
            0 => return Err(EnvironmentError::Malformed),
            end if end == entry.len() => {
                environment.withheld.push(String::from_utf8_lossy(entry).into_owned());
            }
            end => {
                let name = OsString::from_vec(entry[..end].to_vec());
                let value = OsString::from_vec(entry[end + 1..].to_vec());
                environment.variables.push((name, value));
            }
        }
    }
    Ok(environment)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pair(name: &str, value: &str) -> (OsString, OsString) {
        (name.into(), value.into())
    }

    #[test]
    fn an_environment_that_is_too_large_loses_its_largest_variables() {
        let large = "x".repeat(MAX_ENVIRONMENT_BYTES / 2);
        let variables =
            vec![pair("A", &large), pair("PATH", "/bin"), pair("B", &large), pair("HOME", "/h")];
        let withheld = vec!["API_KEY".to_owned()];
        let given = ClientEnvironment { variables: variables.clone(), withheld: withheld.clone() };
        let encoded = encode_environment(given);
        assert_eq!(encoded.left_out.len(), 1, "the other one fits");
        let decoded = decode_environment(&encoded.bytes).unwrap();
        assert_eq!(decoded.withheld, withheld);
        let kept = decoded.variables;
        assert_eq!(kept.len(), 3);
        assert!(kept.contains(&variables[1]) && kept.contains(&variables[3]));
    }

    #[test]
    fn bytes_that_are_no_environment_are_refused() {
        assert_eq!(decode_environment(b""), Ok(ClientEnvironment::default()));
        let expected =
            ClientEnvironment { variables: vec![pair("A", "")], withheld: vec!["B".to_owned()] };
        assert_eq!(decode_environment(b"A=\0B\0"), Ok(expected));
        for bytes in [&b"A=1"[..], b"A", b"=1\0", b"\0", b"A=1\0\0"] {
            assert_eq!(decode_environment(bytes), Err(EnvironmentError::Malformed), "{bytes:?}");
        }
        let large = vec![b'A'; MAX_ENVIRONMENT_BYTES + 1];
        assert_eq!(decode_environment(&large), Err(EnvironmentError::TooLarge));
    }

    proptest! {
        #[test]
        fn an_environment_is_decoded_as_it_was_encoded(
            variables in prop::collection::vec(("[A-Za-z_]{1,8}", "[^\0]{0,20}"), 0..12),
            withheld in prop::collection::vec("[A-Za-z_]{1,8}", 0..4),
        ) {
            let variables = variables.iter().map(|(name, value)| pair(name, value)).collect();
            let environment = ClientEnvironment { variables, withheld };
            let encoded = encode_environment(environment.clone());
            prop_assert_eq!(encoded.left_out, Vec::<OsString>::new());
            prop_assert_eq!(decode_environment(&encoded.bytes), Ok(environment));
        }
    }
}
