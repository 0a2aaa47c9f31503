//! Lines as people and agents write them every day: commands that work in the project of the jail,
//! joined in the usual ways. Variables that the shell or a tool gives a meaning, the ways to assign
//! them, the places where their value matters, and words that become something else when they run.

use crate::jail::MARKERS;
use crate::script::Random;

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
        "code" => code_text(random),
        "special" => variable_name(random).to_owned(),
        "way" => variable_assignment(random),
        "use" => variable_usage(random),
        "word" => changing_word(random),
        "n" => "\n".to_owned(),
        // `@@` is one `@`.
        "" => "@".to_owned(),
        _ => panic!("no such hole: {name}"),
    }
}

const VARIABLES: [&str; 56] = [
    "RANDOM",
    "SRANDOM",
    "OPTIND",
    "OPTARG",
    "HISTCMD",
    "_",
    "FUNCNAME",
    "REPLY",
    "PWD",
    "OLDPWD",
    "LINENO",
    "SECONDS",
    "BASH_ARGV0",
    "BASH_CMDS",
    "BASH_ALIASES",
    "DIRSTACK",
    "GROUPS",
    "PIPESTATUS",
    "IFS",
    "PATH",
    "HOME",
    "ENV",
    "BASH_ENV",
    "PS4",
    "SHELLOPTS",
    "BASHOPTS",
    "EPOCHSECONDS",
    "BASHPID",
    "UID",
    "PPID",
    "COLUMNS",
    "LINES",
    "TMOUT",
    "LC_ALL",
    "LANG",
    "LC_CTYPE",
    "GLOBIGNORE",
    "EXECIGNORE",
    "COPROC",
    "MAPFILE",
    "BASH_REMATCH",
    "BASH_LINENO",
    "BASH_XTRACEFD",
    "COMP_WORDBREAKS",
    "HISTFILE",
    "TERM",
    "PAGER",
    "GIT_PAGER",
    "GIT_EXTERNAL_DIFF",
    "GIT_CONFIG_COUNT",
    "TAR_OPTIONS",
    "LD_PRELOAD",
    "POSIXLY_CORRECT",
    "x",
    "a",
    "n",
];
/// Values that are code, options, several words, or harmless.
const VALUES: [&str; 18] = [
    "'@code@'",
    "@code@",
    "-exec",
    "'. -exec @M@ ;'",
    "'x y'",
    "'$(@M@)'",
    "'`@M@`'",
    "'-f'",
    "5",
    "x",
    "@M@",
    "'($(@M@))'",
    "'([0]=$(@M@))'",
    "./run.sh",
    "$(@M@)",
    "\"$(@M@)\"",
    "''",
    "zh_CN.gbk",
];
/// `N` is the name, `V` the value.
const WAYS: [&str; 38] = [
    "N=V",
    "N=V",
    "N+=V",
    "N=(V)",
    "N+=(V)",
    "N[0]=V",
    "N=([0]=V)",
    "for N in V; do :; done",
    "for N in V; do USE; done",
    ": ${N:=V}",
    ": \"${N=V}\"",
    "unset N; : ${N:=V}",
    "read N <<< V",
    "read -r -a N <<< V",
    "IFS= read -r N <<< V",
    "printf -v N %s V",
    "printf -v 'N[0]' %s V",
    "declare N=V",
    "typeset N=V",
    "export N=V",
    "declare -x N=V",
    "declare -i N=V",
    "declare -a N=V",
    "declare -a 'N=V'",
    "declare -A 'N=V'",
    "declare -n N=x; x=V",
    "declare -i N; N=V",
    "declare -a N; N=V",
    "declare -l N=V",
    "readonly N=V",
    "f() { local N=V; USE; }; f",
    "let N=1",
    "((N = 1))",
    "mapfile -t N <<< V",
    "getopts a: N -a V",
    "exec {N}>o1",
    "coproc N { :; }",
    "select N in V; do break; done <<< 1",
];
const USES: [&str; 46] = [
    "echo $N",
    "echo \"$N\"",
    "echo $((N))",
    "echo $((N + 1))",
    "echo $[N]",
    "((N))",
    "let N",
    "let x=N",
    "[[ N -eq 1 ]]",
    "[[ $N -eq 1 ]]",
    "[[ -v $N ]]",
    "[[ -v N ]]",
    "[ -v \"$N\" ]",
    "test -v N",
    "[ \"$N\" -eq 0 ]",
    "[ -t $N ]",
    "echo ${a[N]}",
    "echo ${a[$N]}",
    "echo ${x:N}",
    "echo ${x:0:N}",
    "a[N]=1",
    "a=([N]=1)",
    "declare -i y=N",
    "printf '%d' \"$N\"",
    "printf -v \"$N\" x",
    "read \"$N\" <<< x",
    "unset \"$N\"",
    "export \"$N\"",
    "declare \"$N\"",
    "echo ${!N}",
    "echo \"${N@P}\"",
    "echo ${N@A}",
    "find . -maxdepth 0 $N @M@ \\;",
    "find . -maxdepth 0 -name $N",
    "find . -maxdepth 0 -name \"$N\"",
    "find . -maxdepth 0 ~- @M@ \\;",
    "find . -maxdepth 0 ~+ @M@ \\;",
    "xargs $N < list.txt",
    "env $N",
    "env \"$N\" ls",
    "sort $N f",
    "tar -cf x.tar $N f",
    "git status $N",
    "$N",
    "\"$N\" x",
    "echo ~+ ~- ~1",
];
/// Words that become several words, an option or a command, or that shells read differently.
const WORDS: [&str; 64] = [
    "$x",
    "\"$x\"",
    "${x}",
    "\"$@@\"",
    "$@@",
    "$*",
    "\"$*\"",
    "${a[@@]}",
    "\"${a[@@]}\"",
    "${!x}",
    "$_",
    "$RANDOM",
    "$PWD",
    "\"$PWD\"",
    "~",
    "~+",
    "~-",
    "~root",
    "*",
    "./*",
    "odd/*",
    "[a-z]*",
    "?",
    "{a,b}",
    "{.,-exec}",
    "-{e,}xec",
    "{1..3}",
    "{a..c}",
    "{a,{b,-exec}}",
    "{x},-exec}",
    "-{e.\\\n.e}xec",
    "{a\\,b,c}",
    "\"{a,b}\"",
    "{$x,y}",
    "x{,}y",
    "$'-exec'",
    "$'\\x2dexec'",
    "$'a\\'b'",
    "$\"a\"",
    "$\"$(@M@)\"",
    "`@M@`",
    "\"`@M@`\"",
    "$(@M@)",
    "\"$(@M@)\"",
    "<(@M@)",
    ">(@M@)",
    "$((1))",
    "$((x))",
    "$[x]",
    "\"${x:-'a'}\"",
    "${x:-$(@M@)}",
    "\"${x:-\"a\"}\"",
    "${x:=-exec}",
    "${x@@P}",
    "${x//a/$(@M@)}",
    "${#x}",
    "--",
    "-",
    "-exec",
    "-exec @M@ {} ;",
    "'a b'",
    "a\\ b",
    "\\$x",
    "!x",
];

