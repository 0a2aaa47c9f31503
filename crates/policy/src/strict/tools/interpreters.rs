//! Interpreters of programming languages, and debuggers.
//!
//! The code that an interpreter is given is not looked into: a user who lists `python` trusts
//! Python code. Its options are, because some name other programs, agents or configurations.
//!
//! An entry marked "Unchecked", or without a version, has yet to be compared with the program's own
//! help; the version is the one that it is meant for.

use super::consequence::{Consequence, Doubt};
use super::dispatch::Judgement;
use super::entry::{OPAQUE, OperandRole, PLAIN, ToolEntry, judge_by};
use super::options::Arguments;
use crate::command::Word;

const SCRIPT: ToolEntry = ToolEntry { operands: OperandRole::Script, ..OPAQUE };

const TABLE: &[ToolEntry] = &[
    // CPython 3.11.7, python3 --help.
    ToolEntry {
        names: "python pypy python-dbg pythonw",
        options: "-b -B -d -E -h -i -I -O -P -q -s -S -u -v -V -x -W= -X= -c=> -m=> -? \
            --version --help --help-all --help-env --help-xoptions --check-hash-based-pycs=",
        operands: OperandRole::JudgedFirst(python),
        ..OPAQUE
    },
    // Node.js 20.20.2, node --help and --v8-options; unchecked: options of Node.js 22.
    ToolEntry {
        names: "node nodejs",
        options: "-c --check -e= --eval= -p= --print= -i --interactive -h --help -v --version \
            -r= --require= --import= --loader= --experimental-loader= -C= --conditions= --test \
            --test-only --test-name-pattern= --test-reporter= --test-concurrency= --test-timeout= \
            --test-skip-pattern= --test-force-exit --test-shard= --experimental-test-coverage \
            --watch --watch-path= --watch-preserve-output --input-type= --no-warnings --no-deprecation \
            --trace-warnings --trace-uncaught --trace-deprecation --throw-deprecation --pending-deprecation \
            --unhandled-rejections= --stack-trace-limit= --max-old-space-size= --max-semi-space-size= \
            --stack-size= --expose-gc --enable-source-maps --experimental-strip-types --no-experimental-fetch \
            --experimental-vm-modules --experimental-sqlite --experimental-websocket \
            --experimental-transform-types --preserve-symlinks --preserve-symlinks-main \
            --inspect? --inspect-brk? --dns-result-order= --disable-warning= --no-addons \
            --no-global-search-paths --use-openssl-ca --use-bundled-ca --tls-min-v1.2 --v8-options",
        code: "-r --require --import --loader --experimental-loader",
        inline: "-e --eval -p --print -v --version -h --help --test --v8-options -i --interactive",
        ..SCRIPT
    },
    // Unchecked. Deno 2.1, deno help.
    ToolEntry {
        names: "deno",
        options: "-h --help -V --version",
        shared: "-q --quiet -L= --log-level= --unstable -c= --config= --no-config --import-map= \
            --no-remote --no-npm --no-lock --lock= --frozen? --reload? -r --cached-only --check? \
            --no-check? --node-modules-dir? --vendor? --no-prompt",
        operands: OperandRole::Subcommand(&[
            ToolEntry {
                names: "run serve",
                options: "-A --allow-all -R? --allow-read? -W? --allow-write? -N? --allow-net? \
                    -E? --allow-env? -S? --allow-sys? --deny-read? --deny-write? --deny-net? \
                    --deny-env? --watch? --env? --allow-import? --port= --host=",
                code: "-c --config --import-map",
                ..SCRIPT
            },
            ToolEntry {
                names: "test bench",
                options: "-A --allow-all -R? --allow-read? -W? --allow-write? -N? --allow-net? \
                    -E? --allow-env? --filter= --fail-fast? --parallel --watch --no-run --doc \
                    --permit-no-files --coverage? --reporter= --ignore= --shuffle?",
                code: "-c --config --import-map",
                operands: OperandRole::Code,
                ..OPAQUE
            },
            ToolEntry {
                names: "fmt lint check cache info doc",
                options: "--check --fix --json --all --rules --ignore= --ext= --line-width= \
                    --indent-width= --single-quote --no-semicolons --use-tabs --doc --compact",
                code: "-c --config --import-map",
                ..OPAQUE
            },
            ToolEntry { names: "task eval types upgrade", options: "-p --print --ext=", ..OPAQUE },
        ]),
        ..OPAQUE
    },
    // Perl 5.36, perlrun(1).
    ToolEntry {
        names: "perl",
        options: "-a -c -f -h -n -p -s -t -T -u -U -v -w -W -X -l? -0? -F= -i? -I= -M= -m= -e== \
            -E== -C? -D= -x? -S -V?",
        operands: OperandRole::JudgedFirst(perl),
        code: "-I",
        ..OPAQUE
    },
    // Ruby 3.1.2, ruby --help.
    ToolEntry {
        names: "ruby jruby truffleruby",
        options: "-a -c -d -l -n -p -s -S -v -w -h -W? -0? -C= -e== -E= -F= -i? -I= -r= -x? -y \
            --debug --encoding= --external-encoding= --internal-encoding= --jit --yjit --mjit \
            --copyright --version --help --verbose --backtrace-limit= --enable= --disable= --dump=",
        operands: OperandRole::JudgedFirst(perl),
        code: "-I -r",
        ..OPAQUE
    },
    // PHP 8.2, php --help. `-d` and `-c` change settings that load extensions.
    ToolEntry {
        names: "php",
        options: "-a -n -e -f= -h -i -l -m -r== -B== -R== -F= -E== -H -S= -t= -s -v -w --ini --rf= \
            --rc= --re= --rz= --ri= --version --help",
        code: "-f -F -t",
        inline: "-f -F -r -R -B -h -i -m -v -S -a --ini --rf --rc --re --rz --ri --version --help",
        ..SCRIPT
    },
    // Lua 5.4, lua(1).
    ToolEntry { names: "lua luajit", options: "-e= -i -l= -v -E -W", inline: "-e -v", ..SCRIPT },
    ToolEntry { names: "luac", options: "-l -o= -p -s -v", writes: "-o", ..PLAIN },
    // Unchecked. R 4.2, Rscript --help.
    ToolEntry {
        names: "Rscript",
        options: "--help --version --verbose -e= --default-packages= --vanilla --no-save \
            --no-environ --no-site-file --no-init-file --no-restore --slave --quiet --no-echo",
        inline: "-e --help --version",
        ..SCRIPT
    },
    // Unchecked. Julia 1.10, julia --help.
    ToolEntry {
        names: "julia",
        options: "-h --help -v --version -e= --eval= -E= --print= --project? -t= --threads= -p= \
            -q --quiet -i --startup-file= --color= -O? --optimize= --check-bounds= --history-file= \
            --banner= --depwarn=",
        code: "--project",
        inline: "-e --eval -E --print -h --help -v --version",
        ..SCRIPT
    },
    // OpenJDK 17, java --help. `-XX:OnError`, agents and argument files start programs or load
    // code.
    ToolEntry {
        names: "java",
        options: "-cp= -classpath= --class-path= -p= --module-path= -jar=> -m=> --module=> -D* \
            --add-modules= --add-opens= --add-exports= --add-reads= --enable-preview --source= \
            --list-modules --describe-module= --dry-run --validate-modules --enable-native-access= \
            -verbose -verbose:* -version --version -showversion --show-version -? -h -help --help -X \
            --help-extra -ea* -da* -enableassertions* -disableassertions* -esa -dsa -client -server \
            -Xmx* -Xms* -Xmn* -Xss* -Xint -Xcomp -Xmixed -Xshare:* -Xrs -XX:+UseG1GC \
            -XX:+UseSerialGC -XX:+UseParallelGC -XX:+UseZGC -XX:MaxRAMPercentage= \
            -XX:InitialRAMPercentage= -XX:MaxMetaspaceSize= -XX:TieredStopAtLevel= -XX:+PrintFlagsFinal",
        code: "-cp -classpath --class-path -p --module-path -jar",
        operands: OperandRole::JudgedFirst(java),
        ..OPAQUE
    },
    // OpenJDK 17, javac --help. Annotation processors run code of the class path.
    ToolEntry {
        names: "javac javadoc",
        options: "-d= -cp= -classpath= --class-path= -sourcepath= --source-path= -source= -target= \
            --source= --target= --release= -encoding= -g -g:* -nowarn -verbose -deprecation \
            -parameters -Xlint -Xlint:* -Werror -proc:none -version --version -help --help \
            --enable-preview -Xdoclint:* -quiet -private -public -protected -package",
        code: "-cp -classpath --class-path",
        directories: "-d",
        operands: OperandRole::Judged(no_argument_files),
        ..OPAQUE
    },
    ToolEntry {
        names: "jar",
        options: "-c -t -x -u -i -v -f= -m= -e= -C= -0 -M --create --list --extract --update \
            --file= --manifest= --main-class= --verbose --version --help",
        operands: OperandRole::Judged(no_argument_files),
        writes: "-f --file",
        ..PLAIN
    },
    // Unchecked. groovy 2.4, scala 2.13, kotlinc 1.9.
    ToolEntry {
        names: "groovy scala scala-cli kotlin kotlinc-jvm",
        options: "-version --version -v -h -help --help -e= -cp= -classpath= --classpath=",
        code: "-cp -classpath --classpath",
        inline: "-version --version -v -h -help --help -e",
        ..SCRIPT
    },
    // Unchecked. Tcl 8.6, expect 5.45, GNU Guile 3.0, Racket 8, Gauche: only a script, a text or a
    // version.
    ToolEntry { names: "tclsh wish expect slsh newlisp", options: "", ..SCRIPT },
    ToolEntry {
        names: "guile racket gosh chicken-scheme csi gsi",
        options: "-c= -e= -v --version -h --help -q --no-auto-compile",
        inline: "-c -e -v --version -h --help",
        ..SCRIPT
    },
    // Unchecked. GHC 9, runghc: options of GHC name preprocessors (-pgmF) and plugins.
    ToolEntry {
        names: "ghc",
        options: "-o= -O -O0 -O1 -O2 -Wall -Wextra -Werror -Wcompat -package= -threaded -v --make -c \
            -fno-code -outputdir= --version --numeric-version --help -dynamic -g",
        writes: "-o",
        directories: "-outputdir",
        operands: OperandRole::Code,
        ..OPAQUE
    },
    ToolEntry {
        names: "runghc runhaskell ghci",
        options: "--version --help",
        inline: "--version --help",
        ..SCRIPT
    },
    // Unchecked. Erlang/OTP 25, Elixir 1.14.
    ToolEntry {
        names: "erl",
        options: "-noshell -noinput -version -eval= -s= -pa= -pz= -sname= -name=",
        code: "-pa -pz",
        inline: "-eval -s -version",
        ..SCRIPT
    },
    ToolEntry { names: "escript", options: "-n -s -c", ..SCRIPT },
    ToolEntry {
        names: "elixir iex elixirc",
        options: "-v --version -h --help -e= --eval= -r= -pa= -pz= -S=> --no-halt",
        code: "-r -pa -pz",
        inline: "-v --version -h --help -e --eval -S",
        ..SCRIPT
    },
    ToolEntry {
        names: "mix",
        options: "--version --help -h",
        operands: OperandRole::Subcommand(&[ToolEntry {
            names: "test compile deps.get deps.compile deps.update deps format credo dialyzer \
                phx.server phx.routes ecto.migrate ecto.create ecto.rollback hex.info clean \
                local.hex local.rebar run help docs",
            options: "--force --trace --cover --only= --exclude= --include= --stale --failed --seed= \
                --max-failures= --warnings-as-errors --all --check-formatted --strict --no-start \
                --no-compile --no-deps-check --no-halt -e=",
            operands: OperandRole::Code,
            ..OPAQUE
        }]),
        files: "mix.exs",
        ..OPAQUE
    },
    // Unchecked. Swift 5.9. Compiler options name plugins and linkers.
    ToolEntry {
        names: "swift",
        options: "--version --help -h",
        shared: "-c= --configuration= -v --verbose -q --quiet --package-path= --disable-sandbox \
            -j= --jobs= --skip-build --filter= --skip= --parallel --enable-code-coverage \
            --product= --target= --build-tests --show-bin-path",
        operands: OperandRole::Subcommand(&[ToolEntry {
            names: "build test run package",
            files: "Package.swift",
            ..OPAQUE
        }]),
        ..OPAQUE
    },
    // Unchecked. .NET SDK 8, dotnet --help. MSBuild properties and loggers name code.
    ToolEntry {
        names: "dotnet",
        options: "--version --info --list-sdks --list-runtimes -h --help -d --diagnostics",
        shared: "-c= --configuration= -v= --verbosity= -f= --framework= -r= --runtime= -o= --output= \
            --no-restore --no-build --nologo --project= -h --help --filter= --no-incremental \
            --self-contained? --collect= --results-directory= --list-tests -t --blame --force \
            --interactive --no-dependencies --no-launch-profile --launch-profile= --verify-no-changes \
            --include= --exclude= --version= --source= --prerelease --dry-run -n= --name= --language=",
        operands: OperandRole::Subcommand(&[
            ToolEntry {
                names: "build test restore clean publish pack run watch format add remove list new \
                    sln nuget",
                directories: "-o --output --results-directory",
                operands: OperandRole::Judged(no_argument_files),
                ..OPAQUE
            },
            ToolEntry {
                names: "tool",
                options: "-g --global --tool-path= --local",
                operands: OperandRole::Subcommand(&[ToolEntry {
                    names: "install list restore uninstall update",
                    options: "-g --global --local",
                    ..OPAQUE
                }]),
                ..OPAQUE
            },
            ToolEntry { names: "--version --info", ..PLAIN },
        ]),
        ..OPAQUE
    },
    // Unchecked. GNU Octave 7.
    ToolEntry {
        names: "octave octave-cli",
        options: "--eval= -q --quiet --silent --no-gui -f --norc --no-init-file -W --no-window-system \
            -v --version -h --help --no-history -H",
        inline: "--eval -v --version -h --help",
        ..SCRIPT
    },
    // GNU gdb 13.1, gdb --help. Commands of gdb start programs, so only a few are known.
    ToolEntry {
        names: "gdb",
        options: "--batch -batch --batch-silent -q -quiet --quiet --silent -n -nx --nx --nh -nh \
            -ex== --eval-command= -p= --pid= -pid= -c= --core= -core= --args -args --readnow --version \
            --help --cd= --nw -nw --return-child-result --configuration -d= --directory=",
        operands: OperandRole::JudgedFirst(gdb),
        ..PLAIN
    },
    // Unchecked. LLDB 14: the same.
    ToolEntry {
        names: "lldb",
        options: "-b --batch -x --no-lldbinit -p= --attach-pid= -c= --core= -o== --one-line= -v \
            --version -h --help",
        operands: OperandRole::JudgedFirst(gdb),
        ..PLAIN
    },
];

