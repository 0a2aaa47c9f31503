//! Growth of a cost with the load.

use serde_json::{Value, json};

use super::{Goal, Row};
use crate::stats::exponent;

/// A little above linear, for the noise of the machine.
const STEEPEST: Goal = Goal::AtMost(1.1);

/// A cost at several loads.
#[derive(Debug, Clone)]
pub(crate) struct Curve {
    /// The name of its file.
    pub(crate) name: &'static str,
    pub(crate) title: &'static str,
    pub(crate) load: &'static str,
    pub(crate) cost: &'static str,
    /// Load and cost, both above zero.
    pub(crate) points: Vec<(f64, f64)>,
}

impl Curve {
    /// The exponent as a figure: 0 is independent of the load, 1 is linear.
    pub(super) fn row(&self) -> Row {
        let what = format!("growth: {}, by {}", self.title, self.load);
        Row::new(what, "exponent", exponent(&self.points)).goal(STEEPEST)
    }

    pub(super) fn json(&self) -> Value {
        json!({
            "name": self.name,
            "title": self.title,
            "load": self.load,
            "cost": self.cost,
            "points": self.points,
            "exponent": exponent(&self.points),
        })
    }
}
