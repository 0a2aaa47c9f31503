//! `install`: adds Shellyard to the settings of clients, and removes it again.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use shellyard_install::files::{self, SettingsFileError};
use shellyard_install::{
    ClientKind, ConfiguredCommand, EditError, FilePurpose, InstallRequest, InstallScope, Machine,
    OperatingSystem, SERVER_NAME, SettingValue, SettingsFile, UninstallStep, format_diff,
};
use thiserror::Error;

use super::install_report::{
    ClientReport, FileReport, InstallAction, describe_foreign_entry, failure_output, list_clients,
    permission_note, print_reports, print_settings, rules_note,
};
use super::stdio_probe::{CheckError, CheckedServer, check_command};
use super::terminal::VerbOutput;
use crate::client::{Endpoint, ServerTarget, TargetError};
use crate::config::Environment;
use crate::setting_values::find_closest;

const INSTALL_HELP: &str = "\
Examples:
  shellyard install                       list the clients on this machine
  shellyard install claude-code codex     add Shellyard to both
  shellyard install cursor --dry-run      show the change without making it
  shellyard install zed --connect         share one server with other clients
  shellyard install codex --uninstall     take everything back
  shellyard install codex --force         replace another server named shellyard

Clients: claude-code, claude-desktop, codex, cursor, vscode, zed, gemini, qwen, opencode, windsurf, goose.

The settings file keeps its comments, order, permissions and links. A file that exists is saved as
FILE.shellyard-backup first. Exit code 0 if all is done, 1 if a client was refused or the check failed.";

/// Flags of the verb `install`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Args)]
#[command(after_help = INSTALL_HELP)]
pub struct InstallFlags {
    /// Clients to add Shellyard to; without any, list those on this machine.
    #[arg(value_name = "CLIENT", value_parser = parse_client)]
    pub clients: Vec<ClientKind>,
    /// Print the settings instead of writing them.
    #[arg(long, requires = "clients", conflicts_with_all = ["dry_run", "uninstall"])]
    pub print: bool,
    /// Show the changes to files without making them.
    #[arg(long, requires = "clients")]
    pub dry_run: bool,
    /// Remove Shellyard, with its rules and permissions; files that nobody else has changed since
    /// become exactly what they were before.
    #[arg(long, requires = "clients")]
    pub uninstall: bool,
    /// Settings of the user, or of the project in the current directory.
    #[arg(long, value_name = "SCOPE", value_enum, default_value_t)]
    pub scope: ScopeFlag,
    /// Let the client use a shared server: at this URL or unix socket, or without a value the user's
    /// own server, which starts when it is needed.
    #[arg(long, value_name = "URL|SOCKET", num_args = 0..=1)]
    pub connect: Option<Option<String>>,
    /// File with the bearer token for that server.
    #[arg(long, value_name = "FILE", requires = "connect")]
    pub token: Option<PathBuf>,
    /// Settings file of the client, instead of the usual one; for one client.
    #[arg(long, value_name = "FILE", requires = "clients")]
    pub config_path: Option<PathBuf>,
    /// Also write instructions that make the model use Shellyard, and let the client use it without
    /// asking: every command of the agent then runs without a question.
    #[arg(long, requires = "clients")]
    pub agent_rules: bool,
    /// Replace or remove an entry named shellyard that starts another program; the backup keeps it.
    #[arg(long, requires = "clients", conflicts_with = "print")]
    pub force: bool,
    /// Print JSON instead of text.
    #[arg(long)]
    pub json: bool,
}

/// The scope of an installation, as a flag.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum ScopeFlag {
    /// All projects of this user.
    #[default]
    User,
    /// The project in the current directory.
    Project,
}

impl ScopeFlag {
    pub(super) const fn scope(self) -> InstallScope {
        match self {
            Self::User => InstallScope::User,
            Self::Project => InstallScope::Project,
        }
    }
}

