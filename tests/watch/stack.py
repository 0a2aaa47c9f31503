"""A real Shellyard server, a real Prometheus that scrapes it, and a mixed load on the server."""

import contextlib
import pathlib
import random
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from dataclasses import dataclass

from prometheus import Prometheus

ROOT = pathlib.Path(__file__).resolve().parents[2]
DEADLINE = 240
# The time between two scrapes, and the time for one.
SCRAPE_S = 3
TENANTS = ("alice", "ci")

# Small limits, so that a queue fills, a lane is full and some jobs are refused.
CONFIG = """\
[queue]
slots = 6
max_queued = 40
[queue.lanes.build]
slots = 2
max_queued = 20
[queue.lanes.net]
slots = 3
[tenants.alice]
weight = 2
max_running = 5
max_stored = "1 GiB"
[tenants.ci]
max_running = 4
cpu_s_per_hour = 3600
[output]
max_store = "2 GiB"
compress_from = "256 KiB"
[retention]
max_finished = 200
"""


@dataclass
class Stack:
    """What runs, and how it is reached."""

    prometheus: Prometheus
    server: str
    admin: str
    config: pathlib.Path
    load: subprocess.Popen

    def scrape(self):
        """What the server tells of itself, as text."""
        request = urllib.request.Request(
            f"{self.server}/metrics", headers={"Authorization": f"Bearer {self.admin}"}
        )
        with urllib.request.urlopen(request, timeout=DEADLINE) as answer:
            return answer.read().decode()

    def end_load(self):
        """Ends the load early; returns its exit code, which tells of failures of the server."""
        self.load.send_signal(signal.SIGINT)
        return self.load.wait(DEADLINE)


@contextlib.contextmanager
def running(binary, dashboards, seconds, seed=1):
    """All of it, under load for so long; ended and removed afterwards."""
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as ending:
        folder = pathlib.Path(folder)
        data = folder / "data"
        (folder / "config.toml").write_text(CONFIG)
        flags = ["--data-dir", data, "--config", folder / "config.toml"]
        secrets = {name: token(binary, flags, name, "run") for name in TENANTS}
        secrets["ops"] = token(binary, flags, "ops", "admin")
        for name, secret in secrets.items():
            (folder / f"{name}.token").write_text(secret)
        port, listen = free_port(), free_port()
        begin(ending, [binary, "serve", "--bind", f"127.0.0.1:{port}", *flags], folder / "server.log")
        await_port(port)
        config = folder / "prometheus.yml"
        config.write_text(derived_config(dashboards, port, folder / "ops.token"))
        begin(ending, prometheus_command(config, folder / "tsdb", listen), folder / "prometheus.log")
        prometheus = Prometheus(f"http://127.0.0.1:{listen}")
        prometheus.wait_until(
            "the first scrape", lambda p: p.instant("up == 1", time.time()), DEADLINE
        )
        tokens = [flag for name in TENANTS for flag in ("--as", folder / f"{name}.token")]
        script = pathlib.Path(dashboards) / "demo_load.py"
        load = [sys.executable, script, "--data-dir", data, *tokens, "--duration", f"{seconds}s", "--agents", "6"]
        load = [*load, "--seed", str(seed), "--json"]
        process = begin(ending, load, folder / "load.log", prepare=heed_interrupts)
        yield Stack(prometheus, f"http://127.0.0.1:{port}", secrets["ops"], config, process)


def token(binary, flags, tenant, role):
    """A new token of a tenant."""
    command = [binary, "token", "new", tenant, "--role", role, *flags]
    made = subprocess.run(command, check=True, capture_output=True, text=True)
    return made.stdout.strip()


def derived_config(dashboards, port, token_file):
    """The repository's own configuration, with our target, a token, and more scrapes."""
    text = (pathlib.Path(dashboards) / "prometheus.yml").read_text()
    text = re.sub(r"(scrape_interval|evaluation_interval):.*", rf"\1: {SCRAPE_S}s", text)
    text = text.replace("127.0.0.1:8000", f"127.0.0.1:{port}")
    rules = pathlib.Path(dashboards).resolve() / "rules"
    text = re.sub(r"(?m)^(\s*- [\"']?)rules/", rf"\1{rules}/", text)
    wanted = rf"\1\2job_name: shellyard\n\1  authorization:\n\1    credentials_file: {token_file}"
    text, found = re.subn(r"(?m)^( *)(- )job_name: [\"']?shellyard[\"']? *$", wanted, text)
    assert str(rules) in text, "dashboards/prometheus.yml loads no rules"
    assert found == 1, "dashboards/prometheus.yml has no scrape job `shellyard`"
    assert f"127.0.0.1:{port}" in text, "dashboards/prometheus.yml does not scrape 127.0.0.1:8000"
    return text


def prometheus_command(config, storage, port):
    # Debian's package may have started one of its own: ours listens elsewhere.
    return [
        "prometheus",
        f"--config.file={config}",
        f"--storage.tsdb.path={storage}",
        f"--web.listen-address=127.0.0.1:{port}",
        "--log.level=warn",
    ]


def heed_interrupts():
    """Makes a program react to SIGINT: a shell lets its background jobs ignore it."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def begin(ending, command, log, prepare=None):
    """Starts a program that is ended, and its log shown if something went wrong, at the end."""
    file = ending.enter_context(open(log, "w"))
    words = [str(word) for word in command]
    process = subprocess.Popen(words, stdout=file, stderr=file, preexec_fn=prepare)
    ending.callback(end, process, log)
    return process


def end(process, log):
    crashed = process.poll() not in (None, 0)
    process.terminate()
    try:
        process.wait(DEADLINE)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    if crashed:
        print(f"{process.args[0]} ended with {process.returncode}:\n{log.read_text()[-2000:]}")


def free_port():
    """A port that was free a moment ago, and is none that the kernel gives to connections."""
    while True:
        with socket.socket() as probe:
            port = random.randrange(20000, 32000)
            if probe.connect_ex(("127.0.0.1", port)) != 0:
                return port


def await_port(port):
    deadline = time.monotonic() + DEADLINE
    while True:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        assert time.monotonic() < deadline, "the server never listened"
        time.sleep(0.05)
