//! The results of `install`, as text and as JSON.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use shellyard_install::{
    ClientKind, FilePurpose, InstallRequest, InstallScope, Machine, SettingsFile,
};

use super::install::InstallError;
use super::install_check::CheckedServer;
use super::terminal::{VerbOutput, format_with_causes, read_width};
use super::text_layout::{escape_for_terminal, wrap_text};

/// The result for one client.
#[derive(Debug)]
pub(super) struct ClientReport {
    client: ClientKind,
    pub(super) files: Vec<FileReport>,
    pub(super) check: Option<CheckedServer>,
    pub(super) notes: Vec<String>,
    pub(super) error: Option<InstallError>,
}

/// The result for one file.
#[derive(Debug)]
pub(super) struct FileReport {
    path: PathBuf,
    purpose: FilePurpose,
    action: InstallAction,
    pub(super) backup: Option<PathBuf>,
    /// The entry of another program that was replaced or removed.
    pub(super) replaced: Option<String>,
    /// The change, if it was only shown.
    pub(super) diff: Option<String>,
    /// The settings, if they were only printed.
    pub(super) settings: Option<String>,
}

/// The change to one file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum InstallAction {
    Created,
    Changed,
    AlreadyInstalled,
    Removed,
    Restored,
    Deleted,
    NotInstalled,
}

impl InstallAction {
    /// The stable word of the action.
    const fn word(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Changed => "changed",
            Self::AlreadyInstalled => "already_installed",
            Self::Removed => "removed",
            Self::Restored => "restored",
            Self::Deleted => "deleted",
            Self::NotInstalled => "not_installed",
        }
    }
}

impl ClientReport {
    pub(super) const fn new(client: ClientKind) -> Self {
        Self { client, files: Vec::new(), check: None, notes: Vec::new(), error: None }
    }

    fn format(&self) -> VerbOutput {
        let name = self.client.name();
        let has_work = |file: &&FileReport| file.action != InstallAction::NotInstalled;
        let width = read_width(&std::io::stdout());
        let fit = |line: String| wrap_text(&line, width);
        let mut stdout = String::new();
        for file in self.files.iter().filter(has_work) {
            stdout += &fit(format!("{name}: {}\n", file.format()));
            // The lines of a file stay as they are.
            stdout += file.diff.as_deref().unwrap_or_default();
        }
        let is_absent = self.error.is_none() && !self.files.iter().any(|file| has_work(&file));
        if is_absent {
            stdout += &fit(format!("{name}: not installed, nothing to do\n"));
        }
        if let Some(checked) = &self.check {
            stdout += &fit(format!("{name}: {}\n", format_check(checked)));
        }
        let mut stderr: String =
            self.notes.iter().map(|note| format!("{name}: note: {note}\n")).collect();
        if let Some(error) = &self.error {
            let text = format_with_causes(error);
            stderr += &format!("shellyard: {name}: {}\n", escape_for_terminal(&text));
        }
        VerbOutput { stdout, stderr, code: u8::from(self.error.is_some()) }
    }

    fn to_json(&self) -> Value {
        let files: Vec<Value> = self.files.iter().map(FileReport::to_json).collect();
        let mut answer = json!({
            "client": self.client.word(),
            "name": self.client.name(),
            "ok": self.error.is_none(),
            "files": files,
            "notes": self.notes,
        });
        if let Some(checked) = &self.check {
            answer["check"] = json!({
                "server": checked.name,
                "version": checked.version,
                "tools": checked.tools,
                "elapsed_ms": u64::try_from(checked.elapsed.as_millis()).unwrap_or(u64::MAX),
            });
        }
        if let Some(error) = &self.error {
            answer["code"] = json!(error.code());
            answer["message"] = json!(format_with_causes(error));
        }
        answer
    }
}

impl FileReport {
    pub(super) fn new(file: &SettingsFile, action: InstallAction) -> Self {
        let (path, purpose) = (file.path.clone(), file.purpose);
        Self { path, purpose, action, backup: None, replaced: None, diff: None, settings: None }
    }

    fn format(&self) -> String {
        let thing = match self.purpose {
            FilePurpose::Servers => "shellyard",
            FilePurpose::Permissions => "permission",
            FilePurpose::Rules => "instructions for the model",
        };
        let path = quote_path(&self.path);
        let would = if self.diff.is_some() { "would be " } else { "" };
        let change = match self.action {
            InstallAction::Created => format!("{thing} {would}added to the new file {path}"),
            InstallAction::Changed => format!("{thing} {would}added to {path}"),
            InstallAction::AlreadyInstalled => format!("already installed, {path} stays as it is"),
            InstallAction::Removed => format!("{thing} {would}removed from {path}"),
            InstallAction::Restored => {
                format!("{thing} {would}removed: {path} is exactly what it was before")
            }
            InstallAction::Deleted => {
                format!("{thing} {would}removed: {path} had nothing else and is gone")
            }
            InstallAction::NotInstalled => format!("nothing of shellyard in {path}"),
        };
        let is_gone = matches!(
            self.action,
            InstallAction::Removed | InstallAction::Restored | InstallAction::Deleted
        );
        let joint = if is_gone { "; the entry was " } else { ", in place of " };
        let replaced = self.replaced.as_ref().map(|what| format!("{joint}{what}"));
        let is_told = self.replaced.is_some() || self.action == InstallAction::Changed;
        let backup = self.backup.as_ref().filter(|_| is_told);
        let backup = backup.map(|backup| format!("; the file as it was: {}", quote_path(backup)));
        change + &replaced.unwrap_or_default() + &backup.unwrap_or_default()
    }

