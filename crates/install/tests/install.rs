//! Edits of settings in all formats, and installations as a whole: nothing else changes, and what was
//! written can be taken back without a trace.

use std::collections::BTreeMap;
use std::path::PathBuf;

use proptest::prelude::*;
use shellyard_install::{
    ClientKind, ConfiguredCommand, FilePurpose, InstallRequest, InstallScope, Machine,
    OperatingSystem, SettingValue, SettingsFormat, UninstallStep,
};

fn entry() -> SettingValue {
    SettingValue::map([
        ("command", SettingValue::text("/usr/bin/shellyard")),
        ("args", SettingValue::texts(["stdio"])),
        ("env", SettingValue::map([("PATH", SettingValue::text("/usr/bin:/bin"))])),
    ])
}

const PATH: [&str; 2] = ["mcpServers", "shellyard"];

#[track_caller]
fn check_json(before: &str, after: &str) {
    let format = SettingsFormat::Jsonc;
    let edited = format.set(before, &PATH, &SettingValue::Number(1)).expect("an edit");
    assert_eq!(edited, after, "{before}");
    assert_eq!(format.set(&edited, &PATH, &SettingValue::Number(1)).as_ref(), Ok(&edited));
}

#[test]
fn a_key_goes_to_the_end_of_its_object_in_the_layout_of_its_neighbours() {
    check_json("", "{\n  \"mcpServers\": {\n    \"shellyard\": 1\n  }\n}\n");
    check_json("{}\n", "{\n  \"mcpServers\": {\n    \"shellyard\": 1\n  }\n}\n");
    check_json(
        "{\n\t\"a\": 1 // one\n\t// end\n}",
        "{\n\t\"a\": 1, // one\n\t\"mcpServers\": {\n\t\t\"shellyard\": 1\n\t}\n\t// end\n}",
    );
    check_json(
        "{\r\n    \"mcpServers\": {\r\n        \"x\": {}, // x\r\n    },\r\n}",
        "{\r\n    \"mcpServers\": {\r\n        \"x\": {}, // x\r\n        \"shellyard\": 1,\r\n    },\r\n}",
    );
    check_json("{\"mcpServers\":{\"x\":{}}}", "{\"mcpServers\":{\"x\":{}, \"shellyard\": 1}}");
    check_json(
        "{\n  \"mcpServers\": { /* none */ }\n}",
        "{\n  \"mcpServers\": { /* none */\n    \"shellyard\": 1\n  }\n}",
    );
    check_json("{\"mcpServers\": {\"shellyard\": 0}}", "{\"mcpServers\": {\"shellyard\": 1}}");
    check_json("\u{feff}{\"mcpServers\": {}}", "\u{feff}{\"mcpServers\": {\"shellyard\": 1}}");
}

#[test]
fn only_what_belongs_to_a_key_is_removed_with_it() {
    let remove = |text| SettingsFormat::Jsonc.remove(text, &PATH).unwrap();
    assert_eq!(
        remove(
            "{\n  \"mcpServers\": {\n    \"shellyard\": 1, // ours\n    // next\n    \"b\": 2\n  }\n}"
        ),
        "{\n  \"mcpServers\": {\n    // next\n    \"b\": 2\n  }\n}"
    );
    assert_eq!(
        remove("{\"mcpServers\": {\"shellyard\": 1, \"b\": 2}}"),
        "{\"mcpServers\": {\"b\": 2}}"
    );
    assert_eq!(remove("{ \"a\": 1, \"mcpServers\": {\"shellyard\": 1} }"), "{ \"a\": 1 }");
    assert_eq!(
        remove("{\"mcpServers\": { /* keep */ \"shellyard\": 1 }}"),
        "{\"mcpServers\": { /* keep */ }}"
    );
    assert_eq!(remove("{\"other\": 1}"), "{\"other\": 1}");
}

