//! How far a job is shut in and what it may use up: what was said for all jobs, for its lane and
//! for its tenant, what its call asks for on top, and what this host can give.
//!
//! **Invariant:** a call only tightens. Whatever it asks for allows nothing that its tenant's and
//! its lane's jobs may not do anyway.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::time::Duration;

use serde::{Deserialize, Deserializer};
use thiserror::Error;

use crate::confinement::{
    Confinement, GrantedConfinement, NetworkAccess, ResourceLimits, SandboxProfile,
};
use crate::ids::TenantId;
use crate::process::load;
use crate::process::sandbox::{
    ConfinementUnavailable, OnUnavailable, SandboxSupport, grant_confinement,
};
use crate::setting_values::word;
use crate::size;

/// What somebody says about the confinement of jobs; `None`: nothing of that.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(default)]
pub struct ConfinementTerms {
    /// What a job may do to its surroundings.
    #[serde(rename = "confinement", deserialize_with = "profile")]
    pub profile: Option<SandboxProfile>,
    /// Whether it has a network.
    pub network: Option<NetworkRule>,
    /// What it may use up.
    #[serde(flatten)]
    pub limits: LimitTerms,
}

impl ConfinementTerms {
    /// Nothing is said.
    pub const NOTHING: Self = Self { profile: None, network: None, limits: LimitTerms::NOTHING };
}

/// Whether a job has a network. Loosest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NetworkRule {
    /// It has.
    On,
    /// As its profile has it.
    #[serde(rename = "auto")]
    Usual,
    /// It has not.
    Off,
}

impl NetworkRule {
    /// Each with the word for it in a call.
    pub const WORDS: [(&'static str, Self); 2] = [("on", Self::On), ("off", Self::Off)];

    const fn with(self, profile: SandboxProfile) -> NetworkAccess {
        match self {
            Self::On => NetworkAccess::On,
            Self::Usual => profile.default_network(),
            Self::Off => NetworkAccess::Off,
        }
    }
}

/// What somebody says about what a job may use up; `None`: nothing of that.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(default)]
pub struct LimitTerms {
    /// Memory of all its processes together, in bytes.
    #[serde(deserialize_with = "memory")]
    pub memory: Option<Bound<u64>>,
    /// CPU time of all its processes together.
    #[serde(rename = "cpu_s", deserialize_with = "cpu")]
    pub cpu: Option<Bound<Duration>>,
    /// Processes and threads at one time.
    #[serde(deserialize_with = "plain_bound")]
    pub processes: Option<Bound<u64>>,
    /// Open files of each process.
    #[serde(deserialize_with = "plain_bound")]
    pub open_files: Option<Bound<u64>>,
    /// The size of each file that it writes, in bytes.
    #[serde(deserialize_with = "plain_bound")]
    pub file_size: Option<Bound<u64>>,
    /// How much it gives way to others, 0 to 19.
    pub nice: Option<u8>,
}

impl LimitTerms {
    /// Nothing is said.
    pub const NOTHING: Self = Self {
        memory: None,
        cpu: None,
        processes: None,
        open_files: None,
        file_size: None,
        nice: None,
    };
}

/// A bound on something. Tightest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Bound<T> {
    /// This much.
    AtMost(T),
    /// There is none.
    Unbounded,
}

impl<T> Bound<T> {
    fn limit(self) -> Option<T> {
        match self {
            Self::AtMost(most) => Some(most),
            Self::Unbounded => None,
        }
    }
}

fn profile<'de, D: Deserializer<'de>>(input: D) -> Result<Option<SandboxProfile>, D::Error> {
    word(input, &SandboxProfile::WORDS).map(Some)
}

/// A bound as settings have it: a number, `auto` for what the host has, or `none`.
#[derive(Deserialize)]
#[serde(untagged, rename_all = "lowercase")]
enum WrittenBound<T> {
    Word(BoundWord),
    AtMost(T),
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum BoundWord {
    Auto,
    None,
}

impl<T> WrittenBound<T> {
    fn bound(self, usual: impl FnOnce() -> Option<T>) -> Bound<T> {
        match self {
            Self::AtMost(most) => Bound::AtMost(most),
            Self::Word(BoundWord::Auto) => usual().map_or(Bound::Unbounded, Bound::AtMost),
            Self::Word(BoundWord::None) => Bound::Unbounded,
        }
    }
}

fn plain_bound<'de, D: Deserializer<'de>>(input: D) -> Result<Option<Bound<u64>>, D::Error> {
    Ok(Some(WrittenBound::deserialize(input)?.bound(|| None)))
}

/// By itself three quarters of what there is, where that is known.
fn memory<'de, D: Deserializer<'de>>(input: D) -> Result<Option<Bound<u64>>, D::Error> {
    let usual = || load::total_memory().map(|bytes| bytes / 4 * 3);
    Ok(Some(WrittenBound::deserialize(input)?.bound(usual)))
}

fn cpu<'de, D: Deserializer<'de>>(input: D) -> Result<Option<Bound<Duration>>, D::Error> {
    Ok(Some(match WrittenBound::<f64>::deserialize(input)?.bound(|| None) {
        Bound::AtMost(seconds) => Bound::AtMost(Duration::from_secs_f64(seconds)),
        Bound::Unbounded => Bound::Unbounded,
    }))
}

/// What was said about the confinement of jobs, and what this host can do.
#[derive(Debug, Clone)]
pub struct ConfinementRules {
    /// Of all jobs about which nothing else is said.
    pub all: ConfinementTerms,
    /// Of the jobs of these tenants.
    pub tenants: BTreeMap<TenantId, ConfinementTerms>,
    /// Of the jobs in these lanes.
    pub lanes: BTreeMap<String, ConfinementTerms>,
    /// What this host can do.
    pub offer: SandboxSupport,
    /// What becomes of a job whose confinement it cannot give.
    pub on_unavailable: OnUnavailable,
}

/// What jobs get that do not ask for anything tighter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Standing {
    profile: SandboxProfile,
    network: NetworkRule,
    limits: ResourceLimits,
}

/// Why a job cannot be confined as its call asks.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ConfineError {
    /// It would allow more than the tenant's jobs may.
    #[error(
        "a call can only tighten its confinement: {asked} was asked for, and jobs of tenant {tenant} in lane {lane} have {has}; leave it out, or ask for something tighter"
    )]
    Loosened {
        /// What was asked for.
        asked: String,
        /// Whose jobs.
        tenant: TenantId,
        /// Where.
        lane: String,
        /// What they have.
        has: String,
    },
    /// This host cannot do it.
    #[error(transparent)]
    Unavailable(#[from] ConfinementUnavailable),
}

