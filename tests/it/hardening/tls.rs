//! TLS: used if a certificate is configured, and renewed without a restart.

use std::fs;
use std::path::PathBuf;

use rustix::process::Signal;
use tempfile::TempDir;

use crate::harness::{
    HttpConnection, HttpRequest, Launch, Sandbox, TestServer, Trust, eventually, make_fifo,
    run_program, text,
};

/// A certificate and its key in files.
struct Pair {
    dir: TempDir,
}

impl Pair {
    fn new() -> (Self, Trust) {
        let pair = Self { dir: TempDir::new().expect("a directory") };
        let trust = pair.renew();
        (pair, trust)
    }

    fn cert(&self) -> PathBuf {
        self.dir.path().join("cert.pem")
    }

    fn key(&self) -> PathBuf {
        self.dir.path().join("key.pem")
    }

    /// Writes a new pair to the same files; only clients that trust it can connect.
    fn renew(&self) -> Trust {
        let names = vec!["localhost".to_owned()];
        let made = rcgen::generate_simple_self_signed(names).expect("a certificate");
        fs::write(self.cert(), made.cert.pem()).expect("a file of ours");
        fs::write(self.key(), made.signing_key.serialize_pem()).expect("a file of ours");
        Trust::only(&made.cert.pem())
    }

    fn config(&self) -> String {
        let (cert, key) = (self.cert(), self.key());
        format!("[http]\ntls_cert = {cert:?}\ntls_key = {key:?}\n")
    }

    fn launch(&self) -> TestServer {
        Launch::http().config(&self.config()).start_silent()
    }
}

#[track_caller]
fn status_of(server: &mut TestServer, trust: &Trust, request: &HttpRequest) -> u16 {
    let connection = HttpConnection::open_tls(server.http().address(), trust);
    let mut connection = connection.expect("a server that we trust");
    connection.send(request);
    connection.answer().status
}

#[test]
fn a_server_with_a_certificate_speaks_only_tls() {
    let (pair, trust) = Pair::new();
    let mut server = pair.launch();
    for route in ["/healthz", "/metrics", "/api/v1/jobs"] {
        assert_eq!(status_of(&mut server, &trust, &HttpRequest::get(route)), 200, "{route}");
    }
    let run = super::run_command("echo over-tls");
    let mut connection =
        HttpConnection::open_tls(server.http().address(), &trust).expect("a server that we trust");
    connection.send(&run);
    assert!(connection.answer().text().contains("over-tls"));
    let mut plain = HttpConnection::open(server.http().address());
    plain.send(&HttpRequest::get("/healthz"));
    assert!(!plain.rest().contains("ok"), "nothing is answered in clear text");
}

#[test]
fn requests_over_tls_pass_the_guard() {
    let (pair, trust) = Pair::new();
    let mut server = pair.launch();
    let address = server.http().address().to_owned();
    let port = address.rsplit(':').next().expect("a port");
    for (name, value, status) in [
        ("Host", "evil.example".to_owned(), 403),
        ("Origin", "https://evil.example".to_owned(), 403),
        ("Origin", format!("http://localhost:{port}"), 403),
        ("Origin", format!("https://localhost:{port}"), 200),
    ] {
        let request = HttpRequest::get("/healthz").header(name, &value);
        assert_eq!(status_of(&mut server, &trust, &request), status, "{name}: {value}");
    }
}

#[test]
fn a_new_certificate_is_used_without_a_restart() {
    let (pair, old) = Pair::new();
    let mut server = pair.launch();
    let address = server.http().address().to_owned();
    let mut open = HttpConnection::open_tls(&address, &old).expect("a server that we trust");
    let new = pair.renew();
    eventually("the new one is used", || HttpConnection::open_tls(&address, &new).is_some());
    assert!(HttpConnection::open_tls(&address, &old).is_none(), "the old one no more");
    open.send(&HttpRequest::get("/healthz"));
    assert_eq!(open.answer().status, 200, "who was connected stays so");
    server.expect_log("certificate replaced");
}

#[test]
fn a_broken_certificate_leaves_the_old_one_in_use_and_is_logged_once() {
    let (pair, old) = Pair::new();
    let mut server = pair.launch();
    let refused = "new TLS certificate not usable";
    fs::write(pair.key(), "no key at all").expect("a file of ours");
    eventually("it is told", || {
        assert_eq!(status_of(&mut server, &old, &HttpRequest::get("/healthz")), 200);
        server.log_text().contains(refused)
    });
    let new = pair.renew();
    let address = server.http().address().to_owned();
    eventually("a good one is used", || HttpConnection::open_tls(&address, &new).is_some());
    assert_eq!(server.log_text().matches(refused).count(), 1, "{}", server.log_text());
}

#[test]
fn a_fifo_in_place_of_a_key_leaves_the_old_one_in_use() {
    let (pair, old) = Pair::new();
    let mut server = pair.launch();
    fs::remove_file(pair.key()).expect("ours to remove");
    make_fifo(&pair.key());
    eventually("it is told", || {
        assert_eq!(status_of(&mut server, &old, &HttpRequest::get("/healthz")), 200);
        server.log_text().contains("FIFO")
    });
    server.signal(Signal::TERM);
    assert!(server.wait_exit().success());
}

#[test]
fn a_tls_handshake_that_never_finishes_times_out() {
    let (pair, trust) = Pair::new();
    let config = format!("{}header_timeout_s = 5\n", pair.config());
    let mut server = Launch::http().config(&config).start_silent();
    let mut silent = HttpConnection::open(server.http().address());
    let mut begun = HttpConnection::open(server.http().address());
    // The first bytes of a client hello that declares more bytes than follow.
    begun.send_bytes(&[0x16, 0x03, 0x01, 0x02, 0x00, 0x01]);
    assert_eq!(status_of(&mut server, &trust, &HttpRequest::get("/healthz")), 200);
    assert_eq!(begun.rest(), "");
    assert_eq!(silent.rest(), "");
}

#[test]
fn an_incomplete_or_unusable_certificate_is_refused_at_start() {
    let sandbox = Sandbox::new();
    let (pair, _) = Pair::new();
    let start = |config: &str| {
        let file = sandbox.write("tls.toml", config);
        let (file, data) = (file.display().to_string(), sandbox.data().display().to_string());
        let serve = ["serve", "--bind", "127.0.0.1:0", "--data-dir", &data, "--config", &file];
        let output = run_program(&sandbox, &serve);
        assert!(!output.status.success());
        text(&output.stderr)
    };
    let half = start(&format!("[http]\ntls_cert = {:?}\n", pair.cert()));
    assert!(half.contains("http.tls_key"), "{half}");
    let half = start(&format!("[http]\ntls_key = {:?}\n", pair.key()));
    assert!(half.contains("http.tls_cert"), "{half}");
    fs::write(pair.key(), "no key at all").expect("a file of ours");
    let bad = start(&pair.config());
    assert!(bad.contains("key.pem"), "{bad}");
}
