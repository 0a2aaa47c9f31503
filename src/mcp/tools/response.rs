//! What a tool has to say to a call.

use crate::mcp::reply::Answer;
use crate::yard::{JobHandle, Parked, Question};

/// What a tool has to say to a call.
#[derive(Debug)]
pub(crate) enum Response {
    /// All that there is to say.
    Answer(Answer),
    /// The job goes on, and the client looks after it as a task.
    Task(JobHandle),
    /// Somebody must say yes first; then the call comes again.
    Ask(Question),
    /// The same, with the client looking after it as a task.
    Parked(Box<Parked>),
}

impl From<Answer> for Response {
    fn from(answer: Answer) -> Self {
        Self::Answer(answer)
    }
}
