//! Programs that write files: copying, moving, linking, splitting, sorting.
//!
//! None of the options here starts a program. Those that do (`sort --compress-program`,
//! `split --filter`, `install --strip-program`, `diff --paginate`, `patch --get`) are left out, and
//! so are suffixes of backups, which could turn a harmless name into that of a settings file.
//! Versions: GNU coreutils 9.1, diffutils 3.8, patch 2.7.6, xxd 2022-01-14, moreutils 0.67.

use super::entry::{ArgumentEffect, Judged, ProgramEntry, join, written};
use crate::command::{Shape, Word, base_name};
use crate::options::{Arguments, has_word, stays_one_word};

const DD_KEYS: &str = "if of bs ibs obs cbs count skip seek conv iflag oflag status";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Copying {
    Copy,
    Install,
    Move,
    Link,
}

pub(super) fn copy(found: &Arguments) -> Judged {
    copied(found, Copying::Copy)
}

pub(super) fn install(found: &Arguments) -> Judged {
    copied(found, Copying::Install)
}

pub(super) fn move_files(found: &Arguments) -> Judged {
    copied(found, Copying::Move)
}

pub(super) fn link(found: &Arguments) -> Judged {
    copied(found, Copying::Link)
}

/// The places that `cp`, `mv`, `ln` or `install` write.
fn copied(found: &Arguments, how: Copying) -> Judged {
    let makes_directories = how == Copying::Install && found.has(&["-d", "--directory"]);
    if makes_directories {
        return Ok(Vec::new());
    }
    let links = how == Copying::Link || found.has(&["-l", "--link", "-s", "--symbolic-link"]);
    let is_deep = how == Copying::Move
        || found.has(&["-r", "-R", "-a", "--recursive", "--archive", "--parents", "-D"]);
    let given = found.values(&["-t", "--target-directory"]).last().cloned();
    let mut sources = found.operands.as_slice();
    let (target, is_directory) = match given {
        Some(target) => (target, true),
        // A word that becomes several words, or none, may leave any operand in the last place.
        None if sources.last().is_some_and(|last| !stays_one_word(last)) => {
            return Ok(sources.iter().cloned().map(ArgumentEffect::WritesBeneath).collect());
        }
        None if sources.len() < 2 => (Word::literal("."), true),
        None => {
            let Some((last, others)) = sources.split_last() else { return Ok(Vec::new()) };
            sources = others;
            let is_many = others.len() > 1 || others.iter().any(|word| !stays_one_word(word));
            let is_exact = found.has(&["-T", "--no-target-directory"]);
            (last.clone(), !is_exact && (is_many || is_certain_directory(last)))
        }
    };
    let target = CopyTarget { word: target, is_directory, is_deep };
    let mut all: Vec<ArgumentEffect> = sources.iter().flat_map(|it| target.written(it)).collect();
    if links {
        all.extend(sources.iter().map(|source| target.linked(source)));
    }
    if how == Copying::Move {
        all.extend(
            sources.iter().filter(|it| may_be_hidden(it)).cloned().map(ArgumentEffect::Writes),
        );
    }
    Ok(all)
}

fn is_certain_directory(word: &Word) -> bool {
    let is = |text: &str| text.ends_with('/') || matches!(base_name(text), "." | "..");
    word.value().is_some_and(is)
}

/// `true` unless the word is a pattern that matches no hidden file: a repository or a settings
/// file that is moved away can be changed under its new name.
fn may_be_hidden(word: &Word) -> bool {
    word.shape != Shape::Glob || word.source.starts_with('.') || word.source.contains("/.")
}

/// The last operand of a command that copies.
struct CopyTarget {
    word: Word,
    /// Certainly a directory.
    is_directory: bool,
    /// Whole directories are copied.
    is_deep: bool,
}

impl CopyTarget {
    fn written(&self, source: &Word) -> Vec<ArgumentEffect> {
        let write =
            if self.is_deep { ArgumentEffect::WritesBeneath } else { ArgumentEffect::Writes };
        let inner = match (self.word.value(), source.value().map(base_name)) {
            (Some(directory), Some(name)) if !matches!(name, "" | "." | "..") => {
                join(directory, name)
            }
            _ => return vec![ArgumentEffect::WritesBeneath(self.word.clone())],
        };
        match (self.is_directory, self.is_deep) {
            (true, _) => vec![write(inner)],
            (false, true) => vec![write(self.word.clone())],
            (false, false) => vec![write(self.word.clone()), write(inner)],
        }
    }

