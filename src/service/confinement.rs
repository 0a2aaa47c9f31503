//! The confinement of a job: its sandbox and its resource limits. They follow from the settings for all
//! jobs, for its lane and for its tenant, from the call's own wishes, and from what the host supports.
//!
//! **Invariant:** a call can only tighten its confinement. It never allows more than the jobs of its
//! tenant and lane may do anyway.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Deserializer};
use thiserror::Error;

use crate::confinement::{
    Confinement, GrantedConfinement, NetworkAccess, ResourceLimits, SandboxProfile,
};
use crate::ids::TenantId;
use crate::process::{
    ConfinementUnavailable, Host, OnUnavailable, SandboxSupport, grant_confinement, load,
};
use crate::setting_values::{deserialize_word, format_size};
use crate::spec::TenantArea;

/// A set of confinement settings, from the configuration or from a call; `None` = not set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(default)]
pub struct ConfinementTerms {
    #[serde(rename = "confinement", deserialize_with = "deserialize_profile")]
    pub profile: Option<SandboxProfile>,
    pub network: Option<NetworkRule>,
    #[serde(flatten)]
    pub limits: LimitTerms,
}

impl ConfinementTerms {
    pub const NOTHING: Self = Self { profile: None, network: None, limits: LimitTerms::NOTHING };
}

/// The network access of a job. Loosest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NetworkRule {
    On,
    /// The default of the job's profile.
    #[serde(rename = "auto")]
    Usual,
    Off,
}

impl NetworkRule {
    /// Each value that a call can ask for, with its wire name.
    pub const WORDS: [(&'static str, Self); 2] = [("on", Self::On), ("off", Self::Off)];

    const fn resolve(self, profile: SandboxProfile) -> NetworkAccess {
        match self {
            Self::On => NetworkAccess::On,
            Self::Usual => profile.default_network(),
            Self::Off => NetworkAccess::Off,
        }
    }
}

/// A set of resource limits, from the configuration or from a call; `None` = not set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(default)]
pub struct LimitTerms {
    /// Memory of all processes of a job together, in bytes.
    #[serde(deserialize_with = "deserialize_memory")]
    pub memory: Option<Bound<u64>>,
    /// CPU time of all processes of a job together.
    #[serde(rename = "cpu_s", deserialize_with = "deserialize_cpu")]
    pub cpu: Option<Bound<Duration>>,
    /// Processes and threads of a job at one time.
    #[serde(deserialize_with = "deserialize_processes")]
    pub processes: Option<Bound<u64>>,
    /// Open files of each process of a job.
    #[serde(deserialize_with = "deserialize_bound")]
    pub open_files: Option<Bound<u64>>,
    /// The size of each file that a job writes, in bytes.
    #[serde(deserialize_with = "deserialize_bound")]
    pub file_size: Option<Bound<u64>>,
    /// The niceness of a job's processes, 0 to 19.
    pub nice: Option<u8>,
}

impl LimitTerms {
    pub const NOTHING: Self = Self {
        memory: None,
        cpu: None,
        processes: None,
        open_files: None,
        file_size: None,
        nice: None,
    };
}

/// An upper bound, or none. Tightest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Bound<T> {
    AtMost(T),
    Unbounded,
}

impl Bound<Duration> {
    pub(super) const fn whole_seconds(self) -> Bound<u64> {
        match self {
            Self::AtMost(most) => Bound::AtMost(most.as_secs()),
            Self::Unbounded => Bound::Unbounded,
        }
    }
}

/// The setting that limits a resource of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LimitSetting {
    /// The name in the configuration, such as `limits.memory`.
    pub name: String,
    /// The most that a call can ask for, in bytes, whole seconds or processes; `None` = any number.
    pub most: Option<u64>,
}

impl<T> Bound<T> {
    fn limit(self) -> Option<T> {
        match self {
            Self::AtMost(most) => Some(most),
            Self::Unbounded => None,
        }
    }
}

fn deserialize_profile<'de, D: Deserializer<'de>>(
    input: D,
) -> Result<Option<SandboxProfile>, D::Error> {
    deserialize_word(input, &SandboxProfile::WORDS).map(Some)
}

