//! Escape attempts from inside a job, each by the real program: as whoever runs the tests, and as
//! an ordinary user. Where it does no harm, an attempt is first shown to work without confinement,
//! so that a test fails when it proves nothing.

mod docker_like;
mod files;
mod guarded;
mod kernel;
mod limits;
mod processes;
mod secrets;
mod sockets;
mod trees;
mod ways_out;
mod world;
