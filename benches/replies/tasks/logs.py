"""Logs, listings, patches, progress and a server."""

import os
import subprocess
from datetime import datetime, timedelta
from random import Random

from .task import Task, add_program, add_script

LOG_LINES, FATAL_LINE = 496_836, 248_419
LOG_START = datetime(2026, 3, 14)
FATAL = "FATAL [raft-0] node-7 storage: WAL checksum mismatch at segment 004182 offset 90112 (expected 0x9f3c11aa, got 0x00000000), refusing to start shard 12"
# Everyday messages; some have the words that a careless search takes for an error.
LOG_MESSAGES = (
    "INFO  [http-{a}] node-{n} api: GET /v1/objects/{h} 200 in {b} ms, error_rate=0.00",
    "INFO  [http-{a}] node-{n} api: PUT /v1/objects/{h} 201 in {b} ms, {c} bytes",
    "DEBUG [raft-{a}] node-{n} raft: append entries term={b} index={c} ok=true errors=0",
    "INFO  [gc-{a}] node-{n} storage: compacted segment {b:06}, reclaimed {c} bytes, 0 failed",
    "DEBUG [cache-{a}] node-{n} cache: hit key={h} age={b} s fatal_misses=0",
)


def big_log(folder):
    """A service log of 52 MB with one FATAL and 24 WARN."""
    random = Random(6)
    warnings = set(random.sample([n for n in range(1, LOG_LINES + 1) if n != FATAL_LINE], 24))
    with (folder / "service.log").open("w") as log:
        for number in range(1, LOG_LINES + 1):
            a, n, b, c = random.getrandbits(3), 1 + number % 9, 1 + random.getrandbits(8), random.getrandbits(22)
            if number == FATAL_LINE:
                message = FATAL
            elif number in warnings:
                message = f"WARN  [raft-{a}] node-{n} raft: follower node-{1 + n} is {b} entries behind, throttling"
            else:
                message = LOG_MESSAGES[number % 5].format(a=a, n=n, b=b, c=c, h=f"{random.getrandbits(64):016x}")
            time = LOG_START + timedelta(milliseconds=number * 7)
            log.write(f"{time.isoformat(timespec='milliseconds')}Z {message}\n")
    task = Task("log", "a 52 MB log with one FATAL among 496,836 lines", "cat service.log")
    task.shell_follow_ups = ["grep -nE 'FATAL|ERROR' service.log | tail -n 20", "grep -c WARN service.log"]
    task.add_exit(0)
    task.add_text("FATAL", FATAL)
    task.add("warnings", r"\b24\b.*(?i:warn)|(?i:warn).*\b24\b|^(?:Output: )?24$")
    return task


HUGE_BYTES = 48_318_382_080


def listing(folder):
    """A listing of 5,000 files; one is huge (and sparse on this disk)."""
    random = Random(8)
    data = folder / "data"
    data.mkdir()
    for number in range(5000):
        path = data / f"shard-{number:04}-{random.getrandbits(32):08x}.parquet"
        huge = number == 3127
        if huge:
            name = path.name
        with path.open("wb") as file:
            file.truncate(HUGE_BYTES if huge else random.randint(180_000, 262_144))
        time = (LOG_START + timedelta(minutes=number)).timestamp()
        os.utime(path, (time, time))
    task = Task("listing", "a listing of 5,000 files, one of them huge", "ls -l data")
    task.shell_follow_ups = ["ls -lS data | head -n 5"]
    task.add_exit(0)
    task.add("the huge file", rf"{name}", rf"{HUGE_BYTES}|{HUGE_BYTES:,}|48\.3 ?GB|45(\.0)? ?Gi?B?")
    return task


def patches(folder):
    """The patches of 200 commits, one of which changes MAX_RETRIES."""
    repository = folder / "repository"
    subprocess.run(["git", "init", "-q", "-b", "main", repository], check=True)
    change = 122
    subprocess.run(["git", "-C", repository, "fast-import", "--quiet"], input=patch_stream(change).encode(), check=True)
    commits = subprocess.run(["git", "-C", repository, "rev-list", "--reverse", "main"], check=True, capture_output=True, text=True).stdout.split()
    commit = commits[change][:7]
    task = Task("patches", "git log -p of 200 commits, then a search for MAX_RETRIES", "git -C repository log -p", search="MAX_RETRIES")
    task.shell_follow_ups = ["git -C repository log --oneline --name-only -G MAX_RETRIES"]
    task.add_exit(0)
    task.add("the commit", commit)
    task.add("the file", r"\bsrc/net\.py\b")
    task.add("before", r"-MAX_RETRIES = 5$")
    task.add("after", r"\+MAX_RETRIES = 50$")
    return task


