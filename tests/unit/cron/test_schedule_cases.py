"""Schedules that went wrong for people elsewhere, as literal instants."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from cron.schedule import RepeatedHour, ScheduleError, clock_note, parse_schedule, warnings_for

ANCHOR = datetime.fromisoformat("2020-01-01T00:00+00:00")


def following(text: str, zone: str, base: str, count: int, repeated: RepeatedHour = RepeatedHour.ONCE) -> list[str]:
    """Return the next instants after `base`, in the zone's own time."""
    schedule = parse_schedule(text, zone=ZoneInfo(zone), anchor=ANCHOR, repeated_hour=repeated)
    found, at = [], schedule.next_after(datetime.fromisoformat(base))
    while at is not None and len(found) < count:
        found.append(at.astimezone(schedule.zone).isoformat(timespec="minutes"))
        at = schedule.next_after(at)
    return found


def refusal(text: str, zone: str = "UTC") -> str:
    with pytest.raises(ScheduleError) as caught:
        parse_schedule(text, zone=ZoneInfo(zone), anchor=ANCHOR)
    return caught.value.message


@pytest.mark.parametrize("weekday", ["4", "THU", "thu", "4-4"])
def test_b001_a_numbered_weekday_counts_from_sunday(weekday: str) -> None:
    assert following(f"30 7 * * {weekday}", "UTC", "2026-01-01T12:00Z", 1) == ["2026-01-08T07:30+00:00"]


@pytest.mark.parametrize("sunday", ["0", "7", "SUN", "sun"])
def test_b001_every_spelling_of_sunday_is_the_same_day(sunday: str) -> None:
    assert following(f"30 7 * * {sunday}", "UTC", "2026-01-01T12:00Z", 1) == ["2026-01-04T07:30+00:00"]


def test_b003_both_day_fields_mean_either_and_the_user_is_told() -> None:
    assert following("0 0 1 * MON", "UTC", "2026-01-01T12:00Z", 3) == [
        "2026-01-05T00:00+00:00",
        "2026-01-12T00:00+00:00",
        "2026-01-19T00:00+00:00",
    ]
    schedule = parse_schedule("0 0 1 * MON", zone=ZoneInfo("UTC"), anchor=ANCHOR)
    assert warnings_for(schedule, datetime.fromisoformat("2026-01-01T12:00Z")) == [
        "0 0 1 * 1 restricts the day of month and the weekday, and fires when either holds: on the first day of "
        "month, on Monday; the next are Mon 5 Jan 2026 00:00, Mon 12 Jan 2026 00:00, Mon 19 Jan 2026 00:00, "
        "Mon 26 Jan 2026 00:00, Sun 1 Feb 2026 00:00"
    ]


@pytest.mark.parametrize(
    ("base", "expected"),
    [
        ("2026-03-01T00:00Z", ["2028-02-29T00:00+00:00", "2032-02-29T00:00+00:00"]),
        ("2096-03-01T00:00Z", ["2104-02-29T00:00+00:00", "2108-02-29T00:00+00:00"]),
    ],
)
def test_b004_a_leap_day_is_found_over_the_years_without_one(base: str, expected: list[str]) -> None:
    assert following("0 0 29 2 *", "UTC", base, 2) == expected


@pytest.mark.parametrize("text", ["0 0 31 2 *", "0 0 30 2 *", "0 0 31 4,6,9,11 *", "0 0 30 FEB */2"])
def test_b004_a_day_that_no_month_has_is_refused_at_once(text: str) -> None:
    assert "never fires" in refusal(text)


def test_b004_a_rhythm_only_inside_a_yearly_gap_is_refused_too() -> None:
    assert "never fires" in refusal("*/10 2 * 3 7L", "Europe/Berlin")


