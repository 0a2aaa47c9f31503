//! The frames of one part of a stack trace.

/// Frames that are kept of a trace, and of each cause.
const FRAMES: usize = 3;
/// Beginnings of frames that belong to a language or to a common library.
const LIBRARY_STARTS: &[&str] = &[
    "java.",
    "javax.",
    "jdk.",
    "sun.",
    "kotlin.",
    "kotlinx.",
    "scala.",
    "groovy.",
    "System.",
    "Microsoft.",
    "org.springframework.",
    "org.hibernate.",
    "org.apache.",
    "org.postgresql.",
    "com.mysql.",
    "com.zaxxer.",
    "io.netty.",
    "reactor.",
];
/// Parts of the paths of libraries.
const LIBRARY_PARTS: &[&str] = &[
    "site-packages/",
    "dist-packages/",
    "/lib/python",
    "<frozen ",
    "node_modules/",
    "node:",
    "(<anonymous>)",
    "/gems/",
    "/vendor/",
];

/// The first frames of a part of a trace, the innermost first. If they all belong to libraries, the
/// innermost frame of the program itself is kept too.
#[derive(Debug, Clone, Default)]
pub(crate) struct FrameSection {
    frames: Vec<String>,
    own: Option<String>,
}

impl FrameSection {
    /// Adds a frame that called the frames before it.
    pub(crate) fn push_outer(&mut self, frame: String) {
        if self.frames.len() < FRAMES {
            self.frames.push(frame);
        } else if self.own.is_none() && !is_library(&frame) {
            self.own = Some(frame);
        }
    }

    /// Adds a frame that the frames before it called.
    pub(crate) fn push_inner(&mut self, frame: String) {
        self.frames.insert(0, frame);
        if self.frames.len() > FRAMES
            && let Some(outer) = self.frames.pop()
            && !is_library(&outer)
        {
            self.own = Some(outer);
        }
    }

    /// Takes the frames, and leaves none.
    pub(crate) fn take(&mut self) -> Vec<String> {
        let Self { mut frames, own } = std::mem::take(self);
        if frames.iter().all(|frame| is_library(frame)) {
            frames.extend(own);
        }
        frames
    }
}

fn is_library(frame: &str) -> bool {
    LIBRARY_STARTS.iter().any(|start| frame.starts_with(start))
        || LIBRARY_PARTS.iter().any(|part| frame.contains(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(frames: &[&str]) -> Vec<String> {
        frames.iter().map(|&frame| frame.to_owned()).collect()
    }

    #[test]
    fn the_first_frame_of_the_program_is_kept_below_those_of_libraries() {
        let mut section = FrameSection::default();
        for frame in
            ["java.a(A.java:1)", "java.b(B.java:2)", "java.c(C.java:3)", "java.d", "app.e", "app.f"]
        {
            section.push_outer(frame.to_owned());
        }
        let expected = ["java.a(A.java:1)", "java.b(B.java:2)", "java.c(C.java:3)", "app.e"];
        assert_eq!(section.take(), names(&expected));
        assert_eq!(section.take(), names(&[]));
    }

    #[test]
    fn three_innermost_frames_are_kept_of_a_trace_that_begins_with_the_outermost() {
        let mut section = FrameSection::default();
        for frame in [
            "app.py:1",
            "app.py:2",
            "site-packages/a.py:3",
            "site-packages/b.py:4",
            "site-packages/c.py:5",
        ] {
            section.push_inner(frame.to_owned());
        }
        let expected =
            ["site-packages/c.py:5", "site-packages/b.py:4", "site-packages/a.py:3", "app.py:2"];
        assert_eq!(section.take(), names(&expected));
        for frame in ["app.py:1", "app.py:2", "app.py:3", "app.py:4"] {
            section.push_inner(frame.to_owned());
        }
        assert_eq!(section.take(), names(&["app.py:4", "app.py:3", "app.py:2"]));
    }
}
