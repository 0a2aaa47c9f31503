//! Tests of the reader, construct by construct.

use proptest::prelude::*;

use super::extract;
use crate::command::{CommandLookup, Extraction, ShellSyntax};

fn bash(text: &str) -> Extraction {
    extract(text, ShellSyntax::Bash, &[])
}

fn programs(found: &Extraction) -> Vec<String> {
    found.commands.iter().map(|command| command.program.to_string()).collect()
}

/// Checks that the reader finds exactly these programs, in this order, without a doubt.
#[track_caller]
fn finds(text: &str, expected: &[&str]) {
    let found = bash(text);
    assert_eq!(found.uncertain, None, "{text}");
    assert_eq!(programs(&found), expected, "{text}");
}

#[track_caller]
fn doubts(text: &str) {
    let found = bash(text);
    assert!(found.uncertain.is_some(), "{text}: {:?}", programs(&found));
}

#[test]
fn commands_in_lists_and_pipelines_are_found() {
    finds("a; b && c || d & e | f |& g\nh", &["a", "b", "c", "d", "e", "f", "g", "h"]);
    finds("! a; time b; time -p c; ! time d", &["a", "b", "c", "d"]);
    finds("a &&\n\n b |\n c", &["a", "b", "c"]);
    finds("a # b\nc;# d\ne", &["a", "c", "e"]);
    finds("", &[]);
    for text in ["a &&", "a ; ; b", "&& a", "a | | b", "a &&& b", ";", "a ;; b"] {
        doubts(text);
    }
}

#[test]
fn commands_in_compound_commands_are_found() {
    finds("(a; b)", &["a", "b"]);
    finds("{ a; b; }", &["a", "b"]);
    finds("if a; then b; elif c; then d; else e; fi", &["a", "b", "c", "d", "e"]);
    finds("while a; do b; done; until c; do d; done", &["a", "b", "c", "d"]);
    finds("for x in 1 2; do a; done; for x; do b; done; for x do c; done", &["a", "b", "c"]);
    finds("for ((i=0; i<3; i++)); do a; done", &["a"]);
    finds("for x in y; { a; }", &["a"]);
    finds("case x in a|b) c;; (d) e;& *) f;;& esac", &["c", "e", "f"]);
    finds("case x in esac; a", &["a"]);
    finds("select x in a; do b; done", &["b"]);
    finds("if (a) then b; fi", &["a", "b"]);
    finds("[[ a == b* && -n $x || ( c < d ) ]]; a", &["a"]);
    finds("(( 1 + 2 )); a", &["a"]);
    finds("coproc a; coproc N { b; }", &["a", "b"]);
    for text in ["if a; then fi", "(a", "{ a }", "for x in a", "case x in a", "((a)", "[[ a"] {
        doubts(text);
    }
}

#[test]
fn a_function_is_known_where_it_is_certainly_defined() {
    let lookup = |text: &str| bash(text).commands.last().map(|command| command.lookup);
    assert_eq!(lookup("f() { a; }; f"), Some(CommandLookup::Function));
    assert_eq!(lookup("function f { a; }\nf"), Some(CommandLookup::Function));
    for text in [
        "(f() { a; }); f",
        "f() { a; } & f",
        "true && f() { a; }; f",
        "if b; then f() { a; }; fi; f",
        "f() { a; } | b; f",
        "f() { a; }; env f",
        "f() { a; }; bash -c f",
    ] {
        assert_ne!(lookup(text), Some(CommandLookup::Function), "{text}");
    }
    let removed = bash("f() { a; }; unset -f f; f");
    assert!(removed.commands.iter().all(|command| command.lookup != CommandLookup::Function));
}

#[test]
fn words_and_quotes_are_parsed() {
    finds("'a b' \"c d\" e\\ f $'g\\x68' $\"i\"", &["a b"]);
    finds("r'm' x; \"r\"m; \\rm; r\\\nm", &["rm", "rm", "rm", "rm"]);
    finds("echo '$(a)' \"\\$(a)\" \\`a\\`", &["echo"]);
    finds("$'\\x72\\155'", &["rm"]);
    finds("$'a\\'b' c; d", &["a'b", "d"]);
    finds("echo \"${x:-'a b'}\" \"${x#'a'}\" \"${x:-'$y'}\"; d", &["echo", "d"]);
    finds("cat <<E\n${x:-'a'} ${x:-\"b\"}\nE\nd", &["cat", "d"]);
    for text in ["'a", "\"a", "$'a", "a\\", "echo \"${x:-it's}\"; d", "echo \"${x:-'}'}\""] {
        doubts(text);
    }
}

#[test]
fn commands_in_substitutions_are_found() {
    for text in [
        "x $(a)",
        "x `a`",
        "x \"$(a)\"",
        "x \"`a`\"",
        "x <(a)",
        "x > >(a)",
        "x ${y:-$(a)}",
        "x \"${y#$(a)}\"",
        "x ${y/$(a)/b}",
        "x <<E\n$(a)\nE",
        "x <<E\n`a`\nE",
        "x <<< $(a)",
    ] {
        let found = bash(text);
        assert_eq!(found.uncertain, None, "{text}");
        let mut names = programs(&found);
        names.sort();
        assert_eq!(names, ["a", "x"], "{text}");
    }
    finds("y=$(a)", &["a"]);
    finds("y=(1 $(a)); z[1]=`b`", &["a", "b"]);
    finds("case $(a) in $(b)) c;; esac", &["a", "b", "c"]);
    finds("x $(a $(b `c`))", &["c", "b", "a", "x"]);
}

