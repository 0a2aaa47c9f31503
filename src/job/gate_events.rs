//! The events of a job's exec gate: refused starts and counts.

use std::sync::{MutexGuard, PoisonError};

use super::handle::RefusedStarts;
use super::job_guard::JobGuard;
use crate::policy::gate::StartRefusal;
use crate::process::{GateEvent, StartCounts};
use crate::telemetry::events;

impl JobGuard {
    /// Takes an event of the job's exec gate.
    pub(super) fn take_gate_event(&mut self, event: GateEvent) {
        match event {
            GateEvent::Refused(refusal) => self.note_refused_start(refusal),
            GateEvent::Counted(counts) => self.note_start_counts(counts),
            // Nobody is asked after the start of a job, and no such rule is given to its gate.
            GateEvent::Asked(question) => {
                if let Some(tree) = self.tree() {
                    // A shim that is gone asks no more.
                    tree.answer_start(question.id, false).ok();
                }
            }
            GateEvent::AskOver { .. } => {}
        }
    }

    /// Notes a program that the gate of the job kept from starting.
    fn note_refused_start(&self, refusal: StartRefusal) {
        if self.refused_starts().add(refusal.clone()) {
            self.settings.gate.report_refusal(self.shared.id, &self.shared.spec, &refusal);
        }
    }

    /// Notes how many starts of programs the gate has judged so far.
    fn note_start_counts(&mut self, counts: StartCounts) {
        let before = self.starts.replace(counts).unwrap_or(counts);
        events::starts_judged(
            counts.judged.saturating_sub(before.judged),
            counts.refused.saturating_sub(before.refused),
        );
    }

    fn refused_starts(&self) -> MutexGuard<'_, RefusedStarts> {
        self.shared.refused_starts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
