//! Sandboxed jobs end with the same outcomes as any other.

use shellyard::process::{ExitKind, LaunchStdin, ProcessLaunch, ReportMode, TerminalSize};

use super::alone::{
    BOTH, DEFAULT, LANDLOCK, WORKSPACE, finish, host, keeper, read_all, run_alone, wait_until,
};

const fn killed_by(signal: i32) -> ExitKind {
    ExitKind::Signal { signal, core: false }
}

#[test]
fn exit_codes_and_signals_are_told() {
    run_alone("confined::endings::exit_codes_and_signals_are_told", async |server| {
        let cases = [
            ("exit 0", ExitKind::Code(0)),
            ("exit 7", ExitKind::Code(7)),
            ("kill -TERM $$; sleep 100", killed_by(15)),
            ("kill -KILL $$", killed_by(9)),
            ("kill -PIPE $$; sleep 100", killed_by(13)),
        ];
        for granted in BOTH {
            for (text, expected) in cases {
                let (ended, _) = server.run(&server.sh(granted, text)).await;
                assert_eq!(ended, expected, "{text}, {}", granted.backend.word());
            }
        }
        server.wait_until_settled();
    });
}

#[test]
fn a_polite_end_reaches_a_leader() {
    run_alone("confined::endings::a_polite_end_reaches_a_leader", async |server| {
        for granted in BOTH {
            let process = host().spawn(&server.launch(granted, "sleep", &["1000"])).unwrap();
            process.tree.signal(15);
            assert_eq!(finish(process).await.0, killed_by(15));
        }
    });
}

#[test]
fn input_output_and_the_report_of_a_pipeline_are_connected() {
    run_alone(
        "confined::endings::input_output_and_the_report_of_a_pipeline_are_connected",
        async |server| {
            for granted in BOTH {
                let text = "read a; echo out $a; echo err >&2; echo 1 0 >&61";
                let launch = server.launch(granted, "bash", &["-c", text]);
                let mut launch = ProcessLaunch { stdin: LaunchStdin::Pipe, ..launch };
                launch.command.report = ReportMode::Pipeline;
                let mut process = host().spawn(&launch).unwrap();
                process.stdin.take().unwrap().send(b"in\n").unwrap();
                let (out, err) = (process.stdout, process.stderr.unwrap());
                let (out, err, exit) =
                    tokio::join!(read_all(out), read_all(err), process.events.wait());
                assert_eq!((&*out, &*err), ("out in\n", "err\n"));
                assert_eq!(exit.unwrap().status, ExitKind::Code(0));
                assert_eq!(process.report.unwrap().read(), [1, 0]);
            }
        },
    );
}

#[test]
fn a_terminal_is_the_controlling_one() {
    run_alone("confined::endings::a_terminal_is_the_controlling_one", async |server| {
        for granted in BOTH {
            let launch = server.sh(granted, "tty; (exec </dev/tty) && echo controls; test -t 2");
            let launch =
                ProcessLaunch { stdin: LaunchStdin::Terminal(TerminalSize::DEFAULT), ..launch };
            let (ended, output) = server.run(&launch).await;
            // With namespaces it is shown under a name of its own.
            let is_named = ["/dev/pts/", "/dev/console"].iter().any(|it| output.starts_with(it));
            assert!(is_named && output.contains("controls"), "{output}");
            assert_eq!(ended, ExitKind::Code(0));
        }
    });
}

#[test]
fn our_own_input_can_be_the_jobs() {
    run_alone("confined::endings::our_own_input_can_be_the_jobs", async |server| {
        let ours = std::fs::read_link("/proc/self/fd/0").unwrap();
        for granted in BOTH {
            let launch = server.launch(granted, "readlink", &["/proc/self/fd/0"]);
            let launch = ProcessLaunch { stdin: LaunchStdin::Inherited, ..launch };
            assert_eq!(server.run(&launch).await.1.trim_end(), ours.to_str().unwrap());
        }
    });
}

#[test]
fn nothing_else_is_inherited() {
    run_alone("confined::endings::nothing_else_is_inherited", async |server| {
        for granted in BOTH {
            let (_, files) = server.run(&server.launch(granted, "ls", &["/proc/self/fd"])).await;
            assert_eq!(files, "0\n1\n2\n3\n");
            let status = server.launch(granted, "grep", &["^Sig[BI]", "/proc/self/status"]);
            let (_, signals) = server.run(&status).await;
            // 32 and 33 belong to the C library, which has them ignored in what it spawns.
            let sets = signals.split_whitespace().filter_map(|it| u64::from_str_radix(it, 16).ok());
            let sets: Vec<_> = sets.map(|set| set & !(0b11 << 31)).collect();
            assert_eq!(sets, [0, 0], "{signals}");
            let (_, variables) = server.run(&server.launch(granted, "env", &[])).await;
            assert!(variables.lines().count() <= 3, "{variables}");
        }
    });
}

#[test]
fn what_we_the_keeper_and_the_shim_hold_is_closed_to_jobs() {
    run_alone(
        "confined::endings::what_we_the_keeper_and_the_shim_hold_is_closed_to_jobs",
        async |server| {
            let [own, keeper] = [std::process::id(), keeper()].map(|pid| pid.to_string());
            // The parent of a job is its shim.
            for pid in [&own, &keeper, "$PPID"] {
                let text = format!(
                    "cat /proc/{pid}/environ || ls /proc/{pid}/fd || test -r /proc/{pid}/mem"
                );
                let (ended, _) = server.run(&server.sh(DEFAULT, &text)).await;
                // Root reads everything that no other means keeps from it.
                let as_root = rustix::process::geteuid().is_root();
                assert_eq!(ended == ExitKind::Code(0), as_root, "{pid}");
            }
        },
    );
}

#[test]
fn a_job_has_a_temporary_directory_of_its_own_until_it_is_gone() {
    run_alone(
        "confined::endings::a_job_has_a_temporary_directory_of_its_own_until_it_is_gone",
        async |server| {
            let text = "touch $TMPDIR/shellyard-own && ls $TMPDIR/shellyard-own && echo $TMPDIR";
            let (_, seen) = server.run(&server.sh(WORKSPACE, text)).await;
            assert_eq!(seen, "/tmp/shellyard-own\n/tmp\n");
            assert!(!std::path::Path::new("/tmp/shellyard-own").exists());
            let (_, seen) = server.run(&server.sh(LANDLOCK, text)).await;
            assert!(seen.contains("/scratch/"), "{seen}");
            let scratch = server.place.path().join("scratch");
            wait_until(|| std::fs::read_dir(&scratch).unwrap().count() == 0);
        },
    );
}
