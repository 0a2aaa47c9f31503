//! Alice, a tenant who has used every feature, and the checks that nothing of hers changed.

use serde_json::{Value, json};

use super::world::{LEGACY, TenantServer, TenantSession};
use crate::harness::{
    Era, HttpConnection, HttpLink, Marker, TASKS, bytes_of, declaring, eventually, eventually_some,
    text,
};

/// A word that only she knows. It is in commands, descriptions, output, errors and variables.
pub(super) const SECRET: &str = "quokka";

/// Her name for a job, which others may choose as well.
pub(super) const KEY: &str = "nightly";

/// A command that others may run as well.
pub(super) const COMMAND: &str = "seq 1 5000";

/// The id of her call that is not answered yet, and the name of its progress.
pub(super) const REQUEST: u64 = 7001;
pub(super) const PROGRESS: &str = "of-request-7001";

/// More jobs than others have in the same test: her numbers are hers alone.
const EARLIER: usize = 60;

/// Everything that another tenant could attack.
#[derive(Debug, Clone)]
pub(super) struct AttackTargets {
    /// Jobs of each kind: running, finished, queued, queued in a lane, freed.
    pub(super) running: u64,
    pub(super) finished: u64,
    pub(super) queued: u64,
    pub(super) building: u64,
    pub(super) freed: u64,
    /// A job that her unanswered call waits for.
    pub(super) awaited: u64,
    pub(super) session: String,
    /// The URI of the output that `shell_exec` spilled.
    pub(super) spilled: String,
    /// A cursor into that output.
    pub(super) cursor: String,
    /// The name of the queued job as a task.
    pub(super) task: String,
}

impl AttackTargets {
    /// The numbers of all her jobs.
    pub(super) const fn jobs(&self) -> [u64; 6] {
        [self.running, self.finished, self.queued, self.building, self.freed, self.awaited]
    }
}

/// Alice with jobs in every state.
pub(super) struct Alice {
    pub(super) client: TenantSession,
    pub(super) targets: AttackTargets,
    /// Her output before anyone else connected.
    finished: String,
    queue: Vec<u64>,
    unanswered: HttpConnection,
    /// The marker that her jobs sleep for; dropping it kills them.
    sleeps: Marker,
}

impl Alice {
    /// Creates jobs in every state.
    #[track_caller]
    pub(super) fn busy_in(world: &mut TenantServer) -> Self {
        let mut client = world.client("alice");
        for _ in 0..EARLIER {
            client.start(json!({"command": "true"}));
        }
        let freed = write_until_freed(&mut client);
        let spilled = client
            .call(
                "shell_exec",
                json!({"cmd": COMMAND, "page": {"limit_lines": 3}, "on_large_output": "spill"}),
            )
            .ok();
        let word = |field: &str| spilled[field].as_str().expect("a word").to_owned();
        let (uri, cursor) = (word("spill_uri"), word("next_cursor"));
        let finished = client.call("run_command", telling()).ok().job();
        client.wait(finished);
        client.rpc("resources/list", json!({}));
        let sleeps = Marker::new();
        let reading = format!("while read line; do echo $line; done; sleep {sleeps}");
        let running = client.start(json!({"command": reading, "description": SECRET}));
        subscribe(&mut client, running);
        let (unanswered, awaited) = call_and_wait(&mut client, &sleeps);
        let (queued, task) = call_for_a_task(&client);
        client.start(json!({"command": format!("echo {SECRET}"), "priority": "high"}));
        let building = client.start(json!({"command": format!("echo {SECRET}"), "lane": "build"}));
        let session = client.link.session().to_owned();
        let targets = AttackTargets {
            running,
            finished,
            queued,
            building,
            freed,
            awaited,
            session,
            spilled: uri,
            cursor,
            task,
        };
        let queue = client.jobs("queued");
        assert_eq!(queue.len(), 3, "they wait for her own limit");
        let finished = whole(&mut client, targets.finished);
        assert_eq!(finished, format!("{SECRET}\n{SECRET}\n"), "on both streams");
        Self { client, targets, finished, queue, unanswered, sleeps }
    }