/// Text that is a command wherever it is evaluated as arithmetic.
fn code_text(random: &mut Random) -> String {
    fill(random.pick(&["a[$(@M@)]", "a[$(@M@)]", "x[`@M@`]", "a[$(@M@)]=1"]), random)
}

/// The first names are those that the shell evaluates or sets by itself; they come more often.
fn variable_name(random: &mut Random) -> &'static str {
    let count = if random.below(2) == 0 { 18 } else { VARIABLES.len() };
    random.pick(&VARIABLES[..count])
}

/// A special variable, assigned in one of many ways and used in one of many places.
pub(crate) fn variable_assignment(random: &mut Random) -> String {
    let name = variable_name(random);
    let value = fill(random.pick(&VALUES), random);
    let usage = usage_of_variable(name, random);
    let text = random.pick(&WAYS).replace("USE", "\u{1}").replace('N', "\u{2}");
    let text = text.replace('V', &value).replace('\u{2}', name);
    if text.contains('\u{1}') || random.below(3) == 0 {
        return text.replace('\u{1}', &usage);
    }
    format!("{text}; {usage}")
}

/// A place where the value of a special variable matters.
fn variable_usage(random: &mut Random) -> String {
    let name = variable_name(random);
    usage_of_variable(name, random)
}

fn usage_of_variable(name: &str, random: &mut Random) -> String {
    let text = random.pick(&USES).replace('N', "\u{2}").replace("@P", "@@P").replace("@A", "@@A");
    fill(&text, random).replace('\u{2}', name)
}

