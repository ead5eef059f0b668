"""What a job says about overlap, retries, time limits and its calendar, as the rows and the posts show it."""

import asyncio
from datetime import timedelta
from pathlib import Path

import pytest
from daemonbed import until
from timebed import timed

MINUTE = timedelta(minutes=1)


def waiting(name: str, *, more: str = "", schedule: str = "'*/5 * * * *'") -> str:
    """A job whose runs go on until the test lets them: each takes one `go` file."""
    script = "echo x >> began; until mv go gone 2>/dev/null; do sleep 0.02; done; echo done"
    return f'{name}: {{schedule: {schedule}, command: [sh, -c, "{script}"]{more}}}'


def let_go(folder: Path) -> None:
    (folder / "go").touch()


async def begun(folder: Path, count: int) -> None:
    path = folder / "began"
    await until(lambda: path.exists() and len(path.read_text().split()) >= count, f"{count} runs to begin")


# --- overlap ------------------------------------------------------------------------------------------


async def test_an_occurrence_that_finds_the_job_running_is_a_row_that_names_the_run_in_the_way(tmp_path):
    async with timed(tmp_path, f"jobs: {{{waiting('slow')}}}", "2026-03-02T09:59") as bed:
        await bed.advance("2026-03-02T10:00", settle=False)
        await begun(tmp_path, 1)
        await bed.advance("2026-03-02T10:05", settle=False)
        let_go(tmp_path)
        await bed.settled()
        first, second = await bed.rows("slow")
    assert (first["outcome"], second["outcome"]) == ("ran", "skipped_overlap")
    assert second["error"] == f"Run {first['run']}, due 2026-03-02T10:00:00Z, was still composing."


async def test_a_job_that_always_overruns_its_period_still_runs(tmp_path):
    async with timed(tmp_path, f"jobs: {{{waiting('slow')}}}", "2026-03-02T09:59") as bed:
        for turn in range(3):  # eight minutes each, every five
            start = 10 * turn
            await bed.advance(f"2026-03-02T10:{start:02}", settle=False)
            await begun(tmp_path, turn + 1)
            await bed.advance(f"2026-03-02T10:{start + 5:02}", settle=False)
            await bed.advance(f"2026-03-02T10:{start + 8:02}", settle=False)
            let_go(tmp_path)
            await bed.settled()
        rows = await bed.told("slow")
    assert [outcome for _, outcome, _ in rows] == ["ran", "skipped_overlap"] * 3


async def test_overlap_queue_runs_one_after_the_other(tmp_path):
    async with timed(tmp_path, f"jobs: {{{waiting('slow', more=', overlap: queue')}}}", "2026-03-02T09:59") as bed:
        await bed.advance("2026-03-02T10:00", settle=False)
        await begun(tmp_path, 1)
        await bed.advance("2026-03-02T10:05", settle=False)
        assert len((tmp_path / "began").read_text().split()) == 1
        let_go(tmp_path)
        await begun(tmp_path, 2)
        let_go(tmp_path)
        await bed.settled()
        assert [outcome for _, outcome, _ in await bed.told("slow")] == ["ran", "ran"]


async def test_a_queued_run_whose_turn_comes_too_late_is_skipped_and_says_so(tmp_path):
    text = f"jobs: {{{waiting('slow', more=', overlap: queue, late: 1m')}}}"
    async with timed(tmp_path, text, "2026-03-02T09:59") as bed:
        await bed.advance("2026-03-02T10:00", settle=False)
        await begun(tmp_path, 1)
        await bed.advance("2026-03-02T10:05", settle=False)
        await bed.advance("2026-03-02T10:08", settle=False)
        let_go(tmp_path)
        await bed.settled()
        rows = await bed.rows("slow")
    assert [row["outcome"] for row in rows] == ["ran", "skipped_late"]
    assert rows[1]["error"] == "It waited for its turn for longer than 3m."


async def test_overlap_cancel_ends_the_run_before_and_nobody_is_alarmed(tmp_path):
    async with timed(tmp_path, f"jobs: {{{waiting('slow', more=', overlap: cancel')}}}", "2026-03-02T09:59") as bed:
        await bed.advance("2026-03-02T10:00", settle=False)
        await begun(tmp_path, 1)
        await bed.advance("2026-03-02T10:05", settle=False)
        await begun(tmp_path, 2)
        let_go(tmp_path)
        await bed.settled()
        rows = await bed.rows("slow")
        assert [row["outcome"] for row in rows] == ["failed", "ran"]
        assert (rows[0]["error"], await bed.posts("alerts")) == ("It was cancelled by the next occurrence.", [])


