//! Selection of the server's environment variables that a job inherits. Pure.
//!
//! A job gets the environment that its user has, without secrets and without variables that would
//! change every program. The rules, from the strongest to the weakest:
//!
//! 1. Variables of `set` always reach the job: the administrator wrote them for it.
//! 2. Some names never pass: [`DropCause::Dangerous`] and [`DropCause::Servers`].
//! 3. `drop` wins over `pass`.
//! 4. A name that `pass` lists without a wildcard passes, whatever its value is.
//! 5. Secrets do not pass, whether the name or the value gives them away.
//! 6. `inherit` and the wildcards of `pass` decide about the rest.
//!
//! Jobs in a sandbox that hides the user's files do not get [`is_for_unconfined_jobs`] either.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use thiserror::Error;

use crate::output::secret_detection::{is_secret_name, secret_in_value};
use crate::policy::rules::matches_wildcard;

/// The variables that every program may expect.
const CORE: &[&str] = &[
    "PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "LC_*", "TERM", "TZ", "TMPDIR",
];

/// The directories of toolchains. Variables with options and flags are left out on purpose: they
/// would change the result of a build.
const TOOLCHAINS: &[&str] = &[
    "CARGO_HOME",
    "RUSTUP_HOME",
    "RUSTUP_TOOLCHAIN",
    "GOPATH",
    "GOROOT",
    "GOCACHE",
    "GOMODCACHE",
    "GOPROXY",
    "JAVA_HOME",
    "MAVEN_HOME",
    "GRADLE_USER_HOME",
    "ANDROID_HOME",
    "ANDROID_SDK_ROOT",
    "NVM_DIR",
    "VOLTA_HOME",
    "PNPM_HOME",
    "BUN_INSTALL",
    "DENO_DIR",
    "PYENV_ROOT",
    "VIRTUAL_ENV",
    "CONDA_PREFIX",
    "CONDA_DEFAULT_ENV",
    "RBENV_ROOT",
    "GEM_HOME",
    "DOTNET_ROOT",
    "SDKMAN_DIR",
    "NIX_PATH",
    "NIX_PROFILES",
    "PKG_CONFIG_PATH",
    "CUDA_HOME",
];

/// Proxies, certificates and package indexes. One with a password in its URL does not pass (rule 5).
const NETWORK: &[&str] = &[
    "http_proxy",
    "https_proxy",
    "ftp_proxy",
    "all_proxy",
    "no_proxy",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "FTP_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "NIX_SSL_CERT_FILE",
    "CURL_CA_BUNDLE",
    "REQUESTS_CA_BUNDLE",
    "NODE_EXTRA_CA_CERTS",
    "PIP_INDEX_URL",
    "PIP_EXTRA_INDEX_URL",
    "UV_INDEX_URL",
];

/// The desktop, its directories, and preferences for text output.
const DESKTOP: &[&str] = &[
    "XDG_*",
    "DISPLAY",
    "WAYLAND_DISPLAY",
    "XAUTHORITY",
    "CI",
    "COLORTERM",
    "NO_COLOR",
    "FORCE_COLOR",
    "CLICOLOR",
    "CLICOLOR_FORCE",
    "EDITOR",
    "VISUAL",
    "PAGER",
];

/// The names of [`Inherit::Core`], by group; `doctor` and the documents list them.
pub const CORE_GROUPS: [(&str, &[&str]); 4] =
    [("core", CORE), ("toolchains", TOOLCHAINS), ("network", NETWORK), ("desktop", DESKTOP)];

/// The variables that control the dynamic loader or every shell before the job's first command runs.
const DANGEROUS: [&str; 16] = [
    "LD_*",
    "GLIBC_TUNABLES",
    "GCONV_PATH",
    "BASH_ENV",
    "ENV",
    "ZDOTDIR",
    "SHELLOPTS",
    "BASHOPTS",
    "BASH_FUNC_*",
    "BASH_LOADABLES_PATH",
    "BASH_XTRACEFD",
    "PS4",
    "IFS",
    "CDPATH",
    "GLOBIGNORE",
    "PROMPT_COMMAND",
];

/// The one variable of the loader that passes: programs outside the system's directories need it, and
/// it can do no more than PATH.
const LIBRARY_PATH: &str = "LD_LIBRARY_PATH";

/// The server's own settings and its working directory.
const SERVERS: [&str; 6] = ["SHELLYARD_*", "MCP_*", "PWD", "OLDPWD", "SHLVL", "_"];

/// The setting `environment.inherit`: the server's variables that a job inherits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Inherit {
    /// All variables that are neither secrets nor dangerous.
    #[default]
    All,
    /// The names of [`CORE_GROUPS`].
    Core,
}

