"""Group commit against bare sqlite3 in the same run: writes per second with 1, 10 and 100 waiting writers.

    python bench/state.py [--writes 2000] [--rounds 5] [--json]

Every side is fully durable (WAL, synchronous=FULL, foreign keys on). `bare` is a loop that writes the same row in
a transaction of its own; `bare in groups` writes as many rows per transaction as writers wait. Ratios are
what counts: rounds alternate, so that the disk is the same for both; figures are medians.
Then the time of one read, the size of the -wal under constant readers, what writes take while a reader holds a
snapshot, what a lease costs, how long the event loop was blocked, and the open descriptors after 100 and after 10,000
runs with 500 sessions, 8 busy chats and 300 threads. Bars: 3 descriptors a file, the same after both; 100 microseconds
a lease; 50 ms of blocked loop.
"""

import argparse
import asyncio
import concurrent.futures
import contextlib
import json
import os
import sqlite3
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from sqlalchemy import Column, Connection, Integer, MetaData, Table, Text, insert, select

from cron import jobbook, ledger
from cron.outcomes import OccurrenceKind, Outcome
from delivery.model import Address, ChatKind
from seeding import sessions
from state.database import Database
from state.identity import wal_of
from state.registry import Registry

WRITERS = (1, 10, 100)
AT = datetime(2026, 12, 1, 8, 0, tzinfo=UTC)
TEXT = "3 builds failed overnight: api, web and docs.\n" * 4

rows = Table("bench", MetaData(), Column("id", Integer, primary_key=True), Column("at", Integer), Column("text", Text))
ADD = insert(rows)
FETCH = select(rows.c.id, rows.c.text).order_by(rows.c.id.desc()).limit(200)
CREATE = "CREATE TABLE bench (id INTEGER PRIMARY KEY, at INTEGER, text TEXT)"


def add(connection: Connection) -> None:
    connection.execute(ADD, {"at": 1, "text": TEXT})


def fetch(connection: Connection) -> int:
    return len(connection.execute(FETCH).all())


@contextlib.contextmanager
def database(folder: Path) -> Iterator[Database]:
    path = folder / "ours" / "state.db"
    with Registry().acquire(path):
        pass
    raw = sqlite3.connect(path)
    raw.execute(CREATE)
    raw.close()
    with Registry().acquire(path) as lease:
        yield lease.db


def bare(path: Path) -> sqlite3.Connection:
    raw = sqlite3.connect(path, isolation_level=None)
    for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON"):
        raw.execute(f"PRAGMA {pragma}").fetchall()
    raw.execute(CREATE)
    return raw


