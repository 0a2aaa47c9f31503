//! The part of `serve` that outlives one server: its journal, and the keeper that holds its processes and
//! listeners. A server of one client (`stdio`) or of one command (`run`) has no journal, and its keeper
//! ends with it.

use std::collections::HashSet;
use std::fs::{self, Metadata};
use std::future::pending;
use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::{Access, access};
use tokio::signal::unix::SignalKind;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::error::AppError;
use super::reload::Reloader;
use super::rules;
use super::runtime::{BlockingError, BlockingSlot, run_on_signal};
use crate::config::{Environment, Settings};
use crate::http::{InheritedListeners, Server, ServerGeneration, UpgradeControl};
use crate::journal::{Journal, JournalCounts, JournalError, JournalHealth};
use crate::output::{SpillDir, UnstoredBytes};
use crate::private_files::{FILE_READ_TIMEOUT, SPILL_CHECK_TIMEOUT, run_with_timeout};
use crate::process::{Host, KeeperClient, KeeperNotice};
use crate::service::PreviousServer;
use crate::telemetry::audit::{self, AuditedJob};
use crate::telemetry::events::{self, JournalStats};

/// The name under which the keeper holds the notes about output that is in no file.
const HELD_NOTES: &str = "unstored-output";

/// The share of the service manager's watchdog time after which the server reports that it is alive.
const WATCHDOG_SHARE: u32 = 3;

/// The number of the first server of a keeper.
const FIRST_GENERATION: u64 = 1;

/// The longest time for reading the journal at the start.
const JOURNAL_READ_TIME: Duration = Duration::from_secs(30);

/// The state that outlives a server. The default is that of a server for one client or one command:
/// nothing.
#[derive(Debug, Default)]
pub(super) struct DurableState {
    /// The file that keeps job numbers.
    pub(super) numbers: Option<PathBuf>,
    /// The file that keeps the secret of tickets.
    pub(super) tickets: Option<PathBuf>,
    pub(super) journal: Option<Journal>,
    /// The notes about output that is in no file, which the next server reads.
    pub(super) unstored: Option<UnstoredBytes>,
    /// The jobs that the previous server has left.
    pub(super) previous: PreviousServer,
}

impl DurableState {
    /// Opens the state of `serve`. Without a journal nothing is known of the processes of the previous
    /// server, and the service ends them.
    ///
    /// # Errors
    /// If the journal was written by a newer version, or if it is not read in time and there are jobs
    /// of the previous server: they go on, and the keeper tries again.
    pub(super) fn open(settings: &Settings, link: &KeeperLink) -> Result<Self, AppError> {
        let numbers = Some(settings.server.data_dir.join("numbers"));
        let Some(durability) = settings.server.durability else {
            return Ok(Self { numbers, ..Self::default() });
        };
        let directory = settings.server.data_dir.join("journal");
        let open = move || Ok(Journal::open(&directory, durability));
        let opened = run_with_timeout(JOURNAL_READ_TIME, open).flatten();
        let (journal, jobs) = match opened {
            Ok(Ok(opened)) => opened,
            // Without its records nothing is known of the jobs. Others run rather than none.
            Ok(Err(error @ JournalError::Unusable { .. })) => {
                events::journal_unusable(&error);
                return Ok(Self { numbers, ..Self::default() });
            }
            Err(source) if source.kind() == io::ErrorKind::TimedOut && link.has_untaken_jobs() => {
                let path = settings.server.data_dir.clone();
                return Err(AppError::JournalTimeout { path, after: JOURNAL_READ_TIME, source });
            }
            Err(error) => {
                events::journal_unusable(&error);
                return Ok(Self { numbers, ..Self::default() });
            }
            Ok(Err(error)) => return Err(error.into()),
        };
        let report = journal.replay_report();
        if report.damaged + report.unreadable > 0 {
            events::journal_damaged(report.damaged + report.unreadable);
        }
        Ok(Self {
            numbers,
            tickets: Some(settings.server.data_dir.join("tickets.key")),
            journal: Some(journal),
            unstored: link.keep_unstored_bytes().map_err(AppError::Keeper)?,
            previous: PreviousServer {
                jobs,
                without_ending: find_open_jobs(settings),
                knows_all_jobs: report.segments > 0 && report.damaged + report.unreadable == 0,
            },
        })
    }
}

