//! The dashboards and the rules of Prometheus hold what they promise: they speak of metrics that
//! exist, with labels that exist, and no metric is forgotten. The checks are pure functions, so that
//! each is shown to catch a made-up violation as well.
//!
//! - [`promql`]: what a query speaks of.
//! - [`known`]: what there is to speak of.
//! - [`board`]: a dashboard as Grafana gets it.
//! - [`checks`]: what must hold for a query, a panel, a dashboard.
//! - [`rules`]: the rule files, and their runbooks.
//! - [`commands`]: what all of them tell people to run.

mod board;
mod checks;
mod commands;
mod known;
mod promql;
mod rules;
mod tests;
