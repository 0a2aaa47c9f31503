//! Programs that copy files between hosts: rsync, scp, sftp.
//!
//! Each starts `ssh`, as its manual says; options that name another program or file of settings
//! are left out. Versions: rsync 3.2.7, OpenSSH 9.2.

use super::consequence::{Consequence, Doubt};
use super::dispatch::Judgement;
use super::entry::is_plain_text;
use super::options::{Arguments, NO_OPTIONS, Options, known, read};
use super::tool::written;
use crate::command::{Shape, Word};

/// rsync(1), without `-M`, `--rsync-path`, daemons, batches, old argument passing, and
/// suffixes of backups.
const RSYNC: Options = Options {
    flags: "vqcarRubUdlLkKHpEAXogtONJDSnWxFCzhPimy0468I",
    values: "efBT@",
    long: "verbose quiet no-motd checksum checksum-choice= archive recursive relative \
        no-implied-dirs backup update inplace append append-verify dirs links copy-links \
        copy-unsafe-links safe-links munge-links copy-dirlinks keep-dirlinks hard-links perms \
        executability chmod= acls xattrs owner group devices specials times atimes open-noatime \
        crtimes omit-dir-times omit-link-times super fake-super sparse preallocate dry-run \
        whole-file one-file-system block-size= existing ignore-existing ignore-non-existing \
        remove-source-files del delete delete-before delete-during delete-delay delete-after \
        delete-excluded ignore-missing-args delete-missing-args ignore-errors force max-delete= \
        max-size= min-size= max-alloc= partial partial-dir= delay-updates prune-empty-dirs \
        numeric-ids usermap= groupmap= chown= timeout= contimeout= ignore-times size-only \
        modify-window= fuzzy compare-dest= compress compress-choice= compress-level= \
        skip-compress= cvs-exclude filter= exclude= exclude-from= include= include-from= \
        files-from= from0 protect-args secluded-args address= port= sockopts= blocking-io stats \
        human-readable progress itemize-changes rsh= log-file= out-format= log-file-format= \
        password-file= list-only bwlimit= fsync protocol= iconv= checksum-seed= ipv4 ipv6 info= \
        debug= outbuf= stop-after= stop-at= 8-bit-output no-perms no-owner no-group no-times \
        no-o no-g no-p no-t no-links no-relative no-recursive no-whole-file no-compress \
        no-inc-recursive no-human-readable no-devices no-specials help version",
    ..NO_OPTIONS
};

/// scp(1), without `-F`, `-S`, `-D` and `-X`.
const SCP: Options = Options { flags: "346ABCOpqRrsTv", values: "ciJloP", ..NO_OPTIONS };
/// sftp(1), without `-F`, `-S`, `-D` and `-s`.
const SFTP: Options = Options { flags: "46AaCfNpqrv", values: "BbciJloPR", ..NO_OPTIONS };

/// ssh_config(5): settings that name no program, no library and no file of settings.
const SETTINGS: [&str; 16] = [
    "batchmode",
    "checkhostip",
    "compression",
    "connectionattempts",
    "connecttimeout",
    "identitiesonly",
    "loglevel",
    "numberofpasswordprompts",
    "passwordauthentication",
    "port",
    "preferredauthentications",
    "pubkeyauthentication",
    "serveralivecountmax",
    "serveraliveinterval",
    "stricthostkeychecking",
    "user",
];

/// Judges the arguments of a program that copies files between hosts.
pub(super) fn consequences(program: &str, args: &[Word]) -> Judgement {
    match program {
        "rsync" => Some(rsync(args)),
        "scp" => Some(secure_copy(args)),
        "sftp" => Some(secure_transfer(args)),
        _ => None,
    }
}

fn rsync(args: &[Word]) -> Result<Vec<Consequence>, Doubt> {
    let found = read(args, &RSYNC)?;
    found.values(&["e", "rsh"]).try_for_each(check_shell)?;
    let mut all = written(found.values(&["log-file"]));
    let places = ["partial-dir", "T", "temp-dir"];
    all.extend(found.values(&places).cloned().map(Consequence::WritesBeneath));
    all.extend(copied(&found)?);
    Ok(all)
}

fn secure_copy(args: &[Word]) -> Result<Vec<Consequence>, Doubt> {
    let found = read(args, &SCP)?;
    found.values(&["o"]).try_for_each(check_setting)?;
    found.values(&["J"]).try_for_each(check_jump)?;
    copied(&found)
}

fn secure_transfer(args: &[Word]) -> Result<Vec<Consequence>, Doubt> {
    let found = read(args, &SFTP)?;
    found.values(&["o"]).try_for_each(check_setting)?;
    found.values(&["J"]).try_for_each(check_jump)?;
    // Commands of sftp may begin with `!`, which starts a program.
    match found.values(&["b"]).last() {
        Some(batch) if !batch.is("-") => Ok(vec![Consequence::ReadsCode(batch.clone())]),
        _ => Ok(vec![Consequence::ReadsCodeFromInput]),
    }
}

