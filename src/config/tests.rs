//! Tests of the public interface: layers, origins, problems.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::os::unix::ffi::OsStringExt;
use std::path::Path;
use std::time::Duration;

use super::load::DEFAULT_FILE;
use super::schema::SETTINGS;
use super::*;
use crate::mcp::ResultFormat;
use crate::process::shell::ShellChoice;
use crate::spec::Priority;

/// Creates a configuration file with this text.
fn file_with(text: &str) -> tempfile::NamedTempFile {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    file
}

fn load_with(
    text: &str,
    variables: &[(&str, &str)],
    flags: &[(&'static str, &str)],
) -> Result<Loaded, ConfigError> {
    let file = file_with(text);
    let flag = |&(key, value): &(&'static str, &str)| FlagValue {
        key,
        value: value.to_owned(),
        flag: "--flag",
    };
    load(ConfigSources {
        file: Some(file.path().to_owned()),
        environment: Environment::from_pairs(variables.to_vec()),
        flags: flags.iter().map(flag).collect(),
    })
}

fn origin_of(loaded: &Loaded, key: &str) -> ValueOrigin {
    let found = loaded.entries().into_iter().find(|(known, _)| *known == key);
    found.unwrap().1.origin.clone()
}

fn slots(lanes: &BTreeMap<String, LaneSection>) -> Vec<(&str, Option<usize>)> {
    lanes.iter().map(|(name, lane)| (name.as_str(), lane.slots)).collect()
}

/// Returns the line and the kind of every problem in a file.
fn problems_in(text: &str) -> Vec<(usize, ProblemKind)> {
    let Err(ConfigError::Invalid { problems }) = load_with(text, &[], &[]) else {
        panic!("{text:?} was accepted");
    };
    let line = |problem: Problem| match problem.origin {
        ValueOrigin::File { line, .. } => (line, problem.kind),
        ValueOrigin::Default | ValueOrigin::Variable(_) | ValueOrigin::Flag(_) => {
            panic!("{problem}")
        }
    };
    problems.into_iter().map(line).collect()
}

fn messages(text: &str) -> Vec<String> {
    problems_in(text).into_iter().map(|(line, kind)| format!("{line}: {kind}")).collect()
}

#[test]
fn the_defaults_have_exactly_the_keys_of_the_schema() {
    let loaded = load_with("", &[], &[]).unwrap();
    let given: BTreeSet<_> = loaded.entries().into_iter().map(|(key, _)| key.to_owned()).collect();
    let lanes = ["queue.lanes.build.slots", "queue.lanes.net.slots"];
    let known = SETTINGS.iter().map(|setting| setting.key).chain(lanes);
    assert_eq!(given, known.map(str::to_owned).collect());
}

#[test]
fn settings_are_shown_in_the_order_of_the_default_file() {
    let loaded = load_with("", &[], &[]).unwrap();
    let shown: Vec<_> = loaded.entries().iter().map(|(key, _)| key.to_string()).collect();
    let mut section = "";
    let mut written = Vec::new();
    for line in DEFAULT_FILE.lines().filter(|line| !line.starts_with('#')) {
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            section = name;
        } else if let Some((key, _)) = line.split_once(" = ") {
            written.push(format!("{section}.{key}"));
        }
    }
    assert_eq!(shown, written);
}

#[test]
fn every_default_has_a_comment() {
    let mut has_comment = false;
    for line in DEFAULT_FILE.lines() {
        let lane = line.starts_with("slots = 2") || line.starts_with("slots = 4");
        assert!(!line.contains(" = ") || line.starts_with('#') || has_comment || lane, "{line}");
        has_comment = line.starts_with("# ");
    }
}

#[test]
fn the_defaults_are_the_documented_ones() {
    let Settings { http, mcp, queue, job, output, retention, server, log, policy, audit, .. } =
        load_with("", &[("HOME", "/h")], &[]).unwrap().settings;
    assert_eq!((http.bind, http.path.as_str()), ("127.0.0.1:8000".parse().ok(), "/mcp"));
    assert_eq!((http.max_body, http.max_headers, http.max_connections), (4 << 20, 32 << 10, 8192));
    assert_eq!((http.token_file, http.header_timeout), (None, Duration::from_secs(30)));
    assert_eq!(
        (mcp.result_format, mcp.wait_default),
        (ResultFormat::Text, Duration::from_secs(30))
    );
    assert_eq!((mcp.max_tokens, mcp.page_bytes, mcp.max_page_bytes), (1500, 16384, 1 << 20));
    assert_eq!((mcp.wait_max_quiet.as_secs(), mcp.wait_max.as_secs()), (50, 240));
    assert_eq!(mcp.client_limit("codex-mcp-client"), Some(Duration::from_secs(300)));
    assert_eq!(mcp.client_limit("nobody"), None);
    assert!(mcp.cancel_stops_job);
    assert_eq!((queue.slots_for(4), queue.max_queued), (8, 10_000));
    assert_eq!(slots(&queue.lanes), [("build", Some(2)), ("net", Some(4))]);
    assert_eq!((job.shell, job.max_output, job.max_lines), (ShellChoice::Auto, 10 << 30, None));
    assert_eq!((job.timeout.as_secs(), job.max_timeout.as_secs()), (86_400, 604_800));
    assert_eq!((job.drain_quiet.as_millis(), job.drain_max.as_millis()), (150, 2000));
    assert!(policy.allow.is_empty() && policy.deny.is_empty() && audit.enabled);
    assert_eq!((policy.uncertain, audit.file), (UncertainPolicy::Refuse, None));
    assert_eq!((output.memory, retention.max_finished), (64 << 10, 1000));
    assert_eq!(server.data_dir, Path::new("/h/.local/state/shellyard"));
    assert_eq!((log.format, log.filter.as_str()), (LogFormat::Human, "info"));
}

#[test]
fn the_later_layer_wins_and_the_origin_says_which() {
    const FILE: &str = "[queue]\nslots = 1\n";
    const VARIABLE: (&str, &str) = ("SHELLYARD_QUEUE_SLOTS", "2");
    const FLAG: (&str, &str) = ("queue.slots", "3");
    let cases: [(&str, &[_], &[_], usize, &str); 6] = [
        ("", &[], &[], 0, "default"),
        (FILE, &[], &[], 1, ":2"),
        ("", &[VARIABLE], &[], 2, "SHELLYARD_QUEUE_SLOTS"),
        (FILE, &[VARIABLE], &[], 2, "SHELLYARD_QUEUE_SLOTS"),
        (FILE, &[], &[FLAG], 3, "--flag"),
        (FILE, &[VARIABLE], &[FLAG], 3, "--flag"),
    ];
    for (text, variables, flags, slots, origin) in cases {
        let loaded = load_with(text, variables, flags).unwrap();
        assert_eq!(loaded.settings.queue.slots, slots, "{origin}");
        let given = origin_of(&loaded, "queue.slots").to_string();
        assert!(given.ends_with(origin), "{given} is not {origin}");
        assert_eq!(origin_of(&loaded, "queue.max_queued"), ValueOrigin::Default);
    }
}

#[test]
fn aliases_of_variables_are_overridden_by_the_products_own_names() {
    let alias = [("MCP_HTTP_BIND", "127.0.0.2:1"), ("MCP_HTTP_PATH", "/alias")];
    let loaded = load_with("[http]\npath = \"/file\"\n", &alias, &[]).unwrap();
    assert_eq!(loaded.settings.http.bind, "127.0.0.2:1".parse().ok());
    assert_eq!(loaded.settings.http.path, "/alias");
    assert_eq!(origin_of(&loaded, "http.path"), ValueOrigin::Variable("MCP_HTTP_PATH".into()));

    let both = [alias[0], ("SHELLYARD_HTTP_BIND", "127.0.0.3:1")];
    let loaded = load_with("", &both, &[]).unwrap();
    assert_eq!(loaded.settings.http.bind, "127.0.0.3:1".parse().ok());

    let empty = load_with("", &[("MCP_HTTP_BIND", "")], &[]).unwrap();
    assert_eq!(origin_of(&empty, "http.bind"), ValueOrigin::Default);
}

#[test]
fn variables_can_set_lists_switches_sizes_seconds_and_lanes() {
    let variables = [
        ("SHELLYARD_HTTP_ALLOWED_HOSTS", "a.example, b.example:80"),
        ("SHELLYARD_MCP_CANCEL_STOPS_JOB", "false"),
        ("SHELLYARD_JOB_MAX_OUTPUT", "1 MiB"),
        ("SHELLYARD_HTTP_MAX_BODY", "65536"),
        ("SHELLYARD_JOB_GRACE_S", "0.25"),
        ("SHELLYARD_QUEUE_LANES_GPU", "1"),
    ];
    let settings = load_with("", &variables, &[]).unwrap().settings;
    assert_eq!(settings.http.allowed_hosts, ["a.example", "b.example:80"]);
    assert!(!settings.mcp.cancel_stops_job);
    assert_eq!((settings.job.max_output, settings.http.max_body), (1 << 20, 65536));
    assert_eq!(settings.job.grace, Duration::from_millis(250));
    assert_eq!(settings.queue.lanes["gpu"].slots, Some(1));
}

#[test]
fn a_lane_in_a_file_is_added_to_the_default_lanes() {
    let lanes =
        load_with("[queue.lanes]\ngpu = 1\nbuild = 8\n", &[], &[]).unwrap().settings.queue.lanes;
    assert_eq!(slots(&lanes), [("build", Some(8)), ("gpu", Some(1)), ("net", Some(4))]);
}

#[test]
fn a_lane_and_a_tenant_may_have_a_section_of_their_own() {
    let text = "[queue.lanes.gpu]\ntimeout_s = 1\npriority = \"low\"\n\
                [tenants.Team-7]\nweight = 3\nmax_stored = \"1 GiB\"\n";
    let Settings { queue, tenants, .. } = load_with(text, &[], &[]).unwrap().settings;
    let gpu = &queue.lanes["gpu"];
    assert_eq!(
        (gpu.slots, gpu.timeout, gpu.priority),
        (None, Some(Duration::from_secs(1)), Some(Priority::Low))
    );
    let team = &tenants["Team-7"];
    assert_eq!((team.weight, team.max_stored, team.max_running), (Some(3), Some(1 << 30), None));
    assert_eq!(
        messages("[tenants.ci]\nwieght = 3\n[tenants]\nx = 1\n").len(),
        2,
        "a misspelled key, and a value where a section must be"
    );
}

#[test]
fn unknown_keys_are_reported_with_line_and_suggestion() {
    let text = "slots = 1\n[http]\n\nbnid = \"x\"\n[qeue]\nslots = 1\n[queue]\nbind = 1\n[xyzzy]\n";
    assert_eq!(
        messages(text),
        [
            "1: unknown key `slots`; did you mean `queue.slots`?",
            "4: unknown key `http.bnid`; did you mean `http.bind`?",
            "5: unknown key `qeue`; did you mean `queue`?",
            "8: unknown key `queue.bind`; did you mean `http.bind`?",
            "9: unknown key `xyzzy`; `shellyard config init --stdout` lists all that exist",
        ]
    );
}

#[test]
fn unknown_variables_are_reported_with_a_suggestion() {
    let error = load_with("", &[("SHELLYARD_QUEUE_SLOT", "1")], &[]).unwrap_err().to_string();
    let expected =
        "SHELLYARD_QUEUE_SLOT: no setting has this variable; did you mean `SHELLYARD_QUEUE_SLOTS`?";
    assert!(error.contains(expected), "{error}");
}

#[test]
fn invalid_values_are_reported_with_key_line_and_allowed_values() {
    let text = "[queue]\nslots = \"many\"\nlanes.GPU = 1\nlanes.net = 0\n\
                [mcp]\nresult_format = \"yaml\"\nwait_s = -1\n[http]\nbind = 8000\n[log]\nformat = 1\n";
    assert_eq!(
        messages(text),
        [
            "2: `queue.slots` cannot be \"many\"; it must be a whole number from 0 to 100000",
            "3: `queue.lanes.GPU`: a lane's name is 1 to 32 of a-z, 0-9, `_` and `-`; a tenant's 1 to 64 of those and A-Z",
            "4: `queue.lanes.net.slots` cannot be 0; it must be a whole number from 1 to 100000",
            "6: `mcp.result_format` cannot be \"yaml\"; it must be one of \"text\", \"structured\", \"both\"",
            "7: `mcp.wait_s` cannot be -1; it must be a number of seconds from 0 to 86400",
            "9: `http.bind` cannot be 8000; it must be an address and port such as \"127.0.0.1:8000\" or \"[::1]:8000\", or \"none\"",
            "11: `log.format` cannot be 1; it must be one of \"human\", \"json\"",
        ]
    );
}

#[test]
fn a_section_cannot_be_a_value_nor_a_value_a_section() {
    let section = ProblemKind::SectionExpected { section: "http".into() };
    assert_eq!(problems_in("http = 3\n"), [(1, section)]);
    let problems = problems_in("[queue.slots]\nx = 1\n");
    assert!(matches!(&problems[..], [(1, ProblemKind::NotAllowed { .. })]), "{problems:?}");
}

#[test]
fn invalid_toml_is_reported_with_its_line() {
    let problems = problems_in("[http]\nbind = \n[queue\n");
    assert!(problems.iter().all(|(_, kind)| matches!(kind, ProblemKind::Syntax(_))));
    assert_eq!(problems[0].0, 2, "{problems:?}");
}

#[test]
fn problems_of_all_layers_are_reported_at_once() {
    let variables = [("SHELLYARD_QUEUE_SLOTS", "many")];
    let error = load_with("x = 1\n", &variables, &[("http.bind", "here")]).unwrap_err();
    let ConfigError::Invalid { problems } = &error else { panic!("{error}") };
    assert_eq!(problems.len(), 3, "{error}");
    assert_eq!(problems[1].origin, ValueOrigin::Variable("SHELLYARD_QUEUE_SLOTS".into()));
    assert_eq!(problems[2].origin, ValueOrigin::Flag("--flag"));
    assert_eq!(error.code(), "config_invalid");
}

#[test]
fn names_that_another_version_may_know_are_left_out_on_request_and_nothing_else_is() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("config.toml");
    let load_text = |text: &str| {
        std::fs::write(&file, text).unwrap();
        let environment = Environment::from_pairs([("SHELLYARD_OF_TOMORROW", "1")]);
        let sources =
            ConfigSources { file: Some(file.clone()), environment, ..ConfigSources::default() };
        load_with_unknown_names(sources, UnknownNames::LeftOut)
    };
    let loaded = load_text("[queue]\nof_tomorrow = 1\nslots = 5\n[tomorrow]\nx = 1\n").unwrap();
    assert_eq!(loaded.settings.queue.slots, 5);
    let error = load_text("of_tomorrow = 1\n[mcp]\nwait_s = 60\n").unwrap_err();
    let ConfigError::Invalid { problems } = &error else { panic!("{error}") };
    assert_eq!(problems.len(), 1, "{error}");
    assert!(error.to_string().contains("`mcp.wait_s` (60) must not be larger"), "{error}");
}

