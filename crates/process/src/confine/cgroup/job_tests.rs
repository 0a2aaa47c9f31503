use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Instant;

use super::*;

const LIMITS: ResourceLimits =
    ResourceLimits { memory: Some(1 << 30), processes: Some(64), ..ResourceLimits::NONE };

/// Below a plain directory, where only what we write can be seen.
fn plain(name: &str, controllers: &[Controller]) -> (JobCgroup, PathBuf) {
    let (home, yard) = plain_yard(name, controllers);
    (JobCgroup::create_in(&yard, &LIMITS).unwrap(), home)
}

fn plain_yard(name: &str, controllers: &[Controller]) -> (PathBuf, Yard) {
    let home = std::env::temp_dir().join(format!("job-cgroup-{name}-{}", std::process::id()));
    fs::create_dir_all(&home).unwrap();
    fs::write(home.join("cgroup.procs"), "").unwrap();
    let words: Vec<_> = controllers.iter().map(|it| it.word()).collect();
    fs::write(home.join("cgroup.controllers"), words.join(" ")).unwrap();
    let yard = Yard::open(home.clone()).unwrap();
    (home, yard)
}

#[test]
fn limits_are_written_where_their_controllers_are_at_work() {
    let (cgroup, home) = plain("all", &Controller::ALL);
    for (file, text) in [
        ("memory.max", "1073741824"),
        ("memory.swap.max", "0"),
        ("memory.oom.group", "1"),
        ("pids.max", "64"),
    ] {
        assert_eq!(cgroup.read(file).as_deref(), Some(text), "{file}");
    }
    assert_eq!(cgroup.unheld(&LIMITS), ResourceLimits::NONE);
    fs::remove_dir_all(home).unwrap();
}

#[test]
fn what_no_controller_holds_is_left_to_others() {
    let (cgroup, home) = plain("some", &[Controller::Pids]);
    let rest = ResourceLimits { processes: None, ..LIMITS };
    assert_eq!(cgroup.unheld(&LIMITS), rest);
    assert_eq!(cgroup.read("memory.max"), None);
    fs::remove_dir_all(home).unwrap();
}

#[test]
fn only_an_end_for_want_of_memory_reads_as_one() {
    let (cgroup, home) = plain("oom", &Controller::ALL);
    assert_eq!(cgroup.out_of_memory(), None);
    assert!(cgroup.write("memory.events", "low 0\nmax 9\noom 0\noom_kill 0\n"));
    assert_eq!(cgroup.out_of_memory(), None);
    assert!(cgroup.write("memory.events", "low 0\nmax 9\noom 1\noom_kill 3\n"));
    assert_eq!(cgroup.out_of_memory(), Some(1 << 30), "no peak is told");
    assert!(cgroup.write("memory.peak", "1073000000\n"));
    assert_eq!(cgroup.out_of_memory(), Some(1_073_000_000));
    assert!(cgroup.write("cpu.stat", "usage_usec 2500000\nuser_usec 1\n"));
    assert_eq!(cgroup.cpu(), Some(Duration::from_millis(2500)));
    fs::remove_dir_all(home).unwrap();
}

#[test]
fn a_task_that_the_kernel_refused_counts() {
    let (cgroup, home) = plain("refused", &[Controller::Pids]);
    assert_eq!((cgroup.tasks(), cgroup.refused_tasks()), (None, 0));
    assert!(cgroup.write("pids.current", "7\n") && cgroup.write("pids.events", "max 0\n"));
    assert_eq!((cgroup.tasks(), cgroup.refused_tasks()), (Some(7), 0));
    assert!(cgroup.write("pids.events", "max 3\n"));
    assert_eq!((cgroup.tasks(), cgroup.refused_tasks()), (Some(65), 3));
    fs::remove_dir_all(home).unwrap();
}

#[test]
fn without_a_controller_threads_are_counted() {
    let (cgroup, home) = plain("threads", &[]);
    assert!(cgroup.write("cgroup.threads", "12\n14\n15\n"));
    assert_eq!((cgroup.tasks(), cgroup.refused_tasks()), (Some(3), 0));
    fs::remove_dir_all(home).unwrap();
}

/// Runs shell text in a cgroup, which the new process enters by itself.
fn run_in(cgroup: &JobCgroup, text: &str) -> Child {
    let entrance = File::create(cgroup.dir.join("cgroup.procs")).unwrap();
    let text = format!("echo 0 >&0 && exec 0</dev/null; {text}");
    Command::new("bash").args(["-c", &text]).stdin(Stdio::from(entrance)).spawn().unwrap()
}

fn wait_until(what: &str, holds: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !holds() {
        assert!(Instant::now() < deadline, "{what}");
        thread::sleep(Duration::from_millis(5));
    }
}

fn members(dir: &Path) -> usize {
    fs::read_to_string(dir.join("cgroup.procs")).unwrap_or_default().lines().count()
}

