//! Tests of the journal on disk, and the records that other tests use.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use proptest::prelude::*;

use super::handle::JournalSizes;
use super::segment::{self, Marker, list_segments, segment_path};
use super::*;
use crate::ids::{JobId, JobNumber, TenantId};
use crate::outcome::{KillNote, LivingProcesses, Outcome, ResourceUsage, StartError, StopBy};
use crate::spec::{JobKey, JobSpec, Stdin};

pub(super) const SMALL: JournalSizes =
    JournalSizes { segment: 4096, reserve: 4096, queue: 1 << 20, kept: 1 << 16 };
const SPEC: &str = r#"{"program":{"shell":"make -j4"},"cwd":"/srv/app","env":["TOKEN"],"stdin":"text","streams":"separate","limits":{"timeout":{"secs":600,"nanos":0},"grace":{"secs":5,"nanos":0},"output_bytes":1048576,"output_lines":100000,"large_bytes":65536},"resources":{"memory":null,"cpu":{"secs":60,"nanos":0},"processes":100,"open_files":null,"file_size":null,"nice":5},"confinement":{"requested":{"profile":"workspace-write","network":"off"},"effective":{"profile":"workspace-write","network":"off"},"backend":"landlock"},"on_large_output":"spill","description":"the build","lane":"default","priority":"normal","call_mode":"background","kind":"command","shell":"configured","tenant":"local","client":{"name":"codex","version":"0.166","directory":"/srv/app"},"session":{"connection":1},"trace":{"context":{"parent":"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"},"begun_by":"caller"}}"#;
const GOLDEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/journal/v1.jsonl");

pub(super) fn spec() -> JobSpec {
    serde_json::from_str(SPEC).expect("a specification")
}

pub(super) fn job(number: u64) -> JobId {
    JobId::local(number)
}

pub(super) fn accepted(job: JobId) -> Record {
    let key = JobKey::new(format!("key-{job}"), &spec());
    Record::Accepted(AcceptedJob {
        job,
        at_ms: 1_760_000_000_000,
        spec: StoredJson::new(&spec()).expect("valid JSON"),
        key: job.number().is_multiple_of(2).then_some(key),
        command: "make -j4".to_owned(),
    })
}

fn queued(job: JobId) -> Record {
    use std::os::unix::ffi::OsStringExt as _;
    let value = std::ffi::OsString::from_vec(vec![b'a', 0xff]);
    let inherited = vec![InheritedVariable { name: "LANG".into(), value }];
    let inputs = JobInputs {
        env: vec![("TOKEN".to_owned(), "s\"1\n".to_owned())],
        stdin: Some("yes\n".to_owned()),
        inherited: Some(inherited),
        withheld: vec!["SECRET".to_owned()],
    };
    Record::Queued(QueuedJob { job, inputs })
}

fn starting(job: JobId) -> Record {
    Record::Starting(StartingJob { job, at_ms: 1_760_000_000_100 })
}

fn started(job: JobId) -> Record {
    Record::Started(StartedJob { job, at_ms: 1_760_000_000_200, pid: 4711 })
}

fn ended_with(job: JobId, outcome: Outcome) -> Record {
    Record::Ended(EndedJob {
        job,
        at_ms: 1_760_000_001_000,
        started_at_ms: Some(1_760_000_000_200),
        elapsed_ms: 800,
        ending: StoredEnding {
            outcome,
            usage: ResourceUsage { cpu: Duration::from_millis(700), max_rss_bytes: 1 << 20 },
            pipeline: vec![0, 2],
            survivors: LivingProcesses::Known(vec![99]),
            kill: Some(KillNote { first: 15, killed_after: Some(Duration::from_secs(5)) }),
        },
        log: Some(StoredJson::new(&serde_json::json!({"bytes": 12})).expect("valid JSON")),
    })
}

pub(super) fn ended(job: JobId) -> Record {
    ended_with(job, Outcome::Exited { code: 2 })
}

