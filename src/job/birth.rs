//! Starting a job's process without holding up the others.
//!
//! Whoever starts a process waits until it has become its program. For the server's own shell, in a
//! directory of this host and where no other job runs, that is soon, and to wait for it on a thread of
//! the runtime is the shortest way. Beside others it takes as long as it takes the kernel to give the
//! new one a processor, and what is elsewhere may not answer: then another thread waits.

use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::runtime::Handle;
use tokio::sync::oneshot;

use super::midwife;
use crate::outcome::StartError;
use crate::process::{self, Launch, Process};
use crate::spec::{Program, Spec};

static PRESENT: AtomicUsize = AtomicUsize::new(0);

/// Whether a program is the server's own shell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OwnShell {
    Yes,
    No,
}

impl OwnShell {
    pub(super) const fn of(spec: &Spec) -> Self {
        match (&spec.program, &spec.shell_path) {
            (Program::Shell(_), None) => Self::Yes,
            (Program::Shell(_) | Program::Direct { .. }, _) => Self::No,
        }
    }
}

/// Held by a job from before its process is created until its end.
#[derive(Debug)]
pub(super) struct Presence {
    /// How many others there were when it came.
    others: usize,
}

impl Presence {
    pub(super) fn begin() -> Self {
        Self { others: PRESENT.fetch_add(1, Ordering::Relaxed) }
    }
}

impl Drop for Presence {
    fn drop(&mut self) {
        PRESENT.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Starts a process. When this future is dropped, there is none.
pub(super) async fn start(
    launch: Launch,
    shell: OwnShell,
    presence: &Presence,
) -> Result<Process, StartError> {
    if presence.others == 0 && shell == OwnShell::Yes && launch.is_quick() {
        return process::spawn(&launch);
    }
    let program = launch.program.to_string_lossy().into_owned();
    let (tell, told) = oneshot::channel();
    let runtime = Handle::current();
    let bear = move || {
        let _inside = runtime.enter();
        // Where nobody waits any more, it is ended.
        drop(tell.send(process::spawn(&launch).map(Newborn::new)));
    };
    let why = |why: String| StartError::System { program: program.clone(), why };
    midwife::call(Box::new(bear)).map_err(|error| why(error.to_string()))?;
    let newborn = told.await.map_err(|_| why("its start broke off".to_owned()))??;
    newborn.taken(program)
}

/// A process that nobody has taken yet. Dropped, it is ended with all that came out of it.
#[derive(Debug)]
struct Newborn(Option<Process>);

impl Newborn {
    const fn new(process: Process) -> Self {
        Self(Some(process))
    }

    fn taken(mut self, program: String) -> Result<Process, StartError> {
        let why = || "it was ended before it began".to_owned();
        self.0.take().ok_or_else(|| StartError::System { program, why: why() })
    }
}

impl Drop for Newborn {
    fn drop(&mut self) {
        if let Some(process) = self.0.take() {
            // Who is left even so is ended with the server.
            drop(process.tree.kill());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::{Confine, Cwd, LaunchStdin, Report};

    fn launch(text: &str) -> Launch {
        Launch {
            program: "/bin/sh".into(),
            args: vec!["-c".into(), text.into()],
            arg0: None,
            env: Vec::new(),
            cwd: Cwd::Path("/".into()),
            stdin: LaunchStdin::Null,
            report: Report::None,
            confine: Confine::not(),
        }
    }

    #[tokio::test]
    async fn however_many_wait_each_gets_its_process() {
        let nobody = Presence { others: 0 };
        let elsewhere = start(launch("exit 3"), OwnShell::No, &nobody).await.unwrap();
        assert!(launch("exit 4").is_quick(), "its directory was seen");
        let here = start(launch("exit 4"), OwnShell::Yes, &nobody).await.unwrap();
        let code = |exit: process::Exit| exit.status;
        assert_eq!(code(elsewhere.leader.wait().await.unwrap()), process::ExitKind::Code(3));
        assert_eq!(code(here.leader.wait().await.unwrap()), process::ExitKind::Code(4));
    }

    #[tokio::test]
    async fn a_process_that_nobody_takes_is_ended() {
        let process = process::spawn(&launch("sleep 300")).unwrap();
        let tree = process.tree.clone();
        drop(Newborn::new(process));
        assert_eq!(tree.alive(), Vec::<u32>::new());
    }
}
