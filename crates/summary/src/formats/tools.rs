//! Tools of no single language. Shell: bats, checkers, package managers; bazel. Images and infrastructure:
//! docker build, docker compose, terraform.

use crate::rules::Effect::{
    Append, Begin, BeginAbove, BeginBelow, BeginWarning, Counts, End, EndCounts, Explain, Failure,
    File, Fill, FillLast, Keep, Name, Refill, Result, Skip, Warning, Watch,
};
use crate::rules::{BlockEnd, Format, FormatKind, Rule};
use crate::summary;

pub(crate) const SHELL_FORMATS: &[Format] = &[BATS_PRETTY, SHELLCHECK, BAZEL_TEST, BAZEL, APT];

/// Output of bats for a terminal.
const BATS_PRETTY: Format = Format {
    name: "bats",
    kind: FormatKind::Tests,
    rules: &[
        Rule { on: r".*✗ (?P<name>\S.*)$", then: Watch },
        // Other tools mark failures like bats, but only bats has test files.
        Rule { on: r"\s+\(?in test file (?P<file>\S+), line (?P<line>\d+)\)$", then: Begin },
        Rule { on: r"     (?P<message>`.*' failed.*)$", then: Fill },
        Rule { on: r"   |\s*$", then: Keep },
        Rule {
            on: r"(?P<total>\d+) tests?, (?P<failed>\d+) failures?(?:, (?P<skipped>\d+) skipped)?",
            then: EndCounts,
        },
    ],
    block: BlockEnd::FirstOther,
    ..Format::DEFAULT
};

const SHELLCHECK: Format = Format {
    name: "shellcheck",
    rules: &[
        Rule { on: r"In (?P<file>\S+) line (?P<line>\d+):$", then: File },
        Rule { on: r"\s*\^-*\^? (?P<message>SC\d+ \(error\): .+)$", then: Failure },
        Rule {
            on: r"\s*\^-*\^? (?P<message>SC\d+ \((?:warning|info|style)\): .+)$",
            then: Warning,
        },
        // shellcheck -f gcc
        Rule {
            on: r"(?P<file>[^\s:]+):(?P<line>\d+):(?P<column>\d+): (?P<message>error: .+ \[SC\d+\])$",
            then: Failure,
        },
        Rule {
            on: r"(?P<file>[^\s:]+):(?P<line>\d+):(?P<column>\d+): (?P<message>(?:warning|note): .+ \[SC\d+\])$",
            then: Warning,
        },
        Rule { on: r"(?P<file>[^\s:]+): [^\s:]+: (?P<message>openBinaryFile: .+)$", then: Failure },
    ],
    ..Format::DEFAULT
};

const BAZEL_TEST: Format = Format {
    name: "bazel test",
    kind: FormatKind::Tests,
    rules: &[
        // //app:bad_test                                                FAILED in 0.1s
        Rule {
            on: r"(?P<name>//\S+)\s+(?:\(cached\) )?(?P<message>FAILED TO BUILD|TIMEOUT|FAILED)(?: in .*)?$",
            then: Failure,
        },
        Rule {
            on: r"Executed \d+ out of \d+ tests?: (?:(?P<passed>\d+) tests? pass(?:es)?)?(?:(?:,? and |, )?(?P<errors>\d+) fails? to build)?(?:(?:,? and |, )?(?P<failed>\d+) fails? (?:locally|remotely))?(?:(?:,? and |, )?(?P<skipped>\d+) (?:was|were) skipped)?\.?$",
            then: Counts,
        },
        Rule { on: r"(?:FAIL|TIMEOUT): //\S+ \(see ", then: Skip },
    ],
    ..Format::DEFAULT
};

