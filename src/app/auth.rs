//! From settings to who may come in.

use std::collections::HashMap;

use super::error::AppError;
use crate::config::{self, Settings};
use crate::http::auth::{Auth, AuthSettings, KeySource, OauthSettings, Scopes, TokenPlace};
use crate::ids::Tenant;

/// Who may come in, or what is wrong with the tokens.
pub(super) fn auth(settings: &Settings) -> Result<Auth, AppError> {
    Ok(Auth::open(AuthSettings { token_file: token_file(settings), oauth: oauth(settings)? })?)
}

/// Where tokens are kept.
pub(super) fn token_file(settings: &Settings) -> TokenPlace {
    match &settings.http.token_file {
        Some(path) => TokenPlace::Named(path.clone()),
        None => TokenPlace::Usual(settings.server.data_dir.join("tokens")),
    }
}

fn oauth(settings: &Settings) -> Result<Option<OauthSettings>, AppError> {
    let oauth = &settings.oauth;
    let Some(issuer) = given(&oauth.issuer) else { return without_issuer(oauth) };
    let resource = given(&oauth.resource);
    let audience = given(&oauth.audience).or_else(|| resource.clone());
    Ok(Some(OauthSettings {
        issuer,
        audience: audience.ok_or(AppError::NoAudience)?,
        resource,
        keys: keys(&oauth.jwks),
        refresh: oauth.jwks_refresh,
        tenant_claim: oauth.tenant_claim.clone(),
        tenants: tenants(oauth)?,
        scopes: Scopes {
            read: oauth.read_scope.clone(),
            run: oauth.run_scope.clone(),
            admin: oauth.admin_scope.clone(),
        },
        leeway: oauth.leeway,
        scheme: if settings.http.tls_cert.is_some() { "https" } else { "http" },
        path: settings.http.path.clone(),
    }))
}

/// No OAuth, unless somebody seems to believe that there is.
fn without_issuer(oauth: &config::OauthSettings) -> Result<Option<OauthSettings>, AppError> {
    let meant = [
        ("resource", !oauth.resource.is_empty()),
        ("audience", !oauth.audience.is_empty()),
        ("jwks", !oauth.jwks.is_empty()),
        ("tenants", !oauth.tenants.is_empty()),
    ];
    match meant.into_iter().find(|(_, is_set)| *is_set) {
        Some((key, _)) => Err(AppError::NoIssuer { key }),
        None => Ok(None),
    }
}

fn given(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

fn keys(jwks: &str) -> KeySource {
    if jwks.is_empty() {
        KeySource::Issuer
    } else if jwks.contains("://") {
        KeySource::Url(jwks.to_owned())
    } else {
        KeySource::File(jwks.into())
    }
}

/// A value may hold `=`, a tenant's name cannot.
fn tenants(oauth: &config::OauthSettings) -> Result<HashMap<String, Tenant>, AppError> {
    let tenant = |entry: &String| {
        let (value, name) = entry.rsplit_once('=').unwrap_or((entry, ""));
        let tenant = Tenant::named(name);
        let tenant =
            tenant.map_err(|source| AppError::OauthTenant { entry: entry.clone(), source })?;
        Ok((value.to_owned(), tenant))
    };
    oauth.tenants.iter().map(tenant).collect()
}
