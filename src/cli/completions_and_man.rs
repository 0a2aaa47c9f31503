//! `completions` and `man`: scripts for bash, zsh and fish with the candidates that those scripts ask for,
//! and the manual pages of the program and of each verb.
//!
//! A script calls this program on every completion, with the words of the command line and the variable
//! [`COMPLETE_VARIABLE`]. So a script never gets old, and job numbers, lanes and tenants are those of the
//! running server: `shellyard jobs --json` and `shellyard queue --json` list them.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command as Process, ExitCode, Stdio};
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use clap_complete::CompleteEnv;
use clap_complete::engine::{ArgValueCompleter, CompletionCandidate};
use clap_complete::env::Shells;
use clap_mangen::Man;
use serde_json::Value;

use super::terminal::VerbOutput;
use super::text_layout::{escape_for_terminal, truncate_to_width};

/// The variable that makes the program complete a command line instead of running it.
const COMPLETE_VARIABLE: &str = "SHELLYARD_COMPLETE";
/// The name of the program, as the scripts call it.
const PROGRAM: &str = "shellyard";
/// The longest wait for a server: a person waits for each completion.
const SERVER_TIMEOUT: Duration = Duration::from_millis(1500);
const POLL_PAUSE: Duration = Duration::from_millis(5);
/// The length of the explanation beside a candidate.
const HELP_CHARS: usize = 60;
/// Flags of verbs that select the server or the caller, with their number of values.
const SERVER_FLAGS: [(&str, usize); 6] = [
    ("--connect", 1),
    ("--data-dir", 1),
    ("--config", 1),
    ("--token", 1),
    ("--tenant", 1),
    ("--all", 0),
];

/// Flags of the verb `completions`.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct CompletionsFlags {
    /// The shell that reads the script.
    pub shell: CompletedShell,
}

/// A shell with completions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum CompletedShell {
    Bash,
    Zsh,
    Fish,
}

impl CompletedShell {
    const fn name(self) -> &'static str {
        match self {
            Self::Bash => "bash",
            Self::Zsh => "zsh",
            Self::Fish => "fish",
        }
    }
}

/// Prints the script of a shell and returns the exit code.
#[must_use]
pub(super) fn print_completions(flags: &CompletionsFlags) -> u8 {
    let output = match write_script(flags.shell) {
        Ok(script) => VerbOutput::result(script),
        Err(error) => VerbOutput::failure(&format!("the script cannot be written: {error}")),
    };
    output.print()
}

fn write_script(shell: CompletedShell) -> io::Result<String> {
    let mut script = Vec::new();
    let shells = Shells::builtins();
    let completer = shells.completer(shell.name()).ok_or(io::ErrorKind::NotFound)?;
    completer.write_registration(COMPLETE_VARIABLE, PROGRAM, PROGRAM, PROGRAM, &mut script)?;
    String::from_utf8(script).map_err(io::Error::other)
}

/// Answers a script that asks for candidates for the command line of `build_command`. Returns `None` if this is not such a call.
#[must_use]
pub fn complete_command_line(
    build_command: fn() -> clap::Command,
    words: Vec<OsString>,
    directory: Option<&Path>,
) -> Option<ExitCode> {
    let server_flags = find_server_flags(&words);
    let completion = CompleteEnv::with_factory(|| with_candidates(build_command(), &server_flags))
        .var(COMPLETE_VARIABLE)
        .bin(PROGRAM);
    match completion.try_complete(words, directory) {
        Ok(false) => None,
        Ok(true) => Some(ExitCode::SUCCESS),
        // A message would appear in the middle of the line that is being typed.
        Err(_) => Some(ExitCode::FAILURE),
    }
}

