//! Runs a command line, and returns its exit code.

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::CommandFactory;
use tokio::runtime::Handle;

use super::durable::{self, DurableState, KeeperLink};
use super::error::AppError;
use super::runtime::{
    ShutdownTrigger, Signals, build_client_runtime, build_server_runtime, check_log_thread,
    check_threads, limit_memory,
};
use super::serve::App;
use super::server_lock::ServerLock;
#[cfg(feature = "otlp")]
use super::span_sender;
use super::tenants::ServedTenants;
use super::{connect, module_settings, rules, tenants};
use crate::cli::{
    self, Cli, Command, ConfigVerb, Display, JobVerb, OperatorVerb, RunFlags, terminal,
};
use crate::config::{ConfigSources, Environment, FlagValue, Loaded, Settings, ValueOrigin, load};
use crate::http::Server;
use crate::private_files::{
    FILE_READ_TIMEOUT, PrivateDirError, ensure_private_dir, run_with_timeout,
};
use crate::process::{KeeperClient, KeeperLaunch, run_keeper};
use crate::proxy;
#[cfg(feature = "otlp")]
use crate::telemetry::otlp;
use crate::telemetry::{Exporter, events, logging, spans};

/// The exit code of a program that could not start or go on.
const FAILURE: u8 = 1;
/// The exit code of `run` if shellyard failed, and not the command.
const RUN_FAILURE: u8 = 125;

/// The time that blocking tasks of the runtime get at the end.
const BLOCKING_TASKS_TIMEOUT: Duration = Duration::from_secs(1);

/// Runs the program to its end.
#[must_use]
pub fn run(cli: Cli) -> ExitCode {
    // First of all: it changes the environment.
    let is_serve = matches!(cli.command, Command::Serve(_));
    let keeper = if is_serve { KeeperClient::from_environment() } else { Ok(None) };
    let environment = Environment::from_process();
    limit_memory(&environment);
    let (result, failure) = match cli.command {
        Command::Config(command) => (run_config(command.verb, environment), FAILURE),
        Command::Job(verb) => (ask_servers(&verb, environment), FAILURE),
        Command::Operator(verb) => (ask_server(&verb, environment), FAILURE),
        Command::Program(verb) => {
            (Ok(verb.run(Cli::command(), &Display::detect(&environment))), FAILURE)
        }
        Command::Audit(command) => (Ok(cli::audit::run(&command)), FAILURE),
        Command::Install(flags) => (Ok(cli::install::run(&flags, &environment)), FAILURE),
        Command::Token(command) => {
            let start = Startup::new(command.config.clone(), command.values(), environment);
            (start.run_token(&command), FAILURE)
        }
        Command::Policy(command) => {
            let start = Startup::new(command.config.clone(), Vec::new(), environment);
            (start.run_policy(&command), FAILURE)
        }
        Command::Doctor(flags) => {
            let start = Startup::new(flags.config.clone(), Vec::new(), environment);
            (start.run_doctor(&flags), FAILURE)
        }
        Command::Serve(flags) => {
            let start = Startup::new(flags.server.config.clone(), flags.values(), environment);
            let role = match start.choose_role(keeper) {
                Ok(ServeRole::Keeper(launch)) => return run_keeper(launch),
                Ok(ServeRole::Server(loaded, keeper)) => Ok((loaded, keeper)),
                Err(error) => Err(error),
            };
            (role.and_then(|(loaded, keeper)| start.run_server(*loaded, keeper)), FAILURE)
        }
        Command::Stdio(flags) => {
            let start =
                Startup::new(flags.server.config.clone(), flags.server.values(), environment);
            let result = match flags.connect {
                Some(_) => start.run_proxy(&flags),
                None => {
                    cli::greeting::greet_on_stdio();
                    start.run_stdio()
                }
            };
            (result, FAILURE)
        }
        Command::Server(cli::BuiltInServerCommand { verb: cli::ServerVerb::Shell(flags) }) => {
            let start = Startup::new(flags.config.clone(), flags.values(), environment);
            (start.run_shell_server(&flags), FAILURE)
        }
        Command::Run(flags) => {
            let start = Startup::new(flags.config.clone(), flags.values(), environment);
            (start.run(flags), RUN_FAILURE)
        }
    };
    ExitCode::from(result.unwrap_or_else(|error: AppError| {
        terminal::print_error(&error);
        failure
    }))
}

