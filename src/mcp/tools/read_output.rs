//! `read_output`: any part of a job's output, at any time. Never blocks, never consumes.

use super::call::Call;
use super::search;
use super::search::Grep;
use crate::ids::JobNumber;
use crate::mcp::args::{ArgError, Args};
use crate::mcp::cursor::{Cursor, ParsedCursor};
use crate::mcp::reply::{
    Answer, Place, Shown, TokenBudget, ToolError, after_page, beyond_end, glance, query_answer,
    show_digest, show_dump, show_page, show_raw, with_glance,
};
use crate::mcp::resources::{Address, ByteRange};
use crate::mcp::schema::{Effect, Field, Kind, ToolSpec};
use crate::mcp::settings::McpSettings;
use crate::mcp::snapshot::Snapshot;
use crate::output::json::{query_json, query_memory};
use crate::output::{BlockingReader, LogReader, PageRequest};
use crate::service::JobHandle;
use crate::spec::Stream;

pub(in crate::mcp) const SPEC: ToolSpec = ToolSpec {
    name: "read_output",
    about: "Reads a job's output, while it runs or after: a page from cursor or line on (default: \
            from the start), head, tail; as text, hexdump, base64 or raw (base64); or digest \
            (errors, and how tools ended). grep finds lines by regex; query applies JMESPath to \
            JSON output. Reading consumes nothing.",
    effect: Effect::Reads,
    fields: &[
        Field::optional(
            "job",
            Kind::Whole,
            "Job number; or give uri; grep alone searches all jobs",
        ),
        Field::optional("uri", Kind::Text, ""),
        Field::optional("cursor", Kind::Text, "A next_cursor"),
        Field::optional("line", Kind::From(1), "First line"),
        Field::optional("view", Kind::Choice(&VIEW_WORDS), ""),
        Field::optional("grep", Kind::Text, "Regex: only lines that match"),
        Field::optional("context", Kind::Whole, "Lines around each match"),
        Field::optional("invert", Kind::Flag, "Lines that do not match"),
        Field::optional("query", Kind::Text, "JMESPath"),
        Field::optional("stream", Kind::Choice(&["stdout", "stderr"]), ""),
        Field::optional("max_bytes", Kind::From(1), ""),
        Field::optional("max_lines", Kind::From(1), ""),
        Field::optional("max_tokens", Kind::From(*TokenBudget::BOUNDS.start()), ""),
    ],
};

pub(in crate::mcp) async fn call(call: Call<'_>, mut args: Args) -> Result<Answer, ToolError> {
    let Some((id, stream)) = target(&mut args)? else { return search_all(call, args).await };
    let job = call.client.find(call.client.job(id)).await?;
    let wish = Wish::read(args, &job, stream, call.settings).await?;
    let log = job.output().clone();
    log.check_files().await.map_err(|source| ToolError::Read { job: job.id(), source })?;
    let now = Snapshot::take_often(call.client, &job).await;
    let bare = call.fit(&call.about(&now, None));
    let mut fit = bare.for_page(wish.max_bytes, call.settings.page_bytes);
    match &wish.form {
        Form::Grep(grep) => {
            let page = wish.request(&job, fit.size()).await?;
            let place = wish.place(&job, fit.size()).await?;
            let answer = search::in_job(call, &now, log, grep.clone(), page, fit).await?;
            Ok(with_notice(answer, &now, place))
        }
        Form::Query(expression) => {
            let page = wish.request(&job, fit.size()).await?;
            let expression = expression.clone();
            let memory = call.reserve(&log, query_memory(&log, page.stream)).await?;
            let most = memory.bytes();
            let scan = move |log: &BlockingReader, patience: &_| {
                query_json(log, page.stream, &expression, most, patience)
            };
            let scanned = call.scan(&log, memory, scan).await;
            let (result, _memory) =
                scanned.map_err(|source| ToolError::Read { job: job.id(), source })?;
            let result = result?;
            loop {
                let page = PageRequest { max_bytes: fit.size(), ..page };
                if let Some(answer) = fit.settle(query_answer(&now, &result, page)) {
                    return Ok(answer);
                }
            }
        }
        Form::Digest => {
            let request = wish.request(&job, fit.size()).await?;
            show_digest(&now, &log, request, &fit).await
        }
        Form::Page(look) => {
            let mut digest = None;
            loop {
                let request = wish.request(&job, fit.size()).await?;
                let shown = look.show(&now, &log, request).await?;
                if digest.is_none() && wish.start.is_opening() && shown.is_part_of_text() {
                    digest = Some(glance(&now, &log, request).await?);
                }
                let news = shown.news();
                let answer = page(call, &now, shown, wish.place(&job, fit.size()).await?);
                let answer = digest.iter().fold(answer, with_glance);
                if let Some(answer) = fit.settle(answer) {
                    call.mark_shown(&job, news);
                    return Ok(answer);
                }
            }
        }
    }
}

