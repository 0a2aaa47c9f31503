//! Fuzz targets for everything that reads bytes of others: journal, cursors, pages, views, command
//! lines and JSON arguments.
//!
//! Each target takes a plan (bytes from bolero), changes a seed of its corpus by it, and checks
//! properties of the result. `cargo test` runs every seed and a fixed number of plans;
//! `BOLERO_RANDOM_ITERATIONS` sets another number. A failure prints the seed to run it again with
//! (`BOLERO_RANDOM_SEED`).

#[cfg(test)]
mod arguments;
#[cfg(test)]
mod cursor;
#[cfg(test)]
mod journal;
#[cfg(test)]
mod mutation;
#[cfg(test)]
mod page;
#[cfg(test)]
mod policy;
#[cfg(test)]
mod views;
