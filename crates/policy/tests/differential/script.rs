//! Generated scripts, each of which depends on the seed and its number only: a grammar of every
//! construct of the shell, nested.

use crate::jail::MARKERS;

/// The script of this number.
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
        assert_eq!(grammar_script(7, index), grammar_script(7, index));
    }
    assert_ne!(grammar_script(7, 1), grammar_script(8, 1));
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
fn mutate(script: &str, random: &mut Random) -> String {
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

const NAMES: [&str; 4] = ["x", "y", "a", "b"];
/// Names that mostly hold numbers, so that arithmetic on them stays certain.
const NUMBERS: [&str; 2] = ["n", "m"];
/// Some functions stand in for programs.
const FUNCTIONS: [&str; 4] = ["f1", "f2", "zqe", "zqf"];
const DEPTH: usize = 3;

pub(crate) struct Grammar<'r> {
    pub(crate) random: &'r mut Random,
    /// Here-documents announced on this line.
    bodies: Vec<String>,
}

impl<'r> Grammar<'r> {
    pub(crate) fn new(random: &'r mut Random) -> Self {
        Self { random, bodies: Vec::new() }
    }

    pub(crate) fn script(&mut self) -> String {
        let mut script = String::new();
        for _ in 0..=self.random.below(2) {
            script.push_str(&self.list(DEPTH));
            script.push_str(&self.line_end());
        }
        script
    }

    fn one_of(&mut self, from: &[&str]) -> String {
        self.random.pick(from).to_owned()
    }

    pub(crate) fn marker(&mut self) -> String {
        self.one_of(&MARKERS)
    }

    pub(crate) fn name(&mut self) -> String {
        self.one_of(&NAMES)
    }

    /// A line end, after which the bodies of here-documents stand.
    fn line_end(&mut self) -> String {
        let mut text = self.one_of(&["\n", "\n", " # zqa\n", "\n\n"]);
        for body in std::mem::take(&mut self.bodies) {
            text.push_str(&body);
        }
        text
    }

    fn list(&mut self, depth: usize) -> String {
        let mut text = self.pipeline(depth);
        for _ in 0..self.random.below(4).saturating_sub(1) {
            let joint = match self.random.below(8) {
                0 | 1 => "; ".to_owned(),
                2 => " && ".to_owned(),
                3 => " || ".to_owned(),
                4 => " & ".to_owned(),
                5 => " &&\n".to_owned(),
                6 => ";".to_owned(),
                _ => self.line_end(),
            };
            if joint.starts_with(" &&\n") && !self.bodies.is_empty() {
                continue;
            }
            text.push_str(&joint);
            text.push_str(&self.pipeline(depth));
        }
        text
    }

    fn pipeline(&mut self, depth: usize) -> String {
        let mut text = match self.random.below(12) {
            0 => "! ".to_owned(),
            1 => "time ".to_owned(),
            _ => String::new(),
        };
        text.push_str(&self.command(depth));
        while self.random.below(5) == 0 {
            text.push_str(&self.one_of(&[" | ", "|", " |& "]));
            text.push_str(&self.command(depth));
        }
        text
    }

    fn command(&mut self, depth: usize) -> String {
        if depth == 0 || self.random.below(5) < 3 {
            return self.simple(depth.saturating_sub(1));
        }
        let depth = depth - 1;
        let text = self.compound(depth);
        if self.random.below(6) == 0 { format!("{text} {}", self.redirect(depth)) } else { text }
    }

    fn compound(&mut self, depth: usize) -> String {
        let inner = self.closed_list(depth);
        match self.random.below(17) {
            0 => format!("({inner})"),
            1 => format!("{{ {inner}; }}"),
            2 => format!("if {inner}; then {}; fi", self.closed_list(depth)),
            3 => {
                let (then, other) = (self.closed_list(depth), self.closed_list(depth));
                format!("if {inner}\nthen {then}\nelif zqa; then :; else {other}\nfi")
            }
            4 => format!("while {inner}; do {}; break; done", self.closed_list(depth)),
            5 => format!("until ! {{ {inner}; }}; do {}; break; done", self.marker()),
            6 => format!("for {} in {}; do {inner}; done", self.name(), self.words(depth)),
            7 => format!("for (({};0;{})) do {inner}; done", self.arith(depth), self.arith(depth)),
            8 => {
                let (word, pattern) = (self.word(depth), self.pattern(depth));
                format!(
                    "case {word} in {pattern}) {inner};; *) {} ;; esac",
                    self.closed_list(depth)
                )
            }
            9 => format!("case x in (x|{}) {inner} ;& y) zqb;; esac", self.pattern(depth)),
            10 => format!("[[ {} ]]", self.condition(depth)),
            11 => format!("(( {} ))", self.arith(depth)),
            12 => {
                let name = self.one_of(&FUNCTIONS);
                format!("{name}() {{ {inner}; }}")
            }
            13 => {
                let name = self.one_of(&FUNCTIONS);
                format!("function {name} {{ {inner}; }}; {name}")
            }
            14 => format!("coproc {}", self.marker()),
            15 => {
                format!("select {} in {}; do {inner}; break; done", self.name(), self.words(depth))
            }
            _ => {
                let name = self.one_of(&FUNCTIONS);
                format!("{name}() ({inner}); {name}")
            }
        }
    }

