//! The words of generated scripts: expansions, arithmetic, conditions, patterns.

use super::grammar::{Grammar, NUMBERS};

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

    pub(crate) fn arith(&mut self, depth: usize) -> String {
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

    pub(crate) fn condition(&mut self, depth: usize) -> String {
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
