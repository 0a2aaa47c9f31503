//! Variables that the shell or a tool gives a meaning, the ways to assign them, the places where
//! their value matters, and words that become something else when they run.

use super::fill::fill;
use super::random::Random;

const NAMES: [&str; 56] = [
    "RANDOM",
    "SRANDOM",
    "OPTIND",
    "OPTARG",
    "HISTCMD",
    "_",
    "FUNCNAME",
    "REPLY",
    "PWD",
    "OLDPWD",
    "LINENO",
    "SECONDS",
    "BASH_ARGV0",
    "BASH_CMDS",
    "BASH_ALIASES",
    "DIRSTACK",
    "GROUPS",
    "PIPESTATUS",
    "IFS",
    "PATH",
    "HOME",
    "ENV",
    "BASH_ENV",
    "PS4",
    "SHELLOPTS",
    "BASHOPTS",
    "EPOCHSECONDS",
    "BASHPID",
    "UID",
    "PPID",
    "COLUMNS",
    "LINES",
    "TMOUT",
    "LC_ALL",
    "LANG",
    "LC_CTYPE",
    "GLOBIGNORE",
    "EXECIGNORE",
    "COPROC",
    "MAPFILE",
    "BASH_REMATCH",
    "BASH_LINENO",
    "BASH_XTRACEFD",
    "COMP_WORDBREAKS",
    "HISTFILE",
    "TERM",
    "PAGER",
    "GIT_PAGER",
    "GIT_EXTERNAL_DIFF",
    "GIT_CONFIG_COUNT",
    "TAR_OPTIONS",
    "LD_PRELOAD",
    "POSIXLY_CORRECT",
    "x",
    "a",
    "n",
];
/// Values that are code, options, several words, or harmless.
const VALUES: [&str; 18] = [
    "'@code@'",
    "@code@",
    "-exec",
    "'. -exec @M@ ;'",
    "'x y'",
    "'$(@M@)'",
    "'`@M@`'",
    "'-f'",
    "5",
    "x",
    "@M@",
    "'($(@M@))'",
    "'([0]=$(@M@))'",
    "./run.sh",
    "$(@M@)",
    "\"$(@M@)\"",
    "''",
    "zh_CN.gbk",
];
/// `N` is the name, `V` the value.
const WAYS: [&str; 38] = [
    "N=V",
    "N=V",
    "N+=V",
    "N=(V)",
    "N+=(V)",
    "N[0]=V",
    "N=([0]=V)",
    "for N in V; do :; done",
    "for N in V; do USE; done",
    ": ${N:=V}",
    ": \"${N=V}\"",
    "unset N; : ${N:=V}",
    "read N <<< V",
    "read -r -a N <<< V",
    "IFS= read -r N <<< V",
    "printf -v N %s V",
    "printf -v 'N[0]' %s V",
    "declare N=V",
    "typeset N=V",
    "export N=V",
    "declare -x N=V",
    "declare -i N=V",
    "declare -a N=V",
    "declare -a 'N=V'",
    "declare -A 'N=V'",
    "declare -n N=x; x=V",
    "declare -i N; N=V",
    "declare -a N; N=V",
    "declare -l N=V",
    "readonly N=V",
    "f() { local N=V; USE; }; f",
    "let N=1",
    "((N = 1))",
    "mapfile -t N <<< V",
    "getopts a: N -a V",
    "exec {N}>o1",
    "coproc N { :; }",
    "select N in V; do break; done <<< 1",
];
const USES: [&str; 46] = [
    "echo $N",
    "echo \"$N\"",
    "echo $((N))",
    "echo $((N + 1))",
    "echo $[N]",
    "((N))",
    "let N",
    "let x=N",
    "[[ N -eq 1 ]]",
    "[[ $N -eq 1 ]]",
    "[[ -v $N ]]",
    "[[ -v N ]]",
    "[ -v \"$N\" ]",
    "test -v N",
    "[ \"$N\" -eq 0 ]",
    "[ -t $N ]",
    "echo ${a[N]}",
    "echo ${a[$N]}",
    "echo ${x:N}",
    "echo ${x:0:N}",
    "a[N]=1",
    "a=([N]=1)",
    "declare -i y=N",
    "printf '%d' \"$N\"",
    "printf -v \"$N\" x",
    "read \"$N\" <<< x",
    "unset \"$N\"",
    "export \"$N\"",
    "declare \"$N\"",
    "echo ${!N}",
    "echo \"${N@P}\"",
    "echo ${N@A}",
    "find . -maxdepth 0 $N @M@ \\;",
    "find . -maxdepth 0 -name $N",
    "find . -maxdepth 0 -name \"$N\"",
    "find . -maxdepth 0 ~- @M@ \\;",
    "find . -maxdepth 0 ~+ @M@ \\;",
    "xargs $N < list.txt",
    "env $N",
    "env \"$N\" ls",
    "sort $N f",
    "tar -cf x.tar $N f",
    "git status $N",
    "$N",
    "\"$N\" x",
    "echo ~+ ~- ~1",
];
/// Words that become several words, an option or a command, or that shells read differently.
const WORDS: [&str; 64] = [
    "$x",
    "\"$x\"",
    "${x}",
    "\"$@@\"",
    "$@@",
    "$*",
    "\"$*\"",
    "${a[@@]}",
    "\"${a[@@]}\"",
    "${!x}",
    "$_",
    "$RANDOM",
    "$PWD",
    "\"$PWD\"",
    "~",
    "~+",
    "~-",
    "~root",
    "*",
    "./*",
    "odd/*",
    "[a-z]*",
    "?",
    "{a,b}",
    "{.,-exec}",
    "-{e,}xec",
    "{1..3}",
    "{a..c}",
    "{a,{b,-exec}}",
    "{x},-exec}",
    "-{e.\\\n.e}xec",
    "{a\\,b,c}",
    "\"{a,b}\"",
    "{$x,y}",
    "x{,}y",
    "$'-exec'",
    "$'\\x2dexec'",
    "$'a\\'b'",
    "$\"a\"",
    "$\"$(@M@)\"",
    "`@M@`",
    "\"`@M@`\"",
    "$(@M@)",
    "\"$(@M@)\"",
    "<(@M@)",
    ">(@M@)",
    "$((1))",
    "$((x))",
    "$[x]",
    "\"${x:-'a'}\"",
    "${x:-$(@M@)}",
    "\"${x:-\"a\"}\"",
    "${x:=-exec}",
    "${x@@P}",
    "${x//a/$(@M@)}",
    "${#x}",
    "--",
    "-",
    "-exec",
    "-exec @M@ {} ;",
    "'a b'",
    "a\\ b",
    "\\$x",
    "!x",
];

