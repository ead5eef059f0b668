"""Days off and days that are worked: what jobs.yaml may name, and what is said where it cannot be had."""

from datetime import UTC, date, datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from unit.cron.jobs_loading import load_job, mistakes

from cron.calendars import CalendarError, days_of_ics
from cron.definitions import definition_of, fingerprint_of, schedule_of
from cron.schedule import parse_schedule
from cron.schedules.days import Days, DaySpan, calendar_year

AROUND = datetime(2026, 3, 1, tzinfo=UTC)
BERLIN = ZoneInfo("Europe/Berlin")
JOB = "jobs:\n  j:\n    schedule: '@daily'\n    text: hi\n    {line}\n"


def ics(*lines: str) -> bytes:
    body = "\r\n".join(["BEGIN:VEVENT", "UID:1", *lines, "END:VEVENT"])
    return f"BEGIN:VCALENDAR\r\nVERSION:2.0\r\nPRODID:x\r\n{body}\r\nEND:VCALENDAR\r\n".encode()


def days(*lines: str) -> list[tuple[str, str]]:
    spans = days_of_ics(ics(*lines), "team.ics", zone=BERLIN, around=AROUND)
    return [(span.first.isoformat(), span.last.isoformat()) for span in spans]


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (["DTSTART;VALUE=DATE:20260303"], [("2026-03-03", "2026-03-03")]),
        (["DTSTART;VALUE=DATE:20260303", "DTEND;VALUE=DATE:20260306"], [("2026-03-03", "2026-03-05")]),
        (["DTSTART:20260303T230000Z", "DTEND:20260304T010000Z"], [("2026-03-04", "2026-03-04")]),
        (["DTSTART:20260303T100000Z", "DURATION:P2D"], [("2026-03-03", "2026-03-05")]),
        (
            ["DTSTART;VALUE=DATE:20260601", "RRULE:FREQ=YEARLY;COUNT=2", "EXDATE;VALUE=DATE:20260601"],
            [("2027-06-01", "2027-06-01")],
        ),
    ],
)
def test_the_days_that_an_event_touches(lines: list[str], expected: list[tuple[str, str]]) -> None:
    assert days(*lines) == expected


@pytest.mark.parametrize("data", [b"", b"hello", b"BEGIN:VCALENDAR\r\nEND:VCALENDAR\r\n", b"\xff\xfe\x00"])
def test_a_file_that_is_no_calendar_is_refused_in_a_sentence(data: bytes) -> None:
    with pytest.raises(CalendarError, match=r"^team\.ics "):
        days_of_ics(data, "team.ics", zone=BERLIN, around=AROUND)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (
            "except: 'holidays:XX'",
            '"XX" is no calendar: write holidays:DE, holidays:DE-BY, holidays:US or holidays:NYSE',
        ),
        ("except: 'holidays:DE-ZZ'", 'DE has no part "ZZ": its parts are BB,'),
        ("except: no.ics", "no.ics cannot be read (No such file or directory): name a file beside jobs.yaml"),
        ("also: 2026-02-14", "`also` is for schedules by weekday, such as 0 9 * * 1-5; remove it here"),
        ("max_running: 3", '"max_running" is not known here'),
    ],
)
def test_what_cannot_be_had_is_said_with_the_way_out(tmp_path: Path, line: str, said: str) -> None:
    found = mistakes(tmp_path, JOB.format(line=line))
    assert any(said in mistake for mistake in found), found


def test_a_named_calendar_knows_every_year_that_it_is_asked_for() -> None:
    off = Days(calendars=("DE-BY",))
    assert date(2031, 12, 25) in off and date(2031, 12, 24) not in off
    assert off.reason(date(2031, 12, 25)) == "2031-12-25 is a day off: Christmas Day (holidays:DE-BY)."


def test_the_weekends_that_a_country_works_are_due() -> None:
    worked = min(calendar_year("CN", 2026).worked)
    schedule = parse_schedule(
        "0 9 * * 1-5", zone=ZoneInfo("Asia/Shanghai"), anchor=AROUND, also=Days(calendars=("CN",))
    )
    start = datetime(2026, 1, 1, tzinfo=UTC)
    assert worked.weekday() >= 5
    assert worked in {
        at.astimezone(schedule.zone).date() for at in schedule.between(start, datetime(2027, 1, 1, tzinfo=UTC), 400)
    }


def test_worked_days_are_found_forwards_and_backwards() -> None:
    also = Days((DaySpan(first=date(2026, 2, 14), last=date(2026, 2, 15)),))
    schedule = parse_schedule("0 9,17 * * 1-5", zone=BERLIN, anchor=AROUND, also=also)
    since, until = datetime(2026, 2, 13, 12, tzinfo=UTC), datetime(2026, 2, 16, 12, tzinfo=UTC)
    forwards = schedule.between(since, until, 50)
    backwards, at = [], schedule.latest_until(until, after=since)
    while at is not None:
        backwards.insert(0, at)
        at = schedule.latest_until(at - (at.resolution), after=since)
    assert [f"{at:%d %H}" for at in forwards] == ["13 16", "14 08", "14 16", "15 08", "15 16", "16 08"]
    assert backwards == forwards


def test_a_stored_definition_gives_the_same_days_again(tmp_path: Path) -> None:
    (tmp_path / "team.ics").write_bytes(ics("DTSTART;VALUE=DATE:20260601", "SUMMARY:Founders", "RRULE:FREQ=YEARLY"))
    job = load_job(tmp_path, "schedule: 0 9 * * 1-5\nexcept: [team.ics, 'holidays:DE', 2026-05-05]\nalso: 2026-02-14")
    schedule = schedule_of(definition_of(job), AROUND)
    assert schedule.excluded == job.excluded
    assert schedule.excluded.reason(date(2026, 6, 1)) == "2026-06-01 is a day off: Founders."


def test_what_a_repeated_event_names_in_later_years_begins_no_schedule_anew(tmp_path: Path) -> None:
    (tmp_path / "team.ics").write_bytes(ics("DTSTART;VALUE=DATE:20200601", "RRULE:FREQ=YEARLY"))
    one = definition_of(load_job(tmp_path, "except: team.ics"))
    later = dict(one) | {"excluded": [["2033-06-01", "2033-06-01", ""]]}
    (tmp_path / "team.ics").write_bytes(ics("DTSTART;VALUE=DATE:20200602", "RRULE:FREQ=YEARLY"))
    other = definition_of(load_job(tmp_path, "except: team.ics"))
    assert fingerprint_of(one) == fingerprint_of(later) != fingerprint_of(other)
