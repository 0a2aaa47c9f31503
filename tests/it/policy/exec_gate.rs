//! Beside an allow list each program is judged as it starts, whatever the text of the command was.
//!
//! The lines here need bash, git, make, find, python3, tar, awk and the GNU core utilities, which the
//! test command installs or requires, and a kernel that lets the server have a gate. The two lines that
//! need more say so and are left out where it is missing.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::harness::{Launch, Reply, TestServer, eventually, signal, without_privileges};

/// The example of README.
const README: &str = "[policy]\nallow = [\"git status\", \"git diff\", \"ls\", \"cargo\"]\n";

/// Programs that are often listed. Neither `touch` nor a program that opens is among them.
const LISTED: &str = "[policy]\nallow = [\"ls\", \"cat\", \"find\", \"xargs\", \"env\", \"nice\", \"nohup\", \
                      \"timeout\", \"awk\", \"sed\", \"tar\", \"split\", \"seq\", \"git\", \"cp\", \"ln\", \"mv\", \
                      \"chmod\", \"sleep\"]\n";

/// The files that every line finds: `runner` makes the file `made` without another program, and
/// `bin/ls` is `touch` under a listed name.
const PLACE: &str = r#"
find . -mindepth 1 -delete
printf '#!/bin/sh\n: > made\n' > runner
printf ': > made\n' > plain
printf 'touch made\n' > script
mkdir bin hooks sub
cp "$(command -v touch)" bin/ls
cp runner hooks/pre-commit
printf 'a\nb\n' > file
chmod +x runner plain hooks/pre-commit bin/ls
git init -q .
git config user.name tester
git config user.email tester@localhost
git config commit.gpgsign false
git add file
git commit -q -m one
git commit -q --allow-empty -m two
mkdir -p .git/hooks
cp runner .git/hooks/pre-commit
tar -cf hooked.tar .git/hooks/pre-commit
rm .git/hooks/pre-commit
echo c >> file
"#;

/// Lines that start a program which [`LISTED`] does not name, and so make the file `made`.
const ATTACKS: [&str; 68] = [
    // By a listed program.
    r"find . -maxdepth 0 -exec touch made \;",
    r"find . -maxdepth 0 -execdir touch made \;",
    r"find . -maxdepth 0 -exec sh -c 'touch made' \;",
    r"find . -maxdepth 0 -exec ./runner \;",
    "echo made | xargs touch",
    "echo touch made | xargs -I{} sh -c '{}'",
    "env touch made",
    "env -S 'touch made'",
    "env -i touch made",
    "nice touch made",
    "nohup touch made",
    "timeout 5 touch made",
    "timeout 5 sh -c 'exec touch made'",
    "awk 'BEGIN { system(\"touch made\") }'",
    "awk 'BEGIN { print \"touch made\" | \"sh\" }'",
    "sed -n '1e touch made' file",
    "sed 's/.*/touch made/e' file",
    "tar -cf a.tar --checkpoint=1 --checkpoint-action=exec='touch made' file",
    "tar -cf a.tar --use-compress-program='touch made;cat' file",
    "split -l 1 --filter='touch made' file",
    // By git, its settings and its repository.
    "git -c alias.x='!touch made' x",
    "git -c core.fsmonitor='touch made; false' status",
    "git -c diff.external='touch made; :' diff",
    "git -c core.sshCommand='touch made; :' fetch ssh://host.invalid/x",
    "git -c protocol.ext.allow=always fetch 'ext::sh -c touch% made'",
    "git -c core.hooksPath=hooks commit -q --allow-empty -m x",
    "cp runner .git/hooks/pre-commit; git commit -q --allow-empty -m x",
    "tar -xf hooked.tar && git commit -q --allow-empty -m x",
    "git -c core.editor='touch made; :' commit -q --allow-empty",
    "git -c gpg.program=./runner commit -q -S --allow-empty -m x",
    "echo '* filter=x' > .gitattributes; git -c filter.x.clean='touch made; cat' add file",
    "echo '* diff=x' > .gitattributes; git -c diff.x.textconv='touch made; cat' diff",
    "git -c tar.x.command='touch made' archive --format=x HEAD",
    "git ls-remote --upload-pack='touch made;' .",
    "git stash -q && git rebase -q -x 'touch made' HEAD~1",
    "git grep -O./runner a",
    "cp runner git-x; PATH=.:$PATH git x",
    "GIT_EXTERNAL_DIFF='touch made; :' git diff",
    "GIT_EDITOR='touch made; :' git commit -q --allow-empty",
    "GIT_SSH_COMMAND='touch made; :' git fetch ssh://host.invalid/x",
    // By a name that is known only when it runs.
    "x=touch; $x made",
    "x=tou; ${x}ch made",
    "a=(touch made); \"${a[@]}\"",
    "x='touch made'; eval \"$x\"",
    "\"$(echo touch)\" made",
    "/usr/bin/tou[c]h made",
    "f() { \"$@\"; }; f touch made",
    "x=touch; coproc $x made; wait",
    "x=touch; { $x made & }; wait",
    "x='touch made'; trap \"$x\" EXIT",
    "mapfile -C 'touch made; :' -c 1 < file",
    "x='a[$(touch made)]'; echo $((x))",
    "y='$(touch made)'; echo \"${y@P}\"",
    "command_not_found_handle() { touch made; }; no-such-program",
    // From a file.
    "cat script | sh",
    "sh script",
    ". ./script",
    "bash <(cat script)",
    "./runner",
    "sh -c ./plain",
    "BASH_ENV=./plain bash -c :",
    // By another file under a listed name.
    "PATH=$PWD/bin:$PATH; ls made",
    "cp bin/ls sub/git; PATH=sub:$PATH git made",
    "ln -s \"$(command -v touch)\" ls; ./ls made",
    "hash -p bin/ls ls; ls made",
    "x=touch; (exec -a ls $x made)",
    "x=$(command -v touch); /proc/self/root\"$x\" made",
    "exec 5< bin/ls; /proc/self/fd/5 made",
];

