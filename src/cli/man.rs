//! `man`: the manual pages of the program and of each verb.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use clap::Args;
use clap_mangen::Man;

use super::terminal::VerbOutput;

/// The section for programs.
const SECTION: &str = "1";

/// Flags of the verb `man`.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct ManFlags {
    /// Write a page for the program and one for each verb into this directory, such as
    /// ~/.local/share/man/man1; without it, print the page of the program.
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
}

/// Prints or writes the pages of this command line and returns the exit code.
#[must_use]
pub(super) fn run(flags: &ManFlags, command: clap::Command) -> u8 {
    let output = match &flags.dir {
        Some(dir) => write_pages(dir, command).map(|()| VerbOutput {
            stderr: format!("the manual pages are in {}\n", dir.display()),
            ..VerbOutput::default()
        }),
        None => print_page(command),
    };
    let place = flags.dir.as_ref().map(|dir| format!(" to {}", dir.display()));
    let place = place.unwrap_or_default();
    let failure = |error: io::Error| VerbOutput {
        stderr: format!(
            "shellyard: the manual pages cannot be written{place}: {error}; name another directory\n"
        ),
        code: 1,
        ..VerbOutput::default()
    };
    output.unwrap_or_else(failure).print()
}

fn print_page(command: clap::Command) -> io::Result<VerbOutput> {
    let pages = build_pages(command)?;
    let first = pages.into_iter().next().unwrap_or_default();
    Ok(VerbOutput { stdout: first.text, ..VerbOutput::default() })
}

fn write_pages(dir: &Path, command: clap::Command) -> io::Result<()> {
    fs::create_dir_all(dir)?;
    build_pages(command)?
        .iter()
        .try_for_each(|page| fs::write(dir.join(&page.file_name), &page.text))
}

/// The manual page of one command, and the name by which man finds it.
#[derive(Debug, Default)]
struct ManualPage {
    file_name: String,
    text: String,
}

/// Builds the page of the program, followed by those of all verbs.
fn build_pages(command: clap::Command) -> io::Result<Vec<ManualPage>> {
    let mut program = command.disable_help_subcommand(true);
    program.build();
    let mut pages = Vec::new();
    add_pages(&program, &mut pages)?;
    Ok(pages)
}

/// Adds the page of a command and those of its visible verbs.
fn add_pages(command: &clap::Command, pages: &mut Vec<ManualPage>) -> io::Result<()> {
    // `build` gives each verb the name `shellyard-VERB`, by which its page is found.
    let name = command.get_display_name().unwrap_or_else(|| command.get_name()).to_owned();
    let mut text = Vec::new();
    Man::new(command.clone())
        .title(name.to_uppercase())
        .section(SECTION)
        .manual("User Commands")
        .render(&mut text)?;
    let text = String::from_utf8(text).map_err(io::Error::other)?;
    pages.push(ManualPage { file_name: format!("{name}.{SECTION}"), text });
    let verbs = command.get_subcommands().filter(|verb| !verb.is_hide_set());
    verbs.into_iter().try_for_each(|verb| add_pages(verb, pages))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use clap::CommandFactory;

    use super::*;
    use crate::cli::Cli;

    #[test]
    fn each_verb_has_a_page_with_its_flags() {
        let pages = build_pages(Cli::command()).unwrap();
        let names: BTreeSet<&str> = pages.iter().map(|page| &*page.file_name).collect();
        assert_eq!(names.len(), pages.len());
        for name in ["shellyard.1", "shellyard-serve.1", "shellyard-token-new.1", "shellyard-man.1"]
        {
            assert!(names.contains(name), "{name}: {names:?}");
        }
        let serve = pages.iter().find(|page| page.file_name == "shellyard-serve.1").unwrap();
        assert!(serve.text.contains("\\-\\-token\\-file"), "{}", serve.text);
        assert!(serve.text.starts_with(".ie"), "{}", serve.text);
    }
}
