//! The guarantees, as checks of a state.

use super::design::Design;
use super::world::{
    LifeStep, ModelCause, ModelEnding, ModelJob, ModelKill, ModelLeader, ModelPhase, ModelRecord,
    ModelStage, ModelStep, ModelStop, Number, World, number_of, true_code,
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
    /// A job that was being ended when its leader ended has that cause as its ending, and no other has.
    CauseIsTrue,
    /// A job whose deadline has passed never reads as one that ended by itself.
    TimeoutIsTold,
    /// A job is `lost` only if the server could not hold it: its process was killed or never was, and
    /// something had crashed.
    LostForAReason,
    /// A job that was shown as running survives every crash of the server.
    RunningSurvives,
    /// A job whose caller heard that it waits is started, or waits, after every crash of the server.
    WaitingSurvives,
    /// A stop that was answered is carried out, whatever happens to the server.
    StopIsKept,
    /// A job that reads as stopped or timed out has no process left.
    StopEndsTree,
    /// The signal of a stop is sent once, and so its grace period begins once.
    GraceIsKept,
    /// Every byte of input reaches the job once, as long as the job lives.
    InputIsWhole,
    /// No process runs that the server does not know.
    NothingLeft,
    /// Queued jobs start in the order in which they were accepted.
    OrderIsKept,
    /// Every request is answered and every job ends if the crashes stop.
    EverythingEnds,
}

/// Returns the guarantees that this state breaks; `steps` are those that can be next.
pub(crate) fn broken(world: &World, design: &Design, steps: &[ModelStep]) -> Vec<Guarantee> {
    let is_whole = |number: Number, job: &ModelJob| has_whole_input(world, design, number, job);
    let checks: [(Guarantee, bool); 15] = [
        (Guarantee::AccountedOnce, is_accounted_once(world)),
        (Guarantee::RunsOnce, runs_once(world)),
        (Guarantee::SeenBytesStay, all_jobs(world, has_seen_bytes)),
        (Guarantee::OutputIsComplete, all_jobs(world, has_whole_output)),
        (Guarantee::CodeIsTrue, all_jobs(world, has_true_code)),
        (Guarantee::CauseIsTrue, all_jobs(world, has_true_cause)),
        (Guarantee::TimeoutIsTold, all_jobs(world, has_told_timeout)),
        (Guarantee::LostForAReason, all_jobs(world, has_reason)),
        (Guarantee::RunningSurvives, all_jobs(world, has_survived)),
        (Guarantee::WaitingSurvives, all_jobs(world, waits_on)),
        (Guarantee::StopIsKept, all_jobs(world, has_kept_stop)),
        (Guarantee::StopEndsTree, all_jobs(world, has_ended_tree)),
        (Guarantee::GraceIsKept, all_jobs(world, has_kept_grace)),
        (Guarantee::InputIsWhole, world.jobs.iter().all(|(number, job)| is_whole(*number, job))),
        (Guarantee::OrderIsKept, is_order_kept(world)),
    ];
    let mut broken: Vec<Guarantee> =
        checks.into_iter().filter(|(_, holds)| !holds).map(|(guarantee, _)| guarantee).collect();
    let is_at_rest = is_at_rest(steps);
    if has_stray(world) || !all_jobs(world, is_known) || is_at_rest && !is_nothing_left(world) {
        broken.push(Guarantee::NothingLeft);
    }
    if is_at_rest && !is_everything_over(world, design) {
        broken.push(Guarantee::EverythingEnds);
    }
    broken
}

fn all_jobs(world: &World, holds: fn(&World, Number, &ModelJob) -> bool) -> bool {
    world.jobs.iter().all(|(number, job)| holds(world, *number, job))
}

/// The endings of a job in the journal.
fn endings(world: &World, number: Number) -> impl Iterator<Item = ModelEnding> {
    let ending = move |record: &ModelRecord| match record {
        ModelRecord::Ended { number: ended, ending, .. } if *ended == number => Some(*ending),
        ModelRecord::Accepted { .. }
        | ModelRecord::Queued(_)
        | ModelRecord::Starting(_)
        | ModelRecord::Started(_)
        | ModelRecord::Ended { .. }
        | ModelRecord::Freed(_) => None,
    };
    world.journal.iter().filter_map(ending)
}

/// An ending that the shim can tell again may be seen before it is recorded. It is lost only with the
/// keeper.
fn is_accounted_once(world: &World) -> bool {
    let is_known = |number: Number| world.server.is_none() || world.phase(number).is_some();
    let acked = world.requests.iter().filter_map(|request| request.acked);
    let has_one_ending = |number: &Number| endings(world, *number).count() <= 1;
    let is_unchanged =
        world.requests.iter().all(|request| match (request.acked, request.ending_seen) {
            (Some(number), Some(seen @ (ModelEnding::Code(_) | ModelEnding::Signaled))) => {
                let is_same = |ending: ModelEnding| {
                    ending == seen || ending == ModelEnding::Lost && world.keeper_crashes > 0
                };
                endings(world, number).all(is_same)
            }
            (Some(number), Some(seen)) => endings(world, number).eq([seen]),
            (Some(_) | None, Some(_) | None) => true,
        });
    acked.into_iter().all(is_known) && world.jobs.keys().all(has_one_ending) && is_unchanged
}

