//! Build tools, compilers, test runners and linters: operands that a table cannot describe. Package
//! managers: packages, which may be files, and the tools that they bring.

use std::sync::LazyLock;

use super::entry::{
    ArgumentEffect, Judged, ProgramEntry, command_of, is_one_of, is_plain_text, read_as_code,
    refuse, refuse_argument_files, script,
};
use super::programs;
use crate::command::{Shape, ShellSyntax, Word};
use crate::options::{Arguments, OptionOrder, OptionSet, check_operand, has_word, require_known};

/// Variables of makefiles that are words in messages and paths, not programs.
const MAKE_VARIABLES: &str = "V VERBOSE Q DEBUG PREFIX prefix DESTDIR ARCH CI VERSION TAG RELEASE BUILD BUILD_TYPE \
    PROFILE O W COVERAGE NO_COLOR COLOR JOBS TARGET";

pub(super) fn make(found: &Arguments) -> Judged {
    for word in &found.operands {
        match word.text.split_once('=') {
            Some((name, value)) => {
                let is_known = has_word(MAKE_VARIABLES, name) && word.value().is_some();
                // `$(Q)cc` puts the value before a program.
                let is_prefix = matches!(name, "Q" | "V");
                let is_switch = value == "@" || value.bytes().all(|byte| byte.is_ascii_digit());
                if !is_known || !is_plain_text(value) || (is_prefix && !is_switch) {
                    return Err(format!("the variable {name}"));
                }
            }
            None => refuse([word], is_odd_target)?,
        }
    }
    Ok(Vec::new())
}

/// `true` for a word that a build tool could put into a shell text with another meaning, or that
/// sets a variable.
fn is_odd_target(word: &Word) -> bool {
    word.value().is_none_or(|text| !is_plain_text(text))
}

/// Targets are names; `NAME=value` is a variable.
pub(super) fn plain_targets(found: &Arguments) -> Judged {
    refuse(&found.operands, is_odd_target).map(|()| Vec::new())
}

pub(super) fn cmake(found: &Arguments) -> Judged {
    for word in found.values(&["-D"]) {
        let setting = require_known(word)?;
        if !is_known_setting(setting) {
            let name = setting.split(['=', ':']).next().unwrap_or(setting);
            return Err(format!("the setting {name}"));
        }
    }
    if let Some(command) = found.values(&["-E"]).next() {
        return cmake_command(command, &found.operands);
    }
    // After `--` stand arguments of the build program.
    let of_build = |word: &Word| {
        word.value().is_none_or(|text| {
            let digits = text.trim_start_matches("-j").trim_start_matches("-k");
            !digits.bytes().all(|byte| byte.is_ascii_digit())
        }) && !word.is("-v")
            && !word.is("VERBOSE=1")
    };
    if found.has(&["--build"]) {
        let targets = found.values(&["--target", "-t"]);
        refuse(found.operands.iter(), of_build)?;
        refuse(targets, is_odd_target)?;
    }
    let mut effects = Vec::new();
    if !found.has(&["--build", "--install", "-P"]) {
        effects.extend(found.operands.iter().cloned().map(ArgumentEffect::ReadsCode));
    }
    Ok(effects)
}

/// A setting of CMake or Meson: one of the build itself, or a switch of the project.
fn is_known_setting(setting: &str) -> bool {
    const KNOWN: &str = "CMAKE_BUILD_TYPE CMAKE_INSTALL_PREFIX CMAKE_EXPORT_COMPILE_COMMANDS CMAKE_CXX_STANDARD \
        CMAKE_C_STANDARD CMAKE_POSITION_INDEPENDENT_CODE CMAKE_VERBOSE_MAKEFILE \
        CMAKE_COLOR_DIAGNOSTICS CMAKE_INTERPROCEDURAL_OPTIMIZATION CMAKE_OSX_ARCHITECTURES \
        buildtype prefix optimization debug werror warning_level default_library b_lto \
        b_sanitize b_coverage b_ndebug strip";
    const SWITCHES: &str = "ON OFF on off TRUE FALSE true false YES NO 0 1 enabled";
    let Some((name, value)) = setting.split_once('=') else {
        return false;
    };
    let name = name.split(':').next().unwrap_or(name);
    let is_project = !name.starts_with("CMAKE_") && has_word(SWITCHES, value);
    is_project || (has_word(KNOWN, name) && is_plain_text(value))
}

fn cmake_command(command: &Word, operands: &[Word]) -> Judged {
    let name = command.value().unwrap_or_default();
    match name {
        "capabilities" | "echo" | "cat" | "compare_files" | "md5sum" | "sha1sum" | "sha256sum"
        | "sha512sum" | "make_directory" | "sleep" | "true" | "false" | "environment" => {
            Ok(Vec::new())
        }
        "copy" | "copy_directory" | "copy_if_different" | "rename" => {
            let target = operands.last().cloned();
            Ok(target.map(ArgumentEffect::WritesBeneath).into_iter().collect())
        }
        "touch" | "touch_nocreate" | "remove" | "rm" | "remove_directory" => {
            Ok(operands.iter().cloned().map(ArgumentEffect::Writes).collect())
        }
        _ => Err(format!("the command {command}")),
    }
}

/// Phases of Maven's lifecycles, and goals that only print or start the project.
const MAVEN_GOALS: &str = "validate initialize generate-sources process-resources compile process-classes \
    test-compile test package integration-test verify install deploy clean site \
    dependency:tree dependency:resolve dependency:go-offline dependency:analyze \
    dependency:list help:effective-pom spring-boot:run quarkus:dev spotless:apply \
    spotless:check versions:display-dependency-updates checkstyle:check";

pub(super) fn maven(found: &Arguments) -> Judged {
    const PROPERTIES: &str = "skipTests skipITs maven.test.skip test it.test groups excludedGroups failIfNoTests \
        surefire.failIfNoSpecifiedTests maven.javadoc.skip checkstyle.skip revision \
        style.color maven.source.skip";
    let unknown = |word: &Word| !is_one_of(word, MAVEN_GOALS);
    refuse(&found.operands, unknown)?;
    for word in found.values(&["-D"]) {
        let name = word.text.split('=').next().unwrap_or_default();
        if !has_word(PROPERTIES, name) {
            return Err(format!("the property {name}"));
        }
    }
    Ok(Vec::new())
}

