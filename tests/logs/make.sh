#!/usr/bin/env bash
# Makes the logs beside this file by really running the tools, each in a fresh folder. They are
# test data for the digest; the tests only read them. What is named in the arguments is made
# again, without any all of it:
#
#     tests/logs/make.sh [NAME…]
#
# Needs cargo, gcc, make, git, node and npm, python3 with venv, a JDK and script(1); go where
# there is one. Afterwards `UPDATE_DIGESTS=1 cargo test --lib corpus` writes the
# expected digests: read each of them before it is kept.
set -u
logs=$(cd "$(dirname "$0")" && pwd)
root=$(mktemp -d "${TMPDIR:-/tmp}/logs.XXXXXX")
trap 'rm -rf "$root"' EXIT
wanted=" $* "
export LC_ALL=C.UTF-8 TZ=UTC CARGO_TERM_COLOR=never CARGO_TARGET_DIR="$root/target" \
    GIT_CONFIG_GLOBAL="$root/gitconfig" GIT_CONFIG_SYSTEM=/dev/null npm_config_cache="$root/npm" \
    npm_config_userconfig="$root/npmrc" npm_config_update_notifier=false npm_config_fund=false PIP_NO_CACHE_DIR=1 PIP_NO_INPUT=1 \
    PYTHONDONTWRITEBYTECODE=1 GOFLAGS=-mod=mod GOCACHE="$root/gocache"
unset npm_config_nodedir NO_COLOR FORCE_COLOR RUST_BACKTRACE
printf '[user]\nname = A\nemail = a@example.com\n[init]\ndefaultBranch = main\n' > "$root/gitconfig"

# Nothing of the machine that made a log stays in it.
anonymous() {
    sed -E -e "s#$root/work/[a-z0-9-]+#/src/app#g" -e "s#$root#/src#g" -e "s#$HOME#/home/user#g" \
        -e "s#$(hostname)#host#g" -e 's#/tmp/cc[A-Za-z0-9]+#/tmp/cc#g' -e '/npm warn Unknown (user|env) config/d' \
        -e '/^Looking in (indexes|links)/d' -e 's#https?://[^ ]*/simple/?#https://pypi.org/simple#g' \
        -e 's#Downloading https?://[^ ]*/#Downloading #g' -e '/\[notice\]/d' \
        -e 's#/(home/user|root)/\.(pyenv/versions/[0-9.]+|rustup/toolchains/[a-z0-9_.-]+)#/usr#g' \
        -e 's#(Updating|Blocking waiting for file lock on) .*index#\1 crates.io index#'
}

# Runs the function that is named like the log, in a fresh folder, and keeps what it writes.
make_log() {
    local name=$1
    [[ $wanted == "  " || $wanted == *" $name "* ]] || return 0
    mkdir -p "$root/work/$name" && cd "$root/work/$name" || exit 1
    "prepare_$name" > /dev/null 2>&1
    "run_$name" < /dev/null 2>&1 | anonymous > "$logs/$name.log"
    printf '%-24s %7d bytes\n' "$name" "$(stat -c %s "$logs/$name.log")"
}

# A terminal of 80 columns, so that tools draw their progress.
on_terminal() { script -qec "stty cols 80 rows 24; $1" /dev/null; }

crate() {
    mkdir -p src && printf '[package]\nname = "app"\nversion = "0.1.0"\nedition = "2021"\n' > Cargo.toml
    cat > src/lib.rs
}

prepare_cargo-build() { crate <<< 'pub fn f() {}'; printf '[dependencies]\nthiserror = "2"\nserde_json = "1"\nanyhow = "1"\n' >> Cargo.toml; cargo fetch; }
run_cargo-build() { cargo build; }

prepare_cargo-build-tty() { prepare_cargo-build; }
run_cargo-build-tty() { CARGO_TERM_COLOR=always CARGO_TARGET_DIR=target on_terminal 'cargo build'; }

prepare_cargo-errors() { crate <<'RS'
use std::collections::HashMap;

pub fn total(prices: &HashMap<String, u32>) -> u64 {
    let unused = 1;
    prices.values().sum::<u32>()
}

pub fn name() -> String {
    let owned = String::from("a");
    let moved = owned;
    format!("{owned}{moved}{missing}")
}

pub trait Shape { fn area(&self) -> f64; }
pub struct Square;
impl Shape for Square {}
RS
}
run_cargo-errors() { cargo build; }

prepare_cargo-clippy() { crate <<'RS'
pub fn sum(values: &Vec<u32>) -> u32 {
    let mut total = 0;
    for i in 0..values.len() {
        total = total + values[i];
    }
    return total;
}

pub fn is_empty(text: &str) -> bool {
    let unused = 3;
    text.len() == 0
}
RS
}
run_cargo-clippy() { cargo clippy; }

