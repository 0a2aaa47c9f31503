//! Other programs that can start programs, load code or write files.
//!
//! An entry marked "Unchecked", or without a version, has yet to be compared with the program's own
//! help; the version is the one that it is meant for.

use super::consequence::{Consequence, Doubt};
use super::dispatch::Judgement;
use super::entry::{
    OPAQUE, OperandRole, PLAIN, ToolEntry, behind, judge_by, refuse, refuse_argument_files,
};
use super::option_spec::OptionSpec;
use super::options::{Arguments, Order};
use crate::command::Word;

/// Programs of which no argument is known to be harmless, apart from their version and help.
const UNKNOWN: &str = "aa-exec agetty aoss apache2ctl arj asciinema ascii-xfr aspell asterisk atobm \
    autoexpect bashbug bbot bconsole bee borg byebug bzr capsh cdist clush condor_submit crash cram \
    cryptsetup cssh cvs darcs dbus-send dconf debugfs dnsmasq dosbox dracut dsh dtrace dvips easyrsa \
    edir enscript a2ps fab fossil forge genie gimp ginsh gtester grub-install hexedit heaptrack \
    hivemind horovodrun deepspeed accelerate torchrun inkscape ispell jmeter jtag kmod-shell knife \
    ksshell ksu ld.so ld-linux-x86-64.so.2 ld-linux.so.2 ld-linux-aarch64.so.1 ld-musl-x86_64.so.1 \
    lvm lwp-download lwp-request GET lxd mdadm minicom mkfs mkinitramfs modprobe insmod mosquitto \
    mpirun mpiexec multitail nautilus needrestart newman opkg overmind goreman honcho p4 pdsh perlbug \
    pexec pkg plymouth psftp pssh parallel-ssh qsub bsub redcarpet reflex restic rpmdb rsyslogd \
    rtorrent runscript runtest salloc sbatch srun scanmem sg shellspec socket softlimit sqlmap stap \
    startx xinit svnadmin systemd-tmpfiles tasksh termtosvg trace-cmd ttyrec urlget varnishncsa vhs \
    volatility watchman xdotool xfs_io xmore xpad xscreensaver zic zmv gpg-agent gpgconf dirmngr \
    pinentry gpgsm jjs jrunscript air chokidar concurrently npm-run-all run-p run-s nextflow cromwell \
    snakemake luigi airflow swig thrift saxon texi2pdf texi2dvi context runc-shell maxima sage \
    magma gap gp wolframscript matlab mathematica afl-fuzz honggfuzz sqlplus socklog choom \
    cpulimit multitime gdbserver rr gprofng detox mmv asroot calife super sux kdesu gksu";

const NEVER: ToolEntry = ToolEntry {
    options: "--version -V --help -h -version",
    operands: OperandRole::Nothing,
    ..PLAIN
};

/// Programs of a project that run its own code, with options that only choose and print.
const PROJECT: ToolEntry = ToolEntry {
    options: "-h --help -V --version -v --verbose -q --quiet --app= -A= --host= -p= --port= -b= --bind= \
        -w= --workers= --reload --debug --log-level= -l= --loglevel= --dry-run --timeout= -n= --name= \
        --no-input --noinput --select= -s= --models= --target= --full-refresh --factory --strict --clean \
        --baseURL= --minify -D --buildDrafts -j= --jobs= --filter= --tap --formatter= -r --recursive -t \
        --headless -u= --users= --run-time= --concurrency= --settings= --database= --fake --plan --check \
        --merge --empty --sql -m= --message= --autogenerate --no-browser --to= --execute --inplace \
        --output= --server.port= --vus= --duration= --config-file=",
    code: "--config-file",
    writes: "--output",
    operands: OperandRole::Judged(project),
    ..OPAQUE
};

