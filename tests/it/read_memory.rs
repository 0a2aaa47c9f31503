//! Queries and searches take bounded memory together, wait for it, and give it back.

use std::fs;

use serde_json::{Value, json};

use crate::harness::{
    HttpConnection, Launch, Reply, TestServer, eventually, peak_rss_kib, rss_kib,
};

/// The bound on all that the server holds while many queries on large JSON run side by side.
const MOST_KIB: u64 = 300_000_000 / 1024;

/// Waits are bounded by the harness alone: a slow machine must not make a call give up.
const PATIENT: &str = "[mcp]\nmax_wait_s = 600\n[output]\nsearch_s = 500\n";

/// Twelve expressions of different kinds, and the beginning of what they give.
const QUERIES: [(&str, &str); 12] = [
    ("length(@)", "74000"),
    ("[0].name", "\"item 1\""),
    ("[-1].id", "74000"),
    ("[?id == `77`].name", "[\"item 77\"]"),
    ("[*].id | [:3]", "[1,2,3]"),
    ("[].tags[] | length(@)", "148000"),
    ("max_by(@, &id).name", "\"item 74000\""),
    ("sort_by(@, &name)[0].id", "1"),
    ("reverse(@)[0].id", "74000"),
    ("[*].{id: id, name: name} | [1]", "{\"id\":2,\"name\":\"item 2\"}"),
    ("sum([*].in.k)", "74000"),
    ("[?id < `1000`]", "[{\"id\":1,"),
];

/// A job whose output is one JSON array of so many objects of about 210 bytes.
fn json_job(server: &mut TestServer, items: u32) -> u64 {
    let pad = "x".repeat(130);
    let item = |id| {
        format!(
            r#"{{"id":{id},"name":"item {id}","ok":true,"tags":["a","b"],"in":{{"k":1}},"pad":"{pad}"}}"#
        )
    };
    let items: Vec<String> = (1..=items).map(item).collect();
    let file = server.work().join("items.json");
    fs::write(&file, format!("[{}]", items.join(","))).expect("a file");
    let job = server.start(&format!("cat {}", file.display()));
    server.wait_finished(job);
    job
}

/// Sends calls without waiting for an answer, and then reads all answers.
fn call_side_by_side(server: &mut TestServer, calls: &[Value], is_http: bool) -> Vec<Reply> {
    if !is_http {
        let ids: Vec<u64> =
            calls.iter().map(|call| server.begin("read_output", call.clone())).collect();
        return ids.into_iter().map(|id| server.finish(id)).collect();
    }
    let mut connections: Vec<HttpConnection> = Vec::new();
    for call in calls {
        let id = server.fresh_id();
        let params = json!({"name": "read_output", "arguments": call});
        let message = server.http().era().request(id, "tools/call", params);
        connections.push(server.http().post(&message));
    }
    let answer = |connection: &mut HttpConnection| {
        let mut answer = connection.answer();
        loop {
            let message = answer.message().expect("an answer");
            if message.get("method").is_none() {
                return Reply(message);
            }
        }
    };
    connections.iter_mut().map(answer).collect()
}

fn twelve_queries_stay_small(launch: Launch, is_http: bool) {
    let mut server = launch.structured().config(PATIENT).start();
    let job = json_job(&mut server, 74_000);
    let size = server.read_raw(job, "bytes:0", 1)["total_bytes"].as_u64().expect("a size");
    assert!((15_500_000..16_000_000).contains(&size), "{size} bytes");
    let before = rss_kib(server.server_pid());
    let calls = QUERIES.map(|(query, _)| json!({"job": job, "query": query, "max_bytes": 1000}));
    let replies = call_side_by_side(&mut server, &calls, is_http);
    for (reply, (query, expected)) in replies.into_iter().zip(QUERIES) {
        let output = reply.ok()["output"].as_str().expect("a result").to_owned();
        assert!(output.starts_with(expected), "{query}: {output}");
    }
    let peak = peak_rss_kib(server.server_pid());
    assert!(peak < MOST_KIB, "a peak of {peak} KiB");
    eventually("most of the memory goes back to the system", || {
        rss_kib(server.server_pid()).saturating_sub(before) < peak.saturating_sub(before) / 2
    });
}

