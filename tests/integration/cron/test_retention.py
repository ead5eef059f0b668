"""Old rows go; whatever is unsettled, or held by a conversation, stays."""

import contextlib
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import Connection, func, insert, select

from cron import jobbook, retention
from cron.outcomes import OccurrenceKind, Outcome, RunState
from cron.retention import Keep, Retention
from state import schema
from state.database import Database
from state.migrate import bring_up_to_date

NOW = datetime(2026, 12, 1, 8, 0, tzinfo=UTC)
LONG_AGO = NOW - timedelta(days=200)
HOUR = timedelta(hours=1)


@pytest.fixture
def db(tmp_path: Path) -> Iterator[Database]:
    with contextlib.closing(Database.open((tmp_path / "state.db").resolve(), prepare=bring_up_to_date)) as made:
        made.write_sync(_job)
        yield made


def _job(conn: Connection) -> None:
    conn.execute(insert(schema.incarnations).values(id="inc", pid=1, started_at=LONG_AGO))
    values = {"id": "job", "name": "job", "fingerprint": "", "definition": {}, "anchor": LONG_AGO, "cursor": NOW}
    conn.execute(insert(schema.jobs).values(**values, revision=0, failures=0, seen_at=NOW))


async def _no_sleep(seconds: float) -> None:
    return None


def pruner(db: Database, **keep: object) -> Retention:
    return Retention(db=db, now=lambda: NOW, sleep=_no_sleep, keep=Keep(**{"least": 1} | keep))  # type: ignore[arg-type]


def occurrence(conn: Connection, name: str, due: datetime, *, state: RunState = RunState.CLOSED) -> None:
    outcome = Outcome.RAN if state is RunState.CLOSED else None
    row = insert(schema.occurrences).values(
        job_id="job", kind=OccurrenceKind.SCHEDULED, due=due, n=0, count=1, outcome=outcome, at=due
    )
    made = conn.execute(row).inserted_primary_key
    assert made is not None
    values = {"id": name, "occurrence_id": made[0], "job_id": "job", "state": state, "incarnation": "inc"}
    conn.execute(insert(schema.runs).values(**values, definition={}, attempt=1, brief="words"))


def delivery(
    conn: Connection,
    name: str,
    at: datetime,
    *,
    run: str | None,
    state: str = "sent",
    inbound: int | None = None,
    owed: bool = False,
) -> None:
    values = {"id": name, "kind": "brief", "run_id": run, "inbound_id": inbound, "target": "x", "surface": "flat"}
    values |= {"continues": True, "state": state, "account": "a", "workspace": "w", "chat": "c", "chat_kind": "dm"}
    seq = conn.execute(select(func.count()).select_from(schema.deliveries)).scalar_one() + 1
    values |= {"address_key": name, "created_at": at, "updated_at": at, "seq": seq}
    conn.execute(insert(schema.deliveries).values(**values, flat_seeded=False if owed else None))
    part = {"delivery_id": name, "n": 1, "kind": "text", "state": state, "payload": {}, "text": "words"}
    conn.execute(insert(schema.parts).values(**part, marker=name, attempts=1, asked=0))
    proof = {"delivery_id": name, "n": 1, "account": "a", "workspace": "w", "chat": "c", "chat_kind": "dm"}
    conn.execute(insert(schema.receipts).values(**proof, message=name, at=at, raw={}))


def turn(conn: Connection, delivery_id: str | None, inbound: int | None = None) -> None:
    if conn.execute(select(func.count()).select_from(schema.sessions)).scalar_one() == 0:
        text = dict.fromkeys(("account", "workspace", "chat", "chat_kind", "display_name"), "x")
        row = insert(schema.sessions).values(id="s", **text, origin={}, created_at=NOW, updated_at=NOW)
        conn.execute(row.values(expiry_finalized=False))
    values = {"session_id": "s", "role": "user", "text": "words", "at": NOW, "origin": "cron", "unconfirmed": False}
    conn.execute(insert(schema.turns).values(**values, delivery_id=delivery_id, inbound_id=inbound))


def heard(conn: Connection, number: int, state: str, at: datetime) -> None:
    text = {"account": "a", "workspace": "w", "chat": "c", "message": str(number), "fingerprint": ""}
    row = insert(schema.inbound).values(id=number, **text, payload={}, mentioned=False, state=state, attempts=0)
    conn.execute(row.values(at=at, received_at=at, updated_at=at))


async def _ids(db: Database, table: str) -> list[object]:
    column = next(iter(schema.metadata.tables[table].primary_key))
    return await db.read(lambda conn: list(conn.execute(select(column).order_by(column)).scalars()))


async def test_runs_go_by_age_and_leave_a_floor(db: Database) -> None:
    def fill(conn: Connection) -> None:
        for number in range(5):
            occurrence(conn, f"old{number}", LONG_AGO + number * HOUR)
        for number in range(3):
            occurrence(conn, f"new{number}", NOW - number * HOUR)

    await db.write(fill)
    gone = await pruner(db).prune()
    floor = await db.read(lambda conn: conn.execute(select(schema.jobs.c.floor)).scalar_one())
    assert gone["occurrences"] == 5
    assert await _ids(db, "runs") == ["new0", "new1", "new2"]
    assert floor == LONG_AGO + 4 * HOUR
    assert (await pruner(db).prune())["occurrences"] == 0


