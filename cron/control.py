"""What people may do to a running daemon: one verb each, the same for the page, the chat and the command line."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from cron import ledger, views
from cron.agents.ports import BriefRequest, Composed, ComposeFailed
from cron.briefs import brief_context
from cron.checkup import check_up
from cron.deciding import Planned
from cron.elsewhere import Conversations, NoSuchConversation
from cron.model import Config
from cron.outcomes import Outcome
from cron.planner import Planner
from cron.posting import Posting
from cron.redact import Redactor
from cron.runner import Runner
from cron.span import INSTANT
from cron.watching import DeliveryWatch
from delivery import doubts, outbox
from delivery.dispatcher import Dispatcher
from delivery.model import DeliveryKind, DeliveryState
from delivery.outbox import OutboxError, Verdict
from delivery.ports import Platform, Settlement
from delivery.targets import TargetError
from seeding import sessions
from seeding.ports import AnswerFailed
from state.clock import Now
from state.database import Database

LONGEST_SNOOZE = timedelta(days=3_660)


class ControlError(ValueError):
    """The request is wrong, or names what does not exist. The message is one sentence with the way out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Control:
    """The verbs. Each names who asked (`by`), is durable when it returns, and raises ControlError on bad input."""

    db: Database
    config: Callable[[], Config]
    config_mistakes: Callable[[], tuple[str, ...]]
    platforms: Callable[[], Mapping[str, Platform]]
    planner: Planner
    runner: Runner
    posting: Posting
    dispatcher: Dispatcher
    redactor: Callable[[], Redactor]
    settlement: Settlement
    watcher: DeliveryWatch
    conversations: Conversations
    now: Now

    async def trigger(self, job: str, *, at: datetime | None = None, to: Sequence[str] = ()) -> str:
        """Start a manual run now, or replay the occurrence that was due `at`; return its id.

        `to`: other targets than the job's.
        """
        planned = self._planned(job)
        for text in to:
            try:
                self.config().target(text)
            except TargetError as error:
                raise ControlError(str(error)) from error
        if at is not None:
            await self._check_due(planned, at)
        return await self.planner.trigger(planned.row.id, replayed=at, deliver=tuple(to) or None)

    async def wait(self, run_id: str) -> dict[str, Any]:
        """Wait until a run has its outcome; return its row in the shape of `runs`."""
        await self.runner.wait_closed(run_id)
        row = await self.db.read(lambda conn: views.one_run(conn, run_id))
        if row is None:
            raise ControlError(f"There is no run {run_id!r}; `hermes-cron runs` lists them.")
        return row

    async def dry_run(self, job: str) -> str:
        """Compose a brief and return it; nothing is stored, posted or seeded. Raises ComposeFailed."""
        planned = self._planned(job)
        at = self.now()
        previous, context = await self.db.read(lambda conn: brief_context(conn, planned.job, planned.row.id))
        due = at.astimezone(ZoneInfo(planned.job.timezone))
        request = BriefRequest(job=planned.job, due=due, run_id="dry-run", previous=previous, context=context)
        try:
            composed: Composed = await self.runner.compose_once(request)
        except ComposeFailed as failed:
            reason = self.redactor().redact(failed.reason)
            raise ComposeFailed(reason, is_transient=failed.is_transient) from failed
        return self.redactor().redact(composed.text)

    async def pause(self, job: str, *, by: str, until: datetime | None = None) -> None:
        """Skip a job's occurrences from now on, until an instant or until somebody resumes it."""
        if until is not None and until <= self.now():
            raise ControlError(f"{until.isoformat()} has passed; give an instant in the future, or none at all.")
        await self.planner.pause(self._planned(job).row.id, until=until, by=by)

    async def snooze(self, job: str, length: timedelta, *, by: str) -> datetime:
        """Skip a job's occurrences for a while; return when it goes on."""
        if not timedelta(0) < length <= LONGEST_SNOOZE:
            raise ControlError("A snooze is longer than nothing and at most ten years, such as 2h.")
        until = self.now() + length
        await self.planner.pause(self._planned(job).row.id, until=until, by=f"snooze, {by}")
        return until

    async def resume(self, job: str) -> None:
        """End a pause or snooze. Nothing that it covered is run."""
        await self.planner.resume(self._planned(job).row.id)

    async def cancel(self, run_id: str, *, by: str) -> None:
        """End a run that composes, process group and all."""
        if not await self.runner.cancel(run_id, by):
            row = await self.db.read(lambda conn: ledger.run_by_id(conn, run_id))
            if row is None:
                raise ControlError(f"There is no run {run_id!r}; `hermes-cron runs` lists them.")
            raise ControlError(f"Run {run_id} is {row.state}; only one that composes can be cancelled.")

    async def resend(self, run_id: str, target: str | None = None) -> int:
        """Send a composed brief again where its delivery failed; return how many deliveries that is."""
        sent = await self._outbox(partial(doubts.resend, run_id=run_id, target=target, at=self.now()))
        return len(sent)

    async def resolve(self, delivery_id: str, verdict: Verdict) -> None:
        """Settle a delivery in doubt: it was sent, or send it again."""
        await self._outbox(
            partial(doubts.resolve, delivery_id=delivery_id, verdict=verdict, at=self.now(), settlement=self.settlement)
        )

    async def forget(self, session_id: str) -> None:
        """Remove a conversation and its keys."""
        if not await self.db.write(lambda conn: sessions.forget(conn, session_id)):
            raise ControlError(f"There is no session {session_id!r}; `hermes-cron sessions` lists them.")

    async def send(self, target: str, text: str) -> dict[str, Any]:
        """Say something now, in the agent's own voice, and mirror it; return the delivery when it has ended."""
        said = self.redactor().redact(text).strip()
        if not said:
            raise ControlError("There is nothing to send: the text is empty.")
        news = await self.posting.prepare(said, [target], kind=DeliveryKind.SEND, job=None, continues=True)
        if news[0].error is not None:
            raise ControlError(news[0].error)
        at = self.now()
        await self.db.write(lambda conn: outbox.enqueue(conn, news, at=at))
        self.dispatcher.wake()
        return await self.watcher.ended(str(news[0].id))

    async def ask(self, session_id: str, text: str, *, author: str, home: Path | None = None) -> str:
        """Ask the agent of a session (of another home, if one is named); both turns are stored there, nothing is
        posted. Returns the answer."""
        if not text.strip():
            raise ControlError("There is nothing to ask: the text is empty.")
        try:
            return await self.conversations.ask(home, session_id, text.strip(), author=author)
        except NoSuchConversation as missing:
            raise ControlError(str(missing)) from missing
        except AnswerFailed as failed:
            raise ControlError(failed.reason) from failed

    async def doctor(self) -> list[dict[str, Any]]:
        """Look at the file, the zone, the database, every account and every target; post nothing."""
        found = await check_up(self.config(), self.platforms(), self.db, mistakes=self.config_mistakes(), at=self.now())
        return [{key: self.redactor().redact_value(value) for key, value in one.items()} for one in found]

    async def recent_troubles(self, limit: int = 5) -> list[dict[str, Any]]:
        """Return the newest rows in which something went wrong, newest first."""
        rows = await self.db.read(lambda conn: views.list_runs(conn, limit=200))
        return [row for row in rows if views.trouble(row)][:limit]

    async def _check_due(self, planned: Planned, at: datetime) -> None:
        """Refuse to replay what was never due."""
        every, now = planned.schedule.without_exclusions(), self.now()
        shown = at.astimezone(planned.schedule.zone).isoformat()
        if at > now:
            raise ControlError(f"{shown} has not come yet; only what was due can be replayed.")
        if every.latest_until(at, after=at - INSTANT) is not None:
            return
        if await self.db.read(lambda conn: ledger.covers(conn, planned.row.id, at)):
            return
        near = every.latest_until(at, after=at - timedelta(days=400))
        last = "" if near is None else f"; it was at {near.astimezone(planned.schedule.zone).isoformat()}"
        raise ControlError(f"{planned.job.name} was not due at {shown}{last}. `hermes-cron runs` shows what was.")

    def _planned(self, job: str) -> Planned:
        planned = self.planner.by_name(job)
        if planned is not None:
            return planned
        if job in self.config().jobs:
            raise ControlError(f"The job {job!r} is disabled in jobs.yaml; set `enabled: true` first.")
        raise ControlError(unknown_job(job, self.config()))

    async def _outbox(self, fn: Callable[[Any], Any]) -> Any:
        try:
            done = await self.db.write(fn)
        except OutboxError as error:
            raise ControlError(str(error)) from error
        self.dispatcher.wake()
        return done


def unknown_job(job: str, config: Config) -> str:
    """Say that there is no such job, and which there are."""
    close = get_close_matches(job, config.jobs, n=1)
    hint = f"did you mean {close[0]!r}?" if close else "`hermes-cron list` shows the jobs."
    return f"There is no job {job!r} in {config.path.name}; {hint}"


def is_good(row: dict[str, Any]) -> bool:
    """Tell whether a run's row is what `trigger --wait` calls success: silent, or ran with every delivery sent."""
    if row["outcome"] == Outcome.SILENT:
        return True
    arrived = all(one["state"] == DeliveryState.SENT for one in row["deliveries"])
    return row["outcome"] == Outcome.RAN and arrived
