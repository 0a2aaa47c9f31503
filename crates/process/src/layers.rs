//! The order of this crate's modules, as a test.

use std::fs;
use std::path::{Path, PathBuf};

/// From the bottom up: each module names only modules before it.
const ORDER: [&str; 33] = [
    // The kernel, and types that everybody shares.
    "syscalls",
    "confinement",
    "wire",
    "processes",
    "load",
    "start_error",
    "env_variable",
    "job_user",
    "launch",
    "handover",
    "own_process",
    "known_files",
    "open_files",
    "exit",
    "detached",
    "tree_activity",
    // The processes beside the server.
    "sandbox",
    "spawn_request",
    "shim",
    "keeper",
    // The server's side.
    "job_cgroup",
    "cgroup",
    "job_resources",
    "shim_link",
    "tree",
    "stdio",
    "shell",
    "process",
    "sandbox_support",
    "gate_support",
    "host",
    "spawn",
    "sockets",
];

fn rust_files(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    entries.filter(|path| path.is_dir() || path.extension().is_some_and(|it| it == "rs")).collect()
}

/// Returns the files in a directory and below it.
fn all_rust_files(directory: &Path) -> Vec<PathBuf> {
    let below = |path: PathBuf| if path.is_dir() { all_rust_files(&path) } else { vec![path] };
    rust_files(directory).into_iter().flat_map(below).collect()
}

/// Returns the names that the code of a file, without its tests, takes from the root of the crate.
fn named_modules(file: &Path) -> Vec<String> {
    let text = fs::read_to_string(file).unwrap();
    let code = text.split("\n#[cfg(test)]\nmod tests {").next().unwrap();
    let code = code.lines().map(|line| line.split("//").next().unwrap());
    let name = |rest: &str| rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
    code.flat_map(|line| line.split("crate::").skip(1).map(name).collect::<Vec<_>>()).collect()
}

#[test]
fn no_module_names_one_above_it() {
    let mut seen = 0;
    for path in rust_files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src")) {
        let module = path.file_stem().unwrap().to_str().unwrap();
        if ["lib", "layers"].contains(&module) {
            continue;
        }
        let files = if path.is_dir() { all_rust_files(&path) } else { vec![path.clone()] };
        let place = |name: &str| ORDER.iter().position(|it| *it == name);
        let own = place(module).unwrap_or_else(|| panic!("{module} has no place in the order"));
        for file in files.iter().filter(|file| !file.ends_with("tests.rs")) {
            for name in named_modules(file).iter().filter(|name| *name != module) {
                let is_below = place(name).is_some_and(|other| other < own);
                assert!(is_below, "{} names `{name}`, which is no module below it", file.display());
                seen += 1;
            }
        }
    }
    assert!(seen > 100, "{seen}");
}
