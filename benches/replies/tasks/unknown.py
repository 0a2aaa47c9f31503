"""Output that no table of formats knows: the lines that are unlike the others have to be found by themselves."""

from datetime import timedelta
from random import Random

from .logs import LOG_START
from .task import Task, add_program


def pods(folder):
    """A list of 400 pods; two of them do not run."""
    random = Random(31)
    lines = [f"{'NAME':44} {'READY':7} {'STATUS':18} {'RESTARTS':14} AGE"]
    for number in range(400):
        name = f"{('api', 'cart', 'mail', 'search', 'worker')[number % 5]}-{random.getrandbits(36):09x}-{random.getrandbits(20):05x}"
        ready, status, restarts = "1/1", "Running", "0"
        if number == 137:
            ready, status, restarts, crashing = "0/1", "CrashLoopBackOff", "41 (2m ago)", name
        if number == 302:
            ready, status, pulling = "0/1", "ImagePullBackOff", name
        lines.append(f"{name:44} {ready:7} {status:18} {restarts:14} {random.randint(1, 90)}d")
    task = Task("pods", "kubectl get pods, 2 of 400 do not run", add_program(folder, "kubectl", "\n".join(lines) + "\n", 0) + " get pods")
    task.add_exit(0)
    task.add_text("crashing pod", crashing, "CrashLoopBackOff", "41 (2m ago)")
    task.add_text("pod without image", pulling, "ImagePullBackOff")
    return task


def processes(folder):
    """A list of 600 processes; one takes nearly all memory."""
    random = Random(32)
    lines = ["USER         PID %CPU %MEM    VSZ   RSS TTY      STAT START   TIME COMMAND"]
    for number in range(600):
        pid, size = 1000 + number * 7, random.randint(4000, 90_000)
        row = (f"{random.uniform(0, 0.9):.1f}", f"{random.uniform(0, 0.3):.1f}", size * 3, size, f"worker --slot {number}")
        if number == 411:
            row = ("98.7", "81.4", 58_310_044, 53_421_808, "python3 /srv/app/reindex.py --all")
        lines.append(f"app      {pid:7} {row[0]:>4} {row[1]:>4} {row[2]:6} {row[3]:5} ?        S    Mar13   0:0{number % 10} {row[4]}")
    task = Task("processes", "ps aux of 600 processes, one takes the memory", add_program(folder, "ps", "\n".join(lines) + "\n", 0) + " aux")
    task.add_exit(0)
    task.add_text("the process", "3877", "81.4", "reindex.py --all")
    return task


def journal(folder):
    """A system journal of 9,000 lines in which the kernel kills a process."""
    random = Random(33)
    usual = (
        "systemd[1]: Started session-{n}.scope - Session {n} of User app.",
        "sshd[{n}]: Accepted publickey for app from 192.0.2.{b} port {n} ssh2",
        "systemd-resolved[611]: Using degraded feature set UDP instead of UDP+EDNS0 for DNS server 192.0.2.{b}.",
        "CRON[{n}]: pam_unix(cron:session): session closed for user root",
        'dockerd[902]: time="2026-03-14T00:00:{b:02}Z" level=info msg="ignoring event" container={h} module=libcontainerd',
    )
    killed = [
        "kernel: java invoked oom-killer: gfp_mask=0x140cca(GFP_HIGHUSER_MOVABLE|__GFP_COMP), order=0, oom_score_adj=0",
        "kernel: Out of memory: Killed process 42117 (java) total-vm:18874368kB, anon-rss:15728640kB, file-rss:0kB, shmem-rss:0kB, UID:1000 pgtables:32104kB oom_score_adj:0",
        "systemd[1]: depot.service: A process of this unit has been killed by the OOM killer.",
        "systemd[1]: depot.service: Failed with result 'oom-kill'.",
    ]
    lines = []
    for number in range(9000):
        time = (LOG_START + timedelta(seconds=number * 3)).strftime("%b %d %H:%M:%S")
        lines.append(f"{time} web-1 " + usual[number % 5].format(n=random.randint(1000, 60_000), b=random.randint(1, 59), h=f"{random.getrandbits(64):016x}"))
        if number == 6120:
            lines += [f"{time} web-1 {line}" for line in killed]
    task = Task("journal", "journalctl, the kernel kills a process", add_program(folder, "journalctl", "\n".join(lines) + "\n", 0) + " -b")
    task.add_exit(0)
    task.add_text("the killed process", "Killed process 42117 (java)")
    task.add_text("its service", "depot.service: Failed with result 'oom-kill'")
    return task


