"""Seeds per second against bare sqlite3 that writes the same rows: one by one, and in groups of 50.

    python bench/seeding.py [--seeds 500] [--sessions 1000 100000] [--json]

Both sides are fully durable (WAL, synchronous=FULL, foreign keys on). Ratios are what counts: the disk
and the machine are the same for both. The bars: 0.4 one by one, 0.3 in groups, and 100,000 stored sessions
cost at most 1.2 times what 1,000 cost.
"""

import argparse
import asyncio
import json
import sqlite3
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from sqlalchemy import create_engine

from delivery.model import Address, DeliveryId
from delivery.ports import Settled
from seeding.model import ChatRules
from seeding.seeder import Seeder
from state import schema
from state.database import Database
from state.types import to_micros

AT = datetime(2026, 12, 1, 8, 0, tzinfo=UTC)
NOW = to_micros(AT)
GROUP = 50
TEXT = "3 builds failed overnight: api, web and docs.\n" * 10


class Rules:
    """Every chat has the same rule."""

    def __init__(self) -> None:
        self._rules = ChatRules(is_delivered_to=True)

    def for_chat(self, address: Address) -> ChatRules:
        return self._rules


def prepare(path: Path) -> None:
    engine = create_engine(f"sqlite:///{path}")
    schema.metadata.create_all(engine)
    engine.dispose()


def bare(path: Path) -> sqlite3.Connection:
    conn = sqlite3.connect(path, isolation_level=None)
    for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON"):
        conn.execute(f"PRAGMA {pragma}")
    return conn


# --- what is there before --------------------------------------------------------------------------------

SESSION = (
    "INSERT INTO sessions (id, account, workspace, chat, chat_kind, root, display_name, origin, expiry_finalized,"
    " job, created_at, updated_at) VALUES (?,'slack','T1',?,'channel',?,?,?,0,'nightly',?,?)"
)
KEY = "INSERT INTO session_keys (key, session_id, bound_at) VALUES (?,?,?)"
TURN = (
    "INSERT INTO turns (session_id, role, text, at, origin, job, delivery_id, unconfirmed)"
    " VALUES (?,'user',?,?,'cron','nightly',?,0)"
)
DELIVERY = (
    "INSERT INTO deliveries (id, kind, job, target, seq, surface, continues, state, account, workspace, chat,"
    " chat_kind, address_key, flat_seeded, thread_seeded, created_at, updated_at)"
    " VALUES (?,'brief','nightly','slack:C',0,'flat',1,'sent','slack','T1',?,'channel',?,0,0,?,?)"
)
PART = (
    "INSERT INTO parts (delivery_id, n, kind, state, payload, text, marker, attempts, asked)"
    " VALUES (?,1,'text','sent','{}',?,?,1,0)"
)
RECEIPT = (
    "INSERT INTO receipts (delivery_id, n, account, workspace, chat, chat_kind, message, at, raw)"
    " VALUES (?,1,'slack','T1',?,'channel',?,?,'{}')"
)

SEED = "INSERT INTO seeds (delivery_id, surface, session_id, state, attempts, updated_at) VALUES (?,?,?,'landed',1,?)"


def store_sessions(conn: sqlite3.Connection, count: int) -> None:
    """Store that many conversations of old briefs, ten chats' worth of flat ones among them."""
    conn.execute("BEGIN")
    for n in range(count):
        session, chat, message = f"{n:016x}", f"C{n % 10}", f"{n}.000100"
        key = f"flat:slack:T1:{chat}" if n < 10 else f"thread:slack:T1:{chat}:{message}"
        conn.execute(SESSION, (session, chat, None if n < 10 else message, f"{chat} / nightly", "{}", NOW, NOW))
        conn.execute(KEY, (key, session, NOW))
        conn.execute(TURN, (session, TEXT, NOW, None))
    conn.execute("COMMIT")


def store_deliveries(conn: sqlite3.Connection, prefix: str, count: int) -> list[DeliveryId]:
    """Store briefs that have arrived and are owed their seeds."""
    conn.execute("BEGIN")
    ids = []
    for n in range(count):
        name, chat = f"{prefix}{n}", f"C{n % 10}"
        conn.execute(DELIVERY, (name, chat, f"slack|{chat}||", NOW, NOW))
        conn.execute(PART, (name, TEXT, name))
        conn.execute(RECEIPT, (name, chat, f"{prefix}{n}.000200", NOW))
        ids.append(DeliveryId(name))
    conn.execute("COMMIT")
    return ids


