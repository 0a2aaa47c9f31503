//! Detects secrets: in a variable by its name, in text by its form. Pure.

use std::ops::Range;
use std::sync::{LazyLock, OnceLock};

use regex::bytes::{Captures, Regex, RegexSet};

/// Prefixes of names that belong to vaults and cloud accounts.
const FAMILIES: [&str; 4] = ["AWS_", "AZURE_", "VAULT_", "OP_SESSION"];

/// A name that contains one of these is the name of a secret.
const PARTS: [&str; 21] = [
    "KEY",
    "SECRET",
    "TOKEN",
    "PASSW",
    "PASSPHRASE",
    "PASSFILE",
    "CRED",
    "AUTH",
    "BEARER",
    "COOKIE",
    "WEBHOOK",
    "CONNECTION_STRING",
    "CONN_STR",
    // URLs that usually contain a password.
    "DATABASE_UR",
    "POSTGRES_UR",
    "MYSQL_UR",
    "MONGO_UR",
    "MONGODB_UR",
    "REDIS_UR",
    "AMQP_UR",
    "BROKER_UR",
];

/// A name that has one of these as a word, between underscores, is the name of a secret.
const WORDS: [&str; 5] = ["PASS", "PWD", "PAT", "DSN", "JWT"];

/// Words that only look like the name of a secret. They are removed before the check.
const HARMLESS: [&str; 11] = [
    "KEYBOARD",
    "KEYMAP",
    "KEYCODE",
    "KEYWORD",
    "HOTKEY",
    "MONKEY",
    "MAX_TOKENS",
    "TOKENIZER",
    "AUTHOR_",
    "AUTHORS",
    // The path of a file, which a job of the same user can read anyway.
    "XAUTHORITY",
];

/// Names that look like those of secrets and never are.
const PLAIN: [&str; 12] = [
    "PWD",
    // The path of a socket: other rules decide which jobs may use it.
    "SSH_AUTH_SOCK",
    "AWS_PROFILE",
    "AWS_DEFAULT_PROFILE",
    "AWS_REGION",
    "AWS_DEFAULT_REGION",
    "AWS_DEFAULT_OUTPUT",
    "AWS_CONFIG_FILE",
    "AWS_CA_BUNDLE",
    "AWS_PAGER",
    "AWS_SDK_LOAD_CONFIG",
    "AZURE_CONFIG_DIR",
];

/// `true` if a variable of this name is likely to hold a secret, whatever its value.
///
/// Case does not matter. In doubt it is a secret: an administrator who needs the variable can name
/// it.
#[must_use]
pub fn is_secret_name(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    if PLAIN.contains(&name.as_str()) {
        return false;
    }
    // Replaced by a space, so that the text around the word does not form a new word.
    let bare = HARMLESS.iter().fold(name, |name, word| name.replace(word, " "));
    FAMILIES.iter().any(|family| bare.starts_with(family))
        || PARTS.iter().any(|part| bare.contains(part))
        || bare.split(|c: char| !c.is_ascii_alphanumeric()).any(|word| WORDS.contains(&word))
}

/// A textual form that secrets have.
#[derive(Debug)]
pub(crate) struct SecretForm {
    /// The name of the form, for messages.
    pub(crate) kind: &'static str,
    /// The pattern, matched within one line. If it has a group `secret`, only that group is the
    /// secret.
    pub(crate) pattern: &'static str,
    /// Finds the secret by a match of the pattern. Without this function the match is the secret.
    find: Option<FindSecret>,
}

/// Finds the range of the secret from a line and the range of a match.
type FindSecret = fn(&[u8], Range<usize>) -> Option<Range<usize>>;

/// The name of the form for the beginning of a private key. The rest of the key is on the following
/// lines, or, escaped, on the same line.
pub(crate) const PRIVATE_KEY: &str = "private key";

