//! One script of a run: which kind it is, and its text.

use super::attacks::attack;
use super::everyday::{everyday, fill};
use super::grammar::Grammar;
use super::variables;

/// The kind of a generated script.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Family {
    /// Lines as people and agents write them every day.
    Everyday,
    /// Everyday lines with one unusual word, statement or change of characters.
    Twisted,
    /// Constructs that have started programs past an allow list, with other names and values.
    Attack,
    /// Every construct of the shell, nested, in words that mean little.
    Grammar,
}

impl Family {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Everyday => "everyday",
            Self::Twisted => "twisted",
            Self::Attack => "attack",
            Self::Grammar => "grammar",
        }
    }

    fn pick(mix: Mix, random: &mut Random) -> Self {
        let (everyday, twisted, attack) = match mix {
            Mix::Usual => (84, 6, 6),
            Mix::Hostile => (0, 40, 35),
        };
        match random.below(100) {
            number if number < everyday => Self::Everyday,
            number if number < everyday + twisted => Self::Twisted,
            number if number < everyday + twisted + attack => Self::Attack,
            _ => Self::Grammar,
        }
    }
}

/// The share of each kind of script.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mix {
    /// Everyday lines dominate, as they do in real use, so that the share of refusals means
    /// something.
    Usual,
    /// No line is an everyday one.
    Hostile,
}

/// The script of this number.
pub(crate) fn script(mix: Mix, seed: u64, index: u64) -> (Family, String) {
    let mut random = Random::new(seed, index);
    let family = Family::pick(mix, &mut random);
    let text = match family {
        Family::Everyday => everyday(&mut random),
        Family::Twisted => {
            let line = everyday(&mut random);
            twist(&line, &mut random)
        }
        Family::Attack => attack(&mut random),
        Family::Grammar => from_grammar(&mut random),
    };
    (family, text)
}

/// The script of this number, where all are of the family `Grammar`.
pub(crate) fn grammar_script(seed: u64, index: u64) -> String {
    from_grammar(&mut Random::new(seed, index))
}

fn from_grammar(random: &mut Random) -> String {
    let script = Grammar::new(random).script();
    if random.below(3) == 0 { mutate(&script, random) } else { script }
}

#[test]
fn a_script_is_the_same_each_time() {
    for index in 0..200 {
        assert_eq!(script(Mix::Usual, 7, index), script(Mix::Usual, 7, index));
        assert_eq!(grammar_script(7, index), grammar_script(7, index));
    }
    assert_ne!(script(Mix::Hostile, 7, 1), script(Mix::Hostile, 8, 1));
}

// Small damage to a script: most of what bash and a reader could disagree on is in it.

const PIECES: [&str; 64] = [
    "'", "\"", "`", "$", "(", ")", "{", "}", "[", "]", "<", ">", "|", "&", ";", "#", "\n", " ",
    "\\", "!", "=", "+", "*", "?", "~", ",", "\\\n", "$(", "$((", "))", "${", "<<", "<<<", "<<-",
    "<(", ">(", "$'", "$\"", "((", "[[ ", " ]]", ";;", "&&", "||", "|&", "&>", " then ", " do ",
    " fi ", " done ", " esac ", " in ", " { ", " ; } ", "E\n", "\nE\n", "x=", "x[", "-v ", "\t",
    " zqa ", "zqb", "eval ", "\\\\",
];

/// One to four changes.
pub(crate) fn mutate(script: &str, random: &mut Random) -> String {
    let mut chars: Vec<char> = script.chars().collect();
    for _ in 0..=random.below(4) {
        damage(&mut chars, random);
    }
    chars.into_iter().collect()
}

fn damage(chars: &mut Vec<char>, random: &mut Random) {
    let at = random.below(chars.len() + 1);
    match random.below(6) {
        0 if at < chars.len() => {
            chars.remove(at);
        }
        1 | 2 => {
            let piece = random.pick(&PIECES);
            chars.splice(at..at, piece.chars());
        }
        3 if at < chars.len() => {
            let piece = random.pick(&PIECES);
            chars.splice(at..=at, piece.chars());
        }
        4 => {
            let end = (at + random.below(12)).min(chars.len());
            let slice: Vec<char> = chars[at..end].to_vec();
            let to = random.below(chars.len() + 1);
            chars.splice(to..to, slice);
        }
        5 => {
            let end = (at + random.below(8)).min(chars.len());
            chars.drain(at..end);
        }
        _ => {}
    }
}

// Numbers that depend on a seed only.

/// The random number generator `SplitMix64`.
#[derive(Debug)]
pub(crate) struct Random(u64);

impl Random {
    /// The numbers of one script: seeds and indices that are close give nothing alike.
    pub(crate) fn new(seed: u64, index: u64) -> Self {
        let mut random = Self(seed);
        random.0 = random.next() ^ index.wrapping_mul(0xd6e8_feb8_6659_fd93);
        random.0 = random.next();
        random
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `limit`.
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.next() % limit.max(1) as u64).unwrap_or_default()
    }

    pub(crate) fn pick<'a, T: ?Sized>(&mut self, from: &[&'a T]) -> &'a T {
        from[self.below(from.len())]
    }
}

// Everyday lines with one or two unusual parts: the border of what an allow list lets through.

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
        12 => format!("{}; {line}", variables::assignment(random)),
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
    let word = variables::word(random);
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
    let word = variables::word(random);
    words.insert(1.min(words.len()) + random.below(words.len()), &word);
    words.join(" ")
}
