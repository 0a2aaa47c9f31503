//! Workspaces of tenants: where their jobs start, run and write, and what they see.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use rustix::process::Signal;
use serde_json::json;

use super::separated::{
    TenantDirs, client_of, fails, is_root, output, run, run_with, start_server,
};
use super::world::TenantSession;
use crate::harness::{HttpRequest, Launch, Sandbox, run_program, text};
use crate::tenants::tokens::create_token;

#[track_caller]
fn refuses(client: &mut TenantSession, cwd: &Path) {
    let reply = run_with(client, json!({"command": "touch made", "cwd": cwd}));
    assert_eq!(reply["error_code"], "outside_directories", "{cwd:?}: {}", reply.0);
    let said = reply.error_text();
    for words in ["is outside the allowed directories", "tenants.alice.workspace"] {
        assert!(said.contains(words), "{cwd:?}: {said}");
    }
}

#[test]
fn jobs_start_in_the_workspace_and_run_nowhere_else() {
    let dirs = TenantDirs::new();
    symlink(dirs.at("bob"), dirs.at("alice/out")).expect("a link of ours");
    let more = format!("allowed_directories = [{:?}]", dirs.at("more"));
    let mut server = start_server(&dirs.config("").replacen('\n', &format!("\n{more}\n"), 1));
    let mut alice = client_of(&mut server, "alice");
    let shown = |path: &str| dirs.at(path).to_str().expect("our path").to_owned();
    assert_eq!(output(&mut alice, "pwd"), shown("alice"));
    for (cwd, expected) in [("sub", "alice/sub"), (&shown("more"), "more"), (".", "alice")] {
        let reply = run_with(&mut alice, json!({"command": "pwd", "cwd": cwd}));
        assert_eq!(reply["output"], format!("{}\n", shown(expected)), "{cwd}");
    }
    for cwd in [dirs.at("bob"), dirs.at("."), dirs.at("alice/out"), "/".into(), "..".into()] {
        refuses(&mut alice, &cwd);
    }
    assert!(!dirs.at("bob/made").exists() && !dirs.at("made").exists());
    let mut bob = client_of(&mut server, "bob");
    assert_eq!(output(&mut bob, "pwd"), shown("bob"));
    let mut other = client_of(&mut server, "carol");
    assert_eq!(
        output(&mut other, "pwd"),
        server.work().canonicalize().expect("it").to_str().expect("it")
    );
}

#[test]
fn the_tools_of_all_dialects_and_the_api_keep_to_the_workspace() {
    let dirs = TenantDirs::new();
    let mut server = start_server(&dirs.config(""));
    let mut alice = client_of(&mut server, "alice");
    let here = dirs.at("alice").to_str().expect("our path").to_owned();
    for (tool, arguments) in [
        ("shell", json!({"command": "pwd"})),
        ("execute", json!({"command": "pwd", "args": []})),
        ("run_shell_command", json!({"command": "pwd", "is_background": false})),
        ("execute_command", json!({"command": "pwd"})),
        ("shell_exec", json!({"cmd": "pwd"})),
    ] {
        let said = alice.call(tool, arguments).ok().0.to_string();
        assert!(said.contains(&here), "{tool}: {said}");
    }
    let read = alice.call("read_file", json!({"path": "secret"})).ok().0.to_string();
    assert!(read.contains("alice knows"), "{read}");
    assert!(alice.call("read_file", json!({"path": dirs.at("bob/secret")})).is_error());
    alice.call("write_file", json!({"path": "written", "content": "x"})).ok();
    assert!(dirs.at("alice/written").exists());
    let token = alice.token.clone();
    let mut post = |directory: &Path| {
        let body = json!({"command": "pwd", "directory": directory});
        let request = HttpRequest::post("/api/v1/jobs", &body);
        crate::tenants::ask(&mut server, request, Some(&token))
    };
    let refused = post(&dirs.at("bob"));
    assert!(refused.status >= 400 && refused.text.contains("outside_directories"), "{refused:?}");
    assert!(post(Path::new("sub")).status < 300, "below its workspace");
}

#[test]
fn run_and_stdio_start_in_the_workspace_of_the_local_tenant() {
    let dirs = TenantDirs::new();
    let here = dirs.at("alice").to_str().expect("our path").to_owned();
    let config = format!("[tenants.local]\nworkspace = {here:?}\n");
    let sandbox = Sandbox::new();
    let file = sandbox.write("config.toml", &config);
    let file = file.to_str().expect("our path");
    let output = run_program(&sandbox, &["run", "--config", file, "--", "pwd"]);
    assert_eq!(text(&output.stdout), format!("{here}\n"), "{output:?}");
    let mut server = Launch::stdio().structured().config(&config).start();
    assert_eq!(server.run("pwd")["output"], format!("{here}\n"));
}

