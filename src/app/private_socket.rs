//! The private socket of a server on standard input and output, through which its own user sees and
//! stops its jobs.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime;
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::module_settings;
use crate::client::{private_socket, private_socket_dir, remove_stale_sockets};
use crate::config::Settings;
use crate::http::{HttpServerSettings, HttpServices, OfferedRoutes, Server, SocketPath};
use crate::mcp::Handler;
use crate::private_files::ensure_private_dir;
use crate::process::Host;
use crate::telemetry::events;

/// The longest wait for a client before the socket is opened.
const CLIENT_TIME: Duration = Duration::from_secs(1);

/// The time for the answer to a client that has introduced itself, before the socket is opened.
const ANSWER_TIME: Duration = Duration::from_millis(50);

/// The longest wait for the removal of the socket at the end of the server.
const CLOSE_TIME: Duration = Duration::from_millis(500);

/// The server behind a private socket, in a task of its own.
pub(super) struct PrivateSocket {
    shutdown: CancellationToken,
    serving: JoinHandle<()>,
}

impl PrivateSocket {
    /// Opens the socket in the background, once the client has its first answer: it neither delays
    /// that nor keeps the server from starting. A log line says why, if it cannot be opened.
    pub(super) fn open(settings: &Settings, host: Arc<Host>, services: HttpServices) -> Self {
        let data_dir = settings.server.data_dir.clone();
        let path = private_socket(&data_dir, std::process::id());
        let http = HttpServerSettings {
            bind: None,
            socket: Some(SocketPath::Configured(path.clone())),
            job_detection: module_settings::new_private_job_detection(host),
            allow_jobs: settings.http.allow_jobs,
            routes: OfferedRoutes::ApiOnly,
            ..HttpServerSettings::default()
        };
        let shutdown = CancellationToken::new();
        let end = shutdown.clone();
        let handler = services.handler.clone();
        let serving = tokio::spawn(async move {
            if end.run_until_cancelled(wait_for_first_answer(handler)).await.is_none() {
                return;
            }
            match bind(http, data_dir.clone()).await {
                Ok(server) => {
                    spawn_blocking(move || remove_stale(&data_dir));
                    server.serve(services, end).await;
                }
                Err(why) => events::private_socket_unavailable(&path, &why),
            }
        });
        Self { shutdown, serving }
    }

    /// Closes the socket and removes its file.
    pub(super) async fn close(self) {
        self.shutdown.cancel();
        // A disk that does not answer must not hold up the exit; the next server removes the file.
        timeout(CLOSE_TIME, self.serving).await.ok();
    }
}

/// Waits until the client has introduced itself and probably has its answer, or makes no move to.
async fn wait_for_first_answer(handler: Handler) {
    // A client that says nothing may be a person who looks for the server.
    timeout(CLIENT_TIME, handler.wait_for_client()).await.ok();
    sleep(ANSWER_TIME).await;
}

/// Binds the socket on a thread that may wait for the disk.
async fn bind(http: HttpServerSettings, data_dir: PathBuf) -> Result<Server, String> {
    let runtime = runtime::Handle::current();
    let bind = move || {
        ensure_private_dir(&private_socket_dir(&data_dir)).map_err(|error| error.to_string())?;
        runtime.block_on(Server::bind(http)).map_err(|error| error.to_string())
    };
    spawn_blocking(bind).await.map_err(|error| error.to_string())?
}

/// Removes the sockets of servers that were killed.
pub(super) fn remove_stale(data_dir: &Path) {
    if let Err(error) = remove_stale_sockets(data_dir) {
        events::stale_sockets_not_removed(&private_socket_dir(data_dir), &error);
    }
}