#[test]
fn twelve_queries_side_by_side_over_stdio_stay_small() {
    twelve_queries_stay_small(Launch::stdio(), false);
}

#[test]
fn twelve_queries_side_by_side_over_http_stay_small() {
    twelve_queries_stay_small(Launch::http(), true);
}

fn memory_of_large_pages_goes_back(launch: Launch, is_http: bool) {
    const PAGE: usize = 1 << 19;
    let mut server = launch.structured().config(PATIENT).start();
    let job = json_job(&mut server, 74_000);
    let page = json!({
        "job": job, "view": "hexdump", "max_bytes": PAGE, "max_tokens": 400_000
    });
    let before = rss_kib(server.server_pid());
    for _ in 0..2 {
        let calls = vec![page.clone(); 12];
        for reply in call_side_by_side(&mut server, &calls, is_http) {
            let output = reply.ok()["output"].as_str().expect("a page").len();
            assert!(output > PAGE / 2, "{output} bytes");
        }
        let peak = peak_rss_kib(server.server_pid());
        eventually("the memory of pages and replies goes back to the system", || {
            rss_kib(server.server_pid()).saturating_sub(before) < peak.saturating_sub(before) / 3
        });
    }
}

#[test]
fn memory_of_large_pages_over_stdio_goes_back_to_the_system() {
    memory_of_large_pages_goes_back(Launch::stdio(), false);
}

#[test]
fn memory_of_large_pages_over_http_goes_back_to_the_system() {
    memory_of_large_pages_goes_back(Launch::http(), true);
}

#[test]
fn hundreds_of_queries_are_all_answered_and_memory_is_given_back() {
    // A call can wait for nothing beside its own search.
    let config =
        "[mcp]\nwait_s = 5\nmax_wait_s = 5\n[output]\nsearch_s = 500\nread_memory = \"32 MiB\"\n";
    let mut server = Launch::http().structured().config(config).start();
    let job = json_job(&mut server, 8000);
    assert_eq!(server.metric("shellyard_read_memory_limit_bytes"), f64::from(32 << 20));
    let calls = vec![json!({"job": job, "query": "length(@)"}); 200];
    let (mut given, mut refused) = (0, 0);
    for reply in call_side_by_side(&mut server, &calls, true) {
        if reply.is_error() {
            assert_eq!(reply["error_code"], "memory_busy", "{}", reply.text());
            assert!(reply["retry_after_ms"].as_u64().is_some_and(|after| after > 0));
            assert!(reply.text().contains("try again"), "{}", reply.text());
            refused += 1;
        } else {
            assert_eq!(reply["output"], "8000");
            given += 1;
        }
    }
    assert!(given > 0 && refused > 0, "{given} results, {refused} refusals");
    assert_eq!(server.metric("shellyard_reads_refused_total"), f64::from(refused));
    eventually("all memory is free again", || server.metric("shellyard_read_memory_bytes") == 0.0);
    let reply = server.call("read_output", json!({"job": job, "query": "length(@)"})).ok();
    assert_eq!(reply["output"], "8000");
}

/// Sends so many queries without waiting for an answer: over stdio on one connection, over HTTP on
/// as many as one address may have, several requests on each.
fn pipeline(server: &mut TestServer, job: u64, queries: usize, is_http: bool) -> Vec<Reply> {
    const PER_CONNECTION: usize = 20;
    let call = json!({"job": job, "query": "length(@)"});
    if !is_http {
        return call_side_by_side(server, &vec![call; queries], false);
    }
    let mut connections: Vec<HttpConnection> = Vec::new();
    for _ in 0..queries / PER_CONNECTION {
        let mut connection = HttpConnection::open(server.http().address());
        for _ in 0..PER_CONNECTION {
            let id = server.fresh_id();
            let params = json!({"name": "read_output", "arguments": call});
            let message = server.http().era().request(id, "tools/call", params);
            connection.send(&server.http().request(&message));
        }
        connections.push(connection);
    }
    let replies = connections.iter_mut().flat_map(|connection| {
        (0..PER_CONNECTION).map(|_| reply_on(connection)).collect::<Vec<Reply>>()
    });
    replies.collect()
}

