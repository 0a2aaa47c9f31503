//! Remote shells, downloads and other programs of the network.
//!
//! An entry marked "Unchecked", or without a version, has yet to be compared with the program's own
//! help; the version is the one that it is meant for.

use super::consequence::{Consequence, Doubt};
use super::dispatch::Judgement;
use super::entry::{
    OperandRole, PLAIN, ToolEntry, behind, command_of, download_into, is_plain_text, judge_by,
    refuse,
};
use super::options::Arguments;
use super::tool::join;
use crate::command::{Shell, Word};

/// curl 7.88.1, curl --help all. `-K` and `~/.curlrc` hold options, `--engine` loads a library.
const CURL: &str = "--anyauth -a --append --basic --cacert== --capath== -E== --cert== --cert-type== \
    --ciphers== --compressed --connect-timeout== --connect-to== -C== --continue-at== -b== --cookie== \
    -c== --cookie-jar== --create-dirs --crlf --curves== -d== --data== --data-ascii== --data-binary== \
    --data-raw== --data-urlencode== --digest -q --disable --dns-servers== --doh-url== -D== \
    --dump-header== --etag-compare== --etag-save== --expect100-timeout== -f --fail --fail-early \
    --fail-with-body -F== --form== --form-string== -G --get -g --globoff -I --head -H== --header== -h \
    --help --http1.0 -0 --http1.1 --http2 --http2-prior-knowledge --http3 -i --include -k \
    --insecure --interface== -4 --ipv4 -6 --ipv6 --json== -j --junk-session-cookies \
    --keepalive-time== --key== --key-type== --limit-rate== -l --list-only --local-port== -L \
    --location --location-trusted --max-filesize== --max-redirs== -m== --max-time== --negotiate -n \
    --netrc --netrc-file== --netrc-optional --next -: -N --no-buffer --no-clobber --no-keepalive \
    --no-progress-meter --noproxy== --oauth2-bearer== -o== --output== --output-dir== -Z --parallel \
    --parallel-max== --pass== --path-as-is --pinnedpubkey== --post301 --post302 --post303 -# \
    --progress-bar --proto== --proto-default== --proto-redir== -x== --proxy== --proxy-user== -U== \
    --proxy-insecure --proxy-header== -p --proxytunnel -r== --range== --raw -e== --referer== -J \
    --remote-header-name -O --remote-name --remote-name-all -R --remote-time -X== --request== \
    --request-target== --resolve== --retry== --retry-all-errors --retry-connrefused --retry-delay== \
    --retry-max-time== -S --show-error -s --silent --socks5== --socks5-hostname== -Y== \
    --speed-limit== -y== --speed-time== --ssl --ssl-reqd --stderr== --tcp-nodelay -z== --time-cond== \
    --tls-max== --tlsv1 --tlsv1.0 --tlsv1.1 --tlsv1.2 --tlsv1.3 -1 --trace== --trace-ascii== \
    --trace-time -T== --upload-file== --url== --url-query== -u== --user== -A== \
    --user-agent== -v --verbose -V --version -w== --write-out== --aws-sigv4== --ssl-no-revoke";

/// GNU Wget 1.21.3, wget --help. `-e`, `--config` and `--use-askpass` are not listed. `-n` starts
/// the two-letter options -nv, -nc, -nd, -nH and -np.
const WGET: &str = "-n -V --version -h --help -b --background -o== --output-file== -a== \
    --append-output== -d --debug -q --quiet -v --verbose --no-verbose -i== --input-file== -F -B== \
    --base== --no-config -t== --tries== --retry-connrefused --retry-on-http-error== -O== \
    --output-document== --no-clobber -c --continue --progress== --show-progress -N --timestamping -S \
    --server-response --spider -T== --timeout== --dns-timeout== --connect-timeout== --read-timeout== \
    -w== --wait== --waitretry== --random-wait --no-proxy -Q== --quota== --limit-rate== -4 \
    --inet4-only -6 --inet6-only --user== --password== --no-directories -x --force-directories \
    --no-host-directories -P== --directory-prefix== --cut-dirs== --http-user== --http-password== \
    --no-cache -E --adjust-extension --header== --compression== --max-redirect== --referer== \
    --save-headers -U== --user-agent== --no-cookies --load-cookies== --save-cookies== --post-data== \
    --post-file== --method== --body-data== --body-file== --content-on-error --https-only \
    --no-check-certificate --certificate== --private-key== --ca-certificate== -r --recursive -l== \
    --level== --delete-after -k --convert-links -m --mirror -p --page-requisites -A== --accept== -R== \
    --reject== -D== --domains== -H --span-hosts -L --relative --no-parent -I== -X== --no-hsts";

