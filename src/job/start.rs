//! Starting a job's process without holding up the others, and what every job of a server shares.
//!
//! A shim starts the process; the server waits for its word without a thread. What is looked up before
//! may block: a directory on a remote file system may not answer. Only for a local directory without a
//! sandbox of files that is done on a thread of the runtime.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::Path;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use super::job_guard::{JobGuard, keep_name};
use super::messages::PumpGate;
use super::watchdog::Watchdog;
use crate::confinement::{SandboxPaths, SandboxProfile};
use crate::environment::{JobEnvironment, is_for_unconfined_jobs};
use crate::exec_gate::ExecGate;
use crate::journal::Journal;
use crate::outcome::StartError;
use crate::output::redaction::Redactor;
use crate::output::{LogStorage, Quota};
use crate::process::shell::{self, ShellChoice};
use crate::process::{
    CommandLine, Cwd, Deadline, EnvVariable, Host, JOB_VARIABLE, LaunchStdin, NotStarted, Process,
    ProcessLaunch, SandboxSpec, TerminalSize,
};
use crate::spec::{JobProgram, JobSpec, JobUser, ShellUse, Stdin};
use crate::trace::TraceContext;

/// Starts a process. If this future is dropped, the process is not started, or is ended.
pub(super) async fn start_process(
    host: Arc<Host>,
    launch: ProcessLaunch,
) -> Result<Process, NotStarted> {
    let starting = if host.is_quick_to_start(&launch) {
        host.begin_start(launch)
    } else {
        let program = launch.command.program.to_string_lossy().into_owned();
        let begun = tokio::task::spawn_blocking(move || host.begin_start(launch)).await;
        // The runtime ends.
        begun.unwrap_or_else(|_| {
            Err(StartError::System { program, why: "its start broke off".to_owned() })
        })
    };
    starting?.started().await
}

// The program and environment of a spec.

/// The variables in which programs look for their trace context, as OpenTelemetry defines them.
const TRACE_VARIABLES: [&str; 2] = ["TRACEPARENT", "TRACESTATE"];

/// Builds the launch request for this job's process.
///
/// # Errors
/// If a variable cannot be passed to a program.
pub(super) fn build_launch(guard: &JobGuard, cwd: Cwd) -> Result<ProcessLaunch, StartError> {
    let spec = guard.spec();
    let settings = &guard.settings;
    let named = spec.shell_path.clone().map(ShellChoice::Path);
    let shell = named.as_ref().unwrap_or(&settings.shell);
    // The names in the rules mean the server's programs, also for a client with other variables.
    let path = settings.environment.search_path();
    let gate = settings.gate.rules_for(spec, path)?.map(Arc::new);
    let command = match (&spec.program, spec.shell) {
        (JobProgram::Shell(text), _) if gate.is_some() => {
            shell::build_gated_invocation(shell, text)
        }
        (JobProgram::Shell(text), ShellUse::Configured) => {
            shell::build_invocation(shell.choose_path(text), text)
        }
        (JobProgram::Shell(text), ShellUse::AsJudged) => {
            shell::build_judged_invocation(shell, text)
        }
        (JobProgram::Direct { program, args }, _) => CommandLine::new_direct(program, args),
    };
    Ok(ProcessLaunch {
        command,
        env: build_environment(guard)?,
        cwd,
        stdin: match spec.stdin {
            Stdin::Closed => LaunchStdin::Null,
            // The guard keeps the text; the specification has none.
            Stdin::Text(_) => LaunchStdin::Text(guard.first_input.clone().into_bytes()),
            Stdin::Open => LaunchStdin::Pipe,
            Stdin::Inherited => LaunchStdin::Inherited,
            Stdin::Terminal => {
                LaunchStdin::Terminal(spec.terminal_size.unwrap_or(TerminalSize::DEFAULT))
            }
        },
        streams: spec.streams,
        sandbox: SandboxSpec {
            granted: spec.confinement,
            limits: spec.resources,
            paths: match &spec.area {
                Some(area) => Arc::new(area.sandbox_paths(&settings.places)),
                None => Arc::clone(&settings.places),
            },
        },
        user: user_of(spec).cloned(),
        keep_as: settings.journal.as_ref().map(|_| keep_name(guard.id())),
        deadline: Some(Deadline { timeout: spec.limits.timeout, grace: spec.limits.grace }),
        gate,
    })
}

