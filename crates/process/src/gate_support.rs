//! A probe whether this host can watch the starts of a job's programs.

use std::ffi::CString;
use std::os::fd::AsFd as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use std::{fs, io};

use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;
use shellyard_policy::gate::GateRules;

use crate::confinement::{Backend, Confinement, ResourceLimits};
use crate::job_resources::SandboxResources;
use crate::job_user::JobUser;
use crate::keeper::KeeperClient;
use crate::load::ProbeError;
use crate::sandbox::seccomp::SocketRules;
use crate::sandbox::seccomp_filter::SeccompFilter;
use crate::sandbox_support::{FeatureProbe, KernelFeature};
use crate::shim::{Isolation, Role, ShimPlan, StartCounts};
use crate::shim_link::{ShimLink, StartFailure};
use crate::spawn_request::{SandboxRules, SpawnFailure, SpawnRequest, SpawnStep};

/// The longest wait for the end of the process that a probe starts.
const PROBE_LIMIT: Duration = Duration::from_secs(30);

/// The exec gate on this host. It is probed by its first query: a shell is started that starts another.
#[derive(Debug, Clone)]
pub struct GateSupport(KernelFeature<()>);

impl GateSupport {
    /// Returns the support for jobs of this user; `None` is the user of the server.
    #[must_use]
    pub fn new(keeper: KeeperClient, user: Option<JobUser>) -> Self {
        let probe = FeatureProbe::new(move || try_gate(&keeper, user.clone()));
        Self(KernelFeature::Probed(Arc::new(probe)))
    }

    /// Tells whether jobs can have an exec gate. Blocks if that still has to be tried.
    ///
    /// # Errors
    /// A text that says what is missing.
    pub fn check(&self) -> Result<(), &str> {
        self.0.check().map(|&()| ())
    }
}

fn try_gate(keeper: &KeeperClient, user: Option<JobUser>) -> Result<(), ProbeError> {
    let (started, counts) =
        start_gated(keeper, user).map_err(|error| ProbeError::new(&error, error.to_string()))?;
    match started {
        Ok(()) if counts.judged >= 2 && counts.refused == 0 => Ok(()),
        Ok(()) => Err(ProbeError::Missing(format!(
            "a program could not be traced from its start ({}; {} of {} starts failed); a container's seccomp profile or a missing CAP_SYS_PTRACE forbids it",
            describe_yama(),
            counts.refused,
            counts.judged
        ))),
        Err(StartFailure::Step(failure)) => {
            Err(ProbeError::new(&failure.errno.into(), describe_missing(failure)))
        }
        // Killed, or without room for its descriptors: the next job tries again.
        Err(StartFailure::ShimLost) => Err(ProbeError::NoResources),
    }
}

/// The setting by which a host limits tracing.
const YAMA: &str = "kernel.yama.ptrace_scope";

fn describe_yama() -> String {
    match fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope") {
        Ok(scope) => format!("{YAMA} is {}", scope.trim()),
        Err(_) => format!("this kernel has no {YAMA}"),
    }
}

/// Explains what a failed step says about the host.
fn describe_missing(failure: SpawnFailure) -> String {
    let word = failure.describe();
    match (failure.step, failure.errno) {
        (SpawnStep::Gate, Errno::BUSY) => format!(
            "{word}: a program around this one watches system calls already (a container runtime such as Daytona's or WSL's), and the kernel allows one"
        ),
        (SpawnStep::Gate, Errno::PERM) => {
            format!("{word}: {} or a container's seccomp profile forbids tracing", describe_yama())
        }
        (SpawnStep::Gate, Errno::NOSYS | Errno::INVAL) => {
            format!("{word}: the kernel is older than 5.9 or not Linux itself (gVisor)")
        }
        _ => word,
    }
}

/// Starts a shell that starts another one, with a gate that refuses nothing.
fn start_gated(
    keeper: &KeeperClient,
    user: Option<JobUser>,
) -> io::Result<(Result<(), StartFailure>, StartCounts)> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let directory = open("/", flags, Mode::empty())?;
    let output = open("/dev/null", OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?;
    let confinement = Confinement::NONE;
    let request = SpawnRequest {
        path: CString::from(c"/bin/sh"),
        argv: [c"sh", c"-c", c"/bin/sh -c :; :"].map(CString::from).into(),
        env: Vec::new(),
        terminal: None,
        user,
        sandbox: SandboxRules {
            confinement,
            backend: Backend::Nothing,
            sockets: SocketRules::new(confinement, Backend::Nothing, None),
            limits: ResourceLimits::NONE,
            mounts: Vec::new(),
            writable: None,
            protected_pids: Vec::new(),
        },
    };
    let plan = ShimPlan {
        request,
        filters: SeccompFilter::default(),
        max_tasks: None,
        open_files: (None, None),
        directory: Path::new("/").to_owned(),
        isolation: Isolation::None,
        deadline: None,
        ends_input: true,
        saved: String::new(),
        gate: Some(GateRules::default()),
    };
    let files = vec![(Role::Directory, directory.as_fd()), (Role::Stdout, output.as_fd())];
    let link = ShimLink::launch(keeper, "", &plan, files, SandboxResources::default())?;
    let started = link.wait_for_start();
    link.wait_until_over(PROBE_LIMIT);
    let counts = link.start_counts();
    Ok((started, counts))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::host;

    #[tokio::test]
    async fn this_host_can_watch_the_starts_of_programs() {
        let support = GateSupport::new(host().keeper().clone(), None);
        assert_eq!(support.check(), Ok(()));
    }

    #[test]
    fn what_is_missing_is_said() {
        let say = |errno| describe_missing(SpawnStep::Gate.failed(errno));
        assert!(say(Errno::BUSY).contains("watches system calls already"));
        assert!(say(Errno::NOSYS).contains("older than 5.9"));
        assert!(say(Errno::PERM).contains(YAMA));
    }
}
