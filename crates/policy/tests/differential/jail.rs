//! The place where scripts run: a PATH of marker programs and real tools, and a small project as the
//! working directory, made anew for each script.
//!
//! Worker processes run the scripts: the test program starts itself again, twice, each time in
//! namespaces of its own, where everything but one small file system in memory is read-only and no
//! network exists. The worker runs the same test function, finds its part of the work in the
//! environment, and prints a report that the first process reads.

use std::ffi::CString;
use std::fmt::Write as _;
use std::hash::{BuildHasher, RandomState};
use std::io::{self, Write as _};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{env, fs, thread};

use rustix::mount::{MountFlags, mount};
use serde_json::{Value, json};
use shellyard_policy::command::ShellSyntax;

use crate::trace::{Exec, TimeLimits, Tracer};

/// Programs that exist only here. Most print text that is code wherever it is evaluated.
pub(crate) const MARKERS: [&str; 6] = ["zqa", "zqb", "zqc", "zqd", "zqe", "zqf"];
/// The program that files of the project start. Scripts never name it, so it shows that a listed
/// interpreter ran a file that was there before, which is not read.
pub(crate) const OPAQUE: &str = "zqopaque";
/// Development tools that stand in for the real ones: they start nothing.
const STAND_INS: [&str; 12] = [
    "cargo", "rustc", "npm", "npx", "node", "python", "python3", "pytest", "go", "kubectl",
    "docker", "curl",
];
/// Real tools that every machine must have.
const REQUIRED: [&str; 43] = [
    "awk", "basename", "bash", "cat", "chmod", "cp", "cut", "date", "diff", "dirname", "du",
    "echo", "env", "find", "git", "grep", "gzip", "head", "install", "ln", "ls", "mkdir", "mv",
    "nice", "nohup", "printf", "ps", "rm", "sed", "seq", "sh", "sort", "tail", "tar", "tee",
    "timeout", "touch", "tr", "true", "uniq", "wc", "xargs", "sleep",
];
/// Real tools that are used where they exist; `tests/run.sh` installs the first three.
const OPTIONAL: [&str; 12] = [
    "zip", "sqlite3", "rsync", "make", "jq", "stat", "realpath", "setsid", "stdbuf", "flock",
    "comm", "xz",
];
const DIRECTORIES: [&str; 3] = ["/usr/local/bin", "/usr/bin", "/bin"];
/// The last marker prints a number, so that evaluating what the others print comes to an end.
const MARKER_SOURCE: &str = r#"#include <stdio.h>
#include <string.h>
int main(int argc, char **argv) {
    size_t length = strlen(argv[0]);
    puts(length && argv[0][length - 1] == 'f' ? "0" : "a[$(zqf)]");
    return 0;
}
"#;

/// The project that each script finds: path and text. A text that starts with `#!` is executable.
const PROJECT: &[(&str, &str)] = &[
    ("a.txt", "alpha\nbeta\ngamma\n"),
    ("b.txt", "alpha\nbeta 2\ndelta\n"),
    ("f", "one 1\ntwo 2\nthree 3\n"),
    ("notes.txt", "todo: nothing\nerror: none\n"),
    ("my file.txt", "a name of two words\n"),
    ("build.log", "ok\nwarning: unused\nerror: oops\n"),
    ("access.log", "10.0.0.1 GET /\n10.0.0.2 GET /a\n10.0.0.1 POST /b\n"),
    ("data.json", "{\"name\": \"demo\", \"items\": [1, 2, 3]}\n"),
    ("package.json", "{\"name\": \"demo\", \"version\": \"1.0.0\"}\n"),
    ("list.txt", "a.txt\nb.txt\n"),
    ("Cargo.toml", "[package]\nname = \"demo\"\nversion = \"0.1.0\"\n"),
    ("README.md", "# Demo\n\nTODO: write\n"),
    ("Makefile", "all:\n\tzqopaque\ntest:\n\tzqopaque test\n"),
    ("run.sh", "#!/bin/sh\nzqopaque \"$@\"\n"),
    ("src/lib.rs", "pub fn add(a: u32, b: u32) -> u32 {\n    a + b // TODO\n}\n"),
    ("src/main.rs", "fn main() {\n    println!(\"{}\", demo::add(1, 2));\n}\n"),
    ("tests/test_api.py", "def test_login():\n    assert True\n"),
    ("out/.keep", ""),
    // Names that are options where a pattern puts them before a tool.
    ("odd/-exec", ""),
    ("odd/-n", ""),
    ("odd/--use-compress-program=zqa", ""),
    ("odd/--checkpoint=1", ""),
    ("odd/--checkpoint-action=exec=zqa", ""),
    ("odd/--compress-program=zqb", ""),
    ("odd/zqc", ""),
    ("odd/;", ""),
];
/// The other files of the project.
const SET_UP: &str = "set -e
seq 1 200 > big
tar -czf src.tgz src tests
git init -q -b main .
git config user.name demo
git config user.email demo@example.org
git config gc.auto 0
git config maintenance.auto false
rm -rf .git/hooks .git/info .git/description
git add Cargo.toml README.md src tests a.txt
git commit -q -m first
git tag v0.1
git branch topic
";

