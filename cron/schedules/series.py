"""A schedule: one or more rules merged into one strictly increasing series, with its bounds and days off."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timedelta
from itertools import islice, pairwise, takewhile
from zoneinfo import ZoneInfo

from cron.schedules.days import Days, listed_days
from cron.schedules.describe import describe_rule
from cron.schedules.errors import ScheduleError
from cron.schedules.grammar import Context, parse_text
from cron.schedules.rules import CronRule, RepeatedHour, Rule, ScheduleKind, WorkedRule, utc
from cron.schedules.wallclock import INSTANT, day_bounds

_MOST_TIMES = 10_000
_NEIGHBOURS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """When a job is due. Every instant taken must be aware (ValueError otherwise); every instant given is in UTC.

    `text` is canonical: parsing it again, with the same zone, anchor and options, gives an equal schedule. `zone` is
    the one that the texts agree on (a `CRON_TZ=` among them), else the job's. Occurrences lie in (`begins`, `ends`]
    where these are set, and not on the local dates in `excluded`, each counted in the rule's own zone.
    """

    text: str
    zone: ZoneInfo
    kind: ScheduleKind
    rules: tuple[Rule, ...]
    begins: datetime | None = None
    ends: datetime | None = None
    excluded: Days = field(default_factory=Days)

    def next_after(self, instant: datetime) -> datetime | None:
        """Return the first occurrence strictly later than `instant`, or None when the series has ended."""
        asked = utc(instant)
        if self.begins is not None:
            asked = max(asked, self.begins)
        found = _least(self._next_of(rule, asked) for rule in self.rules)
        return found if found is not None and (self.ends is None or found <= self.ends) else None

    def latest_until(self, instant: datetime, *, after: datetime) -> datetime | None:
        """Return the newest occurrence in (after, instant], or None; stepped backwards, so fast after years too."""
        newest, oldest = utc(instant), utc(after)
        if self.ends is not None:
            newest = min(newest, self.ends)
        if self.begins is not None:
            oldest = max(oldest, self.begins)
        if newest <= oldest:
            return None
        found = [self._latest_of(rule, newest, oldest) for rule in self.rules]
        return max((at for at in found if at is not None), default=None)

    def between(self, after: datetime, until: datetime, limit: int) -> list[datetime]:
        """Return the occurrences in (after, until], oldest first, at most `limit` of them."""
        last = utc(until)
        if len(self.rules) == 1 and isinstance(self.rules[0], CronRule) and not self.excluded:
            return self._between(self.rules[0], utc(after), last, limit)
        found = list[datetime]()
        at = self.next_after(after)
        while at is not None and at <= last and len(found) < limit:
            found.append(at)
            at = self.next_after(at)
        return found

    def _between(self, rule: CronRule, after: datetime, last: datetime, limit: int) -> list[datetime]:
        """Do what `between` does for the usual schedule, in one walk."""
        asked = after if self.begins is None else max(after, self.begins)
        last = last if self.ends is None else min(last, self.ends)
        upcoming = takewhile(lambda instant: instant <= last, rule.series_after(asked))
        return list(islice(upcoming, limit))

    def period(self, at: datetime) -> timedelta | None:
        """Return the smallest distance between neighbours near `at`; None where there are no two neighbours.

        Taken from the last occurrence until `at` and the next five. One-shots have no period, whatever their number.
        """
        if self.kind is ScheduleKind.ONCE:
            return None
        asked = utc(at)
        near = self._newest(asked, 1) + self._coming(asked, _NEIGHBOURS)
        if len(near) < 2:
            near = self._newest(asked, 2)
        return min((later - earlier for earlier, later in pairwise(near)), default=None)

    @property
    def is_one_shot(self) -> bool:
        """Whether it names single instants, not a rhythm."""
        return self.kind is ScheduleKind.ONCE

    def is_excluded(self, instant: datetime) -> bool:
        """Whether `instant`, an occurrence of `without_exclusions()`, falls on a day off."""
        return self.why_excluded(instant) is not None

    def why_excluded(self, instant: datetime) -> str | None:
        """Return which day off an instant of `without_exclusions()` falls on; None if it falls on none."""
        if not self.excluded:
            return None
        why: str | None = None
        for rule in self.rules:
            if rule.latest_until(utc(instant), after=utc(instant) - INSTANT) is not None:
                why = self.excluded.reason(instant.astimezone(rule.zone).date())
                if why is None:
                    return None
        return why

    def without_exclusions(self) -> "Schedule":
        """Return the series with its days off left in, to tell which occurrences they took."""
        return replace(self, excluded=Days())

    def describe(self) -> str:
        """Say in English when it is due, with the zone."""
        said = "; ".join(dict.fromkeys(describe_rule(rule, self.zone) for rule in self.rules))
        return f"{said} ({self.zone.key})"

    def _next_of(self, rule: Rule, asked: datetime) -> datetime | None:
        found = rule.next_after(asked)
        while found is not None and self._is_day_off(found, rule):
            _, end = day_bounds(rule.zone, found.astimezone(rule.zone).date())
            found = rule.next_after(max(found, end - INSTANT))
        return found

    def _latest_of(self, rule: Rule, newest: datetime, oldest: datetime) -> datetime | None:
        found = rule.latest_until(newest, after=oldest)
        while found is not None and self._is_day_off(found, rule):
            start, _ = day_bounds(rule.zone, found.astimezone(rule.zone).date())
            found = rule.latest_until(min(found, start) - INSTANT, after=oldest)
        return found

    def _is_day_off(self, instant: datetime, rule: Rule) -> bool:
        return bool(self.excluded) and instant.astimezone(rule.zone).date() in self.excluded

    def _coming(self, at: datetime, count: int) -> list[datetime]:
        found = list[datetime]()
        following = self.next_after(at)
        while following is not None and len(found) < count:
            found.append(following)
            following = self.next_after(following)
        return found

    def _newest(self, at: datetime, count: int) -> list[datetime]:
        found = list[datetime]()
        oldest = datetime.min.replace(tzinfo=at.tzinfo)
        before = self.latest_until(at, after=oldest)
        while before is not None and len(found) < count:
            found.insert(0, before)
            before = self.latest_until(before - INSTANT, after=oldest)
        return found


def parse_schedule(
    texts: str | Sequence[str],
    *,
    zone: ZoneInfo,
    anchor: datetime,
    repeated_hour: RepeatedHour = RepeatedHour.ONCE,
    start: datetime | None = None,
    end: datetime | None = None,
    times: int | None = None,
    excluded: Iterable[date] | Days = (),
    also: Days | None = None,
) -> Schedule:
    """Read a job's schedule: one text (`;` separates several) or several, merged into one series.

    `anchor` is where intervals and `in` count from; with `start`, intervals begin there instead. `start` and `end`
    are inclusive; `times` ends the series after so many occurrences, counted from `start` or after the anchor.
    `also` are days on which what is due by weekday is due as well, such as a Saturday that is worked.
    Raises ScheduleError, its `text` and `column` naming the place; ValueError for naive datetimes.
    """
    context = Context(
        zone=zone,
        anchor=utc(anchor if start is None else start),
        read_at=utc(anchor),
        anchor_counts=start is not None,
        repeated_hour=repeated_hour,
    )
    named = _rules(texts, context)
    rules = (*named, *_worked(named, also)) if also else named
    zones = {rule.zone for rule in rules}
    schedule = Schedule(
        text="; ".join(_with_zone(rule, zone) for rule in named),
        zone=zones.pop() if len(zones) == 1 else zone,
        kind=next(kind for kind in ScheduleKind if any(rule.kind is kind for rule in rules)),
        rules=rules,
        begins=None if start is None else utc(start) - INSTANT,
        ends=None if end is None else utc(end),
        excluded=excluded if isinstance(excluded, Days) else listed_days(excluded),
    )
    _refuse_empty(schedule, start, end)
    return schedule if times is None else _limited(schedule, times, context)


def _rules(texts: str | Sequence[str], context: Context) -> tuple[Rule, ...]:
    given = [texts] if isinstance(texts, str) else list(texts)
    found: dict[Rule, None] = {}  # the same rule twice is one
    for text in given:
        shift = 0
        for part in text.split(";"):
            try:
                found |= dict.fromkeys(parse_text(part, context))
            except ScheduleError as error:
                raise error.placed_in(text, shift) from error.__cause__
            shift += len(part) + 1
    if not found:
        raise ScheduleError("the list of schedules is empty; write at least one, such as 0 9 * * 1-5")
    return tuple(found)


def _worked(rules: Iterable[Rule], days: Days) -> Iterator[Rule]:
    weekly = [rule for rule in rules if isinstance(rule, CronRule) and rule.expression.is_weekly]
    if not weekly:
        raise ScheduleError("`also` is for schedules by weekday, such as 0 9 * * 1-5; remove it here")
    for rule in weekly:
        yield WorkedRule(rule=replace(rule, expression=rule.expression.on_every_day()), days=days)


def _with_zone(rule: Rule, zone: ZoneInfo) -> str:
    return rule.text if rule.zone is zone else f"CRON_TZ={rule.zone.key} {rule.text}"


def _refuse_empty(schedule: Schedule, start: datetime | None, end: datetime | None) -> None:
    if start is not None and end is not None and end < start:
        raise ScheduleError("the schedule ends before it starts; write an end that is later than the start")


def _limited(schedule: Schedule, times: int, context: Context) -> Schedule:
    """Find the instant at which a series of so many occurrences ends."""
    if not 1 <= times <= _MOST_TIMES:
        raise ScheduleError(f"times is {times}; write a number from 1 to {_MOST_TIMES}, or an end instead")
    begins = schedule.begins or context.read_at
    limited, at = replace(schedule, begins=begins), begins
    for _ in range(times):
        following = limited.next_after(at)
        if following is None:
            return limited
        at = following
    return replace(limited, ends=at)


def _least(found: Iterable[datetime | None]) -> datetime | None:
    return min((at for at in found if at is not None), default=None)