def bare_rate(raw: sqlite3.Connection, writes: int, group: int) -> float:
    began = time.perf_counter()
    for _ in range(writes // group):
        raw.execute("BEGIN IMMEDIATE")
        for _ in range(group):
            raw.execute("INSERT INTO bench (at, text) VALUES (?, ?)", (1, TEXT))
        raw.execute("COMMIT")
    return writes / (time.perf_counter() - began)


async def our_rate(db: Database, writes: int, writers: int) -> float:
    async def writer() -> None:
        for _ in range(writes // writers):
            await db.write(add)

    began = time.perf_counter()
    await asyncio.gather(*(writer() for _ in range(writers)))
    return writes / (time.perf_counter() - began)


async def throughput(db: Database, raw: sqlite3.Connection, writes: int, rounds: int) -> list[dict[str, float]]:
    table = []
    for writers in WRITERS:
        found: dict[str, list[float]] = {"ours": [], "bare": [], "bare_in_groups": []}
        for _ in range(rounds):
            found["bare"].append(bare_rate(raw, writes, 1))
            found["ours"].append(await our_rate(db, writes, writers))
            found["bare_in_groups"].append(bare_rate(raw, writes, writers))
        medians = {name: statistics.median(rates) for name, rates in found.items()}
        table.append({"writers": writers, **medians})
    return table


async def wal_under_readers(db: Database) -> dict[str, float]:
    """Write 100 MB under three readers that never pause."""
    stop = threading.Event()

    def read() -> None:
        while not stop.is_set():
            db.read_sync(fetch)

    readers = [threading.Thread(target=read) for _ in range(3)]
    for reader in readers:
        reader.start()
    took, largest = [], 0
    for _ in range(500):
        began = time.perf_counter()
        await db.write(lambda c: c.execute(ADD, {"at": 1, "text": TEXT * 1000}) and None)
        took.append(time.perf_counter() - began)
        largest = max(largest, wal_of(db.path).stat().st_size)
    stop.set()
    for reader in readers:
        await asyncio.to_thread(reader.join)
    return {"largest_wal_mb": largest / 2**20, "p99_ms": sorted(took)[-6] * 1000}


async def read_ms(db: Database) -> float:
    took = []
    for _ in range(500):
        began = time.perf_counter()
        await db.read(fetch)
        took.append(time.perf_counter() - began)
    return statistics.median(took) * 1000


async def beside_a_snapshot(db: Database) -> dict[str, float]:
    """Time writes of one waiting writer while one of the two readers sits in its transaction."""
    began, ended = threading.Event(), threading.Event()

    def sit(connection: Connection) -> None:
        connection.execute(FETCH).all()
        began.set()
        ended.wait(60)

    sitting = asyncio.create_task(db.read(sit))
    await asyncio.to_thread(began.wait, 60)
    took = []
    for _ in range(1000):
        started = time.perf_counter()
        await db.write(add)
        took.append(time.perf_counter() - started)
    ended.set()
    await sitting
    return {"median_ms": statistics.median(took) * 1000, "p99_ms": sorted(took)[-11] * 1000}


def lease_microseconds(registry: Registry, path: Path) -> float:
    """Return what acquiring and giving back a lease of an open database costs, by the median of 20 rounds."""
    rounds = []
    with registry.acquire(path):
        for _ in range(20):
            began = time.perf_counter()
            for _ in range(500):
                registry.acquire(path).close()
            rounds.append((time.perf_counter() - began) / 500)
    return statistics.median(rounds) * 1e6


async def blocked_loop_ms(db: Database) -> float:
    """Return the longest time that the event loop could not tick, under 100 writers and 10 readers."""
    longest, is_over = 0.0, False

    async def tick() -> None:
        nonlocal longest
        while not is_over:
            began = time.perf_counter()
            await asyncio.sleep(0.001)
            longest = max(longest, time.perf_counter() - began - 0.001)

    async def work(fn: Callable[[Connection], object], call: Callable[..., Awaitable[object]]) -> None:
        for _ in range(50):
            await call(fn)

    ticking = asyncio.create_task(tick())
    await asyncio.gather(*(work(add, db.write) for _ in range(100)), *(work(fetch, db.read) for _ in range(10)))
    is_over = True
    await ticking
    return longest * 1000


def open_files(folder: Path, runs: int) -> dict[str, dict[str, int]]:
    """Live through runs, each with a lease of its own; count descriptors after 100 and at the end."""
    registry, path = Registry(), (folder / "home" / "state.db").resolve()
    counts: dict[str, dict[str, int]] = {}
    with registry.acquire(path) as own:
        life = Life(registry, own.db)
        life.begin()
        life.live(100)
        counts["after_100_runs"] = descriptors(own.db)
        life.busy_chats()
        life.short_threads()
        life.live(runs - 100)
        counts[f"after_{runs}_runs"] = descriptors(own.db)
    return counts


class Life:
    """Jobs, runs, sessions and chats on one database, from many threads."""

    def __init__(self, registry: Registry, db: Database) -> None:
        self._registry = registry
        self._db = db
        self._count = 0

    def begin(self) -> None:
        self._db.write_sync(lambda c: ledger.begin_incarnation(c, incarnation="bench", pid=1, at=AT))
        job = {"job_id": "job", "name": "job", "fingerprint": "", "definition": {}, "at": AT}
        self._db.write_sync(lambda c: jobbook.add_job(c, **job))
        for first in range(0, 500, 50):
            wanted = [self._session(number) for number in range(first, first + 50)]
            self._db.write_sync(lambda c, wanted=wanted: sessions.create(c, wanted, at=AT))

    def live(self, runs: int) -> None:
        with concurrent.futures.ThreadPoolExecutor(32) as pool:
            list(pool.map(self._run, range(self._count, self._count + runs)))
        self._count += runs

    def _run(self, number: int) -> None:
        due = AT + timedelta(seconds=number)
        with self._registry.acquire(self._db.path) as lease:
            run = lease.db.write_sync(
                lambda c: ledger.claim(
                    c,
                    job_id="job",
                    kind=OccurrenceKind.SCHEDULED,
                    due=due,
                    incarnation="bench",
                    definition={},
                    at=due,
                )
            )
            lease.db.write_sync(lambda c: ledger.close(c, run, Outcome.SILENT, error=None, at=due))

    def busy_chats(self) -> None:
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda _: self._db.read_sync(sessions.list_sessions), range(80)))

    def short_threads(self) -> None:
        def look() -> None:
            with self._registry.acquire(self._db.path) as lease:
                lease.db.read_sync(lambda c: sessions.get(c, "s1"))

        threads = [threading.Thread(target=look) for _ in range(300)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _session(self, number: int) -> sessions.NewSession:
        address = Address(account="a", workspace="w", chat=str(number % 8), chat_kind=ChatKind.CHANNEL)
        return sessions.NewSession(id=sessions.SessionId(f"s{number}"), address=address, chat_name="general")


def descriptors(db: Database) -> dict[str, int]:
    """Count this process's open descriptors of the database's files (Linux)."""
    counts: dict[str, int] = {}
    for fd in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            name = os.readlink(f"/proc/self/fd/{fd}")
            if name.startswith(str(db.path)):
                counts[Path(name).name] = counts.get(Path(name).name, 0) + 1
    return counts


def measure(folder: Path, writes: int, rounds: int, runs: int) -> dict[str, object]:
    with database(folder) as db, contextlib.closing(bare(folder / "bare.db")) as raw:
        found: dict[str, object] = {"throughput": asyncio.run(throughput(db, raw, writes, rounds))}
        found["read_200_rows_ms"] = asyncio.run(read_ms(db))
        found["wal"] = asyncio.run(wal_under_readers(db))
        found["beside_a_snapshot"] = asyncio.run(beside_a_snapshot(db))
        found["blocked_loop_ms"] = asyncio.run(blocked_loop_ms(db))
    found["lease_us"] = lease_microseconds(Registry(), folder / "leases" / "state.db")
    found["open_files"] = open_files(folder, runs)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--writes", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = measure(Path(folder), args.writes, args.rounds, args.runs)
    if args.json:
        print(json.dumps(found))
        return
    print("writers   ours/s   bare/s   ratio   bare in groups/s   ratio")
    for row in found["throughput"]:
        one, groups = row["ours"] / row["bare"], row["ours"] / row["bare_in_groups"]
        print(
            f"{row['writers']:>7} {row['ours']:>8.0f} {row['bare']:>8.0f} {one:>7.2f}"
            f" {row['bare_in_groups']:>18.0f} {groups:>7.2f}"
        )
    print(f"read of 200 rows: {found['read_200_rows_ms']:.2f} ms")
    print(f"100 MB under three readers: -wal at most {found['wal']['largest_wal_mb']:.1f} MB", end="")
    print(f", p99 {found['wal']['p99_ms']:.1f} ms a write of 200 kB")
    beside = found["beside_a_snapshot"]
    print(
        f"a write while a reader holds a snapshot: median {beside['median_ms']:.2f} ms, p99 {beside['p99_ms']:.2f} ms"
    )
    print(f"a lease taken and given back: {found['lease_us']:.1f} microseconds (bar: 100)")
    print(f"event loop blocked at most {found['blocked_loop_ms']:.1f} ms under 110 callers (bar: 50)")
    for when, counts in found["open_files"].items():
        print(f"open descriptors {when.replace('_', ' ')}: {counts} (bar: 3 each)")


if __name__ == "__main__":
    main()
