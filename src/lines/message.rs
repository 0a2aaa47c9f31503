//! The input of a client: lines with one message each and, in its request to upgrade a connection, its
//! environment.
//!
//! An environment is sent as entries that each end in a NUL byte: `NAME=VALUE` is a variable, and
//! `NAME` alone a variable that the client has but does not send.

use std::ffi::OsString;
use std::fmt;
use std::io;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};

use memchr::memmem;
use rmcp::model::{
    CallToolRequest, ClientJsonRpcMessage, ClientNotification, ClientRequest, ErrorCode, ErrorData,
    InitializedNotification, JsonRpcMessage, JsonRpcRequest, RequestId,
};
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::{Value, json};
use thiserror::Error;
use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};

/// The length limit of a message.
pub const MAX_LINE_BYTES: usize = 16 * 1024 * 1024;

/// A line without its newline.
#[derive(Debug)]
pub enum InputLine {
    Whole(Vec<u8>),
    /// The two ends of a line that exceeds the limit.
    TooLong(OversizeLine),
}

impl InputLine {
    #[must_use]
    pub fn decode(&self) -> DecodedMessage {
        match self {
            Self::Whole(line) => decode(line),
            Self::TooLong(ends) => DecodedMessage::Faulty(too_long_error(), ends.id()),
        }
    }

    const fn is_empty(&self) -> bool {
        matches!(self, Self::Whole(line) if line.is_empty())
    }

    /// Appends the next part. Of an oversize line only the ends are kept.
    fn with(self, part: &[u8]) -> Self {
        match self {
            Self::Whole(mut line) if line.len() + part.len() <= MAX_LINE_BYTES => {
                line.extend_from_slice(part);
                Self::Whole(line)
            }
            Self::Whole(line) => Self::TooLong(OversizeLine::new(&line)).with(part),
            Self::TooLong(mut ends) => {
                ends.push(part);
                Self::TooLong(ends)
            }
        }
    }
}

/// Reads the next line; the last one may lack a newline. `None` at the end of input.
///
/// # Errors
/// When the input breaks off.
pub async fn read_line<R: AsyncRead + Unpin>(
    input: &mut BufReader<R>,
) -> io::Result<Option<InputLine>> {
    let mut read = InputLine::Whole(Vec::new());
    loop {
        let available = input.fill_buf().await?;
        if available.is_empty() {
            return Ok((!read.is_empty()).then_some(read));
        }
        let newline = memchr::memchr(b'\n', available);
        let part = &available[..newline.unwrap_or(available.len())];
        read = read.with(part);
        let used = part.len() + usize::from(newline.is_some());
        input.consume(used);
        if newline.is_some() {
            return Ok(Some(read));
        }
    }
}

/// The content of a line.
#[derive(Debug)]
pub enum DecodedMessage {
    Message(Box<ClientJsonRpcMessage>),
    /// Nothing that expects an answer.
    Nothing,
    /// Not a message; the id is set if one could be found.
    Faulty(ErrorData, Option<RequestId>),
}

/// Removes a byte order mark and white space, which some clients put around a line.
#[must_use]
pub fn trim_line(line: &[u8]) -> &[u8] {
    line.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(line).trim_ascii()
}

fn decode(line: &[u8]) -> DecodedMessage {
    let line = trim_line(line);
    // A session that is pasted by hand has comments between its messages; no message starts with
    // `#`.
    if line.is_empty() || line.starts_with(b"#") {
        return DecodedMessage::Nothing;
    }
    decode_message(line)
}

/// Decodes a text that must be one message: unlike a line, it may not be a comment.
#[must_use]
pub fn decode_message(text: &[u8]) -> DecodedMessage {
    if let Some(call) = decode_tool_call(text) {
        return DecodedMessage::Message(Box::new(call));
    }
    if let Ok(message) = serde_json::from_slice(text) {
        return DecodedMessage::Message(Box::new(expand_method(message)));
    }
    match serde_json::from_slice::<Value>(text) {
        Err(error) => {
            let why = format!("this is not JSON that can be read: {error}");
            // JSON that is nested too deeply is still JSON, and its sender waits for an answer.
            DecodedMessage::Faulty(
                ErrorData::new(ErrorCode::PARSE_ERROR, why, None),
                find_id_near_ends(text),
            )
        }
        // A notification gets no answer, not even an error.
        Ok(value) if value.get("method").is_some() && value.get("id").is_none() => {
            DecodedMessage::Nothing
        }
        Ok(value) => {
            let id = value.get("id").and_then(|id| serde_json::from_value(id.clone()).ok());
            DecodedMessage::Faulty(describe_fault(&value, id.as_ref()), id)
        }
    }
}