/// The remote shell: `ssh` itself, with a port, a key or a user.
fn check_shell(word: &Word) -> Result<(), Doubt> {
    let doubt = || format!("the remote shell {word}");
    let text = known(word)?;
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-./~@ ".contains(c);
    let mut words = text.split(' ').filter(|word| !word.is_empty());
    if !text.chars().all(is_plain) || words.next() != Some("ssh") {
        return Err(doubt());
    }
    while let Some(option) = words.next() {
        let value = words.next();
        if !matches!(option, "-p" | "-i" | "-l") || value.is_none() {
            return Err(doubt());
        }
    }
    Ok(())
}

/// `-J user@host:port`: ssh puts it into a text for a shell.
fn check_jump(word: &Word) -> Result<(), Doubt> {
    if is_plain_text(known(word)?) { Ok(()) } else { Err(format!("the word {word}")) }
}

/// `-o Name=value`.
fn check_setting(word: &Word) -> Result<(), Doubt> {
    let text = known(word)?;
    let (name, value) = text.split_once(['=', ' ']).unwrap_or((text, ""));
    let name = name.trim().to_ascii_lowercase();
    let is_null_file = name == "userknownhostsfile" && value.trim() == "/dev/null";
    if SETTINGS.contains(&name.as_str()) || is_null_file {
        return Ok(());
    }
    Err(format!("the setting {name}"))
}

/// The place to which the operands are copied.
fn copied(found: &Arguments) -> Result<Vec<Consequence>, Doubt> {
    found.operands.iter().try_for_each(check_place)?;
    match found.operands.as_slice() {
        [] | [_] => Ok(Vec::new()),
        [.., target] if is_remote(target) => Ok(Vec::new()),
        [.., target] => Ok(vec![Consequence::WritesBeneath(target.clone())]),
    }
}

fn is_remote(word: &Word) -> bool {
    let before_slash = word.text.split('/').next().unwrap_or_default();
    before_slash.contains(':')
}

/// A shell on the other host may read the path behind the colon.
fn check_place(word: &Word) -> Result<(), Doubt> {
    let is_plain = |c: char| c.is_alphanumeric() || "_-./:@%+,=~[]*? ".contains(c);
    let is_fine = match word.shape {
        Shape::Literal => !is_remote(word) || word.text.chars().all(is_plain),
        Shape::One | Shape::Glob => !is_remote(word),
        Shape::Many | Shape::Process => false,
    };
    if is_fine { Ok(()) } else { Err(format!("the word {word}")) }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{assert_doubts, assert_harmless, judged};

    #[test]
    fn everyday_lines_have_no_doubt() {
        assert_harmless(&[
            "rsync -avz --delete dist/ user@host:/var/www/",
            "rsync -a --exclude node_modules --exclude=.git src host:dst",
            "rsync -az -e ssh src host:dst",
            "rsync -az -e 'ssh -p 2222 -i ~/.ssh/key' src host:dst",
            "rsync --version",
            "scp -P 2222 -r build user@host:/srv",
            "scp -i ~/.ssh/id -o StrictHostKeyChecking=no -o ConnectTimeout=5 f host:",
            "scp -J me@jump:22,other f h:/x",
            "scp -o UserKnownHostsFile=/dev/null f h:/x",
        ]);
    }

    #[test]
    fn written_places_are_reported() {
        for (line, expected) in [
            ("rsync -a src/ backup/", "writes beneath backup/"),
            ("rsync -a host:src .", "writes beneath ."),
            ("rsync -a --log-file=r.log a b", "writes r.log, writes beneath b"),
            ("scp host:f .git/config", "writes beneath .git/config"),
            ("sftp -b cmds host", "code cmds"),
            ("sftp host", "code from input"),
        ] {
            assert_eq!(judged(line), Ok(expected.to_owned()), "{line}");
        }
    }

    #[test]
    fn options_that_start_programs_are_in_doubt() {
        assert_doubts(&[
            ("rsync -e 'pwn' a b:c", "the remote shell pwn"),
            ("rsync -ave 'sh -c x' a b:c", "the remote shell sh -c x"),
            ("rsync --rsh=sh a b:c", "the remote shell sh"),
            ("rsync --rsync-path=x a b:c", "the option --rsync-path"),
            ("rsync -M--x a b:c", "the option -M"),
            ("rsync --daemon --config=x", "the option --daemon"),
            ("rsync --write-batch=x a b", "the option --write-batch"),
            ("rsync -a 'h:$(touch x)' .", "the word h:$(touch x)"),
            ("rsync -a $x b", "the word …"),
            ("rsync --port -- -e sh a b:", "the remote shell sh"),
            ("rsync -e 'ssh -o ProxyCommand=x' a b:c", "the remote shell ssh -o ProxyCommand=x"),
            ("rsync -e 'ssh host x' a b:c", "the remote shell ssh host x"),
            ("scp -S ./e a h:b", "the option -S"),
            ("scp -F cfg a h:b", "the option -F"),
            ("scp -o ProxyCommand=sh a h:b", "the setting proxycommand"),
            ("scp -oLocalCommand=x a h:b", "the setting localcommand"),
            ("scp -o 'ProxyCommand sh' a h:b", "the setting proxycommand"),
            ("scp -o $x a h:b", "the word …"),
            ("scp -J '$(id)@h' f host:f", "the word $(id)@h"),
            ("sftp -J '`id`@h' host", "the word `id`@h"),
            ("scp -J $x f host:f", "the word …"),
            ("scp -D ./e a b", "the option -D"),
            ("sftp -D ./e", "the option -D"),
        ]);
    }
}
