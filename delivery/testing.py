"""A platform that answers as it is told, and a clock that stands still: for tests here and elsewhere."""

import asyncio
import heapq
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TypeVar

from sqlalchemy import Connection

from delivery.model import (
    Absent,
    Address,
    ChatKind,
    FindResult,
    Inbound,
    OutgoingPart,
    PartKind,
    Receipt,
    SendResult,
    Sent,
)
from delivery.ports import AccountDown, Chat, Hear, Opening, TargetUnresolved
from delivery.render.parts import RenderedPart
from delivery.targets import Target
from state.database import Database

T = TypeVar("T")
START = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)


class ManualClock:
    """Time that moves only when told to: `now`, `monotonic` and `sleep` are what the wiring would pass."""

    def __init__(self, start: datetime = START) -> None:
        self._at = start
        self._began = start
        self._sleepers: list[tuple[datetime, int, asyncio.Future[None]]] = []
        self._count = 0

    def now(self) -> datetime:
        """Return the present instant."""
        return self._at

    def monotonic(self) -> float:
        """Return the seconds since the start."""
        return (self._at - self._began).total_seconds()

    async def sleep(self, seconds: float) -> None:
        """Wait until the clock was moved on by that much."""
        if seconds <= 0:
            await asyncio.sleep(0)  # noqa: TID251 - gives way, waits for nothing
            return
        self._count += 1
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self._at + timedelta(seconds=seconds), self._count, future))
        await future

    async def advance(self, seconds: float, settle: Callable[[], Awaitable[None]]) -> None:
        """Move on, stopping at every sleeper that is due on the way; `settle` lets the program do its work there."""
        until = self._at + timedelta(seconds=seconds)
        await settle()
        while (due := self._next_due()) is not None and due <= until:
            self._at = max(self._at, due)
            self._wake()
            await settle()
        self._at = until

    def jump(self, seconds: float) -> None:
        """Move on in one leap, as after a machine's sleep: every sleeper that is due wakes late."""
        self._at += timedelta(seconds=seconds)
        self._wake()

    def _next_due(self) -> datetime | None:
        while self._sleepers and self._sleepers[0][2].done():
            heapq.heappop(self._sleepers)
        return self._sleepers[0][0] if self._sleepers else None

    def _wake(self) -> None:
        while (due := self._next_due()) is not None and due <= self._at:
            heapq.heappop(self._sleepers)[2].set_result(None)


class WatchedDatabase(Database):
    """The real database, of which one can wait until nobody is reading or writing.

    Together with a `ManualClock` a test can let the program work until it waits for time to pass.
    """

    _busy = 0

    async def write(self, fn: Callable[[Connection], T]) -> T:
        """Count, and do what the real one does."""
        self._busy += 1
        try:
            return await super().write(fn)
        finally:
            self._busy -= 1

    async def read(self, fn: Callable[[Connection], T]) -> T:
        """Count, and do what the real one does."""
        self._busy += 1
        try:
            return await super().read(fn)
        finally:
            self._busy -= 1

    async def settle(self) -> None:
        """Return once every task waits for something other than the database or the event loop."""
        quiet = 0
        while quiet < QUIET_TURNS:
            if self._busy:
                quiet = 0
                await super().write(_nothing)  # gives the threads their time
            await asyncio.sleep(0)  # noqa: TID251 - gives way, waits for nothing
            quiet += 1


QUIET_TURNS = 30


def _nothing(conn: Connection) -> None:
    """Do nothing, in order."""


