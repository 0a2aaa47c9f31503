//! JSON arguments of every tool, sent to the real program.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Mutex;

use serde_json::{Value, json};
use tempfile::TempDir;

use super::mutation::{Plan, Seeds};

/// Only `true` may run, so that no input does anything; waits are short.
const CONFIG: &str = "[policy]\nallow = [\"true\"]\n[mcp]\nwait_s = 1\nmax_wait_s = 1\n\
                      dialects = [\"native\", \"execute\", \"run_shell_command\", \"shell_exec\"]\n";

/// A stdio server and its two pipes.
#[derive(Debug)]
struct FuzzedServer {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    next_id: u64,
    _dir: TempDir,
}

impl FuzzedServer {
    fn start() -> Self {
        let dir = TempDir::new().expect("a temporary directory");
        let config = dir.path().join("config.toml");
        std::fs::write(&config, CONFIG).expect("a file of ours");
        let mut command = Command::new(env!("CARGO_BIN_EXE_shellyard"));
        command.arg("stdio").arg("--config").arg(config);
        command.env_clear().env("HOME", dir.path()).env("PATH", "/usr/bin:/bin");
        command.current_dir(dir.path()).stderr(Stdio::null());
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("the program starts");
        let input = child.stdin.take().expect("it was piped");
        let output = BufReader::new(child.stdout.take().expect("it was piped"));
        Self { child, input, output, next_id: 0, _dir: dir }
    }

    /// Calls a tool and returns the answer with the id of the call.
    fn call(&mut self, mut params: Value) -> Value {
        self.next_id += 1;
        let id = self.next_id;
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": {"name": "fuzz", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {},
        });
        let message = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params});
        writeln!(self.input, "{message}").expect("the server reads");
        loop {
            let mut line = String::new();
            let length = self.output.read_line(&mut line).expect("the server writes text");
            assert!(length > 0, "the server ended at {message}");
            let answer: Value = serde_json::from_str(&line).expect("JSON on stdout");
            if answer["id"] == id && answer.get("method").is_none() {
                return answer;
            }
        }
    }
}

impl Drop for FuzzedServer {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// Sends arguments if they are JSON with a tool's name; `true` if they were sent.
fn check(bytes: &[u8], server: &Mutex<FuzzedServer>) -> bool {
    let Ok(params) = serde_json::from_slice::<Value>(bytes) else { return false };
    if !params.is_object() || !params["name"].is_string() {
        return false;
    }
    let answer = server.lock().expect("no call panics while it is held").call(params.clone());
    let has_answer = answer["result"].is_object() || answer["error"].is_object();
    assert!(has_answer, "{params}: {answer}");
    let text = answer.to_string();
    assert!(!text.contains("failed inside the server"), "{params}: {answer}");
    true
}

/// Changes the text of the seed, or one value in it.
fn input(seeds: &Seeds, plan: &mut Plan<'_>) -> Vec<u8> {
    if plan.byte().is_multiple_of(4) {
        return seeds.mutate(plan);
    }
    let count = seeds.iter().count();
    let seed = seeds.iter().nth(plan.below(count)).unwrap_or_default();
    let mut params: Value = serde_json::from_slice(seed).expect("a seed is JSON");
    let Some(fields) = params["arguments"].as_object_mut() else { return seed.to_vec() };
    let values = [
        json!(null),
        json!(-1),
        json!(0),
        json!(u64::MAX),
        json!(1.5e300),
        json!(true),
        json!(""),
        json!("7"),
        json!("x".repeat(plan.below(3_000))),
        json!("\u{0}\u{1b}\u{202e}"),
        json!([]),
        json!([1, "2", null]),
        json!({}),
        json!({"a": {"b": [[[]]]}}),
    ];
    for _ in 0..=plan.byte() % 3 {
        let value = values[plan.below(values.len())].clone();
        let name = fields.keys().nth(plan.below(fields.len())).cloned();
        fields.insert(name.unwrap_or_else(|| "job".to_owned()), value);
    }
    params.to_string().into_bytes()
}

#[test]
fn any_arguments_get_one_answer() {
    let server = Mutex::new(FuzzedServer::start());
    let seeds = Seeds::load("arguments");
    for seed in seeds.iter() {
        assert!(check(seed, &server), "a seed is a call");
    }
    bolero::check!().with_iterations(1_000).for_each(|plan: &[u8]| {
        check(&input(&seeds, &mut Plan::new(plan)), &server);
    });
    let after = server
        .lock()
        .expect("no call panics while it is held")
        .call(json!({"name": "run_command", "arguments": {"command": "true"}}));
    assert_eq!(after["result"]["isError"], json!(false), "{after}");
}
