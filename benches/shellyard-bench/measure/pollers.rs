//! E: many who read one busy job, each at its own pace.

use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustix::buffer::spare_capacity;
use rustix::event::Timespec;
use rustix::event::epoll::{self, EventData, EventFlags};
use std::os::fd::OwnedFd;

use crate::bench::{Bench, STRUCTURED};
use crate::client::{HttpClient, Page, page_call};
use crate::lines;
use crate::report::{Curve, Found, Goal, Row};
use crate::server::HttpServer;
use crate::stats::{median, milliseconds, percentile};

const MB_PER_SECOND: u64 = 20;
const INTERVAL: Duration = Duration::from_millis(100);
const PAGE: u64 = 1 << 20;
/// The number of pollers that has a goal.
const JUDGED: usize = 64;

/// How long a poll takes, from its first byte out to its last byte in. Ten pages of 1 MiB in a
/// second are less than the job writes, so that pollers stay behind it, and read on when it ended.
pub(crate) fn measure(bench: &Bench) -> Found {
    let server = bench.http(&[STRUCTURED]);
    let bytes = bench.scale.polled_bytes;
    let expected = Encoded::new(&lines::at(0, bytes as usize));
    let (mut rows, mut points) = (Vec::new(), Vec::new());
    for pollers in bench.scale.pollers.iter().copied() {
        let times = Round::start(&server, pollers, bytes, &expected).run();
        let what = format!("{pollers} pollers of {MB_PER_SECOND} MB/s at 10 Hz, all bytes each");
        let p99 = percentile(&times, 0.99);
        rows.push(Row::new(format!("{what}: p50"), "ms", median(&times)));
        let row = Row::new(format!("{what}: p99"), "ms", p99);
        rows.push(row.goal_at(pollers, JUDGED, Goal::AtMost(10.0)));
        points.push((pollers as f64, p99));
    }
    let curve = Curve {
        name: "pollers",
        title: "a poll of a job at 20 MB/s",
        load: "pollers at 10 Hz each",
        cost: "ms, p99",
        points,
    };
    Found { rows, curves: vec![curve] }
}

/// A text as base64 from any of its offsets on, without encoding anything for a comparison.
struct Encoded {
    length: u64,
    /// Encoded from the offsets 0, 1 and 2 on: with one of them, every offset is at the start of
    /// four digits.
    from: [Vec<u8>; 3],
}

impl Encoded {
    fn new(text: &[u8]) -> Self {
        let from = [0, 1, 2].map(|skip| STANDARD.encode(&text[skip..]).into_bytes());
        Self { length: text.len() as u64, from }
    }

    /// Whether this is the text from `offset` to `end`. The last digits of a page tell less than
    /// three bytes, with other digits than those of the whole text.
    fn check(&self, offset: u64, end: u64, encoded: &[u8]) {
        let start = (offset / 3 * 4) as usize;
        let whole = ((end - offset) / 3 * 4) as usize;
        let expected = &self.from[(offset % 3) as usize][start..];
        assert!(encoded[..whole] == expected[..whole], "other bytes from {offset} on");
        let [found, wanted] = [&encoded[whole..], &expected[whole..expected.len().min(whole + 4)]];
        let rest = ((end - offset) % 3) as usize;
        assert_eq!(first_bytes(found, rest), first_bytes(wanted, rest), "the last before {end}");
    }
}

fn first_bytes(encoded: &[u8], count: usize) -> Vec<u8> {
    let mut bytes = STANDARD.decode(encoded).expect("base64");
    bytes.truncate(count);
    bytes
}

/// One reader with a connection of its own.
struct Poller {
    client: HttpClient,
    offset: u64,
    state: State,
}

enum State {
    Waits { until: Instant },
    Asked { at: Instant, due: Instant },
    Done,
}

/// All pollers of one job, on one thread.
struct Round<'a> {
    job: u64,
    expected: &'a Encoded,
    pollers: Vec<Poller>,
    waiter: OwnedFd,
    times: Vec<f64>,
}

impl<'a> Round<'a> {
    /// Starts the job. The pollers begin one after the other, spread over an interval.
    fn start(server: &HttpServer, pollers: usize, bytes: u64, expected: &'a Encoded) -> Self {
        let clients = server.clients(pollers);
        let waiter = epoll::create(epoll::CreateFlags::CLOEXEC).expect("an epoll");
        for (index, client) in clients.iter().enumerate() {
            let data = EventData::new_u64(index as u64);
            epoll::add(&waiter, client, data, EventFlags::IN).expect("a socket");
        }
        let job = server.client().run(&lines::command(bytes, Some(MB_PER_SECOND)));
        let start = Instant::now();
        let poller = |(index, client): (usize, HttpClient)| {
            let until = start + INTERVAL * index as u32 / pollers as u32;
            Poller { client, offset: 0, state: State::Waits { until } }
        };
        let pollers = clients.into_iter().enumerate().map(poller).collect();
        Self { job, expected, pollers, waiter, times: Vec::new() }
    }

    /// Until all have all: milliseconds of each poll.
    fn run(mut self) -> Vec<f64> {
        let mut events = Vec::with_capacity(64);
        while !self.pollers.iter().all(|poller| matches!(poller.state, State::Done)) {
            let pause = self.ask();
            epoll::wait(&self.waiter, spare_capacity(&mut events), Some(&pause)).expect("an epoll");
            for event in events.drain(..) {
                self.receive(event.data.u64() as usize);
            }
        }
        self.times
    }

    /// Lets those ask whose time has come: how long until that of the next.
    fn ask(&mut self) -> Timespec {
        let now = Instant::now();
        let mut pause = INTERVAL;
        for poller in &mut self.pollers {
            let State::Waits { until } = poller.state else { continue };
            if until > now {
                pause = pause.min(until - now);
                continue;
            }
            let call = page_call(self.job, poller.offset, PAGE);
            poller.state = State::Asked { at: Instant::now(), due: until };
            poller.client.send(&call);
        }
        Timespec::try_from(pause).expect("a short time")
    }

    fn receive(&mut self, index: usize) {
        let poller = &mut self.pollers[index];
        let Some(answer) = poller.client.receive() else { return };
        let now = Instant::now();
        let State::Asked { at, due } = poller.state else { return };
        self.times.push(milliseconds(now - at));
        let page = Page::of(&answer);
        self.expected.check(poller.offset, page.end, page.encoded);
        poller.offset = page.end;
        poller.state = if page.is_last {
            assert_eq!(poller.offset, self.expected.length, "every byte was read");
            State::Done
        } else {
            State::Waits { until: now.max(due + INTERVAL) }
        };
    }
}
