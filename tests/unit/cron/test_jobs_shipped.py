"""What is shipped works: the demo, the examples, the template and the schema; and a large file loads fast."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from unit.cron.jobs_loading import ENVIRON, load

from cron.jobs import config_schema, load_config
from cron.jobs_models import AccountModel, AgentModel, ConfigModel, DefaultsModel, JobModel, TargetModel
from cron.jobs_shape import known_keys
from delivery.model import Surface

ROOT = Path(__file__).parents[3]
EXAMPLES = [path for path in sorted((ROOT / "examples").glob("*.yaml")) if "manifest" not in path.name]


def test_there_are_examples() -> None:
    assert {path.name for path in EXAMPLES} >= {"slack.yaml", "telegram.yaml"}


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_every_example_is_good_once_its_variables_are_set(path: Path) -> None:
    config = load_config(path, environ=ENVIRON, host_zone="Europe/Berlin")
    assert config.jobs and config.warnings == ()


@pytest.mark.parametrize(
    "path", [ROOT / "jobs.yaml", ROOT / "cron" / "cli" / "template.yaml"], ids=lambda path: path.name
)
def test_the_demo_and_the_template_need_no_variable_and_no_account(path: Path) -> None:
    config = load_config(path, environ={}, host_zone="Europe/Berlin")
    assert not config.accounts and config.warnings == ()
    assert {job.surface for job in config.jobs.values()} == {Surface.FLAT, Surface.THREAD}


def test_what_the_template_keeps_in_remarks_is_good_too(tmp_path: Path) -> None:
    lines = (ROOT / "cron" / "cli" / "template.yaml").read_text().splitlines()
    opened = []
    for line in lines[4:]:
        bare = line.lstrip()
        is_setting = bare.startswith("# ") and ":" in bare.split("  ")[0]
        opened.append(line.replace("# ", "", 1) if is_setting or bare.startswith("#   ") else line)
    config = load(tmp_path, "\n".join(opened))
    assert set(config.accounts) == {"slack", "telegram"} and set(config.jobs) == {"hello", "disk", "summary"}


# --- scripts --------------------------------------------------------------------------------------


def run(*command: str, given: object = None) -> str:
    done = subprocess.run(
        [sys.executable, *command],
        input="" if given is None else json.dumps(given),
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
        cwd=ROOT,
        env={"PATH": "/usr/bin:/bin", "PYTHONIOENCODING": "utf-8"},
    )
    assert done.stderr == ""
    return done.stdout


def test_the_host_brief_says_what_changed() -> None:
    first = run("examples/host_brief.py", given={"previous": None})
    assert "- **disk used**: " in first and "This is the first brief" in first
    previous = {"at": "2026-12-01T08:00:00+00:00", "text": "**host**: all is well\n\n- **disk used**: 100.5 %"}
    assert "disk used went from 100.5 to " in run("examples/host_brief.py", given={"previous": previous})


def test_the_build_brief_names_the_failures_in_order() -> None:
    brief = run("examples/build_health.py", "examples/reports")
    assert brief.startswith("**2 of 3 builds failed**\n\n1. **checkout**: 2 of 3 tests failed\n")
    assert "2. **search**: 1 of 2 tests failed\n   - `search.query.test_umlauts`:" in brief


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("why did the second one fail?", "2. **search**: 1 of 2 tests failed\n   - `search.query.test_umlauts`"),
        ("what about the refund?", "1. **checkout**: 2 of 3 tests failed"),
        ("will it rain?", "The briefs say nothing about that."),
    ],
)
def test_the_answering_example_answers_from_the_brief(question: str, answer: str) -> None:
    brief = run("examples/build_health.py", "examples/reports")
    turns = [
        {"role": "user", "text": f"[Cron delivery: builds]\n{brief}", "origin": "cron"},
        {"role": "user", "text": question, "origin": "inbound"},
    ]
    assert run("examples/answer.py", given={"question": question, "transcript": turns}).startswith(answer)


# --- the schema -----------------------------------------------------------------------------------


def test_the_shipped_schema_is_current() -> None:
    shipped = json.loads((ROOT / "jobs.schema.json").read_text())
    assert shipped == config_schema(), "write it anew: hermes-cron schema > jobs.schema.json"


@pytest.mark.parametrize("model", [JobModel, DefaultsModel, TargetModel, AgentModel, AccountModel])
def test_the_schema_knows_every_key_that_the_loader_knows(model: type[JobModel]) -> None:
    definition = config_schema()["$defs"][model.__name__]
    assert list(definition["properties"]) == known_keys(model)
    assert definition["additionalProperties"] is False


def test_the_schema_knows_every_section() -> None:
    assert list(config_schema()["properties"]) == known_keys(ConfigModel)


def test_the_schema_takes_numbers_where_the_loader_does() -> None:
    job = config_schema()["$defs"]["JobModel"]["properties"]
    scalar = {"type": ["string", "number", "boolean"]}
    assert job["text"]["type"] == scalar["type"]
    assert job["deliver"]["anyOf"] == [scalar, {"type": "array", "items": scalar}]


# --- size -----------------------------------------------------------------------------------------


def test_a_thousand_jobs_load(tmp_path: Path) -> None:
    lines = [
        f'  job-{n}: {{schedule: "{n % 60} {n % 24} * * *", command: [brief, "{n}"], deliver: "local:#c{n % 7}"}}'
        for n in range(1000)
    ]
    jobs = load(tmp_path, "jobs:\n" + "\n".join(lines)).jobs
    assert len(jobs) == 1000 and jobs["job-999"].writer.command == ("brief", "999")