/// `true` if only jobs that can use all files of their user get this variable: whoever reaches the
/// socket of an agent can log in elsewhere.
#[must_use]
pub fn is_for_unconfined_jobs(name: &OsStr) -> bool {
    name == "SSH_AUTH_SOCK"
}

/// The administrator's rules for the environment of jobs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EnvironmentRules {
    pub inherit: Inherit,
    /// Names that pass as well. A name without a wildcard passes even if it looks like a secret.
    pub pass: Vec<NamePattern>,
    /// Variables that every job gets; they replace the server's variables of the same name.
    pub set: Vec<(String, String)>,
    pub drop: Vec<NamePattern>,
}

/// The name of a variable; `*` stands for any text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamePattern(String);

impl NamePattern {
    /// Parses a pattern.
    ///
    /// # Errors
    /// If the text is empty, or has a character that a name cannot have.
    pub fn parse(text: &str) -> Result<Self, NamePatternError> {
        if text.is_empty() || text.contains(['=', '\0']) || text.contains(char::is_whitespace) {
            return Err(NamePatternError { given: text.to_owned() });
        }
        Ok(Self(text.to_owned()))
    }

    fn matches(&self, name: &str) -> bool {
        matches_wildcard(&self.0, name)
    }

    fn is_exactly(&self, name: &str) -> bool {
        self.0 == name
    }
}

/// A text that is not a pattern for names of variables.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "{given:?} is no name of a variable; write one such as JAVA_HOME, or several at once as MY_*"
)]
pub struct NamePatternError {
    given: String,
}

impl NamePatternError {
    /// Returns the stable code word of the error.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        "bad_variable_pattern"
    }
}

/// The environment of a job, and the variables that were left out.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct JobEnvironment {
    /// The job's variables: the inherited ones in the server's order, then those of `set`.
    pub kept: Vec<(OsString, OsString)>,
    /// The variables that were left out: names only, never a value.
    pub dropped: Vec<DroppedVariable>,
}

impl JobEnvironment {
    /// Returns the names of the variables that jobs do not get, and that a setting could pass.
    pub fn withheld_names(&self) -> impl Iterator<Item = &str> {
        let withheld = self.dropped.iter().filter(|variable| variable.why.can_be_passed());
        withheld.map(|variable| variable.name.as_str())
    }
}

/// A variable that was left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DroppedVariable {
    /// The name; bytes that are not UTF-8 are replaced.
    pub name: String,
    pub why: DropCause,
}

/// The reason why a job does not get a variable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DropCause {
    /// The variable controls every shell or the loader. It never passes.
    Dangerous,
    /// The variable is a setting of the server or its working directory. It never passes.
    Servers,
    /// A `drop` rule matches.
    ByRule,
    /// The name looks like that of a secret.
    SecretName,
    /// The value looks like a secret of this kind.
    SecretValue(&'static str),
    /// No rule lets the variable pass.
    Unlisted,
}

impl DropCause {
    /// `true` if `environment.pass` can let the variable pass.
    #[must_use]
    pub const fn can_be_passed(self) -> bool {
        match self {
            Self::Dangerous | Self::Servers | Self::ByRule => false,
            Self::SecretName | Self::SecretValue(_) | Self::Unlisted => true,
        }
    }

    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Dangerous => "dangerous",
            Self::Servers => "server",
            Self::ByRule => "drop_rule",
            Self::SecretName => "secret_name",
            Self::SecretValue(_) => "secret_value",
            Self::Unlisted => "not_listed",
        }
    }
}

/// Selects the variables of the server that jobs get.
#[must_use]
pub fn select_variables(
    server: &[(OsString, OsString)],
    rules: &EnvironmentRules,
) -> JobEnvironment {
    let mut selected = JobEnvironment::default();
    let is_set = |name: &OsStr| rules.set.iter().any(|(set, _)| name == set.as_str());
    for (name, value) in server.iter().filter(|(name, _)| !is_set(name)) {
        match check_variable(name, value, rules) {
            Ok(()) => selected.kept.push((name.clone(), value.clone())),
            Err(why) => {
                let name = name.to_string_lossy().into_owned();
                selected.dropped.push(DroppedVariable { name, why });
            }
        }
    }
    selected.kept.extend(rules.set.iter().map(|(name, value)| (name.into(), value.into())));
    selected
}

