//! The schema: all keys with the rules for their values.

use super::check::ValueRule;

/// A setting: its dotted key and its rule.
#[derive(Debug)]
pub(super) struct SettingSchema {
    pub(super) key: &'static str,
    pub(super) rule: ValueRule,
}

const fn setting(key: &'static str, rule: ValueRule) -> SettingSchema {
    SettingSchema { key, rule }
}

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
const PIB: u64 = 1 << 50;
const DAY: f64 = 86_400.0;
const YEAR: f64 = 365.0 * DAY;

/// The values of `mcp.dialects`.
const DIALECTS: &[&str] = &[
    "native",
    "shell",
    "execute",
    "run_shell_command",
    "execute_command",
    "shell_exec",
    #[cfg(feature = "conformance")]
    "conformance",
];

/// The largest number of jobs in any setting.
const MAX_JOBS: u64 = 10_000_000;

/// A section that contains sections with names chosen by the user, such as `[queue.lanes.build]`.
#[derive(Debug)]
struct NamedSection {
    section: &'static str,
    /// The prefix of the keys after which this section is listed in `config show`.
    after: &'static str,
    is_valid_name: fn(&str) -> bool,
    /// The keys of each named section, besides those of [`CONFINEMENT_KEYS`].
    keys: &'static [SettingSchema],
    /// The key that is set if a name has a plain value instead of a section.
    short_key: Option<&'static str>,
}

/// The keys for the confinement of jobs in the sections of lanes and tenants.
const CONFINEMENT_KEYS: [SettingSchema; 8] = [
    setting("confinement", PROFILE),
    setting("network", NETWORK),
    setting("memory", MEMORY),
    setting("cpu_s", CPU),
    setting("processes", PROCESSES),
    setting("open_files", OPEN_FILES),
    setting("file_size", FILE_SIZE),
    setting("nice", NICE),
];

const PROFILE: ValueRule = ValueRule::Word(&["none", "default", "workspace-write", "read-only"]);
const NETWORK: ValueRule = ValueRule::Word(&["auto", "on", "off"]);
const MEMORY: ValueRule = ValueRule::Or(&["auto", "none"], &ValueRule::Size { min: MIB, max: PIB });
const CPU: ValueRule = ValueRule::Or(&["none"], &ValueRule::Seconds { min: 0.001, max: YEAR });
const PROCESSES: ValueRule =
    ValueRule::Or(&["auto", "none"], &ValueRule::Count { min: 1, max: 4_194_304 });
const OPEN_FILES: ValueRule = ValueRule::Or(&["none"], &ValueRule::Count { min: 16, max: 1 << 30 });
const FILE_SIZE: ValueRule = ValueRule::Or(&["none"], &ValueRule::Size { min: KIB, max: PIB });
const NICE: ValueRule = ValueRule::Count { min: 0, max: 19 };

const NAMED_SECTIONS: [NamedSection; 2] = [
    NamedSection {
        section: "queue.lanes",
        after: "queue.",
        is_valid_name: is_lane_name,
        keys: &[
            setting("slots", ValueRule::Count { min: 1, max: 100_000 }),
            setting("max_queued", ValueRule::Count { min: 0, max: MAX_JOBS }),
            setting("timeout_s", ValueRule::Seconds { min: 0.001, max: YEAR }),
            setting("priority", ValueRule::Word(&["low", "normal", "high"])),
        ],
        short_key: Some("slots"),
    },
    NamedSection {
        section: "tenants",
        after: "quota.",
        is_valid_name: is_tenant_name,
        keys: &[
            setting("weight", ValueRule::Count { min: 1, max: 1000 }),
            setting("max_running", ValueRule::Count { min: 0, max: MAX_JOBS }),
            setting("max_queued", ValueRule::Count { min: 0, max: MAX_JOBS }),
            setting("starts_per_minute", ValueRule::Count { min: 0, max: 1_000_000 }),
            setting("cpu_s_per_hour", ValueRule::Count { min: 0, max: 1_000_000_000 }),
            setting("max_stored", ValueRule::Size { min: KIB, max: PIB }),
            setting("environment", ValueRule::Variables),
            setting("user", ValueRule::Text),
            setting("workspace", ValueRule::Directory),
            setting("allowed_directories", ValueRule::Directories),
        ],
        short_key: None,
    },
];

