//! A load of jobs, and a record of its own about each of them.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::client::{DurableClient, ServerAddress};
use super::disturbance::{Disturbance, Victim, kill_keeper};
use super::random::Random;
use super::workload::{STOP_GRACE_S, Work, WorkKind};
use crate::harness::{DEADLINE, Marker, Sandbox, TestServer};

/// Jobs that are unfinished at the same time; more are than have slots.
const MOST_OPEN: usize = 14;
/// Jobs that never end by themselves hold a slot each.
const MOST_SLEEPERS: usize = 2;
/// Jobs that one run submits: `shellyard jobs` lists 200 at most.
const JOBS_PER_RUN: u64 = 40;

/// The record of one job.
#[derive(Debug)]
struct WorkRecord {
    work: Work,
    job: u64,
    /// The bytes that replies have shown, from the start of the log.
    seen: Vec<u8>,
    was_running: bool,
    /// `true` once a server has answered that it stops the job.
    is_stopped: bool,
    /// The phase of the keepers in which the job was submitted.
    keeper_phase: u64,
    /// The outcome and the exit code, once a reply has shown them.
    ending: Option<(String, Option<u64>)>,
}

/// The load of one test, over any number of servers on one data directory.
#[derive(Debug)]
pub(super) struct Load {
    place: Sandbox,
    marker: Arc<Marker>,
    random: Random,
    records: BTreeMap<u64, WorkRecord>,
    next_id: u64,
    /// The id at which the present run stops submitting.
    last_id: u64,
    /// Jobs that were lost while a server began to start them.
    lost: u64,
    /// Jobs that ended with their keeper.
    ended_with_keeper: u64,
    /// Twice the number of keepers that have died; odd while one is being killed.
    keeper_phase: Arc<AtomicU64>,
    began: Instant,
}

impl Load {
    pub(super) fn new(random: Random) -> Self {
        Self {
            place: Sandbox::new(),
            marker: Arc::new(Marker::new()),
            random,
            records: BTreeMap::new(),
            next_id: 1,
            last_id: 1,
            lost: 0,
            ended_with_keeper: 0,
            keeper_phase: Arc::default(),
            began: Instant::now(),
        }
    }

    /// The file to which each job adds a line when it runs.
    fn runs(&self) -> PathBuf {
        self.place.path().join("runs")
    }

    /// Works while the server is ended so many times, and then until every job has ended.
    #[track_caller]
    pub(super) fn run(&mut self, address: &str, victim: &Victim, how: Disturbance, times: u64) {
        let address = ServerAddress::new(address);
        self.work_during(&address, |random| victim.disturb(how, times, random));
    }

    /// Works while the keeper is killed so many times, each time with another server after it, and then
    /// until every job has ended. Returns the last server.
    #[track_caller]
    pub(super) fn run_without_keepers(
        &mut self,
        mut server: TestServer,
        times: u64,
        start: impl Fn() -> TestServer + Send + Sync,
    ) -> TestServer {
        let address = ServerAddress::new(server.http().address());
        let (phase, marker) = (Arc::clone(&self.keeper_phase), Arc::clone(&self.marker));
        self.work_during(&address, |random| {
            for _ in 0..times {
                thread::sleep(random.millis(100, 1_800));
                phase.fetch_add(1, Ordering::SeqCst);
                kill_keeper(server, random);
                marker.wait_gone();
                phase.fetch_add(1, Ordering::SeqCst);
                server = start();
                address.set(server.http().address());
            }
            server
        })
    }

    /// Works while something else happens, and then until every job has ended.
    #[track_caller]
    fn work_during<T: Send>(
        &mut self,
        address: &ServerAddress,
        disturb: impl FnOnce(&mut Random) -> T + Send,
    ) -> T {
        let mut client = DurableClient::following(address);
        let mut random = Random::new(self.random.next());
        self.last_id = self.next_id + JOBS_PER_RUN;
        let result = thread::scope(|scope| {
            let ends = scope.spawn(move || disturb(&mut random));
            while !ends.is_finished() {
                self.step(&mut client);
            }
            ends.join().expect("a server came back each time")
        });
        self.finish(&mut client);
        result
    }

    /// Submits a job or looks at one.
    #[track_caller]
    fn step(&mut self, client: &mut DurableClient) {
        let open = self.open();
        if open.len() < MOST_OPEN && self.next_id < self.last_id && self.random.below(3) == 0 {
            self.submit(client);
        } else if let Some(last) = (open.len() as u64).checked_sub(1) {
            let place = usize::try_from(self.random.below(last + 1)).expect("it fits");
            self.poll(client, open[place]);
        } else {
            thread::sleep(Duration::from_millis(20));
        }
    }

    fn open(&self) -> Vec<u64> {
        let open = self.records.iter().filter(|(_, it)| it.ending.is_none() && it.work.ends());
        open.map(|(id, _)| *id).collect()
    }

