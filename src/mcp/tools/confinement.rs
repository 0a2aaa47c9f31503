//! How far a call wants its job to be shut in.

use crate::confinement::Profile;
use crate::mcp::args::{ArgError, Args};
use crate::mcp::schema::{Field, Kind};
use crate::yard::{Bound, LimitTerms, NetworkRule, Terms};

/// What `limits` may hold.
const LIMITS: [Field; 6] = [
    Field::optional("memory", Kind::Text, ""),
    Field::optional("cpu_s", Kind::Seconds, ""),
    Field::optional("processes", Kind::Whole, ""),
    Field::optional("open_files", Kind::Whole, ""),
    Field::optional("file_size", Kind::Text, ""),
    Field::optional("nice", Kind::Whole, ""),
];

/// Takes what a call says about its confinement.
pub(super) fn terms(args: &mut Args) -> Result<Terms, ArgError> {
    Ok(Terms {
        profile: args.choice("confinement", &Profile::WORDS)?,
        network: args.choice("network", &NetworkRule::WORDS)?,
        limits: match args.object("limits")? {
            None => LimitTerms::NOTHING,
            Some(limits) => read_limits(Args::new(Some(limits), &LIMITS)?)?,
        },
    })
}

fn read_limits(mut args: Args) -> Result<LimitTerms, ArgError> {
    const ANY: std::ops::RangeInclusive<u64> = 1..=u64::MAX;
    Ok(LimitTerms {
        memory: args.size("memory")?.map(Bound::AtMost),
        cpu: args.seconds("cpu_s")?.map(Bound::AtMost),
        processes: args.whole("processes", ANY)?.map(Bound::AtMost),
        open_files: args.whole("open_files", ANY)?.map(Bound::AtMost),
        file_size: args.size("file_size")?.map(Bound::AtMost),
        nice: args.whole("nice", 0..=19)?.and_then(|nice| u8::try_from(nice).ok()),
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::{Value, json};

    use super::*;

    const FIELDS: [Field; 3] = [
        Field::optional("confinement", Kind::Text, ""),
        Field::optional("network", Kind::Text, ""),
        Field::optional("limits", Kind::Object, ""),
    ];

    fn read(given: &Value) -> Result<Terms, ArgError> {
        terms(&mut Args::new(given.as_object().cloned(), &FIELDS).unwrap())
    }

    #[test]
    fn sizes_are_bytes_or_have_a_unit() {
        let limits = json!({"memory": "2 GB", "file_size": 4096, "cpu_s": 1.5, "nice": "3"});
        let said = read(&json!({"confinement": "read-only", "limits": limits})).unwrap();
        let limits = LimitTerms {
            memory: Some(Bound::AtMost(2_000_000_000)),
            file_size: Some(Bound::AtMost(4096)),
            cpu: Some(Bound::AtMost(Duration::from_millis(1500))),
            nice: Some(3),
            ..LimitTerms::NOTHING
        };
        let profile = Some(Profile::ReadOnly);
        assert_eq!(said, Terms { profile, network: None, limits });
        assert_eq!(read(&json!({})).unwrap(), Terms::NOTHING);
    }

    #[test]
    fn what_cannot_be_meant_is_refused_by_name() {
        for (given, words) in [
            (json!({"confinement": "jail"}), "read-only"),
            (json!({"network": "auto"}), "one of on, off"),
            (json!({"limits": 5}), "limits"),
            (json!({"limits": {"memroy": 5}}), "`memory`"),
            (json!({"limits": {"memory": "lots"}}), "2 GB"),
            (json!({"limits": {"memory": 0}}), "memory"),
            (json!({"limits": {"processes": 0}}), "at least 1"),
            (json!({"limits": {"nice": 20}}), "from 0 to 19"),
        ] {
            let told = read(&given).unwrap_err().to_string();
            assert!(told.contains(words), "{given}: {told}");
        }
    }
}
