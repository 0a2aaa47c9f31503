//! A job without network.

use std::net::{TcpListener, UdpSocket};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener};

use serde_json::json;

use super::world::{EscapeWorld, Means, SandboxCase, python};

/// Ends well if something outside was reached: a server of TCP, one of UDP that answers, the routes
/// of this host.
fn ways_out(port: u16) -> [String; 4] {
    let tcp = format!("socket.create_connection((\"127.0.0.1\", {port}))");
    let udp = format!(
        "s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(2)
s.sendto(b\"x\", (\"127.0.0.1\", {port})); s.recv(1)"
    );
    let routes = "sys.exit(len(socket.if_nameindex()) < 2)".to_owned();
    let vsock = "socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM)".to_owned();
    [tcp, udp, routes, vsock].map(|text| python(&text))
}

#[test]
fn without_network_no_socket_leads_out() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let echo = UdpSocket::bind(("127.0.0.1", port)).unwrap();
    std::thread::spawn(move || {
        while let Ok((_, from)) = echo.recv_from(&mut [0; 8]) {
            echo.send_to(b"x", from).ok();
        }
    });
    let has_interfaces = std::fs::read_dir("/sys/class/net").unwrap().count() > 1;
    for mut world in EscapeWorld::all() {
        for (number, text) in ways_out(port).iter().enumerate() {
            for shut in [
                SandboxCase::Open,
                SandboxCase::Default,
                SandboxCase::Workspace,
                SandboxCase::ReadOnly,
            ] {
                let name = world.name(shut);
                let online = world.attempt_with(shut, text, json!({"network": "on"}));
                let proves = online.worked() || (number == 2 && !has_interfaces);
                assert!(proves, "{text} proves nothing, {name}: {online:?}");
                let offline = world.attempt_with(shut, text, json!({"network": "off"}));
                assert!(!offline.worked(), "{text}, {name}: {offline:?}");
            }
        }
    }
}

/// A server and its client in one job, by every kind of address that a test suite uses.
const OWN_SERVERS: &str = "import tempfile
place = tempfile.mkdtemp()
unix = [\"here.sock\", place + \"/x.sock\", \"\\0own-abstract\"]
inet = [(socket.AF_INET, (\"127.0.0.1\", 0)), (socket.AF_INET6, (\"::1\", 0))]
for family, address in inet + [(socket.AF_UNIX, name) for name in unix if name]:
    server = socket.socket(family)
    server.bind(address); server.listen()
    client = socket.socket(family)
    client.connect(server.getsockname())
    server.accept()[0].send(b\"hello\")
    assert client.recv(5) == b\"hello\", address
assert [name for _, name in socket.if_nameindex()] == [\"lo\"]
print(\"all\")";

#[test]
fn a_job_without_network_reaches_its_own_servers() {
    for mut world in EscapeWorld::each_user(Means::Namespaces, "") {
        world.prepare("rm -f here.sock");
        let attempt = world.attempt(SandboxCase::Workspace, &python(OWN_SERVERS));
        assert_eq!(attempt.output, "all\n", "{}: {attempt:?}", world.name(SandboxCase::Workspace));
        let elsewhere = OWN_SERVERS.replace("here.sock", "");
        let attempt = world.attempt(SandboxCase::ReadOnly, &python(&elsewhere));
        assert_eq!(attempt.output, "all\n", "{}: {attempt:?}", world.name(SandboxCase::ReadOnly));
    }
}

/// Without namespaces and Landlock, unix sockets are refused except connected pairs.
#[test]
fn without_namespaces_connected_pairs_still_work() {
    let pair = python("one, other = socket.socketpair(); one.send(b\"x\"); assert other.recv(1)");
    for mut world in EscapeWorld::all() {
        for shut in SandboxCase::FILES {
            let attempt = world.attempt(shut, &pair);
            assert!(attempt.worked(), "{}: {attempt:?}", world.name(shut));
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
    for mut world in EscapeWorld::all() {
        for shut in [SandboxCase::Open, SandboxCase::Default] {
            let attempt = world.attempt_with(shut, &connect, json!({"network": "off"}));
            assert!(attempt.worked(), "{}: {attempt:?}", world.name(shut));
        }
        for shut in SandboxCase::FILES {
            let attempt = world.attempt(shut, &connect);
            assert!(!attempt.worked(), "{}: {attempt:?}", world.name(shut));
        }
    }
}
