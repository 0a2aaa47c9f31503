//! Output that a caller has seen is not shown to it again: not by `run_command`, `wait_jobs` and
//! `read_output(view="next")`.

use std::fs;

use serde_json::{Value, json};

use crate::harness::{
    Era, HttpLink, Launch, Marker, Reply, TestServer, bytes_of, eventually, free_port,
    initialize_params,
};

const LEGACY: Era = Era::Legacy("2025-11-25");

/// A job that writes 30 numbered lines, and 30 more after each of two gates.
const STEPS: &str = "step() { for i in $(seq $1 $2); do echo line-$i; done; }; step 1 30; \
                     while [ ! -e gate1 ]; do sleep 0.05; done; step 31 60; \
                     while [ ! -e gate2 ]; do sleep 0.05; done; step 61 90";

fn open_gate(server: &TestServer, name: &str) {
    fs::write(server.work().join(name), "").expect("the gate opens");
}

/// The numbered lines of a reply.
fn lines_of(text: &str) -> Vec<u64> {
    text.lines().filter_map(|line| line.strip_prefix("line-")?.parse().ok()).collect()
}

fn call(server: &mut TestServer, tool: &str, arguments: Value) -> String {
    server.call(tool, arguments).ok().text()
}

fn next(server: &mut TestServer, job: u64) -> String {
    call(server, "read_output", json!({"job": job, "view": "next"}))
}

#[test]
fn no_line_is_shown_twice_and_none_is_lost() {
    for launch in Launch::both() {
        let mut server = launch.start();
        let run = json!({"command": STEPS, "until": "line-30$", "wait_s": 45});
        let first = server.call("run_command", run).ok();
        let job = first.job();
        let mut seen = lines_of(&first.text());
        assert!(seen.contains(&30) && seen.len() < 30, "only the last lines: {seen:?}");
        open_gate(&server, "gate1");
        let wait = json!({"jobs": [job], "until": "line-60$", "wait_s": 45});
        let second = lines_of(&call(&mut server, "wait_jobs", wait));
        assert!(second.contains(&60) && second.iter().all(|line| *line > 30), "{second:?}");
        seen.extend(second);
        open_gate(&server, "gate2");
        let last = call(&mut server, "wait_jobs", json!({"jobs": [job], "wait_s": 45}));
        let lines = lines_of(&last);
        assert_eq!(lines, (61..=90).collect::<Vec<_>>(), "{last}");
        seen.extend(lines);
        // What the replies left out is still new, and comes in order.
        let mut unseen = Vec::new();
        loop {
            let text = next(&mut server, job);
            let page = lines_of(&text);
            if page.is_empty() {
                assert!(text.contains("no new output") && !text.contains('→'), "{text}");
                break;
            }
            unseen.extend(page);
        }
        assert!(unseen.is_sorted(), "{unseen:?}");
        seen.extend(unseen);
        seen.sort_unstable();
        assert_eq!(seen, (1..=90).collect::<Vec<_>>(), "each line once");
        // An explicit place shows what it is asked for.
        let all = call(&mut server, "read_output", json!({"job": job}));
        assert_eq!(lines_of(&all).len(), 90, "{all}");
        let from = call(&mut server, "read_output", json!({"job": job, "line": 5, "max_lines": 2}));
        assert_eq!(lines_of(&from), [5, 6]);
        let tail =
            call(&mut server, "read_output", json!({"job": job, "view": "tail", "max_lines": 1}));
        assert_eq!(lines_of(&tail), [90]);
    }
}

#[test]
fn a_wait_without_news_says_so() {
    let marker = Marker::new();
    let mut server = Launch::stdio().start();
    let run = json!({"command": format!("echo hello; sleep {marker}"), "until": "hello"});
    let first = server.call("run_command", run).ok();
    assert!(first.text().contains("\nhello\n"), "{}", first.text());
    let wait = json!({"jobs": [first.job()], "wait_s": 0});
    let text = call(&mut server, "wait_jobs", wait);
    assert!(text.contains(" · no new output\n→ ") && !text.contains("hello"), "{text}");
    call(&mut server, "stop_jobs", json!({"jobs": [first.job()]}));
    let text = call(&mut server, "wait_jobs", json!({"jobs": [first.job()]}));
    assert!(text.starts_with("stopped on request") && text.contains("no new output"), "{text}");
    assert!(!text.contains("hello"), "{text}");
}

