//! Compilers, linkers and the tool chains of Rust and Go.
//!
//! An entry marked "Unchecked", or without a version, has yet to be compared with the program's own
//! help; the version is the one that it is meant for.

use super::consequence::{Consequence, Doubt};
use super::dispatch::Judgement;
use super::entry::{ANY, OPAQUE, OperandRole, PLAIN, ToolEntry, is_plain_text, judge_by};
use super::entry::{refuse, refuse_argument_files};
use super::options::Arguments;
use crate::command::Word;

/// Options of most subcommands of cargo. `--config` and `-Z` change which programs a build starts.
const CARGO_SHARED: &str = "-v --verbose -q --quiet --color= --locked --offline --frozen -h --help \
    -p= --package= --workspace --exclude= --all --lib --bins --bin= --examples --example= --tests \
    --test= --benches --bench= --all-targets --doc -F= --features= --all-features \
    --no-default-features -j= --jobs= -r --release --profile= --target= --target-dir= --timings? \
    --manifest-path= --ignore-rust-version --message-format= --keep-going --future-incompat-report";

/// Files by which cargo and rustc are configured.
const CARGO_FILES: &str = "Cargo.toml build.rs .cargo/config.toml .cargo/config rust-toolchain \
    rust-toolchain.toml .config/nextest.toml clippy.toml rustfmt.toml";

const CARGO: ToolEntry = ToolEntry {
    code: "--manifest-path --target --path",
    directories: "--target-dir --root --output-dir",
    files: CARGO_FILES,
    ..OPAQUE
};

// cargo 1.95.0, cargo --help and the help of each subcommand.
const CARGO_SUBCOMMANDS: &[ToolEntry] = &[
    ToolEntry {
        names: "build b check c test t bench run r fix",
        options: "--no-run --no-fail-fast --allow-dirty --allow-staged --allow-no-vcs --edition \
            --edition-idioms --broken-code",
        ..CARGO
    },
    ToolEntry { names: "doc d", options: "--no-deps --document-private-items", ..CARGO },
    ToolEntry {
        names: "clippy",
        options: "--fix --no-deps --allow-dirty --allow-staged --allow-no-vcs",
        operands: OperandRole::Judged(lints),
        ..CARGO
    },
    ToolEntry { names: "fmt", options: "--check", operands: OperandRole::Judged(fmt), ..CARGO },
    ToolEntry {
        names: "add remove rm update tree metadata search info new init fetch clean package publish \
            generate-lockfile locate-project pkgid vendor version login logout owner yank verify-project \
            uninstall read-manifest report audit outdated udeps machete deny geiger bloat expand hack",
        options: "--dev --build --optional --no-optional --rename= --path= --git= --branch= --tag= \
            --rev= --dry-run -n --precise= --recursive --breaking -i= --invert= --depth= \
            --prefix= -e= --edges= -d --duplicates --no-dedupe --format-version= --no-deps \
            --filter-platform= --limit= --vcs= --edition= --name= --allow-dirty --no-verify --list \
            --token= --registry= --index= --versioned-dirs --root= --aggressive --no-metadata \
            --default-features --exact --json -R --root-deps-only --message-format= --version= --vers=",
        ..CARGO
    },
    ToolEntry {
        names: "install binstall",
        options: "--path= --git= --branch= --tag= --rev= --version= --vers= -f --force --root= --list \
            --no-track --debug --registry= --index= -y --no-confirm --no-symlinks",
        ..CARGO
    },
    ToolEntry {
        names: "nextest",
        operands: OperandRole::Subcommand(&[ToolEntry {
            names: "run list archive",
            options: "--no-run --no-fail-fast --fail-fast -E= --filter-expr= --filterset= -P= \
                --test-threads= --retries= --run-ignored= --ignored --partition= --nocapture \
                --no-capture --failure-output= --success-output= --status-level= \
                --final-status-level= --cargo-profile= --cargo-quiet -T= --no-tests= --max-fail=",
            ..CARGO
        }]),
        ..CARGO
    },
    ToolEntry {
        names: "llvm-cov tarpaulin",
        options: "--html --json --lcov --text --output-path= --output-dir= --summary-only --no-report \
            --ignore-filename-regex= --out= --fail-under-lines= --no-cfg-coverage",
        writes: "--output-path",
        operands: OperandRole::Nothing,
        ..CARGO
    },
];

