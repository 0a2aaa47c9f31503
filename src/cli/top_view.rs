//! The decisions of `top`: what a key does, and which lines the screen shows.

use serde_json::Value;
use time::OffsetDateTime;

use super::job_view::JobView;
use super::jobs::ListedJobs;
use super::server_set::TenantScope;
use super::text_layout::{TableRoom, Tone, truncate_to_width};
use crate::service::TerminalSize;

/// The lines of the screen that show no job: two of the overview, the titles, and the keys.
const OTHER_LINES: usize = 4;
const REVERSE: &str = "\u{1b}[7m";
const RESET: &str = "\u{1b}[0m";

/// A key that the user pressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TopKey {
    Up,
    Down,
    PageUp,
    PageDown,
    Home,
    End,
    Enter,
    Escape,
    Backspace,
    Interrupt,
    Char(char),
}

/// Returns the keys in what was typed. Unknown sequences are left out.
pub(super) fn parse_keys(bytes: &[u8]) -> Vec<TopKey> {
    const SEQUENCES: [(&str, TopKey); 12] = [
        ("\u{1b}[A", TopKey::Up),
        ("\u{1b}OA", TopKey::Up),
        ("\u{1b}[B", TopKey::Down),
        ("\u{1b}OB", TopKey::Down),
        ("\u{1b}[5~", TopKey::PageUp),
        ("\u{1b}[6~", TopKey::PageDown),
        ("\u{1b}[H", TopKey::Home),
        ("\u{1b}OH", TopKey::Home),
        ("\u{1b}[1~", TopKey::Home),
        ("\u{1b}[F", TopKey::End),
        ("\u{1b}OF", TopKey::End),
        ("\u{1b}[4~", TopKey::End),
    ];
    let text = String::from_utf8_lossy(bytes);
    let mut rest = &*text;
    let mut keys = Vec::new();
    while let Some(c) = rest.chars().next() {
        if let Some((sequence, key)) = SEQUENCES.iter().find(|(s, _)| rest.starts_with(s)) {
            keys.push(*key);
            rest = &rest[sequence.len()..];
            continue;
        }
        rest = &rest[c.len_utf8()..];
        match c {
            '\u{1b}' if rest.starts_with(['[', 'O']) => {
                let end = rest[1..].find(|c: char| c.is_ascii_alphabetic() || c == '~');
                rest = end.map_or("", |end| &rest[end + 2..]);
            }
            '\u{1b}' => keys.push(TopKey::Escape),
            '\r' | '\n' => keys.push(TopKey::Enter),
            '\u{7f}' | '\u{8}' => keys.push(TopKey::Backspace),
            '\u{3}' => keys.push(TopKey::Interrupt),
            c if c.is_control() => {}
            c => keys.push(TopKey::Char(c)),
        }
    }
    keys
}

/// The order of jobs on the screen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum TopOrder {
    #[default]
    Newest,
    Active,
    Longest,
    Output,
}

impl TopOrder {
    const fn next(self) -> Self {
        match self {
            Self::Newest => Self::Active,
            Self::Active => Self::Longest,
            Self::Longest => Self::Output,
            Self::Output => Self::Newest,
        }
    }

    const fn word(self) -> &'static str {
        match self {
            Self::Newest => "newest",
            Self::Active => "active",
            Self::Longest => "longest",
            Self::Output => "output",
        }
    }

    /// Returns the value by which jobs are sorted, smallest first; equal jobs stay newest first.
    fn rank(self, job: &Value) -> u64 {
        let number = |name: &str| job[name].as_u64().unwrap_or_default();
        match self {
            Self::Newest => 0,
            Self::Active => match JobView(job).text("state") {
                "running" | "stopping" => 0,
                "queued" => 1,
                _ => 2,
            },
            Self::Longest => u64::MAX - number("elapsed_ms"),
            Self::Output => u64::MAX - number("total_bytes"),
        }
    }
}

/// The part of the screen that the keys go to.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) enum TopMode {
    #[default]
    List,
    /// The user types a filter.
    Filter,
    /// The user is asked whether this job shall be stopped.
    ConfirmStop(String),
    /// The end of a job's output; `scroll` lines above its end.
    Log { job: String, scroll: usize },
}

/// The state of the screen.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct TopState {
    pub(super) mode: TopMode,
    order: TopOrder,
    filter: String,
    /// The name of the selected job, which may have left the list.
    selected: Option<String>,
    /// The result of the last act.
    pub(super) message: String,
}

/// The effect of a key beside a changed screen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum TopEffect {
    None,
    Quit,
    Stop(String),
    OpenLog(String),
}

