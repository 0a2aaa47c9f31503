//! Metrics of jobs, tenants, the store and the process.

use std::fs;

use serde_json::json;

use super::{scraped, value};
use crate::harness::{Launch, Marker, TestServer, eventually, tested_program};

const TIERS: [&str; 3] = ["memory", "disk", "compressed"];

fn in_tiers(server: &mut TestServer) -> [f64; 3] {
    let text = scraped(server);
    TIERS.map(|tier| value(&text, &format!("shellyard_output_stored_bytes{{tier=\"{tier}\"}}")))
}

#[test]
fn a_job_leaves_its_output_its_cpu_time_its_memory_and_whose_fault_it_was() {
    let mut server = Launch::http().structured().start();
    server.run("head -c 5000 /dev/zero; printf oops >&2; exit 3");
    server.call("run_command", json!({"command": "sleep 60", "timeout_s": 0.2})).ok();
    let hungry = server.run("head -c 400000000 /dev/zero | tail -c 400000000 | wc -c");
    server.run("true");
    let text = scraped(&mut server);
    for (series, expected) in [
        ("shellyard_jobs_failed_total{fault=\"command\"}", 1.0),
        ("shellyard_jobs_failed_total{fault=\"limit\"}", 1.0),
        ("shellyard_jobs_failed_total{fault=\"server\"}", 0.0),
        ("shellyard_job_output_bytes_count", 4.0),
        ("shellyard_job_output_bytes_sum", 5000.0 + 4.0 + 10.0),
        ("shellyard_tenant_output_bytes_total{tenant=\"local\"}", 5014.0),
        ("shellyard_tenant_jobs_submitted_total{tenant=\"local\"}", 4.0),
        ("shellyard_tenant_jobs_finished_total{tenant=\"local\"}", 4.0),
        ("shellyard_tenant_jobs_finished_total{tenant=\"other\"}", 0.0),
        ("shellyard_job_cpu_seconds_count", 4.0),
    ] {
        assert_eq!(value(&text, series), expected, "{series}");
    }
    let told = hungry["max_rss_bytes"].as_u64().expect("more than the server itself") as f64;
    assert!(value(&text, "shellyard_job_peak_memory_bytes_sum") >= told);
    assert!(value(&text, "shellyard_job_peak_memory_bytes_bucket{le=\"268435456\"}") < 4.0);
    assert!(value(&text, "shellyard_job_cpu_seconds_sum") > 0.0);
}

#[test]
fn a_job_that_ignores_a_stop_is_stopping_until_it_is_killed() {
    let marker = Marker::new();
    let mut server = Launch::http().structured().start();
    let job = server.start(&format!("trap '' TERM; sleep {marker} & while :; do wait; done"));
    marker.wait_alive();
    let stopping = |server: &mut TestServer| value(&scraped(server), "shellyard_jobs_stopping");
    assert_eq!(stopping(&mut server), 0.0);
    server.call("stop_jobs", json!({"jobs": [job], "grace_s": 600})).ok();
    eventually("it is stopping", || stopping(&mut server) == 1.0);
    assert_eq!(value(&scraped(&mut server), "shellyard_jobs_running"), 1.0);
    server.call("stop_jobs", json!({"jobs": [job], "signal": "KILL"})).ok();
    server.wait_finished(job);
    assert_eq!(stopping(&mut server), 0.0);
}