/// Options of all subcommands of go that build. `-toolexec`, `-exec`, `-overlay`, `-modfile` and
/// most flags of compiler and linker start or replace programs.
const GO_BUILD: &str = "-a -n -p= -race -msan -asan -v -work -x -buildmode= -buildvcs -buildvcs= \
    -compiler= -gcflags== -installsuffix= -ldflags== -linkshared -mod= -modcacherw -tags= -trimpath \
    -cover -covermode= -coverpkg= -o= -C=";

// go 1.19, go help.
const GO_SUBCOMMANDS: &[ToolEntry] = &[
    ToolEntry {
        names: "build install get",
        options: "-u -t -d -u=patch -i",
        shared: GO_BUILD,
        writes: "-o",
        operands: OperandRole::Judged(go_flags),
        ..OPAQUE
    },
    ToolEntry {
        names: "run",
        shared: GO_BUILD,
        operands: OperandRole::JudgedFirst(go_flags),
        code: "-C",
        writes: "-o",
        ..OPAQUE
    },
    ToolEntry {
        names: "test vet",
        options: "-c -i -json -args> -bench= -benchtime= -benchmem -count= -cpu= -failfast -fuzz= \
            -fuzztime= -fuzzminimizetime= -list= -parallel= -run= -skip= -short -shuffle= -timeout= \
            -vet= -blockprofile= -blockprofilerate= -coverprofile= -cpuprofile= -memprofile= \
            -memprofilerate= -mutexprofile= -mutexprofilefraction= -outputdir= -trace= -test.v \
            -test.run= -fullpath",
        shared: GO_BUILD,
        writes: "-o -blockprofile -coverprofile -cpuprofile -memprofile -mutexprofile -trace",
        directories: "-outputdir",
        operands: OperandRole::Judged(go_flags),
        ..OPAQUE
    },
    ToolEntry {
        names: "list",
        options: "-f= -json -json= -m -u -deps -e -find -test -versions -retracted -compiled -export",
        shared: GO_BUILD,
        operands: OperandRole::Judged(go_flags),
        ..OPAQUE
    },
    ToolEntry { names: "generate", options: "-run= -skip= -v -n -x -tags= -mod=", ..OPAQUE },
    ToolEntry { names: "fmt", options: "-n -x -mod=", ..PLAIN },
    ToolEntry { names: "version", options: "-m -v", ..PLAIN },
    ToolEntry { names: "env", options: "-json -changed", ..PLAIN },
    ToolEntry { names: "doc", options: "-all -c -cmd -short -src -u", ..PLAIN },
    ToolEntry { names: "help", ..PLAIN },
    ToolEntry {
        names: "clean",
        options: "-i -r -n -x -cache -testcache -modcache -fuzzcache",
        ..PLAIN
    },
    ToolEntry {
        names: "mod work",
        operands: OperandRole::Subcommand(&[
            ToolEntry {
                names: "tidy download verify vendor graph why init sync use",
                options: "-v -x -e -go= -compat= -json -m -vendor -r -diff -reuse=",
                ..OPAQUE
            },
            ToolEntry {
                names: "edit",
                options: "-fmt -module= -require= -droprequire= -exclude= -dropexclude= -replace= \
                    -dropreplace= -go= -toolchain= -print -json -use= -dropuse=",
                ..OPAQUE
            },
        ]),
        ..OPAQUE
    },
    ToolEntry {
        names: "tool",
        operands: OperandRole::Subcommand(&[
            ToolEntry { names: "cover", options: "-func= -mode= -o=", writes: "-o", ..PLAIN },
            ToolEntry { names: "nm objdump dist", options: "-size -sort= -type -s= -S", ..PLAIN },
        ]),
        ..PLAIN
    },
];

