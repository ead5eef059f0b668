"""The dispatcher: takes what the outbox holds to the platforms, one queue per chat, chats side by side."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import datetime, timedelta

from sqlalchemy import Connection

from delivery.chats import quiet_until
from delivery.crew import Crew
from delivery.model import Address
from delivery.outbox import recover
from delivery.ports import Platform, Settlement
from delivery.resolving import Resolver, accounts_to_resolve
from delivery.rows import DeliverySummary
from delivery.sender import Sender, first_of, request_timeout
from delivery.steps import Lane, lanes
from delivery.telling import Teller
from delivery.working import Signals
from state.clock import Monotonic, Now, Sleep
from state.database import Database
from state.errors import StateError

IDLE = timedelta(seconds=60)
"""How long the dispatcher trusts that it was told of everything; another process may have written, too."""

OnSettled = Callable[[DeliverySummary], None]


class Dispatcher:
    """Sends what was committed as pending, exactly as stored; see `steps` for the order and `results` for the outcomes.

    Per (account, chat) first in first out, parts in order; chats side by side. Nothing is called without a
    stored intent. One dispatcher at a time may run on a database.
    """

    def __init__(
        self,
        *,
        db: Database,
        platforms: Mapping[str, Platform],
        settlement: Settlement,
        now: Now,
        sleep: Sleep,
        monotonic: Monotonic,
        on_settled: OnSettled,
        on_refused: Callable[[str, str], None] = lambda account, reason: None,
        log: logging.Logger | None = None,
    ) -> None:
        """Take the parts; nothing runs before `run`.

        `on_settled` is told, after the commit, of each change into a state in `states.CLOSED`; `on_refused` (the
        keeper's `doubt`) that a send found its account's login refused, with the reason. Both on the event loop.
        """
        self._db = db
        self._platforms = platforms
        self._now = now
        self._sleep = sleep
        self._wakened = asyncio.Event()
        self._looks = True
        self._trusts_until: datetime | None = None
        self._stopping = asyncio.Event()
        self._ended = asyncio.Event()
        self._ended.set()
        self._failure: StateError | None = None
        self._signals = Signals()
        self._teller = Teller(on_settled, log or logging.getLogger(__name__))
        self._sender = Sender(
            db=db,
            platforms=platforms,
            settlement=settlement,
            now=now,
            sleep=sleep,
            monotonic=monotonic,
            teller=self._teller,
            signals=self._signals,
            stopping=self._stopping,
            fatal=self._fail,
            refused=on_refused,
            wake=self.wake,
        )
        self._resolver = Resolver(
            db=db, platforms=platforms, now=now, teller=self._teller, wake=self.wake, stopping=self._stopping
        )
        self._chats: Crew[Lane] = Crew(self._sender.work, self._wakened.set)
        self._accounts: Crew[str] = Crew(self._resolver.work, self._wakened.set)

    async def run(self) -> None:
        """Recover what the last process left, then send until stopped. Raises StateError when nothing can be stored.

        On cancellation what is being sent is finished first, as after `stop`.
        """
        self._ended.clear()
        try:
            await self._recover()
            while not self._stopping.is_set():
                self._wakened.clear()
                await self._look()
                await self._rest()
        finally:
            self._stopping.set()
            await self._chats.finish()
            await self._accounts.finish()
            self._ended.set()
        if self._failure is not None:
            raise self._failure

    def wake(self) -> None:
        """Say that something was committed: a delivery, an account that is up, a verdict. Only on the event loop."""
        self._looks = True
        self._wakened.set()

    async def stop(self, deadline_s: float = 20.0) -> None:
        """Start nothing new and finish what is being sent; what takes longer is cut off and counts as in doubt."""
        self._stopping.set()
        self._wakened.set()
        await first_of(self._ended.wait(), self._sleep(deadline_s))
        self._sender.cut_off()
        await self._ended.wait()

    @asynccontextmanager
    async def working(self, address: Address) -> AsyncIterator[None]:
        """Show at an address that an answer is being written; nothing is called there while it asked for quiet."""
        platform = self._platforms.get(address.account)
        quiet = await self._db.read(lambda conn: quiet_until(conn, address.account, address.chat, at=self._now()))
        if platform is None or quiet is not None:
            yield
            return
        async with self._signals.show(platform, address):
            yield

    # ---------------------------------------------------------------------------------------------------

    async def _recover(self) -> None:
        longest = max((request_timeout(platform) for platform in self._platforms.values()), default=timedelta())
        at = self._now()
        changed = await self._db.write(lambda conn: recover(conn, at=at, request_timeout=longest))
        self._teller.tell(tuple(changed))

    async def _look(self) -> None:
        """See to every chat that has something waiting; without news, only to those whose time has come."""
        at = self._now()
        if self._looks or self._trusts_until is None or at >= self._trusts_until:
            self._looks = False
            self._trusts_until = at + IDLE
            chats, accounts = await self._db.read(_waiting)
            for lane in chats:
                self._chats.start(lane)
            for account in accounts:
                self._accounts.start(account)
        self._chats.start_due(at)
        self._accounts.start_due(at)

    async def _rest(self) -> None:
        dues = [due for due in (self._chats.next_due(), self._accounts.next_due()) if due is not None]
        at = self._now()
        seconds = max(0.0, (min([*dues, at + IDLE]) - at).total_seconds())
        await first_of(self._wakened.wait(), self._sleep(seconds))

    def _fail(self, error: StateError) -> None:
        """The database cannot be trusted any more: no platform is called again."""
        self._failure = self._failure or error
        self._stopping.set()
        self._wakened.set()


def _waiting(conn: Connection) -> tuple[list[Lane], list[str]]:
    return lanes(conn), accounts_to_resolve(conn)
