//! Test runners, linters, formatters and bundlers.
//!
//! They run the project's own tests and configuration, which is not looked into. Options that name
//! plugins and configurations are reported as code, or are not listed.
//!
//! An entry marked "Unchecked", or without a version, has yet to be compared with the program's own
//! help; the version is the one that it is meant for.

use super::consequence::{Consequence, Doubt};
use super::dispatch::Judgement;
use super::entry::{
    OPAQUE, OperandRole, PLAIN, ToolEntry, judge_by, refuse, refuse_argument_files,
};
use super::options::Arguments;
use crate::command::Word;

/// Configuration of tools of the Python world.
const PYTHON_FILES: &str = "pyproject.toml setup.cfg";

/// Configuration of tools of the JavaScript world.
const JS_FILES: &str = "package.json";

const TABLE: &[ToolEntry] = &[
    // Unchecked. pytest 8 with the plugins cov, xdist, timeout, asyncio, mock, randomly and
    // rerunfailures. `--pdb` and `--trace` read commands from the input, `-o` changes settings.
    ToolEntry {
        names: "pytest py.test",
        options: "-k= -m= -x -q -v -s -l -h -V -r= -n= -p= -c= -W= --exitfirst --maxfail= \
            --quiet --verbose --verbosity= --version --help --markers --fixtures --lf \
            --last-failed --ff --failed-first --nf --new-first --sw --stepwise --stepwise-skip \
            --cache-show? --cache-clear --lfnf= --last-failed-no-failures= --durations= \
            --durations-min= --tb= --no-header --no-summary --showlocals --show-capture= --capture= \
            --full-trace --color= --code-highlight= --junitxml= --junit-xml= --junit-prefix= \
            --disable-warnings --disable-pytest-warnings --pythonwarnings= --strict-config \
            --strict-markers --strict --continue-on-collection-errors --rootdir= --co --collect-only \
            --pyargs --ignore= --ignore-glob= --deselect= --confcutdir= --noconftest \
            --keep-duplicates --collect-in-virtualenv --import-mode= --doctest-modules \
            --doctest-glob= --doctest-report= --doctest-continue-on-failure --log-level= --log-cli-level= \
            --log-format= --log-file= --no-cov --cov? --cov-report= --cov-branch --cov-append \
            --cov-fail-under= --cov-config= --cov-context= --numprocesses= --dist= --maxprocesses= \
            --timeout= --timeout-method= --asyncio-mode= --reruns= --reruns-delay= --randomly-seed= \
            --benchmark-only --benchmark-skip --benchmark-disable --snapshot-update --forked \
            --runxfail --setup-show --setup-only --setup-plan --reuse-db --create-db --nomigrations \
            --count= --instafail --headed --browser= --html= --self-contained-html --ds=",
        code: "-c --rootdir --confcutdir --cov-config",
        writes: "--junitxml --junit-xml --log-file --html",
        files: "conftest.py pytest.ini pyproject.toml tox.ini setup.cfg .coveragerc",
        operands: OperandRole::Judged(pytest),
        ..OPAQUE
    },
    // Unchecked. coverage 7: `run` takes a Python program.
    ToolEntry {
        names: "coverage",
        options: "--version --help -h",
        operands: OperandRole::Subcommand(&[
            ToolEntry {
                names: "run",
                options: "-a --append --branch -m=> --source= --omit= --include= -p --parallel-mode \
                    --rcfile= --data-file= --timid",
                code: "--rcfile",
                writes: "--data-file",
                files: ".coveragerc pyproject.toml setup.cfg tox.ini",
                operands: OperandRole::Script,
                inline: "-m",
                ..OPAQUE
            },
            ToolEntry {
                names: "report html xml json lcov combine erase annotate",
                options: "-m --show-missing -i --ignore-errors --omit= --include= --fail-under= -d= \
                    --directory= -o= --rcfile= --skip-covered --skip-empty --precision= --sort= \
                    --format= --keep -a --append --pretty-print --data-file= -q",
                code: "--rcfile",
                writes: "-o --data-file",
                directories: "-d --directory",
                files: ".coveragerc pyproject.toml setup.cfg tox.ini",
                ..OPAQUE
            },
        ]),
        ..OPAQUE
    },
    // Unchecked. ruff 0.4, ruff help. It starts nothing and has no plugins.
    ToolEntry {
        names: "ruff",
        options: "-V --version -h --help -v --verbose -q --quiet -s --silent --isolated",
        shared: "-v --verbose -q --quiet -s --silent --config= --isolated --fix --no-fix \
            --unsafe-fixes --diff --watch -w --select= --ignore= --extend-select= --extend-ignore= \
            --per-file-ignores= --fixable= --unfixable= --exclude= --extend-exclude= --force-exclude \
            --respect-gitignore --no-cache -n --cache-dir= --stdin-filename= -e --exit-zero \
            --exit-non-zero-on-fix --statistics --show-files --show-settings --show-fixes \
            --output-format= --target-version= --preview --no-preview --line-length= --check \
            --add-noqa --range= --all",
        operands: OperandRole::Subcommand(&[ToolEntry {
            names: "check format rule config linter clean version",
            directories: "--cache-dir",
            operands: OperandRole::Formatted,
            ..PLAIN
        }]),
        ..PLAIN
    },
    // Unchecked. mypy 1.10. `--python-executable` and `--install-types` start programs.
    ToolEntry {
        names: "mypy dmypy",
        options: "-h --help -v --verbose -V --version -O= --output= --config-file= \
            --warn-unused-configs --no-namespace-packages --ignore-missing-imports --follow-imports= \
            --python-version= --platform= --disallow-any-unimported --disallow-any-expr \
            --disallow-any-generics --disallow-untyped-calls --disallow-untyped-defs \
            --disallow-incomplete-defs --check-untyped-defs --disallow-untyped-decorators \
            --no-implicit-optional --warn-redundant-casts --warn-unused-ignores --no-warn-no-return \
            --warn-return-any --warn-unreachable --strict --strict-equality --show-error-context \
            --show-column-numbers --show-error-codes --hide-error-codes --pretty --no-color-output \
            --no-error-summary --no-incremental --cache-dir= --exclude= -m= --module= -p= --package= \
            -c= --enable-error-code= --disable-error-code= --explicit-package-bases \
            --namespace-packages --scripts-are-modules --no-site-packages --show-absolute-path",
        code: "--config-file",
        directories: "--cache-dir",
        files: "mypy.ini .mypy.ini pyproject.toml setup.cfg",
        operands: OperandRole::Judged(no_argument_files),
        ..OPAQUE
    },
    // Unchecked. pyright 1.1, pyright --help.
    ToolEntry {
        names: "pyright basedpyright",
        options: "--help -h --version --outputjson --verbose --stats -p= --project= --level= \
            --pythonplatform= --pythonversion= --warnings --skipunannotated --dependencies",
        code: "-p --project",
        files: "pyrightconfig.json pyproject.toml",
        ..OPAQUE
    },
    // Unchecked. black 24, isort 5, autopep8, pyupgrade: formatters without plugins.
    ToolEntry {
        names: "black isort autopep8 yapf pyupgrade autoflake docformatter usort",
        options: "-l= --line-length= -t= --target-version= --check --check-only -c --diff -d -q \
            --quiet -v --verbose -S --skip-string-normalization -C --skip-magic-trailing-comma \
            --fast --safe --color --no-color --include= --exclude= --extend-exclude= \
            --force-exclude= --stdin-filename= -W= --workers= --version -h --help --config= \
            --preview --profile= --settings-path= --sp= -i --in-place -r --recursive --aggressive -a \
            --max-line-length= --py36-plus --py37-plus --py38-plus --py39-plus --py310-plus \
            --py311-plus --remove-all-unused-imports --style= -p --parallel --atomic --float-to-top",
        code: "--settings-path --sp",
        files: PYTHON_FILES,
        operands: OperandRole::Formatted,
        ..OPAQUE
    },
    // Unchecked. flake8 7. `--append-config` and the configuration name local plugins.
    ToolEntry {
        names: "flake8 pycodestyle pyflakes pydocstyle vulture radon bandit",
        options: "-h --help -v --verbose --version -q --quiet --color= --count --exclude= \
            --extend-exclude= --filename= --format= --hang-closing --ignore= --extend-ignore= \
            --per-file-ignores= --max-line-length= --max-doc-length= --select= --extend-select= \
            --disable-noqa --show-source --no-show-source --statistics --exit-zero -j= --jobs= \
            --tee --benchmark --max-complexity= --isolated --config= --convention= -r -l -i \
            -x= -s --min-confidence= --output-file=",
        code: "--config",
        writes: "--output-file",
        files: "setup.cfg tox.ini .flake8",
        ..OPAQUE
    },
    // Unchecked. pylint 3. `--init-hook` and `--load-plugins` run code.
    ToolEntry {
        names: "pylint",
        options: "-h --help --version -v --verbose --rcfile= --disable= -d= --enable= -e= -E \
            --errors-only -r= --reports= -f= --output-format= -j= --jobs= --max-line-length= \
            --fail-under= --fail-on= --ignore= --ignore-patterns= --ignore-paths= --score= -s= \
            --msg-template= --list-msgs --exit-zero --recursive= --persistent= --py-version=",
        code: "--rcfile",
        files: "pylintrc .pylintrc pylintrc.toml pyproject.toml setup.cfg",
        ..OPAQUE
    },
    ToolEntry {
        names: "pre-commit",
        options: "--version -V -h --help",
        operands: OperandRole::Subcommand(&[ToolEntry {
            names: "run install autoupdate validate-config clean gc install-hooks uninstall",
            options: "-a --all-files --files --from-ref= --to-ref= -v --verbose \
                --show-diff-on-failure --hook-stage= -c= --config= --color= -t= --hook-type= --overwrite \
                --install-hooks --bleeding-edge --freeze --repo=",
            code: "-c --config",
            files: ".pre-commit-config.yaml",
            ..OPAQUE
        }]),
        ..OPAQUE
    },
    // Unchecked. ESLint 9, eslint --help. A formatter or a parser may be a file of code.
    ToolEntry {
        names: "eslint xo standard",
        options: "--ext= -c= --config= --no-config-lookup --no-eslintrc --env= --global= --fix \
            --fix-dry-run --fix-type= --ignore-path= --no-ignore --ignore-pattern= --stdin \
            --stdin-filename= --quiet --max-warnings= -o= --output-file= -f= --format= --color \
            --no-color --no-inline-config --report-unused-disable-directives \
            --report-unused-disable-directives-severity= --cache --cache-location= --cache-strategy= \
            --no-error-on-unmatched-pattern --exit-on-fatal-error --debug -h --help -v --version \
            --env-info --print-config= --rule= --no-warn-ignored --pass-on-no-patterns --rulesdir= \
            --resolve-plugins-relative-to= --concurrency=",
        code: "-c --config --rulesdir --resolve-plugins-relative-to",
        writes: "-o --output-file --cache-location",
        files: "eslint.config.js eslint.config.mjs eslint.config.cjs eslint.config.ts .eslintrc \
            .eslintrc.js .eslintrc.cjs .eslintrc.json .eslintrc.yml package.json",
        operands: OperandRole::Judged(eslint),
        ..OPAQUE
    },
    // Unchecked. Prettier 3, prettier --help.
    ToolEntry {
        names: "prettier",
        options: "-c --check -l --list-different -u --ignore-unknown -w --write --config= --no-config \
            --config-precedence= --ignore-path= --no-editorconfig --with-node-modules --parser= \
            --print-width= --tab-width= --use-tabs --no-semi --single-quote --quote-props= \
            --trailing-comma= --prose-wrap= --end-of-line= --arrow-parens= --no-bracket-spacing \
            --bracket-same-line --jsx-single-quote --cache --cache-location= --cache-strategy= --color \
            --no-color --error-on-unmatched-pattern --no-error-on-unmatched-pattern \
            --log-level= --loglevel= --stdin-filepath= -h --help -v --version --find-config-path= \
            --file-info= --support-info --check-ignore-pragma --plugin=",
        code: "--config --plugin",
        files: ".prettierrc .prettierrc.js .prettierrc.cjs .prettierrc.mjs .prettierrc.json \
            prettier.config.js prettier.config.mjs prettier.config.cjs package.json",
        operands: OperandRole::Formatted,
        ..OPAQUE
    },
    // Unchecked. TypeScript 5, tsc --help. The compiler starts nothing; it only writes what it
    // compiles.
    ToolEntry {
        names: "tsc vue-tsc",
        options: "-p= --project= -b --build --noEmit -w --watch --init --showConfig -v --version -h \
            --help --all --pretty --strict --target= -t= --module= -m= --lib= --jsx= --outDir= \
            --rootDir= --declaration -d --emitDeclarationOnly --sourceMap --skipLibCheck \
            --esModuleInterop --incremental --noUnusedLocals --noUnusedParameters --listFiles \
            --traceResolution --moduleResolution= --types= --force --verbose --clean --dry \
            --noEmitOnError --allowJs --checkJs --resolveJsonModule --isolatedModules \
            --noImplicitAny --extendedDiagnostics --diagnostics --preserveWatchOutput --composite \
            --tsBuildInfoFile=",
        code: "-p --project",
        writes: "--tsBuildInfoFile",
        directories: "--outDir",
        files: "tsconfig.json",
        operands: OperandRole::Judged(no_argument_files),
        ..OPAQUE
    },
    // Unchecked. Jest 29, jest --help. Options that name modules to load are not listed.
    ToolEntry {
        names: "jest react-scripts",
        options: "-c= --config= -i --runInBand -t= --testNamePattern= --testPathPattern= \
            --testPathPatterns= --testMatch= --coverage? --collectCoverage --collectCoverageFrom= \
            --coverageDirectory= --watch? --watchAll? --no-watch --no-coverage --ci --verbose --silent \
            -u --updateSnapshot -o --onlyChanged --onlyFailures -f --bail? -b -w= --maxWorkers= \
            --passWithNoTests --listTests --showConfig --no-cache --clearCache --forceExit \
            --detectOpenHandles --logHeapUsage --runTestsByPath --findRelatedTests --json \
            --outputFile= --color --colors --testTimeout= --selectProjects --expand -e --version -v -h \
            --help --errorOnDeprecated --shard= --randomize --seed= --changedSince= --noStackTrace \
            --workerIdleMemoryLimit= --openHandlesTimeout= --testRegex= --rootDir=",
        code: "-c --config --rootDir",
        writes: "--outputFile",
        directories: "--coverageDirectory",
        files: "jest.config.js jest.config.ts jest.config.mjs jest.config.cjs jest.config.json \
            package.json babel.config.js .babelrc",
        operands: OperandRole::Judged(jest),
        ..OPAQUE
    },
    // Unchecked. Vitest 1, Vite 5, Next 14, Playwright 1.4, Cypress 13 and other tools of a
    // JavaScript project: the configuration is code, so only options that select and print are
    // listed.
    ToolEntry {
        names: "vitest vite next nuxt astro remix rollup webpack webpack-cli parcel esbuild swc tsup \
            playwright cypress mocha ava stylelint turbo nx lerna ng vue-cli-service \
            svelte-check svelte-kit storybook rimraf biome oxlint depcheck knip madge typedoc \
            commitlint markdownlint htmlhint prisma drizzle-kit tailwindcss postcss sass",
        options: "-c= --config= -t= --testNamePattern= --grep= -g= --coverage? --coverage.enabled? \
            --watch? --no-watch --run --silent --passWithNoTests --update -u --changed --bail? \
            --reporter= -R= --project= --browser= --headed --headless --ui --workers= --retries= \
            --timeout= --exit --recursive --parallel --jobs= -j= --mode= --host? --port= -p= --open=false \
            --outDir= -o= --minify --sourcemap? --base= --production --prod --development --env= \
            --strict --fix --write --check --quiet --verbose --version -v -V -h --help --no-color --color \
            --allow-empty-input --max-warnings= --formatter= --log-level= --since= --filter= \
            --scope= --all --skip-nx-cache --no-cache --force --tsconfig= --threshold= --fail-on-warnings \
            --spec= --shard= --max-failures= --repeat-each= --list --last-failed --debug --apply --bundle \
            --outfile= --outdir= --format= --platform= --target= --skip-generate --name= --schema= -i= -w",
        code: "-c --config --tsconfig --schema",
        writes: "-o --outfile",
        directories: "--outDir --outdir",
        files: JS_FILES,
        operands: OperandRole::Judged(js_tool),
        ..OPAQUE
    },
    // Unchecked. nyc 15, c8 8: they run another command.
    ToolEntry {
        names: "nyc c8",
        // A list takes all words up to the next option, so it has to be attached.
        options: "--reporter=* --all --check-coverage --lines=* --branches=* --version --help",
        operands: OperandRole::Command(0),
        files: JS_FILES,
        ..OPAQUE
    },
    // Unchecked. ts-node 10, tsx 4: interpreters of TypeScript.
    ToolEntry {
        names: "ts-node tsx ts-node-esm esno babel-node",
        options: "-T --transpile-only -P= --project= -e= --eval= -p= --print= --esm --files -v \
            --version -h --help --tsconfig= -r= --require= --import= --test",
        code: "-P --project --tsconfig -r --require --import",
        files: "tsconfig.json package.json",
        inline: "-e --eval -p --print -v --version -h --help --test",
        operands: OperandRole::Script,
        ..OPAQUE
    },
    // Unchecked. PHPUnit 10, PHPStan 1, Pest, PHP CS Fixer.
    ToolEntry {
        names: "phpunit pest phpstan psalm php-cs-fixer phpcs phpcbf",
        options: "--filter= --group= --exclude-group= --testsuite= -c= --configuration= --bootstrap= \
            --coverage-text --coverage-html= --coverage-clover= --stop-on-failure --stop-on-error \
            --testdox --colors? --no-coverage --log-junit= --list-tests --version -h --help -v \
            --debug --display-warnings --display-deprecations --fail-on-warning --no-progress -l= \
            --level= --memory-limit= --error-format= --ansi --no-ansi -n --no-interaction --dry-run \
            --diff --config= --allow-risky= --standard= --extensions= --ignore= -p -s --parallel",
        code: "-c --configuration --bootstrap --config --standard",
        writes: "--log-junit --coverage-clover",
        directories: "--coverage-html",
        files: "phpunit.xml phpunit.xml.dist phpstan.neon phpstan.neon.dist composer.json",
        ..OPAQUE
    },
    // Unchecked. RSpec 3, RuboCop 1, Minitest.
    ToolEntry {
        names: "rspec rubocop standardrb minitest",
        options: "-I= -r= --require= -O= --options= -e= --example= -t= --tag= -f= --format= -o= --out= \
            -c --color --no-color --fail-fast? --only-failures -n --next-failure --order= --seed= -p? \
            --profile? --dry-run -b --backtrace -w --warnings --version -v -h --help -P= --pattern= \
            -a -A --autocorrect --autocorrect-all --only= --except= --config= --display-cop-names -D \
            --parallel --fail-level= -l --lint -x --list-target-files -L",
        code: "-I -r --require -O --options --config",
        writes: "-o --out",
        files: ".rspec .rubocop.yml Gemfile Rakefile spec/spec_helper.rb",
        ..OPAQUE
    },
    // shellcheck, shfmt, hadolint, yamllint, actionlint: they start nothing, except that actionlint
    // takes the paths of other checkers.
    ToolEntry {
        names: "actionlint",
        options: "-color -no-color -oneline -verbose -version -ignore= -format=",
        ..OPAQUE
    },
];

