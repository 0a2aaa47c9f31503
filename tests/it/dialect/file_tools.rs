//! `read_file`, `write_file`, `list_directory`: inside the working directory only.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use rustix::fs::{CWD, FileType, Mode, mknodat};
use serde_json::{Value, json};

use super::execute_command::fields;
use super::speaking;
use crate::harness::{TestServer, eventually};

fn each(config: &str, check: impl Fn(&mut TestServer)) {
    for launch in speaking("execute_command") {
        check(&mut launch.config(config).start());
    }
}

#[track_caller]
fn read(server: &mut TestServer, path: &str) -> Value {
    fields(server.call("read_file", json!({"path": path})))
}

fn fifo(path: &Path) {
    let mode = Mode::from_raw_mode(0o600);
    mknodat(CWD, path, FileType::Fifo, mode, 0).expect("a FIFO of ours");
}

#[test]
fn what_is_written_is_read_and_listed() {
    each("", |server| {
        let call = json!({"path": "new.txt", "content": "é\n"});
        let written = fields(server.call("write_file", call.clone()));
        let expected = json!({"path": "new.txt", "bytes_written": 3, "created": true});
        assert_eq!(written, expected);
        assert_eq!(fields(server.call("write_file", call))["created"], false);
        let expected = json!({
            "path": "new.txt", "encoding": "utf-8", "content": "é\n", "size": 3, "truncated": false
        });
        assert_eq!(read(server, "new.txt"), expected);
        fs::create_dir(server.work().join("sub")).expect("a directory of ours");
        symlink("new.txt", server.work().join("to")).expect("a link of ours");
        let listing = fields(server.call("list_directory", json!({})));
        let entries = listing["entries"].as_array().expect("a list");
        let expected = json!([
            {"name": "new.txt", "type": "file", "size": 3},
            {"name": "sub", "type": "directory", "size": entries[1]["size"]},
            {"name": "to", "type": "symlink", "size": 7},
        ]);
        assert_eq!(listing, json!({"path": ".", "entries": expected, "truncated": false}));
        let below = fields(server.call("list_directory", json!({"path": "sub"})));
        assert_eq!(below["entries"], json!([]));
        assert_eq!(read(server, "to")["content"], "é\n");
        let absolute = server.work().join("new.txt").display().to_string();
        assert_eq!(read(server, &absolute)["content"], "é\n");
    });
}

#[test]
fn a_large_file_is_read_in_parts_and_every_byte_comes_back() {
    each("[execute_command]\nmax_output = 1000\n", |server| {
        let text = "äöü€ 0123456789\n".repeat(300);
        fs::write(server.work().join("large"), &text).expect("a file of ours");
        let (mut seen, mut offset) = (String::new(), Some(0));
        while let Some(from) = offset {
            let part = fields(server.call("read_file", json!({"path": "large", "offset": from})));
            assert_eq!((&part["encoding"], &part["size"]), (&json!("utf-8"), &json!(text.len())));
            seen += part["content"].as_str().expect("a text");
            assert_eq!(part["truncated"], part.get("next_offset").is_some());
            offset = part["next_offset"].as_u64();
        }
        assert!(seen == text, "the parts are not the whole");
        fs::write(server.work().join("binary"), b"\x00\xff").expect("a file of ours");
        let binary = read(server, "binary");
        assert_eq!((&binary["encoding"], &binary["content"]), (&json!("base64"), &json!("AP8=")));
    });
}

