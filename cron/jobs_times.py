"""Zones and schedules of jobs.yaml: whether they can be read, and what should be said about them."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from typing import Final
from zoneinfo import ZoneInfo

from cron.jobs_yaml import Document, Loc
from cron.model import RepeatedHour, ZoneSource
from cron.schedule import Schedule, ScheduleError, parse_instant, parse_schedule, warnings_for, zone_named

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
    excluded: tuple[date, ...]


@dataclass(slots=True)
class TimeChecks:
    """Checks zones, instants and schedules, each text once. `now` None: nothing is said about the present."""

    now: datetime | None
    warnings: list[tuple[Loc, str]] = field(default_factory=list)
    _zones: dict[str, ZoneInfo | str] = field(default_factory=dict)
    _schedules: dict[Times, Schedule | ScheduleError] = field(default_factory=dict)

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
            self.warnings.extend((loc, warning) for warning in self._said(found))

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
            )
        except ScheduleError as error:
            return error

    def _said(self, schedule: Schedule) -> Sequence[str]:
        return () if self.now is None else warnings_for(schedule, self.now)
