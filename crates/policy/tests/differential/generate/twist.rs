//! Everyday lines with one or two unusual parts: the border of what an allow list lets through.

use super::fill::fill;
use super::mutate::mutate;
use super::random::Random;
use super::special;

/// `L` is the line, or a part of it.
const WRAPS: [&str; 30] = [
    "eval 'L'",
    "bash -c 'L'",
    "sh -c 'L'",
    "command L",
    "env L",
    "env -- L",
    "env -i L",
    "env -S 'L'",
    "exec L",
    "builtin L",
    "time L",
    "time -p L",
    "! L",
    "coproc L",
    "trap 'L' EXIT",
    "trap 'L' DEBUG; :",
    "(L)",
    "{ L; }",
    "f() { L; }; f",
    "f() (L); f x",
    "function f { L; }; f",
    "L &\nwait",
    "echo \"$(L)\"",
    "echo `L`",
    "cat < <(L)",
    "nohup L",
    "timeout 1 L",
    "nice L",
    "alias l='L'\nl",
    "while L; do break; done",
];
const STATEMENTS: [&str; 30] = [
    "set -- -exec @M@ \\;",
    "set -- 'x y' @M@",
    "x=@word@",
    "x='. -exec @M@ ;'",
    "x=@code@",
    "a=(@word@ @word@)",
    "x=5",
    "x=a.txt",
    "x='two words'",
    "shopt -s nullglob",
    "shopt -s extglob dotglob",
    "shopt -s expand_aliases",
    "set -f",
    "set -a",
    "set -k",
    "set -o posix",
    "set +B",
    "cd odd",
    "cd src",
    "alias ls=@M@",
    "ls() { @M@; }",
    "unset -f ls",
    "hash -p ./run.sh ls",
    "enable -n echo",
    "IFS=,",
    "declare -i x",
    "local x=1",
    "umask 077",
    ": > ./-exec",
    "export FOO=@word@",
];
const PREFIXES: [&str; 14] = [
    "LC_ALL=zh_CN.gbk ",
    "LC_ALL=C ",
    "LANG=C ",
    "PATH=. ",
    "IFS=: ",
    "X=1 ",
    "FOO=@word@ ",
    "@special@=@word@ ",
    "BASH_ENV=run.sh ",
    "GIT_PAGER=@M@ ",
    "PAGER=@M@ ",
    "a[0]=1 ",
    "x+=y ",
    "TAR_OPTIONS=--checkpoint=1 ",
];
const REDIRECTS: [&str; 20] = [
    "> run.sh",
    ">> .git/config",
    "> .git/hooks/post-checkout",
    ">| a.txt",
    "<> a.txt",
    "&>> out.log",
    ">& out.log",
    "2> err.log",
    "3>&1",
    "{fd}> o1",
    "<&-",
    "2>&-",
    "< a.txt",
    "<<< \"$(@M@)\"",
    "<<< @word@",
    "> >(@M@)",
    "< <(@M@)",
    "> \"$x\"",
    "> $x",
    "<<E\n$(@M@)\nE\n",
];

/// One or two changes to an everyday line.
pub(super) fn twist(line: &str, random: &mut Random) -> String {
    let mut text = change(line, random);
    if random.below(3) == 0 {
        text = change(&text, random);
    }
    text
}

fn change(line: &str, random: &mut Random) -> String {
    match random.below(16) {
        0..4 => replace_word(line, random),
        4..6 => insert_word(line, random),
        6 | 7 => format!("{}; {line}", fill(random.pick(&STATEMENTS), random)),
        8 => format!("{}\n{line}", fill(random.pick(&STATEMENTS), random)),
        9 => format!("{}{line}", fill(random.pick(&PREFIXES), random)),
        10 | 11 => format!("{line} {}", fill(random.pick(&REDIRECTS), random)),
        12 => format!("{}; {line}", special::assignment(random)),
        13 => wrap(line, random),
        _ => mutate(line, random),
    }
}

fn wrap(line: &str, random: &mut Random) -> String {
    let wrap = random.pick(&WRAPS);
    let line = if wrap.contains("'L'") { line.replace('\'', "") } else { line.to_owned() };
    wrap.replace('L', &line)
}

/// Puts an unusual word in the place of one that is not the first.
fn replace_word(line: &str, random: &mut Random) -> String {
    let mut words: Vec<&str> = line.split(' ').collect();
    let word = special::word(random);
    let at = random.below(words.len());
    if at > 0 {
        words[at] = &word;
    } else {
        words.push(&word);
    }
    words.join(" ")
}

fn insert_word(line: &str, random: &mut Random) -> String {
    let mut words: Vec<&str> = line.split(' ').collect();
    let word = special::word(random);
    words.insert(1.min(words.len()) + random.below(words.len()), &word);
    words.join(" ")
}