/// Lines of everyday work with a part of what they print.
const EVERYDAY: [(&str, &str); 52] = [
    ("greet() { echo \"hello $1\"; }; greet you", "hello you"),
    ("files=(*.txt); wc -l \"${files[@]}\"", "total"),
    ("declare -A size=([a]=1 [b]=2); echo \"${!size[@]}\" | wc -w", "2"),
    ("case \"${1:-none}\" in none) cat a.txt;; *) ls;; esac", "alpha"),
    ("eval 'cat a.txt'", "alpha"),
    ("viewer=cat; \"$viewer\" a.txt", "alpha"),
    ("trap 'echo left' EXIT; ls", "left"),
    (
        "coproc cat; echo over >&\"${COPROC[1]}\"; read -r line <&\"${COPROC[0]}\"; echo \"$line\"",
        "over",
    ),
    ("set -euo pipefail; grep -c alpha a.txt | cat", "1"),
    ("ls *.txt | xargs -I{} cat {}", "beta"),
    ("ls *.txt | xargs -n1 basename", "a.txt"),
    ("cat <<END\n$(ls a.txt)\nEND", "a.txt"),
    ("cat <<'END'\n$(touch made)\nEND", "$(touch made)"),
    ("tr a-z A-Z <<< word", "WORD"),
    ("diff <(sort a.txt) <(sort a.txt) && echo same", "same"),
    ("while read -r name; do cat \"$name\"; done < <(ls *.txt)", "beta"),
    ("for name in *.txt; do [[ -s $name ]] && wc -c \"$name\"; done", "b.txt"),
    ("if grep -q beta b.txt; then echo found; else echo none; fi", "found"),
    ("(cd sub && ls) & wait", "inner"),
    ("{ ls; cat a.txt; } > out.log 2>&1; tail -n 1 out.log", "alpha"),
    ("mapfile -t names < <(ls *.txt); echo \"${#names[@]}\"", "2"),
    ("shopt -s globstar nullglob; for name in **/*.txt; do echo \"$name\"; done", "sub/inner.txt"),
    ("export LEVEL=2; bash -c 'echo \"level $LEVEL\"'", "level 2"),
    ("sh -c 'cat a.txt | sort | uniq -c'", "alpha"),
    ("sh steps.sh", "stepped"),
    (". ./steps.sh", "stepped"),
    ("./check.sh", "checked"),
    ("sub/../check.sh", "checked"),
    ("command ls a.txt; type cat > kind.txt; cat kind.txt", "cat is"),
    ("exec 3< a.txt; cat <&3", "alpha"),
    ("seq 3 | tee >(wc -l > count.txt) | tail -n 1", "3"),
    ("time ls a.txt", "a.txt"),
    ("git status --short", "?? a.txt"),
    ("git add -A && git commit -q -m 'add; all' && git log --format=%s", "add; all"),
    ("git log --oneline -n 5 | cat", "start"),
    ("GIT_PAGER=cat git log --stat", "start"),
    ("git diff HEAD~0 --stat; git stash list; git branch --show-current | wc -l", "1"),
    ("git -c core.pager=cat -C . log -1 --format=%an", "tester"),
    ("git clone -q . copy && ls copy/kept.txt", "kept.txt"),
    ("git config alias.short '!git status --short' && git short", "?? a.txt"),
    ("git rebase -q -x 'git status --short' HEAD && echo rebased", "rebased"),
    ("find . -name '*.txt' -not -path './.git/*' -exec grep -l alpha {} +", "a.txt"),
    ("tar -czf all.tgz a.txt b.txt && tar -tzf all.tgz", "b.txt"),
    ("awk '{ print $1 }' a.txt b.txt | sort -r | head -n 1", "beta"),
    ("sed -i 's/alpha/gamma/' a.txt && cat a.txt", "gamma"),
    ("make", "made all"),
    ("make -j2 -s all && echo built", "built"),
    ("CI=1 env LEVEL=1 timeout 20 python3 -c 'print(6 * 7)'", "42"),
    ("python3 -c 'import subprocess; subprocess.run([\"uname\"])'", "Linux"),
    ("python3 - <<'END'\nfor i in range(3):\n    print('row', i)\nEND", "row 2"),
    (
        "python3 -m venv --without-pip .venv && source .venv/bin/activate && python -c 'import sys; print(sys.prefix)'",
        ".venv",
    ),
    ("sleep 0.01 & wait $!; echo \"ended $?\"", "ended 0"),
];

