//! Lines as people and agents write them every day: commands that work in the project of the jail,
//! joined in the usual ways.

use crate::jail::MARKERS;
use crate::script::Random;
use crate::variables;

/// Commands that succeed, by tool. Each line of this table is as likely as any other.
const COMMANDS: &[&str] = &[
    "git status",
    "git status --short",
    "git status -sb",
    "git log --oneline -n @num@",
    "git log -1 --format='%h %s'",
    "git log --stat -n 1",
    "git diff",
    "git diff --stat",
    "git diff HEAD -- @source@",
    "git diff --name-only @branch@",
    "git show --stat HEAD",
    "git show HEAD:Cargo.toml",
    "git branch --show-current",
    "git branch -a",
    "git rev-parse HEAD",
    "git rev-parse --abbrev-ref HEAD",
    "git ls-files",
    "git ls-files '*.rs'",
    "git add -A",
    "git add @source@",
    "git stash list",
    "git tag",
    "git checkout -q -b feature",
    "git blame -L 1,2 src/lib.rs",
    "git grep -n fn",
    "git remote -v",
    "git -C src status",
    "git commit -q --allow-empty -m @message@",
    "ls",
    "ls -la",
    "ls -la @dir@",
    "ls -1 @dir@",
    "ls -lh @file@",
    "ls *.txt",
    "cat @file@",
    "cat @file@ @file@",
    "cat -n @source@",
    "cat src/{lib,main}.rs",
    "head -n @num@ @file@",
    "head -@num@ @file@",
    "tail -n @num@ @log@",
    "tail -n +2 @file@",
    "wc -l @file@",
    "wc -l @files@",
    "wc -c < @file@",
    "grep -n fn src/lib.rs",
    "grep -rn @pattern@ . | head -n @num@",
    "grep -rn TODO src --include='*.rs'",
    "grep -c error build.log",
    "grep -i @pattern@ @file@ || true",
    "grep -E 'error|warning' build.log",
    "grep -l alpha *.txt",
    "grep -q alpha a.txt",
    "find . -name @glob@",
    "find . -name @glob@ -type f",
    "find @dir@ -type f -name '*.rs' | head -n @num@",
    "find . -path ./out -prune -o -name '*.toml' -print",
    "find @dir@ -maxdepth 1 -type d",
    "find . -name '*.txt' -exec wc -l {} +",
    "find src -name '*.rs' -exec grep -n fn {} \\;",
    "find . -type f -newer a.txt -not -path './.git/*'",
    "find . -name '*.rs' -print0 | xargs -0 wc -l",
    "find . -type f -size -2k | sort | tail -n 3",
    "sed -n '1,2p' @file@",
    "sed -n '/fn/p' src/lib.rs",
    "sed 's/a/b/g' @file@",
    "sed -i 's/alpha/omega/' a.txt",
    "sed -e 's/a/b/' -e '/x/d' @file@",
    "sed -E 's/([a-z]+) ([0-9])/\\2 \\1/' f",
    "awk '{print $1}' @file@",
    "awk -F: '{print $1}' @file@",
    "awk '{ n += $2 } END { print n }' f",
    "awk 'NR==1' @file@",
    "awk '/error/ {print NR\": \"$0}' build.log",
    "sort @file@",
    "sort -u @file@",
    "sort -k2 -n f",
    "sort -rn f | head -n @num@",
    "uniq -c @file@",
    "cut -d' ' -f1 @file@",
    "cut -c1-3 @file@",
    "tr a-z A-Z < @file@",
    "diff -u a.txt b.txt || true",
    "diff -q a.txt a.txt",
    "mkdir -p out/logs",
    "mkdir -p out/{x,y}",
    "cp a.txt out/",
    "cp -r src out/",
    "mv b.txt out/b.txt",
    "rm -f @new@",
    "rm -rf out/logs",
    "touch @new@",
    "ln -s a.txt link",
    "chmod +x run.sh",
    "du -sh @dir@",
    "date",
    "date +%s",
    "date +%Y-%m-%d",
    "seq 1 @num@",
    "basename src/lib.rs .rs",
    "dirname src/lib.rs",
    "echo @text@",
    "echo @text@ > @new@",
    "echo @text@ >> @new@",
    "echo \"$HOME\"",
    "echo $((1 + @num@))",
    "echo \"now: $(date +%s)\"",
    "echo 'line' | tee @new@",
    "printf '%s\\n' @text@",
    "printf '%d items\\n' @num@",
    "pwd",
    "true",
    "sleep 0",
    "tar -czf out/src.tgz src",
    "tar -tzf src.tgz",
    "tar -xzf src.tgz -C out",
    "tar -xzf src.tgz -C out --strip-components=1",
    "tar czf out.tgz src tests",
    "tar -cf out.tar --exclude='*.py' src",
    "cargo build",
    "cargo test --workspace",
    "cargo test 2>&1 | tail -n @num@",
    "cargo clippy --all-targets -- -D warnings",
    "cargo check --message-format=short 2>&1 | head -n 5",
    "cargo fmt --check",
    "npm test",
    "npm run build --silent",
    "npm test -- --watch=false",
    "node --version",
    "python -m pytest -q tests/test_api.py::test_login",
    "pytest -x -q 2>&1 | tail -n @num@",
    "go test ./...",
    "kubectl get pods -n web",
    "docker ps",
    "./run.sh",
    "make test",
    "env RUST_LOG=debug cargo test",
    "CI=1 npm test",
    "@safe@ cargo test",
    "timeout 60 cargo test",
    "timeout 5s ls",
    "time ls",
    "nice -n 5 cargo build",
    "nohup ls > @new@ 2>&1",
    "ls src | xargs -n1 basename",
    "cat list.txt | xargs wc -l",
    "xargs -n 1 echo < list.txt",
    "xargs -I{} cp {} out/ < list.txt",
    "ls src | xargs -I% echo %",
    "wc -l $(git ls-files '*.rs') | tail -1",
    "jq . data.json",
    "jq -r '.name' data.json",
    "test -f Cargo.toml",
    "[ -d src ]",
    "[ \"$(wc -l < a.txt)\" -gt 1 ]",
    "[[ -f Cargo.toml && -d src ]]",
    "command -v git",
    "type ls",
    "ps aux | grep -v grep | head -n @num@",
    "cat <<'EOF'\nsome text; with $(no) code\nEOF",
    "cat > @new@ <<'EOF'\nfirst line\nsecond \"line\"\nEOF",
    "cat > @new@ <<EOF\nin $HOME\nEOF",
    "cat <<< 'a string'",
    "git commit -q --allow-empty -m \"$(cat <<'EOF'\nfeat: x; rm -rf\n\nbody\nEOF\n)\"",
    "set -e",
    "set -euo pipefail",
    "export FOO=bar",
    "cd src && ls",
    "(cd src && ls)",
    "diff <(sort a.txt) <(sort b.txt) || true",
    "ls | while read -r line; do echo \"$line\"; done",
    "install -m 644 a.txt out/",
    "tee @new@ < @file@",
    "comm -12 a.txt a.txt",
    "stat -c %s @file@",
    "realpath src",
];
/// Statements made of commands; `@c@` is a command that fits into a line.
const STATEMENTS: &[&str] = &[
    "if [ -f @file@ ]; then @c@; else echo none; fi",
    "if grep -q alpha a.txt; then @c@; fi",
    "if [[ -d src ]]; then @c@; elif [ -d lib ]; then echo lib; fi",
    "if ! test -e missing; then @c@; fi",
    "for f in @files@; do wc -l \"$f\"; done",
    "for f in *.json; do jq . \"./$f\" > /dev/null; done",
    "for i in 1 2 3; do echo \"$i\"; done",
    "for i in $(seq 1 3); do echo $i; done",
    "for i in {1..3}; do @c@; done",
    "for d in src tests; do ls \"$d\"; done",
    "for f in src/*.rs; do echo \"== $f\"; head -n 2 \"$f\"; done",
    "while read -r line; do echo \"got $line\"; done < @file@",
    "i=0; while [ $i -lt 3 ]; do echo $i; i=$((i+1)); done",
    "case @branch@ in main) @c@;; *) echo other;; esac",
    "@name@=@text@; echo \"$@name@\"",
    "x=@num@; echo \"$x\" \"${x:-none}\" $((x + 1))",
    "x=$(@c@ | head -n 1); echo \"$x\"",
    "n=$(wc -l < @file@); echo \"$n lines\"",
    "f=@file@; wc -l \"$f\"; echo \"${f%.txt}\" \"${f##*/}\" \"${#f}\"",
    "(@c@; @c@)",
    "{ @c@; @c@; } > @new@ 2>&1",
    "@c@ & wait",
    "! grep -q nothing-here a.txt",
    "[ \"$#\" -eq 0 ] && echo none",
    "until [ -d src ]; do sleep 0; done",
];
/// Statements that scripts hold more often than single lines do.
const RARE: &[&str] = &[
    "while IFS= read -r line; do echo \"$line\"; done < @file@",
    "f() { echo \"$1\"; }; f @text@",
    "say() { printf '%s\\n' \"$1\"; }; say one; say two",
    "arr=(a b c); echo \"${arr[@@]}\" \"${#arr[@@]}\"",
    "trap 'echo bye' EXIT; @c@",
];
/// One of this many statements is rare.
const RARITY: usize = 12;
const JOINTS: &[&str] = &["; ", " && ", "\n", " && ", "; ", " || true; ", "\n# then\n"];
const FILTERS: &[&str] = &[
    " | head -n @num@",
    " | wc -l",
    " | sort",
    " | sort | uniq -c",
    " | cat",
    " | tail -n @num@",
    " | grep -v nothing-here",
    " | tr a-z A-Z",
    " | sed 's/a/b/'",
    " | awk '{print $1}'",
    " | cut -c1-5",
    " | sort -rn | head -n 3",
];