def test_b005_the_last_day_of_the_month_follows_the_calendar() -> None:
    assert following("0 18 L * *", "UTC", "2027-12-31T19:00Z", 3) == [
        "2028-01-31T18:00+00:00",
        "2028-02-29T18:00+00:00",
        "2028-03-31T18:00+00:00",
    ]
    assert following("0 18 15,L * *", "UTC", "2027-12-31T19:00Z", 4) == [
        "2028-01-15T18:00+00:00",
        "2028-01-31T18:00+00:00",
        "2028-02-15T18:00+00:00",
        "2028-02-29T18:00+00:00",
    ]


@pytest.mark.parametrize(
    ("phrase", "cron"),
    [
        ("weekdays at 9am", "0 9 * * 1-5"),
        ("every monday 9am", "0 9 * * 1"),
        ("Monday, Wednesday at 9am", "0 9 * * 1,3"),
        ("0 9 * * MON-FRI", "0 9 * * 1-5"),
    ],
)
def test_b007_a_phrase_is_the_crontab_line_that_it_means(phrase: str, cron: str) -> None:
    assert parse_schedule(phrase, zone=ZoneInfo("UTC"), anchor=ANCHOR).text == cron


def test_b010_an_interval_does_not_drift_with_the_length_of_its_runs() -> None:
    anchor = datetime.fromisoformat("2026-01-01T09:00:17Z")
    schedule = parse_schedule("every 60s", zone=ZoneInfo("UTC"), anchor=anchor)
    at = anchor
    for k in range(1, 101):
        asked = at + timedelta(seconds=3)  # when the run is over
        following_at = schedule.next_after(asked)
        assert following_at == anchor + k * timedelta(seconds=60)
        at = following_at


def test_b011_nine_oclock_stays_nine_oclock_when_clocks_change() -> None:
    text, zone = "0 9 * * 1-5", "Europe/Berlin"
    assert following(text, zone, "2026-10-23T09:00+02:00", 1) == ["2026-10-26T09:00+01:00"]
    assert following(text, zone, "2027-03-26T09:00+01:00", 1) == ["2027-03-29T09:00+02:00"]
    assert following(text, "UTC", "2026-10-23T09:00Z", 1) == ["2026-10-26T09:00+00:00"]


def test_b013_a_skipped_time_runs_at_the_first_minute_after_the_gap() -> None:
    assert following("30 2 * * *", "Europe/Berlin", "2026-03-28T03:00+01:00", 2) == [
        "2026-03-29T03:00+02:00",
        "2026-03-30T02:30+02:00",
    ]
    assert following("0 2 * * *", "US/Eastern", "2013-03-09T12:00-05:00", 2) == [
        "2013-03-10T03:00-04:00",
        "2013-03-11T02:00-04:00",
    ]


def test_b013_two_times_in_the_same_gap_run_once() -> None:
    assert following("10,40 2 * * *", "Europe/Berlin", "2026-03-28T03:00+01:00", 2) == [
        "2026-03-29T03:00+02:00",
        "2026-03-30T02:10+02:00",
    ]
    assert following("0 2,3 * * *", "America/New_York", "2026-03-07T12:00-05:00", 2) == [
        "2026-03-08T03:00-04:00",
        "2026-03-09T02:00-04:00",
    ]


def test_b014_midnights_that_do_not_exist_do_not_stop_the_series() -> None:
    found = following("0 0 * * 0", "America/Santiago", "2022-08-30T00:00-04:00", 10)
    assert found[:3] == ["2022-09-04T00:00-04:00", "2022-09-11T01:00-03:00", "2022-09-18T00:00-03:00"]
    assert len(set(found)) == 10
    assert following("0 0 * * *", "America/Sao_Paulo", "2018-11-03T12:00-03:00", 2) == [
        "2018-11-04T01:00-02:00",
        "2018-11-05T00:00-02:00",
    ]


def test_b015_a_day_of_23_hours_is_not_stepped_over() -> None:
    assert following("0 12 * * 0", "Europe/Berlin", "2022-03-24T12:00+01:00", 1) == ["2022-03-27T12:00+02:00"]
    assert following("0 0 * * 1-5", "US/Central", "2021-03-12T00:00:01-06:00", 1) == ["2021-03-15T00:00-05:00"]


