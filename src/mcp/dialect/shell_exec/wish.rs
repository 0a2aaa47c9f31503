//! What a call asks for.

use rmcp::model::JsonObject;
use serde_json::Value;

use super::address::Packing;
use super::chunk::{Escapes, Newline, Style};
use super::error::ExecError;
use super::piece::{Filter, Limits};
use super::schema::{FIELDS, PAGE_FIELDS};
use crate::mcp::args::{ArgError, Args};
use crate::output::pattern::Pattern;
use crate::output::{Cursor, ParsedCursor, query};
use crate::spec::Program;
use crate::yard::Submission;

/// The page of a call that does not say.
const DEFAULT_LIMITS: Limits = Limits { bytes: 65_536, lines: 2000 };
/// One character always fits.
const MIN_BYTES: u64 = 4;

/// What a call asks for. All that can be checked without output is checked before anything runs.
#[derive(Debug, Clone)]
pub(super) struct Wish {
    pub(super) submission: Submission,
    /// Where to read on, in a run that there is already.
    pub(super) cursor: Option<Place>,
    pub(super) limits: Limits,
    pub(super) large: Large,
    pub(super) filter: Filter,
    pub(super) style: Style,
    pub(super) packing: Packing,
    pub(super) wants_mime: bool,
    pub(super) wants_summary: bool,
}

/// A place in stdout, and the cursor that said so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) offset: u64,
    pub(crate) given: ParsedCursor,
}

/// What to do with output that is larger than a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Large {
    /// Keep it, and say where it is.
    Spill,
    /// The same, however small it is.
    SpillAlways,
    /// Give one page of it.
    Truncate,
    /// Fail, and end the command.
    Error,
}

const LARGE: [(&str, Large); 3] =
    [("spill", Large::SpillAlways), ("truncate", Large::Truncate), ("error", Large::Error)];
const NEWLINES: [(&str, Newline); 3] =
    [("\n", Newline::Lf), ("\r\n", Newline::CrLf), ("keep", Newline::Keep)];

impl Wish {
    pub(super) fn read(mut arguments: JsonObject, max_page: usize) -> Result<Self, ExecError> {
        let page = arguments.remove("page").unwrap_or_default();
        for on_by_default in ["mime", "ansi_strip"] {
            let value = arguments.entry(on_by_default).or_insert(Value::Null);
            if value.is_null() {
                *value = true.into();
            }
        }
        let mut args = Args::strict(arguments, &FIELDS)?;
        let (cursor, limits) = read_page(page, max_page)?;
        let wish = Self {
            submission: submission(&mut args)?,
            cursor,
            limits,
            large: args.choice("on_large_output", &LARGE)?.unwrap_or(Large::Spill),
            filter: filter(&mut args)?,
            style: Style {
                escapes: if args.flag("ansi_strip")? { Escapes::Strip } else { Escapes::Keep },
                newline: args.choice("newline", &NEWLINES)?.unwrap_or(Newline::Lf),
            },
            packing: if args.flag("zip")? { Packing::Gzip } else { Packing::Plain },
            wants_mime: args.flag("mime")?,
            wants_summary: args.flag("summary")?,
        };
        match (wish.packing, wish.large) {
            (Packing::Gzip, Large::Truncate | Large::Error) => Err(ArgError::Conflict(
                "`zip` packs what is spilled; leave on_large_output out, or say \"spill\"",
            )
            .into()),
            (Packing::Gzip, Large::Spill | Large::SpillAlways) | (Packing::Plain, _) => Ok(wish),
        }
    }

    /// Where the page starts.
    pub(super) fn start(&self) -> u64 {
        self.cursor.map_or(0, |cursor| cursor.offset)
    }
}

fn submission(args: &mut Args) -> Result<Submission, ArgError> {
    let cmd = args.text("cmd")?.unwrap_or_default();
    let program = match args.texts("args")? {
        Some(args) => Program::Direct { program: cmd, args },
        None => Program::Shell(cmd),
    };
    let mut env = args.pairs("env")?;
    // Whoever sends the same variables in another order means the same run.
    env.sort();
    Ok(Submission { cwd: args.text("cwd")?.map(Into::into), env, ..Submission::new(program) })
}