const TABLE: &[ToolEntry] = &[
    ToolEntry {
        names: "alembic dbt flask django-admin manage.py celery scrapy streamlit gradio sphinx-build \
            mkdocs jekyll hugo bats foreman locust k6 jupyter-lab jupyter-nbconvert dvc mlflow \
            flyway liquibase sqitch goose dbmate migrate atlas uvicorn gunicorn hypercorn buf",
        files: "pyproject.toml conf.py mkdocs.yml Procfile alembic.ini app.py wsgi.py manage.py \
            dbt_project.yml gunicorn.conf.py buf.yaml buf.gen.yaml",
        ..PROJECT
    },
    // `jupyter NAME` starts the program jupyter-NAME.
    ToolEntry {
        names: "jupyter",
        options: "--version -h --help --paths",
        operands: OperandRole::Subcommand(&[
            ToolEntry { names: "notebook lab nbconvert execute", ..PROJECT },
            ToolEntry {
                names: "kernelspec",
                operands: OperandRole::Subcommand(&[ToolEntry {
                    names: "list",
                    options: "--json",
                    ..PLAIN
                }]),
                ..PLAIN
            },
        ]),
        ..OPAQUE
    },
    // Unchecked. IPython 8, R 4.2, irb, pry, pdb, GNU CLISP, JShell: interpreters.
    ToolEntry {
        names: "ipython bpython ptpython irb pry clisp jshell pdb",
        options: "-c= -e= -q --version -V -v -h --help --no-banner --simple-prompt -m=",
        operands: OperandRole::Script,
        inline: "-c -e --version -V -v -h --help",
        ..OPAQUE
    },
    ToolEntry {
        names: "R",
        options: "--vanilla --no-save --no-restore --slave -s --quiet -q --no-echo -e== -f= --file= \
            --version --help",
        code: "-f --file",
        operands: OperandRole::Judged(no_batch),
        ..OPAQUE
    },
    // Unchecked. GNU dc 1.4: `!` starts a command, also from its input.
    ToolEntry {
        names: "dc",
        options: "-e== --expression== -V --version -h --help",
        operands: OperandRole::Judged(dc),
        ..PLAIN
    },
    // Programs that run the command behind their options.
    ToolEntry {
        names: "valgrind",
        options: "-q -v --quiet --verbose --tool=memcheck --tool=callgrind --tool=massif --tool=helgrind \
            --tool=cachegrind --leak-check=* --track-origins=* --error-exitcode=* --show-leak-kinds=* \
            --num-callers=* --trace-children=* --log-file= --xml=* --xml-file= --errors-for-leak-kinds=* \
            --suppressions= --gen-suppressions=no --version --help --callgrind-out-file=",
        writes: "--log-file --xml-file --callgrind-out-file",
        operands: OperandRole::Command(0),
        ..PLAIN
    },
    ToolEntry {
        names: "grc",
        options: "-e -s --colour=*",
        operands: OperandRole::Command(0),
        ..PLAIN
    },
    ToolEntry {
        names: "rlwrap",
        options: "-a -A -i -n -r -m -c --version --help -v -h",
        operands: OperandRole::Command(0),
        ..PLAIN
    },
    ToolEntry {
        names: "logsave",
        options: "-a -s -v",
        operands: OperandRole::Judged(logsave),
        ..PLAIN
    },
    ToolEntry {
        names: "msgfilter msgexec",
        options: "-i= --input= -o= --output-file= -w= --width= --no-wrap -s --sort-output -F",
        writes: "-o --output-file",
        operands: OperandRole::Command(0),
        ..PLAIN
    },
    ToolEntry {
        names: "msgattrib msgcat msgconv msgmerge msguniq msgfmt msginit xgettext",
        options: "-i -o= --output-file= -w= --width= --no-wrap -s --sort-output -F -t= --to-code= -U \
            --update --backup= -N -q --quiet --silent -c --check --statistics -v --verbose --no-location \
            --no-obsolete --untranslated --translated --fuzzy --no-fuzzy --use-first -L= --language= -k? \
            --keyword? --from-code= -d= -j --join-existing -p= -l= --locale= --no-translator --version --help",
        writes: "-o --output-file",
        directories: "-p -d",
        ..PLAIN
    },
    // Unchecked. Mercurial 6, Subversion 1.14. `--config` and commands for diffs and editors are
    // not listed.
    ToolEntry {
        names: "hg",
        options: "-q --quiet -v --verbose --version -h --help -R= --repository= --cwd= -y",
        shared: "-R= --repository= --cwd= --pager=never -y --noninteractive --color=",
        code: "-R --repository --cwd",
        operands: OperandRole::Subcommand(&[ToolEntry {
            names: "status st log diff commit ci add update up pull push branch branches summary sum id \
                identify cat annotate blame revert heads tip tags paths parents files manifest remove rm \
                addremove incoming outgoing merge resolve bookmarks clone init root",
            options: "-r= --rev= -l= --limit= -p --patch -m= --message= -A -u -C --clean -a --all -b= -B= \
                --stat -g --git -n -i -c --change= -T= --template= -q -v -G --graph -k= -f --force -U= -d= \
                -X= -I= --list -M",
            ..PLAIN
        }]),
        ..PLAIN
    },
    ToolEntry {
        names: "svn",
        options: "--version -q --quiet -h --help --non-interactive",
        shared: "--non-interactive --username= --password= --no-auth-cache --trust-server-cert",
        operands: OperandRole::Subcommand(&[ToolEntry {
            names: "status st log info diff di update up commit ci checkout co add list ls cat blame \
                revert export delete rm move mv copy cp mkdir resolved resolve cleanup propget switch merge",
            options: "-r= --revision= -l= --limit= -v --verbose -m= --message= -q --quiet -u \
                --show-updates -R --recursive --xml -c= --change= --stop-on-copy --depth= --force \
                --summarize --accept= -g --show-item= --parents --ignore-externals",
            ..PLAIN
        }]),
        ..PLAIN
    },
    ToolEntry {
        names: "jj",
        options: "--version -h --help",
        shared: "--no-pager -r= --revisions= -n= --limit= --color= -s --summary --stat --git --no-graph",
        operands: OperandRole::Subcommand(&[ToolEntry {
            names: "status st log diff show",
            ..PLAIN
        }]),
        ..PLAIN
    },
    // GnuPG 2.2. Options that name programs, a home directory or files of options are not listed.
    ToolEntry {
        names: "gpg gpg2 gpgv",
        options: "-k -K -a -b -c -d -e -s -r= -u= -o= -q -v --verify --import --list-keys --list-secret-keys \
            --list-sigs --fingerprint --with-colons --show-keys --decrypt --encrypt --sign --clear-sign \
            --clearsign --detach-sign --symmetric --armor --dearmor --enarmor --export --recipient= \
            --local-user= --output= --batch --yes --no --quiet --verbose --no-tty --keyserver= \
            --recv-keys --search-keys --send-keys --refresh-keys --keyid-format= --no-default-keyring \
            --keyring= --trust-model= --pinentry-mode= --passphrase= --version --help --status-fd=",
        writes: "-o --output --keyring",
        ..PLAIN
    },
    // Unchecked. TeX Live 2022: `-shell-escape` and formats run programs; a file is a program
    // itself.
    ToolEntry {
        names: "latex pdflatex xelatex lualatex tex pdftex xetex luatex",
        options: "-interaction= -halt-on-error -output-directory= -jobname= -file-line-error -draftmode \
            -no-shell-escape -synctex= -recorder -version --version -help --help -output-format= \
            --interaction= --halt-on-error --output-directory= --jobname=",
        writes: "-jobname --jobname",
        directories: "-output-directory --output-directory",
        operands: OperandRole::Judged(tex),
        ..OPAQUE
    },
    ToolEntry {
        names: "latexmk",
        options: "-pdf -xelatex -lualatex -dvi -c -C -f -g -gg -silent -quiet -interaction= -outdir= \
            -halt-on-error -version -v -help -pvc- -synctex= -file-line-error",
        directories: "-outdir",
        files: ".latexmkrc latexmkrc",
        operands: OperandRole::Judged(tex),
        ..OPAQUE
    },
    ToolEntry {
        names: "bibtex biber makeinfo makeindex dvipdf ps2pdf",
        options: "-q --quiet --version",
        ..PLAIN
    },
    // Unchecked. groff 1.22: `-U` allows commands of the document.
    ToolEntry {
        names: "groff troff nroff pic eqn tbl soelim zsoelim neqn",
        options: "-T= -man -ms -mdoc -mandoc -me -s -t -e -k -K= -a -c -w= -W= -z -S -h -v --version --help",
        ..PLAIN
    },
    // pandoc 2.17, pandoc --help. Filters, engines, defaults and formats by path run code.
    ToolEntry {
        names: "pandoc",
        options: "-f= -r= --from= --read= -t= -w= --to= --write= -o= --output= -s --standalone --toc \
            --table-of-contents --toc-depth= -N --number-sections --wrap= --columns= -M= --metadata= \
            --metadata-file= -V= --variable= --css= -c= --embed-resources --self-contained --mathjax? \
            --highlight-style= --no-highlight --extract-media= --resource-path= --shift-heading-level-by= \
            --reference-doc= -i --incremental --citeproc -C --bibliography= --csl= --eol= --ascii \
            --markdown-headings= --quiet --verbose --sandbox -v --version -h --help --list-input-formats \
            --list-output-formats",
        writes: "-o --output",
        directories: "--extract-media",
        operands: OperandRole::Judged(pandoc),
        ..PLAIN
    },
    // Unchecked. libxml2 2.9, libxslt 1.1: a style sheet can write files.
    ToolEntry {
        names: "xmllint",
        options: "--noout --format --pretty= --xpath= --schema= --relaxng= --dtdvalid= --valid --recover \
            --html --nonet --encode= --output= --noblanks --huge --c14n --version --noent",
        writes: "--output",
        ..PLAIN
    },
    ToolEntry {
        names: "xsltproc",
        options: "-o= --output= --stringparam= --nonet --novalid --version --noout --html --nowrite",
        writes: "-o --output",
        operands: OperandRole::Code,
        ..OPAQUE
    },
    // Unchecked. protoc 3.21: other `--NAME_out` options start the plugin protoc-gen-NAME.
    ToolEntry {
        names: "protoc",
        options: "-I= -I* --proto_path= --python_out= --pyi_out= --cpp_out= --java_out= --csharp_out= \
            --ruby_out= --php_out= --kotlin_out= --objc_out= -o= --descriptor_set_out= --include_imports \
            --include_source_info --version -h --help --fatal_warnings",
        writes: "-o --descriptor_set_out",
        directories: "--python_out --pyi_out --cpp_out --java_out --csharp_out --ruby_out --php_out \
            --kotlin_out --objc_out",
        operands: OperandRole::Judged(protoc),
        ..PLAIN
    },
    ToolEntry {
        names: "bison flex yacc lex flatc byacc",
        options: "-d -v -y -t -l -i -o= --output= --defines= -p= --version --help -V -W* --header? -s",
        writes: "-o --output --defines --header",
        ..PLAIN
    },
    ToolEntry {
        names: "ctags etags cscope gtags",
        options: "-R -a -e -f= -o= --exclude= --languages= --version --help -L -d -b -q -k -# --recurse?",
        writes: "-f -o",
        files: ".ctags .ctags.d",
        ..PLAIN
    },
    ToolEntry {
        names: "doxygen",
        options: "-v --version -h -q",
        files: "Doxyfile",
        operands: OperandRole::Code,
        ..OPAQUE
    },
    ToolEntry {
        names: "asciidoctor",
        options: "-o= -D= -b= -a= -d= -q -v -V --version -n -s -e -w -S= --safe-mode= -h --help",
        writes: "-o",
        directories: "-D",
        ..OPAQUE
    },
    // sysctl 4.0: a setting of the kernel may name a program, so only reading is known.
    ToolEntry {
        names: "sysctl",
        options: "-a -A -X -n -N -e -b -q -V -h --all --values --names --ignore --version --help --pattern= -r=",
        operands: OperandRole::Judged(no_settings),
        ..PLAIN
    },
    ToolEntry {
        names: "ldconfig",
        options: "-p -v -N -V --print-cache --verbose --version",
        operands: OperandRole::Nothing,
        ..PLAIN
    },
    ToolEntry {
        names: "mount",
        options: "-l -v -V -h --version --help",
        operands: OperandRole::Nothing,
        ..PLAIN
    },
    ToolEntry {
        names: "fdisk sfdisk parted",
        options: "-l --list -V --version -h",
        operands: OperandRole::Judged(needs_list),
        ..PLAIN
    },
    ToolEntry {
        names: "dmsetup udevadm kmod",
        options: "--tree --version -h --help --query= --name= -n= -a -q=",
        operands: OperandRole::Subcommand(&[ToolEntry {
            names: "ls info status table list settle version",
            options: "--tree -q= -n= -a --query= --name=",
            ..PLAIN
        }]),
        ..PLAIN
    },
    // Unchecked. sysstat 12: `pidstat -e` starts a program. dstat loads plugins by option.
    ToolEntry {
        names: "pidstat",
        options: "-d -h -H -I -l -R -r -s -t -U? -u -V -v -w -p= -C= -G= -T= --human",
        ..PLAIN
    },
    ToolEntry {
        names: "dstat pcp-dstat",
        options: "-c -d -g -i -l -m -n -p -r -s -t -y -a -f -v -C= -D= -N= --version -h --help --nocolor --noheaders",
        ..PLAIN
    },
    // Unchecked. bpftrace 0.17: `-c` starts a command, `--unsafe` allows system().
    ToolEntry {
        names: "bpftrace",
        options: "-e== -l -q -v -d -V --version -h --help -p= -f= -o= -B=",
        writes: "-o",
        operands: OperandRole::Script,
        inline: "-e -l -V --version -h --help",
        ..OPAQUE
    },
    ToolEntry { names: "gcore", options: "-a -o= -d=", writes: "-o", ..PLAIN },
    // Unchecked. cowsay 3: a cow file is Perl code. Pygments: `-x` loads code.
    ToolEntry {
        names: "cowsay cowthink",
        options: "-b -d -g -p -s -t -w -y -e= -T= -W= -l -n -h",
        ..PLAIN
    },
    ToolEntry {
        names: "pygmentize",
        options: "-l= -f= -O= -P= -o= -g -s -S= -a= -L -N= -V -h -v",
        writes: "-o",
        ..PLAIN
    },
    ToolEntry {
        names: "highlight neofetch fastfetch screenfetch",
        options: "-S= --syntax= -O= --out-format= -i= -o= --stdout --off -l --line-numbers --version --help",
        writes: "-o",
        ..PLAIN
    },
    // Unchecked. FFmpeg 5.1: filters and protocols can load libraries, so only conversions are
    // known.
    ToolEntry {
        names: "ffmpeg",
        options: "-i= -y -n -c= -c:v= -c:a= -codec= -vcodec= -acodec= -r= -s= -t= -ss= -to= -b:v= -b:a= \
            -crf= -preset= -an -vn -sn -f= -loglevel= -v= -hide_banner -nostdin -version -formats -codecs \
            -map= -ar= -ac= -q:v= -q:a= -frames:v= -vframes= -pix_fmt= -movflags= -shortest",
        operands: OperandRole::Judged(plain_files),
        ..PLAIN
    },
    // Unchecked. LibreOffice 7: macros are code.
    ToolEntry {
        names: "libreoffice soffice lowriter localc",
        directories: "--outdir",
        options: "--headless --convert-to= --outdir= --version --help -h --norestore --nologo --cat",
        operands: OperandRole::Judged(plain_files),
        ..PLAIN
    },
    ToolEntry {
        names: "genisoimage mkisofs xorriso mksquashfs",
        options: "-o= -R -r -J -V= -quiet -l -v -joliet -rock -version",
        writes: "-o",
        operands: OperandRole::Judged(plain_files),
        ..PLAIN
    },
    ToolEntry {
        names: "unsquashfs",
        options: "-l -ll -s -d= -f -n -q -stat -version -v",
        operands: OperandRole::Judged(unpack),
        ..PLAIN
    },
    ToolEntry {
        names: "qpdf",
        options: "--check --linearize --decrypt --empty --pages --show-npages --version --help --qdf --warning-exit-0",
        operands: OperandRole::Judged(plain_files),
        ..PLAIN
    },
    ToolEntry {
        names: "tic",
        options: "-x -c -v -V -I -o=",
        operands: OperandRole::Judged(unpack),
        ..PLAIN
    },
    // Unchecked. logrotate 3.21: a configuration holds scripts.
    ToolEntry {
        names: "logrotate",
        options: "-d --debug -f --force -v --verbose -s= --state= --version",
        writes: "-s --state",
        operands: OperandRole::Code,
        ..OPAQUE
    },
    ToolEntry {
        names: "csvtool",
        options: "-t= -u= -o=",
        writes: "-o",
        operands: OperandRole::Subcommand(&[ToolEntry {
            names: "col namedcol width height head drop take sub readable cat square trim transpose",
            ..PLAIN
        }]),
        ..PLAIN
    },
    ToolEntry {
        names: "gsettings",
        operands: OperandRole::Subcommand(&[ToolEntry {
            names: "get list-schemas list-keys list-recursively describe range",
            ..PLAIN
        }]),
        ..PLAIN
    },
    ToolEntry {
        names: "wrk",
        options: "-t= -c= -d= -H= -s= --latency --timeout= -v --threads= --connections= --duration= \
            --header= --script=",
        code: "-s --script",
        ..PLAIN
    },
    ToolEntry { names: "iftop", options: "-n -N -p -b -B -i= -f= -F= -t -s= -P -h", ..PLAIN },
];

