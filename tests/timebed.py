"""A wired daemon on a clock that the test moves: days pass in milliseconds, and nothing waits for real time.

The engine sleeps on the real clock, so the test wakes the planner itself: `advance` moves both clocks, `suspend` only
the wall clock (as a machine that slept does), `set_clock` sets it as a person would.
"""

import asyncio
import itertools
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from daemonbed import until, write_config
from sqlalchemy import select

from cron import views
from cron.jobs import load_config
from cron.wiring import Wired, wired
from state.clock import Clock
from state.schema import deliveries, jobs, runs

SHORT = 1.0  # seconds: shorter waits are for things outside the clock, such as processes


@dataclass
class HandClock:
    """A wall clock and a monotonic one, moved by hand. Sleepers wake when the monotonic one has come far enough."""

    wall: datetime
    steady: float = 1000.0
    _sleepers: list[tuple[float, int, asyncio.Future[None]]] = field(default_factory=list)
    _order: Iterable[int] = field(default_factory=itertools.count)

    def now(self) -> datetime:
        return self.wall

    def monotonic(self) -> float:
        return self.steady

    async def sleep(self, seconds: float) -> None:
        if seconds < SHORT:
            await asyncio.sleep(min(max(seconds, 0), 0.01))
            return
        wakes: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._sleepers.append((self.steady + seconds, next(iter(self._order)), wakes))
        await wakes

    def pass_by(self, length: timedelta) -> None:
        self.wall += length
        self.steady += length.total_seconds()
        due = [one for one in self._sleepers if one[0] <= self.steady]
        self._sleepers = [one for one in self._sleepers if one[0] > self.steady]
        for _, _, wakes in sorted(due, key=lambda one: one[:2]):
            if not wakes.done():
                wakes.set_result(None)


@dataclass
class Timed:
    """A living daemon and its clock."""

    wired: Wired
    clock: HandClock
    task: asyncio.Task[int]
    stop_event: asyncio.Event

    async def stop(self) -> int:
        self.stop_event.set()
        return await asyncio.wait_for(self.task, 40)

    # --- time -----------------------------------------------------------------------------------------

    async def advance(self, to: str | datetime, *, settle: bool = True) -> None:
        """Let time pass until an instant, then have every job looked at, as the engine would."""
        target = instant(to) if isinstance(to, str) else to
        self.clock.pass_by(target - self.clock.wall)
        await self.look(settle=settle)

    async def step(self, to: str, every: timedelta) -> None:
        """Let time pass in steps, looking at the jobs after each: how a daemon sees it that is awake."""
        target = instant(to)
        while self.clock.wall < target:
            await self.advance(min(self.clock.wall + every, target))

    async def suspend(self, to: str) -> None:
        """Let the machine sleep until an instant: the monotonic clock stands still."""
        self.clock.wall = instant(to)
        await self.look()

    async def set_clock(self, to: str) -> None:
        """Set the wall clock, forwards or backwards."""
        self.clock.wall = instant(to)
        await self.look()

    async def look(self, *, settle: bool = True) -> None:
        planner = self.wired.control.planner
        await planner.pass_over(list(planner.planned))
        if settle:
            await self.settled()

    async def settled(self) -> None:
        """Wait until no run is open and everything is sent."""

        async def nothing_open() -> bool:
            still_open = select(runs.c.id).where(runs.c.state != "closed")
            if self.wired.control.runner._going or self.wired.daemon._background:
                return False
            unsent = select(deliveries.c.id).where(deliveries.c.state.in_(["pending", "sending"]))
            return not await self.read(lambda conn: [*conn.execute(still_open), *conn.execute(unsent)])

        await until(nothing_open, "all runs to end")

    # --- what a person sees ---------------------------------------------------------------------------

    async def read(self, fn: Any) -> Any:
        return await self.wired.db.read(fn)

    async def rows(self, job: str | None = None) -> list[dict[str, Any]]:
        """Return the rows of `runs`, oldest first."""
        return list(reversed(await self.read(lambda conn: views.list_runs(conn, job=job, limit=100_000))))

    async def told(self, job: str) -> list[tuple[str, str | None, int]]:
        """Return (due in UTC, outcome, count) of each row, oldest first."""
        rows = await self.rows(job)
        return [(short(row["due"]), row["outcome"], row["count"]) for row in rows]

    async def posts(self, channel: str = "general") -> list[str]:
        from delivery.platforms.local import messages

        return [one["text"] for one in await self.read(lambda conn: messages(conn, channel))]

    async def job_row(self, job: str) -> Any:
        return (await self.read(lambda conn: conn.execute(select(jobs).where(jobs.c.name == job)).all()))[0]

    def next_of(self, job: str) -> str | None:
        planned = self.wired.control.planner.by_name(job)
        assert planned is not None
        following = planned.schedule.next_after(max(planned.row.cursor, self.clock.wall))
        return None if following is None else short(following.isoformat())

    async def reload(self, folder: Path, text: str) -> None:
        """Write another jobs.yaml and have it read."""
        write_config(folder, text)
        await self.wired.daemon.reread()


def instant(text: str) -> datetime:
    at = datetime.fromisoformat(text)
    return at if at.tzinfo is not None else at.replace(tzinfo=UTC)


def short(text: str) -> str:
    """03-02 09:00, with seconds where there are any, in UTC."""
    at = datetime.fromisoformat(text).astimezone(UTC)
    return f"{at:%m-%d %H:%M:%S}" if at.second else f"{at:%m-%d %H:%M}"


@asynccontextmanager
async def timed(
    folder: Path,
    text: str | None,
    at: str,
    *,
    environ: dict[str, str] | None = None,
    zone: str = "UTC",
    settle: bool = True,
) -> AsyncIterator[Timed]:
    """Run a daemon at an instant on `folder`/jobs.yaml (written first, if there is a text); stop it at the end."""
    path = folder / "jobs.yaml" if text is None else write_config(folder, text)
    env = {"PATH": "/usr/bin:/bin:/usr/local/bin"} | (environ or {})
    hand = HandClock(wall=instant(at))
    clock = Clock(now=hand.now, monotonic=hand.monotonic, sleep=hand.sleep)
    config = load_config(path, environ=env, host_zone=zone, now=hand.wall)
    async with wired(config, home=folder / "home", environ=env, host_zone=zone, clock=clock) as made:
        stop = asyncio.Event()
        running = Timed(wired=made, clock=hand, task=asyncio.create_task(made.daemon.run(stop)), stop_event=stop)
        ready = asyncio.create_task(made.daemon.ready.wait())
        await asyncio.wait([running.task, ready], return_when=asyncio.FIRST_COMPLETED)
        try:
            await running.look(settle=settle)
            yield running
        finally:
            await running.stop()
