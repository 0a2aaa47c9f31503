//! Landlock on threads of this process: it ends with its thread. What is refused must have been
//! possible without it.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd as _;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::fs::symlink;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::process::{Command, Stdio};

use super::*;

/// A workspace, and something beside it.
struct Ground {
    _dir: tempfile::TempDir,
    inside: PathBuf,
    outside: PathBuf,
}

impl Ground {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let [inside, outside] = ["inside", "outside"].map(|name| dir.path().join(name));
        for place in [&inside, &outside] {
            fs::create_dir(place).unwrap();
            fs::create_dir(place.join("empty")).unwrap();
            for file in ["file", "other", "third", "fourth"] {
                fs::write(place.join(file), "text").unwrap();
            }
        }
        symlink(&outside, inside.join("way_out")).unwrap();
        Self { _dir: dir, inside, outside }
    }

    fn rules(&self, network: Network) -> FileRules {
        FileRules { writable: vec![self.inside.clone()], network }
    }
}

fn limited<T: Send + 'static>(rules: FileRules, act: impl FnOnce() -> T + Send + 'static) -> T {
    let thread = thread::spawn(move || {
        rustix::thread::set_no_new_privs(true).unwrap();
        restrict_self(ruleset(&rules).unwrap().as_fd()).unwrap();
        act()
    });
    thread.join().unwrap()
}

type Attempt = (&'static str, fn(&Path) -> io::Result<()>);

/// Every way to change something below a directory.
const WRITES: &[Attempt] = &[
    ("write", |dir| fs::write(dir.join("file"), "x")),
    ("append", |dir| OpenOptions::new().append(true).open(dir.join("file")).map(drop)),
    ("truncate", |dir| truncate(&dir.join("other"))),
    ("create", |dir| File::create(dir.join("new")).map(drop)),
    ("make a directory", |dir| fs::create_dir(dir.join("new_dir"))),
    ("make a symlink", |dir| symlink("file", dir.join("new_link"))),
    ("make a pipe", |dir| {
        let mode = rustix::fs::Mode::RWXU;
        Ok(rustix::fs::mkfifoat(rustix::fs::CWD, dir.join("new_pipe"), mode)?)
    }),
    ("make a socket", |dir| UnixListener::bind(dir.join("new_socket")).map(drop)),
    ("link", |dir| fs::hard_link(dir.join("third"), dir.join("new_name"))),
    ("rename", |dir| fs::rename(dir.join("third"), dir.join("renamed"))),
    ("remove", |dir| fs::remove_file(dir.join("fourth"))),
    ("remove a directory", |dir| fs::remove_dir(dir.join("empty"))),
];

/// By name, not by an open file.
fn truncate(path: &Path) -> io::Result<()> {
    let script = "import os, sys; os.truncate(sys.argv[1], 0)";
    let mut python = Command::new("python3");
    let done = python.args(["-c", script]).arg(path).stderr(Stdio::null()).status()?;
    if done.success() { Ok(()) } else { Err(ErrorKind::PermissionDenied.into()) }
}

/// The attempts that failed, and how.
fn failures(dir: &Path) -> Vec<(&'static str, ErrorKind)> {
    let tried = WRITES.iter().map(|(name, attempt)| (*name, attempt(dir)));
    tried.filter_map(|(name, result)| Some((name, result.err()?.kind()))).collect()
}

#[test]
fn everything_is_written_inside_and_nothing_outside() {
    let free = Ground::new();
    assert_eq!(failures(&free.outside), []);
    let ground = Ground::new();
    let (rules, outside) = (ground.rules(Network::On), ground.outside.clone());
    let (inside, way_out) = (ground.inside.clone(), ground.inside.join("way_out"));
    let (inside, outside, by_link) =
        limited(rules, move || (failures(&inside), failures(&outside), failures(&way_out)));
    assert_eq!(inside, []);
    let all: Vec<_> = WRITES.iter().map(|(name, _)| (*name, ErrorKind::PermissionDenied)).collect();
    assert_eq!(outside, all);
    assert_eq!(by_link, all);
    assert_eq!(fs::read_to_string(ground.outside.join("file")).unwrap(), "text");
}

#[test]
fn nothing_is_moved_or_linked_across_the_border() {
    fn crossings(inside: &Path, outside: &Path) -> [bool; 4] {
        [
            fs::hard_link(outside.join("file"), inside.join("alias")).is_ok(),
            fs::hard_link(inside.join("file"), outside.join("alias")).is_ok(),
            fs::rename(outside.join("other"), inside.join("taken")).is_ok(),
            fs::rename(inside.join("other"), outside.join("given")).is_ok(),
        ]
    }
    let free = Ground::new();
    assert_eq!(crossings(&free.inside, &free.outside), [true; 4]);
    let ground = Ground::new();
    let (inside, outside) = (ground.inside.clone(), ground.outside.clone());
    let crossed = limited(ground.rules(Network::On), move || crossings(&inside, &outside));
    assert_eq!(crossed, [false; 4]);
}

#[test]
fn processes_outside_get_no_signals_where_the_kernel_can_do_that() {
    let mut child = Command::new("sleep").arg("1000").spawn().unwrap();
    let number = child.id();
    let signal = move |text: String| {
        Command::new("sh").args(["-c", &text]).stderr(Stdio::null()).status().unwrap().success()
    };
    let outside = format!("kill -0 {number}");
    let own = "sleep 1000 & kill $!".to_owned();
    assert!(signal(outside.clone()));
    let found = limited(Ground::new().rules(Network::On), move || (signal(outside), signal(own)));
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(found, (offer().unwrap() < 6, true));
}

#[test]
fn nameless_sockets_outside_are_closed_where_the_kernel_can_do_that() {
    let name = format!("outside {}", std::process::id());
    let address = SocketAddr::from_abstract_name(name).unwrap();
    let _listener = UnixListener::bind_addr(&address).unwrap();
    let connects = move || UnixStream::connect_addr(&address).is_ok();
    assert!(connects());
    assert_eq!(limited(Ground::new().rules(Network::On), connects), offer().unwrap() < 6);
}

#[test]
fn the_network_is_closed_only_where_it_is_off() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let reaches =
        move || [TcpStream::connect(address).is_ok(), TcpListener::bind("127.0.0.1:0").is_ok()];
    assert_eq!(limited(Ground::new().rules(Network::On), reaches), [true; 2]);
    let is_older = offer().unwrap() < 4;
    assert_eq!(limited(Ground::new().rules(Network::Off), reaches), [is_older; 2]);
}

