"""docs/schedules.md promises only what is read."""

import re
from datetime import UTC, datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from cron.outcomes import Outcome
from cron.schedule import ScheduleError, parse_schedule

PAGE = (Path(__file__).parents[3] / "docs" / "schedules.md").read_text(encoding="utf-8")
ANCHOR = datetime(2026, 1, 1, 12, tzinfo=UTC)
BERLIN = ZoneInfo("Europe/Berlin")
FORMS = PAGE[PAGE.index("## Every form") : PAGE.index("## What the fields mean")]
ROWS = re.findall(r"^\| `([^`]+)` \| (.+) \|$", FORMS, re.MULTILINE)
TRANSLATED = [(form, match[1]) for form, means in ROWS if (match := re.match(r"`([^`]+)`", means)) and "*" in match[1]]


def test_the_table_is_found() -> None:
    assert len(ROWS) > 45
    assert len(TRANSLATED) > 15


@pytest.mark.parametrize("form", [form for form, _ in ROWS])
def test_every_documented_form_is_read_and_comes_due(form: str) -> None:
    schedule = parse_schedule(form, zone=BERLIN, anchor=ANCHOR)
    assert schedule.next_after(ANCHOR) is not None
    assert parse_schedule(schedule.text, zone=BERLIN, anchor=ANCHOR) == schedule


@pytest.mark.parametrize(("form", "cron"), TRANSLATED)
def test_a_form_means_the_crontab_line_beside_it(form: str, cron: str) -> None:
    assert parse_schedule(form, zone=BERLIN, anchor=ANCHOR).text == cron


@pytest.mark.parametrize("form", ["0 0 31 2 *", "*/90 * * * *", "@reboot", "50-10 * * * *", "0 9 15W * *", "0 9 ? * 1"])
def test_what_the_page_calls_refused_is_refused(form: str) -> None:
    with pytest.raises(ScheduleError):
        parse_schedule(form, zone=BERLIN, anchor=ANCHOR)


def test_every_outcome_is_explained() -> None:
    table = PAGE[PAGE.index("## What becomes of an occurrence") :]
    assert set(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)) == {str(outcome) for outcome in Outcome}