    /// A list without here-documents: their bodies would stand outside of the construct.
    fn closed_list(&mut self, depth: usize) -> String {
        let before = std::mem::take(&mut self.bodies);
        let mut text = self.list(depth);
        if !self.bodies.is_empty() {
            text.push_str(&self.line_end());
            text.push_str("zqa");
        }
        self.bodies = before;
        text.trim_end_matches([' ', '&', '\n']).to_owned()
    }

    fn words(&mut self, depth: usize) -> String {
        let count = self.random.below(4);
        let words: Vec<String> = (0..count).map(|_| self.word(depth)).collect();
        words.join(" ")
    }

    fn simple(&mut self, depth: usize) -> String {
        let mut text = String::new();
        while self.random.below(6) == 0 {
            text.push_str(&format!("{} ", self.assignment(depth)));
        }
        if !text.is_empty() && self.random.below(2) == 0 {
            return text.trim_end().to_owned();
        }
        if self.random.below(12) == 0 {
            text.push_str(&format!("{} ", self.redirect(depth)));
        }
        let (head, more) = self.head(depth);
        text.push_str(&head);
        for _ in 0..self.random.below(3).min(more) {
            text.push_str(&self.one_of(&[" ", "  ", "\t", " \\\n"]));
            text.push_str(&self.word(depth));
        }
        if self.random.below(6) == 0 {
            text.push_str(&format!(" {}", self.redirect(depth)));
        }
        text
    }

    /// The program with the arguments that it needs, and how many more may follow.
    fn head(&mut self, depth: usize) -> (String, usize) {
        let (text, more) = match self.random.below(36) {
            0..=15 => return (self.marker(), 2),
            16 | 17 => (self.spelled(), 2),
            18 | 19 => (self.one_of(&["echo", ":", "true", "false", "printf '%s'"]), 2),
            20 => (self.one_of(&FUNCTIONS), 2),
            21 => (format!("eval {}", self.quoted_list(depth)), 0),
            22 => (format!("trap {} EXIT", self.quoted_list(depth)), 0),
            23 | 24 => {
                let starters =
                    ["command", "env", "nice", "nohup", "timeout 1", "env x=1", "exec", "builtin"];
                (format!("{} {}", self.one_of(&starters), self.marker()), 2)
            }
            25 => {
                let shell = self.one_of(&["bash", "bash", "sh"]);
                (format!("{shell} -c {}", self.quoted_list(depth)), 0)
            }
            26 => (format!("echo x | xargs {}", self.marker()), 1),
            27 => (self.evaluating(depth), 0),
            28 => (format!("declare {}=({})", self.name(), self.words(depth)), 0),
            29 => (format!("let {}", self.arith(0).replace(' ', "")), 0),
            30 => {
                let others = ["set -e", "set -x", "shopt -s nullglob", "exit", "return", "wait"];
                (self.one_of(&others), 0)
            }
            31 => (format!("bash <<< {}", self.quoted_list(depth)), 0),
            32 => {
                let marker = self.marker();
                self.bodies.push(format!("{marker}\nE\n"));
                ("bash <<'E'".to_owned(), 0)
            }
            33 => (format!("mapfile -C {} -c 1 x <<< a", self.marker()), 0),
            34 => (format!("env bash -c {}", self.quoted_list(depth)), 0),
            _ => (self.one_of(&["unset -f zqe", "declare x", "read -r x", "trap - EXIT"]), 0),
        };
        (text, more)
    }

