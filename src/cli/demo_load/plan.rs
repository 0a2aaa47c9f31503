//! What an agent does next: pure, by chance that follows from the seed.

use std::time::Duration;

use super::deed::{Deed, Work};
use super::dice::Dice;

/// Jobs that one burst submits: more than most servers have slots.
const BURST: (u64, u64) = (12, 20);

/// The largest flood, in bytes: enough to spill and to be compressed, and little on a disk.
const LARGEST_FLOOD: u64 = 4_000_000;

/// How often each kind comes, of the sum of all.
const KINDS: [(Kind, u64); 17] = [
    (Kind::Quick, 24),
    (Kind::Lines, 8),
    (Kind::Complaint, 6),
    (Kind::Failure, 9),
    (Kind::Slow, 8),
    (Kind::Deadline, 4),
    (Kind::Flood, 4),
    (Kind::Start, 9),
    (Kind::Burst, 3),
    (Kind::Talk, 2),
    (Kind::Wait, 8),
    (Kind::Read, 8),
    (Kind::Search, 5),
    (Kind::List, 4),
    (Kind::Stop, 3),
    (Kind::LookAround, 2),
    (Kind::Reconnect, 2),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Quick,
    Lines,
    Complaint,
    Failure,
    Slow,
    Deadline,
    Flood,
    Start,
    Burst,
    Talk,
    Wait,
    Read,
    Search,
    List,
    Stop,
    LookAround,
    Reconnect,
}

/// The plan of one agent. The same seed, lanes and known jobs give the same deeds.
#[derive(Debug, Clone)]
pub(super) struct Plan {
    dice: Dice,
    lanes: Vec<String>,
}

impl Plan {
    pub(super) const fn new(seed: u64, agent: u64, lanes: Vec<String>) -> Self {
        Self { dice: Dice::new(seed, agent), lanes }
    }

    /// The next deed of an agent that has these jobs in the background.
    pub(super) fn next(&mut self, jobs: &[u64]) -> Deed {
        let kind = self.kind();
        let any = self.dice.choose(jobs).copied();
        // The newest is the one that most likely still runs.
        let job = if matches!(kind, Kind::Wait | Kind::Stop) { jobs.last().copied() } else { any };
        match (kind, job) {
            (Kind::Wait, Some(job)) => Deed::Wait(job),
            (Kind::Read, Some(job)) => Deed::Read(job),
            (Kind::Search, Some(job)) => Deed::Search(job),
            (Kind::Stop, Some(job)) => Deed::Stop(job),
            // What is done with a job takes one.
            (Kind::Start, _) | (Kind::Wait | Kind::Read | Kind::Search | Kind::Stop, None) => {
                Deed::Start(self.background())
            }
            (Kind::Burst, _) => Deed::Burst(self.burst()),
            (Kind::Talk, _) => Deed::Talk,
            (Kind::List, _) => Deed::List,
            (Kind::LookAround, _) => Deed::LookAround,
            (Kind::Reconnect, _) => Deed::Reconnect,
            (Kind::Quick, _) => self.run("echo hello"),
            (Kind::Lines, _) => self.run(lines(200)),
            (Kind::Complaint, _) => self.run("echo working; echo 'warning: line is long' >&2"),
            (Kind::Failure, _) => {
                let code = self.dice.between(1, 3);
                self.run(format!("echo 'error: line went wrong' >&2; exit {code}"))
            }
            (Kind::Slow, _) => {
                let tenths = self.dice.between(5, 30);
                self.run(format!("sleep {}", seconds(tenths)))
            }
            (Kind::Deadline, _) => {
                Deed::Run(Work { timeout_s: Some(1), ..Work::new("echo line; sleep 20") })
            }
            (Kind::Flood, _) => {
                let bytes = self.dice.between(100_000, LARGEST_FLOOD);
                self.run(format!("yes 'a line of a flood' | head -c {bytes}"))
            }
        }
    }

    /// How long to think before the next deed, `pause` on average.
    pub(super) fn think(&mut self, pause: Duration) -> Duration {
        self.dice.about(pause)
    }

    fn kind(&mut self) -> Kind {
        let mut left = self.dice.below(KINDS.iter().map(|(_, share)| share).sum());
        for (kind, share) in KINDS {
            if left < share {
                return kind;
            }
            left -= share;
        }
        Kind::Quick
    }

    /// In a lane half of the time, where there are any.
    fn run(&mut self, command: impl Into<String>) -> Deed {
        Deed::Run(Work { lane: self.lane(), ..Work::new(command) })
    }