    fn to_json(&self) -> Value {
        let mut answer = json!({
            "path": self.path,
            "purpose": self.purpose.word(),
            "action": self.action.word(),
        });
        let texts = [("diff", &self.diff), ("settings", &self.settings)];
        for (key, text) in texts {
            if let Some(text) = text {
                answer[key] = json!(text);
            }
        }
        if let Some(backup) = &self.backup {
            answer["backup"] = json!(backup);
        }
        if let Some(replaced) = &self.replaced {
            answer["replaced"] = json!(replaced);
        }
        answer
    }
}

/// Formats a path as one word, which is never wrapped.
fn quote_path(path: &Path) -> String {
    format!("`{}`", escape_for_terminal(&path.display().to_string()))
}

fn format_check(checked: &CheckedServer) -> String {
    let CheckedServer { name, version, tools, elapsed } = checked;
    format!(
        "checked: started as the client does, {} {} answers with {} tools ({:.1} s)",
        escape_for_terminal(name),
        escape_for_terminal(version),
        tools.len(),
        elapsed.as_secs_f64()
    )
}

/// Prints the results for all clients; exit code 1 if one of them failed.
pub(super) fn print_reports(reports: &[ClientReport], is_json: bool) -> VerbOutput {
    let code = u8::from(reports.iter().any(|report| report.error.is_some()));
    if is_json {
        let clients: Vec<Value> = reports.iter().map(ClientReport::to_json).collect();
        let answer = json!({ "ok": code == 0, "clients": clients });
        return VerbOutput { stdout: format!("{answer:#}\n"), stderr: String::new(), code };
    }
    join(reports.iter().map(ClientReport::format), code)
}

/// Prints only the settings; of several files, each with its path above it.
pub(super) fn print_settings(reports: &[ClientReport]) -> VerbOutput {
    let code = u8::from(reports.iter().any(|report| report.error.is_some()));
    let has_many = reports.iter().map(|report| report.files.len()).sum::<usize>() > 1;
    let outputs = reports.iter().map(|report| {
        let format = |file: &FileReport| {
            let text = file.settings.as_deref().unwrap_or_default();
            let head = format!("==> {} <==\n", file.path.display());
            if has_many { format!("{head}{text}\n") } else { text.to_owned() }
        };
        let stdout = report.files.iter().map(format).collect();
        let place = |file: &FileReport| {
            format!("{}: this goes into {}\n", report.client.name(), file.path.display())
        };
        let stderr = match &report.error {
            Some(error) => format!("shellyard: {}\n", format_with_causes(error)),
            None if has_many => String::new(),
            None => report.files.iter().map(place).collect(),
        };
        VerbOutput { stdout, stderr, code }
    });
    join(outputs, code)
}

fn join(outputs: impl Iterator<Item = VerbOutput>, code: u8) -> VerbOutput {
    outputs.fold(VerbOutput { code, ..VerbOutput::default() }, |mut all, output| {
        all.stdout += &output.stdout;
        all.stderr += &output.stderr;
        all
    })
}

/// The output for a call that failed for all clients.
pub(super) fn failure_output(error: &InstallError, is_json: bool) -> VerbOutput {
    let message = format_with_causes(error);
    if is_json {
        let answer = json!({ "ok": false, "code": error.code(), "message": message });
        return VerbOutput { stdout: format!("{answer:#}\n"), code: 1, ..VerbOutput::default() };
    }
    VerbOutput { stderr: format!("shellyard: {message}\n"), code: 1, ..VerbOutput::default() }
}

/// Says what the permission rules of a request permit.
pub(super) fn permission_note(request: &InstallRequest) -> String {
    let name = request.client.name();
    if request.permits_without_question() {
        format!(
            "{name} may now call every tool of shellyard without asking you, so every command of the agent runs; what may run is up to Shellyard (policy.ask, policy.deny, confinement.profile)"
        )
    } else {
        format!(
            "no permission is written for {name}: it asks until you choose \"always allow\" in its dialog, which then permits every command of the agent"
        )
    }
}

/// Says where instructions for the model go if this scope has no file for them.
pub(super) fn rules_note(request: &InstallRequest, machine: &Machine) -> Option<String> {
    let name = request.client.name();
    let has_file = |scope| request.client.rules_file(scope, machine).is_some();
    match (has_file(request.scope), has_file(InstallScope::Project)) {
        (true, _) => None,
        (false, true) => Some(format!(
            "{name} has no file with instructions for all projects; --scope project writes AGENTS.md"
        )),
        (false, false) => Some(format!("{name} has no file with instructions for the model")),
    }
}
