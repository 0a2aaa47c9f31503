//! How somebody can be asked in a call, if at all.

use rmcp::RoleServer;
use rmcp::model::{ElicitationCapability, ProtocolVersion};
use rmcp::service::RequestContext;

/// How somebody can be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// Not at all.
    None,
    /// By a request of our own while the call waits.
    Session,
    /// By the answer to the call, which then comes again.
    Result,
}

impl Way {
    /// What the client of this request can do.
    pub(super) fn of(request: &RequestContext<RoleServer>) -> Self {
        let asks = request.client_capabilities().and_then(|it| it.elicitation);
        match request.protocol_version() {
            Some(version) => Self::in_era(&version, asks.as_ref()),
            None => Self::None,
        }
    }

    fn in_era(version: &ProtocolVersion, asks: Option<&ElicitationCapability>) -> Self {
        // Who names no mode shows forms.
        let shows_forms = asks.is_some_and(|it| it.form.is_some() || it.url.is_none());
        if !shows_forms || *version < ProtocolVersion::V_2025_06_18 {
            Self::None
        } else if *version < ProtocolVersion::V_2026_07_28 {
            Self::Session
        } else {
            Self::Result
        }
    }
}

#[cfg(test)]
mod tests {
    use rmcp::model::UrlElicitationCapability;

    use super::*;

    #[test]
    fn the_way_follows_from_the_era_and_the_client() {
        let forms = ElicitationCapability::new();
        for (version, way) in [
            (ProtocolVersion::V_2024_11_05, Way::None),
            (ProtocolVersion::V_2025_06_18, Way::Session),
            (ProtocolVersion::V_2026_07_28, Way::Result),
        ] {
            assert_eq!(Way::in_era(&version, Some(&forms)), way, "{version}");
            assert_eq!(Way::in_era(&version, None), Way::None, "{version}");
            let pages = ElicitationCapability::new().with_url(UrlElicitationCapability::new());
            assert_eq!(Way::in_era(&version, Some(&pages)), Way::None, "{version}");
        }
    }
}
