//! The accepted constructs with the programs that they start, and the refused ones by name. The
//! helpers at the end are shared with the tests of `tools`: they write commands and consequences as
//! text.

use super::tools::{ArgumentEffect, consequences, is_known};
use super::{Context, Proof, prove_text};
use crate::command::{Shape, ShellSyntax, Uncertainty, Word};
use crate::matching::SafeVariables;
use crate::options::Doubt;

fn prove(text: &str, shell: ShellSyntax) -> Result<Proof, Uncertainty> {
    prove_text(
        text,
        &Context {
            shell,
            safe_variables: &SafeVariables::default(),
            environment: &[],
            prefixes: &[],
        },
    )
}

/// The programs of a proven text, in order, separated by blanks.
#[track_caller]
fn starts(text: &str, expected: &str) {
    let proof = prove(text, ShellSyntax::Bash).unwrap_or_else(|doubt| panic!("{text:?}: {doubt}"));
    let programs: Vec<String> =
        proof.commands.iter().map(|command| command.program.to_string()).collect();
    assert_eq!(programs.join(" "), expected, "{text:?}");
}

/// The words of the only command of a text, as the command gets them.
#[track_caller]
fn words(text: &str, expected: &[&str]) {
    let proof = prove(text, ShellSyntax::Bash).unwrap_or_else(|doubt| panic!("{text:?}: {doubt}"));
    let command = proof.commands.last().expect("a command");
    let words: Vec<String> = command.args.iter().map(ToString::to_string).collect();
    assert_eq!(words, expected, "{text:?}");
}

#[track_caller]
fn refused(text: &str, construct: &str) {
    match prove(text, ShellSyntax::Bash) {
        Ok(proof) => panic!("{text:?} was proven: {proof:?}"),
        Err(doubt) => {
            let doubt = doubt.to_string();
            assert!(doubt.contains(construct), "{text:?}: {doubt:?} does not name {construct:?}");
        }
    }
}

#[test]
fn lists_and_pipelines_start_each_of_their_commands() {
    starts("a", "a");
    starts("a; b & c && d || e\nf | g |& h", "a b c d e f g h");
    starts("! a | b; time c; time -p d", "a b c d");
    starts("a \\\n b && \\\n c", "a c");
    starts("a # b; c\nd", "a d");
    starts("(a; b); { c; }", "a b c");
    starts("", "");
    for (text, construct) in [
        ("a &&", "missing command"),
        ("a &&& b", "missing command"),
        ("a; ; b", "missing command"),
        ("a )", "text after a command"),
        ("( a", "missing end"),
        ("{ a; ", "missing end"),
        ("a\\\nb", "continued line"),
        ("a &\\\n& b", "continued line"),
        ("{ }", "empty list"),
        ("a\rb", "control character"),
        ("time -x a", "time"),
        ("time case a in b) c;; esac", "`time` before something else"),
        ("a \"$(time case 1 in ?) b '$(c)';; esac)\"", "`time` before something else"),
        ("a \"$(time -p { case 1 in ?) b;; esac; })\"", "`time` before something else"),
        (
            "a \"$(b <<E; c; case x in *) d 'e';; esac\nE\n)\"",
            "a here-document and a compound command",
        ),
        ("time (a)", "`time` before something else"),
        ("time ! a", "`time` before something else"),
        ("time time a", "`time` before something else"),
        ("! time a", "`time` after `!`"),
    ] {
        refused(text, construct);
    }
}

#[test]
fn compound_commands_start_the_commands_in_them() {
    starts("if a; then b; elif c; then d; else e; fi", "a b c d e");
    starts("for x in 1 2 3; do a \"$x\"; done", "a");
    starts("for x in *.rs\ndo a; done", "a");
    starts("while a; do b; done < f", "a b");
    starts("until a; do b; done", "a b");
    starts("case $x in a|b) c;; (d*) e;; *) ;; esac", "c e");
    starts("[[ -f a && -n $x ]] && b", "b");
    starts("[[ $x == a* ]] || [[ $y =~ ^[0-9]+$ ]] && b", "b");
    starts("n=5; [[ $n -gt 3 ]] && a", "a");
    starts("i=0; while ((i < 3)); do a; ((i++)); done", "a");
    for (text, construct) in [
        ("f() { a; }; f", "a function"),
        ("function f { a; }; f", "a function"),
        ("select x in a b; do c; done", "select"),
        ("coproc a", "coproc"),
        ("for ((i=0;i<3;i++)); do a; done", "form of `for`"),
        ("for x; do a; done", "without `in`"),
        ("for RANDOM in 1; do a; done", "setting RANDOM"),
        ("[[ -v a ]]", "-v"),
        ("x='a[$(b)]'; [[ $x -eq 1 ]]", "arithmetic with x"),
        ("x='a[$(b)]'; (( x ))", "arithmetic with x"),
        ("x='a[$(b)]'; c $((x + 1))", "arithmetic with x"),
        ("((PATH=1)); ls", "setting PATH"),
        ("((PATH <<= 1)); ls", "setting PATH"),
        ("(( a[0] ))", "arithmetic"),
        ("case a in b) c;& d) e;; esac", "missing command"),
        ("then a", "`then` here"),
    ] {
        refused(text, construct);
    }
}