prepare_cargo-test() { crate <<'RS'
/// ```
/// assert_eq!(app::add(1, 2), 3);
/// ```
pub fn add(a: i32, b: i32) -> i32 { a + b }

#[cfg(test)]
mod tests {
    use super::*;

    #[test] fn adds() { assert_eq!(add(1, 2), 3); }
    #[test] fn adds_wrongly() { assert_eq!(add(2, 2), 5, "two and two"); }
    #[test] fn error_is_shown() -> Result<(), String> { Err("the disk is full".into()) }
    #[test] #[ignore] fn slow() {}
    #[test] #[should_panic] fn panics_on_error() { panic!("as it should") }
}
RS
mkdir tests && printf '#[test] fn whole() { assert!(app::add(1, 1) == 2); }\n#[test] fn broken() { None::<u8>.unwrap(); }\n' > tests/whole.rs; }
run_cargo-test() { cargo test --no-fail-fast; }

prepare_rust-panic() { mkdir src && printf '[package]\nname = "app"\nversion = "0.1.0"\nedition = "2021"\n' > Cargo.toml; printf 'fn main() {\n    println!("starting");\n    let port: u16 = "70000".parse().unwrap();\n    println!("{port}");\n}\n' > src/main.rs; }
run_rust-panic() { RUST_BACKTRACE=1 cargo run --quiet; }

prepare_npm-install() { printf '{"name":"app","version":"1.0.0","dependencies":{"request":"2.88.2","left-pad":"1.3.0"}}' > package.json; }
run_npm-install() { npm install; }

prepare_npm-install-tty() { prepare_npm-install; }
run_npm-install-tty() { on_terminal 'npm install'; }

prepare_npm-missing() { printf '{"name":"app","version":"1.0.0","dependencies":{"no-such-package-at-all-xyz":"1.0.0"}}' > package.json; }
run_npm-missing() { npm install; }

prepare_npm-script() { printf '{"name":"app","version":"1.0.0","scripts":{"build":"node build.js"}}' > package.json; printf 'console.log("bundling 12 modules");\nconsole.error("ERROR in ./src/index.js: Module not found: ./missing");\nprocess.exit(3);\n' > build.js; }
run_npm-script() { npm run build; }

prepare_node-stack() { printf 'const load = (name) => JSON.parse(`{"name": ${name}}`);\nfunction start() {\n  console.log("loading settings");\n  return load("oops");\n}\nstart();\n' > app.js; }
run_node-stack() { node app.js; }

prepare_jest() { printf '{"name":"app","version":"1.0.0"}' > package.json; npm install jest@29
printf 'const sum = (a, b) => a + b;\ntest("adds", () => expect(sum(1, 2)).toBe(3));\ntest("adds wrongly", () => expect(sum(2, 2)).toBe(5));\ntest.skip("later", () => {});\n' > sum.test.js
printf 'describe("store", () => {\n  test("keeps errors", () => { console.warn("Warning: slow disk"); });\n  test("loads", () => { throw new TypeError("store is undefined"); });\n});\n' > store.test.js; }
run_jest() { npx jest; }

prepare_vitest() { printf '{"name":"app","version":"1.0.0","type":"module"}' > package.json; npm install vitest@2
printf 'import { expect, test } from "vitest";\ntest("adds", () => expect(1 + 2).toBe(3));\ntest("adds wrongly", () => expect(2 + 2).toBe(5));\ntest.skip("later", () => {});\n' > sum.test.js; }
run_vitest() { npx vitest run; }

prepare_tsc() { printf '{"name":"app","version":"1.0.0"}' > package.json; npm install typescript@5
printf 'interface User { name: string; age: number }\nconst user: User = { name: "a", age: "3" };\nconsole.log(user.nam);\nexport function f(x) { return x; }\n' > app.ts; }
run_tsc() { npx tsc --strict --noEmit app.ts; }

prepare_pip-install() { python3 -m venv venv; }
run_pip-install() { venv/bin/pip install requests; }

prepare_pip-missing() { python3 -m venv venv; }
run_pip-missing() { venv/bin/pip install requests==99.0 ; }

prepare_pytest() { python3 -m venv venv; venv/bin/pip install pytest==8.3.4
cat > test_store.py <<'PY'
import warnings
import pytest

class Store:
    def load(self, name):
        warnings.warn("load is slow", DeprecationWarning)
        return {"a": 1}[name]

@pytest.fixture
def broken():
    raise RuntimeError("no database")

def test_loads(): assert Store().load("a") == 1
def test_misses(): assert Store().load("b") == 2
def test_compares(): assert [1, 2, 3] == [1, 2, 4]
def test_uses_database(broken): pass
@pytest.mark.skip
def test_later(): pass
@pytest.mark.parametrize("error", ["none", "some"])
def test_error_names(error): assert error
PY
}
run_pytest() { venv/bin/python -m pytest; }

prepare_pytest-verbose() { prepare_pytest; }
run_pytest-verbose() { venv/bin/python -m pytest -v --tb=short; }

