//! Rules about the source text: the import order of modules, forbidden names in each module, the
//! size and shape of files, and plain words. Each rule is a pure function of a file, and a test
//! shows that it catches a made-up violation.

mod circles;
mod claims;
mod dependencies;
mod layers;
mod rules;
mod source;
mod tests;
mod words;
