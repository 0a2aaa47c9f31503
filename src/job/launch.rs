//! From a spec to a process: which program, which environment.

use std::ffi::{OsStr, OsString};
use std::sync::Arc;

use super::actor::JobSettings;
use super::seat::JobSeat;
use crate::outcome::StartError;
use crate::process::shell::{self, Invocation, Shell};
use crate::process::{Confine, Cwd, Launch, LaunchStdin, Report, Variable};
use crate::spec::{Program, ShellUse, Spec, Stdin};
use crate::trace::TraceContext;

/// Where programs look for the trace that they are a part of, as OpenTelemetry has it.
const TRACE_VARIABLES: [&str; 2] = ["TRACEPARENT", "TRACESTATE"];

/// Everything that the process room needs to start this job.
///
/// # Errors
/// When a variable cannot be given to a program.
pub(super) fn launch(seat: &JobSeat, cwd: Cwd) -> Result<Launch, StartError> {
    let (spec, settings) = (seat.spec(), &seat.settings);
    let (program, arg0, args, report) = command(spec, settings);
    Ok(Launch {
        program,
        args,
        arg0,
        env: environment(seat)?,
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
    })
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
fn environment(seat: &JobSeat) -> Result<Vec<Variable>, StartError> {
    let (given, settings) = (&seat.spec().env, &seat.settings);
    let marker = settings.tag.marker(seat.id().number());
    let is_given = |name: &str| given.iter().any(|(given, _)| given == name);
    let is_told = TRACE_VARIABLES.into_iter().any(is_given);
    let trace = seat.trace().filter(|_| !is_told);
    // Of two traces one would be wrong.
    let is_traced = |name: &OsStr| trace.is_some() && TRACE_VARIABLES.iter().any(|it| name == *it);
    let is_set = |name: &OsStr| is_traced(name) || name.to_str().is_some_and(is_given);
    let base = settings.environment.all().iter().filter(|variable| !is_set(variable.name()));
    let mut all: Vec<Variable> = base.cloned().collect();
    for (name, value) in given {
        all.push(Variable::new(name, value)?);
    }
    for (name, value) in trace.into_iter().flat_map(trace_variables) {
        all.push(Variable::new(name, value)?);
    }
    all.retain(|variable| variable.name() != marker.name());
    all.push(marker);
    Ok(all)
}

/// What tells programs of the trace that they are a part of.
fn trace_variables(trace: &TraceContext) -> impl Iterator<Item = (&'static str, String)> {
    let values = [Some(trace.traceparent()), trace.state.as_deref().map(str::to_owned)];
    TRACE_VARIABLES.into_iter().zip(values).filter_map(|(name, value)| Some((name, value?)))
}