/// Runs a verb of `config`: about the files here, or about a running server.
fn run_config(verb: ConfigVerb, environment: Environment) -> Result<u8, AppError> {
    let check_rules = |loaded: &Loaded| {
        rules::check_rules(loaded).map_err(|error| terminal::format_with_causes(&error))
    };
    match verb {
        ConfigVerb::File(verb) => Ok(cli::config::run(&verb, environment, check_rules)),
        ConfigVerb::Reload(flags) => ask_server(&OperatorVerb::Reload(flags), environment),
    }
}

/// Runs a verb that sends a request to a running server. Of the settings, only the server's address
/// is used.
fn ask_server(verb: &OperatorVerb, environment: Environment) -> Result<u8, AppError> {
    let flags = verb.server();
    let start = Startup::new(flags.config.clone(), flags.values(), environment);
    let settings = start.load()?.settings;
    let wanted = flags.connect.as_ref().and_then(Option::as_deref);
    let environment = &start.sources.environment;
    let client = connect::new_verb_client(wanted, flags.token.as_deref(), &settings, environment)?;
    let display = Display::detect(environment);
    Ok(build_client_runtime()?.block_on(verb.run(&client, &display)))
}

/// Runs a verb about jobs, in the server of `--connect` or in all servers of this user.
fn ask_servers(verb: &JobVerb, environment: Environment) -> Result<u8, AppError> {
    let flags = verb.server();
    let start = Startup::new(flags.config.clone(), flags.values(), environment);
    let settings = start.load()?.settings;
    let environment = &start.sources.environment;
    let servers = connect::find_servers(flags, &settings, environment)?;
    let display = Display::detect(environment);
    Ok(build_client_runtime()?.block_on(verb.run(&servers, &display)))
}

/// The part that a process of `serve` has.
enum ServeRole {
    /// The parent of a durable server.
    Keeper(KeeperLaunch),
    /// The server itself, and its keeper if it has one.
    Server(Box<Loaded>, Option<KeeperClient>),
}

/// The start of a command with its sources of settings.
struct Startup {
    sources: ConfigSources,
}

impl Startup {
    fn new(file: Option<PathBuf>, flags: Vec<FlagValue>, environment: Environment) -> Self {
        Self { sources: ConfigSources { file, environment, flags } }
    }

    /// Decides what this process is: a durable server has a keeper as its parent.
    fn choose_role(&self, keeper: io::Result<Option<KeeperClient>>) -> Result<ServeRole, AppError> {
        let keeper = keeper.map_err(AppError::Keeper)?;
        let loaded = self.load()?;
        if keeper.is_some() || loaded.settings.server.durability.is_none() {
            return Ok(ServeRole::Server(Box::new(loaded), keeper));
        }
        let program = std::env::current_exe().map_err(AppError::Program)?;
        let args = std::env::args_os().skip(1).collect();
        let env = self.sources.environment.pairs();
        Ok(ServeRole::Keeper(KeeperLaunch { program, args, env }))
    }

    fn run_server(self, loaded: Loaded, keeper: Option<KeeperClient>) -> Result<u8, AppError> {
        secure_data_dir(&loaded.settings)?;
        check_threads(&self.sources.environment)?;
        let (_guard, log_filter) = logging::start(&self.logging_settings(&loaded))?;
        // Before this process touches any file of another server.
        let lock = ServerLock::take(&loaded.settings.server.data_dir, keeper.as_ref())?;
        let runtime = build_server_runtime(&self.sources.environment)?;
        let traces = start_trace_export(&loaded, runtime.handle())?;
        let result = runtime.block_on(async {
            // Before the service, which reports its limits only once.
            let exporter = Exporter::install()?;
            // A mistake in the rules must end the server before a client can connect.
            rules::admission_rules(&loaded, &loaded.settings.job.shell)?;
            tenants::check_switching(&loaded, ServedTenants::All)?;
            let host = durable::new_host(keeper.as_ref())?;
            let link = KeeperLink::new(&host)?;
            let http = module_settings::http_settings(&loaded.settings, Arc::clone(&host))?;
            let server = Server::bind_or_reuse(http, link.take_listeners()).await?;
            link.hold_listeners(&server).map_err(AppError::Keeper)?;
            lock.write_listeners(server.socket_path(), server.local_addr());
            let grace = loaded.settings.job.grace;
            let drain = loaded.settings.server.drain;
            let mut shutdown_trigger = ShutdownTrigger::listen(Arc::clone(&host), grace, drain)?;
            let durable = DurableState::open(&loaded.settings, &link)?;
            let environment = self.sources.environment.clone();
            let app =
                App::start(host, loaded, self.sources, durable, log_filter, ServedTenants::All)
                    .await?;
            link.start(&environment, app.reloader())?;
            app.serve_http(server, exporter, &mut shutdown_trigger, lock, link).await?;
            Ok(0)
        });
        drop(traces);
        // A thread that hangs in a system call must not hold up the exit.
        runtime.shutdown_timeout(BLOCKING_TASKS_TIMEOUT);
        result
    }

