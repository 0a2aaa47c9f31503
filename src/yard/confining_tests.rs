//! Who may say what, and what holds in the end.

use std::collections::BTreeMap;
use std::time::Duration;

use proptest::prelude::*;

use super::confining::{Bound, ConfineError, Confining, LimitTerms, NetworkRule, Terms};
use crate::confinement::{Backend, Confinement, Granted, Network, Profile, ResourceLimits};
use crate::ids::Tenant;
use crate::process::sandbox::{HostOffer, OnUnavailable};

impl Confining {
    /// Nothing is said, and the host can do everything.
    pub(super) fn of_nothing() -> Self {
        Self {
            all: Terms::NOTHING,
            tenants: BTreeMap::new(),
            lanes: BTreeMap::new(),
            offer: HostOffer {
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
const SAYS_NOTHING: Terms = Terms::NOTHING;

const fn profile(profile: Profile) -> Terms {
    Terms { profile: Some(profile), ..SAYS_NOTHING }
}

const fn network(rule: NetworkRule) -> Terms {
    Terms { network: Some(rule), ..SAYS_NOTHING }
}

const fn memory(bound: Bound<u64>) -> Terms {
    let limits = LimitTerms { memory: Some(bound), ..NOTHING };
    Terms { limits, ..SAYS_NOTHING }
}

/// What is said of all, of the tenant and of the lane.
fn confining(all: Terms, tenant: Terms, lane: Terms) -> Confining {
    Confining {
        all,
        tenants: BTreeMap::from([(Tenant::LOCAL, tenant)]),
        lanes: BTreeMap::from([(LANE.to_owned(), lane)]),
        ..Confining::of_nothing()
    }
}

fn decide(confining: &Confining, asked: Terms) -> Result<(Granted, ResourceLimits), ConfineError> {
    confining.decide(Tenant::LOCAL, LANE, &asked)
}

#[track_caller]
fn gets(confining: &Confining, asked: Terms, expected: (Profile, Network)) {
    let (granted, _) = decide(confining, asked).unwrap();
    assert_eq!((granted.given.profile, granted.given.network), expected);
}

#[track_caller]
fn is_refused(confining: &Confining, asked: Terms, words: &[&str]) {
    let error = decide(confining, asked).unwrap_err();
    assert_eq!(error.code(), "confinement_loosened");
    let told = error.to_string();
    assert!(words.iter().all(|word| told.contains(word)), "{told}");
}

#[test]
fn a_tenant_or_a_lane_replaces_what_holds_for_all() {
    let all = profile(Profile::WorkspaceWrite);
    let loose = profile(Profile::None);
    gets(
        &confining(all, SAYS_NOTHING, SAYS_NOTHING),
        SAYS_NOTHING,
        (Profile::WorkspaceWrite, Network::Off),
    );
    gets(&confining(all, loose, SAYS_NOTHING), SAYS_NOTHING, (Profile::None, Network::On));
    gets(&confining(all, SAYS_NOTHING, loose), SAYS_NOTHING, (Profile::None, Network::On));
    let (_, limits) = decide(
        &confining(memory(Bound::AtMost(5)), memory(Bound::Unbounded), SAYS_NOTHING),
        SAYS_NOTHING,
    )
    .unwrap();
    assert_eq!(limits.memory, None);
}

#[test]
fn between_tenant_and_lane_the_tighter_holds() {
    let (loose, tight) = (profile(Profile::None), profile(Profile::ReadOnly));
    for (tenant, lane) in [(loose, tight), (tight, loose)] {
        let both = confining(profile(Profile::Default), tenant, lane);
        gets(&both, SAYS_NOTHING, (Profile::ReadOnly, Network::Off));
    }
    let both = confining(tight, network(NetworkRule::On), network(NetworkRule::Usual));
    gets(&both, SAYS_NOTHING, (Profile::ReadOnly, Network::Off));
    let both = confining(SAYS_NOTHING, memory(Bound::Unbounded), memory(Bound::AtMost(7)));
    assert_eq!(decide(&both, SAYS_NOTHING).unwrap().1.memory, Some(7));
}

#[test]
fn a_call_tightens_and_the_network_follows_its_profile() {
    let default = confining(profile(Profile::Default), SAYS_NOTHING, SAYS_NOTHING);
    let read_only = profile(Profile::ReadOnly);
    gets(&default, read_only, (Profile::ReadOnly, Network::Off));
    let with_network = Terms { network: Some(NetworkRule::On), ..read_only };
    gets(&default, with_network, (Profile::ReadOnly, Network::On));
    gets(&default, network(NetworkRule::Off), (Profile::Default, Network::Off));
    let online = confining(profile(Profile::Default), network(NetworkRule::On), SAYS_NOTHING);
    gets(&online, read_only, (Profile::ReadOnly, Network::On));
    let (_, limits) = decide(&default, memory(Bound::AtMost(9))).unwrap();
    assert_eq!(limits.memory, Some(9));
}

#[test]
fn a_call_that_would_loosen_is_refused_and_told_what_there_is() {
    let tight = confining(profile(Profile::WorkspaceWrite), SAYS_NOTHING, SAYS_NOTHING);
    is_refused(
        &tight,
        profile(Profile::Default),
        &["confinement default was asked", "tenant local", "have confinement workspace-write"],
    );
    is_refused(&tight, network(NetworkRule::On), &["network on was asked", "have network off"]);
    let bounded = LimitTerms {
        memory: Some(Bound::AtMost(1000)),
        cpu: Some(Bound::AtMost(Duration::from_millis(1500))),
        nice: Some(5),
        ..NOTHING
    };
    let bounded = confining(Terms { limits: bounded, ..SAYS_NOTHING }, SAYS_NOTHING, SAYS_NOTHING);
    is_refused(&bounded, memory(Bound::AtMost(1001)), &["memory 1001 B", "memory 1000 B"]);
    is_refused(&bounded, memory(Bound::Unbounded), &["memory none", "memory 1000 B"]);
    let longer = LimitTerms { cpu: Some(Bound::AtMost(Duration::from_secs(2))), ..NOTHING };
    is_refused(&bounded, Terms { limits: longer, ..SAYS_NOTHING }, &["cpu_s 2s", "cpu_s 1.5s"]);
    let pushier = LimitTerms { nice: Some(4), ..NOTHING };
    is_refused(&bounded, Terms { limits: pushier, ..SAYS_NOTHING }, &["nice 4", "nice 5"]);
}

#[test]
fn what_the_host_lacks_is_refused_or_degraded() {
    let mut weak = confining(profile(Profile::Default), SAYS_NOTHING, SAYS_NOTHING);
    weak.offer = weak.offer.limited_to(Backend::Seccomp);
    let error = decide(&weak, profile(Profile::ReadOnly)).unwrap_err();
    assert_eq!(error.code(), "confinement_unavailable");
    assert_eq!(weak.granted(SAYS_NOTHING).unwrap().0.backend, Backend::Seccomp);
    assert!(weak.granted(profile(Profile::ReadOnly)).is_err());
    weak.on_unavailable = OnUnavailable::Degrade;
    let (granted, _) = decide(&weak, profile(Profile::ReadOnly)).unwrap();
    assert!(granted.is_degraded());
    assert_eq!(granted.given.profile, Profile::Default);
}

fn any_terms() -> impl Strategy<Value = Terms> {
    let profiles = prop::sample::select(Profile::WORDS.map(|(_, profile)| profile).to_vec());
    let rules = vec![NetworkRule::On, NetworkRule::Usual, NetworkRule::Off];
    let bounds = prop_oneof![Just(Bound::Unbounded), (1_u64..6).prop_map(Bound::AtMost)];
    let parts = (
        prop::option::of(profiles),
        prop::option::of(prop::sample::select(rules)),
        prop::option::of(bounds),
        prop::option::of(0_u8..4),
    );
    parts.prop_map(|(profile, network, processes, nice)| Terms {
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
        let plain: Confinement = plain.given;
        if let Ok((granted, asked_limits)) = decide(&confining, asked) {
            prop_assert!(granted.given.is_as_tight_as(plain));
            prop_assert_eq!(asked_limits.tightened(limits), asked_limits);
        }
    }
}