async def test_overlap_allow_runs_both_at_the_same_time(tmp_path):
    async with timed(tmp_path, f"jobs: {{{waiting('slow', more=', overlap: allow')}}}", "2026-03-02T09:59") as bed:
        await bed.advance("2026-03-02T10:00", settle=False)
        await bed.advance("2026-03-02T10:05", settle=False)
        await begun(tmp_path, 2)
        let_go(tmp_path)
        await until(lambda: (tmp_path / "gone").exists(), "one to end")
        let_go(tmp_path)
        await bed.settled()
        assert [outcome for _, outcome, _ in await bed.told("slow")] == ["ran", "ran"]


async def test_one_slow_job_keeps_no_other_waiting(tmp_path):
    text = f"jobs: {{{waiting('slow', schedule=repr('30 9 * * *'))}, other: {{schedule: '40 9 * * *', text: x}}}}"
    async with timed(tmp_path, text, "2026-03-02T09:00") as bed:
        await bed.advance("2026-03-02T09:30", settle=False)
        await begun(tmp_path, 1)
        await bed.advance("2026-03-02T09:40", settle=False)
        row = await until(lambda: ended(bed, "other"), "the other job")
        let_go(tmp_path)
        await bed.settled()
    assert (row["outcome"], row["started_at"][:16]) == ("ran", "2026-03-02T09:40")


async def ended(bed, job: str):
    rows = await bed.rows(job)
    return rows[-1] if rows and rows[-1]["outcome"] else None


async def test_max_running_lets_so_many_work_and_a_reload_changes_it(tmp_path):
    jobs = "\n".join(f"  {waiting(f'j{n}', schedule=repr('0 10 * * *'))}" for n in range(3))
    async with timed(tmp_path, f"max_running: 1\njobs:\n{jobs}\n", "2026-03-02T09:59") as bed:
        await bed.advance("2026-03-02T10:00", settle=False)
        await begun(tmp_path, 1)
        await asyncio.sleep(0.3)
        assert len((tmp_path / "began").read_text().split()) == 1
        await bed.reload(tmp_path, f"max_running: 3\njobs:\n{jobs}\n")
        await begun(tmp_path, 3)
        for _ in range(3):
            let_go(tmp_path)
            await until(lambda: not (tmp_path / "go").exists(), "one to end")
        await bed.settled()


# --- attempts -----------------------------------------------------------------------------------------

FLAKY = """
    jobs:
      brief:
        schedule: "30 7 * * *"
        command: [sh, -c, "echo x >> tries; test $(wc -l < tries) -ge 2 || {{ echo busy >&2; exit 75; }}; echo fine"]
        retry: {{attempts: {attempts}, wait: 10m}}
"""


async def test_a_transient_failure_is_tried_again_in_the_same_run_and_delivered_once(tmp_path):
    async with timed(tmp_path, FLAKY.format(attempts=3), "2026-03-02T07:00") as bed:
        await bed.advance("2026-03-02T07:30", settle=False)
        await until(lambda: tries(tmp_path) == 1, "the first try")
        await asyncio.sleep(0.2)
        await bed.advance("2026-03-02T07:40")
        rows = await bed.rows("brief")
        assert (await bed.posts(), await bed.posts("alerts")) == (["fine"], [])
    assert [(row["outcome"], row["started_at"][:16]) for row in rows] == [("ran", "2026-03-02T07:30")]


async def test_without_a_second_attempt_a_failure_is_a_failure(tmp_path):
    async with timed(tmp_path, FLAKY.format(attempts=1), "2026-03-02T07:00") as bed:
        await bed.advance("2026-03-02T07:30")
        assert [outcome for _, outcome, _ in await bed.told("brief")] == ["failed"]


async def test_a_try_that_would_come_too_late_to_be_useful_is_not_made(tmp_path):
    text = FLAKY.format(attempts=3) + "        late: 5m\n"
    async with timed(tmp_path, text, "2026-03-02T07:00") as bed:
        await bed.advance("2026-03-02T07:30")
        assert ([outcome for _, outcome, _ in await bed.told("brief")], tries(tmp_path)) == (["failed"], 1)


async def test_what_can_never_succeed_is_not_tried_again(tmp_path):
    text = "jobs: {brief: {schedule: '30 7 * * *', command: [no-such-program], retry: {attempts: 5, wait: 1m}}}"
    async with timed(tmp_path, text, "2026-03-02T07:00") as bed:
        await bed.advance("2026-03-02T07:30")
        row = (await bed.rows("brief"))[0]
    assert (row["outcome"], "was not found" in row["error"]) == ("failed", True)