/// Text that is a command wherever it is evaluated as arithmetic.
pub(super) fn code(random: &mut Random) -> String {
    fill(random.pick(&["a[$(@M@)]", "a[$(@M@)]", "x[`@M@`]", "a[$(@M@)]=1"]), random)
}

/// The first names are those that the shell evaluates or sets by itself; they come more often.
pub(super) fn name(random: &mut Random) -> &'static str {
    let count = if random.below(2) == 0 { 18 } else { NAMES.len() };
    random.pick(&NAMES[..count])
}

/// A special variable, assigned in one of many ways and used in one of many places.
pub(super) fn assignment(random: &mut Random) -> String {
    let name = name(random);
    let value = fill(random.pick(&VALUES), random);
    let usage = usage_of(name, random);
    let text = random.pick(&WAYS).replace("USE", "\u{1}").replace('N', "\u{2}");
    let text = text.replace('V', &value).replace('\u{2}', name);
    if text.contains('\u{1}') || random.below(3) == 0 {
        return text.replace('\u{1}', &usage);
    }
    format!("{text}; {usage}")
}

/// A place where the value of a special variable matters.
pub(super) fn usage(random: &mut Random) -> String {
    let name = name(random);
    usage_of(name, random)
}

fn usage_of(name: &str, random: &mut Random) -> String {
    let text = random.pick(&USES).replace('N', "\u{2}").replace("@P", "@@P").replace("@A", "@@A");
    fill(&text, random).replace('\u{2}', name)
}

/// A word that becomes something else when it runs.
pub(super) fn word(random: &mut Random) -> String {
    fill(random.pick(&WORDS), random)
}
