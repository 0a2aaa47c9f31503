//! What is a secret: a variable by its name, a text by its form. Pure.

use std::ops::Range;
use std::sync::{LazyLock, OnceLock};

use regex::bytes::{Captures, Regex, RegexSet};

use super::assignments::{assigned_secret, bot_secret, spaced_secret};

/// Whole families of names that belong to vaults and cloud accounts.
const FAMILIES: [&str; 4] = ["AWS_", "AZURE_", "VAULT_", "OP_SESSION"];

/// A name that holds one of these, wherever, is a secret's.
const PARTS: [&str; 21] = [
    "KEY",
    "SECRET",
    "TOKEN",
    "PASSW",
    "PASSPHRASE",
    "PASSFILE",
    "CRED",
    // `SSH_AUTH_SOCK` too: it is no secret, but whoever has it can log in elsewhere.
    "AUTH",
    "BEARER",
    "COOKIE",
    "WEBHOOK",
    "CONNECTION_STRING",
    "CONN_STR",
    // Addresses that customarily hold a password.
    "DATABASE_UR",
    "POSTGRES_UR",
    "MYSQL_UR",
    "MONGO_UR",
    "MONGODB_UR",
    "REDIS_UR",
    "AMQP_UR",
    "BROKER_UR",
];

/// A name that has one of these as a word, between underscores, is a secret's.
const WORDS: [&str; 5] = ["PASS", "PWD", "PAT", "DSN", "JWT"];

/// Words that only sound like one: they are cut out before the others are looked for.
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

/// Whether a variable of this name is likely to hold a secret, whatever its value.
///
/// Letters count without their case. In doubt it is one: an administrator who needs the variable
/// can name it.
#[must_use]
pub fn is_secret_name(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    if name == "PWD" {
        return false;
    }
    // A space, so that what stood around the word does not become a new one.
    let bare = HARMLESS.iter().fold(name, |name, word| name.replace(word, " "));
    FAMILIES.iter().any(|family| bare.starts_with(family))
        || PARTS.iter().any(|part| bare.contains(part))
        || bare.split(|c: char| !c.is_ascii_alphanumeric()).any(|word| WORDS.contains(&word))
}

/// A form that secrets come in.
#[derive(Debug)]
pub(super) struct Form {
    /// What it is, in words that can be shown.
    pub(super) kind: &'static str,
    /// Matches within one line. Where there is a group `secret`, only that is the secret.
    pub(super) pattern: &'static str,
    /// Finds the secret in a line by a match of the pattern, if there is one; without it the match
    /// is the secret.
    part: Option<Part>,
}

/// From a line and the place of a match to the place of the secret.
type Part = fn(&[u8], Range<usize>) -> Option<Range<usize>>;

/// Where a private key begins. The rest of it is on the lines after this one, or, escaped, on the
/// same line.
pub(super) const PRIVATE_KEY: &str = "private key";

/// Every form that is known. Each begins with fixed text, so that a search skips most lines, and is
/// about bytes: the word boundaries of Unicode cost a multiple.
pub(super) const FORMS: [Form; 38] = [
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
    part("Telegram token", r"(?-u):AA[A-Za-z0-9_-]{33}", bot_secret),
    form("password file entry", r"(?-u):(?:543[0-9]|6432|\*):[^\s:]+:[^\s:]+:(?P<secret>[^\s:]+)"),
    form(
        "password of a command",
        r#"(?-u)(?:curl [\t -%'-:<-{}~]*?(?:-u|--user|-U|--proxy-user)[ =]?["']?[^\s:"'\x24]+:|sshpass -p ?["']?|(?:mysql|mysqldump|mysqladmin|mariadb) (?:[\t -%'-:<-{}~]* )?-p["']?)(?P<secret>[^\s"'\x24|;&-][^\s"']*)"#,
    ),
    part(
        "value of a secret's name",
        r#"(?-u)(?i:passw(?:or)?d|passphrase|pwd|api[_-]?key|(?:auth|access|refresh|private|security|vault|session)[_-]?token|client[_-]?secret|secret[_-]?(?:access[_-]?)?key|(?:account|sharedaccess)key)\\?["']?[ \t]*(?::=|=>|[:=])[ \t]*"#,
        assigned_secret,
    ),
    part("password in words", r"(?-u)(?:password|passwd)[ \t]+", spaced_secret),
];