pub(super) fn gradle(found: &Arguments) -> Judged {
    for word in found.values(&["-P"]) {
        let (name, value) = word.text.split_once('=').unwrap_or((&word.text, ""));
        if word.value().is_none() || name.starts_with("org.gradle") || !is_plain_text(value) {
            return Err(format!("the property {name}"));
        }
    }
    plain_targets(found)
}

/// `tox run -e py311 -- arguments of the tests`.
pub(super) fn tox(found: &Arguments) -> Judged {
    const OTHER: &str = "exec e devenv d quickstart q legacy le schema man depends de";
    let is_other = |word: &Word| is_one_of(word, OTHER);
    refuse(found.operands.first(), is_other).map(|()| Vec::new())
}

/// After `--` clippy takes options of rustc; those that set the level of a lint are harmless.
pub(super) fn lints(found: &Arguments) -> Judged {
    let mut words = found.operands.iter();
    while let Some(word) = words.next() {
        let text = require_known(word)?;
        let letter = text.get(..2).unwrap_or_default();
        let lint = match text {
            "--deny" | "--warn" | "--allow" | "--forbid" => words.next().map(|lint| &lint.text),
            _ if !["-D", "-W", "-A", "-F"].contains(&letter) => None,
            _ if text.len() == 2 => words.next().map(|lint| &lint.text),
            _ => Some(&word.text),
        };
        if lint.is_none_or(|lint| !is_plain_text(lint) || lint.contains('@')) {
            return Err(format!("the option {text}"));
        }
    }
    Ok(Vec::new())
}

/// After `--` cargo fmt takes options of rustfmt.
pub(super) fn fmt(found: &Arguments) -> Judged {
    let known = |word: &Word| {
        word.value().is_some_and(|text| {
            ["--check", "-l", "--edition", "--quiet", "-q", "-v", "--verbose"].contains(&text)
                || text.starts_with("--edition=")
                || text.starts_with("--color=")
                || !text.starts_with('-')
        })
    };
    refuse(&found.operands, |word| !known(word)).map(|()| Vec::new())
}

/// `-ldflags` and `-gcflags` hold options of the linker and the compiler.
pub(super) fn go_flags(found: &Arguments) -> Judged {
    for word in found.values(&["-ldflags", "-gcflags"]) {
        let text = require_known(word)?;
        let mut parts = text.trim_start_matches("all=").split_ascii_whitespace();
        while let Some(part) = parts.next() {
            match part {
                "-s" | "-w" | "-N" | "-l" | "-m" | "-m=2" | "-race" | "-B" => {}
                "-X" if parts.next().is_some_and(is_go_variable) => {}
                _ => return Err(format!("the option {part}")),
            }
        }
    }
    refuse(found.values(&["-compiler"]), |word| !word.is("gc")).map(|()| Vec::new())
}

/// `main.version=1.2`.
fn is_go_variable(text: &str) -> bool {
    text.split_once('=').is_some_and(|(name, value)| is_plain_text(name) && is_plain_text(value))
}

pub(super) fn no_argument_files(found: &Arguments) -> Judged {
    refuse_argument_files(found).map(|()| Vec::new())
}

/// `--emit=dep-info=file` and `--print=cfg=file` name a file after the kind of output.
pub(super) fn rustc(found: &Arguments) -> Judged {
    refuse_argument_files(found)?;
    let mut effects = Vec::new();
    for word in found.values(&["--emit", "--print"]) {
        let kinds = require_known(word)?;
        let files = kinds.split(',').filter_map(|kind| kind.split_once('=').map(|(_, file)| file));
        effects.extend(files.map(Word::literal).map(ArgumentEffect::Writes));
    }
    Ok(effects)
}

/// `-Wl,a,b` hands options to the linker.
pub(super) fn c_compiler(found: &Arguments) -> Judged {
    const LINKER: &str = "--as-needed --no-as-needed --gc-sections --no-undefined --whole-archive \
        --no-whole-archive --start-group --end-group -O1 -s -z relro now noexecstack \
        --strip-all --build-id";
    refuse_argument_files(found)?;
    for word in found.values(&["-Wl,"]) {
        let text = require_known(word)?;
        let mut parts = text.split(',');
        while let Some(part) = parts.next() {
            let takes_path = matches!(part, "-rpath" | "-soname");
            if takes_path && parts.next().is_some_and(|path| !path.starts_with(['-', '@'])) {
                continue;
            }
            if !has_word(LINKER, part) {
                return Err(format!("the option -Wl,{part}"));
            }
        }
    }
    Ok(Vec::new())
}

/// After `--` clang-tidy takes options of the compiler.
pub(super) fn compiler_arguments(found: &Arguments) -> Judged {
    let known = ["-I", "-D", "-std=", "-W", "-O"];
    refuse(&found.operands, |word| {
        let is_known = known.iter().any(|start| word.text.starts_with(start));
        word.text.starts_with('@') || (word.text.starts_with('-') && !is_known)
    })?;
    Ok(Vec::new())
}

/// `-p name` imports a module, which may lie in the working directory.
pub(super) fn pytest(found: &Arguments) -> Judged {
    refuse_argument_files(found)?;
    let plugins = found.values(&["-p"]).filter(|word| !word.text.starts_with("no:"));
    let files = plugins.map(|word| match word.value() {
        Some(name) => {
            let file = format!("{}.py", name.replace('.', "/"));
            Ok(ArgumentEffect::ReadsCode(Word::literal(file)))
        }
        None => Err(format!("the word {word}")),
    });
    files.collect()
}

/// A formatter by name is part of ESLint; one by path is code.
pub(super) fn eslint(found: &Arguments) -> Judged {
    let formats = found.values(&["-f", "--format"]);
    Ok(read_as_code(formats.filter(|word| word.text.contains('/'))))
}

/// Jest takes patterns; `react-scripts` takes a script's name first.
pub(super) fn jest(found: &Arguments) -> Judged {
    refuse(&found.operands, |word| word.is("eject")).map(|()| Vec::new())
}

