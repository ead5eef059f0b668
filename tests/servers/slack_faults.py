"""Faults that a test asks for, and the record of every call."""

from dataclasses import dataclass
from enum import StrEnum

from servers.slack_world import Json


class FaultKind(StrEnum):
    """What goes wrong with one call; `before` and `after` mean before and after the method took effect."""

    CUT_BEFORE = "cut_before"  # the connection drops, nothing was stored
    CUT_AFTER = "cut_after"  # stored, then the connection drops without a response
    SLOW = "slow"  # stored at once, answered after `seconds`
    SLOW_BEFORE = "slow_before"  # stored only after `seconds`, then answered, though the client be gone
    RATE_LIMITED = "429"  # nothing stored; Retry-After: `retry_after`
    HTTP_500_BEFORE = "http_500_before"
    HTTP_500_AFTER = "http_500_after"
    ERROR = "error"  # nothing stored; `ok: false` with `code`
    ERROR_AFTER = "error_after"  # stored all the same (Slack's fatal_error allows it)
    TRUNCATED = "truncated"  # stored; the connection drops in the middle of the body
    HTML = "html"  # stored; 200 with a page of some proxy instead of JSON


BEFORE = {
    FaultKind.CUT_BEFORE,
    FaultKind.RATE_LIMITED,
    FaultKind.HTTP_500_BEFORE,
    FaultKind.ERROR,
}


class Outage(StrEnum):
    """How the whole server is away."""

    CUT = "cut"  # connections are accepted and dropped; sockets are dead
    HTTP_503 = "http_503"


@dataclass(slots=True, kw_only=True)
class Fault:
    """One order of a test: the calls number `skip` to `skip + times` that match go wrong."""

    method: str
    kind: FaultKind
    times: int | None = 1  # None: until cleared
    skip: int = 0
    channel: str | None = None
    seconds: float = 0.0
    retry_after: int = 30
    code: str = "fatal_error"
    hits: int = 0

    def takes(self, method: str, channel: str | None) -> bool:
        """Say whether this call goes wrong, and count it."""
        if method != self.method and self.method != "*":
            return False
        if self.channel is not None and self.channel != channel:
            return False
        if self.skip > 0:
            self.skip -= 1
            return False
        if self.times is not None and self.hits >= self.times:
            return False
        self.hits += 1
        return True


@dataclass(slots=True, kw_only=True)
class Call:
    """One call of the Web API. `result`: `ok`, Slack's error code, or the fault's kind; None while it runs."""

    method: str
    args: Json
    token: str | None
    began_at: float
    ended_at: float | None = None
    result: str | None = None


class Faults:
    """The orders still open, in the sequence in which they were given."""

    def __init__(self) -> None:
        self._orders: list[Fault] = []

    def add(self, fault: Fault) -> Fault:
        """Keep an order and return it, so that the test can read its `hits`."""
        self._orders.append(fault)
        return fault

    def clear(self) -> None:
        """Forget all orders."""
        self._orders.clear()

    def for_call(self, method: str, channel: str | None) -> Fault | None:
        """Return the order that this call falls under, if any."""
        return next((f for f in self._orders if f.takes(method, channel)), None)
