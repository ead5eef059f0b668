"""Targets that could not be resolved when their brief was composed: looked up once their account is up."""

import asyncio
from collections.abc import Callable, Mapping
from datetime import datetime

from sqlalchemy import Connection, select

from delivery.chats import UP, account_is_down, gate, unresolved
from delivery.model import Address, DeliveryState, Surface
from delivery.outbox import fail, locate
from delivery.ports import AccountDown, Platform, PostsInTransaction, TargetUnresolved
from delivery.retry import CONNECTS, next_resolve
from delivery.rows import DELIVERIES, DeliveryRow, DeliverySummary, load_delivery, set_delivery
from delivery.targets import TargetError, parse_target
from delivery.telling import Teller
from state.clock import Now
from state.database import Database
from state.errors import StateError


def accounts_to_resolve(conn: Connection) -> list[str]:
    """Return the accounts that hold deliveries without a place."""
    held = (
        select(DELIVERIES.c.account)
        .distinct()
        .where(DELIVERIES.c.chat.is_(None), DELIVERIES.c.state == DeliveryState.HELD)
    )
    return list(conn.execute(held).scalars())


class Resolver:
    """Works on one account at a time, as often as the crew asks."""

    def __init__(
        self,
        *,
        db: Database,
        platforms: Mapping[str, Platform],
        now: Now,
        teller: Teller,
        wake: Callable[[], None],
        stopping: asyncio.Event,
    ) -> None:
        self._db = db
        self._platforms = platforms
        self._now = now
        self._teller = teller
        self._wake = wake
        self._stopping = stopping

    async def work(self, account: str) -> datetime | None:
        """Resolve what is due; return when the next one is. Never raises."""
        platform = self._platforms.get(account)
        if platform is None:
            return None
        try:
            return await self._resolve_due(account, platform)
        except StateError as error:
            self._teller.log.error(
                "Targets could not be looked up; it is tried again.",
                extra={"action": "resolve_failed", "account": account, "reason": str(error)},
            )
            return self._now() + CONNECTS.wait(4)

    async def _resolve_due(self, account: str, platform: Platform) -> datetime | None:
        at = self._now()
        here = await self._db.read(lambda conn: gate(conn, account, None))
        if here.account != UP and not isinstance(platform, PostsInTransaction):
            return None
        if here.not_before is not None and here.not_before > at:
            return here.not_before
        due, _ = await self._db.read(lambda conn: unresolved(conn, account, at=at))
        for delivery_id in due:
            if self._stopping.is_set() or not await self._resolve(platform, delivery_id):
                return None
        _, later = await self._db.read(lambda conn: unresolved(conn, account, at=self._now()))
        return later

    async def _resolve(self, platform: Platform, delivery_id: str) -> bool:
        """Look one up; False if the account is down, so that there is no point in going on."""
        row = await self._db.read(lambda conn: load_delivery(conn, delivery_id))
        if row is None:
            return True
        try:
            address = await self._address(platform, row)
        except TargetUnresolved as unknown:
            await self._unknown(row, unknown.reason, final=unknown.final)
        except AccountDown as down:
            at, kind, reason = self._now(), platform.kind, down.reason
            await self._db.write(lambda conn: account_is_down(conn, row.account, kind, reason, at=at))
            return False
        except Exception as error:  # around one delivery: a lookup's bug is not the others'
            self._teller.log.exception(
                "A target's lookup broke.", extra={"action": "resolve_broke", "delivery": delivery_id}
            )
            await self._unknown(row, f"the lookup broke: {type(error).__name__}", final=False)
        else:
            await self._located(platform, row, address)
        return True

    async def _address(self, platform: Platform, row: DeliveryRow) -> Address:
        kinds = {name: one.kind for name, one in self._platforms.items()}
        try:
            target = parse_target(row.place if row.place is not None else row.target, kinds)
        except TargetError as error:
            raise TargetUnresolved(str(error), final=True) from error
        return await platform.resolve(target)

    async def _located(self, platform: Platform, row: DeliveryRow, address: Address) -> None:
        opening = None
        if row.surface == Surface.THREAD and address.root is None:
            opening = platform.opening(address, row.title or row.job or "")
        at = self._now()
        self._tell(await self._db.write(lambda conn: locate(conn, row.id, address, opening, at=at)))
        self._wake()

    async def _unknown(self, row: DeliveryRow, reason: str, *, final: bool) -> None:
        at = self._now()
        due = None if final else next_resolve(since=row.created_at, at=at)
        if due is None:
            self._tell(await self._db.write(lambda conn: fail(conn, row.id, reason, at=at)))
        else:
            await self._db.write(lambda conn: set_delivery(conn, row.id, not_before=due, error=reason, updated_at=at))

    def _tell(self, changed: DeliverySummary | None) -> None:
        self._teller.tell(() if changed is None else (changed,))