def patch_stream(change):
    """The input of `git fast-import`: 200 commits, each of which changes a line of a module."""
    files = {f"src/mod{m}.py": [line for f in range(12) for line in (f"def f{m}_{f}(x):", f"    return x + {m * f}", "")] for m in range(9)}
    files["src/net.py"] = ['"""The client."""', "", "TIMEOUT_S = 30", "MAX_RETRIES = 5", "BACKOFF = 1.5", ""]
    stream, time = [], 1_767_225_600
    for number in range(200):
        time += 3600
        module, function = number % 9, number * 5 % 12
        if number == 0:
            subject, changed = "start the project", list(files)
        elif number == change:
            subject, changed = "net: tune the client for slow links", ["src/net.py"]
            files["src/net.py"][3] = "MAX_RETRIES = 50"
        else:
            file = f"src/mod{module}.py"
            subject, changed = f"mod{module}: tidy f{module}_{function}", [file]
            files[file][3 * function + 1] = f"    return x + {number} - {function}"
        data = f"{subject}\n"
        stream.append(f"commit refs/heads/main\ncommitter Ada <ada@example.com> {time} +0000\ndata {len(data)}\n{data}")
        for file in changed:
            text = "\n".join(files[file]) + "\n"
            stream.append(f"M 100644 inline {file}\ndata {len(text)}\n{text}")
    return "\n".join(stream) + "\n"


SHA256 = "5f70bf18a086007016e948b04aed3b82103a36bea41755b6cddfaf10ace3c6ef"


