//! Formatting of numbers, sizes and times for people.

use std::time::Duration;

use crate::outcome::{KillNote, LivingProcesses, signal_name};
use crate::output::LogProgress;

const SECOND: Duration = Duration::from_secs(1);

/// Formats `1138` as `1,138`.
pub(crate) fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Formats a count, as `1 line` or `1,138 lines`.
pub(crate) fn count(number: u64, one: &str, many: &str) -> String {
    format!("{} {}", thousands(number), if number == 1 { one } else { many })
}

/// Formats a number of bytes that are missing of this output: `up to 64 KB` if nobody knows how many.
pub(crate) fn lost_size(bytes: u64, output: &LogProgress) -> String {
    let at_most = if output.dropped_at_most { "up to " } else { "" };
    format!("{at_most}{}", size(bytes))
}

/// Formats a size, as `812 bytes`, `37 KB`, `1.4 MB` or `2.0 GB`.
pub(crate) fn size(bytes: u64) -> String {
    const KILO: u64 = 1_000;
    const MEGA: u64 = 1_000_000;
    const GIGA: u64 = 1_000_000_000;
    // Each limit is the value at which the smaller unit would round up to a thousand.
    match bytes {
        0..KILO => count(bytes, "byte", "bytes"),
        KILO..999_500 => format!("{} KB", (bytes + KILO / 2) / KILO),
        999_500..999_950_000 => tenths(bytes, MEGA, "MB"),
        999_950_000.. => tenths(bytes, GIGA, "GB"),
    }
}

fn tenths(bytes: u64, unit: u64, name: &str) -> String {
    let tenths = (bytes.saturating_add(unit / 20)) / (unit / 10);
    format!("{}.{} {name}", thousands(tenths / 10), tenths % 10)
}

/// Formats a time that is over, as `0.4s`, `12.7s`, `2m05s` or `1h02m`.
pub(crate) fn exact(time: Duration) -> String {
    let tenths = (time.as_millis() + 50) / 100;
    if tenths < 600 { format!("{}.{}s", tenths / 10, tenths % 10) } else { minutes(time) }
}

/// Formats a time that still runs, as `30s`, `2m05s` or `1h02m`.
pub(crate) fn rough(time: Duration) -> String {
    if time.as_secs() < 60 { format!("{}s", time.as_secs()) } else { minutes(time) }
}

/// Formats a future time, rounded up to whole seconds, as `1s`, `40s` or `2m05s`.
pub(crate) fn soon(time: Duration) -> String {
    rough(Duration::from_secs(time.as_secs() + u64::from(time.subsec_nanos() > 0)).max(SECOND))
}

/// Returns a time in whole milliseconds.
pub(crate) fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Characters of a command in a line of text.
const COMMAND_CHARS: usize = 100;
/// Puts text on one line and shortens it.
pub(super) fn shorten_to_line(text: &str) -> String {
    let flat: String = text
        .trim()
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .take(COMMAND_CHARS)
        .collect();
    if text.trim().chars().nth(COMMAND_CHARS).is_some() { flat + "…" } else { flat }
}

/// Formats a configured limit, as `300s` or `1.5s`, with at most milliseconds.
pub(crate) fn bound(time: Duration) -> String {
    let seconds = format!("{:.3}", time.as_secs_f64());
    format!("{}s", seconds.trim_end_matches('0').trim_end_matches('.'))
}

/// Formats a measured time whose fractions do not matter, as `5s` or `0.2s`.
fn about(time: Duration) -> String {
    let tenths = (time.as_millis() + 50) / 100;
    if tenths < 10 { format!("0.{tenths}s") } else { format!("{}s", (tenths + 5) / 10) }
}

fn minutes(time: Duration) -> String {
    let seconds = (time.as_millis() + 500) / 1000;
    let hours = seconds / 3600;
    let minutes = seconds / 60 % 60;
    let seconds = seconds % 60;
    if hours == 0 { format!("{minutes}m{seconds:02}s") } else { format!("{hours}h{minutes:02}m") }
}

/// Formats how a tree was ended, as `tree killed (SIGTERM, then SIGKILL after 5s)`. If processes
/// may still be alive, it says which signals were sent and not that the tree ended.
pub(crate) fn kill_note(note: KillNote, alive: &LivingProcesses) -> String {
    let first = signal_name(note.first);
    match (note.killed_after, alive.is_empty()) {
        (Some(after), true) => {
            format!("tree killed ({first}, then SIGKILL after {})", about(after))
        }
        (Some(after), false) => format!("sent {first}, then SIGKILL after {}", about(after)),
        (None, true) => format!("tree ended ({first})"),
        (None, false) => format!("sent {first}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_and_sizes_read_as_in_the_examples() {
        for (number, text) in [(0, "0"), (999, "999"), (1138, "1,138"), (1_234_567, "1,234,567")] {
            assert_eq!(thousands(number), text);
        }
        for (bytes, text) in [
            (1, "1 byte"),
            (812, "812 bytes"),
            (1_000, "1 KB"),
            (37_012, "37 KB"),
            (999_499, "999 KB"),
            (999_500, "1.0 MB"),
            (1_440_000, "1.4 MB"),
            (999_950_000, "1.0 GB"),
            (2_000_000_000, "2.0 GB"),
            (u64::MAX, "18,446,744,073.7 GB"),
        ] {
            assert_eq!(size(bytes), text, "{bytes}");
        }
    }

    #[test]
    fn times_read_as_in_the_examples() {
        let ms = Duration::from_millis;
        for (time, text) in [(4, "0.0s"), (420, "0.4s"), (12_700, "12.7s"), (59_970, "1m00s")] {
            assert_eq!(exact(ms(time)), text, "{time}");
        }
        for (time, text) in [(30_900, "30s"), (125_000, "2m05s"), (3_725_000, "1h02m")] {
            assert_eq!(rough(ms(time)), text, "{time}");
        }
        for (time, text) in [(0, "1s"), (1_001, "2s"), (40_000, "40s"), (59_001, "1m00s")] {
            assert_eq!(soon(ms(time)), text, "{time}");
        }
        assert_eq!(bound(ms(300_000)), "300s");
        assert_eq!(bound(ms(1_500)), "1.5s");
        assert_eq!(bound(Duration::from_nanos(5_002_002_337)), "5.002s");
        assert_eq!(bound(Duration::from_micros(10_000_100)), "10s");
    }

    #[test]
    fn a_kill_says_which_signals_it_took() {
        let (nobody, one) = (LivingProcesses::default(), LivingProcesses::Known(vec![7]));
        let note = KillNote { first: 15, killed_after: Some(Duration::from_secs(5)) };
        for (millis, text) in
            [(5_002, "5s"), (4_600, "5s"), (1_000, "1s"), (960, "1s"), (210, "0.2s")]
        {
            let note = KillNote { killed_after: Some(Duration::from_millis(millis)), ..note };
            assert_eq!(
                kill_note(note, &nobody),
                format!("tree killed (SIGTERM, then SIGKILL after {text})")
            );
        }
        assert_eq!(kill_note(note, &one), "sent SIGTERM, then SIGKILL after 5s");
        let ended = KillNote { killed_after: None, ..note };
        assert_eq!(kill_note(ended, &nobody), "tree ended (SIGTERM)");
        assert_eq!(kill_note(ended, &one), "sent SIGTERM");
    }
}
