//! One running server and its client.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, ExitStatus};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use rustix::process::Signal;
use serde_json::{Value, json};

use super::http::{HttpConnection, HttpRequest};
use super::launch::Sandbox;
use super::link::{HttpLink, ServerLink};
use super::proc::{children_of, name_of, parent_of, signal};
use super::reply::Reply;
use super::stdio::StdioLink;
use super::wait::eventually_some;
use super::wire::{Era, initialize_params, notification};

/// A server process and a client that speaks to it. Killed on drop.
#[derive(Debug)]
pub(crate) struct TestServer {
    child: Child,
    sandbox: Sandbox,
    data: PathBuf,
    link: ServerLink,
    era: Era,
    next_id: u64,
    log_text: Arc<Mutex<String>>,
}

impl TestServer {
    pub(crate) fn new(
        mut child: Child,
        sandbox: Sandbox,
        data: PathBuf,
        link: ServerLink,
        era: Era,
    ) -> Self {
        let log_text = collect(child.stderr.take().expect("stderr was piped"));
        let mut server = Self { child, sandbox, data, link, era, next_id: 1, log_text };
        server.await_listening();
        server
    }

    /// Waits until an HTTP server logs its address; it was started with any free port.
    #[track_caller]
    fn await_listening(&mut self) {
        if let ServerLink::Stdio(_) = self.link {
            return;
        }
        let address = eventually_some("the server says where it listens", || {
            let ended = self.child.try_wait().expect("a child of ours");
            assert!(ended.is_none(), "it ended ({ended:?}) and said: {}", self.log_text());
            address_in(&self.log_text())
        });
        self.http().connect_to(address);
    }

    /// The text of `/metrics`.
    #[track_caller]
    pub(crate) fn metrics(&mut self) -> String {
        let mut connection = HttpConnection::open(self.http().address());
        connection.send(&HttpRequest::get("/metrics"));
        connection.answer().text()
    }

    /// The value of one series, spelled as in that text, labels included.
    #[track_caller]
    pub(crate) fn metric(&mut self, series: &str) -> f64 {
        let text = self.metrics();
        let found = text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
        found.unwrap_or_else(|| panic!("no {series} in {text}")).parse().expect("a number")
    }

    /// Does the handshake of a legacy client; modern clients have none.
    #[track_caller]
    pub(crate) fn handshake(&mut self) -> Value {
        let Era::Legacy(version) = self.era else { return Value::Null };
        let answer = self.rpc("initialize", initialize_params(version));
        assert!(answer.get("result").is_some(), "initialize failed: {answer}");
        self.notify("notifications/initialized", json!({}));
        answer
    }

    /// Sends a request and waits for its answer.
    #[track_caller]
    pub(crate) fn rpc(&mut self, method: &str, params: Value) -> Value {
        let id = self.fresh_id();
        let message = self.era.request(id, method, params);
        match &mut self.link {
            ServerLink::Stdio(link) => {
                link.send(&message);
                link.response(id)
            }
            ServerLink::Http(link) => link.exchange(&message),
        }
    }

    /// Sends a notification.
    #[track_caller]
    pub(crate) fn notify(&mut self, method: &str, params: Value) {
        let message = notification(method, params);
        match &mut self.link {
            ServerLink::Stdio(link) => link.send(&message),
            ServerLink::Http(link) => link.notify(&message),
        }
    }

    #[track_caller]
    pub(crate) fn call(&mut self, tool: &str, arguments: Value) -> Reply {
        Reply(self.rpc("tools/call", json!({"name": tool, "arguments": arguments})))
    }

    /// Runs shell text to its end.
    #[track_caller]
    pub(crate) fn run(&mut self, command: &str) -> Reply {
        self.call("run_command", json!({"command": command})).ok()
    }

    /// Runs shell text to its end, with separate streams.
    #[track_caller]
    pub(crate) fn run_separate(&mut self, command: &str) -> Reply {
        self.call("run_command", json!({"command": command, "streams": "separate"})).ok()
    }

    /// Runs shell text in the background and returns the job number.
    #[track_caller]
    pub(crate) fn start(&mut self, command: &str) -> u64 {
        self.call("run_command", json!({"command": command, "wait_s": 0})).ok().job()
    }