/// Judges a program that belongs to no other family.
pub(super) fn consequences(program: &str, args: &[Word]) -> Judgement {
    let is_unknown = UNKNOWN.split_ascii_whitespace().any(|name| name == program);
    // Plugins of Nagios start other programs by their options.
    let is_plugin = program.starts_with("check_");
    // The dynamic loader starts the program that it is given.
    let is_loader = program.starts_with("ld-linux") || program.starts_with("ld-musl");
    if is_unknown || is_plugin || is_loader {
        // Many of them read commands from their input without an argument.
        let is_bare = args.is_empty();
        let bare = || Err(format!("{program} without an argument"));
        return Some(if is_bare { bare() } else { NEVER.judge(args) });
    }
    judge_by(TABLE, program, args)
}

/// Words by which a project's own tool reads code from its input, or starts another program.
fn project(found: &Arguments) -> Result<Vec<Consequence>, Doubt> {
    const OTHER: [&str; 9] = [
        "shell",
        "dbshell",
        "exec",
        "run-command",
        "console",
        "edit",
        "bench",
        "genspider",
        "agent",
    ];
    let is_other = |word: &Word| word.value().is_none_or(|text| OTHER.contains(&text));
    refuse(found.operands.first(), is_other)?;
    let is_code = |word: &&Word| {
        [".py", ".js", ".ts", ".ipynb", ".bats"].iter().any(|ending| word.text.ends_with(ending))
    };
    // `foreman run command` and `dvc run command` cannot be told from `dbt run`.
    if found.operands.first().is_some_and(|word| word.is("run"))
        && found.operands.get(1).is_some_and(|word| !is_code(&word))
    {
        return Err("the subcommand run".to_owned());
    }
    Ok(found.operands.iter().filter(is_code).cloned().map(Consequence::ReadsCode).collect())
}