const BAZEL: Format = Format {
    name: "bazel",
    kind: FormatKind::Steps,
    rules: &[
        Rule {
            on: r"ERROR: (?P<file>\S*/(?:BUILD|WORKSPACE|MODULE)(?:\.bazel)?|\S+\.bzl):(?P<line>\d+):(?P<column>\d+): (?P<message>.+?)(?:: error executing .*)?$",
            then: Failure,
        },
        Rule {
            on: r"ERROR: (?P<message>(?:Skipping '//|no such (?:package|target) ').+)$",
            then: Failure,
        },
        Rule { on: r"ERROR: (?:Analysis of target '//|Couldn't start the build)", then: Skip },
        Rule {
            on: r"(?:FAILED|ERROR): (?P<message>Build did NOT complete successfully)",
            then: Result,
        },
        Rule {
            on: r"INFO: (?P<message>Build completed.*?)(?:, \d+ total actions?)?$",
            then: Result,
        },
    ],
    ..Format::DEFAULT
};

const APT: Format = Format {
    name: "apt",
    kind: FormatKind::Steps,
    rules: &[
        Rule { on: r"E: (?P<message>.+)$", then: Failure },
        Rule { on: r"W: (?P<message>.+)$", then: Warning },
        Rule {
            on: r"dpkg: error processing (?:package|archive) (?P<name>\S+) \(--\S+\):$",
            then: BeginAbove,
        },
        Rule { on: r" (?P<name>\S+) : (?P<message>(?:Pre)?Depends: .+ but .+)$", then: Begin },
        Rule { on: r"\s+(?P<message>(?:Pre)?Depends: .+ but .+)$", then: Append },
        Rule {
            on: r"(?P<message>\d+ upgraded, \d+ newly installed, \d+ to remove.*?)\.?$",
            then: Result,
        },
    ],
    block: BlockEnd::FirstOther,
    ..Format::DEFAULT
};

pub(crate) const IMAGE_FORMATS: &[Format] = &[DOCKER, DOCKER_STEPS, COMPOSE, TERRAFORM];

/// Image builds by BuildKit. The failed step is told again at the end, with its place.
const DOCKER: Format = Format {
    name: "docker",
    kind: FormatKind::Steps,
    rules: &[
        //  > [5/7] RUN pip install --no-cache-dir -r requirements.txt:
        Rule { on: r" > (?P<name>\[[^\]]+\] .*):$", then: Begin },
        Rule { on: DOCKERFILE_PLACE, then: Refill },
        Rule { on: DOCKERFILE_PLACE, then: Begin },
        Rule {
            on: r"(?:ERROR: |error: |target \S+: )?(?:failed to \w+: )*process .* did not complete successfully: (?P<message>.*)$",
            then: FillLast,
        },
        Rule {
            on: r"(?:ERROR: |error: )?failed to solve.*: executor failed running \[.*\]: (?P<message>.*)$",
            then: FillLast,
        },
        Rule { on: DOCKER_END, then: FillLast },
        Rule { on: DOCKER_END, then: Failure },
        // The step itself, before it is told again.
        Rule { on: r"#\d+ ERROR: ", then: Skip },
        Rule { on: r"#\d+ (?P<message>naming to \S+)", then: Result },
    ],
    ..Format::DEFAULT
};

const DOCKER_END: &str =
    r"(?:ERROR: (?:failed to build: )?|target \S+: )?failed to solve: (?P<message>.*)$";
const DOCKERFILE_PLACE: &str =
    r"(?P<file>[^\s:]*(?:Dockerfile|Containerfile|dockerfile)[^\s:]*):(?P<line>\d+)$";

