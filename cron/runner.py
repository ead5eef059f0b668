"""Carry out one occurrence: compose, deliver, and close it with its outcome. Seeding happens where receipts land."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from zoneinfo import ZoneInfo

from sqlalchemy import Connection

from cron import ledger
from cron.agents.ports import Agent, BriefRequest, Composed, ComposeFailed
from cron.agents.process import end_stale_group
from cron.alerts import Alerts, Ending
from cron.asking import Asker, spoken
from cron.assignments import DIED, Assignment, left_over, may_repeat
from cron.briefs import brief_context
from cron.ledger import RunRow
from cron.model import AgentKind, AgentSpec, Job, Overlap
from cron.outcomes import OccurrenceKind, Outcome, RunState
from cron.places import Places
from cron.posting import Posting
from cron.redact import Redactor, shortened
from cron.schedule import jitter_for
from delivery import outbox
from delivery.dispatcher import Dispatcher
from delivery.model import DeliveryKind
from delivery.silence import is_silent
from state.clock import Now, Sleep
from state.database import Database

log = logging.getLogger(__name__)

TEMPLATES = 32  # templates that are filled in between two looks at the event loop


class RunCancelled(Exception):
    """Somebody cancelled the run; the message says who. `is_told`: `on_failure` hears of it."""

    def __init__(self, message: str, *, is_told: bool) -> None:
        super().__init__(message)
        self.is_told = is_told


class _TooLate(Exception):
    """The run's turn came when it was no longer useful; the message says why."""


