//! The rules of `deny.toml`, held against the dependencies that Cargo resolves.
//!
//! `cargo deny check` reads the same file and knows more (texts of licences, advisories). Building it
//! takes longer than all lints, so the rules that need no database are checked here on every run.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde::Deserialize;
use serde_json::Value;

#[derive(Deserialize)]
struct Rules {
    licenses: Licenses,
    bans: Bans,
    sources: Sources,
}

#[derive(Deserialize)]
struct Licenses {
    allow: Vec<String>,
}

#[derive(Deserialize)]
struct Bans {
    deny: Vec<Banned>,
}

#[derive(Deserialize)]
struct Banned {
    name: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Sources {
    allow_registry: Vec<String>,
}

/// A dependency as `cargo metadata` describes it. `source` is absent for members of the workspace.
#[derive(Deserialize)]
struct Package {
    name: String,
    license: Option<String>,
    source: Option<String>,
}

impl Rules {
    fn read() -> Self {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("deny.toml");
        toml::from_str(&fs::read_to_string(path).unwrap()).unwrap()
    }

    /// The rules that a package breaks, one line each.
    fn violations(&self, package: &Package) -> Vec<String> {
        let name = &package.name;
        let mut found = Vec::new();
        let license = package.license.as_deref().unwrap_or_default();
        if !is_allowed(license, &self.licenses.allow) {
            found.push(format!("{name}: the licence {license:?} is not allowed"));
        }
        if self.bans.deny.iter().any(|banned| banned.name == *name) {
            found.push(format!("{name}: the package is banned"));
        }
        if let Some(source) = &package.source
            && !self
                .sources
                .allow_registry
                .iter()
                .any(|known| source == &format!("registry+{known}"))
        {
            found.push(format!("{name}: the source {source} is not allowed"));
        }
        found
    }
}

/// `true` if a licence expression can be met with the allowed licences. `AND` binds more tightly than
/// `OR`; `/` is the older way to write `OR`.
fn is_allowed(expression: &str, allowed: &[String]) -> bool {
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let mut words = spaced.split_whitespace().peekable();
    let met = any_met(&mut words, allowed);
    met && words.next().is_none()
}

type Words<'t> = std::iter::Peekable<std::str::SplitWhitespace<'t>>;

fn any_met(words: &mut Words<'_>, allowed: &[String]) -> bool {
    let mut met = all_met(words, allowed);
    while words.next_if_eq(&"OR").is_some() {
        met |= all_met(words, allowed);
    }
    met
}

fn all_met(words: &mut Words<'_>, allowed: &[String]) -> bool {
    let mut met = one_met(words, allowed);
    while words.next_if_eq(&"AND").is_some() {
        met &= one_met(words, allowed);
    }
    met
}

fn one_met(words: &mut Words<'_>, allowed: &[String]) -> bool {
    match words.next() {
        Some("(") => {
            let met = any_met(words, allowed);
            met && words.next() == Some(")")
        }
        Some(name) => {
            let exception = words.next_if_eq(&"WITH").and_then(|_| words.next());
            exception.is_none() && allowed.iter().any(|known| known == name)
        }
        None => false,
    }
}

fn packages() -> Vec<Package> {
    let args = ["metadata", "--format-version", "1", "--locked", "--offline", "--all-features"];
    let targets = ["--filter-platform", "x86_64-unknown-linux-gnu"];
    let output = Command::new(env!("CARGO"))
        .args(args)
        .args(targets)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    serde_json::from_value(metadata["packages"].clone()).unwrap()
}

#[test]
fn dependencies_keep_the_rules() {
    let rules = Rules::read();
    let packages = packages();
    assert!(packages.iter().any(|package| package.name == "tokio"), "no dependencies were read");
    let found: Vec<String> =
        packages.iter().flat_map(|package| rules.violations(package)).collect();
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn a_package_that_breaks_each_rule_is_found() {
    let package = Package {
        name: "openssl-sys".to_owned(),
        license: Some("GPL-3.0".to_owned()),
        source: Some("git+https://example.org/openssl".to_owned()),
    };
    assert_eq!(Rules::read().violations(&package).len(), 3);
}

#[test]
fn licence_expressions_are_read_as_spdx_has_them() {
    let allowed = ["MIT".to_owned(), "Apache-2.0".to_owned(), "BSD-3-Clause".to_owned()];
    let good = ["MIT", "MIT/Apache-2.0", "GPL-3.0 OR MIT", "(GPL-3.0 OR MIT) AND BSD-3-Clause"];
    for expression in good {
        assert!(is_allowed(expression, &allowed), "{expression}");
    }
    let bad =
        ["", "GPL-3.0", "MIT AND GPL-3.0", "(MIT OR GPL-3.0) AND GPL-3.0", "MIT WITH x", "MIT MIT"];
    for expression in bad {
        assert!(!is_allowed(expression, &allowed), "{expression}");
    }
}

/// Releases are built with the default features.
#[test]
fn no_release_has_the_fixtures_of_the_conformance_suite() {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
    let manifest: toml::Table = fs::read_to_string(manifest).unwrap().parse().unwrap();
    let features = manifest["features"].as_table().unwrap();
    assert!(features.contains_key("conformance"), "the feature has another name");
    assert!(!features.contains_key("default"), "check that conformance is not among them");
}
