//! Every verb that asks a server, in every setting: over the socket, TCP and TLS, with several servers,
//! with none, with a wrong token, and in terminals of 80 and 40 columns.

use std::collections::BTreeSet;
use std::fs;

use serde_json::{Value, json};

use super::local_verbs::LOCAL_VERBS;
use super::world::{ROUTES, Route, World};
use crate::harness::{
    Launch, Sandbox, TestServer, assert_fits, eventually, output_of, run_program, text,
};

/// A verb, and its result on a server with jobs.
struct Case {
    /// Words, with the names of jobs as `{done}`, `{sleeper}` and `{talker}`.
    words: &'static [&'static str],
    code: i32,
    /// A text in the output.
    shows: &'static str,
    /// Text that a person types, after the first text was shown.
    typed: Option<(&'static str, &'static str)>,
    /// The streams of the verb: it may need a terminal, or be for programs alone.
    streams: Streams,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Streams {
    Any,
    Pipes,
    Terminal,
}

const fn case(words: &'static [&'static str], code: i32, shows: &'static str) -> Case {
    Case { words, code, shows, typed: None, streams: Streams::Any }
}

impl Case {
    const fn typed(mut self, after: &'static str, text: &'static str) -> Self {
        self.typed = Some((after, text));
        self
    }

    const fn only(mut self, streams: Streams) -> Self {
        self.streams = streams;
        self
    }

    fn is_for(&self, streams: Streams) -> bool {
        self.streams == Streams::Any || self.streams == streams
    }

    fn input(&self) -> &str {
        self.typed.map_or("", |(_, text)| text)
    }
}

/// Every verb that asks a server, in an order in which none disturbs the next.
const CASES: [Case; 27] = [
    case(&["jobs"], 0, "echo first"),
    case(&["jobs", "--json"], 0, "\"command\"").only(Streams::Pipes),
    case(&["jobs", "--all"], 0, "echo first"),
    case(&["logs", "{done}"], 0, "first"),
    case(&["logs", "--tail", "1", "{done}"], 0, "second"),
    case(&["logs", "--since", "1h", "{done}"], 0, "first"),
    case(&["logs", "--grep", "^sec", "{done}"], 0, "second"),
    case(&["logs", "-f", "{done}"], 0, "first"),
    case(&["show", "{done}"], 0, "exit 3"),
    case(&["wait", "{done}"], 3, "exit 3"),
    case(&["wait", "--timeout", "1ms", "{sleeper}"], 124, "still running"),
    case(&["top", "--json"], 0, "\"jobs\"").only(Streams::Pipes),
    case(&["top"], 0, "running").only(Streams::Terminal).typed("running", "q"),
    case(&["attach", "{talker}"], 7, "got hello").typed("ready", "hello\n"),
    case(&["run", "--queue", "sh", "-c", "echo of the queue; exit 4"], 4, "of the queue"),
    case(&["queue"], 0, "build"),
    case(&["pause"], 0, "paused"),
    case(&["resume"], 0, "the queue is resumed"),
    case(&["pause", "--lane", "default"], 0, "paused"),
    case(&["resume", "--lane", "default"], 0, "lane default"),
    case(&["drain"], 0, "new jobs are refused"),
    case(&["drain", "--undo"], 0, "accepted again"),
    case(&["log-level"], 0, "info"),
    case(&["config", "reload"], 0, "nothing changed"),
    case(&["stop", "{sleeper}"], 0, "stopped by a client"),
    case(&["upgrade"], 0, "upgraded from"),
    case(&["jobs", "--state", "running"], 0, "sleep"),
];

/// The cases of verbs about jobs: they ask all servers of a user. The others ask the shared one.
const JOB_VERBS: [&str; 7] = ["jobs", "logs", "show", "wait", "stop", "attach", "top"];

/// A server with jobs.
struct Jobs {
    world: World,
    /// The server of an editor that has the finished job, if there are several servers.
    editors: Vec<TestServer>,
    done: String,
}

const DONE: &str = "echo first; echo second; exit 3";

impl Jobs {
    #[track_caller]
    fn start(way: Route) -> Self {
        let world = World::start(way);
        let done = world.finished_job(DONE);
        world.running_job(&json!({"program": "sleep", "args": ["601"]}));
        Self { world, editors: Vec::new(), done }
    }

