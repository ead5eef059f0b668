"""The jobs.yaml that is in force, and what became of the newest one that was read."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from functools import partial
from pathlib import Path

from cron.jobs import ConfigError, load_config
from cron.model import Config
from cron.redact import Redactor

log = logging.getLogger(__name__)

Apply = Callable[[Config], Awaitable[None]]
"""Puts a good config in force. Called one at a time."""


class CurrentConfig:
    """Holds the last good config. A bad file changes nothing: it is reported, and the last good one goes on."""

    def __init__(
        self, config: Config, *, environ: Mapping[str, str], host_zone: str | None, now: Callable[[], datetime]
    ) -> None:
        self._config = config
        self._environ = environ
        self._host_zone = host_zone
        self._now = now
        self._redactor = Redactor(config.secrets)
        self._mistakes: tuple[str, ...] = ()

    def __call__(self) -> Config:
        """Return the config in force."""
        return self._config

    def redactor(self) -> Redactor:
        """Return what takes the secrets of the config in force out of a text."""
        return self._redactor

    @property
    def mistakes(self) -> tuple[str, ...]:
        """Why the newest file is not in force; empty while it is."""
        return self._mistakes

    async def reread(self, apply: Apply) -> bool:
        """Read the file again and put it in force if it is good and new; True if that happened."""
        try:
            config = await asyncio.to_thread(
                partial(
                    load_config, self._config.path, environ=self._environ, host_zone=self._host_zone, now=self._now()
                )
            )
        except ConfigError as error:
            self._refused(tuple(error.mistakes))
            return False
        if self._mistakes:
            log.info("jobs.yaml is good again.", extra={"action": "config_good_again"})
        self._mistakes = ()
        if config.fingerprint == self._config.fingerprint:
            return False
        before = self._config
        self._config, self._redactor = config, Redactor(config.secrets)
        _log_changes(before, config)
        await apply(config)
        return True

    def _refused(self, mistakes: tuple[str, ...]) -> None:
        if mistakes == self._mistakes:
            return
        self._mistakes = mistakes
        for mistake in mistakes:
            log.error(
                "jobs.yaml is refused, the last good one goes on: %s", mistake, extra={"action": "config_refused"}
            )


def log_warnings(config: Config) -> None:
    """Say what `check` would: things that are allowed, but perhaps not meant."""
    for warning in config.warnings:
        log.warning("%s", warning, extra={"action": "config_warning"})


def _log_changes(before: Config, after: Config) -> None:
    """Log one line per account, target and agent that changed; jobs are logged where they are applied."""
    sections = {
        "account": (before.accounts, after.accounts),
        "target": (before.targets, after.targets),
        "agent": (before.agents, after.agents),
    }
    for kind, (old, new) in sections.items():
        for name in sorted({*old, *new}):
            if old.get(name) != new.get(name):
                what = "added" if name not in old else "removed" if name not in new else "changed"
                log.info("An entry was %s.", what, extra={"action": "config_changed", "kind": kind, "entry": name})
    if before.timezone != after.timezone:
        log.info("The default zone was changed.", extra={"action": "config_changed", "zone": after.timezone})
    if before.warnings != after.warnings:
        log_warnings(after)


async def watch(path: Path, changed: Callable[[], Awaitable[None]]) -> None:
    """Call back after each change in the file's folder, until cancelled.

    The folder is watched, not the file: a watched file goes blind after the first atomic replace, and a mounted
    volume is swapped by a link of another name.
    """
    from watchfiles import awatch

    async for _ in awatch(path.parent, recursive=False, debounce=200, step=20, rust_timeout=1_000):
        await changed()
