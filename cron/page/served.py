"""What the page shows and acts on, and what its routes share."""

import asyncio
from dataclasses import dataclass
from typing import Protocol

from cron.control import Control
from cron.current import CurrentConfig
from cron.daemon import Daemon
from delivery.platforms.local import LocalPlatform
from state.clock import Sleep
from state.database import Database


class Served(Protocol):
    """What is served; `cron.wiring.Wired` is one."""

    @property
    def daemon(self) -> Daemon: ...
    @property
    def control(self) -> Control: ...
    @property
    def db(self) -> Database: ...
    @property
    def local(self) -> LocalPlatform: ...
    @property
    def current(self) -> CurrentConfig: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Desk:
    """What every route has at hand. `stop` ends open event streams, `closing` what still waits for an end."""

    served: Served
    stop: asyncio.Event
    closing: asyncio.Event
    sleep: Sleep

    @property
    def db(self) -> Database:
        """The database; routes only read it, writing is for the verbs."""
        return self.served.db