const EVERYDAY_LIST: &str = "[policy]\nallow = [\"ls\", \"cat\", \"grep\", \"sort\", \"uniq\", \"head\", \"tail\", \
                             \"wc\", \"sed\", \"awk\", \"git\", \"find\", \"xargs\", \"tar\", \"make\", \"python3\", \
                             \"tee\", \"seq\", \"tr\", \"diff\", \"env\", \"timeout\", \"sleep\", \"basename\", \
                             \"./check.sh\"]\n";

const EVERYDAY_PLACE: &str = r#"
find . -mindepth 1 -delete
mkdir sub
echo kept > kept.txt
git init -q .
git config user.name tester
git config user.email tester@localhost
git config commit.gpgsign false
git add kept.txt
git commit -q -m start
mv kept.txt sub/inner.txt
git update-index -q --assume-unchanged kept.txt
echo alpha > a.txt
echo beta > b.txt
echo 'echo stepped' > steps.sh
printf '#!/usr/bin/env bash\necho checked\n' > check.sh
chmod +x check.sh
printf 'all:\n\t@uname > built.log\n\t@echo made all\n' > Makefile
"#;

/// Runs a script of ours in the working directory of a server's jobs.
#[track_caller]
fn set_out(server: &TestServer, script: &str) {
    set_out_through(&[], server, script);
}

/// The same, with these words before the shell.
#[track_caller]
fn set_out_through(words: &[&str], server: &TestServer, script: &str) {
    let mut words = words.iter().copied().chain(["bash", "-ec", script]);
    let work = server.work();
    let mut command = Command::new(words.next().expect("the shell at least"));
    // Settings of whoever runs the tests do not count.
    command.args(words).current_dir(&work).env("HOME", &work);
    let done = command.output().expect("bash runs");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}

fn run(server: &mut TestServer, command: &str) -> Reply {
    server.call("run_command", json!({"command": command}))
}

fn has_made(server: &TestServer) -> bool {
    server.work().join("made").exists()
}

fn write_program(path: &Path, text: &str) {
    fs::write(path, text).expect("a file of ours");
    fs::set_permissions(path, Permissions::from_mode(0o755)).expect("a file of ours");
}

/// Checks that the only program which was refused while the line ran is this one, with this exit code.
#[track_caller]
fn assert_stopped(server: &mut TestServer, command: &str, refused: &str, exit: i64) -> Reply {
    let reply = run(server, command);
    let expected = format!("refused while it ran: {refused} · job {} · exit {exit}", reply.job());
    let verdict = reply.verdict();
    assert!(verdict.starts_with(&expected), "{command:?}: {verdict:?}, not {expected:?}");
    assert_eq!(reply["refused_programs"], json!([refused]), "{command:?}: {}", reply.0);
    assert!(!has_made(server), "{command:?} started it all the same");
    reply
}

/// The refused starts in the audit log.
fn refused_starts(server: &TestServer) -> Vec<Value> {
    let text = fs::read_to_string(server.data().join("audit.jsonl")).unwrap_or_default();
    let entries = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    entries
        .filter(|it| it["event"] == "decision" && it["verdict"] == "refused" && it["job"].is_u64())
        .collect()
}

