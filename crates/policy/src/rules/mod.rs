//! Rules on commands, and the forms in which configurations write them.

mod environment;
mod matching;
mod redirects;
mod rule;

pub use environment::{PLAIN_LOCALES, SafeNames};
pub use matching::fits;
pub(super) use redirects::{Place, leaves_workspace};
pub use rule::{
    CoreTools, Rule, RuleError, Scope, blocked_commands, core_tools, exclude_tools, patterns,
    wildcards,
};
pub(super) use rule::{Match, Side};
