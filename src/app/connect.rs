//! Converts `--connect`, `--token` and `--ensure-server` into a client of a server, and the command to
//! start that server.

use std::ffi::OsString;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use axum::http::HeaderValue;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustix::process::geteuid;

use super::error::AppError;
use super::{module_settings, rules};
use crate::cli::{ConnectFlags, ServerSet, StdioFlags};
use crate::client::{BearerToken, Endpoint, ServerClient, ServerTarget, list_private_sockets};
use crate::config::{Environment, Loaded, Settings, TOKEN_VARIABLE};
use crate::lines::{ClientEnvironment, DIRECTORY_HEADER, encode_environment};
use crate::private_files::{Symlinks, read_text};
use crate::proxy::{ServerLaunch, Upstream};
use crate::telemetry::events;

/// Returns the server of `--connect`.
pub(super) fn find_upstream(
    flags: &StdioFlags,
    loaded: &Loaded,
    environment: &Environment,
) -> Result<Upstream, AppError> {
    refuse_server_flags(flags)?;
    let settings = &loaded.settings;
    let wanted = flags.connect.as_ref().and_then(Option::as_deref);
    let target = parse_target(wanted, settings)?;
    let token = find_token(flags.token.as_deref(), environment)?;
    let client = ServerClient::new(target, token)?;
    let launch = if flags.ensure_server {
        Some(plan_launch(flags, client.target(), settings, environment)?)
    } else {
        None
    };
    let client = with_current_directory(client)?;
    let client = match encode_for_server(client.target(), loaded, environment)? {
        Some(encoded) => client.with_upgrade_body(encoded),
        None => client,
    };
    Ok(Upstream { client, launch })
}

/// Returns the environment of this process, as far as its own settings let it pass to jobs: jobs of
/// this client inherit it. The server applies its settings to it as well. `None` for a server on another
/// machine, which has no use for it and no right to see it.
fn encode_for_server(
    target: &ServerTarget,
    loaded: &Loaded,
    environment: &Environment,
) -> Result<Option<Vec<u8>>, AppError> {
    if !target.is_local() {
        return Ok(None);
    }
    let selected = rules::job_environment(loaded, environment)?;
    let withheld = selected.withheld_names().map(str::to_owned).collect();
    let variables = selected.kept;
    let encoded = encode_environment(ClientEnvironment { variables, withheld });
    if !encoded.left_out.is_empty() {
        events::environment_truncated(&encoded.left_out);
    }
    Ok(Some(encoded.bytes))
}

/// Adds the header with the current directory: jobs of this client run there by default.
fn with_current_directory(client: ServerClient) -> Result<ServerClient, AppError> {
    let cwd = std::env::current_dir().map_err(AppError::Cwd)?;
    let encoded = STANDARD.encode(cwd.as_os_str().as_encoded_bytes());
    // Every character of base64 is valid in a header.
    let value = HeaderValue::try_from(encoded).map_err(io::Error::other).map_err(AppError::Cwd)?;
    Ok(client.with_header(DIRECTORY_HEADER, value))
}

/// Creates a client of the server at `wanted` (`None` = the server of these settings) for a verb of a
/// person: the token of the environment is for servers elsewhere.
pub(super) fn new_verb_client(
    wanted: Option<&str>,
    token_file: Option<&Path>,
    settings: &Settings,
    environment: &Environment,
) -> Result<ServerClient, AppError> {
    let target = parse_target(wanted, settings)?;
    let token = find_verb_token(&target, token_file, environment)?;
    Ok(ServerClient::new(target, token)?)
}

/// Returns the token for a verb. A server knows the owner of its socket, who may do everything; the
/// token of the environment would only take rights away.
fn find_verb_token(
    target: &ServerTarget,
    file: Option<&Path>,
    environment: &Environment,
) -> Result<Option<BearerToken>, AppError> {
    if file.is_none() && is_own_socket(target) {
        return Ok(None);
    }
    find_token(file, environment)
}

