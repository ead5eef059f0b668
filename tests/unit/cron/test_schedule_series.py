"""Merged series, bounds, days off, periods and jitter."""

from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from cron.schedule import RepeatedHour, Schedule, ScheduleError, jitter_for, parse_schedule

ANCHOR = datetime(2026, 1, 1, 12, tzinfo=UTC)
LATER = datetime(2030, 1, 1, tzinfo=UTC)
BERLIN = ZoneInfo("Europe/Berlin")
UTC_ZONE = ZoneInfo("UTC")


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)


def shown(schedule: Schedule, count: int, after: datetime = ANCHOR) -> list[str]:
    return [found.isoformat(timespec="minutes") for found in schedule.between(after, LATER, count)]


def test_several_schedules_are_one_increasing_series_without_doubles() -> None:
    schedule = parse_schedule(["0 9 * * *", "0 9,17 * * 5", "2026-01-02T09:00"], zone=UTC_ZONE, anchor=ANCHOR)
    assert shown(schedule, 4) == [
        "2026-01-02T09:00+00:00",
        "2026-01-02T17:00+00:00",
        "2026-01-03T09:00+00:00",
        "2026-01-04T09:00+00:00",
    ]
    assert schedule.latest_until(at("2026-01-02T12:00Z"), after=ANCHOR) == at("2026-01-02T09:00Z")


def test_a_one_shot_ends_its_series() -> None:
    schedule = parse_schedule("in 30m", zone=UTC_ZONE, anchor=ANCHOR)
    assert shown(schedule, 5) == ["2026-01-01T12:30+00:00"]
    assert schedule.next_after(at("2026-01-01T12:30Z")) is None
    assert schedule.latest_until(LATER, after=ANCHOR) == at("2026-01-01T12:30Z")
    assert schedule.latest_until(LATER, after=at("2026-01-01T12:30Z")) is None


def test_an_interval_begins_one_period_after_its_anchor() -> None:
    schedule = parse_schedule("every 2h", zone=BERLIN, anchor=ANCHOR)
    assert schedule.next_after(at("2020-01-01T00:00Z")) == at("2026-01-01T14:00Z")
    assert schedule.latest_until(at("2026-01-01T13:59Z"), after=at("2020-01-01T00:00Z")) is None
    assert schedule.latest_until(at("2026-01-01T17:00Z"), after=ANCHOR) == at("2026-01-01T16:00Z")


def test_an_interval_counts_elapsed_time_through_a_clock_change() -> None:
    schedule = parse_schedule("every 1d", zone=BERLIN, anchor=at("2026-10-24T09:00+02:00"))
    found = schedule.next_after(at("2026-10-24T09:00+02:00"))
    assert found is not None
    assert found.astimezone(BERLIN).isoformat() == "2026-10-25T08:00:00+01:00"


@pytest.mark.parametrize(
    ("anchor", "first"),
    [
        ("2026-01-01T07:30+01:00", "2026-01-01T08:00+00:00"),
        ("2026-01-01T10:15+01:00", "2026-01-01T10:00+00:00"),
    ],
)
def test_from_sets_the_time_of_day_that_an_interval_starts_at(anchor: str, first: str) -> None:
    schedule = parse_schedule("every 2h from 09:00", zone=BERLIN, anchor=at(anchor))
    assert shown(schedule, 1, after=at(anchor)) == [first]


def test_start_and_end_are_part_of_the_series() -> None:
    start, end = at("2026-02-01T09:00Z"), at("2026-02-03T09:00Z")
    schedule = parse_schedule("0 9 * * *", zone=UTC_ZONE, anchor=ANCHOR, start=start, end=end)
    assert shown(schedule, 9) == ["2026-02-01T09:00+00:00", "2026-02-02T09:00+00:00", "2026-02-03T09:00+00:00"]
    assert schedule.latest_until(LATER, after=ANCHOR) == end
    assert schedule.latest_until(start, after=ANCHOR) == start
    assert schedule.latest_until(start - timedelta(minutes=1), after=ANCHOR) is None


def test_an_interval_begins_at_its_start() -> None:
    schedule = parse_schedule("every 2h", zone=UTC_ZONE, anchor=ANCHOR, start=at("2026-02-01T09:30Z"))
    assert shown(schedule, 2) == ["2026-02-01T09:30+00:00", "2026-02-01T11:30+00:00"]


def test_in_counts_from_the_anchor_also_with_a_start() -> None:
    schedule = parse_schedule("in 2d", zone=UTC_ZONE, anchor=ANCHOR, start=at("2026-01-02T00:00Z"))
    assert shown(schedule, 2) == ["2026-01-03T12:00+00:00"]


