//! Matching against a policy: a command against a rule, and the variables that a text sets and the
//! files that it writes against those that are known to be harmless.

use crate::command::{Redirect, Shape, SimpleCommand, Word, base_name};
use crate::options::has_word;
use crate::rules::{ListKind, RuleMatch};
use crate::wrappers::git_operands;

/// The directories of the system's own programs.
const SYSTEM_DIRECTORIES: [&str; 6] =
    ["/bin", "/sbin", "/usr/bin", "/usr/sbin", "/usr/local/bin", "/usr/local/sbin"];

/// `true` if a rule's pattern matches a program as the text names it.
///
/// For a deny rule the last part of the path is enough: `rm` matches `/tmp/x/rm`. For an allow rule
/// the directory must be one of the system's, without `..`: `git` matches neither `/tmp/x/git` nor
/// `./git`.
pub(crate) fn program_matches(pattern: &str, program: &str, list: ListKind) -> bool {
    if pattern == "*" {
        return true;
    }
    // A wildcard of an allow rule must not match `..`, which leads out of its directory.
    let climbs = |path: &str| path.split('/').any(|part| part == "..");
    if list == ListKind::Allow && climbs(program) && !climbs(pattern) {
        return false;
    }
    if pattern.contains('/') {
        return matches_wildcard(pattern, program)
            || (list == ListKind::Deny && matches_wildcard(pattern, &normalize_path(program)));
    }
    match (list, program.rsplit_once('/')) {
        (_, None) => matches_wildcard(pattern, program),
        (ListKind::Deny, Some(_)) => matches_wildcard(pattern, base_name(program)),
        (ListKind::Allow, Some((directory, name))) => {
            SYSTEM_DIRECTORIES.contains(&directory) && matches_wildcard(pattern, name)
        }
    }
}

/// Removes empty parts, `.` and `..` from a path, by its text alone.
pub(crate) fn normalize_path(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." if parts.last().is_some_and(|last| *last != "..") => {
                parts.pop();
            }
            ".." if path.starts_with('/') => {}
            part => parts.push(part),
        }
    }
    let root = if path.starts_with('/') { "/" } else { "" };
    format!("{root}{}", parts.join("/"))
}

// Arguments: an allow rule matches exact leading words, a deny rule matches by meaning.

/// Matches if the command's arguments start with the rule's, word for word.
pub(crate) fn match_leading_args(rule: &[String], args: &[Word]) -> RuleMatch {
    for (index, wanted) in rule.iter().enumerate() {
        if wanted == "*" && index + 1 == rule.len() {
            return RuleMatch::Yes;
        }
        match args.get(index).map(Word::value) {
            Some(Some(text)) if matches_wildcard(wanted, text) => {}
            Some(Some(_)) | None => return RuleMatch::No,
            Some(None) => return RuleMatch::Maybe,
        }
    }
    RuleMatch::Yes
}

/// Matches if the command has the rule's operands and options, in any order.
///
/// The rule's operands must be the command's first ones. The command must have all options of the
/// rule, in any spelling: `-rf` is `-r -f`, `-fR`, `--recursive --force`.
pub(crate) fn match_args_by_meaning(rule: &[String], command: &SimpleCommand) -> RuleMatch {
    let words = match command.name() {
        Some("git") => git_operands(&command.args),
        Some(_) | None => &command.args,
    };
    let sorted = SortedArgs::new(words);
    let (options, operands): (Vec<&String>, Vec<&String>) =
        rule.iter().partition(|word| word.starts_with('-') && word.len() > 1);
    let options = options.iter().map(|option| sorted.match_option(option));
    let operands = sorted.match_operands(&operands);
    options.fold(operands, RuleMatch::and)
}

/// The arguments of a command, divided into options and operands.
#[derive(Debug, Default)]
struct SortedArgs<'w> {
    options: Vec<&'w str>,
    /// Each operand, and `true` if it follows an option, whose value it may be.
    operands: Vec<(&'w Word, bool)>,
    /// `true` if some word may turn out to be an option.
    may_have_more_options: bool,
}

