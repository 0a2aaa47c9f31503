//! The running servers of this user: the shared one of `serve`, and those that clients started with
//! `stdio`; and the jobs in them, with their names on the command line: `3`, or `SERVER/3` if several
//! servers run.

use std::fmt;
use std::fs;
use std::time::Duration;

use clap::Args;
use futures_util::future::join_all;
use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};
use serde_json::Value;
use tokio::time::timeout;

use super::flags::parse_tenant;
use super::server_request::{ConnectFlags, ServerRequestError, get};
use super::text_layout::escape_for_terminal;
use crate::client::{Endpoint, ServerClient};
use crate::ids::{JobNumber, TenantId};

/// The number of tenants in which a search finds a job of the same number.
const MAX_LISTED: usize = 200;
/// The time in which the server of an editor has to answer.
const STDIO_TIMEOUT: Duration = Duration::from_secs(3);
/// The number of characters of a command in a list of candidates.
const MAX_COMMAND_CHARS: usize = 40;

/// Flags of every verb about jobs: the server, and whose jobs.
#[derive(Debug, Clone, PartialEq, Eq, Default, Args)]
pub struct JobScopeFlags {
    /// The jobs of all tenants; needs the role admin, or the server's own socket.
    #[arg(long, conflicts_with = "tenant")]
    pub all: bool,
    /// The jobs of this tenant; needs the role admin, or the server's own socket.
    #[arg(long, value_name = "NAME", value_parser = parse_tenant)]
    pub tenant: Option<TenantId>,
    #[command(flatten)]
    pub server: ConnectFlags,
}

impl JobScopeFlags {
    /// The tenants whose jobs are meant.
    pub(super) const fn scope(&self) -> TenantScope {
        match (self.all, self.tenant) {
            (true, _) => TenantScope::All,
            (false, Some(tenant)) => TenantScope::One(tenant),
            (false, None) => TenantScope::Own,
        }
    }
}

/// The tenants whose jobs a verb is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TenantScope {
    Own,
    One(TenantId),
    All,
}

impl TenantScope {
    /// Returns the part of a list request that chooses the tenants, with the `&` before it.
    pub(super) fn list_filter(self) -> String {
        match self {
            Self::All => "&all=1".to_owned(),
            // A tenant's name needs no escapes in a URL.
            Self::One(tenant) => format!("&tenant={}", tenant.name()),
            Self::Own => String::new(),
        }
    }
}

/// A server and its client.
#[derive(Debug, Clone)]
pub struct FoundServer {
    pub name: ServerLabel,
    pub client: ServerClient,
}

impl FoundServer {
    /// Returns the address of the server, for people.
    pub(super) fn target(&self) -> String {
        self.client.target().to_string()
    }
}

/// The servers that a verb asks.
#[derive(Debug)]
pub struct ServerSet {
    servers: Vec<FoundServer>,
}

/// The answers of several servers, and the errors of those that failed.
#[derive(Debug)]
pub(super) struct ServerAnswers {
    pub(super) answers: Vec<(FoundServer, Value)>,
    pub(super) failures: Vec<(ServerLabel, ServerRequestError)>,
}

/// A job, its server, and its state when it was found.
#[derive(Debug, Clone)]
pub(super) struct FoundJob {
    pub(super) server: FoundServer,
    pub(super) number: String,
    pub(super) tenant: Option<String>,
    pub(super) state: Value,
    /// The name of the job for people: with its server if several run.
    pub(super) name: String,
}

impl FoundJob {
    /// Returns the path of a request about this job, such as `/api/v1/jobs/3/stop`.
    pub(super) fn url(&self, part: &str, query: &[(&str, String)]) -> String {
        // No value has a character with a meaning in URLs: names of tenants, numbers, times in UTC.
        let tenant = self.tenant.iter().map(|tenant| format!("tenant={tenant}"));
        let query = query.iter().map(|(name, value)| format!("{name}={value}"));
        let query: Vec<String> = query.chain(tenant).collect();
        let mark = if query.is_empty() { "" } else { "?" };
        format!("/api/v1/jobs/{}{part}{mark}{}", self.number, query.join("&"))
    }
}

