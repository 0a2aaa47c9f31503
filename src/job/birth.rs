//! Starting a job's process without holding up the others.
//!
//! Whoever starts a process waits until it has become its program. For the server's own shell, in a
//! directory of this host that has processors to spare, that is soon, and to wait for it on a thread of
//! the runtime is the shortest way. Beside others that have just begun it takes as long as it takes the
//! kernel to give the new one a processor, and what is elsewhere may not answer: then another thread
//! waits.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::midwife::{self, Line};
use crate::outcome::StartError;
use crate::process::{self, Launch, Process};
use crate::spec::{Program, Spec};

/// How long a job counts as one that has just begun: it is at work then, whatever it does later.
const YOUTH: Duration = Duration::from_millis(50);
/// A birth that took so long had to wait for a processor.
const SOON: Duration = Duration::from_millis(2);
/// For how long the host counts as busy then.
const BUSY: Duration = Duration::from_millis(500);

static CROWD: Mutex<Crowd> = Mutex::new(Crowd { young: Vec::new(), last: 0, busy_until: None });

/// Who may want a processor now.
#[derive(Debug)]
struct Crowd {
    /// Jobs that have just begun, by a number of their own.
    young: Vec<(u64, Instant)>,
    last: u64,
    busy_until: Option<Instant>,
}

impl Crowd {
    /// Lets one more in, and says whether there is a processor for it.
    fn enter(&mut self, now: Instant) -> Presence {
        self.young.retain(|(_, since)| now.saturating_duration_since(*since) < YOUTH);
        let is_busy = self.busy_until.is_some_and(|until| now < until);
        let is_alone = self.young.is_empty() && !is_busy;
        self.last += 1;
        self.young.push((self.last, now));
        Presence { number: self.last, is_alone }
    }

    fn leave(&mut self, number: u64) {
        self.young.retain(|(young, _)| *young != number);
    }

    /// Notes how long a birth took that was waited for on the runtime.
    fn note(&mut self, now: Instant, took: Duration) {
        if took > SOON {
            self.busy_until = Some(now + BUSY);
        }
    }
}

fn crowd() -> MutexGuard<'static, Crowd> {
    CROWD.lock().unwrap_or_else(PoisonError::into_inner)
}

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
    number: u64,
    /// Whether nobody else had just begun when it came.
    is_alone: bool,
}

impl Presence {
    pub(super) fn begin() -> Self {
        crowd().enter(Instant::now())
    }
}

impl Drop for Presence {
    fn drop(&mut self) {
        crowd().leave(self.number);
    }
}

/// Starts a process. When this future is dropped, there is none.
pub(super) async fn start(
    launch: Launch,
    shell: OwnShell,
    presence: &Presence,
) -> Result<Process, StartError> {
    if presence.is_alone && shell == OwnShell::Yes && launch.is_quick() {
        let begun = Instant::now();
        let started = process::spawn(&launch);
        let now = Instant::now();
        crowd().note(now, now - begun);
        return started;
    }
    let program = launch.program.to_string_lossy().into_owned();
    let (tell, mut told) = oneshot::channel();
    let runtime = Handle::current();
    let bear = move || {
        if tell.is_closed() {
            return;
        }
        let _inside = runtime.enter();
        // Where nobody waits any more, it is ended.
        drop(tell.send(process::spawn(&launch).map(Newborn::new)));
    };
    let why = |why: String| StartError::System { program: program.clone(), why };
    midwife::call(Box::new(bear))
        .map_err(|error| StartError::from_system(program.clone(), &error))?;
    let mut patience = midwife::PATIENCE;
    let told = loop {
        if let Ok(told) = timeout(patience, &mut told).await {
            break told;
        }
        process::child_defaults::restore_oom_score();
        patience = match midwife::relieve() {
            Line::Waiting => midwife::PATIENCE,
            // Its own takes long, and nobody else needs to be asked for.
            Line::Empty => 2 * patience,
        };
    };
    let newborn = told.map_err(|_| why("its start broke off".to_owned()))??;
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
        let alone = Presence { number: 0, is_alone: true };
        let elsewhere = start(launch("exit 3"), OwnShell::No, &alone).await.unwrap();
        assert!(launch("exit 4").is_quick(), "its directory was seen");
        let here = start(launch("exit 4"), OwnShell::Yes, &alone).await.unwrap();
        let code = |exit: process::Exit| exit.status;
        assert_eq!(code(elsewhere.leader.wait().await.unwrap()), process::ExitKind::Code(3));
        assert_eq!(code(here.leader.wait().await.unwrap()), process::ExitKind::Code(4));
    }

    #[test]
    fn who_comes_beside_one_that_has_just_begun_is_not_alone() {
        let mut crowd = Crowd { young: Vec::new(), last: 0, busy_until: None };
        let start = Instant::now();
        let enter = |crowd: &mut Crowd, millis| {
            let presence = crowd.enter(start + Duration::from_millis(millis));
            let (number, is_alone) = (presence.number, presence.is_alone);
            // It is of this crowd, not of that of the program.
            std::mem::forget(presence);
            (number, is_alone)
        };
        let (first, alone) = enter(&mut crowd, 0);
        assert!(alone && !enter(&mut crowd, 49).1);
        assert!(enter(&mut crowd, 200).1, "those before are no longer young");
        let (last, _) = enter(&mut crowd, 210);
        for number in [first, last - 1, last] {
            crowd.leave(number);
        }
        assert!(enter(&mut crowd, 211).1, "they have ended");
        crowd.note(start + Duration::from_millis(300), SOON);
        assert!(enter(&mut crowd, 400).1);
        crowd.note(start + Duration::from_millis(500), SOON * 2);
        assert!(!enter(&mut crowd, 999).1 && enter(&mut crowd, 1050).1, "the host was busy");
    }

    #[tokio::test]
    async fn a_process_that_nobody_takes_is_ended() {
        let process = process::spawn(&launch("sleep 300")).unwrap();
        let tree = process.tree.clone();
        drop(Newborn::new(process));
        assert_eq!(tree.alive(), Vec::<u32>::new());
    }
}
