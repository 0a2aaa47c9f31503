//! Starts in tables: attacks and everyday work. Each case is a chain of starts, each by the one
//! before, and the verdict on the last one.

use std::path::{Path, PathBuf};

use super::*;
use crate::Policy;
use crate::rules::parse_patterns;

/// The files of the machine in these tests, with the names that the server found for them.
const FILES: [(&str, &str); 37] = [
    ("/usr/bin/bash", "bash"),
    ("/usr/bin/dash", "sh dash"),
    ("/usr/bin/env", "env"),
    ("/usr/bin/git", "git git-upload-pack git-core/git-add git-core/git"),
    ("/usr/lib/git-core/git-remote-http", "git-core/git-remote-http git-core/git-remote-https"),
    ("/usr/lib/git-core/git-submodule", "git-core/git-submodule"),
    ("/usr/bin/less", "less pager"),
    ("/usr/bin/tar", "tar"),
    ("/usr/bin/gzip", "gzip"),
    ("/usr/bin/zcat", "zcat"),
    ("/usr/bin/sed", "sed"),
    ("/usr/bin/basename", "basename"),
    ("/usr/bin/man", "man"),
    ("/usr/bin/nroff", "nroff"),
    ("/usr/bin/groff", "groff"),
    ("/usr/bin/ssh", "ssh"),
    ("/usr/bin/mawk", "awk mawk"),
    ("/usr/bin/python3.11", "python3 python3.11"),
    ("/usr/bin/pytest", "pytest"),
    ("/usr/bin/black", "black"),
    ("/usr/bin/make", "make"),
    ("/usr/bin/find", "find"),
    ("/usr/bin/xargs", "xargs"),
    ("/usr/bin/ls", "ls"),
    ("/usr/bin/cat", "cat"),
    ("/usr/bin/npm", "npm"),
    ("/usr/bin/node", "node"),
    ("/usr/bin/timeout", "timeout"),
    ("/usr/bin/vim.basic", "vim vi vim.basic"),
    ("/root/.cargo/bin/rustup", "rustup cargo rustc"),
    ("/bin/busybox", "busybox wget head"),
    ("/usr/bin/kubectl", "kubectl"),
    ("/usr/bin/touch", "touch"),
    ("/usr/bin/rm", "rm"),
    ("/usr/bin/ed", "ed"),
    ("/usr/bin/patch", "patch"),
    ("/usr/bin/true", "true"),
];

fn known_files() -> Vec<KnownFile> {
    let file = |(index, (path, names)): (usize, &(&str, &str))| KnownFile {
        path: PathBuf::from(path),
        device: 1,
        inode: index as u64,
        changed: (100, 0),
        names: names.split_whitespace().map(str::to_owned).collect(),
    };
    FILES.iter().enumerate().map(file).collect()
}

/// Returns the file at a path; `!` before it means that it has changed, `%` that another file
/// replaced it.
fn started_file(path: &str) -> StartedFile {
    let plain = path.trim_start_matches(['!', '%']);
    let inode =
        FILES.iter().position(|(known, _)| *known == plain).filter(|_| !path.starts_with('%'));
    StartedFile {
        path: PathBuf::from(plain),
        device: 1,
        inode: inode.map_or(9999, |it| it as u64),
        changed: (if path.starts_with('!') { 200 } else { 100 }, 0),
    }
}

/// Returns the rules of a list, separated by commas.
fn gate_rules(allow: Option<&str>, deny: &str, ask: &str) -> GateRules {
    let parse = |list: &str, key: &str| {
        let rules = list.split(',').filter(|rule| !rule.is_empty()).enumerate();
        rules
            .map(|(index, rule)| {
                crate::rules::PolicyRule::parse(rule, format!("policy.{key}[{index}]")).unwrap()
            })
            .collect()
    };
    let policy = Policy {
        allow: allow.map(|list| parse(list, "allow")),
        deny: parse(deny, "deny"),
        ask: parse(ask, "ask"),
        ..Policy::default()
    };
    let opens = default_opens();
    let scope = GateScope { tenant: "t", lane: "l", directory: Path::new("/w"), opens: &opens };
    let rules = policy.gate_rules(&scope, &Path::to_path_buf).unwrap();
    GateRules { files: known_files(), ..rules }
}