#[test]
fn quotes_and_escapes_are_data() {
    words("a 'b $(c)' \"d; e\" f\\;g", &["b $(c)", "d; e", "f;g"]);
    words("a \"b\\\"c\\$d\\e\"", &["b\"c$d\\e"]);
    words("a $'b\\n\\'c'", &["b\n'c"]);
    words("a ''", &[""]);
    words("a \"x$\" y$", &["x$", "y$"]);
    words("a HEAD~1 b@{u}x c#d", &["HEAD~1", "b@{u}x", "c#d"]);
    words("a {b}", &["{b}"]);
    for (text, construct) in [
        ("a 'b", "missing `'`"),
        ("a \"b", "missing `\""),
        ("a $\"b\"", "translated string"),
        ("a $'\\x41'", "escape"),
        ("a $'b\\'; c #'", "operator behind a quote"),
        ("a $[1+1]", "use of `$`"),
        ("a `b \"c\"`", "backticks"),
    ] {
        refused(text, construct);
    }
}

#[test]
fn braces_become_the_words_that_they_list() {
    words("a x{b,c}.rs", &["xb.rs", "xc.rs"]);
    words("a {1..3}", &["1", "2", "3"]);
    words("a f{,.bak}", &["f", "f.bak"]);
    words("a {}", &["{}"]);
    for text in [
        "a -{e.\\\n.e}xec",
        "a {x},-exec}",
        "a {b,{c,d}}",
        "a {b,c}{d,e}",
        "a {b,'c'}",
        "a {b,$c}",
        "a {b},c}",
        "a {,}",
        "a {a..c}",
        "a {1..9..2}",
        "a '{b,c}'{d,e}",
    ] {
        refused(text, "brace");
    }
}

#[test]
fn expansions_start_the_commands_in_them() {
    starts("a \"$(b \"$(c)\")\" $(d) `e f`", "c b d e a");
    starts("a <(b) >(c)", "b c a");
    starts("a \"${x:-b;c|d}\" \"${x:+$(e)}\" \"${x:-'f'}\" \"${x:-\"g h\"}\"", "e a");
    starts("a ${x%.*} ${x##*/} ${#x} ${x/a/b} ${x:0:3} ${x^^}", "a");
    starts("a <<E\n$(b) \"c\" \\$(d)\nE\ne", "a b e");
    starts("a <<'E' | b\n$(c) `d`\nE", "a b");
    starts("a <<-E\n\tx\n\tE\nb <<< \"$(c)\"", "a c b");
    starts("a \"$(b <<'E'\n)\nE\n)\"", "b a");
    for (text, construct) in [
        ("a ${!x}", "form of `${"),
        ("a ${x@P}", "form of `${"),
        ("a ${x:=b}", "form of `${"),
        ("a ${x[0]}", "form of `${"),
        ("a ${x:b}", "form of `${"),
        ("a \"$@\"", "positional"),
        ("a $1", "positional"),
        ("a $(b # )\n)", "comment inside"),
        ("a $(b", "missing end"),
        ("a <<E\n$(b", "without an end"),
        ("a <<E'F'\nb\nEF", "delimiter"),
        ("a <<E\nb \\\nE\nE", "continued line"),
        ("a ~+ b", "`~`"),
        ("a ~- b", "`~`"),
        ("a ~root", "`~`"),
        ("a b=~/c", "`~`"),
    ] {
        refused(text, construct);
    }
}

