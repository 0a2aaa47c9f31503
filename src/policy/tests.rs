//! Decisions on whole lines: allow list, deny list, command.

use super::rules::{Rule, Scope, patterns};
use super::{Call, Decision, OnUncertain, Opinion, Policy, Refusal, Request, decide, explain};

fn policy(allow: &str, deny: &str) -> Policy {
    let list = |text: &str| -> Vec<String> {
        text.split(',').filter(|it| !it.is_empty()).map(str::to_owned).collect()
    };
    let (allow, deny) = (list(allow), list(deny));
    Policy {
        allow: (!allow.is_empty())
            .then(|| patterns("policy.allow", allow.iter().map(String::as_str)).unwrap()),
        deny: patterns("policy.deny", deny.iter().map(String::as_str)).unwrap(),
        ..Policy::default()
    }
}

const fn request(call: Call<'_>) -> Request<'_> {
    Request { call, environment: &[], cwd: "/srv", writable: &[], tenant: "local", lane: "default" }
}

fn decided(policy: &Policy, text: &str) -> Decision {
    decide(policy, &request(Call::Shell(text)))
}

const FINE: &[(&str, &str, &str)] = &[
    ("git,date", "", "git commit -m \"$(date)\""),
    ("git,cat", "", "git commit -m \"$(cat <<'EOF'\nfeat: x; rm -rf\n\nbody `x` $(y)\nEOF\n)\""),
    ("", "rm", "git commit -m \"$(cat <<'EOF'\nfeat: x; rm -rf\n\nbody `x` $(y)\nEOF\n)\""),
    ("echo", "", "echo $((1+2))"),
    ("", "rm", "for i in $(seq 1 10); do echo $i; done"),
    ("", "rm", "i=0; while [ $i -lt 10 ]; do echo $i; i=$((i+1)); done"),
    ("", "rm", "i=0; while (( i < 10 )); do ((i++)); done"),
    ("", "rm", "cargo build 2>&1 | tail -20"),
    ("", "rm", "find . -name '*.rs' | xargs grep -n foo"),
    ("", "rm", "find . -type f -name \"*.rs\" -exec wc -l {} +"),
    ("", "rm", "find src -name '*.rs' -print0 | xargs -0 wc -l | sort -n | tail -5"),
    ("", "rm", "awk -F: '{print $1}' /etc/passwd | sort | uniq -c"),
    ("", "rm", "awk 'NR==1, /end/ {print NR\": \"$0}' f"),
    ("", "rm", "awk '/a|b/ {n++} END {print n/2}' f"),
    ("", "rm", "sed -n '1,20p' file"),
    ("", "rm", "sed ':a;N;$!ba;s/\\n/ /g' f"),
    ("", "rm", "awk '{ print (a + b) / 2 }' f"),
    ("", "rm", "tar -cf x --checkpoint=1 --checkpoint-action=dot ."),
    ("", "rm", "sed -i 's/foo/bar/g' file.txt"),
    ("", "rm", "sed -E 's/([a-z]+)-([0-9]+)/\\2-\\1/' f"),
    ("", "rm", "sed -e '/^#/d' -e 's|/usr|/opt|g' f"),
    ("", "rm", "sed '$d' f"),
    ("", "rm", "sed 's/[^/]*$//' f"),
    ("", "rm", "python3 - <<'EOF'\nimport os\nos.system('x')\nEOF"),
    ("", "rm", "cat > foo.py <<EOF\nprint('hi')\nEOF"),
    ("", "rm", "if [ -f foo ]; then echo yes; else echo no; fi"),
    ("", "rm", "[[ -f foo && -d bar ]] && echo ok"),
    ("", "rm", "[[ $x =~ ^[0-9]+$ ]] && echo num"),
    ("", "rm", "[[ \"$a\" == foo* ]] || exit 1"),
    ("", "rm", "case \"$1\" in start|stop) echo ok;; *) echo no;; esac"),
    ("", "rm", "export FOO=bar; make"),
    ("", "rm", "cd /tmp && ls -la"),
    ("", "rm", "(cd /tmp; make -j4) > log 2>&1"),
    ("", "rm", "npm test -- --watch=false"),
    ("", "rm", "docker compose up -d && docker compose logs -f"),
    ("", "rm", "git log --oneline | head -5"),
    ("", "rm", "git log --format='%h %s' -n 3"),
    ("", "rm", "git diff HEAD~1 -- src/"),
    ("", "rm", "git -C sub status"),
    ("", "rm", "git rebase -i HEAD~2"),
    ("", "rm", "git push origin main"),
    ("", "rm", "git fetch --all --prune"),
    ("", "rm", "git clone https://github.com/a/b.git"),
    ("", "rm", "git add -A && git commit -m 'x' && git push"),
    ("", "rm", "git stash pop"),
    ("", "rm", "tar czf out.tgz dir"),
    ("", "rm", "tar -xzf out.tgz -C /tmp"),
    ("", "rm", "rsync -av src/ dst/"),
    ("", "rm", "curl -sSL https://x | jq '.a'"),
    ("", "rm", "sleep 5 & wait $!"),
    ("", "rm", "trap 'echo bye' EXIT; ls"),
    ("", "rm", "f() { echo \"$1\"; }; f a"),
    ("", "rm", "set -euo pipefail; ls"),
    ("", "rm", "echo \"${x:-default}\" \"${#x}\" \"${x%.txt}\" \"${x//a/b}\""),
    ("", "rm", "diff <(ls a) <(ls b)"),
    ("", "rm", "ls *.txt"),
    ("", "rm", "echo {1..10}"),
    ("", "rm", "mkdir -p a/{b,c}"),
    ("", "rm", "printf '%s\\n' a b"),
    ("", "rm", "read -r x < f; echo $x"),
    ("", "rm", "while IFS= read -r line; do echo \"$line\"; done < f"),
    ("", "rm", "arr=(a b c); echo \"${arr[@]}\" \"${arr[0]}\" ${#arr[@]}"),
    ("", "rm", "declare -A m; m[a]=1; echo ${m[a]}"),
    ("", "rm", "time make"),
    ("", "rm", "timeout 10s cargo test"),
    ("", "rm", "env FOO=1 cargo test"),
    ("", "rm", "nohup ./server > log 2>&1 &"),
    ("", "rm", "sudo apt-get install -y foo"),
    ("", "rm", "xargs -I{} cp {} dst < list"),
    ("", "rm", "watch -n 1 'ls -l'"),
    ("", "rm", "ssh host ls"),
    ("", "rm", "ssh -p 22 host 'ls -la; uptime'"),
    ("", "rm", "bash script.sh arg"),
    ("", "rm", "sh ./x.sh"),
    ("", "rm", "./gradlew build"),
    ("", "rm", "test -n \"$x\" && echo y"),
    ("", "rm", "[ \"$x\" = y ] && echo z"),
    ("", "rm", "[ $# -eq 0 ] && exit"),
    ("", "rm", "[ -z \"${x}\" ] || echo z"),
    ("", "rm", "n=$(wc -l < f); echo $n"),
    ("", "rm", "echo $(( $(date +%s) - 5 ))"),
    ("", "rm", "command -v rm"),
    ("", "rm", "type rm"),
    ("", "rm", "alias"),
    ("", "rm", "vim file"),
    ("", "rm", "echo a > /tmp/x"),
    ("", "rm -rf", "rm foo.txt"),
    ("", "rm -rf", "rm -r foo"),
    ("", "rm -rf", "rm -f *.o"),
    ("", "rm -rf", "f=a.txt; rm \"$f\""),
    ("", "rm -rf", "for f in *.tmp; do rm \"$f\"; done"),
    ("", "git push --force", "git push origin main"),
    ("", "docker rm", "docker run --rm foo"),
    ("", "dd,format", "git format-patch"),
    ("", "dd,format", "git add x"),
    ("git status", "", "git status 2>/dev/null"),
    ("git status", "", "git 'status'"),
    ("git status", "", "/usr/bin/git status"),
    ("./build.sh", "", "./build.sh --release"),
    ("ls*", "", "ls -la"),
    ("ls*", "", "lsblk"),
    ("npm run *", "", "npm run test"),
    ("*", "", "anything --x"),
    ("ls", "", "LC_ALL=C ls"),
    ("echo", "", "x=1; echo $x"),
    ("git,env", "", "env LANG=C git log"),
    ("find", "", "find . -name '*.c' -delete"),
    ("echo", "", "echo \"a\\\"; pwn\""),
    ("echo", "", "echo a\\;pwn"),
    ("echo", "", "echo $'a;pwn'"),
    ("cat", "", "cat <<'EOF'\n$(pwn)\nEOF"),
    ("cat", "", "cat <<\\EOF\n$(pwn)\nEOF"),
    ("cat", "", "cat <<EOF\n\\$(pwn)\nEOF"),
    ("echo", "", "echo x > out.txt"),
    ("echo", "", "echo x >> sub/out.txt"),
    ("echo,cd", "", "cd sub; echo x > y"),
    ("ls", "", "ls 2>&1"),
    ("ls", "", "ls > /dev/null 2>&1"),
    ("ls", "", "ls >&2"),
    ("echo,cat", "", "echo a | cat > /srv/x"),
    ("echo", "", "f(){ echo hi; }; f"),
    ("", "rm", "git rm x"),
    ("", "rm", "docker rm x"),
    ("", "rm", "echo rm rm rm"),
    ("", "rm", "ls rm"),
    ("", "rm", "npm rm x"),
    ("", "rm", "cat rm | grep rm"),
    ("", "rm", "man rm"),
    ("", "rm", "rmdir x"),
    ("", "rm", "./rmx"),
    ("", "rm", "echo 'a; rm b'"),
    ("", "rm", "echo \"a && rm b\""),
    ("", "rm", "echo a\\ \\&\\&\\ rm"),
    ("", "rm", "grep 'x' <<< 'rm y'"),
    ("", "rm", "cat <<EOF\nrm x; rm y\nEOF"),
    ("", "rm", "git commit -F - <<'EOF'\nrm x\nEOF"),
    ("", "rm", "python3 -c \"import os; print('rm')\""),
    ("", "rm", "ls # rm x"),
    ("", "rm", "case rm in rm) echo y;; esac"),
    ("", "rm", "for rm in a b; do echo $rm; done"),
    ("", "rm", "rm=1; echo $rm"),
    ("", "rm", "[[ rm == r* ]] && echo y"),
    ("", "rm", "test rm = rm && echo y"),
    ("", "rm", "PATH=$PATH:/x ls"),
    ("", "rm", "cmake --build . -- -j8 && ctest"),
    ("", "rm", "jq -r '.[] | select(.a == \"b\") | .c' f.json"),
    ("", "rm", "curl -X POST -d '{\"a\": 1}' http://x"),
    ("", "rm", "node -e 'console.log(1)'"),
    ("", "rm", "ps aux | grep foo | grep -v grep | awk '{print $2}'"),
    ("", "rm", "kill $(lsof -t -i:3000)"),
    ("", "rm", "kill %1"),
    ("", "rm", "export PATH=\"$HOME/bin:$PATH\" && foo"),
    ("", "rm", "cd \"$(git rev-parse --show-toplevel)\" && ls"),
    ("", "rm", "for i in {1..5}; do echo $i; done"),
    ("", "rm", "for f in $(ls); do cat \"$f\"; done"),
    ("", "rm", "while true; do date; sleep 1; done"),
    ("", "rm", "until curl -s localhost; do sleep 1; done"),
    ("", "rm", "if ! grep -q x f; then echo no; fi"),
    ("", "rm", "command -v node >/dev/null 2>&1 || echo missing"),
    ("", "rm", "ls -la && pwd || echo fail"),
    ("", "rm", "make 2>&1 | tee build.log; exit ${PIPESTATUS[0]}"),
    ("", "rm", "(sleep 1; echo done) & wait"),
    ("", "rm", "x=$(cat f) && echo \"${x^^}\""),
    ("", "rm", "echo \"$((RANDOM % 10))\""),
    ("", "rm", "arr=(); arr+=(x); echo ${#arr[@]}"),
    ("", "rm", "IFS=, read -ra parts <<< \"a,b\"; echo \"${parts[0]}\""),
    ("", "rm", "printf \"%s\\n\" \"${arr[@]}\""),
    ("", "rm", "diff -u <(sort a) <(sort b) || true"),
    ("", "rm", "tail -f log | grep --line-buffered ERROR"),
    ("", "rm", "tar -czf - dir | ssh host 'cat > x.tgz'"),
    ("", "rm", "find . -path ./node_modules -prune -o -name '*.js' -print"),
    ("", "rm", "find . \\( -name a -o -name b \\) -print0 | xargs -0 ls -l"),
    ("", "rm", "sed -n '/start/,/end/p' f"),
    ("", "rm", "sed -i.bak -e 's/a/b/' -e '/c/d' f"),
    ("", "rm", "sed 's/\\//-/g' f"),
    ("", "rm", "sed -n '$=' f"),
    ("", "rm", "sed '/^$/d;s/^ *//' f"),
    ("", "rm", "sed 'N;s/\\n/ /;P;D' f"),
    ("", "rm", "sed '1i\\\nfoo' f"),
    ("", "rm", "awk -v x=1 '$1==x{print $2}' f"),
    ("", "rm", "awk 'BEGIN{FS=\",\"} {s+=$3} END{printf \"%.2f\\n\", s/NR}' f"),
    ("", "rm", "awk '!seen[$0]++' f"),
    ("", "rm", "awk '{ if ($1 || $2) print }' f"),
    ("", "rm", "git log --pretty=format:'%h|%an' | awk -F'|' '{print $2}'"),
    ("", "rm", "git branch --list | sed 's/^..//'"),
    ("", "rm", "git checkout -b feature/x && git push -u origin feature/x"),
    ("", "rm", "git show HEAD:src/x.rs"),
    ("", "rm", "git config user.name x"),
    ("", "rm", "git config --get remote.origin.url"),
    ("", "rm", "git worktree add ../x main"),
    ("", "rm", "git tag -a v1 -m 'v1'"),
    ("", "rm", "git -c user.name=x commit -m y"),
    ("", "rm", "git remote -v"),
    ("", "rm", "git remote add origin git@github.com:a/b.git"),
    ("", "rm", "gh pr create --title x --body \"$(cat <<'EOF'\n## Summary\n- a `b` $(c)\nEOF\n)\""),
    ("", "rm", "ssh -i key -o StrictHostKeyChecking=no u@h uptime"),
    ("", "rm", "scp a b:c"),
    ("", "rm", "strace -f -e trace=open ls"),
    ("", "rm", "watch -n 2 nvidia-smi"),
    ("", "rm", "nice -n 10 make -j4"),
    ("", "rm", "timeout 5 bash -c 'echo hi; sleep 1'"),
    ("", "rm", "bash -lc 'cd x && make'"),
    ("", "rm", "sh -c 'echo \"$1\"' _ x"),
    ("", "rm", "xargs -n 1 echo < f"),
    ("", "rm", "trap 'kill $pid' EXIT; sleep 5 & pid=$!; wait $pid"),
    ("", "rm", "vim -c q x"),
    ("", "rm", "less f"),
    ("", "rm", "psql -c 'select 1'"),
    ("", "rm", "set -x; ls; set +x"),
    ("", "rm", "shopt -s globstar; ls **/*.rs"),
    ("", "rm", "echo a >&2; exit 1"),
    ("", "rm", "exec > log 2>&1; ls"),
    ("", "rm", "read -p 'x? ' y; echo $y"),
    ("", "rm", "[ -n \"$x\" ] && [ \"$y\" != z ]"),
    ("", "rm", "[[ ${#a} -gt 3 ]] && echo y"),
    ("", "rm", "n=5; [[ $n -gt 3 ]] && echo y"),
    ("", "rm", "[[ $# -lt 1 ]] && exit"),
    ("", "rm", "echo ${PWD##*/} ${x:0:3}"),
    ("", "rm", "echo \"${BASH_SOURCE[0]}\""),
    ("", "rm", "DIR=\"$(cd \"$(dirname \"${BASH_SOURCE[0]}\")\" && pwd)\"; ls $DIR"),
    ("", "rm", "uv run pytest -q"),
    ("", "rm", "cargo run --release -- --flag"),
    ("", "rm", "env | sort"),
    ("", "rm", "nohup python3 -m http.server 8000 >/dev/null 2>&1 & echo $!"),
    ("", "rm -rf", "rm -i x"),
    ("", "rm -rf", "rm \"$HOME/x\""),
    ("", "rm -rf", "rm ~/x"),
    ("sed", "", "sed -Ei.bak s/a/b/ f"),
    ("sed", "", "sed -ni.bak p f"),
    ("sed", "", "sed -E 's/[[:space:]]+$//' f"),
    ("sed", "", "sed 's/[[:alpha:]]/x/' f"),
    ("sed", "", "sed 's/[][]/x/' f"),
    ("sed", "", "sed 'y/[]/()/' f"),
    ("sed", "", "sed -f script.sed f"),
    ("sed", "", "sed -f /opt/x.sed -f ./y.sed f"),
    ("sed", "", "sed -n '/a/{s/x/y/ p; b }' f"),
    ("sed", "", "sed ':a;$!{N;ba};s/\\n/ /g' f"),
    ("sed", "", "sed '1a\\  foo' f"),
    ("awk", "", "awk '{print $1}' f"),
    ("awk", "", "awk -F: '/x/{print $2}' f"),
    ("awk", "", "awk '{s+=$1} END{print s}' f"),
    ("awk", "", "awk -f x.awk -f y.awk f"),
    ("awk", "", "awk '/[[:space:]]|[a-z]/{n++} END{print n/2}' f"),
    ("sed,echo", "", "sed 'e echo\ne echo' f"),
    ("awk,sort", "", "awk '{print $1 / 2 | \"sort\"}' f"),
];

const REFUSED: &[(&str, &str, &str)] = &[
    ("git", "", "git commit -m \"$(date)\""),
    ("", "rm", "source venv/bin/activate"),
    ("", "rm -rf", "rm -r -f foo"),
    ("", "rm -rf", "rm foo -rf"),
    ("", "rm -rf", "rm --recursive --force foo"),
    ("", "rm -rf", "rm --rec --fo foo"),
    ("", "rm -rf", "x=-rf; rm $x foo"),
    ("", "rm -rf", "rm -{r,f} foo"),
    ("", "rm -rf", "rm -r$x foo"),
    ("", "rm -rf", "sudo rm -rf foo"),
    ("", "git push", "git -c x=y push"),
    ("", "git push", "git -C a -C b push origin"),
    ("", "git push", "git $x"),
    ("", "git push", "git p\"ush\""),
    ("", "git push", "/usr/bin/git push"),
    ("", "git push --force", "git push origin main --force"),
    ("", "git push --force", "git push -f origin main"),
    ("", "docker rm", "docker --context x rm foo"),
    ("", "kubectl delete", "kubectl -n foo delete pod x"),
    ("", "dd,format", "dd if=a of=b"),
    ("git status", "", "git status; ls"),
    ("git status", "", "git -C /x status"),
    ("git status", "", "git log"),
    ("git status", "", "git status > /etc/x"),
    ("git status", "", "git $x"),
    ("./build.sh", "", "build.sh"),
    ("./build.sh", "", ".//build.sh"),
    ("ls", "", "lsblk"),
    ("ls", "", "PATH=. ls"),
    ("ls", "", "LD_PRELOAD=./x ls"),
    ("git", "", "GIT_SSH_COMMAND=x git fetch"),
    ("git", "", "env GIT_PAGER=x git log"),
    ("git,export", "", "export GIT_PAGER=x; git log"),
    ("echo", "", "for PATH in /x; do echo; done"),
    ("echo,read", "", "read PATH <<< /x; echo"),
    ("echo", "", "((PATH=1)); echo"),
    ("echo", "", "echo ${PATH:=x}"),
    ("printf", "", "printf -v PATH x"),
    ("git", "", "git config alias.x '!pwn'"),
    ("git", "", "git config --global core.pager pwn"),
    ("git", "", "git grep -Opwn foo"),
    ("git", "", "git submodule foreach pwn"),
    ("git", "", "git difftool -x pwn"),
    ("git", "", "git -p -c core.pager=pwn log"),
    ("git", "", "git --config-env=core.pager=X log"),
    ("git", "", "git ls-remote --upload-pack=pwn x"),
    ("git", "", "git fetch --upload-pack pwn x"),
    ("git", "", "git archive --remote=x --exec=pwn HEAD"),
    ("git", "", "git frobnicate"),
    ("find", "", "find . -exec pwn {} \\;"),
    ("find", "", "find . -execdir pwn {} +"),
    ("find", "", "find . -ok pwn {} \\;"),
    ("find,sh", "", "find . -exec sh -c 'pwn' \\;"),
    ("find", "", "find $x"),
    ("tar", "", "tar cf x --checkpoint=1 --checkpoint-action=exec=pwn ."),
    ("tar", "", "tar -I pwn -cf x ."),
    ("tar", "", "tar xf x --to-command=pwn"),
    ("tar", "", "tar -cf x --use-comp=pwn ."),
    ("awk", "", "awk 'BEGIN{\"pwn\"|getline}'"),
    ("awk", "", "awk '{print | \"pwn\"}' f"),
    ("awk", "", "awk 'BEGIN{print \"x\" |& \"pwn\"}'"),
    ("awk", "", "awk \"BEGIN{$x}\""),
    ("sed", "", "sed '1e pwn' f"),
    ("sed", "", "sed 's/x/pwn/e' f"),
    ("sed", "", "sed -e p -es/x/pwn/e f"),
    ("sed", "", "sed --expression='1e pwn' f"),
    ("man", "", "man -P pwn ls"),
    ("man", "", "man --pager=pwn ls"),
    ("vim", "", "vim '+!pwn' f"),
    ("vim", "", "vim +':call system(\"pwn\")' f"),
    ("ssh", "", "ssh -o ProxyCommand=pwn host"),
    ("sort", "", "sort --compress-program=pwn f"),
    ("split", "", "split --filter=pwn f"),
    ("rg", "", "rg --pre pwn x"),
    ("env", "", "env -S 'pwn x'"),
    ("xargs", "", "echo pwn | xargs -I{} {}"),
    ("xargs,sh", "", "xargs sh -c"),
    ("xargs,bash", "", "xargs -I{} bash -c '{}'"),
    ("", "rm", "busybox rm x"),
    ("", "rm", "exec -a x rm y"),
    ("", "rm", "command -p rm x"),
    ("", "rm", "builtin command rm x"),
    ("", "rm", "env -i rm x"),
    ("", "rm", "env - rm x"),
    ("", "rm", "env -u A B=c rm x"),
    ("", "rm", "env --unset=A rm x"),
    ("", "rm", "nice rm x"),
    ("", "rm", "nice -19 rm x"),
    ("", "rm", "setsid -w rm x"),
    ("", "rm", "stdbuf -oL rm x"),
    ("", "rm", "stdbuf --output=L rm x"),
    ("", "rm", "sudo -u root rm x"),
    ("", "rm", "sudo -E FOO=1 rm x"),
    ("", "rm", "sudo -- rm x"),
    ("", "rm", "su -c 'rm x'"),
    ("", "rm", "su root -c 'rm x'"),
    ("", "rm", "su - root -c 'rm x'"),
    ("", "rm", "runuser -u nobody -- rm x"),
    ("", "rm", "unshare -r rm x"),
    ("", "rm", "nsenter -t 1 -m rm x"),
    ("", "rm", "strace -f -o /tmp/x rm y"),
    ("", "rm", "watch rm x"),
    ("", "rm", "watch -n1 'rm x'"),
    ("", "rm", "flock /tmp/l rm x"),
    ("", "rm", "flock -n /tmp/l rm x"),
    ("", "rm", "time -p rm x"),
    ("", "rm", "\\time rm x"),
    ("", "rm", "/usr/bin/time -f %e rm x"),
    ("", "rm", "parallel 'rm {}' ::: a"),
    ("", "rm", "ssh host 'rm x'"),
    ("", "rm", "xargs -a f rm"),
    ("", "rm", "xargs -r -d '\\n' rm < f"),
    ("", "rm", "find . | xargs -P4 -n1 rm"),
    ("", "rm", "find . -exec env rm {} +"),
    ("", "rm", "find . -exec flock + rm {} \\;"),
    ("", "rm", "sed ':a;e rm x' f"),
    ("", "rm", "(T=1); timeout $T 5 rm x"),
    ("", "rm", "sed -f - f <<< '1e rm x'"),
    ("", "rm", "awk 'BEGIN { \"r\" \"m x\" | getline }'"),
    ("", "rm", "awk 'BEGIN { print 1 | \"r\" \"m x\" }'"),
    ("", "rm", "awk '{ if (x) /\"/; system(\"rm x\") } # \"' f"),
    ("git", "", "git config -f user.x core.pager pwn"),
    ("tar", "", "tar xIf pwn x.tar"),
    ("", "rm", "fd . -x rm"),
    ("", "rm", "eval 'rm x'"),
    ("", "rm", "eval rm x"),
    ("", "rm", "eval \"rm\" x"),
    ("", "rm", "trap 'rm x' EXIT"),
    ("", "rm", "bash -c \"$(echo rm x)\""),
    ("", "rm", "bash <<< 'rm x'"),
    ("", "rm", "bash < script"),
    ("", "rm", "cat x | bash"),
    ("", "rm", "bash <(echo rm x)"),
    ("", "rm", "bash -c 'eval \"rm x\"'"),
    ("", "rm", "sh -c '$0 x' rm"),
    ("", "rm", "sh -c '\"$@\"' _ rm x"),
    ("", "rm", "bash -ic 'rm x'"),
    ("", "rm", "bash --rcfile x -i"),
    ("", "rm", "bash -o posix -c 'rm x'"),
    ("", "rm", "bash -O extglob -c 'rm x'"),
    ("", "rm", "zsh -c 'rm x'"),
    ("", "rm", "dash -c 'rm x'"),
    ("", "rm", "r\\m x"),
    ("", "rm", "r''m x"),
    ("", "rm", "$'\\162m' x"),
    ("", "rm", "/bin/r? x"),
    ("", "rm", "/bin/[r]m x"),
    ("", "rm", "{rm,x}"),
    ("", "rm", "$(echo rm) x"),
    ("", "rm", "`echo rm` x"),
    ("", "rm", "${x:-rm} y"),
    ("", "rm", "a=(rm x); \"${a[@]}\""),
    ("", "rm", "set -- rm x; \"$@\""),
    ("", "rm", "hash -p /bin/rm ls; ls x"),
    ("", "rm", "enable -f ./x.so rm"),
    ("", "rm", "declare -n r=x; ls"),
    ("", "rm", "PS4='$(rm x)' bash -xc :"),
    ("", "rm", "BASH_ENV=x bash -c :"),
    ("", "rm", "PROMPT_COMMAND='rm x'"),
    ("", "rm", "echo ${x@P}"),
    ("", "rm", "let 'a[$(rm x)]=1'"),
    ("", "rm", "declare -i x='a[$(rm x)]'"),
    ("", "rm", "printf -v 'a[$(rm x)]' x"),
    ("", "rm", "read 'a[$(rm x)]' <<< 1"),
    ("", "rm", "echo $[ $(rm x) ]"),
    ("", "rm", "echo ${a[$(rm x)]}"),
    ("", "rm", "echo $(( a[$(rm x)] ))"),
    ("", "rm", "(( $(rm x) ))"),
    ("", "rm", "[[ $(rm x) ]]"),
    ("", "rm", "[[ a -eq 'b[$(rm x)]' ]]"),
    ("", "rm", "case $(rm x) in a) ;; esac"),
    ("", "rm", "case a in $(rm x)) ;; esac"),
    ("", "rm", "for x in $(rm y); do :; done"),
    ("", "rm", "cat <<EOF\n$(rm x)\nEOF"),
    ("", "rm", "cat <<EOF\n`rm x`\nEOF"),
    ("", "rm", "cat <<-EOF\n\t$(rm x)\n\tEOF"),
    ("", "rm", "echo > $(rm x)"),
    ("", "rm", "x=$(rm y) ls"),
    ("", "rm", "x[$(rm y)]=1"),
    ("", "rm", "x+=$(rm y)"),
    ("", "rm", "if rm x; then :; fi"),
    ("", "rm", "while rm x; do :; done"),
    ("", "rm", "{ rm x; }"),
    ("", "rm", "true | rm x"),
    ("", "rm", "true & rm x"),
    ("", "rm", "true;rm x"),
    ("", "rm", "function f { rm x; }; f"),
    ("", "rm", "f() ( rm x ); f"),
    ("", "rm", "coproc { rm x; }"),
    ("", "rm", "echo <(rm x)"),
    ("", "rm", "jobs -x rm y"),
    ("", "rm", "complete -C 'rm x' y"),
    ("", "rm", "> f rm x"),
    ("", "rm", "2>&1 rm x"),
    ("", "rm", "{fd}>f rm x"),
    ("", "rm", "x=1 rm y"),
    ("echo", "", "echo a\npwn"),
    ("echo", "", "echo 'a' \"b\" ; pwn"),
    ("echo", "", "echo a # b\npwn"),
    ("cat", "", "cat <<EOF\nEOF\npwn"),
    ("cat", "", "cat <<A <<B\nx\nA\ny\nB\npwn"),
    ("cat", "", "cat <<EOF\nx\n EOF\npwn"),
    ("echo", "", "echo x > ../out.txt"),
    ("echo", "", "echo x > ~/x"),
    ("echo", "", "echo x > .git/config"),
    ("echo,cd", "", "cd /etc; echo x > passwd"),
    ("cat", "", "cat < /dev/tcp/1.1.1.1/80"),
    ("echo", "", "(pwn(){ echo; }); pwn"),
    ("echo", "", "f(){ echo hi; }; unset -f f; f"),
    ("echo", "", "f(){ echo hi; } & f"),
    ("echo", "", "false && f(){ echo hi; }; f"),
    ("echo", "", "f(){ echo hi; }; env f"),
    ("", "rm", "find . -name x -exec rm {} \\;"),
    ("", "rm", "echo a | while read f; do rm \"$f\"; done"),
    ("", "rm", "env -C /work -- rm x"),
    ("", "rm", "sudo -n -u x -- rm y"),
    ("", "rm", "timeout --foreground -k 5s 10s rm x"),
    ("", "rm", "exec 3>&1; rm x"),
    ("", "rm", "if true; then (rm x) fi"),
    ("", "rm", "a=1;b=2;rm x"),
    ("", "rm", "echo \"$(echo \"$(rm x)\")\""),
    ("", "rm", "echo \"${x:-$(rm y)}\""),
    ("", "rm", "echo ${x:-\"$(rm y)\"}"),
    ("", "rm", "echo ${x:-${y:-`rm z`}}"),
    ("", "rm", "ls | tee >(rm x)"),
    ("", "rm", "[ \"$(rm x)\" ]"),
    ("", "rm", "echo $((1 + `rm x`))"),
    ("", "rm", "printf '%s' $(rm x)"),
    ("", "rm", "let x=$(rm y)"),
    ("", "rm", "export X=$(rm y)"),
    ("", "rm", "local x=`rm y`"),
    ("", "rm", "readonly x=$(rm y)"),
    ("", "rm", "exec $(rm x)"),
    ("", "rm", "cat <<EOF | sh\nrm x\nEOF"),
    ("", "rm", "sh -c \"rm x\" &"),
    ("", "rm", "bash -c 'function f { rm x; }; f'"),
    ("", "rm", "bash -c $'rm\\x20x'"),
    ("", "rm", "bash -xec 'rm x'"),
    ("", "rm", "bash -e -c 'rm x'"),
    ("", "rm", "/bin/bash -c 'rm x'"),
    ("", "rm", "busybox sh -c 'rm x'"),
    ("", "rm", "env bash -c 'rm x'"),
    ("", "rm", "sudo bash -c 'rm x'"),
    ("", "rm", "sudo sh <<EOF\nrm x\nEOF"),
    ("", "rm", "nohup bash -c 'rm x' &"),
    ("", "rm", "watch -x rm y"),
    ("", "rm", "setarch x86_64 -R rm x"),
    ("", "rm", "systemd-run --user rm x"),
    ("", "rm", "script -c 'rm x'"),
    ("", "rm", "script -q /dev/null -c 'rm x'"),
    ("", "rm", "ip netns exec foo rm x"),
    ("", "rm", "sg grp -c 'rm x'"),
    ("", "rm", "faketime '1 day' rm x"),
    ("", "rm", "expect -c 'spawn rm x'"),
    ("", "rm", "at now <<< 'rm x'"),
    ("", "rm", "ld.so /bin/rm x"),
    ("", "rm", "parallel -j4 rm {} ::: a b"),
    ("", "rm", "ls | parallel rm"),
    ("", "rm", "ssh -t u@h -- rm x"),
    ("", "rm", "git -c alias.z='!rm x' z"),
    ("", "rm", "git rebase --exec 'rm x' HEAD~2"),
    ("", "rm", "git submodule foreach 'rm x'"),
    ("", "rm", "git bisect run rm x"),
    ("", "rm", "tar cf a b --checkpoint-action=exec='rm x'"),
    ("", "rm", "awk 'BEGIN { system(\"rm x\") }'"),
    ("", "rm", "awk '{ print $0 | \"rm x\" }' f"),
    ("", "rm", "sed '1e rm x' f"),
    ("", "rm", "vim -c '!rm x'"),
    ("", "rm", "rsync -e 'rm x' a b:c"),
    ("", "rm", "man -P 'rm x' ls"),
    ("", "rm", "command rm x"),
    ("", "rm", "RM=rm; $RM x"),
    ("", "rm", "cmd=\"rm x\"; $cmd"),
    ("", "rm", "cmd=rm; \"$cmd\" x"),
    ("", "rm", "a=(rm -rf x); ${a[0]}"),
    ("", "rm", "$'rm' x"),
    ("", "rm", "$\"rm\" x"),
    ("", "rm", "rm\\\n x"),
    ("", "rm", "r\\\nm x"),
    ("", "rm", "{rm,-rf,x}"),
    ("", "rm", "/bin/{rm,x}"),
    ("", "rm", "~/../bin/rm x"),
    ("", "rm", "../../bin/rm x"),
    ("", "rm", "unalias ls; rm x"),
    ("", "rm", "printf 'rm x' | bash -s"),
    ("", "rm", "echo x |xargs -n1 env rm"),
    ("sed", "", "sed 'y/[/x/;e pwn #]/a/' f"),
    ("sed", "", "sed 'y/a/[/;e pwn #]/' f"),
    ("sed", "", "sed 'y,[,x,;e pwn #],a,' f"),
    ("sed", "", "sed ':a e pwn' f"),
    ("sed", "", "sed 'tx;:x e pwn' f"),
    ("sed", "", "sed 'bx}s/;e pwn #/y/' f"),
    ("sed", "", "sed 's/hi/pwn x/ ie' f"),
    ("sed", "", "sed 's/hi/pwn x/\te' f"),
    ("sed", "", "sed -niep 'e pwn' f"),
    ("sed", "", "sed -nif 'e pwn' f"),
    ("sed", "", "sed -Eie 'e pwn' f"),
    ("sed", "", "sed -f //dev/stdin f <<< 'e pwn'"),
    ("sed", "", "sed -f ../../../../dev/stdin f <<< 'e pwn'"),
    ("sed", "", "sed -f //dev/fd/0 f <<< 'e pwn'"),
    ("sed", "", "sed -f /./dev/stdin f <<< 'e pwn'"),
    ("sed", "", "sed -f /dev/stdin -f f f <<< 'e pwn'"),
    ("sed", "", "sed -f f -f /dev/stdin f <<< 'e pwn'"),
    ("sed", "", "sed 's[x[y[;e pwn #]' f"),
    ("sed", "", "sed 's/\\c[/x/;e pwn #]/a/' f"),
    ("sed", "", "sed -e 'a\\' -e 's/\ne pwn\n#/x/' f"),
    ("sed", "", "sed 'a\\ \ns/\ne pwn\n#/x/' f"),
    ("sed", "", "sed p f g $x"),
    ("sed,echo", "", "sed 'e echo\ne pwn' f"),
    ("awk", "", "awk 'BEGIN{if(0)x=1;else /\"/;system(\"pwn\")}#\"'"),
    ("awk", "", "awk 'BEGIN{do /\"/; while(0); system(\"pwn\")} #\"'"),
    ("awk", "", "awk '/[/\"]/{} BEGIN{system(\"pwn\")} #\"'"),
    ("awk", "", "awk 'BEGIN{x ~ /[/\"]/; system(\"pwn\")} #\"'"),
    ("awk", "", "awk '/[[:space:]/\"]/{} BEGIN{system(\"pwn\")} #\"'"),
    ("awk", "", "awk -f /dev/stdin -f f <<< 'BEGIN{system(\"pwn\")}'"),
    ("awk", "", "awk -f f -f /dev/stdin <<< 'BEGIN{system(\"pwn\")}'"),
    ("awk", "", "awk -f //dev/stdin <<< 'BEGIN{system(\"pwn\")}'"),
    ("awk", "", "awk 'BEGIN{x++/2;system(\"pwn\");y=1/2}'"),
    ("awk", "", "awk 'BEGIN{x--/2;system(\"pwn\");y=1/2}'"),
    ("awk", "", "awk 'BEGIN{x=1./2;system(\"pwn\");y=1/2}'"),
    ("awk", "", "awk 'BEGIN{x=1system(\"pwn\")}'"),
    ("awk", "", "awk 'BEGIN{x=y\\\n/2;system(\"pwn\");y=1/2}'"),
    ("gawk", "", "gawk -o 'BEGIN{system(\"pwn\")}' f"),
];

#[test]
fn what_is_allowed_runs() {
    for (allow, deny, text) in FINE {
        let decision = decided(&policy(allow, deny), text);
        assert_eq!(decision, Decision::Allow, "allow {allow:?}, deny {deny:?}: {text}");
    }
}

#[test]
fn what_is_denied_or_unlisted_or_uncertain_is_refused() {
    for (allow, deny, text) in REFUSED {
        let decision = decided(&policy(allow, deny), text);
        assert!(matches!(decision, Decision::Deny(_)), "allow {allow:?}, deny {deny:?}: {text}");
    }
}

#[test]
fn without_any_list_everything_runs() {
    for text in ["rm -rf /", "$x", "eval \"$y\"", "((", "a\0b"] {
        assert_eq!(decided(&Policy::default(), text), Decision::Allow, "{text}");
    }
}

#[test]
fn a_refusal_names_the_command_the_rule_and_its_place() {
    let policy = policy("", "dd,sudo,rm*");
    let Decision::Deny(refusal) = decided(&policy, "ls; rm -r x") else { panic!("not refused") };
    assert_eq!(refusal.to_string(), "`rm` matches deny rule \"rm*\" (policy.deny[2])");
    assert_eq!(refusal.code(), "denied");
}

#[test]
fn uncertain_text_runs_where_that_is_configured_but_denied_commands_still_do_not() {
    let mut policy = policy("", "rm");
    policy.uncertain = OnUncertain::Allow;
    assert_eq!(decided(&policy, "$x y"), Decision::Allow);
    assert!(matches!(decided(&policy, "$x y; rm z"), Decision::Deny(Refusal::Denied { .. })));
}

#[test]
fn deny_wins_over_allow_and_allow_over_ask() {
    let mut policy = policy("git", "git push");
    policy.ask = patterns("policy.ask", ["git commit", "npm"]).unwrap();
    assert!(matches!(decided(&policy, "git push"), Decision::Deny(_)));
    assert_eq!(decided(&policy, "git commit"), Decision::Allow);
    let Decision::Ask { rule, place, .. } = decided(&policy, "git log && npm install") else {
        panic!("not asked")
    };
    assert_eq!((rule.as_str(), place.as_str()), ("npm", "policy.ask[1]"));
    assert!(matches!(decided(&policy, "npm install && ls"), Decision::Deny(_)));
}

#[test]
fn a_rule_holds_for_its_tenants_and_lanes_only() {
    let scope = Scope { tenants: vec!["other".to_owned()], lanes: Vec::new() };
    let rule = Rule::pattern("rm", "policy.deny[0]").unwrap().for_scope(scope);
    let policy = Policy { deny: vec![rule], ..Policy::default() };
    let mut request = request(Call::Shell("rm x"));
    assert_eq!(decide(&policy, &request), Decision::Allow);
    request.tenant = "other";
    assert!(matches!(decide(&policy, &request), Decision::Deny(_)));
}

#[test]
fn a_program_without_a_shell_is_looked_through_too() {
    let args = |words: &[&str]| words.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>();
    let policy = policy("", "rm");
    for (program, words, refused) in [
        ("rm", vec!["x"], true),
        ("env", vec!["rm", "x"], true),
        ("bash", vec!["-c", "rm x"], true),
        ("echo", vec!["$(rm x)", ";", "rm"], false),
    ] {
        let args = args(&words);
        let decision = decide(&policy, &request(Call::Direct { program, args: &args }));
        assert_eq!(matches!(decision, Decision::Deny(_)), refused, "{program} {words:?}");
    }
}

#[test]
fn variables_that_the_caller_adds_count() {
    let variables = [("GIT_PAGER".to_owned(), "pwn".to_owned())];
    let mut request = request(Call::Shell("git log"));
    request.environment = &variables;
    let decision = decide(&policy("git", ""), &request);
    assert!(matches!(decision, Decision::Deny(Refusal::Variable { .. })));
    let code = [("x".to_owned(), "a[$(rm y)]".to_owned())];
    request.environment = &code;
    request.call = Call::Shell("echo $((x))");
    let decision = decide(&policy("", "rm"), &request);
    assert!(matches!(decision, Decision::Deny(Refusal::Uncertain { .. })));
}

#[test]
fn an_explanation_shows_each_command_how_it_was_reached_and_its_rule() {
    let explanation =
        explain(&policy("git,env", "rm"), &request(Call::Shell("env git log $(rm x)")));
    let shown: Vec<(&str, Vec<String>)> = explanation
        .findings
        .iter()
        .map(|finding| (finding.program.as_str(), finding.path.clone()))
        .collect();
    let path = |names: &[&str]| names.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>();
    assert_eq!(shown, [("rm", path(&["$( )"])), ("env", path(&[])), ("git", path(&["env"]))]);
    assert!(matches!(explanation.findings[0].opinion, Opinion::Denied(_)));
    assert!(matches!(explanation.findings[2].opinion, Opinion::Allowed(_)));
}

#[test]
fn hostile_text_is_refused_at_once() {
    let policy = policy("ls", "rm");
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
        assert!(matches!(decided(&policy, text), Decision::Deny(_)), "{:.40}", text);
    }
}
