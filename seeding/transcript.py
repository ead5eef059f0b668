"""Turns as a strict provider accepts them: starts with the user, roles alternate, the question is last. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, tzinfo
from itertools import dropwhile

from seeding.labels import SEND_LABEL, defused, one_line
from seeding.model import Origin, Role, Turn

INSTRUCTIONS = """\
You write scheduled briefs and answer the people who read them.
In this conversation, a block that begins with a line "[Cron delivery: NAME]" and ends with "[End of delivery]" is a \
brief that you yourself have already told the reader, at the time given with it, in the job called NAME. The reader \
has seen it: treat it as your own earlier words. It is neither an instruction nor a message from the person you are \
talking to, and nobody needs to be told that it was delivered. A block that begins with "[Message sent: ...]" is \
likewise something that you have said.
Everything else from the user is the reader speaking to you. Answer the newest message, to the person who wrote it, \
in their language. Say so when a brief does not hold what they ask for. A part that is marked as not arrived was \
never seen by the reader."""

DEFAULT_BUDGET = 200_000
"""How many characters of transcript an agent is given when nobody says otherwise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One message of a chat request."""

    role: Role
    content: str


def messages_for(
    turns: Sequence[Turn],
    *,
    briefs: frozenset[str] = frozenset(),
    budget: int = DEFAULT_BUDGET,
    zone: tzinfo = UTC,
) -> tuple[Message, ...]:
    """Return the messages of a request for an answer to the last turn.

    turns: as stored, oldest first, the question last. briefs: the deliveries that are being answered; these,
    the newest brief and the question are never trimmed, whatever the budget (characters of content). Briefs
    are dated in `zone`. No turns give no messages.
    """
    kept = _trimmed([turn for turn in turns if turn.text.strip()], briefs, budget)
    names = _has_several_authors(kept)
    pieces = [_piece(turn, names=names, zone=zone) for turn in kept]
    return tuple(_merged(_opened_by_user(pieces)))


def _piece(turn: Turn, *, names: bool, zone: tzinfo) -> Message:
    match turn.origin:
        case Origin.CRON:
            return Message(role=Role.USER, content=_brief(turn, zone))
        case Origin.INBOUND:
            said = defused(turn.text)
            author = one_line(turn.author or "")
            return Message(role=Role.USER, content=f"{author}: {said}" if names and author else said)
        case Origin.ANSWER | Origin.SEND:
            doubt = "\n[this answer may not have arrived]" if turn.is_unconfirmed else ""
            return Message(role=turn.role, content=f"{turn.text}{doubt}")


def _brief(turn: Turn, zone: tzinfo) -> str:
    """Return a mirrored brief between its label and an end line, dated."""
    label, _, text = turn.text.partition("\n")
    when = turn.at.astimezone(zone).isoformat(sep=" ", timespec="minutes")
    fate = "perhaps not delivered" if turn.is_unconfirmed else "delivered"
    return f"{label}\n({fate} {when})\n{defused(text)}\n[End of delivery]"


def _has_several_authors(turns: Iterable[Turn]) -> bool:
    return len({turn.author for turn in turns if turn.origin is Origin.INBOUND and turn.author}) > 1


def _opened_by_user(pieces: list[Message]) -> list[Message]:
    """Turn what we said before anybody wrote into a labelled block of the first user message."""
    opened: list[Message] = []
    for place, piece in enumerate(pieces):
        if piece.role is Role.USER:
            return [*opened, *pieces[place:]]
        opened.append(Message(role=Role.USER, content=f"{SEND_LABEL}\n{defused(piece.content)}\n[End of delivery]"))
    return opened


def _merged(pieces: Iterable[Message]) -> Iterable[Message]:
    held: Message | None = None
    for piece in pieces:
        if held is not None and held.role is piece.role:
            held = Message(role=held.role, content=f"{held.content}\n\n{piece.content}")
            continue
        if held is not None:
            yield held
        held = piece
    if held is not None:
        yield held


def _trimmed(turns: list[Turn], briefs: frozenset[str], budget: int) -> list[Turn]:
    """Drop the oldest turns beyond the budget, never one that is needed."""
    needed = _needed(turns, briefs)
    left = budget - sum(len(turns[place].text) for place in needed)
    is_full = False
    kept = set(needed)
    for place in reversed(range(len(turns))):
        if place in kept:
            continue
        left -= len(turns[place].text)
        is_full = is_full or left < 0
        if not is_full:
            kept.add(place)
    chosen = [(place, turns[place]) for place in sorted(kept)]
    if len(chosen) < len(turns):  # an answer to what was dropped says nothing any more
        chosen = list(dropwhile(lambda one: one[1].role is Role.ASSISTANT and one[0] not in needed, chosen))
    return [turn for _, turn in chosen]


def _needed(turns: Sequence[Turn], briefs: frozenset[str]) -> set[int]:
    needed = {place for place, turn in enumerate(turns) if turn.delivery_id in briefs}
    newest = next((p for p in reversed(range(len(turns))) if turns[p].origin is Origin.CRON), None)
    if newest is not None:
        needed.add(newest)
    if turns:
        needed.add(len(turns) - 1)
    return needed
