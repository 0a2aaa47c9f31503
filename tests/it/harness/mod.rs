//! What every end-to-end test stands on: the real binary, started and ended by us.
//!
//! A [`Yard`] is one server process and one way to talk to it. It is killed on drop, together
//! with whatever its jobs left behind, and every wait has a deadline, so that a test can fail
//! but never hang.

mod channel;
mod http;
mod launch;
mod link;
mod proc;
mod program;
mod reply;
mod stdio;
mod wait;
mod wire;
mod yard;

pub(crate) use channel::Trust;
pub(crate) use http::{HttpConnection, Request};
pub(crate) use launch::{
    Launch, Sandbox, free_port, make_fifo, private_dir, token, without_privileges,
};
pub(crate) use link::HttpLink;
pub(crate) use proc::{Marker, peak_rss_kib, rss_kib, signal};
pub(crate) use program::{output_of, run_program, text};
pub(crate) use reply::{Reply, assert_nothing_null, bytes_of};
pub(crate) use wait::{DEADLINE, eventually, eventually_some};
pub(crate) use wire::{ERAS, Era, TASKS, declaring};
pub(crate) use yard::Yard;
