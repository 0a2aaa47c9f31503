//! Tests of a job whose actor fails (its tree ends, its output stays, its outcome is lost), and of
//! floods.

use std::path::PathBuf;
use std::pin::Pin;
use std::sync::{Arc, LazyLock, Mutex};
use std::task::{Context, Wake, Waker};
use std::time::Duration;

use ractor::{Actor, ActorProcessingErr, ActorRef, RpcReplyPort, SupervisionEvent};
use tokio::sync::oneshot;

use super::*;
use crate::confinement::{GrantedConfinement, ResourceLimits};
use crate::exec_gate::ExecGate;
use crate::ids::JobId;
use crate::outcome::{LimitKind, Outcome};
use crate::output::{LogStorage, LogWriter, PageEnd, PageRequest, Quota};
use crate::process::Host;
use crate::process::shell::ShellChoice;
use crate::spec::{
    CallMode, JobKind, JobProgram, JobSpec, LargeOutput, Priority, RunLimits, ShellUse, Stdin,
    Stream, StreamMode,
};

pub(super) const LONG: Duration = Duration::from_secs(60);

/// A parent actor that receives the events of its children, as the supervisor does.
pub(super) struct ParentActor;

impl Actor for ParentActor {
    type Msg = ();
    type State = ();
    type Arguments = ();

    async fn pre_start(&self, _: ActorRef<()>, (): ()) -> Result<(), ActorProcessingErr> {
        Ok(())
    }

    async fn handle_supervisor_evt(
        &self,
        _: ActorRef<()>,
        _: SupervisionEvent,
        (): &mut (),
    ) -> Result<(), ActorProcessingErr> {
        Ok(())
    }
}

/// The host of this test process: tests run beside each other in one process, as jobs do.
pub(crate) fn host() -> Arc<Host> {
    static HOST: LazyLock<Arc<Host>> = LazyLock::new(|| Arc::new(Host::new().unwrap()));
    Arc::clone(&HOST)
}

pub(crate) fn settings() -> Arc<SharedJobSettings> {
    Arc::new(SharedJobSettings {
        shell: ShellChoice::Auto,
        environment: Arc::new(JobVariables::from_pairs(vec![(
            "PATH".into(),
            "/usr/bin:/bin".into(),
        )])),
        host: host(),
        log: LogStorage { memory_bytes: 1024, spill_dir: std::env::temp_dir().into() },
        quota: Quota::unlimited(),
        mask: None,
        drain_quiet: Duration::from_millis(150),
        drain_max: Duration::from_secs(2),
        places: Arc::default(),
        journal: None,
        pumps: PumpGate::default(),
        watchdog: Watchdog::default(),
        gate: Arc::new(ExecGate::open_to_all(host())),
    })
}

pub(crate) fn spec(text: &str) -> JobSpec {
    let limits = RunLimits {
        timeout: LONG,
        grace: LONG,
        output_bytes: 1 << 20,
        output_lines: 1 << 20,
        large_bytes: 1 << 20,
    };
    JobSpec {
        program: JobProgram::Shell(text.to_owned()),
        cwd: PathBuf::from("/"),
        env: Vec::new(),
        stdin: Stdin::Closed,
        terminal_size: None,
        streams: StreamMode::Separate,
        limits,
        resources: ResourceLimits::NONE,
        confinement: GrantedConfinement::NOTHING,
        doubt: None,
        approved: Vec::new(),
        on_large_output: LargeOutput::Spill,
        description: None,
        lane: "default".to_owned(),
        priority: Priority::Normal,
        call_mode: CallMode::Foreground,
        kind: JobKind::Command,
        shell: ShellUse::Configured,
        shell_path: None,
        tenant: crate::ids::TenantId::LOCAL,
        client: crate::spec::JobClient::default(),
        session: crate::ids::CallerSession::Connection(1),
        drain_max: None,
        key: None,
        trace: crate::trace::CallTrace::start(),
        area: None,
    }
}

/// Returns a stop request without a grace period.
pub(super) fn now() -> StopRequest {
    StopRequest { by: crate::outcome::StopBy::Client, signal: None, grace: Some(Duration::ZERO) }
}