impl ConfineError {
    /// The stable word that clients may match on.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Loosened { .. } => "confinement_loosened",
            Self::Unavailable(_) => "confinement_unavailable",
        }
    }
}

impl ConfinementRules {
    /// What a job gets in this lane of this tenant whose call asks for this.
    pub(super) fn decide(
        &self,
        tenant: TenantId,
        lane: &str,
        asked: &ConfinementTerms,
    ) -> Result<(GrantedConfinement, ResourceLimits), ConfineError> {
        let standing = self.standing(tenant, lane);
        let (confinement, limits) = standing.tightened(asked).map_err(|(asked, has)| {
            ConfineError::Loosened { asked, tenant, lane: lane.to_owned(), has }
        })?;
        Ok((grant_confinement(confinement, &self.offer, self.on_unavailable)?, limits))
    }

    /// Grants a confinement in full, or says what the host lacks for it.
    pub(super) fn grant_whole(
        &self,
        asked: Confinement,
    ) -> Result<GrantedConfinement, ConfinementUnavailable> {
        grant_confinement(asked, &self.offer, OnUnavailable::Refuse)
    }

    /// What this tenant's jobs may do in this lane, unless they ask for less.
    pub(super) fn confinement(&self, tenant: TenantId, lane: &str) -> Confinement {
        self.standing(tenant, lane).confinement()
    }

    /// What a job gets about which nothing is said but this, and what is said of all.
    ///
    /// # Errors
    /// When this host cannot give it.
    pub fn granted(
        &self,
        said: ConfinementTerms,
    ) -> Result<(GrantedConfinement, ResourceLimits), ConfinementUnavailable> {
        let standing = self.with(&[said]);
        let granted = grant_confinement(standing.confinement(), &self.offer, self.on_unavailable)?;
        Ok((granted, standing.limits))
    }

    fn standing(&self, tenant: TenantId, lane: &str) -> Standing {
        let said = [self.tenants.get(&tenant), self.lanes.get(lane)];
        let said: Vec<ConfinementTerms> = said.into_iter().flatten().copied().collect();
        self.with(&said)
    }

