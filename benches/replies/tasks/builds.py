"""Builds and installations: cargo, tsc, a long build with progress, npm, make and docker."""

from random import Random

from .task import Task, add_program, add_script, place

CARGO = """\
   Compiling ledger v0.3.0 (/srv/app)
error[E0425]: cannot find value `totals` in this scope
  --> src/report.rs:12:35
   |
12 |         println!("{} of {}", sum, totals);
   |                                   ^^^^^^ not found in this scope

warning: unused import: `std::rc::Rc`
 --> src/money.rs:2:5
  |
2 | use std::rc::Rc;
  |     ^^^^^^^^^^^
  |
  = note: `#[warn(unused_imports)]` (part of `#[warn(unused)]`) on by default

warning: unused import: `std::collections::HashMap`
 --> src/main.rs:2:5
  |
2 | use std::collections::HashMap;
  |     ^^^^^^^^^^^^^^^^^^^^^^^^^

warning: unused import: `std::fmt::Write`
 --> src/main.rs:3:5
  |
3 | use std::fmt::Write;
  |     ^^^^^^^^^^^^^^^

warning: unused import: `std::collections::BTreeMap`
 --> src/report.rs:3:5
  |
3 | use std::collections::BTreeMap;
  |     ^^^^^^^^^^^^^^^^^^^^^^^^^^

warning: unnecessary parentheses around `if` condition
  --> src/report.rs:11:8
   |
11 |     if (sum > 0) {
   |        ^       ^
   |
   = note: `#[warn(unused_parens)]` (part of `#[warn(unused)]`) on by default
help: remove these parentheses
   |
11 -     if (sum > 0) {
11 +     if sum > 0 {
   |

error[E0599]: no method named `amount` found for struct `Cents` in the current scope
 --> src/report.rs:9:34
  |
9 |         sum = sum + line.clone().amount();
  |                                  ^^^^^^ method not found in `Cents`
  |
 ::: src/money.rs:5:1
  |
5 | pub struct Cents(pub i64);
  | ---------------- method `amount` not found for this struct

error[E0308]: mismatched types
  --> src/main.rs:12:26
   |
12 |     println!("{}", scale(delta));
   |                    ----- ^^^^^ expected `u32`, found `i64`
   |                    |
   |                    arguments to this function are incorrect
   |
note: function defined here
  --> src/main.rs:6:4
   |
 6 | fn scale(factor: u32) -> u32 {
   |    ^^^^^ -----------
help: you can convert an `i64` to a `u32` and panic if the converted value doesn't fit
   |
12 |     println!("{}", scale(delta.try_into().unwrap()));
   |                               ++++++++++++++++++++

Some errors have detailed explanations: E0308, E0425, E0599.
For more information about an error, try `rustc --explain E0308`.
warning: `ledger` (bin "ledger") generated 5 warnings
error: could not compile `ledger` (bin "ledger") due to 3 previous errors; 5 warnings emitted
"""


def cargo(folder):
    """cargo build with rustc 1.92: 3 errors, 5 warnings."""
    task = Task("cargo", "cargo build, 3 errors, 5 warnings", add_program(folder, "cargo", CARGO, 101, "stderr") + " build")
    task.add_exit(101)
    task.add("E0425", place("src/report.rs", 12, 35), r"cannot find value `totals`", span=2)
    task.add("E0599", place("src/report.rs", 9, 34), r"no method named `amount`", span=2)
    task.add("E0308", place("src/main.rs", 12, 26), r"mismatched types", span=2)
    task.add("warnings", r"\b5 warnings")
    return task