/// A bound as it is written in settings: a number, `auto` for a value that fits the host, or `none`.
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
    fn resolve(self, auto: impl FnOnce() -> Option<T>) -> Bound<T> {
        match self {
            Self::AtMost(most) => Bound::AtMost(most),
            Self::Word(BoundWord::Auto) => auto().map_or(Bound::Unbounded, Bound::AtMost),
            Self::Word(BoundWord::None) => Bound::Unbounded,
        }
    }
}

fn deserialize_bound<'de, D: Deserializer<'de>>(input: D) -> Result<Option<Bound<u64>>, D::Error> {
    Ok(Some(WrittenBound::deserialize(input)?.resolve(|| None)))
}

/// Reads a memory bound. `auto` is three quarters of the host's memory, if that is known.
fn deserialize_memory<'de, D: Deserializer<'de>>(input: D) -> Result<Option<Bound<u64>>, D::Error> {
    let auto = || load::total_memory().map(|bytes| bytes / 4 * 3);
    Ok(Some(WrittenBound::deserialize(input)?.resolve(auto)))
}

/// Reads a bound on processes. `auto` grows with the processors: builds start threads for each.
fn deserialize_processes<'de, D: Deserializer<'de>>(
    input: D,
) -> Result<Option<Bound<u64>>, D::Error> {
    let auto = || {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        Some(MIN_AUTO_PROCESSES.max(PROCESSES_PER_PROCESSOR * processors as u64))
    };
    Ok(Some(WrittenBound::deserialize(input)?.resolve(auto)))
}

const MIN_AUTO_PROCESSES: u64 = 4096;
const PROCESSES_PER_PROCESSOR: u64 = 512;

fn deserialize_cpu<'de, D: Deserializer<'de>>(
    input: D,
) -> Result<Option<Bound<Duration>>, D::Error> {
    Ok(Some(match WrittenBound::<f64>::deserialize(input)?.resolve(|| None) {
        Bound::AtMost(seconds) => Bound::AtMost(Duration::from_secs_f64(seconds)),
        Bound::Unbounded => Bound::Unbounded,
    }))
}

/// The configured confinement of jobs, and the capabilities of this host.
#[derive(Debug, Clone)]
pub struct ConfinementRules {
    /// The settings for all jobs, where tenant and lane set nothing.
    pub all: ConfinementTerms,
    pub tenants: BTreeMap<TenantId, ConfinementTerms>,
    pub lanes: BTreeMap<String, ConfinementTerms>,
    /// The sandboxes that this host supports.
    pub support: SandboxSupport,
    /// The treatment of a job whose confinement the host does not support.
    pub on_unavailable: OnUnavailable,
}

/// The confinement of jobs whose calls ask for nothing tighter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct EffectiveConfinement {
    profile: SandboxProfile,
    network: NetworkRule,
    limits: ResourceLimits,
}

/// The reason why a job cannot be confined as its call asks.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ConfineError {
    /// The call asks for more than the tenant's jobs may do.
    #[error(
        "a call can only tighten its confinement: {asked} was asked for, and jobs of tenant {tenant} in lane {lane} have {has}; leave it out, or ask for something tighter"
    )]
    Loosened {
        asked: String,
        tenant: TenantId,
        lane: String,
        /// The confinement that holds instead.
        has: String,
    },
    /// The host does not support it.
    #[error(transparent)]
    Unavailable(#[from] ConfinementUnavailable),
}

impl ConfineError {
    /// Returns the stable code word of the error.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Loosened { .. } => "confinement_loosened",
            Self::Unavailable(_) => "confinement_unavailable",
        }
    }
}

impl ConfinementRules {
    /// Decides the confinement of a job in this lane of this tenant; `asked` is what its call asks for.
    pub(super) fn decide(
        &self,
        tenant: TenantId,
        lane: &str,
        asked: &ConfinementTerms,
    ) -> Result<(GrantedConfinement, ResourceLimits), ConfineError> {
        let effective = self.effective_confinement(tenant, lane);
        let (confinement, limits) = effective.tighten(asked).map_err(|(asked, has)| {
            ConfineError::Loosened { asked, tenant, lane: lane.to_owned(), has }
        })?;
        Ok((grant_confinement(confinement, &self.support, self.on_unavailable)?, limits))
    }

