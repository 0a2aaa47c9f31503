//! Benchmarks of the pure parts: they start no process and no server, so there is no floor.
//!
//! `cargo bench --bench pure` measures them, `-- --test` runs each once.

mod policy;
mod queue;
mod reading;
mod views;

use criterion::Criterion;

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    queue::bench(&mut criterion);
    policy::bench(&mut criterion);
    views::bench(&mut criterion);
    reading::bench(&mut criterion);
    criterion.final_summary();
}
