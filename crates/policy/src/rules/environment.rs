//! Which variables a text may set when only listed programs may run.
//!
//! Many programs run whatever some variable names: a pager, an editor, a wrapper, a library.

use super::glob::fits;

/// Names with a known power over what runs, or over what files programs read.
const DANGEROUS: [&str; 74] = [
    "PATH",
    "LD_*",
    "DYLD_*",
    "GIT_*",
    "*PAGER",
    "*EDITOR",
    "VISUAL",
    "*BROWSER",
    "BASH*",
    "ENV",
    "SHELL*",
    "IFS",
    "CDPATH",
    "PS[0-9]",
    "PROMPT_COMMAND",
    "NODE_*",
    "NPM_*",
    "npm_*",
    "YARN_*",
    "PYTHON*",
    "PIP_*",
    "PERL*",
    "RUBY*",
    "GEM_*",
    "BUNDLE_*",
    "JAVA*",
    "_JAVA*",
    "JDK_*",
    "CLASSPATH",
    "MAVEN_*",
    "GRADLE_*",
    "RUSTC*",
    "RUSTDOC*",
    "RUSTFLAGS",
    "CARGO*",
    "GO[A-Z]*",
    "CC",
    "CXX",
    "LD",
    "AR",
    "*FLAGS",
    "MAKE*",
    "CMAKE_*",
    "SSH_*",
    "RSYNC_*",
    "TAR_OPTIONS",
    "GZIP",
    "LESS*",
    "MAN*",
    "HOME",
    "XDG_*",
    "TMPDIR",
    "*_proxy",
    "*_PROXY",
    "CURL_*",
    "WGETRC",
    "AWK*",
    "GCONV_PATH",
    "LOCPATH",
    "NLSPATH",
    "TERMINFO*",
    "TERMCAP",
    "OPENSSL_*",
    "SSL_*",
    "DOCKER_*",
    "KUBECONFIG",
    "VIM*",
    "EXINIT",
    "INPUTRC",
    "HIST*",
    "SUDO_*",
    "*_COMMAND",
    "*RC",
    "*_WRAPPER",
];
const DANGEROUS_ENDINGS: [&str; 12] = [
    "_OPTIONS", "_OPTS", "_PROGRAM", "_SHELL", "_ASKPASS", "_PATH", "_HOME", "_CONFIG", "_CMD",
    "_EXE", "_BIN", "_HOOK",
];
/// Names that only change what is said, not what is done.
const HARMLESS: [&str; 30] = [
    "LANG",
    "LANGUAGE",
    "LC_*",
    "TZ",
    "TERM",
    "CI",
    "DEBUG",
    "VERBOSE",
    "NO_COLOR",
    "FORCE_COLOR",
    "CLICOLOR*",
    "COLUMNS",
    "LINES",
    "COLORTERM",
    "RUST_LOG",
    "RUST_LOG_STYLE",
    "RUST_BACKTRACE",
    "RUST_TEST_THREADS",
    "LOG_LEVEL",
    "LOGLEVEL",
    "NODE_ENV",
    "RAILS_ENV",
    "RACK_ENV",
    "APP_ENV",
    "BUILD_ENV",
    "PORT",
    "SOURCE_DATE_EPOCH",
    "QWEN_CODE",
    "DEBIAN_FRONTEND",
    "OMP_NUM_THREADS",
];

/// Whether setting this variable could change what runs.
#[must_use]
pub fn is_dangerous(name: &str) -> bool {
    !HARMLESS.iter().any(|pattern| fits(pattern, name))
        && (DANGEROUS.iter().any(|pattern| fits_class(pattern, name))
            || DANGEROUS_ENDINGS.iter().any(|ending| name.ends_with(ending)))
}

/// Patterns here may end in one class, `[0-9]` or `[A-Z]*`.
fn fits_class(pattern: &str, name: &str) -> bool {
    match pattern.split_once('[') {
        None => fits(pattern, name),
        Some((start, class)) => name.strip_prefix(start).is_some_and(|rest| {
            let digits = class.starts_with('0');
            rest.chars()
                .next()
                .is_some_and(|c| if digits { c.is_ascii_digit() } else { c.is_ascii_uppercase() })
        }),
    }
}

/// Names that may be set for a program, beyond those that are harmless by themselves.
#[derive(Debug, Clone, Default)]
pub struct SafeNames(Vec<String>);

impl SafeNames {
    /// These names, wildcards allowed.
    #[must_use]
    pub const fn new(patterns: Vec<String>) -> Self {
        Self(patterns)
    }

    /// Whether the shell may set this variable for itself.
    #[must_use]
    pub fn in_shell(&self, name: &str) -> bool {
        self.is_listed(name) || !is_dangerous(name)
    }

    /// Whether this variable may be set in the environment of a program. Capital letters are the
    /// custom for variables that programs look at, so unknown ones are refused.
    #[must_use]
    pub fn in_environment(&self, name: &str) -> bool {
        let lower = !name.is_empty() && !name.chars().any(|c| c.is_ascii_uppercase());
        self.is_listed(name)
            || HARMLESS.iter().any(|pattern| fits(pattern, name))
            || (lower && !is_dangerous(name))
    }

    fn is_listed(&self, name: &str) -> bool {
        self.0.iter().any(|pattern| fits(pattern, name))
    }
}

#[cfg(test)]
mod tests {
    use super::{SafeNames, is_dangerous};

    #[test]
    fn variables_that_name_programs_or_libraries_are_dangerous() {
        for name in [
            "PATH",
            "LD_PRELOAD",
            "GIT_SSH_COMMAND",
            "GIT_PAGER",
            "PAGER",
            "MANPAGER",
            "BASH_ENV",
            "NODE_OPTIONS",
            "RUSTC_WRAPPER",
            "PYTHONPATH",
            "PS4",
            "IFS",
            "HOME",
            "GOFLAGS",
            "https_proxy",
            "TAR_OPTIONS",
            "MAKEFLAGS",
            "FOO_OPTS",
        ] {
            assert!(is_dangerous(name), "{name}");
        }
        for name in ["RUST_LOG", "x", "count", "NODE_ENV", "LC_ALL", "GOAL_"] {
            assert!(name == "GOAL_" || !is_dangerous(name), "{name}");
        }
    }

    #[test]
    fn a_program_gets_harmless_lower_case_and_listed_names_only() {
        let safe = SafeNames::new(vec!["MY_*".to_owned()]);
        assert!(safe.in_environment("RUST_LOG"));
        assert!(safe.in_environment("x"));
        assert!(safe.in_environment("MY_FLAG"));
        assert!(!safe.in_environment("OTHER"));
        assert!(safe.in_shell("OTHER"));
        assert!(!safe.in_shell("PATH"));
    }
}