/// Returns the jobs whose endings are missing in the audit log.
fn find_open_jobs(settings: &Settings) -> HashSet<AuditedJob> {
    let Some(path) = rules::audit_file(settings) else { return HashSet::new() };
    let found = run_with_timeout(FILE_READ_TIMEOUT, move || audit::find_open_jobs(&path)).flatten();
    // A log that cannot be read is reported when it is opened for writing.
    found.unwrap_or_default().into_iter().collect()
}

/// Checks that output can be stored, and removes the files of unknown jobs and of killed servers. Waits
/// a limited time for the disk.
pub(super) fn prepare_output_dir(spill: &SpillDir, previous: &PreviousServer) {
    let checked = spill.clone();
    let known = previous.list_log_names();
    let knows_all_jobs = previous.knows_all_jobs;
    let prepare = move || {
        checked.check()?;
        if !checked.is_durable() {
            checked.remove_leftovers();
        } else if knows_all_jobs {
            checked.remove_unknown_logs(&known)?;
        }
        Ok(())
    };
    if let Err(error) = run_with_timeout(SPILL_CHECK_TIMEOUT, prepare).flatten() {
        events::spill_dir_unusable(spill.root(), &error);
    }
}

/// The state of a server's replacement by another program.
#[derive(Debug, Clone, PartialEq, Eq)]
enum UpgradeState {
    NotRequested,
    /// This program is to take over.
    Requested(PathBuf),
    /// The server ends, and nothing takes over.
    ServerEnding,
}

impl UpgradeState {
    /// Notes the request for a program; refused with the reason if it comes too late.
    fn request(&mut self, program: PathBuf) -> Result<(), &'static str> {
        match self {
            Self::NotRequested => {
                *self = Self::Requested(program);
                Ok(())
            }
            Self::Requested(_) => Err("another upgrade is under way"),
            Self::ServerEnding => Err("the server is ending"),
        }
    }
}

/// The connection of a server to its keeper.
#[derive(Debug, Clone)]
pub(super) struct KeeperLink {
    /// The keeper, if it starts another server when this one ends.
    client: Option<KeeperClient>,
    upgrade: watch::Sender<UpgradeState>,
    /// The thread that checks a program.
    check_slot: BlockingSlot,
    /// Cancelled when the keeper is gone.
    gone: CancellationToken,
}

impl KeeperLink {
    /// Watches the keeper, in a thread of its own: every server has one, which holds its jobs.
    ///
    /// # Errors
    /// If the thread cannot be created.
    pub(super) fn new(host: &Host) -> Result<Self, AppError> {
        let gone = CancellationToken::new();
        let on_end = gone.clone();
        let watching = host.keeper().watch_end(move || on_end.cancel());
        watching.map_err(AppError::from_thread_error)?;
        let client = host.is_durable().then(|| host.keeper().clone());
        let upgrade = watch::Sender::new(UpgradeState::NotRequested);
        Ok(Self { client, upgrade, check_slot: BlockingSlot::default(), gone })
    }

    /// `true` if no other server of the same keeper has run before.
    pub(super) fn is_first_server(&self) -> bool {
        self.client.as_ref().is_none_or(|keeper| keeper.generation() == FIRST_GENERATION)
    }

    /// Takes the notes about output of the previous server that is in no file, or begins to keep some,
    /// and makes the keeper hold them.
    fn keep_unstored_bytes(&self) -> io::Result<Option<UnstoredBytes>> {
        let Some(keeper) = &self.client else { return Ok(None) };
        let held = keeper.take_file(HELD_NOTES);
        let notes = held.map_or_else(UnstoredBytes::create, UnstoredBytes::open)?;
        keeper.hold_file(HELD_NOTES, notes.as_fd())?;
        Ok(Some(notes))
    }

    /// `true` if jobs of the previous server have not been taken over yet.
    fn has_untaken_jobs(&self) -> bool {
        self.client.as_ref().is_some_and(KeeperClient::has_untaken_jobs)
    }

    /// Takes the listeners of the previous server.
    pub(super) fn take_listeners(&self) -> InheritedListeners {
        let Some(keeper) = &self.client else { return InheritedListeners::default() };
        let names = keeper.held_file_names().into_iter().filter(|name| name != HELD_NOTES);
        let named = names.filter_map(|name| keeper.take_file(&name).map(|file| (name, file)));
        named.collect::<Vec<_>>().into()
    }

    /// Makes the keeper hold the listeners of this server, and no others.
    pub(super) fn hold_listeners(&self, server: &Server) -> io::Result<()> {
        let Some(keeper) = &self.client else { return Ok(()) };
        let listeners = server.named_listeners();
        for name in InheritedListeners::NAMES {
            match listeners.iter().find(|(known, _)| *known == name) {
                Some((_, fd)) => keeper.hold_file(name, *fd)?,
                // Otherwise clients would wait at a listener that the settings no longer have.
                None => keeper.drop_file(name)?,
            }
        }
        Ok(())
    }

