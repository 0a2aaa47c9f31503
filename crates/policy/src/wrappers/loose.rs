//! Programs with a command behind options that are not read. Each word that may start the command
//! counts as a command, so that a rule can match it; some of these words are values of options.

use crate::command::{Effect, SH, SimpleCommand, Word};
use crate::options::{has_word, stays_one_word};

/// Programs that run a command, by the number of words between the options and the command.
const PROGRAMS: [(usize, &str); 2] = [
    (
        0,
        "proot coreutils chronic rlwrap npx pnpx bunx noglob nocorrect - dbus-run-session xvfb-run \
         unbuffer proxychains proxychains4 pkexec prlimit numactl setarch linux32 linux64 i386 \
         x86_64 aarch64 choom cpulimit uclampset tini docker-init dumb-init unshare nsenter setpriv \
         ltrace strace systemd-run cgexec sshpass fakeroot chpst valgrind ld.so entr logsave \
         runuser start-stop-daemon schroot watchexec",
    ),
    (1, "repeat gosu su-exec setuidgid envdir faketime taskset chrt chroot flock"),
];

/// Subcommands that run a command, by the number of words between their options and the command.
const SUBCOMMANDS: [(&str, &str, usize); 11] = [
    ("docker podman nerdctl docker-compose podman-compose", "run create exec", 1),
    ("kubectl oc", "exec run debug rsh", 1),
    ("ip direnv rustup", "exec run", 1),
    ("bundle pyenv rbenv asdf mise", "exec", 0),
    ("poetry pipenv uv conda mamba", "run", 0),
    ("perf", "stat record trace sched lock mem kmem kvm", 0),
    ("npm", "exec exe ex x", 0),
    ("pnpm yarn", "exec dlx", 0),
    ("gdb lldb", "--args", 0),
    ("start-stop-daemon", "-x --exec", 0),
    ("systemd-nspawn", "-D --directory", 1),
];

/// Options whose value is the command, or a text with it.
const COMMAND_OPTIONS: &str = "--entrypoint --health-cmd";

/// Words between a program and its subcommand.
const GROUPS: &str = "container compose netns vrf";

/// Returns the effects of a program that runs a command; `None` for any other program.
pub(super) fn loose_effects(name: &str, command: &SimpleCommand) -> Option<Vec<Effect>> {
    let args = command.args.as_slice();
    let is_loader = name.starts_with("ld-linux") || name.starts_with("ld-musl");
    let name = if is_loader { "ld.so" } else { name };
    if let Some((before, _)) = PROGRAMS.iter().find(|(_, names)| has_word(names, name)) {
        let only_informs = |word: &Word| word.is("--help") || word.is("--version");
        let effects = following_commands(name, args, *before);
        let is_bare = effects.is_empty() && !args.iter().any(only_informs);
        return Some(if is_bare { vec![Effect::unclear(name, "what it starts")] } else { effects });
    }
    let (_, words, before) = SUBCOMMANDS.iter().find(|(names, ..)| has_word(names, name))?;
    Some(match find_subcommand(args, words) {
        Subcommand::At(index) => {
            let rest = args.get(index + 1..).unwrap_or_default();
            following_commands(name, rest, *before)
        }
        Subcommand::Unknown(word) => vec![Effect::unclear(name, format!("the word {word}"))],
        Subcommand::Other => Vec::new(),
    })
}

/// The subcommand of a program.
enum Subcommand<'w> {
    /// The index of a subcommand that runs a command.
    At(usize),
    Unknown(&'w Word),
    Other,
}

/// Finds one of the subcommands behind options, of which any may have a value.
fn find_subcommand<'w>(args: &'w [Word], words: &str) -> Subcommand<'w> {
    let mut after_option = false;
    for (index, word) in args.iter().enumerate() {
        match word.value() {
            Some(text) if has_word(words, text) => return Subcommand::At(index),
            Some(text) if text.starts_with('-') => after_option = true,
            Some(text) if after_option || has_word(GROUPS, text) => after_option = false,
            Some(_) => return Subcommand::Other,
            None if after_option => after_option = false,
            None => return Subcommand::Unknown(word),
        }
    }
    Subcommand::Other
}

/// Returns the effect of each word that may start the command: the word behind an option may be the
/// value of the option.
pub(super) fn following_commands(name: &str, args: &[Word], before: usize) -> Vec<Effect> {
    let mut effects = Vec::new();
    let (mut certain, mut possible) = (0, 0);
    let mut after_option = false;
    for (index, word) in args.iter().enumerate() {
        let was_after_option = std::mem::take(&mut after_option);
        if word.text.starts_with('-') {
            effects.extend(command_option_effect(word, args.get(index + 1)));
            after_option = !word.is("--") && !word.text.contains('=');
            continue;
        }
        let is_last = index + 1 == args.len();
        match word.value() {
            Some(text) if text.contains('=') => continue,
            Some(_) if possible >= before => {
                effects.extend(Effect::runs(args.get(index..).unwrap_or_default()));
            }
            Some(_) => {}
            None if was_after_option && !is_last => {}
            None if possible < before && stays_one_word(word) => {}
            None if word.plain && !is_last => {}
            None => {
                effects.push(Effect::unclear(name, format!("the word {word}")));
                break;
            }
        }
        possible += 1;
        certain += usize::from(!was_after_option);
        if certain > before {
            break;
        }
    }
    effects
}

/// Returns the effect of an option whose value is a command.
fn command_option_effect(word: &Word, next: Option<&Word>) -> Option<Effect> {
    let (name, value) = match word.text.split_once('=') {
        Some((name, text)) => (name, Word { text: text.to_owned(), ..word.clone() }),
        None => (word.text.as_str(), next?.clone()),
    };
    has_word(COMMAND_OPTIONS, name).then(|| Effect::script(&value, SH))
}