/// Every setting in the order of `config/default.toml`, which is the order of `config show`.
pub(super) const SETTINGS: &[SettingSchema] = &[
    setting("http.bind", ValueRule::Address),
    setting("http.socket", ValueRule::Path),
    setting("http.path", ValueRule::Route),
    setting("http.allowed_hosts", ValueRule::Hosts),
    setting("http.allowed_origins", ValueRule::Origins),
    setting("http.token_file", ValueRule::Path),
    setting("http.allow_jobs", ValueRule::Switch),
    setting("http.tls_cert", ValueRule::Path),
    setting("http.tls_key", ValueRule::Path),
    setting("http.max_body", ValueRule::Size { min: KIB, max: GIB }),
    setting("http.max_headers", ValueRule::Size { min: 8 * KIB, max: MIB }),
    setting("http.header_timeout_s", ValueRule::Seconds { min: 0.1, max: 3600.0 }),
    setting("http.body_timeout_s", ValueRule::Seconds { min: 0.1, max: 3600.0 }),
    setting("http.write_timeout_s", ValueRule::Seconds { min: 0.1, max: 3600.0 }),
    setting("http.max_unread", ValueRule::Size { min: MIB, max: 1024 * GIB }),
    setting("http.max_connections", ValueRule::Count { min: 1, max: 1_000_000 }),
    setting("http.max_connections_per_address", ValueRule::Count { min: 1, max: 1_000_000 }),
    setting("http.max_sessions", ValueRule::Count { min: 1, max: 1_000_000 }),
    setting("http.session_idle_s", ValueRule::Seconds { min: 0.1, max: DAY }),
    setting("http.session_hang_up_s", ValueRule::Seconds { min: 0.1, max: DAY }),
    setting("oauth.issuer", ValueRule::Url),
    setting("oauth.resource", ValueRule::Url),
    setting("oauth.audience", ValueRule::Text),
    setting("oauth.jwks", ValueRule::Path),
    setting("oauth.jwks_refresh_s", ValueRule::Seconds { min: 1.0, max: DAY }),
    setting("oauth.tenant_claim", ValueRule::Text),
    setting("oauth.tenants", ValueRule::Variables),
    setting("oauth.run_scope", ValueRule::Text),
    setting("oauth.read_scope", ValueRule::Text),
    setting("oauth.metrics_scope", ValueRule::Text),
    setting("oauth.admin_scope", ValueRule::Text),
    setting("oauth.leeway_s", ValueRule::Seconds { min: 0.0, max: 600.0 }),
    setting("mcp.dialects", ValueRule::Words(DIALECTS)),
    setting("mcp.server_name", ValueRule::Word(&["shellyard", "mcpz-shell"])),
    setting("mcp.result_format", ValueRule::Word(&["text", "structured", "both"])),
    setting("mcp.wait_s", ValueRule::Seconds { min: 0.0, max: DAY }),
    setting("mcp.max_wait_s", ValueRule::Seconds { min: 0.0, max: DAY }),
    setting("mcp.max_wait_with_progress_s", ValueRule::Seconds { min: 0.0, max: DAY }),
    setting("mcp.progress_s", ValueRule::Seconds { min: 0.1, max: 3600.0 }),
    setting("mcp.max_tokens", ValueRule::Count { min: 500, max: 400_000 }),
    setting("mcp.page_bytes", ValueRule::Size { min: KIB, max: 16 * MIB }),
    setting("mcp.max_page_bytes", ValueRule::Size { min: KIB, max: 16 * MIB }),
    setting("mcp.client_wait_s", ValueRule::ClientLimits),
    setting("mcp.cancel_stops_job", ValueRule::Switch),
    setting("queue.slots", ValueRule::Count { min: 0, max: 100_000 }),
    setting("queue.max_queued", ValueRule::Count { min: 1, max: MAX_JOBS }),
    setting("queue.idle_s", ValueRule::Seconds { min: 0.0, max: 3600.0 }),
    setting("queue.max_idle", ValueRule::Count { min: 0, max: MAX_JOBS }),
    setting("quota.max_running", ValueRule::Count { min: 0, max: MAX_JOBS }),
    setting("quota.max_queued", ValueRule::Count { min: 0, max: MAX_JOBS }),
    setting("quota.starts_per_minute", ValueRule::Count { min: 0, max: 1_000_000 }),
    setting("quota.cpu_s_per_hour", ValueRule::Count { min: 0, max: 1_000_000_000 }),
    setting("pressure.cpu", ValueRule::Count { min: 0, max: 100 }),
    setting("pressure.memory", ValueRule::Count { min: 0, max: 100 }),
    setting("pressure.io", ValueRule::Count { min: 0, max: 100 }),
    setting("pressure.check_s", ValueRule::Seconds { min: 0.1, max: 3600.0 }),
    setting("job.shell", ValueRule::Shell),
    setting("job.streams", ValueRule::Word(&["merged", "separate"])),
    setting("job.timeout_s", ValueRule::Seconds { min: 0.001, max: YEAR }),
    setting("job.max_timeout_s", ValueRule::Seconds { min: 0.001, max: YEAR }),
    setting("job.grace_s", ValueRule::Seconds { min: 0.0, max: 3600.0 }),
    setting("job.max_output", ValueRule::Size { min: 1, max: PIB }),
    setting("job.max_lines", ValueRule::Count { min: 0, max: i64::MAX as u64 }),
    setting("job.drain_quiet_ms", ValueRule::Count { min: 1, max: 60_000 }),
    setting("job.drain_max_ms", ValueRule::Count { min: 1, max: 600_000 }),
    setting("job.cwd", ValueRule::Path),
    setting("policy.allow", ValueRule::Texts),
    setting("policy.deny", ValueRule::Texts),
    setting("policy.ask", ValueRule::Texts),
    setting("policy.coreTools", ValueRule::Texts),
    setting("policy.excludeTools", ValueRule::Texts),
    setting("policy.blocked_commands", ValueRule::Texts),
    setting("policy.allowed_directories", ValueRule::Directories),
    setting("policy.uncertain", ValueRule::Word(&["refuse", "confine", "allow"])),
    setting("policy.enforce", ValueRule::Word(&["auto", "require", "off"])),
    setting("policy.opens", ValueRule::Texts),
    setting("environment.inherit", ValueRule::Word(&["all", "core"])),
    setting("environment.pass", ValueRule::Texts),
    setting("environment.drop", ValueRule::Texts),
    setting("environment.set", ValueRule::Variables),
    setting("confinement.profile", PROFILE),
    setting("confinement.network", NETWORK),
    setting("confinement.on_unavailable", ValueRule::Word(&["refuse", "degrade"])),
    setting(
        "confinement.backend",
        ValueRule::Word(&["auto", "namespaces", "landlock", "seccomp", "none"]),
    ),
    setting("confinement.workspace", ValueRule::Directories),
    setting("confinement.hide", ValueRule::Directories),
    setting("confinement.show", ValueRule::HomePaths),
    setting("confinement.protect", ValueRule::Names),
    setting("limits.memory", MEMORY),
    setting("limits.cpu_s", CPU),
    setting("limits.processes", PROCESSES),
    setting("limits.open_files", OPEN_FILES),
    setting("limits.file_size", FILE_SIZE),
    setting("limits.nice", NICE),
    setting("redact.builtin", ValueRule::Switch),
    setting("redact.patterns", ValueRule::Texts),
    setting("redact.at_write", ValueRule::Switch),
    setting("audit.enabled", ValueRule::Switch),
    setting("audit.file", ValueRule::Path),
    setting("audit.max_bytes", ValueRule::Size { min: 64 * KIB, max: PIB }),
    setting("audit.keep", ValueRule::Count { min: 1, max: 10_000 }),
    setting("audit.max_queued", ValueRule::Size { min: 0, max: GIB }),
    setting("audit.on_failure", ValueRule::Word(&["count", "refuse"])),
    setting("shell_tool.default_timeout", ValueRule::Seconds { min: 1.0, max: DAY }),
    setting("shell_tool.max_timeout", ValueRule::Seconds { min: 1.0, max: DAY }),
    setting("shell_tool.max_output_size", ValueRule::Size { min: 1, max: GIB }),
    setting("shell_tool.allowed_directories", ValueRule::Directories),
    setting("shell_tool.confine_directories", ValueRule::Switch),
    setting("shell_tool.blocked_commands", ValueRule::Texts),
    setting("shell_tool.log_commands", ValueRule::Switch),
    setting("shell_tool.abort_file", ValueRule::Path),
    setting("execute.max_output_bytes", ValueRule::Size { min: 0, max: GIB }),
    setting("execute.log_full_output", ValueRule::Switch),
    setting("execute.log_output_bytes", ValueRule::Size { min: 0, max: MIB }),
    setting("run_shell_command.marker", ValueRule::Name),
    setting("execute_command.timeout", ValueRule::Seconds { min: 0.001, max: YEAR }),
    setting("execute_command.shell", ValueRule::Path),
    setting("execute_command.stderr", ValueRule::Switch),
    setting("execute_command.verbose", ValueRule::Switch),
    setting("execute_command.max_output", ValueRule::Size { min: 1, max: GIB }),
    setting("output.memory", ValueRule::Size { min: 4 * KIB, max: 64 * MIB }),
    setting("output.large", ValueRule::Size { min: 4 * KIB, max: PIB }),
    setting("output.on_large_output", ValueRule::Word(&["spill", "truncate", "error"])),
    setting("output.max_store", ValueRule::Size { min: KIB, max: PIB }),
    setting("output.max_tenant", ValueRule::Size { min: KIB, max: PIB }),
    setting("output.compress_from", ValueRule::Size { min: 0, max: PIB }),
    setting("output.read_memory", ValueRule::Size { min: MIB, max: 1024 * GIB }),
    setting("output.search_s", ValueRule::Seconds { min: 0.001, max: 3600.0 }),
    setting("retention.max_finished", ValueRule::Count { min: 1, max: 10_000_000 }),
    setting("retention.max_age_s", ValueRule::Seconds { min: 0.0, max: 100.0 * YEAR }),
    setting("retention.max_bytes", ValueRule::Size { min: 0, max: PIB }),
    setting("retention.tenant_max_finished", ValueRule::Count { min: 0, max: 10_000_000 }),
    setting("retention.tenant_max_age_s", ValueRule::Seconds { min: 0.0, max: 100.0 * YEAR }),
    setting("retention.tenant_max_bytes", ValueRule::Size { min: 0, max: PIB }),
    setting("server.data_dir", ValueRule::Path),
    setting("server.durability", ValueRule::Word(&["os", "group", "each", "off"])),
    setting("server.drain_s", ValueRule::Seconds { min: 0.0, max: 3600.0 }),
    setting("log.format", ValueRule::Word(&["human", "json"])),
    setting("log.filter", ValueRule::Filter),
    setting("trace.otlp_endpoint", ValueRule::Url),
    setting("trace.sample", ValueRule::Share),
];

