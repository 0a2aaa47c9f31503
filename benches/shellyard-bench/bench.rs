//! The parts that all measurements share: starting the server, and the amount of work.

use clap::ValueEnum;

use crate::scale::Scale;
use crate::server::{HttpServer, StdioServer};

/// The confinement of all jobs of a run.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum Profile {
    /// As the server's user
    None,
    /// As the server comes
    Default,
}

impl Profile {
    /// As the settings call it.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Default => "default",
        }
    }
}

/// One pass over the measurements.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bench {
    pub(crate) profile: Profile,
    pub(crate) scale: &'static Scale,
}

/// A setting as a variable of the environment: `queue_slots` and its value.
pub(crate) type Setting<'a> = (&'a str, &'a str);

/// Replies that programs read; people and models get text.
pub(crate) const STRUCTURED: Setting<'static> = ("mcp_result_format", "structured");

/// Finished logs stay as they were written. Otherwise the background work for one round would be
/// done beside the next, and beside its floor.
pub(crate) const UNCOMPRESSED: Setting<'static> = ("output_compress_from", "0");

impl Bench {
    /// A server over HTTP with its default settings but for these.
    pub(crate) fn http(&self, settings: &[Setting<'_>]) -> HttpServer {
        HttpServer::start(&self.variables(settings))
    }

    /// Starts the server over stdio with these settings.
    pub(crate) fn stdio(&self, settings: &[Setting<'_>]) -> StdioServer {
        StdioServer::start(&self.variables(settings))
    }

    fn variables(&self, settings: &[Setting<'_>]) -> Vec<(String, String)> {
        let ours = [
            ("confinement_profile", self.profile.name()),
            ("log_filter", "warn"),
            // Connections are kept while others are measured.
            ("http_header_timeout_s", "600"),
        ];
        let all = ours.iter().chain(settings);
        all.map(|(name, value)| (format!("SHELLYARD_{}", name.to_uppercase()), (*value).to_owned()))
            .collect()
    }
}
