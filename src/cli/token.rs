//! `token new`, `token list` and `token revoke`.

use std::error::Error;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::flags::{flag_value, parse_duration, parse_tenant};
use super::terminal::{OutputFormat, VerbOutput, read_width};
use super::text_layout::format_table_within;
use crate::config::FlagValue;
use crate::http::auth::{
    TokenEntry, TokenFile, TokenFilePath, TokenId, TokenLabel, TokenStore, TokenStoreError,
    UnixTime,
};
use crate::ids::TenantId;
use crate::service::{CallerIdentity, CallerRole};

/// Arguments of the `token` verb.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct TokenCommand {
    #[command(subcommand)]
    pub verb: TokenVerb,
    /// Configuration file, instead of the default locations.
    #[arg(long, value_name = "FILE", global = true)]
    pub config: Option<PathBuf>,
    /// Data directory of the server, with the default token file `tokens`.
    #[arg(long, value_name = "DIR", global = true)]
    pub data_dir: Option<String>,
    /// Token file, instead of the default one.
    #[arg(long, value_name = "FILE", global = true)]
    pub token_file: Option<String>,
    /// Print JSON instead of text.
    #[arg(long, global = true)]
    pub json: bool,
}

impl TokenCommand {
    /// Returns the settings that these flags set.
    #[must_use]
    pub fn values(&self) -> Vec<FlagValue> {
        let values = [
            flag_value("server.data_dir", "--data-dir", self.data_dir.as_ref()),
            flag_value("http.token_file", "--token-file", self.token_file.as_ref()),
        ];
        values.into_iter().flatten().collect()
    }
}

/// The verbs of `token`.
#[derive(Debug, Clone, PartialEq, Eq, Subcommand)]
pub enum TokenVerb {
    /// Create a token for a tenant (an owner of jobs) and print it once; only its hash is stored. A
    /// running server accepts the token at once.
    New(TokenNewFlags),
    /// List the tokens, without their secrets.
    List,
    /// Revoke a token; a running server refuses it at once.
    Revoke(TokenRevokeFlags),
}

/// Flags of `token new`.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct TokenNewFlags {
    /// Name of the tenant; all tokens with the same name share the tenant's jobs.
    #[arg(value_name = "NAME", value_parser = parse_tenant)]
    pub tenant: TenantId,
    /// Role: metrics (reads /metrics and nothing else), read-only, run, or admin (which may also read
    /// metrics and the jobs of all tenants).
    #[arg(long, value_name = "ROLE", default_value = "run", value_parser = parse_role)]
    pub role: CallerRole,
    /// Expiry: after a time such as 30d or 12h, or at a moment such as 2027-01-31T00:00:00Z.
    #[arg(long, value_name = "WHEN", value_parser = parse_expiry)]
    pub expires: Option<UnixTime>,
    /// Purpose of the token, which `token list` shows.
    #[arg(long, value_name = "TEXT", value_parser = parse_note)]
    pub note: Option<String>,
}

/// Flags of `token revoke`.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct TokenRevokeFlags {
    /// Id of the token, as `token list` shows it.
    #[arg(value_name = "ID", value_parser = |text: &str| text.parse::<TokenId>())]
    pub id: TokenId,
}

/// Runs the `token` verb on this file and returns the exit code.
#[must_use]
pub fn run(command: &TokenCommand, file: TokenFilePath) -> u8 {
    let store = TokenStore::new(file);
    let format = OutputFormat::from_json_flag(command.json);
    let done = match &command.verb {
        TokenVerb::New(flags) => create(&store, flags, format),
        TokenVerb::List => store.read().map(|file| list(&store, &file, format)),
        TokenVerb::Revoke(flags) => revoke(&store, flags.id, format),
    };
    done.unwrap_or_else(|error| failure_output(&error, format)).print()
}

fn create(
    store: &TokenStore,
    flags: &TokenNewFlags,
    format: OutputFormat,
) -> Result<VerbOutput, TokenStoreError> {
    let identity = CallerIdentity { tenant: flags.tenant, role: flags.role };
    let (secret, entry) = store.create_token(identity, flags.expires, flags.note.clone())?;
    let stdout = match format {
        OutputFormat::Human => format!("{}\n", secret.reveal()),
        OutputFormat::Json => {
            let mut answer = as_json(&entry);
            answer["token"] = json!(secret.reveal());
            answer["file"] = json!(store.path().to_string_lossy());
            format!("{answer:#}\n")
        }
    };
    let stderr = format!(
        "save the token now: it is not stored, only its hash is in {}\nclients send it as: Authorization: Bearer TOKEN\n",
        store.path().display()
    );
    Ok(VerbOutput { stdout, stderr, code: 0 })
}

fn revoke(
    store: &TokenStore,
    id: TokenId,
    format: OutputFormat,
) -> Result<VerbOutput, TokenStoreError> {
    store.revoke(id)?;
    let reply = match format {
        OutputFormat::Human => VerbOutput::message(&format!("{id} is revoked")),
        OutputFormat::Json => VerbOutput::json(&json!({ "ok": true, "id": id.to_string() }), 0),
    };
    Ok(reply)
}