    /// Of each thing the tightest that was said, and where nothing was, what is said of all.
    fn with(&self, said: &[ConfinementTerms]) -> Standing {
        let profile = said.iter().filter_map(|terms| terms.profile).max();
        let network = said.iter().filter_map(|terms| terms.network).max();
        Standing {
            profile: profile.or(self.all.profile).unwrap_or(SandboxProfile::None),
            network: network.or(self.all.network).unwrap_or(NetworkRule::Usual),
            limits: ResourceLimits {
                memory: bound(said, &self.all, |limits| limits.memory),
                cpu: bound(said, &self.all, |limits| limits.cpu),
                processes: bound(said, &self.all, |limits| limits.processes),
                open_files: bound(said, &self.all, |limits| limits.open_files),
                file_size: bound(said, &self.all, |limits| limits.file_size),
                nice: {
                    let nice = said.iter().filter_map(|terms| terms.limits.nice).max();
                    nice.or(self.all.limits.nice).unwrap_or_default()
                },
            },
        }
    }
}

fn bound<T: Ord>(
    said: &[ConfinementTerms],
    all: &ConfinementTerms,
    of: impl Fn(&LimitTerms) -> Option<Bound<T>>,
) -> Option<T> {
    let tightest = said.iter().filter_map(|terms| of(&terms.limits)).min();
    tightest.or_else(|| of(&all.limits))?.limit()
}

/// What was asked for, and what there is instead.
type Looser = (String, String);

impl Standing {
    const fn confinement(&self) -> Confinement {
        Confinement { profile: self.profile, network: self.network.with(self.profile) }
    }

    /// The same with what a call asks for.
    fn tightened(&self, asked: &ConfinementTerms) -> Result<(Confinement, ResourceLimits), Looser> {
        let standing = self.confinement();
        let profile = asked.profile.unwrap_or(self.profile);
        if profile < self.profile {
            return Err(looser("confinement", profile.word(), self.profile.word()));
        }
        let network = asked.network.unwrap_or(self.network).with(profile);
        if network < standing.network {
            return Err(looser("network", network.word(), standing.network.word()));
        }
        Ok((Confinement { profile, network }, self.limits_with(&asked.limits)?))
    }

    fn limits_with(&self, asked: &LimitTerms) -> Result<ResourceLimits, Looser> {
        let ResourceLimits { memory, cpu, processes, open_files, file_size, nice } = self.limits;
        let bytes = |bytes: &u64| size::display(*bytes);
        let count = u64::to_string;
        let seconds = |time: &Duration| format!("{}s", time.as_secs_f64());
        let asked_nice = asked.nice.unwrap_or(nice);
        if asked_nice < nice {
            return Err(looser("nice", asked_nice, nice));
        }
        Ok(ResourceLimits {
            memory: tighter("memory", memory, asked.memory, bytes)?,
            cpu: tighter("cpu_s", cpu, asked.cpu, seconds)?,
            processes: tighter("processes", processes, asked.processes, count)?,
            open_files: tighter("open_files", open_files, asked.open_files, count)?,
            file_size: tighter("file_size", file_size, asked.file_size, bytes)?,
            nice: asked_nice,
        })
    }
}

/// The bound that was asked for, where it is none above the one there is.
fn tighter<T: Ord>(
    name: &str,
    has: Option<T>,
    asked: Option<Bound<T>>,
    words: impl Fn(&T) -> String,
) -> Result<Option<T>, Looser> {
    let Some(asked) = asked else { return Ok(has) };
    match (has, asked.limit()) {
        (Some(has), Some(asked)) if asked > has => Err(looser(name, words(&asked), words(&has))),
        (Some(has), None) => Err(looser(name, "none", words(&has))),
        (_, asked) => Ok(asked),
    }
}

fn looser(name: &str, asked: impl Display, has: impl Display) -> Looser {
    (format!("{name} {asked}"), format!("{name} {has}"))
}

#[cfg(test)]
mod tests {
    //! Who may say what, and what holds in the end.

    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;
    use crate::confinement::{
        Backend, Confinement, GrantedConfinement, NetworkAccess, ResourceLimits, SandboxProfile,
    };
    use crate::ids::TenantId;
    use crate::process::sandbox::{OnUnavailable, SandboxSupport};

    impl ConfinementRules {
        /// Nothing is said, and the host can do everything.
        pub(in crate::service) fn of_nothing() -> Self {
            Self {
                all: ConfinementTerms::NOTHING,
                tenants: BTreeMap::new(),
                lanes: BTreeMap::new(),
                offer: SandboxSupport {
                    namespaces: Ok(()).into(),
                    landlock: Ok(7).into(),
                    seccomp: Ok(()).into(),
                },
                on_unavailable: OnUnavailable::Refuse,
            }
        }
    }

