//! Languages, task runners and launchers of which few arguments are known to be harmless.
//!
//! Each entry lists the usual arguments of a program; all others are in doubt. No entry here has
//! been compared with a particular version.

use super::consequence::{Consequence, Doubt};
use super::dispatch::Judgement;
use super::entry::{
    OPAQUE, OperandRole, PLAIN, ToolEntry, is_plain_text, judge_by, refuse, refuse_argument_files,
};
use super::options::Arguments;
use crate::command::Word;

/// Programs of which no argument is known to be harmless, apart from their version and help: they
/// run commands or code that stand in options, in settings or in files of their own.
const UNKNOWN: &str = "animate arch-nspawn aws-shell bower brotli bzexe cargo-watch ccmake cordova \
    cpack cross-env cross-env-shell cu dasel dbclient dch debchange debconf debconf-communicate \
    dotenv dotenv-cli dpkg-reconfigure dpkg-source dtruss duplicity earthly electron env-cmd expo \
    fail2ban-client fasd fdm ffplay formail gargs gconftool gdbus gopass gpg-connect-agent \
    gst-launch-1.0 gtk-launch guard guilt gum gzexe hadoop hbase helmfile help2man hive ibazel incrond \
    initdb jdb kata-runtime kermit kexec lima limactl lrzip lsyncd lzop mbsync mencoder modd montage \
    mplayer mpop multilog multipass mutool mysqld mysqld_safe mysqlsh nvm offlineimap onchange pants \
    patch-package percol picocom pig please plink podman-remote postfix postgres ppss pscp ptar pyspark \
    quilt rdiff-backup realize rec release-it rename.ul rsnapshot runsc rush rushx rvm scrot \
    selecta semantic-release shx sk skim sox spark-shell spark-sql spark-submit stg \
    systemd-socket-activate tasksel teleport tk ts-node-dev tsh tsnd tup uftrace ucf unison \
    acme.sh bjam boot brunch buildctl carton darwin-rebuild devbox ebook-convert emerge \
    eternalterminal f2py fabric flox gm gnat gprbuild home-manager idle import jam jpackage lazbuild \
    login mailutils mk nexe pg_upgrade pgloader play plz redo repo shake shelljs swupd tarsnap texdoc \
    tlmgr urpmi xbps-install zoxide \
    unoconv visidata vd wine wine64 x11vnc xcodebuild xcrun xe youki zkCli.sh zpaq";

const NEVER: ToolEntry = ToolEntry {
    options: "--version -V --help -h -version",
    operands: OperandRole::Nothing,
    ..PLAIN
};

/// An interpreter with a script or a text of code.
const SCRIPT: ToolEntry = ToolEntry { operands: OperandRole::Script, ..OPAQUE };

/// A tool that runs the tasks of a project by their names.
const TASKS: ToolEntry = ToolEntry { operands: OperandRole::Judged(plain_targets), ..OPAQUE };

