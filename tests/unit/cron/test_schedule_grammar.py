"""What people write, and what they are told when it cannot be used."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from cron.schedule import ScheduleError, ScheduleKind, parse_schedule, warnings_for

ANCHOR = datetime(2026, 1, 1, 12, tzinfo=UTC)
BERLIN = ZoneInfo("Europe/Berlin")


def canonical(text: str) -> str:
    return parse_schedule(text, zone=BERLIN, anchor=ANCHOR).text


def refusal(text: str | list[str]) -> ScheduleError:
    with pytest.raises(ScheduleError) as caught:
        parse_schedule(text, zone=BERLIN, anchor=ANCHOR)
    return caught.value


@pytest.mark.parametrize(
    ("text", "cron"),
    [
        ("every monday, thursday at 14:30", "30 14 * * 1,4"),
        ("first monday of the month at 9", "0 9 * * 1#1"),
        ("every 3rd friday of the month at 9am", "0 9 * * 5#3"),
        ("last friday of the month at 4 pm", "0 16 * * 5L"),
        ("last day of the month at 18:00", "0 18 L * *"),
        ("last weekday of every month at 18:00", "0 18 LW * *"),
        ("daily at noon", "0 12 * * *"),
        ("daily at midnight", "0 0 * * *"),
        ("every day at 7:30", "30 7 * * *"),
        ("Every  Day at 7:30 PM", "30 19 * * *"),
        ("every day at 12am", "0 0 * * *"),
        ("at 9am on weekdays", "0 9 * * 1-5"),
        ("weekends at 10", "0 10 * * 0,6"),
        ("mon-fri at 9", "0 9 * * 1-5"),
        ("saturday to monday at 9", "0 9 * * 0-1,6"),
        ("Tuesdays and Thursdays at 8:15", "15 8 * * 2,4"),
        ("every day at 9am, 5pm", "0 9,17 * * *"),
        ("every day at 9am and 17:30", "0 9 * * *; 30 17 * * *"),
        ("1st and 15th of every month at 9am", "0 9 1,15 * *"),
        ("monthly on the 22nd at 8", "0 8 22 * *"),
        ("every december 25 at 9am", "0 9 25 12 *"),
        ("@Daily", "0 0 * * *"),
        ("0  9\t* * mon", "0 9 * * 1"),
        ("0 9 * * Sat-Sun", "0 9 * * 6-0"),
        ("00 09 * * *", "0 9 * * *"),
        ("every 120 seconds", "every 2m"),
        ("every 1h30m", "every 90m"),
        ("every 1 hour and 30 minutes", "every 90m"),
        ("every hour", "every 1h"),
        ("EVERY 2H FROM 9AM", "every 2h from 09:00"),
        ("in 90 minutes", "in 90m"),
        ("2026-06-22", "2026-06-22T00:00:00+02:00"),
        ("2026-06-22 20:07", "2026-06-22T20:07:00+02:00"),
        ("2026-06-22T20:07Z", "2026-06-22T22:07:00+02:00"),
        ("2026-10-25T02:30", "2026-10-25T02:30:00+02:00"),
        ("2026-10-25T02:30+01:00", "2026-10-25T02:30:00+01:00"),
        ("CRON_TZ=Asia/Tokyo @daily", "CRON_TZ=Asia/Tokyo 0 0 * * *"),
        ("CRON_TZ=Asia/Tokyo weekdays at 9am", "CRON_TZ=Asia/Tokyo 0 9 * * 1-5"),
        ("TZ=Europe/Berlin 0 9 * * *", "0 9 * * *"),
    ],
)
def test_a_text_means_its_canonical_form(text: str, cron: str) -> None:
    schedule = parse_schedule(text, zone=BERLIN, anchor=ANCHOR)
    assert schedule.text == cron
    assert parse_schedule(schedule.text, zone=BERLIN, anchor=ANCHOR) == schedule


@pytest.mark.parametrize(
    ("wrapped", "plain"),
    [
        ("0 9 * * SAT-SUN", "0 9 * * 6,0"),
        ("0 9 * * FRI-MON", "0 9 * * 5,6,0,1"),
        ("0 9 * * 5-7", "0 9 * * 5,6,0"),
        ("0 9 * * 7-2", "0 9 * * 0,1,2"),
        ("0 9 * * sat-wed/2", "0 9 * * 6,1,3"),
        ("0 22-2 * * *", "0 22,23,0,1,2 * * *"),
        ("0 20-4/4 * * *", "0 20,0,4 * * *"),
        ("0 0 1 NOV-FEB *", "0 0 1 11,12,1,2 *"),
        ("0 0 30-2 * *", "0 0 30,31,1,2 * *"),
        ("5-5/10 * * * *", "5 * * * *"),
        ("50/5 * * * *", "50,55 * * * *"),
    ],
)
def test_a_range_may_run_over_the_end_of_its_field(wrapped: str, plain: str) -> None:
    first = parse_schedule(wrapped, zone=BERLIN, anchor=ANCHOR)
    second = parse_schedule(plain, zone=BERLIN, anchor=ANCHOR)
    until = datetime(2027, 3, 1, tzinfo=UTC)
    assert first.between(ANCHOR, until, 500) == second.between(ANCHOR, until, 500)


def test_six_fields_have_the_seconds_first() -> None:
    schedule = parse_schedule("30 0 9 * * *", zone=ZoneInfo("UTC"), anchor=ANCHOR)
    assert schedule.next_after(ANCHOR) == datetime(2026, 1, 2, 9, 0, 30, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "column", "message"),
    [
        ("61 * * * *", 1, "minute: 61 is more than 59; write a number from 0 to 59"),
        ("0 24 * * *", 3, "hour: 24 is more than 23; write a number from 0 to 23"),
        ("0 9 0 * *", 5, "day of month: 0 is less than 1; write a number from 1 to 31"),
        ("0 9 1,40 * *", 7, "day of month: 40 is more than 31; write a number from 1 to 31"),
        ("0 9 * 1-13 *", 9, "month: 13 is more than 12; write a number from 1 to 12"),
        ("0 9 * * MOM", 9, 'weekday: "MOM" is not known; did you mean MON?'),
        ("0 9 * JAM *", 7, 'month: "JAM" is not known; did you mean JAN?'),
        ("CRON_TZ=Asia/Tokyo 0 24 * * *", 22, "hour: 24 is more than 23; write a number from 0 to 23"),
        ("0 9 * * *; 0 24 * * *", 14, "hour: 24 is more than 23; write a number from 0 to 23"),
        ("*/90 * * * *", 3, "minute: a step of 90 is longer than the field (0-59); write `every 90m`"),
        ("0 */36 * * *", 5, "hour: a step of 36 is longer than the field (0-23); write `every 36h`"),
        ("*/0 * * * *", 3, "minute: a step of 0 never moves; write a step of 1 or more"),
        ("0 9 * * 1,", 11, "weekday: there is an empty item in the list; remove the extra comma"),
        (
            "50-10 * * * *",
            1,
            "minute: 50-10 runs backwards; write 50-59,0-10 if it is meant to run over the full hour or minute",
        ),
        ("0 0 12 ? * MON", 8, "day of month: `?` is Quartz's word for any; write *"),
        (
            "0 9 15W * *",
            5,
            "day of month: 15W, the nearest working day, is Quartz's; write LW for the month's last working day",
        ),
        ("0 9 L-3 * *", 5, "day of month: L-3, days before the last, is Quartz's; write L for the last day"),
        (
            "0 0 12 1 1 ? 2026",
            1,
            "seven fields are Quartz's form with a year; write six: second minute hour day month weekday",
        ),
        (
            "0 9 * *",
            1,
            "there are 4 fields; write 5 (minute hour day month weekday), or 6 with seconds first",
        ),
        ("0 9 * * 5#6", 11, "weekday: a month has at most five of each; write 5#1 to 5#5"),
        ("@dayly", 1, '"@dayly" is not known; did you mean @daily?'),
        (
            "@reboot",
            1,
            "@reboot names no time, and a restart runs nothing anew; write a time such as @daily, or call "
            "`hermes-cron trigger JOB` where the machine starts",
        ),
        ("every 0s", 7, "every 0s is shorter than the shortest interval; write every 1s or longer"),
        ("every 500ms", 7, "every 500ms is shorter than the shortest interval; write every 1s or longer"),
        ("every 0.5s", 7, "every 0.5s is shorter than the shortest interval; write every 1s or longer"),
        ("every 1.5h", 7, "every 1.5h has a fraction; write whole numbers, such as 90s or 1h30m"),
        ("30m", 1, "30m alone can mean two things; write every 30m or in 30m"),
        ("9am", 1, "9am has no days; write every day at 9am"),
        ("every day", None, "every day has no time of day; write every day at 09:00"),
        ("mondays", None, "mondays has no time of day; write mondays at 09:00"),
        (
            "every day at 25:00",
            None,
            '"25:00" is no time of day; write one from 00:00 to 23:59',
        ),
        ("every day at 13pm", None, '"13pm" is no time of day; with am or pm write an hour from 1 to 12'),
        ("evry monday at 9am", 1, '"evry" is not known; did you mean "every"?'),
        ("every mondya at 9am", 7, '"mondya" is not known; did you mean "monday"?'),
        (
            "hello world",
            1,
            '"hello" is not known; write five cron fields (0 9 * * 1-5), every 2h, weekdays at 9am, '
            "2026-06-22T20:07 or in 30m",
        ),
        (
            "every other day at 9",
            1,
            "every other day at 9 cannot be read; cron counts no days or weeks; write an interval with a start, "
            "such as every 14d from 2026-01-05T09:00",
        ),
        ("2026-02-30", 1, "2026-02-30 is not in the calendar; write a date that is"),
        ("2026-02-03T24:10", 12, "24:10 is no time of day; write one from 00:00 to 23:59"),
        (
            "CRON_TZ=Europe/Berln 0 9 * * *",
            9,
            '"Europe/Berln" is no IANA time zone; did you mean Europe/Berlin?',
        ),
    ],
)
def test_a_refusal_names_the_place_and_the_way_out(text: str, column: int | None, message: str) -> None:
    error = refusal(text)
    assert (error.column, error.message, error.text) == (column, message, text)


def test_the_guilty_text_of_a_list_is_named() -> None:
    assert refusal(["0 9 * * *", "0 99 * * *"]).text == "0 99 * * *"


@pytest.mark.parametrize(
    "text", ["", "   ", ";", [], "every", "in", "in banana", "1,2,3", "٣ * * * *", "0 9 * * 1-", "é"]
)
def test_nonsense_is_refused_in_one_line(text: str | list[str]) -> None:
    message = refusal(text).message
    assert "write" in message
    assert "\n" not in message


@pytest.mark.parametrize(
    "text", ["9" * 5000, "* " * 3000, "every " + "9" * 900 + "s", "in 99999999999h", "9" * 900 + " * * * *"]
)
def test_absurd_lengths_are_refused(text: str) -> None:
    assert refusal(text).message


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("0 9 * * *", ScheduleKind.CRON),
        ("every 2h", ScheduleKind.INTERVAL),
        ("in 5s", ScheduleKind.ONCE),
        ("in 5s; every 2h", ScheduleKind.INTERVAL),
        ("in 5s; 0 9 * * *", ScheduleKind.CRON),
    ],
)
def test_a_schedule_tells_its_kind(text: str, kind: ScheduleKind) -> None:
    assert parse_schedule(text, zone=BERLIN, anchor=ANCHOR).kind is kind


@pytest.mark.parametrize(
    ("text", "english"),
    [
        ("0 9 * * 1-5", "At 09:00 on Monday through Friday (Europe/Berlin)"),
        ("0 0 13 * 5", "At 00:00 on the 13th day of month, or on Friday (Europe/Berlin)"),
        ("0 8 22 * *", "At 08:00 on the 22nd day of every month (Europe/Berlin)"),
        ("*/15 * * * *", "Every 15th minute of every hour (Europe/Berlin)"),
        ("0 9 * * FRI-MON", "At 09:00 on Friday, Saturday, Sunday, and Monday (Europe/Berlin)"),
        ("every 2h", "Every 2h from Thu 1 Jan 2026 13:00 (Europe/Berlin)"),
        ("0 9 * * *; in 5s", "At 09:00 every day; Once, Thu 1 Jan 2026 13:00:05 (Europe/Berlin)"),
        (
            "0 9 * * *; CRON_TZ=Asia/Tokyo 0 9 * * *",
            "At 09:00 every day; At 09:00 every day in Asia/Tokyo (Europe/Berlin)",
        ),
    ],
)
def test_a_schedule_says_in_english_when_it_is_due(text: str, english: str) -> None:
    assert parse_schedule(text, zone=BERLIN, anchor=ANCHOR).describe() == english


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("* 9 * * *", "write 0 in the first field for once an hour"),
        ("*/45 * * * *", "write `every 45m` for that"),
        ("0 */5 * * *", "write `every 5h` for that"),
        ("*/5 * * * * *", "the first is seconds"),
        ("0 9 31 * *", "skips the months without a 31"),
        ("0 9 */2 * 1", "fires only when both hold"),
        ("2025-06-22", "has no occurrence left after Thu 1 Jan 2026 13:00"),
    ],
)
def test_what_may_not_be_meant_is_said(text: str, said: str) -> None:
    found = warnings_for(parse_schedule(text, zone=BERLIN, anchor=ANCHOR), ANCHOR)
    assert len(found) == 1
    assert said in found[0]


@pytest.mark.parametrize(
    "text", ["0 9 * * 1-5", "*/15 * * * *", "0 9 L * *", "0 9 31 12 *", "every 2h", "@hourly", "* * * * *"]
)
def test_a_plain_schedule_has_no_warnings(text: str) -> None:
    assert warnings_for(parse_schedule(text, zone=BERLIN, anchor=ANCHOR), ANCHOR) == []
