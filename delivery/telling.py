"""What is logged and told about deliveries, once it is durable. Never a message's text."""

import logging
from collections.abc import Callable

from delivery.model import (
    CannotTell,
    DeliveryState,
    FindResult,
    OutgoingPart,
    Receipt,
    SendResult,
    Sent,
    Throttled,
)
from delivery.rows import DeliverySummary
from delivery.settling import Recorded, SeedOwed
from delivery.states import CLOSED

_WORDS = {
    DeliveryState.SENT: (logging.INFO, "A delivery arrived."),
    DeliveryState.DEGRADED: (logging.WARNING, "A delivery arrived, but not as asked."),
    DeliveryState.FAILED: (logging.ERROR, "A delivery failed."),
    DeliveryState.HELD: (logging.WARNING, "A delivery is held; it surely was not sent."),
    DeliveryState.IN_DOUBT: (logging.WARNING, "A delivery may have arrived; this is being looked into."),
}


class Teller:
    """Logs what became of deliveries, and tells whoever waits for them."""

    def __init__(self, on_settled: Callable[[DeliverySummary], None], log: logging.Logger) -> None:
        self._on_settled = on_settled
        self.log = log

    def recorded(self, recorded: Recorded) -> None:
        """Tell of one transaction."""
        if recorded.owed is not None:
            self._owed(recorded.owed)
        self.tell(recorded.changed)

    def tell(self, changed: tuple[DeliverySummary, ...]) -> None:
        """Tell of deliveries whose state changed."""
        for summary in changed:
            if summary.state in CLOSED:
                self._one(summary)

    def _one(self, summary: DeliverySummary) -> None:
        level, words = _WORDS[summary.state]
        self.log.log(
            level,
            words,
            extra={
                "action": f"delivery_{summary.state}",
                "delivery": summary.id,
                "job": summary.job,
                "run": summary.run_id,
                "target": summary.target,
                "account": summary.account,
                "reason": summary.error,
            },
        )
        try:
            self._on_settled(summary)
        except Exception:  # around one delivery: a listener's bug must not stop the others'
            self.log.exception(
                "Whoever waits for a delivery could not be told.",
                extra={"action": "delivery_not_told", "delivery": summary.id},
            )

    def _owed(self, owed: SeedOwed) -> None:
        self.log.warning(
            "A seed failed; the delivery stands, the seed is tried again.",
            extra={
                "action": "seed_failed",
                "job": owed.job,
                "delivery": owed.delivery_id,
                "surface": owed.surface,
                "session": owed.session,
                "reason": owed.error,
            },
        )

    def called(self, part: OutgoingPart, result: SendResult) -> None:
        """Log how one send ended, before it is stored."""
        sent = result.receipt.address if isinstance(result, Sent) else None
        self.log.log(
            logging.INFO if sent is not None else logging.WARNING,
            "A part was sent." if sent is not None else "A part was not confirmed.",
            extra={
                "action": "part_sent" if sent is not None else "part_not_confirmed",
                "delivery": part.delivery_id,
                "part": part.n,
                "outcome": type(result).__name__,
                "account": part.address.account,
                "chat": part.address.chat if sent is None else sent.chat,
                "topic": part.address.topic if sent is None else sent.topic,
                "root": part.address.root if sent is None else sent.root,
                "message_id": None if sent is None else sent.message,
                "retry_after": result.retry_after if isinstance(result, Throttled) else None,
                "reason": getattr(result, "reason", None),
            },
        )

    def asked(self, part: OutgoingPart, result: FindResult) -> None:
        """Log what a platform said about a part in doubt; that it cannot tell is for a person."""
        cannot = isinstance(result, CannotTell)
        self.log.log(
            logging.WARNING if cannot else logging.INFO,
            "Whether a part arrived cannot be told; it waits for a person."
            if cannot
            else "A platform was asked about a part in doubt.",
            extra={
                "action": "part_held_for_a_person" if cannot else "part_asked_for",
                "delivery": part.delivery_id,
                "part": part.n,
                "outcome": type(result).__name__,
                "account": part.address.account,
                "chat": part.address.chat,
                "reason": result.reason if isinstance(result, CannotTell) else None,
            },
        )

    def not_stored(self, part: OutgoingPart, receipt: Receipt | None, outcome: str, error: Exception) -> None:
        """Log a result that could not be stored, whole: it may be all that is left of it."""
        address = part.address if receipt is None else receipt.address
        self.log.error(
            "What a platform answered could not be stored; it is kept and tried again.",
            extra={
                "action": "receipt_not_stored" if receipt is not None else "result_not_stored",
                "delivery": part.delivery_id,
                "part": part.n,
                "outcome": outcome,
                "account": address.account,
                "workspace": address.workspace,
                "chat": address.chat,
                "topic": address.topic,
                "root": address.root,
                "message_id": address.message,
                "sent_at": None if receipt is None else receipt.at.isoformat(),
                "raw": None if receipt is None else dict(receipt.raw),
                "reason": f"{type(error).__name__}: {error}",
            },
        )
