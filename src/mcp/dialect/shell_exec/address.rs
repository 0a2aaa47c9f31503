//! The address of spilled output: `mcp://tmp/exec-<ticket>.out`.

use std::fmt;

use crate::spec::Stream;

const PREFIX: &str = "mcp://tmp/exec-";

/// In which form spilled output is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Packing {
    /// As it was written.
    Plain,
    /// As gzip data.
    Gzip,
}

/// The address of what a run wrote to a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Address {
    /// The run.
    pub(crate) ticket: String,
    pub(crate) stream: Stream,
    pub(crate) packing: Packing,
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stream = match self.stream {
            Stream::Stdout => "out",
            Stream::Stderr => "err",
        };
        let packing = match self.packing {
            Packing::Plain => "",
            Packing::Gzip => ".gz",
        };
        write!(f, "{PREFIX}{}.{stream}{packing}", self.ticket)
    }
}

impl Address {
    /// Reads an address; nothing where it is none. It names a run by its ticket, and no path.
    pub(crate) fn parse(uri: &str) -> Option<Self> {
        let name = uri.strip_prefix(PREFIX)?;
        let (name, packing) = match name.strip_suffix(".gz") {
            Some(name) => (name, Packing::Gzip),
            None => (name, Packing::Plain),
        };
        let (ticket, stream) = match name.rsplit_once('.')? {
            (ticket, "out") => (ticket.to_owned(), Stream::Stdout),
            (ticket, "err") => (ticket.to_owned(), Stream::Stderr),
            _ => return None,
        };
        Some(Self { ticket, stream, packing })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_back_and_nothing_else() {
        for stream in [Stream::Stdout, Stream::Stderr] {
            for packing in [Packing::Plain, Packing::Gzip] {
                let address = Address { ticket: "7-ab".to_owned(), stream, packing };
                assert_eq!(Address::parse(&address.to_string()), Some(address));
            }
        }
        for uri in ["", "mcp://tmp/exec-7-ab", "mcp://tmp/../etc/passwd", "file:///x.out", "7.out"]
        {
            assert_eq!(Address::parse(uri), None, "{uri}");
        }
    }
}
