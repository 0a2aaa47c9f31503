//! All end-to-end tests, in one binary: the product by its real program, on both transports.
//!
//! Each module is one topic; `harness` is what they stand on, `tidy` reads the source itself.

#[cfg(test)]
mod actors;
#[cfg(test)]
mod admin;
#[cfg(test)]
mod api;
#[cfg(test)]
mod audit;
#[cfg(test)]
mod bad_input;
#[cfg(test)]
mod budget;
#[cfg(test)]
mod cancelling;
#[cfg(test)]
mod child_limits;
#[cfg(test)]
mod cli;
#[cfg(test)]
mod client_settings;
#[cfg(test)]
mod compression;
#[cfg(test)]
mod confined;
#[cfg(test)]
mod confinement;
#[cfg(test)]
mod dashboards;
#[cfg(test)]
mod demo_load;
#[cfg(test)]
mod detaching;
#[cfg(test)]
mod dialect;
#[cfg(test)]
mod digest;
#[cfg(test)]
mod durability;
#[cfg(test)]
mod empty_arguments;
#[cfg(test)]
mod endings;
#[cfg(test)]
mod environment;
#[cfg(test)]
mod escapes;
#[cfg(test)]
mod floods;
#[cfg(test)]
mod giving_up;
#[cfg(test)]
mod half_close;
#[cfg(test)]
mod hardening;
#[cfg(test)]
mod harness;
#[cfg(test)]
mod hints;
#[cfg(test)]
mod http;
#[cfg(test)]
mod http_output;
#[cfg(test)]
mod hygiene;
mod idle_jobs;
#[cfg(test)]
mod input;
#[cfg(test)]
mod install;
#[cfg(test)]
mod introduction;
#[cfg(test)]
mod journal;
#[cfg(test)]
mod log_traces;
#[cfg(test)]
mod logs;
#[cfg(test)]
mod many_sessions;
#[cfg(test)]
mod misshaped;
#[cfg(test)]
mod mistakes;
#[cfg(test)]
mod nothing_twice;
#[cfg(test)]
mod operations;
mod operators;
#[cfg(test)]
mod otlp;
#[cfg(all(test, feature = "otlp"))]
mod otlp_calls;
#[cfg(test)]
mod output;
#[cfg(test)]
mod patience;
#[cfg(test)]
mod policy;
#[cfg(test)]
mod pressure;
#[cfg(test)]
mod prompts;
mod protocol;
#[cfg(test)]
mod proxy;
#[cfg(test)]
mod queue;
#[cfg(test)]
mod quotas;
#[cfg(test)]
mod read_memory;
#[cfg(test)]
mod redact;
mod refusals;
#[cfg(test)]
mod replies;
#[cfg(test)]
mod resources;
#[cfg(test)]
mod retention;
#[cfg(test)]
mod scrape;
#[cfg(test)]
mod sdk;
#[cfg(test)]
mod search;
#[cfg(test)]
mod sessions;
#[cfg(test)]
mod shutdown;
#[cfg(test)]
mod store;
#[cfg(test)]
mod streams;
mod stuck_disk;
#[cfg(test)]
mod subscriptions;
#[cfg(test)]
mod task_limit;
#[cfg(test)]
mod tasks;
#[cfg(test)]
mod tenants;
#[cfg(test)]
mod tidy;
#[cfg(test)]
mod trace;
#[cfg(test)]
mod views;
#[cfg(test)]
mod waiting;
