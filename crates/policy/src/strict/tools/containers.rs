//! Containers and clusters: a command inside of one is another command.
//!
//! Options that give a container more of the host (volumes of absolute paths, devices, namespaces,
//! privileges) are not listed.
//!
//! An entry marked "Unchecked", or without a version, has yet to be compared with the program's own
//! help; the version is the one that it is meant for.

use super::consequence::{Consequence, Doubt};
use super::dispatch::Judgement;
use super::entry::{
    ANY, OPAQUE, OperandRole, PLAIN, ToolEntry, behind, command_of, download_into, judge_by,
};
use super::options::Arguments;
use crate::command::Word;

/// Options of `docker run` and `docker create` (Docker 28.2.2, docker run --help).
const RUN: &str = "-a== --attach== -d --detach --detach-keys== -e== --env== --env-file== \
    --expose== -h== --hostname== --init -i --interactive -l== --label== -m== --memory== \
    --memory-swap== --memory-reservation== --name== --network== --net== --network-alias== -p== \
    --publish== -P --publish-all --platform== --pull= -q --quiet --read-only --restart== --rm \
    --shm-size== --stop-signal== --stop-timeout== --tmpfs== -t --tty --ulimit== -u== --user== -w== \
    --workdir== --cpus== --cpu-shares== --cpuset-cpus== --pids-limit== --add-host== --dns== \
    --dns-search== --health-interval== --health-retries== --health-timeout== --no-healthcheck \
    --log-driver== --log-opt== --link== --oom-score-adj== --cap-drop== --gpus== --entrypoint== -v== \
    --volume== --sig-proxy? --rmi --no-hosts";

const EXEC: &str = "-d --detach --detach-keys== -e== --env== -i --interactive -t --tty -u== --user== \
    -w== --workdir== -T --no-TTY --index==";

const CONTAINER_LISTS: &str = "-a --all -q --quiet -f= --filter= --format= -n= --last= -l \
    --latest --no-trunc -s --size --digests --tree";

const BUILD: ToolEntry = ToolEntry {
    names: "build bud",
    options: "-f== --file== -t== --tag== --target== --build-arg== --no-cache --pull? -q --quiet \
        --platform== --progress== --label== --rm --force-rm --network== --cache-from== --cache-to== \
        --load --push --no-cache-filter== --add-host== --shm-size== -m== --memory== --squash --layers",
    code: "-f --file",
    files: "Dockerfile Containerfile .dockerignore",
    operands: OperandRole::Code,
    ..OPAQUE
};

const CONTAINER_COMMANDS: &[ToolEntry] = &[
    ToolEntry {
        names: "run create",
        options: RUN,
        operands: OperandRole::JudgedFirst(run),
        ..PLAIN
    },
    ToolEntry {
        names: "exec",
        options: EXEC,
        operands: OperandRole::JudgedFirst(run_inside),
        ..PLAIN
    },
    ToolEntry { names: "ps ls list images", options: CONTAINER_LISTS, ..PLAIN },
    ToolEntry {
        names: "logs inspect stop start restart kill pause unpause rm rmi wait top stats port diff \
            history rename tag untag pull push search info version events df prune attach commit \
            logout exists healthcheck",
        options: "-f --follow -n= --tail= --since= --until= -t --timestamps --details \
            --format= --type= -s --size --no-stream --no-trunc -a --all -q --quiet --filter= \
            --volumes -v --force --time= --signal= --platform= --limit= -l --link --no-prune \
            --all-tags --message= -m= --author= --human --no-header --latest",
        ..PLAIN
    },
    ToolEntry {
        names: "cp",
        options: "-a --archive -L --follow-link -q --quiet",
        operands: OperandRole::Judged(copy),
        ..PLAIN
    },
    ToolEntry {
        names: "save export",
        options: "-o== --output== --platform== --format== -q",
        writes: "-o --output",
        ..PLAIN
    },
    ToolEntry {
        names: "load import",
        options: "-i== --input== -q --quiet --platform== -m==",
        ..PLAIN
    },
    BUILD,
    ToolEntry {
        names: "container image network volume system manifest pod machine secret",
        operands: OperandRole::Subcommand(CONTAINER_GROUP),
        ..PLAIN
    },
    ToolEntry {
        names: "context builder",
        operands: OperandRole::Subcommand(&[
            ToolEntry { names: "ls list show inspect use", options: CONTAINER_LISTS, ..PLAIN },
            BUILD,
            ToolEntry { names: "prune du", options: "-a --all -f --force --filter==", ..PLAIN },
        ]),
        ..PLAIN
    },
    ToolEntry {
        names: "buildx",
        operands: OperandRole::Subcommand(&[
            BUILD,
            ToolEntry { names: "ls version du inspect", options: "--bootstrap --verbose", ..PLAIN },
        ]),
        ..PLAIN
    },
    ToolEntry { names: "compose", ..COMPOSE },
];