/// Judges a test runner or a linter.
pub(super) fn consequences(program: &str, args: &[Word]) -> Judgement {
    judge_by(TABLE, program, args)
}

/// `-p name` imports a module, which may lie in the working directory.
fn pytest(found: &Arguments) -> Result<Vec<Consequence>, Doubt> {
    refuse_argument_files(found)?;
    let plugins = found.values(&["-p"]).filter(|word| !word.text.starts_with("no:"));
    let files = plugins.map(|word| match word.value() {
        Some(name) => {
            let file = format!("{}.py", name.replace('.', "/"));
            Ok(Consequence::ReadsCode(Word::literal(file)))
        }
        None => Err(format!("the word {word}")),
    });
    files.collect()
}

fn no_argument_files(found: &Arguments) -> Result<Vec<Consequence>, Doubt> {
    refuse_argument_files(found).map(|()| Vec::new())
}

/// A formatter by name is part of ESLint; one by path is code.
fn eslint(found: &Arguments) -> Result<Vec<Consequence>, Doubt> {
    let formats = found.values(&["-f", "--format"]);
    Ok(formats
        .filter(|word| word.text.contains('/'))
        .cloned()
        .map(Consequence::ReadsCode)
        .collect())
}

/// Jest takes patterns; `react-scripts` takes a script's name first.
fn jest(found: &Arguments) -> Result<Vec<Consequence>, Doubt> {
    refuse(&found.operands, |word| word.is("eject")).map(|()| Vec::new())
}

/// Words by which a JavaScript tool starts commands that are given to it: `nyc CMD`, `nx exec`,
/// `turbo run`, `lerna exec`, `npx playwright open`.
fn js_tool(found: &Arguments) -> Result<Vec<Consequence>, Doubt> {
    const OTHER: [&str; 11] = [
        "exec",
        "open",
        "codegen",
        "dlx",
        "init",
        "create",
        "add",
        "studio",
        "gen",
        "generate-app",
        "db-execute",
    ];
    refuse(found.operands.first(), |word| OTHER.iter().any(|name| word.is(name)))?;
    let reporters = found.values(&["--reporter", "-R", "--formatter"]);
    Ok(reporters
        .filter(|word| word.text.contains('/'))
        .cloned()
        .map(Consequence::ReadsCode)
        .collect())
}

#[cfg(test)]
mod tests {
    use super::super::table_checks::{check, harmless};

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
}