fn parse_client(text: &str) -> Result<ClientKind, String> {
    ClientKind::parse(text).ok_or_else(|| {
        let words = ClientKind::ALL.map(ClientKind::word);
        let hint = find_closest(text, words, 0.5).map(|word| format!("did you mean {word}? "));
        let hint = hint.unwrap_or_default();
        format!("{hint}clients are {}; for another one, use --print", words.join(", "))
    })
}

/// The reason why nothing was installed. Each text says what to do next.
#[derive(Debug, Error)]
pub(super) enum InstallError {
    #[error("the home directory is unknown; set HOME to its full path")]
    NoHome,
    #[error("the path of this program is unknown; start it by its full path")]
    NoProgram(#[source] std::io::Error),
    #[error(
        "the path of this program is not UTF-8, and no settings file can hold it; install it elsewhere"
    )]
    ProgramNotText,
    #[error("--config-path is for one client; name one")]
    OnePath,
    #[error("`{0}` after --connect is the place of a server; name clients before --connect")]
    ClientAfterConnect(String),
    #[error(transparent)]
    Target(#[from] TargetError),
    #[error(
        "{} has no settings for a project; use --scope user, or name a file with --config-path", .0.name()
    )]
    NoProject(ClientKind),
    #[error(
        "`{}` was left alone; correct it, or add the lines of `--print` by hand", .path.display()
    )]
    Edit { path: PathBuf, source: EditError },
    #[error("{}; {}", describe_changed(.changed), advise(.source))]
    File {
        /// The files of this client that were changed before.
        changed: Vec<PathBuf>,
        source: SettingsFileError,
    },
    #[error(
        "nothing was changed: `{}` has a server named shellyard that is not this program, but {what}; use --force to {} it, or rename it",
        .path.display(), if *.is_uninstall { "remove" } else { "replace" }
    )]
    Foreign { path: PathBuf, what: String, is_uninstall: bool },
    #[error("the settings are written, but the server in them does not work")]
    Check(#[source] CheckError),
}

/// Says which files were changed before a failure.
fn describe_changed(changed: &[PathBuf]) -> String {
    if changed.is_empty() {
        return "nothing was changed".to_owned();
    }
    let names: Vec<String> = changed.iter().map(|path| format!("`{}`", path.display())).collect();
    format!("{} was changed before this failure; --uninstall takes that back", names.join(", "))
}

const fn advise(error: &SettingsFileError) -> &'static str {
    match error {
        SettingsFileError::Changed { .. } => "run the command again",
        SettingsFileError::Read { .. }
        | SettingsFileError::NotText { .. }
        | SettingsFileError::Outside { .. }
        | SettingsFileError::Write { .. } => "correct that, or add the lines of `--print` by hand",
    }
}

impl InstallError {
    /// Returns the stable code word of the error.
    pub(super) const fn code(&self) -> &'static str {
        match self {
            Self::NoHome => "home_unknown",
            Self::NoProgram(_) | Self::ProgramNotText => "program_unknown",
            Self::OnePath => "one_client_needed",
            Self::ClientAfterConnect(_) => "client_after_connect",
            Self::Target(_) => "bad_target",
            Self::NoProject(_) => "no_project_settings",
            Self::Edit { source, .. } => source.code(),
            Self::File { source, .. } => source.code(),
            Self::Foreign { .. } => "foreign_entry",
            Self::Check(error) => error.code(),
        }
    }
}

/// Runs the verb and returns the exit code: 0, or 1 if anything was refused or does not work.
#[must_use]
pub fn run(flags: &InstallFlags, environment: &Environment) -> u8 {
    let output = match Installer::new(flags, environment) {
        Ok(installer) => installer.run(),
        Err(error) => failure_output(&error, flags.json),
    };
    output.print()
}

/// Everything that is the same for all clients of one call.
struct Installer<'a> {
    flags: &'a InstallFlags,
    environment: &'a Environment,
    machine: Machine,
    command: ConfiguredCommand,
}

impl<'a> Installer<'a> {
    fn new(flags: &'a InstallFlags, environment: &'a Environment) -> Result<Self, InstallError> {
        if flags.config_path.is_some() && flags.clients.len() > 1 {
            return Err(InstallError::OnePath);
        }
        let machine = describe_machine(environment)?;
        let command = build_command(flags, &machine)?;
        Ok(Self { flags, environment, machine, command })
    }