/// Decodes a tool call, which most messages are. Finding that out among all message types takes as
/// long as the rest of the work on a message.
fn decode_tool_call(text: &[u8]) -> Option<ClientJsonRpcMessage> {
    memmem::find(text, br#""tools/call""#)?;
    // A message that is also a reply is neither; the general path refuses it.
    if [&br#""result""#[..], br#""error""#].iter().any(|it| memmem::find(text, it).is_some()) {
        return None;
    }
    let JsonRpcRequest { jsonrpc, id, request } =
        serde_json::from_slice::<JsonRpcRequest<CallToolRequest>>(text).ok()?;
    let request = ClientRequest::CallToolRequest(request);
    Some(JsonRpcMessage::Request(JsonRpcRequest { jsonrpc, id, request }))
}

/// The id of a message if it is near one of its ends. Costs little, whatever the length.
#[must_use]
pub fn find_id_near_ends(message: &[u8]) -> Option<RequestId> {
    message.trim_ascii_start().starts_with(b"{").then(|| OversizeLine::new(message).id()).flatten()
}

/// Describes why JSON is not a message.
fn describe_fault(value: &Value, id: Option<&RequestId>) -> ErrorData {
    let is_request = value["jsonrpc"] == "2.0" && value["method"].is_string() && id.is_some();
    let has_odd_params = value.get("params").is_some_and(|params| !params.is_object());
    if value.is_array() {
        let why = "this is a batch, which MCP has no longer; send each message by itself";
        ErrorData::invalid_request(why, None)
    } else if is_request && has_odd_params {
        ErrorData::invalid_params("params must be an object", None)
    } else {
        ErrorData::invalid_request("this is not a JSON-RPC 2.0 message", None)
    }
}

/// Expands `initialized` to `notifications/initialized`: some clients send the short form.
fn expand_method(mut message: ClientJsonRpcMessage) -> ClientJsonRpcMessage {
    if let JsonRpcMessage::Notification(notification) = &mut message
        && let ClientNotification::CustomNotification(custom) = &notification.notification
        && custom.method == "initialized"
    {
        notification.notification = InitializedNotification::default().into();
    }
    message
}

fn too_long_error() -> ErrorData {
    let text = format!(
        "the message is longer than {MAX_LINE_BYTES} bytes; write large input to a file and name that"
    );
    ErrorData::invalid_request(text, None)
}

/// The code that MCP SDKs use for a closed connection.
const CONNECTION_CLOSED: ErrorCode = ErrorCode(-32000);

/// The error of a call that was in flight when its server ended.
#[must_use]
pub fn server_lost_error() -> ErrorData {
    let text = "the server was lost while this call was in flight; a job that it had started may go \
                on: look at list_jobs before running it again";
    connection_error(text.to_owned(), "server_lost")
}

/// An error of the connection, with its code word.
#[must_use]
pub fn connection_error(text: String, word: &str) -> ErrorData {
    ErrorData::new(CONNECTION_CLOSED, text, Some(json!({"code": word})))
}

// Finds the id of an oversize message, so that its sender can be answered.

/// The number of bytes of each end that are kept to look for the id.
const KEPT_BYTES: usize = 64 * 1024;

/// The number of candidates in the tail that are tried, so that no line costs much.
const MAX_TRIED: usize = 64;

/// The two ends of an oversize line.
#[derive(Debug)]
pub struct OversizeLine {
    head: Vec<u8>,
    tail: Vec<u8>,
}

impl OversizeLine {
    /// Starts with everything that was read of the line so far.
    fn new(line: &[u8]) -> Self {
        let head = line[..line.len().min(KEPT_BYTES)].to_vec();
        Self { head, tail: last_bytes(line).to_vec() }
    }

    /// Appends the next part of the line. Keeps at most twice what is needed.
    fn push(&mut self, part: &[u8]) {
        self.tail.extend_from_slice(last_bytes(part));
        if self.tail.len() > 2 * KEPT_BYTES {
            self.tail = last_bytes(&self.tail).to_vec();
        }
    }

    /// The id of the message if it is near one of its ends.
    #[must_use]
    pub fn id(&self) -> Option<RequestId> {
        find_id_in_head(&self.head).or_else(|| find_id_in_tail(&self.tail))
    }
}

fn last_bytes(bytes: &[u8]) -> &[u8] {
    &bytes[bytes.len().saturating_sub(KEPT_BYTES)..]
}

/// The top-level `id` of an object of which only the beginning is available.
fn find_id_in_head(head: &[u8]) -> Option<RequestId> {
    let mut found = None;
    // The object breaks off sooner or later: only what was found before counts.
    FindId(&mut found).deserialize(&mut serde_json::Deserializer::from_slice(head)).ok();
    found
}

struct FindId<'a>(&'a mut Option<RequestId>);

