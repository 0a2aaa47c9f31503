//! Finding what matters on the server: grep in one job and in all, and JMESPath queries.

use std::fs;

use serde_json::{Value, json};

use crate::harness::{Launch, TestServer, eventually};

#[track_caller]
fn grep(server: &mut TestServer, arguments: Value) -> Value {
    server.call("read_output", arguments).ok().structured().clone()
}

#[test]
fn every_match_of_a_large_log_is_found_once_by_going_on() {
    for launch in Launch::both() {
        let mut server = launch.structured().start();
        let job = server.start("seq 1 300000");
        server.wait_finished(job);
        let mut arguments = json!({"job": job, "grep": "7{3}", "max_lines": 100});
        let (mut lines, mut rest) = (Vec::new(), None);
        loop {
            let found = grep(&mut server, arguments.clone());
            let left = found["matches"].as_u64().expect("a count");
            assert!(rest.is_none_or(|rest| rest == left), "{found}");
            let page = found["output"].as_str().expect("lines").to_owned();
            rest = Some(left - page.lines().filter(|line| *line != "--").count() as u64);
            lines.extend(page.lines().filter(|line| *line != "--").map(str::to_owned));
            if found["end"] == "complete" {
                break;
            }
            assert_eq!(found["end"], "more", "{found}");
            arguments["cursor"] = found["next_cursor"].clone();
        }
        let wanted = (1..=300_000).map(|number: u32| number.to_string());
        let wanted = wanted.filter(|number| number.contains("777"));
        let wanted: Vec<String> = wanted.map(|number| format!("{number}: {number}")).collect();
        assert_eq!(lines, wanted);
    }
}

#[test]
fn lines_that_do_not_match_can_be_asked_for_per_stream() {
    let mut server = Launch::stdio().structured().start();
    let job =
        server.run_separate("echo ok; echo ERROR >&2; echo noise >&2; echo OK; echo last").job();
    let found = grep(&mut server, json!({"job": job, "grep": "(?i)^ok$", "invert": true}));
    assert_eq!(found["matches"], 3, "{found}");
    // Which stream's pipe is read first is not ours to say: only the order within one is sure.
    let of_stdout = json!({"job": job, "grep": "(?i)^ok$", "invert": "true", "stream": "stdout"});
    let found = grep(&mut server, of_stdout);
    assert_eq!(found["matches"], 1, "{found}");
    assert!(found["stdout"].as_str().is_some_and(|lines| lines.ends_with(": last\n")), "{found}");
    let every = grep(&mut server, json!({"job": job, "grep": "^"}));
    assert_eq!(every["matches"], 5);
    assert_eq!(every["searched_bytes"], every["total_bytes"]);
    let mut server = Launch::stdio().start();
    let job = server.run("printf 'a\\nb\\nb\\n'").job();
    let text = server.call("read_output", json!({"job": job, "grep": "b", "invert": true}));
    assert!(text.ok().text().starts_with("1 of 3 lines does not match · exit 0"), "in words");
}

#[test]
fn a_search_on_a_running_job_goes_on_without_losing_a_match() {
    let mut server = Launch::stdio().structured().start();
    let job = server.start("echo one; printf ERR; read -r _; echo 'OR: foo'; exec sleep 600");
    server.call("wait_jobs", json!({"jobs": [job], "until": "ERR", "wait_s": 30})).ok();
    let mut arguments = json!({"job": job, "grep": "ERROR"});
    let found = grep(&mut server, arguments.clone());
    let (matches, next) = (&found["matches"], &found["next_cursor"]);
    assert_eq!((matches, next), (&json!(0), &json!("bytes:4")), "{found}");
    let hint = found["hint"].as_str().expect("how to go on");
    let call = format!("read_output(job={job}, grep=\"ERROR\", cursor=\"bytes:4\")");
    assert!(hint.ends_with(&call), "{hint}");
    server.call("send_input", json!({"job": job, "text": "\n"})).ok();
    server.call("wait_jobs", json!({"jobs": [job], "until": "foo", "wait_s": 30})).ok();
    arguments["cursor"] = next.clone();
    let found = grep(&mut server, arguments);
    assert_eq!(found["output"], "2: ERROR: foo\n", "{found}");
    server.call("stop_jobs", json!({"jobs": [job]})).ok();
}

