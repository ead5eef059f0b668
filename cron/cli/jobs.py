"""`list` and `plan`: what the jobs are, and when they are due."""

import sys
from datetime import datetime
from typing import Any

import click
from sqlalchemy import Connection

from cron import jobbook, views
from cron.cli.client import read
from cron.cli.main import Options
from cron.cli.output import print_json, print_table
from cron.cli.setup import InputError, config_of, home_of, instant, load
from cron.definitions import definition_of, schedule_of
from cron.jobbook import JobRow
from cron.jobs import ConfigError
from cron.model import Job
from cron.schedule import Schedule, clock_note
from state.clock import system_now
from state.lock import HomeLock

Known = tuple[dict[str, JobRow], dict[str, str | None]]


@click.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array.")
@click.pass_obj
def list_command(options: Options, as_json: bool) -> None:
    """List the jobs with their next occurrence and their last outcome.

    If jobs.yaml is bad while a daemon is alive, its mistakes go to stderr and the jobs that are in force are listed.
    """
    try:
        jobs: list[Job] | None = list(load(options).jobs.values())
    except ConfigError as error:
        for mistake in error.mistakes:
            click.echo(mistake, err=True)
        if HomeLock.is_alive(home_of(options)) is None:
            sys.exit(2)
        click.echo("The daemon goes on with the last good file, which is listed here.", err=True)
        jobs = None
    known: Known = read(options, _known, empty=({}, {}))
    now = system_now()
    if jobs is None:
        rows = [_listed_in_force(row, known, now) for row in known[0].values() if not row.is_removed]
    else:
        rows = [_listed(job, known, now) for job in jobs]
    if as_json:
        print_json(rows)
        return
    columns = ("job", "schedule", "next", "timezone", "paused", "last_outcome")
    shown = [[row[name] if name != "paused" else _paused(row) for name in columns] for row in rows]
    print_table([name.replace("_", " ") for name in columns], shown, empty="There are no jobs.")


@click.command("plan")
@click.argument("job", required=False)
@click.option("-n", "count", default=5, show_default=True, type=click.IntRange(1, 10_000), help="How many of each job.")
@click.option("--from", "since", metavar="ISO", help="The instant to look from, exclusive [now].")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array.")
@click.pass_obj
def plan_command(options: Options, job: str | None, count: int, since: str | None, as_json: bool) -> None:
    """Show when jobs are due next, each in its own zone; days on which clocks change are marked."""
    config = config_of(options)
    if job is not None and job not in config.jobs:
        from cron.control import unknown_job  # with all that a daemon is made of, for a mistake

        raise InputError(unknown_job(job, config))
    rows_by_name, _ = read(options, _known, empty=({}, {}))
    now = system_now()
    chosen = config.jobs.values() if job is None else [config.jobs[job]]
    rows: list[dict[str, Any]] = []
    for one in chosen:
        if not one.enabled:
            continue  # it is never due
        asked = now if since is None else instant(since, one.timezone)
        rows.extend(_planned(one, rows_by_name.get(one.name), count, asked, now))
    if as_json:
        print_json(rows)
        return
    print_table(
        ("job", "due", "utc", "note"),
        ((row["job"], row["due"], row["utc"], row["note"]) for row in rows),
        empty="Nothing is due any more.",
    )


def _known(conn: Connection) -> Known:
    return {row.name: row for row in jobbook.all_jobs(conn)}, views.last_outcomes(conn)


def _schedule(job: Job, row: JobRow | None, now: datetime) -> Schedule:
    """The schedule as the daemon sees it; before any daemon has, its intervals begin now."""
    definition = definition_of(job)
    is_begun = row is not None and not row.is_removed
    return schedule_of(definition, row.anchor if row is not None and is_begun else now.replace(microsecond=0))


def _listed(job: Job, known: Known, now: datetime) -> dict[str, Any]:
    rows, _ = known
    following = _schedule(job, rows.get(job.name), now).next_after(now) if job.enabled else None
    return _row(job.name, "; ".join(job.schedules), job.timezone, following, known, now) | {"enabled": job.enabled}


def _listed_in_force(row: JobRow, known: Known, now: datetime) -> dict[str, Any]:
    """List a job from what the daemon wrote down of it."""
    definition: Any = row.definition
    following = schedule_of(definition, row.anchor).next_after(now)
    texts = "; ".join(definition["schedules"])
    return _row(row.name, texts, definition["timezone"], following, known, now) | {"enabled": True}


def _row(
    name: str, schedule: str, zone: str, following: datetime | None, known: Known, now: datetime
) -> dict[str, Any]:
    rows, outcomes = known
    row = rows.get(name)
    pause = None if row is None else row.pause
    if pause is not None and pause.until is not None and pause.until <= now:
        pause = None
    return {
        "job": name,
        "schedule": schedule,
        "timezone": zone,
        "next": views.iso(following, zone),
        "paused": pause is not None,
        "last_outcome": outcomes.get(name),
        "paused_by": None if pause is None else pause.by,
        "paused_at": None if pause is None else views.iso(pause.since, zone),
        "paused_until": None if pause is None else views.iso(pause.until, zone),
    }


def _paused(row: dict[str, Any]) -> str:
    if not row["paused"]:
        return ""
    until = f", until {row['paused_until']}" if row["paused_until"] else ""
    return f"by {row['paused_by']}, {row['paused_at']}{until}"


def _planned(job: Job, row: JobRow | None, count: int, since: datetime, now: datetime) -> list[dict[str, Any]]:
    schedule = _schedule(job, row, now)
    rows: list[dict[str, Any]] = []
    at = schedule.next_after(since)
    while at is not None and len(rows) < count:
        rows.append(
            {
                "job": job.name,
                "due": views.iso(at, job.timezone),
                "utc": views.iso(at),
                "note": clock_note(at, schedule.zone),
            }
        )
        at = schedule.next_after(at)
    return rows
