//! Recognises connections that a job of this server opened.
//!
//! A job that could call its own server would start further jobs on looser terms than its own. The
//! two kinds of connections leave different evidence:
//!
//! - **Unix sockets** name the process that called `connect` ([`Callers::is_job_on_unix`]). The
//!   kernel keeps that name, so handing the connected file on does not change it.
//! - **TCP** names nobody. The kernel tells the inode of the peer's socket ([`socket_table`]), and
//!   the process that holds this inode is looked for in /proc ([`Callers::is_job_on_tcp`]).
//!
//! The ancestors of a process tell if it is a job's ([`ancestry`]): the server is a subreaper,
//! so whatever a job starts stays a descendant of the server, also after `setsid`, a double fork,
//! and in namespaces of its own.
//!
//! **Invariant:** a connection over TCP counts as an outsider's only with evidence for that. A file
//! that is in flight between two processes, hidden in a thread's own file table, or closed right
//! after the request was sent is found nowhere, and counts as a job's while any job has processes.

mod ancestry;
mod callers;
mod socket_table;

pub use callers::Callers;
