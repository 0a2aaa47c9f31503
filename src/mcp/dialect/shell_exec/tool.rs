//! The call itself: a run, and one page of what it wrote.

use std::sync::Arc;

use rmcp::model::JsonObject;
use serde_json::{Value, json};

use super::address::{Address, Packing};
use super::chunk::Chunk;
use super::error::ExecError;
use super::reading::Reading;
use super::target::{Run, is_large, target};
use super::wish::{Large, Wish};
use crate::mcp::reply::Foreign;
use crate::mcp::tools::Call;
use crate::outcome::{Outcome, signal_name};
use crate::output::{BlockingReader, Cursor, ParsedCursor, Tally};
use crate::spec::Stream;

pub(crate) async fn call(call: Call<'_>, arguments: JsonObject) -> Foreign {
    match shell_exec(call, arguments).await {
        Ok(fields) => Foreign::fields(fields),
        Err(error) => error.into(),
    }
}

async fn shell_exec(call: Call<'_>, arguments: JsonObject) -> Result<JsonObject, ExecError> {
    let wish = Arc::new(Wish::read(arguments, call.settings.max_page_bytes)?);
    let run = target(call, &wish).await?;
    let end = End::of(&run.ending.outcome)?;
    let reading = read(call, &run, &wish).await?;
    let is_large = is_large(run.job.output(), wish.limits.bytes as u64);
    if wish.large == Large::Error && (is_large || reading.page.span.has_more) {
        return Err(ExecError::TooLarge { limits: wish.limits, job: run.job.id() });
    }
    let spilled = spilled(call, &run, &wish, &reading).await?;
    let mut fields = JsonObject::new();
    end.write(&mut fields);
    write_chunks(&mut fields, reading.chunks(&wish, &call.desk.redactor()), &reading);
    write_place(&mut fields, &run, &wish, &reading);
    write_extras(&mut fields, &reading);
    spilled.write(&mut fields);
    Ok(fields)
}

/// How the command ended.
struct End {
    /// Null where it did not exit by itself: what was ended never reads as a success.
    exit_code: Value,
    /// What happened instead.
    error: Option<String>,
}

impl End {
    fn of(outcome: &Outcome) -> Result<Self, ExecError> {
        let error = match outcome {
            Outcome::Exited { code } => {
                return Ok(Self { exit_code: (*code).into(), error: None });
            }
            Outcome::FailedToStart(why) => return Err(ExecError::NotStarted(why.clone())),
            Outcome::Lost { why } => return Err(ExecError::Lost { why: why.clone() }),
            Outcome::Signaled { signal, .. } => format!("killed by {}", signal_name(*signal)),
            Outcome::TimedOut { after } => format!("timed out after {}s", after.as_secs()),
            Outcome::Stopped { by } => format!("stopped ({})", by.word()),
            Outcome::Limit { which } => which.to_string(),
        };
        Ok(Self { exit_code: Value::Null, error: Some(error) })
    }

    fn write(self, fields: &mut JsonObject) {
        fields.insert("exit_code".into(), self.exit_code);
        insert_some(fields, "error", self.error);
    }
}

async fn read(call: Call<'_>, run: &Run, wish: &Arc<Wish>) -> Result<Reading, ExecError> {
    let (log, redactor) = (run.job.output(), call.desk.redactor());
    let wish = Arc::clone(wish);
    let memory = call.reserve(log, Reading::memory_of(log, &wish)).await?;
    let most = memory.bytes();
    let scan = move |log: &BlockingReader, patience: &_| {
        Reading::of(log, &wish, &redactor, (most, patience))
    };
    let (reading, _memory) = call.scan(log, memory, scan).await?;
    reading
}

/// Where the rest is, if there is any.
struct Spilled {
    stdout: Option<Address>,
    stderr: Option<Address>,
}

impl Spilled {
    fn write(self, fields: &mut JsonObject) {
        let address = |address: Address| address.to_string();
        fields.insert("spill_uri".into(), self.stdout.map(address).into());
        insert_some(fields, "stderr_spill_uri", self.stderr.map(address));
    }
}

async fn spilled(
    call: Call<'_>,
    run: &Run,
    wish: &Wish,
    reading: &Reading,
) -> Result<Spilled, ExecError> {
    let is_paged = reading.page.span.start > 0 || reading.page.span.has_more;
    let wants_stdout = match wish.large {
        Large::Spill => is_paged,
        Large::SpillAlways => true,
        Large::Truncate | Large::Error => false,
    };
    let ticket = call.desk.ticket(run.job.id());
    let at = |stream, packing| Address { ticket: ticket.clone(), stream, packing };
    if wants_stdout && wish.packing == Packing::Gzip {
        // Packed now, so that this reply says it if it cannot be.
        call.desk.packed(&run.job, Stream::Stdout).await?;
    }
    Ok(Spilled {
        stdout: wants_stdout.then(|| at(Stream::Stdout, wish.packing)),
        stderr: reading.stderr.span.has_more.then(|| at(Stream::Stderr, Packing::Plain)),
    })
}

fn write_chunks(fields: &mut JsonObject, (stdout, stderr): (Chunk, Chunk), reading: &Reading) {
    let plain = if stdout.encoding().is_none() { "text/plain" } else { "application/octet-stream" };
    fields.insert("mime".into(), reading.mime.unwrap_or(plain).into());
    insert_some(fields, "encoding", stdout.encoding());
    insert_some(fields, "stderr_encoding", stderr.encoding());
    fields.insert("stdout_chunk".into(), stdout.into_text().into());
    fields.insert("stderr_chunk".into(), stderr.into_text().into());
}

fn write_place(fields: &mut JsonObject, run: &Run, wish: &Wish, reading: &Reading) {
    let page = &reading.page;
    let is_cut = wish.large == Large::Truncate && page.span.has_more;
    page.span.write(fields);
    fields.insert("line_count".into(), page.lines().into());
    fields.insert("stderr_count".into(), reading.stderr_lines.into());
    fields.insert(
        "truncated".into(),
        (is_cut || page.gap_bytes > 0 || reading.stderr.span.has_more).into(),
    );
    insert_some(fields, "matches", page.matches);
    let next =
        ParsedCursor { job: Some(run.job.id().in_tenant()), cursor: Cursor::Bytes(page.span.end) };
    insert_some(fields, "next_cursor", (page.span.has_more && !is_cut).then(|| next.place_first()));
}

fn write_extras(fields: &mut JsonObject, reading: &Reading) {
    fields.insert("head_preview".into(), reading.head.as_str().into());
    fields.insert("tail_preview".into(), reading.tail.as_str().into());
    let summary = |(stdout, stderr): &(Tally, Tally)| {
        json!({
            "lines": stdout.lines,
            "errors": stdout.errors,
            "stderr_lines": stderr.lines,
            "stderr_errors": stderr.errors,
        })
    };
    insert_some(fields, "summary", reading.summary.as_ref().map(summary));
}

fn insert_some(fields: &mut JsonObject, name: &str, value: Option<impl Into<Value>>) {
    if let Some(value) = value {
        fields.insert(name.to_owned(), value.into());
    }
}
