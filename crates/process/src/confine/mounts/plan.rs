//! Deciding what a job sees and where it may write.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::confinement::Profile;

/// One change to what a job sees. A later one lies in front of an earlier one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Mount {
    /// This directory, with all below it, can be written.
    Writable(PathBuf),
    /// The same within one that can be written: it cannot be renamed, removed or replaced.
    Pinned(PathBuf),
    /// This file or directory cannot be written, renamed, removed or replaced, although what is
    /// around it can.
    ReadOnly(PathBuf),
    /// An empty directory or file instead of this one.
    Hidden(PathBuf),
    /// A directory of the job's own instead of the host's. It can be written.
    Private(Substitute),
    /// A file or directory of the host that can be read within a place that is the job's own.
    Shown(Substitute),
}

/// A place, and the file or directory of the host that a job sees there.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Substitute {
    pub(crate) place: PathBuf,
    pub(crate) source: PathBuf,
}

impl Mount {
    /// Where.
    pub(crate) fn path(&self) -> &Path {
        match self {
            Self::Writable(path)
            | Self::Pinned(path)
            | Self::ReadOnly(path)
            | Self::Hidden(path)
            | Self::Private(Substitute { place: path, .. })
            | Self::Shown(Substitute { place: path, .. }) => path,
        }
    }
}

/// What a plan is made from. All paths are full and without symlinks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct View<'a> {
    pub(crate) profile: Profile,
    /// The workspaces ([`super::super::workspace::roots`]). In a read-only view they can be read.
    pub(crate) roots: &'a [PathBuf],
    /// The places of which the job gets its own, with the directories of the job's own.
    pub(crate) private: &'a [Substitute],
    /// The part of those places that is still seen.
    pub(crate) shown: &'a [Substitute],
    /// What in the workspaces must stay as it is ([`super::super::protected::Guarded::names`]).
    pub(crate) guarded: &'a [PathBuf],
    /// What shall not be read ([`super::super::protected::hidden`]).
    pub(crate) hidden: &'a [PathBuf],
    /// The job's own temporary directory on the host, where it is not seen in a private place.
    pub(crate) temporary: Option<&'a Path>,
}

/// What is to be changed, in order: nothing for a profile that does not limit files.
///
/// The innermost place that is named decides. A workspace in a hidden place is seen there, alone; a
/// hidden place in a workspace is hidden; one that is both is a workspace, since somebody chose it.
/// Nothing else of a hidden place is shown.
pub(crate) fn plan(view: &View<'_>) -> Vec<Mount> {
    let chosen: fn(PathBuf) -> Mount = match view.profile {
        Profile::None | Profile::Default => return Vec::new(),
        Profile::WorkspaceWrite => Mount::Writable,
        Profile::ReadOnly => |path| Mount::Shown(Substitute { place: path.clone(), source: path }),
    };
    let pinned = view.guarded.iter().flat_map(|name| pins(name, view.roots)).map(Mount::Pinned);
    let read_only = view.guarded.iter().cloned().map(Mount::ReadOnly);
    // In a workspace that somebody chose around it, a place is that of the host.
    let is_chosen = |path: &Path| view.roots.iter().any(|root| path.starts_with(root));
    let private = view.private.iter().filter(|it| !is_chosen(&it.place));
    let private = private.cloned().map(Mount::Private);
    let is_hidden = |path: &Path| view.hidden.iter().any(|hidden| path.starts_with(hidden));
    let shown = view.shown.iter().filter(|it| !is_hidden(&it.place) && !is_hidden(&it.source));
    let shown = shown.cloned().map(Mount::Shown);
    let hidden = view.hidden.iter().cloned().map(Mount::Hidden);
    let own = view.temporary.map(Path::to_owned).map(Mount::Writable);
    // Of several for the same place the last is kept. Paths compare by their parts: what is around
    // a place comes before it.
    let places: BTreeMap<PathBuf, Mount> = pinned
        .chain(read_only)
        .chain(private)
        .chain(shown)
        .chain(hidden)
        .chain(view.roots.iter().cloned().map(chosen))
        .chain(own)
        .map(|mount| (mount.path().to_owned(), mount))
        .collect();
    needed(places.into_values())
}

/// The directories between a place and the workspace that it is in. Were one of them renamed, the
/// place could be made anew.
fn pins<'a>(name: &'a Path, roots: &'a [PathBuf]) -> impl Iterator<Item = PathBuf> + 'a {
    let root = roots.iter().filter(|root| name.starts_with(root)).max();
    let between =
        move |path: &&Path| root.is_some_and(|root| path.starts_with(root) && path != root);
    name.ancestors().skip(1).take_while(between).map(Path::to_owned)
}

