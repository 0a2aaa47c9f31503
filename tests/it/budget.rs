//! No reply takes more of its reader's context than its budget, or has more than 1,900 lines,
//! whatever a job wrote.

use serde_json::{Value, json};

use crate::harness::{Launch, Reply, TestServer};

/// The bytes of 8,000 tokens, at 2.5 bytes each: the budget of a reply with a structured form.
const DEFAULT_BYTES: usize = 20_000;

/// Commands that write much of what is hard to keep short.
const FLOODS: [(&str, &str); 11] = [
    ("random bytes", "head -c 200000 /dev/urandom"),
    ("one endless line", "head -c 300000 /dev/zero | tr '\\0' x"),
    ("base64", "head -c 100000 /dev/urandom | base64 -w 0"),
    ("chinese", "for i in $(seq 3000); do printf '错误：找不到文件%s\\n' $i; done"),
    ("colours", "for i in $(seq 5000); do printf '\\033[31m%s\\033[0m\\n' $i; done"),
    (
        "control characters",
        "for i in $(seq 3000); do printf '\\001\\002\\007 \\037 %s\\n' $i; done",
    ),
    ("NULs", "seq 1 20000 | tr '\\n' '\\0'"),
    ("emoji", "for i in $(seq 3000); do printf '👩‍👩‍👧‍👦 %s\\n' $i; done"),
    ("quotes", "for i in $(seq 5000); do printf '\"\\\\\"\\\\\\t\\r\\n'; done"),
    ("surrogates", "for i in $(seq 5000); do printf '\\355\\240\\200 text %s\\n' $i; done"),
    (
        "errors",
        "for i in $(seq 5000); do echo \"error: \\\"$i\\\" 错误错误错误错误错误错误错误错误\"; done",
    ),
];

#[track_caller]
fn check(reply: &Reply, bytes: usize, what: &str) {
    let text = reply.text().len();
    assert!(text <= bytes, "{text} bytes of text, {bytes} at most: {what}");
    let structured = &reply.0["result"]["structuredContent"];
    let json = if structured.is_null() { 0 } else { structured.to_string().len() };
    assert!(json <= bytes, "{json} bytes of JSON, {bytes} at most: {what}");
}

/// All text pages of a job lie one behind the other, each within the budget.
#[track_caller]
fn check_pages(server: &mut TestServer, job: u64, view: &str, total: u64) {
    let mut cursor = "bytes:0".to_owned();
    let mut at = 0;
    // A page of a view that takes many characters for a byte is small: some are enough.
    for _ in 0..12 {
        let arguments = json!({"job": job, "cursor": cursor, "view": view});
        let page = server.call("read_output", arguments).ok();
        check(&page, DEFAULT_BYTES, view);
        assert_eq!(page["bytes_start"], at, "{view}");
        at = page["bytes_end"].as_u64().expect("an end");
        match page["next_cursor"].as_str() {
            Some(next) => next.clone_into(&mut cursor),
            None => return assert_eq!(at, total, "{view}"),
        }
        assert_eq!(cursor, format!("bytes:{at}"));
    }
}

#[test]
fn no_flood_is_answered_with_one_in_text_form() {
    let mut server = Launch::stdio().start();
    for (what, command) in FLOODS {
        let reply = server.run(command);
        check(&reply, DEFAULT_BYTES, what);
        let job = reply.job();
        for view in ["next", "head", "tail", "raw", "hexdump", "base64", "text"] {
            let arguments = json!({"job": job, "view": view, "max_bytes": 1 << 20});
            check(&server.call("read_output", arguments).ok(), DEFAULT_BYTES, what);
        }
        let arguments = json!({"job": job, "grep": ".", "max_bytes": 1 << 20, "context": 3});
        check(&server.call("read_output", arguments).ok(), DEFAULT_BYTES, what);
        let small = json!({"jobs": [job], "max_tokens": 500});
        check(&server.call("wait_jobs", small).ok(), 1250, what);
        let small = json!({"job": job, "max_tokens": 500});
        check(&server.call("read_output", small).ok(), 1250, what);
    }
}

#[test]
fn no_flood_is_answered_with_one_in_structured_form_and_each_byte_can_be_had() {
    let mut server = Launch::stdio().args(&["--result-format", "both"]).start();
    for (what, command) in FLOODS {
        let reply = server.run(command);
        check(&reply, DEFAULT_BYTES, what);
        let (job, total) = (reply.job(), reply["total_bytes"].as_u64().expect("a total"));
        for view in ["next", "raw", "hexdump"] {
            check_pages(&mut server, job, view, total);
        }
        let grep = json!({"job": job, "grep": "."});
        check(&server.call("read_output", grep).ok(), DEFAULT_BYTES, what);
        let small = json!({"jobs": [job], "max_tokens": 500});
        check(&server.call("wait_jobs", small).ok(), 1250, what);
    }
}