#[test]
fn a_word_that_may_become_an_option_or_several_words_is_marked_so() {
    let shapes = |text: &str| {
        let proof =
            prove(text, ShellSyntax::Bash).unwrap_or_else(|doubt| panic!("{text:?}: {doubt}"));
        let command = proof.commands.last().expect("a command").clone();
        command.args.iter().map(|word| (word.shape, word.plain)).collect::<Vec<_>>()
    };
    use crate::command::Shape::{Glob, Many, One};
    assert_eq!(
        shapes("a $x \"$x\" *.c b/*.c ./\"$x\""),
        [(Many, false), (One, false), (Glob, false), (Glob, true), (One, true),]
    );
    // Every value that the text gives a variable is known to be one word and no option.
    assert_eq!(shapes("for x in b c; do a $x \"$x\"; done"), [(One, true), (One, true)]);
    assert_eq!(shapes("x=b; x='-c d'; a $x \"$x\""), [(Many, false), (One, false)]);
    assert_eq!(shapes("x=1; a $x; read x")[..0], []);
    assert_eq!(shapes("x=1; read x; a $x \"$x\""), [(Many, false), (One, false)]);
    assert_eq!(shapes("i=0; ((i--)); a $i"), [(One, false)]);
    assert_eq!(
        shapes("a $? ${#x} $((1 + 2)) ~/b"),
        [(One, true), (One, true), (One, false), (One, true),]
    );
}

#[test]
fn variables_that_the_shell_or_a_tool_reads_may_not_be_set() {
    for name in [
        "RANDOM",
        "SRANDOM",
        "OPTIND",
        "HISTCMD",
        "_",
        "FUNCNAME",
        "REPLY",
        "PWD",
        "OLDPWD",
        "LINENO",
        "SECONDS",
        "BASH_ENV",
        "IFS",
        "PATH",
        "LC_ALL",
        "GIT_PAGER",
        "BASH_ARGV0",
    ] {
        for text in [
            format!("{name}='a[$(b)]'"),
            format!("{name}=x ls"),
            format!("for {name} in x; do :; done"),
            format!("read {name} < f"),
            format!("export {name}=x"),
            format!("((x = {name} = 1))"),
        ] {
            refused(&text, name);
        }
    }
    starts("x=1; y=$(a) b; CI=1 c; LC_ALL=C d; VERSION=$(e)", "a b c d e");
    starts("while IFS= read -r x; do a \"$x\"; done < f; IFS=, read y z <<< b", "read a read");
    refused("IFS=, ls", "setting IFS");
    starts("export DEBIAN_FRONTEND=noninteractive TZ=UTC; TERM=dumb a", "export a");
    refused("export DEBIAN_FRONTEND='x; system q(id)'", "setting DEBIAN_FRONTEND");
    refused("DEBIAN_FRONTEND=\"$x\" a", "setting DEBIAN_FRONTEND");
    refused("export TZ=\"$x\"", "setting TZ");
    refused("LC_ALL=zh_CN.gbk ls", "setting LC_ALL");
    refused("x+=1", "form of assignment");
    refused("x[0]=1", "form of assignment");
    refused("x=(a b)", "an array");
}

#[test]
fn builtins_that_run_text_or_assign_are_refused_by_name() {
    for text in [
        "eval a",
        "source f",
        ". f",
        "trap a EXIT",
        "alias a=b",
        "declare -a 'a=($(b))'",
        "local x=1",
        "readonly x=1",
        "typeset -i x=1",
        "let x=1",
        "getopts a x",
        "mapfile -C a x",
        "shopt -s extglob",
        "enable -f a b",
        "hash -p a b",
        "exec a",
        "builtin eval a",
        "compgen -C a",
        "history -s a",
        "fc -s",
        "complete -C a b",
    ] {
        refused(text, &format!("`{}`", text.split(' ').next().unwrap_or_default()));
    }
    for (text, construct) in [
        ("printf -v x a", "format"),
        ("printf %n x", "format"),
        ("printf '%5.2ln' x", "format"),
        ("printf \"$x\" y", "format"),
        ("read -a x", "-a"),
        ("read", "without a name"),
        ("read 'x[$(a)]'", "read"),
        ("unset 'x[$(a)]'", "unset"),
        ("export -f x", "export"),
        ("test -v 'x[$(a)]'", "in a test"),
        ("[ \"$x\" \"$y\" ]", "in a test"),
        ("[ $x ]", "without quotes"),
        ("wait -p x", "wait"),
        ("set -o posix", "set"),
        ("set -- a", "set"),
        ("jobs -x a", "jobs"),
        ("command eval a", "`eval`"),
        ("command read x", "command read"),
    ] {
        refused(text, construct);
    }
    starts("printf '%s %d%%\\n' \"$x\" 1; printf \"$x\"", "printf printf");
    starts("[ -f a ] && test \"$x\" = b && [ ! -d c ]", "[ test [");
    starts("i=0; while [ $i -lt 3 ]; do i=$((i+1)); done", "[");
    starts("set -euo pipefail; read -r -p 'x? ' y; unset y; wait $!", "set read unset wait");
    starts("command -v a; command b c", "command command b");
    starts("exit $?", "exit");
}