impl ServerSet {
    /// The one server that the user named.
    #[must_use]
    pub fn only(client: ServerClient) -> Self {
        Self { servers: vec![FoundServer { name: ServerLabel::Given, client }] }
    }

    /// The shared server, and those of all clients of this user.
    #[must_use]
    pub fn of_user(shared: Option<ServerClient>, stdio: Vec<(u32, ServerClient)>) -> Self {
        let shared = shared.map(|client| FoundServer { name: ServerLabel::Shared, client });
        let stdio = stdio
            .into_iter()
            .map(|(pid, client)| FoundServer { name: ServerLabel::Stdio(pid), client });
        Self { servers: shared.into_iter().chain(stdio).collect() }
    }

    /// Sends a GET request to every server. Servers that are not there are left out, unless there is
    /// no other.
    ///
    /// # Errors
    /// The first error, if no server answered.
    pub(super) async fn get_all(&self, path: &str) -> Result<ServerAnswers, ServerRequestError> {
        let requests = self.servers.iter().map(|server| ask(server, path));
        let results = join_all(requests).await;
        let mut answers = Vec::new();
        let mut failures = Vec::new();
        let mut absent = None;
        for (server, result) in self.servers.iter().zip(results) {
            match result {
                Ok(answer) => answers.push((server.clone(), answer)),
                Err(error) if is_absent(&error) => {
                    remove_stale_socket(server);
                    absent.get_or_insert(error);
                }
                Err(error) => failures.push((server.name, error)),
            }
        }
        if answers.is_empty() {
            let first = if failures.is_empty() { absent } else { Some(failures.remove(0).1) };
            return Err(first.unwrap_or(ServerRequestError::NoServers));
        }
        Ok(ServerAnswers { answers, failures })
    }

    /// Finds one job by its name.
    ///
    /// # Errors
    /// When no server has the job, several have one of this number, or a server refuses.
    pub(super) async fn find_job(
        &self,
        name: &JobName,
        scope: TenantScope,
    ) -> Result<FoundJob, ServerRequestError> {
        let servers: Vec<&FoundServer> =
            self.servers.iter().filter(|server| has_name(server, name.server)).collect();
        if let (Some(wanted), true) = (name.server, servers.is_empty()) {
            return Err(ServerRequestError::UnknownServer { name: wanted.to_string() });
        }
        let searches = servers.iter().map(|server| search(server, name, scope));
        let mut found = Vec::new();
        let mut failures = Vec::new();
        let mut absent = Vec::new();
        for (server, result) in servers.iter().zip(join_all(searches).await) {
            match result {
                Ok(jobs) => found.extend(jobs),
                Err(error) if is_absent(&error) => {
                    remove_stale_socket(server);
                    absent.push(error);
                }
                // The shared server is the first.
                Err(error) => failures.push((server.name, error)),
            }
        }
        if absent.len() == servers.len() {
            return Err(absent.into_iter().next().unwrap_or(ServerRequestError::NoServers));
        }
        let is_alone = self.servers.len() == 1;
        let mut jobs = found.into_iter().map(|job| FoundJob {
            name: if is_alone { name.number.to_string() } else { job.name },
            ..job
        });
        match (jobs.next(), jobs.next(), failures.into_iter().next()) {
            // The shared server may have the job that was meant. A suspended editor does not keep the
            // jobs of the others from being found.
            (Some(_), None, Some((ServerLabel::Shared, error))) => Err(error),
            (Some(job), None, _) => Ok(job),
            (Some(first), Some(second), _) => {
                let candidates = [first, second].into_iter().chain(jobs);
                let candidates = candidates.map(|job| format_candidate(&job)).collect();
                Err(ServerRequestError::AmbiguousJob { job: name.to_string(), candidates })
            }
            (None, _, Some((_, error))) => Err(error),
            (None, ..) => Err(ServerRequestError::UnknownJob { job: name.to_string() }),
        }
    }
}

