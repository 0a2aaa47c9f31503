//! The rules of the protocol, each of which can be broken.

/// One rule that the design keeps and that a broken design does not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BrokenRule {
    /// The caller hears of a job before its `accepted` is in the journal.
    AckBeforeAccepted,
    /// The key of a request is not part of `accepted`.
    KeyNotRecorded,
    /// The keeper is asked for the shim of a queued job before `starting` is in the journal.
    AskBeforeStarting,
    /// A new job starts beside its records although its caller repeats the request after a crash.
    StartBesideWithKey,
    /// The caller hears of a job that waits before `queued` is in the journal.
    AckBeforeQueued,
    /// A job with `accepted` and without `queued` is queued.
    QueueUnrecorded,
    /// The shim of a job without a record is left alone.
    KeepUnrecorded,
    /// A job with `starting` and without a shim is queued again.
    StartAgain,
    /// The caller hears that a job runs before the keeper was asked for its shim.
    ShowBeforeShim,
    /// The keeper starts the next server before it has read the last messages of the dead one.
    RestartBeforeMessages,
    /// The keeper does not end the processes that a killed shim has left.
    LeaveStrays,
    /// The pump takes bytes out of the pipe before they are in the file.
    ReadThenWrite,
    /// The caller gets bytes that are not in the file.
    PublishBeforeFile,
    /// The ending is recorded while bytes are in the pipe.
    EndBeforePipeIsEmpty,
    /// The shim is released before the ending is in the journal.
    ReleaseBeforeEnded,
    /// The file of a job is removed before `freed` is in the journal.
    RemoveBeforeFreed,
    /// Queued jobs come back in another order.
    QueueReversed,
    /// A shim goes on when its keeper is gone.
    ShimOutlivesKeeper,
    /// A server without a keeper goes on.
    OutliveKeeper,
    /// A leader that ended is reported without its status.
    GuessStatus,
    /// The tree counts as over when its leader has ended, although others are left.
    EndBeforeEchild,
    /// The shim does not report why it ended the tree.
    ForgetCause,
    /// The server keeps the time of a deadline, and the shim does not know it.
    ServerKeepsDeadline,
    /// The caller hears that its job is being stopped before the shim has the order.
    AckStopBeforeOrder,
    /// The caller hears that its job was stopped that has no shim, before `ended` is in the journal.
    AckStopBeforeEnded,
    /// A stop of a job whose shim does not run it yet is recorded as its end, before the shim has the
    /// order.
    EndBeforeOrder,
    /// The next server stops a job again whose shim is carrying out a stop.
    StopAgain,
    /// The server keeps the input that is not sent yet.
    InputInServer,
    /// The next server gives the input again that the journal has.
    InputAgain,
    /// The server leaves its jobs to the next one while one of them is half started.
    HandOverHalfStarted,
    /// The server leaves its jobs to the next one while one could not be started and has no ending.
    HandOverUnrecordedFailure,
    /// A server that has asked a shim for its state does not hear that the start failed later.
    MissLateFailure,
    /// The next server does not hear that a tree has ended that outlived its recorded job.
    MissLateEnd,
}

impl BrokenRule {
    pub(crate) const ALL: [Self; 33] = [
        Self::AckBeforeAccepted,
        Self::KeyNotRecorded,
        Self::AskBeforeStarting,
        Self::StartBesideWithKey,
        Self::AckBeforeQueued,
        Self::QueueUnrecorded,
        Self::KeepUnrecorded,
        Self::StartAgain,
        Self::ShowBeforeShim,
        Self::RestartBeforeMessages,
        Self::LeaveStrays,
        Self::ReadThenWrite,
        Self::PublishBeforeFile,
        Self::EndBeforePipeIsEmpty,
        Self::ReleaseBeforeEnded,
        Self::RemoveBeforeFreed,
        Self::QueueReversed,
        Self::ShimOutlivesKeeper,
        Self::OutliveKeeper,
        Self::GuessStatus,
        Self::EndBeforeEchild,
        Self::ForgetCause,
        Self::ServerKeepsDeadline,
        Self::AckStopBeforeOrder,
        Self::AckStopBeforeEnded,
        Self::EndBeforeOrder,
        Self::StopAgain,
        Self::InputInServer,
        Self::InputAgain,
        Self::HandOverHalfStarted,
        Self::HandOverUnrecordedFailure,
        Self::MissLateFailure,
        Self::MissLateEnd,
    ];
}

