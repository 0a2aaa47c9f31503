//! File calls in real directories, with every way that could lead out of them.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use proptest::prelude::*;
use rustix::fs::{FileType, Mode, mknodat};
use tempfile::TempDir;

use super::calls::{
    DirectoryEntry, FileError, FileKind, FilePage, WriteOutcome, list_entries, read_page,
    replace_file,
};
use super::rooted_path::{RootedPath, resolve_stepwise};
use crate::process::OpenedDir;

/// A working directory with a secret next to it, and links that lead out.
struct FilesFixture {
    top: TempDir,
}

impl FilesFixture {
    fn new() -> Self {
        let files = Self { top: tempfile::tempdir().unwrap() };
        for directory in ["work/sub", "outside"] {
            fs::create_dir_all(files.at(directory)).unwrap();
        }
        fs::write(files.at("outside/secret"), "secret").unwrap();
        fs::write(files.at("work/file"), "content").unwrap();
        fs::write(files.at("work/sub/deep"), "deep").unwrap();
        for (to, link) in [
            ("../outside/secret", "relative"),
            ("../outside", "way"),
            ("sub/deep", "inside"),
            ("sub/../file", "detour"),
            ("loop", "loop"),
            ("/proc/self/root/etc/passwd", "magic"),
        ] {
            symlink(to, files.at("work").join(link)).unwrap();
        }
        symlink(files.at("outside/secret"), files.at("work/absolute")).unwrap();
        files
    }

    fn at(&self, path: &str) -> PathBuf {
        self.top.path().canonicalize().unwrap().join(path)
    }

    fn root(&self) -> OpenedDir {
        OpenedDir::open(&self.at("work")).unwrap()
    }

    fn rooted(&self, path: &str) -> Result<RootedPath, FileError> {
        RootedPath::new(self.root(), &self.at("work"), path)
    }

    fn read(&self, path: &str) -> Result<FilePage, FileError> {
        read_page(&self.rooted(path)?, 0, 100)
    }

    fn write(&self, path: &str, content: &str) -> Result<WriteOutcome, FileError> {
        replace_file(&self.rooted(path)?, content.as_bytes())
    }

    fn names(&self, path: &str) -> Vec<String> {
        let listing = list_entries(&self.rooted(path).unwrap(), 100).unwrap();
        listing.entries.into_iter().map(|entry| entry.name).collect()
    }

    fn content(&self, path: &str) -> String {
        fs::read_to_string(self.at(path)).unwrap()
    }
}

/// Paths that lead out of the working directory.
fn ways_out(files: &FilesFixture) -> Vec<String> {
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
    ways.push(files.at("outside/secret").display().to_string());
    ways.push(format!("{}/../outside/secret", files.at("work").display()));
    // Not below the directory, although the path starts with the same characters.
    ways.push(format!("{}2/secret", files.at("work").display()));
    ways
}

#[track_caller]
fn code<T>(result: Result<T, FileError>) -> &'static str {
    result.err().expect("an error").code()
}

#[test]
fn a_file_below_the_directory_is_read_by_any_of_its_paths() {
    let files = FilesFixture::new();
    let absolute = files.at("work/file").display().to_string();
    for (path, expected) in [
        ("file", "content"),
        ("./file", "content"),
        ("sub/../file", "content"),
        ("detour", "content"),
        ("inside", "deep"),
        (absolute.as_str(), "content"),
    ] {
        assert_eq!(files.read(path).unwrap().bytes, expected.as_bytes(), "{path}");
    }
}

#[test]
fn no_path_in_the_list_leads_out() {
    let files = FilesFixture::new();
    for path in ways_out(&files) {
        assert_eq!(code(files.read(&path)), "outside_directory", "read {path}");
        assert_eq!(
            code(files.rooted(&path).and_then(|it| list_entries(&it, 9))),
            "outside_directory"
        );
        assert!(files.write(&path, "changed").is_err(), "write {path}");
    }
    assert_eq!(code(files.write("way/new", "x")), "outside_directory");
    assert_eq!(files.content("outside/secret"), "secret");
    assert_eq!(fs::read_dir(files.at("outside")).unwrap().count(), 1);
}

#[test]
fn the_resolution_for_old_kernels_does_not_lead_out_either() {
    let files = FilesFixture::new();
    let resolve = |path: &str| resolve_stepwise(files.root(), Path::new(path));
    for path in [".", "file", "./sub/deep"] {
        assert!(resolve(path).is_ok(), "{path}");
    }
    for path in ["../outside", "sub/../file", "way/secret", "/etc", "inside/x"] {
        assert!(resolve(path).is_err(), "{path}");
    }
    // This resolves to the link itself, which is not a regular file.
    let found = rustix::fs::fstat(resolve("relative").unwrap()).unwrap();
    assert_eq!(FileType::from_raw_mode(found.st_mode), FileType::Symlink);
}

#[test]
fn a_configured_directory_may_be_a_link_itself() {
    let files = FilesFixture::new();
    symlink(files.at("work"), files.at("alias")).unwrap();
    let alias = files.at("alias");
    let given = alias.join("file").display().to_string();
    let path = RootedPath::new(OpenedDir::open(&alias).unwrap(), &alias, &given).unwrap();
    assert_eq!(read_page(&path, 0, 100).unwrap().bytes, b"content");
}

