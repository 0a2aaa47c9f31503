//! Exit codes of verbs that run or wait for a job, as in `timeout`, `env` and `sendmail`.

use crate::outcome::signal_name;

pub(super) const TIMED_OUT: u8 = 124;
/// Shellyard itself failed, or ended the command because of a limit.
pub(super) const OUR_FAILURE: u8 = 125;
pub(super) const NOT_EXECUTABLE: u8 = 126;
pub(super) const NOT_FOUND: u8 = 127;
pub(super) const TRY_LATER: u8 = 75;
const SIGNAL_BASE: u8 = 128;

/// Returns the exit code of a command that a signal ended.
pub(super) fn signal_exit_code(signal: i32) -> u8 {
    u8::try_from(signal).map_or(OUR_FAILURE, |signal| SIGNAL_BASE.saturating_add(signal))
}

/// Returns the exit code of a command that exited with `code`.
pub(super) fn command_exit_code(code: i64) -> u8 {
    u8::try_from(code & 0xff).unwrap_or(OUR_FAILURE)
}

/// Returns the number of a signal by its name in replies, such as `SIGKILL` or `signal 40`.
pub(super) fn find_signal(name: &str) -> Option<i32> {
    (1..=64).find(|number| signal_name(*number) == name)
}

/// Returns what a signal means for a person who sees it as the end of a job, if its name does not say
/// it.
pub(super) fn explain_signal(signal: i32) -> &'static str {
    match signal {
        libc::SIGSEGV | libc::SIGBUS => " (it used memory that is not its own)",
        libc::SIGABRT => " (it ended itself, mostly after an internal error)",
        libc::SIGKILL => " (perhaps the system was out of memory)",
        libc::SIGXCPU => " (its limit on CPU time)",
        libc::SIGXFSZ => " (its limit on the size of files)",
        libc::SIGSYS => " (it used a system call that the sandbox forbids)",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_are_found_by_the_names_that_replies_give_them() {
        assert_eq!(find_signal("SIGKILL"), Some(9));
        assert_eq!(find_signal("signal 40"), Some(40));
        assert_eq!(find_signal("SIGNOTHING"), None);
        assert_eq!(signal_exit_code(9), 137);
        assert_eq!((command_exit_code(3), command_exit_code(259)), (3, 3));
    }
}
