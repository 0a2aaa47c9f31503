//! This build.

/// Its version.
pub(in crate::telemetry) const VERSIONS: [&str; 1] = [env!("CARGO_PKG_VERSION")];

/// The processor that it is for.
pub(in crate::telemetry) const ARCHES: [&str; 1] = [std::env::consts::ARCH];

/// Whether it is fast or easy to debug.
pub(in crate::telemetry) const PROFILES: [&str; 1] =
    [if cfg!(debug_assertions) { "debug" } else { "release" }];