    /// Reports that the server serves requests, and goes on to report that it is alive if the service
    /// manager wants to know. Takes SIGUSR2 from now on.
    pub(super) fn start(
        &self,
        environment: &Environment,
        reloader: &Reloader,
    ) -> Result<(), AppError> {
        let (link, reloader) = (self.clone(), reloader.clone());
        let on_signal = run_on_signal(SignalKind::user_defined2(), move || {
            link.clone().upgrade_on_signal(reloader.clone())
        });
        // Handled before the server reports that it is ready: from then on the keeper forwards SIGUSR2,
        // whose default action would end the server.
        tokio::spawn(on_signal.map_err(AppError::Signals)?);
        let Some(keeper) = self.client.clone() else { return Ok(()) };
        keeper.set_ready().map_err(AppError::Keeper)?;
        if let Some(time) = environment.watchdog_time() {
            tokio::spawn(report_alive(keeper, time / WATCHDOG_SHARE));
        }
        Ok(())
    }

    /// Tells the service manager, through the keeper.
    pub(super) fn notify(&self, notice: KeeperNotice) {
        if let Some(keeper) = &self.client {
            // Without a keeper nobody wants to know.
            keeper.notify(notice).ok();
        }
    }

    /// Returns once the keeper is gone. All jobs have ended with it, and no more can start.
    pub(super) async fn wait_until_gone(&self) {
        self.gone.cancelled().await;
    }

    /// Returns the program that is to take over, once an upgrade was requested.
    pub(super) async fn wait_for_upgrade(&self) -> PathBuf {
        let mut upgrade = self.upgrade.subscribe();
        loop {
            if let UpgradeState::Requested(program) = &*upgrade.borrow_and_update() {
                return program.clone();
            }
            if upgrade.changed().await.is_err() {
                // The sender is a part of `self`, so it is not gone.
                pending::<()>().await;
            }
        }
    }

    /// Refuses upgrades from now on, because the server ends.
    pub(super) fn refuse_upgrades(&self) {
        self.upgrade.send_replace(UpgradeState::ServerEnding);
    }

    /// Requests an upgrade; `None` is the program that was started. Refused while the settings are not
    /// valid: no server could start with them. Names that only this version does not know are for
    /// another program to judge.
    async fn request_upgrade(
        self,
        program: Option<PathBuf>,
        reloader: Reloader,
    ) -> Result<(), String> {
        if self.client.is_none() {
            return Err(
                "jobs do not outlive this server (`server.durability` is \"off\")".to_owned()
            );
        }
        let program = match program {
            Some(program) => program,
            None => started_program().map_err(|error| error.to_string())?,
        };
        let shown = program.display().to_string();
        let checked = self.check_slot.run(FILE_READ_TIMEOUT, move || check_program(&program)).await;
        let checked = checked.map_err(|error| match error {
            BlockingError::SlotBusy => {
                "another upgrade is being checked: the file system of its program does not answer"
                    .to_owned()
            }
            BlockingError::NotInTime => format!("{shown}: its file system does not answer"),
            BlockingError::Failed(failed) => failed.to_string(),
        })??;
        reloader.check(checked.origin).await?;
        let mut answer = Ok(());
        self.upgrade.send_if_modified(|state| {
            answer = state.request(checked.path);
            answer.is_ok()
        });
        answer.map_err(str::to_owned)
    }

    /// Requests an upgrade to the program that was started, after a signal.
    async fn upgrade_on_signal(self, reloader: Reloader) {
        if let Err(why) = self.request_upgrade(None, reloader).await {
            events::upgrade_refused(&why);
        }
    }

    /// Returns the control for operators, if the server can be upgraded.
    pub(super) fn upgrade_control(&self, reloader: &Reloader) -> Option<UpgradeControl> {
        let keeper = self.client.as_ref()?;
        let generation = ServerGeneration {
            number: keeper.generation(),
            pid: std::process::id(),
            last_failure: keeper.last_failure(),
        };
        let (link, reloader) = (self.clone(), reloader.clone());
        Some(UpgradeControl::new(generation, move |program| {
            Box::pin(link.clone().request_upgrade(program, reloader.clone()))
        }))
    }

    /// Tells the keeper which program to start when this server has exited.
    pub(super) fn announce_upgrade(&self, program: &Path) -> io::Result<()> {
        self.client.as_ref().map_or(Ok(()), |keeper| keeper.request_upgrade(program))
    }
}