/// Pairs of keys; the value of the first must not be larger than that of the second.
pub(super) const ORDERED: &[(&str, &str)] = &[
    ("mcp.wait_s", "mcp.max_wait_s"),
    ("mcp.page_bytes", "mcp.max_page_bytes"),
    ("job.timeout_s", "job.max_timeout_s"),
    ("shell_tool.default_timeout", "shell_tool.max_timeout"),
    ("job.drain_quiet_ms", "job.drain_max_ms"),
];

/// The meaning of a dotted key.
#[derive(Debug)]
pub(super) enum KeyMeaning {
    /// A table of further keys.
    Section,
    /// A value with this rule.
    Value(&'static ValueRule),
    /// An invalid name below `queue.lanes` or `tenants`.
    BadName,
    Unknown,
}

/// Returns the meaning of a dotted key.
pub(super) fn look_up(key: &str) -> KeyMeaning {
    if let Some(setting) = SETTINGS.iter().find(|setting| setting.key == key) {
        return KeyMeaning::Value(&setting.rule);
    }
    if list_sections().any(|section| section == key) {
        return KeyMeaning::Section;
    }
    NAMED_SECTIONS.iter().find_map(|named| named.look_up(key)).unwrap_or(KeyMeaning::Unknown)
}

/// Expands the short form of a key: a plain number for a lane sets its slots.
pub(super) fn expand_short_key(key: &str) -> String {
    let short = NAMED_SECTIONS.iter().find_map(|named| {
        let name = named.strip_section(key)?;
        named.short_key.filter(|_| (named.is_valid_name)(name))
    });
    short.map_or_else(|| key.to_owned(), |short| format!("{key}.{short}"))
}

impl NamedSection {
    /// Returns the part of a key after the name of this section.
    fn strip_section<'a>(&self, key: &'a str) -> Option<&'a str> {
        key.strip_prefix(self.section)?.strip_prefix('.')
    }

    fn settings(&self) -> impl Iterator<Item = &'static SettingSchema> {
        self.keys.iter().chain(&CONFINEMENT_KEYS)
    }

    fn look_up(&'static self, key: &str) -> Option<KeyMeaning> {
        let rest = self.strip_section(key)?;
        let (name, inner) = rest.split_once('.').unwrap_or((rest, ""));
        Some(match self.settings().find(|setting| setting.key == inner) {
            _ if !(self.is_valid_name)(name) => KeyMeaning::BadName,
            _ if inner.is_empty() => KeyMeaning::Section,
            Some(setting) => KeyMeaning::Value(&setting.rule),
            None => KeyMeaning::Unknown,
        })
    }

    /// Returns the key for a variable; `rest` is the variable's name after that of the section.
    fn find_key_for_variable(&self, rest: &str) -> Option<String> {
        let inner = self.settings().find_map(|setting| {
            let name = rest.strip_suffix(&setting.key.to_uppercase())?.strip_suffix('_')?;
            Some((name, setting.key))
        });
        let key = |name: &str, inner| format!("{}.{}.{inner}", self.section, name.to_lowercase());
        match inner {
            Some((name, inner)) if !name.is_empty() => Some(key(name, inner)),
            Some(_) | None => self.short_key.map(|short| key(rest, short)),
        }
    }
}

