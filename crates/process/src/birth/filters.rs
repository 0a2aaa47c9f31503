//! Filters of system calls that are kept compiled.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use super::order::Shut;
use crate::confine::seccomp::{self, CallRules, Filters};
use crate::confinement::Backend;

/// How many are kept: one for each confinement that is in use, times a few sets of our threads.
const MOST: usize = 32;

/// Each with what it was made from, the latest last.
static KNOWN: Mutex<Vec<(CallRules, Arc<Filters>)>> = Mutex::new(Vec::new());

/// The filter for a process that is shut in like this.
pub(super) fn of(shut: &Shut) -> io::Result<Arc<Filters>> {
    match shut.backend {
        Backend::Nothing => Ok(Arc::default()),
        Backend::Namespaces | Backend::Landlock | Backend::Seccomp => {
            let untouchable = shut.untouchable.clone();
            let profile = shut.confinement.profile;
            known_or_compiled(CallRules { profile, sockets: shut.sockets, untouchable })
        }
    }
}

fn known_or_compiled(rules: CallRules) -> io::Result<Arc<Filters>> {
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, filters)) = known.iter().rev().find(|(known, _)| *known == rules) {
        return Ok(Arc::clone(filters));
    }
    let filters = Arc::new(seccomp::compile(&rules)?);
    if known.len() >= MOST {
        known.clear();
    }
    known.push((rules, Arc::clone(&filters)));
    Ok(filters)
}
