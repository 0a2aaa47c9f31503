//! Many callers at once, on one thread: each asks again when it was answered.

use std::collections::HashSet;

use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, EventData, EventFlags};

use super::{Call, HttpClient, StdioClient};

/// So many calls over these connections, one in flight on each. Every answer is checked.
pub(crate) fn over_http(
    clients: &mut [HttpClient],
    calls: usize,
    call: &Call,
    check: impl Fn(&[u8]),
) {
    let waiter = epoll::create(epoll::CreateFlags::CLOEXEC).expect("an epoll");
    for (index, client) in clients.iter_mut().enumerate() {
        let data = EventData::new_u64(index as u64);
        epoll::add(&waiter, &*client, data, EventFlags::IN).expect("a socket");
    }
    let mut sent = clients.len().min(calls);
    clients.iter_mut().take(sent).for_each(|client| client.send(call));
    let (mut answered, mut events) = (0, Vec::with_capacity(64));
    while answered < calls {
        epoll::wait(&waiter, spare_capacity(&mut events), None).expect("an epoll");
        for event in events.drain(..) {
            let client = &mut clients[event.data.u64() as usize];
            let Some(answer) = client.receive() else { continue };
            if sent < calls {
                client.send(call);
                sent += 1;
            }
            check(&answer);
            answered += 1;
        }
    }
}

/// So many calls over one pair of pipes, at most `callers` in flight. Every answer is checked,
/// and belongs to a call that waited for one.
pub(crate) fn over_stdio(
    client: &mut StdioClient,
    callers: usize,
    calls: usize,
    call: &Call,
    check: impl Fn(&[u8]),
) {
    let mut sent = callers.min(calls);
    let mut waiting: HashSet<u64> = (0..sent).map(|_| client.send(call)).collect();
    while !waiting.is_empty() {
        let answer = client.receive();
        assert!(waiting.remove(&answer.id), "a second answer to {}", answer.id);
        if sent < calls {
            waiting.insert(client.send(call));
            sent += 1;
        }
        check(&answer.text);
    }
}
