"""Which wall times a zone shows, and when: stretches of constant UTC offset.

`zoneinfo` answers "what does the clock show at this instant" exactly, but does not tell when the clocks
change. We find the changes by asking once a day and bisecting; in all of the IANA data two changes are
never closer than 95 hours. All arithmetic is on UTC instants: aware local datetimes lose `fold` when
something is added to them.
"""

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache
from itertools import pairwise
from zoneinfo import ZoneInfo

INSTANT = timedelta(microseconds=1)
_DAY = timedelta(days=1)
_MINUTE = timedelta(minutes=1)
_SECOND = timedelta(seconds=1)
_LOOK_BACK = timedelta(days=4)  # longer than any step of a clock (24 hours, at the date line)
_FIRST_YEAR, _LAST_YEAR = 2, 9998  # the years in which no arithmetic overflows


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """A time without a clock change, inside one UTC year: instants [start, end), naive wall times [opens, closes).

    `seen_until` is the latest wall time that earlier stretches had reached (exclusive). Later than `opens`: clocks
    went back here, and wall times before it are shown a second time. Earlier: the times between were skipped.
    """

    start: datetime
    end: datetime
    offset: timedelta
    opens: datetime
    closes: datetime
    seen_until: datetime

    @property
    def first_minute(self) -> datetime:
        """The first whole minute that the clock shows (clocks once changed at odd seconds), naive."""
        floor = self.opens.replace(second=0, microsecond=0)
        return floor if floor == self.opens else floor + _MINUTE

    def wall(self, instant: datetime) -> datetime:
        """Return the naive wall time of an instant of this stretch (of any other: as if the offset held)."""
        return instant.replace(tzinfo=None) + self.offset

    def instant(self, wall: datetime) -> datetime:
        """Return the instant, in UTC, at which the clock shows this naive wall time here."""
        return (wall - self.offset).replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockChange:
    """Clocks are moved by `by` (negative: back) at the instant `at`; `old` and `new` are the naive wall times then."""

    at: datetime
    by: timedelta
    old: datetime
    new: datetime


def stretches_from(zone: ZoneInfo, instant: datetime) -> Iterator[Stretch]:
    """Yield the stretches that end after `instant` (aware, UTC), in order, to the end of the calendar."""
    if instant.year > _LAST_YEAR:
        return
    year = max(instant.year, _FIRST_YEAR)
    table = _stretches_of_year(zone, year)
    yield from table[_index(table, instant) :]
    for later in range(year + 1, _LAST_YEAR + 1):
        yield from _stretches_of_year(zone, later)


def stretches_back(zone: ZoneInfo, instant: datetime) -> Iterator[Stretch]:
    """Yield the stretches that begin at or before `instant` (aware, UTC), newest first."""
    year = min(instant.year, _LAST_YEAR)
    table = _stretches_of_year(zone, year)
    yield from reversed(table[: _index(table, instant) + 1])
    for earlier in range(year - 1, _FIRST_YEAR - 1, -1):
        yield from reversed(_stretches_of_year(zone, earlier))


def changes_between(zone: ZoneInfo, since: datetime, until: datetime) -> list[ClockChange]:
    """Return the clock changes in [since, until), both aware."""
    first, last = since.astimezone(UTC), until.astimezone(UTC)
    found = []
    for at in _change_instants(zone, first - _SECOND, last):
        if first <= at < last:
            before, after = _offset(zone, at - _SECOND), _offset(zone, at)
            naive = at.replace(tzinfo=None)
            found.append(ClockChange(at=at, by=after - before, old=naive + before, new=naive + after))
    return found


def day_bounds(zone: ZoneInfo, day: date) -> tuple[datetime, datetime]:
    """Return the instants, in UTC, between which a zone's calendar shows `day`: [start, end)."""
    return _midnight(zone, day), _midnight(zone, day + _DAY)


def _midnight(zone: ZoneInfo, day: date) -> datetime:
    return datetime.combine(day, time(), tzinfo=zone).astimezone(UTC)  # in a gap: the instant of the change


def _index(table: tuple[Stretch, ...], instant: datetime) -> int:
    return max(0, bisect_right(table, instant, key=lambda stretch: stretch.start) - 1)


@lru_cache(maxsize=4096)
def _stretches_of_year(zone: ZoneInfo, year: int) -> tuple[Stretch, ...]:
    begin, end = datetime(year, 1, 1, tzinfo=UTC), datetime(year + 1, 1, 1, tzinfo=UTC)
    first = begin - _LOOK_BACK
    edges = sorted({first, begin, *_change_instants(zone, first, end - _SECOND), end})
    seen_until: datetime | None = None
    table = []
    for start, stop in pairwise(edges):
        offset = _offset(zone, start)
        opens, closes = (start + offset).replace(tzinfo=None), (stop + offset).replace(tzinfo=None)
        seen_until = opens if seen_until is None else seen_until
        if start >= begin:
            table.append(
                Stretch(start=start, end=stop, offset=offset, opens=opens, closes=closes, seen_until=seen_until)
            )
        seen_until = max(seen_until, closes)
    return tuple(table)


def _change_instants(zone: ZoneInfo, since: datetime, until: datetime) -> Iterator[datetime]:
    """Yield the instants in (since, until] at which the offset becomes another one."""
    low, old = since, _offset(zone, since)
    while low < until:
        high = min(low + _DAY, until)
        new = _offset(zone, high)
        if new != old:
            yield from _bisect(zone, low, old, high, new)
        low, old = high, new


def _bisect(zone: ZoneInfo, low: datetime, old: timedelta, high: datetime, new: timedelta) -> Iterator[datetime]:
    if high - low <= _SECOND:
        yield high
        return
    middle = low + (high - low) // _SECOND // 2 * _SECOND
    between = _offset(zone, middle)
    if between != old:
        yield from _bisect(zone, low, old, middle, between)
    if between != new:
        yield from _bisect(zone, middle, between, high, new)


def _offset(zone: ZoneInfo, instant: datetime) -> timedelta:
    return instant.astimezone(zone).utcoffset() or timedelta()
