//! Programs that search and edit text: sed, awk, ripgrep and their kin.

use super::consequence::{Consequence, Doubt};
use super::dispatch::Judgement;
use super::options::{Arguments, NO_OPTIONS, Options, Order, known, read};
use super::tool::{Operands, Tool, judge, written};
use super::{awk, sed};
use crate::command::{Shape, Word};

/// GNU sed 4.9, sed(1). `-f` is left out: the file may hold any command.
const SED: Options = Options {
    flags: "nErsuz",
    values: "el",
    attached: "i",
    long: "quiet silent debug expression= follow-symlinks in-place=? line-length= posix \
        regexp-extended separate sandbox unbuffered null-data help version",
    ..NO_OPTIONS
};

/// gawk 5.2.1, gawk(1), mawk 1.3.4 and the one true awk have `-F` and `-v`; the long options are
/// gawk's. Options end at the program's text, so later words are never options.
const AWK: Options = Options {
    values: "Fv",
    long: "field-separator= assign= sandbox posix re-interval traditional characters-as-bytes \
        bignum csv version help",
    order: Order::First,
    ..NO_OPTIONS
};

const TOOLS: &[Tool] = &[
    // ripgrep 13.0.0, rg(1), without --pre, --pre-glob, --search-zip and --hostname-bin.
    Tool {
        names: &["rg"],
        options: Options {
            flags: "abcFhHiIlLnNoPpqsSuUvVwx0.",
            values: "ABCdEefgjMmrtT",
            long: "after-context= before-context= context= auto-hybrid-regex binary block-buffered \
                byte-offset case-sensitive color= colors= column context-separator= count \
                count-matches crlf debug dfa-size-limit= encoding= engine= file= files \
                files-with-matches files-without-match fixed-strings follow glob= \
                glob-case-insensitive heading hidden iglob= ignore-case ignore-file= \
                ignore-file-case-insensitive include-zero invert-match json line-buffered \
                line-number line-regexp max-columns= max-columns-preview max-count= max-depth= \
                maxdepth= max-filesize= mmap multiline multiline-dotall no-binary \
                no-block-buffered no-config no-context-separator no-encoding no-filename \
                no-heading no-hidden no-ignore no-ignore-dot no-ignore-exclude no-ignore-files \
                no-ignore-global no-ignore-messages no-ignore-parent no-ignore-vcs no-line-number \
                no-messages no-mmap no-unicode null null-data one-file-system only-matching \
                passthru path-separator= pcre2 pretty quiet regex-size-limit= regexp= replace= \
                smart-case sort= sortr= stats stop-on-nonmatch text threads= trim \
                type= type-add= type-clear= type-list type-not= unrestricted vimgrep \
                with-filename word-regexp help version",
            undashed_values: true,
            ..NO_OPTIONS
        },
        writes: &[],
        operands: Operands::Read,
    },
    // The Silver Searcher 2.2.0, ag(1), without --pager and -z.
    Tool {
        names: &["ag"],
        options: Options {
            flags: "acDfFHiLlnoQrRsStuUvVw0",
            values: "ABCGgmp",
            long: "after=? before=? context=? column count color nocolor file-search-regex= \
                files-with-matches files-without-matches fixed-strings follow group nogroup \
                heading noheading hidden ignore= ignore-dir= ignore-case literal smart-case \
                case-sensitive max-count= depth= noaffinity nobreak nofilename nonumbers numbers \
                only-matching path-to-ignore= print-long-lines silent skip-vcs-ignores stats \
                unrestricted invert-match vimgrep word-regexp width= all-text all-types null \
                list-file-types help version",
            undashed_values: true,
            ..NO_OPTIONS
        },
        writes: &[],
        operands: Operands::Read,
    },
];

