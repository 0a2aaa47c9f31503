//! What becomes of input that is sent to a running job.

use super::actor::Job;
use super::feed::FeedError;
use super::input::{Input, InputEnd, InputError, Key, PlainKey};
use super::state::State;
use crate::spec::Stdin;

impl Job {
    /// Takes input for the job: bytes, then a key, then the end.
    pub(super) fn input(&mut self, input: Input) -> Result<(), InputError> {
        let id = self.seat.id();
        if matches!(self.state, State::Finished { .. } | State::Draining { .. }) {
            return Err(InputError::Finished(id));
        }
        if !input.bytes.is_empty() {
            self.push(input.bytes)?;
        }
        if let Some(key) = input.key {
            self.press(key)?;
        }
        match input.end {
            InputEnd::Open => Ok(()),
            InputEnd::Closed => self.end_input(),
        }
    }

    fn has_terminal(&self) -> bool {
        self.seat.spec().stdin == Stdin::Terminal
    }

    fn press(&mut self, key: Key) -> Result<(), InputError> {
        if self.has_terminal() {
            return self.push(key.bytes().into());
        }
        match key.plain() {
            PlainKey::Signal(signal) => {
                if let Some(tree) = self.seat.tree() {
                    tokio::task::spawn_blocking(move || tree.signal(signal));
                }
                Ok(())
            }
            PlainKey::End => self.end_input(),
            PlainKey::Bytes(bytes) => self.push(bytes.into()),
        }
    }

    /// A terminal stays open: there the end of input is a key.
    fn end_input(&mut self) -> Result<(), InputError> {
        if self.has_terminal() {
            return self.push(Key::CtrlD.bytes().into());
        }
        match self.feed.take() {
            Some(_) => Ok(()),
            None => Err(InputError::Closed(self.seat.id())),
        }
    }

    fn push(&self, piece: Vec<u8>) -> Result<(), InputError> {
        let id = self.seat.id();
        let feed = self.feed.as_ref().ok_or(InputError::Closed(id))?;
        feed.push(piece).map_err(|refused| match refused {
            FeedError::Full => InputError::Full(id),
            FeedError::Closed => InputError::Closed(id),
        })
    }
}