    fn run_stdio(self) -> Result<u8, AppError> {
        let loaded = self.load()?;
        secure_data_dir(&loaded.settings)?;
        check_threads(&self.sources.environment)?;
        let (_guard, log_filter) = logging::start(&self.logging_settings(&loaded))?;
        let runtime = build_server_runtime(&self.sources.environment)?;
        let traces = start_trace_export(&loaded, runtime.handle())?;
        let result = runtime.block_on(async {
            let host = durable::new_host(None)?;
            let link = KeeperLink::new(&host)?;
            let grace = loaded.settings.job.grace;
            let mut shutdown_trigger =
                ShutdownTrigger::listen(Arc::clone(&host), grace, Duration::ZERO)?;
            // A server of one client or one command numbers its jobs from 1.
            let durable = DurableState::default();
            let app =
                App::start(host, loaded, self.sources, durable, log_filter, ServedTenants::Local)
                    .await?;
            tokio::select! {
                served = app.serve_stdio(&mut shutdown_trigger) => served.map(|()| 0),
                () = link.wait_until_gone() => Err(AppError::KeeperDied),
            }
        });
        drop(traces);
        // A read of stdin that still blocks must not hold up the exit.
        runtime.shutdown_background();
        result
    }

    /// Connects to a running server. A proxy runs no jobs, so it needs no job service.
    fn run_proxy(self, flags: &cli::StdioFlags) -> Result<u8, AppError> {
        let loaded = self.load()?;
        check_log_thread()?;
        let _log = logging::start(&self.logging_settings(&loaded))?;
        let upstream = connect::find_upstream(flags, &loaded, &self.sources.environment)?;
        let runtime = build_client_runtime()?;
        let result = runtime.block_on(async {
            let mut signals = Signals::listen()?;
            tokio::select! {
                () = proxy::serve(upstream) => {}
                () = signals.wait_for_end() => {}
            }
            Ok(0)
        });
        // A read of stdin that still blocks must not hold up the exit.
        runtime.shutdown_background();
        result
    }

    /// Starts `server shell`. A bad working directory is reported now, and not by every call.
    fn run_shell_server(self, flags: &cli::ShellServerFlags) -> Result<u8, AppError> {
        if let Some(dir) = &flags.working_dir {
            let usable = std::fs::read_dir(dir);
            let dir = dir.into();
            usable.map_err(|source| AppError::WorkingDirectory { dir, source })?;
        }
        self.run_stdio()
    }

    fn run(self, flags: RunFlags) -> Result<u8, AppError> {
        if flags.queue.queue {
            return self.run_queued(&flags);
        }
        let loaded = self.load()?;
        secure_data_dir(&loaded.settings)?;
        // The user wants to see the output of the command, not the log.
        let logging = logging::LoggingSettings {
            filter: "warn".to_owned(),
            ..self.logging_settings(&loaded)
        };
        check_threads(&self.sources.environment)?;
        let (_guard, log_filter) = logging::start(&logging)?;
        let grace = loaded.settings.job.grace;
        let display = Display::detect(&self.sources.environment);
        let runtime = build_server_runtime(&self.sources.environment)?;
        let traces = start_trace_export(&loaded, runtime.handle())?;
        let result = runtime.block_on(async {
            // A server of one client or one command numbers its jobs from 1.
            let host = durable::new_host(None)?;
            let link = KeeperLink::new(&host)?;
            let durable = DurableState::default();
            let app =
                App::start(host, loaded, self.sources, durable, log_filter, ServedTenants::Local)
                    .await?;
            let result = tokio::select! {
                result = cli::run::run(app.service(), flags, &display) => {
                    result.map_err(AppError::Signals)?
                }
                () = link.wait_until_gone() => return Err(AppError::KeeperDied),
            };
            app.service().drain(Duration::ZERO, grace).await;
            app.end_everything().await;
            if let Some(message) = &result.message {
                terminal::print_message(message);
            }
            Ok(result.exit_code)
        });
        drop(traces);
        // A thread that hangs in a system call must not hold up the exit.
        runtime.shutdown_timeout(BLOCKING_TASKS_TIMEOUT);
        result
    }

    /// Sends the command of `run --queue` to a running server.
    fn run_queued(&self, flags: &RunFlags) -> Result<u8, AppError> {
        let settings = self.load()?.settings;
        let environment = &self.sources.environment;
        let queue = &flags.queue;
        let (wanted, token) = (queue.connect.as_deref(), queue.token.as_deref());
        let client = connect::new_verb_client(wanted, token, &settings, environment)?;
        let display = Display::detect(environment);
        Ok(build_client_runtime()?.block_on(cli::run::run_queued(flags, client, &display)))
    }

