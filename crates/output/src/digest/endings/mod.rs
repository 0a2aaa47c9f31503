//! How the tools in an output ended: one recogniser per tool family, which speaks only where its
//! tool's own signature stands.

mod build_tools;
mod cargo;
mod compilers;
mod ending;
mod go;
mod javascript;
mod javascript_testers;
mod jvm;
mod names;
mod numbers;
mod python;
mod python_testers;
mod system;
mod table;
mod unix;

pub use ending::{Counts, Ending};

pub(super) use ending::{Recogniser, Sight, Wants};
pub(super) use table::{SIGNS, recognisers};
