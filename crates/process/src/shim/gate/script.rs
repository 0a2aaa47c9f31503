//! The first line of a script, as the kernel reads it.

/// The number of bytes at the start of a file in which the kernel looks for an interpreter.
pub(super) const HEADER_BYTES: usize = 256;

/// The interpreter that a script names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Interpreter {
    /// The path, relative to the directory of the process if it does not start with a slash.
    pub(super) path: Vec<u8>,
    /// Everything after the path, as one argument.
    pub(super) argument: Option<Vec<u8>>,
}

const fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t')
}

/// Parses the header of a file, padded with zeros; `None` if the kernel finds no interpreter in it.
///
/// Follows `load_script` of the kernel: the line may end with the header only if the path does not.
pub(super) fn parse_interpreter(header: &[u8; HEADER_BYTES]) -> Option<Interpreter> {
    let body = header.strip_prefix(b"#!")?;
    // The last byte is the kernel's own terminator.
    let body = body.get(..body.len() - 1)?;
    let is_end = |byte: &u8| matches!(byte, b'\n' | 0);
    let line = match header[2..].iter().position(is_end) {
        // Only a file that is shorter than the header has one: blanks before it are kept.
        Some(end) if header[2 + end] == 0 => &body[..end],
        Some(end) => trim_end(&body[..end]),
        None => {
            let path = body.iter().position(|byte| !is_blank(*byte))?;
            // Otherwise the path may be cut off.
            body[path..].iter().position(|byte| is_blank(*byte))?;
            trim_end(body)
        }
    };
    let start = line.iter().position(|byte| !is_blank(*byte))?;
    let line = &line[start..];
    let end = line.iter().position(|byte| is_blank(*byte)).unwrap_or(line.len());
    let (path, rest) = line.split_at(end);
    let argument =
        rest.iter().position(|byte| !is_blank(*byte)).map(|start| rest[start..].to_vec());
    Some(Interpreter { path: path.to_vec(), argument })
}

fn trim_end(line: &[u8]) -> &[u8] {
    let end = line.iter().rposition(|byte| !is_blank(*byte)).map_or(0, |last| last + 1);
    &line[..end]
}

/// Returns the arguments with which the kernel runs the interpreter of a script at `path`.
pub(super) fn interpreter_argv(
    interpreter: &Interpreter,
    path: &[u8],
    argv: &[Vec<u8>],
) -> Vec<Vec<u8>> {
    let first = [Some(interpreter.path.clone()), interpreter.argument.clone(), Some(path.to_vec())];
    first.into_iter().flatten().chain(argv.iter().skip(1).cloned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Option<(String, Option<String>)> {
        let mut header = [0; HEADER_BYTES];
        let length = text.len().min(HEADER_BYTES);
        header[..length].copy_from_slice(&text.as_bytes()[..length]);
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        parse_interpreter(&header).map(|it| (text(it.path), it.argument.map(text)))
    }

    #[test]
    fn the_interpreter_is_the_one_that_the_kernel_takes() {
        let some = |path: &str, argument: Option<&str>| {
            Some((path.to_owned(), argument.map(str::to_owned)))
        };
        let long = "x".repeat(300);
        for (header, expected) in [
            ("#!/bin/sh\necho", some("/bin/sh", None)),
            ("#!/bin/sh", some("/bin/sh", None)),
            ("#!/bin/sh -e ", some("/bin/sh", Some("-e "))),
            ("#! \t/bin/sh \t-e -x \t\nrest", some("/bin/sh", Some("-e -x"))),
            ("#!/usr/bin/env python3\n", some("/usr/bin/env", Some("python3"))),
            ("#!/bin/sh\r\n", some("/bin/sh\r", None)),
            ("#!sh\n", some("sh", None)),
            ("#!\n/bin/sh", None),
            ("#!   \n", None),
            ("#!", None),
            ("\x7fELF", None),
            ("# /bin/sh\n", None),
            (&format!("#!/{long}"), None),
            (&format!("#!/bin/sh {long}"), some("/bin/sh", Some(&long[..245]))),
        ] {
            assert_eq!(parse(header), expected, "{header:?}");
        }
    }

    #[test]
    fn the_arguments_of_the_interpreter_come_before_those_of_the_script() {
        let bytes =
            |words: &[&str]| words.iter().map(|it| it.as_bytes().to_vec()).collect::<Vec<_>>();
        let interpreter = Interpreter { path: b"/bin/sh".to_vec(), argument: Some(b"-e".to_vec()) };
        let argv = interpreter_argv(&interpreter, b"./x", &bytes(&["name", "a", "b"]));
        assert_eq!(argv, bytes(&["/bin/sh", "-e", "./x", "a", "b"]));
        let interpreter = Interpreter { argument: None, ..interpreter };
        assert_eq!(interpreter_argv(&interpreter, b"./x", &[]), bytes(&["/bin/sh", "./x"]));
    }
}
