"""`sessions` and `transcript`: the conversations that answers land in."""

from typing import Any

import click
from sqlalchemy import Connection

from cron import views
from cron.cli.client import read, redacted
from cron.cli.main import Options
from cron.cli.output import print_json, print_table, shown
from cron.cli.setup import InputError
from seeding.sessions import list_sessions


@click.command("sessions")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array.")
@click.pass_obj
def sessions_command(options: Options, as_json: bool) -> None:
    """List the conversations, the most recent first."""
    rows = read(options, _listed, empty=[])
    if as_json:
        print_json(rows)
        return
    print_table(
        ("session", "where", "turns", "updated"),
        ((row["id"], row["display_name"], row["turns"], row["updated_at"]) for row in rows),
        empty="There are no conversations yet.",
    )


@click.command("transcript")
@click.argument("session")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array.")
@click.pass_obj
def transcript_command(options: Options, session: str, as_json: bool) -> None:
    """Show the stored turns of a conversation, oldest first."""
    found = read(options, lambda conn: views.transcript(conn, session), empty=None)
    if found is None:
        raise InputError(f"There is no session {session!r}; `hermes-cron sessions` lists them.")
    rows = redacted(options, found)
    if as_json:
        print_json(rows)
        return
    for row in rows:
        who = row["author"] or row["role"]
        click.secho(shown(f"{row['at']} {who} ({row['origin']})"), bold=True)
        click.echo(shown(f"{row['text']}\n"))


def _listed(conn: Connection) -> list[dict[str, Any]]:
    return [
        {
            "id": row.session.id,
            "keys": list(row.keys),
            "account": row.session.account,
            "chat": row.session.chat,
            "topic": row.session.topic,
            "root": row.session.root,
            "display_name": row.session.display_name,
            "turns": row.turns,
            "updated_at": views.iso(row.session.updated_at),
        }
        for row in list_sessions(conn)
    ]
