"""`init`: a commented jobs.yaml to begin with, and the schema for the editor."""

import importlib.resources
import json

import click

from cron.cli.main import Options
from cron.cli.setup import InputError
from cron.home import CONFIG_NAME

SCHEMA_NAME = "jobs.schema.json"


@click.command("init")
@click.option("--force", is_flag=True, help="Replace a jobs.yaml that is there.")
@click.pass_obj
def init_command(options: Options, force: bool) -> None:
    """Write a commented jobs.yaml (to --config, else here) and the schema for your editor."""
    from pathlib import Path

    from cron.jobs import config_schema

    path = (options.config or Path.cwd() / CONFIG_NAME).expanduser().absolute()
    if path.exists() and not force:
        raise InputError(f"{path} is there already; --force replaces it.")
    template = importlib.resources.files("cron.cli").joinpath("template.yaml").read_text(encoding="utf-8")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(template, encoding="utf-8")
        schema = path.with_name(SCHEMA_NAME)
        schema.write_text(json.dumps(config_schema(), indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror}.") from error
    click.echo(f"Wrote {path} and {schema.name}. Next: hermes-cron check, then hermes-cron run.")
