//! The choice of a job's backend: the strongest that the host supports.

use std::ffi::CString;
use std::os::fd::AsFd as _;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use std::{fmt, io};

use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;
use thiserror::Error;

use crate::confinement::{
    Backend, Confinement, GrantedConfinement, NetworkAccess, ResourceLimits, SandboxProfile,
};
use crate::job_resources::SandboxResources;
use crate::keeper::KeeperClient;
use crate::load::ProbeError;
use crate::sandbox::kernel_settings::{self, are_at_stake};
use crate::sandbox::mounts::Mount;
use crate::sandbox::restrictions;
use crate::sandbox::seccomp::{self, SocketRules};
use crate::sandbox::seccomp_filter::SeccompFilter;
use crate::shim::{Isolation, Role, ShimPlan};
use crate::shim_link::{ShimLink, StartFailure};
use crate::spawn_request::{SandboxRules, SpawnFailure, SpawnRequest, SpawnStep};

/// The sandbox features of this host. A probe may start a process, so each feature is probed only
/// when it is needed.
#[derive(Debug, Clone)]
pub struct SandboxSupport {
    /// Namespaces of users, processes, mounts and networks, created by an ordinary user.
    pub namespaces: KernelFeature<()>,
    /// Landlock of a version that limits all ways of writing; the value is that version.
    pub landlock: KernelFeature<u32>,
    /// Filters of system calls.
    pub seccomp: KernelFeature<()>,
    /// Settings of the kernel (`/proc/sys`) that jobs without limited files cannot write: a server of
    /// root makes them read-only, to others the kernel refuses them.
    pub kernel_settings: KernelFeature<()>,
}

/// One kernel feature; the error text says what is missing.
#[derive(Debug, Clone)]
pub enum KernelFeature<T> {
    /// A result that is already known.
    Known(Result<T, String>),
    /// A probe that the first caller runs; the result is kept.
    Probed(Arc<FeatureProbe<T>>),
}

impl<T> KernelFeature<T> {
    /// Returns the value of the feature. Blocks if it still has to be probed.
    ///
    /// # Errors
    /// A text that says what is missing.
    pub fn check(&self) -> Result<&T, &str> {
        let found = match self {
            Self::Known(found) => found,
            Self::Probed(trial) => trial.get(),
        };
        found.as_ref().map_err(String::as_str)
    }
}

impl<T> From<Result<T, String>> for KernelFeature<T> {
    fn from(found: Result<T, String>) -> Self {
        Self::Known(found)
    }
}

impl SandboxSupport {
    /// Returns the features without those that are stronger than this backend.
    #[must_use]
    pub fn limited_to(mut self, strongest: Backend) -> Self {
        fn off<T>() -> KernelFeature<T> {
            KernelFeature::Known(Err("switched off by confinement.backend".to_owned()))
        }
        match strongest {
            Backend::Namespaces => return self,
            Backend::Landlock => {}
            Backend::Seccomp => self.landlock = off(),
            Backend::Nothing => {
                self.landlock = off();
                self.seccomp = off();
            }
        }
        self.namespaces = off();
        self
    }
}

/// The handling of a job whose confinement this host cannot provide.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnUnavailable {
    /// The job is refused and not run.
    Refuse,
    /// The job is run with what the host can provide, and this is reported.
    Degrade,
}

/// The error that this host cannot provide a requested confinement.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "this host cannot give the confinement `{requested}`: {missing}; `shellyard doctor` says what to change, or set confinement.on_unavailable = \"degrade\" to run with less"
)]
pub struct ConfinementUnavailable {
    /// The requested confinement.
    pub requested: Confinement,
    /// The missing features, with reasons.
    pub missing: String,
}

/// Returns the confinement that a job gets for this request.
///
/// # Errors
/// If the host cannot provide it, and less is not allowed.
pub fn grant_confinement(
    requested: Confinement,
    support: &SandboxSupport,
    otherwise: OnUnavailable,
) -> Result<GrantedConfinement, ConfinementUnavailable> {
    match strongest_backend(requested, support) {
        Ok(backend) => Ok(GrantedConfinement { requested, effective: requested, backend }),
        Err(missing) => match otherwise {
            OnUnavailable::Refuse => Err(ConfinementUnavailable { requested, missing }),
            OnUnavailable::Degrade => Ok(degrade(requested, support)),
        },
    }
}

