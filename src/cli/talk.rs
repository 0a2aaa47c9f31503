//! What the program says to the person who called it, on stderr.

use std::error::Error;

/// Says what went wrong, with its causes.
pub fn complain(error: &dyn Error) {
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
    say(&message);
}

/// Says one line.
pub fn say(message: &str) {
    eprintln!("shellyard: {message}");
}
