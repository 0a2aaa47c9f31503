//! From a command line to an exit code.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use super::data_dir::ServerLock;
use super::error::AppError;
use super::runtime::{Signals, check_log_thread, check_threads, client_runtime, server_runtime};
use super::serve::{App, Ending};
use super::{confinement, connect, rules, traces, values};
use crate::bounded_read::{FILE_READ_TIMEOUT, run_with_timeout};
use crate::cli::{self, Cli, Command, ConfigVerb, OperatorVerb, RunFlags, terminal};
use crate::config::{ConfigSources, Environment, FlagValue, Loaded, Settings, load};
use crate::http::Server;
use crate::private_files::{PrivateDirError, ensure_private_dir};
use crate::process::{Host, block_child_signals};
use crate::proxy;
use crate::telemetry::{Exporter, logging};

/// Exit code of a server that could not start or go on.
const FAILURE: u8 = 1;
/// Exit code of `run` when the failure is ours and not the command's.
const RUN_FAILURE: u8 = 125;

/// The time that tasks of the runtime's own threads get at the end.
const LAST_TASKS: Duration = Duration::from_secs(1);

/// Runs the program to its end.
#[must_use]
pub fn run(cli: Cli) -> ExitCode {
    let environment = Environment::from_process();
    let (result, failure) = match cli.command {
        Command::Config(cli::ConfigCommand { verb: ConfigVerb::File(verb) }) => {
            (Ok(cli::config::run(&verb, environment)), FAILURE)
        }
        Command::Config(cli::ConfigCommand { verb: ConfigVerb::Reload(flags) }) => {
            (ask(&OperatorVerb::Reload(flags), environment), FAILURE)
        }
        Command::Operator(verb) => (ask(&verb, environment), FAILURE),
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
        terminal::print_error(&error);
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

/// Everything that settings come from.
struct Start {
    sources: ConfigSources,
}

impl Start {
    fn new(file: Option<PathBuf>, flags: Vec<FlagValue>, environment: Environment) -> Self {
        Self { sources: ConfigSources { file, environment, flags } }
    }

    fn serve(self) -> Result<u8, AppError> {
        block_child_signals();
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
            rules::rules(&loaded, &loaded.settings.job.shell)?;
            let host = new_host()?;
            let http = values::http(&loaded.settings, Arc::clone(&host))?;
            let server = Server::bind(http).await?;
            lock.show_listeners(server.socket_path(), server.local_addr());
            let drain = loaded.settings.server.drain;
            let mut ending = Ending::listen(&loaded.settings, Arc::clone(&host), drain)?;
            let numbers = Some(values::numbers_file(&loaded.settings));
            let app = App::start(host, loaded, self.sources, numbers, log).await?;
            app.serve_http(server, exporter, &mut ending, lock).await?;
            Ok(0)
        });
        drop(traces);
        // A thread that hangs in a system call must not hold up the exit.
        runtime.shutdown_timeout(LAST_TASKS);
        result
    }

    fn stdio(self) -> Result<u8, AppError> {
        block_child_signals();
        let loaded = self.load()?;
        close_data_dir(&loaded.settings)?;
        check_threads(&self.sources.environment)?;
        let (_guard, log) = logging::start(&self.logging(&loaded))?;
        let runtime = server_runtime(&self.sources.environment)?;
        let traces = traces::start(&loaded, runtime.handle())?;
        let result = runtime.block_on(async {
            let host = new_host()?;
            let mut ending = Ending::listen(&loaded.settings, Arc::clone(&host), Duration::ZERO)?;
            // Job numbers of one client or one command begin anew.
            let app = App::start(host, loaded, self.sources, None, log).await?;
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
        block_child_signals();
        let loaded = self.load()?;
        close_data_dir(&loaded.settings)?;
        // The command's own output is what the caller wants to see.
        let logging =
            logging::LoggingSettings { filter: "warn".to_owned(), ..self.logging(&loaded) };
        check_threads(&self.sources.environment)?;
        let (_guard, log) = logging::start(&logging)?;
        let grace = loaded.settings.job.grace;
        let runtime = server_runtime(&self.sources.environment)?;
        let traces = traces::start(&loaded, runtime.handle())?;
        let result = runtime.block_on(async {
            // Job numbers of one client or one command begin anew.
            let app = App::start(new_host()?, loaded, self.sources, None, log).await?;
            let result = cli::run::run(app.service(), flags).await.map_err(AppError::Signals)?;
            app.service().drain(Duration::ZERO, grace).await;
            app.end_everything().await;
            if let Some(message) = &result.message {
                terminal::print_message(message);
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
        let policy = rules::rules(&loaded, &loaded.settings.job.shell)?.policy;
        Ok(cli::policy::run(command, &policy))
    }

    fn token(&self, command: &cli::TokenCommand) -> Result<u8, AppError> {
        Ok(cli::token::run(command, rules::token_file(&self.load()?.settings)))
    }

    fn doctor(&self, flags: &cli::DoctorFlags) -> Result<u8, AppError> {
        let loaded = self.load()?;
        // A host raises the limits of its process.
        let limits = cli::doctor::read_rlimits();
        let host = new_host()?;
        let input = cli::doctor::DoctorInput {
            environment: &rules::environment(&loaded, &self.sources.environment)?,
            levels: loaded.settings.pressure.levels,
            spill_dir: &values::spill_dir(&loaded.settings),
            collector: loaded.settings.trace.otlp_endpoint.as_deref(),
            shell: loaded.settings.job.shell.clone(),
            login_shell: self.sources.environment.login_shell(),
            temp_dir: self.sources.environment.temp_dir(),
            confining: confinement::wished(&loaded.settings, &host)?,
            host: &host,
            limits,
        };
        Ok(cli::doctor::run(flags, &input))
    }

    fn load(&self) -> Result<Loaded, AppError> {
        Ok(load(self.sources.clone())?)
    }

    fn logging(&self, loaded: &Loaded) -> logging::LoggingSettings {
        values::logging(&loaded.settings.log, &self.sources.environment)
    }
}

/// Refuses a data directory in which other users could put or read files. One that cannot be made
/// at all holds nothing of ours, and what cannot be kept then is told later.
fn close_data_dir(settings: &Settings) -> Result<(), AppError> {
    let path = settings.server.data_dir.clone();
    let silent = settings.server.data_dir.clone();
    let made = run_with_timeout(FILE_READ_TIMEOUT, move || ensure_private_dir(&path));
    match made.map_err(|source| AppError::DataDirSilent { path: silent, source })? {
        Ok(()) | Err(PrivateDirError::Unusable { .. }) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Prepares this process to hold jobs.
fn new_host() -> Result<Arc<Host>, AppError> {
    Host::new().map(Arc::new).map_err(AppError::Host)
}