    fn lane(&mut self) -> Option<String> {
        let wants_one = self.dice.below(2) == 1;
        self.dice.choose(&self.lanes).filter(|_| wants_one).cloned()
    }

    fn background(&mut self) -> Work {
        let tenths = self.dice.between(10, 60);
        let command = format!("echo a line; sleep {}; echo the last line", seconds(tenths));
        Work { lane: self.lane(), ..Work::new(command) }
    }

    fn burst(&mut self) -> Vec<Work> {
        let jobs = self.dice.between(BURST.0, BURST.1);
        let lane = self.lane();
        let work = |dice: &mut Dice| {
            let command = format!("sleep {}", seconds(dice.between(2, 10)));
            Work { lane: lane.clone(), ..Work::new(command) }
        };
        (0..jobs).map(|_| work(&mut self.dice)).collect()
    }
}

/// A shell takes fractions as text.
fn seconds(tenths: u64) -> String {
    format!("{}.{}", tenths / 10, tenths % 10)
}

fn lines(count: u64) -> String {
    format!("for n in $(seq {count}); do printf 'line %s\\n' \"$n\"; done")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn deeds(seed: u64, agent: u64, jobs: &[u64]) -> Vec<Deed> {
        let mut plan = Plan::new(seed, agent, vec!["build".into(), "net".into()]);
        (0..500).map(|_| plan.next(jobs)).collect()
    }

    fn works(deeds: &[Deed]) -> Vec<&Work> {
        deeds
            .iter()
            .flat_map(|deed| match deed {
                Deed::Run(work) | Deed::Start(work) => std::slice::from_ref(work),
                Deed::Burst(works) => works,
                Deed::Talk
                | Deed::Wait(_)
                | Deed::Read(_)
                | Deed::Search(_)
                | Deed::List
                | Deed::Stop(_)
                | Deed::LookAround
                | Deed::Reconnect => &[],
            })
            .collect()
    }

    #[test]
    fn the_same_seed_gives_the_same_deeds_and_agents_differ() {
        assert_eq!(deeds(7, 0, &[1]), deeds(7, 0, &[1]));
        assert_ne!(deeds(7, 0, &[1]), deeds(7, 1, &[1]));
        assert_ne!(deeds(7, 0, &[1]), deeds(8, 0, &[1]));
    }

    #[test]
    fn every_kind_of_deed_comes_up() {
        let words: BTreeSet<&str> = deeds(1, 0, &[4, 5]).iter().map(Deed::word).collect();
        assert_eq!(words.len(), 11, "{words:?}");
        let deeds = deeds(1, 0, &[]);
        let works = works(&deeds);
        let has = |part: &str| works.iter().any(|work| work.command.contains(part));
        assert!(has("exit 3") && has("yes ") && has(">&2") && has("sleep 20"));
        assert!(works.iter().any(|work| work.lane.as_deref() == Some("net")));
        assert!(works.iter().any(|work| work.lane.is_none()));
    }

    proptest! {
        #[test]
        fn only_known_jobs_are_named(seed: u64, jobs in prop::collection::vec(1_u64..99, 0..4)) {
            for deed in deeds(seed, 0, &jobs) {
                match deed {
                    Deed::Read(job) | Deed::Search(job) => prop_assert!(jobs.contains(&job)),
                    Deed::Wait(job) | Deed::Stop(job) => {
                        prop_assert_eq!(Some(&job), jobs.last());
                    }
                    Deed::Run(_) | Deed::Start(_) | Deed::Burst(_) | Deed::Talk | Deed::List
                    | Deed::LookAround | Deed::Reconnect => {}
                }
            }
        }

        #[test]
        fn every_command_is_harmless_and_bounded(seed: u64) {
            let allowed = ["echo", "printf", "sleep", "yes", "head", "exit", "for", "do", "done"];
            for work in works(&deeds(seed, 0, &[])) {
                for part in work.command.split(['|', ';']).filter(|part| !part.trim().is_empty()) {
                    let word = part.split_whitespace().next().unwrap_or_default();
                    prop_assert!(allowed.contains(&word), "{}", work.command);
                    prop_assert!(!part.replace(">&2", "").contains('>'), "{}", work.command);
                }
                let is_long = work.command.contains("sleep 20");
                prop_assert!(!is_long || work.timeout_s == Some(1), "{}", work.command);
            }
        }
    }
}