#[test]
fn nothing_leads_out_of_the_working_directory() {
    each("", |server| {
        let (work, outside) = (server.work(), server.sandbox().path().join("outside"));
        fs::create_dir(&outside).expect("a directory of ours");
        fs::write(outside.join("secret"), "secret").expect("a file of ours");
        for (to, link) in
            [("../outside/secret", "file"), ("../outside", "way"), ("/proc/self/root", "magic")]
        {
            symlink(to, work.join(link)).expect("a link of ours");
        }
        symlink(outside.join("secret"), work.join("absolute")).expect("a link of ours");
        let absolute = outside.join("secret").display().to_string();
        let detour = format!("{}/../outside/secret", work.display());
        for path in [
            "../outside/secret",
            "file",
            "way/secret",
            "absolute",
            "magic/etc/passwd",
            "/proc/self/environ",
            absolute.as_str(),
            detour.as_str(),
        ] {
            let error = server.call("read_file", json!({"path": path})).error_text();
            assert!(error.contains("leads out of the working directory"), "{path}: {error}");
            let write = json!({"path": path, "content": "changed"});
            server.call("write_file", write).error_text();
        }
        for path in ["..", "way", "/", "magic"] {
            let error = server.call("list_directory", json!({"path": path})).error_text();
            assert!(error.contains("leads out of the working directory"), "{path}: {error}");
        }
        server.call("write_file", json!({"path": "way/new", "content": "x"})).error_text();
        assert_eq!(fs::read_to_string(outside.join("secret")).expect("it is there"), "secret");
        assert_eq!(fs::read_dir(&outside).expect("it is there").count(), 1);
    });
}

#[test]
fn what_is_no_file_neither_blocks_nor_changes() {
    each("", |server| {
        fifo(&server.work().join("fifo"));
        fs::create_dir(server.work().join("sub")).expect("a directory of ours");
        for path in ["fifo", "sub"] {
            let error = server.call("read_file", json!({"path": path})).error_text();
            assert!(error.contains("not a regular file"), "{path}: {error}");
            let write = json!({"path": path, "content": "x"});
            let error = server.call("write_file", write).error_text();
            assert!(error.contains("not a regular file"), "{path}: {error}");
        }
        let error = server.call("list_directory", json!({"path": "fifo"})).error_text();
        assert!(error.contains("not a directory"), "{error}");
        let error = server.call("read_file", json!({"path": "none"})).error_text();
        assert!(error.contains("there is no `none`"), "{error}");
    });
}

#[test]
fn rules_hold_for_files_as_for_commands_and_are_written_down() {
    each("[policy]\ndeny = [\"write_file\"]\n", |server| {
        let write = json!({"path": "new", "content": "x"});
        let error = server.call("write_file", write).error_text();
        assert!(error.starts_with("denied by security policy: "), "{error}");
        assert!(!server.work().join("new").exists());
        fields(server.call("list_directory", json!({})));
        let log = server.sandbox().data().join("audit.jsonl");
        let read = || fs::read_to_string(&log).expect("there is an audit log");
        eventually("both are written down", || read().contains("list_directory"));
        let entries: Vec<Value> = read()
            .lines()
            .map(|line| serde_json::from_str(line).expect("JSON"))
            .filter(|entry: &Value| entry["event"] == "decision")
            .collect();
        let seen: Vec<_> =
            entries.iter().map(|entry| (&entry["command"], &entry["verdict"])).collect();
        assert_eq!(
            seen,
            [
                (&json!("write_file new"), &json!("refused")),
                (&json!("list_directory ."), &json!("allowed"))
            ]
        );
    });
    each(
        "[policy]\nallow = [\"ls*\", \"read_file\", \"write_file\"]\ndeny = [\"write_file\"]\n",
        |server| {
            fs::write(server.work().join("file"), "x").expect("a file of ours");
            assert_eq!(read(server, "file")["content"], "x", "the list names it");
            let write = json!({"path": "file", "content": "changed"});
            server.call("write_file", write).error_text();
            assert_eq!(read(server, "file")["content"], "x");
        },
    );
}

#[test]
fn beside_an_allow_list_files_are_read_and_written_only_if_it_names_the_tool() {
    each("[policy]\nallow = [\"ls\", \"read_*\"]\n", |server| {
        fs::write(server.work().join("file"), "kept").expect("a file of ours");
        assert_eq!(read(server, "file")["content"], "kept");
        let write = json!({"path": "file", "content": "changed"});
        let error = server.call("write_file", write).error_text();
        assert!(error.contains("`write_file` is not on the allow list"), "{error}");
        assert_eq!(read(server, "file")["content"], "kept");
        let tools = server.rpc("tools/list", json!({}))["result"]["tools"].to_string();
        assert!(tools.contains("\"read_file\"") && !tools.contains("\"write_file\""), "{tools}");
    });
}

