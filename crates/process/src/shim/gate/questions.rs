//! The starts that wait for somebody's answer.

use std::fs::{self, File};
use std::io::Read as _;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt as _;

use rustix::fs::{FileType, Mode, OFlags, fstat, open};
use rustix::pipe::{PipeFlags, SpliceFlags, pipe_with, tee};
use rustix::process::Pid;

use super::exec_gate::PermittedStart;
use super::listener::{Listener, Notification};
use super::protocol::StartQuestion;
use crate::shim::plan::memory_file;

/// The most questions that are open at once. Further starts are refused.
const MOST_QUESTIONS: usize = 256;
/// The longest question. The whole command must be shown to somebody.
const MOST_QUESTION_BYTES: usize = 1 << 20;
/// The number of bytes of standard input that a question shows.
const INPUT_HEAD_BYTES: usize = 4096;

/// A start that waits for an answer.
#[derive(Debug)]
pub(super) struct OpenQuestion {
    pub(super) notification: Notification,
    pub(super) start: PermittedStart,
    question: StartQuestion,
}

/// The open questions, in their order.
#[derive(Debug, Default)]
pub(super) struct Questions {
    open: Vec<OpenQuestion>,
    last_id: u64,
}

impl Questions {
    /// Adds a question, and returns its number; `None` if there are too many, or if it is too long.
    pub(super) fn add(
        &mut self,
        notification: Notification,
        start: PermittedStart,
        question: StartQuestion,
    ) -> Option<u64> {
        let length: usize = question.argv.iter().map(|word| word.len() + 1).sum();
        let variables =
            question.changed_variables.iter().map(|(name, value)| name.len() + value.len());
        if self.open.len() >= MOST_QUESTIONS
            || length + variables.sum::<usize>() > MOST_QUESTION_BYTES
        {
            return None;
        }
        self.last_id += 1;
        let id = self.last_id;
        let question = StartQuestion { id, ..question };
        self.open.push(OpenQuestion { notification, start, question });
        Some(id)
    }

    pub(super) fn take(&mut self, id: u64) -> Option<OpenQuestion> {
        let place = self.open.iter().position(|open| open.question.id == id)?;
        Some(self.open.remove(place))
    }

    /// Removes the questions whose tasks do not wait any more, and returns their numbers.
    pub(super) fn remove_gone(&mut self, listener: &Listener) -> Vec<u64> {
        let mut gone = Vec::new();
        self.open.retain(|open| {
            let is_waiting = listener.is_waiting(open.notification.id);
            gone.extend((!is_waiting).then_some(open.question.id));
            is_waiting
        });
        gone
    }

    pub(super) fn ids(&self) -> Vec<u64> {
        self.open.iter().map(|open| open.question.id).collect()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// Writes a question into a file in memory: a command can be longer than a message. `None` if it is
    /// over.
    pub(super) fn write(&self, id: u64) -> Option<std::io::Result<OwnedFd>> {
        let open = self.open.iter().find(|open| open.question.id == id)?;
        let bytes = postcard::to_stdvec(&open.question).map_err(std::io::Error::other);
        Some(bytes.and_then(|bytes| memory_file(&bytes)))
    }
}

/// Reads the beginning of a task's standard input without taking it away: from a file at the place where
/// the task would read, or a copy of what waits in a pipe.
pub(super) fn peek_input(task: Pid) -> Option<Vec<u8>> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let path = format!("/proc/{task}/fd/0");
    let kind = |file: &OwnedFd| Some(FileType::from_raw_mode(fstat(file).ok()?.st_mode));
    // Opening a device or a socket could have an effect.
    let place = open(path.as_str(), OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).ok()?;
    let kind = kind(&place)?;
    if kind != FileType::RegularFile && kind != FileType::Fifo {
        return None;
    }
    let input = open(path.as_str(), flags, Mode::empty()).ok()?;
    if kind == FileType::Fifo { peek_pipe(&input) } else { peek_file(task, File::from(input)) }
}

fn peek_pipe(input: &OwnedFd) -> Option<Vec<u8>> {
    let (reader, writer) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK).ok()?;
    tee(input, &writer, INPUT_HEAD_BYTES, SpliceFlags::NONBLOCK).ok()?;
    drop(writer);
    let mut head = Vec::new();
    File::from(reader).take(INPUT_HEAD_BYTES as u64).read_to_end(&mut head).ok()?;
    Some(head)
}

fn peek_file(task: Pid, input: File) -> Option<Vec<u8>> {
    let info = fs::read_to_string(format!("/proc/{task}/fdinfo/0")).ok()?;
    let place = info.lines().find_map(|line| line.strip_prefix("pos:"))?.trim().parse().ok()?;
    let mut head = vec![0; INPUT_HEAD_BYTES];
    let length = input.read_at(&mut head, place).ok()?;
    head.truncate(length);
    Some(head)
}

#[cfg(test)]
mod tests {
    use std::io::{Seek as _, SeekFrom, Write as _};
    use std::process::{Child, Command, Stdio};

    use super::*;

    fn sleep(stdin: Stdio) -> Child {
        Command::new("sleep").arg("1000").stdin(stdin).spawn().unwrap()
    }

    fn peek(mut child: Child) -> Option<Vec<u8>> {
        // Until its program runs, it is as protected as this process.
        while fs::read_link(format!("/proc/{}/exe", child.id())).is_err() {}
        let head = peek_input(Pid::from_child(&child));
        child.kill().unwrap();
        child.wait().unwrap();
        head
    }

    #[test]
    fn the_input_is_shown_and_stays_there() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"read rest").unwrap();
        file.seek(SeekFrom::Start(5)).unwrap();
        assert_eq!(peek(sleep(file.try_clone().unwrap().into())).unwrap(), b"rest");
        let (mut reader, mut writer) = std::io::pipe().unwrap();
        let empty = sleep(reader.try_clone().unwrap().into());
        assert_eq!(peek(empty), None, "more may come");
        writer.write_all(b"typed").unwrap();
        let child = sleep(reader.try_clone().unwrap().into());
        assert_eq!(peek(child).unwrap(), b"typed");
        drop(writer);
        let mut left = String::new();
        reader.read_to_string(&mut left).unwrap();
        assert_eq!(left, "typed");
        assert_eq!(peek(sleep(Stdio::null())), None);
    }
}
