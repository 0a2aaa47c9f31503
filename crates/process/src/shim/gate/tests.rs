//! Tests of the gate with real processes.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use shellyard_policy::gate::{GateRule, GateRules, StartRefusalReason};
use tempfile::TempDir;
use tokio::io::AsyncReadExt as _;

use super::{StartCounts, StartQuestion};
use crate::confinement::{
    Backend, Confinement, GrantedConfinement, NetworkAccess, SandboxPaths, SandboxProfile,
};
use crate::host::host;
use crate::shell::{ShellChoice, build_gated_invocation};
use crate::{
    CommandLine, Deadline, EndCause, EnvVariable, ExitKind, GateEvent, LaunchStdin, LeaderEnd,
    Process, ProcessEvent, ProcessLaunch, SandboxSpec, StartError, StreamMode, find_known_files,
};

const LIMIT: Duration = Duration::from_secs(30);
const PATH: &str = "/usr/local/bin:/usr/bin:/bin";
const SHELLS: [&str; 3] = ["sh", "bash", "dash"];

/// A directory with a job's files, and the rules of its gate.
struct TestJob {
    place: TempDir,
    rules: GateRules,
    environment: Vec<(String, String)>,
    stdin: LaunchStdin,
    deadline: Option<Deadline>,
}

/// Everything that a job did.
#[derive(Debug)]
struct Seen {
    status: ExitKind,
    output: String,
    refused: Vec<String>,
    reasons: Vec<StartRefusalReason>,
    counts: StartCounts,
    questions: Vec<StartQuestion>,
    gone: Vec<u64>,
    end: LeaderEnd,
}

fn rule(text: &str, list: &str) -> GateRule {
    GateRule { text: text.to_owned(), location: format!("policy.{list}"), path: None }
}

impl TestJob {
    fn new(allow: &[&str]) -> Self {
        let rules = GateRules {
            allow: Some(allow.iter().map(|text| rule(text, "allow")).collect()),
            opens: vec!["env".to_owned(), "python3".to_owned(), "timeout".to_owned()],
            ..GateRules::default()
        };
        let place = tempfile::tempdir().unwrap();
        let deadline = None;
        Self { place, rules, environment: Vec::new(), stdin: LaunchStdin::Null, deadline }
    }

    fn asking(allow: &[&str], ask: &[&str]) -> Self {
        let mut job = Self::new(allow);
        job.rules.ask = ask.iter().map(|text| rule(text, "ask")).collect();
        job
    }

