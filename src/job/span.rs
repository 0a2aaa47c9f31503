//! What traces tell of a job: one span, from its acceptance to its end.

use std::time::Duration;

use crate::ids::JobId;
use crate::outcome::{Ending, Fault, Outcome};
use crate::spec::Spec;
use crate::telemetry::spans::{Span, SpanKind};
use crate::trace::{BegunBy, TraceContext};

/// The span of one job, a part of the call that asked for it. It tells how the job went, and
/// never what was run, written or set.
#[derive(Debug)]
pub(super) struct JobSpan {
    /// Gone once the job has ended.
    span: Option<Span>,
    /// What lines about the job are written in, also after its end.
    log: tracing::Span,
    /// What the job's processes are told.
    handed_on: Option<TraceContext>,
}

impl JobSpan {
    /// Begins with the job.
    pub(super) fn begin(id: JobId, spec: &Spec) -> Self {
        let mut span = Span::begin(SpanKind::Internal, "job".to_owned(), Some(&spec.trace.context));
        span.note("shellyard.job", number(id.number()));
        span.note("shellyard.tenant", id.tenant().name());
        span.note("shellyard.lane", spec.lane.as_str());
        let handed_on = match spec.trace.begun_by {
            BegunBy::Caller => Some(span.context().clone()),
            BegunBy::Server => None,
        };
        Self { log: span.log().clone(), span: Some(span), handed_on }
    }

    /// What log lines about the job are written in.
    pub(super) const fn log(&self) -> &tracing::Span {
        &self.log
    }

    /// What its processes are told: only a caller that keeps a trace has a use for theirs.
    pub(super) const fn handed_on(&self) -> Option<&TraceContext> {
        self.handed_on.as_ref()
    }

    /// Ends with the job, which waited for so long. Only what is our fault is an error: a command
    /// that fails is what somebody wanted to see.
    pub(super) fn end(&mut self, ending: &Ending, queued: Duration) {
        let Some(mut span) = self.span.take() else { return };
        span.note("shellyard.outcome", ending.outcome.word());
        if let Outcome::Exited { code } = &ending.outcome {
            span.note("process.exit.code", i64::from(*code));
        }
        span.note("shellyard.queued_ms", i64::try_from(queued.as_millis()).unwrap_or(i64::MAX));
        if ending.outcome.fault() == Some(Fault::Server) {
            span.fail(&ending.outcome.word());
        }
    }
}

fn number(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::{StartError, StopBy};
    use crate::telemetry::spans::kept;
    use crate::trace::CallTrace;

    /// What is exported of a job that ends so, and the call that it belongs to.
    fn exported(outcome: Outcome) -> (crate::telemetry::spans::EndedSpan, TraceContext) {
        kept::keep();
        let call = CallTrace::own();
        let spec = Spec { trace: call.clone(), ..crate::job::tests::spec("secret") };
        let mut span = JobSpan::begin(JobId::local(7), &spec);
        let ending = Ending::without_process(outcome);
        span.end(&ending, Duration::from_millis(12));
        span.end(&ending, Duration::ZERO);
        let mut spans = kept::of_trace(call.context.trace_id);
        let span = spans.pop().unwrap();
        assert!(spans.is_empty(), "a job ends once: {spans:?}");
        (span, call.context)
    }

    #[test]
    fn a_span_tells_how_its_job_went_and_nothing_of_what_it_ran() {
        let (span, call) = exported(Outcome::Exited { code: 3 });
        assert_eq!((span.name.as_str(), span.kind), ("job", SpanKind::Internal));
        assert_eq!(span.parent, Some(call.span_id));
        let expected = [
            ("shellyard.job", 7.into()),
            ("shellyard.tenant", "local".into()),
            ("shellyard.lane", "default".into()),
            ("shellyard.outcome", "exited".into()),
            ("process.exit.code", 3.into()),
            ("shellyard.queued_ms", 12.into()),
        ];
        assert_eq!(span.attributes, expected);
        assert_eq!(span.error, None, "a command that fails is no error of ours");
    }

    #[test]
    fn only_what_is_our_fault_is_an_error() {
        let program = || "x".to_owned();
        for (outcome, error) in [
            (Outcome::Stopped { by: StopBy::Client }, None),
            (Outcome::Signaled { signal: 9, core: false }, None),
            (Outcome::FailedToStart(StartError::NotFound { program: program() }), None),
            (
                Outcome::FailedToStart(StartError::System { program: program(), why: program() }),
                Some("failed_to_start"),
            ),
            (Outcome::Lost { why: program() }, Some("lost")),
        ] {
            assert_eq!(exported(outcome.clone()).0.error.as_deref(), error, "{outcome:?}");
        }
    }

    #[test]
    fn processes_are_told_only_of_traces_that_callers_keep() {
        let (own, sent) =
            (CallTrace::own(), CallTrace { begun_by: BegunBy::Caller, ..CallTrace::own() });
        let told = |trace: &CallTrace| {
            let spec = Spec { trace: trace.clone(), ..crate::job::tests::spec("true") };
            JobSpan::begin(JobId::local(7), &spec).handed_on().cloned()
        };
        assert_eq!(told(&own), None);
        let told = told(&sent).unwrap();
        assert_eq!(told.trace_id, sent.context.trace_id);
        assert_ne!(told.span_id, sent.context.span_id);
    }
}
