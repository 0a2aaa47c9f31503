//! Whose access tokens are good, and what they stand for.

use std::collections::HashMap;
use std::path::PathBuf;
use std::time::Duration;

use crate::ids::Tenant;
use crate::yard::Role;

/// Whose access tokens are good, and what they stand for.
#[derive(Debug, Clone)]
pub struct OauthSettings {
    /// Who signs them, to the letter.
    pub issuer: String,
    /// The public URL of the MCP endpoint; `None` = what the client calls it.
    pub resource: Option<String>,
    /// The audience that they must have.
    pub audience: String,
    /// Where the issuer's keys are.
    pub keys: KeySource,
    /// Keys are fetched again after this long.
    pub refresh: Duration,
    /// The claim whose value is the tenant.
    pub tenant_claim: String,
    /// Values of that claim and their tenants; if there is any, nobody else comes in.
    pub tenants: HashMap<String, Tenant>,
    /// What takes which scope.
    pub scopes: Scopes,
    /// How far clocks may be apart.
    pub leeway: Duration,
    /// How clients reach us where no resource is named: `http` or `https`.
    pub scheme: &'static str,
    /// The path of the MCP endpoint.
    pub path: String,
}

/// Where the issuer's keys are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeySource {
    /// In a file.
    File(PathBuf),
    /// At a URL.
    Url(String),
    /// Where the issuer's metadata says.
    Issuer,
}

/// What takes which scope.
#[derive(Debug, Clone)]
pub struct Scopes {
    /// To look.
    pub read: String,
    /// To run commands.
    pub run: String,
    /// To see and change what concerns all tenants.
    pub admin: String,
}

impl Scopes {
    /// The scope that a role takes.
    pub(super) fn of(&self, role: Role) -> &str {
        match role {
            Role::Read => &self.read,
            Role::Run => &self.run,
            Role::Admin => &self.admin,
        }
    }

    /// The highest role that these scopes give.
    pub(super) fn role(&self, granted: &[&str]) -> Option<Role> {
        let roles = [Role::Admin, Role::Run, Role::Read];
        roles.into_iter().find(|role| granted.contains(&self.of(*role)))
    }
}
