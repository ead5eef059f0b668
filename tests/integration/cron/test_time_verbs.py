"""What people do at run time: pause, snooze, resume, run now, replay; and what an edit of the file does."""

import asyncio
import logging
from datetime import timedelta

import pytest
from timebed import timed

from cron.control import ControlError

WEEKLY = "jobs: {report: {schedule: '45 20 * * 5', text: x, catch_up: none}}"
HOURLY = "jobs: {tick: {schedule: '0 * * * *', text: tock}}"


# --- pause and resume ---------------------------------------------------------------------------------


async def test_resuming_runs_nothing_at_once_and_the_pause_has_its_rows(tmp_path):
    async with timed(tmp_path, WEEKLY, "2026-03-06T16:00") as bed:
        await bed.advance("2026-03-06T17:00")
        await bed.wired.control.pause("report", by="kim")
        await bed.advance("2026-03-09T09:00")
        await bed.wired.control.resume("report")
        await bed.look()
        assert await bed.told("report") == [("03-06 20:45", "skipped_paused", 1)]
        assert bed.next_of("report") == "03-13 20:45"


async def test_a_pause_keeps_who_when_and_until_over_edits_and_restarts(tmp_path):
    async with timed(tmp_path, WEEKLY, "2026-03-06T16:00") as bed:
        until = bed.clock.wall + timedelta(days=10)
        await bed.wired.control.pause("report", by="kim", until=until)
        await bed.reload(tmp_path, WEEKLY.replace("45 20", "30 20"))
        edited = await bed.job_row("report")
    async with timed(tmp_path, None, "2026-03-07T16:00") as bed:
        row = await bed.job_row("report")
        assert [outcome for _, outcome, _ in await bed.told("report")] == ["skipped_paused"]
        await bed.advance("2026-03-20T21:00")
        told = [(outcome, count) for _, outcome, count in await bed.told("report")]
        assert told == [("skipped_paused", 2), ("ran", 1)]
    for each in (edited, row):
        assert (each.paused_by, each.paused_at.isoformat(), each.paused_until) == (
            "kim", "2026-03-06T16:00:00+00:00", until
        )  # fmt: skip


async def test_a_snooze_ends_by_itself_without_a_burst(tmp_path):
    async with timed(tmp_path, HOURLY, "2026-03-02T08:30") as bed:
        await bed.wired.control.snooze("tick", timedelta(hours=3), by="kim")
        await bed.step("2026-03-02T12:30", timedelta(minutes=30))
        assert await bed.told("tick") == [
            ("03-02 09:00", "skipped_paused", 3), ("03-02 12:00", "ran", 1)
        ]  # fmt: skip


# --- run now, and replay ------------------------------------------------------------------------------


async def test_a_manual_run_moves_no_schedule(tmp_path):
    async with timed(tmp_path, "jobs: {tick: {schedule: every 2h, text: x}}", "2026-03-02T08:00") as bed:
        await bed.advance("2026-03-02T09:10")
        await bed.wired.control.wait(await bed.wired.control.trigger("tick"))
        await bed.advance("2026-03-02T12:10")
        assert [row["due"][11:16] for row in await bed.rows("tick") if row["kind"] == "scheduled"] == ["10:00", "12:00"]


async def test_a_replay_runs_an_occurrence_again_for_another_place_and_leaves_the_first_row_alone(tmp_path):
    text = HOURLY.replace("text: tock", "text: 'due {{due}}'")
    async with timed(tmp_path, text, "2026-03-02T08:30") as bed:
        await bed.advance("2026-03-02T09:30")
        due = bed.clock.wall - timedelta(minutes=30)
        row = await bed.wired.control.wait(await bed.wired.control.trigger("tick", at=due, to=["local:#other"]))
        kinds = [(one["kind"], one["outcome"], one["due"]) for one in await bed.rows("tick")]
        assert (await bed.posts(), await bed.posts("other")) == (["due 2026-03-02T09:00:00+00:00"],) * 2
    assert sorted(kinds) == [
        ("replay", "ran", "2026-03-02T09:00:00+00:00"), ("scheduled", "ran", "2026-03-02T09:00:00+00:00")
    ]  # fmt: skip
    assert (row["kind"], [one["target"] for one in row["deliveries"]]) == ("replay", ["local:#other"])