#[test]
fn a_working_directory_outside_the_allowed_ones_is_closed() {
    each("[policy]\nallowed_directories = [\"/usr\"]\n", |server| {
        let file = server.work().join("file");
        fs::write(&file, "kept").expect("a file of ours");
        for (tool, arguments) in [
            ("read_file", json!({"path": "file"})),
            ("write_file", json!({"path": "file", "content": "changed"})),
            ("list_directory", json!({})),
        ] {
            let error = server.call(tool, arguments).error_text();
            assert!(error.contains("policy.allowed_directories"), "{tool}: {error}");
        }
        assert_eq!(fs::read_to_string(&file).expect("it is there"), "kept");
    });
}

#[test]
fn secrets_in_files_are_masked() {
    each("", |server| {
        fs::write(server.work().join("key"), "AKIAIOSFODNN7EXAMPLE").expect("a file of ours");
        assert_eq!(read(server, "key")["content"], "[redacted]");
    });
}

#[test]
fn bad_arguments_change_nothing() {
    each("", |server| {
        for (tool, bad, said) in [
            ("read_file", json!({}), "missing argument `path`"),
            ("read_file", json!({"path": 7}), "`path`"),
            ("read_file", json!({"path": ""}), "no path"),
            ("read_file", json!({"path": "a\u{0}b"}), "no path"),
            ("read_file", json!({"path": "x", "offset": -1}), "`offset`"),
            ("read_file", json!({"path": "x", "limit": 1}), "unknown argument `limit`"),
            ("write_file", json!({"path": "ran"}), "missing argument `content`"),
            ("write_file", json!({"content": "x"}), "missing argument `path`"),
            ("write_file", json!({"path": "ran", "content": 7}), "`content`"),
            ("write_file", json!({"path": "ran", "content": "x", "mode": 1}), "`mode`"),
            ("write_file", json!({"path": "none/ran", "content": "x"}), "there is no"),
            ("list_directory", json!({"path": ["."]}), "`path`"),
        ] {
            let error = server.call(tool, bad.clone()).error_text();
            assert!(error.contains(said), "{tool} {bad}: {error}");
        }
        assert_eq!(fs::read_dir(server.work()).expect("it is there").count(), 0);
    });
}

#[test]
fn beside_an_allow_list_the_tool_writes_below_its_directory_only() {
    each("[policy]\nallow = [\"git\", \"write_file\"]\n", |server| {
        let outside = tempfile::tempdir().expect("a temporary directory");
        symlink(outside.path(), server.work().join("to")).expect("a link of ours");
        symlink(outside.path().join("b"), server.work().join("link")).expect("a link of ours");
        for path in ["to/a", "link", "../a"] {
            server.call("write_file", json!({"path": path, "content": "x"})).error_text();
        }
        assert_eq!(fs::read_dir(outside.path()).expect("it is there").count(), 0);
        fields(server.call("write_file", json!({"path": "src.txt", "content": "x"})));
    });
}

#[test]
fn what_a_job_may_not_write_in_its_workspace_is_not_written_by_the_tool_either() {
    each("[confinement]\nprofile = \"workspace-write\"\n", |server| {
        fs::create_dir_all(server.work().join(".git/hooks")).expect("a directory of ours");
        symlink(".git/hooks", server.work().join("to")).expect("a link of ours");
        for path in [".git/config", "to/pre-commit", ".mcp.json", ".envrc"] {
            let reply = server.call("write_file", json!({"path": path, "content": "x"}));
            assert!(reply.text().contains("confinement workspace-write"), "{}", reply.text());
            assert!(!server.work().join(path).exists(), "{path} was written");
        }
        fields(server.call("write_file", json!({"path": "src.txt", "content": "x"})));
    });
}