    const LANE: &str = "net";

    const NOTHING: LimitTerms = LimitTerms::NOTHING;
    const SAYS_NOTHING: ConfinementTerms = ConfinementTerms::NOTHING;

    const fn profile(profile: SandboxProfile) -> ConfinementTerms {
        ConfinementTerms { profile: Some(profile), ..SAYS_NOTHING }
    }

    const fn network(rule: NetworkRule) -> ConfinementTerms {
        ConfinementTerms { network: Some(rule), ..SAYS_NOTHING }
    }

    const fn memory(bound: Bound<u64>) -> ConfinementTerms {
        let limits = LimitTerms { memory: Some(bound), ..NOTHING };
        ConfinementTerms { limits, ..SAYS_NOTHING }
    }

    /// What is said of all, of the tenant and of the lane.
    fn confining(
        all: ConfinementTerms,
        tenant: ConfinementTerms,
        lane: ConfinementTerms,
    ) -> ConfinementRules {
        ConfinementRules {
            all,
            tenants: BTreeMap::from([(TenantId::LOCAL, tenant)]),
            lanes: BTreeMap::from([(LANE.to_owned(), lane)]),
            ..ConfinementRules::of_nothing()
        }
    }

    fn decide(
        confining: &ConfinementRules,
        asked: ConfinementTerms,
    ) -> Result<(GrantedConfinement, ResourceLimits), ConfineError> {
        confining.decide(TenantId::LOCAL, LANE, &asked)
    }

    #[track_caller]
    fn gets(
        confining: &ConfinementRules,
        asked: ConfinementTerms,
        expected: (SandboxProfile, NetworkAccess),
    ) {
        let (granted, _) = decide(confining, asked).unwrap();
        assert_eq!((granted.effective.profile, granted.effective.network), expected);
    }

    #[track_caller]
    fn is_refused(confining: &ConfinementRules, asked: ConfinementTerms, words: &[&str]) {
        let error = decide(confining, asked).unwrap_err();
        assert_eq!(error.code(), "confinement_loosened");
        let told = error.to_string();
        assert!(words.iter().all(|word| told.contains(word)), "{told}");
    }

    #[test]
    fn a_tenant_or_a_lane_replaces_what_holds_for_all() {
        let all = profile(SandboxProfile::WorkspaceWrite);
        let loose = profile(SandboxProfile::None);
        gets(
            &confining(all, SAYS_NOTHING, SAYS_NOTHING),
            SAYS_NOTHING,
            (SandboxProfile::WorkspaceWrite, NetworkAccess::Off),
        );
        gets(
            &confining(all, loose, SAYS_NOTHING),
            SAYS_NOTHING,
            (SandboxProfile::None, NetworkAccess::On),
        );
        gets(
            &confining(all, SAYS_NOTHING, loose),
            SAYS_NOTHING,
            (SandboxProfile::None, NetworkAccess::On),
        );
        let (_, limits) = decide(
            &confining(memory(Bound::AtMost(5)), memory(Bound::Unbounded), SAYS_NOTHING),
            SAYS_NOTHING,
        )
        .unwrap();
        assert_eq!(limits.memory, None);
    }

    #[test]
    fn between_tenant_and_lane_the_tighter_holds() {
        let (loose, tight) = (profile(SandboxProfile::None), profile(SandboxProfile::ReadOnly));
        for (tenant, lane) in [(loose, tight), (tight, loose)] {
            let both = confining(profile(SandboxProfile::Default), tenant, lane);
            gets(&both, SAYS_NOTHING, (SandboxProfile::ReadOnly, NetworkAccess::Off));
        }
        let both = confining(tight, network(NetworkRule::On), network(NetworkRule::Usual));
        gets(&both, SAYS_NOTHING, (SandboxProfile::ReadOnly, NetworkAccess::Off));
        let both = confining(SAYS_NOTHING, memory(Bound::Unbounded), memory(Bound::AtMost(7)));
        assert_eq!(decide(&both, SAYS_NOTHING).unwrap().1.memory, Some(7));
    }

