//! Removing cgroups: they can go only when the last process is gone from them.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

const FIRST_PAUSE: Duration = Duration::from_millis(5);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

static BROOM: Mutex<Broom> = Mutex::new(Broom { left: Vec::new(), state: State::Idle });

#[derive(Debug)]
struct Broom {
    left: Vec<PathBuf>,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Idle,
    Sweeping,
}

/// Removes a cgroup with all below it: at once, or in the background while processes leave it.
pub(crate) fn remove(dir: PathBuf) {
    if is_removed(&dir) {
        return;
    }
    let mut broom = BROOM.lock().unwrap_or_else(PoisonError::into_inner);
    broom.left.push(dir);
    if broom.state == State::Idle {
        let thread = thread::Builder::new().name("cgroup-broom".to_owned()).spawn(sweep);
        // Without a thread it is tried again with the next one.
        broom.state = if thread.is_ok() { State::Sweeping } else { State::Idle };
    }
}

fn sweep() {
    let mut pause = FIRST_PAUSE;
    loop {
        thread::sleep(pause);
        pause = (pause * 2).min(LONGEST_PAUSE);
        let mut broom = BROOM.lock().unwrap_or_else(PoisonError::into_inner);
        broom.left.retain(|dir| !is_removed(dir));
        if broom.left.is_empty() {
            broom.state = State::Idle;
            return;
        }
    }
}

/// Tries once. Whatever is not there any more counts as removed.
pub(crate) fn is_removed(dir: &Path) -> bool {
    if is_gone(dir) {
        return true;
    }
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            is_removed(&entry.path());
        }
    }
    is_gone(dir)
}

fn is_gone(dir: &Path) -> bool {
    match fs::remove_dir(dir) {
        Ok(()) => true,
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    #[test]
    fn what_cannot_go_yet_goes_later() {
        let dir = std::env::temp_dir().join(format!("broom-{}", std::process::id()));
        fs::create_dir_all(dir.join("below")).unwrap();
        fs::write(dir.join("below/process"), "").unwrap();
        remove(dir.clone());
        assert!(dir.join("below").exists(), "somebody is in it");
        fs::remove_file(dir.join("below/process")).unwrap();
        let deadline = Instant::now() + Duration::from_secs(60);
        while dir.exists() && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(5));
        }
        assert!(!dir.exists());
    }
}