/// Splits off the last part of a key of a lane or a tenant, and returns it with the valid ones.
pub(super) fn split_named_key(key: &str) -> Option<(&str, impl Iterator<Item = &'static str>)> {
    NAMED_SECTIONS.iter().find_map(|named| {
        let (_, inner) = named.strip_section(key)?.split_once('.')?;
        Some((inner, named.settings().map(|setting| setting.key)))
    })
}

/// Returns the names of all sections, some more than once.
pub(super) fn list_sections() -> impl Iterator<Item = &'static str> {
    let named = SETTINGS.iter().filter_map(|setting| Some(setting.key.rsplit_once('.')?.0));
    named.chain(NAMED_SECTIONS.iter().map(|named| named.section))
}

/// Returns the position of a key in `config show`. Keys of named sections come after their section.
pub(super) fn key_rank(key: &str) -> usize {
    // Doubled, so that keys of named sections fit in between.
    if let Some(position) = SETTINGS.iter().position(|setting| setting.key == key) {
        return 2 * position;
    }
    let named = NAMED_SECTIONS.iter().find(|named| named.strip_section(key).is_some());
    let last = named.and_then(|named| {
        SETTINGS.iter().rposition(|setting| setting.key.starts_with(named.after))
    });
    last.map_or(0, |position| 2 * position + 1)
}