/// A word that becomes something else when it runs.
pub(crate) fn changing_word(random: &mut Random) -> String {
    fill(random.pick(&WORDS), random)
}

// Values that flow through a variable into a command: every way in, every form, every way out.

/// Values that are options, code, programs, several words, or harmless.
const FLOWING: &[&str] = &[
    "-exec",
    "'-exec @M@ ;'",
    "--compress-program=@M@",
    "--use-compress-program=@M@",
    "-I@M@",
    "-S@M@",
    "-c",
    "@M@",
    "1e@M@",
    "-e1e@M@",
    "'BEGIN{system(\"@M@\")}'",
    "--",
    "-f",
    "'-c alias.zz=!@M@'",
    "'.shell @M@'",
    "'@code@'",
    "'$(@M@)'",
    "'*'",
    "{.,-exec}",
    "~-",
    "run.sh",
    "a.txt",
    "src",
    "5",
];
/// Ways in. The command that uses the value follows where a template has no place for it.
const SOURCES: &[&str] = &[
    "v=@value@",
    "v=@value@",
    "v=x; v=@value@",
    "v=$(echo @value@)",
    "v=`echo @value@`",
    "v=$'a'; v=@value@",
    "v=\"\"; v+=@value@",
    "v=${x:-@value@}",
    "v=${HOME:+@value@}",
    ": ${v:=@value@}",
    "export v=@value@",
    "declare v=@value@",
    "printf -v v %s @value@",
    "read -r v <<< @value@",
    "mapfile -t v <<< @value@",
    "v=(@value@)",
    "set -- @value@; v=$1",
    "case @value@ in *) v=@value@;; esac",
    "if true; then v=@value@; fi",
    "if false; then v=5; else v=@value@; fi",
    "{ v=@value@; }",
    "(v=5); v=@value@",
    "v=5; (v=@value@; @sink@)",
    "v=5; true && v=@value@",
    "v=5; false || v=@value@",
    "v=5; unset v; v=@value@",
    "v=5; f() { v=@value@; }; f",
    "f() { local v=$1; @sink@; }; f @value@",
    "[[ @value@ =~ (.*) ]]; v=${BASH_REMATCH[1]}",
    "for v in @value@; do @sink@; done",
    "for v in a @value@; do @sink@; done",
    "v=5; for v in @value@; do :; done",
    "for v in odd/*; do @sink@; done",
    "for v in src/*.rs; do @sink@; done",
    "for v in $(ls odd); do @sink@; done",
    "cd odd; for v in *; do @sink@; done",
    "(cd odd && for v in ./*; do @sink@; done)",
    "ls odd | while read -r v; do @sink@; done",
    "while read -r v; do @sink@; done <<< @value@",
    "while read -r v; do @sink@; done < list.txt",
    "while v=@value@; do @sink@; break; done",
    "v=a.txt; until @sink@; do v=@value@; @sink@; break; done",
    "v=5; while @sink@; do v=@value@; @sink@; break; done",
    "for i in 1 2; do @sink@; v=@value@; done",
    "v=5; for i in 1 2; do @sink@; v=@value@; done",
    "v=@value@; v=5",
    "v=$((1 + 1))",
    "v=$(wc -l < f)",
    "v=$(date +%s)",
];
/// Forms of the word.
const FORMS: &[&str] = &[
    "\"$v\"",
    "\"$v\"",
    "$v",
    "${v}",
    "\"${v}\"",
    "\"./$v\"",
    "x\"$v\"",
    "-- \"$v\"",
    "\"${v:-x}\"",
    "\"${v#odd/}\"",
    "\"${v##*/}\"",
    "\"${v%x}\"",
    "\"${v/a/b}\"",
    "\"$v$v\"",
    "--x=\"$v\"",
    "-n\"$v\"",
    "\"${v@@Q}\"",
    "\"${!v}\"",
    "\"a b $v\"",
    "\"${v:0}\"",
    "\"${v,,}\"",
    "\"${#v}\"",
    "\"$(echo \"$v\")\"",
    "$(echo $v)",
    "$((v))",
];
/// Ways out: `W` is the word.
const SINKS: &[&str] = &[
    "find . -maxdepth 0 W @M@ \\;",
    "find . -maxdepth 0 W @M@ \\;",
    "find W -maxdepth 0",
    "find . -maxdepth 0 -name W",
    "find . -maxdepth 0 -newer W @M@ \\;",
    "find W @M@ \\;",
    "sort -S 1b W big",
    "sort -S 1b big W",
    "sort -o W big",
    "tar -cf x.tar W f",
    "tar -cf x.tar -C src W",
    "tar -cf W f",
    "xargs W @M@ < list.txt",
    "xargs -I{} W {} < list.txt",
    "xargs -n W echo < list.txt",
    "env W @M@",
    "env x=W @M@",
    "git W zz",
    "git log W -1",
    "git -C W status",
    "git show W",
    "sed W f",
    "sed -n W f",
    "sed -i W run.sh",
    "sed p W",
    "awk W f",
    "awk '{print}' W",
    "awk -v x=W '{print x}' f",
    "sh W",
    "bash W @M@",
    "bash -c W",
    "W",
    "W x",
    "timeout W @M@",
    "timeout 1 W",
    "nice -n W @M@",
    "echo W",
    "cat W",
    "ls W",
    "wc -l W",
    "head -n W f",
    "grep W f",
    "grep -e W f",
    "cp W out/",
    "tee W < f",
    "mkdir -p out/W",
    "test W = x",
    "[ W = x ]",
    "[ W -eq 1 ]",
    "[[ W -eq 1 ]]",
    "[[ -v W ]]",
    "[[ x == W ]]",
    "echo $((v + 1))",
    "echo $((W))",
    "((v > 1))",
    "echo ${a[v]}",
    "echo ${x:v}",
    "printf W x",
    "printf '%s\\n' W",
    "printf %d W",
    "cd W",
    "eval W",
    "command W",
    "exec W",
    "make W",
    "zip -q a.zip W",
    "sqlite3 :memory: W",
    "install W f g",
    "echo x > W",
    "cat < W",
    ". W",
    "trap W EXIT",
    "export W",
    "export x=W",
    "declare W",
    "read W <<< x",
    "unset W",
    "case x in W) @M@;; esac",
    "x=W; find . -maxdepth 0 \"$x\" @M@ \\;",
    "bash <<< W",
    "cat <<< W",
    "cargo W",
    "python W",
];

/// A script in which a value flows from a source to a sink.
pub(crate) fn value_flow(random: &mut Random) -> String {
    let value = fill(random.pick(FLOWING), random);
    let form = fill(random.pick(FORMS), random);
    let sink = fill(random.pick(SINKS), random).replace('W', &form);
    let source = random.pick(SOURCES);
    let text = source.replace("@value@", &value).replace("@sink@", &sink);
    if source.contains("@sink@") {
        return text;
    }
    format!("{text}{}{sink}", random.pick(&["; ", " && ", "\n"]))
}
