//! What bob gets does not depend on alice.

use serde_json::json;
use shellyard::mcp;

use super::alice::Alice;
use super::bob::{Bob, methods};
use super::coverage::{without_a_deed, without_a_thing};
use super::seen::assert_nothing_of_alice;
use super::world::World;
use crate::tenants::modern;

#[test]
fn a_tenant_gets_what_it_would_get_if_there_were_no_other() {
    let mut busy = World::new();
    let alice = Alice::busy_in(&mut busy);
    let mut beside = Bob::in_world(&mut busy);
    beside.try_everything(&alice.aims);
    let mut quiet = World::new();
    let mut alone = Bob::in_world(&mut quiet);
    alone.try_everything(&alice.aims);

    beside.seen.iter().for_each(assert_nothing_of_alice);
    let both = beside.seen.iter().zip(&alone.seen);
    let different: Vec<_> = both.filter(|(beside, alone)| beside != alone).collect();
    assert!(different.is_empty(), "beside alice, and alone: {different:#?}");
    assert_eq!(beside.seen.len(), alone.seen.len());
    alice.assert_unharmed();

    let there_is = [beside.tools(), methods(), beside.routes()].into_iter().flatten().collect();
    assert_eq!(without_a_deed(&there_is, &beside.done), [""; 0], "`deeds` has nothing for these");
    assert_eq!(
        without_a_thing(&there_is, &beside.done),
        [""; 0],
        "`deeds` has these, and there are none"
    );
}

/// What MCP has and this server has not. The SDK knows them, and must not answer by itself.
const ABSENT: [&str; 3] = ["logging/setLevel", "tasks/list", "tasks/result"];

#[test]
fn what_is_not_in_the_list_of_methods_is_not_there() {
    let mut world = World::new();
    let mut bob = world.client("bob");
    for method in ABSENT {
        let params = json!({"taskId": "x", "name": "x", "level": "debug"});
        let answer = bob.rpc(method, params.clone());
        assert_eq!(answer["error"]["code"], -32601, "{method}: {answer}");
        let (_, text) = world.ask(modern(method, params), &bob.token);
        assert!(text.contains("-32601"), "{method}: {text}");
        assert!(mcp::methods().all(|(known, _)| known != method));
    }
}