def progress_bar(folder):
    """A progress bar of 2,000 updates by carriage returns, then a line about the saved file."""
    output = ""
    for step in range(2001):
        bar = "█" * (step * 30 // 2000)
        output += (
            f"\rmodel.safetensors: {step * 100 // 2000:3}%|{bar:30}| {step}/2000 [00:{step // 400:02}<00:{5 - step // 400:02}, {400 + step % 37}.{step % 100:02}MB/s]"
        )
    output += f"\nsaved model.safetensors, sha256 {SHA256}\n"
    task = Task("bar", "a progress bar with 2,000 updates", add_program(folder, "download", output, 0) + " model.safetensors")
    task.shell_follow_ups = [f"{task.command} | tr '\\r' '\\n' | tail -n 3"]
    task.add_exit(0)
    task.add("the last state", r"100%.*2000/2000")
    task.add("the saved file", rf"saved model\.safetensors, sha256 {SHA256}")
    return task


# Each trace: logger, message, exceptions from the outermost to the cause, each with its text and frames.
TRACES = (
    (
        "c.e.depot.OrderService", "could not place order 48213",
        [
            ("com.example.depot.OrderException: order 48213 was not placed", ["com.example.depot.OrderService.place(OrderService.java:142)", "com.example.depot.OrderController.post(OrderController.java:58)"]),
            ("java.util.concurrent.ExecutionException: java.sql.SQLTransientConnectionException: pool is exhausted", ["java.base/java.util.concurrent.FutureTask.report(FutureTask.java:122)", "com.example.depot.OrderService.reserve(OrderService.java:167)"]),
            ("java.sql.SQLTransientConnectionException: depot-pool - Connection is not available, request timed out after 30000ms (total=10, active=10, idle=0, waiting=41)", ["com.zaxxer.hikari.pool.HikariPool.createTimeoutException(HikariPool.java:710)", "com.example.depot.StockRepository.lock(StockRepository.java:88)"]),
        ],
    ),
    (
        "c.e.depot.PriceImport", "import of prices-2026-03.csv stopped at row 9114",
        [
            ("com.example.depot.ImportException: row 9114 of prices-2026-03.csv is invalid", ["com.example.depot.PriceImport.readRow(PriceImport.java:97)", "com.example.depot.PriceImport.run(PriceImport.java:51)"]),
            ('java.lang.NumberFormatException: For input string: "12,50"', ["java.base/jdk.internal.math.FloatingDecimal.readJavaFormatString(FloatingDecimal.java:2054)", "com.example.depot.Money.parse(Money.java:33)"]),
        ],
    ),
    (
        "c.e.depot.MailWorker", "giving up on message 7f21-a",
        [
            ("org.springframework.mail.MailSendException: Failed messages: com.sun.mail.smtp.SMTPSendFailedException: 552 5.3.4 Message size exceeds fixed limit", ["org.springframework.mail.javamail.JavaMailSenderImpl.doSend(JavaMailSenderImpl.java:492)", "com.example.depot.MailWorker.send(MailWorker.java:76)"]),
            ("com.sun.mail.smtp.SMTPSendFailedException: 552 5.3.4 Message size exceeds fixed limit", ["com.sun.mail.smtp.SMTPTransport.issueSendCommand(SMTPTransport.java:2403)", "com.example.depot.MailTransport.deliver(MailTransport.java:119)"]),
        ],
    ),
    (
        "c.e.depot.Scheduler", "nightly report failed",
        [
            ("java.lang.IllegalStateException: report 2026-03-13 has no rows", ["com.example.depot.ReportJob.render(ReportJob.java:204)", "com.example.depot.Scheduler.tick(Scheduler.java:63)"]),
            ("java.io.FileNotFoundException: /var/lib/depot/reports/2026-03-13.parquet (No such file or directory)", ["java.base/java.io.FileInputStream.open0(Native Method)", "com.example.depot.ReportStore.open(ReportStore.java:41)"]),
        ],
    ),
)  # fmt: skip
FRAMES_BELOW = (
    "org.springframework.web.servlet.FrameworkServlet.service(FrameworkServlet.java:885)",
    "jakarta.servlet.http.HttpServlet.service(HttpServlet.java:658)",
    "org.apache.catalina.core.ApplicationFilterChain.internalDoFilter(ApplicationFilterChain.java:195)",
    "org.apache.catalina.core.StandardWrapperValve.invoke(StandardWrapperValve.java:167)",
    "org.apache.catalina.valves.ErrorReportValve.invoke(ErrorReportValve.java:93)",
    "org.apache.coyote.http11.Http11Processor.service(Http11Processor.java:389)",
    "org.apache.tomcat.util.net.NioEndpoint$SocketProcessor.doRun(NioEndpoint.java:1741)",
    "java.base/java.util.concurrent.ThreadPoolExecutor.runWorker(ThreadPoolExecutor.java:1144)",
    "java.base/java.lang.Thread.run(Thread.java:1583)",
)
JAVA_MESSAGES = (
    "c.e.depot.OrderController  : POST /orders 201 in {n} ms",
    "c.e.depot.StockRepository  : {n} items reserved",
    "c.e.depot.Scheduler        : tick {n}, 0 jobs due, no errors",
    "o.h.engine.internal.Stats  : {n} statements, 0 exceptions",
)


def java(folder):
    """The log of a Java service: four stack traces with causes among ordinary lines."""
    random = Random(12)
    task = Task("java", "a Java service log, 4 stack traces with causes", "")
    task.add_exit(0)
    lines = []
    for number in range(800):
        time = (LOG_START + timedelta(seconds=number)).isoformat(timespec="milliseconds")
        lines.append(f"{time}Z  INFO 1 --- [depot] [nio-8080-exec-{random.randint(1, 9)}] " + JAVA_MESSAGES[number % 4].format(n=random.randint(1, 90)))
        if number % 200 != 117:
            continue
        logger, message, exceptions = TRACES[number // 200]
        lines.append(f"{time}Z ERROR 1 --- [depot] [nio-8080-exec-3] {logger:26} : {message}")
        lines.append("")
        for depth, (exception, frames) in enumerate(exceptions):
            lines.append(("Caused by: " if depth else "") + exception)
            lines += [f"\tat {frame}" for frame in frames]
            lines += [f"\t... {7 + depth} common frames omitted"] if depth else [f"\tat {frame}" for frame in FRAMES_BELOW]
        lines.append("")
        task.add_text(f"{logger}: exception", exceptions[0][0])
        task.add_text(f"{logger}: cause", exceptions[-1][0].split(": ", 1)[1])
        place = exceptions[-1][1][-1]
        task.add_text(f"{logger}: place of the cause", place[place.index("(") + 1 : -1])
    task.command = add_program(folder, "depotctl", "\n".join(lines) + "\n", 0) + " logs --since today"
    task.shell_follow_ups = [f"{task.command} | grep -A 3 -E ' ERROR |^Caused by'"]
    return task


DEV_SERVER = """\
#!/usr/bin/env python3
import sys
import time

print()
print("> storefront@2.3.0 dev")
print("> vite --port 24172")
print()
print("Port 24172 is in use, trying another one...", flush=True)
time.sleep(1.2)
sys.stdout.write("\\n  VITE v5.4.10  ready in 1187 ms\\n\\n  ➜  Local:   http://localhost:24173/\\n  ➜  Network: use --host to expose\\n  ➜  press h + enter to show help\\n")
sys.stdout.flush()
time.sleep(60)
"""


def dev_server(folder):
    """A development server that takes the next port, since its own is in use."""
    task = Task("server", "a dev server, started with until=ready", add_script(folder, "npm", DEV_SERVER) + " run dev", until="ready")
    task.add("running", r"^running\b")
    task.add_text("port in use", "Port 24172 is in use")
    task.add("ready", r"VITE v5\.4\.10 +ready in 1187 ms")
    task.add_text("address", "http://localhost:24173/")
    return task