const TABLE: &[ToolEntry] = &[
    // OpenSSH 9.2, ssh(1). `-o`, `-F` and `-I` can name programs and libraries.
    ToolEntry {
        names: "ssh slogin",
        options: "-4 -6 -A -a -C -f -G -g -K -k -M -N -n -q -s -T -t -V -v -X -x -Y -y -B== -b== -c== -D== \
            -E== -e== -F== -i== -J== -L== -l== -m== -O== -o== -p== -Q== -R== -S== -W== -w==",
        code: "-F",
        writes: "-E",
        operands: OperandRole::JudgedFirst(ssh),
        ..PLAIN
    },
    ToolEntry {
        names: "ssh-keygen",
        options: "-t== -b== -C== -f== -N== -q -l -y -R== -F== -H -p -A -e -i -m== -E== -P== -o -a== -v -B \
            -c -L -h",
        writes: "-f",
        ..PLAIN
    },
    ToolEntry { names: "ssh-add", options: "-l -L -d -D -t== -q -k -v -x -X -c -E==", ..PLAIN },
    ToolEntry {
        names: "ssh-agent",
        options: "-s -c -k -d -D -t== -a==",
        operands: OperandRole::Command(0),
        ..PLAIN
    },
    ToolEntry {
        names: "ssh-copy-id",
        options: "-i== -p== -f -n -s",
        operands: OperandRole::Judged(plain_hosts),
        ..PLAIN
    },
    ToolEntry {
        names: "sshpass",
        options: "-p== -f== -d== -e -P== -v -V -h",
        operands: OperandRole::Command(0),
        ..PLAIN
    },
    ToolEntry {
        names: "mosh",
        options: "-4 -6 -a -n --version --help --port=",
        operands: OperandRole::Command(1),
        ..PLAIN
    },
    ToolEntry {
        names: "rsh rlogin remsh rexec",
        options: "-l== -n -K",
        operands: OperandRole::JudgedFirst(remote_command),
        ..PLAIN
    },
    ToolEntry {
        names: "curl",
        options: CURL,
        writes: "-o --output -c --cookie-jar -D --dump-header --etag-save --stderr --trace --trace-ascii",
        files: ".curlrc",
        operands: OperandRole::Judged(curl),
        ..PLAIN
    },
    ToolEntry {
        names: "wget",
        options: WGET,
        writes: "-o --output-file -a --append-output -O --output-document --save-cookies",
        files: ".wgetrc",
        operands: OperandRole::Judged(wget),
        ..PLAIN
    },
    // Unchecked. HTTPie 3, xh.
    ToolEntry {
        names: "http https xh xhs httpie",
        options: "-j --json -f --form --multipart -v --verbose -h --headers -b --body -p= --print= -o= \
            --output= -d --download -c --continue -a= --auth= -A= --auth-type= --follow -F --timeout= \
            --check-status --verify= --pretty= -s= --style= --version --help --ignore-stdin -I \
            --max-redirects= --raw= --offline -q --quiet -S --stream",
        writes: "-o --output",
        operands: OperandRole::Judged(downloads),
        ..PLAIN
    },
    // Unchecked. aria2 1.36: hooks (--on-…) and --conf-path are not listed.
    ToolEntry {
        names: "aria2c",
        options: "-o= --out= -d= --dir= -x= -s= -j= -k= -c --continue? -q --quiet? -Z -m= -t= --split= \
            --max-connection-per-server= --max-concurrent-downloads= --header= -U= --user-agent= \
            --check-integrity? --checksum= --allow-overwrite? --auto-file-renaming? --no-conf? -v -h",
        operands: OperandRole::Judged(downloads),
        ..PLAIN
    },
    // OpenBSD, traditional and Nmap netcat: -c and -e start programs, -o and -x write files.
    ToolEntry {
        names: "nc ncat netcat nc.openbsd nc.traditional",
        options: "-4 -6 -C -d -h -k -l -N -n -r -t -u -v -z -i= -p= -q= -s= -w= --ssl --send-only \
            --recv-only --version --idle-timeout=",
        ..PLAIN
    },
    // socat 1.7.4: address types that start programs or open files are not listed.
    ToolEntry {
        names: "socat socat1 filan procan",
        options: "-d -D -v -x -u -U -V -h -t= -T= -b= -s -4 -6",
        operands: OperandRole::Judged(socat),
        ..PLAIN
    },
    // Unchecked. OpenSSL 3.0, openssl help. Engines, providers and configurations load libraries.
    ToolEntry { names: "openssl", operands: OperandRole::JudgedFirst(openssl), ..PLAIN },
    // Unchecked. Nmap 7.93: scripts (-sC, -A, --script) are code.
    ToolEntry {
        names: "nmap",
        options: "-sS -sT -sU -sn -sV -sP -sL -Pn -PS* -PE -O -F -n -R -r -v -vv -d -p= -p* --top-ports= \
            --open -T0 -T1 -T2 -T3 -T4 -T5 -iL= --exclude= -oN= -oX= -oG= -oA= --reason -4 -6 -e= \
            --version -V -h --help --max-retries= --host-timeout= --min-rate= --max-rate= -p- \
            --version-intensity= --traceroute --disable-arp-ping",
        writes: "-oN -oX -oG -oA",
        ..PLAIN
    },
    // tcpdump 4.99: `-z` starts a program after each file.
    ToolEntry {
        names: "tcpdump dumpcap",
        options: "-A -b -d -D -e -f -h -H -I -J -K -l -L -n -N -O -p -q -S -t -u -U -v -x -X -# -i= -c= -s= \
            -w= -r= -B= -C= -G= -W= -E= -T= -y= --count --version --help --interface= --list-interfaces \
            --immediate-mode -Q= -Z=",
        writes: "-w",
        ..PLAIN
    },
    // Unchecked. TShark 4.0: `-X` and `-o` load scripts.
    ToolEntry {
        names: "tshark",
        options: "-D -L -n -q -V -x -l -P -S= -r= -w= -i= -f= -Y= -R= -2 -T= -e= -E= -c= -a= -b= -s= -z= -t= \
            -u= -N= -O= -d= -G? -F= -v -h --version",
        writes: "-w",
        ..PLAIN
    },
    // iproute2 6.1, ip(8): `netns exec`, `vrf exec` and `-batch` run commands.
    ToolEntry {
        names: "ip",
        options: "-4 -6 -0 -s -stats -statistics -d -details -j -json -p -pretty -o -oneline -br -brief \
            -c -color -c=* -color=* -n= -netns= -r -resolve -t -timestamp -h -human -V -Version -f= \
            -family= -N",
        operands: OperandRole::JudgedFirst(ip),
        ..PLAIN
    },
    // Unchecked. iptables 1.8: `--modprobe` names a program. Only listing is known.
    ToolEntry {
        names: "iptables ip6tables iptables-save ip6tables-save",
        options: "-L? -S? -n -v -x -t= --list --list-rules --numeric --verbose --line-numbers --table= \
            --version -V -h -c",
        ..PLAIN
    },
    // Clients that take commands from their input.
    ToolEntry {
        names: "telnet ftp tnftp tftp lftp ncftp smbclient gnutls-cli ksh-telnet cadaver nslookup-shell",
        options: "-n -i -v -p -4 -6 -N -U= -L= -g -d --version --help",
        operands: OperandRole::Judged(command_client),
        ..PLAIN
    },
    ToolEntry {
        names: "rclone autossh sshfs sshuttle openvpn pppd dhclient dhcpcd wpa_supplicant wireshark \
            ettercap hping3 bettercap msfconsole msfvenom cupsfilter \
              torify ifup ifdown wg-quick nmcli-shell stunnel chisel ngrok cloudflared \
            tailscale zerotier-cli croc magic-wormhole efax mgetty slattach ss-local dropbear sshd \
            httpd apache2 nginx lighttpd caddy php-fpm uwsgi waitress-serve \
            tcpserver ucspi-tcp websocat wscat rpcclient ldapsearch-shell",
        options: "--version -V --help -h",
        operands: OperandRole::Nothing,
        ..PLAIN
    },
];