/// Returns the strongest backend that can provide all of it, or what is missing.
fn strongest_backend(requested: Confinement, support: &SandboxSupport) -> Result<Backend, String> {
    if requested == Confinement::NONE {
        return Ok(Backend::Nothing);
    }
    if let Err(why) = support.seccomp.check() {
        return Err(format!("no filter of system calls ({why})"));
    }
    if !requested.profile.restricts_files() {
        if are_at_stake(requested.profile, Backend::Seccomp) {
            support.kernel_settings.check()?;
        }
        return Ok(Backend::Seccomp);
    }
    let Err(namespaces) = support.namespaces.check() else { return Ok(Backend::Namespaces) };
    match support.landlock.check() {
        Ok(_) => Ok(Backend::Landlock),
        Err(landlock) => Err(format!("no namespaces ({namespaces}) and no Landlock ({landlock})")),
    }
}

/// Returns the confinement that is left if the host cannot provide all of it.
fn degrade(requested: Confinement, support: &SandboxSupport) -> GrantedConfinement {
    let profile = requested.profile.min(SandboxProfile::Default);
    let is_writable = |profile| {
        are_at_stake(profile, Backend::Seccomp) && support.kernel_settings.check().is_err()
    };
    let profile = Some(profile).filter(|it| !is_writable(*it)).unwrap_or(SandboxProfile::None);
    let (effective, backend) = match support.seccomp.check() {
        Ok(()) => (Confinement { profile, ..requested }, Backend::Seccomp),
        Err(_) => {
            let profile = SandboxProfile::None;
            (Confinement { profile, network: NetworkAccess::On }, Backend::Nothing)
        }
    };
    GrantedConfinement { requested, effective, backend }
}

// Probes of this host's features.

impl SandboxSupport {
    /// Describes the features of this host: each one is probed by its first query. Namespaces are
    /// probed by starting a process and waiting for its end.
    pub(crate) fn lazy_probes(keeper: KeeperClient) -> Self {
        fn tried<T>(
            try_out: impl Fn() -> Result<T, ProbeError> + Send + Sync + 'static,
        ) -> KernelFeature<T> {
            KernelFeature::Probed(Arc::new(FeatureProbe::new(try_out)))
        }
        Self {
            namespaces: tried(move || try_namespaces(&keeper)),
            landlock: tried(restrictions::probe_landlock),
            seccomp: tried(seccomp::probe),
            kernel_settings: tried(kernel_settings::probe),
        }
    }
}

/// A feature that is probed once. The result is kept, unless the system gave no thread,
/// process, file or memory to probe with: then the next query tries again.
pub struct FeatureProbe<T> {
    try_out: Box<dyn Fn() -> Result<T, ProbeError> + Send + Sync>,
    known: OnceLock<Result<T, String>>,
    untried: OnceLock<Result<T, String>>,
}

impl<T> FeatureProbe<T> {
    pub(crate) fn new(try_out: impl Fn() -> Result<T, ProbeError> + Send + Sync + 'static) -> Self {
        Self { try_out: Box::new(try_out), known: OnceLock::new(), untried: OnceLock::new() }
    }

    fn get(&self) -> &Result<T, String> {
        if let Some(known) = self.known.get() {
            return known;
        }
        match (self.try_out)() {
            Ok(found) => self.known.get_or_init(|| Ok(found)),
            Err(ProbeError::Missing(why)) => self.known.get_or_init(|| Err(why)),
            Err(ProbeError::NoResources) => self.untried.get_or_init(|| Err(UNTRIED.to_owned())),
        }
    }
}

impl<T: fmt::Debug> fmt::Debug for FeatureProbe<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FeatureProbe").field("known", &self.known).finish_non_exhaustive()
    }
}

const UNTRIED: &str = "the system gave no process, file or memory to try it out with; raise the limits on processes \
     and open files, or try again later";

/// The longest wait for the end of the process that a probe starts.
const PROBE_LIMIT: Duration = Duration::from_secs(30);

/// Starts a process the same way as a job whose file access is restricted.
fn try_namespaces(keeper: &KeeperClient) -> Result<(), ProbeError> {
    let no_directory = |error| ProbeError::new(&error, format!("no temporary directory: {error}"));
    let place = tempfile::tempdir().map_err(no_directory)?;
    let started = start_in_namespaces(keeper, place.path())
        .map_err(|error| ProbeError::new(&error, error.to_string()))?;
    started.map_err(|failure| match failure {
        StartFailure::Step(failure) => {
            ProbeError::new(&failure.errno.into(), describe_missing(failure))
        }
        StartFailure::ShimLost => ProbeError::NoResources,
    })
}