fn freed(job: JobId) -> Record {
    let why = StoredJson::new(&serde_json::json!({"count": {"limit": 10}})).expect("valid JSON");
    Record::Freed(FreedNote { job, at_ms: 1_760_000_002_000, why })
}

fn approval(run: u8) -> Record {
    Record::Approval(LastingApproval {
        tenant: TenantId::LOCAL,
        run: format!("{run:064x}"),
        cwd: "/srv/app".into(),
        rule: "policy.ask[0]".to_owned(),
        at_ms: 1_760_000_000_000,
    })
}

/// Records of every kind, and jobs in every state.
fn sample_records() -> Vec<Record> {
    let not_started = StartError::NulByte { what: "an argument" };
    let not_run = Outcome::NotRun { by: StopBy::Client, waited: Duration::from_millis(1500) };
    vec![
        Record::Number(NextNumber { tenant: TenantId::LOCAL, next: 20 }),
        approval(1),
        accepted(job(1)),
        starting(job(1)),
        started(job(1)),
        accepted(job(2)),
        queued(job(2)),
        accepted(job(3)),
        ended(job(1)),
        freed(job(1)),
        accepted(job(4)),
        queued(job(4)),
        starting(job(4)),
        accepted(job(5)),
        started(job(5)),
        ended_with(job(5), Outcome::FailedToStart(not_started)),
        accepted(job(6)),
        ended_with(job(6), not_run),
    ]
}

/// Any sequence of records about a few jobs of two tenants, also sequences that make no sense.
fn any_records() -> impl Strategy<Value = Vec<Record>> {
    let record = (0_u8..8, 1_u64..6, any::<bool>()).prop_map(|(kind, number, is_local)| {
        let other = TenantId::parse("journal-other").expect("a valid name");
        let tenant = if is_local { TenantId::LOCAL } else { other };
        let job = JobNumber::new(number).for_tenant(tenant);
        match kind {
            0 => accepted(job),
            1 => queued(job),
            2 => starting(job),
            3 => started(job),
            4 => ended(job),
            5 => ended_with(job, Outcome::Signaled { signal: 9, core: true }),
            6 => freed(job),
            _ => approval(u8::try_from(number).unwrap_or_default()),
        }
    });
    prop::collection::vec(record, 0..40)
}

fn encode(records: &[Record]) -> Vec<u8> {
    let mut bytes = Vec::new();
    segment::encode_line(&Marker::Header { format: 1 }, &mut bytes).unwrap();
    segment::encode_line(&Marker::Checkpoint { records: 0 }, &mut bytes).unwrap();
    records.iter().for_each(|record| segment::encode_line(record, &mut bytes).unwrap());
    bytes
}

/// Writes a journal with one segment.
fn write_segment(dir: &Path, bytes: &[u8]) {
    fs::create_dir_all(dir).unwrap();
    fs::write(segment_path(dir, 1), bytes).unwrap();
}

fn open(dir: &Path) -> (Journal, JournalState) {
    Journal::open_with(dir, Durability::Os, SMALL).unwrap()
}

/// Reads a journal that nobody has open.
fn read_state(dir: &Path) -> JournalState {
    let (journal, state) = open(dir);
    assert!(journal.close(Duration::from_secs(240)));
    state
}

/// Removes a directory in which the writer may be creating a file.
fn remove_directory(dir: &Path) {
    while dir.exists() {
        fs::remove_dir_all(dir).ok();
    }
}

async fn append_all(journal: &Journal, records: &[Record]) {
    for ticket in records.iter().map(|record| journal.append(record)).collect::<Vec<_>>() {
        ticket.written().await.unwrap();
    }
}

