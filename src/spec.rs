//! The specification of a job, shared by all modules that handle jobs, and the idempotency key of a
//! request for one.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use data_encoding::HEXLOWER;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest as _, Sha256};

use crate::confinement::{GrantedConfinement, ResourceLimits, SandboxPaths};
use crate::ids::{CallerSession, TenantId};
use crate::trace::CallTrace;

pub use crate::output::Stream;
pub use shellyard_process::{JOB_VARIABLE, JobUser, StreamMode, TerminalSize};

/// The lane of jobs that name no lane. It has no limit of its own, only the server's slots.
pub const DEFAULT_LANE: &str = "default";

/// A complete job specification: all defaults are filled in.
///
/// Its serialized form has neither the values of variables nor the text of the standard input: these may
/// be secrets, and only a job that still has to start needs them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobSpec {
    pub program: JobProgram,
    #[serde(with = "byte_text")]
    pub cwd: PathBuf,
    /// Variables added to the job's environment.
    #[serde(serialize_with = "serialize_names", deserialize_with = "deserialize_names")]
    pub env: Vec<(String, String)>,
    pub stdin: Stdin,
    /// The size of the terminal at the start, if the job has one; `None` = the usual size.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub terminal_size: Option<TerminalSize>,
    /// The pipes of the output; a job in a terminal is always merged.
    pub streams: StreamMode,
    pub limits: RunLimits,
    pub resources: ResourceLimits,
    /// The sandbox that the job gets.
    pub confinement: GrantedConfinement,
    /// The reason why the policy could not judge the command, if it runs in a sandbox because of that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub doubt: Option<Arc<str>>,
    /// The `ask` rules that somebody approved for this job.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub approved: Vec<ApprovedRule>,
    pub on_large_output: LargeOutput,
    /// The caller's description of the job, shown in lists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    pub lane: String,
    /// The priority among the waiting jobs of the same tenant.
    pub priority: Priority,
    /// Among jobs of the same priority those whose callers wait start first.
    pub call_mode: CallMode,
    pub kind: JobKind,
    pub shell: ShellUse,
    /// The path of the shell; `None` = the configured one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shell_path: Option<String>,
    pub tenant: TenantId,
    pub client: JobClient,
    /// The session of the call that submitted the job.
    pub session: CallerSession,
    /// The longest wait for the last output after the leader has ended, while its children still
    /// hold the pipes open; `None` = as configured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drain_max: Option<Duration>,
    /// The idempotency key of the request, if it had one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The trace of the call that submitted the job.
    pub trace: CallTrace,
    /// The user and the directories of its tenant, if the settings name any. Not serialized: a job
    /// that has not started gets those of the server that starts it.
    #[serde(skip)]
    pub area: Option<Arc<TenantArea>>,
}

/// An `ask` rule that somebody approved for a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApprovedRule {
    /// The text of the rule, as written.
    pub text: String,
    /// Its place in the settings.
    pub location: String,
}

/// The user and the directories of a tenant's jobs. All paths are full, without symlinks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TenantArea {
    /// The user that the jobs run as; `None` = the server's.
    pub user: Option<JobUser>,
    /// The directory in which a job starts if its call names none.
    pub workspace: PathBuf,
    /// The directories in which jobs may run, including those below them; the workspace is one of
    /// them.
    pub directories: Vec<PathBuf>,
    /// The directories of other tenants, which jobs with limited files do not see.
    pub hidden: Vec<PathBuf>,
}

/// The directories with the homes of people, as far as they can be hidden as a whole.
const HOMES: [&str; 2] = ["/root", "/home"];

impl TenantArea {
    /// `true` if jobs may run in this directory, a full path without symlinks.
    #[must_use]
    pub fn contains(&self, resolved: &Path) -> bool {
        self.directories.iter().any(|directory| resolved.starts_with(directory))
    }

    /// Returns the directories that a sandbox has to make writable. Those in another one are writable
    /// with that, and jobs can replace them by symlinks, which must not be followed: so they are not
    /// among them, unless something hidden is around them.
    pub fn list_granted<'a>(&'a self, hidden: &'a [PathBuf]) -> impl Iterator<Item = &'a PathBuf> {
        self.directories.iter().filter(|path| self.find_outer(path, hidden).is_none())
    }