/// Judges a program of the network.
pub(super) fn consequences(program: &str, args: &[Word]) -> Judgement {
    judge_by(TABLE, program, args)
}

/// Settings of ssh_config(5) that start nothing.
const SSH_SETTINGS: &str = "stricthostkeychecking userknownhostsfile connecttimeout batchmode \
    serveraliveinterval serveralivecountmax loglevel passwordauthentication identitiesonly port user \
    identityfile compression connectionattempts preferredauthentications forwardagent requesttty \
    exitonforwardfailure numberofpasswordprompts controlmaster controlpersist controlpath hostname \
    tcpkeepalive addressfamily pubkeyauthentication kbdinteractiveauthentication checkhostip \
    hashknownhosts updatehostkeys visualhostkey hostkeyalgorithms kexalgorithms ciphers macs \
    pubkeyacceptedalgorithms globalknownhostsfile";

fn ssh(found: &Arguments) -> Result<Vec<Consequence>, Doubt> {
    for word in found.values(&["-o"]) {
        let name = word.text.split(['=', ' ']).next().unwrap_or_default().trim();
        let lower = name.to_ascii_lowercase();
        let is_known = SSH_SETTINGS.split_ascii_whitespace().any(|known| known == lower);
        let has_end = word.value().is_some_and(|text| !text.contains('\n'));
        // ssh puts the other host into a text for a shell.
        if lower == "proxyjump" && word.value().is_some_and(is_plain_jump) {
            continue;
        }
        if !is_known || !has_end {
            return Err(format!("the setting {name}"));
        }
    }
    refuse(found.values(&["-J", "-W"]), |word| !word.value().is_some_and(is_plain_text))?;
    if found.has(&["-V", "-Q", "-G", "-N", "-O", "-W"]) {
        return Ok(Vec::new());
    }
    remote_command(found)
}