impl<'w> SortedArgs<'w> {
    fn new(words: &'w [Word]) -> Self {
        let mut sorted = Self::default();
        let mut after_option = false;
        let mut closed = false;
        for word in words {
            let option = !closed && word.text.starts_with('-') && word.text.len() > 1;
            if word.is("--") {
                closed = true;
            } else if option {
                sorted.options.push(&word.text);
                sorted.may_have_more_options |= word.shape != Shape::Literal;
            } else {
                // A file could be called `-rf`, but nobody writes a pattern for that.
                sorted.may_have_more_options |=
                    !closed && word.shape != Shape::Glob && word.may_become_option();
                sorted.operands.push((word, after_option));
            }
            after_option = option && !word.text.contains('=');
        }
        sorted
    }

    fn match_option(&self, wanted: &str) -> RuleMatch {
        let exact = self.options.contains(&wanted);
        let found = exact
            || match wanted.strip_prefix("--") {
                Some(name) => self.has_long_option(name),
                None => wanted.chars().skip(1).all(|letter| self.has_short_option(letter)),
            };
        match (found, self.may_have_more_options) {
            (true, _) => RuleMatch::Yes,
            (false, true) => RuleMatch::Maybe,
            (false, false) => RuleMatch::No,
        }
    }

    fn has_short_option(&self, letter: char) -> bool {
        let same = |other: char| fold_case_of_r(other) == fold_case_of_r(letter);
        self.options.iter().any(|option| match option.strip_prefix("--") {
            Some(long) => long_option_name(letter).is_some_and(|name| is_abbreviation(long, name)),
            None => option.chars().skip(1).any(same),
        })
    }

    fn has_long_option(&self, name: &str) -> bool {
        let letter = ['r', 'f'].into_iter().find(|letter| long_option_name(*letter) == Some(name));
        self.options.iter().any(|option| match option.strip_prefix("--") {
            Some(long) => is_abbreviation(long, name),
            None => letter
                .is_some_and(|letter| option.chars().skip(1).any(|c| fold_case_of_r(c) == letter)),
        })
    }

    /// Matches if the wanted operands come first, or first after words that may be option values.
    fn match_operands(&self, wanted: &[&String]) -> RuleMatch {
        let option_values =
            self.operands.iter().take_while(|(_, after_option)| *after_option).count();
        (0..=option_values)
            .map(|start| self.match_operands_at(start, wanted))
            .fold(RuleMatch::No, RuleMatch::or)
    }

    fn match_operands_at(&self, start: usize, wanted: &[&String]) -> RuleMatch {
        let operands = self.operands.get(start..).unwrap_or_default();
        let mut result = RuleMatch::Yes;
        for (index, wanted) in wanted.iter().enumerate() {
            let one = match operands.get(index) {
                Some((word, _)) => match word.value() {
                    Some(text) if matches_wildcard(wanted, text) => RuleMatch::Yes,
                    Some(_) => RuleMatch::No,
                    None if word.shape == Shape::Many || wanted.starts_with(&word.text) => {
                        return result.and(RuleMatch::Maybe);
                    }
                    None => RuleMatch::No,
                },
                None => RuleMatch::No,
            };
            result = result.and(one);
        }
        result
    }
}

/// Treats `-R` as `-r`: they mean the same in every program that has both and that rules name.
const fn fold_case_of_r(letter: char) -> char {
    if letter == 'R' { 'r' } else { letter }
}

const fn long_option_name(letter: char) -> Option<&'static str> {
    match fold_case_of_r(letter) {
        'r' => Some("recursive"),
        'f' => Some("force"),
        _ => None,
    }
}

/// `true` if an option abbreviates a long option's name, as GNU programs accept it.
fn is_abbreviation(written: &str, name: &str) -> bool {
    let written = written.split('=').next().unwrap_or(written);
    !written.is_empty() && name.starts_with(written)
}

