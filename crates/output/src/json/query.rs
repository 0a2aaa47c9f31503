//! Running a query: reading the output, choosing a plan, bounding memory and time.

use std::collections::VecDeque;
use std::str::{Utf8Error, from_utf8};
use std::{io, thread};

use jmespath::ast::Ast;
use memchr::memchr;
use thiserror::Error;

use super::document::{JsonDocument, JsonError, Meter, MeterCharge};
use super::evaluate::evaluate;
use super::query_plan::{JsonLineRange, JsonLineReader, NeededElements, QueryPlan};
use super::value::{JsonList, JsonText, JsonValue};

use crate::Stream;
use crate::chunks::{More, TextBlock};
use crate::line_scan::ScanDeadline;
use crate::reader::{BlockingReader, LogReader};
use crate::views::Charset;

/// The largest JSON value that is queried, and the largest result.
pub(crate) const MAX_BYTES: usize = 16 * 1024 * 1024;
/// The memory of a query on next to nothing.
const BASE_MEMORY: usize = 2 * 1024 * 1024;
/// The memory of a query for each byte of its input: the text, up to four times as much for its
/// values, and the rest for the values that the query computes.
const MEMORY_PER_BYTE: usize = 8;
/// The longest query, in bytes.
const MAX_QUERY: usize = 1000;
/// A mark that UTF-8 text may begin with.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";
/// The stack of a query. Only the part that is used takes memory.
const STACK_BYTES: usize = 64 * 1024 * 1024;

/// The reason why a query gave no result.
#[derive(Debug, Error)]
pub enum QueryError {
    /// Parts of the output are missing.
    #[error(
        "parts of the output were not kept, so it cannot be queried; read or search it instead"
    )]
    NotWhole,
    /// The output is not JSON.
    #[error("the output is neither JSON nor JSON lines (line {line}: {why}); {instead}")]
    NotJson {
        /// The first line that is not JSON, counted from 1 within the input.
        line: usize,
        /// The parser's message.
        why: String,
        /// Advice on other ways to read the output.
        instead: &'static str,
    },
    /// The job still writes the output, which may become JSON.
    #[error(
        "the JSON is not complete yet, the job still writes it; wait for it with wait_jobs, then query again"
    )]
    Unfinished,
    /// The output is not even text.
    #[error(
        "the output is binary, not JSON (line {line}); view=\"raw\" gives its bytes, and a query needs a command that writes JSON"
    )]
    Binary {
        /// The first line that is not text, counted from 1 within the input.
        line: usize,
    },
    /// The query is not JMESPath.
    #[error("the query cannot be used: {why}; it must be JMESPath, such as `items[?ok].name`")]
    BadQuery {
        /// The problem with the query.
        why: String,
    },
    /// The query is JMESPath that cannot be applied to this output.
    #[error(
        "the query does not fit the output: {why}; query `@` or a part of it to see what is there"
    )]
    NoFit {
        /// The mismatch between query and output.
        why: String,
    },
    /// The output, or the result, is too large.
    #[error("{what} is too large for a query; {instead}")]
    TooLarge {
        /// The thing that is too large.
        what: &'static str,
        /// Advice on other ways to get a result.
        instead: &'static str,
    },
    /// The query took too long.
    #[error(
        "the time for a query was over at line {line}; ask for less, such as `[:100]`, or use grep"
    )]
    TimeOver {
        /// The line that the query reached.
        line: usize,
    },
    /// No thread could be created for the query.
    #[error("no query was made: {0}; or try again later")]
    NoThread(io::Error),
    /// The output could not be read.
    #[error("the output could not be read ({0}); try again later")]
    Read(#[from] io::Error),
}

