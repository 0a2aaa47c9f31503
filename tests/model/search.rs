//! Visits every state that the steps of the model can reach, the nearest first.

use std::collections::{HashMap, VecDeque};

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
    let start = World::new(design);
    // Each state with the place of the one before it, so that the way to it can be told.
    let mut places: HashMap<World, usize> = HashMap::from([(start.clone(), 0)]);
    let mut ways: Vec<(usize, Option<ModelStep>)> = vec![(0, None)];
    let mut waiting = VecDeque::from([start]);
    while let Some(world) = waiting.pop_front() {
        let place = places[&world];
        let broken = invariants::broken(&world, design);
        if broken.iter().any(|guarantee| is_watched(*guarantee)) {
            let violation = Some((broken, way_to(place, &ways)));
            return Findings { states: places.len(), violation };
        }
        for step in world.steps(design) {
            let mut next = world.clone();
            next.apply(design, step);
            if !places.contains_key(&next) {
                places.insert(next.clone(), ways.len());
                ways.push((place, Some(step)));
                waiting.push_back(next);
            }
        }
    }
    Findings { states: places.len(), violation: None }
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
