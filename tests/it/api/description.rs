//! `/openapi.json`: it describes what the server does.

use serde_json::{Value, json};

use super::ApiCaller;
use crate::harness::{HttpRequest, Launch};

const METHODS: [&str; 4] = ["GET", "POST", "PUT", "DELETE"];

#[test]
fn the_description_has_the_methods_that_the_server_takes() {
    let mut server = Launch::http().structured().start();
    server.run("true");
    for caller in ApiCaller::both_ways(&mut server) {
        let (status, document) = caller.get("/openapi.json");
        assert_eq!((status, &document["openapi"]), (200, &json!("3.1.0")));
        let paths = document["paths"].as_object().expect("paths");
        assert!(paths.len() > 15, "{paths:?}");
        for (path, methods) in paths {
            for method in METHODS {
                let described = methods.get(method.to_ascii_lowercase()).is_some();
                // A parameter that nobody knows is refused before anything is done.
                let path = format!("{}?no-such-parameter=1", path.replace("{id}", "1"));
                let request = HttpRequest { method, ..HttpRequest::get(&path) };
                let (status, text) = caller.send(request);
                assert_eq!(status != 405, described, "{method} {path}: {status} {text}");
                if described {
                    assert_eq!(status, 400, "{method} {path}: {text}");
                }
            }
        }
    }
}

#[test]
fn the_description_names_what_is_special_about_output_and_events() {
    let mut server = Launch::http().structured().start();
    let (_, document) = ApiCaller::over_tcp(&mut server).get("/openapi.json");
    let output = &document["paths"]["/api/v1/jobs/{id}/output"]["get"];
    let stream = &document["paths"]["/api/v1/jobs/{id}/stream"]["get"];
    for (operation, statuses) in [
        (output, &["200", "206", "304", "410", "416"][..]),
        (stream, &["200", "204", "410", "416"]),
    ] {
        for status in statuses {
            let about = &operation["responses"][status]["description"];
            assert!(about.is_string(), "{status}: {operation}");
        }
    }
    for status in ["200", "206"] {
        let headers = &output["responses"][status]["headers"];
        assert!(headers["X-Shellyard-Holes"].is_object(), "{headers}");
    }
    let parameters = stream["parameters"].as_array().expect("parameters");
    let is_last_id = |it: &&Value| it["name"] == "Last-Event-ID" && it["in"] == "header";
    assert!(parameters.iter().any(|it| is_last_id(&it)), "{stream}");
}

#[test]
fn every_field_of_a_job_is_described() {
    let mut server = Launch::http().structured().args(&["--slots", "1"]).start();
    let caller = ApiCaller::over_tcp(&mut server);
    server.run("echo one | grep -c two; exit 3");
    server.run("kill -9 $$");
    server.call("run_command", json!({"command": "no-such-program", "args": ["x"]}));
    server.start("read line");
    server.start("true");
    let described = caller.get("/openapi.json").1["components"]["schemas"]["Job"].clone();
    let check = |job: &Value| {
        for (name, value) in job.as_object().expect("a job") {
            let kind = &described["properties"][name]["type"];
            let is_kind = match kind.as_str().unwrap_or_else(|| panic!("no `{name}`: {job}")) {
                "string" => value.is_string(),
                "integer" => value.is_u64() || value.is_i64(),
                "boolean" => value.is_boolean(),
                "array" => value.is_array(),
                "object" => value.is_object(),
                other => panic!("{other}"),
            };
            assert!(is_kind, "`{name}` is no {kind}: {value}");
        }
    };
    let (_, listed) = caller.get("/jobs?all=1");
    let jobs = listed["jobs"].as_array().expect("a list");
    assert_eq!(jobs.len(), 5, "{listed}");
    for job in jobs {
        check(job);
        check(&caller.get(&format!("/jobs/{}", job["job"])).1);
    }
}
