//! Package managers of JavaScript and Python, and the commands that run what they install.
//!
//! Scripts and packages of a project are not looked into. A command behind `npx`, `uv run` and the
//! like is another command, unless it is a well-known test runner or linter, which such a manager
//! takes from the project; then its arguments are judged by its own entry.
//!
//! An entry marked "Unchecked", or without a version, has yet to be compared with the program's own
//! help; the version is the one that it is meant for.

use super::consequence::{Consequence, Doubt};
use super::dispatch::{self, Judgement};
use super::entry::{OPAQUE, OperandRole, PLAIN, ToolEntry, judge_by, refuse};
use super::option_spec::OptionSpec;
use super::options::{Arguments, Order, is_operand};
use super::package_operands::{
    PROJECT_TOOLS, indexed_packages, installed_packages, is_in, is_index_package, local_packages,
    project_tool, tool_beside,
};
use crate::command::{Shell, Word};

/// Options of npm 11.19.1 (npm help config) that are harmless with every subcommand. npm takes
/// every setting as an option, `script-shell` and `node-options` among them.
const NPM: &str = "-ws --workspaces -w= --workspace= --include-workspace-root -iwr -g --global --location= \
    -s -q -d -dd -ddd --silent --quiet --verbose --loglevel= -v --version -h -l --long -a --all --json \
    --parseable -p --depth= --production --omit= --include= --only= --dev -D -S -E -O -P -B \
    --save --no-save --save-dev --save-exact --save-optional --save-peer --save-prod --save-bundle \
    --legacy-peer-deps --strict-peer-deps --force -f --ignore-scripts --no-audit --no-fund --audit=false \
    --fund=false --no-optional --no-package-lock --package-lock-only --prefer-offline \
    --prefer-online --offline --dry-run --if-present -y --yes --no-progress --progress=false \
    --no-color --color=* --audit-level= --fix --tag= --access= --otp= --registry= --no-git-tag-version \
    --allow-same-version --preid= --engine-strict --no-bin-links --foreground-scripts \
    --install-strategy= --prefix= -C= --no-update-notifier --update-notifier=false -m= \
    --message= --searchlimit= --cache= --no-shrinkwrap --max-sockets= --fetch-timeout= \
    --fetch-retries= --no-workspaces --sbom-format= --install-links --provenance";

const NPM_CODE: &str = "--prefix -C";

/// Files by which package managers of JavaScript are configured.
const JS_FILES: &str = "package.json .npmrc .yarnrc .yarnrc.yml .pnpmfile.cjs pnpm-workspace.yaml \
    bunfig.toml";

const NPM_COMMAND: ToolEntry = ToolEntry { code: NPM_CODE, files: JS_FILES, ..OPAQUE };

const NPM_SUBCOMMANDS: &[ToolEntry] = &[
    ToolEntry {
        names: "install i in ins add install-test it update up upgrade udpate pack publish init create \
            innit link ln",
        operands: OperandRole::Judged(installed_packages),
        ..NPM_COMMAND
    },
    ToolEntry {
        names: "test t tst run run-script rum urn start stop restart ci \
            clean-install ic cit install-ci-test uninstall un unlink remove rm r \
            ls list ll la outdated view info show v audit version \
            dedupe ddp prune rebuild rb fund search s se find whoami ping \
            root prefix bin doctor explain why query sbom dist-tag dist-tags cache deprecate \
            unpublish owner logout login adduser completion shrinkwrap find-dupes access team token \
            profile diff star stars",
        ..NPM_COMMAND
    },
    ToolEntry { names: "exec x", ..NPM_EXEC },
    ToolEntry {
        names: "config c",
        operands: OperandRole::Subcommand(&[ToolEntry { names: "get list ls", ..PLAIN }]),
        ..PLAIN
    },
    ToolEntry { names: "get", ..PLAIN },
    ToolEntry { names: "pkg", operands: OperandRole::Judged(npm_pkg), ..PLAIN },
];

const NPM_EXEC: ToolEntry = ToolEntry {
    options: "-y --yes --no --no-install -p= --package= -c= --call= -q --quiet -w= --workspace= \
        -ws --prefer-offline --offline --ignore-existing",
    operands: OperandRole::JudgedFirst(npx),
    code: "-p --package",
    files: JS_FILES,
    ..OPAQUE
};