/// The variables of the server or of the caller's client, then those of a login of the job's user, then those of the call, then the trace context unless the caller set one,
/// then the marker; later ones win.
fn build_environment(guard: &JobGuard) -> Result<Vec<EnvVariable>, StartError> {
    let given = &guard.spec().env;
    let marker = EnvVariable::new(JOB_VARIABLE, guard.id().number().to_string())?;
    let is_given = |name: &str| given.iter().any(|(given, _)| given == name);
    let is_told = TRACE_VARIABLES.into_iter().any(is_given);
    let trace = guard.trace().filter(|_| !is_told);
    // With two trace contexts one would be wrong.
    let is_traced = |name: &OsStr| trace.is_some() && TRACE_VARIABLES.iter().any(|it| name == *it);
    let is_set = |name: &OsStr| is_traced(name) || name.to_str().is_some_and(is_given);
    let is_withheld = match guard.spec().confinement.effective.profile {
        SandboxProfile::None | SandboxProfile::Default => |_: &OsStr| false,
        SandboxProfile::WorkspaceWrite | SandboxProfile::ReadOnly => is_for_unconfined_jobs,
    };
    let inherited = guard.variables.inherited().iter();
    let user = user_of(guard.spec());
    let is_of_server = |name: &OsStr| user.is_some() && JobUser::is_personal_variable(name);
    let is_left_out = |name: &OsStr| is_set(name) || is_withheld(name) || is_of_server(name);
    let mut all: Vec<EnvVariable> =
        inherited.filter(|variable| !is_left_out(variable.name())).cloned().collect();
    for variable in user.map(JobUser::login_variables).transpose()?.into_iter().flatten() {
        if !is_set(variable.name()) {
            all.push(variable);
        }
    }
    for (name, value) in given {
        all.push(EnvVariable::new(name, value)?);
    }
    for (name, value) in trace.into_iter().flat_map(trace_variables) {
        all.push(EnvVariable::new(name, value)?);
    }
    all.retain(|variable| variable.name() != marker.name());
    all.push(marker);
    Ok(all)
}

/// Returns the user of a job, if it is not the server's.
fn user_of(spec: &JobSpec) -> Option<&JobUser> {
    spec.area.as_ref()?.user.as_ref()
}

/// Returns the variables that pass the trace context to programs.
fn trace_variables(trace: &TraceContext) -> impl Iterator<Item = (&'static str, String)> {
    let values = [Some(trace.format_traceparent()), trace.state.as_deref().map(str::to_owned)];
    TRACE_VARIABLES.into_iter().zip(values).filter_map(|(name, value)| Some((name, value?)))
}

// Settings that jobs share, and variables that they inherit.

/// The settings that all jobs of a server share.
#[derive(Debug, Clone)]
pub struct SharedJobSettings {
    /// The shell that runs shell text.
    pub shell: ShellChoice,
    /// The variables that every job gets.
    pub environment: Arc<JobVariables>,
    /// Starts and ends processes.
    pub host: Arc<Host>,
    /// The storage of output.
    pub log: LogStorage,
    /// The limit on the stored output of all jobs together.
    pub quota: Arc<Quota>,
    /// Hides secrets in output before it is stored, if that is configured.
    pub mask: Option<Arc<Redactor>>,
    /// The time for which output must be quiet after the leader has ended while survivors hold the
    /// pipes.
    pub drain_quiet: Duration,
    /// The longest wait for last bytes.
    pub drain_max: Duration,
    /// The paths that confined jobs may write, and those that are hidden from them.
    pub places: Arc<SandboxPaths>,
    /// The journal of a durable server.
    pub journal: Option<Journal>,
    /// Stops all pumps before another server takes over, and gives threads to the busy ones.
    pub pumps: PumpGate,
    /// Watches the limits that the kernel does not enforce.
    pub watchdog: Watchdog,
    /// Gives jobs the rules for each program that starts in them.
    pub gate: Arc<ExecGate>,
}

/// The variables that jobs inherit from the server or from their client. They are selected when the
/// first job needs them: checking them for secrets takes a while, and the server must answer before it
/// runs its first job.
pub struct JobVariables {
    select: VariableSelector,
    selected: LazyVariables,
}

type LazyVariables = LazyLock<SelectedVariables, Box<dyn FnOnce() -> SelectedVariables + Send>>;

/// Selects the variables that jobs may inherit among those of a process.
type VariableSelector = Arc<dyn Fn(&[(OsString, OsString)]) -> JobEnvironment + Send + Sync>;

