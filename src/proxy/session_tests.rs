//! The rules of a session, event by event.

use proptest::prelude::*;

use super::*;

fn request(id: i64, method: &str) -> Request {
    let wish = match method {
        "initialize" => Wish::Open,
        "resources/list" => Wish::Follow(Followed::List),
        "resources/subscribe" => Wish::Follow(Followed::Resource("u".into())),
        "resources/unsubscribe" => Wish::Unfollow("u".into()),
        _ => Wish::Answer,
    };
    let line = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": {"x": "y"}});
    Request { id: RequestId::Number(id), wish, line: line.to_string().into_bytes() }
}

fn ask(id: i64, method: &str) -> Event {
    Event::Client(ClientLine::Request(request(id, method)))
}

fn answer(id: &RequestId, verdict: Verdict) -> Event {
    Event::Server(ServerLine::Answer { id: id.clone(), verdict, line: b"answer".to_vec() })
}

fn answered(id: i64) -> Event {
    answer(&RequestId::Number(id), Verdict::Result)
}

fn initialized() -> Event {
    Event::Client(ClientLine::Initialized(b"initialized".to_vec()))
}

fn closing() -> Event {
    Event::Server(ServerLine::Closing)
}

fn over() -> Event {
    Event::HoldOver { why: "nobody is there".into() }
}

/// A session after these events, and what the last of them led to.
fn play(events: impl IntoIterator<Item = Event>) -> (Session, Vec<Action>) {
    let mut session = Session::new();
    let last = events.into_iter().fold(Vec::new(), |_, event| session.apply(event));
    (session, last)
}

/// A legacy client that is in the middle of its work.
fn opened() -> Vec<Event> {
    vec![Event::Connected, ask(1, "initialize"), answered(1), initialized()]
}

fn shown(actions: &[Action]) -> Vec<String> {
    let text = |line: &[u8]| match serde_json::from_slice::<Value>(line) {
        Ok(message) if message.get("error").is_some() => {
            format!("{} {}", message["id"], message["error"]["data"]["code"])
        }
        Ok(message) => format!("{} {}", message["id"], message["method"]),
        Err(_) => String::from_utf8_lossy(line).into_owned(),
    };
    let one = |action: &Action| match action {
        Action::ToServer(line) => format!("> {}", text(line)).replace('"', ""),
        Action::ToClient(line) => format!("< {}", text(line)).replace('"', ""),
    };
    actions.iter().map(one).collect()
}

#[track_caller]
fn check(events: impl IntoIterator<Item = Event>, expected: &[&str]) {
    assert_eq!(shown(&play(events).1), expected);
}

#[test]
fn a_request_goes_through_and_its_answer_comes_back() {
    check([Event::Connected, ask(1, "tools/call")], &["> 1 tools/call"]);
    check([Event::Connected, ask(1, "tools/call"), answered(1)], &["< answer"]);
}

#[test]
fn what_is_asked_before_the_first_connection_waits_for_it() {
    check(
        [ask(1, "initialize"), ask(2, "ping"), Event::Connected],
        &["> 1 initialize", "> 2 ping"],
    );
}

#[test]
fn a_loss_answers_the_calls_in_flight_and_only_those() {
    let mut events = opened();
    events.extend([ask(2, "a"), ask(3, "b"), answered(2), Event::Lost]);
    check(events.clone(), &["< 3 server_lost"]);
    events.push(Event::Lost);
    check(events, &[]);
}

#[test]
fn a_new_connection_hears_the_opening_and_its_answer_is_swallowed() {
    let mut events = opened();
    events.extend([Event::Lost, ask(2, "a"), Event::Connected]);
    check(
        events.clone(),
        &["> shellyard-proxy:1 initialize", "> null notifications/initialized", "> 2 a"],
    );
    let own = RequestId::String("shellyard-proxy:1".into());
    events.push(answer(&own, Verdict::Result));
    check(events.clone(), &[]);
    // Also the next one.
    events.extend([answered(2), Event::Lost, Event::Connected]);
    check(events, &["> shellyard-proxy:2 initialize", "> null notifications/initialized"]);
}

#[test]
fn the_replayed_opening_is_the_clients_own_but_for_the_id() {
    let mut events = opened();
    events.extend([Event::Lost, Event::Connected]);
    let (_, actions) = play(events);
    let Action::ToServer(line) = &actions[0] else { panic!("{actions:?}") };
    let replayed: Value = serde_json::from_slice(line).unwrap();
    let mut original: Value = serde_json::from_slice(&request(1, "initialize").line).unwrap();
    original["id"] = json!("shellyard-proxy:1");
    assert_eq!(replayed, original);
}

