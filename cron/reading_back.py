"""Reads, in the background, what people wrote while nobody listened; what could not be read yet is not forgotten."""

import asyncio
import json
import logging
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, delete, insert, select

from delivery.directory import DirectoryKeeper
from delivery.model import Address, ChatKind
from delivery.ports import AccountDown, Hear, Platform
from seeding.inbox import places_to_read
from state.clock import Now
from state.database import Database
from state.errors import StateError
from state.schema import meta

log = logging.getLogger(__name__)

GAP_MARGIN = timedelta(hours=1)
OWED_FOR = timedelta(days=7)

Owed = dict[Address, datetime]
"""Places that are still to be read, each with the instant to read from, in the order of reading."""


class ReadingBack:
    """Reads one place of an account after another. A platform may let it wait: up to an hour at one place.

    What is owed is in the database while it is being read. So a restart in the midst of it loses nothing, although
    by then newer messages of the same chats are stored.
    """

    def __init__(
        self,
        db: Database,
        *,
        platforms: Callable[[], Mapping[str, Platform]],
        directory: DirectoryKeeper,
        hear: Hear,
        now: Now,
    ) -> None:
        self._db = db
        self._platforms = platforms
        self._directory = directory
        self._hear = hear
        self._now = now
        self._owed: dict[str, Owed] = {}
        self._reading: dict[str, tuple[Address, datetime]] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._open: set[str] = set()

    async def begin(self, account: str) -> None:
        """Note where an account has to read back, and begin with it. Called before anybody there is heard."""
        self._open.add(account)
        left = await self._db.read(lambda conn: load_owed(conn, account, since=self._now() - OWED_FOR))
        await self._owe(account, left, timedelta(0))

    async def after_gap(self, account: str) -> None:
        """Note that nobody listened for a while, up to now.

        What is heard again already must not hide what was missed: it is read back a while longer.
        """
        await self._owe(account, {}, GAP_MARGIN)

    async def stop(self, account: str) -> None:
        """End the reading of an account; the next `begin` goes on with it."""
        self._open.discard(account)
        self._owed.pop(account, None)
        task = self._tasks.pop(account, None)
        if task is not None:
            task.cancel()
            await asyncio.wait([task])

    async def _owe(self, account: str, left: Owed, margin: timedelta) -> None:
        at = self._now()
        places = await self._db.read(lambda conn: places_to_read(conn, account, at=at))
        owed = self._owed.setdefault(account, {})
        for address, since in (*left.items(), *((address, since - margin) for address, since in places)):
            owed[address] = min(since, owed.get(address, since))
        await self._keep(account)
        if owed and account in self._open and account not in self._tasks:
            self._tasks[account] = asyncio.create_task(self._read(account, owed), name=f"reading back {account}")

    async def _keep(self, account: str) -> None:
        """Write down what is owed. What is read meanwhile counts as owed until all is read: twice is harmless."""
        owed = dict([self._reading[account]] if account in self._reading else [])
        for address, since in self._owed.get(account, {}).items():
            owed[address] = min(since, owed.get(address, since))
        try:
            await self._db.write(lambda conn: keep_owed(conn, account, owed))
        except StateError as error:
            log.warning(
                "What is still to be read back could not be written down; a restart may miss some of it.",
                extra={"action": "owed_not_kept", "account": account, "reason": str(error)},
            )

    async def _read(self, account: str, owed: Owed) -> None:
        try:
            await self._directory.refresh(account)
            while owed and (platform := self._platforms().get(account)) is not None:
                address = next(iter(owed))
                since = owed.pop(address)
                self._reading[account] = address, since
                try:
                    await platform.catch_up(address, since, self._hear)
                except AccountDown:
                    owed[address] = min(since, owed.get(address, since))
                    raise
                finally:
                    del self._reading[account]
                if not owed:
                    await self._keep(account)  # a gap may add to what is owed meanwhile
        except AccountDown as down:
            facts = {"action": "catch_up_ended", "account": account, "reason": down.reason}
            log.info("Catching up ended.", extra=facts)
        finally:
            self._tasks.pop(account, None)


# --- rows ---------------------------------------------------------------------------------------------


def keep_owed(conn: Connection, account: str, owed: Owed) -> None:
    """Write down what an account has to read back, in place of what was written before."""
    conn.execute(delete(meta).where(meta.c.key == _key(account)))
    if owed:
        rows = [_row(address, since) for address, since in owed.items()]
        conn.execute(insert(meta).values(key=_key(account), value=json.dumps(rows)))


def load_owed(conn: Connection, account: str, *, since: datetime) -> Owed:
    """Return what an account had to read back when it was written down; nothing from before `since`."""
    text = conn.execute(select(meta.c.value).where(meta.c.key == _key(account))).scalar_one_or_none()
    places = (_place(account, row) for row in json.loads(text or "[]"))
    return {address: max(at, since) for address, at in places}


def _key(account: str) -> str:
    return f"reading back:{account}"


def _row(address: Address, since: datetime) -> dict[str, str | None]:
    return {
        "workspace": address.workspace,
        "chat": address.chat,
        "chat_kind": address.chat_kind.value,
        "root": address.root,
        "since": since.isoformat(),
    }


def _place(account: str, row: Mapping[str, Any]) -> tuple[Address, datetime]:
    address = Address(
        account=account,
        workspace=row["workspace"],
        chat=row["chat"],
        chat_kind=ChatKind(row["chat_kind"]),
        root=row["root"],
    )
    return address, datetime.fromisoformat(row["since"])
