//! From a command line to an exit code.

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use ractor::SpawnErr;
use thiserror::Error;
use tokio::task::JoinError;

use super::data_dir::ServerLock;
use super::runtime::{Signals, check_log_thread, check_threads, client_runtime, server_runtime};
use super::serve::{App, Ending};
use super::{confinement, connect, rules, traces, values};
use crate::TaskLimit;
use crate::bounded_read::{BoundedReadError, FILE_TIME, run_bounded};
use crate::cli::{Cli, Command, ConfigVerb, OperatorVerb, RunFlags, talk};
use crate::client::{ClientError, TargetError};
use crate::config::{ConfigError, Environment, FlagValue, Loaded, Settings, Sources, load};
use crate::environment::NamePatternError;
use crate::http::auth::AuthError;
use crate::http::{HttpError, Server};
use crate::ids::TenantError;
use crate::output::redact::RedactError;
use crate::policy::directories::DirectoryError;
use crate::policy::rules::RuleError;
use crate::private_files::{PrivateDirError, make_private_dir};
use crate::process::child_defaults;
use crate::telemetry::audit::AuditError;
use crate::telemetry::exporter::ExporterError;
use crate::telemetry::logging::SetupError;
use crate::telemetry::{Exporter, logging};
use crate::service::Unavailable;
use crate::{cli, proxy};

/// Exit code of a server that could not start or go on.
const FAILURE: u8 = 1;
/// Exit code of `run` when the failure is ours and not the command's.
const RUN_FAILURE: u8 = 125;

/// The time that tasks of the runtime's own threads get at the end.
const LAST_TASKS: Duration = Duration::from_secs(1);

/// Runs the program to its end.
#[must_use]
pub fn run(cli: Cli) -> ExitCode {
    let environment = Environment::of_process();
    let (result, failure) = match cli.command {
        Command::Config(cli::ConfigCommand { verb: ConfigVerb::File(verb) }) => {
            (Ok(cli::config::run(&verb, environment)), FAILURE)
        }
        Command::Config(cli::ConfigCommand { verb: ConfigVerb::Reload(flags) }) => {
            (ask(&OperatorVerb::Reload(flags), environment), FAILURE)
        }
        Command::Operator(verb) => (ask(&verb, environment), FAILURE),
        Command::DemoLoad(flags) => (demo_load(&flags, environment), FAILURE),
        Command::Audit(command) => (Ok(cli::audit::run(&command)), FAILURE),
        Command::Token(command) => {
            let start = Start::new(command.config.clone(), command.values(), environment);
            (start.token(&command), FAILURE)
        }
        Command::Policy(command) => {
            let start = Start::new(command.config.clone(), Vec::new(), environment);
            (start.policy(&command), FAILURE)
        }
        Command::Doctor(flags) => {
            let start = Start::new(flags.config.clone(), Vec::new(), environment);
            (start.doctor(&flags), FAILURE)
        }
        Command::Serve(flags) => {
            let start = Start::new(flags.server.config.clone(), flags.values(), environment);
            (start.serve(), FAILURE)
        }
        Command::Stdio(flags) => {
            let start = Start::new(flags.server.config.clone(), flags.server.values(), environment);
            let result = match flags.connect {
                Some(_) => start.proxy(&flags),
                None => start.stdio(),
            };
            (result, FAILURE)
        }
        Command::Server(cli::ServerCommand { verb: cli::ServerVerb::Shell(flags) }) => {
            let start = Start::new(flags.config.clone(), flags.values(), environment);
            (start.shell_server(&flags), FAILURE)
        }
        Command::Run(flags) => {
            let start = Start::new(flags.config.clone(), flags.values(), environment);
            (start.run(flags), RUN_FAILURE)
        }
    };
    ExitCode::from(result.unwrap_or_else(|error: AppError| {
        talk::complain(&error);
        failure
    }))
}

/// Asks a running server, and needs no more of the settings than where it is.
fn ask(verb: &OperatorVerb, environment: Environment) -> Result<u8, AppError> {
    let flags = verb.server();
    let start = Start::new(flags.config.clone(), flags.values(), environment);
    let settings = start.load()?.settings;
    let wanted = flags.connect.as_ref().and_then(Option::as_deref);
    let environment = &start.sources.environment;
    let client = connect::client(wanted, flags.token.as_deref(), &settings, environment)?;
    Ok(client_runtime()?.block_on(verb.run(&client)))
}

