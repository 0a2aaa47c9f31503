//! The variables that a text may set when only listed programs may run.
//!
//! Many programs run a program that a variable names: a pager, an editor, a wrapper, a library.

use super::matching::matches_wildcard;
use crate::tables::has_word;

/// Variables whose values make no program start another one.
const HARMLESS: &str = "CI DEBUG VERBOSE NO_COLOR FORCE_COLOR CLICOLOR CLICOLOR_FORCE COLUMNS COLORTERM RUST_LOG \
    RUST_LOG_STYLE RUST_BACKTRACE RUST_TEST_THREADS LOG_LEVEL LOGLEVEL NODE_ENV RAILS_ENV \
    RACK_ENV APP_ENV BUILD_ENV PORT SOURCE_DATE_EPOCH QWEN_CODE OMP_NUM_THREADS";
/// Variables that start nothing if they have this value. git takes `cat` for "no pager". debconf
/// evaluates the name of its frontend as Perl, so only known frontends are safe.
const HARMLESS_VALUES: [(&str, &str); 8] = [
    ("GIT_PAGER", "cat"),
    ("GIT_PAGER", ""),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("DEBIAN_FRONTEND", "noninteractive"),
    ("DEBIAN_FRONTEND", "readline"),
    ("DEBIAN_FRONTEND", "dialog"),
    ("DEBIAN_FRONTEND", "teletype"),
    ("DEBIAN_FRONTEND", "text"),
];
/// Variables that programs read as the name of a file or a terminal: harmless as plain text.
const PLAIN_VALUES: [&str; 2] = ["TERM", "TZ"];
/// Names that scripts choose themselves and that no shell or tool reads.
const SCRIPT_NAMES: &str = "ARCHIVE BASE BRANCH CODE COMMIT COUNT CURRENT DATE DEST DIR DIRS DST ELAPSED END ERRORS \
    EXIT_CODE FILE FILENAME FILES FOUND HASH ID INDEX INPUT ITEM KEY LAST LINE LIST MAX \
    MESSAGE MIN MSG NAME NUM OUT OUTPUT PID RC RESULT SHA SIZE SRC START STATUS SUM TAG \
    TIMESTAMP TOTAL URL VALUE VERSION";
/// Lower-case names that a shell or a common tool reads.
const SPECIAL_LOWER_CASE: &str = "argv auto_resume cdpath editor fignore fpath histchars home keymap mailpath manpath \
    module_path npm_* pip_* path prompt psvar shell signals status term watch";
/// Locales in which all shells parse quotes the same way.
pub const PLAIN_LOCALES: [&str; 5] = ["C", "POSIX", "C.UTF-8", "C.utf8", "en_US.UTF-8"];

/// Variables that may be set although an allow list is set, in addition to the harmless ones.
#[derive(Debug, Clone, Default)]
pub struct SafeVariables(Vec<String>);

impl SafeVariables {
    /// Takes the names of the variables, in which wildcards are allowed.
    #[must_use]
    pub const fn new(patterns: Vec<String>) -> Self {
        Self(patterns)
    }

    /// `true` if the shell may set this variable for itself, to this value if it is known.
    #[must_use]
    pub fn allows_in_shell(&self, name: &str, value: Option<&str>) -> bool {
        self.allows_in_environment(name, value)
            || is_script_name(name)
            || has_word(SCRIPT_NAMES, name)
    }

    /// `true` if this variable may be set in the environment of a program, to this value if it is
    /// known.
    #[must_use]
    pub fn allows_in_environment(&self, name: &str, value: Option<&str>) -> bool {
        self.0.iter().any(|pattern| matches_wildcard(pattern, name))
            || has_word(HARMLESS, name)
            || value.is_some_and(|value| HARMLESS_VALUES.contains(&(name, value)))
            || is_plain_locale(name, value)
            || (PLAIN_VALUES.contains(&name) && value.is_some_and(is_plain_value))
            || (is_script_name(name) && !name.contains('_'))
    }
}