impl QueryError {
    /// Returns the stable code word of the error.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::NotJson { .. } | Self::Binary { .. } => "not_json",
            Self::Unfinished => "json_unfinished",
            Self::BadQuery { .. } | Self::NoFit { .. } => "bad_query",
            Self::TooLarge { .. } => "too_large",
            Self::TimeOver { .. } => "time_over",
            Self::NotWhole => "not_whole",
            Self::NoThread(_) => "out_of_processes",
            Self::Read(_) => "read_failed",
        }
    }

    /// Replaces the cause of a [`QueryError::NoThread`] by the result of `explain`; returns other
    /// errors unchanged.
    #[must_use]
    pub fn explain_no_thread(self, explain: impl FnOnce(io::Error) -> io::Error) -> Self {
        match self {
            Self::NoThread(error) => Self::NoThread(explain(error)),
            Self::NotJson { .. }
            | Self::Binary { .. }
            | Self::Unfinished
            | Self::BadQuery { .. }
            | Self::NoFit { .. }
            | Self::TooLarge { .. }
            | Self::TimeOver { .. }
            | Self::NotWhole
            | Self::Read(_) => self,
        }
    }

    pub(crate) const fn too_large(what: &'static str) -> Self {
        let instead =
            "search it with grep, read a part of it, or run the command again with `| jq`";
        Self::TooLarge { what, instead }
    }
}

/// The result of a query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueryResult {
    /// The result as JSON text.
    pub text: String,
    /// The input of the query.
    pub input: QueryInput,
}

/// The input of a query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueryInput {
    /// The whole output, as one value.
    Value,
    /// An array with one value for each line.
    Lines,
}

/// The most memory that a query on one stream of a log, or on both, takes. Reserve it before the
/// query.
#[must_use]
pub fn query_memory(reader: &LogReader, stream: Option<Stream>) -> usize {
    let bytes = usize::try_from(reader.progress().bytes_of(stream)).unwrap_or(usize::MAX);
    BASE_MEMORY + MEMORY_PER_BYTE * bytes.min(MAX_BYTES)
}

/// Applies a JMESPath expression to the output so far, of one stream or of both, and returns the
/// result as JSON text. A query that would hold more than `memory` bytes is refused.
///
/// JSON lines are an array of their values, without a last line that is still being written. If the
/// query begins with a step that treats each element separately, such as `[?ok].name`, only the
/// results of that step are held in memory.
pub fn query_json(
    reader: &BlockingReader,
    stream: Option<Stream>,
    expression: &str,
    memory: usize,
    deadline: &ScanDeadline,
) -> Result<QueryResult, QueryError> {
    check_length(expression)?;
    with_deep_stack(|| apply(reader, stream, expression, &Meter::new(memory, deadline)))
}

/// Runs `run` on a thread with a deep stack. Parser and interpreter are recursive, and the longest
/// query cannot exhaust this stack.
fn with_deep_stack<T: Send>(
    run: impl FnOnce() -> Result<T, QueryError> + Send,
) -> Result<T, QueryError> {
    thread::scope(|scope| {
        let running = thread::Builder::new().stack_size(STACK_BYTES).spawn_scoped(scope, run);
        let running = running.map_err(QueryError::NoThread)?;
        running.join().unwrap_or_else(|_| Err(bad_query("it broke the interpreter".to_owned())))
    })
}

/// Checks that an expression is valid JMESPath, before there is anything to query.
///
/// # Errors
/// The problem with the expression.
pub fn check_expression(expression: &str) -> Result<(), QueryError> {
    check_length(expression)?;
    with_deep_stack(|| {
        jmespath::compile(expression).map(drop).map_err(|error| bad_query(error.to_string()))
    })
}

fn check_length(expression: &str) -> Result<(), QueryError> {
    if expression.len() > MAX_QUERY {
        return Err(bad_query(format!("it is longer than {MAX_QUERY} bytes")));
    }
    Ok(())
}

fn apply(
    reader: &BlockingReader,
    stream: Option<Stream>,
    expression: &str,
    meter: &Meter<'_>,
) -> Result<QueryResult, QueryError> {
    let query = JsonQuery::new(expression, meter)?;
    let reader = &reader.freeze();
    let progress = reader.progress();
    if reader.missing_bytes(0..progress.total_bytes) > 0 {
        return Err(QueryError::NotWhole);
    }
    let source = QuerySource { stream, charset: reader.charset()?, is_growing: !progress.closed };
    let chunks = reader.chunks(stream, 0, progress.total_bytes);
    let mut lines = JsonLineReader::new(chunks, source.charset, meter.deadline());
    let Some(first) = lines.next()? else { return Err(source.empty_output_error()) };
    let first = OwnedText::new(lines.bytes(&first).to_vec(), first.number, meter)?;
    let second = lines.next()?;
    match (first.parse(meter), second) {
        (Ok(document), None) => {
            drop(lines);
            query.apply_to_value(&document)
        }
        // Only another value can follow a whole value.
        (Ok(document), Some(second)) => query.apply_to_lines(document, second, lines, source),
        // A value that continues in the next line.
        (Err(error), Some(_)) if error.is_eof() => {
            drop(lines);
            let output = whole_output(reader, source, meter)?;
            match output.parse(meter) {
                Ok(document) => query.apply_to_value(&document),
                Err(error) => Err(source.parse_failure(error, &output)),
            }
        }
        (Err(error), _) => Err(source.parse_failure(error, &first)),
    }
}

