//! What shuts jobs in on this host, and how far.

use super::finding::Finding;
use crate::confinement::{Granted, ResourceLimits};
use crate::process::cgroup::Delegation;
use crate::size;
use crate::yard::{Confining, HostOffer, Terms};

/// What this host has, each by itself. A thing that is missing is a warning: whether jobs get what
/// they are to get is another line.
pub(super) fn means_findings(offer: &HostOffer, cgroup: &Delegation) -> [Finding; 4] {
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
    let namespaces = offer.namespaces.found().map(|()| "jobs can get their own".to_owned());
    let landlock = offer.landlock.found().map(|abi| format!("ABI {abi}"));
    let seccomp = offer.seccomp.found().map(|()| "system calls can be filtered".to_owned());
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
pub(super) fn effective_finding(confining: &Confining) -> Finding {
    const WHAT: &str = "confinement";
    const DEGRADED: &str = "correct what is missing above, or set confinement.profile to what is \
                            given";
    const REFUSED: &str = "correct what is missing above, set a looser confinement.profile, or \
                           confinement.on_unavailable = \"degrade\"";
    match confining.granted(Terms::NOTHING) {
        Err(unavailable) => {
            let (asked, missing) = (unavailable.asked, unavailable.missing);
            Finding::fail(WHAT, format!("no job can run: {asked} is set, but {missing}"), REFUSED)
        }
        Ok((granted, limits)) if granted.is_degraded() => {
            let detail = format!("{}; {} was asked for", words(granted, limits), granted.asked);
            Finding::warn(WHAT, detail, DEGRADED)
        }
        Ok((granted, limits)) => Finding::ok(WHAT, words(granted, limits)),
    }
}

/// `jobs get default, network on, by seccomp; at most 17 GiB of memory, 512 processes`
fn words(granted: Granted, limits: ResourceLimits) -> String {
    let bounds = [
        limits.memory.map(|bytes| format!("{} of memory", size::display(bytes >> 20 << 20))),
        limits.cpu.map(|time| format!("{}s of CPU time", time.as_secs_f64())),
        limits.processes.map(|count| format!("{count} processes")),
        limits.open_files.map(|count| format!("{count} open files")),
        limits.file_size.map(|bytes| format!("{} in a file", size::display(bytes))),
    ];
    let bounds: Vec<String> = bounds.into_iter().flatten().collect();
    let most = if bounds.is_empty() { "no limits".to_owned() } else { bounds.join(", ") };
    format!("jobs get {}, by {}; at most {most}", granted.given, granted.backend.word())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::finding::Level;
    use super::*;
    use crate::confinement::{Backend, Profile};
    use crate::process::cgroup::Controller;
    use crate::yard::{Bound, LimitTerms, OnUnavailable};

    fn confining(profile: Profile, strongest: Backend) -> Confining {
        let processes = Some(Bound::AtMost(512));
        let limits = LimitTerms { processes, ..LimitTerms::NOTHING };
        let offer =
            HostOffer { namespaces: Ok(()).into(), landlock: Ok(7).into(), seccomp: Ok(()).into() };
        Confining {
            all: Terms { profile: Some(profile), network: None, limits },
            tenants: BTreeMap::new(),
            lanes: BTreeMap::new(),
            offer: offer.limited_to(strongest),
            on_unavailable: OnUnavailable::Refuse,
        }
    }

    #[test]
    fn what_jobs_get_is_told_with_its_means() {
        let found = effective_finding(&confining(Profile::Default, Backend::Namespaces));
        assert_eq!(found.level, Level::Ok);
        let told = "jobs get default, network on, by seccomp; at most 512 processes";
        assert_eq!(found.detail, told);
    }

    #[test]
    fn what_cannot_be_given_fails_unless_less_will_do() {
        let mut weak = confining(Profile::ReadOnly, Backend::Seccomp);
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
        let offer = confining(Profile::None, Backend::Nothing).offer;
        for found in means_findings(&offer, &Delegation::Nothing { why: "no".to_owned() }) {
            assert_eq!(found.level, Level::Warn, "{found:?}");
            assert!(found.fix.is_some(), "{found:?}");
        }
        let offer = confining(Profile::None, Backend::Namespaces).offer;
        let controllers = vec![Controller::Memory, Controller::Pids];
        let cgroup = Delegation::Controllers { controllers, below: "/sys/fs/cgroup/x".into() };
        let found = means_findings(&offer, &cgroup);
        assert!(found.iter().all(|found| found.level == Level::Ok), "{found:?}");
        assert_eq!(found[1].detail, "ABI 7");
    }
}
