//! What the modern era wants on each result: the name of the server.

use rmcp::RoleServer;
use rmcp::model::{CallToolResponse, GetTaskResult, MetaObject, ProtocolVersion, TaskPayload};
use rmcp::service::RequestContext;
use serde_json::{Value, json};

use super::handler::Handler;
use super::introduction;

const SERVER: &str = "io.modelcontextprotocol/serverInfo";

/// The first version of the modern era.
const MODERN: ProtocolVersion = ProtocolVersion::V_2026_07_28;

impl Handler {
    /// Names this server in a result's metadata, as the modern era wants it on each result.
    pub(super) fn stamp_modern(
        &self,
        context: &RequestContext<RoleServer>,
        meta: &mut Option<MetaObject>,
    ) {
        if is_modern(context) {
            meta.get_or_insert_default().insert(SERVER.to_owned(), self.name());
        }
    }

    /// The same in what a task tells, and in the result that one has which is over.
    pub(super) fn stamp_task(&self, looked: &mut GetTaskResult) {
        if let TaskPayload::Completed { result } = &mut looked.task.payload {
            result.insert("_meta".to_owned(), json!({SERVER: self.name()}));
        }
        looked.meta.get_or_insert_default().insert(SERVER.to_owned(), self.name());
    }

    fn name(&self) -> Value {
        introduction::stamp(&self.shared.info.server_info)
    }
}

/// Whether a request is of the modern era.
pub(super) fn is_modern(context: &RequestContext<RoleServer>) -> bool {
    context.protocol_version().is_some_and(|version| version >= MODERN)
}

/// Where the metadata of a response stands.
pub(super) fn meta_of(response: &mut CallToolResponse) -> Option<&mut Option<MetaObject>> {
    match response {
        CallToolResponse::Complete(result) => Some(&mut result.meta),
        CallToolResponse::InputRequired(result) => Some(&mut result.meta),
        CallToolResponse::Task(result) => Some(&mut result.meta),
        _ => None,
    }
}
