//! Editors, pagers, viewers, mail programs and terminal multiplexers.
//!
//! An editor takes commands from its input, and some of them start programs.
//!
//! An entry marked "Unchecked", or without a version, has yet to be compared with the program's own
//! help; the version is the one that it is meant for.

use super::consequence::{Consequence, Doubt};
use super::dispatch::Judgement;
use super::entry::{OperandRole, PLAIN, ToolEntry, command_of, judge_by, refuse};
use super::options::Arguments;
use crate::command::{Shell, Word};

const TABLE: &[ToolEntry] = &[
    // Vim 9.0, vim --help. `-S`, `-s`, `-u`, `--cmd` and most commands of `-c` run code.
    ToolEntry {
        names: "vi vim nvim view gvim vimdiff rvim rview gview rgvim rgview evim eview nvi vim.tiny \
            vim.basic vim.nox vim.gtk3 vimx ex",
        options: "-v -e -E -d -y -R -Z -m -M -C -N -n -r -L -A -H -p? -o? -O? -h -x --not-a-term \
            --ttyfail --noplugin --clean --version --help -c== --headless",
        operands: OperandRole::Judged(vim),
        ..PLAIN
    },
    // Unchecked. GNU nano 7.2, GNU ed 1.19: files, and commands from the input.
    ToolEntry {
        names: "nano pico rnano",
        options: "-A -B -E -F -G -H -i -k -l -m -N -R -S -u -v -x --view --linenumbers --nohelp --softwrap \
            --version -V -h --help",
        operands: OperandRole::Judged(editor),
        ..PLAIN
    },
    ToolEntry {
        names: "ed red",
        options: "-E -G -l -r -s -v -p= --extended-regexp --quiet --silent --version --help -h -V",
        operands: OperandRole::Judged(editor),
        ..PLAIN
    },
    ToolEntry {
        names: "micro joe jed jmacs jpico jstar ne mcedit kak hx helix emacs emacsclient xemacs mg zile code codium cursor subl atom idea gedit kate",
        options: "--version --help -h --list-extensions --status --verbose",
        operands: OperandRole::Nothing,
        ..PLAIN
    },
    // less 590, less --help. `-k` and `--lesskey-src` define keys, `+` holds commands.
    ToolEntry {
        names: "less zless bzless xzless lesspipe pg most",
        options: "-a -A -B -c -C -d -e -E -f -F -g -G -i -I -J -K -L -m -M -n -N -q -Q -r -R -s -S -u -U -V \
            -w -W -X -b= -h= -j= -x= -y= -z= -p= -# -~ --help --version --chop-long-lines \
            --RAW-CONTROL-CHARS --raw-control-chars --no-init --quit-if-one-screen --LINE-NUMBERS \
            --ignore-case --IGNORE-CASE --QUIT-AT-EOF --quit-at-eof --squeeze-blank-lines --mouse \
            --no-lessopen --tabs= --pattern= --window= --long-prompt --LONG-PROMPT --use-color",
        operands: OperandRole::Judged(less),
        ..PLAIN
    },
    ToolEntry {
        names: "more",
        options: "-d -l -f -e -c -p -s -u -n= -# --silent --logical --no-pause --print-over --clean-print \
            --squeeze --plain --lines= --help --version -h -V",
        operands: OperandRole::Judged(less),
        ..PLAIN
    },
    // man-db 2.11.2, man --help. `-P`, `-H` and `-C` name programs.
    ToolEntry {
        names: "man",
        options: "-f --whatis -k --apropos -K --global-apropos -w --where --path --location -S= -s= \
            --sections= -a --all -i --ignore-case -I --match-case --regex --wildcard --names-only \
            --no-subpages -7 --ascii -V --version -h --help -? --usage -L= --locale= --nh --nj \
            --no-hyphenation --no-justification -e= --extension=",
        ..PLAIN
    },
    ToolEntry {
        names: "info pinfo",
        options: "-a --all -k= --apropos= -w --where -o= --output= --subnodes -n= --node= -h --help \
            --version -O --usage",
        writes: "-o --output",
        ..PLAIN
    },
    // Unchecked. bat 0.22, bat --help; delta 0.15. `--pager` names a program.
    ToolEntry {
        names: "bat batcat",
        options: "-A --show-all -p --plain -l= --language= -H= --highlight-line= --file-name= -d --diff \
            --diff-context= --tabs= --wrap= --terminal-width= -n --number --color= --italic-text= \
            --decorations= -f --force-colorization --paging= -P --theme= --list-themes --style= -r= \
            --line-range= -L --list-languages -u --unbuffered -h --help -V --version -S --chop-long-lines",
        operands: OperandRole::Judged(no_cache_command),
        ..PLAIN
    },
    ToolEntry {
        names: "delta",
        options: "-s --side-by-side -n --line-numbers --dark --light --color-only --paging= --width= \
            --syntax-theme= --no-gitconfig --version -h --help --list-syntax-themes --navigate",
        ..PLAIN
    },
    // Text browsers: only a dump of a page. Their other options name editors and configurations.
    ToolEntry {
        names: "lynx w3m links elinks links2 www-browser",
        options: "-dump -source -nolist -listonly -width= -cols= -T= -version --version -help -no-home \
            -accept_all_cookies -useragent= -stdin -dump-width= -no-references -no-numbering",
        operands: OperandRole::Judged(dumped_page),
        ..PLAIN
    },
    // tmux 3.3a, tmux(1). A shell command, `#( )` in formats and `;` start others.
    ToolEntry {
        names: "tmux",
        options: "-V -u -2 -L= -q -v",
        operands: OperandRole::JudgedFirst(tmux),
        ..PLAIN
    },
    // Unchecked. GNU screen 4.9.
    ToolEntry {
        names: "screen",
        options: "-ls -list -wipe -v -version --version -d -m -D -r -R -x -dm -dmS= -S= -U -q -A -L",
        operands: OperandRole::JudgedFirst(screen),
        ..PLAIN
    },
    ToolEntry {
        names: "tmate byobu zellij dtach abduco script-session ttyd gotty mosh-server",
        options: "--version -V --help -h",
        operands: OperandRole::Nothing,
        ..PLAIN
    },
    // Mail programs: a subject and addresses. `--exec`, `-~` and `|program` start programs.
    ToolEntry {
        names: "mail mailx Mail bsd-mailx s-nail",
        options: "-s= -c= -b= -r= -a= -v -n -N -V --version --help --subject=",
        operands: OperandRole::Judged(addresses),
        ..PLAIN
    },
    ToolEntry {
        names: "mutt neomutt alpine pine sendmail exim exim4 msmtp procmail maildrop fetchmail getmail \
            swaks newsboat irssi weechat ircII mpack metamail run-mailcap see xdg-open xdg-email open \
            gio kde-open yelp zathura evince okular eog feh mpv vlc display sensible-browser \
            sensible-editor sensible-pager editor pager firefox chromium google-chrome chrome \
            x-www-browser x-terminal-emulator urxvt rxvt kitty alacritty \
            wezterm foot terminator tilix st lxterminal xfce4-terminal ranger nnn lf mc vifm vipw vigr \
            visudo crontab-editor select-editor ncdu htop-shell gdm-x lazygit tig gitk \
                  peco dmenu rofi zenity-exec yazi broot",
        options: "--version --help -V",
        operands: OperandRole::Nothing,
        ..PLAIN
    },
];

