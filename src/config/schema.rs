//! Every key there is, and the rule that its value keeps.

use super::check::Rule;

/// One setting: its dotted key and its rule.
#[derive(Debug)]
pub(super) struct Setting {
    pub(super) key: &'static str,
    pub(super) rule: Rule,
}

const fn setting(key: &'static str, rule: Rule) -> Setting {
    Setting { key, rule }
}

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
const PIB: u64 = 1 << 50;
const DAY: f64 = 86_400.0;
const YEAR: f64 = 365.0 * DAY;

/// The words for `mcp.dialects`.
const DIALECTS: [&str; 6] =
    ["native", "shell", "execute", "run_shell_command", "execute_command", "shell_exec"];

/// The section whose keys are free names.
const LANES: &str = "queue.lanes";
const LANE: Rule = Rule::Count { min: 1, max: 100_000 };

/// Every setting in the order of `config/default.toml`, which is the order of `config show`.
pub(super) const SETTINGS: &[Setting] = &[
    setting("http.bind", Rule::Address),
    setting("http.path", Rule::Route),
    setting("http.allowed_hosts", Rule::Hosts),
    setting("http.allowed_origins", Rule::Origins),
    setting("http.token_file", Rule::Path),
    setting("http.max_body", Rule::Size { min: KIB, max: GIB }),
    setting("http.max_headers", Rule::Size { min: 8 * KIB, max: MIB }),
    setting("http.header_timeout_s", Rule::Seconds { min: 0.1, max: 3600.0 }),
    setting("http.max_connections", Rule::Count { min: 1, max: 1_000_000 }),
    setting("mcp.dialects", Rule::Words(&DIALECTS)),
    setting("mcp.server_name", Rule::Word(&["shellyard", "mcpz-shell"])),
    setting("mcp.result_format", Rule::Word(&["text", "structured", "both"])),
    setting("mcp.wait_s", Rule::Seconds { min: 0.0, max: DAY }),
    setting("mcp.max_wait_s", Rule::Seconds { min: 0.0, max: DAY }),
    setting("mcp.max_wait_with_progress_s", Rule::Seconds { min: 0.0, max: DAY }),
    setting("mcp.progress_s", Rule::Seconds { min: 0.1, max: 3600.0 }),
    setting("mcp.max_tokens", Rule::Count { min: 500, max: 400_000 }),
    setting("mcp.page_bytes", Rule::Size { min: KIB, max: 16 * MIB }),
    setting("mcp.max_page_bytes", Rule::Size { min: KIB, max: 16 * MIB }),
    setting("mcp.cancel_stops_job", Rule::Switch),
    setting("queue.slots", Rule::Count { min: 0, max: 100_000 }),
    setting("queue.max_queued", Rule::Count { min: 1, max: 10_000_000 }),
    setting("job.shell", Rule::Shell),
    setting("job.timeout_s", Rule::Seconds { min: 0.001, max: YEAR }),
    setting("job.max_timeout_s", Rule::Seconds { min: 0.001, max: YEAR }),
    setting("job.grace_s", Rule::Seconds { min: 0.0, max: 3600.0 }),
    setting("job.max_output", Rule::Size { min: 1, max: PIB }),
    setting("job.max_lines", Rule::Count { min: 0, max: i64::MAX as u64 }),
    setting("job.drain_quiet_ms", Rule::Count { min: 1, max: 60_000 }),
    setting("job.drain_max_ms", Rule::Count { min: 1, max: 600_000 }),
    setting("job.cwd", Rule::Path),
    setting("policy.allow", Rule::Texts),
    setting("policy.deny", Rule::Texts),
    setting("policy.ask", Rule::Texts),
    setting("policy.coreTools", Rule::Texts),
    setting("policy.excludeTools", Rule::Texts),
    setting("policy.blocked_commands", Rule::Texts),
    setting("policy.allowed_directories", Rule::Directories),
    setting("policy.uncertain", Rule::Word(&["refuse", "allow"])),
    setting("environment.inherit", Rule::Word(&["core", "all"])),
    setting("environment.pass", Rule::Texts),
    setting("environment.drop", Rule::Texts),
    setting("environment.set", Rule::Variables),
    setting("redact.builtin", Rule::Switch),
    setting("redact.patterns", Rule::Texts),
    setting("redact.at_write", Rule::Switch),
    setting("audit.enabled", Rule::Switch),
    setting("audit.file", Rule::Path),
    setting("audit.max_bytes", Rule::Size { min: 64 * KIB, max: PIB }),
    setting("audit.keep", Rule::Count { min: 1, max: 10_000 }),
    setting("audit.on_failure", Rule::Word(&["count", "refuse"])),
    setting("shell_tool.default_timeout", Rule::Seconds { min: 1.0, max: DAY }),
    setting("shell_tool.max_timeout", Rule::Seconds { min: 1.0, max: DAY }),
    setting("shell_tool.max_output_size", Rule::Size { min: 1, max: GIB }),
    setting("shell_tool.allowed_directories", Rule::Directories),
    setting("shell_tool.blocked_commands", Rule::Texts),
    setting("shell_tool.log_commands", Rule::Switch),
    setting("shell_tool.abort_file", Rule::Path),
    setting("execute.max_output_bytes", Rule::Size { min: 0, max: GIB }),
    setting("execute.log_full_output", Rule::Switch),
    setting("execute.log_output_bytes", Rule::Size { min: 0, max: MIB }),
    setting("run_shell_command.marker", Rule::Name),
    setting("execute_command.timeout", Rule::Seconds { min: 0.001, max: YEAR }),
    setting("execute_command.shell", Rule::Path),
    setting("execute_command.stderr", Rule::Switch),
    setting("execute_command.verbose", Rule::Switch),
    setting("execute_command.max_output", Rule::Size { min: 1, max: GIB }),
    setting("output.memory", Rule::Size { min: 4 * KIB, max: 64 * MIB }),
    setting("output.large", Rule::Size { min: 4 * KIB, max: PIB }),
    setting("output.on_large_output", Rule::Word(&["spill", "truncate", "error"])),
    setting("output.max_store", Rule::Size { min: KIB, max: PIB }),
    setting("output.max_tenant", Rule::Size { min: KIB, max: PIB }),
    setting("output.compress_from", Rule::Size { min: 0, max: PIB }),
    setting("output.search_s", Rule::Seconds { min: 0.001, max: 3600.0 }),
    setting("retention.max_finished", Rule::Count { min: 1, max: 10_000_000 }),
    setting("retention.max_age_s", Rule::Seconds { min: 0.0, max: 100.0 * YEAR }),
    setting("retention.max_bytes", Rule::Size { min: 0, max: PIB }),
    setting("retention.tenant_max_finished", Rule::Count { min: 0, max: 10_000_000 }),
    setting("retention.tenant_max_age_s", Rule::Seconds { min: 0.0, max: 100.0 * YEAR }),
    setting("retention.tenant_max_bytes", Rule::Size { min: 0, max: PIB }),
    setting("server.data_dir", Rule::Path),
    setting("server.drain_s", Rule::Seconds { min: 0.0, max: 3600.0 }),
    setting("log.format", Rule::Word(&["human", "json"])),
    setting("log.filter", Rule::Filter),
];

