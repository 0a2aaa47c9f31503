//! Every way out of a sandbox that is known to have worked somewhere: programs outside that act for
//! whoever reaches their socket, and processes outside that can be looked into.
//!
//! What is executed later is in [`super::guarded`], the network in [`super::sockets`].

use std::collections::BTreeMap;
use std::fs;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use serde_json::json;
use tempfile::TempDir;

use super::world::{EscapeWorld, Means, SandboxCase, python};
use crate::harness::eventually;

/// Something that a job must not do, in words, and how it tries.
struct WayOut {
    name: &'static str,
    /// Ends well only if it worked.
    command: String,
}

/// The programs and sockets outside. They go when this is dropped.
struct Outside {
    _places: Vec<TempDir>,
    _listeners: Vec<UnixListener>,
    _datagrams: UnixDatagram,
    processes: Vec<Child>,
    evidence: PathBuf,
    ways: Vec<WayOut>,
}

impl Drop for Outside {
    fn drop(&mut self) {
        for process in &mut self.processes {
            process.kill().ok();
            process.wait().ok();
        }
    }
}

/// Services that act for whoever connects, by where they listen.
const SERVICES: [(&str, &str); 14] = [
    ("the bus of the session", "RUN/user/bus"),
    ("the bus of the system", "RUN/dbus/system_bus_socket"),
    ("docker", "RUN/docker.sock"),
    ("podman", "RUN/podman/podman.sock"),
    ("containerd", "RUN/containerd/containerd.sock"),
    ("systemd", "RUN/systemd/private"),
    ("the keyring", "RUN/user/keyring/control"),
    ("lxd", "SRV/lxd/unix.socket"),
    ("gpg-agent", "HOME/.gnupg/S.gpg-agent"),
    ("a service in the home directory", "HOME/agent.sock"),
    ("a service among tools that are shown", "HOME/.cargo/agent.sock"),
    ("X11 by its file", "TMP/.X11-unix/X99"),
    ("a service in shared memory", "SHM/service.sock"),
    ("the server itself", "DATA/shellyard.sock"),
];

impl Outside {
    /// Starts everything that can be reached from outside of a sandbox, for this world's user.
    fn start(world: &EscapeWorld) -> Self {
        let sandbox = world.server.sandbox().path();
        let places =
            [runtime_directory(), "/dev/shm".into(), "/tmp".into(), EscapeWorld::place().into()]
                .map(|place| shared_directory(&place));
        let [run, shm, tmp, srv] = [0, 1, 2, 3].map(|at| places[at].path().to_owned());
        let (home, data) = (sandbox.join("home"), sandbox.join("data"));
        let below = |text: &str| {
            let (place, rest) = text.split_once('/').expect("a place and a name");
            let place = match place {
                "RUN" => &run,
                "SHM" => &shm,
                "TMP" => &tmp,
                "HOME" => &home,
                "DATA" => &data,
                _ => &srv,
            };
            place.join(rest)
        };
        let mut listeners = Vec::new();
        let mut ways = Vec::new();
        for (name, place) in SERVICES {
            let path = below(place);
            listeners.push(listen(&path));
            ways.push(WayOut { name, command: connect(&path.display().to_string()) });
        }
        let name = format!("/tmp/.X11-unix/X{}", world.server.pid());
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        listeners.push(UnixListener::bind_addr(&address).unwrap());
        ways.push(WayOut {
            name: "X11 by its abstract name",
            command: connect(&format!("\\0{name}")),
        });
        let datagrams = UnixDatagram::bind(tmp.join("datagrams")).unwrap();
        open_to_all(&tmp.join("datagrams"));
        ways.push(pass_a_file(&tmp.join("datagrams")));
        let evidence = sandbox.join("evidence");
        let mut outside = Self {
            _places: places.into(),
            _listeners: listeners,
            _datagrams: datagrams,
            processes: Vec::new(),
            evidence,
            ways,
        };
        outside.add_tmux(world, &tmp);
        outside.add_agent(world, &tmp);
        outside.add_process(world);
        outside
    }

    /// A terminal multiplexer executes commands for its clients.
    fn add_tmux(&mut self, world: &EscapeWorld, place: &Path) {
        let socket = place.join("tmux");
        let mut command = world.outside("tmux");
        command.arg("-S").arg(&socket).args(["-f", "/dev/null", "-D"]);
        self.processes.push(command.spawn().expect("tmux is installed"));
        let (socket, evidence) = (socket.display(), self.evidence.display());
        eventually("tmux listens", || Path::new(&socket.to_string()).exists());
        let command = format!(
            "tmux -S {socket} new-session -d 'echo evil >{evidence}; sleep 5' && \
             for i in $(seq 50); do test -s {evidence} && exit 0; sleep 0.1; done; exit 1"
        );
        self.ways.push(WayOut { name: "tmux", command });
    }

