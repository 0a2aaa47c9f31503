//! Starts in tables: attacks and everyday work.
