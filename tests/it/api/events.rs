//! `/stream`: server-sent events that resume at any byte.

use std::io::{BufRead, BufReader};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::{ApiCaller, code};
use crate::harness::{HttpRequest, Launch, TestServer, eventually};

/// One event as a client reads it.
#[derive(Debug, Clone, Default)]
struct JobEvent {
    name: String,
    /// The whole id, with which a client comes back.
    place: String,
    /// The position in the id.
    id: Option<u64>,
    /// `true` if the id is that of the end.
    is_end: bool,
    data: Value,
}

impl JobEvent {
    /// The bytes of output, in either form.
    fn bytes(&self) -> Vec<u8> {
        match (self.data["text"].as_str(), self.data["base64"].as_str()) {
            (Some(text), None) => text.as_bytes().to_vec(),
            (None, Some(encoded)) => STANDARD.decode(encoded).expect("base64"),
            (_, _) => panic!("neither text nor bytes: {self:?}"),
        }
    }
}

fn start() -> (TestServer, [ApiCaller; 2]) {
    let mut server = Launch::http().structured().start();
    let callers = ApiCaller::both_ways(&mut server);
    (server, callers)
}

/// Reads events until one is accepted as the last.
#[track_caller]
fn read_until(
    caller: &ApiCaller,
    request: HttpRequest,
    mut is_last: impl FnMut(&JobEvent) -> bool,
) -> Vec<JobEvent> {
    let mut connection = caller.open(request);
    let mut answer = connection.answer();
    assert_eq!(answer.status, 200);
    assert_eq!(answer.header("content-type"), Some("text/event-stream"));
    let mut lines = BufReader::new(answer.body()).lines();
    let mut events = Vec::new();
    let mut event = JobEvent::default();
    loop {
        let line = lines.next().expect("an event that is the last").expect("a line");
        if let Some(name) = line.strip_prefix("event: ") {
            name.clone_into(&mut event.name);
        } else if let Some(id) = line.strip_prefix("id: ") {
            id.clone_into(&mut event.place);
            event.is_end = id.ends_with("-end");
            let position = id.split(['+', '-']).next().and_then(|digits| digits.parse().ok());
            event.id = Some(position.expect("a number"));
        } else if let Some(data) = line.strip_prefix("data: ") {
            event.data = serde_json::from_str(data).expect("JSON");
        } else if line.is_empty() && !event.name.is_empty() {
            let read = std::mem::take(&mut event);
            assert_eq!(read.is_end, read.name == "end", "{read:?}");
            events.push(read.clone());
            if is_last(&read) {
                return events;
            }
        }
    }
}

#[track_caller]
fn read_all(caller: &ApiCaller, request: HttpRequest) -> Vec<JobEvent> {
    read_until(caller, request, |event| event.name == "end")
}

fn stream(job: u64, query: &str) -> HttpRequest {
    HttpRequest::get(&format!("/api/v1/jobs/{job}/stream{query}"))
}

/// All output of these events.
fn output(events: &[JobEvent]) -> Vec<u8> {
    events.iter().filter(|event| event.name == "output").flat_map(JobEvent::bytes).collect()
}

#[test]
fn events_tell_output_and_states_as_they_come() {
    let (mut server, callers) = start();
    for caller in callers {
        let job = server.start("echo one; read line; echo two; exit 4");
        let events = read_until(&caller, stream(job, ""), |event| event.name == "output");
        assert_eq!((events[0].name.as_str(), &events[0].data["job"]), ("state", &json!(job)));
        assert_eq!(output(&events), b"one\n");
        let seen = events.last().and_then(|event| event.id).expect("a position");
        assert_eq!(seen, 4);
        let waiting = caller.clone();
        let resumed = stream(job, "?cursor=0").header("Last-Event-ID", &seen.to_string());
        let reader = std::thread::spawn(move || read_all(&waiting, resumed));
        server.call("send_input", json!({"job": job, "text": "\n"})).ok();
        let events = reader.join().expect("it ends");
        assert_eq!(output(&events), b"two\n", "{events:?}");
        let end = events.last().expect("an end");
        assert_eq!((end.id, &end.data["exit_code"]), (Some(8), &json!(4)), "{end:?}");
        assert_eq!(end.data["state"], "finished");
        let states: Vec<&Value> =
            events.iter().filter(|it| it.name == "state").map(|it| &it.data["state"]).collect();
        // A reader that connects after the end sees that state alone.
        assert_eq!(states.last(), Some(&&json!("finished")), "{states:?}");
    }
}

