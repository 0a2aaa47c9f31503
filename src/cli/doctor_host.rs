//! What this host gives to every job: a shell, programs, room for files, limits.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use rustix::fs::{StatVfs, statvfs};
use rustix::process::{Resource, getrlimit};

use super::doctor::Finding;
use crate::confinement::{GrantedConfinement, ResourceLimits};
use crate::environment::JobEnvironment;
use crate::process::cgroup::Delegation;
use crate::process::shell::{DESKTOP_PATH, is_on_path, read_login_path};
use crate::process::shell::{ShellChoice, bash_path};
use crate::service::{ConfinementRules, ConfinementTerms, SandboxSupport};
use crate::size;

/// What agents most often call.
const TOOLS: [&str; 18] = [
    "git", "cargo", "rustc", "node", "npm", "npx", "pnpm", "bun", "deno", "python3", "uv", "go",
    "java", "docker", "kubectl", "make", "gh", "rg",
];

/// Variables by which a login shell finds its start-up files.
const LOGIN_VARIABLES: [&str; 5] = ["HOME", "USER", "LOGNAME", "SHELL", "XDG_CONFIG_HOME"];

/// Below this a build soon fails.
const LITTLE_SPACE: u64 = 1 << 30;
const FEW_FILES: u64 = 10_000;
const FEW_OPEN_FILES: u64 = 1024;
const FEW_PROCESSES: u64 = 512;

/// The shell that runs command text.
pub(super) fn shell_finding(shell: &ShellChoice) -> Finding {
    const WHAT: &str = "shell";
    match shell {
        ShellChoice::Auto => match bash_path() {
            Some(bash) => Finding::ok(WHAT, format!("{bash}; /bin/sh for plain lines")),
            None => Finding::warn(
                WHAT,
                "/bin/sh for all command text: there is no bash",
                "install bash; agents write for it",
            ),
        },
        ShellChoice::Path(path) if Path::new(path).exists() => Finding::ok(WHAT, path.as_str()),
        ShellChoice::Path(path) => {
            Finding::fail(WHAT, format!("there is no {path}"), "correct job.shell, or remove it")
        }
    }
}

/// What a login shell knows that a client with windows does not.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum LoginPath {
    /// Its PATH, and the tools that are found only there.
    Known { path: OsString, missed: Vec<&'static str> },
    /// It did not tell.
    Unknown,
}

/// Asks the login shell.
pub(super) fn only_by_login(shell: Option<&Path>, environment: &JobEnvironment) -> LoginPath {
    let is_needed = |name: &OsStr| LOGIN_VARIABLES.iter().any(|known| name == *known);
    let kept = environment.kept.iter().filter(|(name, _)| is_needed(name)).cloned();
    let kept: Vec<_> = kept.collect();
    let Some(path) = shell.and_then(|shell| read_login_path(shell, &kept)) else {
        return LoginPath::Unknown;
    };
    let only_there =
        |tool: &&str| is_on_path(tool, &path) && !is_on_path(tool, OsStr::new(DESKTOP_PATH));
    let missed = TOOLS.into_iter().filter(only_there).collect();
    LoginPath::Known { path, missed }
}

/// What a server finds that a client with windows starts.
pub(super) fn path_finding(login: &LoginPath) -> Finding {
    const WHAT: &str = "path";
    match login {
        LoginPath::Unknown => Finding::ok(
            WHAT,
            format!(
                "a client with windows starts us with {DESKTOP_PATH}; the login shell does not tell its own"
            ),
        ),
        LoginPath::Known { missed, .. } if missed.is_empty() => Finding::ok(
            WHAT,
            format!(
                "a client with windows starts us with {DESKTOP_PATH}, which has all tools that the login shell finds"
            ),
        ),
        LoginPath::Known { path, missed } => Finding::warn(
            WHAT,
            format!(
                "a client with windows starts us with {DESKTOP_PATH}; found only by the login shell: {}",
                missed.join(" ")
            ),
            &format!("set environment.set = [\"PATH={}\"]", path.display()),
        ),
    }
}

/// How much room there is for temporary files.
pub(super) fn temp_finding(dir: &Path) -> Finding {
    match statvfs(dir) {
        Ok(told) => room_finding(dir, &told),
        Err(error) => Finding::fail(
            "temp",
            format!("{} cannot be used ({error})", dir.display()),
            "set TMPDIR to a directory that can be written",
        ),
    }
}

fn room_finding(dir: &Path, told: &StatVfs) -> Finding {
    let free = told.f_bavail.saturating_mul(told.f_frsize);
    // Some file systems make inodes as they need them, and tell none.
    let files = (told.f_files > 0).then_some(told.f_favail);
    let inodes = files.map(|files| format!(", {files} inodes")).unwrap_or_default();
    let free_mib = size::display(free >> 20 << 20);
    let detail = format!("{} has {free_mib}{inodes} free", dir.display());
    if free < LITTLE_SPACE || files.is_some_and(|files| files < FEW_FILES) {
        Finding::warn("temp", detail, "free some, or set TMPDIR to a larger file system")
    } else {
        Finding::ok("temp", detail)
    }
}