#[test]
fn the_rest_of_a_begun_line_is_new() {
    let mut server = Launch::stdio().structured().start();
    let command = "printf 'Name? '; read name; echo hello $name";
    let run = json!({"command": command, "until": r"Name\? "});
    let first = server.call("run_command", run).ok();
    assert_eq!(first["output"], "Name? ");
    server.call("send_input", json!({"job": first.job(), "text": "x\n", "eof": true})).ok();
    server.wait_finished(first.job());
    let page = json!({"job": first.job(), "view": "next"});
    let rest = server.call("read_output", page).ok();
    assert!(!rest["output"].as_str().is_some_and(|text| text.contains("Name?")), "{}", rest.0);
}

#[test]
fn a_cut_reply_leaves_its_middle_to_view_next() {
    let mut server = Launch::stdio().start();
    let run =
        json!({"command": "for i in $(seq 1 3000); do echo line-$i; done", "max_tokens": 500});
    let first = server.call("run_command", run).ok();
    let text = first.text();
    let (_, last_lines) = text.split_once("last lines:\n").expect("last lines");
    let mut seen = lines_of(last_lines);
    assert!(seen.contains(&3000) && seen.len() < 1000, "{seen:?}");
    while seen.len() < 3000 {
        let page = lines_of(&next(&mut server, first.job()));
        assert!(!page.is_empty(), "{} of 3000 lines were shown", seen.len());
        seen.extend(page);
    }
    seen.sort_unstable();
    assert_eq!(seen, (1..=3000).collect::<Vec<_>>(), "each line once");
}

/// The whole lines of a reply that consist of this word and six digits. A hole may cut others.
fn whole_lines(text: &str, word: &str) -> Vec<String> {
    let is_whole = |line: &&str| line.starts_with(word) && line.len() == word.len() + 6;
    text.lines().filter(is_whole).map(str::to_owned).collect()
}

/// Reads what is new until nothing is, and returns the whole lines of it.
#[track_caller]
fn read_to_end(server: &mut TestServer, arguments: &Value, word: &str) -> Vec<String> {
    let mut lines = Vec::new();
    for _ in 0..100 {
        let text = call(server, "read_output", arguments.clone());
        if text.contains("no new output") {
            return lines;
        }
        lines.extend(whole_lines(&text, word));
    }
    panic!("there is always something new: {} lines", lines.len());
}

#[test]
fn what_a_log_has_lost_is_read_past_once() {
    let mut server = Launch::stdio().config("[output]\nlarge = \"64 KiB\"\n").start();
    let command = "seq -f line-%06.0f 1 300000";
    for max_tokens in [500, 2000] {
        let run =
            json!({"command": command, "on_large_output": "truncate", "max_tokens": max_tokens});
        let first = server.call("run_command", run).ok();
        let mut seen = whole_lines(&first.text(), "line-");
        assert!(seen.iter().any(|line| line == "line-300000"), "{}", first.text());
        let page = json!({"job": first.job(), "view": "next"});
        let rest = read_to_end(&mut server, &page, "line-");
        assert!(rest.is_sorted() && rest.len() > 1000, "{} lines", rest.len());
        seen.extend(rest);
        let shown = seen.len();
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), shown, "each line once");
    }
}

#[test]
fn one_stream_is_read_only_as_far_as_it_is_new() {
    let mut server = Launch::stdio().start();
    let command = "for i in $(seq 100001 103000); do echo out-$i; \
                   case $i in *00) echo err-$i >&2;; esac; done; sleep 0.3; \
                   for i in $(seq 103001 103003); do echo err-$i >&2; done";
    let run = json!({"command": command, "streams": "separate", "max_tokens": 500});
    let first = server.call("run_command", run).ok();
    let mut seen = whole_lines(&first.text(), "err-");
    assert!(seen.iter().any(|line| line == "err-103003"), "{}", first.text());
    let page = json!({"job": first.job(), "view": "next", "stream": "stderr"});
    seen.extend(read_to_end(&mut server, &page, "err-"));
    let shown = seen.len();
    seen.sort_unstable();
    seen.dedup();
    assert_eq!((shown, seen.len()), (33, 33), "each line once: {seen:?}");
}