fn is_installed(program: &str) -> bool {
    let found = Command::new("bash").args(["-c", "command -v \"$0\"", program]).output();
    let is_there = found.is_ok_and(|output| output.status.success());
    if !is_there {
        eprintln!("left out: this machine has no {program}");
    }
    is_there
}

#[test]
fn no_line_starts_a_program_that_is_not_listed() {
    const OURS: &[&str] = &[];
    for (launch, words) in [
        (Launch::stdio(), OURS),
        (Launch::http(), OURS),
        (Launch::stdio().unprivileged(), without_privileges()),
    ] {
        let mut server = launch.structured().config(LISTED).start();
        let mut wrong = Vec::new();
        for line in ATTACKS {
            set_out_through(words, &server, PLACE);
            let text = run(&mut server, line).text();
            if has_made(&server) || !text.starts_with("refused") {
                wrong.push(format!("{line:?}: {text}"));
            }
        }
        assert!(wrong.is_empty(), "an unlisted program started: {wrong:#?}");
        server.assert_alive();
    }
    // Each of them does start it where no list is in force.
    let mut free = Launch::stdio().structured().start();
    for line in ATTACKS {
        set_out(&free, PLACE);
        let reply = run(&mut free, line);
        eventually(&format!("{line:?} has an effect, not {}", reply.0), || has_made(&free));
    }
}

#[test]
fn everyday_lines_run() {
    for launch in Launch::both() {
        let mut server = launch.structured().config(EVERYDAY_LIST).start();
        let mut wrong = Vec::new();
        for (line, expected) in EVERYDAY {
            set_out(&server, EVERYDAY_PLACE);
            let reply = run(&mut server, line);
            let result = &reply.0["result"]["structuredContent"];
            let output = result["output"].as_str().unwrap_or_default();
            let is_whole = result["exit_code"] == 0 && result["refused_programs"].is_null();
            if reply.is_error() || !is_whole || !output.contains(expected) {
                wrong.push(format!("{line:?}: {}", reply.text()));
            }
        }
        assert!(wrong.is_empty(), "everyday lines failed: {wrong:#?}");
    }
}

#[test]
fn a_program_that_is_typed_into_the_pager_of_git_is_refused() {
    if !is_installed("less") {
        return;
    }
    for launch in Launch::both() {
        let mut server = launch.structured().config(README).start();
        set_out(&server, PLACE);
        set_out(&server, "seq 400 > file");
        let start =
            json!({"command": "git diff", "tty": true, "wait_s": 0, "env": {"TERM": "xterm"}});
        let job = server.call("run_command", start).ok().job();
        eventually("the pager shows the first page", || {
            server.read_raw(job, "bytes:0", 1)["total_bytes"].as_u64() > Some(100)
        });
        let keys = json!({"job": job, "text": "\n!touch made\n"});
        server.call("send_input", keys).ok();
        let refused = "touch made (not on the allow list, started by sh)";
        eventually("the program is refused", || {
            let reply = server.call("wait_jobs", json!({"jobs": [job], "wait_s": 0})).ok();
            reply.only_job()["refused_programs"][0] == refused
        });
        assert!(!has_made(&server), "what was typed was run");
        server.call("stop_jobs", json!({"jobs": [job]})).ok();
    }
}

#[test]
fn the_first_line_of_a_reply_names_the_program_the_reason_and_its_starter() {
    for launch in Launch::both() {
        let mut server = launch.structured().config(LISTED).start();
        set_out(&server, PLACE);
        for (line, refused, exit) in [
            (
                "find . -maxdepth 0 -exec touch made \\;",
                "touch made (not on the allow list, started by find)",
                0,
            ),
            ("x=touch; $x made", "touch made (not on the allow list, started by bash)", 126),
            ("x=./runner; \"$x\"", "./runner (not on the allow list, started by bash)", 126),
            (
                "x=touch; $x made 'a b' || ls file",
                "touch made 'a b' (not on the allow list, started by bash)",
                0,
            ),
        ] {
            assert_stopped(&mut server, line, refused, exit);
        }
    }
}

#[test]
fn a_line_that_is_plainly_not_listed_runs_nothing() {
    for launch in Launch::both() {
        let mut server = launch.structured().config(README).start();
        for line in ["touch made", "ls; touch made", "ls > seen && touch made", "touch made | ls"] {
            let reply = run(&mut server, line);
            let told = "refused, nothing was run: `touch` is not on the allow list";
            assert!(reply.text().starts_with(told), "{line:?}: {}", reply.text());
            assert_eq!(reply["error_code"], "not_allowed", "{line:?}: {}", reply.0);
            assert!(!has_made(&server) && !server.work().join("seen").exists(), "{line:?} ran");
        }
        let told = run(&mut server, "git push").text();
        assert!(told.starts_with("refused, nothing was run: `git`"), "{told}");
        assert_eq!(refused_starts(&server), Vec::<Value>::new(), "nothing was started");
    }
}

