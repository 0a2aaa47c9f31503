//! How far jobs are shut in: who chooses it, what cannot be chosen, and what is told of it.

mod choice;
mod doctor;
mod mistakes;
mod told;