#[test]
fn only_regular_files_are_opened() {
    let files = FilesFixture::new();
    let mode = Mode::from_raw_mode(0o600);
    mknodat(files.root(), "fifo", FileType::Fifo, mode, 0).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(files.at("work/socket")).unwrap();
    for path in ["fifo", "socket", "sub", "."] {
        // No call waits for a process at the other end.
        assert_eq!(code(files.read(path)), "wrong_kind", "{path}");
    }
    for path in ["fifo", "socket", "sub", "inside", "relative"] {
        assert_eq!(code(files.write(path, "x")), "wrong_kind", "{path}");
    }
    assert_eq!(code(files.rooted("file").and_then(|it| list_entries(&it, 9))), "wrong_kind");
    assert_eq!(files.content("work/sub/deep"), "deep");
}

#[test]
fn invalid_and_missing_paths_have_their_own_errors() {
    let files = FilesFixture::new();
    for path in ["", "  ", "a\0b"] {
        assert_eq!(code(files.read(path)), "bad_path", "{path:?}");
    }
    for path in [".", "..", "sub/..", "new/", "sub/new/."] {
        assert_eq!(code(files.write(path, "x")), "bad_path", "{path:?}");
    }
    assert_eq!(code(files.read("none")), "no_such_file");
    assert_eq!(code(files.write("none/new", "x")), "no_such_file");
    assert_eq!(code(files.read("file/below")), "system");
    assert_eq!(code(files.read("loop")), "system");
    assert_eq!(code(files.read(&"x".repeat(5000))), "system");
}

#[test]
fn a_page_ends_at_its_limit() {
    let files = FilesFixture::new();
    let path = files.rooted("file").unwrap();
    for (from, most, expected, is_truncated) in
        [(0, 7, "content", false), (0, 6, "conten", true), (3, 2, "te", true), (99, 5, "", false)]
    {
        let found = read_page(&path, from, most).unwrap();
        assert_eq!(found.bytes, expected.as_bytes());
        assert_eq!((found.is_truncated, found.size), (is_truncated, 7));
    }
}

#[test]
fn a_write_creates_or_replaces_the_file_and_leaves_no_other() {
    let files = FilesFixture::new();
    assert_eq!(files.write("sub/new", "one").unwrap(), WriteOutcome::Created);
    let mode = fs::Permissions::from_mode(0o4751);
    fs::set_permissions(files.at("work/sub/new"), mode).unwrap();
    let before = fs::metadata(files.at("work/sub/new")).unwrap().ino();
    assert_eq!(files.write("sub/new", "two").unwrap(), WriteOutcome::Replaced);
    let after = fs::metadata(files.at("work/sub/new")).unwrap();
    assert_eq!(files.content("work/sub/new"), "two");
    // A new file with the old permissions, but without the set-user-id bit.
    assert_ne!(after.ino(), before);
    assert_eq!(after.permissions().mode() & 0o7777, 0o751);
    assert_eq!(files.names("sub"), ["deep", "new"]);
}

#[test]
fn a_listing_follows_no_link_and_keeps_its_limit() {
    let files = FilesFixture::new();
    fs::remove_file(files.at("work/loop")).unwrap();
    let path = files.rooted(".").unwrap();
    let listing = list_entries(&path, 100).unwrap();
    assert!(!listing.is_truncated && listing.entries.is_sorted());
    let entry = |name: &str| listing.entries.iter().find(|entry| entry.name == name).unwrap();
    let file = DirectoryEntry { name: "file".to_owned(), kind: FileKind::File, size: 7 };
    assert_eq!(entry("file"), &file);
    assert_eq!((entry("sub").kind, entry("way").kind), (FileKind::Directory, FileKind::Link));
    let all = listing.entries.len();
    assert!(!list_entries(&path, all).unwrap().is_truncated);
    let cut = list_entries(&path, all - 1).unwrap();
    assert!(cut.is_truncated && cut.entries.len() == all - 1);
}

#[test]
fn no_race_with_a_rename_leads_out() {
    let files = FilesFixture::new();
    fs::create_dir(files.at("work/turn")).unwrap();
    fs::write(files.at("work/turn/secret"), "harmless").unwrap();
    let turn = files.at("work/turn");
    let kept = files.at("work/kept");
    let over = AtomicBool::new(false);
    let deadline = Instant::now() + Duration::from_secs(30);
    let mut inside = 0;
    let mut refused = 0;
    let mut led_out = 0;
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
            match files.read("turn/secret") {
                Ok(found) if found.bytes == b"harmless" => inside += 1,
                Ok(_) => led_out += 1,
                Err(_) => refused += 1,
            }
            files.write("turn/written", "x").ok();
        }
        over.store(true, Ordering::Relaxed);
    });
    assert_eq!(led_out, 0);
    assert!(inside >= 200 && refused >= 200, "too few races: {inside} inside, {refused} refused");
    assert_eq!(fs::read_dir(files.at("outside")).unwrap().count(), 1);
}

/// Any path of components that exist, lead out, or do not exist.
fn any_path() -> impl Strategy<Value = String> {
    let parts = ["..", ".", "", "sub", "file", "way", "inside", "absolute", "outside", "secret"];
    let paths = prop::collection::vec(prop::sample::select(parts.to_vec()), 1..7);
    paths.prop_map(|parts| parts.join("/"))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn no_path_leads_out(paths in prop::collection::vec(any_path(), 20)) {
        let files = FilesFixture::new();
        for path in paths {
            if let Ok(found) = files.read(&path) {
                prop_assert_ne!(found.bytes, b"secret", "{}", path);
            }
            files.write(&path, "changed").ok();
        }
        prop_assert_eq!(files.content("outside/secret"), "secret");
        prop_assert_eq!(fs::read_dir(files.at("outside")).unwrap().count(), 1);
        prop_assert_eq!(fs::read_dir(files.top.path()).unwrap().count(), 2);
    }
}
