//! One script of a run: which kind it is, and its text.

use super::attacks::attack;
use super::everyday::everyday;
use super::grammar::Grammar;
use super::mutate::mutate;
use super::random::Random;
use super::twist::twist;

/// A kind of script.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Family {
    /// Lines as people and agents write them every day.
    Everyday,
    /// Everyday lines with one unusual word, statement or change of characters.
    Twisted,
    /// Constructs that have started programs past an allow list, with other names and values.
    Attack,
    /// Every construct of the shell, nested, in words that mean little.
    Grammar,
}

impl Family {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Everyday => "everyday",
            Self::Twisted => "twisted",
            Self::Attack => "attack",
            Self::Grammar => "grammar",
        }
    }

    fn pick(mix: Mix, random: &mut Random) -> Self {
        let (everyday, twisted, attack) = match mix {
            Mix::Usual => (84, 6, 6),
            Mix::Hostile => (0, 40, 35),
        };
        match random.below(100) {
            number if number < everyday => Self::Everyday,
            number if number < everyday + twisted => Self::Twisted,
            number if number < everyday + twisted + attack => Self::Attack,
            _ => Self::Grammar,
        }
    }
}

/// The share of each kind of script.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mix {
    /// Everyday lines dominate, as they do in real use, so that the share of refusals means
    /// something.
    Usual,
    /// No line is an everyday one.
    Hostile,
}

/// The script of this number.
pub(crate) fn script(mix: Mix, seed: u64, index: u64) -> (Family, String) {
    let mut random = Random::new(seed, index);
    let family = Family::pick(mix, &mut random);
    let text = match family {
        Family::Everyday => everyday(&mut random),
        Family::Twisted => {
            let line = everyday(&mut random);
            twist(&line, &mut random)
        }
        Family::Attack => attack(&mut random),
        Family::Grammar => from_grammar(&mut random),
    };
    (family, text)
}

/// The script of this number, where all are of the family `Grammar`.
pub(crate) fn grammar_script(seed: u64, index: u64) -> String {
    from_grammar(&mut Random::new(seed, index))
}

fn from_grammar(random: &mut Random) -> String {
    let script = Grammar::new(random).script();
    if random.below(3) == 0 { mutate(&script, random) } else { script }
}

#[test]
fn a_script_is_the_same_each_time() {
    for index in 0..200 {
        assert_eq!(script(Mix::Usual, 7, index), script(Mix::Usual, 7, index));
        assert_eq!(grammar_script(7, index), grammar_script(7, index));
    }
    assert_ne!(script(Mix::Hostile, 7, 1), script(Mix::Hostile, 8, 1));
}
