//! Build tools: make, ninja, CMake, Meson, Maven, Gradle and their kind.
//!
//! The project's own build files are not looked into. Options and variables that replace the
//! programs which a build starts are not listed.
//!
//! An entry marked "Unchecked", or without a version, has yet to be compared with the program's own
//! help; the version is the one that it is meant for.

use super::consequence::{Consequence, Doubt};
use super::dispatch::Judgement;
use super::entry::{OPAQUE, OperandRole, PLAIN, ToolEntry, is_plain_text, judge_by, refuse};
use super::options::Arguments;
use crate::command::Word;

const TABLE: &[ToolEntry] = &[
    // GNU Make 4.3, make --help. `-E` and variables such as SHELL and CC start programs.
    ToolEntry {
        names: "make gmake",
        options: "-b -m -B --always-make -C= --directory= -d --debug? -f= --file= --makefile= -h \
            --help -i --ignore-errors -I= --include-dir= -j? --jobs? -k --keep-going -l? \
            --load-average? --max-load? -L --check-symlink-times -n --just-print --dry-run --recon \
            -o= --old-file= --assume-old= -O? --output-sync? -p --print-data-base -q --question -r \
            --no-builtin-rules -R --no-builtin-variables -s --silent --quiet --no-silent -S \
            --no-keep-going --stop -t --touch --trace -v --version -w --print-directory \
            --no-print-directory -W= --what-if= --new-file= --assume-new= --warn-undefined-variables",
        code: "-f --file --makefile -I --include-dir -C --directory",
        files: "GNUmakefile makefile Makefile",
        operands: OperandRole::Judged(make),
        ..OPAQUE
    },
    // ninja 1.11.1, ninja --help.
    ToolEntry {
        names: "ninja ninja-build samu",
        options: "--version -v --verbose --quiet -C= -f= -j= -k= -l= -n -d= -t= -w= -h --help",
        code: "-f -C",
        files: "build.ninja",
        operands: OperandRole::Judged(plain_targets),
        ..OPAQUE
    },
    // CMake 3.25.1, cmake --help.
    ToolEntry {
        names: "cmake",
        options: "-S= -B= -S* -B* -C= -D= -D* -G= -G* -U= --preset= --preset --list-presets? --toolchain= \
            --install-prefix= -Wdev -Wno-dev -Werror=dev -Wdeprecated -Wno-deprecated -E=> --fresh \
            --build= --install= --prefix= --component= --strip --config= --target= -t= --clean-first \
            --parallel? -j -j* -v --verbose -L -LA -LH -LAH -N -P= --log-level= --trace --trace-expand \
            --version -version --help -h --use-stderr --resolve-package-references= -A= \
            --debug-output --debug-find --warn-uninitialized --no-warn-unused-cli",
        code: "-S -B -C --toolchain -P --build --install",
        directories: "-B --prefix --install-prefix",
        files: "CMakeLists.txt CMakePresets.json CMakeUserPresets.json",
        operands: OperandRole::Judged(cmake),
        ..OPAQUE
    },
    // CMake 3.25.1, ctest --help. `-S`, `-D` and `--build-and-test` run scripts and programs.
    ToolEntry {
        names: "ctest",
        options: "--preset= --list-presets -C= --build-config= --progress -V --verbose -VV \
            --extra-verbose --debug --output-on-failure --stop-on-failure -F -j= -j* --parallel= \
            -Q --quiet -O= --output-log= --output-junit= -N --show-only? -L= --label-regex= -R= \
            --tests-regex= -E= --exclude-regex= -LE= --label-exclude= -I= --tests-information= -U \
            --union --rerun-failed --repeat= --timeout= --stop-time= --schedule-random \
            --test-dir= --print-labels --no-tests= --version --help --test-timeout=",
        code: "--test-dir",
        writes: "-O --output-log --output-junit",
        files: "CTestTestfile.cmake",
        ..OPAQUE
    },
    // Unchecked. Meson 1.0, meson --help. `test --wrapper` and `devenv` start programs.
    ToolEntry {
        names: "meson",
        options: "--version -v -h --help",
        operands: OperandRole::Subcommand(&[
            ToolEntry {
                names: "setup configure",
                options: "--prefix= --buildtype= --reconfigure --wipe -D= -D* --default-library= \
                    --werror --warnlevel= --unity= --strip --debug --optimization= --backend=",
                files: "meson.build meson_options.txt",
                operands: OperandRole::Judged(cmake),
                ..OPAQUE
            },
            ToolEntry {
                names: "compile test install introspect",
                options: "-C= -j= --jobs= -v --verbose --clean --suite= --no-suite= --no-rebuild \
                    --print-errorlogs -q --quiet -t= --timeout-multiplier= --repeat= --list \
                    --destdir= --only-changed --targets --tests --buildoptions --dependencies -a --all",
                code: "-C",
                directories: "--destdir",
                files: "meson.build build.ninja",
                ..OPAQUE
            },
        ]),
        ..OPAQUE
    },
    // Apache Maven 3.8.7, mvn --help. Goals such as exec:exec and properties start programs.
    ToolEntry {
        names: "mvn mvnw mvnd",
        options: "-am --also-make -amd --also-make-dependents -B --batch-mode -C \
            --strict-checksums -c --lax-checksums --color= -D= -D* -e --errors -f= --file= -fae \
            --fail-at-end -ff --fail-fast -fn --fail-never -h --help -l= --log-file= -N \
            --non-recursive -nsu --no-snapshot-updates -ntp --no-transfer-progress -o --offline -P= \
            -P* --activate-profiles= -pl= --projects= -q --quiet -rf= --resume-from= -s= --settings= -T= \
            -T* --threads= -U --update-snapshots -v --version -V --show-version -X --debug",
        code: "-f --file -s --settings",
        writes: "-l --log-file",
        files: "pom.xml .mvn",
        operands: OperandRole::Judged(maven),
        ..OPAQUE
    },
    // Unchecked. Gradle 8, gradle --help. `-D` sets properties of the JVM.
    ToolEntry {
        names: "gradle gradlew",
        options: "-a --no-rebuild --build-cache --no-build-cache --configuration-cache \
            --no-configuration-cache --configure-on-demand --console= --continue --no-continue \
            --daemon --no-daemon --stop --status --dry-run -m -d --debug -i --info -q --quiet -w \
            --warn -s --stacktrace -S --full-stacktrace --max-workers= --offline -p= --project-dir= \
            -P= -P* --parallel --no-parallel --refresh-dependencies --rerun-tasks --scan --no-scan \
            -t --continuous --version -v -x= --exclude-task= -h --help -? --warning-mode= --tests= \
            -b= --build-file= -c= --settings-file= --profile --no-watch-fs --watch-fs --all \
            --configuration= --dependency= --info --fail-fast --rerun --write-locks --task=",
        code: "-p --project-dir -b --build-file -c --settings-file",
        files: "build.gradle build.gradle.kts settings.gradle settings.gradle.kts gradle.properties",
        operands: OperandRole::Judged(gradle),
        ..OPAQUE
    },
    // Unchecked. Apache Ant 1.10, ant -help. Loggers, listeners and libraries load classes.
    ToolEntry {
        names: "ant",
        options: "-help -h -projecthelp -p -version -diagnostics -quiet -q -silent -S -verbose -v \
            -debug -d -emacs -e -noinput -keep-going -k -f= -file= -buildfile= -nice= -noclasspath",
        code: "-f -file -buildfile",
        files: "build.xml",
        operands: OperandRole::Judged(plain_targets),
        ..OPAQUE
    },
    // Unchecked. Bazel 6, bazel help. `--run_under` and toolchain options start programs.
    ToolEntry {
        names: "bazel bazelisk buck buck2",
        options: "--version",
        operands: OperandRole::Subcommand(&[ToolEntry {
            names: "build test run query cquery aquery info clean version fetch coverage shutdown",
            options: "-c= --compilation_mode= -k --keep_going --nokeep_going -j= --jobs= -s --config= \
                --verbose_failures --test_output= --test_filter= --test_timeout= --nocache_test_results \
                --cache_test_results= --runs_per_test= --output= --noshow_progress --show_progress \
                --expunge --build_tests_only --test_tag_filters= --build_tag_filters= --color= \
                --curses= --test_summary= --remote_download_minimal --nobuild --stamp --nostamp",
            files: "WORKSPACE MODULE.bazel BUILD BUILD.bazel .bazelrc .buckconfig BUCK",
            ..OPAQUE
        }]),
        ..OPAQUE
    },
    // Unchecked. just 1.14, just --help. Arguments become part of the recipes' shell text.
    ToolEntry {
        names: "just",
        options: "-l --list --summary -n --dry-run -q --quiet -v --verbose -u --unsorted -f= \
            --justfile= -d= --working-directory= -s= --show= --evaluate --variables --color= \
            --list-heading= --list-prefix= --no-deps --yes --version -V --help -h --dump",
        code: "-f --justfile -d --working-directory",
        files: "justfile Justfile .justfile",
        operands: OperandRole::JudgedFirst(plain_targets),
        ..OPAQUE
    },
    // Unchecked. Task 3, task --help; mage; invoke.
    ToolEntry {
        names: "task go-task mage inv invoke",
        options: "-l --list -a --list-all -n --dry -f --force -p --parallel -s --silent -v --verbose \
            -w --watch -y --yes -C= --concurrency= -x --exit-code --status --summary -d= --dir= -t= \
            --taskfile= --version -h --help",
        code: "-d --dir -t --taskfile",
        files: "Taskfile.yml Taskfile.yaml Taskfile.dist.yml magefile.go tasks.py",
        operands: OperandRole::Judged(plain_targets),
        ..OPAQUE
    },
    // Unchecked. tox 4 and nox 2023. `tox -x` overrides commands, `tox exec` runs one.
    ToolEntry {
        names: "tox",
        options: "-e= -r --recreate -p? --parallel= -q -v -l -a --skip-missing-interpreters? \
            --notest --version -h --help -c= --conf= -f= -m= --colored= --showconfig --sitepackages",
        code: "-c --conf",
        files: "tox.ini pyproject.toml setup.cfg",
        operands: OperandRole::Judged(tox),
        ..OPAQUE
    },
    ToolEntry {
        names: "nox",
        options: "-s= --session= --sessions= -k= --keywords= -t= --tags= -l --list -r -R -v --verbose \
            -f= --noxfile= -p= --python= --version -h --help --no-color -N -x --stop-on-first-error \
            --reuse-existing-virtualenvs",
        code: "-f --noxfile",
        files: "noxfile.py",
        ..OPAQUE
    },
    // Unchecked. rake 13, rake --help. `-e`, `-p` and `NAME=value` give code and variables.
    ToolEntry {
        names: "rake",
        options: "-T? --tasks? -A --all -P --prereqs -n --dry-run -m --multitask -j= --jobs? -q \
            --quiet -s --silent -t? --trace? -v --verbose? -V --version -h --help -f= --rakefile= -N -D?",
        code: "-f --rakefile",
        files: "Rakefile rakefile rakefile.rb Rakefile.rb",
        operands: OperandRole::Judged(plain_targets),
        ..OPAQUE
    },
    // Programs that exist to run commands of a project file which has no closed form here.
    ToolEntry {
        names: "scons waf automake autoconf autoreconf libtool libtoolize aclocal rpmbuild \
            debuild dpkg-buildpackage bear ccache distcc sccache scan-build icecc xmake premake5 qmake",
        options: "--version -v --help -h",
        operands: OperandRole::Nothing,
        ..OPAQUE
    },
    ToolEntry {
        names: "autoheader pkg-config",
        options: "--version --help --cflags --libs --exists --modversion --list-all --static --print-errors \
            --short-errors --variable= --atleast-version= --libs-only-l --libs-only-L --cflags-only-I",
        ..PLAIN
    },
];