/// Returns the flags among these words that select the server, with their values.
fn find_server_flags(words: &[OsString]) -> Vec<OsString> {
    let mut found = Vec::new();
    let mut words = words.iter().peekable();
    while let Some(word) = words.next() {
        let text = word.to_string_lossy();
        let name = text.split_once('=').map_or(&*text, |(name, _)| name);
        let Some((_, values)) = SERVER_FLAGS.iter().find(|(flag, _)| *flag == name) else {
            continue;
        };
        let value = words.next_if(|value| {
            *values == 1 && name == text && !value.to_string_lossy().starts_with('-')
        });
        found.push(word.clone());
        found.extend(value.cloned());
    }
    found
}

/// A kind of thing that a value of an argument names; the name of the value in the help text says which.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NamedThing {
    Job,
    Lane,
    Tenant,
}

impl NamedThing {
    fn from_value_name(name: &str) -> Option<Self> {
        match name {
            "JOB" => Some(Self::Job),
            "LANE" => Some(Self::Lane),
            "TENANT" => Some(Self::Tenant),
            _ => None,
        }
    }

    /// The verbs that list these things, with their flags. Running jobs are all listed, and of the
    /// others the newest.
    const fn verbs(self) -> &'static [&'static [&'static str]] {
        match self {
            Self::Job => &[&["jobs", "--state", "running", "--limit", "200"], &["jobs"]],
            Self::Lane | Self::Tenant => &[&["queue"]],
        }
    }

    /// Returns each name with its explanation, from the output of the verb.
    fn list(self, answer: &Value) -> Vec<(String, String)> {
        match self {
            Self::Job => list_jobs(answer),
            Self::Lane => list_keys(&answer["lanes"]),
            Self::Tenant => list_keys(&answer["tenants"]),
        }
    }
}

/// Adds candidates to each argument of each verb whose value is a job, a lane or a tenant.
fn with_candidates(command: clap::Command, server_flags: &[OsString]) -> clap::Command {
    let named = command.get_arguments().filter_map(|argument| {
        let thing = argument
            .get_value_names()?
            .iter()
            .find_map(|name| NamedThing::from_value_name(name.as_str()))?;
        Some((argument.get_id().clone(), thing))
    });
    let named: Vec<_> = named.collect();
    let verbs: Vec<String> =
        command.get_subcommands().map(|verb| verb.get_name().to_owned()).collect();
    let command = named.into_iter().fold(command, |command, (id, thing)| {
        let flags = server_flags.to_vec();
        let completer =
            ArgValueCompleter::new(move |typed: &OsStr| find_names(thing, &flags, typed));
        command.mut_arg(id, |argument| argument.add(completer))
    });
    verbs.into_iter().fold(command, |command, verb| {
        command.mut_subcommand(verb, |verb| with_candidates(verb, server_flags))
    })
}

/// Returns the names that begin with what was typed; none if no server answers in time.
fn find_names(thing: NamedThing, flags: &[OsString], typed: &OsStr) -> Vec<CompletionCandidate> {
    let typed = typed.to_string_lossy();
    let mut names: Vec<(String, String)> = Vec::new();
    for (name, help) in ask_server(thing.verbs(), flags).iter().flat_map(|it| thing.list(it)) {
        if !names.iter().any(|(known, _)| *known == name) {
            names.push((name, help));
        }
    }
    names
        .into_iter()
        .enumerate()
        .filter(|(_, (name, _))| name.starts_with(&*typed))
        .map(|(place, (name, help))| {
            let help = (!help.is_empty()).then(|| help.into());
            CompletionCandidate::new(name).help(help).display_order(Some(place))
        })
        .collect()
}

/// Runs verbs of this program that ask the server, as the person who completes could, and returns their
/// answers. They end with this process or after a short time.
fn ask_server(verbs: &[&[&str]], flags: &[OsString]) -> Vec<Value> {
    let deadline = Instant::now() + SERVER_TIMEOUT;
    let started: Vec<_> = verbs.iter().filter_map(|verb| start_verb(verb, flags)).collect();
    started.into_iter().filter_map(|verb| verb.wait_until(deadline)).collect()
}

/// A verb of this program that runs, and the file that it writes to.
struct StartedVerb {
    child: Child,
    output: fs::File,
}