/// Returns a reply port that makes the actor that answers it panic, as only a bug in the actor would.
/// A message that is dropped without an answer does no harm.
pub(crate) fn create_panicking_reply_port<T: Send + 'static>() -> RpcReplyPort<T> {
    let (reply, mut answer) = oneshot::channel();
    let caller = Arc::new(PanickingCaller(Mutex::default()));
    let waker = Waker::from(Arc::clone(&caller));
    assert!(Pin::new(&mut answer).poll(&mut Context::from_waker(&waker)).is_pending());
    *caller.0.lock().unwrap() = Some(answer);
    reply.into()
}

/// A caller that panics when it is woken with an answer, on the thread that answers.
struct PanickingCaller<T>(Mutex<Option<oneshot::Receiver<T>>>);

impl<T: Send + 'static> Wake for PanickingCaller<T> {
    fn wake(self: Arc<Self>) {
        let answer = self.0.lock().unwrap().take();
        assert!(answer.is_none_or(|mut answer| answer.try_recv().is_err()), "on purpose");
    }
}

impl JobHandle {
    /// Makes the job's actor panic.
    pub(crate) fn fail(&self) {
        let actor = self.shared.actor.get().expect("the job has begun");
        actor.send(messages::JobMsg::Input(JobInput::default(), create_panicking_reply_port()));
    }
}

/// Returns a job that has ended, and the open writer of its log.
pub(crate) fn ended_with_an_open_log() -> (JobHandle, LogWriter) {
    let (mut guard, job) = create_job(JobId::local(1), spec("true"), None, None, &settings());
    let writer = guard.writer.take().expect("nobody has it yet");
    guard.stop_unstarted(crate::outcome::StopBy::Client);
    (job, writer)
}

/// Starts a job below a parent actor that runs `sleep` in a session of its own and has reported it.
async fn running() -> (JobHandle, u32, ActorRef<()>) {
    let (parent, _) = Actor::spawn(None, ParentActor, ()).await.unwrap();
    let (guard, job) = create_job(
        JobId::local(1),
        spec("setsid sleep 300 & echo $!; wait"),
        None,
        None,
        &settings(),
    );
    guard.run(parent.get_cell()).await.unwrap();
    tokio::time::timeout(LONG, job.output().wait_past(0)).await.unwrap();
    let pid = String::from_utf8(page(&job).bytes).unwrap().trim().parse().unwrap();
    (job, pid, parent)
}

pub(super) fn page(job: &JobHandle) -> crate::output::LogPage {
    let request =
        PageRequest { from: 0, to: u64::MAX, stream: None, max_bytes: 1000, max_lines: 0 };
    job.output().blocking().read_page(&request).unwrap()
}