#[test]
fn the_line_that_was_waited_for_is_shown_even_if_many_follow() {
    let marker = Marker::new();
    let mut server = Launch::stdio().start();
    let command = format!(
        "while [ ! -e gate ]; do sleep 0.05; done; echo starting; echo ready at http://h:1; \
         seq 1 500; echo done; touch written; sleep {marker}"
    );
    let job = server.start(&command);
    open_gate(&server, "gate");
    eventually("all lines are written", || server.work().join("written").exists());
    let wait = json!({"jobs": [job], "until": "ready", "wait_s": 45});
    let text = call(&mut server, "wait_jobs", wait);
    assert!(text.contains(" · line 2 matches\nready at http://h:1\n"), "{text}");
    assert!(text.contains("\ndone\n") && text.lines().count() < 30, "{text}");
}

/// A second client with the same name and a session of its own.
#[track_caller]
fn second_session(server: &mut TestServer) -> HttpLink {
    let mut link = HttpLink::new(LEGACY);
    link.connect_to(server.http().address().to_owned());
    link.exchange(&LEGACY.request(1, "initialize", initialize_params(LEGACY.version())));
    link
}

/// Reads what a session has not seen.
#[track_caller]
fn read_next(link: &mut HttpLink, mut arguments: Value) -> Reply {
    arguments["view"] = json!("next");
    let params = json!({"name": "read_output", "arguments": arguments});
    Reply(link.exchange(&LEGACY.request(2, "tools/call", params))).ok()
}

#[test]
fn each_session_has_seen_what_it_was_shown_itself() {
    let mut server = Launch::http().era(LEGACY).start();
    let job = server.run("echo hello").job();
    assert!(!next(&mut server, job).contains("hello"));
    let mut other = second_session(&mut server);
    assert!(read_next(&mut other, json!({"job": job})).text().contains("hello"));
    assert!(!read_next(&mut other, json!({"job": job})).text().contains("hello"));
}

#[test]
fn the_reply_to_a_given_up_call_does_not_count_as_seen() {
    let marker = Marker::new();
    let mut server = Launch::stdio().start();
    let job = server.start(&format!(
        "while [ ! -e gate ]; do sleep 0.05; done; echo late; touch written; sleep {marker}"
    ));
    let id = server.begin("wait_jobs", json!({"jobs": [job], "quiet_s": 40, "wait_s": 45}));
    open_gate(&server, "gate");
    eventually("the line is written", || server.work().join("written").exists());
    let reason = "McpError: MCP error -32001: Request timed out";
    server.notify("notifications/cancelled", json!({"requestId": id, "reason": reason}));
    eventually("the wait of the given-up call is over", || {
        let text = call(&mut server, "wait_jobs", json!({"jobs": [job], "until": "late"}));
        text.contains("\nlate\n")
    });
}

#[test]
fn starting_a_server_is_one_call() {
    for launch in Launch::both() {
        let marker = Marker::new();
        let mut server = launch.structured().start();
        let command = format!("echo starting; echo listening on 80; sleep {marker}");
        let run = json!({"command": command, "until": "listening on ([0-9]+)", "wait_s": 45});
        let reply = server.call("run_command", run).ok();
        assert_eq!((&reply["state"], &reply["matched_line"]), (&json!("running"), &json!(2)));
        assert_eq!(reply["output"], "starting\nlistening on 80\n");
        let stop = format!("stop_jobs(jobs=[{}])", reply.job());
        assert!(reply["hint"].as_str().is_some_and(|hint| hint.contains(&stop)), "{}", reply.0);
        let quiet = json!({"command": format!("echo up; sleep {marker}"), "quiet_s": 1});
        let reply = server.call("run_command", quiet).ok();
        assert_eq!((&reply["quiet"], &reply["output"]), (&json!(true), &json!("up\n")));
    }
}

