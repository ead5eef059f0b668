"""How an occurrence ends, and of which kind it is: the words of the ledger."""

from enum import StrEnum


class Outcome(StrEnum):
    """How an occurrence ended. Null in the ledger while it is open."""

    RAN = "ran"
    SILENT = "silent"
    FAILED = "failed"  # also: cancelled, interrupted by shutdown; the row's `error` says which
    SKIPPED_LATE = "skipped_late"
    SKIPPED_OVERLAP = "skipped_overlap"
    SKIPPED_PAUSED = "skipped_paused"
    SKIPPED_CALENDAR = "skipped_calendar"
    COALESCED = "coalesced"
    UNKNOWN = "unknown"  # the daemon died while it ran, and it may not be run again


class OccurrenceKind(StrEnum):
    """Why an occurrence exists."""

    SCHEDULED = "scheduled"
    MANUAL = "manual"
    REPLAY = "replay"


class RunState(StrEnum):
    """How far a run is. What a restart does with each state that is not closed:

    claimed: run it if it is still inside `late`, else skipped_late. composing: run it again only if the job is
    repeatable, inside `late` and has an attempt left, else unknown. composed: its deliveries go on; it closes
    when each has ended.
    """

    CLAIMED = "claimed"
    COMPOSING = "composing"
    COMPOSED = "composed"
    CLOSED = "closed"