/// All known forms. Each begins with fixed text, so that a search skips most lines, and matches
/// bytes: Unicode word boundaries cost a multiple.
pub(crate) const FORMS: [SecretForm; 38] = [
    form(
        PRIVATE_KEY,
        r"(?-u)-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----(?:.*?-----END (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----|.*)",
    ),
    form("password in a URL", r#"(?-u)://[^\s/?#:@"'<>]*:(?P<secret>[^\s/?#@"'<>]+)@"#),
    form(
        "authorization header",
        r#"(?-u)(?i:authorization)\\?["']?[ \t]*[:=][ \t]*\\?["']?(?i:basic|bearer|token|apikey) +(?P<secret>[A-Za-z0-9._~+/=-]{8,})"#,
    ),
    // `shellyard token new` prints 256 bits in base64.
    form("Shellyard token", r"(?-u)\bsy_[A-Za-z0-9_-]{43}"),
    form("GitHub token", r"(?-u)\bgh[oprsu]_[A-Za-z0-9]{30,}"),
    form("GitHub token", r"(?-u)\bgithub_pat_[A-Za-z0-9_]{22,}"),
    form("GitLab token", r"(?-u)\bgl(?:pat|dt|rt|cbt|ptt|ft|soat|agent)-[A-Za-z0-9_.-]{20,}"),
    form("AWS key id", r"(?-u)\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"),
    form("Slack token", r"(?-u)\bxox[abeoprs]-[A-Za-z0-9-]{10,}"),
    form("Slack token", r"(?-u)\bxapp-[0-9]-[A-Za-z0-9-]{10,}"),
    form("Slack webhook", r"(?-u)hooks\.slack\.com/services/(?P<secret>[A-Za-z0-9/]{20,})"),
    form("Discord webhook", r"(?-u)/api/webhooks/[0-9]+/(?P<secret>[A-Za-z0-9_-]{40,})"),
    form("API key", r"(?-u)\bsk-(?:proj|svcacct|admin|ant|or|lf)-[A-Za-z0-9_-]{16,}"),
    form("API key", r"(?-u)\bsk-[A-Za-z0-9]{20,}"),
    form("API key", r"(?-u)\b(?:gsk_|xai-|pplx-)[A-Za-z0-9]{32,}"),
    form("Stripe key", r"(?-u)\b[rs]k_(?:live|test)_[A-Za-z0-9]{16,}"),
    form("Stripe webhook secret", r"(?-u)\bwhsec_[A-Za-z0-9+/=]{24,}"),
    form("Google API key", r"(?-u)\bAIza[A-Za-z0-9_-]{35}"),
    form("Google access token", r"(?-u)\bya29\.[A-Za-z0-9_-]{20,}"),
    form("Google client secret", r"(?-u)\bGOCSPX-[A-Za-z0-9_-]{20,}"),
    form("npm token", r"(?-u)\bnpm_[A-Za-z0-9]{36}"),
    form("PyPI token", r"(?-u)\bpypi-AgEI[A-Za-z0-9_-]{50,}"),
    form("Hugging Face token", r"(?-u)\bhf_[A-Za-z0-9]{30,}"),
    form("SendGrid key", r"(?-u)\bSG\.[A-Za-z0-9_-]{22}\.[A-Za-z0-9_-]{43}"),
    form("JSON web token", r"(?-u)\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}"),
    form("Vault token", r"(?-u)\bhv[brs]\.[A-Za-z0-9_-]{20,}"),
    form("DigitalOcean token", r"(?-u)\bdo[opr]_v1_[a-f0-9]{40,}"),
    form("Docker token", r"(?-u)\bdckr_(?:pat|oat)_[A-Za-z0-9_-]{20,}"),
    form("Twilio key", r"(?-u)\b(?:SK|AC)[0-9a-f]{32}\b"),
    form("Mailgun key", r"(?-u)\bkey-[0-9a-f]{32}\b"),
    form("Shopify token", r"(?-u)\bshp(?:at|ca|pa|ss)_[A-Fa-f0-9]{32}"),
    form("Atlassian token", r"(?-u)\bATATT[A-Za-z0-9_=-]{20,}"),
    form(
        "service token",
        r"(?-u)\b(?:lin_api_|lin_oauth_|glsa_|figd_|sbp_|sntrys_|dapi|PMAK-|NRAK-|AGE-SECRET-KEY-1|pscale_tkn_|pul-)[A-Za-z0-9_=+/.-]{24,}",
    ),
    form_with("Telegram token", r"(?-u):AA[A-Za-z0-9_-]{33}", bot_secret),
    form("password file entry", r"(?-u):(?:543[0-9]|6432|\*):[^\s:]+:[^\s:]+:(?P<secret>[^\s:]+)"),
    form(
        "password of a command",
        r#"(?-u)(?:curl [\t -%'-:<-{}~]*?(?:-u|--user|-U|--proxy-user)[ =]?["']?[^\s:"'\x24]+:|sshpass -p ?["']?|(?:mysql|mysqldump|mysqladmin|mariadb) (?:[\t -%'-:<-{}~]* )?-p["']?)(?P<secret>[^\s"'\x24|;&-][^\s"']*)"#,
    ),
    form_with(
        "value of a secret's name",
        r#"(?-u)(?i:passw(?:or)?d|passphrase|pwd|api[_-]?key|(?:auth|access|refresh|private|security|vault|session)[_-]?token|client[_-]?secret|secret[_-]?(?:access[_-]?)?key|(?:account|sharedaccess)key)\\?["']?[ \t]*(?::=|=>|[:=])[ \t]*"#,
        assigned_secret,
    ),
    form_with("password in words", r"(?-u)(?:password|passwd)[ \t]+", spaced_secret),
];

const fn form(kind: &'static str, pattern: &'static str) -> SecretForm {
    SecretForm { kind, pattern, find: None }
}

const fn form_with(kind: &'static str, pattern: &'static str, find: FindSecret) -> SecretForm {
    SecretForm { kind, pattern, find: Some(find) }
}

static ANY_FORM: LazyLock<Option<RegexSet>> =
    LazyLock::new(|| RegexSet::new(FORMS.iter().map(|form| form.pattern)).ok());

/// The set of all forms, by index in [`FORMS`]; `None` if our own patterns do not compile. Compiled
/// at the first call.
pub(crate) fn any_form() -> Option<&'static RegexSet> {
    ANY_FORM.as_ref()
}