    /// Returns the other directories, each with one that it is in.
    fn list_nested<'a>(
        &'a self,
        hidden: &'a [PathBuf],
    ) -> impl Iterator<Item = (&'a PathBuf, &'a PathBuf)> {
        let with_outer = |path: &'a PathBuf| Some((self.find_outer(path, hidden)?, path));
        self.directories.iter().filter_map(with_outer)
    }

    /// Returns the largest directory that makes this one writable too.
    fn find_outer(&self, path: &Path, hidden: &[PathBuf]) -> Option<&PathBuf> {
        let is_between = |outer: &Path| {
            hidden.iter().any(|place| place.starts_with(outer) && path.starts_with(place))
        };
        let around = self.directories.iter();
        let around = around.filter(|outer| *outer != path && path.starts_with(outer));
        around.filter(|outer| !is_between(outer)).min()
    }

    /// Returns the paths for the sandbox of a job, given those for the jobs of tenants without an
    /// area. What they have in the home directory of the server's user, this has in that of its own
    /// user.
    #[must_use]
    pub fn sandbox_paths(&self, general: &SandboxPaths) -> SandboxPaths {
        let mut paths = general.clone();
        paths.hidden.extend(self.hidden.iter().cloned());
        paths.workspace = self.list_granted(&paths.hidden).cloned().collect();
        for (outer, nested) in self.list_nested(&paths.hidden) {
            let below = nested.strip_prefix(outer).unwrap_or(nested);
            let names = general.protected.iter().filter(|name| !name.starts_with("~"));
            paths.protected.extend(names.map(|name| below.join(name)));
        }
        let Some(user) = &self.user else { return paths };
        if let Some(home) = general.home.as_ref().filter(|home| **home != user.home) {
            let move_path = |path: &PathBuf| Some(user.home.join(path.strip_prefix(home).ok()?));
            let hidden: Vec<PathBuf> = general.hidden.iter().filter_map(move_path).collect();
            paths.hidden.extend(hidden);
            paths.shown = general
                .shown
                .iter()
                .map(|path| move_path(path).unwrap_or_else(|| path.clone()))
                .collect();
            if HOMES.iter().any(|around| home.starts_with(around)) {
                paths.hidden.push(home.clone());
            }
        }
        paths.home = Some(user.home.clone());
        paths
    }
}

/// Writes the names of variables without their values.
fn serialize_names<S: Serializer>(
    variables: &[(String, String)],
    output: S,
) -> Result<S::Ok, S::Error> {
    output.collect_seq(variables.iter().map(|(name, _)| name))
}

/// Reads the names of variables; the values are empty.
fn deserialize_names<'de, D: Deserializer<'de>>(
    input: D,
) -> Result<Vec<(String, String)>, D::Error> {
    let names = Vec::<String>::deserialize(input)?;
    Ok(names.into_iter().map(|name| (name, String::new())).collect())
}

/// The program that submitted a job, as it introduced itself.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct JobClient {
    pub name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The directory in which the client was started, if it is known.
    #[serde(
        default,
        serialize_with = "byte_text::serialize_option",
        deserialize_with = "byte_text::deserialize_option",
        skip_serializing_if = "Option::is_none"
    )]
    pub directory: Option<Arc<Path>>,
}

impl JobClient {
    /// Returns a text such as `codex 0.166 in /srv/app`, as far as it is known.
    #[must_use]
    pub fn display(&self) -> String {
        let mut text = self.name.clone();
        if let Some(version) = &self.version {
            text.push(' ');
            text.push_str(version);
        }
        if let Some(directory) = &self.directory {
            text.push_str(&format!(" in {}", directory.display()));
        }
        text
    }
}

/// The kind of a job: how long it is expected to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobKind {
    /// A command that ends by itself. It has a timeout, and holds its slot until it has ended.
    Command,
    /// A server, watcher or daemon, which runs until it is stopped. It has no timeout, and holds a
    /// slot only until it has started.
    Service,
}

/// The way in which the shell is started for shell text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ShellUse {
    /// The shell runs with its own defaults.
    Configured,
    /// The shell runs without start-up files and in the syntax that the policy assumed, so that it reads
    /// the text exactly as the policy judged it.
    AsJudged,
}

/// The program of a job.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobProgram {
    Shell(String),
    /// A program with its arguments, started without a shell.
    Direct {
        /// A path, or a name that is looked up in `PATH`.
        program: String,
        args: Vec<String>,
    },
}

impl JobProgram {
    /// Returns a text by which a shell runs this.
    #[must_use]
    pub fn shell_text(&self) -> String {
        match self {
            Self::Shell(text) => text.clone(),
            Self::Direct { program, args } => {
                let quote = |word: &String| format!("'{}'", word.replace('\'', r"'\''"));
                let words: Vec<String> = std::iter::once(program).chain(args).map(quote).collect();
                words.join(" ")
            }
        }
    }

