//! Clients of clouds and forges, infrastructure tools and service managers.
//!
//! An entry marked "Unchecked", or without a version, has yet to be compared with the program's own
//! help; the version is the one that it is meant for.

use super::consequence::{Consequence, Doubt};
use super::dispatch::Judgement;
use super::entry::{
    ANY, OPAQUE, OperandRole, PLAIN, ToolEntry, download_into, is_plain_text, judge_by, refuse,
};
use super::options::Arguments;
use crate::command::{Shell, Word};

/// Options of gh 2.23 (gh help). Not listed: `--web`, which opens a browser, and editors.
const GH: &str = "-R= --repo= -h --help --json= -q= --jq= --template= -t= -L= --limit= -s= --state= \
    -l= --label= -a= --assignee= -A= --author= -S= --search= -B= --base= -H= --head= -b== --body== \
    -F= --body-file= --title= -f --fill --fill-first -d --draft -r= --reviewer= -m= --milestone= \
    --merge --squash --rebase --auto --delete-branch --admin --comments -c --watch --interval= --log \
    --log-failed --exit-status -j= --job= --workflow= --branch= --event= -u= --user= --failed \
    --patch --name-only --color= --detach --force --recurse-submodules --approve --request-changes \
    --comment --notes= -n= --notes-file= --generate-notes --prerelease --latest --target= --public \
    --private --clone --source= --remote= --push --description= -p= --pattern= -D= --dir= -O= --output= \
    --clobber --archive= --ref= --show-token --hostname= --yes --add-label= --remove-label= \
    --add-assignee= --reason= --required --attempt= --debug --visibility= --topic= --language= --env=";

const GH_COMMAND: ToolEntry =
    ToolEntry { operands: OperandRole::Judged(github), writes: "-O --output", ..PLAIN };

/// Options of Terraform 1.11 (terraform plan -help) and OpenTofu.
const TERRAFORM: &str = "-input= -no-color -json -auto-approve -out= -var= -var-file= -target= \
    -replace= -refresh= -refresh-only -destroy -lock= -lock-timeout= -parallelism= -compact-warnings \
    -detailed-exitcode -upgrade -reconfigure -migrate-state -backend= -backend-config= -get= \
    -lockfile= -check -diff -recursive -write= -list= -raw -state= -help -h -force -force-copy -update \
    -platform= -id= -verbose -filter= -no-tests";

/// Unchecked. Options of Ansible 2.14 (ansible-playbook --help). Connections, module paths and
/// files of passwords may be programs.
const ANSIBLE: &str = "-h --help --version -v --verbose -i= --inventory= -l= --limit= -t= --tags= \
    --skip-tags= -C --check -D --diff --syntax-check --list-tasks --list-tags --list-hosts -b --become \
    --become-user= -u= --user= -f= --forks= --start-at-task= --step -e= --extra-vars= --flush-cache \
    --force-handlers -K --ask-become-pass -k --ask-pass -T= --timeout= -m= --module-name= -o --one-line \
    --graph --list --host= --yaml -y -r= --role-file= -p= --roles-path= --force --profile= --offline -q";

/// Options of systemctl and journalctl, systemd 252. `-H` and `-M` connect elsewhere.
const SYSTEMD: &str = "--user --system --no-pager -l --full -n= --lines= -a --all -t= --type= \
    --state= -q --quiet --now --no-legend --plain --failed -p= --property= --value -o= --output= -f \
    --force -r --recursive --reverse --no-block --no-ask-password -s= --signal= --version -h --help \
    --wait --show-types --legend= --no-reload --runtime --timestamp=";

const JOURNAL: &str = "--system --user --dmesg -k -b? --boot? --list-boots -u= --unit= --user-unit= \
    -t= --identifier= -p= --priority= -g= --grep= --case-sensitive? --facility= -S== --since== -U== \
    --until== -e --pager-end -f --follow -n? --lines? --no-tail -r --reverse -o= --output= \
    --output-fields= --utc -x --catalog --no-full --full -l -a --all -q --quiet --no-pager \
    --no-hostname -m --merge -F= --field= -N --fields --disk-usage --vacuum-size= --vacuum-time= \
    --vacuum-files= --verify --header --version -h --help -c= --cursor= --show-cursor -#";

