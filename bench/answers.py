"""Answer overhead: from the moment a message comes in until its agent is called.

    python bench/answers.py [--turns 100000] [--questions 200] [--rounds 2] [--json]

The parts are the real ones (intake, router, responder, outbox, dispatcher, the local platform); only the agent is
trivial, and its answers are sent and stored. An empty database and one with many stored turns take turns, with the
same questions: half of them flat, half in the thread of a brief. `long chat` asks in channels of 300 turns, of
which each agent is given all. The bars: p99 under 20 ms, and no worse than 2 times the empty database.
"""

import argparse
import asyncio
import json
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from delivery import outbox
from delivery.dispatcher import Dispatcher
from delivery.model import Address, ChatKind, DeliveryId, DeliveryKind, Inbound, Surface
from delivery.outbox import NewDelivery
from delivery.platforms.local import LocalPlatform
from delivery.settling import confirm_part
from seeding import keys
from seeding.inbox import Inbox
from seeding.model import ChatRules, Listen, Question
from seeding.outgoing import Replies
from seeding.place import Placer
from seeding.responder import Responder
from seeding.router import Router
from seeding.seeder import Seeder
from state.clock import system_monotonic, system_now, system_sleep
from state.database import Database
from state.registry import Registry
from state.types import to_micros

BRIEFS = 100  # of each stored channel; each is told twice, answered in its thread and in the channel
TURNS = 6  # that one such brief makes
TEXT = "3 builds failed overnight: api, web and docs.\n" * 10
RULES = ChatRules(listen=Listen.ALL, is_delivered_to=True)


class Rules:
    """Every channel has the same rules."""

    def for_chat(self, address: Address) -> ChatRules:
        return RULES


class Talk:
    """Nobody gives commands here."""

    async def run(self, words: str, inbound: Inbound) -> str:
        return words


@dataclass
class Bed:
    """The parts over one database, and when each message came in and reached its agent."""

    db: Database
    local: LocalPlatform
    dispatcher: Dispatcher
    came_in: dict[str, float] = field(default_factory=dict)
    asked: dict[str, float] = field(default_factory=dict)

    async def answer(self, question: Question) -> str:
        self.asked[str(question.address.message)] = time.perf_counter()
        return "It timed out."

    async def ask(self, channel: str, thread: str | None) -> float:
        """Say something, wait until it is answered; return the milliseconds until the agent was called."""
        said = (await self.local.say(channel, "why did the second one fail?", "kim", thread))["id"]
        while said not in self.asked or await self.db.read(_is_busy):
            await asyncio.sleep(0.002)
        return (self.asked[said] - self.came_in[said]) * 1000


def _is_busy(conn: object) -> bool:
    sql = "SELECT EXISTS (SELECT 1 FROM inbound WHERE state IN ('stored', 'routed', 'answering'))"
    return bool(conn.exec_driver_sql(sql).scalar_one())  # type: ignore[attr-defined]


@asynccontextmanager
async def running(path: Path) -> AsyncIterator[Bed]:
    """Run the parts on a database, as the wiring puts them together."""
    lease = await Registry().acquire_async(path)
    async with lease:
        db, rules = lease.db, Rules()
        local = LocalPlatform(db, system_now, system_sleep)
        platforms, seeder = {"local": local}, Seeder(rules)
        dispatcher = Dispatcher(
            db=db,
            platforms=platforms,
            settlement=seeder,
            now=system_now,
            sleep=system_sleep,
            monotonic=system_monotonic,
            on_settled=lambda summary: None,
            on_refused=lambda account, reason: None,
        )
        bed = Bed(db, local, dispatcher)
        replies = Replies(platforms, woken=dispatcher.wake)
        responder = Responder(
            db,
            answerer=bed,
            outbox=replies,
            settlement=seeder,
            platforms=platforms,
            rules=rules,
            now=system_now,
            sleep=system_sleep,
            look_every=0.02,
        )
        router = Router(
            db,
            placer=Placer(seeder, partial(confirm_part, settlement=seeder)),
            rules=rules,
            commands=Talk(),
            outbox=replies,
            routed=responder.wake,
            now=system_now,
            sleep=system_sleep,
            monotonic=system_monotonic,
        )
        inbox = Inbox(db, rules, now=system_now, heard=router.wake)
        loops = [local.listen(_timed(bed, inbox.hear)), router.run(), responder.run(), dispatcher.run()]
        tasks = [asyncio.create_task(loop) for loop in loops]
        try:
            yield bed
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


def _timed(bed: Bed, hear: Callable[[Inbound], Awaitable[None]]) -> Callable[[Inbound], Awaitable[None]]:
    async def heard(inbound: Inbound) -> None:
        bed.came_in[str(inbound.address.message)] = time.perf_counter()
        await hear(inbound)

    return heard


def place(channel: str, message: int | None = None) -> Address:
    named = None if message is None else str(message)
    return Address(account="local", workspace="local", chat=channel, chat_kind=ChatKind.CHANNEL, message=named)