/// Words by which a JavaScript tool starts commands that are given to it: `nyc CMD`, `nx exec`,
/// `turbo run`, `lerna exec`, `npx playwright open`.
pub(super) fn js_tool(found: &Arguments) -> Judged {
    const OTHER: &str = "exec open codegen dlx init create add studio gen generate-app db-execute";
    let is_other = |word: &Word| is_one_of(word, OTHER);
    refuse(found.operands.first(), is_other)?;
    let reporters = found.values(&["--reporter", "-R", "--formatter"]);
    Ok(read_as_code(reporters.filter(|word| word.text.contains('/'))))
}

/// Takes `+nightly`, the name of a toolchain of rustup, off the arguments of `cargo` and `rustc`.
pub(super) fn toolchain(entry: &ProgramEntry, program: &str, args: &[Word]) -> Judged {
    if matches!(program, "cargo" | "rustc" | "rustdoc" | "rustfmt")
        && let Some((first, rest)) = args.split_first()
        && let Some(toolchain) = first.text.strip_prefix('+')
    {
        // A path would be a directory of other programs.
        if first.value().is_none() || toolchain.contains('/') || !is_plain_text(toolchain) {
            return Err(format!("the word {first}"));
        }
        return entry.judge_by_table(rest);
    }
    entry.judge_by_table(args)
}

// Package managers.

/// `npx -c TEXT` hands the text to a shell.
pub(super) fn npx(found: &Arguments) -> Judged {
    const PACKAGES: [&str; 2] = ["-p", "--package"];
    if let Some(call) = found.values(&["-c", "--call"]).next() {
        refuse(found.values(&PACKAGES), |word| !is_index_package(word))?;
        return script(call, ShellSyntax::Posix);
    }
    tool_beside(&PACKAGES, found, project_tool)
}

pub(super) fn pipx_run(found: &Arguments) -> Judged {
    tool_beside(&["--spec"], found, project_tool)
}

/// `npm pkg set scripts.test=…` changes what later commands run.
pub(super) fn npm_pkg(found: &Arguments) -> Judged {
    match found.operands.first() {
        Some(word) if word.is("get") => Ok(Vec::new()),
        Some(word) if word.is("set") || word.is("delete") || word.is("fix") => {
            Ok(vec![ArgumentEffect::Writes(Word::literal("package.json"))])
        }
        Some(word) => Err(format!("the subcommand {word}")),
        None => Ok(Vec::new()),
    }
}

pub(super) fn yarn(found: &Arguments) -> Judged {
    const OTHER: &str = "exec config node plugin set global create policies unplug patch \
        patch-commit workspace workspaces help npm stage explain constraints rebuild";
    let Some((first, args)) = found.operands.split_first() else {
        return Ok(Vec::new());
    };
    let Some(name) = first.value() else {
        return Err(format!("the word {first}"));
    };
    if name == "dlx" {
        return project_tool(&Arguments { operands: args.to_vec(), options: Vec::new() });
    }
    if has_word(OTHER, name) || name.contains('/') {
        return Err(format!("the subcommand {name}"));
    }
    // `yarn eslint` and `yarn run eslint` start the project's own program.
    let command = if name == "run" { args } else { found.operands.as_slice() };
    if let Some((tool, args)) = command.split_first()
        && is_one_of(tool, PROJECT_TOOLS)
    {
        return programs::judge(&tool.text, args).unwrap_or_else(|| Ok(Vec::new()));
    }
    if name == "run" {
        refuse(args.first(), |word| check_operand(word) != Ok(true))?;
    }
    if has_word(YARN_COMMANDS, name) {
        let found = programs::pnpm_options().read(args, OptionOrder::Anywhere)?;
        return installed_packages(&found);
    }
    // Words after the name of a script are its own.
    Ok(Vec::new())
}

/// Commands of Yarn itself.
const YARN_COMMANDS: &str = "install add remove upgrade up upgrade-interactive why list info \
    audit outdated cache check dedupe link unlink pack publish version init import licenses";

/// Options of the commands of bun.
static BUN: LazyLock<OptionSet> = LazyLock::new(|| {
    OptionSet::parse(
        "--watch --coverage --bail? -t= --test-name-pattern= --timeout= -u \
        --update-snapshots --only --todo --rerun-each= -d -D --dev --exact -E --production -p --frozen-lockfile \
        --no-save --force -f -g --global --outdir= --outfile= --target= --minify --sourcemap? \
        --format= --splitting --external= --silent --verbose --no-cache --ignore-scripts --reporter=",
    )
});

pub(super) fn bun(found: &Arguments) -> Judged {
    const OWN: &str = "test install i add a remove rm update outdated link unlink pm build init \
        audit why";
    if found.has(&["-e", "--eval", "-p", "--print", "-v", "--version", "--revision", "-h"]) {
        return Ok(Vec::new());
    }
    let Some((first, args)) = found.operands.split_first() else {
        return Ok(Vec::new());
    };
    let Some(name) = first.value() else {
        return Err(format!("the word {first}"));
    };
    let inner = Arguments { operands: args.to_vec(), options: Vec::new() };
    match name {
        "x" => project_tool(&inner),
        "run" => run_by_bun(&inner.operands),
        _ if has_word(OWN, name) => {
            let read = BUN.read(args, OptionOrder::Anywhere)?;
            let outputs = read.values(&["--outfile"]).cloned().map(ArgumentEffect::Writes);
            let directories =
                read.values(&["--outdir"]).cloned().map(ArgumentEffect::WritesBeneath);
            let mut all: Vec<_> = outputs.chain(directories).collect();
            if has_word("install i add a link", name) {
                all.extend(installed_packages(&read)?);
            }
            Ok(all)
        }
        _ => run_by_bun(&found.operands),
    }
}

/// A file, a script of the project by a usual name, a tool, or any program of PATH.
fn run_by_bun(command: &[Word]) -> Judged {
    const SCRIPTS: &str = "dev build start test lint format typecheck preview check clean watch \
        serve";
    const CODE: [&str; 7] = [".ts", ".tsx", ".js", ".jsx", ".mjs", ".cjs", ".mts"];
    let Some(first) = command.first() else {
        return Ok(Vec::new());
    };
    if CODE.iter().any(|ending| first.text.ends_with(ending)) {
        return Ok(vec![ArgumentEffect::ReadsCode(first.clone())]);
    }
    if is_one_of(first, SCRIPTS) {
        return Ok(Vec::new());
    }
    project_tool(&Arguments { operands: command.to_vec(), options: Vec::new() })
}

