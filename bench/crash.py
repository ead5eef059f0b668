"""Kill the daemon at random instants, again and again, and then count what is missing.

    python bench/crash.py [--kills 200] [--seed N] [--json]

A daemon with jobs that are due every second is started as a process and killed (SIGKILL) a random moment later, some
of the time while it is still starting. At the end one daemon settles what is left, and the database is read with
plain SQL. It prints

- lost: briefs that were composed and are not on the local channel, or runs and deliveries that never ended,
- doubled: briefs that stand there more than once, or occurrences that were claimed twice,
- missing rows: instants that the schedules named, between the first and the last, that no row covers (or two do),
- missing seeds: delivered briefs that a session lacks in which an answer can land.

All four must be 0; the exit code says whether they are.
"""

import argparse
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
COMMAND = (sys.executable, "-c", "from cron.cli.main import main; main()")
SECOND = 1_000_000  # instants are stored in microseconds
LONGEST = 3.0  # seconds that a daemon lives at most
PERIODS = {"text": 1, "thread": 2, "say": 1, "again": 3, "slow": 2}
JOBS = """
defaults: {deliver: local}
jobs:
  text:   {schedule: every 1s, text: "{{job}} {{due}}"}
  thread: {schedule: every 2s, text: "{{job}} {{due}}", surface: thread}
  say:    {schedule: every 1s, command: 'echo "$HERMES_CRON_JOB $HERMES_CRON_DUE"', shell: true}
  again:  {schedule: every 3s, command: 'echo "$HERMES_CRON_JOB $HERMES_CRON_DUE"', shell: true, repeatable: true}
  slow:   {schedule: every 2s, command: 'sleep 0.7; echo "$HERMES_CRON_JOB $HERMES_CRON_DUE"', shell: true,
           overlap: queue}
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=None, help="repeats the same random waits")
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args()
    seed = chosen.seed if chosen.seed is not None else random.randrange(1_000_000)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "jobs.yaml").write_text(JOBS, encoding="utf-8")
        began = time.monotonic()
        early = kill_often(folder, chosen.kills, random.Random(seed))
        settle(folder)
        found = count(folder / "home" / "state.db")
        found |= {
            "kills": chosen.kills,
            "before_ready": early,
            "seed": seed,
            "seconds": round(time.monotonic() - began),
        }
    if chosen.json:
        print(json.dumps(found))
    else:
        print(f"{found['kills']} kills ({early} of them before it was ready) in {found['seconds']} s, seed {seed}")
        print(f"{found['instants']:,} instants in {found['rows']:,} rows: {found['outcomes']}")
        print(f"{found['briefs']:,} briefs, {found['seeds']:,} seeds")
        print(
            f"{found['lost']} lost, {found['doubled']} doubled, {found['missing_rows']} missing rows, "
            f"{found['missing_seeds']} missing seeds"
        )
    sys.exit(1 if any(found[key] for key in ("lost", "doubled", "missing_rows", "missing_seeds")) else 0)


# --- killing ------------------------------------------------------------------------------------------


def start(folder: Path) -> subprocess.Popen[bytes]:
    environ = os.environ | {"HERMES_CRON_HOME": str(folder / "home"), "PYTHONPATH": str(ROOT), "TZ": "UTC"}
    with (folder / "daemon.log").open("ab") as log:
        return subprocess.Popen([*COMMAND, "run", "--port", "0"], cwd=folder, env=environ, stderr=log, stdout=log)


def kill_often(folder: Path, kills: int, chance: random.Random) -> int:
    """Return how many daemons were killed before they were ready."""
    early = 0
    for number in range(kills):
        ready = log_of(folder).count("action=ready")
        process = start(folder)
        if chance.random() < 0.85:  # else it is killed at any moment of its start
            wait_until(partial(is_ready_or_gone, folder, process, ready), folder)
            time.sleep(chance.uniform(0, LONGEST))
        else:
            time.sleep(chance.uniform(0.2, LONGEST))
        assert process.poll() is None, log_of(folder)[-4000:]
        process.kill()
        process.wait()
        early += log_of(folder).count("action=ready") == ready
        if sys.stderr.isatty():
            print(f"\r{number + 1} kills", end="", file=sys.stderr)
    return early


def is_ready_or_gone(folder: Path, process: subprocess.Popen[bytes], ready: int) -> bool:
    return log_of(folder).count("action=ready") > ready or process.poll() is not None


def settle(folder: Path) -> None:
    """Let a last daemon end what is open: its jobs are paused, so that nothing new begins."""
    process = start(folder)
    database = folder / "home" / "state.db"
    (folder / "jobs.yaml").write_text(
        JOBS.replace("schedule: every", "enabled: false, schedule: every"), encoding="utf-8"
    )

    def is_settled() -> bool:
        with sqlite3.connect(f"file:{database}?mode=ro", uri=True, timeout=30) as conn:
            (open_runs,) = conn.execute("SELECT count(*) FROM runs WHERE state != 'closed'").fetchone()
            (unsent,) = conn.execute("SELECT count(*) FROM deliveries WHERE state IN ('pending', 'sending')").fetchone()
            (owed,) = conn.execute("SELECT count(*) FROM seeds WHERE state = 'owed'").fetchone()
            (live,) = conn.execute("SELECT count(*) FROM jobs WHERE removed_at IS NULL").fetchone()
        conn.close()
        return not (open_runs or unsent or owed or live)

    wait_until(is_settled, folder)
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 0, log_of(folder)[-4000:]


def wait_until(look: Any, folder: Path) -> None:
    deadline = time.monotonic() + 60
    while not look():
        assert time.monotonic() < deadline, "waited in vain\n" + log_of(folder)[-4000:]
        time.sleep(0.05)


def log_of(folder: Path) -> str:
    path = folder / "daemon.log"
    return path.read_text(errors="replace") if path.exists() else ""


# --- counting -----------------------------------------------------------------------------------------


def count(database: Path) -> dict[str, Any]:
    conn = sqlite3.connect(f"file:{database}?mode=ro", uri=True)
    try:
        posted = Counter(
            text for (text,) in conn.execute("SELECT text FROM local_messages WHERE job IS NOT NULL") if text[:1] != "*"
        )
        composed = [
            brief for (brief,) in conn.execute("SELECT brief FROM runs WHERE brief IS NOT NULL AND brief != ''")
        ]
        unended = conn.execute(
            "SELECT (SELECT count(*) FROM runs WHERE state != 'closed')"
            " + (SELECT count(*) FROM occurrences WHERE outcome IS NULL)"
            " + (SELECT count(*) FROM deliveries WHERE kind = 'brief' AND state != 'sent')"
        ).fetchone()[0]
        instants, missing = coverage(conn)
        outcomes = dict(conn.execute("SELECT outcome, sum(count) FROM occurrences GROUP BY outcome ORDER BY 2 DESC"))
        return {
            "lost": sum(1 for brief in composed if posted[brief] == 0) + unended,
            "doubled": sum(times - 1 for times in posted.values()) + len(composed) - len(set(composed)),
            "missing_rows": missing,
            "missing_seeds": unseeded(conn),
            "instants": instants,
            "rows": conn.execute("SELECT count(*) FROM occurrences").fetchone()[0],
            "outcomes": outcomes,
            "briefs": len(composed),
            "seeds": conn.execute("SELECT count(*) FROM turns WHERE delivery_id IS NOT NULL").fetchone()[0],
        }
    finally:
        conn.close()


def coverage(conn: sqlite3.Connection) -> tuple[int, int]:
    """Return how many instants the jobs named, and how many of those lie in no row, or in more than one."""
    named = wrong = 0
    for job, anchor, cursor in conn.execute("SELECT id, anchor, cursor FROM jobs").fetchall():
        period = PERIODS[job] * SECOND
        spans = conn.execute(
            "SELECT due, coalesce(until, due) FROM occurrences WHERE job_id = ? AND kind = 'scheduled'", (job,)
        ).fetchall()
        covered: Counter[int] = Counter()
        for first, last in spans:
            covered.update(range(first, last + 1, period))
        expected = range(anchor + period, cursor + 1, period)
        named += len(expected)
        wrong += sum(1 for instant in expected if covered[instant] != 1)
        wrong += sum(1 for instant in covered if instant not in expected)
    return named, wrong


def unseeded(conn: sqlite3.Connection) -> int:
    """Return how many sessions lack a delivered brief: each is owed to the flat one and to the thread's."""
    missing = 0
    rows = conn.execute(
        "SELECT id, flat_session, thread_session, flat_seeded, thread_seeded FROM deliveries"
        " WHERE kind = 'brief' AND state = 'sent'"
    ).fetchall()
    for delivery, flat, thread, flat_seeded, thread_seeded in rows:
        held = {
            session for (session,) in conn.execute("SELECT session_id FROM turns WHERE delivery_id = ?", (delivery,))
        }
        for session, is_seeded in ((flat, flat_seeded), (thread, thread_seeded)):
            missing += not (is_seeded and session in held)
    return missing


if __name__ == "__main__":
    main()
