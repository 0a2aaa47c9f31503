//! A supervisor that fails, with real jobs: what stays, what is lost, and that nothing runs twice.

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use metrics_exporter_prometheus::PrometheusBuilder;
use tokio::sync::mpsc;

use super::actor::SupervisorMsg;
use super::*;
use crate::ids::{JobId, TenantId};
use crate::job::{self, JobHandle, SharedJobSettings};
use crate::outcome::Outcome;
use crate::output::{PageRequest, Shortage};
use crate::telemetry::names::actors;
use crate::telemetry::{ActorKind, events};

const LONG: Duration = Duration::from_secs(60);

fn limits(slots: usize) -> QueueLimits {
    QueueLimits {
        slots,
        max_queued: 1000,
        idle_after: None,
        max_idle: 1000,
        lanes: BTreeMap::from([("build".to_owned(), LaneLimits::default())]),
        quota: TenantLimits::default(),
        tenants: BTreeMap::new(),
    }
}

async fn supervisor(slots: usize, retention: Retention) -> Supervisor {
    let job = SharedJobSettings::clone(&job::tests::settings());
    let queue = limits(slots);
    let (freed_sender, _) = mpsc::unbounded_channel();
    let settings = SupervisorSettings { queue, retention, compress_from: None, job, freed_sender };
    Supervisor::start(settings, RestoredJobs::default()).await.unwrap()
}

fn admission(number: u64, text: &str) -> SubmitRequest {
    let id = JobId::local(number);
    let spec = job::tests::spec(text);
    SubmitRequest {
        id,
        spec,
        cwd: None,
        variables: None,
        key: None,
        logged: text.to_owned(),
        on_end: None,
    }
}

impl Supervisor {
    /// Makes the supervisor's actor panic.
    fn fail(&self) {
        let reply = job::tests::create_panicking_reply_port();
        self.supervisor_address.send_lossy(SupervisorMsg::List(None, reply));
    }

    /// Frees the oldest finished jobs until this many bytes are given back or none are left. Does
    /// not wait for the result.
    pub(crate) fn sweep_for(&self, bytes: u64) {
        let (reply, _) = ractor::concurrency::oneshot();
        let shortages = vec![Shortage { tenant: None, bytes }];
        self.supervisor_address.send_lossy(SupervisorMsg::MakeRoom(shortages, reply.into()));
    }
}

async fn outcome(job: &JobHandle) -> Outcome {
    tokio::time::timeout(LONG, job.finished()).await.expect("the job ends").outcome
}

fn text(job: &JobHandle) -> String {
    let request =
        PageRequest { from: 0, to: u64::MAX, stream: None, max_bytes: 1000, max_lines: 0 };
    String::from_utf8(job.output().blocking().read_page(&request).unwrap().bytes).unwrap()
}

async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let waiting = async {
        while !holds().await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(LONG, waiting).await.unwrap_or_else(|_| panic!("waited for: {what}"));
}

fn is_lost(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Lost { .. })
}

