//! Visits every state that the steps of the model can reach, the nearest first.

use std::collections::{HashSet, VecDeque};
use std::rc::Rc;

use super::design::Design;
use super::invariants::{self, Guarantee};
use super::world::{ModelStep, World};

/// The result of a search.
#[derive(Debug)]
pub(crate) struct Findings {
    /// The number of different states.
    pub(crate) states: usize,
    /// The guarantees that the first bad state breaks, and the shortest way to it.
    pub(crate) violation: Option<(Vec<Guarantee>, Vec<ModelStep>)>,
}

/// Visits every state, until one breaks a guarantee that is watched.
pub(crate) fn search(design: &Design, is_watched: impl Fn(Guarantee) -> bool) -> Findings {
    let start = Rc::new(World::new(design));
    let mut known: HashSet<Rc<World>> = HashSet::from([Rc::clone(&start)]);
    // Each state with the place of the one before it, so that the way to it can be told.
    let mut ways: Vec<(usize, Option<ModelStep>)> = vec![(0, None)];
    let mut waiting = VecDeque::from([(0, start)]);
    while let Some((place, world)) = waiting.pop_front() {
        let steps = world.steps(design);
        let broken = invariants::broken(&world, design, &steps);
        if broken.iter().any(|guarantee| is_watched(*guarantee)) {
            let violation = Some((broken, way_to(place, &ways)));
            return Findings { states: known.len(), violation };
        }
        for step in steps {
            let mut next = World::clone(&world);
            next.apply(design, step);
            let next = Rc::new(next);
            if known.insert(Rc::clone(&next)) {
                waiting.push_back((ways.len(), next));
                ways.push((place, Some(step)));
            }
        }
    }
    Findings { states: known.len(), violation: None }
}

fn way_to(mut place: usize, ways: &[(usize, Option<ModelStep>)]) -> Vec<ModelStep> {
    let mut way = Vec::new();
    while let (before, Some(step)) = ways[place] {
        way.push(step);
        place = before;
    }
    way.reverse();
    way
}