TSC = (
    ("src/api/client.ts", 41, 17, "TS2345", "Argument of type 'string | undefined' is not assignable to parameter of type 'string'.", ["  Type 'undefined' is not assignable to type 'string'."]),
    ("src/api/client.ts", 77, 9, "TS2322", "Type 'number' is not assignable to type 'string'.", []),
    ("src/api/client.ts", 103, 28, "TS2554", "Expected 2 arguments, but got 3.", []),
    ("src/api/routes.ts", 12, 10, "TS2305", "Module '\"./handlers\"' has no exported member 'listOrders'.", []),
    ("src/api/routes.ts", 58, 23, "TS7006", "Parameter 'req' implicitly has an 'any' type.", []),
    ("src/components/Cart.tsx", 24, 32, "TS2339", "Property 'totl' does not exist on type 'CartState'.", []),
    ("src/components/Cart.tsx", 66, 14, "TS2741", "Property 'currency' is missing in type '{ amount: number; }' but required in type 'PriceProps'.", []),
    (
        "src/components/Price.tsx", 9, 7, "TS2322",
        "Type '{ amount: string; currency: \"EUR\"; }' is not assignable to type 'IntrinsicAttributes & PriceProps'.",
        ["  Types of property 'amount' are incompatible.", "    Type 'string' is not assignable to type 'number'."],
    ),
    ("src/models/order.ts", 18, 3, "TS2564", "Property 'lines' has no initializer and is not definitely assigned in the constructor.", []),
    ("src/models/order.ts", 35, 20, "TS2532", "Object is possibly 'undefined'.", []),
    ("src/models/order.ts", 52, 5, "TS2322", "Type 'Date' is not assignable to type 'string'.", []),
    ("src/models/user.ts", 7, 24, "TS2307", "Cannot find module '@app/roles' or its corresponding type declarations.", []),
    ("src/util/dates.ts", 30, 12, "TS18047", "'match' is possibly 'null'.", []),
    ("src/util/retry.ts", 14, 31, "TS2769", "No overload matches this call.", [
        "  Overload 1 of 2, '(callback: (_: void) => void, delay?: number | undefined): Timeout', gave the following error.",
        "    Argument of type 'string' is not assignable to parameter of type 'number'.",
    ]),
)  # fmt: skip


def tsc(folder):
    """tsc 5.9 without `--pretty`: 14 errors in 8 files."""
    task = Task("tsc", "tsc, 14 errors in 8 files", "")
    task.add_exit(2)
    lines = []
    for file, line, column, code, message, details in TSC:
        lines += [f"{file}({line},{column}): error {code}: {message}", *details]
        task.add(f"{file}:{line}", place(file, line, column), code)
    task.command = add_program(folder, "tsc", "\n".join(lines) + "\n", 2) + " --noEmit -p ."
    return task


LONG_BUILD = """\
#!/usr/bin/env python3
import time

for step in range(1, 401):
    print(f"[{step:3}/400] CXX obj/module_{step * 7 % 32:03}/unit_{step:03}.o", flush=True)
    if step == 186:
        print("src/net/tls.cc:88:14: warning: 'SSL_library_init' is deprecated [-Wdeprecated-declarations]", flush=True)
    time.sleep(0.05)
print("Build finished: dist/app.bin 14.2 MB, 1 warning", flush=True)
"""


def long_build(folder):
    """A build of 20 s with 400 steps and one warning in the middle."""
    task = Task("build", "a 20 s build with 400 progress lines, polled once", add_script(folder, "build", LONG_BUILD), wait_s=5)
    task.add("progress after 5 s", r"\[ *(?:\d{2}|1\d\d)/400\] CXX")
    task.add_exit(0)
    task.add_text("warning", "src/net/tls.cc:88:14", "'SSL_library_init' is deprecated")
    task.add_text("result", "Build finished: dist/app.bin 14.2 MB, 1 warning")
    return task