/// Real ones, where this host lets us make any.
#[test]
fn a_real_one_ends_all_that_entered_and_is_removed() {
    // With a limit on CPU time none is used again: its books tell of this job alone.
    let Some(cgroup) =
        JobCgroup::create(&ResourceLimits { cpu: Some(Duration::from_secs(60)), ..LIMITS })
    else {
        let delegation = yard::delegation();
        assert!(matches!(delegation, super::super::Delegation::Nothing { .. }), "{delegation}");
        return;
    };
    let dir = cgroup.dir.clone();
    let mut leader = run_in(&cgroup, "(setsid sleep 300 &) ; setsid sleep 300 & wait");
    wait_until("all three are in it", || members(&dir) == 3);
    assert!(cgroup.cpu().is_some_and(|cpu| !cpu.is_zero()));
    assert!(cgroup.kill());
    wait_until("nobody is in it", || members(&dir) == 0);
    leader.wait().unwrap();
    drop(cgroup);
    wait_until("it is removed", || !dir.exists());
}

#[test]
fn a_real_one_that_is_not_empty_is_removed_when_it_is() {
    let Some(cgroup) = JobCgroup::create(&LIMITS) else { return };
    let dir = cgroup.dir.clone();
    let mut leader = run_in(&cgroup, "exec sleep 300");
    wait_until("it is in it", || members(&dir) == 1);
    drop(cgroup);
    assert!(dir.exists());
    leader.kill().unwrap();
    leader.wait().unwrap();
    wait_until("it is removed", || !dir.exists());
}

/// A real one that goes to a list of its own afterwards, where this host lets us make any.
fn reusable() -> Option<(JobCgroup, Arc<Idle>)> {
    let idle = Arc::<Idle>::default();
    let next = Some(Arc::clone(&idle));
    let mut cgroup = JobCgroup::create(&ResourceLimits::NONE)?;
    cgroup.next = next;
    Some((cgroup, idle))
}

#[test]
fn one_that_was_left_as_it_was_is_kept_for_another_job() {
    let Some((cgroup, idle)) = reusable() else { return };
    let dir = cgroup.dir.clone();
    run_in(&cgroup, "true").wait().unwrap();
    wait_until("it is left", || cgroup.is_vacated());
    drop(cgroup);
    assert_eq!(idle.take(), Some(dir.clone()));
    assert_eq!(idle.take(), None, "and for one only");
    assert_eq!(members(&dir), 0);
    assert!(broom::is_removed(&dir));
}

#[test]
fn one_with_survivors_is_not_kept() {
    let Some((cgroup, idle)) = reusable() else { return };
    let dir = cgroup.dir.clone();
    run_in(&cgroup, "setsid sleep 300 >/dev/null 2>&1 & exit").wait().unwrap();
    assert!(!cgroup.is_vacated());
    assert!(cgroup.kill());
    drop(cgroup);
    assert_eq!(idle.take(), None);
    wait_until("it is removed", || !dir.exists());
}

#[test]
fn one_that_was_changed_or_killed_or_not_looked_at_is_not_kept() {
    let changes: [fn(&JobCgroup); 4] = [
        |cgroup| assert!(cgroup.kill()),
        |cgroup| fs::create_dir(cgroup.dir.join("below")).unwrap(),
        |cgroup| assert!(cgroup.write("cgroup.freeze", "1")),
        |_| {},
    ];
    for (number, change) in changes.into_iter().enumerate() {
        let Some((cgroup, idle)) = reusable() else { return };
        let dir = cgroup.dir.clone();
        change(&cgroup);
        assert!(number == 3 || cgroup.is_vacated());
        drop(cgroup);
        assert_eq!(idle.take(), None, "change {number}");
        wait_until("it is removed", || !dir.exists());
    }
}

#[test]
fn the_books_on_a_used_one_do_not_pass_for_those_of_a_job() {
    let (home, yard) = plain_yard("books", &[]);
    let dir = yard.dir.join("job-0");
    fs::create_dir(&dir).unwrap();
    fs::write(dir.join("cpu.stat"), "usage_usec 2500000\n").unwrap();
    yard.idle.keep(dir.clone()).unwrap();
    let with_cpu = ResourceLimits { cpu: Some(Duration::from_secs(9)), ..LIMITS };
    let fresh = JobCgroup::create_in(&yard, &with_cpu).unwrap();
    assert_ne!(fresh.dir, dir, "its CPU time is counted");
    let used = JobCgroup::create_in(&yard, &LIMITS).unwrap();
    assert_eq!((&used.dir, used.cpu()), (&dir, None));
    fs::remove_dir_all(home).unwrap();
}

#[test]
fn no_more_are_kept_than_are_of_use() {
    let idle = Idle::default();
    let kept = (0..200).filter(|number| idle.keep(PathBuf::from(number.to_string())).is_ok());
    let kept = kept.count();
    assert!((1..200).contains(&kept), "{kept}");
    idle.forget();
    assert_eq!(idle.take(), None);
}

#[test]
fn a_process_is_in_a_cgroup_by_the_names_of_server_and_job() {
    let dir = Path::new("/sys/fs/cgroup/unified/shellyard-7-8/job-1");
    let cases = [
        ("/shellyard-7-8/job-1", true),
        ("/system.slice/shellyard-7-8/job-1/below", true),
        ("/shellyard-7-8/job-12", false),
        ("/shellyard-7-80/job-1", false),
        ("/shellyard-7-8/server/job-1", false),
        ("/", false),
    ];
    for (path, expected) in cases {
        assert_eq!(is_inside(Path::new(path), dir), expected, "{path}");
    }
}