async fn wait_for(journal: &Journal, is_expected: impl Fn(&JournalHealth) -> bool) {
    let mut health = journal.health();
    let found = tokio::time::timeout(Duration::from_secs(20), health.wait_for(is_expected)).await;
    assert!(matches!(found, Ok(Ok(_))), "{:?}", *journal.health().borrow());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_checkpoint_leads_to_the_same_state(records in any_records()) {
        let state = JournalState::replay(records);
        prop_assert_eq!(JournalState::replay(state.checkpoint()), state);
    }

    #[test]
    fn records_that_are_read_twice_change_nothing(records in any_records()) {
        let state = JournalState::replay(records);
        let twice = state.checkpoint().into_iter().chain(state.checkpoint());
        prop_assert_eq!(JournalState::replay(twice), state);
    }

    #[test]
    fn a_journal_that_is_cut_anywhere_has_its_complete_records(
        records in any_records(),
        cut in any::<prop::sample::Index>(),
    ) {
        let dir = tempfile::tempdir().unwrap();
        let bytes = encode(&records);
        let cut = &bytes[..cut.index(bytes.len() + 1)];
        write_segment(dir.path(), cut);
        let lines = cut.iter().filter(|byte| **byte == b'\n').count();
        let complete = records.into_iter().take(lines.saturating_sub(2));
        prop_assert_eq!(read_state(dir.path()), JournalState::replay(complete));
    }

    #[test]
    fn a_damaged_byte_costs_one_record_at_most(
        records in any_records(),
        place in any::<prop::sample::Index>(),
        value in any::<u8>(),
    ) {
        let mut bytes = encode(&records);
        let whole = replay_bytes(&bytes);
        let place = place.index(bytes.len());
        let is_changed = std::mem::replace(&mut bytes[place], value) != value;
        let report = replay_bytes(&bytes);
        // A damaged line feed joins two lines, and a new one makes two of one.
        prop_assert!(report.records + 2 >= whole.records && report.records <= whole.records);
        let is_noticed = report.damaged > 0 || report.torn_bytes > 0;
        prop_assert_eq!(is_noticed, is_changed, "{:?}", report);
    }

    #[test]
    fn any_bytes_can_be_read(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        prop_assert_eq!(replay_bytes(&bytes).records, 0);
    }
}

#[test]
fn a_journal_of_version_1_can_be_read() {
    let bytes = fs::read(GOLDEN).unwrap();
    let dir = tempfile::tempdir().unwrap();
    write_segment(dir.path(), &bytes);
    let state = read_state(dir.path());
    assert_eq!(state, JournalState::replay(sample_records()));
    assert_eq!(state.numbers[&TenantId::LOCAL], 20);
    let numbers = |jobs: Vec<JobId>| jobs.into_iter().map(JobId::number).collect::<Vec<_>>();
    assert_eq!(numbers(state.unfinished.iter().map(|it| it.accepted.job).collect()), [2, 3, 4]);
    assert_eq!(numbers(state.finished.iter().map(|it| it.ended.job).collect()), [5, 6]);
    // What is written today must be what was written then, or the format needs a new number.
    assert_eq!(String::from_utf8(encode(&sample_records())), String::from_utf8(bytes));
}

#[test]
fn a_specification_is_stored_without_values_and_restored_from_the_inputs() {
    let mut given = JobSpec { stdin: Stdin::Text("hidden".to_owned()), ..spec() };
    given.env = vec![("TOKEN".to_owned(), "hidden".to_owned())];
    let stored = StoredJson::new(&given).unwrap();
    assert!(!stored.text().contains("hidden"), "{}", stored.text());
    assert_eq!(stored.text(), SPEC);
    let mut restored: JobSpec = stored.read().unwrap();
    assert_ne!(restored, given);
    JobInputs::from_spec(&given).restore_into(&mut restored);
    assert_eq!(restored, given);
}