#[test]
fn output_goes_to_disk_and_to_less_room_and_is_gone_when_it_is_freed() {
    let config = "[output]\ncompress_from = \"1 MiB\"\n[retention]\nmax_finished = 1\n";
    let mut server = Launch::http().structured().config(config).start();
    let wait = |gate: &str| format!("while [ ! -e {gate} ]; do sleep 0.05; done");
    let job = server.start(&format!(
        "head -c 1000 /dev/zero; {}; head -c 2000000 /dev/zero; {}",
        wait("grow"),
        wait("end")
    ));
    let open = |server: &TestServer, gate: &str| {
        fs::write(server.work().join(gate), "").expect("it opens")
    };
    // Of a job that survives a crash, a file has every byte.
    eventually("a file holds it", || in_tiers(&mut server)[1] == 1000.0);
    open(&server, "grow");
    eventually("it holds more", || in_tiers(&mut server) == [0.0, 2_001_000.0, 0.0]);
    assert_eq!(value(&scraped(&mut server), "shellyard_retained_bytes"), 0.0, "it still runs");
    open(&server, "end");
    server.wait_finished(job);
    eventually("it takes less room", || {
        let [memory, disk, compressed] = in_tiers(&mut server);
        (memory, disk) == (0.0, 0.0) && compressed > 0.0 && compressed < 100_000.0
    });
    let [.., compressed] = in_tiers(&mut server);
    eventually("retention knows", || {
        value(&scraped(&mut server), "shellyard_retained_bytes") == compressed
    });
    server.run("true");
    eventually("nothing is left", || in_tiers(&mut server) == [0.0; 3]);
    assert_eq!(value(&scraped(&mut server), "shellyard_retained_bytes"), 0.0);
}

#[test]
fn what_could_not_be_kept_was_written_all_the_same() {
    let config = "[output]\nmax_store = \"1 MiB\"\n";
    let mut server = Launch::http().structured().config(config).start();
    server.run("head -c 3000000 /dev/zero");
    let text = scraped(&mut server);
    for series in [
        "shellyard_output_bytes_total{stream=\"merged\"}",
        "shellyard_tenant_output_bytes_total{tenant=\"local\"}",
        "shellyard_job_output_bytes_sum",
    ] {
        assert_eq!(value(&text, series), 3_000_000.0, "{series}");
    }
    let dropped = value(&text, "shellyard_output_dropped_bytes_total{reason=\"store_full\"}");
    assert!(dropped > 1_900_000.0 && dropped < 3_000_000.0, "{dropped}");
}

#[test]
fn bounds_stand_beside_their_use() {
    let config = "[retention]\nmax_finished = 7\nmax_bytes = \"3 MiB\"\n";
    let mut server = Launch::http().structured().config(config).start();
    server.run("printf four");
    let text = scraped(&mut server);
    assert_eq!(value(&text, "shellyard_retained_limit_bytes"), 3.0 * 1024.0 * 1024.0);
    assert_eq!(value(&text, "shellyard_jobs_retained_limit"), 7.0);
    for (used, limit) in [
        ("shellyard_data_disk_free_bytes", "shellyard_data_disk_size_bytes"),
        ("process_open_fds", "process_max_fds"),
        ("process_resident_memory_bytes", "process_virtual_memory_bytes"),
    ] {
        let (used, limit) = (value(&text, used), value(&text, limit));
        assert!(0.0 < used && used <= limit, "{used} of {limit}");
    }
}

#[test]
fn the_process_is_measured_as_the_system_sees_it() {
    let mut server = Launch::http().structured().start();
    let text = scraped(&mut server);
    eventually("both count the same threads", || {
        let counted = value(&scraped(&mut server), "process_threads");
        let status =
            fs::read_to_string(format!("/proc/{}/status", server.server_pid())).expect("it runs");
        let threads = status.lines().find_map(|line| line.strip_prefix("Threads:"));
        let threads: f64 = threads.expect("a count").trim().parse().expect("a number");
        (counted - threads).abs() <= 2.0
    });
    let started = value(&text, "process_start_time_seconds");
    let built = fs::metadata(tested_program()).and_then(|data| data.modified());
    let built = built.expect("a time").duration_since(std::time::UNIX_EPOCH).expect("after 1970");
    assert!(started >= built.as_secs_f64() - 2.0, "{started} before {built:?}");
    let again = scraped(&mut server);
    assert_eq!(value(&again, "process_start_time_seconds"), started);
    assert!(
        value(&again, "process_cpu_seconds_total") >= value(&text, "process_cpu_seconds_total")
    );
}
