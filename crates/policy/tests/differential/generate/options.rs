//! Calls of programs that can start programs, with options in any order: dangerous options,
//! harmless ones, options that take the next word, abbreviations, clusters and `--`.

use super::everyday::fill;
use super::script::Random;

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
pub(super) fn call(random: &mut Random) -> String {
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