/// `--python` may be a version, not a path: uv starts the interpreter to ask for its version.
pub(super) fn uv(found: &Arguments) -> Judged {
    let is_version = |word: &Word| {
        let text = word.value().unwrap_or("/");
        let number = ["python", "cpython", "pypy"].iter().find_map(|name| text.strip_prefix(name));
        let number = number.unwrap_or(text).trim_start_matches(['@', '-']);
        !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')
    };
    refuse(found.values(&["-p", "--python"]), |word| !is_version(word))?;
    indexed_packages(found)
}

pub(super) fn uv_run(found: &Arguments) -> Judged {
    const PACKAGES: [&str; 4] = ["--from", "--with", "--with-editable", "--with-requirements"];
    let mut all = uv(&Arguments { operands: Vec::new(), options: found.options.clone() })?;
    refuse(found.values(&PACKAGES), |word| !is_index_package(word))?;
    if found.has(&["-m", "--module"]) {
        return Ok(all);
    }
    all.extend(match found.operands.first() {
        Some(word) if word.text.ends_with(".py") => vec![ArgumentEffect::ReadsCode(word.clone())],
        Some(word) if word.is("-") => vec![ArgumentEffect::ReadsCodeFromInput],
        Some(_) | None => tool_beside(&PACKAGES, found, project_tool)?,
    });
    Ok(all)
}

/// Tools that projects install as dependencies; their entries judge the arguments.
const PROJECT_TOOLS: &str = "tsc vue-tsc eslint prettier jest vitest vite next nuxt astro rollup webpack \
    parcel esbuild tsup playwright cypress mocha ava stylelint turbo nx lerna ng svelte-check biome \
    oxlint depcheck knip madge typedoc commitlint prisma drizzle-kit tailwindcss tsx ts-node \
    react-scripts pytest ruff mypy pyright black isort flake8 pylint coverage bandit pre-commit \
    autoflake pyupgrade rspec rubocop rake phpunit phpstan pest";

/// `uv run pytest -q`: a well-known tool of the project, or any other command.
pub(super) fn project_tool(found: &Arguments) -> Judged {
    let Some((first, args)) = found.operands.split_first() else {
        return Ok(Vec::new());
    };
    let text = require_known(first)?;
    // `prettier@3`; a scoped package starts with `@`.
    let (name, version) = text.split_once('@').unwrap_or((text, ""));
    if !has_word(PROJECT_TOOLS, name) {
        return Ok(vec![ArgumentEffect::Runs(found.operands.clone())]);
    }
    // After `@`, an address, a file or `npm:other` would be another package.
    let is_version = |letter: char| letter.is_ascii_alphanumeric() || ".-+^~".contains(letter);
    let is_archive = ARCHIVES.iter().any(|ending| version.ends_with(ending));
    if is_archive || !version.chars().all(is_version) {
        return Err(format!("the word {first}"));
    }
    programs::judge(name, args).unwrap_or_else(|| Err(format!("the subcommand {name}")))
}

/// Endings of archives that are packages.
const ARCHIVES: [&str; 6] = [".tgz", ".tar", ".gz", ".zip", ".whl", ".bz2"];

/// A tool beside packages that these options name. Such a package may bring a program of the tool's
/// name, so the tool is not the project's own: it is a command like others.
fn tool_beside(options: &[&str], found: &Arguments, judge: fn(&Arguments) -> Judged) -> Judged {
    if !found.has(options) {
        return judge(found);
    }
    refuse(found.values(options), |word| !is_index_package(word))?;
    Ok(match found.operands.as_slice() {
        [] => Vec::new(),
        [..] => vec![ArgumentEffect::Runs(found.operands.clone())],
    })
}

/// `true` for a package that comes from the index: `typescript@5`, `@types/node`, `requests[x]>=2`.
fn is_index_package(word: &Word) -> bool {
    let Some(text) = word.value() else { return false };
    let is_plain =
        |letter: char| letter.is_ascii_alphanumeric() || "._-+@^~=<>!,[]".contains(letter);
    let name = match text.strip_prefix('@').and_then(|scoped| scoped.split_once('/')) {
        Some((_, name)) => name,
        None => text,
    };
    let is_archive = ARCHIVES.iter().any(|ending| name.ends_with(ending));
    name.starts_with(|letter: char| letter.is_ascii_alphanumeric())
        && name.chars().all(is_plain)
        && !is_archive
}

/// Packages by path run their own build code; a package by name comes from the index.
pub(super) fn local_packages(found: &Arguments) -> Judged {
    refuse(&found.operands, |word| word.text.contains("ext::"))?;
    let is_local = |word: &&Word| word.text.starts_with(['.', '/', '~']) || word.text.contains('/');
    let local = found.operands.iter().filter(is_local);
    Ok(read_as_code(local))
}

/// Packages that are installed, each of which may be a file, whatever its name is: its code runs.
pub(super) fn installed_packages(found: &Arguments) -> Judged {
    refuse(&found.operands, |word| word.text.contains("ext::"))?;
    let files = found.operands.iter().flat_map(|word| [Some(word.clone()), file_of(word)]);
    Ok(files.flatten().map(ArgumentEffect::ReadsCode).collect())
}

/// The file of a package that is written with a name or extras: `x@file:y.tgz`, `y.zip[extra]`.
fn file_of(word: &Word) -> Option<Word> {
    let text = word.value()?;
    let start = text.split(['[', '#', ';', '?']).next().unwrap_or(text);
    let file = start.rsplit(['@', ':', '=', ' ']).next().unwrap_or(start);
    (file != text && !file.is_empty()).then(|| Word::literal(file))
}

/// Packages from an index, which may be a directory of archives on this host.
pub(super) fn indexed_packages(found: &Arguments) -> Judged {
    let mut all = installed_packages(found)?;
    let indexes = ["-i", "--index-url", "--extra-index-url", "-f", "--find-links"];
    if found.values(&indexes).any(|word| !word.text.starts_with("http")) {
        all.push(ArgumentEffect::ReadsCode(Word::unknown("", Shape::Many)));
    }
    Ok(all)
}