/// `true` if the whole text matches a pattern, in which `*` stands for any text and `?` for one
/// character. Takes quadratic time at worst, without recursion or copies.
pub fn matches_wildcard(pattern: &str, text: &str) -> bool {
    let mut pattern = pattern.chars();
    let mut text = text.chars();
    // The position to continue from, after the last `*`, if the rest does not match here.
    let mut retry: Option<(std::str::Chars<'_>, std::str::Chars<'_>)> = None;
    loop {
        match (pattern.next(), text.clone().next()) {
            (Some('*'), _) => retry = Some((pattern.clone(), text.clone())),
            (None, None) => return true,
            (Some(wanted), Some(found)) if wanted == '?' || wanted == found => {
                text.next();
            }
            (Some(_) | None, _) => {
                let Some((after_star, from)) = &mut retry else { return false };
                if from.next().is_none() {
                    return false;
                }
                (pattern, text) = (after_star.clone(), from.clone());
            }
        }
    }
}

/// Variables whose values make no program start another one.
const HARMLESS: &str = "CI DEBUG VERBOSE NO_COLOR FORCE_COLOR CLICOLOR CLICOLOR_FORCE COLUMNS COLORTERM RUST_LOG \
    RUST_LOG_STYLE RUST_BACKTRACE RUST_TEST_THREADS LOG_LEVEL LOGLEVEL NODE_ENV RAILS_ENV \
    RACK_ENV APP_ENV BUILD_ENV PORT SOURCE_DATE_EPOCH QWEN_CODE OMP_NUM_THREADS";
/// Variables that start nothing if they have this value. git takes `cat` for "no pager". debconf
/// evaluates the name of its frontend as Perl, so only known frontends are safe.
const HARMLESS_VALUES: [(&str, &str); 8] = [
    ("GIT_PAGER", "cat"),
    ("GIT_PAGER", ""),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("DEBIAN_FRONTEND", "noninteractive"),
    ("DEBIAN_FRONTEND", "readline"),
    ("DEBIAN_FRONTEND", "dialog"),
    ("DEBIAN_FRONTEND", "teletype"),
    ("DEBIAN_FRONTEND", "text"),
];
/// Variables that programs read as the name of a file or a terminal: harmless as plain text.
const PLAIN_VALUES: [&str; 2] = ["TERM", "TZ"];
/// Names that scripts choose themselves and that no shell or tool reads.
const SCRIPT_NAMES: &str = "ARCHIVE BASE BRANCH CODE COMMIT COUNT CURRENT DATE DEST DIR DIRS DST ELAPSED END ERRORS \
    EXIT_CODE FILE FILENAME FILES FOUND HASH ID INDEX INPUT ITEM KEY LAST LINE LIST MAX \
    MESSAGE MIN MSG NAME NUM OUT OUTPUT PID RC RESULT SHA SIZE SRC START STATUS SUM TAG \
    TIMESTAMP TOTAL URL VALUE VERSION";
/// Lower-case names that a shell or a common tool reads.
const SPECIAL_LOWER_CASE: &str = "argv auto_resume cdpath editor fignore fpath histchars home keymap mailpath manpath \
    module_path npm_* pip_* path prompt psvar shell signals status term watch";
/// Locales in which all shells parse quotes the same way.
pub const PLAIN_LOCALES: [&str; 5] = ["C", "POSIX", "C.UTF-8", "C.utf8", "en_US.UTF-8"];

/// Variables that may be set although an allow list is set, in addition to the harmless ones.
#[derive(Debug, Clone, Default)]
pub struct SafeVariables(Vec<String>);

impl SafeVariables {
    /// Takes the names of the variables, in which wildcards are allowed.
    #[must_use]
    pub const fn new(patterns: Vec<String>) -> Self {
        Self(patterns)
    }

    /// `true` if the shell may set this variable for itself, to this value if it is known.
    pub(crate) fn allows_in_shell(&self, name: &str, value: Option<&str>) -> bool {
        self.allows_in_environment(name, value)
            || is_script_name(name)
            || has_word(SCRIPT_NAMES, name)
    }

