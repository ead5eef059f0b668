"""A daemon under steady work: what it holds open, and whether it grows.

    python bench/soak.py [--minutes 5] [--channels 100] [--every 10] [--json]

A daemon of its own process runs one job for each of 100 local channels, every 10 seconds, flat and in threads by turns;
meanwhile people answer, twice a second, flat and in threads. Its descriptors, threads and memory are read from /proc.
Ends with exit code 1 if after the warm-up (a fifth of the time) descriptors or threads grew, memory grew by 10 MB or
more, or more than 3 descriptors of one of the database's files were open. Linux only.
"""

import argparse
import contextlib
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LOOK_EVERY = 5.0
GROWTH_MB = 10.0
OPEN = urllib.request.build_opener(urllib.request.ProxyHandler({})).open


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """What the daemon holds at one instant. `database`: descriptors of each of the database's files."""

    at_s: float
    descriptors: int
    database: dict[str, int]
    threads: int
    memory_mb: float


def config(channels: int, every: int) -> str:
    lines = ["timezone: UTC", "jobs:"]
    for number in range(channels):
        surface = "thread" if number % 4 == 0 else "flat"
        text = f"{number} builds failed overnight: api, web and docs. The disk of db-{number} is 93 % full."
        lines.append(
            f"  job-{number:03}: {{schedule: every {every}s, surface: {surface}, deliver: 'local:#c{number:03}',"
            f" text: '{text}'}}"
        )
    return "\n".join(lines) + "\n"


@contextlib.contextmanager
def running(folder: Path, channels: int, every: int) -> Iterator[tuple[int, int]]:
    """Run a daemon; yields its pid and its port."""
    (folder / "jobs.yaml").write_text(config(channels, every), encoding="utf-8")
    command = [sys.executable, "-c", "from cron.cli.main import main; main()", "--home", str(folder / "home")]
    environ = os.environ | {"PYTHONPATH": str(ROOT)}
    with (folder / "daemon.log").open("wb") as log:
        daemon = subprocess.Popen([*command, "run", "--port", "0"], cwd=folder, env=environ, stderr=log)
        try:
            yield daemon.pid, _port(folder, daemon)
        finally:
            daemon.send_signal(signal.SIGTERM)
            code = daemon.wait(60)
    if code:
        raise SystemExit((folder / "daemon.log").read_text(errors="replace")[-4000:])


def _port(folder: Path, daemon: "subprocess.Popen[bytes]") -> int:
    beacon = folder / "home" / "daemon.json"
    for _ in range(600):
        if daemon.poll() is not None:
            break
        if beacon.exists():
            return int(json.loads(beacon.read_text())["port"])
        time.sleep(0.1)
    raise SystemExit((folder / "daemon.log").read_text(errors="replace")[-4000:])


class People:
    """Answer briefs at random, flat or in their thread."""

    def __init__(self, port: int, channels: int) -> None:
        self._url = f"http://127.0.0.1:{port}/api/local/messages"
        self._channels = channels
        self._random = random.Random(1)
        self.said = 0

    def say(self) -> None:
        channel = f"c{self._random.randrange(self._channels):03}"
        with OPEN(f"{self._url}?{urllib.parse.urlencode({'channel': channel})}", timeout=30) as response:
            briefs = [one for one in json.load(response) if one["job"]]
        if not briefs:
            return
        thread = self._random.choice((None, briefs[-1]["thread"] or briefs[-1]["id"]))
        body = {"channel": channel, "text": "how full is the disk?", "author": "Kim", "thread": thread}
        request = urllib.request.Request(
            self._url, data=json.dumps(body).encode(), headers={"Content-Type": "application/json"}
        )
        with OPEN(request, timeout=30):
            self.said += 1


def sample(pid: int, began: float) -> Sample:
    names: Counter[str] = Counter()
    count = 0
    for fd in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(OSError):
            target = os.readlink(f"/proc/{pid}/fd/{fd}")
            count += 1
            if Path(target).name.startswith("state.db"):
                names[Path(target).name] += 1
    status = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return Sample(
        at_s=time.monotonic() - began,
        descriptors=count,
        database=dict(names),
        threads=int(status["Threads"]),
        memory_mb=int(status["VmRSS"].split()[0]) / 1024,
    )


def soak(folder: Path, minutes: float, channels: int, every: int) -> dict[str, object]:
    with running(folder, channels, every) as (pid, port):
        people, began = People(port, channels), time.monotonic()
        samples: list[Sample] = []
        look_at = began
        while time.monotonic() - began < minutes * 60:
            if time.monotonic() >= look_at:
                samples.append(sample(pid, began))
                look_at += LOOK_EVERY
            people.say()
            time.sleep(0.5)
        samples.append(sample(pid, began))
    return verdict(samples, minutes * 60 / 5) | {"answers": people.said, **stored(folder / "home" / "state.db")}


def stored(path: Path) -> dict[str, int]:
    import sqlite3

    with contextlib.closing(sqlite3.connect(path)) as raw:
        tables = ("runs", "deliveries", "sessions", "turns")
        return {name: raw.execute(f"SELECT count(*) FROM {name}").fetchone()[0] for name in tables}


def verdict(samples: list[Sample], warm_s: float) -> dict[str, object]:
    """Compare the first and the last third of what came after the warm-up."""
    warm = [one for one in samples if one.at_s >= warm_s]
    third = max(1, len(warm) // 3)
    first, last = warm[:third], warm[-third:]
    growth = statistics.median(s.memory_mb for s in last) - statistics.median(s.memory_mb for s in first)
    most = {
        name: max(s.database.get(name, 0) for s in samples) for name in ("state.db", "state.db-wal", "state.db-shm")
    }
    found = {
        "memory_mb": [round(statistics.median(s.memory_mb for s in part), 1) for part in (first, last)],
        "memory_growth_mb": round(growth, 1),
        "descriptors": [max(s.descriptors for s in part) for part in (first, last)],
        "threads": [max(s.threads for s in part) for part in (first, last)],
        "database_descriptors": most,
        "samples": [asdict(one) for one in samples],
    }
    grew = found["descriptors"][0] < found["descriptors"][1] or found["threads"][0] < found["threads"][1]
    found["is_good"] = not grew and growth < GROWTH_MB and max(most.values()) <= 3
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=5)
    parser.add_argument("--channels", type=int, default=100)
    parser.add_argument("--every", type=int, default=10, help="seconds between two runs of each job")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = soak(Path(folder), args.minutes, args.channels, args.every)
    if args.json:
        print(json.dumps(found))
    else:
        print(
            f"{found['runs']} runs, {found['deliveries']} deliveries, {found['sessions']} sessions, "
            f"{found['turns']} turns, {found['answers']} questions"
        )
        print("after the warm-up      first third   last third")
        for name in ("memory_mb", "descriptors", "threads"):
            print(f"{name:<22} {found[name][0]:>11} {found[name][1]:>12}")
        print(f"memory grew by {found['memory_growth_mb']} MB (bar: under {GROWTH_MB:g})")
        print(f"descriptors of the database at most: {found['database_descriptors']} (bar: 3 each)")
    sys.exit(0 if found["is_good"] else 1)


if __name__ == "__main__":
    main()
