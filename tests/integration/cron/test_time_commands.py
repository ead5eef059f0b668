"""Time on the command line, against a daemon that is a process, and without one."""

import json

from processbed import Process, process, until

CONFIG = """
    jobs:
      tick: {schedule: "0 0 1 1 *", text: "due {{due}}"}
      tock: {schedule: "0 0 1 1 *", text: tock}
"""


async def test_a_bad_file_is_told_and_what_is_in_force_is_listed(tmp_path):
    async with process(tmp_path, CONFIG) as running:
        assert await running.cli("pause", "tock", "--until", "2090-01-01") == (
            0,
            "Paused tock until 2090-01-01T00:00:00+00:00.\n",
            "",
        )
        running.write("jobs: {tick: {schedule: every blue moon, text: x}}")
        await until(lambda: "config_refused" in running.log(), "the refusal", running)
        code, out, err = await running.cli("list", "--json")
        rows = {row["job"]: row for row in json.loads(out)}
        table = (await running.cli("list"))[1]
    assert (code, "jobs.yaml:1:" in err, "last good file" in err) == (0, True, True)
    assert (rows["tick"]["schedule"], rows["tick"]["paused"]) == ("0 0 1 1 *", False)
    assert (rows["tock"]["paused"], rows["tock"]["paused_until"]) == (True, "2090-01-01T00:00:00+00:00")
    assert rows["tock"]["paused_by"].endswith("on the command line") and rows["tock"]["paused_at"] is not None
    assert "on the command line" in table


async def test_a_bad_file_without_a_daemon_is_a_wrong_input(tmp_path):
    made = Process(tmp_path)
    made.write("jobs: {tick: {schedule: every blue moon, text: x}}")
    code, out, err = await made.cli("list")
    assert (code, out, "jobs.yaml:1:" in err) == (2, "", True)


async def test_a_replay_without_a_daemon_goes_to_another_place(tmp_path):
    made = Process(tmp_path)
    made.write(CONFIG)
    code, out, err = await made.cli(
        "trigger", "tick", "--at", "2026-01-01T00:00", "--to", "local:#other", "--wait", "--json"
    )
    row = json.loads(out)
    assert (code, row["kind"], row["outcome"], row["due"]) == (0, "replay", "ran", "2026-01-01T00:00:00+00:00"), err
    assert [one["target"] for one in row["deliveries"]] == ["local:#other"]


async def test_what_was_never_due_is_a_wrong_input(tmp_path):
    made = Process(tmp_path)
    made.write(CONFIG)
    code, _, err = await made.cli("trigger", "tick", "--at", "2026-01-02T00:00")
    assert (code, "was not due at" in err, "Traceback" in err) == (2, True, False)