    /// `true` if this variable may be set in the environment of a program, to this value if it is
    /// known.
    pub(crate) fn allows_in_environment(&self, name: &str, value: Option<&str>) -> bool {
        self.0.iter().any(|pattern| matches_wildcard(pattern, name))
            || has_word(HARMLESS, name)
            || value.is_some_and(|value| HARMLESS_VALUES.contains(&(name, value)))
            || is_plain_locale(name, value)
            || (PLAIN_VALUES.contains(&name) && value.is_some_and(is_plain_value))
            || (is_script_name(name) && !name.contains('_'))
    }
}

/// `true` for lower-case names and single letters, which scripts use and only a few tools read.
fn is_script_name(name: &str) -> bool {
    let is_lower = name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    let is_letter = name.len() == 1 && name.starts_with(|c: char| c.is_ascii_alphabetic());
    let is_special = name.contains("proxy")
        || SPECIAL_LOWER_CASE
            .split_ascii_whitespace()
            .any(|pattern| matches_wildcard(pattern, name));
    (is_lower || is_letter) && !is_special
}

/// `true` for a text of letters, digits and a few marks, which no program runs as code.
fn is_plain_value(value: &str) -> bool {
    value.chars().all(|letter| letter.is_ascii_alphanumeric() || "-_./+:,".contains(letter))
}

/// `true` for a locale under which the shell parses a text as this crate does. In other locales a
/// quote can be part of a multi-byte character.
fn is_plain_locale(name: &str, value: Option<&str>) -> bool {
    let is_locale = name == "LANG" || name == "LANGUAGE" || name.starts_with("LC_");
    is_locale && value.is_some_and(|value| PLAIN_LOCALES.contains(&value))
}

/// The directory of a text, the directories that it may write to, and the allow rules.
#[derive(Debug, Clone)]
pub(crate) struct WriteCheck<'p> {
    /// The absolute directory that the text starts in.
    pub(crate) cwd: &'p str,
    /// Absolute directories that the text may write to; empty means `cwd`.
    pub(crate) writable: &'p [String],
    /// `true` if the text changes to a directory that may be outside `cwd`.
    pub(crate) leaves_cwd: bool,
    /// `true` if the text changes its directory at all.
    pub(crate) changes_directory: bool,
    /// The allow rules as written. The text may not write files that they name.
    pub(crate) allow_rules: Vec<&'p str>,
}

/// Devices that store nothing.
const DEVICES: [&str; 4] = ["/dev/null", "/dev/stdout", "/dev/stderr", "/dev/tty"];

/// Directories with files that programs run or read as their settings.
const PROTECTED_DIRECTORIES: &str = "hooks .ssh .gnupg .config .cargo .claude .cursor .vscode .idea .husky .github .docker \
    .kube .aws";
/// Files that git, shells and common tools read as their settings, in any directory.
const PROTECTED_FILES: &str = "config head .gitconfig .gitmodules .gitattributes .mcp.json .envrc .bashrc .bash_profile \
    .bash_login .bash_logout .bash_aliases .profile .zshrc .zshenv .zprofile .zlogin .kshrc \
    .inputrc .npmrc .yarnrc .yarnrc.yml .pnpmfile.cjs .netrc .curlrc .wgetrc .vimrc .exrc \
    .nanorc .lesskey .psqlrc .sqliterc .gdbinit .tmux.conf .screenrc .bazelrc .pythonrc \
    .editrc";
/// Files that a tool runs by itself. A text may not write them if an allow rule names the tool.
const FILES_RUN_BY_TOOLS: [(&[&str], &[&str]); 9] = [
    (&["make", "gmake"], &["makefile", "gnumakefile", "*.mk"]),
    (&["cmake"], &["cmakelists.txt", "*.cmake"]),
    (&["npm", "pnpm", "yarn", "npx"], &["package.json"]),
    (&["cargo"], &["build.rs", "cargo.toml"]),
    (&["just"], &["justfile", ".justfile"]),
    (&["pytest", "tox", "nox"], &["conftest.py", "pytest.ini", "tox.ini", "noxfile.py"]),
    (&["gradle", "mvn", "ant"], &["build.gradle", "build.gradle.kts", "pom.xml", "build.xml"]),
    (&["bundle", "rake"], &["gemfile", "rakefile"]),
    (&["docker", "podman"], &["dockerfile", "docker-compose.yml", "compose.yaml", "compose.yml"]),
];