async def test_a_clock_that_is_set_back_takes_no_cursor_behind_what_was_pruned(db: Database) -> None:
    def fill(conn: Connection) -> None:
        for number in range(5):
            occurrence(conn, f"old{number}", LONG_AGO + number * HOUR)
        occurrence(conn, "newest", NOW)

    await db.write(fill)
    await pruner(db).prune()

    def set_back(conn: Connection) -> None:
        (row,) = jobbook.all_jobs(conn)
        jobbook.set_back(conn, row, LONG_AGO)

    await db.write(set_back)
    (row,) = await db.read(jobbook.all_jobs)
    assert row.cursor == LONG_AGO + 4 * HOUR


async def test_runs_go_by_count_and_the_newest_of_each_job_stay_however_old(db: Database) -> None:
    def fill(conn: Connection) -> None:
        for number in range(30):
            occurrence(conn, f"run{number:02}", LONG_AGO + number * HOUR)

    await db.write(fill)
    assert (await pruner(db, age=timedelta(days=3650), most=12).prune())["occurrences"] == 18
    assert (await pruner(db, least=5).prune())["occurrences"] == 7
    assert await _ids(db, "runs") == [f"run{number:02}" for number in range(25, 30)]


async def test_what_is_unsettled_is_never_pruned(db: Database) -> None:
    def fill(conn: Connection) -> None:
        occurrence(conn, "composed", LONG_AGO, state=RunState.COMPOSED)
        for place, (name, state, owed) in enumerate(
            [("doubt", "in_doubt", False), ("held", "held", False), ("owed", "sent", True), ("done", "sent", False)]
        ):
            occurrence(conn, name, LONG_AGO + (place + 1) * HOUR)
            delivery(conn, f"d-{name}", LONG_AGO, run=name, state=state, owed=owed)
        delivery(conn, "notice", LONG_AGO, run=None, state="pending")
        heard(conn, 1, "stored", LONG_AGO)
        heard(conn, 2, "answering", LONG_AGO)
        heard(conn, 3, "answered", LONG_AGO)
        delivery(conn, "answer", LONG_AGO, run=None, state="in_doubt", inbound=3)
        occurrence(conn, "newest", NOW)

    await db.write(fill)
    await pruner(db).prune()
    assert await _ids(db, "runs") == ["composed", "doubt", "held", "newest", "owed"]
    assert await _ids(db, "inbound") == [1, 2, 3]
    assert await _ids(db, "deliveries") == ["answer", "d-doubt", "d-held", "d-owed", "notice"]


async def test_receipts_and_text_live_as_long_as_their_conversation(db: Database) -> None:
    def fill(conn: Connection) -> None:
        for place, name in enumerate(("told", "untold")):
            occurrence(conn, name, LONG_AGO + place * HOUR)
            delivery(conn, f"d-{name}", LONG_AGO, run=name)
        turn(conn, "d-told")
        heard(conn, 7, "answered", LONG_AGO)
        turn(conn, None, inbound=7)
        occurrence(conn, "newest", NOW)

    await db.write(fill)
    await pruner(db).prune()
    assert await _ids(db, "runs") == ["newest"]
    kept = [await _ids(db, table) for table in ("deliveries", "receipts", "parts")]
    assert kept == [["d-told"], ["d-told"], ["d-told"]]
    assert (await _ids(db, "inbound"), len(await _ids(db, "turns"))) == ([], 2)
    await db.write(lambda conn: conn.execute(schema.sessions.delete()) and None)
    await pruner(db).prune()
    assert await _ids(db, "receipts") == []


async def test_it_goes_in_steps_between_which_others_write_and_gives_space_back(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "FREE_PAGES", 10)

    def fill(conn: Connection) -> None:
        for number in range(1050):
            occurrence(conn, f"run{number:04}", LONG_AGO + number * HOUR / 4)
            delivery(conn, f"d{number:04}", LONG_AGO, run=f"run{number:04}")

    await db.write(fill)
    pages = await db.read(lambda conn: conn.exec_driver_sql("PRAGMA page_count").scalar_one())
    steps: list[float] = []

    async def note(seconds: float) -> None:
        steps.append(seconds)
        await db.write(lambda conn: turn(conn, None))

    pruning = Retention(db=db, now=lambda: NOW, sleep=note, keep=Keep(least=1))
    gone = await pruning.prune()
    left = await db.read(lambda conn: conn.exec_driver_sql("PRAGMA page_count").scalar_one())
    assert (gone["occurrences"], gone["deliveries"]) == (1049, 1049)
    assert len(steps) >= 10
    assert left < pages / 2
    assert await db.read(lambda conn: conn.exec_driver_sql("PRAGMA foreign_key_check").all()) == []


async def test_no_step_looks_through_whole_tables(db: Database) -> None:
    """A dropped row is looked for in each table that points to it: there must be an index."""

    def plans(conn: Connection) -> list[str]:
        found = []
        for child, column in (
            ("runs", "occurrence_id"),
            ("deliveries", "run_id"),
            ("deliveries", "inbound_id"),
            ("parts", "delivery_id"),
            ("receipts", "delivery_id"),
            ("seeds", "delivery_id"),
            ("turns", "delivery_id"),
            ("turns", "inbound_id"),
        ):
            plan = conn.exec_driver_sql(f"EXPLAIN QUERY PLAN SELECT 1 FROM {child} WHERE {column} = ?", ("x",)).all()
            found += [f"{child}.{column}: {row[3]}" for row in plan if row[3].startswith("SCAN")]
        return found

    assert await db.read(plans) == []
