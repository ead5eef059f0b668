"""Secrets stay out of what people see, also where a text is cut in the middle of one."""

import json

import pytest
from daemonbed import daemon, until
from processbed import process

from cron import views

TOKEN = "sekrit-abcdefghij"


@pytest.mark.parametrize(
    "script",
    [
        "head -c 390 /dev/zero | tr '\\0' y >&2; echo $T >&2; exit 1",
        "head -c 3000 /dev/zero | tr '\\0' y >&2; echo -n $T >&2; head -c 12090 /dev/zero | tr '\\0' z >&2; exit 1",
        "head -c 1004086 /dev/zero | tr '\\0' x; echo $T",
        "head -c 999992 /dev/zero | tr '\\0' x; echo $T; head -c 9000 /dev/zero | tr '\\0' x",
        "echo $T; echo $T >&2; exit 0",
    ],
)
async def test_no_piece_of_a_secret_is_left_where_a_commands_words_are_cut(tmp_path, script):
    (tmp_path / "say.sh").write_text(script)
    config = """
        jobs:
          leaky: {schedule: in 1h, command: [sh, say.sh], env: {T: "${LEAKY_TOKEN}"}}
    """
    async with daemon(tmp_path, config, environ={"LEAKY_TOKEN": TOKEN}) as running:
        run = await running.wired.control.trigger("leaky")
        row = await running.wired.control.wait(run)
        shown = await running.read(lambda conn: views.whole_run(conn, run))
        posts = await running.local()
        if row["outcome"] == "failed":
            posts += await until(lambda: running.local("alerts"), "the notice")
    said = json.dumps([row, shown, posts])
    assert [TOKEN[:length] for length in range(8, len(TOKEN) + 1) if TOKEN[:length] in said] == []
    assert [TOKEN[-length:] for length in range(8, len(TOKEN) + 1) if TOKEN[-length:] in said] == []


async def test_a_secret_that_a_person_types_is_not_shown_on_the_command_line(tmp_path):
    config = """
        jobs:
          fruit: {schedule: in 1s, text: apples}
          leaky: {schedule: in 9h, command: [echo], env: {T: "${LEAKY_TOKEN}"}}
    """
    async with process(tmp_path, config, environ={"LEAKY_TOKEN": TOKEN}) as running:
        row = await running.run_of("fruit")
        await running.cli("chat", stdin=f"my token is {TOKEN}\n")
        shown = await running.json("transcript", row["deliveries"][0]["flat_session"])
        found = await running.json("search", "token")
    said = [turn["text"] for turn in shown if turn["origin"] == "inbound"]
    assert said == ["my token is [secret]"]
    assert (len(found) > 0, TOKEN in json.dumps([shown, found])) == (True, False)
