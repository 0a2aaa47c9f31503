//! The data directory is private, and no symlink in it is followed.

use std::fs::{self, Permissions};
use std::io::Read as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use rustix::process::{Signal, geteuid};

use crate::harness::{Launch, Sandbox, eventually, output_of, private_dir, run_program, text};

/// Commands that use the data directory, and the exit code of each when it is refused.
const VERBS: [(&[&str], i32); 5] = [
    (&["serve", "--bind", "127.0.0.1:0"], 1),
    (&["stdio"], 1),
    (&["server", "shell"], 1),
    (&["run", "--", "true"], 125),
    (&["token", "new", "ci"], 1),
];

#[track_caller]
fn assert_refused(output: &Output, code: i32, words: &[&str]) {
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{said}");
    for word in words {
        assert!(said.contains(word), "{word}: {said}");
    }
}

/// Adds the data directory to a command; `run` takes flags only before its command.
fn with_data<'a>(verb: &[&'a str], data: &'a str) -> Vec<&'a str> {
    let mut arguments = verb.to_vec();
    let end = arguments.iter().position(|word| *word == "--").unwrap_or(arguments.len());
    arguments.splice(end..end, ["--data-dir", data]);
    arguments
}

#[test]
fn a_data_directory_open_to_others_is_refused_with_the_next_command() {
    let sandbox = Sandbox::new();
    let data = sandbox.data().display().to_string();
    for mode in [0o755, 0o770, 0o707] {
        fs::set_permissions(sandbox.data(), Permissions::from_mode(mode)).expect("it is ours");
        for (verb, code) in VERBS {
            let output = run_program(&sandbox, &with_data(verb, &data));
            assert_refused(&output, code, &[&format!("chmod 700 {data}"), "--data-dir"]);
        }
    }
    assert!(!sandbox.data().join("tokens").exists(), "nothing was written");
    fs::set_permissions(sandbox.data(), Permissions::from_mode(0o700)).expect("it is ours");
    assert!(run_program(&sandbox, &with_data(&["run", "--", "true"], &data)).status.success());
}

