//! Decisions on whole lines: deny list, command; and what the wide reader finds, construct
//! by construct.

use proptest::prelude::*;

use super::extract::extract;
use super::rules::{
    CoreTools, PolicyRule, RuleReference, parse_core_tools, parse_exclude_tools, parse_patterns,
};
use super::{
    OnUncertain, Policy, PolicyDecision, PolicyRefusal, PolicyRequest, RequestedCommand,
    RuleOutcome, decide, explain,
};
use crate::command::{CommandLookup, Extraction, ShellSyntax};

fn policy(allow: &str, deny: &str) -> Policy {
    let list = |text: &str| -> Vec<String> {
        text.split(',').filter(|it| !it.is_empty()).map(str::to_owned).collect()
    };
    let allow = list(allow);
    let deny = list(deny);
    Policy {
        allow: (!allow.is_empty())
            .then(|| parse_patterns("policy.allow", allow.iter().map(String::as_str)).unwrap()),
        deny: parse_patterns("policy.deny", deny.iter().map(String::as_str)).unwrap(),
        ..Policy::default()
    }
}

const fn request(command: RequestedCommand<'_>) -> PolicyRequest<'_> {
    PolicyRequest { command, environment: &[], tenant: "local", lane: "default", shell: None }
}

fn decide_text(policy: &Policy, text: &str) -> PolicyDecision {
    decide(policy, &request(RequestedCommand::Shell(text)))
}

const FINE: &[(&str, &str)] = &[
    ("rm", "git commit -m \"$(cat <<'EOF'\nfeat: x; rm -rf\n\nbody `x` $(y)\nEOF\n)\""),
    ("rm", "for i in $(seq 1 10); do echo $i; done"),
    ("rm", "i=0; while [ $i -lt 10 ]; do echo $i; i=$((i+1)); done"),
    ("rm", "i=0; while (( i < 10 )); do ((i++)); done"),
    ("rm", "cargo build 2>&1 | tail -20"),
    ("rm", "find . -name '*.rs' | xargs grep -n foo"),
    ("rm", "find . -type f -name \"*.rs\" -exec wc -l {} +"),
    ("rm", "find src -name '*.rs' -print0 | xargs -0 wc -l | sort -n | tail -5"),
    ("rm", "awk -F: '{print $1}' /etc/passwd | sort | uniq -c"),
    ("rm", "awk 'NR==1, /end/ {print NR\": \"$0}' f"),
    ("rm", "awk '/a|b/ {n++} END {print n/2}' f"),
    ("rm", "sed -n '1,20p' file"),
    ("rm", "sed ':a;N;$!ba;s/\\n/ /g' f"),
    ("rm", "awk '{ print (a + b) / 2 }' f"),
    ("rm", "tar -cf x --checkpoint=1 --checkpoint-action=dot ."),
    ("rm", "sed -i 's/foo/bar/g' file.txt"),
    ("rm", "sed -E 's/([a-z]+)-([0-9]+)/\\2-\\1/' f"),
    ("rm", "sed -e '/^#/d' -e 's|/usr|/opt|g' f"),
    ("rm", "sed '$d' f"),
    ("rm", "sed 's/[^/]*$//' f"),
    ("rm", "python3 - <<'EOF'\nimport os\nos.system('x')\nEOF"),
    ("rm", "cat > foo.py <<EOF\nprint('hi')\nEOF"),
    ("rm", "if [ -f foo ]; then echo yes; else echo no; fi"),
    ("rm", "[[ -f foo && -d bar ]] && echo ok"),
    ("rm", "[[ $x =~ ^[0-9]+$ ]] && echo num"),
    ("rm", "[[ \"$a\" == foo* ]] || exit 1"),
    ("rm", "case \"$1\" in start|stop) echo ok;; *) echo no;; esac"),
    ("rm", "export FOO=bar; make"),
    ("rm", "cd /tmp && ls -la"),
    ("rm", "(cd /tmp; make -j4) > log 2>&1"),
    ("rm", "npm test -- --watch=false"),
    ("rm", "docker compose up -d && docker compose logs -f"),
    ("rm", "git log --oneline | head -5"),
    ("rm", "git log --format='%h %s' -n 3"),
    ("rm", "git diff HEAD~1 -- src/"),
    ("rm", "git -C sub status"),
    ("rm", "git rebase -i HEAD~2"),
    ("rm", "git push origin main"),
    ("rm", "git fetch --all --prune"),
    ("rm", "git clone https://github.com/a/b.git"),
    ("rm", "git add -A && git commit -m 'x' && git push"),
    ("rm", "git stash pop"),
    ("rm", "tar czf out.tgz dir"),
    ("rm", "tar -xzf out.tgz -C /tmp"),
    ("rm", "rsync -av src/ dst/"),
    ("rm", "curl -sSL https://x | jq '.a'"),
    ("rm", "sleep 5 & wait $!"),
    ("rm", "trap 'echo bye' EXIT; ls"),
    ("rm", "f() { echo \"$1\"; }; f a"),
    ("rm", "set -euo pipefail; ls"),
    ("rm", "echo \"${x:-default}\" \"${#x}\" \"${x%.txt}\" \"${x//a/b}\""),
    ("rm", "diff <(ls a) <(ls b)"),
    ("rm", "ls *.txt"),
    ("rm", "echo {1..10}"),
    ("rm", "mkdir -p a/{b,c}"),
    ("rm", "printf '%s\\n' a b"),
    ("rm", "read -r x < f; echo $x"),
    ("rm", "while IFS= read -r line; do echo \"$line\"; done < f"),
    ("rm", "arr=(a b c); echo \"${arr[@]}\" \"${arr[0]}\" ${#arr[@]}"),
    ("rm", "declare -A m; m[a]=1; echo ${m[a]}"),
    ("rm", "time make"),
    ("rm", "timeout 10s cargo test"),
    ("rm", "env FOO=1 cargo test"),
    ("rm", "nohup ./server > log 2>&1 &"),
    ("rm", "sudo apt-get install -y foo"),
    ("rm", "xargs -I{} cp {} dst < list"),
    ("rm", "watch -n 1 'ls -l'"),
    ("rm", "ssh host ls"),
    ("rm", "ssh -p 22 host 'ls -la; uptime'"),
    ("rm", "bash script.sh arg"),
    ("rm", "sh ./x.sh"),
    ("rm", "./gradlew build"),
    ("rm", "test -n \"$x\" && echo y"),
    ("rm", "[ \"$x\" = y ] && echo z"),
    ("rm", "[ $# -eq 0 ] && exit"),
    ("rm", "[ -z \"${x}\" ] || echo z"),
    ("rm", "n=$(wc -l < f); echo $n"),
    ("rm", "echo $(( $(date +%s) - 5 ))"),
    ("rm", "command -v rm"),
    ("rm", "type rm"),
    ("rm", "alias"),
    ("rm", "vim file"),
    ("rm", "echo a > /tmp/x"),
    ("rm -rf", "rm foo.txt"),
    ("rm -rf", "rm -r foo"),
    ("rm -rf", "rm -f *.o"),
    ("rm -rf", "f=a.txt; rm \"$f\""),
    ("rm -rf", "for f in *.tmp; do rm \"$f\"; done"),
    ("git push --force", "git push origin main"),
    ("docker rm", "docker run --rm foo"),
    ("dd,format", "git format-patch"),
    ("dd,format", "git add x"),
    ("rm", "git rm x"),
    ("rm", "docker rm x"),
    ("rm", "echo rm rm rm"),
    ("rm", "ls rm"),
    ("rm", "npm rm x"),
    ("rm", "cat rm | grep rm"),
    ("rm", "man rm"),
    ("rm", "rmdir x"),
    ("rm", "./rmx"),
    ("rm", "echo 'a; rm b'"),
    ("rm", "echo \"a && rm b\""),
    ("rm", "echo a\\ \\&\\&\\ rm"),
    ("rm", "grep 'x' <<< 'rm y'"),
    ("rm", "cat <<EOF\nrm x; rm y\nEOF"),
    ("rm", "git commit -F - <<'EOF'\nrm x\nEOF"),
    ("rm", "python3 -c \"import os; print('rm')\""),
    ("rm", "ls # rm x"),
    ("rm", "case rm in rm) echo y;; esac"),
    ("rm", "for rm in a b; do echo $rm; done"),
    ("rm", "rm=1; echo $rm"),
    ("rm", "[[ rm == r* ]] && echo y"),
    ("rm", "test rm = rm && echo y"),
    ("rm", "PATH=$PATH:/x ls"),
    ("rm", "cmake --build . -- -j8 && ctest"),
    ("rm", "jq -r '.[] | select(.a == \"b\") | .c' f.json"),
    ("rm", "curl -X POST -d '{\"a\": 1}' http://x"),
    ("rm", "node -e 'console.log(1)'"),
    ("rm", "ps aux | grep foo | grep -v grep | awk '{print $2}'"),
    ("rm", "kill $(lsof -t -i:3000)"),
    ("rm", "kill %1"),
    ("rm", "export PATH=\"$HOME/bin:$PATH\" && foo"),
    ("rm", "cd \"$(git rev-parse --show-toplevel)\" && ls"),
    ("rm", "for i in {1..5}; do echo $i; done"),
    ("rm", "for f in $(ls); do cat \"$f\"; done"),
    ("rm", "while true; do date; sleep 1; done"),
    ("rm", "until curl -s localhost; do sleep 1; done"),
    ("rm", "if ! grep -q x f; then echo no; fi"),
    ("rm", "command -v node >/dev/null 2>&1 || echo missing"),
    ("rm", "ls -la && pwd || echo fail"),
    ("rm", "make 2>&1 | tee build.log; exit ${PIPESTATUS[0]}"),
    ("rm", "(sleep 1; echo done) & wait"),
    ("rm", "x=$(cat f) && echo \"${x^^}\""),
    ("rm", "echo \"$((RANDOM % 10))\""),
    ("rm", "arr=(); arr+=(x); echo ${#arr[@]}"),
    ("rm", "IFS=, read -ra parts <<< \"a,b\"; echo \"${parts[0]}\""),
    ("rm", "printf \"%s\\n\" \"${arr[@]}\""),
    ("rm", "diff -u <(sort a) <(sort b) || true"),
    ("rm", "tail -f log | grep --line-buffered ERROR"),
    ("rm", "tar -czf - dir | ssh host 'cat > x.tgz'"),
    ("rm", "find . -path ./node_modules -prune -o -name '*.js' -print"),
    ("rm", "find . \\( -name a -o -name b \\) -print0 | xargs -0 ls -l"),
    ("rm", "sed -n '/start/,/end/p' f"),
    ("rm", "sed -i.bak -e 's/a/b/' -e '/c/d' f"),
    ("rm", "sed 's/\\//-/g' f"),
    ("rm", "sed -n '$=' f"),
    ("rm", "sed '/^$/d;s/^ *//' f"),
    ("rm", "sed 'N;s/\\n/ /;P;D' f"),
    ("rm", "sed '1i\\\nfoo' f"),
    ("rm", "awk -v x=1 '$1==x{print $2}' f"),
    ("rm", "awk 'BEGIN{FS=\",\"} {s+=$3} END{printf \"%.2f\\n\", s/NR}' f"),
    ("rm", "awk '!seen[$0]++' f"),
    ("rm", "awk '{ if ($1 || $2) print }' f"),
    ("rm", "git log --pretty=format:'%h|%an' | awk -F'|' '{print $2}'"),
    ("rm", "git branch --list | sed 's/^..//'"),
    ("rm", "git checkout -b feature/x && git push -u origin feature/x"),
    ("rm", "git show HEAD:src/x.rs"),
    ("rm", "git config user.name x"),
    ("rm", "git config --get remote.origin.url"),
    ("rm", "git worktree add ../x main"),
    ("rm", "git tag -a v1 -m 'v1'"),
    ("rm", "git -c user.name=x commit -m y"),
    ("rm", "git remote -v"),
    ("rm", "git remote add origin git@github.com:a/b.git"),
    ("rm", "gh pr create --title x --body \"$(cat <<'EOF'\n## Summary\n- a `b` $(c)\nEOF\n)\""),
    ("rm", "ssh -i key -o StrictHostKeyChecking=no u@h uptime"),
    ("rm", "scp a b:c"),
    ("rm", "strace -f -e trace=open ls"),
    ("rm", "watch -n 2 nvidia-smi"),
    ("rm", "nice -n 10 make -j4"),
    ("rm", "timeout 5 bash -c 'echo hi; sleep 1'"),
    ("rm", "bash -lc 'cd x && make'"),
    ("rm", "sh -c 'echo \"$1\"' _ x"),
    ("rm", "xargs -n 1 echo < f"),
    ("rm", "trap 'kill $pid' EXIT; sleep 5 & pid=$!; wait $pid"),
    ("rm", "vim -c q x"),
    ("rm", "less f"),
    ("rm", "psql -c 'select 1'"),
    ("rm", "set -x; ls; set +x"),
    ("rm", "shopt -s globstar; ls **/*.rs"),
    ("rm", "echo a >&2; exit 1"),
    ("rm", "exec > log 2>&1; ls"),
    ("rm", "read -p 'x? ' y; echo $y"),
    ("rm", "[ -n \"$x\" ] && [ \"$y\" != z ]"),
    ("rm", "[[ ${#a} -gt 3 ]] && echo y"),
    ("rm", "n=5; [[ $n -gt 3 ]] && echo y"),
    ("rm", "[[ $# -lt 1 ]] && exit"),
    ("rm", "echo ${PWD##*/} ${x:0:3}"),
    ("rm", "echo \"${BASH_SOURCE[0]}\""),
    ("rm", "DIR=\"$(cd \"$(dirname \"${BASH_SOURCE[0]}\")\" && pwd)\"; ls $DIR"),
    ("rm", "uv run pytest -q"),
    ("rm", "cargo run --release -- --flag"),
    ("rm", "env | sort"),
    ("rm", "nohup python3 -m http.server 8000 >/dev/null 2>&1 & echo $!"),
    ("rm -rf", "rm -i x"),
    ("rm -rf", "rm \"$HOME/x\""),
    ("rm -rf", "rm ~/x"),
    // Values of variables, and words with braces, that stay readable.
    ("rm", "declare -a a=(x y); declare -A m=([k]=v); declare -a 'b=(x y)'"),
    ("rm", "f() { local x=\"$1\"; local -r y=$2; echo \"$x\"; }; f a"),
    ("rm", "export MSG='(see below)'; readonly V=\"$(date)\""),
    ("rm", "SECONDS=0; OPTIND=1; RANDOM=42; while getopts ab o; do echo $o; done"),
    ("rm", "HOME=/tmp/h ls ~/x; cd ~- && ls ~+/x"),
    ("rm", "echo $'it\\'s' \"${x:-'none'}\""),
    ("rm", "n=3; find . -maxdepth $n -name *.rs"),
    ("rm", "find . -name \"$x\" -type f"),
    ("rm", "echo {} {a} a,b {1..3} x{a,b}"),
    ("rm", "LC_ALL=C.UTF-8 sort f; export LANG=en_US.UTF-8"),
    ("rm", "f=/tmp/x; cat < \"$f\" > \"$f.out\" 2> /dev/null"),
    ("rm", "out=/dev/null; make > $out"),
    ("rm", "docker run --rm -it -v $(pwd):/app -w /app -u $(id -u):$(id -g) node:20 npm test"),
    ("rm", "docker run -d --name db -e POSTGRES_PASSWORD=x -p 5432:5432 postgres:16"),
    ("rm", "docker run --rm -v \"$PWD\":/src img --flag"),
    ("rm", "IMAGE=node:20; docker run -e TOKEN=$TOKEN -v ${HOME}/.npm:/n $IMAGE npm test"),
    ("rm", "docker exec web python manage.py migrate"),
    ("rm", "docker ps -a --format '{{.Names}}' && docker logs -f web"),
    ("rm", "docker build -t x . && docker push x"),
    ("rm", "docker compose exec -T web pytest -q; docker compose run --rm app ls"),
    ("rm", "podman run --replace --rm alpine cat /etc/os-release"),
    ("rm", "kubectl exec -it web-0 -n prod -c app -- ls -la /srv"),
    ("rm", "kubectl get pods -o wide; kubectl logs -f web-0; kubectl apply -f x.yaml"),
    ("rm", "sqlite3 x.db <<< 'select 1'"),
    ("rm", "sqlite3 x.db <<'E'\nselect 1;\nE"),
];

const REFUSED: &[(&str, &str)] = &[
    ("rm", "source venv/bin/activate"),
    ("rm -rf", "rm -r -f foo"),
    ("rm -rf", "rm foo -rf"),
    ("rm -rf", "rm --recursive --force foo"),
    ("rm -rf", "rm --rec --fo foo"),
    ("rm -rf", "x=-rf; rm $x foo"),
    ("rm -rf", "rm -{r,f} foo"),
    ("rm -rf", "rm -r$x foo"),
    ("rm -rf", "sudo rm -rf foo"),
    ("git push", "git -c x=y push"),
    ("git push", "git -C a -C b push origin"),
    ("git push", "git $x"),
    ("git push", "git p\"ush\""),
    ("git push", "/usr/bin/git push"),
    ("git push --force", "git push origin main --force"),
    ("git push --force", "git push -f origin main"),
    ("docker rm", "docker --context x rm foo"),
    ("kubectl delete", "kubectl -n foo delete pod x"),
    ("dd,format", "dd if=a of=b"),
    ("rm", "busybox rm x"),
    ("rm", "exec -a x rm y"),
    ("rm", "command -p rm x"),
    ("rm", "builtin command rm x"),
    ("rm", "env -i rm x"),
    ("rm", "env - rm x"),
    ("rm", "env -u A B=c rm x"),
    ("rm", "env --unset=A rm x"),
    ("rm", "nice rm x"),
    ("rm", "nice -19 rm x"),
    ("rm", "setsid -w rm x"),
    ("rm", "stdbuf -oL rm x"),
    ("rm", "stdbuf --output=L rm x"),
    ("rm", "sudo -u root rm x"),
    ("rm", "sudo -E FOO=1 rm x"),
    ("rm", "sudo -- rm x"),
    ("rm", "su -c 'rm x'"),
    ("rm", "su root -c 'rm x'"),
    ("rm", "su - root -c 'rm x'"),
    ("rm", "runuser -u nobody -- rm x"),
    ("rm", "unshare -r rm x"),
    ("rm", "nsenter -t 1 -m rm x"),
    ("rm", "strace -f -o /tmp/x rm y"),
    ("rm", "watch rm x"),
    ("rm", "watch -n1 'rm x'"),
    ("rm", "flock /tmp/l rm x"),
    ("rm", "flock -n /tmp/l rm x"),
    ("rm", "time -p rm x"),
    ("rm", "\\time rm x"),
    ("rm", "/usr/bin/time -f %e rm x"),
    ("rm", "parallel 'rm {}' ::: a"),
    ("rm", "ssh host 'rm x'"),
    ("echo", "ls | xargs -n1"),
    ("rm", "xargs -a f rm"),
    ("rm", "xargs -r -d '\\n' rm < f"),
    ("rm", "find . | xargs -P4 -n1 rm"),
    ("rm", "find . -exec env rm {} +"),
    ("rm", "find . -exec flock + rm {} \\;"),
    ("rm", "sed ':a;e rm x' f"),
    ("rm", "(T=1); timeout $T 5 rm x"),
    ("rm", "sed -f - f <<< '1e rm x'"),
    ("rm", "awk 'BEGIN { \"r\" \"m x\" | getline }'"),
    ("rm", "awk 'BEGIN { print 1 | \"r\" \"m x\" }'"),
    ("rm", "awk '{ if (x) /\"/; system(\"rm x\") } # \"' f"),
    ("rm", "fd . -x rm"),
    ("rm", "eval 'rm x'"),
    ("rm", "eval rm x"),
    ("rm", "eval \"rm\" x"),
    ("rm", "trap 'rm x' EXIT"),
    ("rm", "bash -c \"$(echo rm x)\""),
    ("rm", "bash <<< 'rm x'"),
    ("rm", "bash < script"),
    ("rm", "cat x | bash"),
    ("rm", "bash <(echo rm x)"),
    ("rm", "bash -c 'eval \"rm x\"'"),
    ("rm", "sh -c '$0 x' rm"),
    ("rm", "sh -c '\"$@\"' _ rm x"),
    ("rm", "bash -ic 'rm x'"),
    ("rm", "bash --rcfile x -i"),
    ("rm", "bash -o posix -c 'rm x'"),
    ("rm", "bash -O extglob -c 'rm x'"),
    ("rm", "zsh -c 'rm x'"),
    ("rm", "dash -c 'rm x'"),
    ("rm", "r\\m x"),
    ("rm", "r''m x"),
    ("rm", "$'\\162m' x"),
    ("rm", "/bin/r? x"),
    ("rm", "/bin/[r]m x"),
    ("rm", "{rm,x}"),
    ("rm", "$(echo rm) x"),
    ("rm", "`echo rm` x"),
    ("rm", "${x:-rm} y"),
    ("rm", "a=(rm x); \"${a[@]}\""),
    ("rm", "set -- rm x; \"$@\""),
    ("rm", "hash -p /bin/rm ls; ls x"),
    ("rm", "enable -f ./x.so rm"),
    ("rm", "declare -n r=x; ls"),
    ("rm", "PS4='$(rm x)' bash -xc :"),
    ("rm", "BASH_ENV=x bash -c :"),
    ("rm", "PROMPT_COMMAND='rm x'"),
    ("rm", "echo ${x@P}"),
    ("rm", "let 'a[$(rm x)]=1'"),
    ("rm", "declare -i x='a[$(rm x)]'"),
    ("rm", "printf -v 'a[$(rm x)]' x"),
    ("rm", "read 'a[$(rm x)]' <<< 1"),
    ("rm", "echo $[ $(rm x) ]"),
    ("rm", "echo ${a[$(rm x)]}"),
    ("rm", "echo $(( a[$(rm x)] ))"),
    ("rm", "(( $(rm x) ))"),
    ("rm", "[[ $(rm x) ]]"),
    ("rm", "[[ a -eq 'b[$(rm x)]' ]]"),
    ("rm", "case $(rm x) in a) ;; esac"),
    ("rm", "case a in $(rm x)) ;; esac"),
    ("rm", "for x in $(rm y); do :; done"),
    ("rm", "cat <<EOF\n$(rm x)\nEOF"),
    ("rm", "cat <<EOF\n`rm x`\nEOF"),
    ("rm", "cat <<-EOF\n\t$(rm x)\n\tEOF"),
    ("rm", "echo > $(rm x)"),
    ("rm", "x=$(rm y) ls"),
    ("rm", "x[$(rm y)]=1"),
    ("rm", "x+=$(rm y)"),
    ("rm", "if rm x; then :; fi"),
    ("rm", "while rm x; do :; done"),
    ("rm", "{ rm x; }"),
    ("rm", "true | rm x"),
    ("rm", "true & rm x"),
    ("rm", "true;rm x"),
    ("rm", "function f { rm x; }; f"),
    ("rm", "f() ( rm x ); f"),
    ("rm", "coproc { rm x; }"),
    ("rm", "echo <(rm x)"),
    ("rm", "jobs -x rm y"),
    ("rm", "complete -C 'rm x' y"),
    ("rm", "> f rm x"),
    ("rm", "2>&1 rm x"),
    ("rm", "{fd}>f rm x"),
    ("rm", "x=1 rm y"),
    ("rm", "find . -name x -exec rm {} \\;"),
    ("rm", "echo a | while read f; do rm \"$f\"; done"),
    ("rm", "env -C /work -- rm x"),
    ("rm", "sudo -n -u x -- rm y"),
    ("rm", "timeout --foreground -k 5s 10s rm x"),
    ("rm", "exec 3>&1; rm x"),
    ("rm", "if true; then (rm x) fi"),
    ("rm", "a=1;b=2;rm x"),
    ("rm", "echo \"$(echo \"$(rm x)\")\""),
    ("rm", "echo \"${x:-$(rm y)}\""),
    ("rm", "echo ${x:-\"$(rm y)\"}"),
    ("rm", "echo ${x:-${y:-`rm z`}}"),
    ("rm", "ls | tee >(rm x)"),
    ("rm", "[ \"$(rm x)\" ]"),
    ("rm", "echo $((1 + `rm x`))"),
    ("rm", "printf '%s' $(rm x)"),
    ("rm", "let x=$(rm y)"),
    ("rm", "export X=$(rm y)"),
    ("rm", "local x=`rm y`"),
    ("rm", "readonly x=$(rm y)"),
    ("rm", "exec $(rm x)"),
    ("rm", "cat <<EOF | sh\nrm x\nEOF"),
    ("rm", "sh -c \"rm x\" &"),
    ("rm", "bash -c 'function f { rm x; }; f'"),
    ("rm", "bash -c $'rm\\x20x'"),
    ("rm", "bash -xec 'rm x'"),
    ("rm", "bash -e -c 'rm x'"),
    ("rm", "/bin/bash -c 'rm x'"),
    ("rm", "busybox sh -c 'rm x'"),
    ("rm", "env bash -c 'rm x'"),
    ("rm", "sudo bash -c 'rm x'"),
    ("rm", "sudo sh <<EOF\nrm x\nEOF"),
    ("rm", "nohup bash -c 'rm x' &"),
    ("rm", "watch -x rm y"),
    ("rm", "setarch x86_64 -R rm x"),
    ("rm", "systemd-run --user rm x"),
    ("rm", "script -c 'rm x'"),
    ("rm", "script -q /dev/null -c 'rm x'"),
    ("rm", "ip netns exec foo rm x"),
    ("rm", "sg grp -c 'rm x'"),
    ("rm", "faketime '1 day' rm x"),
    ("rm", "expect -c 'spawn rm x'"),
    ("rm", "at now <<< 'rm x'"),
    ("rm", "ld.so /bin/rm x"),
    ("rm", "parallel -j4 rm {} ::: a b"),
    ("rm", "ls | parallel rm"),
    ("rm", "ssh -t u@h -- rm x"),
    ("rm", "git -c alias.z='!rm x' z"),
    ("rm", "git rebase --exec 'rm x' HEAD~2"),
    ("rm", "git submodule foreach 'rm x'"),
    ("rm", "git bisect run rm x"),
    ("rm", "tar cf a b --checkpoint-action=exec='rm x'"),
    ("rm", "awk 'BEGIN { system(\"rm x\") }'"),
    ("rm", "awk '{ print $0 | \"rm x\" }' f"),
    ("rm", "sed '1e rm x' f"),
    ("rm", "vim -c '!rm x'"),
    ("rm", "rsync -e 'rm x' a b:c"),
    ("rm", "man -P 'rm x' ls"),
    ("rm", "command rm x"),
    ("rm", "RM=rm; $RM x"),
    ("rm", "cmd=\"rm x\"; $cmd"),
    ("rm", "cmd=rm; \"$cmd\" x"),
    ("rm", "a=(rm -rf x); ${a[0]}"),
    ("rm", "$'rm' x"),
    ("rm", "$\"rm\" x"),
    ("rm", "rm\\\n x"),
    ("rm", "r\\\nm x"),
    ("rm", "{rm,-rf,x}"),
    ("rm", "/bin/{rm,x}"),
    ("rm", "~/../bin/rm x"),
    ("rm", "../../bin/rm x"),
    ("rm", "unalias ls; rm x"),
    ("rm", "printf 'rm x' | bash -s"),
    ("rm", "echo x |xargs -n1 env rm"),
    ("pwn", "git rebase -ix pwn HEAD~2"),
    // Arrays that a declaring builtin reads from a value.
    ("touch", "declare -a 'a=($(touch x))'"),
    ("touch", "declare -A 'a=([x]=$(touch x))'"),
    ("touch", "x='($(touch x))'; declare -a a=$x"),
    ("touch", "typeset -a 'a+=(`touch x`)'"),
    ("touch", "readonly -a 'a=($(touch x))'"),
    ("touch", "f() { local -a 'a=($(touch x))'; }; f"),
    ("touch", "a=(); declare 'a=($(touch x))'"),
    ("touch", "x='($(touch x))'; a=(); declare \"a=$x\""),
    ("touch", "a[0]=1; x='($(touch x))'; declare a=\"$x\""),
    ("touch", "x='($(touch x))'; read -a a <<< 1; declare a=$x"),
    ("touch", "x='($(touch x))'; declare DIRSTACK=$x"),
    ("touch", "builtin declare -a 'a[1]=($(touch x))'"),
    ("touch", "declare -a 'a=([$(touch x)]=1)'"),
    // Variables that bash evaluates or sets.
    ("touch", "RANDOM='a[$(touch x)]'"),
    ("touch", "SRANDOM+='a[$(touch x)]'"),
    ("touch", "OPTIND='a[$(touch x)]'"),
    ("touch", "for HISTCMD in 'a[$(touch x)]'; do :; done"),
    ("touch", "export RANDOM='a[$(touch x)]'"),
    ("touch", "declare OPTIND='a[$(touch x)]'"),
    ("touch", "read OPTIND <<< 'a[$(touch x)]'"),
    ("touch", "printf -v RANDOM %s 'a[$(touch x)]'"),
    ("touch", "x='a[$(touch x)]'; SECONDS=$x"),
    ("touch", "RANDOM=x; x='a[$(touch x)]'"),
    ("touch", "_=.; : -exec; find . $_ touch x \\;"),
    ("touch", "REPLY=.; read <<< -exec; find . $REPLY touch x \\;"),
    ("touch", "FUNCNAME=.; function -exec { find . $FUNCNAME touch x \\; ; }; -exec"),
    ("touch", "OLDPWD=-exec; find . ~- touch x \\;"),
    ("touch", "PWD=-exec; find . ~+ touch x \\;"),
    ("touch", "HOME=-exec; find . ~ touch x \\;"),
    ("touch", "DIRSTACK[0]=-exec; find . ~0 touch x \\;"),
    ("touch", "LC_ALL=zh_CN.gbk; ls"),
    // Words that become several words, and braces as bash reads them.
    ("touch", "find . -name {.,-exec} touch x \\;"),
    ("touch", "find . -{e.\\\n.e}xec touch x \\;"),
    ("touch", "find . -name {x},-exec} touch x \\;"),
    ("touch", "x='. -exec touch x ;'; find . -name $x"),
    ("touch", "f() { find . -name $1; }; f '. -exec touch x ;'"),
    ("touch", "set -- . -exec touch x \\;; find . -name \"$@\""),
    // Options after `--` that is the value of another, and in clusters.
    ("touch", "tar -cf x --label -- --use-compress-program='touch x' ."),
    ("touch", "install --mode -- --strip-program='touch x' a b"),
    ("touch", "zip -qTT 'touch x' -T a.zip f"),
    ("touch", "sqlite3 :memory: <<< '.shell touch x'"),
    ("touch", "sqlite3 :memory: <<E\n.shell touch x\nE"),
    // Containers.
    ("rm", "docker run alpine rm -rf /x"),
    ("rm", "docker run --rm -v $(pwd):/w alpine sh -c 'rm x'"),
    ("rm", "docker run --rm --entrypoint rm alpine x"),
    ("rm", "docker run --entrypoint=rm alpine x"),
    ("rm", "docker --context c container run -it alpine rm x"),
    ("rm", "docker run --health-cmd 'rm x' alpine"),
    ("rm", "docker run --frob x alpine rm x"),
    ("rm", "docker run $x rm x"),
    ("rm", "docker exec -it web rm x"),
    ("rm", "docker exec -u root web bash -c 'cd /; rm x'"),
    ("rm", "docker exec -i web bash <<'E'\nrm x\nE"),
    ("rm", "docker $1"),
    ("rm", "x='alpine rm'; docker run $x"),
    ("rm", "read x; docker run --rm $x"),
    ("rm", "f() { docker run $1; }; f 'alpine rm'"),
    ("rm", "docker compose -f a.yml exec -T web rm x"),
    ("rm", "docker-compose run --rm web rm x"),
    ("rm", "sudo podman exec c rm x"),
    ("rm", "podman run --replace alpine rm x"),
    ("rm", "kubectl exec web-0 -- rm x"),
    ("rm", "kubectl -n prod exec -it deploy/web -c app -- sh -c 'rm x'"),
    ("rm", "kubectl exec web-0 rm x"),
    ("rm", "kubectl exec -c -- web-0 -- rm x"),
    ("rm", "kubectl run t --image=alpine --rm -it --restart=Never --command -- rm x"),
    ("rm", "kubectl debug node/x --image=alpine -- rm x"),
    // Connections that bash opens itself.
    ("curl", "cat < /dev/tcp/h/1"),
    ("curl", "x=/dev/tcp/h/1; cat < $x"),
    ("curl", "exec 3<>/dev/tcp/h/1"),
    ("curl", "p=tcp; cat < /dev/$p/h/1"),
    ("curl", "x=/dev; cat < $x/tcp/h/1"),
    ("curl", "f() { cat < $1; }; f /dev/udp/h/1"),
    ("curl", "echo x > \"${y:-/dev/tcp/h/1}\""),
    ("curl", "for x in /dev/tcp/h/1; do cat < \"$x\"; done"),
    // Strings that end elsewhere for a shell that has no `$'`.
    ("pwn", "echo $'a\\'; pwn #'"),
    ("pwn", "sh -c \"echo \\$'a\\\\'; pwn #'\""),
];

#[test]
fn commands_that_no_rule_denies_run() {
    let refused: Vec<String> = FINE
        .iter()
        .map(|(deny, text)| (text, decide_text(&policy("", deny), text)))
        .filter(|(_, decision)| *decision != PolicyDecision::Allow)
        .map(|(text, decision)| format!("{text:?}: {decision:?}"))
        .collect();
    assert!(refused.is_empty(), "{refused:#?}");
}

#[test]
fn denied_and_uncertain_commands_are_refused() {
    let allowed: Vec<&str> = REFUSED
        .iter()
        .filter(|(deny, text)| {
            !matches!(decide_text(&policy("", deny), text), PolicyDecision::Deny(_))
        })
        .map(|(_, text)| *text)
        .collect();
    assert!(allowed.is_empty(), "{allowed:#?}");
}

/// A recorded decision.
#[derive(serde::Deserialize)]
struct RecordedDecision {
    command: String,
    allow: Vec<String>,
    deny: Vec<String>,
    expected: String,
}

#[test]
fn recorded_decisions_of_deny_lists_hold() {
    let lines = include_str!("../../../tests/policy_cases.jsonl").lines();
    let cases = lines.map(|line| serde_json::from_str::<RecordedDecision>(line).unwrap());
    let mut count = 0;
    for case in cases.filter(|case| case.allow.is_empty()) {
        let decision = decide_text(&policy("", &case.deny.join(",")), &case.command);
        let is_refused = matches!(decision, PolicyDecision::Deny(_));
        assert_eq!(is_refused, case.expected == "deny", "{}: {decision:?}", case.command);
        count += 1;
    }
    assert!(count > 50, "{count}");
}

#[test]
fn without_any_list_everything_runs() {
    for text in ["rm -rf /", "$x", "eval \"$y\"", "((", "a\0b"] {
        assert_eq!(decide_text(&Policy::default(), text), PolicyDecision::Allow, "{text}");
    }
}

#[test]
fn a_refusal_names_the_command_the_rule_and_its_place() {
    let policy = policy("", "dd,sudo,rm*");
    let PolicyDecision::Deny(refusal) = decide_text(&policy, "ls; rm -r x") else {
        panic!("not refused")
    };
    assert_eq!(refusal.to_string(), "`rm` matches deny rule \"rm*\" (policy.deny[2])");
    assert_eq!(refusal.code(), "denied");
}

#[test]
fn uncertain_text_runs_if_configured_but_denied_commands_do_not() {
    let mut policy = policy("", "rm");
    policy.uncertain = OnUncertain::Allow;
    assert_eq!(decide_text(&policy, "$x y"), PolicyDecision::Allow);
    assert!(matches!(
        decide_text(&policy, "$x y; rm z"),
        PolicyDecision::Deny(PolicyRefusal::Denied { .. })
    ));
}

#[test]
fn deny_wins_over_allow_and_allow_over_ask() {
    let mut policy = policy("git", "git push");
    policy.ask = parse_patterns("policy.ask", ["git commit", "npm"]).unwrap();
    assert!(matches!(decide_text(&policy, "git push"), PolicyDecision::Deny(_)));
    assert_eq!(decide_text(&policy, "git commit -m x"), PolicyDecision::Allow);
    let PolicyDecision::Ask { rules, .. } = decide_text(&policy, "git log && npm install") else {
        panic!("not asked")
    };
    assert_eq!(RuleReference::join_ask_rules(&rules), "ask rule \"npm\" (policy.ask[1])");
}

#[test]
fn every_matching_ask_rule_is_named_once() {
    let ask = parse_patterns("policy.ask", ["npm", "touch"]).unwrap();
    let policy = Policy { ask, ..Policy::default() };
    let PolicyDecision::Ask { command, rules } =
        decide_text(&policy, "touch a; ls; npm i; touch b")
    else {
        panic!("not asked")
    };
    let both = "ask rule \"touch\" (policy.ask[1]) and ask rule \"npm\" (policy.ask[0])";
    assert_eq!((command.as_str(), RuleReference::join_ask_rules(&rules).as_str()), ("touch", both));
}

#[test]
fn a_rule_holds_for_its_tenants_and_lanes_only() {
    let rule = PolicyRule::parse("[tenant=other] rm", "policy.deny[0]").unwrap();
    let policy = Policy { deny: vec![rule], ..Policy::default() };
    let mut request = request(RequestedCommand::Shell("rm x"));
    assert_eq!(decide(&policy, &request), PolicyDecision::Allow);
    request.tenant = "other";
    assert!(matches!(decide(&policy, &request), PolicyDecision::Deny(_)));
}

/// A policy of `coreTools` and `excludeTools`, each with the prefixes of this list.
fn tool_policy(core: &[&str], exclude: &[&str]) -> Policy {
    let entries = |list: &[&str]| -> Vec<String> {
        list.iter().map(|prefix| format!("run_shell_command({prefix})")).collect()
    };
    let core = entries(core);
    let Ok(CoreTools::Only(allow)) = parse_core_tools(core.iter().map(String::as_str)) else {
        panic!("not a list of prefixes: {core:?}")
    };
    let exclude = entries(exclude);
    let deny = parse_exclude_tools(exclude.iter().map(String::as_str)).unwrap();
    Policy { allow: Some(allow), deny, ..Policy::default() }
}

#[test]
fn beside_an_allow_list_only_what_is_certain_is_refused() {
    let mut policy = tool_policy(&["git", "npm run"], &["git push"]);
    for text in ["git st", "touch x", "$x y", "eval \"$x\"", "git log > /etc/x", "(("] {
        assert_eq!(decide_text(&policy, text), PolicyDecision::Allow, "{text}");
    }
    for text in ["git push origin main", "touch x; git -C sub push", "eval 'git push'"] {
        assert!(matches!(decide_text(&policy, text), PolicyDecision::Deny(_)), "{text}");
    }
    policy.ask = parse_patterns("policy.ask", ["npm"]).unwrap();
    assert_eq!(decide_text(&policy, "touch x; npm run x"), PolicyDecision::Allow);
    assert!(matches!(decide_text(&policy, "touch x; npm i"), PolicyDecision::Ask { .. }));
}

#[test]
fn a_program_that_is_started_without_a_shell_is_checked_too() {
    let args = |words: &[&str]| words.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>();
    let policy = policy("", "rm");
    for (program, words, refused) in [
        ("rm", vec!["x"], true),
        ("env", vec!["rm", "x"], true),
        ("bash", vec!["-c", "rm x"], true),
        ("echo", vec!["$(rm x)", ";", "rm"], false),
    ] {
        let args = args(&words);
        let decision = decide(&policy, &request(RequestedCommand::Direct { program, args: &args }));
        assert_eq!(matches!(decision, PolicyDecision::Deny(_)), refused, "{program} {words:?}");
    }
}

#[test]
fn variables_that_the_caller_adds_are_checked() {
    let code = [("x".to_owned(), "a[$(rm y)]".to_owned())];
    let mut request = request(RequestedCommand::Shell("echo $((x))"));
    request.environment = &code;
    let decision = decide(&policy("", "rm"), &request);
    assert!(matches!(decision, PolicyDecision::Deny(PolicyRefusal::Uncertain { .. })));
}

#[test]
fn an_explanation_shows_each_command_with_its_path_and_rule() {
    let explanation =
        explain(&policy("git,env", "rm"), &request(RequestedCommand::Shell("env git log $(rm x)")));
    let commands: Vec<(&str, Vec<String>)> = explanation
        .commands
        .iter()
        .map(|command| (command.program.as_str(), command.path.clone()))
        .collect();
    let path = |names: &[&str]| names.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>();
    assert_eq!(commands, [("rm", path(&["$( )"])), ("env", path(&[])), ("git", path(&["env"]))]);
    assert!(matches!(explanation.commands[0].outcome, RuleOutcome::Denied(_)));
    assert!(matches!(explanation.commands[2].outcome, RuleOutcome::Allowed(_)));
}

#[test]
fn hostile_text_is_refused_at_once() {
    let policy = policy("", "rm");
    let nested = |open: &str, close: &str, count: usize| {
        format!("ls {}{}", open.repeat(count), close.repeat(count))
    };
    let texts = [
        "a".repeat(1 << 20),
        "$(".repeat(1 << 19),
        nested("$(", ")", 200),
        nested("$(", ")", 3000),
        nested("\"${x:-", "}\"", 3000),
        "sudo ".repeat(13_000),
        "ls; ".repeat(16_000),
        "a=1 ".repeat(16_000),
        format!("eval {}", "eval ".repeat(12_000)),
    ];
    for text in &texts {
        assert!(matches!(decide_text(&policy, text), PolicyDecision::Deny(_)), "{:.40}", text);
    }
}

fn bash(text: &str) -> Extraction {
    extract(text, ShellSyntax::Bash, &[])
}

fn programs(found: &Extraction) -> Vec<String> {
    found.commands.iter().map(|command| command.program.to_string()).collect()
}

/// Checks that the reader finds exactly these programs, in this order, without a doubt.
#[track_caller]
fn finds(text: &str, expected: &[&str]) {
    let found = bash(text);
    assert_eq!(found.uncertain, None, "{text}");
    assert_eq!(programs(&found), expected, "{text}");
}

#[track_caller]
fn doubts(text: &str) {
    let found = bash(text);
    assert!(found.uncertain.is_some(), "{text}: {:?}", programs(&found));
}

#[test]
fn commands_in_lists_and_pipelines_are_found() {
    finds("a; b && c || d & e | f |& g\nh", &["a", "b", "c", "d", "e", "f", "g", "h"]);
    finds("! a; time b; time -p c; ! time d", &["a", "b", "c", "d"]);
    finds("a &&\n\n b |\n c", &["a", "b", "c"]);
    finds("a # b\nc;# d\ne", &["a", "c", "e"]);
    finds("", &[]);
    for text in ["a &&", "a ; ; b", "&& a", "a | | b", "a &&& b", ";", "a ;; b"] {
        doubts(text);
    }
}

#[test]
fn commands_in_compound_commands_are_found() {
    finds("(a; b)", &["a", "b"]);
    finds("{ a; b; }", &["a", "b"]);
    finds("if a; then b; elif c; then d; else e; fi", &["a", "b", "c", "d", "e"]);
    finds("while a; do b; done; until c; do d; done", &["a", "b", "c", "d"]);
    finds("for x in 1 2; do a; done; for x; do b; done; for x do c; done", &["a", "b", "c"]);
    finds("for ((i=0; i<3; i++)); do a; done", &["a"]);
    finds("for x in y; { a; }", &["a"]);
    finds("case x in a|b) c;; (d) e;& *) f;;& esac", &["c", "e", "f"]);
    finds("case x in esac; a", &["a"]);
    finds("select x in a; do b; done", &["b"]);
    finds("if (a) then b; fi", &["a", "b"]);
    finds("[[ a == b* && -n $x || ( c < d ) ]]; a", &["a"]);
    finds("(( 1 + 2 )); a", &["a"]);
    finds("coproc a; coproc N { b; }", &["a", "b"]);
    for text in ["if a; then fi", "(a", "{ a }", "for x in a", "case x in a", "((a)", "[[ a"] {
        doubts(text);
    }
}

#[test]
fn a_function_is_known_where_it_is_certainly_defined() {
    let lookup = |text: &str| bash(text).commands.last().map(|command| command.lookup);
    assert_eq!(lookup("f() { a; }; f"), Some(CommandLookup::Function));
    assert_eq!(lookup("function f { a; }\nf"), Some(CommandLookup::Function));
    for text in [
        "(f() { a; }); f",
        "f() { a; } & f",
        "true && f() { a; }; f",
        "if b; then f() { a; }; fi; f",
        "f() { a; } | b; f",
        "f() { a; }; env f",
        "f() { a; }; bash -c f",
    ] {
        assert_ne!(lookup(text), Some(CommandLookup::Function), "{text}");
    }
    let removed = bash("f() { a; }; unset -f f; f");
    assert!(removed.commands.iter().all(|command| command.lookup != CommandLookup::Function));
}

#[test]
fn words_and_quotes_are_parsed() {
    finds("'a b' \"c d\" e\\ f $'g\\x68' $\"i\"", &["a b"]);
    finds("r'm' x; \"r\"m; \\rm; r\\\nm", &["rm", "rm", "rm", "rm"]);
    finds("echo '$(a)' \"\\$(a)\" \\`a\\`", &["echo"]);
    finds("$'\\x72\\155'", &["rm"]);
    finds("$'a\\'b' c; d", &["a'b", "d"]);
    finds("echo \"${x:-'a b'}\" \"${x#'a'}\" \"${x:-'$y'}\"; d", &["echo", "d"]);
    finds("cat <<E\n${x:-'a'} ${x:-\"b\"}\nE\nd", &["cat", "d"]);
    for text in ["'a", "\"a", "$'a", "a\\", "echo \"${x:-it's}\"; d", "echo \"${x:-'}'}\""] {
        doubts(text);
    }
}

#[test]
fn commands_in_substitutions_are_found() {
    for text in [
        "x $(a)",
        "x `a`",
        "x \"$(a)\"",
        "x \"`a`\"",
        "x <(a)",
        "x > >(a)",
        "x ${y:-$(a)}",
        "x \"${y#$(a)}\"",
        "x ${y/$(a)/b}",
        "x <<E\n$(a)\nE",
        "x <<E\n`a`\nE",
        "x <<< $(a)",
    ] {
        let found = bash(text);
        assert_eq!(found.uncertain, None, "{text}");
        let mut names = programs(&found);
        names.sort();
        assert_eq!(names, ["a", "x"], "{text}");
    }
    finds("y=$(a)", &["a"]);
    finds("y=(1 $(a)); z[1]=`b`", &["a", "b"]);
    finds("case $(a) in $(b)) c;; esac", &["a", "b", "c"]);
    finds("x $(a $(b `c`))", &["c", "b", "a", "x"]);
}

#[test]
fn here_documents_are_data_unless_they_expand() {
    finds("cat <<'E'\n$(a) `b`\nE\nc", &["cat", "c"]);
    finds("cat <<\\E\n$(a)\nE", &["cat"]);
    finds("cat <<E\n\\$(a) \\`b\\`\nE", &["cat"]);
    finds("cat <<-E\n\tx\n\tE\nb", &["cat", "b"]);
    finds("cat <<A <<'B'\n$(a)\nA\n$(b)\nB\nc", &["cat", "a", "c"]);
    finds("cat <<E\nx\\\nE\nE\nb", &["cat", "b"]);
    finds("bash <<'E'\na; b\nE", &["bash", "a", "b"]);
    doubts("cat <<E\nx");
    doubts("bash <<E\n$x\nE");
    doubts("cat <<E $(a\nb)\nE");
}

#[test]
fn names_that_are_known_only_at_run_time_are_uncertain() {
    for text in [
        "$x",
        "${x}",
        "$(a)",
        "`a`",
        "a$x",
        "/bin/r?",
        "{a,b}",
        "~/a",
        "\"$@\"",
        "a[1]",
        "x=1 $y",
        "env $x a",
        "timeout $t a",
        "xargs $x",
    ] {
        doubts(text);
    }
}

#[test]
fn time_in_a_substitution_is_certain_before_simple_commands_only() {
    finds(
        "a \"$(time b; time -p c)\"; time { d; }; time case x in y) e;; esac",
        &["b", "c", "a", "d", "e"],
    );
    for text in [
        "a \"$(time case 1 in ?) b '$(c)';; esac)\"",
        "a \"$(time -p { b; })\"",
        "a <(! time (b))",
        "a \"$(time ! b)\"",
    ] {
        doubts(text);
    }
}

#[test]
fn a_here_document_in_a_substitution_is_certain_without_compound_commands() {
    finds(
        "a \"$(b <<'E' | c; d\nx\nE\n)\"; case x in y) e <<E;; esac\nE\n",
        &["b", "c", "d", "a", "e"],
    );
    for text in [
        "a \"$(b <<E; c; case x in *) d '`e`';; esac\nE\n)\"",
        "a \"$(for x in 1; do b; done; c <<E\nE\n)\"",
        "a \"$(b <<E; (c)\nE\n)\"",
    ] {
        doubts(text);
    }
}

#[test]
fn values_that_arithmetic_reads_are_followed() {
    finds("i=0; j=i; echo $((i + j))", &["echo"]);
    finds("((pwn))", &[]);
    finds("a=(1 2); a+=(3); echo $((a[0] + ${#a[@]}))", &["echo"]);
    finds("s=$(date +%s); echo $(( $(date +%s) - s ))", &["date", "date", "echo"]);
    for text in [
        "x='a[$(b)]'; echo $((x))",
        "x='a[$(b)]'; y=x; echo $((y))",
        "x='a[$(b)]'; y=$x; (( y ))",
        "read x; echo $((x))",
        "x=a; x+='[$(b)]'; echo $((x))",
        "x=(1 'a[$(b)]'); echo $((x[1]))",
        "declare -i x=('a[$(b)]')",
        "declare -ai x=(1 'a[$(b)]')",
        "x=$(a); [[ $x -eq 1 ]]",
        "echo $(( $(a) ))",
        "echo $(($1))",
        "date() { a; }; echo $(( $(date +%s) ))",
        "echo ${y:x}; for x in $(a); do :; done",
        "a['$(b)']=1",
    ] {
        doubts(text);
    }
}

#[test]
fn bash_constructs_are_uncertain_in_a_posix_shell() {
    for text in [
        "[[ a ]]",
        "((a))",
        "a <(b)",
        "a <<< b",
        "a &> b",
        "a |& b",
        "function f { a; }",
        "x=(a)",
        "echo $'a'",
        "echo ${x/a/b}",
        "echo ${!x}",
        "x+=1",
        "coproc a",
        "select x in a; do b; done",
    ] {
        assert_eq!(bash(text).uncertain.map(|it| it.reason), None, "{text}");
        assert!(extract(text, ShellSyntax::Posix, &[]).uncertain.is_some(), "{text}");
        doubts(&format!("sh -c '{}'", text.replace('\'', "'\\''")));
    }
    assert_eq!(extract("a; b | c && (d) > e", ShellSyntax::Posix, &[]).uncertain, None);
}

proptest! {
    #[test]
    fn no_text_makes_it_panic(text in "\\PC{0,200}") {
        drop(bash(&text));
        drop(extract(&text, ShellSyntax::Posix, &[]));
    }

    #[test]
    fn no_shell_like_text_makes_it_panic(
        pieces in prop::collection::vec(prop::sample::select(PIECES), 0..60)
    ) {
        drop(bash(&pieces.concat()));
    }
}

const PIECES: &[&str] = &[
    "a", "x=", "$x", "$(", ")", "`", "\"", "'", "\\", "\n", ";", "&", "|", "<", ">", "<<E", "E",
    "(", "{ ", "}", "[[ ", " ]]", "((", "))", "if ", "then ", "fi", "for ", "in ", "do ", "done",
    "case ", "esac", "${", "$((", "#", "é", "\t", " ", "!", "*", "[", "]", "~", "=", "env ",
    "eval ", "$'",
];
