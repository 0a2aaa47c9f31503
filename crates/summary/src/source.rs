//! Lines that name their source: the step of an image build, or a container.

/// The prefix of a line that names its source.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SourcePrefix<'a> {
    pub(crate) source: &'a str,
    /// The length of the prefix.
    pub(crate) bytes: usize,
}

/// Finds the prefix that an image builder puts before each line of a step (`#9 12.34 `, or `12.34 `
/// where it tells the step again), or that docker compose puts before each line of a container
/// (`web-1  | `).
pub(crate) fn find_source(text: &str) -> Option<SourcePrefix<'_>> {
    let (source, rest) = text.split_once(' ')?;
    let prefix = |source, inner: &'_ str| SourcePrefix { source, bytes: text.len() - inner.len() };
    if let Some(step) = source.strip_prefix('#') {
        let (seconds, inner) = rest.split_once(' ')?;
        let is_step = is_digits(step) && is_seconds(seconds);
        return is_step.then(|| prefix(source, inner));
    }
    if is_seconds(source) {
        return Some(prefix("", rest));
    }
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    let (_, number) = source.rsplit_once(['-', '_'])?;
    let after = rest.trim_start_matches(' ').strip_prefix('|')?;
    let is_container = source.bytes().all(is_name) && is_digits(number);
    is_container.then(|| prefix(source, after.strip_prefix(' ').unwrap_or(after)))
}

fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// `true` for a time as BuildKit writes it: `12.34`.
fn is_seconds(text: &str) -> bool {
    text.split_once('.').is_some_and(|(whole, part)| is_digits(whole) && is_digits(part))
}
