"""`check` and `schema`: is the file good, and what may stand in it."""

import click

from cron.cli.main import Options
from cron.cli.output import print_json
from cron.cli.setup import config_of


@click.command("check")
@click.pass_obj
def check_command(options: Options) -> None:
    """Validate jobs.yaml without contacting anything; every mistake at once, exit code 2."""
    config = config_of(options)
    for warning in config.warnings:
        click.echo(warning, err=True)
    click.echo(f"{config.path}: {len(config.jobs)} job{'' if len(config.jobs) == 1 else 's'}, all good.")


@click.command("schema")
def schema_command() -> None:
    """Print the JSON Schema of jobs.yaml, for your editor."""
    from cron.jobs import config_schema

    print_json(config_schema())
