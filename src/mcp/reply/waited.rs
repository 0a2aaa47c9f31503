//! What a wait brought that is not of any one job: a port, or nothing at all.

use std::time::Duration;

use super::answer::Answer;
use super::hint::list;
use super::words::soon;
use crate::ids::JobId;

/// From so many waits in a row on that brought nothing, a caller is told to do something else.
const TOO_MANY: u32 = 3;

/// What is known of a port that was waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Listening {
    /// Somebody listened on it before the wait.
    Already,
    /// Somebody began to during the wait.
    Now,
    /// Nobody does, as far as was looked.
    No,
}

impl Listening {
    const fn words(self) -> &'static str {
        match self {
            Self::Already => "listens already, whoever holds it",
            Self::Now => "listens",
            Self::No => "does not listen",
        }
    }
}

impl Answer {
    /// The same, with a first line about a port.
    pub(crate) fn with_port(self, port: u16, listening: Listening) -> Self {
        let is_listened_on = match listening {
            Listening::Already | Listening::Now => true,
            Listening::No => false,
        };
        self.with_headline(format!("port {port} {}", listening.words()))
            .with_field("port", port)
            .with_field("listening", is_listened_on)
    }
}

/// A wait that was over before anything came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct VainWait {
    /// It and those before it of the same caller for the same jobs.
    pub(crate) in_a_row: u32,
    /// How long it was, where that is less than was asked for.
    pub(crate) cut_to: Option<Duration>,
    /// Where a line was looked for, where what is before that was shown to the caller earlier.
    pub(crate) looked_from: Option<u64>,
}

impl VainWait {
    /// What to do next about jobs that go on: what else there is to say, and not to poll.
    pub(crate) fn said(self, open: &[JobId], next: Option<String>) -> Option<String> {
        let [first, others @ ..] = open else { return next };
        if self.in_a_row >= TOO_MANY {
            let (waits, jobs) = (self.in_a_row, list(open));
            let them = if others.is_empty() { "it" } else { "them" };
            return Some(format!(
                "{waits} waits in a row brought nothing: stop polling, do other work or end your \
                 turn; read_output(job={first}, view=\"tail\") shows how far job {first} is, \
                 stop_jobs(jobs=[{jobs}]) ends {them}"
            ));
        }
        let cut = self.cut_to.map(|most| format!("{} is the longest wait of one call", soon(most)));
        let looked = self.looked_from.map(|from| {
            format!("until was looked for from cursor=\"bytes:{from}\" on: what is before was shown to you")
        });
        let said: Vec<String> = looked.into_iter().chain(cut).chain(next).collect();
        (!said.is_empty()).then(|| said.join("; "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{JobNumber, Tenant};

    #[test]
    fn who_polls_is_told_to_stop_and_who_waited_long_why_it_came_back() {
        let open = [JobNumber::new(7).of(Tenant::LOCAL)];
        let said = |in_a_row, cut_to, open: &[JobId]| {
            VainWait { in_a_row, cut_to, looked_from: None }
                .said(open, Some("next".to_owned()))
                .unwrap()
        };
        assert_eq!(said(1, None, &open), "next");
        let cut = said(2, Some(Duration::from_secs(50)), &open);
        assert_eq!(cut, "50s is the longest wait of one call; next");
        let enough = said(3, None, &open);
        assert!(enough.starts_with("3 waits in a row brought nothing: stop polling"), "{enough}");
        let next =
            "read_output(job=7, view=\"tail\") shows how far job 7 is, stop_jobs(jobs=[7]) ends it";
        assert!(enough.ends_with(next), "{enough}");
        assert_eq!(said(9, None, &[]), "next", "all have ended");
        let looked = VainWait { in_a_row: 1, cut_to: None, looked_from: Some(40) };
        let looked = looked.said(&open, Some("next".to_owned())).unwrap();
        assert!(looked.starts_with("until was looked for from cursor=\"bytes:40\" on"), "{looked}");
        assert!(looked.ends_with("; next"), "{looked}");
    }
}
