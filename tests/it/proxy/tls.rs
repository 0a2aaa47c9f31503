//! A server behind TLS: something in front of it holds the certificate.

use std::sync::Arc;
use std::thread;

use rcgen::{CertifiedKey, generate_simple_self_signed};
use serde_json::json;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;

use super::server;
use crate::harness::Launch;

/// Ends TLS in front of `server`; its port, and its certificate as PEM. It lives as long as the
/// test program.
fn in_front_of(server: String) -> (u16, String) {
    let made = generate_simple_self_signed(vec!["localhost".into()]).expect("a certificate");
    let CertifiedKey { cert, signing_key } = made;
    let key = PrivateKeyDer::try_from(signing_key.serialize_der()).expect("a key");
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("the usual versions")
        .with_no_client_auth()
        .with_single_cert(vec![cert.der().clone()], key)
        .expect("a pair");
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.set_nonblocking(true).expect("a socket");
    let port = listener.local_addr().expect("it is bound").port();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build();
    let runtime = runtime.expect("a runtime");
    thread::spawn(move || {
        runtime.block_on(async move {
            let listener = TcpListener::from_std(listener).expect("a listener");
            while let Ok((stream, _)) = listener.accept().await {
                let (acceptor, server) = (acceptor.clone(), server.clone());
                tokio::spawn(async move {
                    let mut theirs = acceptor.accept(stream).await.ok()?;
                    let mut ours = TcpStream::connect(server).await.ok()?;
                    copy_bidirectional(&mut theirs, &mut ours).await.ok()
                });
            }
        });
    });
    (port, cert.pem())
}

#[test]
fn a_server_behind_tls_is_reached_if_its_certificate_is_trusted() {
    let mut server = server().start();
    let (port, certificate) = in_front_of(server.http().address().to_owned());
    let url = format!("https://localhost:{port}/mcp");
    let file = server.sandbox().write("trusted.pem", &certificate);
    let trusting = Launch::stdio().args(&["--connect", &url]);
    let mut proxy = trusting.env("SSL_CERT_FILE", &file.to_string_lossy()).start();
    assert_eq!(proxy.run("echo safe")["output"], "safe\n");
    proxy.stdio().hang_up();
    assert!(proxy.wait_exit().success());

    let (_, other) = in_front_of(server.http().address().to_owned());
    let file = server.sandbox().write("other.pem", &other);
    let trusting_another = Launch::stdio().args(&["--connect", &url]);
    let mut proxy = trusting_another.env("SSL_CERT_FILE", &file.to_string_lossy()).start_silent();
    let answer = proxy.rpc("ping", json!({}));
    assert!(answer["error"]["message"].to_string().contains("SSL_CERT_FILE"), "{answer}");
}
