//! Circles of imports: files that need each other cannot be read one by one.

use std::collections::{BTreeMap, BTreeSet};

use super::source::{self, SourceFile};

/// The most files that may import each other in a circle.
const MAX_FILES: usize = 4;

type ModulePath = Vec<String>;

/// The files of one crate by their module paths, and the names that each takes from elsewhere.
struct Crate {
    modules: BTreeMap<ModulePath, Module>,
}

struct Module {
    file: String,
    /// The paths that the code names, as absolute paths in the crate.
    named: Vec<ModulePath>,
    /// Names that stand for a path: imports and re-exports.
    aliases: BTreeMap<String, ModulePath>,
}

/// A path of a `use` declaration, and the name that it gets.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Import {
    path: Vec<String>,
    name: String,
    is_public: bool,
}

impl Crate {
    fn new(files: &[SourceFile]) -> Self {
        let paths: BTreeSet<ModulePath> = files.iter().map(module_path).collect();
        let modules = files.iter().map(|file| {
            let path = module_path(file);
            let absolute = |named: &[String]| absolute(named, &path, &paths);
            // What a mod.rs re-exports is not what it needs.
            let is_front = file.path.ends_with("mod.rs") || file.path.ends_with("lib.rs");
            let imports = imports(&file.code);
            let needed = imports.iter().filter(|import| !(is_front && import.is_public));
            let mut named: Vec<_> = needed.filter_map(|import| absolute(&import.path)).collect();
            named.extend(inline_paths(&file.code).iter().filter_map(|path| absolute(path)));
            let aliases = imports
                .iter()
                .filter_map(|import| Some((import.name.clone(), absolute(&import.path)?)))
                .collect();
            let file = file.path.clone();
            (path.clone(), Module { file, named, aliases })
        });
        Self { modules: modules.collect() }
    }

    /// The file that defines what a path names; re-exports are followed.
    fn home(&self, path: &[String], depth: usize) -> Option<&ModulePath> {
        let length = (0..=path.len()).rev().find(|n| self.modules.contains_key(&path[..*n]))?;
        let (module, rest) = path.split_at(length);
        let (module, entry) = self.modules.get_key_value(module)?;
        if let Some((name, rest)) = rest.split_first()
            && let Some(target) = entry.aliases.get(name)
            && depth > 0
            && target != path
        {
            return self.home(&[target, rest].concat(), depth - 1);
        }
        Some(module)
    }

    /// Each file with the files that it imports.
    fn edges(&self) -> BTreeMap<&str, BTreeSet<&str>> {
        let edges = self.modules.values().map(|module| {
            let homes = module.named.iter().filter_map(|path| self.home(path, 8));
            let files = homes.map(|home| self.modules[home].file.as_str());
            (module.file.as_str(), files.filter(|file| *file != module.file).collect())
        });
        edges.collect()
    }
}

fn module_path(file: &SourceFile) -> ModulePath {
    let path = file.path.trim_end_matches(".rs");
    let parts: Vec<String> = path.split('/').map(str::to_owned).collect();
    match parts.split_last() {
        Some((last, above)) if ["mod", "lib", "main"].contains(&last.as_str()) => above.to_vec(),
        Some(_) | None => parts,
    }
}

/// A path as it is seen from the root of the crate; `None` if it leads to another crate.
fn absolute(
    path: &[String],
    module: &[String],
    modules: &BTreeSet<ModulePath>,
) -> Option<ModulePath> {
    let (first, rest) = path.split_first()?;
    match first.as_str() {
        "crate" => Some(rest.to_vec()),
        "self" => Some([module, rest].concat()),
        "super" => {
            let (_, above) = module.split_last()?;
            let is_more = rest.first().is_some_and(|next| next == "super");
            if is_more { absolute(rest, above, modules) } else { Some([above, rest].concat()) }
        }
        _ => {
            let child = [module, std::slice::from_ref(first)].concat();
            modules.contains(&child).then(|| [module, path].concat())
        }
    }
}

fn imports(code: &str) -> Vec<Import> {
    let mut found = Vec::new();
    let mut start = 0;
    for line in code.split_inclusive('\n') {
        let text = line.trim_start();
        let is_public = text.starts_with("pub");
        let declaration = if is_public { text.split_once(' ').map_or("", |it| it.1) } else { text };
        if let Some(first) = declaration.strip_prefix("use ") {
            let begin = start + line.len() - first.len();
            let end = code[begin..].find(';').map_or(code.len(), |end| begin + end);
            for path in flatten(&code[begin..end]) {
                let (path, alias) = match path.split_once(" as ") {
                    Some((path, alias)) => (path.to_owned(), Some(alias.to_owned())),
                    None => (path, None),
                };
                let mut path: Vec<String> = path.split("::").map(str::to_owned).collect();
                path.pop_if(|last| last == "self");
                let name = alias.or_else(|| path.last().cloned()).unwrap_or_default();
                found.push(Import { path, name, is_public });
            }
        }
        start += line.len();
    }
    found
}