NPM = """\
npm warn ERESOLVE overriding peer dependency
npm warn While resolving: react-sparklines@1.7.0
npm warn Found: react@18.3.1
npm warn node_modules/react
npm warn   react@"^18.3.1" from the root project
npm warn   9 more (@testing-library/react, react-dom, react-router, ...)
npm warn
npm warn Could not resolve dependency:
npm warn peer react@"^15.5.4 || ^16.0.0" from react-sparklines@1.7.0
npm warn node_modules/react-sparklines
npm warn   react-sparklines@"^1.7.0" from the root project
npm warn
npm warn Conflicting peer dependency: react@16.14.0
npm warn node_modules/react
npm warn   peer react@"^15.5.4 || ^16.0.0" from react-sparklines@1.7.0
npm warn   node_modules/react-sparklines
npm warn     react-sparklines@"^1.7.0" from the root project
npm error code ERESOLVE
npm error ERESOLVE could not resolve
npm error
npm error While resolving: storefront@2.3.0
npm error Found: react@18.3.1
npm error node_modules/react
npm error   react@"^18.3.1" from the root project
npm error   peer react@"^18.0.0" from @testing-library/react@16.0.1
npm error   node_modules/@testing-library/react
npm error     dev @testing-library/react@"^16.0.1" from the root project
npm error   5 more (react-dom, react-redux, react-router, react-router-dom, zustand)
npm error
npm error Could not resolve dependency:
npm error peer react@"^16.8.0 || ^17.0.0" from @material-ui/core@4.12.4
npm error node_modules/@material-ui/core
npm error   @material-ui/core@"^4.12.4" from the root project
npm error
npm error Conflicting peer dependency: react@17.0.2
npm error node_modules/react
npm error   peer react@"^16.8.0 || ^17.0.0" from @material-ui/core@4.12.4
npm error   node_modules/@material-ui/core
npm error     @material-ui/core@"^4.12.4" from the root project
npm error
npm error Fix the upstream dependency conflict, or retry
npm error this command with --force or --legacy-peer-deps
npm error to accept an incorrect (and potentially broken) dependency resolution.
npm error
npm error
npm error For a full report see:
npm error /srv/.npm/_logs/2026-03-14T09_12_44_318Z-eresolve-report.txt
npm error A complete log of this run can be found in: /srv/.npm/_logs/2026-03-14T09_12_44_318Z-debug-0.log
"""


def npm(folder):
    """npm 11: an installation fails because of a peer dependency."""
    task = Task("npm", "npm install, a peer dependency conflicts", add_program(folder, "npm", NPM, 1, "stderr") + " install")
    task.add_exit(1)
    task.add_text("code", "ERESOLVE")
    task.add_text("found", "react@18.3.1")
    task.add_text("needed by", 'peer react@"^16.8.0 || ^17.0.0" from @material-ui/core@4.12.4')
    task.add("way out", r"--legacy-peer-deps|--force|@material-ui/core@\"\^4\.12\.4\" from the root project")
    return task


MAKE_UNITS = (
    "arena", "bitmap", "buffer", "cache", "clock", "codec", "config", "cursor", "decode", "digest", "encode", "event", "filter", "format",
    "frame", "graph", "hash", "header", "heap", "index", "input", "journal", "json", "lexer", "list", "lock", "mapper", "message",
    "metric", "mount", "mutex", "node", "option", "output", "packet", "page", "parser", "path", "plugin", "pool", "queue", "reader",
    "record", "region", "ring", "router", "schema", "session", "signal", "slice", "socket", "stack", "store", "string", "table", "task",
)  # fmt: skip
# Diagnostics by the unit after whose command line gcc prints them.
MAKE_DIAGNOSTICS = {
    "heap": """\
src/hash.c: In function ‘hash_compare’:
src/hash.c:113:14: warning: comparison of integer expressions of different signedness: ‘unsigned int’ and ‘int’ [-Wsign-compare]
  113 |     return a < b;
      |              ^
""",
    "path": """\
src/packet.c: In function ‘packet_length’:
src/packet.c:61:15: error: ‘struct packet’ has no member named ‘lenght’; did you mean ‘length’?
   61 |     return p->lenght + HEADER_SIZE;
      |               ^~~~~~
      |               length
src/page.c: In function ‘page_release’:
src/page.c:27:9: warning: unused variable ‘dirty’ [-Wunused-variable]
   27 |     int dirty = page->flags & PAGE_DIRTY;
      |         ^~~~~
make: *** [Makefile:14: obj/packet.o] Error 1
make: *** Waiting for unfinished jobs....
src/parser.c: In function ‘parser_next’:
src/parser.c:204:12: error: too few arguments to function ‘lexer_read’
  204 |     return lexer_read(parser->lexer);
      |            ^~~~~~~~~~
In file included from src/parser.c:5:
include/lexer.h:19:5: note: declared here
   19 | int lexer_read(struct lexer *lexer, struct token *token);
      |     ^~~~~~~~~~
make: *** [Makefile:14: obj/parser.o] Error 1
""",
}