fn reads_as_lost(world: &World, number: Number) -> bool {
    endings(world, number).any(|ending| ending == ModelEnding::Lost)
}

fn runs_once(world: &World) -> bool {
    let count = |wanted: &u8| world.created.iter().filter(|request| *request == wanted).count();
    world.created.iter().all(|request| count(request) == 1)
}

fn has_seen_bytes(world: &World, number: Number, job: &ModelJob) -> bool {
    let request = world.request_of(number);
    let is_freed = world.journal.contains(&ModelRecord::Freed(number));
    let readable = if job.is_file_removed { 0 } else { job.file + world.bytes_in_memory(number) };
    request.acked != Some(number) || is_freed || request.bytes_seen <= readable
}

fn has_whole_output(world: &World, number: Number, job: &ModelJob) -> bool {
    let is_whole = job.file == job.written;
    is_whole || !endings(world, number).any(|ending| matches!(ending, ModelEnding::Code(_)))
}

fn has_true_code(world: &World, number: Number, job: &ModelJob) -> bool {
    let seen = world.request_of(number).ending_seen;
    endings(world, number).chain(seen).all(|ending| match ending {
        ModelEnding::Code(code) => job.leader == ModelLeader::Exited && code == true_code(number),
        ModelEnding::Signaled => job.leader == ModelLeader::Killed,
        ModelEnding::Stopped
        | ModelEnding::TimedOut
        | ModelEnding::NotRun
        | ModelEnding::FailedToStart
        | ModelEnding::Lost => true,
    })
}

fn has_true_cause(world: &World, number: Number, job: &ModelJob) -> bool {
    let cause = job.shim.and_then(|shim| shim.cause);
    let was_stopped = world.request_of(number).stop != ModelStop::NotSent;
    endings(world, number).all(|ending| match ending {
        ModelEnding::Code(_) | ModelEnding::Signaled => cause.is_none(),
        ModelEnding::Stopped => {
            was_stopped && (cause == Some(ModelCause::Stop) || !job.may_live() && cause.is_none())
        }
        ModelEnding::TimedOut => cause == Some(ModelCause::Deadline),
        ModelEnding::NotRun => was_stopped && job.shim.is_none(),
        ModelEnding::FailedToStart => job.leader == ModelLeader::NotStarted,
        ModelEnding::Lost => true,
    })
}

fn has_told_timeout(world: &World, number: Number, job: &ModelJob) -> bool {
    let is_by_itself =
        |ending: ModelEnding| matches!(ending, ModelEnding::Code(_) | ModelEnding::Signaled);
    let seen = world.request_of(number).ending_seen;
    !job.is_late || !endings(world, number).chain(seen).any(is_by_itself)
}

fn has_reason(world: &World, number: Number, job: &ModelJob) -> bool {
    let is_lost = reads_as_lost(world, number);
    let is_gone = matches!(job.leader, ModelLeader::NotStarted | ModelLeader::Killed);
    let has_crashed = world.server_crashes + world.keeper_crashes + world.shim_crashes > 0;
    let is_cut_off = world.keeper_crashes + world.shim_crashes > 0;
    !is_lost || has_crashed && (is_gone || is_cut_off)
}

fn has_survived(world: &World, number: Number, _: &ModelJob) -> bool {
    let was_shown = world.request_of(number).was_shown_running;
    let is_lost = reads_as_lost(world, number);
    !(was_shown && is_lost) || world.keeper_crashes + world.shim_crashes > 0
}

fn waits_on(world: &World, number: Number, _: &ModelJob) -> bool {
    let request = world.request_of(number);
    let has_waited = request.acked == Some(number) && request.heard_of_wait;
    let may_have_started = world.journal.contains(&ModelRecord::Starting(number));
    let is_lost = reads_as_lost(world, number);
    !(has_waited && is_lost) || may_have_started
}

/// A job whose stop was answered has ended, or its shim ends it: by the order, or with the keeper. A shim
/// that was killed leaves that to the keeper.
fn has_kept_stop(world: &World, number: Number, job: &ModelJob) -> bool {
    if world.request_of(number).stop != ModelStop::Acked {
        return true;
    }
    match job.shim {
        None => endings(world, number).next().is_some(),
        Some(shim) => {
            let has_order = shim.has_order || shim.kill != ModelKill::NotBegun;
            let is_cut_off = shim.is_orphan || shim.stage == ModelStage::Killed;
            !job.may_live() || has_order || is_cut_off
        }
    }
}