fn start_verb(verb: &[&str], flags: &[OsString]) -> Option<StartedVerb> {
    let program = std::env::current_exe().ok()?;
    let output = tempfile::tempfile().ok()?;
    let child = Process::new(program)
        .args(verb)
        .arg("--json")
        .args(flags)
        .stdin(Stdio::null())
        .stdout(output.try_clone().ok()?)
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    Some(StartedVerb { child, output })
}

impl StartedVerb {
    fn wait_until(mut self, deadline: Instant) -> Option<Value> {
        while self.child.try_wait().ok()?.is_none() {
            if Instant::now() >= deadline {
                self.child.kill().ok();
                self.child.wait().ok();
                return None;
            }
            std::thread::sleep(POLL_PAUSE);
        }
        read_json(self.output)
    }
}

fn read_json(mut output: fs::File) -> Option<Value> {
    io::Seek::rewind(&mut output).ok()?;
    serde_json::from_reader(io::BufReader::new(output)).ok()
}

/// Lists the jobs, each as its name (`3`, or `SERVER/3` if several servers run) and what it is, in the
/// order of the answer.
fn list_jobs(answer: &Value) -> Vec<(String, String)> {
    let Some(jobs) = answer["jobs"].as_array() else { return Vec::new() };
    let one = |job: &Value| {
        let number = job["job"].as_u64()?;
        let text = |name: &str| job[name].as_str().unwrap_or_default().to_owned();
        let help = format!("{}: {}", text("state"), text("command"));
        let name = match job["server"].as_str() {
            Some(server) => format!("{server}/{number}"),
            None => number.to_string(),
        };
        Some((name, truncate_to_width(&escape_for_terminal(&help), HELP_CHARS)))
    };
    jobs.iter().filter_map(one).collect()
}

fn list_keys(object: &Value) -> Vec<(String, String)> {
    let count = |value: &Value, name: &str| value[name].as_u64().unwrap_or_default();
    let Some(object) = object.as_object() else { return Vec::new() };
    let one = |(name, value): (&String, &Value)| {
        let help =
            format!("{} running, {} queued", count(value, "running"), count(value, "queued"));
        (name.clone(), help)
    };
    object.iter().map(one).collect()
}

// Manual pages.

/// The section for programs.
const SECTION: &str = "1";

/// Flags of the verb `man`.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct ManFlags {
    /// Write a page for the program and one for each verb into this directory, such as
    /// ~/.local/share/man/man1; without it, print the page of the program.
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
}

/// Prints or writes the pages of this command line and returns the exit code.
#[must_use]
pub(super) fn print_manual(flags: &ManFlags, command: clap::Command) -> u8 {
    let output = match &flags.dir {
        Some(dir) => write_pages(dir, command)
            .map(|()| VerbOutput::message(&format!("the manual pages are in {}", dir.display()))),
        None => build_pages(command)
            .map(|pages| VerbOutput::result(pages.into_iter().next().unwrap_or_default().text)),
    };
    let place = flags.dir.as_ref().map(|dir| format!(" to {}", dir.display()));
    let place = place.unwrap_or_default();
    let failure = |error: io::Error| {
        VerbOutput::failure(&format!(
            "the manual pages cannot be written{place}: {error}; name another directory"
        ))
    };
    output.unwrap_or_else(failure).print()
}

fn write_pages(dir: &Path, command: clap::Command) -> io::Result<()> {
    fs::create_dir_all(dir)?;
    build_pages(command)?
        .iter()
        .try_for_each(|page| fs::write(dir.join(&page.file_name), &page.text))
}

/// The manual page of one command, and the name by which man finds it.
#[derive(Debug, Default)]
struct ManualPage {
    file_name: String,
    text: String,
}

/// Builds the page of the program, followed by those of all verbs.
fn build_pages(command: clap::Command) -> io::Result<Vec<ManualPage>> {
    let mut program = command.disable_help_subcommand(true);
    program.build();
    let mut pages = Vec::new();
    add_pages(&program, &mut pages)?;
    Ok(pages)
}

