//! `wait_jobs`: the one call that blocks on running work.

use std::future::pending;
use std::io;
use std::ops::{Range, RangeInclusive};
use std::pin::Pin;
use std::time::{Duration, Instant};

use futures_util::future::{join_all, select_all};
use tokio::time::sleep;

use super::call::{Call, WaitEnd, wait_for};
use super::read_output::{offset_of, place_of_cursor};
use crate::ids::{JobId, JobNumber};
use crate::mcp::args::{ArgError, Args};
use crate::mcp::reply::{
    Answer, Listening, Part, Shown, TokenBudget, ToolError, VainWait, after_job, no_room,
    progress_line, shares, show, show_from, wait_for_jobs,
};
use crate::mcp::schema::{Effect, Field, Kind, ToolSpec};
use crate::mcp::snapshot::Snapshot;
use crate::output::excerpt::Budget;
use crate::output::pattern::LinePattern;
use crate::output::{BlockingReader, LogReader, PageEnd, PageRequest, views};
use crate::service::{JobHandle, TenantClient};

pub(in crate::mcp) const SPEC: ToolSpec = ToolSpec {
    name: "wait_jobs",
    about: "Waits until jobs end, or for what comes first of: a line of output that matches until, \
            a TCP port that listens, quiet. Answers with each job's verdict, and with the output \
            of those that ended or matched. When the wait is over, jobs go on.",
    effect: Effect::Reads,
    fields: &[
        Field::required("jobs", Kind::Jobs, ""),
        Field::optional("mode", Kind::Choice(&["any", "all"]), "Default any"),
        Field::optional(
            "until",
            Kind::Text,
            "Regex for a line not yet shown by a wait or read, or from cursor",
        ),
        Field::optional("port", Kind::From(*PORTS.start()), "On this host"),
        Field::optional("quiet_s", Kind::Seconds, "No output for so long"),
        Field::optional("wait_s", Kind::Seconds, "Default 30"),
        Field::optional("cursor", Kind::Text, "Output is new from here (one job only)"),
        Field::optional("max_tokens", Kind::From(*TokenBudget::BOUNDS.start()), ""),
    ],
};

/// A smaller share of the room than this says less than it takes to say where it lies.
const WORTH_SHOWING: usize = 200;

/// What can be listened on.
const PORTS: RangeInclusive<u64> = 1..=65_535;

/// What a wait brought.
enum News {
    Jobs(Vec<Settled>),
    Port(Listening),
    Nothing,
}

pub(in crate::mcp) async fn call(call: Call<'_>, args: Args) -> Result<Answer, ToolError> {
    let wish = Wish::read(args)?;
    let (known, missing) = find(call, &wish.jobs).await;
    if known.is_empty() {
        return Ok(Answer::several(None, missing).failed());
    }
    let mut waits = Vec::with_capacity(known.len());
    for job in &known {
        waits.push(Wait::new(call.client, job, wish.cursor.as_deref()).await?);
    }
    let limit = call.wait(wish.wait);
    let (news, vain) = match wait(call, &wish, &waits, limit).await {
        WaitEnd::Done(news) => {
            call.client.reset_empty_waits(&ids(&known));
            (news, None)
        }
        WaitEnd::Over => {
            let in_a_row = call.client.count_empty_wait(&ids(&known));
            let cut_to = wish.wait.filter(|asked| *asked > limit).map(|_| limit);
            let looked_from = looked_from(&wish, &waits);
            (News::Nothing, Some(VainWait { in_a_row, cut_to, looked_from }))
        }
        WaitEnd::Cancelled => (News::Nothing, None),
    };
    let (settled, listening) = match news {
        News::Jobs(settled) => (settled, Listening::No),
        News::Port(listening) => (Vec::new(), listening),
        News::Nothing => (Vec::new(), Listening::No),
    };
    let answer = answer(call, &waits, &settled, missing, vain).await?;
    Ok(match wish.port {
        Some(port) => answer.with_port(port, listening),
        None => answer,
    })
}