def make(folder):
    """make 4.3 with -j and gcc 12: two units fail, another two have warnings."""
    output = "mkdir -p obj\n"
    for unit in MAKE_UNITS:
        output += f"gcc -std=c17 -Wall -Wextra -O2 -g -Iinclude -DNDEBUG -MMD -MP -c -o obj/{unit}.o src/{unit}.c\n"
        output += MAKE_DIAGNOSTICS.get(unit, "")
        if unit == "path":
            break
    task = Task("make", "make -j8 of a C program, 2 errors", add_program(folder, "make", output, 2) + " -j8")
    task.add_exit(2)
    task.add("packet.c", place("src/packet.c", 61, 15), "no member named ‘lenght’")
    task.add("parser.c", place("src/parser.c", 204, 12), "too few arguments to function ‘lexer_read’")
    return task


APT_PACKAGES = (
    "binutils", "build-essential", "bzip2", "cpp-14", "cpp", "dpkg-dev", "fakeroot", "g++-14", "g++", "gcc-14-base", "gcc-14", "gcc", "git", "git-man",
    "libalgorithm-diff-perl", "libasan8", "libatomic1", "libbinutils", "libc-dev-bin", "libc6-dev", "libcc1-0", "libcrypt-dev", "libctf0", "libcurl3t64-gnutls",
    "libdpkg-perl", "liberror-perl", "libexpat1", "libfakeroot", "libfile-fcntllock-perl", "libgcc-14-dev", "libgdbm-compat4t64", "libgdbm6t64", "libgomp1", "libgprofng0",
    "libhwasan0", "libisl23", "libitm1", "libjansson4", "liblsan0", "libmpc3", "libmpfr6", "libnghttp2-14", "libperl5.40", "libpq-dev", "libpq5", "libpsl5t64", "libquadmath0",
    "librtmp1", "libsframe1", "libssh2-1t64", "libssl-dev", "libstdc++-14-dev", "libtsan2", "libubsan1", "linux-libc-dev", "make", "patch", "perl", "perl-modules-5.40", "pkg-config",
    "rpcsvc-proto", "xz-utils", "zlib1g-dev", "libgnutls30t64", "libhogweed6t64", "libnettle8t64", "libtasn1-6", "libunistring5", "libp11-kit0", "libidn2-0", "ca-certificates",
    "krb5-locales", "libgssapi-krb5-2", "libk5crypto3", "libkeyutils1", "libkrb5-3", "libkrb5support0", "libldap2", "libsasl2-2", "publicsuffix", "openssl", "less", "libbrotli1",
)  # fmt: skip
PIP_PACKAGES = (
    "fastapi==0.115.0", "uvicorn==0.30.6", "pydantic==2.9.2", "sqlalchemy==2.0.35", "alembic==1.13.3", "httpx==0.27.2", "numpy==2.1.1", "pandas==2.2.3", "pillow==10.4.0", "redis==5.1.0",
    "celery==5.4.0", "boto3==1.35.24",
)  # fmt: skip
DOCKER_MISSING = "torchvisoin==0.19.0"
DOCKERFILE_END = """\
Dockerfile:9
--------------------
   7 |     WORKDIR /app
   8 |     COPY requirements.txt .
   9 | >>> RUN pip install --no-cache-dir -r requirements.txt
  10 |     COPY src/ src/
  11 |     USER app
--------------------
"""


