//! Build tools, compilers, test runners and linters: operands that a table cannot describe.

use super::entry::{
    ArgumentEffect, Judged, ProgramEntry, is_plain_text, refuse, refuse_argument_files,
};
use crate::command::Word;
use crate::options::{Arguments, has_word};

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
        let setting = word.value().ok_or_else(|| format!("the word {word}"))?;
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
    let unknown = |word: &Word| !MAVEN_GOALS.split_ascii_whitespace().any(|goal| word.is(goal));
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
    const OTHER: [&str; 12] = [
        "exec",
        "e",
        "devenv",
        "d",
        "quickstart",
        "q",
        "legacy",
        "le",
        "schema",
        "man",
        "depends",
        "de",
    ];
    let first = found.operands.first();
    refuse(first, |word| OTHER.iter().any(|name| word.is(name))).map(|()| Vec::new())
}

/// After `--` clippy takes options of rustc; those that set the level of a lint are harmless.
pub(super) fn lints(found: &Arguments) -> Judged {
    let mut words = found.operands.iter();
    while let Some(word) = words.next() {
        let text = word.value().ok_or_else(|| format!("the word {word}"))?;
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
        let text = word.value().ok_or_else(|| format!("the word {word}"))?;
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
        let kinds = word.value().ok_or_else(|| format!("the word {word}"))?;
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
        let text = word.value().ok_or_else(|| format!("the word {word}"))?;
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
    Ok(formats
        .filter(|word| word.text.contains('/'))
        .cloned()
        .map(ArgumentEffect::ReadsCode)
        .collect())
}

/// Jest takes patterns; `react-scripts` takes a script's name first.
pub(super) fn jest(found: &Arguments) -> Judged {
    refuse(&found.operands, |word| word.is("eject")).map(|()| Vec::new())
}

/// Words by which a JavaScript tool starts commands that are given to it: `nyc CMD`, `nx exec`,
/// `turbo run`, `lerna exec`, `npx playwright open`.
pub(super) fn js_tool(found: &Arguments) -> Judged {
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
        .map(ArgumentEffect::ReadsCode)
        .collect())
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

#[cfg(test)]
mod tests {
    use crate::strict::tools::tests::{check, harmless};

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
}