/// The output that is queried.
#[derive(Debug, Clone, Copy)]
struct QuerySource {
    stream: Option<Stream>,
    charset: Charset,
    /// `true` if the job still writes.
    is_growing: bool,
}

impl QuerySource {
    fn empty_output_error(self) -> QueryError {
        let why = "there is no output".to_owned();
        if self.is_growing { QueryError::Unfinished } else { self.not_json_error(1, why) }
    }

    /// The error for a text that could not be parsed.
    fn parse_failure(self, error: ParseError, text: &OwnedText<'_>) -> QueryError {
        self.parse_failure_at(error, text.line, &text.bytes)
    }

    /// The error for bytes that could not be parsed. They begin with the line of this number.
    fn parse_failure_at(self, error: ParseError, line: usize, bytes: &[u8]) -> QueryError {
        let error = match error {
            _ if error.is_eof() && self.is_growing => return QueryError::Unfinished,
            ParseError::NotText(_) => return QueryError::Binary { line },
            ParseError::Json(JsonError::NotJson(error)) => error,
            ParseError::Json(error) => return query_error(error, line),
        };
        if memchr(0, bytes).is_some() {
            return QueryError::Binary { line };
        }
        let said = error.to_string();
        if said.starts_with("recursion limit exceeded") {
            return QueryError::too_large("JSON that is nested more than 127 deep");
        }
        // The number is that of the line in the output; the parser counts lines of its own input.
        let why = said.rsplit_once(" at line ").map_or(said.as_str(), |(why, _)| why);
        self.not_json_error(
            line + error.line().saturating_sub(1),
            format!("{why} at column {}", error.column()),
        )
    }

    const fn not_json_error(self, line: usize, why: String) -> QueryError {
        let instead = match self.stream {
            None => "read it as text, or query one stream alone with stream=\"stdout\"",
            Some(_) => "read it as text, or use grep",
        };
        QueryError::NotJson { line, why, instead }
    }
}

/// A parsed query with its meter.
#[derive(Debug)]
struct JsonQuery<'e> {
    expression: &'e str,
    ast: Ast,
    meter: &'e Meter<'e>,
}

impl<'e> JsonQuery<'e> {
    fn new(expression: &'e str, meter: &'e Meter<'e>) -> Result<Self, QueryError> {
        let ast = jmespath::parse(expression).map_err(|error| bad_query(error.to_string()))?;
        Ok(Self { expression, ast, meter })
    }

    /// Applies the query to one value.
    fn apply_to_value(&self, document: &JsonDocument<'_>) -> Result<QueryResult, QueryError> {
        let text = self.evaluate_to_text(&self.ast, &document.root())?;
        Ok(QueryResult { text, input: QueryInput::Value })
    }

    /// Applies the query to an array of all lines: the first, which is parsed already, the second
    /// and the following ones.
    fn apply_to_lines(
        &self,
        first: JsonDocument<'_>,
        second: JsonLineRange,
        mut lines: JsonLineReader<'_>,
        source: QuerySource,
    ) -> Result<QueryResult, QueryError> {
        let plan = QueryPlan::new(&self.ast);
        let mut gathered = GatheredValues::new(&plan, self.meter);
        self.gather(&plan, &first, &mut gathered)?;
        drop(first);
        let mut next = Some(second);
        while let Some(line) = next.filter(|_| !gathered.is_full()) {
            let bytes = lines.bytes(&line);
            let mut charge = self.meter.open();
            charge.add(bytes.len()).map_err(|error| query_error(error, line.number))?;
            match parse(bytes, self.meter) {
                Ok(document) => self.gather(&plan, &document, &mut gathered)?,
                Err(error) if error.is_eof() && source.is_growing && lines.is_open(&line) => break,
                Err(error) => return Err(source.parse_failure_at(error, line.number, bytes)),
            }
            next = lines.next()?;
        }
        drop(lines);
        let (text, _charge) = gathered.finish(self.meter).map_err(|_| TOO_MANY_LINES)?;
        let text = if plan.is_all_local() {
            text
        } else {
            let document = JsonDocument::parse(&text, self.meter).map_err(|_| TOO_MANY_LINES)?;
            self.evaluate_to_text(&plan.rest, &document.root())?
        };
        Ok(QueryResult { text, input: QueryInput::Lines })
    }

