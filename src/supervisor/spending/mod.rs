//! What tenants spend beside slots: CPU time in an hour, and starts in a minute.
//!
//! The door is [`Spending`]. `window.rs` and `book.rs` are pure: they are told what time it is.

mod book;
mod door;
mod starts;
mod window;

pub(super) use door::Spending;
