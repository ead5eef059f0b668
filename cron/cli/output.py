"""How commands print: JSON for scripts on stdout, tables for people. Rich is imported only for a table."""

import json
import sys
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Any

import click


def print_json(value: Any) -> None:
    """Print one JSON document."""
    click.echo(json.dumps(value, ensure_ascii=False, indent=2 if sys.stdout.isatty() else None))


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]], *, empty: str) -> None:
    """Print a table for people; `empty` where there are no rows."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*(Text(_cell(cell)) for cell in row))
    if not table.row_count:
        click.echo(empty)
        return
    # A pipe has no width: wrapped lines would be of no use there.
    Console(width=None if sys.stdout.isatty() else 200, highlight=False).print(table)


def shown(text: str) -> str:
    """Take out what a terminal would obey: anybody in a chat may write an escape sequence."""
    return "".join(
        one if one in "\n\t" or unicodedata.category(one) != "Cc" else "\N{REPLACEMENT CHARACTER}" for one in text
    )


def _cell(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else ""
    return "" if value is None else shown(str(value))
