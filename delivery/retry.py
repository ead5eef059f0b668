"""When something that failed is tried again: pure decisions over what is stored. No clock, no randomness."""

from dataclasses import dataclass
from datetime import datetime, timedelta

ASK_AFTER = timedelta(seconds=30)
"""A POST of a killed process can still be on its way for this long after its intent."""

SETTLES_WITHIN = timedelta(seconds=5)
"""How long after a request's own timeout the platform may still take to show what it accepted."""

DAY = timedelta(hours=24)


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """Growing waits: `first`, then twice as long each time, at most `longest`; none after `tries`."""

    first: timedelta = timedelta(seconds=1)
    longest: timedelta = timedelta(minutes=5)
    tries: int = 300  # with these waits: about a day

    def wait(self, attempts: int) -> timedelta:
        """Return the wait after that many failed attempts (1 or more) in a row."""
        doublings = min(max(attempts, 1) - 1, 32)
        return min(self.first * (1 << doublings), self.longest)


SENDS = RetryPolicy()
CONNECTS = RetryPolicy()
HELD_AFTER = 7
"""A delivery that surely was not sent in so many tries (about a minute) counts as held: nobody waits for it."""


def next_try(policy: RetryPolicy, *, attempts: int, at: datetime) -> datetime | None:
    """Return when to try again after `attempts` tries that surely did nothing, or None to give up."""
    return None if attempts >= policy.tries else at + policy.wait(attempts)


def next_resolve(*, since: datetime, at: datetime) -> datetime | None:
    """Return when a target that is not known yet is looked up again, or None to give up."""
    due = at + min(max(at - since, timedelta(seconds=30)), timedelta(minutes=15))
    return None if due - since > DAY else due


def first_ask(intent_at: datetime, request_timeout: timedelta) -> datetime:
    """Return the earliest instant at which "it is not there" means something."""
    return intent_at + max(ASK_AFTER, request_timeout + SETTLES_WITHIN)


def next_ask(*, intent_at: datetime, at: datetime) -> datetime | None:
    """Return when to ask again after the platform could not tell; None: a person has to say."""
    due = at + max(at - intent_at, ASK_AFTER)
    return None if due - intent_at > DAY else due