    #[test]
    fn a_call_tightens_and_the_network_follows_its_profile() {
        let default = confining(profile(SandboxProfile::Default), SAYS_NOTHING, SAYS_NOTHING);
        let read_only = profile(SandboxProfile::ReadOnly);
        gets(&default, read_only, (SandboxProfile::ReadOnly, NetworkAccess::Off));
        let with_network = ConfinementTerms { network: Some(NetworkRule::On), ..read_only };
        gets(&default, with_network, (SandboxProfile::ReadOnly, NetworkAccess::On));
        gets(&default, network(NetworkRule::Off), (SandboxProfile::Default, NetworkAccess::Off));
        let online =
            confining(profile(SandboxProfile::Default), network(NetworkRule::On), SAYS_NOTHING);
        gets(&online, read_only, (SandboxProfile::ReadOnly, NetworkAccess::On));
        let (_, limits) = decide(&default, memory(Bound::AtMost(9))).unwrap();
        assert_eq!(limits.memory, Some(9));
    }

    #[test]
    fn a_call_that_would_loosen_is_refused_and_told_what_there_is() {
        let tight = confining(profile(SandboxProfile::WorkspaceWrite), SAYS_NOTHING, SAYS_NOTHING);
        is_refused(
            &tight,
            profile(SandboxProfile::Default),
            &["confinement default was asked", "tenant local", "have confinement workspace-write"],
        );
        is_refused(&tight, network(NetworkRule::On), &["network on was asked", "have network off"]);
        let bounded = LimitTerms {
            memory: Some(Bound::AtMost(1000)),
            cpu: Some(Bound::AtMost(Duration::from_millis(1500))),
            nice: Some(5),
            ..NOTHING
        };
        let bounded = confining(
            ConfinementTerms { limits: bounded, ..SAYS_NOTHING },
            SAYS_NOTHING,
            SAYS_NOTHING,
        );
        is_refused(&bounded, memory(Bound::AtMost(1001)), &["memory 1001 B", "memory 1000 B"]);
        is_refused(&bounded, memory(Bound::Unbounded), &["memory none", "memory 1000 B"]);
        let longer = LimitTerms { cpu: Some(Bound::AtMost(Duration::from_secs(2))), ..NOTHING };
        is_refused(
            &bounded,
            ConfinementTerms { limits: longer, ..SAYS_NOTHING },
            &["cpu_s 2s", "cpu_s 1.5s"],
        );
        let pushier = LimitTerms { nice: Some(4), ..NOTHING };
        is_refused(
            &bounded,
            ConfinementTerms { limits: pushier, ..SAYS_NOTHING },
            &["nice 4", "nice 5"],
        );
    }

    #[test]
    fn what_the_host_lacks_is_refused_or_degraded() {
        let mut weak = confining(profile(SandboxProfile::Default), SAYS_NOTHING, SAYS_NOTHING);
        weak.offer = weak.offer.limited_to(Backend::Seccomp);
        let error = decide(&weak, profile(SandboxProfile::ReadOnly)).unwrap_err();
        assert_eq!(error.code(), "confinement_unavailable");
        assert_eq!(weak.granted(SAYS_NOTHING).unwrap().0.backend, Backend::Seccomp);
        assert!(weak.granted(profile(SandboxProfile::ReadOnly)).is_err());
        weak.on_unavailable = OnUnavailable::Degrade;
        let (granted, _) = decide(&weak, profile(SandboxProfile::ReadOnly)).unwrap();
        assert!(granted.is_degraded());
        assert_eq!(granted.effective.profile, SandboxProfile::Default);
    }

    fn any_terms() -> impl Strategy<Value = ConfinementTerms> {
        let profiles =
            prop::sample::select(SandboxProfile::WORDS.map(|(_, profile)| profile).to_vec());
        let rules = vec![NetworkRule::On, NetworkRule::Usual, NetworkRule::Off];
        let bounds = prop_oneof![Just(Bound::Unbounded), (1_u64..6).prop_map(Bound::AtMost)];
        let parts = (
            prop::option::of(profiles),
            prop::option::of(prop::sample::select(rules)),
            prop::option::of(bounds),
            prop::option::of(0_u8..4),
        );
        parts.prop_map(|(profile, network, processes, nice)| ConfinementTerms {
            profile,
            network,
            limits: LimitTerms { processes, nice, ..NOTHING },
        })
    }

    proptest! {
        #[test]
        fn no_call_ever_gets_more_than_a_call_that_asks_for_nothing(
            [all, tenant, lane, asked] in [any_terms(), any_terms(), any_terms(), any_terms()],
        ) {
            let confining = confining(all, tenant, lane);
            let (plain, limits) = decide(&confining, SAYS_NOTHING).unwrap();
            let plain: Confinement = plain.effective;
            if let Ok((granted, asked_limits)) = decide(&confining, asked) {
                prop_assert!(granted.effective.is_as_tight_as(plain));
                prop_assert_eq!(asked_limits.tightened(limits), asked_limits);
            }
        }
    }
}
