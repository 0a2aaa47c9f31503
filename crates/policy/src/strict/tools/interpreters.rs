//! Interpreters, debuggers and clients of databases, whose languages can start programs.

use super::entry::{ArgumentEffect, Judged, behind, is_plain_text, refuse};
use crate::command::Word;
use crate::options::{Arguments, Doubt, has_word};

/// `python -m name` looks for the module in the working directory first.
pub(super) fn python(found: &Arguments) -> Judged {
    let inline = ["-c", "-h", "-V", "-?", "--version", "--help", "--help-all", "--help-env"];
    if found.has(&inline) || found.has(&["--help-xoptions"]) {
        return Ok(Vec::new());
    }
    if let Some(module) = found.values(&["-m"]).last() {
        let name = module.value().ok_or_else(|| format!("the word {module}"))?.replace('.', "/");
        let files = [format!("{name}.py"), format!("{name}/__main__.py")];
        return Ok(files.map(|file| ArgumentEffect::ReadsCode(Word::literal(file))).to_vec());
    }
    Ok(vec![script_of(&found.operands)])
}

/// Perl and Ruby: with `-i` the operands are files that change.
pub(super) fn perl(found: &Arguments) -> Judged {
    let mut operands = found.operands.as_slice();
    let mut effects = Vec::new();
    if !found.has(&["-e", "-E", "-h", "-v", "-V", "--version", "--help", "--copyright"]) {
        effects.push(script_of(operands));
        operands = operands.get(1..).unwrap_or_default();
    }
    if found.has(&["-i"]) {
        effects.extend(operands.iter().cloned().map(ArgumentEffect::Writes));
    }
    Ok(effects)
}

fn script_of(operands: &[Word]) -> ArgumentEffect {
    match operands.first() {
        Some(word) if !word.is("-") => ArgumentEffect::ReadsCode(word.clone()),
        Some(_) | None => ArgumentEffect::ReadsCodeFromInput,
    }
}

/// A class, or a source file. `@file` holds further options, and so does one after `-jar`, as
/// long as the name of the program has not been read.
pub(super) fn java(found: &Arguments) -> Judged {
    let has_main = found.has(&["-jar", "-m", "--module"]);
    match found.operands.first() {
        Some(word) if !has_main && word.text.starts_with('@') => Err(format!("the word {word}")),
        Some(word) if !has_main && word.text.ends_with(".java") => {
            Ok(vec![ArgumentEffect::ReadsCode(word.clone())])
        }
        Some(_) | None => match found.values(&["-jar", "-m", "--module"]).next() {
            Some(word) if word.text.starts_with('@') => Err(format!("the word {word}")),
            Some(_) | None => Ok(Vec::new()),
        },
    }
}

/// Refuses `@file`, which holds further options, and `/p:name=value`, which is one for MSBuild.
pub(super) fn no_argument_files(found: &Arguments) -> Judged {
    let values = found.options.iter().filter_map(|given| given.value.as_ref());
    let is_option = |word: &&Word| {
        word.text.starts_with('@') || (word.text.starts_with('/') && word.text.contains(':'))
    };
    match found.operands.iter().chain(values).find(is_option) {
        Some(word) => Err(format!("the word {word}")),
        None => Ok(Vec::new()),
    }
}

/// Commands of a debugger that only print.
const DEBUGGER_COMMANDS: [&str; 22] = [
    "bt",
    "bt full",
    "backtrace",
    "backtrace full",
    "where",
    "info threads",
    "info registers",
    "info sharedlibrary",
    "info locals",
    "info args",
    "info frame",
    "info line",
    "info signals",
    "thread apply all bt",
    "thread apply all bt full",
    "thread apply all backtrace",
    "thread backtrace all",
    "bt all",
    "quit",
    "q",
    "detach",
    "set pagination off",
];