/// `R CMD name` starts another program.
fn no_batch(found: &Arguments) -> Result<Vec<Consequence>, Doubt> {
    refuse(&found.operands, |_| true)?;
    let is_told = found.has(&["-e", "-f", "--file", "--version", "--help"]);
    Ok((!is_told).then_some(Consequence::ReadsCodeFromInput).into_iter().collect())
}

fn dc(found: &Arguments) -> Result<Vec<Consequence>, Doubt> {
    let has_command = |word: &Word| word.value().is_none_or(|text| text.contains('!'));
    refuse(found.values(&["-e", "--expression"]), has_command)?;
    let mut effects: Vec<_> = found.operands.iter().cloned().map(Consequence::ReadsCode).collect();
    // `?` in an expression reads the input as well.
    let asks = found.values(&["-e", "--expression"]).any(|word| word.text.contains('?'));
    if asks || (effects.is_empty() && found.options.is_empty()) {
        effects.push(Consequence::ReadsCodeFromInput);
    }
    Ok(effects)
}

/// `logsave FILE COMMAND…` stores what the command prints.
fn logsave(found: &Arguments) -> Result<Vec<Consequence>, Doubt> {
    let Some(file) = found.operands.first() else {
        return Ok(Vec::new());
    };
    let command = behind(&found.operands, 1)?;
    // Options are read only in front of the file.
    OptionSpec { tokens: &[""], order: Order::First }.read(command)?;
    Ok(vec![Consequence::Writes(file.clone()), Consequence::Runs(command.to_vec())])
}