async fn assert_lost_with_its_output(job: &JobHandle, pid: u32) {
    let ending = tokio::time::timeout(LONG, job.finished()).await.unwrap();
    assert!(matches!(ending.outcome, Outcome::Lost { .. }), "{ending:?}");
    let gone = async {
        while page(job).end_kind != PageEnd::Complete || job.liveness().is_some() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(LONG, gone).await.expect("the tree ended and the log closed");
    assert_eq!(page(job).bytes, format!("{pid}\n").into_bytes());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_whose_actor_is_killed_is_lost_and_its_tree_ends() {
    let (job, pid, parent) = running().await;
    for child in parent.get_cell().get_children() {
        child.kill();
    }
    assert_lost_with_its_output(&job, pid).await;
    assert_eq!(parent.get_status(), ractor::ActorStatus::Running);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_whose_actor_panics_is_lost_and_its_tree_ends() {
    let (job, pid, parent) = running().await;
    job.fail();
    assert_lost_with_its_output(&job, pid).await;
    assert_eq!(parent.get_status(), ractor::ActorStatus::Running);
}

#[tokio::test(flavor = "multi_thread")]
async fn survivors_of_a_job_whose_actor_panics_end_with_it() {
    let (parent, _) = Actor::spawn(None, ParentActor, ()).await.unwrap();
    let (guard, job) =
        create_job(JobId::local(1), spec("setsid sleep 300 & true"), None, None, &settings());
    guard.run(parent.get_cell()).await.unwrap();
    let ending = tokio::time::timeout(LONG, job.finished()).await.unwrap();
    assert_eq!(ending.outcome, Outcome::Exited { code: 0 });
    assert!(!ending.survivors.is_empty() && job.liveness().is_some());
    job.fail();
    tokio::time::timeout(LONG, job.completed()).await.expect("its survivors end");
    assert_eq!(job.finished().await, ending, "it had ended before");
}

/// Returns the output of a job on one of its streams.
fn written(job: &JobHandle, stream: Stream) -> Vec<u8> {
    let request = PageRequest {
        from: 0,
        to: u64::MAX,
        stream: Some(stream),
        max_bytes: 1 << 20,
        max_lines: 0,
    };
    job.output().blocking().read_page(&request).unwrap().bytes
}

#[tokio::test(flavor = "multi_thread")]
async fn floods_that_pause_and_come_again_are_kept_to_the_last_byte_by_however_many_jobs() {
    let (parent, _) = Actor::spawn(None, ParentActor, ()).await.unwrap();
    let command = "for i in 1 2 3; do seq 30000; seq 10000 >&2; sleep 0.05; done; printf end";
    let mut jobs = Vec::new();
    // More floods than threads.
    for number in 1..=8 {
        let (guard, job) = create_job(JobId::local(number), spec(command), None, None, &settings());
        guard.run(parent.get_cell()).await.unwrap();
        jobs.push(job);
    }
    let seq = |last: u32| (1..=last).map(|number| format!("{number}\n")).collect::<String>();
    for job in jobs {
        tokio::time::timeout(LONG, job.finished()).await.unwrap();
        assert!(written(&job, Stream::Stdout) == (seq(30000).repeat(3) + "end").into_bytes());
        assert!(written(&job, Stream::Stderr) == seq(10000).repeat(3).into_bytes());
    }
    parent.stop(None);
}

async fn outcome_of(spec: JobSpec) -> Outcome {
    let (parent, _) = Actor::spawn(None, ParentActor, ()).await.unwrap();
    let (guard, job) = create_job(JobId::local(1), spec, None, None, &settings());
    guard.run(parent.get_cell()).await.unwrap();
    let ending = tokio::time::timeout(LONG, job.finished()).await.unwrap();
    parent.stop(None);
    ending.outcome
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bound_that_a_job_has_passed_is_told_however_soon_it_ends() {
    let bytes = LimitKind::OutputBytes(50);
    let lines = LimitKind::OutputLines(5);
    for _ in 0..10 {
        for (text, which) in [("printf %0100d 1", bytes), ("printf '%s\\n' 1 2 3 4 5 6 7", lines)] {
            let small = spec(text);
            let limits = RunLimits { output_bytes: 50, output_lines: 5, ..small.limits };
            let outcome = outcome_of(JobSpec { limits, ..small }).await;
            assert_eq!(outcome, Outcome::Limit { which });
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deadline_may_be_as_short_as_one_likes() {
    for after in [Duration::ZERO, Duration::from_millis(1), Duration::from_millis(5)] {
        let long = spec("exec sleep 300");
        let limits = RunLimits { timeout: after, ..long.limits };
        assert_eq!(outcome_of(JobSpec { limits, ..long }).await, Outcome::TimedOut { after });
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_whose_pipes_others_hold_is_over_when_its_pump_has_found_them_empty() {
    let (parent, _) = Actor::spawn(None, ParentActor, ()).await.unwrap();
    // Without the pump's answer the drain would end only after all of that.
    let drain_quiet = Duration::from_micros(1);
    let drain_max = 10 * LONG;
    let settings = Arc::new(SharedJobSettings {
        drain_quiet,
        drain_max,
        ..SharedJobSettings::clone(&settings())
    });
    let text = "for i in $(seq 1000); do echo line; done; sleep 300 & exit 0";
    for number in 1..=10 {
        let (guard, job) = create_job(JobId::local(number), spec(text), None, None, &settings);
        guard.run(parent.get_cell()).await.unwrap();
        let ending = tokio::time::timeout(LONG, job.finished()).await.unwrap();
        assert!(!ending.survivors.is_empty());
        assert_eq!(job.output().progress().written_bytes(), 5000);
        job.stop(now());
    }
}
