//! What a program's name or path means to a rule.

use super::glob::fits;
use super::rule::Side;
use crate::command::base_name;

/// Directories in which a name is the program that everybody means.
const TRUSTED: [&str; 6] =
    ["/bin", "/sbin", "/usr/bin", "/usr/sbin", "/usr/local/bin", "/usr/local/sbin"];

/// Whether a program, as the text names it, is the one that a pattern means.
///
/// To deny, the last part of the path is enough: `/tmp/x/rm` is `rm`. To allow, the directory
/// must be one of the system's, with no detour: `/tmp/x/git` and `./git` are not `git`.
pub(super) fn is_meant(pattern: &str, program: &str, side: Side) -> bool {
    if pattern == "*" {
        return true;
    }
    // A wildcard of an allow rule does not stand for a way out of its directory.
    let climbs = |path: &str| path.split('/').any(|part| part == "..");
    if side == Side::Allow && climbs(program) && !climbs(pattern) {
        return false;
    }
    if pattern.contains('/') {
        return fits(pattern, program) || (side == Side::Deny && fits(pattern, &normal(program)));
    }
    match (side, program.rsplit_once('/')) {
        (_, None) => fits(pattern, program),
        (Side::Deny, Some(_)) => fits(pattern, base_name(program)),
        (Side::Allow, Some((directory, name))) => {
            TRUSTED.contains(&directory) && fits(pattern, name)
        }
    }
}

/// The path without empty parts, `.` and `..`, by its text alone.
pub(super) fn normal(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." if parts.last().is_some_and(|last| *last != "..") => {
                parts.pop();
            }
            ".." if path.starts_with('/') => {}
            part => parts.push(part),
        }
    }
    let root = if path.starts_with('/') { "/" } else { "" };
    format!("{root}{}", parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::{Side, is_meant, normal};

    #[test]
    fn to_deny_the_name_is_enough_to_allow_the_directory_counts() {
        for (pattern, program, denied, allowed) in [
            ("rm", "rm", true, true),
            ("rm", "/bin/rm", true, true),
            ("rm", "//bin//rm", true, false),
            ("rm", "/usr/bin/../bin/rm", true, false),
            ("git", "/tmp/evil/git", true, false),
            ("git", "./git", true, false),
            ("./build.sh", "./build.sh", true, true),
            ("./build.sh", "./sub/../build.sh", false, false),
            ("/opt/x/run", "/opt//x/run", true, false),
            ("*", "./anything", true, true),
        ] {
            assert_eq!(is_meant(pattern, program, Side::Deny), denied, "deny {pattern} {program}");
            assert_eq!(
                is_meant(pattern, program, Side::Allow),
                allowed,
                "allow {pattern} {program}"
            );
        }
    }

    #[test]
    fn a_path_is_cleaned_by_its_text_alone() {
        assert_eq!(normal("/a/./b/../c//d"), "/a/c/d");
        assert_eq!(normal("../a/../../b"), "../../b");
        assert_eq!(normal("/../a"), "/a");
    }
}
