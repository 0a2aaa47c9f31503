//! The variables that a text may set when only listed programs may run.
//!
//! Many programs run whatever some variable names: a pager, an editor, a wrapper, a library.

use super::matching::fits;
use crate::tables::has_word;

/// Names that programs read, but that only change what they say, not what they do.
const HARMLESS: &str = "CI DEBUG VERBOSE NO_COLOR FORCE_COLOR CLICOLOR CLICOLOR_FORCE COLUMNS COLORTERM RUST_LOG \
    RUST_LOG_STYLE RUST_BACKTRACE RUST_TEST_THREADS LOG_LEVEL LOGLEVEL NODE_ENV RAILS_ENV \
    RACK_ENV APP_ENV BUILD_ENV PORT SOURCE_DATE_EPOCH QWEN_CODE OMP_NUM_THREADS";
/// Names with a meaning that starts nothing for this value: git takes `cat` for "no pager".
/// debconf evaluates the name of its frontend as Perl.
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
/// Names that programs take for the name of a file or a terminal: harmless as plain text.
const PLAIN_VALUES: [&str; 2] = ["TERM", "TZ"];
/// Names that scripts use for themselves and that no shell or tool gives a meaning.
const PLAIN: &str = "ARCHIVE BASE BRANCH CODE COMMIT COUNT CURRENT DATE DEST DIR DIRS DST ELAPSED END ERRORS \
    EXIT_CODE FILE FILENAME FILES FOUND HASH ID INDEX INPUT ITEM KEY LAST LINE LIST MAX \
    MESSAGE MIN MSG NAME NUM OUT OUTPUT PID RC RESULT SHA SIZE SRC START STATUS SUM TAG \
    TIMESTAMP TOTAL URL VALUE VERSION";
/// Lower-case names that a shell or a common tool gives a meaning.
const MEANINGFUL: &str = "argv auto_resume cdpath editor fignore fpath histchars home keymap mailpath manpath \
    module_path npm_* pip_* path prompt psvar shell signals status term watch";
/// Locales in which every shell reads quotes alike.
pub const PLAIN_LOCALES: [&str; 5] = ["C", "POSIX", "C.UTF-8", "C.utf8", "en_US.UTF-8"];

/// Names that may be set beside an allow list, beyond those that are harmless by themselves.
#[derive(Debug, Clone, Default)]
pub struct SafeNames(Vec<String>);

impl SafeNames {
    /// These names, wildcards allowed.
    #[must_use]
    pub const fn new(patterns: Vec<String>) -> Self {
        Self(patterns)
    }

    /// Returns whether the shell may set this variable for itself, to this value where it is known.
    #[must_use]
    pub fn in_shell(&self, name: &str, value: Option<&str>) -> bool {
        self.in_environment(name, value) || is_script_name(name) || has_word(PLAIN, name)
    }

    /// Returns whether this variable may be set in the environment of a program, to this value
    /// where it is known.
    #[must_use]
    pub fn in_environment(&self, name: &str, value: Option<&str>) -> bool {
        self.0.iter().any(|pattern| fits(pattern, name))
            || has_word(HARMLESS, name)
            || value.is_some_and(|value| HARMLESS_VALUES.contains(&(name, value)))
            || is_plain_locale(name, value)
            || (PLAIN_VALUES.contains(&name) && value.is_some_and(is_plain_value))
            || (is_script_name(name) && !name.contains('_'))
    }
}

/// `true` for lower-case names and single letters: scripts use them, tools read a few others.
fn is_script_name(name: &str) -> bool {
    let is_lower = name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    let is_letter = name.len() == 1 && name.starts_with(|c: char| c.is_ascii_alphabetic());
    let has_meaning = name.contains("proxy")
        || MEANINGFUL.split_ascii_whitespace().any(|pattern| fits(pattern, name));
    (is_lower || is_letter) && !has_meaning
}

/// `true` for a text of letters, digits and a few marks, which no program takes for code.
fn is_plain_value(value: &str) -> bool {
    value.chars().all(|letter| letter.is_ascii_alphanumeric() || "-_./+:,".contains(letter))
}

/// `true` for a locale under which a text is read as it is judged: another one could make a
/// character out of a quote.
fn is_plain_locale(name: &str, value: Option<&str>) -> bool {
    let is_locale = name == "LANG" || name == "LANGUAGE" || name.starts_with("LC_");
    is_locale && value.is_some_and(|value| PLAIN_LOCALES.contains(&value))
}

#[cfg(test)]
mod tests {
    use super::SafeNames;

    #[test]
    fn names_with_a_meaning_are_not_safe() {
        let safe = SafeNames::default();
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
            assert!(!safe.in_shell(name, Some("x")), "{name}");
            assert!(!safe.in_environment(name, Some("x")), "{name}");
        }
    }

    #[test]
    fn a_program_gets_harmless_short_and_listed_names_only() {
        let safe = SafeNames::new(vec!["MY_*".to_owned()]);
        for name in ["RUST_LOG", "x", "CI", "MY_FLAG"] {
            assert!(safe.in_environment(name, None), "{name}");
        }
        for name in ["VERSION", "old_name", "count2"] {
            assert!(safe.in_shell(name, None), "{name}");
        }
        assert!(!safe.in_environment("VERSION", None) && !safe.in_environment("old_name", None));
    }

    #[test]
    fn some_names_are_safe_only_with_plain_values() {
        let safe = SafeNames::default();
        for (name, value) in [
            ("DEBIAN_FRONTEND", "noninteractive"),
            ("TERM", "xterm-256color"),
            ("TERM", ""),
            ("TZ", "Europe/Berlin"),
            ("TZ", "CET-1CEST,M3.5.0,M10.5.0/3"),
        ] {
            assert!(safe.in_environment(name, Some(value)), "{name}={value}");
        }
        for (name, value) in [
            ("DEBIAN_FRONTEND", Some("Noninteractive; system q(id) #")),
            ("DEBIAN_FRONTEND", None),
            ("TERM", Some("$(id)")),
            ("TERM", None),
            ("TZ", Some("a b")),
            ("TZ", None),
        ] {
            assert!(!safe.in_environment(name, value), "{name}={value:?}");
            assert!(!safe.in_shell(name, value), "{name}={value:?}");
        }
    }

    #[test]
    fn a_locale_is_safe_only_if_it_reads_quotes_alike() {
        let safe = SafeNames::default();
        assert!(safe.in_environment("LC_ALL", Some("C")));
        assert!(!safe.in_environment("LC_ALL", Some("zh_CN.gbk")));
        assert!(!safe.in_environment("LANG", None));
    }
}