/// Judges an interpreter.
pub(super) fn consequences(program: &str, args: &[Word]) -> Judgement {
    judge_by(TABLE, program, args)
}

/// `python -m name` looks for the module in the working directory first.
fn python(found: &Arguments) -> Result<Vec<Consequence>, Doubt> {
    let inline = ["-c", "-h", "-V", "-?", "--version", "--help", "--help-all", "--help-env"];
    if found.has(&inline) || found.has(&["--help-xoptions"]) {
        return Ok(Vec::new());
    }
    if let Some(module) = found.values(&["-m"]).last() {
        let name = module.value().ok_or_else(|| format!("the word {module}"))?.replace('.', "/");
        let files = [format!("{name}.py"), format!("{name}/__main__.py")];
        return Ok(files.map(|file| Consequence::ReadsCode(Word::literal(file))).to_vec());
    }
    Ok(vec![script_of(&found.operands)])
}

/// Perl and Ruby: with `-i` the operands are files that change.
fn perl(found: &Arguments) -> Result<Vec<Consequence>, Doubt> {
    let mut operands = found.operands.as_slice();
    let mut effects = Vec::new();
    if !found.has(&["-e", "-E", "-h", "-v", "-V", "--version", "--help", "--copyright"]) {
        effects.push(script_of(operands));
        operands = operands.get(1..).unwrap_or_default();
    }
    if found.has(&["-i"]) {
        effects.extend(operands.iter().cloned().map(Consequence::Writes));
    }
    Ok(effects)
}