/// Judges a build tool.
pub(super) fn consequences(program: &str, args: &[Word]) -> Judgement {
    judge_by(TABLE, program, args)
}

/// Variables of makefiles that are words in messages and paths, not programs.
const MAKE_VARIABLES: [&str; 22] = [
    "V",
    "VERBOSE",
    "Q",
    "DEBUG",
    "PREFIX",
    "prefix",
    "DESTDIR",
    "ARCH",
    "CI",
    "VERSION",
    "TAG",
    "RELEASE",
    "BUILD",
    "BUILD_TYPE",
    "PROFILE",
    "O",
    "W",
    "COVERAGE",
    "NO_COLOR",
    "COLOR",
    "JOBS",
    "TARGET",
];

fn make(found: &Arguments) -> Result<Vec<Consequence>, Doubt> {
    for word in &found.operands {
        match word.text.split_once('=') {
            Some((name, value)) => {
                let is_known = MAKE_VARIABLES.contains(&name) && word.value().is_some();
                // `$(Q)cc` puts the value in front of a program.
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
fn plain_targets(found: &Arguments) -> Result<Vec<Consequence>, Doubt> {
    refuse(&found.operands, is_odd_target).map(|()| Vec::new())
}

fn cmake(found: &Arguments) -> Result<Vec<Consequence>, Doubt> {
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
    // Behind `--` stand arguments of the build program.
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
        effects.extend(found.operands.iter().cloned().map(Consequence::ReadsCode));
    }
    Ok(effects)
}

/// A setting of CMake or Meson: one of the build itself, or a switch of the project.
fn is_known_setting(setting: &str) -> bool {
    const KNOWN: [&str; 22] = [
        "CMAKE_BUILD_TYPE",
        "CMAKE_INSTALL_PREFIX",
        "CMAKE_EXPORT_COMPILE_COMMANDS",
        "CMAKE_CXX_STANDARD",
        "CMAKE_C_STANDARD",
        "CMAKE_POSITION_INDEPENDENT_CODE",
        "CMAKE_VERBOSE_MAKEFILE",
        "CMAKE_COLOR_DIAGNOSTICS",
        "CMAKE_INTERPROCEDURAL_OPTIMIZATION",
        "CMAKE_OSX_ARCHITECTURES",
        "buildtype",
        "prefix",
        "optimization",
        "debug",
        "werror",
        "warning_level",
        "default_library",
        "b_lto",
        "b_sanitize",
        "b_coverage",
        "b_ndebug",
        "strip",
    ];
    const SWITCHES: [&str; 13] = [
        "ON", "OFF", "on", "off", "TRUE", "FALSE", "true", "false", "YES", "NO", "0", "1",
        "enabled",
    ];
    let Some((name, value)) = setting.split_once('=') else {
        return false;
    };
    let name = name.split(':').next().unwrap_or(name);
    let is_project = !name.starts_with("CMAKE_") && SWITCHES.contains(&value);
    is_project || (KNOWN.contains(&name) && is_plain_text(value))
}

fn cmake_command(command: &Word, operands: &[Word]) -> Result<Vec<Consequence>, Doubt> {
    let name = command.value().unwrap_or_default();
    match name {
        "capabilities" | "echo" | "cat" | "compare_files" | "md5sum" | "sha1sum" | "sha256sum"
        | "sha512sum" | "make_directory" | "sleep" | "true" | "false" | "environment" => {
            Ok(Vec::new())
        }
        "copy" | "copy_directory" | "copy_if_different" | "rename" => {
            let target = operands.last().cloned();
            Ok(target.map(Consequence::WritesBeneath).into_iter().collect())
        }
        "touch" | "touch_nocreate" | "remove" | "rm" | "remove_directory" => {
            Ok(operands.iter().cloned().map(Consequence::Writes).collect())
        }
        _ => Err(format!("the command {command}")),
    }
}

/// Phases of Maven's lifecycles, and goals that only print or start the project.
const MAVEN_GOALS: [&str; 27] = [
    "validate",
    "initialize",
    "generate-sources",
    "process-resources",
    "compile",
    "process-classes",
    "test-compile",
    "test",
    "package",
    "integration-test",
    "verify",
    "install",
    "deploy",
    "clean",
    "site",
    "dependency:tree",
    "dependency:resolve",
    "dependency:go-offline",
    "dependency:analyze",
    "dependency:list",
    "help:effective-pom",
    "spring-boot:run",
    "quarkus:dev",
    "spotless:apply",
    "spotless:check",
    "versions:display-dependency-updates",
    "checkstyle:check",
];

fn maven(found: &Arguments) -> Result<Vec<Consequence>, Doubt> {
    const PROPERTIES: [&str; 14] = [
        "skipTests",
        "skipITs",
        "maven.test.skip",
        "test",
        "it.test",
        "groups",
        "excludedGroups",
        "failIfNoTests",
        "surefire.failIfNoSpecifiedTests",
        "maven.javadoc.skip",
        "checkstyle.skip",
        "revision",
        "style.color",
        "maven.source.skip",
    ];
    let unknown = |word: &Word| !MAVEN_GOALS.iter().any(|goal| word.is(goal));
    refuse(&found.operands, unknown)?;
    for word in found.values(&["-D"]) {
        let name = word.text.split('=').next().unwrap_or_default();
        if !PROPERTIES.contains(&name) {
            return Err(format!("the property {name}"));
        }
    }
    Ok(Vec::new())
}

fn gradle(found: &Arguments) -> Result<Vec<Consequence>, Doubt> {
    for word in found.values(&["-P"]) {
        let (name, value) = word.text.split_once('=').unwrap_or((&word.text, ""));
        if word.value().is_none() || name.starts_with("org.gradle") || !is_plain_text(value) {
            return Err(format!("the property {name}"));
        }
    }
    plain_targets(found)
}

/// `tox run -e py311 -- arguments of the tests`.
fn tox(found: &Arguments) -> Result<Vec<Consequence>, Doubt> {
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

#[cfg(test)]
mod tests {
    use super::super::table_checks::{check, harmless};

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
}
