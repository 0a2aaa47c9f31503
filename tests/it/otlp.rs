//! Spans for a collector: how they are asked for, and that nobody waits for one that is away.

#[cfg(feature = "otlp")]
use rustix::process::Signal;

#[cfg(feature = "otlp")]
use crate::harness::{Launch, free_port};
use crate::harness::{Sandbox, output_of, run_program, text};

#[test]
fn the_collector_is_named_by_a_setting_or_by_the_standard_variable() {
    let sandbox = Sandbox::new();
    let mut command = sandbox.command();
    command.args(["config", "show"]).env("OTEL_EXPORTER_OTLP_ENDPOINT", "http://c.example:4318");
    let shown = text(&output_of(command, "").stdout);
    let line = shown.lines().find(|line| line.contains("otlp_endpoint")).expect("it is shown");
    assert!(line.contains("http://c.example:4318"), "{line}");
    assert!(line.contains("OTEL_EXPORTER_OTLP_ENDPOINT"), "{line}");
    let file = sandbox.write("bad.toml", "[trace]\notlp_endpoint = \"c:4318\"\nsample = 2\n");
    let file = file.to_str().expect("a path");
    let refused = run_program(&sandbox, &["config", "check", file]);
    let said = format!("{}{}", text(&refused.stdout), text(&refused.stderr));
    assert_eq!(refused.status.code(), Some(1), "{said}");
    for why in ["trace.otlp_endpoint", "trace.sample", "a number from 0 to 1"] {
        assert!(said.contains(why), "{why}: {said}");
    }
}

#[cfg(not(feature = "otlp"))]
#[test]
fn a_program_that_cannot_export_says_so_before_it_starts() {
    let sandbox = Sandbox::new();
    for arguments in [&["serve", "--bind", "127.0.0.1:0"][..], &["stdio"], &["run", "--", "true"]] {
        let mut command = sandbox.command();
        command.args(arguments).env("SHELLYARD_TRACE_OTLP_ENDPOINT", "http://127.0.0.1:4318");
        let refused = output_of(command, "");
        assert!(!refused.status.success(), "{arguments:?}");
        let said = text(&refused.stderr);
        assert!(said.contains("cargo build --release --features otlp"), "{said}");
    }
    let told = text(&run_program(&sandbox, &["doctor"]).stdout);
    assert!(told.contains("traces: this build cannot export spans"), "{told}");
    // What is meant for all programs stops none.
    let mut command = sandbox.command();
    command.args(["run", "--", "true"]).env("OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:4318");
    assert!(output_of(command, "").status.success());
}

#[cfg(feature = "otlp")]
#[test]
fn a_collector_that_is_away_holds_up_neither_jobs_nor_the_end() {
    let endpoint = format!("http://localhost:{}", free_port());
    for launch in Launch::both() {
        let mut server = launch.env("OTEL_EXPORTER_OTLP_ENDPOINT", &endpoint).start();
        server.assert_alive();
        server.signal(Signal::TERM);
        assert!(server.wait_exit().success(), "{}", server.log_text());
        let complaints = server.log_text().matches("spans lost").count();
        assert!(complaints <= 1, "{}", server.log_text());
    }
    let sandbox = Sandbox::new();
    let mut command = sandbox.command();
    command.arg("doctor").env("OTEL_EXPORTER_OTLP_ENDPOINT", &endpoint);
    let told = text(&output_of(command, "").stdout);
    assert!(told.contains(&format!("traces: spans go to {endpoint}")), "{told}");
}
