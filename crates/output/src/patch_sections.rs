//! Sections that are about a file: patches (`git log -p`, `git show`, `git format-patch`, and diffs
//! without commits), and lists of places with the file as a heading (eslint, `rg --heading`, `git grep
//! --heading`).

use crate::sections::{HeadLine, SectionLine, shorten};

/// The length to which a full hash is cut.
const SHORT_HASH: usize = 7;

/// The first words of the lines between the name of a file and its first hunk.
const FILE_HEADER_LINES: [&str; 16] = [
    "index ",
    "--- ",
    "old mode ",
    "new mode ",
    "new file ",
    "deleted file ",
    "similarity index ",
    "dissimilarity index ",
    "rename ",
    "copy ",
    "Binary files ",
    "GIT binary patch",
    "=====",
    "literal ",
    "delta ",
    "Submodule ",
];

/// A patch: any number of commits and files.
#[derive(Debug)]
pub(crate) struct Patch {
    commit: Option<Commit>,
    /// The file that the lines are about.
    file: Option<HeadLine>,
    part: PatchPart,
}

#[derive(Debug)]
struct Commit {
    offset: u64,
    hash: String,
    subject: Option<HeadLine>,
    style: CommitStyle,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CommitStyle {
    /// `git log`: the message is indented.
    Log,
    /// `git format-patch`: the message is that of a mail.
    Mail,
}

/// The part of a patch that the next line is expected in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PatchPart {
    /// The lines from the hash to the first empty line.
    CommitHeader,
    /// The message of a commit, and the list of its files.
    CommitMessage,
    FileHeader,
    /// A hunk with so many lines of the old and of the new file to come.
    Hunk {
        old: u64,
        new: u64,
    },
    /// A hunk of a merge, with several old files.
    MergeHunk,
}

impl Patch {
    pub(crate) fn begin(line: &SectionLine<'_>) -> Option<Self> {
        let text = &*line.text;
        if let Some(commit) = Commit::begin(line) {
            let part = PatchPart::CommitHeader;
            return Some(Self { commit: Some(commit), file: None, part });
        }
        let mut patch = Self { commit: None, file: None, part: PatchPart::FileHeader };
        if let Some(part) = parse_hunk(text) {
            patch.part = part;
            return Some(patch);
        }
        patch.begin_file(line).then_some(patch)
    }

    /// Adds the next line. Returns `true` if it belongs to the section.
    pub(crate) fn add_line(&mut self, line: &SectionLine<'_>) -> bool {
        if let Some(part) = self.part.after_line(&line.text) {
            self.part = part;
            return true;
        }
        if let Some(part) = parse_hunk(&line.text) {
            self.part = part;
            return true;
        }
        if let Some(commit) = Commit::begin(line) {
            let part = PatchPart::CommitHeader;
            *self = Self { commit: Some(commit), file: None, part };
            return true;
        }
        if self.begin_file(line) {
            return true;
        }
        match self.part {
            PatchPart::CommitHeader => self.add_header_line(line),
            PatchPart::CommitMessage => self.add_message_line(line),
            PatchPart::FileHeader => {
                line.is_blank()
                    || FILE_HEADER_LINES.iter().any(|start| line.text.starts_with(start))
            }
            PatchPart::Hunk { .. } | PatchPart::MergeHunk => {
                line.is_blank() || line.text.starts_with('\\') || line.text == "-- "
            }
        }
    }

    fn add_header_line(&mut self, line: &SectionLine<'_>) -> bool {
        if line.is_blank() {
            self.part = PatchPart::CommitMessage;
            return true;
        }
        if let (Some(commit), Some(subject)) =
            (&mut self.commit, line.text.strip_prefix("Subject: "))
        {
            let subject = subject.split_once("] ").map_or(subject, |(_, subject)| subject);
            commit.subject = Some(HeadLine::new(line.offset, subject));
        }
        line.text.starts_with(' ') || is_header_field(&line.text)
    }

    fn add_message_line(&mut self, line: &SectionLine<'_>) -> bool {
        let Some(commit) = &mut self.commit else { return false };
        let is_message = line.text.starts_with("    ");
        if is_message && commit.subject.is_none() {
            commit.subject = Some(HeadLine::new(line.offset, &line.text));
        }
        let is_in_list = line.text.starts_with([' ', ':'])
            || line.text.contains('\t')
            || !line.text.contains(' ')
            || line.text.starts_with("Notes");
        is_message || line.is_blank() || is_in_list || commit.style == CommitStyle::Mail
    }

