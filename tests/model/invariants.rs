//! The guarantees, as checks of a state.

use super::design::Design;
use super::world::{
    ModelEnding, ModelJob, ModelPhase, ModelProcess, ModelRecord, ModelStep, Number, World,
    number_of, true_code,
};

/// A guarantee.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Guarantee {
    /// A server knows every job whose caller has heard of it, and each ends exactly once.
    AccountedOnce,
    /// No request runs twice.
    RunsOnce,
    /// Every byte that a caller has seen can be read as long as the job is not freed.
    SeenBytesStay,
    /// A job that ended by itself has all its output.
    OutputIsComplete,
    /// A code is the true one.
    CodeIsTrue,
    /// A job is `lost` only if the server could not hold it: its process was ended or never was.
    LostForAReason,
    /// A job that was shown as running survives every crash of the server.
    RunningSurvives,
    /// A job whose caller heard that it waits is started, or waits, after every crash of the server.
    WaitingSurvives,
    /// No process runs that the server does not know.
    NothingLeft,
    /// Queued jobs start in the order in which they were accepted.
    OrderIsKept,
    /// Every request is answered and every job ends if the crashes stop.
    EverythingEnds,
}

/// Returns the guarantees that this state breaks.
pub(crate) fn broken(world: &World, design: &Design) -> Vec<Guarantee> {
    let checks: [(Guarantee, bool); 10] = [
        (Guarantee::AccountedOnce, is_accounted_once(world)),
        (Guarantee::RunsOnce, runs_once(world)),
        (Guarantee::SeenBytesStay, all_jobs(world, has_seen_bytes)),
        (Guarantee::OutputIsComplete, all_jobs(world, has_whole_output)),
        (Guarantee::CodeIsTrue, all_jobs(world, has_true_code)),
        (Guarantee::LostForAReason, all_jobs(world, has_reason)),
        (Guarantee::RunningSurvives, all_jobs(world, has_survived)),
        (Guarantee::WaitingSurvives, all_jobs(world, waits_on)),
        (Guarantee::NothingLeft, all_jobs(world, is_known) && !has_stray(world)),
        (Guarantee::OrderIsKept, is_order_kept(world)),
    ];
    let mut broken: Vec<Guarantee> =
        checks.into_iter().filter(|(_, holds)| !holds).map(|(guarantee, _)| guarantee).collect();
    if is_at_rest(world, design) && !is_everything_over(world) {
        broken.push(Guarantee::EverythingEnds);
    }
    broken
}

fn all_jobs(world: &World, holds: fn(&World, Number, &ModelJob) -> bool) -> bool {
    world.jobs.iter().all(|(number, job)| holds(world, *number, job))
}

/// The endings of a job in the journal.
fn endings(world: &World, number: Number) -> Vec<ModelEnding> {
    let ending = |record: &ModelRecord| match record {
        ModelRecord::Ended { number: ended, ending, .. } if *ended == number => Some(*ending),
        ModelRecord::Accepted { .. }
        | ModelRecord::Queued(_)
        | ModelRecord::Starting(_)
        | ModelRecord::Started(_)
        | ModelRecord::Ended { .. }
        | ModelRecord::Freed(_) => None,
    };
    world.journal.iter().filter_map(ending).collect()
}

fn is_accounted_once(world: &World) -> bool {
    let is_known = |number: Number| world.server.is_none() || world.phase(number).is_some();
    let acked = world.requests.iter().filter_map(|request| request.acked);
    let has_one_ending = |number: &Number| endings(world, *number).len() <= 1;
    let is_unchanged =
        world.requests.iter().all(|request| match (request.acked, request.ending_seen) {
            (Some(number), Some(seen)) => endings(world, number) == [seen],
            (Some(_) | None, Some(_) | None) => true,
        });
    acked.into_iter().all(is_known) && world.jobs.keys().all(has_one_ending) && is_unchanged
}

fn runs_once(world: &World) -> bool {
    let count = |wanted: &u8| world.created.iter().filter(|request| *request == wanted).count();
    world.created.iter().all(|request| count(request) == 1)
}