#[test]
fn a_broken_text_is_refused_with_its_place() {
    let refused = |format: SettingsFormat, text: &str| {
        let error = format.set(text, &PATH, &entry()).unwrap_err();
        (error.code(), error.to_string())
    };
    let (code, message) = refused(SettingsFormat::Jsonc, "{\n  \"a\": ,\n}");
    assert_eq!(code, "settings_syntax");
    assert!(message.starts_with("line 2, column 8"), "{message}");
    let (code, message) = refused(SettingsFormat::Json, "{\n  // no\n  \"a\": 1\n}");
    assert!(code == "settings_syntax" && message.starts_with("line 2, column 3"), "{message}");
    let (code, message) = refused(SettingsFormat::Json, "{\"a\": 1,}");
    assert!(code == "settings_syntax" && message.starts_with("line 1"), "{message}");
    let (code, message) = refused(SettingsFormat::Jsonc, "{\"mcpServers\": []}");
    assert!(code == "settings_other_kind" && message.contains("mcpServers"), "{message}");
    let (code, message) = refused(SettingsFormat::Jsonc, "{\"a\": 1,\n \"a\": 2}");
    assert!(code == "settings_duplicate_key" && message.starts_with("line 2"), "{message}");
    let (code, message) = refused(SettingsFormat::Toml, "[a]\nb = \n");
    assert!(code == "settings_syntax" && message.starts_with("line 2"), "{message}");
    let (code, message) = refused(SettingsFormat::Yaml, "a: 1\nb: [1\nc: 2\n");
    assert!(code == "settings_syntax" && message.starts_with("line "), "{message}");
    let (code, _) = refused(SettingsFormat::Yaml, "a: 1\n---\nb: 2\n");
    assert_eq!(code, "settings_layout");
    // Nothing can be inserted here, which shows when the result is read again.
    let (code, _) = refused(SettingsFormat::Yaml, "{}\n");
    assert_eq!(code, "settings_layout");
}

#[test]
fn items_of_lists_come_and_go() {
    let format = SettingsFormat::Jsonc;
    let path = ["permissions", "allow"];
    for before in [
        "{}",
        "{\n  \"permissions\": {\n    \"allow\": [\"Bash(ls)\"],\n    \"deny\": []\n  }\n}\n",
        "{\n  \"permissions\": {\n    \"allow\": [\n      \"Bash(ls)\", // list\n      \"Read\"\n    ]\n  }\n}\n",
        "{\n  \"permissions\": {\n    \"allow\": [\n      \"Bash(ls)\",\n    ],\n  },\n}\n",
    ] {
        let after = format.append_item(before, &path, "mcp__shellyard").unwrap();
        assert!(after.contains("mcp__shellyard"), "{after}");
        assert_eq!(format.append_item(&after, &path, "mcp__shellyard").unwrap(), after);
        assert_eq!(format.remove_item(&after, &path, "mcp__shellyard").unwrap(), before, "{after}");
    }
}

#[test]
fn toml_gets_a_table_at_its_end_and_keeps_its_comments() {
    let format = SettingsFormat::Toml;
    let path = ["mcp_servers", "shellyard"];
    let table = "[mcp_servers.shellyard]\ncommand = \"/usr/bin/shellyard\"\nargs = [\"stdio\"]\nenv = { PATH = \"/usr/bin:/bin\" }\n";
    assert_eq!(format.set("", &path, &entry()).unwrap(), table);
    for before in [
        "# head\nmodel = \"x\" # which\n\n[tui]\ntheme = \"y\"\n# theme = \"z\"\n",
        "[mcp_servers.other]\ncommand = \"o\"\n\n[[rules]]\na = 1\n",
        "[mcp_servers]\n",
        "a.b = 1\r\n# end\r\n",
    ] {
        let after = format.set(before, &path, &entry()).unwrap();
        assert!(after.starts_with(before), "{after}");
        assert!(after.replace('\r', "").ends_with(table), "{after}");
        assert_eq!(format.set(&after, &path, &entry()).unwrap(), after);
        assert_eq!(format.remove(&after, &path).unwrap(), before);
    }
    let inline = "mcp_servers = { other = { command = \"o\" } } # all\n[x]\n";
    let after = format.set(inline, &path, &entry()).unwrap();
    assert!(after.contains("other = { command = \"o\" }"), "{after}");
    assert!(after.contains(", shellyard = {"), "{after}");
    assert!(after.contains("# all"), "{after}");
}