    /// Grants a confinement in full, or fails if the host does not support all of it.
    pub(super) fn grant_in_full(
        &self,
        asked: Confinement,
    ) -> Result<GrantedConfinement, ConfinementUnavailable> {
        grant_confinement(asked, &self.support, OnUnavailable::Refuse)
    }

    /// Returns the confinement of this tenant's jobs in this lane, if their calls ask for nothing.
    #[must_use]
    pub fn confinement(&self, tenant: TenantId, lane: &str) -> Confinement {
        self.effective_confinement(tenant, lane).confinement()
    }

    /// Grants what these settings and those for all jobs demand.
    ///
    /// # Errors
    /// If the host does not support it.
    pub fn grant_terms(
        &self,
        terms: ConfinementTerms,
    ) -> Result<(GrantedConfinement, ResourceLimits), ConfinementUnavailable> {
        let effective = self.combine(&[terms]);
        let granted =
            grant_confinement(effective.confinement(), &self.support, self.on_unavailable)?;
        Ok((granted, effective.limits))
    }

    /// Returns the setting that limits a resource of a tenant's jobs in a lane: `name` is its name in
    /// every section, and `bound` its value.
    pub(super) fn limit_setting(
        &self,
        tenant: TenantId,
        lane: &str,
        name: &str,
        bound: impl Fn(&LimitTerms) -> Option<Bound<u64>>,
    ) -> LimitSetting {
        let of_tenant = self.tenants.get(&tenant).and_then(|terms| bound(&terms.limits));
        let of_lane = self.lanes.get(lane).and_then(|terms| bound(&terms.limits));
        let sections = [
            of_tenant.map(|bound| (bound, format!("tenants.{}", tenant.name()))),
            of_lane.map(|bound| (bound, format!("queue.lanes.{lane}"))),
        ];
        let all = bound(&self.all.limits).unwrap_or(Bound::Unbounded);
        let tightest = sections.into_iter().flatten().min_by_key(|(bound, _)| *bound);
        let (bound, section) = tightest.unwrap_or((all, "limits".to_owned()));
        LimitSetting { name: format!("{section}.{name}"), most: bound.limit() }
    }

    fn effective_confinement(&self, tenant: TenantId, lane: &str) -> EffectiveConfinement {
        let terms = [self.tenants.get(&tenant), self.lanes.get(lane)];
        let terms: Vec<ConfinementTerms> = terms.into_iter().flatten().copied().collect();
        self.combine(&terms)
    }

    /// Takes the tightest value of each setting; where none is set, the value for all jobs.
    fn combine(&self, terms: &[ConfinementTerms]) -> EffectiveConfinement {
        let profile = terms.iter().filter_map(|terms| terms.profile).max();
        let network = terms.iter().filter_map(|terms| terms.network).max();
        EffectiveConfinement {
            profile: profile.or(self.all.profile).unwrap_or(SandboxProfile::None),
            network: network.or(self.all.network).unwrap_or(NetworkRule::Usual),
            limits: ResourceLimits {
                memory: find_tightest(terms, &self.all, |limits| limits.memory),
                cpu: find_tightest(terms, &self.all, |limits| limits.cpu),
                processes: find_tightest(terms, &self.all, |limits| limits.processes),
                open_files: find_tightest(terms, &self.all, |limits| limits.open_files),
                file_size: find_tightest(terms, &self.all, |limits| limits.file_size),
                nice: {
                    let nice = terms.iter().filter_map(|terms| terms.limits.nice).max();
                    nice.or(self.all.limits.nice).unwrap_or_default()
                },
            },
        }
    }
}

fn find_tightest<T: Ord>(
    terms: &[ConfinementTerms],
    all: &ConfinementTerms,
    limit: impl Fn(&LimitTerms) -> Option<Bound<T>>,
) -> Option<T> {
    let tightest = terms.iter().filter_map(|terms| limit(&terms.limits)).min();
    tightest.or_else(|| limit(&all.limits))?.limit()
}

/// The texts of a refused wish: the value that was asked for, and the value that holds.
type LooserTexts = (String, String);

impl EffectiveConfinement {
    const fn confinement(&self) -> Confinement {
        Confinement { profile: self.profile, network: self.network.resolve(self.profile) }
    }

