//! Log lines of a call and of its job: the caller's trace, and one line for a job.

use serde_json::{Value, json};

use crate::harness::{Launch, eventually_some};

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

#[test]
fn lines_of_a_call_and_of_its_job_name_the_callers_trace() {
    for launch in Launch::both() {
        let args = ["--log-format", "json"];
        let mut server = launch.args(&args).config("[log]\nfilter = \"debug\"\n").start();
        let meta = json!({"traceparent": format!("00-{TRACE}-00f067aa0ba902b7-01")});
        let params =
            json!({"name": "run_command", "arguments": {"command": "true"}, "_meta": meta});
        server.rpc("tools/call", params);
        for message in ["job submitted", "job started", "job finished", "request answered"] {
            let line = eventually_some(message, || {
                let log_text = server.log_text();
                let mut lines =
                    log_text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
                lines.find(|line| line["message"] == message && line["method"] != "initialize")
            });
            assert_eq!(line["trace_id"], TRACE, "{line}");
            assert_eq!(line["span_id"].as_str().map(str::len), Some(16), "{line}");
        }
    }
}

#[test]
fn a_job_is_one_line_that_shows_its_command() {
    for launch in Launch::both() {
        let mut server = launch.args(&["--log-format", "json"]).start();
        server.call("run_command", json!({"command": "exit 3"}));
        let line = eventually_some("the job finished", || {
            let log_text = server.log_text();
            let of_job: Vec<&str> =
                log_text.lines().filter(|line| line.contains("\"job_id\"")).collect();
            (!of_job.is_empty()).then(|| of_job.join("\n"))
        });
        let line: Value = serde_json::from_str(&line).expect("one line");
        assert_eq!(line["message"], "job finished");
        assert_eq!(line["command"], "\"exit 3\"");
        assert_eq!(line["outcome"], "exited");
        assert!(line["queued_ms"].is_u64() && line["elapsed_ms"].is_u64(), "{line}");
    }
}