const TABLE: &[ToolEntry] = &[
    ToolEntry {
        names: "gh",
        options: "--version --help -h",
        shared: GH,
        operands: OperandRole::Subcommand(&[
            ToolEntry {
                names: "pr issue repo run release workflow gist label secret variable search auth \
                    ruleset org project cache status",
                ..GH_COMMAND
            },
            ToolEntry {
                names: "api",
                options: "-X= --method= -f= --raw-field= -F= --field= -H= --header= -i --include --input= \
                    --paginate --slurp --silent --cache= --verbose -p= --preview=",
                operands: OperandRole::Data,
                ..PLAIN
            },
        ]),
        ..PLAIN
    },
    ToolEntry {
        names: "glab hub tea",
        options: "--version -v --help",
        operands: OperandRole::Subcommand(&[ToolEntry {
            names: "mr issue ci pipeline repo",
            options: "-R= --repo= -F= --output= -P= -p= -a= --assignee= -l= --label= -c --closed -M",
            operands: OperandRole::Judged(github),
            ..PLAIN
        }]),
        ..PLAIN
    },
    ToolEntry {
        names: "terraform tofu terragrunt",
        options: "-chdir= -version --version -help",
        code: "-chdir",
        operands: OperandRole::Subcommand(&[
            ToolEntry {
                names: "init plan apply destroy validate fmt output show refresh import taint untaint \
                    get graph version test force-unlock",
                options: TERRAFORM,
                code: "-var-file -backend-config",
                writes: "-out",
                files: "main.tf terraform.tfvars terragrunt.hcl .terraformrc",
                ..OPAQUE
            },
            ToolEntry {
                names: "state workspace providers",
                operands: OperandRole::Subcommand(&[ToolEntry {
                    names: "list show select new delete mv rm pull lock schema mirror",
                    options: TERRAFORM,
                    ..OPAQUE
                }]),
                ..OPAQUE
            },
        ]),
        ..OPAQUE
    },
    ToolEntry {
        names: "ansible-playbook",
        options: ANSIBLE,
        code: "-i --inventory",
        files: "ansible.cfg",
        operands: OperandRole::Judged(playbook),
        ..OPAQUE
    },
    ToolEntry {
        names: "ansible",
        options: ANSIBLE,
        code: "-i --inventory",
        files: "ansible.cfg",
        operands: OperandRole::Judged(ansible),
        ..OPAQUE
    },
    ToolEntry {
        names: "ansible-inventory ansible-lint ansible-galaxy",
        options: ANSIBLE,
        code: "-i --inventory -r --role-file",
        files: "ansible.cfg",
        ..OPAQUE
    },
    ToolEntry {
        names: "ansible-console ansible-test ansible-pull ansible-vault ansible-doc ansible-config \
            pulumi packer nomad consul vault boundary waypoint cdk cdktf sam serverless sls \
            flyctl fly heroku railway netlify vercel wrangler supabase firebase doctl linode-cli \
            eksctl copilot chamber aws-vault doppler infisical op pass sops",
        options: "--version -version --help -h",
        operands: OperandRole::Nothing,
        ..OPAQUE
    },
    // Unchecked. Vagrant 2.
    ToolEntry {
        names: "vagrant",
        options: "-v --version -h --help",
        files: "Vagrantfile",
        operands: OperandRole::Subcommand(&[
            ToolEntry {
                names: "status global-status up halt destroy reload suspend resume provision validate \
                    box port version",
                options: "-f --force --provision --no-provision --provider= --prune --parallel",
                ..OPAQUE
            },
            ToolEntry {
                names: "ssh",
                options: "-c= --command= -t --tty -T --no-tty",
                operands: OperandRole::Judged(vagrant_ssh),
                ..OPAQUE
            },
        ]),
        ..OPAQUE
    },
    ToolEntry { names: "aws", options: "*", operands: OperandRole::Judged(aws), ..PLAIN },
    ToolEntry {
        names: "gcloud az gsutil oci ibmcloud aliyun",
        options: "--project= --zone= --region= --format= --filter= --limit= -q --quiet --sort-by= \
            --account= -o= --output= -g= --resource-group= -n= --name= --query= --subscription= \
            --version -v -h --help --location= -l= --cluster= --all --only-show-errors --namespace=",
        operands: OperandRole::Judged(only_lists),
        ..PLAIN
    },
    ToolEntry {
        names: "systemctl",
        options: SYSTEMD,
        shared: SYSTEMD,
        operands: OperandRole::Subcommand(&[
            ToolEntry {
                names: "status is-active is-enabled is-failed list-units list-unit-files list-timers \
                    list-sockets list-dependencies list-jobs show cat start stop restart reload \
                    try-restart reload-or-restart daemon-reload reset-failed kill mask unmask \
                    is-system-running show-environment get-default disable isolate",
                ..PLAIN
            },
            ToolEntry {
                names: "enable reenable preset",
                operands: OperandRole::Judged(units),
                ..PLAIN
            },
        ]),
        ..PLAIN
    },
    ToolEntry { names: "journalctl", options: JOURNAL, ..PLAIN },
    ToolEntry {
        names: "loginctl hostnamectl timedatectl localectl networkctl resolvectl busctl bootctl \
            coredumpctl systemd-analyze",
        options: "--no-pager -l --full -a --all -q --quiet --no-legend --user --system --version -h --help \
            -n= --lines= --json= --value -p= --property=",
        operands: OperandRole::Judged(only_shows),
        ..PLAIN
    },
    // `service NAME COMMAND` starts the script of that name.
    ToolEntry {
        names: "service invoke-rc.d rc-service",
        options: "--status-all --version -h --help",
        operands: OperandRole::Judged(services),
        ..PLAIN
    },
    ToolEntry {
        names: "launchctl",
        operands: OperandRole::Subcommand(&[ToolEntry { names: "list", ..ANY }]),
        ..PLAIN
    },
    ToolEntry {
        names: "supervisorctl pm2 forever circusctl",
        options: "--version -h --help",
        operands: OperandRole::Subcommand(&[ToolEntry {
            names: "status list ls logs stop restart reload tail info show describe",
            options: "-f --lines= --nostream --raw",
            ..PLAIN
        }]),
        ..PLAIN
    },
    ToolEntry {
        names: "init telinit shutdown reboot halt poweroff rc-update start-stop-daemon \
            sv s6-svscan s6-setuidgid supervise supervisord monit xinetd cron anacron atd",
        options: "--version --help -h",
        operands: OperandRole::Nothing,
        ..PLAIN
    },
];

