"""Every clock change of 2024 to 2028, in every zone, against a walk through every minute."""

from datetime import UTC, datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles.cron_walk import DAY, END_2028, EPOCH_2024, MINUTE, Change, Matcher, Walk, distinct_changes

from cron.schedule import RepeatedHour, Schedule, parse_schedule

CHANGES = distinct_changes(EPOCH_2024, END_2028)
EXPRESSIONS = (
    "30 2 * * *",
    "0 0 * * *",
    "0 2,3 * * *",
    "15,45 1-3 * * *",
    "30 0,23 * * 0,6",
    "59 0-23 * * *",
    "50 1 L * SUN",
    "0 3 * * SUN#2",
    "*/20 * * * *",
    "7 * * * *",
    "*/30 1-3 * * *",
    "5 */2 * * SUN,SAT",
)


def schedule_of(expression: str, zone: ZoneInfo, repeated_hour: RepeatedHour = RepeatedHour.ONCE) -> Schedule:
    anchor = datetime(2024, 1, 1, tzinfo=UTC)
    return parse_schedule(expression, zone=zone, anchor=anchor, repeated_hour=repeated_hour)


def backwards(schedule: Schedule, after: datetime, until: datetime) -> list[datetime]:
    found, at = list[datetime](), schedule.latest_until(until, after=after)
    while at is not None:
        found.insert(0, at)
        at = schedule.latest_until(at - timedelta(microseconds=1), after=after)
    return found


def first_later(expected: list[datetime], asked: datetime) -> datetime | None:
    return next((at for at in expected if at > asked), None)


def check(schedule: Schedule, walk: Walk, matcher: Matcher, since: datetime, until: datetime, stride: int) -> None:
    both = any(getattr(rule, "repeated_hour", None) is RepeatedHour.BOTH for rule in schedule.rules)
    expected = walk.occurrences(matcher, both=both)
    assert schedule.between(since, until, 10_000) == expected
    assert backwards(schedule, since, until) == expected
    asked = since
    while asked < until:  # asked at any moment, also from inside a repeated hour
        following = schedule.next_after(asked)
        wanted = first_later(expected, asked)
        assert following == wanted or (wanted is None and following is not None and following > until)
        asked += stride * MINUTE


def test_the_zones_of_the_world_are_covered() -> None:
    shifts = {change.new - change.old for change in CHANGES}
    assert len(CHANGES) > 100
    assert {timedelta(hours=1), timedelta(hours=-1), timedelta(minutes=30), timedelta(minutes=-30)} <= shifts


@pytest.mark.parametrize("part", range(8))
def test_a_schedule_fires_at_exactly_the_minutes_that_the_wall_clock_shows(part: int) -> None:
    for change in CHANGES[part::8]:
        since, until = change.at - DAY, change.at + DAY
        walk = Walk.of(change.zone, since, until)
        for expression in EXPRESSIONS:
            matcher = Matcher(expression)
            for repeated_hour in RepeatedHour:
                schedule = schedule_of(expression, change.zone, repeated_hour)
                check(schedule, walk, matcher, since, until, 97)


@lru_cache(maxsize=32)
def walk_around(change: Change) -> Walk:
    return Walk.of(change.zone, change.at - DAY, change.at + DAY)


def field(low: int, high: int) -> st.SearchStrategy[str]:
    number = st.integers(low, high)
    span = st.tuples(number, number).map(lambda ends: f"{min(ends)}-{max(ends)}")
    step = st.tuples(number, number, st.integers(1, 7)).map(lambda s: f"{min(s[:2])}-{max(s[:2])}/{s[2]}")
    term = st.one_of(number.map(str), span, step)
    listed = st.lists(term, min_size=1, max_size=3).map(",".join)
    return st.one_of(st.just("*"), st.integers(2, 7).map("*/{}".format), listed)


ANY_EXPRESSION = st.tuples(field(0, 59), field(0, 23), field(1, 28), st.just("*"), field(0, 7)).map(" ".join)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(ANY_EXPRESSION, st.sampled_from(CHANGES), st.sampled_from(RepeatedHour))
def test_any_expression_agrees_with_the_walk_at_any_change(
    expression: str, change: Change, repeated_hour: RepeatedHour
) -> None:
    since, until = change.at - DAY, change.at + DAY
    walk = walk_around(change)
    check(schedule_of(expression, change.zone, repeated_hour), walk, Matcher(expression), since, until, 131)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(ANY_EXPRESSION, st.sampled_from(CHANGES), st.integers(-3000, 3000))
def test_every_instant_is_later_than_asked_and_a_real_wall_time(expression: str, change: Change, offset: int) -> None:
    schedule = schedule_of(expression, change.zone)
    asked = change.at + offset * MINUTE
    for _ in range(5):
        at = schedule.next_after(asked)
        assert at is not None
        assert at > asked
        assert at.tzinfo is UTC
        assert at.astimezone(change.zone).astimezone(UTC) == at
        assert schedule.latest_until(at, after=asked) == at
        asked = at
