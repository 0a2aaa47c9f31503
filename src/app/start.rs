//! From a command line to an exit code.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::runtime::Runtime;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::error::AppError;
use super::signals::{self, Signals};
use super::values;
use crate::cli::{self, Cli, Command, RunFlags, talk};
use crate::config::{Environment, FlagValue, Loaded, Settings, Sources, load};
use crate::http::{Doors, MetricsText, Readiness, Server};
use crate::mcp::Handler;
use crate::output;
use crate::process::guardian::Guardian;
use crate::process::host;
use crate::stdio;
use crate::telemetry::{Exporter, events, setup};
use crate::yard::Yard;

/// Exit code of a server that could not start or go on.
const FAILURE: u8 = 1;
/// Exit code of `run` when the failure is ours and not the command's.
const RUN_FAILURE: u8 = 125;

/// How often histograms are folded into their buckets.
const UPKEEP: Duration = Duration::from_secs(5);

/// The longest grace of jobs whose client has hung up: clients send SIGKILL soon after.
const HUNG_UP_GRACE: Duration = Duration::from_secs(1);

/// Runs the program to its end.
#[must_use]
pub fn run(cli: Cli) -> ExitCode {
    let environment = Environment::of_process();
    let (result, failure) = match cli.command {
        Command::Config(command) => (Ok(cli::config::run(&command, environment)), FAILURE),
        Command::Serve(flags) => {
            let start =
                Start { file: flags.server.config.clone(), flags: flags.values(), environment };
            (start.serve(), FAILURE)
        }
        Command::Stdio(flags) => {
            let start = Start {
                file: flags.server.config.clone(),
                flags: flags.server.values(),
                environment,
            };
            (start.stdio(), FAILURE)
        }
        Command::Run(flags) => {
            let start = Start { file: flags.config.clone(), flags: flags.values(), environment };
            (start.run(flags), RUN_FAILURE)
        }
    };
    ExitCode::from(result.unwrap_or_else(|error: AppError| {
        talk::complain(&error);
        failure
    }))
}

/// Everything that settings come from.
struct Start {
    file: Option<PathBuf>,
    flags: Vec<FlagValue>,
    environment: Environment,
}

impl Start {
    fn serve(self) -> Result<u8, AppError> {
        let (settings, environment) = self.settings()?;
        let _log = setup::start(&values::logging(&settings.log, &environment))?;
        runtime()?.block_on(async {
            // Before the yard, which tells its limits once.
            let exporter = Exporter::install()?;
            let server = Server::bind(values::http(&settings)?).await?;
            let mut signals = Signals::listen()?;
            let app = App::start(settings, &environment).await?;
            app.serve_http(server, exporter, &mut signals).await;
            Ok(0)
        })
    }

    fn stdio(self) -> Result<u8, AppError> {
        let (settings, environment) = self.settings()?;
        let _log = setup::start(&values::logging(&settings.log, &environment))?;
        let runtime = runtime()?;
        let result = runtime.block_on(async {
            let mut signals = Signals::listen()?;
            let app = App::start(settings, &environment).await?;
            app.serve_stdio(&mut signals).await;
            Ok(0)
        });
        // A read of stdin that still blocks must not hold up the exit.
        runtime.shutdown_background();
        result
    }

    fn run(self, flags: RunFlags) -> Result<u8, AppError> {
        let (settings, environment) = self.settings()?;
        // The command's own output is what the caller wants to see.
        let logging = setup::Logging {
            filter: "warn".to_owned(),
            ..values::logging(&settings.log, &environment)
        };
        let _log = setup::start(&logging)?;
        runtime()?.block_on(async {
            let app = App::start(settings, &environment).await?;
            let result = cli::run::run(&app.yard, flags).await.map_err(AppError::Signals)?;
            app.yard.drain(Duration::ZERO, app.settings.job.grace).await;
            app.end_everything().await;
            if let Some(message) = &result.message {
                talk::say(message);
            }
            Ok(result.exit_code)
        })
    }

    fn settings(self) -> Result<(Settings, Environment), AppError> {
        let Self { file, flags, environment } = self;
        let Loaded { settings, .. } =
            load(Sources { file, environment: environment.clone(), flags })?;
        Ok((settings, environment))
    }
}

fn runtime() -> Result<Runtime, AppError> {
    tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(AppError::Runtime)
}

/// A yard that runs, and what keeps it in order.
struct App {
    settings: Settings,
    yard: Yard,
    /// Ends our jobs should we be killed.
    guardian: Arc<Mutex<Guardian>>,
}

impl App {
    async fn start(settings: Settings, environment: &Environment) -> Result<Self, AppError> {
        let tag = host::prepare().map_err(AppError::Host)?;
        let guardian = Arc::new(Mutex::new(Guardian::start().map_err(AppError::Guardian)?));
        tokio::spawn(signals::follow_children(Arc::clone(&guardian)).map_err(AppError::Signals)?);
        let spill = values::spill_dir(&settings);
        if let Err(error) = output::check_spill_dir(&spill) {
            events::data_dir_unusable(&spill, &error);
        }
        let yard = Yard::open(values::yard(&settings, tag, environment)?).await?;
        Ok(Self { settings, yard, guardian })
    }

    async fn serve_http(self, server: Server, exporter: Exporter, signals: &mut Signals) {
        tokio::spawn(exporter.clone().run_upkeep(UPKEEP));
        let (readiness, ready) = watch::channel(Readiness::Ready);
        let doors = Doors {
            handler: self.handler(),
            metrics: MetricsText::new(move || exporter.render()),
            readiness: ready,
        };
        events::server_started(server.local_addr());
        let shutdown = CancellationToken::new();
        let serving = tokio::spawn(server.serve(doors, shutdown.clone()));
        signals.wish_to_end().await;
        readiness.send_replace(Readiness::Draining);
        self.drain(self.settings.server.drain, signals).await;
        shutdown.cancel();
        // A panic in there is logged by itself; there is nothing left to save.
        serving.await.ok();
        events::server_stopped();
    }

    async fn serve_stdio(self, signals: &mut Signals) {
        let shutdown = CancellationToken::new();
        tokio::select! {
            () = stdio::serve(self.handler(), shutdown.clone()) => {}
            () = signals.wish_to_end() => shutdown.cancel(),
        }
        self.drain(Duration::ZERO, signals).await;
        events::server_stopped();
    }

    /// Ends all work. A second wish to end cuts the patience short.
    async fn drain(&self, patience: Duration, signals: &mut Signals) {
        let grace = self.settings.job.grace;
        let grace = if patience.is_zero() { grace.min(HUNG_UP_GRACE) } else { grace };
        tokio::select! {
            () = self.yard.drain(patience, grace) => {}
            () = signals.wish_to_end() => self.yard.drain(Duration::ZERO, Duration::ZERO).await,
        }
        self.end_everything().await;
    }

    /// Whatever no job could claim ends here: nothing of ours outlives us.
    async fn end_everything(&self) {
        let guardian = Arc::clone(&self.guardian);
        let sweep =
            move || guardian.lock().unwrap_or_else(PoisonError::into_inner).end_everything();
        // What is alive even so is beyond anybody's reach; the guardian tries once more.
        tokio::task::spawn_blocking(sweep).await.ok();
    }

    fn handler(&self) -> Handler {
        Handler::new(self.yard.clone(), values::mcp(&self.settings.mcp))
    }
}
