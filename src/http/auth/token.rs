//! Bearer tokens: secrets, their hashes, and the lines of a token file.

use std::fmt;
use std::str::FromStr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use data_encoding::{HEXLOWER, HEXLOWER_PERMISSIVE};
use sha2::{Digest, Sha256};
use subtle::{Choice, ConstantTimeEq};
use thiserror::Error;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::ids::{TenantError, TenantId};
use crate::service::{CallerIdentity, CallerRole};

/// The prefix of every generated token, by which scanners and people recognise one.
const TOKEN_PREFIX: &str = "sy_";

/// The text of a token, which is handed out once and never logged.
pub struct TokenSecret(String);

impl TokenSecret {
    /// Generates a token with 256 random bits.
    ///
    /// # Errors
    /// When the system has no randomness.
    pub fn random() -> Result<Self, getrandom::Error> {
        let mut bits = [0; 32];
        getrandom::fill(&mut bits)?;
        Ok(Self(format!("{TOKEN_PREFIX}{}", URL_SAFE_NO_PAD.encode(bits))))
    }

    /// The text of the token, for the user who created it.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// The hash that is stored.
    #[must_use]
    pub fn hash(&self) -> TokenHash {
        TokenHash::from_token(&self.0)
    }
}

impl fmt::Debug for TokenSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenSecret(…)")
    }
}

/// The SHA-256 of a whole token.
///
/// A token has 256 random bits, so it cannot be guessed: neither a salt nor key stretching would
/// make it harder to find from its hash.
#[derive(Clone, Copy)]
pub struct TokenHash([u8; 32]);

impl TokenHash {
    /// Hashes the text of a token.
    #[must_use]
    pub fn from_token(token: &str) -> Self {
        Self(Sha256::digest(token.as_bytes()).into())
    }

    /// Compares two hashes in constant time.
    pub(super) fn ct_equals(&self, other: &Self) -> Choice {
        self.0.ct_eq(&other.0)
    }

    fn from_hex(text: &str) -> Option<Self> {
        HEXLOWER_PERMISSIVE.decode(text.as_bytes()).ok()?.try_into().ok().map(Self)
    }

    fn to_hex(self) -> String {
        HEXLOWER.encode(&self.0)
    }
}

impl PartialEq for TokenHash {
    fn eq(&self, other: &Self) -> bool {
        self.ct_equals(other).into()
    }
}

impl fmt::Debug for TokenHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenHash(…)")
    }
}

/// The id by which a token is listed and revoked: 8 hex digits that are unrelated to its text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TokenId(u32);

impl TokenId {
    /// Generates a random id.
    ///
    /// # Errors
    /// When the system has no randomness.
    pub fn random() -> Result<Self, getrandom::Error> {
        getrandom::u32().map(Self)
    }
}

impl FromStr for TokenId {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let is_hex = text.len() == 8 && text.bytes().all(|b| b.is_ascii_hexdigit());
        let number = if is_hex { u32::from_str_radix(text, 16).ok() } else { None };
        number.map(Self).ok_or("give the 8 hex digits that `shellyard token list` shows")
    }
}

impl fmt::Display for TokenId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x}", self.0)
    }
}

const HASH_PREFIX: &str = "sha256:";

/// The lines of a token file.
///
/// ```text
/// # comments and empty lines stay
/// a-secret-of-the-operator
/// sha256:<hex> tenant=ci role=run id=0a1b2c3d expires=2027-01-31T00:00:00Z note=the build host
/// ```
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TokenFile {
    lines: Vec<TokenLine>,
}

#[derive(Debug, Clone, PartialEq)]
struct TokenLine {
    text: String,
    content: TokenLineContent,
}

#[derive(Debug, Clone, PartialEq)]
enum TokenLineContent {
    Nothing,
    Token(TokenEntry),
    Mistake(TokenLineError),
}

/// An entry of the token file: a token that is accepted.
#[derive(Debug, Clone, PartialEq)]
pub struct TokenEntry {
    pub hash: TokenHash,
    pub identity: CallerIdentity,
    pub expires: Option<UnixTime>,
    pub label: TokenLabel,
}