#[test]
fn toml_keeps_comments_around_a_table_in_the_middle() {
    let format = SettingsFormat::Toml;
    let path = ["mcp_servers", "shellyard"];
    let text = "# mine\n[mcp_servers.shellyard]\ncommand = \"x\"\n\n[mcp_servers.shellyard.env]\nPATH = \"p\"\n\n# next\n[tui]\na = 1\n";
    assert_eq!(format.remove(text, &path).unwrap(), "# mine\n\n# next\n[tui]\na = 1\n");
    let set =
        format.set(text, &["mcp_servers", "shellyard", "env", "PATH"], &SettingValue::text("q"));
    assert_eq!(set.unwrap(), text.replace("\"p\"", "\"q\""));
}

#[test]
fn yaml_gets_lines_in_the_right_place() {
    let format = SettingsFormat::Yaml;
    let path = ["extensions", "shellyard"];
    let lines = "  shellyard:\n    command: /usr/bin/shellyard\n    args: [stdio]\n    env:\n      PATH: \"/usr/bin:/bin\"\n";
    let whole = format!("extensions:\n{lines}");
    assert_eq!(format.set("", &path, &entry()).unwrap(), whole);
    for (before, after) in [
        ("# only this\n", format!("# only this\n{whole}")),
        ("GOOSE_MODEL: x", format!("GOOSE_MODEL: x\n{whole}")),
        ("extensions: {}\nb: 1\n", format!("extensions:\n{lines}b: 1\n")),
        ("extensions:\nb: 1\n", format!("extensions:\n{lines}b: 1\n")),
        (
            "extensions:\n  dev: # é\n    enabled: true\n    args:\n    - a\n    - b # last\n\n# after\nb: 1\n",
            format!(
                "extensions:\n  dev: # é\n    enabled: true\n    args:\n    - a\n    - b # last\n{lines}\n# after\nb: 1\n"
            ),
        ),
        (
            "extensions:\n  dev:\n    text: |\n      two\n      lines\nb: 1\n",
            format!("extensions:\n  dev:\n    text: |\n      two\n      lines\n{lines}b: 1\n"),
        ),
    ] {
        let edited = format.set(before, &path, &entry()).unwrap();
        assert_eq!(edited, after);
        assert_eq!(format.set(&edited, &path, &entry()).unwrap(), edited);
        let other =
            format.set(&edited, &["extensions", "shellyard", "args"], &SettingValue::texts(["x"]));
        assert_eq!(other.unwrap(), edited.replace("args: [stdio]", "args: [x]"));
    }
    let kept = "extensions:\n  dev:\n    enabled: true\nb: 1\n";
    let edited = format.set(kept, &path, &entry()).unwrap();
    assert_eq!(format.remove(&edited, &path).unwrap(), kept);
}

// Property: whatever a file contains, an entry that is set can be read, changes nothing else, and
// leaves no trace when it is removed.

fn blank() -> impl Strategy<Value = String> {
    prop_oneof![
        Just(String::new()),
        Just(" ".to_owned()),
        Just("\n  ".to_owned()),
        Just(" // é, \"x\": {\n    ".to_owned()),
        Just(" /* c, } */ ".to_owned()),
        Just("\n\t/* a\n b */\n".to_owned()),
        Just("\r\n".to_owned()),
    ]
}