def test_b018_a_one_shot_without_an_offset_is_meant_in_the_jobs_zone() -> None:
    schedule = parse_schedule("2026-06-22T20:07:00", zone=ZoneInfo("America/New_York"), anchor=ANCHOR)
    assert schedule.next_after(ANCHOR) == datetime.fromisoformat("2026-06-23T00:07Z")
    assert schedule.describe() == "Once, Mon 22 Jun 2026 20:07 (America/New_York)"


def test_b020_a_date_alone_is_its_local_midnight() -> None:
    schedule = parse_schedule("2027-03-23", zone=ZoneInfo("Asia/Shanghai"), anchor=ANCHOR)
    assert schedule.next_after(ANCHOR) == datetime.fromisoformat("2027-03-22T16:00Z")


def test_b020_of_two_the_first_is_taken() -> None:
    schedule = parse_schedule("2026-04-05T01:45", zone=ZoneInfo("Australia/Lord_Howe"), anchor=ANCHOR)
    assert schedule.next_after(ANCHOR) == datetime.fromisoformat("2026-04-04T14:45Z")


@pytest.mark.parametrize(
    ("text", "zone", "before", "after"),
    [
        ("2026-03-29T02:30", "Europe/Berlin", "2026-03-29T01:59", "2026-03-29T03:00"),
        ("2022-09-11", "America/Santiago", "2022-09-10T23:59", "2022-09-11T01:00"),
        ("2026-10-04T02:10", "Australia/Lord_Howe", "2026-10-04T01:59", "2026-10-04T02:30"),
        ("2011-12-30", "Pacific/Apia", "2011-12-29T23:59", "2011-12-31T00:00"),
    ],
)
def test_b020_a_one_shot_in_a_gap_is_refused_with_both_neighbours(
    text: str, zone: str, before: str, after: str
) -> None:
    assert f"write {before} or {after}" in refusal(text, zone)


def test_r01_seven_is_sunday_in_lists_and_ranges() -> None:
    assert following("15 10,12 * * 1,7", "UTC", "2026-01-01T12:00Z", 4) == [
        "2026-01-04T10:15+00:00",
        "2026-01-04T12:15+00:00",
        "2026-01-05T10:15+00:00",
        "2026-01-05T12:15+00:00",
    ]
    assert following("0 9 * * 5-7", "UTC", "2026-01-01T12:00Z", 4) == [
        "2026-01-02T09:00+00:00",
        "2026-01-03T09:00+00:00",
        "2026-01-04T09:00+00:00",
        "2026-01-09T09:00+00:00",
    ]


def test_r02_a_stepped_day_field_begins_anew_each_week_and_month() -> None:
    assert following("0 0 * * */2", "UTC", "2026-01-02T00:00Z", 3) == [
        "2026-01-03T00:00+00:00",
        "2026-01-04T00:00+00:00",
        "2026-01-06T00:00+00:00",
    ]
    days = following("0 0 */3 * *", "UTC", "2025-12-31T12:00Z", 12)
    assert [day[5:10] for day in days[:2] + days[-3:]] == ["01-01", "01-04", "01-28", "01-31", "02-01"]


def test_r04_a_job_ten_months_away_waits_for_its_day() -> None:
    assert following("0 9 1 3 *", "UTC", "2026-04-29T00:00Z", 1) == ["2027-03-01T09:00+00:00"]


def test_r05_the_next_minute_before_a_gap_is_not_in_the_past() -> None:
    assert following("*/5 * * * *", "America/New_York", "2026-03-08T06:59Z", 2) == [
        "2026-03-08T03:00-04:00",
        "2026-03-08T03:05-04:00",
    ]


