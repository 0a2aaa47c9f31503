//! Who the callers are, and what each of them may have.

use std::time::Duration;

use serde::Deserialize;

use super::confinement::OwnConfinement;
use super::read::{seconds, zero_is_none};

/// `[oauth]`
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OauthSettings {
    /// Who signs tokens; empty = no OAuth.
    pub issuer: String,
    /// The public URL of the MCP endpoint.
    pub resource: String,
    /// The audience of tokens; empty = the resource.
    pub audience: String,
    /// A file or a URL with the issuer's keys; empty = by the issuer's metadata.
    pub jwks: String,
    /// Keys are fetched again after this long.
    #[serde(rename = "jwks_refresh_s", deserialize_with = "seconds")]
    pub jwks_refresh: Duration,
    /// The claim whose value is the tenant.
    pub tenant_claim: String,
    /// Values of that claim and their tenants, `VALUE=TENANT`.
    pub tenants: Vec<String>,
    /// The scope of those who run commands.
    pub run_scope: String,
    /// The scope of those who read.
    pub read_scope: String,
    /// The scope of those who see all tenants.
    pub admin_scope: String,
    /// How far clocks may be apart.
    #[serde(rename = "leeway_s", deserialize_with = "seconds")]
    pub leeway: Duration,
}

/// `[quota]`: of a tenant that has no own. `None` = no bound.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QuotaSettings {
    /// Jobs that run at one time.
    #[serde(deserialize_with = "zero_is_none")]
    pub max_running: Option<u64>,
    /// Jobs that wait.
    #[serde(deserialize_with = "zero_is_none")]
    pub max_queued: Option<u64>,
    /// Jobs that start in a minute.
    #[serde(deserialize_with = "zero_is_none")]
    pub starts_per_minute: Option<u64>,
    /// CPU seconds in an hour.
    #[serde(deserialize_with = "zero_is_none")]
    pub cpu_s_per_hour: Option<u64>,
}

/// `[tenants.NAME]`: what is not given is as for every tenant; 0 = no bound.
// Unknown keys were refused before, and serde cannot do that beside a flattened field.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct TenantSettings {
    /// Its share of the slots beside others that wait.
    pub weight: Option<u32>,
    /// Jobs that run at one time.
    pub max_running: Option<u64>,
    /// Jobs that wait.
    pub max_queued: Option<u64>,
    /// Jobs that start in a minute.
    pub starts_per_minute: Option<u64>,
    /// CPU seconds in an hour.
    pub cpu_s_per_hour: Option<u64>,
    /// Bytes of output that are kept.
    pub max_stored: Option<u64>,
    /// Variables of its jobs, `NAME=VALUE`.
    pub environment: Vec<String>,
    /// How its jobs are confined.
    #[serde(flatten)]
    pub confining: OwnConfinement,
}

/// `[pressure]`: percent; 0 = not looked at.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PressureSettings {
    /// Of processors.
    pub cpu: u8,
    /// Of memory.
    pub memory: u8,
    /// Of disks.
    pub io: u8,
    /// The time between two looks.
    #[serde(rename = "check_s", deserialize_with = "seconds")]
    pub check: Duration,
}
