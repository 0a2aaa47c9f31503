//! Which means a job gets: the strongest that the host has.

use thiserror::Error;

use crate::confinement::{Backend, Confinement, Granted, Network, Profile};

/// What this host can do. Trying out a means may start a process: it is done for what is asked of
/// the host, and for no more.
#[derive(Debug, Clone)]
pub struct HostOffer {
    /// Namespaces of users, processes, mounts and networks, made by an ordinary user.
    pub namespaces: Means<()>,
    /// Landlock of a version that limits all ways of writing; gives that version.
    pub landlock: Means<u32>,
    /// Filters of system calls.
    pub seccomp: Means<()>,
}

/// One means to shut a job in. A text says what is missing.
#[derive(Debug, Clone)]
pub enum Means<T: 'static> {
    /// This is known of it.
    Known(Result<T, String>),
    /// It is tried out by whoever asks first; the answer stays.
    Tried(fn() -> &'static Result<T, String>),
}

impl<T> Means<T> {
    /// Whether the host has it. Blocks where it still has to be tried out.
    ///
    /// # Errors
    /// What is missing.
    pub fn found(&self) -> Result<&T, &str> {
        let found = match self {
            Self::Known(found) => found,
            Self::Tried(find) => find(),
        };
        found.as_ref().map_err(String::as_str)
    }
}

impl<T> From<Result<T, String>> for Means<T> {
    fn from(found: Result<T, String>) -> Self {
        Self::Known(found)
    }
}

impl HostOffer {
    /// The same without what is stronger than this.
    #[must_use]
    pub fn limited_to(mut self, strongest: Backend) -> Self {
        fn off<T>() -> Means<T> {
            Means::Known(Err("switched off by confinement.backend".to_owned()))
        }
        match strongest {
            Backend::Namespaces => return self,
            Backend::Landlock => {}
            Backend::Seccomp => self.landlock = off(),
            Backend::Nothing => {
                self.landlock = off();
                self.seccomp = off();
            }
        }
        self.namespaces = off();
        self
    }
}

/// What becomes of a job whose confinement this host cannot give.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnUnavailable {
    /// It is not run.
    Refuse,
    /// It is run with what the host can give, and everybody is told.
    Degrade,
}

/// This host cannot confine a job as was asked.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "this host cannot give the confinement `{asked}`: {missing}; `shellyard doctor` says what to change, or set confinement.on_unavailable = \"degrade\" to run with less"
)]
pub struct Unavailable {
    /// What was asked for.
    pub asked: Confinement,
    /// What is missing, and why.
    pub missing: String,
}

/// What a job gets that asks for this.
///
/// # Errors
/// Where the host cannot give it, and less is not allowed.
pub fn grant(
    asked: Confinement,
    offer: &HostOffer,
    otherwise: OnUnavailable,
) -> Result<Granted, Unavailable> {
    match strongest(asked, offer) {
        Ok(backend) => Ok(Granted { asked, given: asked, backend }),
        Err(missing) => match otherwise {
            OnUnavailable::Refuse => Err(Unavailable { asked, missing }),
            OnUnavailable::Degrade => Ok(less(asked, offer)),
        },
    }
}

/// The strongest that can give all of it, or what is missing.
fn strongest(asked: Confinement, offer: &HostOffer) -> Result<Backend, String> {
    if asked == Confinement::NONE {
        return Ok(Backend::Nothing);
    }
    if let Err(why) = offer.seccomp.found() {
        return Err(format!("no filter of system calls ({why})"));
    }
    if !asked.profile.limits_files() {
        return Ok(Backend::Seccomp);
    }
    let Err(namespaces) = offer.namespaces.found() else { return Ok(Backend::Namespaces) };
    match offer.landlock.found() {
        Ok(_) => Ok(Backend::Landlock),
        Err(landlock) => Err(format!("no namespaces ({namespaces}) and no Landlock ({landlock})")),
    }
}

