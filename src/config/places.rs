//! Where files are looked for and kept: pure functions of the environment.

use std::path::{Path, PathBuf};

use super::Environment;

const FILE: &str = "shellyard/config.toml";
const SYSTEM_FILE: &str = "/etc/shellyard/config.toml";

/// The files that are tried when none is named, the first that exists wins.
pub(super) fn config_files(environment: &Environment) -> Vec<PathBuf> {
    let named = environment.absolute_path("XDG_CONFIG_HOME").map(|home| home.join(FILE));
    let usual = environment.absolute_path("HOME").map(|home| home.join(".config").join(FILE));
    named.into_iter().chain(usual).chain([PathBuf::from(SYSTEM_FILE)]).collect()
}

/// The user's own configuration file: where `config init` writes. `None` without a home.
#[must_use]
pub fn user_file(environment: &Environment) -> Option<PathBuf> {
    config_files(environment).into_iter().find(|path| path != Path::new(SYSTEM_FILE))
}

/// The data directory when none is configured.
pub(super) fn data_dir(environment: &Environment) -> PathBuf {
    let named = environment.absolute_path("XDG_STATE_HOME").map(|home| home.join("shellyard"));
    let usual = || Some(environment.absolute_path("HOME")?.join(".local/state/shellyard"));
    named.or_else(usual).unwrap_or_else(|| {
        let temporary = environment.absolute_path("TMPDIR").unwrap_or_else(|| "/tmp".into());
        // The temporary directory is shared, so that every user needs a name of its own.
        temporary.join(format!("shellyard-{}", environment.user()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usual_places_are_tried_in_order() {
        let environment = Environment::from_pairs([("HOME", "/h"), ("XDG_CONFIG_HOME", "/x")]);
        let expected =
            ["/x/shellyard/config.toml", "/h/.config/shellyard/config.toml", SYSTEM_FILE];
        assert_eq!(config_files(&environment), expected.map(PathBuf::from));
        assert_eq!(user_file(&environment), Some(PathBuf::from(expected[0])));
    }

    #[test]
    fn without_a_home_only_the_system_file_is_left() {
        let environment = Environment::from_pairs([("XDG_CONFIG_HOME", "relative")]);
        assert_eq!(config_files(&environment), [PathBuf::from(SYSTEM_FILE)]);
        assert_eq!(user_file(&environment), None);
    }

    #[test]
    fn the_data_directory_follows_xdg_then_home_then_the_temporary_directory() {
        let dir = |pairs: &[(&str, &str)]| data_dir(&Environment::from_pairs(pairs.to_vec()));
        assert_eq!(dir(&[("XDG_STATE_HOME", "/x"), ("HOME", "/h")]), Path::new("/x/shellyard"));
        assert_eq!(dir(&[("HOME", "/h")]), Path::new("/h/.local/state/shellyard"));
        assert_eq!(dir(&[("TMPDIR", "/t")]), Path::new("/t/shellyard-0"));
        assert_eq!(dir(&[("HOME", "")]), Path::new("/tmp/shellyard-0"));
    }
}