#[test]
fn output_is_searched_and_queried_as_it_is_shown() {
    let mut server = Launch::stdio().structured().start();
    let utf16 = r"printf '\377\376'; printf 'ok\nerror: broken\nlast\n' | sed 's/./&\x00/g; s/$/\n\x00/' | tr -d '\n' | sed 's/\x00\x00/\x00\n\x00/g'";
    let job = server.run(utf16).job();
    let found = grep(&mut server, json!({"job": job, "grep": "^error: broken$"}));
    assert_eq!((&found["matches"], &found["output"]), (&json!(1), &json!("2: error: broken\n")));
    let json = r#"printf '\377\376{\0"\0n\0"\0:\0 \0[\0"\0a\0"\0,\0"\0b\0"\0]\0}\0\n\0'"#;
    let job = server.run(json).job();
    let result = server.call("read_output", json!({"job": job, "query": "n[1]"})).ok();
    assert_eq!(result["output"], "\"b\"");
    let job =
        server.run(r"printf '\203\107\203\211\201\133: \203\164\203\100\203\103\203\213\n'").job();
    let found = grep(&mut server, json!({"job": job, "grep": "エラー"}));
    assert_eq!(found["output"], "1: エラー: ファイル\n", "{found}");
    let progress = r"for i in $(seq 0 299); do printf '\rprogress %s%%' $i; done; echo";
    let job = server.run(progress).job();
    let found = grep(&mut server, json!({"job": job, "grep": "^progress 299%$"}));
    assert_eq!(found["output"], "1: progress 299%\n", "{found}");
}

#[test]
fn an_answer_says_what_was_searched_and_how_to_go_on() {
    let mut server = Launch::stdio().start();
    let job = server.run_separate("seq 1 100; seq 1 30 >&2").job();
    let said = |server: &mut TestServer, more: Value| {
        let mut arguments = json!({"job": job, "grep": "1"});
        arguments
            .as_object_mut()
            .expect("an object")
            .extend(more.as_object().expect("one").clone());
        server.call("read_output", arguments).ok().text()
    };
    let text = said(&mut server, json!({"stream": "stderr"}));
    assert!(text.starts_with("12 of 30 stderr lines match · "), "{text}");
    let text = said(
        &mut server,
        json!({"stream": "stdout", "context": 1, "invert": true, "max_lines": 2}),
    );
    let call = format!(
        "→ more: read_output(job={job}, grep=\"1\", context=1, invert=true, stream=\"stdout\", cursor="
    );
    assert!(text.contains(&call), "{text}");
    let text = said(&mut server, json!({"cursor": "bytes:99999"}));
    assert!(text.starts_with("nothing at bytes:99999: "), "{text}");
    let job = server.run("seq 1 10").job();
    let text = server.call("read_output", json!({"job": job, "grep": "1", "line": 6})).ok().text();
    assert!(text.starts_with("1 of 5 lines matches from bytes:10 on"), "{text}");
    let text = server.call("read_output", json!({"grep": "[0-9]", "max_lines": 4})).ok().text();
    let hint = text.lines().last().expect("a hint");
    assert_eq!(hint.matches("cursor=\"bytes:").count(), 2, "both jobs are cut: {hint}");
}

/// Writes a Git repository of two commits to the job's directory, and shows them.
const GIT_LOG: &str = "rm -rf repo && git init -q repo && cd repo && \
    git config user.name Dev && git config user.email dev@example.com && mkdir src && \
    printf 'import socket\\n\\nMAX_RETRIES = 5\\n' > src/net.py && git add . && \
    git commit -qm 'Add the client' && \
    printf 'import socket\\n\\nMAX_RETRIES = 50\\n' > src/net.py && echo MAX_RETRIES > README && \
    git add . && git commit -qm 'net: tune the client for slow links' && git log -p";

