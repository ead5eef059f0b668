"""A house to try deliveries in: a real database file, a clock that stands still, scripted and local platforms."""

import asyncio
import itertools
import logging
import shutil
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, create_engine, insert, select

from delivery.accounts import AccountKeeper
from delivery.chats import account_is_up
from delivery.dispatcher import Dispatcher
from delivery.model import (
    Address,
    ChatKind,
    DeliveryId,
    DeliveryKind,
    Inbound,
    PartKind,
    Surface,
)
from delivery.outbox import DeliverySummary, NewDelivery, enqueue
from delivery.platforms.local import LocalPlatform
from delivery.ports import Opening, Platform, Settled
from delivery.testing import ManualClock, ScriptedPlatform, WatchedDatabase, text_parts
from state import schema


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make an empty database once; each test gets a copy of it."""
    path = tmp_path_factory.mktemp("template") / "state.db"
    engine = create_engine(f"sqlite:///{path}")
    schema.metadata.create_all(engine)
    engine.dispose()
    return path


def leave(path: Path) -> None:
    """The file is what it should be."""


class Bookkeeper:
    """A settlement that writes which receipts it saw, so that one can see in which transaction it ran."""

    def __init__(self) -> None:
        self.fails: list[Exception] = []
        self.calls: list[DeliveryId] = []

    def settled(self, conn: Connection, settled: Settled) -> None:
        self.calls.append(settled.delivery_id)
        receipts = conn.execute(
            select(schema.receipts.c.n, schema.receipts.c.message).where(
                schema.receipts.c.delivery_id == settled.delivery_id
            )
        ).all()
        seen = ",".join(f"{row.n}={row.message}" for row in receipts)
        key = {"delivery_id": settled.delivery_id, "surface": "flat"}
        conn.execute(schema.seeds.delete().where(schema.seeds.c.delivery_id == settled.delivery_id))
        conn.execute(insert(schema.seeds).values(**key, state="landed", attempts=1, error=seen, updated_at=settled.at))
        if self.fails:
            raise self.fails.pop(0)


class House:
    """Everything that one process would hold; `restart` is a kill and a new process on the same file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.clock = ManualClock()
        self.settlement = Bookkeeper()
        self.told: list[DeliverySummary] = []
        self.heard: list[Inbound] = []
        self.platforms: dict[str, Platform] = {}
        self._numbers = itertools.count(1)
        self._open()

    def _open(self) -> None:
        self.db = WatchedDatabase.open(self.path, prepare=leave, now=self.clock.now)
        self.local = LocalPlatform(self.db, self.clock.now, self.clock.sleep)
        self.platforms = {**self.platforms, "local": self.local}
        self.dispatcher = self._dispatcher()
        self._task: asyncio.Task[None] | None = None

    def _dispatcher(self) -> Dispatcher:
        return Dispatcher(
            db=self.db,
            platforms=self.platforms,
            settlement=self.settlement,
            now=self.clock.now,
            sleep=self.clock.sleep,
            monotonic=self.clock.monotonic,
            on_settled=self.told.append,
            log=logging.getLogger("delivery"),
        )

    def scripted(self, account: str = "slack", **options: Any) -> ScriptedPlatform:
        platform = ScriptedPlatform(account, now=self.clock.now, **options)
        self.platforms[account] = platform
        return platform

    def keeper(self, hear: Callable[[Inbound], Any] | None = None) -> AccountKeeper:
        async def note(inbound: Inbound) -> None:
            self.heard.append(inbound)

        return AccountKeeper(
            db=self.db,
            platforms=self.platforms,
            hear=hear or note,
            now=self.clock.now,
            sleep=self.clock.sleep,
            monotonic=self.clock.monotonic,
            changed=lambda name: self.dispatcher.wake(),
        )

    # --- deliveries -----------------------------------------------------------------------------------

    async def run_of(self, job: str = "build-health") -> str:
        """Store a run, as the planner would have."""
        number = next(self._numbers)
        run_id = f"run-{number}"

        def store(conn: Connection) -> None:
            at = self.clock.now()
            conn.execute(insert(schema.incarnations).values(id=f"inc-{number}", pid=1, started_at=at))
            conn.execute(
                insert(schema.jobs).values(
                    id=f"{job}-{number}",
                    name=job,
                    fingerprint="",
                    definition={},
                    anchor=at,
                    cursor=at,
                    seen_at=at,
                )
            )
            occurrence = conn.execute(
                insert(schema.occurrences).values(job_id=f"{job}-{number}", kind="manual", due=at, n=number, at=at)
            ).inserted_primary_key
            assert occurrence is not None
            conn.execute(
                insert(schema.runs).values(
                    id=run_id,
                    occurrence_id=occurrence[0],
                    job_id=f"{job}-{number}",
                    state="composed",
                    incarnation=f"inc-{number}",
                    definition={},
                )
            )

        await self.db.write(store)
        return run_id

    async def deliver(self, *texts: str, **changes: Any) -> DeliveryId:
        """Store a delivery of these parts and wake the dispatcher."""
        new = await self.brief(*texts, **changes)
        at = self.clock.now()
        await self.db.write(lambda conn: enqueue(conn, [new], at=at))
        self.dispatcher.wake()
        return new.id

    async def brief(self, *texts: str, chat: str = "C1", account: str = "slack", **changes: Any) -> NewDelivery:
        new = NewDelivery(
            id=DeliveryId(f"d-{next(self._numbers)}"),
            kind=DeliveryKind.BRIEF,
            run_id=changes.pop("run_id", None) or await self.run_of(),
            inbound_id=None,
            session_id=None,
            job="build-health",
            target=f"{account}:{chat}",
            account=account,
            surface=Surface.FLAT,
            continues=True,
            address=place(chat, account),
            parts=text_parts(*(texts or ("3 builds failed",))),
        )
        if changes.pop("in_thread", False):
            header = Opening(kind=PartKind.HEADER, payload={"text": "build-health"}, text="build-health")
            new = replace(new, surface=Surface.THREAD, opening=header)
        return replace(new, **changes)

    # --- life -----------------------------------------------------------------------------------------

    async def up(self, *accounts: str) -> None:
        """Mark accounts as connected."""

        def store(conn: Connection) -> None:
            for name in accounts or tuple(self.platforms):
                account_is_up(conn, name, self.platforms[name].kind, "T1", at=self.clock.now())

        await self.db.write(store)
        self.dispatcher.wake()

    async def start(self) -> None:
        self._task = asyncio.create_task(self.dispatcher.run())
        await self.settle()

    async def settle(self) -> None:
        """Let the program work until it waits for time to pass."""
        await self.db.settle()
        if self._task is not None and self._task.done() and not self._task.cancelled():
            self._task.result()

    async def settle_only(self) -> None:
        """Do what `settle` does, whatever became of the dispatcher."""
        await self.db.settle()

    async def after(self, seconds: float) -> None:
        await self.clock.advance(seconds, self.settle)

    async def hours(self, count: int) -> None:
        """Let hours pass in leaps of half an hour."""
        for _ in range(2 * count):
            self.clock.jump(1800)
            await self.settle()

    async def stop(self) -> None:
        if self._task is not None:
            await self.dispatcher.stop()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    async def kill(self) -> None:
        """End the process where it stands: nothing that is under way is recorded, the file stays as it is."""
        mine = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        await asyncio.to_thread(self.db.close)
        for task in mine:
            task.cancel()
        await asyncio.gather(*mine, return_exceptions=True)
        self._task = None

    async def restart(self) -> None:
        await self.kill()
        self._open()

    # --- what is stored -------------------------------------------------------------------------------

    async def delivery(self, delivery_id: str) -> Any:
        query = select(schema.deliveries).where(schema.deliveries.c.id == delivery_id)
        return await self.db.read(lambda conn: conn.execute(query).one())

    async def part_states(self, delivery_id: str) -> list[str]:
        query = select(schema.parts.c.state).where(schema.parts.c.delivery_id == delivery_id).order_by(schema.parts.c.n)
        return await self.db.read(lambda conn: list(conn.execute(query).scalars()))

    async def message_ids(self, delivery_id: str) -> list[str]:
        query = (
            select(schema.receipts.c.message)
            .where(schema.receipts.c.delivery_id == delivery_id)
            .order_by(schema.receipts.c.n)
        )
        return await self.db.read(lambda conn: list(conn.execute(query).scalars()))

    async def seed(self, delivery_id: str) -> str | None:
        query = select(schema.seeds.c.error).where(schema.seeds.c.delivery_id == delivery_id)
        return await self.db.read(lambda conn: conn.execute(query).scalar_one_or_none())


def place(chat: str = "C1", account: str = "slack", **changes: Any) -> Address:
    return replace(Address(account=account, workspace="T1", chat=chat, chat_kind=ChatKind.CHANNEL), **changes)


@pytest.fixture
async def house(tmp_path: Path, template: Path) -> AsyncIterator[House]:
    made = House(Path(shutil.copy(template, tmp_path / "state.db")))
    yield made
    await made.kill()
