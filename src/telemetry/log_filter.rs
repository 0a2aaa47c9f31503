//! Which log lines are written, and how that changes while the process runs.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tracing_subscriber::{EnvFilter, Registry, reload};

use super::events;
use crate::filter::{self, FilterError};

/// Spans tell to which trace a line belongs: no filter hides that.
const SPANS: &str = concat!(env!("CARGO_CRATE_NAME"), "::telemetry::spans=error");

/// Where the filter stands among the layers.
pub(super) type FilterLayer = reload::Layer<EnvFilter, Registry>;

/// Which log lines are written: as configured, or as somebody chose for a while. A cheap clone.
#[derive(Clone)]
pub struct LogFilter {
    layer: reload::Handle<EnvFilter, Registry>,
    state: Arc<Mutex<State>>,
}

/// What holds, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilterStatus {
    /// The filter that holds.
    pub filter: String,
    /// The one of the settings, which comes back.
    pub configured: String,
    /// When it does, if that is set.
    pub remaining: Option<Duration>,
}

#[derive(Debug)]
struct State {
    configured: String,
    chosen: Option<Chosen>,
    /// Counts changes: a timer that was set before the last one has nothing to say any more.
    turn: u64,
}

#[derive(Debug)]
struct Chosen {
    filter: String,
    until: Option<Instant>,
}

impl State {
    fn filter(&self) -> &str {
        self.chosen.as_ref().map_or(&self.configured, |chosen| &chosen.filter)
    }
}

impl LogFilter {
    /// A layer that lets through what `configured` says, and what changes it.
    pub(super) fn new(configured: &str) -> Result<(FilterLayer, Self), FilterError> {
        let (layer, handle) = reload::Layer::new(parse(configured)?);
        let state = State { configured: configured.to_owned(), chosen: None, turn: 0 };
        Ok((layer, Self { layer: handle, state: Arc::new(Mutex::new(state)) }))
    }

    /// What holds, and why.
    #[must_use]
    pub fn status(&self) -> FilterStatus {
        let state = self.state();
        let until = state.chosen.as_ref().and_then(|chosen| chosen.until);
        FilterStatus {
            filter: state.filter().to_owned(),
            configured: state.configured.clone(),
            remaining: until.map(|until| until.saturating_duration_since(Instant::now())),
        }
    }

    /// This filter holds from now on, and with a time the configured one comes back after it.
    /// Call it inside of a runtime, which has the clock.
    ///
    /// # Errors
    /// When the text is no filter. Nothing changes then.
    pub fn choose(&self, filter: &str, time: Option<Duration>) -> Result<(), FilterError> {
        let parsed = parse(filter)?;
        let until = time.and_then(|time| Instant::now().checked_add(time));
        let mut state = self.state();
        state.chosen = Some(Chosen { filter: filter.to_owned(), until });
        let turn = self.put(state, parsed);
        if let Some(time) = time {
            tokio::spawn(self.clone().come_back(time, turn));
        }
        Ok(())
    }

    /// The filter of the settings holds again.
    pub fn reset(&self) {
        self.take_back(self.state());
    }

    /// The settings have changed: this filter holds from now on, whatever was chosen before.
    ///
    /// # Errors
    /// When the text is no filter. Nothing changes then.
    pub fn configure(&self, filter: &str) -> Result<(), FilterError> {
        let parsed = parse(filter)?;
        let mut state = self.state();
        filter.clone_into(&mut state.configured);
        state.chosen = None;
        self.put(state, parsed);
        Ok(())
    }

    async fn come_back(self, after: Duration, turn: u64) {
        tokio::time::sleep(after).await;
        let state = self.state();
        if state.turn == turn {
            let configured = state.configured.clone();
            self.take_back(state);
            events::log_filter_came_back(&configured);
        }
    }

    fn take_back(&self, mut state: MutexGuard<'_, State>) {
        // It could be read when it was configured.
        if let Ok(filter) = parse(&state.configured) {
            state.chosen = None;
            self.put(state, filter);
        }
    }

    /// What is known has changed: so does what holds, before anybody can look. Tells how many
    /// changes there were.
    fn put(&self, mut state: MutexGuard<'_, State>, filter: EnvFilter) -> u64 {
        state.turn += 1;
        // Where the log is gone, no line is written anyway.
        self.layer.reload(filter).ok();
        state.turn
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for LogFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LogFilter").field("state", &self.state).finish_non_exhaustive()
    }
}

fn parse(filter: &str) -> Result<EnvFilter, FilterError> {
    let filter = filter::parse(filter)?;
    Ok(match SPANS.parse() {
        Ok(spans) => filter.add_directive(spans),
        // A constant that can be read.
        Err(_) => filter,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Without its layer, whose changes would be felt by the logs of other tests.
    fn filter() -> LogFilter {
        LogFilter::new("info").unwrap().1
    }

    fn status(filter: &str, configured: &str) -> FilterStatus {
        let (filter, configured) = (filter.to_owned(), configured.to_owned());
        FilterStatus { filter, configured, remaining: None }
    }

    #[test]
    fn what_was_chosen_holds_until_it_is_reset_or_the_settings_change() {
        let log = filter();
        log.choose("debug", None).unwrap();
        assert_eq!(log.status(), status("debug", "info"));
        log.reset();
        assert_eq!(log.status(), status("info", "info"));
        log.choose("trace", None).unwrap();
        log.configure("warn").unwrap();
        assert_eq!(log.status(), status("warn", "warn"));
    }

    #[test]
    fn what_is_no_filter_changes_nothing() {
        let log = filter();
        log.choose("debug", None).unwrap();
        for bad in ["shellyard=loud", "debgu", ""] {
            assert_eq!(log.choose(bad, None).unwrap_err().code(), "log_filter");
            let error = log.configure(bad).unwrap_err().to_string();
            assert!(error.contains(bad) && error.contains("shellyard=debug"), "{error}");
        }
        assert_eq!(log.status(), status("debug", "info"));
    }

    #[tokio::test]
    async fn what_was_chosen_for_a_time_ends_with_it() {
        let log = filter();
        let minute = Duration::from_secs(60);
        log.choose("debug", Some(minute)).unwrap();
        assert!(log.status().remaining.is_some_and(|left| left <= minute));
        let turn = log.state().turn;
        log.clone().come_back(Duration::ZERO, turn).await;
        assert_eq!(log.status(), status("info", "info"));
    }

    #[tokio::test]
    async fn a_later_choice_outlives_the_time_of_an_earlier_one() {
        let log = filter();
        log.choose("debug", Some(Duration::from_secs(60))).unwrap();
        let turn = log.state().turn;
        log.choose("trace", None).unwrap();
        log.clone().come_back(Duration::ZERO, turn).await;
        assert_eq!(log.status(), status("trace", "info"));
    }
}
