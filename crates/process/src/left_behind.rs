//! The processes that a server which was killed left behind: how they are found, and the record of
//! them that the server keeps while it lives.
//!
//! The record is a file in the server's directory for jobs' files. The guardian reads it when the
//! server has died, and the next server of the same user where the guardian was killed as well.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::{Pid, getpid};

use super::confine::cgroup;
use super::host::{self, HostTag};
use super::killing;
use super::orphans::TreeScan;
use super::proc_scan::{self, ProcessKey, Snapshot, Stat};
use super::tag::Tag;

const FILE: &str = "processes";
const NEW_FILE: &str = "processes.new";

const SWEEP_LIMIT: Duration = Duration::from_secs(10);

/// Tells the processes that came out of one server from all others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LeftBehind {
    pub(super) tag: Option<Tag>,
    pub(super) marker_prefix: String,
    /// The server itself, which is none of them.
    pub(super) server: ProcessKey,
    /// Those that were known by their numbers: they may carry neither tag nor marker.
    pub(super) recorded: HashSet<ProcessKey>,
}

impl LeftBehind {
    /// Describes what this process, as a server, would leave.
    pub(super) fn of(host: &HostTag) -> io::Result<Self> {
        let (marker_prefix, recorded) = (host.marker_prefix(), HashSet::new());
        let server = proc_scan::own_key()?;
        Ok(Self { tag: host.inherited(), marker_prefix, server, recorded })
    }

    /// Ends every one of them with all that came out of it. Blocks; returns those that are still
    /// alive.
    pub(super) fn end(&self) -> Vec<u32> {
        killing::end_all(|| self.find(&[], |_| false), SWEEP_LIMIT)
    }

    /// Does the same for this process as the server: its children are among them, but none of `kept`.
    pub(super) fn end_own(&self, kept: &[Pid]) -> Vec<u32> {
        let own = number(getpid());
        killing::end_all(|| self.find(kept, |stat| stat.parent == own), SWEEP_LIMIT)
    }

    fn find(&self, kept: &[Pid], is_child: impl Fn(&Stat) -> bool) -> Vec<Stat> {
        // By their cgroups first: what they carry in themselves they may have shed.
        let in_cgroups: HashSet<ProcessKey> =
            cgroup::kill_jobs_of(self.server).into_iter().collect();
        let is_kept = |stat: &Stat| {
            stat.pid == getpid() || stat.key() == self.server || kept.contains(&stat.pid)
        };
        let mut found = Snapshot::take().with_descendants(|stat| {
            let is_concerned =
                in_cgroups.contains(&stat.key()) || is_child(stat) || self.concerns(stat);
            stat.alive() && !is_kept(stat) && is_concerned
        });
        found.retain(|stat| stat.alive() && !is_kept(stat));
        found
    }

    /// `true` if this process itself is one of them.
    pub(super) fn concerns(&self, stat: &Stat) -> bool {
        self.recorded.contains(&stat.key()) || self.is_tagged(stat.pid) || self.is_marked(stat.pid)
    }

    fn is_tagged(&self, pid: Pid) -> bool {
        self.tag.is_some_and(|ours| Tag::read(pid).is_some_and(|tag| tag.same_server(ours)))
    }

    fn is_marked(&self, pid: Pid) -> bool {
        proc_scan::environment_has(pid, |variable| {
            variable.starts_with(self.marker_prefix.as_bytes())
        })
    }
}

const fn number(pid: Pid) -> i32 {
    pid.as_raw_nonzero().get()
}

/// The record that this server keeps of its processes.
#[derive(Debug)]
pub struct ProcessRecord {
    dir: PathBuf,
    boot: String,
    written: LeftBehind,
}

impl ProcessRecord {
    /// Begins the record in this server's directory for jobs' files.
    ///
    /// # Errors
    /// When it cannot be written, or when the server was not prepared.
    pub fn begin(dir: &Path) -> io::Result<Self> {
        let written = LeftBehind::of(&host::prepare()?)?;
        let record = Self { dir: dir.to_owned(), boot: boot_id()?, written };
        record.write(&record.written)?;
        Ok(record)
    }

    /// Notes the processes that a scan has found, if they are others than before.
    ///
    /// # Errors
    /// When the record cannot be written; the old one stays.
    pub fn update(&mut self, scan: TreeScan) -> io::Result<()> {
        if self.written.recorded == scan.processes {
            return Ok(());
        }
        let found = LeftBehind { recorded: scan.processes, ..self.written.clone() };
        self.write(&found)?;
        self.written = found;
        Ok(())
    }