/// Waits for the first that comes of all that is asked for.
async fn wait(call: Call<'_>, wish: &Wish, waits: &[Wait<'_>], limit: Duration) -> WaitEnd<News> {
    // Looked at before the wait, which may be none: who listened already is no news of the job.
    if let Some(port) = wish.port
        && call.client.is_listened_on(port).await
    {
        return WaitEnd::Done(News::Port(Listening::Already));
    }
    let events = waits.iter().map(|wait| wait.event(&wish.signs)).collect();
    let event = async {
        tokio::select! {
            biased;
            settled = settled(wish.mode, events) => News::Jobs(settled),
            () = listened_on(call.client, wish.port) => News::Port(Listening::Now),
        }
    };
    wait_for(call, limit, event, || progress_line(waits.iter().map(|wait| wait.job))).await
}

/// Where a line was looked for in the one job, where that is not all of its output.
fn looked_from(wish: &Wish, waits: &[Wait<'_>]) -> Option<u64> {
    match waits {
        [wait] if wish.signs.until.is_some() && wait.since.is_none() => {
            Some(wait.from).filter(|from| *from > 0)
        }
        _ => None,
    }
}

fn ids(jobs: &[JobHandle]) -> Vec<JobId> {
    jobs.iter().map(JobHandle::id).collect()
}

/// The jobs that are there, and what to say about those that are not.
async fn find(call: Call<'_>, jobs: &[JobNumber]) -> (Vec<JobHandle>, Vec<Part>) {
    let mut known = Vec::new();
    let mut missing = Vec::new();
    for job in jobs {
        match call.client.find(call.client.job(*job)).await {
            Ok(job) => known.push(job),
            Err(unknown) => missing.push(Part::missing(&unknown)),
        }
    }
    (known, missing)
}

async fn answer(
    call: Call<'_>,
    waits: &[Wait<'_>],
    settled: &[Settled],
    missing: Vec<Part>,
    vain: Option<VainWait>,
) -> Result<Answer, ToolError> {
    let mut looks = Vec::new();
    for (index, wait) in waits.iter().enumerate() {
        let sign = settled.iter().find(|event| event.index == index).map(|event| event.sign);
        looks.push(Look { wait, now: call.look(wait.job).await, sign });
    }
    let bare = looks.iter().map(|look| look.part(None)).chain(missing.iter().cloned()).collect();
    let mut fit = call.fit(&Answer::several(None, bare).with_hint(hint(&looks, &[], None, vain)));
    let wants: Vec<usize> = looks.iter().map(Look::wants).collect();
    loop {
        let mut parts = Vec::new();
        let mut unshown = Vec::new();
        let mut next = None;
        let mut told = Vec::new();
        for (look, share) in looks.iter().zip(shares(&wants, fit.size())) {
            let shown = if share < look.wants().min(WORTH_SHOWING) {
                unshown.push(look.now.job);
                None
            } else {
                look.wait.shown(&look.now, look.sign, fit.excerpt_of(share)).await?
            };
            next = after_job(&look.now, shown.as_ref());
            parts.push(look.part(shown.as_ref()));
            told.push((look, shown));
        }
        parts.extend(missing.iter().cloned());
        let hint = hint(&looks, &unshown, next, vain);
        if let Some(answer) = fit.settle(Answer::several(None, parts).with_hint(hint)) {
            told.iter().for_each(|(look, shown)| look.tell(call, shown.as_ref()));
            return Ok(answer);
        }
    }
}

/// What to do next: with one job what it takes, with several how to wait for those that go on.
fn hint(
    looks: &[Look<'_>],
    unshown: &[JobId],
    next: Option<String>,
    vain: Option<VainWait>,
) -> Option<String> {
    let open = looks.iter().filter(|look| look.now.ending().is_none()).map(|look| look.now.job);
    let open: Vec<JobId> = open.collect();
    let next = match looks {
        [_] => next,
        _ => wait_for_jobs(&open),
    };
    let next = match vain {
        // How to answer it helps more than not to wait.
        Some(_) if looks.iter().any(|look| look.now.waits_for_input()) => next,
        Some(vain) => vain.said(&open, next),
        None => next,
    };
    no_room(unshown, next)
}

/// One job that was waited for, as it is when the wait is over.
struct Look<'a> {
    wait: &'a Wait<'a>,
    now: Snapshot,
    /// What came of it.
    sign: Option<Sign>,
}

impl Look<'_> {
    fn part(&self, shown: Option<&Shown>) -> Part {
        let part = Part::job(&self.now, shown);
        match self.sign {
            Some(Sign::Line(matched)) => part.with_match(matched.line),
            Some(Sign::Quiet) => part.with_quiet(),
            Some(Sign::Ended) | None => part,
        }
    }

    /// Notes what the caller is told of its output, so that the next wait is for news.
    fn tell(&self, call: Call<'_>, shown: Option<&Shown>) {
        call.mark_shown(self.wait.job, shown.and_then(Shown::news));
        if let Some(Sign::Line(matched)) = self.sign {
            call.client.mark_shown(self.now.job, 0..matched.end);
        }
    }

    /// How much of the answer its output would take, if all of it were shown.
    fn wants(&self) -> usize {
        let total = self.now.output.total_bytes;
        let from = match self.wait.since {
            Some(since) => since,
            None if self.now.ending().is_some() || self.sign.is_some() => 0,
            None => return 0,
        };
        // JSON may double it, and so may text in another character set.
        let most = total.saturating_sub(from).saturating_mul(2);
        usize::try_from(most).unwrap_or(usize::MAX)
    }
}

struct Wish {
    jobs: Vec<JobNumber>,
    mode: Mode,
    signs: Signs,
    port: Option<u16>,
    wait: Option<Duration>,
    cursor: Option<String>,
}

impl Wish {
    fn read(mut args: Args) -> Result<Self, ToolError> {
        let jobs = args.jobs("jobs")?;
        let cursor = args.text_or_number("cursor")?;
        if jobs.is_empty() {
            return Err(
                ArgError::Conflict("`jobs` is empty; name at least one, such as [12]").into()
            );
        }
        if cursor.is_some() && jobs.len() > 1 {
            return Err(ArgError::Conflict(
                "`cursor` goes with one job; name one, or leave it out",
            )
            .into());
        }
        let modes = [("any", Mode::Any), ("all", Mode::All)];
        Ok(Self {
            jobs,
            mode: args.choice("mode", &modes)?.unwrap_or(Mode::Any),
            signs: Signs {
                until: args.text("until")?.as_deref().map(LinePattern::new).transpose()?,
                quiet: args.seconds("quiet_s")?,
            },
            port: args.whole("port", PORTS)?.and_then(|port| u16::try_from(port).ok()),
            wait: args.seconds("wait_s")?,
            cursor,
        })
    }
}

/// From one look at who listens to the next: the kernel does not say when that changes.
const LOOK_AGAIN: Duration = Duration::from_millis(200);

/// Whether a wait is over with the first job or with the last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    Any,
    All,
}

