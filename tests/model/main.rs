//! A model of keeper, server and journal: every order of their steps, with crashes between any two
//! of them.
//!
//! The model has no process and no file. [`world`] has the state and the effect of
//! each step, [`enabled_steps`] the steps that can be next, [`invariants`] the
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
mod recovery;
#[cfg(test)]
mod search;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod world;
