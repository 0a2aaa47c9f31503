//! Tests of the service with real processes.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::*;
use crate::outcome::{LimitKind, Outcome, StopBy};
use crate::output::redaction::Redactor;
use crate::output::{PageEnd, PageRequest};
use crate::policy::Policy;
use crate::policy::rules::parse_patterns;
use crate::spec::{JobProgram, LargeOutput, RunLimits, Stdin, Stream, StreamMode};

const LONG: Duration = Duration::from_secs(60);

fn settings(slots: usize) -> ServiceSettings {
    let limits = RunLimits {
        timeout: LONG,
        grace: Duration::from_millis(300),
        output_bytes: 1 << 20,
        output_lines: 10_000,
        large_bytes: 1 << 20,
    };
    let path = "/usr/local/bin:/usr/bin:/bin".into();
    ServiceSettings {
        defaults: SubmissionDefaults {
            cwd: PathBuf::from("/"),
            limits,
            streams: StreamMode::Merged,
            on_large_output: LargeOutput::Spill,
            max_timeout: LONG,
            environment: BTreeMap::new(),
            lanes: BTreeMap::from([("build".to_owned(), LaneDefaults::default())]),
            confinement_rules: ConfinementRules::unset(),
        },
        queue: QueueLimits {
            slots,
            max_queued: 3,
            idle_after: None,
            max_idle: 1000,
            lanes: BTreeMap::from([(
                "build".to_owned(),
                LaneLimits { slots: Some(1), max_queued: None },
            )]),
            quota: TenantLimits::default(),
            tenants: BTreeMap::new(),
        },
        retention: Retention {
            all: RetentionBounds { finished: Some(4), ..RetentionBounds::default() },
            tenant: RetentionBounds::default(),
        },
        compress_from: None,
        job: SharedJobSettings {
            environment: Arc::new(JobVariables::from_pairs(vec![("PATH".into(), path)])),
            ..SharedJobSettings::clone(&crate::job::tests::settings())
        },
        rules: AdmissionRules {
            policy: Policy::default(),
            directories: None,
            directory_settings: "policy.allowed_directories",
            areas: BTreeMap::new(),
            redactor: Arc::new(Redactor::new(&[]).unwrap()),
        },
        audit: None,
        numbers: None,
        tickets: None,
        previous: PreviousServer::default(),
    }
}

async fn service(slots: usize) -> JobService {
    JobService::open(settings(slots)).await.unwrap()
}

/// The view of the local tenant.
fn client(service: &JobService) -> TenantClient {
    service.tenant_client(CallerIdentity::LOCAL, "test")
}

fn shell(text: &str) -> Submission {
    Submission::new(JobProgram::Shell(text.to_owned()))
}

async fn wait_for_end(job: &JobHandle) -> crate::outcome::JobEnding {
    tokio::time::timeout(LONG, job.finished()).await.expect("the job ends")
}

fn text(job: &JobHandle) -> String {
    stream_text(job, None)
}

fn stream_text(job: &JobHandle, stream: Option<Stream>) -> String {
    let request = PageRequest { from: 0, to: u64::MAX, stream, max_bytes: 1 << 20, max_lines: 0 };
    String::from_utf8(job.output().blocking().read_page(&request).unwrap().bytes).unwrap()
}

async fn run(submission: Submission) -> (Outcome, String) {
    let job = client(&service(2).await).submit(submission).await.unwrap();
    (wait_for_end(&job).await.outcome, text(&job))
}

async fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let waiting = async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(LONG, waiting)
        .await
        .unwrap_or_else(|_| panic!("timed out waiting for {what}"));
}