    /// Applies the wishes of a call, and fails if they are looser.
    fn tighten(
        &self,
        asked: &ConfinementTerms,
    ) -> Result<(Confinement, ResourceLimits), LooserTexts> {
        let current = self.confinement();
        let profile = asked.profile.unwrap_or(self.profile);
        if profile < self.profile {
            return Err(describe_looser("confinement", profile.word(), self.profile.word()));
        }
        let network = asked.network.unwrap_or(self.network).resolve(profile);
        if network < current.network {
            return Err(describe_looser("network", network.word(), current.network.word()));
        }
        Ok((Confinement { profile, network }, self.tighten_limits(&asked.limits)?))
    }

    fn tighten_limits(&self, asked: &LimitTerms) -> Result<ResourceLimits, LooserTexts> {
        let ResourceLimits { memory, cpu, processes, open_files, file_size, nice } = self.limits;
        let bytes = |bytes: &u64| format_size(*bytes);
        let count = u64::to_string;
        let seconds = |time: &Duration| format!("{}s", time.as_secs_f64());
        let asked_nice = asked.nice.unwrap_or(nice);
        if asked_nice < nice {
            return Err(describe_looser("nice", asked_nice, nice));
        }
        Ok(ResourceLimits {
            memory: tighten_bound("memory", memory, asked.memory, bytes)?,
            cpu: tighten_bound("cpu_s", cpu, asked.cpu, seconds)?,
            processes: tighten_bound("processes", processes, asked.processes, count)?,
            open_files: tighten_bound("open_files", open_files, asked.open_files, count)?,
            file_size: tighten_bound("file_size", file_size, asked.file_size, bytes)?,
            nice: asked_nice,
        })
    }
}

/// Returns the bound that was asked for, and fails if it is above the current one.
fn tighten_bound<T: Ord>(
    name: &str,
    has: Option<T>,
    asked: Option<Bound<T>>,
    format: impl Fn(&T) -> String,
) -> Result<Option<T>, LooserTexts> {
    let Some(asked) = asked else { return Ok(has) };
    match (has, asked.limit()) {
        (Some(has), Some(asked)) if asked > has => {
            Err(describe_looser(name, format(&asked), format(&has)))
        }
        (Some(has), None) => Err(describe_looser(name, "none", format(&has))),
        (_, asked) => Ok(asked),
    }
}

fn describe_looser(name: &str, asked: impl Display, has: impl Display) -> LooserTexts {
    (format!("{name} {asked}"), format!("{name} {has}"))
}