#[test]
fn unknown_fields_are_ignored_and_unknown_kinds_are_counted() {
    let known = r#"{"started":{"later":{},"job":{"number":7,"tenant":"local","x":0},"at_ms":1,"pid":2,"more":[1]}}"#;
    let mut bytes = encode(&[accepted(job(7))]);
    for json in [known, r#"{"invented":{"job":{"tenant":"local","number":1}}}"#] {
        let value: Box<serde_json::value::RawValue> = serde_json::from_str(json).unwrap();
        segment::encode_line(&value, &mut bytes).unwrap();
    }
    let report = replay_bytes(&bytes);
    assert_eq!((report.records, report.unknown, report.damaged), (2, 1, 0));
    let dir = tempfile::tempdir().unwrap();
    write_segment(dir.path(), &bytes);
    let state = read_state(dir.path());
    assert_eq!(state.unfinished[0].started.map(|it| it.pid), Some(2));
}

#[test]
fn a_journal_of_a_later_version_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let mut bytes = Vec::new();
    segment::encode_line(&Marker::Header { format: 7 }, &mut bytes).unwrap();
    write_segment(dir.path(), &bytes);
    let error = Journal::open(dir.path(), Durability::Os).unwrap_err();
    assert_eq!(error.code(), "journal_newer_format");
    assert!(error.to_string().contains("format 7") && error.to_string().contains("up to 1"));
    assert_eq!(fs::read(segment_path(dir.path(), 1)).unwrap(), bytes);
}

#[tokio::test]
async fn records_are_read_back_with_every_durability() {
    for (word, durability) in Durability::WORDS {
        let dir = tempfile::tempdir().unwrap();
        let (journal, state) = Journal::open_with(dir.path(), durability, SMALL).unwrap();
        assert_eq!(state, JournalState::default());
        append_all(&journal, &sample_records()).await;
        assert_eq!(journal.counts().records, sample_records().len() as u64, "{word}");
        assert!(journal.close(Duration::from_secs(240)));
        assert_eq!(read_state(dir.path()), JournalState::replay(sample_records()), "{word}");
    }
}

#[tokio::test]
async fn a_journal_goes_on_after_a_record_that_is_torn_at_any_byte() {
    let first = encode(&[accepted(job(1))]);
    let whole = encode(&[accepted(job(1)), started(job(1))]);
    for end in first.len()..whole.len() {
        let dir = tempfile::tempdir().unwrap();
        write_segment(dir.path(), &whole[..end]);
        let (journal, state) = open(dir.path());
        assert_eq!(state, JournalState::replay([accepted(job(1))]), "{end}");
        append_all(&journal, &[accepted(job(3))]).await;
        assert!(journal.close(Duration::from_secs(240)));
        let expected = JournalState::replay([accepted(job(1)), accepted(job(3))]);
        assert_eq!(read_state(dir.path()), expected, "{end}");
    }
}

#[tokio::test]
async fn records_that_wait_are_written_when_the_last_handle_is_dropped() {
    let dir = tempfile::tempdir().unwrap();
    let (journal, _) = open(dir.path());
    let ticket = journal.append(&accepted(job(1)));
    drop(journal);
    ticket.written().await.unwrap();
    assert_eq!(read_state(dir.path()), JournalState::replay([accepted(job(1))]));
}

#[tokio::test]
async fn a_closed_journal_and_a_full_queue_refuse_records() {
    let dir = tempfile::tempdir().unwrap();
    let (journal, _) = open(dir.path());
    assert!(journal.close(Duration::from_secs(240)));
    let refused = journal.append(&ended(job(1))).written().await;
    assert!(matches!(refused, Err(JournalError::Closed)), "{refused:?}");
    let no_queue = JournalSizes { queue: 1, ..SMALL };
    let (journal, _) = Journal::open_with(dir.path(), Durability::Os, no_queue).unwrap();
    let refused = journal.append(&accepted(job(1))).written().await;
    assert!(matches!(refused, Err(JournalError::QueueFull)), "{refused:?}");
    // The ending of a job may use the half that announcements may not.
    journal.append(&ended(job(1))).written().await.unwrap();
    assert_eq!(journal.counts().lost, 1);
}