def test_times_ends_the_series_after_so_many_occurrences() -> None:
    schedule = parse_schedule("0 9 * * *", zone=UTC_ZONE, anchor=ANCHOR, times=2)
    assert shown(schedule, 9, after=at("2025-01-01T00:00Z")) == ["2026-01-02T09:00+00:00", "2026-01-03T09:00+00:00"]
    with_start = parse_schedule("every 1h", zone=UTC_ZONE, anchor=ANCHOR, times=2, start=at("2026-02-01T00:00Z"))
    assert shown(with_start, 9) == ["2026-02-01T00:00+00:00", "2026-02-01T01:00+00:00"]
    assert len(shown(parse_schedule("in 5s", zone=UTC_ZONE, anchor=ANCHOR, times=3), 9)) == 1


@pytest.mark.parametrize("times", [0, -1, 10_001])
def test_times_that_make_no_sense_are_refused(times: int) -> None:
    with pytest.raises(ScheduleError, match="write a number from 1 to 10000"):
        parse_schedule("0 9 * * *", zone=UTC_ZONE, anchor=ANCHOR, times=times)


def test_an_end_before_the_start_is_refused() -> None:
    with pytest.raises(ScheduleError, match="ends before it starts"):
        parse_schedule("0 9 * * *", zone=UTC_ZONE, anchor=ANCHOR, start=LATER, end=ANCHOR)


def test_days_off_are_left_out_and_can_be_told() -> None:
    off = [date(2026, 1, 2), date(2026, 1, 4)]
    schedule = parse_schedule("0 0 * * *", zone=BERLIN, anchor=ANCHOR, excluded=off)
    assert shown(schedule, 2) == ["2026-01-02T23:00+00:00", "2026-01-04T23:00+00:00"]
    assert schedule.latest_until(at("2026-01-04T12:00Z"), after=ANCHOR) == at("2026-01-02T23:00Z")
    whole = schedule.without_exclusions().between(ANCHOR, at("2026-01-04T23:30Z"), 9)
    assert [schedule.is_excluded(instant) for instant in whole] == [True, False, True, False]


def test_an_occurrence_that_another_zone_of_the_job_allows_is_not_off() -> None:
    texts = ["0 0 * * *", "CRON_TZ=Asia/Tokyo 0 8 * * *"]  # both at 23:00 UTC
    schedule = parse_schedule(texts, zone=BERLIN, anchor=ANCHOR, excluded=[date(2026, 1, 2)])
    assert shown(schedule, 1) == ["2026-01-02T23:00+00:00"]
    assert not schedule.is_excluded(at("2026-01-02T23:00Z"))
    assert schedule.is_excluded(at("2026-01-01T23:00Z"))


def test_a_year_of_days_off_is_stepped_over_at_once() -> None:
    off = [date(2026, 1, 1) + timedelta(days=n) for n in range(3650)]
    schedule = parse_schedule("* * * * * *", zone=BERLIN, anchor=ANCHOR, excluded=off)
    back = date(2026, 1, 1) + timedelta(days=3650)
    first = schedule.next_after(ANCHOR)
    assert first is not None
    assert first.astimezone(BERLIN).isoformat() == f"{back.isoformat()}T00:00:00+01:00"
    assert schedule.latest_until(first - timedelta(seconds=1), after=at("2000-01-01T00:00Z")) == at(
        "2025-12-31T23:59:59+01:00"
    )


def test_a_day_off_on_which_clocks_go_back_over_midnight_is_left_whole() -> None:
    zone = ZoneInfo("America/Sao_Paulo")  # 2018-02-18 00:00 became 2018-02-17 23:00
    schedule = parse_schedule("30 * * * *", zone=zone, anchor=ANCHOR, excluded=[date(2018, 2, 17)])
    found = schedule.next_after(at("2018-02-17T12:00-02:00"))
    assert found is not None
    assert found.astimezone(zone).isoformat() == "2018-02-18T00:30:00-03:00"


@pytest.mark.parametrize(
    ("text", "period"),
    [
        ("*/5 * * * *", timedelta(minutes=5)),
        ("0 9 * * *", timedelta(days=1)),
        ("0 9,10 * * *", timedelta(hours=1)),
        ("0 9 * * 1", timedelta(weeks=1)),
        ("every 90s", timedelta(seconds=90)),
        ("in 30m", None),
        (["2026-02-01", "2026-02-02"], None),
    ],
)
def test_a_period_is_the_distance_between_neighbours(text: str | list[str], period: timedelta | None) -> None:
    assert parse_schedule(text, zone=UTC_ZONE, anchor=ANCHOR).period(ANCHOR) == period