async def test_a_one_shot_whose_daemon_died_is_unknown_and_can_be_run_once_more_by_hand(tmp_path):
    from sqlalchemy import update

    from cron.outcomes import RunState
    from state.schema import occurrences, runs

    text = "jobs: {once: {schedule: '2026-03-02T09:30', command: [echo, hi]}}"
    async with timed(tmp_path, text, "2026-03-02T09:00") as bed:
        await bed.advance("2026-03-02T09:30")

        def die(conn):
            conn.execute(update(runs).values(state=RunState.COMPOSING, finished_at=None))
            conn.execute(update(occurrences).values(outcome=None))

        await bed.wired.db.write(die)
    async with timed(tmp_path, None, "2026-03-02T09:31") as bed:
        assert await bed.told("once") == [("03-02 09:30", "unknown", 1)]
        due = bed.clock.wall - timedelta(minutes=1)
        row = await bed.wired.control.wait(await bed.wired.control.trigger("once", at=due))
        assert (row["outcome"], row["kind"]) == ("ran", "replay")


@pytest.mark.parametrize(
    ("at", "said"),
    [
        ("2026-03-02T09:15:00+00:00", "tick was not due at 2026-03-02T09:15:00+00:00; it was at 2026-03-02T09:00:00"),
        ("2026-03-02T11:00:00+00:00", "2026-03-02T11:00:00+00:00 has not come yet"),
    ],
)  # fmt: skip
async def test_what_was_never_due_cannot_be_replayed(tmp_path, at, said):
    from timebed import instant

    async with timed(tmp_path, HOURLY, "2026-03-02T08:30") as bed:
        await bed.advance("2026-03-02T09:30")
        with pytest.raises(ControlError, match=said.replace("+", r"\+")):
            await bed.wired.control.trigger("tick", at=instant(at))


async def test_a_replay_into_a_place_that_is_none_is_refused(tmp_path):
    async with timed(tmp_path, HOURLY, "2026-03-02T08:30") as bed:
        with pytest.raises(ControlError, match="nowhere"):
            await bed.wired.control.trigger("tick", to=["nowhere"])


# --- edits --------------------------------------------------------------------------------------------


async def test_a_changed_schedule_begins_anew_and_the_old_one_fires_no_more(tmp_path):
    async with timed(tmp_path, "jobs: {brief: {schedule: '0 7 * * *', text: x}}", "2026-08-21T08:00") as bed:
        await bed.reload(tmp_path, "jobs: {brief: {schedule: '0 7 * * 1-5', text: x}}")
        assert bed.next_of("brief") == "08-24 07:00"
        await bed.advance("2026-08-22T08:00")
        assert await bed.told("brief") == []


async def test_an_interval_that_was_edited_counts_from_the_edit(tmp_path):
    async with timed(tmp_path, "jobs: {tick: {schedule: every 2h, text: x}}", "2026-03-02T07:00") as bed:
        await bed.advance("2026-03-02T09:00")
        await bed.advance("2026-03-02T09:50")
        await bed.reload(tmp_path, "jobs: {tick: {schedule: every 1h, text: x}}")
        assert bed.next_of("tick") == "03-02 10:50"


async def test_what_lay_before_an_edit_is_accounted_by_the_rules_of_its_time(tmp_path):
    async with timed(tmp_path, HOURLY, "2026-03-02T08:30"):
        pass
    (tmp_path / "jobs.yaml").write_text("jobs: {tick: {schedule: '0 0 * * *', text: x}}")
    async with timed(tmp_path, None, "2026-03-02T11:30") as bed:
        rows = await bed.rows("tick")
    assert [(row["outcome"], row["count"], row["error"]) for row in rows] == [
        ("skipped_late", 3, "The job was changed before it ran.")
    ]


async def test_an_unchanged_job_keeps_its_anchor_through_edits_of_others(tmp_path):
    text = "jobs: {tick: {schedule: every 2h, text: x}, other: {schedule: '@daily', text: a}}"
    async with timed(tmp_path, text, "2026-03-02T07:00") as bed:
        await bed.advance("2026-03-02T08:30")
        await bed.reload(tmp_path, text.replace("text: a", "text: b"))
        assert bed.next_of("tick") == "03-02 09:00"


