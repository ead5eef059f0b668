"""What the tests of jobs.yaml share: write a file, load it, read what a person would be told."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from cron.jobs import ConfigError, load_config
from cron.model import Config, Job

ENVIRON = {
    "SLACK_BOT_TOKEN": "xoxb-bot-token",
    "SLACK_APP_TOKEN": "xapp-app-token",
    "TELEGRAM_BOT_TOKEN": "123456:telegram-token",
    "OPENAI_API_KEY": "key-of-openai",
}

ACCOUNTS = """
accounts:
  slack: {bot_token: "${SLACK_BOT_TOKEN}", app_token: "${SLACK_APP_TOKEN}"}
  telegram: {token: "${TELEGRAM_BOT_TOKEN}"}
"""


def load(
    folder: Path, text: str | bytes, *, environ: Mapping[str, str] = ENVIRON, host_zone: str | None = "Europe/Berlin"
) -> Config:
    path = folder / "jobs.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return load_config(path, environ=environ, host_zone=host_zone)


def load_job(folder: Path, lines: str, *, before: str = "") -> Job:
    """Load a file with one job `j`, whose lines are given (schedule and text are there already)."""
    indented = "\n".join(f"    {line}" for line in lines.splitlines())
    has = {line.split(":")[0] for line in lines.splitlines()}
    schedule = "" if "schedule" in has else '    schedule: "@daily"\n'
    text = "" if has & {"command", "prompt", "text"} else "    text: hi\n"
    return load(folder, f"{before}\njobs:\n  j:\n{schedule}{text}{indented}\n").jobs["j"]


def mistakes(folder: Path, text: str | bytes, *, environ: Mapping[str, str] = ENVIRON) -> list[str]:
    """Return what is said about a bad file, without the folder."""
    with pytest.raises(ConfigError) as caught:
        load(folder, text, environ=environ)
    return [mistake.removeprefix(f"{folder}/") for mistake in caught.value.mistakes]