#[test]
fn a_stream_resumes_at_every_byte_of_every_character() {
    let (mut server, callers) = start();
    server.run("printf 'gr\\303\\274\\303\\237e \\342\\202\\254 \\360\\237\\216\\211 \\377\\376 end\\360\\237'");
    let whole = ["grüße € 🎉 ".as_bytes(), b"\xff\xfe end\xf0\x9f"].concat();
    let caller = &callers[1];
    for start in 0..=whole.len() {
        let request = stream(1, "").header("Last-Event-ID", &start.to_string());
        let events = read_all(caller, request);
        assert_eq!(output(&events), whole[start..], "from {start}: {events:?}");
        let mut at = start as u64;
        for event in events.iter().filter(|event| event.name == "output") {
            at += event.bytes().len() as u64;
            assert_eq!(event.id, Some(at), "{event:?}");
        }
        assert_eq!(events.last().and_then(|end| end.id), Some(whole.len() as u64));
    }
    let request = stream(1, "").header("Last-Event-ID", &(whole.len() + 1).to_string());
    let (status, text) = caller.send(request);
    assert!(status == 416 && text.contains("range_not_satisfiable"), "{text}");
}

#[test]
fn a_character_that_is_written_in_two_parts_is_one_text() {
    let (mut server, [caller, _]) = start();
    let job = server.start("printf '\\342'; read line; printf '\\202'; read line; printf '\\254.'");
    let reading = caller.clone();
    let reader = std::thread::spawn(move || read_all(&reading, stream(job, "")));
    for _ in 0..2 {
        std::thread::sleep(std::time::Duration::from_millis(100));
        server.call("send_input", json!({"job": job, "text": "\n", "wait_s": 0})).ok();
    }
    let events = reader.join().expect("it ends");
    let texts: String = events
        .iter()
        .filter(|event| event.name == "output")
        .map(|event| event.data["text"].as_str().unwrap_or_else(|| panic!("{event:?}")).to_owned())
        .collect();
    assert_eq!(texts, "€.");
}

#[test]
fn separate_streams_are_named_and_can_be_chosen() {
    let (mut server, [caller, _]) = start();
    let job =
        server.run_in_steps("printf out1; read _; printf err >&2; read _; printf out2", &[4, 7]);
    let events = read_all(&caller, stream(job, ""));
    let pieces: Vec<(&Value, Vec<u8>)> = events
        .iter()
        .filter(|event| event.name == "output")
        .map(|event| (&event.data["stream"], event.bytes()))
        .collect();
    let (stdout, stderr) = (json!("stdout"), json!("stderr"));
    let expected =
        [(&stdout, b"out1".to_vec()), (&stderr, b"err".to_vec()), (&stdout, b"out2".to_vec())];
    assert_eq!(pieces, expected);
    let chosen = read_all(&caller, stream(job, "?stream=stdout&cursor=2"));
    assert_eq!(output(&chosen), b"t1out2");
    assert_eq!(chosen.last().and_then(|end| end.id), Some(8), "its own bytes count");
    server.run("echo merged");
    let merged = read_all(&caller, stream(2, ""));
    assert!(merged.iter().all(|event| event.data["stream"].is_null()), "{merged:?}");
}

#[test]
fn bytes_that_were_not_kept_are_a_gap() {
    let (mut server, [caller, _]) = start();
    let arguments = json!({"command": "seq 1 2000000", "on_large_output": "truncate"});
    server.call("run_command", arguments).ok();
    let events = read_all(&caller, stream(1, ""));
    let at = events.iter().position(|event| event.name == "gap").expect("a gap");
    let gap = &events[at];
    assert_eq!(gap.data["to"].as_u64(), gap.id);
    assert_eq!(gap.data["why"], "truncated", "{gap:?}");
    assert!(output(&events).starts_with(b"1\n2\n") && output(&events).ends_with(b"\n2000000\n"));
    let total = events.last().and_then(|end| end.id).expect("an end");
    let missing =
        gap.data["to"].as_u64().expect("a number") - gap.data["from"].as_u64().expect("a number");
    assert_eq!(output(&events).len() as u64 + missing, total);
    assert_eq!(gap.data["bytes"].as_u64(), Some(missing));
    // From before, inside and after the gap, each byte comes once.
    let from = gap.data["from"].as_u64().expect("a number");
    for (start, gaps) in [(from - 5, 1), (from, 1), (from + 7, 1), (from + missing, 0)] {
        let request = stream(1, "").header("Last-Event-ID", &start.to_string());
        let events = read_all(&caller, request);
        let found: Vec<&JobEvent> = events.iter().filter(|event| event.name == "gap").collect();
        assert_eq!(found.len(), gaps, "{found:?}");
        let skipped: u64 = found.iter().filter_map(|gap| gap.data["bytes"].as_u64()).sum();
        assert_eq!(start + skipped + output(&events).len() as u64, total, "from {start}");
        assert!(output(&events).ends_with(b"\n2000000\n"));
    }
}