/// Puts a load on a running server, as those whose tokens are given.
fn demo_load(flags: &cli::DemoLoadFlags, environment: Environment) -> Result<u8, AppError> {
    let server = &flags.server;
    let start = Start::new(server.config.clone(), server.values(), environment);
    let settings = start.load()?.settings;
    let wanted = server.connect.as_ref().and_then(Option::as_deref);
    let client = |token| connect::client(wanted, token, &settings, &start.sources.environment);
    let operator = client(server.token.as_deref())?;
    let tenants = flags.tenants.iter().map(|file| client(Some(file)));
    let tenants = tenants.collect::<Result<Vec<_>, _>>()?;
    let load = cli::demo_load::run(flags, &operator, &tenants);
    client_runtime()?.block_on(load).map_err(AppError::Signals)
}

/// Everything that settings come from.
struct Start {
    sources: Sources,
}

impl Start {
    fn new(file: Option<PathBuf>, flags: Vec<FlagValue>, environment: Environment) -> Self {
        Self { sources: Sources { file, environment, flags } }
    }

    fn serve(self) -> Result<u8, AppError> {
        child_defaults::keep_child_signals();
        let loaded = self.load()?;
        close_data_dir(&loaded.settings)?;
        check_threads(&self.sources.environment)?;
        let (_guard, log) = logging::start(&self.logging(&loaded))?;
        // Before anything of another server is touched.
        let lock = ServerLock::take(&loaded.settings.server.data_dir)?;
        let runtime = server_runtime(&self.sources.environment)?;
        let traces = traces::start(&loaded, runtime.handle())?;
        let result = runtime.block_on(async {
            // Before the yard, which tells its limits once.
            let exporter = Exporter::install()?;
            // A mistake in them ends the server before anybody can connect.
            rules::rules(&loaded, &values::shell(&loaded.settings.job))?;
            let server = Server::bind(values::http(&loaded.settings)?).await?;
            lock.show_listeners(server.socket_path(), server.local_addr());
            let mut ending = Ending::listen(&loaded.settings, loaded.settings.server.drain)?;
            let numbers = Some(values::numbers_file(&loaded.settings));
            let app = App::start(loaded, self.sources, numbers, log).await?;
            app.serve_http(server, exporter, &mut ending, lock).await?;
            Ok(0)
        });
        drop(traces);
        // A thread that hangs in a system call must not hold up the exit.
        runtime.shutdown_timeout(LAST_TASKS);
        result
    }

    fn stdio(self) -> Result<u8, AppError> {
        child_defaults::keep_child_signals();
        let loaded = self.load()?;
        close_data_dir(&loaded.settings)?;
        check_threads(&self.sources.environment)?;
        let (_guard, log) = logging::start(&self.logging(&loaded))?;
        let runtime = server_runtime(&self.sources.environment)?;
        let traces = traces::start(&loaded, runtime.handle())?;
        let result = runtime.block_on(async {
            let mut ending = Ending::listen(&loaded.settings, Duration::ZERO)?;
            // Job numbers of one client or one command begin anew.
            let app = App::start(loaded, self.sources, None, log).await?;
            app.serve_stdio(&mut ending).await?;
            Ok(0)
        });
        drop(traces);
        // A read of stdin that still blocks must not hold up the exit.
        runtime.shutdown_background();
        result
    }

    /// Runs no job, and so needs neither a yard nor what keeps one in order.
    fn proxy(self, flags: &cli::StdioFlags) -> Result<u8, AppError> {
        let loaded = self.load()?;
        check_log_thread()?;
        let _log = logging::start(&self.logging(&loaded))?;
        let upstream = connect::upstream(flags, &loaded.settings, &self.sources.environment)?;
        let runtime = client_runtime()?;
        let result = runtime.block_on(async {
            let mut signals = Signals::listen()?;
            tokio::select! {
                () = proxy::serve(upstream) => {}
                () = signals.wish_to_end() => {}
            }
            Ok(0)
        });
        // A read of stdin that still blocks must not hold up the exit.
        runtime.shutdown_background();
        result
    }

    /// What is wrong with its working directory is told now, and not by every call.
    fn shell_server(self, flags: &cli::ShellServerFlags) -> Result<u8, AppError> {
        if let Some(dir) = &flags.working_dir {
            let usable = std::fs::read_dir(dir);
            let dir = dir.into();
            usable.map_err(|source| AppError::WorkingDirectory { dir, source })?;
        }
        self.stdio()
    }