/// The result of running a script once.
#[derive(Debug)]
pub(crate) struct JailRun {
    pub(crate) execs: Vec<Exec>,
    /// `true` if the shell ended with success and reported no error of its own.
    pub(crate) clean: bool,
    pub(crate) cut_short: bool,
}

/// The programs of the jail, shared by all workers.
#[derive(Debug)]
pub(crate) struct Tools;

impl Tools {
    /// Fills `root/bin` and makes the project in `root/project`.
    pub(crate) fn install(root: &Path) {
        let bin = root.join("bin");
        fs::create_dir(&bin).unwrap();
        let marker = compile_marker(root);
        for name in MARKERS.iter().chain(&STAND_INS).chain(&[OPAQUE]) {
            fs::hard_link(&marker, bin.join(name)).unwrap();
        }
        let mut missing = Vec::new();
        for name in REQUIRED {
            match find_tool(name) {
                Some(path) => symlink(path, bin.join(name)).unwrap(),
                None => missing.push(name),
            }
        }
        assert!(
            missing.is_empty(),
            "missing: {missing:?}; install them (Debian: apt-get install bash coreutils diffutils \
             findutils gawk git grep gzip procps sed tar) and run this again"
        );
        for name in OPTIONAL {
            if let Some(path) = find_tool(name) {
                symlink(path, bin.join(name)).unwrap();
            }
        }
        make_project(root, &bin);
    }
}

fn find_tool(name: &str) -> Option<PathBuf> {
    DIRECTORIES.iter().map(|dir| Path::new(dir).join(name)).find(|path| path.exists())
}

/// Compiles the marker program. A script would start its interpreter, too.
fn compile_marker(root: &Path) -> PathBuf {
    let (source, program) = (root.join("marker.c"), root.join("marker"));
    fs::write(&source, MARKER_SOURCE).unwrap();
    // A static program starts faster; not every machine has what that needs.
    let compiled = [&["-static"][..], &[]].iter().any(|options| {
        let mut command = Command::new("cc");
        command.args(*options).arg("-o").arg(&program).arg(&source).stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    });
    assert!(compiled, "`cc` does not work; install it (Debian: apt-get install gcc libc6-dev)");
    program
}

fn make_project(root: &Path, bin: &Path) {
    let project = root.join("project");
    for (path, text) in PROJECT {
        let path = project.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        let mode = if text.starts_with("#!") { 0o755 } else { 0o644 };
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    }
    let status = shell_command(ShellSyntax::Bash, SET_UP, bin, &project, root).status().unwrap();
    assert!(status.success(), "the project could not be made: {status}");
}