const fn form(kind: &'static str, pattern: &'static str) -> Form {
    Form { kind, pattern, part: None }
}

const fn part(kind: &'static str, pattern: &'static str, part: Part) -> Form {
    Form { kind, pattern, part: Some(part) }
}

static ANY_FORM: LazyLock<Option<RegexSet>> =
    LazyLock::new(|| RegexSet::new(FORMS.iter().map(|form| form.pattern)).ok());

/// Matches where any form is, by its place in [`FORMS`]; nothing if our own patterns cannot be read.
/// Compiled at the first call.
pub(super) fn any_form() -> Option<&'static RegexSet> {
    ANY_FORM.as_ref()
}

/// Finds the secrets of one form in a line; `None` if our own pattern cannot be read. Most forms
/// are never met: each is compiled when it is, once.
pub(super) fn secrets_of(index: usize, line: &[u8]) -> Option<Vec<Range<usize>>> {
    static COMPILED: [OnceLock<Option<Regex>>; FORMS.len()] =
        [const { OnceLock::new() }; FORMS.len()];
    let form = &FORMS[index];
    let regex = COMPILED[index].get_or_init(|| Regex::new(form.pattern).ok()).as_ref()?;
    Some(match form.part {
        Some(part) => regex.find_iter(line).filter_map(|found| part(line, found.range())).collect(),
        None => {
            let matches = regex.captures_iter(line);
            let whole = |found: Captures<'_>| {
                found.name("secret").or_else(|| found.get(0)).map(|it| it.range())
            };
            matches.filter_map(whole).collect()
        }
    })
}

/// What secret a value holds, in words that can be shown; never the value itself.
///
/// Linear in the value, for any bytes.
#[must_use]
pub fn secret_in_value(value: &[u8]) -> Option<&'static str> {
    // Patterns that could not be read would find nothing: then everything is a secret.
    let Some(any) = any_form() else { return Some("unchecked value") };
    let is_there = |index: &usize| secrets_of(*index, value).is_none_or(|found| !found.is_empty());
    let found = any.matches(value).into_iter().find(is_there)?;
    FORMS.get(found).map(|form| form.kind)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_of_secrets_are_known() {
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
            "SSH_AUTH_SOCK",
            "GH_PAT",
            "SENTRY_DSN",
            "DATABASE_URL",
            "REDIS_URL",
            "MONGODB_URI",
            "AWS_PROFILE",
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
            "",
            "é",
        ] {
            assert!(!is_secret_name(name), "{name}");
        }
    }

    /// Put together here, so that no scanner takes this file for a leak.
    fn secret(prefix: &str, letter: &str, length: usize) -> String {
        format!("{prefix}{}", letter.repeat(length))
    }

    #[test]
    fn values_of_secrets_are_known() {
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
        fn anything_may_be_looked_at(name in ".*", value in prop::collection::vec(any::<u8>(), 0..500)) {
            let secret = name + "_SECRET";
            prop_assert!(is_secret_name(&secret));
            prop_assert_ne!(secret_in_value(&value), Some("unchecked value"));
        }

        #[test]
        fn what_stands_around_a_secret_does_not_hide_it(before in "[ -~]*[ =:\"]", after in "[ ,;\"][ -~]*") {
            let text = format!("{before}{}{after}", secret("ghp_", "a", 36));
            prop_assert!(secret_in_value(text.as_bytes()).is_some());
        }
    }
}