/// Those that change something, given what is around them.
fn needed(mounts: impl Iterator<Item = Mount>) -> Vec<Mount> {
    let mut kept: Vec<Mount> = Vec::new();
    for mount in mounts {
        let around = kept.iter().rev().find(|outer| mount.path().starts_with(outer.path()));
        if changes(&mount, around) {
            kept.push(mount);
        }
    }
    kept
}

/// `true` if a place differs from what is around it; without anything, that is read-only.
fn changes(mount: &Mount, around: Option<&Mount>) -> bool {
    let is_writable = matches!(around, Some(Mount::Writable(_) | Mount::Pinned(_)));
    let is_empty = matches!(around, Some(Mount::Hidden(_) | Mount::Private(_)));
    match mount {
        // One that lies in another cannot be renamed either.
        Mount::Writable(_) | Mount::Private(_) => true,
        Mount::Pinned(_) | Mount::ReadOnly(_) => is_writable,
        Mount::Shown(_) => is_empty,
        Mount::Hidden(_) => !is_empty,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use Mount::{Hidden, Pinned, ReadOnly, Writable};

    /// A kind and a path.
    type Seen = (fn(PathBuf) -> Mount, &'static str);

    fn paths(texts: &[&str]) -> Vec<PathBuf> {
        texts.iter().map(PathBuf::from).collect()
    }

    /// The plan of a job with `/tmp/s/job` as its temporary directory, and nothing private.
    fn planned(profile: Profile, roots: &[&str], guarded: &[&str], hidden: &[&str]) -> Vec<Mount> {
        let (roots, guarded) = (paths(roots), paths(guarded));
        let hidden = paths(&[hidden, &["/tmp/s"]].concat());
        plan(&view(profile, &roots, &guarded, &hidden))
    }

    fn view<'a>(
        profile: Profile,
        roots: &'a [PathBuf],
        guarded: &'a [PathBuf],
        hidden: &'a [PathBuf],
    ) -> View<'a> {
        let temporary = Some(Path::new("/tmp/s/job"));
        View { profile, roots, private: &[], shown: &[], guarded, hidden, temporary }
    }

    fn substitutes(pairs: &[(&str, &str)]) -> Vec<Substitute> {
        let substitute = |(place, source): &(&str, &str)| Substitute {
            place: place.into(),
            source: source.into(),
        };
        pairs.iter().map(substitute).collect()
    }

    #[track_caller]
    fn check(roots: &[&str], guarded: &[&str], hidden: &[&str], expected: &[Seen]) {
        let expected: Vec<_> = expected.iter().map(|(kind, path)| kind(path.into())).collect();
        assert_eq!(planned(Profile::WorkspaceWrite, roots, guarded, hidden), expected);
    }

    const SCRATCH: [Seen; 2] = [(Hidden, "/tmp/s"), (Writable, "/tmp/s/job")];

    #[test]
    fn the_innermost_place_decides() {
        let [others, own] = SCRATCH;
        check(&[], &[], &[], &SCRATCH);
        check(&["/w"], &[], &["/h"], &[(Hidden, "/h"), others, own, (Writable, "/w")]);
        // A workspace that is all around.
        check(&["/tmp"], &[], &[], &[(Writable, "/tmp"), others, own]);
        // Hidden within a workspace, and a workspace within what is hidden.
        check(&["/u"], &[], &["/u/k"], &[others, own, (Writable, "/u"), (Hidden, "/u/k")]);
        check(&["/u/k"], &[], &["/u"], &[others, own, (Hidden, "/u"), (Writable, "/u/k")]);
        check(&["/u"], &[], &["/u"], &[others, own, (Writable, "/u")]);
        // What is in something hidden is hidden; a workspace in another one cannot be renamed.
        check(
            &["/u", "/u/v"],
            &[],
            &["/h", "/h/i"],
            &[(Hidden, "/h"), others, own, (Writable, "/u"), (Writable, "/u/v")],
        );
        // The temporary directory within what is hidden.
        check(&[], &[], &["/tmp"], &[(Hidden, "/tmp"), own]);
    }

    #[test]
    fn what_is_guarded_cannot_be_made_anew_in_another_directory_of_the_same_name() {
        let [others, own] = SCRATCH;
        check(
            &["/w"],
            &["/w/.git/hooks", "/w/.mcp.json", "/elsewhere/x"],
            &[],
            &[
                others,
                own,
                (Writable, "/w"),
                (Pinned, "/w/.git"),
                (ReadOnly, "/w/.git/hooks"),
                (ReadOnly, "/w/.mcp.json"),
            ],
        );
    }

    #[test]
    fn only_the_temporary_directory_can_be_written_in_a_read_only_view() {
        let plan = planned(Profile::ReadOnly, &["/w"], &["/w/.mcp.json"], &["/w/k"]);
        let [(_, others), (_, own)] = SCRATCH;
        assert_eq!(plan, [Hidden(others.into()), Writable(own.into()), Hidden("/w/k".into())]);
        for profile in [Profile::None, Profile::Default] {
            assert_eq!(planned(profile, &["/w"], &[], &["/h"]), []);
        }
    }

    #[test]
    fn in_a_private_place_only_what_is_shown_of_it_is_seen() {
        let private =
            substitutes(&[("/home/me", "/s/home"), ("/tmp", "/s/tmp"), ("/run", "/s/run")]);
        let shown = substitutes(&[
            ("/home/me/.cargo", "/home/me/.cargo"),
            ("/home/me/.ssh/config", "/home/me/.ssh/config"),
            ("/home/me/keys", "/home/me/.ssh"),
            ("/home/me/work/bin", "/home/me/work/bin"),
            ("/usr/bin", "/usr/bin"),
        ]);
        let hidden = paths(&["/home/me/.ssh", "/home/me/.cargo/credentials", "/tmp/data"]);
        let roots = paths(&["/home/me/work"]);
        let view = View {
            private: &private,
            shown: &shown,
            temporary: None,
            ..view(Profile::WorkspaceWrite, &roots, &[], &hidden)
        };
        let [home, tmp, run] = [0, 1, 2].map(|at| Mount::Private(private[at].clone()));
        let cargo = Mount::Shown(shown[0].clone());
        let credentials = Hidden("/home/me/.cargo/credentials".into());
        let work = Writable("/home/me/work".into());
        let expected = vec![home, cargo, credentials, work, run, tmp];
        assert_eq!(plan(&view), expected);
        // The same in a read-only view, where a workspace can only be read.
        let seen = plan(&View { profile: Profile::ReadOnly, ..view });
        let work = substitutes(&[("/home/me/work", "/home/me/work")]).remove(0);
        assert_eq!(seen[3], Mount::Shown(work));
    }

    #[test]
    fn what_is_around_a_workspace_that_somebody_chose_is_not_made_private_in_it() {
        let private = substitutes(&[("/home/me", "/s/home"), ("/var/tmp", "/s/tmp")]);
        for profile in [Profile::WorkspaceWrite, Profile::ReadOnly] {
            let roots = paths(&["/home/me", "/var"]);
            let view =
                View { private: &private, temporary: None, ..view(profile, &roots, &[], &[]) };
            let seen = plan(&view);
            assert!(!seen.iter().any(|mount| matches!(mount, Mount::Private(_))), "{seen:?}");
        }
    }

    /// A few paths from few names, so that many lie in one another.
    fn some_paths() -> impl Strategy<Value = Vec<PathBuf>> {
        prop::collection::vec("(/[ab]){1,4}".prop_map(PathBuf::from), 0..5)
    }

    proptest! {
        #[test]
        fn each_place_is_as_the_innermost_that_names_it(
            (roots, guarded, hidden) in (some_paths(), some_paths(), some_paths()),
            asked in "(/[ab]){1,5}".prop_map(PathBuf::from),
        ) {
            let plan = plan(&view(Profile::WorkspaceWrite, &roots, &guarded, &hidden));
            let seen = plan.iter().rev().find(|mount| asked.starts_with(mount.path()));
            let innermost = |names: &[PathBuf]| {
                let depths = names.iter().filter(|name| asked.starts_with(name));
                depths.map(|name| name.components().count()).max().unwrap_or(0)
            };
            let (root, guard, veil) = (innermost(&roots), innermost(&guarded), innermost(&hidden));
            // What is guarded in a hidden place is not seen either.
            let is_hidden = veil > root;
            let is_writable = root > 0 && root >= veil && root >= guard;
            prop_assert_eq!(matches!(seen, Some(Hidden(_))), is_hidden, "{:?}", plan);
            let writes = matches!(seen, Some(Writable(_) | Pinned(_)));
            prop_assert_eq!(writes, is_writable, "{:?}", plan);
        }

        #[test]
        fn what_is_around_comes_first_and_nothing_comes_twice(
            (roots, guarded, hidden) in (some_paths(), some_paths(), some_paths()),
        ) {
            let own = Some(Path::new("/a/b"));
            let view = view(Profile::WorkspaceWrite, &roots, &guarded, &hidden);
            let plan = plan(&View { temporary: own, ..view });
            prop_assert!(plan.is_sorted_by(|one, next| one.path() < next.path()), "{:?}", plan);
        }
    }
}
