"""`search`: find what was said in any conversation."""

from typing import Any

import click
from sqlalchemy import Connection

from cron import views
from cron.cli.client import read, redacted
from cron.cli.main import Options
from cron.cli.output import print_json, print_table
from seeding.search import search


@click.command("search", context_settings={"ignore_unknown_options": True})
@click.argument("words", nargs=-1, required=True, type=click.UNPROCESSED)
@click.option("-n", "count", default=50, show_default=True, type=click.IntRange(1, 1000), help="How many at most.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array.")
@click.pass_obj
def search_command(options: Options, words: tuple[str, ...], count: int, as_json: bool) -> None:
    """Find the turns that hold all WORDS, newest first; "in quotes" words stand together."""
    typed = " ".join(words)
    rows = redacted(options, read(options, lambda conn: _found(conn, typed, count), empty=[]))
    if as_json:
        print_json(rows)
        return
    print_table(
        ("at", "session", "role", "text"),
        ((row["at"], row["session"], row["role"], row["snippet"]) for row in rows),
        empty="Nothing was found.",
    )


def _found(conn: Connection, words: str, most: int) -> list[dict[str, Any]]:
    return [
        {"session": hit.session, "at": views.iso(hit.at), "role": hit.role, "snippet": hit.snippet}
        for hit in search(conn, words, most=most)
    ]
