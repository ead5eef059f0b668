"""People are answered by a program: what it is given, and what becomes of what it prints."""

import json
import sys
from pathlib import Path

import pytest
from daemonbed import daemon, until

EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "answer.py"
FRUIT = "Two things:\\n\\n1. apples are cheap\\n2. pears are sold out"
CONFIG = """
    agents:
      default: {{kind: command, command: {command}{more}}}
    jobs:
      fruit: {{schedule: in 1h, text: "{fruit}"}}
      builds: {{schedule: in 1h, command: [printf, "1. api: out of memory\\n2. web: timed out\\n"]}}
"""


def config(*command: object, more: str = "") -> str:
    return CONFIG.format(command=json.dumps([str(word) for word in command]), fruit=FRUIT, more=more)


def script(folder: Path, text: str) -> Path:
    path = folder / "agent.py"
    path.write_text(text)
    return path


async def run(running, job: str) -> dict:
    control = running.wired.control
    return (await control.wait(await control.trigger(job)))["deliveries"][0]


async def test_the_example_answers_flat_in_the_thread_and_after_a_restart(tmp_path):
    async with daemon(tmp_path, config(sys.executable, EXAMPLE)) as running:
        await run(running, "fruit")
        brief = (await running.local())[0]
        flat = await running.answer_to("what about the second one?")
        threaded = await running.answer_to("and apples?", thread=brief["id"])
    async with daemon(tmp_path) as running:
        later = await running.answer_to("number 1, please", thread=brief["id"])
    # Our own answers are not briefs: what it finds is the line of the brief, whatever was said since.
    assert [(one["text"], one["thread"]) for one in (flat, threaded, later)] == [
        ("2. pears are sold out", None),
        ("1. apples are cheap", brief["id"]),
        ("1. apples are cheap", brief["id"]),
    ]


async def test_the_document_on_its_stdin_is_the_one_that_is_documented(tmp_path):
    keep = script(
        tmp_path,
        "import json, os, sys\n"
        "document = json.load(sys.stdin)\n"
        "open('asked.json', 'w').write(json.dumps([document, sorted(os.environ)]))\n"
        "print('noted')\n",
    )
    more = ", env: {REGION: eu}"
    async with daemon(tmp_path, config(sys.executable, keep, more=more), environ={"SECRET": "x"}) as running:
        delivery = await run(running, "fruit")
        await running.answer_to("hello")
        await running.answer_to("what about pears? 🍐")
    document, environ = json.loads((tmp_path / "asked.json").read_text())
    turns = document["transcript"]
    assert (document["job"], document["session"], document["question"], document["author"]) == (
        "fruit",
        delivery["flat_session"],
        "what about pears? 🍐",
        "kim",
    )
    assert [(turn["role"], turn["origin"], turn["author"]) for turn in turns] == [
        ("user", "cron", None),
        ("user", "inbound", "kim"),
        ("assistant", "answer", None),
        ("user", "inbound", "kim"),
    ]
    assert turns[0]["text"] == "[Cron delivery: fruit]\nTwo things:\n\n1. apples are cheap\n2. pears are sold out"
    assert [turn["text"] for turn in turns[1:]] == ["hello", "noted", "what about pears? 🍐"]
    assert {tuple(turn) for turn in turns} == {("role", "text", "at", "origin", "author")}
    assert [name for name in environ if name not in ("LC_CTYPE", "PWD", "SHLVL", "_")] == ["PATH", "REGION"]


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("print('half'); print('no database', file=sys.stderr); sys.exit(3)", "exited with code 3: no database"),
        ("pass", "printed nothing"),
        ("import time; time.sleep(300)", "took longer than 1s"),
        ("print('the word is hunter2-hunter2')", "the word is [secret]"),
    ],
    ids=["it fails", "it says nothing", "it hangs", "it tells a secret"],
)
async def test_what_goes_wrong_is_told_to_the_person_who_asked(tmp_path, code, told):
    agent = script(tmp_path, f"import os, sys\nopen('pid', 'w').write(str(os.getpid()))\n{code}\n")
    more = ', timeout: 1s, env: {WORD: "${WORD}"}'
    text = config(sys.executable, agent, more=more)
    async with daemon(tmp_path, text, environ={"WORD": "hunter2-hunter2"}) as running:
        await run(running, "fruit")
        answer = await running.answer_to("pears?")
        await until(lambda: not Path(f"/proc/{(tmp_path / 'pid').read_text()}").exists(), "the end of the process")
    assert (told in answer["text"], "half" in answer["text"]) == (True, False)


async def test_an_agent_that_does_not_exist_is_said_so(tmp_path):
    async with daemon(tmp_path, config("/no/such/program")) as running:
        await run(running, "fruit")
        answer = await running.answer_to("pears?")
    assert "'/no/such/program' was not found" in answer["text"]