/// Unchecked. Options of pnpm 9 and Yarn 1 and 4 that are harmless with every subcommand.
const PNPM: &str = "-r --recursive -w --workspace-root -F= --filter= -C= --dir= --cwd= -s --silent \
    --reporter= --loglevel= --color --no-color --stream --aggregate-output -g --global -D -P -O -E \
    --save-dev --dev --save-exact --save-peer --save-optional --prod --production --exact -T -o \
    --frozen-lockfile --no-frozen-lockfile --immutable --immutable-cache --check-cache --offline \
    --prefer-offline --ignore-scripts --lockfile-only --mode= --force --latest -L -i --if-present \
    --parallel --no-bail --workspace-concurrency= --non-interactive --no-optional --no-dev --json \
    --depth= --long --version -v -h --help --fix --audit-level= --ignore-engines --no-lockfile \
    --pure-lockfile --network-timeout= --no-progress --verbose --level= --groups= -y -W \
    --ignore-workspace-root-check --shamefully-hoist --strict-peer-dependencies --tag= --access= \
    --no-git-checks --dry-run --changed-files-ignore-pattern= --resume-from= --pattern= --all -A";

const PNPM_CODE: &str = "-C --dir --cwd";

const PNPM_SUBCOMMANDS: &[ToolEntry] = &[
    ToolEntry {
        names: "install i add update up upgrade upgrade-interactive link publish pack",
        code: PNPM_CODE,
        files: JS_FILES,
        operands: OperandRole::Judged(installed_packages),
        ..OPAQUE
    },
    ToolEntry {
        names: "remove rm un uninstall run test t \
            start restart ls list la ll outdated why audit prune rebuild rb unlink dedupe \
            version import fetch store root bin licenses deploy init info check build \
            lint dev format fmt typecheck type-check types compile watch clean preview serve e2e \
            lint:fix format:check test:unit test:e2e test:ci coverage ci release docs migrate seed \
            generate codegen check-types tsc:check prepare changeset cache workspaces policies",
        code: PNPM_CODE,
        files: JS_FILES,
        ..OPAQUE
    },
    ToolEntry { names: "exec dlx", ..NPM_EXEC },
    ToolEntry {
        names: "config c",
        operands: OperandRole::Subcommand(&[ToolEntry { names: "get list", ..PLAIN }]),
        ..PLAIN
    },
];

/// Options of pip 23.2 (pip help install) that start nothing. `--python` names another interpreter,
/// `--keyring-provider` another program, `--config-settings` options of the build.
const PIP: &str = "-h --help --debug --isolated --require-virtualenv -v --verbose -V --version -q \
    --quiet --no-input --retries= --timeout= --proxy= --exists-action= --trusted-host= --cert= \
    --client-cert= --cache-dir= --no-cache-dir --disable-pip-version-check --no-color -r= \
    --requirement= -c= --constraint= --no-deps --pre -e= --editable= --dry-run -t= --target= \
    --platform= --python-version= --implementation= --abi= --user --root= --prefix= --src= -U \
    --upgrade --upgrade-strategy= --force-reinstall -I --ignore-installed --ignore-requires-python \
    --no-build-isolation --use-pep517 --check-build-dependencies --break-system-packages \
    --compile --no-compile --no-warn-script-location --no-warn-conflicts --no-binary= \
    --only-binary= --prefer-binary --require-hashes --progress-bar= --root-user-action= --report= \
    --no-clean -i= --index-url= --extra-index-url= --no-index -f= --find-links= -y --yes \
    -l --local --path= --exclude= --exclude-editable --outdated -o --uptodate -u --format= \
    --not-required --include-editable --all -w= --wheel-dir= -d= --dest= --files --index --versions";

const PIP_COMMAND: ToolEntry = ToolEntry {
    code: "-r --requirement -c --constraint -e --editable -f --find-links",
    writes: "--report",
    directories: "-t --target --root --prefix --src -w --wheel-dir -d --dest --cache-dir",
    files: "pyproject.toml setup.py setup.cfg",
    operands: OperandRole::Judged(local_packages),
    ..OPAQUE
};