/// `ProxyJump=user@host:port`, without a character that a shell reads.
fn is_plain_jump(setting: &str) -> bool {
    setting.split_once(['=', ' ']).is_some_and(|(_, host)| is_plain_text(host.trim()))
}

/// A host and a command; ssh joins its words and a shell reads them there.
fn remote_command(found: &Arguments) -> Result<Vec<Consequence>, Doubt> {
    let Some(host) = found.operands.first() else {
        return Ok(Vec::new());
    };
    let words = behind(&found.operands, 1)?;
    refuse([host], |word| word.value().is_some_and(|text| !is_plain_text(text)))?;
    let words = match words.split_first() {
        Some((first, rest)) if first.is("--") => rest,
        Some(_) | None => words,
    };
    // ssh reads options behind the host as well.
    if let Some(first) = words.first()
        && first.text.starts_with('-')
    {
        return Err(format!("the option {first}"));
    }
    if words.is_empty() {
        return Ok(vec![Consequence::ReadsCodeFromInput]);
    }
    refuse(words, |word| word.value().is_none())?;
    let text = words.iter().map(|word| word.text.as_str()).collect::<Vec<_>>().join(" ");
    Ok(vec![Consequence::Script { text, shell: Shell::Posix }])
}

fn plain_hosts(found: &Arguments) -> Result<Vec<Consequence>, Doubt> {
    refuse(&found.operands, |word| !word.value().is_some_and(is_plain_text)).map(|()| Vec::new())
}

