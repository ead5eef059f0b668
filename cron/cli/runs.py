"""`runs` and `show`: what happened."""

from typing import Any

import click

from cron import jobbook, views
from cron.cli.client import read
from cron.cli.main import Options
from cron.cli.output import print_json, print_table, shown
from cron.cli.setup import InputError


@click.command("runs")
@click.option("--job", help="Only this job's.")
@click.option("-n", "count", default=50, show_default=True, type=click.IntRange(1, 100_000), help="How many rows.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array.")
@click.pass_obj
def runs_command(options: Options, job: str | None, count: int, as_json: bool) -> None:
    """List occurrences and how they ended, newest first."""
    if job is not None and not _is_known(options, job):
        raise InputError(f"There is no job {job!r}; `hermes-cron list` shows the jobs.")
    rows = read(options, lambda conn: views.list_runs(conn, job=job, limit=count), empty=[])
    if as_json:
        print_json(rows)
        return
    print_table(
        ("due", "job", "outcome", "run", "deliveries", "remark"),
        ((row["due"], row["job"], row["outcome"] or "open", row["run"], _sent(row), _remark(row)) for row in rows),
        empty="Nothing has been due yet.",
    )


@click.command("show")
@click.argument("run")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_obj
def show_command(options: Options, run: str, as_json: bool) -> None:
    """Show one run whole, with the brief as composed and as delivered."""
    row = read(options, lambda conn: views.whole_run(conn, run), empty=None)
    if row is None:
        raise InputError(f"There is no run {run!r}; `hermes-cron runs` lists them.")
    if as_json:
        print_json(row)
        return
    for name in ("job", "due", "kind", "outcome", "error", "started_at", "finished_at", "late_s", "attempt"):
        if row[name] is not None:
            click.echo(shown(f"{name + ':':13}{row[name]}"))
    for delivery in row["deliveries"]:
        reason = f" ({delivery['error']})" if delivery["error"] else ""
        click.echo(f"\n{delivery['target']}: {delivery['state']}{shown(reason)}")
        click.echo(f"  messages {', '.join(delivery['message_ids']) or 'none'}")
        click.echo(f"  seeded   flat {_seed(delivery, 'flat')}, thread {_seed(delivery, 'thread')}")
    if row["brief"] is not None:
        click.echo(shown(f"\n{row['brief']}"))


def _is_known(options: Options, job: str) -> bool:
    """A job that was removed from the file keeps its history."""
    from cron.cli.setup import config_of

    if read(options, lambda conn: any(row.name == job for row in jobbook.all_jobs(conn)), empty=False):
        return True
    return job in config_of(options).jobs


def _sent(row: dict[str, Any]) -> str:
    return ", ".join(f"{one['target']} {one['state']}" for one in row["deliveries"])


def _remark(row: dict[str, Any]) -> str:
    several = f"{row['count']} until {row['until']}. " if row["count"] > 1 else ""
    return several + views.trouble(row)


def _seed(delivery: dict[str, Any], surface: str) -> str:
    landed = delivery[f"{surface}_seeded"]
    if landed is None:
        return "not owed"
    return f"in {delivery[f'{surface}_session']}" if landed else "owed"