async def post(bed: Bed, channel: str) -> str:
    """Post a brief for real and return its message's id when it is seeded."""
    new = NewDelivery(
        id=DeliveryId(f"brief-{channel}"),
        kind=DeliveryKind.BRIEF,
        run_id=None,
        inbound_id=None,
        session_id=None,
        job="nightly",
        target=f"local:{channel}",
        account="local",
        surface=Surface.FLAT,
        continues=True,
        address=place(channel),
        parts=bed.local.render(TEXT),
    )
    at = system_now()
    await bed.db.write(lambda conn: outbox.enqueue(conn, [new], at=at))
    bed.dispatcher.wake()
    while True:
        found = await bed.db.read(
            lambda conn: conn.exec_driver_sql(
                "SELECT r.message FROM receipts r JOIN deliveries d ON d.id = r.delivery_id"
                " WHERE d.id = ? AND d.thread_seeded",
                (str(new.id),),
            ).scalar()
        )
        if found is not None:
            return str(found)
        await asyncio.sleep(0.005)


# --- what is there before --------------------------------------------------------------------------------


def fill(path: Path, turns: int) -> list[tuple[str, str]]:
    """Store channels with their briefs, questions and answers; return (channel, a brief's message) of each."""
    with Registry().acquire(path):
        pass  # made by our own migrations
    channels = turns // (BRIEFS * TURNS)
    conn = sqlite3.connect(path, isolation_level=None)
    conn.execute("PRAGMA synchronous=OFF")
    conn.execute("BEGIN")
    places = [_store_channel(conn, f"room-{n}", n) for n in range(channels)]
    conn.execute("COMMIT")
    conn.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    conn.execute("PRAGMA optimize")
    conn.close()
    return places


def _store_channel(conn: sqlite3.Connection, channel: str, number: int) -> tuple[str, str]:
    now = to_micros(system_now())
    flat = f"flat-{number:012}"
    _session(conn, flat, channel, None, now)
    _key(conn, keys.flat_key_of(place(channel), RULES, None), flat, now)
    brief = ""
    for n in range(BRIEFS):
        own = f"own-{number:08}-{n:04}"
        brief = _message(conn, channel, None, "hermes-cron", "nightly", now)
        _session(conn, own, channel, brief, now)
        _key(conn, keys.message_key(place(channel, int(brief))), own, now)
        delivery = f"old-{number}-{n}"
        _delivery(conn, delivery, "brief", channel, None, None, flat, own, brief, now)
        for session in (flat, own):
            _turn(conn, session, "user", f"[Cron delivery: nightly]\n{TEXT}", "cron", delivery, None, now)
        for surface, session in (("flat", flat), ("thread", own)):
            seed = "INSERT INTO seeds (delivery_id, surface, session_id, state, attempts, updated_at)"
            conn.execute(f"{seed} VALUES (?, ?, ?, 'landed', 1, ?)", (delivery, surface, session, now))
        for session, root in ((flat, None), (own, brief)):
            _conversation(conn, f"{delivery}-{session[:4]}", channel, session, root, now)
    return channel, brief


def _conversation(conn: sqlite3.Connection, name: str, channel: str, session: str, root: str | None, now: int) -> None:
    asked = _message(conn, channel, root, "kim", None, now)
    said = _message(conn, channel, root, "hermes-cron", None, now)
    inbound = conn.execute(
        "INSERT INTO inbound (account, workspace, chat, message, payload, fingerprint, mentioned, state, session_id,"
        " attempts, at, received_at, updated_at)"
        " VALUES ('local', 'local', ?, ?, '{}', ?, 0, 'answered', ?, 1, ?, ?, ?)",
        (channel, asked, name, session, now, now, now),
    ).lastrowid
    _delivery(conn, f"{name}-answer", "answer", channel, inbound, session, None, None, said, now)
    _turn(conn, session, "user", "why did the second one fail?", "inbound", None, inbound, now)
    _turn(conn, session, "assistant", "It timed out.", "answer", f"{name}-answer", None, now)
    for message in (asked, said):
        _key(conn, keys.message_key(place(channel, int(message))), session, now)


def _message(conn: sqlite3.Connection, channel: str, root: str | None, author: str, job: str | None, now: int) -> str:
    heard = None if author == "hermes-cron" else 1
    sql = "INSERT INTO local_messages (channel, thread, author, text, at, job, heard) VALUES (?, ?, ?, ?, ?, ?, ?)"
    text = TEXT if job else "It timed out."
    return str(conn.execute(sql, (channel, root, author, text, now, job, heard)).lastrowid)


def _session(conn: sqlite3.Connection, name: str, channel: str, root: str | None, now: int) -> None:
    sql = (
        "INSERT INTO sessions (id, account, workspace, chat, chat_kind, root, display_name, origin, expiry_finalized,"
        " job, created_at, updated_at) VALUES (?, 'local', 'local', ?, 'channel', ?, ?, '{}', 0, ?, ?, ?)"
    )
    conn.execute(sql, (name, channel, root, channel, "nightly" if root else None, now, now))