pub(super) fn gdb(found: &Arguments) -> Judged {
    let is_run = |word: &&Word| ["run", "r", "start"].iter().any(|name| word.is(name));
    let commands: Vec<_> = found.values(&["-ex", "--eval-command", "-o", "--one-line"]).collect();
    let unknown =
        |word: &&Word| !is_run(word) && !DEBUGGER_COMMANDS.iter().any(|known| word.is(known));
    if let Some(word) = commands.iter().copied().find(unknown) {
        return Err(format!("the command {word}"));
    }
    let is_batch = found.has(&["--batch", "-batch", "--batch-silent", "-b"]);
    let mut effects = Vec::new();
    if !is_batch && !found.has(&["--version", "-v", "--help", "-h", "--configuration"]) {
        effects.push(ArgumentEffect::ReadsCodeFromInput);
    }
    let starts = commands.iter().copied().any(|word| is_run(&word));
    let has_program = found.has(&["--args", "-args"]) || starts;
    if has_program && !found.operands.is_empty() {
        effects.push(ArgumentEffect::Runs(found.operands.clone()));
    } else if let Some(word) = found.operands.iter().find(|word| word.text.starts_with('-')) {
        return Err(format!("the word {word}"));
    }
    Ok(effects)
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
    const VERBS: &str = "select insert update delete with explain create drop alter pragma begin commit \
        rollback values replace vacuum analyze reindex show describe desc use set truncate \
        grant revoke table";
    let doubt = || format!("the word {word}");
    let text = word.value().ok_or_else(doubt)?;
    // A backslash starts a command of the client, and so does a dot before a line.
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
        if !starts_with_verb || !has_word(VERBS, verb.as_str()) {
            return Err(doubt());
        }
    }
    Ok(())
}

