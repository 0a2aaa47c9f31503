//! The calls that the document prints.

use std::fs;

use serde_json::json;

use super::super::speaking;
use super::{fields, pids, run, write_program};
use crate::harness::{Launch, Marker, Sandbox};

/// Puts programs with this shell text in place of `npm` and `docker-compose`.
pub(super) fn with_programs(launch: Launch, sandbox: &Sandbox, text: &str) -> Launch {
    let bin = sandbox.path().join("bin");
    fs::create_dir_all(&bin).expect("a directory of ours");
    for name in ["npm", "docker-compose"] {
        write_program(&bin.join(name), &format!("#!/bin/sh\n{text}\n"));
    }
    launch.env("PATH", &format!("{}:/usr/local/bin:/usr/bin:/bin", bin.display()))
}

#[test]
fn the_printed_calls_of_one_time_commands_wait_for_the_end() {
    for launch in speaking("run_shell_command") {
        let sandbox = Sandbox::new();
        let mut server = with_programs(launch, &sandbox, "echo \"$@\"").start();
        let list = fields(run(&mut server, json!({"command": "ls -la", "is_background": false})));
        assert_eq!(list["Exit Code"], 0, "{list}");
        fs::create_dir(server.work().join("scripts")).expect("a directory");
        write_program(&server.work().join("scripts/my_script.sh"), "#!/bin/sh\necho mine\n");
        let script = json!({"command": "./my_script.sh", "directory": "scripts",
            "description": "Run my custom script", "is_background": false});
        assert_eq!(fields(run(&mut server, script))["Stdout"], "mine\n");
        let build = json!({"command": "npm run build", "description": "Build the project",
            "is_background": false});
        let build = fields(run(&mut server, build));
        assert_eq!((&build["Stdout"], &build["Exit Code"]), (&json!("run build\n"), &json!(0)));
    }
}

#[test]
fn the_printed_calls_of_servers_return_while_they_run() {
    for launch in speaking("run_shell_command") {
        let sandbox = Sandbox::new();
        let marker = Marker::new();
        let mut server = with_programs(launch, &sandbox, &format!("exec sleep {marker}")).start();
        for call in [
            json!({"command": "npm run dev", "is_background": true,
                "description": "Start development server in background"}),
            json!({"command": "npm run dev &", "is_background": false,
                "description": "Start development server in background"}),
            json!({"command": "docker-compose up", "description": "Start all services",
                "is_background": true}),
        ] {
            let started = fields(run(&mut server, call.clone()));
            assert!(!pids(&started).is_empty(), "{call}: {started}");
            let description = started["Description"].as_str().expect("a text");
            let is_marked = description.ends_with(" [background]");
            assert_eq!(json!(is_marked), call["is_background"], "{started}");
        }
        marker.wait_alive();
    }
}
