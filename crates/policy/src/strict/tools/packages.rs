//! Package managers: packages, which may be files, and the tools that they bring.

use std::sync::LazyLock;

use super::entry::{ArgumentEffect, Judged, command_of, refuse};
use super::programs;
use crate::command::{Shape, ShellSyntax, Word};
use crate::options::{Arguments, OptionOrder, OptionSet, check_operand, has_word};

/// `npx -c TEXT` hands the text to a shell.
pub(super) fn npx(found: &Arguments) -> Judged {
    const PACKAGES: [&str; 2] = ["-p", "--package"];
    if let Some(call) = found.values(&["-c", "--call"]).next() {
        refuse(found.values(&PACKAGES), |word| !is_index_package(word))?;
        let text = call.value().ok_or_else(|| format!("the word {call}"))?.to_owned();
        return Ok(vec![ArgumentEffect::Script { text, shell: ShellSyntax::Posix }]);
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
        && tool.value().is_some_and(|name| has_word(PROJECT_TOOLS, name))
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
    if first.value().is_some_and(|name| has_word(SCRIPTS, name)) {
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
pub(super) const PROJECT_TOOLS: &str = "tsc vue-tsc eslint prettier jest vitest vite next nuxt astro rollup webpack \
    parcel esbuild tsup playwright cypress mocha ava stylelint turbo nx lerna ng svelte-check biome \
    oxlint depcheck knip madge typedoc commitlint prisma drizzle-kit tailwindcss tsx ts-node \
    react-scripts pytest ruff mypy pyright black isort flake8 pylint coverage bandit pre-commit \
    autoflake pyupgrade rspec rubocop rake phpunit phpstan pest";

/// `uv run pytest -q`: a well-known tool of the project, or any other command.
pub(super) fn project_tool(found: &Arguments) -> Judged {
    let Some((first, args)) = found.operands.split_first() else {
        return Ok(Vec::new());
    };
    let text = first.value().ok_or_else(|| format!("the word {first}"))?;
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
    Ok(local.cloned().map(ArgumentEffect::ReadsCode).collect())
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
    Ok(found.operands.iter().filter(is_file).cloned().map(ArgumentEffect::ReadsCode).collect())
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
        Some(word) => {
            let text = word.value().ok_or_else(|| format!("the word {word}"))?.to_owned();
            Ok(vec![ArgumentEffect::Script { text, shell: ShellSyntax::Bash }])
        }
        None => Ok(vec![ArgumentEffect::ReadsCodeFromInput]),
    }
}

#[cfg(test)]
mod tests {
    use crate::strict::tools::tests::{check, harmless};

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