fn script_of(operands: &[Word]) -> Consequence {
    match operands.first() {
        Some(word) if !word.is("-") => Consequence::ReadsCode(word.clone()),
        Some(_) | None => Consequence::ReadsCodeFromInput,
    }
}

/// A class, or a source file. `@file` holds further options, and so does one behind `-jar`, as
/// long as the name of the program has not been read.
fn java(found: &Arguments) -> Result<Vec<Consequence>, Doubt> {
    let has_main = found.has(&["-jar", "-m", "--module"]);
    match found.operands.first() {
        Some(word) if !has_main && word.text.starts_with('@') => Err(format!("the word {word}")),
        Some(word) if !has_main && word.text.ends_with(".java") => {
            Ok(vec![Consequence::ReadsCode(word.clone())])
        }
        Some(_) | None => match found.values(&["-jar", "-m", "--module"]).next() {
            Some(word) if word.text.starts_with('@') => Err(format!("the word {word}")),
            Some(_) | None => Ok(Vec::new()),
        },
    }
}

/// Refuses `@file`, which holds further options, and `/p:name=value`, which is one for MSBuild.
fn no_argument_files(found: &Arguments) -> Result<Vec<Consequence>, Doubt> {
    let values = found.options.iter().filter_map(|given| given.value.as_ref());
    let is_option = |word: &&Word| {
        word.text.starts_with('@') || (word.text.starts_with('/') && word.text.contains(':'))
    };
    match found.operands.iter().chain(values).find(is_option) {
        Some(word) => Err(format!("the word {word}")),
        None => Ok(Vec::new()),
    }
}