fn json_value() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just("1".to_owned()),
        Just("-2.5e3".to_owned()),
        Just("null".to_owned()),
        Just("true".to_owned()),
        Just("\"t\\\"é\\u00e9 // no\"".to_owned()),
        Just("{}".to_owned()),
        Just("[]".to_owned()),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        let list = (prop::collection::vec((blank(), inner.clone(), blank()), 1..4), any::<bool>());
        let list = list.prop_map(|(items, comma)| {
            let items: Vec<String> =
                items.into_iter().map(|(before, item, after)| before + &item + &after).collect();
            format!("[{}{}]", items.join(","), if comma { "," } else { "" })
        });
        prop_oneof![list, json_object(inner, 0)]
    })
}

/// An object with keys that no other object of the path has.
fn json_object(
    value: impl Strategy<Value = String> + Clone + 'static,
    least: usize,
) -> impl Strategy<Value = String> {
    let pairs = prop::collection::vec((blank(), blank(), value, blank()), least..4);
    (pairs, any::<bool>(), blank()).prop_map(|(pairs, comma, end)| {
        let pair =
            |(index, (before, colon, value, after)): (usize, (String, String, String, String))| {
                format!("{before}\"k{index}\"{colon}:{colon}{value}{after}")
            };
        let pairs: Vec<String> = pairs.into_iter().enumerate().map(pair).collect();
        let comma = if comma && !pairs.is_empty() { "," } else { "" };
        format!("{{{}{comma}{end}}}", pairs.join(","))
    })
}

/// A document with the section, which has at least one other server.
fn json_document() -> impl Strategy<Value = String> {
    let section = json_object(json_value().boxed(), 1);
    let others = prop::collection::vec((blank(), json_value(), blank()), 0..3);
    (blank(), others, section, blank(), any::<bool>(), any::<bool>()).prop_map(
        |(start, others, section, end, is_first, comma)| {
            let other = |(index, (before, value, after)): (usize, (String, String, String))| {
                format!("{before}\"o{index}\": {value}{after}")
            };
            let mut pairs: Vec<String> = others.into_iter().enumerate().map(other).collect();
            let place = if is_first { 0 } else { pairs.len() };
            pairs.insert(place, format!("{start}\"mcpServers\": {section}"));
            format!("{{{}{}{end}}}\n", pairs.join(","), if comma { "," } else { "" })
        },
    )
}

proptest! {
    #[test]
    fn json_is_the_same_after_install_and_removal(before in json_document()) {
        let format = SettingsFormat::Jsonc;
        let after = format.set(&before, &PATH, &entry()).unwrap();
        prop_assert!(format.read(&after).unwrap().at(&PATH) == Some(&entry()));
        prop_assert_eq!(&format.set(&after, &PATH, &entry()).unwrap(), &after);
        prop_assert_eq!(format.remove(&after, &PATH).unwrap(), before);
    }

    #[test]
    fn json_without_the_section_is_the_same_after_install_and_removal(
        before in json_object(json_value().boxed(), 1)
    ) {
        let format = SettingsFormat::Jsonc;
        let after = format.set(&before, &PATH, &entry()).unwrap();
        prop_assert_eq!(format.remove(&after, &PATH).unwrap(), before);
    }

    #[test]
    fn no_text_makes_an_edit_panic(text in "[\\{\\}\\[\\]:,\"a\n #/*'|&-]{0,24}") {
        for format in [SettingsFormat::Json, SettingsFormat::Jsonc, SettingsFormat::Toml, SettingsFormat::Yaml] {
            if let Ok(after) = format.set(&text, &PATH, &entry()) {
                prop_assert!(format.read(&after).unwrap().at(&PATH) == Some(&entry()));
                format.remove(&after, &PATH).ok();
            }
        }
    }

    #[test]
    fn toml_is_the_same_after_install_and_removal(
        pieces in prop::collection::vec(prop_oneof![
            Just("# comment\n"), Just("\n"), Just("[t]\na = 1 # x\n"), Just("[[l]]\nb = [1,\n 2]\n"),
            Just("[mcp_servers.x]\ncommand = \"é\"\n"), Just("[mcp_servers.x.env]\nA = '''\n[no]\n'''\n"),
            Just("  [deep.er]\n  c = {d = 1}\n  # in\n"),
        ], 0..6)
    ) {
        let before = format!("k = 1\n{}", pieces.concat());
        let format = SettingsFormat::Toml;
        prop_assume!(format.read(&before).is_ok());
        let path = ["mcp_servers", "shellyard"];
        let after = format.set(&before, &path, &entry()).unwrap();
        prop_assert!(after.starts_with(&before));
        prop_assert_eq!(format.remove(&after, &path).unwrap(), before);
    }
}

