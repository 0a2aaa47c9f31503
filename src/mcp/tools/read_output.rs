//! `read_output`: reads any part of a job's output, at any time. Never waits for the job to write
//! more; reading consumes nothing.

use super::call::ToolCall;
use super::search;
use super::search::Grep;
use crate::ids::JobNumber;
use crate::mcp::args::{ArgError, ArgKind, ArgSpec, Args, ToolEffect, ToolSpec};
use crate::mcp::reply::{
    JobSnapshot, ReadPosition, ReplyFitter, SeenRanges, ShownOutput, TokenBudget, ToolError,
    ToolReply, beyond_end_notice, hint_after_page, hint_after_unseen, query_reply, show_base64,
    show_digest, show_hexdump, show_page, show_screen,
};
use crate::mcp::resources::{ByteRange, Cursor, OutputUri, ParsedCursor};
use crate::mcp::settings::McpSettings;
use crate::output::json::{query_json, query_memory};
use crate::output::search::ListingStyle;
use crate::output::{BlockingReader, LogReader, PageRequest};
use crate::service::{JobHandle, SeenOutput};
use crate::spec::Stream;

pub(in crate::mcp) const SPEC: ToolSpec = ToolSpec {
    name: "read_output",
    about: "Reads a job's output from cursor, line or view on (default: the start). grep finds \
            lines by regex; query applies JMESPath to JSON output. Reading consumes nothing.",
    effect: ToolEffect::Reads,
    fields: &[
        ArgSpec::optional("job", ArgKind::Whole, "Or uri; grep alone searches all jobs"),
        ArgSpec::optional("uri", ArgKind::Text, ""),
        ArgSpec::optional("cursor", ArgKind::Text, "A next_cursor"),
        ArgSpec::optional("line", ArgKind::Whole, ""),
        ArgSpec::optional("view", ArgKind::Text, "next (not shown to you yet), head or tail"),
        ArgSpec::optional("form", ArgKind::Choice(&FORM_WORDS), "digest: errors, test results"),
        ArgSpec::optional("grep", ArgKind::Text, ""),
        ArgSpec::optional("context", ArgKind::Whole, "Lines around"),
        ArgSpec::optional("invert", ArgKind::Flag, "Lines that do not match"),
        ArgSpec::optional("query", ArgKind::Text, ""),
        ArgSpec::optional(
            "stream",
            ArgKind::Choice(&["stdout", "stderr"]),
            "Of a job with streams=separate",
        ),
        ArgSpec::optional("max_bytes", ArgKind::Whole, ""),
        ArgSpec::optional("max_lines", ArgKind::Whole, ""),
        ArgSpec::optional(TokenBudget::ARGUMENT, ArgKind::Whole, ""),
    ],
};

pub(in crate::mcp) async fn call(
    call: ToolCall<'_>,
    mut args: Args,
) -> Result<ToolReply, ToolError> {
    let Some((id, stream)) = read_target(&mut args)? else { return search_all(call, args).await };
    let job = call.client.find(call.client.job_id(id)).await?;
    let args = ReadOutputArgs::read(call, args, &job, stream).await?;
    let log = job.output().clone();
    log.check_files().await.map_err(|source| ToolError::Read { job: job.id(), source })?;
    let now = JobSnapshot::take_cached(call.client, &job).await;
    let bare = call.fitter(&call.job_reply(&now, None));
    let mut fitter = bare.for_page(args.max_bytes, call.settings.page_bytes);
    match &args.mode {
        ReadMode::Grep(grep) => {
            let page = args.request(&job, &fitter).await?;
            let position = args.position(&job, &fitter).await?;
            let reply =
                search::in_job(call, &now, log, grep.clone(), page, args.listing_style(), fitter)
                    .await?;
            Ok(with_notice(reply, &now, position))
        }
        ReadMode::Query(expression) => {
            let page = args.request(&job, &fitter).await?;
            show_query(call, &now, &log, expression, page, fitter).await
        }
        ReadMode::Digest => {
            let request = args.request(&job, &fitter).await?;
            show_digest(&now, &log, request, &fitter).await
        }
        ReadMode::Page(format) => {
            let format = *format;
            show_next_page(call, args, format, &job, &now, fitter).await
        }
        ReadMode::Screen => loop {
            let shown = show_screen(&now, &log, args.stream, fitter.excerpt_budget()).await?;
            if let Some(reply) = fitter.accept(call.job_reply(&now, Some(shown))) {
                return Ok(reply);
            }
        },
    }
}