impl TopState {
    /// Applies a key. `names` are the shown jobs, in order; a page has `page` lines.
    pub(super) fn apply(&mut self, key: TopKey, names: &[String], page: usize) -> TopEffect {
        if key == TopKey::Interrupt {
            return TopEffect::Quit;
        }
        match std::mem::take(&mut self.mode) {
            TopMode::List => self.apply_in_list(key, names, page),
            TopMode::Filter => {
                self.apply_in_filter(key);
                TopEffect::None
            }
            TopMode::ConfirmStop(job) if matches!(key, TopKey::Char('y' | 'Y')) => {
                TopEffect::Stop(job)
            }
            TopMode::ConfirmStop(_) => TopEffect::None,
            TopMode::Log { job, scroll } => {
                let scroll = match key {
                    TopKey::Up | TopKey::Char('k') => scroll + 1,
                    TopKey::Down | TopKey::Char('j') => scroll.saturating_sub(1),
                    TopKey::PageUp => scroll + page,
                    TopKey::PageDown => scroll.saturating_sub(page),
                    TopKey::Home => usize::MAX / 2,
                    TopKey::End => 0,
                    TopKey::Char('q') | TopKey::Escape | TopKey::Enter => return TopEffect::None,
                    TopKey::Backspace | TopKey::Interrupt | TopKey::Char(_) => scroll,
                };
                self.mode = TopMode::Log { job, scroll };
                TopEffect::None
            }
        }
    }

    fn apply_in_list(&mut self, key: TopKey, names: &[String], page: usize) -> TopEffect {
        let at = self.selected_index(names);
        let last = names.len().saturating_sub(1);
        let to = match key {
            TopKey::Up | TopKey::Char('k') => at.saturating_sub(1),
            TopKey::Down | TopKey::Char('j') => (at + 1).min(last),
            TopKey::PageUp => at.saturating_sub(page),
            TopKey::PageDown => (at + page).min(last),
            TopKey::Home | TopKey::Char('g') => 0,
            TopKey::End | TopKey::Char('G') => last,
            TopKey::Char('q') => return TopEffect::Quit,
            TopKey::Char('s') => {
                self.order = self.order.next();
                return TopEffect::None;
            }
            TopKey::Char('/' | 'f') => {
                self.mode = TopMode::Filter;
                return TopEffect::None;
            }
            TopKey::Escape => {
                self.filter.clear();
                return TopEffect::None;
            }
            TopKey::Char('x') => {
                if let Some(job) = names.get(at) {
                    self.mode = TopMode::ConfirmStop(job.clone());
                }
                return TopEffect::None;
            }
            TopKey::Enter | TopKey::Char('l') => {
                let Some(job) = names.get(at) else { return TopEffect::None };
                self.mode = TopMode::Log { job: job.clone(), scroll: 0 };
                return TopEffect::OpenLog(job.clone());
            }
            TopKey::Backspace | TopKey::Interrupt | TopKey::Char(_) => at,
        };
        self.selected = names.get(to).cloned();
        TopEffect::None
    }

    fn apply_in_filter(&mut self, key: TopKey) {
        match key {
            TopKey::Enter => return,
            TopKey::Escape => {
                self.filter.clear();
                return;
            }
            TopKey::Char(c) => self.filter.push(c),
            TopKey::Backspace => drop(self.filter.pop()),
            TopKey::Up
            | TopKey::Down
            | TopKey::PageUp
            | TopKey::PageDown
            | TopKey::Home
            | TopKey::End
            | TopKey::Interrupt => {}
        }
        self.mode = TopMode::Filter;
    }

    fn selected_index(&self, names: &[String]) -> usize {
        let selected = self.selected.as_ref();
        selected.and_then(|name| names.iter().position(|known| known == name)).unwrap_or(0)
    }

    /// Returns the jobs that the filter lets through, in the chosen order.
    pub(super) fn select_jobs(&self, jobs: &ListedJobs) -> ListedJobs {
        let filter = self.filter.to_lowercase();
        let matches = |(name, job): &&(String, Value)| {
            let view = JobView(job);
            let fields = ["command", "client", "tenant", "description", "client_directory"];
            let texts = fields.map(|field| view.text(field).to_owned());
            let own = [name.clone(), view.state_cell().text];
            texts.iter().chain(&own).any(|text| text.to_lowercase().contains(&filter))
        };
        let mut jobs: Vec<(String, Value)> = jobs.jobs.iter().filter(matches).cloned().collect();
        jobs.sort_by_key(|(_, job)| self.order.rank(job));
        ListedJobs { jobs }
    }
}

/// The word between the name of a job and its tenant.
const OF: &str = " of ";

/// Returns the name of a job that is unique in the list: with its tenant where the list has several.
fn format_key(name: &str, job: &Value) -> String {
    match JobView(job).text("tenant") {
        "" => name.to_owned(),
        tenant => format!("{name}{OF}{tenant}"),
    }
}

