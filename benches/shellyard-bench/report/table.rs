//! The table of figures for one confinement profile.

use serde_json::{Value, json};

use super::{Curve, Mode, Row};
use crate::bench::Profile;
use crate::work::Work;

/// The figures of one measurement.
#[derive(Debug)]
pub(crate) struct Measured {
    pub(crate) rows: Vec<Row>,
    pub(crate) curves: Vec<Curve>,
}

impl From<Vec<Row>> for Measured {
    fn from(rows: Vec<Row>) -> Self {
        Self { rows, curves: Vec::new() }
    }
}

/// All that was found with one profile; without one, what each kind of confinement costs.
#[derive(Debug)]
pub(crate) struct Table {
    pub(super) profile: Option<Profile>,
    /// Each with the letter of its measurement, where it has one.
    pub(super) rows: Vec<(Option<char>, Row)>,
    pub(super) curves: Vec<Curve>,
}

impl Table {
    /// Creates an empty table.
    pub(crate) const fn new(profile: Profile) -> Self {
        Self { profile: Some(profile), rows: Vec::new(), curves: Vec::new() }
    }

    /// The one without a profile; its figures have no letter.
    pub(crate) fn of_kinds(rows: Vec<Row>) -> Self {
        let rows = rows.into_iter().map(|row| (None, row)).collect();
        Self { profile: None, rows, curves: Vec::new() }
    }

    /// The profile that the table is about.
    pub(super) fn heading(&self) -> String {
        let with = |profile: Profile| format!("With the profile `{}`", profile.name());
        self.profile.map_or_else(|| "Each kind of confinement".to_owned(), with)
    }

    /// Adds what a measurement found; how its curves grow are figures, too.
    pub(crate) fn add(&mut self, work: Work, mut found: Measured) {
        // Where the host had no room for more than one load, nothing is known of growth.
        found.curves.retain(|curve| curve.points.len() > 1);
        let growth: Vec<Row> = found.curves.iter().map(Curve::row).collect();
        let rows = found.rows.into_iter().chain(growth);
        self.rows.extend(rows.map(|row| (Some(work.key()), row)));
        self.curves.extend(found.curves);
    }

    pub(super) fn json(&self, mode: Mode) -> Value {
        let rows = self.rows.iter().map(|(letter, row)| {
            let mut entry = row.json(mode);
            entry["letter"] = json!(letter);
            entry
        });
        json!({
            "profile": self.profile.map(Profile::name),
            "rows": rows.collect::<Vec<_>>(),
            "growth": self.curves.iter().map(Curve::json).collect::<Vec<_>>(),
        })
    }
}
