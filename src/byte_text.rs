//! Paths and other bytes in JSON: a string if they are UTF-8, otherwise `{"hex": "…"}`. For serde's `with`.

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use data_encoding::HEXLOWER;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum ByteText<'a> {
    #[serde(borrow)]
    Text(Cow<'a, str>),
    Hex {
        hex: String,
    },
}

impl ByteText<'_> {
    fn decode(self) -> Result<OsString, data_encoding::DecodeError> {
        match self {
            Self::Text(text) => Ok(text.into_owned().into()),
            Self::Hex { hex } => HEXLOWER.decode(hex.as_bytes()).map(OsString::from_vec),
        }
    }
}

impl<'a> From<&'a OsStr> for ByteText<'a> {
    fn from(bytes: &'a OsStr) -> Self {
        match bytes.to_str() {
            Some(text) => Self::Text(Cow::Borrowed(text)),
            None => Self::Hex { hex: HEXLOWER.encode(bytes.as_bytes()) },
        }
    }
}

pub(crate) fn serialize<S: Serializer>(
    bytes: &(impl AsRef<OsStr> + ?Sized),
    output: S,
) -> Result<S::Ok, S::Error> {
    ByteText::from(bytes.as_ref()).serialize(output)
}

pub(crate) fn deserialize<'de, D, T>(input: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: From<OsString>,
{
    ByteText::deserialize(input)?.decode().map(T::from).map_err(D::Error::custom)
}

/// Writes a path that may be absent.
pub(crate) fn serialize_option<S: Serializer>(
    path: &Option<Arc<Path>>,
    output: S,
) -> Result<S::Ok, S::Error> {
    path.as_deref().map(|path| ByteText::from(path.as_os_str())).serialize(output)
}

/// Reads a path that may be absent.
pub(crate) fn deserialize_option<'de, D: Deserializer<'de>>(
    input: D,
) -> Result<Option<Arc<Path>>, D::Error> {
    let Some(text) = Option::<ByteText<'de>>::deserialize(input)? else { return Ok(None) };
    let path = text.decode().map_err(D::Error::custom)?;
    Ok(Some(PathBuf::from(path).into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Paths {
        #[serde(with = "super")]
        one: PathBuf,
        #[serde(
            default,
            serialize_with = "serialize_option",
            deserialize_with = "deserialize_option",
            skip_serializing_if = "Option::is_none"
        )]
        other: Option<Arc<Path>>,
    }

    #[test]
    fn every_path_is_read_back_as_it_was() {
        let odd = OsString::from_vec(b"/srv/\xff".to_vec());
        for (one, other, expected) in [
            ("/srv/ü".into(), None, r#"{"one":"/srv/ü"}"#),
            (
                odd,
                Some(Path::new("/a\"b").into()),
                r#"{"one":{"hex":"2f7372762fff"},"other":"/a\"b"}"#,
            ),
        ] {
            let paths = Paths { one: one.into(), other };
            let text = serde_json::to_string(&paths).unwrap();
            assert_eq!(text, expected);
            assert_eq!(serde_json::from_str::<Paths>(&text).unwrap(), paths);
        }
        assert!(serde_json::from_str::<Paths>(r#"{"one":{"hex":"2F"}}"#).is_err());
    }
}