/// The file that a download is stored in if no other name is given.
fn file_of_url(url: &Word) -> Result<Consequence, Doubt> {
    let text = url.value().ok_or_else(|| format!("the word {url}"))?;
    let path = text.split(['?', '#']).next().unwrap_or(text);
    let name = path.rsplit('/').next().filter(|name| !name.is_empty()).unwrap_or("index.html");
    Ok(Consequence::Writes(Word::literal(name)))
}

fn curl(found: &Arguments) -> Result<Vec<Consequence>, Doubt> {
    // `%output{file}` writes what follows to a file; `@file` holds a format.
    refuse(found.values(&["-w", "--write-out"]), |word| {
        word.value().is_none_or(|text| text.contains("%output") || text.starts_with('@'))
    })?;
    let mut effects = Vec::new();
    // `#1` stands for a part of the address.
    let outputs = ["-o", "--output"];
    refuse(found.values(&outputs), |word| word.text.contains('#'))?;
    for directory in found.values(&["--output-dir"]) {
        effects.extend(download_into(directory.clone()));
        let files = found.values(&outputs).map(|file| inside(directory, file));
        effects.extend(files.map(Consequence::Writes));
    }
    if !found.has(&["-g", "--globoff"]) && found.has(&["-O", "--remote-name", "--remote-name-all"])
    {
        let urls = found.operands.iter().chain(found.values(&["--url"]));
        refuse(urls, |url| is_pattern(&url.text))?;
    }
    if found.has(&["--output-dir"]) {
        return Ok(effects);
    }
    if found.has(&["-J", "--remote-header-name"]) {
        effects.extend(download_into(Word::literal(".")));
    } else if found.has(&["-O", "--remote-name", "--remote-name-all"]) {
        let urls = found.operands.iter().chain(found.values(&["--url"]));
        effects.extend(urls.map(file_of_url).collect::<Result<Vec<_>, _>>()?);
    }
    Ok(effects)
}

/// The path of a file in a directory, as far as it is known.
fn inside(directory: &Word, file: &Word) -> Word {
    match (directory.value(), file.value()) {
        (Some(directory), Some(file)) => join(directory, file),
        (Some(directory), None) => Word { text: join(directory, &file.text).text, ..file.clone() },
        (None, _) => directory.clone(),
    }
}

/// `true` for an address that stands for several: `{a,b}`, `[1-3]`. `http://[::1]/` is one.
fn is_pattern(url: &str) -> bool {
    url.contains(['{', '}']) || url.replacen("://[", "://", 1).contains('[')
}

fn wget(found: &Arguments) -> Result<Vec<Consequence>, Doubt> {
    if found.has(&["-O", "--output-document", "--spider", "--version", "-V", "--help"]) {
        return Ok(Vec::new());
    }
    let many = ["-r", "--recursive", "-m", "--mirror", "-p", "--page-requisites", "-i", "-x"];
    let directory = found.values(&["-P", "--directory-prefix"]).last().cloned();
    if directory.is_some() || found.has(&many) || found.has(&["--input-file"]) {
        let directory = directory.unwrap_or_else(|| Word::literal("."));
        return Ok(download_into(directory).to_vec());
    }
    found.operands.iter().map(file_of_url).collect()
}

fn downloads(found: &Arguments) -> Result<Vec<Consequence>, Doubt> {
    let directory = found.values(&["--dir"]).last().cloned();
    let is_download = found.has(&["-d", "--download", "--dir", "-o", "--out"]);
    let directory = directory.unwrap_or_else(|| Word::literal("."));
    Ok(is_download.then(|| download_into(directory)).into_iter().flatten().collect())
}

