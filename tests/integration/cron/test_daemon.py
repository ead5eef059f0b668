"""A daemon from file to answer, on the local platform: what a person sees, and what a restart finds."""

import asyncio
import logging
from datetime import UTC, datetime, timedelta

import pytest
from daemonbed import daemon, until, write_config
from sqlalchemy import update

from cron import ledger
from cron.outcomes import OccurrenceKind, RunState
from state.schema import deliveries, parts, runs

FRUIT = """
    jobs:
      fruit:
        schedule: in 1s
        text: |
          Two things:

          1. apples are **cheap**
          2. pears are sold out
"""


async def test_a_brief_appears_and_flat_and_thread_answers_know_it(tmp_path):
    async with daemon(tmp_path, FRUIT) as running:
        row = await running.run_of("fruit")
        brief = (await running.local())[0]
        flat = await running.answer_to("what about the second one?")
        threaded = await running.answer_to("and apples?", thread=brief["id"])
    assert (row["outcome"], row["kind"], row["deliveries"][0]["state"]) == ("ran", "scheduled", "sent")
    assert (brief["job"], "pears are sold out" in brief["text"]) == ("fruit", True)
    assert ("pears are sold out" in flat["text"], flat["thread"]) == (True, None)
    assert ("apples are **cheap**" in threaded["text"], threaded["thread"]) == (True, brief["id"])


async def test_both_sessions_hold_exactly_one_labelled_user_turn_with_the_brief(tmp_path):
    async with daemon(tmp_path, FRUIT) as running:
        delivery = (await running.run_of("fruit"))["deliveries"][0]
        held = [await running.transcript(delivery[f"{surface}_session"]) for surface in ("flat", "thread")]
    assert (delivery["flat_seeded"], delivery["thread_seeded"]) == (True, True)
    assert delivery["flat_session"] != delivery["thread_session"]
    for turns in held:
        assert [(turn["role"], turn["origin"]) for turn in turns] == [("user", "cron")]
        assert turns[0]["text"].startswith("[Cron delivery: fruit]\nTwo things:")


async def test_an_answer_after_a_restart_still_knows_the_brief(tmp_path):
    async with daemon(tmp_path, FRUIT) as running:
        await running.run_of("fruit")
        brief = (await running.local())[0]
    async with daemon(tmp_path) as running:
        flat = await running.answer_to("pears?")
        threaded = await running.answer_to("the first one?", thread=brief["id"])
    assert ("pears are sold out" in flat["text"], "apples" in threaded["text"]) == (True, True)


async def test_a_brief_on_the_thread_surface_opens_a_thread_that_can_be_answered(tmp_path):
    text = FRUIT.replace("schedule: in 1s", "schedule: in 1s\n        surface: thread")
    async with daemon(tmp_path, text) as running:
        delivery = (await running.run_of("fruit"))["deliveries"][0]
        posts = await running.local()
        answer = await running.answer_to("second?", thread=delivery["root"])
        flat = await running.answer_to("pears?")
    assert [(post["thread"], post["job"]) for post in posts[:2]] == [(None, None), (delivery["root"], "fruit")]
    assert (delivery["message_ids"], delivery["root"]) == ([posts[1]["id"]], posts[0]["id"])
    assert ("pears are sold out" in answer["text"], "pears are sold out" in flat["text"]) == (True, True)


async def test_a_script_and_its_failure_are_told_apart(tmp_path):
    config = """
        jobs:
          good: {schedule: in 1s, command: [sh, -c, "echo all is well; echo $REGION"], env: {REGION: eu}}
          bad: {schedule: in 1s, command: [sh, -c, "echo half; echo the disk is full >&2; exit 3"], retry: 1}
          silent: {schedule: in 1s, command: [sh, -c, "echo '[SILENT]'"]}
    """.replace(", retry: 1", "")
    async with daemon(tmp_path, config) as running:
        good, bad, silent = [await running.run_of(job) for job in ("good", "bad", "silent")]
        alert = await until(lambda: running.local("alerts"), "a notice of the failure")
        posts = await running.local()
    assert ([post["text"] for post in posts], good["outcome"]) == (["all is well\neu"], "ran")
    assert (bad["outcome"], "the disk is full" in bad["error"], bad["deliveries"]) == ("failed", True, [])
    assert (silent["outcome"], silent["deliveries"]) == ("silent", [])
    assert "**bad** failed" in alert[0]["text"]


