"""Group commit against bare sqlite3 in the same run: writes per second with 1, 10 and 100 waiting writers.

    python bench/state.py [--writes 2000] [--rounds 5] [--json]

Every side is fully durable (WAL, synchronous=FULL, foreign keys on). `bare` is a loop that writes the same row in
a transaction of its own; `bare in groups` writes as many rows per transaction as writers wait. Ratios are
what counts: rounds alternate, so that the disk is the same for both; figures are medians.
Then the time of one read, the size of the -wal under constant readers, and the open descriptors.
"""

import argparse
import asyncio
import contextlib
import json
import os
import sqlite3
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from sqlalchemy import Column, Connection, Integer, MetaData, Table, Text, insert, select

from state.database import Database
from state.identity import wal_of
from state.registry import Registry

WRITERS = (1, 10, 100)
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


def descriptors(db: Database) -> dict[str, int]:
    """Count this process's open descriptors of the database's files (Linux)."""
    counts: dict[str, int] = {}
    for fd in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            name = os.readlink(f"/proc/self/fd/{fd}")
            if name.startswith(str(db.path)):
                counts[Path(name).name] = counts.get(Path(name).name, 0) + 1
    return counts


def measure(folder: Path, writes: int, rounds: int) -> dict[str, object]:
    with database(folder) as db, contextlib.closing(bare(folder / "bare.db")) as raw:
        found: dict[str, object] = {"throughput": asyncio.run(throughput(db, raw, writes, rounds))}
        found["read_200_rows_ms"] = asyncio.run(read_ms(db))
        found["wal"] = asyncio.run(wal_under_readers(db))
        found["descriptors"] = descriptors(db)
        return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--writes", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = measure(Path(folder), args.writes, args.rounds)
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
    print(f"open descriptors: {found['descriptors']}")


if __name__ == "__main__":
    main()