fn is_alive(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(')').next().is_some_and(|rest| !rest.is_empty() && !rest.starts_with(" Z"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_ends_with_its_code_and_its_output() {
    assert_eq!(run(shell("echo hi")).await, (Outcome::Exited { code: 0 }, "hi\n".to_owned()));
    assert_eq!(run(shell("exit 3")).await.0, Outcome::Exited { code: 3 });
    let killed = Outcome::Signaled { signal: 9, core: false };
    assert_eq!(run(shell("kill -9 $$")).await.0, killed);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_streams_are_kept_apart_and_together() {
    let separate =
        Submission { streams: Some(StreamMode::Separate), ..shell("echo out; echo err >&2") };
    let job = client(&service(1).await).submit(separate).await.unwrap();
    wait_for_end(&job).await;
    assert_eq!(stream_text(&job, Some(Stream::Stdout)), "out\n");
    assert_eq!(stream_text(&job, Some(Stream::Stderr)), "err\n");
    assert_eq!(text(&job).len(), 8);
}

#[tokio::test(flavor = "multi_thread")]
async fn text_on_stdin_is_followed_by_end_of_file_and_closed_stdin_is_end_of_file() {
    let given = Submission { stdin: Stdin::Text("a\nb\n".to_owned()), ..shell("wc -l") };
    assert_eq!(run(given).await.1.trim(), "2");
    assert_eq!(run(shell("read x; echo got=$x")).await.1, "got=\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deadline_ends_a_job_that_ignores_sigterm_and_keeps_its_output() {
    let timeout = Duration::from_secs(3);
    let stubborn = Submission {
        timeout: Some(timeout),
        ..shell("trap '' TERM; echo before; while :; do sleep 0.05; done")
    };
    let job = client(&service(1).await).submit(stubborn).await.unwrap();
    let ending = wait_for_end(&job).await;
    assert_eq!(ending.outcome, Outcome::TimedOut { after: timeout });
    assert!(ending.kill.unwrap().killed_after.is_some());
    assert!(ending.survivors.is_empty());
    assert_eq!(text(&job), "before\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_ends_grandchildren_that_left_the_session() {
    let service = service(1).await;
    let job = client(&service).submit(shell("setsid sleep 300 & echo $!; wait")).await.unwrap();
    wait_until("the pid", || text(&job).ends_with('\n')).await;
    let pid: u32 = text(&job).trim().parse().unwrap();
    assert!(is_alive(pid));
    let wish = StopRequest { by: StopBy::Client, signal: None, grace: None };
    client(&service).stop(job.id(), wish).await.unwrap();
    assert_eq!(wait_for_end(&job).await.outcome, Outcome::Stopped { by: StopBy::Client });
    assert!(!is_alive(pid));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_child_that_holds_the_pipe_does_not_hold_the_job_and_can_be_stopped_later() {
    let service = service(1).await;
    let job = client(&service).submit(shell("(sleep 300; echo late) & echo done")).await.unwrap();
    let ending = wait_for_end(&job).await;
    assert_eq!(ending.outcome, Outcome::Exited { code: 0 });
    assert_eq!(text(&job), "done\n");
    assert!(!ending.survivors.is_empty());
    let wish = StopRequest { by: StopBy::Client, signal: None, grace: None };
    client(&service).stop(job.id(), wish).await.unwrap();
    wait_until("the survivors' end", || !ending.survivors.pids().iter().any(|pid| is_alive(*pid)))
        .await;
    assert_eq!(wait_for_end(&job).await.outcome, Outcome::Exited { code: 0 });
}

#[tokio::test(flavor = "multi_thread")]
async fn output_of_a_survivor_after_the_end_still_goes_to_the_log() {
    let job =
        client(&service(1).await).submit(shell("(sleep 1; echo late) & echo done")).await.unwrap();
    wait_for_end(&job).await;
    wait_until("the late line", || text(&job) == "done\nlate\n").await;
    let request = PageRequest { from: 0, to: u64::MAX, stream: None, max_bytes: 100, max_lines: 0 };
    wait_until("the end of the log", || {
        job.output().blocking().read_page(&request).unwrap().end_kind == PageEnd::Complete
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn too_much_output_ends_the_job_at_the_limit() {
    let (outcome, kept) = run(shell("yes")).await;
    let bytes = Outcome::Limit { which: LimitKind::OutputBytes(1 << 20) };
    let lines = Outcome::Limit { which: LimitKind::OutputLines(10_000) };
    assert!(outcome == bytes || outcome == lines, "{outcome:?}");
    assert!(kept.len() <= 1 << 20);
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_wait_their_turn_and_a_waiting_one_can_be_stopped() {
    let service = service(1).await;
    let first = client(&service).submit(shell("sleep 300")).await.unwrap();
    let second = client(&service).submit(shell("echo second")).await.unwrap();
    let third = client(&service).submit(shell("echo third")).await.unwrap();
    let place = client(&service).queue_position(third.id()).await.unwrap();
    assert_eq!((place.position, place.length), (2, 2));
    assert_eq!(place.waits_for, WaitsFor::Slots { slots: 1 });
    let wish = StopRequest { by: StopBy::Client, signal: None, grace: None };
    client(&service).stop(second.id(), wish).await.unwrap();
    let outcome = wait_for_end(&second).await.outcome;
    assert!(matches!(outcome, Outcome::NotRun { by: StopBy::Client, .. }), "{outcome:?}");
    // The end of a wait for a slot does not end a job that has one.
    let too_late = StopRequest { by: StopBy::NoSlot, ..wish };
    client(&service).stop(first.id(), too_late).await.unwrap();
    assert_eq!(client(&service).queue_position(third.id()).await.unwrap().position, 1);
    client(&service).stop(first.id(), wish).await.unwrap();
    assert_eq!(wait_for_end(&first).await.outcome, Outcome::Stopped { by: StopBy::Client });
    assert_eq!(wait_for_end(&third).await.outcome, Outcome::Exited { code: 0 });
    assert_eq!(text(&second), "");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_queue_refuses_and_keeps_nothing() {
    let service = service(1).await;
    for _ in 0..4 {
        client(&service).submit(shell("sleep 300")).await.unwrap();
    }
    assert_eq!(client(&service).submit(shell("echo no")).await.unwrap_err().code(), "queue_full");
    assert_eq!(client(&service).list().await.len(), 4);
    service.drain(Duration::ZERO, Duration::ZERO).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_names_one_run_however_often_it_is_submitted() {
    let service = service(1).await;
    let keyed = || Submission { key: Some("deploy".to_owned()), ..shell("echo once") };
    let first = client(&service).submit(keyed()).await.unwrap();
    let again = client(&service).submit(keyed()).await.unwrap();
    assert_eq!(first.id(), again.id());
    assert_eq!(client(&service).list().await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_oldest_finished_jobs_are_freed_beyond_the_limit() {
    let service = service(1).await;
    for _ in 0..6 {
        wait_for_end(&client(&service).submit(shell("true")).await.unwrap()).await;
    }
    // The supervisor frees a job some messages after its end.
    let mut known = client(&service).list().await.len();
    while known > 4 {
        tokio::time::sleep(Duration::from_millis(10)).await;
        known = client(&service).list().await.len();
    }
    let numbers: Vec<u64> =
        client(&service).list().await.iter().map(|job| job.id().number()).collect();
    assert_eq!(numbers, [6, 5, 4, 3]);
    assert_eq!(
        client(&service).find(crate::ids::JobId::local(1)).await.unwrap_err().code(),
        "job_freed"
    );
}

/// Sweeps until this job cannot be found any more, and returns the error. The supervisor learns of a
/// job's end by a message, so a single sweep may come too early.
async fn sweep_until_freed(service: &JobService, id: crate::ids::JobId) -> FindError {
    let waiting = async {
        loop {
            service.supervisor.sweep_for(u64::MAX);
            match client(service).find(id).await {
                Ok(_) => tokio::time::sleep(Duration::from_millis(10)).await,
                Err(error) => return error,
            }
        }
    };
    tokio::time::timeout(LONG, waiting).await.expect("the sweep frees the job")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_of_a_freed_job_reads_on_and_its_key_runs_again() {
    let service = service(1).await;
    let keyed = || Submission { key: Some("once".to_owned()), ..shell("seq 1 100000") };
    let job = client(&service).submit(keyed()).await.unwrap();
    wait_for_end(&job).await;
    let before = text(&job);
    assert!(before.len() > 1024, "spilled");
    let error = sweep_until_freed(&service, job.id()).await;
    assert_eq!(error.code(), "job_freed");
    assert!(error.to_string().contains("needed its room"), "{error}");
    assert_eq!(text(&job), before);
    let again = client(&service).submit(keyed()).await.unwrap();
    assert_ne!(again.id(), job.id());
    wait_for_end(&again).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_with_survivors_is_kept_until_they_have_wait_for_end() {
    let service = service(1).await;
    let job = client(&service).submit(shell("echo kept; sleep 300 & true")).await.unwrap();
    assert!(!wait_for_end(&job).await.survivors.is_empty());
    let later = client(&service).submit(shell("echo later")).await.unwrap();
    wait_for_end(&later).await;
    sweep_until_freed(&service, later.id()).await;
    assert!(client(&service).find(job.id()).await.is_ok() && !job.is_complete());
    let wish = StopRequest { by: StopBy::Client, signal: None, grace: None };
    client(&service).stop(job.id(), wish).await.unwrap();
    tokio::time::timeout(LONG, job.completed()).await.expect("the survivors end");
    assert!(job.is_complete());
    sweep_until_freed(&service, job.id()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_shown_of_a_freed_job_is_forgotten() {
    let service = service(1).await;
    let client = client(&service);
    let mut jobs = Vec::new();
    for _ in 0..6 {
        let job = client.submit(shell("echo hi")).await.unwrap();
        client.mark_shown(job.id(), None, std::iter::once(0..3));
        wait_for_end(&job).await;
        jobs.push(job.id());
    }
    let is_seen = |job: crate::ids::JobId| client.seen_output(job, None).end() == 3;
    wait_until("the oldest jobs are forgotten", || !is_seen(jobs[0]) && !is_seen(jobs[1])).await;
    assert!(jobs[2..].iter().all(|job| is_seen(*job)), "jobs that are kept");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sweep_of_many_jobs_continues_by_itself() {
    let mut settings = settings(1);
    settings.retention = Retention::default();
    settings.queue.max_queued = 1000;
    let service = JobService::open(settings).await.unwrap();
    for _ in 0..600 {
        client(&service).submit(shell("echo hi")).await.unwrap();
    }
    // With one slot, this job starts once the supervisor knows the end of every job before it.
    let last = client(&service).submit(shell("sleep 300")).await.unwrap();
    tokio::time::timeout(5 * LONG, last.started()).await.expect("the last job starts");
    service.supervisor.sweep_for(u64::MAX);
    let waiting = async {
        while client(&service).list().await.len() > 1 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(LONG, waiting).await.expect("one sweep frees them all");
    assert_eq!(client(&service).list().await[0].id(), last.id());
    service.drain(Duration::ZERO, Duration::ZERO).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drain_ends_all_processes_and_accepts_no_new_jobs() {
    let service = service(2).await;
    let running = client(&service).submit(shell("setsid sleep 300 & echo $!; wait")).await.unwrap();
    let finished =
        client(&service).submit(shell("sleep 300 >/dev/null 2>&1 & echo $!")).await.unwrap();
    wait_until("the pids", || text(&running).ends_with('\n') && text(&finished).ends_with('\n'))
        .await;
    wait_for_end(&finished).await;
    let pids = [text(&running), text(&finished)].map(|pid| pid.trim().parse::<u32>().unwrap());
    assert!(pids.iter().all(|pid| is_alive(*pid)));
    service.drain(Duration::ZERO, Duration::from_millis(200)).await;
    assert!(pids.iter().all(|pid| !is_alive(*pid)));
    assert_eq!(wait_for_end(&running).await.outcome, Outcome::Stopped { by: StopBy::Shutdown });
    assert_eq!(client(&service).submit(shell("echo no")).await.unwrap_err().code(), "draining");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_running_job_gets_input_and_end_of_file() {
    let service = service(1).await;
    let open = Submission { stdin: Stdin::Open, ..shell("cat; echo end") };
    let job = client(&service).submit(open).await.unwrap();
    wait_until("the wait for input", || job.liveness().is_some_and(|look| look.waiting_for_input))
        .await;
    let input = JobInput { bytes: b"hello\n".to_vec(), key: None, end: StdinEnd::Close };
    job.send_input(input).await.unwrap();
    wait_for_end(&job).await;
    assert_eq!(text(&job), "hello\nend\n");
    let late = job.send_input(JobInput::default()).await.unwrap_err();
    assert_eq!(late.code(), "job_finished");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_terminal_job_has_a_terminal_and_takes_keys() {
    let service = service(1).await;
    let terminal = Submission { stdin: Stdin::Terminal, ..shell("test -t 0 && echo tty; cat") };
    let job = client(&service).submit(terminal).await.unwrap();
    wait_until("the terminal", || text(&job).contains("tty")).await;
    job.send_input(JobInput { key: Some(KeyPress::CtrlC), ..JobInput::default() }).await.unwrap();
    let ending = wait_for_end(&job).await;
    assert!(
        matches!(
            ending.outcome,
            Outcome::Signaled { signal: 2, .. } | Outcome::Exited { code: 130 }
        ),
        "{ending:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failure_inside_a_pipeline_is_reported() {
    let job = client(&service(1).await).submit(shell("false | cat")).await.unwrap();
    let ending = wait_for_end(&job).await;
    assert_eq!((ending.outcome, ending.pipeline), (Outcome::Exited { code: 0 }, vec![1, 0]));
}

#[tokio::test(flavor = "multi_thread")]
async fn each_start_failure_has_its_own_code() {
    async fn code(submission: Submission) -> &'static str {
        let (outcome, _) = run(submission).await;
        let Outcome::FailedToStart(why) = outcome else { panic!("started: {outcome:?}") };
        why.code()
    }
    let direct = |program: &str| {
        Submission::new(JobProgram::Direct { program: program.to_owned(), args: Vec::new() })
    };
    assert_eq!(code(direct("no-such-program")).await, "not_found");
    assert_eq!(code(direct("/etc/hostname")).await, "not_executable");
    let nowhere = Submission { cwd: Some("/no/such/dir".into()), ..shell("true") };
    assert_eq!(code(nowhere).await, "bad_cwd");
    assert_eq!(code(shell(&format!("true {}", "x".repeat(1 << 20)))).await, "too_long");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_queue_reacts_to_pause_resume_pressure_and_new_limits_while_jobs_run() {
    let service = service(2).await;
    let first = client(&service).submit(shell("sleep 300")).await.unwrap();
    first.started().await;
    service.pause(None, CallerIdentity::LOCAL).await.unwrap();
    let second = client(&service).submit(shell("sleep 300")).await.unwrap();
    assert_eq!(
        client(&service).queue_position(second.id()).await.unwrap().waits_for,
        WaitsFor::Paused
    );
    let pressure = Pressure { resource: HostResource::Memory, percent: 38 };
    service.supervisor.set_pressure(Some(pressure));
    service.resume(None, CallerIdentity::LOCAL).await.unwrap();
    let place = client(&service).queue_position(second.id()).await.unwrap();
    assert_eq!(place.waits_for, WaitsFor::Pressure(pressure));
    service.supervisor.set_pressure(None);
    tokio::time::timeout(LONG, second.started()).await.unwrap();
    let third = client(&service).submit(shell("echo third")).await.unwrap();
    let overview = service.queue_overview().await;
    assert_eq!((overview.slots, overview.running, overview.queued), (2, 2, 1));
    service.supervisor.change_limits(QueueLimits { slots: 3, ..settings(1).queue }).await;
    assert_eq!(wait_for_end(&third).await.outcome, Outcome::Exited { code: 0 });
    assert!(service.pause(Some("biuld".to_owned()), CallerIdentity::LOCAL).await.is_err());
    service.drain(Duration::ZERO, Duration::ZERO).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drain_lets_jobs_finish_and_can_be_undone() {
    let service = service(1).await;
    let running = client(&service).submit(shell("sleep 0.3")).await.unwrap();
    let waiting = client(&service).submit(shell("echo waited")).await.unwrap();
    service.begin_drain(AfterDrain::Stay, CallerIdentity::LOCAL).await;
    assert_eq!(client(&service).submit(shell("echo no")).await.unwrap_err().code(), "draining");
    assert!(service.queue_overview().await.draining);
    for job in [&running, &waiting] {
        assert_eq!(wait_for_end(job).await.outcome, Outcome::Exited { code: 0 });
    }
    service.end_drain(CallerIdentity::LOCAL).await;
    client(&service).submit(shell("echo yes")).await.unwrap();
    service.drain(Duration::ZERO, Duration::ZERO).await;
    service.end_drain(CallerIdentity::LOCAL).await;
    assert_eq!(client(&service).submit(shell("echo no")).await.unwrap_err().code(), "draining");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_approved_job_runs_where_it_was_asked_for() {
    let [here, elsewhere] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let directory = here.path().canonicalize().unwrap();
    let mut settings = settings(1);
    settings.rules.policy.ask = parse_patterns("policy.ask", ["pwd"]).unwrap();
    settings.defaults.cwd = directory.clone();
    let service = JobService::open(settings).await.unwrap();
    let asker = client(&service);
    let SubmitOutcome::Ask(question) = asker.submit_or_ask(shell("pwd")).await.unwrap() else {
        panic!("nobody was asked");
    };
    let parked = asker.park(shell("pwd"), question);
    let id = parked.job;
    let other = client(&service).with_directory(elsewhere.path().into());
    other.answer_parked(parked, Ok(Consent::Once)).await;
    let job = asker.find(id).await.unwrap();
    wait_for_end(&job).await;
    assert_eq!(text(&job), format!("{}\n", directory.display()));
}

#[tokio::test]
async fn an_approved_job_is_found_by_its_key() {
    let mut settings = settings(1);
    settings.rules.policy.ask = parse_patterns("policy.ask", ["echo *"]).unwrap();
    settings.defaults.cwd = std::env::temp_dir();
    let service = JobService::open(settings).await.unwrap();
    let asker = client(&service);
    let keyed = || Submission { key: Some("deploy".to_owned()), ..shell("echo once") };
    let SubmitOutcome::Ask(question) = asker.submit_or_ask(keyed()).await.unwrap() else {
        panic!("nobody was asked");
    };
    let parked = asker.park(keyed(), question);
    let id = parked.job;
    asker.answer_parked(parked, Ok(Consent::Tenant)).await;
    let again = asker.submit(keyed()).await.unwrap();
    assert_eq!(again.id(), id);
}