    fn run(self, flags: RunFlags) -> Result<u8, AppError> {
        child_defaults::keep_child_signals();
        let loaded = self.load()?;
        close_data_dir(&loaded.settings)?;
        // The command's own output is what the caller wants to see.
        let logging = logging::Logging { filter: "warn".to_owned(), ..self.logging(&loaded) };
        check_threads(&self.sources.environment)?;
        let (_guard, log) = logging::start(&logging)?;
        let grace = loaded.settings.job.grace;
        let runtime = server_runtime(&self.sources.environment)?;
        let traces = traces::start(&loaded, runtime.handle())?;
        let result = runtime.block_on(async {
            // Job numbers of one client or one command begin anew.
            let app = App::start(loaded, self.sources, None, log).await?;
            let result = cli::run::run(app.yard(), flags).await.map_err(AppError::Signals)?;
            app.yard().drain(Duration::ZERO, grace).await;
            app.end_everything().await;
            if let Some(message) = &result.message {
                talk::say(message);
            }
            Ok(result.exit_code)
        });
        drop(traces);
        // A thread that hangs in a system call must not hold up the exit.
        runtime.shutdown_timeout(LAST_TASKS);
        result
    }

    fn policy(&self, command: &cli::PolicyCommand) -> Result<u8, AppError> {
        let loaded = self.load()?;
        let policy = rules::rules(&loaded, &values::shell(&loaded.settings.job))?.policy;
        Ok(cli::policy::run(command, &policy))
    }

    fn token(&self, command: &cli::TokenCommand) -> Result<u8, AppError> {
        Ok(cli::token::run(command, rules::token_file(&self.load()?.settings)))
    }

    fn doctor(&self, flags: &cli::DoctorFlags) -> Result<u8, AppError> {
        let loaded = self.load()?;
        let patient = cli::doctor::Patient {
            environment: &rules::environment(&loaded, &self.sources.environment)?,
            levels: values::pressure(&loaded.settings).levels,
            spill_dir: &values::spill_dir(&loaded.settings),
            collector: loaded.settings.trace.otlp_endpoint.as_deref(),
            shell: values::shell(&loaded.settings.job),
            login_shell: self.sources.environment.login_shell(),
            temp_dir: self.sources.environment.temp_dir(),
            confining: confinement::wished(&loaded.settings)?,
        };
        Ok(cli::doctor::run(flags, &patient))
    }

    fn load(&self) -> Result<Loaded, AppError> {
        Ok(load(self.sources.clone())?)
    }

    fn logging(&self, loaded: &Loaded) -> logging::Logging {
        values::logging(&loaded.settings.log, &self.sources.environment)
    }
}