# --- the two sides ---------------------------------------------------------------------------------------


def write_bare(conn: sqlite3.Connection, n: int, prefix: str) -> None:
    """Write the rows of one seed, knowing everything beforehand: the least that can be done."""
    name, chat = f"{prefix}{n}", f"C{n % 10}"
    flat, own, message = f"{n % 10:016x}", f"f{prefix[0]}{n:014x}", f"{name}.000200"
    origin = json.dumps({"account": "slack", "workspace": "T1", "chat": chat, "topic": None, "root": message})
    text = f"[Cron delivery: nightly]\n{TEXT}"
    conn.execute(SESSION, (own, chat, message, f"{chat} / nightly", origin, NOW, NOW))
    conn.execute(KEY, (f"thread:slack:T1:{chat}:{message}", own, NOW))
    conn.execute(TURN, (flat, text, NOW, name))
    conn.execute(TURN, (own, text, NOW, name))
    for surface, session in (("flat", flat), ("thread", own)):
        conn.execute(SEED, (name, surface, session, NOW))
    conn.execute("UPDATE sessions SET updated_at = ? WHERE id = ?", (NOW, flat))
    conn.execute(
        "UPDATE deliveries SET flat_session = ?, thread_session = ?, flat_seeded = 1, thread_seeded = 1 WHERE id = ?",
        (flat, own, name),
    )


def run_bare(path: Path, count: int, group: int) -> float:
    conn = bare(path)
    prefix = f"b{group}-"
    store_deliveries(conn, prefix, count)
    conn.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    began = time.perf_counter()
    for start in range(0, count, group):
        conn.execute("BEGIN IMMEDIATE")
        for n in range(start, min(start + group, count)):
            write_bare(conn, n, prefix)
        conn.execute("COMMIT")
    took = time.perf_counter() - began
    conn.close()
    return count / took


async def run_ours(path: Path, count: int, group: int) -> float:
    conn = bare(path)
    ids = store_deliveries(conn, f"o{group}-", count)
    conn.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    conn.close()
    seeder = Seeder(Rules())
    db = Database.open(path.resolve(), prepare=prepare)
    try:
        began = time.perf_counter()
        for start in range(0, count, group):
            await asyncio.gather(
                *(
                    db.write(lambda conn, one=one: seeder.settled(conn, Settled(delivery_id=one, at=AT)))
                    for one in ids[start : start + group]
                )
            )
        took = time.perf_counter() - began
        landed = await db.read(
            lambda conn: conn.exec_driver_sql(
                "SELECT count(*) FROM seeds WHERE state = 'landed' AND delivery_id LIKE ?", (f"o{group}-%",)
            ).scalar_one()
        )
    finally:
        db.close()
    if landed != 2 * count:
        raise SystemExit(f"{landed} seeds landed, {2 * count} were owed")
    return count / took


def measure(sessions: int, seeds: int, rounds: int) -> dict[str, float]:
    """Return the best of some rounds, the two sides taking turns."""
    best: dict[str, float] = {}
    for _ in range(rounds):
        for group in (1, GROUP):
            for side in ("bare", "ours"):
                with tempfile.TemporaryDirectory() as folder:
                    path = Path(folder) / "state.db"
                    prepare(path)
                    conn = bare(path)
                    store_sessions(conn, sessions)
                    conn.close()
                    rate = run_bare(path, seeds, group) if side == "bare" else asyncio.run(run_ours(path, seeds, group))
                best[f"{side}_{group}"] = max(rate, best.get(f"{side}_{group}", 0.0))
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--sessions", type=int, nargs="+", default=[1000, 100_000])
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    found = {count: measure(count, args.seeds, args.rounds) for count in args.sessions}
    if args.json:
        sys.stdout.write(json.dumps(found) + "\n")
        return
    for count, rates in found.items():
        for group in (1, GROUP):
            ours, theirs = rates[f"ours_{group}"], rates[f"bare_{group}"]
            bar = 0.4 if group == 1 else 0.3
            print(
                f"{count:>7} sessions, groups of {group:>2}: {ours:>7.0f} seeds/s, bare {theirs:>7.0f},"
                f" ratio {ours / theirs:.2f} (bar {bar})"
            )
    small, large = found[min(found)], found[max(found)]
    for group in (1, GROUP):
        costs = small[f"ours_{group}"] / large[f"ours_{group}"]
        print(f"groups of {group:>2}: the larger store costs {costs:.2f} x (bar 1.2)")


if __name__ == "__main__":
    main()