fn socat(found: &Arguments) -> Result<Vec<Consequence>, Doubt> {
    const ADDRESSES: [&str; 22] = [
        "-",
        "STDIO",
        "STDIN",
        "STDOUT",
        "STDERR",
        "TCP",
        "TCP4",
        "TCP6",
        "TCP-CONNECT",
        "TCP-LISTEN",
        "TCP4-LISTEN",
        "TCP6-LISTEN",
        "UDP",
        "UDP4",
        "UDP6",
        "UDP-LISTEN",
        "UDP4-LISTEN",
        "UNIX-CONNECT",
        "UNIX-CLIENT",
        "OPENSSL",
        "SSL",
        "PIPE",
    ];
    const OPTIONS: [&str; 12] = [
        "fork",
        "reuseaddr",
        "reuseport",
        "bind",
        "verify",
        "crlf",
        "crnl",
        "nodelay",
        "keepalive",
        "ignoreeof",
        "connect-timeout",
        "pf",
    ];
    refuse(&found.operands, |word| {
        word.value().is_none_or(|text| {
            let mut parts = text.split(',');
            let address = parts.next().unwrap_or_default();
            let kind = address.split(':').next().unwrap_or_default().to_ascii_uppercase();
            let mut names = parts.map(|part| part.split('=').next().unwrap_or_default());
            let is_known =
                ADDRESSES.contains(&kind.as_str()) && names.all(|name| OPTIONS.contains(&name));
            // `!!` joins a second address for writing.
            !is_known || text.contains(['!', '"', '\'', '\\', '(', '[', '{'])
        })
    })?;
    Ok(Vec::new())
}

/// A subcommand with options that load nothing.
fn openssl(found: &Arguments) -> Result<Vec<Consequence>, Doubt> {
    const COMMANDS: &str = "version s_client x509 req genrsa rsa rand dgst sha1 sha256 sha384 sha512 md5 \
        enc base64 pkcs12 pkcs8 pkcs7 verify ciphers list passwd ecparam ec genpkey pkey pkeyutl crl \
        asn1parse speed prime errstr dhparam help";
    const SSL: &str = "-a -A -d -e -in= -out= -inform= -outform= -noout -text -subject -issuer -dates \
        -enddate -startdate -serial -fingerprint -modulus -pubkey -purpose -ext= -hash -subject_hash \
        -issuer_hash -checkend= -email -nameopt= -days= -key= -keyout= -new -newkey= -nodes -noenc \
        -x509 -subj= -addext= -sha1 -sha256 -sha384 -sha512 -md5 -passin= -passout= -pass= -batch \
        -extensions= -CA= -CAkey= -CAfile= -CApath= -set_serial= -req -copy_extensions= -signkey= \
        -check -pubin -pubout -pubcheck -aes128 -aes256 -aes-256-cbc -aes-128-cbc -pbkdf2 -iter= \
        -salt -nosalt -K= -iv= -k= -md= -base64 -hex -r -c -binary -sign= -verify= -signature= -hmac= \
        -connect= -servername= -showcerts -starttls= -tls1_2 -tls1_3 -alpn= -brief -quiet -status \
        -verify_return_error -verify_hostname= -cert= -untrusted= -crl_check -partial_chain -export \
        -inkey= -certfile= -name= -info -nokeys -nocerts -clcerts -cacerts -legacy -topk8 -algorithm= \
        -pkeyopt= -genkey -param_enc= -conv_form= -1 -5 -6 -stdin -salt= -V -v -b -o -p -f \
        -seconds= -evp= -bits= -generate -strparse= -i -print_certs -x509_strict -verbose -derive \
        -encrypt -decrypt -rawin -config=";
    let Some((name, args)) = found.operands.split_first() else {
        return Ok(vec![Consequence::ReadsCodeFromInput]);
    };
    if !COMMANDS.split_ascii_whitespace().any(|known| name.is(known)) {
        return Err(format!("the subcommand {name}"));
    }
    let writes = "-out -keyout";
    ToolEntry { options: SSL, writes, code: "-config", ..PLAIN }.judge(args)
}

