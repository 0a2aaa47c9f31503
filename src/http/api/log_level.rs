//! `/log-level`: which log lines are written.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::response::Response;
use serde::Deserialize;
use serde_json::json;

use super::admin::without_nulls;
use super::error::ApiError;
use super::jobs::json as answer;
use super::order::Order;
use super::routes::Api;
use crate::telemetry::FilterStatus;

/// The longest that a filter may be chosen for: what shall stay longer belongs into the settings.
const MAX_TIME: Duration = Duration::from_hours(7 * 24);

/// Which lines shall be written.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Wish {
    /// The filter; without one the configured one holds again.
    #[serde(default)]
    filter: Option<String>,
    /// After so many seconds the configured one comes back.
    #[serde(default)]
    for_s: Option<f64>,
}

/// Which lines are written.
pub(super) async fn show(State(api): State<Arc<Api>>, _: Order) -> Result<Response, ApiError> {
    Ok(shown(api.operations.log().status()))
}

/// Chooses which lines are written, for a while or until the next choice.
pub(super) async fn choose(
    State(api): State<Arc<Api>>,
    Order { by, wish }: Order<Wish>,
) -> Result<Response, ApiError> {
    let Wish { filter, for_s } = wish;
    let log = api.operations.log();
    let done = match (filter, time(for_s)?) {
        (None, None) => {
            log.reset();
            format!("{}, as configured", log.status().filter)
        }
        (None, Some(_)) => {
            let why = "`for_s` says how long a `filter` holds, and there is none".to_owned();
            return Err(ApiError::BadBody { why });
        }
        (Some(filter), time) => {
            log.choose(&filter, time)?;
            time.map_or_else(|| filter.clone(), |time| format!("{filter} for {time:?}"))
        }
    };
    api.yard.note_log_filter(&done, by);
    Ok(shown(log.status()))
}

fn time(seconds: Option<f64>) -> Result<Option<Duration>, ApiError> {
    let Some(seconds) = seconds else { return Ok(None) };
    let time = Duration::try_from_secs_f64(seconds).ok();
    let fits = time.filter(|time| !time.is_zero() && *time <= MAX_TIME);
    let why = "`for_s` must be a number of seconds above 0, at most a week".to_owned();
    fits.map(Some).ok_or(ApiError::BadBody { why })
}

fn shown(status: FilterStatus) -> Response {
    let FilterStatus { filter, configured, remaining } = status;
    let for_s = remaining.map(|time| time.as_secs_f64().ceil() as u64);
    answer(&without_nulls(json!({"filter": filter, "configured": configured, "for_s": for_s})))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_more_than_nothing_and_at_most_a_week() {
        assert_eq!(time(None).unwrap(), None);
        assert_eq!(time(Some(0.5)).unwrap(), Some(Duration::from_millis(500)));
        assert_eq!(time(Some(604_800.0)).unwrap(), Some(MAX_TIME));
        for bad in [0.0, -1.0, 604_801.0, f64::NAN, f64::INFINITY] {
            assert_eq!(time(Some(bad)).unwrap_err().code(), "bad_body", "{bad}");
        }
    }
}