/// A file; `\input` gives code, and `&name` a format.
fn tex(found: &Arguments) -> Result<Vec<Consequence>, Doubt> {
    refuse(&found.operands, |word| word.text.starts_with(['\\', '&', '|', '"', '*']))?;
    if found.operands.is_empty() && !found.has(&["-version", "--version", "-help", "--help", "-v"])
    {
        return Ok(vec![Consequence::ReadsCodeFromInput]);
    }
    Ok(found.operands.iter().cloned().map(Consequence::ReadsCode).collect())
}

/// A format that is a file is a program in Lua. PDF is made by another program.
fn pandoc(found: &Arguments) -> Result<Vec<Consequence>, Doubt> {
    let formats = ["-f", "-r", "--from", "--read", "-t", "-w", "--to", "--write"];
    let is_name = |text: &str| {
        text.chars().all(|letter| letter.is_ascii_alphanumeric() || "_+-".contains(letter))
    };
    refuse(found.values(&formats), |word| !word.value().is_some_and(is_name))?;
    let is_pdf =
        |word: &Word| word.value().is_none_or(|text| text.ends_with(".pdf") || text == "pdf");
    refuse(found.values(&["-o", "--output", "-t", "--to"]), is_pdf).map(|()| Vec::new())
}

/// `--java_out=settings:directory` hides the directory behind settings.
fn protoc(found: &Arguments) -> Result<Vec<Consequence>, Doubt> {
    refuse_argument_files(found)?;
    let outputs = found.options.iter().filter(|given| given.name.ends_with("_out"));
    refuse(outputs.filter_map(|given| given.value.as_ref()), |word| word.text.contains(':'))?;
    Ok(Vec::new())
}

