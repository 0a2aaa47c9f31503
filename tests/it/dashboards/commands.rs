//! Commands that runbooks, dashboards and alerts name exist.

use std::fs;

use clap::Parser;
use shellyard::cli::Cli;

use super::board;

/// Files of the repository that name commands.
const FOLDERS: [(&str, &str); 4] = [
    ("docs/runbooks", "md"),
    ("dashboards", "md"),
    ("dashboards/source", "toml"),
    ("dashboards/rules", "yml"),
];

/// The commands that a text names: in backticks, or on a line of their own, with a comment behind.
fn commands_in(text: &str) -> impl Iterator<Item = &str> {
    let in_ticks = text.split('`').skip(1).step_by(2);
    let alone = text.lines().map(|line| line.split(" #").next().unwrap_or_default());
    in_ticks.chain(alone).filter(|command| command.starts_with("shellyard "))
}

/// Returns the program's error about a command that it does not accept.
fn refused(text: &str) -> Vec<String> {
    let parse = |command: &str| Cli::try_parse_from(command.split_whitespace()).err();
    commands_in(text)
        .filter_map(|command| Some(format!("{command}: {}", parse(command)?)))
        .collect()
}

#[test]
fn every_command_that_is_named_exists() {
    let root = board::folder().parent().expect("the repository").to_owned();
    let files = FOLDERS.into_iter().flat_map(|(folder, ending)| {
        let files = fs::read_dir(root.join(folder)).expect(folder).flatten();
        files.map(|file| file.path()).filter(move |path| path.extension() == Some(ending.as_ref()))
    });
    let texts: Vec<String> = files.map(|file| fs::read_to_string(file).expect("text")).collect();
    assert!(
        texts.iter().map(|text| commands_in(text).count()).sum::<usize>() > 20,
        "few are found"
    );
    let found: Vec<String> = texts.iter().flat_map(|text| refused(text)).collect();
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn a_command_that_does_not_exist_is_found() {
    let text = "See `shellyard jobs --all --tenant NAME` and `shellyard queue`.\n\n```sh\n\
        shellyard jobs --all       # fine\nshellyard no-such --thing   # not\n```\n";
    assert_eq!(commands_in(text).count(), 4);
    let found = refused(text);
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found[0].contains("cannot be used with") && found[1].contains("no-such"), "{found:?}");
}
