//! Names of failed tests, each once.

/// So many are remembered.
const MOST: usize = 20;

/// The first names that were given.
#[derive(Debug, Clone, Default)]
pub(super) struct Names(Vec<String>);

impl Names {
    pub(super) fn add(&mut self, name: &str) {
        let name = name.trim();
        let is_new = !self.0.iter().any(|known| known == name);
        if is_new && self.0.len() < MOST && !name.is_empty() {
            self.0.push(name.chars().take(120).collect());
        }
    }

    /// Without those that only stand for what is nested in them: `TestStore` of
    /// `TestStore/loads`.
    pub(super) fn innermost(&self) -> Vec<String> {
        let is_outer = |name: &&String| {
            let inner = |other: &String| {
                other.strip_prefix(name.as_str()).is_some_and(|rest| rest.starts_with('/'))
            };
            self.0.iter().any(inner)
        };
        self.0.iter().filter(|name| !is_outer(name)).cloned().collect()
    }

    pub(super) fn to_vec(&self) -> Vec<String> {
        self.0.clone()
    }
}