async fn report_alive(keeper: KeeperClient, pause: Duration) {
    loop {
        tokio::time::sleep(pause).await;
        if keeper.notify(KeeperNotice::Alive).is_err() {
            return;
        }
    }
}

/// Logs each change of the journal's health.
pub(super) async fn watch_journal(mut health: watch::Receiver<JournalHealth>) {
    if *health.borrow() != JournalHealth::Healthy {
        health.mark_changed();
    }
    while health.changed().await.is_ok() {
        match &*health.borrow_and_update() {
            JournalHealth::Healthy => events::journal_recovered(),
            JournalHealth::LowSpace => events::journal_low_space(),
            JournalHealth::Degraded { why } => events::journal_degraded(why),
        }
    }
}

/// Returns the figures of the journal for the metrics; `None` if it could not be opened.
pub(super) fn measure_journal(journal: Option<&Journal>) -> JournalStats {
    let Some(journal) = journal else {
        return JournalStats { is_degraded: true, ..JournalStats::default() };
    };
    let JournalCounts { records, bytes, errors, lost, .. } = journal.counts();
    let is_degraded = matches!(*journal.health().borrow(), JournalHealth::Degraded { .. });
    JournalStats { records, bytes, errors, lost, is_degraded }
}

/// Returns the path of the program that was started; a file that has replaced it has the same path.
fn started_program() -> io::Result<PathBuf> {
    let path = std::env::current_exe()?;
    let text = path.to_string_lossy();
    Ok(text.strip_suffix(" (deleted)").map_or_else(|| path.clone(), PathBuf::from))
}

/// A program that can take over.
#[derive(Debug, PartialEq, Eq)]
struct CheckedProgram {
    /// The full path, without symlinks.
    path: PathBuf,
    origin: ProgramOrigin,
}

/// The relation of a program to the running one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ProgramOrigin {
    /// The file that this process executes.
    Same,
    /// Another file, which may be of another version.
    Other,
}

/// Checks that a program can take over. Blocks as long as its file system does.
fn check_program(path: &Path) -> Result<CheckedProgram, String> {
    let shown = path.display();
    let found = path.canonicalize().and_then(|path| Ok((fs::metadata(&path)?, path)));
    let (file, path) = found.map_err(|error| format!("{shown}: {error}"))?;
    if !file.is_file() || access(&path, Access::EXEC_OK).is_err() {
        return Err(format!("{shown} is not an executable file"));
    }
    let is_same = fs::metadata("/proc/self/exe").is_ok_and(|own| file_id(&own) == file_id(&file));
    let origin = if is_same { ProgramOrigin::Same } else { ProgramOrigin::Other };
    Ok(CheckedProgram { path, origin })
}

fn file_id(file: &Metadata) -> (u64, u64) {
    (file.dev(), file.ino())
}

/// Creates the host of a server, with the identity of its keeper if it has one.
pub(super) fn new_host(keeper: Option<&KeeperClient>) -> Result<Arc<Host>, AppError> {
    let host = keeper.map_or_else(Host::new, |keeper| Ok(Host::new_kept(keeper.clone())));
    host.map(Arc::new).map_err(AppError::Host)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    #[test]
    fn only_an_executable_file_can_take_over() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("program");
        assert!(check_program(&file).unwrap_err().contains("program"));
        fs::write(&file, "").unwrap();
        assert!(check_program(&file).unwrap_err().contains("not an executable file"));
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
        let link = folder.path().join("link");
        symlink(&file, &link).unwrap();
        let path = file.canonicalize().unwrap();
        let checked = CheckedProgram { path, origin: ProgramOrigin::Other };
        assert_eq!(check_program(&link), Ok(checked));
        assert!(check_program(folder.path()).is_err());
        let own = check_program(Path::new("/proc/self/exe")).unwrap();
        assert_eq!(own.origin, ProgramOrigin::Same);
    }

    #[test]
    fn only_the_first_request_for_an_upgrade_is_accepted() {
        let mut state = UpgradeState::NotRequested;
        assert_eq!(state.request("/a".into()), Ok(()));
        assert!(state.request("/b".into()).unwrap_err().contains("another upgrade"));
        assert_eq!(state, UpgradeState::Requested("/a".into()));
        let mut state = UpgradeState::ServerEnding;
        assert!(state.request("/a".into()).unwrap_err().contains("ending"));
        assert_eq!(state, UpgradeState::ServerEnding);
    }
}
