//! The removal of spill files and their directories, which a thread of its own carries out.

use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::Sender;

use crate::counters::{Counters, SpillOperation};
use crate::server_dir::{ServerDir, SpillFileName, remove_leftovers};

/// A removal, which may take as long as the disk takes.
#[derive(Debug)]
pub(crate) enum Removal {
    /// One file, which is also closed here: on some file systems a close waits.
    File { dir: Arc<ServerDir>, name: SpillFileName, _open: [Option<Arc<File>>; 2] },
    /// An unnamed file, which is gone once it is closed.
    Unnamed { _open: Arc<File> },
    /// The directories of servers that no longer hold their lock.
    Leftovers { root: PathBuf },
    /// Files that an earlier server left in a durable directory.
    Names { dir: Arc<ServerDir>, names: Vec<SpillFileName> },
    /// All files of this server. Dropping the sender signals the end.
    Everything { dir: Arc<ServerDir>, _done: Sender<()> },
}

impl Removal {
    pub(crate) fn carry_out(self, counters: &Counters) {
        let removed = match self {
            Self::File { dir, name, _open } => dir.remove_file(&name),
            Self::Unnamed { _open } => Ok(()),
            Self::Leftovers { root } => remove_leftovers(&root),
            Self::Names { dir, names } => {
                names.iter().map(|name| dir.remove_file(name)).fold(Ok(()), io::Result::and)
            }
            Self::Everything { dir, .. } => dir.remove_everything(),
        };
        match removed {
            // A file that is gone already is no error.
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                counters.add_spill_error(SpillOperation::Remove, &error);
            }
            Ok(()) | Err(_) => {}
        }
    }
}
