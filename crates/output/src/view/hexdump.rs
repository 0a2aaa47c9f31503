//! Bytes in the classic form of `hexdump -C`.

use std::fmt::Write as _;

/// Bytes in one row.
const ROW: usize = 16;

/// Bytes as `hexdump -C` shows them, without squeezing equal rows, counted from 0.
#[must_use]
pub fn hexdump(bytes: &[u8]) -> String {
    dump(&[(0, bytes)])
}

/// The same for stretches of a log, each from its own offset on. The last row is the offset after
/// them; each stretch starts a row of its own, so that every row's offset is true.
#[must_use]
pub fn dump(stretches: &[(u64, impl AsRef<[u8]>)]) -> String {
    let mut dump = String::new();
    let mut end = None;
    for (start, bytes) in stretches {
        let mut offset = *start;
        for row in bytes.as_ref().chunks(ROW) {
            let hex: String = (0..ROW).map(|column| hex_cell(row, column)).collect();
            let ascii: String = row.iter().map(|byte| printable(*byte)).collect();
            // Writing to a string cannot fail.
            writeln!(dump, "{offset:08x} {hex} |{ascii}|").ok();
            offset += row.len() as u64;
            end = Some(offset);
        }
    }
    if let Some(end) = end {
        writeln!(dump, "{end:08x}").ok();
    }
    dump
}

fn hex_cell(row: &[u8], column: usize) -> String {
    let gap = if column.is_multiple_of(8) { " " } else { "" };
    row.get(column).map_or_else(|| format!("{gap}   "), |byte| format!("{gap}{byte:02x} "))
}

fn printable(byte: u8) -> char {
    if byte.is_ascii_graphic() || byte == b' ' { char::from(byte) } else { '.' }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PNG: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\x06\0\0\0";

    #[test]
    fn a_hexdump_has_the_classic_form() {
        let expected = "\
00000000  89 50 4e 47 0d 0a 1a 0a  00 00 00 0d 49 48 44 52  |.PNG........IHDR|
00000010  00 00 00 01 00 00 00 01  08 06 00 00 00           |.............|
0000001d
";
        assert_eq!(hexdump(PNG), expected);
        assert_eq!(hexdump(b""), "");
    }

    #[test]
    fn offsets_are_those_of_the_log_in_each_stretch() {
        let dumped = dump(&[(5, b"abc".as_slice()), (0x1_0000_0000, b"0123456789abcdefg")]);
        let offsets: Vec<&str> =
            dumped.lines().map(|line| line.split(' ').next().unwrap()).collect();
        assert_eq!(offsets, ["00000005", "100000000", "100000010", "100000011"]);
    }
}