const TABLE: &[ToolEntry] = &[
    ToolEntry {
        names: "raku perl6 ocaml utop swipl gprolog prolog yap sbcl ecl gcl ccl abcl clojure clj bb \
            babashka scheme chez petite bigloo mit-scheme gambit zx dotnet-script amm ammonite mono \
            fsharpi d8 coqtop erb rdmd lean",
        options: "-e== --eval== --expression== -v --version -V -h --help --script= --load= -q --quiet \
            --no-userinit --no-sysinit --non-interactive -noprompt --norc --noinform -x -s -f=",
        code: "--script --load -f",
        inline: "-e --eval --expression -v --version -V -h --help --script -f",
        ..SCRIPT
    },
    // Compilers: one output, or a directory of them. Preprocessors and linkers are not listed.
    ToolEntry {
        names: "ocamlc ocamlopt coqc dmd ldc2 fpc swiftc scalac kotlinc groovyc purs elm",
        options: "-o= -d= -c -g -O -I= -cp= -classpath= -version --version -help --help -v",
        code: "-cp -classpath",
        writes: "-o",
        directories: "-d",
        operands: OperandRole::Judged(no_argument_files),
        ..OPAQUE
    },
    // GNU as, NASM, Graphviz and generators of code: they start nothing, and write their output.
    ToolEntry {
        names: "as gas nasm yasm ragel re2c gperf cython racc dot neato fdp sfdp twopi circo",
        options: "-o= -o* -f= -f* -g -I= -I* -T* -K* -G* -N* -E* -O -V -v --version --help -h -l= -3 -C \
            --64 --32 --output-file= --output=",
        writes: "-o -l --output-file --output",
        operands: OperandRole::Judged(no_argument_files),
        ..PLAIN
    },
    ToolEntry { names: "perldoc", options: "-f= -q= -v= -m -l -t -T -u -h", ..PLAIN },
    // Plugins (`--enable-exec`, `--enable-alpha-plugins`) and `--helm-command` are programs.
    ToolEntry {
        names: "kustomize",
        options: "-h --help",
        operands: OperandRole::Subcommand(&[
            ToolEntry {
                names: "build",
                options: "-o= --output= --load-restrictor= --reorder= -e=",
                writes: "-o --output",
                directories: "-o --output",
                ..PLAIN
            },
            ToolEntry { names: "version", ..PLAIN },
        ]),
        ..PLAIN
    },
    // It imports the module that it describes; `-w` writes a page.
    ToolEntry { names: "pydoc", options: "-k=", operands: OperandRole::Code, ..OPAQUE },
    // Compilers that call other ones, whose names and options are settings.
    ToolEntry {
        names: "nim nimble crystal shards zig dub vlang v odin ponyc gleam",
        options: "--version -v -h --help",
        operands: OperandRole::Subcommand(&[ToolEntry {
            names: "c cpp js compile build run r check test spec doc fmt format tool version env \
                    targets deps install update list build-exe build-lib build-obj",
            options: "-r -d:release -d:debug -d:danger --release --debug --check -v --verbose --run \
                    -Doptimize=* --error-trace --no-color --compiler=dmd --compiler=ldc2 -h --help",
            files: "build.zig build.zig.zon dub.json dub.sdl shard.yml config.nims nim.cfg",
            operands: OperandRole::Code,
            ..OPAQUE
        }]),
        ..OPAQUE
    },
    ToolEntry {
        names: "prove",
        options: "-l --lib -v --verbose -r --recurse -b --blib -j= --jobs= -q --quiet -I= -s --shuffle -f \
            --failures --timer -w --color --nocolor -o --version -V -h --help",
        code: "-I",
        files: ".proverc",
        operands: OperandRole::Code,
        ..OPAQUE
    },
    ToolEntry {
        names: "behave robot nose2 nosetests doit unittest",
        options: "-v --verbose -q --quiet -t= --tags= -n= --name= -s= -i= --include= --exclude= --dryrun \
            --dry-run --no-capture --stop -k -x --version -h --help -d= --outputdir= -o= --output=",
        writes: "-o --output",
        directories: "-d --outputdir",
        files: "behave.ini setup.cfg unittest.cfg nose2.cfg dodo.py pyproject.toml",
        operands: OperandRole::Code,
        ..OPAQUE
    },
    ToolEntry {
        names: "gulp grunt karma node-gyp lint-staged webpack-dev-server jasmine standard-version \
            cargo-make dune rebar3 lein leiningen lake",
        options: "-v --version -h --help --verbose --silent --single-run --no-color --tasks --release \
            --profile= --mode= --port= --watch --dry-run --debug --force -w",
        files: "gulpfile.js Gruntfile.js karma.conf.js binding.gyp package.json webpack.config.js \
            .lintstagedrc dune dune-project rebar.config project.clj lakefile.lean",
        ..TASKS
    },
    ToolEntry {
        names: "bmake pmake nmake",
        options: "-j= -k -n -s -i -e -q -B",
        files: "Makefile makefile BSDmakefile",
        ..TASKS
    },
    ToolEntry {
        names: "argocd flux",
        options: "--version -h --help",
        shared: "-n= --namespace= -A --all-namespaces -o= --output= --context= -w --watch --timeout= -h --help",
        operands: OperandRole::Subcommand(&[
            ToolEntry { names: "get version check list stats events logs tree trace", ..PLAIN },
            ToolEntry {
                names: "app proj cluster repo",
                operands: OperandRole::Subcommand(&[ToolEntry {
                    names: "list get history sync wait resources manifests logs",
                    options: "--refresh --prune --dry-run --revision=",
                    ..PLAIN
                }]),
                ..PLAIN
            },
        ]),
        ..PLAIN
    },
    ToolEntry {
        names: "etcdctl",
        options: "--endpoints= --cacert= --cert= --key= --user= -w= --write-out= -h --help",
        shared: "--endpoints= --cacert= --cert= --key= --user= -w= --write-out= --prefix --keys-only \
            --limit= --print-value-only --rev= --cluster",
        operands: OperandRole::Subcommand(&[
            ToolEntry { names: "get put del version", ..PLAIN },
            ToolEntry {
                names: "endpoint member",
                operands: OperandRole::Subcommand(&[ToolEntry {
                    names: "health status list hashkv",
                    ..PLAIN
                }]),
                ..PLAIN
            },
        ]),
        ..PLAIN
    },
    // A script can hold `\shell`.
    ToolEntry {
        names: "pgbench",
        options: "-c= -j= -T= -t= -i -s= -S -N -n -C -r -P= -M= -h= -p= -U= -d -R= -l -f= --file= \
            --client= --jobs= --time= --transactions= --initialize --scale= --select-only --version --help",
        code: "-f --file",
        ..PLAIN
    },
    ToolEntry {
        names: "pg_ctl",
        options: "-D= -s -w -W -t= -m= -l= --version --help",
        code: "-D",
        writes: "-l",
        operands: OperandRole::Judged(pg_ctl),
        ..OPAQUE
    },
    // Each setting of the server is an option; modules are libraries.
    ToolEntry {
        names: "redis-server valkey-server",
        options: "-v --version -h --help --port= --bind= --save== --appendonly= --daemonize= --loglevel= \
            --maxmemory= --requirepass= --protected-mode=",
        operands: OperandRole::Code,
        ..PLAIN
    },
    ToolEntry {
        names: "sqlite-utils",
        options: "--version -h --help",
        operands: OperandRole::Subcommand(&[ToolEntry {
            names: "tables views query rows schema indexes triggers search",
            options: "--csv --tsv --nl --arrays --json-cols -t --table --fmt= -r --raw --counts --columns \
                -p= --limit= --offset= -c= -w= -o= --where=",
            ..PLAIN
        }]),
        ..PLAIN
    },
    ToolEntry {
        names: "csvsql",
        options: "--query= --tables= -d= -t -q= -e= -i= --no-inference -I -v --version -h --help --snifflimit=",
        ..PLAIN
    },
    // Its language has system(), exec() and redirections; verbs without it only print.
    ToolEntry {
        names: "mlr",
        options: "--icsv --ocsv --csv -c --itsv --otsv --tsv -t --ijson --ojson --json -j --ijsonl --ojsonl \
            --jsonl --ixtab --oxtab --xtab --opprint --ipprint --pprint --omd --c2j --c2p --c2t --c2m --j2c \
            --t2j --t2c --c2l --inidx --onidx --nidx --ifs= --ofs= --fs= --barred --right \
            --implicit-csv-header --headerless-csv-output --allow-ragged-csv-input --from= -N --version \
            --help -h",
        files: ".mlrc",
        operands: OperandRole::JudgedFirst(mlr),
        ..PLAIN
    },
    // `ed -L` changes files, `tr` runs a style sheet.
    ToolEntry {
        names: "xmlstarlet",
        options: "--version --help -q --quiet",
        operands: OperandRole::Subcommand(&[ToolEntry {
            names: "sel select val validate el elements fo format c14n ls esc escape unesc unescape pyx",
            options: "*",
            ..PLAIN
        }]),
        ..PLAIN
    },
    // jq with other formats; `-i` changes files.
    ToolEntry {
        names: "xq tomlq",
        options: "-r -c -n -s -e -S -j -a -C -M -y -Y -x -t --arg= --raw-output --compact-output --slurp \
            --sort-keys --exit-status --null-input --xml-output --yaml-output --toml-output --version \
            -h --help",
        ..PLAIN
    },
    ToolEntry {
        names: "uudecode",
        options: "-o= -m --version --help",
        writes: "-o",
        operands: OperandRole::Judged(uudecode),
        ..PLAIN
    },
    ToolEntry {
        names: "zipalign",
        options: "-c -v -p -f -z",
        operands: OperandRole::Judged(all_written),
        ..PLAIN
    },
    ToolEntry {
        names: "systemd-cat",
        options: "-t= --identifier= -p= --priority= --stderr-priority= --level-prefix= --version -h --help",
        operands: OperandRole::Command(0),
        ..PLAIN
    },
];