fn has_seen_bytes(world: &World, number: Number, job: &ModelJob) -> bool {
    let request = world.requests[usize::from(job.request)];
    let in_memory = match world.phase(number) {
        Some(ModelPhase::Running { taken, .. }) => taken,
        Some(_) | None => 0,
    };
    let is_freed = world.journal.contains(&ModelRecord::Freed(number));
    let readable = if job.is_file_removed { 0 } else { job.file + in_memory };
    request.acked != Some(number) || is_freed || request.bytes_seen <= readable
}

fn has_whole_output(world: &World, number: Number, job: &ModelJob) -> bool {
    let is_whole = job.file == job.written;
    !matches!(endings(world, number).as_slice(), [ModelEnding::Code(_), ..]) || is_whole
}

fn has_true_code(world: &World, number: Number, job: &ModelJob) -> bool {
    let has_exited = matches!(
        job.process,
        Some(ModelProcess::Zombie | ModelProcess::Reaped | ModelProcess::Killed)
    );
    endings(world, number).into_iter().all(|ending| match ending {
        ModelEnding::Code(code) => has_exited && code == true_code(number),
        ModelEnding::Lost => true,
    })
}

fn has_reason(world: &World, number: Number, job: &ModelJob) -> bool {
    let is_lost = endings(world, number).contains(&ModelEnding::Lost);
    let is_gone = matches!(job.process, None | Some(ModelProcess::Killed));
    !is_lost || is_gone || world.keeper_crashes > 0
}

fn has_survived(world: &World, number: Number, job: &ModelJob) -> bool {
    let was_shown = world.requests[usize::from(job.request)].was_shown_running;
    let is_lost = endings(world, number).contains(&ModelEnding::Lost);
    !(was_shown && is_lost) || world.keeper_crashes > 0
}

fn waits_on(world: &World, number: Number, job: &ModelJob) -> bool {
    let request = world.requests[usize::from(job.request)];
    let has_waited = request.acked == Some(number) && request.heard_of_wait;
    let may_have_started = world.journal.contains(&ModelRecord::Starting(number));
    let is_lost = endings(world, number).contains(&ModelEnding::Lost);
    !(has_waited && is_lost) || may_have_started
}

fn has_stray(world: &World) -> bool {
    world.server.is_some() && world.has_stray
}

fn is_known(world: &World, number: Number, job: &ModelJob) -> bool {
    let is_alive = job.process == Some(ModelProcess::Running);
    let phase = world.phase(number);
    world.server.is_none()
        || !is_alive
        || matches!(
            phase,
            Some(
                ModelPhase::Accepting
                    | ModelPhase::Accepted
                    | ModelPhase::Created
                    | ModelPhase::Registered
                    | ModelPhase::Running { .. }
            )
        )
}

fn is_order_kept(world: &World) -> bool {
    let accepted = world.journal.iter().filter(|it| matches!(it, ModelRecord::Accepted { .. }));
    let accepted: Vec<u8> =
        accepted.filter_map(|record| Some(world.jobs.get(&number_of(record))?.request)).collect();
    let place = |request: &u8| accepted.iter().position(|accepted| accepted == request);
    let places: Vec<_> = world.created.iter().filter_map(place).collect();
    places.is_sorted()
}

/// `true` if only a crash can happen next.
fn is_at_rest(world: &World, design: &Design) -> bool {
    let is_crash =
        |step: &ModelStep| matches!(step, ModelStep::ServerCrash | ModelStep::KeeperCrash);
    world.steps(design).iter().all(is_crash)
}

fn is_everything_over(world: &World) -> bool {
    let is_over = |phase: Option<ModelPhase>| {
        matches!(phase, Some(ModelPhase::Ended { is_released: true, .. } | ModelPhase::Freed))
    };
    let are_requests_over =
        world.requests.iter().all(|request| match (request.acked, request.is_given_up) {
            (Some(number), _) => is_over(world.phase(number)),
            (None, is_given_up) => is_given_up,
        });
    let are_jobs_over = world.jobs.keys().all(|number| is_over(world.phase(*number)));
    let holds_nothing = world.keeper.as_ref().is_none_or(|keeper| keeper.held.is_empty());
    are_requests_over && are_jobs_over && holds_nothing
}
