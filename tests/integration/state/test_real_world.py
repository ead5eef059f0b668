"""What went wrong in other programs' stores, and must not here."""

import signal
import subprocess
import sys
import textwrap
from pathlib import Path

from statebed import ROOT, integrity, on_disk, open_database

ENV = {"PYTHONPATH": f"{ROOT}:{ROOT / 'tests'}"}


def start(code: str, *arguments: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code), *map(str, arguments)],
        env=ENV,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


THIRTEEN_JOBS = """
    import sys, threading
    from pathlib import Path
    from statebed import add, open_database
    db = open_database(Path(sys.argv[1]))
    def job(n):
        for i in range(200):
            db.write_sync(add(f"{sys.argv[2]}-{n}-{i}"))
            print(f"{sys.argv[2]}-{n}-{i}", flush=True)
    threads = [threading.Thread(target=job, args=(n,)) for n in range(13)]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
"""


def test_thirteen_jobs_at_once_and_a_kill_lose_nothing_that_was_confirmed(path: Path) -> None:
    for round_ in range(5):
        process = start(THIRTEEN_JOBS, path, round_)
        assert process.stdout is not None
        confirmed = [process.stdout.readline().strip() for _ in range(100 + 150 * round_)]
        process.send_signal(signal.SIGKILL)
        confirmed += [line for line in process.communicate()[0].split("\n")[:-1] if line]
        db = open_database(path)
        mode = db._raw.execute("PRAGMA journal_mode").fetchone()[0]
        db.close()
        assert set(confirmed) <= set(on_disk(path))
        assert (integrity(path), mode) == ("ok", "wal")


TWO_HUNDRED = """
    import sys
    from pathlib import Path
    from statebed import add, open_database
    db = open_database(Path(sys.argv[1]))
    print("open", flush=True)
    sys.stdin.readline()
    for n in range(200):
        db.write_sync(add(f"{sys.argv[2]}-{n}"))
    db.close()
"""


def test_what_the_command_line_adds_survives_what_the_daemon_saves(path: Path) -> None:
    both = [start(TWO_HUNDRED, path, name) for name in ("daemon", "cli")]
    for process in both:
        assert process.stdout is not None
        process.stdout.readline()
    for process in both:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    assert [process.communicate()[1] for process in both] == ["", ""]
    assert len(on_disk(path)) == 400


WRITES_200 = """
    import sys
    from pathlib import Path
    from statebed import add, open_database
    db = open_database(Path(sys.argv[1]))
    print("open", flush=True)
    sys.stdin.readline()
    for n in range(200):
        db.write_sync(add(f"{sys.argv[2]}-{n}"))
    db.close()
"""


def test_seven_programs_that_write_while_one_holds_the_lock_for_2_s_all_get_through(path: Path) -> None:
    writers = 7
    open_database(path).close()
    processes = [start(WRITES_200, path, n) for n in range(writers)]
    for process in processes:
        assert process.stdout is not None
        process.stdout.readline()
    holder = start(
        "import sqlite3, sys, time\nc = sqlite3.connect(sys.argv[1], isolation_level=None)\n"
        "c.execute('BEGIN IMMEDIATE')\nprint('held', flush=True)\ntime.sleep(2)\nc.execute('COMMIT')\n",
        path,
    )
    assert holder.stdout is not None
    holder.stdout.readline()
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    assert [process.communicate()[1] for process in processes] == [""] * writers
    holder.communicate()
    assert len(on_disk(path)) == writers * 200