    /// Adds the values that one line gives.
    fn gather(
        &self,
        plan: &QueryPlan,
        line: &JsonDocument<'_>,
        gathered: &mut GatheredValues<'_>,
    ) -> Result<(), QueryError> {
        let mut array = JsonList::new(self.meter);
        array.push(line.root()).map_err(|error| query_error(error, 1))?;
        let found = self.evaluate(&plan.each, &array.into())?;
        let too_large = if plan.is_all_local() { RESULT_TOO_LARGE } else { TOO_MANY_LINES };
        gathered.add(&found).map_err(|_| too_large)
    }

    /// Applies a part of the query, and returns the result as text.
    fn evaluate_to_text<'a>(
        &'a self,
        part: &'a Ast,
        value: &JsonValue<'a>,
    ) -> Result<String, QueryError> {
        let result = self.evaluate(part, value)?;
        let mut text = JsonText::new(MAX_BYTES, self.meter);
        text.write(&result).map_err(|_| RESULT_TOO_LARGE)?;
        Ok(text.into_parts().0)
    }

    fn evaluate<'a>(
        &'a self,
        part: &'a Ast,
        value: &JsonValue<'a>,
    ) -> Result<JsonValue<'a>, QueryError> {
        evaluate(part, value, self.expression, self.meter).map_err(|error| query_error(error, 1))
    }
}

const RESULT_TOO_LARGE: QueryError = QueryError::TooLarge {
    what: "the result",
    instead: "select less, such as `[:100]`, or count with `length(@)`",
};

const TOO_MANY_LINES: QueryError = QueryError::TooLarge {
    what: "an array of these lines",
    instead: "begin with a projection such as `[?level=='error'].msg`, which is applied line by line",
};

/// The error for a query that stopped at this line.
fn query_error(error: JsonError, line: usize) -> QueryError {
    match error {
        JsonError::TooLarge => QueryError::TooLarge {
            what: "what the query needs in memory",
            instead: "select less, use grep, or run the command again with `| jq`",
        },
        JsonError::TimeOver => QueryError::TimeOver { line },
        JsonError::NoFit(error) => QueryError::NoFit { why: error.to_string() },
        JsonError::NotJson(error) => QueryError::NoFit { why: error.to_string() },
    }
}

fn bad_query(why: String) -> QueryError {
    QueryError::BadQuery { why }
}

/// Bytes to parse, with the charge for their memory.
#[derive(Debug)]
struct OwnedText<'a> {
    bytes: Vec<u8>,
    /// The number of the first line.
    line: usize,
    _charge: MeterCharge<'a>,
}

impl<'a> OwnedText<'a> {
    fn new(bytes: Vec<u8>, line: usize, meter: &'a Meter<'a>) -> Result<Self, QueryError> {
        let mut charge = meter.open();
        charge.add(bytes.len()).map_err(|error| query_error(error, line))?;
        Ok(Self { bytes, line, _charge: charge })
    }

    fn parse(&'a self, meter: &'a Meter<'a>) -> Result<JsonDocument<'a>, ParseError> {
        parse(&self.bytes, meter)
    }
}

/// The reason why some bytes were not parsed.
#[derive(Debug)]
enum ParseError {
    NotText(Utf8Error),
    Json(JsonError),
}

impl ParseError {
    /// `true` if more bytes could complete the value.
    fn is_eof(&self) -> bool {
        match self {
            Self::NotText(error) => error.error_len().is_none(),
            Self::Json(JsonError::NotJson(error)) => error.is_eof(),
            Self::Json(JsonError::TooLarge | JsonError::TimeOver | JsonError::NoFit(_)) => false,
        }
    }
}

/// Parses one JSON value, after an optional byte order mark.
fn parse<'a>(bytes: &'a [u8], meter: &'a Meter<'a>) -> Result<JsonDocument<'a>, ParseError> {
    let bytes = bytes.strip_prefix(BYTE_ORDER_MARK).unwrap_or(bytes);
    let text = from_utf8(bytes).map_err(ParseError::NotText)?;
    JsonDocument::parse(text, meter).map_err(ParseError::Json)
}

