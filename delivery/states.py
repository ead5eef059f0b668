"""What the states of its parts make of a delivery. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from delivery.model import DeliveryState, PartKind, PartState
from delivery.retry import HELD_AFTER

OPEN = frozenset({DeliveryState.PENDING, DeliveryState.SENDING, DeliveryState.IN_DOUBT, DeliveryState.HELD})
"""Not final. At the next start: pending is sent; sending becomes in doubt and is asked for; in_doubt is asked for
while somebody may still be asked, else a person says; held goes on when its account is up or its target resolves."""

CLOSED = frozenset(DeliveryState) - {DeliveryState.PENDING, DeliveryState.SENDING}
"""States in which a run need not wait for the delivery any longer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartFacts:
    """What is decided on about one part."""

    n: int
    kind: PartKind
    state: PartState
    degraded: str | None
    error: str | None
    told_at: datetime | None
    attempts: int = 0
    not_before: datetime | None = None

    @property
    def is_opening(self) -> bool:
        return self.kind is not PartKind.TEXT

    @property
    def is_being_asked(self) -> bool:
        """In doubt, and nobody was told yet: what comes after it waits."""
        return self.state is PartState.IN_DOUBT and self.told_at is None


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The state of a delivery and the sentence that belongs to it."""

    state: DeliveryState
    error: str | None


def judge(parts: Sequence[PartFacts]) -> Verdict:
    """Return what the parts, in order, make of their delivery.

    An opening (header, topic) that failed or stays in doubt only degrades it: the brief is what counts.
    """
    texts = [part for part in parts if not part.is_opening]
    openings = [part for part in parts if part.is_opening]
    busy = [*texts, *(one for one in openings if one.state is not PartState.IN_DOUBT or one.is_being_asked)]
    for state in (DeliveryState.SENDING, DeliveryState.IN_DOUBT, DeliveryState.HELD, DeliveryState.PENDING):
        found = [part for part in busy if _shown_as(part) == state]
        if found:
            return Verdict(state=state, error=_sentence(found))
    return _ended(texts, openings)


def _shown_as(part: PartFacts) -> str:
    if part.state is PartState.PENDING and part.attempts >= HELD_AFTER:
        return PartState.HELD
    return part.state


def _ended(texts: Sequence[PartFacts], openings: Sequence[PartFacts]) -> Verdict:
    if not texts:
        return Verdict(state=DeliveryState.FAILED, error="there was nothing to send")
    rejected = [part for part in texts if part.state is PartState.REJECTED]
    if len(rejected) == len(texts):
        return Verdict(state=DeliveryState.FAILED, error=_sentence(rejected) or "refused")
    flaws = [*openings, *texts]
    lacking = _missing(rejected, len(texts)) if rejected else None
    remarks = [
        lacking,
        *(part.degraded or (part.error if part.is_opening else None) for part in flaws),
    ]
    error = "; ".join(dict.fromkeys(remark for remark in remarks if remark)) or None
    return Verdict(state=DeliveryState.SENT if error is None else DeliveryState.DEGRADED, error=error)


def _missing(rejected: Sequence[PartFacts], of: int) -> str:
    numbers = ", ".join(str(part.n) for part in rejected)
    return f"part {numbers} of {of} was refused: {_sentence(rejected) or 'no reason given'}"


def _sentence(parts: Sequence[PartFacts]) -> str | None:
    return next((part.error for part in parts if part.error), None)


def is_settled(parts: Sequence[PartFacts]) -> bool:
    """Whether no part is waiting or on its way and at least one piece of the brief is confirmed."""
    waiting = {PartState.PENDING, PartState.SENDING}
    return not any(part.state in waiting for part in parts) and any(
        part.state is PartState.SENT and not part.is_opening for part in parts
    )


def next_part(parts: Sequence[PartFacts]) -> PartFacts | None:
    """Return the part to send next, or None while one before it is open, being asked, or nothing is left."""
    for part in parts:
        if part.state is PartState.PENDING:
            return part
        if part.state in (PartState.SENDING, PartState.HELD) or part.is_being_asked:
            return None
    return None