fn has_ended_tree(world: &World, number: Number, job: &ModelJob) -> bool {
    let seen = world.request_of(number).ending_seen;
    !matches!(seen, Some(ModelEnding::Stopped | ModelEnding::TimedOut)) || !job.is_alive()
}

fn has_kept_grace(_: &World, _: Number, job: &ModelJob) -> bool {
    job.shim.is_none_or(|shim| shim.stop_signals <= 1)
}

fn has_whole_input(world: &World, design: &Design, number: Number, job: &ModelJob) -> bool {
    let Some(shim) = job.shim else { return true };
    let in_server = world.server.as_ref().and_then(|server| server.input.get(&number));
    let all = job.read + shim.input + in_server.copied().unwrap_or(0);
    let lives = job.may_live() && shim.is_there() && job.leader != ModelLeader::Exited;
    job.read <= design.input && (!lives || all == design.input)
}

fn has_stray(world: &World) -> bool {
    world.server.is_some() && world.has_stray
}

/// A process is known, or is about to be killed: by its shim, whose keeper is gone, or by the keeper,
/// because its shim was killed.
fn is_known(world: &World, number: Number, job: &ModelJob) -> bool {
    let is_ending = job.shim.is_some_and(|shim| shim.is_orphan || shim.stage == ModelStage::Killed);
    let is_followed = match world.phase(number) {
        Some(
            ModelPhase::Accepting
            | ModelPhase::Accepted
            | ModelPhase::Asked
            | ModelPhase::Running { .. },
        ) => true,
        Some(ModelPhase::Ended { is_released, .. }) => !is_released,
        Some(
            ModelPhase::Queued | ModelPhase::Starting | ModelPhase::Refused | ModelPhase::Freed,
        )
        | None => false,
    };
    world.server.is_none() || !job.is_alive() || is_ending || is_followed
}

/// At rest every process has a shim that its server follows.
fn is_nothing_left(world: &World) -> bool {
    world.jobs.values().all(|job| {
        let is_held = job.shim.is_some_and(|shim| shim.is_there() && !shim.is_orphan);
        !job.is_alive() || is_held
    })
}

fn is_order_kept(world: &World) -> bool {
    let accepted = world.journal.iter().filter(|it| matches!(it, ModelRecord::Accepted { .. }));
    let accepted: Vec<u8> =
        accepted.filter_map(|record| Some(world.jobs.get(&number_of(record))?.request)).collect();
    let place = |request: &u8| accepted.iter().position(|accepted| accepted == request);
    let places: Vec<_> = world.created.iter().filter_map(place).collect();
    places.is_sorted()
}

/// `true` if only a crash or an upgrade can happen next.
fn is_at_rest(steps: &[ModelStep]) -> bool {
    let is_chance = |step: &ModelStep| match step {
        ModelStep::Server(_) | ModelStep::Outside(_) => false,
        ModelStep::Life(step) => match step {
            LifeStep::ShimCrash(_)
            | LifeStep::ServerCrash
            | LifeStep::KeeperCrash
            | LifeStep::BeginHandOver => true,
            LifeStep::ShimsEndWithKeeper
            | LifeStep::HandOver
            | LifeStep::ServerEndsWithKeeper
            | LifeStep::KeeperRestartsServer
            | LifeStep::NextStart => false,
        },
    };
    steps.iter().all(is_chance)
}

fn is_everything_over(world: &World, design: &Design) -> bool {
    // A job that never ends runs on until somebody stops it.
    let runs_on = |number: Number| {
        let job = &world.jobs[&number];
        let is_running = matches!(world.phase(number), Some(ModelPhase::Running { .. }));
        let is_followed = job.shim.is_some_and(|shim| shim.is_there() && !shim.is_orphan);
        design.is_endless(job.request)
            && is_running
            && is_followed
            && job.leader == ModelLeader::Alive
    };
    let is_over = |number: Number| {
        let phase = world.phase(number);
        matches!(phase, Some(ModelPhase::Ended { is_released: true, .. } | ModelPhase::Freed))
            || runs_on(number)
    };
    let are_requests_over =
        world.requests.iter().all(|request| match (request.acked, request.is_given_up) {
            (Some(number), _) => is_over(number),
            (None, is_given_up) => is_given_up,
        });
    let are_jobs_over = world.jobs.keys().all(|number| is_over(*number));
    let is_held_for_good = |number: &Number| world.jobs.contains_key(number) && runs_on(*number);
    let is_held_rightly =
        world.keeper.as_ref().is_none_or(|keeper| keeper.held.iter().all(is_held_for_good));
    are_requests_over && are_jobs_over && is_held_rightly
}