impl WriteCheck<'_> {
    /// `true` if an allow rule names this file or one below it, relative to any directory, or if a
    /// listed tool runs it.
    fn is_named_or_run(&self, path: &str) -> bool {
        let is_named = self.named_files().any(|named| {
            let pattern = normalize_path(named);
            let relative = pattern.trim_start_matches("../");
            let whole = if pattern.starts_with('/') {
                pattern.clone()
            } else {
                normalize_path(&format!("{}/{pattern}", self.cwd))
            };
            matches_wildcard(&pattern, path)
                || (path != normalize_path(self.cwd) && is_below(&whole, path))
                || (!pattern.starts_with('/') && matches_wildcard(&format!("*/{relative}"), path))
                || (self.changes_directory
                    && matches_wildcard(base_name(&pattern), base_name(path)))
        });
        let name = base_name(path).to_ascii_lowercase();
        is_named || self.files_run_by_listed_tools().any(|pattern| matches_wildcard(pattern, &name))
    }

    /// Returns the files that the allow rules name: programs by path, and scripts that are
    /// arguments.
    fn named_files(&self) -> impl Iterator<Item = &str> {
        self.allow_rules.iter().flat_map(|rule| {
            let is_file = |(index, word): &(usize, &str)| {
                let has_name = word.chars().any(char::is_alphanumeric) && !word.starts_with('-');
                word.contains('/') || (*index > 0 && has_name && word.contains('.'))
            };
            rule.split_whitespace().enumerate().filter(is_file).map(|(_, word)| word)
        })
    }

    /// Returns the programs that the allow rules name.
    fn programs(&self) -> impl Iterator<Item = &str> {
        self.allow_rules.iter().filter_map(|rule| rule.split_whitespace().next())
    }

    /// Returns patterns of the files that listed tools run by themselves.
    fn files_run_by_listed_tools(&self) -> impl Iterator<Item = &'static str> {
        let is_listed = |tools: &[&str]| self.programs().any(|it| tools.contains(&base_name(it)));
        FILES_RUN_BY_TOOLS
            .iter()
            .filter(move |(tools, _)| is_listed(tools))
            .flat_map(|(_, files)| files.iter().copied())
    }

    /// Returns the target of a redirection if it is forbidden.
    pub(crate) fn forbidden_target<'r>(&self, redirect: &'r Redirect) -> Option<&'r Word> {
        match redirect {
            Redirect::Duplicate | Redirect::Text(_) | Redirect::Heredoc => None,
            Redirect::Read(word) => is_network(word).then_some(word),
            Redirect::Write(word) => (!self.may_write(word)).then_some(word),
        }
    }

    /// `true` if the text may write this file.
    pub(crate) fn may_write(&self, word: &Word) -> bool {
        match (word.shape, word.value()) {
            (Shape::Process, _) => true,
            (_, Some(path)) => DEVICES.contains(&path) || self.is_writable(path),
            (Shape::Glob, None) => self.may_write_matches(&word.source),
            (Shape::One | Shape::Many | Shape::Literal, None) => false,
        }
    }

    /// `true` if the text may write every file that an unquoted pattern can match: all are in one
    /// directory, none is hidden, and no program runs them or reads them as its settings.
    fn may_write_matches(&self, pattern: &str) -> bool {
        let is_simple = |c: char| c.is_ascii_alphanumeric() || "_-./*?".contains(c);
        let (directory, name) = pattern.rsplit_once('/').unwrap_or((".", pattern));
        if !pattern.chars().all(is_simple) || directory.contains(['*', '?']) {
            return false;
        }
        let matches = |file: &str| matches_wildcard(&name.to_ascii_lowercase(), file);
        let mut protected =
            PROTECTED_FILES.split_ascii_whitespace().chain(self.files_run_by_listed_tools());
        let mut scripts = self.named_files().map(base_name);
        !name.starts_with('.')
            && !protected.any(matches)
            && !scripts.any(matches)
            && self.is_writable(&format!("{directory}/file.txt"))
    }

    /// Returns the absolute path without `.` and `..`; `None` for devices, and if the text alone
    /// does not determine the path.
    pub(crate) fn absolute_path(&self, path: &str) -> Option<String> {
        let is_relative = !path.starts_with('/');
        if DEVICES.contains(&path) || path.starts_with('~') || (is_relative && self.leaves_cwd) {
            return None;
        }
        Some(if is_relative {
            normalize_path(&format!("{}/{path}", self.cwd))
        } else {
            normalize_path(path)
        })
    }

    fn is_writable(&self, path: &str) -> bool {
        let Some(path) = self.absolute_path(path) else { return false };
        let is_unprotected = !is_protected(&path) && !self.is_named_or_run(&path);
        let is_below =
            |root: &str| path == normalize_path(root) || is_below(&path, &normalize_path(root));
        let is_in_writable_root = match self.writable {
            [] => is_below(self.cwd),
            roots => roots.iter().any(|root| is_below(root)),
        };
        // Logs and scratch files directly in the temporary directory.
        let is_temporary = path.strip_prefix("/tmp/").is_some_and(|name| !name.contains('/'));
        is_unprotected && (is_in_writable_root || is_temporary)
    }
}