fn machine() -> Machine {
    let (home, project) = (PathBuf::from("/h"), PathBuf::from("/p"));
    Machine { system: OperatingSystem::Linux, home, project, variables: BTreeMap::new() }
}

fn request(client: ClientKind, has_rules: bool) -> InstallRequest {
    let variables = BTreeMap::from([("PATH".to_owned(), "/usr/bin:/bin".to_owned())]);
    let program = "/usr/local/bin/shellyard".to_owned();
    let command = ConfiguredCommand { program, args: vec!["stdio".to_owned()], variables };
    InstallRequest { client, scope: InstallScope::User, config_path: None, command, has_rules }
}

/// The text after an uninstall.
fn after_removal(removal: UninstallStep, text: &str, backups: &[String]) -> Option<String> {
    match removal {
        UninstallStep::Nothing => Some(text.to_owned()),
        UninstallStep::Delete => None,
        UninstallStep::Restore(index) => backups.get(index).cloned(),
        UninstallStep::Edit(text) => Some(text),
    }
}

/// Texts that are awkward to restore by an edit alone.
fn texts(format: SettingsFormat) -> &'static [&'static str] {
    match format {
        SettingsFormat::Json => &[
            "{}",
            "{\n}\n",
            "{\"mcpServers\": {}}",
            "{\n  \"a\": [1],\n  \"mcpServers\": {\n  }\n}",
        ],
        SettingsFormat::Jsonc => &[
            "",
            " \n",
            "{ }",
            "// c\n{\n  // d\n}\n",
            "{\"mcpServers\": {}, \"servers\": {}, \"mcp\": {},}",
        ],
        SettingsFormat::Toml => &["", "a = 1", "\n\n# c", "[mcp_servers]\n\n\n"],
        SettingsFormat::Yaml => {
            &["", "a: 1", "# c\n\n", "extensions: {}", "extensions:\n\n# d\na: 1\n"]
        }
    }
}

#[test]
fn an_uninstall_right_after_the_install_leaves_the_file_as_it_was() {
    for client in ClientKind::ALL {
        for has_rules in [false, true] {
            let install = request(client, has_rules).files(&machine()).expect("its files");
            let uninstall = request(client, true).files(&machine()).expect("its files");
            for file in install {
                let same = |other: &&_| {
                    let other: &&shellyard_install::SettingsFile = other;
                    other.path == file.path
                };
                let uninstall = uninstall.iter().find(same).expect("the same file");
                let cases: &[&str] = match file.purpose {
                    FilePurpose::Servers => texts(client.format()),
                    FilePurpose::Permissions => texts(SettingsFormat::Json),
                    FilePurpose::Rules => &["", "# Mine", "# Mine\n\n\n"],
                };
                for before in cases {
                    let context = format!("{} {:?} {before:?}", client.name(), file.purpose);
                    let after = file.install(Some(before)).expect(&context);
                    assert_eq!(file.install(Some(&after)).as_ref(), Ok(&after), "{context}");
                    let backups = [(*before).to_owned()];
                    let removal = uninstall.uninstall(Some(&after), &backups).expect(&context);
                    let restored = after_removal(removal, &after, &backups);
                    assert_eq!(restored.as_deref(), Some(*before), "{context}: {after}");
                }
                let created = file.install(None).expect("a new file");
                let removal = uninstall.uninstall(Some(&created), &[]).expect("it can be read");
                assert_eq!(removal, UninstallStep::Delete, "{}: {created}", client.name());
            }
        }
    }
}