/// Adds the page of a command and those of its visible verbs.
fn add_pages(command: &clap::Command, pages: &mut Vec<ManualPage>) -> io::Result<()> {
    // `build` gives each verb the name `shellyard-VERB`, by which its page is found.
    let name = command.get_display_name().unwrap_or_else(|| command.get_name()).to_owned();
    let mut text = Vec::new();
    Man::new(command.clone())
        .title(name.to_uppercase())
        .section(SECTION)
        .manual("User Commands")
        .render(&mut text)?;
    let text = String::from_utf8(text).map_err(io::Error::other)?;
    pages.push(ManualPage { file_name: format!("{name}.{SECTION}"), text });
    let verbs = command.get_subcommands().filter(|verb| !verb.is_hide_set());
    verbs.into_iter().try_for_each(|verb| add_pages(verb, pages))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use clap::CommandFactory;
    use serde_json::json;

    use super::*;
    use crate::cli::Cli;

    fn words(text: &str) -> Vec<OsString> {
        text.split_whitespace().map(OsString::from).collect()
    }

    #[test]
    fn flags_that_select_the_server_are_passed_on() {
        for (line, expected) in [
            ("shellyard -- shellyard stop 1", ""),
            ("shellyard -- shellyard stop --connect http://h:1/mcp 1", "--connect http://h:1/mcp"),
            ("shellyard -- shellyard stop --data-dir=/d --all --json", "--data-dir=/d --all"),
            ("shellyard -- shellyard jobs --connect --tenant ci", "--connect --tenant ci"),
            ("shellyard -- shellyard jobs --token", "--token"),
        ] {
            assert_eq!(find_server_flags(&words(line)), words(expected), "{line}");
        }
    }

    #[test]
    fn a_job_is_explained_by_its_state_and_harmless_command() {
        let long = "x".repeat(100);
        let jobs = json!({"jobs": [
            {"job": 12, "state": "running", "command": "echo \u{1b}[2J"},
            {"job": 3, "server": "s77", "state": "exited", "command": long},
            {"state": "no number"},
        ]});
        let listed = list_jobs(&jobs);
        assert_eq!(listed.len(), 2);
        assert_eq!(listed[0], ("12".to_owned(), "running: echo \\u{1b}[2J".to_owned()));
        assert_eq!(listed[1].0, "s77/3");
        assert_eq!(listed[1].1.chars().count(), HELP_CHARS);
        assert!(list_jobs(&json!({"error": {}})).is_empty());
    }

    #[test]
    fn lanes_and_tenants_are_the_keys_of_the_queue() {
        let queue = json!({"lanes": {"build": {"running": 1, "queued": 2}}, "tenants": {}});
        let expected = vec![("build".to_owned(), "1 running, 2 queued".to_owned())];
        assert_eq!(NamedThing::Lane.list(&queue), expected);
        assert_eq!(NamedThing::Tenant.list(&queue), []);
    }

    #[test]
    fn each_shell_has_a_script() {
        for shell in CompletedShell::value_variants() {
            let script = write_script(*shell).unwrap();
            assert!(
                script.contains(COMPLETE_VARIABLE) && script.contains(shell.name()),
                "{script}"
            );
        }
    }

    #[test]
    fn each_verb_has_a_page_with_its_flags() {
        let pages = build_pages(Cli::command()).unwrap();
        let names: BTreeSet<&str> = pages.iter().map(|page| &*page.file_name).collect();
        assert_eq!(names.len(), pages.len());
        for name in ["shellyard.1", "shellyard-serve.1", "shellyard-token-new.1", "shellyard-man.1"]
        {
            assert!(names.contains(name), "{name}: {names:?}");
        }
        let serve = pages.iter().find(|page| page.file_name == "shellyard-serve.1").unwrap();
        assert!(serve.text.contains("\\-\\-token\\-file"), "{}", serve.text);
        assert!(serve.text.starts_with(".ie"), "{}", serve.text);
    }
}