    /// An agent signs whatever its clients want, by a path or by a variable.
    fn add_agent(&mut self, world: &EscapeWorld, place: &Path) {
        let socket = place.join("agent");
        let mut command = world.outside("ssh-agent");
        command.arg("-D").arg("-a").arg(&socket).stdout(std::process::Stdio::null());
        self.processes.push(command.spawn().expect("ssh-agent is installed"));
        eventually("the agent listens", || socket.exists());
        let list = "ssh-add -l; test $? -ne 2";
        let by_path = format!("export SSH_AUTH_SOCK={}; {list}", socket.display());
        self.ways.push(WayOut { name: "ssh-agent by its path", command: by_path });
        let by_name = "test -n \"$SSH_AUTH_SOCK$DBUS_SESSION_BUS_ADDRESS$DOCKER_HOST$DISPLAY\"";
        self.ways.push(WayOut { name: "agents by variables", command: by_name.to_owned() });
    }

    /// A process of the same user, in which one could look around.
    fn add_process(&mut self, world: &EscapeWorld) {
        let process = world.outside("sleep").arg("1000").spawn().unwrap();
        let number = process.id();
        self.processes.push(process);
        for (name, command) in [
            ("the root of a process", format!("ls /proc/{number}/root/")),
            ("the directory of a process", format!("ls /proc/{number}/cwd/")),
            ("the files of a process", format!("cat /proc/{number}/fd/0")),
            ("the memory of a process", format!("exec 3<>/proc/{number}/mem")),
            ("the variables of a process", format!("grep -a HOME= /proc/{number}/environ")),
        ] {
            self.ways.push(WayOut { name, command });
        }
    }
}

/// A directory of the host's `/run` that this test may write to.
fn runtime_directory() -> PathBuf {
    let own = format!("/run/user/{}", rustix::process::geteuid().as_raw());
    let usual = [PathBuf::from("/run"), own.into()].into_iter();
    let mut writable = usual.filter(|place| tempfile::tempdir_in(place).is_ok());
    writable.next().expect("a directory in /run can be written")
}

/// A directory in which every user finds what is in it.
fn shared_directory(place: &Path) -> TempDir {
    let directory = tempfile::tempdir_in(place).unwrap();
    open_to_all(directory.path());
    directory
}

fn open_to_all(path: &Path) {
    fs::set_permissions(path, fs::Permissions::from_mode(0o777)).unwrap();
}

fn listen(path: &Path) -> UnixListener {
    let around = path.parent().unwrap();
    for directory in around.ancestors().filter(|it| !it.exists()).collect::<Vec<_>>().iter().rev() {
        fs::create_dir(directory).unwrap();
        open_to_all(directory);
    }
    let listener = UnixListener::bind(path).unwrap();
    open_to_all(path);
    listener
}

fn connect(address: &str) -> String {
    python(&format!("socket.socket(socket.AF_UNIX).connect(\"{address}\")"))
}

