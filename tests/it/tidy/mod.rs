//! The source holds the order of the rooms: who may import whom, what each must not touch, and
//! how large a file may get. The rules are pure functions of a file, so that each is shown to
//! catch a made-up violation as well.

mod circles;
mod claims;
mod dependencies;
mod layers;
mod rules;
mod source;
mod tests;
