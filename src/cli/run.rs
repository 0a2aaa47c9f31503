//! `shellyard run -- CMD`: one command under the same engine, with its streams and its exit code
//! passed on.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::RunFlags;
use crate::outcome::{JobEnding, Outcome, StartError, StopBy};
use crate::output::{LogReader, PageEnd, PageRequest};
use crate::service::{CallerIdentity, JobHandle, JobService, StopWish, Submission, SubmitError};
use crate::spec::{JobProgram, Stdin, Stream};
use crate::telemetry::spans::{SpanKind, TraceSpan};
use crate::trace::{BegunBy, CallTrace};

/// Exit codes of our own, as `timeout`, `env` and `sendmail` have them.
const TIMED_OUT: u8 = 124;
const OUR_FAILURE: u8 = 125;
const NOT_EXECUTABLE: u8 = 126;
const NOT_FOUND: u8 = 127;
const SIGNAL_BASE: u8 = 128;
const TRY_LATER: u8 = 75;

const PAGE_BYTES: usize = 64 * 1024;

/// How the run went, for the shell that called us.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunResult {
    /// What to exit with.
    pub exit_code: u8,
    /// What to say on stderr, where the command did not say it itself.
    pub message: Option<String>,
}

/// Runs one command to its end. SIGINT and SIGTERM to us end it; a second one ends it at once.
///
/// # Errors
/// When our own signal handlers could not be installed.
pub async fn run(service: &JobService, flags: RunFlags) -> io::Result<RunResult> {
    let mut wishes = Wishes::listen()?;
    let span = TraceSpan::start(SpanKind::Internal, "run".to_owned(), None);
    let trace = CallTrace { context: span.context().clone(), begun_by: BegunBy::Server };
    let client = service.tenant_client(CallerIdentity::LOCAL, "shellyard run").with_trace(trace);
    let job = match client.submit(submission(flags)).await {
        Ok(job) => job,
        Err(error) => return Ok(refused(&error)),
    };
    let passed_on = async {
        let both = tokio::join!(
            follow(&job, Stream::Stdout, tokio::io::stdout()),
            follow(&job, Stream::Stderr, tokio::io::stderr()),
        );
        job.finished().await;
        both.0.and(both.1)
    };
    tokio::pin!(passed_on);
    let passed_on = loop {
        tokio::select! {
            passed_on = &mut passed_on => break passed_on,
            wish = wishes.next() => job.stop(wish),
        }
    };
    Ok(match passed_on {
        Ok(()) => result(&job.finished().await),
        Err(error) => unheard(&error),
    })
}

/// The exit code when what the command wrote could not be passed on: that of a program that
/// writes to a closed pipe, or our own failure.
fn unheard(error: &io::Error) -> RunResult {
    if error.kind() == io::ErrorKind::BrokenPipe {
        return RunResult { exit_code: by_signal(libc::SIGPIPE), message: None };
    }
    let message = format!("the output could not be passed on, and the command was ended: {error}");
    RunResult { exit_code: OUR_FAILURE, message: Some(message) }
}

fn submission(flags: RunFlags) -> Submission {
    let mut words = flags.words.into_iter();
    let program = if flags.shell {
        JobProgram::Shell(words.collect::<Vec<_>>().join(" "))
    } else {
        JobProgram::Direct { program: words.next().unwrap_or_default(), args: words.collect() }
    };
    Submission {
        cwd: flags.cwd,
        env: flags.env,
        stdin: Stdin::Inherited,
        timeout: flags.timeout,
        ..Submission::new(program)
    }
}

/// Writes what the job writes, until it has ended and everything was passed on. Where that fails,
/// the job is ended: nobody hears it any more.
async fn follow(job: &JobHandle, stream: Stream, sink: impl AsyncWrite + Unpin) -> io::Result<()> {
    let passed_on = pass_on(job, stream, sink).await;
    if passed_on.is_err() {
        job.stop(StopWish { by: StopBy::Client, signal: Some(libc::SIGPIPE), grace: None });
    }
    passed_on
}

