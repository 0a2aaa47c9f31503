//! Sections of a log: the parts with a head that says what they are about. A commit or a file of a
//! patch, a stack trace, a test, the lines of a list that belong to one file.
//!
//! A search lists the head of the section that a match is in. Nothing is known about a log in
//! advance: [`finder`] reads the lines before a match, [`tracker`] follows them.

mod file_list;
mod finder;
mod patch;
mod section_line;
mod test_run;
mod trace;
mod tracker;

#[cfg(test)]
mod tests;

pub(crate) use finder::SectionFinder;
pub use tracker::SectionHead;
