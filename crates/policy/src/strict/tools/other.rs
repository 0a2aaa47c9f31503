//! Editors, pagers, documents, and programs that belong to no other family.

use std::sync::LazyLock;

use super::entry::{
    ArgumentEffect, Judged, ProgramEntry, behind, command_of, refuse, refuse_argument_files,
};
use crate::command::{ShellSyntax, Word};
use crate::options::{Arguments, OptionOrder, OptionSet, has_word};

pub(super) fn vim(found: &Arguments) -> Judged {
    const COMMANDS: [&str; 13] =
        ["q", "q!", "qa", "qa!", "qall", "w", "wq", "wq!", "wqa", "x", "xa", "quit", "$"];
    let is_known = |text: &str| {
        let command = text.trim_start_matches(':');
        COMMANDS.contains(&command) || command.bytes().all(|byte| byte.is_ascii_digit())
    };
    for word in found.values(&["-c"]) {
        if !word.value().is_some_and(is_known) {
            return Err(format!("the command {word}"));
        }
    }
    for word in found.operands.iter().filter(|word| word.text.starts_with('+')) {
        if !word.value().is_some_and(|text| is_known(text.trim_start_matches('+'))) {
            return Err(format!("the command {word}"));
        }
    }
    editor(found)
}

/// An editor changes its files, and takes commands from its input.
pub(super) fn editor(found: &Arguments) -> Judged {
    if found.has(&["--version", "--help", "-h"]) {
        return Ok(Vec::new());
    }
    // `ed '!command'` reads the output of a command.
    refuse(&found.operands, |word| word.text.starts_with('!'))?;
    let files = found.operands.iter().filter(|word| !word.text.starts_with('+'));
    let mut effects: Vec<_> = files.cloned().map(ArgumentEffect::Writes).collect();
    effects.push(ArgumentEffect::ReadsCodeFromInput);
    Ok(effects)
}

/// `+G`, `+20`, `+/pattern`; a line end would start another command.
pub(super) fn less(found: &Arguments) -> Judged {
    let commands = found.operands.iter().filter(|word| word.text.starts_with('+'));
    let patterns = found.values(&["-p", "--pattern"]);
    // After `$`, and after a number, further options may stand in the same word.
    let ends = |text: &str| text.contains(|letter: char| letter.is_control() || letter == '$');
    refuse(patterns, |word| word.value().is_none_or(ends))?;
    let is_number =
        |text: &str| text.bytes().all(|byte| byte.is_ascii_digit() || b".,".contains(&byte));
    let numbers = found.values(&["-b", "-h", "-j", "-x", "-y", "-z", "-n", "--tabs", "--window"]);
    refuse(numbers, |word| !word.value().is_some_and(is_number))?;
    refuse(commands, |word| {
        word.value().is_none_or(|text| {
            let command = text.trim_start_matches('+');
            let is_known = command == "G"
                || command == "F"
                || command.bytes().all(|byte| byte.is_ascii_digit())
                || (command.starts_with('/') && !command.contains(char::is_control));
            !is_known
        })
    })?;
    Ok(Vec::new())
}

pub(super) fn no_cache_command(found: &Arguments) -> Judged {
    refuse(found.operands.first(), |word| word.is("cache")).map(|()| Vec::new())
}

/// Without `-dump` a browser takes commands from its input.
pub(super) fn dumped_page(found: &Arguments) -> Judged {
    let is_dump = found.has(&["-dump", "-source", "-version", "--version", "-help", "-listonly"]);
    // `lynxexec:` and `file:///cgi-bin` start programs.
    let is_page = |word: &Word| {
        !word.text.contains(':')
            || word.text.starts_with("http://")
            || word.text.starts_with("https://")
    };
    refuse(&found.operands, |word| !is_page(word))?;
    Ok((!is_dump).then_some(ArgumentEffect::ReadsCodeFromInput).into_iter().collect())
}

/// Options of the commands of tmux that start another command.
static TMUX_START: LazyLock<OptionSet> = LazyLock::new(|| {
    OptionSet::parse("-d -A -D -P -X -s== -n== -t== -x== -y== -c== -h -v -b -l== -p== -a -k")
});

