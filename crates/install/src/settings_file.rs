//! The files that an installation changes for a client, and the changes to each: applied, recognised,
//! shown and taken back.

use std::path::PathBuf;

use crate::client::{
    ClientKind, ConfiguredCommand, InstallScope, Machine, SERVER_NAME, entry_permission,
};
use crate::format::{EditError, SettingValue, SettingsFormat, TextPlace, newline_of};

/// The tools that Zed asks for one by one.
const ZED_TOOLS: [&str; 6] = [
    "mcp:shellyard:run_command",
    "mcp:shellyard:wait_jobs",
    "mcp:shellyard:read_output",
    "mcp:shellyard:list_jobs",
    "mcp:shellyard:send_input",
    "mcp:shellyard:stop_jobs",
];

/// Keys that make an entry a remote server.
const REMOTE_KEYS: [&str; 8] = [
    "url",
    "httpUrl",
    "serverUrl",
    "uri",
    "headers",
    "http_headers",
    "bearer_token_env_var",
    "type",
];

const BEGIN: &str = "<!-- shellyard:begin, written by `shellyard install --agent-rules` -->";
const BEGIN_WORD: &str = "<!-- shellyard:begin";
const END: &str = "<!-- shellyard:end -->";

/// The lines that make a model use the tools of the server.
const AGENT_RULES: &str = include_str!("agent_rules.md");

/// The options of one installation.
#[derive(Debug, Clone)]
pub struct InstallRequest {
    /// The client that gets the server.
    pub client: ClientKind,
    /// The reach of the installation.
    pub scope: InstallScope,
    /// The file that names the servers, instead of the usual one.
    pub config_path: Option<PathBuf>,
    /// The command that the client starts.
    pub command: ConfiguredCommand,
    /// `true` to add instructions for the model and permissions.
    pub has_rules: bool,
}

impl InstallRequest {
    /// Returns the files and their changes; `None` if the client has no settings in this scope.
    #[must_use]
    pub fn files(&self, machine: &Machine) -> Option<Vec<SettingsFile>> {
        let usual = || self.client.settings_file(self.scope, machine);
        let path = self.config_path.clone().or_else(usual)?;
        let mut edits = vec![FileEdit::Server {
            format: self.client.format(),
            section: self.client.section(),
            entry: self.command.to_entry(self.client, self.has_rules),
        }];
        let permissions = self.permission_edits();
        let permissions_file = self.client.permissions_file(self.scope, machine);
        let mut files = Vec::new();
        if self.has_rules {
            match permissions_file {
                Some(path) => {
                    let purpose = FilePurpose::Permissions;
                    files.push(SettingsFile { path, purpose, edits: permissions });
                }
                None => edits.extend(permissions),
            }
            if let Some(path) = self.client.rules_file(self.scope, machine) {
                let edits = vec![FileEdit::Section { lines: AGENT_RULES }];
                files.push(SettingsFile { path, purpose: FilePurpose::Rules, edits });
            }
        }
        files.insert(0, SettingsFile { path, purpose: FilePurpose::Servers, edits });
        Some(files)
    }

    fn permission_edits(&self) -> Vec<FileEdit> {
        let format = SettingsFormat::Jsonc;
        let allow = SettingValue::text("allow");
        match (self.client, self.scope) {
            (ClientKind::ClaudeCode, _) => {
                let path = vec!["permissions", "allow"];
                let format = SettingsFormat::Json;
                vec![FileEdit::Item { format, path, item: "mcp__shellyard" }]
            }
            (ClientKind::OpenCode, _) => {
                let path = vec!["permission", "shellyard_*"];
                vec![FileEdit::Key { format, path, value: allow }]
            }
            (ClientKind::Zed, InstallScope::User) => {
                let edit = |tool| {
                    let path = vec!["agent", "tool_permissions", "tools", tool, "default"];
                    FileEdit::Key { format, path, value: allow.clone() }
                };
                ZED_TOOLS.map(edit).to_vec()
            }
            (
                ClientKind::ClaudeDesktop
                | ClientKind::Codex
                | ClientKind::Cursor
                | ClientKind::VsCode
                | ClientKind::Zed
                | ClientKind::Gemini
                | ClientKind::Qwen
                | ClientKind::Windsurf
                | ClientKind::Goose,
                _,
            ) => Vec::new(),
        }
    }