def validation(folder):
    """The check of 20,000 rows by a program of our own; three rows are wrong."""
    wrong = {8123: "price: not a number: '12,5O'", 8124: "price: not a number: 'n/a'", 17_450: "currency: unknown code 'EUD'"}
    lines = [f"row {row}: {wrong.get(row, 'ok')}" for row in range(1, 20_001)]
    lines.append("checked 20000 rows of prices.csv, 3 rejected")
    task = Task("validation", "a check of 20,000 rows, 3 are wrong", add_program(folder, "check-prices", "\n".join(lines) + "\n", 3) + " prices.csv")
    task.add_exit(3)
    for row, message in wrong.items():
        task.add_text(f"row {row}", f"row {row}: {message}")
    task.add_text("result", "checked 20000 rows of prices.csv, 3 rejected")
    return task


def rsync(folder):
    """rsync of 3,000 files; one has vanished, one may not be read."""
    random = Random(35)
    lines = ["sending incremental file list"]
    for number in range(3000):
        lines.append(f"photos/2026/{number % 12 + 1:02}/IMG_{random.getrandbits(32):08x}.jpg")
        if number == 811:
            lines.append('rsync: [sender] send_files failed to open "/srv/photos/2026/05/private.jpg": Permission denied (13)')
        if number == 2204:
            lines.append('file has vanished: "/srv/photos/2026/09/IMG_tmp.jpg"')
    lines += ["", "sent 8,412,330,118 bytes  received 57,113 bytes  41,037,011.86 bytes/sec", "total size is 8,410,116,022  speedup is 1.00"]
    lines.append("rsync error: some files/attrs were not transferred (see previous errors) (code 23) at main.c(1338) [sender=3.2.7]")
    task = Task("rsync", "rsync -av of 3,000 files, two are not sent", add_program(folder, "rsync", "\n".join(lines) + "\n", 23) + " -av /srv/photos backup:")
    task.add_exit(23)
    task.add_text("unreadable file", "/srv/photos/2026/05/private.jpg", "Permission denied (13)")
    task.add_text("vanished file", "file has vanished", "/srv/photos/2026/09/IMG_tmp.jpg")
    task.add_text("result", "some files/attrs were not transferred", "code 23")
    return task


def training(folder):
    """A training run of 60 epochs whose loss is not a number from one epoch on."""
    random = Random(36)
    lines = ["device: cuda:0, 24 GB", "parameters: 84,211,712"]
    for epoch in range(1, 61):
        for step in range(100, 1001, 100):
            loss = "nan" if epoch > 37 else f"{2.9 / epoch + random.uniform(0, 0.1):.4f}"
            lines.append(f"epoch {epoch:2}/60 step {step:4}/1000 loss {loss} lr {0.0003 * (1 - epoch / 61):.6f} {random.randint(300, 340)} samples/s")
        lines.append(f"epoch {epoch:2}/60 validation accuracy {'0.1000' if epoch > 37 else f'{0.5 + epoch / 90:.4f}'}")
        if epoch == 37:
            lines.append("gradient norm 18234.11 exceeds 10.0 at epoch 38 step 14, clipping")
    lines.append("best: epoch 37, accuracy 0.9111; saved checkpoints/best.pt")
    task = Task("training", "a training run of 60 epochs, one odd line", add_program(folder, "train", "\n".join(lines) + "\n", 0) + " --config base.yaml")
    task.add_exit(0)
    task.add_text("the gradient", "gradient norm 18234.11 exceeds 10.0 at epoch 38 step 14")
    task.add_text("the best epoch", "best: epoch 37, accuracy 0.9111; saved checkpoints/best.pt")
    task.add("the end", r"epoch 60/60 validation accuracy 0\.1000")
    return task
