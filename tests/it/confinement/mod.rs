//! The sandbox of jobs: its choice, invalid choices, and the replies about it.

mod choice;
mod doctor;
mod mistakes;
mod told;