#[test]
fn a_port_ends_the_call_that_starts_its_server() {
    let mut server = Launch::stdio().structured().start();
    let port = free_port();
    let serve = "import socket, sys, time\ns = socket.socket()\n\
                 s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)\n\
                 s.bind(('127.0.0.1', int(sys.argv[1])))\ns.listen()\nprint('up', flush=True)\n\
                 time.sleep(1000)\n";
    fs::write(server.work().join("serve.py"), serve).expect("a script");
    let run = json!({"command": format!("python3 serve.py {port}"), "port": port, "wait_s": 45});
    let first = server.call("run_command", run.clone()).ok();
    assert_eq!(first.verdict(), format!("port {port} listens"), "{}", first.0);
    assert_eq!((&first["state"], &first["listening"]), (&json!("running"), &json!(true)));
    let second = server.call("run_command", run).ok();
    let taken = format!("port {port} listens already, whoever holds it");
    assert_eq!(second.verdict(), taken, "{}", second.0);
    let both = json!({"jobs": [first.job(), second.job()], "grace_s": 0});
    server.call("stop_jobs", both).ok();
    let none = json!({"command": "echo no server; exit 3", "port": port, "wait_s": 45});
    let reply = server.call("run_command", none).ok();
    assert_eq!((&reply["listening"], &reply["exit_code"]), (&json!(false), &json!(3)));
}

#[test]
fn conditions_of_run_command_are_checked_like_those_of_wait_jobs() {
    let mut server = Launch::stdio().start();
    let job = server.run("echo hi").job();
    for (name, value) in [("until", json!("(")), ("port", json!(65_536)), ("quiet_s", json!(-1))] {
        let error = |server: &mut TestServer, tool: &str, mut arguments: Value| {
            arguments[name] = value.clone();
            server.call(tool, arguments).error_text()
        };
        let run = error(&mut server, "run_command", json!({"command": "echo run"}));
        assert_eq!(run, error(&mut server, "wait_jobs", json!({"jobs": [job]})));
    }
}

#[test]
fn empty_rows_of_a_terminal_cost_nothing() {
    let mut server = Launch::stdio().structured().start();
    let mut shown = |command: &str| -> Value {
        let reply = server.call("run_command", json!({"command": command, "tty": true})).ok();
        reply["output"].clone()
    };
    assert_eq!(shown(r"printf '\033[2J\033[20;10Hhello\n'"), "         hello\n");
    assert_eq!(shown(r"printf 'top\033[20;1Hbottom   \033[30;1H'"), "top\n\nbottom\n");
    assert_eq!(shown(r"printf 'one\n\n\ntwo\n'"), "one\n\n\ntwo\n", "lines are no rows");
}

fn read(server: &mut TestServer, job: u64, mut arguments: Value) -> Reply {
    arguments["job"] = json!(job);
    server.call("read_output", arguments)
}

#[test]
fn places_and_forms_combine_and_old_words_keep_working() {
    let mut server = Launch::stdio().structured().start();
    let job = server.run("seq 1 20").job();
    let mut output = |arguments: Value| read(&mut server, job, arguments).ok()["output"].clone();
    let last = output(json!({"view": "tail", "form": "hexdump", "max_bytes": 3}));
    assert!(last.as_str().is_some_and(|dump| dump.starts_with("00000030  32 30 0a")), "{last}");
    for (old, new) in [
        (json!({"view": "raw"}), json!({"form": "raw"})),
        (json!({"view": "raw"}), json!({"form": "base64", "view": "head"})),
        (json!({"view": "base64"}), json!({"form": "base64"})),
        (json!({"view": "hexdump"}), json!({"form": "hexdump", "view": "head"})),
        (json!({"view": "text"}), json!({"form": "text"})),
        (json!({"view": "next", "line": 5}), json!({"line": 5})),
        (json!({"view": "head", "max_lines": 2}), json!({"max_lines": 2})),
        (json!({"view": "tail", "max_lines": 2}), json!({"line": 19})),
        (json!({"view": "screen"}), json!({"form": "screen"})),
    ] {
        assert_eq!(output(old.clone()), output(new.clone()), "{old} and {new}");
    }
    let digests = [json!({"view": "digest"}), json!({"form": "digest"})]
        .map(|arguments| read(&mut server, job, arguments).ok().text());
    assert!(
        digests[0].starts_with("digest of 20 lines") && digests[0] == digests[1],
        "{digests:?}"
    );
    for (arguments, words) in [
        (json!({"view": "raw", "form": "text"}), "name different forms"),
        (json!({"form": "octal"}), "text, hexdump, base64, raw, screen, digest"),
        (json!({"form": "screen", "line": 2}), "leave the place out"),
        (json!({"view": "tail", "line": 2}), "leave `view` out"),
    ] {
        let error = read(&mut server, job, arguments).error_text();
        assert!(error.contains(words), "{error}");
    }
}

