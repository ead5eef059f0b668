"""What the pages show is true: blocks load, help texts are current, links lead somewhere, tables are complete."""

import configparser
import json
import re
import runpy
import textwrap
from pathlib import Path

import pytest
from pagesbed import PAGES, ROOT, Block, blocks, first_cells, read, sections, words_in_code

from cron.jobs import config_schema, load_config
from cron.outcomes import OccurrenceKind, Outcome
from delivery.model import DeliveryState

VARIABLES = re.compile(r"\$\{(\w+)\}")
ACCOUNTS = """accounts:
  slack: {bot_token: "xoxb-bot-token", app_token: "xapp-app-token"}
  telegram: {token: "123456:telegram-token"}
"""
A_JOB = "jobs: {a: {schedule: '@daily', text: hi}}\n"


# --- blocks ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("block", blocks("yaml"), ids=str)
def test_every_yaml_block_is_a_good_jobs_file(block: Block, tmp_path: Path) -> None:
    path = tmp_path / "jobs.yaml"
    path.write_text(whole(block.text), encoding="utf-8")
    environ = {name: f"xoxb-value-of-{name.lower()}" for name in VARIABLES.findall(block.text)}
    environ |= {name: f"xapp-value-of-{name.lower()}" for name in environ if "APP" in name}
    config = load_config(path, environ=environ, host_zone="Europe/Berlin")
    assert config.jobs and config.warnings == ()


def whole(text: str) -> str:
    """Complete a block that shows a part of a file; its first line says which section, or `file` for the top."""
    part = re.match(r"# part of: (\w+)\n", text)
    if part is None:
        return text
    rest = text[part.end() :]
    if part[1] == "file":
        return rest + A_JOB
    section = f"{part[1]}:\n" + textwrap.indent(rest, "  ")
    return {"accounts": "", "jobs": ""}.get(part[1], ACCOUNTS) + section + ("" if part[1] == "jobs" else A_JOB)


@pytest.mark.parametrize("block", blocks("json"), ids=str)
def test_every_json_block_is_json(block: Block) -> None:
    assert json.loads(block.text)


def test_the_service_file_can_be_read_and_starts_again_only_after_a_failure() -> None:
    (block,) = blocks("ini")
    unit = configparser.ConfigParser(interpolation=None)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read_string(block.text)
    assert unit["Service"]["Restart"] == "on-failure"
    assert unit["Service"]["ExecStart"].endswith(" run")


# --- links ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_inside_the_project_leads_somewhere(page: Path) -> None:
    for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
        if link.startswith("https://"):
            continue
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        assert target.exists(), f"{page.name}: {link}"
        assert not anchor or anchor in anchors(target), f"{page.name}: {link}"


def anchors(page: Path) -> set[str]:
    heads = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", head).strip().lower().replace(" ", "-") for head in heads}


def test_the_readme_leads_to_every_page() -> None:
    links = set(re.findall(r"\]\((docs/[^)]+)\)", read("README.md")))
    assert links == {f"docs/{page.name}" for page in (ROOT / "docs").glob("*.md")}


@pytest.mark.parametrize("page", ["docs/architecture.md", "docs/benchmarks.md", "CONTRIBUTING.md"])
def test_every_file_that_is_named_is_there(page: str) -> None:
    rooms = re.compile(r"(?:cron|seeding|delivery|state|bench|tests|docs|examples)/[\w/.*-]*")
    named = [word for word in words_in_code(read(page)) if rooms.fullmatch(word)]
    assert named
    assert [word for word in named if "NNNN" not in word and not list(ROOT.glob(word.rstrip("/")))] == []


# --- jobs.yaml ------------------------------------------------------------------------------------

TABLES = {
    "Accounts": ["AccountModel"],
    "Targets": ["TargetModel"],
    "Agents": ["AgentModel"],
    "Jobs": ["JobModel", "RetryModel"],
}


@pytest.mark.parametrize(("section", "models"), TABLES.items())
def test_every_key_is_documented_and_no_other(section: str, models: list[str]) -> None:
    schema = config_schema()["$defs"]
    documented = [words_in_code(cell)[0] for cell in first_cells(sections(read("docs/jobs-yaml.md"))[section])]
    assert sorted(documented) == sorted(key for model in models for key in schema[model]["properties"])


def test_every_section_and_every_default_is_documented() -> None:
    page, schema = sections(read("docs/jobs-yaml.md")), config_schema()
    assert [words_in_code(cell)[0] for cell in first_cells(page["The top"])] == list(schema["properties"])
    listed = page["Defaults"].partition("otherwise:")[2].partition("```")[0]
    assert set(words_in_code(listed)) == set(schema["$defs"]["DefaultsModel"]["properties"])


def test_every_key_of_a_section_is_shown_in_use() -> None:
    shown = "\n".join(block.text for block in blocks("yaml", ROOT / "docs" / "jobs-yaml.md"))
    schema = config_schema()["$defs"]
    keys = {key for models in TABLES.values() for model in models for key in schema[model]["properties"]}
    not_in_force = {"jitter", "stop_after"}
    assert {key for key in keys - not_in_force if not re.search(rf"\b{key}:", shown)} == set()


# --- the command line -----------------------------------------------------------------------------


def test_the_help_of_every_command_is_current() -> None:
    refreshed = runpy.run_path(str(ROOT / "docs" / "generate.py"))["refreshed"]
    page = read("docs/commands.md")
    assert page == refreshed(page), "run: .venv/bin/python docs/generate.py"


def test_every_outcome_and_state_is_explained() -> None:
    cells = first_cells(sections(read("docs/commands.md"))["runs"])
    words = {word for cell in cells for word in words_in_code(cell)}
    assert words == {*map(str, Outcome), *map(str, DeliveryState)}
    assert all(f"`{kind}`" in read("docs/commands.md") for kind in OccurrenceKind)


# --- running it -----------------------------------------------------------------------------------


def test_every_event_of_the_log_that_is_named_exists() -> None:
    rooms = [ROOT / room for room in ("cron", "seeding", "delivery", "state")]
    source = "\n".join(path.read_text(encoding="utf-8") for room in rooms for path in room.rglob("*.py"))
    by_state = {f"delivery_{state}" for state in DeliveryState if 'f"delivery_{summary.state}"' in source}
    cells = first_cells(sections(read("docs/operations.md"))["Logs"])
    named = [word for cell in cells for word in words_in_code(cell)]
    assert len(named) > 10
    assert [word for word in named if f'"{word}"' not in source and word not in by_state] == []


def test_every_benchmark_is_listed() -> None:
    listed = {word for cell in first_cells(read("docs/benchmarks.md")) for word in words_in_code(cell)}
    there = {f"bench/{path.name}" for path in (ROOT / "bench").glob("*.py")}
    assert there - listed == set(), "add a line to docs/benchmarks.md"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_pages_hold_no_long_lines_outside_tables_and_no_trailing_spaces(page: Path) -> None:
    lines = page.read_text(encoding="utf-8").splitlines()
    assert [line for line in lines if line != line.rstrip()] == []
    assert [line for line in lines if len(line) > 130 and not line.startswith("|")] == []