#[test]
fn changes_of_others_survive_an_uninstall() {
    let file = &request(ClientKind::Cursor, false).files(&machine()).expect("its files")[0];
    let before = "{\n  \"mcpServers\": {}\n}\n";
    let after = file.install(Some(before)).unwrap();
    let changed = after.replacen('{', "{\n  // mine\n  \"x\": 1,", 1);
    let removal = file.uninstall(Some(&changed), &[before.to_owned()]).unwrap();
    assert_eq!(removal, UninstallStep::Edit("{\n  // mine\n  \"x\": 1\n}\n".to_owned()));
    assert_eq!(file.uninstall(Some(before), &[]).unwrap(), UninstallStep::Nothing);
}

#[test]
fn an_older_entry_is_updated_and_keeps_what_its_owner_added() {
    let file = &request(ClientKind::Cursor, false).files(&machine()).expect("its files")[0];
    let old = r#"{
  "mcpServers": {
    "shellyard": { // mine
      "type": "http",
      "url": "http://127.0.0.1:8000/mcp",
      "command": "shellyard",
      "env": { "FOO": "1" },
      "note": 5
    }
  }
}"#;
    let new = file.install(Some(old)).unwrap();
    let expected = r#"{
  "mcpServers": {
    "shellyard": { // mine
      "command": "/usr/local/bin/shellyard",
      "env": { "FOO": "1", "PATH": "/usr/bin:/bin" },
      "note": 5,
      "args": ["stdio"]
    }
  }
}"#;
    assert_eq!(new, expected);
    assert_eq!(file.install(Some(&new)).unwrap(), new);
    // A backup with an entry of ours is not the state before.
    let removal = file.uninstall(Some(&new), &[old.to_owned()]).unwrap();
    assert_eq!(removal, UninstallStep::Edit("{}".to_owned()));
}

#[test]
fn permissions_are_written_only_with_the_rules() {
    for client in ClientKind::ALL {
        let without = request(client, false);
        assert!(!without.permits_without_question());
        let files = without.files(&machine()).expect("its files");
        assert_eq!(files.len(), 1, "{}", client.name());
        let text = files[0].install(None).unwrap();
        let words = ["allow", "approve\"", "trust"];
        assert!(!words.iter().any(|word| text.contains(word)), "{text}");
    }
    let zed = request(ClientKind::Zed, true);
    assert!(zed.permits_without_question());
    let text = zed.files(&machine()).expect("its files")[0].install(None).unwrap();
    assert_eq!(text.matches("\"default\": \"allow\"").count(), 6, "{text}");
}

proptest! {
    #[test]
    fn yaml_is_restored_whatever_it_contains(
        pieces in prop::collection::vec(prop_oneof![
            Just("a: 1 # x\n"), Just("# comment\n"), Just("\n"), Just("b:\n- c\n- d: e\n"), Just("f: |\n  g\n\n  h\n"),
            Just("i: {j: k}\n"), Just("l: 'm: n'\n"), Just("o: \"é \\\" #\"\n"),
            Just("extensions:\n  dev:\n    enabled: true # yes\n    args:\n    - a\n"), Just("p: &q\n  r: s\n"),
        ], 0..6)
    ) {
        let before = pieces.concat();
        prop_assume!(SettingsFormat::Yaml.read(&before).is_ok());
        let file = &request(ClientKind::Goose, false).files(&machine()).expect("its files")[0];
        let after = file.install(Some(&before)).unwrap();
        let backups = [before.clone()];
        let removal = file.uninstall(Some(&after), &backups).unwrap();
        prop_assert_eq!(after_removal(removal, &after, &backups), Some(before.clone()));
        // Without the backup, nothing but the entry goes.
        if before.contains("extensions") {
            let removal = file.uninstall(Some(&after), &[]).unwrap();
            prop_assert_eq!(removal, UninstallStep::Edit(before));
        }
    }
}