/// The single paths of a tree such as `a::{b, c::{d, e}}`.
fn flatten(tree: &str) -> Vec<String> {
    let tree = tree.split_whitespace().collect::<Vec<_>>().join(" ");
    let Some((prefix, rest)) = tree.split_once('{') else {
        return vec![tree];
    };
    let inside = rest.trim_end().trim_end_matches('}');
    let inside = &rest[..inside.len().max(rest.rfind('}').unwrap_or(inside.len()))];
    let mut parts = vec![String::new()];
    let mut depth = 0;
    for c in inside.chars() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        match parts.last_mut() {
            Some(_) if c == ',' && depth == 0 => parts.push(String::new()),
            Some(part) => part.push(c),
            None => {}
        }
    }
    let parts = parts.iter().map(|part| part.trim()).filter(|part| !part.is_empty());
    parts.flat_map(flatten).map(|part| format!("{}{part}", prefix.trim())).collect()
}

/// Paths in the code that begin with `crate`, `super` or `self`.
fn inline_paths(code: &str) -> Vec<Vec<String>> {
    let is_part = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
    code.split(|c: char| !is_part(c))
        .filter(|word| word.contains("::"))
        .map(|word| word.split("::").map(str::to_owned).collect::<Vec<_>>())
        .filter(|path| ["crate", "super", "self"].contains(&path[0].as_str()))
        .collect()
}

/// Groups of more than [`MAX_FILES`] files of which each leads to each other.
fn circles(files: &[SourceFile]) -> Vec<String> {
    let source = Crate::new(files);
    let edges = source.edges();
    let reached: BTreeMap<&str, BTreeSet<&str>> =
        edges.keys().map(|file| (*file, reached_from(file, &edges))).collect();
    let circle = |file: &&str| -> BTreeSet<&str> {
        let others = reached[file].iter().filter(|other| reached[**other].contains(file));
        others.copied().collect()
    };
    let circles: BTreeSet<BTreeSet<&str>> = edges.keys().map(circle).collect();
    let large = circles.iter().filter(|circle| circle.len() > MAX_FILES);
    large.map(|circle| circle.iter().copied().collect::<Vec<_>>().join(", ")).collect()
}

fn reached_from<'f>(
    file: &'f str,
    edges: &BTreeMap<&'f str, BTreeSet<&'f str>>,
) -> BTreeSet<&'f str> {
    let mut reached = BTreeSet::new();
    let mut next = vec![file];
    while let Some(file) = next.pop() {
        next.extend(edges[file].iter().filter(|other| reached.insert(**other)));
    }
    reached
}

#[test]
fn no_more_than_a_few_files_import_each_other() {
    for (name, files) in source::list_crates() {
        let found = circles(&files);
        assert!(found.is_empty(), "circles in {name}:\n{}", found.join("\n"));
    }
}

#[test]
fn a_circle_is_found_through_re_exports_and_paths_in_the_code() {
    let file = |path: &str, text: &str| SourceFile::new(path, text);
    let mut files = vec![
        file("lib.rs", "mod a;\npub use a::one::One;\n"),
        file("a/mod.rs", "mod one;\nmod two;\nmod three;\npub use one::One;\nuse super::b;\n"),
        file("a/one.rs", "use super::two::{self, Two as Other};\n"),
        file("a/two.rs", "fn f() { crate::a::three::g() }\n"),
        file("a/three.rs", "use crate::{\n    b::{B, C},\n    d::D,\n};\n"),
        file("b.rs", "use crate::d;\n"),
        file("d.rs", "fn f(one: crate::One) {}\n"),
    ];
    assert_eq!(circles(&files), ["a/one.rs, a/three.rs, a/two.rs, b.rs, d.rs"]);
    files.pop();
    files.push(file("d.rs", "fn f() {}\n"));
    assert_eq!(circles(&files), [""; 0]);
}

#[test]
fn trees_of_imports_are_taken_apart() {
    let paths = flatten("a::{self, b::{C, D as E}, f::G}");
    assert_eq!(paths, ["a::self", "a::b::C", "a::b::D as E", "a::f::G"]);
}
