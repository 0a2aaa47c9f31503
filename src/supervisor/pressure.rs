//! What the host is short of while starts are held back.

/// Something that processes wait for when there is too little of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Resource {
    /// Processors.
    Cpu,
    /// Memory.
    Memory,
    /// Disks.
    Io,
}

impl Resource {
    /// The word for it in replies and metrics.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Memory => "memory",
            Self::Io => "io",
        }
    }
}

/// What holds starts back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pressure {
    /// What there is too little of.
    pub resource: Resource,
    /// The share of recent time that somebody waited for it.
    pub percent: u8,
}