/// The origin of a token, by which people recognise it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TokenLabel {
    /// A secret that the operator wrote into the file in plain text.
    Plain,
    /// A token that `shellyard token new` created.
    Generated { id: TokenId, note: Option<String> },
}

/// The mistake in a line of the token file.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum TokenLineError {
    /// A secret with white space, which can never be sent.
    #[error(
        "a token has no white space in it; write one token per line, or `sha256:HASH tenant=NAME role=ROLE id=ID`"
    )]
    WhiteSpace,
    #[error("`sha256:` must be followed by 64 hex digits")]
    Hash,
    #[error("`{word}` is not known; a token has tenant=, role=, id=, expires= and note=")]
    Word { word: String },
    #[error("`{key}=` is there twice")]
    Twice { key: &'static str },
    #[error("`{key}=` is missing")]
    Missing { key: &'static str },
    #[error(transparent)]
    Tenant(#[from] TenantError),
    #[error("`{given}` is not a role; roles are metrics, read-only, run and admin")]
    Role { given: String },
    #[error("`{given}` is not an id; ids are 8 hex digits")]
    Id { given: String },
    #[error("`{given}` is not a moment; write it as 2027-01-31T00:00:00Z")]
    Expires { given: String },
}

impl TokenFile {
    /// Parses all lines. A mistake in one line does not affect the others.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let line = |text: &str| TokenLine { text: text.to_owned(), content: content(text.trim()) };
        Self { lines: text.lines().map(line).collect() }
    }

    pub fn entries(&self) -> impl Iterator<Item = &TokenEntry> {
        self.lines.iter().filter_map(|line| match &line.content {
            TokenLineContent::Token(entry) => Some(entry),
            TokenLineContent::Nothing | TokenLineContent::Mistake(_) => None,
        })
    }

    /// The lines with a mistake, numbered from 1.
    pub fn mistakes(&self) -> impl Iterator<Item = (usize, &TokenLineError)> {
        self.lines.iter().zip(1..).filter_map(|(line, number)| match &line.content {
            TokenLineContent::Mistake(error) => Some((number, error)),
            TokenLineContent::Nothing | TokenLineContent::Token(_) => None,
        })
    }

    /// `true` if a generated token has this id.
    #[must_use]
    pub fn has_id(&self, wanted: TokenId) -> bool {
        self.lines.iter().any(|line| line.has_id(wanted))
    }

    /// Appends a generated token as the last line.
    pub fn add(&mut self, entry: TokenEntry) {
        self.lines
            .push(TokenLine { text: entry.to_string(), content: TokenLineContent::Token(entry) });
    }

    /// Removes the token with this id.
    pub fn remove(&mut self, unwanted: TokenId) {
        self.lines.retain(|line| !line.has_id(unwanted));
    }
}

impl TokenLine {
    fn has_id(&self, wanted: TokenId) -> bool {
        let TokenLineContent::Token(TokenEntry { label: TokenLabel::Generated { id, .. }, .. }) =
            &self.content
        else {
            return false;
        };
        *id == wanted
    }
}

impl fmt::Display for TokenFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.lines.iter().try_for_each(|line| writeln!(f, "{}", line.text))
    }
}

/// Formats the line of a generated token. A plain token is never written because its text is
/// unknown.
impl fmt::Display for TokenEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let CallerIdentity { tenant, role } = self.identity;
        write!(f, "{HASH_PREFIX}{} tenant={tenant} role={}", self.hash.to_hex(), role.word())?;
        let TokenLabel::Generated { id, note } = &self.label else { return Ok(()) };
        write!(f, " id={id}")?;
        if let Some(expires) = self.expires {
            write!(f, " expires={expires}")?;
        }
        note.as_ref().map_or(Ok(()), |note| write!(f, " note={note}"))
    }
}

fn content(line: &str) -> TokenLineContent {
    if line.is_empty() || line.starts_with('#') {
        return TokenLineContent::Nothing;
    }
    let entry = match line.strip_prefix(HASH_PREFIX) {
        Some(rest) => parse_hashed(rest),
        None => parse_plain(line),
    };
    entry.map_or_else(TokenLineContent::Mistake, TokenLineContent::Token)
}