/// A script of one to three statements.
pub(crate) fn everyday(random: &mut Random) -> String {
    let mut script = statement(random);
    for _ in 0..random.below(3) {
        let joint = if ends_with_heredoc(&script) { "\n" } else { random.pick(JOINTS) };
        script.push_str(joint);
        script.push_str(&statement(random));
    }
    script
}

fn statement(random: &mut Random) -> String {
    if random.below(5) > 0 {
        return pipeline(random);
    }
    let is_rare = random.below(RARITY) == 0;
    let template = random.pick(if is_rare { RARE } else { STATEMENTS });
    let mut text = String::new();
    for (index, part) in template.split("@c@").enumerate() {
        if index > 0 {
            text.push_str(&inner(random));
        }
        text.push_str(&fill(part, random));
    }
    text
}

/// A command that may stand within a construct: no here-document, nothing that ends the script.
fn inner(random: &mut Random) -> String {
    loop {
        let text = fill(random.pick(COMMANDS), random);
        if !text.contains('\n') && !text.starts_with("set ") {
            return text;
        }
    }
}

fn pipeline(random: &mut Random) -> String {
    let mut text = fill(random.pick(COMMANDS), random);
    if ends_with_heredoc(&text) || text.starts_with("set ") || text.ends_with("true") {
        return text;
    }
    match random.below(10) {
        0 | 1 => text.push_str(&fill(random.pick(FILTERS), random)),
        2 => text.push_str(&fill(" @sink@", random)),
        _ => {}
    }
    text
}

