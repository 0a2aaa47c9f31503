//! JMESPath queries on output that is JSON or JSON lines.

use std::io::{self, Write};
use std::thread;

use jmespath::Rcvar;
use memchr::memchr3_iter;
use serde_json::Value;
use thiserror::Error;

use super::growth::largest_value;
use super::reader::LogReader;
use crate::spec::Stream;

/// Output beyond this is not queried, and no result is larger.
const MAX_BYTES: usize = 16 * 1024 * 1024;
/// JSON of more values is not queried: each takes about 100 bytes of memory.
const MAX_VALUES: usize = 2_000_000;
/// A query that could make a larger value than this is refused.
const MAX_WORK: f64 = 512.0 * 1024.0 * 1024.0;
/// A longer query is refused.
const MAX_QUERY: usize = 1000;
/// The stack of a query; only what is used of it takes memory.
const STACK_BYTES: usize = 64 * 1024 * 1024;

/// Why a query gave no result.
#[derive(Debug, Error)]
pub enum QueryError {
    /// The output is not JSON.
    #[error(
        "the output is neither JSON nor JSON lines (line {line}: {why}); read it as text, or query stdout alone"
    )]
    NotJson {
        /// The first line that is not JSON, counted from 1 within what was queried.
        line: usize,
        /// The parser's words.
        why: String,
    },
    /// The query is not JMESPath, or cannot be applied to this output.
    #[error("the query cannot be used: {why}; it must be JMESPath, such as `items[?ok].name`")]
    BadQuery {
        /// What is wrong with it.
        why: String,
    },
    /// The output, or the result, is too large.
    #[error("{what} is too large for a query; read or search the output instead")]
    TooLarge {
        /// What is.
        what: &'static str,
    },
    /// The output could not be read.
    #[error("the output could not be read; try again")]
    Read(#[from] io::Error),
}

impl QueryError {
    /// The stable word that clients may match on.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::NotJson { .. } => "not_json",
            Self::BadQuery { .. } => "bad_query",
            Self::TooLarge { .. } => "too_large",
            Self::Read(_) => "read_failed",
        }
    }
}

/// Applies a JMESPath expression to all that was written so far, to one stream or to both, and
/// gives the result as JSON text. JSON lines are an array of their values.
pub fn query(
    reader: &LogReader,
    stream: Option<Stream>,
    expression: &str,
) -> Result<String, QueryError> {
    if expression.len() > MAX_QUERY {
        return Err(bad(format!("it is longer than {MAX_QUERY} bytes")));
    }
    let output = whole_output(reader, stream, MAX_BYTES)?;
    // Parser and interpreter are recursive: on a stack that the longest query cannot exhaust.
    thread::scope(|scope| {
        let apply = || apply(&output, expression);
        let running = thread::Builder::new().stack_size(STACK_BYTES).spawn_scoped(scope, apply)?;
        running.join().unwrap_or_else(|_| Err(bad("it broke the interpreter".to_owned())))
    })
}

fn apply(output: &[u8], expression: &str) -> Result<String, QueryError> {
    let compiled = jmespath::compile(expression).map_err(|error| bad(error.to_string()))?;
    if largest_value(compiled.as_ast(), output.len()) > MAX_WORK {
        return Err(bad("it multiplies too much output; select fewer values".to_owned()));
    }
    let result = compiled.search(parse(output)?).map_err(|error| bad(error.to_string()))?;
    write_bounded(&result, MAX_BYTES)
}

fn bad(why: String) -> QueryError {
    QueryError::BadQuery { why }
}

fn whole_output(
    reader: &LogReader,
    stream: Option<Stream>,
    max: usize,
) -> Result<Vec<u8>, QueryError> {
    let reader = &reader.frozen();
    let total = reader.progress().total_bytes;
    if reader.missing(0..total) > 0 {
        return Err(QueryError::TooLarge { what: "an output that was not kept whole" });
    }
    let mut bytes = Vec::new();
    let mut pieces = reader.pieces(stream, 0, total);
    while let Some((_, piece)) = pieces.next()? {
        if bytes.len() + piece.len() > max {
            return Err(QueryError::TooLarge { what: "an output of over 16 MiB" });
        }
        bytes.extend_from_slice(piece);
    }
    Ok(bytes)
}

