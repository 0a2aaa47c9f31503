//! `shellyard install` with the real program, in a home directory of its own.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Output;

use serde_json::{Value, json};

use crate::harness::{Launch, Sandbox, output_of, run_program, tested_program, text};

/// The words of all clients, with their files below the home directory.
const CLIENTS: [(&str, &str); 11] = [
    ("claude-code", ".claude.json"),
    ("claude-desktop", "config/Claude/claude_desktop_config.json"),
    ("codex", ".codex/config.toml"),
    ("cursor", ".cursor/mcp.json"),
    ("vscode", "config/Code/User/mcp.json"),
    ("zed", "config/zed/settings.json"),
    ("gemini", ".gemini/settings.json"),
    ("qwen", ".qwen/settings.json"),
    ("opencode", "config/opencode/opencode.json"),
    ("windsurf", ".codeium/windsurf/mcp_config.json"),
    ("goose", "config/goose/config.yaml"),
];

fn home(sandbox: &Sandbox) -> PathBuf {
    sandbox.path().join("home")
}

/// Runs `shellyard install` and gives back its output.
#[track_caller]
fn install(sandbox: &Sandbox, arguments: &[&str]) -> Output {
    run_program(sandbox, &[&["install"], arguments].concat())
}

/// The same, which must succeed; gives back stdout.
#[track_caller]
fn installed(sandbox: &Sandbox, arguments: &[&str]) -> String {
    let output = install(sandbox, arguments);
    assert_eq!(output.status.code(), Some(0), "{}{}", text(&output.stdout), text(&output.stderr));
    text(&output.stdout)
}

/// The same, which must be refused; gives back stderr.
#[track_caller]
fn refused(sandbox: &Sandbox, arguments: &[&str]) -> String {
    let output = install(sandbox, arguments);
    assert_eq!(output.status.code(), Some(1), "{}{}", text(&output.stdout), text(&output.stderr));
    text(&output.stderr)
}

#[track_caller]
fn write(path: &Path, content: &str) {
    fs::create_dir_all(path.parent().expect("a directory")).expect("a directory of ours");
    fs::write(path, content).expect("a file of ours");
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).expect("a file of ours")
}

/// All files below a directory, with their texts; what the server itself keeps is left out.
fn snapshot(directory: &Path) -> Vec<(PathBuf, String)> {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory).expect("a directory").flatten() {
        let path = entry.path();
        if path.ends_with(".local") {
            continue;
        } else if path.is_dir() {
            files.extend(snapshot(&path));
        } else {
            files.push((path.clone(), read(&path)));
        }
    }
    files.sort();
    files
}

#[test]
fn every_client_is_installed_checked_and_taken_back() {
    let sandbox = Sandbox::new();
    let before = snapshot(&home(&sandbox));
    let words: Vec<&str> = CLIENTS.iter().map(|(client, _)| *client).collect();
    let said = installed(&sandbox, &words);
    assert_eq!(said.matches("answers with 6 tools").count(), CLIENTS.len(), "{said}");
    let program = tested_program().display().to_string();
    for (client, file) in CLIENTS {
        let content = read(&home(&sandbox).join(file));
        assert!(content.contains(&program), "{client}: {content}");
        assert!(content.contains("/usr/local/sbin:/usr/local/bin"), "{client}: {content}");
    }
    let first = snapshot(&home(&sandbox));
    let repeated = installed(&sandbox, &["zed", "goose", "zed"]);
    assert_eq!(repeated.matches("Zed: already").count(), 1, "{repeated}");
    let again = installed(&sandbox, &words);
    assert_eq!(again.matches("already installed").count(), CLIENTS.len(), "{again}");
    assert_eq!(snapshot(&home(&sandbox)), first, "to the byte");
    let removed = installed(&sandbox, &[&words[..], &["--uninstall"]].concat());
    assert_eq!(removed.matches("removed").count(), CLIENTS.len(), "{removed}");
    assert_eq!(snapshot(&home(&sandbox)), before);
    let nothing = installed(&sandbox, &["zed", "--uninstall"]);
    assert!(nothing.contains("not installed"), "{nothing}");
}