#[test]
fn a_rule_with_a_subcommand_allows_the_program_with_that_one_only() {
    let mut server = Launch::stdio().structured().config(README).start();
    set_out(&server, PLACE);
    for line in ["git status", "git -C . status --short", "g=git; $g diff", "git -c a.b=c diff"] {
        let reply = run(&mut server, line).ok();
        assert_eq!(reply["exit_code"], 0, "{line:?}: {}", reply.text());
    }
    for line in ["g=git; $g add runner", "g=git; $g -C . add runner", "g=git; $g stash"] {
        let verdict = run(&mut server, line).verdict();
        assert!(verdict.starts_with("refused while it ran: git "), "{line:?}: {verdict}");
    }
    let staged = run(&mut server, "git status --short").ok();
    assert!(!staged["output"].as_str().unwrap_or_default().contains('A'), "{}", staged.0);
}

#[test]
fn each_refused_start_is_one_line_in_the_audit_log() {
    for launch in Launch::both() {
        let mut server = launch.structured().config(LISTED).start();
        set_out(&server, PLACE);
        let line = "find . -maxdepth 0 -exec touch made \\;; x=./runner; $x; ls";
        let job = run(&mut server, line).job();
        eventually("both are written", || refused_starts(&server).len() >= 2);
        run(&mut server, "ls");
        let written = refused_starts(&server);
        let commands: Vec<&Value> = written.iter().map(|it| &it["command"]).collect();
        assert_eq!(commands, ["touch made", "./runner"], "a search along PATH is one start");
        for entry in &written {
            assert_eq!((&entry["job"], &entry["rule"]), (&json!(job), &json!("not_allowed")));
            assert_eq!(entry["tenant"], "local", "{entry}");
        }
    }
}

#[test]
fn starts_are_counted() {
    const JUDGED: &str = "shellyard_program_starts_judged_total";
    const REFUSED: &str = "shellyard_program_starts_refused_total";
    let mut server = Launch::http().structured().config(LISTED).start();
    set_out(&server, PLACE);
    assert_eq!((server.metric(JUDGED), server.metric(REFUSED)), (0.0, 0.0));
    run(&mut server, "ls; cat file; x=./runner; $x");
    eventually("the refused start is counted", || server.metric(REFUSED) >= 1.0);
    assert_eq!(server.metric(REFUSED), 1.0);
    let judged = server.metric(JUDGED);
    assert_eq!(judged, 4.0, "the shell, two listed programs and the refused one");
}

#[test]
fn a_copy_or_a_link_under_a_listed_name_is_another_program() {
    let mut server = Launch::stdio().structured().config(LISTED).start();
    set_out(&server, PLACE);
    for line in [
        "PATH=$PWD/bin; ls made",
        "ln -s \"$(command -v touch)\" sub/ls; sub/ls made",
        "cp bin/ls sub/cat; PATH=$PWD/sub:$PATH; cat made",
    ] {
        let verdict = run(&mut server, line).verdict();
        assert!(verdict.contains(" is not the listed "), "{line:?}: {verdict}");
        assert!(!has_made(&server), "{line:?}");
    }
    // A link to a listed program is that program.
    set_out(&server, "ln -s \"$(command -v cat)\" viewer");
    assert_eq!(run(&mut server, "./viewer file").ok()["output"], "a\nb\nc\n");
}

#[test]
fn a_listed_program_that_changes_while_the_server_runs_is_refused() {
    let tools = tempfile::tempdir().expect("a temporary directory");
    fs::set_permissions(tools.path(), Permissions::from_mode(0o755)).expect("ours");
    let tool = tools.path().join("greet");
    write_program(&tool, "#!/bin/sh\necho hello\n");
    let path = format!("{}:/usr/local/bin:/usr/bin:/bin", tools.path().display());
    let launch = Launch::stdio().structured().env("PATH", &path);
    let mut server = launch.config("[policy]\nallow = [\"greet\", \"ls\"]\n").start();
    assert_eq!(run(&mut server, "greet").ok()["output"], "hello\n");
    let changed = "greet (changed since the rules were read; `shellyard config reload` accepts it, \
                   started by bash)";
    write_program(&tool, "#!/bin/sh\n: > made\n");
    assert_stopped(&mut server, "greet", changed, 126);
    let other = tools.path().join("new");
    write_program(&other, "#!/bin/sh\n: > made\n");
    fs::rename(&other, &tool).expect("a file of ours");
    assert_stopped(&mut server, "greet", changed, 126);
}