/// Judges a program of which few arguments are known.
pub(super) fn consequences(program: &str, args: &[Word]) -> Judgement {
    let is_unknown = UNKNOWN.split_ascii_whitespace().any(|name| name == program);
    // Emulators run the program that they are given; monitors and disks are options.
    if is_unknown || program.starts_with("qemu-") {
        // Many of them read commands from their input without an argument.
        let is_bare = args.is_empty();
        let bare = || Err(format!("{program} without an argument"));
        return Some(if is_bare { bare() } else { NEVER.judge(args) });
    }
    judge_by(TABLE, program, args)
}

/// Names of tasks; `NAME=value` and text that a shell reads are in doubt.
fn plain_targets(found: &Arguments) -> Result<Vec<Consequence>, Doubt> {
    refuse(&found.operands, |word| !word.value().is_some_and(is_plain_text)).map(|()| Vec::new())
}

fn no_argument_files(found: &Arguments) -> Result<Vec<Consequence>, Doubt> {
    refuse_argument_files(found).map(|()| Vec::new())
}

fn pg_ctl(found: &Arguments) -> Result<Vec<Consequence>, Doubt> {
    const ACTIONS: [&str; 5] = ["start", "stop", "restart", "reload", "status"];
    let unknown = |word: &Word| !ACTIONS.iter().any(|action| word.is(action));
    refuse(&found.operands, unknown).map(|()| Vec::new())
}

