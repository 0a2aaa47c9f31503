//! All end-to-end tests, in one binary.