def docker(folder):
    """docker build with BuildKit's plain progress: the fifth of seven steps fails."""
    random = Random(15)

    def digest():
        return f"sha256:{random.getrandbits(256):064x}"

    output = ['#0 building with "default" instance using docker driver', ""]
    output += ["#1 [internal] load build definition from Dockerfile", "#1 transferring dockerfile: 412B done", "#1 DONE 0.0s", ""]
    output += ["#2 [internal] load metadata for docker.io/library/python:3.12-slim", "#2 DONE 0.9s", ""]
    output += ["#3 [internal] load .dockerignore", "#3 transferring context: 84B done", "#3 DONE 0.0s", ""]
    base = f"docker.io/library/python:3.12-slim@{digest()}"
    output += [f"#4 [1/7] FROM {base}", f"#4 resolve {base} 0.0s done"]
    for size in (29.13, 3.51, 12.03, 0.25):
        layer = digest()
        output += [f"#4 {layer} {min(size, size * part / 4):.2f}MB / {size}MB {part * 0.2:.1f}s{' done' if part == 4 else ''}" for part in range(5)]
        output.append(f"#4 extracting {layer} 0.{int(size) + 1}s done")
    output += ["#4 DONE 3.9s", "", "#5 [internal] load build context", "#5 transferring context: 182.44kB 0.0s done", "#5 DONE 0.0s", ""]
    output += ["#6 [2/7] RUN apt-get update && apt-get install -y --no-install-recommends build-essential git libpq-dev"]
    clock = 0.4
    apt = [
        f"Get:{n} http://deb.debian.org/debian trixie/main amd64 {name} amd64 {random.randint(1, 9)}.{random.randint(0, 40)}-{random.randint(1, 6)} [{random.randint(8, 9000)} kB]"
        for n, name in enumerate(APT_PACKAGES, 1)
    ]
    apt += [f"Selecting previously unselected package {name}." for name in APT_PACKAGES[::2]]
    apt += [line for name in APT_PACKAGES for line in (f"Unpacking {name} ...", f"Setting up {name} ...")]
    for line in apt:
        clock += random.uniform(0.005, 0.09)
        output.append(f"#6 {clock:.3f} {line}")
    output += [f"#6 DONE {clock:.1f}s", "", "#7 [3/7] WORKDIR /app", "#7 DONE 0.0s", "", "#8 [4/7] COPY requirements.txt .", "#8 DONE 0.0s", ""]
    step = "[5/7] RUN pip install --no-cache-dir -r requirements.txt"
    output.append(f"#9 {step}")
    clock, pip = 1.1, []
    for n, package in enumerate(PIP_PACKAGES, 1):
        name, version = package.split("==")
        file = f"{name}-{version}-py3-none-any.whl"
        pip += [f"Collecting {package} (from -r requirements.txt (line {n}))", f"  Downloading {file} ({random.randint(40, 900)} kB)"]
        pip += [f"     ━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━ {random.uniform(1, 20):.1f}/{random.uniform(1, 20):.1f} MB {random.uniform(9, 90):.1f} MB/s eta 0:00:00"]
    pip += [
        f"ERROR: Could not find a version that satisfies the requirement {DOCKER_MISSING} (from versions: none)",
        f"ERROR: No matching distribution found for {DOCKER_MISSING}",
    ]
    stamped = []
    for line in pip:
        clock += random.uniform(0.01, 0.4)
        stamped.append(f"{clock:.3f} {line}")
    process = 'process "/bin/sh -c pip install --no-cache-dir -r requirements.txt" did not complete successfully: exit code: 1'
    output += [*(f"#9 {line}" for line in stamped), f"#9 ERROR: {process}", "------", f" > {step}:", *stamped[-10:], "------"]
    text = "\n".join(output) + "\n" + DOCKERFILE_END + f"ERROR: failed to solve: {process}\n"
    task = Task("docker", "docker build, one of 7 steps fails", add_program(folder, "docker", text, 1, "stderr") + " build --progress=plain .")
    task.add_exit(1)
    task.add_text("step", step)
    task.add_text("place", "Dockerfile:9")
    task.add_text("no version", f"Could not find a version that satisfies the requirement {DOCKER_MISSING}")
    task.add_text("no distribution", f"No matching distribution found for {DOCKER_MISSING}")
    return task
