//! Rules on commands, and the forms in which configurations write them.

mod environment;
mod matching;
mod redirects;
mod rule;

pub use environment::{PLAIN_LOCALES, SafeVariables};
pub use matching::matches_wildcard;
pub(super) use redirects::{WriteCheck, leaves_workspace};
pub use rule::{
    CoreTools, PolicyRule, RuleError, RuleReference, RuleScope, parse_core_tools,
    parse_exclude_tools, parse_patterns,
};
pub(super) use rule::{ListKind, RuleMatch};
