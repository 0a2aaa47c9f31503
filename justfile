# Recipes for everyday work. `just` is packaged as `just` (Debian, Homebrew, cargo) and `rust-just` (PyPI).

# Format, lints and unit tests: run it before each commit.
check:
    cargo fmt --all --check
    cargo clippy --workspace --all-targets --all-features -- -D warnings
    cargo test --workspace --all-features --lib

# Everything that needs no other language or server.
quick:
    tests/run.sh --quick

# Every test.
test:
    tests/run.sh

# One end-to-end test, or those whose names contain the text.
it name:
    cargo test --workspace --all-features --test it -- {{name}}

# Licences, banned packages, sources and advisories, by cargo-deny.
deny:
    cargo deny --all-features check