@dataclass(slots=True, kw_only=True)
class _Going:
    assignment: Assignment
    task: asyncio.Task[None]
    stop: RunCancelled | None = None
    is_at_work: bool = False  # an attempt has begun and has not ended
    is_left: bool = False  # the daemon stops: the claim stays, and the next start decides
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
        max_running: int,
        missed_running: int,
    ) -> None:
        self._db = db
        self._asker = Asker(agent)
        self._posting = posting
        self._dispatcher = dispatcher
        self._alerts = alerts
        self._redactor = redactor
        self._now = now
        self._sleep = sleep
        self._places = Places(max_running)
        self._missed_places = Places(missed_running)
        self._templates = Places(TEMPLATES)
        self._going: dict[str, _Going] = {}
        self._closed: dict[str, asyncio.Event] = {}
        self._known: dict[str, Assignment] = {}  # composed, not closed yet

    # --- what others ask ------------------------------------------------------------------------------

    def resize(self, *, max_running: int, missed_running: int) -> None:
        """Let so many runs go on at the same time; those that do go on."""
        self._places.resize(max_running)
        self._missed_places.resize(missed_running)

    def start(self, assignment: Assignment) -> None:
        """Begin a claimed run. A second start of the same run does nothing."""
        if assignment.run_id in self._going:
            return
        task = asyncio.ensure_future(self._carry_out(assignment))
        self._going[assignment.run_id] = _Going(assignment=assignment, task=task, has_composed=asyncio.Event())
        task.add_done_callback(partial(self._gone, assignment.run_id))

    async def cancel(self, run_id: str, by: str) -> bool:
        """End a run that has not composed yet, process group and all; False if there is none."""
        going = self._going.get(run_id)
        if going is None:
            return False
        going.stop = RunCancelled(f"It was cancelled by {by}.", is_told=False)
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

        return await self._asker.ask(request, started)

    async def stop(self, grace: float) -> None:
        """End what is composing: some seconds of grace, then it is interrupted and its row says so.

        What only waits (for its turn, a place, its jitter or its next try) stays claimed: the next start decides.
        """
        for going in self._going.values():
            if not going.is_at_work and not going.has_composed.is_set():
                going.is_left = True
                going.task.cancel()
        tasks = [going.task for going in self._going.values()]
        if not tasks:
            return
        _, late = await asyncio.wait(tasks, timeout=grace)
        for going in list(self._going.values()):
            if going.task in late:
                going.stop = RunCancelled("It was interrupted: the daemon was stopped.", is_told=True)
                going.task.cancel()
        if late:
            await asyncio.wait(late)

    # --- one run --------------------------------------------------------------------------------------

    async def _carry_out(self, assignment: Assignment) -> None:
        logged = {"job": assignment.job.name, "run": assignment.run_id}
        try:
            await self._wait_for_turn(assignment)
            composed = await self._compose(assignment)
            await self._deliver(assignment, composed)
        except asyncio.CancelledError:
            going = self._going[assignment.run_id]
            if not going.is_left:
                stop = going.stop or RunCancelled("It was interrupted: the daemon was stopped.", is_told=True)
                await asyncio.shield(self._interrupt(assignment, stop))
        except _TooLate as late:
            await self._close(assignment, Outcome.SKIPPED_LATE, str(late))
        except ComposeFailed as failed:
            outcome = Outcome.FAILED if failed.is_known else Outcome.UNKNOWN
            await self._close(assignment, outcome, failed.reason, failed.details)
        except Exception as error:  # one occurrence's bug is its own outcome, never another's
            log.exception("A run broke.", extra={"action": "run_broke"} | logged)
            await self._close(assignment, Outcome.FAILED, f"An error inside hermes-cron: {type(error).__name__}.")

    async def _wait_for_turn(self, assignment: Assignment) -> None:
        """Wait for the jitter, and until the runs before this one have composed (`overlap: queue`) or are ended."""
        if assignment.not_before is not None:
            await self._sleep(max(0.0, (assignment.not_before - self._now()).total_seconds()))
        for run_id in assignment.cancels:
            await self.cancel(run_id, "the next occurrence")
        for run_id in assignment.wait_for:
            other = self._going.get(run_id)
            if other is not None and run_id != assignment.run_id:
                composed = asyncio.ensure_future(other.has_composed.wait())
                try:
                    await asyncio.wait([composed, other.task], return_when=asyncio.FIRST_COMPLETED)
                finally:
                    composed.cancel()

    async def _compose(self, assignment: Assignment) -> Composed:
        """Try until a brief is there or the attempts are used up. Raises ComposeFailed, _TooLate."""
        retry, attempt = assignment.job.retry, assignment.attempt
        going = self._going[assignment.run_id]
        is_template = assignment.job.writer.kind is AgentKind.TEXT
        first = self._now()
        while True:
            async with self._place_for(assignment):
                at = self._now()
                if attempt == 0 and assignment.not_after is not None and at > assignment.not_after:
                    raise _TooLate(f"It waited for its turn for longer than {spoken(at - assignment.due)}.")
                attempt += 1
                going.is_at_work = True
                await self._db.write(partial(ledger.begin_attempt, run_id=assignment.run_id, attempt=attempt, at=at))
                try:
                    async with self._templates if is_template else contextlib.nullcontext():
                        return await self._try(assignment, attempt)
                except ComposeFailed as failed:
                    facts = {"action": "attempt_failed", "job": assignment.job.name, "run": assignment.run_id}
                    reason = shortened(self._redactor().redact(failed.reason))
                    log.warning("An attempt failed.", extra=facts | {"attempt": attempt, "reason": reason})
                    again = self._now() + retry.wait
                    is_useful = assignment.late is None or again <= max(assignment.due, first) + assignment.late
                    if not failed.is_transient or attempt >= retry.attempts or not is_useful:
                        raise
            # Nothing works on it now: should the daemon end here, the next one makes the tries that are left.
            await self._db.write(partial(ledger.await_retry, run_id=assignment.run_id))
            going.is_at_work = False
            await self._sleep(retry.wait.total_seconds())

    @contextlib.asynccontextmanager
    async def _place_for(self, assignment: Assignment) -> AsyncIterator[None]:
        """Wait for a place. A template needs none: it calls nobody."""
        async with contextlib.AsyncExitStack() as stack:
            if assignment.is_missed:
                await stack.enter_async_context(self._missed_places)
            if assignment.job.writer.kind is not AgentKind.TEXT:
                await stack.enter_async_context(self._places)
            yield

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

        return await self._asker.ask(request, started)

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
        for new in news:
            if new.error is not None:
                facts = {"action": "delivery_failed", "job": job.name, "run": run_id, "delivery": new.id}
                log.error("A delivery failed.", extra=facts | {"target": new.target, "reason": new.error})
        log.info("A brief was composed.", extra={"action": "brief_composed", "job": job.name, "run": run_id})
        self._dispatcher.wake()
        await self.delivered(run_id)  # closes at once what has nothing to send

    # --- endings --------------------------------------------------------------------------------------

    async def _close(
        self,
        assignment: Assignment,
        outcome: Outcome,
        error: str | None,
        details: Mapping[str, object] | None = None,
        *,
        is_told: bool = True,
    ) -> None:
        at = self._now()
        said = None if error is None else shortened(self._redactor().redact(error))
        run_id, shown = assignment.run_id, self._shown(details or {})
        self._known[run_id] = assignment
        if await self._db.write(lambda conn: ledger.close(conn, run_id, outcome, error=said, at=at, details=shown)):
            await self._after_close(run_id, at, is_told=is_told)

    def _shown(self, details: Mapping[str, object]) -> dict[str, object]:
        """A command's last words may hold a secret as well as its brief."""
        return {key: self._redactor().redact_value(value) for key, value in details.items()}

    async def _interrupt(self, assignment: Assignment, stop: RunCancelled) -> None:
        """Close as failed what has not composed; a brief that is stored already is delivered all the same."""
        row = await self._db.read(lambda conn: ledger.run_by_id(conn, assignment.run_id))
        if row is not None and row.state is not RunState.COMPOSED:
            await self._close(assignment, Outcome.FAILED, str(stop), is_told=stop.is_told)

    async def _after_close(self, run_id: str, at: datetime, *, is_told: bool = True) -> None:
        """Log and tell how a run ended, and let those go on who waited for it."""
        assignment = self._known.pop(run_id, None)
        outcome, cause = await self._db.read(lambda conn: ledger.ending(conn, run_id))
        extra = {"action": "run_closed", "run": run_id, "outcome": outcome}
        log.info("A run ended.", extra=extra | ({"job": assignment.job.name} if assignment else {}))
        if assignment is not None and is_told:
            ending = Ending(
                job=assignment.job,
                job_id=assignment.job_id,
                due=assignment.due.astimezone(ZoneInfo(assignment.job.timezone)),
                run_id=run_id,
                cause=cause,
                is_in_streak=assignment.kind is OccurrenceKind.SCHEDULED and outcome is not Outcome.SKIPPED_LATE,
            )
            with contextlib.suppress(asyncio.CancelledError):
                await self._alerts.ended(ending, at)
        waiting = self._closed.get(run_id)
        if waiting is not None:
            waiting.set()

    def _gone(self, run_id: str, task: asyncio.Task[None]) -> None:
        going = self._going.pop(run_id, None)
        if going is not None:
            going.has_composed.set()
        error = None if task.cancelled() else task.exception()
        if error is not None:  # not even the failure could be written down: the next start decides
            log.error("A run's end was not stored.", exc_info=error, extra={"action": "run_unsettled", "run": run_id})

    # --- after a restart ------------------------------------------------------------------------------

    async def recover(self, row: RunRow, job: Job | None, *, late: timedelta, incarnation: str) -> None:
        """Decide about one run that an earlier daemon left open (see `RunState`)."""
        at = self._now()
        if row.state is RunState.COMPOSED:
            if job is not None:
                self._known[row.id] = left_over(row, job)
            await self.delivered(row.id)
            return
        if row.process_group is not None:
            await end_stale_group(row.process_group, row.leader_ticks or 0, row.id, self._sleep)
        if job is None:
            await self._end_left_over(row, None, Outcome.UNKNOWN, "The job is no longer in jobs.yaml.", at)
        elif at - row.due > late + job.jitter and row.kind is OccurrenceKind.SCHEDULED:
            outcome = Outcome.SKIPPED_LATE if row.state is RunState.CLAIMED else Outcome.UNKNOWN
            await self._end_left_over(row, job, outcome, DIED[row.state], at)
        elif row.state is RunState.COMPOSING and not may_repeat(row, job):
            await self._end_left_over(row, job, Outcome.UNKNOWN, DIED[row.state], at)
        else:
            await self._db.write(lambda conn: ledger.adopt(conn, row.id, incarnation))
            before = frozenset() if job.overlap is Overlap.ALLOW else frozenset(self.composing(row.job_id))
            begins = row.due + jitter_for(row.job_id, row.due, job.jitter)
            self.start(replace(left_over(row, job), wait_for=before, not_before=begins, late=late, is_missed=True))

    async def _end_left_over(self, row: RunRow, job: Job | None, outcome: Outcome, error: str, at: datetime) -> None:
        if job is not None:
            self._known[row.id] = left_over(row, job)
        if await self._db.write(lambda conn: ledger.close(conn, row.id, outcome, error=error, at=at)):
            await self._after_close(row.id, at)