/// Without a job, a grep searches all of them.
async fn search_all(call: Call<'_>, mut args: Args) -> Result<Answer, ToolError> {
    let Some(grep) = Grep::read(&mut args)? else {
        let why = "give `job` or `uri`; list_jobs shows the jobs there are";
        return Err(ArgError::Conflict(why).into());
    };
    let (max_bytes, page) = page_request(&mut args, call.settings)?;
    if args.has_any(&["cursor", "line", "view", "query"]) {
        let why =
            "a grep over all jobs takes no `cursor`, `line`, `view` or `query`; give `job` too";
        return Err(ArgError::Conflict(why).into());
    }
    let bare = call.fit(&Answer::several(None, Vec::new()));
    let fit = bare.for_page(max_bytes, call.settings.page_bytes);
    let page = PageRequest { max_bytes: fit.size(), ..page };
    search::in_all_jobs(call, grep, page, fit).await
}

fn page(call: Call<'_>, now: &Snapshot, shown: Shown, place: Place) -> Answer {
    let hint = after_page(now, &shown);
    with_notice(call.about(now, Some(shown)).with_hint(hint), now, place)
}

/// The same, saying so where the place is past the end.
fn with_notice(answer: Answer, now: &Snapshot, place: Place) -> Answer {
    match beyond_end(now, place) {
        Some(said) => answer.with_verdict_as_hint(said),
        None => answer,
    }
}

/// The job that is meant, if one is, and the one stream of it that an address names.
fn target(args: &mut Args) -> Result<Option<(JobNumber, Option<Stream>)>, ToolError> {
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

struct Wish {
    start: Start,
    stream: Option<Stream>,
    max_bytes: Option<usize>,
    max_lines: usize,
    form: Form,
}

/// Where to read from.
enum Start {
    /// Where nobody said where.
    Beginning,
    At(Place),
    /// As far before the end as there is room for.
    Tail,
}

impl Start {
    /// Whether it is a first look at an output, rather than a place in it.
    const fn is_opening(&self) -> bool {
        match self {
            Self::Beginning | Self::Tail => true,
            Self::At(_) => false,
        }
    }
}

/// In which form output is wanted.
enum Form {
    Page(Look),
    Digest,
    Grep(Grep),
    Query(String),
}

/// How a page is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Look {
    Text,
    Raw,
    Hexdump,
}

