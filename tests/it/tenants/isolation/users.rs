//! Tenants with users of their own: their jobs and file calls are those of the user, and of no other.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::process::Stdio;

use rustix::process::Signal;
use serde_json::json;

use super::separated::{
    DAEMON, HostUser, SYS, TenantDirs, client_of, fails, is_root, output, run, run_with,
    start_server,
};
use super::world::TenantSession;
use crate::harness::{
    Launch, Marker, Sandbox, eventually, output_of, signal, text, without_privileges,
};

/// Each profile with each means that enforces it.
const SANDBOXES: [(&str, &str); 5] = [
    ("none", "auto"),
    ("default", "auto"),
    ("workspace-write", "namespaces"),
    ("workspace-write", "landlock"),
    ("read-only", "namespaces"),
];

fn config(dirs: &TenantDirs, profile: &str, backend: &str) -> String {
    let tenants = dirs.config_with_users("");
    format!("{tenants}[confinement]\nprofile = {profile:?}\nbackend = {backend:?}\n")
}

#[test]
fn jobs_run_as_the_user_with_its_login_and_without_privileges() {
    if !is_root() {
        return;
    }
    let dirs = TenantDirs::new();
    for (profile, backend) in SANDBOXES {
        let mut server = start_server(&config(&dirs, profile, backend));
        let mut alice = client_of(&mut server, "alice");
        let HostUser { name, uid } = DAEMON;
        let case = format!("{profile} {backend}");
        let ids = "grep -E '^(Uid|Gid|Groups|CapPrm|CapEff|CapAmb):' /proc/self/status | tr -s '\\t ' ' '";
        let zero = "0000000000000000";
        let all = format!("{uid} {uid} {uid} {uid}");
        let expected = format!(
            "Uid: {all}\nGid: {all}\nGroups: {uid} \nCapPrm: {zero}\nCapEff: {zero}\nCapAmb: {zero}"
        );
        assert_eq!(output(&mut alice, ids), expected, "{case}");
        assert_eq!(
            output(&mut alice, "echo $HOME $USER $LOGNAME $SHELL"),
            format!("/usr/sbin {name} {name} /usr/sbin/nologin"),
            "{case}"
        );
        assert_eq!(output(&mut alice, "cat secret; pwd").lines().next(), Some("alice knows"));
        assert_eq!(output(&mut alice, "echo a > /dev/stderr; echo b > /dev/stdout"), "a\nb");
        let tty = run_with(&mut alice, json!({"command": "echo x > /dev/tty; id -u", "tty": true}));
        assert!(
            tty["output"].as_str().is_some_and(
                |it| it.contains(&format!("x\r\n{uid}")) || it.contains(&format!("x\n{uid}"))
            ),
            "{case}: {}",
            tty.0
        );
        let env = json!({"command": "echo $HOME", "env": {"HOME": "/of/the/call"}});
        assert_eq!(run_with(&mut alice, env)["output"], "/of/the/call\n", "{case}");
        fails(&mut alice, "setpriv --reuid 0 --clear-groups id", "uid=0");
    }
}

#[test]
fn no_user_reads_or_writes_files_logs_or_temporary_files_of_another() {
    if !is_root() {
        return;
    }
    let dirs = TenantDirs::new();
    for (profile, backend) in SANDBOXES {
        let mut server = start_server(&config(&dirs, profile, backend));
        let case = format!("{profile} {backend}");
        let mut bob = client_of(&mut server, "bob");
        let temporary = output(&mut bob, "f=$(mktemp); echo bob knows > $f; echo ${TMPDIR}");
        let job = bob.start(json!({"command": "mktemp; echo bob knows; sleep 600"}));
        bob.call("wait_jobs", json!({"jobs": [job], "until": "knows", "wait_s": 40})).ok();
        let mut alice = client_of(&mut server, "alice");
        let mode = output(&mut alice, "stat -c '%a %u' $TMPDIR");
        assert_eq!(mode, format!("700 {}", DAEMON.uid), "{case}");
        for place in [dirs.at("bob"), server.data().to_owned()] {
            let place = place.display();
            let grep = format!("grep -rs knows {place}");
            fails(&mut alice, &grep, "knows");
            fails(&mut alice, &format!("ls -A {place} | grep ."), "secret");
            fails(&mut alice, &format!("echo x > {place}/made"), "knows");
        }
        // In a namespace this is her own.
        if temporary != "/tmp" {
            fails(&mut alice, &format!("ls {temporary}"), "tmp.");
        }
        fails(&mut alice, "grep -rs 'bob knows' /tmp/shellyard-*", "knows");
        assert_eq!(fs::metadata(dirs.at("bob/secret")).expect("it is there").uid(), SYS.uid);
    }
}

#[test]
fn temporary_files_last_from_one_job_to_the_next_and_end_with_the_server() {
    if !is_root() {
        return;
    }
    let dirs = TenantDirs::new();
    let mut server = start_server(&dirs.config_with_users(""));
    let mut alice = client_of(&mut server, "alice");
    let file = output(&mut alice, "mktemp");
    assert_eq!(output(&mut alice, &format!("echo kept > {file}; cat {file}")), "kept");
    assert_eq!(output(&mut alice, &format!("cat {file}")), "kept");
    server.signal(Signal::TERM);
    server.wait_exit();
    eventually("it is removed", || !std::path::Path::new(&file).exists());
}