fn no_settings(found: &Arguments) -> Result<Vec<Consequence>, Doubt> {
    refuse(&found.operands, |word| word.value().is_none_or(|text| text.contains('=')))
        .map(|()| Vec::new())
}

fn needs_list(found: &Arguments) -> Result<Vec<Consequence>, Doubt> {
    if found.has(&["-l", "--list", "-V", "--version", "-h"]) {
        return Ok(Vec::new());
    }
    Ok(vec![Consequence::ReadsCodeFromInput])
}

/// Files that are read or written; an address with a colon may be more than a file.
fn plain_files(found: &Arguments) -> Result<Vec<Consequence>, Doubt> {
    refuse(&found.operands, |word| word.text.contains(':') || word.text.starts_with('@'))?;
    Ok(found.operands.iter().cloned().map(Consequence::Writes).collect())
}

/// Files appear beneath a directory.
fn unpack(found: &Arguments) -> Result<Vec<Consequence>, Doubt> {
    let directory = found.values(&["-d", "-o"]).last().cloned();
    Ok(vec![Consequence::WritesBeneath(directory.unwrap_or_else(|| Word::literal(".")))])
}

#[cfg(test)]
mod tests {
    use super::super::table_checks::{check, harmless};

    #[test]
    fn everyday_use_of_other_programs_is_known() {
        harmless(
            "alembic upgrade head
            flask --app app run
            celery -A app worker -l info
            manage.py migrate
            sphinx-build -b html docs out
            uvicorn app:app --reload --port 8000
            gunicorn -w 4 app:app
            bats test/x.bats
            hugo --minify
            ipython -c 1
            R -e 1
            dc -e '2 2 + p'
            hg status
            hg log -l 5
            svn update
            svn log -l 3
            gpg --verify x.asc x
            gpg --list-keys
            pdflatex -interaction=nonstopmode main.tex
            pandoc -f markdown -t html README.md -o out.html
            xmllint --noout x.xml
            protoc -I. --python_out=out x.proto
            bison -d x.y
            sysctl -n kernel.hostname
            sysctl -a
            fdisk -l
            ffmpeg -i a.mp4 -c:v libx264 b.mp4
            cowsay hello
            msgfmt -o x.mo x.po
            dmsetup ls --tree
            mount
            crash --version",
        );
    }