fn check_variable(name: &OsStr, value: &OsStr, rules: &EnvironmentRules) -> Result<(), DropCause> {
    // No rule can match a name that is not UTF-8.
    let name = name.to_str().ok_or(DropCause::Unlisted)?;
    let any_matches =
        |patterns: &[NamePattern]| patterns.iter().any(|pattern| pattern.matches(name));
    if matches_any(&DANGEROUS, name) && name != LIBRARY_PATH {
        return Err(DropCause::Dangerous);
    }
    if matches_any(&SERVERS, name) {
        return Err(DropCause::Servers);
    }
    if any_matches(&rules.drop) {
        return Err(DropCause::ByRule);
    }
    if rules.pass.iter().any(|pattern| pattern.is_exactly(name)) {
        return Ok(());
    }
    // Before the lists: that a variable is a secret tells the operator more than that it is unlisted.
    check_secret(name, value)?;
    if is_inherited(name, rules.inherit) || any_matches(&rules.pass) {
        Ok(())
    } else {
        Err(DropCause::Unlisted)
    }
}

fn check_secret(name: &str, value: &OsStr) -> Result<(), DropCause> {
    if is_secret_name(name) {
        return Err(DropCause::SecretName);
    }
    secret_in_value(value.as_bytes()).map_or(Ok(()), |kind| Err(DropCause::SecretValue(kind)))
}

fn is_inherited(name: &str, inherit: Inherit) -> bool {
    match inherit {
        Inherit::Core => CORE_GROUPS.iter().any(|(_, names)| matches_any(names, name)),
        Inherit::All => true,
    }
}

