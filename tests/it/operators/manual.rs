//! `man`: pages that man and mandoc accept.

use std::fs;
use std::process::Command;

use crate::harness::{Sandbox, run_program, text};

#[test]
fn every_verb_has_a_page_that_renders() {
    let sandbox = Sandbox::new();
    let dir = sandbox.path().join("man1");
    let written = run_program(&sandbox, &["man", "--dir", dir.to_str().expect("a path")]);
    assert_eq!(written.status.code(), Some(0), "{written:?}");
    let pages: Vec<_> =
        fs::read_dir(&dir).expect("pages").flatten().map(|page| page.path()).collect();
    assert!(pages.len() > 20, "{pages:?}");
    for page in &pages {
        let lint = Command::new("mandoc").args(["-T", "lint", "-W", "error"]).arg(page).output();
        let lint = lint.expect("mandoc");
        assert!(lint.status.success(), "{page:?}: {}", text(&lint.stdout));
        let shown = Command::new("man")
            .env("MANWIDTH", "80")
            .env("LC_ALL", "C.UTF-8")
            .args(["--warnings", "-P", "cat", "-l"])
            .arg(page)
            .output()
            .expect("man");
        let name = page.file_stem().expect("a name").to_string_lossy().into_owned();
        let said = text(&shown.stdout);
        assert!(shown.status.success() && said.contains(&name), "{page:?}: {shown:?}");
        assert_eq!(text(&shown.stderr), "", "{page:?}");
    }
    let names: Vec<String> = pages
        .iter()
        .map(|page| page.file_name().expect("a name").to_string_lossy().into())
        .collect();
    for verb in ["serve", "token-new", "config-init", "self-test", "pause"] {
        assert!(names.contains(&format!("shellyard-{verb}.1")), "{verb}: {names:?}");
    }
    let first = text(&run_program(&sandbox, &["man"]).stdout);
    assert_eq!(first, fs::read_to_string(dir.join("shellyard.1")).expect("the page"));
}

#[test]
fn a_directory_that_cannot_be_written_is_named() {
    let output = run_program(&Sandbox::new(), &["man", "--dir", "/proc/nothing"]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(text(&output.stderr).contains("/proc/nothing"), "{output:?}");
}
