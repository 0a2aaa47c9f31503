//! Kernel features that the host is reported to have work.

use shellyard::process::ExitKind;

use super::alone::{WORKSPACE, host, run_alone};

#[test]
fn namespaces_are_supported_where_a_job_gets_them() {
    run_alone(
        "confined::support::namespaces_are_supported_where_a_job_gets_them",
        async |server| {
            assert_eq!(host().sandbox_support().namespaces.check(), Ok(&()));
            assert_eq!(server.run(&server.sh(WORKSPACE, "exit 0")).await.0, ExitKind::Code(0));
            server.wait_until_settled();
        },
    );
}