/// Returns the name of a job and its tenant, from their unique name.
pub(super) fn split_key(key: &str) -> (&str, Option<&str>) {
    key.split_once(OF).map_or((key, None), |(name, tenant)| (name, Some(tenant)))
}

/// Returns the unique names of all jobs of a list.
pub(super) fn list_keys(jobs: &ListedJobs) -> Vec<String> {
    jobs.jobs.iter().map(|(name, job)| format_key(name, job)).collect()
}

/// Everything that the screen shows beside the state of the user.
#[derive(Debug)]
pub(super) struct TopData {
    pub(super) overview: [String; 2],
    pub(super) jobs: ListedJobs,
    /// The lines of the open log.
    pub(super) log: Vec<String>,
}

/// Returns the number of jobs or log lines that fit the screen.
pub(super) fn page_lines(size: TerminalSize) -> usize {
    usize::from(size.rows).saturating_sub(OTHER_LINES).max(1)
}

/// Returns the lines of the screen, each no wider than the terminal. `shown` are the jobs after filter
/// and order.
pub(super) fn render(
    state: &TopState,
    data: &TopData,
    shown: &ListedJobs,
    view: &TopScreen,
) -> Vec<String> {
    let width = usize::from(view.size.columns);
    let page = page_lines(view.size);
    let fit = |text: &str| truncate_to_width(text, width);
    let mut lines: Vec<String> = data.overview.iter().map(|line| fit(line)).collect();
    match &state.mode {
        TopMode::Log { job, scroll } => {
            lines.push(Tone::Title.paint(&fit(&format!("output of {job}")), view.has_colors));
            let end = data.log.len().saturating_sub(*scroll).max(page.min(data.log.len()));
            let start = end.saturating_sub(page);
            lines.extend(data.log[start..end].iter().map(|line| fit(line)));
        }
        TopMode::List | TopMode::Filter | TopMode::ConfirmStop(_) => {
            lines.extend(render_jobs(state, shown, view, page));
        }
    }
    lines.truncate(usize::from(view.size.rows).saturating_sub(1));
    lines.resize(usize::from(view.size.rows).saturating_sub(1), String::new());
    lines.push(Tone::Faint.paint(&fit(&footer(state)), view.has_colors));
    lines
}

/// The terminal for which a screen is drawn.
#[derive(Debug, Clone, Copy)]
pub(super) struct TopScreen {
    pub(super) size: TerminalSize,
    pub(super) scope: TenantScope,
    pub(super) has_colors: bool,
    pub(super) now: OffsetDateTime,
}

fn render_jobs(state: &TopState, shown: &ListedJobs, view: &TopScreen, page: usize) -> Vec<String> {
    let room = TableRoom::Terminal(view.size.columns.into());
    let format = |has_colors| shown.format(view.scope, room, has_colors, view.now);
    let table = format(view.has_colors);
    let mut lines: Vec<String> = table.lines().map(str::to_owned).collect();
    if lines.is_empty() {
        let text = if state.filter.is_empty() { "no jobs" } else { "no job matches the filter" };
        return vec![String::new(), truncate_to_width(text, view.size.columns.into())];
    }
    let at = state.selected_index(&list_keys(shown));
    if let (Some(line), Some(plain)) = (lines.get_mut(at + 1), format(false).lines().nth(at + 1)) {
        *line = format!("{REVERSE}{plain}{RESET}");
    }
    let first = (at + 1).saturating_sub(page);
    let head = lines.remove(0);
    std::iter::once(head).chain(lines.into_iter().skip(first).take(page)).collect()
}