/// Unchecked. Options of GCC 12 and clang 14 that start nothing but the usual passes. Not listed:
/// `-B`, `-specs`, `-wrapper`, `-fplugin`, `-fuse-ld`, `-Xlinker`, `-mllvm`, `-T` and argument
/// files.
const C_COMPILER: &str = "-c -S -E -o= -o* -v -x= -x* -pthread -pedantic -pedantic-errors -ansi \
    -shared -static -static-libgcc -static-libstdc++ -rdynamic -pipe -M -MM -MD -MMD -MP -MG -MF= -MT= \
    -MQ= -include= -isystem= -isystem* -idirafter= -iquote= -nostdlib -nodefaultlibs -nostartfiles \
    -nostdinc -nostdinc++ -s -w -P -C -H -dM -dumpversion -dumpmachine -dumpfullversion --version \
    --help -print-search-dirs -print-file-name=* -print-libgcc-file-name -print-sysroot \
    -print-multiarch -print-multi-lib -pg --coverage -pie -no-pie -O* \
    -g -g0 -g1 -g2 -g3 -ggdb -ggdb3 -gdwarf-4 -gdwarf-5 -gline-tables-only -D= -D* -U= -U* -I= -I* \
    -L= -L* -l= -l* -std=* -stdlib=* -march=* -mtune=* -mcpu=* -m32 -m64 -msse* -mavx* -mno-* -mfpu=* \
    -mfloat-abi=* -mcmodel=* -mthumb -Wall -Wextra -Weverything -Werror -Werror=* -Wno-* -Wpedantic \
    -Wshadow -Wconversion -Wformat* -Wunused* -Wmissing-* -Wstrict-* -Wimplicit* -Wuninitialized \
    -Wcast-* -Wpointer-* -Wnull-* -Wdouble-* -Wswitch* -Wfatal-errors -Wundef -Wdeprecated* \
    -Wsign-* -Wreturn-type -Wfloat-* -Wold-style-cast -Woverloaded-virtual -Wnon-virtual-dtor \
    -Wvla -Wredundant-decls -Wduplicated-* -Wlogical-op -Wuseless-cast -Wparentheses -Wlto-* -Wl,* \
    -fPIC -fpic -fPIE -fpie -fno-* -fsanitize=* -fstack-protector* -fstack-clash-protection \
    -fopenmp -flto -flto=* -fvisibility=* -fvisibility-inlines-hidden -fdiagnostics-color \
    -fdiagnostics-color=* -fcolor-diagnostics -fsyntax-only -fwrapv -fcommon -ffast-math \
    -funroll-loops -fomit-frame-pointer -fexceptions -frtti -fprofile-arcs -ftest-coverage \
    -fcoverage-mapping -fprofile-instr-generate -fstrict-aliasing -fdata-sections \
    -ffunction-sections -ffreestanding -fcoroutines -fmodules-ts -fmax-errors=* -ferror-limit=* \
    -funsigned-char -fsigned-char -fshort-enums -ftemplate-depth=* -fcf-protection* -fanalyzer";