/// What is waited for in a job, beside its end.
#[derive(Debug, Default)]
pub(super) struct Signs {
    /// A line of its output that matches.
    pub(super) until: Option<LinePattern>,
    /// No output for so long.
    pub(super) quiet: Option<Duration>,
}

/// What came of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sign {
    Ended,
    /// This line matched.
    Line(Matched),
    /// It wrote nothing for as long as was asked.
    Quiet,
}

/// What came of the job at `index`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Settled {
    pub(super) index: usize,
    pub(super) sign: Sign,
}

/// Sooner or later, what comes of one job.
pub(super) type Event<'a> = Pin<Box<dyn Future<Output = Sign> + Send + 'a>>;

/// One job that is waited for.
#[derive(Debug)]
pub(super) struct Wait<'a> {
    pub(super) job: &'a JobHandle,
    /// Where new output starts, if the caller says so.
    pub(super) since: Option<u64>,
    /// Where a line is looked for: from there on, else from the first that the caller has not
    /// been shown. It may have been written before the call.
    pub(super) from: u64,
}

impl<'a> Wait<'a> {
    pub(super) async fn new(
        client: &TenantClient,
        job: &'a JobHandle,
        cursor: Option<&str>,
    ) -> Result<Self, ToolError> {
        let since = match cursor {
            Some(cursor) => Some(offset_of(place_of_cursor(cursor, job).await?, job.output())),
            None => None,
        };
        let from = since.unwrap_or_else(|| client.first_unseen_offset(job.id()));
        Ok(Self { job, since, from })
    }