#[test]
fn comments_order_links_and_modes_stay() {
    let sandbox = Sandbox::new();
    let original = "// mine\n{\n\t\"theme\": \"dark\", // nice\n\t\"context_servers\": {\n\t\t\"other\": { \"command\": \"x\", },\n\t},\n}\n";
    let real = home(&sandbox).join("dotfiles/zed.json");
    write(&real, original);
    fs::set_permissions(&real, fs::Permissions::from_mode(0o640)).expect("a mode");
    let link = home(&sandbox).join("config/zed/settings.json");
    fs::create_dir_all(link.parent().expect("a directory")).expect("a directory of ours");
    symlink(&real, &link).expect("a link");
    installed(&sandbox, &["zed"]);
    let after = read(&real);
    let kept = "// mine\n{\n\t\"theme\": \"dark\", // nice\n\t\"context_servers\": {\n\t\t\"other\": { \"command\": \"x\", },\n\t\t\"shellyard\": {\n\t\t\t\"command\": ";
    assert!(after.starts_with(kept), "{after}");
    assert!(fs::symlink_metadata(&link).expect("the link").is_symlink());
    assert_eq!(fs::metadata(&real).expect("the file").mode() & 0o777, 0o640);
    let backup = home(&sandbox).join("config/zed/settings.json.shellyard-backup");
    assert_eq!(read(&backup), original);
    installed(&sandbox, &["zed", "--uninstall"]);
    assert_eq!(read(&real), original);
    assert!(!backup.exists(), "its text is in its place");
    assert!(fs::symlink_metadata(&link).expect("the link").is_symlink());
}

#[test]
fn an_uninstall_keeps_later_changes_and_old_backups() {
    let sandbox = Sandbox::new();
    let file = home(&sandbox).join(".codex/config.toml");
    let old_backup = home(&sandbox).join(".codex/config.toml.shellyard-backup");
    write(&file, "model = \"a\" # which\n");
    write(&old_backup, "model = \"from last year\"\n");
    installed(&sandbox, &["codex"]);
    assert_eq!(read(&old_backup), "model = \"from last year\"\n");
    let second = home(&sandbox).join(".codex/config.toml.shellyard-backup-2");
    assert_eq!(read(&second), "model = \"a\" # which\n");
    let changed = read(&file).replace("\"a\"", "\"b\"") + "\n[tui]\nx = 1\n";
    write(&file, &changed);
    installed(&sandbox, &["codex", "--uninstall"]);
    let left = read(&file);
    assert!(
        left.starts_with("model = \"b\" # which\n") && left.ends_with("[tui]\nx = 1\n"),
        "{left}"
    );
    assert!(!left.contains("shellyard"), "{left}");
}

#[test]
fn a_broken_file_is_refused_with_its_place_and_left_alone() {
    let sandbox = Sandbox::new();
    for (client, file, content, place) in [
        (
            "cursor",
            ".cursor/mcp.json",
            "{\n  \"mcpServers\": {\n    \"a\": }\n}\n",
            "line 3, column 10",
        ),
        ("codex", ".codex/config.toml", "[a]\nb = = 1\n", "line 2, column 5"),
        ("goose", "config/goose/config.yaml", "a: [1\nb: 2\n", "line "),
        ("claude-code", ".claude.json", "{\n  // JSON has no comments\n}\n", "line 2, column 3"),
    ] {
        let path = home(&sandbox).join(file);
        write(&path, content);
        let message = refused(&sandbox, &[client]);
        assert!(message.contains(place) && message.contains(file), "{client}: {message}");
        assert_eq!(read(&path), content, "{client}");
        assert!(!path.with_extension("json.shellyard-backup").exists());
        let answer = install(&sandbox, &[client, "--json"]);
        let answer: Value = serde_json::from_slice(&answer.stdout).expect("JSON");
        assert_eq!(answer["clients"][0]["code"], "settings_syntax", "{answer}");
        assert_eq!(answer["ok"], false);
    }
    let message = refused(&sandbox, &["windsurf", "--scope", "project"]);
    assert!(message.contains("--scope user"), "{message}");
    let message = refused(&sandbox, &["zed", "cursor", "--config-path", "/x"]);
    assert!(message.contains("one client"), "{message}");
}