/// Pairs of keys of which the first must not be larger than the second.
pub(super) const ORDERED: &[(&str, &str)] = &[
    ("mcp.wait_s", "mcp.max_wait_s"),
    ("mcp.max_wait_s", "mcp.max_wait_with_progress_s"),
    ("mcp.page_bytes", "mcp.max_page_bytes"),
    ("job.timeout_s", "job.max_timeout_s"),
    ("shell_tool.default_timeout", "shell_tool.max_timeout"),
    ("job.drain_quiet_ms", "job.drain_max_ms"),
];

/// What a dotted key stands for.
#[derive(Debug)]
pub(super) enum Meaning {
    /// A table of further keys.
    Section,
    /// A value that keeps this rule.
    Value(&'static Rule),
    /// A key under `queue.lanes` that cannot be a lane's name.
    BadLane,
    /// Nothing that we know.
    Unknown,
}

/// What `key` stands for.
pub(super) fn meaning(key: &str) -> Meaning {
    if let Some(setting) = SETTINGS.iter().find(|setting| setting.key == key) {
        return Meaning::Value(&setting.rule);
    }
    if sections().any(|section| section == key) {
        return Meaning::Section;
    }
    match lane_of(key) {
        Some(name) if is_lane_name(name) => Meaning::Value(&LANE),
        Some(_) => Meaning::BadLane,
        None => Meaning::Unknown,
    }
}

/// Every section, some more than once.
pub(super) fn sections() -> impl Iterator<Item = &'static str> {
    let named = SETTINGS.iter().filter_map(|setting| Some(setting.key.rsplit_once('.')?.0));
    named.chain([LANES])
}