/// Subcommands behind `docker container`, `docker image` and the like.
const CONTAINER_GROUP: &[ToolEntry] = &[
    ToolEntry {
        names: "run create",
        options: RUN,
        operands: OperandRole::JudgedFirst(run),
        ..PLAIN
    },
    ToolEntry {
        names: "exec",
        options: EXEC,
        operands: OperandRole::JudgedFirst(run_inside),
        ..PLAIN
    },
    ToolEntry { names: "ls list ps", options: CONTAINER_LISTS, ..PLAIN },
    ToolEntry {
        names: "inspect rm stop start restart kill logs top stats prune df info history pull push tag \
            connect disconnect exists wait port",
        options: "-f --force -a --all -q --quiet --filter= --format= --volumes -v --follow \
            --tail= -n= --since= --no-stream -t --timestamps --time= --platform= -s --size",
        ..PLAIN
    },
    BUILD,
];

/// `docker compose`: the project file is not looked into.
const COMPOSE: ToolEntry = ToolEntry {
    options: "-f== --file== -p== --project-name== --profile== --env-file== --project-directory== \
        --ansi== --progress== --compatibility --dry-run --parallel== -v --version -h --help",
    code: "-f --file --env-file --project-directory",
    files: "docker-compose.yml docker-compose.yaml docker-compose.override.yml compose.yaml \
        compose.yml .env",
    operands: OperandRole::Subcommand(&[
        ToolEntry {
            names: "up down ps logs build pull push restart start stop config rm top images kill pause \
                unpause port version events ls create stats wait watch convert",
            options: "-d --detach --build --no-build --force-recreate --no-recreate --no-deps \
                --remove-orphans -V --renew-anon-volumes --abort-on-container-exit --exit-code-from= \
                --scale= -t= --timeout= --wait --wait-timeout= --quiet-pull --no-start -v \
                --volumes --rmi= -f --follow --tail= -n= --since= --until= --no-color \
                --no-log-prefix --timestamps -a --all -q --quiet --services --format= --filter= \
                --status= --no-cache --pull? --build-arg= --parallel --profiles --images --hash= -s \
                --stop --force --ignore-pull-failures --include-deps --no-interpolate --short",
            ..OPAQUE
        },
        ToolEntry {
            names: "exec",
            options: EXEC,
            operands: OperandRole::JudgedFirst(run_inside),
            ..OPAQUE
        },
        ToolEntry {
            names: "run",
            options: "-d --detach -e== --env== -l== --label== --name== -T --no-TTY --no-deps -p== \
                --publish== --rm --service-ports --use-aliases -u== --user== -w== --workdir== --build \
                --quiet-pull --remove-orphans -i --interactive --entrypoint== -v== --volume==",
            operands: OperandRole::JudgedFirst(run),
            ..OPAQUE
        },
    ]),
    ..OPAQUE
};