#[test]
fn a_program_that_a_job_puts_on_the_path_is_unknown_in_every_lane() {
    let tools = tempfile::tempdir().expect("a temporary directory");
    let path = format!("{}:/usr/local/bin:/usr/bin:/bin", tools.path().display());
    let launch = Launch::stdio().structured().env("PATH", &path);
    let config = "[policy]\nallow = [\"cp\", \"[lane=build] greet\"]\n";
    let mut server = launch.config(config).start();
    set_out(&server, PLACE);
    run(&mut server, &format!("cp runner {}/greet", tools.path().display())).ok();
    for lane in ["default", "build"] {
        let reply = server.call("run_command", json!({"command": "greet", "lane": lane}));
        assert!(!has_made(&server), "the planted file ran in lane {lane}: {}", reply.0);
    }
}

#[test]
fn a_rule_with_a_path_means_the_file_from_the_directory_of_the_server() {
    let config = "[policy]\nallow = [\"./check.sh\", \"ls\"]\n";
    let mut server = Launch::stdio().structured().config(config).start();
    set_out(&server, EVERYDAY_PLACE);
    set_out(&server, "printf '#!/bin/sh\\n: > made\\n' > sub/check.sh; chmod +x sub/check.sh");
    for line in ["./check.sh", "cd sub; ../check.sh", "cd /; \"$OLDPWD/check.sh\""] {
        let reply = run(&mut server, line).ok();
        assert_eq!(reply["output"], "checked\n", "{line:?}: {}", reply.text());
    }
    for (line, cwd) in [("cd sub; ./check.sh", ""), ("x=./check.sh; $x", "sub")] {
        let arguments = json!({"command": line, "cwd": server.work().join(cwd)});
        let reply = server.call("run_command", arguments);
        assert!(reply.verdict().starts_with("refused"), "{line:?}: {}", reply.text());
        assert!(!server.work().join("sub/made").exists(), "{line:?} ran the other file");
    }
}

#[test]
fn the_interpreter_that_env_finds_for_a_listed_script_is_a_known_file() {
    let config = "[policy]\nallow = [\"./check.sh\"]\n";
    let mut server = Launch::stdio().structured().config(config).start();
    set_out(&server, EVERYDAY_PLACE);
    set_out(&server, "cp \"$(command -v touch)\" sub/bash");
    let reply = run(&mut server, "PATH=$PWD/sub:$PATH ./check.sh made");
    assert!(!has_made(&server), "a planted interpreter was started: {}", reply.0);
}

#[test]
fn a_variable_that_can_run_code_refuses_the_start() {
    let mut server = Launch::stdio().structured().config(LISTED).start();
    set_out(&server, PLACE);
    for (name, value, line) in [
        ("LD_PRELOAD", "./x.so", "ls"),
        ("LD_LIBRARY_PATH", "bin", "ls"),
        ("LD_AUDIT", "./x.so", "ls"),
        ("GCONV_PATH", "bin", "cat file"),
        ("BASH_ENV", "./plain", "bash -c :"),
        ("GIT_EXTERNAL_DIFF", "./runner", "git diff"),
        ("GIT_SSH_COMMAND", "./runner", "git fetch ssh://host.invalid/x"),
        ("GIT_PAGER", "./runner", "git log"),
        ("TAR_OPTIONS", "--checkpoint=1", "tar -cf a.tar file"),
    ] {
        let in_text = json!({"command": format!("{name}='{value}' {line}")});
        let exported = json!({"command": format!("export {name}='{value}'; {line}")});
        let of_call = json!({"command": line, "env": {name: value}});
        for arguments in [in_text, exported, of_call] {
            let reply = server.call("run_command", arguments.clone());
            let text = reply.text();
            assert!(text.contains("refused") && text.contains(name), "{arguments}: {text}");
            assert!(!has_made(&server), "{arguments}");
        }
    }
    for line in ["LC_ALL=C ls", "GIT_PAGER=cat git log", "LD_PRELOAD= ls", "TZ=UTC ls"] {
        assert_eq!(run(&mut server, line).ok()["exit_code"], 0, "{line:?}");
    }
}