/// Judges an editor or a pager.
pub(super) fn consequences(program: &str, args: &[Word]) -> Judgement {
    judge_by(TABLE, program, args)
}

fn vim(found: &Arguments) -> Result<Vec<Consequence>, Doubt> {
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
fn editor(found: &Arguments) -> Result<Vec<Consequence>, Doubt> {
    if found.has(&["--version", "--help", "-h"]) {
        return Ok(Vec::new());
    }
    // `ed '!command'` reads the output of a command.
    refuse(&found.operands, |word| word.text.starts_with('!'))?;
    let files = found.operands.iter().filter(|word| !word.text.starts_with('+'));
    let mut effects: Vec<_> = files.cloned().map(Consequence::Writes).collect();
    effects.push(Consequence::ReadsCodeFromInput);
    Ok(effects)
}

/// `+G`, `+20`, `+/pattern`; a line end would start another command.
fn less(found: &Arguments) -> Result<Vec<Consequence>, Doubt> {
    let commands = found.operands.iter().filter(|word| word.text.starts_with('+'));
    let patterns = found.values(&["-p", "--pattern"]);
    // Behind `$`, and behind a number, further options may stand in the same word.
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

fn no_cache_command(found: &Arguments) -> Result<Vec<Consequence>, Doubt> {
    refuse(found.operands.first(), |word| word.is("cache")).map(|()| Vec::new())
}

/// Without `-dump` a browser takes commands from its input.
fn dumped_page(found: &Arguments) -> Result<Vec<Consequence>, Doubt> {
    let is_dump = found.has(&["-dump", "-source", "-version", "--version", "-help", "-listonly"]);
    // `lynxexec:` and `file:///cgi-bin` start programs.
    let is_page = |word: &Word| {
        !word.text.contains(':')
            || word.text.starts_with("http://")
            || word.text.starts_with("https://")
    };
    refuse(&found.operands, |word| !is_page(word))?;
    Ok((!is_dump).then_some(Consequence::ReadsCodeFromInput).into_iter().collect())
}

fn tmux(found: &Arguments) -> Result<Vec<Consequence>, Doubt> {
    const QUERIES: &str = "ls list-sessions has has-session lsw list-windows lsp list-panes lsc \
        list-clients capturep capture-pane display display-message kill-session kill-window killw \
        kill-pane killp kill-server lscm list-commands lsb list-buffers showb show-buffer rename \
        rename-session rename-window info detach detach-client attach attach-session a at";
    const START: &str = "new new-session neww new-window splitw split-window";
    refuse(&found.operands, |word| {
        word.value().is_none_or(|text| text.contains("#(") || text.ends_with(';'))
    })?;
    let Some((name, args)) = found.operands.split_first() else {
        return Ok(vec![Consequence::ReadsCodeFromInput]);
    };
    if QUERIES.split_ascii_whitespace().any(|known| name.is(known)) {
        return Ok(Vec::new());
    }
    if !START.split_ascii_whitespace().any(|known| name.is(known)) {
        return Err(format!("the subcommand {name}"));
    }
    let entry = ToolEntry {
        options: "-d -A -D -P -X -s== -n== -t== -x== -y== -c== -h -v -b -l== -p== -a -k",
        operands: OperandRole::JudgedFirst(tmux_command),
        ..PLAIN
    };
    entry.judge(args)
}

/// One word is a text for the shell, several are a command.
fn tmux_command(found: &Arguments) -> Result<Vec<Consequence>, Doubt> {
    match found.operands.as_slice() {
        [] => Err("tmux without a command, which starts a shell".to_owned()),
        [text] => Ok(vec![Consequence::Script { text: text.text.clone(), shell: Shell::Posix }]),
        words => Ok(vec![Consequence::Runs(words.to_vec())]),
    }
}

fn screen(found: &Arguments) -> Result<Vec<Consequence>, Doubt> {
    if found.has(&["-ls", "-list", "-wipe", "-v", "-version", "--version"]) {
        return Ok(Vec::new());
    }
    let command = command_of(&found.operands);
    Ok(vec![command.unwrap_or(Consequence::ReadsCodeFromInput)])
}

/// An address that is a program or a file is not one of a person.
fn addresses(found: &Arguments) -> Result<Vec<Consequence>, Doubt> {
    let copies = found.values(&["-c", "-b"]);
    refuse(found.operands.iter().chain(copies), |word| word.text.contains(['|', '/', '!']))?;
    Ok(Vec::new())
}

#[cfg(test)]
mod tests {
    use super::super::table_checks::{check, harmless};

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
            tmux new-session -d -s x 'id && ls' => script id && ls
            tmux new -d id -u => runs id -u
            tmux neww id => script id
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
}