/// yq 4 of Mike Farah, `yq --help`, without --split-exp and --from-file.
const YQ: Options = Options {
    flags: "0CeiNjMnPrhV",
    values: "Iop",
    long: "colors no-colors exit-status indent= inplace input-format= output-format= no-doc \
        null-input prettyPrint unwrapScalar=? tojson raw-output help version",
    undashed_values: true,
    ..NO_OPTIONS
};

/// Programs whose input or arguments are a language that starts programs, and that no entry reads.
const UNREAD: &[&str] = &[
    "ack",
    "ack-grep",
    "ack5",
    "cloc",
    "convert",
    "exiftool",
    "fzf",
    "gnuplot",
    "gs",
    "m4",
    "magick",
    "mogrify",
    "prename",
    "rename",
    "sk",
    "ug",
    "ugrep",
    "perl-rename",
    "file-rename",
    "sdiff",
    "diff3",
    "ldd",
];

/// Judges the arguments of a program that searches or edits text.
pub(super) fn consequences(program: &str, args: &[Word]) -> Judgement {
    let judgement = match program {
        "sed" | "gsed" | "ssed" => edit(args),
        "awk" | "gawk" | "mawk" | "nawk" | "original-awk" | "bwk" | "goawk" => scan(args),
        "yq" => query(args),
        _ if UNREAD.contains(&program) => match args {
            [] => Ok(Vec::new()),
            [only] if only.is("--version") || only.is("--help") => Ok(Vec::new()),
            _ => Err(format!("the arguments of {program}")),
        },
        _ => return judge(TOOLS, program, args),
    };
    Some(judgement)
}

fn query(args: &[Word]) -> Result<Vec<Consequence>, Doubt> {
    let found = read(args, &YQ)?;
    if !found.has(&["i", "inplace"]) {
        return Ok(Vec::new());
    }
    // The first operand is the expression, behind the name of a subcommand if there is one.
    let is_name = |word: &Word| ["e", "ea", "eval", "eval-all"].iter().any(|name| word.is(name));
    let before = 1 + usize::from(found.operands.first().is_some_and(is_name));
    Ok(written(found.operands.iter().skip(before)))
}

fn edit(args: &[Word]) -> Result<Vec<Consequence>, Doubt> {
    let found = read(args, &SED)?;
    let pieces: Vec<&Word> = found.values(&["e", "expression"]).collect();
    let (script, files) = if pieces.is_empty() {
        let Some((script, files)) = found.operands.split_first() else { return Ok(Vec::new()) };
        (known(script)?.to_owned(), files)
    } else {
        let pieces = pieces.into_iter().map(known).collect::<Result<Vec<&str>, Doubt>>()?;
        (pieces.join("\n"), found.operands.as_slice())
    };
    let mut all = sed::read_script(&script)?;
    if found.has(&["i", "in-place"]) {
        all.extend(files.iter().cloned().map(Consequence::Writes));
        all.extend(backups(&found, files)?);
    }
    Ok(all)
}

/// The copies that `sed -i.bak` leaves.
fn backups(found: &Arguments, files: &[Word]) -> Result<Vec<Consequence>, Doubt> {
    let Some(suffix) = found.values(&["i", "in-place"]).last() else { return Ok(Vec::new()) };
    let suffix = known(suffix)?;
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '~' | '_' | '-');
    if !suffix.chars().all(is_plain) {
        return Err(format!("the suffix {suffix}"));
    }
    let copy = |file: &Word| match file.shape {
        Shape::Literal => Word::literal(format!("{}{suffix}", file.text)),
        Shape::One | Shape::Many | Shape::Glob | Shape::Process => file.clone(),
    };
    Ok(files.iter().map(copy).map(Consequence::Writes).collect())
}

