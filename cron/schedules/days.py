"""Sets of local days: listed ones, each with what it is, and those of named holiday calendars, asked year by year.

Named calendars come from python-holidays, which is an extra (`calendars`) and is imported when one is first asked.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date, timedelta
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final

from cron.schedules.errors import ScheduleError

PREFIX: Final = "holidays:"
LISTED: Final = "It falls on a day that `except` names."
_DAY: Final = timedelta(days=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class DaySpan:
    """The days from `first` to `last`, and what they are called ("" where nobody said)."""

    first: date
    last: date
    name: str = ""


@dataclass(frozen=True, slots=True)
class Days:
    """Days to be left out, or to be worked on. `calendars` are names such as `DE-BY` or `NYSE`."""

    spans: tuple[DaySpan, ...] = ()
    calendars: tuple[str, ...] = ()
    _named: Mapping[date, str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        named: dict[date, str] = {}
        for span in self.spans:
            for n in range((span.last - span.first).days + 1):
                named.setdefault(span.first + n * _DAY, span.name)
        object.__setattr__(self, "_named", MappingProxyType(named))

    def __bool__(self) -> bool:
        return bool(self.spans or self.calendars)

    def __contains__(self, day: date) -> bool:
        return day in self._named or any(day in calendar_year(name, day.year).off for name in self.calendars)

    def reason(self, day: date) -> str | None:
        """Return why a day is left out, as a sentence; None for a day that is not."""
        name = self._named.get(day)
        if name is not None:
            return f"{day} is a day off: {name}." if name else LISTED
        for calendar in self.calendars:
            holiday = calendar_year(calendar, day.year).off.get(day)
            if holiday is not None:
                return f"{day} is a day off: {holiday} ({PREFIX}{calendar})."
        return None

    def worked_from(self, day: date) -> date | None:
        """Return the first day from `day` on that is listed, or that a named calendar works on; looks two years on."""
        listed = min((each for each in self._named if each >= day), default=None)
        for calendar in self.calendars:
            for year in (day.year, day.year + 1, day.year + 2):
                found = min((each for each in calendar_year(calendar, year).worked if each >= day), default=None)
                if found is not None:
                    listed = found if listed is None else min(listed, found)
                    break
        return listed

    def worked_until(self, day: date) -> date | None:
        """Return the last day up to `day` that is listed, or that a named calendar works on; looks two years back."""
        listed = max((each for each in self._named if each <= day), default=None)
        for calendar in self.calendars:
            for year in (day.year, day.year - 1, day.year - 2):
                found = max((each for each in calendar_year(calendar, year).worked if each <= day), default=None)
                if found is not None:
                    listed = found if listed is None else max(listed, found)
                    break
        return listed


NO_DAYS: Final = Days()


@dataclass(frozen=True, slots=True, kw_only=True)
class CalendarYear:
    """One year of a named calendar: days off with their names, and the weekend days that are worked."""

    off: Mapping[date, str]
    worked: frozenset[date]


def listed_days(days: Iterable[date]) -> Days:
    """Return single days without names, neighbours in one span."""
    spans: list[DaySpan] = []
    for day in sorted(set(days)):
        if spans and spans[-1].last + _DAY == day:
            spans[-1] = DaySpan(first=spans[-1].first, last=day)
        else:
            spans.append(DaySpan(first=day, last=day))
    return Days(tuple(spans))


@lru_cache(maxsize=1024)
def calendar_year(name: str, year: int) -> CalendarYear:
    """Return one year of a named calendar. Raises ScheduleError where there is no such calendar."""
    found = _ask(name, year)
    return CalendarYear(
        off={day: str(found.get(day)) for day in found if day.year == year},
        worked=frozenset(day for day in getattr(found, "weekend_workdays", ()) if day.year == year),
    )


LANGUAGE = "en_US"  # where a calendar has it; else its own. Never the locale: rows read the same on every machine


def _ask(name: str, year: int) -> Any:
    try:
        import holidays
    except ImportError:
        raise ScheduleError(f"{PREFIX}{name} needs an extra: pip install 'hermes-cron[calendars]'") from None
    country, _, part = name.partition("-")
    try:
        if country in holidays.list_supported_financial():
            return holidays.financial_holidays(country, years=year, language=LANGUAGE)
        return holidays.country_holidays(country, subdiv=part or None, years=year, language=LANGUAGE)
    except NotImplementedError:
        raise ScheduleError(_unknown(country, part, holidays.list_supported_countries())) from None


def _unknown(country: str, part: str, countries: Mapping[str, list[str]]) -> str:
    if country in countries:
        known = ", ".join(countries[country]) or "none"
        return f'{country} has no part "{part}": its parts are {known}'
    return f'"{country}" is no calendar: write {PREFIX}DE, {PREFIX}DE-BY, {PREFIX}US or {PREFIX}NYSE'
