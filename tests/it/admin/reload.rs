//! New settings for a server that runs: by SIGHUP, and by `config reload`.

use rustix::process::Signal;
use serde_json::{Value, json};

use super::{Hosted, Who};
use crate::harness::{eventually, text};

/// The ways to make a server read its settings again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum By {
    Hangup,
    Verb(Who),
}

const ALL: [By; 3] = [By::Hangup, By::Verb(Who::Socket), By::Verb(Who::Admin)];

/// Has the server read this, and waits until these settings are written down as changed.
#[track_caller]
fn reload(hosted: &mut Hosted, by: By, config: &str, changed: &str) {
    hosted.server.sandbox().write("config.toml", config);
    let before = hosted.audited();
    let note = match by {
        By::Hangup => {
            hosted.server.signal(Signal::HUP);
            format!("settings_reloaded: {changed} (by local)")
        }
        By::Verb(who) => {
            let (stdout, _) = hosted.ask_for_text(who, &["config", "reload"]);
            for key in changed.split(", ").filter(|key| key.contains('.')) {
                let row = stdout.lines().find(|line| line.starts_with(key));
                assert!(row.is_some_and(|row| row.ends_with("  applied")), "{key}: {stdout}");
            }
            format!("settings_reloaded: {changed} (by {})", who.tenant())
        }
    };
    let count = |notes: &[String]| notes.iter().filter(|it| **it == note).count();
    eventually(&note, || count(&hosted.audited()) > count(&before));
}

#[test]
fn more_slots_start_jobs_that_wait() {
    for by in ALL {
        let mut hosted = Hosted::start("[queue]\nslots = 1\n");
        let (running, _marker) = hosted.holder();
        let waiting = hosted.submit("echo at last", "default");
        assert_eq!(waiting["waits_for"], "1/1 slots busy");
        reload(&mut hosted, by, "[queue]\nslots = 2\n", "queue.slots");
        hosted.await_state(&waiting, "finished");
        assert_eq!(hosted.job_status(&running)["state"], "running");
    }
}

#[test]
fn limits_of_a_tenant_change() {
    for by in ALL {
        let config = |running: u8, queued: u8| {
            format!("[quota]\nmax_queued = {queued}\n[tenants.alice]\nmax_running = {running}\n")
        };
        let mut hosted = Hosted::start(&config(1, 9));
        let (_, _marker) = hosted.holder();
        let waiting = hosted.submit("echo at last", "default");
        assert_eq!(waiting["waits_for"], "tenant limit 1");
        reload(&mut hosted, by, &config(1, 1), "quota.max_queued");
        let refused = hosted.server.call("run_command", json!({"command": "true", "wait_s": 0}));
        assert!(refused.is_error(), "{}", refused.0);
        assert_eq!(refused.0["result"]["structuredContent"]["error_code"], "tenant_limit");
        assert_eq!(hosted.job_status(&waiting)["state"], "queued", "what was accepted stays");
        reload(&mut hosted, by, &config(2, 1), "tenants.alice.max_running");
        hosted.await_state(&waiting, "finished");
    }
}

#[test]
fn a_new_lane_can_be_used_and_paused() {
    for by in ALL {
        let mut hosted = Hosted::start("");
        let wish = json!({"command": "echo deployed", "lane": "deploy"});
        assert!(hosted.server.call("run_command", wish.clone()).is_error());
        let lane = "[queue.lanes.deploy]\nslots = 1\n";
        reload(&mut hosted, by, lane, "queue.lanes.deploy.slots");
        assert_eq!(hosted.server.call("run_command", wish).ok()["output"], "deployed\n");
        hosted.ask_for_text(Who::Admin, &["pause", "--lane", "deploy"]);
        let waiting = hosted.submit("echo later", "deploy");
        assert_eq!(waiting["waits_for"], "lane deploy is paused");
        let wider = "[queue.lanes.deploy]\nslots = 2\n";
        reload(&mut hosted, by, wider, "queue.lanes.deploy.slots");
        assert_eq!(
            hosted.job_status(&waiting)["waits_for"],
            "lane deploy is paused",
            "a pause stays"
        );
        hosted.ask_for_text(Who::Admin, &["resume", "--lane", "deploy"]);
        hosted.await_state(&waiting, "finished");
    }
}