#[test]
fn print_and_dry_run_change_nothing() {
    let sandbox = Sandbox::new();
    let file = home(&sandbox).join(".cursor/mcp.json");
    write(&file, "{\n  \"mcpServers\": {}\n}\n");
    let before = snapshot(&home(&sandbox));
    let diff = installed(&sandbox, &["cursor", "--dry-run"]);
    assert!(diff.contains("\n-  \"mcpServers\": {}\n+  \"mcpServers\": {\n"), "{diff}");
    assert!(diff.contains("+    \"shellyard\": {") && diff.contains("would be added"), "{diff}");
    let printed = installed(&sandbox, &["cursor", "--print"]);
    let printed: Value = serde_json::from_str(&printed).expect("settings to paste");
    assert_eq!(printed["mcpServers"]["shellyard"]["args"], json!(["stdio"]));
    assert_eq!(snapshot(&home(&sandbox)), before);
}

#[test]
fn the_project_and_other_files_can_be_chosen() {
    let sandbox = Sandbox::new();
    let repository = sandbox.work().join("repository");
    let deep = repository.join("src");
    fs::create_dir_all(&deep).expect("a directory of ours");
    fs::create_dir(repository.join(".git")).expect("a directory of ours");
    let mut command = sandbox.command();
    command.args(["install", "claude-code", "vscode", "--scope", "project"]).current_dir(&deep);
    let output = output_of(command, "");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("before you commit"), "{}", text(&output.stderr));
    let parsed: Value = serde_json::from_str(&read(&repository.join(".mcp.json"))).expect("JSON");
    assert_eq!(parsed["mcpServers"]["shellyard"]["type"], "stdio");
    assert!(repository.join(".vscode/mcp.json").exists());
    let hostile = r#"{"mcpServers": {"shellyard": {"command": "/x/shellyard", "env": {"SHELLYARD_QUEUE_SLOTS": "none"}}}}"#;
    write(&repository.join(".mcp.json"), hostile);
    let mut command = sandbox.command();
    command.args(["install", "claude-code", "--scope", "project"]).current_dir(&repository);
    let output = output_of(command, "");
    assert!(
        output.status.success(),
        "the variables of others are not used: {}",
        text(&output.stderr)
    );
    assert!(snapshot(&home(&sandbox)).is_empty());
    let other = sandbox.path().join("other.json");
    installed(&sandbox, &["gemini", "--config-path", other.to_str().expect("a path")]);
    assert!(read(&other).contains("shellyard"));
}

