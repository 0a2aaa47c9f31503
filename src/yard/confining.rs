//! How far a job is shut in and what it may use up: what was said for all jobs, for its lane and
//! for its tenant, what its call asks for on top, and what this host can give.
//!
//! **Invariant:** a call only tightens. Whatever it asks for allows nothing that its tenant's and
//! its lane's jobs may not do anyway.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::time::Duration;

use thiserror::Error;

use crate::confinement::{Confinement, Granted, Network, Profile, ResourceLimits};
use crate::ids::Tenant;
use crate::process::sandbox::{HostOffer, OnUnavailable, Unavailable, grant};
use crate::size;

/// What somebody says about the confinement of jobs; `None`: nothing of that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Terms {
    /// What a job may do to its surroundings.
    pub profile: Option<Profile>,
    /// Whether it has a network.
    pub network: Option<NetworkRule>,
    /// What it may use up.
    pub limits: LimitTerms,
}

impl Terms {
    /// Nothing is said.
    pub const NOTHING: Self = Self { profile: None, network: None, limits: LimitTerms::NOTHING };
}

/// Whether a job has a network. Loosest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum NetworkRule {
    /// It has.
    On,
    /// As its profile has it.
    Usual,
    /// It has not.
    Off,
}

impl NetworkRule {
    /// Each with the word for it in a call.
    pub const WORDS: [(&'static str, Self); 2] = [("on", Self::On), ("off", Self::Off)];

    const fn with(self, profile: Profile) -> Network {
        match self {
            Self::On => Network::On,
            Self::Usual => profile.usual_network(),
            Self::Off => Network::Off,
        }
    }
}

/// What somebody says about what a job may use up; `None`: nothing of that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LimitTerms {
    /// Memory of all its processes together, in bytes.
    pub memory: Option<Bound<u64>>,
    /// CPU time of all its processes together.
    pub cpu: Option<Bound<Duration>>,
    /// Processes and threads at one time.
    pub processes: Option<Bound<u64>>,
    /// Open files of each process.
    pub open_files: Option<Bound<u64>>,
    /// The size of each file that it writes, in bytes.
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

/// What was said about the confinement of jobs, and what this host can do.
#[derive(Debug, Clone)]
pub struct Confining {
    /// Of all jobs about which nothing else is said.
    pub all: Terms,
    /// Of the jobs of these tenants.
    pub tenants: BTreeMap<Tenant, Terms>,
    /// Of the jobs in these lanes.
    pub lanes: BTreeMap<String, Terms>,
    /// What this host can do.
    pub offer: HostOffer,
    /// What becomes of a job whose confinement it cannot give.
    pub on_unavailable: OnUnavailable,
}

/// What jobs get that do not ask for anything tighter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Standing {
    profile: Profile,
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
        tenant: Tenant,
        /// Where.
        lane: String,
        /// What they have.
        has: String,
    },
    /// This host cannot do it.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
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

impl Confining {
    /// What a job gets in this lane of this tenant whose call asks for this.
    pub(super) fn decide(
        &self,
        tenant: Tenant,
        lane: &str,
        asked: &Terms,
    ) -> Result<(Granted, ResourceLimits), ConfineError> {
        let standing = self.standing(tenant, lane);
        let (confinement, limits) = standing.tightened(asked).map_err(|(asked, has)| {
            ConfineError::Loosened { asked, tenant, lane: lane.to_owned(), has }
        })?;
        Ok((grant(confinement, &self.offer, self.on_unavailable)?, limits))
    }

    /// Grants a confinement in full, or says what the host lacks for it.
    pub(super) fn grant_whole(&self, asked: Confinement) -> Result<Granted, Unavailable> {
        grant(asked, &self.offer, OnUnavailable::Refuse)
    }

    /// What this tenant's jobs may do in this lane, unless they ask for less.
    pub(super) fn confinement(&self, tenant: Tenant, lane: &str) -> Confinement {
        self.standing(tenant, lane).confinement()
    }

    /// What a job gets about which nothing is said but this, and what is said of all.
    ///
    /// # Errors
    /// When this host cannot give it.
    pub fn granted(&self, said: Terms) -> Result<(Granted, ResourceLimits), Unavailable> {
        let standing = self.with(&[said]);
        let granted = grant(standing.confinement(), &self.offer, self.on_unavailable)?;
        Ok((granted, standing.limits))
    }

    fn standing(&self, tenant: Tenant, lane: &str) -> Standing {
        let said = [self.tenants.get(&tenant), self.lanes.get(lane)];
        let said: Vec<Terms> = said.into_iter().flatten().copied().collect();
        self.with(&said)
    }

    /// Of each thing the tightest that was said, and where nothing was, what is said of all.
    fn with(&self, said: &[Terms]) -> Standing {
        let profile = said.iter().filter_map(|terms| terms.profile).max();
        let network = said.iter().filter_map(|terms| terms.network).max();
        Standing {
            profile: profile.or(self.all.profile).unwrap_or(Profile::None),
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
    said: &[Terms],
    all: &Terms,
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
    fn tightened(&self, asked: &Terms) -> Result<(Confinement, ResourceLimits), Looser> {
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