fn is_own_socket(target: &ServerTarget) -> bool {
    match target.endpoint() {
        Endpoint::Socket(path) => {
            std::fs::metadata(path).is_ok_and(|file| file.uid() == geteuid().as_raw())
        }
        Endpoint::Tcp(_) | Endpoint::Tls(_) => false,
    }
}

/// Returns the server of `--connect`; without that flag, the shared server and those of all clients of
/// this user.
pub(super) fn find_servers(
    flags: &ConnectFlags,
    settings: &Settings,
    environment: &Environment,
) -> Result<ServerSet, AppError> {
    if let Some(wanted) = &flags.connect {
        let token = flags.token.as_deref();
        let client = new_verb_client(wanted.as_deref(), token, settings, environment)?;
        return Ok(ServerSet::only(client));
    }
    let path = &settings.http.path;
    let shared = module_settings::socket_path(settings).map(|socket| {
        let target = ServerTarget::socket(socket, path);
        let token = find_verb_token(&target, flags.token.as_deref(), environment)?;
        Ok::<_, AppError>(ServerClient::new(target, token)?)
    });
    // Without a readable directory there is no such server; the shared one can still be asked.
    let sockets = list_private_sockets(&settings.server.data_dir).unwrap_or_default();
    // The socket of a stdio server knows its user, and needs no token.
    let stdio = sockets.into_iter().map(|(pid, socket)| {
        ServerClient::new(ServerTarget::socket(socket, path), None).map(|client| (pid, client))
    });
    Ok(ServerSet::of_user(shared.transpose()?, stdio.collect::<Result<_, _>>()?))
}

/// Refuses flags that only a server can use: ignoring them silently would mislead the user.
fn refuse_server_flags(flags: &StdioFlags) -> Result<(), AppError> {
    let server = &flags.server;
    let given = [
        ("--dialect", !server.dialect.is_empty()),
        ("--result-format", server.result_format.is_some()),
        ("--slots", server.slots.is_some()),
    ];
    match given.into_iter().find(|(_, is_given)| *is_given) {
        Some((flag, _)) => Err(AppError::ServerOnlyFlag { flag }),
        None => Ok(()),
    }
}

fn parse_target(text: Option<&str>, settings: &Settings) -> Result<ServerTarget, AppError> {
    let path = &settings.http.path;
    if let Some(text) = text {
        return Ok(ServerTarget::parse(text, path)?.without_final_slash());
    }
    let socket = module_settings::socket_path(settings).ok_or(AppError::NoSocket)?;
    Ok(ServerTarget::socket(socket, path))
}

fn find_token(
    file: Option<&Path>,
    environment: &Environment,
) -> Result<Option<BearerToken>, AppError> {
    let (text, origin) = match (file, environment.token()) {
        (Some(path), _) => (read_token_file(path)?, path.display().to_string()),
        (None, Some(token)) => (token.to_owned(), TOKEN_VARIABLE.to_owned()),
        (None, None) => return Ok(None),
    };
    // The text itself is not repeated: it is a secret.
    Ok(Some(BearerToken::new(text.trim()).map_err(|_| AppError::UnusableToken { origin })?))
}

/// Returns the first line that is neither empty nor a comment nor the hash of a token.
fn read_token_file(path: &Path) -> Result<String, AppError> {
    let text = read_text(path, Symlinks::Follow)
        .map_err(|source| AppError::TokenFile { path: path.into(), source })?;
    let is_token =
        |line: &&str| !line.is_empty() && !line.starts_with('#') && !line.starts_with("sha256:");
    let token = text.lines().map(str::trim).find(is_token);
    token.map(str::to_owned).ok_or_else(|| AppError::NoToken { path: path.into() })
}

