"""Small verbs on jobs, runs, deliveries and conversations."""

import click

from cron.cli.client import act
from cron.cli.main import Options
from cron.cli.setup import InputError, instant


@click.command("pause")
@click.argument("job")
@click.option("--until", metavar="ISO", help="When it goes on by itself.")
@click.pass_obj
def pause_command(options: Options, job: str, until: str | None) -> None:
    """Skip a job's occurrences until it is resumed."""
    at = None if until is None else instant(until).isoformat()
    act(options, "pause", job=job, until=at)
    click.echo(f"Paused {job}" + (f" until {at}." if at else f"; `hermes-cron resume {job}` ends it."))


@click.command("resume")
@click.argument("job")
@click.pass_obj
def resume_command(options: Options, job: str) -> None:
    """End a pause or a snooze; what it covered is not run."""
    act(options, "resume", job=job)
    click.echo(f"{job} goes on.")


@click.command("snooze")
@click.argument("job")
@click.argument("length")
@click.pass_obj
def snooze_command(options: Options, job: str, length: str) -> None:
    """Skip a job's occurrences for a while, such as 30m, 2h or 1d."""
    from cron.schedule import ScheduleError, parse_duration

    try:
        parsed = parse_duration(length)
    except ScheduleError as error:
        raise InputError(f"{length!r}: {error}") from error
    if parsed is None:
        raise InputError(f"{length!r} is no length of time; write 30m, 2h or 1d.")
    until = act(options, "snooze", job=job, seconds=parsed.total_seconds())["until"]
    click.echo(f"{job} sleeps until {until}.")


@click.command("cancel")
@click.argument("run")
@click.pass_obj
def cancel_command(options: Options, run: str) -> None:
    """End a run that is composing, with all the processes that it started."""
    act(options, "cancel", run=run)
    click.echo(f"Cancelled {run}.")


@click.command("resend")
@click.argument("run")
@click.argument("target", required=False)
@click.pass_obj
def resend_command(options: Options, run: str, target: str | None) -> None:
    """Send a composed brief again where its delivery failed."""
    count = act(options, "resend", run=run, target=target)["deliveries"]
    click.echo(f"Sending {count} again." if count != 1 else "Sending it again.")


@click.command("resolve")
@click.argument("delivery")
@click.argument("verdict", type=click.Choice(["sent", "resend"]))
@click.pass_obj
def resolve_command(options: Options, delivery: str, verdict: str) -> None:
    """Settle a delivery in doubt: it was sent, or send it again."""
    act(options, "resolve", delivery=delivery, verdict=verdict)
    click.echo(f"{delivery}: {verdict}.")


@click.command("forget")
@click.argument("session")
@click.pass_obj
def forget_command(options: Options, session: str) -> None:
    """Remove a conversation and its keys."""
    act(options, "forget", session=session)
    click.echo(f"Forgot {session}.")