#[test]
fn a_search_by_view_next_is_about_what_is_new() {
    let mut server = Launch::stdio().structured().start();
    let job = server.run("echo needle").job();
    for (arguments, matches) in
        [(json!({"grep": "needle"}), 1), (json!({"grep": "needle", "view": "next"}), 0)]
    {
        assert_eq!(read(&mut server, job, arguments).ok()["matches"], matches);
    }
}

#[test]
fn bytes_of_what_is_unseen_come_in_order_and_once() {
    let mut server = Launch::http().era(LEGACY).structured().start();
    let job = server.run("printf 0123456789").job();
    let mut other = second_session(&mut server);
    for expected in ["0123", "4567", "89"] {
        let page = json!({"job": job, "form": "base64", "max_bytes": 4});
        let page = read_next(&mut other, page);
        assert_eq!(bytes_of(page.structured()), expected.as_bytes());
    }
}

#[test]
fn one_stream_is_read_on_where_it_was_left() {
    let mut server = Launch::http().era(LEGACY).structured().start();
    let job = server.run_in_steps("echo a; read _; echo b >&2; read _; echo c >&2", &[2, 4]);
    let mut other = second_session(&mut server);
    for expected in ["b\n", "c\n", ""] {
        let page = json!({"job": job, "stream": "stderr", "max_lines": 1});
        assert_eq!(read_next(&mut other, page)["stderr"], expected);
    }
}

#[test]
fn a_screen_is_what_the_terminal_shows_now() {
    let marker = Marker::new();
    let mut server = Launch::stdio().structured().start();
    let command = format!(
        r"printf 'old\n'; seq 1 100; printf '\033[2J\033[Hmenu\n> one\n  two\033[2;1H  one\033[3;1H> two'; sleep {marker}"
    );
    let run = json!({"command": command, "tty": true, "until": "> two", "wait_s": 45});
    let job = server.call("run_command", run).ok().job();
    let screen = read(&mut server, job, json!({"form": "screen"})).ok();
    let rows = screen["output"].as_str().expect("rows");
    assert!(rows.ends_with("menu\n  one\n> two"), "{rows:?}");
    assert!(rows.lines().count() <= 40, "{rows:?}");
    assert_eq!(screen["encoding"], "screen");
}

#[test]
fn output_that_was_skipped_while_a_job_ran_is_offered_at_its_end() {
    let mut server = Launch::stdio().start();
    let command = "seq 1 100; until [ -e go ]; do sleep 0.05; done";
    let job = server.call("run_command", json!({"command": command, "wait_s": 0})).ok().job();
    let tail = server.call("wait_jobs", json!({"jobs": [job], "until": "^100$"})).ok().text();
    assert!(!tail.contains("\n50\n"), "only the last lines of a running job: {tail}");
    fs::write(server.work().join("go"), "").expect("a file of ours");
    let end = server.call("wait_jobs", json!({"jobs": [job]})).ok().text();
    let hint = format!("earlier output was not shown yet: read_output(job={job}, view=\"next\")");
    assert!(end.contains(&hint), "{end}");
    let next = server.call("read_output", json!({"job": job, "view": "next"})).ok().text();
    assert!(next.contains("\n50\n") && !next.contains("\n100"), "{next}");
}