#[test]
fn a_browser_that_has_seen_the_end_stops_to_connect() {
    let (mut server, callers) = start();
    server.run("echo done; exit 3");
    let running = server.start("read line");
    for caller in callers {
        let resume = |job, id: &str| stream(job, "").header("Last-Event-ID", id);
        let (status, text) = caller.send(resume(1, "5-end"));
        assert_eq!((status, text.as_str()), (204, ""));
        // All output was seen, but not the end.
        let events = read_all(&caller, resume(1, "5"));
        let end = events.last().expect("an end");
        assert_eq!((end.id, &end.data["exit_code"]), (Some(5), &json!(3)));
        assert!(output(&events).is_empty(), "{events:?}");
        // Not the end of this job.
        let events = read_until(&caller, resume(running, "0-end"), |event| event.name == "state");
        assert_eq!(events[0].data["state"], "running");
    }
}

#[test]
fn without_following_the_stream_ends_with_what_is_there() {
    let (mut server, [caller, _]) = start();
    // The last byte begins a character whose rest never comes while the job runs.
    let job = server.start("printf 'now \\303'; exec sleep 600");
    server.wait_written(job, 5);
    let events = read_all(&caller, stream(job, "?follow=0"));
    assert_eq!(output(&events), b"now \xc3");
    let end = events.last().expect("an end");
    assert_eq!((end.name.as_str(), &end.data["state"]), ("end", &json!("running")));
    // A browser that wants no more stops; a client that follows gets the rest.
    let (status, _) = caller.send(stream(job, "?follow=0").header("Last-Event-ID", &end.place));
    assert_eq!(status, 204);
    let request = stream(job, "").header("Last-Event-ID", &end.place);
    let rest = read_until(&caller, request, |event| event.name == "state");
    assert_eq!(rest.last().map(|state| state.id), Some(Some(5)));
}

/// The number of bytes that these events tell as lost before they got positions.
fn lost(events: &[JobEvent]) -> u64 {
    let gaps = events.iter().filter(|event| event.name == "gap");
    let losses = gaps.filter(|gap| gap.data["from"] == gap.data["to"]);
    losses.map(|gap| gap.data["bytes"].as_u64().expect("a number")).sum()
}

#[test]
fn lost_bytes_are_told_at_once_and_once_also_to_a_client_that_comes_back() {
    let config = "[output]\nmax_store = \"300 KiB\"\n";
    let mut server = Launch::http().structured().config(config).start();
    let [caller, _] = ApiCaller::both_ways(&mut server);
    let job = server.start("while read n; do head -c $n /dev/zero | tr '\\0' x; done");
    let mut written = 0;
    let mut write = |server: &mut TestServer, bytes: u64| {
        let text = format!("{bytes}\n");
        server.call("send_input", json!({"job": job, "text": text, "wait_s": 0})).ok();
        written += bytes;
        eventually("all was kept or dropped", || {
            let (_, state) = caller.get(&format!("/jobs/{job}"));
            let count = |name: &str| state[name].as_u64().unwrap_or_default();
            count("total_bytes") + count("dropped_bytes") == written
        });
        written
    };
    // Halves fill the store to its last byte, so that all of the last write is lost.
    write(&mut server, 600_000);
    for power in (0..16).rev() {
        write(&mut server, 1 << power);
    }
    let all = write(&mut server, 1000);
    let events = read_all(&caller, stream(job, "?follow=0"));
    assert_eq!(output(&events).len() as u64 + lost(&events), all, "the last loss is told");
    let [.., gap, _] = events.as_slice() else { panic!("{events:?}") };
    assert_eq!((gap.name.as_str(), &gap.data["why"]), ("gap", &json!("store_full")), "{gap:?}");
    assert!(gap.data["bytes"].as_u64() >= Some(1000), "{gap:?}");

    let resume = |query: &str| stream(job, query).header("Last-Event-ID", &gap.place);
    let known = read_all(&caller, resume("?follow=0"));
    assert!(known.iter().all(|event| event.name != "gap"), "told twice: {known:?}");

    // A follower learns of a loss although no byte follows.
    let request = resume("");
    let following = caller.clone();
    let follower =
        std::thread::spawn(move || read_until(&following, request, |event| event.name == "gap"));
    write(&mut server, 700);
    let told = follower.join().expect("a gap");
    assert_eq!((lost(&told), output(&told).len()), (700, 0), "{told:?}");
}

#[test]
fn a_bad_place_is_refused() {
    let (mut server, [caller, _]) = start();
    server.run("true");
    for bad in ["?cursor=x", "?tail=1&cursor=1", "?stream=both", "?follow=x"] {
        let (status, refused) = caller.get(&format!("/jobs/1/stream{bad}"));
        assert_eq!((status, code(&refused)), (400, "bad_query"), "{bad}");
    }
    let (status, _) = caller.send(stream(1, "").header("Last-Event-ID", "x"));
    assert_eq!(status, 400);
    assert_eq!(caller.get("/jobs/9/stream").0, 404);
}
