"""Zones and schedules of jobs.yaml: whether they can be read, and what should be said about them."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Final
from zoneinfo import ZoneInfo

from cron.calendars import CalendarError, days_of_ics, read_ics
from cron.jobs_fields import DayWords
from cron.jobs_yaml import Document, Loc
from cron.model import RepeatedHour, ZoneSource
from cron.schedule import Schedule, ScheduleError, parse_instant, parse_schedule, warnings_for, zone_named
from cron.schedules.days import Days, DaySpan, calendar_year

SOME_ANCHOR: Final = datetime(2026, 1, 1, tzinfo=UTC)
"""Where intervals count from while a file is only checked."""

_PLAIN_UTC: Final = frozenset({"UTC", "Etc/UTC", "Etc/UCT", "Etc/Universal", "Etc/Zulu", "UCT", "Universal", "Zulu"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """What a job says about time, as one key: equal ones are parsed once."""

    texts: tuple[str, ...]
    zone: str
    repeated_hour: RepeatedHour
    start: datetime | None
    end: datetime | None
    times: int | None
    excluded: Days
    also: Days
    day_sources: tuple[str, ...]


@dataclass(slots=True)
class TimeChecks:
    """Checks zones, instants and schedules, each text once. `now` None: nothing is said about the present."""

    now: datetime | None
    warnings: list[tuple[Loc, str]] = field(default_factory=list)
    _zones: dict[str, ZoneInfo | str] = field(default_factory=dict)
    _schedules: dict[Times, Schedule | ScheduleError] = field(default_factory=dict)
    _warned: dict[Times, tuple[str, ...]] = field(default_factory=dict)
    files: dict[Path, str] = field(default_factory=dict)  # the .ics files that were read, and what stood in them
    _spans: dict[tuple[Path, str], tuple[DaySpan, ...] | str] = field(default_factory=dict)

    def zone(self, name: str) -> ZoneInfo:
        """Return the zone. Raises ValueError with a hint."""
        found = self._zones.get(name)
        if found is None:
            try:
                found = zone_named(name)
            except ScheduleError as error:
                found = error.message
            self._zones[name] = found
        if isinstance(found, str):
            raise ValueError(found)
        return found

    def default_zone(self, written: str | None, host: str | None, document: Document) -> tuple[str, ZoneSource]:
        """Return the file's zone, else the host's, else UTC; report or warn where that may surprise."""
        if written is not None:
            try:
                return self.zone(written).key, ZoneSource.FILE
            except ValueError as error:
                document.report(("timezone",), str(error))
                return "UTC", ZoneSource.FALLBACK
        try:
            name = None if host is None else self.zone(host).key
        except ValueError:
            name = None
        if name is None:
            self.warnings.append(((), "no `timezone` here, and the host names none: times are read as UTC"))
            return "UTC", ZoneSource.FALLBACK
        if name in _PLAIN_UTC:
            self.warnings.append(((), f"no `timezone` here: times are read in the host's zone, which is {name}"))
        return name, ZoneSource.HOST

    def instant(self, text: str | None, loc: Loc, zone: ZoneInfo, document: Document) -> datetime | None:
        """Return an aware instant for a date or a time; report what is none."""
        if text is None:
            return None
        try:
            return parse_instant(text, zone)
        except ScheduleError as error:
            document.report(loc, error.message)
            return None

    def days(
        self, words: Sequence[DayWords], loc: Loc, zone: ZoneInfo, folder: Path, document: Document
    ) -> tuple[Days, tuple[str, ...]]:
        """Return the days that are meant, and what they were read from; report calendars that cannot be had."""
        spans: list[DaySpan] = []
        calendars: list[str] = []
        sources: list[str] = []
        for index, word in enumerate(words):
            sources.append(word.text)
            if word.span is not None:
                spans.append(word.span)
            elif word.calendar is not None:
                calendars += self._calendar(word.calendar, (*loc, index), document)
            elif word.file is not None:
                found = self._ics(folder / word.file, zone)
                if isinstance(found, str):
                    document.report((*loc, index), found)
                else:
                    spans += found
                    sources.append(self.files[folder / word.file])
        spans.sort(key=lambda span: (span.first, span.last, span.name))
        return Days(tuple(spans), tuple(dict.fromkeys(calendars))), tuple(sources)

    def _calendar(self, name: str, loc: Loc, document: Document) -> tuple[str, ...]:
        try:
            calendar_year(name, (self.now or SOME_ANCHOR).year)
        except ScheduleError as error:
            document.report(loc, error.message)
            return ()
        return (name,)

    def _ics(self, path: Path, zone: ZoneInfo) -> tuple[DaySpan, ...] | str:
        found = self._spans.get((path, zone.key))
        if found is None:
            try:
                data = read_ics(path)
                self.files[path] = hashlib.sha256(data).hexdigest()[:16]
                found = days_of_ics(data, path.name, zone=zone, around=self.now or SOME_ANCHOR)
            except CalendarError as error:
                found = str(error)
            self._spans[path, zone.key] = found
        return found

    def schedule(self, times: Times, loc: Loc, document: Document) -> None:
        """Report a schedule that cannot be used, at the column that is wrong; note what should be said."""
        found = self._schedules.get(times)
        if found is None:
            found = self._schedules[times] = self._parse(times)
        if isinstance(found, ScheduleError):
            index = times.texts.index(found.text) if found.text in times.texts else 0
            shift = None if found.column is None else found.column - 1
            document.report((*loc, index), found.message, shift=shift)
        elif self.now is not None:
            said = self._warned.get(times)
            if said is None:
                said = self._warned[times] = tuple(self._said(found))
            self.warnings.extend((loc, warning) for warning in said)

    def _parse(self, times: Times) -> Schedule | ScheduleError:
        try:
            return parse_schedule(
                times.texts,
                zone=self.zone(times.zone),
                anchor=self.now or SOME_ANCHOR,
                repeated_hour=times.repeated_hour,
                start=times.start,
                end=times.end,
                times=times.times,
                excluded=times.excluded,
                also=times.also,
            )
        except ScheduleError as error:
            return error

    def _said(self, schedule: Schedule) -> Sequence[str]:
        return () if self.now is None else warnings_for(schedule, self.now)
