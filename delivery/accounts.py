"""Keeps every account connected and heard: one that is down is tried again with growing waits, the others go on."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from datetime import timedelta
from typing import TypeVar

from sqlalchemy import Connection

from delivery.chats import account_is_down, account_is_unknown, account_is_up, note_hearing
from delivery.ports import AccountDown, Hear, Platform
from delivery.retry import CONNECTS
from state.clock import Monotonic, Now, Sleep
from state.database import Database
from state.errors import StateError

T = TypeVar("T")

STEADY = timedelta(minutes=1)
"""An account that was heard for so long begins with short waits again."""

Jitter = Callable[[timedelta], timedelta]
"""Returns a wait near the one given, so that many accounts do not come back in the same instant."""


async def _nothing(name: str) -> None:
    """Nobody has to know anything first."""


class AccountKeeper:
    """Connects each account, listens, and stores in `accounts` whether it is up, or down and why.

    A login that is refused marks that account down and is tried again after 1 second up to 5 minutes; a token
    that is put right is found at the next try. `changed(name)` is called after each change is durable.
    """

    def __init__(
        self,
        *,
        db: Database,
        platforms: Mapping[str, Platform],
        hear: Hear,
        now: Now,
        sleep: Sleep,
        monotonic: Monotonic,
        changed: Callable[[str], None],
        before_listening: Callable[[str], Awaitable[None]] = _nothing,
        jitter: Jitter = lambda wait: wait,
        log: logging.Logger | None = None,
    ) -> None:
        """Take the parts; nothing runs before `run` or `keep`.

        `changed` is the dispatcher's `wake`, and whoever else cares. `before_listening` is awaited once connected.
        """
        self._db = db
        self._platforms = platforms
        self._hear = hear
        self._now = now
        self._sleep = sleep
        self._monotonic = monotonic
        self._changed = changed
        self._before_listening = before_listening
        self._jitter = jitter
        self._log = log or logging.getLogger(__name__)
        self._doubts: dict[str, asyncio.Future[str]] = {}

    async def prepare(self) -> None:
        """Forget whether accounts were up in the last process. Once, before anything is sent."""
        at = self._now()

        def forget(conn: Connection) -> None:
            for name, platform in self._platforms.items():
                account_is_unknown(conn, name, platform.kind, at=at)

        await self._db.write(forget)

    async def run(self) -> None:
        """Keep every account until cancelled."""
        async with asyncio.TaskGroup() as group:
            for name in self._platforms:
                group.create_task(self.keep(name))

    async def keep(self, name: str) -> None:
        """Keep one account until cancelled: connect, listen, and again after growing waits."""
        failures = 0
        while True:
            began = self._monotonic()
            try:
                await self.connect_once(name)
                await self._listen(name)
            except AccountDown as down:
                reason = down.reason
            except Exception as error:  # noqa: BLE001 - around one account: it goes down, the others go on
                reason = f"the connection broke: {type(error).__name__}"
                self._log.exception(
                    "An account's connection broke.", extra={"action": "account_broke", "account": name}
                )
            if self._monotonic() - began >= STEADY.total_seconds():
                failures = 0
            failures += 1
            await self._down(name, reason)
            await self._sleep(self._jitter(CONNECTS.wait(failures)).total_seconds())

    async def connect_once(self, name: str) -> str:
        """Connect one account, store that it is up, and return its workspace. Raises AccountDown."""
        platform = self._platforms[name]
        workspace = await platform.connect()
        at, kind = self._now(), platform.kind
        await self._db.write(lambda conn: account_is_up(conn, name, kind, workspace, at=at))
        self._log.info("An account is up.", extra={"action": "account_up", "account": name, "workspace": workspace})
        self._changed(name)
        return workspace

    def doubt(self, name: str, reason: str) -> None:
        """Say that a send found the account's login refused: it goes down and is connected anew."""
        doubt = self._doubts.get(name)
        if doubt is not None and not doubt.done():
            doubt.set_result(reason)

    async def _listen(self, name: str) -> None:
        """Hear until a send finds the login refused. What cannot be heard is tried again; sends go on meanwhile."""
        doubt = self._doubts[name] = asyncio.get_running_loop().create_future()
        misses = 0
        try:
            while True:
                began = self._monotonic()
                await self._before_listening(name)
                reason = await self._until_doubted(doubt, self._hear_once(name))
                misses = 1 if self._monotonic() - began >= STEADY.total_seconds() else misses + 1
                await self._deaf(name, reason)
                wait = self._jitter(CONNECTS.wait(misses)).total_seconds()
                await self._until_doubted(doubt, self._sleep(wait))
                await self._db.write(lambda conn: note_hearing(conn, name, None))
        finally:
            del self._doubts[name]
            doubt.cancel()

    async def _hear_once(self, name: str) -> str:
        """Listen once; return why that ended."""
        try:
            await self._platforms[name].listen(self._hear)
        except AccountDown as down:
            return down.reason
        return "it stopped listening"

    async def _until_doubted(self, doubt: asyncio.Future[str], doing: Awaitable[T]) -> T:
        """Do something, unless a send finds the login refused first: then AccountDown."""
        task = asyncio.ensure_future(doing)
        try:
            await asyncio.wait((task, doubt), return_when=asyncio.FIRST_COMPLETED)
            if doubt.done():
                raise AccountDown(doubt.result())
            return await task
        finally:
            task.cancel()
            await asyncio.wait((task,))

    async def _deaf(self, name: str, reason: str) -> None:
        """It can send, but not hear: its deliveries are not held for that."""
        await self._db.write(lambda conn: note_hearing(conn, name, reason))
        self._log.warning(
            "An account cannot hear; it is tried again, what it sends goes on.",
            extra={"action": "account_deaf", "account": name, "reason": reason},
        )
        self._changed(name)

    async def _down(self, name: str, reason: str) -> None:
        at, kind = self._now(), self._platforms[name].kind
        try:
            await self._db.write(lambda conn: account_is_down(conn, name, kind, reason, at=at))
        except StateError as error:
            self._log.error(
                "An account is down, which could not be stored.",
                extra={"action": "account_not_stored", "account": name, "reason": str(error)},
            )
        self._log.warning(
            "An account is down; it is tried again, the others go on.",
            extra={"action": "account_down", "account": name, "reason": reason},
        )
        self._changed(name)