    /// `true` if the rules contain a permission to use the server without a question.
    #[must_use]
    pub fn permits_without_question(&self) -> bool {
        let has_permission =
            !self.permission_edits().is_empty() || entry_permission(self.client).is_some();
        self.has_rules && has_permission
    }
}

/// A file and the changes to it.
#[derive(Debug, Clone)]
pub struct SettingsFile {
    /// The path of the file, which may be a symbolic link.
    pub path: PathBuf,
    /// The purpose of the file, for messages.
    pub purpose: FilePurpose,
    edits: Vec<FileEdit>,
}

/// The purpose of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FilePurpose {
    /// Names the servers, and may contain permissions.
    Servers,
    /// Contains permissions.
    Permissions,
    /// Contains instructions for the model.
    Rules,
}

impl FilePurpose {
    /// The stable word of the purpose.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Servers => "servers",
            Self::Permissions => "permissions",
            Self::Rules => "rules",
        }
    }
}

/// The way to take all changes to a file back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UninstallStep {
    /// The file has none of them.
    Nothing,
    /// The file consists of them alone: it is deleted.
    Delete,
    /// The file is exactly as it was after the installation: this backup takes its place.
    Restore(usize),
    /// Somebody has changed the file since: only our part goes.
    Edit(String),
}

impl SettingsFile {
    /// Returns the text with all changes; `None` is a file that does not exist.
    ///
    /// # Errors
    /// When the text cannot be read or edited.
    pub fn install(&self, text: Option<&str>) -> Result<String, EditError> {
        apply_all(&self.edits, text.unwrap_or_default())
    }

    /// Returns the text with all changes, and without anything of an entry that another program has
    /// under our name.
    ///
    /// # Errors
    /// When the text cannot be read or edited.
    pub fn replace(&self, text: &str) -> Result<String, EditError> {
        let is_server = |edit: &&FileEdit| matches!(edit, FileEdit::Server { .. });
        let servers = self.edits.iter().filter(is_server);
        let without =
            servers.into_iter().try_fold(text.to_owned(), |text, edit| edit.revert(&text));
        apply_all(&self.edits, &without?)
    }

    /// Decides how to take the changes back. `backups` are texts of the file from before.
    ///
    /// # Errors
    /// When the text cannot be read or edited.
    pub fn uninstall(
        &self,
        text: Option<&str>,
        backups: &[String],
    ) -> Result<UninstallStep, EditError> {
        let Some(text) = text else { return Ok(UninstallStep::Nothing) };
        let found = self.find_in(text)?;
        if found.is_empty() {
            return Ok(UninstallStep::Nothing);
        }
        let gives_text = |before: &str| apply_all(&found, before).is_ok_and(|after| after == text);
        let is_clean = |backup: &str| self.find_in(backup).is_ok_and(|found| found.is_empty());
        let restored =
            backups.iter().position(|backup| is_clean(backup) && gives_text(backup.as_str()));
        if let Some(index) = restored {
            return Ok(UninstallStep::Restore(index));
        }
        if gives_text("") {
            return Ok(UninstallStep::Delete);
        }
        let reverted =
            self.edits.iter().rev().try_fold(text.to_owned(), |text, edit| edit.revert(&text));
        reverted.map(UninstallStep::Edit)
    }

    fn find_in(&self, text: &str) -> Result<Vec<FileEdit>, EditError> {
        let found = self.edits.iter().map(|edit| edit.find_in(text));
        found.filter_map(Result::transpose).collect()
    }

    /// Returns the entry of the server in a text, if this file is for it.
    ///
    /// # Errors
    /// When the text cannot be read.
    pub fn read_entry(&self, text: &str) -> Result<Option<SettingValue>, EditError> {
        let entries = self.find_in(text)?.into_iter().map(|edit| match edit {
            FileEdit::Server { entry, .. } => Some(entry),
            FileEdit::Key { .. } | FileEdit::Item { .. } | FileEdit::Section { .. } => None,
        });
        Ok(entries.flatten().next())
    }
}

fn apply_all(edits: &[FileEdit], text: &str) -> Result<String, EditError> {
    edits.iter().try_fold(text.to_owned(), |text, edit| edit.apply(&text))
}