/// Shows the page that the call asks for, as much of it as fits.
async fn show_next_page(
    call: ToolCall<'_>,
    mut args: ReadOutputArgs,
    format: PageFormat,
    job: &JobHandle,
    now: &JobSnapshot,
    mut fitter: ReplyFitter,
) -> Result<ToolReply, ToolError> {
    if format == PageFormat::Hexdump {
        fitter.limit_size(fitter.max_lines().saturating_mul(HEXDUMP_ROW_BYTES));
    }
    loop {
        let request = args.start.limit(args.request(job, &fitter).await?);
        let shown = format.show(now, job.output(), request).await?;
        let seen = args.start.seen_ranges(&request, &shown);
        if args.start.skip_empty(&request, &shown) {
            call.mark_shown(job.id(), seen);
            continue;
        }
        let hint = args.start.hint(now, &request, &shown);
        let reply = call.job_reply(now, Some(shown)).with_hint(hint);
        let reply = with_notice(reply, now, args.position(job, &fitter).await?);
        if let Some(reply) = fitter.accept(reply) {
            if args.counts_as_seen(format) {
                call.mark_read(job.id(), seen);
            }
            return Ok(reply);
        }
    }
}

/// Evaluates a query over the output as JSON, and shows as much of the result as fits.
async fn show_query(
    call: ToolCall<'_>,
    now: &JobSnapshot,
    log: &LogReader,
    expression: &str,
    page: PageRequest,
    mut fitter: ReplyFitter,
) -> Result<ToolReply, ToolError> {
    let expression = expression.to_owned();
    let memory = call.reserve(log, query_memory(log, page.stream)).await?;
    let most = memory.bytes();
    let scan = move |log: &BlockingReader, deadline: &_| {
        query_json(log, page.stream, &expression, most, deadline)
    };
    let scanned = call.scan(log, memory, scan).await;
    let (result, _memory) = scanned.map_err(|source| ToolError::Read { job: now.job, source })?;
    let result = result?;
    loop {
        let page = PageRequest { max_bytes: fitter.size(), ..page };
        if let Some(reply) = fitter.accept(query_reply(now, &result, page)) {
            return Ok(reply);
        }
    }
}

/// Searches all jobs, for a `grep` without a job.
async fn search_all(call: ToolCall<'_>, mut args: Args) -> Result<ToolReply, ToolError> {
    let Some(grep) = Grep::read(&mut args)? else {
        let message = "give `job` or `uri`; list_jobs shows the jobs there are";
        return Err(ArgError::Conflict(message).into());
    };
    let (max_bytes, page) = page_request(&mut args, call.settings)?;
    if args.has_any(&["cursor", "line", "view", "form", "query"]) {
        let message = "a grep over all jobs takes no `cursor`, `line`, `view`, `form` or `query`; \
                       give `job` too";
        return Err(ArgError::Conflict(message).into());
    }
    let bare = call.fitter(&ToolReply::for_jobs(None, Vec::new()));
    let style = style_for_limits(max_bytes, page.max_lines);
    let fitter = bare.for_page(max_bytes, call.settings.page_bytes);
    let page = PageRequest { max_bytes: fitter.size(), ..page };
    search::in_all_jobs(call, grep, page, style, fitter).await
}