const TABLE: &[ToolEntry] = &[
    ToolEntry {
        names: "cargo",
        options: "-V --version --list -v --verbose -q --quiet --color= --locked --offline --frozen",
        shared: CARGO_SHARED,
        operands: OperandRole::Subcommand(CARGO_SUBCOMMANDS),
        ..OPAQUE
    },
    // Unchecked. rustc 1.95, rustc --help. `-C` and `-Z` name linkers and plugins.
    ToolEntry {
        names: "rustc rustdoc",
        options: "-h --help -V --version -v --verbose -O -g --test --edition= --crate-type= \
            --crate-name= -o= --out-dir= --emit= --print= --explain= -W= -A= -D= -F= --cap-lints= \
            --color= --error-format= --cfg= --check-cfg= -l= -L= --extern= --target=",
        code: "--extern -L --target",
        writes: "-o",
        directories: "--out-dir",
        operands: OperandRole::Judged(rustc),
        ..OPAQUE
    },
    ToolEntry {
        names: "rustfmt",
        options: "--check --edition= -l --files-with-diff -v --verbose -q --quiet --backup -V \
            --version -h --help --config= --config-path= --color= --emit= --style-edition=",
        files: "rust-toolchain rust-toolchain.toml",
        operands: OperandRole::Formatted,
        ..PLAIN
    },
    // Unchecked. rustup 1.28, rustup --help.
    ToolEntry {
        names: "rustup",
        options: "-V --version -h --help -v --verbose -q --quiet",
        shared: "-v --verbose -q --quiet --toolchain= -h --help",
        operands: OperandRole::Subcommand(&[
            ToolEntry {
                names: "show update check default which self",
                options: "--no-self-update --force",
                ..OPAQUE
            },
            ToolEntry {
                names: "toolchain component target override",
                operands: OperandRole::Subcommand(&[ToolEntry {
                    names: "list install add remove uninstall set unset",
                    options: "--profile= --component= -c= --target= -t= --no-self-update --installed \
                        --force --allow-downgrade --path=",
                    ..OPAQUE
                }]),
                ..OPAQUE
            },
            ToolEntry {
                names: "run",
                options: "--install",
                operands: OperandRole::Command(1),
                ..PLAIN
            },
        ]),
        ..PLAIN
    },
    ToolEntry {
        names: "go",
        operands: OperandRole::Subcommand(GO_SUBCOMMANDS),
        files: "go.mod go.work go.env",
        ..OPAQUE
    },
    ToolEntry {
        names: "gofmt gofumpt goimports",
        options: "-l -w -d -s -e -r= -local= -extra",
        operands: OperandRole::Formatted,
        ..PLAIN
    },
    ToolEntry {
        names: "golangci-lint staticcheck",
        options: "--version -version -f= -checks= -tests -tags=",
        shared: "-v --verbose --color= --fix -c= --config= --no-config --timeout= --fast -E= --enable= \
            -D= --disable= --enable-all --disable-all --out-format= --new-from-rev= --new -p= \
            --build-tags= --tests --skip-dirs= -j= --concurrency= --issues-exit-code= \
            --max-issues-per-linter= --max-same-issues= --default= --allow-parallel-runners",
        code: "-c --config",
        files: ".golangci.yml .golangci.yaml .golangci.toml .golangci.json",
        ..OPAQUE
    },
    ToolEntry {
        names: "gcc g++ cc c++ clang clang++ c89 c99 gfortran cpp gdc tcc",
        options: C_COMPILER,
        writes: "-o -MF",
        operands: OperandRole::Judged(c_compiler),
        ..PLAIN
    },
    // GNU binutils 2.40, ld --help. Plugins are libraries that the linker loads.
    ToolEntry {
        names: "ld ld.bfd ld.gold ld.lld lld gold mold",
        options: "-o= -shared -Bshareable -static -pie -no-pie -r -s -S -x -e= -m= -L= -L* -l= -l* -v \
            --version --help -V --gc-sections --as-needed --no-as-needed --no-undefined \
            --start-group --end-group --whole-archive --no-whole-archive -rpath= -soname= -h= \
            --build-id --build-id=* -z= --eh-frame-hdr --hash-style=* -Ttext= -M -Map= -nostdlib -t",
        writes: "-o -Map",
        operands: OperandRole::Judged(no_argument_files),
        ..PLAIN
    },
    ToolEntry {
        names: "windres dlltool gcc-ranlib gcov-tool dlopen cobc nvcc gnatmake",
        options: "--version --help",
        operands: OperandRole::Nothing,
        ..PLAIN
    },
    ToolEntry {
        names: "clang-format",
        options: "-i --dry-run -n -Werror --Werror -style= --style= \
            --version --help -fallback-style= --fallback-style= --verbose -assume-filename= \
            --assume-filename= --files=",
        operands: OperandRole::Formatted,
        ..PLAIN
    },
    // Unchecked. clang-tidy 14: `--load` and `-extra-arg` change what the compiler loads.
    ToolEntry {
        names: "clang-tidy clang-check cppcheck",
        options: "-p= -p* -checks= --checks= --fix -fix --quiet -quiet --version --help -list-checks \
            --list-checks --warnings-as-errors= -warnings-as-errors= -header-filter= --header-filter= \
            --enable=* --std=* --error-exitcode=* --inline-suppr --suppress=* -j= -I* -q -f",
        code: "-p",
        files: ".clang-tidy compile_commands.json",
        operands: OperandRole::Judged(compiler_arguments),
        ..PLAIN
    },
    ToolEntry { names: "rust-analyzer gopls clangd", ..ANY_SERVER },
];

