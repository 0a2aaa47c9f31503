//! Programs that start nothing and load no code, whatever their arguments are.
//!
//! The list is closed: a listed program with neither an entry nor a place here is not known.

/// Their names, separated by blanks.
const INERT: &str = "
    [ addr2line apropos arch arp b2sum b3sum base32 base64 basename basenc bc blkid bzcat bzgrep
    c++filt cal cat chcon chgrp chmod chown chronyc cksum clear cmp codespell colrm column comm
    cut date df dig dir dircolors dirname dprint du duf dust echo egrep envsubst exa expand expr
    eza factor false ffprobe fgrep figlet file findmnt fmt fold fortune free fuser getconf getent
    getfacl getfattr grep gron groups hadolint hd head hexdump host hostid hostname id identify
    ifconfig iostat jo join jq kill killall last locale locate logname lolcat look ls lsattr
    lsb_release lsblk lscpu lsd lsipc lslocks lsmod lsns lsof lspci lsusb lzcat mcookie md5 md5sum
    mediainfo mkdir mkfifo mktemp mpstat mtr namei ncal netstat nixfmt nl nproc nslookup ntpq
    numfmt od paste pathchk pdfimages pdfinfo pdftotext pgrep pidof ping ping6 pinky pkgconf pkill
    pr printenv printf procs ps ptx pv pwd qrencode readelf readlink realpath reset rev rm rmdir
    scc seq sha1sum sha224sum sha256sum sha384sum sha512sum shellcheck shfmt size sleep ss stat
    strings stty sum sw_vers sync tac tail taplo terraform-docs test tokei top tput tr tracepath
    traceroute true tsort tty typos uname unexpand units unlink uptime users uuidgen vdir vmstat w
    wc whatis whereis which who whoami whois xzcat xzgrep yamllint yes zcat zcmp zdiff zgrep
    zstdcat
";

/// `true` for a program that starts nothing, whatever its arguments are.
pub(super) fn is_inert(program: &str) -> bool {
    INERT.split_whitespace().any(|name| name == program)
}

#[cfg(test)]
mod tests {
    use super::INERT;
    use crate::strict::tools::dispatch::judge;

    #[test]
    fn no_program_has_an_entry_as_well() {
        let both: Vec<&str> =
            INERT.split_whitespace().filter(|name| judge(name, &[]).is_some()).collect();
        assert!(both.is_empty(), "{both:?}");
    }
}
