//! Retries while a server is away: the jobs of a durable server outlive its restart and its upgrade, so
//! that it is worth asking again. A server that comes back may be another one, with other jobs.

use std::time::Duration;

use serde_json::Value;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use tokio::time::{Instant, sleep};

use super::server_request::{ServerRequestError, get, send_post};
use super::server_set::FoundJob;

/// The time without an answer after which the outage is announced to the user.
const ANNOUNCE_AFTER: Duration = Duration::from_secs(1);
/// The time after which a server counts as ended.
const GIVE_UP_AFTER: Duration = Duration::from_secs(60);
/// The pause after the first failure; it doubles up to the longest one.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// The largest difference between two times of the same submission.
const MAX_TIME_ERROR: time::Duration = time::Duration::seconds(1);

/// The message about a server that does not answer.
pub(super) const LOST_MESSAGE: &str =
    "the connection to the server is lost; trying again for a minute";

/// The time for which a server has not answered, and the number of attempts in it.
#[derive(Debug, Default)]
pub(super) struct ServerOutage {
    since: Option<Instant>,
    failures: u32,
    is_announced: bool,
    is_return_announced: bool,
}

/// The next attempt after one that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Retry {
    /// The time until the attempt.
    pub(super) pause: Duration,
    /// `true` if the user is to learn of the outage now.
    pub(super) announce: bool,
}

impl ServerOutage {
    /// `true` from the first failure to the end of the outage.
    pub(super) const fn is_ongoing(&self) -> bool {
        self.since.is_some()
    }

    /// Notes an attempt that failed, and returns the next one, or `None` if it is time to give up.
    fn note_failure(&mut self, now: Instant) -> Option<Retry> {
        let away = now.saturating_duration_since(*self.since.get_or_insert(now));
        if away >= GIVE_UP_AFTER {
            return None;
        }
        let pause = FIRST_PAUSE.saturating_mul(1 << self.failures.min(8)).min(LONGEST_PAUSE);
        self.failures += 1;
        let announce = away >= ANNOUNCE_AFTER && !std::mem::replace(&mut self.is_announced, true);
        Some(Retry { pause, announce })
    }

    /// Notes an attempt that failed for a reason that may pass.
    ///
    /// # Errors
    /// When the server has been away for too long.
    pub(super) fn retry(&mut self, job: &FoundJob) -> Result<Retry, ServerRequestError> {
        self.note_failure(Instant::now()).ok_or_else(|| ServerRequestError::ServerLost {
            job: job.name.clone(),
            target: job.server.client.target().to_string(),
            seconds: GIVE_UP_AFTER.as_secs(),
        })
    }

    /// Notes a sign of life that does not end the outage, and returns `true` if the user is to learn
    /// of it: once, and only if the outage was announced.
    pub(super) fn note_return(&mut self) -> bool {
        self.is_announced && !std::mem::replace(&mut self.is_return_announced, true)
    }

    /// Ends the outage, and returns `true` if it was announced.
    pub(super) fn end(&mut self) -> bool {
        std::mem::take(self).is_announced
    }
}

/// Returns the next attempt after an error.
///
/// # Errors
/// The error, if asking again cannot help, or helps no longer: the jobs of an editor end with its
/// server, others may go on.
pub(super) fn next_retry(
    job: &FoundJob,
    error: ServerRequestError,
    outage: &mut ServerOutage,
) -> Result<Retry, ServerRequestError> {
    // A server that is back does not know the job, or has less output than was read.
    let is_other = ["unknown_job", "range_not_satisfiable"].contains(&error.code());
    if outage.is_ongoing() && is_other {
        return Err(other_server_error(job));
    }
    if !error.is_transient() {
        return Err(error);
    }
    if job.server.name.is_stdio() && matches!(error, ServerRequestError::NoServer { .. }) {
        let target = job.server.client.target().to_string();
        return Err(ServerRequestError::ServerEnded { job: job.name.clone(), target });
    }
    outage.retry(job)
}

/// The facts by which a job is told from one with the same number in another server.
#[derive(Debug, Clone, PartialEq, Eq)]
struct JobIdentity {
    command: String,
    submitted_at: Option<OffsetDateTime>,
}

impl JobIdentity {
    fn new(state: &Value) -> Self {
        let text = |name: &str| state[name].as_str().unwrap_or_default();
        Self {
            command: text("command").to_owned(),
            submitted_at: OffsetDateTime::parse(text("submitted_at"), &Rfc3339).ok(),
        }
    }

