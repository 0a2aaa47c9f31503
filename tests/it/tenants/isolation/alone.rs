//! The responses to bob do not depend on alice.

use serde_json::json;
use shellyard::mcp;

use super::alice::Alice;
use super::bob::{Bob, methods};
use super::coverage::{missing_attempts, unknown_attempts};
use super::observation::assert_nothing_of_alice;
use super::world::TenantServer;
use crate::tenants::modern;

#[test]
fn a_tenant_gets_the_same_responses_as_on_an_empty_server() {
    let mut busy = TenantServer::new();
    let alice = Alice::busy_in(&mut busy);
    let mut beside = Bob::in_world(&mut busy);
    beside.try_everything(&alice.targets);
    let mut quiet = TenantServer::new();
    let mut alone = Bob::in_world(&mut quiet);
    alone.try_everything(&alice.targets);

    beside.observations.iter().for_each(assert_nothing_of_alice);
    let both = beside.observations.iter().zip(&alone.observations);
    let different: Vec<_> = both.filter(|(beside, alone)| beside != alone).collect();
    assert!(different.is_empty(), "beside alice, and alone: {different:#?}");
    assert_eq!(beside.observations.len(), alone.observations.len());
    alice.assert_unharmed();

    let existing = [beside.tools(), methods(), beside.routes()].into_iter().flatten().collect();
    assert_eq!(
        missing_attempts(&existing, &beside.done),
        [""; 0],
        "`attempts` has nothing for these"
    );
    assert_eq!(
        unknown_attempts(&existing, &beside.done),
        [""; 0],
        "`attempts` has these, and there are none"
    );
}

/// Methods of MCP that this server does not have. The SDK knows them and must not answer by itself.
const ABSENT: [&str; 3] = ["logging/setLevel", "tasks/list", "tasks/result"];

#[test]
fn unlisted_methods_do_not_exist() {
    let mut world = TenantServer::new();
    let mut bob = world.client("bob");
    for method in ABSENT {
        let params = json!({"taskId": "x", "name": "x", "level": "debug"});
        let answer = bob.rpc(method, params.clone());
        assert_eq!(answer["error"]["code"], -32601, "{method}: {answer}");
        let (_, text) = world.ask(modern(method, params), &bob.token);
        assert!(text.contains("-32601"), "{method}: {text}");
        assert!(mcp::list_methods().all(|(known, _)| known != method));
    }
}