/// Language servers start the project's tool chain; only their version is known to be harmless.
const ANY_SERVER: ToolEntry = ToolEntry {
    options: "--version -version -V",
    operands: OperandRole::Nothing,
    opaque: true,
    ..ANY
};

/// Judges a compiler or a tool chain.
pub(super) fn consequences(program: &str, args: &[Word]) -> Judgement {
    // `x86_64-linux-gnu-gcc`.
    let cross = program.split_once("-linux-").and_then(|(_, rest)| rest.split_once('-'));
    let name = cross.map_or(program, |(_, tool)| tool);
    if matches!(name, "cargo" | "rustc" | "rustdoc" | "rustfmt")
        && let Some((first, rest)) = args.split_first()
        && let Some(toolchain) = first.text.strip_prefix('+')
    {
        // A toolchain of rustup; a path would be a directory of other programs.
        if first.value().is_none() || toolchain.contains('/') || !is_plain_text(toolchain) {
            return Some(Err(format!("the word {first}")));
        }
        return judge_by(TABLE, name, rest);
    }
    judge_by(TABLE, name, args)
}

/// Behind `--` clippy takes options of rustc; those that set the level of a lint are harmless.
fn lints(found: &Arguments) -> Result<Vec<Consequence>, Doubt> {
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

/// Behind `--` cargo fmt takes options of rustfmt.
fn fmt(found: &Arguments) -> Result<Vec<Consequence>, Doubt> {
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
fn go_flags(found: &Arguments) -> Result<Vec<Consequence>, Doubt> {
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

fn no_argument_files(found: &Arguments) -> Result<Vec<Consequence>, Doubt> {
    refuse_argument_files(found).map(|()| Vec::new())
}

/// `--emit=dep-info=file` and `--print=cfg=file` name a file behind the kind of output.
fn rustc(found: &Arguments) -> Result<Vec<Consequence>, Doubt> {
    refuse_argument_files(found)?;
    let mut effects = Vec::new();
    for word in found.values(&["--emit", "--print"]) {
        let kinds = word.value().ok_or_else(|| format!("the word {word}"))?;
        let files = kinds.split(',').filter_map(|kind| kind.split_once('=').map(|(_, file)| file));
        effects.extend(files.map(Word::literal).map(Consequence::Writes));
    }
    Ok(effects)
}

/// `-Wl,a,b` hands options to the linker.
fn c_compiler(found: &Arguments) -> Result<Vec<Consequence>, Doubt> {
    const LINKER: [&str; 16] = [
        "--as-needed",
        "--no-as-needed",
        "--gc-sections",
        "--no-undefined",
        "--whole-archive",
        "--no-whole-archive",
        "--start-group",
        "--end-group",
        "-O1",
        "-s",
        "-z",
        "relro",
        "now",
        "noexecstack",
        "--strip-all",
        "--build-id",
    ];
    refuse_argument_files(found)?;
    for word in found.values(&["-Wl,"]) {
        let text = word.value().ok_or_else(|| format!("the word {word}"))?;
        let mut parts = text.split(',');
        while let Some(part) = parts.next() {
            let takes_path = matches!(part, "-rpath" | "-soname");
            if takes_path && parts.next().is_some_and(|path| !path.starts_with(['-', '@'])) {
                continue;
            }
            if !LINKER.contains(&part) {
                return Err(format!("the option -Wl,{part}"));
            }
        }
    }
    Ok(Vec::new())
}

/// Behind `--` clang-tidy takes options of the compiler.
fn compiler_arguments(found: &Arguments) -> Result<Vec<Consequence>, Doubt> {
    let known = ["-I", "-D", "-std=", "-W", "-O"];
    refuse(&found.operands, |word| {
        let is_known = known.iter().any(|start| word.text.starts_with(start));
        word.text.starts_with('@') || (word.text.starts_with('-') && !is_known)
    })?;
    Ok(Vec::new())
}

#[cfg(test)]
mod tests {
    use super::super::table_checks::{check, harmless};

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
}