/// A shell with no variables but those that judged text gets.
fn shell_command(shell: ShellSyntax, script: &str, bin: &Path, cwd: &Path, tmp: &Path) -> Command {
    let mut command = match shell {
        ShellSyntax::Bash => {
            let mut command = Command::new(bin.join("bash"));
            command.args(["--noprofile", "--norc"]);
            command
        }
        ShellSyntax::Posix => Command::new(bin.join("sh")),
    };
    command
        .arg("-c")
        .arg(script)
        .env_clear()
        .env("PATH", bin)
        .env("HOME", cwd)
        .env("TMPDIR", tmp)
        .env("LC_ALL", "C.UTF-8")
        .env("FUNCNEST", "5")
        .current_dir(cwd)
        .stdin(Stdio::null())
        .stdout(Stdio::null());
    command
}

/// A file, link or directory of the project.
#[derive(Debug)]
enum JailEntry {
    Directory,
    File { mode: u32, bytes: Vec<u8> },
}

/// One worker's place to run scripts.
#[derive(Debug)]
pub(crate) struct Jail {
    bin: PathBuf,
    work: PathBuf,
    project: Vec<(PathBuf, JailEntry)>,
    git_programs: String,
    tracer: Tracer,
}

impl Jail {
    /// Uses the tools and the project of `root`; scripts write below `work` only.
    pub(crate) fn new(root: &Path, work: &Path) -> Self {
        let mut project = Vec::new();
        read_tree(&root.join("project"), Path::new(""), &mut project);
        let bin = root.join("bin");
        let output = Command::new(bin.join("git")).arg("--exec-path").output().unwrap();
        Self {
            bin,
            work: work.to_owned(),
            project,
            git_programs: String::from_utf8(output.stdout).unwrap().trim().to_owned(),
            tracer: Tracer::new(),
        }
    }

    pub(crate) fn bin(&self) -> &Path {
        &self.bin
    }

    /// The directory of git's own programs, which it starts by itself.
    pub(crate) fn git_programs(&self) -> &str {
        &self.git_programs
    }

    pub(crate) fn cwd(&self) -> PathBuf {
        self.work.join("cwd")
    }

    /// Runs a script in a new copy of the project, until no process of it is left.
    pub(crate) fn run(&self, shell: ShellSyntax, script: &str) -> JailRun {
        self.run_within(TimeLimits::SHORT, "", shell, script)
    }

    /// Runs a bash script that ends by itself, after a set-up that is not recorded.
    pub(crate) fn run_to_end(&self, set_up: &str, script: &str) -> JailRun {
        self.run_within(TimeLimits::LONG, set_up, ShellSyntax::Bash, script)
    }

    fn run_within(
        &self,
        limits: TimeLimits,
        set_up: &str,
        shell: ShellSyntax,
        script: &str,
    ) -> JailRun {
        let (cwd, tmp) = (self.cwd(), self.work.join("tmp"));
        self.reset(&cwd, &tmp);
        if !set_up.is_empty() {
            let status =
                shell_command(ShellSyntax::Bash, set_up, &self.bin, &cwd, &tmp).status().unwrap();
            assert!(status.success(), "set-up failed: {set_up}");
        }
        let errors = self.work.join("stderr");
        let mut command = shell_command(shell, script, &self.bin, &cwd, &tmp);
        command.stderr(fs::File::create(&errors).unwrap());
        let traced = self.tracer.run(&mut command, limits);
        let errors = String::from_utf8_lossy(&fs::read(&errors).unwrap()).into_owned();
        let complained = errors.lines().any(|line| line.contains("bash: "));
        JailRun {
            execs: traced.execs,
            clean: traced.code == Some(0) && !traced.cut_short && !complained,
            cut_short: traced.cut_short,
        }
    }

    fn reset(&self, cwd: &Path, tmp: &Path) {
        for dir in [cwd, tmp] {
            if dir.exists() {
                fs::remove_dir_all(dir).unwrap();
            }
            fs::create_dir(dir).unwrap();
        }
        for (path, entry) in &self.project {
            let path = cwd.join(path);
            match entry {
                JailEntry::Directory => fs::create_dir(&path).unwrap(),
                JailEntry::File { mode, bytes } => {
                    fs::write(&path, bytes).unwrap();
                    if *mode & 0o111 != 0 {
                        fs::set_permissions(&path, fs::Permissions::from_mode(*mode)).unwrap();
                    }
                }
            }
        }
        for name in ["o1", "o2"] {
            symlink("/dev/null", cwd.join(name)).unwrap();
        }
    }
}

