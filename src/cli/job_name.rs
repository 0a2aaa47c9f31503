//! Names of jobs on the command line: `3`, or `SERVER/3` if several servers run.

use std::fmt;

use crate::ids::JobNumber;

/// The name of the server that `shellyard serve` started.
const SHARED_NAME: &str = "serve";

/// The name of a server among those of this user.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ServerLabel {
    /// The server of `--connect`.
    Given,
    /// The server that `shellyard serve` started, on its socket.
    Shared,
    /// The server of one client, by its process id.
    Stdio(u32),
}

impl ServerLabel {
    /// `true` for the server of one client.
    pub(super) const fn is_stdio(self) -> bool {
        match self {
            Self::Stdio(_) => true,
            Self::Given | Self::Shared => false,
        }
    }
}

impl fmt::Display for ServerLabel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Given | Self::Shared => f.write_str(SHARED_NAME),
            Self::Stdio(pid) => write!(f, "s{pid}"),
        }
    }
}

/// The name of a job as typed: its number, and its server if that was given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobName {
    pub server: Option<ServerLabel>,
    pub number: JobNumber,
}

impl fmt::Display for JobName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.server {
            Some(server) => write!(f, "{server}/{}", self.number),
            None => write!(f, "{}", self.number),
        }
    }
}

/// Parses `3`, `serve/3`, `s1234/3` or `1234/3`.
pub(super) fn parse_job_name(text: &str) -> Result<JobName, String> {
    let bad = || {
        "give the number of a job, such as 3, or SERVER/NUMBER, such as s1234/3; `shellyard jobs` lists them"
            .to_owned()
    };
    let (server, number) = match text.split_once('/') {
        None => (None, text),
        Some((SHARED_NAME, number)) => (Some(ServerLabel::Shared), number),
        Some((server, number)) => {
            let pid = server.strip_prefix('s').unwrap_or(server);
            (Some(ServerLabel::Stdio(pid.parse().map_err(|_| bad())?)), number)
        }
    };
    Ok(JobName { server, number: number.parse().map_err(|_| bad())? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_a_number_and_perhaps_a_server() {
        let name = |server, number| JobName { server, number: JobNumber::new(number) };
        for (text, expected) in [
            ("3", name(None, 3)),
            ("serve/3", name(Some(ServerLabel::Shared), 3)),
            ("s1234/12", name(Some(ServerLabel::Stdio(1234)), 12)),
            ("1234/12", name(Some(ServerLabel::Stdio(1234)), 12)),
        ] {
            assert_eq!(parse_job_name(text).unwrap(), expected, "{text}");
        }
        assert_eq!(parse_job_name("1234/12").unwrap().to_string(), "s1234/12");
        for text in ["", "x", "0", "-1", "s/3", "s1/", "a/b/3", "ss1/3", "3/"] {
            assert!(parse_job_name(text).is_err_and(|why| why.contains("s1234/3")), "{text}");
        }
    }
}