async def test_a_daemon_that_is_stopped_between_two_tries_makes_the_second_after_its_restart(tmp_path):
    async with timed(tmp_path, FLAKY.format(attempts=3), "2026-03-02T07:00") as bed:
        await bed.advance("2026-03-02T07:30", settle=False)
        await until(lambda: tries(tmp_path) == 1, "the first try")

        async def waits():
            return await bed.read(lambda conn: conn.exec_driver_sql("SELECT 1 FROM runs WHERE state = 'claimed'").all())

        await until(waits, "the wait for the second try")
    async with timed(tmp_path, None, "2026-03-02T07:35") as bed:
        await bed.settled()
        assert ([outcome for _, outcome, _ in await bed.told("brief")], await bed.posts()) == (["ran"], ["fine"])


def tries(folder: Path) -> int:
    path = folder / "tries"
    return len(path.read_text().split()) if path.exists() else 0


async def test_a_run_that_hangs_is_ended_at_its_timeout_and_the_next_occurrence_runs(tmp_path):
    script = "echo x >> tries; test $(wc -l < tries) -ge 2 || sleep 300; echo fine"
    text = f"jobs: {{hang: {{schedule: '0 * * * *', timeout: 1s, command: [sh, -c, '{script}']}}}}"
    async with timed(tmp_path, text, "2026-03-02T08:59") as bed:
        await bed.advance("2026-03-02T09:00")
        await bed.advance("2026-03-02T10:00")
        assert [outcome for _, outcome, _ in await bed.told("hang")] == ["failed", "ran"]


async def test_an_agent_that_cannot_be_ended_is_abandoned_and_what_it_writes_later_is_dropped(tmp_path, monkeypatch):
    from cron.agents.ports import Composed
    from cron.agents.text import TextAgent

    monkeypatch.setattr("cron.asking.ABANDON_AFTER", 0.2)
    released, calls = asyncio.Event(), []

    class Stubborn(TextAgent):
        async def compose(self, request, started):
            calls.append(request.run_id)
            if len(calls) > 1:
                return Composed(text="the next one")
            while not released.is_set():
                try:
                    await released.wait()
                except asyncio.CancelledError:
                    continue
            return Composed(text="much too late")

    text = "jobs: {hang: {schedule: '0 * * * *', timeout: 1s, text: x, retry: {attempts: 3, wait: 1s}}}"
    async with timed(tmp_path, text, "2026-03-02T08:59") as bed:
        stubborn = Stubborn()
        bed.wired.control.runner._asker._agent = lambda spec: stubborn
        await bed.advance("2026-03-02T09:00")
        released.set()
        await bed.advance("2026-03-02T10:00")
        rows = await bed.rows("hang")
        assert ([row["outcome"] for row in rows], len(calls)) == (["unknown", "ran"], 2)
        assert ("could not be ended" in rows[0]["error"], await bed.posts()) == (True, ["the next one"])


# --- when it is due -----------------------------------------------------------------------------------


async def test_jitter_delays_the_start_and_leaves_due_as_it_is(tmp_path):
    from timebed import instant

    from cron.schedule import jitter_for

    text = "jobs: {brief: {schedule: '0 9 * * *', text: x, jitter: 30m}}"
    due = instant("2026-03-02T09:00")
    delay = jitter_for("brief", due, timedelta(minutes=30))
    async with timed(tmp_path, text, "2026-03-02T08:00") as bed:
        await bed.advance("2026-03-02T09:00", settle=False)
        await bed.advance(due + delay - timedelta(seconds=2), settle=False)
        await asyncio.sleep(0.1)
        assert (await bed.rows("brief"))[0]["started_at"] is None
        await bed.advance(due + delay + timedelta(seconds=1))
        row = (await bed.rows("brief"))[0]
    assert (row["due"], row["outcome"]) == ("2026-03-02T09:00:00+00:00", "ran")
    assert timedelta(0) <= instant(row["started_at"]) - (due + delay) <= timedelta(seconds=1)


async def test_a_restart_during_the_jitter_keeps_the_claim_and_runs_it(tmp_path):
    text = "jobs: {brief: {schedule: '0 9 * * *', text: x, jitter: 30m}}"
    async with timed(tmp_path, text, "2026-03-02T08:00") as bed:
        await bed.advance("2026-03-02T09:00", settle=False)
    async with timed(tmp_path, None, "2026-03-02T09:00:30", settle=False) as bed:
        await bed.advance("2026-03-02T09:31")
        assert await bed.told("brief") == [("03-02 09:00", "ran", 1)]


