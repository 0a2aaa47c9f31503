//! `pause` and `resume`.

use serde_json::json;

use super::{Hosted, OPERATORS};
use crate::harness::text;

#[test]
fn a_paused_queue_starts_nothing_until_it_is_resumed() {
    for who in OPERATORS {
        let mut hosted = Hosted::start("");
        let (running, marker) = hosted.holder();
        let (stdout, log_text) = hosted.ask_for_text(who, &["pause"]);
        assert_eq!(stdout, "");
        assert!(log_text.contains("the queue is paused (1 running, 0 queued)"), "{log_text}");
        assert!(log_text.contains("`shellyard resume`"), "{log_text}");
        let waiting = hosted.submit("echo at last", "default");
        assert_eq!(
            (&waiting["state"], &waiting["waits_for"]),
            (&json!("queued"), &json!("the queue is paused"))
        );
        let (table, _) = hosted.ask_for_text(who, &["jobs", "--all"]);
        assert!(table.contains("1 of 1: the queue is paused"), "{table}");
        assert_eq!(hosted.job_status(&running)["state"], "running");
        assert!(!marker.alive().is_empty(), "what runs goes on");
        assert!(hosted.ask_for_text(who, &["queue"]).0.contains("paused"));
        let queue = hosted.json(who, &["resume"]);
        assert_eq!(queue["paused"], false);
        hosted.await_state(&waiting, "finished");
        hosted.assert_audited(&format!("queue_paused: all lanes (by {})", who.tenant()));
        hosted.assert_audited(&format!("queue_resumed: all lanes (by {})", who.tenant()));
    }
}

#[test]
fn a_paused_lane_holds_its_own_jobs_alone() {
    for who in OPERATORS {
        let mut hosted = Hosted::start("");
        let queue = hosted.json(who, &["pause", "--lane", "build"]);
        assert_eq!(
            (&queue["paused"], &queue["lanes"]["build"]["paused"]),
            (&json!(false), &json!(true))
        );
        let waiting = hosted.submit("echo built", "build");
        assert_eq!(waiting["waits_for"], "lane build is paused");
        assert_eq!(hosted.server.run("echo free")["output"], "free\n");
        let (running, _marker) = hosted.holder();
        let (_, log_text) = hosted.ask_for_text(who, &["pause", "--lane", "build"]);
        assert!(log_text.contains("lane build is paused (0 running, 1 queued)"), "{log_text}");
        let (_, log_text) = hosted.ask_for_text(who, &["resume", "--lane", "net"]);
        assert!(log_text.contains("lane net is resumed (0 running, 0 queued)"), "{log_text}");
        let (_, log_text) = hosted.ask_for_text(who, &["pause", "--lane", "default"]);
        assert!(log_text.contains("lane default is paused (1 running, 0 queued)"), "{log_text}");
        hosted.ask_for_text(who, &["resume", "--lane", "default"]);
        assert_eq!(hosted.job_status(&running)["state"], "running");
        hosted.ask_for_text(who, &["pause"]);
        let (_, log_text) = hosted.ask_for_text(who, &["resume", "--lane", "build"]);
        assert!(log_text.contains("the queue is still paused: `shellyard resume`"), "{log_text}");
        assert_eq!(hosted.job_status(&waiting)["state"], "queued");
        hosted.ask_for_text(who, &["pause", "--lane", "build"]);
        let resumed = hosted.json(who, &["resume"]);
        assert_eq!(resumed["lanes"]["build"]["paused"], false, "all lanes are resumed");
        hosted.await_state(&waiting, "finished");
        hosted.ask_for_text(who, &["pause", "--lane", "build"]);
        let waiting = hosted.submit("echo again", "build");
        let (_, log_text) = hosted.ask_for_text(who, &["resume", "--lane", "build"]);
        assert!(log_text.contains("lane build is resumed"), "{log_text}");
        hosted.await_state(&waiting, "finished");
        let unknown = hosted.ask(who, &["pause", "--lane", "biuld"]);
        assert_eq!(unknown.status.code(), Some(1));
        let said = text(&unknown.stderr);
        assert!(said.contains("`biuld`") && said.contains("build, default, net"), "{said}");
        hosted.assert_audited(&format!("queue_paused: lane build (by {})", who.tenant()));
        hosted.assert_audited(&format!("queue_resumed: lane build (by {})", who.tenant()));
        let notes = hosted.audited();
        assert!(!notes.iter().any(|note| note.contains("biuld")), "{notes:?}");
    }
}