#[test]
fn a_match_in_a_patch_comes_with_its_commit_and_file() {
    let mut server = Launch::stdio().start();
    let folder = tempfile::tempdir().expect("a folder");
    let arguments = json!({"command": GIT_LOG, "cwd": folder.path()});
    let job = server.call("run_command", arguments).ok().job();
    let mut grep = json!({"job": job, "grep": "MAX_RETRIES"});
    let text = server.call("read_output", grep.clone()).ok().text();
    let lines: Vec<&str> = text.lines().collect();
    let head = |line: &str| line.split("- commit ").nth(1).map(|rest| rest[7..].to_owned());
    assert!(lines[0].starts_with("4 of "), "{text}");
    let tuned = " net: tune the client for slow links";
    assert_eq!(head(lines[1]), Some(format!("{tuned} (README)")), "{text}");
    assert!(lines[2].ends_with(": +MAX_RETRIES"), "{text}");
    assert_eq!(head(lines[3]), Some(format!("{tuned} (src/net.py)")), "{text}");
    assert!(lines[4].ends_with(": -MAX_RETRIES = 5"), "{text}");
    assert!(lines[5].ends_with(": +MAX_RETRIES = 50"), "{text}");
    assert_eq!(head(lines[6]), Some(" Add the client (src/net.py)".to_owned()), "{text}");
    assert!(lines[7].ends_with(": +MAX_RETRIES = 5"), "{text}");
    assert_eq!(lines.len(), 8, "{text}");
    // A search that goes on in the middle looks back for the commit.
    grep["line"] = json!(lines[5].split(':').next().and_then(|line| line.parse::<u64>().ok()));
    let text = server.call("read_output", grep.clone()).ok().text();
    let second = text.lines().nth(1).and_then(head);
    assert_eq!(second, Some(format!("{tuned} (src/net.py)")), "{text}");
    grep["context"] = json!(1);
    let text = server.call("read_output", grep).ok().text();
    assert!(!text.contains("- commit ") && text.contains("\n--\n"), "context lines alone: {text}");
}

#[test]
fn a_match_in_a_trace_or_a_test_run_comes_with_its_head() {
    let mut server = Launch::stdio().start();
    let output = "starting\nTraceback (most recent call last):\n  File \"app.py\", line 3, in load\n\
                  \x20   return parse(path)\nValueError: bad path\n\
                  ===== FAILURES =====\n____ test_loads ____\n\n    path = 7\n";
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("log"), output).expect("written");
    let job =
        server.call("run_command", json!({"command": "cat log", "cwd": folder.path()})).ok().job();
    let text = server.call("read_output", json!({"job": job, "grep": "path"})).ok().text();
    let (verdict, listing) = text.split_once('\n').expect("matches");
    assert!(verdict.starts_with("3 of 9 lines match"), "{text}");
    assert_eq!(
        listing.trim_end(),
        "2- Traceback: ValueError: bad path\n4:     return parse(path)\n\
         3- File \"app.py\", line 3, in load\n5: ValueError: bad path\n\
         7- test_loads\n9:     path = 7",
    );
}

