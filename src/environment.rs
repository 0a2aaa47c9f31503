//! Which variables of the server's environment a job gets. Pure.
//!
//! A job gets what programs need to work, not what the server happens to have. From the strongest
//! to the weakest: some names never pass; `drop` beats `pass`; a name that `pass` spells out passes
//! whatever it holds; secrets do not pass, neither by name nor by value; then `inherit` decides, and
//! the wildcards of `pass`. What `set` says is the administrator's own and always there.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use thiserror::Error;

use crate::output::secret_detection::{is_secret_name, secret_in_value};
use crate::policy::rules::matches_wildcard;

/// What every program may expect.
const CORE: &[&str] = &[
    "PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "LC_*", "TERM", "TZ", "TMPDIR",
];

/// Where toolchains are installed. Names of options and flags are left out on purpose: they would
/// change what a build does.
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

/// How the network is reached. A proxy or an index with a password in its address does not pass.
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

/// The desktop, its directories, and how text is to be shown.
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

/// The names that pass with [`Inherit::Core`], by group: for documents and for `doctor`.
pub const CORE_GROUPS: [(&str, &[&str]); 4] =
    [("core", CORE), ("toolchains", TOOLCHAINS), ("network", NETWORK), ("desktop", DESKTOP)];

/// These have power over the loader or over every shell, before a job's first command runs.
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

/// The server's own: its settings, its place.
const SERVERS: [&str; 6] = ["SHELLYARD_*", "MCP_*", "PWD", "OLDPWD", "SHLVL", "_"];

/// Where a job's environment starts from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Inherit {
    /// The names of [`CORE_GROUPS`].
    #[default]
    Core,
    /// Everything that is neither a secret nor dangerous.
    All,
}

/// What an administrator says about the environment of jobs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EnvironmentRules {
    /// Where it starts from.
    pub inherit: Inherit,
    /// Names that pass, too. One without a wildcard passes even when it looks like a secret.
    pub pass: Vec<NamePattern>,
    /// Variables that are there in any case, instead of those of the server.
    pub set: Vec<(String, String)>,
    /// Names that do not pass.
    pub drop: Vec<NamePattern>,
}

/// A name, or one with `*` for any text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamePattern(String);

impl NamePattern {
    /// Reads a pattern.
    ///
    /// # Errors
    /// It is empty, or holds what no name can hold.
    pub fn parse(text: &str) -> Result<Self, NamePatternError> {
        if text.is_empty() || text.contains(['=', '\0']) || text.contains(char::is_whitespace) {
            return Err(NamePatternError { given: text.to_owned() });
        }
        Ok(Self(text.to_owned()))
    }

    fn fits(&self, name: &str) -> bool {
        matches_wildcard(&self.0, name)
    }

    fn spells_out(&self, name: &str) -> bool {
        self.0 == name
    }
}

/// What was given is no pattern for names of variables.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "{given:?} is no name of a variable; write one such as JAVA_HOME, or several at once as MY_*"
)]
pub struct NamePatternError {
    given: String,
}

impl NamePatternError {
    /// The stable word that programs may match on.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        "bad_variable_pattern"
    }
}

/// What a job gets, and what it does not.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct JobEnvironment {
    /// The environment, in the server's order, then what was set.
    pub kept: Vec<(OsString, OsString)>,
    /// What was left out: names only, never a value.
    pub dropped: Vec<DroppedVariable>,
}

/// A variable that a job does not get.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DroppedVariable {
    /// Its name; bytes that are no text are replaced.
    pub name: String,
    /// Why.
    pub why: DropCause,
}

/// Why a job does not get a variable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DropCause {
    /// It has power over every shell or over the loader. Never passes.
    Dangerous,
    /// It is the server's own setting or place. Never passes.
    Servers,
    /// The rules say so.
    ByRule,
    /// Its name says that it is a secret.
    SecretName,
    /// Its value is one, of this kind.
    SecretValue(&'static str),
    /// Nothing says that it passes.
    Unlisted,
}

impl DropCause {
    /// The stable word for it.
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

/// Picks the variables that jobs get out of those of the server.
#[must_use]
pub fn clean(server: &[(OsString, OsString)], rules: &EnvironmentRules) -> JobEnvironment {
    let mut cleaned = JobEnvironment::default();
    let is_set = |name: &OsStr| rules.set.iter().any(|(set, _)| name == set.as_str());
    for (name, value) in server.iter().filter(|(name, _)| !is_set(name)) {
        match judge(name, value, rules) {
            Ok(()) => cleaned.kept.push((name.clone(), value.clone())),
            Err(why) => {
                let name = name.to_string_lossy().into_owned();
                cleaned.dropped.push(DroppedVariable { name, why });
            }
        }
    }
    cleaned.kept.extend(rules.set.iter().map(|(name, value)| (name.into(), value.into())));
    cleaned
}

fn judge(name: &OsStr, value: &OsStr, rules: &EnvironmentRules) -> Result<(), DropCause> {
    // No rule can speak of a name that is no text.
    let name = name.to_str().ok_or(DropCause::Unlisted)?;
    let any = |patterns: &[NamePattern]| patterns.iter().any(|pattern| pattern.fits(name));
    if any_fits(&DANGEROUS, name) {
        return Err(DropCause::Dangerous);
    }
    if any_fits(&SERVERS, name) {
        return Err(DropCause::Servers);
    }
    if any(&rules.drop) {
        return Err(DropCause::ByRule);
    }
    if rules.pass.iter().any(|pattern| pattern.spells_out(name)) {
        return Ok(());
    }
    // Before the lists: that a secret was there is worth more than that it was not listed.
    check_secret(name, value)?;
    if is_inherited(name, rules.inherit) || any(&rules.pass) {
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
        Inherit::Core => CORE_GROUPS.iter().any(|(_, names)| any_fits(names, name)),
        Inherit::All => true,
    }
}

fn any_fits(patterns: &[&str], name: &str) -> bool {
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
        let cleaned = clean(&[(name.into(), value.into())], rules);
        let (kept, dropped) = match expected {
            Ok(()) => (vec![(name.into(), value.into())], Vec::new()),
            Err(why) => (Vec::new(), vec![DroppedVariable { name: name.into(), why }]),
        };
        assert_eq!(cleaned, JobEnvironment { kept, dropped }, "{variable:?} under {rules:?}");
    }