/// Judges a chain of starts and describes the verdict on the last. A start is written as
/// `NAME=value… FILE [#!INTERPRETER] ARGV…`; a name without a directory is that of a known file.
fn play(gate: &Gate, chain: &[&str]) -> String {
    let mut starter = None;
    for start in chain {
        match judge(gate, start, starter.as_ref()) {
            StartVerdict::Allow(program) => starter = Some(program),
            StartVerdict::Ask { rules, then } => {
                let rules: Vec<String> = rules.into_iter().map(|rule| rule.text).collect();
                return format!("ask {} for {}", rules.join(","), then.name);
            }
            StartVerdict::Refuse(refusal) => return refusal.to_string(),
        }
    }
    let program = starter.unwrap();
    format!("{:?} {}", program.kind, program.name)
}

fn judge(gate: &Gate, start: &str, starter: Option<&RunningProgram>) -> StartVerdict {
    let mut words = start.split_whitespace().peekable();
    let mut variables = Vec::new();
    while let Some((name, value)) = words.peek().and_then(|word| word.split_once('=')) {
        variables.push((name.as_bytes().to_vec(), value.as_bytes().to_vec()));
        words.next();
    }
    let file = words.next().unwrap();
    let has_name = |names: &str| names.split_whitespace().any(|name| name == file);
    let path = FILES.iter().find(|(_, names)| has_name(names)).map_or(file, |(path, _)| path);
    let named = started_file(path);
    let interpreter = words.peek().and_then(|word| word.strip_prefix("#!")).map(started_file);
    if interpreter.is_some() {
        words.next();
    }
    let mut argv: Vec<Vec<u8>> = words.map(|word| word.as_bytes().to_vec()).collect();
    if argv.is_empty() {
        argv.push(file.as_bytes().to_vec());
    }
    gate.judge(&ProgramStart {
        file: interpreter.as_ref().unwrap_or(&named),
        script: interpreter.is_some().then_some(&named),
        argv: &argv,
        changed_variables: &variables,
        starter,
    })
}

/// Checks each line of a table: `RULES | START > START | VERDICT`.
#[track_caller]
fn check(table: &str) {
    for line in table.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let [rules, chain, expected] = line.split(" | ").collect::<Vec<_>>()[..] else {
            panic!("{line}")
        };
        let (mut allow, mut deny, mut ask) = (None, "", "");
        for list in rules.split("; ") {
            match list.split_once(' ').unwrap() {
                ("allow", rules) => allow = Some(rules),
                ("deny", rules) => deny = rules,
                ("ask", rules) => ask = rules,
                _ => panic!("{line}"),
            }
        }
        let gate = Gate::new(gate_rules(allow, deny, ask)).unwrap();
        assert_eq!(play(&gate, &chain.split(" > ").collect::<Vec<_>>()), expected, "{line}");
    }
}

