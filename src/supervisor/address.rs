//! The addresses of the supervisor: the only way to send it messages.
//!
//! An [`Address`] reaches one actor and is useless after its end. A [`SupervisorAddress`] reaches
//! the current supervisor: when an actor fails, messages go to its successor.

use std::sync::Arc;
use std::time::Duration;

use ractor::{ActorCell, ActorRef, RpcReplyPort, call};
use tokio::sync::watch;
use tokio::time::sleep;

use super::actor::SupervisorMsg;
use super::handle::Supervisor;
use super::on_job_end::OnJobEnd;
use super::pressure::{HostResource, Pressure, PressureWatch};
use crate::job::JobHandle;
use crate::outcome::JobEnding;
use crate::output::{LogCompressor, Quota, ReclaimOutcome};
use crate::process::load::{self, PressureError};
use crate::spec::JobKind;
use crate::telemetry::ActorKind;
use crate::telemetry::events::{self, CountedMessage};

/// The address of one supervising actor. A cheap clone.
#[derive(Debug, Clone)]
pub(super) struct Address(ActorRef<CountedMessage<SupervisorMsg>>);

/// The actor is gone; the message did not reach it.
#[derive(Debug)]
pub(super) struct ActorGone;

impl Address {
    pub(super) const fn new(actor: ActorRef<CountedMessage<SupervisorMsg>>) -> Self {
        Self(actor)
    }

    /// Returns the actor as a parent for other actors.
    pub(super) fn cell(&self) -> ActorCell {
        self.0.get_cell()
    }

    pub(super) fn send(&self, message: SupervisorMsg) -> Result<(), ActorGone> {
        self.0.cast(CountedMessage::new(ActorKind::Supervisor, message)).map_err(|_| ActorGone)
    }

    /// Sends a message after this time, if the actor still exists then.
    pub(super) fn send_after(&self, pause: Duration, message: fn() -> SupervisorMsg) {
        self.0.send_after(pause, move || CountedMessage::new(ActorKind::Supervisor, message()));
    }

    /// Sends a message and waits for the reply; `None` if the actor is gone or fails before it
    /// replies.
    pub(super) async fn ask<T: Send + 'static>(
        &self,
        message: impl FnOnce(RpcReplyPort<T>) -> SupervisorMsg,
    ) -> Option<T> {
        call!(self.0, |reply| CountedMessage::new(ActorKind::Supervisor, message(reply))).ok()
    }

    fn is(&self, other: &Self) -> bool {
        self.0.get_id() == other.0.get_id()
    }
}

/// The actor that supervises now, if any.
#[derive(Debug)]
pub(super) enum CurrentSupervisor {
    /// There is none at the moment; a new one is being started.
    Restarting,
    Running(Address),
    GivenUp,
}

/// The address of the current supervisor. Clones are cheap.
#[derive(Debug, Clone)]
pub(super) struct SupervisorAddress {
    current: watch::Receiver<CurrentSupervisor>,
}

impl SupervisorAddress {
    /// Creates an address without a supervisor, and the sender that names the current one.
    pub(super) fn new() -> (watch::Sender<CurrentSupervisor>, Self) {
        let (set_current, current) = watch::channel(CurrentSupervisor::Restarting);
        (set_current, Self { current })
    }

    /// Sends a message that may be handled twice, and waits for the reply. If the actor fails while
    /// it handles the message, its successor is asked once. `None` if both fail, or if there is no
    /// successor.
    pub(super) async fn ask<T: Send + 'static>(
        &self,
        message: impl Fn(RpcReplyPort<T>) -> SupervisorMsg,
    ) -> Option<T> {
        let first = self.wait_for_current().await?;
        if let Some(reply) = first.ask(&message).await {
            return Some(reply);
        }
        // Every message is answered: an actor that did not answer has failed and will be replaced.
        self.wait_for_successor(&first).await?.ask(message).await
    }

    /// Sends a message that must not be handled twice, and waits for the reply.
    pub(super) async fn ask_once<T: Send + 'static>(
        &self,
        message: impl FnOnce(RpcReplyPort<T>) -> SupervisorMsg,
    ) -> Option<T> {
        self.wait_for_current().await?.ask(message).await
    }

    /// Reports a change of a job. No report is lost: a message that a failing actor had already
    /// taken is made up for by its successor, which checks all jobs when it starts.
    pub(super) async fn report(&self, message: impl Fn() -> SupervisorMsg) {
        let mut current = self.wait_for_current().await;
        while let Some(address) = current {
            if address.send(message()).is_ok() {
                return;
            }
            current = self.wait_for_successor(&address).await;
        }
    }

    /// Sends a message that may be lost, because it is repeated.
    pub(super) fn send_lossy(&self, message: SupervisorMsg) {
        if let CurrentSupervisor::Running(address) = &*self.current.borrow() {
            address.send(message).ok();
        }
    }

    /// Returns once no supervisor will be started any more.
    pub(super) async fn wait_until_given_up(&self) {
        let mut current = self.current.clone();
        // An error means that the root supervisor is gone, which has the same effect.
        current.wait_for(|current| matches!(current, CurrentSupervisor::GivenUp)).await.ok();
    }

    /// Returns the current supervisor; waits while there is none. `None` once it is given up.
    async fn wait_for_current(&self) -> Option<Address> {
        if let CurrentSupervisor::Running(address) = &*self.current.borrow() {
            return Some(address.clone());
        }
        // Boxed: this is rare, and each job has a task whose size would grow.
        Box::pin(self.next(|_| true)).await
    }

    /// Waits for the successor of this supervisor.
    async fn wait_for_successor(&self, failed: &Address) -> Option<Address> {
        Box::pin(self.next(|address| !address.is(failed))).await
    }

    async fn next(&self, is_meant: impl Fn(&Address) -> bool) -> Option<Address> {
        let mut current = self.current.clone();
        let found = current.wait_for(|current| match current {
            CurrentSupervisor::Restarting => false,
            CurrentSupervisor::Running(address) => is_meant(address),
            CurrentSupervisor::GivenUp => true,
        });
        match &*found.await.ok()? {
            CurrentSupervisor::Running(address) => Some(address.clone()),
            CurrentSupervisor::Restarting | CurrentSupervisor::GivenUp => None,
        }
    }
}