    fn run(&self) -> VerbOutput {
        if self.flags.clients.is_empty() {
            return list_clients(&self.machine, &self.command, self.flags.json);
        }
        // Each client once, in the order of the call.
        let mut clients = Vec::new();
        for client in &self.flags.clients {
            if !clients.contains(client) {
                clients.push(*client);
            }
        }
        let reports: Vec<ClientReport> =
            clients.into_iter().map(|client| self.report_client(client)).collect();
        if self.flags.print && !self.flags.json {
            return print_settings(&reports);
        }
        print_reports(&reports, self.flags.json)
    }

    fn report_client(&self, client: ClientKind) -> ClientReport {
        let mut report = ClientReport::new(client);
        let done = self.install_client(client, &mut report);
        report.error = done.err();
        report
    }

    fn install_client(
        &self,
        client: ClientKind,
        report: &mut ClientReport,
    ) -> Result<(), InstallError> {
        let request = InstallRequest {
            client,
            scope: self.flags.scope.scope(),
            config_path: self.flags.config_path.clone().map(absolute),
            command: self.command.clone(),
            // An uninstall takes back whatever an installation may have written.
            has_rules: self.flags.agent_rules || self.flags.uninstall,
        };
        let mut files = request.files(&self.machine).ok_or(InstallError::NoProject(client))?;
        if self.flags.uninstall {
            files.retain(|file| {
                file.purpose != FilePurpose::Rules || !self.has_other_reader(&request, file)
            });
        }
        // All files are read and judged before the first one is written.
        let plans: Vec<FilePlan> =
            files.iter().map(|file| self.plan_file(client, file)).collect::<Result<_, _>>()?;
        let mut changed = Vec::new();
        for plan in &plans {
            let done = self.carry_out(plan);
            let done =
                done.map_err(|source| InstallError::File { changed: changed.clone(), source })?;
            report.files.push(done);
            if !matches!(plan.change, FileChange::None) {
                changed.push(plan.file.path.clone());
            }
        }
        if self.flags.uninstall {
            return Ok(());
        }
        if self.flags.agent_rules {
            report.notes.push(permission_note(&request));
            report.notes.extend(rules_note(&request, &self.machine));
        }
        report.notes.extend(self.place_notes());
        if !self.flags.dry_run && !self.flags.print {
            report.check = Some(self.check(client, files.first())?);
        }
        Ok(())
    }

    /// `true` if a client that stays installed reads the same instructions.
    fn has_other_reader(&self, request: &InstallRequest, rules: &SettingsFile) -> bool {
        let others =
            ClientKind::ALL.into_iter().filter(|other| !self.flags.clients.contains(other));
        others
            .filter(|other| {
                other.rules_file(request.scope, &self.machine).as_ref() == Some(&rules.path)
            })
            .any(|client| {
                let request = InstallRequest { client, config_path: None, ..request.clone() };
                let files = request.files(&self.machine).unwrap_or_default();
                let settings = files.first().map(|file| read_command(client, file));
                matches!(settings, Some(Ok(Some(_))))
            })
    }