#[test]
fn a_listed_program_that_opens_starts_what_it_likes() {
    let config = "[policy]\nallow = [\"make\", \"python3\", \"sleep\"]\n";
    let mut server = Launch::stdio().structured().config(config).start();
    for line in [
        "make",
        "python3 -c 'import os; os.system(\"touch made\")'",
        "python3 -c 'import os; os.execvp(\"touch\", [\"touch\", \"made\"])'",
    ] {
        set_out(&server, "rm -f made; printf 'all:\\n\\tsh -c \"touch made\"\\n' > Makefile");
        let reply = run(&mut server, line).ok();
        assert!(has_made(&server), "{line:?}: {}", reply.text());
        assert_eq!(reply["refused_programs"], Value::Null, "{}", reply.0);
    }
    // It does not open what comes after it.
    set_out(&server, "rm -f made");
    let after = "touch made (not on the allow list, started by bash)";
    assert_stopped(&mut server, "python3 -c 0; x=touch; $x made", after, 126);
}

#[test]
fn the_setting_names_the_programs_that_open() {
    let config = "[policy]\nallow = [\"python3\", \"awk\"]\nopens = [\"awk\"]\n";
    let mut server = Launch::stdio().structured().config(config).start();
    let refused = "touch made (not on the allow list, started by python3)";
    let line =
        "python3 -c 'import os; os.execv(\"/usr/bin/touch\", [\"touch\", \"made\"])' 2> /dev/null";
    assert_stopped(&mut server, line, refused, 1);
    run(&mut server, "awk 'BEGIN { system(\"touch made\") }'").ok();
    assert!(has_made(&server), "awk opens here");
}

#[test]
fn a_file_without_a_name_never_starts() {
    let config = "[policy]\nallow = [\"python3\", \"ls\"]\nopens = []\n";
    let mut server = Launch::stdio().structured().config(config).start();
    let copy = "import os, shutil\n\
                data = open(shutil.which('touch'), 'rb').read()\n";
    for start in [
        "number = os.memfd_create('ls')\nos.write(number, data)\nos.execve(number, ['ls', 'made'], os.environ)",
        "number = os.memfd_create('ls', 0)\nos.write(number, data)\nos.execv(f'/proc/self/fd/{number}', ['ls', 'made'])",
        "open('gone', 'wb').write(data)\nos.chmod('gone', 0o755)\nnumber = os.open('gone', os.O_RDONLY)\n\
         os.unlink('gone')\nos.execve(number, ['ls', 'made'], os.environ)",
    ] {
        let reply = run(&mut server, &format!("python3 - <<'END'\n{copy}{start}\nEND"));
        assert!(!has_made(&server), "{start:?} started it: {}", reply.0);
        assert!(
            reply.verdict().starts_with("refused while it ran: "),
            "{start:?}: {}",
            reply.text()
        );
    }
}

#[test]
fn a_link_that_changes_while_it_is_judged_does_not_let_another_program_start() {
    let config = "[policy]\nallow = [\"python3\", \"true\"]\nopens = []\n";
    let mut server = Launch::stdio().structured().config(config).start();
    let race = "import os, shutil, subprocess, threading\n\
                listed, other = shutil.which('true'), shutil.which('touch')\n\
                os.symlink(listed, 'link')\n\
                over = False\n\
                def swap():\n\
                \x20   while not over:\n\
                \x20       for target in (other, listed):\n\
                \x20           os.symlink(target, 'next')\n\
                \x20           os.rename('next', 'link')\n\
                thread = threading.Thread(target=swap)\n\
                thread.start()\n\
                ran = 0\n\
                for _ in range(500):\n\
                \x20   try:\n\
                \x20       ran += subprocess.call(['./link', 'made']) == 0\n\
                \x20   except PermissionError:\n\
                \x20       pass\n\
                over = True\n\
                thread.join()\n\
                print('tried', ran > 0)\n";
    let reply = run(&mut server, &format!("python3 - <<'END'\n{race}END"));
    let output = reply["output"].as_str().unwrap_or_default();
    assert!(output.contains("tried"), "{}", reply.0);
    assert!(!has_made(&server), "another program was started: {}", reply.0);
}

#[test]
fn code_is_not_loaded_into_a_gated_shell() {
    // There is no such file: what counts is that bash does not even look for it.
    let mut server = Launch::stdio().structured().config(LISTED).start();
    for line in [
        "enable -f ./none.so none",
        "builtin enable -f ./none.so none",
        "command enable -f ./none.so none",
        "builtin enable enable; enable -f ./none.so none",
    ] {
        let reply = run(&mut server, line);
        let output = reply["output"].as_str().unwrap_or_default();
        assert_ne!(reply["exit_code"], 0, "{line:?}: {}", reply.0);
        assert!(!output.contains("cannot open shared object"), "{line:?} tried: {output}");
    }
}