#[test]
fn rules_are_written_on_request_say_what_they_permit_and_go_with_the_server() {
    let sandbox = Sandbox::new();
    let settings = home(&sandbox).join(".claude/settings.json");
    let memory = home(&sandbox).join(".claude/CLAUDE.md");
    write(&settings, "{\n  \"permissions\": {\n    \"allow\": [\"Bash(ls)\"]\n  }\n}\n");
    write(&memory, "# My rules\n");
    let before = snapshot(&home(&sandbox));
    let output = install(&sandbox, &["claude-code", "--agent-rules"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("every command"), "{}", text(&output.stderr));
    let allowed: Value = serde_json::from_str(&read(&settings)).expect("JSON");
    assert_eq!(allowed["permissions"]["allow"], json!(["Bash(ls)", "mcp__shellyard"]));
    assert!(read(&memory).starts_with("# My rules\n\n<!-- shellyard:begin"), "{}", read(&memory));
    assert!(read(&memory).contains("run_command"), "{}", read(&memory));
    installed(&sandbox, &["claude-code", "--uninstall"]);
    assert_eq!(snapshot(&home(&sandbox)), before);
    let output = install(&sandbox, &["cursor", "--agent-rules"]);
    assert!(
        text(&output.stderr).contains("no permission is written for Cursor"),
        "{}",
        text(&output.stderr)
    );
}

#[test]
fn the_entry_of_another_program_is_replaced_and_removed_only_by_force() {
    let sandbox = Sandbox::new();
    let file = home(&sandbox).join(".cursor/mcp.json");
    let backup = home(&sandbox).join(".cursor/mcp.json.shellyard-backup");
    let foreign = [
        (r#"{"command": "/usr/bin/npx", "args": ["other"], "cwd": "/x"}"#, "`/usr/bin/npx`"),
        (r#"{"url": "http://127.0.0.1:9/mcp"}"#, "`127.0.0.1:9`"),
    ];
    for (entry, what) in foreign {
        let original = format!("{{\"mcpServers\": {{\"shellyard\": {entry}}}}}\n");
        write(&file, &original);
        let listed = installed(&sandbox, &[]);
        assert!(listed.contains("the name is used by") && listed.contains(what), "{listed}");
        for flags in [&[][..], &["--dry-run"], &["--uninstall"], &["--uninstall", "--dry-run"]] {
            let message = refused(&sandbox, &[&["cursor"], flags].concat());
            assert!(message.contains(what) && message.contains("--force"), "{message}");
            assert!(message.contains("nothing was changed"), "{message}");
            let answer = install(&sandbox, &[&["cursor", "--json"], flags].concat());
            let answer: Value = serde_json::from_slice(&answer.stdout).expect("JSON");
            assert_eq!(answer["clients"][0]["code"], "foreign_entry", "{answer}");
        }
        assert_eq!(snapshot(&home(&sandbox)), [(file.clone(), original.clone())]);
        let said = installed(&sandbox, &["cursor", "--force"]);
        assert!(said.contains(what) && said.contains("mcp.json.shellyard-backup"), "{said}");
        assert_eq!(read(&backup), original);
        let parsed: Value = serde_json::from_str(&read(&file)).expect("JSON");
        let entry = parsed["mcpServers"]["shellyard"].as_object().expect("an entry");
        assert_eq!(entry["command"], tested_program().display().to_string());
        assert!(!entry.contains_key("cwd") && !entry.contains_key("url"), "{parsed}");
        let again = installed(&sandbox, &["cursor"]);
        assert!(again.contains("already installed"), "{again}");
        write(&file, &original);
        let said = installed(&sandbox, &["cursor", "--uninstall", "--force"]);
        assert!(said.contains("removed") && said.contains("shellyard-backup"), "{said}");
        assert_eq!(read(&backup), original);
        assert!(!fs::read_to_string(&file).unwrap_or_default().contains("shellyard"));
        fs::remove_file(&backup).expect("a file of ours");
        fs::remove_file(&file).ok();
    }
}

#[test]
fn a_failure_says_which_files_were_changed_before() {
    let sandbox = Sandbox::new();
    let settings = home(&sandbox).join(".claude.json");
    write(&settings, "{}\n");
    // The settings can be written, the permissions cannot: their directory is a file.
    write(&home(&sandbox).join(".claude"), "");
    let message = refused(&sandbox, &["claude-code", "--agent-rules"]);
    assert!(message.contains("nothing was changed"), "{message}");
    assert_eq!(read(&settings), "{}\n");
    fs::remove_file(home(&sandbox).join(".claude")).expect("a file of ours");
    // A directory that does not exist behind a link: reading finds nothing, writing fails.
    symlink("/proc/none/settings", home(&sandbox).join(".claude")).expect("a link");
    let message = refused(&sandbox, &["claude-code", "--agent-rules"]);
    assert!(!message.contains("nothing was changed"), "{message}");
    assert!(message.contains(".claude.json` was changed before"), "{message}");
    assert!(read(&settings).contains("shellyard"));
    // One file alone that cannot be written: no backup is left either.
    symlink("/proc/none/config", home(&sandbox).join(".qwen")).expect("a link");
    let before = fs::read_dir(home(&sandbox)).expect("it is there").count();
    let message = refused(&sandbox, &["qwen"]);
    assert!(message.contains("nothing was changed"), "{message}");
    assert_eq!(fs::read_dir(home(&sandbox)).expect("it is there").count(), before);
}

#[test]
fn instructions_that_another_client_reads_stay() {
    let sandbox = Sandbox::new();
    let project = ["--scope", "project"];
    let rules = sandbox.work().join("AGENTS.md");
    installed(&sandbox, &[&["codex", "opencode", "--agent-rules"], &project[..]].concat());
    assert!(rules.exists());
    installed(&sandbox, &[&["codex", "--uninstall"], &project[..]].concat());
    assert!(read(&rules).contains("shellyard:begin"), "OpenCode still reads them");
    installed(&sandbox, &[&["opencode", "--uninstall"], &project[..]].concat());
    assert!(!rules.exists());
}

#[test]
fn the_lines_for_agents_are_those_of_the_documentation() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let rules = read(&root.join("crates/install/src/agent_rules.md"));
    assert!(rules.contains("wait_jobs"));
    assert!(read(&root.join("docs/clients.md")).contains(&format!("```markdown\n{rules}```")));
}

#[test]
fn a_shared_server_is_written_and_checked() {
    let mut server = Launch::http().start();
    let url = format!("http://{}/mcp", server.http().address());
    let sandbox = Sandbox::new();
    let said = installed(&sandbox, &["zed", "--connect", &url]);
    assert!(said.contains("answers with 6 tools"), "{said}");
    let file = home(&sandbox).join("config/zed/settings.json");
    let parsed: Value = serde_json::from_str(&read(&file)).expect("JSON");
    let args = &parsed["context_servers"]["shellyard"]["args"];
    assert_eq!(*args, json!(["stdio", "--connect", url]));
    drop(server);
    let message = refused(&sandbox, &["zed", "--connect", "/no/such.sock"]);
    assert!(message.contains("does not work"), "{message}");
    let message = refused(&sandbox, &["zed", "--connect", "127.0.0.1:8000"]);
    assert!(message.contains("http:// is missing"), "{message}");
    let message = refused(&sandbox, &["--connect", "zed"]);
    assert!(message.contains("before --connect"), "{message}");
}

#[test]
fn without_a_client_it_lists_what_is_found() {
    let sandbox = Sandbox::new();
    let output = install(&sandbox, &[]);
    assert!(
        text(&output.stderr).contains("not found here: claude-code"),
        "{}",
        text(&output.stderr)
    );
    write(&home(&sandbox).join(".codex/config.toml"), "model = \"x\"\n");
    write(&home(&sandbox).join(".cursor/mcp.json"), "{ broken");
    installed(&sandbox, &["qwen"]);
    let output = install(&sandbox, &[]);
    let listed = text(&output.stdout);
    let row = |word: &str| listed.lines().find(|line| line.starts_with(word)).map(str::to_owned);
    assert!(row("codex").is_some_and(|row| row.contains("not installed")), "{listed}");
    assert!(row("cursor").is_some_and(|row| row.contains("cannot be read")), "{listed}");
    let qwen = row("qwen").unwrap_or_default();
    assert!(qwen.contains("installed") && qwen.contains("~/.qwen/settings.json"), "{listed}");
    assert!(text(&output.stderr).contains("shellyard install codex"), "{}", text(&output.stderr));
    let output = install(&sandbox, &["--json"]);
    let answer: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let states: Vec<&Value> =
        answer["clients"].as_array().expect("a list").iter().map(|row| &row["state"]).collect();
    assert_eq!(states, ["not_installed", "unreadable", "installed"], "{answer}");
}

#[test]
fn an_unknown_client_is_named_with_a_suggestion() {
    let output = install(&Sandbox::new(), &["cusror"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("did you mean cursor?"), "{}", text(&output.stderr));
}