/// One change to the text of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
enum FileEdit {
    /// The entry of the server.
    Server { format: SettingsFormat, section: &'static str, entry: SettingValue },
    /// A key with a value, such as a permission.
    Key { format: SettingsFormat, path: Vec<&'static str>, value: SettingValue },
    /// A text in a list, such as a permission.
    Item { format: SettingsFormat, path: Vec<&'static str>, item: &'static str },
    /// A section between marks.
    Section { lines: &'static str },
}

impl FileEdit {
    fn apply(&self, text: &str) -> Result<String, EditError> {
        match self {
            Self::Server { format, section, entry } => set_entry(*format, section, entry, text),
            Self::Key { format, path, value } => format.set(text, path, value),
            Self::Item { format, path, item } => format.append_item(text, path, item),
            Self::Section { lines } => insert_section(text, lines),
        }
    }

    fn revert(&self, text: &str) -> Result<String, EditError> {
        match self {
            Self::Server { format, section, .. } => format.remove(text, &[section, SERVER_NAME]),
            Self::Key { format, path, value } => {
                let is_ours = format.read(text)?.at(path) == Some(value);
                if is_ours { format.remove(text, path) } else { Ok(text.to_owned()) }
            }
            Self::Item { format, path, item } => format.remove_item(text, path, item),
            Self::Section { .. } => remove_section(text),
        }
    }

    /// The change as it stands in a text: of the server, with the entry that is there.
    fn find_in(&self, text: &str) -> Result<Option<Self>, EditError> {
        let found = match self {
            Self::Server { format, section, .. } => {
                let settings = format.read(text)?;
                let entry = settings.at(&[section, SERVER_NAME]).cloned();
                entry.map(|entry| Self::Server { format: *format, section, entry })
            }
            Self::Key { format, path, value } => {
                let is_there = format.read(text)?.at(path) == Some(value);
                is_there.then(|| self.clone())
            }
            Self::Item { format, path, item } => {
                let settings = format.read(text)?;
                let items = settings.at(path).and_then(SettingValue::as_list).unwrap_or(&[]);
                items.contains(&SettingValue::text(*item)).then(|| self.clone())
            }
            Self::Section { .. } => find_section(text)?.map(|_| self.clone()),
        };
        Ok(found)
    }
}

/// Sets the entry of the server. Keys of an existing entry that are not ours stay.
fn set_entry(
    format: SettingsFormat,
    section: &str,
    entry: &SettingValue,
    text: &str,
) -> Result<String, EditError> {
    let path = [section, SERVER_NAME];
    let settings = format.read(text)?;
    let Some(old @ SettingValue::Map(_)) = settings.at(&path) else {
        return format.set(text, &path, entry);
    };
    let mut edited = text.to_owned();
    for (key, value) in entry.pairs() {
        if let SettingValue::Map(inner) = value {
            for (name, value) in inner {
                edited = format.set(&edited, &[section, SERVER_NAME, key, name], value)?;
            }
        } else {
            edited = format.set(&edited, &[section, SERVER_NAME, key], value)?;
        }
    }
    // An entry cannot be local and remote at once.
    for key in REMOTE_KEYS.iter().filter(|key| old.get(key).is_some() && entry.get(key).is_none()) {
        edited = format.remove(&edited, &[section, SERVER_NAME, key])?;
    }
    Ok(edited)
}

/// Appends the section, or replaces the one that is there.
fn insert_section(text: &str, lines: &str) -> Result<String, EditError> {
    let newline = newline_of(text);
    let section = format!("{BEGIN}\n{}\n{END}\n", lines.trim_end()).replace('\n', newline);
    if let Some(range) = find_section(text)? {
        return Ok(format!("{}{section}{}", &text[..range.start], &text[range.end..]));
    }
    let end = if text.is_empty() || text.ends_with('\n') { "" } else { newline };
    let gap = if text.is_empty() { "" } else { newline };
    Ok(format!("{text}{end}{gap}{section}"))
}

/// Removes the section and the empty line before it.
fn remove_section(text: &str) -> Result<String, EditError> {
    let Some(range) = find_section(text)? else { return Ok(text.to_owned()) };
    let before = &text[..range.start];
    let before = match before.strip_suffix("\r\n").or_else(|| before.strip_suffix('\n')) {
        Some(line) if line.ends_with('\n') => line,
        Some(_) | None => before,
    };
    Ok(format!("{before}{}", &text[range.end..]))
}

/// The range of the section with its marks, up to the end of the line.
fn find_section(text: &str) -> Result<Option<std::ops::Range<usize>>, EditError> {
    let Some(start) = text.find(BEGIN_WORD) else { return Ok(None) };
    let Some(end) = text[start..].find(END).map(|end| start + end + END.len()) else {
        let why = format!("the section of shellyard begins here, but its end `{END}` is missing");
        return Err(EditError::Syntax { place: TextPlace::of_byte(text, start), why });
    };
    let rest = &text[end..];
    let line_end = ["\r\n", "\n"].into_iter().find(|newline| rest.starts_with(newline));
    Ok(Some(start..end + line_end.map_or(0, str::len)))
}

/// Lines around a change that are shown.
const CONTEXT: usize = 3;

/// Formats the difference between two texts as one hunk in the unified form; empty if there is none.
#[must_use]
pub fn format_diff(name: &str, old: &str, new: &str) -> String {
    if old == new {
        return String::new();
    }
    let old_lines: Vec<&str> = old.split_inclusive('\n').collect();
    let new_lines: Vec<&str> = new.split_inclusive('\n').collect();
    let same_start = count_equal(old_lines.iter(), new_lines.iter());
    let rest = old_lines.len().min(new_lines.len()) - same_start;
    let same_end = count_equal(old_lines.iter().rev(), new_lines.iter().rev()).min(rest);
    let from = same_start.saturating_sub(CONTEXT);
    let old_end = old_lines.len() - same_end;
    let new_end = new_lines.len() - same_end;
    let after = CONTEXT.min(same_end);
    let mut shown = format!(
        "--- {name}\n+++ {name}\n@@ -{},{} +{},{} @@\n",
        from + usize::from(!old.is_empty()),
        old_end + after - from,
        from + 1,
        new_end + after - from,
    );
    let parts = [
        (' ', &old_lines[from..same_start]),
        ('-', &old_lines[same_start..old_end]),
        ('+', &new_lines[same_start..new_end]),
        (' ', &old_lines[old_end..old_end + after]),
    ];
    for (sign, lines) in parts {
        lines.iter().for_each(|line| push_line(&mut shown, sign, line));
    }
    shown
}

fn push_line(shown: &mut String, sign: char, line: &str) {
    shown.push(sign);
    shown.push_str(line.trim_end_matches(['\r', '\n']));
    shown.push('\n');
    if !line.ends_with('\n') {
        shown.push_str("\\ No newline at end of file\n");
    }
}

fn count_equal<'a>(
    left: impl Iterator<Item = &'a &'a str>,
    right: impl Iterator<Item = &'a &'a str>,
) -> usize {
    left.zip(right).take_while(|(left, right)| left == right).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_section_comes_goes_and_is_replaced() {
        for before in ["", "# Mine\n", "# Mine\r\n\r\ntext\r\n"] {
            let after = insert_section(before, "one\ntwo").unwrap();
            assert!(after.starts_with(before) && after.contains("one"), "{after}");
            assert_eq!(insert_section(&after, "one\ntwo\n").unwrap(), after);
            let changed = insert_section(&format!("{after}\nmore\n"), "three").unwrap();
            assert!(changed.contains("three") && !changed.contains("one"), "{changed}");
            assert!(changed.ends_with("\nmore\n"), "{changed}");
            assert_eq!(remove_section(&after).unwrap(), before);
        }
        assert_eq!(remove_section("nothing").unwrap(), "nothing");
    }

    #[test]
    fn a_section_without_an_end_is_left_alone() {
        let error = insert_section("a\n<!-- shellyard:begin -->\nb\n", "x").unwrap_err();
        assert!(error.to_string().starts_with("line 2, column 1"), "{error}");
    }

    #[test]
    fn a_change_is_shown_with_the_lines_around_it() {
        let old = "1\n2\n3\n4\n5\n6\n7\n8\n";
        let new = "1\n2\n3\n4\nnew\n5\n6\n7\n8\n";
        let expected = "--- f\n+++ f\n@@ -2,6 +2,7 @@\n 2\n 3\n 4\n+new\n 5\n 6\n 7\n";
        assert_eq!(format_diff("f", old, new), expected);
        assert_eq!(format_diff("f", old, old), "");
        assert_eq!(format_diff("f", "", "a\n"), "--- f\n+++ f\n@@ -0,0 +1,1 @@\n+a\n");
        let last = format_diff("f", "a", "b\n");
        assert_eq!(last, "--- f\n+++ f\n@@ -1,1 +1,1 @@\n-a\n\\ No newline at end of file\n+b\n");
    }
}