    /// Runs shell text to its end in steps, so that its separate streams come in one order: each
    /// `read _` in it waits until so many bytes are in the log.
    #[track_caller]
    pub(crate) fn run_in_steps(&mut self, command: &str, sizes: &[u64]) -> u64 {
        let arguments = json!({"command": command, "wait_s": 0, "streams": "separate"});
        let job = self.call("run_command", arguments).ok().job();
        for size in sizes {
            self.wait_written(job, *size);
            self.call("send_input", json!({"job": job, "text": "\n"})).ok();
        }
        self.wait_finished(job);
        job
    }

    /// Waits until so many bytes are in a job's log.
    #[track_caller]
    pub(crate) fn wait_written(&mut self, job: u64, bytes: u64) {
        eventually_some(&format!("{bytes} bytes are in the log of job {job}"), || {
            (self.read_raw(job, "bytes:0", 1)["total_bytes"] == bytes).then_some(())
        });
    }

    /// Waits until a job is reported as running.
    #[track_caller]
    pub(crate) fn wait_running(&mut self, job: u64) {
        eventually_some(&format!("job {job} runs"), || {
            let reply = self.call("wait_jobs", json!({"jobs": [job], "wait_s": 0})).ok();
            (reply.only_job()["state"] == "running").then_some(())
        });
    }

    /// Waits until a job has finished; its structured form.
    #[track_caller]
    pub(crate) fn wait_finished(&mut self, job: u64) -> Value {
        eventually_some(&format!("job {job} finishes"), || {
            // From the start: an earlier reply may have shown some of it.
            let wait = json!({"jobs": [job], "wait_s": 20, "cursor": "bytes:0"});
            let reply = self.call("wait_jobs", wait).ok();
            let status = reply.only_job().clone();
            (status["state"] == "finished").then_some(status)
        })
    }

    /// One raw page; its structured form.
    #[track_caller]
    pub(crate) fn read_raw(&mut self, job: u64, cursor: &str, max_bytes: u64) -> Value {
        let arguments =
            json!({"job": job, "view": "raw", "cursor": cursor, "max_bytes": max_bytes});
        self.call("read_output", arguments).ok().structured().clone()
    }

    /// Sends a tool call without waiting; stdio only.
    #[track_caller]
    pub(crate) fn begin(&mut self, tool: &str, arguments: Value) -> u64 {
        self.begin_with(json!({"name": tool, "arguments": arguments}))
    }

    /// The same, with all parameters of the request.
    #[track_caller]
    pub(crate) fn begin_with(&mut self, params: Value) -> u64 {
        let id = self.fresh_id();
        let message = self.era.request(id, "tools/call", params);
        self.stdio().send(&message);
        id
    }

    /// The answer to a call that was begun; stdio only.
    #[track_caller]
    pub(crate) fn finish(&mut self, id: u64) -> Reply {
        Reply(self.stdio().response(id))
    }

    /// The two pipes of a stdio server.
    #[track_caller]
    pub(crate) fn stdio(&mut self) -> &mut StdioLink {
        match &mut self.link {
            ServerLink::Stdio(link) => link,
            ServerLink::Http(_) => panic!("this server speaks HTTP"),
        }
    }

    /// The address of an HTTP server.
    #[track_caller]
    pub(crate) fn http(&mut self) -> &mut HttpLink {
        match &mut self.link {
            ServerLink::Http(link) => link,
            ServerLink::Stdio(_) => panic!("this server speaks stdio"),
        }
    }

