//! `drain`: what is taken, what goes on, and the end.

use serde_json::json;

use super::{Hosted, OPERATORS, Who};
use crate::harness::{eventually, output_of, text};

const ONE_SLOT: &str = "[queue]\nslots = 1\n";

/// A submission is refused as `draining`.
#[track_caller]
fn assert_refused(hosted: &mut Hosted) {
    let refused = hosted.server.call("run_command", json!({"command": "touch never"}));
    let said = refused.error_text();
    assert!(said.contains("draining"), "{said}");
    assert_eq!(refused.0["result"]["structuredContent"]["error_code"], "draining", "{}", refused.0);
}

#[test]
fn a_draining_server_takes_nothing_new_and_finishes_what_it_has() {
    for who in OPERATORS {
        let mut hosted = Hosted::start(ONE_SLOT);
        let (running, _marker) = hosted.holder();
        let waiting = hosted.submit("echo queued", "default");
        let (stdout, log_text) = hosted.ask_for_text(who, &["drain"]);
        assert_eq!(stdout, "");
        assert!(log_text.contains("new jobs are refused (1 running, 1 queued)"), "{log_text}");
        assert!(log_text.contains("`shellyard drain --undo`"), "{log_text}");
        assert_refused(&mut hosted);
        assert_eq!(hosted.job_status(&running)["state"], "running");
        hosted.stop(&running);
        let emptied = hosted.json(who, &["drain", "--wait"]);
        assert_eq!((&emptied["running"], &emptied["queued"]), (&json!(0), &json!(0)));
        assert_eq!(hosted.job_status(&waiting)["exit_code"], 0, "what waited ran");
        assert!(hosted.ask_for_text(who, &["queue"]).0.contains("draining"));
        let (_, log_text) = hosted.ask_for_text(who, &["drain", "--undo"]);
        assert!(log_text.contains("new jobs are accepted again"), "{log_text}");
        hosted.server.assert_alive();
        assert!(!hosted.server.work().join("never").exists());
        let by = who.tenant();
        hosted.assert_audited(&format!("drain_begun: no new jobs are accepted (by {by})"));
        hosted.assert_audited(&format!("drain_ended: new jobs are taken again (by {by})"));
    }
}

#[test]
fn a_drained_server_ends_after_its_last_job_where_that_is_wished() {
    for who in OPERATORS {
        let mut hosted = Hosted::start(ONE_SLOT);
        let done = hosted.server.work().join("done");
        hosted.submit("while ! test -e go; do sleep 0.05; done", "default");
        hosted.submit("touch done", "default");
        let (_, log_text) = hosted.ask_for_text(who, &["drain", "--exit"]);
        assert!(
            log_text.contains("the server ends when no job is queued or running"),
            "{log_text}"
        );
        assert_refused(&mut hosted);
        hosted.assert_audited(&format!(
            "drain_begun: no new jobs are accepted, and the server ends after the last one (by {})",
            who.tenant()
        ));
        std::fs::write(hosted.server.work().join("go"), "").expect("a file of ours");
        let waited = hosted.ask(who, &["drain", "--exit", "--wait"]);
        // It may be gone before it can be asked to, or just as it is asked.
        let said = text(&waited.stderr);
        let endings = ["the server has ended", "no server answers", "broke off"];
        assert!(endings.iter().any(|words| said.contains(words)), "{said}");
        assert_eq!(hosted.server.wait_exit().code(), Some(0));
        assert!(done.exists(), "what waited ran before the end");
    }
}

#[test]
fn waiting_for_the_end_returns_when_the_server_is_gone() {
    let mut hosted = Hosted::start("");
    hosted.submit("while ! test -e go; do sleep 0.05; done", "default");
    let mut command = hosted.server.sandbox().command();
    command.args(["drain", "--exit", "--wait", "--data-dir"]).arg(hosted.server.sandbox().data());
    let waiting = std::thread::spawn(move || output_of(command, ""));
    eventually("it drains", || hosted.json(Who::Socket, &["queue"])["draining"] == true);
    assert!(!waiting.is_finished(), "a job runs");
    std::fs::write(hosted.server.work().join("go"), "").expect("a file of ours");
    let output = waiting.join().expect("it ends");
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(text(&output.stderr).contains("the server has ended"), "{output:?}");
    assert_eq!(hosted.server.wait_exit().code(), Some(0));
}

#[test]
fn an_end_that_was_taken_back_does_not_come_with_the_next_drain() {
    let mut hosted = Hosted::start("");
    let (running, _marker) = hosted.holder();
    hosted.ask_for_text(Who::Socket, &["drain", "--exit"]);
    hosted.ask_for_text(Who::Socket, &["drain", "--undo"]);
    hosted.stop(&running);
    hosted.ask_for_text(Who::Socket, &["drain", "--wait"]);
    // Many looks of the server at its own queue go by.
    for _ in 0..20 {
        assert_eq!(hosted.json(Who::Socket, &["queue"])["draining"], true);
    }
    hosted.ask_for_text(Who::Socket, &["drain", "--undo"]);
    hosted.server.assert_alive();
}

#[test]
fn whoever_waits_hears_that_the_drain_was_undone() {
    let mut hosted = Hosted::start("");
    let (_, _marker) = hosted.holder();
    let mut command = hosted.server.sandbox().command();
    command.args(["drain", "--wait", "--json", "--data-dir"]).arg(hosted.server.sandbox().data());
    let waiting = std::thread::spawn(move || output_of(command, ""));
    eventually("it drains", || hosted.json(Who::Socket, &["queue"])["draining"] == true);
    hosted.ask_for_text(Who::Admin, &["drain", "--undo"]);
    let output = waiting.join().expect("it ends");
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(text(&output.stdout).contains("drain_undone"), "{output:?}");
}