/// A package by path runs its own scripts when it is installed.
pub(super) fn package_files(found: &Arguments) -> Judged {
    let is_file = |word: &&Word| {
        let endings = [".deb", ".rpm", ".gem", ".apk", ".rb"];
        word.text.contains('/') || endings.iter().any(|ending| word.text.ends_with(ending))
    };
    Ok(read_as_code(found.operands.iter().filter(is_file)))
}

/// `dpkg -i` takes files of any name.
pub(super) fn dpkg(found: &Arguments) -> Judged {
    if found.has(&["-i", "--install", "--unpack"]) {
        return installed_packages(found);
    }
    package_files(found)
}

/// rpm takes files of any name, unless it is only asked.
pub(super) fn rpm(found: &Arguments) -> Judged {
    if found.has(&["-q", "--query", "-V", "--verify"]) {
        return package_files(found);
    }
    installed_packages(found)
}

pub(super) fn behind_command(found: &Arguments) -> Judged {
    let is_option = |word: &Word| word.is("-c") || word.is("--command");
    let start = if found.has(&["-c", "--command"]) {
        Some(0)
    } else {
        // Packages come before `-c`.
        let end = found.operands.iter().position(|word| word.text.starts_with('-'));
        let option = end.and_then(|index| found.operands.get(index));
        refuse(option, |word| !is_option(word))?;
        end.map(|index| index + 1)
    };
    let command = start.and_then(|start| command_of(found.operands.get(start..)?));
    Ok(vec![command.unwrap_or(ArgumentEffect::ReadsCodeFromInput)])
}

pub(super) fn nix_shell(found: &Arguments) -> Judged {
    match found.values(&["--run", "--command"]).next() {
        Some(text) => script(text, ShellSyntax::Bash),
        None => Ok(vec![ArgumentEffect::ReadsCodeFromInput]),
    }
}

#[cfg(test)]
mod tests {
    use crate::strict::tests::{check, harmless};

    #[test]
    fn everyday_builds_are_known() {
        harmless(
            "make
        make -j8 all
        make -j 4
        make -C build install DESTDIR=/tmp/x
        make test VERBOSE=1
        make -f Makefile.ci lint
        make -n deploy
        make V=1 -k check
        make Q= all
        make Q=@ V=0 all
        ninja -C build -j4
        ninja -t clean
        cmake -S . -B build -DCMAKE_BUILD_TYPE=Release -G Ninja
        cmake -B build -DBUILD_TESTING=ON -DMYLIB_WARNINGS:BOOL=OFF
        cmake ..
        cmake --build build -j8 --target test
        cmake --build build --parallel 4 --config Release
        cmake --build build -- -j4
        cmake --build build -j 8
        cmake --install build --prefix /tmp/x
        cmake -E make_directory out
        cmake --version
        ctest --test-dir build --output-on-failure -j4
        ctest -R unit -V
        meson setup build --buildtype=release
        meson compile -C build
        meson test -C build -v
        mvn -q test
        mvn clean install -DskipTests -pl core -am
        mvn -B verify -Dtest=FooTest#bar
        mvn dependency:tree
        gradle build -x test
        gradlew test --tests com.x.FooTest --info
        gradlew :app:assembleDebug -PversionName=1.2
        ant compile
        bazel test //... --test_output=errors
        just test
        just --list
        task build
        tox -e py311 -- -k x
        nox -s tests
        rake db:migrate
        pkg-config --cflags gtk4",
        );
    }

    #[test]
    fn files_and_targets_are_named() {
        check(
            "make => opaque; code Makefile
        make -f x.mk => code x.mk
        make -C sub => code sub
        cmake -P x.cmake => code x.cmake
        cmake src => code src
        cmake -E copy a b => writes beneath b
        cmake -B .git/hooks => writes beneath .git/hooks
        mvn -l log.txt test => writes log.txt",
        );
    }

    #[test]
    fn variables_and_options_that_start_programs_are_in_doubt() {
        check(
            "make SHELL=./evil => the variable SHELL
        make CC=./evil => the variable CC
        make .SHELLFLAGS=x => the variable .SHELLFLAGS
        make Q=./ => the variable Q
        make V=x => the variable V
        make V:=1 => the variable V:
        make X!=id => the variable X!
        make 'V=$(shell id)' => the variable V
        make --eval=x:;id => the option --eval
        make -E 'x:;id' => the option -E
        make --ev=x => the option --ev
        make 'a;id' => the word a;id
        make -sE x => the option -E
        ninja 'a b' => the word a b
        cmake -DCMAKE_C_COMPILER=./e . => the setting CMAKE_C_COMPILER
        cmake -D CMAKE_CXX_COMPILER_LAUNCHER=./e . => the setting CMAKE_CXX_COMPILER_LAUNCHER
        cmake -DCMAKE_MAKE_PROGRAM=./e . => the setting CMAKE_MAKE_PROGRAM
        cmake -DX_EXECUTABLE=./e . => the setting X_EXECUTABLE
        cmake -E env id => the command env
        cmake -E time id => the command time
        cmake --build b -- SHELL=./e => the word SHELL=./e
        cmake --open b => the option --open
        ctest -S x => the option -S
        ctest --build-and-test a b => the option --build-and-test
        meson test --wrapper=id => the option --wrapper
        meson devenv => the subcommand devenv
        mvn exec:exec -Dexec.executable=id => the word exec:exec
        mvn test -DargLine=-XX:OnError=id => the property argLine
        mvn test -Djvm=./e => the property jvm
        gradle -I x.gradle => the option -I
        gradle -Dorg.gradle.java.home=x build => the option -D
        ant -logger X => the option -logger
        bazel run --run_under=id //x => the option --run_under
        just --shell ./e x => the option --shell
        just -c id => the option -c
        just --set x y => the option --set
        just greet 'x;id' => the word x;id
        task X=1 => the word X=1
        tox -x testenv.commands=id => the option -x
        tox exec -- id => the word exec
        rake -e 'system(1)' => the option -e
        rake X=1 => the word X=1
        scons x => the word x
        ccache id => the word id",
        );
    }

