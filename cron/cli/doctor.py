"""`doctor` and `targets`: will it work, and what can it reach?"""

import sys
from typing import Any

import click
from sqlalchemy import Connection

from cron.cli.client import act, read
from cron.cli.main import Options
from cron.cli.output import print_json, print_table
from cron.cli.setup import InputError, config_of
from delivery.directory import known_chats

_MARKS = {True: "ok", None: "note", False: "FAILS"}


@click.command("doctor")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array.")
@click.pass_obj
def doctor_command(options: Options, as_json: bool) -> None:
    """Look at logins, scopes, targets, zone and database; exit 1 if something will not work."""
    config_of(options)
    findings = act(options, "doctor")["findings"]
    if as_json:
        print_json(findings)
    else:
        rows = [(_MARKS[one["ok"]], one["what"], one["detail"]) for one in findings]
        print_table(("", "what", "detail"), rows, empty="There was nothing to look at.")
    sys.exit(1 if any(one["ok"] is False for one in findings) else 0)


@click.command("targets")
@click.argument("account", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array.")
@click.pass_obj
def targets_command(options: Options, account: str | None, as_json: bool) -> None:
    """List the chats that each account is known to reach; a daemon keeps that list fresh."""
    accounts = list(config_of(options).account_kinds)
    if account is not None and account not in accounts:
        raise InputError(f"There is no account {account!r} in jobs.yaml; there are {', '.join(accounts)}.")
    chosen = accounts if account is None else [account]
    rows = read(options, lambda conn: [row for name in chosen for row in _known(conn, name)], empty=[])
    if as_json:
        print_json(rows)
        return
    columns = ("target", "name", "kind", "members")
    shown = [[row[name] for name in columns] for row in rows]
    print_table(columns, shown, empty="Nothing is known yet; start the daemon, it asks every account.")


def _known(conn: Connection, account: str) -> list[dict[str, Any]]:
    return [
        {
            "account": account,
            "target": f"{account}:{'#' if account == 'local' else ''}{one.chat}"
            + (f"/{one.topic}" if one.topic else ""),
            "chat": one.chat,
            "topic": one.topic or None,
            "name": one.name,
            "kind": str(one.kind),
            "members": one.members,
        }
        for one in known_chats(conn, account)
    ]
