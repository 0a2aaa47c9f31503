//! The rules of the protocol, each of which can be broken.

/// One rule that the product keeps and that a broken design does not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BrokenRule {
    /// The caller hears of a job before its `accepted` is in the journal.
    AckBeforeAccepted,
    /// The key of a request is not part of `accepted`.
    KeyNotRecorded,
    /// The process of a queued job exists before `starting` is in the journal.
    CreateBeforeStarting,
    /// A new job starts beside its records although its caller repeats the request after a crash.
    StartBesideWithKey,
    /// The caller hears of a job that waits before `queued` is in the journal.
    AckBeforeQueued,
    /// A job with `accepted` and without `queued` is queued.
    QueueUnrecorded,
    /// A process that the keeper holds for a job without a record is left alone.
    KeepUnrecorded,
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
    pub(crate) const ALL: [Self; 19] = [
        Self::AckBeforeAccepted,
        Self::KeyNotRecorded,
        Self::CreateBeforeStarting,
        Self::StartBesideWithKey,
        Self::AckBeforeQueued,
        Self::QueueUnrecorded,
        Self::KeepUnrecorded,
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
    /// The number of requests.
    pub(crate) requests: u8,
    /// The number of requests with a key of their own, the first ones: their clients repeat them
    /// after a crash.
    pub(crate) keys: u8,
    /// Every new job waits for a slot first.
    pub(crate) is_busy: bool,
    /// The number of bytes that each job writes.
    pub(crate) bytes: u8,
    /// The number of times that the server is killed.
    pub(crate) server_crashes: u8,
    /// The number of times that the keeper is killed.
    pub(crate) keeper_crashes: u8,
}

impl Design {
    pub(crate) const fn sound() -> Self {
        Self {
            broken: None,
            requests: 2,
            keys: 1,
            is_busy: false,
            bytes: 1,
            server_crashes: 1,
            keeper_crashes: 1,
        }
    }

    /// A design that breaks one rule, as small as that rule allows.
    pub(crate) const fn with_broken(rule: BrokenRule) -> Self {
        let broken = Some(rule);
        match rule {
            BrokenRule::ReadThenWrite
            | BrokenRule::PublishBeforeFile
            | BrokenRule::EndBeforePipeIsEmpty
            | BrokenRule::RemoveBeforeFreed => {
                Self { broken, requests: 1, keeper_crashes: 0, ..Self::sound() }
            }
            BrokenRule::QueueReversed => {
                Self { broken, is_busy: true, bytes: 0, keeper_crashes: 0, ..Self::sound() }
            }
            BrokenRule::NoSweep | BrokenRule::OutliveKeeper => {
                Self { broken, requests: 1, bytes: 0, ..Self::sound() }
            }
            BrokenRule::AckBeforeAccepted
            | BrokenRule::KeyNotRecorded
            | BrokenRule::CreateBeforeStarting
            | BrokenRule::StartBesideWithKey
            | BrokenRule::AckBeforeQueued
            | BrokenRule::QueueUnrecorded
            | BrokenRule::KeepUnrecorded
            | BrokenRule::StartAgain
            | BrokenRule::ShowBeforeRegister
            | BrokenRule::LeaveUnregistered
            | BrokenRule::ReleaseBeforeEnded
            | BrokenRule::GuessStatus => {
                Self { broken, bytes: 0, keeper_crashes: 0, ..Self::sound() }
            }
        }
    }

    /// `true` if the client of this request repeats it, with its key.
    pub(crate) const fn has_key(&self, request: u8) -> bool {
        request < self.keys
    }

    pub(crate) fn breaks(&self, rule: BrokenRule) -> bool {
        self.broken == Some(rule)
    }
}