/// What the system lets this user's processes have; `None`: no bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServerRlimits {
    open_files: Option<u64>,
    processes: Option<u64>,
    file_size: Option<u64>,
}

/// What the system lets us have at the most.
#[must_use]
pub fn read_rlimits() -> ServerRlimits {
    let most = |resource| getrlimit(resource).maximum;
    ServerRlimits {
        open_files: most(Resource::Nofile),
        processes: most(Resource::Nproc),
        file_size: most(Resource::Fsize),
    }
}

pub(super) fn limits_finding(limits: ServerRlimits) -> Finding {
    let ServerRlimits { open_files, processes, file_size } = limits;
    let words = |bound: Option<u64>| bound.map_or("unlimited".to_owned(), |most| most.to_string());
    let detail = format!(
        "open files {}, processes {}, file size {}",
        words(open_files),
        words(processes),
        file_size.map_or("unlimited".to_owned(), size::display)
    );
    let is_low = |bound: Option<u64>, least| bound.is_some_and(|most| most < least);
    if is_low(open_files, FEW_OPEN_FILES)
        || is_low(processes, FEW_PROCESSES)
        || is_low(file_size, LITTLE_SPACE)
    {
        Finding::warn("limits", detail, "raise them by ulimit -n, -u and -f, or for the service")
    } else {
        Finding::ok("limits", detail)
    }
}

// Sandboxing on this host.

/// What this host has, each by itself. A thing that is missing is a warning: whether jobs get what
/// they are to get is another line.
pub(super) fn means_findings(offer: &SandboxSupport, cgroup: &Delegation) -> [Finding; 4] {
    const KERNEL: &str = "a kernel from 5.13 on has it; add landlock to the boot option lsm=, or \
                          let the container's seccomp profile pass its system calls";
    const USERS: &str = "set kernel.apparmor_restrict_unprivileged_userns=0 and \
                         user.max_user_namespaces above 0 by sysctl; in a container, let its \
                         seccomp profile pass unshare and clone with new namespaces";
    const FILTERS: &str = "a kernel built with CONFIG_SECCOMP_FILTER has them";
    let means = |what, found: Result<String, &str>, fix| match found {
        Ok(detail) => Finding::ok(what, detail),
        Err(why) => Finding::warn(what, why, fix),
    };
    let namespaces = offer.namespaces.check().map(|()| "jobs can get their own".to_owned());
    let landlock = offer.landlock.check().map(|abi| format!("ABI {abi}"));
    let seccomp = offer.seccomp.check().map(|()| "system calls can be filtered".to_owned());
    [
        means("namespaces", namespaces, USERS),
        means("landlock", landlock, KERNEL),
        means("seccomp", seccomp, FILTERS),
        cgroup_finding(cgroup),
    ]
}

fn cgroup_finding(cgroup: &Delegation) -> Finding {
    const WHAT: &str = "cgroup";
    match cgroup.fix() {
        None => Finding::ok(WHAT, cgroup.to_string()),
        Some(fix) => {
            let detail = format!("{cgroup}; a watchdog bounds memory, CPU time and processes");
            Finding::warn(WHAT, detail, fix)
        }
    }
}

/// What jobs get about which nothing else is said.
pub(super) fn effective_finding(confining: &ConfinementRules) -> Finding {
    const WHAT: &str = "confinement";
    const DEGRADED: &str = "correct what is missing above, or set confinement.profile to what is \
                            given";
    const REFUSED: &str = "correct what is missing above, set a looser confinement.profile, or \
                           confinement.on_unavailable = \"degrade\"";
    match confining.granted(ConfinementTerms::NOTHING) {
        Err(unavailable) => {
            let asked = unavailable.requested;
            let missing = unavailable.missing;
            Finding::fail(WHAT, format!("no job can run: {asked} is set, but {missing}"), REFUSED)
        }
        Ok((granted, limits)) if granted.is_degraded() => {
            let detail = format!("{}; {} was asked for", words(granted, limits), granted.requested);
            Finding::warn(WHAT, detail, DEGRADED)
        }
        Ok((granted, limits)) => Finding::ok(WHAT, words(granted, limits)),
    }
}

