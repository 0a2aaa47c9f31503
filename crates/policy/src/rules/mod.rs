//! Rules on commands, and the forms in which configurations write them.

mod args;
mod environment;
mod error;
mod forms;
mod glob;
mod program;
mod redirects;
mod rule;
#[cfg(test)]
mod tests;

pub use environment::{PLAIN_LOCALES, SafeNames};
pub use error::RuleError;
pub use forms::{CoreTools, blocked_commands, core_tools, exclude_tools, patterns, wildcards};
pub use glob::fits;
pub(super) use redirects::{Place, leaves_workspace};
pub(super) use rule::{Match, Side};
pub use rule::{Rule, Scope};
