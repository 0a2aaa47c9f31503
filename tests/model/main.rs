//! A model of clients, server, keeper, shims, jobs and journal: every order of their steps, with crashes
//! between any two of them.
//!
//! The model has no process and no file. [`world`] has the state, [`enabled_steps`] the steps that can be
//! next. [`server_steps`], [`outside_steps`] and [`life_steps`] have the effects of the steps: of the
//! server; of keepers, shims and jobs; of crashes, hand-overs and starts. [`invariants`] has the
//! guarantees of docs/reliability.md, [`search`] visits every state that the steps can reach.
//! [`design`] names the rules that the product keeps; each of them can be broken, and a test shows
//! that the search then finds a state in which a guarantee is broken too.

#[cfg(test)]
mod design;
#[cfg(test)]
mod enabled_steps;
#[cfg(test)]
mod invariants;
#[cfg(test)]
mod life_steps;
#[cfg(test)]
mod outside_steps;
#[cfg(test)]
mod recovery;
#[cfg(test)]
mod search;
#[cfg(test)]
mod server_steps;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod world;