    #[test]
    fn by_default_builds_work_and_the_rest_stays_here() {
        let rules = EnvironmentRules::default();
        for name in ["PATH", "HOME", "LC_ALL", "CARGO_HOME", "XDG_CACHE_HOME", "no_proxy", "CI"] {
            check((name, "x"), &rules, Ok(()));
        }
        for (name, value, why) in [
            ("FOO", "x", DropCause::Unlisted),
            ("NODE_OPTIONS", "x", DropCause::Unlisted),
            ("path", "x", DropCause::Unlisted),
            ("API_KEY", "x", DropCause::SecretName),
            ("XDG_TOKEN", "x", DropCause::SecretName),
            ("https_proxy", "http://me:pw@p", DropCause::SecretValue("password in a URL")),
            ("FOO", "AKIAABCDEFGHIJKLMNOP", DropCause::SecretValue("AWS key id")),
            ("LD_PRELOAD", "x", DropCause::Dangerous),
            ("BASH_FUNC_ls%%", "() { :; }", DropCause::Dangerous),
            ("SHELLYARD_HTTP_BIND", "x", DropCause::Servers),
            ("MCP_HTTP_BIND", "x", DropCause::Servers),
            ("PWD", "/", DropCause::Servers),
        ] {
            check((name, value), &rules, Err(why));
        }
    }

    #[test]
    fn a_name_that_is_spelled_out_passes_and_a_wildcard_does_not_carry_secrets() {
        let named = rules(Inherit::Core, &["MY_TOKEN", "https_proxy", "LD_PRELOAD", "MY_*"], &[]);
        check(("MY_TOKEN", "x"), &named, Ok(()));
        check(("https_proxy", "http://me:pw@p"), &named, Ok(()));
        check(("MY_FLAG", "x"), &named, Ok(()));
        check(("MY_KEY", "x"), &named, Err(DropCause::SecretName));
        let value = ("MY_URL", "ftp://me:pw@host");
        check(value, &named, Err(DropCause::SecretValue("password in a URL")));
        check(("LD_PRELOAD", "x"), &named, Err(DropCause::Dangerous));
    }

    #[test]
    fn all_is_everything_but_secrets_and_dangers() {
        let all = rules(Inherit::All, &["KEPT_TOKEN"], &["INTERNAL_*", "KEPT_TOKEN"]);
        check(("FOO", "x"), &all, Ok(()));
        check(("FOO_TOKEN", "x"), &all, Err(DropCause::SecretName));
        check(("ENV", "x"), &all, Err(DropCause::Dangerous));
        check(("INTERNAL_HOST", "x"), &all, Err(DropCause::ByRule));
        check(("KEPT_TOKEN", "x"), &all, Err(DropCause::ByRule));
    }

    #[test]
    fn what_is_set_is_there_once_and_last() {
        let set = vec![("PATH".into(), "/opt/bin".into()), ("LD_LIBRARY_PATH".into(), "/l".into())];
        let rules = EnvironmentRules { set, ..EnvironmentRules::default() };
        let server = [("PATH".into(), "/bin".into()), ("HOME".into(), "/h".into())];
        let expected = [("HOME", "/h"), ("PATH", "/opt/bin"), ("LD_LIBRARY_PATH", "/l")];
        let expected = expected.map(|(name, value)| (name.into(), value.into()));
        let cleaned = clean(&server, &rules);
        assert_eq!(cleaned, JobEnvironment { kept: expected.to_vec(), dropped: Vec::new() });
    }

    #[test]
    fn a_name_that_is_no_text_does_not_pass() {
        let name = OsStr::from_bytes(b"A\xff").to_owned();
        let cleaned = clean(&[(name, "x".into())], &rules(Inherit::All, &["*"], &[]));
        let dropped = vec![DroppedVariable { name: "A\u{fffd}".into(), why: DropCause::Unlisted }];
        assert_eq!(cleaned, JobEnvironment { kept: Vec::new(), dropped });
    }

    #[test]
    fn a_star_is_any_text() {
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
    fn what_is_no_name_is_refused() {
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
        fn each_variable_is_kept_or_named_and_no_danger_is_kept(
            server in variables(),
            inherit in prop::sample::select(vec![Inherit::Core, Inherit::All]),
            pass in prop::sample::subsequence(vec!["*", "LD_X", "ENV", "A_TOKEN"], 0..4),
        ) {
            let cleaned = clean(&server, &rules(inherit, &pass, &[]));
            prop_assert_eq!(cleaned.kept.len() + cleaned.dropped.len(), server.len());
            for (name, _) in &cleaned.kept {
                let name = name.to_str().unwrap();
                prop_assert!(!any_fits(&DANGEROUS, name) && !any_fits(&SERVERS, name));
                prop_assert!(!is_secret_name(name) || pass.contains(&name));
            }
        }
    }
}