    #[track_caller]
    fn submit(&mut self, client: &mut DurableClient) {
        let kinds = WorkKind::ALL.len() as u64;
        let kind = WorkKind::ALL[usize::try_from(self.random.below(kinds)).expect("it fits")];
        let sleepers = self.records.values().filter(|it| !it.work.ends() && it.ending.is_none());
        if kind == WorkKind::Sleeper && sleepers.count() >= MOST_SLEEPERS {
            return;
        }
        let work = Work::new(self.next_id, kind, &mut self.random);
        self.next_id += 1;
        let arguments = work.arguments(&self.runs(), &self.marker);
        let keeper_phase = self.keeper_phase();
        // The key makes it safe to send the request again.
        let mut reply = client.call("run_command", &arguments);
        if !self.has_keeper_died_since(keeper_phase) {
            reply = reply.ok();
        }
        let job = reply.job();
        let taken = self.records.values().find(|it| it.job == job);
        assert!(taken.is_none(), "number {job} was given out twice: {taken:?}");
        let was_running = reply["state"] == "running";
        if let Some(line) = work.input() {
            send_line(client, job, &line);
        }
        let (seen, ending) = (Vec::new(), None);
        let is_stopped = false;
        let record = WorkRecord { work, job, seen, was_running, is_stopped, keeper_phase, ending };
        self.records.insert(record.work.id, record);
    }

    fn keeper_phase(&self) -> u64 {
        self.keeper_phase.load(Ordering::SeqCst)
    }

    /// `true` if jobs of this phase may have ended with their keeper.
    fn has_keeper_died_since(&self, phase: u64) -> bool {
        let now = self.keeper_phase();
        now != phase || now % 2 == 1
    }

    /// Reads the next page of a job's log, and its state; stops the job if that is its kind.
    #[track_caller]
    fn poll(&mut self, client: &mut DurableClient, id: u64) {
        let record = self.records.get_mut(&id).expect("a known job");
        let from = record.seen.len() as u64;
        let (page, bytes) = client.read_raw(record.job, from);
        assert_eq!(page["bytes_start"], json!(from), "a page starts at its cursor: {page}");
        record.seen.extend(bytes);
        record.was_running |= page["state"] == "running";
        if page["state"] == "finished" && page["end"] != "more" {
            let outcome = page["outcome"].as_str().expect("an outcome").to_owned();
            record.ending = Some((outcome, page["exit_code"].as_u64()));
            match self.check_ending(id, &page) {
                Loss::None => {}
                Loss::AtStart => self.lost += 1,
                Loss::WithKeeper => self.ended_with_keeper += 1,
            }
        } else if !record.is_stopped && record.work.is_to_be_stopped(&record.seen) {
            client.stop(record.job, STOP_GRACE_S);
            record.is_stopped = true;
        }
    }

    /// Checks the ending of a job.
    #[track_caller]
    fn check_ending(&self, id: u64, page: &Value) -> Loss {
        let record = &self.records[&id];
        let (outcome, code) = record.ending.as_ref().expect("it has ended");
        let runs = self.runs_of(id);
        let loss = self.find_loss(record, page);
        if loss != Loss::None {
            assert!(runs <= 1, "it ran {runs} times: {record:?}");
            return loss;
        }
        let true_ending = record.work.true_ending();
        assert_eq!((outcome.as_str(), *code), true_ending, "{record:?} {page}");
        assert_eq!(runs, 1, "{record:?}");
        record.work.check_output(&record.seen, page);
        loss
    }

    /// Returns the reason for which a job has not ended as it would have by itself.
    #[track_caller]
    fn find_loss(&self, record: &WorkRecord, status: &Value) -> Loss {
        let is_lost = status["outcome"] == "lost";
        let is_not_run = status["outcome"] == "failed_to_start";
        assert!(!is_not_run || self.runs_of(record.work.id) == 0, "it ran: {record:?} {status}");
        if is_lost || is_not_run {
            let why = status["error"].as_str().unwrap_or_default();
            assert!(!why.is_empty(), "it says why: {status}");
        }
        if self.has_keeper_died_since(record.keeper_phase)
            && (is_lost
                || is_not_run
                || status["outcome"] == "stopped" && status["stopped_by"] != "client")
        {
            return Loss::WithKeeper;
        }
        // The server died while it created the process.
        assert!(!is_lost || !record.was_running, "a running job was lost: {record:?} {status}");
        if is_lost { Loss::AtStart } else { Loss::None }
    }

    fn runs_of(&self, id: u64) -> usize {
        let text = fs::read_to_string(self.runs()).unwrap_or_default();
        text.lines().filter(|line| line.parse() == Ok(id)).count()
    }

