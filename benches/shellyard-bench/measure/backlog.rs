//! Measurement H: queued jobs.

use serde_json::json;

use crate::bench::{Bench, STRUCTURED};
use crate::client::{Call, HttpClient, over_http};
use crate::report::{Curve, Measured, Row};
use crate::stats::timed;

/// Connections over which they are submitted.
const SUBMITTERS: usize = 16;

/// Measures a submit and a dispatch through the real server, by the number of queued jobs, and the
/// memory of each queued job.
pub(crate) fn measure(bench: &Bench) -> Measured {
    let most = bench.scale.backlog.iter().max().expect("a load") * 2;
    let bound = most.to_string();
    let server =
        bench.http(&[STRUCTURED, ("queue_max_queued", &bound), ("quota_max_queued", &bound)]);
    let mut yard =
        QueueServer { client: server.client(), submitters: server.clients(SUBMITTERS), jobs: 0 };
    yard.client.post("/api/v1/queue/pause");
    yard.submit(bench.scale.backlog_step);
    let before = server.usage().rss_kb();
    let (mut rows, mut submits, mut dispatches) = (Vec::new(), Vec::new(), Vec::new());
    for length in bench.scale.backlog.iter().copied() {
        let step = bench.scale.backlog_step;
        let [_, waiting] = yard.client.running_and_queued();
        yard.submit(length - waiting as usize);
        let kb = (server.usage().rss_kb() - before) / length as f64;
        let submit = yard.submit(step);
        let dispatch = yard.dispatch(step);
        rows.push(Row::new(format!("{length} jobs wait: a submit"), "ms", submit));
        rows.push(Row::new(format!("{length} jobs wait: a dispatch of `true`"), "ms", dispatch));
        rows.push(Row::new(format!("{length} jobs wait: memory of each"), "KB", kb));
        submits.push((length as f64, submit));
        dispatches.push((length as f64, dispatch));
    }
    let curve =
        |name, title, points| Curve { name, title, load: "jobs that wait", cost: "ms", points };
    let curves = vec![
        curve("submit", "a submit to a backlog", submits),
        curve("dispatch", "a dispatch from a backlog", dispatches),
    ];
    Measured { rows, curves }
}

struct QueueServer {
    client: HttpClient,
    submitters: Vec<HttpClient>,
    /// Returns the number of jobs so far, which is the number of the last one.
    jobs: usize,
}

impl QueueServer {
    /// Submits so many: milliseconds for each.
    fn submit(&mut self, jobs: usize) -> f64 {
        let call = Call::new("run_command", &json!({"command": "true", "wait_s": 0}));
        let is_queued = |answer: &[u8]| {
            let state = memchr::memmem::find(answer, br#""state":"queued""#);
            assert!(state.is_some(), "{}", String::from_utf8_lossy(answer));
        };
        let ((), time) = timed(|| over_http(&mut self.submitters, jobs, &call, is_queued));
        self.jobs += jobs;
        time / jobs as f64
    }

    /// Lets the queue run until about so many of the oldest have ended: milliseconds for each.
    fn dispatch(&mut self, jobs: usize) -> f64 {
        let [_, waiting] = self.client.running_and_queued();
        let last = self.jobs - waiting as usize + jobs;
        let ((), time) = timed(|| {
            self.client.post("/api/v1/queue/resume");
            self.client.await_end(last as u64);
            self.client.post("/api/v1/queue/pause");
        });
        time / jobs as f64
    }
}