    /// Begins a file if the line names one; returns `true` if so.
    fn begin_file(&mut self, line: &SectionLine<'_>) -> bool {
        let text = &*line.text;
        if let Some(path) = text.strip_prefix("+++ ") {
            return self.name_file(line, path);
        }
        let path = match text.strip_prefix("diff ") {
            Some(rest) if rest.starts_with('-') => path_of_diff(rest),
            Some(_) => return false,
            None => match text.strip_prefix("Index: ") {
                Some(path) => path,
                None => return false,
            },
        };
        let one_line = line.previous().and_then(|previous| Commit::from_one_line(&previous));
        if one_line.is_some() {
            self.commit = one_line;
        }
        self.file = Some(HeadLine::new(line.offset, path));
        self.part = PatchPart::FileHeader;
        true
    }

    /// Takes the path of a `+++` line, if a `---` line is before it.
    fn name_file(&mut self, line: &SectionLine<'_>, path: &str) -> bool {
        let Some(previous) = line.previous().filter(|line| line.text.starts_with("--- ")) else {
            return false;
        };
        let old = previous.text.strip_prefix("--- ").unwrap_or_default();
        let path = if path.starts_with("/dev/null") { old } else { path };
        let path = path.split('\t').next().unwrap_or(path);
        let path = ["a/", "b/"].iter().find_map(|side| path.strip_prefix(side)).unwrap_or(path);
        let offset = match (&self.file, self.part) {
            (Some(file), PatchPart::FileHeader) => file.offset,
            (Some(_) | None, _) => previous.offset,
        };
        self.file = Some(HeadLine::new(offset, path));
        self.part = PatchPart::FileHeader;
        true
    }

    /// The commit and the file that the line at `offset` belongs to; `None` if neither is known.
    pub(crate) fn head(&self, offset: u64) -> Option<HeadLine> {
        let Some(commit) = &self.commit else { return self.file.clone() };
        let subject = commit.subject.as_ref().filter(|subject| subject.offset != offset);
        let mut text = format!("commit {}", commit.hash);
        if let Some(subject) = subject {
            text.push(' ');
            text.push_str(&subject.text);
        }
        let file = self.file.as_ref().map(|file| format!(" ({})", file.text));
        // The file stays whole if the subject is long.
        let text = shorten(&text) + &file.unwrap_or_default();
        Some(HeadLine { offset: commit.offset, text })
    }
}

impl Commit {
    /// Reads `commit <hash>` of `git log`, and `From <hash> <date>` of `git format-patch`.
    fn begin(line: &SectionLine<'_>) -> Option<Self> {
        let (style, rest) = match line.text.strip_prefix("commit ") {
            Some(rest) => (CommitStyle::Log, rest),
            None => (CommitStyle::Mail, line.text.strip_prefix("From ")?),
        };
        let (hash, rest) = rest.split_once(' ').unwrap_or((rest, ""));
        let is_whole = match style {
            CommitStyle::Log => rest.is_empty() || rest.starts_with('('),
            CommitStyle::Mail => rest.ends_with(" 2001"),
        };
        (is_whole && is_hash(hash)).then(|| Self {
            offset: line.offset,
            hash: short_hash(hash),
            subject: None,
            style,
        })
    }

    /// Reads `<hash> <subject>` of `git log --oneline`.
    fn from_one_line(line: &SectionLine<'_>) -> Option<Self> {
        let (hash, subject) = line.text.split_once(' ')?;
        is_hash(hash).then(|| Self {
            offset: line.offset,
            hash: short_hash(hash),
            subject: Some(HeadLine::new(line.offset, subject)),
            style: CommitStyle::Log,
        })
    }
}

impl PatchPart {
    /// The part after a line of a hunk; `None` if the line is outside of hunks.
    fn after_line(self, text: &str) -> Option<Self> {
        let first = text.bytes().next();
        match self {
            Self::Hunk { old, new } if old > 0 || new > 0 => {
                let (of_old, of_new) = match first {
                    Some(b' ') | None => (1, 1),
                    Some(b'-') => (1, 0),
                    Some(b'+') => (0, 1),
                    Some(b'\\') => (0, 0),
                    Some(_) => return None,
                };
                let (old, new) = (old.saturating_sub(of_old), new.saturating_sub(of_new));
                Some(Self::Hunk { old, new })
            }
            Self::MergeHunk => matches!(first, Some(b' ' | b'-' | b'+' | b'\\')).then_some(self),
            Self::Hunk { .. } | Self::CommitHeader | Self::CommitMessage | Self::FileHeader => None,
        }
    }
}