#[test]
fn with_a_file_profile_a_tenant_sees_and_writes_its_own_directories_alone() {
    let dirs = TenantDirs::new();
    let secret = dirs.at("bob/secret");
    let secret = secret.to_str().expect("our path");
    for (profile, backend) in
        [("workspace-write", "namespaces"), ("workspace-write", "landlock"), ("read-only", "auto")]
    {
        let common = format!("confinement = {profile:?}");
        let config = format!("{}[confinement]\nbackend = {backend:?}\n", dirs.config(&common));
        let mut server = start_server(&config);
        client_of(&mut server, "bob").start(json!({"command": "echo of bob; sleep 600"}));
        let mut alice = client_of(&mut server, "alice");
        assert_eq!(output(&mut alice, "cat secret"), "alice knows", "{backend}");
        fails(&mut alice, &format!("echo spoilt > {secret}"), "knows");
        let writes = run(&mut alice, "echo mine > sub/own").0 == 0;
        assert_eq!(writes, profile == "workspace-write", "{profile} {backend}");
        // Landlock alone limits writing, not reading.
        if backend != "landlock" {
            fails(&mut alice, &format!("cat {secret}"), "knows");
            let data = server.data().display().to_string();
            assert_eq!(output(&mut alice, &format!("ls -A {data} 2>/dev/null || true")), "");
        }
        assert_eq!(fs::read_to_string(secret).expect("the file"), "bob knows\n");
    }
}

#[test]
fn a_server_that_starts_in_the_root_directory_runs_confined_jobs_in_the_workspace() {
    let dirs = TenantDirs::new();
    let config = dirs.config("confinement = \"workspace-write\"");
    let launch = Launch::http().through(&["sh", "-c", "cd / && exec \"$@\"", "sh"]);
    let launch = launch.args(&["--result-format", "both"]);
    let mut server = launch.config(&config).start_silent();
    let mut alice = client_of(&mut server, "alice");
    assert_eq!(output(&mut alice, "touch made; pwd"), dirs.at("alice").to_str().expect("it"));
}

#[test]
fn a_reload_moves_the_workspace_or_keeps_the_old_one() {
    let dirs = TenantDirs::new();
    let mut server = start_server(&dirs.config(""));
    let mut alice = client_of(&mut server, "alice");
    let file = server.sandbox().path().join("config.toml");
    let set = |path: &Path| {
        let text = format!("[tenants.alice]\nworkspace = {path:?}\n");
        fs::write(&file, text).expect("a file of ours");
    };
    set(&dirs.at("more"));
    server.signal(Signal::HUP);
    server.expect_log("settings reloaded");
    let more = dirs.at("more").to_str().expect("our path").to_owned();
    assert_eq!(output(&mut alice, "pwd"), more);
    set(&dirs.at("nowhere"));
    server.signal(Signal::HUP);
    server.expect_log("tenants.alice.workspace cannot be used");
    assert_eq!(output(&mut alice, "pwd"), more);
}

#[test]
fn a_setting_that_cannot_be_used_is_named_with_the_reason() {
    let sandbox = Sandbox::new();
    let check = |line: &str| {
        let file = sandbox.write("config.toml", &format!("[tenants.alice]\n{line}\n"));
        let file = file.to_str().expect("our path");
        let output = run_program(&sandbox, &["config", "check", "--config", file]);
        assert!(!output.status.success(), "{line}");
        text(&output.stdout) + &text(&output.stderr)
    };
    for (line, key, why) in [
        ("workspace = \"/no/where\"", "workspace", "give a directory that exists"),
        ("workspace = \"here\"", "workspace", "a full path"),
        ("workspace = \"/\"", "workspace", "too wide"),
        ("workspace = \"/usr/share\"", "workspace", "too wide"),
        ("allowed_directories = [\"/tmp\"]", "allowed_directories", "too wide"),
        ("workspace = \"/root\"", "workspace", "`/root`, which belongs to root"),
        ("user = \"no-such-user\"", "user", "no user `no-such-user`"),
        ("user = \"root\"", "user", "`root` is root"),
        ("user = \"daemon\"", "user", "too wide"),
        ("user = \"nobody\"", "user", "the home directory of `nobody`"),
    ] {
        let said = check(line);
        let key = format!("tenants.alice.{key}");
        assert!(said.contains(&key) && said.contains(why), "{line}: {said}");
    }
    let data = sandbox.data();
    fs::create_dir_all(data.join("inner")).expect("ours");
    for path in [&data, &data.join("inner"), &sandbox.path().to_owned()] {
        let said = check(&format!("workspace = {path:?}\n[server]\ndata_dir = {data:?}"));
        assert!(said.contains("which belongs to root or to the server"), "{path:?}: {said}");
    }
    let dirs = TenantDirs::new();
    let limited = format!("[policy]\nallowed_directories = [{:?}]", dirs.at("bob"));
    let said = check(&format!("workspace = {:?}\n{limited}", dirs.at("alice")));
    assert!(said.contains("is not in policy.allowed_directories"), "{said}");
}