    /// Returns the command for logs and lists: the shell text, or program and arguments.
    #[must_use]
    pub fn display(&self) -> String {
        match self {
            Self::Shell(text) => text.clone(),
            Self::Direct { program, args } => {
                let mut line = program.clone();
                for arg in args {
                    line.push(' ');
                    line.push_str(arg);
                }
                line
            }
        }
    }
}

/// The standard input of a job.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stdin {
    /// End of file at the first read.
    Closed,
    /// This text, then end of file.
    Text(#[serde(skip)] String),
    /// A pipe that stays open, so that input can be sent later.
    Open,
    /// The server's own standard input, for `shellyard run`.
    Inherited,
    /// A terminal: input, output and errors are one stream.
    Terminal,
}

/// The timeout of a job that runs until it is stopped: longer than any server runs.
pub const NO_TIMEOUT: Duration = Duration::from_secs(100 * 365 * 86_400);

/// Time and output limits of one run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunLimits {
    /// The job is ended after this time.
    pub timeout: Duration,
    /// The time between SIGTERM and SIGKILL.
    pub grace: Duration,
    /// The job is ended when it has written more bytes than this.
    pub output_bytes: u64,
    /// The job is ended when it has written more lines than this.
    pub output_lines: u64,
    /// Output of more bytes than this counts as large, see [`LargeOutput`].
    pub large_bytes: u64,
}

/// The treatment of a job whose output is large.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LargeOutput {
    /// All output is stored, up to the job's limit, where the job is ended.
    Spill,
    /// The beginning and the end of the output are stored, and the job runs on.
    Truncate,
    /// The job is ended at once.
    Error,
}

impl LargeOutput {
    /// Each value with its wire name.
    pub const WORDS: [(&'static str, Self); 3] =
        [("spill", Self::Spill), ("truncate", Self::Truncate), ("error", Self::Error)];
}

/// The way in which the caller of a job waits for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallMode {
    /// The call waits for the job.
    #[default]
    Foreground,
    /// The call returns when the job is accepted.
    Background,
}

/// The order in which the waiting jobs of one tenant start.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum Priority {
    Low,
    #[default]
    Normal,
    High,
}

impl Priority {
    /// Each value with its wire name.
    pub const WORDS: [(&'static str, Self); 3] =
        [("low", Self::Low), ("normal", Self::Normal), ("high", Self::High)];
}

/// The idempotency key of a request: a repeated request with the same key gets the job of the first one.
/// It has a digest of what was requested: a key names one request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobKey {
    text: String,
    command: KeyDigest,
    input: KeyDigest,
    directory: KeyDigest,
    environment: KeyDigest,
}

/// The first half of a SHA-256. The digest of a request is the same in every version of the server, since
/// the journal stores keys.
#[derive(Clone, Copy, PartialEq, Eq)]
struct KeyDigest([u8; 16]);

/// The part of a request that differs from the first request with the same key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyDifference {
    Command,
    Input,
    Directory,
    Environment,
}

impl JobKey {
    /// Creates the key of a request. `spec` is the job as requested, before admission completes it.
    #[must_use]
    pub fn new(text: String, spec: &JobSpec) -> Self {
        let mut environment: Vec<&(String, String)> = spec.env.iter().collect();
        environment.sort_unstable();
        let environment = environment.into_iter().flat_map(|(name, value)| [name, value]);
        Self {
            text,
            command: digest_program(&spec.program),
            input: digest_stdin(&spec.stdin),
            directory: KeyDigest::new([spec.cwd.as_os_str().as_encoded_bytes()]),
            environment: KeyDigest::new(environment.map(String::as_bytes)),
        }
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Returns the first difference to another request with the same key.
    pub(crate) fn difference(&self, other: &Self) -> Option<KeyDifference> {
        if self.command != other.command {
            Some(KeyDifference::Command)
        } else if self.input != other.input {
            Some(KeyDifference::Input)
        } else if self.directory != other.directory {
            Some(KeyDifference::Directory)
        } else if self.environment != other.environment {
            Some(KeyDifference::Environment)
        } else {
            None
        }
    }
}

impl KeyDigest {
    /// Hashes a list of texts. The length of each comes first, so that no two lists hash the same bytes.
    fn new<'a>(texts: impl IntoIterator<Item = &'a [u8]>) -> Self {
        let mut hash = Sha256::new();
        for text in texts {
            hash.update((text.len() as u64).to_be_bytes());
            hash.update(text);
        }
        let whole: [u8; 32] = hash.finalize().into();
        let mut half = [0; 16];
        half.copy_from_slice(&whole[..16]);
        Self(half)
    }
}

