//! The examples of `AGENTS.md`.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::harness::{Launch, TestServer};

/// A spill URI as an example writes it.
const ANY_URI: &str = "mcp://tmp/exec-….out";

/// An example: the tool and its arguments.
#[derive(Debug)]
struct Example {
    tool: String,
    arguments: Value,
}

/// The examples of the file, in its order.
fn examples() -> Vec<Example> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("AGENTS.md");
    let text = fs::read_to_string(path).expect("AGENTS.md is there");
    let blocks = text.split("```jsonc\n").skip(1).filter_map(|rest| rest.split("```").next());
    blocks.flat_map(str::lines).map(parse_example).collect()
}

#[track_caller]
fn parse_example(line: &str) -> Example {
    let (tool, rest) = line.split_once(' ').expect("a tool and its arguments");
    let mut values = serde_json::Deserializer::from_str(rest).into_iter::<Value>();
    let arguments = values.next().expect("arguments").expect("arguments are JSON");
    let comment = rest[values.byte_offset()..].trim();
    assert!(comment.is_empty() || comment.starts_with("//"), "{line}");
    Example { tool: tool.to_owned(), arguments }
}

/// The parts of earlier replies that later examples send.
#[derive(Debug, Default)]
struct Returned {
    next_cursor: Option<String>,
    spill_uri: Option<String>,
}

impl Returned {
    /// Checks that a cursor of an example is the one that the reply before it returned, and puts
    /// the real URI in the place of the example's.
    fn fill_in(&self, arguments: &mut Value) {
        let cursor = arguments["cursor"].as_str().or(arguments["page"]["cursor"].as_str());
        assert!(cursor.is_none_or(|cursor| Some(cursor) == self.next_cursor.as_deref()));
        if arguments["uri"] == ANY_URI {
            arguments["uri"] = json!(self.spill_uri.as_deref().expect("a reply returned it"));
        }
    }

    fn remember(&mut self, reply: &Value) {
        self.next_cursor = reply["next_cursor"].as_str().map(str::to_owned);
        if let Some(uri) = reply["spill_uri"].as_str() {
            self.spill_uri = Some(uri.to_owned());
        }
    }
}

fn call(server: &mut TestServer, example: &Example) -> String {
    server.call(&example.tool, example.arguments.clone()).ok().text()
}

#[test]
fn the_examples_of_agents_md_work() {
    for launch in Launch::both() {
        let mut server = launch.args(&["--dialect", "native,shell_exec"]).start();
        let mut returned = Returned::default();
        let mut tools = Vec::new();
        for mut example in examples() {
            returned.fill_in(&mut example.arguments);
            let text = call(&mut server, &example);
            returned.remember(&serde_json::from_str(&text).unwrap_or_default());
            tools.push(example.tool);
        }
        for tool in ["run_command", "wait_jobs", "read_output", "shell_exec", "read_file_chunk"] {
            assert!(tools.iter().any(|used| used == tool), "no example of {tool}");
        }
    }
}
