//! From a command's name to the table that knows it.

use super::effect::Effect;
use super::{awk, builtins, containers, editors, exec_options, find, git, prefix, sed, shells};
use crate::command::SimpleCommand;

/// What a command leads to.
pub(crate) fn effects(command: &SimpleCommand) -> Vec<Effect> {
    let Some(name) = command.name() else {
        return Vec::new();
    };
    builtins::effects(name, command)
        .or_else(|| shells::effects(name, command))
        .or_else(|| prefix::effects(name, command))
        .or_else(|| containers::effects(name, command))
        .or_else(|| match name {
            "find" => Some(find::find(command)),
            "fd" | "fdfind" => Some(find::fd(command)),
            "xargs" => Some(find::xargs(command)),
            "parallel" => Some(find::parallel(command)),
            "git" => Some(git::git(command)),
            "awk" | "gawk" | "mawk" | "nawk" | "original-awk" => Some(awk::awk(command)),
            "sed" | "gsed" => Some(sed::sed(command)),
            _ => None,
        })
        .or_else(|| editors::effects(name, command))
        .or_else(|| exec_options::effects(name, command))
        .unwrap_or_default()
}
