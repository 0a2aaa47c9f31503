//! `self-test`: runs a few jobs on a private server and checks that every limit holds on this host.

use clap::Args;
use serde_json::json;

use super::self_test_checks::{self as checks, CheckResult, SelfTestCheck};
use super::self_test_server::PrivateServer;
use super::terminal::{
    Display, OutputFormat, VerbOutput, format_with_causes, read_width, with_spinner_thread,
};
use super::text_layout::{escape_for_terminal, format_table_within, wrap_text};

/// Flags of the verb `self-test`.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct SelfTestFlags {
    /// Print JSON instead of text.
    #[arg(long)]
    pub json: bool,
}

/// Runs all checks, prints the results, and returns the exit code: 1 if a check failed.
#[must_use]
pub(super) fn run(flags: &SelfTestFlags, display: &Display) -> u8 {
    let results = with_spinner_thread(display, "running the checks", run_checks);
    let width = read_width(&std::io::stdout());
    format_results(&results, OutputFormat::from_json_flag(flags.json), width).print()
}

fn run_checks() -> Vec<SelfTestCheck> {
    let mut server = match PrivateServer::start() {
        Ok(server) => server,
        Err(error) => {
            let detail = format_with_causes(&error);
            return vec![SelfTestCheck { name: "start", result: CheckResult::Failed, detail }];
        }
    };
    checks::run_all(&mut server)
}

fn format_results(
    results: &[SelfTestCheck],
    format: OutputFormat,
    width: Option<usize>,
) -> VerbOutput {
    let has_failed = results.iter().any(|check| check.result == CheckResult::Failed);
    let code = u8::from(has_failed);
    match format {
        OutputFormat::Json => {
            let checks: Vec<_> = results
                .iter()
                .map(|check| {
                    json!({
                        "check": check.name, "result": check.result.word(), "detail": check.detail
                    })
                })
                .collect();
            let answer = json!({ "ok": !has_failed, "checks": checks });
            VerbOutput { stdout: format!("{answer:#}\n"), code, ..VerbOutput::default() }
        }
        OutputFormat::Human => {
            let head = ["CHECK", "RESULT", "DETAIL"].map(str::to_owned).to_vec();
            let rows = results.iter().map(|check| {
                let result = check.result.word().replace('_', " ");
                vec![check.name.to_owned(), result, escape_for_terminal(&check.detail)]
            });
            let table: Vec<Vec<String>> = std::iter::once(head).chain(rows).collect();
            let summary = wrap_text(&format_summary(results), width);
            let stdout = format!("{}\n{summary}\n", format_table_within(&table, width));
            VerbOutput { stdout, code, ..VerbOutput::default() }
        }
    }
}

fn format_summary(results: &[SelfTestCheck]) -> String {
    let count = |wanted| results.iter().filter(|check| check.result == wanted).count();
    let [ok, failed, missing] =
        [CheckResult::Ok, CheckResult::Failed, CheckResult::NotAvailable].map(count);
    let advice = match (failed, missing) {
        (0, 0) => "everything works on this host",
        (0, _) => "`shellyard doctor` says how this host can provide the rest",
        _ => "a limit does not hold on this host: do not rely on it",
    };
    format!("{ok} ok, {failed} failed, {missing} not available: {advice}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(name: &'static str, result: CheckResult) -> SelfTestCheck {
        SelfTestCheck { name, result, detail: format!("about {name}\u{1b}[2J") }
    }

    #[test]
    fn one_failure_is_the_exit_code_and_missing_support_is_not() {
        let good = [check("a", CheckResult::Ok), check("b", CheckResult::NotAvailable)];
        let output = format_results(&good, OutputFormat::Human, None);
        assert_eq!(output.code, 0);
        assert!(output.stdout.contains("b      not available  about b\\u{1b}[2J\n"), "{output:?}");
        assert!(output.stdout.contains("1 ok, 0 failed, 1 not available: "), "{output:?}");
        let narrow = format_results(&good, OutputFormat::Human, Some(20)).stdout;
        assert!(narrow.starts_with("a  result: ok\n  detail: about\n"), "{narrow}");
        let bad = [check("a", CheckResult::Ok), check("c", CheckResult::Failed)];
        let output = format_results(&bad, OutputFormat::Json, None);
        assert_eq!(output.code, 1);
        let answer: serde_json::Value = serde_json::from_str(&output.stdout).unwrap();
        assert_eq!(
            (&answer["ok"], &answer["checks"][1]["result"]),
            (&json!(false), &json!("failed"))
        );
    }
}
