"""Rules: each is one strictly increasing series of instants, asked forwards and backwards.

A cron rule is stepped by cronsim in naive wall time, where it is exact; which of those wall times exist, which
come twice and at which instant they come is decided here, stretch by stretch (`cron.schedules.wallclock`).
"""

import contextlib
import copy
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import lru_cache
from typing import Protocol
from zoneinfo import ZoneInfo

from cronsim import CronSim

from cron.schedules.days import Days
from cron.schedules.fields import CronExpression
from cron.schedules.wallclock import INSTANT, Stretch, day_bounds, stretches_back, stretches_from

_FAR = timedelta(days=60 * 366)  # no leap day on a given weekday is further away than 40 years


class ScheduleKind(StrEnum):
    """Where a schedule's instants come from; a mixed one is named by the first of these that it has."""

    CRON = "cron"
    INTERVAL = "interval"
    ONCE = "once"


class RepeatedHour(StrEnum):
    """What becomes of a fixed wall time that the clock shows twice."""

    ONCE = "once"
    BOTH = "both"


class Rule(Protocol):
    """One series. All instants are aware and in UTC; the series is strictly increasing and never changes."""

    @property
    def text(self) -> str:
        """The canonical text, without any zone."""

    @property
    def zone(self) -> ZoneInfo:
        """The zone whose wall clock and calendar the rule means."""

    @property
    def kind(self) -> ScheduleKind:
        """The rule's sort."""

    def next_after(self, instant: datetime) -> datetime | None:
        """Return the first occurrence strictly later than `instant`, or None when there is none."""

    def latest_until(self, instant: datetime, *, after: datetime) -> datetime | None:
        """Return the newest occurrence in (after, instant], or None."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OnceRule:
    """A single instant."""

    text: str
    zone: ZoneInfo
    at: datetime

    @property
    def kind(self) -> ScheduleKind:
        return ScheduleKind.ONCE

    def next_after(self, instant: datetime) -> datetime | None:
        return self.at if self.at > instant else None

    def latest_until(self, instant: datetime, *, after: datetime) -> datetime | None:
        return self.at if after < self.at <= instant else None


@dataclass(frozen=True, slots=True, kw_only=True)
class IntervalRule:
    """anchor + k × period of elapsed time, for k = `first` (0 or 1), and on; a run's length moves nothing."""

    text: str
    zone: ZoneInfo
    anchor: datetime
    period: timedelta
    first: int

    @property
    def kind(self) -> ScheduleKind:
        return ScheduleKind.INTERVAL

    def next_after(self, instant: datetime) -> datetime | None:
        step = max(self.first, (instant - self.anchor) // self.period + 1)
        try:
            return self.anchor + step * self.period
        except OverflowError:
            return None

    def latest_until(self, instant: datetime, *, after: datetime) -> datetime | None:
        step = (instant - self.anchor) // self.period
        found = self.anchor + step * self.period if step >= self.first else None
        return found if found is not None and found > after else None


@dataclass(frozen=True, slots=True, kw_only=True)
class CronRule:
    """A crontab expression on the wall clock of a zone.

    A fixed time (minute and hour free of `*`) that is skipped fires at the first minute after the gap, once for
    all that are skipped together, and one that comes twice fires the first time, or both. Any other expression
    fires whenever the clock shows a matching time.
    """

    expression: CronExpression
    zone: ZoneInfo
    repeated_hour: RepeatedHour

    @property
    def text(self) -> str:
        return self.expression.text

    @property
    def kind(self) -> ScheduleKind:
        return ScheduleKind.CRON

    def next_after(self, instant: datetime) -> datetime | None:
        matches = _Forwards(self.expression.steps)
        for stretch in _within(_FAR, stretches_from(self.zone, instant), instant):
            asked = stretch.wall(instant)
            found = [wall for wall in self._first(stretch, asked, matches) if asked < wall < stretch.closes]
            if found:
                return stretch.instant(min(found))
            if matches.ended:
                return None
        return None

    def series_after(self, instant: datetime) -> Iterator[datetime]:
        """Yield what `next_after` gives when it is asked again and again, several times as fast."""
        found = self.next_after(instant)
        while found is not None:
            yield found
            # Inside a stretch nothing is skipped or comes twice: what cronsim names is due, as it stands.
            stretch = next(stretches_from(self.zone, found))
            for wall in _walk(self.expression.steps, stretch.wall(found)):
                if wall >= stretch.closes:
                    break
                found = stretch.instant(wall)
                yield found
            found = self.next_after(found)

    def latest_until(self, instant: datetime, *, after: datetime) -> datetime | None:
        matches = _Backwards(self.expression.steps)
        for stretch in _within(_FAR, stretches_back(self.zone, instant), instant):
            if stretch.end <= after or matches.ended:
                return None
            asked = stretch.wall(instant)
            found = [wall for wall in self._last(stretch, asked, matches) if wall <= asked and wall < stretch.closes]
            if found:
                newest = stretch.instant(max(found))
                return newest if newest > after else None
        return None

    def _first(self, stretch: Stretch, asked: datetime, matches: "_Forwards") -> Iterator[datetime]:
        """Yield what may be the first wall time after `asked` here: what the gap owes, the next match."""
        if self._owes_a_gap(stretch) and asked < stretch.first_minute:
            skipped = matches.after(stretch.seen_until - INSTANT)
            if skipped is not None and skipped < stretch.opens:
                yield stretch.first_minute
        match = matches.after(max(asked, self._floor(stretch) - INSTANT))
        if match is not None:
            yield match

    def _last(self, stretch: Stretch, asked: datetime, matches: "_Backwards") -> Iterator[datetime]:
        """Yield what may be the last wall time until `asked` here: the match before it, what the gap owes."""
        match = matches.before(min(asked + INSTANT, stretch.closes))
        if match is not None and match >= self._floor(stretch):
            yield match
            if match >= stretch.first_minute:
                return
        if self._owes_a_gap(stretch):
            skipped = matches.before(stretch.opens)
            if skipped is not None and skipped >= stretch.seen_until:
                yield stretch.first_minute

    def _owes_a_gap(self, stretch: Stretch) -> bool:
        return self.expression.is_fixed and stretch.seen_until < stretch.opens

    def _floor(self, stretch: Stretch) -> datetime:
        """Return the first wall time of the stretch that counts as an occurrence."""
        if self.expression.is_fixed and self.repeated_hour is RepeatedHour.ONCE:
            return max(stretch.opens, stretch.seen_until)
        return stretch.opens


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkedRule:
    """The times of a weekly rule on some other days: a Saturday that is worked. It never stands alone."""

    rule: CronRule
    days: Days

    @property
    def text(self) -> str:
        return "and at those times on the days that `also` names"

    @property
    def zone(self) -> ZoneInfo:
        return self.rule.zone

    @property
    def kind(self) -> ScheduleKind:
        return ScheduleKind.CRON

    def next_after(self, instant: datetime) -> datetime | None:
        day = self.days.worked_from(instant.astimezone(self.zone).date())
        while day is not None:
            start, end = day_bounds(self.zone, day)
            found = self.rule.next_after(max(instant, start - INSTANT))
            if found is not None and found < end:
                return found
            day = self.days.worked_from(day + timedelta(days=1))
        return None

    def latest_until(self, instant: datetime, *, after: datetime) -> datetime | None:
        day = self.days.worked_until(instant.astimezone(self.zone).date())
        while day is not None:
            start, end = day_bounds(self.zone, day)
            if end <= after:
                return None
            found = self.rule.latest_until(min(instant, end - INSTANT), after=max(after, start - INSTANT))
            if found is not None:
                return found
            day = self.days.worked_until(day - timedelta(days=1))
        return None


class _Forwards:
    """The next match in naive wall time; cronsim is asked again only where its last answer does not hold."""

    def __init__(self, steps: str) -> None:
        self._steps = steps
        self._asked: datetime | None = None
        self._match: datetime | None = None
        self.ended = False

    def after(self, wall: datetime) -> datetime | None:
        known = self._asked is not None and self._match is not None and self._asked <= wall < self._match
        if not known:
            self._asked, self._match = wall, _step(self._steps, wall, backwards=False)
            self.ended = self._match is None
        return self._match


class _Backwards:
    """The match before, in naive wall time."""

    def __init__(self, steps: str) -> None:
        self._steps = steps
        self._asked: datetime | None = None
        self._match: datetime | None = None
        self.ended = False

    def before(self, wall: datetime) -> datetime | None:
        known = self._asked is not None and self._match is not None and self._match < wall <= self._asked
        if not known:
            self._asked, self._match = wall, _step(self._steps, wall, backwards=True)
            self.ended = self._match is None
        return self._match


def _step(steps: str, wall: datetime, *, backwards: bool) -> datetime | None:
    """Return the match strictly after (before) a naive wall time; None if there is none within fifty years."""
    sim = copy.copy(_parsed(steps))
    sim.dt = wall.replace(microsecond=0)
    sim.tick_direction = -1 if backwards else 1
    sim.skip_initial_tick = backwards and wall.microsecond > 0
    try:
        return next(sim)
    except (StopIteration, OverflowError):
        return None


def _walk(steps: str, wall: datetime) -> Iterator[datetime]:
    """Yield the matches strictly after a naive wall time."""
    sim = copy.copy(_parsed(steps))
    sim.dt = wall.replace(microsecond=0)
    sim.tick_direction = 1
    sim.skip_initial_tick = False
    with contextlib.suppress(StopIteration, OverflowError):
        while True:
            yield next(sim)


@lru_cache(maxsize=4096)
def _parsed(steps: str) -> CronSim:
    return CronSim(steps, datetime(2000, 1, 1))  # noqa: DTZ001 - naive wall time: cronsim is exact there


def _within(far: timedelta, stretches: Iterator[Stretch], instant: datetime) -> Iterator[Stretch]:
    for stretch in stretches:
        if stretch.start - instant > far or instant - stretch.end > far:
            return
        yield stretch


def utc(instant: datetime) -> datetime:
    """Return an aware instant in UTC; raise ValueError for a naive one, which names no instant."""
    if instant.tzinfo is None:
        raise ValueError(f"{instant.isoformat()} has no time zone")
    return instant.astimezone(UTC)