#[test]
fn a_program_gets_the_page_that_it_asks_for_and_no_more_than_the_tokens_it_names() {
    let mut server = Launch::stdio().structured().start();
    let job = server.run("seq 1 200000").job();
    let asked = json!({"job": job, "max_bytes": 1_000_000});
    let page = server.call("read_output", asked).ok();
    assert!(page["bytes_end"].as_u64() > Some(990_000), "{}", page["bytes_end"]);
    let named = json!({"job": job, "max_bytes": 1_000_000, "max_tokens": 1000});
    let page = server.call("read_output", named).ok();
    check(&page, 2500, "max_tokens wins");
    assert!(page["bytes_end"].as_u64() > Some(1000), "and is used: {}", page["bytes_end"]);
}

#[test]
fn a_call_and_the_configuration_set_the_budget() {
    let mut server = Launch::stdio().config("[mcp]\nmax_tokens = 600\n").start();
    let command = "seq -f '%.0f of a hundred thousand lines' 1 100000";
    let reply = server.run(command);
    check(&reply, 1500, "as configured");
    assert!(reply.text().contains("→ whole log: "), "{}", reply.text());
    let more = server.call("run_command", json!({"command": command, "max_tokens": 20_000})).ok();
    check(&more, 50_000, "as asked");
    assert!(more.text().len() > 30_000, "what is asked for is used: {}", more.text().len());
    let refused = server.call("run_command", json!({"command": command, "max_tokens": 7}));
    assert!(refused.error_text().contains("from 500 to 400000"), "{}", refused.error_text());
}

#[test]
fn tools_that_take_a_budget_name_their_largest_result() {
    const KEY: &str = "anthropic/maxResultSizeChars";
    let listed = Launch::stdio().start().rpc("tools/list", json!({}));
    let tools = listed["result"]["tools"].as_array().expect("tools");
    let named = tools.iter().filter(|tool| tool["_meta"][KEY] == 500_000);
    let named: Vec<&str> = named.filter_map(|tool| tool["name"].as_str()).collect();
    assert_eq!(named, ["run_command", "wait_jobs", "read_output"]);
}

#[test]
fn many_jobs_share_one_budget_and_what_has_no_room_is_named() {
    let mut server = Launch::stdio().args(&["--result-format", "both"]).start();
    let note = "x".repeat(3000);
    // They write only once all have started, so that no reply shows anything before.
    let gate = "while [ ! -e gate ]; do sleep 0.05; done";
    let small = server.start(&format!("{gate}; echo a small output"));
    let jobs: Vec<u64> =
        (0..60).map(|_| server.start(&format!("{gate}; seq 1 2000 # {note}"))).collect();
    std::fs::write(server.work().join("gate"), "").expect("the gate opens");
    let few: Vec<u64> = jobs[..3].iter().copied().chain([small]).collect();
    let reply = server.call("wait_jobs", json!({"jobs": few, "mode": "all", "wait_s": 45})).ok();
    check(&reply, DEFAULT_BYTES, "a few jobs");
    let shown = reply["jobs"].as_array().expect("a list").clone();
    assert_eq!(shown[3]["output"], "a small output\n", "a small one is shown whole");
    for job in &shown[..3] {
        assert!(job["tail"].as_str().is_some_and(|tail| tail.ends_with("2000\n")), "{job}");
    }
    let reply = server.call("wait_jobs", json!({"jobs": jobs, "mode": "all", "wait_s": 45})).ok();
    check(&reply, DEFAULT_BYTES, "many jobs");
    assert!(reply.text().contains("no room for the output of jobs"), "{}", reply.text());
    for (limit, name) in [(200, "list_jobs"), (10, "list_jobs")] {
        check(&server.call(name, json!({"limit": limit})).ok(), DEFAULT_BYTES, name);
    }
    let listed = server.call("list_jobs", json!({"limit": 200})).ok();
    assert!(listed.text().contains("no room for more"), "{}", listed.text());
    assert!(listed.verdict().contains("showing the newest"), "{}", listed.verdict());
    check(&server.call("stop_jobs", json!({"jobs": jobs})).ok(), DEFAULT_BYTES, "stop_jobs");
}

#[test]
fn errors_and_echoes_keep_the_budget() {
    let mut server = Launch::stdio().args(&["--result-format", "both"]).start();
    let long = "\u{1}\"long".repeat(20_000);
    let marker: Vec<Reply> = [
        ("run_command", json!({"command": long.clone(), "args": ["x"], "max_tokens": 500})),
        ("run_command", json!({"command": "true", "cwd": long.clone(), "max_tokens": 500})),
        ("run_command", json!({"command": "true", "lane": long.clone(), "max_tokens": 500})),
        ("read_output", json!({"job": 1, "cursor": long.clone(), "max_tokens": 500})),
        ("read_output", json!({"uri": long.clone(), "max_tokens": 500})),
        ("read_output", json!({"job": 1, "grep": format!("({long}"), "max_tokens": 500})),
        ("wait_jobs", json!({"jobs": (1000..3000).collect::<Vec<u64>>(), "max_tokens": 500})),
        ("wait_jobs", json!({"jobs": [1], "until": format!("({long}"), "max_tokens": 500})),
    ]
    .into_iter()
    .map(|(tool, arguments): (&str, Value)| server.call(tool, arguments))
    .collect();
    for reply in &marker {
        check(reply, 1250, &reply.text().chars().take(200).collect::<String>());
    }
    server.assert_alive();
}