/// Reads a directory into memory, parents before their children.
fn read_tree(dir: &Path, below: &Path, into: &mut Vec<(PathBuf, JailEntry)>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let name = below.join(path.file_name().unwrap());
        if path.is_dir() {
            into.push((name.clone(), JailEntry::Directory));
            read_tree(&path, &name, into);
        } else {
            let mode = path.metadata().unwrap().permissions().mode();
            into.push((name, JailEntry::File { mode, bytes: fs::read(&path).unwrap() }));
        }
    }
}

const WORKERS: u64 = 2;
/// Tells a process that it is a worker, and which.
const VARIABLE: &str = "POLICY_FUZZ_WORKER";
/// Starts the line of a report.
const REPORT: &str = "report: ";
/// Starts a program in namespaces of its own, as their root.
const UNSHARE: [&str; 9] = [
    "--user",
    "--map-root-user",
    "--mount",
    "--net",
    "--ipc",
    "--pid",
    "--fork",
    "--kill-child",
    "--mount-proc",
];

/// One part of the work, and the place to do it.
#[derive(Debug)]
pub(crate) struct Worker {
    pub(crate) jail: Jail,
    pub(crate) settings: Settings,
    /// `true` if nothing outside the jail can be written.
    pub(crate) is_isolated: bool,
    number: u64,
    workers: u64,
}

impl Worker {
    /// The numbers of this worker's scripts, out of `count` in all.
    pub(crate) fn part(&self, count: u64) -> impl Iterator<Item = u64> + use<> {
        let step = usize::try_from(self.workers).unwrap_or(1);
        (self.number..count).step_by(step)
    }

    fn from_assignment(assignment: &Value) -> Self {
        let number = |name: &str| assignment[name].as_u64().unwrap();
        let root = PathBuf::from(assignment["root"].as_str().unwrap());
        let work = root.join(format!("work-{}", number("number")));
        let is_isolated = assignment["namespaces"] == true;
        if is_isolated {
            make_read_only();
            mount("tmpfs", &work, "tmpfs", MountFlags::NOSUID, Some(c"size=64m")).unwrap();
        }
        Self {
            jail: Jail::new(&root, &work),
            settings: Settings { seed: number("seed"), scripts: number("scripts") },
            is_isolated,
            number: number("number"),
            workers: number("workers"),
        }
    }
}

/// Does the work of a test in worker processes.
///
/// Returns the report of each; `None` in a worker itself, whose work is then done.
pub(crate) fn run(test: &str, workers: u64, work: impl Fn(&Worker) -> Value) -> Option<Vec<Value>> {
    if let Some(assignment) = variable(VARIABLE) {
        let worker = Worker::from_assignment(&serde_json::from_str(&assignment).unwrap());
        let line = format!("\n{REPORT}{}\n", work(&worker));
        io::stdout().write_all(line.as_bytes()).unwrap();
        return None;
    }
    let root = tempfile::tempdir().unwrap();
    Tools::install(root.path());
    let namespaces = has_namespaces();
    if !namespaces {
        announce("no user namespaces here: scripts are held by limits and their directory only");
    }
    let settings = Settings::read();
    if workers > 1 {
        let Settings { seed, scripts } = settings;
        announce(&format!("{test}: POLICY_FUZZ_SEED={seed:#x} POLICY_FUZZ_SCRIPTS={scripts}"));
    }
    let start = |number: u64| {
        fs::create_dir(root.path().join(format!("work-{number}"))).unwrap();
        let assignment = json!({
            "root": root.path(), "namespaces": namespaces, "number": number, "workers": workers,
            "seed": settings.seed, "scripts": settings.scripts,
        });
        let mut command = command(test, namespaces);
        command.env(VARIABLE, assignment.to_string()).stdin(Stdio::null());
        thread::spawn(move || report(command))
    };
    let threads: Vec<_> = (0..workers).map(start).collect();
    let reports = threads.into_iter().map(|it| it.join().unwrap()).collect();
    root.close().unwrap();
    Some(reports)
}

