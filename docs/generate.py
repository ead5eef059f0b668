"""Bring the help texts of docs/commands.md up to date: python docs/generate.py

Each command has a `## NAME` section with a block of its --help; new commands are appended, what people wrote around
the blocks is kept. The tests compare the page with what this makes of it.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import click

from cron.cli.main import cli

PAGE = Path(__file__).with_name("commands.md")
WIDTH = 80
_BLOCK = re.compile(r"<!-- help: (?P<name>[\w-]+) -->\n```text\n.*?```\n", re.DOTALL)


def helps() -> dict[str, str]:
    """Return the --help of the program (as `hermes-cron`) and of every command, by name."""
    top = _context(cli, "hermes-cron", None)
    return {"hermes-cron": cli.get_help(top)} | dict(_commands(top))


def refreshed(page: str) -> str:
    """Return the page with every block current, and a section for each command that had none."""
    current = helps()
    kept = {match["name"] for match in _BLOCK.finditer(page)}
    page = _BLOCK.sub(lambda match: _block(match["name"], current.get(match["name"], "(gone)")), page)
    for name in current.keys() - kept:
        page = f"{page.rstrip()}\n\n## {name}\n\n{_block(name, current[name])}"
    return page


def _commands(top: click.Context) -> Iterator[tuple[str, str]]:
    for name in cli.list_commands(top):
        command = cli.get_command(top, name)
        assert command is not None
        yield name, command.get_help(_context(command, name, top))


def _context(command: click.Command, name: str, parent: click.Context | None) -> click.Context:
    return click.Context(
        command,
        info_name=name,
        parent=parent,
        terminal_width=WIDTH,
        max_content_width=WIDTH,
        help_option_names=["-h", "--help"],
    )


def _block(name: str, text: str) -> str:
    return f"<!-- help: {name} -->\n```text\n{text}\n```\n"


if __name__ == "__main__":
    PAGE.write_text(refreshed(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
