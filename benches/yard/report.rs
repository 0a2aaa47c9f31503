//! Figures side by side.

use serde_json::json;

/// One figure and its floor. A ratio of 1 means that we cost nothing.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) what: String,
    pub(crate) unit: &'static str,
    pub(crate) ours: f64,
    pub(crate) floor: Option<f64>,
}

impl Row {
    fn ratio(&self) -> Option<f64> {
        self.floor.map(|floor| self.ours / floor)
    }
}

/// The middle of some measurements.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    assert!(!values.is_empty(), "something was measured");
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// A table for people.
pub(crate) fn table(rows: &[Row]) -> String {
    let mut text = format!("{:<52} {:>10} {:>10} {:>7}\n", "", "ours", "floor", "ratio");
    for row in rows {
        let what = format!("{} ({})", row.what, row.unit);
        let floor = row.floor.map_or("-".to_owned(), |floor| format!("{floor:.1}"));
        let ratio = row.ratio().map_or("-".to_owned(), |ratio| format!("{ratio:.2}"));
        text += &format!("{what:<52} {:>10.1} {floor:>10} {ratio:>7}\n", row.ours);
    }
    text
}

/// The same for programs.
pub(crate) fn json(rows: &[Row]) -> String {
    let rows: Vec<_> = rows
        .iter()
        .map(|row| {
            let mut entry = json!({"what": row.what, "unit": row.unit, "ours": row.ours});
            if let (Some(floor), Some(ratio)) = (row.floor, row.ratio()) {
                entry["floor"] = json!(floor);
                entry["ratio"] = json!(ratio);
            }
            entry
        })
        .collect();
    format!("{}\n", json!({"version": env!("CARGO_PKG_VERSION"), "rows": rows}))
}
