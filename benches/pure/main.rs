//! Benchmarks of the pure parts: they start no process and no server. Templates have a floor, all
//! others have none.
//!
//! `cargo bench --bench pure` measures them, `-- --test` runs each once.

mod policy;
mod queue;
mod reading;
mod templates;
mod views;

use criterion::Criterion;

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    queue::bench(&mut criterion);
    policy::bench(&mut criterion);
    views::bench(&mut criterion);
    reading::bench(&mut criterion);
    templates::bench(&mut criterion);
    criterion.final_summary();
}