fn start_in_namespaces(
    keeper: &KeeperClient,
    place: &Path,
) -> io::Result<Result<(), StartFailure>> {
    let place = place.canonicalize()?;
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let directory = open(&place, flags, Mode::empty())?;
    let output = open("/dev/null", OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?;
    let confinement =
        Confinement { profile: SandboxProfile::WorkspaceWrite, network: NetworkAccess::Off };
    let request = SpawnRequest {
        path: CString::from(c"/bin/sh"),
        argv: [c"sh", c"-c", c":"].map(CString::from).into(),
        env: Vec::new(),
        terminal: None,
        user: None,
        sandbox: SandboxRules {
            confinement,
            backend: Backend::Namespaces,
            sockets: SocketRules::new(confinement, Backend::Namespaces, None),
            limits: ResourceLimits::NONE,
            mounts: vec![Mount::Writable(place.clone())],
            writable: None,
            protected_pids: Vec::new(),
        },
    };
    let plan = ShimPlan {
        request,
        filters: SeccompFilter::default(),
        max_tasks: None,
        open_files: (None, None),
        directory: place,
        isolation: Isolation::Namespaces(NetworkAccess::Off),
        deadline: None,
        ends_input: true,
        saved: String::new(),
        gate: None,
    };
    let files = vec![(Role::Directory, directory.as_fd()), (Role::Stdout, output.as_fd())];
    let link = ShimLink::launch(keeper, "", &plan, files, SandboxResources::default())?;
    let started = link.wait_for_start();
    link.wait_until_over(PROBE_LIMIT);
    Ok(started)
}

/// Explains what a failed step says about the host.
fn describe_missing(SpawnFailure { step, errno }: SpawnFailure) -> String {
    let word = io::Error::from(errno);
    match (step, errno) {
        (
            SpawnStep::Namespaces
            | SpawnStep::UserMap
            | SpawnStep::Network
            | SpawnStep::Mounts
            | SpawnStep::Processes,
            Errno::PERM | Errno::ACCESS,
        ) => format!(
            "{} ({word}): kernel.apparmor_restrict_unprivileged_userns, kernel.unprivileged_userns_clone, or a container's seccomp profile or masked /proc forbids it",
            step.description()
        ),
        (SpawnStep::Namespaces, Errno::NOSPC) => {
            format!("{} ({word}): user.max_user_namespaces is used up or 0", step.description())
        }
        (SpawnStep::Namespaces, Errno::INVAL | Errno::NOSYS) => {
            format!("{} ({word}): this kernel was built without them", step.description())
        }
        _ => format!("{} ({word})", step.description()),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    const OFF: [Confinement; 2] = [
        Confinement { profile: SandboxProfile::None, network: NetworkAccess::Off },
        Confinement { profile: SandboxProfile::Default, network: NetworkAccess::Off },
    ];
    const FILES: [Confinement; 2] = [
        Confinement { profile: SandboxProfile::WorkspaceWrite, network: NetworkAccess::Off },
        Confinement { profile: SandboxProfile::ReadOnly, network: NetworkAccess::On },
    ];

    fn all() -> SandboxSupport {
        SandboxSupport {
            namespaces: Ok(()).into(),
            landlock: Ok(7).into(),
            seccomp: Ok(()).into(),
            kernel_settings: Ok(()).into(),
        }
    }

    /// A feature that must not be probed.
    fn untried<T>() -> KernelFeature<T> {
        KernelFeature::Probed(Arc::new(FeatureProbe::new(|| {
            panic!("the feature must not be probed")
        })))
    }

    fn backend(requested: Confinement, support: &SandboxSupport) -> Backend {
        let granted = grant_confinement(requested, support, OnUnavailable::Refuse).unwrap();
        assert_eq!((granted.requested, granted.effective), (requested, requested));
        granted.backend
    }

    #[test]
    fn the_strongest_available_backend_is_chosen() {
        for requested in FILES {
            assert_eq!(backend(requested, &all()), Backend::Namespaces);
            assert_eq!(backend(requested, &all().limited_to(Backend::Landlock)), Backend::Landlock);
        }
        for requested in OFF {
            assert_eq!(backend(requested, &all().limited_to(Backend::Seccomp)), Backend::Seccomp);
        }
        let nothing = all().limited_to(Backend::Nothing);
        assert_eq!(backend(Confinement::NONE, &nothing), Backend::Nothing);
    }

    #[test]
    fn only_required_features_are_probed() {
        let untried = SandboxSupport {
            namespaces: untried(),
            landlock: untried(),
            seccomp: untried(),
            kernel_settings: untried(),
        };
        assert_eq!(backend(Confinement::NONE, &untried), Backend::Nothing);
        let filters = SandboxSupport { seccomp: Ok(()).into(), ..untried };
        assert_eq!(backend(OFF[0], &filters), Backend::Seccomp);
        let namespaces = SandboxSupport { namespaces: Ok(()).into(), ..filters.clone() };
        assert_eq!(backend(FILES[0], &namespaces), Backend::Namespaces);
        let settings = SandboxSupport { kernel_settings: Ok(()).into(), ..filters };
        assert_eq!(backend(OFF[1], &settings), Backend::Seccomp);
    }

    #[test]
    fn the_profile_default_is_not_given_if_settings_of_the_kernel_can_be_written() {
        let why = "root may write /proc/sys here";
        let support = SandboxSupport { kernel_settings: Err(why.to_owned()).into(), ..all() };
        let refused = grant_confinement(OFF[1], &support, OnUnavailable::Refuse).unwrap_err();
        assert_eq!(refused.missing, why);
        let granted = grant_confinement(OFF[1], &support, OnUnavailable::Degrade).unwrap();
        assert_eq!((granted.effective, granted.backend), (OFF[0], Backend::Seccomp));
        let weak = support.clone().limited_to(Backend::Seccomp);
        let granted = grant_confinement(FILES[0], &weak, OnUnavailable::Degrade).unwrap();
        assert_eq!((granted.effective, granted.backend), (OFF[0], Backend::Seccomp));
        // These do without.
        assert_eq!(backend(FILES[0], &support), Backend::Namespaces);
        assert_eq!(backend(OFF[0], &support), Backend::Seccomp);
    }

    #[test]
    fn an_unavailable_confinement_is_refused_with_what_is_missing() {
        let support = SandboxSupport {
            namespaces: Err("not permitted".to_owned()).into(),
            landlock: Err("not in this kernel".to_owned()).into(),
            ..all()
        };
        let refused = grant_confinement(FILES[0], &support, OnUnavailable::Refuse).unwrap_err();
        let text = refused.to_string();
        assert!(text.contains("`workspace-write, network off`"), "{text}");
        assert!(text.contains("not permitted") && text.contains("not in this kernel"), "{text}");
    }

    #[test]
    fn with_degrade_a_job_gets_what_is_available_and_is_marked_as_degraded() {
        let weak = all().limited_to(Backend::Seccomp);
        let granted = grant_confinement(FILES[0], &weak, OnUnavailable::Degrade).unwrap();
        let left = Confinement { profile: SandboxProfile::Default, network: NetworkAccess::Off };
        assert_eq!((granted.effective, granted.backend), (left, Backend::Seccomp));
        assert!(granted.is_degraded());
        let nothing = all().limited_to(Backend::Nothing);
        let granted = grant_confinement(OFF[1], &nothing, OnUnavailable::Degrade).unwrap();
        assert_eq!((granted.effective, granted.backend), (Confinement::NONE, Backend::Nothing));
        assert!(granted.is_degraded());
    }

    #[test]
    fn a_probe_that_could_not_run_is_repeated_and_a_result_is_kept() {
        let results = Mutex::new(vec![
            Ok(3),
            Err(ProbeError::new(&Errno::NOMEM.into(), String::new())),
            Err(ProbeError::new(&Errno::MFILE.into(), String::new())),
            Err(ProbeError::new(&Errno::AGAIN.into(), String::new())),
        ]);
        let trial = FeatureProbe::new(move || results.lock().unwrap().pop().unwrap());
        for _ in 0..3 {
            assert_eq!(trial.get(), &Err(UNTRIED.to_owned()));
        }
        assert_eq!(trial.get(), &Ok(3));
        assert_eq!(trial.get(), &Ok(3));
        let missing = || Err(ProbeError::new(&Errno::NOSYS.into(), "not built in".to_owned()));
        let trial: FeatureProbe<u32> = FeatureProbe::new(missing);
        for _ in 0..2 {
            assert_eq!(trial.get(), &Err("not built in".to_owned()));
        }
    }
}
