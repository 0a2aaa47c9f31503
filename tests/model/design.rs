//! The rules of the protocol, each of which can be broken.

/// One rule that the product keeps and that a broken design does not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BrokenRule {
    /// The caller hears of a job before its `accepted` is in the journal.
    AckBeforeAccepted,
    /// The key of a request is not part of `accepted`.
    KeyNotRecorded,
    /// The process exists before `starting` is in the journal.
    CreateBeforeStarting,
    /// A job with `starting` and without a kept process is queued again.
    StartAgain,
    /// The caller hears that a job runs before the keeper holds its process.
    ShowBeforeRegister,
    /// A process that the keeper adopts without knowing it is left alone.
    LeaveUnregistered,
    /// The pump takes bytes out of the pipe before they are in the file.
    ReadThenWrite,
    /// The caller gets bytes that are not in the file.
    PublishBeforeFile,
    /// The ending is recorded while bytes are in the pipe.
    EndBeforePipeIsEmpty,
    /// The exit status is thrown away before the ending is in the journal.
    ReleaseBeforeEnded,
    /// The file of a job is removed before `freed` is in the journal.
    RemoveBeforeFreed,
    /// Queued jobs come back in another order.
    QueueReversed,
    /// A start after the death of keeper and server ends no leftovers.
    NoSweep,
    /// A server without a keeper goes on.
    OutliveKeeper,
    /// A process that ended while the server was away is reported without its status.
    GuessStatus,
}

impl BrokenRule {
    pub(crate) const ALL: [Self; 15] = [
        Self::AckBeforeAccepted,
        Self::KeyNotRecorded,
        Self::CreateBeforeStarting,
        Self::StartAgain,
        Self::ShowBeforeRegister,
        Self::LeaveUnregistered,
        Self::ReadThenWrite,
        Self::PublishBeforeFile,
        Self::EndBeforePipeIsEmpty,
        Self::ReleaseBeforeEnded,
        Self::RemoveBeforeFreed,
        Self::QueueReversed,
        Self::NoSweep,
        Self::OutliveKeeper,
        Self::GuessStatus,
    ];
}

/// The design that a search examines.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Design {
    pub(crate) broken: Option<BrokenRule>,
    /// The number of requests; each has a key of its own.
    pub(crate) requests: u8,
    /// The number of bytes that each job writes.
    pub(crate) bytes: u8,
    /// The number of times that the server is killed.
    pub(crate) server_crashes: u8,
    /// The number of times that the keeper is killed.
    pub(crate) keeper_crashes: u8,
}

impl Design {
    pub(crate) const fn sound() -> Self {
        Self { broken: None, requests: 2, bytes: 1, server_crashes: 1, keeper_crashes: 1 }
    }

    pub(crate) const fn with_broken(rule: BrokenRule) -> Self {
        Self { broken: Some(rule), ..Self::sound() }
    }

    pub(crate) fn breaks(&self, rule: BrokenRule) -> bool {
        self.broken == Some(rule)
    }
}