/// Returns the jobs of one server that a name may mean: at most one, unless all tenants are searched.
async fn search(
    server: &FoundServer,
    name: &JobName,
    scope: TenantScope,
) -> Result<Vec<FoundJob>, ServerRequestError> {
    let number = name.number.to_string();
    let found = |state: Value, tenant: Option<String>| FoundJob {
        server: server.clone(),
        number: number.clone(),
        tenant,
        state,
        name: format!("{}/{number}", server.name),
    };
    let tenant = match scope {
        TenantScope::All => {
            let path = format!("/api/v1/jobs?all=1&job={number}&limit={MAX_LISTED}");
            let listed = ask(server, &path).await?;
            let jobs = listed["jobs"].as_array().map_or(&[][..], Vec::as_slice);
            return Ok(jobs
                .iter()
                .map(|job| found(job.clone(), job["tenant"].as_str().map(str::to_owned)))
                .collect());
        }
        TenantScope::One(tenant) => Some(tenant.name().to_owned()),
        TenantScope::Own => None,
    };
    let job = found(Value::Null, tenant.clone());
    match ask(server, &job.url("", &[])).await {
        Ok(state) => Ok(vec![found(state, tenant)]),
        Err(error) if error.code() == "unknown_job" => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

/// Sends a GET request. The server of an editor that is suspended does not answer, and must not hold
/// up the others.
async fn ask(server: &FoundServer, path: &str) -> Result<Value, ServerRequestError> {
    let answer = get(&server.client, path);
    match server.name {
        ServerLabel::Stdio(_) => timeout(STDIO_TIMEOUT, answer).await.unwrap_or_else(|_| {
            let target = server.target();
            Err(ServerRequestError::NoAnswer { target })
        }),
        ServerLabel::Given | ServerLabel::Shared => answer.await,
    }
}

fn has_name(server: &FoundServer, wanted: Option<ServerLabel>) -> bool {
    match (server.name, wanted) {
        (_, None) | (ServerLabel::Given, Some(ServerLabel::Shared)) => true,
        (name, Some(wanted)) => name == wanted,
    }
}

/// `true` if nobody listens there.
const fn is_absent(error: &ServerRequestError) -> bool {
    matches!(error, ServerRequestError::NoServer { .. })
}

fn format_candidate(job: &FoundJob) -> String {
    let text = |name: &str| job.state[name].as_str().unwrap_or_default();
    let tenant = match &job.tenant {
        Some(tenant) => format!(" --tenant {tenant}"),
        None => String::new(),
    };
    let client = match text("client") {
        "" => String::new(),
        client => format!(" of {}", escape_for_terminal(client)),
    };
    let command: String = text("command").chars().take(MAX_COMMAND_CHARS).collect();
    format!("{}{tenant}{client}: {}", job.name, escape_for_terminal(&command))
}

/// Removes the socket of a `stdio` server that has ended: its process is gone and nobody listens.
fn remove_stale_socket(server: &FoundServer) {
    let (ServerLabel::Stdio(pid), Endpoint::Socket(path)) =
        (server.name, server.client.target().endpoint())
    else {
        return;
    };
    // A server that is just starting has its socket before it listens.
    if !is_alive(pid) {
        // Another process may have removed the file in the meantime.
        fs::remove_file(path).ok();
    }
}

fn is_alive(pid: u32) -> bool {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    // An error other than "no such process" is about a process that exists.
    pid.is_some_and(|pid| test_kill_process(pid) != Err(Errno::SRCH))
}

// Names of servers and jobs.

/// The name of the server that `shellyard serve` started.
const SHARED_NAME: &str = "serve";

/// The name of a server among those of this user.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ServerLabel {
    /// The server of `--connect`.
    Given,
    /// The server that `shellyard serve` started, on its socket.
    Shared,
    /// The server of one client, by its process id.
    Stdio(u32),
}

impl ServerLabel {
    /// `true` for the server of one client.
    pub(super) const fn is_stdio(self) -> bool {
        match self {
            Self::Stdio(_) => true,
            Self::Given | Self::Shared => false,
        }
    }
}

impl fmt::Display for ServerLabel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Given | Self::Shared => f.write_str(SHARED_NAME),
            Self::Stdio(pid) => write!(f, "s{pid}"),
        }
    }
}