    /// A builtin that evaluates the names in its arguments.
    fn evaluating(&mut self, depth: usize) -> String {
        let first = ["test -v", "[ -n", "[", "unset", "declare", "read", "printf -v", "declare -i"];
        let first = self.one_of(&first);
        let last = match self.random.below(8) {
            0 => self.word(depth),
            1 => "'a[$(zqd)]'".to_owned(),
            2 => "a[0]".to_owned(),
            _ => self.name(),
        };
        let close = if first.starts_with('[') { " ]" } else { "" };
        format!("{first} {last}{close}")
    }

    /// A marker in another spelling.
    fn spelled(&mut self) -> String {
        let name = self.marker();
        match self.random.below(8) {
            0 => format!("'{name}'"),
            1 => format!("\"{name}\""),
            2 => format!("\\{name}"),
            3 => name.replace('q', "\\q"),
            4 => name.replace('q', "\\\nq"),
            5 => format!("$'\\x7a'{}", name.get(1..).unwrap_or_default()),
            6 => format!("z''{}", name.get(1..).unwrap_or_default()),
            _ => format!("$\"{name}\""),
        }
    }

    /// A list as one word.
    fn quoted_list(&mut self, depth: usize) -> String {
        let list = self.closed_list(depth.saturating_sub(2));
        match self.random.below(3) {
            0 if !list.contains(['"', '$', '`', '\\']) => format!("\"{list}\""),
            1 => self.marker(),
            _ => format!("'{}'", list.replace('\'', "")),
        }
    }

    fn assignment(&mut self, depth: usize) -> String {
        let name = self.name();
        match self.random.below(10) {
            0 => format!("{name}=({})", self.words(depth)),
            1 => format!("{name}[{}]={}", self.arith(depth), self.word(depth)),
            2 => format!("{name}+={}", self.word(depth)),
            3 if self.random.below(3) == 0 => format!("{name}='a[$(zqe)]'"),
            4 => format!("{}={}", self.one_of(&NUMBERS), self.random.below(9)),
            5 => format!("{name}="),
            6 => format!("{}=$(({}))", self.one_of(&NUMBERS), self.arith(depth)),
            _ => format!("{name}={}", self.word(depth)),
        }
    }

    fn redirect(&mut self, depth: usize) -> String {
        match self.random.below(14) {
            0 => "> o1".to_owned(),
            1 => ">>o1".to_owned(),
            2 => "2>&1".to_owned(),
            3 => "&>o1".to_owned(),
            4 => "<o1".to_owned(),
            5 => format!("<<< {}", self.word(depth)),
            6 => format!("< <({})", self.closed_list(depth)),
            7 => format!("> >({})", self.closed_list(depth)),
            8 => "2>o2".to_owned(),
            9 => "{x}>o1".to_owned(),
            10 => ">&2".to_owned(),
            _ => self.heredoc(depth),
        }
    }

    fn heredoc(&mut self, depth: usize) -> String {
        let body = match self.random.below(5) {
            0 => "zqa".to_owned(),
            1 => format!("$({})", self.closed_list(depth)),
            2 => "`zqb` ${x:-$(zqc)} \\$(zqd) \\`zqe\\`".to_owned(),
            3 => "\"$(zqa)\" '$(zqb)' \\\nE\\\\".to_owned(),
            _ => format!("x {}", self.word(depth)),
        };
        let (start, end) = self.random.pick(&[
            &("<<E", "E"),
            &("<<'E'", "E"),
            &("<<\"E\"", "E"),
            &("<<\\E", "E"),
            &("<<-E", "\tE"),
            &("<< E", "E"),
            &("<<-'E'", "\t\tE"),
        ]);
        self.bodies.push(format!("{body}\n{end}\n"));
        (*start).to_owned()
    }
}

// The words of generated scripts: expansions, arithmetic, conditions, patterns.

