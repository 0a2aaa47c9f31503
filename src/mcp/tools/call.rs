//! What a tool has at hand while it works on one call.

use std::time::Duration;

use rmcp::RoleServer;
use rmcp::service::RequestContext;

use crate::mcp::reply::{Answer, Fit, TokenBudget};
use crate::mcp::settings::McpSettings;
use crate::mcp::snapshot::Snapshot;
use crate::yard::{Caller, JobHandle, Yard};

/// What a tool has at hand while it works on one call.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Call<'a> {
    /// Where jobs are.
    pub(crate) yard: &'a Yard,
    /// How the surface is set up.
    pub(crate) settings: &'a McpSettings,
    /// The request: its cancellation and its way to the client.
    pub(crate) request: &'a RequestContext<RoleServer>,
    /// How much its answer may take.
    pub(crate) budget: TokenBudget,
}

impl Call<'_> {
    /// How long this call may wait: as asked, within what its client will bear.
    pub(crate) fn wait(&self, asked: Option<Duration>) -> Duration {
        let most = match self.request.meta.get_progress_token() {
            Some(_) => self.settings.wait_max,
            None => self.settings.wait_max_quiet,
        };
        asked.unwrap_or(self.settings.wait_default).min(most)
    }

    /// Makes answers fit that have, beside output, what `bare` has.
    pub(crate) fn fit(&self, bare: &Answer) -> Fit {
        Fit::new(self.budget, self.settings.result_format, self.yard.redactor(), bare)
    }

    /// Who calls.
    pub(crate) fn caller(&self) -> Caller {
        let client = self.request.client_info().map(|info| info.name);
        Caller::local(client.as_deref().unwrap_or("unknown"))
    }

    /// Looks at a job now.
    pub(crate) async fn look(&self, job: &JobHandle) -> Snapshot {
        Snapshot::take(self.yard, job).await
    }
}