/// One JSON value, or JSON lines as an array.
fn parse(bytes: &[u8]) -> Result<Value, QueryError> {
    if memchr3_iter(b',', b'[', b'{', bytes).count() > MAX_VALUES {
        return Err(QueryError::TooLarge { what: "a JSON output of over 2,000,000 values" });
    }
    if let Ok(value) = serde_json::from_slice(bytes) {
        return Ok(value);
    }
    let lines = bytes.split(|byte| *byte == b'\n').enumerate();
    let lines = lines.filter(|(_, line)| !line.trim_ascii().is_empty());
    let values = lines.map(|(number, line)| {
        serde_json::from_slice(line)
            .map_err(|error| QueryError::NotJson { line: number + 1, why: error.to_string() })
    });
    match values.collect::<Result<Vec<Value>, _>>()? {
        values if values.is_empty() => {
            Err(QueryError::NotJson { line: 1, why: "there is no output".to_owned() })
        }
        values => Ok(Value::Array(values)),
    }
}

/// A result may name a large value many times: its text is bounded while it is written.
fn write_bounded(result: &Rcvar, max: usize) -> Result<String, QueryError> {
    let mut text = Bounded { bytes: Vec::new(), max };
    serde_json::to_writer(&mut text, &**result)
        .map_err(|_| QueryError::TooLarge { what: "a result of over 16 MiB" })?;
    Ok(String::from_utf8_lossy(&text.bytes).into_owned())
}

/// Takes at most `max` bytes.
#[derive(Debug)]
struct Bounded {
    bytes: Vec<u8>,
    max: usize,
}

impl Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.bytes.len() + bytes.len() > self.max {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::{LogSettings, LogWriter, open};
    use super::*;

    fn log(out: &[u8], err: &[u8]) -> (LogWriter, LogReader, tempfile::TempDir) {
        let dir = tempfile::tempdir().unwrap();
        let (mut writer, reader) =
            open(&LogSettings { memory_bytes: 1000, spill_dir: dir.path().to_owned() });
        writer.append(Stream::Stderr, err);
        writer.append(Stream::Stdout, out);
        (writer, reader, dir)
    }

    #[track_caller]
    fn check(out: &str, expression: &str, expected: Result<&str, &str>) {
        let (_writer, reader, _dir) = log(out.as_bytes(), b"noise on stderr\n");
        let result = query(&reader, Some(Stream::Stdout), expression);
        assert_eq!(result.as_deref().map_err(|error| error.code()), expected, "{expression:?}");
    }

    #[test]
    fn json_and_json_lines_can_be_queried() {
        check(r#"{"items":[{"n":1},{"n":2}]}"#, "items[].n", Ok("[1,2]"));
        check("{\"n\":1}\n\n{\"n\":2}\n", "[?n > `1`].n", Ok("[2]"));
        check("{\n \"a\": true\n}\n", "a", Ok("true"));
        check("{}", "missing", Ok("null"));
    }

    #[test]
    fn each_mistake_has_its_own_code() {
        check("plain text\n", "a", Err("not_json"));
        check("", "a", Err("not_json"));
        check("{}", "a[", Err("bad_query"));
        check("{}", "no_such_function(@)", Err("bad_query"));
        check("{}", &"a".repeat(MAX_QUERY + 1), Err("bad_query"));
        let (_writer, reader, _dir) = log(b"{}\n", b"noise\n");
        let error = query(&reader, None, "a").unwrap_err();
        assert!(error.to_string().contains("line 1"), "{error}");
    }

    #[test]
    fn what_is_too_large_is_refused() {
        let (_writer, reader, _dir) = log(b"12345", b"");
        assert!(whole_output(&reader, None, 5).is_ok());
        assert_eq!(whole_output(&reader, None, 4).unwrap_err().code(), "too_large");
        let doubled = jmespath::compile(&["[@,@]"; 60].join("|")).unwrap();
        let result = doubled.search(1).unwrap();
        assert_eq!(write_bounded(&result, 10_000).unwrap_err().code(), "too_large");
        check("[1]", &["[@,@][]"; 40].join("|"), Err("bad_query"));
        check(&"[".repeat(MAX_VALUES + 1), "@", Err("too_large"));
    }

    #[test]
    fn the_deepest_query_does_not_overflow_the_stack() {
        for open in ["(", "[", "!", "a.(", "[?", "{a:", "`[", "abs("] {
            check("{}", &open.repeat(MAX_QUERY / open.len()), Err("bad_query"));
        }
        let nested = "[".repeat(MAX_QUERY / 2 - 1) + "a" + &"]".repeat(MAX_QUERY / 2 - 1);
        let (_writer, reader, _dir) = log(b"{}", b"");
        assert!(query(&reader, None, &nested).is_ok_and(|result| result.len() < 2 * MAX_QUERY));
    }
}