/// Judges a client of a cloud or a service manager.
pub(super) fn consequences(program: &str, args: &[Word]) -> Judgement {
    judge_by(TABLE, program, args)
}

/// Behind `--` stand options of git; a directory is written by `clone` and `download`.
fn github(found: &Arguments) -> Result<Vec<Consequence>, Doubt> {
    const OTHER: [&str; 8] = [
        "edit-message",
        "browse",
        "ssh",
        "code",
        "git-credential",
        "setup-git",
        "sync-fork",
        "open",
    ];
    let verb = found.operands.first();
    refuse(verb, |word| word.value().is_none_or(|text| OTHER.contains(&text)))?;
    refuse(&found.operands, |word| word.text.starts_with('-') || word.text.contains("ext::"))?;
    let writes_files = verb.is_some_and(|word| word.is("download") || word.is("clone"));
    let target = found.values(&["-D", "--dir"]).next().cloned();
    let target = target.unwrap_or_else(|| Word::literal("."));
    let is_download = writes_files && verb.is_some_and(|word| word.is("download"));
    Ok(is_download.then(|| download_into(target)).into_iter().flatten().collect())
}

/// Variables of Ansible itself (`ansible_…`) name interpreters and connections.
fn playbook(found: &Arguments) -> Result<Vec<Consequence>, Doubt> {
    for word in found.values(&["-e", "--extra-vars"]) {
        let text = word.value().unwrap_or("{");
        let is_known = text.split_once('=').is_some_and(|(name, value)| {
            !name.starts_with("ansible") && is_plain_text(name) && is_plain_text(value)
        });
        if !is_known {
            return Err(format!("the word {word}"));
        }
    }
    Ok(found.operands.iter().cloned().map(Consequence::ReadsCode).collect())
}