/// An object of `ip`, in its full name or its usual short one.
fn ip(found: &Arguments) -> Result<Vec<Consequence>, Doubt> {
    const OBJECTS: [&str; 15] = [
        "addr",
        "address",
        "a",
        "link",
        "l",
        "route",
        "r",
        "rule",
        "ru",
        "neigh",
        "n",
        "maddress",
        "monitor",
        "ntable",
        "tcp_metrics",
    ];
    let Some((object, args)) = found.operands.split_first() else {
        return Ok(Vec::new());
    };
    if OBJECTS.iter().any(|known| object.is(known)) {
        return Ok(Vec::new());
    }
    let is = |index: usize, text: &str| args.get(index).is_some_and(|word| word.is(text));
    if object.is("netns") && (args.is_empty() || is(0, "list") || is(0, "add") || is(0, "del")) {
        return Ok(Vec::new());
    }
    if object.is("netns") && is(0, "exec") {
        return Ok(command_of(behind(args, 2)?).into_iter().collect());
    }
    Err(format!("the subcommand {object}"))
}

/// The client reads commands, `!command` among them.
fn command_client(found: &Arguments) -> Result<Vec<Consequence>, Doubt> {
    if found.has(&["--version", "--help"]) {
        return Ok(Vec::new());
    }
    Ok(vec![Consequence::ReadsCodeFromInput])
}

#[cfg(test)]
mod tests {
    use super::super::table_checks::{check, harmless};

    #[test]
    fn everyday_use_of_the_network_is_known() {
        harmless(
            "curl -sSfL https://example.org/x
            curl -s -o /dev/null -w '%{http_code}' http://localhost:8080/health
            curl -X POST -H 'Content-Type: application/json' -d '{}' http://127.0.0.1:1/
            curl -fsSLO https://example.org/x.tar.gz
            curl -I https://example.org
            curl --retry 3 --max-time 10 -k https://x
            curl -u user:pass -F file=@x https://x
            curl --version
            wget -q https://example.org/x.zip
            wget -qO- https://example.org
            wget -nv -O out.html https://example.org
            wget -P dl https://example.org/x
            ssh -V
            ssh -N -L 8080:localhost:80 host
            ssh-keygen -t ed25519 -N x -f key
            ssh-keygen -lf key.pub
            ssh-add -l
            nc -zv localhost 5432
            nc -l -p 9000
            socat TCP-LISTEN:8080,fork,reuseaddr TCP:localhost:80
            openssl x509 -in cert.pem -noout -text
            openssl req -x509 -newkey rsa:2048 -nodes -keyout k.pem -out c.pem -days 365 -subj /CN=x
            openssl s_client -connect example.org:443 -servername example.org
            openssl rand -hex 32
            openssl dgst -sha256 file
            openssl version
            nmap -sV -p 80,443 localhost
            tcpdump -i any -nn -c 10 port 80
            ip addr
            ip -br a
            ip route show
            ip -j link
            ip netns list
            iptables -L -n -v
            http GET localhost:8080/health
            aria2c -x 4 https://example.org/x",
        );
    }

    #[test]
    fn commands_and_files_are_named() {
        check(
            "ssh host ls -la => script ls -la
            ssh -p 22 -i key user@host 'ls && id' => script ls && id
            ssh host => code from input
            ssh -F x host id => code x
            ssh -o BatchMode=yes -o ConnectTimeout=5 host uptime => script uptime
            ssh-agent id -u => runs id -u
            sshpass -p x ssh host id => runs ssh host id
            mosh host -- id => runs id
            rsh host id => script id
            curl -o .git/config https://x => writes .git/config
            curl -Lo x https://x => writes x
            curl --output=x https://x => writes x
            curl -O https://x/.bashrc => writes .bashrc
            curl -OJ https://x/y => writes beneath .
            curl --output-dir d -O https://x/y => writes beneath d
            curl -D h https://x => writes h
            curl https://x -o run.sh --output-dir scripts => writes scripts/run.sh
            curl -gO 'http://x/{a}' => writes {a}
            curl -O http://[::1]:80/a => writes a
            ssh -o ProxyJump=me@jump:22 host id => script id
            wget https://x/.bashrc => writes .bashrc
            wget -O x https://y => writes x
            wget -r https://y => writes beneath .
            wget -P d https://y => writes beneath d; writes d
            openssl req -keyout k -out c => writes k; writes c
            openssl req -config x => code x
            openssl => code from input
            ip netns exec ns id => runs id
            tcpdump -w x => writes x
            ftp host => code from input
            telnet => code from input",
        );
    }

