use futures_util::FutureExt as _;
use ractor::{Actor, ActorProcessingErr, ActorRef};
use tokio::io::AsyncWriteExt as _;
use tokio::time::timeout;

use super::*;
use crate::job::tests::{LONG, spec};
use crate::output::{LogReader, LogSettings, PageRequest, open};
use crate::process::{Confine, Cwd, Launch, LaunchStdin, Process, Report, spawn};
use crate::telemetry::events::Letter;

/// Hears all that a job is told, and does nothing.
struct Deaf;

impl Actor for Deaf {
    type Msg = Letter<JobMsg>;
    type State = ();
    type Arguments = ();

    async fn pre_start(
        &self,
        _: ActorRef<Letter<JobMsg>>,
        (): (),
    ) -> Result<(), ActorProcessingErr> {
        Ok(())
    }
}

fn start(text: &str) -> Process {
    let launch = Launch {
        program: "/bin/sh".into(),
        args: vec!["-c".into(), text.into()],
        arg0: None,
        env: Vec::new(),
        cwd: Cwd::Path("/".into()),
        stdin: LaunchStdin::Pipe,
        report: Report::None,
        confine: Confine::not(),
    };
    spawn(&launch).unwrap()
}

async fn pump(stdout: OutputPipe, stderr: Option<OutputPipe>) -> (Pump, LogReader) {
    let (actor, _) = Actor::spawn(None, Deaf, ()).await.unwrap();
    let log = LogSettings { memory_bytes: 1 << 20, spill_dir: std::env::temp_dir() };
    let (writer, reader) = open(&log);
    let bounds = Bounds::of(JobId::local(1), &spec("true"));
    (Pump::new(stdout, stderr, writer, bounds, Address::of(actor)), reader)
}

fn text(log: &LogReader) -> String {
    let request = PageRequest { from: 0, stream: None, max_bytes: 1000, max_lines: 0 };
    String::from_utf8(log.page(&request).unwrap().bytes).unwrap()
}

#[tokio::test]
async fn all_of_a_job_that_has_ended_is_read_at_once() {
    let Process { leader, stdout, stderr, .. } = start("echo out; echo err >&2");
    let (mut pump, log) = pump(stdout, stderr).await;
    let ended = async { drop(leader.wait().await) };
    timeout(LONG, pump.rest(ended, LONG)).await.unwrap();
    // It may have been told of the end of a stream before that of the job.
    timeout(LONG, pump.run()).await.unwrap();
    assert_eq!(text(&log), "out\nerr\n");
}

#[tokio::test]
async fn nobody_has_to_tell_of_the_output_of_a_job_that_has_ended() {
    let Process { leader, stdout, stderr, .. } = start("echo out; echo err >&2");
    let (pump, log) = pump(stdout, stderr).await;
    leader.wait().await.unwrap();
    let mut running = Box::pin(pump.run());
    let done = running.as_mut().now_or_never();
    assert_eq!(text(&log), "out\nerr\n");
    // A process that another test has just created may have the pipes, until it is its program.
    if done.is_none() {
        timeout(LONG, running).await.unwrap();
    }
}

#[tokio::test]
async fn output_alone_waits_and_comes_before_the_error_that_follows_it() {
    let mut process = start("echo out; read go; echo err >&2; read go");
    let (mut pump, log) = pump(process.stdout, process.stderr).await;
    assert!(pump.wait(LONG), "it has written something");
    let resting = pump.rest(std::future::pending(), LONG);
    assert!(timeout(Duration::from_millis(50), resting).await.is_err());
    let mut stdin = process.stdin.take().unwrap();
    stdin.write_all(b"go\n").await.unwrap();
    timeout(LONG, pump.rest(std::future::pending(), LONG)).await.unwrap();
    let running = tokio::spawn(pump.run());
    timeout(LONG, log.wait_past(4)).await.unwrap();
    assert_eq!(text(&log), "out\nerr\n");
    drop(stdin);
    timeout(LONG, running).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_job_that_goes_on_is_read_after_a_while() {
    let mut process = start("echo out; read go; echo more");
    let (mut pump, log) = pump(process.stdout, process.stderr).await;
    timeout(LONG, pump.rest(std::future::pending(), Duration::ZERO)).await.unwrap();
    let running = tokio::spawn(pump.run());
    timeout(LONG, log.wait_past(0)).await.unwrap();
    assert_eq!(text(&log), "out\n");
    drop(process.stdin.take());
    timeout(LONG, running).await.unwrap().unwrap();
    assert_eq!(text(&log), "out\nmore\n");
}
