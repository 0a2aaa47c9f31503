//! Benchmarks of counting lines by template, beside a plain hash of the same lines.

use std::hint::black_box;
use std::time::{Duration, Instant};

use criterion::{Criterion, Throughput};
use shellyard_summary::TemplateTable;

const BYTES: usize = 8 << 20;

/// Ordinary logs, and the worst cases: each line a new template, very long lines, other alphabets.
pub(crate) fn bench(criterion: &mut Criterion) {
    let logs = [
        ("service log", log(service_line)),
        ("access log", log(access_line)),
        ("listing of words", log(listing_line)),
        ("prose", log(|number| (0..12).map(|index| word(number * 12 + index) + " ").collect())),
        ("lines of 4 KiB", log(|number| format!("{number} {}", service_line(number).repeat(37)))),
        (
            "other alphabets",
            log(|number| format!("строка {number}: 処理が完了しました {number} 件")),
        ),
    ];
    let mut group = criterion.benchmark_group("templates of 8 MiB");
    group.sample_size(10).throughput(Throughput::Bytes(BYTES as u64));
    for (name, log) in &logs {
        group.bench_function(*name, |bencher| bencher.iter(|| count_templates(log)));
    }
    group.bench_function("floor: a hash of each line", |bencher| {
        bencher.iter(|| hash_lines(&logs[0].1));
    });
    group.finish();
    for (name, log) in &logs {
        let floor = shortest(|| hash_lines(log));
        let own = shortest(|| count_templates(log));
        let rate = BYTES as f64 / own.as_secs_f64() / 1e6;
        let ratio = own.as_secs_f64() / floor.as_secs_f64();
        eprintln!("templates, {name}: {rate:.0} MB/s, {ratio:.1} times a hash of each line");
    }
}

fn count_templates(log: &str) -> u64 {
    let mut table = TemplateTable::new();
    (1..).zip(log.lines()).map(|(number, line)| table.count(number, line).count()).sum()
}

/// FNV-1a, the floor: each byte is read once.
fn hash_lines(log: &str) -> u64 {
    let hash = |line: &str| {
        line.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        })
    };
    log.lines().map(hash).fold(0, u64::wrapping_add)
}

/// The shortest of a few runs: the others were disturbed.
fn shortest(run: impl Fn() -> u64) -> Duration {
    let measure = |_| {
        let start = Instant::now();
        black_box(run());
        start.elapsed()
    };
    (0..5).map(measure).min().unwrap_or_default()
}

fn log(line: impl Fn(usize) -> String) -> String {
    let mut log = String::with_capacity(BYTES + 8192);
    for number in 0.. {
        if log.len() >= BYTES {
            break;
        }
        log.push_str(&line(number));
        log.push('\n');
    }
    log.truncate(log.floor_char_boundary(BYTES));
    log
}

fn service_line(number: usize) -> String {
    let seconds = number / 1000 % 60;
    let level = ["INFO ", "INFO ", "DEBUG", "WARN "][number % 4];
    format!(
        "2026-03-14T00:28:{seconds:02}.{:03}Z {level} [http-{}] node-3 http: GET /api/users/{number} \
         took {} ms req={number:08x}",
        number % 1000,
        number % 8,
        number * 7919 % 907
    )
}

fn access_line(number: usize) -> String {
    format!(
        "10.0.{}.{} - - [14/Mar/2026:10:00:{:02} +0000] \"GET /shop/{} HTTP/1.1\" 200 {} \"-\" \
         \"Mozilla/5.0 (X11; Linux x86_64)\"",
        number % 251,
        number % 241,
        number % 60,
        word(number),
        number * 7919 % 10_007
    )
}

fn listing_line(number: usize) -> String {
    format!("-rw-r--r-- 1 app app {:9} Mar 14 10:00 {}", number * 7919 % 10_007, word(number))
}

/// A word of its own for each number.
fn word(number: usize) -> String {
    let syllables = ["ka", "lo", "mi", "nu", "pe", "ri", "so", "ta"];
    (0..7).map(|index| syllables[number.wrapping_mul(0x9e37_79b1) >> (3 * index) & 7]).collect()
}