/// Adds a notice if the position is beyond the end.
fn with_notice(reply: ToolReply, now: &JobSnapshot, position: ReadPosition) -> ToolReply {
    match beyond_end_notice(now, position) {
        Some(notice) => reply.with_verdict_as_hint(notice),
        None => reply,
    }
}

/// Returns the job that the arguments name, if any, and the stream if a URI names one.
fn read_target(args: &mut Args) -> Result<Option<(JobNumber, Option<Stream>)>, ToolError> {
    let job = args.job("job")?;
    let by_uri = args.text("uri")?.as_deref().map(target_of_uri).transpose()?;
    match (job, by_uri) {
        (Some(job), Some((other, _))) if job != other => {
            Err(ArgError::Conflict("`job` and `uri` name different jobs; give one of them").into())
        }
        (Some(job), None) => Ok(Some((job, None))),
        (_, Some(named)) => Ok(Some(named)),
        (None, None) => Ok(None),
    }
}

/// The bytes in one line of a hexdump.
const HEXDUMP_ROW_BYTES: usize = 16;

struct ReadOutputArgs {
    start: ReadStart,
    stream: Option<Stream>,
    max_bytes: Option<usize>,
    max_lines: usize,
    mode: ReadMode,
}

/// The start of the requested output.
enum ReadStart {
    /// The beginning, because the call names no position.
    Beginning,
    At(ReadPosition),
    /// The end, as much as fits.
    Tail,
    /// The first part that the caller has not seen.
    Unseen(SeenOutput),
}

impl ReadStart {
    /// Limits a page to what the caller has not seen.
    fn limit(&self, request: PageRequest) -> PageRequest {
        match self {
            Self::Beginning | Self::At(_) | Self::Tail => request,
            Self::Unseen(seen) => PageRequest { to: seen.first_unseen().end, ..request },
        }
    }

    /// Returns the bytes that the caller has seen after this page. Unseen output that was removed
    /// from the log, or is not of the stream, counts too, because no later page can show it.
    fn seen_ranges(&self, request: &PageRequest, shown: &ShownOutput) -> SeenRanges {
        let mut seen = shown.seen_ranges();
        if let Self::Unseen(_) = self {
            seen.ranges.insert(0, request.from..shown.start);
        }
        seen
    }

    /// Moves on if there is nothing to show between two parts that the caller has seen; returns
    /// `true` if so.
    fn skip_empty(&mut self, request: &PageRequest, shown: &ShownOutput) -> bool {
        let is_empty = shown.text.is_empty() && shown.end >= request.to;
        match self {
            Self::Unseen(seen) if is_empty => {
                seen.add(request.from..shown.end);
                true
            }
            Self::Beginning | Self::At(_) | Self::Tail | Self::Unseen(_) => false,
        }
    }

    /// Returns how to continue reading after a page that starts here.
    fn hint(
        &self,
        now: &JobSnapshot,
        request: &PageRequest,
        shown: &ShownOutput,
    ) -> Option<String> {
        match self {
            Self::Beginning | Self::At(_) | Self::Tail => hint_after_page(now, shown),
            Self::Unseen(seen) => {
                let mut seen = seen.clone();
                let ranges = self.seen_ranges(request, shown).ranges;
                ranges.into_iter().for_each(|range| seen.add(range));
                hint_after_unseen(now, shown, seen.first_unseen().start)
            }
        }
    }
}

/// The kind of reply that a call asks for.
enum ReadMode {
    Page(PageFormat),
    Screen,
    Digest,
    Grep(Grep),
    Query(String),
}

/// The format of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PageFormat {
    Text,
    Raw,
    Hexdump,
}

impl PageFormat {
    async fn show(
        self,
        job: &JobSnapshot,
        log: &LogReader,
        request: PageRequest,
    ) -> Result<ShownOutput, ToolError> {
        match self {
            Self::Text => show_page(job, log, request).await,
            Self::Raw => show_base64(job, log, request).await,
            Self::Hexdump => show_hexdump(job, log, request).await,
        }
    }
}