    /// Over once the job ended, or one of the signs came.
    pub(super) fn event<'b>(&'b self, signs: &'b Signs) -> Event<'b> {
        Box::pin(async move {
            tokio::select! {
                // A job's last words are matched before its end is seen, and one that has ended
                // is not called quiet.
                biased;
                line = self.line(signs.until.as_ref()) => Sign::Line(line),
                _ = self.job.finished() => Sign::Ended,
                () = quiet(self.job, signs.quiet) => Sign::Quiet,
            }
        })
    }

    /// The first line that matches. A log that ends without one, or cannot be read, has none: its
    /// job still ends.
    async fn line(&self, until: Option<&LinePattern>) -> Matched {
        let Some(pattern) = until else { return pending().await };
        match first_match(self.job.output(), self.from, pattern).await {
            Ok(Some(line)) => line,
            Ok(None) | Err(_) => pending().await,
        }
    }

    /// What of its output is shown: of a job of which nothing came, only what the caller has not
    /// seen.
    pub(super) async fn shown(
        &self,
        now: &Snapshot,
        sign: Option<Sign>,
        budget: Budget,
    ) -> Result<Option<Shown>, ToolError> {
        match self.since {
            Some(since) => show_from(now, self.job.output(), since, budget).await.map(Some),
            None if now.ending().is_some() || sign.is_some() => {
                show(now, self.job.output(), budget).await
            }
            None => Ok(None),
        }
    }
}

/// Returns once the job has written nothing for so long: since its last output, or since its start.
async fn quiet(job: &JobHandle, wanted: Option<Duration>) {
    let Some(wanted) = wanted else { return pending().await };
    job.started().await;
    loop {
        let last = job.output().progress().last_output.or(job.status().started);
        let left = wanted.saturating_sub(last.as_ref().map_or(Duration::MAX, Instant::elapsed));
        if left.is_zero() {
            return;
        }
        sleep(left).await;
    }
}

/// Returns once somebody listens on this port, where one is asked for.
pub(super) async fn listened_on(client: &TenantClient, port: Option<u16>) {
    let Some(port) = port else { return pending().await };
    while !client.is_listened_on(port).await {
        sleep(LOOK_AGAIN).await;
    }
}

/// Waits for any or for all of the events, and says which came.
pub(super) async fn settled(mode: Mode, events: Vec<Event<'_>>) -> Vec<Settled> {
    match mode {
        Mode::Any => {
            let (sign, index, _) = select_all(events).await;
            vec![Settled { index, sign }]
        }
        Mode::All => {
            let signs = join_all(events).await;
            signs.into_iter().enumerate().map(|(index, sign)| Settled { index, sign }).collect()
        }
    }
}

/// How much output is looked at in one step.
const STEP_BYTES: usize = 64 * 1024;

/// A line that matched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Matched {
    /// Its number, from 1.
    pub(super) line: u64,
    /// Where it ends, as far as it is written.
    pub(super) end: u64,
}

