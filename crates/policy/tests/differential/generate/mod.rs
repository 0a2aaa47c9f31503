//! Generated scripts. Each depends on the seed and its number only.

mod attacks;
mod everyday;
mod grammar;
mod options;
mod script;
mod variables;

pub(crate) use script::{Family, Mix, grammar_script, script};