    fn at(&self, name: &str) -> PathBuf {
        self.place.path().canonicalize().unwrap().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.at(name), text).unwrap();
        fs::set_permissions(self.at(name), fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// Compiles a program; `false` if the host has no compiler.
    fn compile(&self, name: &str, text: &str) -> bool {
        let source = self.at(&format!("{name}.c"));
        fs::write(&source, text).unwrap();
        let mut compiler = Command::new("cc");
        compiler.args(["-O1", "-w", "-pthread", "-o"]).arg(self.at(name)).arg(&source);
        compiler.status().is_ok_and(|status| status.success())
    }

    /// Allows this file by its path.
    fn allow_path(&mut self, name: &str) {
        let path = Some(self.at(name));
        let allowed = GateRule { path, ..rule(name, "allow") };
        self.rules.allow.as_mut().unwrap().push(allowed);
    }

    fn launch(&self, program: &str, args: &[&str]) -> ProcessLaunch {
        let mut rules = self.rules.clone();
        let all = [rules.allow.as_deref().unwrap_or_default(), &rules.deny, &rules.ask].concat();
        let words = all.iter().filter_map(|rule| rule.text.split(' ').next());
        let names: Vec<&str> = words.chain(SHELLS).collect();
        rules.files = find_known_files(names, OsStr::new(PATH));
        let variables = [("PATH".to_owned(), PATH.to_owned())];
        let variables = variables.iter().chain(&self.environment);
        ProcessLaunch {
            command: CommandLine::new_direct(program, args),
            env: variables.map(|(name, value)| EnvVariable::new(name, value).unwrap()).collect(),
            cwd: self.at(".").into(),
            stdin: self.stdin.clone(),
            streams: StreamMode::Merged,
            sandbox: SandboxSpec::none(),
            user: None,
            keep_as: None,
            deadline: self.deadline,
            gate: Some(Arc::new(rules)),
        }
    }

    async fn run(&self, text: &str) -> Seen {
        let process = host().spawn(&self.launch("bash", &["-c", text])).unwrap();
        watch(process, |_| None).await
    }

    /// Runs a text, and answers all questions.
    async fn run_and_answer(&self, text: &str, is_allowed: bool) -> Seen {
        let process = host().spawn(&self.launch("bash", &["-c", text])).unwrap();
        watch(process, |_| Some(is_allowed)).await
    }
}

/// Reads all events and all output of a job.
async fn watch(process: Process, answer: impl Fn(&StartQuestion) -> Option<bool>) -> Seen {
    let Process { mut events, mut stdout, tree, .. } = process;
    let mut bytes = Vec::new();
    let (mut refusals, mut questions, mut gone) = (Vec::new(), Vec::new(), Vec::new());
    let follow = async {
        let mut end = None;
        loop {
            match events.next().await {
                ProcessEvent::Gate(GateEvent::Refused(refusal)) => refusals.push(refusal),
                ProcessEvent::Gate(GateEvent::Asked(question)) => {
                    if let Some(is_allowed) = answer(&question) {
                        tree.answer_start(question.id, is_allowed).unwrap();
                    }
                    questions.push(question);
                }
                ProcessEvent::Gate(GateEvent::AskOver { id }) => gone.push(id),
                ProcessEvent::LeaderExited(exit) => end = Some(exit),
                ProcessEvent::Over(_) => return end.unwrap(),
                ProcessEvent::ShimLost | ProcessEvent::StartFailed { .. } => panic!("no end"),
                ProcessEvent::Gate(GateEvent::Counted(_))
                | ProcessEvent::Ending(_)
                | ProcessEvent::InputWritten { .. }
                | ProcessEvent::InputClosed => {}
            }
        }
    };
    let all = async { tokio::join!(follow, stdout.read_to_end(&mut bytes)) };
    let (end, read) = tokio::time::timeout(LIMIT, all).await.expect("it does not end");
    read.unwrap();
    Seen {
        status: end.exit.status,
        output: String::from_utf8_lossy(&bytes).into_owned(),
        refused: refusals.iter().map(ToString::to_string).collect(),
        reasons: refusals.into_iter().map(|refusal| refusal.why).collect(),
        counts: tree.start_counts(),
        questions,
        gone,
        end,
    }
}

impl Seen {
    /// Checks that something was refused, and that nothing printed `pwned`.
    #[track_caller]
    fn check_held(&self, what: &str) {
        assert!(!self.output.contains("pwned"), "{what}: {self:?}");
        assert!(self.counts.refused > 0, "{what}: {self:?}");
    }