    /// Reads a file and decides on its change. Changes nothing.
    fn plan_file(&self, client: ClientKind, file: &SettingsFile) -> Result<FilePlan, InstallError> {
        let edit_error = |source| InstallError::Edit { path: file.path.clone(), source };
        let old = if self.flags.print { None } else { read_settings(&file.path)? };
        if self.flags.scope == ScopeFlag::Project && self.flags.config_path.is_none() {
            files::check_inside(&file.path, &self.machine.project).map_err(unchanged)?;
        }
        let foreign = self.find_foreign_entry(client, file, old.as_deref())?;
        if let Some(what) = foreign.clone().filter(|_| !self.flags.force) {
            let is_uninstall = self.flags.uninstall;
            return Err(InstallError::Foreign { path: file.path.clone(), what, is_uninstall });
        }
        let backups =
            if self.flags.uninstall { files::list_backups(&file.path) } else { Vec::new() };
        let change = if self.flags.uninstall {
            let texts: Vec<String> = backups.iter().map(|(_, text)| text.clone()).collect();
            match file.uninstall(old.as_deref(), &texts).map_err(edit_error)? {
                UninstallStep::Nothing => FileChange::None,
                UninstallStep::Delete => FileChange::Delete,
                UninstallStep::Edit(text) => FileChange::Write(text),
                UninstallStep::Restore(index) => match backups.into_iter().nth(index) {
                    Some((path, text)) => FileChange::Restore { backup: path, text },
                    None => FileChange::None,
                },
            }
        } else {
            let new = match old.as_deref().filter(|_| foreign.is_some()) {
                Some(old) => file.replace(old),
                None => file.install(old.as_deref()),
            };
            let new = new.map_err(edit_error)?;
            if old.as_deref() == Some(&new) { FileChange::None } else { FileChange::Write(new) }
        };
        Ok(FilePlan { file: file.clone(), old, change, foreign })
    }

    /// Describes the entry of another program under our name.
    fn find_foreign_entry(
        &self,
        client: ClientKind,
        file: &SettingsFile,
        text: Option<&str>,
    ) -> Result<Option<String>, InstallError> {
        let entry = text.map(|text| read_entry(file, text)).transpose()?.flatten();
        Ok(entry.and_then(|entry| describe_foreign_entry(client, &entry, &self.command)))
    }

    /// Makes one change, unless the flags only ask to see it.
    fn carry_out(&self, plan: &FilePlan) -> Result<FileReport, SettingsFileError> {
        let is_shown = self.flags.dry_run || self.flags.print;
        let path = &plan.file.path;
        let mut report = FileReport::new(&plan.file, plan.action(self.flags.uninstall));
        report.replaced.clone_from(&plan.foreign);
        let old = plan.old.as_deref();
        let new = plan.new_text();
        if self.flags.dry_run {
            let name = path.display().to_string();
            report.diff =
                Some(format_diff(&name, old.unwrap_or_default(), new.unwrap_or_default()));
        }
        if self.flags.print {
            report.settings = new.map(str::to_owned);
        }
        if is_shown {
            return Ok(report);
        }
        match &plan.change {
            FileChange::None => {}
            FileChange::Delete => {
                report.backup = plan.save_foreign()?;
                files::delete_file(path, old.unwrap_or_default())?;
            }
            FileChange::Write(text) => {
                let is_known = old.is_some_and(|old| files::has_backup(path, old));
                let backup = old.map(|old| files::write_backup(path, old)).transpose()?;
                let written = files::write_text(path, text, old);
                if written.is_err() && !is_known {
                    // The file is as it was, and needs no copy.
                    let _removed = backup.as_ref().map(std::fs::remove_file);
                }
                written?;
                report.backup = backup;
            }
            FileChange::Restore { backup, text } => {
                report.backup = plan.save_foreign()?;
                files::write_text(path, text, old)?;
                // Its text is in its place now.
                let _removed = std::fs::remove_file(backup).is_ok();
            }
        }
        Ok(report)
    }

    /// Reads the settings again and starts what they name, as the client would.
    fn check(
        &self,
        client: ClientKind,
        file: Option<&SettingsFile>,
    ) -> Result<CheckedServer, InstallError> {
        let written = file.map(|file| read_command(client, file)).transpose()?.flatten();
        let mut command = written.unwrap_or_else(|| self.command.clone());
        if self.flags.scope == ScopeFlag::Project {
            // Others may have written the rest of the entry, and a variable such as LD_PRELOAD runs code.
            command.variables.clone_from(&self.command.variables);
        }
        let directory = match self.flags.scope {
            ScopeFlag::User => &self.machine.home,
            ScopeFlag::Project => &self.machine.project,
        };
        check_command(&command, self.environment, directory).map_err(InstallError::Check)
    }

