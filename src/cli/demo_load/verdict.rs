//! What a call came to, by the server's own words.

use serde_json::Value;

/// What a call came to. Failures of commands, of limits and of ours are told apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Verdict {
    /// It was answered: a job ended well, or something was read.
    Answered,
    /// The job goes on, or waits.
    GoesOn,
    /// The command ended with a code other than 0, or by a signal.
    CommandFailed,
    /// A deadline, a limit or a wish ended the job.
    EndedEarly,
    /// A limit or a rule of the server kept the job from being run.
    Refused,
    /// What was asked for is no longer possible, as with a job that has ended meanwhile.
    TooLate,
    /// The server failed, or could not be reached.
    Ours,
}

impl Verdict {
    /// What it is called in the summary.
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Answered => "answered",
            Self::GoesOn => "goes on in the background",
            Self::CommandFailed => "the command failed",
            Self::EndedEarly => "ended early (deadline, limit, stop)",
            Self::Refused => "refused (queue, limits, rules)",
            Self::TooLate => "too late (the job had ended)",
            Self::Ours => "errors of ours",
        }
    }

    /// What a tool's result says. Answers come as text or as fields, as the server is set.
    pub(super) fn of(result: &Value) -> Self {
        let fields = &result["structuredContent"];
        let said = first_line(result);
        if result["isError"] == true {
            let is_refused = fields["outcome"] == "refused" || said.starts_with("refused");
            return if is_refused { Self::Refused } else { Self::TooLate };
        }
        match fields["state"].as_str() {
            Some("queued" | "running" | "stopping") => Self::GoesOn,
            Some(_) => Self::of_outcome(fields),
            None => Self::of_words(said),
        }
    }

    fn of_outcome(fields: &Value) -> Self {
        match fields["outcome"].as_str() {
            Some("exited") if fields["exit_code"] == 0 => Self::Answered,
            Some("exited" | "signaled") => Self::CommandFailed,
            Some("timed_out" | "stopped" | "limit") => Self::EndedEarly,
            Some(_) | None => Self::Ours,
        }
    }

    fn of_words(said: &str) -> Self {
        let starts = |words: &[&str]| words.iter().any(|word| said.starts_with(word));
        if starts(&["running", "queued", "stopping"]) {
            Self::GoesOn
        } else if starts(&["timed out", "stopped", "limit", "output limit"]) {
            Self::EndedEarly
        } else if starts(&["lost", "failed to start"]) {
            Self::Ours
        } else if starts(&["exit ", "killed"]) && !starts(&["exit 0"]) {
            Self::CommandFailed
        } else {
            Self::Answered
        }
    }
}

/// The number of the job that a result is about.
pub(super) fn job_of(result: &Value) -> Option<u64> {
    result["structuredContent"]["job"].as_u64().or_else(|| {
        let said = first_line(result);
        let parts = said.split('·').map(str::trim);
        parts.filter_map(|part| part.strip_prefix("job ")?.parse().ok()).next()
    })
}

fn first_line(result: &Value) -> &str {
    let text = result["content"][0]["text"].as_str().unwrap_or_default();
    text.lines().next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn words_and_fields_say_the_same() {
        for (said, fields, expected) in [
            (
                "exit 0 · 0.4s · job 12",
                json!({"outcome": "exited", "exit_code": 0}),
                Verdict::Answered,
            ),
            (
                "exit 3 · 0.4s · job 12",
                json!({"outcome": "exited", "exit_code": 3}),
                Verdict::CommandFailed,
            ),
            (
                "killed by SIGKILL · 1s · job 12",
                json!({"outcome": "signaled"}),
                Verdict::CommandFailed,
            ),
            (
                "timed out after 1s, tree killed · job 12",
                json!({"outcome": "timed_out"}),
                Verdict::EndedEarly,
            ),
            ("stopped by stop_jobs · job 12", json!({"outcome": "stopped"}), Verdict::EndedEarly),
            ("lost: why · job 12", json!({"outcome": "lost"}), Verdict::Ours),
        ] {
            let text = json!({"content": [{"type": "text", "text": format!("{said}\nmore")}]});
            assert_eq!((Verdict::of(&text), job_of(&text)), (expected, Some(12)), "{said}");
            let mut fields = fields;
            fields["state"] = json!("finished");
            fields["job"] = json!(12);
            let structured = json!({"structuredContent": fields});
            assert_eq!((Verdict::of(&structured), job_of(&structured)), (expected, Some(12)));
        }
    }

    #[test]
    fn what_goes_on_what_was_refused_and_what_came_too_late() {
        let text =
            |is_error: bool, text: &str| json!({"isError": is_error, "content": [{"text": text}]});
        let queued = text(false, "queued · position 3 of 12 · job 17 · 8/8 slots busy");
        assert_eq!((Verdict::of(&queued), job_of(&queued)), (Verdict::GoesOn, Some(17)));
        assert_eq!(Verdict::of(&text(false, "running 30s · job 16")), Verdict::GoesOn);
        let refused = text(true, "refused, nothing was run: the queue is full");
        assert_eq!((Verdict::of(&refused), job_of(&refused)), (Verdict::Refused, None));
        assert_eq!(Verdict::of(&text(true, "job 3 has ended")), Verdict::TooLate);
        assert_eq!(Verdict::of(&text(false, "3 jobs")), Verdict::Answered);
    }
}
