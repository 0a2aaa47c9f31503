//! A sign of life on stderr while an answer takes longer than a second.

use std::io::{self, Write as _};
use std::pin::Pin;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use super::display::Display;

/// The time without an answer after which the spinner appears.
const DELAY: Duration = Duration::from_secs(1);
const INTERVAL: Duration = Duration::from_millis(120);
/// The sequence that empties the line of the spinner.
const CLEAR_LINE: &str = "\r\u{1b}[K";
const FRAMES: [&str; 4] = ["|", "/", "-", "\\"];

/// Waits for `work`, with a spinner if that takes long and a person watches stderr.
pub(super) fn with_spinner<'a, T: 'a>(
    display: &'a Display,
    label: &'a str,
    work: impl Future<Output = T> + 'a,
) -> Pin<Box<dyn Future<Output = T> + 'a>> {
    // Boxed: a request is large, and would make every verb larger.
    Box::pin(spin(display, label, Box::pin(work)))
}

async fn spin<T>(display: &Display, label: &str, mut work: Pin<Box<impl Future<Output = T>>>) -> T {
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
                    print(CLEAR_LINE);
                }
                return done;
            }
            () = sleep_until(next) => {
                let frame = frames.next().copied().unwrap_or_default();
                print_frame(frame, label, start.elapsed());
                next += INTERVAL;
            }
        }
    }
}

/// Does blocking `work`, with a spinner if that takes long and a person watches stderr.
pub(super) fn with_spinner_thread<T>(
    display: &Display,
    label: &str,
    work: impl FnOnce() -> T,
) -> T {
    if !display.has_messages {
        return work();
    }
    let (sender, ended) = mpsc::channel::<()>();
    thread::scope(|scope| {
        scope.spawn(move || spin_until(&ended, label));
        let done = work();
        drop(sender);
        done
    })
}

/// Draws the spinner until the other side of the channel is dropped.
fn spin_until(ended: &mpsc::Receiver<()>, label: &str) {
    let start = std::time::Instant::now();
    if ended.recv_timeout(DELAY) != Err(mpsc::RecvTimeoutError::Timeout) {
        return;
    }
    for frame in FRAMES.iter().cycle() {
        print_frame(frame, label, start.elapsed());
        if ended.recv_timeout(INTERVAL) != Err(mpsc::RecvTimeoutError::Timeout) {
            break;
        }
    }
    print(CLEAR_LINE);
}

/// Empties the line of the spinner for a message; the spinner is drawn again below it.
pub(super) fn clear_spinner() {
    print(CLEAR_LINE);
}

fn print_frame(frame: &str, label: &str, elapsed: Duration) {
    print(&format!("{CLEAR_LINE}{frame} {label} ({}s)", elapsed.as_secs()));
}

fn print(text: &str) {
    let mut stderr = io::stderr().lock();
    // Only a sign of life: if nobody can see it, nothing is lost.
    stderr.write_all(text.as_bytes()).and_then(|()| stderr.flush()).ok();
}