/// `jobs get default, network on, by seccomp; at most 17 GiB of memory, 512 processes`
fn words(granted: GrantedConfinement, limits: ResourceLimits) -> String {
    let bounds = [
        limits.memory.map(|bytes| format!("{} of memory", size::display(bytes >> 20 << 20))),
        limits.cpu.map(|time| format!("{}s of CPU time", time.as_secs_f64())),
        limits.processes.map(|count| format!("{count} processes")),
        limits.open_files.map(|count| format!("{count} open files")),
        limits.file_size.map(|bytes| format!("{} in a file", size::display(bytes))),
    ];
    let bounds: Vec<String> = bounds.into_iter().flatten().collect();
    let most = if bounds.is_empty() { "no limits".to_owned() } else { bounds.join(", ") };
    format!("jobs get {}, by {}; at most {most}", granted.effective, granted.backend.word())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::doctor::Level;

    #[test]
    fn tools_that_only_a_login_shell_finds_are_named_with_the_fix() {
        let missed = vec!["cargo", "node"];
        let found = path_finding(&LoginPath::Known { path: "/h/.cargo/bin:/bin".into(), missed });
        assert_eq!(found.level, Level::Warn);
        assert!(found.detail.ends_with("only by the login shell: cargo node"), "{found:?}");
        assert!(found.fix.is_some_and(|fix| fix.contains("PATH=/h/.cargo/bin:/bin")));
        let all = LoginPath::Known { path: OsString::new(), missed: Vec::new() };
        assert_eq!(path_finding(&all).level, Level::Ok);
        assert_eq!(path_finding(&LoginPath::Unknown).level, Level::Ok);
    }

    #[test]
    fn low_limits_are_warned_of() {
        let none = ServerRlimits { open_files: None, processes: None, file_size: None };
        assert_eq!(limits_finding(none).level, Level::Ok);
        let found = limits_finding(ServerRlimits { open_files: Some(256), ..none });
        assert_eq!(found.level, Level::Warn);
        assert!(found.detail.starts_with("open files 256, processes unlimited"), "{found:?}");
    }

    #[test]
    fn a_shell_or_a_directory_that_is_not_there_fails() {
        assert_eq!(shell_finding(&ShellChoice::Path("/no/sh".to_owned())).level, Level::Fail);
        assert_eq!(shell_finding(&ShellChoice::Path("/bin/sh".to_owned())).level, Level::Ok);
        assert_eq!(temp_finding(Path::new("/no/such/place")).level, Level::Fail);
    }
}

#[cfg(test)]
mod confinement_tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::cli::doctor::Level;
    use crate::confinement::{Backend, SandboxProfile};
    use crate::process::cgroup::Controller;
    use crate::service::{Bound, LimitTerms, OnUnavailable};

    fn confining(profile: SandboxProfile, strongest: Backend) -> ConfinementRules {
        let processes = Some(Bound::AtMost(512));
        let limits = LimitTerms { processes, ..LimitTerms::NOTHING };
        let offer = SandboxSupport {
            namespaces: Ok(()).into(),
            landlock: Ok(7).into(),
            seccomp: Ok(()).into(),
        };
        ConfinementRules {
            all: ConfinementTerms { profile: Some(profile), network: None, limits },
            tenants: BTreeMap::new(),
            lanes: BTreeMap::new(),
            offer: offer.limited_to(strongest),
            on_unavailable: OnUnavailable::Refuse,
        }
    }

    #[test]
    fn what_jobs_get_is_told_with_its_means() {
        let found = effective_finding(&confining(SandboxProfile::Default, Backend::Namespaces));
        assert_eq!(found.level, Level::Ok);
        let told = "jobs get default, network on, by seccomp; at most 512 processes";
        assert_eq!(found.detail, told);
    }

    #[test]
    fn what_cannot_be_given_fails_unless_less_will_do() {
        let mut weak = confining(SandboxProfile::ReadOnly, Backend::Seccomp);
        let found = effective_finding(&weak);
        assert_eq!(found.level, Level::Fail);
        assert!(found.detail.contains("read-only, network off is set"), "{found:?}");
        assert!(found.fix.is_some_and(|fix| fix.contains("on_unavailable")));
        weak.on_unavailable = OnUnavailable::Degrade;
        let found = effective_finding(&weak);
        assert_eq!(found.level, Level::Warn);
        assert!(found.detail.contains("get default, network off, by seccomp"), "{found:?}");
        assert!(found.detail.ends_with("read-only, network off was asked for"), "{found:?}");
    }

    #[test]
    fn each_means_that_is_missing_comes_with_its_fix() {
        let offer = confining(SandboxProfile::None, Backend::Nothing).offer;
        for found in means_findings(&offer, &Delegation::Nothing { why: "no".to_owned() }) {
            assert_eq!(found.level, Level::Warn, "{found:?}");
            assert!(found.fix.is_some(), "{found:?}");
        }
        let offer = confining(SandboxProfile::None, Backend::Namespaces).offer;
        let controllers = vec![Controller::Memory, Controller::Pids];
        let cgroup = Delegation::Controllers { controllers, below: "/sys/fs/cgroup/x".into() };
        let found = means_findings(&offer, &cgroup);
        assert!(found.iter().all(|found| found.level == Level::Ok), "{found:?}");
        assert_eq!(found[1].detail, "ABI 7");
    }
}