/// Commands of a debugger that only print.
const DEBUGGER_COMMANDS: [&str; 22] = [
    "bt",
    "bt full",
    "backtrace",
    "backtrace full",
    "where",
    "info threads",
    "info registers",
    "info sharedlibrary",
    "info locals",
    "info args",
    "info frame",
    "info line",
    "info signals",
    "thread apply all bt",
    "thread apply all bt full",
    "thread apply all backtrace",
    "thread backtrace all",
    "bt all",
    "quit",
    "q",
    "detach",
    "set pagination off",
];

fn gdb(found: &Arguments) -> Result<Vec<Consequence>, Doubt> {
    let is_run = |word: &&Word| ["run", "r", "start"].iter().any(|name| word.is(name));
    let commands: Vec<_> = found.values(&["-ex", "--eval-command", "-o", "--one-line"]).collect();
    let unknown =
        |word: &&Word| !is_run(word) && !DEBUGGER_COMMANDS.iter().any(|known| word.is(known));
    if let Some(word) = commands.iter().copied().find(unknown) {
        return Err(format!("the command {word}"));
    }
    let is_batch = found.has(&["--batch", "-batch", "--batch-silent", "-b"]);
    let mut effects = Vec::new();
    if !is_batch && !found.has(&["--version", "-v", "--help", "-h", "--configuration"]) {
        effects.push(Consequence::ReadsCodeFromInput);
    }
    let starts = commands.iter().copied().any(|word| is_run(&word));
    let has_program = found.has(&["--args", "-args"]) || starts;
    if has_program && !found.operands.is_empty() {
        effects.push(Consequence::Runs(found.operands.clone()));
    } else if let Some(word) = found.operands.iter().find(|word| word.text.starts_with('-')) {
        return Err(format!("the word {word}"));
    }
    Ok(effects)
}