/// Verbs with their options, joined by `then`, and files.
fn mlr(found: &Arguments) -> Result<Vec<Consequence>, Doubt> {
    const VERBS: &str = "cat head tail sort uniq count count-distinct count-values cut join nest reorder \
        rename regularize rename sec2gmt seqgen stats1 stats2 step tac top unsparsify sort-within-records \
        label json-parse json-stringify flatten unflatten fill-down fill-empty group-by group-like \
        having-fields histogram merge-fields most-frequent least-frequent nothing grep decimate \
        bar bootstrap shuffle sample reshape altkv summary";
    let is_verb = |word: &Word| VERBS.split_ascii_whitespace().any(|verb| word.is(verb));
    refuse(&found.operands, |word| word.value().is_none())?;
    let behind_then = found.operands.iter().zip(found.operands.iter().skip(1));
    let behind_then = behind_then.filter(|(then, _)| then.is("then")).map(|(_, verb)| verb);
    let verbs = found.operands.first().into_iter().chain(behind_then);
    // Options of `join` name a program that prepares its input.
    refuse(&found.operands, |word| word.text.starts_with("--prepipe"))?;
    refuse(verbs, |word| !is_verb(word)).map(|()| Vec::new())
}

/// Without `-o` the name of the file stands in the input.
fn uudecode(found: &Arguments) -> Result<Vec<Consequence>, Doubt> {
    if found.has(&["-o", "--version", "--help"]) {
        return Ok(Vec::new());
    }
    Err("uudecode without the option -o".to_owned())
}