fn read_page(page: Value, max_page: usize) -> Result<(Option<Place>, Limits), ExecError> {
    let mut args = Args::strict(page_object(page)?.unwrap_or_default(), &PAGE_FIELDS)?;
    let cursor = args.text_or_number("cursor")?.map(|cursor| place(&cursor)).transpose()?;
    let bytes = args.whole("limit_bytes", MIN_BYTES..=max_page as u64)?;
    let lines = args.whole("limit_lines", 1..=u64::MAX)?;
    let size = |number: Option<u64>, default| {
        number.map_or(default, |number| usize::try_from(number).unwrap_or(usize::MAX))
    };
    let limits = Limits {
        bytes: size(bytes, DEFAULT_LIMITS.bytes.min(max_page)),
        lines: size(lines, DEFAULT_LIMITS.lines),
    };
    Ok((cursor, limits))
}

fn page_object(page: Value) -> Result<Option<JsonObject>, ArgError> {
    match page {
        Value::Null => Ok(None),
        Value::Object(page) => Ok(Some(page)),
        Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            Err(ArgError::WrongType {
                name: "page".to_owned(),
                wanted: "an object, such as {\"limit_bytes\": 65536}".to_owned(),
                given: page.to_string().chars().take(60).collect(),
            })
        }
    }
}

/// The place that a cursor stands for.
pub(crate) fn place(cursor: &str) -> Result<Place, ExecError> {
    let given: ParsedCursor = cursor.parse()?;
    match given.cursor {
        Cursor::Bytes(offset) => Ok(Place { offset, given }),
        Cursor::Line(_) => Err(ExecError::CountsLines),
    }
}

fn filter(args: &mut Args) -> Result<Filter, ExecError> {
    match (args.text("grep")?, args.text("json_path")?) {
        (None, None) => Ok(Filter::None),
        (Some(pattern), None) => Ok(Filter::Grep(Pattern::new(&pattern)?)),
        (None, Some(expression)) => {
            query::check(&expression)?;
            Ok(Filter::Query(expression))
        }
        (Some(_), Some(_)) => {
            Err(ArgError::Conflict("give `grep` or `json_path`, not both").into())
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn wish(given: Value) -> Result<Wish, ExecError> {
        Wish::read(given.as_object().cloned().unwrap_or_default(), 1 << 20)
    }

    #[test]
    fn the_defaults_are_those_of_the_document() {
        let wish = wish(json!({"cmd": "ls", "args": ["-la"], "page": null})).unwrap();
        assert_eq!(wish.limits, Limits { bytes: 65_536, lines: 2000 });
        assert_eq!(wish.large, Large::Spill);
        assert_eq!(wish.style, Style { escapes: Escapes::Strip, newline: Newline::Lf });
        assert!(wish.cursor.is_none() && wish.wants_mime && !wish.wants_summary);
    }

    #[test]
    fn the_order_of_variables_does_not_matter() {
        let env = |text: &str| wish(serde_json::from_str(text).unwrap()).unwrap().submission.env;
        let one = env(r#"{"cmd": "ls", "env": {"B": "2", "A": "1"}}"#);
        assert_eq!(one, env(r#"{"cmd": "ls", "env": {"A": "1", "B": "2"}}"#));
    }

    #[test]
    fn what_cannot_be_done_is_said_before_anything_runs() {
        for (given, said) in [
            (json!({"page": {}}), "`cmd`"),
            (json!({"cmd": "x", "page": 7}), "`page`"),
            (json!({"cmd": "x", "page": {"curser": "bytes:1"}}), "did you mean `cursor`"),
            (json!({"cmd": "x", "page": {"cursor": "line:2"}}), "counts bytes"),
            (json!({"cmd": "x", "page": {"limit_bytes": 3}}), "from 4 to 1048576"),
            (json!({"cmd": "x", "page": {"limit_lines": 0}}), "`limit_lines`"),
            (json!({"cmd": "x", "on_large_output": "explode"}), "spill, truncate, error"),
            (json!({"cmd": "x", "grep": "("}), "regular expression"),
            (json!({"cmd": "x", "json_path": "a["}), "JMESPath"),
            (json!({"cmd": "x", "json_path": "a", "grep": "a"}), "not both"),
            (json!({"cmd": "x", "zip": true, "on_large_output": "error"}), "`zip`"),
            (json!({"cmd": "x", "newline": "cr"}), "`newline`"),
        ] {
            let error = wish(given.clone()).unwrap_err().to_string();
            assert!(error.contains(said), "{given}: {error}");
        }
    }
}
