"""What most commands begin with: the home, the config, and failures as one sentence with an exit code."""

import contextlib
import os
import sys
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import click

from cron.cli.main import Options
from cron.home import default_home, find_config, host_zone
from cron.jobs import ConfigError, load_config
from cron.model import Config
from cron.schedule import ScheduleError, parse_instant
from state.clock import system_now
from state.errors import StateError


class InputError(click.ClickException):
    """The input is wrong: exit code 2."""

    exit_code = 2


class Failure(click.ClickException):
    """It failed: exit code 1."""

    exit_code = 1


def home_of(options: Options) -> Path:
    """Return the home that the options name."""
    if options.home is not None:
        return options.home.expanduser().absolute()
    return default_home(os.environ)


def config_path(options: Options) -> Path:
    """Return the jobs.yaml that the options name. Raises InputError if there is none."""
    path = find_config(options.config, home_of(options))
    if not path.exists():
        raise InputError(f"There is no {path}; `hermes-cron init` writes one, and --config names another.")
    return path


def load(options: Options) -> Config:
    """Read the config. Raises ConfigError, InputError."""
    return load_config(config_path(options), environ=os.environ, host_zone=host_zone(os.environ), now=system_now())


def config_of(options: Options) -> Config:
    """Read the config; every mistake goes to stderr, exit code 2."""
    try:
        return load(options)
    except ConfigError as error:
        for mistake in error.mistakes:
            click.echo(mistake, err=True)
        sys.exit(2)


@contextlib.contextmanager
def told() -> Iterator[None]:
    """Turn the failures of state into one sentence and exit code 1."""
    try:
        yield
    except StateError as error:
        raise Failure(str(error)) from error


def instant(text: str, zone: str = "UTC") -> datetime:
    """Read an ISO instant from the command line; without an offset it is in the zone. Raises InputError."""
    try:
        return parse_instant(text, ZoneInfo(zone))
    except ScheduleError as error:
        raise InputError(f"{text!r}: {error}") from error