/// The name of a job as typed: its number, and its server if that was given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobName {
    pub server: Option<ServerLabel>,
    pub number: JobNumber,
}

impl fmt::Display for JobName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.server {
            Some(server) => write!(f, "{server}/{}", self.number),
            None => write!(f, "{}", self.number),
        }
    }
}

/// Parses `3`, `serve/3`, `s1234/3` or `1234/3`.
pub(super) fn parse_job_name(text: &str) -> Result<JobName, String> {
    let bad = || {
        "give the number of a job, such as 3, or SERVER/NUMBER, such as s1234/3; `shellyard jobs` lists them"
            .to_owned()
    };
    let (server, number) = match text.split_once('/') {
        None => (None, text),
        Some((SHARED_NAME, number)) => (Some(ServerLabel::Shared), number),
        Some((server, number)) => {
            let pid = server.strip_prefix('s').unwrap_or(server);
            (Some(ServerLabel::Stdio(pid.parse().map_err(|_| bad())?)), number)
        }
    };
    Ok(JobName { server, number: number.parse().map_err(|_| bad())? })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::client::ServerTarget;

    fn client(path: &str) -> ServerClient {
        ServerClient::new(ServerTarget::socket(path.into(), "/mcp"), None).unwrap()
    }

    #[test]
    fn a_request_names_the_job_and_the_tenant() {
        let server = FoundServer { name: ServerLabel::Given, client: client("/s") };
        let (number, name, state) = ("3".to_owned(), "3".to_owned(), json!({}));
        let mut job = FoundJob { server, number, tenant: None, state, name };
        assert_eq!(job.url("", &[]), "/api/v1/jobs/3");
        assert_eq!(job.url("/output", &[("follow", "1".into())]), "/api/v1/jobs/3/output?follow=1");
        job.tenant = Some("ci".into());
        assert_eq!(job.url("/stop", &[]), "/api/v1/jobs/3/stop?tenant=ci");
    }

    #[tokio::test]
    async fn a_socket_without_a_process_is_removed_and_another_is_not() {
        let dir = tempfile::tempdir().unwrap();
        // No process has this id: it is above the limit of the kernel.
        for (pid, is_kept) in [(std::process::id(), true), (4_194_305, false)] {
            let path = dir.path().join(format!("{pid}.sock"));
            // Nobody listens on the socket any more.
            drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
            let stale = vec![(pid, client(path.to_str().unwrap()))];
            let error = ServerSet::of_user(None, stale).get_all("/x").await.unwrap_err();
            assert_eq!(error.code(), "no_server");
            assert_eq!(path.exists(), is_kept, "{pid}");
        }
        let error = ServerSet::of_user(None, Vec::new()).get_all("/x").await.unwrap_err();
        assert_eq!(error.code(), "no_server");
        assert!(error.to_string().contains("`shellyard serve`"), "{error}");
    }

    #[test]
    fn a_name_has_a_number_and_perhaps_a_server() {
        let name = |server, number| JobName { server, number: JobNumber::new(number) };
        for (text, expected) in [
            ("3", name(None, 3)),
            ("serve/3", name(Some(ServerLabel::Shared), 3)),
            ("s1234/12", name(Some(ServerLabel::Stdio(1234)), 12)),
            ("1234/12", name(Some(ServerLabel::Stdio(1234)), 12)),
        ] {
            assert_eq!(parse_job_name(text).unwrap(), expected, "{text}");
        }
        assert_eq!(parse_job_name("1234/12").unwrap().to_string(), "s1234/12");
        for text in ["", "x", "0", "-1", "s/3", "s1/", "a/b/3", "ss1/3", "3/"] {
            assert!(parse_job_name(text).is_err_and(|why| why.contains("s1234/3")), "{text}");
        }
    }
}