#[test]
fn what_a_change_takes_is_told_until_it_is_done() {
    let mut hosted = Hosted::start("");
    let config = "[http]\npath = \"/other\"\n[pressure]\ncpu = 90\nio = 70\n";
    hosted.server.sandbox().write("config.toml", config);
    let (stdout, log_text) = hosted.ask_for_text(Who::Admin, &["config", "reload"]);
    let expected = "pressure.cpu  applied\npressure.io   applied\nhttp.path     needs a restart\n";
    assert_eq!((&*stdout, &*log_text), (expected, ""));
    let again = hosted.json(Who::Socket, &["config", "reload"]);
    assert_eq!(again, json!({"applied": [], "needs_restart": ["http.path"]}), "it still does");
    hosted.server.assert_alive();
    hosted.server.sandbox().write("config.toml", "[pressure]\ncpu = 90\nio = 70\n");
    let (stdout, log_text) = hosted.ask_for_text(Who::Admin, &["config", "reload"]);
    assert_eq!((&*stdout, &*log_text), ("", "nothing changed\n"), "taken back");
}

#[test]
fn settings_that_cannot_be_used_change_nothing() {
    let mut hosted = Hosted::start("[queue]\nslots = 3\n");
    for (config, why) in [
        ("[queue]\nslots = \"many\"\n", "queue.slots"),
        ("[queue]\nslots = 9\n[tenants.\"a b\"]\nweight = 1\n", "a b"),
        ("[queue]\nslots = 9\n[policy]\ndeny = [\"re:(\"]\n", "policy.deny[0]"),
        ("[queue\n", "config.toml"),
    ] {
        hosted.server.sandbox().write("config.toml", config);
        for who in [Who::Socket, Who::Admin] {
            let refused = hosted.ask(who, &["config", "reload"]);
            assert_eq!(refused.status.code(), Some(1), "{config}: {refused:?}");
            let said = text(&refused.stderr);
            assert!(
                said.contains("the old settings stay in force") && said.contains(why),
                "{said}"
            );
            assert!(said.contains("`shellyard config check`"), "{said}");
        }
        let refused = hosted.ask(Who::Admin, &["config", "reload", "--json"]);
        let answer: Value = serde_json::from_slice(&refused.stdout).expect("JSON");
        assert_eq!((&answer["ok"], &answer["code"]), (&json!(false), &json!("not_reloaded")));
        assert_eq!(hosted.json(Who::Admin, &["queue"])["slots"], 3, "{config}");
    }
    let refusals = |hosted: &Hosted| {
        hosted.audited().iter().filter(|note| note.starts_with("reload_refused: ")).count()
    };
    eventually("each is written down", || refusals(&hosted) == 12);
    hosted.server.signal(Signal::HUP);
    eventually("the signal is refused too", || refusals(&hosted) == 13);
    hosted.server.expect_log("reload refused, the old settings stay in force");
    assert_eq!(hosted.json(Who::Admin, &["queue"])["slots"], 3);
    hosted.server.assert_alive();
}

#[test]
fn variables_of_a_tenant_reach_its_jobs_alone_and_change() {
    for by in ALL {
        let config = |value: &str| {
            format!("[tenants.alice]\nenvironment = [\"REGION={value}\", \"EMPTY=\"]\n")
        };
        let mut hosted = Hosted::start(&config("north=1"));
        let show = "echo ${REGION-none} ${EMPTY-unset}";
        assert_eq!(hosted.server.run(show)["output"], "north=1\n");
        let (alice, bob) = (hosted.alice.clone(), hosted.bob.clone());
        hosted.server.http().use_token(&bob);
        assert_eq!(hosted.server.run(show)["output"], "none unset\n");
        hosted.server.http().use_token(&alice);
        let own = json!({"command": show, "env": {"REGION": "mine"}});
        assert_eq!(hosted.server.call("run_command", own).ok()["output"], "mine\n");
        reload(&mut hosted, by, &config("south"), "tenants.alice.environment");
        assert_eq!(hosted.server.run(show)["output"], "south\n");
        reload(&mut hosted, by, "", "tenants.alice.environment");
        assert_eq!(hosted.server.run(show)["output"], "none unset\n");
    }
}