pub(super) fn tmux(found: &Arguments) -> Judged {
    const QUERIES: &str = "ls list-sessions has has-session lsw list-windows lsp list-panes lsc \
        list-clients capturep capture-pane display display-message kill-session kill-window killw \
        kill-pane killp kill-server lscm list-commands lsb list-buffers showb show-buffer rename \
        rename-session rename-window info detach detach-client attach attach-session a at";
    const START: &str = "new new-session neww new-window splitw split-window";
    refuse(&found.operands, |word| {
        word.value().is_none_or(|text| text.contains("#(") || text.ends_with(';'))
    })?;
    let Some((name, args)) = found.operands.split_first() else {
        return Ok(vec![ArgumentEffect::ReadsCodeFromInput]);
    };
    if QUERIES.split_ascii_whitespace().any(|known| name.is(known)) {
        return Ok(Vec::new());
    }
    if !START.split_ascii_whitespace().any(|known| name.is(known)) {
        return Err(format!("the subcommand {name}"));
    }
    tmux_command(&TMUX_START.read(args, OptionOrder::First)?)
}

/// One word is a text for the shell, several are a command.
fn tmux_command(found: &Arguments) -> Judged {
    match found.operands.as_slice() {
        [] => Err("tmux without a command, which starts a shell".to_owned()),
        [text] => {
            Ok(vec![ArgumentEffect::Script { text: text.text.clone(), shell: ShellSyntax::Posix }])
        }
        words => Ok(vec![ArgumentEffect::Runs(words.to_vec())]),
    }
}

pub(super) fn screen(found: &Arguments) -> Judged {
    if found.has(&["-ls", "-list", "-wipe", "-v", "-version", "--version"]) {
        return Ok(Vec::new());
    }
    let command = command_of(&found.operands);
    Ok(vec![command.unwrap_or(ArgumentEffect::ReadsCodeFromInput)])
}

/// An address that is a program or a file is not one of a person.
pub(super) fn addresses(found: &Arguments) -> Judged {
    let copies = found.values(&["-c", "-b"]);
    refuse(found.operands.iter().chain(copies), |word| word.text.contains(['|', '/', '!']))?;
    Ok(Vec::new())
}

/// Words by which a project's own tool reads code from its input, or starts another program.
pub(super) fn project(found: &Arguments) -> Judged {
    const OTHER: &str = "shell dbshell exec run-command console edit bench genspider agent";
    let is_other = |word: &Word| word.value().is_none_or(|text| has_word(OTHER, text));
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
    Ok(found.operands.iter().filter(is_code).cloned().map(ArgumentEffect::ReadsCode).collect())
}

/// `R CMD name` starts another program.
pub(super) fn no_batch(found: &Arguments) -> Judged {
    refuse(&found.operands, |_| true)?;
    let is_told = found.has(&["-e", "-f", "--file", "--version", "--help"]);
    Ok((!is_told).then_some(ArgumentEffect::ReadsCodeFromInput).into_iter().collect())
}

pub(super) fn dc(found: &Arguments) -> Judged {
    let has_command = |word: &Word| word.value().is_none_or(|text| text.contains('!'));
    refuse(found.values(&["-e", "--expression"]), has_command)?;
    let mut effects: Vec<_> =
        found.operands.iter().cloned().map(ArgumentEffect::ReadsCode).collect();
    // `?` in an expression reads the input as well.
    let asks = found.values(&["-e", "--expression"]).any(|word| word.text.contains('?'));
    if asks || (effects.is_empty() && found.options.is_empty()) {
        effects.push(ArgumentEffect::ReadsCodeFromInput);
    }
    Ok(effects)
}

/// `logsave FILE COMMAND…` stores what the command prints.
pub(super) fn logsave(found: &Arguments) -> Judged {
    let Some(file) = found.operands.first() else {
        return Ok(Vec::new());
    };
    let command = behind(&found.operands, 1)?;
    // Options are read only before the file.
    OptionSet::default().read(command, OptionOrder::First)?;
    Ok(vec![ArgumentEffect::Writes(file.clone()), ArgumentEffect::Runs(command.to_vec())])
}

