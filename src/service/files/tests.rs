//! The file calls on real directories, with everything that could lead out of them.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use proptest::prelude::*;
use rustix::fs::{FileType, Mode, mknodat};
use tempfile::TempDir;

use super::calls::{
    DirectoryEntry, FileError, FileKind, FilePage, WriteOutcome, list, page, replace,
};
use super::place::{self, Place};
use crate::process::OpenedDir;

/// A working directory with a secret beside it, and ways out.
struct World {
    top: TempDir,
}

impl World {
    fn new() -> Self {
        let world = Self { top: tempfile::tempdir().unwrap() };
        for directory in ["work/sub", "outside"] {
            fs::create_dir_all(world.at(directory)).unwrap();
        }
        fs::write(world.at("outside/secret"), "secret").unwrap();
        fs::write(world.at("work/file"), "content").unwrap();
        fs::write(world.at("work/sub/deep"), "deep").unwrap();
        for (to, link) in [
            ("../outside/secret", "relative"),
            ("../outside", "way"),
            ("sub/deep", "inside"),
            ("sub/../file", "detour"),
            ("loop", "loop"),
            ("/proc/self/root/etc/passwd", "magic"),
        ] {
            symlink(to, world.at("work").join(link)).unwrap();
        }
        symlink(world.at("outside/secret"), world.at("work/absolute")).unwrap();
        world
    }

    fn at(&self, path: &str) -> PathBuf {
        self.top.path().canonicalize().unwrap().join(path)
    }

    fn root(&self) -> OpenedDir {
        OpenedDir::open(&self.at("work")).unwrap()
    }

    fn place(&self, path: &str) -> Result<Place, FileError> {
        Place::new(self.root(), &self.at("work"), path)
    }

    fn read(&self, path: &str) -> Result<FilePage, FileError> {
        page(&self.place(path)?, 0, 100)
    }

    fn write(&self, path: &str, content: &str) -> Result<WriteOutcome, FileError> {
        replace(&self.place(path)?, content.as_bytes())
    }

    fn names(&self, path: &str) -> Vec<String> {
        let listing = list(&self.place(path).unwrap(), 100).unwrap();
        listing.entries.into_iter().map(|entry| entry.name).collect()
    }

    fn content(&self, path: &str) -> String {
        fs::read_to_string(self.at(path)).unwrap()
    }
}

/// Every way out that there is.
fn ways_out(world: &World) -> Vec<String> {
    let mut ways: Vec<String> = [
        "../outside/secret",
        "sub/../../outside/secret",
        "./../outside/secret",
        "relative",
        "absolute",
        "way/secret",
        "magic",
        "/etc/passwd",
        "/proc/self/cwd/../outside/secret",
    ]
    .map(str::to_owned)
    .into();
    ways.push(world.at("outside/secret").display().to_string());
    ways.push(format!("{}/../outside/secret", world.at("work").display()));
    // Not below, although it begins alike.
    ways.push(format!("{}2/secret", world.at("work").display()));
    ways
}

#[track_caller]
fn code<T>(result: Result<T, FileError>) -> &'static str {
    result.err().expect("it was refused").code()
}

#[test]
fn what_is_beneath_is_read_by_any_of_its_names() {
    let world = World::new();
    let absolute = world.at("work/file").display().to_string();
    for (path, expected) in [
        ("file", "content"),
        ("./file", "content"),
        ("sub/../file", "content"),
        ("detour", "content"),
        ("inside", "deep"),
        (absolute.as_str(), "content"),
    ] {
        assert_eq!(world.read(path).unwrap().bytes, expected.as_bytes(), "{path}");
    }
}

#[test]
fn no_way_leads_out() {
    let world = World::new();
    for path in ways_out(&world) {
        assert_eq!(code(world.read(&path)), "outside_directory", "read {path}");
        assert_eq!(code(world.place(&path).and_then(|it| list(&it, 9))), "outside_directory");
        assert!(world.write(&path, "changed").is_err(), "write {path}");
    }
    assert_eq!(code(world.write("way/new", "x")), "outside_directory");
    assert_eq!(world.content("outside/secret"), "secret");
    assert_eq!(fs::read_dir(world.at("outside")).unwrap().count(), 1);
}

#[test]
fn the_walk_of_old_kernels_leads_out_no_more() {
    let world = World::new();
    let of = |path: &str| place::walk(world.root(), Path::new(path));
    for path in [".", "file", "./sub/deep"] {
        assert!(of(path).is_ok(), "{path}");
    }
    for path in ["../outside", "sub/../file", "way/secret", "/etc", "inside/x"] {
        assert!(of(path).is_err(), "{path}");
    }
    // The link itself is found, which is no file.
    let found = rustix::fs::fstat(of("relative").unwrap()).unwrap();
    assert_eq!(FileType::from_raw_mode(found.st_mode), FileType::Symlink);
}

#[test]
fn a_configured_directory_may_be_a_link_itself() {
    let world = World::new();
    symlink(world.at("work"), world.at("alias")).unwrap();
    let alias = world.at("alias");
    let given = alias.join("file").display().to_string();
    let place = Place::new(OpenedDir::open(&alias).unwrap(), &alias, &given).unwrap();
    assert_eq!(page(&place, 0, 100).unwrap().bytes, b"content");
}

