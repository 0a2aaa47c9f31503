//! Installations as a whole: for each client, what is written can be taken back without a trace.

use std::collections::BTreeMap;
use std::path::PathBuf;

use proptest::prelude::*;
use shellyard_install::{
    ClientKind, ConfiguredCommand, FilePurpose, InstallRequest, InstallScope, Machine,
    OperatingSystem, SettingsFormat, UninstallStep,
};

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