#[test]
fn of_many_matches_that_differ_only_in_numbers_the_first_and_the_last_are_listed() {
    let mut server = Launch::stdio().structured().start();
    let job = server.run("seq -f 'WARN: shard %g is slow' 1 500; echo 'WARN: disk is full'").job();
    let found = grep(&mut server, json!({"job": job, "grep": "WARN"}));
    assert_eq!(
        found["output"],
        "1: WARN: shard 1 is slow\n2: WARN: shard 2 is slow\n3: WARN: shard 3 is slow\n\
         … 496 more like it\n500: WARN: shard 500 is slow\n501: WARN: disk is full\n"
    );
    assert_eq!((&found["matches"], &found["folded_matches"]), (&json!(501), &json!(496)));
    let hint = found["hint"].as_str().expect("the way to all of them");
    let call = format!("each of them: read_output(job={job}, grep=\"WARN\", max_lines=100)");
    assert_eq!(hint, call);
    let page = grep(&mut server, json!({"job": job, "grep": "WARN", "max_lines": 100}));
    assert_eq!(page["output"].as_str().map(|lines| lines.lines().count()), Some(100), "{page}");
}

#[test]
fn of_more_matches_than_have_room_the_first_and_the_last_are_listed() {
    let mut server = Launch::stdio().start();
    // Numbers as letters: no two lines are alike.
    let job = server.run("seq 10000 12309 | tr 0-9 a-j | sed 's/^/match of its own kind: /'").job();
    let grep = json!({"job": job, "grep": "match", "max_tokens": 700});
    let text = server.call("read_output", grep).ok().text();
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].starts_with("2,310 of 2,310 lines match"), "{text}");
    assert!(lines[1].starts_with("1: match"), "{text}");
    let gap = lines.iter().position(|line| line.starts_with('…')).expect("a gap");
    assert_eq!(lines[gap], format!("… {} more", thousands(2310 - (gap - 1) - 5)), "{text}");
    assert!(lines[gap + 5].starts_with("2310: match"), "{text}");
    let next = lines[gap + 6];
    let call = format!("→ more: read_output(job={job}, grep=\"match\", cursor=\"bytes:");
    assert!(next.starts_with(&call), "{text}");
    let cursor = next.split("cursor=\"").nth(1).and_then(|rest| rest.split('"').next());
    let more = json!({"job": job, "grep": "match", "cursor": cursor, "max_tokens": 700});
    let text = server.call("read_output", more).ok().text();
    let first = format!("{gap}: match");
    assert!(text.lines().nth(1).is_some_and(|line| line.starts_with(&first)), "{text}");
}

fn thousands(number: usize) -> String {
    match number {
        0..1000 => number.to_string(),
        _ => format!("{},{:03}", number / 1000, number % 1000),
    }
}

#[test]
fn all_jobs_are_searched_newest_first_running_ones_too() {
    let mut server = Launch::stdio().structured().start();
    let old = server.run("echo one needle; echo hay; echo two needle").job();
    server.run("echo nothing here");
    let running = server.start("echo a needle that waits; exec sleep 600");
    let until = json!({"jobs": [running], "until": "needle", "wait_s": 30});
    server.call("wait_jobs", until).ok();
    let found = grep(&mut server, json!({"grep": "needle$|waits"}));
    assert_eq!((&found["matches"], &found["matching_jobs"]), (&json!(3), &json!(2)), "{found}");
    assert_eq!(found["searched_jobs"], 3);
    let jobs = found["jobs"].as_array().expect("jobs");
    let numbers: Vec<&Value> = jobs.iter().map(|job| &job["job"]).collect();
    assert_eq!(numbers, [&json!(running), &json!(old)]);
    assert_eq!((&jobs[0]["state"], &jobs[0]["matches"]), (&json!("running"), &json!(1)));
    assert_eq!(jobs[1]["output"], "1: one needle\n3: two needle\n");
    assert_eq!((&jobs[1]["exit_code"], &jobs[1]["end"]), (&json!(0), &json!("complete")));
    for field in ["command", "outcome", "uri"] {
        assert!(jobs[1][field].is_string(), "{field}: {found}");
    }
    server.call("stop_jobs", json!({"jobs": [running]})).ok();
}

