//! `send_input`: sends text, a key press or the end of input to a running job.

use std::future::ready;
use std::time::Duration;

use super::call::ToolCall;
use super::call::wait_for;
use crate::mcp::args::{ArgError, Args};
use crate::mcp::reply::{ToolError, ToolReply, show_from};
use crate::mcp::schema::{ArgKind, ArgSpec, ToolEffect, ToolSpec};
use crate::service::{JobInput, KeyPress, StdinEnd};

/// The wait for output after the input.
const REACTION: Duration = Duration::from_millis(500);

const KEYS: [&str; 12] = [
    "ctrl_c",
    "ctrl_d",
    "ctrl_z",
    "ctrl_backslash",
    "enter",
    "tab",
    "escape",
    "up",
    "down",
    "left",
    "right",
    "backspace",
];

pub(in crate::mcp) const SPEC: ToolSpec = ToolSpec {
    name: "send_input",
    about: "Sends input to a running job: text (add \\n for Enter), then key, then the end of \
            input. Answers with what the job writes right after. It needs a job with \
            tty=true, or with wait_s=0 and no stdin.",
    effect: ToolEffect::Runs,
    fields: &[
        ArgSpec::required("job", ArgKind::Whole, ""),
        ArgSpec::optional("text", ArgKind::Text, ""),
        ArgSpec::optional("key", ArgKind::Choice(&KEYS), ""),
        ArgSpec::optional("eof", ArgKind::Flag, "End the input"),
    ],
};

pub(in crate::mcp) async fn call(
    call: ToolCall<'_>,
    mut args: Args,
) -> Result<ToolReply, ToolError> {
    let id = args.job("job")?.ok_or(ArgError::Conflict("`job` is needed"))?;
    let input = parse_input(args)?;
    let job = call.client.find(call.client.job_id(id)).await?;
    let before = job.output().progress().total_bytes;
    job.send_input(input).await?;
    wait_for(call, REACTION, job.output().wait_past(before), || ready(String::new())).await;
    let now = call.snapshot(&job).await;
    let mut fitter = call.fitter(&call.job_reply(&now, None));
    loop {
        let shown = show_from(&now, job.output(), before, fitter.excerpt_budget()).await?;
        if let Some(reply) = fitter.accept(call.job_reply(&now, Some(shown))) {
            return Ok(reply);
        }
    }
}

fn parse_input(mut args: Args) -> Result<JobInput, ArgError> {
    let text = args.text("text")?;
    let key = args.choice("key", &KEYS.map(|name| (name, KeyPress::from_name(name))))?.flatten();
    let end = if args.flag("eof")? { StdinEnd::Close } else { StdinEnd::KeepOpen };
    if text.is_none() && key.is_none() && end == StdinEnd::KeepOpen {
        return Err(ArgError::Conflict("nothing to send: give text, key or eof=true"));
    }
    Ok(JobInput { bytes: text.unwrap_or_default().into_bytes(), key, end })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn read(mut given: Value) -> Result<JobInput, ArgError> {
        given["job"] = 1.into();
        let mut args = Args::new(given.as_object().cloned(), SPEC.fields).unwrap();
        args.job("job").unwrap();
        parse_input(args)
    }

    #[test]
    fn the_schema_lists_all_keys() {
        assert_eq!(KEYS, KeyPress::names());
    }

    #[test]
    fn input_is_text_or_a_key_or_the_end_or_all_of_them() {
        let all = read(json!({"text": "y\n", "key": "enter", "eof": true})).unwrap();
        assert_eq!(all.bytes, b"y\n");
        assert_eq!((all.key, all.end), (Some(KeyPress::Enter), StdinEnd::Close));
        assert_eq!(read(json!({"key": "ctrl_c"})).unwrap().key, Some(KeyPress::CtrlC));
        assert!(read(json!({})).is_err());
        assert!(read(json!({"eof": false})).is_err());
        assert!(read(json!({"key": "ctrl_q"})).unwrap_err().to_string().contains("ctrl_c"));
    }
}