const PIP_SUBCOMMANDS: &[ToolEntry] = &[
    ToolEntry {
        names: "install download wheel sync compile",
        operands: OperandRole::Judged(indexed_packages),
        ..PIP_COMMAND
    },
    ToolEntry { names: "uninstall freeze list show check index inspect hash tree", ..PIP_COMMAND },
    ToolEntry {
        names: "config cache",
        operands: OperandRole::Subcommand(&[ToolEntry {
            names: "list get debug dir info purge remove",
            ..PLAIN
        }]),
        ..PLAIN
    },
];

/// Unchecked. Options of uv 0.5 that are harmless with every subcommand.
const UV: &str = "-q --quiet -v --verbose --color= --offline --no-progress --directory= --project= \
    --no-config -h --help -V --version -p= --python= --extra= --all-extras --no-extra= --no-dev --dev --only-dev \
    --group= --no-group= --all-groups --no-editable --inexact --exact --frozen --locked --no-sync \
    --isolated --active --refresh --refresh-package= -U --upgrade -P= --upgrade-package= --index-url= \
    -i= --extra-index-url= --no-index --find-links= --prerelease= --resolution= --no-cache -n \
    --cache-dir= --reinstall --no-build --no-binary --link-mode= --package= --all-packages \
    --no-install-project --no-install-workspace --system --native-tls --allow-insecure-host= \
    --no-managed-python --managed-python";

const UV_COMMAND: ToolEntry = ToolEntry {
    code: "--directory --project --config-file -r --requirement -c --constraint -e --editable",
    files: "pyproject.toml uv.toml setup.py",
    ..OPAQUE
};

