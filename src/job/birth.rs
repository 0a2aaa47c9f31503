//! Starting a job's process without holding up the others.
//!
//! Whoever starts a process waits until it has become its program, which on a busy host takes as long
//! as it takes the kernel to give it a processor. One thread of the runtime may wait so: for a
//! single job that is the shortest way. Whoever comes meanwhile has another thread wait.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::outcome::StartError;
use crate::process::{self, Launch, Process};

static IS_TAKEN: AtomicBool = AtomicBool::new(false);

/// The right to wait on a thread of the runtime. Dropped, another may.
#[derive(Debug)]
struct Turn(());

impl Turn {
    fn take() -> Option<Self> {
        let was_taken = IS_TAKEN.swap(true, Ordering::AcqRel);
        (!was_taken).then_some(Self(()))
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        IS_TAKEN.store(false, Ordering::Release);
    }
}

/// Starts a process. When this future is dropped, there is none.
pub(super) async fn start(launch: Launch) -> Result<Process, StartError> {
    if let Some(_turn) = Turn::take() {
        return process::spawn(&launch);
    }
    let program = launch.program.to_string_lossy().into_owned();
    let started = tokio::task::spawn_blocking(move || process::spawn(&launch).map(Newborn::new));
    match started.await {
        Ok(started) => started.and_then(|newborn| newborn.taken(program)),
        Err(error) => Err(StartError::System { program, why: error.to_string() }),
    }
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
        let turn = Turn::take();
        let elsewhere = start(launch("exit 3")).await.unwrap();
        drop(turn);
        let here = start(launch("exit 4")).await.unwrap();
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