#[test]
fn a_deny_rule_holds_below_a_program_that_opens() {
    let config = "[policy]\nallow = [\"make\", \"python3\", \"env\"]\ndeny = [\"touch\"]\n";
    for launch in Launch::both() {
        let mut server = launch.structured().config(config).start();
        set_out(&server, "printf 'all:\\n\\ttouch made\\n' > Makefile");
        let refused = "touch made (matches deny rule \"touch\" (policy.deny[0]), started by make)";
        assert_stopped(&mut server, "make 2> /dev/null", refused, 2);
        for line in [
            "python3 -c 'import os; os.execvp(\"touch\", [\"other\", \"made\"])'",
            "python3 -c 'import os; os.system(\"env touch made\")'",
            "python3 -c 'import os, shutil; os.symlink(shutil.which(\"touch\"), \"x\"); os.system(\"./x made\")'",
        ] {
            let verdict = run(&mut server, line).verdict();
            assert!(
                verdict.contains("deny rule \"touch\" (policy.deny[0])"),
                "{line:?}: {verdict}"
            );
            assert!(!has_made(&server), "{line:?}");
        }
    }
}

#[test]
fn without_a_gate_only_plain_words_run() {
    let config = "[policy]\nallow = [\"ls\", \"cat\"]\nenforce = \"off\"\n";
    for launch in Launch::both() {
        let mut server = launch.structured().config(config).start();
        for line in ["ls", "ls | cat", "ls && cat /dev/null; ls", "ls > new.txt"] {
            let reply = run(&mut server, line).ok();
            assert_eq!(reply["exit_code"], 0, "{line:?}: {}", reply.text());
        }
        for line in [
            "f() { ls; }; f",
            "x=touch; $x made",
            "a=(touch made); \"${a[@]}\"",
            "eval ls",
            "cat <(ls)",
            "echo \"$(ls)\"",
            "touch made",
            "ls; touch made",
        ] {
            let reply = run(&mut server, line);
            assert!(reply.is_error(), "{line:?} ran: {}", reply.0);
            assert!(reply.text().starts_with("refused, nothing was run: "), "{}", reply.text());
            assert!(!has_made(&server), "{line:?}");
        }
    }
}

#[test]
fn a_required_gate_judges_as_the_usual_one() {
    let config = "[policy]\nallow = [\"ls\"]\nenforce = \"require\"\n";
    let mut server = Launch::stdio().structured().config(config).start();
    assert_eq!(run(&mut server, "f() { ls; }; f").ok()["exit_code"], 0);
    let refused = "touch made (not on the allow list, started by bash)";
    assert_stopped(&mut server, "x=touch; $x made", refused, 126);
}

#[test]
fn a_job_that_waited_in_the_queue_of_a_killed_server_is_gated_too() {
    let config = "[policy]\nallow = [\"sleep\", \"ls\"]\n[queue]\nslots = 1\n";
    let mut server = Launch::http().structured().config(config).start();
    let first = server.start("while [ ! -e open ]; do sleep 0.05; done");
    server.wait_running(first);
    let queued = server.start("x=touch; $x made; : > passed");
    let logic = i32::try_from(server.server_pid()).expect("a pid fits");
    signal(logic, Signal::KILL);
    let open: PathBuf = server.work().join("open");
    fs::write(open, "").expect("a file of ours");
    eventually("the queued job has run", || server.work().join("passed").exists());
    eventually("its refused start is written", || !refused_starts(&server).is_empty());
    let written = refused_starts(&server);
    assert_eq!(
        (&written[0]["job"], &written[0]["command"]),
        (&json!(queued), &json!("touch made"))
    );
    assert!(!has_made(&server), "a restored job was not gated");
}

#[test]
fn a_job_with_a_gate_ends_at_its_deadline_and_when_it_is_stopped() {
    let mut server = Launch::stdio().structured().config(LISTED).start();
    set_out(&server, PLACE);
    let storm = "x=./runner; while :; do $x; ls; done > /dev/null 2>&1";
    let late = json!({"command": storm, "timeout_s": 0.5, "wait_s": 20});
    assert_eq!(server.call("run_command", late)["outcome"], "timed_out");
    let job = server.start(storm);
    server.wait_running(job);
    server.call("stop_jobs", json!({"jobs": [job]})).ok();
    assert_eq!(server.wait_finished(job)["outcome"], "stopped");
    assert!(!has_made(&server));
    server.assert_alive();
}
