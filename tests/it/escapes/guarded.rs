//! What lies in a workspace and runs by itself later, outside of any job.

use std::fs;

use super::world::{Means, Shut, World};
use crate::harness::eventually;

const RESET: &str = "rm -rf .git old .mcp.json; mkdir -p .git/objects";

/// Ways to leave something behind that a client or git would run.
const PLANTS: [&str; 8] = [
    "mkdir -p .git/hooks; echo evil >.git/hooks/pre-commit",
    "rm -rf .git/hooks; mkdir .git/hooks; echo evil >.git/hooks/pre-commit",
    "mkdir own; echo evil >own/pre-commit; mv -T own .git/hooks",
    "mkdir own; echo evil >own/pre-commit; rm -rf .git/hooks; ln -s ../own .git/hooks",
    "mv .git old; mkdir -p .git/hooks; echo evil >.git/hooks/pre-commit",
    "rm -rf .git; mkdir -p .git/hooks; echo evil >.git/hooks/pre-commit",
    "echo evil >.mcp.json",
    "rm -rf .mcp.json; echo evil >mine; mv -T mine .mcp.json",
];

fn is_planted(world: &World) -> bool {
    [".git/hooks/pre-commit", ".mcp.json"].iter().any(|name| {
        fs::read_to_string(world.yard.work().join(name)).is_ok_and(|text| text == "evil\n")
    })
}

/// With Landlock nothing within a workspace can be left out: documented.
#[test]
fn nothing_that_runs_later_is_planted_where_there_are_namespaces() {
    for mut world in World::all() {
        for (there, make) in [("missing", ""), ("there", "; mkdir .git/hooks; echo {} >.mcp.json")]
        {
            for plant in PLANTS {
                let reset = format!("rm -rf own mine; {RESET}{make}");
                world.prepare(&reset);
                world.attempt(Shut::Open, plant);
                assert!(is_planted(&world), "{plant} proves nothing");
                world.prepare(&reset);
                let attempt = world.attempt(Shut::Workspace, plant);
                let expected = world.means == Means::Landlock;
                let name = world.name(Shut::Workspace);
                assert_eq!(is_planted(&world), expected, "{plant}, {there}, {name}: {attempt:?}");
            }
        }
    }
}

#[test]
fn what_was_missing_is_missing_again_and_the_rest_of_a_repository_can_be_written() {
    for mut world in World::each_user(Means::Namespaces, "") {
        world.prepare(RESET);
        let work =
            world.attempt(Shut::Workspace, "echo x >.git/objects/one && echo y >.git/config");
        assert!(work.worked(), "{work:?}");
        let place = world.yard.work();
        eventually("the placeholders are gone", || {
            !place.join(".mcp.json").exists() && !place.join(".git/hooks").exists()
        });
        assert_eq!(fs::read_to_string(place.join(".git/config")).unwrap(), "y\n");
    }
}
