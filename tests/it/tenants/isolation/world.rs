//! A server with several tenants, and a client of one of them.

use serde_json::{Value, json};

use crate::harness::{Era, HttpLink, HttpRequest, Launch, Reply, TestServer};
use crate::tenants::tokens::create_token;

/// All tools that there are.
pub(super) const DIALECTS: &str =
    "native,shell,execute,run_shell_command,execute_command,shell_exec";

/// Alice has limits of her own, so that her jobs wait while all others find room. What the host
/// is short of is left out, since it changes by itself.
const CONFIG: &str = "\
[queue]
slots = 8
[tenants.alice]
max_running = 2
[retention]
tenant_max_bytes = 100000
[pressure]
memory = 0
io = 0
";

/// A server that offers everything, and has tokens.
pub(super) struct TenantServer {
    pub(super) server: TestServer,
}

impl TenantServer {
    /// Starts a server that answers with text and structured content.
    #[track_caller]
    pub(super) fn new() -> Self {
        Self::with(CONFIG)
    }

    /// The same with other settings.
    #[track_caller]
    pub(super) fn with(config: &str) -> Self {
        let launch = Launch::http().args(&["--dialect", DIALECTS, "--result-format", "both"]);
        Self { server: launch.config(config).start_silent() }
    }

    /// A token of this tenant in this role.
    #[track_caller]
    pub(super) fn token(&self, tenant: &str, role: &str) -> String {
        create_token(self.server.sandbox(), &[tenant, "--role", role]).0
    }

    pub(super) fn address(&mut self) -> String {
        self.server.http().address().to_owned()
    }

    /// A client with a session of its own, whose tenant may run jobs.
    #[track_caller]
    pub(super) fn client(&mut self, tenant: &str) -> TenantSession {
        let token = self.token(tenant, "run");
        TenantSession::open(&self.address(), &token)
    }

    /// Sends a request with this token; its status and what it was answered with.
    #[track_caller]
    pub(super) fn ask(&mut self, request: HttpRequest, token: &str) -> (u16, String) {
        let said = crate::tenants::ask(&mut self.server, request, Some(token));
        (said.status, said.text)
    }
}

pub(super) struct TenantSession {
    pub(super) link: HttpLink,
    pub(super) token: String,
    last_id: u64,
}

impl TenantSession {
    #[track_caller]
    pub(super) fn open(address: &str, token: &str) -> Self {
        let mut link = HttpLink::new(LEGACY);
        link.connect_to(address.to_owned());
        link.use_token(token);
        let mut client = Self { link, token: token.to_owned(), last_id: 0 };
        let answer = client.rpc("initialize", initialize());
        assert!(answer.get("result").is_some(), "{answer}");
        client.link.notify(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        client
    }

    #[track_caller]
    pub(super) fn rpc(&mut self, method: &str, params: Value) -> Value {
        self.last_id += 1;
        let message = LEGACY.request(self.last_id, method, params);
        self.link.exchange(&message)
    }

    #[track_caller]
    pub(super) fn call(&mut self, tool: &str, arguments: Value) -> Reply {
        Reply(self.rpc("tools/call", json!({"name": tool, "arguments": arguments})))
    }

    /// Starts a job in the background; its number.
    #[track_caller]
    pub(super) fn start(&mut self, mut arguments: Value) -> u64 {
        arguments["wait_s"] = 0.into();
        self.call("run_command", arguments).ok().job()
    }

    /// Waits until a job has ended.
    #[track_caller]
    pub(super) fn wait(&mut self, job: u64) -> Value {
        let reply = self.call("wait_jobs", json!({"jobs": [job], "wait_s": 40})).ok();
        let status = reply.only_job().clone();
        assert_eq!(status["state"], "finished", "{status}");
        status
    }

    /// The numbers of the jobs in this state, newest first.
    #[track_caller]
    pub(super) fn jobs(&mut self, state: &str) -> Vec<u64> {
        let reply = self.call("list_jobs", json!({"state": state, "limit": 200})).ok();
        let jobs = reply["jobs"].as_array().expect("a list").clone();
        jobs.iter().filter_map(|job| job["job"].as_u64()).collect()
    }
}

/// The era with sessions.
pub(super) const LEGACY: Era = Era::Legacy("2025-11-25");

/// The params of the `initialize` request.
pub(super) fn initialize() -> Value {
    let client = json!({"name": "it", "version": "1.0.0"});
    json!({"protocolVersion": LEGACY.version(), "capabilities": {}, "clientInfo": client})
}