    fn run_policy(&self, command: &cli::PolicyCommand) -> Result<u8, AppError> {
        let loaded = self.load()?;
        let rules = rules::admission_rules(&loaded, &loaded.settings.job.shell)?;
        let rules = module_settings::gate_settings(&loaded, &rules)?;
        let environment = rules::job_environment(&loaded, &self.sources.environment)?;
        let path = environment.kept.iter().find(|(name, _)| name == "PATH");
        Ok(cli::policy::run(command, &rules, path.map(|(_, path)| path.as_os_str())))
    }

    fn run_token(&self, command: &cli::TokenCommand) -> Result<u8, AppError> {
        Ok(cli::token::run(command, rules::token_file(&self.load()?.settings)))
    }

    fn run_doctor(&self, flags: &cli::DoctorFlags) -> Result<u8, AppError> {
        let loaded = self.load()?;
        // Read before `Host::new`, which raises the limits of this process.
        let limits = cli::doctor::read_rlimits();
        let host = durable::new_host(None)?;
        let input = cli::doctor::DoctorInput {
            environment: &rules::job_environment(&loaded, &self.sources.environment)?,
            levels: loaded.settings.pressure.levels,
            spill_dir: &module_settings::spill_dir(&loaded.settings),
            collector: loaded.settings.trace.otlp_endpoint.as_deref(),
            shell: loaded.settings.job.shell.clone(),
            login_shell: self.sources.environment.login_shell(),
            temp_dir: self.sources.environment.temp_dir(),
            confinement_rules: rules::configured_confinement(&loaded.settings, &host)?,
            host: &host,
            limits,
            sharing_root: tenants::list_sharing_root(&loaded.settings, &host),
        };
        Ok(cli::doctor::run(flags, &input, &Display::detect(&self.sources.environment)))
    }

    fn load(&self) -> Result<Loaded, AppError> {
        Ok(load(self.sources.clone())?)
    }

    fn logging_settings(&self, loaded: &Loaded) -> logging::LoggingSettings {
        module_settings::logging_settings(loaded, &self.sources.environment)
    }
}

/// Creates the data directory, and refuses one in which other users could read or create files. A
/// directory that cannot be created is not an error here: what needs it reports that later.
fn secure_data_dir(settings: &Settings) -> Result<(), AppError> {
    let path = settings.server.data_dir.clone();
    let silent = settings.server.data_dir.clone();
    let made = run_with_timeout(FILE_READ_TIMEOUT, move || ensure_private_dir(&path));
    match made.map_err(|source| AppError::DataDirTimeout { path: silent, source })? {
        Ok(()) | Err(PrivateDirError::Unusable { .. }) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// The running export of spans. Dropping it sends the remaining spans, within a time limit.
#[derive(Debug, Default)]
#[must_use = "dropping it ends the export"]
struct TraceExport {
    #[cfg(feature = "otlp")]
    _export: Option<otlp::SpanExport>,
}

/// Starts the export of spans, if the settings name a collector. Drop the result before `runtime`, which sends
/// the last spans.
fn start_trace_export(loaded: &Loaded, runtime: &Handle) -> Result<TraceExport, AppError> {
    let settings = &loaded.settings.trace;
    spans::set_sample_ratio(settings.sample);
    match (&settings.otlp_endpoint, loaded.origin("trace.otlp_endpoint")) {
        // The standard variable may be meant for other programs.
        (Some(endpoint), Some(ValueOrigin::Variable(name)))
            if !CAN_EXPORT && name == OTEL_ENDPOINT_VARIABLE =>
        {
            events::span_export_not_built(endpoint);
            Ok(TraceExport::default())
        }
        (Some(endpoint), _) => export_spans(endpoint, runtime),
        (None, _) => Ok(TraceExport::default()),
    }
}

const CAN_EXPORT: bool = cfg!(feature = "otlp");

/// The standard variable with the address of a collector, which many programs read.
const OTEL_ENDPOINT_VARIABLE: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";

#[cfg(feature = "otlp")]
fn export_spans(endpoint: &str, runtime: &Handle) -> Result<TraceExport, AppError> {
    Ok(TraceExport { _export: Some(span_sender::export_to(endpoint, runtime)?) })
}

#[cfg(not(feature = "otlp"))]
fn export_spans(endpoint: &str, _: &Handle) -> Result<TraceExport, AppError> {
    Err(AppError::NoOtlp { endpoint: endpoint.to_owned() })
}