/// Image builds without BuildKit, and by buildah.
const DOCKER_STEPS: Format = Format {
    name: "docker",
    kind: FormatKind::Steps,
    rules: &[
        Rule { on: r"(?:Step|STEP) (?P<name>\d+/\d+ ?: .*)$", then: Name },
        Rule { on: r"The command '.*' returned a non-zero code: (?P<message>\d+)$", then: Failure },
        Rule { on: r"(?P<message>(?:COPY|ADD) failed: .*)$", then: Failure },
        Rule { on: r#"Error: building at STEP ".*": (?P<message>.*)$"#, then: Failure },
        Rule { on: r"(?P<message>Successfully tagged \S+)$", then: Result },
    ],
    complete: Some(name_exit_code),
    ..Format::DEFAULT
};

/// Writes the step and a lone exit code as BuildKit does.
fn name_exit_code(failure: &mut summary::Failure) {
    if let Some((number, command)) = failure.name.as_deref().and_then(|name| name.split_once(':')) {
        failure.name = Some(format!("[{}] {}", number.trim(), command.trim()));
    }
    if let Some(message) = &mut failure.message
        && message.bytes().all(|byte| byte.is_ascii_digit())
    {
        message.insert_str(0, "exit code: ");
    }
}

const COMPOSE: Format = Format {
    name: "docker compose",
    kind: FormatKind::Steps,
    rules: &[Rule {
        on: r"(?P<name>[\w.-]+) (?P<message>exited with code [1-9]\d*)(?: \(restarting\))?$",
        then: Failure,
    }],
    ..Format::DEFAULT
};

/// Diagnostics in boxes; with `-no-color` there is no box, and the message stands above the place.
const TERRAFORM: Format = Format {
    name: "terraform",
    kind: FormatKind::Diagnostics,
    rules: &[
        Rule { on: r"│ Error: (?P<message>.*)$", then: Begin },
        Rule { on: r"│ Warning: (?P<message>.*)$", then: BeginWarning },
        Rule { on: r"│ +on (?P<file>\S+) line (?P<line>\d+)(?:, in .*)?:?$", then: Fill },
        Rule { on: r"│ +with (?P<name>.*),$", then: Fill },
        Rule { on: r"╵", then: End },
        Rule { on: r"│(?: *$|  )", then: Keep },
        Rule { on: r"│ (?P<message>\S.*)$", then: Explain },
        Rule { on: r"  with (?P<name>.*),$", then: BeginBelow },
        Rule { on: TERRAFORM_PLACE, then: Fill },
        Rule { on: TERRAFORM_PLACE, then: BeginBelow },
        Rule { on: r"\s*$|  +(?:\d+: |[├│])", then: Keep },
        Rule { on: r"(?P<message>Plan: \d+ to (?:import|add).*)$", then: Result },
        Rule { on: r"(?P<message>(?:Apply|Destroy) complete! .*)$", then: Result },
        Rule { on: r"(?P<message>Success! The configuration is valid.*)$", then: Result },
        Rule { on: r"(?P<message>No changes\. Your infrastructure matches.*)$", then: Result },
        Rule { on: r"(?P<message>Terraform has been successfully initialized!)$", then: Result },
        Rule {
            on: r"(?P<message>Planning failed\. Terraform encountered an error.*)$",
            then: Result,
        },
        // Any line that does not begin with `Error: ` or `Warning: `.
        Rule { on: r"(?P<message>(?:[^EW\s│╷╵]|E(?:[^r]|r[^r])|W[^a]).*)$", then: Explain },
    ],
    block: BlockEnd::FirstOther,
    complete: Some(tidy_diagnosis),
    ..Format::DEFAULT
};

const TERRAFORM_PLACE: &str =
    r"  on (?P<file>\S+\.(?:tf|tofu|tfvars|hcl)(?:\.json)?) line (?P<line>\d+)(?:, in .*)?:$";

/// Removes the level from a message that stood above, and puts the address of the resource before
/// it: errors of one resource are different errors.
fn tidy_diagnosis(failure: &mut summary::Failure) {
    let Some(message) = failure.message.take() else { return };
    let text = message.strip_prefix("Error: ").or(message.strip_prefix("Warning: "));
    let text = text.unwrap_or(&message);
    failure.message = Some(match failure.name.take() {
        Some(address) => format!("{address}: {text}"),
        None => text.to_owned(),
    });
}
