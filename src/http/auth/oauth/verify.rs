//! Whether an access token holds, and what it stands for. No keys are fetched here.

use jsonwebtoken::errors::{Error, ErrorKind};
use jsonwebtoken::{Algorithm, DecodingKey, Header, Validation, decode, decode_header};
use serde_json::{Map, Value};

use super::key_set::KeySet;
use super::settings::OauthSettings;
use super::signatures::ACCEPTED;
use crate::http::auth::denied::BadToken;
use crate::http::auth::moment::Moment;
use crate::ids::Tenant;
use crate::yard::Role;

/// What an access token stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::http::auth) struct Grant {
    /// Whose jobs.
    pub(in crate::http::auth) tenant: Tenant,
    /// What it may do; `None`: nothing here.
    pub(in crate::http::auth) role: Option<Role>,
    /// When it ends.
    pub(in crate::http::auth) until: Moment,
}

/// The claims of a token.
type Claims = Map<String, Value>;

/// A token whose head was read, and of which nothing is believed yet.
#[derive(Debug)]
pub(super) struct Unverified<'a> {
    token: &'a str,
    algorithm: Algorithm,
    key: Option<String>,
}

impl<'a> Unverified<'a> {
    /// Reads the head of a token.
    pub(super) fn read(token: &'a str) -> Result<Self, BadToken> {
        let header = decode_header(token).map_err(|error| unreadable(&error))?;
        if !ACCEPTED.contains(&header.alg) {
            return Err(BadToken::Algorithm);
        }
        // RFC 7515 §4.1.11: what must be understood, and is not, must not pass.
        if header.crit.is_some() || !is_access_token(&header) {
            return Err(BadToken::Unreadable);
        }
        Ok(Self { token, algorithm: header.alg, key: header.kid })
    }

    /// Whether one of these keys may have signed it.
    pub(super) fn is_known(&self, keys: &KeySet) -> bool {
        keys.find(self.key.as_deref(), self.algorithm).next().is_some()
    }

    /// What it stands for, if one of these keys signed it and all claims hold.
    pub(super) fn verify(&self, keys: &KeySet, rules: &OauthSettings) -> Result<Grant, BadToken> {
        let mut refused = BadToken::Key;
        for key in keys.find(self.key.as_deref(), self.algorithm) {
            match self.claims(key, rules) {
                Ok(claims) => return grant(&claims, rules),
                Err(why) => refused = why,
            }
            if refused != BadToken::Signature {
                break;
            }
        }
        Err(refused)
    }

    fn claims(&self, key: &DecodingKey, rules: &OauthSettings) -> Result<Claims, BadToken> {
        let mut validation = Validation::new(self.algorithm);
        validation.set_required_spec_claims(&["exp", "iss", "aud"]);
        validation.set_issuer(&[&rules.issuer]);
        validation.set_audience(&[&rules.audience]);
        validation.leeway = rules.leeway.as_secs();
        validation.validate_nbf = true;
        match decode::<Claims>(self.token, key, &validation) {
            Ok(decoded) => Ok(decoded.claims),
            Err(error) => Err(self.refusal(&error)),
        }
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "another crate's enum, which may grow")]
    fn refusal(&self, error: &Error) -> BadToken {
        match error.kind() {
            ErrorKind::InvalidSignature => BadToken::Signature,
            ErrorKind::InvalidIssuer => BadToken::Issuer,
            ErrorKind::InvalidAudience => BadToken::Audience,
            ErrorKind::ImmatureSignature => BadToken::NotYet,
            ErrorKind::ExpiredSignature => BadToken::Expired { at: self.end() },
            ErrorKind::MissingRequiredClaim(claim) | ErrorKind::InvalidClaimFormat(claim) => {
                BadToken::Claim { claim: claim.clone() }
            }
            ErrorKind::InvalidAlgorithm => BadToken::Algorithm,
            _ => BadToken::Unreadable,
        }
    }

    /// When a token says that it ended, for the words of its refusal only.
    fn end(&self) -> Moment {
        let claims = jsonwebtoken::dangerous::insecure_decode_claims::<Claims>(self.token);
        claims.ok().and_then(|claims| end(&claims)).unwrap_or(Moment::from_unix(0))
    }
}

/// A token without the form of a JWT is some other token; `alg: none` cannot even be read.
fn unreadable(error: &Error) -> BadToken {
    let is_other = matches!(error.kind(), ErrorKind::InvalidToken);
    if is_other { BadToken::Unknown } else { BadToken::Unreadable }
}

/// An ID token or a logout token by the same issuer is no access token (RFC 9068 §2.1); many
/// issuers write plain `JWT`, or nothing.
fn is_access_token(header: &Header) -> bool {
    let Some(kind) = &header.typ else { return true };
    let kind = kind.to_ascii_lowercase();
    matches!(kind.strip_prefix("application/").unwrap_or(&kind), "jwt" | "at+jwt")
}

fn grant(claims: &Claims, rules: &OauthSettings) -> Result<Grant, BadToken> {
    // The crate takes a list of issuers, too; RFC 7519 does not.
    if claims.get("iss").and_then(Value::as_str) != Some(&rules.issuer) {
        return Err(BadToken::Issuer);
    }
    let at = end(claims).ok_or_else(|| BadToken::Claim { claim: "exp".to_owned() })?;
    let until = at.after(rules.leeway);
    // The crate takes a token in its last second, too; RFC 7519 §4.1.4 does not.
    if until <= Moment::now() {
        return Err(BadToken::Expired { at });
    }
    let granted = granted(claims)?;
    Ok(Grant { tenant: tenant(claims, rules)?, role: rules.scopes.role(&granted), until })
}

fn end(claims: &Claims) -> Option<Moment> {
    let exp = claims.get("exp")?;
    // Fractions are allowed; the crate has checked that it is a number from 0.
    let seconds = exp.as_u64().or_else(|| exp.as_f64().map(|seconds| seconds as u64))?;
    Some(Moment::from_unix(seconds))
}

/// The scopes: words in `scope` (RFC 9068), or a list in `scp`, as some issuers write it.
fn granted(claims: &Claims) -> Result<Vec<&str>, BadToken> {
    let odd = |claim: &str| BadToken::Claim { claim: claim.to_owned() };
    match (claims.get("scope"), claims.get("scp")) {
        (Some(Value::String(words)), _) | (None, Some(Value::String(words))) => {
            Ok(words.split(' ').filter(|word| !word.is_empty()).collect())
        }
        (Some(_), _) => Err(odd("scope")),
        (None, Some(Value::Array(list))) => {
            list.iter().map(|word| word.as_str().ok_or_else(|| odd("scp"))).collect()
        }
        (None, Some(_)) => Err(odd("scp")),
        (None, None) => Ok(Vec::new()),
    }
}

fn tenant(claims: &Claims, rules: &OauthSettings) -> Result<Tenant, BadToken> {
    let claim = &rules.tenant_claim;
    let name = claims
        .get(claim)
        .and_then(Value::as_str)
        .ok_or_else(|| BadToken::Claim { claim: claim.clone() })?;
    if !rules.tenants.is_empty() {
        return rules.tenants.get(name).copied().ok_or(BadToken::Stranger);
    }
    match Tenant::named(name)? {
        // The operator's own jobs are nobody's to claim.
        Tenant::LOCAL => Err(BadToken::Stranger),
        tenant => Ok(tenant),
    }
}