prepare_unittest() { cat > test_sum.py <<'PY'
import unittest

class Sums(unittest.TestCase):
    def test_adds(self): self.assertEqual(1 + 2, 3)
    def test_adds_wrongly(self): self.assertEqual(2 + 2, 5)
    def test_breaks(self): [][3]
    @unittest.skip("later")
    def test_later(self): pass
PY
}
run_unittest() { python3 -m unittest -v; }

prepare_python-traceback() { cat > app.py <<'PY'
import json

def load(path):
    with open(path) as file:
        return json.load(file)

def main():
    print("reading settings", flush=True)
    try:
        load("settings.json")
    except OSError as error:
        raise RuntimeError("no settings") from error

main()
PY
}
run_python-traceback() { python3 app.py; }

c_files() { printf '#include <stdio.h>\nint twice(int x);\nint main(void) {\n    int unused;\n    char *text = 42;\n    printf("%%s\\n", twice(2));\n    return 0\n}\n' > main.c
printf 'int twice(int x) { return 2 * x; }\n' > twice.c
printf 'CFLAGS = -Wall -Wextra -Werror=format\napp: main.o twice.o\n\t$(CC) -o $@ $^\n' > Makefile; }

prepare_make() { c_files; }
run_make() { make; }

prepare_make-parallel() { c_files; sed -i 's/return 0/return 0;/; s/%s/%d/' main.c; printf 'int twice(int x) { return x }\n' > twice.c; }
run_make-parallel() { make -k -j2; }

prepare_gcc-warnings() { c_files; sed -i 's/return 0/return 0;/' main.c; }
run_gcc-warnings() { gcc -Wall -Wextra -c main.c twice.c && echo compiled; }

prepare_linker() { c_files; sed -i 's/return 0/return 0;/; s/%s/%d/; /text/d; /unused/d' main.c; }
run_linker() { gcc -o app main.c; }

prepare_segfault() { printf 'int main(void) { int *p = 0; return *p; }\n' > main.c; gcc -o app main.c; }
run_segfault() { bash -c './app; echo "exit $?"; sleep 100 & kill -9 $!; wait $!; echo "exit $?"'; }

prepare_git-conflict() { git init; echo one > file; git add .; git commit -m one; git checkout -b other; echo two > file; git commit -am two; git checkout main; echo three > file; git commit -am three; }
run_git-conflict() { git merge other; git status; }

prepare_git-fatal() { :; }
run_git-fatal() { git clone "file://$PWD/missing.git"; git -C / status; git push; }

prepare_git-clone() { git init origin; for i in $(seq 1 300); do echo "$i" > "origin/file-$i"; done; git -C origin add .; git -C origin commit -m all; }
run_git-clone() { on_terminal "git clone --progress file://$PWD/origin copy"; }

prepare_tar() { mkdir -p data/deep; for i in 1 2 3; do echo "$i" > "data/error-$i.txt"; done; tar -czf good.tgz data; head -c 150 good.tgz > short.tgz; }
run_tar() { tar -cvf all.tar data missing-folder; tar -xvzf short.tgz; }

prepare_dd() { :; }
run_dd() { on_terminal 'dd if=/dev/zero of=out bs=1M count=3000 status=progress; rm out; dd if=missing of=out'; }

prepare_java-stack() { printf 'import java.util.*;\n\npublic class App {\n    static int port(Map<String, String> settings) {\n        try {\n            return Integer.parseInt(settings.get("port"));\n        } catch (NumberFormatException e) {\n            throw new IllegalStateException("settings are broken", e);\n        }\n    }\n\n    public static void main(String[] args) {\n        System.out.println("starting");\n        System.out.println(port(Map.of("port", "http")));\n    }\n}\n' > App.java; javac App.java; }
run_java-stack() { java -cp . App; }

prepare_javac() { printf 'public class App {\n    public static void main(String[] args) {\n        int port = "80";\n        System.out.println(prot);\n    }\n}\n' > App.java; }
run_javac() { javac App.java; }

prepare_go-test() { printf 'module app\n\ngo 1.19\n' > go.mod; mkdir ok; printf 'package ok\n\nimport "testing"\n\nfunc TestFine(t *testing.T) {}\n' > ok/ok_test.go
printf 'package app\n\nimport "testing"\n\nfunc TestAdds(t *testing.T) {}\n\nfunc TestStore(t *testing.T) {\n\tt.Run("loads", func(t *testing.T) { t.Errorf("got %%d, want 2", 1) })\n\tt.Run("saves", func(t *testing.T) {})\n}\n\nfunc TestLater(t *testing.T) { t.Skip("later") }\n' > app_test.go
mkdir broken; printf 'package broken\n\nfunc f() int { return "x" }\n' > broken/broken.go; }
run_go-test() { go test -v ./...; }

prepare_quiet() { :; }
run_quiet() { python3 -c 'import http; print("\n".join(f"{s.value} {s.phrase}" for s in http.HTTPStatus))'; ls /usr/include | head -60; }

for run in $(compgen -A function run_); do
    name=${run#run_}
    [[ $name != go-* ]] || command -v go > /dev/null || continue
    make_log "$name"
done
