//! Lanes and tenants that metrics name; all others count as `other`.
//!
//! Series of names that come from outside would have no bound. Those that are configured have.

use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use super::labels::OTHER;
use crate::ids::Tenant;

/// Names of one kind that get series of their own; the rest count as `other`.
const MAX_NAMES: usize = 200;

/// Names that get series of their own.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KnownNames {
    /// Of lanes.
    pub lanes: BTreeSet<String>,
    /// Of tenants.
    pub tenants: BTreeSet<String>,
}

impl KnownNames {
    /// Nobody but the others.
    pub(super) fn others() -> Self {
        let others = || BTreeSet::from([OTHER.to_owned()]);
        Self { lanes: others(), tenants: others() }
    }

    /// Takes further names in, as long as there are not too many. Those that are known stay.
    pub(super) fn learn(&mut self, new: Self) {
        for (known, new) in [(&mut self.lanes, new.lanes), (&mut self.tenants, new.tenants)] {
            let free = (MAX_NAMES + 1).saturating_sub(known.len());
            let new: Vec<String> = new.into_iter().filter(|name| !known.contains(name)).collect();
            known.extend(new.into_iter().take(free));
        }
    }

    /// What a tenant is counted as.
    pub(super) fn label_of(&self, tenant: Tenant) -> &'static str {
        if self.tenants.contains(tenant.name()) { tenant.name() } else { OTHER }
    }
}

/// Names that are read at every event and change with a reload.
pub(super) type SharedNames = Arc<RwLock<KnownNames>>;

/// Those that events count by. There is one recorder in a process, and so there is one of these.
static OF_EVENTS: OnceLock<SharedNames> = OnceLock::new();

/// From now on events count tenants by these names. The first ones stay.
pub(super) fn use_for_events(names: &SharedNames) {
    OF_EVENTS.set(Arc::clone(names)).ok();
}

/// What events count a tenant as.
pub(super) fn label_of(tenant: Tenant) -> &'static str {
    OF_EVENTS.get().map_or(OTHER, |names| {
        names.read().unwrap_or_else(PoisonError::into_inner).label_of(tenant)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_a_bound_that_reloads_cannot_pass() {
        let mut known = KnownNames::others();
        for round in 0..10 {
            let tenants = (0..50).map(|number| format!("t{round}-{number}")).collect();
            known.learn(KnownNames { tenants, lanes: ["build".to_owned()].into() });
        }
        assert_eq!((known.tenants.len(), known.lanes.len()), (MAX_NAMES + 1, 2));
    }

    #[test]
    fn whoever_is_not_configured_is_one_of_the_others() {
        let mut known = KnownNames::others();
        known.learn(KnownNames { tenants: ["ci".to_owned()].into(), lanes: BTreeSet::new() });
        let label = |name| known.label_of(Tenant::named(name).unwrap());
        assert_eq!(["ci", "stranger", OTHER].map(label), ["ci", OTHER, OTHER]);
    }
}
