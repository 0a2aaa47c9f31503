//! Patience with a server that went away: the jobs of a durable server outlive its restart and its
//! upgrade, so that it is worth asking again.

use std::time::Duration;

use serde_json::Value;
use tokio::time::{Instant, sleep};

use super::server_request::{ServerRequestError, get, send_post};
use super::server_set::FoundJob;

/// The time without an answer after which the user is told.
const TELL_AFTER: Duration = Duration::from_secs(1);
/// The time after which a server counts as ended.
const GIVE_UP_AFTER: Duration = Duration::from_secs(60);
/// The pause after the first failure; it doubles up to the longest one.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// The time for which a server has not answered, and the number of attempts in it.
#[derive(Debug, Default)]
pub(super) struct Absence {
    since: Option<Instant>,
    failures: u32,
    is_told: bool,
}

/// The step after an attempt that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AbsenceStep {
    /// Ask again after this pause.
    Retry(Duration),
    /// The same, and tell the user now.
    TellAndRetry(Duration),
    GiveUp,
}

impl AbsenceStep {
    /// The time until the next attempt.
    pub(super) const fn pause(self) -> Duration {
        match self {
            Self::Retry(time) | Self::TellAndRetry(time) => time,
            Self::GiveUp => Duration::ZERO,
        }
    }
}

impl Absence {
    /// Notes an attempt that failed, and returns the next step.
    pub(super) fn note_failure(&mut self, now: Instant) -> AbsenceStep {
        let away = now.saturating_duration_since(*self.since.get_or_insert(now));
        if away >= GIVE_UP_AFTER {
            return AbsenceStep::GiveUp;
        }
        let pause = FIRST_PAUSE.saturating_mul(1 << self.failures.min(8)).min(LONGEST_PAUSE);
        self.failures += 1;
        if away >= TELL_AFTER && !std::mem::replace(&mut self.is_told, true) {
            return AbsenceStep::TellAndRetry(pause);
        }
        AbsenceStep::Retry(pause)
    }

    /// Notes an answer, and returns `true` if the user knows of the absence.
    pub(super) fn note_answer(&mut self) -> bool {
        std::mem::take(self).is_told
    }
}

/// Returns the error if asking again cannot help, or helps no longer: the jobs of an editor end with
/// its server, others may go on.
pub(super) fn check_return(
    job: &FoundJob,
    error: ServerRequestError,
    absence: &mut Absence,
) -> Result<AbsenceStep, ServerRequestError> {
    if !error.may_pass() {
        return Err(error);
    }
    let name = job.name.clone();
    let target = job.server.client.target().to_string();
    if job.server.name.is_stdio() && matches!(error, ServerRequestError::NoServer { .. }) {
        return Err(ServerRequestError::ServerEnded { job: name, target });
    }
    match absence.note_failure(Instant::now()) {
        AbsenceStep::GiveUp => {
            let seconds = GIVE_UP_AFTER.as_secs();
            Err(ServerRequestError::ServerLost { job: name, target, seconds })
        }
        step @ (AbsenceStep::Retry(_) | AbsenceStep::TellAndRetry(_)) => Ok(step),
    }
}

/// Returns the state of a job, also if its server is away for a while.
pub(super) async fn get_job_patiently(
    job: &FoundJob,
    query: &[(&str, String)],
) -> Result<Value, ServerRequestError> {
    let mut absence = Absence::default();
    loop {
        match get(&job.server.client, &job.url("", query)).await {
            Ok(state) => return Ok(state),
            Err(error) => sleep(check_return(job, error, &mut absence)?.pause()).await,
        }
    }
}

/// Sends a request that may arrive twice without harm, also if the server is away for a while.
pub(super) async fn post_patiently(
    job: &FoundJob,
    part: &str,
    body: &Value,
) -> Result<Value, ServerRequestError> {
    let mut absence = Absence::default();
    loop {
        match send_post(&job.server.client, &job.url(part, &[]), body).await {
            Ok(answer) => return Ok(answer),
            Err(error) => sleep(check_return(job, error, &mut absence)?.pause()).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_user_is_told_once_and_nobody_waits_for_ever() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let mut absence = Absence::default();
        assert_eq!(absence.note_failure(at(0)), AbsenceStep::Retry(FIRST_PAUSE));
        assert_eq!(absence.note_failure(at(900)), AbsenceStep::Retry(FIRST_PAUSE * 2));
        assert_eq!(absence.note_failure(at(1100)), AbsenceStep::TellAndRetry(FIRST_PAUSE * 4));
        assert_eq!(absence.note_failure(at(2000)), AbsenceStep::Retry(FIRST_PAUSE * 8));
        for _ in 0..100 {
            absence.note_failure(at(3000));
        }
        assert_eq!(absence.note_failure(at(3000)), AbsenceStep::Retry(LONGEST_PAUSE));
        assert_eq!(absence.note_failure(at(60_001)), AbsenceStep::GiveUp);
        assert!(absence.note_answer());
        assert_eq!(absence.note_failure(at(70_000)), AbsenceStep::Retry(FIRST_PAUSE));
        assert!(!absence.note_answer(), "a short absence");
    }
}