/// What is left where the host cannot give all of it.
fn less(asked: Confinement, offer: &HostOffer) -> Granted {
    let profile = asked.profile.min(Profile::Default);
    let (given, backend) = match offer.seccomp.found() {
        Ok(()) => (Confinement { profile, ..asked }, Backend::Seccomp),
        Err(_) => {
            let profile = Profile::None;
            (Confinement { profile, network: Network::On }, Backend::Nothing)
        }
    };
    Granted { asked, given, backend }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OFF: [Confinement; 2] = [
        Confinement { profile: Profile::None, network: Network::Off },
        Confinement { profile: Profile::Default, network: Network::Off },
    ];
    const FILES: [Confinement; 2] = [
        Confinement { profile: Profile::WorkspaceWrite, network: Network::Off },
        Confinement { profile: Profile::ReadOnly, network: Network::On },
    ];

    fn all() -> HostOffer {
        HostOffer { namespaces: Ok(()).into(), landlock: Ok(7).into(), seccomp: Ok(()).into() }
    }

    /// A means that nobody may try out.
    fn untried<T>() -> Means<T> {
        Means::Tried(|| panic!("nobody asked for it"))
    }

    fn backend(asked: Confinement, offer: &HostOffer) -> Backend {
        let granted = grant(asked, offer, OnUnavailable::Refuse).unwrap();
        assert_eq!((granted.asked, granted.given), (asked, asked));
        granted.backend
    }

    #[test]
    fn the_strongest_at_hand_is_taken() {
        for asked in FILES {
            assert_eq!(backend(asked, &all()), Backend::Namespaces);
            assert_eq!(backend(asked, &all().limited_to(Backend::Landlock)), Backend::Landlock);
        }
        for asked in OFF {
            assert_eq!(backend(asked, &all().limited_to(Backend::Seccomp)), Backend::Seccomp);
        }
        let nothing = all().limited_to(Backend::Nothing);
        assert_eq!(backend(Confinement::NONE, &nothing), Backend::Nothing);
    }

    #[test]
    fn only_what_is_asked_for_is_tried_out() {
        let untried = HostOffer { namespaces: untried(), landlock: untried(), seccomp: untried() };
        assert_eq!(backend(Confinement::NONE, &untried), Backend::Nothing);
        let filters = HostOffer { seccomp: Ok(()).into(), ..untried };
        assert_eq!(backend(OFF[1], &filters), Backend::Seccomp);
        let namespaces = HostOffer { namespaces: Ok(()).into(), ..filters };
        assert_eq!(backend(FILES[0], &namespaces), Backend::Namespaces);
    }

    #[test]
    fn what_cannot_be_given_is_refused_and_says_what_is_missing() {
        let offer = HostOffer {
            namespaces: Err("not permitted".to_owned()).into(),
            landlock: Err("not in this kernel".to_owned()).into(),
            ..all()
        };
        let refused = grant(FILES[0], &offer, OnUnavailable::Refuse).unwrap_err();
        let told = refused.to_string();
        assert!(told.contains("`workspace-write, network off`"), "{told}");
        assert!(told.contains("not permitted") && told.contains("not in this kernel"), "{told}");
    }

    #[test]
    fn with_leave_a_job_gets_what_there_is_and_it_is_told() {
        let weak = all().limited_to(Backend::Seccomp);
        let granted = grant(FILES[0], &weak, OnUnavailable::Degrade).unwrap();
        let left = Confinement { profile: Profile::Default, network: Network::Off };
        assert_eq!((granted.given, granted.backend), (left, Backend::Seccomp));
        assert!(granted.is_degraded());
        let nothing = all().limited_to(Backend::Nothing);
        let granted = grant(OFF[1], &nothing, OnUnavailable::Degrade).unwrap();
        assert_eq!((granted.given, granted.backend), (Confinement::NONE, Backend::Nothing));
        assert!(granted.is_degraded());
    }
}
