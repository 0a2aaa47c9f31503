//! Nothing is lost: jobs survive crashes, restarts and upgrades of the server.
//!
//! docs/reliability.md has each guarantee with the test that shows it. `load` submits jobs, keeps a
//! record of every reply, and compares the record with what the server says later.

mod client;
mod crashes;
mod data_dir_faults;
mod disturbance;
mod draining;
mod finished_jobs;
mod journal_faults;
mod keeper_death;
mod load;
mod notify;
mod orders;
mod proxies;
mod queued_jobs;
mod random;
mod rest_clients;
mod running_jobs;
mod upgrades;
mod workload;