    /// The file that a link gives another name, through which it may be written later.
    fn linked(&self, source: &Word) -> ArgumentEffect {
        let path = match (self.word.value(), source.value()) {
            (Some(target), Some(file)) if !file.starts_with('/') => {
                let directory = match (self.is_directory, target.rsplit_once('/')) {
                    (true, _) => target,
                    (false, Some((directory, _))) => directory,
                    (false, None) => "",
                };
                let directory = if directory == "." { "" } else { directory };
                join(directory, file)
            }
            _ => source.clone(),
        };
        ArgumentEffect::WritesBeneath(path)
    }
}

pub(super) fn copy_blocks(_: &ProgramEntry, _: &str, args: &[Word]) -> Judged {
    let mut targets = Vec::new();
    for word in args {
        let setting = word.text.split_once('=').filter(|(key, _)| has_word(DD_KEYS, key));
        let Some((key, value)) = setting.filter(|_| stays_one_word(word)) else {
            return Err(format!("the operand {word}"));
        };
        if key == "of" {
            let target = match word.shape {
                Shape::Literal => Word::literal(value),
                shape @ (Shape::One | Shape::Many | Shape::Glob | Shape::Process) => {
                    Word::unknown(value, shape)
                }
            };
            targets.push(target);
        }
    }
    Ok(written(targets.iter()))
}

pub(super) fn split(found: &Arguments) -> Judged {
    let ending = found.values(&["--additional-suffix"]).last();
    let prefix = found.operands.get(1);
    let is_certain = found.operands.iter().chain(ending).all(|word| word.value().is_some());
    let ending = ending.and_then(Word::value).unwrap_or_default();
    let prefix = prefix.map_or("x", |word| word.text.as_str());
    Ok(vec![if is_certain { piece(prefix, "aa", ending) } else { unknown_piece("") }])
}

pub(super) fn split_by_context(found: &Arguments) -> Judged {
    let given = found.values(&["-f", "--prefix"]).last();
    let prefix = given.map_or("xx", |word| word.text.as_str());
    let is_certain = given.is_none_or(|word| word.value().is_some())
        && !found.has(&["-b", "--suffix-format"])
        && found.operands.iter().all(stays_one_word);
    Ok(vec![if is_certain { piece(prefix, "00", "") } else { unknown_piece(prefix) }])
}

/// One of the files that a file is split into, for all of them. After `_` or `-` no letters make
/// the name of a file that another program runs or reads as its settings.
fn piece(prefix: &str, number: &str, ending: &str) -> ArgumentEffect {
    let name = base_name(prefix);
    let is_default = matches!(prefix, "x" | "xx");
    if is_default || (prefix.ends_with(['_', '-']) && !name.starts_with('.')) {
        return ArgumentEffect::Writes(Word::literal(format!("{prefix}{number}{ending}")));
    }
    unknown_piece(prefix)
}

fn unknown_piece(prefix: &str) -> ArgumentEffect {
    ArgumentEffect::Writes(Word::unknown(prefix, Shape::One))
}

pub(super) fn patch(found: &Arguments) -> Judged {
    if found.has(&["--dry-run", "--help", "--version", "-v"]) {
        return Ok(Vec::new());
    }
    // Without a file to patch, the names come from the patch, and may be those of settings.
    let is_named = !found.operands.is_empty() || found.has(&["-o", "--output"]);
    if !is_named || found.has(&["-d", "--directory"]) {
        return Err("the names of files in a patch".to_owned());
    }
    let mut all = written(found.values(&["-o", "--output", "-r", "--reject-file"]));
    all.extend(written(found.operands.iter().take(1)));
    Ok(all)
}

pub(super) fn query(found: &Arguments) -> Judged {
    if !found.has(&["-i", "--inplace"]) {
        return Ok(Vec::new());
    }
    // The first operand is the expression, after the name of a subcommand if there is one.
    let is_name = |word: &Word| ["e", "ea", "eval", "eval-all"].iter().any(|name| word.is(name));
    let before = 1 + usize::from(found.operands.first().is_some_and(is_name));
    Ok(written(found.operands.iter().skip(before)))
}

#[cfg(test)]
mod tests {
    use crate::strict::tools::tests::{assert_doubts, assert_harmless, judged};