/// `sqlite3 FILE SQL…`; without SQL it reads SQL and dot commands from its input.
pub(super) fn sqlite(found: &Arguments) -> Judged {
    // These functions and statements load libraries, start an editor and write files.
    const REFUSED: [&str; 6] =
        ["load_extension", "edit", "writefile", "attach", "into_file", "fts3_tokenizer"];
    if found.has(&["-version", "--version", "-help", "--help"]) {
        return Ok(Vec::new());
    }
    let Some(file) = found.operands.first() else {
        return Ok(vec![ArgumentEffect::ReadsCodeFromInput]);
    };
    let statements = behind(&found.operands, 1)?;
    let mut effects = vec![ArgumentEffect::Writes(file.clone())];
    if found.has(&["-readonly", "--readonly"]) || file.is(":memory:") {
        effects.clear();
    }
    if statements.is_empty() {
        effects.push(ArgumentEffect::ReadsCodeFromInput);
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

pub(super) fn psql(found: &Arguments) -> Judged {
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
        const KNOWN: &str =
            "ON_ERROR_STOP AUTOCOMMIT QUIET VERBOSITY format border pager null footer";
        let (name, value) = word.text.split_once('=').unwrap_or((&word.text, ""));
        if !has_word(KNOWN, name) || word.value().is_none() || !is_plain_text(value) {
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
    Ok(reads_input.then_some(ArgumentEffect::ReadsCodeFromInput).into_iter().collect())
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

pub(super) fn mysql(found: &Arguments) -> Judged {
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
    Ok(reads_input.then_some(ArgumentEffect::ReadsCodeFromInput).into_iter().collect())
}

/// Commands of Redis that read or change keys, not the server.
const REDIS_COMMANDS: &str = "get set del exists keys scan type ttl pttl expire persist incr decr \
    incrby append strlen mget mset hget hset hgetall hkeys hvals hdel hlen lrange llen lpush rpush \
    lpop rpop smembers sadd srem scard sismember zrange zadd zrem zcard zscore zrevrange xlen xrange \
    xinfo xread ping info dbsize time echo publish subscribe memory object rename unlink flushdb \
    flushall monitor role lastsave randomkey select client slowlog pubsub";

pub(super) fn redis(found: &Arguments) -> Judged {
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
        return Ok(reads_input.then_some(ArgumentEffect::ReadsCodeFromInput).into_iter().collect());
    };
    let name = first.value().unwrap_or_default().to_ascii_lowercase();
    let is_config_get = name == "config"
        && found.operands.get(1).is_some_and(|word| word.text.eq_ignore_ascii_case("get"));
    let is_known = has_word(REDIS_COMMANDS, &name);
    if is_known || is_config_get { Ok(Vec::new()) } else { Err(format!("the command {first}")) }
}

pub(super) fn mongo(found: &Arguments) -> Judged {
    let scripts = found.operands.iter().filter(|word| word.text.ends_with(".js"));
    let mut effects: Vec<_> = scripts.cloned().map(ArgumentEffect::ReadsCode).collect();
    let is_told = found.has(&["--eval", "-f", "--file", "--version", "-h", "--help"]);
    if effects.is_empty() && !is_told {
        effects.push(ArgumentEffect::ReadsCodeFromInput);
    }
    Ok(effects)
}

#[cfg(test)]
mod tests {
    use crate::strict::tools::tests::{check, harmless};

    #[test]
    fn everyday_use_of_interpreters_is_known() {
        harmless(
            "python -m pytest -q tests/test_api.py::test_login
        python3 -c 'print(1); print(2)'
        python3 -u -W ignore script.py --flag -x
        python3 -m venv .venv
        python3 -m pip install -r requirements.txt
        python3 -m json.tool data.json
        python3 -m http.server 8000
        python3.11 -X dev -m unittest discover -s tests
        python3 --version
        python -V
        python manage.py migrate
        node --version
        node -e 'console.log(1)'
        node -p process.version
        node --test
        node --test --test-reporter=spec test/
        node --max-old-space-size=4096 build.js --watch
        node --experimental-vm-modules node_modules/jest/bin/jest.js --ci
        node -r dotenv/config server.js
        node --check index.js
        deno run --allow-net main.ts
        deno test -A
        deno fmt --check
        deno task build
        ruby -v
        ruby -Ilib -Itest test/x_test.rb
        ruby -e 'puts 1'
        ruby -rjson -e 'puts 1'
        perl -ne 'print if /x/' file.txt
        perl -pi -e 's/a/b/' file.txt
        perl -MData::Dumper -e 'print 1'
        perl -lane 'print $F[0]' f
        perl script.pl a b
        php -v
        php -l index.php
        php artisan migrate --force
        php -r 'echo 1;'
        php -S localhost:8000 -t public
        lua script.lua
        Rscript -e '1+1'
        julia --project=. test/runtests.jl
        java -version
        java -jar app.jar --server.port=8080
        java -Xmx2g -cp build/classes:lib/x.jar com.example.Main -x
        java Main.java
        javac -d out src/Main.java
        dotnet build -c Release
        dotnet test --no-build --filter Name=x
        swift build -c release
        mix test test/x_test.exs
        gdb -batch -ex bt ./app core
        gdb -p 1234 --batch -ex 'thread apply all bt'
        octave --eval 1+1",
        );
    }

    #[test]
    fn scripts_are_named() {
        check(
            "python x.py -c => opaque; code x.py
        python -m tool.x => code tool/x.py; code tool/x/__main__.py
        python => code from input
        python - => code from input
        node => code from input
        node -r ./hook.js app.js => code ./hook.js; code app.js
        perl x.pl => code x.pl
        perl -pi -e 's/a/b/' f g => writes f; writes g
        perl => code from input
        ruby -I lib x.rb => code lib; code x.rb
        php => code from input
        java -cp x.jar Main => code x.jar
        java -jar x.jar => code x.jar
        tclsh => code from input
        gdb --args ./app x => runs ./app x
        gdb -batch -ex run ./app => runs ./app
        gdb ./app => code from input
        lua -e 1 => opaque",
        );
    }

    #[test]
    fn options_that_name_programs_are_in_doubt() {
        check(
            "node --openssl-config=x a.js => the option --openssl-config
        node --env-file=.env a.js => the option --env-file
        java -XX:OnError=id Main => the option -XX:OnError
        java -XX:OnOutOfMemoryError=id Main => the option -XX:OnOutOfMemoryError
        java -javaagent:x.jar Main => the option -javaagent:x.jar
        java -agentlib:jdwp=launch=id Main => the option -agentlib:jdwp
        java @args => the word @args
        javac @args => the word @args
        javac -J-XX:OnError=id X.java => the option -J-XX:OnError
        javac -processor X X.java => the option -processor
        php -d extension=x.so a.php => the option -d
        php -c . a.php => the option -c
        php -z x.so => the option -z
        gdb -batch -ex '!id' => the command !id
        gdb -batch -ex 'shell id' => the command shell id
        gdb -x cmds => the option -x
        lldb -b -o 'platform shell id' => the command platform shell id
        ghc -pgmF ./x a.hs => the option -pgmF
        ghc -e 1 => the option -e
        dotnet exec x.dll => the subcommand exec
        dotnet build -p:X=Y => the option -p
        dotnet build /p:X=Y => the word /p:X=Y
        mix cmd id => the subcommand cmd
        swift build -Xlinker x => the option -X
        deno repl => the subcommand repl
        octave --persist => the option --persist",
        );
    }

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
