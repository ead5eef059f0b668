"""A slow and simple judge of crontab schedules: walk every minute of UTC, look at the wall clock, match the fields.

It shares no code with the product and uses no cron library. Good for zones whose offsets are whole minutes.
"""

import calendar
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo, available_timezones

MINUTE = timedelta(minutes=1)
DAY = timedelta(days=1)
_DAYS = {name: n for n, name in enumerate(("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"))}
_MONTHS = {
    name: n
    for n, name in enumerate(("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"), 1)
}


def _numbers(field: str, low: int, high: int, names: dict[str, int] | None = None) -> set[int]:
    names = names or {}
    found: set[int] = set()
    for term in field.upper().split(","):
        span, _, step = term.partition("/")
        if span == "*":
            first, last = low, high
        elif "-" in span:
            first, last = (names[part] if part in names else int(part) for part in span.split("-"))
        else:
            first = names[span] if span in names else int(span)
            last = high if step else first
        found |= set(range(first, last + 1, int(step or 1)))
    return found


class Matcher:
    """Which naive wall times five fields name: numbers, names, lists, ranges, steps, L, LW, 5L and 5#2."""

    def __init__(self, expression: str) -> None:
        minute, hour, self._day, month, self._weekday = expression.upper().split()
        self.is_fixed = "*" not in minute + hour
        self._minutes, self._hours = _numbers(minute, 0, 59), _numbers(hour, 0, 23)
        self._months = _numbers(month, 1, 12, _MONTHS)
        self._both = self._day.startswith("*") or self._weekday.startswith("*")
        self._days: dict[tuple[int, int, int], bool] = {}

    def matches(self, wall: datetime) -> bool:
        if wall.minute not in self._minutes or wall.hour not in self._hours or wall.month not in self._months:
            return False
        key = (wall.year, wall.month, wall.day)
        if key not in self._days:
            by_date = any(self._is_date(term, wall) for term in self._day.split(","))
            by_weekday = any(self._is_weekday(term, wall) for term in self._weekday.split(","))
            self._days[key] = (by_date and by_weekday) if self._both else (by_date or by_weekday)
        return self._days[key]

    @staticmethod
    def _is_date(term: str, wall: datetime) -> bool:
        length = calendar.monthrange(wall.year, wall.month)[1]
        if term == "L":
            return wall.day == length
        if term == "LW":
            working = [d for d in range(1, length + 1) if calendar.weekday(wall.year, wall.month, d) < 5]
            return wall.day == working[-1]
        return wall.day in _numbers(term, 1, 31)

    @staticmethod
    def _is_weekday(term: str, wall: datetime) -> bool:
        today = wall.isoweekday() % 7
        if term.endswith("L"):
            length = calendar.monthrange(wall.year, wall.month)[1]
            return today == int(term[:-1]) % 7 and wall.day > length - 7
        if "#" in term:
            day, nth = term.split("#")
            number = _DAYS[day] if day in _DAYS else int(day)
            return today == number % 7 and (wall.day - 1) // 7 + 1 == int(nth)
        return today in {number % 7 for number in _numbers(term, 0, 7, _DAYS)}


@dataclass(frozen=True)
class Walk:
    """The wall clock of a zone, minute by minute: what it shows, whether for the first time, what it skipped before."""

    minutes: list[tuple[datetime, datetime, bool, list[datetime]]]

    @classmethod
    def of(cls, zone: ZoneInfo, since: datetime, until: datetime) -> "Walk":
        """Walk (since, until], with two days before it to know what was shown already."""
        at, shown, minutes, before = since - 2 * DAY, set[datetime](), [], None
        while at <= until:
            wall = at.astimezone(zone).replace(tzinfo=None, fold=0)
            skipped = list[datetime]()
            if before is not None:
                missing = before + MINUTE
                while missing < wall:
                    if missing not in shown:
                        skipped.append(missing)
                    missing += MINUTE
            if at > since:
                minutes.append((at, wall, wall not in shown, skipped))
            shown.add(wall)
            before = wall
            at += MINUTE
        return cls(minutes)

    def occurrences(self, matcher: Matcher, *, both: bool) -> list[datetime]:
        """Return the instants at which an expression fires: the rule as docs/schedules.md words it."""
        found = []
        for at, wall, is_first, skipped in self.minutes:
            fires = matcher.matches(wall) and (is_first or both or not matcher.is_fixed)
            if matcher.is_fixed and not fires and any(matcher.matches(missed) for missed in skipped):
                fires = True
            if fires:
                found.append(at)
        return found


@dataclass(frozen=True)
class Change:
    """A clock change: at an instant, from one naive wall time to another."""

    zone: ZoneInfo
    at: datetime
    old: datetime
    new: datetime


def distinct_changes(since: datetime, until: datetime, names: Iterable[str] = ()) -> list[Change]:
    """Return the clock changes of all zones, each pair of wall times once."""
    found: dict[tuple[datetime, datetime], Change] = {}
    histories = set()
    for name in sorted(names or available_timezones()):
        zone = ZoneInfo(name)
        history = tuple((since + n * DAY).astimezone(zone).utcoffset() for n in range((until - since) // DAY + 1))
        if history in histories:
            continue
        histories.add(history)
        for n in range(len(history) - 1):
            if history[n] != history[n + 1]:
                change = _bisect(zone, since + n * DAY, since + (n + 1) * DAY)
                found.setdefault((change.old, change.new), change)
    return list(found.values())


def _bisect(zone: ZoneInfo, low: datetime, high: datetime) -> Change:
    before = low.astimezone(zone).utcoffset()
    while high - low > timedelta(seconds=1):
        middle = low + (high - low) // timedelta(seconds=2) * timedelta(seconds=1)
        if middle.astimezone(zone).utcoffset() == before:
            low = middle
        else:
            high = middle
    naive, after = high.replace(tzinfo=None), high.astimezone(zone).utcoffset()
    assert before is not None and after is not None
    return Change(zone, high, naive + before, naive + after)


def whole_minutes(change: Change) -> bool:
    """Whether a walk by minutes sees all that the clock shows around a change."""
    return change.old.second == 0 and change.new.second == 0 and change.at.second == 0


EPOCH_2024 = datetime(2024, 1, 1, tzinfo=UTC)
END_2028 = datetime(2029, 1, 1, tzinfo=UTC)