    #[test]
    fn options_that_start_programs_are_in_doubt() {
        assert_doubts(&[
            ("sort --compress-program=sh f", "the option --compress-program"),
            ("sort --random-source -- --compress-program=sh f", "the option --compress-program"),
            ("sort --compress-prog sh f", "the option --compress-prog"),
            ("sort $x", "the word …"),
            ("split --filter=sh f", "the option --filter"),
            ("install --mode -- --strip-program=./e f d", "the option --strip-program"),
            ("install -s f d", "the option -s"),
            ("diff -l a b", "the option -l"),
            ("diff --paginate a b", "the option --paginate"),
            ("patch -p1", "the names of files in a patch"),
            ("patch -p1 -i fix.patch", "the names of files in a patch"),
            ("patch -d sub -p1 f", "the names of files in a patch"),
            ("patch -g 1 f", "the option -g"),
            ("patch -e f", "the option -e"),
            ("cp -S g a .gitconfi", "the option -S"),
            ("cp --suffix=g a .gitconfi", "the option --suffix"),
            ("mv --suf=g a b", "the option --suf"),
            ("cp $x b", "the word …"),
            ("dd $x", "the operand …"),
            ("dd exec=sh", "the operand exec=sh"),
            ("tree -R", "the option -R"),
        ]);
    }

    #[test]
    fn everyday_lines_have_no_doubt() {
        assert_harmless(&[
            "sort -rn",
            "sort -t, -k2,2n f",
            "sort -k 2 -u f",
            "sort --field-separator=: --key=3 -n /etc/passwd",
            "sort -h",
            "uniq -c",
            "uniq -d f",
            "diff -u a.txt b.txt",
            "diff -rq a b",
            "diff --color=always -r a b",
            "diff -U5 a b",
            "diff -y -W 120 a b",
            "tree -L 2 -I target",
            "tree -a --prune",
            "shuf -n 5 f",
            "xxd -l 64 f",
            "install -d out/bin",
            "iconv -f latin1 -t utf-8 f",
            "patch --dry-run -p1 -i fix.patch",
            "tee",
        ]);
    }

    #[test]
    fn written_files_are_reported() {
        for (line, expected) in [
            ("cp a b", "writes b, writes b/a"),
            ("cp a.txt out/", "writes out/a.txt"),
            ("cp a b out", "writes out/a, writes out/b"),
            ("cp -r assets out/", "writes beneath out/assets"),
            ("cp -r assets out", "writes beneath out"),
            ("cp -r evil/. .", "writes beneath ."),
            ("cp src/* out", "writes beneath out"),
            ("cp -t .git/hooks e", "writes .git/hooks/e"),
            ("cp --target-directory=.git x/config", "writes .git/config"),
            ("cp -- $x out/", "writes beneath out/"),
            ("cp -T a .git", "writes .git, writes .git/a"),
            ("cp -- a @m", "writes beneath a, writes beneath …"),
            ("cp -l .git/config c", "writes c, writes c/config, writes beneath .git/config"),
            ("mv a b", "writes beneath b, writes a"),
            ("mv .git g", "writes beneath g, writes .git"),
            ("mv src/*.txt out/", "writes beneath out/"),
            ("mv .g* g", "writes beneath g, writes .g*"),
            (
                "ln -s ../.git/config sub/x",
                "writes sub/x, writes sub/x/config, writes beneath sub/../.git/config",
            ),
            ("ln -s ../.git", "writes ./.git, writes beneath ../.git"),
            ("install -m 755 run.sh /usr/local/bin/", "writes /usr/local/bin/run.sh"),
            ("install -D a b/c", "writes beneath b/c"),
            ("tee -a log.txt", "writes log.txt"),
            ("tee $x", "writes …"),
            ("touch a b", "writes a, writes b"),
            ("truncate -s 0 app.log", "writes app.log"),
            ("dd if=/dev/zero of=out.bin bs=1M count=1", "writes out.bin"),
            ("dd of=a$x", "writes a…"),
            ("sort -o out f", "writes out"),
            ("sort -uo out f", "writes out"),
            ("sort --output=.git/config f", "writes .git/config"),
            ("uniq a b", "writes b"),
            ("uniq *.a b", "writes *.a, writes b"),
            ("split -b 1M big part_", "writes part_aa"),
            ("split --additional-suffix=.csv big p-", "writes p-aa.csv"),
            ("split -a 3 big con", "writes con…"),
            ("split -- big $x", "writes …"),
            ("split -l 100 big", "writes xaa"),
            ("csplit -f p f /x/", "writes p…"),
            ("csplit f /x/", "writes xx00"),
            ("patch f fix.diff", "writes f"),
            ("shred -u secret", "writes secret"),
            ("sponge f", "writes f"),
            ("xxd -r a b", "writes b"),
        ] {
            assert_eq!(judged(line), Ok(expected.to_owned()), "{line}");
        }
    }
}
