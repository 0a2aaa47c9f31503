//! The lookup of a command's effects by its name.

use super::effect::Effect;
use super::{awk_sed, builtins, editors, exec_options, find, git, prefix, shells};
use crate::command::SimpleCommand;

/// Returns the effects of a command, from the table that knows its name.
pub(crate) fn command_effects(command: &SimpleCommand) -> Vec<Effect> {
    let Some(name) = command.name() else {
        return Vec::new();
    };
    builtins::builtin_effects(name, command)
        .or_else(|| shells::shell_program_effects(name, command))
        .or_else(|| prefix::prefix_effects(name, command))
        .or_else(|| prefix::container_effects(name, command))
        .or_else(|| match name {
            "find" => Some(find::find_effects(command)),
            "fd" | "fdfind" => Some(find::fd_effects(command)),
            "xargs" => Some(find::xargs_effects(command)),
            "parallel" => Some(find::parallel_effects(command)),
            "git" => Some(git::git_effects(command)),
            "awk" | "gawk" | "mawk" | "nawk" | "original-awk" => {
                Some(awk_sed::awk_effects(command))
            }
            "sed" | "gsed" => Some(awk_sed::sed_effects(command)),
            _ => None,
        })
        .or_else(|| editors::editor_effects(name, command))
        .or_else(|| exec_options::exec_option_effects(name, command))
        .unwrap_or_default()
}
