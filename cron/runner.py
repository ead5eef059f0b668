"""Carry out one occurrence: compose, deliver, and close it with its outcome. Seeding happens where receipts land."""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from zoneinfo import ZoneInfo

from sqlalchemy import Connection

from cron import ledger
from cron.agents.ports import Agent, BriefRequest, Composed, ComposeFailed, Started
from cron.agents.process import end_stale_group
from cron.alerts import Alerts, Ending
from cron.briefs import brief_context
from cron.ledger import RunRow
from cron.model import AgentSpec, Job
from cron.outcomes import OccurrenceKind, Outcome, RunState
from cron.posting import Posting
from cron.redact import Redactor
from delivery import outbox
from delivery.dispatcher import Dispatcher
from delivery.model import DeliveryKind
from delivery.silence import is_silent
from state.clock import Now, Sleep
from state.database import Database

log = logging.getLogger(__name__)

MAX_RUNNING = 64  # runs that compose at the same time
MISSED_RUNNING = 2  # of those, runs that were missed and are caught up
SHUTDOWN_GRACE = 10.0  # seconds that a composing run has to end after SIGTERM


class RunCancelled(Exception):
    """Somebody cancelled the run; the message says who."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """One claimed run, with the job as it is now."""

    job: Job
    job_id: str
    run_id: str
    kind: OccurrenceKind
    due: datetime
    wait_for: frozenset[str] = frozenset()  # runs of the job that must have composed first
    is_missed: bool = False  # it was due while nothing ran: a few of those at a time
    deliver: tuple[str, ...] | None = None  # other targets than the job's (a replay)


@dataclass(slots=True, kw_only=True)
class _Going:
    assignment: Assignment
    task: asyncio.Task[None]
    stop: RunCancelled | None = None
    has_composed: asyncio.Event


class Runner:
    """Runs what was claimed. One failing run never touches another: every ending is an outcome in the ledger."""

    def __init__(
        self,
        *,
        db: Database,
        agent: Callable[[AgentSpec], Agent],
        posting: Posting,
        dispatcher: Dispatcher,
        alerts: Alerts,
        redactor: Callable[[], Redactor],
        now: Now,
        sleep: Sleep,
        max_running: int = MAX_RUNNING,
    ) -> None:
        self._db = db
        self._agent = agent
        self._posting = posting
        self._dispatcher = dispatcher
        self._alerts = alerts
        self._redactor = redactor
        self._now = now
        self._sleep = sleep
        self._places = asyncio.Semaphore(max_running)
        self._missed_places = asyncio.Semaphore(MISSED_RUNNING)
        self._going: dict[str, _Going] = {}
        self._closed: dict[str, asyncio.Event] = {}
        self._known: dict[str, Assignment] = {}  # composed, not closed yet

    # --- what others ask ------------------------------------------------------------------------------

    def start(self, assignment: Assignment) -> None:
        """Begin a claimed run. A second start of the same run does nothing."""
        if assignment.run_id in self._going:
            return
        task = asyncio.ensure_future(self._carry_out(assignment))
        self._going[assignment.run_id] = _Going(assignment=assignment, task=task, has_composed=asyncio.Event())
        task.add_done_callback(lambda _: self._gone(assignment.run_id))

    async def cancel(self, run_id: str, by: str) -> bool:
        """End a run that has not composed yet, process group and all; False if there is none."""
        going = self._going.get(run_id)
        if going is None:
            return False
        going.stop = RunCancelled(f"It was cancelled by {by}.")
        going.task.cancel()
        await asyncio.wait([going.task])
        return True

    async def wait_closed(self, run_id: str) -> None:
        """Return when the run has its outcome."""
        event = self._closed.setdefault(run_id, asyncio.Event())
        row = await self._db.read(lambda conn: ledger.run_by_id(conn, run_id))
        if row is None or row.state == RunState.CLOSED:
            event.set()
        await event.wait()
        self._closed.pop(run_id, None)

    def composing(self, job_id: str) -> list[str]:
        """Return the ids of the job's runs that are going on here."""
        return [run_id for run_id, going in self._going.items() if going.assignment.job_id == job_id]

    async def delivered(self, run_id: str) -> None:
        """Be told that a delivery of this run ended; closes the run with the last one."""
        at = self._now()
        if await self._db.write(lambda conn: ledger.close_if_delivered(conn, run_id, at)):
            await self._after_close(run_id, at)

    async def compose_once(self, request: BriefRequest) -> Composed:
        """Compose a brief outside the ledger (a dry run). Raises ComposeFailed."""

        async def started(group: int, ticks: int) -> None:
            """A dry run has no row to note its process in."""

        return await self._ask(request, started)

    async def stop(self) -> None:
        """End what is composing: a few seconds of grace, then it is interrupted and its row says so."""
        tasks = [going.task for going in self._going.values()]
        if not tasks:
            return
        _, late = await asyncio.wait(tasks, timeout=SHUTDOWN_GRACE)
        for going in list(self._going.values()):
            if going.task in late:
                going.stop = RunCancelled("It was interrupted: the daemon was stopped.")
                going.task.cancel()
        if late:
            await asyncio.wait(late)

    # --- one run --------------------------------------------------------------------------------------

    async def _carry_out(self, assignment: Assignment) -> None:
        logged = {"job": assignment.job.name, "run": assignment.run_id}
        try:
            await self._wait_for_turn(assignment)
            async with self._missed_places if assignment.is_missed else contextlib.nullcontext(), self._places:
                composed = await self._compose(assignment)
            await self._deliver(assignment, composed)
        except asyncio.CancelledError:
            stop = self._going[assignment.run_id].stop
            reason = "It was interrupted: the daemon was stopped." if stop is None else str(stop)
            await asyncio.shield(self._interrupt(assignment, reason))
        except ComposeFailed as failed:
            await self._close(assignment, Outcome.FAILED, failed.reason, failed.details)
        except Exception as error:  # one occurrence's bug is its own outcome, never another's
            log.exception("A run broke.", extra={"action": "run_broke"} | logged)
            await self._close(assignment, Outcome.FAILED, f"An error inside hermes-cron: {type(error).__name__}.")

    async def _wait_for_turn(self, assignment: Assignment) -> None:
        """Wait until the runs before this one have composed (`overlap: queue`)."""
        for run_id in assignment.wait_for:
            other = self._going.get(run_id)
            if other is not None and run_id != assignment.run_id:
                composed = asyncio.ensure_future(other.has_composed.wait())
                try:
                    await asyncio.wait([composed, other.task], return_when=asyncio.FIRST_COMPLETED)
                finally:
                    composed.cancel()

    async def _compose(self, assignment: Assignment) -> Composed:
        """Try until a brief is there or the attempts are used up. Raises ComposeFailed."""
        retry = assignment.job.retry
        while True:
            at = self._now()
            attempt = await self._db.write(partial(ledger.begin_attempt, run_id=assignment.run_id, at=at))
            try:
                return await self._try(assignment, attempt)
            except ComposeFailed as failed:
                log.warning(
                    "An attempt failed.",
                    extra={"action": "attempt_failed", "job": assignment.job.name, "run": assignment.run_id},
                )
                if not failed.is_transient or attempt >= retry.attempts:
                    raise
            await self._sleep(retry.wait.total_seconds())

    async def _try(self, assignment: Assignment, attempt: int) -> Composed:
        job = assignment.job
        previous, context = await self._db.read(lambda conn: brief_context(conn, job, assignment.job_id))
        request = BriefRequest(
            job=job,
            due=assignment.due.astimezone(ZoneInfo(job.timezone)),
            run_id=assignment.run_id,
            attempt=attempt,
            previous=previous,
            context=context,
        )

        async def started(group: int, ticks: int) -> None:
            await self._db.write(lambda conn: ledger.note_process(conn, assignment.run_id, group, ticks))

        return await self._ask(request, started)

    async def _ask(self, request: BriefRequest, started: Started) -> Composed:
        job = request.job
        try:
            async with asyncio.timeout(job.timeout.total_seconds()):
                return await self._agent(job.writer).compose(request, started)
        except TimeoutError as error:
            reason = f"It took longer than its timeout of {_spoken(job.timeout)} and was ended."
            raise ComposeFailed(reason, is_transient=True) from error

    async def _deliver(self, assignment: Assignment, composed: Composed) -> None:
        """Store the brief with its deliveries in one transaction, then let the dispatcher send them."""
        job, run_id = assignment.job, assignment.run_id
        brief = self._redactor().redact(composed.text).strip()
        if composed.is_silent or is_silent(brief):
            await self._close(assignment, Outcome.SILENT, None, composed.details)
            return
        title = f"{job.name} · {assignment.due.astimezone(ZoneInfo(job.timezone)):%Y-%m-%d %H:%M}"
        news = await self._posting.prepare(
            brief,
            assignment.deliver if assignment.deliver is not None else job.deliver,
            kind=DeliveryKind.BRIEF,
            job=job.name,
            run_id=run_id,
            surface=job.surface,
            continues=job.continues,
            title=title,
        )
        at, details = self._now(), self._shown(composed.details)
        self._known[run_id] = assignment

        def store(conn: Connection) -> None:
            ledger.compose(conn, run_id, brief=brief, details=details)
            outbox.enqueue(conn, news, at=at)

        await self._db.write(store)
        self._going[run_id].has_composed.set()
        log.info("A brief was composed.", extra={"action": "brief_composed", "job": job.name, "run": run_id})
        self._dispatcher.wake()
        await self.delivered(run_id)  # closes at once what has nothing to send

    # --- endings --------------------------------------------------------------------------------------

    async def _close(
        self, assignment: Assignment, outcome: Outcome, error: str | None, details: Mapping[str, object] | None = None
    ) -> None:
        at = self._now()
        said = None if error is None else self._redactor().redact(error)
        run_id, shown = assignment.run_id, self._shown(details or {})
        self._known[run_id] = assignment
        if await self._db.write(lambda conn: ledger.close(conn, run_id, outcome, error=said, at=at, details=shown)):
            await self._after_close(run_id, at)

    def _shown(self, details: Mapping[str, object]) -> dict[str, object]:
        """A command's last words may hold a secret as well as its brief."""
        return {key: self._redactor().redact_value(value) for key, value in details.items()}

    async def _interrupt(self, assignment: Assignment, reason: str) -> None:
        """Close as failed what has not composed; a brief that is stored already is delivered all the same."""
        row = await self._db.read(lambda conn: ledger.run_by_id(conn, assignment.run_id))
        if row is not None and row.state is not RunState.COMPOSED:
            await self._close(assignment, Outcome.FAILED, reason)

    async def _after_close(self, run_id: str, at: datetime) -> None:
        """Log and tell how a run ended, and let those go on who waited for it."""
        assignment = self._known.pop(run_id, None)
        outcome, cause = await self._db.read(lambda conn: ledger.ending(conn, run_id))
        extra = {"action": "run_closed", "run": run_id, "outcome": outcome}
        log.info("A run ended.", extra=extra | ({"job": assignment.job.name} if assignment else {}))
        if assignment is not None:
            ending = Ending(
                job=assignment.job,
                job_id=assignment.job_id,
                due=assignment.due.astimezone(ZoneInfo(assignment.job.timezone)),
                run_id=run_id,
                cause=cause,
                counts=assignment.kind is OccurrenceKind.SCHEDULED,
            )
            with contextlib.suppress(asyncio.CancelledError):
                await self._alerts.ended(ending, at)
        waiting = self._closed.get(run_id)
        if waiting is not None:
            waiting.set()

    def _gone(self, run_id: str) -> None:
        going = self._going.pop(run_id, None)
        if going is not None:
            going.has_composed.set()

    # --- after a restart ------------------------------------------------------------------------------

    async def recover(self, row: RunRow, job: Job | None, *, late: timedelta, incarnation: str) -> None:
        """Decide about one run that an earlier daemon left open (see `RunState`)."""
        at = self._now()
        if row.state is RunState.COMPOSED:
            if job is not None:
                self._known[row.id] = _assignment(row, job)
            await self.delivered(row.id)
            return
        if row.process_group is not None:
            await end_stale_group(row.process_group, row.leader_ticks or 0, row.id, self._sleep)
        if job is None:
            await self._end_left_over(row, None, Outcome.UNKNOWN, "The job is no longer in jobs.yaml.", at)
        elif at - row.due > late and row.kind is OccurrenceKind.SCHEDULED:
            outcome = Outcome.SKIPPED_LATE if row.state is RunState.CLAIMED else Outcome.UNKNOWN
            await self._end_left_over(row, job, outcome, _DIED[row.state], at)
        elif row.state is RunState.COMPOSING and not _may_repeat(row, job):
            await self._end_left_over(row, job, Outcome.UNKNOWN, _DIED[row.state], at)
        else:
            await self._db.write(lambda conn: ledger.adopt(conn, row.id, incarnation))
            self.start(_assignment(row, job))

    async def _end_left_over(self, row: RunRow, job: Job | None, outcome: Outcome, error: str, at: datetime) -> None:
        if job is not None:
            self._known[row.id] = _assignment(row, job)
        if await self._db.write(lambda conn: ledger.close(conn, row.id, outcome, error=error, at=at)):
            await self._after_close(row.id, at)


_DIED = {
    RunState.CLAIMED: "The daemon ended before it began, and it was too late when it was started again.",
    RunState.COMPOSING: "The daemon ended while it ran; whether it did its work is not known.",
}


def _may_repeat(row: RunRow, job: Job) -> bool:
    """A repeatable job has one more try after a crash than `retry` gives it, at least two in all."""
    return job.repeatable and row.attempt < max(job.retry.attempts, 2)


def _assignment(row: RunRow, job: Job) -> Assignment:
    return Assignment(job=job, job_id=row.job_id, run_id=row.id, kind=row.kind, due=row.due)


def _spoken(length: timedelta) -> str:
    seconds = length.total_seconds()
    for unit, size in (("h", 3600), ("m", 60)):
        if seconds >= size and seconds % size == 0:
            return f"{int(seconds // size)}{unit}"
    return f"{seconds:g}s"