/// The next reply on a connection, with nothing left of it.
fn reply_on(connection: &mut HttpConnection) -> Reply {
    let mut answer = connection.answer();
    let mut reply = None;
    while let Some(message) = answer.message() {
        if message.get("method").is_none() {
            reply = Some(Reply(message));
        }
    }
    reply.expect("a reply")
}

fn a_thousand_queries_are_bounded(launch: Launch, is_http: bool) {
    const READ_MEMORY_KIB: u64 = 16 * 1024;
    let config = format!("{PATIENT}read_memory = \"16 MiB\"\n");
    let mut server = launch.structured().config(&config).start();
    let job = json_job(&mut server, 1000);
    let before = rss_kib(server.server_pid());
    let replies = pipeline(&mut server, job, 1000, is_http);
    assert_eq!(replies.len(), 1000);
    let mut given = 0;
    for reply in replies {
        if let Some(refused) = reply.0["error"]["message"].as_str() {
            // A connection has a limited number of requests in progress.
            assert!(refused.contains("requests are in progress"), "{refused}");
        } else if reply.is_error() {
            assert_eq!(reply["error_code"], "memory_busy", "{}", reply.text());
        } else {
            assert_eq!(reply["output"], "1000");
            given += 1;
        }
    }
    assert!(given > 0, "nobody has an answer");
    // Beside the queries, a thousand requests and their replies are held.
    let growth = peak_rss_kib(server.server_pid()).saturating_sub(before);
    assert!(growth < 4 * READ_MEMORY_KIB, "{growth} KiB more");
}

#[test]
fn a_thousand_queries_on_one_connection_are_all_answered_in_bounded_memory() {
    a_thousand_queries_are_bounded(Launch::stdio(), false);
}

#[test]
fn a_thousand_queries_over_http_are_all_answered_in_bounded_memory() {
    a_thousand_queries_are_bounded(Launch::http(), true);
}

#[test]
fn queries_wait_for_each_other_where_they_can() {
    let config = format!("{PATIENT}read_memory = \"16 MiB\"\n");
    let mut server = Launch::stdio().structured().config(&config).start();
    let job = json_job(&mut server, 4000);
    let calls = vec![json!({"job": job, "query": "length(@)"}); 100];
    for reply in call_side_by_side(&mut server, &calls, false) {
        assert_eq!(reply.ok()["output"], "4000");
    }
}

#[test]
fn the_gauge_tells_what_is_reserved_while_a_search_runs() {
    let config = "[output]\nsearch_s = 30\n";
    let mut server = Launch::http().structured().config(config).start();
    let letters = "head -c 20000000 /dev/urandom | tr '\\000-\\177' a | tr '\\200-\\377' b";
    let job = server.start(&format!("{letters} | fold -w 50000"));
    server.wait_finished(job);
    assert_eq!(server.metric("shellyard_read_memory_bytes"), 0.0);
    // More than any automaton can remember: the search goes on until its time is over.
    let slow = json!({"name": "read_output", "arguments": {"job": job, "grep": "a[ab]{300}[^ab]"}});
    let id = server.fresh_id();
    let message = server.http().era().request(id, "tools/call", slow);
    let mut searching = server.http().post(&message);
    eventually("memory is reserved", || server.metric("shellyard_read_memory_bytes") > 0.0);
    assert_eq!(searching.answer().status, 200);
    eventually("it is free again", || server.metric("shellyard_read_memory_bytes") == 0.0);
}

#[test]
fn a_query_that_needs_too_much_memory_says_what_to_do() {
    let mut server =
        Launch::stdio().structured().config("[output]\nread_memory = \"2 MiB\"\n").start();
    let job = json_job(&mut server, 8000);
    let reply = server.call("read_output", json!({"job": job, "query": "[*].name"}));
    assert_eq!(reply["error_code"], "too_large", "{}", reply.text());
    assert!(reply.text().contains("grep") && reply.text().contains("jq"), "{}", reply.text());
    let found = server.call("read_output", json!({"job": job, "grep": "item 7999\""})).ok();
    assert_eq!(found["matches"], 1);
}