/// Returns the environment variable that sets `key`.
pub(super) fn variable_name(key: &str) -> String {
    format!("{VARIABLE_PREFIX}{}", key.replace('.', "_").to_uppercase())
}

/// The prefix of the product's environment variables.
pub(super) const VARIABLE_PREFIX: &str = "SHELLYARD_";

/// Returns the key that an environment variable sets.
pub(super) fn find_key_of_variable(name: &str) -> Option<String> {
    if let Some(setting) = SETTINGS.iter().find(|setting| variable_name(setting.key) == name) {
        return Some(setting.key.to_owned());
    }
    NAMED_SECTIONS.iter().find_map(|named| {
        named.find_key_for_variable(
            name.strip_prefix(&variable_name(named.section))?.strip_prefix('_')?,
        )
    })
}

fn is_lane_name(name: &str) -> bool {
    (1..=32).contains(&name.len())
        && name.bytes().all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-'))
}

fn is_tenant_name(name: &str) -> bool {
    (1..=64).contains(&name.len())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_settings_share_a_variable() {
        let mut names: Vec<_> = SETTINGS.iter().map(|setting| variable_name(setting.key)).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), SETTINGS.len());
    }

    #[test]
    fn a_variable_leads_back_to_its_key() {
        for setting in SETTINGS {
            assert_eq!(
                find_key_of_variable(&variable_name(setting.key)).as_deref(),
                Some(setting.key)
            );
        }
        for (name, key) in [
            ("SHELLYARD_QUEUE_LANES_GPU", "queue.lanes.gpu.slots"),
            ("SHELLYARD_QUEUE_LANES_GPU_TIMEOUT_S", "queue.lanes.gpu.timeout_s"),
            ("SHELLYARD_TENANTS_CI_MAX_RUNNING", "tenants.ci.max_running"),
            ("SHELLYARD_TENANTS_CI_CONFINEMENT", "tenants.ci.confinement"),
        ] {
            assert_eq!(find_key_of_variable(name).as_deref(), Some(key));
        }
        assert_eq!(find_key_of_variable("SHELLYARD_TENANTS_CI"), None);
        assert_eq!(find_key_of_variable("SHELLYARD_QUEUE_SLOT"), None);
    }

    #[test]
    fn names_of_lanes_and_tenants_are_short_words() {
        for good in ["queue.lanes.a", "queue.lanes.gpu-0_x", "tenants.Team-7"] {
            assert!(matches!(look_up(good), KeyMeaning::Section), "{good}");
            assert!(
                matches!(look_up(&format!("{good}.max_queued")), KeyMeaning::Value(_)),
                "{good}"
            );
            assert!(matches!(look_up(&format!("{good}.max")), KeyMeaning::Unknown), "{good}");
        }
        assert_eq!(expand_short_key("queue.lanes.a"), "queue.lanes.a.slots");
        assert_eq!(expand_short_key("tenants.a"), "tenants.a");
        let long = format!("queue.lanes.{}", "a".repeat(33));
        for bad in ["queue.lanes.", "queue.lanes.GPU", "queue.lanes.a b", long.as_str()] {
            assert!(matches!(look_up(bad), KeyMeaning::BadName), "{bad}");
        }
    }

    #[test]
    fn lanes_and_tenants_are_listed_right_after_their_section() {
        assert!(key_rank("queue.max_queued") < key_rank("queue.lanes.build.slots"));
        assert!(key_rank("queue.lanes.build.slots") < key_rank("quota.max_running"));
        assert!(key_rank("quota.cpu_s_per_hour") < key_rank("tenants.ci.weight"));
        assert!(key_rank("tenants.ci.weight") < key_rank("pressure.cpu"));
    }
}