impl<'de> DeserializeSeed<'de> for FindId<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for FindId<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<String>()? {
            if key != "id" {
                map.next_value::<IgnoredAny>()?;
                continue;
            }
            let id = map.next_value()?;
            // A number at the very end may be cut in two: something must follow it.
            map.next_key::<IgnoredAny>()?;
            *self.0 = Some(id);
            return Ok(());
        }
        Ok(())
    }
}

/// The top-level `id` of an object of which only the end is available: the text from the id on must
/// be the rest of one object.
fn find_id_in_tail(tail: &[u8]) -> Option<RequestId> {
    let places = memmem::rfind_iter(tail, b"\"id\"").take(MAX_TRIED);
    places.filter(|place| *place == 0 || tail[place - 1] != b'\\').find_map(|place| {
        let rest = [b"{", &tail[place..]].concat();
        let mut rest: Value = serde_json::from_slice(&rest).ok()?;
        serde_json::from_value(rest.get_mut("id")?.take()).ok()
    })
}

/// The most bytes of an encoded environment: much more than a shell usually has.
const MAX_ENVIRONMENT_BYTES: usize = 256 * 1024;

/// The environment of a client.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ClientEnvironment {
    pub variables: Vec<(OsString, OsString)>,
    /// The names of variables that the client's own settings withhold from jobs.
    pub withheld: Vec<String>,
}

/// An encoded environment, and the variables that it has no room for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EncodedEnvironment {
    pub bytes: Vec<u8>,
    pub left_out: Vec<OsString>,
}

/// Encodes an environment. If it is too large, its largest variables are left out.
#[must_use]
pub fn encode_environment(environment: ClientEnvironment) -> EncodedEnvironment {
    let ClientEnvironment { mut variables, withheld } = environment;
    let names: usize = withheld.iter().map(|name| name.len() + b"\0".len()).sum();
    let mut left_out = Vec::new();
    while variables.iter().map(entry_size).sum::<usize>() + names > MAX_ENVIRONMENT_BYTES
        && let Some(largest) = (0..variables.len()).max_by_key(|at| entry_size(&variables[*at]))
    {
        left_out.push(variables.remove(largest).0);
    }
    let mut bytes = Vec::new();
    for (name, value) in &variables {
        for part in [name.as_bytes(), b"=", value.as_bytes(), b"\0"] {
            bytes.extend_from_slice(part);
        }
    }
    for name in &withheld {
        bytes.extend_from_slice(name.as_bytes());
        bytes.push(0);
    }
    EncodedEnvironment { bytes, left_out }
}

fn entry_size((name, value): &(OsString, OsString)) -> usize {
    name.len() + value.len() + b"=\0".len()
}

/// The error for bytes that are no environment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum EnvironmentError {
    #[error(
        "environment_too_large: a client may send at most {MAX_ENVIRONMENT_BYTES} bytes of environment variables; leave some out (environment.drop)"
    )]
    TooLarge,
    #[error(
        "bad_environment: an environment is sent as NAME=VALUE entries that each end in a NUL byte"
    )]
    Malformed,
}