async def test_a_command_gets_its_previous_brief_and_the_briefs_it_asked_for(tmp_path):
    (tmp_path / "say.py").write_text(
        "import json, sys; told = json.load(sys.stdin)\n"
        "print('previous', told['previous'] and told['previous']['text'], [c['text'] for c in told['context']])\n"
    )
    config = """
        jobs:
          fruit: {schedule: in 1h, text: apples}
          diff: {schedule: in 1h, command: [python3, say.py], context_from: [fruit]}
    """
    async with daemon(tmp_path, config) as running:
        control = running.wired.control
        for job in ("fruit", "diff", "diff"):
            await control.wait(await control.trigger(job))
        posts = await running.local()
    assert [post["text"] for post in posts[1:]] == [
        "previous None ['apples']",
        "previous previous None ['apples'] ['apples']",
    ]


async def test_a_job_that_overruns_its_timeout_is_ended_with_all_its_children(tmp_path):
    config = """
        jobs:
          slow: {schedule: in 1s, timeout: 1s, command: [sh, -c, "sleep 300 & echo $! > child; sleep 300"]}
    """
    async with daemon(tmp_path, config) as running:
        row = await running.run_of("slow")
    child = int((tmp_path / "child").read_text())
    assert (row["outcome"], "timeout of 1s" in row["error"]) == ("failed", True)
    assert not is_running(child)


async def test_sigterm_while_composing_leaves_a_failed_row_and_no_process(tmp_path, monkeypatch):
    monkeypatch.setattr("cron.daemon.COMPOSE_GRACE", 0.2)
    config = """
        jobs:
          slow: {schedule: in 1h, command: [sh, -c, "echo $$ > child; sleep 300"]}
    """
    async with daemon(tmp_path, config) as running:
        run = await running.wired.control.trigger("slow")
        await until(lambda: (tmp_path / "child").exists() and (tmp_path / "child").read_text().strip(), "the process")
        assert await running.stop() == 0
        row = (await running.runs("slow"))[0]
    assert (row["run"], row["outcome"], "interrupted" in row["error"]) == (run, "failed", True)
    assert not is_running(int((tmp_path / "child").read_text()))


async def test_a_run_that_hangs_can_be_cancelled(tmp_path):
    config = "jobs: {slow: {schedule: in 1h, command: [sh, -c, 'echo $$ > child; sleep 300']}}"
    async with daemon(tmp_path, config) as running:
        run = await running.wired.control.trigger("slow")
        await until(lambda: (tmp_path / "child").exists() and (tmp_path / "child").read_text().strip(), "the process")
        await running.wired.control.cancel(run, by="kim")
        row = (await running.runs("slow"))[0]
    assert (row["outcome"], row["error"]) == ("failed", "It was cancelled by kim.")
    assert not is_running(int((tmp_path / "child").read_text()))


async def test_a_bad_file_never_stops_a_running_daemon_and_a_good_one_is_applied(tmp_path, caplog):
    caplog.set_level(logging.INFO)
    async with daemon(tmp_path, FRUIT) as running:
        await running.run_of("fruit")
        write_config(tmp_path, "jobs:\n  fruit: {schedule: every blue moon, text: x}\n")
        health = running.wired.daemon.health
        await until(lambda: health()["config_mistakes"], "the refusal")
        write_config(tmp_path, FRUIT.replace("jobs:", "jobs:\n      tea: {schedule: in 1s, text: green}"))
        row = await running.run_of("tea")
        assert health()["config_mistakes"] == []
        fruit = await running.runs("fruit")
    assert (row["outcome"], len(fruit)) == ("ran", 1)
    assert "jobs.yaml:2" in "".join(record.getMessage() for record in caplog.records)


async def test_continue_false_seeds_nothing(tmp_path):
    text = FRUIT.replace("schedule: in 1s", "schedule: in 1s\n        continue: false")
    async with daemon(tmp_path, text) as running:
        delivery = (await running.run_of("fruit"))["deliveries"][0]
        brief = (await running.local())[0]
        answer = await running.answer_to("pears?", thread=brief["id"])
    assert (delivery["flat_seeded"], delivery["thread_seeded"], delivery["state"]) == (None, None, "sent")
    assert "pears are sold out" not in answer["text"]


