//! What a pump answers when it is asked.

use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError, channel};

use futures_util::poll;
use ractor::{Actor, ActorProcessingErr, ActorRef};
use rustix::pipe::{PipeFlags, pipe_with};
use tokio::time::sleep;

use super::super::tests::{LONG, settings, spec};
use super::*;
use crate::output::{self, LogReader};
use crate::telemetry::events::Letter;

/// A job's actor that does nothing.
struct Deaf;

impl Actor for Deaf {
    type Msg = Letter<JobMsg>;
    type State = ();
    type Arguments = ();

    async fn pre_start(&self, _: ActorRef<Self::Msg>, (): ()) -> Result<(), ActorProcessingErr> {
        Ok(())
    }
}

/// A pump that waits for its pipe, and the other end of that.
struct Waiting {
    pump: Pin<Box<dyn Future<Output = ()>>>,
    probe: Probe,
    log: LogReader,
    pipe: OwnedFd,
}

async fn waiting(redactor: Option<&Arc<Redactor>>) -> Waiting {
    let (end, pipe) = pipe_with(PipeFlags::NONBLOCK | PipeFlags::CLOEXEC).unwrap();
    let (writer, log) = output::open(&settings().log);
    let (actor, _) = Actor::spawn(None, Deaf, ()).await.unwrap();
    let bounds = Bounds::of(JobId::local(1), &spec("true"));
    let stdout = OutputPipe::new(end).unwrap();
    let pump = Pump::new(stdout, None, writer, bounds, Address::of(actor)).with_masks(redactor);
    let probe = pump.probe();
    let mut pump: Pin<Box<dyn Future<Output = ()>>> = Box::pin(pump.run());
    assert!(poll!(&mut pump).is_pending());
    Waiting { pump, probe, log, pipe }
}

#[tokio::test]
async fn what_is_in_a_pipe_is_read_before_the_runtime_tells_of_it() {
    let Waiting { mut pump, probe, log, pipe } = waiting(None).await;
    rustix::io::write(&pipe, b"there").unwrap();
    let mut asking = Box::pin(probe.all_is_read());
    assert!(poll!(&mut asking).is_pending());
    assert!(poll!(&mut pump).is_pending());
    assert_eq!(log.progress().written_bytes(), 5);
    assert!(poll!(&mut asking).is_ready());
}

#[tokio::test]
async fn what_is_held_back_is_not_in_the_log_yet() {
    let redactor = Arc::new(Redactor::with_known_secrets(&[]).unwrap());
    let Waiting { mut pump, probe, log, pipe } = waiting(Some(&redactor)).await;
    rustix::io::write(&pipe, b"name? ").unwrap();
    let mut asking = Box::pin(probe.all_is_read());
    assert!(poll!(&mut asking).is_pending());
    assert!(poll!(&mut pump).is_pending());
    assert_eq!(log.progress().written_bytes(), 0);
    assert!(poll!(&mut asking).is_pending());
    tokio::select! {
        () = &mut pump => panic!("its pipe is open"),
        () = asking => {}
        () = sleep(LONG) => panic!("no answer"),
    }
    assert_eq!(log.progress().written_bytes(), 6);
}

/// Writes into a pipe without a pause that would end a flood, until `stop` is dropped.
fn flood(pipe: OwnedFd, stop: Receiver<()>) {
    while stop.try_recv() != Err(TryRecvError::Disconnected) {
        // A pipe that is full is tried again.
        rustix::io::write(&pipe, &[b'x'; 32 * 1024]).ok();
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[tokio::test]
async fn a_flood_answers_while_it_lasts() {
    let redactor = Arc::new(Redactor::with_known_secrets(&[]).unwrap());
    // Where secrets are hidden, a line without an end is held back for as long as it grows.
    for redactor in [None, Some(&redactor)] {
        let Waiting { mut pump, probe, log, pipe } = waiting(redactor).await;
        let (go_on, stop) = channel();
        let flooding = std::thread::spawn(move || flood(pipe, stop));
        let asking = async {
            while log.progress().written_bytes() < 4 * FLOOD_BYTES {
                sleep(Duration::from_millis(1)).await;
            }
            probe.all_is_read().await;
        };
        tokio::select! {
            () = &mut pump => panic!("its pipe is open"),
            () = asking => {}
            () = sleep(LONG) => panic!("no answer"),
        }
        drop(go_on);
        flooding.join().unwrap();
        pump.await;
    }
}
