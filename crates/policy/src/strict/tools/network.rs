//! Programs of the network: remote shells, transfers and downloads, and clients of containers, clusters,
//! clouds and service managers.
//!
//! rsync, scp and sftp each start `ssh`, as the manual says; options that name another program or
//! file of settings are not listed.

use std::sync::LazyLock;

use super::entry::{
    ArgumentEffect, Judged, behind, command_of, download_into, is_one_of, is_plain_text, join,
    read_as_code, refuse, script, written,
};
use crate::command::{Shape, ShellSyntax, Word};
use crate::options::{Arguments, Doubt, OptionOrder, OptionSet, has_word, require_known};

/// Settings of ssh_config(5) that start nothing.
const SSH_SETTINGS: &str = "stricthostkeychecking userknownhostsfile connecttimeout batchmode \
    serveraliveinterval serveralivecountmax loglevel passwordauthentication identitiesonly port user \
    identityfile compression connectionattempts preferredauthentications forwardagent requesttty \
    exitonforwardfailure numberofpasswordprompts controlmaster controlpersist controlpath hostname \
    tcpkeepalive addressfamily pubkeyauthentication kbdinteractiveauthentication checkhostip \
    hashknownhosts updatehostkeys visualhostkey hostkeyalgorithms kexalgorithms ciphers macs \
    pubkeyacceptedalgorithms globalknownhostsfile";

