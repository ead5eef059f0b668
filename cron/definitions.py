"""A job's timing as plain data: stored beside its cursor, so that the past is judged by the rules of its time."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from datetime import date, datetime, timedelta
from functools import lru_cache
from typing import Any
from zoneinfo import ZoneInfo

from cron.model import CatchUp, Job, Overlap
from cron.schedule import RepeatedHour, Schedule, parse_schedule
from cron.schedules.days import NO_DAYS, Days, DaySpan
from cron.span import Policy, default_late


def definition_of(job: Job) -> dict[str, object]:
    """Return what decides when the job runs, fit for JSON; secrets have no place in it."""
    return {
        "schedules": list(job.schedules),
        "timezone": job.timezone,
        "start": _text(job.start),
        "end": _text(job.end),
        "excluded": _stored(job.excluded),
        "also": _stored(job.also),
        "day_sources": list(job.day_sources),
        "times": job.times,
        "repeated_hour": str(job.repeated_hour),
        "late_s": None if job.late is None else job.late.total_seconds(),
        "catch_up": str(job.catch_up),
        "overlap": str(job.overlap),
    }


def fingerprint_of(definition: Mapping[str, object]) -> str:
    """Return what changes when the schedule must be begun anew: expression, zone, start, end, except."""
    # By what days off were read from: what a repeated event of a calendar names moves on with the years.
    named = {key: definition[key] for key in ("schedules", "timezone", "start", "end", "day_sources")}
    return hashlib.sha256(json.dumps(named, sort_keys=True).encode()).hexdigest()[:16]


def schedule_of(definition: Mapping[str, Any], anchor: datetime) -> Schedule:
    """Build the schedule that a definition describes; equal ones are built once. Raises ScheduleError."""
    return _built(
        tuple(definition["schedules"]),
        definition["timezone"],
        anchor,
        definition["repeated_hour"],
        definition["start"],
        definition["end"],
        definition["times"],
        _days(definition["excluded"]),
        _days(definition.get("also", ())),
    )


@lru_cache(maxsize=1024)
def _built(
    texts: tuple[str, ...],
    zone: str,
    anchor: datetime,
    repeated_hour: str,
    start: str | None,
    end: str | None,
    times: int | None,
    excluded: Days,
    also: Days,
) -> Schedule:
    return parse_schedule(
        texts,
        zone=ZoneInfo(zone),
        anchor=anchor,
        repeated_hour=RepeatedHour(repeated_hour),
        start=_instant(start),
        end=_instant(end),
        times=times,
        excluded=excluded,
        also=also,
    )


def policy_of(definition: Mapping[str, Any], schedule: Schedule, at: datetime) -> Policy:
    """Return the rules of lateness; where the job says nothing, by the schedule's period near `at`."""
    seconds = definition["late_s"]
    late = default_late(schedule, at) if seconds is None else timedelta(seconds=seconds)
    return Policy(late=late, catch_up=CatchUp(definition["catch_up"]), overlap=Overlap(definition["overlap"]))


def _stored(days: Days) -> list[object]:
    """Return a set of days, fit for JSON: [first, last, name] for a span, the name of a calendar as a text."""
    spans = [[span.first.isoformat(), span.last.isoformat(), span.name] for span in days.spans]
    return [*spans, *days.calendars]


def _days(stored: Sequence[Any]) -> Days:
    if not stored:
        return NO_DAYS
    spans = tuple(
        DaySpan(first=date.fromisoformat(one[0]), last=date.fromisoformat(one[1]), name=one[2])
        for one in stored
        if not isinstance(one, str)
    )
    return Days(spans, tuple(one for one in stored if isinstance(one, str)))


def _text(at: datetime | None) -> str | None:
    return None if at is None else at.isoformat()


def _instant(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)
