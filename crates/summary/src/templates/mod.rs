//! Counts lines by template, in bounded memory.
//!
//! A template is a line with its variable parts masked (see `masking`). Lines with the same hash
//! of the masked line are counted by one [`TemplateEntry`], which keeps the first and the last of
//! them. [`TemplateTable::groups`] then divides the templates into clusters (see `grouping`):
//!
//! - A cluster is **tight** if its lines are alike in most words, such as a listing in which only
//!   the names differ. All its lines are one group.
//! - It is **loose** if its lines have some words in common and free text after them, such as the
//!   subjects of commits behind their hashes. Its frequent templates are groups of their own, and
//!   the rest is clustered once more.
//!
//! Groups that differ in one word are joined if there are three or more of them, and so are groups
//! of which one has the pattern of the other. A group is **regular** if it has enough lines: four
//! if at most one word differs, one line in a thousand if it is tight, and one in fifty if it is
//! loose and at least one word is the same everywhere. A line is **rare** if
//!
//! - it is not part of a regular group, its template occurs at most three times, and regular groups
//!   make up 98 % of all lines: in prose, source code or a patch nothing is rare; or
//! - one of its numbers is far beyond all others at its position (see `NumberColumns`), in a group that
//!   has at least a fifth of all lines.
//!
//! Memory: a table holds at most 8,192 templates, with 400 bytes of their first and of their last
//! line. When it is full, its regular groups replace their members, and from then on take in the
//! lines that have their pattern. Other templates that occurred once are dropped and only counted
//! unless nearly all lines are regular. The lines of a table that is never full are counted exactly.

mod grouping;
mod masking;
mod table;

pub use table::{TemplateEntry, TemplateTable};
