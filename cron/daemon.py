"""The daemon: starts what was wired in order, waits for a signal, and ends it in the order that loses nothing."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any, TypeVar

from cron import jobbook, ledger
from cron.alerts import Alerts
from cron.answering import Agents
from cron.audit import faulty_jobs, repair_job
from cron.current import CurrentConfig, watch
from cron.deciding import Planned
from cron.definitions import definition_of, policy_of, schedule_of
from cron.jobbook import JobRow
from cron.model import Config, JobId
from cron.planner import Planner
from cron.platforms import PlatformSet
from cron.reading_back import ReadingBack
from cron.reload import apply_jobs, know_jobs, told
from cron.retention import Retention
from cron.rewind import settle_if_rewound, tell_unknown
from cron.rulebook import JobRulebook
from cron.runner import Runner
from cron.schedule import ScheduleError
from cron.trust import StateTrust
from cron.watching import DeliveryWatch
from delivery.accounts import AccountKeeper
from delivery.chats import follow_move, found_places, stored_moves
from delivery.directory import DirectoryKeeper
from delivery.dispatcher import Dispatcher
from delivery.ports import AccountDown
from delivery.rows import DeliverySummary
from seeding.inbox import Inbox
from seeding.responder import Responder
from seeding.router import Router
from seeding.seeder import Seeder
from state.clock import Now, Sleep
from state.database import Database

T = TypeVar("T")

log = logging.getLogger(__name__)

RETRY_SEEDS_EVERY = 15.0  # seconds
AUDIT_EVERY = 86_400.0  # seconds
RESOLVE_EVERY = 300.0  # seconds between two looks at which chats the targets name
COMPOSE_GRACE = 10.0  # seconds that a composing run has to end after SIGTERM
ANSWER_GRACE = 10.0  # seconds that an agent has to finish an answer after SIGTERM
SEND_GRACE = 20.0  # seconds that sends have to finish after SIGTERM


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """Everything that the wiring made, and that lives as long as the database is open."""

    db: Database
    incarnation: str
    current: CurrentConfig
    platforms: PlatformSet
    planner: Planner
    runner: Runner
    dispatcher: Dispatcher
    keeper: AccountKeeper
    directory: DirectoryKeeper
    inbox: Inbox
    router: Router
    responder: Responder
    seeder: Seeder
    rulebook: JobRulebook
    agents: Agents
    watcher: DeliveryWatch
    alerts: Alerts


class Daemon:
    """Runs the parts until `stop` is set. One per home: the caller holds the home's lock.

    `ready` is set when the jobs are known: verbs wait for it.
    """

    def __init__(self, *, now: Now, sleep: Sleep) -> None:
        self._now = now
        self._sleep = sleep
        self._joined: Parts | None = None
        self._listening: dict[str, asyncio.Task[None]] = {}
        self._background: set[asyncio.Task[Any]] = set()
        self._started_at = now()
        self.ready = asyncio.Event()

    def join(self, parts: Parts) -> None:
        """Take the parts: some of them were made with this daemon as their listener."""
        self._joined = parts
        self._reading_back = ReadingBack(
            parts.db,
            platforms=parts.platforms.now,
            directory=parts.directory,
            hear=parts.inbox.hear,
            now=self._now,
        )

    @property
    def _parts(self) -> Parts:
        assert self._joined is not None, "the wiring joins the parts before anything runs"
        return self._joined

    # --- life -----------------------------------------------------------------------------------------

    async def run(self, stop: asyncio.Event) -> int:
        """Live until `stop` is set or a part breaks; return the exit code."""
        parts = self._parts
        await parts.keeper.prepare()
        parts.rulebook.remember(await parts.db.read(found_places), await parts.db.read(stored_moves))
        unknown = await settle_if_rewound(parts.db, now=self._now, sleep=self._sleep)
        await self._apply_jobs(parts.current())
        await tell_unknown(unknown, parts.planner.planned, parts.alerts, at=self._now())
        running = self._begin(
            state=StateTrust(parts.db, self._sleep).run(),
            dispatcher=parts.dispatcher.run(),
            seeds=self._retry_seeds(),
        )
        # Before anything is planned: what an earlier daemon left composing would stand in the way.
        await self._recover_runs()
        running |= self._begin(
            planner=parts.planner.run(),
            router=parts.router.run(),
            responder=parts.responder.run(),
            directory=parts.directory.run(),
            retention=Retention(db=parts.db, now=self._now, sleep=self._sleep).run(),
            targets=self._resolve_targets(),
            ledger=self._keep_ledger(),
            watch=watch(parts.current().path, self.reread),
        )
        self._listen(list(parts.platforms.live))
        self.ready.set()
        log.info("Ready.", extra={"action": "ready", "jobs": len(parts.planner.planned)})
        stopping = asyncio.create_task(stop.wait())
        try:
            await asyncio.wait([stopping, *running.values()], return_when=asyncio.FIRST_COMPLETED)
            return self._verdict(running)
        finally:
            stopping.cancel()
            await self._shut_down(running)

    async def run_once(self, errand: Callable[[], Awaitable[T]]) -> T:
        """Live for one errand of the command line: nothing is planned and nobody is heard, but sends go out."""
        parts = self._parts
        await parts.keeper.prepare()
        unknown = await settle_if_rewound(parts.db, now=self._now, sleep=self._sleep)
        await self._know_jobs(parts.current())
        await tell_unknown(unknown, parts.planner.planned, parts.alerts, at=self._now())
        running = self._begin(dispatcher=parts.dispatcher.run())
        try:
            await asyncio.gather(*(self._connect(name) for name in parts.platforms.live))
            return await errand()
        finally:
            await self._shut_down(running)

    def _begin(self, **tasks: Coroutine[Any, Any, None]) -> dict[str, asyncio.Task[None]]:
        return {name: asyncio.create_task(coroutine, name=name) for name, coroutine in tasks.items()}

    async def _connect(self, name: str) -> None:
        try:
            await self._parts.keeper.connect_once(name)
        except AccountDown as down:
            log.warning("An account is down.", extra={"action": "account_down", "account": name, "reason": down.reason})

    async def reread(self) -> None:
        """Look at jobs.yaml again, and apply what changed."""
        await self._parts.current.reread(self._apply)

    def health(self) -> dict[str, Any]:
        """Return what /healthz says; `status` is `ok` or the sentence that says what is wrong."""
        parts = self._parts
        return {
            "status": parts.db.healthy or "ok",
            "started_at": self._started_at.isoformat(),
            "jobs": len(parts.planner.planned),
            "config_mistakes": list(parts.current.mistakes),
        }

    def delivered(self, summary: DeliverySummary) -> None:
        """Hear from the dispatcher that a delivery ended."""
        self._parts.watcher.changed(summary.id)
        if summary.run_id is not None:
            self._spawn(self._parts.runner.delivered(summary.run_id))

    def job_stopped(self, job_id: str) -> None:
        """Hear that `stop_after` has paused a job."""
        self._spawn(self._parts.planner.reread(JobId(job_id)))

    def login_refused(self, account: str, reason: str) -> None:
        """Hear from the dispatcher that a send found the login refused."""
        self._parts.keeper.doubt(account, reason)

    def account_changed(self, account: str) -> None:
        """Hear from the keeper that an account came up or went down."""
        self._parts.dispatcher.wake()

    def chat_moved(self, account: str, old: str, new: str) -> None:
        """Hear from a platform that a chat has a new id: everything that waits or answers there follows."""
        self._parts.rulebook.moved(account, old, new)
        self._spawn(self._follow(account, old, new))

    def chat_followed(self, account: str, old: str, new: str) -> None:
        """Hear that a move is stored already: only the rules have to follow."""
        self._parts.rulebook.moved(account, old, new)
        self._parts.dispatcher.wake()

    async def _follow(self, account: str, old: str, new: str) -> None:
        parts, at = self._parts, self._now()
        follow = partial(
            follow_move, account=account, old=old, new=new, at=at, settlement=parts.seeder, keeps_messages=True
        )
        for summary in await parts.db.write(follow):
            self.delivered(summary)
        parts.dispatcher.wake()
        await parts.rulebook.refresh(account)

    async def before_listening(self, account: str) -> None:
        """Know an account's chats before anybody there is heard: else they would be strangers.

        Where to read back is noted now, too: what is heard from here on would hide what was missed before.
        """
        await self._parts.rulebook.refresh(account)
        await self._reading_back.begin(account)

    def gap(self, account: str) -> None:
        """Hear from a platform that nobody listened for a while, in which people may have written."""
        self._spawn(self._reading_back.after_gap(account))

    # --- config ---------------------------------------------------------------------------------------

    async def _apply(self, config: Config) -> None:
        parts = self._parts
        await self._replace_accounts(config)
        parts.runner.resize(max_running=config.max_running, missed_running=config.catch_up_running)
        await self._apply_jobs(config)
        await parts.rulebook.refresh()

    async def _apply_jobs(self, config: Config) -> None:
        parts, at = self._parts, self._now()
        changes = await parts.db.write(lambda conn: apply_jobs(conn, config.jobs, at))
        for line in told(changes):
            log.info("%s.", line, extra={"action": "jobs_changed"})
        await self._plan_jobs(config, with_removed=False)

    async def _know_jobs(self, config: Config) -> None:
        """Give every job a row, without beginning its schedule: that is for the daemon to do."""
        parts, at = self._parts, self._now()
        await parts.db.write(lambda conn: know_jobs(conn, config.jobs, at))
        await self._plan_jobs(config, with_removed=True)

    async def _plan_jobs(self, config: Config, *, with_removed: bool) -> None:
        parts = self._parts
        rows = {row.name: row for row in await parts.db.read(jobbook.all_jobs)}
        planned = await asyncio.to_thread(_planned_jobs, config, rows, with_removed)
        parts.planner.replace_jobs(planned)

    async def _replace_accounts(self, config: Config) -> None:
        """Stop accounts that are gone or changed, and begin the new ones."""
        parts = self._parts
        for name in parts.platforms.gone(config):
            await self._stop_listening(name)
            await parts.platforms.drop(name).close()
        self._listen(parts.platforms.take_over(config))

    # --- background work ------------------------------------------------------------------------------

    def _listen(self, accounts: Sequence[str]) -> None:
        for name in accounts:
            self._listening[name] = asyncio.create_task(self._parts.keeper.keep(name), name=f"account {name}")

    async def _stop_listening(self, name: str) -> None:
        task = self._listening.pop(name, None)
        if task is not None:
            task.cancel()
            await asyncio.wait([task])
        await self._reading_back.stop(name)

    async def _retry_seeds(self) -> None:
        """Seeds that failed are tried again until they land."""
        parts = self._parts
        while True:
            await parts.seeder.retry_owed(parts.db, at=self._now())
            await self._sleep(RETRY_SEEDS_EVERY)

    async def _keep_ledger(self) -> None:
        """Look at the start, and then daily, whether every job's rows are whole; repair those that are not."""
        parts = self._parts
        while True:
            rows = [row for row in await parts.db.read(jobbook.all_jobs) if not row.is_removed]
            for first in range(0, len(rows), 100):
                faulty = await parts.db.read(partial(faulty_jobs, rows=rows[first : first + 100]))
                for job_id in faulty:
                    await parts.db.write(partial(repair_job, job_id=job_id, at=self._now()))
            await self._sleep(AUDIT_EVERY)

    async def _resolve_targets(self) -> None:
        while True:
            await self._sleep(RESOLVE_EVERY)
            await self._parts.rulebook.refresh()

    async def _recover_runs(self) -> None:
        parts = self._parts
        by_id = {planned.row.id: planned for planned in parts.planner.planned.values()}
        for row in await parts.db.read(ledger.open_runs):
            planned = by_id.get(row.job_id)  # type: ignore[call-overload]
            late = timedelta(0)
            if planned is not None:
                late = policy_of(definition_of(planned.job), planned.schedule, self._now()).late
            job = None if planned is None else planned.job
            await parts.runner.recover(row, job, late=late, incarnation=parts.incarnation)

    def _spawn(self, coroutine: Awaitable[None]) -> None:
        task = asyncio.ensure_future(coroutine)
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    # --- the end --------------------------------------------------------------------------------------

    def _verdict(self, running: Mapping[str, asyncio.Task[Any]]) -> int:
        broken = {name: task for name, task in running.items() if task.done()}
        for name, task in broken.items():
            error = None if task.cancelled() else task.exception()
            log.critical(
                "A part of the daemon ended; the daemon stops.",
                exc_info=error,
                extra={"action": "part_ended", "part": name},
            )
        return 1 if broken else 0

    async def _shut_down(self, running: Mapping[str, asyncio.Task[Any]]) -> None:
        """Planner and intake, then agents, then sends, then receipts and seeds: so that each ends into the next."""
        parts = self._parts
        log.info("Stopping.", extra={"action": "stopping"})
        await _cancel(
            [
                running[name]
                for name in ("planner", "ledger", "targets", "watch", "seeds", "retention")
                if name in running
            ]
        )
        for name in list(self._listening):
            await self._stop_listening(name)
        await parts.router.stop()
        # Of what cannot be stored only sends have to be seen to their end: their receipts are logged.
        is_lost = parts.db.lost is not None
        await parts.runner.stop(0.0 if is_lost else COMPOSE_GRACE)
        await parts.responder.drain(0.0 if is_lost else ANSWER_GRACE, self._sleep)
        await parts.dispatcher.stop(SEND_GRACE)
        while self._background:
            await asyncio.wait(list(self._background))
        await _cancel(list(running.values()))
        if parts.db.lost is None:
            await parts.seeder.retry_owed(parts.db, at=self._now())
        await parts.agents.close()
        for platform in parts.platforms.live.values():
            await platform.close()
        log.info("Stopped.", extra={"action": "stopped"})


async def _cancel(tasks: list[asyncio.Task[Any]]) -> None:
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks)


def _planned_jobs(config: Config, rows: Mapping[str, JobRow], with_removed: bool) -> list[Planned]:
    """Build the schedules; for thousands of jobs that takes a while, so it has a thread of its own."""
    planned = []
    for job in config.jobs.values():
        row = rows.get(job.name)
        if row is None or not job.enabled or (row.is_removed and not with_removed):
            continue
        try:
            schedule = schedule_of(definition_of(job), row.anchor)
        except ScheduleError as error:
            facts = {"action": "schedule_refused", "job": job.name}
            log.error("A job cannot be scheduled: %s", error, extra=facts)
            continue
        planned.append(Planned(job=job, row=row, schedule=schedule))
    return planned