/// Reads `@@ -12,7 +12,9 @@`, and `@@@ … @@@` of a merge.
fn parse_hunk(text: &str) -> Option<PatchPart> {
    if text.starts_with("@@@ ") {
        return Some(PatchPart::MergeHunk);
    }
    let rest = text.strip_prefix("@@ -")?;
    let (old, rest) = rest.split_once(" +")?;
    let (new, _) = rest.split_once(" @@")?;
    Some(PatchPart::Hunk { old: hunk_lines(old)?, new: hunk_lines(new)? })
}

/// Reads the number of lines of `12,7`, or of `12`, which is one line.
fn hunk_lines(range: &str) -> Option<u64> {
    match range.split_once(',') {
        Some((_, lines)) => lines.parse().ok(),
        None => range.parse::<u64>().ok().map(|_| 1),
    }
}

/// The path in `--git a/path b/path`, `--cc path` and `-u old new`.
fn path_of_diff(arguments: &str) -> &str {
    if let Some(path) = arguments.strip_prefix("--cc ") {
        return path;
    }
    match arguments.rsplit_once(" b/") {
        Some((_, path)) => path,
        None => arguments.rsplit_once(' ').map_or(arguments, |(_, path)| path),
    }
}

/// `true` for `Author: …` and the like.
fn is_header_field(text: &str) -> bool {
    let name = text.split_once(':').map(|(name, _)| name);
    name.is_some_and(|name| name.bytes().all(|byte| byte.is_ascii_alphabetic() || byte == b'-'))
}

fn is_hash(word: &str) -> bool {
    (SHORT_HASH..=64).contains(&word.len())
        && word.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

fn short_hash(hash: &str) -> String {
    let is_full = hash.len() >= 40;
    if is_full { hash[..SHORT_HASH].to_owned() } else { hash.to_owned() }
}

/// The lines below the name of a file.
#[derive(Debug)]
pub(crate) struct FileList {
    head: HeadLine,
    form: ListForm,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ListForm {
    /// `  12:5  error  …`
    Indented,
    /// `12:…`
    Numbered,
}

impl FileList {
    pub(crate) fn begin(line: &SectionLine<'_>) -> Option<Self> {
        let form = ListForm::from_line(line)?;
        let heading = line.previous().filter(|heading| is_path(&heading.text))?;
        // The heading of a list has an empty line before it, if it has any.
        let is_apart = heading.previous().is_none_or(|before| before.is_blank());
        (form == ListForm::Indented || is_apart).then(|| Self { head: heading.to_head(), form })
    }

    /// Adds the next line. Returns `true` if it belongs to the section.
    pub(crate) fn add_line(&self, line: &SectionLine<'_>) -> bool {
        match self.form {
            ListForm::Indented => line.indent() > 0 && !line.is_blank(),
            ListForm::Numbered => ListForm::from_line(line) == Some(self.form) || line.text == "--",
        }
    }

    pub(crate) fn head(&self) -> HeadLine {
        self.head.clone()
    }
}

impl ListForm {
    fn from_line(line: &SectionLine<'_>) -> Option<Self> {
        let text = line.text.trim_start();
        let rest = text.trim_start_matches(|c: char| c.is_ascii_digit());
        if rest.len() == text.len() {
            return None;
        }
        if line.indent() == 0 {
            return rest.starts_with([':', '-']).then_some(Self::Numbered);
        }
        let column = rest.strip_prefix(':')?;
        let after = column.trim_start_matches(|c: char| c.is_ascii_digit());
        (after.len() < column.len() && after.starts_with("  ")).then_some(Self::Indented)
    }
}

/// `true` for a line that is only a path.
fn is_path(text: &str) -> bool {
    let is_absolute = text.starts_with('/');
    let is_word = !text.contains([' ', ':']) && !text.starts_with(|c: char| c.is_ascii_digit());
    is_absolute || is_word && text.contains(['/', '.']) && !text.ends_with('.')
}
