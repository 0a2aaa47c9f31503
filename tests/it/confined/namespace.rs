//! The view of a job in namespaces of its own.

use shellyard::confinement::{Confinement, GrantedConfinement, NetworkAccess};
use shellyard::process::ExitKind;

use super::alone::{WORKSPACE, run_alone};

#[test]
fn a_job_sees_its_own_processes_and_cannot_end_the_first() {
    run_alone(
        "confined::namespace::a_job_sees_its_own_processes_and_cannot_end_the_first",
        async |server| {
            let text = "kill -9 1; kill -TERM 1; cat /proc/1/comm; set -- /proc/[0-9]*; echo $#";
            let (_, seen) = server.run(&server.sh(WORKSPACE, text)).await;
            // The first and the shell.
            assert_eq!(seen.split_whitespace().collect::<Vec<_>>(), ["shellyard-shim", "2"]);
        },
    );
}

#[test]
fn nothing_of_the_first_process_is_open_to_a_job() {
    run_alone(
        "confined::namespace::nothing_of_the_first_process_is_open_to_a_job",
        async |server| {
            for file in ["/proc/1/mem", "/proc/1/environ", "/proc/1/fd/0", "/proc/1/root/etc"] {
                let text = format!("cat {file} >/dev/null && ls {file}");
                let (ended, _) = server.run(&server.sh(WORKSPACE, &text)).await;
                let as_root = rustix::process::geteuid().is_root();
                assert!(as_root || ended != ExitKind::Code(0), "{file}");
            }
        },
    );
}

#[test]
fn a_job_is_who_it_was() {
    run_alone("confined::namespace::a_job_is_who_it_was", async |server| {
        let own = rustix::process::geteuid().as_raw();
        let (_, id) = server.run(&server.sh(WORKSPACE, "id -u; pwd -P; touch here")).await;
        let place = server.place.path().canonicalize().unwrap();
        assert_eq!(id, format!("{own}\n{}\n", place.display()));
        assert!(place.join("here").exists());
    });
}

#[test]
fn the_network_is_there_only_where_it_is_granted() {
    run_alone(
        "confined::namespace::the_network_is_there_only_where_it_is_granted",
        async |server| {
            let ours = std::fs::read_link("/proc/self/ns/net").unwrap();
            let given = Confinement { network: NetworkAccess::On, ..WORKSPACE.effective };
            for (granted, is_ours) in
                [(WORKSPACE, false), (GrantedConfinement { effective: given, ..WORKSPACE }, true)]
            {
                let launch = server.launch(granted, "readlink", &["/proc/self/ns/net"]);
                let theirs = server.run(&launch).await.1;
                assert_eq!(theirs.trim_end() == ours.to_str().unwrap(), is_ours);
            }
        },
    );
}