    #[test]
    fn downloads_that_start_programs_or_hide_names_are_in_doubt() {
        check(
            "curl --unix-socket /var/run/docker.sock http://x => the option --unix-socket
            curl '{file}:///x' -o 'Make#1' => the word Make#1
            curl -O 'http://x/{Makefile}' => the word http://x/{Makefile}
            curl -O 'http://x/[a-b]' => the word http://x/[a-b]
            curl -K x https://y => the option -K
            curl --config x => the option --config
            curl --engine ./x.so https://y => the option --engine
            curl --conf x => the option --conf
            curl -w '%output{x}' https://y => the word %output{x}
            wget --use-askpass=./e https://x => the option --use-askpass
            wget -e use_askpass=./e https://x => the option -e
            wget --execute=x https://y => the option --execute
            wget --config=x https://y => the option --config
            wget --use-ask=./e https://x => the option --use-ask
            aria2c --on-download-complete=./e x => the option --on-download-complete",
        );
    }

    #[test]
    fn options_that_start_programs_are_in_doubt() {
        check(
            "ssh -o ProxyCommand=id host => the setting ProxyCommand
            ssh -oProxyCommand=id host => the setting ProxyCommand
            ssh -o 'proxycommand id' host => the setting proxycommand
            ssh -o LocalCommand=id host => the setting LocalCommand
            ssh -o PermitLocalCommand=yes host => the setting PermitLocalCommand
            ssh -o KnownHostsCommand=id host => the setting KnownHostsCommand
            ssh -o PKCS11Provider=x host => the setting PKCS11Provider
            ssh -o Match=x host => the setting Match
            ssh -I x.so host => the option -I
            ssh host -o ProxyCommand=id => the option -o
            ssh -o 'ProxyJump=$(id)@h' -N host => the setting ProxyJump
            ssh -o 'proxyjump `id`@h' -N host => the setting proxyjump
            ssh -J 'x;id' host => the word x;id
            ssh-keygen -D ./x.so => the option -D
            ssh-keygen -w x => the option -w
            ssh-add -s ./x.so => the option -s
            mosh --ssh=id host => the option --ssh
            mosh --server=id host => the option --server
            ssh-copy-id -o ProxyCommand=id host => the option -o
            nc -e /bin/sh h 1 => the option -e
            nc -c id h 1 => the option -c
            ncat --exec id => the option --exec
            ncat --sh-exec id => the option --sh-exec
            ncat --lua-exec x => the option --lua-exec
            socat - EXEC:id => the word EXEC:id
            socat - exec:id => the word exec:id
            socat - SYSTEM:id => the word SYSTEM:id
            socat - TCP:a:1!!EXEC:id => the word TCP:a:1!!EXEC:id
            socat - OPEN:x,creat => the word OPEN:x,creat
            socat - TCP:a:1,su=x => the word TCP:a:1,su=x
            openssl req -engine ./e => the option -engine
            openssl dgst -provider x -provider-path . => the option -provider
            openssl engine -t x => the subcommand engine
            openssl ca => the subcommand ca
            nmap --script=x h => the option --script
            nmap -sC h => the option -sC
            nmap --interactive => the option --interactive
            tcpdump -z ./e => the option -z
            tshark -X lua_script:x => the option -X
            ip -batch x => the option -batch
            ip vrf exec x id => the subcommand vrf
            ip netn exec x id => the subcommand netn
            iptables --modprobe=./e -L => the option --modprobe
            lftp -c '!id' => the option -c
            smbclient -c '!id' => the option -c
            openvpn --up id => the option --up
            dhclient -sf ./e => the option -s",
        );
    }
}
