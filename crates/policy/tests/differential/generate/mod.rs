//! Generated scripts. Each depends on the seed and its number only.

mod attacks;
mod everyday;
mod fill;
mod flows;
mod grammar;
mod mutate;
mod options;
mod random;
mod script;
mod special;
mod twist;
mod words;

pub(crate) use script::{Family, Mix, grammar_script, script};
