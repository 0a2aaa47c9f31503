//! The owner of an entry that is already in the settings: Shellyard, or another program.

use std::path::Path;

use shellyard_install::{ClientKind, ConfiguredCommand, SERVER_NAME, SettingValue};

use super::text_layout::{escape_for_terminal, truncate_to_width};

/// Keys with the address of a remote server, in the settings of all clients.
const ADDRESS_KEYS: [&str; 4] = ["url", "httpUrl", "serverUrl", "uri"];

/// The most columns of a description.
const MAX_WIDTH: usize = 100;

/// Describes an entry that does not start Shellyard; `None` if it does, or is empty. `own` is the
/// command of this program, which may have another name. Only the program or the host is named:
/// arguments, variables and addresses may hold secrets.
pub(super) fn describe_foreign_entry(
    client: ClientKind,
    entry: &SettingValue,
    own: &ConfiguredCommand,
) -> Option<String> {
    if matches!(entry, SettingValue::Map(pairs) if pairs.is_empty()) {
        return None;
    }
    let shorten = |text: &str| truncate_to_width(&escape_for_terminal(text), MAX_WIDTH);
    if let Some(ConfiguredCommand { program, .. }) = ConfiguredCommand::from_entry(client, entry) {
        let is_named = Path::new(&program).file_name().is_some_and(|name| name == SERVER_NAME);
        let is_ours = is_named || program == own.program;
        return (!is_ours).then(|| format!("the command `{}`", shorten(&program)));
    }
    let address =
        ADDRESS_KEYS.iter().find_map(|key| entry.get(key).and_then(SettingValue::as_text));
    Some(match address.map(find_host) {
        None => "an entry without a command".to_owned(),
        Some(None) => "a remote server".to_owned(),
        Some(Some(host)) => format!("the server at `{}`", shorten(host)),
    })
}

/// Returns the host and port of a URL, without its user, path and query.
fn find_host(url: &str) -> Option<&str> {
    let (_scheme, rest) = url.split_once("://")?;
    let authority = rest.split(['/', '?', '#', '\\']).next()?;
    let host = authority.rsplit('@').next()?;
    Some(host).filter(|host| !host.is_empty())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn only_an_entry_that_starts_shellyard_is_ours() {
        let command = |program: &str| ConfiguredCommand {
            program: program.to_owned(),
            args: vec!["stdio".to_owned(), "--token=secret".to_owned()],
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
            assert_eq!(foreign, "the command `/usr/bin/npx`");
        }
        let client = ClientKind::Cursor;
        for (url, expected) in [
            ("http://h:80/mcp", "the server at `h:80`"),
            ("https://user:secret@h/mcp?key=secret", "the server at `h`"),
            ("https://h?key=a@secret", "the server at `h`"),
            ("https://\u{1b}[2J/", "the server at `\\u{1b}[2J`"),
            ("secret", "a remote server"),
        ] {
            let remote = SettingValue::map([("url", SettingValue::text(url))]);
            let described = describe_foreign_entry(client, &remote, &own);
            assert_eq!(described.as_deref(), Some(expected), "{url}");
        }
        let odd = describe_foreign_entry(client, &SettingValue::Flag(true), &own);
        assert_eq!(odd.as_deref(), Some("an entry without a command"));
        assert_eq!(describe_foreign_entry(client, &SettingValue::Map(Vec::new()), &own), None);
    }
}
