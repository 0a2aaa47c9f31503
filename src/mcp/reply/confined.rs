//! How a job is confined, in words: so that a reader knows why something was not permitted, and
//! what this host could not give.

use serde_json::{Value, json};

use super::shown::Shown;
use crate::confinement::{Backend, Confinement, Granted, Network, Profile};
use crate::mcp::snapshot::Snapshot;
use crate::outcome::Outcome;

/// What programs say where they may not write.
const NO_WRITE: [&str; 3] =
    ["read-only file system", "permission denied", "operation not permitted"];

/// What programs say where there is no network.
const NO_NETWORK: [&str; 6] = [
    "name resolution",
    "could not resolve",
    "network is unreachable",
    "enetunreach",
    "eai_again",
    "address family not supported",
];

/// What a verdict says of it; nothing where a job may do nearly everything.
pub(super) fn remark(granted: Granted) -> Option<String> {
    if granted.is_degraded() {
        return Some(degraded(granted));
    }
    let Confinement { profile, network } = granted.given;
    match (profile, network) {
        (Profile::None | Profile::Default, Network::On) => None,
        (Profile::None | Profile::Default, Network::Off) => Some("confined: no network".to_owned()),
        (Profile::WorkspaceWrite | Profile::ReadOnly, Network::On) => {
            Some(format!("confined: {}", profile.word()))
        }
        (Profile::WorkspaceWrite | Profile::ReadOnly, Network::Off) => {
            Some(format!("confined: {}, no network", profile.word()))
        }
    }
}

/// `confinement degraded: workspace-write asked, default given (no namespaces, no Landlock)`
fn degraded(Granted { asked, given, backend }: Granted) -> String {
    let lost = if asked.network == given.network { "" } else { " without network" };
    let missing = match backend {
        Backend::Namespaces | Backend::Landlock | Backend::Seccomp => "no namespaces, no Landlock",
        Backend::Nothing => "no seccomp",
    };
    let (asked, given) = (asked.profile.word(), given.profile.word());
    format!("confinement degraded: {asked}{lost} asked, {given} given ({missing})")
}

/// The structured form of it.
pub(super) fn field(granted: Granted, doubt: Option<&str>) -> Value {
    let Granted { asked, given, backend } = granted;
    let mut field = json!({
        "profile": given.profile.word(),
        "network": given.network.word(),
        "backend": backend.word(),
        "degraded": granted.is_degraded(),
    });
    if let Some(doubt) = doubt {
        field["because"] = json!(doubt);
    }
    if granted.is_degraded() {
        field["asked"] = json!({"profile": asked.profile.word(), "network": asked.network.word()});
    }
    field
}

/// Why a job that failed may have failed, where what it wrote reads like that.
pub(super) fn hint(job: &Snapshot, shown: Option<&Shown>) -> Option<String> {
    if matches!(job.ending()?.outcome, Outcome::Exited { code: 0 }) {
        return None;
    }
    let Confinement { profile, network } = job.confinement.given;
    if !profile.limits_files() && network != Network::Off {
        return None;
    }
    let text = shown?.text().to_lowercase();
    let says = |signs: &[&str]| signs.iter().any(|sign| text.contains(sign));
    if profile.limits_files() && says(&NO_WRITE) {
        let places = job.writable.iter().map(|path| path.display().to_string());
        let places: Vec<String> = places.chain(["$TMPDIR".to_owned()]).collect();
        let (places, profile) = (places.join(" and "), profile.word());
        return Some(format!("the job may write only to {places} (confinement {profile})"));
    }
    let offline = network == Network::Off && says(&NO_NETWORK);
    offline.then(|| format!("the job has no network (confinement {})", job.confinement.given))
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn asked(profile: Profile, network: Network) -> Confinement {
        Confinement { profile, network }
    }

    #[track_caller]
    fn check(asked: Confinement, given: Confinement, backend: Backend, expected: Option<&str>) {
        let granted = Granted { asked, given, backend };
        assert_eq!(remark(granted).as_deref(), expected, "{granted:?}");
        assert_eq!(field(granted, None)["degraded"], asked != given);
        assert_eq!(field(granted, None)["profile"], given.profile.word());
    }

    #[test]
    fn a_verdict_tells_what_a_reader_could_stumble_over() {
        let usual = asked(Profile::Default, Network::On);
        check(usual, usual, Backend::Seccomp, None);
        let offline = asked(Profile::Default, Network::Off);
        check(offline, offline, Backend::Seccomp, Some("confined: no network"));
        let files = asked(Profile::WorkspaceWrite, Network::Off);
        let told = Some("confined: workspace-write, no network");
        check(files, files, Backend::Namespaces, told);
        let online = asked(Profile::ReadOnly, Network::On);
        check(online, online, Backend::Landlock, Some("confined: read-only"));
    }

    #[test]
    fn what_the_host_could_not_give_is_told() {
        let files = asked(Profile::WorkspaceWrite, Network::Off);
        check(
            files,
            asked(Profile::Default, Network::Off),
            Backend::Seccomp,
            Some(
                "confinement degraded: workspace-write asked, default given (no namespaces, no Landlock)",
            ),
        );
        check(
            files,
            Confinement::NONE,
            Backend::Nothing,
            Some(
                "confinement degraded: workspace-write without network asked, none given (no seccomp)",
            ),
        );
    }
}