/// Returns a directory of the settings that is another one by now, and that one: somebody has put a
/// symlink in its place or around it, and the sandbox of a job would make its target writable.
pub(super) fn find_redirected_dir(
    host: &Host,
    area: &TenantArea,
    profile: SandboxProfile,
) -> Option<(PathBuf, PathBuf)> {
    match profile {
        SandboxProfile::None | SandboxProfile::Default => return None,
        SandboxProfile::WorkspaceWrite | SandboxProfile::ReadOnly => {}
    }
    area.list_granted(&area.hidden).find_map(|path| {
        // Without a missing directory jobs go on.
        let found = host.open_dir(path).ok()?.path().to_owned();
        (found != *path).then(|| (path.clone(), found))
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;
    use crate::confinement::{
        Backend, Confinement, GrantedConfinement, NetworkAccess, ResourceLimits, SandboxProfile,
    };
    use crate::ids::TenantId;
    use crate::process::{OnUnavailable, SandboxSupport};

    impl ConfinementRules {
        /// Rules without settings, on a host that supports every sandbox.
        pub(in crate::service) fn unset() -> Self {
            Self {
                all: ConfinementTerms::NOTHING,
                tenants: BTreeMap::new(),
                lanes: BTreeMap::new(),
                support: SandboxSupport {
                    namespaces: Ok(()).into(),
                    landlock: Ok(7).into(),
                    seccomp: Ok(()).into(),
                    kernel_settings: Ok(()).into(),
                },
                on_unavailable: OnUnavailable::Refuse,
            }
        }
    }

    const LANE: &str = "net";

    const NOTHING: LimitTerms = LimitTerms::NOTHING;
    const UNSET: ConfinementTerms = ConfinementTerms::NOTHING;

    const fn profile(profile: SandboxProfile) -> ConfinementTerms {
        ConfinementTerms { profile: Some(profile), ..UNSET }
    }

    const fn network(rule: NetworkRule) -> ConfinementTerms {
        ConfinementTerms { network: Some(rule), ..UNSET }
    }

    const fn memory(bound: Bound<u64>) -> ConfinementTerms {
        let limits = LimitTerms { memory: Some(bound), ..NOTHING };
        ConfinementTerms { limits, ..UNSET }
    }

    /// Rules with these settings for all jobs, for the tenant and for the lane.
    fn new_rules(
        all: ConfinementTerms,
        tenant: ConfinementTerms,
        lane: ConfinementTerms,
    ) -> ConfinementRules {
        ConfinementRules {
            all,
            tenants: BTreeMap::from([(TenantId::LOCAL, tenant)]),
            lanes: BTreeMap::from([(LANE.to_owned(), lane)]),
            ..ConfinementRules::unset()
        }
    }

    #[test]
    fn the_setting_of_a_limit_is_the_one_that_holds() {
        let most = |bytes| memory(Bound::AtMost(bytes));
        for (rules, name, most) in [
            (new_rules(UNSET, UNSET, UNSET), "limits.memory", None),
            (new_rules(most(9), UNSET, UNSET), "limits.memory", Some(9)),
            (new_rules(most(9), most(20), UNSET), "tenants.local.memory", Some(20)),
            (new_rules(most(9), most(20), most(10)), "queue.lanes.net.memory", Some(10)),
            (new_rules(most(9), memory(Bound::Unbounded), UNSET), "tenants.local.memory", None),
        ] {
            let setting =
                rules.limit_setting(TenantId::LOCAL, LANE, "memory", |limits| limits.memory);
            assert_eq!(setting, LimitSetting { name: name.to_owned(), most });
            let effective = rules.effective_confinement(TenantId::LOCAL, LANE);
            assert_eq!(effective.limits.memory, most, "it is the value that holds");
        }
    }

    fn decide(
        rules: &ConfinementRules,
        asked: ConfinementTerms,
    ) -> Result<(GrantedConfinement, ResourceLimits), ConfineError> {
        rules.decide(TenantId::LOCAL, LANE, &asked)
    }

    #[track_caller]
    fn assert_granted(
        rules: &ConfinementRules,
        asked: ConfinementTerms,
        expected: (SandboxProfile, NetworkAccess),
    ) {
        let (granted, _) = decide(rules, asked).unwrap();
        assert_eq!((granted.effective.profile, granted.effective.network), expected);
    }

    #[track_caller]
    fn assert_refused(rules: &ConfinementRules, asked: ConfinementTerms, words: &[&str]) {
        let error = decide(rules, asked).unwrap_err();
        assert_eq!(error.code(), "confinement_loosened");
        let message = error.to_string();
        assert!(words.iter().all(|word| message.contains(word)), "{message}");
    }

    #[test]
    fn the_settings_of_a_tenant_or_lane_replace_those_for_all_jobs() {
        let all = profile(SandboxProfile::WorkspaceWrite);
        let loose = profile(SandboxProfile::None);
        assert_granted(
            &new_rules(all, UNSET, UNSET),
            UNSET,
            (SandboxProfile::WorkspaceWrite, NetworkAccess::Off),
        );
        assert_granted(
            &new_rules(all, loose, UNSET),
            UNSET,
            (SandboxProfile::None, NetworkAccess::On),
        );
        assert_granted(
            &new_rules(all, UNSET, loose),
            UNSET,
            (SandboxProfile::None, NetworkAccess::On),
        );
        let (_, limits) =
            decide(&new_rules(memory(Bound::AtMost(5)), memory(Bound::Unbounded), UNSET), UNSET)
                .unwrap();
        assert_eq!(limits.memory, None);
    }

    #[test]
    fn the_tighter_setting_of_tenant_and_lane_holds() {
        let loose = profile(SandboxProfile::None);
        let tight = profile(SandboxProfile::ReadOnly);
        for (tenant, lane) in [(loose, tight), (tight, loose)] {
            let both = new_rules(profile(SandboxProfile::Default), tenant, lane);
            assert_granted(&both, UNSET, (SandboxProfile::ReadOnly, NetworkAccess::Off));
        }
        let both = new_rules(tight, network(NetworkRule::On), network(NetworkRule::Usual));
        assert_granted(&both, UNSET, (SandboxProfile::ReadOnly, NetworkAccess::Off));
        let both = new_rules(UNSET, memory(Bound::Unbounded), memory(Bound::AtMost(7)));
        assert_eq!(decide(&both, UNSET).unwrap().1.memory, Some(7));
    }

    #[test]
    fn a_call_tightens_and_the_network_follows_its_profile() {
        let default = new_rules(profile(SandboxProfile::Default), UNSET, UNSET);
        let read_only = profile(SandboxProfile::ReadOnly);
        assert_granted(&default, read_only, (SandboxProfile::ReadOnly, NetworkAccess::Off));
        let with_network = ConfinementTerms { network: Some(NetworkRule::On), ..read_only };
        assert_granted(&default, with_network, (SandboxProfile::ReadOnly, NetworkAccess::On));
        assert_granted(
            &default,
            network(NetworkRule::Off),
            (SandboxProfile::Default, NetworkAccess::Off),
        );
        let online = new_rules(profile(SandboxProfile::Default), network(NetworkRule::On), UNSET);
        assert_granted(&online, read_only, (SandboxProfile::ReadOnly, NetworkAccess::On));
        let (_, limits) = decide(&default, memory(Bound::AtMost(9))).unwrap();
        assert_eq!(limits.memory, Some(9));
    }

    #[test]
    fn a_call_that_asks_for_looser_confinement_is_refused_with_the_current_one() {
        let tight = new_rules(profile(SandboxProfile::WorkspaceWrite), UNSET, UNSET);
        assert_refused(
            &tight,
            profile(SandboxProfile::Default),
            &["confinement default was asked", "tenant local", "have confinement workspace-write"],
        );
        assert_refused(
            &tight,
            network(NetworkRule::On),
            &["network on was asked", "have network off"],
        );
        let bounded = LimitTerms {
            memory: Some(Bound::AtMost(1000)),
            cpu: Some(Bound::AtMost(Duration::from_millis(1500))),
            nice: Some(5),
            ..NOTHING
        };
        let bounded = new_rules(ConfinementTerms { limits: bounded, ..UNSET }, UNSET, UNSET);
        assert_refused(&bounded, memory(Bound::AtMost(1001)), &["memory 1001 B", "memory 1000 B"]);
        assert_refused(&bounded, memory(Bound::Unbounded), &["memory none", "memory 1000 B"]);
        let longer = LimitTerms { cpu: Some(Bound::AtMost(Duration::from_secs(2))), ..NOTHING };
        assert_refused(
            &bounded,
            ConfinementTerms { limits: longer, ..UNSET },
            &["cpu_s 2s", "cpu_s 1.5s"],
        );
        let pushier = LimitTerms { nice: Some(4), ..NOTHING };
        assert_refused(
            &bounded,
            ConfinementTerms { limits: pushier, ..UNSET },
            &["nice 4", "nice 5"],
        );
    }

    #[test]
    fn unsupported_confinement_is_refused_or_degraded() {
        let mut weak = new_rules(profile(SandboxProfile::Default), UNSET, UNSET);
        weak.support = weak.support.limited_to(Backend::Seccomp);
        let error = decide(&weak, profile(SandboxProfile::ReadOnly)).unwrap_err();
        assert_eq!(error.code(), "confinement_unavailable");
        assert_eq!(weak.grant_terms(UNSET).unwrap().0.backend, Backend::Seccomp);
        assert!(weak.grant_terms(profile(SandboxProfile::ReadOnly)).is_err());
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
            let rules = new_rules(all, tenant, lane);
            let (plain, limits) = decide(&rules, UNSET).unwrap();
            let plain: Confinement = plain.effective;
            if let Ok((granted, asked_limits)) = decide(&rules, asked) {
                prop_assert!(granted.effective.is_as_tight_as(plain));
                prop_assert_eq!(asked_limits.tightened(limits), asked_limits);
            }
        }
    }
}