#[test]
fn a_value_above_its_limit_is_reported_for_the_layer_that_set_it() {
    let error = load_with("[mcp]\nwait_s = 60\n", &[], &[]).unwrap_err().to_string();
    let expected = ":2: `mcp.wait_s` (60) must not be larger than `mcp.max_wait_s` (50, default)";
    assert!(error.contains(expected), "{error}");

    let variables = [("SHELLYARD_JOB_MAX_TIMEOUT_S", "60")];
    let error = load_with("", &variables, &[]).unwrap_err().to_string();
    assert!(error.contains("SHELLYARD_JOB_MAX_TIMEOUT_S: `job.timeout_s` (86400)"), "{error}");
}

#[test]
fn a_variable_that_is_not_utf8_is_reported() {
    let bytes = std::ffi::OsString::from_vec(vec![0xff]);
    let environment = Environment::from_pairs([("SHELLYARD_JOB_CWD", bytes)]);
    let sources = ConfigSources { file: Some("/dev/null".into()), environment, flags: Vec::new() };
    assert!(load(sources).unwrap_err().to_string().contains("not UTF-8"));
}

#[test]
fn the_first_default_file_that_exists_is_read() {
    let home = tempfile::tempdir().unwrap();
    let environment = Environment::from_pairs([("HOME", home.path())]);
    let path = user_config_file(&environment).unwrap();
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(&path, "[queue]\nslots = 5\n").unwrap();
    let loaded = load(ConfigSources { environment, ..ConfigSources::default() }).unwrap();
    assert_eq!(loaded.settings.queue.slots, 5);
    assert_eq!(loaded.file, Some(path));
}

#[test]
fn a_named_file_must_exist() {
    let sources =
        ConfigSources { file: Some("/nonexistent/x.toml".into()), ..ConfigSources::default() };
    let error = load(sources).unwrap_err();
    assert_eq!(error.code(), "config_unreadable");
}

#[test]
fn only_loopback_needs_no_tokens() {
    let open = |bind: &str, token_file: &str| {
        let flags = [("http.bind", bind), ("http.token_file", token_file)];
        load_with("", &[], &flags).unwrap().settings.find_open_address().is_some()
    };
    assert!(!open("127.0.0.9:1", ""));
    assert!(!open("[::1]:1", ""));
    assert!(!open("[::ffff:127.0.0.1]:1", ""));
    assert!(open("0.0.0.0:1", ""));
    assert!(open("[::]:1", ""));
    assert!(!open("0.0.0.0:1", "/tokens"));
}
