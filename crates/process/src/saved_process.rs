//! The description of a running process that the keeper holds for the next server.

use rustix::process::Pid;
use serde::{Deserialize, Serialize};

use crate::keeper::{SavedPath, restore_paths, save_paths};
use crate::processes::ProcessTag;
use crate::sandbox::job_resources::SavedResources;
use crate::stdio::{EndOfInput, StdioNames};
use crate::tree::members::{TreeEvidence, TreeIdentity};

/// The version of the description. It grows when an older server would misunderstand it.
const VERSION: u32 = 1;

/// The description of a running process, apart from its files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SavedProcess {
    version: u32,
    /// The tick before which no process of the tree started.
    pub(crate) started_after: u64,
    tag: Option<u64>,
    marker: Option<Vec<u8>>,
    inputs: Vec<SavedPath>,
    outputs: Vec<SavedPath>,
    /// `true` if the input, if there is one, is a terminal.
    is_terminal: bool,
    pub(crate) has_stderr: bool,
    pub(crate) resources: SavedResources,
}

impl SavedProcess {
    pub(crate) fn new(
        identity: &TreeIdentity,
        resources: SavedResources,
        end: Option<EndOfInput>,
        has_stderr: bool,
    ) -> Self {
        let TreeEvidence { tag, marker, files } = identity.evidence();
        Self {
            version: VERSION,
            started_after: identity.started_after(),
            tag: tag.map(ProcessTag::to_number),
            marker: marker.clone(),
            inputs: save_paths(&files.inputs),
            outputs: save_paths(&files.outputs),
            is_terminal: end == Some(EndOfInput::EndOfFileKey),
            has_stderr,
            resources,
        }
    }

    /// Returns the text that the keeper holds.
    pub(crate) fn to_text(&self) -> Option<String> {
        serde_json::to_string(self).ok()
    }

    /// Parses such a text; `None` if it is not one, or if it is of a version that this server does
    /// not know.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        serde_json::from_str::<Self>(text).ok().filter(|saved| saved.version <= VERSION)
    }

    /// Returns the tag of the tree.
    pub(crate) fn tag(&self) -> Option<ProcessTag> {
        self.tag.and_then(ProcessTag::from_number)
    }

    pub(crate) const fn end_of_input(&self) -> EndOfInput {
        if self.is_terminal { EndOfInput::EndOfFileKey } else { EndOfInput::Close }
    }

    /// Takes the evidence that the processes of the tree carry.
    pub(crate) fn take_evidence(&mut self) -> TreeEvidence {
        let inputs = restore_paths(std::mem::take(&mut self.inputs));
        let outputs = restore_paths(std::mem::take(&mut self.outputs));
        let files = StdioNames { inputs, outputs };
        TreeEvidence { tag: self.tag(), marker: self.marker.take(), files }
    }
}

/// Returns a pid from a message; `None` if it is not valid.
pub(crate) fn parse_pid(number: i32) -> Option<Pid> {
    Pid::from_raw(number).filter(|_| number > 0)
}