fn plan_launch(
    flags: &StdioFlags,
    target: &ServerTarget,
    settings: &Settings,
    environment: &Environment,
) -> Result<ServerLaunch, AppError> {
    let mut args: Vec<OsString> = vec!["serve".into()];
    if let Some(config) = &flags.server.config {
        args.extend(["--config".into(), config.into()]);
    }
    if let Some(data_dir) = &flags.server.data_dir {
        args.extend(["--data-dir".into(), data_dir.into()]);
    }
    args.extend(listen_args(target)?);
    let is_inherited = |(name, _): &(OsString, OsString)| name != TOKEN_VARIABLE;
    Ok(ServerLaunch {
        program: find_own_program()?,
        args,
        // The token belongs to the client, and the server does not get it.
        env: environment.pairs().into_iter().filter(is_inherited).collect(),
        data_dir: settings.server.data_dir.clone(),
    })
}

/// Returns the arguments that make a server listen at `target`.
fn listen_args(target: &ServerTarget) -> Result<Vec<OsString>, AppError> {
    match target.endpoint() {
        Endpoint::Socket(path) => {
            Ok(vec!["--bind".into(), "none".into(), "--socket".into(), path.into()])
        }
        Endpoint::Tcp(authority) => match authority.loopback() {
            Some(address) => Ok(vec![
                "--bind".into(),
                address.to_string().into(),
                "--path".into(),
                target.path().into(),
            ]),
            None => Err(AppError::NotStartable { target: target.to_string() }),
        },
        Endpoint::Tls(_) => Err(AppError::NotStartable { target: target.to_string() }),
    }
}

/// Returns the path of this program; if an update has replaced the file, its open file in `/proc`.
fn find_own_program() -> Result<PathBuf, AppError> {
    let path = std::env::current_exe().map_err(AppError::Program)?;
    Ok(if path.exists() { path } else { "/proc/self/exe".into() })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::config::{ConfigSources, load};

    fn words(target: &str) -> Result<String, String> {
        let target = ServerTarget::parse(target, "/mcp").unwrap();
        let words = listen_args(&target).map_err(|error| error.to_string())?;
        Ok(words.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn a_server_is_started_only_at_addresses_of_this_machine() {
        assert_eq!(words("/s").unwrap(), "--bind none --socket /s");
        assert_eq!(words("http://localhost:7/x").unwrap(), "--bind 127.0.0.1:7 --path /x");
        for elsewhere in ["http://10.0.0.1:7", "http://example.org", "https://localhost:7"] {
            let error = words(elsewhere).unwrap_err();
            assert!(error.contains("this machine") && error.contains("shellyard serve"), "{error}");
        }
    }

    #[test]
    fn the_environment_goes_only_to_servers_of_this_machine() {
        let environment =
            Environment::from_pairs([("VIRTUAL_ENV", "/venv"), ("API_TOKEN", "a secret")]);
        let sources = ConfigSources {
            file: Some("/dev/null".into()),
            environment: Environment::default(),
            flags: Vec::new(),
        };
        let loaded = load(sources).unwrap();
        let encode = |target: &str| {
            let target = ServerTarget::parse(target, "/mcp").unwrap();
            encode_for_server(&target, &loaded, &environment).unwrap()
        };
        for here in ["/s", "http://localhost:7", "http://[::1]:7", "https://127.0.0.1:7"] {
            let sent = encode(here).unwrap();
            assert!(String::from_utf8_lossy(&sent).contains("VIRTUAL_ENV"), "{here}");
        }
        for elsewhere in ["http://10.0.0.1:7", "http://example.org", "https://example.org"] {
            assert_eq!(encode(elsewhere), None, "{elsewhere}");
        }
    }

    #[test]
    fn the_token_comes_from_a_file_or_the_environment_and_is_never_repeated() {
        let with = Environment::from_pairs([(TOKEN_VARIABLE, "a\nsecret")]);
        let error = find_token(None, &with).unwrap_err().to_string();
        assert!(error.contains(TOKEN_VARIABLE) && !error.contains("secret"), "{error}");
        assert!(find_token(None, &Environment::default()).unwrap().is_none());
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), "# mine\nsha256:00 tenant=a\n\n tok \n").unwrap();
        assert_eq!(read_token_file(file.path()).unwrap(), "tok");
        fs::write(file.path(), "sha256:00 tenant=a\n").unwrap();
        assert!(matches!(read_token_file(file.path()), Err(AppError::NoToken { .. })));
    }
}