impl Grammar<'_> {
    pub(crate) fn word(&mut self, depth: usize) -> String {
        let mut word = self.piece(depth);
        while self.random.below(5) == 0 {
            word.push_str(&self.piece(depth));
        }
        word
    }

    fn piece(&mut self, depth: usize) -> String {
        let depth = depth.saturating_sub(1);
        if depth == 0 {
            return match self.random.below(8) {
                0 => format!("${}", self.name()),
                1 => format!("\"${}\"", self.name()),
                2 => "'$(zqf) `zqf`'".to_owned(),
                3 => "\\$\\(zqf".to_owned(),
                4 => "*".to_owned(),
                5 => "{a,b}".to_owned(),
                6 => "1".to_owned(),
                _ => self.marker(),
            };
        }
        match self.random.below(17) {
            0 | 1 => format!("$({})", self.closed_list(depth)),
            2 => format!("`{}`", self.backticked(depth)),
            3 => format!("\"$({})\"", self.closed_list(depth)),
            4 => format!("\"`{}`\"", self.backticked(depth)),
            5 => format!("$(({}))", self.arith(depth)),
            6 => format!("${{{}}}", self.parameter(depth, "")),
            7 => format!("\"${{{}}}\"", self.parameter(depth, "\"")),
            8 => format!("<({})", self.closed_list(depth)),
            9 => "$'a\\n$(zqf)'".to_owned(),
            10 => "$\"$(zqa)\"".to_owned(),
            11 => format!("\"{}\"", self.one_of(&["a b", "$x y", "\\\"", "\\$(zqf)", "'", "#"])),
            12 => self.one_of(&["'a b'", "'\"'", "'\\'", "#a", "a#b", "~", "-v", "a[0]", "!"]),
            _ => self.piece(1),
        }
    }

    fn backticked(&mut self, depth: usize) -> String {
        let list = self.closed_list(depth.saturating_sub(1));
        if self.random.below(3) == 0 {
            return format!("{} \\`{}\\`", self.marker(), self.marker());
        }
        list.replace(['`', '\\'], "")
    }

    fn parameter(&mut self, depth: usize, quote: &str) -> String {
        let name = self.name();
        let word = if quote.is_empty() {
            self.word(depth)
        } else {
            format!("$({})", self.closed_list(depth))
        };
        match self.random.below(16) {
            0 => name,
            1 => format!("#{name}"),
            2 => format!("{name}:-{word}"),
            3 => format!("{name}:={word}"),
            4 => format!("{name}+{word}"),
            5 => format!("{name}#{word}"),
            6 => format!("{name}%%{word}"),
            7 => format!("{name}/x/{word}"),
            8 => format!("{name}//{word}"),
            9 => format!("{name}:{}", self.arith(depth)),
            10 => format!("{name}[{}]", self.arith(depth)),
            11 => format!("{name}[@]"),
            12 => format!("!{name}"),
            13 => format!("{name}^^"),
            14 => format!("{name}@{}", self.one_of(&["Q", "P", "A", "E"])),
            _ => format!("{name}?{word}"),
        }
    }

    fn arith(&mut self, depth: usize) -> String {
        let name = if self.random.below(8) == 0 { self.name() } else { self.one_of(&NUMBERS) };
        match self.random.below(12) {
            0 => format!("{name} + 1"),
            1 => format!("{name}++"),
            2 => format!("{name} = {}", self.random.below(5)),
            3 => format!("${name} * 2"),
            4 => format!("({name} < 3) ? 1 : 0"),
            5 => format!("{name}[1]"),
            6 if depth > 1 => format!("$({})", self.closed_list(depth - 1)),
            7 if depth > 0 => format!("$(({}))", self.arith(depth - 1)),
            8 => format!("${{{name}}}"),
            9 => format!("\"{name}\""),
            10 => format!("{name}[${name}]"),
            _ => format!("{}", self.random.below(9)),
        }
    }

    fn condition(&mut self, depth: usize) -> String {
        let word = self.word(depth);
        match self.random.below(10) {
            0 => format!("-n {word}"),
            1 => format!("{word} == {}", self.pattern(depth)),
            2 => format!("{word} =~ {}", self.one_of(&["a|b", "(a|zqa) b", "^x$", "[a-z]+"])),
            3 => format!("${} -eq {}", self.one_of(&NUMBERS), self.random.below(9)),
            4 => format!("-v {}", self.name()),
            5 => format!("! {word}"),
            6 => format!("{word} && {}", self.word(depth)),
            7 => format!("( {word} || -z {} )", self.word(depth)),
            8 => format!("{word} < {}", self.word(depth)),
            _ => format!("{word} == @(a|{})", self.marker()),
        }
    }

    pub(crate) fn pattern(&mut self, depth: usize) -> String {
        match self.random.below(5) {
            0 => "*".to_owned(),
            1 => "[a-z]*".to_owned(),
            2 => format!("\"{}\"", self.marker()),
            3 => self.word(depth),
            _ => "?".to_owned(),
        }
    }
}