def _key(conn: sqlite3.Connection, key: str, session: str, now: int) -> None:
    conn.execute("INSERT INTO session_keys (key, session_id, bound_at) VALUES (?, ?, ?)", (key, session, now))


def _turn(
    conn: sqlite3.Connection,
    session: str,
    role: str,
    text: str,
    origin: str,
    delivery: str | None,
    inbound: int | None,
    now: int,
) -> None:
    sql = (
        "INSERT INTO turns (session_id, role, text, at, origin, job, delivery_id, inbound_id, unconfirmed)"
        " VALUES (?, ?, ?, ?, ?, 'nightly', ?, ?, 0)"
    )
    conn.execute(sql, (session, role, text, now, origin, delivery, inbound))


def _delivery(
    conn: sqlite3.Connection,
    name: str,
    kind: str,
    channel: str,
    inbound: int | None,
    session: str | None,
    flat: str | None,
    own: str | None,
    message: str,
    now: int,
) -> None:
    conn.execute(
        "INSERT INTO deliveries (id, kind, inbound_id, session_id, job, target, seq, surface, continues, state,"
        " account, workspace, chat, chat_kind, address_key, flat_session, thread_session, flat_seeded, thread_seeded,"
        " created_at, updated_at) VALUES (?, ?, ?, ?, 'nightly', 'local', 0, 'flat', 1, 'sent', 'local', 'local', ?,"
        " 'channel', ?, ?, ?, ?, ?, ?, ?)",
        (name, kind, inbound, session, channel, channel, flat, own, flat and 1, own and 1, now, now),
    )
    conn.execute(
        "INSERT INTO parts (delivery_id, n, kind, state, payload, text, marker, attempts, asked)"
        " VALUES (?, 1, 'text', 'confirmed', '{}', ?, ?, 1, 0)",
        (name, TEXT, name),
    )
    conn.execute(
        "INSERT INTO receipts (delivery_id, n, account, workspace, chat, chat_kind, message, at, raw)"
        " VALUES (?, 1, 'local', 'local', ?, 'channel', ?, ?, '{}')",
        (name, channel, message, now),
    )


# --- measuring -------------------------------------------------------------------------------------------


async def measure(path: Path, questions: int, prefix: str, old: list[tuple[str, str]]) -> dict[str, list[float]]:
    """Ask in channels of one brief, and (where there are any) in stored ones; return milliseconds of each."""
    found: dict[str, list[float]] = {"fresh": [], "long": []}
    async with running(path) as bed:
        for n in range(5):
            await bed.ask(f"warm-{prefix}-{n}", None)
        for n in range(questions // 4):
            channel = f"{prefix}-{n}"
            brief = await post(bed, channel)
            found["fresh"] += [await bed.ask(channel, None), await bed.ask(channel, brief)]
        for n in range(questions // 4 if old else 0):
            channel, brief = old[n * 7 % len(old)]
            found["long"] += [await bed.ask(channel, None), await bed.ask(channel, brief)]
    return found


def p99(values: list[float]) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * 0.99))]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--turns", type=int, default=100_000)
    parser.add_argument("--questions", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    took: dict[str, list[float]] = {"empty database": [], "many turns": [], "many turns, long chat": []}
    with tempfile.TemporaryDirectory() as folder:
        empty, full = Path(folder) / "empty" / "state.db", Path(folder) / "full" / "state.db"
        fill(empty, 0)
        began = time.perf_counter()
        old = fill(full, args.turns)
        stored = len(old) * BRIEFS * TURNS
        filled = time.perf_counter() - began
        size = full.stat().st_size / 2**20
        for n in range(args.rounds):
            took["empty database"] += asyncio.run(measure(empty, args.questions, f"r{n}", []))["fresh"]
            found = asyncio.run(measure(full, args.questions, f"r{n}", old))
            took["many turns"] += found["fresh"]
            took["many turns, long chat"] += found["long"]
    rows = {
        name: {"p50_ms": statistics.median(all_), "p99_ms": p99(all_), "n": len(all_)} for name, all_ in took.items()
    }
    if args.json:
        sys.stdout.write(json.dumps({"turns": stored, **rows}) + "\n")
        return
    print(f"{stored:,} turns stored ({size:.0f} MB, made in {filled:.0f} s); from message in to agent called:")
    base = rows["empty database"]
    for name, row in rows.items():
        ratio = f"{row['p50_ms'] / base['p50_ms']:.2f} x, {row['p99_ms'] / base['p99_ms']:.2f} x"
        print(f"{name:<22} n {row['n']:>4}   p50 {row['p50_ms']:6.2f} ms   p99 {row['p99_ms']:6.2f} ms   {ratio}")
    print("bars: p99 < 20 ms; p50 and p99 of many turns < 2 x the empty database")


if __name__ == "__main__":
    main()