/// Appends a job that ends and is freed, many times: enough for several segments.
async fn churn(journal: &Journal, first: u64, count: u64) -> Vec<Record> {
    let jobs = (first..first + count).map(job);
    let records: Vec<Record> = jobs.flat_map(|it| [accepted(it), ended(it), freed(it)]).collect();
    for records in records.chunks(3) {
        append_all(journal, records).await;
    }
    records
}

#[tokio::test]
async fn segments_are_removed_and_nothing_live_is_lost() {
    let dir = tempfile::tempdir().unwrap();
    let (journal, _) = open(dir.path());
    append_all(&journal, &sample_records()).await;
    let mut records = sample_records();
    records.extend(churn(&journal, 100, 60).await);
    assert!(journal.counts().segments >= 3, "{:?}", journal.counts());
    let deadline = Instant::now() + Duration::from_secs(10);
    while list_segments(dir.path()).unwrap().len() > 2 {
        assert!(Instant::now() < deadline, "{:?}", list_segments(dir.path()));
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!(journal.close(Duration::from_secs(240)));
    assert_eq!(read_state(dir.path()), JournalState::replay(records));
}

#[tokio::test]
async fn a_segment_that_never_reached_the_disk_is_replaced_by_the_one_before() {
    let dir = tempfile::tempdir().unwrap();
    let (journal, _) = open(dir.path());
    append_all(&journal, &sample_records()).await;
    churn(&journal, 100, 20).await;
    assert!(journal.close(Duration::from_secs(240)));
    let numbers = list_segments(dir.path()).unwrap();
    let [.., previous, newest] = numbers.as_slice() else { panic!("{numbers:?}") };
    let bytes = [*previous, *newest].map(|it| fs::read(segment_path(dir.path(), it)).unwrap());
    let expected = JournalState::replay(sample_records());
    for rest in [Vec::new(), bytes[1][..700].to_vec(), vec![0; 900]] {
        let copy = tempfile::tempdir().unwrap();
        fs::write(segment_path(copy.path(), 1), &bytes[0]).unwrap();
        fs::write(segment_path(copy.path(), 2), &rest).unwrap();
        let state = read_state(copy.path());
        assert_eq!(state.unfinished[..3], expected.unfinished, "{}", rest.len());
        assert_eq!(state.finished[..2], expected.finished, "{}", rest.len());
        // The broken segment is followed by a whole one.
        assert_eq!(read_state(copy.path()), state, "{}", rest.len());
        assert_eq!(list_segments(copy.path()).unwrap(), [1, 2, 3]);
    }
}

#[tokio::test]
async fn a_removed_directory_is_created_again_with_everything() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("journal");
    let (journal, _) = open(&dir);
    append_all(&journal, &sample_records()).await;
    remove_directory(&dir);
    append_all(&journal, &[accepted(job(50))]).await;
    assert!(journal.counts().errors > 0);
    assert!(journal.close(Duration::from_secs(240)));
    let records = sample_records().into_iter().chain([accepted(job(50))]);
    assert_eq!(read_state(&dir), JournalState::replay(records));
}

#[tokio::test]
async fn records_wait_in_memory_while_the_journal_cannot_be_written() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("journal");
    let (journal, _) = open(&dir);
    append_all(&journal, &sample_records()).await;
    remove_directory(&dir);
    fs::write(&dir, "in the way").unwrap();
    for record in [accepted(job(50)), ended(job(50))] {
        let result = journal.append(&record).written().await;
        assert!(matches!(result, Err(JournalError::Degraded { is_kept: true, .. })), "{result:?}");
    }
    wait_for(&journal, |health| matches!(health, JournalHealth::Degraded { .. })).await;
    assert!(journal.counts().kept_bytes > 0);
    fs::remove_file(&dir).unwrap();
    wait_for(&journal, |health| !matches!(health, JournalHealth::Degraded { .. })).await;
    assert_eq!(journal.counts().kept_bytes, 0);
    assert!(journal.close(Duration::from_secs(240)));
    let records = sample_records().into_iter().chain([accepted(job(50)), ended(job(50))]);
    assert_eq!(read_state(&dir), JournalState::replay(records));
}

