"""`trigger`: run a job now."""

import sys

import click

from cron.cli.client import act, trigger_and_wait
from cron.cli.main import Options
from cron.cli.output import print_json, shown
from cron.cli.setup import InputError, config_of, home_of, instant


@click.command("trigger")
@click.argument("job")
@click.option("--wait", is_flag=True, help="Wait for the end, print the run's row; exit 1 if it did not go well.")
@click.option("--at", "due", metavar="ISO", help="Replay the occurrence that was due then (in the job's zone).")
@click.option("--to", "targets", multiple=True, metavar="TARGET", help="Deliver here instead; may be repeated.")
@click.option("--dry-run", is_flag=True, help="Compose and print; post and seed nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_obj
def trigger_command(
    options: Options, job: str, wait: bool, due: str | None, targets: tuple[str, ...], dry_run: bool, as_json: bool
) -> None:
    """Run a job now: in the living daemon, or here where none is alive. It moves no schedule."""
    from cron.control import is_good
    from state.lock import HomeLock

    if dry_run and (due is not None or targets):
        raise InputError("--dry-run posts nothing, so --at and --to mean nothing with it; leave them out.")
    asked = {"job": job, "at": None if due is None else _instant(options, job, due), "to": list(targets)}

    if dry_run:
        made = act(options, "dry-run", job=job)
        if as_json:
            print_json(made)
        else:
            click.echo(shown(made["text"]))
        return
    if not wait and HomeLock.is_alive(home_of(options)) is not None:
        run = act(options, "trigger", **asked)["run"]
        if as_json:
            print_json({"job": job, "run": run})
        else:
            click.echo(f"Started as {run}; `hermes-cron show {run}` tells how it went.")
        return
    # Without a daemon there is nobody else who could carry it out: it runs here, to its end.
    row = trigger_and_wait(options, **asked)
    if as_json:
        print_json(row)
    else:
        sent = ", ".join(f"{one['target']} {one['state']}" for one in row["deliveries"])
        told = [f"{row['run']}: {row['outcome']}", *([sent] if sent else []), *([row["error"]] if row["error"] else [])]
        click.echo(shown("; ".join(told)))
    sys.exit(0 if is_good(row) else 1)


def _instant(options: Options, job: str, text: str) -> str:
    """Read an instant in the job's zone."""
    known = config_of(options).jobs.get(job)
    return instant(text, "UTC" if known is None else known.timezone).isoformat()