async fn pass_on(
    job: &JobHandle,
    stream: Stream,
    mut sink: impl AsyncWrite + Unpin,
) -> io::Result<()> {
    let mut from = 0;
    loop {
        // Looked at before the page: bytes that come after the end belong to survivors.
        let ended = job.status().ending().is_some();
        let request =
            PageRequest { from, stream: Some(stream), max_bytes: PAGE_BYTES, max_lines: 0 };
        let page = job.output().read_with(move |log| log.read_page(&request)).await?;
        sink.write_all(&page.bytes).await?;
        sink.flush().await?;
        from = page.end;
        match page.end_kind {
            PageEnd::More => {}
            PageEnd::Complete => return Ok(()),
            PageEnd::CaughtUp if ended => return Ok(()),
            PageEnd::CaughtUp => more(job, job.output(), page.total_bytes).await,
        }
    }
}

async fn more(job: &JobHandle, output: &LogReader, seen: u64) {
    tokio::select! {
        () = output.wait_past(seen) => {}
        _ = job.finished() => {}
    }
}

/// The terminal's and the system's wishes to end.
struct Wishes {
    interrupt: Signal,
    terminate: Signal,
    first: bool,
}

impl Wishes {
    fn listen() -> io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            first: true,
        })
    }

    async fn next(&mut self) -> StopWish {
        let signal = tokio::select! {
            _ = self.interrupt.recv() => libc::SIGINT,
            _ = self.terminate.recv() => libc::SIGTERM,
        };
        let grace = if std::mem::take(&mut self.first) { None } else { Some(Duration::ZERO) };
        StopWish { by: StopBy::Client, signal: Some(signal), grace }
    }
}

fn refused(error: &SubmitError) -> RunResult {
    let exit_code = match error.code() {
        "queue_full" | "tenant_limit" | "rate_limited" => TRY_LATER,
        _ => OUR_FAILURE,
    };
    RunResult { exit_code, message: Some(format!("refused, nothing was run: {error}")) }
}

fn result(ending: &JobEnding) -> RunResult {
    let plain = |exit_code| RunResult { exit_code, message: None };
    let said = |exit_code, message| RunResult { exit_code, message: Some(message) };
    match &ending.outcome {
        Outcome::Exited { code } => plain(u8::try_from(code & 0xff).unwrap_or(OUR_FAILURE)),
        Outcome::Signaled { signal, .. } => plain(by_signal(*signal)),
        Outcome::TimedOut { after } => said(
            TIMED_OUT,
            format!("timed out after {}s; the process tree was ended", after.as_secs_f64()),
        ),
        Outcome::Stopped { .. } => {
            plain(by_signal(ending.kill.map_or(libc::SIGTERM, |kill| kill.first)))
        }
        Outcome::Limit { which } => said(OUR_FAILURE, format!("ended: {which}")),
        Outcome::FailedToStart(why) => said(failed_to_start(why), why.to_string()),
        Outcome::Lost { why } => said(OUR_FAILURE, format!("lost: {why}")),
    }
}

fn by_signal(signal: i32) -> u8 {
    u8::try_from(signal).map_or(OUR_FAILURE, |signal| SIGNAL_BASE.saturating_add(signal))
}

const fn failed_to_start(why: &StartError) -> u8 {
    match why {
        StartError::NotFound { .. } => NOT_FOUND,
        StartError::NotExecutable { .. } => NOT_EXECUTABLE,
        StartError::BadCwd { .. }
        | StartError::TooLong { .. }
        | StartError::NulByte { .. }
        | StartError::Confinement { .. }
        | StartError::NoWorkspace { .. }
        | StartError::OutOfProcesses { .. }
        | StartError::System { .. } => OUR_FAILURE,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(outcome: Outcome, exit_code: u8) {
        assert_eq!(result(&JobEnding::unmeasured(outcome)).exit_code, exit_code);
    }

    #[test]
    fn the_exit_code_is_the_one_that_a_shell_would_see() {
        check(Outcome::Exited { code: 3 }, 3);
        check(Outcome::Signaled { signal: 9, core: false }, 137);
        check(Outcome::TimedOut { after: Duration::from_secs(1) }, 124);
        check(Outcome::Stopped { by: StopBy::Client }, 143);
        check(Outcome::Lost { why: String::new() }, 125);
        check(Outcome::FailedToStart(StartError::NotFound { program: String::new() }), 127);
        check(Outcome::FailedToStart(StartError::NotExecutable { program: String::new() }), 126);
        check(Outcome::FailedToStart(StartError::NulByte { what: "cwd" }), 125);
    }
}
