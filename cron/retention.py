"""What is old goes, in small steps that stall nobody: occurrences with their runs, deliveries, what people wrote.

Never what is unsettled. A delivery lives, with its receipts and its text, as long as a conversation holds it;
conversations themselves go only by `forget`. Of each job the newest rows stay, however old they are.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from sqlalchemy import Connection, Select, and_, bindparam, delete, exists, func, or_, select, update

from cron.outcomes import OccurrenceKind, RunState
from delivery.states import OPEN
from seeding.books import OWED
from seeding.inbox import InboundState
from state.clock import Now, Sleep
from state.database import Database
from state.errors import StateError
from state.schema import deliveries, inbound, jobs, occurrences, runs, seeds, turns

log = logging.getLogger(__name__)

STEP = 200  # rows in one write (4.5 ms)
PAUSE = 0.1  # seconds between two steps, so that others come first
FIRST_AFTER = 60.0  # seconds after the start
EVERY = 3600.0
FREE_PAGES = 1000  # that stay in the file for what comes next


Rows = Sequence[tuple[object, int]]
"""What may go: the key of each row and its place, by which the next step goes on."""

Look = Callable[[Connection, int], Rows]


@dataclass(frozen=True, slots=True, kw_only=True)
class Keep:
    """How long, and how many occurrences of each job at most; `least` of each stay in any case."""

    age: timedelta = timedelta(days=90)
    most: int = 10_000
    least: int = 20


class Retention:
    """Prunes now and then. What cannot be pruned now is tried again the next time."""

    def __init__(self, *, db: Database, now: Now, sleep: Sleep, keep: Keep | None = None) -> None:
        self._db = db
        self._now = now
        self._sleep = sleep
        self._keep = keep or Keep()

    async def run(self) -> None:
        """Prune until cancelled."""
        await self._sleep(FIRST_AFTER)
        while True:
            try:
                await self.prune()
            except StateError as error:
                log.warning("Old rows could not be pruned.", extra={"action": "prune_failed", "reason": str(error)})
            await self._sleep(EVERY)

    async def prune(self) -> dict[str, int]:
        """Do all that is due now; return how many rows went, by table."""
        before = self._now() - self._keep.age
        gone = {
            "occurrences": await self._occurrences(before),
            "deliveries": await self._each(partial(_old_deliveries, before=before), _drop_deliveries),
            "inbound": await self._each(partial(_old_inbound, before=before), _drop_inbound),
        }
        if any(gone.values()):
            log.info("Old rows were pruned.", extra={"action": "pruned", **gone})
        await self._give_back()
        return gone

    async def _occurrences(self, before: datetime) -> int:
        gone = 0
        for job_id in await self._db.read(lambda conn: list(conn.execute(select(jobs.c.id)).scalars())):
            look = partial(_old_occurrences, job_id=job_id, before=before, keep=self._keep)
            gone += await self._each(look, partial(_drop_occurrences, job_id=job_id))
        return gone

    async def _each(self, look: Look, drop: Callable[[Connection, Sequence[object]], int]) -> int:
        """Read what is to go, and let it go, step by step; rows that are settled no more since are left."""
        gone, after = 0, 0
        while rows := await self._db.read(partial(_looking, look, after)):
            gone += await self._db.write(partial(_dropping, drop, [key for key, _ in rows]))
            after = rows[-1][1]
            if len(rows) < STEP:
                break
            await self._sleep(PAUSE)
        return gone

    async def _give_back(self) -> None:
        free = await self._db.give_back_space() if await self._db.read(_free_pages) > FREE_PAGES else 0
        while free > FREE_PAGES:
            await self._sleep(PAUSE)
            left = await self._db.give_back_space()
            if left >= free:
                break
            free = left


def _looking(look: Look, after: int, conn: Connection) -> Rows:
    return look(conn, after)


def _dropping(drop: Callable[[Connection, Sequence[object]], int], rows: Sequence[object], conn: Connection) -> int:
    return drop(conn, rows)


def _rows(conn: Connection, statement: Select[Any], params: dict[str, object]) -> Rows:
    return [(row[0], int(row[1])) for row in conn.execute(statement, params)]


def _free_pages(conn: Connection) -> int:
    return int(conn.exec_driver_sql("PRAGMA freelist_count").scalar_one())


# --- occurrences and their runs -----------------------------------------------------------------------

_OPEN_STATES = sorted(str(state) for state in OPEN)
_owed = exists().where(seeds.c.delivery_id == deliveries.c.id, seeds.c.state == OWED)
_is_open = or_(
    deliveries.c.state.in_(_OPEN_STATES), deliveries.c.flat_seeded.is_(False), deliveries.c.thread_seeded.is_(False)
)
_open_run = exists().where(
    runs.c.occurrence_id == occurrences.c.id,
    or_(
        runs.c.state != RunState.CLOSED,
        exists().where(deliveries.c.run_id == runs.c.id, or_(_is_open, _owed)).correlate(runs),
    ),
)
_settled = and_(occurrences.c.outcome.is_not(None), ~_open_run)
_NTH = (
    select(occurrences.c.due)
    .where(occurrences.c.job_id == bindparam("job"))
    .order_by(occurrences.c.due.desc())
    .limit(1)
    .offset(bindparam("place"))
)
_OLD = (
    select(occurrences.c.id, occurrences.c.id)
    .where(
        occurrences.c.job_id == bindparam("job"),
        occurrences.c.due < bindparam("before"),
        occurrences.c.id > bindparam("after"),
        _settled,
    )
    .order_by(occurrences.c.id)
    .limit(STEP)
)
_LAST = select(func.max(func.coalesce(occurrences.c.until, occurrences.c.due))).where(
    occurrences.c.id.in_(bindparam("ids", expanding=True)), occurrences.c.kind == OccurrenceKind.SCHEDULED, _settled
)
_DROP = delete(occurrences).where(occurrences.c.id.in_(bindparam("ids", expanding=True)), _settled)
_FLOOR = (
    update(jobs)
    .where(jobs.c.id == bindparam("job"), or_(jobs.c.floor.is_(None), jobs.c.floor < bindparam("to")))
    .values(floor=bindparam("to"))
)


def _old_occurrences(conn: Connection, after: int, *, job_id: str, before: datetime, keep: Keep) -> Rows:
    least = conn.execute(_NTH, {"job": job_id, "place": keep.least - 1}).scalar()
    if least is None:
        return ()
    most = conn.execute(_NTH, {"job": job_id, "place": keep.most - 1}).scalar()
    cut = min(least, before if most is None else max(before, most))
    return _rows(conn, _OLD, {"job": job_id, "before": cut, "after": after})


def _drop_occurrences(conn: Connection, ids: Sequence[object], *, job_id: str) -> int:
    """Drop them, and remember up to where: what has no row any more must not be claimed anew."""
    last = conn.execute(_LAST, {"ids": ids}).scalar()
    if last is not None:
        conn.execute(_FLOOR, {"job": job_id, "to": last})
    return conn.execute(_DROP, {"ids": ids}).rowcount


# --- deliveries that no conversation holds ------------------------------------------------------------

_held = exists().where(turns.c.delivery_id == deliveries.c.id)
_forgotten = and_(deliveries.c.run_id.is_(None), ~or_(_is_open, _owed, _held))
_OLD_DELIVERIES = (
    select(deliveries.c.id, deliveries.c.seq)
    .where(deliveries.c.seq > bindparam("after"), deliveries.c.updated_at < bindparam("before"), _forgotten)
    .order_by(deliveries.c.seq)
    .limit(STEP)
)
_DROP_DELIVERIES = delete(deliveries).where(deliveries.c.id.in_(bindparam("ids", expanding=True)), _forgotten)


def _old_deliveries(conn: Connection, after: int, *, before: datetime) -> Rows:
    return _rows(conn, _OLD_DELIVERIES, {"before": before, "after": after})


def _drop_deliveries(conn: Connection, ids: Sequence[object]) -> int:
    return conn.execute(_DROP_DELIVERIES, {"ids": ids}).rowcount


# --- what people wrote --------------------------------------------------------------------------------

_FINAL = [str(state) for state in (InboundState.IGNORED, InboundState.ANSWERED, InboundState.GAVE_UP)]
_final = and_(
    inbound.c.state.in_(_FINAL), ~exists().where(deliveries.c.inbound_id == inbound.c.id, or_(_is_open, _owed))
)
_OLD_INBOUND = (
    select(inbound.c.id, inbound.c.id)
    .where(inbound.c.id > bindparam("after"), inbound.c.received_at < bindparam("before"), _final)
    .order_by(inbound.c.id)
    .limit(STEP)
)
_DROP_INBOUND = delete(inbound).where(inbound.c.id.in_(bindparam("ids", expanding=True)), _final)


def _old_inbound(conn: Connection, after: int, *, before: datetime) -> Rows:
    return _rows(conn, _OLD_INBOUND, {"before": before, "after": after})


def _drop_inbound(conn: Connection, ids: Sequence[object]) -> int:
    """Their words stay in their conversation; what goes is the record that they were heard."""
    return conn.execute(_DROP_INBOUND, {"ids": ids}).rowcount