/// Where a key stands in `config show`: lanes come after the rest of their section.
pub(super) fn rank(key: &str) -> usize {
    let last_of_queue = SETTINGS.iter().rposition(|setting| setting.key.starts_with("queue."));
    match SETTINGS.iter().position(|setting| setting.key == key) {
        // Doubled, so that lanes fit in between.
        Some(position) => 2 * position,
        None => last_of_queue.map_or(0, |position| 2 * position + 1),
    }
}

/// The environment variable that sets `key`.
pub(super) fn variable(key: &str) -> String {
    format!("{VARIABLE_PREFIX}{}", key.replace('.', "_").to_uppercase())
}

/// What the names of our environment variables start with.
pub(super) const VARIABLE_PREFIX: &str = "SHELLYARD_";

/// The key that an environment variable of ours sets.
pub(super) fn key_of_variable(name: &str) -> Option<String> {
    if let Some(setting) = SETTINGS.iter().find(|setting| variable(setting.key) == name) {
        return Some(setting.key.to_owned());
    }
    let lane = name.strip_prefix(&variable(LANES))?.strip_prefix('_')?;
    Some(format!("{LANES}.{}", lane.to_lowercase()))
}

fn lane_of(key: &str) -> Option<&str> {
    key.strip_prefix(LANES)?.strip_prefix('.')
}

fn is_lane_name(name: &str) -> bool {
    (1..=32).contains(&name.len())
        && name.bytes().all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_settings_share_a_variable() {
        let mut names: Vec<_> = SETTINGS.iter().map(|setting| variable(setting.key)).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), SETTINGS.len());
    }

    #[test]
    fn a_variable_leads_back_to_its_key() {
        for setting in SETTINGS {
            assert_eq!(key_of_variable(&variable(setting.key)).as_deref(), Some(setting.key));
        }
        assert_eq!(
            key_of_variable("SHELLYARD_QUEUE_LANES_GPU").as_deref(),
            Some("queue.lanes.gpu")
        );
        assert_eq!(key_of_variable("SHELLYARD_QUEUE_SLOT"), None);
    }

    #[test]
    fn lane_names_are_short_lower_case_words() {
        for good in ["queue.lanes.a", "queue.lanes.gpu-0_x"] {
            assert!(matches!(meaning(good), Meaning::Value(_)), "{good}");
        }
        let long = format!("queue.lanes.{}", "a".repeat(33));
        for bad in ["queue.lanes.", "queue.lanes.GPU", "queue.lanes.a b", long.as_str()] {
            assert!(matches!(meaning(bad), Meaning::BadLane), "{bad}");
        }
    }

    #[test]
    fn lanes_are_shown_right_after_their_section() {
        assert!(rank("queue.max_queued") < rank("queue.lanes.build"));
        assert!(rank("queue.lanes.build") < rank("job.shell"));
    }
}
