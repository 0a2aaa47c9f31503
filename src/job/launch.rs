//! From a spec to a process: which program, which environment.

use std::ffi::OsString;

use super::actor::JobSettings;
use crate::ids::JobId;
use crate::process::shell::{self, Invocation, Shell};
use crate::process::{Cwd, Launch, LaunchStdin, Report};
use crate::spec::{Program, ShellUse, Spec, Stdin};

/// Everything that the process room needs to start this job.
pub(super) fn launch(id: JobId, spec: &Spec, cwd: Cwd, settings: &JobSettings) -> Launch {
    let (program, arg0, args, report) = command(spec, settings);
    Launch {
        program,
        args,
        arg0,
        env: environment(id, spec, settings),
        cwd,
        stdin: match spec.stdin {
            Stdin::Closed => LaunchStdin::Null,
            Stdin::Text(_) | Stdin::Open => LaunchStdin::Pipe,
            Stdin::Inherited => LaunchStdin::Inherited,
            Stdin::Terminal => LaunchStdin::Terminal,
        },
        report,
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
fn environment(id: JobId, spec: &Spec, settings: &JobSettings) -> Vec<(OsString, OsString)> {
    let marker = settings.tag.marker(id.number());
    let set = |name: &OsString| spec.env.iter().any(|(set, _)| name == set.as_str());
    let base = settings.environment.iter().filter(|(name, _)| !set(name)).cloned();
    let added = spec.env.iter().map(|(name, value)| (name.into(), value.into()));
    let unmarked = base.chain(added).filter(|(name, _)| *name != marker.0);
    unmarked.chain([marker.clone()]).collect()
}
