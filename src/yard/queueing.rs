//! What whoever runs the server may do to the queue while it runs. Each is written down.

use super::door::Yard;
use super::gate::Rules;
use super::identity::Identity;
use super::submission::Defaults;
use crate::output::QuotaLimits;
#[cfg(test)]
use crate::supervisor::Pressure;
use crate::supervisor::{QueueLimits, QueueOverview, UnknownLane};
use crate::telemetry::events;

/// Everything that a running yard can take over.
#[derive(Debug)]
pub struct Tuning {
    /// What may run, where, and what is masked.
    pub rules: Rules,
    /// Defaults and bounds of submissions.
    pub defaults: Defaults,
    /// Bounds of the queue.
    pub queue: QueueLimits,
    /// Caps on stored output.
    pub quota: QuotaLimits,
}

/// What becomes of the server once it has drained.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AfterDrain {
    /// It stays, and can take new jobs again.
    Stay,
    /// It ends.
    Exit,
}

impl Yard {
    /// Nothing starts any more, in this lane or at all; what runs goes on.
    ///
    /// # Errors
    /// When there is no such lane.
    pub async fn pause(&self, lane: Option<String>, by: Identity) -> Result<(), UnknownLane> {
        let what = which(lane.as_deref());
        self.supervisor.pause(lane).await?;
        self.operated("queue_paused", &what, by);
        Ok(())
    }

    /// Jobs start again, in this lane or in all of them.
    ///
    /// # Errors
    /// When there is no such lane.
    pub async fn resume(&self, lane: Option<String>, by: Identity) -> Result<(), UnknownLane> {
        let what = which(lane.as_deref());
        self.supervisor.resume(lane).await?;
        self.operated("queue_resumed", &what, by);
        Ok(())
    }

    /// From now on no new job is taken; those that wait and run go on to their ends.
    pub async fn begin_drain(&self, after: AfterDrain, by: Identity) {
        self.supervisor.begin_drain().await;
        let what = match after {
            AfterDrain::Stay => "no new jobs are taken",
            AfterDrain::Exit => "no new jobs are taken, and the server ends after the last one",
        };
        self.operated("drain_begun", what, by);
    }

    /// New jobs are taken again, unless the server is shutting down.
    pub async fn end_drain(&self, by: Identity) {
        self.supervisor.end_drain().await;
        self.operated("drain_ended", "new jobs are taken again", by);
    }

    /// From now on all of this holds; jobs that are accepted already go on as they were accepted.
    /// `changed` are the settings that differ from before.
    pub async fn tune(&self, tuning: Tuning, by: Identity, changed: &[String]) {
        let Tuning { rules, defaults, queue, quota } = tuning;
        self.gate.replace(rules);
        self.spilled.forget_packed();
        self.replace_defaults(defaults);
        self.supervisor.change_limits(queue).await;
        self.change_quota(quota);
        let what = if changed.is_empty() { "nothing changed".into() } else { changed.join(", ") };
        self.operated("settings_reloaded", &what, by);
    }

    /// Writes down that new settings could not be used, and the old ones hold.
    pub fn keep_tuning(&self, why: &str, by: Identity) {
        self.operated("reload_refused", why, by);
    }

    /// Writes down which log lines are written from now on.
    pub fn note_log_filter(&self, what: &str, by: Identity) {
        self.operated("log_filter_changed", what, by);
    }

    /// All figures of the queue.
    pub async fn queue_overview(&self) -> QueueOverview {
        self.supervisor.overview().await
    }

    /// From now on the host is short of this, or of nothing.
    #[cfg(test)]
    pub(super) fn set_pressure(&self, pressure: Option<Pressure>) {
        self.supervisor.set_pressure(pressure);
    }

    /// Somebody who may has changed what concerns all tenants.
    fn operated(&self, what: &str, detail: &str, by: Identity) {
        events::operated(what, detail, by.tenant);
        self.gate.note(what, &format!("{detail} (by {})", by.tenant));
    }
}

fn which(lane: Option<&str>) -> String {
    lane.map_or_else(|| "all lanes".to_owned(), |lane| format!("lane {lane}"))
}
