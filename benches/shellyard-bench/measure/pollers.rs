//! E: many who read one busy job, each at its own pace.

use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::buffer::spare_capacity;
use rustix::event::Timespec;
use rustix::event::epoll::{self, EventData, EventFlags};

use super::polled::{Way, Written};
use crate::bench::Bench;
use crate::client::HttpClient;
use crate::lines;
use crate::report::{Curve, Goal, Measured, Row};
use crate::server::HttpServer;
use crate::stats::{median, milliseconds, percentile};

const MB_PER_SECOND: u64 = 20;
const INTERVAL: Duration = Duration::from_millis(100);
/// The number of pollers that has a goal.
const JUDGED: usize = 64;
const PAUSE: Duration = Duration::from_millis(20);
/// Bytes that a slow machine compresses in a second.
const PACKED_PER_SECOND: f64 = 40e6;

/// Measures the duration of a poll, from its first byte out to its last byte in, with the usual
/// calls and with the largest pages.
pub(crate) fn measure(bench: &Bench) -> Measured {
    let bytes = bench.scale.polled_bytes;
    let written = Written::new(lines::at(0, bytes as usize));
    let (mut rows, mut points) = (Vec::new(), Vec::new());
    for way in [Way::Default, Way::Largest] {
        let server = bench.http(way.settings());
        for pollers in bench.scale.pollers.iter().copied() {
            let times = Round::start(&server, pollers, way, &written).run();
            while server.client().running_and_queued() != [0, 0] {
                std::thread::sleep(PAUSE);
            }
            // Its log is compressed now, which the next round is not about.
            std::thread::sleep(Duration::from_secs_f64(bytes as f64 / PACKED_PER_SECOND));
            let p99 = percentile(&times, 0.99);
            let what =
                format!("{pollers} pollers of {MB_PER_SECOND} MB/s at 10 Hz, {}", way.name());
            rows.push(Row::new(format!("{what}: p50"), "ms", median(&times)));
            let row = Row::new(format!("{what}: p99"), "ms", p99);
            rows.push(match way {
                Way::Default => row.goal_at(pollers, JUDGED, Goal::AtMost(10.0)),
                Way::Largest => row,
            });
            if way == Way::Default {
                points.push((pollers as f64, p99));
            }
        }
    }
    let curve = Curve {
        name: "pollers",
        title: "a poll of a job at 20 MB/s",
        load: "pollers at 10 Hz each",
        cost: "ms, p99",
        points,
    };
    Measured { rows, curves: vec![curve] }
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
    way: Way,
    written: &'a Written,
    /// With default pages nobody reads as fast as the job writes: they ask until it ends.
    until: Instant,
    pollers: Vec<Poller>,
    waiter: OwnedFd,
    times: Vec<f64>,
}

impl<'a> Round<'a> {
    /// Starts the job. The pollers begin one after the other, spread over an interval.
    fn start(server: &HttpServer, pollers: usize, way: Way, written: &'a Written) -> Self {
        let clients = server.clients(pollers);
        let waiter = epoll::create(epoll::CreateFlags::CLOEXEC).expect("an epoll");
        for (index, client) in clients.iter().enumerate() {
            let data = EventData::new_u64(index as u64);
            epoll::add(&waiter, client, data, EventFlags::IN).expect("a socket");
        }
        let bytes = written.length();
        let job = way.run(&mut server.client(), &lines::command(bytes, Some(MB_PER_SECOND)));
        let start = Instant::now();
        let until = start + Duration::from_secs_f64(bytes as f64 / (MB_PER_SECOND as f64 * 1e6));
        let poller = |(index, client): (usize, HttpClient)| {
            let until = start + INTERVAL * index as u32 / pollers as u32;
            Poller { client, offset: 0, state: State::Waits { until } }
        };
        let pollers = clients.into_iter().enumerate().map(poller).collect();
        Self { job, way, written, until, pollers, waiter, times: Vec::new() }
    }

    /// Until all have what they want: milliseconds of each poll.
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
            let call = self.way.call(self.job, poller.offset);
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
        let page = self.way.check(self.written, poller.offset, &answer);
        poller.offset = page.end;
        poller.state = if page.is_last {
            assert_eq!(poller.offset, self.written.length(), "every byte was read");
            State::Done
        } else if self.way == Way::Default && now >= self.until {
            State::Done
        } else {
            State::Waits { until: now.max(due + INTERVAL) }
        };
    }
}