#[test]
fn root_is_warned_of_tenants_that_nothing_keeps_apart() {
    if !is_root() {
        return;
    }
    const WARNING: &str = "jobs of several tenants run as root";
    let dirs = TenantDirs::new();
    let both = "[tenants.alice]\nmax_running = 2\n[tenants.bob]\nmax_running = 2\n";
    let limited = dirs.config("confinement = \"workspace-write\"");
    // A workspace alone closes no file of it to other tenants.
    for (config, is_warned) in
        [(both, true), (&dirs.config(""), true), (&limited, false), ("", false)]
    {
        let server = start_server(config);
        let file = server.sandbox().path().join("config.toml");
        let file = file.to_str().expect("our path");
        let doctor = run_program(server.sandbox(), &["doctor", "--config", file]);
        let said = text(&doctor.stdout);
        assert_eq!(said.contains("jobs of alice, bob run as root"), is_warned, "{said}");
        if is_warned {
            server.expect_log(WARNING);
        } else {
            assert!(!server.log_text().contains(WARNING), "{config}");
        }
    }
}

#[test]
fn a_token_that_runs_no_jobs_shares_nothing() {
    if !is_root() {
        return;
    }
    let sandbox = Sandbox::new();
    let data = sandbox.data();
    let config = format!("[tenants.alice]\nmax_running = 2\n[server]\ndata_dir = {data:?}\n");
    let file = sandbox.write("config.toml", &config);
    let file = file.to_str().expect("our path");
    for (role, is_warned) in [("metrics", false), ("read-only", false), ("run", true)] {
        create_token(&sandbox, &["watcher", "--role", role]);
        let doctor = run_program(&sandbox, &["doctor", "--config", file]);
        let said = text(&doctor.stdout);
        assert_eq!(
            said.contains("jobs of alice, watcher run as root"),
            is_warned,
            "{role}: {said}"
        );
    }
}

#[test]
fn a_symlink_in_place_of_a_directory_opens_no_other_one() {
    let dirs = TenantDirs::new();
    let secret = dirs.at("bob/secret");
    let config = |inner: &str| {
        let directories =
            format!("allowed_directories = [{:?}, {:?}]", dirs.at(inner), dirs.at("more"));
        let common = "confinement = \"workspace-write\"";
        let tenants = dirs.config(common).replacen('\n', &format!("\n{directories}\n"), 1);
        format!("{tenants}[confinement]\nbackend = \"landlock\"\n")
    };
    let mut server = start_server(&config("alice/sub"));
    let mut alice = client_of(&mut server, "alice");
    let link = format!("mv sub before && ln -s {} sub", dirs.at("bob").display());
    assert_eq!(output(&mut alice, &link), "");
    fails(&mut alice, "echo spoilt > sub/secret", "knows");
    assert_eq!(fs::read_to_string(&secret).expect("the file"), "bob knows\n");
    // Nor does a reload follow it.
    server.signal(Signal::HUP);
    server.expect_log("tenants.alice.allowed_directories cannot be used");
    fails(&mut alice, "echo spoilt > sub/secret", "knows");
    // No job of hers can do that.
    fs::rename(dirs.at("more"), dirs.at("before")).expect("it is ours");
    symlink(dirs.at("bob"), dirs.at("more")).expect("a link of ours");
    let reply = run_with(&mut alice, json!({"command": "echo spoilt > secret"}));
    let said = reply.error_text();
    assert_eq!(reply["error_code"], "outside_directories", "{said}");
    assert!(said.contains("a directory of tenant alice, leads to"), "{said}");
    assert_eq!(fs::read_to_string(&secret).expect("the file"), "bob knows\n");
}

#[test]
fn the_shipped_unit_starts_jobs_in_a_directory_of_its_own() {
    let unit = include_str!("../../../../config/shellyard.service");
    let value = |key: &str| {
        let line = unit.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='));
        line.unwrap_or_else(|| panic!("no {key}")).to_owned()
    };
    let work = value("WorkingDirectory");
    let name = work.strip_prefix("%S/").expect("a state directory");
    assert!(value("StateDirectory").split(' ').any(|made| made == name), "it is created");
    // The data directory is hidden from sandboxed jobs.
    let data = value("Environment=SHELLYARD_SERVER_DATA_DIR");
    assert!(!Path::new(&work).starts_with(&data), "{work} is in {data}");
}