fn footer(state: &TopState) -> String {
    match &state.mode {
        TopMode::Filter => format!("filter: {}_", state.filter),
        TopMode::ConfirmStop(job) => format!("stop job {job}? y/n"),
        TopMode::Log { .. } => "q back  up/down scroll".to_owned(),
        TopMode::List if !state.message.is_empty() => state.message.clone(),
        TopMode::List => {
            let filter = match state.filter.as_str() {
                "" => "/ filter".to_owned(),
                filter => format!("/ {filter}"),
            };
            format!("s sort: {}  q quit  x stop  l log  {filter}", state.order.word())
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use unicode_width::UnicodeWidthStr as _;

    use super::*;

    fn data() -> TopData {
        let job = |number: u64, state: &str, elapsed: u64, command: &str| {
            let job = json!({"job": number, "state": state, "elapsed_ms": elapsed,
                             "command": command, "client": "codex", "lines": 1});
            (number.to_string(), job)
        };
        let jobs = vec![
            job(3, "finished", 10, "echo three"),
            job(2, "running", 500, "make 日本\u{1b}[2J"),
            job(1, "running", 9000, "sleep 1"),
        ];
        TopData {
            overview: ["load 0.1".to_owned(), "running 2 of 4".to_owned()],
            jobs: ListedJobs { jobs },
            log: (1..=50).map(|line| format!("line {line}")).collect(),
        }
    }

    fn names(state: &TopState) -> Vec<String> {
        list_keys(&state.select_jobs(&data().jobs))
    }

    fn press(state: &mut TopState, keys: &[u8]) -> Vec<TopEffect> {
        let keys = parse_keys(keys);
        let effects = keys.into_iter().map(|key| {
            let names = names(state);
            state.apply(key, &names, 10)
        });
        effects.filter(|effect| *effect != TopEffect::None).collect()
    }

    #[test]
    fn keys_are_recognised_in_what_a_terminal_sends() {
        assert_eq!(parse_keys(b"q\x1b[A\x1bOB"), [TopKey::Char('q'), TopKey::Up, TopKey::Down]);
        assert_eq!(parse_keys(b"\x1b"), [TopKey::Escape]);
        let expected = [TopKey::Char('x'), TopKey::Enter, TopKey::Backspace, TopKey::Interrupt];
        assert_eq!(parse_keys(b"\x1b[1;5Cx\r\x7f\x03"), expected);
    }

    #[test]
    fn a_job_is_stopped_only_after_a_confirmation() {
        let mut state = TopState::default();
        assert_eq!(press(&mut state, b"\x1b[Bx"), []);
        assert_eq!(state.mode, TopMode::ConfirmStop("2".into()));
        assert_eq!(press(&mut state, b"n"), []);
        assert_eq!(press(&mut state, b"xy"), [TopEffect::Stop("2".into())]);
        assert_eq!(press(&mut state, b"q"), [TopEffect::Quit]);
    }

    #[test]
    fn jobs_are_sorted_and_filtered_and_the_selection_stays() {
        let mut state = TopState::default();
        press(&mut state, b"j");
        assert_eq!(names(&state), ["3", "2", "1"]);
        press(&mut state, b"ss");
        assert_eq!(names(&state), ["1", "2", "3"], "longest first");
        assert_eq!(state.selected_index(&names(&state)), 1, "still job 2");
        press(&mut state, b"/MAKEX\x7f\r");
        assert_eq!(names(&state), ["2"]);
        press(&mut state, b"\x1b");
        assert_eq!(names(&state).len(), 3);
        assert_eq!(press(&mut state, b"\r"), [TopEffect::OpenLog("2".into())]);
    }

    #[test]
    fn a_name_is_unique_among_tenants() {
        let key = format_key("s7/3", &json!({"tenant": "ci"}));
        assert_eq!(split_key(&key), ("s7/3", Some("ci")));
        assert_eq!(split_key(&format_key("3", &json!({}))), ("3", None));
    }

    #[test]
    fn every_screen_fits_the_terminal() {
        let data = data();
        for (rows, columns) in [(24, 80), (10, 40), (3, 12), (1, 1)] {
            let size = TerminalSize { rows, columns };
            let now = OffsetDateTime::UNIX_EPOCH;
            let screen = TopScreen { size, scope: TenantScope::Own, has_colors: false, now };
            for mode in [
                TopMode::List,
                TopMode::Filter,
                TopMode::ConfirmStop("1".into()),
                TopMode::Log { job: "1".into(), scroll: 3 },
                TopMode::Log { job: "1".into(), scroll: usize::MAX / 2 },
            ] {
                let state = TopState { mode, ..TopState::default() };
                let shown = state.select_jobs(&data.jobs);
                let lines = render(&state, &data, &shown, &screen);
                assert_eq!(lines.len(), usize::from(rows), "{lines:?}");
                for line in &lines {
                    let plain = line.replace(REVERSE, "").replace(RESET, "");
                    assert!(plain.width() <= usize::from(columns), "{columns}: {line:?}");
                    assert!(!plain.contains('\u{1b}'), "{line:?}");
                }
            }
        }
    }

    #[test]
    fn the_log_shows_its_end_and_scrolls_to_its_start() {
        let size = TerminalSize { rows: 10, columns: 40 };
        let now = OffsetDateTime::UNIX_EPOCH;
        let screen = TopScreen { size, scope: TenantScope::Own, has_colors: false, now };
        let lines = |scroll| {
            let mode = TopMode::Log { job: "1".into(), scroll };
            let state = TopState { mode, ..TopState::default() };
            render(&state, &data(), &data().jobs, &screen).join("|")
        };
        assert!(lines(0).contains("|line 50|") && !lines(0).contains("|line 1|"), "{}", lines(0));
        assert!(lines(1000).contains("|line 1|"), "{}", lines(1000));
    }
}
