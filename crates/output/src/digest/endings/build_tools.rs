//! make, ninja and CMake.

use super::ending::{Counts, Ending, Kept, Recogniser, Sight, Wants};

pub(super) const SIGNS: &str = r"|(?-i:^g?make(?:\[\d+\])?: \*\*\* |^ninja: build stopped: )";

/// `make[1]: *** [Makefile:3: main.o] Error 1`.
#[derive(Debug, Default)]
pub(super) struct Make {
    first: Option<Kept>,
    count: u64,
}

fn is_failure(text: &str) -> bool {
    let after_name = text.strip_prefix('g').unwrap_or(text).strip_prefix("make");
    after_name.and_then(|rest| rest.split_once(": *** ")).is_some_and(|(level, _)| {
        level.is_empty() || (level.starts_with('[') && level.ends_with(']'))
    })
}

impl Recogniser for Make {
    fn look_at(&mut self, line: Sight<'_>) -> Wants {
        if is_failure(line.text) {
            self.count += 1;
            self.first.get_or_insert_with(|| line.keep());
        }
        Wants::Signs
    }

    fn endings(&self) -> Vec<Ending> {
        let ending = |line| Ending::told("make", line).with_counts(Counts::errors(self.count));
        self.first.as_ref().map(ending).into_iter().collect()
    }
}

/// `FAILED: main.o`, then `ninja: build stopped: subcommand failed.`
#[derive(Debug, Default)]
pub(super) struct Ninja {
    failed: Option<Kept>,
    stopped: Option<Kept>,
}

impl Recogniser for Ninja {
    fn look_at(&mut self, line: Sight<'_>) -> Wants {
        if line.text.starts_with("FAILED: ") {
            self.failed.get_or_insert_with(|| line.keep());
        } else if line.text.starts_with("ninja: build stopped: ") {
            self.stopped = Some(line.keep());
        }
        Wants::Signs
    }

    fn endings(&self) -> Vec<Ending> {
        let told = self.stopped.as_ref().map(|stopped| self.failed.as_ref().unwrap_or(stopped));
        told.map(|line| Ending::told("ninja", line)).into_iter().collect()
    }
}

/// `CMake Error at CMakeLists.txt:3 (add_executable):`
#[derive(Debug, Default)]
pub(super) struct CMake {
    first: Option<Kept>,
    count: u64,
}

impl Recogniser for CMake {
    fn look_at(&mut self, line: Sight<'_>) -> Wants {
        if line.text.starts_with("CMake Error at ") || line.text.starts_with("CMake Error: ") {
            self.count += 1;
            self.first.get_or_insert_with(|| line.keep());
        }
        Wants::Signs
    }

    fn endings(&self) -> Vec<Ending> {
        let ending = |line| Ending::told("cmake", line).with_counts(Counts::errors(self.count));
        self.first.as_ref().map(ending).into_iter().collect()
    }
}
