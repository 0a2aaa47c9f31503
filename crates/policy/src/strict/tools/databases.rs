//! Clients of databases: their commands can start programs, so only plain SQL is known.
//!
//! An entry marked "Unchecked", or without a version, has yet to be compared with the program's own
//! help; the version is the one that it is meant for.

use super::consequence::{Consequence, Doubt};
use super::dispatch::Judgement;
use super::entry::{
    OPAQUE, OperandRole, PLAIN, ToolEntry, behind, is_plain_text, judge_by, refuse,
};
use super::options::Arguments;
use crate::command::Word;

const TABLE: &[ToolEntry] = &[
    // SQLite 3.40.1, sqlite3 --help. `-cmd`, `-init` and `-A` run dot commands.
    ToolEntry {
        names: "sqlite3 sqlite",
        options: "-append -ascii -bail -batch -box -column -csv -deserialize -echo -header -noheader \
            -headers= -help -html -json -line -list -markdown -maxsize= -mmap= -newline= -nofollow \
            -nullvalue= -quote -readonly -safe -separator= -stats -table -tabs -version --version \
            --help --csv --json --header --noheader --box --column --table --markdown --line --list \
            --batch --bail --readonly --separator= --safe --html --tabs --nullvalue=",
        operands: OperandRole::Judged(sqlite),
        ..PLAIN
    },
    // psql 15, psql --help. `-f` runs a file of commands, `-v` sets variables that some run,
    // `-o` and `-L` may name a pipe.
    ToolEntry {
        names: "psql",
        options: "-c== --command= -d= --dbname= -f= --file= -l --list -V --version -X --no-psqlrc -1 \
            --single-transaction -? --help? -a --echo-all -b --echo-errors -e --echo-queries -E \
            --echo-hidden -n --no-readline -q --quiet -A --no-align --csv -F= \
            --field-separator= -H --html -t --tuples-only -x --expanded -z --field-separator-zero -0 \
            --record-separator-zero -R= --record-separator= -h= --host= -p= --port= -U= --username= \
            -w --no-password -W --password -v= --set= --variable= -P= --pset=",
        code: "-f --file",
        operands: OperandRole::Judged(psql),
        ..PLAIN
    },
    // MariaDB 10.11, mysql --help (unchecked: MySQL 8). `--pager`, `--plugin-dir`,
    // `--init-command`, `--tee` and `--defaults-file` are not listed.
    ToolEntry {
        names: "mysql mariadb",
        options: "-? --help -A --no-auto-rehash -B --batch --binary-as-hex --binary-mode \
            --column-names -N --skip-column-names --column-type-info -c --comments -C --compress \
            --connect-timeout= -D= --database= --default-character-set= -e== --execute== -f --force \
            -h= --host= -H --html --max-allowed-packet= --net-buffer-length= -b --no-beep -p? \
            --password? -P= --port= --protocol= -q --quick -r --raw -U --safe-updates -s --silent -S= \
            --socket= --ssl --skip-ssl --ssl-ca= --ssl-cert= --ssl-key= --ssl-mode= -t --table -n \
            --unbuffered -u= --user= -v --verbose -V --version -E --vertical -w --wait -X --xml",
        operands: OperandRole::Judged(mysql),
        ..PLAIN
    },
    // Dumps: pg_dump 15 --help; unchecked: mysqldump 10.11. They print, or write one file.
    ToolEntry {
        names: "pg_dump pg_dumpall pg_restore",
        options: "-a -b -B -c -C -E= -n= -N= -O -s -t= -T= -x -F= -j= -f= -v -Z= -d= -h= -p= -U= -w -W -l \
            -g -r -1 --data-only --schema-only --clean --create --if-exists --no-owner --no-acl \
            --no-privileges --schema= --table= --exclude-table= --format= --file= --jobs= --verbose \
            --inserts --column-inserts --dbname= --host= --port= --username= --version --help \
            --list --single-transaction --exclude-table-data= --no-comments",
        writes: "-f --file",
        directories: "-f --file",
        ..PLAIN
    },
    ToolEntry {
        names: "mysqldump mariadb-dump mysqladmin mysqlshow",
        options: "-A --all-databases -B --databases -d --no-data -t --no-create-info -h= --host= -u= \
            --user= -p? --password? -P= --port= --single-transaction --quick --routines --triggers \
            --events --skip-lock-tables --no-tablespaces --set-gtid-purged= --column-statistics= -r= \
            --result-file= -v --verbose -V --version --help -S= --socket= --where= --skip-comments \
            --compact --add-drop-table --ignore-table= -s --silent -w? --wait? --protocol=",
        writes: "-r --result-file",
        ..PLAIN
    },
    ToolEntry {
        names: "createdb dropdb createuser dropuser pg_isready vacuumdb reindexdb",
        options: "-h= -p= -U= -w -W -d= -t= -q -O= -T= -E= -e -i -a -z -f -s -r -l --if-exists \
            --host= --port= --username= --dbname= --owner= --template= --encoding= --timeout= --version \
            --help --echo --all --analyze --full",
        ..PLAIN
    },
    // redis-cli 7.0, redis-cli --help. Without a command it reads commands from its input.
    ToolEntry {
        names: "redis-cli valkey-cli",
        options: "-h= -p= -s= -a= --user= --pass= --askpass -u= -r= -i= -n= -2 -3 -d= -c -e --tls --sni= \
            --cacert= --cacertdir= --insecure --cert= --key= --raw --no-raw --csv --json --stat \
            --latency --latency-history --bigkeys --memkeys --hotkeys --scan --pattern= --no-auth-warning \
            --version -v --help",
        operands: OperandRole::JudgedFirst(redis),
        ..PLAIN
    },
    // Unchecked. mongosh 2, mongo 4: JavaScript.
    ToolEntry {
        names: "mongosh mongo",
        options: "--eval== --quiet --host= --port= -u= --username= -p= --password= \
            --authenticationDatabase= --norc --nodb --json? --version -h --help --tls --ssl -f= --file=",
        code: "-f --file",
        operands: OperandRole::Judged(mongo),
        ..OPAQUE
    },
    ToolEntry {
        names: "mongodump mongorestore mongoexport mongoimport clickhouse clickhouse-client duckdb \
            cqlsh influx sqlcmd isql usql pgcli mycli litecli cockroach surreal tdbtool bq",
        options: "--version --help",
        operands: OperandRole::Nothing,
        ..PLAIN
    },
];