/// Finds the secrets of one form in a line; `None` if our own pattern does not compile. Most forms
/// never occur, so each is compiled at its first use.
pub(crate) fn find_secrets(index: usize, line: &[u8]) -> Option<Vec<Range<usize>>> {
    static COMPILED: [OnceLock<Option<Regex>>; FORMS.len()] =
        [const { OnceLock::new() }; FORMS.len()];
    let form = &FORMS[index];
    let regex = COMPILED[index].get_or_init(|| Regex::new(form.pattern).ok()).as_ref()?;
    Some(match form.find {
        Some(find) => regex.find_iter(line).filter_map(|found| find(line, found.range())).collect(),
        None => {
            let matches = regex.captures_iter(line);
            let whole = |found: Captures<'_>| {
                found.name("secret").or_else(|| found.get(0)).map(|it| it.range())
            };
            matches.filter_map(whole).collect()
        }
    })
}

/// The name of the form of the secret in a value, for messages; never the value itself.
///
/// Takes linear time, for any bytes.
#[must_use]
pub fn secret_in_value(value: &[u8]) -> Option<&'static str> {
    // Patterns that do not compile would find nothing, so every value counts as a secret.
    let Some(any) = any_form() else { return Some("unchecked value") };
    let is_there =
        |index: &usize| find_secrets(*index, value).is_none_or(|found| !found.is_empty());
    let found = any.matches(value).into_iter().find(is_there)?;
    FORMS.get(found).map(|form| form.kind)
}

// Values after a name such as `password=`. Pure.
//
// Such a name alone proves little: most lines that contain one are source code, help texts and
// messages. So the value decides, together with the way in which it is written. In doubt a password
// is masked if it is written like a setting, and shown if it is written like code.

/// The shortest key, token or secret that is masked because of its name alone.
const KEY_BYTES: usize = 16;
/// The shortest password after a colon, or after an equals sign with blanks around it.
const PASSWORD_BYTES: usize = 6;
/// The shortest password in quotes.
const QUOTED_BYTES: usize = 4;

/// Words in the place of a password that are not passwords.
const PLACEHOLDERS: [&str; 28] = [
    "any",
    "bool",
    "char",
    "empty",
    "false",
    "hidden",
    "int",
    "key",
    "nil",
    "no",
    "none",
    "null",
    "optional",
    "pass",
    "passwd",
    "password",
    "prompt",
    "pwd",
    "required",
    "secret",
    "self",
    "str",
    "string",
    "text",
    "token",
    "true",
    "undefined",
    "value",
];

/// The kind of value that the name before it announces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ValueKind {
    Password,
    /// A key, token or secret: long, with letters and digits.
    Key,
}

/// The way in which a value is assigned to its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AssignmentStyle {
    /// `name=value`, without blanks.
    Equals,
    /// `name = value`, with blanks.
    SpacedEquals,
    /// `name: value`, as in YAML or a header.
    Colon,
    /// `--name value`, as on a command line.
    Option,
}