#[tokio::test]
async fn a_supervisor_that_fails_is_replaced_and_what_was_known_stays() {
    let recorder = PrometheusBuilder::new().build_recorder();
    let _counting = metrics::set_default_local_recorder(&recorder);
    let supervisor = supervisor(1, Retention::default()).await;
    let finished = supervisor.submit(admission(1, "echo kept")).await.unwrap();
    assert_eq!(outcome(&finished).await, Outcome::Exited { code: 0 });
    let keyed = || {
        let request = admission(2, "echo ran; sleep 300");
        SubmitRequest { key: Some(JobKey::new("once".to_owned(), &request.spec)), ..request }
    };
    let running = supervisor.submit(keyed()).await.unwrap();
    until("it runs", async || text(&running) == "ran\n").await;
    let waiting = supervisor.submit(admission(3, "echo never")).await.unwrap();
    supervisor.fail();

    for job in [&running, &waiting] {
        assert!(is_lost(&outcome(job).await), "{:?}", job.status());
    }
    until("its tree ends", async || running.liveness().is_none()).await;
    assert_eq!((text(&running), text(&waiting)), ("ran\n".to_owned(), String::new()));
    assert_eq!(text(&supervisor.find(JobId::local(1)).await.unwrap()), "kept\n");
    let again = supervisor.submit(SubmitRequest { id: JobId::local(9), ..keyed() }).await.unwrap();
    assert_eq!(again.id(), running.id(), "a key never runs twice");
    let next = supervisor.submit(admission(4, "echo next")).await.unwrap();
    assert_eq!(outcome(&next).await, Outcome::Exited { code: 0 });
    let known = supervisor.list(Some(TenantId::LOCAL)).await;
    assert_eq!(known.iter().map(|job| job.id().number()).collect::<Vec<_>>(), [4, 3, 2, 1]);

    let text = recorder.handle().render();
    for metric in [actors::FAILURES.metric(), actors::RESTARTS.metric()] {
        let line = format!("{}{{actor=\"supervisor\"}} 1\n", metric.name);
        assert!(text.contains(&line), "{line}{text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_in_flight_are_answered_and_nothing_runs_twice() {
    let dir = tempfile::tempdir().unwrap();
    let supervisor = supervisor(4, Retention::default()).await;
    let mut accepted = Vec::new();
    for round in 0..5 {
        let submit = |number: u64| {
            let supervisor = supervisor.clone();
            let path = dir.path().join(number.to_string());
            tokio::spawn(async move {
                let job = admission(number, &format!("echo ran >> {}", path.display()));
                supervisor.submit(job).await
            })
        };
        let first = round * 100;
        let mut calls: Vec<_> = (first..first + 20).map(submit).collect();
        supervisor.fail();
        calls.extend((first + 20..first + 40).map(submit));
        for (call, number) in calls.into_iter().zip(first..) {
            let answer = tokio::time::timeout(LONG, call).await.expect("no call hangs").unwrap();
            let id = JobId::local(number);
            match answer {
                Ok(job) => accepted.push(job),
                Err(refusal) => {
                    assert_eq!(refusal, SubmitRefusal::Interrupted);
                    let found = supervisor.find(id).await.map(|job| job.id());
                    assert_eq!(found, Err(FindError::Unknown { id }));
                    assert!(!dir.path().join(number.to_string()).exists(), "nothing was run");
                }
            }
        }
    }
    let next = supervisor.submit(admission(1000, "echo next")).await.unwrap();
    assert_eq!(outcome(&next).await, Outcome::Exited { code: 0 });
    for job in accepted {
        let outcome = outcome(&job).await;
        assert!(is_lost(&outcome) || outcome == Outcome::Exited { code: 0 }, "{outcome:?}");
        let ran = fs::read_to_string(dir.path().join(job.id().number().to_string()));
        assert!(matches!(ran.unwrap_or_default().as_str(), "" | "ran\n"), "{:?}", job.id());
        assert_eq!(supervisor.find(job.id()).await.unwrap().id(), job.id());
    }
    // Other tests send messages as well, but there are moments without any: a message that is
    // counted forever would never let this pass.
    until("no message waits", async || no_message_waits()).await;
}

fn no_message_waits() -> bool {
    let recorder = PrometheusBuilder::new().build_recorder();
    metrics::with_local_recorder(&recorder, events::update_actor_gauges);
    let text = recorder.handle().render();
    let name = actors::MAILBOX.metric().name;
    ActorKind::WORDS.iter().all(|class| text.contains(&format!("{name}{{actor=\"{class}\"}} 0\n")))
}

#[tokio::test(flavor = "multi_thread")]
async fn settings_that_were_changed_at_run_time_hold_after_a_failure() {
    let supervisor = supervisor(1, Retention::default()).await;
    supervisor.change_limits(QueueLimits { max_queued: 7, ..limits(3) }).await;
    supervisor.pause(Some("build".to_owned())).await.unwrap();
    supervisor.begin_drain().await;
    supervisor.fail();
    let overview = supervisor.overview().await;
    assert_eq!((overview.slots, overview.max_queued), (3, 7));
    assert!(overview.draining && !overview.paused && overview.lanes["build"].paused);
    let refused = supervisor.submit(admission(1, "echo no")).await.unwrap_err();
    assert_eq!(refused, SubmitRefusal::Draining);
    supervisor.end_drain().await;
    let job = supervisor.submit(admission(2, "echo yes")).await.unwrap();
    assert_eq!(outcome(&job).await, Outcome::Exited { code: 0 });
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_from_before_a_failure_are_freed_like_others() {
    let bounds = RetentionBounds { finished: Some(1), ..RetentionBounds::default() };
    let supervisor = supervisor(2, Retention { all: bounds, ..Retention::default() }).await;
    supervisor.submit(admission(1, "sleep 300")).await.unwrap().started().await;
    supervisor.submit(admission(2, "setsid sleep 300 & true")).await.unwrap().finished().await;
    supervisor.submit(admission(3, "true")).await.unwrap();
    supervisor.fail();
    until("one is left", async || supervisor.list(None).await.len() == 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_supervisor_that_fails_again_and_again_is_given_up() {
    let supervisor = supervisor(1, Retention::default()).await;
    let job = supervisor.submit(admission(1, "sleep 300")).await.unwrap();
    for _ in 0..5 {
        supervisor.fail();
        assert_eq!(supervisor.list(None).await.len(), 1);
    }
    supervisor.fail();
    tokio::time::timeout(LONG, supervisor.wait_until_given_up()).await.expect("it is given up");
    assert_eq!(supervisor.find(job.id()).await.unwrap_err().code(), "unavailable");
    let refused = supervisor.submit(admission(2, "echo no")).await.unwrap_err();
    assert_eq!(refused, SubmitRefusal::Interrupted);
    assert!(is_lost(&outcome(&job).await));
}

#[tokio::test]
async fn the_slot_of_a_job_whose_actor_fails_is_freed_and_the_failure_counted() {
    let recorder = PrometheusBuilder::new().build_recorder();
    let _counting = metrics::set_default_local_recorder(&recorder);
    let supervisor = supervisor(1, Retention::default()).await;
    let failing = supervisor.submit(admission(1, "sleep 300")).await.unwrap();
    let waiting = supervisor.submit(admission(2, "echo after")).await.unwrap();
    tokio::time::timeout(LONG, failing.started()).await.unwrap();
    failing.fail();
    assert!(is_lost(&outcome(&failing).await));
    assert_eq!(outcome(&waiting).await, Outcome::Exited { code: 0 });
    let line = format!("{}{{actor=\"job\"}} 1\n", actors::FAILURES.metric().name);
    until("it is counted", async || recorder.handle().render().contains(&line)).await;
}
