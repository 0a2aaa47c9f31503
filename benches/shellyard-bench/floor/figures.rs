//! The figures that a floor's process reports.

use std::io::{self, Write as _};
use std::process::{Command, Stdio};

use serde_json::{Value, json};

/// Elapsed time and CPU time of a floor's process: with the children that it waited for, and
/// without.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FloorFigures {
    pub(crate) seconds: f64,
    pub(crate) cpu_ms: f64,
    pub(crate) own_cpu_ms: f64,
}

impl FloorFigures {
    /// Runs this program as that part.
    pub(crate) fn by(arguments: &[&str]) -> Self {
        let program = std::env::current_exe().expect("this very program");
        let output = Command::new(program).args(arguments).stderr(Stdio::inherit()).output();
        let output = output.expect("it starts");
        assert!(output.status.success(), "{}", output.status);
        let told: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let field = |name: &str| told[name].as_f64().expect("a number");
        Self { seconds: field("seconds"), cpu_ms: field("cpu_ms"), own_cpu_ms: field("own_cpu_ms") }
    }

    /// Tells it to whoever runs this part.
    pub(super) fn tell(&self) -> io::Result<()> {
        let Self { seconds, cpu_ms, own_cpu_ms } = self;
        let told = json!({"seconds": seconds, "cpu_ms": cpu_ms, "own_cpu_ms": own_cpu_ms});
        writeln!(io::stdout(), "{told}")
    }
}