const TABLE: &[ToolEntry] = &[
    ToolEntry {
        names: "npm",
        options: NPM,
        shared: NPM,
        operands: OperandRole::Subcommand(NPM_SUBCOMMANDS),
        ..OPAQUE
    },
    ToolEntry { names: "npx pnpx bunx", ..NPM_EXEC },
    ToolEntry {
        names: "pnpm",
        options: "-r --recursive -w --workspace-root -F= --filter= -C= --dir= -s --silent -v --version -h \
            --help",
        shared: PNPM,
        operands: OperandRole::Subcommand(PNPM_SUBCOMMANDS),
        ..OPAQUE
    },
    // An unknown subcommand of Yarn is a script or a program of the project's dependencies.
    ToolEntry {
        names: "yarn yarnpkg",
        options: "-s --silent --frozen-lockfile --immutable --offline --prefer-offline --ignore-scripts \
            --production --non-interactive --force --verbose --json -v --version -h --help --cwd=",
        code: PNPM_CODE,
        files: JS_FILES,
        operands: OperandRole::JudgedFirst(yarn),
        ..OPAQUE
    },
    ToolEntry {
        names: "corepack",
        options: "-v --version",
        operands: OperandRole::Subcommand(&[ToolEntry {
            names: "enable disable prepare install up",
            options: "--activate --all -g --global",
            ..OPAQUE
        }]),
        ..OPAQUE
    },
    // Unchecked. Bun 1.1, bun --help. `bun run` falls back to programs of PATH.
    ToolEntry {
        names: "bun",
        options: "-v --version --revision -h --help --watch --hot --smol --bun -b --silent --cwd= \
            -e= --eval= -p= --print= -r= --preload= --inspect --no-install",
        code: "-r --preload --cwd",
        files: JS_FILES,
        operands: OperandRole::JudgedFirst(bun),
        ..OPAQUE
    },
    ToolEntry {
        names: "pip",
        options: "-h --help --debug --isolated --require-virtualenv -v --verbose -V --version -q --quiet \
            --no-input --retries= --timeout= --proxy= --exists-action= --trusted-host= --cert= \
            --client-cert= --cache-dir= --no-cache-dir --disable-pip-version-check --no-color",
        shared: PIP,
        operands: OperandRole::Subcommand(PIP_SUBCOMMANDS),
        ..OPAQUE
    },
    ToolEntry {
        names: "pipx",
        options: "--version -h --help",
        operands: OperandRole::Subcommand(&[
            ToolEntry {
                names: "install uninstall upgrade upgrade-all list inject reinstall reinstall-all \
                    ensurepath environment",
                options: "-f --force --include-deps --verbose -v -q --quiet --suffix= --short --json",
                operands: OperandRole::Judged(installed_packages),
                ..OPAQUE
            },
            ToolEntry {
                names: "run",
                code: "--spec",
                options: "--spec= --no-cache -q --quiet -v --verbose",
                operands: OperandRole::JudgedFirst(pipx_run),
                ..OPAQUE
            },
        ]),
        ..OPAQUE
    },
    ToolEntry {
        names: "uv",
        options: "-q --quiet -v --verbose --color= --offline --no-progress --directory= --project= \
            --no-config -h --help -V --version --no-cache -n --cache-dir= --native-tls",
        shared: UV,
        operands: OperandRole::Subcommand(&[
            ToolEntry {
                names: "run",
                options: "--with= --with-editable= --with-requirements= -m=> --module=>",
                operands: OperandRole::JudgedFirst(uv_run),
                ..UV_COMMAND
            },
            ToolEntry {
                names: "add remove sync lock venv tree init export build publish version cache self \
                    python format",
                options: "--optional= --editable --raw --rev= --tag= --branch= -r= --requirement= -c= \
                    --constraint= --seed --clear --allow-existing --prompt= --depth= --invert \
                    --outdated --app --lib --name= --no-readme --bare --format= -o= --output-file= \
                    --no-hashes --wheel --sdist --out-dir= --token= --check --dry-run --bump= --short",
                writes: "-o --output-file",
                directories: "--out-dir --cache-dir",
                operands: OperandRole::Judged(uv),
                ..UV_COMMAND
            },
            ToolEntry {
                names: "pip",
                shared: "-r= --requirement= -c= --constraint= -e= --editable= -y --no-deps --pre \
                    -o= --output-file= --format= --user --target= --prefix= --outdated \
                    --strict --dry-run --generate-hashes --no-header --break-system-packages \
                    --all-extras --universal",
                operands: OperandRole::Subcommand(&[ToolEntry {
                    names: "install uninstall freeze list show check sync compile tree",
                    writes: "-o --output-file",
                    directories: "--target --prefix --cache-dir",
                    operands: OperandRole::Judged(uv),
                    ..UV_COMMAND
                }]),
                ..UV_COMMAND
            },
            ToolEntry {
                names: "tool",
                operands: OperandRole::Subcommand(&[
                    ToolEntry {
                        names: "install uninstall upgrade list dir update-shell",
                        options: "--with= --force --all",
                        operands: OperandRole::Judged(uv),
                        ..UV_COMMAND
                    },
                    UVX_RUN,
                ]),
                ..UV_COMMAND
            },
        ]),
        ..OPAQUE
    },
    ToolEntry { names: "uvx", shared: UV, ..UVX_RUN },
    // Unchecked. Poetry 1.8, PDM 2, Hatch 1: `shell`, `config` and `env use` start or set other
    // programs.
    ToolEntry {
        names: "poetry pdm hatch rye pipenv",
        options: "-q --quiet -v --verbose -h --help -V --version -n --no-interaction -C= --directory= -P= \
            --project= --no-ansi",
        shared: "-q --quiet -v --verbose -h --help -V --version --ansi --no-ansi -n --no-interaction \
            -C= --directory= -P= --project= -p= --no-plugins --no-cache",
        operands: OperandRole::Subcommand(&[
            ToolEntry {
                names: "install add remove update lock show build publish check version sync list \
                    new init export outdated test fmt uninstall graph clean fix dep search",
                options: "-D --dev -G= --group= --with= --without= --only= --no-root --sync --all-extras -E= \
                    --extras= --all-groups -e= --editable= --optional --dry-run --no-update --check -t \
                    --tree -l --latest -o= --output= -f= --format= --without-hashes --lock -r= -d -g= -s \
                    --short --no-lock --prod --no-self --frozen --deploy --system -i --regenerate --name=",
                code: "-C --directory -P --project -e --editable -r",
                writes: "-o --output",
                files: "pyproject.toml poetry.toml pdm.toml hatch.toml Pipfile setup.py",
                operands: OperandRole::Judged(installed_packages),
                ..OPAQUE
            },
            ToolEntry {
                names: "run",
                files: "pyproject.toml poetry.toml pdm.toml hatch.toml Pipfile",
                operands: OperandRole::JudgedFirst(project_tool),
                ..OPAQUE
            },
            ToolEntry {
                names: "env",
                operands: OperandRole::Subcommand(&[ToolEntry {
                    names: "info list show activate",
                    options: "-p --path --full-path",
                    ..PLAIN
                }]),
                ..OPAQUE
            },
            ToolEntry {
                names: "config",
                operands: OperandRole::Nothing,
                options: "--list",
                ..PLAIN
            },
        ]),
        ..OPAQUE
    },
    // Unchecked. conda 23, mamba 1.
    ToolEntry {
        names: "conda mamba micromamba",
        options: "-h --help -V --version",
        shared: "-n= --name= -p= --prefix= -c= --channel= -y --yes -q --quiet -v --json --override-channels \
            --offline --dry-run -d --no-deps --force-reinstall --update-all --all -f= --file=",
        operands: OperandRole::Subcommand(&[
            ToolEntry {
                names: "install create update upgrade remove uninstall list info search clean",
                options: "-e --export --revisions -a -s --envs --solver= --strict-channel-priority \
                    --clone= --explicit",
                code: "-f --file",
                ..OPAQUE
            },
            ToolEntry {
                names: "env",
                operands: OperandRole::Subcommand(&[ToolEntry {
                    names: "list create export update remove",
                    options: "--no-builds --from-history --prune",
                    code: "-f --file",
                    ..OPAQUE
                }]),
                ..OPAQUE
            },
            ToolEntry {
                names: "run",
                options: "--no-capture-output --live-stream --cwd=",
                operands: OperandRole::JudgedFirst(project_tool),
                ..OPAQUE
            },
        ]),
        ..OPAQUE
    },
    ToolEntry {
        names: "twine",
        options: "--version -h --help",
        operands: OperandRole::Subcommand(&[ToolEntry {
            names: "upload check",
            options: "-r= --repository= --repository-url= -u= -p= --skip-existing --strict \
                --non-interactive --verbose",
            ..PLAIN
        }]),
        ..PLAIN
    },
    ToolEntry {
        names: "easy_install pyproject-build virtualenv build",
        options: "-h --help --version -w --wheel -s --sdist -o= --outdir= -n --no-isolation -q -v \
            --system-site-packages --clear",
        directories: "-o --outdir",
        files: "pyproject.toml setup.py setup.cfg",
        operands: OperandRole::Judged(installed_packages),
        ..OPAQUE
    },
];