/// The most lines of a reply.
const MAX_LINES: usize = 1900;

/// The largest budget, in which the lines are the limit.
fn with_budget(mut arguments: Value) -> Value {
    arguments["max_tokens"] = 400_000.into();
    arguments
}

#[track_caller]
fn check_lines(reply: &Reply, least: usize, what: &str) {
    let lines = reply.text().lines().count();
    assert!((least..=MAX_LINES).contains(&lines), "{lines} lines: {what}");
}

#[test]
fn no_reply_has_more_lines_than_clients_show() {
    for launch in Launch::both() {
        let mut server = launch.start();
        let command = "for i in $(seq 1 50000); do echo \"[$i]\"; done";
        let run = server.call("run_command", with_budget(json!({"command": command}))).ok();
        check_lines(&run, MAX_LINES - 100, "run_command");
        assert!(run.text().ends_with("\n[50000]") || run.text().contains("\n[50000]\n→ "), "tail");
        assert!(run.text().contains("→ whole log: "), "the cut is named");
        let job = run.job();
        for (what, least, options) in [
            ("a page", MAX_LINES - 100, json!({})),
            ("the tail", MAX_LINES - 100, json!({"view": "tail"})),
            ("more lines than that", MAX_LINES - 100, json!({"max_lines": 5000})),
            ("fewer lines", 100, json!({"max_lines": 100})),
            ("a hexdump", MAX_LINES - 200, json!({"view": "hexdump"})),
            ("matches", MAX_LINES - 100, json!({"grep": "."})),
            ("some matches", 900, json!({"grep": "[05]]"})),
            ("matches with context", MAX_LINES - 100, json!({"grep": "[05]]", "context": 1})),
        ] {
            let mut arguments = with_budget(json!({"job": job, "max_bytes": 1 << 20}));
            for (name, value) in options.as_object().into_iter().flatten() {
                arguments[name] = value.clone();
            }
            check_lines(&server.call("read_output", arguments).ok(), least, what);
        }
        let everywhere = with_budget(json!({"grep": ".", "max_bytes": 1 << 20}));
        check_lines(&server.call("read_output", everywhere).ok(), MAX_LINES - 100, "all jobs");
        let whole = server.call("run_command", with_budget(json!({"command": "seq 1 1800"}))).ok();
        check_lines(&whole, 1801, "what fits is shown whole");
        let gated = |text: &str| format!("while [ ! -e gate ]; do sleep 0.05; done; {text}");
        let many = server.start(&gated(command));
        let few = server.start(&gated("seq 1 1800"));
        std::fs::write(server.work().join("gate"), "").expect("the gate opens");
        let jobs = json!({"jobs": [many, few, few + 1], "mode": "all"});
        check_lines(
            &server.call("wait_jobs", with_budget(jobs)).ok(),
            MAX_LINES - 200,
            "wait_jobs",
        );
        let many: Vec<u64> = (job..job + 3000).collect();
        let many = server.call("wait_jobs", with_budget(json!({"jobs": many, "mode": "all"}))).ok();
        check_lines(&many, MAX_LINES - 10, "many jobs");
        assert!(many.text().contains("lines cut: a reply has at most 1,900"), "the cut is named");
    }
}

#[test]
fn a_page_of_equal_lines_counts_as_the_lines_that_it_shows() {
    let mut server = Launch::stdio().start();
    let job = server.run("yes same | head -n 50000").job();
    let page = server.call("read_output", with_budget(json!({"job": job, "max_bytes": 1 << 20})));
    assert!(page.ok().text().contains("same (×50,000)"), "nothing is cut");
}

#[test]
fn pages_cut_by_lines_show_every_line_once() {
    let mut server = Launch::stdio().args(&["--result-format", "both"]).start();
    let job = server.run("seq 1 10000").job();
    let mut cursor = "bytes:0".to_owned();
    let mut all = String::new();
    for _ in 0..10 {
        let arguments = json!({"job": job, "cursor": cursor, "max_bytes": 1 << 20});
        let page = server.call("read_output", with_budget(arguments)).ok();
        check_lines(&page, 100, "a page");
        all.push_str(page["output"].as_str().expect("output"));
        match page["next_cursor"].as_str() {
            Some(next) => next.clone_into(&mut cursor),
            None => break,
        }
    }
    let expected: String = (1..=10_000).map(|number| format!("{number}\n")).collect();
    assert!(all == expected, "{} lines", all.lines().count());
}