    #[test]
    fn commands_and_files_are_named() {
        check(
            "protoc --python_out=.git/hooks x.proto => writes beneath .git/hooks
            protoc --java_out=lite:.git x.proto => the word lite:.git
            pdflatex -output-directory=.git/hooks x.tex => writes beneath .git/hooks
            asciidoctor -D out x.adoc => writes beneath out
            pandoc --extract-media=x y.docx => writes beneath x
            valgrind --leak-check=full ./app x => runs ./app x
            rlwrap id => runs id
            grc id => runs id
            logsave x.log id => writes x.log; runs id
            msgfilter -i x id => runs id
            bats x.bats => code x.bats
            dc => code from input
            dc x => code x
            dc -e '?' => code from input
            irb => code from input
            R => code from input
            pdflatex x.tex => code x.tex
            latex => code from input
            pandoc x -o y.html => writes y.html
            logrotate -f x => code x
            gpg -o x -d y => writes x
            fdisk /dev/sda => code from input
            bpftrace x.bt => code x.bt
            unsquashfs -d out x => writes beneath out",
        );
    }

    #[test]
    fn other_arguments_are_in_doubt() {
        check(
            "ld.so /bin/id => the word /bin/id
            ld-linux-x86-64.so.2 /bin/rm x => the word /bin/rm
            check_by_ssh -o ProxyCommand=id => the option -o
            check_log -F x => the option -F
            capsh -- -c id => the word -c
            dc -e '!id' => the word !id
            flask shell => the word shell
            foreman run id => the subcommand run
            dvc run id => the subcommand run
            R CMD id => the word CMD
            hg --config alias.x=!id x => the option --config
            hg x => the subcommand x
            svn --config-option=x status => the option --config-option
            svn diff --diff-cmd ./e => the option --diff-cmd
            svn commit --editor-cmd ./e => the option --editor-cmd
            gpg --photo-viewer ./e => the option --photo-viewer
            gpg --homedir . --list-keys => the option --homedir
            gpg --agent-program ./e => the option --agent-program
            pdflatex -shell-escape x => the option -shell-escape
            latex --shell-escape x => the option --shell-escape
            pdflatex '\\input{|id}' => the word \\input{|id}
            latexmk -e x => the option -e
            latexmk -pdflatex=./e x => the option -pdflatex
            groff -U x => the option -U
            pic -U x => the option -U
            pandoc -F ./e x => the option -F
            pandoc --lua-filter x y => the option --lua-filter
            pandoc -t x.lua y => the word x.lua
            pandoc --pdf-engine=./e x => the option --pdf-engine
            protoc --plugin=x y => the option --plugin
            protoc --go_out=. x => the option --go_out
            sysctl kernel.core_pattern=x => the word kernel.core_pattern=x
            sysctl -w a=b => the option -w
            sysctl -p x => the option -p
            ldconfig -f x => the option -f
            mount -o loop x y => the option -o
            pidstat -e id => the option -e
            dstat --x => the option --x
            bpftrace -c id x => the option -c
            bpftrace --unsafe -e x => the option --unsafe
            cowsay -f ./e x => the option -f
            pygmentize -x -l ./e.py => the option -x
            valgrind --tool=./e id => the option --tool
            csvtool call id x => the subcommand call
            dmsetup ls --exec id => the option --exec
            xsltproc --load-trace x => the option --load-trace
            libreoffice macro:///x => the word macro:///x
            gsettings set a b c => the subcommand set
            jupyter evil => the subcommand evil
            concurrently id => the word id
            mpirun id => the word id
            borg create --rsh ./e => the option --rsh
            xdotool exec id => the word exec
            scanmem -c id => the option -c
            wrk -s x.lua http://y => code x.lua",
        );
    }
}