#[test]
fn jobs_share_the_room_of_a_reply_and_the_rest_is_named() {
    let mut server = Launch::stdio().start();
    server.run("echo quiet");
    for _ in 0..12 {
        server.run("seq -f 'needle %05g' 1 500");
    }
    let reply = server.call("read_output", json!({"grep": "needle", "max_bytes": 1024})).ok();
    let text = reply.text();
    assert!(text.starts_with("6,000 lines match, in 12 of 13 jobs\n"), "{text}");
    assert!(text.contains("job 13 · exit 0 · seq -f 'needle %05g' 1 500 · 500 of 500 lines match"));
    assert!(text.len() < 2048, "{} bytes: {text}", text.len());
    for line in ["1: needle 00001\n", "2: needle 00002\n"] {
        assert!(text.contains(line), "{text}");
    }
    let hint = text.lines().last().expect("a hint");
    assert!(hint.starts_with("→ ") && hint.contains(" more jobs match: "), "{hint}");
    assert!(hint.contains("2 (500)") && hint.contains("read_output(job="), "{hint}");
}

#[test]
fn a_list_can_be_narrowed_to_jobs_whose_output_matches() {
    let mut server = Launch::stdio().structured().start();
    server.run("echo alpha; echo alpha");
    server.run("echo beta");
    server.run("echo alpha # with a comment");
    let list = server.call("list_jobs", json!({"grep": "^alpha$"})).ok();
    let jobs = list.structured()["jobs"].as_array().expect("jobs").clone();
    let matches: Vec<(&Value, &Value)> =
        jobs.iter().map(|job| (&job["job"], &job["matches"])).collect();
    assert_eq!(matches, [(&json!(3), &json!(1)), (&json!(1), &json!(2))]);
    let both = server.call("list_jobs", json!({"grep": "alpha", "text": "comment"})).ok();
    assert_eq!(both.structured()["jobs"].as_array().map(Vec::len), Some(1));
    let mut server = Launch::stdio().start();
    server.run("echo alpha; echo alpha");
    let text = server.call("list_jobs", json!({"grep": "alpha"})).ok().text();
    assert!(text.contains("2 lines match"), "{text}");
}

#[test]
fn a_search_that_takes_too_long_says_how_far_it_came() {
    let hurried = Launch::stdio().config("[output]\nsearch_s = 0.001");
    let mut server = hurried.structured().start();
    let job = server.start("seq 1 3000000");
    server.wait_finished(job);
    let found = grep(&mut server, json!({"job": job, "grep": "^1$|^2999999$"}));
    assert_eq!(found["end"], "more", "{found}");
    let searched = found["searched_bytes"].as_u64().expect("bytes");
    assert!(searched > 0 && searched < found["total_bytes"].as_u64().expect("bytes"), "{found}");
    assert_eq!(found["next_cursor"], format!("bytes:{searched}"));
    assert_eq!((&found["matches"], &found["output"]), (&json!(1), &json!("1: 1\n")));
    let text = server.call("read_output", json!({"job": job, "grep": "none"})).ok();
    assert!(text.verdict().contains("time is over: searched up to "), "{}", text.verdict());
    let all = grep(&mut server, json!({"grep": "^1$"}));
    assert_eq!(all["unsearched_jobs"], 1, "{all}");
}

/// CPU time that a process has used, in ticks.
fn cpu_ticks(pid: u32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).expect("it runs");
    let after_name = stat.rsplit(')').next().expect("a name");
    let fields: Vec<&str> = after_name.split_whitespace().collect();
    [11, 12].iter().map(|index| fields[*index].parse::<u64>().expect("a number")).sum()
}

#[test]
fn a_search_ends_when_its_caller_no_longer_wants_it() {
    let patient = Launch::stdio().config("[output]\nsearch_s = 3600");
    let mut server = patient.structured().start();
    let letters = "head -c 20000000 /dev/urandom | tr '\\000-\\177' a | tr '\\200-\\377' b";
    let job = server.start(&format!("{letters} | fold -w 50000"));
    server.wait_finished(job);
    // Which of the last 300 letters were an `a` is more than any automaton can remember.
    let slow = json!({"job": job, "grep": "a[ab]{300}[^ab]"});
    let before = cpu_ticks(server.server_pid());
    let id = server.begin("read_output", slow);
    eventually("the search has begun", || cpu_ticks(server.server_pid()) > before + 20);
    server.notify("notifications/cancelled", json!({"requestId": id}));
    let (mut last, mut unchanged) = (0, 0);
    eventually("the server is idle", || {
        let now = cpu_ticks(server.server_pid());
        unchanged = if now == last { unchanged + 1 } else { 0 };
        last = now;
        unchanged == 100
    });
    server.assert_alive();
}

