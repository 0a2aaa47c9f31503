//! What differs between two loads, and what of it a running server takes over.

use super::load::Loaded;

/// Keys, and beginnings of keys, that a running server takes over. All others take a restart.
const LIVE: [&str; 25] = [
    "confinement.backend",
    "confinement.network",
    "confinement.on_unavailable",
    "confinement.profile",
    "job.cwd",
    "job.grace_s",
    "job.max_lines",
    "job.max_output",
    "job.max_timeout_s",
    "job.timeout_s",
    "limits.",
    "log.filter",
    "output.large",
    "output.max_store",
    "output.max_tenant",
    "output.on_large_output",
    "policy.",
    "pressure.",
    "queue.",
    "quota.",
    "redact.builtin",
    "redact.patterns",
    "shell_tool.allowed_directories",
    "shell_tool.blocked_commands",
    "tenants.",
];

/// Keys whose values differ.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Changes {
    /// Those that a running server takes over.
    pub live: Vec<String>,
    /// Those that take a restart.
    pub restart: Vec<String>,
}

impl Changes {
    /// What differs between two loads.
    #[must_use]
    pub fn between(old: &Loaded, new: &Loaded) -> Self {
        let values = |loaded: &Loaded| -> Vec<(String, toml::Value)> {
            let entries = loaded.entries().into_iter();
            entries.map(|(key, entry)| (key.to_owned(), entry.canonical.clone())).collect()
        };
        let (old, new) = (values(old), values(new));
        let differ = |one: &[(String, toml::Value)], other: &[(String, toml::Value)]| {
            let differing = one.iter().filter(|entry| !other.contains(entry));
            differing.map(|(key, _)| key.clone()).collect::<Vec<_>>()
        };
        let mut keys = differ(&new, &old);
        keys.extend(differ(&old, &new));
        keys.sort();
        keys.dedup();
        let (live, restart) = keys.into_iter().partition(|key| is_live(key));
        Self { live, restart }
    }
}

fn is_live(key: &str) -> bool {
    LIVE.iter().any(|live| key == *live || (live.ends_with('.') && key.starts_with(live)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Environment, Sources, load};

    fn loaded(variables: &[(&'static str, &'static str)]) -> Loaded {
        let environment = Environment::from_pairs(variables.to_vec());
        load(Sources { environment, ..Sources::default() }).unwrap()
    }

    #[test]
    fn what_differs_is_told_by_what_it_takes() {
        let old = loaded(&[("SHELLYARD_TENANTS_CI_WEIGHT", "2"), ("SHELLYARD_QUEUE_SLOTS", "4")]);
        let new = loaded(&[("SHELLYARD_QUEUE_SLOTS", "5"), ("SHELLYARD_HTTP_PATH", "/other")]);
        let changes = Changes::between(&old, &new);
        assert_eq!(changes.live, ["queue.slots", "tenants.ci.weight"]);
        assert_eq!(changes.restart, ["http.path"]);
        assert_eq!(Changes::between(&new, &new), Changes::default());
    }
}
