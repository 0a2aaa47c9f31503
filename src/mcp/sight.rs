//! Who sends a request, and what that one sees of the yard.

use std::sync::Arc;

use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer};

use super::called::Called;
use super::handler::Handler;
use super::operation::Place;
use super::stamp::is_modern;
use crate::ids::Tenant;
use crate::telemetry::labels;
use crate::yard::{Desk, Identity, JobHandle, Role};

impl Handler {
    /// What the caller of a request sees of the yard.
    pub(super) fn desk(&self, context: &RequestContext<RoleServer>) -> Result<Desk, ErrorData> {
        let client = context.client_info().map(|info| info.name);
        let identity = self.callers.of(context)?;
        let desk = self.shared.yard.desk(identity, client.as_deref().unwrap_or("unknown"));
        let desk = match Place::trace(context) {
            Some(trace) => desk.in_trace(trace),
            None => desk,
        };
        Ok(match &self.cwd {
            Some(cwd) => desk.in_directory(Arc::clone(cwd)),
            None => desk,
        })
    }

    /// Whose request it is, where that is known.
    pub(super) fn tenant_of(&self, context: &RequestContext<RoleServer>) -> Option<Tenant> {
        self.callers.of(context).ok().map(|identity| identity.tenant)
    }

    /// The word under which calls of this tool are counted: its name, if it is offered.
    pub(super) fn tool_word(&self, name: &str) -> &'static str {
        self.shared.offer.names().find(|offered| *offered == name).unwrap_or(labels::OTHER)
    }

    /// Whether this dialect was chosen.
    #[cfg(feature = "conformance")]
    pub(super) fn speaks(&self, dialect: super::dialect::Dialect) -> bool {
        self.shared.settings.dialects.contains(&dialect)
    }

    /// The jobs of all tenants, newest first.
    pub(super) async fn all(&self) -> Vec<JobHandle> {
        self.shared.yard.all_jobs().await
    }

    /// What a caller sees of the yard who is no MCP client.
    pub(super) fn desk_of(&self, identity: Identity) -> Desk {
        self.shared.yard.desk(identity, "api")
    }

    /// Whether this message calls a tool that runs, types, writes or stops, or changes a task.
    /// What is no message, or calls nothing that there is, does not.
    #[must_use]
    pub fn needs_run(&self, message: &[u8]) -> bool {
        match Called::by(message) {
            Some(Called::Tool(name)) => {
                self.shared.offer.find(&name).is_ok_and(|tool| !tool.is_for(Role::Read))
            }
            Some(Called::TaskChange) => true,
            None => false,
        }
    }

    /// What a caller sees of the yard who asks for a task; those who came before tasks know none.
    pub(super) fn task_desk(
        &self,
        method: &str,
        context: &RequestContext<RoleServer>,
    ) -> Result<Desk, ErrorData> {
        if is_modern(context) { self.desk(context) } else { Err(self.unknown_method(method)) }
    }
}

/// Tells which job a request was about, if it was about one.
pub(super) fn note_job(desk: &Desk, context: &RequestContext<RoleServer>) {
    if let Some(job) = desk.first_job() {
        Place::note_job(context, job);
    }
}