fn digest_program(program: &JobProgram) -> KeyDigest {
    match program {
        JobProgram::Shell(text) => KeyDigest::new([b"shell", text.as_bytes()]),
        JobProgram::Direct { program, args } => {
            let program = [b"direct", program.as_bytes()];
            KeyDigest::new(program.into_iter().chain(args.iter().map(String::as_bytes)))
        }
    }
}

fn digest_stdin(stdin: &Stdin) -> KeyDigest {
    match stdin {
        Stdin::Closed => KeyDigest::new([b"closed".as_slice()]),
        Stdin::Text(text) => KeyDigest::new([b"text", text.as_bytes()]),
        Stdin::Open => KeyDigest::new([b"open".as_slice()]),
        Stdin::Inherited => KeyDigest::new([b"inherited".as_slice()]),
        Stdin::Terminal => KeyDigest::new([b"terminal".as_slice()]),
    }
}

impl fmt::Debug for KeyDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&HEXLOWER.encode(&self.0))
    }
}

impl Serialize for KeyDigest {
    fn serialize<S: Serializer>(&self, output: S) -> Result<S::Ok, S::Error> {
        output.serialize_str(&HEXLOWER.encode(&self.0))
    }
}

impl<'de> Deserialize<'de> for KeyDigest {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        let text = <std::borrow::Cow<'de, str>>::deserialize(input)?;
        let bytes = HEXLOWER.decode(text.as_bytes()).map_err(D::Error::custom)?;
        bytes.try_into().map(Self).map_err(|_| D::Error::custom("not a digest of 16 bytes"))
    }
}

impl fmt::Display for KeyDifference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Command => "another command",
            Self::Input => "another standard input",
            Self::Directory => "another directory",
            Self::Environment => "other environment variables",
        })
    }
}

/// Paths and other bytes in JSON: a string if they are UTF-8, otherwise `{"hex": "…"}`. For serde's
/// `with`.
pub(crate) mod byte_text {
    use std::borrow::Cow;
    use std::ffi::{OsStr, OsString};
    use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
    use std::path::{Path, PathBuf};
    use std::sync::Arc;

    use data_encoding::HEXLOWER;
    use serde::de::Error as _;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[derive(Serialize, Deserialize)]
    #[serde(untagged)]
    enum ByteText<'a> {
        #[serde(borrow)]
        Text(Cow<'a, str>),
        Hex {
            hex: String,
        },
    }