/// A value and the text around it.
#[derive(Debug)]
struct AssignedValue<'l> {
    text: &'l [u8],
    is_quoted: bool,
    /// The byte after the value and its quotes; `None` at the end of the line.
    after: Option<u8>,
    at: Range<usize>,
}

/// The secret after a name and a separator that were found in a line.
fn assigned_secret(line: &[u8], found: Range<usize>) -> Option<Range<usize>> {
    let head = line.get(found.clone())?;
    let end = head.iter().rposition(|byte| byte.is_ascii_alphanumeric())? + 1;
    let (name, separator) = head.split_at(end);
    let style = match separator.iter().find(|byte| matches!(byte, b'=' | b':')) {
        Some(b':') if !separator.contains(&b'=') => AssignmentStyle::Colon,
        _ if separator.contains(&b' ') || separator.contains(&b'\t') => {
            AssignmentStyle::SpacedEquals
        }
        _ => AssignmentStyle::Equals,
    };
    let value = value_at(line, found.end)?;
    is_secret(&value, value_kind(name), style).then_some(value.at)
}

/// The secret after `password` and a blank: the value of an option, or an entry of `.netrc`.
fn spaced_secret(line: &[u8], found: Range<usize>) -> Option<Range<usize>> {
    let before = line.get(..found.start)?;
    let value = value_at(line, found.end)?;
    let words: Vec<&[u8]> =
        before.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty()).collect();
    let is_entry = match words.as_slice() {
        [.., b"login" | b"account", _] => true,
        [] => value.after.is_none() && has_digit(value.text),
        _ => false,
    };
    let is_option =
        before.ends_with(b"--") && is_secret(&value, ValueKind::Password, AssignmentStyle::Option);
    (is_entry || is_option).then_some(value.at)
}

/// The secret part of a Telegram token, after the number of its bot.
fn bot_secret(line: &[u8], found: Range<usize>) -> Option<Range<usize>> {
    let before = line.get(..found.start)?;
    let digits = before.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
    (8..=10).contains(&digits).then_some(found.start + 1..found.end)
}

fn value_kind(name: &[u8]) -> ValueKind {
    let name = name.to_ascii_lowercase();
    let is_password =
        [b"pass".as_slice(), b"pwd"].iter().any(|it| memchr::memmem::find(&name, it).is_some());
    if is_password { ValueKind::Password } else { ValueKind::Key }
}

/// The value that begins at a position of a line.
fn value_at(line: &[u8], start: usize) -> Option<AssignedValue<'_>> {
    let rest = line.get(start..)?;
    let rest = rest.split(|byte| matches!(byte, b'\n' | b'\r')).next()?;
    // Skips the prefix of `\"value\"` inside a JSON text, and of `b"value"` in Python.
    let skipped = rest.iter().take_while(|byte| matches!(byte, b'\\' | b'b' | b'r')).count();
    if let Some(quote @ (b'"' | b'\'' | b'`')) = rest.get(skipped) {
        let inner = rest.get(skipped + 1..)?;
        let length = inner.iter().position(|byte| byte == quote)?;
        let text = inner.get(..length)?;
        let text = text.strip_suffix(b"\\").unwrap_or(text);
        let at = start + skipped + 1;
        let after = inner.get(length + 1).copied();
        return Some(AssignedValue { text, is_quoted: true, after, at: at..at + text.len() });
    }
    let ends = |byte: &u8| byte.is_ascii_whitespace() || b"\"'`,;&|()<>{}[]".contains(byte);
    let length = rest.iter().position(ends).unwrap_or(rest.len());
    let text = rest.get(..length)?;
    let at = start..start + text.len();
    Some(AssignedValue { text, is_quoted: false, after: rest.get(text.len()).copied(), at })
}

fn is_secret(value: &AssignedValue<'_>, named: ValueKind, style: AssignmentStyle) -> bool {
    let text = value.text;
    let is_whole = !text.iter().any(u8::is_ascii_whitespace);
    is_whole
        && !is_placeholder(text)
        && (value.is_quoted || !is_code(value))
        && match named {
            ValueKind::Key => is_key(text),
            ValueKind::Password => is_password(value, style),
        }
}

