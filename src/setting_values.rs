//! Functions for serde's `deserialize_with`, for settings whose type in the code differs from TOML's.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use serde::de::Error;
use serde::{Deserialize, Deserializer};

pub(crate) fn deserialize_seconds<'de, D: Deserializer<'de>>(
    input: D,
) -> Result<Duration, D::Error> {
    Duration::try_from_secs_f64(f64::deserialize(input)?).map_err(Error::custom)
}

pub(crate) fn deserialize_milliseconds<'de, D: Deserializer<'de>>(
    input: D,
) -> Result<Duration, D::Error> {
    u64::deserialize(input).map(Duration::from_millis)
}

pub(crate) fn deserialize_some_seconds<'de, D: Deserializer<'de>>(
    input: D,
) -> Result<Option<Duration>, D::Error> {
    deserialize_seconds(input).map(Some)
}

pub(crate) fn deserialize_zero_as_none<'de, D, T>(input: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default + PartialEq,
{
    Ok(Some(T::deserialize(input)?).filter(|number| *number != T::default()))
}

pub(crate) fn deserialize_zero_seconds_as_none<'de, D: Deserializer<'de>>(
    input: D,
) -> Result<Option<Duration>, D::Error> {
    Ok(Some(deserialize_seconds(input)?).filter(|time| !time.is_zero()))
}

pub(crate) fn deserialize_path_or_none<'de, D: Deserializer<'de>>(
    input: D,
) -> Result<Option<PathBuf>, D::Error> {
    Ok(deserialize_text_or_none(input)?.map(PathBuf::from))
}

pub(crate) fn deserialize_text_or_none<'de, D: Deserializer<'de>>(
    input: D,
) -> Result<Option<String>, D::Error> {
    Ok(Some(String::deserialize(input)?).filter(|text| !text.is_empty()))
}

pub(crate) fn deserialize_address_or_none<'de, D: Deserializer<'de>>(
    input: D,
) -> Result<Option<SocketAddr>, D::Error> {
    deserialize_text_or_none(input)?.map(|text| text.parse()).transpose().map_err(Error::custom)
}

/// Reads one of these words, and returns its value.
pub(crate) fn deserialize_word<'de, D: Deserializer<'de>, T: Copy>(
    input: D,
    words: &[(&str, T)],
) -> Result<T, D::Error> {
    let text = String::deserialize(input)?;
    let found = words.iter().find(|(word, _)| *word == text);
    found.map(|(_, value)| *value).ok_or_else(|| Error::custom(format!("unknown word {text:?}")))
}