    #[test]
    fn everyday_use_of_compilers_is_known() {
        harmless(
            "cargo test --workspace
        cargo test -p shellyard-policy --lib strict -- --nocapture --test-threads=1
        cargo clippy --all-targets -- -D warnings
        cargo clippy --all-targets --all-features -- -D warnings -A clippy::too_many_lines
        cargo clippy -- -Dwarnings
        cargo build --release --bin server
        cargo +nightly fmt --all -- --check
        cargo fmt --check
        cargo run --release -- --port 80
        cargo run -q --example x
        cargo check --message-format=short
        cargo add serde --features derive
        cargo tree -i tokio
        cargo update -p serde --precise 1.0.1
        cargo doc --no-deps
        cargo nextest run --no-fail-fast
        cargo install --path . --locked
        cargo metadata --format-version 1 --no-deps
        cargo --version
        cargo bench --bench x
        cargo clean
        rustc --version
        rustc -O main.rs -o main
        rustfmt --check src/lib.rs
        rustup show
        rustup target add wasm32-unknown-unknown
        rustup component add clippy
        go build ./...
        go build -o bin/app -ldflags '-s -w -X main.version=1.2' ./cmd/app
        go test ./... -run TestX -v -count=1
        go test -race -coverprofile=c.out ./...
        go test ./pkg -args -x
        go vet ./...
        go mod tidy
        go run ./cmd/app --port 80
        go run main.go -x
        go env GOPATH
        go list -m all
        go version
        go fmt ./...
        go install golang.org/x/tools/cmd/goimports@latest
        go get -u example.com/x
        go tool cover -func=c.out
        gofmt -l .
        golangci-lint run --timeout 5m ./...
        gcc -Wall -Wextra -O2 -g -o app main.c -lm
        g++ -std=c++20 -Iinclude -DNDEBUG -c src/a.cpp -o a.o
        gcc-12 -fsanitize=address,undefined -Wl,-rpath,/opt/lib,-z,now x.c
        clang -fsyntax-only -Weverything a.c
        gcc --version
        cc -shared -fPIC -olib.so a.c
        clang-format -i --style=file a.c
        ld -o a a.o",
        );
    }

    #[test]
    fn files_and_inner_commands_are_named() {
        check(
            "rustc --emit=dep-info=.git/config x.rs => writes .git/config
        rustc --emit=link,asm=a.s x.rs => writes a.s
        rustc --out-dir .git/hooks x.rs => writes beneath .git/hooks
        cargo build --target-dir x => writes beneath x
        cargo install --root x y => writes beneath x
        go test -outputdir=x => writes beneath x
        cargo test => opaque; code Cargo.toml
        cargo build --manifest-path x/Cargo.toml => code x/Cargo.toml
        cargo build --target x.json => code x.json
        rustup run nightly id -u => runs id -u
        gcc -o app a.c => writes app
        gcc -oapp a.c => writes app
        go test -coverprofile=c.out => writes c.out",
        );
    }

    #[test]
    fn options_that_start_programs_are_in_doubt() {
        check(
            "cargo --config x build => the option --config
        cargo build --config build.rustc-wrapper='./e' => the option --config
        cargo build --conf x => the option --conf
        cargo -Zunstable-options -C d build => the option -Z
        cargo +./evil build => the word +./evil
        cargo rustc -- -C linker=./e => the subcommand rustc
        cargo evil => the subcommand evil
        cargo clippy -- -C linker=./e => the option -C
        cargo clippy -- -D warnings -Zx => the option -Zx
        cargo doc --open => the option --open
        cargo watch -s id => the subcommand watch
        cargo test -p --config => the word --config
        cargo fmt -- --config-path=x => the word --config-path=x
        rustc -C linker=./e a.rs => the option -C
        rustc -Clinker=./e a.rs => the option -C
        rustc @x => the word @x
        rustup toolchain link x y => the subcommand link
        rustup doc => the subcommand doc
        go test -exec ./e => the option -exec
        go build -toolexec=./e => the option -toolexec
        go build --toolexec ./e => the option --toolexec
        go vet -vettool=./e => the option -vettool
        go build -overlay x => the option -overlay
        go build -ldflags '-extld=./e' => the option -extld=./e
        go build -ldflags '-linkmode external' => the option -linkmode
        go build -gccgoflags=x => the option -gccgoflags
        go env -w CC=./e => the option -w
        go tool pprof x => the subcommand pprof
        go bug => the subcommand bug
        gcc -wrapper ./e a.c => the option -wrapper
        gcc -B. a.c => the option -B.
        gcc -specs=x a.c => the option -specs
        gcc -fplugin=./e.so a.c => the option -fplugin
        gcc -Wl,-plugin,./e.so a.c => the option -Wl,-plugin
        gcc -Wl,-rpath,x,-plugin,e a.c => the option -Wl,-plugin
        gcc @args => the word @args
        clang -Xclang -load -Xclang e.so a.c => the option -Xclang
        clang -mllvm -load=e a.c => the option -mllvm
        clang -fuse-ld=./e a.c => the option -fuse-ld
        x86_64-linux-gnu-gcc -wrapper id a.c => the option -wrapper
        ld -plugin e.so => the option -plugin
        ld --plugin=e.so => the option --plugin
        clang-tidy --load=e.so a.c => the option --load
        clang-tidy a.c -- -fplugin=e => the word -fplugin=e
        cobc -x a.c => the option -x",
        );
    }

    #[test]
    fn everyday_checks_are_known() {
        harmless(
            "pytest -x -q
        pytest -q tests/test_api.py::test_login -k 'a and not b'
        pytest -n auto --cov=src --cov-report=term-missing
        pytest -vv --tb=short --maxfail=1 --durations=10
        pytest -p no:cacheprovider
        pytest --lf -rA
        pytest -sv tests
        pytest -m 'not slow' --junitxml=report.xml
        coverage run -m pytest -q
        coverage report -m
        ruff check . --fix
        ruff format --check src tests
        mypy --strict src
        mypy src --ignore-missing-imports
        black --check .
        isort --profile black .
        flake8 --max-line-length=100 src
        pylint src --disable=C0111
        pre-commit run --all-files
        eslint . --ext .ts,.tsx --max-warnings 0
        eslint --fix src
        prettier --check src
        prettier --write src/a.ts
        tsc --noEmit
        tsc -p tsconfig.json --noEmit --pretty false
        tsc -b
        jest --ci --coverage
        jest src/x.test.ts -t name --watchAll=false
        jest --runInBand --detectOpenHandles
        vitest run --coverage
        vitest run src/a.test.ts -t name
        vite build --mode production
        next build
        webpack --mode production
        mocha --timeout 5000 test
        playwright test --project=chromium --headed
        ts-node script.ts a b
        tsx src/index.ts
        phpunit --filter testX tests
        rspec spec/models/user_spec.rb:12
        rubocop -a
        turbo run build --filter=web",
        );
    }