fn list(store: &TokenStore, file: &TokenFile, format: OutputFormat) -> VerbOutput {
    let stdout = match format {
        OutputFormat::Human => format_tokens(file),
        OutputFormat::Json => {
            let tokens: Vec<Value> = file.entries().map(as_json).collect();
            format!("{:#}\n", json!({ "tokens": tokens }))
        }
    };
    let path = store.path().display();
    let mistakes = file.mistakes();
    let mut stderr: String =
        mistakes.map(|(line, why)| format!("{path}:{line}: ignored: {why}\n")).collect();
    if file.entries().next().is_none() {
        stderr += &format!("no tokens in {path}\n");
    }
    VerbOutput { stdout, stderr, code: 0 }
}

fn format_tokens(file: &TokenFile) -> String {
    let rows: Vec<Vec<String>> = file.entries().map(|entry| format_cells(entry).to_vec()).collect();
    let head = ["ID", "TENANT", "ROLE", "EXPIRES", "NOTE"].map(str::to_owned).to_vec();
    if rows.is_empty() {
        return String::new();
    }
    format_table_within(&[vec![head], rows].concat(), read_width(&std::io::stdout()))
}

fn format_cells(entry: &TokenEntry) -> [String; 5] {
    let CallerIdentity { tenant, role } = entry.identity;
    let (id, note) = match &entry.label {
        TokenLabel::Plain => {
            ("-".to_owned(), "stored as plain text; remove its line to revoke it".to_owned())
        }
        TokenLabel::Generated { id, note } => (id.to_string(), note.clone().unwrap_or_default()),
    };
    let expires = match entry.expires {
        None => "never".to_owned(),
        Some(at) if at <= UnixTime::now() => format!("{at} (expired)"),
        Some(at) => at.to_string(),
    };
    [id, tenant.to_string(), role.word().to_owned(), expires, note]
}

/// A field that does not apply is absent. Hashes and secrets are never included.
fn as_json(entry: &TokenEntry) -> Value {
    let CallerIdentity { tenant, role } = entry.identity;
    let mut answer = json!({ "tenant": tenant.name(), "role": role.word() });
    if let TokenLabel::Generated { id, note } = &entry.label {
        answer["id"] = json!(id.to_string());
        if let Some(note) = note {
            answer["note"] = json!(note);
        }
    }
    if let Some(expires) = entry.expires {
        answer["expires"] = json!(expires.to_string());
    }
    answer
}

fn failure_output(error: &TokenStoreError, format: OutputFormat) -> VerbOutput {
    let text = match error.source() {
        Some(cause) => format!("{error}: {cause}"),
        None => error.to_string(),
    };
    match format {
        OutputFormat::Human => VerbOutput::failure(&text),
        OutputFormat::Json => VerbOutput::json_failure(error.code(), &text),
    }
}

fn parse_role(text: &str) -> Result<CallerRole, String> {
    CallerRole::parse(text).ok_or_else(|| "roles are metrics, read-only, run and admin".to_owned())
}

fn parse_note(text: &str) -> Result<String, String> {
    let text = text.trim();
    let is_fit = !text.is_empty() && text.len() <= 200 && !text.contains(char::is_control);
    is_fit.then(|| text.to_owned()).ok_or_else(|| "give 1 to 200 bytes in one line".to_owned())
}

fn parse_expiry(text: &str) -> Result<UnixTime, String> {
    let now = UnixTime::now();
    let moment = parse_duration(text).map(|time| now.after(time)).or_else(|| text.parse().ok());
    moment.filter(|moment| *moment > now).ok_or_else(|| {
        "give a duration such as 30d, 12h or 90m, or a future time such as 2027-01-31T00:00:00Z"
            .to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_past_moment_is_not_an_expiry() {
        assert!(parse_expiry("1h").is_ok() && parse_expiry("9998-01-01T00:00:00Z").is_ok());
        for odd in ["0d", "2001-01-01T00:00:00Z", "tomorrow"] {
            assert!(parse_expiry(odd).unwrap_err().contains("30d"), "{odd}");
        }
    }

    #[test]
    fn a_list_is_a_table_without_hashes() {
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o700);
        let folder = tempfile::Builder::new().permissions(mode).tempdir().unwrap();
        let store = TokenStore::new(TokenFilePath::Default(folder.path().join("tokens")));
        let identity =
            CallerIdentity { tenant: TenantId::parse("ci").unwrap(), role: CallerRole::Read };
        let expires = "9998-01-01T00:00:00Z".parse().ok();
        let (_, entry) = store.create_token(identity, expires, Some("the note".into())).unwrap();
        let TokenLabel::Generated { id, .. } = &entry.label else { panic!("{entry:?}") };
        let file = TokenFile::parse(&format!("secret\nodd line\n{entry}\n"));
        let said = list(&store, &file, OutputFormat::Human);
        let table = format!(
            "ID        TENANT  ROLE       EXPIRES               NOTE\n\
             -         local   admin      never                 stored as plain text; remove its line to revoke it\n\
             {id}  ci      read-only  9998-01-01T00:00:00Z  the note\n"
        );
        assert_eq!(said.stdout, table);
        assert!(said.stderr.contains("tokens:2: ignored: "), "{}", said.stderr);
        let json = list(&store, &file, OutputFormat::Json).stdout;
        assert!(!json.contains("secret") && !json.contains("sha256"), "{json}");
    }
}
