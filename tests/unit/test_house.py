"""The lines of the house that import-linter cannot draw: one SDK, one file; nobody but the entry points wires."""

import ast
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("cron", "seeding", "delivery", "state")


@cache
def imports(path: Path) -> frozenset[str]:
    """Return the names of all modules that a file imports, lazily too."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return frozenset(found)


def importers(module: str) -> set[str]:
    """Return the files of the product that import a module or something inside it."""
    return {
        str(path.relative_to(ROOT))
        for package in PACKAGES
        for path in (ROOT / package).rglob("*.py")
        if any(name == module or name.startswith(f"{module}.") for name in imports(path))
    }


@pytest.mark.parametrize(
    ("module", "allowed"),
    [
        ("apscheduler", {"cron/engine.py"}),
        ("slack_sdk", {"delivery/platforms/slack.py"}),
        ("telegram", {"delivery/platforms/telegram.py"}),
        ("cronsim", {f"cron/schedules/{room}.py" for room in ("rules", "fields", "grammar", "describe")}),
        ("hron", {"cron/schedules/phrases.py"}),
        ("watchfiles", {"cron/current.py"}),
        ("cron.wiring", {"cron/cli/run.py", "cron/cli/client.py"}),
    ],
)
def test_a_library_is_known_to_one_room_and_the_wiring_to_the_entry_points(module, allowed):
    assert importers(module) - allowed == set()
    assert importers(module)


@pytest.mark.parametrize("name", ["utils", "common", "helpers", "misc"])
def test_there_is_no_room_without_a_purpose(name):
    assert [path for package in PACKAGES for path in (ROOT / package).rglob(f"{name}*")] == []


def test_test_folders_do_not_shadow_the_packages():
    assert list((ROOT / "tests").rglob("__init__.py")) == []