/// Does the work of a test on generated scripts, with the usual number of workers.
pub(crate) fn share(test: &str, work: impl Fn(&Worker) -> Value) -> Option<Vec<Value>> {
    run(test, WORKERS, work)
}

fn command(test: &str, namespaces: bool) -> Command {
    let program = env::current_exe().unwrap();
    let mut command = if namespaces {
        let mut command = Command::new("unshare");
        command.args(UNSHARE).arg(program);
        command
    } else {
        Command::new(program)
    };
    command.args(["--exact", test, "--nocapture", "--test-threads=1"]);
    command
}

/// Runs a worker to its end and reads its report.
fn report(mut command: Command) -> Value {
    let output = command.stderr(Stdio::inherit()).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let report = text.lines().find_map(|line| line.strip_prefix(REPORT));
    let report = report.unwrap_or_else(|| panic!("a worker failed: {}\n{text}", output.status));
    serde_json::from_str(report).unwrap()
}

fn has_namespaces() -> bool {
    let status = Command::new("unshare").args(UNSHARE).arg("true").stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

/// Makes every mount of this namespace read-only.
#[expect(unsafe_code, reason = "mount_setattr has no safe form")]
fn make_read_only() {
    let path = CString::new(Path::new("/").as_os_str().as_bytes()).unwrap();
    let attributes = libc::mount_attr {
        attr_set: libc::MOUNT_ATTR_RDONLY,
        attr_clr: 0,
        propagation: 0,
        userns_fd: 0,
    };
    // SAFETY: the path is a C string, and the kernel reads as many bytes as the size says.
    let result = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            libc::AT_FDCWD,
            path.as_ptr(),
            libc::AT_RECURSIVE,
            &raw const attributes,
            size_of::<libc::mount_attr>(),
        )
    };
    assert_eq!(result, 0, "the root stays writable: {}", io::Error::last_os_error());
}

/// Prints a line that shows also where the test passes: what was tested is never hidden.
pub(crate) fn announce(line: &str) {
    io::stderr().write_all(format!("{line}\n").as_bytes()).unwrap();
}

/// Sums of the numbers that all reports have under the same name.
pub(crate) fn sum(reports: &[Value], name: &str) -> u64 {
    reports.iter().filter_map(|report| report[name].as_u64()).sum()
}

/// The texts of all reports, one in each line.
pub(crate) fn texts(reports: &[Value], name: &str) -> String {
    let lists = reports.iter().filter_map(|report| report[name].as_array());
    lists.flatten().filter_map(Value::as_str).fold(String::new(), |mut all, text| {
        writeln!(all, "{text}").unwrap();
        all
    })
}

// The settings of a run, from the environment.

/// Scripts of one run of the test command; a longer run is asked for by `POLICY_FUZZ_SCRIPTS`.
const SCRIPTS: u64 = 5_000;

/// The seed and length of a run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Settings {
    pub(crate) seed: u64,
    pub(crate) scripts: u64,
}

impl Settings {
    /// Reads `POLICY_FUZZ_SEED` (decimal, or hexadecimal with `0x`) and `POLICY_FUZZ_SCRIPTS`.
    /// Without a seed each run has a new one.
    pub(crate) fn read() -> Self {
        let new_seed = || RandomState::new().hash_one("seed") >> 16;
        Self {
            seed: number("POLICY_FUZZ_SEED").unwrap_or_else(new_seed),
            scripts: number("POLICY_FUZZ_SCRIPTS").unwrap_or(SCRIPTS),
        }
    }
}

fn number(name: &str) -> Option<u64> {
    let text = variable(name)?;
    let parsed = match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => text.parse(),
    };
    Some(parsed.unwrap_or_else(|error| panic!("{name}={text} is not a number: {error}")))
}

/// The value of an environment variable.
#[expect(clippy::disallowed_methods, reason = "a test's own settings are not the product's")]
pub(crate) fn variable(name: &str) -> Option<String> {
    env::var(name).ok()
}
