//! What `tools/list` shows, and who answers to a name.

use rmcp::ErrorData;
use rmcp::model::Tool;

use super::dialect::{Dialect, DialectSettings, DialectTool};
use super::schema::Effect;
use super::tools::ToolName;
use crate::yard::Role;

/// The tools of the dialects that were chosen.
#[derive(Debug)]
pub(super) struct Offer {
    tools: Vec<Offered>,
    definitions: Vec<Tool>,
}

/// A tool that is offered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Offered {
    /// One of our own.
    Native(ToolName),
    /// One that a requirement document describes.
    Dialect(DialectTool),
}

impl Offer {
    /// The tools of these dialects, in their order, each once.
    pub(super) fn of(dialects: &[Dialect], settings: &DialectSettings) -> Self {
        let mut tools: Vec<Offered> = Vec::new();
        for dialect in dialects {
            for tool in tools_of(*dialect) {
                if !tools.contains(&tool) {
                    tools.push(tool);
                }
            }
        }
        let definitions = tools.iter().map(|tool| tool.definition(settings)).collect();
        Self { tools, definitions }
    }

    /// The names of all of them.
    pub(super) fn names(&self) -> impl Iterator<Item = &'static str> {
        self.tools.iter().map(|tool| tool.name())
    }

    /// What each of them says about itself.
    pub(super) fn definitions(&self) -> &[Tool] {
        &self.definitions
    }

    /// The same of those that a caller in this role may call.
    pub(super) fn definitions_for(&self, role: Role) -> Vec<Tool> {
        let all = self.tools.iter().zip(&self.definitions);
        all.filter(|(tool, _)| tool.is_for(role))
            .map(|(_, definition)| definition.clone())
            .collect()
    }

    /// The tool of this name, if it is offered.
    pub(super) fn find(&self, name: &str) -> Result<Offered, ErrorData> {
        self.tools.iter().copied().find(|tool| tool.name() == name).ok_or_else(|| {
            let known: Vec<&str> = self.tools.iter().map(|tool| tool.name()).collect();
            let given: String = name.chars().take(60).collect();
            let message = format!("Unknown tool: {given}; this server has {}", known.join(", "));
            ErrorData::invalid_params(message, None)
        })
    }
}

fn tools_of(dialect: Dialect) -> Vec<Offered> {
    match dialect {
        Dialect::Native => ToolName::ALL.into_iter().map(Offered::Native).collect(),
        #[cfg(feature = "conformance")]
        Dialect::Conformance => Vec::new(),
        Dialect::Shell
        | Dialect::Execute
        | Dialect::RunShellCommand
        | Dialect::ExecuteCommand
        | Dialect::ShellExec => dialect.tools().iter().copied().map(Offered::Dialect).collect(),
    }
}

impl Offered {
    /// Its name on the wire.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Native(tool) => tool.name(),
            Self::Dialect(tool) => tool.name(),
        }
    }

    /// Whether a call of it may start a job.
    pub(super) const fn runs(self) -> bool {
        match self {
            Self::Native(tool) => matches!(tool, ToolName::RunCommand),
            Self::Dialect(tool) => tool.runs(),
        }
    }

    /// Whether a caller in this role may call it.
    pub(super) fn is_for(self, role: Role) -> bool {
        let effect = match self {
            Self::Native(tool) => tool.spec().effect,
            Self::Dialect(tool) => tool.effect(),
        };
        match effect {
            Effect::Reads => true,
            // Whoever may look at jobs may not look around on the host.
            Effect::ReadsFiles | Effect::Runs | Effect::Writes | Effect::Ends => role >= Role::Run,
        }
    }

    fn definition(self, settings: &DialectSettings) -> Tool {
        match self {
            Self::Native(tool) => tool.spec().definition(),
            Self::Dialect(tool) => tool.definition(settings),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offer(dialects: &[Dialect]) -> Offer {
        Offer::of(dialects, &DialectSettings::default())
    }

    #[test]
    fn a_mix_lists_each_tool_once_in_the_order_of_the_choice() {
        let offer = offer(&[Dialect::Execute, Dialect::Native, Dialect::Execute]);
        let names: Vec<&str> = offer.definitions().iter().map(|tool| tool.name.as_ref()).collect();
        assert_eq!(names[..2], ["execute", "run_command"]);
        assert_eq!(names.len(), 7);
    }

    #[test]
    fn tools_that_do_more_than_look_at_jobs_are_told_apart() {
        let dialects = [Dialect::Native, Dialect::ExecuteCommand, Dialect::ShellExec];
        let offer = offer(&dialects);
        let looking: Vec<&str> = offer
            .tools
            .iter()
            .filter(|tool| tool.is_for(Role::Read))
            .map(|tool| tool.name())
            .collect();
        let expected = ["wait_jobs", "read_output", "list_jobs", "read_file_chunk"];
        assert_eq!(looking, expected);
    }

    #[test]
    fn only_what_is_offered_answers() {
        let offer = offer(&[Dialect::Native]);
        assert!(offer.find("run_command").is_ok());
        let refused = offer.find("execute").unwrap_err();
        assert!(refused.message.contains("this server has run_command"), "{}", refused.message);
    }
}
