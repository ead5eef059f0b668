"""Time is an argument: the only file that reads a clock or sleeps.

Everything else takes `Now` and `Sleep` (or a plain aware datetime) from the wiring.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime

Now = Callable[[], datetime]
"""Returns the present instant, aware, in UTC."""

Monotonic = Callable[[], float]
"""Returns seconds that never step back; only differences mean something."""

Sleep = Callable[[float], Awaitable[None]]
"""Waits that many seconds without blocking the event loop."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Clock:
    """The three together, for who makes the parts that take them."""

    now: Now
    monotonic: Monotonic
    sleep: Sleep


def system_now() -> datetime:
    """Return the host's wall clock, aware, in UTC."""
    return datetime.now(UTC)


def system_monotonic() -> float:
    """Return the host's monotonic clock in seconds."""
    return time.monotonic()


async def system_sleep(seconds: float) -> None:
    """Sleep on the running event loop."""
    await asyncio.sleep(seconds)


SYSTEM = Clock(now=system_now, monotonic=system_monotonic, sleep=system_sleep)