/// Modules that only ask; the default module runs a command.
fn ansible(found: &Arguments) -> Result<Vec<Consequence>, Doubt> {
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

fn vagrant_ssh(found: &Arguments) -> Result<Vec<Consequence>, Doubt> {
    // Behind `--` stand options of ssh.
    refuse(&found.operands, |word| word.text.starts_with('-'))?;
    match found.values(&["-c", "--command"]).last() {
        Some(word) => {
            let text = word.value().ok_or_else(|| format!("the word {word}"))?.to_owned();
            Ok(vec![Consequence::Script { text, shell: Shell::Posix }])
        }
        None => Ok(vec![Consequence::ReadsCodeFromInput]),
    }
}

/// `aws SERVICE OPERATION`: operations that list or describe have no option that starts a program
/// or writes a file (unchecked: AWS CLI 2.9). `s3` copies files.
fn aws(found: &Arguments) -> Result<Vec<Consequence>, Doubt> {
    const GLOBAL: &str = "--debug --endpoint-url= --no-verify-ssl --no-paginate --output= --query= \
        --profile= --region= --version --color= --no-sign-request --ca-bundle= --cli-read-timeout= \
        --cli-connect-timeout= --no-cli-pager --recursive --dryrun --delete --exclude= --include= \
        --acl= --human-readable --summarize --quiet --storage-class= --only-show-errors \
        --exact-timestamps --size-only --no-progress --expires-in= --content-type= --cache-control=";
    let spec =
        super::option_spec::OptionSpec { tokens: &[GLOBAL], order: super::options::Order::First };
    let behind = spec.read(&found.operands)?;
    refuse(&behind.operands, |word| word.is("help"))?;
    let (Some(service), Some(operation)) = (behind.operands.first(), behind.operands.get(1)) else {
        return Ok(Vec::new());
    };
    let name = operation.value().unwrap_or_default();
    let args = behind.operands.get(2..).unwrap_or_default();
    if service.is("s3") && ["ls", "cp", "sync", "mv", "rm", "mb", "rb", "presign"].contains(&name) {
        let spec = super::option_spec::OptionSpec {
            tokens: &[GLOBAL],
            order: super::options::Order::Anywhere,
        };
        let target = spec.read(args)?.operands.last().cloned();
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
fn only_lists(found: &Arguments) -> Result<Vec<Consequence>, Doubt> {
    const VERBS: [&str; 9] = [
        "list",
        "describe",
        "show",
        "info",
        "version",
        "ls",
        "get-value",
        "list-locations",
        "read",
    ];
    let Some(first) = found.operands.first() else {
        return Ok(Vec::new());
    };
    refuse(&found.operands, |word| word.value().is_none())?;
    let is_known = found.operands.iter().any(|word| VERBS.iter().any(|verb| word.is(verb)));
    if is_known { Ok(Vec::new()) } else { Err(format!("the subcommand {first}")) }
}

/// Subcommands of systemd's tools that only show.
fn only_shows(found: &Arguments) -> Result<Vec<Consequence>, Doubt> {
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
fn units(found: &Arguments) -> Result<Vec<Consequence>, Doubt> {
    let paths = found.operands.iter().filter(|word| word.text.contains('/'));
    Ok(paths.cloned().map(Consequence::ReadsCode).collect())
}

fn services(found: &Arguments) -> Result<Vec<Consequence>, Doubt> {
    refuse(&found.operands, |word| word.value().is_none_or(|text| text.contains('/')))?;
    Ok(Vec::new())
}

#[cfg(test)]
mod tests {
    use super::super::table_checks::{check, harmless};

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
    fn commands_and_files_are_named() {
        check(
            "ansible-playbook site.yml => code site.yml
            ansible-playbook -i inv site.yml => code inv
            vagrant ssh -c id => script id
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
}