// Tasks that wait for an event and report it to the current supervisor.

/// The pause after a request for room that could not be met.
const SHORTAGE_PAUSE: Duration = Duration::from_millis(50);

/// Asks the supervisor for room whenever a cap on stored output is near. The request covers what is
/// short at that moment, after earlier frees have been given back.
pub(super) async fn watch_for_shortages(quota: Arc<Quota>, supervisor: SupervisorAddress) {
    loop {
        quota.wait_for_room_request().await;
        let shortages = quota.shortages();
        if shortages.is_empty() {
            quota.report_reclaim(ReclaimOutcome::Room);
            continue;
        }
        let make_room = |reply| SupervisorMsg::MakeRoom(shortages.clone(), reply);
        // Without a supervisor nothing is freed, and writers must not wait for it.
        if supervisor.ask(make_room).await.unwrap_or(0) > 0 {
            quota.report_reclaim(ReclaimOutcome::Room);
        } else {
            quota.report_reclaim(ReclaimOutcome::NoRoom);
            // Only running jobs hold the room, so a quick retry would not help.
            sleep(SHORTAGE_PAUSE).await;
        }
    }
}

/// The work that is left at the end of a job. Dropping it does that work, also when the runtime
/// ends.
#[derive(Debug)]
struct EndOfJobWork {
    on_end: Option<OnJobEnd>,
    job: JobHandle,
    ending: JobEnding,
}

impl Drop for EndOfJobWork {
    fn drop(&mut self) {
        if let Some(on_end) = self.on_end.take() {
            on_end.run(&self.job, &self.ending);
        }
    }
}

/// Reports the start of a service and the end of every job, each of which frees the job's slot. The
/// job's status shows the end even if its actor failed. Then waits until no process of the job runs,
/// and compresses its log.
pub(super) async fn watch_for_end(
    job: JobHandle,
    on_end: Option<OnJobEnd>,
    packer: Option<LogCompressor>,
    supervisor: SupervisorAddress,
) {
    let id = job.id();
    if job.spec().kind == JobKind::Service {
        job.started().await;
        supervisor.report(|| SupervisorMsg::ServiceStarted(id)).await;
    }
    let ending = job.finished().await;
    // Read before the end is reported: afterwards the report's receiver may have changed it.
    let was_complete = job.is_complete();
    supervisor.report(|| SupervisorMsg::Ended(id)).await;
    let due = on_end.map(|on_end| EndOfJobWork { on_end: Some(on_end), job: job.clone(), ending });
    // Callers that wait for the job get their answers first.
    tokio::task::yield_now().await;
    drop(due);
    if !was_complete {
        job.completed().await;
        supervisor.report(|| SupervisorMsg::Completed(id)).await;
    }
    let release = job.release_when_recorded();
    let packing = packer.and_then(|packer| job.output().compression_task(&packer));
    // Neither a slow journal nor a log that waits for its compression keeps the job from being
    // freed.
    drop(job);
    release.await;
    let Some(packing) = packing else { return };
    packing.run().await;
    supervisor.report(|| SupervisorMsg::Completed(id)).await;
}

// Samples the host's pressure, and tells the supervisor when to hold starts back.

/// The watched resources and the last logged state: only changes are logged.
#[derive(Debug)]
pub(super) struct Sampler {
    supervisor: Supervisor,
    settings: watch::Receiver<PressureWatch>,
    watched: PressureWatch,
    held: Option<Pressure>,
    unknown: Option<PressureError>,
}