/// A place in the output, by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OutputPlace {
    /// The part that the caller has not seen.
    Next,
    Head,
    Tail,
}

/// The form in which output is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OutputForm {
    Text,
    Hexdump,
    Base64,
    Screen,
    Digest,
}

/// A word of `view`: a place, or a form, as before `form` existed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ViewWord {
    Place(OutputPlace),
    Form(OutputForm),
}

impl ReadOutputArgs {
    async fn read(
        call: ToolCall<'_>,
        mut args: Args,
        job: &JobHandle,
        named: Option<Stream>,
    ) -> Result<Self, ToolError> {
        let most = call.settings.max_page_bytes;
        let stream = args.choice("stream", &STREAMS)?.or(named);
        if named.is_some() && stream != named {
            return Err(ArgError::Conflict(
                "`uri` and `stream` name different streams; give one of them",
            )
            .into());
        }
        job.check_stream(stream)?;
        if args.has_any(&["query"]) && args.has_any(&["cursor", "line", "max_lines"]) {
            let message = "a `query` is about all of the output; leave `cursor`, `line` and \
                       `max_lines` out, and select in the query, such as `[-10:]`";
            return Err(ArgError::Conflict(message).into());
        }
        let (place, form) = read_view(&mut args)?;
        let seen = || call.client.seen_output(job.id(), stream);
        Ok(Self {
            max_bytes: args.whole("max_bytes", 1..=most as u64)?.map(as_size),
            max_lines: args.whole("max_lines", 1..=u64::MAX)?.map_or(0, as_size),
            stream,
            mode: read_mode(&mut args, place, form)?,
            start: read_start(&mut args, place, job, seen).await?,
        })
    }

    /// `true` if the caller has seen the output of a page: it was shown as text, or the caller reads
    /// on in another form.
    fn counts_as_seen(&self, format: PageFormat) -> bool {
        format == PageFormat::Text || matches!(self.start, ReadStart::Unseen(_))
    }

    /// Returns the page to read in the next attempt to fit the reply.
    async fn request(
        &self,
        job: &JobHandle,
        fitter: &ReplyFitter,
    ) -> Result<PageRequest, ToolError> {
        let from = start_offset(self.position(job, fitter).await?, job.output());
        let max_lines = fitter.page_lines(self.max_lines);
        Ok(PageRequest {
            from,
            to: u64::MAX,
            stream: self.stream,
            max_bytes: fitter.size(),
            max_lines,
        })
    }

    /// Returns the style of the listing of a search: a caller that names a position reads on.
    fn listing_style(&self) -> ListingStyle {
        match self.start {
            ReadStart::Beginning => style_for_limits(self.max_bytes, self.max_lines),
            ReadStart::At(_) | ReadStart::Tail | ReadStart::Unseen(_) => ListingStyle::Page,
        }
    }

    async fn position(
        &self,
        job: &JobHandle,
        fitter: &ReplyFitter,
    ) -> Result<ReadPosition, ToolError> {
        match &self.start {
            ReadStart::Beginning => Ok(ReadPosition::Offset(0)),
            ReadStart::At(position) => Ok(*position),
            ReadStart::Unseen(seen) => Ok(ReadPosition::Offset(seen.first_unseen().start)),
            ReadStart::Tail => {
                let stream = self.stream;
                let max_bytes = fitter.size();
                let max_lines = fitter.page_lines(self.max_lines);
                let find = move |log: &BlockingReader| log.tail_start(stream, max_bytes, max_lines);
                let start = job.output().read_with(find).await;
                start
                    .map(ReadPosition::Offset)
                    .map_err(|source| ToolError::Read { job: job.id(), source })
            }
        }
    }
}

/// Returns the style of the listing of a search: a caller that limits its pages reads them all.
const fn style_for_limits(max_bytes: Option<usize>, max_lines: usize) -> ListingStyle {
    match (max_bytes, max_lines) {
        (None, 0) => ListingStyle::Overview,
        (Some(_) | None, _) => ListingStyle::Page,
    }
}