/// Decodes an environment.
///
/// # Errors
/// When it is too large, or an entry has no name or no end.
pub fn decode_environment(bytes: &[u8]) -> Result<ClientEnvironment, EnvironmentError> {
    let mut environment = ClientEnvironment::default();
    if bytes.is_empty() {
        return Ok(environment);
    }
    if bytes.len() > MAX_ENVIRONMENT_BYTES {
        return Err(EnvironmentError::TooLarge);
    }
    let entries = bytes.strip_suffix(b"\0").ok_or(EnvironmentError::Malformed)?;
    for entry in entries.split(|byte| *byte == 0) {
        match entry.iter().position(|byte| *byte == b'=').unwrap_or(entry.len()) {
            0 => return Err(EnvironmentError::Malformed),
            end if end == entry.len() => {
                environment.withheld.push(String::from_utf8_lossy(entry).into_owned());
            }
            end => {
                let name = OsString::from_vec(entry[..end].to_vec());
                let value = OsString::from_vec(entry[end + 1..].to_vec());
                environment.variables.push((name, value));
            }
        }
    }
    Ok(environment)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn method(line: &str) -> Option<String> {
        match decode(line.as_bytes()) {
            DecodedMessage::Message(message) => {
                let message = serde_json::to_value(&*message).unwrap();
                Some(message["method"].as_str().unwrap().to_owned())
            }
            DecodedMessage::Nothing => None,
            DecodedMessage::Faulty(error, _) => panic!("{line}: {error:?}"),
        }
    }

    #[test]
    fn the_short_form_of_initialized_means_the_long_one() {
        for (given, expected) in [
            ("initialized", "notifications/initialized"),
            ("notifications/initialized", "notifications/initialized"),
            ("initialised", "initialised"),
        ] {
            let line = format!(r#"{{"jsonrpc":"2.0","method":"{given}"}}"#);
            assert_eq!(method(&line).as_deref(), Some(expected));
        }
    }

    #[test]
    fn a_tool_call_decodes_the_same_on_the_fast_and_the_general_path() {
        let call = r#""method":"tools/call","params":{"name":"run_command","arguments":{"command":"x"},"_meta":{"progressToken":5}}"#;
        for id in ["7", r#""seven""#, "-1"] {
            let line = format!(r#"{{"jsonrpc":"2.0","id":{id},{call}}}"#);
            let short = serde_json::to_value(decode_tool_call(line.as_bytes()).unwrap()).unwrap();
            let general: ClientJsonRpcMessage = serde_json::from_str(&line).unwrap();
            assert_eq!(short, serde_json::to_value(general).unwrap(), "{line}");
        }
        for member in [r#""result":{}"#, r#""error":{"code":1,"message":"x"}"#] {
            let line = format!(r#"{{"jsonrpc":"2.0","id":7,{call},{member}}}"#);
            assert_eq!(fault_of(&line), (-32600, Some(RequestId::Number(7))), "{line}");
        }
        for line in ["{}", r#""tools/call""#, r#"{"jsonrpc":"2.0","id":7,"method":"tools/call"}"#] {
            assert!(decode_tool_call(line.as_bytes()).is_none(), "{line}");
        }
    }

    #[test]
    fn comments_and_empty_lines_are_ignored() {
        for line in ["", "  \t", "# List tools:", "  # {\"jsonrpc\":\"2.0\"}", "\u{feff}#"] {
            assert_eq!(method(line), None, "{line:?}");
        }
    }

    #[track_caller]
    fn fault_of(line: &str) -> (i32, Option<RequestId>) {
        match decode(line.as_bytes()) {
            DecodedMessage::Faulty(error, id) => (error.code.0, id),
            other @ (DecodedMessage::Message(_) | DecodedMessage::Nothing) => {
                panic!("{line}: {other:?}")
            }
        }
    }

    #[test]
    fn faulty_messages_get_their_code_and_id() {
        let seven = || Some(RequestId::Number(7));
        for params in ["[1]", r#""x""#, "5", "true"] {
            let line = format!(r#"{{"jsonrpc":"2.0","id":7,"method":"ping","params":{params}}}"#);
            assert_eq!(fault_of(&line), (-32602, seven()), "{line}");
        }
        for (line, code, id) in [
            (r#"[{"jsonrpc":"2.0","id":7,"method":"ping"}]"#, -32600, None),
            (r#"{"jsonrpc":"1.0","id":7,"method":"ping"}"#, -32600, seven()),
            (r#"{"jsonrpc":"2.0","id":{},"method":"ping"}"#, -32600, None),
            (r#"{"jsonrpc":"2.0","id":7,"method":5,"params":5}"#, -32600, seven()),
            (r#"{"jsonrpc":"2.0","id":7,"method":"ping""#, -32700, seven()),
            (r#"{"jsonrpc":"2.0","#, -32700, None),
            ("5", -32600, None),
        ] {
            assert_eq!(fault_of(line), (code, id), "{line}");
        }
    }

    fn id_of(line: &str) -> Option<RequestId> {
        let mut oversize = OversizeLine::new(&line.as_bytes()[..line.len() / 3]);
        line.as_bytes()[line.len() / 3..].chunks(8 * 1024).for_each(|part| oversize.push(part));
        assert!(oversize.head.len() + oversize.tail.len() <= 3 * KEPT_BYTES);
        oversize.id()
    }

    fn number(id: i64) -> Option<RequestId> {
        Some(RequestId::Number(id))
    }

    #[test]
    fn an_id_is_found_near_either_end() {
        let long = "x".repeat(10 * KEPT_BYTES);
        let params = format!(r#""params":{{"id":5,"a":"{long}","b":{{"id":6}}}}"#);
        assert_eq!(id_of(&format!(r#"{{"jsonrpc":"2.0","id":7,{params}}}"#)), number(7));
        assert_eq!(id_of(&format!(r#"{{{params}, "id" : 8 ,"method":"x"}}"#)), number(8));
        let text = RequestId::String("nine".into());
        assert_eq!(id_of(&format!(r#"{{"id":"nine",{params}}}"#)), Some(text));
    }

    #[test]
    fn an_id_inside_params_is_not_the_id_of_the_message() {
        let long = "x".repeat(10 * KEPT_BYTES);
        assert_eq!(id_of(&format!(r#"{{"params":{{"id":5,"a":"{long}","b":{{"id":6}}}}}}"#)), None);
        assert_eq!(id_of(&format!(r#"{{"params":{{"a":"{long}\"id\":5}}"}}}}"#)), None);
        assert_eq!(id_of(&format!(r#"{{"a":["{long}","id"]}}"#)), None);
        assert_eq!(id_of(&long), None);
    }

    #[test]
    fn a_truncated_id_is_ignored() {
        let head = format!(r#"{{"a":"{}","id":12"#, "x".repeat(100));
        assert_eq!(find_id_in_head(head.as_bytes()), None);
        assert_eq!(find_id_in_head(format!("{head},\"b\":1").as_bytes()), number(12));
    }

    fn pair(name: &str, value: &str) -> (OsString, OsString) {
        (name.into(), value.into())
    }

    #[test]
    fn an_environment_that_is_too_large_loses_its_largest_variables() {
        let large = "x".repeat(MAX_ENVIRONMENT_BYTES / 2);
        let variables =
            vec![pair("A", &large), pair("PATH", "/bin"), pair("B", &large), pair("HOME", "/h")];
        let withheld = vec!["API_KEY".to_owned()];
        let given = ClientEnvironment { variables: variables.clone(), withheld: withheld.clone() };
        let encoded = encode_environment(given);
        assert_eq!(encoded.left_out.len(), 1, "the other one fits");
        let decoded = decode_environment(&encoded.bytes).unwrap();
        assert_eq!(decoded.withheld, withheld);
        let kept = decoded.variables;
        assert_eq!(kept.len(), 3);
        assert!(kept.contains(&variables[1]) && kept.contains(&variables[3]));
    }

    #[test]
    fn bytes_that_are_no_environment_are_refused() {
        assert_eq!(decode_environment(b""), Ok(ClientEnvironment::default()));
        let expected =
            ClientEnvironment { variables: vec![pair("A", "")], withheld: vec!["B".to_owned()] };
        assert_eq!(decode_environment(b"A=\0B\0"), Ok(expected));
        for bytes in [&b"A=1"[..], b"A", b"=1\0", b"\0", b"A=1\0\0"] {
            assert_eq!(decode_environment(bytes), Err(EnvironmentError::Malformed), "{bytes:?}");
        }
        let large = vec![b'A'; MAX_ENVIRONMENT_BYTES + 1];
        assert_eq!(decode_environment(&large), Err(EnvironmentError::TooLarge));
    }

    proptest! {
        #[test]
        fn an_environment_is_decoded_as_it_was_encoded(
            variables in prop::collection::vec(("[A-Za-z_]{1,8}", "[^\0]{0,20}"), 0..12),
            withheld in prop::collection::vec("[A-Za-z_]{1,8}", 0..4),
        ) {
            let variables = variables.iter().map(|(name, value)| pair(name, value)).collect();
            let environment = ClientEnvironment { variables, withheld };
            let encoded = encode_environment(environment.clone());
            prop_assert_eq!(encoded.left_out, Vec::<OsString>::new());
            prop_assert_eq!(decode_environment(&encoded.bytes), Ok(environment));
        }
    }
}
