//! Constructs that have started programs past an allow list, and calls of programs that can start
//! programs, with options in any order: dangerous options, harmless ones, options that take the next
//! word, abbreviations, clusters and `--`.

use crate::everyday::{everyday, fill, value_flow, variable_assignment};
use crate::script::Random;

const ATTACKS: &[&str] = &[
    // Special variables, assigned and used in every combination.
    "@way@; @use@",
    "@way@\n@use@",
    // Words that become several words, or an option, before a program that runs programs.
    "find . -maxdepth 0 -exec @M@ \\;",
    "find . -maxdepth 0 -execdir @M@ {} +",
    "find . -maxdepth 0 -ok @M@ \\; < /dev/null",
    "find . -maxdepth 0 @word@ @M@ \\;",
    "find . -maxdepth 0 -name @word@ @M@ \\;",
    "x='. -exec @M@ ;'; find . -maxdepth 0 -name $x",
    "x=-exec; find . -maxdepth 0 $x @M@ \\;",
    "x=-exec; find . -maxdepth 0 \"$x\" @M@ \\;",
    "x='-exec @M@ ;'; find . -maxdepth 0 ${x}",
    "x=-exe; find . -maxdepth 0 \"${x}c\" @M@ \\;",
    "find . -maxdepth 0 ${x:--exec} @M@ \\;",
    "find . -maxdepth 0 \"${x:--exec}\" @M@ \\;",
    "find . -maxdepth 0 -name \"$@@\"",
    "set -- . -exec @M@ \\;; find . -maxdepth 0 -name \"$@@\"",
    "set -- . -exec @M@ \\;; find . -maxdepth 0 -name $*",
    "set -- -exec; find . -maxdepth 0 \"$1\" @M@ \\;",
    "f() { find . -maxdepth 0 -name $1 ; }; f '. -exec @M@ ;'",
    "f() { find . -maxdepth 0 \"$@@\"; }; f -exec @M@ \\;",
    "f() { \"$@@\"; }; f @M@",
    "f() { $1; }; f @M@",
    "for x in -exec; do find . -maxdepth 0 $x @M@ \\;; done",
    "for f in odd/*; do find . -maxdepth 0 \"${f#odd/}\" @M@ \\;; done",
    "a=(-exec @M@ \\;); find . -maxdepth 0 \"${a[@@]}\"",
    "a=(. -exec @M@ \\;); find . -maxdepth 0 -name ${a[*]}",
    "cd odd && find *",
    "cd odd && find . -maxdepth 0 -e* @M@ \\;",
    "cd odd && find . -maxdepth 0 [-]exec @M@ \\;",
    "cd odd; tar -cf x.tar *",
    "cd odd; sort *",
    "cd odd; env *",
    "(cd odd; ls *; xargs * < /dev/null)",
    "find . -maxdepth 0 $(echo -exec) @M@ \\;",
    "find . -maxdepth 0 \"$(echo -exec)\" @M@ \\;",
    "find . -maxdepth 0 `printf -- -exec` @M@ \\;",
    "read x <<< -exec; find . -maxdepth 0 \"$x\" @M@ \\;",
    "while read -r x; do find . -maxdepth 0 \"$x\" @M@ \\;; done <<< -exec",
    "OLDPWD=-exec; find . -maxdepth 0 ~- @M@ \\;",
    "cd odd; PWD=-exec; find . -maxdepth 0 ~+ @M@ \\;",
    "_=.; : -exec; find . -maxdepth 0 $_ @M@ \\;",
    "echo -exec; find . -maxdepth 0 \"$_\" @M@ \\;",
    "HOME=-exec; find . -maxdepth 0 ~ @M@ \\;",
    // Brace expansion.
    "find . -maxdepth 0 -name {.,-exec} @M@ \\;",
    "find . -maxdepth 0 -{e.\\\n.e}xec @M@ \\;",
    "find . -maxdepth 0 -name {x},-exec} @M@ \\;",
    "find . -maxdepth 0 -name {x,-exec} @M@ \\;",
    "find . -maxdepth 0 -e{x..x}ec @M@ \\;",
    "find . -maxdepth 0 -{exec,@M@} x \\;",
    "find . -maxdepth 0 {-exec,@M@,\\;}",
    "find . -maxdepth 0 -name {a,{b,-exec}} @M@ \\;",
    "find . -maxdepth 0 -\"e\"{xec,} @M@ \\;",
    "{find,.,-maxdepth,0,-exec,@M@,\\;}",
    "{@M@,x}",
    "echo {a,b}{c,$(@M@)}",
    "echo ${x-{a,b}} {\"a,b\",c} {a,b\\}c}",
    "echo {1..3}{a..c} {01..03} {3..1..2} {a..} {..b}",
    // Options of programs that run programs.
    "tar -cf x.tar --label -- --use-compress-program='@M@' .",
    "tar -cf x.tar --use-compress-prog=@M@ f",
    "tar -cf x.tar -I @M@ f",
    "tar -cI@M@ -f x.tar f",
    "tar -cf x.tar --checkpoint=1 --checkpoint-action=exec=@M@ .",
    "tar -cf x.tar --checkpoint=1 --checkpoint-a=exec=@M@ .",
    "tar -xzf src.tgz --to-command=@M@",
    "tar -xzf src.tgz --to-command @M@ -C out",
    "tar -cf x.tar -L 1 -F @M@ src",
    "tar -czf x.tgz --rsh-command=@M@ h:x f",
    "tar --rmt-command=@M@ --rsh-command=@M@ -cf h:x f",
    "sort --random-source -- --compress-program=@M@ -S 1b f f",
    "sort --compress-program=@M@ -S 1b f",
    "sort --compress-prog @M@ f",
    "sort -T -- --compress-program=@M@ f",
    "zip -qTT '@M@;true' -T a.zip f",
    "zip -q -T -TT @M@ a.zip f",
    "zip -q --test --unzip-command @M@ a.zip f",
    "zip -q a.zip f; zip -qT a.zip",
    "git -c diff.renamesx.textconv=@M@ diff",
    "git -c core.pager=@M@ -p log -1",
    "git -c core.fsmonitor=@M@ status",
    "git -c alias.zz='!@M@' zz",
    "git -c alias.status='!@M@' status",
    "git -c core.sshCommand=@M@ fetch ssh://h/x",
    "git -c protocol.ext.allow=always fetch 'ext::@M@ x'",
    "git fetch --upload-pack=@M@ .",
    "git fetch . --upload-p @M@",
    "git ls-remote --upload-pack=@M@ .",
    "git ls-remote -u @M@ .",
    "git config alias.zz '!@M@'; git zz",
    "git config --local core.pager @M@; git -p log",
    "git config core.hooksPath odd; cp $(command -v @M@) odd/post-checkout; git checkout -q topic",
    "printf '[alias]\\n zz = !@M@\\n' >> .git/config; git zz",
    "printf '[alias]\\n zz = !@M@\\n' > .gitconfig; git zz",
    "mkdir .git/hooks; cp $(command -v @M@) .git/hooks/post-checkout; git checkout -q topic",
    "echo '*.txt diff=x' > .gitattributes; git -c diff.x.command=@M@ diff",
    "echo x > a.txt; GIT_EXTERNAL_DIFF=@M@ git diff",
    "echo x > a.txt; git -c diff.external=@M@ diff",
    "echo x > a.txt; git difftool -y -x @M@",
    "git grep -O@M@ fn",
    "git grep --open-files-in-pager=@M@ fn",
    "git rebase -x @M@ HEAD~0",
    "git rebase --root --exec @M@",
    "git bisect start HEAD v0.1; git bisect run @M@",
    "git submodule foreach @M@",
    "git --exec-path=. zz",
    "git --exec-path=odd status",
    "git -C odd -c alias.a=!@M@ a",
    "git --config-env=core.pager=x -p log",
    "git commit --allow-empty",
    "git -c core.editor=@M@ commit --allow-empty",
    "git commit --allow-empty -e -m x",
    "GIT_EDITOR=@M@ git commit --allow-empty",
    "EDITOR=@M@ git tag -a v9",
    "git tag -a v9 -m x",
    "git fetch -q . main",
    "install --mode -- --strip-program=@M@ -s f g",
    "install -s --strip-program=@M@ f g",
    "install -sm 644 --strip-program @M@ f g",
    "install --strip-prog=@M@ --strip f g",
    "rsync -e @M@ f h:x",
    "rsync --rsh=@M@ f h:x",
    "rsync -a --rsync-path=@M@ f g",
    "rsync -a src/ out/",
    // Text that a listed interpreter reads as code.
    "sed -n '1e @M@' f",
    "sed '1e@M@' f",
    "sed 's/one/@M@/e' f",
    "sed 's/.*/@M@/;e' f",
    "sed --expression='1e @M@' f",
    "sed -e 1e -e @M@ f",
    "sed -n \"$x\" f",
    "sed -s -f <(echo 1e @M@) f",
    "cat > x.sed <<< '1e @M@'; sed -f x.sed f",
    "echo '1e @M@' > x.sed; sed -nf x.sed f",
    "echo '1e @M@' > x.sed && sed --file=x.sed f",
    "sed -i 's/zqop.*/@M@/' run.sh; ./run.sh",
    "sed -i 's/zqop.*/@M@/' Makefile; make",
    "sed 's/^/@M@/w s.sh' f; sh s.sh",
    "awk 'BEGIN{system(\"@M@\")}'",
    "awk 'BEGIN{\"@M@\"|getline}'",
    "awk '{print|\"@M@\"}' f",
    "awk -f <(echo 'BEGIN{system(\"@M@\")}')",
    "echo 'BEGIN{system(\"@M@\")}' > x.awk; awk -f x.awk",
    "awk -v 'x=@M@' 'BEGIN{system(x)}'",
    "awk '{print $1}' x=@M@ f",
    "sqlite3 :memory: <<< '.shell @M@'",
    "sqlite3 :memory: '.system @M@'",
    "echo '.shell @M@' | sqlite3 :memory:",
    "printf '.shell @M@\\n' > .sqliterc; sqlite3 :memory: 'select 1'",
    "sqlite3 -cmd '.shell @M@' :memory: .quit",
    "sqlite3 :memory: 'select 1'",
    "sqlite3 out/x.db 'create table t(a)'",
    "bash <<< @M@",
    "echo @M@ | bash",
    "echo @M@ | sh -s",
    "bash -c @M@",
    "bash -c 'echo \"$1\"' _ @M@",
    "bash -c '$0' @M@",
    "bash -ec @M@",
    "bash -O extglob -c @M@",
    "sh -c '@M@; @M@'",
    "x=@M@; bash -c \"$x\"",
    "echo @M@ > s.sh; sh s.sh",
    "echo @M@ > s.sh; . ./s.sh",
    "echo @M@ > s.sh; source s.sh",
    "echo @M@ > s.sh; BASH_ENV=s.sh bash -c :",
    "echo @M@ > s.sh; chmod +x s.sh; ./s.sh",
    "echo @M@ > run.sh; ./run.sh",
    "echo @M@ >> run.sh && ./run.sh",
    "echo @M@ | tee -a run.sh; ./run.sh",
    "ln -s run.sh l; echo @M@ > l; ./run.sh",
    "cp $(command -v @M@) run.sh; ./run.sh",
    "echo @M@ > s; mv s run.sh; ./run.sh",
    "printf 'all:\\n\\t@M@\\n' > Makefile; make",
    "make -f - <<< 'all:;@M@'",
    "make --eval='all:;@M@'",
    "make SHELL=@M@ test",
    "make -f <(echo 'all:;@M@')",
    "make MAKEFLAGS=--eval=x:=\\$\\(shell\\ @M@\\)",
    "cp $(command -v @M@) ls; PATH=.:$PATH ls",
    "export PATH=.; ls",
    "echo -exec @M@ \\; | xargs find . -maxdepth 0",
    "echo @M@ | xargs -I% %",
    "echo @M@ | xargs env",
    "echo @M@ | xargs -n1 bash -c",
    "echo x | xargs @M@",
    "echo x | xargs -I{} @M@ {}",
    "echo x | xargs -d x -- @M@",
    "xargs -a list.txt @M@",
    "xargs --arg-file=list.txt -n 1 @M@",
    "xargs < list.txt",
    "env @M@",
    "env x=1 @M@",
    "env -S '@M@ x'",
    "env -S'@M@'",
    "env --split-string=@M@",
    "env -u HOME @M@",
    "env -C src @M@",
    "env -iS @M@",
    "env - PATH=$PATH @M@",
    "env PATH=odd @M@",
    "env BASH_ENV=run.sh bash -c :",
    "exec @M@",
    "exec -a ls @M@",
    "command @M@",
    "command -p @M@",
    "command -v @M@",
    "builtin eval @M@",
    "builtin command @M@",
    "nohup @M@",
    "timeout 1 @M@",
    "timeout -s -- 1 @M@",
    "timeout -k 1 1 @M@",
    "nice -n 1 @M@",
    "nice -1 @M@",
    "setsid @M@",
    "stdbuf -o0 @M@",
    "flock o1 @M@",
    "flock f -c @M@",
    // Builtins that evaluate.
    "eval @M@",
    "eval 'echo x; @M@'",
    "x=@M@; eval \"$x\"",
    "trap @M@ EXIT",
    "trap '@M@' DEBUG; :",
    "trap '@M@' ERR; false",
    "trap -- '@M@' 0",
    "alias ls=@M@\nls",
    "shopt -s expand_aliases\nalias ls=@M@\nls",
    "BASH_ALIASES[ls]=@M@\nls",
    "shopt -s expand_aliases; BASH_ALIASES[ls]=@M@\nls",
    "BASH_CMDS[ls]=./run.sh; ls",
    "hash -p ./run.sh ls; ls",
    "hash -p $(command -v @M@) ls; ls",
    "enable -n echo; echo x",
    "PS4='$(@M@)'; set -x; :",
    "PS4='$(@M@)' bash -xc :",
    "PROMPT_COMMAND=@M@ bash -ic :",
    "ENV=run.sh sh -ic :",
    "coproc @M@",
    "coproc C { @M@; }; wait",
    "mapfile -C @M@ -c 1 x <<< a",
    "readarray -C '@M@ #' -c 1 < f",
    "compgen -C @M@ x",
    "compgen -W '$(@M@)'",
    "complete -C @M@ ls",
    "printf -v 'a[$(@M@)]' x",
    "printf '%(%s)T' '@code@'",
    "unset 'a[$(@M@)]'",
    "test -v 'a[$(@M@)]'",
    "[[ -v 'a[$(@M@)]' ]]",
    "a=1; [[ -v a[$(@M@)] ]]",
    "[[ '@code@' -eq 0 ]]",
    "[[ 1 -lt '@code@' ]]",
    "[ '@code@' -eq 0 ]",
    "x='@code@'; [ -v \"$x\" ]",
    "x='@code@'; ((x))",
    "x='@code@'; echo $((x))",
    "x='@code@'; echo ${a[x]} ${x:x}",
    "x='@code@'; declare -i y=x",
    "x='@code@'; for ((i = x; 0;)); do :; done",
    "x='@code@'; a=([x]=1)",
    "x='@code@'; a[x]=1",
    "x='@code@'; let x",
    "x='@code@'; : $[x]",
    "x='@code@'; [[ x -eq 1 ]]",
    "x='@code@'; echo {1..3} $((10#$x))",
    "x=@M@; y=x; echo ${!y}; ${!y}",
    "x='$(@M@)'; echo \"${x@@P}\"",
    "x='$(@M@)'; echo \"${x@@Q}\" \"${x@@E}\"",
    "read 'a[$(@M@)]' <<< x",
    "declare 'a[$(@M@)]=1'",
    "declare -a 'a=($(@M@))'",
    "declare -A 'a=([x]=$(@M@))'",
    "typeset -a 'a=($(@M@))'",
    "f() { local -a 'a=($(@M@))'; }; f",
    "readonly -a 'a=($(@M@))'",
    "export 'x=$(@M@)'",
    "declare -a a; export 'a=($(@M@))'",
    "x='($(@M@))'; declare -a a=$x",
    "x='($(@M@))'; declare -a \"a=$x\"",
    "a=($(@M@)); echo ${a[0]}",
    "declare -n r='a[$(@M@)]'; r=1",
    "declare -n r=x; r='@code@'; echo $((x))",
    "declare -i n; n='@code@'",
    "declare -i n; n+='@code@'",
    "declare -i n; read n <<< '@code@'",
    "declare -i n; for n in '@code@'; do :; done",
    "f() { return '@code@'; }; f",
    "exit '@code@'",
    "shift '@code@'",
    "set -- a b; shift $x",
    "wait -n -p 'a[$(@M@)]'",
    "getopts 'a' 'a[$(@M@)]' -a",
    // Locale, quotes, backslashes.
    "LC_ALL=zh_CN.gbk; echo '@M@'",
    "export LC_ALL=zh_CN.gbk\necho x; @M@",
    "echo $'a\\'; @M@ #'",
    "echo $'\\x24(@M@)' \"$'x'\"",
    "echo $\"$(@M@)\" $\"x\"",
    "echo \"${x:-'$(@M@)'}\"",
    "echo \"${x:-\"$(@M@)\"}\"",
    "echo \"${x:-'}\" '@M@'",
    "echo ${x:-'}'; @M@; echo '}'}",
    "echo `echo \\`@M@\\``",
    "echo \"`echo \\\"@M@\\\"`\"",
    "echo \"a\\\nb\" c\\\nd; ec\\\nho x",
    "cat <<E\n$(@M@) `@M@` ${x:-$(@M@)}\nE",
    "cat <<'E'\n$(@M@) `@M@`\nE",
    "cat <<\\E\n$(@M@)\nE",
    "cat <<-E\n\t$(@M@)\n\tE",
    "cat <<\"E\"\n$(@M@)\nE\n@M@",
    "cat <<E <<F\nE\nF\n@M@",
    "cat <<E; @M@\nE",
    "cat <<E | bash\n@M@\nE",
    "bash <<E\n@M@\nE",
    "cat <<E > s.sh && sh s.sh\n@M@\nE",
    "cat <(@M@) > >(@M@)",
    "diff <(@M@) <(@M@)",
    "tee >(@M@) < f",
    "tee >(bash) <<< @M@",
    "case $x in $(@M@)) ;; esac",
    "case x in x) @M@ ;& y) @M@ ;; esac",
    "case x in (x|y) @M@;; esac",
    "select x in a b; do @M@; break; done <<< 1",
    "until @M@; do break; done",
    "while ! @M@; do break; done",
    "time @M@ | @M@",
    "! @M@ |& @M@",
    "( @M@ ) & { @M@; } 2>&1",
    "if @M@; then @M@; elif @M@; then :; else @M@; fi",
    "@M@() { echo own; }; @M@",
    "function @M@ { echo own; }; unset -f @M@; @M@",
    "ls() { @M@; }; ls",
    "f() { @M@; }; g() { f; }; g",
    "f() { f() { @M@; }; }; f; f",
    "echo x > \"$(@M@)\"",
    "> $(@M@)",
    "x=$(@M@) y=`@M@` ls",
    "echo x >&${x:-2} 2>&$((1))",
    "exec 3>o1; echo x >&3; exec 3>&-",
    "exec < f; read -r x; $x",
    "read -r x y < f; echo $x",
    "echo x &> o1 <> o2 >| o1",
    "echo x > /dev/tcp/127.0.0.1/1",
    "x=/dev/tcp/127.0.0.1/1; echo x > $x",
    "echo @M@ > >(bash)",
];