const UNLISTED: &str = r##"
allow find | bash > find find . > touch touch pwned | touch pwned (not on the allow list, started by find)
allow ls | bash > touch touch pwned | touch pwned (not on the allow list, started by bash)
allow ls | touch touch pwned | touch pwned (not on the allow list)
# A copy, a link and another name for it.
allow git | bash > /w/git git status | git status (/w/git is not the listed /usr/bin/git; a rule with its path allows it, started by bash)
allow git | bash > /w/x git status | git status (/w/x is not the listed /usr/bin/git; a rule with its path allows it, started by bash)
allow ls | bash > touch ls pwned | ls pwned (not on the allow list, started by bash)
allow ls | bash > /w/sh sh -c x | sh -c x (not on the allow list, started by bash)
allow ls | bash > /lib64/ld-linux.so.2 ls /w/x | ls /w/x (/lib64/ld-linux.so.2 is not the listed /usr/bin/ls; a rule with its path allows it, started by bash)
# A changed or replaced file.
allow ls | bash > !/usr/bin/ls ls | ls (changed since the rules were read; `shellyard config reload` accepts it, started by bash)
allow ls | bash > %/usr/bin/ls ls | ls (changed since the rules were read; `shellyard config reload` accepts it, started by bash)
allow ls | !/usr/bin/bash bash | bash (changed since the rules were read; `shellyard config reload` accepts it)
allow ls | bash > !/usr/bin/touch touch | touch (not on the allow list, started by bash)
allow git | bash > git git log > !/usr/bin/less less | less (changed since the rules were read; `shellyard config reload` accepts it, started by git)
# The wrong applet, and the wrong subcommand.
allow head | bash > /bin/busybox wget x | wget x (not on the allow list, started by bash)
allow head | bash > /bin/busybox busybox wget x | busybox wget x (not on the allow list, started by bash)
allow head | bash > /bin/busybox busyboxx wget x | busyboxx wget x (not on the allow list, started by bash)
allow /bin/busybox head | bash > /bin/busybox wget x | wget x (not on the allow list, started by bash)
allow cargo | bash > /root/.cargo/bin/rustup rustc x | rustc x (not on the allow list, started by bash)
allow git status | bash > git git push | git push (not on the allow list, started by bash)
allow git status | bash > git git-push status | git-push status (not on the allow list, started by bash)
allow git status | bash > git git -C status push | git -C status push (not on the allow list, started by bash)
allow git status | bash > git git statusx | git statusx (not on the allow list, started by bash)
allow git status | bash > git git --git-dir status push | git --git-dir status push (not on the allow list, started by bash)
# Below shells of listed programs, and in pagers.
allow git diff | bash > git git diff > less > sh sh -c id > rm rm x | rm x (not on the allow list, started by sh)
allow git diff | bash > git git diff > less > sh sh -c x > git git push | git push (not on the allow list, started by sh)
allow git status | bash > git git status > sh sh -c x > git git fetch | git fetch (not on the allow list, started by sh)
allow tar | bash > tar tar cf x > sh sh -c x > touch touch pwned | touch pwned (not on the allow list, started by sh)
allow vim | bash > vim.basic vim > bash bash > touch touch x | touch x (not on the allow list, started by bash)
# Scripts that no rule names, also with the name of a listed program.
allow ls | bash > /w/x.sh #!/usr/bin/bash ./x.sh | ./x.sh (not on the allow list, started by bash)
allow git | bash > /w/git #!/usr/bin/bash git | git (/w/git is not the listed /usr/bin/git; a rule with its path allows it, started by bash)
allow git | bash > git git commit > /w/.git/hooks/pre-commit #!/usr/bin/dash .git/hooks/pre-commit | .git/hooks/pre-commit (not on the allow list, started by git)
# A path rule means its file.
allow ./build.sh | bash > /w/sub/build.sh ./build.sh | ./build.sh (not on the allow list, started by bash)
allow /opt/x/* | bash > /opt/y/tool | /opt/y/tool (not on the allow list, started by bash)
# A regular expression counts for known files only.
allow re:^git status | bash > /w/git git status | git status (not on the allow list, started by bash)
"##;

#[test]
fn an_unlisted_program_is_refused_however_it_is_started() {
    check(UNLISTED);
}

const HELPERS: &str = r##"
allow git log | bash > git git log > less | Judged less
allow git log | bash > less | less (not on the allow list, started by bash)
allow find | bash > find find > gzip gzip x | gzip x (not on the allow list, started by find)
allow tar | bash > tar tar czf x > sh sh -c gzip > gzip | Judged gzip
allow git fetch | bash > git git fetch > /usr/bin/git git maintenance run | Judged git
allow git fetch | bash > git git fetch > sh sh -c x > git git-upload-pack /r | Judged git
allow git fetch | bash > git git fetch > sh sh -c x > git git-upload-pack /r > git git pack-objects | Judged git
allow git fetch | bash > git git fetch > git git remote-https u u > /usr/lib/git-core/git-remote-http git-remote-https u u | Judged git-remote-http
allow ls | bash > /usr/lib/git-core/git-remote-http git-remote-https u u | git-remote-https u u (not on the allow list, started by bash)
allow git submodule | bash > git git submodule > /usr/lib/git-core/git-submodule #!/usr/bin/dash git-submodule > sed sed -e x | Judged sed
allow git submodule | bash > git git submodule > /usr/lib/git-core/git-submodule #!/usr/bin/dash git-submodule > git git rev-parse | Judged git
allow git submodule | bash > git git submodule > sed sed -e x | sed -e x (not on the allow list, started by git)
allow git fetch | bash > git git fetch > ssh ssh h | Judged ssh
allow git fetch | bash > git git fetch > ssh ssh h > sh sh -c proxy > touch touch x | touch x (not on the allow list, started by sh)
allow man | bash > man man ls > nroff #!/usr/bin/dash nroff > groff | Judged groff
allow zcat | bash > zcat #!/usr/bin/dash zcat x > gzip gzip -cd x | Judged gzip
allow patch | bash > patch > sh sh -c ed > ed > sh sh -c x > touch touch x | touch x (not on the allow list, started by sh)
# A lost parent makes it stricter.
allow tar | gzip | gzip (not on the allow list)
allow make | touch touch x | touch x (not on the allow list)
"##;

#[test]
fn helpers_belong_to_the_program_that_starts_them() {
    check(HELPERS);
}

const EVERYDAY: &str = r##"
allow git status | bash > git git status -s | Judged git
allow git status | bash > git git -C /x --no-pager -c a=b --git-dir=x status | Judged git
allow git | bash > GIT_PAGER=cat git git log | Judged git
allow git log* | bash > git git log | Judged git
allow awk | bash > mawk awk x | Judged awk
allow cargo | bash > /root/.cargo/bin/rustup cargo test > /root/x/cargo cargo test > /w/target/x x | Opens x
allow env,cargo | bash > env env RUST_LOG=debug cargo > RUST_LOG=debug /root/.cargo/bin/rustup cargo | Opens cargo
allow timeout,cargo | bash > timeout timeout 6 cargo > /root/.cargo/bin/rustup cargo | Opens cargo
allow make | bash > make make > sh sh -c x > touch touch x | Opens touch
allow make | bash > make make > LD_PRELOAD=x.so touch touch x | Opens touch
allow xargs,ls | bash > xargs xargs -I{} ls {} > ls ls x | Judged ls
allow find,ls | bash > find find > bash bash -c ls > ls | Judged ls
allow python3 | bash > python3.11 .venv/bin/python x.py | Opens python3
allow python3 -m pytest | bash > python3.11 python3 -m pytest -q | Opens python3
allow head | bash > /bin/busybox head -n 1 | Judged head
allow busybox | bash > /bin/busybox busybox wget x | Judged busybox
allow ./build.sh | bash > /w/build.sh #!/usr/bin/bash ./build.sh | Judged build.sh
allow ./build.sh | bash > !/w/build.sh ../w/build.sh | Judged build.sh
allow /opt/x/* | bash > /opt/x/tool | Judged tool
allow .venv/bin/python,ls | bash > /w/.venv/bin/python x | Opens python
allow re:^git (status|log) | bash > git git -C x log | Judged git
allow gi* | bash > git git push | Judged git
allow ls | bash > bash bash -c ls > sh sh x.sh > ls | Judged ls
allow kubectl get | bash > kubectl kubectl get pods | Opens kubectl
allow * --version | bash > /w/x x --version | Judged x
"##;

#[test]
fn everyday_work_starts() {
    check(EVERYDAY);
}

const SCRIPTS: &str = r##"
allow pytest | bash > /usr/bin/pytest #!/usr/bin/python3.11 pytest -q | Opens pytest
allow pytest | bash > /usr/bin/pytest #!/usr/bin/python3.11 pytest -q > touch touch x | Opens touch
allow ls | bash > /usr/bin/pytest #!/usr/bin/python3.11 pytest -q | pytest -q (not on the allow list, started by bash)
allow black | bash > /usr/bin/black #!/usr/bin/env /usr/bin/black --check . > python3.11 python3 /usr/bin/black --check . | Judged black
allow black | bash > /usr/bin/black #!/usr/bin/env /usr/bin/black --check . > /w/python3 python3 -u /usr/bin/black --check . | python3 -u /usr/bin/black --check . (not on the allow list, started by black)
allow black | bash > /usr/bin/black #!/usr/bin/env /usr/bin/black --check . > python3 python -u /usr/bin/black --check . | Judged black
allow black | bash > /usr/bin/black #!/usr/bin/env /usr/bin/black --check . > less python3 /usr/bin/black --check . | python3 /usr/bin/black --check . (not on the allow list, started by black)
allow black | bash > /usr/bin/black #!/usr/bin/env /usr/bin/black --check . > python3.11 python3 /usr/bin/black --check . > touch touch x | touch x (not on the allow list, started by black)
# Only the script with its arguments, only once, and only by the known `env`.
allow black | bash > /usr/bin/black #!/usr/bin/env /usr/bin/black --check . > touch touch x | touch x (not on the allow list, started by black)
allow black | bash > /usr/bin/black #!/usr/bin/env /usr/bin/black --check . > touch touch /usr/bin/black x | touch /usr/bin/black x (not on the allow list, started by black)
allow black | bash > /usr/bin/black #!/usr/bin/env /usr/bin/black --check . > python3.11 python3 /usr/bin/black --check . > touch touch /usr/bin/black --check . | touch /usr/bin/black --check . (not on the allow list, started by black)
allow /w/x | bash > /w/x #!/w/env /w/x a > touch touch /w/x a | touch /w/x a (not on the allow list, started by x)
allow npm | bash > npm #!/usr/bin/env npm test > node node /usr/bin/npm test > sh sh -c jest > /w/jest | Opens jest
"##;

#[test]
fn a_listed_script_may_have_its_interpreter() {
    check(SCRIPTS);
}

const VARIABLES: &str = r##"
allow ls | bash > LD_PRELOAD=./x.so ls | ls (LD_PRELOAD is set and may change what it runs, started by bash)
allow ls | BASH_ENV=x bash bash -c ls | bash -c ls (BASH_ENV is set and may change what it runs)
allow git | bash > GIT_SSH_COMMAND=pwn git git fetch | git fetch (GIT_SSH_COMMAND is set and may change what it runs, started by bash)
allow cargo | bash > RUSTC_WRAPPER=./evil /root/.cargo/bin/rustup cargo | cargo (RUSTC_WRAPPER is set and may change what it runs, started by bash)
allow black | bash > PYTHONPATH=x /usr/bin/black #!/usr/bin/python3.11 black | black (PYTHONPATH is set and may change what it runs, started by bash)
allow black | bash > /usr/bin/black #!/usr/bin/env black > PYTHONSTARTUP=x python3.11 python3 black | python3 black (PYTHONSTARTUP is set and may change what it runs, started by black)
allow ls | bash > PYTHONPATH=x PAGER=x EDITOR=x ls | Judged ls
# A listed program sets variables for its helpers, but not those of the loader.
allow git | bash > git git commit > GIT_DIR=x GIT_CONFIG_PARAMETERS=x git git maintenance | Judged git
allow git | bash > git git commit > LD_PRELOAD=x git git maintenance | git maintenance (LD_PRELOAD is set and may change what it runs, started by git)
# What they name is judged when it starts.
allow git | bash > git git x > sh sh -c x > GIT_SSH=x git git fetch | Judged git
allow git,make | bash > git git rebase > sh sh -c make > GIT_EXEC_PATH=/usr/lib/git-core make | Opens make
allow git | bash > git git st > sh sh -c x > PAGER=pwn git git log | git log (PAGER is set and may change what it runs, started by sh)
allow make | bash > make make > PYTHONSTARTUP=x python3.11 python3 | Opens python3
"##;

#[test]
fn a_variable_that_can_run_code_refuses_the_start() {
    check(VARIABLES);
}

const DENY_AND_ASK: &str = r##"
deny rm | bash > rm rm x | rm x (matches deny rule "rm" (policy.deny[0]), started by bash)
deny rm | bash > ls | Judged ls
deny rm | bash > /w/rm rm x | rm x (matches deny rule "rm" (policy.deny[0]), started by bash)
deny rm | bash > /w/x rm x | rm x (matches deny rule "rm" (policy.deny[0]), started by bash)
deny rm -rf | bash > rm rm --force -r x | rm --force -r x (matches deny rule "rm -rf" (policy.deny[0]), started by bash)
deny vi | bash > vim.basic vim x | vim x (matches deny rule "vi" (policy.deny[0]), started by bash)
deny wget | bash > /bin/busybox busybox wget x | busybox wget x (matches deny rule "wget" (policy.deny[0]), started by bash)
deny wget | bash > /w/busybox busybox wget x | busybox wget x (matches deny rule "wget" (policy.deny[0]), started by bash)
deny wget | bash > /bin/busybox head x | Judged head
deny git push | bash > git git -C . push | git -C . push (matches deny rule "git push" (policy.deny[0]), started by bash)
deny git push | bash > git git-push | git-push (matches deny rule "git push" (policy.deny[0]), started by bash)
deny git push | bash > git git stash push | Judged git
deny /usr/bin/t* | bash > touch | touch (matches deny rule "/usr/bin/t*" (policy.deny[0]), started by bash)
deny ./x.sh | bash > /w/x.sh #!/usr/bin/bash ../w/x.sh | ../w/x.sh (matches deny rule "./x.sh" (policy.deny[0]), started by bash)
deny python3 | bash > /w/x.py #!/usr/bin/python3.11 ./x.py | ./x.py (matches deny rule "python3" (policy.deny[0]), started by bash)
deny re:^rm .*x | bash > rm rm -f x | rm -f x (matches deny rule "re:^rm .*x" (policy.deny[0]), started by bash)
allow make; deny rm | bash > make > sh sh -c x > rm rm x | rm x (matches deny rule "rm" (policy.deny[0]), started by sh)
allow rm; deny rm | bash > rm rm x | rm x (matches deny rule "rm" (policy.deny[0]), started by bash)
allow git; deny ssh | bash > git git fetch > ssh ssh h | ssh h (matches deny rule "ssh" (policy.deny[0]), started by git)
allow *; deny rm | bash > rm rm x | rm x (matches deny rule "rm" (policy.deny[0]), started by bash)
ask touch | bash > touch touch x | ask touch for touch
ask touch | bash > find find > touch touch x | ask touch for touch
allow ls; ask touch | bash > touch touch x | ask touch for touch
allow ls; ask touch | bash > /w/touch touch x | touch x (not on the allow list, started by bash)
allow ls; ask touch | bash > !/usr/bin/touch touch x | touch x (not on the allow list, started by bash)
allow ls; ask touch | bash > LD_PRELOAD=x touch touch x | touch x (LD_PRELOAD is set and may change what it runs, started by bash)
allow touch; ask touch | bash > touch touch x | Judged touch
allow git; ask ssh | bash > git git fetch > ssh ssh h | ask ssh for ssh
allow make; ask git push | bash > make > git git push | ask git push for git
allow ls; deny touch; ask touch | bash > touch touch x | touch x (matches deny rule "touch" (policy.deny[0]), started by bash)
"##;

#[test]
fn deny_and_ask_rules_count_at_every_depth() {
    check(DENY_AND_ASK);
}

#[test]
fn no_rules_need_no_gate_and_other_scopes_do_not_count() {
    let opens = [String::new()];
    let scope = |tenant| GateScope { tenant, lane: "l", directory: Path::new("/w"), opens: &opens };
    let policy = |list: Option<&str>, deny: &[&str]| Policy {
        allow: list.map(|rule| vec![crate::rules::PolicyRule::parse(rule, "a").unwrap()]),
        deny: parse_patterns("deny", deny.iter().copied()).unwrap(),
        ..Policy::default()
    };
    let select = |policy: &Policy, tenant| policy.gate_rules(&scope(tenant), &Path::to_path_buf);
    assert_eq!(select(&Policy::default(), "t"), None);
    assert_eq!(select(&policy(Some("*"), &[]), "t"), None);
    assert!(select(&policy(Some("*"), &["rm"]), "t").is_some_and(|it| it.allow.is_none()));
    let scoped = policy(Some("[tenant=a] ls"), &[]);
    let texts = |rules: Option<GateRules>| -> Vec<String> {
        rules.unwrap().allow.unwrap().into_iter().map(|rule| rule.text).collect()
    };
    assert_eq!(texts(select(&scoped, "a")), ["ls"]);
    assert_eq!(texts(select(&scoped, "b")), [""; 0]);
}

#[test]
fn a_path_rule_is_resolved_and_keeps_its_wildcards() {
    let policy = |rule| Policy {
        allow: Some(parse_patterns("allow", [rule]).unwrap()),
        ..Policy::default()
    };
    let follow = |path: &Path| {
        path.strip_prefix("/w/link").map_or(path.to_owned(), |rest| Path::new("/real").join(rest))
    };
    let scope = GateScope { tenant: "t", lane: "l", directory: Path::new("/w"), opens: &[] };
    for (rule, path) in [
        ("./build.sh", Some("/w/build.sh")),
        ("link/x", Some("/real/x")),
        ("link/*/y", Some("/real/*/y")),
        ("/opt/x*", Some("/opt/x*")),
        ("git status", None),
        ("./a --b", Some("/w/a")),
    ] {
        let rules = policy(rule).gate_rules(&scope, &follow).unwrap();
        assert_eq!(rules.allow.unwrap()[0].path.as_deref(), path.map(Path::new), "{rule}");
    }
}

#[test]
fn the_server_looks_up_the_names_in_the_rules_and_the_helpers() {
    let lookup = gate_rules(Some("git status,/opt/x,ls"), "vi", "").lookup();
    for name in ["git", "ls", "vi", "less", "lesspipe", "ssh", "bash", "env", "busybox", "sed"] {
        assert!(lookup.wants(name), "{name}");
    }
    assert!(!lookup.wants("gzip-x") && !lookup.wants("touch") && !lookup.needs_listing());
    assert_eq!(lookup.directories.len(), 1);
    let lookup = gate_rules(Some("cargo-*"), "", "").lookup();
    assert!(lookup.wants("cargo-nextest") && lookup.needs_listing() && !lookup.wants("less"));
    assert!(gate_rules(Some("re:^git"), "", "").lookup().wants("anything"));
}