impl Look {
    async fn show(
        self,
        job: &Snapshot,
        log: &LogReader,
        request: PageRequest,
    ) -> Result<Shown, ToolError> {
        match self {
            Self::Text => show_page(job, log, request).await,
            Self::Raw => show_raw(job, log, request).await,
            Self::Hexdump => show_dump(job, log, request).await,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum View {
    Next,
    Head,
    Tail,
    Raw,
    Digest,
    Hexdump,
}

impl Wish {
    async fn read(
        mut args: Args,
        job: &JobHandle,
        named: Option<Stream>,
        settings: &McpSettings,
    ) -> Result<Self, ToolError> {
        let most = settings.max_page_bytes;
        let stream = args.choice("stream", &STREAMS)?.or(named);
        if named.is_some() && stream != named {
            return Err(ArgError::Conflict(
                "`uri` and `stream` name different streams; give one of them",
            )
            .into());
        }
        if args.has_any(&["query"]) && args.has_any(&["cursor", "line", "max_lines"]) {
            let why = "a `query` is about all of the output; leave `cursor`, `line` and \
                       `max_lines` out, and select in the query, such as `[-10:]`";
            return Err(ArgError::Conflict(why).into());
        }
        let view = args.choice("view", &VIEWS)?;
        Ok(Self {
            max_bytes: args.whole("max_bytes", 1..=most as u64)?.map(as_size),
            max_lines: args.whole("max_lines", 1..=u64::MAX)?.map_or(0, as_size),
            stream,
            start: start(&mut args, view, job).await?,
            form: form(&mut args, view)?,
        })
    }

    /// What is asked of the log, for an answer with at most so many bytes of it.
    async fn request(&self, job: &JobHandle, max_bytes: usize) -> Result<PageRequest, ToolError> {
        let from = offset_of(self.place(job, max_bytes).await?, job.output());
        Ok(PageRequest { from, stream: self.stream, max_bytes, max_lines: self.max_lines })
    }

    async fn place(&self, job: &JobHandle, max_bytes: usize) -> Result<Place, ToolError> {
        match self.start {
            Start::Beginning => Ok(Place::Offset(0)),
            Start::At(place) => Ok(place),
            Start::Tail => {
                let stream = self.stream;
                let max_lines = self.max_lines;
                let find = move |log: &BlockingReader| log.tail_start(stream, max_bytes, max_lines);
                let start = job.output().read_with(find).await;
                start.map(Place::Offset).map_err(|source| ToolError::Read { job: job.id(), source })
            }
        }
    }
}

/// What a search over all jobs is bounded by: the bytes that were asked for, if any were.
fn page_request(
    args: &mut Args,
    settings: &McpSettings,
) -> Result<(Option<usize>, PageRequest), ToolError> {
    let max_bytes = args.whole("max_bytes", 1..=settings.max_page_bytes as u64)?.map(as_size);
    let max_lines = args.whole("max_lines", 1..=u64::MAX)?.map_or(0, as_size);
    let stream = args.choice("stream", &STREAMS)?;
    Ok((max_bytes, PageRequest { from: 0, stream, max_bytes: 0, max_lines }))
}

const STREAMS: [(&str, Stream); 2] = [("stdout", Stream::Stdout), ("stderr", Stream::Stderr)];
const VIEWS: [(&str, View); 8] = [
    ("next", View::Next),
    ("head", View::Head),
    ("tail", View::Tail),
    ("raw", View::Raw),
    ("digest", View::Digest),
    // The same as next and raw, by the names of what they give.
    ("text", View::Next),
    ("base64", View::Raw),
    ("hexdump", View::Hexdump),
];
const VIEW_WORDS: [&str; 8] =
    ["next", "head", "tail", "raw", "digest", "text", "base64", "hexdump"];

fn as_size(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

/// Where to read from.
async fn start(args: &mut Args, view: Option<View>, job: &JobHandle) -> Result<Start, ToolError> {
    let cursor = args.text_or_number("cursor")?;
    let line = args.whole("line", 1..=u64::MAX)?;
    match (cursor, line, view) {
        (Some(_), Some(_), _) => {
            Err(ArgError::Conflict("`cursor` and `line` both say where to start; give one").into())
        }
        (Some(_), None, Some(View::Head | View::Tail))
        | (None, Some(_), Some(View::Head | View::Tail)) => Err(ArgError::Conflict(
            "view head and tail know where to start; leave `cursor` and `line` out, or use view next",
        )
        .into()),
        (Some(cursor), None, None | Some(View::Next | View::Raw | View::Hexdump | View::Digest)) => {
            place_of_cursor(&cursor, job).await.map(Start::At)
        }
        (None, Some(line), None | Some(View::Next | View::Raw | View::Hexdump | View::Digest)) => {
            place_of_line(line, job).await.map(Start::At)
        }
        (None, None, Some(View::Tail)) => Ok(Start::Tail),
        (None, None, None | Some(View::Next | View::Head | View::Raw | View::Hexdump | View::Digest)) => {
            Ok(Start::Beginning)
        }
    }
}

fn form(args: &mut Args, view: Option<View>) -> Result<Form, ToolError> {
    let grep = Grep::read(args)?;
    let query = args.text("query")?;
    match (grep, query, view) {
        (None, None, Some(View::Raw)) => Ok(Form::Page(Look::Raw)),
        (None, None, Some(View::Digest)) => Ok(Form::Digest),
        (None, None, Some(View::Hexdump)) => Ok(Form::Page(Look::Hexdump)),
        (None, None, None | Some(View::Next | View::Head | View::Tail)) => {
            Ok(Form::Page(Look::Text))
        }
        (Some(grep), None, None | Some(View::Next)) => Ok(Form::Grep(grep)),
        (None, Some(expression), None | Some(View::Next)) => Ok(Form::Query(expression)),
        (Some(_), Some(_), _) => Err(ArgError::Conflict("give `grep` or `query`, not both").into()),
        (Some(_), None, _) | (None, Some(_), _) => Err(ArgError::Conflict(
            "`grep` and `query` give text of their own; leave `view` out, or read the bytes with \
                 view and cursor alone",
        )
        .into()),
    }
}

/// The place that a cursor stands for in the output of `job`.
pub(super) async fn place_of_cursor(cursor: &str, job: &JobHandle) -> Result<Place, ToolError> {
    let parsed: ParsedCursor = cursor.parse()?;
    match parsed.job {
        Some(of) if of != job.id().job_number() => {
            Err(ToolError::ForeignCursor { job: job.id(), of })
        }
        Some(_) | None => match parsed.cursor {
            Cursor::Bytes(offset) => Ok(Place::Offset(offset)),
            Cursor::Line(line) => place_of_line(line, job).await,
        },
    }
}

/// The place of a line's first byte. The first line is always there, if only to be written.
pub(super) async fn place_of_line(line: u64, job: &JobHandle) -> Result<Place, ToolError> {
    let offset = job.output().read_with(move |log| log.offset_of_line(line)).await;
    let offset = offset.map_err(|source| ToolError::Read { job: job.id(), source })?;
    Ok(match offset {
        Some(offset) => Place::Offset(offset),
        None if line <= 1 => Place::Offset(0),
        None => Place::NoSuchLine(line),
    })
}

/// Where reading starts; of a line that is not there, the end.
pub(super) fn offset_of(place: Place, log: &LogReader) -> u64 {
    match place {
        Place::Offset(offset) => offset,
        Place::NoSuchLine(_) => log.progress().total_bytes,
    }
}

/// The job, and the one stream if any, whose output an address names.
pub(super) fn target_of_uri(uri: &str) -> Result<(JobNumber, Option<Stream>), ToolError> {
    let given = || uri.chars().take(80).collect();
    let address = Address::parse(uri).map_err(|_| ToolError::BadUri { given: given() })?;
    match address.range {
        ByteRange::WHOLE => Ok((address.job, address.stream)),
        ByteRange { .. } => Err(ToolError::UriRange),
    }
}