/// A file; `\input` gives code, and `&name` a format.
pub(super) fn tex(found: &Arguments) -> Judged {
    refuse(&found.operands, |word| word.text.starts_with(['\\', '&', '|', '"', '*']))?;
    if found.operands.is_empty() && !found.has(&["-version", "--version", "-help", "--help", "-v"])
    {
        return Ok(vec![ArgumentEffect::ReadsCodeFromInput]);
    }
    Ok(found.operands.iter().cloned().map(ArgumentEffect::ReadsCode).collect())
}

/// A format that is a file is a program in Lua. PDF is made by another program.
pub(super) fn pandoc(found: &Arguments) -> Judged {
    let formats = ["-f", "-r", "--from", "--read", "-t", "-w", "--to", "--write"];
    let is_name = |text: &str| {
        text.chars().all(|letter| letter.is_ascii_alphanumeric() || "_+-".contains(letter))
    };
    refuse(found.values(&formats), |word| !word.value().is_some_and(is_name))?;
    let is_pdf =
        |word: &Word| word.value().is_none_or(|text| text.ends_with(".pdf") || text == "pdf");
    refuse(found.values(&["-o", "--output", "-t", "--to"]), is_pdf).map(|()| Vec::new())
}

/// `--java_out=settings:directory` hides the directory after settings.
pub(super) fn protoc(found: &Arguments) -> Judged {
    refuse_argument_files(found)?;
    let outputs = found.options.iter().filter(|given| given.name.ends_with("_out"));
    refuse(outputs.filter_map(|given| given.value.as_ref()), |word| word.text.contains(':'))?;
    Ok(Vec::new())
}

pub(super) fn no_settings(found: &Arguments) -> Judged {
    refuse(&found.operands, |word| word.value().is_none_or(|text| text.contains('=')))
        .map(|()| Vec::new())
}

pub(super) fn needs_list(found: &Arguments) -> Judged {
    if found.has(&["-l", "--list", "-V", "--version", "-h"]) {
        return Ok(Vec::new());
    }
    Ok(vec![ArgumentEffect::ReadsCodeFromInput])
}

/// Files that are read or written; an address with a colon may be more than a file.
pub(super) fn plain_files(found: &Arguments) -> Judged {
    refuse(&found.operands, |word| word.text.contains(':') || word.text.starts_with('@'))?;
    Ok(found.operands.iter().cloned().map(ArgumentEffect::Writes).collect())
}

/// Files appear beneath a directory.
pub(super) fn unpack(found: &Arguments) -> Judged {
    let directory = found.values(&["-d", "-o"]).last().cloned();
    Ok(vec![ArgumentEffect::WritesBeneath(directory.unwrap_or_else(|| Word::literal(".")))])
}

pub(super) fn pg_ctl(found: &Arguments) -> Judged {
    const ACTIONS: [&str; 5] = ["start", "stop", "restart", "reload", "status"];
    let unknown = |word: &Word| !ACTIONS.iter().any(|action| word.is(action));
    refuse(&found.operands, unknown).map(|()| Vec::new())
}

