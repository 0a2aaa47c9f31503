//! How values are read that are written in one form and used in another.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Deserializer};

use super::doors::Socket;
use super::jobs::Shell;

pub(super) fn seconds<'de, D: Deserializer<'de>>(input: D) -> Result<Duration, D::Error> {
    Duration::try_from_secs_f64(f64::deserialize(input)?).map_err(serde::de::Error::custom)
}

pub(super) fn milliseconds<'de, D: Deserializer<'de>>(input: D) -> Result<Duration, D::Error> {
    u64::deserialize(input).map(Duration::from_millis)
}

pub(super) fn zero_is_none<'de, D: Deserializer<'de>>(input: D) -> Result<Option<u64>, D::Error> {
    Ok(Some(u64::deserialize(input)?).filter(|&number| number > 0))
}

pub(super) fn zero_seconds_is_none<'de, D: Deserializer<'de>>(
    input: D,
) -> Result<Option<Duration>, D::Error> {
    Ok(Some(seconds(input)?).filter(|time| !time.is_zero()))
}

pub(super) fn path_or_none<'de, D: Deserializer<'de>>(
    input: D,
) -> Result<Option<PathBuf>, D::Error> {
    let text = String::deserialize(input)?;
    Ok((!text.is_empty()).then(|| text.into()))
}

pub(super) fn text_or_none<'de, D: Deserializer<'de>>(
    input: D,
) -> Result<Option<String>, D::Error> {
    Ok(Some(String::deserialize(input)?).filter(|text| !text.is_empty()))
}

pub(super) fn shell<'de, D: Deserializer<'de>>(input: D) -> Result<Shell, D::Error> {
    let text = String::deserialize(input)?;
    Ok(if text == "auto" { Shell::Auto } else { Shell::At(text.into()) })
}

pub(super) fn address_or_none<'de, D: Deserializer<'de>>(
    input: D,
) -> Result<Option<SocketAddr>, D::Error> {
    let text = String::deserialize(input)?;
    let parsed = (!text.is_empty()).then(|| text.parse());
    parsed.transpose().map_err(serde::de::Error::custom)
}

pub(super) fn socket<'de, D: Deserializer<'de>>(input: D) -> Result<Socket, D::Error> {
    let text = String::deserialize(input)?;
    Ok(match text.as_str() {
        "" => Socket::Usual,
        "none" => Socket::Off,
        _ => Socket::At(text.into()),
    })
}