    /// Notes about a program or a file that may not stay where it is.
    fn place_notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        let program = Path::new(&self.command.program);
        let is_build = program.components().any(|part| part.as_os_str() == "target");
        if is_build || program.starts_with("/tmp") {
            notes.push(format!(
                "`{}` is in a directory for builds; install the program elsewhere (`cargo install --path .`) and run this again",
                program.display()
            ));
        }
        if self.flags.scope == ScopeFlag::Project {
            notes.push(
                "the file contains paths of this machine; look at it before you commit it"
                    .to_owned(),
            );
        }
        notes
    }
}

/// Reads the command in a settings file, as its client does.
fn read_command(
    client: ClientKind,
    file: &SettingsFile,
) -> Result<Option<ConfiguredCommand>, InstallError> {
    let entry = read_file_entry(file)?;
    Ok(entry.and_then(|entry| ConfiguredCommand::from_entry(client, &entry)))
}

/// Reads a settings file, and returns the entry with our name in it.
pub(super) fn read_file_entry(file: &SettingsFile) -> Result<Option<SettingValue>, InstallError> {
    let text = read_settings(&file.path)?;
    text.map(|text| read_entry(file, &text)).transpose().map(Option::flatten)
}

fn read_entry(file: &SettingsFile, text: &str) -> Result<Option<SettingValue>, InstallError> {
    file.read_entry(text).map_err(|source| InstallError::Edit { path: file.path.clone(), source })
}

fn read_settings(path: &Path) -> Result<Option<String>, InstallError> {
    files::read_text(path).map_err(unchanged)
}

/// The error of a step before the first change.
const fn unchanged(source: SettingsFileError) -> InstallError {
    InstallError::File { changed: Vec::new(), source }
}

/// A file, its text, and the change to it.
struct FilePlan {
    file: SettingsFile,
    old: Option<String>,
    change: FileChange,
    /// The entry of another program that has our name.
    foreign: Option<String>,
}

enum FileChange {
    None,
    Write(String),
    Delete,
    Restore { backup: PathBuf, text: String },
}

impl FilePlan {
    fn new_text(&self) -> Option<&str> {
        match &self.change {
            FileChange::None => self.old.as_deref(),
            FileChange::Write(text) | FileChange::Restore { text, .. } => Some(text),
            FileChange::Delete => None,
        }
    }

    /// Saves the file before an entry of another program goes with it.
    fn save_foreign(&self) -> Result<Option<PathBuf>, SettingsFileError> {
        let old = self.old.as_deref().filter(|_| self.foreign.is_some());
        old.map(|old| files::write_backup(&self.file.path, old)).transpose()
    }

    const fn action(&self, is_uninstall: bool) -> InstallAction {
        match (&self.change, &self.old, is_uninstall) {
            (FileChange::None, _, false) => InstallAction::AlreadyInstalled,
            (FileChange::None, _, true) => InstallAction::NotInstalled,
            (FileChange::Write(_), None, _) => InstallAction::Created,
            (FileChange::Write(_), Some(_), false) => InstallAction::Changed,
            (FileChange::Write(_), Some(_), true) => InstallAction::Removed,
            (FileChange::Restore { .. }, _, _) => InstallAction::Restored,
            (FileChange::Delete, _, _) => InstallAction::Deleted,
        }
    }
}

fn absolute(path: PathBuf) -> PathBuf {
    std::path::absolute(&path).unwrap_or(path)
}

fn describe_machine(environment: &Environment) -> Result<Machine, InstallError> {
    let home = environment.home().ok_or(InstallError::NoHome)?;
    let text = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
        Some((name.into_string().ok()?, value.into_string().ok()?))
    };
    let variables = environment.pairs().into_iter().filter_map(text).collect();
    let current = std::env::current_dir().unwrap_or_else(|_| home.clone());
    let project = find_project(&current, &home);
    Ok(Machine { system: OperatingSystem::current(), home, project, variables })
}