#[test]
fn everyday_work_goes_on_in_all_that_comes_after() {
    let ground = Ground::new();
    let script = format!(
        "set -e; cd {}; echo a > /dev/null; echo b > /dev/stdout; cat ../outside/file
        git init -q repo && cd repo && git -c user.name=x -c user.email=x@y commit -q --allow-empty -m z
        git log --format=' %s'; sleep 1000 & kill $!; wait $! || true
        python3 -c 'import multiprocessing, pty
with multiprocessing.Lock(): print(1, flush=True)
pty.spawn([\"sh\", \"-c\", \"stty size > /dev/null; echo tty > /dev/tty\"])' < /dev/null",
        ground.inside.display()
    );
    let output = limited(ground.rules(Network::Off), move || {
        Command::new("sh").args(["-c", &script]).stdin(Stdio::null()).output().unwrap()
    });
    assert_eq!(String::from_utf8_lossy(&output.stdout), "b\ntext z\n1\ntty\r\n");
}

#[test]
fn a_writable_directory_that_is_missing_is_an_error() {
    let missing = PathBuf::from("/nowhere/at/all");
    let rules = FileRules { writable: vec![missing], network: Network::On };
    let tried = thread::spawn(move || ruleset(&rules)).join().unwrap();
    assert_eq!(tried.unwrap_err().kind(), ErrorKind::NotFound);
}

#[test]
fn looking_limits_nobody() {
    assert!(offer().unwrap() >= 3);
    assert_eq!(failures(&Ground::new().outside), []);
}
