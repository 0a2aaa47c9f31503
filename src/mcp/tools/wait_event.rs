//! What a wait for jobs can bring: an end, a line, quiet, a port.

use std::future::pending;
use std::pin::Pin;
use std::time::{Duration, Instant};

use futures_util::future::{join_all, select_all};
use tokio::time::sleep;

use super::place::{offset_of, place_of_cursor};
use super::until::{Matched, first_match};
use crate::mcp::reply::{Shown, ToolError, show, show_from};
use crate::mcp::snapshot::Snapshot;
use crate::output::excerpt::Budget;
use crate::output::pattern::Pattern;
use crate::yard::{Desk, JobHandle};

/// From one look at who listens to the next: the kernel does not say when that changes.
const LOOK_AGAIN: Duration = Duration::from_millis(200);

/// Whether a wait is over with the first job or with the last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    Any,
    All,
}

/// What is waited for in a job, beside its end.
#[derive(Debug, Default)]
pub(super) struct Signs {
    /// A line of its output that matches.
    pub(super) until: Option<Pattern>,
    /// No output for so long.
    pub(super) quiet: Option<Duration>,
}

/// What came of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sign {
    /// It ended.
    Ended,
    /// This line matched.
    Line(Matched),
    /// It wrote nothing for as long as was asked.
    Quiet,
}

/// What came of the job at `index`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Settled {
    pub(super) index: usize,
    pub(super) sign: Sign,
}

/// Sooner or later, what comes of one job.
pub(super) type Event<'a> = Pin<Box<dyn Future<Output = Sign> + Send + 'a>>;

/// One job that is waited for.
#[derive(Debug)]
pub(super) struct Wait<'a> {
    pub(super) job: &'a JobHandle,
    /// Where new output starts, if the caller says so.
    pub(super) since: Option<u64>,
    /// Where a line is looked for: from there on, else from the first that the caller has not
    /// been shown. It may have been written before the call.
    pub(super) from: u64,
}

impl<'a> Wait<'a> {
    pub(super) async fn new(
        desk: &Desk,
        job: &'a JobHandle,
        cursor: Option<&str>,
    ) -> Result<Self, ToolError> {
        let since = match cursor {
            Some(cursor) => Some(offset_of(place_of_cursor(cursor, job).await?, job.output())),
            None => None,
        };
        let from = since.unwrap_or_else(|| desk.unseen_from(job.id()));
        Ok(Self { job, since, from })
    }

    /// Over once the job ended, or one of the signs came.
    pub(super) fn event<'b>(&'b self, signs: &'b Signs) -> Event<'b> {
        Box::pin(async move {
            tokio::select! {
                // A job's last words are matched before its end is seen, and one that has ended
                // is not called quiet.
                biased;
                line = self.line(signs.until.as_ref()) => Sign::Line(line),
                _ = self.job.finished() => Sign::Ended,
                () = quiet(self.job, signs.quiet) => Sign::Quiet,
            }
        })
    }

    /// The first line that matches. A log that ends without one, or cannot be read, has none: its
    /// job still ends.
    async fn line(&self, until: Option<&Pattern>) -> Matched {
        let Some(pattern) = until else { return pending().await };
        match first_match(self.job.output(), self.from, pattern).await {
            Ok(Some(line)) => line,
            Ok(None) | Err(_) => pending().await,
        }
    }

    /// What of its output is shown: of a job of which nothing came, only what the caller has not
    /// seen.
    pub(super) async fn shown(
        &self,
        now: &Snapshot,
        sign: Option<Sign>,
        budget: Budget,
    ) -> Result<Option<Shown>, ToolError> {
        match self.since {
            Some(since) => show_from(now, self.job.output(), since, budget).await.map(Some),
            None if now.ending().is_some() || sign.is_some() => {
                show(now, self.job.output(), budget).await
            }
            None => Ok(None),
        }
    }
}

/// Returns once the job has written nothing for so long: since its last output, or since its start.
async fn quiet(job: &JobHandle, wanted: Option<Duration>) {
    let Some(wanted) = wanted else { return pending().await };
    job.started().await;
    loop {
        let last = job.output().progress().last_output.or(job.status().started);
        let left = wanted.saturating_sub(last.as_ref().map_or(Duration::MAX, Instant::elapsed));
        if left.is_zero() {
            return;
        }
        sleep(left).await;
    }
}

/// Returns once somebody listens on this port, where one is asked for.
pub(super) async fn listened_on(desk: &Desk, port: Option<u16>) {
    let Some(port) = port else { return pending().await };
    while !desk.is_listened_on(port).await {
        sleep(LOOK_AGAIN).await;
    }
}

/// Waits for any or for all of the events, and says which came.
pub(super) async fn settled(mode: Mode, events: Vec<Event<'_>>) -> Vec<Settled> {
    match mode {
        Mode::Any => {
            let (sign, index, _) = select_all(events).await;
            vec![Settled { index, sign }]
        }
        Mode::All => {
            let signs = join_all(events).await;
            signs.into_iter().enumerate().map(|(index, sign)| Settled { index, sign }).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use super::*;

    const MATCHED: Matched = Matched { line: 7, end: 70 };

    fn event<'a>(event: impl Future<Output = Sign> + Send + 'a) -> Event<'a> {
        Box::pin(event)
    }

    #[tokio::test]
    async fn any_returns_with_the_first_and_all_with_the_last() {
        let events = vec![event(pending()), event(ready(Sign::Line(MATCHED)))];
        let expected = [Settled { index: 1, sign: Sign::Line(MATCHED) }];
        assert_eq!(settled(Mode::Any, events).await, expected);
        let events = vec![event(ready(Sign::Ended)), event(ready(Sign::Quiet))];
        assert_eq!(settled(Mode::All, events).await.len(), 2);
    }
}