/// `true` for a key: long, with letters and digits, and not a word that only names a key.
fn is_key(text: &[u8]) -> bool {
    let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || b"+/=_.~%-".contains(byte);
    text.len() >= KEY_BYTES
        && text.iter().all(is_part)
        && has_digit(text)
        && text.iter().any(u8::is_ascii_alphabetic)
        && !has_word(text, &["key", "token", "secret", "env"])
}

fn is_password(value: &AssignedValue<'_>, style: AssignmentStyle) -> bool {
    let text = value.text;
    let is_word = text.iter().all(|byte| byte.is_ascii_alphabetic() || b"_-.".contains(byte));
    let is_last = value.after.is_none_or(|byte| byte.is_ascii_whitespace());
    // A path only tells where a password is stored.
    if text.starts_with(b"/") || text.starts_with(b"./") || text.starts_with(b"~/") {
        return false;
    }
    match (value.is_quoted, style) {
        (
            true,
            AssignmentStyle::Equals | AssignmentStyle::SpacedEquals | AssignmentStyle::Option,
        ) => text.len() >= QUOTED_BYTES,
        (true, AssignmentStyle::Colon) => text.len() >= QUOTED_BYTES && !is_word,
        // An argument of a call is followed by `,` or `)`, a setting by the end of the line or a
        // blank.
        (false, AssignmentStyle::Equals) => !is_word || !matches!(value.after, Some(b',' | b')')),
        (false, AssignmentStyle::SpacedEquals) => {
            text.len() >= PASSWORD_BYTES && has_digit(text) && value.after.is_none()
        }
        (false, AssignmentStyle::Colon) => {
            text.len() >= PASSWORD_BYTES && has_digit(text) && is_last
        }
        (false, AssignmentStyle::Option) => text.len() >= QUOTED_BYTES && !is_word,
    }
}

fn has_digit(text: &[u8]) -> bool {
    text.iter().any(u8::is_ascii_digit)
}

/// `true` for a word that stands for a value, a value that is masked already, and a variable inside
/// quotes.
fn is_placeholder(text: &[u8]) -> bool {
    let Some((first, rest)) = text.split_first() else { return true };
    let word = String::from_utf8_lossy(text).to_ascii_lowercase();
    rest.iter().all(|byte| byte == first)
        || b"$%{<[(*&=".contains(first)
        || PLACEHOLDERS.contains(&word.as_str())
}

/// `true` for code instead of a value: a call, a field, or a variable that is named after its
/// content.
fn is_code(value: &AssignedValue<'_>) -> bool {
    let text = value.text;
    let in_name = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    let is_name = |part: &[u8]| {
        part.iter().all(in_name) && part.first().is_some_and(|byte| !byte.is_ascii_digit())
    };
    let is_path = text.contains(&b'.') && text.split(|byte| *byte == b'.').all(is_name);
    matches!(value.after, Some(b'(' | b'[' | b'{' | b'<'))
        || text.starts_with(b"-")
        || is_path
        || (is_name(text) && has_word(text, &["password", "passwd", "pwd", "passphrase"]))
        || text.ends_with(b"Password")
}