/// Reads the limits of a search over all jobs: the requested bytes, if any, and the page.
fn page_request(
    args: &mut Args,
    settings: &McpSettings,
) -> Result<(Option<usize>, PageRequest), ToolError> {
    let max_bytes = args.whole("max_bytes", 1..=settings.max_page_bytes as u64)?.map(as_size);
    let max_lines = args.whole("max_lines", 1..=u64::MAX)?.map_or(0, as_size);
    let stream = args.choice("stream", &STREAMS)?;
    Ok((max_bytes, PageRequest { from: 0, to: u64::MAX, stream, max_bytes: 0, max_lines }))
}

const STREAMS: [(&str, Stream); 2] = [("stdout", Stream::Stdout), ("stderr", Stream::Stderr)];
/// The words of `form`; `raw` is another name of `base64`.
const FORMS: [(&str, OutputForm); 6] = [
    ("text", OutputForm::Text),
    ("hexdump", OutputForm::Hexdump),
    ("base64", OutputForm::Base64),
    ("raw", OutputForm::Base64),
    ("screen", OutputForm::Screen),
    ("digest", OutputForm::Digest),
];
const FORM_WORDS: [&str; 6] = ["text", "hexdump", "base64", "raw", "screen", "digest"];
const VIEWS: [(&str, ViewWord); 9] = [
    ("next", ViewWord::Place(OutputPlace::Next)),
    ("head", ViewWord::Place(OutputPlace::Head)),
    ("tail", ViewWord::Place(OutputPlace::Tail)),
    ("text", ViewWord::Form(OutputForm::Text)),
    ("hexdump", ViewWord::Form(OutputForm::Hexdump)),
    ("base64", ViewWord::Form(OutputForm::Base64)),
    ("raw", ViewWord::Form(OutputForm::Base64)),
    ("screen", ViewWord::Form(OutputForm::Screen)),
    ("digest", ViewWord::Form(OutputForm::Digest)),
];

/// Reads the place and the form.
fn read_view(args: &mut Args) -> Result<(Option<OutputPlace>, OutputForm), ArgError> {
    let view = args.choice("view", &VIEWS)?;
    let form = args.choice("form", &FORMS)?;
    match (view, form) {
        (Some(ViewWord::Form(one)), Some(other)) if one != other => Err(ArgError::Conflict(
            "`view` and `form` name different forms; use `view` for next, head or tail alone",
        )),
        (Some(ViewWord::Form(form)), _) => Ok((None, form)),
        (Some(ViewWord::Place(place)), form) => Ok((Some(place), form.unwrap_or(OutputForm::Text))),
        (None, form) => Ok((None, form.unwrap_or(OutputForm::Text))),
    }
}

