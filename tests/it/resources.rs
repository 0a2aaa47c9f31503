//! Each job's output as an MCP resource.

use serde_json::{Value, json};

use crate::harness::{Era, Launch, Yard};

const BOTH_ERAS: [Era; 2] = [Era::Legacy("2025-11-25"), Era::Modern];

fn read(yard: &mut Yard, uri: &str) -> Value {
    yard.rpc("resources/read", json!({"uri": uri}))
}

#[test]
fn jobs_are_listed_as_resources_and_can_be_read() {
    for era in BOTH_ERAS {
        for launch in Launch::both() {
            let mut yard = launch.era(era).start();
            yard.run("echo one");
            yard.run("echo two");
            let listed = yard.rpc("resources/list", json!({}))["result"]["resources"].clone();
            assert_eq!(listed.as_array().map(Vec::len), Some(2), "{listed}");
            assert_eq!(listed[0]["uri"], "shellyard://jobs/2/output", "the newest first");
            let answer = read(&mut yard, "shellyard://jobs/1/output");
            assert_eq!(answer["result"]["contents"][0]["text"], "one\n", "{answer}");
        }
    }
}

#[test]
fn the_template_tells_how_to_address_any_job() {
    let mut yard = Launch::stdio().start();
    let answer = yard.rpc("resources/templates/list", json!({}));
    let template = &answer["result"]["resourceTemplates"][0]["uriTemplate"];
    assert_eq!(template, "shellyard://jobs/{job}/output", "{answer}");
}

#[test]
fn the_address_in_a_reply_can_be_read() {
    let mut yard = Launch::stdio().structured().start();
    let uri = yard.run("echo hello")["uri"].as_str().expect("an address").to_owned();
    let answer = read(&mut yard, &uri);
    assert_eq!(answer["result"]["contents"][0]["text"], "hello\n", "{answer}");
    let page = yard.call("read_output", json!({"uri": uri})).ok();
    assert_eq!(page["output"], "hello\n");
}

#[test]
fn a_huge_output_is_no_huge_resource() {
    let mut yard = Launch::stdio().start();
    yard.run("seq 1 2000000");
    let answer = read(&mut yard, "shellyard://jobs/1/output");
    assert!(answer.get("result").is_some(), "{answer}");
    assert!(answer.to_string().len() < 3 << 20, "{} bytes", answer.to_string().len());
}

#[test]
fn an_address_of_nothing_is_an_error_that_names_it() {
    for era in BOTH_ERAS {
        let mut yard = Launch::stdio().era(era).start();
        for uri in ["shellyard://jobs/99/output", "shellyard://nonsense", "file:///etc/passwd", ""]
        {
            let answer = read(&mut yard, uri);
            let message = answer["error"]["message"].as_str().expect("an error");
            assert!(message.contains(uri), "{answer}");
        }
        yard.assert_alive();
    }
}