fn whole_output<'a>(
    reader: &BlockingReader,
    source: QuerySource,
    meter: &'a Meter<'a>,
) -> Result<OwnedText<'a>, QueryError> {
    let chunks = reader.chunks(source.stream, 0, reader.progress().total_bytes);
    let mut block = TextBlock::new(chunks, 0, source.charset);
    loop {
        let more = block.fill(0)?;
        if block.bytes().len() > MAX_BYTES {
            return Err(QueryError::too_large("a JSON value of over 16 MiB"));
        }
        if more == More::No {
            return OwnedText::new(block.into_bytes(), 1, meter);
        }
    }
}

/// The values that the lines gave so far, as JSON text, in bounded memory. The lines themselves are
/// freed by then.
#[derive(Debug)]
enum GatheredValues<'a> {
    /// An unfinished array of at most `most` elements.
    First { text: JsonText<'a>, count: usize, most: usize },
    /// The newest elements, at most `most`.
    Last { newest: VecDeque<(String, MeterCharge<'a>)>, most: usize, meter: &'a Meter<'a> },
    /// The number of elements.
    Length(u64),
}

impl<'a> GatheredValues<'a> {
    fn new(plan: &QueryPlan, meter: &'a Meter<'a>) -> Self {
        let first = |most| Self::First { text: JsonText::new(MAX_BYTES, meter), count: 0, most };
        match plan.keep {
            NeededElements::Length => Self::Length(0),
            NeededElements::All => first(usize::MAX),
            NeededElements::First(most) => first(most),
            NeededElements::Last(most) => Self::Last { newest: VecDeque::new(), most, meter },
        }
    }

    /// Adds the elements of an array that a line gave.
    fn add(&mut self, found: &JsonValue<'_>) -> Result<(), JsonError> {
        for value in found.elements().into_iter().flat_map(|(elements, _)| elements) {
            match self {
                Self::First { .. } if self.is_full() => return Ok(()),
                Self::First { text, count, .. } => {
                    text.push(if *count == 0 { "[" } else { "," })?;
                    text.write(&value)?;
                    *count += 1;
                }
                Self::Last { newest, most, meter } => {
                    let mut text = JsonText::new(MAX_BYTES, meter);
                    text.write(&value)?;
                    newest.push_back(text.into_parts());
                    if newest.len() > *most {
                        newest.pop_front();
                    }
                }
                Self::Length(length) => *length += 1,
            }
        }
        Ok(())
    }

    /// `true` if more elements would change nothing.
    const fn is_full(&self) -> bool {
        match self {
            Self::First { count, most, .. } => *count >= *most,
            Self::Last { .. } | Self::Length(_) => false,
        }
    }

    /// All values as JSON, with the charge for the text.
    fn finish(self, meter: &'a Meter<'a>) -> Result<(String, MeterCharge<'a>), JsonError> {
        let mut text = match self {
            Self::First { text, .. } => text,
            Self::Last { newest, .. } => {
                let mut text = JsonText::new(MAX_BYTES, meter);
                for (index, (value, _)) in newest.into_iter().enumerate() {
                    text.push(if index == 0 { "[" } else { "," })?;
                    text.push(&value)?;
                }
                text
            }
            Self::Length(length) => {
                let mut text = JsonText::new(MAX_BYTES, meter);
                text.write(&length)?;
                return Ok(text.into_parts());
            }
        };
        text.push(if text.is_empty() { "[]" } else { "]" })?;
        Ok(text.into_parts())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;
    use crate::{LogStorage, LogWriter, open_log};

    const MEMORY: usize = 128 * 1024 * 1024;

    fn log(out: &[u8], err: &[u8]) -> (LogWriter, LogReader, tempfile::TempDir) {
        let dir = tempfile::tempdir().unwrap();
        let (mut writer, reader) =
            open_log(&LogStorage { memory_bytes: 1000, spill_dir: dir.path().to_owned().into() });
        writer.append(Stream::Stderr, err);
        writer.append(Stream::Stdout, out);
        (writer, reader, dir)
    }

    #[track_caller]
    fn check(out: &str, expression: &str, expected: Result<&str, &str>) {
        let (mut writer, reader, _dir) = log(out.as_bytes(), b"noise on stderr\n");
        writer.close();
        let (deadline, _guard) = ScanDeadline::start(Duration::from_secs(3600));
        let result =
            query_json(&reader.blocking(), Some(Stream::Stdout), expression, MEMORY, &deadline);
        let result = result.as_ref().map(|result| result.text.as_str());
        assert_eq!(result.map_err(QueryError::code), expected, "{expression:?}");
    }

    #[test]
    fn json_and_json_lines_can_be_queried() {
        check(r#"{"items":[{"n":1},{"n":2}]}"#, "items[].n", Ok("[1,2]"));
        check("{\"n\":1}\n\n{\"n\":2}\n", "[?n > `1`].n", Ok("[2]"));
        check("{\n \"a\": true\n}\n", "a", Ok("true"));
        check("{}", "missing", Ok("null"));
    }

    #[test]
    fn json_lines_of_any_size_are_queried_line_by_line() {
        let pad = "x".repeat(1 << 20);
        let (mut writer, reader, _dir) = log(b"", b"");
        for number in 0..20 {
            let line = format!("{{\"n\":{number},\"pad\":\"{pad}\"}}\n");
            writer.append(Stream::Stdout, line.as_bytes());
        }
        let (deadline, _guard) = ScanDeadline::start(Duration::from_secs(3600));
        for (expression, expected) in [
            ("[?n == `7` || n > `18`].n", Ok("[7,19]")),
            ("length(@)", Ok("20")),
            ("[?n > `9`] | length(@)", Ok("10")),
            ("[2].n", Ok("2")),
            ("[-1].n", Ok("19")),
            ("[*].n | [10:13]", Ok("[10,11,12]")),
            ("max([*].n)", Ok("19")),
            ("max_by(@, &n).n", Err("too_large")),
        ] {
            let result = query_json(&reader.blocking(), None, expression, MEMORY, &deadline);
            let result = result.as_ref().map(|result| result.text.as_str());
            assert_eq!(result.map_err(QueryError::code), expected, "{expression}");
        }
        let error = query_json(&reader.blocking(), None, "reverse(@)", MEMORY, &deadline)
            .unwrap_err()
            .to_string();
        assert!(error.contains("[?level=='error'].msg"), "{error}");
    }

    #[test]
    fn a_query_ends_when_its_guard_is_dropped() {
        let (mut writer, reader, _dir) = log(b"", b"");
        writer.append(Stream::Stdout, &b"{}\n".repeat(100_000));
        let (deadline, guard) = ScanDeadline::start(Duration::from_secs(3600));
        drop(guard);
        let error = query_json(&reader.blocking(), None, "[*].a", MEMORY, &deadline).unwrap_err();
        assert_eq!(error.code(), "time_over");
    }

    #[test]
    fn an_error_names_the_line_that_is_not_json() {
        for (output, words) in [
            (&b"{}\n\n{}\nnoise\n"[..], "line 4"),
            (b"noise\n{}\n", "line 1"),
            (b"{\n\"a\": oops\n}\n", "line 2"),
            (b"{}\n\x00\xff\n", "binary"),
            (b"\x7fELF\x00\x01", "raw"),
        ] {
            let (mut writer, reader, _dir) = log(output, b"");
            writer.close();
            let (deadline, _guard) = ScanDeadline::start(Duration::from_secs(3600));
            let error =
                query_json(&reader.blocking(), None, "[*].a", MEMORY, &deadline).unwrap_err();
            assert_eq!(error.code(), "not_json");
            assert!(error.to_string().contains(words), "{error}");
        }
    }

    proptest! {
        #[test]
        fn a_streamed_query_gives_what_the_whole_array_would(
            values in proptest::collection::vec("(null|[0-9]|\\[[0-9],null,\\[1\\]\\]|\\{\"a\":[0-9]\\}|\\{\"a\":\\[\\{\"b\":[0-9]\\}\\]\\})", 2..12),
            expression in proptest::sample::select(vec![
                "@", "[*].a", "[].a", "[]", "[?a]", "[*].a[].b", "[?a] | [0]", "[0]", "[-1]", "[-2:]",
                "[1:3]", "[:2].a", "[::2]", "[::-1]", "length(@)", "length([?a])", "[].a | length(@)",
                "[*].a | [1]", "[?a > `3`].{x: a}", "[*] | [*] | []", "reverse([*].a)", "[@, @]",
                "[?a] | [:2] | [-1].a", "to_string([?a])", "[5].a", "[-9]", "not_null([9], `1`)",
            ]),
        ) {
            let lines = values.join("\n");
            let array = format!("[{}]", values.join(","));
            let (_writer, reader, _dir) = log(lines.as_bytes(), b"");
            let (deadline, _guard) = ScanDeadline::start(Duration::from_secs(3600));
            let streamed = query_json(&reader.blocking(), Some(Stream::Stdout), expression, MEMORY, &deadline);
            let whole: serde_json::Value = serde_json::from_str(&array).unwrap();
            let whole = jmespath::compile(expression).unwrap().search(whole);
            prop_assert_eq!(streamed.ok().map(|result| result.text), whole.ok().map(|value| value.to_string()));
        }
    }

    #[test]
    fn each_mistake_has_its_own_code() {
        check("plain text\n", "a", Err("not_json"));
        check("", "a", Err("not_json"));
        check("{}", "a[", Err("bad_query"));
        check("{}", "no_such_function(@)", Err("bad_query"));
        check("{}", &"a".repeat(MAX_QUERY + 1), Err("bad_query"));
        let (_writer, reader, _dir) = log(b"{}\n", b"noise\n");
        let (deadline, _guard) = ScanDeadline::start(Duration::from_secs(3600));
        let error = query_json(&reader.blocking(), None, "a", MEMORY, &deadline).unwrap_err();
        assert!(error.to_string().contains("line 1"), "{error}");
    }

    #[track_caller]
    fn run_query(reader: &LogReader, expression: &str) -> Result<QueryResult, QueryError> {
        let (deadline, _guard) = ScanDeadline::start(Duration::from_secs(3600));
        query_json(&reader.blocking(), None, expression, MEMORY, &deadline)
    }

    #[test]
    fn json_in_another_character_set_or_with_a_mark_is_queried() {
        let json = "{\n\"größe\": [1, 2]}\n";
        let lines = "{\"n\": 1}\r\n{\"n\": 2}\r\n";
        let utf16 =
            |text: &str| text.encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<u8>>();
        for (bytes, expression, expected) in [
            (utf16(&format!("\u{feff}{json}")), "\"größe\"[1]", "2"),
            (utf16(&format!("\u{feff}{lines}")), "[*].n", "[1,2]"),
            (format!("\u{feff}{json}").into_bytes(), "\"größe\"[1]", "2"),
            (format!("\u{feff}{lines}").into_bytes(), "[*].n", "[1,2]"),
        ] {
            let (_writer, reader, _dir) = log(&bytes, b"");
            assert_eq!(run_query(&reader, expression).unwrap().text, expected);
        }
    }

    #[test]
    fn unfinished_json_of_a_running_job_has_its_own_error() {
        for half in ["", "{\"a\":", "{\"a\": [1,\n 2"] {
            let (mut writer, reader, _dir) = log(half.as_bytes(), b"");
            assert_eq!(run_query(&reader, "a").unwrap_err().code(), "json_unfinished", "{half:?}");
            writer.close();
            assert_eq!(run_query(&reader, "a").unwrap_err().code(), "not_json", "{half:?}");
        }
        let (mut writer, reader, _dir) = log(b"{\"n\":1}\n{\"n\":2}\n{\"n\"", b"");
        let result = run_query(&reader, "[*].n").unwrap();
        assert_eq!((result.text.as_str(), result.input), ("[1,2]", QueryInput::Lines));
        writer.close();
        assert_eq!(run_query(&reader, "[*].n").unwrap_err().code(), "not_json");
    }

    #[test]
    fn each_error_gives_advice() {
        let deep = "[".repeat(200) + &"]".repeat(200);
        for (output, expression, words, never) in [
            ("{}\noops\n", "[*].a", "line 2: expected value at column 1)", "at line 1"),
            ("{}\noops\n", "[*].a", "stream=\"stdout\"", "use grep"),
            (deep.as_str(), "@", "nested more than 127 deep", "neither"),
            ("{\"n\": null}", "length(n)", "does not fit", "must be JMESPath"),
            ("{}", "a[", "must be JMESPath", "does not fit"),
        ] {
            let (mut writer, reader, _dir) = log(output.as_bytes(), b"");
            writer.close();
            let error = run_query(&reader, expression).unwrap_err().to_string();
            assert!(error.contains(words) && !error.contains(never), "{error}");
        }
        let (mut writer, reader, _dir) = log(b"oops\n", b"");
        writer.close();
        let (deadline, _guard) = ScanDeadline::start(Duration::from_secs(3600));
        let error = query_json(&reader.blocking(), Some(Stream::Stdout), "a", MEMORY, &deadline)
            .unwrap_err()
            .to_string();
        assert!(error.contains("use grep") && !error.contains("one stream"), "{error}");
    }

    #[test]
    fn what_is_too_large_is_refused() {
        let million = format!("[{}1]", "1,".repeat(1_000_000));
        check(&million, "length(@)", Ok("1000001"));
        check(&million, "@", Ok(&million));
        for expression in [
            ["[@,@][]"; 40].join("|"),
            ["[@,@]"; 60].join("|"),
            ["to_string([@, @])"; 40].join("|"),
            ["map(&[@,@],@)"; 30].join("|"),
            ["{a:@,b:@}"; 60].join("|"),
            ["join('', [to_string(@), to_string(@)])"; 24].join("|"),
        ] {
            let (mut writer, reader, _dir) = log(b"[1]", b"");
            writer.close();
            let (deadline, _guard) = ScanDeadline::start(Duration::from_secs(3600));
            let error =
                query_json(&reader.blocking(), None, &expression, 2 << 20, &deadline).unwrap_err();
            assert_eq!(error.code(), "too_large", "{expression}");
        }
        check(&"[".repeat(1000), "@", Err("too_large"));
        let (mut writer, reader, _dir) = log(million.as_bytes(), b"");
        writer.close();
        let (deadline, _guard) = ScanDeadline::start(Duration::from_secs(3600));
        let error = query_json(&reader.blocking(), None, "@", 16 << 20, &deadline).unwrap_err();
        assert_eq!(error.code(), "too_large");
        assert!(error.to_string().contains("| jq"), "{error}");
    }

    #[test]
    fn a_value_of_over_16_mib_is_refused() {
        let (mut writer, reader, _dir) = log(b"[\n", b"");
        for _ in 0..17 {
            writer.append(Stream::Stdout, &b"1234567,\n".repeat(1 << 17));
        }
        writer.close();
        assert_eq!(run_query(&reader, "@").unwrap_err().code(), "too_large");
    }

    #[test]
    fn an_expression_that_takes_too_long_is_ended() {
        let (mut writer, reader, _dir) = log(b"[1]", b"");
        writer.close();
        let (deadline, _guard) = ScanDeadline::start(Duration::from_millis(50));
        // Two values that share their contents are compared element by element: a trillion
        // comparisons.
        let slow = ["[@,@]"; 40].join("|") + " | [0] == [1]";
        let error = query_json(&reader.blocking(), None, &slow, MEMORY, &deadline).unwrap_err();
        assert_eq!(error.code(), "time_over");
    }

    #[test]
    fn the_deepest_query_does_not_overflow_the_stack() {
        for open in ["(", "[", "!", "a.(", "[?", "{a:", "`[", "abs("] {
            check("{}", &open.repeat(MAX_QUERY / open.len()), Err("bad_query"));
        }
        let nested = "[".repeat(MAX_QUERY / 2 - 1) + "a" + &"]".repeat(MAX_QUERY / 2 - 1);
        let (_writer, reader, _dir) = log(b"{}", b"");
        let (deadline, _guard) = ScanDeadline::start(Duration::from_secs(3600));
        assert!(
            query_json(&reader.blocking(), None, &nested, MEMORY, &deadline)
                .is_ok_and(|result| result.text.len() < 2 * MAX_QUERY)
        );
    }
}