/// Refuses a data directory in which other users could put or read files. One that cannot be made
/// at all holds nothing of ours, and what cannot be kept then is told later.
fn close_data_dir(settings: &Settings) -> Result<(), AppError> {
    let (path, silent) = (settings.server.data_dir.clone(), settings.server.data_dir.clone());
    let made = run_bounded(FILE_TIME, move || make_private_dir(&path));
    match made.map_err(|source| AppError::DataDirSilent { path: silent, source })? {
        Ok(()) | Err(PrivateDirError::Unusable { .. }) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

// Why the program could not start.

/// Why the program could not start. Each text says what to do about it.
#[derive(Debug, Error)]
pub(super) enum AppError {
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error(transparent)]
    DataDir(#[from] PrivateDirError),
    #[error(
        "the data directory `{}` is in use by {holder}; connect to that one (`shellyard stdio --connect`), stop it, or give this one its own with --data-dir DIR", .path.display()
    )]
    DataDirInUse { path: PathBuf, holder: String },
    #[error(
        "the data directory `{}` does not answer; check the file system that it is on, or name another with --data-dir DIR", .path.display()
    )]
    DataDirSilent { path: PathBuf, source: io::Error },
    #[error("cannot lock the data directory by `{}`; remove what is there", .path.display())]
    ServerLock { path: PathBuf, source: io::Error },
    #[error(transparent)]
    Log(#[from] SetupError),
    #[error(transparent)]
    Metrics(#[from] ExporterError),
    #[error(transparent)]
    Http(#[from] HttpError),
    #[error("cannot create a thread: {0}")]
    TaskLimit(TaskLimit),
    #[error("cannot start worker threads; check the limits on processes and memory (ulimit -a)")]
    Runtime(#[source] io::Error),
    #[error("cannot listen to signals; check the limit on open files (ulimit -n)")]
    Signals(#[from] io::Error),
    #[error("this host does not let a server keep its jobs together; Linux 5.4 or newer is needed")]
    Host(#[source] io::Error),
    #[error("cannot start the supervisor")]
    Supervisor(#[from] SpawnErr),
    #[error(
        "the supervisor failed too often in a short time; the log says why; start the server again"
    )]
    SupervisorFails,
    #[error(transparent)]
    Auth(#[from] AuthError),
    #[error(
        "oauth.issuer is set, but no audience: set oauth.resource (or oauth.audience), or tokens for other servers would be good here too"
    )]
    NoAudience,
    #[error(
        "oauth.{key} is set, but no oauth.issuer, so that no access token would be taken; set it too"
    )]
    NoIssuer { key: &'static str },
    #[error("`{entry}` cannot be in oauth.tenants; write VALUE=TENANT")]
    OauthTenant { entry: String, source: TenantError },
    #[error("cannot read the token file `{}`; give a readable file with one token", .path.display())]
    TokenFile { path: PathBuf, source: BoundedReadError },
    #[error("the token file `{}` holds no token; write one into it", .path.display())]
    NoToken { path: PathBuf },
    #[error("the token in {origin} cannot be sent; it must be one line of plain characters")]
    UnusableToken { origin: String },
    #[error(transparent)]
    Target(#[from] TargetError),
    #[error(transparent)]
    Client(#[from] ClientError),
    #[error(
        "the server has no socket (http.socket is \"none\"); say where it is: --connect http://127.0.0.1:8000/mcp"
    )]
    NoSocket,
    #[error(
        "{flag} is a setting of the server, and --connect only talks to one; give it to `shellyard serve`, or leave --connect out"
    )]
    ServersSetting { flag: &'static str },
    #[error(
        "--ensure-server starts a server on this machine only, on a socket or in plain HTTP on loopback, and {target} is none of these; run `shellyard serve` there and leave --ensure-server out"
    )]
    NotStartable { target: String },
    #[error(
        "cannot find this program's own file, so no server can be started; leave --ensure-server out"
    )]
    Program(#[source] io::Error),
    #[error("a rule cannot be used ({origin})")]
    Rule { origin: String, source: RuleError },
    #[error("`{}` cannot be in policy.allowed_directories ({origin}); give a directory that exists", .path.display())]
    AllowedDirectory { origin: String, path: PathBuf, source: io::Error },
    #[error("a directory in policy.allowed_directories cannot be used")]
    Directory(#[from] DirectoryError),
    #[error("a pattern in redact.patterns cannot be used ({origin})")]
    Redact { origin: String, source: RedactError },
    #[error("a pattern in {key} cannot be used ({origin})")]
    Variable { key: &'static str, origin: String, source: NamePatternError },
    #[error("jobs cannot be confined as `{key}` asks for ({origin})")]
    Confinement { key: String, origin: String, source: Unavailable },
    #[error("a name under [tenants] cannot be used")]
    Tenant(#[from] TenantError),
    #[error("the audit log cannot be opened")]
    Audit(#[from] AuditError),
    #[error("`{}` cannot be the working directory; give an existing directory with -w", .dir.display())]
    WorkingDirectory { dir: PathBuf, source: io::Error },
    #[cfg(feature = "otlp")]
    #[error(transparent)]
    Otlp(#[from] crate::telemetry::otlp::ExportError),
    #[cfg(not(feature = "otlp"))]
    #[error(
        "trace.otlp_endpoint is set ({endpoint}), but this program was built without the export of spans; build it with `cargo build --release --features otlp`, or leave the setting empty"
    )]
    NoOtlp { endpoint: String },
    #[error(
        "the settings could not be read within {} s: a file system does not answer; check the mounts that the settings name", .after.as_secs()
    )]
    ReloadHangs { after: Duration },
    #[error("the settings could not be read: the task that reads them failed")]
    ReloadFails(#[source] JoinError),
    #[error("the current directory cannot be used; start in an existing one, or set job.cwd")]
    Cwd(#[source] io::Error),
}

impl AppError {
    /// The reason for which the system gave no thread.
    pub(super) fn no_thread(error: io::Error) -> Self {
        TaskLimit::reached(&error).map_or(Self::Runtime(error), Self::TaskLimit)
    }
}
