//! From the bytes of a page to the text that is shown.

use std::hint::black_box;

use criterion::{Criterion, Throughput};
use shellyard::mcp::ParsedCursor;
use shellyard::output::redaction::Redactor;
use shellyard::output::views::{ViewOptions, render_text};

const PAGE: usize = 16 << 10;

pub(crate) fn bench(criterion: &mut Criterion) {
    let pages = [
        ("plain", page("2026-01-01 INFO request 00042 took 1234 us on worker-7\n")),
        (
            "colours",
            page("\x1b[1m\x1b[32m   Compiling\x1b[0m serde v1.0.229 (\x1b[2m/src\x1b[0m)\n"),
        ),
        ("carriage returns", page("downloading  10 %\rdownloading  55 %\rdownloading 100 %\n")),
    ];
    let mut group = criterion.benchmark_group("view of 16 KiB");
    group.throughput(Throughput::Bytes(PAGE as u64));
    for (name, page) in &pages {
        group.bench_function(*name, |bencher| {
            bencher.iter(|| render_text(black_box(page), ViewOptions::default()));
        });
    }
    group.finish();
    mask(criterion);
    criterion.bench_function("cursor, parsed", |bencher| {
        bencher.iter(|| black_box("job:17:bytes:123456789").parse::<ParsedCursor>());
    });
}

/// Looking for secrets where there are none, where names of secrets stand, and where there is one.
fn mask(criterion: &mut Criterion) {
    let redactor = Redactor::with_known_secrets(&[]).expect("our own patterns can be read");
    let pages = [
        ("plain", page("2026-01-01 INFO request 00042 took 1234 us on worker-7\n")),
        ("code", page("    let password = config.password.clone().or_else(prompt_password);\n")),
        ("secrets", page("connecting to postgres://me:hunter2@db/app with password=hunter2\n")),
    ];
    let mut group = criterion.benchmark_group("masking of 16 KiB");
    group.throughput(Throughput::Bytes(PAGE as u64));
    for (name, page) in &pages {
        group.bench_function(*name, |bencher| {
            bencher.iter(|| redactor.mask_bytes(black_box(page)).len());
        });
    }
    group.finish();
}

/// Lines like this one, each with its number so that none repeats.
fn page(line: &str) -> Vec<u8> {
    let mut page = Vec::with_capacity(PAGE + line.len());
    for number in 0.. {
        if page.len() >= PAGE {
            break;
        }
        page.extend_from_slice(format!("{number} {line}").as_bytes());
    }
    page.truncate(PAGE);
    page
}
