"""What is to be done about the instants that a schedule has named since we last looked: a pure decision.

It covers the span from the job's cursor to now, every instant in it exactly once: with an instant
to run, or with a row that says why it was not run.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import groupby, pairwise
from typing import Protocol

from cron.model import CatchUp, Overlap
from cron.outcomes import Outcome

WALKED = 10_000  # instants of one span that are looked at one by one; beyond, only the newest
REPLAYED = 100  # missed instants that `catch_up: all` runs at most, the newest ones
ROWS = 60  # neighbouring rows with one outcome that may differ in what they say; more of them become one
INSTANT = timedelta(microseconds=1)
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
LATE_MOST = timedelta(hours=2)


class Series(Protocol):
    """What is needed of a schedule; `cron.schedule.Schedule` is one."""

    def without_exclusions(self) -> "Series":
        """Return the same series with its days off put back in."""

    def why_excluded(self, instant: datetime) -> str | None:
        """Return which day off an instant of `without_exclusions()` falls on; None if it falls on none."""

    def next_after(self, instant: datetime) -> datetime | None:
        """Return the first instant strictly later, or None."""

    def latest_until(self, instant: datetime, *, after: datetime) -> datetime | None:
        """Return the newest instant in (after, instant], or None."""

    def between(self, after: datetime, until: datetime, limit: int) -> list[datetime]:
        """Return the instants in (after, until], oldest first, at most `limit`."""

    def period(self, at: datetime) -> timedelta | None:
        """Return the distance of neighbours near `at`; None for a one-shot."""

    @property
    def is_one_shot(self) -> bool:
        """Whether it names single instants, not a rhythm."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause:
    """From when to when a job's occurrences are skipped. `until` None: until somebody resumes it."""

    since: datetime
    until: datetime | None
    by: str

    def holds(self, due: datetime) -> bool:
        """Tell whether an occurrence due then is skipped."""
        return self.since <= due and (self.until is None or due < self.until)


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """The job's rules of lateness. `late` is how late is still useful."""

    late: timedelta
    catch_up: CatchUp = CatchUp.LATEST
    overlap: Overlap = Overlap.SKIP


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedRow:
    """One row of the ledger for instants that are not run: `due` the first, `until` the last of `count`."""

    due: datetime
    outcome: Outcome
    error: str
    late_s: float
    until: datetime | None = None
    count: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What covers the span (cursor, now]: rows and instants to run, disjoint, each oldest first."""

    rows: tuple[PlannedRow, ...]
    due: tuple[datetime, ...]
    cursor: datetime
    next: datetime | None


def default_late(series: Series, at: datetime) -> timedelta:
    """Return how late is still useful where the job does not say: the period, within 1 minute (1 hour for daily
    and rarer, and for one-shots) and 2 hours."""
    period = series.period(at)
    if period is None:
        return HOUR
    least = HOUR if period >= timedelta(hours=20) else MINUTE
    return min(max(period, least), LATE_MOST)


def plan_span(
    series: Series,
    policy: Policy,
    *,
    cursor: datetime,
    now: datetime,
    missed_until: datetime,
    pause: Pause | None = None,
    known: Collection[datetime] = (),
    at_most_one: bool = False,
) -> Plan:
    """Cover (cursor, now]. What was due by `missed_until` (the start, or the wake-up) was missed, the rest is live.

    `known` instants have a row already (the clock was set back): they are left out. `at_most_one`: the clock leapt,
    so nothing but the newest instant is run.
    """
    following = series.next_after(max(cursor, now))
    every = series.without_exclusions()
    instants = every.between(cursor, now, WALKED + 1) if now > cursor else []
    span = _Span(
        series=series,
        policy=policy,
        now=now,
        missed_until=missed_until,
        pause=pause,
        is_one_shot=series.is_one_shot,
        known=frozenset(known),
        at_most_one=at_most_one,
    )
    if len(instants) > WALKED:
        rows, due = span.too_many(every, cursor)
    else:
        rows, due = span.judge(instants)
    return Plan(rows=tuple(_fewer(rows)), due=tuple(due), cursor=max(cursor, now), next=following)


def _fewer(rows: Sequence[PlannedRow]) -> list[PlannedRow]:
    """Put neighbours with one outcome into one row where there are too many of them."""
    return _merged(rows, lambda run: len(run) > ROWS)


def _merged(rows: Sequence[PlannedRow], wants: Callable[[list[PlannedRow]], bool]) -> list[PlannedRow]:
    found: list[PlannedRow] = []
    for _, group in groupby(rows, key=lambda row: row.outcome):
        run = list(group)
        found += [_one_of(run)] if len(run) > 1 and wants(run) else run
    return found


def _one_of(rows: Sequence[PlannedRow]) -> PlannedRow:
    last = rows[-1]
    return replace(rows[0], until=last.until or last.due, count=min(WALKED, sum(row.count for row in rows)))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Span:
    series: Series
    policy: Policy
    now: datetime
    missed_until: datetime
    pause: Pause | None
    is_one_shot: bool
    known: frozenset[datetime]
    at_most_one: bool

    def judge(self, instants: Sequence[datetime]) -> tuple[list[PlannedRow], list[datetime]]:
        """Give every instant its verdict; neighbours with the same one share a row."""
        verdicts = self._verdicts([instant for instant in instants if instant not in self.known])
        rows: list[PlannedRow] = []
        due: list[datetime] = []
        group: list[datetime] = []
        said: tuple[Outcome, str] | None = None
        for instant in instants:
            verdict = verdicts.get(instant)
            if group and verdict != said:
                assert said is not None
                rows.append(self._row(group, *said))
                group = []
            if instant in self.known:
                continue
            if verdict is None:
                due.append(instant)
            else:
                group.append(instant)
                said = verdict
        if group and said is not None:
            rows.append(self._row(group, *said))
        return rows, due

    def too_many(self, every: Series, cursor: datetime) -> tuple[list[PlannedRow], list[datetime]]:
        """Cover a span of more instants than are worth walking: the newest one by one, those before in few rows."""
        newest: list[datetime] = []
        at = every.latest_until(self.now, after=cursor)
        while at is not None and len(newest) < REPLAYED:
            newest.insert(0, at)
            at = every.latest_until(at - INSTANT, after=cursor)
        rows, due = self.judge(newest)
        outcome = Outcome.COALESCED if due or not rows else rows[-1].outcome
        if outcome is Outcome.SKIPPED_PAUSED:
            outcome = Outcome.COALESCED
        if self.policy.catch_up is CatchUp.NONE and newest[0] <= self.missed_until:
            outcome = Outcome.SKIPPED_LATE
        before = [self._bulk(every, *piece, outcome) for piece in pairwise(self._cuts(cursor, newest[0] - INSTANT))]
        # One stretch beyond counting is one row, together with its newest instants where they say the same.
        return _merged([*(row for row in before if row is not None), *rows], lambda run: run[0].count == WALKED), due

    def _cuts(self, since: datetime, until: datetime) -> list[datetime]:
        """Return where the old part of a long span changes its outcome: around pauses, and what is known."""
        edges = {since, until}
        if self.pause is not None:
            edges |= {at - INSTANT for at in (self.pause.since, self.pause.until) if at is not None}
        for at in self.known:
            edges |= {at - INSTANT, at}
        return sorted(edge for edge in edges if since <= edge <= until)

    def _bulk(self, every: Series, after: datetime, until: datetime, outcome: Outcome) -> PlannedRow | None:
        some = every.between(after, until, WALKED)
        if not some or (some == [until] and until in self.known):
            return None
        last = every.latest_until(until, after=after) if len(some) == WALKED else some[-1]
        is_paused = self.pause is not None and self.pause.holds(some[0])
        how_many = f"More than {WALKED} occurrences passed" if len(some) == WALKED else "They passed"
        error = f"{how_many} before the newest."
        if self.pause is not None and is_paused:
            error = f"The job was paused by {self.pause.by}."
        return PlannedRow(
            due=some[0],
            until=last if last != some[0] else None,
            count=len(some),
            outcome=Outcome.SKIPPED_PAUSED if is_paused else outcome,
            error=error,
            late_s=self._late(some[0]).total_seconds(),
        )

    def _verdicts(self, instants: Sequence[datetime]) -> dict[datetime, tuple[Outcome, str]]:
        verdicts: dict[datetime, tuple[Outcome, str]] = {}
        awake: list[datetime] = []
        for instant in instants:
            why = self.series.why_excluded(instant)
            if why is not None:
                verdicts[instant] = (Outcome.SKIPPED_CALENDAR, why)
            elif self.pause is not None and self.pause.holds(instant):
                verdicts[instant] = (Outcome.SKIPPED_PAUSED, f"The job was paused by {self.pause.by}.")
            else:
                awake.append(instant)
        missed = [instant for instant in awake if instant <= self.missed_until]
        live = [instant for instant in awake if instant > self.missed_until]
        runnable = self._judge_live(live, verdicts)
        self._judge_missed(missed, verdicts, has_live=bool(runnable))
        if self.at_most_one:
            left = [instant for instant in awake if instant not in verdicts]
            self._coalesce(left[:-1], left[-1:], verdicts)
        return verdicts

    def _judge_live(self, live: Sequence[datetime], verdicts: dict[datetime, tuple[Outcome, str]]) -> list[datetime]:
        in_time = [instant for instant in live if self._late(instant) <= self.policy.late]
        for instant in live:
            if self._late(instant) > self.policy.late:
                verdicts[instant] = (Outcome.SKIPPED_LATE, f"It was noticed too late; late is {self.policy.late}.")
        if self.policy.overlap in (Overlap.SKIP, Overlap.CANCEL):
            self._coalesce(in_time[:-1], in_time[-1:], verdicts)
        return in_time

    def _judge_missed(
        self,
        missed: Sequence[datetime],
        verdicts: dict[datetime, tuple[Outcome, str]],
        *,
        has_live: bool,
    ) -> None:
        if self.policy.catch_up is CatchUp.NONE:
            for instant in missed:
                verdicts[instant] = (Outcome.SKIPPED_LATE, "It was missed while nothing ran, and catch_up is none.")
        elif self.policy.catch_up is CatchUp.ALL or self.is_one_shot:
            in_time = [instant for instant in missed if self._late(instant) <= self.policy.late]
            for instant in missed:
                if self._late(instant) > self.policy.late:
                    verdicts[instant] = (Outcome.SKIPPED_LATE, f"It was missed by more than {self.policy.late}.")
            self._coalesce(in_time[:-REPLAYED], in_time[-1:], verdicts)
        else:
            kept = [] if has_live else missed[-1:]
            self._coalesce(missed[: len(missed) - len(kept)], kept, verdicts)

    def _coalesce(
        self,
        instants: Sequence[datetime],
        into: Sequence[datetime],
        verdicts: dict[datetime, tuple[Outcome, str]],
    ) -> None:
        which = f"The occurrence at {_stamp(into[-1])}" if into else "A later occurrence"
        for instant in instants:
            verdicts[instant] = (Outcome.COALESCED, f"{which} ran in its place.")

    def _row(self, group: Sequence[datetime], outcome: Outcome, error: str) -> PlannedRow:
        return PlannedRow(
            due=group[0],
            until=group[-1] if len(group) > 1 else None,
            count=len(group),
            outcome=outcome,
            error=error,
            late_s=self._late(group[0]).total_seconds(),
        )

    def _late(self, instant: datetime) -> timedelta:
        return self.now - instant


def _stamp(instant: datetime) -> str:
    return instant.isoformat(timespec="seconds").replace("+00:00", "Z")
