//! Figures side by side: for people, for programs, and for the documentation.

mod curve;
mod docs;
mod goal;
mod machine;
mod plot;
mod row;
mod table;
mod text;
mod whole;

pub(crate) use curve::Curve;
pub(crate) use goal::Goal;
pub(crate) use machine::Machine;
pub(crate) use row::Row;
pub(crate) use table::{Measured, Table};
pub(crate) use whole::{Mode, Report};