/// A helper that receives an open file from a job could be made to write to it.
fn pass_a_file(path: &Path) -> WayOut {
    let path = path.display();
    let command = python(&format!(
        "one, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
one.sendmsg([b\"x\"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, b\"\\x01\\0\\0\\0\")], 0, \"{path}\")"
    ));
    WayOut { name: "passing a file by a datagram", command }
}

/// Variables of the server that name agents; jobs in profiles without files of their own get them.
const AGENTS: [(&str, &str); 4] = [
    ("SSH_AUTH_SOCK", "/tmp/agent"),
    ("DBUS_SESSION_BUS_ADDRESS", "unix:path=/run/user/0/bus"),
    ("DOCKER_HOST", "unix:///run/docker.sock"),
    ("DISPLAY", ":0"),
];

/// The ways that lead out of a world's file profiles.
fn ways_that_lead_out(world: &mut EscapeWorld) -> Vec<String> {
    let outside = Outside::start(world);
    assert!(outside.ways.len() >= 22, "{}", outside.ways.len());
    let mut found = Vec::new();
    for way in &outside.ways {
        let variables = json!({"env": BTreeMap::from(AGENTS)});
        let open = world.attempt_with(SandboxCase::Open, &way.command, variables.clone());
        assert!(open.worked(), "{} proves nothing: {open:?}", way.name);
        fs::remove_file(&outside.evidence).ok();
        for shut in SandboxCase::FILES {
            let attempt = world.attempt_with(shut, &way.command, variables.clone());
            if attempt.worked() || outside.evidence.exists() {
                found.push(format!("{}, {}: {attempt:?}", way.name, world.name(shut)));
            }
            fs::remove_file(&outside.evidence).ok();
        }
    }
    found
}

#[test]
fn no_known_way_leads_out_of_the_file_profiles() {
    for mut world in EscapeWorld::all() {
        let found = ways_that_lead_out(&mut world);
        assert!(found.is_empty(), "{} ways out: {found:#?}", found.len());
    }
}

/// A socket that is made after the job has started.
#[test]
fn a_service_that_starts_later_is_not_reached_where_services_listen() {
    for mut world in EscapeWorld::each_user(Means::Namespaces, "") {
        let home = world.server.sandbox().path().join("home");
        let places =
            [runtime_directory(), "/dev/shm".into(), "/tmp".into(), "/var/tmp".into(), home]
                .map(|place| shared_directory(&place));
        for shut in SandboxCase::FILES {
            let go = world.server.work().join("go");
            fs::remove_file(&go).ok();
            let sockets = places.each_ref().map(|place| place.path().join("late.sock"));
            let paths: Vec<String> =
                sockets.iter().map(|path| format!("\"{}\"", path.display())).collect();
            let text = python(&format!(
                "import time
while not os.path.exists(\"go\"): time.sleep(0.01)
for path in [{}]:
    try: socket.socket(socket.AF_UNIX).connect(path)
    except OSError: continue
    print(path)",
                paths.join(", ")
            ));
            let job = world.call(shut, &text, json!({"wait_s": 0})).ok().job();
            let listeners = sockets.each_ref().map(|path| listen(path));
            fs::write(&go, "").unwrap();
            let ended = world.server.wait_finished(job);
            assert_eq!(ended["exit_code"], 0, "{ended}");
            let output = world.server.call("read_output", json!({"job": job})).ok();
            assert!(!output.text().contains("late.sock"), "{}: {}", world.name(shut), output.0);
            drop(listeners);
            sockets.iter().for_each(|path| fs::remove_file(path).unwrap());
        }
    }
}

/// Everyday work in a home that is empty but for tools.
#[test]
fn tools_in_the_home_directory_work_and_what_is_written_there_goes() {
    let set_up = "mkdir -p ~/.cargo/bin ~/.cargo/registry ~/private bin
        printf \"#!/bin/sh\\necho tool\\n\" >~/.cargo/bin/tool; chmod +x ~/.cargo/bin/tool
        echo token >~/.cargo/credentials.toml; echo secret >~/private/file
        printf \"[user]\\nname = me\\nemail = me@here\\n\" >~/.gitconfig";
    let look = "set -e; PATH=$HOME/.cargo/bin:$PATH; tool; git config user.name
        test ! -s ~/.cargo/credentials.toml; test ! -e ~/private
        mkdir -p ~/.cache/some; echo x >~/.cache/some/file; cat ~/.cache/some/file
        ! touch ~/.cargo/new 2>/dev/null; ls -A /tmp /run | grep -c evil || true";
    for mut world in EscapeWorld::each_user(Means::Namespaces, "") {
        world.prepare(set_up);
        for shut in SandboxCase::FILES {
            let attempt = world.attempt(shut, look);
            assert_eq!(attempt.output, "tool\nme\nx\n0\n", "{}: {attempt:?}", world.name(shut));
        }
        let home = world.server.sandbox().path().join("home");
        assert!(!home.join(".cache").exists() && !home.join(".cargo/new").exists());
    }
}

/// Tools are found by the server's own PATH, also in a directory that nothing names.
#[test]
fn programs_of_the_path_are_seen_wherever_they_are() {
    let place = shared_directory(Path::new("/tmp"));
    let directory = place.path().join("venv/bin");
    for made in [place.path().join("venv"), directory.clone()] {
        fs::create_dir(&made).unwrap();
        open_to_all(&made);
    }
    let tool = directory.join("tool");
    let text = "#!/bin/sh\ncat \"$(dirname \"$0\")/../library\"\n";
    fs::write(place.path().join("text"), text).unwrap();
    fs::write(place.path().join("venv/library"), "found\n").unwrap();
    // By another process: what this one writes, a child of another test may hold as it is born.
    let mut install = Command::new("install");
    install.args(["-m", "755"]).arg(place.path().join("text")).arg(&tool);
    assert!(install.status().unwrap().success());
    let path = format!("{}:/usr/local/bin:/usr/bin:/bin", directory.display());
    for mut world in EscapeWorld::each_user(Means::Namespaces, "") {
        for shut in SandboxCase::FILES {
            let attempt = world.attempt_with(shut, "tool", json!({"env": {"PATH": path}}));
            assert_eq!(attempt.output, "found\n", "{}: {attempt:?}", world.name(shut));
        }
    }
}