def test_the_period_of_an_ended_series_is_that_of_its_last_occurrences() -> None:
    schedule = parse_schedule("0 9 * * *", zone=UTC_ZONE, anchor=ANCHOR, times=3)
    assert schedule.period(LATER) == timedelta(days=1)
    assert parse_schedule("0 9 * * *", zone=UTC_ZONE, anchor=ANCHOR, times=1).period(LATER) is None


def test_the_newest_of_years_of_seconds_is_found_at_once() -> None:
    schedule = parse_schedule("* * * * * *", zone=BERLIN, anchor=ANCHOR)
    newest = schedule.latest_until(LATER + timedelta(microseconds=7), after=at("1990-01-01T00:00Z"))
    assert newest == LATER
    assert parse_schedule("0 9 29 2 *", zone=UTC_ZONE, anchor=ANCHOR).latest_until(
        at("2103-06-01T00:00Z"), after=at("1990-01-01T00:00Z")
    ) == at("2096-02-29T09:00Z")


def test_between_stops_at_its_limit_and_includes_its_end() -> None:
    schedule = parse_schedule("0 9 * * *", zone=UTC_ZONE, anchor=ANCHOR)
    assert len(schedule.between(ANCHOR, LATER, 3)) == 3
    assert schedule.between(at("2026-01-02T09:00Z"), at("2026-01-03T09:00Z"), 9) == [at("2026-01-03T09:00Z")]
    assert schedule.between(ANCHOR, LATER, 0) == []


def test_a_naive_instant_is_refused() -> None:
    schedule = parse_schedule("0 9 * * *", zone=UTC_ZONE, anchor=ANCHOR)
    with pytest.raises(ValueError, match="has no time zone"):
        schedule.next_after(datetime(2026, 1, 1))  # noqa: DTZ001


@pytest.mark.parametrize("text", ["0 9 * * *", "every 2h", "* * * * * *"])
def test_the_ends_of_the_calendar_are_no_error(text: str) -> None:
    schedule = parse_schedule(text, zone=BERLIN, anchor=ANCHOR)
    assert schedule.next_after(datetime.max.replace(tzinfo=UTC)) is None
    assert schedule.latest_until(datetime.min.replace(tzinfo=UTC), after=datetime.min.replace(tzinfo=UTC)) is None
    assert schedule.next_after(datetime.min.replace(tzinfo=UTC)) is not None


def test_jitter_is_the_same_everywhere_and_spread_over_its_width() -> None:
    width, due = timedelta(minutes=10), at("2026-01-02T09:00Z")
    delays = [jitter_for(f"job-{n}", due, width) for n in range(1000)]
    assert jitter_for("job-7", due.astimezone(BERLIN), width) == delays[7]
    assert delays[7] != jitter_for("job-7", due + timedelta(days=1), width)
    assert all(timedelta() <= delay < width for delay in delays)
    assert sum(delay < width / 2 for delay in delays) in range(400, 600)
    assert jitter_for("job-7", due, timedelta()) == timedelta()


def test_jitter_is_pinned_so_that_an_upgrade_moves_no_job() -> None:
    found = jitter_for("build-health", at("2026-01-02T09:00Z"), timedelta(minutes=10))
    assert found == timedelta(seconds=352, microseconds=485506)


@pytest.mark.parametrize(
    "zone", ["Europe/Berlin", "America/Santiago", "Australia/Lord_Howe", "Africa/Casablanca", "UTC"]
)
@pytest.mark.parametrize(
    "text",
    ["*/15 * * * *", "30 2 * * *", "0 0 * * 0", "17 1,2,3 * * *", "0 9 L * *", "59 59 23 * * *", "0 9 * * FRI#2"],
)
@pytest.mark.parametrize("repeated", list(RepeatedHour))
def test_a_walk_names_what_single_steps_name(zone: str, text: str, repeated: RepeatedHour) -> None:
    base = datetime(2026, 1, 1, tzinfo=UTC)
    schedule = parse_schedule(text, zone=ZoneInfo(zone), anchor=base, repeated_hour=repeated)
    for start in (base, at("2026-03-28T20:00Z"), at("2026-04-04T12:00Z"), at("2026-10-24T20:00Z")):
        stepped, following = [], schedule.next_after(start)
        while following is not None and len(stepped) < 150:
            stepped.append(following)
            following = schedule.next_after(following)
        assert schedule.between(start, datetime(2060, 1, 1, tzinfo=UTC), 150) == stepped
