//! The places of failed tests: the choice of a frame, and traces at the same place.

use crate::summary::{Failure, ToolReport};

/// The rank of a frame as the place of a failure.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum PlaceRank {
    /// There is no frame yet.
    #[default]
    None,
    AnyFile,
    /// A file of tests, by its name.
    TestFile,
    /// The file that the tool named for the failure.
    SameFile,
}

impl PlaceRank {
    /// The rank of a frame for a failure whose place is the frame of rank `known`.
    pub(crate) fn of_frame(frame: &str, failure: &Failure, known: Self) -> Self {
        match &failure.file {
            Some(file) if known == Self::None && is_same_file(frame, file) => Self::SameFile,
            Some(_) if known == Self::None => Self::None,
            _ if is_test_file(frame) => Self::TestFile,
            _ => Self::AnyFile,
        }
    }
}

/// Removes the traces of failures that tools report: a frame is at the place of the failure. Such a
/// trace is the message of a failure that has none.
pub(crate) fn join_traces(tools: &mut [ToolReport], traces: &mut Vec<Failure>) {
    traces.retain(|trace| {
        let mut failures = tools.iter_mut().flat_map(|tool| &mut tool.failures);
        let Some(failure) = failures.find(|failure| is_in_trace(failure, trace)) else {
            return true;
        };
        if failure.message.is_none() {
            failure.message.clone_from(&trace.message);
        }
        false
    });
}

fn is_in_trace(failure: &Failure, trace: &Failure) -> bool {
    let (Some(file), Some(line)) = (&failure.file, failure.line) else { return false };
    let place = format!("{}:{line}", file.trim_start_matches("./"));
    let is_part = |char: char| char.is_ascii_alphanumeric() || matches!(char, '_' | '-' | '.');
    trace.frames.iter().any(|frame| {
        frame.match_indices(&place).any(|(at, _)| {
            let rest = &frame[at + place.len()..];
            !frame[..at].ends_with(is_part) && !rest.starts_with(|char: char| char.is_ascii_digit())
        })
    })
}

/// `true` if one path is the end of the other.
fn is_same_file(one: &str, other: &str) -> bool {
    let one = one.trim_start_matches("./");
    let other = other.trim_start_matches("./");
    let ends_with = |path: &str, end: &str| {
        path.strip_suffix(end).is_some_and(|start| start.is_empty() || start.ends_with('/'))
    };
    ends_with(one, other) || ends_with(other, one)
}

/// `true` if the name or the folder of a file is that of tests.
fn is_test_file(path: &str) -> bool {
    let (folders, name) = path.rsplit_once('/').unwrap_or(("", path));
    let is_test_folder =
        |folder: &str| matches!(folder, "test" | "tests" | "__tests__" | "spec" | "specs" | "e2e");
    let name = name.to_ascii_lowercase();
    name.contains("test") || name.contains("spec") || folders.split('/').any(is_test_folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_in_the_file_of_the_test_is_the_best_place() {
        use PlaceRank::{AnyFile, None, SameFile, TestFile};
        let known = Failure { file: Some("./test/a.test.js".into()), ..Failure::default() };
        let unknown = Failure::default();
        for (failure, frame, rank) in [
            (&known, "/srv/app/test/a.test.js", SameFile),
            (&known, "test/a.test.js", SameFile),
            (&known, "latest/a.test.js", None),
            (&known, "src/a.js", None),
            (&unknown, "src/a.js", AnyFile),
            (&unknown, "src/a_test.py", TestFile),
            (&unknown, "tests/a.py", TestFile),
            (&unknown, "/srv/contest/a.py", AnyFile),
        ] {
            assert_eq!(PlaceRank::of_frame(frame, failure, None), rank, "{frame}");
        }
    }
}
