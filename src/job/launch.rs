//! From a spec to a process: which program, which environment.

use std::ffi::OsString;
use std::sync::Arc;

use super::actor::JobSettings;
use super::seat::JobSeat;
use crate::process::shell::{self, Invocation, Shell};
use crate::process::{Confine, Cwd, Launch, LaunchStdin, Report};
use crate::spec::{Program, ShellUse, Spec, Stdin};
use crate::trace::TraceContext;

/// Where programs look for the trace that they are a part of, as OpenTelemetry has it.
const TRACE_VARIABLES: [&str; 2] = ["TRACEPARENT", "TRACESTATE"];

/// Everything that the process room needs to start this job.
pub(super) fn launch(seat: &JobSeat, cwd: Cwd) -> Launch {
    let (spec, settings) = (seat.spec(), &seat.settings);
    let (program, arg0, args, report) = command(spec, settings);
    Launch {
        program,
        args,
        arg0,
        env: environment(seat),
        cwd,
        stdin: match spec.stdin {
            Stdin::Closed => LaunchStdin::Null,
            Stdin::Text(_) | Stdin::Open => LaunchStdin::Pipe,
            Stdin::Inherited => LaunchStdin::Inherited,
            Stdin::Terminal => LaunchStdin::Terminal,
        },
        report,
        confine: Confine {
            granted: spec.confinement,
            limits: spec.resources,
            places: Arc::clone(&settings.places),
        },
    }
}

type Words = (OsString, Option<OsString>, Vec<OsString>, Report);

fn command(spec: &Spec, settings: &JobSettings) -> Words {
    match &spec.program {
        Program::Shell(text) => {
            let named = spec.shell_path.clone().map(Shell::Path);
            let shell = named.as_ref().unwrap_or(&settings.shell);
            let invocation = match spec.shell {
                ShellUse::Configured => shell::invocation(shell, text),
                ShellUse::AsJudged => shell::judged_invocation(shell, text),
            };
            let Invocation { program, arg0, args, report } = invocation;
            (program, Some(arg0), args, report)
        }
        Program::Direct { program, args } => {
            (program.into(), None, args.iter().map(OsString::from).collect(), Report::None)
        }
    }
}

/// The server's own variables, then the caller's over them, then the marker over all.
fn environment(seat: &JobSeat) -> Vec<(OsString, OsString)> {
    let (given, settings) = (&seat.spec().env, &seat.settings);
    let marker = settings.tag.marker(seat.id().number());
    let is_given = |name: &str| given.iter().any(|(given, _)| given == name);
    let is_told = TRACE_VARIABLES.into_iter().any(is_given);
    let trace = seat.trace().filter(|_| !is_told);
    // Of two traces one would be wrong.
    let is_traced =
        |name: &OsString| trace.is_some() && TRACE_VARIABLES.iter().any(|it| name == it);
    let is_set = |name: &OsString| is_traced(name) || name.to_str().is_some_and(is_given);
    let base = settings.environment.pairs().iter().filter(|(name, _)| !is_set(name)).cloned();
    let added = given.iter().map(|(name, value)| (name.into(), value.into()));
    let all = base.chain(added).chain(trace.into_iter().flat_map(trace_variables));
    let unmarked = all.filter(|(name, _)| *name != marker.0);
    unmarked.chain([marker.clone()]).collect()
}

/// What tells programs of the trace that they are a part of.
fn trace_variables(trace: &TraceContext) -> impl Iterator<Item = (OsString, OsString)> {
    let values = [Some(trace.traceparent()), trace.state.as_deref().map(str::to_owned)];
    let named = TRACE_VARIABLES.into_iter().zip(values);
    named.filter_map(|(name, value)| Some((name.into(), value?.into())))
}