#[test]
fn only_regular_files_are_opened() {
    let world = World::new();
    let mode = Mode::from_raw_mode(0o600);
    mknodat(world.root(), "fifo", FileType::Fifo, mode, 0).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(world.at("work/socket")).unwrap();
    for path in ["fifo", "socket", "sub", "."] {
        // Neither of them waits for somebody at the other end.
        assert_eq!(code(world.read(path)), "wrong_kind", "{path}");
    }
    for path in ["fifo", "socket", "sub", "inside", "relative"] {
        assert_eq!(code(world.write(path, "x")), "wrong_kind", "{path}");
    }
    assert_eq!(code(world.place("file").and_then(|it| list(&it, 9))), "wrong_kind");
    assert_eq!(world.content("work/sub/deep"), "deep");
}

#[test]
fn what_is_no_path_or_not_there_is_told() {
    let world = World::new();
    for path in ["", "  ", "a\0b"] {
        assert_eq!(code(world.read(path)), "bad_path", "{path:?}");
    }
    for path in [".", "..", "sub/..", "new/", "sub/new/."] {
        assert_eq!(code(world.write(path, "x")), "bad_path", "{path:?}");
    }
    assert_eq!(code(world.read("none")), "no_such_file");
    assert_eq!(code(world.write("none/new", "x")), "no_such_file");
    assert_eq!(code(world.read("file/below")), "system");
    assert_eq!(code(world.read("loop")), "system");
    assert_eq!(code(world.read(&"x".repeat(5000))), "system");
}

#[test]
fn a_page_is_cut_where_it_was_asked_to_be() {
    let world = World::new();
    let place = world.place("file").unwrap();
    for (from, most, expected, is_cut) in
        [(0, 7, "content", false), (0, 6, "conten", true), (3, 2, "te", true), (99, 5, "", false)]
    {
        let found = page(&place, from, most).unwrap();
        assert_eq!(found.bytes, expected.as_bytes());
        assert_eq!((found.is_cut, found.size), (is_cut, 7));
    }
}

#[test]
fn writing_creates_or_replaces_and_leaves_nothing_else() {
    let world = World::new();
    assert_eq!(world.write("sub/new", "one").unwrap(), WriteOutcome::Created);
    let mode = fs::Permissions::from_mode(0o4751);
    fs::set_permissions(world.at("work/sub/new"), mode).unwrap();
    let before = fs::metadata(world.at("work/sub/new")).unwrap().ino();
    assert_eq!(world.write("sub/new", "two").unwrap(), WriteOutcome::Replaced);
    let after = fs::metadata(world.at("work/sub/new")).unwrap();
    assert_eq!(world.content("work/sub/new"), "two");
    // Another file in its place, with its permissions but not its set-user-id bit.
    assert_ne!(after.ino(), before);
    assert_eq!(after.permissions().mode() & 0o7777, 0o751);
    assert_eq!(world.names("sub"), ["deep", "new"]);
}

#[test]
fn a_listing_follows_no_link_and_keeps_its_bound() {
    let world = World::new();
    fs::remove_file(world.at("work/loop")).unwrap();
    let place = world.place(".").unwrap();
    let listing = list(&place, 100).unwrap();
    assert!(!listing.is_cut && listing.entries.is_sorted());
    let of = |name: &str| listing.entries.iter().find(|entry| entry.name == name).unwrap();
    let file = DirectoryEntry { name: "file".to_owned(), kind: FileKind::File, size: 7 };
    assert_eq!(of("file"), &file);
    assert_eq!((of("sub").kind, of("way").kind), (FileKind::Directory, FileKind::Link));
    let all = listing.entries.len();
    assert!(!list(&place, all).unwrap().is_cut);
    let cut = list(&place, all - 1).unwrap();
    assert!(cut.is_cut && cut.entries.len() == all - 1);
}

#[test]
fn no_race_leads_out() {
    let world = World::new();
    fs::create_dir(world.at("work/turn")).unwrap();
    fs::write(world.at("work/turn/secret"), "harmless").unwrap();
    let (turn, kept) = (world.at("work/turn"), world.at("work/kept"));
    let over = AtomicBool::new(false);
    let deadline = Instant::now() + Duration::from_secs(30);
    let (mut inside, mut refused, mut led_out) = (0, 0, 0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                fs::rename(&turn, &kept).unwrap();
                symlink("../outside", &turn).unwrap();
                fs::remove_file(&turn).unwrap();
                fs::rename(&kept, &turn).unwrap();
            }
        });
        while (inside < 200 || refused < 200) && Instant::now() < deadline {
            match world.read("turn/secret") {
                Ok(found) if found.bytes == b"harmless" => inside += 1,
                Ok(_) => led_out += 1,
                Err(_) => refused += 1,
            }
            world.write("turn/written", "x").ok();
        }
        over.store(true, Ordering::Relaxed);
    });
    assert_eq!(led_out, 0);
    assert!(inside >= 200 && refused >= 200, "hardly any race: {inside} and {refused}");
    assert_eq!(fs::read_dir(world.at("outside")).unwrap().count(), 1);
}

/// Any path of parts that are there, lead out, or mean nothing.
fn any_path() -> impl Strategy<Value = String> {
    let parts = ["..", ".", "", "sub", "file", "way", "inside", "absolute", "outside", "secret"];
    let paths = prop::collection::vec(prop::sample::select(parts.to_vec()), 1..7);
    paths.prop_map(|parts| parts.join("/"))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn no_path_leads_out(paths in prop::collection::vec(any_path(), 20)) {
        let world = World::new();
        for path in paths {
            if let Ok(found) = world.read(&path) {
                prop_assert_ne!(found.bytes, b"secret", "{}", path);
            }
            world.write(&path, "changed").ok();
        }
        prop_assert_eq!(world.content("outside/secret"), "secret");
        prop_assert_eq!(fs::read_dir(world.at("outside")).unwrap().count(), 1);
        prop_assert_eq!(fs::read_dir(world.top.path()).unwrap().count(), 2);
    }
}
