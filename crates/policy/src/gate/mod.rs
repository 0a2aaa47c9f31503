//! Judges single program starts, as the kernel reports them. Pure: no I/O, no clock.
//!
//! The server makes [`GateRules`] from its policy and looks up the files that the rules name. The
//! shim of a job compiles them to a [`Gate`] and asks it about each `execve` of the job.
//!
//! A program is the file that the kernel would load, known by device, inode and change time; names
//! that a job writes decide nothing. Three kinds of running programs exist ([`ProgramKind`]): below
//! a judged program and below a shell each start needs an allow rule or a row of the helper table;
//! a program that opens starts what it likes. Deny and ask rules are checked at every start.

mod called;
mod early;
mod fallback;
mod helper_table;
mod judge;
mod lookup;
mod plain_words;
mod rules;
mod scope;
mod start_rule;
#[cfg(test)]
mod tests;
mod variables;
mod verdict;

pub use fallback::PlainRequest;
pub use helper_table::HelperDirectory;
pub use judge::Gate;
pub use lookup::{ProgramLookup, find_env_interpreter};
pub use plain_words::PlainWordsError;
pub use rules::{GateRule, GateRules, KnownFile, ProgramStart, StartedFile};
pub use scope::{GateScope, default_opens};
pub use verdict::{
    AwaitedInterpreter, ProgramKind, RunningProgram, StartRefusal, StartRefusalReason, StartVerdict,
};
