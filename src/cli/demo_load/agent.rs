//! One agent: makes the calls of its deeds, and remembers its jobs.

use std::collections::VecDeque;
use std::time::Duration;

use futures_util::future::join_all;
use serde_json::{Value, json};
use tokio::sync::{mpsc, watch};
use tokio::time::sleep;

use super::deed::{Call, Deed};
use super::plan::Plan;
use super::session::Session;
use super::tally::Told;
use super::verdict::{Verdict, job_of};
use crate::cli::ask::AskError;
use crate::cli::talk;
use crate::client::Client;

/// So many of its jobs an agent remembers.
const MEMORY: usize = 12;

/// What clients ask before they call a tool.
const INTRODUCTIONS: [&str; 4] =
    ["ping", "tools/list", "resources/list", "resources/templates/list"];

/// A server that cannot be reached is left alone for so long.
const AGAIN: Duration = Duration::from_millis(500);

/// One agent at work.
#[derive(Debug)]
pub(super) struct Agent {
    pub(super) client: Client,
    pub(super) plan: Plan,
    /// What it does at the most.
    pub(super) deeds: u64,
    pub(super) pause: Duration,
    pub(super) told: mpsc::Sender<Told>,
}

impl Agent {
    /// Works until its deeds are done or `end` comes, and leaves nothing behind.
    pub(super) async fn work(mut self, mut end: watch::Receiver<()>) {
        let mut memory = Memory::default();
        tokio::select! {
            () = self.go_on(&mut memory) => {}
            // Whoever would tell is gone, or has told.
            _ = end.changed() => {}
        }
        memory.leave().await;
    }

    async fn go_on(&mut self, memory: &mut Memory) {
        for _ in 0..self.deeds {
            let deed = self.plan.next(memory.jobs());
            let told = self.do_it(&deed, memory).await;
            if self.told.send(told).await.is_err() {
                return;
            }
            sleep(self.plan.think(self.pause)).await;
        }
    }

    /// Does it; who has no session gets one instead.
    async fn do_it(&self, deed: &Deed, memory: &mut Memory) -> Told {
        let Some(session) = &memory.session else { return self.connect(memory).await };
        let answers = match deed {
            Deed::Reconnect => {
                memory.hang_up().await;
                return Told { deed: deed.word(), ..self.connect(memory).await };
            }
            Deed::LookAround => look_around(session).await,
            Deed::Talk => talk_to(session, deed).await,
            Deed::Run(_)
            | Deed::Start(_)
            | Deed::Burst(_)
            | Deed::Wait(_)
            | Deed::Read(_)
            | Deed::Search(_)
            | Deed::List
            | Deed::Stop(_) => calls(session, &deed.calls()).await,
        };
        memory.learn(deed, &answers);
        // A server that was started anew knows no session of before.
        if answers.iter().any(Result::is_err) {
            memory.session = None;
        }
        told(deed.word(), &answers)
    }

    async fn connect(&self, memory: &mut Memory) -> Told {
        match Session::open(&self.client).await {
            Ok(session) => {
                memory.session = Some(session);
                Told { deed: "connect", verdicts: vec![Verdict::Answered], errors: Vec::new() }
            }
            Err(error) => {
                sleep(AGAIN).await;
                told("connect", &[Err(error)])
            }
        }
    }
}

async fn calls(session: &Session, calls: &[Call]) -> Vec<Result<Value, AskError>> {
    join_all(calls.iter().map(|call| session.call(call))).await
}

/// Asks what a client asks when it comes in.
async fn look_around(session: &Session) -> Vec<Result<Value, AskError>> {
    let nothing = json!({});
    join_all(INTRODUCTIONS.map(|method| session.ask(method, &nothing))).await
}

/// Starts what asks for a line, and types one.
async fn talk_to(session: &Session, deed: &Deed) -> Vec<Result<Value, AskError>> {
    let mut answers = calls(session, &deed.calls()).await;
    let job = answers.first().and_then(|answer| job_of(answer.as_ref().ok()?));
    if let Some(job) = job {
        answers.push(session.call(&Call::typing(job)).await);
    }
    answers
}

fn told(deed: &'static str, answers: &[Result<Value, AskError>]) -> Told {
    let verdict =
        |answer: &Result<Value, AskError>| answer.as_ref().map_or(Verdict::Ours, Verdict::of);
    let errors = answers.iter().filter_map(|answer| answer.as_ref().err());
    Told {
        deed,
        verdicts: answers.iter().map(verdict).collect(),
        errors: errors.map(|error| talk::with_causes(error)).collect(),
    }
}

/// What an agent has at hand.
#[derive(Debug, Default)]
struct Memory {
    session: Option<Session>,
    jobs: VecDeque<u64>,
}

impl Memory {
    fn jobs(&mut self) -> &[u64] {
        self.jobs.make_contiguous()
    }

    /// Jobs that go on are remembered, those that were stopped are not.
    fn learn(&mut self, deed: &Deed, answers: &[Result<Value, AskError>]) {
        if let Deed::Stop(stopped) = deed {
            self.jobs.retain(|job| job != stopped);
            return;
        }
        let going =
            answers.iter().flatten().filter(|answer| Verdict::of(answer) == Verdict::GoesOn);
        for job in going.filter_map(job_of) {
            if !self.jobs.contains(&job) {
                self.jobs.push_back(job);
            }
        }
        let surplus = self.jobs.len().saturating_sub(MEMORY);
        self.jobs.drain(..surplus);
    }

    async fn hang_up(&mut self) {
        if let Some(session) = self.session.take() {
            session.close().await;
        }
    }

    /// Stops what may still run, and says goodbye.
    async fn leave(mut self) {
        if let Some(session) = &self.session
            && !self.jobs.is_empty()
        {
            // Those that have ended meanwhile are told to have: fine.
            session.call(&Call::stop(self.jobs.make_contiguous())).await.ok();
        }
        self.hang_up().await;
    }
}
