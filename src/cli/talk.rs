//! What the program says to the person who called it, on stderr.

use std::error::Error;

/// Says what went wrong, with its causes.
pub fn complain(error: &dyn Error) {
    say(&with_causes(error));
}

/// What went wrong, with its causes, in one line.
#[must_use]
pub fn with_causes(error: &dyn Error) -> String {
    let mut message = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let text = error.to_string();
        // A transparent wrapper says the same as what it wraps.
        if !message.ends_with(&text) {
            message = format!("{message}: {text}");
        }
        cause = error.source();
    }
    message
}

/// What is at the bottom of it: the last of its causes, or what went wrong itself.
#[must_use]
pub fn root_cause(error: &dyn Error) -> String {
    let mut root = error;
    while let Some(cause) = root.source() {
        root = cause;
    }
    root.to_string()
}

/// Says one line.
pub fn say(message: &str) {
    eprintln!("shellyard: {message}");
}