    /// Starts a shared server and those of two editors. One of the editors has the finished job.
    #[track_caller]
    fn start_several() -> Self {
        let mut jobs = Self::start(Route::Socket);
        let data = jobs.world.sandbox().data();
        let editor = || Launch::stdio().structured().data(&data).start();
        let mut editors = vec![editor(), editor()];
        eventually("each editor has a socket", || {
            let socket = |server: &TestServer| format!("servers/{}.sock", server.pid());
            editors.iter().all(|server| data.join(socket(server)).exists())
        });
        editors[1].run(DONE);
        jobs.done = format!("s{}/1", editors[1].pid());
        jobs.editors = editors;
        jobs
    }

    /// The words of a case, with the names of fresh jobs where it changes them.
    fn words(&self, case: &Case) -> Vec<String> {
        let fill = |word: &&str| match *word {
            "{done}" => self.done.clone(),
            "{sleeper}" => self.name(&json!({"program": "sleep", "args": ["600"]})),
            "{talker}" => {
                let script = "echo ready; read line; echo \"got $line\"; exit 7";
                self.name(&json!({"command": script}))
            }
            word => word.to_owned(),
        };
        case.words.iter().map(fill).collect()
    }

    /// Starts a job of the shared server.
    fn name(&self, fields: &Value) -> String {
        let number = self.world.running_job(fields);
        if self.editors.is_empty() { number } else { format!("serve/{number}") }
    }

    #[track_caller]
    fn check_with_pipes(&mut self, case: &Case) {
        let words = self.words(case);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let output = output_of(self.world.command(&words), case.input());
        let shown = format!("{}{}", text(&output.stdout), text(&output.stderr));
        assert_eq!(output.status.code(), Some(case.code), "{words:?}: {shown}");
        assert!(shown.contains(case.shows), "{words:?}: {shown}");
        assert!(!shown.contains('\u{1b}'), "no colours in a pipe: {words:?}: {shown:?}");
        if words.contains(&"--json") {
            let parsed: Result<Value, _> = serde_json::from_slice(&output.stdout);
            assert!(parsed.is_ok(), "{words:?}: {shown}");
        }
    }

    #[track_caller]
    fn check_in_terminal(&mut self, case: &Case, columns: u16) {
        let words = self.words(case);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let mut program = self.world.start_in_terminal(&words, columns);
        if let Some((after, text)) = case.typed {
            program.wait_for(after);
            program.send(text.as_bytes());
        }
        let (code, shown) = program.finish();
        assert_eq!(code, Some(case.code), "{columns} {words:?}: {shown}");
        assert!(has_text(&shown, case.shows), "{columns} {words:?}: {shown}");
        assert_fits(&shown, columns.into());
        if ["show"].contains(&words[0]) {
            assert!(shown.contains("\u{1b}[31m"), "a failed job is red: {shown:?}");
        }
    }
}

/// `true` if a terminal shows a text: whole, wrapped between words, or cut behind its first half.
fn has_text(shown: &str, text: &str) -> bool {
    let shown = shown.split_whitespace().collect::<Vec<_>>().join(" ");
    let is_cut = |end: usize| text.get(..end).is_some_and(|cut| shown.contains(&format!("{cut}…")));
    shown.contains(text) || (text.len().div_ceil(2)..text.len()).any(is_cut)
}

#[test]
fn a_text_in_a_terminal_may_be_wrapped_or_cut_but_not_missing() {
    assert!(has_text("jobs:\r\n  new jobs\r\n  are refused", "new jobs are refused"));
    assert!(has_text("1  echo fi…\r\n", "echo first"));
    assert!(!has_text("1  echo second", "echo first") && !has_text("1  ech…", "echo first"));
}

/// Every verb of the program, as its manual pages name them: `token new`, not `token`.
fn list_verbs() -> BTreeSet<String> {
    let sandbox = Sandbox::new();
    let pages = sandbox.path().join("man1");
    let written = run_program(&sandbox, &["man", "--dir", pages.to_str().expect("a path")]);
    assert!(written.status.success(), "{written:?}");
    let names = fs::read_dir(&pages).expect("pages").flatten().map(|page| page.file_name());
    let names = names.map(|name| name.to_string_lossy().trim_end_matches(".1").to_owned());
    let names: BTreeSet<String> =
        names.filter_map(|name| Some(name.strip_prefix("shellyard-")?.to_owned())).collect();
    let group_of = |name: &str| {
        let parents = names.iter().filter(|group| name.starts_with(&format!("{group}-")));
        parents.max().cloned()
    };
    let is_group = |name: &String| names.iter().any(|other| group_of(other).as_ref() == Some(name));
    let spell = |name: &String| match group_of(name) {
        Some(group) => format!("{group} {}", &name[group.len() + 1..]),
        None => name.clone(),
    };
    names.iter().filter(|name| !is_group(name)).map(spell).collect()
}