#[cfg(test)]
mod tests {
    use super::super::table_checks::{check, harmless};

    #[test]
    fn everyday_use_of_interpreters_is_known() {
        harmless(
            "python -m pytest -q tests/test_api.py::test_login
            python3 -c 'print(1); print(2)'
            python3 -u -W ignore script.py --flag -x
            python3 -m venv .venv
            python3 -m pip install -r requirements.txt
            python3 -m json.tool data.json
            python3 -m http.server 8000
            python3.11 -X dev -m unittest discover -s tests
            python3 --version
            python -V
            python manage.py migrate
            node --version
            node -e 'console.log(1)'
            node -p process.version
            node --test
            node --test --test-reporter=spec test/
            node --max-old-space-size=4096 build.js --watch
            node --experimental-vm-modules node_modules/jest/bin/jest.js --ci
            node -r dotenv/config server.js
            node --check index.js
            deno run --allow-net main.ts
            deno test -A
            deno fmt --check
            deno task build
            ruby -v
            ruby -Ilib -Itest test/x_test.rb
            ruby -e 'puts 1'
            ruby -rjson -e 'puts 1'
            perl -ne 'print if /x/' file.txt
            perl -pi -e 's/a/b/' file.txt
            perl -MData::Dumper -e 'print 1'
            perl -lane 'print $F[0]' f
            perl script.pl a b
            php -v
            php -l index.php
            php artisan migrate --force
            php -r 'echo 1;'
            php -S localhost:8000 -t public
            lua script.lua
            Rscript -e '1+1'
            julia --project=. test/runtests.jl
            java -version
            java -jar app.jar --server.port=8080
            java -Xmx2g -cp build/classes:lib/x.jar com.example.Main -x
            java Main.java
            javac -d out src/Main.java
            dotnet build -c Release
            dotnet test --no-build --filter Name=x
            swift build -c release
            mix test test/x_test.exs
            gdb -batch -ex bt ./app core
            gdb -p 1234 --batch -ex 'thread apply all bt'
            octave --eval 1+1",
        );
    }

