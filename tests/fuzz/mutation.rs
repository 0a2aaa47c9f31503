//! Inputs made from the seeds of a corpus.

use std::fs;
use std::path::Path;

/// The longest input that mutation makes.
const MAX_BYTES: usize = 64 * 1024;

/// The committed inputs of one target.
#[derive(Debug)]
pub(crate) struct Seeds(Vec<Vec<u8>>);

/// The bytes of a plan, taken one by one; an exhausted plan gives zeros.
#[derive(Debug)]
pub(crate) struct Plan<'a>(&'a [u8]);

impl<'a> Plan<'a> {
    pub(crate) const fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    pub(crate) const fn is_over(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    /// A number below `limit`, or 0 if there is none.
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        let number = usize::from(self.byte()) << 8 | usize::from(self.byte());
        number.checked_rem(limit).unwrap_or(0)
    }
}

impl Seeds {
    /// Reads `tests/fuzz/corpus/NAME/`.
    #[track_caller]
    pub(crate) fn load(name: &str) -> Self {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fuzz/corpus").join(name);
        let entries = fs::read_dir(folder).expect("a corpus");
        let mut paths: Vec<_> = entries.map(|entry| entry.expect("an entry").path()).collect();
        paths.sort();
        let seeds: Vec<_> = paths.iter().map(|path| fs::read(path).expect("a seed")).collect();
        assert!(seeds.len() > 3, "the corpus `{name}` has {} seeds", seeds.len());
        Self(seeds)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.0.iter().map(Vec::as_slice)
    }

    /// Picks a seed and changes it as the plan says.
    pub(crate) fn mutate(&self, plan: &mut Plan<'_>) -> Vec<u8> {
        let mut bytes = self.pick(plan).to_vec();
        let edits = plan.byte() % 8;
        for _ in 0..edits {
            self.edit(&mut bytes, plan);
        }
        bytes.truncate(MAX_BYTES);
        bytes
    }

    fn pick(&self, plan: &mut Plan<'_>) -> &[u8] {
        &self.0[plan.below(self.0.len())]
    }

    fn edit(&self, bytes: &mut Vec<u8>, plan: &mut Plan<'_>) {
        let kind = plan.byte() % 7;
        let place = plan.below(bytes.len() + 1);
        let end = (place + 1 + plan.below(16)).min(bytes.len()).max(place);
        match kind {
            0 => {
                if let Some(byte) = bytes.get_mut(place) {
                    *byte = plan.byte();
                }
            }
            1 => bytes.insert(place, plan.byte()),
            2 => drop(bytes.drain(place..end)),
            3 => {
                let copy = bytes[place..end].to_vec();
                bytes.splice(place..place, copy);
            }
            4 => {
                let other = self.pick(plan);
                let from = plan.below(other.len());
                let to = (from + plan.below(40)).min(other.len());
                bytes.splice(place..end, other[from..to].iter().copied());
            }
            5 => bytes.truncate(place),
            _ => {
                let many = vec![plan.byte(); plan.below(600)];
                bytes.splice(place..place, many);
            }
        }
    }
}

#[test]
fn a_plan_changes_a_seed_and_an_empty_one_does_not() {
    let seeds = Seeds(vec![b"abc".to_vec()]);
    assert_eq!(seeds.mutate(&mut Plan::new(&[])), b"abc");
    // One edit: the byte at 1 becomes `x`.
    assert_eq!(seeds.mutate(&mut Plan::new(&[0, 0, 1, 0, 0, 1, 0, 0, b'x'])), b"axc");
    // One edit: everything from 1 on is cut off.
    assert_eq!(seeds.mutate(&mut Plan::new(&[0, 0, 1, 5, 0, 1])), b"a");
}