fn scan(args: &[Word]) -> Result<Vec<Consequence>, Doubt> {
    let found = read(args, &AWK)?;
    let Some(program) = found.operands.first() else { return Ok(Vec::new()) };
    awk::read_program(known(program)?)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{assert_doubts, assert_harmless, judged};

    #[test]
    fn everyday_lines_have_no_doubt() {
        assert_harmless(&[
            "sed -n '10,40p' src/lib.rs",
            "sed -n -e 1p -e '$p' f",
            "sed -E 's/(a|b)+/x/g' f",
            "sed 's/e/E/g; s/w/W/' victim",
            "sed --expression='s/a/b/' f",
            "sed -n '/start/,/end/p' ./*.log",
            "sed 's/a/b/' -- $x",
            "sed -e 'a\\' -e 1e f",
            "sed --version",
            "awk '{print $1}' access.log",
            "awk -F: '{print $1}' /etc/passwd",
            "awk -F , -v n=$x '$1 > n {print \"a|b\"}' victim",
            "awk '{print}' $x *.log @m",
            "awk 'NR==1' -f",
            "gawk --version",
            "rg -n 'fn main' src",
            "rg -l --hidden -g '!target' -e $x",
            "rg --type rust -C 3 foo",
            "rg -c TODO -- $x",
            "ag -l foo src",
            "yq .a.b f.yaml",
            "yq -r .a f.yaml",
        ]);
    }

    #[test]
    fn written_files_are_reported() {
        for (line, expected) in [
            ("sed -i s/a/b/ f g", "writes f, writes g"),
            ("sed -i.bak s/a/b/ f", "writes f, writes f.bak"),
            ("sed -i -e s/a/b/ src/*.rs", "writes src/*.rs"),
            ("sed --in-place=.orig s/a/b/ f", "writes f, writes f.orig"),
            ("sed -n 'w .git/config' f", "writes .git/config"),
            ("sed -ni p f", "writes f"),
            ("sed -n -e p -e '1e pwn' victim", "Posix script pwn"),
            ("awk '{print | \"sort -n\"}' f", "Posix script sort -n"),
            ("awk '{print > \"out\"}' f", "writes out"),
            ("yq -i '.a = 1' f.yaml", "writes f.yaml"),
        ] {
            assert_eq!(judged(line), Ok(expected.to_owned()), "{line}");
        }
    }

    #[test]
    fn options_and_scripts_that_start_programs_are_in_doubt() {
        assert_doubts(&[
            ("sed -n -e p -e 1e victim", "the sed command e"),
            ("sed f '1e' -e p -e 1e", "the sed command e"),
            ("sed -f x.sed f", "the option -f"),
            ("sed --file=x.sed f", "the option --file"),
            ("sed --expr=1e f", "the option --expr"),
            ("sed s/a/$x/ f", "the word s/a/…"),
            ("sed s/a/b/ $x", "the word …"),
            ("sed s/a/b/ *.txt", "the word *.txt"),
            ("sed -e $x f", "the word …"),
            ("sed -i/../.git/config s/a/b/ f", "the suffix /../.git/config"),
            ("sed -e 'a\\' -e x -e 1e f", "the sed command e"),
            ("awk 'BEGIN{system(\"pwn\")}'", "the awk function system"),
            ("awk -f x.awk f", "the option -f"),
            ("gawk -i x '{print}'", "the option -i"),
            ("gawk -l x '{print}'", "the option -l"),
            ("gawk -e 'BEGIN{system(1)}'", "the option -e"),
            ("mawk -W exec x", "the option -W"),
            ("gawk -p.git/config '{print}'", "the option -p"),
            ("awk $x f", "the word …"),
            ("awk -F $x -- $y", "the word …"),
            ("rg --pre sh x", "the option --pre"),
            ("rg --pre=sh x", "the option --pre"),
            ("rg -z x", "the option -z"),
            ("rg x --engine --pre=sh", "the word --pre=sh"),
            ("rg --hostname-bin=./x y", "the option --hostname-bin"),
            ("rg $x", "the word …"),
            ("ag --pager sh x", "the option --pager"),
            ("ack --pager=sh x", "the arguments of ack"),
            ("rename 's/a/b/e' f", "the arguments of rename"),
            ("m4 x", "the arguments of m4"),
        ]);
    }
}
