//! The harness of the end-to-end tests, which start and end the real binary.
//!
//! A [`TestServer`] is one server process and a client of it. It is killed on drop, together with
//! the processes that its jobs left behind, and every wait has a deadline, so that a test can fail
//! but never hang.

mod channel;
mod http;
mod launch;
mod link;
mod proc;
mod program;
mod pty;
mod reply;
mod server;
mod stdio;
mod wait;
mod wire;

pub(crate) use channel::Trust;
pub(crate) use http::{HttpConnection, HttpRequest};
pub(crate) use launch::{
    Launch, Sandbox, free_port, make_fifo, private_dir, tested_program, token, without_privileges,
};
pub(crate) use link::HttpLink;
pub(crate) use proc::{
    Marker, SuspendedProcess, children_of, is_alive, is_zombie, oom_score_of, peak_rss_kib,
    raise_open_files, rss_kib, signal,
};
pub(crate) use program::{output_of, run_program, text};
pub(crate) use pty::{TerminalProgram, assert_fits, in_terminal};
pub(crate) use reply::{Reply, assert_nothing_null, bytes_of};
pub(crate) use server::{TestServer, keeper_in, pid_in};
pub(crate) use wait::{DEADLINE, eventually, eventually_some};
pub(crate) use wire::{ERAS, Era, TASKS, declaring, initialize_params};