async def test_a_file_whose_zone_changes_says_so_in_one_line_and_runs_nothing(tmp_path, caplog):
    jobs = "jobs:\n" + "".join(f"  j{n}: {{schedule: '0 5 1 * *', text: x}}\n" for n in range(10))
    async with timed(tmp_path, "timezone: UTC\n" + jobs, "2026-03-17T08:00") as bed:
        caplog.clear()
        caplog.set_level(logging.INFO)
        await bed.reload(tmp_path, "timezone: America/New_York\n" + jobs)
        await bed.look()
        assert await bed.rows() == []
        assert bed.next_of("j3") == "04-01 09:00"
    said = [record.getMessage() for record in caplog.records if getattr(record, "action", "") == "jobs_changed"]
    assert said == ["10 jobs: zone changed from UTC to America/New_York, begun anew."]


async def test_a_renamed_job_keeps_its_history_and_its_pause_even_under_a_name_that_was_used_before(tmp_path):
    old = "jobs: {a: {schedule: '0 * * * *', text: x}, b: {schedule: '0 * * * *', text: y}}"
    async with timed(tmp_path, old, "2026-03-02T08:30") as bed:
        await bed.advance("2026-03-02T09:00")
        await bed.reload(tmp_path, "jobs: {b: {schedule: '0 * * * *', text: y}}")
        await bed.wired.control.pause("b", by="kim")
        await bed.reload(tmp_path, "jobs: {a: {schedule: '0 * * * *', text: y, was: b}}")
        await bed.advance("2026-03-02T10:00")
        assert await bed.told("a") == [("03-02 09:00", "ran", 1), ("03-02 10:00", "skipped_paused", 1)]
        assert await bed.told("a (removed, a)") == [("03-02 09:00", "ran", 1)]


async def test_a_removed_jobs_open_run_finishes(tmp_path):
    script = "until mv go gone 2>/dev/null; do sleep 0.02; done; echo done"
    slow = f"slow: {{schedule: '0 * * * *', command: [sh, -c, '{script}']}}"
    text = f"jobs: {{{slow}, other: {{schedule: '@daily', text: x}}}}"
    async with timed(tmp_path, text, "2026-03-02T08:30") as bed:
        await bed.advance("2026-03-02T09:00", settle=False)
        await bed.reload(tmp_path, "jobs: {other: {schedule: '@daily', text: x}}")
        (tmp_path / "go").touch()
        await bed.settled()
        assert (await bed.told("slow"), await bed.posts()) == ([("03-02 09:00", "ran", 1)], ["done"])


async def test_a_calendar_file_that_changes_is_followed(tmp_path):
    event = "BEGIN:VEVENT\r\nUID:1\r\nDTSTART;VALUE=DATE:{day}\r\nEND:VEVENT\r\n"
    ics = f"BEGIN:VCALENDAR\r\nVERSION:2.0\r\nPRODID:x\r\n{event}END:VCALENDAR\r\n"
    (tmp_path / "off.ics").write_text(ics.format(day="20260303"))
    text = "jobs: {brief: {schedule: '0 9 * * *', text: x, except: off.ics}}"
    async with timed(tmp_path, text, "2026-03-02T08:00") as bed:
        assert bed.next_of("brief") == "03-02 09:00"
        (tmp_path / "off.ics").write_text(ics.format(day="20260302"))
        await bed.wired.daemon.reread()
        assert bed.next_of("brief") == "03-03 09:00"


async def test_passes_do_not_wait_for_a_run_that_takes_its_time_to_die(tmp_path):
    script = "trap '' TERM; echo x >> began; while true; do sleep 0.05; done"
    text = f"""
        jobs:
          deaf: {{schedule: '*/5 * * * *', overlap: cancel, command: [sh, -c, "{script}"]}}
          other: {{schedule: '*/5 * * * *', text: x}}
    """
    async with timed(tmp_path, text, "2026-03-02T09:59") as bed:
        await bed.advance("2026-03-02T10:00", settle=False)
        began = asyncio.get_running_loop().time()
        await bed.advance("2026-03-02T10:05", settle=False)
        assert asyncio.get_running_loop().time() - began < 2.0  # SIGTERM alone has three seconds
