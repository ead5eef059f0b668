"""What the states of its parts make of a delivery."""

import pytest

from delivery.model import PartKind, PartState
from delivery.states import PartFacts, is_settled, judge, next_part
from delivery.testing import START

P, S, OK, NO, DOUBT, HELD = (
    PartState.PENDING,
    PartState.SENDING,
    PartState.SENT,
    PartState.REJECTED,
    PartState.IN_DOUBT,
    PartState.HELD,
)


def parts(*states, header=None, told=False, **more):
    kinds = [] if header is None else [(0, PartKind.HEADER, header)]
    kinds += [(n, PartKind.TEXT, state) for n, state in enumerate(states, start=1)]
    return [
        PartFacts(
            n=n,
            kind=kind,
            state=state,
            degraded=more.get("degraded"),
            error="why" if state in (NO, DOUBT, HELD) else None,
            told_at=START if told and state is DOUBT else None,
            attempts=more.get("attempts", 0),
        )
        for n, kind, state in kinds
    ]


@pytest.mark.parametrize(
    ("given", "state", "error"),
    [
        (parts(P, P), "pending", None),
        (parts(OK, P), "pending", None),
        (parts(OK, S, P), "sending", None),
        (parts(OK, OK), "sent", None),
        (parts(OK, OK, degraded="without its table"), "degraded", "without its table"),
        (parts(NO, NO), "failed", "why"),
        (parts(OK, NO), "degraded", "part 2 of 2 was refused: why"),
        (parts(OK, DOUBT), "in_doubt", "why"),
        (parts(OK, DOUBT, P), "in_doubt", "why"),
        (parts(HELD, HELD), "held", "why"),
        (parts(P, attempts=6), "pending", None),
        (parts(P, attempts=7), "held", None),
        (parts(OK, header=OK), "sent", None),
        (parts(NO, header=OK), "failed", "why"),
        (parts(OK, header=NO), "degraded", "why"),
        (parts(P, header=DOUBT), "in_doubt", "why"),
        (parts(OK, header=DOUBT, told=True), "degraded", "why"),
        (parts(), "failed", "there was nothing to send"),
        (parts(header=OK), "failed", "there was nothing to send"),
    ],
)
def test_a_delivery_is_what_its_parts_are(given, state, error):
    verdict = judge(given)
    assert (verdict.state, verdict.error) == (state, error)


@pytest.mark.parametrize(
    ("given", "settled"),
    [
        (parts(OK), True),
        (parts(OK, P), False),
        (parts(OK, S), False),
        (parts(OK, NO), True),
        (parts(OK, DOUBT), True),
        (parts(OK, HELD), True),
        (parts(NO), False),
        (parts(DOUBT), False),
        (parts(NO, header=OK), False),
    ],
)
def test_what_is_confirmed_is_seeded_once_nothing_is_on_its_way(given, settled):
    assert is_settled(given) is settled


@pytest.mark.parametrize(
    ("given", "n"),
    [
        (parts(P, P), 1),
        (parts(OK, P), 2),
        (parts(NO, P), 2),
        (parts(S, P), None),
        (parts(DOUBT, P), None),
        (parts(DOUBT, P, told=True), 2),
        (parts(HELD, P), None),
        (parts(P, header=P), 0),
        (parts(P, header=NO), 1),
        (parts(OK), None),
    ],
)
def test_parts_go_in_order_and_wait_for_one_that_is_being_asked_about(given, n):
    chosen = next_part(given)
    assert (None if chosen is None else chosen.n) == n
