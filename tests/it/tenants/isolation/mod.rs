//! That no tenant sees, guesses, reads, stops or counts another's jobs.
//!
//! `alone` is the strongest form of it: what bob gets from a server where alice is busy is what he
//! gets from one where she has never been. What he does there is a list (`deeds`), and the list
//! must have something for each tool, method and route (`coverage`).

mod alice;
mod alone;
mod bob;
mod coverage;
mod deeds;
mod fairness;
mod namesakes;
mod roles;
mod seen;
mod streams;
mod world;