/// Options that kubectl 1.32 takes everywhere (kubectl options), and those of its printers.
/// A kubeconfig may name programs that get credentials.
const KUBECTL: &str = "--as= --as-group= --as-uid= --cluster= --context= --insecure-skip-tls-verify? \
    --kubeconfig= --match-server-version -n= --namespace= --request-timeout= -s= --server= \
    --token= --user= -v= --v= --warnings-as-errors -o= --output= -A --all-namespaces -l= \
    --selector= --field-selector= --no-headers? --show-labels --show-kind --sort-by= -w --watch? \
    --watch-only --ignore-not-found --chunk-size= --template= -h --help --show-managed-fields \
    --dry-run? --server-side? --force-conflicts --field-manager= --timeout= --wait? --all --force \
    --grace-period= --now --cascade? -c= --container= --all-containers? -f= --filename= -R --recursive \
    -k= --kustomize= --tail= --since= --since-time= --timestamps? --prefix? -p --previous? \
    --follow? --max-log-requests= --limit-bytes= --overwrite? --replicas= --current-replicas= \
    --port= --target-port= --type= --name= --image= --from-literal= --from-file= --from-env-file= \
    --to-revision= --revision= --for= --containers --raw= --record? --local --list --validate? \
    --prune --labels= -L= --label-columns= --show-events --patch= --patch-file= --save-config \
    --verbs= --namespaced? --api-group= --recursive? --minify --flatten --address= --restart= \
    --env= --expose --rm -i --stdin -t --tty -q --quiet --attach? --command --ignore-errors --min= \
    --max= --cpu-percent= --class= --rule= --schedule= --from= --client --short --sort= \
    --ignore-daemonsets --delete-emptydir-data --subresource= --docker-server= --docker-username=";

/// Options that kubectl takes in front of a subcommand.
const KUBECTL_GLOBAL: &str = "--as= --as-group= --cluster= --context= --kubeconfig= -n= --namespace= \
    --request-timeout= -s= --server= --token= --user= -v= --v= -h --help";

const KUBE: ToolEntry = ToolEntry { code: "--kubeconfig -f --filename -k --kustomize", ..PLAIN };

const TABLE: &[ToolEntry] = &[
    // Docker 28.2.2, docker --help. Unchecked: podman 4, nerdctl 1 and buildah.
    ToolEntry {
        names: "docker podman nerdctl buildah",
        options: "-v --version -D --debug -l== --log-level== -c== --context== --help -n== \
            --namespace==",
        operands: OperandRole::Subcommand(CONTAINER_COMMANDS),
        ..PLAIN
    },
    ToolEntry { names: "docker-compose podman-compose", ..COMPOSE },
    ToolEntry {
        names: "kubectl oc",
        options: KUBECTL_GLOBAL,
        shared: KUBECTL,
        operands: OperandRole::Subcommand(&[
            ToolEntry {
                names: "get describe logs top explain api-resources api-versions version cluster-info \
                    auth apply delete create scale rollout label annotate patch expose wait \
                    port-forward diff set replace autoscale cordon uncordon drain taint events \
                    certificate kustomize whoami project projects status new-project login logout \
                    adm start-build new-app",
                ..KUBE
            },
            ToolEntry { names: "exec", operands: OperandRole::Judged(run_in_pod), ..KUBE },
            ToolEntry { names: "rsh", operands: OperandRole::JudgedFirst(run_in_pod), ..KUBE },
            ToolEntry { names: "run", operands: OperandRole::Judged(run_in_pod), ..KUBE },
            ToolEntry { names: "cp", operands: OperandRole::Judged(copy), ..KUBE },
            ToolEntry {
                names: "config",
                operands: OperandRole::Subcommand(&[ToolEntry {
                    names: "view get-contexts current-context use-context use get-clusters get-users",
                    ..KUBE
                }]),
                ..KUBE
            },
        ]),
        ..PLAIN
    },
    // Unchecked. Helm 3. `--post-renderer` and plugins start programs.
    ToolEntry {
        names: "helm",
        options: "-n= --namespace= --kube-context= --kubeconfig= --debug -h --help",
        shared: "-n= --namespace= --kube-context= --kubeconfig= --debug -h --help -f= --values= --set= \
            --set-string= --set-file= --set-json= --version= --wait --timeout= --atomic --install -i \
            --create-namespace --dry-run? --force --reuse-values --reset-values -o= --output= -A \
            --all-namespaces -a --all -q --short --repo= --devel --skip-crds --include-crds \
            --show-only= -s= --strict --with-subcharts --untar --untardir= -d= --destination= --keep-history \
            --no-hooks --max= --revision= --cleanup-on-fail --description= --history-max= --username= \
            --password= --force-update --logs --dependency-update -u --api-versions= --generate-name -g \
            --pass-credentials --skip-tests --validate --template= --client",
        operands: OperandRole::Subcommand(&[ToolEntry {
            names: "list ls status template lint install upgrade uninstall delete rollback history get \
                repo search show dependency dep pull push test version env package create verify \
                registry",
            code: "--kubeconfig",
            directories: "-d --destination --untardir",
            ..OPAQUE
        }]),
        ..OPAQUE
    },
    ToolEntry {
        names: "minikube kind k3d k3s microk8s colima crc",
        shared: "-p= --profile= --name= -v= -o= --output= --config= --image= --wait= --driver= --cpus= \
            --memory= --nodes= --kubernetes-version= -h --help --all -q",
        options: "--version",
        operands: OperandRole::Subcommand(&[ToolEntry {
            names: "status start stop delete create get ip logs version list load export profile \
                pause unpause update-context cluster image addons",
            code: "--config",
            ..OPAQUE
        }]),
        ..OPAQUE
    },
    ToolEntry {
        names: "lxc incus",
        options: "--version -h --help",
        operands: OperandRole::Subcommand(&[
            ToolEntry { names: "list ls info start stop restart", ..ANY },
            ToolEntry {
                names: "exec",
                options: "-n -t -T",
                operands: OperandRole::Command(1),
                ..PLAIN
            },
        ]),
        ..PLAIN
    },
    ToolEntry {
        names: "crictl ctr runc crun lxc-attach lxc-start systemd-nspawn machinectl \
            distrobox toolbox virsh virt-install qemu-system-x86_64 qemu-x86_64 qemu-img \
            schroot debootstrap apptainer singularity skaffold tilt telepresence k9s stern devcontainer \
            docker-machine dagger act fig",
        options: "--version --help -h",
        operands: OperandRole::Nothing,
        ..PLAIN
    },
];