/// `true` for lower-case names and single letters, which scripts use and only a few tools read.
fn is_script_name(name: &str) -> bool {
    let is_lower = name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    let is_letter = name.len() == 1 && name.starts_with(|c: char| c.is_ascii_alphabetic());
    let is_special = name.contains("proxy")
        || SPECIAL_LOWER_CASE
            .split_ascii_whitespace()
            .any(|pattern| matches_wildcard(pattern, name));
    (is_lower || is_letter) && !is_special
}

/// `true` for a text of letters, digits and a few marks, which no program runs as code.
fn is_plain_value(value: &str) -> bool {
    value.chars().all(|letter| letter.is_ascii_alphanumeric() || "-_./+:,".contains(letter))
}

/// `true` for a locale under which the shell parses a text as this crate does. In other locales a
/// quote can be part of a multi-byte character.
fn is_plain_locale(name: &str, value: Option<&str>) -> bool {
    let is_locale = name == "LANG" || name == "LANGUAGE" || name.starts_with("LC_");
    is_locale && value.is_some_and(|value| PLAIN_LOCALES.contains(&value))
}

#[cfg(test)]
mod tests {
    use super::SafeVariables;

    #[test]
    fn variables_that_programs_read_are_not_safe() {
        let safe = SafeVariables::default();
        for name in [
            "PATH",
            "LD_PRELOAD",
            "GIT_SSH_COMMAND",
            "PAGER",
            "BASH_ENV",
            "NODE_OPTIONS",
            "IFS",
            "RUSTC_WRAPPER",
            "PYTHONPATH",
            "PS4",
            "HOME",
            "https_proxy",
            "TAR_OPTIONS",
            "FOO_OPTS",
            "RANDOM",
            "SRANDOM",
            "OPTIND",
            "HISTCMD",
            "_",
            "FUNCNAME",
            "REPLY",
            "PWD",
            "OLDPWD",
            "LINENO",
            "SECONDS",
            "LINES",
            "npm_config_script_shell",
            "histchars",
            "path",
            "OTHER",
        ] {
            assert!(!safe.allows_in_shell(name, Some("x")), "{name}");
            assert!(!safe.allows_in_environment(name, Some("x")), "{name}");
        }
    }

    #[test]
    fn only_harmless_short_and_listed_names_may_be_set_for_a_program() {
        let safe = SafeVariables::new(vec!["MY_*".to_owned()]);
        for name in ["RUST_LOG", "x", "CI", "MY_FLAG"] {
            assert!(safe.allows_in_environment(name, None), "{name}");
        }
        for name in ["VERSION", "old_name", "count2"] {
            assert!(safe.allows_in_shell(name, None), "{name}");
        }
        assert!(
            !safe.allows_in_environment("VERSION", None)
                && !safe.allows_in_environment("old_name", None)
        );
    }

    #[test]
    fn some_variables_are_safe_only_with_plain_values() {
        let safe = SafeVariables::default();
        for (name, value) in [
            ("DEBIAN_FRONTEND", "noninteractive"),
            ("TERM", "xterm-256color"),
            ("TERM", ""),
            ("TZ", "Europe/Berlin"),
            ("TZ", "CET-1CEST,M3.5.0,M10.5.0/3"),
        ] {
            assert!(safe.allows_in_environment(name, Some(value)), "{name}={value}");
        }
        for (name, value) in [
            ("DEBIAN_FRONTEND", Some("Noninteractive; system q(id) #")),
            ("DEBIAN_FRONTEND", None),
            ("TERM", Some("$(id)")),
            ("TERM", None),
            ("TZ", Some("a b")),
            ("TZ", None),
        ] {
            assert!(!safe.allows_in_environment(name, value), "{name}={value:?}");
            assert!(!safe.allows_in_shell(name, value), "{name}={value:?}");
        }
    }

    #[test]
    fn a_locale_is_safe_only_if_shells_parse_quotes_the_same_way() {
        let safe = SafeVariables::default();
        assert!(safe.allows_in_environment("LC_ALL", Some("C")));
        assert!(!safe.allows_in_environment("LC_ALL", Some("zh_CN.gbk")));
        assert!(!safe.allows_in_environment("LANG", None));
    }
}
