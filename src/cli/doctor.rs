//! `shellyard doctor`: what jobs get from this host, and what they do not.

use std::io::{self, Write};

use serde_json::json;

use super::DoctorFlags;
use crate::policy::environment::Cleaned;

/// Tells which variables jobs get and which not: names only, never a value. Returns the exit code.
#[must_use]
pub fn run(flags: &DoctorFlags, environment: &Cleaned) -> u8 {
    let text = if flags.json { as_json(environment) } else { as_text(environment) };
    // A reader that went away (`| head`) cannot be told anything any more.
    u8::from(io::stdout().lock().write_all(text.as_bytes()).is_err())
}

fn kept(environment: &Cleaned) -> Vec<String> {
    environment.kept.iter().map(|(name, _)| name.to_string_lossy().into_owned()).collect()
}

fn as_text(environment: &Cleaned) -> String {
    let mut text = format!("ok    environment: jobs get {}\n", kept(environment).join(" "));
    for dropped in &environment.dropped {
        text.push_str(&format!("      left out: {} ({})\n", dropped.name, dropped.why.word()));
    }
    text + "      to pass a variable on, name it in environment.pass\n"
}

fn as_json(environment: &Cleaned) -> String {
    let one = |dropped: &crate::policy::environment::DroppedName| json!({ "name": dropped.name, "why": dropped.why.word() });
    let dropped: Vec<_> = environment.dropped.iter().map(one).collect();
    let answer = json!({ "environment": { "passed": kept(environment), "dropped": dropped } });
    format!("{answer:#}\n")
}
