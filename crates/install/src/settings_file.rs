//! The changes to one file: applied, recognised and taken back.

use std::path::PathBuf;

use crate::entry::{SERVER_NAME, contradicting_keys};
use crate::error::EditError;
use crate::format::SettingsFormat;
use crate::marked_section;
use crate::value::SettingValue;

/// One change to the text of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum FileEdit {
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
            Self::Section { lines } => marked_section::insert(text, lines),
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
            Self::Section { .. } => marked_section::remove(text),
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
            Self::Section { .. } => marked_section::find(text)?.map(|_| self.clone()),
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
    for key in contradicting_keys(old, entry) {
        edited = format.remove(&edited, &[section, SERVER_NAME, key])?;
    }
    Ok(edited)
}

/// A file and the changes to it.
#[derive(Debug, Clone)]
pub struct SettingsFile {
    /// The path of the file, which may be a symbolic link.
    pub path: PathBuf,
    /// The purpose of the file, for messages.
    pub purpose: FilePurpose,
    pub(crate) edits: Vec<FileEdit>,
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