fn parse_plain(secret: &str) -> Result<TokenEntry, TokenLineError> {
    if secret.contains(char::is_whitespace) {
        return Err(TokenLineError::WhiteSpace);
    }
    Ok(TokenEntry {
        hash: TokenHash::from_token(secret),
        identity: CallerIdentity::LOCAL,
        expires: None,
        label: TokenLabel::Plain,
    })
}

fn parse_hashed(rest: &str) -> Result<TokenEntry, TokenLineError> {
    let (hash, words) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
    let hash = TokenHash::from_hex(hash).ok_or(TokenLineError::Hash)?;
    let fields = TokenFields::read(words)?;
    let tenant = TenantId::parse(fields.tenant.ok_or(TokenLineError::Missing { key: "tenant" })?)?;
    let role = parse_role(fields.role.ok_or(TokenLineError::Missing { key: "role" })?)?;
    let id = fields.id.ok_or(TokenLineError::Missing { key: "id" })?;
    Ok(TokenEntry {
        hash,
        identity: CallerIdentity { tenant, role },
        expires: fields.expires.map(parse_time).transpose()?,
        label: TokenLabel::Generated {
            id: id.parse().map_err(|_| TokenLineError::Id { given: id.to_owned() })?,
            note: fields.note.map(str::to_owned),
        },
    })
}

#[derive(Default)]
struct TokenFields<'a> {
    tenant: Option<&'a str>,
    role: Option<&'a str>,
    id: Option<&'a str>,
    expires: Option<&'a str>,
    note: Option<&'a str>,
}

impl<'a> TokenFields<'a> {
    /// Parses the words of a line. A note takes the rest of the line; all other words stand before
    /// it in any order.
    fn read(mut words: &'a str) -> Result<Self, TokenLineError> {
        let mut fields = Self::default();
        loop {
            words = words.trim();
            if words.is_empty() {
                return Ok(fields);
            }
            if let Some(note) = words.strip_prefix("note=") {
                fields.note = Some(note.trim()).filter(|note| !note.is_empty());
                return Ok(fields);
            }
            let (word, rest) = words.split_once(char::is_whitespace).unwrap_or((words, ""));
            fields.take(word)?;
            words = rest;
        }
    }

    fn take(&mut self, word: &'a str) -> Result<(), TokenLineError> {
        let unknown = || TokenLineError::Word { word: word.chars().take(40).collect() };
        let (key, value) = word.split_once('=').ok_or_else(unknown)?;
        let (key, place) = match key {
            "tenant" => ("tenant", &mut self.tenant),
            "role" => ("role", &mut self.role),
            "id" => ("id", &mut self.id),
            "expires" => ("expires", &mut self.expires),
            _ => return Err(unknown()),
        };
        match place.replace(value) {
            None => Ok(()),
            Some(_) => Err(TokenLineError::Twice { key }),
        }
    }
}

fn parse_role(text: &str) -> Result<CallerRole, TokenLineError> {
    CallerRole::parse(text).ok_or_else(|| TokenLineError::Role { given: text.to_owned() })
}

fn parse_time(text: &str) -> Result<UnixTime, TokenLineError> {
    text.parse().map_err(|_| TokenLineError::Expires { given: text.to_owned() })
}

/// The last second of the year 9999, the latest time that RFC 3339 can express.
const MAX_SECONDS: i64 = 253_402_300_799;

/// A whole number of seconds since 1970, at most `MAX_SECONDS`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct UnixTime(i64);

impl UnixTime {
    /// The current time; a clock before 1970 reads as 1970.
    #[must_use]
    pub fn now() -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        Self::from_unix(since.as_secs())
    }

    /// Creates a time from seconds since 1970.
    #[must_use]
    pub fn from_unix(seconds: u64) -> Self {
        Self(i64::try_from(seconds).map_or(MAX_SECONDS, |seconds| seconds.min(MAX_SECONDS)))
    }

    /// Adds a duration, up to the latest possible time.
    #[must_use]
    pub fn after(self, time: Duration) -> Self {
        let seconds = i64::try_from(time.as_secs()).unwrap_or(MAX_SECONDS);
        Self(self.0.saturating_add(seconds).min(MAX_SECONDS))
    }

    /// The time from `now` until this time; zero if it has passed.
    #[must_use]
    pub fn remaining(self, now: Self) -> Duration {
        Duration::from_secs(u64::try_from(self.0 - now.0).unwrap_or(0))
    }
}

