//! Why a job did not start is told in the same words, whoever creates it.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use shellyard::confinement::GrantedConfinement;
use shellyard::process::ProcessLaunch;

use super::alone::{BOTH, host, run_alone};

#[test]
fn start_errors_are_the_same_for_all() {
    run_alone("confined::start_errors::start_errors_are_the_same_for_all", async |server| {
        let file = |name: &str, text: &str, mode: u32| {
            let path = server.place.path().join(name);
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            path.to_str().unwrap().to_owned()
        };
        let plain = file("plain", "echo", 0o644);
        let lost = file("lost", "#!/no/such/interpreter\n", 0o755);
        let odd = file("odd", "\0\0not a program", 0o755);
        let huge = "x".repeat(200_000);
        let words = vec!["x".repeat(100_000); 100];
        let words: Vec<_> = words.iter().map(String::as_str).collect();
        let launches = |granted: GrantedConfinement| {
            let make = |program: &str, args: &[&str]| server.launch(granted, program, args);
            let cwd = "/no/such/directory".into();
            [
                make("no-such-program", &[]),
                make("/no/such/program", &[]),
                make(&plain, &[]),
                make(&lost, &[]),
                make(&odd, &[]),
                make("true", &[&huge]),
                make("true", &words),
                make("true", &["\0"]),
                make("/etc", &[]),
                make("/etc/passwd/x", &[]),
                ProcessLaunch { cwd, ..make("true", &[]) },
            ]
        };
        for granted in BOTH {
            for (plain, confined) in
                launches(GrantedConfinement::NOTHING).iter().zip(launches(granted))
            {
                let expected = host().spawn(plain).unwrap_err();
                assert_eq!(
                    host().spawn(&confined).unwrap_err(),
                    expected,
                    "{}",
                    granted.backend.word()
                );
            }
        }
        server.wait_until_settled();
    });
}