const UVX_RUN: ToolEntry = ToolEntry {
    names: "run",
    options: "--from= --with= --with-editable= --with-requirements=",
    code: "--from --with --with-editable --with-requirements --directory --project",
    operands: OperandRole::JudgedFirst(uv_run),
    ..UV_COMMAND
};

/// Judges a package manager of JavaScript or Python.
pub(super) fn consequences(program: &str, args: &[Word]) -> Judgement {
    judge_by(TABLE, program, args)
}

/// `npx -c TEXT` hands the text to a shell.
fn npx(found: &Arguments) -> Result<Vec<Consequence>, Doubt> {
    const PACKAGES: [&str; 2] = ["-p", "--package"];
    if let Some(call) = found.values(&["-c", "--call"]).next() {
        refuse(found.values(&PACKAGES), |word| !is_index_package(word))?;
        let text = call.value().ok_or_else(|| format!("the word {call}"))?.to_owned();
        return Ok(vec![Consequence::Script { text, shell: Shell::Posix }]);
    }
    tool_beside(&PACKAGES, found, project_tool)
}

fn pipx_run(found: &Arguments) -> Result<Vec<Consequence>, Doubt> {
    tool_beside(&["--spec"], found, project_tool)
}

/// `npm pkg set scripts.test=…` changes what later commands run.
fn npm_pkg(found: &Arguments) -> Result<Vec<Consequence>, Doubt> {
    match found.operands.first() {
        Some(word) if word.is("get") => Ok(Vec::new()),
        Some(word) if word.is("set") || word.is("delete") || word.is("fix") => {
            Ok(vec![Consequence::Writes(Word::literal("package.json"))])
        }
        Some(word) => Err(format!("the subcommand {word}")),
        None => Ok(Vec::new()),
    }
}