struct SelectedVariables {
    inherited: Vec<EnvVariable>,
    /// The names of the variables that a setting could pass.
    withheld: Vec<String>,
}

impl JobVariables {
    /// Creates the variables that `select` returns for the server's own. It is called at most once
    /// for each environment.
    #[must_use]
    pub fn new_lazy(
        own: Vec<(OsString, OsString)>,
        select: impl Fn(&[(OsString, OsString)]) -> JobEnvironment + Send + Sync + 'static,
    ) -> Self {
        Self::select_among(own, Vec::new(), Arc::new(select))
    }

    /// Returns the variables of the jobs of a client with this environment, by the same rules.
    /// `withheld` are the names of variables that the client itself withholds.
    #[must_use]
    pub fn for_client(
        &self,
        environment: Vec<(OsString, OsString)>,
        withheld: Vec<String>,
    ) -> Self {
        Self::select_among(environment, withheld, Arc::clone(&self.select))
    }

    fn select_among(
        given: Vec<(OsString, OsString)>,
        mut withheld: Vec<String>,
        select: VariableSelector,
    ) -> Self {
        // No process has a variable with a NUL byte.
        let variable = |(name, value): (OsString, OsString)| EnvVariable::new(name, value).ok();
        let rules = Arc::clone(&select);
        let selected: LazyVariables = LazyLock::new(Box::new(move || {
            let selected = rules(&given);
            withheld.extend(selected.withheld_names().map(str::to_owned));
            let inherited = selected.kept.into_iter().filter_map(variable).collect();
            SelectedVariables { inherited, withheld }
        }));
        Self { select, selected }
    }

    /// Creates variables from these names and values.
    #[cfg(test)]
    pub(crate) fn from_pairs(kept: Vec<(OsString, OsString)>) -> Self {
        let keep_all = |kept: &[_]| JobEnvironment { kept: kept.to_vec(), dropped: Vec::new() };
        Self::new_lazy(kept, keep_all)
    }

    /// Returns the inherited variables in order.
    #[must_use]
    pub fn inherited(&self) -> &[EnvVariable] {
        &self.selected.inherited
    }

    /// Returns the names of variables that the server has, that jobs do not get, and that a setting
    /// could pass.
    pub fn withheld_names(&self) -> impl Iterator<Item = &str> {
        self.selected.withheld.iter().map(String::as_str)
    }

    /// Returns the search path for programs.
    #[must_use]
    pub fn search_path(&self) -> Option<&OsStr> {
        self.find("PATH")
    }

    /// Returns the home directory.
    #[must_use]
    pub fn home_dir(&self) -> Option<&Path> {
        self.find("HOME").map(Path::new)
    }

    fn find(&self, name: &str) -> Option<&OsStr> {
        let variable = self.inherited().iter().find(|variable| variable.name() == name);
        variable.map(EnvVariable::value)
    }
}

/// Prints no values: they may be private.
impl fmt::Debug for JobVariables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JobVariables").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::tests::host;
    use crate::process::{self, Cwd, LaunchStdin, SandboxSpec, StreamMode};

    fn build_launch(text: &str) -> ProcessLaunch {
        ProcessLaunch {
            command: CommandLine::new_direct("/bin/sh", ["-c", text]),
            env: Vec::new(),
            cwd: Cwd::Path("/".into()),
            stdin: LaunchStdin::Null,
            streams: StreamMode::Separate,
            sandbox: SandboxSpec::none(),
            user: None,
            keep_as: None,
            deadline: None,
            gate: None,
        }
    }

    #[tokio::test]
    async fn a_process_starts_on_another_thread_or_here() {
        for (text, code) in [("exit 3", 3), ("exit 4", 4)] {
            let mut process = start_process(host(), build_launch(text)).await.unwrap();
            let status = process.events.wait().await.unwrap().status;
            assert_eq!(status, process::ExitKind::Code(code));
            assert!(host().is_quick_to_start(&build_launch("exit 4")), "its directory was seen");
        }
    }

    #[tokio::test]
    async fn a_process_that_nobody_takes_is_ended() {
        let process = host().spawn(&build_launch("sleep 300")).unwrap();
        let tree = process.tree.clone();
        let pid = tree.leader_pid().unwrap();
        drop((process, tree));
        let file = std::path::PathBuf::from(format!("/proc/{pid}"));
        let deadline = std::time::Instant::now() + crate::job::tests::LONG;
        while file.exists() {
            assert!(std::time::Instant::now() < deadline, "it still runs");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}
