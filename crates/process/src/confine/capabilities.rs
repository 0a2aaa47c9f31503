//! Giving up privileges that the server's user has: nothing that runs later can get them back.

use std::io;

use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, remove_capability_from_bounding_set,
    set_capabilities,
};

use crate::confinement::Profile;

/// What no build and no package manager needs: it is for those who run the machine.
const FOR_OPERATORS: CapabilitySet = CapabilitySet::SYS_PTRACE
    .union(CapabilitySet::SYS_ADMIN)
    .union(CapabilitySet::SYS_MODULE)
    .union(CapabilitySet::SYS_RAWIO)
    .union(CapabilitySet::SYS_BOOT)
    .union(CapabilitySet::SYS_TIME)
    .union(CapabilitySet::SYS_PACCT)
    .union(CapabilitySet::SYS_TTY_CONFIG)
    // With these two a job would lift its own limits.
    .union(CapabilitySet::SYS_RESOURCE)
    .union(CapabilitySet::SYS_NICE)
    .union(CapabilitySet::BPF)
    .union(CapabilitySet::PERFMON)
    .union(CapabilitySet::CHECKPOINT_RESTORE)
    .union(CapabilitySet::MAC_ADMIN)
    .union(CapabilitySet::MAC_OVERRIDE)
    .union(CapabilitySet::SYSLOG)
    .union(CapabilitySet::AUDIT_CONTROL)
    .union(CapabilitySet::AUDIT_READ)
    .union(CapabilitySet::WAKE_ALARM)
    .union(CapabilitySet::BLOCK_SUSPEND);

/// Gives up what a job of this profile must not have, for this thread and all that comes after.
/// One call for an ordinary user, who has nothing to give up.
///
/// That it lasts takes `no_new_privs`, which every such job gets: without it a program with
/// privileges of its own brings them back.
///
/// # Errors
/// When the system refuses.
pub(crate) fn give_up(profile: Profile) -> io::Result<()> {
    let unwanted = unwanted(profile);
    if unwanted.is_empty() {
        return Ok(());
    }
    let held = capabilities(None)?;
    if held.permitted.union(held.inheritable).intersects(unwanted) {
        // First the bound on what a program of root's may get, while that is still allowed.
        // Where it is not, `no_new_privs` alone holds the bound.
        if held.effective.contains(CapabilitySet::SETPCAP) {
            lower_bound(held.permitted.intersection(unwanted))?;
        }
        set_capabilities(None, without(held, unwanted))?;
    }
    Ok(())
}

/// What a job of this profile must not have.
const fn unwanted(profile: Profile) -> CapabilitySet {
    match profile {
        Profile::None => CapabilitySet::empty(),
        Profile::Default => FOR_OPERATORS,
        Profile::WorkspaceWrite | Profile::ReadOnly => CapabilitySet::all(),
    }
}

fn lower_bound(unwanted: CapabilitySet) -> io::Result<()> {
    let each = (0..u64::BITS).map(|bit| CapabilitySet::from_bits_retain(1 << bit));
    for capability in each.filter(|capability| unwanted.contains(*capability)) {
        remove_capability_from_bounding_set(capability)?;
    }
    Ok(())
}

/// Ambient ones go with the inheritable ones.
fn without(held: CapabilitySets, unwanted: CapabilitySet) -> CapabilitySets {
    CapabilitySets {
        effective: held.effective.difference(unwanted),
        permitted: held.permitted.difference(unwanted),
        inheritable: held.inheritable.difference(unwanted),
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::thread;

    use rustix::process::{Gid, Uid};
    use rustix::thread::{set_no_new_privs, set_thread_res_gid, set_thread_res_uid};

    use super::*;

    /// What a program has that is run by a thread which gave up, in the words of its own status.
    fn after_exec(profile: Profile) -> Vec<CapabilitySet> {
        let act = move || {
            give_up(profile).unwrap();
            set_no_new_privs(true).unwrap();
            let kept = "sed -n 's/^Cap[A-Z][a-z]*:\\t//p' /proc/self/status";
            Command::new("sh").args(["-c", kept]).output().unwrap().stdout
        };
        let text = String::from_utf8(thread::spawn(act).join().unwrap()).unwrap();
        let bits = text.lines().map(|line| u64::from_str_radix(line, 16).unwrap());
        bits.map(CapabilitySet::from_bits_retain).collect()
    }

    /// Whether each of these worked for a thread that gave up.
    fn works(profile: Profile, commands: &[&'static str]) -> Vec<bool> {
        let commands = commands.to_vec();
        let act = move || {
            give_up(profile).unwrap();
            set_no_new_privs(true).unwrap();
            let run = |text: &&str| Command::new("sh").args(["-c", text]).output().unwrap();
            commands.iter().map(|text| run(text).status.success()).collect()
        };
        thread::spawn(act).join().unwrap()
    }

    fn has_much() -> bool {
        capabilities(None).unwrap().effective.contains(FOR_OPERATORS | CapabilitySet::SETPCAP)
    }

    #[test]
    fn a_privileged_server_keeps_from_its_jobs_what_only_operators_need() {
        let before = capabilities(None).unwrap().permitted;
        let sets = after_exec(Profile::Default);
        assert_eq!(sets.len(), 5);
        let [_, permitted, effective, bounding, ambient] = sets[..] else { unreachable!() };
        assert_eq!(permitted, before.difference(FOR_OPERATORS));
        assert_eq!(effective, permitted);
        assert!(ambient.is_empty());
        assert!(!has_much() || !bounding.intersects(FOR_OPERATORS));
    }

    #[test]
    fn with_limited_files_nothing_is_kept() {
        for profile in [Profile::WorkspaceWrite, Profile::ReadOnly] {
            let sets = after_exec(profile);
            let [inheritable, permitted, effective, _, ambient] = sets[..] else { unreachable!() };
            for set in [inheritable, permitted, effective, ambient] {
                assert!(set.is_empty(), "{set:?}");
            }
        }
    }

    #[test]
    fn root_still_installs_but_no_longer_runs_the_machine() {
        if !has_much() {
            return;
        }
        let build = [
            "f=$(mktemp) && chown 65534:65534 $f && rm $f",
            "chroot / true",
            "setpriv --reuid 65534 --clear-groups true",
            "f=$(mktemp -u) && mknod $f c 1 3 && rm $f",
        ];
        let machine = ["unshare --mount true", "ulimit -n 100 && ulimit -n 200", "renice -n -5 $$"];
        assert_eq!(works(Profile::None, &[build.as_slice(), &machine].concat()), [true; 7]);
        assert_eq!(works(Profile::Default, &build), [true; 4]);
        assert_eq!(works(Profile::Default, &machine), [false; 3]);
        assert_eq!(works(Profile::ReadOnly, &build), [false; 4]);
    }

    #[test]
    fn an_ordinary_user_has_nothing_to_give_up_and_is_not_refused() {
        let act = || {
            if rustix::process::geteuid().is_root() {
                let (nobody, nogroup) = (Uid::from_raw(65534), Gid::from_raw(65534));
                set_thread_res_gid(nogroup, nogroup, nogroup).unwrap();
                set_thread_res_uid(nobody, nobody, nobody).unwrap();
            }
            let before = capabilities(None).unwrap();
            give_up(Profile::Default).unwrap();
            give_up(Profile::ReadOnly).unwrap();
            (before, capabilities(None).unwrap())
        };
        let (before, after) = thread::spawn(act).join().unwrap();
        assert!(before.permitted.is_empty() && after == before);
    }
}