SendScript = SendResult | Exception | Callable[[OutgoingPart], Awaitable[SendResult]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Called:
    """One call that the platform received."""

    verb: str  # connect, send, find, resolve, working
    at: datetime
    part: OutgoingPart | None = None
    address: Address | None = None


class ScriptedPlatform:
    """A platform whose answers are given beforehand, in order; without any, everything arrives.

    `calls` is what it was asked. Every message that it takes gets the next id ("1", "2", ...). A script entry
    may be a result, an exception to raise, or a coroutine function that is awaited with the part.
    """

    pace: float
    request_timeout: float

    def __init__(
        self,
        account: str = "slack",
        *,
        kind: str = "slack",
        workspace: str = "T1",
        now: Callable[[], datetime],
        pace: float = 0.0,
        request_timeout: float = 30.0,
        opening_kind: PartKind | None = PartKind.HEADER,
    ) -> None:
        self.account = account
        self.kind = kind
        self.workspace: str | None = None
        self.pace = pace
        self.request_timeout = request_timeout
        self.calls: list[Called] = []
        self.sends: deque[SendScript] = deque()
        self.finds: deque[FindResult] = deque()
        self.refusals: deque[str] = deque()
        self.places: dict[str, Address | TargetUnresolved] = {}
        self.known_chats: list[Chat] = []
        self.is_working = 0
        self._login = workspace
        self._now = now
        self._opening_kind = opening_kind
        self._ids = 0
        self._inbox: asyncio.Queue[Inbound | AccountDown] = asyncio.Queue()

    # --- what tests say -------------------------------------------------------------------------------

    def said(self) -> list[str]:
        """Return the texts of the parts it was asked to send, in order."""
        return [str(one.part.payload["text"]) for one in self.calls if one.verb == "send" and one.part]

    def verbs(self) -> list[str]:
        """Return the calls, by name, in order."""
        return [one.verb for one in self.calls]

    def receipt(self, part: OutgoingPart, message: str | None = None) -> Receipt:
        """Make the receipt that this platform would give for a part."""
        if message is None:
            self._ids += 1
            message = str(self._ids)
        topic = message if part.kind is PartKind.TOPIC else part.address.topic
        return Receipt(address=replace(part.address, message=message, topic=topic), at=self._now())

    def hears(self, inbound: Inbound | AccountDown) -> None:
        """Let a message arrive, or the login be refused while listening."""
        self._inbox.put_nowait(inbound)

    # --- Platform -------------------------------------------------------------------------------------

    async def connect(self) -> str:
        self._called("connect")
        if self.refusals:
            raise AccountDown(self.refusals.popleft())
        self.workspace = self._login
        return self._login

    async def listen(self, hear: Hear) -> None:
        while True:
            heard = await self._inbox.get()
            if isinstance(heard, AccountDown):
                raise heard
            await hear(heard)

    async def catch_up(self, address: Address, since: datetime, hear: Hear) -> None:
        self._called("catch_up", address=address)

    async def chats(self) -> Sequence[Chat]:
        self._called("chats")
        return tuple(self.known_chats)

    async def resolve(self, target: Target) -> Address:
        self._called("resolve")
        found = self.places.get(target.chat)
        if found is None:
            return Address(
                account=self.account,
                workspace=self._login,
                chat=target.chat,
                chat_kind=ChatKind.CHANNEL,
                topic=target.topic,
                root=target.thread,
            )
        if isinstance(found, TargetUnresolved):
            raise found
        return found

    def render(self, markdown: str) -> tuple[RenderedPart, ...]:
        return (RenderedPart(payload={"text": markdown}, text=markdown),) if markdown.strip() else ()

    def opening(self, address: Address, title: str) -> Opening | None:
        if self._opening_kind is None:
            return None
        return Opening(kind=self._opening_kind, payload={"text": title}, text=title)

    async def send(self, part: OutgoingPart) -> SendResult:
        self._called("send", part=part, address=part.address)
        if not self.sends:
            return Sent(receipt=self.receipt(part))
        answer = self.sends.popleft()
        if isinstance(answer, Exception):
            raise answer
        return await answer(part) if callable(answer) else answer

    async def find(self, part: OutgoingPart) -> FindResult:
        self._called("find", part=part, address=part.address)
        return self.finds.popleft() if self.finds else Absent()

    def working(self, address: Address) -> AbstractAsyncContextManager[None]:
        return self._working(address)

    @asynccontextmanager
    async def _working(self, address: Address) -> AsyncIterator[None]:
        self._called("working", address=address)
        self.is_working += 1
        try:
            yield
        finally:
            self.is_working -= 1

    async def retract(self, receipt: Receipt) -> bool:
        self._called("retract", address=receipt.address)
        return True

    async def close(self) -> None:
        """Hold nothing, close nothing."""

    def _called(self, verb: str, part: OutgoingPart | None = None, address: Address | None = None) -> None:
        self.calls.append(Called(verb=verb, at=self._now(), part=part, address=address))


def text_parts(*texts: str) -> tuple[RenderedPart, ...]:
    """Make parts that say these texts."""
    return tuple(RenderedPart(payload=payload_of(text), text=text) for text in texts)


def payload_of(text: str) -> Mapping[str, object]:
    """Make the payload of a part that says this."""
    return {"text": text}
