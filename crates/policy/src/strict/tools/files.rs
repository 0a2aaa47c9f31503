//! Programs that write files: copying, moving, linking, splitting, sorting, packing and unpacking.
//!
//! None of the options here starts a program. Those that do (`sort --compress-program`,
//! `split --filter`, `install --strip-program`, `diff --paginate`, `patch --get`) are left out, and
//! so are suffixes of backups, which could turn a harmless name into that of a settings file.
//! Versions: GNU coreutils 9.1, diffutils 3.8, patch 2.7.6, xxd 2022-01-14, moreutils 0.67, GNU tar 1.34,
//! Info-ZIP zip 3.0 and unzip 6.00, GNU cpio 2.13, gzip 1.12, bzip2 1.0.8, xz 5.4.1, zstd 1.5.4,
//! 7-Zip 25.01, GNU binutils 2.40.

use super::entry::{
    ArgumentEffect, Judged, ProgramEntry, download_into, is_standard_input, join, written,
};
use crate::command::{Shape, Word, base_name};
use crate::options::{Arguments, Doubt, check_operand, has_word, require_known, stays_one_word};

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

// Archives.

/// The commands of 7z that change or read archives, with what they write. `rn` is left out: it
/// gives packed data another name, such as that of a makefile.
const SEVEN_ZIP: [(&str, Packing); 8] = [
    ("a", Packing::Creates),
    ("u", Packing::Creates),
    ("d", Packing::Creates),
    ("x", Packing::Extracts),
    ("e", Packing::Extracts),
    ("l", Packing::Reads),
    ("t", Packing::Reads),
    ("h", Packing::Reads),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Packing {
    Creates,
    Extracts,
    Reads,
}

pub(super) fn tar(entry: &ProgramEntry, _: &str, args: &[Word]) -> Judged {
    let found = entry.read(&with_dashes(entry, args)?)?;
    check_lists(&found)?;
    let archives: Vec<&Word> = found.values(&["-f", "--file"]).collect();
    if !found.has(&["--force-local"])
        && let Some(word) = archives.iter().find(|it| may_be_remote(it))
    {
        return Err(format!("the archive {word}, which may be on another host"));
    }
    let extracts = found.has(&["-x", "--extract", "--get"]);
    let creates = [
        "-c",
        "-r",
        "-u",
        "-A",
        "--create",
        "--append",
        "--update",
        "--delete",
        "--catenate",
        "--concatenate",
    ];
    if found.has(&creates) {
        return Ok(written(archives));
    }
    if !extracts || found.has(&["-O", "--to-stdout"]) {
        return Ok(Vec::new());
    }
    let directories: Vec<&Word> = found.values(&["-C", "--directory"]).collect();
    // Without an archive, tar reads its standard input.
    let is_from_input = archives.is_empty() || archives.into_iter().any(is_standard_input);
    match directories.as_slice() {
        [] => Ok(unpack(Word::literal("."), is_from_input)),
        [directory] => Ok(unpack((*directory).clone(), is_from_input)),
        // Each is relative to the one before.
        _ => Err("more than one directory".to_owned()),
    }
}

/// Files of an archive appear in a directory. An archive that comes from the input may be made by
/// the same line, so that its files are new content like that of a download.
fn unpack(directory: Word, is_from_input: bool) -> Vec<ArgumentEffect> {
    if is_from_input {
        return download_into(directory).to_vec();
    }
    vec![ArgumentEffect::WritesBeneath(directory)]
}

/// Rewrites the old form of options, `tar cfb x.tar 20`, as `tar -c -f x.tar -b 20`.
fn with_dashes(entry: &ProgramEntry, args: &[Word]) -> Result<Vec<Word>, Doubt> {
    let Some((first, rest)) = args.split_first() else { return Ok(Vec::new()) };
    if first.text.starts_with('-') {
        return Ok(args.to_vec());
    }
    let mut words = Vec::new();
    let mut rest = rest.iter();
    for letter in require_known(first)?.chars() {
        let option = format!("-{letter}");
        let takes_word = entry.options().0.takes_next(&option) == Some(true);
        words.push(Word::literal(option));
        if takes_word {
            let value =
                rest.next().ok_or_else(|| format!("the option {letter} without a value"))?;
            words.push(value.clone());
        }
    }
    words.extend(rest.cloned());
    Ok(words)
}

/// Checks lists of names: lines that begin with a dash are options, unless an option before says
/// otherwise.
fn check_lists(found: &Arguments) -> Result<(), Doubt> {
    let position = |names: &[&str]| {
        found.options.iter().position(|given| names.contains(&given.name.as_str()))
    };
    match (position(&["-T", "--files-from"]), position(&["--null", "--verbatim-files-from"])) {
        (Some(list), Some(verbatim)) if verbatim < list => Ok(()),
        (None, _) => Ok(()),
        (Some(_), _) => Err("the option -T without --verbatim-files-from".to_owned()),
    }
}

/// `host:file` makes tar and cpio start a remote shell; a slash before the colon makes it a file.
fn may_be_remote(word: &Word) -> bool {
    match word.text.find([':', '/']) {
        Some(place) => word.text.get(place..).is_some_and(|rest| rest.starts_with(':')),
        None => word.shape != Shape::Literal,
    }
}

pub(super) fn zip(entry: &ProgramEntry, _: &str, args: &[Word]) -> Judged {
    // A list of names and `--` are read in ways that differ between options.
    if let Some(word) = args.iter().find(|word| word.is("--")) {
        return Err(format!("the word {word}"));
    }
    let found = entry.read(args)?;
    let Some(archive) = found.operands.first() else { return Ok(Vec::new()) };
    let mut all = written(std::iter::once(archive));
    if let Some(name) = archive.value().filter(|name| *name != "-") {
        all.push(ArgumentEffect::Writes(Word::literal(format!("{name}.zip"))));
    }
    Ok(all)
}

pub(super) fn unzip(found: &Arguments) -> Judged {
    if found.has(&["-p", "-l", "-t", "-z", "-v", "-c", "-h"]) || found.operands.is_empty() {
        return Ok(Vec::new());
    }
    let directory = found.values(&["-d"]).last().cloned();
    let is_from_input = found.operands.first().is_some_and(is_standard_input);
    Ok(unpack(directory.unwrap_or_else(|| Word::literal(".")), is_from_input))
}

pub(super) fn cpio(found: &Arguments) -> Judged {
    let files = ["-F", "-I", "-O", "--file"];
    if !found.has(&["--force-local"])
        && let Some(word) = found.values(&files).find(|word| may_be_remote(word))
    {
        return Err(format!("the archive {word}, which may be on another host"));
    }
    if found.has(&["-o", "--create"]) {
        return Ok(written(found.values(&["-F", "-O", "--file"])));
    }
    if found.has(&["-t", "--list", "--to-stdout"]) || !found.has(&["-i", "--extract"]) {
        return Ok(Vec::new());
    }
    if !found.has(&["--no-absolute-filenames"]) {
        return Err("the option -i without --no-absolute-filenames".to_owned());
    }
    let directory = found.values(&["-D", "--directory"]).last().cloned();
    let mut archives = found.values(&["-F", "-I", "--file"]).peekable();
    let is_from_input = archives.peek().is_none() || archives.any(is_standard_input);
    Ok(unpack(directory.unwrap_or_else(|| Word::literal(".")), is_from_input))
}

pub(super) fn compress(entry: &ProgramEntry, program: &str, args: &[Word]) -> Judged {
    let found = entry.read(args)?;
    let unpacks = found.has(&["-d", "--decompress", "--uncompress"]);
    recompress(program, &found, unpacks)
}

pub(super) fn uncompress(entry: &ProgramEntry, program: &str, args: &[Word]) -> Judged {
    recompress(program, &entry.read(args)?, true)
}

fn recompress(program: &str, found: &Arguments, unpacks: bool) -> Judged {
    let mut all = written(found.values(&["-o"]));
    let prints = found.has(&["-c", "--stdout", "--to-stdout", "-t", "--test", "-l", "--list"]);
    if prints {
        return Ok(all);
    }
    if matches!(program, "lz4" | "unlz4" | "pixz") {
        // The second operand is the output.
        all.extend(written(found.operands.iter()));
    }
    if !unpacks {
        return Ok(all);
    }
    // The name would come from the archive.
    if found.has(&["-N", "--name"]) {
        return Err("the option --name".to_owned());
    }
    let is_deep = found.has(&["-r", "--recursive"]);
    for file in found.operands.iter().filter(|word| !word.is("-")) {
        let unpacked = match (file.value(), file.value().and_then(|name| name.rsplit_once('.'))) {
            (Some(_), _) if is_deep => ArgumentEffect::WritesBeneath(file.clone()),
            (Some(_), Some((name, _))) => ArgumentEffect::Writes(Word::literal(name)),
            _ => ArgumentEffect::Writes(file.clone()),
        };
        all.push(unpacked);
        // A name without a usual ending means the file with one: `gunzip x.mk` unpacks x.mk.gz.
        all.push(ArgumentEffect::Writes(file.clone()));
    }
    Ok(all)
}

pub(super) fn seven_zip(_: &ProgramEntry, _: &str, args: &[Word]) -> Judged {
    let Some((command, rest)) = args.split_first() else { return Ok(Vec::new()) };
    let command = require_known(command)?;
    let packing = SEVEN_ZIP.iter().find(|(name, _)| *name == command);
    let Some((_, packing)) = packing else { return Err(format!("the subcommand {command}")) };
    let mut directory = Word::literal(".");
    let mut names = Vec::new();
    for word in rest {
        if check_operand(word)? {
            names.push(word);
            continue;
        }
        let switch = require_known(word)?;
        let is_known = ["-y", "-r", "-bd", "-so", "-si", "-slt", "-sdel", "-spe", "-ssc", "-aoa"]
            .contains(&switch)
            || ["-t", "-m", "-p", "-x!", "-xr!", "-i!", "-ir!", "-v", "-ao", "-bb", "-bs", "-o"]
                .iter()
                .any(|prefix| switch.starts_with(prefix) && switch.len() > prefix.len());
        if !is_known {
            return Err(format!("the option {switch}"));
        }
        if let Some(path) = switch.strip_prefix("-o") {
            directory = Word::literal(path);
        }
    }
    Ok(match packing {
        Packing::Reads => Vec::new(),
        Packing::Creates => written(names.into_iter().take(1)),
        Packing::Extracts if rest.iter().any(|word| word.is("-so")) => Vec::new(),
        Packing::Extracts => {
            let is_from_input = rest.iter().any(|word| word.is("-si"))
                || names.first().is_none_or(|archive| is_standard_input(archive));
            unpack(directory, is_from_input)
        }
    })
}

/// Object files: `--plugin` loads code, and `@file` is a file of options.
fn check_object_words(args: &[Word]) -> Result<(), Doubt> {
    for word in args {
        if word.text.starts_with('@') || word.text.is_empty() || word.text.contains("plugin") {
            return Err(format!("the word {word}"));
        }
        if !check_operand(word)? {
            require_known(word)?;
        }
    }
    Ok(())
}

/// ar(1): the first word names the operation.
pub(super) fn ar(_: &ProgramEntry, _: &str, args: &[Word]) -> Judged {
    check_object_words(args)?;
    let Some((operation, rest)) = args.split_first() else { return Ok(Vec::new()) };
    let letters = require_known(operation)?.trim_start_matches('-');
    if letters == "version" || letters == "help" {
        return Ok(Vec::new());
    }
    let odd = |letter: &char| !"dmpqrstxabcDfiNoOPSTuUvV".contains(*letter);
    if let Some(letter) = letters.chars().find(odd) {
        return Err(format!("the option {letter}"));
    }
    if let Some(word) = rest.iter().find(|word| word.text.starts_with('-')) {
        return Err(format!("the option {word}"));
    }
    // With `a`, `b`, `i` and `N` a member or a count comes before the archive.
    let skipped = usize::from(letters.contains(['a', 'b', 'i', 'N']));
    if let Some(word) = rest.iter().take(skipped + 1).find(|word| !stays_one_word(word)) {
        return Err(format!("the word {word}"));
    }
    if letters.contains('x') {
        return Ok(unpack(Word::literal("."), rest.get(skipped).is_none_or(is_standard_input)));
    }
    let changes = letters.contains(['d', 'm', 'q', 'r', 's']) && !letters.contains(['t', 'p']);
    Ok(written(rest.iter().skip(skipped).take(usize::from(changes))))
}

#[cfg(test)]
mod tests {
    use crate::strict::tests::{assert_doubts, assert_harmless, judged};

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

    #[test]
    fn archives_and_unpacked_files_are_reported() {
        for (line, expected) in [
            ("tar -xzf src.tgz -C build --strip-components=1", "writes beneath build"),
            ("tar xzf a.tgz", "writes beneath ."),
            ("tar czvf out.tgz src", "writes out.tgz"),
            ("tar cfC out.tar src .", "writes out.tar"),
            ("tar -cJf ./b-$x src/*.rs", "writes ./b-…"),
            ("tar --extract --file=a.tar --directory .git", "writes beneath .git"),
            ("tar -xOf a.tar f", ""),
            ("tar --null -T - -cf a.tar", "writes a.tar"),
            ("zip -r out.zip dir -x '*.git*'", "writes out.zip, writes out.zip.zip"),
            ("zip -qr9 out dir", "writes out, writes out.zip"),
            ("unzip -o a.zip -d out", "writes beneath out"),
            ("unzip -q a.zip", "writes beneath ."),
            ("tar xz", "writes beneath ., writes ."),
            ("tar -xzf - -C out", "writes beneath out, writes out"),
            ("tar -x --file=/dev/stdin", "writes beneath ., writes ."),
            ("unzip /dev/stdin -d out", "writes beneath out, writes out"),
            ("cpio -idm --no-absolute-filenames", "writes beneath ., writes ."),
            ("cpio -i --no-absolute-filenames -F a.cpio", "writes beneath ."),
            ("7z x -si -oout", "writes beneath out, writes out"),
            ("ar x /dev/stdin", "writes beneath ., writes ."),
            ("cpio -o -O out.cpio", "writes out.cpio"),
            ("gunzip .gitconfig.gz", "writes .gitconfig, writes .gitconfig.gz"),
            ("lz4 -q x run.sh", "writes x, writes run.sh"),
            ("lz4 -dc x.lz4", ""),
            ("gzip -N x", ""),
            ("gzip -d a.gz", "writes a, writes a.gz"),
            ("xz -dk a.tar.xz", "writes a.tar, writes a.tar.xz"),
            ("zstd -d a.zst -o b", "writes b, writes a, writes a.zst"),
            (
                "lz4 -d -f z.lz4 run.sh",
                "writes z.lz4, writes run.sh, writes z, writes z.lz4, writes run, writes run.sh",
            ),
            ("7z x a.7z -oout -y", "writes beneath out"),
            ("7z a -t7z -mx=9 out.7z src", "writes out.7z"),
            ("ar rcs lib.a a.o b.o", "writes lib.a"),
            ("ar x lib.a", "writes beneath ."),
        ] {
            assert_eq!(judged(line), Ok(expected.to_owned()), "{line}");
        }
    }

    #[test]
    fn everyday_use_of_archives_has_no_doubt() {
        assert_harmless(&[
            "tar tf a.tar",
            "tar -tzvf a.tgz",
            "tar --list --file a.tar",
            "tar --version",
            "unzip -l a.zip",
            "unzip -p a.zip f",
            "gzip -9 big.log",
            "gzip -k $x",
            "gunzip -c $x",
            "xz -T0 f",
            "zstd -19 --rm f",
            "7z l a.7z",
            "ar t lib.a",
            "cpio -it",
        ]);
    }

    #[test]
    fn options_of_archivers_that_start_programs_are_in_doubt() {
        assert_doubts(&[
            ("gunzip -N x.gz", "the option --name"),
            ("gzip -dN x.gz", "the option --name"),
            ("pigz -d --name x.gz", "the option --name"),
            (
                "tar -cf x.tar --label -- --use-compress-program='touch pwned;cat' .",
                "the option --use-compress-program",
            ),
            ("tar -I sh -xf a.tar", "the option -I"),
            ("tar cfI a.tar sh", "the option -I"),
            ("tar cf a.tar --checkpoint-action=exec=sh .", "the option --checkpoint-action"),
            ("tar cf a.tar --checkpoint=1 --check=exec .", "the option --check"),
            ("tar xf a.tar --to-command=sh", "the option --to-command"),
            ("tar xf a.tar --rsh-command=sh", "the option --rsh-command"),
            ("tar cf host:a.tar .", "the archive host:a.tar, which may be on another host"),
            ("tar cf a$x .", "the archive a…, which may be on another host"),
            ("tar xPf a.tar", "the option -P"),
            ("tar -F ./e -cMf a.tar .", "the option -F"),
            ("tar cf a.tar *", "the word *"),
            ("tar cf a.tar -T list", "the option -T without --verbatim-files-from"),
            ("tar cf a.tar -T list --null", "the option -T without --verbatim-files-from"),
            ("tar xf a.tar --transform=s/a/.git/", "the option --transform"),
            ("tar xf a.tar -C a -C b", "more than one directory"),
            ("tar $x", "the word …"),
            ("zip -qTT 'touch pwned;true' -T a.zip f", "the option -T"),
            ("zip x.zip victim -T -TT pwn", "the option -T"),
            ("zip x.zip --unzip-command sh", "the option --unzip-command"),
            ("zip x.zip -- -TT sh", "the word --"),
            ("zip -lf x y", "the option -l"),
            ("zip -tt -- -TT", "the word --"),
            ("zip x *", "the word *"),
            ("unzip -: a.zip", "the option -:"),
            ("cpio -i", "the option -i without --no-absolute-filenames"),
            ("cpio -o --rsh-command=sh -O h:f", "the option --rsh-command"),
            ("7z a -sfx out.exe f", "the option -sfx"),
            ("7z i x", "the subcommand i"),
            ("7z rn x.zip x.txt Makefile", "the subcommand rn"),
            ("ar --plugin ./e.so t lib.a", "the word --plugin"),
            ("ar t lib.a --plugin=./e.so", "the word --plugin=./e.so"),
            ("ar @opts", "the word @opts"),
            ("ar M", "the option M"),
            ("bsdtar xf a", "the arguments of bsdtar"),
        ]);
    }
}
