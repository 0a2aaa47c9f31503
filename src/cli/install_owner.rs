//! The owner of an entry that is already in the settings: Shellyard, or another program.

use std::path::Path;

use shellyard_install::{ClientKind, ConfiguredCommand, SERVER_NAME, SettingValue};

use super::table::truncate_to_width;
use super::terminal::escape_for_terminal;

/// Keys with the address of a remote server, in the settings of all clients.
const ADDRESS_KEYS: [&str; 4] = ["url", "httpUrl", "serverUrl", "uri"];

/// The most columns of a description.
const MAX_WIDTH: usize = 100;

/// Describes an entry that does not start Shellyard; `None` if it does, or is empty. `own` is the
/// command of this program, which may have another name. Variables are left out: they hold secrets.
pub(super) fn describe_foreign_entry(
    client: ClientKind,
    entry: &SettingValue,
    own: &ConfiguredCommand,
) -> Option<String> {
    if matches!(entry, SettingValue::Map(pairs) if pairs.is_empty()) {
        return None;
    }
    let shorten = |text: &str| truncate_to_width(&escape_for_terminal(text), MAX_WIDTH);
    if let Some(ConfiguredCommand { program, args, .. }) =
        ConfiguredCommand::from_entry(client, entry)
    {
        let is_named = Path::new(&program).file_name().is_some_and(|name| name == SERVER_NAME);
        let is_ours = is_named || program == own.program;
        let words = std::iter::once(program).chain(args).collect::<Vec<_>>().join(" ");
        return (!is_ours).then(|| format!("the command `{}`", shorten(&words)));
    }
    let address =
        ADDRESS_KEYS.iter().find_map(|key| entry.get(key).and_then(SettingValue::as_text));
    Some(address.map_or_else(
        || "an entry without a command".to_owned(),
        |address| format!("the server at `{}`", shorten(address)),
    ))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn only_an_entry_that_starts_shellyard_is_ours() {
        let command = |program: &str| ConfiguredCommand {
            program: program.to_owned(),
            args: vec!["stdio".to_owned(), "\u{1b}[2J".to_owned()],
            variables: BTreeMap::from([("KEY".to_owned(), "secret".to_owned())]),
        };
        let own = command("/opt/shellyard-nightly");
        for client in ClientKind::ALL {
            let describe = |program: &str| {
                describe_foreign_entry(client, &command(program).to_entry(client, false), &own)
            };
            assert_eq!(describe("/usr/bin/shellyard"), None);
            assert_eq!(describe("shellyard"), None, "found on the PATH");
            assert_eq!(describe("/opt/shellyard-nightly"), None, "this program");
            let foreign = describe("/usr/bin/npx").unwrap();
            assert_eq!(foreign, "the command `/usr/bin/npx stdio \\u{1b}[2J`");
        }
        let client = ClientKind::Cursor;
        let remote = SettingValue::map([("url", SettingValue::text("http://h/mcp"))]);
        let described = describe_foreign_entry(client, &remote, &own);
        assert_eq!(described.as_deref(), Some("the server at `http://h/mcp`"));
        let odd = describe_foreign_entry(client, &SettingValue::Flag(true), &own);
        assert_eq!(odd.as_deref(), Some("an entry without a command"));
        assert_eq!(describe_foreign_entry(client, &SettingValue::Map(Vec::new()), &own), None);
    }
}