    impl ByteText<'_> {
        fn decode(self) -> Result<OsString, data_encoding::DecodeError> {
            match self {
                Self::Text(text) => Ok(text.into_owned().into()),
                Self::Hex { hex } => HEXLOWER.decode(hex.as_bytes()).map(OsString::from_vec),
            }
        }
    }

    impl<'a> From<&'a OsStr> for ByteText<'a> {
        fn from(bytes: &'a OsStr) -> Self {
            match bytes.to_str() {
                Some(text) => Self::Text(Cow::Borrowed(text)),
                None => Self::Hex { hex: HEXLOWER.encode(bytes.as_bytes()) },
            }
        }
    }

    pub(crate) fn serialize<S: Serializer>(
        bytes: &(impl AsRef<OsStr> + ?Sized),
        output: S,
    ) -> Result<S::Ok, S::Error> {
        ByteText::from(bytes.as_ref()).serialize(output)
    }

    pub(crate) fn deserialize<'de, D, T>(input: D) -> Result<T, D::Error>
    where
        D: Deserializer<'de>,
        T: From<OsString>,
    {
        ByteText::deserialize(input)?.decode().map(T::from).map_err(D::Error::custom)
    }

    /// Writes a path that may be absent.
    pub(crate) fn serialize_option<S: Serializer>(
        path: &Option<Arc<Path>>,
        output: S,
    ) -> Result<S::Ok, S::Error> {
        path.as_deref().map(|path| ByteText::from(path.as_os_str())).serialize(output)
    }

    /// Reads a path that may be absent.
    pub(crate) fn deserialize_option<'de, D: Deserializer<'de>>(
        input: D,
    ) -> Result<Option<Arc<Path>>, D::Error> {
        let Some(text) = Option::<ByteText<'de>>::deserialize(input)? else { return Ok(None) };
        let path = text.decode().map_err(D::Error::custom)?;
        Ok(Some(PathBuf::from(path).into()))
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;
    use std::os::unix::ffi::OsStringExt as _;

    use super::*;
    use crate::job::tests::spec;

    #[test]
    fn the_sandbox_of_a_tenant_is_that_of_its_user_and_directories() {
        let paths = |list: &[&str]| list.iter().map(PathBuf::from).collect::<Vec<_>>();
        let general = SandboxPaths {
            workspace: paths(&["/srv"]),
            home: Some("/root".into()),
            hidden: paths(&["/root/.ssh", "/data"]),
            shown: paths(&["/root/.cargo", "/run/x"]),
            ..SandboxPaths::default()
        };
        let area = TenantArea {
            user: None,
            workspace: "/a".into(),
            directories: paths(&["/a", "/more"]),
            hidden: paths(&["/b"]),
        };
        let own = area.sandbox_paths(&general);
        assert_eq!(own.workspace, area.directories);
        assert_eq!(own.hidden, paths(&["/root/.ssh", "/data", "/b"]));
        assert_eq!((own.home, own.shown), (general.home.clone(), general.shown.clone()));
        let user = JobUser {
            name: "a".to_owned(),
            uid: 7,
            gid: 7,
            groups: vec![7],
            home: "/home/a".into(),
            shell: "/bin/sh".into(),
        };
        let own = TenantArea { user: Some(user), ..area }.sandbox_paths(&general);
        assert_eq!(own.home, Some("/home/a".into()));
        assert_eq!(own.shown, paths(&["/home/a/.cargo", "/run/x"]));
        for hidden in ["/root", "/home/a/.ssh", "/root/.ssh", "/data", "/b"] {
            assert!(own.hidden.contains(&hidden.into()), "{hidden}: {:?}", own.hidden);
        }
    }

    #[test]
    fn only_a_directory_that_no_other_one_contains_is_granted_by_its_path() {
        let paths = |list: &[&str]| list.iter().map(PathBuf::from).collect::<Vec<_>>();
        let general = SandboxPaths {
            protected: paths(&[".git/config", "~/.bashrc"]),
            ..SandboxPaths::default()
        };
        let area = TenantArea {
            user: None,
            workspace: "/a".into(),
            directories: paths(&["/a", "/a/p", "/a/p/q", "/a/b/mine", "/ab"]),
            hidden: paths(&["/a/b", "/other"]),
        };
        let own = area.sandbox_paths(&general);
        assert_eq!(own.workspace, paths(&["/a", "/a/b/mine", "/ab"]));
        let protected = ["p/.git/config", "p/q/.git/config"].map(PathBuf::from);
        assert_eq!(own.protected, [general.protected, protected.to_vec()].concat());
    }

    #[test]
    fn a_key_tells_another_request_from_a_retry() {
        let key = |spec: &JobSpec| JobKey::new("deploy".to_owned(), spec);
        let pairs = |pairs: &[(&str, &str)]| {
            pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
        };
        let first = JobSpec { env: pairs(&[("A", "1"), ("B", "2")]), ..spec("make") };
        let retry = JobSpec { env: pairs(&[("B", "2"), ("A", "1")]), ..spec("make") };
        assert_eq!(key(&first).difference(&key(&retry)), None);
        for (other, expected) in [
            (
                JobSpec { program: spec("make all").program, ..first.clone() },
                KeyDifference::Command,
            ),
            (JobSpec { stdin: Stdin::Text("y".to_owned()), ..first.clone() }, KeyDifference::Input),
            (JobSpec { cwd: "/elsewhere".into(), ..first.clone() }, KeyDifference::Directory),
            (JobSpec { env: pairs(&[("A", "1")]), ..first.clone() }, KeyDifference::Environment),
        ] {
            assert_eq!(key(&first).difference(&key(&other)), Some(expected));
        }
    }

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Paths {
        #[serde(with = "byte_text")]
        one: PathBuf,
        #[serde(
            default,
            serialize_with = "byte_text::serialize_option",
            deserialize_with = "byte_text::deserialize_option",
            skip_serializing_if = "Option::is_none"
        )]
        other: Option<Arc<Path>>,
    }

    #[test]
    fn every_path_is_read_back_as_it_was() {
        let odd = OsString::from_vec(b"/srv/\xff".to_vec());
        for (one, other, expected) in [
            ("/srv/ü".into(), None, r#"{"one":"/srv/ü"}"#),
            (
                odd,
                Some(Path::new("/a\"b").into()),
                r#"{"one":{"hex":"2f7372762fff"},"other":"/a\"b"}"#,
            ),
        ] {
            let paths = Paths { one: one.into(), other };
            let text = serde_json::to_string(&paths).unwrap();
            assert_eq!(text, expected);
            assert_eq!(serde_json::from_str::<Paths>(&text).unwrap(), paths);
        }
        assert!(serde_json::from_str::<Paths>(r#"{"one":{"hex":"2F"}}"#).is_err());
    }
}