#[test]
fn here_documents_are_data_unless_they_expand() {
    finds("cat <<'E'\n$(a) `b`\nE\nc", &["cat", "c"]);
    finds("cat <<\\E\n$(a)\nE", &["cat"]);
    finds("cat <<E\n\\$(a) \\`b\\`\nE", &["cat"]);
    finds("cat <<-E\n\tx\n\tE\nb", &["cat", "b"]);
    finds("cat <<A <<'B'\n$(a)\nA\n$(b)\nB\nc", &["cat", "a", "c"]);
    finds("cat <<E\nx\\\nE\nE\nb", &["cat", "b"]);
    finds("bash <<'E'\na; b\nE", &["bash", "a", "b"]);
    doubts("cat <<E\nx");
    doubts("bash <<E\n$x\nE");
    doubts("cat <<E $(a\nb)\nE");
}

#[test]
fn names_that_are_known_only_at_run_time_are_uncertain() {
    for text in [
        "$x",
        "${x}",
        "$(a)",
        "`a`",
        "a$x",
        "/bin/r?",
        "{a,b}",
        "~/a",
        "\"$@\"",
        "a[1]",
        "x=1 $y",
        "env $x a",
        "timeout $t a",
        "xargs $x",
    ] {
        doubts(text);
    }
}

#[test]
fn time_in_a_substitution_is_certain_before_simple_commands_only() {
    finds(
        "a \"$(time b; time -p c)\"; time { d; }; time case x in y) e;; esac",
        &["b", "c", "a", "d", "e"],
    );
    for text in [
        "a \"$(time case 1 in ?) b '$(c)';; esac)\"",
        "a \"$(time -p { b; })\"",
        "a <(! time (b))",
        "a \"$(time ! b)\"",
    ] {
        doubts(text);
    }
}

#[test]
fn values_that_arithmetic_reads_are_followed() {
    finds("i=0; j=i; echo $((i + j))", &["echo"]);
    finds("((pwn))", &[]);
    finds("a=(1 2); a+=(3); echo $((a[0] + ${#a[@]}))", &["echo"]);
    finds("s=$(date +%s); echo $(( $(date +%s) - s ))", &["date", "date", "echo"]);
    for text in [
        "x='a[$(b)]'; echo $((x))",
        "x='a[$(b)]'; y=x; echo $((y))",
        "x='a[$(b)]'; y=$x; (( y ))",
        "read x; echo $((x))",
        "x=a; x+='[$(b)]'; echo $((x))",
        "x=(1 'a[$(b)]'); echo $((x[1]))",
        "declare -i x=('a[$(b)]')",
        "declare -ai x=(1 'a[$(b)]')",
        "x=$(a); [[ $x -eq 1 ]]",
        "echo $(( $(a) ))",
        "echo $(($1))",
        "date() { a; }; echo $(( $(date +%s) ))",
        "echo ${y:x}; for x in $(a); do :; done",
        "a['$(b)']=1",
    ] {
        doubts(text);
    }
}

#[test]
fn bash_constructs_are_uncertain_in_a_posix_shell() {
    for text in [
        "[[ a ]]",
        "((a))",
        "a <(b)",
        "a <<< b",
        "a &> b",
        "a |& b",
        "function f { a; }",
        "x=(a)",
        "echo $'a'",
        "echo ${x/a/b}",
        "echo ${!x}",
        "x+=1",
        "coproc a",
        "select x in a; do b; done",
    ] {
        assert_eq!(bash(text).uncertain.map(|it| it.reason), None, "{text}");
        assert!(extract(text, ShellSyntax::Posix, &[]).uncertain.is_some(), "{text}");
        doubts(&format!("sh -c '{}'", text.replace('\'', "'\\''")));
    }
    assert_eq!(extract("a; b | c && (d) > e", ShellSyntax::Posix, &[]).uncertain, None);
}

proptest! {
    #[test]
    fn no_text_makes_it_panic(text in "\\PC{0,200}") {
        drop(bash(&text));
        drop(extract(&text, ShellSyntax::Posix, &[]));
    }

    #[test]
    fn no_shell_like_text_makes_it_panic(
        pieces in prop::collection::vec(prop::sample::select(PIECES), 0..60)
    ) {
        drop(bash(&pieces.concat()));
    }
}

const PIECES: &[&str] = &[
    "a", "x=", "$x", "$(", ")", "`", "\"", "'", "\\", "\n", ";", "&", "|", "<", ">", "<<E", "E",
    "(", "{ ", "}", "[[ ", " ]]", "((", "))", "if ", "then ", "fi", "for ", "in ", "do ", "done",
    "case ", "esac", "${", "$((", "#", "é", "\t", " ", "!", "*", "[", "]", "~", "=", "env ",
    "eval ", "$'",
];