fn matches_any(patterns: &[&str], name: &str) -> bool {
    patterns.iter().any(|pattern| matches_wildcard(pattern, name))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn patterns(list: &[&str]) -> Vec<NamePattern> {
        list.iter().map(|text| NamePattern::parse(text).unwrap()).collect()
    }

    fn rules(inherit: Inherit, pass: &[&str], drop: &[&str]) -> EnvironmentRules {
        EnvironmentRules { inherit, pass: patterns(pass), set: Vec::new(), drop: patterns(drop) }
    }

    #[track_caller]
    fn check(variable: (&str, &str), rules: &EnvironmentRules, expected: Result<(), DropCause>) {
        let (name, value) = variable;
        let selected = select_variables(&[(name.into(), value.into())], rules);
        let (kept, dropped) = match expected {
            Ok(()) => (vec![(name.into(), value.into())], Vec::new()),
            Err(why) => (Vec::new(), vec![DroppedVariable { name: name.into(), why }]),
        };
        assert_eq!(selected, JobEnvironment { kept, dropped }, "{variable:?} under {rules:?}");
    }

    #[test]
    fn by_default_a_job_gets_everything_that_is_plainly_no_secret() {
        let rules = EnvironmentRules::default();
        for name in [
            "PATH",
            "LC_ALL",
            "CC",
            "CFLAGS",
            "RUSTFLAGS",
            "GOFLAGS",
            "NODE_ENV",
            "PYTHONPATH",
            "LD_LIBRARY_PATH",
            "AWS_PROFILE",
            "AWS_REGION",
            "KUBECONFIG",
            "DOCKER_HOST",
            "DJANGO_SETTINGS_MODULE",
            "RAILS_ENV",
            "CUDA_VISIBLE_DEVICES",
            "npm_config_registry",
            "SSH_AUTH_SOCK",
            "path",
        ] {
            check((name, "x"), &rules, Ok(()));
        }
        for (name, value, why) in NEVER_BY_DEFAULT {
            check((name, value), &rules, Err(why));
        }
    }

    const NEVER_BY_DEFAULT: [(&str, &str, DropCause); 9] = [
        ("API_KEY", "x", DropCause::SecretName),
        ("XDG_TOKEN", "x", DropCause::SecretName),
        ("https_proxy", "http://me:pw@p", DropCause::SecretValue("password in a URL")),
        ("FOO", "AKIAABCDEFGHIJKLMNOP", DropCause::SecretValue("AWS key id")),
        ("LD_PRELOAD", "x", DropCause::Dangerous),
        ("BASH_FUNC_ls%%", "() { :; }", DropCause::Dangerous),
        ("SHELLYARD_HTTP_BIND", "x", DropCause::Servers),
        ("MCP_HTTP_BIND", "x", DropCause::Servers),
        ("PWD", "/", DropCause::Servers),
    ];

    #[test]
    fn the_core_is_what_builds_need_and_no_more() {
        let rules = rules(Inherit::Core, &[], &[]);
        for name in ["PATH", "HOME", "LC_ALL", "CARGO_HOME", "XDG_CACHE_HOME", "no_proxy", "CI"] {
            check((name, "x"), &rules, Ok(()));
        }
        for name in ["FOO", "NODE_OPTIONS", "path"] {
            check((name, "x"), &rules, Err(DropCause::Unlisted));
        }
        for (name, value, why) in NEVER_BY_DEFAULT {
            check((name, value), &rules, Err(why));
        }
    }

    #[test]
    fn an_exact_name_passes_a_secret_and_a_wildcard_does_not() {
        let exact = rules(Inherit::Core, &["MY_TOKEN", "https_proxy", "LD_PRELOAD", "MY_*"], &[]);
        check(("MY_TOKEN", "x"), &exact, Ok(()));
        check(("https_proxy", "http://me:pw@p"), &exact, Ok(()));
        check(("MY_FLAG", "x"), &exact, Ok(()));
        check(("MY_KEY", "x"), &exact, Err(DropCause::SecretName));
        let value = ("MY_URL", "ftp://me:pw@host");
        check(value, &exact, Err(DropCause::SecretValue("password in a URL")));
        check(("LD_PRELOAD", "x"), &exact, Err(DropCause::Dangerous));
    }

    #[test]
    fn inherit_all_passes_everything_but_secrets_and_dangerous_variables() {
        let all = rules(Inherit::All, &["KEPT_TOKEN"], &["INTERNAL_*", "KEPT_TOKEN"]);
        check(("FOO", "x"), &all, Ok(()));
        check(("FOO_TOKEN", "x"), &all, Err(DropCause::SecretName));
        check(("ENV", "x"), &all, Err(DropCause::Dangerous));
        check(("INTERNAL_HOST", "x"), &all, Err(DropCause::ByRule));
        check(("KEPT_TOKEN", "x"), &all, Err(DropCause::ByRule));
    }

    #[test]
    fn a_variable_of_set_appears_once_and_last() {
        let set = vec![("PATH".into(), "/opt/bin".into()), ("LD_LIBRARY_PATH".into(), "/l".into())];
        let rules = EnvironmentRules { set, ..EnvironmentRules::default() };
        let server = [("PATH".into(), "/bin".into()), ("HOME".into(), "/h".into())];
        let expected = [("HOME", "/h"), ("PATH", "/opt/bin"), ("LD_LIBRARY_PATH", "/l")];
        let expected = expected.map(|(name, value)| (name.into(), value.into()));
        let selected = select_variables(&server, &rules);
        assert_eq!(selected, JobEnvironment { kept: expected.to_vec(), dropped: Vec::new() });
    }

    #[test]
    fn a_name_that_is_not_utf8_does_not_pass() {
        let name = OsStr::from_bytes(b"A\xff").to_owned();
        let rules = rules(Inherit::All, &["*"], &[]);
        let selected = select_variables(&[(name, "x".into())], &rules);
        let dropped = vec![DroppedVariable { name: "A\u{fffd}".into(), why: DropCause::Unlisted }];
        assert_eq!(selected, JobEnvironment { kept: Vec::new(), dropped });
    }

    #[test]
    fn a_star_matches_any_text() {
        for (pattern, name, expected) in [
            ("A", "A", true),
            ("A", "AB", false),
            ("A_*", "A_", true),
            ("A_*", "A_B", true),
            ("A_*", "A", false),
            ("*_B", "A_B", true),
            ("*KEY*", "A_KEYS", true),
            ("*KEY*", "KE", false),
            ("A*A", "A", false),
            ("A*B*C", "AxBxBC", true),
            ("A*B*C", "AxCxB", false),
            ("*", "", true),
            ("**", "x", true),
        ] {
            assert_eq!(matches_wildcard(pattern, name), expected, "{pattern} on {name}");
        }
    }

    #[test]
    fn an_invalid_pattern_is_refused() {
        for text in ["", "A=B", "A B", "A\n", "\0"] {
            let given = text.to_owned();
            assert_eq!(NamePattern::parse(text), Err(NamePatternError { given }));
        }
    }

    fn variables() -> impl Strategy<Value = Vec<(OsString, OsString)>> {
        let name = prop_oneof![
            "[A-Z_]{1,8}",
            prop::sample::select(vec!["PATH", "LD_X", "ENV", "A_TOKEN", "HOME", "SHELLYARD_X"])
                .prop_map(str::to_owned),
        ];
        prop::collection::vec((name, "[ -~]{0,12}").prop_map(|(n, v)| (n.into(), v.into())), 0..12)
    }

    proptest! {
        #[test]
        fn each_variable_is_kept_or_reported_and_no_dangerous_one_is_kept(
            server in variables(),
            inherit in prop::sample::select(vec![Inherit::Core, Inherit::All]),
            pass in prop::sample::subsequence(vec!["*", "LD_X", "ENV", "A_TOKEN"], 0..4),
        ) {
            let selected = select_variables(&server, &rules(inherit, &pass, &[]));
            prop_assert_eq!(selected.kept.len() + selected.dropped.len(), server.len());
            for (name, _) in &selected.kept {
                let name = name.to_str().unwrap();
                prop_assert!(!matches_any(&DANGEROUS, name) && !matches_any(&SERVERS, name));
                prop_assert!(!is_secret_name(name) || pass.contains(&name));
            }
        }
    }
}
