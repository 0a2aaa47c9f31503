//! What MCP clients ask for.

use super::words::{OTHER, words};

/// The method that calls a tool.
pub(in crate::telemetry) const TOOL_CALL: &str = "tools/call";

/// Every method that is answered, and one word for whatever else is asked for.
pub const METHODS: [&str; 18] = [
    "completion/complete",
    "initialize",
    "ping",
    "prompts/get",
    "prompts/list",
    "resources/list",
    "resources/read",
    "resources/subscribe",
    "resources/templates/list",
    "resources/unsubscribe",
    "server/discover",
    "subscriptions/listen",
    "tasks/cancel",
    "tasks/get",
    "tasks/update",
    TOOL_CALL,
    "tools/list",
    OTHER,
];

/// The label for a method that a client asked for.
pub(in crate::telemetry) fn method(name: &str) -> &'static str {
    METHODS.into_iter().find(|known| *known == name).unwrap_or(OTHER)
}

words! {
    /// Whether an operation waits for jobs: how long it takes then says nothing about the server.
    pub enum CallClass {
        /// It runs a command or stops one, and may wait for its end.
        Run = "run",
        /// It does nothing but wait for something to happen.
        LongPoll = "long_poll",
        /// It is answered at once.
        Ordinary = "ordinary",
    }
}

impl CallClass {
    /// The class of an operation.
    #[must_use]
    pub fn of(method: &str, tool: Option<&str>) -> Self {
        match (method, tool) {
            ("subscriptions/listen", _) | (_, Some("wait_jobs")) => Self::LongPoll,
            (
                _,
                Some(
                    "run_command" | "shell" | "execute" | "run_shell_command" | "execute_command"
                    | "shell_exec" | "stop_jobs",
                ),
            ) => Self::Run,
            _ => Self::Ordinary,
        }
    }
}

words! {
    /// What went wrong with an operation, in OpenTelemetry's words.
    pub enum ErrorType {
        /// The tool answered with an error.
        Tool = "tool_error",
        /// Anything else: an error of the protocol, or a call that was cancelled.
        Other = "_OTHER",
    }
}

words! {
    /// How a client is connected.
    pub enum Transport {
        /// By its standard streams.
        Stdio = "stdio",
        /// By a session over HTTP.
        Http = "http",
        /// By a proxy's connection.
        Proxy = "proxy",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_method_from_outside_never_becomes_a_label() {
        assert_eq!(method("tools/list"), "tools/list");
        assert_eq!(method("rm -rf /"), "other");
    }

    #[test]
    fn only_waiting_is_a_long_poll() {
        assert_eq!(CallClass::of(TOOL_CALL, Some("wait_jobs")), CallClass::LongPoll);
        assert_eq!(CallClass::of("subscriptions/listen", None), CallClass::LongPoll);
        assert_eq!(CallClass::of(TOOL_CALL, Some("shell")), CallClass::Run);
        assert_eq!(CallClass::of(TOOL_CALL, Some("stop_jobs")), CallClass::Run, "it waits as well");
        assert_eq!(CallClass::of(TOOL_CALL, Some("read_output")), CallClass::Ordinary);
        assert_eq!(CallClass::of("tools/list", None), CallClass::Ordinary);
    }
}