    /// Checks that all of it is as it was.
    #[track_caller]
    pub(super) fn assert_unharmed(self) {
        let Self { mut client, targets, finished, queue, mut unanswered, sleeps } = self;
        assert_eq!(client.jobs("queued"), queue, "her queue");
        assert_eq!(client.jobs("running"), [targets.awaited, targets.running]);
        assert_eq!(whole(&mut client, targets.finished), finished, "her output");
        let again = client.call("run_command", telling()).ok();
        assert_eq!(again.job(), targets.finished, "her key is hers");
        let rest = client.call("read_file_chunk", json!({"uri": targets.spilled})).ok();
        assert_eq!(rest["total_bytes"], 23893, "{}", rest.0);
        let echoed = client.call("read_output", json!({"job": targets.running})).ok();
        assert_eq!(echoed["total_bytes"], 0, "nobody typed into it: {}", echoed.0);
        // The job continues until she ends it herself.
        sleeps.wait_alive();
        client.call("stop_jobs", json!({"jobs": [targets.awaited]})).ok();
        let mut answer = unanswered.answer();
        loop {
            let message = answer.message().expect("an answer at the end");
            if message["id"] == REQUEST {
                assert_eq!(message["result"]["structuredContent"]["outcome"], "stopped");
                break;
            }
            assert_eq!(message["params"]["progressToken"], PROGRESS, "{message}");
        }
    }
}

/// The arguments of a job that contains her secret in every possible field.
fn telling() -> Value {
    json!({
        "command": format!("echo {SECRET}; echo $WORD >&2"),
        "description": SECRET,
        "env": {"WORD": SECRET},
        "key": KEY,
        "streams": "separate",
    })
}

/// Writes more output than is kept for one tenant; returns the job whose output was freed.
#[track_caller]
fn write_until_freed(client: &mut TenantSession) -> u64 {
    let write = json!({"command": format!("yes {SECRET} | head -c 60000")});
    let first = client.call("run_command", write.clone()).ok().job();
    client.call("run_command", write).ok();
    eventually("the first one is freed", || {
        client.call("read_output", json!({"job": first})).is_error()
    });
    first
}

#[track_caller]
fn subscribe(client: &mut TenantSession, job: u64) {
    let uri = format!("shellyard://jobs/{job}/output");
    let answer = client.rpc("resources/subscribe", json!({"uri": uri}));
    assert_eq!(answer["result"], json!({}), "{answer}");
}

/// Calls for a job that sleeps, and leaves the call unanswered. Cancelled, it would end the job.
#[track_caller]
fn call_and_wait(client: &mut TenantSession, sleeps: &Marker) -> (HttpConnection, u64) {
    let arguments = json!({"command": format!("sleep {sleeps}"), "wait_s": 500});
    let params = json!({
        "name": "run_command", "arguments": arguments, "_meta": {"progressToken": PROGRESS},
    });
    let unanswered = client.link.post(&LEGACY.request(REQUEST, "tools/call", params));
    // Its process may run before the server has noted that it does.
    let running = eventually_some("both are told as running", || {
        Some(client.jobs("running")).filter(|running| running.len() == 2)
    });
    (unanswered, running[0])
}

/// Calls for a job that has to wait; its number, and its name as a task.
#[track_caller]
fn call_for_a_task(client: &TenantSession) -> (u64, String) {
    let mut link = HttpLink::new(Era::Modern);
    link.connect_to(client.link.address().to_owned());
    link.use_token(&client.token);
    let arguments = json!({"command": format!("echo {SECRET}")});
    let params = json!({"name": "run_command", "arguments": arguments});
    let params = declaring(json!({"extensions": {TASKS: {}}}), params);
    let answer = link.exchange(&Era::Modern.request(1, "tools/call", params));
    let task = answer["result"]["taskId"].as_str().expect("a task").to_owned();
    let job = task.split('-').nth(1).and_then(|job| job.parse().ok());
    (job.expect("a number"), task)
}

/// Everything that a job wrote.
#[track_caller]
fn whole(client: &mut TenantSession, job: u64) -> String {
    let page = client.call("read_output", json!({"job": job, "view": "raw"})).ok();
    text(&bytes_of(page.structured()))
}