#[test]
fn a_modern_client_has_nothing_to_replay() {
    let events = [Event::Connected, ask(1, "a"), answered(1), Event::Lost, Event::Connected];
    check(events, &[]);
}

#[test]
fn an_opening_that_was_in_flight_is_asked_again_and_its_answer_is_the_clients() {
    let events = [Event::Connected, ask(1, "initialize"), Event::Lost];
    check(events.clone(), &[]);
    let mut events = events.to_vec();
    events.push(Event::Connected);
    check(events.clone(), &["> 1 initialize"]);
    events.push(answered(1));
    check(events, &["< answer"]);
}

#[test]
fn an_opening_without_its_confirmation_is_replayed_without_it() {
    let events =
        [Event::Connected, ask(1, "initialize"), answered(1), Event::Lost, Event::Connected];
    check(events.clone(), &["> shellyard-proxy:1 initialize"]);
    let mut events = events.to_vec();
    events.push(initialized());
    check(events, &["> initialized"]);
}

#[test]
fn an_opening_that_failed_is_not_replayed() {
    let failed = answer(&RequestId::Number(1), Verdict::Error);
    check([Event::Connected, ask(1, "initialize"), failed, Event::Lost, Event::Connected], &[]);
}

#[test]
fn what_was_followed_is_followed_again() {
    let mut events = opened();
    events.extend([ask(2, "resources/list"), answered(2), ask(3, "resources/subscribe")]);
    events.extend([answered(3), Event::Lost, Event::Connected]);
    check(
        events.clone(),
        &[
            "> shellyard-proxy:1 initialize",
            "> null notifications/initialized",
            "> shellyard-proxy:2 resources/list",
            "> shellyard-proxy:3 resources/subscribe",
        ],
    );
    // A server that does not know it is not asked again.
    let unknown = RequestId::String("shellyard-proxy:3".into());
    events.extend([answer(&unknown, Verdict::Error), Event::Lost, Event::Connected]);
    assert_eq!(shown(&play(events).1).len(), 3);
}

#[test]
fn what_is_followed_no_more_or_never_was_is_not_replayed() {
    let mut dropped = opened();
    dropped.extend([ask(2, "resources/subscribe"), answered(2)]);
    dropped.extend([ask(3, "resources/unsubscribe"), answered(3), Event::Lost, Event::Connected]);
    assert_eq!(shown(&play(dropped).1).len(), 2);
    let mut refused = opened();
    let no = answer(&RequestId::Number(2), Verdict::Error);
    refused.extend([ask(2, "resources/subscribe"), no, Event::Lost, Event::Connected]);
    assert_eq!(shown(&play(refused).1).len(), 2);
}

#[test]
fn what_is_asked_of_a_server_that_ends_waits_for_the_next_one() {
    let mut events = vec![Event::Connected, ask(1, "a"), closing()];
    check(events.clone(), &[]);
    events.push(ask(2, "b"));
    check(events.clone(), &[]);
    events.push(over());
    check(events.clone(), &[]);
    events.push(answered(1));
    check(events.clone(), &["< answer"]);
    events.extend([ask(3, "c"), Event::Lost]);
    check(events.clone(), &[]);
    events.push(Event::Connected);
    check(events, &["> 2 b", "> 3 c"]);
    let in_flight = [Event::Connected, ask(1, "a"), closing(), ask(2, "b"), Event::Lost];
    check(in_flight, &["< 1 server_lost"]);
}

#[test]
fn a_server_that_ends_still_hears_who_cancels() {
    let cancel = |id| {
        let line = b"cancelled".to_vec();
        Event::Client(ClientLine::Cancelled { id: RequestId::Number(id), line })
    };
    let mut events = vec![Event::Connected, ask(1, "a"), closing(), ask(2, "b"), cancel(1)];
    check(events.clone(), &["> cancelled"]);
    events.extend([cancel(2), Event::Lost, Event::Connected]);
    check(events, &[]);
}