pub(super) fn ssh(found: &Arguments) -> Judged {
    for word in found.values(&["-o"]) {
        let name = word.text.split(['=', ' ']).next().unwrap_or_default().trim();
        let lower = name.to_ascii_lowercase();
        let is_known = has_word(SSH_SETTINGS, &lower);
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
pub(super) fn remote_command(found: &Arguments) -> Judged {
    let Some(host) = found.operands.first() else {
        return Ok(Vec::new());
    };
    let words = behind(&found.operands, 1)?;
    refuse([host], |word| word.value().is_some_and(|text| !is_plain_text(text)))?;
    let words = match words.split_first() {
        Some((first, rest)) if first.is("--") => rest,
        Some(_) | None => words,
    };
    // ssh reads options after the host as well.
    if let Some(first) = words.first()
        && first.text.starts_with('-')
    {
        return Err(format!("the option {first}"));
    }
    if words.is_empty() {
        return Ok(vec![ArgumentEffect::ReadsCodeFromInput]);
    }
    refuse(words, |word| word.value().is_none())?;
    let text = words.iter().map(|word| word.text.as_str()).collect::<Vec<_>>().join(" ");
    Ok(vec![ArgumentEffect::Script { text, shell: ShellSyntax::Posix }])
}

pub(super) fn plain_hosts(found: &Arguments) -> Judged {
    refuse(&found.operands, |word| !word.value().is_some_and(is_plain_text)).map(|()| Vec::new())
}

/// The file that a download is stored in if no other name is given.
fn file_of_url(url: &Word) -> Result<ArgumentEffect, Doubt> {
    let text = require_known(url)?;
    let path = text.split(['?', '#']).next().unwrap_or(text);
    let name = path.rsplit('/').next().filter(|name| !name.is_empty()).unwrap_or("index.html");
    Ok(ArgumentEffect::Writes(Word::literal(name)))
}

pub(super) fn curl(found: &Arguments) -> Judged {
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
        effects.extend(files.map(ArgumentEffect::Writes));
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

pub(super) fn wget(found: &Arguments) -> Judged {
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

pub(super) fn downloads(found: &Arguments) -> Judged {
    let directory = found.values(&["--dir"]).last().cloned();
    let is_download = found.has(&["-d", "--download", "--dir", "-o", "--out"]);
    let directory = directory.unwrap_or_else(|| Word::literal("."));
    Ok(is_download.then(|| download_into(directory)).into_iter().flatten().collect())
}

pub(super) fn socat(found: &Arguments) -> Judged {
    const ADDRESSES: &str = "- STDIO STDIN STDOUT STDERR TCP TCP4 TCP6 TCP-CONNECT TCP-LISTEN TCP4-LISTEN \
        TCP6-LISTEN UDP UDP4 UDP6 UDP-LISTEN UDP4-LISTEN UNIX-CONNECT UNIX-CLIENT OPENSSL SSL \
        PIPE";
    const OPTIONS: &str = "fork reuseaddr reuseport bind verify crlf crnl nodelay keepalive ignoreeof \
        connect-timeout pf";
    refuse(&found.operands, |word| {
        word.value().is_none_or(|text| {
            let mut parts = text.split(',');
            let address = parts.next().unwrap_or_default();
            let kind = address.split(':').next().unwrap_or_default().to_ascii_uppercase();
            let mut names = parts.map(|part| part.split('=').next().unwrap_or_default());
            let is_known =
                has_word(ADDRESSES, kind.as_str()) && names.all(|name| has_word(OPTIONS, name));
            // `!!` joins a second address for writing.
            !is_known || text.contains(['!', '"', '\'', '\\', '(', '[', '{'])
        })
    })?;
    Ok(Vec::new())
}

/// Options of the subcommands of openssl that load nothing.
static SSL: LazyLock<OptionSet> = LazyLock::new(|| {
    OptionSet::parse(
        "-a -A -d -e -in= -out= -inform= -outform= -noout -text -subject -issuer -dates \
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
        -encrypt -decrypt -rawin -config=",
    )
});

pub(super) fn openssl(found: &Arguments) -> Judged {
    const COMMANDS: &str = "version s_client x509 req genrsa rsa rand dgst sha1 sha256 sha384 sha512 md5 \
        enc base64 pkcs12 pkcs8 pkcs7 verify ciphers list passwd ecparam ec genpkey pkey pkeyutl crl \
        asn1parse speed prime errstr dhparam help";
    let Some((name, args)) = found.operands.split_first() else {
        return Ok(vec![ArgumentEffect::ReadsCodeFromInput]);
    };
    if !is_one_of(name, COMMANDS) {
        return Err(format!("the subcommand {name}"));
    }
    let found = SSL.read(args, OptionOrder::Anywhere)?;
    let settings = found.values(&["-config"]).cloned().map(ArgumentEffect::ReadsCode);
    let mut effects: Vec<_> = settings.collect();
    effects.extend(written(found.values(&["-out", "-keyout"])));
    Ok(effects)
}

/// An object of `ip`, in its full name or its usual short one.
pub(super) fn ip(found: &Arguments) -> Judged {
    const OBJECTS: &str =
        "addr address a link l route r rule ru neigh n maddress monitor ntable tcp_metrics";
    let Some((object, args)) = found.operands.split_first() else {
        return Ok(Vec::new());
    };
    if is_one_of(object, OBJECTS) {
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
pub(super) fn command_client(found: &Arguments) -> Judged {
    if found.has(&["--version", "--help"]) {
        return Ok(Vec::new());
    }
    Ok(vec![ArgumentEffect::ReadsCodeFromInput])
}

/// ssh_config(5): settings that name no program, no library and no file of settings.
const SETTINGS: &str = "batchmode checkhostip compression connectionattempts connecttimeout identitiesonly \
    loglevel numberofpasswordprompts passwordauthentication port preferredauthentications \
    pubkeyauthentication serveralivecountmax serveraliveinterval stricthostkeychecking user";

pub(super) fn rsync(found: &Arguments) -> Judged {
    found.values(&["-e", "--rsh"]).try_for_each(check_shell)?;
    let mut all = written(found.values(&["--log-file"]));
    let places = ["--partial-dir", "-T", "--temp-dir"];
    all.extend(found.values(&places).cloned().map(ArgumentEffect::WritesBeneath));
    all.extend(copied(found)?);
    Ok(all)
}

pub(super) fn secure_copy(found: &Arguments) -> Judged {
    found.values(&["-o"]).try_for_each(check_setting)?;
    found.values(&["-J"]).try_for_each(check_jump)?;
    copied(found)
}

pub(super) fn secure_transfer(found: &Arguments) -> Judged {
    found.values(&["-o"]).try_for_each(check_setting)?;
    found.values(&["-J"]).try_for_each(check_jump)?;
    // Commands of sftp may begin with `!`, which starts a program.
    match found.values(&["-b"]).last() {
        Some(batch) if !batch.is("-") => Ok(vec![ArgumentEffect::ReadsCode(batch.clone())]),
        _ => Ok(vec![ArgumentEffect::ReadsCodeFromInput]),
    }
}

/// The remote shell: `ssh` itself, with a port, a key or a user.
fn check_shell(word: &Word) -> Result<(), Doubt> {
    let doubt = || format!("the remote shell {word}");
    let text = require_known(word)?;
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
    if is_plain_text(require_known(word)?) { Ok(()) } else { Err(format!("the word {word}")) }
}

/// `-o Name=value`.
fn check_setting(word: &Word) -> Result<(), Doubt> {
    let text = require_known(word)?;
    let (name, value) = text.split_once(['=', ' ']).unwrap_or((text, ""));
    let name = name.trim().to_ascii_lowercase();
    let is_null_file = name == "userknownhostsfile" && value.trim() == "/dev/null";
    if has_word(SETTINGS, name.as_str()) || is_null_file {
        return Ok(());
    }
    Err(format!("the setting {name}"))
}

/// The place to which the operands are copied.
fn copied(found: &Arguments) -> Judged {
    found.operands.iter().try_for_each(check_place)?;
    match found.operands.as_slice() {
        [] | [_] => Ok(Vec::new()),
        [.., target] if is_remote(target) => Ok(Vec::new()),
        [.., target] => Ok(vec![ArgumentEffect::WritesBeneath(target.clone())]),
    }
}

fn is_remote(word: &Word) -> bool {
    let before_slash = word.text.split('/').next().unwrap_or_default();
    before_slash.contains(':')
}

/// A shell on the other host may read the path after the colon.
fn check_place(word: &Word) -> Result<(), Doubt> {
    let is_plain = |c: char| c.is_alphanumeric() || "_-./:@%+,=~[]*? ".contains(c);
    let is_fine = match word.shape {
        Shape::Literal => !is_remote(word) || word.text.chars().all(is_plain),
        Shape::One | Shape::Glob => !is_remote(word),
        Shape::Many | Shape::Process => false,
    };
    if is_fine { Ok(()) } else { Err(format!("the word {word}")) }
}

// Clients of containers, clusters, clouds and service managers.

/// After `--` stand options of git; a directory is written by `clone` and `download`.
pub(super) fn github(found: &Arguments) -> Judged {
    const OTHER: &str = "edit-message browse ssh code git-credential setup-git sync-fork open";
    let verb = found.operands.first();
    refuse(verb, |word| word.value().is_none_or(|text| has_word(OTHER, text)))?;
    refuse(&found.operands, |word| word.text.starts_with('-') || word.text.contains("ext::"))?;
    let writes_files = verb.is_some_and(|word| word.is("download") || word.is("clone"));
    let target = found.values(&["-D", "--dir"]).next().cloned();
    let target = target.unwrap_or_else(|| Word::literal("."));
    let is_download = writes_files && verb.is_some_and(|word| word.is("download"));
    Ok(is_download.then(|| download_into(target)).into_iter().flatten().collect())
}

/// Variables of Ansible itself (`ansible_…`) name interpreters and connections.
pub(super) fn playbook(found: &Arguments) -> Judged {
    for word in found.values(&["-e", "--extra-vars"]) {
        let text = word.value().unwrap_or("{");
        let is_known = text.split_once('=').is_some_and(|(name, value)| {
            !name.starts_with("ansible") && is_plain_text(name) && is_plain_text(value)
        });
        if !is_known {
            return Err(format!("the word {word}"));
        }
    }
    Ok(read_as_code(&found.operands))
}

/// Modules that only ask; the default module runs a command.
pub(super) fn ansible(found: &Arguments) -> Judged {
    const MODULES: [&str; 4] = ["ping", "setup", "ansible.builtin.ping", "ansible.builtin.setup"];
    if found.has(&["--version", "--list-hosts", "-h", "--help"]) {
        return Ok(Vec::new());
    }
    let module = found.values(&["-m", "--module-name"]).last();
    match module {
        Some(word) if MODULES.iter().any(|known| word.is(known)) => Ok(Vec::new()),
        Some(word) => Err(format!("the module {word}")),
        None => Err("the module command".to_owned()),
    }
}

pub(super) fn vagrant_ssh(found: &Arguments) -> Judged {
    // After `--` stand options of ssh.
    refuse(&found.operands, |word| word.text.starts_with('-'))?;
    match found.values(&["-c", "--command"]).last() {
        Some(text) => script(text, ShellSyntax::Posix),
        None => Ok(vec![ArgumentEffect::ReadsCodeFromInput]),
    }
}

/// Options of `aws`, before a service and after it.
static AWS: LazyLock<OptionSet> = LazyLock::new(|| {
    OptionSet::parse(
        "--debug --endpoint-url= --no-verify-ssl --no-paginate --output= --query= \
        --profile= --region= --version --color= --no-sign-request --ca-bundle= --cli-read-timeout= \
        --cli-connect-timeout= --no-cli-pager --recursive --dryrun --delete --exclude= --include= \
        --acl= --human-readable --summarize --quiet --storage-class= --only-show-errors \
        --exact-timestamps --size-only --no-progress --expires-in= --content-type= --cache-control=",
    )
});

/// `aws SERVICE OPERATION`: operations that list or describe have no option that starts a program
/// or writes a file (unchecked: AWS CLI 2.9). `s3` copies files.
pub(super) fn aws(found: &Arguments) -> Judged {
    let behind = AWS.read(&found.operands, OptionOrder::First)?;
    refuse(&behind.operands, |word| word.is("help"))?;
    let (Some(service), Some(operation)) = (behind.operands.first(), behind.operands.get(1)) else {
        return Ok(Vec::new());
    };
    let name = operation.value().unwrap_or_default();
    let args = behind.operands.get(2..).unwrap_or_default();
    if service.is("s3") && ["ls", "cp", "sync", "mv", "rm", "mb", "rb", "presign"].contains(&name) {
        let target = AWS.read(args, OptionOrder::Anywhere)?.operands.last().cloned();
        let is_local = |word: &Word| name != "ls" && !word.text.starts_with("s3://");
        let target = target.filter(is_local);
        return Ok(target.map(download_into).into_iter().flatten().collect());
    }
    let is_known = name.starts_with("describe-")
        || name.starts_with("list-")
        || name == "get-caller-identity"
        || (service.is("logs") && name == "tail")
        || (service.is("configure") && name == "list");
    if is_known && service.value().is_some() {
        Ok(Vec::new())
    } else {
        Err(format!("the subcommand {operation}"))
    }
}

/// `gcloud compute instances list`: words that only ask.
pub(super) fn only_lists(found: &Arguments) -> Judged {
    const VERBS: &str = "list describe show info version ls get-value list-locations read";
    let Some(first) = found.operands.first() else {
        return Ok(Vec::new());
    };
    refuse(&found.operands, |word| word.value().is_none())?;
    let is_known = found.operands.iter().any(|word| is_one_of(word, VERBS));
    if is_known { Ok(Vec::new()) } else { Err(format!("the subcommand {first}")) }
}

/// Subcommands of systemd's tools that only show.
pub(super) fn only_shows(found: &Arguments) -> Judged {
    const OTHER: [&str; 3] = ["show", "status", "list"];
    const PREFIXES: [&str; 3] = ["list-", "show-", "get-"];
    let is_known = |text: &str| {
        OTHER.contains(&text)
            || PREFIXES.iter().any(|start| text.starts_with(start))
            || ["blame", "time", "critical-chain", "query", "statistics", "tree", "timesync-status"]
                .contains(&text)
    };
    let first = found.operands.first();
    refuse(first, |word| !word.value().is_some_and(is_known)).map(|()| Vec::new())
}

/// A unit by path is linked into the system.
pub(super) fn units(found: &Arguments) -> Judged {
    let paths = found.operands.iter().filter(|word| word.text.contains('/'));
    Ok(read_as_code(paths))
}

pub(super) fn services(found: &Arguments) -> Judged {
    refuse(&found.operands, |word| word.value().is_none_or(|text| text.contains('/')))?;
    Ok(Vec::new())
}

/// `docker run IMAGE [COMMAND…]`.
pub(super) fn run_container(found: &Arguments) -> Judged {
    let mut effects = volumes(found)?;
    let mut command = behind(&found.operands, 1)?.to_vec();
    if let Some(entry) = found.values(&["--entrypoint"]).last() {
        command.insert(0, entry.clone());
    }
    effects.extend(command_inside(found, command)?);
    Ok(effects)
}

/// `docker exec CONTAINER COMMAND…`.
pub(super) fn run_in_container(found: &Arguments) -> Judged {
    command_inside(found, behind(&found.operands, 1)?.to_vec())
}

/// The command and the variables that it gets. Without a command the image's own runs.
fn command_inside(found: &Arguments, command: Vec<Word>) -> Judged {
    if command.is_empty() {
        return Ok(Vec::new());
    }
    if found.has(&["--env-file"]) {
        return Err("the option --env-file".to_owned());
    }
    let names = found.values(&["-e", "--env"]).map(|word| match word.text.split_once('=') {
        Some((name, _)) => Ok(ArgumentEffect::Sets { name: name.to_owned(), value: None }),
        // `-e NAME` hands on a variable that is already set.
        None if word.value().is_some() => {
            Ok(ArgumentEffect::Sets { name: word.text.clone(), value: None })
        }
        None => Err(format!("the word {word}")),
    });
    let mut effects = names.collect::<Result<Vec<_>, _>>()?;
    effects.extend(command_of(&command));
    Ok(effects)
}

/// `kubectl exec POD -- COMMAND`; with `-f` the pod is not an operand.
pub(super) fn run_in_pod(found: &Arguments) -> Judged {
    if found.has(&["-f", "--filename"]) {
        return Err("the option -f".to_owned());
    }
    Ok(command_of(behind(&found.operands, 1)?).into_iter().collect())
}

/// A named volume, or a directory below the working directory that the container may change.
fn volumes(found: &Arguments) -> Judged {
    let mut effects = Vec::new();
    for word in found.values(&["-v", "--volume"]) {
        let text = require_known(word)?;
        let source = text.split(':').next().unwrap_or(text);
        let is_below = source == "." || source.starts_with("./");
        if source.contains("..") || (source.contains(['/', '~']) && !is_below) {
            return Err(format!("the volume {source}"));
        }
        if is_below && !text.ends_with(":ro") {
            effects.extend(download_into(Word::literal(source)));
        }
    }
    Ok(effects)
}

/// `docker cp CONTAINER:PATH TARGET`.
pub(super) fn copy_from_container(found: &Arguments) -> Judged {
    let target = found.operands.last().filter(|word| !word.text.contains(':'));
    Ok(target.cloned().map(download_into).into_iter().flatten().collect())
}

#[cfg(test)]
mod tests {
    use crate::strict::tests::{assert_doubts, assert_harmless, check, harmless, judged};

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
            "ssh host ls -la => Posix script ls -la
        ssh -p 22 -i key user@host 'ls && id' => Posix script ls && id
        ssh host => code from input
        ssh -F x host id => code x
        ssh -o BatchMode=yes -o ConnectTimeout=5 host uptime => Posix script uptime
        ssh-agent id -u => runs id -u
        sshpass -p x ssh host id => runs ssh host id
        mosh host -- id => runs id
        rsh host id => Posix script id
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
        ssh -o ProxyJump=me@jump:22 host id => Posix script id
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
    fn written_files_and_directories_are_reported() {
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
    fn transfer_options_that_start_programs_are_in_doubt() {
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

    #[test]
    fn everyday_use_of_clouds_and_services_is_known() {
        harmless(
            "gh pr list
        gh pr view 12 --json title,body
        gh pr create --title x --body y
        gh pr create --fill
        gh pr checks 12
        gh pr diff
        gh pr merge 12 --squash --delete-branch
        gh issue list --label bug --limit 20
        gh issue view 3 --comments
        gh run list --limit 5
        gh run view 1 --log-failed
        gh repo view
        gh repo clone a/b
        gh release list
        gh api repos/a/b/pulls --jq .[].title
        gh auth status
        gh --version
        terraform init -upgrade
        terraform plan -out=tf.plan
        terraform validate
        terraform fmt -check -recursive
        terraform -chdir=infra plan
        terraform output -json
        terraform state list
        ansible-playbook -i hosts site.yml --check --diff
        ansible all -m ping -i hosts
        vagrant status
        aws sts get-caller-identity
        aws s3 ls s3://bucket/
        aws s3 cp a.txt s3://bucket/
        aws ec2 describe-instances --filters Name=x,Values=y --output table
        aws --profile dev logs tail /aws/x --follow
        gcloud config list
        gcloud compute instances list --project x
        az vm list -o table
        systemctl status nginx --no-pager
        systemctl --user restart app
        systemctl list-units --type=service
        systemctl is-active docker
        systemctl daemon-reload
        journalctl -u nginx -n 100 --no-pager
        journalctl --since '-1 hour' -p err
        journalctl -xe
        service nginx status
        timedatectl status
        hostnamectl
        supervisorctl status",
        );
    }

    #[test]
    fn commands_and_files_of_clouds_are_named() {
        check(
            "ansible-playbook site.yml => code site.yml
        ansible-playbook -i inv site.yml => code inv
        vagrant ssh -c id => Posix script id
        vagrant ssh => code from input
        aws s3 cp s3://b/x .bashrc => writes beneath .bashrc
        gh run download 1 -D out => writes beneath out
        terraform plan -out=x => writes x
        systemctl enable /tmp/x.service => code /tmp/x.service",
        );
    }

    #[test]
    fn other_subcommands_and_options_are_in_doubt() {
        check(
            "gh alias set --shell x id => the subcommand alias
        gh extension exec x => the subcommand extension
        gh config set pager id => the subcommand config
        gh browse => the subcommand browse
        gh codespace ssh => the subcommand codespace
        gh pr view --web => the option --web
        gh pr view -w 12 => the option -w
        gh --draft pr alias set x y => the option --draft
        gh repo clone a/b -- -c core.sshCommand=id => the word -c
        gh repo clone a/b -- --upload-pack=id => the word --upload-pack=id
        gh myalias => the subcommand myalias
        terraform console => the subcommand console
        terraform init -plugin-dir=x => the option -plugin-dir
        ansible all -a id => the option -a
        ansible all -m shell => the module shell
        ansible localhost => the module command
        ansible-playbook -M x y => the option -M
        ansible-playbook x -e ansible_python_interpreter=./e => the word ansible_python_interpreter=./e
        ansible-playbook --vault-password-file=./e x => the option --vault-password-file
        ansible-playbook --ssh-common-args=x y => the option --ssh-common-args
        aws configure set credential_process id => the subcommand set
        aws ssm start-session --target x => the subcommand start-session
        aws ec2 help => the word help
        gcloud compute ssh x --command id => the option --command
        gcloud compute ssh x => the subcommand compute
        systemctl edit x => the subcommand edit
        systemctl link /x => the subcommand link
        systemctl set-environment X=y => the subcommand set-environment
        systemctl -H host status => the option -H
        service ../../bin/sh x => the word ../../bin/sh
        vagrant ssh -- -o ProxyCommand=id => the word -o
        start-stop-daemon -S -x /bin/sh => the option -S
        systemd-analyze x => the word x
        pulumi up => the word up
        sops exec-env x id => the word exec-env",
        );
    }

    #[test]
    fn everyday_use_of_containers_is_known() {
        harmless(
            "docker ps -a
        docker ps --format '{{.Names}}'
        docker images
        docker logs -f --tail 100 web
        docker build -t app:dev .
        docker build -f docker/Dockerfile --target test --no-cache -t x .
        docker compose up -d --build
        docker compose -f dev.yml logs --tail=50 web
        docker compose down -v
        docker compose ps
        docker-compose up -d
        docker run --rm -it img
        docker run -d --name db -e POSTGRES_PASSWORD=x -p 5432:5432 -v data:/var/lib postgres:16
        docker run --rm -v ./src:/src:ro img
        docker stop web
        docker rm -f web
        docker inspect web
        docker system prune -af
        docker network ls
        docker volume ls -q
        docker image ls
        docker pull alpine:3
        docker version
        docker info
        docker stats --no-stream
        docker cp web:/app/log .
        podman ps
        kubectl get pods -n web
        kubectl get pods -A -o wide
        kubectl get deploy app -o jsonpath={.spec}
        kubectl describe pod x
        kubectl logs -f deploy/web --tail=100 -c app
        kubectl apply -f k8s/
        kubectl rollout status deploy/web
        kubectl config current-context
        kubectl top pods
        kubectl delete pod x --grace-period=0 --force
        kubectl scale deploy/web --replicas=3
        kubectl port-forward svc/web 8080:80
        helm list -A
        helm upgrade --install web ./chart -f values.yaml --set image.tag=1
        helm template .
        minikube status
        kind get clusters",
        );
    }

    #[test]
    fn commands_inside_are_named() {
        check(
            "docker run --rm alpine id -u => runs id -u
        docker run --entrypoint sh alpine -c id => runs sh -c id
        docker exec -it web ls -la => runs ls -la
        docker exec -e X=1 web ls => sets X; runs ls
        docker container exec web id => runs id
        docker compose exec -T web pytest => runs pytest
        docker compose run --rm web id => runs id
        podman run alpine id => runs id
        buildah run c -- id => runs id
        kubectl exec -it pod -- ls / => runs ls /
        kubectl exec pod -n web -c app -- id => runs id
        kubectl run x --image=y -- id => runs id
        kubectl cp pod:/x ./y => writes beneath ./y
        oc rsh pod id => runs id
        lxc exec c -- id => runs id
        docker run -v ./data:/data img => writes beneath ./data
        docker save -o x.tar img => writes x.tar
        docker build . => opaque; code Dockerfile
        docker compose -f x.yml up => code x.yml
        kubectl --kubeconfig x get pods => code x",
        );
    }

    #[test]
    fn parts_of_the_host_and_plugins_are_in_doubt() {
        check(
            "docker run -v /:/mnt alpine => the volume /
        docker run -v/:/mnt alpine => the volume /
        docker run --volume=../x:/x alpine => the volume ../x
        docker run --mount type=bind,src=/,dst=/x alpine => the option --mount
        docker run --privileged alpine => the option --privileged
        docker run --pid=host alpine => the option --pid
        docker run --device /dev/sda alpine => the option --device
        docker run --cap-add SYS_ADMIN alpine => the option --cap-add
        docker run --security-opt x alpine => the option --security-opt
        docker run --volumes-from x alpine => the option --volumes-from
        docker run --runtime x alpine => the option --runtime
        docker run --health-cmd id alpine => the option --health-cmd
        docker run --env-file x alpine ls => the option --env-file
        docker --config x ps => the option --config
        docker -H ssh://x ps => the option -H
        docker build -o . . => the option -o
        docker build --ssh default . => the option --ssh
        docker plugin install x => the subcommand plugin
        docker evil => the subcommand evil
        kubectl edit pod x => the subcommand edit
        kubectl exec -f x -- touch ls => the option -f
        kubectl logs -f --kubeconfig=x pod => the word --kubeconfig=x
        kubectl -i get debug x => the option -i
        kubectl debug x => the subcommand debug
        kubectl plugin => the subcommand plugin
        kubectl config set-credentials x --exec-command=id => the subcommand set-credentials
        kubectl kustomize --enable-exec . => the option --enable-exec
        kubectl get pods --profile-output=x => the option --profile-output
        helm install x y --post-renderer ./e => the option --post-renderer
        helm plugin install x => the subcommand plugin
        minikube kubectl -- get pods => the subcommand kubectl
        runc run x => the word run
        virsh edit x => the word edit",
        );
    }
}
