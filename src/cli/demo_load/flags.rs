//! Flags of `demo-load`.

use std::num::NonZeroU16;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use crate::cli::AskFlags;

const HELP: &str = "\
Harmless: jobs run `echo`, `printf`, `sleep`, `read` and `yes | head` in /tmp, write no file, and
end by themselves within seconds; those still in the background at the end are stopped.

Examples:
  shellyard demo-load                                 four agents for a minute
  shellyard demo-load --duration 0 --agents 8         until Ctrl-C
  shellyard demo-load --as alice.token --as ci.token  as two tenants, in turns

Exit code: 0, or 1 when the server could not be reached or failed at something itself.";

/// Flags of `demo-load`.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
#[command(after_help = HELP)]
pub struct DemoLoadFlags {
    /// How long, such as 60s or 5m; 0 = until Ctrl-C.
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = duration)]
    pub duration: Duration,
    /// End after so many deeds of all agents together.
    #[arg(long, value_name = "N")]
    pub deeds: Option<u64>,
    /// Agents that work at the same time.
    #[arg(long, value_name = "N", default_value = "4")]
    pub agents: NonZeroU16,
    /// How long an agent thinks between two deeds, on average, such as 200ms.
    #[arg(long, value_name = "TIME", default_value = "200ms", value_parser = duration)]
    pub pause: Duration,
    /// The same seed gives the same deeds.
    #[arg(long, value_name = "N", default_value = "1")]
    pub seed: u64,
    /// File with the token of a tenant that agents work as; several take turns.
    #[arg(long = "as", value_name = "FILE")]
    pub tenants: Vec<PathBuf>,
    /// Which server is used.
    #[command(flatten)]
    pub server: AskFlags,
}

fn duration(text: &str) -> Result<Duration, String> {
    let (number, unit) =
        text.split_at(text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len()));
    let millis = match unit {
        "ms" => Some(1),
        "s" | "" => Some(1000),
        "m" => Some(60_000),
        "h" => Some(3_600_000),
        _ => None,
    };
    number
        .parse::<u64>()
        .ok()
        .zip(millis)
        .and_then(|(number, millis)| number.checked_mul(millis))
        .map(Duration::from_millis)
        .ok_or_else(|| "give a whole number and a unit, such as 60s, 5m or 200ms".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_a_number_and_a_unit() {
        for (text, millis) in
            [("60s", 60_000), ("2m", 120_000), ("200ms", 200), ("0", 0), ("1h", 3_600_000)]
        {
            assert_eq!(duration(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        for text in ["", "s", "1.5s", "-1s", "5 s", "5d", "18446744073709551615h"] {
            assert!(duration(text).unwrap_err().contains("60s"), "{text}");
        }
    }
}
