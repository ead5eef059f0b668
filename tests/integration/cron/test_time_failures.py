"""Who hears of a failure, how often, and when a job is paused for it."""

import re
from datetime import timedelta

from timebed import timed

# Fails while a file `bad` is there; its words are the failure's cause.
JOB = """
    jobs:
      brief:
        schedule: "0 9 * * *"
        command: [sh, -c, "test -e bad || {{ echo fine; exit 0; }}; cat bad >&2; exit 1"]
        deliver: "local:#readers"
        on_failure: "local:#ops"
        {more}
"""
DAY = timedelta(days=1)


async def days(bed, first: int, last: int) -> None:
    for day in range(first, last + 1):
        await bed.advance(f"2026-03-{day:02}T09:00")


async def test_a_failure_is_told_to_its_owner_and_never_to_the_readers(tmp_path):
    (tmp_path / "bad").write_text("the disk is full\n")
    async with timed(tmp_path, JOB.format(more=""), "2026-03-02T08:00") as bed:
        await days(bed, 2, 2)
        row = (await bed.rows("brief"))[0]
        notices = await bed.posts("ops")
        sessions = await bed.read(lambda conn: conn.exec_driver_sql("SELECT count(*) FROM sessions").scalar())
        assert (await bed.posts("readers"), sessions) == ([], 0)
    assert notices == [
        "**brief** failed (due 2026-03-02T09:00+00:00): The command exited with code 1: the disk is full "
        f"See `hermes-cron show {row['run']}`."
    ]


async def test_the_same_cause_is_told_once_reminded_of_daily_and_its_end_is_one_line(tmp_path):
    (tmp_path / "bad").write_text("error 4711\n")
    text = JOB.format(more="").replace('"0 9 * * *"', '"0 */6 * * *"')
    async with timed(tmp_path, text, "2026-03-02T08:00") as bed:
        await bed.step("2026-03-03T18:30", timedelta(hours=6))
        (tmp_path / "bad").write_text("error 4712\n")  # another number is no other cause
        await bed.step("2026-03-04T06:30", timedelta(hours=6))
        (tmp_path / "bad").unlink()
        await bed.step("2026-03-04T18:30", timedelta(hours=6))
        notices = [re.sub(r"\(.*?\)|See.*", "", post).split(":")[0] for post in await bed.posts("ops")]
    assert notices == ["**brief** failed ", "**brief** still fails ", "**brief** is well again ."]


async def test_another_cause_is_another_incident(tmp_path):
    async with timed(tmp_path, JOB.format(more=""), "2026-03-02T08:00") as bed:
        for day, words in ((2, "the disk is full"), (3, "the disk is full"), (4, "no network")):
            (tmp_path / "bad").write_text(words + "\n")
            await days(bed, day, day)
        causes = [post.split("code 1: ")[1][:16] for post in await bed.posts("ops")]
    assert causes[0] == "the disk is full" and causes[-1].startswith("no network")


async def test_a_job_that_fails_too_often_is_paused_with_a_notice_that_says_how_to_go_on(tmp_path):
    (tmp_path / "bad").write_text("broken\n")
    async with timed(tmp_path, JOB.format(more="stop_after: 3"), "2026-03-02T08:00") as bed:
        await days(bed, 2, 6)
        row = await bed.job_row("brief")
        notices = await bed.posts("ops")
        rows = [(outcome, count) for _, outcome, count in await bed.told("brief")]
    assert rows == [("failed", 1), ("failed", 1), ("failed", 1), ("skipped_paused", 2)]
    assert (row.paused_by, "hermes-cron resume brief" in notices[-1]) == ("stop_after, 3 failures in a row", True)


async def test_a_resumed_job_has_all_its_failures_before_it_again(tmp_path):
    (tmp_path / "bad").write_text("broken\n")
    async with timed(tmp_path, JOB.format(more="stop_after: 2"), "2026-03-02T08:00") as bed:
        await days(bed, 2, 3)
        await bed.wired.control.resume("brief")
        await days(bed, 4, 4)
        assert (await bed.job_row("brief")).paused_by is None
        await days(bed, 5, 5)
        assert (await bed.job_row("brief")).paused_by == "stop_after, 2 failures in a row"


async def test_skips_and_manual_runs_neither_break_nor_make_a_streak(tmp_path):
    more = "stop_after: 3\n        late: 1h\n        catch_up: none"
    async with timed(tmp_path, JOB.format(more=more), "2026-03-01T08:00") as bed:
        await days(bed, 1, 1)
        (tmp_path / "bad").write_text("broken\n")
        await days(bed, 2, 2)
        await bed.suspend("2026-03-03T12:00")  # slept over it: a skip
        await days(bed, 4, 4)
        (tmp_path / "bad").unlink()
        await bed.wired.control.wait(await bed.wired.control.trigger("brief"))  # well, but nobody's schedule
        (tmp_path / "bad").write_text("broken\n")
        for _ in range(3):
            await bed.wired.control.wait(await bed.wired.control.trigger("brief"))
        assert ((await bed.job_row("brief")).paused_by, (await bed.job_row("brief")).failures) == (None, 2)
        await days(bed, 5, 5)
        assert (await bed.job_row("brief")).paused_by == "stop_after, 3 failures in a row"


async def test_a_good_run_ends_the_streak(tmp_path):
    async with timed(tmp_path, JOB.format(more="stop_after: 2"), "2026-03-02T08:00") as bed:
        for day in range(2, 8):
            if day % 2:
                (tmp_path / "bad").write_text("broken\n")
            else:
                (tmp_path / "bad").unlink(missing_ok=True)
            await days(bed, day, day)
        assert (await bed.job_row("brief")).paused_by is None


async def test_an_alarm_never_holds_a_secret(tmp_path):
    (tmp_path / "bad").write_text("refused: hunter2-hunter2\n")
    text = JOB.format(more='env: {PASS: "${PASS}"}')
    async with timed(tmp_path, text, "2026-03-02T08:00", environ={"PASS": "hunter2-hunter2"}) as bed:
        await days(bed, 2, 2)
        notice, row = (await bed.posts("ops"))[0], (await bed.rows("brief"))[0]
    assert ("hunter2" in notice, "hunter2" in row["error"], "[secret]" in notice) == (False, False, True)
