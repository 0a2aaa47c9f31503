//! One figure of the report, with its floor and goal.

use serde_json::{Value, json};

use super::{Goal, Mode};

/// One figure, what the same costs without us where that can be told, and what it shall be.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) what: String,
    pub(crate) unit: &'static str,
    pub(crate) ours: f64,
    pub(crate) floor: Option<f64>,
    goal: Option<Goal>,
}

impl Row {
    /// A figure without a floor and without a goal.
    pub(crate) fn new(what: impl Into<String>, unit: &'static str, ours: f64) -> Self {
        Self { what: what.into(), unit, ours, floor: None, goal: None }
    }

    /// The same beside its floor: a ratio of 1 means that we cost nothing.
    pub(crate) fn beside(self, floor: f64) -> Self {
        Self { floor: Some(floor), ..self }
    }

    /// The same with its goal.
    pub(crate) fn goal(self, goal: Goal) -> Self {
        Self { goal: Some(goal), ..self }
    }

    /// The same with a goal where this is the load that has one.
    pub(crate) fn goal_at(self, load: usize, with_goal: usize, goal: Goal) -> Self {
        if load == with_goal { self.goal(goal) } else { self }
    }

    /// Nothing where the floor was too little to be seen.
    pub(super) fn ratio(&self) -> Option<f64> {
        self.floor.filter(|floor| *floor > 0.0).map(|floor| self.ours / floor)
    }

    /// The columns behind its name: figure, floor, ratio, goal, and whether that is met.
    pub(super) fn cells(&self) -> [String; 5] {
        let maybe = |cell: Option<String>| cell.unwrap_or_else(|| "–".to_owned());
        [
            figure(self.ours),
            maybe(self.floor.map(figure)),
            maybe(self.ratio().map(|ratio| format!("{ratio:.2}"))),
            maybe(self.goal.map(|goal| goal.to_string())),
            maybe(self.goal.map(|goal| goal.verdict(self).to_owned())),
        ]
    }

    /// For programs; whether the goal is met is told where times are judged.
    pub(super) fn json(&self, mode: Mode) -> Value {
        let verdict = match mode {
            Mode::Full => self.goal.map(|goal| goal.verdict(self)),
            Mode::Quick => None,
        };
        json!({
            "what": self.what,
            "unit": self.unit,
            "ours": self.ours,
            "floor": self.floor,
            "ratio": self.ratio(),
            "goal": self.goal.map(|goal| goal.to_string()),
            "verdict": verdict,
        })
    }
}

/// About three digits that mean something.
fn figure(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        size if size >= 1.0 || size == 0.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}