#[test]
fn the_data_directory_of_another_user_is_refused_with_the_next_command() {
    let sandbox = Sandbox::new();
    let data = sandbox.data().display().to_string();
    if geteuid().is_root() {
        std::os::unix::fs::chown(sandbox.data(), Some(65534), None).expect("we are root");
        for (verb, code) in VERBS {
            let output = run_program(&sandbox, &with_data(verb, &data));
            assert_refused(&output, code, &[&format!("chown 0 {data}"), "65534", "--data-dir"]);
        }
        std::os::unix::fs::lchown(sandbox.data(), Some(0), None).expect("we are root");
    }
    // The directory of our own user is accepted.
    let output = run_program(&sandbox, &with_data(&["run", "--", "true"], &data));
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn the_fallback_in_the_temporary_directory_is_checked_too() {
    let sandbox = Sandbox::new();
    let run = || {
        let mut command = sandbox.command();
        command.env_remove("HOME").env("TMPDIR", sandbox.path()).args(["run", "--", "true"]);
        output_of(command, "")
    };
    let data = sandbox.path().join(format!("shellyard-{}", geteuid().as_raw()));
    assert!(run().status.success());
    assert_eq!(fs::metadata(&data).expect("it was made").permissions().mode() & 0o777, 0o700);
    fs::set_permissions(&data, Permissions::from_mode(0o777)).expect("it is ours");
    assert_refused(&run(), 125, &["chmod 700", "shellyard-"]);
}

#[test]
fn a_symlink_is_followed_to_a_private_directory_but_not_to_an_open_one() {
    let target = private_dir();
    let sandbox = Sandbox::new();
    let link = sandbox.path().join("link");
    symlink(target.path(), &link).expect("a link of ours");
    let server = Launch::http().data(&link).start();
    assert!(target.path().join("shellyard.sock").exists());
    drop(server);
    fs::set_permissions(target.path(), Permissions::from_mode(0o750)).expect("it is ours");
    let link = link.display().to_string();
    let output = run_program(&sandbox, &with_data(&["run", "--", "true"], &link));
    assert_refused(&output, 125, &["chmod 700"]);
}

/// A file in the data directory, and a command that opens it.
type FileOpening = (&'static str, fn(&Sandbox) -> Output);

const OPENINGS: [FileOpening; 8] = [
    ("server.pid", serve),
    ("tokens", serve),
    ("audit.jsonl", serve),
    ("audit.jsonl.head", serve),
    ("tokens", new_token),
    ("tokens.lock", new_token),
    ("server.lock", start_on_demand),
    ("server.log", start_on_demand),
];

fn serve(sandbox: &Sandbox) -> Output {
    let data = sandbox.data().display().to_string();
    let config = sandbox.write("config.toml", "[audit]\non_failure = \"refuse\"\n");
    let config = config.display().to_string();
    let serve = ["serve", "--bind", "127.0.0.1:0", "--config", &config];
    run_program(sandbox, &with_data(&serve, &data))
}

fn new_token(sandbox: &Sandbox) -> Output {
    let data = sandbox.data().display().to_string();
    run_program(sandbox, &with_data(&["token", "new", "ci"], &data))
}

fn start_on_demand(sandbox: &Sandbox) -> Output {
    let mut command = sandbox.command();
    command.args(["stdio", "--connect", "--ensure-server", "--data-dir"]).arg(sandbox.data());
    output_of(command, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n")
}

#[test]
fn no_file_in_the_data_directory_is_opened_through_a_symlink() {
    for (name, program) in OPENINGS {
        let sandbox = Sandbox::new();
        let precious = sandbox.write("precious", "it-token-5b1c0e4f9a7d43e2b6c8\n");
        symlink(&precious, sandbox.data().join(name)).expect("a link of ours");
        let output = program(&sandbox);
        let said = text(&output.stderr) + &text(&output.stdout);
        assert!(said.contains("symbolic link"), "{name}: {said}");
        let kept = fs::read_to_string(&precious).expect("the file");
        assert_eq!(kept, "it-token-5b1c0e4f9a7d43e2b6c8\n", "{name}");
    }
}

#[test]
fn a_token_file_that_becomes_a_symlink_admits_nobody() {
    let mut server = Launch::http().start();
    let file = server.sandbox().data().join("tokens");
    let other = server.sandbox().write("other", "it-token-5b1c0e4f9a7d43e2b6c8\n");
    symlink(other, file).expect("a link of ours");
    server.http().use_token("it-token-5b1c0e4f9a7d43e2b6c8");
    let request = crate::harness::HttpRequest::get("/metrics")
        .header("Authorization", "Bearer it-token-5b1c0e4f9a7d43e2b6c8");
    assert_eq!(super::status_of(&mut server, &request), 401);
    server.expect_log("symbolic link");
}

/// Starts a second server there, which must be refused, and returns its error output.
#[track_caller]
fn refused_server(data: &Path) -> String {
    let (sandbox, data) = (Sandbox::new(), data.display().to_string());
    let output = run_program(&sandbox, &with_data(&["serve", "--bind", "127.0.0.1:0"], &data));
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    text(&output.stderr)
}

#[test]
fn one_server_uses_a_data_directory_and_a_second_one_is_told_which() {
    let data = private_dir();
    let launch = || Launch::http().structured().data(data.path());
    let mut first = launch().start();
    assert_eq!(first.run("true").job(), 1);
    let said = refused_server(data.path());
    let socket = data.path().join("shellyard.sock").display().to_string();
    for word in [&format!("process {}", first.server_pid()), &socket, "--data-dir"] {
        assert!(said.contains(word), "{word}: {said}");
    }
    assert_eq!(first.run("true").job(), 2, "the first one goes on");
    first.signal(Signal::KILL);
    first.wait_exit();
    assert!(data.path().join("server.pid").exists(), "SIGKILL leaves the file");
    let mut second = launch().start();
    assert!(second.run("true").job() > 2, "no number is given out twice");
    assert!(refused_server(data.path()).contains(&format!("process {}", second.server_pid())));
    second.signal(Signal::TERM);
    assert!(second.wait_exit().success());
    launch().start().assert_alive();
}

#[test]
fn stdio_servers_have_their_own_spill_directories_which_end_with_them() {
    let data = private_dir();
    let count = || fs::read_dir(data.path().join("spill")).expect("it is there").count();
    let mut shared = Launch::http().structured().data(data.path()).start();
    assert_eq!(shared.run("true").job(), 1);
    let launch = || Launch::stdio().structured().data(data.path()).start();
    let [mut ended, mut killed, mut last] = [launch(), launch(), launch()];
    for server in [&mut ended, &mut killed, &mut last] {
        let job = server.run("seq 1 100000").job();
        assert_eq!(job, 1, "each counts for itself");
        assert_eq!(server.read_raw(job, "bytes:500000", 20)["total_bytes"], 588_895);
    }
    assert_eq!(count(), 3);
    for entry in fs::read_dir(data.path().join("spill")).expect("it is there").flatten() {
        let mode = entry.metadata().expect("it is there").permissions().mode();
        assert_eq!(mode & 0o777, 0o700, "{entry:?}");
    }
    ended.stdio().hang_up();
    ended.wait_exit();
    assert_eq!(count(), 2, "a directory goes with its server");
    killed.signal(Signal::KILL);
    killed.wait_exit();
    assert_eq!(count(), 2, "SIGKILL leaves it");
    let next = launch();
    eventually("the next server removes it, and no other", || count() == 1);
    for server in [&mut last, &mut shared] {
        server.run("seq 1 100000");
    }
    drop(next);
}

/// A program of another user that listens on a socket and records what it receives.
const LISTENER: &str = "
import os, socket, sys
listener = socket.socket(socket.AF_UNIX)
listener.bind(sys.argv[1])
os.chmod(sys.argv[1], 0o777)
listener.listen()
while True:
    connection, _ = listener.accept()
    connection.settimeout(5)
    try:
        heard = connection.recv(65536)
    except OSError:
        heard = b''
    with open(sys.argv[2], 'ab') as file:
        file.write(b'connected:' + heard + b'\\n')
    connection.close()
";

#[test]
fn a_client_sends_nothing_to_the_server_of_another_user() {
    if !geteuid().is_root() {
        eprintln!("only root can listen as another user: not tried");
        return;
    }
    let sandbox = Sandbox::new();
    let open = sandbox.path().join("open");
    fs::create_dir(&open).expect("a directory of ours");
    for path in [sandbox.path(), &open] {
        fs::set_permissions(path, Permissions::from_mode(0o777)).expect("it is ours");
    }
    let (socket, heard) = (open.join("s.sock"), open.join("heard"));
    let mut command = Command::new("setpriv");
    command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups", "/usr/bin/python3"]);
    command.args(["-c", LISTENER]).args([&socket, &heard]).stdin(Stdio::null());
    let mut listener = command.spawn().expect("it starts");
    eventually("it listens", || {
        fs::metadata(&socket).is_ok_and(|it| it.permissions().mode() & 0o777 == 0o777)
    });
    let socket = socket.display().to_string();
    let said = jobs_at(&sandbox, &socket);
    let proxy = proxy_at(&sandbox, &socket);
    eventually("both have come", || heard_by(&heard).matches("connected:").count() >= 2);
    listener.kill().expect("it is ours");
    listener.wait().expect("it is ours");
    for said in [said, proxy] {
        assert!(said.contains("user 65534") && said.contains("nothing was sent"), "{said}");
    }
    let heard = heard_by(&heard);
    assert!(!heard.contains("it-token") && !heard.contains("HTTP"), "{heard}");
}

fn heard_by(path: &Path) -> String {
    let mut text = String::new();
    fs::File::open(path).and_then(|mut file| file.read_to_string(&mut text)).ok();
    text
}

fn jobs_at(sandbox: &Sandbox, socket: &str) -> String {
    let mut command = sandbox.command();
    command
        .args(["jobs", "--connect", socket])
        .env("SHELLYARD_TOKEN", "it-token-5b1c0e4f9a7d43e2b6c8");
    let output = output_of(command, "");
    assert_eq!(output.status.code(), Some(1));
    text(&output.stderr)
}

fn proxy_at(sandbox: &Sandbox, socket: &str) -> String {
    let mut command = sandbox.command();
    command
        .args(["stdio", "--connect", socket])
        .env("SHELLYARD_TOKEN", "it-token-5b1c0e4f9a7d43e2b6c8");
    let output = output_of(command, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n");
    text(&output.stdout)
}