fn as_size(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

/// Reads where the requested output starts; `seen` is what the caller has seen of it.
async fn read_start(
    args: &mut Args,
    place: Option<OutputPlace>,
    job: &JobHandle,
    seen: impl FnOnce() -> SeenOutput,
) -> Result<ReadStart, ToolError> {
    let cursor = args.text_or_number("cursor")?;
    let line = args.whole("line", 1..=u64::MAX)?;
    let has_own_start = matches!(place, Some(OutputPlace::Head | OutputPlace::Tail));
    match (cursor, line) {
        (Some(_), Some(_)) => {
            Err(ArgError::Conflict("`cursor` and `line` both say where to start; give one").into())
        }
        (Some(_), None) | (None, Some(_)) if has_own_start => {
            let message = "view head and tail know where to start; leave `cursor` and `line` out, \
                           or leave `view` out";
            Err(ArgError::Conflict(message).into())
        }
        (Some(cursor), None) => cursor_position(&cursor, job).await.map(ReadStart::At),
        (None, Some(line)) => line_position(line, job).await.map(ReadStart::At),
        (None, None) => Ok(match place {
            Some(OutputPlace::Next) => ReadStart::Unseen(seen()),
            Some(OutputPlace::Tail) => ReadStart::Tail,
            Some(OutputPlace::Head) | None => ReadStart::Beginning,
        }),
    }
}

fn read_mode(
    args: &mut Args,
    place: Option<OutputPlace>,
    form: OutputForm,
) -> Result<ReadMode, ToolError> {
    let has_place = place.is_some() || args.has_any(&["cursor", "line"]);
    let grep = Grep::read(args)?;
    let query = args.text("query")?;
    let is_plain = form == OutputForm::Text && matches!(place, None | Some(OutputPlace::Next));
    match (grep, query, form) {
        (None, None, OutputForm::Text) => Ok(ReadMode::Page(PageFormat::Text)),
        (None, None, OutputForm::Hexdump) => Ok(ReadMode::Page(PageFormat::Hexdump)),
        (None, None, OutputForm::Base64) => Ok(ReadMode::Page(PageFormat::Raw)),
        (None, None, OutputForm::Digest) => Ok(ReadMode::Digest),
        (None, None, OutputForm::Screen) if !has_place => Ok(ReadMode::Screen),
        (None, None, OutputForm::Screen) => Err(ArgError::Conflict(
            "the screen is what a terminal shows now; leave the place out (`view`, `cursor`, `line`)",
        )
        .into()),
        (Some(grep), None, _) if is_plain => Ok(ReadMode::Grep(grep)),
        (None, Some(expression), _) if is_plain => Ok(ReadMode::Query(expression)),
        (Some(_), Some(_), _) => Err(ArgError::Conflict("give `grep` or `query`, not both").into()),
        (Some(_), None, _) | (None, Some(_), _) => Err(ArgError::Conflict(
            "`grep` and `query` give text of their own; leave `view` out, and `form` too, or read \
             the bytes without them",
        )
        .into()),
    }
}

/// Returns the position of a cursor in the output of `job`.
pub(super) async fn cursor_position(
    cursor: &str,
    job: &JobHandle,
) -> Result<ReadPosition, ToolError> {
    let parsed: ParsedCursor = cursor.parse()?;
    match parsed.job {
        Some(of) if of != job.id().job_number() => {
            Err(ToolError::ForeignCursor { job: job.id(), of })
        }
        Some(_) | None => match parsed.cursor {
            Cursor::Bytes(offset) => Ok(ReadPosition::Offset(offset)),
            Cursor::Line(line) => line_position(line, job).await,
        },
    }
}

/// Returns the position of a line's first byte. The first line always exists, even if it is not
/// written yet.
async fn line_position(line: u64, job: &JobHandle) -> Result<ReadPosition, ToolError> {
    let offset = job.output().read_with(move |log| log.offset_of_line(line)).await;
    let offset = offset.map_err(|source| ToolError::Read { job: job.id(), source })?;
    Ok(match offset {
        Some(offset) => ReadPosition::Offset(offset),
        None if line <= 1 => ReadPosition::Offset(0),
        None => ReadPosition::NoSuchLine(line),
    })
}

/// Returns the offset at which reading starts; the end for a line that does not exist.
pub(super) fn start_offset(position: ReadPosition, log: &LogReader) -> u64 {
    match position {
        ReadPosition::Offset(offset) => offset,
        ReadPosition::NoSuchLine(_) => log.progress().total_bytes,
    }
}

/// Returns the job, and the stream if any, that a URI names.
fn target_of_uri(uri: &str) -> Result<(JobNumber, Option<Stream>), ToolError> {
    let given = || uri.chars().take(80).collect();
    let parsed_uri = OutputUri::parse(uri).map_err(|_| ToolError::BadUri { given: given() })?;
    match parsed_uri.range {
        ByteRange::WHOLE => Ok((parsed_uri.job, parsed_uri.stream)),
        ByteRange { .. } => Err(ToolError::UriRange),
    }
}