/// `true` if one of the words of a name is among these: then it names a secret, and is not one.
fn has_word(text: &[u8], words: &[&str]) -> bool {
    let text = String::from_utf8_lossy(text).to_ascii_lowercase();
    text.split(['_', '-', '.']).any(|part| words.contains(&part))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_of_secrets_are_recognised() {
        for name in [
            "API_KEY",
            "OPENAI_API_KEY",
            "apikey",
            "STRIPE_SECRET",
            "GITHUB_TOKEN",
            "GITHUB_ACTIONS_RUNTIME_TOKEN",
            "NPM_TOKEN",
            "NODE_AUTH_TOKEN",
            "TOKEN",
            "PGPASSWORD",
            "PGPASSFILE",
            "MYSQL_PWD",
            "DB_PASS",
            "db_passwd",
            "GPG_PASSPHRASE",
            "GOOGLE_APPLICATION_CREDENTIALS",
            "CREDS",
            "AUTHORIZATION",
            "AUTHOR_TOKEN",
            "GH_PAT",
            "SENTRY_DSN",
            "DATABASE_URL",
            "REDIS_URL",
            "MONGODB_URI",
            "AWS_ACCESS_KEY_ID",
            "AWS_SESSION_X",
            "AZURE_CLIENT_ID",
            "AZURE_STORAGE_CONNECTION_STRING",
            "SLACK_WEBHOOK",
            "KEYBOARD_KEY",
        ] {
            assert!(is_secret_name(name), "{name}");
        }
    }

    #[test]
    fn harmless_names_pass() {
        for name in [
            "PATH",
            "HOME",
            "PWD",
            "OLDPWD",
            "KEYBOARD",
            "XKB_KEYMAP",
            "HOTKEYS_OFF",
            "GIT_AUTHOR_NAME",
            "CARGO_PKG_AUTHORS",
            "XAUTHORITY",
            "TOKENIZERS_PARALLELISM",
            "MAX_TOKENS",
            "GITHUB_SHA",
            "COMPASS",
            "PATTERN",
            "DISPLAY",
            "XDG_SESSION_ID",
            "DAWS_X",
            "AWS_PROFILE",
            "AWS_REGION",
            "SSH_AUTH_SOCK",
            "KUBECONFIG",
            "DOCKER_HOST",
            "npm_config_registry",
            "",
            "é",
        ] {
            assert!(!is_secret_name(name), "{name}");
        }
    }

    /// Builds a secret at run time, so that no scanner takes this file for a leak.
    fn secret(prefix: &str, letter: &str, length: usize) -> String {
        format!("{prefix}{}", letter.repeat(length))
    }

    #[test]
    fn values_of_secrets_are_recognised() {
        let jwt = secret("eyJ", "a", 20);
        for (value, kind) in [
            ("-----BEGIN PRIVATE KEY-----\nMIIE\n-----END PRIVATE KEY-----\n".into(), PRIVATE_KEY),
            ("-----BEGIN OPENSSH PRIVATE KEY-----\nb3Bl".into(), PRIVATE_KEY),
            ("-----BEGIN PGP PRIVATE KEY BLOCK-----".into(), PRIVATE_KEY),
            (secret("ghp_", "a1", 18), "GitHub token"),
            (secret("x=gho_", "b", 36), "GitHub token"),
            (secret("ghs_", "c", 40), "GitHub token"),
            (secret("github_pat_", "A_", 20), "GitHub token"),
            (secret("glpat-", "x", 20), "GitLab token"),
            (secret("AKIA", "Q", 16), "AWS key id"),
            (secret("ASIA", "7", 16), "AWS key id"),
            (secret("xoxb-", "1", 12), "Slack token"),
            (secret("sk-", "z", 24), "API key"),
            (secret("sk-ant-", "z", 24), "API key"),
            (secret("sk_live_", "9", 24), "Stripe key"),
            (secret("AIza", "y", 35), "Google API key"),
            (format!("{jwt}.{jwt}.{jwt}"), "JSON web token"),
            ("postgres://me:pw@db/x".into(), "password in a URL"),
            ("http://:pw@proxy:3128".into(), "password in a URL"),
            ("Authorization: Bearer abcdefgh12".into(), "authorization header"),
        ] {
            assert_eq!(secret_in_value(value.as_bytes()), Some(kind), "{value}");
        }
    }

    #[test]
    fn harmless_values_pass() {
        for value in [
            "",
            "/usr/bin:/bin",
            "http://proxy:3128",
            "http://proxy:3128/@scope/x",
            "https://me@host/x",
            "-----BEGIN CERTIFICATE-----\nMIIE",
            "-----BEGIN PUBLIC KEY-----",
            "sk-folding-cube-container-big",
            "task-aaaaaaaaaaaaaaaaaaaaaaaa",
            "AKIA",
            "eyJhbGciOi.x.y",
            "ghp_short",
        ] {
            assert_eq!(secret_in_value(value.as_bytes()), None, "{value}");
        }
        assert_eq!(secret_in_value(b"\xff\xfe\0"), None);
    }

    proptest! {
        #[test]
        fn any_name_and_value_can_be_checked(name in ".*", value in prop::collection::vec(any::<u8>(), 0..500)) {
            let secret = name + "_SECRET";
            prop_assert!(is_secret_name(&secret));
            prop_assert_ne!(secret_in_value(&value), Some("unchecked value"));
        }

        #[test]
        fn text_around_a_secret_does_not_hide_it(before in "[ -~]*[ =:\"]", after in "[ ,;\"][ -~]*") {
            let text = format!("{before}{}{after}", secret("ghp_", "a", 36));
            prop_assert!(secret_in_value(text.as_bytes()).is_some());
        }
    }
}