/// Verbs with their options, joined by `then`, and files.
pub(super) fn mlr(found: &Arguments) -> Judged {
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
pub(super) fn uudecode(found: &Arguments) -> Judged {
    if found.has(&["-o", "--version", "--help"]) {
        return Ok(Vec::new());
    }
    Err("uudecode without the option -o".to_owned())
}

pub(super) fn all_written(found: &Arguments) -> Judged {
    Ok(found.operands.iter().cloned().map(ArgumentEffect::Writes).collect())
}

/// Only the version and the help of such a program are known to be harmless. Many of them read
/// commands from their input without an argument.
pub(super) fn unread(entry: &ProgramEntry, program: &str, args: &[Word]) -> Judged {
    if args.is_empty() {
        return Err(format!("{program} without an argument"));
    }
    entry.judge_by_table(args)
}

/// The input or the arguments are a language that no entry reads.
pub(super) fn version_only(entry: &ProgramEntry, program: &str, args: &[Word]) -> Judged {
    match args {
        [] => Ok(Vec::new()),
        [only] if only.is("--version") || only.is("--help") => Ok(Vec::new()),
        _ => refuse_arguments(entry, program, args),
    }
}

pub(super) fn refuse_arguments(_: &ProgramEntry, program: &str, _: &[Word]) -> Judged {
    Err(format!("the arguments of {program}"))
}

#[cfg(test)]
mod tests {
    use crate::strict::tools::tests::{check, harmless};

    #[test]
    fn everyday_use_of_viewers_is_known() {
        harmless(
            "less README.md
        less -RFX +G app.log
        less -N +/error app.log
        more -20 x
        man -k printf
        man 3 printf
        man ls
        bat --style=plain -r 1:20 src/lib.rs
        bat -p --paging=never x
        lynx -dump https://example.org
        tmux ls
        tmux has-session -t dev
        tmux kill-session -t dev
        tmux capture-pane -p -t dev
        screen -ls
        vim --version
        nano --version
        code --version
        mail -s hello a@example.org
        info -o - ls",
        );
    }

    #[test]
    fn commands_and_files_are_named() {
        check(
            "vim x => writes x; code from input
        vi -c :q x => writes x
        ed x => writes x; code from input
        nano x => code from input
        tmux new-session -d -s x 'id && ls' => Posix script id && ls
        tmux new -d id -u => runs id -u
        tmux neww id => Posix script id
        tmux => code from input
        screen -dmS x id -u => runs id -u
        screen -d -m id => runs id
        screen => code from input
        lynx https://x => code from input",
        );
    }

    #[test]
    fn commands_that_start_programs_are_in_doubt() {
        check(
            "vim -c ':!id' => the command :!id
        vim '+!id' => the command +!id
        vim +:!id x => the command +:!id
        vim --cmd x => the option --cmd
        vim -S x => the option -S
        vim -u x => the option -u
        vim -es x => the option -s
        vim -c 'py3 x' => the command py3 x
        ed '!id' => the word !id
        nano -s ./e x => the option -s
        nano --speller=./e x => the option --speller
        emacs --eval x => the option --eval
        emacs x => the word x
        emacsclient -e x => the option -e
        code --install-extension x => the option --install-extension
        less '+!id' x => the word +!id
        less -k x y => the option -k
        less -b5kx y => the word 5kx
        less '-px$-kx' y => the word x$-kx
        tmux new -d -f ls 'touch x' => the option -f
        screen -dm -h ls touch x => the option -h
        nvim -l x.lua => the option -l
        less --lesskey-src=x y => the option --lesskey-src
        less -o x y => the option -o
        more '+!id' x => the word +!id
        man -P ./e ls => the option -P
        man --pager=./e ls => the option --pager
        man -H./e ls => the option -H
        man -C x ls => the option -C
        man --page=./e ls => the option --page
        bat --pager ./e x => the option --pager
        delta --pager=./e => the option --pager
        lynx -editor=./e x => the option -editor
        lynx -dump lynxexec:id => the word lynxexec:id
        tmux new -d => tmux without a command, which starts a shell
        tmux new-session -d -s dev => tmux without a command, which starts a shell
        mail -E 'shell id' => the option -E
        tmux run-shell id => the subcommand run-shell
        tmux send-keys id Enter => the subcommand send-keys
        tmux display -p '#(id)' => the word #(id)
        tmux ls ; run id => the word ;
        tmux -c id => the option -c
        tmux -f x new => the option -f
        tmux if-shell id x => the subcommand if-shell
        screen -X exec id => the option -X
        mail --exec='!id' => the option --exec
        mail -s x '|id' => the word |id
        mutt -F x => the option -F
        xdg-open x => the word x
        kitty -e id => the option -e
        vipw -q => the option -q",
        );
    }

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
    fn rest_commands_and_files_are_named() {
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
    fn unread_commands_and_files_are_named() {
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