/// Judges a client of a database.
pub(super) fn consequences(program: &str, args: &[Word]) -> Judgement {
    judge_by(TABLE, program, args)
}

/// The words of SQL in lower case: everything that is not a letter, digit or `_` separates them.
fn sql_words(text: &str) -> Vec<String> {
    let lower = text.to_ascii_lowercase();
    let words = lower.split(|letter: char| !letter.is_alphanumeric() && letter != '_');
    words.filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

/// Accepts text in which each statement starts with a known verb and no refused word stands
/// anywhere, not even in a string: names in quotes are names, too.
fn check_sql(word: &Word, refused: &[&str]) -> Result<(), Doubt> {
    const VERBS: [&str; 27] = [
        "select", "insert", "update", "delete", "with", "explain", "create", "drop", "alter",
        "pragma", "begin", "commit", "rollback", "values", "replace", "vacuum", "analyze",
        "reindex", "show", "describe", "desc", "use", "set", "truncate", "grant", "revoke",
        "table",
    ];
    let doubt = || format!("the word {word}");
    let text = word.value().ok_or_else(doubt)?;
    // A backslash starts a command of the client, and so does a dot in front of a line.
    let has_dot = text.lines().any(|line| line.trim_start().starts_with('.'));
    if text.contains('\\') || has_dot || text.contains('\0') {
        return Err(doubt());
    }
    let words = sql_words(text);
    if words.iter().any(|found| refused.contains(&found.as_str())) {
        return Err(doubt());
    }
    for statement in text.split(';').map(str::trim).filter(|statement| !statement.is_empty()) {
        let verb = sql_words(statement).into_iter().next().unwrap_or_default();
        let starts_with_verb = statement.to_ascii_lowercase().starts_with(&verb);
        if !starts_with_verb || !VERBS.contains(&verb.as_str()) {
            return Err(doubt());
        }
    }
    Ok(())
}

/// `sqlite3 FILE SQL…`; without SQL it reads SQL and dot commands from its input.
fn sqlite(found: &Arguments) -> Result<Vec<Consequence>, Doubt> {
    // These functions and statements load libraries, start an editor and write files.
    const REFUSED: [&str; 6] =
        ["load_extension", "edit", "writefile", "attach", "into_file", "fts3_tokenizer"];
    if found.has(&["-version", "--version", "-help", "--help"]) {
        return Ok(Vec::new());
    }
    let Some(file) = found.operands.first() else {
        return Ok(vec![Consequence::ReadsCodeFromInput]);
    };
    let statements = behind(&found.operands, 1)?;
    let mut effects = vec![Consequence::Writes(file.clone())];
    if found.has(&["-readonly", "--readonly"]) || file.is(":memory:") {
        effects.clear();
    }
    if statements.is_empty() {
        effects.push(Consequence::ReadsCodeFromInput);
    }
    for statement in statements {
        check_sql(statement, &REFUSED)?;
        let words = sql_words(&statement.text);
        // `vacuum into` writes another file.
        if words.iter().any(|word| word == "vacuum") && words.iter().any(|word| word == "into") {
            return Err(format!("the word {statement}"));
        }
    }
    Ok(effects)
}

fn psql(found: &Arguments) -> Result<Vec<Consequence>, Doubt> {
    // Words by which the server starts programs or reads and writes its own files.
    const REFUSED: [&str; 9] = [
        "program",
        "lo_export",
        "lo_import",
        "pg_file_write",
        "language",
        "extension",
        "copy",
        "load",
        "system",
    ];
    for word in found.values(&["-v", "--set", "--variable", "-P", "--pset"]) {
        const KNOWN: [&str; 9] = [
            "ON_ERROR_STOP",
            "AUTOCOMMIT",
            "QUIET",
            "VERBOSITY",
            "format",
            "border",
            "pager",
            "null",
            "footer",
        ];
        let (name, value) = word.text.split_once('=').unwrap_or((&word.text, ""));
        if !KNOWN.contains(&name) || word.value().is_none() || !is_plain_text(value) {
            return Err(format!("the setting {name}"));
        }
    }
    // A connection may take its key from an engine, which is a library.
    let databases = found.operands.iter().chain(found.values(&["-d", "--dbname"]));
    refuse(databases, |word| word.value().is_none_or(|text| text.contains("engine")))?;
    let commands: Vec<_> = found.values(&["-c", "--command"]).collect();
    for command in &commands {
        if !is_listing(command) {
            check_sql(command, &REFUSED)?;
        }
    }
    let is_told = found.has(&["-f", "--file", "-l", "--list", "-V", "--version", "-?", "--help"]);
    let from_input = found.values(&["-f", "--file"]).any(|word| word.is("-"));
    let reads_input = from_input || (commands.is_empty() && !is_told);
    Ok(reads_input.then_some(Consequence::ReadsCodeFromInput).into_iter().collect())
}

/// `\dt`, `\d+ table`, `\l`: commands of psql that only list.
fn is_listing(word: &Word) -> bool {
    let Some(command) = word.value().and_then(|text| text.strip_prefix('\\')) else {
        return false;
    };
    let (name, rest) = command.split_once(' ').unwrap_or((command, ""));
    let is_name = name == "l" || name == "conninfo" || name == "l+" || name == "z";
    let is_describe = name.starts_with('d')
        && name.bytes().all(|byte| byte.is_ascii_alphabetic() || byte == b'+')
        && name.len() <= 4;
    let is_pattern = |letter: char| letter.is_ascii_alphanumeric() || "_.*\"".contains(letter);
    (is_name || is_describe) && rest.chars().all(is_pattern)
}

fn mysql(found: &Arguments) -> Result<Vec<Consequence>, Doubt> {
    const REFUSED: [&str; 14] = [
        "system",
        "source",
        "pager",
        "nopager",
        "tee",
        "edit",
        "outfile",
        "dumpfile",
        "delimiter",
        "load",
        "sys_exec",
        "sys_eval",
        "plugin",
        "soname",
    ];
    let commands: Vec<_> = found.values(&["-e", "--execute"]).collect();
    commands.iter().try_for_each(|command| check_sql(command, &REFUSED))?;
    let is_told = found.has(&["-V", "--version", "-?", "--help"]);
    let reads_input = commands.is_empty() && !is_told;
    Ok(reads_input.then_some(Consequence::ReadsCodeFromInput).into_iter().collect())
}

/// Commands of Redis that read or change keys, not the server.
const REDIS_COMMANDS: &str = "get set del exists keys scan type ttl pttl expire persist incr decr \
    incrby append strlen mget mset hget hset hgetall hkeys hvals hdel hlen lrange llen lpush rpush \
    lpop rpop smembers sadd srem scard sismember zrange zadd zrem zcard zscore zrevrange xlen xrange \
    xinfo xread ping info dbsize time echo publish subscribe memory object rename unlink flushdb \
    flushall monitor role lastsave randomkey select client slowlog pubsub";

fn redis(found: &Arguments) -> Result<Vec<Consequence>, Doubt> {
    const MODES: [&str; 11] = [
        "--stat",
        "--latency",
        "--latency-history",
        "--bigkeys",
        "--memkeys",
        "--hotkeys",
        "--scan",
        "--version",
        "-v",
        "--help",
        "--askpass",
    ];
    let Some(first) = found.operands.first() else {
        let reads_input = !found.has(&MODES);
        return Ok(reads_input.then_some(Consequence::ReadsCodeFromInput).into_iter().collect());
    };
    let name = first.value().unwrap_or_default().to_ascii_lowercase();
    let is_config_get = name == "config"
        && found.operands.get(1).is_some_and(|word| word.text.eq_ignore_ascii_case("get"));
    let is_known = REDIS_COMMANDS.split_ascii_whitespace().any(|command| command == name);
    if is_known || is_config_get { Ok(Vec::new()) } else { Err(format!("the command {first}")) }
}

fn mongo(found: &Arguments) -> Result<Vec<Consequence>, Doubt> {
    let scripts = found.operands.iter().filter(|word| word.text.ends_with(".js"));
    let mut effects: Vec<_> = scripts.cloned().map(Consequence::ReadsCode).collect();
    let is_told = found.has(&["--eval", "-f", "--file", "--version", "-h", "--help"]);
    if effects.is_empty() && !is_told {
        effects.push(Consequence::ReadsCodeFromInput);
    }
    Ok(effects)
}

#[cfg(test)]
mod tests {
    use super::super::table_checks::{check, harmless};

    #[test]
    fn plain_sql_is_known() {
        harmless(
            "sqlite3 app.db 'select count(*) from users;'
            sqlite3 -header -column app.db 'SELECT * FROM t LIMIT 5'
            sqlite3 -json app.db 'select 1'
            sqlite3 --version
            sqlite3 app.db 'insert into t values (1); select 2'
            psql -c 'select 1'
            psql -h localhost -U postgres -d app -tAc 'SELECT version()'
            psql -U postgres -c '\\dt'
            psql -c '\\d+ public.users'
            psql -l
            psql -f schema.sql
            psql -v ON_ERROR_STOP=1 -f schema.sql
            psql --version
            mysql -u root -e 'show databases'
            mysql -uroot -psecret app -e 'select * from t'
            mysqldump -u root app
            pg_dump -Fc -f out.dump app
            pg_isready -h localhost
            redis-cli ping
            redis-cli -h localhost get key
            redis-cli KEYS pattern
            redis-cli config get maxmemory
            mongosh --quiet --eval 'db.stats()'",
        );
    }

    #[test]
    fn commands_of_clients_are_in_doubt() {
        check(
            "sqlite3 => code from input
            sqlite3 :memory: => code from input
            sqlite3 a.db 'select 1' => writes a.db
            sqlite3 a.db '.shell id' => the word .shell id
            sqlite3 a.db ' .system id' => the word  .system id
            sqlite3 a.db 'select load_extension(1)' => the word select load_extension(1)
            sqlite3 a.db 'select edit (1, 2)' => the word select edit (1, 2)
            sqlite3 a.db 'select writefile(1,2)' => the word select writefile(1,2)
            sqlite3 a.db 'vacuum into 1' => the word vacuum into 1
            sqlite3 a.db 'attach 1 as x' => the word attach 1 as x
            sqlite3 a.db -cmd '.shell id' => the option -cmd
            sqlite3 -init x a.db => the option -init
            sqlite3 --cmd x => the option --cmd
            sqlite3 -A c => the option -A
            psql => code from input
            psql -c '\\! id' => the word \\! id
            psql -c '\\dt `id`' => the word \\dt `id`
            psql -c 'select 1 \\g |id' => the word select 1 \\g |id
            psql -c 'copy t from program x' => the word copy t from program x
            psql -c 'COPY t TO PROGRAM x' => the word COPY t TO PROGRAM x
            psql -o '|id' -c 'select 1' => the option -o
            psql -v PROMPT1=x => the setting PROMPT1
            psql 'sslkey=engine:x' -c 'select 1' => the word sslkey=engine:x
            psql -f - => code from input
            psql -P pager_x=1 -c 'select 1' => the setting pager_x
            mysql -e 'system id' => the word system id
            mysql -e '\\! id' => the word \\! id
            mysql --pager=id -e 'select 1' => the option --pager
            mysql -e 'select 1 into outfile 2' => the word select 1 into outfile 2
            mysql --plugin-dir=x => the option --plugin-dir
            mysql --defaults-file=x => the option --defaults-file
            mysql db => code from input
            redis-cli config set dir /x => the command config
            redis-cli eval x 0 => the command eval
            redis-cli module load x => the command module
            redis-cli --eval x => the option --eval
            redis-cli -x set k => the option -x
            redis-cli => code from input
            mongosh => code from input
            mongosh x.js => code x.js
            duckdb x => the word x",
        );
    }
}