fn yarn(found: &Arguments) -> Result<Vec<Consequence>, Doubt> {
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
    if is_in(OTHER, name) || name.contains('/') {
        return Err(format!("the subcommand {name}"));
    }
    // `yarn eslint` and `yarn run eslint` start the project's own program.
    let command = if name == "run" { args } else { found.operands.as_slice() };
    if let Some((tool, args)) = command.split_first()
        && tool.value().is_some_and(|name| is_in(PROJECT_TOOLS, name))
    {
        return dispatch::judge(&tool.text, args).unwrap_or_else(|| Ok(Vec::new()));
    }
    if name == "run" {
        refuse(args.first(), |word| is_operand(word) != Ok(true))?;
    }
    if is_in(YARN_COMMANDS, name) {
        let found = OptionSpec { tokens: &[PNPM], order: Order::Anywhere }.read(args)?;
        return installed_packages(&found);
    }
    // Words behind the name of a script are its own.
    Ok(Vec::new())
}

/// Commands of Yarn itself.
const YARN_COMMANDS: &str = "install add remove upgrade up upgrade-interactive why list info \
    audit outdated cache check dedupe link unlink pack publish version init import licenses";

fn bun(found: &Arguments) -> Result<Vec<Consequence>, Doubt> {
    const OWN: &str = "test install i add a remove rm update outdated link unlink pm build init \
        audit why";
    const OPTIONS: &str = "--watch --coverage --bail? -t= --test-name-pattern= --timeout= -u \
        --update-snapshots --only --todo --rerun-each= -d -D --dev --exact -E --production -p --frozen-lockfile \
        --no-save --force -f -g --global --outdir= --outfile= --target= --minify --sourcemap? \
        --format= --splitting --external= --silent --verbose --no-cache --ignore-scripts --reporter=";
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
        _ if is_in(OWN, name) => {
            let read = OptionSpec { tokens: &[OPTIONS], order: Order::Anywhere }.read(args)?;
            let outputs = read.values(&["--outfile"]).cloned().map(Consequence::Writes);
            let directories = read.values(&["--outdir"]).cloned().map(Consequence::WritesBeneath);
            let mut all: Vec<_> = outputs.chain(directories).collect();
            if is_in("install i add a link", name) {
                all.extend(installed_packages(&read)?);
            }
            Ok(all)
        }
        _ => run_by_bun(&found.operands),
    }
}

/// A file, a script of the project by a usual name, a tool, or any program of PATH.
fn run_by_bun(command: &[Word]) -> Result<Vec<Consequence>, Doubt> {
    const SCRIPTS: &str = "dev build start test lint format typecheck preview check clean watch \
        serve";
    const CODE: [&str; 7] = [".ts", ".tsx", ".js", ".jsx", ".mjs", ".cjs", ".mts"];
    let Some(first) = command.first() else {
        return Ok(Vec::new());
    };
    if CODE.iter().any(|ending| first.text.ends_with(ending)) {
        return Ok(vec![Consequence::ReadsCode(first.clone())]);
    }
    if first.value().is_some_and(|name| is_in(SCRIPTS, name)) {
        return Ok(Vec::new());
    }
    project_tool(&Arguments { operands: command.to_vec(), options: Vec::new() })
}

/// `--python` may be a version, not a path: uv starts the interpreter to ask for its version.
fn uv(found: &Arguments) -> Result<Vec<Consequence>, Doubt> {
    let is_version = |word: &Word| {
        let text = word.value().unwrap_or("/");
        let number = ["python", "cpython", "pypy"].iter().find_map(|name| text.strip_prefix(name));
        let number = number.unwrap_or(text).trim_start_matches(['@', '-']);
        !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')
    };
    refuse(found.values(&["-p", "--python"]), |word| !is_version(word))?;
    indexed_packages(found)
}

fn uv_run(found: &Arguments) -> Result<Vec<Consequence>, Doubt> {
    const PACKAGES: [&str; 4] = ["--from", "--with", "--with-editable", "--with-requirements"];
    let mut all = uv(&Arguments { operands: Vec::new(), options: found.options.clone() })?;
    refuse(found.values(&PACKAGES), |word| !is_index_package(word))?;
    if found.has(&["-m", "--module"]) {
        return Ok(all);
    }
    all.extend(match found.operands.first() {
        Some(word) if word.text.ends_with(".py") => vec![Consequence::ReadsCode(word.clone())],
        Some(word) if word.is("-") => vec![Consequence::ReadsCodeFromInput],
        Some(_) | None => tool_beside(&PACKAGES, found, project_tool)?,
    });
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::super::table_checks::{check, harmless};

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
            npx -c 'touch pwned' => script touch pwned
            npm exec -- id -u => runs id -u
            npm exec -c id => script id
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
}
