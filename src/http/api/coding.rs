//! In which form bytes are sent: as they are, or compressed on the way (RFC 9110, section 12.5.3).

use std::io::{self, Write};
use std::mem;

use flate2::Compression;
use flate2::write::GzEncoder;
use zstd::stream::write::Encoder as ZstdEncoder;

/// Text compresses well at this level, as fast as a network takes it, and an encoder takes
/// little more than a megabyte.
const ZSTD_LEVEL: i32 = 1;

/// A content coding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Coding {
    /// The bytes as they are.
    Identity,
    Gzip,
    Zstd,
}

impl Coding {
    /// The best first, where a client likes several the same.
    const ALL: [Self; 3] = [Self::Zstd, Self::Gzip, Self::Identity];

    /// Its name on the wire.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Identity => "identity",
            Self::Gzip => "gzip",
            Self::Zstd => "zstd",
        }
    }

    /// The coding that a client likes best. One that accepts none of them gets the bytes as
    /// they are: that is of more use than an error.
    pub(super) fn chosen(accepted: Option<&str>) -> Self {
        let Some(accepted) = accepted else { return Self::Identity };
        let mut best = (Self::Identity, 0);
        for coding in Self::ALL {
            let weight = coding.weight(accepted);
            if weight > best.1 {
                best = (coding, weight);
            }
        }
        best.0
    }

    /// How much a client likes it, from 0 to 1000.
    fn weight(self, accepted: &str) -> u32 {
        let named = |name: &str| {
            let mut entries = accepted.split(',').map(entry);
            entries.find(|(coding, _)| coding.eq_ignore_ascii_case(name)).map(|(_, weight)| weight)
        };
        match self {
            // Always good enough unless it is ruled out, but whatever is named is liked better.
            Self::Identity => named("identity").unwrap_or_else(|| u32::from(named("*") != Some(0))),
            Self::Gzip => {
                named("gzip").or_else(|| named("x-gzip")).or_else(|| named("*")).unwrap_or(0)
            }
            Self::Zstd => named("zstd").or_else(|| named("*")).unwrap_or(0),
        }
    }
}

/// One entry of `Accept-Encoding`: a name, and its weight in thousandths.
fn entry(text: &str) -> (&str, u32) {
    let (name, parameter) = text.split_once(';').unwrap_or((text, ""));
    let weight = match parameter.trim().split_once('=') {
        Some(("q" | "Q", weight)) => weight.trim().parse::<f64>().unwrap_or(0.0),
        Some(_) | None => 1.0,
    };
    (name.trim(), (weight.clamp(0.0, 1.0) * 1000.0) as u32)
}

/// Turns bytes into the form in which they are sent, piece by piece.
pub(super) enum Encoder {
    Identity,
    Gzip(GzEncoder<Vec<u8>>),
    Zstd(ZstdEncoder<'static, Vec<u8>>),
    /// Everything has been handed out.
    Ended,
}

impl Encoder {
    pub(super) fn new(coding: Coding) -> io::Result<Self> {
        Ok(match coding {
            Coding::Identity => Self::Identity,
            Coding::Gzip => Self::Gzip(GzEncoder::new(Vec::new(), Compression::fast())),
            Coding::Zstd => Self::Zstd(ZstdEncoder::new(Vec::new(), ZSTD_LEVEL)?),
        })
    }

    /// Takes bytes, and gives what is ready to be sent: maybe nothing yet.
    pub(super) fn push(&mut self, bytes: Vec<u8>) -> io::Result<Vec<u8>> {
        match self {
            Self::Identity => Ok(bytes),
            Self::Gzip(encoder) => {
                encoder.write_all(&bytes)?;
                Ok(mem::take(encoder.get_mut()))
            }
            Self::Zstd(encoder) => {
                encoder.write_all(&bytes)?;
                Ok(mem::take(encoder.get_mut()))
            }
            Self::Ended => Ok(Vec::new()),
        }
    }

    /// Gives the rest, once.
    pub(super) fn finish(&mut self) -> io::Result<Vec<u8>> {
        match mem::replace(self, Self::Ended) {
            Self::Identity | Self::Ended => Ok(Vec::new()),
            Self::Gzip(encoder) => encoder.finish(),
            Self::Zstd(encoder) => encoder.finish(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    #[test]
    fn the_coding_is_the_one_that_the_client_likes_best() {
        for (accepted, expected) in [
            ("", Coding::Identity),
            ("gzip", Coding::Gzip),
            ("gzip, deflate, br, zstd", Coding::Zstd),
            ("zstd;q=0.5, gzip;q=0.8", Coding::Gzip),
            ("zstd; q=0, GZIP;Q=0.001", Coding::Gzip),
            ("x-gzip", Coding::Gzip),
            ("*", Coding::Zstd),
            ("*;q=0", Coding::Identity),
            ("identity;q=0", Coding::Identity),
            ("identity;q=1, gzip;q=0.5", Coding::Identity),
            ("identity;q=0.5, gzip", Coding::Gzip),
            ("br, deflate", Coding::Identity),
            ("gzip;q=x", Coding::Identity),
            ("gzip;q=nan", Coding::Identity),
        ] {
            assert_eq!(Coding::chosen(Some(accepted)), expected, "{accepted}");
        }
        assert_eq!(Coding::chosen(None), Coding::Identity);
    }

    fn encoded(coding: Coding, blocks: &[&[u8]]) -> Vec<u8> {
        let mut encoder = Encoder::new(coding).unwrap();
        let mut sent = Vec::new();
        for block in blocks {
            sent.extend(encoder.push(block.to_vec()).unwrap());
        }
        sent.extend(encoder.finish().unwrap());
        assert!(encoder.finish().unwrap().is_empty());
        sent
    }

    #[test]
    fn what_is_encoded_decodes_to_the_same() {
        for blocks in [&[&b"one\n"[..], b"two\n"][..], &[]] {
            let whole = blocks.concat();
            assert_eq!(encoded(Coding::Identity, blocks), whole);
            assert_eq!(zstd::decode_all(&encoded(Coding::Zstd, blocks)[..]).unwrap(), whole);
            let mut unzipped = Vec::new();
            let zipped = encoded(Coding::Gzip, blocks);
            flate2::read::GzDecoder::new(&zipped[..]).read_to_end(&mut unzipped).unwrap();
            assert_eq!(unzipped, whole);
        }
    }
}