async def test_times_start_and_end_bound_the_rows(tmp_path):
    text = """
        jobs:
          twice: {schedule: "0 * * * *", text: x, times: 2}
          window: {schedule: "0 * * * *", text: x, start: "2026-03-02T11:00", end: "2026-03-02T12:00"}
    """
    async with timed(tmp_path, text, "2026-03-02T08:30") as bed:
        await bed.step("2026-03-02T15:30", timedelta(minutes=30))
        told = [[due for due, _, _ in await bed.told(job)] for job in ("twice", "window")]
        assert (bed.next_of("twice"), bed.next_of("window")) == (None, None)
    assert told == [["03-02 09:00", "03-02 10:00"], ["03-02 11:00", "03-02 12:00"]]


ICS = b"""BEGIN:VCALENDAR
VERSION:2.0
PRODID:-//x//x//EN
BEGIN:VEVENT
UID:1
DTSTART;VALUE=DATE:20260303
DTEND;VALUE=DATE:20260305
SUMMARY:Company days
END:VEVENT
BEGIN:VEVENT
UID:2
DTSTART;VALUE=DATE:20200306
RRULE:FREQ=YEARLY
SUMMARY:Founders' day
END:VEVENT
END:VCALENDAR
"""


async def test_days_off_from_a_calendar_file_are_rows_that_name_the_event(tmp_path):
    (tmp_path / "team.ics").write_bytes(ICS.replace(b"\n", b"\r\n"))
    text = "jobs: {brief: {schedule: '0 9 * * *', text: x, except: [team.ics, 2026-03-07]}}"
    async with timed(tmp_path, text, "2026-03-02T08:00") as bed:
        await bed.step("2026-03-08T10:00", timedelta(hours=1))
        rows = await bed.rows("brief")
    assert [(row["due"][8:10], row["outcome"], row["error"]) for row in rows] == [
        ("02", "ran", None),
        ("03", "skipped_calendar", "2026-03-03 is a day off: Company days."),
        ("04", "skipped_calendar", "2026-03-04 is a day off: Company days."),
        ("05", "ran", None),
        ("06", "skipped_calendar", "2026-03-06 is a day off: Founders' day."),
        ("07", "skipped_calendar", "It falls on a day that `except` names."),
        ("08", "ran", None),
    ]


async def test_a_named_holiday_is_skipped_with_its_name(tmp_path):
    text = "jobs: {brief: {schedule: '0 9 * * *', text: x, except: 'holidays:DE-BY'}}"
    async with timed(tmp_path, text, "2026-12-24T08:00") as bed:
        await bed.step("2026-12-27T10:00", timedelta(hours=1))
        rows = await bed.rows("brief")
    assert [row["outcome"] for row in rows] == ["ran", "skipped_calendar", "skipped_calendar", "ran"]
    assert rows[1]["error"] == "2026-12-25 is a day off: Christmas Day (holidays:DE-BY)."


async def test_a_saturday_that_is_worked_has_a_run_and_its_monday_off_has_none(tmp_path):
    text = "jobs: {brief: {schedule: '0 9 * * 1-5', text: x, also: [2026-02-14], except: [2026-02-16]}}"
    async with timed(tmp_path, text, "2026-02-13T08:00") as bed:
        await bed.step("2026-02-17T10:00", timedelta(hours=1))
        assert [(due, outcome) for due, outcome, _ in await bed.told("brief")] == [
            ("02-13 09:00", "ran"), ("02-14 09:00", "ran"), ("02-16 09:00", "skipped_calendar"), ("02-17 09:00", "ran")
        ]  # fmt: skip


@pytest.mark.parametrize(
    ("zone", "begin", "end", "expected"),
    [
        ("Europe/Berlin", "2026-03-28T00:00+01:00", "2026-03-31T00:00+02:00",
         ["03-28 01:30", "03-29 01:00", "03-30 00:30"]),
        ("America/Santiago", "2022-09-10T12:00-04:00", "2022-09-12T12:00-03:00", ["09-11 05:30", "09-12 05:30"]),
        ("Europe/Berlin", "2026-10-24T12:00+02:00", "2026-10-26T12:00+01:00", ["10-25 00:30", "10-26 01:30"]),
    ],
)  # fmt: skip
async def test_a_daemon_that_lives_through_a_clock_change_runs_once_a_day(tmp_path, zone, begin, end, expected):
    async with timed(tmp_path, f"timezone: {zone}\njobs: {{night: {{schedule: '30 2 * * *', text: x}}}}", begin) as bed:
        await bed.step(end, timedelta(minutes=30))
        assert [due for due, outcome, _ in await bed.told("night") if outcome == "ran"] == expected