/// The directory of the project: the nearest one with `.git`, or the current one. The home directory
/// is no project, even if it is under version control.
fn find_project(current: &Path, home: &Path) -> PathBuf {
    let with_git = current.ancestors().take_while(|dir| *dir != home);
    let mut with_git = with_git.filter(|dir| dir.join(".git").exists());
    with_git.next().unwrap_or(current).to_owned()
}

/// The command that the client will start: this program by its full path, with this `PATH`.
fn build_command(
    flags: &InstallFlags,
    machine: &Machine,
) -> Result<ConfiguredCommand, InstallError> {
    let running = std::env::current_exe().map_err(InstallError::NoProgram)?;
    // A link on the PATH stays the same over updates; the file behind it may not.
    let linked = machine
        .find_program(SERVER_NAME)
        .filter(|path| path.canonicalize().is_ok_and(|path| path == running));
    let program = linked.unwrap_or(running);
    let program = program.to_str().ok_or(InstallError::ProgramNotText)?.to_owned();
    let mut args = vec!["stdio".to_owned()];
    args.extend(connect_args(flags.connect.as_ref().map(Option::as_deref))?);
    if let Some(token) = flags.token.clone().map(absolute) {
        let token = token.to_str().ok_or(InstallError::ProgramNotText)?.to_owned();
        args.extend(["--token".to_owned(), token]);
    }
    let path = machine.path_variable();
    let variables = (!path.is_empty()).then(|| ("PATH".to_owned(), path.to_owned()));
    Ok(ConfiguredCommand { program, args, variables: variables.into_iter().collect() })
}

fn connect_args(connect: Option<Option<&str>>) -> Result<Vec<String>, InstallError> {
    let flag = "--connect".to_owned();
    Ok(match connect {
        None => Vec::new(),
        Some(None) => vec![flag, "--ensure-server".to_owned()],
        Some(Some(text)) if ClientKind::parse(text).is_some() => {
            return Err(InstallError::ClientAfterConnect(text.to_owned()));
        }
        Some(Some(text)) => {
            let target = ServerTarget::parse(text, "/mcp")?;
            let place = match target.endpoint() {
                Endpoint::Socket(path) => absolute(path.clone()).to_string_lossy().into_owned(),
                Endpoint::Tcp(_) | Endpoint::Tls(_) => target.to_string(),
            };
            vec![flag, place]
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_arguments_for_a_shared_server_are_absolute() {
        let args = |connect| connect_args(connect).unwrap().join(" ");
        assert_eq!(args(None), "");
        assert_eq!(args(Some(None)), "--connect --ensure-server");
        assert_eq!(args(Some(Some("/run/y.sock"))), "--connect /run/y.sock");
        let url = "http://127.0.0.1:8000/mcp";
        assert_eq!(args(Some(Some(url))), format!("--connect {url}"));
        assert_eq!(args(Some(Some("http://127.0.0.1:8000"))), format!("--connect {url}"));
        let relative = args(Some(Some("./y.sock")));
        assert!(relative.starts_with("--connect /") && relative.ends_with("/y.sock"), "{relative}");
        let error = connect_args(Some(Some("127.0.0.1:8000"))).unwrap_err();
        assert!(error.code() == "bad_target" && error.to_string().contains("http://"), "{error}");
    }

    #[test]
    fn an_unknown_client_gets_a_suggestion() {
        assert_eq!(parse_client("claude"), Ok(ClientKind::ClaudeCode));
        let message = parse_client("cusror").unwrap_err();
        assert!(message.contains("did you mean cursor?") && message.contains("goose"), "{message}");
    }

    #[test]
    fn a_project_is_the_nearest_repository_below_the_home_directory() {
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path().join("home");
        let deep = home.join("work/repo/src/deep");
        std::fs::create_dir_all(&deep).unwrap();
        std::fs::create_dir_all(home.join("work/repo/.git")).unwrap();
        std::fs::create_dir_all(home.join(".git")).unwrap();
        assert_eq!(find_project(&deep, &home), home.join("work/repo"));
        assert_eq!(find_project(&home.join("work"), &home), home.join("work"));
        assert_eq!(find_project(&home, &home), home);
    }
}