/// Returns the first line that matches and has bytes from `from` on, as soon as it is written;
/// `None` when the log is closed without one. Lines are matched as they are shown, and whole, also
/// where `from` is inside of one; an unfinished last one too: a prompt has no newline. Cancel-safe.
pub(super) async fn first_match(
    log: &LogReader,
    from: u64,
    pattern: &LinePattern,
) -> io::Result<Option<Matched>> {
    let mut at = log.read_with(move |log| line_start(log, from)).await?;
    loop {
        let request = PageRequest { from: at, stream: None, max_bytes: STEP_BYTES, max_lines: 0 };
        let page = log.read_with(move |log| log.read_page(&request)).await?;
        let known = usize::try_from(from.saturating_sub(at)).unwrap_or(usize::MAX);
        if let Some((index, end)) = matching_line(&page.bytes, known, pattern) {
            let end = at.saturating_add(end as u64).min(page.end);
            let line = log.read_with(move |log| log.line_at(at)).await? + index;
            return Ok(Some(Matched { line, end }));
        }
        match page.end_kind {
            PageEnd::More => {
                at = page.end;
                // A long log must not keep others waiting.
                tokio::task::yield_now().await;
            }
            PageEnd::Complete => return Ok(None),
            PageEnd::CaughtUp => {
                // The unfinished last line is looked at again when more of it is there.
                let unfinished = page.bytes.rsplit(|byte| *byte == b'\n').next();
                at = page.end - unfinished.map_or(0, |line| line.len() as u64);
                log.wait_past(page.total_bytes).await;
            }
        }
    }
}

/// The start of the line that the byte at `from` belongs to, or will belong to; no further away
/// than one step.
fn line_start(log: &BlockingReader, from: u64) -> io::Result<u64> {
    let start = log.offset_of_line(log.line_at(from)?)?.unwrap_or(from);
    Ok(start.clamp(from.saturating_sub(STEP_BYTES as u64), from))
}

