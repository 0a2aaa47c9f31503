//! The parameters of an address, read strictly: a misspelled one must not silently mean all.

use super::error::ApiError;

/// `name=value` pairs, each name known and given once.
#[derive(Debug)]
pub(super) struct Params<'a> {
    pairs: Vec<(&'a str, &'a str)>,
}

impl<'a> Params<'a> {
    /// Reads a query of which `known` are the names.
    pub(super) fn read(query: Option<&'a str>, known: &[&str]) -> Result<Self, ApiError> {
        let mut pairs: Vec<(&str, &str)> = Vec::new();
        for pair in query.unwrap_or_default().split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            if !known.contains(&name) {
                return Err(ApiError::bad_query(name, &format!("known are {}", known.join(", "))));
            }
            if pairs.iter().any(|(given, _)| *given == name) {
                return Err(ApiError::bad_query(name, "give it once"));
            }
            pairs.push((name, value));
        }
        Ok(Self { pairs })
    }

    /// One of these words.
    pub(super) fn choice<T: Copy>(
        &self,
        name: &str,
        choices: &[(&str, T)],
    ) -> Result<Option<T>, ApiError> {
        let Some(given) = self.value(name) else { return Ok(None) };
        let chosen = choices.iter().find(|(word, _)| *word == given);
        chosen.map(|(_, value)| Some(*value)).ok_or_else(|| {
            let words: Vec<&str> = choices.iter().map(|(word, _)| *word).collect();
            ApiError::bad_query(name, &format!("it is one of {}", words.join(", ")))
        })
    }

    /// A whole number from 1 to `most`.
    pub(super) fn count(&self, name: &str, most: usize) -> Result<Option<usize>, ApiError> {
        let Some(given) = self.value(name) else { return Ok(None) };
        let number = given.parse().ok().filter(|number| (1..=most).contains(number));
        number
            .map(Some)
            .ok_or_else(|| ApiError::bad_query(name, &format!("it is a number from 1 to {most}")))
    }

    /// The text of a parameter, where it was given.
    pub(super) fn value(&self, name: &str) -> Option<&'a str> {
        self.pairs.iter().find(|(given, _)| *given == name).map(|(_, value)| *value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORDS: [(&str, u8); 2] = [("one", 1), ("two", 2)];

    #[test]
    fn known_parameters_are_read() {
        let params = Params::read(Some("word=two&count=7"), &["word", "count", "more"]).unwrap();
        assert_eq!(params.choice("word", &WORDS).unwrap(), Some(2));
        assert_eq!(params.count("count", 10).unwrap(), Some(7));
        assert_eq!(params.count("more", 10).unwrap(), None);
        assert!(Params::read(None, &[]).is_ok() && Params::read(Some(""), &[]).is_ok());
    }

    #[test]
    fn what_cannot_be_meant_is_refused_by_name() {
        for query in ["wrod=two", "word=two&word=one", "word"] {
            let read = Params::read(Some(query), &["word", "count"]);
            let error = read.and_then(|params| params.choice("word", &WORDS)).unwrap_err();
            assert_eq!(error.code(), "bad_query", "{query}");
        }
        for count in ["0", "11", "-1", "x", ""] {
            let query = format!("count={count}");
            let params = Params::read(Some(&query), &["count"]).unwrap();
            assert!(params.count("count", 10).is_err(), "{count}");
        }
    }
}