#[test]
fn a_query_streams_json_lines_of_any_size() {
    let patient = Launch::stdio().config("[output]\nsearch_s = 600");
    let mut server = patient.structured().start();
    let line = r#"{"n": %g, "level": "info", "pad": "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"}"#;
    let job = server.start(&format!("seq -f '{line}' 1 250000"));
    let total = server.wait_finished(job)["total_bytes"].as_u64().expect("a size");
    assert!(total > 16 << 20, "{total}: more than a query may hold");
    for (query, expected) in [
        ("[?n == `7`].n", "[7]"),
        ("[0].level", "\"info\""),
        ("[?level=='error'].msg | length(@)", "0"),
    ] {
        let result = server.call("read_output", json!({"job": job, "query": query})).ok();
        assert_eq!(result["output"], expected, "{query}");
    }
    let reply = server.call("read_output", json!({"job": job, "query": "reverse(@)"}));
    assert!(reply.error_text().contains("[?level=='error'].msg"), "{}", reply.0);
}

#[test]
fn a_query_that_takes_json_lines_for_one_value_is_told_that_they_are_an_array() {
    let mut server = Launch::stdio().structured().start();
    let job = server.run(r#"seq -f '{"i": %g}' 1 5"#).job();
    for (query, expected, is_told) in [("i", "null", true), ("[*].i", "[1,2,3,4,5]", false)] {
        let result = server.call("read_output", json!({"job": job, "query": query})).ok();
        assert_eq!(result["output"], expected, "{query}");
        let hint = result["hint"].as_str();
        assert_eq!(hint.is_some_and(|hint| hint.contains("one array")), is_told, "{hint:?}");
    }
}

#[test]
fn searches_that_cannot_be_made_say_what_would_work() {
    let mut server = Launch::stdio().structured().start();
    let job = server.run("head -c 300 /dev/zero; printf '\\377\\n'").job();
    for (arguments, code, words) in [
        (json!({"job": job, "grep": "a\\nb"}), "bad_regex", "\\n"),
        (json!({"job": job, "grep": "a{1000}{1000}"}), "bad_regex", "size limit"),
        (json!({"job": job, "query": "[*].a"}), "not_json", "binary"),
        (json!({"job": job, "query": "a", "line": 2}), "conflicting_arguments", "`line`"),
        (json!({"job": job, "query": "a", "max_lines": 2}), "conflicting_arguments", "[-10:]"),
        (json!({"job": job, "context": 2}), "conflicting_arguments", "`grep`"),
        (json!({"job": job, "invert": true}), "conflicting_arguments", "`grep`"),
        (json!({"grep": "x", "cursor": "bytes:0"}), "conflicting_arguments", "`job`"),
        (json!({"grep": "x", "query": "a"}), "conflicting_arguments", "`job`"),
        (json!({"context": 2}), "conflicting_arguments", "`grep`"),
        (json!({}), "conflicting_arguments", "list_jobs"),
        (json!({"grep": "("}), "bad_regex", "unclosed"),
    ] {
        let reply = server.call("read_output", arguments.clone());
        assert!(reply.error_text().contains(words), "{arguments}: {}", reply.0);
        assert_eq!(reply.structured()["error_code"], code, "{arguments}");
    }
    let reply = server.call("list_jobs", json!({"grep": "["}));
    assert_eq!(reply.structured()["error_code"], "bad_regex");
}