/// The index of the first line that matches and has bytes after those that are known, and where in
/// the bytes it ends.
fn matching_line(bytes: &[u8], known: usize, pattern: &LinePattern) -> Option<(u64, usize)> {
    let options = views::ViewOptions {
        ansi: views::Ansi::StripLines,
        fold: views::Fold::Off,
        long: views::LongLines::Keep,
    };
    let shown = views::render_text(bytes, options);
    let places = bytes.split(|byte| *byte == b'\n').scan(0, |next, line| {
        let place = *next..*next + line.len();
        *next = place.end + 1;
        Some(place)
    });
    // Of a line that was seen up to its end, the newline alone is no news.
    let is_news = |place: &Range<usize>| place.start >= known || place.end > known;
    let mut lines = shown.text.lines().zip(places).zip(0..);
    lines.find_map(|((line, place), index)| {
        (is_news(&place) && pattern.is_match(line.as_bytes())).then_some((index, place.end))
    })
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use serde_json::{Value, json};

    use super::*;
    use crate::output::{LogStorage, LogWriter, open_log};
    use crate::spec::Stream;

    fn refused(given: Value) -> String {
        let args = Args::new(given.as_object().cloned(), SPEC.fields).unwrap();
        Wish::read(args).err().unwrap().to_string()
    }

    #[test]
    fn what_cannot_be_waited_for_is_refused() {
        assert!(refused(json!({"jobs": []})).contains("at least one"));
        assert!(refused(json!({"jobs": [1, 2], "cursor": "bytes:0"})).contains("one job"));
        assert!(refused(json!({"jobs": [1], "mode": "some"})).contains("one of any, all"));
        assert!(refused(json!({"jobs": [1], "until": "("})).contains("unclosed group"));
        for port in [json!(0), json!(65_536), json!(-1), json!("http")] {
            assert!(refused(json!({"jobs": [1], "port": port})).contains("port"), "{port}");
        }
        assert!(refused(json!({"jobs": [1], "quiet_s": -1})).contains("quiet_s"));
    }

    const MATCHED: Matched = Matched { line: 7, end: 70 };

    fn event<'a>(event: impl Future<Output = Sign> + Send + 'a) -> Event<'a> {
        Box::pin(event)
    }

    #[tokio::test]
    async fn any_returns_with_the_first_and_all_with_the_last() {
        let events = vec![event(pending()), event(ready(Sign::Line(MATCHED)))];
        let expected = [Settled { index: 1, sign: Sign::Line(MATCHED) }];
        assert_eq!(settled(Mode::Any, events).await, expected);
        let events = vec![event(ready(Sign::Ended)), event(ready(Sign::Quiet))];
        assert_eq!(settled(Mode::All, events).await.len(), 2);
    }

    fn log() -> (LogWriter, LogReader) {
        open_log(&LogStorage { memory_bytes: 1 << 20, spill_dir: std::env::temp_dir().into() })
    }

    async fn line_of(log: &LogReader, from: u64, pattern: &LinePattern) -> Option<u64> {
        first_match(log, from, pattern).await.unwrap().map(|matched| matched.line)
    }

    #[tokio::test]
    async fn a_line_is_found_when_its_last_part_arrives() {
        let (mut writer, reader) = log();
        writer.append(Stream::Stdout, b"one\nReady on ");
        let pattern = LinePattern::new("Ready on port").unwrap();
        let waiting = tokio::spawn(async move { first_match(&reader, 0, &pattern).await.unwrap() });
        tokio::task::yield_now().await;
        writer.append(Stream::Stdout, b"port 80");
        assert_eq!(waiting.await.unwrap(), Some(Matched { line: 2, end: 20 }));
    }

    #[tokio::test]
    async fn what_was_written_before_does_not_count() {
        let (mut writer, reader) = log();
        let seen = writer.append(Stream::Stdout, b"ready\n").total_bytes;
        writer.close();
        let pattern = LinePattern::new("ready").unwrap();
        assert_eq!(first_match(&reader, seen, &pattern).await.unwrap(), None);
        assert_eq!(line_of(&reader, 0, &pattern).await, Some(1));
    }

    #[tokio::test]
    async fn a_line_that_was_seen_in_part_counts_once_more_of_it_is_there() {
        let (mut writer, reader) = log();
        let seen = writer.append(Stream::Stdout, b"one\nReady? ").total_bytes;
        let pattern = LinePattern::new("^Ready").unwrap();
        let late = reader.clone();
        let waiting = tokio::spawn(async move { line_of(&late, seen, &pattern).await });
        tokio::task::yield_now().await;
        // That it ends is no news.
        writer.append(Stream::Stdout, b"\nmore\nReady again\n");
        assert_eq!(waiting.await.unwrap(), Some(4));
        let pattern = LinePattern::new("gain$").unwrap();
        let inside = reader.progress().total_bytes - 3;
        assert_eq!(line_of(&reader, inside, &pattern).await, Some(4));
        writer.append(Stream::Stdout, b"\n");
        let end = reader.progress().total_bytes - 1;
        assert_eq!(line_of(&reader, end, &LinePattern::new("^$").unwrap()).await, Some(5));
    }

    #[tokio::test]
    async fn a_match_far_inside_a_long_line_counts() {
        let (mut writer, reader) = log();
        writer.append(Stream::Stdout, format!("{}ready\n", "x".repeat(5000)).as_bytes());
        let pattern = LinePattern::new("ready$").unwrap();
        assert_eq!(line_of(&reader, 0, &pattern).await, Some(1));
    }

    #[tokio::test]
    async fn colours_do_not_hide_a_match() {
        let (mut writer, reader) = log();
        writer.append(Stream::Stdout, b"a\nb\n\x1b[32mserver\x1b[0m up\n");
        let pattern = LinePattern::new("^server up$").unwrap();
        assert_eq!(line_of(&reader, 0, &pattern).await, Some(3));
    }
}