/// `true` for files that programs run or read as their settings, in any directory.
fn is_protected(path: &str) -> bool {
    let path = path.to_ascii_lowercase();
    path.split('/').any(is_protected_directory) || has_word(PROTECTED_FILES, base_name(&path))
}

fn is_protected_directory(part: &str) -> bool {
    has_word(PROTECTED_DIRECTORIES, part) || part.ends_with(".git")
}

fn is_below(path: &str, root: &str) -> bool {
    path.strip_prefix(root).is_some_and(|rest| rest.starts_with('/') || root == "/")
}

/// `true` for the names under which bash opens network connections.
fn is_network(word: &Word) -> bool {
    let text = normalize_path(&word.text);
    text.starts_with("/dev/tcp") || text.starts_with("/dev/udp")
}

/// `true` if a command changes to a protected directory, or to one that may lie outside the current
/// one.
pub(crate) fn leaves_workspace(command: &SimpleCommand) -> bool {
    if !matches!(command.name(), Some("cd" | "pushd" | "popd")) {
        return false;
    }
    let inside = |word: &Word| {
        word.value().is_some_and(|text| {
            !text.starts_with(['/', '~', '-'])
                && !text.split('/').any(|part| {
                    let part = part.to_ascii_lowercase();
                    part == ".." || is_protected_directory(&part)
                })
        })
    };
    command.args.is_empty() || !command.args.iter().all(inside)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deny_rule_matches_the_name_and_an_allow_rule_also_the_directory() {
        for (pattern, program, denied, allowed) in [
            ("rm", "rm", true, true),
            ("rm", "/bin/rm", true, true),
            ("rm", "//bin//rm", true, false),
            ("rm", "/usr/bin/../bin/rm", true, false),
            ("git", "/tmp/evil/git", true, false),
            ("git", "./git", true, false),
            ("./build.sh", "./build.sh", true, true),
            ("./build.sh", "./sub/../build.sh", false, false),
            ("/opt/x/run", "/opt//x/run", true, false),
            ("*", "./anything", true, true),
        ] {
            assert_eq!(
                program_matches(pattern, program, ListKind::Deny),
                denied,
                "deny {pattern} {program}"
            );
            assert_eq!(
                program_matches(pattern, program, ListKind::Allow),
                allowed,
                "allow {pattern} {program}"
            );
        }
    }

    #[test]
    fn a_path_is_normalized_by_its_text_alone() {
        assert_eq!(normalize_path("/a/./b/../c//d"), "/a/c/d");
        assert_eq!(normalize_path("../a/../../b"), "../../b");
        assert_eq!(normalize_path("/../a"), "/a");
    }

    #[test]
    fn a_star_matches_any_text_and_a_question_mark_one_character() {
        for (pattern, text, expected) in [
            ("rm", "rm", true),
            ("rm", "rmdir", false),
            ("rm*", "rmdir", true),
            ("rm*", "rm", true),
            ("*rm", "confirm", true),
            ("r?", "rm", true),
            ("r?", "r", false),
            ("a*b*c", "aXbYbZc", true),
            ("a*b*c", "aXbYbZ", false),
            ("*", "", true),
            ("", "", true),
            ("", "x", false),
        ] {
            assert_eq!(matches_wildcard(pattern, text), expected, "{pattern} on {text}");
        }
    }

    #[test]
    fn variables_that_programs_read_are_not_safe() {
        let safe = SafeVariables::default();
        for name in [
            "PATH",
            "LD_PRELOAD",
            "GIT_SSH_COMMAND",
            "PAGER",
            "BASH_ENV",
            "NODE_OPTIONS",
            "IFS",
            "RUSTC_WRAPPER",
            "PYTHONPATH",
            "PS4",
            "HOME",
            "https_proxy",
            "TAR_OPTIONS",
            "FOO_OPTS",
            "RANDOM",
            "SRANDOM",
            "OPTIND",
            "HISTCMD",
            "_",
            "FUNCNAME",
            "REPLY",
            "PWD",
            "OLDPWD",
            "LINENO",
            "SECONDS",
            "LINES",
            "npm_config_script_shell",
            "histchars",
            "path",
            "OTHER",
        ] {
            assert!(!safe.allows_in_shell(name, Some("x")), "{name}");
            assert!(!safe.allows_in_environment(name, Some("x")), "{name}");
        }
    }

    #[test]
    fn only_harmless_short_and_listed_names_may_be_set_for_a_program() {
        let safe = SafeVariables::new(vec!["MY_*".to_owned()]);
        for name in ["RUST_LOG", "x", "CI", "MY_FLAG"] {
            assert!(safe.allows_in_environment(name, None), "{name}");
        }
        for name in ["VERSION", "old_name", "count2"] {
            assert!(safe.allows_in_shell(name, None), "{name}");
        }
        assert!(
            !safe.allows_in_environment("VERSION", None)
                && !safe.allows_in_environment("old_name", None)
        );
    }

    #[test]
    fn some_variables_are_safe_only_with_plain_values() {
        let safe = SafeVariables::default();
        for (name, value) in [
            ("DEBIAN_FRONTEND", "noninteractive"),
            ("TERM", "xterm-256color"),
            ("TERM", ""),
            ("TZ", "Europe/Berlin"),
            ("TZ", "CET-1CEST,M3.5.0,M10.5.0/3"),
        ] {
            assert!(safe.allows_in_environment(name, Some(value)), "{name}={value}");
        }
        for (name, value) in [
            ("DEBIAN_FRONTEND", Some("Noninteractive; system q(id) #")),
            ("DEBIAN_FRONTEND", None),
            ("TERM", Some("$(id)")),
            ("TERM", None),
            ("TZ", Some("a b")),
            ("TZ", None),
        ] {
            assert!(!safe.allows_in_environment(name, value), "{name}={value:?}");
            assert!(!safe.allows_in_shell(name, value), "{name}={value:?}");
        }
    }

    #[test]
    fn a_locale_is_safe_only_if_shells_parse_quotes_the_same_way() {
        let safe = SafeVariables::default();
        assert!(safe.allows_in_environment("LC_ALL", Some("C")));
        assert!(!safe.allows_in_environment("LC_ALL", Some("zh_CN.gbk")));
        assert!(!safe.allows_in_environment("LANG", None));
    }
}
