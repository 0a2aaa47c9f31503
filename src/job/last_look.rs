//! The last look at a job's processes, for whoever can do with one that is almost new.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::status::Liveness;

/// A look takes a walk over the host's processes. However many ask, there are not more than ten of
/// them in a second.
const MAX_AGE: Duration = Duration::from_millis(100);

/// What was last seen, and when that look began.
#[derive(Debug, Default)]
pub(super) struct LastLook(Mutex<Option<(Instant, Option<Liveness>)>>);

impl LastLook {
    /// What was seen a moment ago, else what `look` sees now. While somebody looks, others get what was
    /// seen before that, and do not wait.
    pub(super) fn or_look(&self, look: impl FnOnce() -> Option<Liveness>) -> Option<Liveness> {
        self.or_look_at(Instant::now(), look)
    }

    fn or_look_at(
        &self,
        now: Instant,
        look: impl FnOnce() -> Option<Liveness>,
    ) -> Option<Liveness> {
        {
            let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some((began, seen)) = &mut *last {
                if now.duration_since(*began) < MAX_AGE {
                    return seen.clone();
                }
                *began = now;
            }
        }
        let seen = look();
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some((now, seen.clone()));
        seen
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(processes: usize) -> Option<Liveness> {
        let (cpu, rss_bytes, waiting_for_input) = (Duration::ZERO, 0, false);
        Some(Liveness { processes, cpu, rss_bytes, waiting_for_input })
    }

    #[test]
    fn while_somebody_looks_others_get_what_was_seen_before() {
        let now = Instant::now();
        let old = now.checked_sub(2 * MAX_AGE).unwrap();
        let last = LastLook(Mutex::new(Some((old, seen(1)))));
        let looked = last.or_look_at(now, || {
            assert_eq!(last.or_look_at(now, || panic!("a second look")), seen(1));
            seen(2)
        });
        assert_eq!(looked, seen(2));
    }

    #[test]
    fn an_old_look_is_followed_by_a_new_one() {
        let last = LastLook::default();
        assert_eq!(last.or_look(|| None), None);
        let old = Instant::now().checked_sub(2 * MAX_AGE).unwrap();
        *last.0.lock().unwrap() = Some((old, seen(1)));
        assert_eq!(last.or_look(|| seen(2)), seen(2));
    }
}
