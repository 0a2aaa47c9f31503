//! The rules of a policy that a gate checks for one tenant and lane.

use std::path::{Component, Path, PathBuf};

use super::rules::{GateRule, GateRules};
use crate::decide::Policy;
use crate::rules::PolicyRule;

/// Programs that may start anything if an allow rule names them: build tools, interpreters,
/// package managers, test runners, and programs that run others elsewhere.
const DEFAULT_OPENS: &str = "cargo cargo-* rustc rustup make gmake cmake ctest ninja meson just bazel npm npx pnpm \
    yarn node bun deno jest vitest python python2 python3 python3.* pypy3 pip pip3 pipx \
    pipenv uv uvx poetry hatch pdm conda pytest py.test tox nox pre-commit go java javac mvn \
    gradle sbt ant dotnet ruby bundle rake gem perl php composer gcc gcc-* g++ g++-* cc c++ \
    clang clang++ clang-* swift zig ghc cabal stack mix elixir julia R Rscript docker podman \
    ssh ansible-playbook terraform kubectl gdb strace";

/// Returns the names of the programs that may start anything unless the settings say otherwise.
#[must_use]
pub fn default_opens() -> Vec<String> {
    DEFAULT_OPENS.split_whitespace().map(str::to_owned).collect()
}

/// The tenant, the lane and the place for which rules are selected.
#[derive(Debug, Clone, Copy)]
pub struct GateScope<'s> {
    /// The tenant that sends the request.
    pub tenant: &'s str,
    /// The lane that the job queues in.
    pub lane: &'s str,
    /// The absolute directory that relative path rules start from: the server's or the tenant's.
    pub directory: &'s Path,
    /// Names of programs that may start anything: the setting, or [`default_opens`].
    pub opens: &'s [String],
}

impl Policy {
    /// Selects the rules that a gate checks; `None` if no start needs to be judged. `follow_links`
    /// returns a path with its links followed, as far as the path exists.
    ///
    /// [`GateRules::files`] and [`GateRules::given`] are empty: the server fills them, see
    /// [`GateRules::lookup`].
    #[must_use]
    pub fn gate_rules(
        &self,
        scope: &GateScope<'_>,
        follow_links: &dyn Fn(&Path) -> PathBuf,
    ) -> Option<GateRules> {
        let select = |rules: &[PolicyRule]| -> Vec<GateRule> {
            let covered = rules.iter().filter(|rule| rule.covers(scope.tenant, scope.lane));
            covered.map(|rule| new_gate_rule(rule, scope.directory, follow_links)).collect()
        };
        let allows_everything = |rule: &GateRule| rule.text == "*";
        let allow = self.allow.as_deref().map(select);
        let allow = allow.filter(|allow| !allow.iter().any(allows_everything));
        let (deny, ask) = (select(&self.deny), select(&self.ask));
        if allow.is_none() && deny.is_empty() && ask.is_empty() {
            return None;
        }
        let opens = scope.opens.to_vec();
        Some(GateRules { allow, deny, ask, opens, files: Vec::new(), given: Vec::new() })
    }
}

fn new_gate_rule(
    rule: &PolicyRule,
    directory: &Path,
    follow_links: &dyn Fn(&Path) -> PathBuf,
) -> GateRule {
    let program = rule.words().map(|(program, _)| program).filter(|it| it.contains('/'));
    GateRule {
        text: rule.gate_text(),
        location: rule.location().to_owned(),
        path: program.map(|program| resolve_pattern(&directory.join(program), follow_links)),
    }
}

/// Follows the links in the part of a path that has no wildcards.
fn resolve_pattern(path: &Path, follow_links: &dyn Fn(&Path) -> PathBuf) -> PathBuf {
    let has_wildcard =
        |part: &Component<'_>| part.as_os_str().to_string_lossy().contains(['*', '?']);
    let parts: Vec<Component<'_>> = path.components().collect();
    let literal = parts.iter().position(has_wildcard).unwrap_or(parts.len());
    let resolved = follow_links(&parts.iter().take(literal).collect::<PathBuf>());
    parts.iter().skip(literal).fold(resolved, |path, part| path.join(part))
}
