//! Requests that a web page in a browser can send: none of them gets in.

use crate::harness::{HttpRequest, Launch};

use super::{ROUTES, refused, run_command, status_of};

fn post(route: &str) -> HttpRequest {
    HttpRequest { method: "POST", ..HttpRequest::get(route) }
}

#[test]
fn a_rebound_host_name_reaches_no_route() {
    let mut server = Launch::http().start();
    let port = server.http().address().rsplit(':').next().expect("a port").to_owned();
    let mut sent = 0.0;
    for route in ROUTES {
        for host in ["evil.example".to_owned(), format!("evil.example:{port}")] {
            for request in [HttpRequest::get(route), post(route)] {
                let status = status_of(&mut server, &request.header("Host", &host));
                assert_eq!(status, 403, "{route} for {host}");
                sent += 1.0;
            }
        }
    }
    assert_eq!(refused(&mut server, "host"), sent, "each is counted");
}

#[test]
fn a_form_on_another_site_reaches_no_route() {
    let mut server = Launch::http().start();
    for route in ROUTES {
        for origin in ["https://evil.example", "http://localhost.evil.example", "null"] {
            for kind in ["text/plain", "application/x-www-form-urlencoded"] {
                let mut request = post(route).header("Content-Type", kind);
                request.body = b"{\"jsonrpc\":\"2.0\"}".to_vec();
                let status = status_of(&mut server, &request.header("Origin", origin));
                assert_eq!(status, 403, "{route} from {origin}");
            }
            let status = status_of(&mut server, &HttpRequest::get(route).header("Origin", origin));
            assert_eq!(status, 403, "{route} from {origin}");
        }
    }
}

#[test]
fn requests_of_web_pages_run_nothing() {
    let mut server = Launch::http().start();
    let attacks = [
        run_command("touch broke-in").header("Origin", "null"),
        run_command("touch broke-in").header("Origin", "https://evil.example"),
        run_command("touch broke-in").header("Host", "evil.example"),
        run_command("touch broke-in")
            .header("Origin", "http://localhost")
            .header("Origin", "https://evil.example"),
    ];
    for attack in attacks {
        assert_eq!(status_of(&mut server, &attack), 403, "{attack:?}");
    }
    // A browser that sends no origin still cannot send JSON without a preflight request.
    let mut form = run_command("touch broke-in");
    form.headers.retain(|(name, _)| name != "Content-Type");
    let status = status_of(&mut server, &form.header("Content-Type", "text/plain"));
    assert_eq!(status, 415);
    server.assert_alive();
    assert!(!server.work().join("broke-in").exists());
}