fn all_written(found: &Arguments) -> Result<Vec<Consequence>, Doubt> {
    Ok(found.operands.iter().cloned().map(Consequence::Writes).collect())
}

#[cfg(test)]
mod tests {
    use super::super::table_checks::{check, harmless};

    #[test]
    fn everyday_use_is_known() {
        harmless(
            "raku x.raku
            sbcl --script x.lisp
            clojure -e '(+ 1 2)'
            ocaml x.ml
            nim c -r x.nim
            crystal spec
            zig build test
            zig version
            prove -lrv t
            behave features
            robot tests
            gulp build
            dot -Tpng x.dot -o x.png
            nasm -f elf64 x.asm -o x.o
            kustomize build overlays/dev
            scalac -d out x.scala
            grunt
            karma start --single-run
            node-gyp rebuild
            dune build
            bmake -j4 all
            argocd app list
            flux get kustomizations -A
            etcdctl get foo --prefix
            pgbench -c 10 -T 60 db
            pg_ctl -D data status
            redis-server --port 6380 --save ''
            sqlite-utils tables x.db --counts
            mlr --icsv --opprint sort -nr x then head -n 5 data.csv
            xmlstarlet sel -t -v //a x.xml
            xq -r .a x.xml
            tomlq .a x.toml
            dotenv --version
            qemu-img --version",
        );
    }

    #[test]
    fn commands_and_files_are_named() {
        check(
            "systemd-cat -t x id -u => runs id -u
            ocaml x.ml => opaque; code x.ml
            sbcl --script x.lisp => code x.lisp
            erb x.erb => code x.erb
            erb => code from input
            pydoc evil => code evil
            prove t/x.t => code t/x.t
            pgbench -f x.sql db => code x.sql
            redis-server x.conf => code x.conf
            pg_ctl -D data -l log start => code data; writes log
            robot -d out tests => writes beneath out; code tests
            zipalign 4 a.apk run.sh => writes run.sh
            dot -Tpng x.dot -o Makefile => writes Makefile
            nasm -fbin x.asm -o.git/config => writes .git/config
            scalac -d .git/hooks x.scala => writes beneath .git/hooks
            kustomize build -o x . => writes x
            uudecode -o x y => writes x",
        );
    }

    #[test]
    fn arguments_that_are_not_listed_are_in_doubt() {
        check(
            "cross-env A=1 id => the word A=1
            dotenv -- id => the word id
            onchange x -- id => the word x
            modd -f x => the option -f
            kustomize build --enable-exec . => the option --enable-exec
            ocamlc -pp id x.ml => the option -pp
            as @file => the word @file
            login -f root => the option -f
            wine x.exe => the word x.exe
            qemu-x86_64 ./x => the word ./x
            uftrace ./x => the word ./x
            systemd-socket-activate -l 1 ./x => the option -l
            xe id => the word id
            prove -e id t => the option -e
            prove --exec id t => the option --exec
            nim c --cc:env x.nim => the option --cc:env
            gulp --gulpfile x => the option --gulpfile
            bmake SHELL=./e => the word SHELL=./e
            helmfile apply => the word apply
            etcdctl lock x id => the subcommand lock
            etcdctl watch x -- id => the subcommand watch
            pg_ctl -D d -p ./e start => the option -p
            redis-server --loadmodule ./x.so => the option --loadmodule
            sqlite-utils convert x.db t c 'import os' => the subcommand convert
            mlr -n put 'end{system(1)}' => the option -n
            mlr --icsv cat then put 'system(1)' x => the word put
            mlr --icsv tee Makefile x => the word tee
            mlr --icsv join --prepipe id -f x y => the word --prepipe
            xmlstarlet ed -L -d //a x.xml => the subcommand ed
            tomlq -i .a x => the option -i
            uudecode x => uudecode without the option -o
            rename.ul x.txt Makefile x.txt => the word x.txt
            dpkg-reconfigure tzdata => the word tzdata
            plink host id => the word host
            sox '|id' x => the word |id
            postgres -D x => the option -D",
        );
    }
}
