//! Matches of a search that differ only in numbers: of many, the first few and the last are listed.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hasher};

/// The matches of one shape that are listed, unless there are more.
const MANY: usize = 12;
/// The matches of one shape that are listed if there are many, in addition to the last one.
const LISTED_OF_MANY: usize = 3;
/// The shapes that are compared. Matches of further shapes are all listed.
const MAX_SHAPES: usize = 64;
/// The matches that are compared. Later ones are only counted.
const MAX_COMPARED: u64 = 10_000;

/// The shapes of the matches so far, in bounded memory.
#[derive(Debug, Default)]
pub(crate) struct AlikeMatches {
    shapes: HashMap<u64, ShapeMatches>,
    compared: u64,
}

/// The matches of one shape.
#[derive(Debug, Default)]
struct ShapeMatches {
    /// The offsets of those that are listed.
    listed: Vec<u64>,
    /// The number of those that are not.
    folded: u64,
    last: u64,
}

/// The way in which a new match is listed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum AlikeListing {
    List,
    /// It is not listed, and neither are the matches at these offsets any more.
    Fold(Vec<u64>),
    /// No further match is compared.
    Full,
}

/// A shape with many matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FoldedShape {
    /// The offset of the listed match that the others are like.
    pub(crate) listed: u64,
    /// The number of those that are not listed, without the last one.
    pub(crate) folded: u64,
    /// The offset of the last one.
    pub(crate) last: u64,
}

impl AlikeMatches {
    pub(crate) fn add(&mut self, offset: u64, text: &[u8]) -> AlikeListing {
        if self.compared == MAX_COMPARED {
            return AlikeListing::Full;
        }
        self.compared += 1;
        let shape = shape_hash(text);
        if self.shapes.len() == MAX_SHAPES && !self.shapes.contains_key(&shape) {
            return AlikeListing::List;
        }
        let alike = self.shapes.entry(shape).or_default();
        alike.last = offset;
        if alike.folded == 0 && alike.listed.len() < MANY {
            alike.listed.push(offset);
            return AlikeListing::List;
        }
        let surplus = alike.listed.split_off(LISTED_OF_MANY.min(alike.listed.len()));
        alike.folded += surplus.len() as u64 + 1;
        AlikeListing::Fold(surplus)
    }

    /// The shapes with many matches.
    pub(crate) fn folded(&self) -> impl Iterator<Item = FoldedShape> {
        let many = self.shapes.values().filter(|alike| alike.folded > 0);
        many.filter_map(|alike| {
            let listed = *alike.listed.last()?;
            Some(FoldedShape { listed, folded: alike.folded - 1, last: alike.last })
        })
    }
}

/// A hash of the text in which each word with a digit is the same, so that numbers, times, sizes
/// and ids make no difference.
fn shape_hash(text: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    let is_word = |byte: &u8| byte.is_ascii_alphanumeric();
    for word in text.chunk_by(|one, other| is_word(one) == is_word(other)) {
        match word.iter().any(u8::is_ascii_digit) {
            true => hasher.write_u8(b'0'),
            false => hasher.write(word),
        }
    }
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_times_and_ids_make_no_difference_and_words_do() {
        let shape = |text: &str| shape_hash(text.as_bytes());
        let first = shape("12:03:01 WARN node-7 took 12ms, id 9f3c11aa");
        assert_eq!(first, shape("09:59:59 WARN node-12 took 9ms, id 07"));
        assert_ne!(first, shape("09:59:59 WARN node-12 lost 9ms, id 07"));
        assert_ne!(shape("-LIMIT = 5"), shape("+LIMIT = 5"));
    }

    #[test]
    fn a_few_alike_are_listed_and_of_many_the_first_and_the_last() {
        let mut alike = AlikeMatches::default();
        for number in 0..12 {
            assert_eq!(alike.add(number, format!("n {number}").as_bytes()), AlikeListing::List);
        }
        assert_eq!(alike.folded().count(), 0);
        assert_eq!(alike.add(12, b"n 12"), AlikeListing::Fold((3..12).collect()));
        assert_eq!(alike.add(13, b"other"), AlikeListing::List);
        assert_eq!(alike.add(14, b"n 14"), AlikeListing::Fold(Vec::new()));
        let folded: Vec<FoldedShape> = alike.folded().collect();
        assert_eq!(folded, [FoldedShape { listed: 2, folded: 10, last: 14 }]);
    }

    #[test]
    fn shapes_and_comparisons_have_a_limit() {
        let mut alike = AlikeMatches::default();
        for number in 0..MAX_COMPARED {
            let letters: String = number.to_string().bytes().map(|b| char::from(b + 49)).collect();
            assert_eq!(alike.add(number, letters.as_bytes()), AlikeListing::List);
        }
        assert_eq!(alike.shapes.len(), MAX_SHAPES);
        assert_eq!(alike.add(1 << 40, b"x"), AlikeListing::Full);
    }
}