    #[test]
    fn plugins_and_configurations_are_in_doubt_or_code() {
        check(
            "tsc --outDir .git/hooks => writes beneath .git/hooks
        jest --coverageDirectory x => writes beneath x
        pytest -p evil => code evil.py
        pytest -pevil => code evil.py
        pytest -c x.ini => code x.ini
        pytest --pdb => the option --pdb
        pytest --pdbcls=a:b => the option --pdbcls
        pytest -o addopts=x => the option -o
        pytest --override-ini=x => the option --override-ini
        pytest --tx popen//python=./e => the option --tx
        pytest @args => the word @args
        pytest => code conftest.py
        mypy --python-executable ./e => the option --python-executable
        mypy --install-types => the option --install-types
        mypy @x => the word @x
        pylint --init-hook=x => the option --init-hook
        pylint --load-plugins=x a => the option --load-plugins
        flake8 --append-config x => the option --append-config
        eslint -c e.js . => code e.js
        eslint --rulesdir d . => code d
        eslint -f ./e.js . => code ./e.js
        eslint --plugin e . => the option --plugin
        eslint --parser ./e . => the option --parser
        prettier --plugin=./e.js a => code ./e.js
        jest --runner=./e => the option --runner
        jest --globalSetup=./e => the option --globalSetup
        jest --testEnvironment=./e => the option --testEnvironment
        mocha -r ./e => the option -r
        mocha --require ./e => the option --require
        webpack -c e.js => code e.js
        nx exec -- id => the word exec
        nyc --all id => runs id
        lerna exec -- id => the word exec
        coverage run x.py => code x.py
        rspec -r ./e => code ./e
        phpunit -d x=y => the option -d
        actionlint -shellcheck=./e => the option -shellcheck",
        );
    }

    #[test]
    fn everyday_use_of_javascript_package_managers_is_known() {
        harmless(
            "npm test -- --watch=false
        npm --version
        npm test
        npm ci
        npm install --save-dev typescript@5
        npm i -D jest
        npm run build --if-present
        npm run lint -- --fix
        npm --prefix web run build
        npm run test --workspace=web --silent
        npm ls --depth=0
        npm outdated
        npm audit --json
        npm view react version
        npm config get registry
        npm init -y
        npm pack --dry-run
        npx tsc --noEmit
        npx --yes eslint . --fix
        npx prettier@3 --check src
        npx jest --ci
        npx playwright test
        npm exec -- tsc -b
        pnpm install --frozen-lockfile
        pnpm -r build
        pnpm --filter web test
        pnpm run dev
        pnpm exec vitest run
        pnpm add -D vitest
        yarn
        yarn install --immutable
        yarn build
        yarn test --watch=false
        yarn run lint
        yarn tsc --noEmit
        yarn add -D typescript
        bun test
        bun install
        bun run build
        bun src/index.ts
        bunx tsc --noEmit",
        );
    }

    #[test]
    fn everyday_use_of_python_package_managers_is_known() {
        harmless(
            "pip install -r requirements.txt
        pip install -e .
        pip install -U pip setuptools
        pip3 install --user requests==2.31.0
        pip list --outdated
        pip freeze
        pip show requests
        pip --version
        pipx run ruff check .
        uv sync --all-extras
        uv run pytest -q
        npx eslint@latest .
        npx prettier@^3.1.0-beta.1 --check src
        uv pip install -r requirements.txt
        uv add httpx
        uv venv --python 3.12
        uv lock --upgrade
        uvx ruff check .
        poetry install --no-root
        poetry run pytest -x
        poetry add requests
        pdm run pytest
        conda install -y numpy
        conda env list
        hatch test",
        );
    }

    #[test]
    fn inner_commands_and_files_are_named() {
        check(
            "npx touch pwned => runs touch pwned
        npx -c 'touch pwned' => Posix script touch pwned
        npm exec -- id -u => runs id -u
        npm exec -c id => Posix script id
        npm pkg set scripts.test=id => writes package.json
        npm test => code package.json
        npm --prefix x test => code x
        uv --project x run ruff check => code x
        pnpm exec id => runs id
        pnpm dlx cowsay => runs cowsay
        bun run touch x => runs touch x
        bun touch x => runs touch x
        bun x.ts => code x.ts
        uv run python -c x => runs python -c x
        uv run touch x => runs touch x
        uv run x.py => code x.py
        uvx cowsay => runs cowsay
        poetry run touch x => runs touch x
        pdm run id => runs id
        conda run -n x id => runs id
        pipx run cowsay => runs cowsay
        npx -p typescript@5 tsc --noEmit => runs tsc --noEmit
        npx -p @a/b@1 eslint . => runs eslint .
        uv run --with requests ruff check . => runs ruff check .
        uvx --from ruff==0.4 ruff check => runs ruff check
        pipx run --spec black==24.1 black . => runs black .
        npm install ./x.tgz => code ./x.tgz
        npm i --offline x.txt => code x.txt
        npm i y@file:x.tgz => code x.tgz
        pnpm add ./x.tgz => code ./x.tgz
        yarn add file:./x.tgz => code ./x.tgz
        bun add ./x.tgz => code ./x.tgz
        pip install x.zip[extra] => code x.zip
        pip install 'x @ file:///tmp/x.zip' => code ///tmp/x.zip
        pip install --no-index -f . x => code …
        uv pip install x.whl => code x.whl
        pipx install x.zip => code x.zip
        pip install ./pkg => code ./pkg
        pip install -r r.txt => code r.txt
        yarn dlx cowsay => runs cowsay",
        );
    }

