//! The settings in `docs/clients.md`: each block can be pasted, and starts the server.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use shellyard_install::{SettingValue, SettingsFormat};

use crate::harness::Launch;

/// A fenced block of the page.
#[derive(Debug)]
struct SettingsBlock {
    heading: String,
    language: String,
    text: String,
    /// The text between the heading, or the block before, and this block.
    before: String,
}

fn page() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/clients.md");
    fs::read_to_string(path).expect("the page")
}

fn blocks(page: &str) -> Vec<SettingsBlock> {
    let (mut blocks, mut heading, mut before) = (Vec::new(), String::new(), String::new());
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        if let Some(title) = line.strip_prefix("## ") {
            title.clone_into(&mut heading);
            before.clear();
        } else if let Some(language) = line.strip_prefix("```") {
            let text: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
            let (heading, language) = (heading.clone(), language.to_owned());
            let before = std::mem::take(&mut before);
            blocks.push(SettingsBlock { heading, language, text: text.join("\n"), before });
        } else {
            before += line;
        }
    }
    blocks
}

/// The value of a block as its client reads it.
#[track_caller]
fn parse(block: &SettingsBlock) -> Value {
    let parsed = match block.language.as_str() {
        "json" => serde_json::from_str(&block.text).map_err(|error| error.to_string()),
        "toml" => toml::from_str(&block.text).map_err(|error| error.to_string()),
        "yaml" => {
            let read = SettingsFormat::Yaml.read(&block.text).map_err(|error| error.to_string());
            read.map(|settings| to_json(&settings))
        }
        other => panic!("{other} under {}", block.heading),
    };
    parsed.unwrap_or_else(|error| panic!("{error} under {}: {}", block.heading, block.text))
}

fn to_json(settings: &SettingValue) -> Value {
    match settings {
        SettingValue::Text(text) | SettingValue::Other(text) => json!(text),
        SettingValue::Number(number) => json!(number),
        SettingValue::Flag(flag) => json!(flag),
        SettingValue::List(items) => items.iter().map(to_json).collect(),
        SettingValue::Map(pairs) => {
            pairs.iter().map(|(key, value)| (key.clone(), to_json(value))).collect()
        }
    }
}

/// The words that start the server, wherever a client wants them.
fn server_command(settings: &Value) -> Option<Vec<String>> {
    let names = ["mcpServers", "mcp_servers", "context_servers", "servers", "mcp", "extensions"];
    let server = names.iter().find_map(|name| settings.get(*name))?.get("shellyard")?;
    let command = server.get("command").or_else(|| server.get("cmd"))?;
    let words = match command.as_array() {
        Some(words) => words.clone(),
        None => [vec![command.clone()], server["args"].as_array()?.clone()].concat(),
    };
    words.iter().map(|word| word.as_str().map(str::to_owned)).collect()
}

const CLIENTS: [(&str, &str); 11] = [
    ("Goose", "~/.config/goose/config.yaml"),
    ("Codex", "~/.codex/config.toml"),
    ("Claude Code", ".mcp.json"),
    ("Gemini CLI", "~/.gemini/settings.json"),
    ("Qwen Code", "~/.qwen/settings.json"),
    ("OpenCode", "~/.config/opencode/opencode.json"),
    ("Cursor", "~/.cursor/mcp.json"),
    ("Zed", "~/.config/zed/settings.json"),
    ("Windsurf", "~/.codeium/windsurf/mcp_config.json"),
    ("VS Code", ".vscode/mcp.json"),
    ("Claude Desktop", "claude_desktop_config.json"),
];

#[test]
fn the_block_of_each_client_starts_the_server() {
    let blocks = blocks(&page());
    for (client, file) in CLIENTS {
        let block = blocks.iter().find(|block| block.heading == client).expect(client);
        assert!(block.before.contains(file), "{client}: {}", block.before);
        let words = server_command(&parse(block)).expect(client);
        assert_eq!(words, ["shellyard", "stdio"], "{client}");
    }
    // The harness starts the program with the same words.
    let mut server = Launch::stdio().start();
    assert!(server.rpc("tools/list", json!({}))["result"]["tools"].is_array());
}

/// `true` for blocks that are no settings: lines for a model, a session in a shell.
fn is_example(block: &SettingsBlock) -> bool {
    ["markdown", "text"].contains(&block.language.as_str())
}

#[test]
fn every_block_of_settings_parses() {
    let page = page();
    let settings: Vec<SettingsBlock> =
        blocks(&page).into_iter().filter(|block| !is_example(block)).collect();
    settings.iter().for_each(|block| drop(parse(block)));
    assert!(settings.len() > CLIENTS.len(), "each client has one, Claude Code two");
    let named =
        |heading: &'static str| settings.iter().filter(move |block| block.heading == heading);
    let codex = parse(named("Codex").next().expect("a block"));
    let codex = &codex["mcp_servers"]["shellyard"];
    assert_eq!(codex["default_tools_approval_mode"], "approve");
    assert_eq!(codex["supports_parallel_tool_calls"], true);
    assert!(codex["tool_timeout_sec"].is_u64(), "{codex}");
    let allowed = parse(named("Claude Code").nth(1).expect("its permissions"));
    assert_eq!(allowed["permissions"]["allow"], json!(["mcp__shellyard"]));
}

#[test]
fn the_lines_for_agents_name_only_tools_and_arguments_that_exist() {
    let blocks = blocks(&page());
    let lines = blocks.iter().find(|block| block.language == "markdown").expect("the lines");
    let mut server = Launch::stdio().start();
    let listed = server.rpc("tools/list", json!({}))["result"]["tools"].to_string();
    let quoted = lines.text.split('`').skip(1).step_by(2);
    let names = quoted.map(|quoted| quoted.split('=').next().unwrap_or_default());
    let commands_and_states = ["running", "head", "tail"];
    for name in names.filter(|name| !commands_and_states.contains(name)) {
        assert!(listed.contains(&format!("\"{name}\"")), "{name}");
    }
}

#[test]
fn clients_learn_how_to_run_several_commands_at_once() {
    let mut server = Launch::stdio().start_silent();
    let instructions = server.handshake()["result"]["instructions"].clone();
    let instructions = instructions.as_str().expect("a text");
    for words in ["several", "wait_s=0", "wait_jobs", "mode=\"all\""] {
        assert!(instructions.contains(words), "{words}: {instructions}");
    }
    let started = |server: &mut crate::harness::TestServer, word: &str| {
        let command = format!("while [ ! -e gate ]; do sleep 0.05; done; echo {word}");
        server.call("run_command", json!({"command": command, "wait_s": 0})).ok();
    };
    started(&mut server, "one");
    started(&mut server, "two");
    fs::write(server.work().join("gate"), "").expect("the gate opens");
    let both = server.call("wait_jobs", json!({"jobs": [1, 2], "mode": "all"})).ok().text();
    assert!(both.contains("one") && both.contains("two"), "{both}");
}
