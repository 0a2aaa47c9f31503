//! Views: any bytes as text.

use shellyard_output::views::{
    Ansi, Charset, Fold, LongLines, ViewOptions, hexdump, is_binary, mime, render_text,
    render_text_in,
};

use super::mutation::{Plan, Seeds};

const ANSI: [Ansi; 3] = [Ansi::Strip, Ansi::StripLines, Ansi::Keep];
const LONG: [LongLines; 3] = [LongLines::Cut, LongLines::KeepFirst, LongLines::Keep];

fn check(bytes: &[u8]) {
    for ansi in ANSI {
        for fold in [Fold::Repeats, Fold::Off] {
            for long in LONG {
                let options = ViewOptions { ansi, fold, long };
                let view = render_text_in(bytes, Charset::detect(bytes), options);
                assert!(view.bad_bytes <= bytes.len(), "{options:?}");
                check_utf8(bytes, options);
            }
        }
    }
    check_unchanged(bytes);
    // A row for 16 bytes, and a last one with the offset of the end.
    let rows = bytes.len().div_ceil(16) + usize::from(!bytes.is_empty());
    assert_eq!(hexdump(bytes).lines().count(), rows, "{bytes:?}");
    let _ = (is_binary(bytes), mime(bytes));
}

fn check_utf8(bytes: &[u8], options: ViewOptions) {
    let view = render_text(bytes, options);
    let is_text = std::str::from_utf8(bytes).is_ok() && !bytes.contains(&0);
    assert_eq!(view.bad_bytes == 0, is_text, "{options:?}: {bytes:?}");
    let newlines = bytes.iter().filter(|byte| **byte == b'\n').count();
    let open = usize::from(bytes.last().is_some_and(|last| *last != b'\n'));
    assert_eq!(view.lines, newlines + open, "{options:?}: {bytes:?}");
    if options.ansi == Ansi::StripLines {
        assert!(!view.text.contains('\u{1b}'), "{options:?}: {:?}", view.text);
    }
}

/// Text without control characters is shown as it is by a view that keeps everything.
fn check_unchanged(bytes: &[u8]) {
    let options = ViewOptions { ansi: Ansi::Keep, fold: Fold::Off, long: LongLines::Keep };
    let is_plain = |c: char| c == '\n' || c == '\t' || !c.is_control();
    if let Ok(text) = std::str::from_utf8(bytes)
        && text.chars().all(is_plain)
    {
        assert_eq!(render_text(bytes, options).text, text);
    }
}

#[test]
fn any_bytes_are_shown_as_text() {
    let seeds = Seeds::load("views");
    seeds.iter().for_each(check);
    bolero::check!().with_iterations(1_500).for_each(|plan: &[u8]| {
        check(&seeds.mutate(&mut Plan::new(plan)));
    });
}