#[test]
fn redirections_open_files_and_nothing_else() {
    starts("a > f 2>&1 < g >> h 2>/dev/null &> i", "a");
    for (text, construct) in [
        ("a < /dev/tcp/h/1", "/dev/tcp"),
        ("a < $x", "reading from $x"),
        ("a <> f", "reading and writing"),
        ("a {x}> f", "braces"),
        ("a >& f", "copy of a descriptor"),
        ("a 12> f", "beyond 9"),
    ] {
        refused(text, construct);
    }
}

#[test]
fn constructs_that_posix_shells_parse_differently_are_refused() {
    for text in [
        "((a))",
        "[[ a ]]",
        "a <<< b",
        "a &> f",
        "a |& b",
        "a {b,c}",
        "a $'b'",
        "a <(b)",
        "a é",
        "a ${x:0:1}",
        "a ${x^^}",
    ] {
        let doubt = prove(text, ShellSyntax::Posix).expect_err(text).to_string();
        assert!(doubt.contains("shells disagree"), "{text:?}: {doubt}");
    }
    assert!(prove("a 'b' \"$c\" | d > e; if f; then g; fi", ShellSyntax::Posix).is_ok());
    // To such a shell `time` is a program like any other.
    let proof = prove("time a", ShellSyntax::Posix).expect("a plain command");
    assert_eq!(proof.commands.first().map(ToString::to_string).as_deref(), Some("time a"));
}

#[test]
fn content_that_a_line_writes_is_not_run_by_the_same_line() {
    for text in [
        "base64 -d <<< x | tar xz; make",
        "a | tar -xzf - -C out && make -C out",
        "a | cpio -id --no-absolute-filenames; make",
        "a > x.tgz; npm install --offline ./x.tgz",
        "a > x.tgz; x=./x.tgz; npm install \"$x\"",
        "a > x.zip; pip install ./x.zip",
        "a > evil-1.0.tar.gz; pip install --no-index -f . evil",
        "a > x.txt; dpkg -i x.txt",
        "a > x.txt; git pull ./x.txt main && make",
        "a > x.txt; git remote add b x.txt; git fetch b && git checkout b/main && make",
    ] {
        refused(text, "a line that writes");
    }
    refused("git apply <<'E'\n+++ b/b/config\nE\ngit -C b status", "a patch from the input");
    refused("ssh -F x.txt host ls", "x.txt, which may name programs");
    refused("sftp -b b.txt host", "b.txt, which may name programs");
    refused("a > project.json; nx x", "a line that writes");
    starts("kubectl apply -f k8s/deploy.yaml", "kubectl");
    starts("git pull && npm ci", "git npm");
    starts("git checkout main && cargo test", "git cargo");
    starts("git stash pop && make", "git make");
    starts("git clone --depth 1 https://x.org/a/b.git && cd b && make", "git cd make");
    starts("git clone https://x.org/a/b c && npm ci --prefix c", "git npm");
    starts("git fetch origin && git rebase origin/main && make > build.log", "git git make");
    starts("npm install x@5 > install.log 2>&1; pip install -r requirements.txt", "npm pip");
    starts("for f in a b; do git add \"$f\"; done; git commit -m \"$msg\"", "git git");
    starts("git add *.rs && git commit -m x && git tag \"v$x\"", "git git git");
}

/// Reads a command: words are split at spaces, `'…'` keeps spaces, `$x` is one unknown word, `@m`
/// any number of them, and a word with `*` outside quotes is a pattern.
fn read_words(line: &str) -> Vec<Word> {
    let mut words = Vec::new();
    let mut rest = line.trim_start();
    while !rest.is_empty() {
        let (text, quoted, after) = split_word(rest);
        words.push(word(&text, quoted));
        rest = after.trim_start_matches(' ');
    }
    words
}

fn split_word(line: &str) -> (String, bool, &str) {
    let mut text = String::new();
    let mut in_quotes = false;
    let mut quoted = false;
    for (index, letter) in line.char_indices() {
        match letter {
            '\'' => {
                in_quotes = !in_quotes;
                quoted = true;
            }
            ' ' if !in_quotes => return (text, quoted, line.get(index..).unwrap_or_default()),
            _ => text.push(letter),
        }
    }
    (text, quoted, "")
}