    #[track_caller]
    fn check_ran(&self, what: &str, output: &str) {
        assert_eq!(self.refused, [""; 0], "{what}: {self:?}");
        assert_eq!((self.status, self.output.as_str()), (ExitKind::Code(0), output), "{what}");
    }
}

#[tokio::test]
async fn a_listed_program_runs_and_an_unlisted_one_does_not() {
    let job = TestJob::new(&["expr"]);
    let seen = job.run("expr 1 + 1; uname; echo $?; expr 2 + 2").await;
    assert!(seen.output.contains("uname: Permission denied"), "{seen:?}");
    assert!(seen.output.starts_with("2\n") && seen.output.ends_with("126\n4\n"), "{seen:?}");
    assert_eq!(seen.refused, ["uname (not on the allow list, started by bash)"]);
    assert_eq!(seen.counts, StartCounts { judged: 4, refused: 1 });
    assert_eq!(seen.status, ExitKind::Code(0));
}

#[tokio::test]
async fn constructs_of_the_shell_need_no_listing() {
    let job = TestJob::new(&["expr", "cat", "xargs"]);
    for (text, output) in [
        ("f() { expr $1 + 1; }; f 1", "2\n"),
        ("a=(expr 1 + 2); \"${a[@]}\"", "3\n"),
        ("eval 'expr 1 + 3'", "4\n"),
        ("c=ex; ${c}pr 1 + 4", "5\n"),
        ("trap 'expr 1 + 5' EXIT", "6\n"),
        ("cat < <(expr 1 + 6)", "7\n"),
        ("coproc cat; echo 8 >&${COPROC[1]}; read x <&${COPROC[0]}; echo $x", "8\n"),
        ("echo 1 + 8 | xargs -n3 expr", ""),
        ("(exec expr 1 + 9)", "10\n"),
        ("bash -c 'sh -c \"expr 1 + 10\"'", "11\n"),
        ("expr 1 + 11 & wait", "12\n"),
        ("cat <<X\n13\nX", "13\n"),
    ] {
        let seen = job.run(text).await;
        if output.is_empty() {
            // xargs itself may not start it: it is neither a shell nor opens.
            continue;
        }
        seen.check_ran(text, output);
    }
}

#[tokio::test]
async fn a_gated_shell_loads_no_builtins_and_is_otherwise_the_same() {
    let job = TestJob::new(&["cat"]);
    let shell = ShellChoice::Path("/bin/bash".to_owned());
    for (text, output) in [
        ("enable -f ./x.so x", "bash: line 1: enable: command not found\n"),
        ("\nbuiltin enable x", "bash: line 2: builtin: enable: not a shell builtin\n"),
        ("# comment\necho $LINENO", "2\n"),
        ("-x", "bash: line 1: -x: command not found\n"),
        ("echo a | cat\necho $LINENO", "a\n2\n"),
    ] {
        let command = build_gated_invocation(&shell, text);
        let launch = ProcessLaunch { command, ..job.launch("", &[]) };
        let seen = watch(host().spawn(&launch).unwrap(), |_| None).await;
        assert_eq!(seen.output, output, "{text}");
    }
}

#[tokio::test]
async fn no_other_file_passes_for_a_listed_program() {
    let mut job = TestJob::new(&["expr", "cp", "mv", "ln", "find", "env", "cat", "chmod"]);
    job.rules.opens.clear();
    job.write("expr", "#!/bin/sh\necho pwned\n");
    fs::copy("/bin/echo", job.at("echo")).unwrap();
    symlink("/bin/echo", job.at("link")).unwrap();
    for text in [
        "cp /bin/echo ./ls; ./ls pwned",
        "./expr",
        "PATH=.:$PATH; expr",
        "hash -p ./echo expr; expr pwned",
        "(exec -a expr ./echo pwned)",
        "(exec -a expr /bin/echo pwned)",
        "./link pwned",
        "cp echo moved; mv moved expr2; ./expr2 pwned",
        "find . -name echo -exec ./echo pwned ';'",
        "find . -maxdepth 0 -exec /bin/echo pwned ';'",
        "env echo pwned",
        "env ./echo pwned",
        "/proc/self/root/bin/echo pwned",
        "/proc/$$/cwd/echo pwned",
        "cd /bin && ./echo pwned",
        "./../../../../bin/echo pwned",
        "exec 9<echo; /proc/self/fd/9 pwned",
        "exec 9<echo; /dev/fd/9 pwned",
        "/lib64/ld-linux-x86-64.so.2 /bin/echo pwned",
        "LD_PRELOAD=./echo expr 1",
        "printf '#!/bin/echo pwned\\n' >s; chmod +x s; ./s",
        "printf '#!/usr/bin/expr 1\\n' >s; chmod +x s; ./s",
        "command -p uname; /bin/uname",
        "coproc /bin/echo pwned; cat <&${COPROC[0]}",
    ] {
        job.run(text).await.check_held(text);
    }
}

#[tokio::test]
async fn a_path_without_a_file_is_no_refusal() {
    let job = TestJob::new(&["env", "expr"]);
    fs::write(job.at("data"), "text").unwrap();
    // env tries every directory of the PATH by itself.
    let text = "env PATH=/nowhere:/etc/passwd:/usr/local/nothing:$PATH expr 1 + 1;
        env nowhere; echo $?; ./nowhere; echo $?; ./data; echo $?; /etc; echo $?";
    let seen = job.run(text).await;
    assert_eq!(seen.refused, [""; 0], "{seen:?}");
    let codes: Vec<&str> = seen.output.lines().filter(|line| line.parse::<u32>().is_ok()).collect();
    assert_eq!(codes, ["2", "127", "127", "126", "126"], "{seen:?}");
}

#[tokio::test]
async fn a_listed_script_has_its_interpreter_and_no_other_has() {
    let mut job = TestJob::new(&["expr"]);
    job.write("listed.sh", "#!/bin/sh -e\nexpr $# + 1; uname\n");
    job.write("nested", &format!("#!{}\n", job.at("listed.sh").display()));
    job.write("relative", "#!listed.sh x\n");
    job.write("unlisted.sh", "#!/bin/sh\necho pwned\n");
    for name in ["listed.sh", "nested", "relative"] {
        job.allow_path(name);
    }
    for (text, first) in [("./listed.sh a b", "3"), ("./nested a", "3"), ("./relative a", "4")] {
        let seen = job.run(text).await;
        assert_eq!(seen.output.lines().next(), Some(first), "{text}: {seen:?}");
        assert!(seen.refused[0].starts_with("uname (not on the allow list"), "{seen:?}");
    }
    job.run("./unlisted.sh").await.check_held("unlisted script");
}

#[tokio::test]
async fn a_program_that_opens_starts_anything_but_what_is_denied() {
    let mut job = TestJob::new(&["timeout", "expr"]);
    job.rules.deny = vec![rule("uname", "deny")];
    job.write("own", "#!/usr/bin/env bash\necho own $(/bin/echo deep)\n");
    let seen = job.run("timeout 60 ./own; timeout 60 sh -c 'exec nice /bin/uname'").await;
    assert!(seen.output.starts_with("own deep\n"), "{seen:?}");
    assert!(matches!(seen.reasons[..], [StartRefusalReason::Denied(_)]), "{seen:?}");
}

#[tokio::test]
async fn a_child_of_a_parent_that_is_gone_is_judged_strictly() {
    let job = TestJob::new(&["timeout", "sleep"]);
    // The subshell starts its program after everything above it is gone.
    let text =
        "timeout 60 bash -c '(while [ -d /proc/'\"$$\"' ]; do :; done; /bin/echo pwned) & disown'";
    let seen = job.run(&format!("{text}; exec sleep 0.2")).await;
    seen.check_held("lost parent");
}

#[tokio::test]
async fn memory_and_deleted_files_are_no_programs() {
    if Command::new("python3").arg("-V").output().is_err() {
        return;
    }
    let mut job = TestJob::new(&["python3"]);
    job.rules.opens.clear();
    for text in [
        "import os; f=os.memfd_create('expr'); os.write(f, open('/bin/echo','rb').read()); os.execve(f, ['expr','pwned'], {})",
        "import os; f=os.memfd_create('x',0); os.write(f, b'#!/bin/echo pwned\\n'); os.execve(f'/proc/self/fd/{f}', ['x'], {})",
        "import os; os.system('cp /bin/echo e'); open('e','wb').write(open('/bin/echo','rb').read()); os.chmod('e',0o755); f=os.open('e',os.O_RDONLY); os.unlink('e'); os.execve(f, ['python3','pwned'], {})",
    ] {
        let text = format!("python3 -c \"{text}\"");
        job.run(&text).await.check_held(&text);
    }
}

#[cfg(target_arch = "x86_64")]
#[tokio::test]
async fn calls_of_other_processors_kill() {
    let mut job = TestJob::new(&[]);
    let int80 = r#"
        #define _GNU_SOURCE
        #include <sys/mman.h>
        #include <string.h>
        int main() {
            char *p = mmap(0, 4096, 3, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
            strcpy(p, "/bin/echo"); strcpy(p + 64, "pwned");
            unsigned *v = (unsigned *)(p + 256); v[0] = (long)p; v[1] = (long)(p + 64); v[2] = 0;
            long r;
            __asm__ volatile("int $0x80" : "=a"(r) : "a"(11), "b"((long)p), "c"((long)v), "d"(0) : "memory");
            return 3;
        }"#;
    let x32 = r#"
        #include <unistd.h>
        int main() {
            char *v[] = {"echo", "pwned", 0};
            syscall(0x40000000 | 520, "/bin/echo", v, 0);
            return 3;
        }"#;
    for (name, text) in [("int80", int80), ("x32", x32)] {
        if !job.compile(name, text) {
            return;
        }
        job.allow_path(name);
        let seen = job.run(&format!("./{name}; echo $?")).await;
        // SIGSYS.
        assert!(seen.output.ends_with("159\n") && !seen.output.contains("pwned"), "{seen:?}");
    }
}

/// A program that runs `echo WORD`, while a thread rewrites the arguments, the path or a variable.
const RACE: &str = r#"
    #include <pthread.h>
    #include <string.h>
    #include <stdlib.h>
    #include <unistd.h>
    #include <sys/wait.h>
    static char path[64] = "/bin/echo", word[64] = "fine_", variable[64] = "LANG=C.UTF-8";
    static char *to; static const char *one, *two;
    static void *rewrite(void *x) { for (;;) { strcpy(to, one); strcpy(to, two); } }
    int main(int c, char **v) {
        pthread_t t;
        if (!strcmp(v[1], "path")) { to = path; one = "/bin/echo"; two = "/bin/uname"; }
        else if (!strcmp(v[1], "word")) { to = word; one = "fine_"; two = "pwned"; }
        else { to = variable; one = "LANG=C.UTF-8"; two = "LD_AUDIT=xyz"; }
        pthread_create(&t, 0, rewrite, 0);
        for (int i = atoi(v[2]); i--;) {
            if (!vfork()) {
                char *a[] = {"echo", word, 0}, *e[] = {variable, 0};
                execve(path, a, e);
                _exit(1);
            }
            wait(0);
        }
        return 0;
    }"#;

#[tokio::test]
async fn a_thread_that_rewrites_a_call_runs_nothing_else() {
    let mut job = TestJob::new(&["echo fine_"]);
    if !job.compile("race", RACE) {
        return;
    }
    job.allow_path("race");
    let mut mismatches = 0;
    for what in ["word", "path", "variable"] {
        let seen = job.run(&format!("./race {what} 200")).await;
        let is_fine = seen.output.lines().all(|line| line == "fine_");
        assert!(is_fine && seen.status == ExitKind::Code(0), "{what}: {seen:?}");
        let is_mismatch = |why: &&StartRefusalReason| **why == StartRefusalReason::Mismatch;
        mismatches += seen.reasons.iter().filter(is_mismatch).count();
    }
    assert!(mismatches > 0, "nothing was rewritten in time");
}

#[tokio::test]
async fn a_link_that_is_swapped_runs_nothing_else() {
    let mut job = TestJob::new(&["echo"]);
    let swap = r#"
        #include <unistd.h>
        #include <stdio.h>
        #include <stdlib.h>
        #include <signal.h>
        #include <sys/wait.h>
        int main(int c, char **v) {
            int other = fork();
            if (!other) for (;;) {
                symlink("/bin/echo", "n"); rename("n", "tool");
                symlink("/bin/uname", "n"); rename("n", "tool");
            }
            for (int i = 300; i--;) {
                if (!vfork()) { execl("./tool", "tool", "fine", 0); _exit(1); }
                waitpid(-1, 0, 0);
            }
            kill(other, SIGKILL);
            return 0;
        }"#;
    if !job.compile("swap", swap) {
        return;
    }
    symlink("/bin/echo", job.at("tool")).unwrap();
    job.allow_path("swap");
    let seen = job.run("./swap").await;
    assert!(seen.output.lines().all(|line| line == "fine"), "{seen:?}");
    assert!(seen.output.contains("fine") && seen.counts.refused > 0, "{seen:?}");
}

#[tokio::test]
async fn threads_and_failed_starts_keep_their_behaviour() {
    let text = r#"
        #define _GNU_SOURCE
        #include <pthread.h>
        #include <stdio.h>
        #include <string.h>
        #include <errno.h>
        #include <fcntl.h>
        #include <signal.h>
        #include <unistd.h>
        #include <sys/syscall.h>
        static volatile int got;
        static void handle(int s) { got = s; }
        static void *run(void *x) { execl("/bin/echo", "echo", "from", "thread", NULL); return 0; }
        int main() {
            char *none[] = {0}, *v[] = {"echo", "x", 0};
            signal(SIGUSR1, handle);
            execve("/nonexistent", v, none); printf("%s\n", strerrorname_np(errno));
            execve("./noexec", v, none); printf("%s\n", strerrorname_np(errno));
            execve(0, v, none); printf("%s\n", strerrorname_np(errno));
            execve("./noexec", (char **)8, none); printf("%s\n", strerrorname_np(errno));
            syscall(SYS_execveat, 77, "x", v, none, 0); printf("%s\n", strerrorname_np(errno));
            syscall(SYS_execveat, 0, "", v, none, 0); printf("%s\n", strerrorname_np(errno));
            for (int i = 0; i < 50; i++) {
                got = 0; execve("./noexec", v, none); raise(SIGUSR1);
                if (got != SIGUSR1) printf("signal lost\n");
            }
            fflush(stdout);
            if (!fork()) { raise(SIGSTOP); printf("continued\n"); fflush(stdout);
                int d = open("/bin", O_PATH | O_DIRECTORY);
                syscall(SYS_execveat, d, "echo", (char *[]){"echo", "at", 0}, none, 0); _exit(1); }
            int status; waitpid(-1, &status, WUNTRACED);
            if (!WIFSTOPPED(status)) printf("not stopped\n");
            kill(-getpgrp(), SIGCONT);
            wait(&status);
            pthread_t t; pthread_create(&t, 0, run, 0); pthread_join(t, 0);
            return 3;
        }"#;
    let text = text.replace(
        "#include <unistd.h>",
        "#include <unistd.h>\n#include <stdlib.h>\n#include <sys/wait.h>",
    );
    let mut job = TestJob::new(&["echo"]);
    if !job.compile("failing", &text) {
        return;
    }
    job.write("noexec", "\x01\x02\x03 neither a script nor a program");
    for name in ["failing", "noexec"] {
        job.allow_path(name);
    }
    let seen = job.run("./failing").await;
    let expected = "ENOENT\nENOEXEC\nEFAULT\nEFAULT\nEBADF\nENOENT\ncontinued\nat\nfrom thread\n";
    assert_eq!((seen.status, seen.output.as_str()), (ExitKind::Code(0), expected), "{seen:?}");
}

#[tokio::test]
async fn many_starts_at_once_are_all_judged() {
    let job = TestJob::new(&["expr", "seq"]);
    let text = "for i in 1 2 3 4; do (for j in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do \
        expr $j + 0; /bin/uname 2>/dev/null; done) & done; wait";
    let seen = job.run(text).await;
    assert_eq!(seen.output.lines().count(), 80, "{seen:?}");
    assert_eq!(seen.counts, StartCounts { judged: 161, refused: 80 });
    assert_eq!(seen.refused.len(), 80);
}

#[tokio::test]
async fn more_refusals_than_are_told_are_counted() {
    let job = TestJob::new(&[]);
    let seen = job.run("for ((i = 0; i < 130; i++)); do /bin/uname; done 2>/dev/null; :").await;
    assert_eq!((seen.refused.len(), seen.counts.refused), (100, 130));
}

#[tokio::test]
async fn the_first_program_is_judged_too() {
    let job = TestJob::new(&["expr"]);
    let seen = watch(host().spawn(&job.launch("expr", &["7"])).unwrap(), |_| None).await;
    seen.check_ran("expr", "7\n");
    let error = host().spawn(&job.launch("uname", &["-a"])).unwrap_err();
    let why = "uname -a (not on the allow list)".to_owned();
    assert_eq!(error, StartError::Refused { why });
    let error = host().spawn(&job.launch("./none", &[])).unwrap_err();
    assert_eq!(error.code(), "not_found");
    job.write("script", "#!/nowhere/x\n");
    let error = host().spawn(&job.launch("./script", &[])).unwrap_err();
    assert_eq!(error.code(), "system", "{error}");
}

#[tokio::test]
async fn every_sandbox_has_its_gate() {
    let job = TestJob::new(&["expr"]);
    for (backend, profile) in [
        (Backend::Namespaces, SandboxProfile::WorkspaceWrite),
        (Backend::Landlock, SandboxProfile::ReadOnly),
        (Backend::Seccomp, SandboxProfile::Default),
    ] {
        let support = host().sandbox_support();
        let is_there = match backend {
            Backend::Namespaces => support.namespaces.check().is_ok(),
            Backend::Landlock => support.landlock.check().is_ok(),
            Backend::Seccomp | Backend::Nothing => true,
        };
        if !is_there {
            continue;
        }
        let effective = Confinement { profile, network: NetworkAccess::Off };
        let granted = GrantedConfinement { requested: effective, effective, backend };
        let scratch = tempfile::tempdir().unwrap();
        let root = host().make_scratch_root(scratch.path()).unwrap();
        let paths = SandboxPaths {
            workspace: vec![job.at("").components().collect()],
            scratch: root.path().to_owned(),
            ..SandboxPaths::default()
        };
        let sandbox = SandboxSpec { granted, paths: Arc::new(paths), ..SandboxSpec::none() };
        let text = "expr 1 + 1; (expr 1 + 2); /proc/self/root/bin/uname; ./none; :";
        let launch = ProcessLaunch { sandbox, ..job.launch("bash", &["-c", text]) };
        let seen = watch(host().spawn(&launch).unwrap(), |_| None).await;
        assert!(seen.output.starts_with("2\n3\n"), "{backend:?}: {seen:?}");
        assert_eq!(seen.counts, StartCounts { judged: 4, refused: 1 }, "{backend:?}: {seen:?}");
    }
}

#[tokio::test]
async fn a_new_server_hears_of_what_waits() {
    let job = TestJob::asking(&[], &["cat"]);
    let text = "/bin/uname 2>/dev/null; cat; :";
    let Process { mut events, tree, .. } =
        host().spawn(&job.launch("bash", &["-c", text])).unwrap();
    let mut next = async || tokio::time::timeout(LIMIT, events.next()).await.unwrap();
    assert!(matches!(next().await, ProcessEvent::Gate(GateEvent::Refused(_))));
    let asked = next().await;
    assert!(matches!(asked, ProcessEvent::Gate(GateEvent::Asked(_))), "{asked:?}");
    tree.link().attach(LIMIT).unwrap();
    let counts = StartCounts { judged: 3, refused: 1 };
    assert_eq!(next().await, ProcessEvent::Gate(GateEvent::Counted(counts)));
    assert_eq!(next().await, asked);
    assert_eq!(tree.start_counts(), counts);
    tree.answer_start(77, true).unwrap();
    tree.answer_start(1, true).unwrap();
    while !matches!(next().await, ProcessEvent::Over(_)) {}
}

#[tokio::test]
async fn variables_that_the_server_did_not_give_are_judged() {
    let mut job = TestJob::new(&["expr"]);
    job.environment = vec![("LD_BIND_NOW".to_owned(), "1".to_owned())];
    job.run("expr 1").await.check_ran("given by the server", "1\n");
    let seen = job.run("LD_BIND_NOW=2 expr 1").await;
    let name = "LD_BIND_NOW".to_owned();
    assert_eq!(seen.reasons, [StartRefusalReason::Variable { name }]);
    job.rules.given = vec!["LD_BIND_NOW".to_owned()];
    let process = host().spawn(&job.launch("expr", &["1"]));
    assert!(matches!(process, Err(StartError::Refused { .. })));
}

#[tokio::test]
async fn a_question_shows_everything_and_its_answer_decides() {
    let mut job = TestJob::asking(&["expr"], &["cat"]);
    job.stdin = LaunchStdin::Text(b"typed\n".to_vec());
    let text = "cd /usr; X=1 cat -- /dev/stdin '' 'a b'; echo $?";
    let seen = job.run_and_answer(text, true).await;
    assert!(seen.output.starts_with("typed\n"), "{seen:?}");
    let question = &seen.questions[0];
    let argv: Vec<_> = question.argv.iter().map(|word| String::from_utf8_lossy(word)).collect();
    assert_eq!(argv, ["cat", "--", "/dev/stdin", "", "a b"]);
    assert_eq!((question.id, question.directory.as_path()), (1, Path::new("/usr")));
    assert_eq!(question.started_by.as_deref(), Some("bash"));
    assert!(question.changed_variables.contains(&(b"X".to_vec(), b"1".to_vec())), "{question:?}");
    assert_eq!(question.input_head.as_deref(), Some(&b"typed\n"[..]));
    assert_eq!(question.rules[0].location, "policy.ask");
    assert!(question.file.is_absolute());
    let seen = job.run_and_answer("echo a | cat; echo $?", false).await;
    assert!(seen.output.ends_with("126\n") && !seen.output.contains("a\n1"), "{seen:?}");
    assert_eq!((seen.counts.refused, seen.questions.len()), (1, 1));
}

#[tokio::test]
async fn a_question_about_the_first_program_comes_after_its_start() {
    let job = TestJob::asking(&[], &["expr"]);
    let process = host().spawn(&job.launch("expr", &["3"])).unwrap();
    watch(process, |_| Some(true)).await.check_ran("allowed", "3\n");
    let Process { mut events, tree, .. } = host().spawn(&job.launch("expr", &["3"])).unwrap();
    let mut failed = false;
    loop {
        let event = tokio::time::timeout(LIMIT, events.next()).await.unwrap();
        if let ProcessEvent::Gate(GateEvent::Asked(question)) = &event {
            tree.answer_start(question.id, false).unwrap();
        }
        failed |= matches!(event, ProcessEvent::StartFailed { .. });
        if matches!(event, ProcessEvent::Over(_)) {
            break;
        }
    }
    assert!(failed);
}

#[tokio::test]
async fn a_stop_and_a_deadline_end_a_start_that_waits() {
    let mut job = TestJob::asking(&["expr"], &["cat"]);
    for text in ["cat", "trap 'echo trapped; exit 4' TERM; cat; echo after", "exec cat"] {
        let process = host().spawn(&job.launch("bash", &["-c", text])).unwrap();
        let tree = process.tree.clone();
        let begun = Instant::now();
        let stop = move |_: &StartQuestion| {
            tree.stop(libc::SIGTERM, LIMIT, "enough".to_owned()).unwrap();
            None
        };
        let seen = watch(process, stop).await;
        assert!(begun.elapsed() < LIMIT / 2, "{text}: {seen:?}");
        assert_eq!(seen.end.note.cause, Some(EndCause::Order("enough".to_owned())));
        assert_eq!(seen.gone, [1], "{text}: {seen:?}");
    }
    let timeout = Duration::from_millis(300);
    job.deadline = Some(Deadline { timeout, grace: Duration::from_millis(100) });
    let process = host().spawn(&job.launch("cat", &[])).unwrap();
    let seen = watch_failed(process).await;
    assert!(seen, "the first program had not started");
}

/// Waits for the end of a job whose first program never started; `true` if that was said.
async fn watch_failed(process: Process) -> bool {
    let Process { mut events, .. } = process;
    let mut failed = false;
    loop {
        let event = tokio::time::timeout(LIMIT, events.next()).await.unwrap();
        failed |= matches!(event, ProcessEvent::StartFailed { .. } | ProcessEvent::LeaderExited(_));
        if matches!(event, ProcessEvent::Over(_)) {
            return failed;
        }
    }
}

#[tokio::test]
async fn a_question_whose_process_is_killed_is_withdrawn() {
    let job = TestJob::asking(&["sleep"], &["cat"]);
    let seen = job.run("cat & sleep 0.3; kill -KILL $!; wait; sleep 0.1").await;
    assert_eq!((seen.questions.len(), seen.gone.as_slice()), (1, &[1][..]), "{seen:?}");
}

#[tokio::test]
async fn without_its_shim_nothing_starts() {
    let job = TestJob::asking(&["sleep"], &["cat"]);
    let text = "cat & while :; do sleep 0.01; echo x >>alive; done";
    let Process { mut events, tree, .. } =
        host().spawn(&job.launch("bash", &["-c", text])).unwrap();
    while !matches!(events.next().await, ProcessEvent::Gate(GateEvent::Asked(_))) {}
    let shim = tree.link().shim_pid().unwrap();
    let members = tree.living_pids();
    assert!(members.len() >= 2, "{members:?}");
    kill_process(shim, Signal::KILL).unwrap();
    while tokio::time::timeout(LIMIT, events.next()).await.unwrap() != ProcessEvent::ShimLost {}
    let deadline = Instant::now() + LIMIT;
    let is_alive = |pid: &u32| {
        let pid = Pid::from_raw(pid.cast_signed()).unwrap();
        crate::processes::stat(pid).is_some_and(|stat| stat.is_alive())
    };
    while members.iter().any(is_alive) {
        assert!(Instant::now() < deadline, "something is left");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