fn ends_with_heredoc(text: &str) -> bool {
    text.lines().last() == Some("EOF")
}

// Templates: text with holes such as `@file@`, each filled at random.

/// The values of simple holes.
const HOLES: &[(&str, &[&str])] = &[
    ("file", &["a.txt", "b.txt", "f", "notes.txt", "README.md", "src/lib.rs", "build.log"]),
    ("source", &["src/lib.rs", "src/main.rs", "Cargo.toml", "README.md"]),
    ("log", &["build.log", "access.log", "notes.txt"]),
    ("dir", &["src", ".", "tests", "src/", "./src"]),
    ("new", &["out/x.txt", "new.txt", "out/result.json", "report.md", "tmp.log"]),
    ("pattern", &["error", "TODO", "alpha", "'^a'", "\"two 2\"", "fn", "'a|b'", "pub"]),
    ("glob", &["'*.rs'", "'*.txt'", "\"*.toml\"", "'[a-z]*.md'", "\\*.rs"]),
    ("files", &["*.txt", "src/*.rs", "*.log", "src/{lib,main}.rs", "{a,b}.txt", "*.t?t"]),
    ("num", &["1", "2", "3", "5", "10", "20"]),
    ("name", &["x", "name", "dir", "n", "count", "result", "file"]),
    ("text", &["done", "'all good'", "\"hello world\"", "ok", "'it is $5'", "\"a; b\"", "-n"]),
    ("message", &["'fix: a bug'", "\"feat: add x\"", "wip", "'say \"hi\"'", "\"it's done\""]),
    ("branch", &["main", "topic", "HEAD", "HEAD~0", "v0.1"]),
    ("sink", &["> /dev/null", "2>/dev/null", ">/dev/null 2>&1", "2>&1", "&>/dev/null"]),
    ("safe", &["CI=1", "RUST_LOG=debug", "RUST_BACKTRACE=1", "NODE_ENV=test", "DEBUG=1"]),
];

/// Fills every hole of a template.
pub(crate) fn fill(template: &str, random: &mut Random) -> String {
    let mut text = String::new();
    for (index, part) in template.split('@').enumerate() {
        if index % 2 == 0 {
            text.push_str(part);
        } else {
            text.push_str(&hole(part, random));
        }
    }
    text
}

fn hole(name: &str, random: &mut Random) -> String {
    if let Some((_, values)) = HOLES.iter().find(|(hole, _)| *hole == name) {
        return random.pick(values).to_owned();
    }
    match name {
        "M" => random.pick(&MARKERS).to_owned(),
        "code" => variables::code(random),
        "special" => variables::name(random).to_owned(),
        "way" => variables::assignment(random),
        "use" => variables::usage(random),
        "word" => variables::word(random),
        "n" => "\n".to_owned(),
        // `@@` is one `@`.
        "" => "@".to_owned(),
        _ => panic!("no such hole: {name}"),
    }
}