    /// Returns an unused request id.
    pub(crate) const fn fresh_id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }

    /// The process that was started: the keeper of an HTTP server, else the server itself.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The process that has all the logic: of an HTTP server the one that holds the data directory.
    #[track_caller]
    pub(crate) fn server_pid(&self) -> u32 {
        if let ServerLink::Stdio(_) = self.link {
            return self.pid();
        }
        eventually_some("the server writes its number", || pid_in(&self.data))
    }

    /// The parent of the shims of all jobs: the process that was started for an HTTP server, else a child
    /// of the server.
    #[track_caller]
    pub(crate) fn keeper_pid(&self) -> u32 {
        match self.link {
            ServerLink::Http(_) => self.pid(),
            ServerLink::Stdio(_) => self.own_keeper_pid(),
        }
    }

    /// The keeper that is a child of the server: that of a server without a journal.
    #[track_caller]
    pub(crate) fn own_keeper_pid(&self) -> u32 {
        eventually_some("the server has a keeper", || {
            let mut children = children_of(self.pid()).into_iter();
            children.find(|pid| name_of(*pid).is_some_and(|name| name == "shellyard-keep"))
        })
    }

    /// The shims, dead ones included: one for each job that has processes or whose end is not recorded.
    #[track_caller]
    pub(crate) fn shims(&self) -> Vec<u32> {
        let is_shim = |pid: &u32| name_of(*pid).is_some_and(|name| name == "shellyard-shim");
        children_of(self.keeper_pid()).into_iter().filter(is_shim).collect()
    }

    /// The data directory.
    pub(crate) fn data(&self) -> &Path {
        &self.data
    }

    /// The default working directory of its jobs.
    pub(crate) fn work(&self) -> PathBuf {
        self.sandbox.work()
    }

    /// The directory that holds everything of this server.
    pub(crate) const fn sandbox(&self) -> &Sandbox {
        &self.sandbox
    }

    /// Waits until the log of the server contains these words.
    #[track_caller]
    pub(crate) fn expect_log(&self, words: &str) {
        eventually_some(&format!("the log says {words}"), || {
            self.log_text().contains(words).then_some(())
        });
    }

    /// The log of the server so far, from its stderr.
    pub(crate) fn log_text(&self) -> String {
        self.log_text.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Sends the server a signal.
    pub(crate) fn signal(&self, wanted: Signal) {
        signal(i32::try_from(self.pid()).expect("a pid fits"), wanted);
    }

    /// Kills the server and its keeper, so that neither can act on the end of the other.
    #[track_caller]
    pub(crate) fn kill_with_keeper(&mut self) {
        let both = [self.server_pid(), self.keeper_pid()];
        let both = both.map(|pid| i32::try_from(pid).expect("a pid fits"));
        for wanted in [Signal::STOP, Signal::KILL] {
            both.into_iter().for_each(|pid| signal(pid, wanted));
        }
        self.wait_exit();
        for pid in both {
            eventually_some("both are gone", || parent_of(pid).is_none().then_some(()));
        }
    }

    /// Waits until the server has ended by itself.
    #[track_caller]
    pub(crate) fn wait_exit(&mut self) -> ExitStatus {
        eventually_some("the server exits", || self.child.try_wait().expect("a child of ours"))
    }

    /// Checks that the server still answers.
    #[track_caller]
    pub(crate) fn assert_alive(&mut self) {
        let reply = self.run("echo still-here");
        assert!(reply.0.to_string().contains("still-here"), "{}", reply.0);
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("--- the server said:\n{}---", self.log_text());
        }
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// The number of the server that holds this data directory.
pub(crate) fn pid_in(data: &Path) -> Option<u32> {
    let text = fs::read_to_string(data.join("server.pid")).ok()?;
    text.lines().next()?.parse().ok()
}

/// The keeper of the server that holds this data directory; `None` if neither runs.
pub(crate) fn keeper_in(data: &Path) -> Option<i32> {
    let server = i32::try_from(pid_in(data)?).ok()?;
    // A server whose keeper is gone has another parent.
    parent_of(server).filter(|keeper| *keeper > 1)
}

/// Finds the `127.0.0.1:PORT` in the log of a server.
fn address_in(log_text: &str) -> Option<String> {
    const HOST: &str = "127.0.0.1:";
    let (_, rest) = log_text.split_once(HOST)?;
    let port: String = rest.chars().take_while(char::is_ascii_digit).collect();
    // Until something follows the port, digits of it may still be missing.
    (port.len() < rest.len()).then(|| format!("{HOST}{port}"))
}

/// Collects the stderr of the server, so that the server never blocks on it.
fn collect(stderr: ChildStderr) -> Arc<Mutex<String>> {
    let log_text = Arc::new(Mutex::new(String::new()));
    let sink = Arc::clone(&log_text);
    thread::spawn(move || {
        for line in BufReader::new(stderr).lines() {
            let Ok(line) = line else { break };
            let mut text = sink.lock().unwrap_or_else(PoisonError::into_inner);
            text.push_str(&line);
            text.push('\n');
        }
    });
    log_text
}