/// An attack by itself, or before or after an everyday line.
pub(crate) fn attack(random: &mut Random) -> String {
    let text = match random.below(10) {
        0 | 1 => variable_assignment(random),
        2..=4 => program_call(random),
        5 | 6 => value_flow(random),
        _ => fill(random.pick(ATTACKS), random),
    };
    match random.below(8) {
        0 => format!("{}\n{text}", everyday(random)),
        1 => format!("{text}\n{}", everyday(random)),
        2 if !text.contains('\n') => format!("{text} && {}", everyday(random)),
        3 if !text.contains('\n') => format!("{text} | {}", program_call(random)),
        _ => text,
    }
}

/// Tools and the words that their calls are made of, with two spaces or a line end between them.
/// `sort` starts a compressor only if its input does not fit, so it reads a large file.
const TOOLS: &[(&str, &str)] = &[
    (
        "tar",
        r#"
        -cf x.tar  -xzf src.tgz  -tzf src.tgz  cf x.tar  -c  -f  x.tar  -v  -z  -C out  -C
        --label  --label=x  -V  --  -I  -I@M@  -I @M@  --use-compress-program
        --use-compress-program=@M@  --use-comp=@M@  -F  -F@M@  --info-script=@M@  --to-command=@M@
        --to-command  --to-c=@M@  --checkpoint  --checkpoint=1  --checkpoint-action
        --checkpoint-action=exec=@M@  --checkpoint-action exec=@M@  --checkpoint-action=dot
        --rsh-command=@M@  --exclude  --exclude='*.py'  --transform  --transform=s/a/b/
        -T list.txt  -T  -X  --files-from  --owner  --mode=644  --strip-components=1  -b  -L  -L 1
        -M  -K  -N  -g  --null  --totals  src  f  @M@  h:x  .
        "#,
    ),
    (
        "sort",
        r#"
        big  big big  -S 1b  -S1b  --buffer-size=1b  -S  -T  -T out  --random-source
        --random-source=f  --compress-program=@M@  --compress-prog=@M@  --compress-program
        --compress-p  @M@  --  -k  -k 2  -k2n  -t  -t :  -o  -o out/x  --output=out/x
        --files0-from  --parallel=1  --batch-size  --batch-size=2  --sort  --sort=numeric  -n  -rn
        -u  -m  -c
        "#,
    ),
    (
        "find",
        r#"
        .  src  -maxdepth 0  -maxdepth 1  -name  -name x  -name '*.rs'  -exec  -exec @M@
        -exec @M@ {} +  -exec @M@ \;  -execdir  -execdir @M@ \;  -ok  @M@  \;  ';'  +  {}  -type f
        -o  !  \(  \)  -newer  -path  -fprintf out/x  -fls  -fls out/x  -files0-from  -print
        -printf  -printf %p  -regextype  -regex  -D  -D exec  -O2  -P  -L  --  -quit  -size  -f
        "#,
    ),
    (
        "xargs",
        r#"
        < list.txt  < list.txt  -I  -I{}  -I {}  -n1  -n  -n 1  -d  -d x  -a  -a list.txt  -E
        -E x  -L  -L 1  -P  -P 2  -s  -0  -r  -t  -x  --  @M@  @M@  {}  -i  -e  -l  --max-args
        --max-args=1  --replace  --replace=x  --process-slot-var=x  --arg-file=list.txt  --max-p=1
        echo  ls  find . -maxdepth 0  env  -exec
        "#,
    ),
    (
        "env",
        r#"
        -i  -  -u  -u x  -ux  --unset  --unset=x  -C  -C src  -S  -S@M@  -S @M@  -S 'x=1 @M@'
        --split-string=@M@  --split-string @M@  --split=@M@  --  x=1  CI=1  PATH=odd  @M@  @M@  ls
        -v  --chdir=src  -0  --ignore-signal  --block-signal=INT  --default-signal  -vS  -iS @M@
        -iu x
        "#,
    ),
    (
        "git",
        r#"
        -c  -c x.y=z  -c core.pager=@M@  -c alias.zz='!@M@'  -c alias.zz=!@M@  -ccore.pager=@M@
        -c core.fsmonitor=@M@  -c diff.external=@M@  -c color.ui=never  --exec-path
        --exec-path=odd  -p  -P  -C  -C src  --git-dir  --git-dir=.git  --work-tree  --no-pager
        --paginate  --config-env  --config-env=core.pager=HOME  --namespace  status  log  diff  zz
        grep  show  -O  -O@M@  --open-files-in-pager=@M@  --open-f=@M@  --ext-diff  --textconv  fn
        -1  --  fetch  --upload-pack  --upload-pack=@M@  --upload-p=@M@  .  commit  -m  -m x  -am
        --allow-empty  -e  --exec  -x  -x @M@  rebase  @M@  branch  --edit-description  tag  -a
        config  alias.zz  !@M@  HEAD  --output=run.sh  --output  archive  --remote=.  --exec=@M@
        --format=tar  bisect  run  ls-remote  clone  out/c  --template  --template=odd  --config
        submodule  foreach  stash  add  -p  difftool  -y  push  --receive-pack=@M@  pull  remote
        notes  blame
        "#,
    ),
    (
        "sed",
        r#"
        -n  -e  -e p  -ep  1e@M@  '1e @M@'  -e '1e @M@'  e  -f  -f x  -fx  --expression
        --expression='1e @M@'  --expr='1e @M@'  -i  -ibak  -s  -E  -nE  -ne  -ni  --  -l  -l 5
        --line-length  --line-length=5  f  f  s/o/@M@/e  's/.*/@M@/e'  's/.*/@M@/w s.sh'  'w s.sh'
        'r f'  p  d  1,2p  '/x/d'  --posix  --sandbox  --debug  -z  '1!e @M@'  '$e @M@'
        '{e @M@@n@}'  '/e/e @M@'  's,a,b,;e'  'y/e/@M@/'  'a\@n@e @M@'  -e 'a\' -e 'e @M@'
        "#,
    ),
    (
        "awk",
        r#"
        -F  -F:  -F :  -v  -v x=1  -vx=@M@  -f  -f x.awk  --  '{print}'  '{print $1}'
        'BEGIN{system("@M@")}'  '{print | "@M@"}'  'BEGIN{"@M@" | getline}'  '{print > "run.sh"}'
        '/a|b/'  '{print "a|b"}'  '{print $1 /2/ 3}'  f  f  x=1  -W  -W exec  --file  --version
        '{a["sys" "tem"]}'  '{@@f()}'  'BEGIN{f="system"; @@f("@M@")}'  '{print@n@|"@M@"}'
        '{close("@M@")}'
        "#,
    ),
    (
        "install",
        r#"
        -m  -m 644  --mode  --mode=644  --  -s  -sm  --strip  --strip-program  --strip-program=@M@
        --strip-p=@M@  --strip-program @M@  -t  -t out  -D  -d  -o  -g  -S  --suffix  -b  --backup
        f  g  out/  -v  -C  -p
        "#,
    ),
    (
        "zip",
        r#"
        -q  -T  -TT  -TT @M@  @M@  a.zip  a.zip f  f  -r  -x  -i  -b  -n  -t  -qT  -qTT  --  -@@
        -P  --unzip-command  --unzip-command=@M@  --unzip-command @M@  -m  -j  -9  --test  src
        -qr
        "#,
    ),
    (
        "make",
        r#"
        -f  -f -  -f Makefile  -n  -C  -C src  -j  -j2  -k  -s  --eval  --eval='all:;@M@'
        --ev='x:;@M@'  test  all  x=1  SHELL=@M@  MAKE=@M@  -e  -I  -o  -W  --  -B  -i
        x='$(shell @M@)'  -E 'all:;@M@'  V=1  --silent
        "#,
    ),
    (
        "timeout",
        r#"
        1  1  5s  -s  -s KILL  -sKILL  -k  -k 1  --signal  --signal=INT  --kill-after=1
        --foreground  --preserve-status  -v  --  @M@  @M@  ls
        "#,
    ),
    (
        "nice",
        r#"
        -n  -n 1  -1  --adjustment  --adjustment=1  --  @M@  @M@  ls
        "#,
    ),
    (
        "nohup",
        r#"
        --  @M@  @M@  ls  2>&1
        "#,
    ),
    (
        "rsync",
        r#"
        -a  -e  -e @M@  -ae @M@  --rsh=@M@  --rsh  --rsync-path=@M@  src/  out/  h:x  --  -f
        --filter  --exclude  --exclude=x  -n  -v  -M
        "#,
    ),
    (
        "sqlite3",
        r#"
        :memory:  :memory:  -cmd  -cmd '.shell @M@'  -init  -init f  -batch  -separator
        -separator ,  '.shell @M@'  '.sh @M@'  '.system @M@'  'select 1'  --  -csv  -readonly
        -safe  '.output |@M@'  '.import |@M@ t'  ".once '|@M@'"  'select edit(1, "@M@")'  -line
        <<< '.shell @M@'  <<< 'select 1;'
        "#,
    ),
    (
        "bash",
        r#"
        -c  -c @M@  -c 'echo x'  @M@  -e  -x  -o  -o posix  -O  -O extglob  --  --rcfile
        --rcfile f  run.sh  run.sh @M@  -s  -i  --norc  -p  +e  +O  -ec  -ce  -lc  --init-file f
        <<< @M@  --login  -n  --posix  -
        "#,
    ),
    (
        "sh",
        r#"
        -c  -c @M@  -ec @M@  -ce  @M@  -s  run.sh  <<< @M@  --  -  -x  +c
        "#,
    ),
    (
        "flock",
        r#"
        f  o1  -c  -c @M@  @M@  -n  -w  -w 1  --  -E  -E 3  -o  -u  3
        "#,
    ),
    (
        "setsid",
        r#"
        -w  -f  -c  @M@  --  ls  -fw
        "#,
    ),
    (
        "stdbuf",
        r#"
        -o0  -o  -o L  L  --output=0  -i0  -e  @M@  --  ls
        "#,
    ),
    (
        "exec",
        r#"
        -a  -a ls  -c  -l  -cl  --  @M@  ls  3>o1
        "#,
    ),
    (
        "command",
        r#"
        -v  -V  -p  -pv  --  @M@  ls  -v @M@  eval  exec  command
        "#,
    ),
    (
        "builtin",
        r#"
        --  echo x  eval @M@  exec @M@  command @M@  . ./run.sh  @M@
        "#,
    ),
    (
        "trap",
        r#"
        @M@  '@M@'  EXIT  0  --  -  -p  -l  DEBUG  ERR  'echo x'  INT  ''
        "#,
    ),
    (
        "read",
        r#"
        -r  -a  -a x  -d  -d ''  -n 1  -p x  -t 0  -u 0  -i  x  'a[$(@M@)]'  -e  <<< @code@
        RANDOM  --  IFS
        "#,
    ),
    (
        "printf",
        r#"
        -v  -v x  -v 'a[$(@M@)]'  -v RANDOM  %s  %d  '%q\n'  @code@  '@code@'  --  x  '%(%s)T'
        "#,
    ),
    (
        "declare",
        r#"
        -a  -A  -i  -n  -x  -r  -g  -f  -p  -ai  +x  --  x  x=1  x='@code@'  'a=($(@M@))'
        a=($(@M@))  'a[$(@M@)]=1'  n=x  x=$x  RANDOM='@code@'
        "#,
    ),
    (
        "export",
        r#"
        -n  -f  -p  --  x  x=1  'x=$(@M@)'  FOO=bar  PATH=odd  x=$(@M@)  BASH_ENV=run.sh  LC_ALL=C
        'a[$(@M@)]=1'
        "#,
    ),
    (
        "test",
        r#"
        -v  -f  f  -n  x  =  -eq  0  '@code@'  -a  -o  !  \(  \)  -t  "$x"
        "#,
    ),
];

/// One call, sometimes of words that are not what they seem.
fn program_call(random: &mut Random) -> String {
    let (name, words) = TOOLS[random.below(TOOLS.len())];
    let words = words.lines().flat_map(|line| line.split("  ")).map(str::trim);
    let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
    let mut text = name.to_owned();
    for _ in 0..=random.below(6) {
        let word = if random.below(16) == 0 { "@word@" } else { random.pick(&words) };
        text.push(' ');
        text.push_str(&fill(word, random));
    }
    text
}