    #[test]
    fn settings_that_start_programs_are_in_doubt() {
        check(
            "npm --script-shell=./e test => the option --script-shell
        npm test --script-shell ./e => the option --script-shell
        npm test --script-she=./e => the option --script-she
        npm test -script-shell=./e => the option -script-shell
        npm run x --node-options=--require=./e => the option --node-options
        npm --userconfig=x test => the option --userconfig
        npm install --git=./e x => the option --git
        npm config set script-shell ./e => the subcommand set
        npm set script-shell=./e => the subcommand set
        npm explore x -- id => the subcommand explore
        npm edit x => the subcommand edit
        npm docs x --browser=./e => the subcommand docs
        npm help x --viewer=./e => the subcommand help
        npm install --loglevel --script-shell=./e => the word --script-shell=./e
        npx eslint --plugin e . => the option --plugin
        npx --offline -y eslint@file:./x.tgz => the word eslint@file:./x.tgz
        npx eslint@x.tgz . => the word eslint@x.tgz
        npx eslint@npm:evil => the word eslint@npm:evil
        npx eslint@a/b => the word eslint@a/b
        npx -y -p ./x.tgz eslint . => the word ./x.tgz
        npx -p x.tgz eslint . => the word x.tgz
        npx -p a/b tsc => the word a/b
        npx -p ./x -c tsc => the word ./x
        npm exec --package file:x tsc => the word file:x
        uvx --from ./evil ruff check => the word ./evil
        uv run --with ./evil pytest => the word ./evil
        uv run --with-editable . -m pytest => the word .
        pipx run --spec ./evil black . => the word ./evil
        npm --color explore ls => the option --color
        npx -n ls touch x => the option -n
        npx --node-options=x tsc => the option --node-options
        pnpm config set script-shell x => the subcommand set
        pnpm touch x => the subcommand touch
        pnpm run x --script-shell=./e => the option --script-shell
        pnpm --config.script-shell=x test => the option --config.script-shell
        yarn exec id => the subcommand exec
        yarn node x => the subcommand node
        yarn config set x y => the subcommand config
        yarn --script-shell x test => the option --script-shell
        yarn run --x id => the word --x
        yarn add --script-shell=x y => the option --script-shell
        yarn plugin import x => the subcommand plugin
        pip --python ./e install x => the option --python
        pip config set global.x y => the subcommand set
        pip config edit --editor ./e => the subcommand edit
        pip install --keyring-provider=subprocess x => the option --keyring-provider
        pip install --config-settings=x y => the option --config-settings
        pip install 'git+ext::sh -c id' => the word git+ext::sh -c id
        pip install --global-option=x y => the option --global-option
        uv run --python ./e x.py => the word ./e
        uv venv -p ./e => the word ./e
        uv --python ./e run x.py => the option --python
        uv run --env-file .env x.py => the option --env-file
        poetry shell => the subcommand shell
        poetry config x y => the word x
        poetry env use ./e => the subcommand use
        conda config --set x y => the subcommand config
        uvx --python=./e ruff => the word ./e",
        );
    }

    #[test]
    fn everyday_use_of_system_package_managers_is_known() {
        harmless(
            "apt-get update
        apt-get install -y --no-install-recommends curl git
        apt-get -qq install jq
        apt list --installed
        apt show curl
        apt-cache policy curl
        dpkg -l
        dpkg -L curl
        dpkg -S /usr/bin/curl
        dpkg --print-architecture
        dpkg-query -W -f '${Version}' curl
        rpm -qa
        rpm -ql bash
        dnf install -y gcc
        yum list installed
        pacman -Syu --noconfirm
        pacman -Qi bash
        apk add --no-cache curl
        brew install jq
        brew list --versions
        snap list
        nix build
        nix flake check
        gem install bundler -v 2.4
        gem list
        bundle install --jobs 4
        bundle exec rspec spec/x_spec.rb
        bundle exec rubocop -a
        bundle exec rake db:migrate
        rails db:migrate
        rails test
        composer install --no-interaction --prefer-dist
        composer require monolog/monolog
        composer test
        pyenv versions
        asdf current
        mise install",
        );
    }

    #[test]
    fn hooks_and_inner_commands_are_found() {
        check(
            "apt-get -o Dpkg::Pre-Invoke::=id update => the option -o
        apt-get update -oAPT::Update::Pre-Invoke::=id => the option -o
        apt-get changelog apt => the subcommand changelog
        apt -c x update => the option -c
        apt edit-sources => the subcommand edit-sources
        apt install ./x.deb => code ./x.deb
        dpkg -i x.deb => code x.deb
        dpkg -i x.txt => code x.txt
        rpm -U x.txt => code x.txt
        gem install x.gem => code x.gem
        gem install x.txt => code x.txt
        dpkg --pre-invoke=id -i x.deb => the option --pre-invoke
        dpkg --instdir=x -i y => the option --instdir
        rpm --eval '%(id)' => the option --eval
        rpm -E '%(id)' => the option -E
        rpm -q --pipe id => the option --pipe
        rpm --define 'x y' => the option --define
        rpm -ivh ./x.rpm => code ./x.rpm
        dnf -c x install y => the option -c
        yum --setopt=plugins=1 list => the option --setopt
        yum localinstall x.rpm => the subcommand localinstall
        pacman --hookdir x -S y => the option --hookdir
        pacman --config x => the option --config
        pacman -U x.pkg => the option -U
        brew sh => the subcommand sh
        snap run x => the subcommand run
        nix-shell --run id => Bash script id
        nix-shell -p x => code from input
        nix run x => the subcommand run
        nix develop -c id => runs id
        nix shell ls -c touch x => runs touch x
        nix shell ls --arg x y => the word --arg
        mise x eslint -- id => the subcommand x
        gem open -e id x => the subcommand open
        gem exec x => the subcommand exec
        gem build x.gemspec => code x.gemspec
        bundle open x => the subcommand open
        bundle help => the subcommand help
        bundle exec id => runs id
        bundle config set x y => the subcommand config
        rails console => the subcommand console
        rails runner x => the subcommand runner
        composer exec id => runs id
        composer config x y => the subcommand config
        pyenv exec id => runs id
        update-alternatives --install a b c 1 => the option --install
        certbot certonly --pre-hook id => the option --pre-hook
        puppet apply -e x => the option -e
        puppet apply x.pp => the word apply
        facter --custom-dir=x => the option --custom-dir
        cpan ! => the word !",
        );
    }
}
