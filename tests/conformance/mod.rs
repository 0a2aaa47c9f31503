//! The fixtures of the official conformance suite: tools, prompts and resources that it expects
//! every server to offer.
//!
//! ```text
//! transport → InstrumentedHandler → WithFixtures → Handler
//!                            ↓
//!             fixtures.json (the steps of each fixture) → answer.rs (performs them)
//! ```
//!
//! Only builds with the feature `conformance` have them, and only servers that are asked for the
//! dialect `conformance` offer them. They stand beside the real handler, which still answers for
//! all that is its own, so that the suite tests the stack that everyone uses.
//!
//! **Invariant:** what a fixture does is data. The code here performs any such data and
//! knows no fixture by name.

mod answer;
mod fixture_handler;
mod stored_fixtures;

pub(super) use fixture_handler::WithFixtures;
