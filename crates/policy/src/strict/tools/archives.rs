//! Programs that pack and unpack files.
//!
//! Versions: GNU tar 1.34, Info-ZIP zip 3.0 and unzip 6.00, GNU cpio 2.13, gzip 1.12, bzip2 1.0.8,
//! xz 5.4.1, zstd 1.5.4, 7-Zip 25.01, GNU binutils 2.40.

use super::entry::{
    ArgumentEffect, Judged, ProgramEntry, download_into, is_standard_input, written,
};
use crate::command::{Shape, Word};
use crate::options::{Arguments, Doubt, check_operand, require_known, stays_one_word};

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
    use crate::strict::tools::tests::{assert_doubts, assert_harmless, judged};

    #[test]
    fn written_files_are_reported() {
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
    fn everyday_lines_have_no_doubt() {
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
    fn options_that_start_programs_are_in_doubt() {
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
