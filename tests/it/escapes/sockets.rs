//! A job without network.

use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener};

use serde_json::json;

use super::world::{Shut, World, python};

#[test]
fn without_network_no_socket_leads_out() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let tcp = format!("socket.create_connection((\"127.0.0.1\", {port}))");
    let udp = format!(
        "socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b\"x\", (\"127.0.0.1\", {port}))"
    );
    let six = "socket.socket(socket.AF_INET6, socket.SOCK_STREAM)".to_owned();
    let netlink = "socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0).bind((0, 0))".to_owned();
    for mut world in World::all() {
        for text in [&tcp, &udp, &six, &netlink].map(|text| python(text)) {
            for shut in [Shut::Open, Shut::Default, Shut::Workspace, Shut::ReadOnly] {
                let name = world.name(shut);
                let online = world.attempt_with(shut, &text, json!({"network": "on"}));
                assert!(online.worked(), "{text} proves nothing, {name}: {online:?}");
                let offline = world.attempt_with(shut, &text, json!({"network": "off"}));
                assert!(!offline.worked(), "{text}, {name}: {offline:?}");
            }
        }
    }
}

/// In `none` and `default` unix sockets are what is left, and these have no place in the files.
#[test]
fn nameless_services_are_out_of_reach_of_the_file_profiles() {
    let name = format!("shellyard-escape-{}", std::process::id());
    let address = SocketAddr::from_abstract_name(&name).unwrap();
    let _listener = UnixListener::bind_addr(&address).unwrap();
    let connect = python(&format!("socket.socket(socket.AF_UNIX).connect(\"\\0{name}\")"));
    for mut world in World::all() {
        for shut in [Shut::Open, Shut::Default] {
            let attempt = world.attempt_with(shut, &connect, json!({"network": "off"}));
            assert!(attempt.worked(), "{}: {attempt:?}", world.name(shut));
        }
        for shut in Shut::FILES {
            let attempt = world.attempt(shut, &connect);
            assert!(!attempt.worked(), "{}: {attempt:?}", world.name(shut));
        }
    }
}