#[test]
fn who_has_waited_long_enough_hears_why() {
    check(
        [ask(1, "a"), ask(2, "b"), over()],
        &["< 1 server_unreachable", "< 2 server_unreachable"],
    );
    let (mut session, actions) = play([ask(3, "c"), over()]);
    assert!(!session.has_waiting());
    let Action::ToClient(line) = &actions[0] else { panic!("{actions:?}") };
    assert!(String::from_utf8_lossy(line).contains("nobody is there"));
    session.apply(Event::Connected);
    assert_eq!(shown(&session.apply(ask(4, "d"))), ["> 4 d"]);
}

#[test]
fn a_cancelled_request_gets_no_answer() {
    let cancel = |id| {
        let line = b"cancelled".to_vec();
        Event::Client(ClientLine::Cancelled { id: RequestId::Number(id), line })
    };
    check([Event::Connected, ask(1, "a"), cancel(1)], &["> cancelled"]);
    check([Event::Connected, ask(1, "a"), cancel(1), Event::Lost], &[]);
    check([ask(1, "a"), cancel(1)], &[]);
    check([ask(1, "a"), cancel(1), Event::Connected], &[]);
}

#[test]
fn an_id_in_use_is_refused_and_its_first_request_goes_on() {
    for first in [vec![Event::Connected], vec![]] {
        let mut events = first.clone();
        events.extend([ask(1, "a"), ask(1, "b")]);
        let (session, actions) = play(events);
        assert_eq!(shown(&actions), ["< 1 null"]);
        assert!(session.has_in_flight() || session.has_waiting());
    }
}

#[test]
fn requests_are_bounded_with_and_without_a_server() {
    let most = i64::try_from(MAX_IN_FLIGHT).unwrap();
    for first in [vec![Event::Connected], vec![]] {
        let mut events = first;
        events.extend((0..most).map(|id| ask(id, "a")));
        let (mut session, _) = play(events);
        let refused = session.apply(ask(most, "a"));
        assert!(matches!(&refused[..], [Action::ToClient(_)]), "{refused:?}");
    }
}

#[test]
fn the_bytes_that_wait_are_bounded() {
    let large = |id| {
        let line = vec![b'x'; MAX_LINE_BYTES / 2 + 1];
        Event::Client(ClientLine::Request(Request { line, ..request(id, "a") }))
    };
    check([large(1)], &[]);
    check([large(1), large(2)], &["< 2 null"]);
}

fn any_event() -> impl Strategy<Value = Event> {
    let method = prop::sample::select(vec![
        "initialize",
        "tools/call",
        "resources/list",
        "resources/subscribe",
        "resources/unsubscribe",
    ]);
    let verdict = prop::sample::select(vec![Verdict::Result, Verdict::Error]);
    prop_oneof![
        4 => (0..6_i64, method).prop_map(|(id, method)| ask(id, method)),
        4 => (0..6_i64, verdict.clone())
            .prop_map(|(id, verdict)| answer(&RequestId::Number(id), verdict)),
        2 => (1..6_u64, verdict).prop_map(|(n, verdict)| {
            answer(&RequestId::String(format!("shellyard-proxy:{n}").into()), verdict)
        }),
        1 => Just(initialized()),
        2 => Just(Event::Connected),
        1 => Just(closing()),
        2 => Just(Event::Lost),
        1 => Just(over()),
    ]
}

proptest! {
    /// Whatever happens, each request that was taken is answered exactly once, sooner or later,
    /// and nobody else's answer reaches the client.
    #[test]
    fn every_request_is_answered_exactly_once(events in prop::collection::vec(any_event(), 0..60)) {
        let mut session = Session::new();
        let mut owed = 0_i64;
        for event in events {
            // A real server answers nobody without a connection, and only what is in flight.
            let is_said = match &event {
                Event::Server(ServerLine::Answer { id, .. }) => session.in_flight.contains_key(id),
                Event::Client(_) | Event::Server(_) | Event::Connected | Event::Lost
                | Event::HoldOver { .. } => true,
            };
            if !is_said {
                continue;
            }
            let is_request = matches!(event, Event::Client(ClientLine::Request(_)));
            let actions = session.apply(event);
            let told = actions.iter().filter(|action| matches!(action, Action::ToClient(_))).count();
            owed += i64::from(is_request) - i64::try_from(told).unwrap();
            prop_assert!(owed >= 0);
        }
        session.apply(Event::Connected);
        let lost = session.apply(Event::Lost).len();
        let left = session.apply(over()).len();
        prop_assert_eq!(owed, i64::try_from(lost + left).unwrap());
    }
}
