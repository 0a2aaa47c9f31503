//! Values of settings, whatever the format of their file.

/// A value in a settings file. The order of keys is that of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SettingValue {
    /// A string, without its quotes.
    Text(String),
    /// An integer of 64 bits.
    Number(i64),
    /// One of `true` and `false`.
    Flag(bool),
    /// A list of any values.
    List(Vec<Self>),
    /// Keys with their values.
    Map(Vec<(String, Self)>),
    /// A value that is never written, only compared: null, a fraction, a date; as it stands in the file.
    Other(String),
}

impl SettingValue {
    /// Creates a value that is a text.
    #[must_use]
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(text.into())
    }

    /// Creates a list of texts.
    #[must_use]
    pub fn texts<T: Into<String>>(texts: impl IntoIterator<Item = T>) -> Self {
        Self::List(texts.into_iter().map(Self::text).collect())
    }

    /// Creates a map from its pairs.
    #[must_use]
    pub fn map<const N: usize>(pairs: [(&str, Self); N]) -> Self {
        Self::Map(pairs.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
    }

    /// The value of a key, if this is a map that has it.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Self> {
        self.pairs().iter().find_map(|(name, value)| (name == key).then_some(value))
    }

    /// The value at the end of a path of keys.
    #[must_use]
    pub fn at(&self, path: &[&str]) -> Option<&Self> {
        path.iter().try_fold(self, |value, key| value.get(key))
    }

    /// The pairs of a map; none of anything else.
    #[must_use]
    pub fn pairs(&self) -> &[(String, Self)] {
        match self {
            Self::Map(pairs) => pairs,
            Self::Text(_) | Self::Number(_) | Self::Flag(_) | Self::List(_) | Self::Other(_) => &[],
        }
    }

    /// The text, if this is one.
    #[must_use]
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            Self::Number(_) | Self::Flag(_) | Self::List(_) | Self::Map(_) | Self::Other(_) => None,
        }
    }

    /// The items, if this is a list.
    #[must_use]
    pub fn as_list(&self) -> Option<&[Self]> {
        match self {
            Self::List(items) => Some(items),
            Self::Text(_) | Self::Number(_) | Self::Flag(_) | Self::Map(_) | Self::Other(_) => None,
        }
    }

    /// The texts of a list, if this is a list of nothing else.
    #[must_use]
    pub fn as_texts(&self) -> Option<Vec<String>> {
        self.as_list()?.iter().map(|item| item.as_text().map(str::to_owned)).collect()
    }

    /// `true` if both have the same content; the order of keys does not count.
    #[must_use]
    pub fn is_equivalent(&self, other: &Self) -> bool {
        self.clone().sorted() == other.clone().sorted()
    }

    fn sorted(self) -> Self {
        match self {
            Self::Map(pairs) => {
                let mut pairs: Vec<_> =
                    pairs.into_iter().map(|(key, value)| (key, value.sorted())).collect();
                pairs.sort_by(|(left, _), (right, _)| left.cmp(right));
                Self::Map(pairs)
            }
            Self::List(items) => Self::List(items.into_iter().map(Self::sorted).collect()),
            Self::Text(_) | Self::Number(_) | Self::Flag(_) | Self::Other(_) => self,
        }
    }

    /// Returns this value with another one at the end of a path; maps on the way are created.
    pub(crate) fn with(self, path: &[&str], value: Self) -> Self {
        let Some((first, rest)) = path.split_first() else { return value };
        let mut pairs = match self {
            Self::Map(pairs) => pairs,
            Self::Text(_) | Self::Number(_) | Self::Flag(_) | Self::List(_) | Self::Other(_) => {
                Vec::new()
            }
        };
        match pairs.iter_mut().find(|(key, _)| key == first) {
            Some((_, old)) => {
                let inner = std::mem::replace(old, Self::Flag(false));
                *old = inner.with(rest, value);
            }
            None => pairs.push(((*first).to_owned(), Self::Map(Vec::new()).with(rest, value))),
        }
        Self::Map(pairs)
    }

    /// Returns this value without the key at the end of a path.
    pub(crate) fn without(self, path: &[&str]) -> Self {
        let (Self::Map(pairs), Some((first, rest))) = (self.clone(), path.split_first()) else {
            return self;
        };
        let keep = |(key, value): (String, Self)| match (key == *first, rest.is_empty()) {
            (true, true) => None,
            (true, false) => Some((key, value.without(rest))),
            (false, _) => Some((key, value)),
        };
        Self::Map(pairs.into_iter().filter_map(keep).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_creates_replaces_and_removes() {
        let empty = SettingValue::Map(Vec::new());
        let made = empty.clone().with(&["a", "b"], SettingValue::Number(1));
        assert_eq!(made.at(&["a", "b"]), Some(&SettingValue::Number(1)));
        let other = made.clone().with(&["a", "c"], SettingValue::Flag(true));
        assert_eq!(other.at(&["a", "b"]), Some(&SettingValue::Number(1)));
        assert_eq!(other.clone().without(&["a", "c"]), made);
        assert_eq!(other.without(&["a"]), empty);
        assert_eq!(made.clone().without(&["x", "y"]), made);
    }

    #[test]
    fn the_order_of_keys_does_not_make_a_difference() {
        let one =
            SettingValue::map([("a", SettingValue::Number(1)), ("b", SettingValue::Number(2))]);
        let two =
            SettingValue::map([("b", SettingValue::Number(2)), ("a", SettingValue::Number(1))]);
        assert!(one != two && one.is_equivalent(&two));
    }
}