    /// Replaces the file whole or not at all: the server may be killed at any moment.
    fn write(&self, left: &LeftBehind) -> io::Result<()> {
        let new = self.dir.join(NEW_FILE);
        fs::write(&new, render(&self.boot, left))?;
        fs::rename(new, self.dir.join(FILE))
    }
}

/// Reads the record of the server whose directory this was; `None` where there is none, or where the
/// system was started again since: the numbers are others' now.
pub(super) fn read(dir: &Path) -> Option<LeftBehind> {
    parse(&fs::read_to_string(dir.join(FILE)).ok()?, &boot_id().ok()?)
}

/// Ends what the server left whose directory this was, and that is gone. Blocks; returns those that
/// are still alive.
pub(super) fn end_recorded(dir: &Path) -> Vec<u32> {
    read(dir).map(|left| left.end()).unwrap_or_default()
}

fn boot_id() -> io::Result<String> {
    Ok(fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim().to_owned())
}

fn render(boot: &str, left: &LeftBehind) -> String {
    let tag = left.tag.map_or(0, Tag::to_number);
    let (server, started) = left.server;
    let mut text = format!("{boot}\n{server} {started} {tag} {}\n", left.marker_prefix);
    for (pid, started) in &left.recorded {
        // Writing to a string does not fail.
        writeln!(text, "{pid} {started}").ok();
    }
    text
}

fn parse(text: &str, boot: &str) -> Option<LeftBehind> {
    let mut lines = text.lines();
    lines.next().filter(|found| *found == boot)?;
    let mut words = lines.next()?.split(' ');
    let server = (Pid::from_raw(words.next()?.parse().ok()?)?, words.next()?.parse().ok()?);
    let tag = Tag::from_number(words.next()?.parse().ok()?);
    // Without its end a short prefix would match markers of others.
    let marker_prefix = words.next().filter(|prefix| prefix.ends_with(':'))?.to_owned();
    let recorded = lines.map(process_key).collect::<Option<_>>()?;
    Some(LeftBehind { tag, marker_prefix, server, recorded })
}

fn process_key(line: &str) -> Option<ProcessKey> {
    let (pid, started) = line.split_once(' ')?;
    Some((Pid::from_raw(pid.parse().ok()?)?, started.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn left() -> LeftBehind {
        let recorded = [(Pid::from_raw(7).unwrap(), 70), (Pid::from_raw(8).unwrap(), 80)];
        LeftBehind {
            tag: Some(Tag::of_server(5)),
            marker_prefix: "SHELLYARD_JOB=a:".into(),
            server: (Pid::from_raw(6).unwrap(), 60),
            recorded: recorded.into(),
        }
    }

    #[test]
    fn a_record_is_read_as_it_was_written_until_the_system_starts_again() {
        for left in [left(), LeftBehind { tag: None, recorded: HashSet::new(), ..left() }] {
            let text = render("boot-1", &left);
            assert_eq!(parse(&text, "boot-1"), Some(left), "{text}");
            assert_eq!(parse(&text, "boot-2"), None);
        }
    }

    #[test]
    fn what_is_not_a_record_names_nobody() {
        for text in [
            "",
            "b",
            "b\n",
            "b\n6 60 0 x\n",
            "b\n6 0 A=x:\n",
            "b\n6 60 0 A=x:\n7\n",
            "b\n0 60 0 A=x:\n",
            "b\n6 60 0 A=x:\n7 x\n",
        ] {
            assert_eq!(parse(text, "b"), None, "{text:?}");
        }
    }

    #[test]
    fn another_process_with_a_recorded_number_is_not_concerned() {
        let own = proc_scan::stat(getpid()).unwrap();
        let left = |started| LeftBehind { recorded: [(own.pid, started)].into(), ..left() };
        assert!(left(own.started).concerns(&own));
        assert!(!left(own.started + 1).concerns(&own));
    }

    #[test]
    fn the_record_is_replaced_by_each_scan_that_found_something_else() {
        let dir = tempfile::tempdir().unwrap();
        let mut record = ProcessRecord::begin(dir.path()).unwrap();
        assert_eq!(read(dir.path()).unwrap(), LeftBehind::of(&host::prepare().unwrap()).unwrap());
        let processes = left().recorded;
        let scan = TreeScan { processes: processes.clone(), ..TreeScan::default() };
        record.update(scan).unwrap();
        assert_eq!(read(dir.path()).unwrap().recorded, processes);
        record.update(TreeScan::default()).unwrap();
        assert!(read(dir.path()).unwrap().recorded.is_empty());
    }
}