#[test]
fn a_job_of_another_user_cannot_signal_its_server_and_is_stopped_by_it() {
    if !is_root() {
        return;
    }
    let dirs = TenantDirs::new();
    for (profile, backend) in SANDBOXES {
        let mut server = start_server(&config(&dirs, profile, backend));
        let mut alice = client_of(&mut server, "alice");
        for pid in [server.pid(), server.server_pid()] {
            fails(&mut alice, &format!("kill -9 {pid}"), "uid=0");
        }
        let marker = Marker::new();
        let job = alice
            .start(json!({"command": format!("trap '' TERM; sleep {marker} & sleep {marker}")}));
        marker.wait_alive();
        alice.call("stop_jobs", json!({"jobs": [job], "grace_s": 0})).ok();
        alice.wait(job);
        marker.wait_gone();
    }
}

#[test]
fn file_calls_have_the_rights_of_the_user() {
    if !is_root() {
        return;
    }
    let dirs = TenantDirs::new();
    fs::write(dirs.at("alice/of-root"), "root knows\n").expect("a file of ours");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    fs::set_permissions(dirs.at("alice/of-root"), mode).expect("it is ours");
    let mut server = start_server(&dirs.config_with_users(""));
    let mut alice = client_of(&mut server, "alice");
    alice.call("write_file", json!({"path": "written", "content": "x"})).ok();
    let made = fs::metadata(dirs.at("alice/written")).expect("it is there");
    assert_eq!((made.uid(), made.gid()), (DAEMON.uid, DAEMON.uid));
    let refused = alice.call("read_file", json!({"path": "of-root"}));
    assert!(refused.is_error() && !refused.0.to_string().contains("knows"), "{}", refused.0);
    let refused = alice.call("write_file", json!({"path": "of-root", "content": "x"}));
    assert!(refused.is_error(), "{}", refused.0);
    assert!(refused.0.to_string().contains("the user that jobs run as may not"), "{}", refused.0);
    // The thread of the call has its own rights again.
    let mut local = client_of(&mut server, "carol");
    for _ in 0..20 {
        alice.call("read_file", json!({"path": "secret"})).ok();
        local.call("write_file", json!({"path": "of-carol", "content": "x"})).ok();
        let made = fs::metadata(server.work().join("of-carol")).expect("it is there");
        assert_eq!(made.uid(), 0);
        fs::remove_file(server.work().join("of-carol")).expect("it is ours");
    }
}

#[test]
fn a_waiting_job_starts_as_its_user_after_a_crash() {
    if !is_root() {
        return;
    }
    let dirs = TenantDirs::new();
    let config =
        dirs.config_with_users("").replace("[tenants.bob]", "max_running = 1\n[tenants.bob]");
    let mut server = start_server(&config);
    let marker = Marker::new();
    let mut alice = client_of(&mut server, "alice");
    let running = alice.start(json!({"command": format!("sleep {marker}")}));
    marker.wait_alive();
    let waiting = alice.start(json!({"command": "id -u; pwd"}));
    let before = server.server_pid();
    signal(i32::try_from(before).expect("a pid fits"), Signal::KILL);
    eventually("the next server is there", || server.server_pid() != before);
    server.expect_log("shellyard");
    let mut alice = client_of(&mut server, "alice");
    alice.call("stop_jobs", json!({"jobs": [running]})).ok();
    let ended = alice.wait(waiting);
    let shown = format!("{}\n{}\n", DAEMON.uid, dirs.at("alice").display());
    assert_eq!(ended["output"], shown, "{ended}");
}

#[test]
fn a_server_that_may_not_switch_users_says_so_at_its_start() {
    if !is_root() {
        return;
    }
    let dirs = TenantDirs::new();
    let sandbox = Sandbox::new();
    let file = sandbox.write("config.toml", &dirs.config_with_users(""));
    let mut serve = sandbox.command_through(without_privileges());
    serve.args(["serve", "--bind", "none", "--config"]).arg(file).arg("--data-dir");
    serve.arg(sandbox.data()).stderr(Stdio::piped());
    sandbox.give_to(65534);
    let output = output_of(serve, "");
    let said = text(&output.stderr);
    assert!(!output.status.success(), "{said}");
    assert!(said.contains("tenants.alice.user cannot be used"), "{said}");
    assert!(said.contains("start it as root"), "{said}");
}

#[test]
fn a_user_may_not_run_where_only_root_may() {
    if !is_root() {
        return;
    }
    let dirs = TenantDirs::new();
    let mut server = start_server(&dirs.config_with_users(""));
    let mut alice = client_of(&mut server, "alice");
    let (code, shown) = run(&mut alice, "cat /etc/shadow");
    assert!(code != 0 && !shown.contains("root:"), "{shown}");
}

#[test]
fn no_hint_tells_a_user_whether_a_file_of_another_exists() {
    if !is_root() {
        return;
    }
    const HINT: &str = "where the job started";
    let dirs = TenantDirs::new();
    let mut server = start_server(&dirs.config_with_users(""));
    let hints = |client: &mut TenantSession, name: &str| {
        // The job itself says what it has not found.
        let said = format!("echo 'sh: 1: {name}: not found' >&2; exit 127");
        let reply = run_with(client, json!({"command": format!("{name} 2>/dev/null; {said}")}));
        reply.0.to_string().contains(HINT)
    };
    let mut alice = client_of(&mut server, "alice");
    for name in ["../bob/secret", "../bob/no-such-file"] {
        assert!(!hints(&mut alice, name), "{name}");
    }
    let mut carol = client_of(&mut server, "carol");
    assert!(hints(&mut carol, "./no-such-file"), "jobs as the server's user get one");
}

#[test]
fn a_program_of_one_tenant_reloads_settings_with_users_of_others() {
    let dirs = TenantDirs::new();
    let config = format!("[tenants.alice]\nuser = \"daemon\"\nworkspace = {:?}\n", dirs.at("more"));
    let server = Launch::stdio().unprivileged().config(&config).start();
    server.signal(Signal::HUP);
    server.expect_log("settings reloaded");
}