async def test_a_paused_job_is_skipped_with_a_row_and_stays_paused_over_a_restart(tmp_path):
    config = "jobs: {tick: {schedule: every 1s, text: tock}}"
    async with daemon(tmp_path, config) as running:
        await running.wired.control.pause("tick", by="kim")

        async def skipped():
            return [row for row in await running.runs("tick") if row["outcome"] == "skipped_paused"]

        await until(skipped, "a skipped occurrence")
    async with daemon(tmp_path) as running:
        await running.wired.control.resume("tick")

        async def ran_again():
            return [row for row in await running.runs("tick") if row["outcome"] == "ran"]

        assert await until(ran_again, "a run after the pause")


# --- what an earlier daemon left open -----------------------------------------------------------------


async def left_open(running, job: str, state: RunState, *, due: datetime, **columns) -> str:
    """Put a run of another incarnation into the ledger, as a kill -9 leaves it."""

    def write(conn):
        ledger.begin_incarnation(conn, incarnation="inc_dead", pid=1, at=due)
        run = ledger.claim(
            conn, job_id=job, kind=OccurrenceKind.SCHEDULED, due=due, incarnation="inc_dead", definition={}, at=due
        )
        conn.execute(update(runs).where(runs.c.id == run).values(state=state, **columns))
        return run

    return await running.wired.db.write(write)


@pytest.mark.parametrize(
    ("state", "age", "repeatable", "attempt", "outcome"),
    [
        (RunState.CLAIMED, 10, "false", 0, "ran"),
        (RunState.CLAIMED, 9000, "false", 0, "skipped_late"),
        (RunState.COMPOSING, 10, "false", 1, "unknown"),
        (RunState.COMPOSING, 10, "true", 1, "ran"),
        (RunState.COMPOSING, 10, "true", 2, "unknown"),
        (RunState.COMPOSING, 9000, "true", 1, "unknown"),
    ],
)
async def test_what_a_dead_daemon_left_open_is_decided_at_the_next_start(
    tmp_path, state, age, repeatable, attempt, outcome
):
    config = f"jobs: {{fruit: {{schedule: '0 9 * * *', text: apples, repeatable: {repeatable}}}}}"
    async with daemon(tmp_path, config) as running:
        due = datetime.now(UTC) - timedelta(seconds=age)
        run = await left_open(running, "fruit", state, due=due, attempt=attempt)
    async with daemon(tmp_path) as running:

        async def ended():
            rows = [row for row in await running.runs("fruit") if row["run"] == run]
            return rows[0] if rows[0]["outcome"] else None

        row = await until(ended, "the verdict")
    assert (row["outcome"], len(row["deliveries"])) == (outcome, 1 if outcome == "ran" else 0)


async def test_the_process_group_of_a_dead_daemon_is_ended_before_anything_is_decided(tmp_path):
    from cron.agents.process import start_ticks

    config = "jobs: {fruit: {schedule: '0 9 * * *', command: [echo, apples]}}"
    process = await asyncio.create_subprocess_exec("sleep", "300", start_new_session=True)
    async with daemon(tmp_path, config) as running:
        await left_open(
            running,
            "fruit",
            RunState.COMPOSING,
            due=datetime.now(UTC),
            attempt=1,
            process_group=process.pid,
            leader_ticks=start_ticks(process.pid),
        )
    async with daemon(tmp_path):
        assert await asyncio.wait_for(process.wait(), 10) == -15


async def test_a_composed_brief_is_sent_after_a_restart_and_never_composed_again(tmp_path):
    config = "jobs: {count: {schedule: in 1h, command: [sh, -c, 'echo x >> times; wc -l < times']}}"
    async with daemon(tmp_path, config) as running:
        run = await running.wired.control.trigger("count")
        await running.wired.control.wait(run)

        def unsend(conn):
            conn.execute(update(runs).where(runs.c.id == run).values(state=RunState.COMPOSED, finished_at=None))
            conn.execute(update(deliveries).values(state="pending", flat_seeded=False, thread_seeded=False))
            conn.execute(update(parts).values(state="pending"))
            conn.exec_driver_sql("UPDATE occurrences SET outcome = NULL")
            for table in ("receipts", "seeds", "turns", "session_keys", "sessions", "local_messages"):
                conn.exec_driver_sql(f"DELETE FROM {table}")

        await running.wired.db.write(unsend)
    async with daemon(tmp_path) as running:
        row = await running.run_of("count")
        posts = await running.local()
    assert ([post["text"] for post in posts], row["run"], row["outcome"]) == (["1"], run, "ran")
    assert (row["deliveries"][0]["flat_seeded"], row["deliveries"][0]["thread_seeded"]) == (True, True)


def is_running(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0] not in ("Z", "X")
    except FileNotFoundError:
        return False