#[test]
fn every_verb_of_the_program_is_in_the_matrix() {
    let asking = CASES.iter().map(|case| case.words);
    let asking = asking.map(|words| match words[0] {
        "config" => words[..2].join(" "),
        verb => verb.to_owned(),
    });
    let local = LOCAL_VERBS.iter().map(|(verb, why)| {
        assert!(!why.is_empty(), "{verb}: why do the settings of servers not matter?");
        (*verb).to_owned()
    });
    let covered: BTreeSet<String> = asking.chain(local).collect();
    let verbs = list_verbs();
    assert!(verbs.len() > 30 && verbs.contains("token new"), "{verbs:?}");
    let missing: Vec<_> = verbs.difference(&covered).collect();
    assert!(missing.is_empty(), "add these verbs to CASES or to LOCAL_VERBS: {missing:?}");
    let unknown: Vec<_> = covered.difference(&verbs).filter(|verb| !verb.is_empty()).collect();
    assert!(unknown.is_empty(), "the program has no such verbs: {unknown:?}");
}

#[test]
fn every_verb_works_over_socket_tcp_and_tls() {
    for way in ROUTES {
        let mut jobs = Jobs::start(way);
        for case in CASES.iter().filter(|case| case.is_for(Streams::Pipes)) {
            jobs.check_with_pipes(case);
        }
    }
}

#[test]
fn every_verb_works_with_several_servers() {
    let mut jobs = Jobs::start_several();
    for case in CASES.iter().filter(|case| case.is_for(Streams::Pipes)) {
        jobs.check_with_pipes(case);
    }
    for case in CASES.iter().filter(|case| JOB_VERBS.contains(&case.words[0])) {
        if case.is_for(Streams::Terminal) {
            jobs.check_in_terminal(case, 40);
        }
    }
}

#[test]
fn every_verb_fits_terminals_of_80_and_of_40_columns() {
    for columns in [80, 40] {
        let mut jobs = Jobs::start(Route::Socket);
        for case in CASES.iter().filter(|case| case.is_for(Streams::Terminal)) {
            jobs.check_in_terminal(case, columns);
        }
    }
}

/// The words of a case for a server without jobs.
fn words_without_jobs(case: &Case) -> Vec<String> {
    let words = case.words.iter().filter(|word| **word != "--json");
    words.map(|word| if word.starts_with('{') { "1".to_owned() } else { (*word).into() }).collect()
}

#[test]
fn without_a_server_every_verb_says_how_to_start_one() {
    let sandbox = Sandbox::new();
    let data = sandbox.data().display().to_string();
    for case in &CASES {
        let words = words_without_jobs(case);
        let mut words: Vec<&str> = words.iter().map(String::as_str).collect();
        let position = if words[0] == "config" { 2 } else { 1 };
        words.splice(position..position, ["--data-dir", &data]);
        let output = run_program(&sandbox, &words);
        let code = if words[0] == "run" { 125 } else { 1 };
        assert_eq!(output.status.code(), Some(code), "{words:?}: {output:?}");
        assert_eq!(text(&output.stdout), "", "{words:?}");
        let said = text(&output.stderr);
        assert!(said.contains("`shellyard serve`"), "{words:?}: {said}");
    }
}

#[test]
fn with_a_wrong_token_every_verb_says_which_one_is_needed() {
    for way in [Route::Tcp, Route::Tls] {
        let mut world = World::start_with(way, Launch::http().guarded());
        for case in &CASES {
            let words = words_without_jobs(case);
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            let mut command = world.command(&words);
            command.env("SHELLYARD_TOKEN", "a-wrong-token-of-some-length");
            let output = output_of(command, "");
            let code = if words[0] == "run" { 125 } else { 1 };
            assert_eq!(output.status.code(), Some(code), "{words:?}: {output:?}");
            let said = text(&output.stderr);
            assert!(said.contains("SHELLYARD_TOKEN"), "{words:?}: {said}");
            assert!(!said.contains("a-wrong-token"), "{words:?}: {said}");
        }
    }
}