/// The design that a search examines. Where it says "the number of requests with …", these are the first
/// ones.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Design {
    pub(crate) broken: Option<BrokenRule>,
    /// The number of requests.
    pub(crate) requests: u8,
    /// The number of requests with a key of their own: their clients repeat them after a crash.
    pub(crate) keys: u8,
    /// Every new job waits for a slot first.
    pub(crate) is_busy: bool,
    /// The number of bytes that each job writes.
    pub(crate) bytes: u8,
    /// The number of bytes of input that each job is given at its start, and reads before it ends.
    pub(crate) input: u8,
    /// The number of requests whose clients stop the job.
    pub(crate) stops: u8,
    /// The number of requests with a deadline.
    pub(crate) deadlines: u8,
    /// The number of requests whose job has a second process, which outlives the leader.
    pub(crate) leftovers: u8,
    /// The number of requests whose job may fail to start, in the server or in its shim.
    pub(crate) failures: u8,
    /// The number of requests whose leader never ends by itself.
    pub(crate) endless: u8,
    /// The number of times that the server is killed.
    pub(crate) server_crashes: u8,
    /// The number of times that the keeper is killed.
    pub(crate) keeper_crashes: u8,
    /// The number of times that a shim is killed.
    pub(crate) shim_crashes: u8,
    /// The number of times that the server is replaced without a crash.
    pub(crate) upgrades: u8,
}

impl Design {
    /// Two jobs that write nothing, and one crash of the server.
    pub(crate) const fn sound() -> Self {
        Self {
            broken: None,
            requests: 2,
            keys: 1,
            is_busy: false,
            bytes: 0,
            input: 0,
            stops: 0,
            deadlines: 0,
            leftovers: 0,
            failures: 0,
            endless: 0,
            server_crashes: 1,
            keeper_crashes: 0,
            shim_crashes: 0,
            upgrades: 0,
        }
    }

    /// One job that writes nothing, and one crash of the server.
    pub(crate) const fn single() -> Self {
        Self { requests: 1, ..Self::sound() }
    }

    /// A design that breaks one rule, as small as that rule allows.
    pub(crate) const fn with_broken(rule: BrokenRule) -> Self {
        let design = match rule {
            BrokenRule::AckBeforeAccepted
            | BrokenRule::KeyNotRecorded
            | BrokenRule::StartBesideWithKey
            | BrokenRule::ShowBeforeShim
            | BrokenRule::RestartBeforeMessages
            | BrokenRule::ReleaseBeforeEnded
            | BrokenRule::GuessStatus => Self::single(),
            BrokenRule::KeepUnrecorded => Self { keys: 0, ..Self::single() },
            BrokenRule::AckBeforeQueued => Self { is_busy: true, ..Self::single() },
            // As long as the keeper lives, it knows every job that may have started.
            BrokenRule::AskBeforeStarting | BrokenRule::StartAgain => {
                Self { is_busy: true, server_crashes: 0, keeper_crashes: 1, ..Self::single() }
            }
            BrokenRule::QueueUnrecorded => {
                Self { keys: 0, server_crashes: 0, keeper_crashes: 1, ..Self::single() }
            }
            BrokenRule::ReadThenWrite
            | BrokenRule::PublishBeforeFile
            | BrokenRule::EndBeforePipeIsEmpty
            | BrokenRule::RemoveBeforeFreed => Self { bytes: 1, ..Self::single() },
            BrokenRule::QueueReversed => Self { is_busy: true, ..Self::sound() },
            BrokenRule::OutliveKeeper | BrokenRule::ShimOutlivesKeeper => {
                Self { endless: 1, keeper_crashes: 1, ..Self::single() }
            }
            BrokenRule::LeaveStrays => Self { endless: 1, shim_crashes: 1, ..Self::single() },
            BrokenRule::EndBeforeEchild => Self { stops: 1, leftovers: 1, ..Self::single() },
            BrokenRule::MissLateEnd => Self { leftovers: 1, ..Self::single() },
            BrokenRule::ForgetCause
            | BrokenRule::AckStopBeforeOrder
            | BrokenRule::EndBeforeOrder
            | BrokenRule::StopAgain => Self { stops: 1, ..Self::single() },
            BrokenRule::AckStopBeforeEnded => Self { is_busy: true, stops: 1, ..Self::single() },
            BrokenRule::ServerKeepsDeadline => Self { deadlines: 1, ..Self::single() },
            BrokenRule::InputInServer | BrokenRule::InputAgain => {
                Self { input: 2, ..Self::single() }
            }
            BrokenRule::HandOverHalfStarted => {
                Self { server_crashes: 0, upgrades: 1, ..Self::single() }
            }
            BrokenRule::HandOverUnrecordedFailure => {
                Self { failures: 1, server_crashes: 0, upgrades: 1, ..Self::single() }
            }
            BrokenRule::MissLateFailure => Self { failures: 1, ..Self::single() },
        };
        Self { broken: Some(rule), ..design }
    }

    /// `true` if the client of this request repeats it, with its key.
    pub(crate) const fn has_key(&self, request: u8) -> bool {
        request < self.keys
    }

    pub(crate) const fn has_leftover(&self, request: u8) -> bool {
        request < self.leftovers
    }

    pub(crate) const fn may_fail(&self, request: u8) -> bool {
        request < self.failures
    }

    pub(crate) const fn is_endless(&self, request: u8) -> bool {
        request < self.endless
    }

    pub(crate) fn breaks(&self, rule: BrokenRule) -> bool {
        self.broken == Some(rule)
    }
}