fn word(text: &str, quoted: bool) -> Word {
    if quoted {
        return Word::literal(text);
    }
    if text == "@m" {
        return Word::unknown("", Shape::Many);
    }
    if let Some((prefix, _)) = text.split_once('$') {
        return Word::unknown(prefix, Shape::One);
    }
    match text.split_once('*') {
        Some((prefix, _)) => Word { source: text.to_owned(), ..Word::unknown(prefix, Shape::Glob) },
        None => Word::literal(text),
    }
}

fn judge(line: &str) -> Result<Vec<ArgumentEffect>, Doubt> {
    let words = read_words(line);
    let (program, args) = words.split_first().expect("a program");
    if is_known(&program.text) {
        consequences(&program.text, args)
    } else {
        Err("no entry".to_owned())
    }
}

/// The consequences of a command, in words.
pub(crate) fn judged(line: &str) -> Result<String, Doubt> {
    Ok(judge(line)?.iter().map(format_consequence).collect::<Vec<_>>().join(", "))
}

fn format_consequence(consequence: &ArgumentEffect) -> String {
    match consequence {
        ArgumentEffect::Runs(words) => {
            let words: Vec<String> = words.iter().map(ToString::to_string).collect();
            format!("runs {}", words.join(" "))
        }
        ArgumentEffect::Script { text, shell } => format!("{shell:?} script {text}"),
        ArgumentEffect::Sets { name, .. } => format!("sets {name}"),
        ArgumentEffect::Writes(word) => format!("writes {word}"),
        ArgumentEffect::ChecksOut(word) => format!("checks out {word}"),
        ArgumentEffect::WritesBeneath(word) => format!("writes beneath {word}"),
        ArgumentEffect::ReadsCode(word) => format!("code {word}"),
        ArgumentEffect::ReadsCodeFromInput => "code from input".to_owned(),
        ArgumentEffect::Opaque => "opaque".to_owned(),
    }
}

/// Asserts that each command is in doubt, and about what.
#[track_caller]
pub(crate) fn assert_doubts(cases: &[(&str, &str)]) {
    for (line, doubt) in cases {
        assert_eq!(judged(line), Err((*doubt).to_owned()), "{line}");
    }
}

/// Asserts that each command starts nothing and writes nothing.
#[track_caller]
pub(crate) fn assert_harmless(lines: &[&str]) {
    for line in lines {
        assert_eq!(judged(line), Ok(String::new()), "{line}");
    }
}

/// Checks lines of which everything is known, one per line, and that none starts another command.
#[track_caller]
pub(crate) fn harmless(lines: &str) {
    let lines = lines.lines().map(str::trim).filter(|line| !line.is_empty());
    let failures: Vec<_> = lines.filter_map(why_not_harmless).collect();
    assert!(failures.is_empty(), "{failures:#?}");
}

fn why_not_harmless(line: &str) -> Option<String> {
    let is_other = |effect: &&ArgumentEffect| {
        matches!(
            effect,
            ArgumentEffect::Runs(_)
                | ArgumentEffect::Script { .. }
                | ArgumentEffect::Sets { .. }
                | ArgumentEffect::ReadsCodeFromInput
        )
    };
    match judge(line) {
        Err(doubt) => Some(format!("{line}: {doubt}")),
        Ok(effects) => effects.iter().find(is_other).map(|effect| format!("{line}: {effect:?}")),
    }
}

/// Checks `line => doubt` or `line => consequence; consequence`, one per line. Consequences that
/// are not named are not checked.
#[track_caller]
pub(crate) fn check(lines: &str) {
    let cases = lines.lines().map(str::trim).filter(|line| !line.is_empty());
    let failures: Vec<_> = cases.filter_map(why_different).collect();
    assert!(failures.is_empty(), "{failures:#?}");
}

fn why_different(case: &str) -> Option<String> {
    let (line, expected) = case.split_once(" => ").expect("a line and what it leads to");
    let found = match judge(line) {
        Err(doubt) if doubt == expected => return None,
        Err(doubt) => doubt,
        Ok(effects) => {
            let texts: Vec<_> = effects.iter().map(format_consequence).collect();
            let has = |text: &str| texts.iter().any(|effect| effect == text);
            if expected.split("; ").all(has) {
                return None;
            }
            format!("{texts:?}")
        }
    };
    Some(format!("{line} => {expected}: {found}"))
}
