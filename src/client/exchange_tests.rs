//! The client against a socket that answers by the letter.

use std::path::PathBuf;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio::task::JoinHandle;

use super::*;

/// Answers one connection with these bytes, and gives what was asked.
fn server(answer: &'static str) -> (tempfile::TempDir, Client, JoinHandle<(String, UnixStream)>) {
    let dir = tempfile::tempdir().unwrap();
    let path: PathBuf = dir.path().join("s");
    let listener = UnixListener::bind(&path).unwrap();
    let asked = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut asked = String::new();
        while !asked.ends_with("\r\n\r\n") && !asked.ends_with("{}") {
            asked.push(char::from(stream.read_u8().await.unwrap()));
        }
        stream.write_all(answer.as_bytes()).await.unwrap();
        (asked, stream)
    });
    let token = Token::new("secret").unwrap();
    (dir, Client::new(Target::socket(path, "/mcp"), Some(token)).unwrap(), asked)
}

#[tokio::test]
async fn a_request_carries_all_it_was_given_and_comes_back_whole() {
    let (_dir, client, asked) =
        server("HTTP/1.1 409 Conflict\r\nX-A: b\r\nContent-Length: 4\r\n\r\nbody");
    let headers = HeaderMap::from_iter([(UPGRADE, HeaderValue::from_static("x"))]);
    let body = Bytes::from_static(b"{}");
    let answer = client.request(Method::POST, "/api/v1/x?y=1", headers, body).await.unwrap();
    assert_eq!((answer.status, &answer.body[..]), (StatusCode::CONFLICT, &b"body"[..]));
    assert_eq!(answer.headers["x-a"], "b");
    let (asked, _) = asked.await.unwrap();
    assert!(asked.starts_with("POST /api/v1/x?y=1 HTTP/1.1\r\n"), "{asked}");
    for part in ["host: localhost\r\n", "authorization: Bearer secret\r\n", "upgrade: x\r\n"] {
        assert!(asked.contains(part), "{asked}");
    }
    assert!(!format!("{client:?}").contains("secret"));
}

#[tokio::test]
async fn an_upgrade_gives_both_directions_and_half_closes() {
    let (_dir, client, asked) = server(
        "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: p\r\n\r\nhello",
    );
    let mut stream = client.upgrade("p").await.unwrap();
    let mut hello = [0; 5];
    stream.read_exact(&mut hello).await.unwrap();
    assert_eq!(&hello, b"hello");
    let (_, mut theirs) = asked.await.unwrap();
    stream.write_all(b"bye").await.unwrap();
    stream.shutdown().await.unwrap();
    let mut heard = String::new();
    theirs.read_to_string(&mut heard).await.unwrap();
    assert_eq!(heard, "bye");
    theirs.write_all(b"last").await.unwrap();
    drop(theirs);
    let mut last = String::new();
    stream.read_to_string(&mut last).await.unwrap();
    assert_eq!(last, "last", "the other direction stays open");
}

#[tokio::test]
async fn a_refused_upgrade_says_why_and_what_to_do() {
    let (_dir, client, _asked) =
        server("HTTP/1.1 401 Unauthorized\r\nContent-Length: 8\r\n\r\nno token");
    let Err(error) = client.upgrade("p").await else { panic!("it was refused") };
    assert_eq!(error.code(), "server_refused");
    let text = error.to_string();
    assert!(text.contains("401") && text.contains("no token"), "{text}");
    assert!(text.contains("--token FILE"), "{text}");
    assert!(!error.is_passing());
}

#[tokio::test]
async fn a_server_that_ends_is_worth_waiting_for() {
    let (_dir, client, _asked) =
        server("HTTP/1.1 503 Service Unavailable\r\nContent-Length: 9\r\n\r\ndraining\n");
    let Err(error) = client.upgrade("p").await else { panic!("it was refused") };
    assert!(error.is_passing(), "{error}");
}

#[tokio::test]
async fn where_nobody_is_the_next_command_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let missing = dir.path().join("none");
    let stale = dir.path().join("stale");
    let left = UnixListener::bind(&stale).unwrap();
    // A child of another test that is being born may hold a copy.
    rustix::net::shutdown(&left, rustix::net::Shutdown::Both).unwrap();
    drop(left);
    for path in [missing, stale] {
        let client = Client::new(Target::socket(path, "/mcp"), None).unwrap();
        let Err(error) = client.upgrade("p").await else { panic!("nobody is there") };
        assert_eq!(error.code(), "no_server");
        let text = error.to_string();
        assert!(text.contains("`shellyard serve --") && text.contains("--ensure-server"), "{text}");
        assert!(error.is_passing());
    }
}

#[tokio::test]
async fn where_nobody_can_ever_be_the_way_out_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    std::fs::write(&file, "").unwrap();
    for (path, way_out) in [
        (dir.path().join("x".repeat(200)), "--connect /SHORTER.sock"),
        (file.join("s"), "--data-dir"),
    ] {
        let client = Client::new(Target::socket(path, "/mcp"), None).unwrap();
        let Err(error) = client.upgrade("p").await else { panic!("nobody is there") };
        assert_eq!((error.code(), error.is_passing()), ("target_unusable", false), "{error:?}");
        assert!(error.to_string().contains(way_out), "{error}");
    }
}

#[test]
fn of_a_foreign_page_the_first_words_are_repeated() {
    for (body, words) in [
        ("no token\nand more", "no token"),
        (
            "<!DOCTYPE html>\n<html><head>\n<title>404 \u{1b}[31mNot Found</title>",
            "404 [31mNot Found",
        ),
        ("", ""),
        ("<<<", ""),
    ] {
        assert_eq!(first_words(body), words, "{body:?}");
    }
    assert_eq!(first_words(&"é".repeat(500)).chars().count(), MAX_QUOTED_CHARS);
}