@pytest.mark.parametrize("minute", range(0, 120, 7))
def test_r05_asked_from_inside_a_repeated_hour_the_answer_is_later(minute: int) -> None:
    schedule = parse_schedule("30 1 * * *", zone=ZoneInfo("America/New_York"), anchor=ANCHOR)
    asked = datetime.fromisoformat("2026-11-01T05:00Z") + timedelta(minutes=minute)
    expected = "2026-11-01T05:30Z" if minute < 30 else "2026-11-02T06:30Z"
    assert schedule.next_after(asked) == datetime.fromisoformat(expected)


def test_r43_a_schedule_can_name_its_own_zone() -> None:
    text = "CRON_TZ=America/New_York 0 9 * * 1-5"
    assert following(text, "Asia/Bangkok", "2026-03-06T12:00Z", 2) == [
        "2026-03-06T09:00-05:00",
        "2026-03-09T09:00-04:00",
    ]
    schedule = parse_schedule(text, zone=ZoneInfo("Asia/Bangkok"), anchor=ANCHOR)
    assert (schedule.text, schedule.zone.key) == (text, "America/New_York")
    assert schedule.describe() == "At 09:00 on Monday through Friday (America/New_York)"


def test_a_repeated_fixed_time_runs_once_or_twice_as_asked() -> None:
    text, zone, base = "30 1 * * *", "America/New_York", "2026-10-31T12:00-04:00"
    assert following(text, zone, base, 2) == ["2026-11-01T01:30-04:00", "2026-11-02T01:30-05:00"]
    assert following(text, zone, base, 3, RepeatedHour.BOTH) == [
        "2026-11-01T01:30-04:00",
        "2026-11-01T01:30-05:00",
        "2026-11-02T01:30-05:00",
    ]


def test_a_repeated_half_hour_is_run_through_by_a_rhythm_and_once_by_a_fixed_time() -> None:
    zone, base = "Australia/Lord_Howe", "2026-04-05T01:20+11:00"
    assert following("*/15 * * * *", zone, base, 5) == [
        "2026-04-05T01:30+11:00",
        "2026-04-05T01:45+11:00",
        "2026-04-05T01:30+10:30",
        "2026-04-05T01:45+10:30",
        "2026-04-05T02:00+10:30",
    ]
    assert following("45 1 * * *", zone, base, 2) == ["2026-04-05T01:45+11:00", "2026-04-06T01:45+10:30"]


def test_a_day_that_the_calendar_skipped_is_run_at_its_end() -> None:
    assert following("0 9 * * *", "Pacific/Apia", "2011-12-29T12:00-10:00", 2) == [
        "2011-12-31T00:00+14:00",
        "2011-12-31T09:00+14:00",
    ]


def test_a_gap_that_ends_at_an_odd_second_is_left_at_the_next_whole_minute() -> None:
    assert following("30 0 * * *", "Africa/Monrovia", "1972-01-06T12:00Z", 2) == [
        "1972-01-07T00:45+00:00",  # that night 00:00:00 became 00:44:30
        "1972-01-08T00:30+00:00",
    ]


@pytest.mark.parametrize(
    ("instant", "zone", "note"),
    [
        ("2026-10-25T08:00Z", "Europe/Berlin", "clocks go back on this day (03:00 becomes 02:00)"),
        ("2026-03-29T22:30+02:00", "Europe/Berlin", "clocks go forward on this day (02:00 becomes 03:00)"),
        ("2022-09-11T12:00-03:00", "America/Santiago", "clocks go forward on this day (00:00 becomes 01:00)"),
        ("2018-02-17T12:00-02:00", "America/Sao_Paulo", "clocks go back on this day (00:00 becomes 23:00)"),
        ("2026-10-24T08:00Z", "Europe/Berlin", ""),
        ("2026-10-25T08:00Z", "UTC", ""),
    ],
)
def test_a_day_with_a_clock_change_is_flagged(instant: str, zone: str, note: str) -> None:
    assert clock_note(datetime.fromisoformat(instant).astimezone(UTC), ZoneInfo(zone)) == note
