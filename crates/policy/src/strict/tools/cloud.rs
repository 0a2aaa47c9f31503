//! Clients of containers, clusters, clouds and service managers.

use std::sync::LazyLock;

use super::entry::{
    ArgumentEffect, Judged, behind, command_of, download_into, is_plain_text, refuse,
};
use crate::command::{ShellSyntax, Word};
use crate::options::{Arguments, OptionOrder, OptionSet};

/// After `--` stand options of git; a directory is written by `clone` and `download`.
pub(super) fn github(found: &Arguments) -> Judged {
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
    Ok(found.operands.iter().cloned().map(ArgumentEffect::ReadsCode).collect())
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
        Some(word) => {
            let text = word.value().ok_or_else(|| format!("the word {word}"))?.to_owned();
            Ok(vec![ArgumentEffect::Script { text, shell: ShellSyntax::Posix }])
        }
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
    let is_known =
        found.operands.iter().any(|word| VERBS.split_ascii_whitespace().any(|verb| word.is(verb)));
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
    Ok(paths.cloned().map(ArgumentEffect::ReadsCode).collect())
}

pub(super) fn services(found: &Arguments) -> Judged {
    refuse(&found.operands, |word| word.value().is_none_or(|text| text.contains('/')))?;
    Ok(Vec::new())
}

/// `docker run IMAGE [COMMAND…]`.
pub(super) fn run(found: &Arguments) -> Judged {
    let mut effects = volumes(found)?;
    let mut command = behind(&found.operands, 1)?.to_vec();
    if let Some(entry) = found.values(&["--entrypoint"]).last() {
        command.insert(0, entry.clone());
    }
    effects.extend(command_inside(found, command)?);
    Ok(effects)
}

/// `docker exec CONTAINER COMMAND…`.
pub(super) fn run_inside(found: &Arguments) -> Judged {
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
        let text = word.value().ok_or_else(|| format!("the word {word}"))?;
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
pub(super) fn copy(found: &Arguments) -> Judged {
    let target = found.operands.last().filter(|word| !word.text.contains(':'));
    Ok(target.cloned().map(download_into).into_iter().flatten().collect())
}

#[cfg(test)]
mod tests {
    use crate::strict::tools::tests::{check, harmless};

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
