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
        self._config, self._redactor = config, Redactor(config.secrets)
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


async def watch(path: Path, changed: Callable[[], Awaitable[None]]) -> None:
    """Call back after each change in the file's folder, until cancelled.

    The folder is watched, not the file: a watched file goes blind after the first atomic replace, and a mounted
    volume is swapped by a link of another name.
    """
    from watchfiles import awatch

    async for _ in awatch(path.parent, recursive=False, debounce=200, step=20, rust_timeout=1_000):
        await changed()
