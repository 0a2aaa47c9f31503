//! What is counted for each tenant alone: its job numbers, and that a job of it was accepted.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use tokio::sync::watch;

use crate::ids::{JobId, JobNumber, Tenant};

/// All tenants that ever submitted or listened. Their number is bounded by that of tenants.
#[derive(Debug, Default)]
pub(super) struct Tenancy {
    tenants: Mutex<HashMap<Tenant, Books>>,
}

#[derive(Debug, Default)]
struct Books {
    /// The last number that was given out.
    last: u64,
    /// Says that a job was accepted.
    appeared: watch::Sender<()>,
}

impl Tenancy {
    /// The next job of a tenant.
    pub(super) fn next_job(&self, tenant: Tenant) -> JobId {
        self.books(tenant, |books| {
            books.last += 1;
            JobNumber::new(books.last).of(tenant)
        })
    }

    /// A job of this tenant was accepted.
    pub(super) fn appeared(&self, tenant: Tenant) {
        self.books(tenant, |books| books.appeared.send_replace(()));
    }

    /// Changes whenever a job of this tenant was accepted.
    pub(super) fn appearances(&self, tenant: Tenant) -> watch::Receiver<()> {
        self.books(tenant, |books| books.appeared.subscribe())
    }

    fn books<T>(&self, tenant: Tenant, look: impl FnOnce(&mut Books) -> T) -> T {
        let mut tenants = self.tenants.lock().unwrap_or_else(PoisonError::into_inner);
        look(tenants.entry(tenant).or_default())
    }
}