    #[test]
    fn scripts_are_named() {
        check(
            "python x.py -c => opaque; code x.py
            python -m tool.x => code tool/x.py; code tool/x/__main__.py
            python => code from input
            python - => code from input
            node => code from input
            node -r ./hook.js app.js => code ./hook.js; code app.js
            perl x.pl => code x.pl
            perl -pi -e 's/a/b/' f g => writes f; writes g
            perl => code from input
            ruby -I lib x.rb => code lib; code x.rb
            php => code from input
            java -cp x.jar Main => code x.jar
            java -jar x.jar => code x.jar
            tclsh => code from input
            gdb --args ./app x => runs ./app x
            gdb -batch -ex run ./app => runs ./app
            gdb ./app => code from input
            lua -e 1 => opaque",
        );
    }

    #[test]
    fn options_that_name_programs_are_in_doubt() {
        check(
            "node --openssl-config=x a.js => the option --openssl-config
            node --env-file=.env a.js => the option --env-file
            java -XX:OnError=id Main => the option -XX:OnError
            java -XX:OnOutOfMemoryError=id Main => the option -XX:OnOutOfMemoryError
            java -javaagent:x.jar Main => the option -javaagent:x.jar
            java -agentlib:jdwp=launch=id Main => the option -agentlib:jdwp
            java @args => the word @args
            javac @args => the word @args
            javac -J-XX:OnError=id X.java => the option -J-XX:OnError
            javac -processor X X.java => the option -processor
            php -d extension=x.so a.php => the option -d
            php -c . a.php => the option -c
            php -z x.so => the option -z
            gdb -batch -ex '!id' => the command !id
            gdb -batch -ex 'shell id' => the command shell id
            gdb -x cmds => the option -x
            lldb -b -o 'platform shell id' => the command platform shell id
            ghc -pgmF ./x a.hs => the option -pgmF
            ghc -e 1 => the option -e
            dotnet exec x.dll => the subcommand exec
            dotnet build -p:X=Y => the option -p
            dotnet build /p:X=Y => the word /p:X=Y
            mix cmd id => the subcommand cmd
            swift build -Xlinker x => the option -X
            deno repl => the subcommand repl
            octave --persist => the option --persist",
        );
    }
}
