//! A sign of life on stderr while an answer takes longer than a second.

use std::io::{self, Write as _};
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use super::display::Display;

/// The time without an answer after which the spinner appears.
const DELAY: Duration = Duration::from_secs(1);
const INTERVAL: Duration = Duration::from_millis(120);
const FRAMES: [&str; 4] = ["|", "/", "-", "\\"];

/// Waits for `work`, with a spinner if that takes long and a person watches stderr.
pub(super) async fn with_spinner<T>(
    display: &Display,
    label: &str,
    work: impl Future<Output = T>,
) -> T {
    tokio::pin!(work);
    if !display.has_messages {
        return work.await;
    }
    let start = Instant::now();
    let mut next = start + DELAY;
    let mut frames = FRAMES.iter().cycle();
    loop {
        tokio::select! {
            done = &mut work => {
                if next > start + DELAY {
                    print("\r\u{1b}[K");
                }
                return done;
            }
            () = sleep_until(next) => {
                let frame = frames.next().copied().unwrap_or_default();
                print(&format!("\r\u{1b}[K{frame} {label} ({}s)", start.elapsed().as_secs()));
                next += INTERVAL;
            }
        }
    }
}

fn print(text: &str) {
    let mut stderr = io::stderr().lock();
    // Only a sign of life: if nobody can see it, nothing is lost.
    stderr.write_all(text.as_bytes()).and_then(|()| stderr.flush()).ok();
}
