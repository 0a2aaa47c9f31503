//! Programs that write files: copying, moving, linking, splitting, sorting.
//!
//! None of the options here starts a program; those that do (`sort --compress-program`,
//! `split --filter`, `install --strip-program`) are left out.

use super::consequence::Consequence;
use super::dispatch::Judgement;
use super::options::{NO_OPTIONS, Options, read};
use crate::command::Word;

/// GNU coreutils 9.1, sort(1), without `--compress-program`.
const SORT: Options = Options {
    flags: "bdfgiMhnRrVcCmsuz",
    values: "koStT",
    long_flags: &[
        "ignore-leading-blanks",
        "dictionary-order",
        "ignore-case",
        "general-numeric-sort",
        "ignore-nonprinting",
        "month-sort",
        "human-numeric-sort",
        "numeric-sort",
        "random-sort",
        "reverse",
        "version-sort",
        "debug",
        "merge",
        "stable",
        "unique",
        "zero-terminated",
        "help",
        "version",
    ],
    long_values: &[
        "sort",
        "batch-size",
        "files0-from",
        "key",
        "output",
        "random-source",
        "buffer-size",
        "field-separator",
        "temporary-directory",
        "parallel",
    ],
    long_attached: &["check"],
    ..NO_OPTIONS
};

/// Judges the arguments of a program that writes files.
pub(super) fn consequences(program: &str, args: &[Word]) -> Judgement {
    match program {
        "sort" => Some(read(args, &SORT).map(|found| {
            found.values(&["o", "output"]).cloned().map(Consequence::Writes).collect()
        })),
        _ => None,
    }
}
