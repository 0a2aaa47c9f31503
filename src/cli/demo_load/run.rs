//! The agents together: begun, counted, and brought to an end.

use std::io;
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, interval, sleep_until};

use super::DemoLoadFlags;
use super::agent::Agent;
use super::plan::Plan;
use super::session::Session;
use super::tally::{Tally, Told};
use crate::cli::ask::{AskError, get};
use crate::cli::talk;
use crate::cli::talk::Reply;
use crate::client::Client;

/// The time between two lines about how it goes.
const LINE_EVERY: Duration = Duration::from_secs(10);

/// What agents tell, at the most, before they wait to be heard.
const UNHEARD: usize = 64;

/// No bound that anybody reaches.
const FOREVER: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// Puts the load on the server that `operator` asks, with agents that take turns with the clients
/// in `tenants`, or with that of the operator. Says what came of it, and returns the exit code.
///
/// # Errors
/// When signals cannot be listened to.
pub async fn run(flags: &DemoLoadFlags, operator: &Client, tenants: &[Client]) -> io::Result<u8> {
    let clients = if tenants.is_empty() { std::slice::from_ref(operator) } else { tenants };
    let reply = match ready(operator, clients).await {
        Ok(lanes) => summary(flags, &load(flags, clients, &lanes).await?),
        Err(error) => flags.server.failure(&error),
    };
    Ok(reply.give())
}

/// The lanes of the server, once each client has been let in.
async fn ready(operator: &Client, clients: &[Client]) -> Result<Vec<String>, AskError> {
    for client in clients {
        Session::open(client).await?.close().await;
    }
    // Who may not see the queue uses no lane.
    let queue = get(operator, "/api/v1/queue").await.unwrap_or_default();
    let lanes = queue["lanes"].as_object().into_iter().flatten();
    Ok(lanes.map(|(name, _)| name.clone()).collect())
}

async fn load(flags: &DemoLoadFlags, clients: &[Client], lanes: &[String]) -> io::Result<Tally> {
    let (told, hearing) = mpsc::channel(UNHEARD);
    let (end, ended) = watch::channel(());
    let mut agents = JoinSet::new();
    let places = clients.iter().cycle().zip(0..u64::from(flags.agents.get()));
    for (client, agent) in places {
        let agent = Agent {
            client: client.clone(),
            plan: Plan::new(flags.seed, agent, lanes.to_vec()),
            deeds: share(flags, agent),
            pause: flags.pause,
            told: told.clone(),
        };
        agents.spawn(agent.work(ended.clone()));
    }
    drop(told);
    let tally = hear(flags.duration, hearing).await?;
    // Agents are told, and then waited for: they clean up.
    end.send(()).ok();
    agents.join_all().await;
    Ok(tally)
}

/// What of all deeds one agent does.
fn share(flags: &DemoLoadFlags, agent: u64) -> u64 {
    let agents = u64::from(flags.agents.get());
    let of_all = |deeds: u64| deeds / agents + u64::from(agent < deeds % agents);
    flags.deeds.map_or(u64::MAX, of_all)
}

/// Counts until the time is over, all deeds are done, or Ctrl-C.
async fn hear(duration: Duration, mut hearing: mpsc::Receiver<Told>) -> io::Result<Tally> {
    let begun = Instant::now();
    let end = begun + if duration.is_zero() { FOREVER } else { duration };
    let mut lines = interval(LINE_EVERY);
    lines.tick().await;
    let mut tally = Tally::default();
    loop {
        tokio::select! {
            told = hearing.recv() => match told {
                Some(told) => tally.add(told),
                None => return Ok(tally),
            },
            _ = lines.tick() => talk::say(&tally.line(begun.elapsed())),
            () = sleep_until(end) => return Ok(tally),
            interrupted = tokio::signal::ctrl_c() => return interrupted.map(|()| tally),
        }
    }
}

fn summary(flags: &DemoLoadFlags, tally: &Tally) -> Reply {
    let code = u8::from(tally.ours() > 0);
    let stdout = if flags.server.json { format!("{:#}\n", tally.json()) } else { tally.shown() };
    Reply { stdout, code, ..Reply::default() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{Cli, Command};
    use clap::Parser;

    #[test]
    fn the_shares_of_all_agents_are_all_deeds() {
        for line in ["--deeds 10 --agents 3", "--deeds 2 --agents 5", "--deeds 0"] {
            let words = format!("shellyard demo-load {line}");
            let cli = Cli::try_parse_from(words.split_whitespace()).unwrap();
            let Command::DemoLoad(flags) = cli.command else { panic!("not demo-load") };
            let all: u64 = (0..u64::from(flags.agents.get())).map(|n| share(&flags, n)).sum();
            assert_eq!(Some(all), flags.deeds, "{line}");
        }
    }
}