impl FromStr for UnixTime {
    type Err = time::error::Parse;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let moment = OffsetDateTime::parse(text, &Rfc3339)?;
        Ok(Self(moment.unix_timestamp().clamp(0, MAX_SECONDS)))
    }
}

impl fmt::Display for UnixTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let moment = OffsetDateTime::from_unix_timestamp(self.0).map_err(|_| fmt::Error)?;
        f.write_str(&moment.format(&Rfc3339).map_err(|_| fmt::Error)?)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_generated_token_is_long_unique_and_never_in_debug_output() {
        let [a, b] = [(); 2].map(|()| TokenSecret::random().unwrap());
        assert_ne!(a.reveal(), b.reveal());
        assert_eq!(a.reveal().len(), "sy_".len() + 43);
        let url_safe = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
        assert!(a.reveal().bytes().all(url_safe), "{}", a.reveal());
        assert!(!format!("{a:?} {:?}", a.hash()).contains(&a.reveal()[3..10]));
    }

    #[test]
    fn a_hash_is_that_of_the_whole_text() {
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(TokenHash::from_token("abc").to_hex(), abc);
        assert_eq!(TokenHash::from_hex(abc), Some(TokenHash::from_token("abc")));
        assert_ne!(TokenHash::from_token("abc"), TokenHash::from_token("abd"));
        for odd in ["", &abc[1..], &format!("{abc}00"), &abc.replace('b', "g"), &"é".repeat(32)] {
            assert_eq!(TokenHash::from_hex(odd), None, "{odd}");
        }
    }

    #[test]
    fn a_token_id_parses_as_it_was_written() {
        let id = TokenId::random().unwrap();
        assert_eq!(id.to_string().parse(), Ok(id));
        for odd in ["", "1", "123456789", "+1234567", "xyzxyzxy"] {
            assert!(odd.parse::<TokenId>().is_err(), "{odd}");
        }
    }

    const HASH: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

    fn only(line: &str) -> Result<TokenEntry, TokenLineError> {
        let file = TokenFile::parse(line);
        let mistake = file.mistakes().next().map(|(_, mistake)| mistake.clone());
        mistake.map_or_else(|| Ok(file.entries().next().unwrap().clone()), Err)
    }

    #[test]
    fn a_plain_secret_belongs_to_the_operator() {
        let entry = only("  it-token-5b1c  ").unwrap();
        assert_eq!(entry.hash, TokenHash::from_token("it-token-5b1c"));
        assert_eq!((entry.identity, entry.label), (CallerIdentity::LOCAL, TokenLabel::Plain));
    }

    #[test]
    fn a_generated_token_has_every_field_of_its_line() {
        let line = format!(
            "sha256:{HASH} role=read-only  id=0a1b2c3d tenant=ci expires=2027-01-31T02:00:00+02:00 note=the build host = ours"
        );
        let entry = only(&line).unwrap();
        assert_eq!(entry.hash, TokenHash::from_token("abc"));
        assert_eq!(
            entry.identity,
            CallerIdentity { tenant: TenantId::parse("ci").unwrap(), role: CallerRole::Read }
        );
        let written = format!(
            "sha256:{HASH} tenant=ci role=read-only id=0a1b2c3d expires=2027-01-31T00:00:00Z note=the build host = ours"
        );
        assert_eq!(entry.to_string(), written);
    }

    #[test]
    fn a_mistake_is_reported_with_its_line_and_the_other_lines_are_used() {
        let all = format!("sha256:{HASH} tenant=ci role=run id=0a1b2c3d");
        for (line, expected) in [
            ("two words".to_owned(), "white space"),
            ("sha256:abc tenant=ci".to_owned(), "64 hex digits"),
            ("sha256:".to_owned(), "64 hex digits"),
            (format!("sha256:{HASH}"), "`tenant=` is missing"),
            (format!("sha256:{HASH} tenant=ci id=0a1b2c3d"), "`role=` is missing"),
            (format!("sha256:{HASH} tenant=ci role=run"), "`id=` is missing"),
            (all.replace("ci", "a,b"), "cannot be a tenant's name"),
            (all.replace("run", "root"), "`root` is not a role"),
            (all.replace("0a1b2c3d", "1"), "`1` is not an id"),
            (format!("{all} expires=soon"), "`soon` is not a moment"),
            (format!("{all} role=admin"), "`role=` is there twice"),
            (format!("{all} colour=red"), "`colour=red` is not known"),
        ] {
            let file = TokenFile::parse(&format!("# one\nalpha\n{line}\nbeta"));
            let mistakes: Vec<_> = file.mistakes().collect();
            assert!(matches!(mistakes[..], [(3, _)]), "{line}: {mistakes:?}");
            assert!(mistakes[0].1.to_string().contains(expected), "{}", mistakes[0].1);
            assert_eq!(file.entries().count(), 2);
        }
    }

    fn any_entry() -> impl Strategy<Value = TokenEntry> {
        let role = prop::sample::select(CallerRole::WORDS.map(|(_, role)| role).to_vec());
        let note = prop::option::of("[^\\s\\p{C}]([^\\p{C}]{0,20}[^\\s\\p{C}])?");
        let expires = prop::option::of(any::<u64>().prop_map(UnixTime::from_unix));
        let name = "[a-z]{1,3}".prop_map(|name| TenantId::parse(&name).unwrap());
        (any::<u32>(), name, role, expires, note).prop_map(
            |(number, tenant, role, expires, note)| {
                let id = format!("{number:08x}").parse().unwrap();
                let hash = TokenHash::from_token(&number.to_string());
                TokenEntry {
                    hash,
                    identity: CallerIdentity { tenant, role },
                    expires,
                    label: TokenLabel::Generated { id, note },
                }
            },
        )
    }

    proptest! {
        #[test]
        fn a_written_token_file_parses_to_the_same_entries(
            before in "(#[a-z ]{0,9}\n|\n|[a-z]{1,9}\n|sha256:[a-z ]{0,9}\n){0,4}",
            entries in prop::collection::vec(any_entry(), 0..5),
        ) {
            let mut file = TokenFile::parse(&before);
            for entry in &entries {
                file.add(entry.clone());
            }
            let text = file.to_string();
            prop_assert!(text.starts_with(&before), "{text}");
            let again = TokenFile::parse(&text);
            prop_assert_eq!(&again, &file);
            prop_assert_eq!(again.entries().count(), TokenFile::parse(&before).entries().count() + entries.len());
        }

        #[test]
        fn every_text_survives_parsing_and_writing(text in any::<String>()) {
            let file = TokenFile::parse(&text);
            let reparsed = TokenFile::parse(&file.to_string());
            prop_assert_eq!(reparsed, file);
        }
    }

    #[test]
    fn a_time_is_written_in_utc_whatever_its_zone_was() {
        for (given, written) in [
            ("2027-01-31T10:00:00Z", "2027-01-31T10:00:00Z"),
            ("2027-01-31T10:00:00+02:00", "2027-01-31T08:00:00Z"),
            ("2027-01-31T10:00:00.999Z", "2027-01-31T10:00:00Z"),
        ] {
            assert_eq!(given.parse::<UnixTime>().unwrap().to_string(), written);
        }
        for odd in ["", "tomorrow", "2027-01-31", "2027-02-30T00:00:00Z", "2027-01-31T10:00:00"] {
            assert!(odd.parse::<UnixTime>().is_err(), "{odd}");
        }
    }

    #[test]
    fn no_time_is_beyond_what_rfc_3339_can_express() {
        let last = UnixTime::from_unix(u64::MAX);
        assert_eq!(last.to_string(), "9999-12-31T23:59:59Z");
        assert_eq!(UnixTime::now().after(Duration::MAX), last);
        assert_eq!(UnixTime::from_unix(5).remaining(UnixTime::from_unix(7)), Duration::ZERO);
    }
}