impl Sampler {
    /// Creates a sampler that has taken its first sample, so that no job starts before it.
    pub(super) fn new(supervisor: Supervisor, settings: watch::Receiver<PressureWatch>) -> Self {
        let watched = *settings.borrow();
        let mut sampler = Self { supervisor, settings, watched, held: None, unknown: None };
        sampler.begin();
        sampler
    }

    /// Samples until the sender of the settings is dropped. Reads nothing while no level is set.
    pub(super) async fn run(mut self) {
        loop {
            tokio::select! {
                changed = self.settings.changed() => match changed {
                    Ok(()) => self.begin(),
                    Err(_) => return,
                },
                () = sleep(self.watched.every), if self.watched.levels.is_any() => self.take_sample(),
            }
        }
    }

    fn begin(&mut self) {
        self.watched = *self.settings.borrow_and_update();
        for resource in HostResource::ALL {
            events::pressure_limit_set(resource, self.watched.levels.level(resource));
            // A gauge that is no longer read must not keep its last value.
            events::pressure_measured(resource, 0);
        }
        self.take_sample();
    }

    fn take_sample(&mut self) {
        let levels = self.watched.levels;
        let readings = if levels.is_any() { self.read() } else { Vec::new() };
        let held = levels.hold(self.held, &readings);
        self.supervisor.set_pressure(held);
        if held == self.held {
            return;
        }
        match (self.held, held) {
            (None, Some(Pressure { resource, percent })) => events::starts_held(resource, percent),
            (Some(_), None) => events::starts_resumed(),
            (Some(_), Some(_)) | (None, None) => {}
        }
        self.held = held;
    }

    /// Reads every resource that the kernel reports: those without a level still have a gauge.
    ///
    /// Blocks for microseconds: the kernel prints these lines from memory.
    fn read(&mut self) -> Vec<Pressure> {
        let mut readings = Vec::new();
        let mut unknown = None;
        for resource in HostResource::ALL {
            match read_pressure(resource) {
                Ok(percent) => {
                    events::pressure_measured(resource, percent);
                    readings.push(Pressure { resource, percent });
                }
                Err(why) if self.watched.levels.level(resource).is_some() => unknown = Some(why),
                Err(_) => {}
            }
        }
        if let Some(why) = unknown.filter(|why| self.unknown != Some(*why)) {
            events::pressure_unavailable(&why, why.fix());
        }
        self.unknown = unknown;
        readings
    }
}

/// Reads the pressure on one resource of this host, in percent.
///
/// # Errors
/// If the kernel does not report it.
pub fn read_pressure(resource: HostResource) -> Result<u8, PressureError> {
    load::read_pressure(match resource {
        HostResource::Cpu => load::PressureResource::Cpu,
        HostResource::Memory => load::PressureResource::Memory,
        HostResource::Io => load::PressureResource::Io,
    })
}

#[cfg(test)]
mod tests {
    use ractor::{Actor, ActorProcessingErr, ActorRef};
    use tokio::sync::mpsc;

    use super::*;
    use super::{Address, CurrentSupervisor};
    use crate::job;
    use crate::output::LogWriter;
    use crate::telemetry::events::CountedMessage;

    /// An actor that completes the job as soon as its end is reported.
    struct JobCompleter;

    impl Actor for JobCompleter {
        type Msg = CountedMessage<SupervisorMsg>;
        type State = (Option<LogWriter>, mpsc::UnboundedSender<&'static str>);
        type Arguments = Self::State;

        async fn pre_start(
            &self,
            _: ActorRef<Self::Msg>,
            state: Self::State,
        ) -> Result<Self::State, ActorProcessingErr> {
            Ok(state)
        }

        async fn handle(
            &self,
            _: ActorRef<Self::Msg>,
            message: Self::Msg,
            (writer, reports): &mut Self::State,
        ) -> Result<(), ActorProcessingErr> {
            let message = message.into_inner();
            if let SupervisorMsg::Ended(_) = message {
                *writer = None;
                reports.send("ended")?;
            } else if let SupervisorMsg::Completed(_) = message {
                reports.send("completed")?;
            }
            Ok(())
        }
    }

    #[tokio::test]
    async fn a_job_that_completes_while_its_end_is_reported_is_reported_as_completed() {
        let (job, writer) = job::tests::ended_with_an_open_log();
        let (sender, mut reports) = mpsc::unbounded_channel();
        let (actor, ending) =
            Actor::spawn(None, JobCompleter, (Some(writer), sender)).await.unwrap();
        let (set_current, supervisor_address) = SupervisorAddress::new();
        set_current.send(CurrentSupervisor::Running(Address::new(actor.clone()))).unwrap();
        watch_for_end(job, None, None, supervisor_address).await;
        actor.drain().unwrap();
        ending.await.unwrap();
        assert_eq!(
            (reports.recv().await, reports.recv().await),
            (Some("ended"), Some("completed"))
        );
    }
}
