//! The access of one request to jobs: whose they are, what the caller's role permits, and the audit
//! entry if they belong to another tenant.

use axum::http::Uri;

use super::request::{ApiError, ApiState, QueryParams, require_operator};
use crate::ids::TenantId;
use crate::service::{CallerIdentity, CallerRole, ForeignAccess, JobHandle, TenantClient};

/// The name under which a request that names no program submits jobs.
pub(super) const DEFAULT_CLIENT: &str = "api";

/// The jobs that one request is about: those of one tenant.
#[derive(Debug, Clone, Copy)]
pub(super) struct JobAccess {
    /// The sender of the request.
    pub(super) caller: CallerIdentity,
    /// The sender in the place of the tenant whose jobs these are.
    pub(super) identity: CallerIdentity,
}

impl JobAccess {
    /// Returns the access of a caller: to its own tenant or, for an operator, to the tenant in the
    /// query.
    pub(super) fn new(caller: CallerIdentity, params: &QueryParams<'_>) -> Result<Self, ApiError> {
        let identity = match params.value("tenant") {
            None => caller,
            Some(name) => {
                require_operator(caller)?;
                CallerIdentity { tenant: TenantId::parse(name)?, ..caller }
            }
        };
        Ok(Self { caller, identity })
    }

    /// Returns the access of a caller that changes a job. The tenant is the only parameter of such a
    /// request.
    pub(super) fn to_change(caller: CallerIdentity, uri: &Uri) -> Result<Self, ApiError> {
        let params = QueryParams::parse(uri.query(), &["tenant"])?;
        require_run_role(caller)?;
        Self::new(caller, &params)
    }

    pub(super) fn client(&self, api: &ApiState) -> TenantClient {
        api.service.tenant_client(self.identity, DEFAULT_CLIENT)
    }

    /// `true` if the jobs are those of another tenant than the caller's.
    pub(super) fn is_foreign(&self) -> bool {
        self.caller.tenant != self.identity.tenant
    }

    /// Finds a job, and records what is done with it if it is another tenant's.
    pub(super) async fn find(
        &self,
        api: &ApiState,
        job: &str,
        access: ForeignAccess,
    ) -> Result<JobHandle, ApiError> {
        let client = self.client(api);
        let job = client.find(client.job_id(job.parse()?)).await?;
        if self.is_foreign() {
            api.service.record_foreign_access(access, job.id(), self.caller);
        }
        Ok(job)
    }
}

/// Checks that the caller may run, stop and type.
pub(super) fn require_run_role(caller: CallerIdentity) -> Result<(), ApiError> {
    if caller.role >= CallerRole::Run { Ok(()) } else { Err(ApiError::ReadOnly) }
}
