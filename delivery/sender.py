"""What one chat's task does: the next step, the call, the record of it. The only place that calls `send` and `find`."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from datetime import datetime, timedelta
from typing import Any, TypeVar

from sqlalchemy import Connection

from delivery.model import (
    CannotTell,
    FindResult,
    InDoubt,
    NotSent,
    OutgoingPart,
    Receipt,
    Rejected,
    SendResult,
    Sent,
    Throttled,
)
from delivery.ports import Platform, PostsInTransaction, Settlement
from delivery.posting import Posted, post_next, postpone
from delivery.results import Recorder, put_back, record_find, record_result
from delivery.retry import CONNECTS
from delivery.settling import Recorded
from delivery.steps import Ask, Changed, Idle, Lane, Send, Wait, hold_all, next_step
from delivery.telling import Teller
from delivery.working import Signals
from state.clock import Monotonic, Now, Sleep
from state.database import Database
from state.errors import StateClosedError, StateDbReplacedError, StateError, StateUnknown

T = TypeVar("T")
Record = Callable[[Connection, datetime], Recorded]

FATAL = (StateUnknown, StateDbReplacedError, StateClosedError)
"""Nothing more can be stored, so nothing more may be called."""

DEFAULT_TIMEOUT = 30.0


def request_timeout(platform: Platform) -> timedelta:
    """Return how long one of its requests may take: its attribute `request_timeout` in seconds, else 30."""
    return timedelta(seconds=float(getattr(platform, "request_timeout", DEFAULT_TIMEOUT)))


def pace(platform: Platform) -> float:
    """Return the seconds between two calls into one chat: its attribute `pace`, else none."""
    return float(getattr(platform, "pace", 0.0))


class Sender:
    """Works on one chat at a time, as often as the crew asks; remembers when each chat was last called."""

    def __init__(
        self,
        *,
        db: Database,
        platforms: Mapping[str, Platform],
        settlement: Settlement,
        now: Now,
        sleep: Sleep,
        monotonic: Monotonic,
        teller: Teller,
        signals: Signals,
        stopping: asyncio.Event,
        fatal: Callable[[StateError], None],
        refused: Callable[[str, str], None],
        wake: Callable[[], None],
    ) -> None:
        self._db = db
        self._platforms = platforms
        self._settlement = settlement
        self._now = now
        self._sleep = sleep
        self._monotonic = monotonic
        self._teller = teller
        self._signals = signals
        self._stopping = stopping
        self._fatal = fatal
        self._refused = refused
        self._wake = wake
        self._called: dict[Lane, float] = {}
        self._calls: set[asyncio.Task[Any]] = set()
        self._cut = asyncio.Event()

    def cut_off(self) -> None:
        """Cancel the calls that are under way; their parts count as in doubt."""
        self._cut.set()
        for task in tuple(self._calls):
            task.cancel()

    async def work(self, lane: Lane) -> datetime | None:
        """Do what is due in a chat; return when it is due again. Never raises."""
        try:
            return await self._drain(lane)
        except FATAL as error:
            self._fatal(error)
            return None
        except Exception as error:  # around one delivery: the other chats go on
            self._teller.log.error(
                "A chat's queue could not be worked on; it is tried again.",
                extra={
                    "action": "queue_failed",
                    "account": lane.account,
                    "chat": lane.chat,
                    "reason": f"{type(error).__name__}: {error}",
                },
                exc_info=not isinstance(error, StateError),
            )
            return self._now() + CONNECTS.wait(4)

    async def _drain(self, lane: Lane) -> datetime | None:
        platform = self._platforms.get(lane.account)
        while not self._stopping.is_set():
            if platform is None:
                await self._hold(lane)
                return None
            done = await (
                self._post(lane, platform) if isinstance(platform, PostsInTransaction) else self._step(lane, platform)
            )
            if not isinstance(done, _More):
                return done
        return None

    async def _hold(self, lane: Lane) -> None:
        """Hold what is for an account that is there no more; it goes on when the account is back and up."""
        at, reason = self._now(), f"the account {lane.account} is not in jobs.yaml"
        while True:
            step = await self._db.write(lambda conn: hold_all(conn, lane, reason, at=at))
            if isinstance(step, Idle):
                return
            self._teller.tell(step.changed)

    # --- rows of our own ------------------------------------------------------------------------------

    async def _post(self, lane: Lane, platform: PostsInTransaction) -> "datetime | _More | None":
        at = self._now()
        try:
            done = await self._db.write(lambda conn: post_next(conn, lane, platform, self._settlement, at=at))
        except StateError:
            raise
        except Exception as error:  # around one delivery: one that cannot be posted does not block the page
            reason = f"{type(error).__name__}: {error}"
            self._teller.log.exception(
                "A message could not be posted.", extra={"action": "post_failed", "account": lane.account}
            )
            recorded = await self._db.write(lambda conn: postpone(conn, lane, reason, self._settlement, at=at))
            self._teller.recorded(recorded)
            return _MORE
        match done:
            case Posted():
                self._teller.recorded(done.recorded)
                return _MORE
            case Wait():
                return done.until
            case Idle():
                return None

    # --- calls ----------------------------------------------------------------------------------------

    async def _step(self, lane: Lane, platform: Platform) -> "datetime | _More | None":
        await self._keep_pace(lane, platform)
        if self._stopping.is_set():
            return None
        at = self._now()
        step = await self._db.write(lambda conn: next_step(conn, lane, at=at))
        match step:
            case Send():
                await self._send(lane, platform, step)
            case Ask():
                await self._ask(lane, platform, step.part)
            case Changed():
                self._teller.tell(step.changed)
            case Wait():
                return step.until
            case Idle():
                return None
        return _MORE

    async def _keep_pace(self, lane: Lane, platform: Platform) -> None:
        last = self._called.get(lane)
        if last is None:
            return
        rest = pace(platform) - (self._monotonic() - last)
        if rest > 0:
            await first_of(self._sleep(rest), self._stopping.wait())

    async def _send(self, lane: Lane, platform: Platform, step: Send) -> None:
        part, by = step.part, self._recorder(platform)
        if self._stopping.is_set():  # asked to stop while the intent was being stored
            await self._store(part, "not called", None, lambda conn, at: put_back(conn, part, by, at=at))
            return
        result = await self._call(platform.send(part), lane, _in_doubt)
        if isinstance(result, Throttled):
            self._signals.silence(lane.account, None if result.whole_account else lane.chat)
        receipt = result.receipt if isinstance(result, Sent) else None
        self._teller.called(part, result)
        await self._store(
            part, type(result).__name__, receipt, lambda conn, at: record_result(conn, part, result, by, at=at)
        )
        if isinstance(result, NotSent) and result.account_is_down:
            self._refused(lane.account, result.reason)
        if isinstance(result, Rejected) and result.moved_to is not None:
            self._wake()  # what waited here waits in another chat's queue now

    async def _ask(self, lane: Lane, platform: Platform, part: OutgoingPart) -> None:
        by = self._recorder(platform)
        result = await self._call(platform.find(part), lane, _cannot_tell)
        receipt = result if isinstance(result, Receipt) else None
        self._teller.asked(part, result)
        await self._store(
            part, type(result).__name__, receipt, lambda conn, at: record_find(conn, part, result, by, at=at)
        )

    async def _call(self, call: Coroutine[Any, Any, T], lane: Lane, interrupted: Callable[[str], T]) -> T:
        """Make one call in a task of its own: if it is cut off or breaks, that is a result, too."""
        task = asyncio.create_task(call)
        self._calls.add(task)
        try:
            await asyncio.wait((task,))
        finally:
            self._calls.discard(task)
            self._called[lane] = self._monotonic()
        if task.cancelled():
            return interrupted("interrupted while it was under way")
        error = task.exception()
        if error is None:
            return task.result()
        self._teller.log.error(
            "A platform's call broke.",
            extra={"action": "call_broke", "account": lane.account, "chat": lane.chat},
            exc_info=error,
        )
        return interrupted(f"the call broke: {type(error).__name__}")

    async def _store(self, part: OutgoingPart, outcome: str, receipt: Receipt | None, record: Record) -> None:
        """Store what became of a call; as long as that fails it is kept here, logged whole, and tried again."""
        at = self._now()
        attempts = 0
        while True:
            try:
                self._teller.recorded(await self._db.write(lambda conn: record(conn, at)))
                return
            except FATAL as error:
                self._teller.not_stored(part, receipt, outcome, error)
                raise
            except Exception as error:  # noqa: BLE001 - around one delivery: its proof must not be lost
                self._teller.not_stored(part, receipt, outcome, error)
            attempts += 1
            wait = CONNECTS.wait(attempts).total_seconds()
            if await self._is_cut_off(wait):
                raise StateClosedError(self._db.path)

    async def _is_cut_off(self, wait: float) -> bool:
        """Wait, and tell whether the deadline for stopping has passed meanwhile."""
        await first_of(self._sleep(wait), self._cut.wait())
        return self._cut.is_set()

    def _recorder(self, platform: Platform) -> Recorder:
        return Recorder(kind=platform.kind, request_timeout=request_timeout(platform), settlement=self._settlement)


class _More:
    """There may be more to do in this chat."""


_MORE = _More()


def _in_doubt(reason: str) -> SendResult:
    return InDoubt(reason=reason)


def _cannot_tell(reason: str) -> FindResult:
    return CannotTell(reason=reason)


async def first_of(*waits: Awaitable[object]) -> None:
    """Wait for whichever comes first, and end the others."""
    tasks = [asyncio.ensure_future(wait) for wait in waits]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