/// Judges a container tool.
pub(super) fn consequences(program: &str, args: &[Word]) -> Judgement {
    judge_by(TABLE, program, args)
}

/// `docker run IMAGE [COMMAND…]`.
fn run(found: &Arguments) -> Result<Vec<Consequence>, Doubt> {
    let mut effects = volumes(found)?;
    let mut command = behind(&found.operands, 1)?.to_vec();
    if let Some(entry) = found.values(&["--entrypoint"]).last() {
        command.insert(0, entry.clone());
    }
    effects.extend(command_inside(found, command)?);
    Ok(effects)
}

/// `docker exec CONTAINER COMMAND…`.
fn run_inside(found: &Arguments) -> Result<Vec<Consequence>, Doubt> {
    command_inside(found, behind(&found.operands, 1)?.to_vec())
}

/// The command and the variables that it gets. Without a command the image's own runs.
fn command_inside(found: &Arguments, command: Vec<Word>) -> Result<Vec<Consequence>, Doubt> {
    if command.is_empty() {
        return Ok(Vec::new());
    }
    if found.has(&["--env-file"]) {
        return Err("the option --env-file".to_owned());
    }
    let names = found.values(&["-e", "--env"]).map(|word| match word.text.split_once('=') {
        Some((name, _)) => Ok(Consequence::Sets { name: name.to_owned(), value: None }),
        // `-e NAME` hands on a variable that is already set.
        None if word.value().is_some() => {
            Ok(Consequence::Sets { name: word.text.clone(), value: None })
        }
        None => Err(format!("the word {word}")),
    });
    let mut effects = names.collect::<Result<Vec<_>, _>>()?;
    effects.extend(command_of(&command));
    Ok(effects)
}

/// `kubectl exec POD -- COMMAND`; with `-f` the pod is not an operand.
fn run_in_pod(found: &Arguments) -> Result<Vec<Consequence>, Doubt> {
    if found.has(&["-f", "--filename"]) {
        return Err("the option -f".to_owned());
    }
    Ok(command_of(behind(&found.operands, 1)?).into_iter().collect())
}

/// A named volume, or a directory below the working directory that the container may change.
fn volumes(found: &Arguments) -> Result<Vec<Consequence>, Doubt> {
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
fn copy(found: &Arguments) -> Result<Vec<Consequence>, Doubt> {
    let target = found.operands.last().filter(|word| !word.text.contains(':'));
    Ok(target.cloned().map(download_into).into_iter().flatten().collect())
}

#[cfg(test)]
mod tests {
    use super::super::table_checks::{check, harmless};

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