    /// `true` if both can be the same job. A server that goes on with a job may know the time of its
    /// submission a little less exactly.
    fn is_same_job(&self, other: &Self) -> bool {
        let is_near = match (self.submitted_at, other.submitted_at) {
            (Some(one), Some(other)) => (one - other).abs() <= MAX_TIME_ERROR,
            (None, _) | (_, None) => true,
        };
        is_near && self.command == other.command
    }
}

/// Checks that a state is that of the job that was found at the beginning.
///
/// # Errors
/// When the server was started anew, and has another job with this number.
pub(super) fn check_same_job(job: &FoundJob, state: &Value) -> Result<(), ServerRequestError> {
    if JobIdentity::new(&job.state).is_same_job(&JobIdentity::new(state)) {
        return Ok(());
    }
    Err(other_server_error(job))
}

fn other_server_error(job: &FoundJob) -> ServerRequestError {
    let target = job.server.client.target().to_string();
    ServerRequestError::OtherServer { job: job.name.clone(), target }
}

/// Returns the state of a job, if the server still has the same job.
pub(super) async fn get_same_job(
    job: &FoundJob,
    query: &[(&str, String)],
) -> Result<Value, ServerRequestError> {
    let state = get(&job.server.client, &job.url("", query)).await?;
    check_same_job(job, &state)?;
    Ok(state)
}

/// Returns the state of a job, also if its server is away for a while.
pub(super) async fn get_job_with_retry(
    job: &FoundJob,
    query: &[(&str, String)],
) -> Result<Value, ServerRequestError> {
    let mut outage = ServerOutage::default();
    loop {
        match get_same_job(job, query).await {
            Ok(state) => return Ok(state),
            Err(error) => sleep(next_retry(job, error, &mut outage)?.pause).await,
        }
    }
}

/// Sends a request that may arrive twice without harm, also if the server is away for a while. A server
/// that comes back with another job gets no request.
pub(super) async fn post_with_retry(
    job: &FoundJob,
    part: &str,
    body: &Value,
) -> Result<Value, ServerRequestError> {
    let mut outage = ServerOutage::default();
    loop {
        let attempt = async {
            get_same_job(job, &[]).await?;
            send_post(&job.server.client, &job.url(part, &[]), body).await
        };
        match attempt.await {
            Ok(answer) => return Ok(answer),
            Err(error) => sleep(next_retry(job, error, &mut outage)?.pause).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_outage_is_announced_once_and_nobody_waits_for_ever() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let retry = |pause, announce| Some(Retry { pause, announce });
        let mut outage = ServerOutage::default();
        assert_eq!(outage.note_failure(at(0)), retry(FIRST_PAUSE, false));
        assert_eq!(outage.note_failure(at(900)), retry(FIRST_PAUSE * 2, false));
        assert!(!outage.note_return(), "the user does not know of the outage");
        assert_eq!(outage.note_failure(at(1100)), retry(FIRST_PAUSE * 4, true));
        assert_eq!(outage.note_failure(at(2000)), retry(FIRST_PAUSE * 8, false));
        assert!(outage.note_return() && !outage.note_return(), "said once");
        for _ in 0..100 {
            outage.note_failure(at(3000));
        }
        assert_eq!(outage.note_failure(at(3000)), retry(LONGEST_PAUSE, false));
        assert_eq!(outage.note_failure(at(60_001)), None);
        assert!(outage.is_ongoing() && outage.end() && !outage.is_ongoing());
        assert_eq!(outage.note_failure(at(70_000)), retry(FIRST_PAUSE, false));
        assert!(!outage.end(), "a short outage");
    }

    #[test]
    fn a_job_of_another_server_is_told_by_its_command_or_its_time() {
        let job = |command: &str, submitted_at: &str| {
            JobIdentity::new(&json!({"command": command, "submitted_at": submitted_at}))
        };
        let followed = job("make", "2026-01-02T00:00:00.990Z");
        assert!(followed.is_same_job(&job("make", "2026-01-02T00:00:00.991Z")));
        assert!(!followed.is_same_job(&job("make", "2026-01-02T00:01:00Z")));
        assert!(!followed.is_same_job(&job("ls", "2026-01-02T00:00:00.990Z")));
    }
}