    /// Waits until every job that ends by itself has ended.
    #[track_caller]
    fn finish(&mut self, client: &mut DurableClient) {
        let deadline = Instant::now() + DEADLINE;
        while let Some(id) = self.open().first().copied() {
            self.poll(client, id);
            assert!(Instant::now() < deadline, "it never ends: {:?}", self.records[&id]);
            thread::sleep(Duration::from_millis(10));
        }
        let mut gone = Vec::new();
        let sleepers = self.records.iter().filter(|(_, it)| !it.work.ends());
        for (id, record) in sleepers.filter(|(_, it)| it.ending.is_none()) {
            let status = client.status(record.job);
            if status["state"] != "running" {
                gone.push((*id, status));
            }
        }
        for (id, status) in gone {
            match self.find_loss(&self.records[&id], &status) {
                Loss::None => panic!("nothing has ended it: {:?} {status}", self.records[&id]),
                Loss::AtStart => self.lost += 1,
                Loss::WithKeeper => self.ended_with_keeper += 1,
            }
            let outcome = status["outcome"].as_str().expect("an outcome").to_owned();
            let record = self.records.get_mut(&id).expect("a known job");
            record.ending = Some((outcome, None));
        }
    }

    /// Compares everything that replies have shown with what this server shows now.
    #[track_caller]
    pub(super) fn check_all(&self, address: &str) {
        let mut client = DurableClient::new(address);
        for record in self.records.values().filter(|it| it.ending.is_some()) {
            let (page, bytes) = client.read_all(record.job);
            let shown = (page["outcome"].as_str().map(str::to_owned), page["exit_code"].as_u64());
            let (outcome, code) = record.ending.clone().expect("it has ended");
            assert_eq!(shown, (Some(outcome), code), "{page}");
            assert!(bytes == record.seen, "{} bytes: {record:?}", bytes.len());
        }
    }

    /// Checks the jobs after a server has ended all that was left: no process, no second run.
    #[track_caller]
    pub(super) fn check_ended(&mut self) {
        self.marker.wait_gone();
        for id in 1..self.next_id {
            assert!(self.runs_of(id) <= 1, "job {id} ran twice");
        }
        for record in self.records.values_mut().filter(|it| !it.work.ends()) {
            record.ending.get_or_insert_with(|| ("stopped".to_owned(), None));
        }
    }

    /// Checks that the server lists the jobs of the record and no others.
    #[track_caller]
    pub(super) fn check_list(&self, listed: &[u64]) {
        let mut expected: Vec<u64> = self.records.values().map(|it| it.job).collect();
        let mut listed = listed.to_vec();
        expected.sort_unstable();
        listed.sort_unstable();
        assert_eq!(listed, expected, "every acknowledged job once, and no other");
    }

    /// Prints the figures of the run.
    pub(super) fn report(&self, what: &str) {
        let bytes: usize = self.records.values().map(|it| it.seen.len()).sum();
        println!(
            "{what} in {} s: {} jobs, {bytes} bytes, {} lost at their start, {} ended with their keeper",
            self.began.elapsed().as_secs(),
            self.records.len(),
            self.lost,
            self.ended_with_keeper
        );
    }

    /// The number of jobs that a crash has caught while their process was being created.
    pub(super) const fn lost(&self) -> u64 {
        self.lost
    }
}

/// The reason for which a job has not ended as it would have by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Loss {
    None,
    /// The server died while it created the process.
    AtStart,
    /// The keeper died while the job was not over.
    WithKeeper,
}

/// Sends a line and the end of the input. Without an answer nobody knows whether it arrived, so the
/// log decides: `cat` prints it.
#[track_caller]
fn send_line(client: &mut DurableClient, job: u64, line: &str) {
    let arguments = json!({"job": job, "text": line, "eof": true, "wait_s": 0});
    let deadline = Instant::now() + DEADLINE;
    loop {
        match client.try_call("send_input", &arguments) {
            Ok(reply) if !reply.is_error() => return,
            Ok(reply) => {
                let status = client.status(job);
                if status["state"] == "finished" {
                    return;
                }
                assert!(Instant::now() < deadline, "{}", reply.0);
            }
            Err(error) => assert!(Instant::now() < deadline, "{error}"),
        }
        thread::sleep(Duration::from_millis(300));
        if !client.read_raw(job, 0).1.is_empty() {
            return;
        }
    }
}

/// The numbers of all jobs that `shellyard jobs` lists.
#[track_caller]
pub(super) fn listed_jobs(data: &Path) -> Vec<u64> {
    let sandbox = Sandbox::new();
    let mut command = sandbox.command();
    command.args(["jobs", "--json", "--limit", "200", "--data-dir"]).arg(data);
    let output = crate::harness::output_of(command, "");
    let text = crate::harness::text(&output.stdout);
    let listed: Value = serde_json::from_str(&text).unwrap_or_else(|_| panic!("{output:?}"));
    let jobs = listed["jobs"].as_array().unwrap_or_else(|| panic!("{listed}"));
    jobs.iter().filter_map(|job| job["job"].as_u64()).collect()
}
