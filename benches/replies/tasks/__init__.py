"""The tasks of the benchmark, by set."""

from . import builds, logs, other, test_runs, unknown

SETS = {
    "everyday": (
        test_runs.pytest,
        builds.cargo,
        builds.tsc,
        test_runs.node,
        test_runs.go,
        logs.big_log,
        builds.long_build,
        logs.listing,
        logs.patches,
        builds.npm,
        logs.progress_bar,
        logs.java,
        logs.dev_server,
        builds.make,
        builds.docker,
    ),
    "other": (
        other.mypy,
        other.vitest,
        other.gradle,
        other.rspec,
        other.ctest,
        other.eslint,
        other.phpunit,
        other.playwright,
        other.terraform,
        other.pod_log,
        other.wget,
        other.disk_usage,
    ),
    "unknown": (
        unknown.pods,
        unknown.processes,
        unknown.journal,
        unknown.validation,
        unknown.rsync,
        unknown.training,
    ),
}