#[tokio::test]
async fn a_journal_that_cannot_be_written_is_read_and_goes_on_once_it_can() {
    let dir = tempfile::tempdir().unwrap();
    write_segment(dir.path(), &encode(&sample_records()));
    // After a second segment without a checkpoint a third one is needed, whose place is taken.
    fs::write(segment_path(dir.path(), 2), "").unwrap();
    let in_the_way = segment_path(dir.path(), 3).with_extension("jsonl.tmp");
    fs::create_dir(&in_the_way).unwrap();
    let (journal, state) = open(dir.path());
    assert_eq!(state, JournalState::replay(sample_records()));
    assert!(!journal.is_written());
    for record in [accepted(job(50)), ended(job(50))] {
        let result = journal.append(&record).written().await;
        assert!(matches!(result, Err(JournalError::Degraded { is_kept: true, .. })), "{result:?}");
    }
    fs::remove_dir(&in_the_way).unwrap();
    wait_for(&journal, |health| !matches!(health, JournalHealth::Degraded { .. })).await;
    assert!(journal.close(Duration::from_secs(240)));
    let records = sample_records().into_iter().chain([accepted(job(50)), ended(job(50))]);
    assert_eq!(read_state(dir.path()), JournalState::replay(records));
}

#[tokio::test]
async fn a_journal_that_appears_after_the_start_is_left_alone() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("disk/journal");
    let (journal, state) = open(&dir);
    assert_eq!(state, JournalState::default());
    drop(journal.append(&accepted(job(50))));
    write_segment(&dir, &encode(&sample_records()));
    let was_not_read = |health: &JournalHealth| match health {
        JournalHealth::Degraded { why } => why.contains("restart the server"),
        JournalHealth::Healthy | JournalHealth::LowSpace => false,
    };
    wait_for(&journal, was_not_read).await;
    assert!(journal.close(Duration::from_secs(240)));
    assert_eq!(read_state(&dir), JournalState::replay(sample_records()));
}

#[tokio::test]
async fn a_degraded_journal_keeps_a_bounded_number_of_records_and_prefers_endings() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("journal");
    let sizes = JournalSizes { kept: 8 * 1024, ..SMALL };
    let (journal, _) = Journal::open_with(&dir, Durability::Os, sizes).unwrap();
    remove_directory(&dir);
    fs::write(&dir, "in the way").unwrap();
    let is_kept = |number: u64| {
        let journal = journal.clone();
        async move {
            let result = journal.append(&accepted(job(number))).written().await;
            matches!(result, Err(JournalError::Degraded { is_kept: true, .. }))
        }
    };
    let mut number = 1;
    while is_kept(number).await {
        number += 1;
    }
    assert!(number > 2 && journal.counts().kept_bytes <= 4 * 1024, "{number}");
    let ending = journal.append(&ended(job(1))).written().await;
    assert!(matches!(ending, Err(JournalError::Degraded { is_kept: true, .. })), "{ending:?}");
    assert_eq!(journal.counts().lost, 1);
}

#[test]
#[ignore = "measures time: run it in a release build"]
fn opening_20_000_finished_jobs_takes_less_than_150_ms() {
    let dir = tempfile::tempdir().unwrap();
    let jobs = (1..=20_000).map(job);
    let records: Vec<Record> =
        jobs.flat_map(|it| [accepted(it), starting(it), started(it), ended(it)]).collect();
    write_segment(dir.path(), &encode(&records));
    let mut times = Vec::new();
    for _ in 0..5 {
        let begun = Instant::now();
        let (journal, state) = Journal::open(dir.path(), Durability::Os).unwrap();
        times.push(begun.elapsed());
        assert_eq!(state.finished.len(), 20_000);
        assert!(journal.close(Duration::from_secs(240)));
    }
    times.sort();
    eprintln!("opened in {times:?}");
    assert!(times[2] < Duration::from_millis(150), "{times:?}");
}
