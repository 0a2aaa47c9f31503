//! `/api/v1`: what jobs wrote, over plain HTTP.

use std::io::Read;
use std::thread;

use serde_json::Value;

use crate::harness::{HttpConnection, HttpRequest, Launch, TestServer, eventually, rss_kib, token};

/// A status, the headers and the whole body.
struct Fetched {
    status: u16,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

const HEADERS: [&str; 12] = [
    "accept-ranges",
    "allow",
    "content-disposition",
    "content-encoding",
    "content-length",
    "content-range",
    "content-security-policy",
    "content-type",
    "etag",
    "vary",
    "www-authenticate",
    "x-content-type-options",
];

impl Fetched {
    fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    #[track_caller]
    fn error_code(&self) -> String {
        let error: Value = serde_json::from_slice(&self.body).expect("JSON");
        assert!(!error["error"]["message"].as_str().expect("a message").is_empty());
        error["error"]["code"].as_str().expect("a code").to_owned()
    }
}

#[track_caller]
fn send(server: &mut TestServer, request: HttpRequest) -> Fetched {
    let address = server.http().address().to_owned();
    let is_head = request.method == "HEAD";
    let mut connection = HttpConnection::open(&address);
    connection.send(&request);
    let answer = connection.answer();
    let status = answer.status;
    let header = |name: &&str| Some(((*name).to_owned(), answer.header(name)?.to_owned()));
    let headers = HEADERS.iter().filter_map(header).collect();
    let body = if is_head { Vec::new() } else { answer.bytes() };
    Fetched { status, headers, body }
}

#[track_caller]
fn get(server: &mut TestServer, path: &str, headers: &[(&str, &str)]) -> Fetched {
    let request = HttpRequest::get(&format!("/api/v1/jobs{path}"));
    send(server, headers.iter().fold(request, |request, (name, value)| request.header(name, value)))
}

#[track_caller]
fn range(server: &mut TestServer, path: &str, range: &str) -> Fetched {
    get(server, path, &[("Range", range)])
}

#[test]
fn the_whole_output_arrives_as_it_was_written() {
    let mut server = Launch::http().structured().start();
    server.run_separate("printf 'one\\n\\033[1mtwo\\033[0m\\r\\n'");
    let whole = get(&mut server, "/1/output", &[]);
    assert_eq!((whole.status, &whole.body[..]), (200, &b"one\n\x1b[1mtwo\x1b[0m\r\n"[..]));
    assert_eq!(whole.header("content-type"), Some("text/plain; charset=utf-8"));
    assert_eq!(whole.header("content-length"), Some("17"));
    assert_eq!(whole.header("accept-ranges"), Some("bytes"));
    assert_eq!(whole.header("x-content-type-options"), Some("nosniff"));
    assert_eq!(whole.header("content-security-policy"), Some("default-src 'none'; sandbox"));
    assert_eq!(whole.header("content-disposition"), None);
    let named = get(&mut server, "/1/output?stream=stderr&download=1", &[]);
    let disposition = Some("attachment; filename=\"job-1-stderr.log\"");
    assert_eq!((named.header("content-disposition"), &named.body[..]), (disposition, &b""[..]));
}

#[test]
fn a_range_is_exact_and_one_outside_reports_the_length() {
    let mut server = Launch::http().structured().start();
    server.run("seq 1 100000");
    let text: String = (1..=100_000).map(|number| format!("{number}\n")).collect();
    let (text, total) = (text.as_bytes(), text.len());
    for (asked, from, to) in [
        ("bytes=0-0".to_owned(), 0, 1),
        ("bytes=65530-65550".to_owned(), 65_530, 65_551),
        ("bytes=1000-".to_owned(), 1000, total),
        ("bytes=-5".to_owned(), total - 5, total),
        (format!("bytes=7-{}", total * 2), 7, total),
    ] {
        let part = range(&mut server, "/1/output", &asked);
        assert_eq!(part.status, 206, "{asked}");
        assert_eq!(part.body, text[from..to], "{asked}");
        let expected = format!("bytes {from}-{}/{total}", to - 1);
        assert_eq!(part.header("content-range"), Some(&expected[..]), "{asked}");
    }
    for asked in [format!("bytes={total}-"), "bytes=-0".to_owned()] {
        let outside = range(&mut server, "/1/output", &asked);
        assert_eq!((outside.status, outside.error_code()), (416, "range_not_satisfiable".into()));
        assert_eq!(outside.header("content-range"), Some(&format!("bytes */{total}")[..]));
    }
    for ignored in ["bytes=0-1,5-6", "bytes=9-1", "lines=1-2"] {
        let whole = range(&mut server, "/1/output", ignored);
        assert_eq!((whole.status, whole.body.len()), (200, total), "{ignored}");
    }
}

#[test]
fn a_range_of_one_stream_counts_its_own_bytes() {
    let mut server = Launch::http().structured().start();
    server.run_separate(
        "for i in 1 2 3; do echo out$i; sleep 0.05; echo err$i >&2; sleep 0.05; done",
    );
    let errors = get(&mut server, "/1/output?stream=stderr", &[]);
    assert_eq!(errors.body, b"err1\nerr2\nerr3\n");
    let part = range(&mut server, "/1/output?stream=stderr", "bytes=5-11");
    assert_eq!((part.status, &part.body[..]), (206, &b"err2\ner"[..]));
    assert_eq!(part.header("content-range"), Some("bytes 5-11/15"));
    assert_eq!(range(&mut server, "/1/output?stream=stdout", "bytes=-5").body, b"out3\n");
    assert_eq!(range(&mut server, "/1/output?stream=stderr", "bytes=15-").status, 416);
}

#[test]
fn a_running_job_returns_its_output_so_far() {
    let mut server = Launch::http().structured().start();
    server.start("printf begun; read line; echo $line");
    eventually("it has written", || get(&mut server, "/1/output", &[]).body == b"begun");
    let part = range(&mut server, "/1/output", "bytes=1-");
    assert_eq!((part.status, &part.body[..]), (206, &b"egun"[..]));
    assert_eq!(part.header("etag"), None, "it may grow");
    assert_eq!(range(&mut server, "/1/output", "bytes=5-").status, 416);
    server.call("send_input", serde_json::json!({"job": 1, "text": "on\n"})).ok();
    server.wait_finished(1);
    assert_eq!(range(&mut server, "/1/output", "bytes=5-").body, b"on\n");
}

#[test]
fn compressed_output_holds_the_same_bytes() {
    let mut server = Launch::http().structured().start();
    server.run("seq 1 200000");
    let plain = get(&mut server, "/1/output", &[("Accept-Encoding", "identity, zstd;q=0")]);
    assert_eq!((plain.header("content-encoding"), plain.body.len()), (None, 1_288_895));
    let zstd = get(&mut server, "/1/output", &[("Accept-Encoding", "gzip;q=0.5, zstd")]);
    assert_eq!(zstd.header("content-encoding"), Some("zstd"));
    assert_eq!(zstd.header("vary"), Some("accept-encoding"));
    assert!(zstd.body.len() < plain.body.len() / 2, "{}", zstd.body.len());
    assert_eq!(zstd::decode_all(&zstd.body[..]).expect("zstd"), plain.body);
    let gzip = get(&mut server, "/1/output", &[("Accept-Encoding", "gzip, zstd;q=0.1")]);
    assert_eq!(gzip.header("content-encoding"), Some("gzip"));
    let mut unzipped = Vec::new();
    flate2::read::GzDecoder::new(&gzip.body[..]).read_to_end(&mut unzipped).expect("gzip");
    assert_eq!(unzipped, plain.body);
    let both = [("Accept-Encoding", "zstd"), ("Range", "bytes=0-9")];
    let part = get(&mut server, "/1/output", &both);
    assert_eq!((part.status, part.header("content-encoding")), (206, None));
    assert_eq!(part.body, plain.body[..10]);
}

#[test]
fn a_finished_output_has_an_etag() {
    let mut server = Launch::http().structured().start();
    server.run("echo hello");
    server.run("echo hullo");
    let tag_of = |fetched: &Fetched| fetched.header("etag").expect("a tag").to_owned();
    let tag = tag_of(&get(&mut server, "/1/output", &[]));
    let zstd = tag_of(&get(&mut server, "/1/output", &[("Accept-Encoding", "zstd")]));
    assert_ne!(tag, zstd);
    assert_ne!(tag, tag_of(&get(&mut server, "/2/output", &[])));
    let known = get(&mut server, "/1/output", &[("If-None-Match", &tag)]);
    assert_eq!((known.status, &known.body[..]), (304, &b""[..]));
    let part = get(&mut server, "/1/output", &[("Range", "bytes=0-1"), ("If-Range", &tag)]);
    assert_eq!((part.status, &part.body[..]), (206, &b"he"[..]));
    let whole = get(&mut server, "/1/output", &[("Range", "bytes=0-1"), ("If-Range", "\"x\"")]);
    assert_eq!((whole.status, &whole.body[..]), (200, &b"hello\n"[..]));
}

#[test]
fn output_has_its_content_type_and_is_never_html() {
    let mut server = Launch::http().structured().start();
    server.run("printf '<html><script>alert(1)</script></html>'");
    server.run("printf '\\211PNG\\r\\n\\032\\n\\0\\0\\0\\rIHDR'");
    server.run("printf 'caf\\351\\n'");
    for (job, expected) in
        [(1, "text/plain; charset=utf-8"), (2, "image/png"), (3, "application/octet-stream")]
    {
        let answer = get(&mut server, &format!("/{job}/output"), &[]);
        assert_eq!(answer.header("content-type"), Some(expected), "{job}");
    }
}

#[test]
fn a_head_request_returns_the_same_headers_without_the_body() {
    let mut server = Launch::http().structured().start();
    server.run("echo hello");
    let request = HttpRequest { method: "HEAD", ..HttpRequest::get("/api/v1/jobs/1/output") };
    let head = send(&mut server, request.header("Range", "bytes=0-1"));
    assert_eq!((head.status, head.header("content-length")), (200, Some("6")));
    assert_eq!(head.header("content-type"), Some("text/plain; charset=utf-8"));
}

#[test]
fn errors_are_answered_as_json() {
    let mut server = Launch::http().structured().start();
    server.run("true");
    for (path, status, code) in [
        ("/99/output", 404, "unknown_job"),
        ("/99", 404, "unknown_job"),
        ("/x/output", 400, "bad_job"),
        ("/1/output?stream=both", 400, "bad_query"),
        ("/1/output?steam=stderr", 400, "bad_query"),
        ("/1/inputs", 404, "no_such_path"),
        ("?limit=0", 400, "bad_query"),
    ] {
        let answer = get(&mut server, path, &[]);
        assert_eq!((answer.status, answer.error_code()), (status, code.to_owned()), "{path}");
    }
    let post = send(&mut server, HttpRequest::post_bytes("/api/v1/jobs/1/output", b"{}".to_vec()));
    assert_eq!((post.status, post.error_code()), (405, "method_not_allowed".into()));
    assert_eq!(post.header("allow"), Some("GET, HEAD"));
}

#[test]
fn nobody_reads_without_passing_the_guard() {
    let mut server = Launch::http().guarded().start_silent();
    for headers in [&[][..], &[("Authorization", "Bearer wrong")]] {
        let refused = get(&mut server, "/1/output", headers);
        assert_eq!(refused.status, 401);
        assert!(refused.header("www-authenticate").is_some());
    }
    let bearer = format!("Bearer {}", token());
    assert_eq!(get(&mut server, "/1/output", &[("Authorization", &bearer)]).status, 404);
    let mut server = Launch::http().start_silent();
    let strangers = [("Origin", "http://evil.example"), ("Host", "evil.example")];
    for stranger in strangers {
        assert_eq!(get(&mut server, "/1/output", &[stranger]).status, 403, "{stranger:?}");
    }
}

#[test]
fn the_bytes_are_as_stored_and_jobs_are_shown_masked() {
    let mut server = Launch::http().structured().start();
    server.run("echo AKIAIOSFODNN7EXAMPLE");
    let running = server.start("sleep 3141");
    server.wait_running(running);
    assert_eq!(get(&mut server, "/1/output", &[]).body, b"AKIAIOSFODNN7EXAMPLE\n");
    let list: Value = serde_json::from_slice(&get(&mut server, "", &[]).body).expect("JSON");
    assert_eq!(list["jobs"][0]["job"], 2, "the newest first: {list}");
    assert_eq!(list["jobs"][1]["state"], "finished", "{list}");
    assert!(!list.to_string().contains("AKIAIOSFODNN7EXAMPLE"), "{list}");
    let running = get(&mut server, "?state=running&limit=5", &[]);
    let running: Value = serde_json::from_slice(&running.body).expect("JSON");
    assert_eq!(running["jobs"].as_array().map(Vec::len), Some(1), "{running}");
    let shown: Value = serde_json::from_slice(&get(&mut server, "/1", &[]).body).expect("JSON");
    assert_eq!((&shown["exit_code"], &shown["outcome"]), (&0.into(), &"exited".into()), "{shown}");
    assert!(shown.get("output").is_none(), "{shown}");
}

/// The size of a log that fits the disk of a small machine but is far larger than the memory limit.
const LARGE: u64 = 300 << 20;

#[test]
fn a_large_log_is_sent_in_limited_memory_and_slow_readers_block_nobody() {
    let mut server = Launch::http().structured().start();
    server.run(&format!("head -c {LARGE} /dev/zero"));
    let address = server.http().address().to_owned();
    let before = rss_kib(server.server_pid());
    // They ask for all of it, and read nothing.
    let stalled: Vec<HttpConnection> = (0..20)
        .map(|number| {
            let mut connection = HttpConnection::open(&address);
            let coding = if number % 2 == 0 { "identity" } else { "zstd" };
            let request = HttpRequest::get("/api/v1/jobs/1/output");
            connection.send(&request.header("Accept-Encoding", coding));
            connection
        })
        .collect();
    let readers: Vec<_> = (0..2)
        .map(|_| {
            thread::spawn({
                let address = address.clone();
                move || read_through(&address)
            })
        })
        .collect();
    for reader in readers {
        assert_eq!(reader.join().expect("it reads"), LARGE);
    }
    let grown = rss_kib(server.server_pid()).saturating_sub(before);
    assert!(grown < 64 << 10, "{grown} KiB");
    server.assert_alive();
    drop(stalled);
    server.assert_alive();
}

/// Reads the whole output and returns its length.
fn read_through(address: &str) -> u64 {
    let mut connection = HttpConnection::open(address);
    connection.send(&HttpRequest::get("/api/v1/jobs/1/output"));
    let mut answer = connection.answer();
    std::io::copy(answer.body(), &mut std::io::sink()).expect("a whole body")
}
